//! Bodies, by their content.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use springtide_store::{Bodies, BodyId, Error, Freed, Problem};
use tempfile::TempDir;

/// What comes before the bytes of a body in a segment: kind, digest, two lengths.
const HEADER: usize = 49;

fn bodies() -> (TempDir, Bodies) {
    let folder = tempfile::tempdir().unwrap();
    let bodies = Bodies::open(folder.path().join("bodies")).unwrap();
    (folder, bodies)
}

fn at(folder: &TempDir) -> PathBuf {
    folder.path().join("bodies")
}

/// The segments that there are, in their order.
fn segments(folder: &TempDir) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(at(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "seg"))
        .collect();
    found.sort();
    found
}

/// Where the only record of a body is: the segment, the offset, and its bytes.
fn record(folder: &TempDir, id: BodyId) -> (PathBuf, usize, Vec<u8>) {
    for path in segments(folder) {
        let bytes = fs::read(&path).unwrap();
        if let Some(found) = bytes.windows(32).position(|window| window == id.0) {
            let offset = found - 1;
            let kept = offset + HEADER - 8;
            let length = u64::from_le_bytes(bytes[kept..kept + 8].try_into().unwrap());
            let end = offset + HEADER + length as usize;
            return (path, offset, bytes[offset..end].to_vec());
        }
    }
    panic!("there is no record of {id}");
}

fn overwrite(path: &Path, offset: usize, bytes: &[u8]) {
    let mut file = File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(offset as u64)).unwrap();
    file.write_all(bytes).unwrap();
}

fn problems<Access>(bodies: &Bodies<Access>, named: &[BodyId]) -> Vec<Problem> {
    let mut problems = Vec::new();
    bodies
        .check(&mut |id| named.contains(&id), &mut |problem| {
            problems.push(problem);
        })
        .unwrap();
    problems
}

/// Forgets all but these, and rewrites whatever has anything dead in it.
fn collect(bodies: &Bodies, named: &[BodyId]) -> Freed {
    let mut collection = bodies.collect().unwrap();
    named.iter().for_each(|id| collection.mark(*id));
    collection
        .sweep(0.0, &mut || ControlFlow::Continue(()))
        .unwrap()
}

/// Bytes that nothing makes shorter.
fn noise(length: usize) -> Vec<u8> {
    numbered_noise(0, length)
}

fn numbered_noise(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// Keeps a body as earlier versions did.
fn put_as_a_file(folder: &TempDir, body: &[u8]) -> PathBuf {
    let name = BodyId::of(body).to_string();
    let path = at(folder).join(&name[..2]).join(&name[2..]);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = vec![b's'];
    file.extend_from_slice(&(body.len() as u64).to_le_bytes());
    file.extend_from_slice(body);
    fs::write(&path, file).unwrap();
    path
}

#[test]
fn a_body_comes_back_as_it_was_put() {
    let (folder, bodies) = bodies();
    let page = b"<p>All work and no play makes a dull body.</p>\n".repeat(1000);
    let all = [&b""[..], b"a", &[0; 63], &[0; 64], &page, &noise(5000)];
    for body in all {
        let id = bodies.put(body).unwrap();
        assert_eq!(id, BodyId::of(body));
        assert!(bodies.contains(id));
        assert_eq!(bodies.get(id).unwrap(), body);
    }
    bodies.flush().unwrap();
    let others = Bodies::read_only(at(&folder)).unwrap();
    for body in all {
        let id = BodyId::of(body);
        assert!(bodies.contains(id) && others.contains(id));
        assert_eq!(bodies.get(id).unwrap(), body);
        assert_eq!(others.get(id).unwrap(), body);
    }
    let length = |body: &[u8]| record(&folder, BodyId::of(body)).2.len();
    assert!(length(&page) < page.len() / 50);
    assert_eq!(length(&noise(5000)), HEADER + 5000);
}

#[test]
fn many_bodies_are_in_few_files() {
    let (folder, bodies) = bodies();
    for number in 0..20_000_u32 {
        bodies.put(&numbered_noise(number, 100)).unwrap();
        if number % 1000 == 0 {
            bodies.flush().unwrap();
        }
    }
    bodies.flush().unwrap();
    assert_eq!(segments(&folder).len(), 1);
    assert!(fs::read_dir(at(&folder)).unwrap().count() <= 5);
    let n_bytes = fs::metadata(&segments(&folder)[0]).unwrap().len();
    assert_eq!(n_bytes, 20_000 * (HEADER as u64 + 100));
    assert!(bodies.n_bytes().unwrap() > n_bytes);
}

#[test]
fn a_segment_is_sealed_at_a_size_and_is_not_written_again() {
    let (folder, bodies) = bodies();
    let bodies = bodies.with_segments_of(1000);
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(bodies.put(&numbered_noise(number, 400)).unwrap());
        bodies.flush().unwrap();
    }
    let lengths: Vec<u64> = segments(&folder)
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .collect();
    let full = 3 * (HEADER as u64 + 400);
    assert_eq!(lengths, [full, full, full, full / 3]);
    drop(bodies);
    // Whoever comes next goes on where the last was appended to.
    let bodies = Bodies::open(at(&folder)).unwrap().with_segments_of(1000);
    ids.push(bodies.put(&numbered_noise(10, 400)).unwrap());
    bodies.flush().unwrap();
    assert_eq!(segments(&folder).len(), 4);
    assert!(ids.iter().all(|id| bodies.is_sound(*id)));
}

