//! Draws the picture in the README: the freshness that a budget buys, spent
//! optimally, uniformly and in proportion to the rates.
//!
//! `cargo run --release --example freshness_against_budget > docs/freshness.svg`
//!
//! The world is a thousand elements whose rates are lognormal (half of them change
//! less than once a day, one in forty more than nineteen times) and whose weights
//! have a Pareto tail, independent of the rates.

#![expect(clippy::print_stdout, reason = "the drawing goes to standard output")]

use std::error::Error;

use springtide_policy::plan::{Candidates, Policy, Rule, RulePolicy};
use springtide_policy::report::report;
use springtide_policy::{Budget, Error as PolicyError, Objective, Order, Rate, Weight};
use springtide_sim::figure::{Axis, Figure, Mark};

const N: usize = 1000;
/// Polls per element and day, from and to.
const BUDGETS: (f64, f64) = (0.03, 10.0);

fn main() -> Result<(), Box<dyn Error>> {
    let (rates, weights) = world()?;
    let candidates = Candidates::new(&rates)?.with_weights(&weights)?;
    let (least, most) = BUDGETS;
    let curve = |rule: Rule| -> Result<Vec<(f64, f64)>, PolicyError> {
        (0..=80)
            .map(|step| {
                let per_element = least * (most / least).powf(f64::from(step) / 80.0);
                let budget = Budget::per_day(per_element * N as f64)?;
                let plan = RulePolicy::new(rule).plan(&candidates, &budget);
                let freshness = report(&plan, &candidates, Order::Fixed).freshness;
                Ok((per_element, 100.0 * freshness))
            })
            .collect()
    };
    let figure = Figure::new(
        "What a budget buys",
        Axis::log("budget: polls per element and day").between(least, most),
        Axis::linear("freshness of the copy, %").between(0.0, 100.0),
    )
    .with(
        "springtide",
        Mark::Line,
        curve(Rule::Optimal(Objective::Freshness))?,
    )
    .with("uniform", Mark::Line, curve(Rule::Uniform)?)
    .with("proportional", Mark::Line, curve(Rule::Proportional)?);
    print!("{}", figure.svg());
    Ok(())
}

/// Evenly spread over both distributions, without random numbers.
fn world() -> Result<(Vec<Rate>, Vec<Weight>), PolicyError> {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    (0..N)
        .map(|index| {
            let place = (index as f64 + 0.5) / N as f64;
            let other = ((index as f64 + 0.5) * GOLDEN).fract();
            let rate = Rate::per_day((1.5 * normal_quantile(place)).exp())?;
            let weight = Weight::new((1.0 - other).powf(-1.0 / 1.5))?;
            Ok((rate, weight))
        })
        .collect::<Result<Vec<_>, _>>()
        .map(|pairs| pairs.into_iter().unzip())
}

/// The quantile of the normal distribution to three digits, by Hastings' formula:
/// near enough for a drawing.
fn normal_quantile(probability: f64) -> f64 {
    let tail = probability.min(1.0 - probability);
    let t = (-2.0 * tail.ln()).sqrt();
    let z = t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + 0.04481 * t));
    if probability < 0.5 { -z } else { z }
}
