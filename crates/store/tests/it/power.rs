//! The machine dies, at every moment.
//!
//! What a process writes is recorded as the system calls that it makes, by `strace`: those
//! of SQLite as well as our own, with nothing put in between. The record is then cut at
//! every call, and for each cut there are disks made that the machine may have left:
//!
//! - one that has forgotten all that was not forced to it,
//! - ones that have some of that and not the rest: any of the writes, by sectors of 512
//!   bytes, and of the names that were made, changed or removed the first few.
//!
//! From each the store is opened. Names in a folder are forced to the disk by forcing the
//! folder alone, which is more than today's file systems ask for. Of what such a disk does
//! not show: sectors that are damaged though nobody was writing to them, and disks that
//! say that they have written what they have not.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_store::{Bodies, BodyId, Reader, Sqlite, Writer};

use crate::crash::{batch, check, n_batches};

const FOLDER: &str = "SPRINGTIDE_STORE_POWER_FOLDER";
const NAME: &str = "power::what_was_acknowledged_survives_the_death_of_the_machine";
/// Calls that change what is on a disk, or force it there.
const CALLS: &str = "trace=openat,write,pwrite64,ftruncate,fallocate,fsync,fdatasync,rename,\
                     renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,lseek";
const SECTOR: usize = 512;
/// So small that several are filled, and rewritten.
const SEGMENT_BYTES: u64 = 4_000;

#[test]
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
fn what_was_acknowledged_survives_the_death_of_the_machine() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        work(Path::new(&folder));
        return;
    }
    let tried = Command::new("strace").args(["-qq", "true"]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        eprintln!("left out: there is no strace, or it may not record what is written");
        return;
    }
    let outer = tempfile::tempdir().unwrap();
    let (folder, record) = (outer.path().join("project"), outer.path().join("record"));
    fs::create_dir(&folder).unwrap();
    let before = Disk::with_old_bodies(&folder);
    let recorded = Command::new("strace")
        .args(["-f", "-y", "-xx", "-s", "100000000", "-e", CALLS, "-o"])
        .arg(&record)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(FOLDER, &folder)
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{recorded:?}");
    let acts = acts(&fs::read_to_string(&record).unwrap(), &folder);
    let n_said = acts
        .iter()
        .filter(|act| matches!(act, Act::Said(_)))
        .count();
    let n_forced = acts
        .iter()
        .filter(|act| matches!(act, Act::Forced(_)))
        .count();
    assert!(
        n_said >= 16 && n_forced >= 2 * n_said,
        "{n_said} {n_forced}"
    );

    let mut rng = Pcg64::seed_from_u64(13);
    let mut disk = before;
    let mut said = 0;
    let mut n_cuts = 0;
    // Where nothing has to be waited for.
    let quick = Path::new("/dev/shm");
    let after = match quick.is_dir() {
        true => tempfile::tempdir_in(quick),
        false => tempfile::tempdir(),
    };
    let after = after.unwrap();
    let mut open = |left: &BTreeMap<PathBuf, Vec<u8>>, folders: &[PathBuf], said: u64| {
        let place = after.path().join(n_cuts.to_string());
        n_cuts += 1;
        lay_out(&place, left, folders);
        let n = check(&place.join("store"), said);
        assert!(n >= said);
        fs::remove_dir_all(&place).unwrap();
    };
    for act in &acts {
        if let Act::Said(number) = act {
            said = *number;
        }
        let has_forced = disk.take(act);
        if has_forced || matches!(act, Act::Said(_)) {
            let (left, folders) = disk.left(&mut |_| false, 0);
            open(&left, &folders, said);
        }
        if !matches!(act, Act::Said(_)) {
            // What has been begun and not forced is some of it there, in any order.
            let share = rng.random_range(0.0..=1.0);
            let n_names = rng.random_range(0..=disk.names.len());
            let (left, folders) = disk.left(&mut |_| rng.random_bool(share), n_names);
            open(&left, &folders, said);
        }
    }
    let (left, folders) = disk.left(&mut |_| true, usize::MAX);
    open(&left, &folders, said);
    assert!(n_cuts > 500, "only {n_cuts} cuts");
}

