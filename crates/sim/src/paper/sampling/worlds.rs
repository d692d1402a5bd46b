//! Worlds that are like the lost data, and runs of the policies on them.
//!
//! The paper says of its data that 35 % of the sites have less than a tenth of their
//! pages changed in a month, that 18 % have more than nine tenths, that the rest lie
//! between, and that 100,000 of the 353,000 pages change in a month. Spread evenly,
//! the sites of that histogram have 43 % changed on average, not 28 %: so those that
//! change least must have the most pages, 2.7 times as many.
//!
//! How alike the pages of a site are, it does not say. Here a page's chance to change
//! in a month is drawn from Beta(ρ, 1 − ρ) for a site with share ρ, so that most
//! pages change either often or hardly ever. That is a choice, made with the paper's
//! numbers in view: with the pages of a site all alike greedy has a ChangeRatio of
//! 0.80 in Figure 6 and a fairness of 0.75 in Figure 13, with Beta(0.3ρ, 0.3(1 − ρ))
//! of 0.76 and 0.81, and Figure 9 rises from 0.77 to 0.88 and from 0.70 to 0.88.
//!
//! Nor does it say whether a poll finds the changes of the month or those since the
//! page's last poll. Here it finds the latter, as any poll does.

use crate::parallel::*;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Beta, Distribution};
use rand_pcg::Pcg64;
use springtide_policy::sample::{Aim, Sampling, Settings, Subset};
use springtide_policy::schedule::{Choice, Terms};
use springtide_policy::{Budget, Element, Groups, Span};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::run::{Setup, run};
use crate::start::Start;
use crate::world::World;

/// A month, in days.
pub(super) const CYCLE: f64 = 30.0;

/// How many months the paper saw. Longer runs repeat them, as it did.
pub(super) const N_MONTHS: usize = 5;

/// The share of pages that the paper downloads in a month: 100,000 of 353,000.
pub(super) const RATIO: f64 = 100.0 / 353.0;

/// How the shares of changed pages are spread over sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    /// The V of Figure 5.
    V,
    /// Section 4.8: N(0.5, 0.3), what is beyond 0 and 1 moved there.
    Normal,
    /// Evenly from 0 to 1.
    Even,
}

impl Spread {
    /// The share that a part `quantile` of all sites does not pass.
    pub(super) fn share(self, quantile: f64) -> f64 {
        match self {
            Self::V if quantile < 0.35 => 0.1 * quantile / 0.35,
            Self::V if quantile < 0.82 => 0.1 + 0.8 * (quantile - 0.35) / 0.47,
            Self::V => 0.9 + 0.1 * (quantile - 0.82) / 0.18,
            Self::Normal => Normal::new(0.5, 0.3)
                .map_or(0.5, |normal| normal.inverse_cdf(quantile))
                .clamp(0.0, 1.0),
            Self::Even => quantile,
        }
    }

    /// The shares of so many sites.
    pub(super) fn shares(self, n_sites: usize) -> Vec<f64> {
        (0..n_sites)
            .map(|site| self.share((site as f64 + 0.5) / n_sites as f64))
            .collect()
    }

    /// How many sites there are, and how many pages one with this share has.
    fn n_sites(self) -> usize {
        match self {
            Self::V => 252,
            Self::Normal | Self::Even => 300,
        }
    }

    fn n_pages(self, share: f64) -> usize {
        match self {
            Self::V if share < 0.1 => 2377,
            Self::V => 874,
            Self::Normal | Self::Even => 1000,
        }
    }