#[test]
fn who_reads_finds_what_was_flushed_and_nothing_else() {
    let (folder, bodies) = bodies();
    let before = Bodies::read_only(at(&folder)).unwrap();
    let id = bodies.put(b"later").unwrap();
    assert!(!before.contains(id));
    bodies.flush().unwrap();
    assert_eq!(before.get(id).unwrap(), b"later");
    let nowhere = Bodies::read_only(folder.path().join("nowhere")).unwrap();
    assert!(matches!(nowhere.get(id), Err(Error::Damaged(_))));
    assert!(!folder.path().join("nowhere").exists());
}

#[test]
fn one_adds_at_a_time() {
    let (folder, bodies) = bodies();
    assert!(matches!(Bodies::open(at(&folder)), Err(Error::InUse)));
    drop(bodies);
    Bodies::open(at(&folder)).unwrap();
}

#[test]
fn a_name_is_the_digest_in_hexadecimal() {
    let id = BodyId::of(b"abc");
    // From the reference implementation, b3sum.
    let name = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    assert_eq!(id.to_string(), name);
    assert_eq!(name.parse(), Ok(id));
    for wrong in [
        "",
        "64",
        &name[1..],
        &name.replace('6', "g"),
        &name.replace('6', "é"),
    ] {
        assert!(wrong.parse::<BodyId>().is_err(), "{wrong}");
    }
}

#[test]
fn a_body_that_is_there_is_not_written_again() {
    let (folder, bodies) = bodies();
    bodies.put(b"once").unwrap();
    bodies.put(b"once").unwrap();
    bodies.flush().unwrap();
    bodies.put(b"once").unwrap();
    bodies.flush().unwrap();
    let n_bytes = fs::metadata(&segments(&folder)[0]).unwrap().len();
    assert_eq!(n_bytes, HEADER as u64 + 4);
}

#[test]
fn a_body_that_is_not_what_it_was_is_damaged_and_replaced_when_it_is_put_again() {
    for body in [noise(100), vec![7; 10_000]] {
        let (folder, bodies) = bodies();
        let id = bodies.put(&body).unwrap();
        let other = bodies.put(b"next to it").unwrap();
        bodies.flush().unwrap();
        let (path, offset, whole) = record(&folder, id);
        let changed = |at: usize, byte: u8| {
            let mut record = whole.clone();
            record[at] = byte;
            record
        };
        let last = whole.len() - 1;
        let mut longer = whole.clone();
        longer[33..41].copy_from_slice(&u64::MAX.to_le_bytes());
        let mut elsewhere = whole.clone();
        elsewhere[41..49].copy_from_slice(&u64::MAX.to_le_bytes());
        for damaged in [
            changed(last, whole[last] ^ 1),
            changed(33, whole[33].wrapping_sub(1)),
            changed(0, b'?'),
            longer,
            elsewhere,
            vec![0; whole.len()],
        ] {
            overwrite(&path, offset, &damaged);
            assert!(matches!(bodies.get(id), Err(Error::Damaged(_))));
            assert!(!bodies.is_sound(id));
            let found = problems(&bodies, &[id, other]);
            assert!(
                matches!(&found[..], [Problem::BodyDamaged(found)] if found.0[..8] == id.0[..8]),
                "{found:?}"
            );
            assert_eq!(bodies.get(other).unwrap(), b"next to it");
        }
        assert_eq!(bodies.put(&body).unwrap(), id);
        assert_eq!(bodies.get(id).unwrap(), body);
        bodies.flush().unwrap();
        assert_eq!(bodies.get(id).unwrap(), body);
        assert_eq!(problems(&bodies, &[id, other]), []);
        bodies.remove(id).unwrap();
        assert!(!bodies.contains(id));
        assert!(matches!(bodies.get(id), Err(Error::Damaged(_))));
        assert!(bodies.is_sound(other));
    }
}