/// All that a store does: batches with bodies, bodies of an earlier version, a collection,
/// the end of a run and the beginning of another.
#[expect(
    clippy::print_stdout,
    reason = "it is how what is kept is acknowledged"
)]
fn work(folder: &Path) {
    let place = folder.join("store");
    for _ in 0..2 {
        let mut store = Sqlite::create_or_open(&place).unwrap();
        let bodies = Bodies::open(place.join("bodies"))
            .unwrap()
            .with_segments_of(SEGMENT_BYTES);
        for step in 0..8 {
            let number = n_batches(&store) + 1;
            let facts = batch(&store, &bodies, number);
            // Something that nothing names.
            bodies.put(&old_body(1000 + number)).unwrap();
            bodies.flush().unwrap();
            store.commit(&facts).unwrap();
            println!("{number}");
            bodies.bring_over(2).unwrap();
            if step % 4 == 3 {
                let mut collection = bodies.collect().unwrap();
                store.bodies(&mut |body| collection.mark(body)).unwrap();
                let go_on = &mut || ControlFlow::Continue(());
                assert!(collection.sweep(0.1, go_on).unwrap().n_bodies > 0);
            }
        }
        store.close().unwrap();
    }
}

/// The body that batch `number` of an earlier version would have kept: the same.
fn old_body(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(100)
}

/// A call that matters, with paths below the folder.
#[derive(Debug, Clone)]
enum Act {
    Made(PathBuf),
    MadeFolder(PathBuf),
    Wrote(PathBuf, u64, Rc<[u8]>),
    Cut(PathBuf, u64),
    /// A file, or the names in a folder.
    Forced(PathBuf),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
    Said(u64),
}

/// What was called, in its order.
fn acts(record: &str, folder: &Path) -> Vec<Act> {
    let mut acts = Vec::new();
    let mut unfinished: BTreeMap<&str, String> = BTreeMap::new();
    let mut offsets: BTreeMap<PathBuf, u64> = BTreeMap::new();
    let mut known: Vec<PathBuf> = Vec::new();
    for line in record.lines() {
        let (thread, call) = line.split_once(' ').unwrap();
        let call = call.trim_start();
        let call = if let Some(begun) = call.strip_suffix(" <unfinished ...>") {
            unfinished.insert(thread, begun.to_owned());
            continue;
        } else if let Some((_, rest)) = call.split_once(" resumed>") {
            unfinished.remove(thread).unwrap() + rest
        } else {
            call.to_owned()
        };
        let Some((name, rest)) = call.split_once('(') else {
            continue;
        };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else {
            continue;
        };
        if result.starts_with('-') || result.starts_with('?') {
            continue;
        }
        let arguments = arguments.trim_end().trim_end_matches(')');
        let texts: Vec<Vec<u8>> = quoted(arguments);
        let path = |bytes: &[u8]| PathBuf::from(std::str::from_utf8(bytes).unwrap());
        let inside = |path: PathBuf| path.strip_prefix(folder).ok().map(Path::to_path_buf);
        let number = |text: &str| text.trim().parse::<u64>().unwrap();
        match name {
            "openat" => {
                let Some(path) = inside(path(&texts[0])) else {
                    continue;
                };
                if arguments.contains("O_CREAT") && !known.contains(&path) {
                    known.push(path.clone());
                    acts.push(Act::Made(path.clone()));
                }
                if arguments.contains("O_TRUNC") {
                    acts.push(Act::Cut(path, 0));
                }
            }
            "mkdir" | "mkdirat" => {
                if let Some(path) = inside(path(&texts[0])) {
                    acts.push(Act::MadeFolder(path));
                }
            }
            "unlink" | "unlinkat" | "rmdir" => {
                if let Some(path) = inside(path(&texts[0])) {
                    known.retain(|known| *known != path);
                    acts.push(Act::Removed(path));
                }
            }
            "rename" | "renameat" | "renameat2" => {
                let (from, to) = (inside(path(&texts[0])), inside(path(&texts[1])));
                if let (Some(from), Some(to)) = (from, to) {
                    known.retain(|known| *known != from);
                    known.push(to.clone());
                    acts.push(Act::Renamed(from, to));
                }
            }
            _ => {
                let open = opened(arguments);
                let Some(file) = inside(path(&open)) else {
                    if name == "write"
                        && arguments.starts_with("1<")
                        && let Some(text) = texts.first()
                        && let Ok(text) = std::str::from_utf8(text)
                        && let Ok(number) = text.trim().parse()
                    {
                        acts.push(Act::Said(number));
                    }
                    continue;
                };
                let last = || number(arguments.rsplit(", ").next().unwrap());
                match name {
                    "lseek" => {
                        offsets.insert(file, number(result.split(' ').next().unwrap()));
                    }
                    "write" => {
                        let n = number(result) as usize;
                        let offset = offsets.entry(file.clone()).or_default();
                        acts.push(Act::Wrote(file, *offset, texts[0][..n].into()));
                        *offset += n as u64;
                    }
                    "pwrite64" => {
                        let n = number(result) as usize;
                        acts.push(Act::Wrote(file, last(), texts[0][..n].into()));
                    }
                    "ftruncate" => acts.push(Act::Cut(file, last())),
                    "fsync" | "fdatasync" => acts.push(Act::Forced(file)),
                    "fallocate" => panic!("nobody is known to do so"),
                    _ => {}
                }
            }
        }
    }
    acts
}

