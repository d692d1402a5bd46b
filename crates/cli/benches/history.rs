//! How fresh `learned` keeps recorded sites, and how well it knows which pages have changed
//! before it polls them: each fifth of the sites polled apart from the others, at one poll
//! of a page in 120, 30 and 7 days.
//!
//! `cargo bench -p springtide --bench history -- --history DIR` reads any history; without,
//! that at `../shared/data/history`, if there is one. `--test` makes a small one, just to see
//! that it works.

#![expect(clippy::print_stdout, reason = "a bench prints its findings")]

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::MultiGzDecoder;
use serde_json::Value;

const N_FOLDS: usize = 5;
/// Days between two polls of a page on average.
const INTERVALS: [f64; 3] = [120.0, 30.0, 7.0];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let given = arguments
        .iter()
        .position(|argument| argument == "--history")
        .and_then(|at| arguments.get(at + 1));
    let made = tempfile::tempdir().expect("a folder for temporary files");
    let history = match given {
        _ if is_test => {
            make(made.path());
            made.path().to_owned()
        }
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/history"),
    };
    if !history.is_dir() {
        println!("SKIPPED: there is no history at {}", history.display());
        return;
    }
    let n_folds = if is_test { 2 } else { N_FOLDS };
    let folds: Vec<tempfile::TempDir> = (0..n_folds)
        .map(|fold| part(&history, |site| site % n_folds == fold))
        .collect();
    println!("fold  days    pages  stale, % of uniform's  age, of uniform's  log loss");
    for days in INTERVALS {
        let mut all = [0.0; 4];
        for (number, fold) in folds.iter().enumerate() {
            let Fold {
                n_pages,
                staleness,
                age,
                log_loss,
            } = simulate(fold.path(), days);
            println!(
                "{number:>4}  {days:>4}  {n_pages:>7}  {staleness:>21.1}  {age:>17.2}  {log_loss:>8.3}"
            );
            let sums = [1.0, staleness, age, log_loss].map(|value| value * n_pages);
            all = std::array::from_fn(|at| all[at] + sums[at]);
        }
        let [n, staleness, age, log_loss] = all;
        println!(
            " all  {days:>4}  {n:>7}  {:>21.1}  {:>17.2}  {:>8.3}",
            staleness / n,
            age / n,
            log_loss / n
        );
    }
    println!();
    println!("all: means of the folds by their pages");
}

/// What a fold has shown.
struct Fold {
    n_pages: f64,
    staleness: f64,
    age: f64,
    log_loss: f64,
}

fn simulate(history: &Path, days: f64) -> Fold {
    let run = |policies: &str, per_day: f64| -> Vec<BTreeMap<String, Value>> {
        let output = Command::new(env!("CARGO_BIN_EXE_springtide"))
            .args([
                "simulate", "--pages", "alive", "--json", "-q", "--warmup", "240d",
            ])
            .args(["--history".as_ref(), history.as_os_str()])
            .args(["--policy", policies])
            .args(["--budget", &format!("{per_day}/day")])
            .output()
            .expect("the program starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let number = |of: &BTreeMap<String, Value>, name: &str| {
        of.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN)
    };
    let n_pages = number(&run("uniform", 1.0)[0], "n_elements");
    let measured = run("uniform,learned", n_pages / days);
    let [uniform, learned] = &measured[..] else {
        panic!("two policies were asked for");
    };
    let stale = |of| 1.0 - number(of, "freshness");
    Fold {
        n_pages,
        staleness: 100.0 * stale(learned) / stale(uniform),
        age: number(learned, "age_days") / number(uniform, "age_days"),
        log_loss: number(learned, "log_loss"),
    }
}

/// The pages of some sites, which are numbered as they come, as a history of its own.
fn part(history: &Path, is_in: impl Fn(usize) -> bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let copy = |name: &str, keeps: &mut dyn FnMut(usize, &str) -> bool| {
        let to = File::create(folder.path().join(format!("{name}.csv")));
        let mut to = std::io::BufWriter::new(to.expect("a file"));
        for (number, line) in lines(history, name).enumerate() {
            let line = line.expect("a line");
            if number == 0 || keeps(number - 1, &line) {
                writeln!(to, "{line}").expect("room for a line");
            }
        }
        to.flush().expect("room for a file");
    };
    let cell = |line: &str, at: usize| line.split(',').nth(at).unwrap_or("").to_owned();
    let (mut sites, mut pages) = (HashSet::new(), HashSet::new());
    copy("sites", &mut |number, line| {
        is_in(number) && sites.insert(cell(line, 0))
    });
    copy("pages", &mut |_, line| {
        sites.contains(&cell(line, 1)) && pages.insert(cell(line, 0))
    });
    copy("changes", &mut |_, line| pages.contains(&cell(line, 0)));
    folder
}

/// The lines of a table, packed or not.
fn lines(history: &Path, name: &str) -> Box<dyn Iterator<Item = std::io::Result<String>>> {
    let plain = history.join(format!("{name}.csv"));
    match File::open(&plain) {
        Ok(file) => Box::new(BufReader::new(file).lines()),
        Err(_) => {
            let packed = File::open(history.join(format!("{name}.csv.gz")));
            let unpacked = MultiGzDecoder::new(packed.expect("a table, plain or .gz"));
            Box::new(BufReader::new(unpacked).lines())
        }
    }
}

/// Two sites of ten pages, which change every ten days or so, for a year.
fn make(folder: &Path) {
    let mut pages = String::from("page_id,site_id,path,created_h,deleted_h,n_changes\n");
    let mut changes = String::from("page_id,hour\n");
    for page in 0..20 {
        let hours: Vec<u32> = (1..36)
            .map(|n| n * 240 + (page * 37 + n * 53) % 200)
            .collect();
        pages += &format!("{page},{},a/{page},-1,,{}\n", page / 10, hours.len());
        for hour in hours {
            changes += &format!("{page},{hour}\n");
        }
    }
    for (name, table) in [
        ("sites", "site_id\n0\n1\n"),
        ("pages", &pages),
        ("changes", &changes),
    ] {
        fs::write(folder.join(format!("{name}.csv")), table).expect("room for a table");
    }
}
