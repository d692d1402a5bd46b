//! `springtide cover` from file to file: how long and in how much memory, and how that
//! grows with the rows and with the terms of a row.
//!
//! `cargo bench -p springtide --bench cover` goes up to 100,000 rows with ten terms
//! each and a table of 50,000 terms and pairs; `--test` just sees that it works.

#![expect(clippy::print_stdout, reason = "a bench prints its findings")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Terms that rows are made of, and how many terms and pairs are counted.
const N_TERMS: usize = 30_000;
const N_COUNTS: usize = 50_000;

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let sizes: &[(usize, usize)] = if is_test {
        &[(2000, 6)]
    } else {
        &[(25_000, 10), (50_000, 10), (100_000, 5), (100_000, 10)]
    };
    for &(n_rows, n_of_row) in sizes {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        make(folder.path(), n_rows, n_of_row);
        for flags in [&[][..], &["--server-rows", "5000000"][..]] {
            let (took, peak_kib) = cover(folder.path(), flags);
            let looked_at = (n_rows * n_of_row) as f64;
            println!(
                "{n_rows} rows of {n_of_row} terms {}: {:.2} s, {:.0} ns a term of a row, {} MB",
                flags.join(" "),
                took.as_secs_f64(),
                took.as_secs_f64() * 1e9 / looked_at,
                peak_kib >> 10,
            );
        }
    }
}

/// Rows of words, few of which are common, and counts of the commonest terms and
/// pairs.
fn make(folder: &Path, n_rows: usize, n_of_row: usize) {
    let mut rng = Pcg64::seed_from_u64(1);
    let mut sum = 0.0;
    let sums: Vec<f64> = (0..N_TERMS)
        .map(|place| {
            sum += 1.0 / (place + 3) as f64;
            sum
        })
        .collect();
    let mut rows = String::from("id,title\n");
    let mut counts: BTreeMap<(usize, Option<usize>), u32> = BTreeMap::new();
    for id in 0..n_rows {
        let mut terms = Vec::new();
        while terms.len() < n_of_row {
            let drawn = rng.random::<f64>() * sum;
            let term = sums.partition_point(|&sum| sum <= drawn);
            if !terms.contains(&term) {
                terms.push(term);
            }
        }
        terms.sort_unstable();
        for (place, &term) in terms.iter().enumerate() {
            *counts.entry((term, None)).or_default() += 1;
            // Pairs of one row in ten are enough to find the commonest.
            for &other in terms[place + 1..].iter().filter(|_| id % 10 == 0) {
                *counts.entry((term, Some(other))).or_default() += 1;
            }
        }
        let words: Vec<String> = terms.iter().map(|term| format!("w{term}")).collect();
        rows += &format!("{id},{}\n", words.join(" "));
    }
    let (mut terms, mut pairs) = (
        String::from("term,count\n"),
        String::from("term_a,term_b,count\n"),
    );
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&((_, other), n)| (other.is_some(), std::cmp::Reverse(n)));
    for ((term, other), n) in counts.into_iter().take(N_COUNTS) {
        let n = n * rng.random_range(1..60);
        match other {
            None => terms += &format!("w{term},{n}\n"),
            Some(other) => pairs += &format!("w{term},w{other},{n}\n"),
        }
    }
    for (name, text) in [("rows", rows), ("terms", terms), ("pairs", pairs)] {
        let path = folder.join(format!("{name}.csv"));
        let mut file = fs::File::create(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
}

fn cover(folder: &Path, flags: &[&str]) -> (Duration, u64) {
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_springtide"))
        .current_dir(folder)
        .args(["cover", "--rows", "rows.csv", "--attribute", "title"])
        .args(["--statistics", "terms.csv", "--statistics", "pairs.csv"])
        .args(["--out", "queries.csv"])
        .args(flags)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    loop {
        // The high-water mark is gone with the process, so look while it runs.
        let status = fs::read_to_string(&status_file).unwrap_or_default();
        let mark = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let mark = mark.and_then(|mark| mark.trim().strip_suffix(" kB")?.trim().parse().ok());
        peak_kib = peak_kib.max(mark.unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "springtide failed");
            return (start.elapsed(), peak_kib);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