#[test]
fn a_segment_that_was_cut_short_or_lost_is_not_appended_to() {
    let (folder, bodies) = bodies();
    let (first, second) = (
        bodies.put(&noise(100)).unwrap(),
        bodies.put(&noise(200)).unwrap(),
    );
    bodies.flush().unwrap();
    drop(bodies);
    let path = &segments(&folder)[0];
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(200).unwrap();
    let bodies = Bodies::open(at(&folder)).unwrap();
    assert!(bodies.is_sound(first) && !bodies.is_sound(second));
    bodies.put(&noise(200)).unwrap();
    bodies.flush().unwrap();
    assert_eq!(fs::metadata(path).unwrap().len(), 200);
    assert!(bodies.is_sound(first) && bodies.is_sound(second));
    drop(bodies);
    fs::remove_file(path).unwrap();
    let bodies = Bodies::open(at(&folder)).unwrap();
    assert!(!bodies.is_sound(first) && bodies.is_sound(second));
}

#[test]
fn an_index_that_is_lost_or_damaged_is_made_again() {
    let (folder, bodies) = bodies();
    let bodies = bodies.with_segments_of(1000);
    let ids: Vec<BodyId> = (0..10)
        .map(|number| {
            let id = bodies.put(&numbered_noise(number, 300)).unwrap();
            bodies.flush().unwrap();
            id
        })
        .collect();
    drop(bodies);
    for damage in [None, Some(vec![7; 8192])] {
        for ending in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(at(&folder).join(format!("index.db{ending}")));
        }
        // Who only reads finds them in the segments.
        let reader = Bodies::read_only(at(&folder)).unwrap();
        assert!(ids.iter().all(|id| reader.is_sound(*id)));
        if let Some(damage) = damage {
            fs::write(at(&folder).join("index.db"), damage).unwrap();
            assert!(Bodies::read_only(at(&folder)).is_err());
        }
        let bodies = Bodies::open(at(&folder)).unwrap();
        assert_eq!(problems(&bodies, &ids), []);
        assert!(ids.iter().all(|id| bodies.is_sound(*id)));
    }
    let bodies = Bodies::reindex(at(&folder)).unwrap();
    assert!(ids.iter().all(|id| bodies.is_sound(*id)));
}

#[test]
fn what_was_not_written_whole_is_cut_off() {
    let (folder, bodies) = bodies();
    let kept = bodies.put(&noise(100)).unwrap();
    bodies.flush().unwrap();
    drop(bodies);
    let path = &segments(&folder)[0];
    let whole = fs::read(path).unwrap();
    // A record that is whole, but that the index does not know, and half of another.
    let other = numbered_noise(1, 100);
    let mut record = vec![b's'];
    record.extend_from_slice(&BodyId::of(&other).0);
    record.extend_from_slice(&100_u64.to_le_bytes());
    record.extend_from_slice(&100_u64.to_le_bytes());
    record.extend_from_slice(&other);
    for torn in [&record[..10], &record[..record.len() - 1], &[0; 5000], b"?"] {
        let mut file = whole.clone();
        file.extend_from_slice(&record);
        file.extend_from_slice(torn);
        fs::write(path, file).unwrap();
        let reader = Bodies::read_only(at(&folder)).unwrap();
        assert_eq!(reader.get(BodyId::of(&other)).unwrap(), other);
        let bodies = Bodies::open(at(&folder)).unwrap();
        assert_eq!(bodies.get(BodyId::of(&other)).unwrap(), other);
        assert!(bodies.is_sound(kept));
        let length = fs::metadata(path).unwrap().len() as usize;
        assert_eq!(length, whole.len() + record.len());
        bodies.remove(BodyId::of(&other)).unwrap();
        drop(bodies);
        fs::remove_file(at(&folder).join("index.db")).unwrap();
    }
}