/// What is between the brackets after the number of an open file.
fn opened(arguments: &str) -> Vec<u8> {
    let (_, rest) = arguments.split_once('<').unwrap_or_default();
    let (hex, _) = rest.split_once('>').unwrap_or_default();
    bytes(hex)
}

fn quoted(arguments: &str) -> Vec<Vec<u8>> {
    let odd = |(index, text)| (index % 2 == 1).then_some(text);
    let texts = arguments.split('"').enumerate().filter_map(odd);
    texts.map(bytes).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |digits: &str| u8::from_str_radix(digits, 16).ok();
    hex.split("\\x")
        .skip(1)
        .filter_map(|digits| byte(digits.get(..2)?))
        .collect()
}

/// A disk, and what it has been told and may forget.
#[derive(Debug, Default)]
struct Disk {
    files: Vec<File>,
    /// Names that are there for good; and those that whoever looks now sees.
    kept: BTreeMap<PathBuf, Entry>,
    seen: BTreeMap<PathBuf, Entry>,
    /// Changes of names, in their order, that are not yet for good.
    names: Vec<(PathBuf, Option<Entry>)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Entry {
    File(usize),
    Folder,
}

#[derive(Debug, Default)]
struct File {
    kept: Vec<u8>,
    /// What was written since, and to what length it was cut.
    pending: Vec<Pending>,
}

#[derive(Debug)]
enum Pending {
    Wrote(u64, Rc<[u8]>),
    Cut(u64),
}

impl Disk {
    /// One with bodies as earlier versions kept them, which are forced to it; the same is
    /// written into the folder.
    fn with_old_bodies(folder: &Path) -> Self {
        let mut disk = Self::default();
        for number in 1..=6 {
            let body = old_body(number);
            let name = BodyId::of(&body).to_string();
            let path = PathBuf::from(format!("store/bodies/{}/{}", &name[..2], &name[2..]));
            let mut bytes = vec![b's'];
            bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&body);
            fs::create_dir_all(folder.join(&path).parent().unwrap()).unwrap();
            fs::write(folder.join(&path), &bytes).unwrap();
            disk.files.push(File {
                kept: bytes,
                pending: Vec::new(),
            });
            for parent in path.ancestors().skip(1) {
                disk.kept.insert(parent.to_owned(), Entry::Folder);
            }
            disk.kept.insert(path, Entry::File(disk.files.len() - 1));
        }
        disk.seen.clone_from(&disk.kept);
        disk
    }