    /// A world with every `thinning`th site of the paper's, for so many months.
    ///
    /// A page changes at some time of each month in which it changes.
    pub(super) fn world(self, thinning: usize, n_months: usize, seed: u64) -> World {
        let mut rng = Pcg64::seed_from_u64(seed ^ 0x7368_6172_6573);
        let mut shares = self.shares(self.n_sites() / thinning);
        // Round-robin goes through the sites in order, which must not be that of
        // their shares.
        shares.shuffle(&mut rng);
        let mut groups = Groups::new();
        let mut elements = Vec::new();
        let mut starts = vec![0];
        let mut times = Vec::new();
        for share in shares {
            let group = Some(groups.add(None));
            for _ in 0..self.n_pages(share) {
                let chance =
                    Beta::new(share, 1.0 - share).map_or(share, |beta| beta.sample(&mut rng));
                let months: [bool; N_MONTHS] =
                    std::array::from_fn(|_| rng.random::<f64>() < chance);
                let offset = rng.random::<f64>();
                let changes = (0..n_months)
                    .filter(|month| months[month % N_MONTHS])
                    .map(|month| (month as f64 + offset) * CYCLE);
                times.extend(changes);
                starts.push(times.len());
                elements.push(Element {
                    group,
                    ..Element::default()
                });
            }
        }
        World::recorded(
            elements.into_iter().collect(),
            groups,
            Vec::new(),
            (starts, times),
            n_months as f64 * CYCLE,
        )
    }
}

/// The paper's settings of section 4.2: ten samples of each site.
pub(super) fn settings() -> Settings {
    Span::days(CYCLE)
        .and_then(Settings::new)
        .and_then(|settings| settings.with_sample_size(10))
        .and_then(|settings| settings.with_subset(Subset::All))
        .map(|settings| settings.with_aim(Aim::Changes))
        .expect("the paper's settings")
}

/// A policy, its settings, and the share of pages that it polls in a month.
pub(super) type Trial = (Sampling, Settings, f64);

/// The ChangeRatio of each month of a trial. A poll finds a change if there was one
/// since the page's last poll; `watch` is told the month and the page of each.
pub(super) fn months(
    world: &World,
    (sampling, settings, ratio): Trial,
    seed: u64,
    watch: &mut dyn FnMut(usize, usize),
) -> Vec<f64> {
    let lives = (0..world.n_elements()).map(|index| world.lifetime(index));
    let n_pages = lives.sum::<f64>() / world.span().max(f64::MIN_POSITIVE);
    let setup = Setup {
        choice: Choice::Sampled(sampling, settings),
        terms: Terms::new(Budget::per_day(ratio * n_pages / CYCLE).expect("a share of the pages")),
        warmup: 0.0,
        seed,
        last_modified: 0.0,
        hints: None,
        parts: None,
        start: Start::Warm,
        later_budgets: Vec::new(),
    };
    let mut counts = vec![(0_u32, 0_u32); (world.span() / CYCLE) as usize];
    run(world, &setup, &mut |polled| {
        let month = (polled.at / CYCLE).round() as usize - 1;
        counts[month].0 += 1;
        counts[month].1 += u32::from(polled.changed);
        watch(month, polled.element);
    });
    counts
        .into_iter()
        .filter(|&(n_polls, _)| n_polls > 0)
        .map(|(n_polls, n_changes)| f64::from(n_changes) / f64::from(n_polls))
        .collect()
}

/// The ChangeRatios of each trial, month by month.
pub(super) fn compare(world: &World, trials: &[Trial], seed: u64) -> Vec<Vec<f64>> {
    trials
        .par_iter()
        .map(|&trial| months(world, trial, seed, &mut |_, _| {}))
        .collect()
}

/// The mean ChangeRatio of each trial.
pub(super) fn change_ratios(world: &World, trials: &[Trial], seed: u64) -> Vec<f64> {
    let months = compare(world, trials, seed);
    months.iter().map(|ratios| super::mean(ratios)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_v_shaped_world_has_as_many_pages_and_changes_as_the_papers() {
        let world = Spread::V.world(1, N_MONTHS, 1);
        let n_pages = world.n_elements();
        assert!((352_000..354_000).contains(&n_pages), "{n_pages}");
        let n_changes: usize = (0..n_pages).map(|index| world.changes(index).count()).sum();
        let in_a_month = n_changes / N_MONTHS;
        assert!((98_000..102_000).contains(&in_a_month), "{in_a_month}");
    }

    #[test]
    fn months_beyond_the_fifth_repeat_the_first() {
        let world = Spread::V.world(42, 2 * N_MONTHS, 1);
        for index in 0..world.n_elements() {
            let changes: Vec<f64> = world.changes(index).collect();
            let (first, second) = changes.split_at(changes.len() / 2);
            for (first, second) in first.iter().zip(second) {
                assert!((second - first - N_MONTHS as f64 * CYCLE).abs() < 1e-9);
            }
        }
    }
}