#[test]
fn what_was_begun_and_what_nothing_names_is_reported_and_collected() {
    let (folder, bodies) = bodies();
    let kept = bodies.put(&noise(100)).unwrap();
    let unnamed = bodies.put(&noise(200)).unwrap();
    bodies.flush().unwrap();
    let begun = at(&folder).join("new/1-2-3");
    fs::create_dir(at(&folder).join("new")).unwrap();
    fs::write(&begun, b"half").unwrap();
    let foreign = at(&folder).join("README");
    fs::write(&foreign, b"not ours").unwrap();
    let found = problems(&bodies, &[kept]);
    assert_eq!(found.len(), 3);
    assert!(found.contains(&Problem::BodyUnnamed(unnamed)));
    assert!(found.contains(&Problem::StrayFile(begun)));
    assert!(found.contains(&Problem::StrayFile(foreign.clone())));
    let counted = bodies.unnamed(&[kept].into()).unwrap();
    let freed = collect(&bodies, &[kept]);
    let expected = Freed {
        n_bodies: 2,
        n_bytes: HEADER as u64 + 200 + 4,
    };
    assert_eq!((counted, freed), (expected, expected));
    assert_eq!(problems(&bodies, &[kept]), [Problem::StrayFile(foreign)]);
    assert!(bodies.is_sound(kept));
    assert!(!bodies.contains(unnamed));
    let n_bytes: u64 = segments(&folder)
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum();
    assert_eq!(n_bytes, HEADER as u64 + 100);
}

#[test]
fn a_rewrite_keeps_what_lives_for_those_who_read_and_put_meanwhile() {
    let (folder, bodies) = bodies();
    let bodies = bodies.with_segments_of(40_000);
    let body = |number: u32| numbered_noise(number, 1000);
    let n = 400_u32;
    for number in 0..n {
        bodies.put(&body(number)).unwrap();
        if number % 10 == 9 {
            bodies.flush().unwrap();
        }
    }
    bodies.flush().unwrap();
    let n_segments = segments(&folder).len();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // One of another process, and one of this.
        let reader = Bodies::read_only(at(&folder)).unwrap();
        let (bodies, is_over) = (&bodies, &is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                for number in (0..n).step_by(4) {
                    let id = BodyId::of(&body(number));
                    assert_eq!(reader.get(id).unwrap(), body(number));
                    assert_eq!(bodies.get(id).unwrap(), body(number));
                }
            }
        });
        let mut collection = bodies.collect().unwrap();
        for number in (0..n).step_by(4) {
            collection.mark(BodyId::of(&body(number)));
        }
        // What is put now is named by nothing yet, and was there or not.
        bodies.put(&body(1)).unwrap();
        bodies.put(b"new").unwrap();
        let mut number = 0;
        let swept = collection.sweep(0.1, &mut || {
            number += 1;
            bodies.put(&numbered_noise(n + number, 10)).unwrap();
            if number % 3 == 0 {
                bodies.flush().unwrap();
            }
            ControlFlow::Continue(())
        });
        assert_eq!(swept.unwrap().n_bodies, u64::from(3 * n / 4) - 1);
        is_over.store(true, Ordering::Relaxed);
        assert!(bodies.is_sound(BodyId::of(&body(1))));
        assert!(bodies.is_sound(BodyId::of(b"new")));
        assert!((1..=number).all(|k| bodies.is_sound(BodyId::of(&numbered_noise(n + k, 10)))));
    });
    assert!(segments(&folder).len() <= n_segments / 2);
    assert!(!bodies.contains(BodyId::of(&body(2))));
    drop(bodies);
    let bodies = Bodies::open(at(&folder)).unwrap();
    assert!(
        (0..n)
            .step_by(4)
            .all(|number| bodies.is_sound(BodyId::of(&body(number))))
    );
}