    /// Whether it now has something for good that it had not.
    fn take(&mut self, act: &Act) -> bool {
        match act {
            Act::Made(path) => {
                if !self.seen.contains_key(path) {
                    self.files.push(File::default());
                    self.name(path, Some(Entry::File(self.files.len() - 1)));
                }
            }
            Act::MadeFolder(path) => self.name(path, Some(Entry::Folder)),
            Act::Removed(path) => self.name(path, None),
            Act::Renamed(from, to) => {
                let entry = self.seen.get(from).copied();
                self.name(from, None);
                self.name(to, entry);
            }
            Act::Wrote(path, offset, bytes) => {
                let pending = Pending::Wrote(*offset, Rc::clone(bytes));
                self.file(path).pending.push(pending);
            }
            Act::Cut(path, length) => self.file(path).pending.push(Pending::Cut(*length)),
            Act::Forced(path) => match self.seen.get(path) {
                Some(Entry::File(file)) => {
                    let file = &mut self.files[*file];
                    for pending in std::mem::take(&mut file.pending) {
                        apply(&mut file.kept, &pending, &mut |_| true);
                    }
                    return true;
                }
                _ => {
                    let (forced, rest) = std::mem::take(&mut self.names)
                        .into_iter()
                        .partition(|(name, _)| name.parent() == Some(path));
                    self.names = rest;
                    for (name, entry) in Vec::<(PathBuf, Option<Entry>)>::from_iter(forced) {
                        set(&mut self.kept, name, entry);
                    }
                    return true;
                }
            },
            Act::Said(_) => {}
        }
        false
    }

    fn name(&mut self, path: &Path, entry: Option<Entry>) {
        set(&mut self.seen, path.to_owned(), entry);
        self.names.push((path.to_owned(), entry));
    }

    fn file(&mut self, path: &Path) -> &mut File {
        match self.seen.get(path) {
            Some(Entry::File(file)) => &mut self.files[*file],
            _ => panic!("nobody made {}", path.display()),
        }
    }

    /// What is left if the machine dies now: of what was not forced, the sectors for which
    /// `is_left` says so, and the first `n_names` changes of names.
    fn left(
        &self,
        is_left: &mut dyn FnMut(usize) -> bool,
        n_names: usize,
    ) -> (BTreeMap<PathBuf, Vec<u8>>, Vec<PathBuf>) {
        let mut names = self.kept.clone();
        for (name, entry) in self.names.iter().take(n_names) {
            set(&mut names, name.clone(), *entry);
        }
        let (mut files, mut folders) = (BTreeMap::new(), Vec::new());
        for (name, entry) in names {
            match entry {
                Entry::Folder => folders.push(name),
                Entry::File(file) => {
                    let file = &self.files[file];
                    let mut bytes = file.kept.clone();
                    for pending in &file.pending {
                        apply(&mut bytes, pending, is_left);
                    }
                    files.insert(name, bytes);
                }
            }
        }
        (files, folders)
    }
}

fn set(names: &mut BTreeMap<PathBuf, Entry>, name: PathBuf, entry: Option<Entry>) {
    match entry {
        Some(entry) => names.insert(name, entry),
        None => names.remove(&name),
    };
}

/// Writes those sectors that are left.
fn apply(file: &mut Vec<u8>, pending: &Pending, is_left: &mut dyn FnMut(usize) -> bool) {
    match pending {
        Pending::Cut(length) => {
            if is_left(0) {
                file.resize(*length as usize, 0);
            }
        }
        Pending::Wrote(offset, bytes) => {
            let mut at = *offset as usize;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (sector, after) = rest.split_at(rest.len().min(SECTOR - at % SECTOR));
                if is_left(at / SECTOR) {
                    let end = at + sector.len();
                    file.resize(file.len().max(end), 0);
                    file[at..end].copy_from_slice(sector);
                }
                (at, rest) = (at + sector.len(), after);
            }
        }
    }
}

fn lay_out(place: &Path, files: &BTreeMap<PathBuf, Vec<u8>>, folders: &[PathBuf]) {
    fs::create_dir(place).unwrap();
    for folder in folders {
        fs::create_dir_all(place.join(folder)).unwrap();
    }
    for (path, bytes) in files {
        // What processes share in memory is gone with them.
        if path.to_string_lossy().ends_with("-shm") {
            continue;
        }
        let path = place.join(path);
        // A file whose folder is not there for good is not either.
        if path.parent().is_some_and(Path::is_dir) {
            fs::write(path, bytes).unwrap();
        }
    }
}
