//! What keeping bodies costs: put in batches that are forced to the disk, and read by
//! someone else.
//!
//! `cargo bench -p springtide-store --bench bodies` takes 100,000 bodies of 2 kB;
//! `-- --bodies 1e7` any other number (ten million need 13 GB of disk and some minutes),
//! `--at DIR` puts them there, and `--test` runs a small one only, to see that it works.
//! Half of them are text, and half cannot be made shorter; with `--text` all are text, and
//! ten million need 6 GB.

#![expect(clippy::print_stdout, reason = "a bench prints its findings")]

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_store::{Bodies, BodyId};

const LENGTH: usize = 2_000;
const PER_FLUSH: usize = 1_000;
const N_READ: usize = 20_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let n = match value("--bodies").and_then(|n| n.parse::<f64>().ok()) {
        _ if is_test => 3_000,
        Some(n) => n as usize,
        None => 100_000,
    };
    let is_text = arguments.iter().any(|argument| argument == "--text");
    let body = |number: usize| match is_text {
        true => body(2 * number + 1),
        false => body(number),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = value("--at").map_or_else(|| folder.path().to_owned(), PathBuf::from);
    let folder = folder.join("bodies");

    let bodies = Bodies::open(&folder).expect("a folder");
    println!("putting {n} bodies of {LENGTH} bytes, forced to the disk by the {PER_FLUSH}");
    let (mut total, mut since, mut slowest) = (0.0, 0.0, 0.0_f64);
    let mut batch = Vec::new();
    let report = (n / 10).max(1);
    for first in (0..n).step_by(PER_FLUSH) {
        let numbers = first..n.min(first + PER_FLUSH);
        batch.clear();
        batch.extend(numbers.map(body));
        let begun = Instant::now();
        for body in &batch {
            black_box(bodies.put(body).expect("put"));
        }
        bodies.flush().expect("flushed");
        let seconds = begun.elapsed().as_secs_f64();
        total += seconds;
        slowest = slowest.max(seconds);
        let done = first + batch.len();
        if done / report > first / report {
            println!(
                "  up to {done:>10}: {:.0} per second",
                report as f64 / (total - since)
            );
            since = total;
        }
    }
    let n_files = fs::read_dir(&folder).expect("a folder").count();
    let n_bytes = bodies.n_bytes().expect("counted");
    println!(
        "  {:.0} per second, the slowest batch {:.0} ms; {n_files} files, {:.2} GB",
        n as f64 / total,
        1e3 * slowest,
        n_bytes as f64 / 1e9
    );
    drop(bodies);

    let begun = Instant::now();
    let bodies = Bodies::read_only(&folder).expect("a folder");
    println!(
        "opened to read in {:.1} ms",
        1e3 * begun.elapsed().as_secs_f64()
    );
    let mut rng = Pcg64::seed_from_u64(1);
    let mut times: Vec<f64> = (0..N_READ.min(n))
        .map(|_| {
            let id = BodyId::of(&body(rng.random_range(0..n)));
            let begun = Instant::now();
            black_box(bodies.get(id).expect("there"));
            begun.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| 1e6 * times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "read by someone else, any one: {:.0} µs at the median, {:.0} µs at 99 %, {:.0} µs at most",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn body(number: usize) -> Vec<u8> {
    let mut noise = vec![0; LENGTH];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.finalize_xof().fill(&mut noise);
    if number.is_multiple_of(2) {
        return noise;
    }
    // Text of 256 words.
    noise
        .iter()
        .flat_map(|byte| [b'a' + byte % 16, b'a' + byte / 16, b'r', b'e', b' '])
        .take(LENGTH)
        .collect()
}