#[test]
fn a_collection_that_is_ended_has_lost_nothing() {
    let (folder, bodies) = bodies();
    let bodies = bodies.with_segments_of(10_000);
    let ids: Vec<BodyId> = (0..100)
        .map(|number| {
            let id = bodies.put(&numbered_noise(number, 1000)).unwrap();
            bodies.flush().unwrap();
            id
        })
        .collect();
    let n_before = segments(&folder).len();
    for n_steps in 0.. {
        let mut collection = bodies.collect().unwrap();
        ids.iter().step_by(2).for_each(|id| collection.mark(*id));
        let mut left = n_steps;
        let mut is_over = true;
        let swept = collection.sweep(0.0, &mut || {
            if left == 0 {
                is_over = false;
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        });
        swept.unwrap();
        assert!(ids.iter().step_by(2).all(|id| bodies.is_sound(*id)));
        if is_over {
            break;
        }
    }
    assert!(segments(&folder).len() < n_before * 2 / 3);
}

#[test]
fn bodies_of_an_earlier_version_are_read_and_brought_over() {
    let (folder, bodies) = bodies();
    drop(bodies);
    let all: Vec<Vec<u8>> = (0..50).map(|number| numbered_noise(number, 80)).collect();
    let paths: Vec<PathBuf> = all
        .iter()
        .map(|body| put_as_a_file(&folder, body))
        .collect();
    let reader = Bodies::read_only(at(&folder)).unwrap();
    let bodies = Bodies::open(at(&folder)).unwrap();
    let is_all_there = || {
        all.iter().all(|body| {
            let id = BodyId::of(body);
            bodies.contains(id) && bodies.is_sound(id) && reader.is_sound(id)
        })
    };
    assert!(is_all_there());
    // One of them is damaged, found to be so, and put again.
    fs::write(&paths[7], b"s").unwrap();
    assert!(!bodies.is_sound(BodyId::of(&all[7])));
    let named: Vec<BodyId> = all.iter().map(|body| BodyId::of(body)).collect();
    assert_eq!(problems(&bodies, &named), [Problem::BodyDamaged(named[7])]);
    bodies.put(&all[7]).unwrap();
    bodies.flush().unwrap();
    let mut n = 1;
    while let left @ 1.. = bodies.bring_over(20).unwrap() {
        n += left;
        assert!(is_all_there());
    }
    assert_eq!(n, 50);
    assert!(paths.iter().all(|path| !path.exists()));
    assert!(fs::read_dir(at(&folder)).unwrap().count() <= 5);
    assert_eq!(problems(&bodies, &named), []);
}

#[cfg(unix)]
#[test]
fn files_are_for_their_owner_alone_and_links_are_not_followed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (folder, bodies) = bodies();
    let id = bodies.put(&noise(100)).unwrap();
    bodies.flush().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&at(&folder)), 0o700);
    for entry in fs::read_dir(at(&folder)).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    drop(bodies);
    let path = segments(&folder).remove(0);
    let moved = folder.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    symlink(&moved, &path).unwrap();
    assert!(Bodies::read_only(at(&folder)).unwrap().get(id).is_err());
    let before = fs::read(&moved).unwrap();
    if let Ok(bodies) = Bodies::open(at(&folder)) {
        let _ = bodies.put(&noise(200)).and_then(|_| bodies.flush());
    }
    assert_eq!(fs::read(&moved).unwrap(), before);
    let index = at(&folder).join("index.db");
    let moved = folder.path().join("index");
    fs::rename(&index, &moved).unwrap();
    symlink(&moved, &index).unwrap();
    assert!(Bodies::open(at(&folder)).is_err());
    assert!(Bodies::read_only(at(&folder)).is_err());
}

#[test]
fn many_threads_may_put_the_same_bodies() {
    let (_folder, bodies) = bodies();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..200_u32 {
                    let body = number.to_le_bytes().repeat(50);
                    let id = bodies.put(&body).unwrap();
                    assert_eq!(bodies.get(id).unwrap(), body);
                    if number % 7 == 0 {
                        bodies.flush().unwrap();
                    }
                }
            });
        }
    });
    bodies.flush().unwrap();
    let named: Vec<BodyId> = (0..200_u32)
        .map(|number| BodyId::of(&number.to_le_bytes().repeat(50)))
        .collect();
    assert_eq!(problems(&bodies, &named), []);
}
