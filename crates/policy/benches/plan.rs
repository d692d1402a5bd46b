//! How many plain passes over the elements a plan costs.
//!
//! A plain pass reads rates and weights and writes frequencies, on the same
//! threads as the solver, and does next to nothing else: it is the least that any
//! plan can cost. The ratio of the two, taken in one run, says how good the
//! solver is on this machine, however busy the machine may be.
//!
//! `cargo bench --bench plan` goes up to 10⁸ elements (2.4 GB);
//! `cargo bench --bench plan -- --most 1e7` stops earlier, and `--test` runs a
//! small one only, to see that it works.

#![expect(clippy::print_stdout, reason = "a bench prints its findings")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a bench reads clock and arguments"
)]

use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_distr::{Distribution, LogNormal, Pareto};
use rayon::prelude::*;
use springtide_policy::plan::{Candidates, Policy, Rule, RulePolicy};
use springtide_policy::value::PollValue;
use springtide_policy::{Budget, Frequency, Objective, Rate, Weight};

/// Polls a day and element: scarce enough that many elements go without.
const BUDGET_PER_ELEMENT: f64 = 0.2;
const ROUNDS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let most = if arguments.iter().any(|argument| argument == "--test") {
        100_000
    } else {
        let most = arguments.iter().position(|argument| argument == "--most");
        most.and_then(|at| arguments.get(at + 1)?.parse::<f64>().ok())
            .map_or(100_000_000, |most| most as usize)
    };
    println!(
        "{} threads; times are medians of {ROUNDS} rounds",
        rayon::current_num_threads()
    );
    println!();
    println!(
        "   elements  objective   plain pass        plan   passes  ns/element  budget error  frequency error"
    );
    let mut n = 100_000;
    while n <= most {
        measure(n);
        n *= 10;
    }
    println!();
    println!(
        "A plan reads the elements twice and writes them once, as little as two plain passes."
    );
    println!("The rest is arithmetic: a division, a bucket and a polynomial for each element.");
}

fn measure(n: usize) {
    let (rates, weights) = elements(n);
    let candidates = Candidates::new(&rates)
        .and_then(|candidates| candidates.with_weights(&weights))
        .unwrap();
    let per_day = n as f64 * BUDGET_PER_ELEMENT;
    let budget = Budget::per_day(per_day).unwrap();
    let mut frequencies = vec![Frequency::ZERO; n];

    for objective in [Objective::Freshness, Objective::Age, Objective::Content] {
        let policy = RulePolicy::new(Rule::Optimal(objective));
        let (mut plain, mut planned, mut price) = (Vec::new(), Vec::new(), 0.0);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            plain_pass(&rates, &weights, &mut frequencies);
            plain.push(start.elapsed());

            let start = Instant::now();
            let plan = policy.plan(&candidates, &budget);
            plan.write_frequencies(&candidates, 0, &mut frequencies);
            planned.push(start.elapsed());
            price = plan.price().unwrap();
        }
        let (plain, planned) = (median(plain), median(planned));
        let used: f64 = frequencies
            .par_chunks(1 << 16)
            .map(|chunk| {
                chunk
                    .iter()
                    .map(|frequency| frequency.as_per_day())
                    .sum::<f64>()
            })
            .collect::<Vec<_>>()
            .iter()
            .sum();
        println!(
            "{n:>11}  {:<9} {:>9.2} ms {:>8.2} ms {:>8.2} {:>11.2} {:>13.1e} {:>16.1e}",
            format!("{objective:?}").to_lowercase(),
            plain.as_secs_f64() * 1e3,
            planned.as_secs_f64() * 1e3,
            planned.as_secs_f64() / plain.as_secs_f64(),
            planned.as_secs_f64() * 1e9 / n as f64,
            (used / per_day - 1.0).abs(),
            worst_frequency(&candidates, objective, price, &frequencies),
        );
    }
}

/// The largest relative error of a frequency, against the exact inverse of what a
/// poll is worth, over ten thousand elements or so.
fn worst_frequency(
    candidates: &Candidates<'_>,
    objective: Objective,
    price: f64,
    frequencies: &[Frequency],
) -> f64 {
    let error = |index: usize| {
        let value =
            PollValue::known(objective, candidates.rate(index)).weighing(candidates.weight(index));
        let exact = value
            .reaches(price)
            .map_or(0.0, |time| 1.0 / time.as_days());
        let frequency = frequencies[index].as_per_day();
        if frequency == exact {
            0.0
        } else {
            (frequency / exact - 1.0).abs()
        }
    };
    let indices = (0..frequencies.len()).step_by(frequencies.len() / 10_000 + 1);
    indices.map(error).fold(0.0, f64::max)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Rates over several orders of magnitude and weights with a heavy tail.
fn elements(n: usize) -> (Vec<Rate>, Vec<Weight>) {
    let rates = LogNormal::new(0.0, 1.5).unwrap();
    let weights = Pareto::new(1.0, 1.5).unwrap();
    (0..n.div_ceil(1 << 16))
        .into_par_iter()
        .flat_map_iter(|chunk| {
            let mut rng = rand_pcg::Pcg64::seed_from_u64(chunk as u64);
            let n = (1 << 16).min(n - (chunk << 16));
            (0..n)
                .map(|_| {
                    let rate = Rate::per_day(rates.sample(&mut rng)).unwrap();
                    (rate, Weight::new(weights.sample(&mut rng)).unwrap())
                })
                .collect::<Vec<_>>()
        })
        .unzip()
}

fn plain_pass(rates: &[Rate], weights: &[Weight], frequencies: &mut [Frequency]) {
    frequencies
        .par_chunks_mut(1 << 14)
        .zip(rates.par_chunks(1 << 14).zip(weights.par_chunks(1 << 14)))
        .for_each(|(frequencies, (rates, weights))| {
            for ((frequency, rate), weight) in frequencies.iter_mut().zip(rates).zip(weights) {
                let sum = rate.as_per_day() + weight.as_f64();
                *frequency = Frequency::per_day(sum).unwrap_or(Frequency::ZERO);
            }
        });
}
