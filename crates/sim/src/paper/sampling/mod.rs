//! Cho and Ntoulas, *Effective change detection using sampling* (VLDB 2002).
//!
//! Its data, 353,000 pages of 252 sites polled once a month for six months, are
//! lost. [`worlds`] makes others that are like them as far as the paper tells;
//! besides, the policies run on the history at hand.

mod analysis;
mod behaviour;
mod policies;
mod worlds;

use springtide_policy::sample::Sampling;

use super::{Computed, Entry, Exhibit, Paper, Setting};

/// The exhibits in reading order.
pub(super) fn exhibits() -> Vec<Exhibit> {
    let exhibit = |(id, title, compute): (_, _, fn(&Setting<'_>) -> Computed)| Exhibit {
        paper: Paper::Sampling,
        id,
        title,
        compute,
    };
    [analysis::EXHIBITS, policies::EXHIBITS, behaviour::EXHIBITS]
        .concat()
        .into_iter()
        .map(exhibit)
        .collect()
}

/// An id, a title, and what computes it.
type Listed = (&'static str, &'static str, fn(&Setting<'_>) -> Computed);

/// A number that depends on the lost data: it agrees if ours is no further off than
/// the tolerance.
fn near(quantity: impl Into<String>, printed: f64, tolerance: f64, computed: f64) -> Entry {
    let note = format!("compared to within {tolerance}, the paper's data being lost");
    claim(
        quantity,
        printed,
        computed,
        (computed - printed).abs() <= tolerance,
    )
    .noted(note)
}

/// A number that is not compared digit by digit, and whether what is said of it
/// holds.
fn claim(quantity: impl Into<String>, printed: f64, computed: f64, holds: bool) -> Entry {
    Entry {
        printed: printed.into(),
        agrees: Some(holds),
        ..Entry::unprinted(quantity, computed)
    }
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// The policies that Figures 6 and 15 compare.
const POLICIES: [(Sampling, &str); 5] = [
    (Sampling::RoundRobin, "round-robin"),
    (Sampling::Proportional, "proportional"),
    (Sampling::Greedy, "greedy"),
    (Sampling::Adaptive, "adaptive"),
    (Sampling::Frequency, "frequency"),
];

#[cfg(test)]
mod tests {
    use springtide_policy::{Elements, Groups};

    use super::*;
    use crate::world::World;

    #[test]
    fn made_worlds_show_what_the_paper_printed_of_the_lost_one() {
        // The histogram and the number of changes went into the world, and a choice of
        // how pages differ.
        let expected = [
            ("figure-6", "ChangeRatio, greedy"),
            ("figure-6", "ChangeRatio, adaptive"),
            ("figure-6", "greedy over frequency"),
            ("figure-9", "greedy R=5,000"),
            ("figure-9", "greedy on a subset R=5,000"),
            ("figure-13", "fairness after 5 months"),
            ("figure-15", "ChangeRatio, greedy"),
        ];
        // A history of nothing: all of these are of made worlds.
        let nothing = World::recorded(
            Elements::new(),
            Groups::new(),
            Vec::new(),
            (vec![0], Vec::new()),
            0.0,
        );
        let setting = Setting {
            history: &nothing,
            seed: 1,
        };
        for exhibit in exhibits() {
            let quantities = || expected.iter().filter(|(id, _)| *id == exhibit.id);
            if quantities().count() == 0 {
                continue;
            }
            let computed = (exhibit.compute)(&setting);
            for (_, quantity) in quantities() {
                let mut entries = computed.entries.iter();
                let entry = entries.find(|entry| entry.quantity == *quantity);
                let entry = entry.unwrap_or_else(|| panic!("no {quantity} in {exhibit:?}"));
                assert_eq!(entry.agrees, Some(true), "{exhibit:?} {entry:?}");
            }
        }
    }
}
