//! `springtide plan` from file to file: how much faster than pandas and numpy, and
//! in how much memory.
//!
//! `cargo bench --bench end_to_end` plans 5 million rows of CSV, and the same with
//! `benches/pandas_plan.py` if Python has pandas, and then 10⁸ rows of Parquet. It
//! takes some minutes and 10 GB of disk in the folder for temporary files.
//! `-- --csv 1e6 --parquet 1e7` makes it smaller, `--test` just sees that it works.

#![expect(clippy::print_stdout, reason = "a bench prints its findings")]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rand::SeedableRng;
use rand_distr::{Distribution, LogNormal, Pareto};
use rand_pcg::Pcg64;

const ROUNDS: usize = 3;
/// Polls a day and element.
const BUDGET_PER_ELEMENT: f64 = 0.1;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let rows = |flag: &str, usual: f64| {
        let at = arguments.iter().position(|argument| argument == flag);
        let given = at.and_then(|at| arguments.get(at + 1)?.parse::<f64>().ok());
        given.unwrap_or(if is_test { 20_000.0 } else { usual }) as usize
    };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    csv(rows("--csv", 5e6), folder.path());
    parquet(rows("--parquet", 1e8), folder.path());
}

fn csv(n: usize, folder: &Path) {
    println!("CSV, {n} rows");
    let (rates, plan) = (folder.join("rates.csv"), folder.join("plan.csv"));
    {
        let mut file = BufWriter::new(File::create(&rates).unwrap());
        writeln!(file, "id,rate_per_day,weight").unwrap();
        let mut world = World::new();
        // In no order that would make looking for duplicates easy.
        for index in 0..n {
            let number = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
            let (rate, weight) = world.element();
            writeln!(file, "https://example.org/p/{number:010x},{rate},{weight}").unwrap();
        }
    }
    let budget = n as f64 * BUDGET_PER_ELEMENT;
    let mut runs: Vec<Run> = (0..ROUNDS)
        .map(|_| springtide(&rates, &plan, budget))
        .collect();
    runs.sort_by_key(|run| run.took);
    let ours = &runs[ROUNDS / 2];
    println!("  (springtide: median of {ROUNDS} runs; pandas: one run)");
    ours.print(n, &[&rates, &plan], "parsing and printing numbers");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/pandas_plan.py");
    let has_pandas = Command::new("python3")
        .args(["-c", "import numpy, pandas"])
        .stderr(Stdio::null())
        .status();
    if !has_pandas.is_ok_and(|status| status.success()) {
        println!("  pandas: not compared, python3 has no pandas and numpy");
        return;
    }
    let other = folder.join("pandas.csv");
    let start = Instant::now();
    let status = Command::new("python3")
        .arg(script)
        .args([&rates, &other])
        .arg(budget.to_string())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let took = start.elapsed();
    assert!(status.success(), "the pandas pipeline failed");
    println!("  pandas + numpy: {:.2} s", took.as_secs_f64());
    println!(
        "  ratio: {:.1}",
        took.as_secs_f64() / ours.took.as_secs_f64()
    );
}

fn parquet(n: usize, folder: &Path) {
    println!("Parquet, {n} rows");
    let (rates, plan) = (folder.join("rates.parquet"), folder.join("plan.parquet"));
    write_parquet(&rates, n);
    let budget = n as f64 * BUDGET_PER_ELEMENT;
    let run = springtide(&rates, &plan, budget);
    run.print(
        n,
        &[&rates, &plan],
        "decoding, encoding and compressing columns",
    );
    println!(
        "  peak memory: {:.2} GiB",
        run.peak_kib as f64 / (1 << 20) as f64
    );
}

fn write_parquet(path: &Path, n: usize) {
    let mut world = World::new();
    let schema = "message rates { REQUIRED BYTE_ARRAY id (UTF8); \
                  REQUIRED DOUBLE rate_per_day; REQUIRED DOUBLE weight; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder().set_dictionary_enabled(false);
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build())).unwrap();
    for start in (0..n).step_by(1 << 20) {
        let range = start..n.min(start + (1 << 20));
        let id = |index: usize| ByteArray::from(format!("e{index:09}").into_bytes());
        let ids: Vec<ByteArray> = range.clone().map(id).collect();
        let (rates, weights): (Vec<f64>, Vec<f64>) = range.map(|_| world.element()).unzip();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let typed = column.typed::<ByteArrayType>();
        typed.write_batch(&ids, None, None).unwrap();
        column.close().unwrap();
        for numbers in [rates, weights] {
            let mut column = group.next_column().unwrap().unwrap();
            let typed = column.typed::<DoubleType>();
            typed.write_batch(&numbers, None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

/// Rates over several orders of magnitude and weights with a heavy tail.
struct World {
    rng: Pcg64,
    rates: LogNormal<f64>,
    weights: Pareto<f64>,
}

impl World {
    fn new() -> Self {
        Self {
            rng: Pcg64::seed_from_u64(1),
            rates: LogNormal::new(0.1_f64.ln(), 1.5).unwrap(),
            weights: Pareto::new(1.0, 1.5).unwrap(),
        }
    }

    fn element(&mut self) -> (f64, f64) {
        (
            self.rates.sample(&mut self.rng),
            self.weights.sample(&mut self.rng),
        )
    }
}

struct Run {
    took: Duration,
    peak_kib: u64,
    /// What the program said of its steps.
    steps: Vec<(String, f64)>,
}

fn springtide(rates: &Path, plan: &Path, budget: f64) -> Run {
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_springtide"))
        .args(["plan", "--verbose", "--budget", &format!("{budget}/day")])
        .arg("--rates")
        .arg(rates)
        .arg("--out")
        .arg(plan)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    let took = loop {
        // The high-water mark is gone with the process, so look while it runs.
        let status = fs::read_to_string(&status_file).unwrap_or_default();
        let mark = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let mark = mark.and_then(|mark| mark.trim().strip_suffix(" kB")?.trim().parse().ok());
        peak_kib = peak_kib.max(mark.unwrap_or(0));
        if child.try_wait().unwrap().is_some() {
            break start.elapsed();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "springtide failed");
    let steps = String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter_map(|line| {
            let (step, seconds) = line.strip_suffix(" s")?.split_once(": ")?;
            Some((step.to_owned(), seconds.parse().ok()?))
        })
        .collect();
    Run {
        took,
        peak_kib,
        steps,
    }
}

impl Run {
    fn print(&self, n: usize, files: &[&Path], limit: &str) {
        let seconds = self.took.as_secs_f64();
        let bytes: u64 = files
            .iter()
            .map(|file| fs::metadata(file).unwrap().len())
            .sum();
        println!(
            "  springtide: {seconds:.2} s, {:.0} ns a row, {:.0} MB/s in and out",
            seconds * 1e9 / n as f64,
            bytes as f64 / seconds / 1e6,
        );
        for (step, seconds) in &self.steps {
            println!("    {step}: {seconds:.2} s");
        }
        let slowest = self.steps.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((step, _)) = slowest {
            let limit = if step == "solving" {
                "the plan itself"
            } else {
                limit
            };
            println!("    limited by {step}: {limit}");
        }
    }
}
