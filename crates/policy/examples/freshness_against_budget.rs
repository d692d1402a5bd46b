//! Draws the picture in the README: the freshness that a budget buys, spent
//! optimally, uniformly and in proportion to the rates.
//!
//! `cargo run --release --example freshness_against_budget > docs/freshness.svg`
//!
//! The world is a thousand elements whose rates are lognormal (half of them change
//! less than once a day, one in forty more than nineteen times) and whose weights
//! have a Pareto tail, independent of the rates.

#![expect(clippy::print_stdout, reason = "the drawing goes to standard output")]

use std::fmt::Write;

use springtide_policy::plan::{Candidates, Policy, Rule, RulePolicy};
use springtide_policy::report::report;
use springtide_policy::{Budget, Error, Objective, Order, Rate, Weight};

const N: usize = 1000;
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 56.0;
/// Polls per element and day, from and to.
const BUDGETS: (f64, f64) = (0.03, 10.0);

fn main() -> Result<(), Error> {
    let (rates, weights) = world()?;
    let candidates = Candidates::new(&rates)?.with_weights(&weights)?;
    let curve = |rule: Rule| -> Result<Vec<(f64, f64)>, Error> {
        (0..=80)
            .map(|step| {
                let (least, most) = BUDGETS;
                let per_element = least * (most / least).powf(f64::from(step) / 80.0);
                let budget = Budget::per_day(per_element * N as f64)?;
                let plan = RulePolicy::new(rule).plan(&candidates, &budget);
                Ok((
                    per_element,
                    report(&plan, &candidates, Order::Fixed).freshness,
                ))
            })
            .collect()
    };
    let curves = [
        (
            "springtide",
            "#0b7285",
            3.0,
            curve(Rule::Optimal(Objective::Freshness))?,
        ),
        ("uniform", "#868e96", 2.0, curve(Rule::Uniform)?),
        ("proportional", "#e8590c", 2.0, curve(Rule::Proportional)?),
    ];

    let mut svg = String::new();
    let _ = writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="Freshness against budget: springtide's plan lies above uniform polling, and both far above proportional polling">
<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>"##
    );
    for percent in [0, 25, 50, 75, 100] {
        let at = y(f64::from(percent) / 100.0);
        let (end, text) = (WIDTH - RIGHT, at + 4.0);
        let _ = writeln!(
            svg,
            r##"<path d="M{LEFT} {at:.1}H{end}" stroke="#e9ecef"/><text x="{:.1}" y="{text:.1}" text-anchor="end" fill="#495057">{percent} %</text>"##,
            LEFT - 8.0
        );
    }
    for budget in [0.03, 0.1, 0.3, 1.0, 3.0, 10.0] {
        let _ = writeln!(
            svg,
            r##"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="#495057">{budget}</text>"##,
            x(budget),
            HEIGHT - BOTTOM + 20.0
        );
    }
    let _ = writeln!(
        svg,
        r##"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="#212529">budget: polls per element and day</text>
<text x="{LEFT}" y="14" fill="#212529">freshness of the copy</text>"##,
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 12.0
    );
    for (name, colour, width, points) in &curves {
        let path: Vec<String> = points
            .iter()
            .map(|&(budget, freshness)| format!("{:.1} {:.1}", x(budget), y(freshness)))
            .collect();
        let _ = writeln!(
            svg,
            r##"<path d="M{}" fill="none" stroke="{colour}" stroke-width="{width}"/>"##,
            path.join("L")
        );
        let end = points.last().map_or(0.0, |&(_, freshness)| y(freshness));
        let _ = writeln!(
            svg,
            r##"<text x="{:.1}" y="{:.1}" fill="{colour}">{name}</text>"##,
            WIDTH - RIGHT + 8.0,
            end + if *name == "springtide" { -2.0 } else { 8.0 }
        );
    }
    svg.push_str("</svg>\n");
    print!("{svg}");
    Ok(())
}

fn x(budget: f64) -> f64 {
    let (least, most) = BUDGETS;
    LEFT + (WIDTH - LEFT - RIGHT) * (budget / least).ln() / (most / least).ln()
}

fn y(freshness: f64) -> f64 {
    TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - freshness)
}

/// Evenly spread over both distributions, without random numbers.
fn world() -> Result<(Vec<Rate>, Vec<Weight>), Error> {
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
