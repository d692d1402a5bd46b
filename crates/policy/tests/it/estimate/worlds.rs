//! Poisson worlds whose rates are known, and how good estimates are in them.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, LogNormal, Pareto, StandardNormal};
use rand_pcg::Pcg64;
use springtide_policy::estimate::{Bayes, BiasReduced, Estimator, Prior};
use springtide_policy::{Gamma, Observation, Outcome, Span};

/// How the rates of a group's elements differ, around a middle of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rates {
    /// Of this shape; the middle is the mean.
    Gamma(f64),
    /// A shape for each group, between these; the middle is the mean.
    Gammas(f64, f64),
    /// Of this σ; the middle is the median.
    LogNormal(f64),
    /// Of this shape; the middle is the least.
    Pareto(f64),
    /// So many times the middle for this share, the middle for the rest.
    TwoPoint(f64, f64),
    /// The middle for all.
    Equal,
}

/// When polls come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Intervals {
    /// A day apart.
    Even,
    /// Between a fifth of a day and five days apart.
    Uneven,
}

/// What a world is made by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct World {
    pub(crate) rates: Rates,
    /// The middle of the groups' middles, in changes a day.
    pub(crate) middle: f64,
    /// The standard deviation of the logarithms of the groups' middles.
    pub(crate) between: f64,
    pub(crate) n_groups: usize,
    /// Elements of the smallest and of the largest group.
    pub(crate) sizes: (usize, usize),
    pub(crate) n_polls: usize,
    pub(crate) intervals: Intervals,
    /// The share of changes whose age is known.
    pub(crate) with_age: f64,
}

/// An element and what its polls showed.
pub(crate) struct Member {
    pub(crate) rate: f64,
    pub(crate) polls: Vec<Observation>,
}

/// The elements of a group, and the gamma distribution of their rates where it is one.
pub(crate) struct Group {
    pub(crate) members: Vec<Member>,
    pub(crate) gamma: Option<(f64, f64)>,
}

impl World {
    /// One group of so many elements with five daily polls each, and one change a day
    /// in the middle.
    pub(crate) fn of(rates: Rates, n: usize) -> Self {
        Self {
            rates,
            middle: 1.0,
            between: 0.0,
            n_groups: 1,
            sizes: (n, n),
            n_polls: 5,
            intervals: Intervals::Even,
            with_age: 0.0,
        }
    }

    /// Twenty groups of a hundred elements, five polls each. The groups' middles differ by
    /// orders of magnitude, and so do elements within a group, in some more than in others.
    pub(crate) fn groups_that_differ() -> Self {
        Self {
            middle: 1.0,
            between: 1.5,
            n_groups: 20,
            ..Self::of(Rates::Gammas(1.5, 4.0), 100)
        }
    }

    pub(crate) fn make(&self, seed: u64) -> Vec<Group> {
        let mut rng = Pcg64::seed_from_u64(seed);
        let group = |index| self.group(index, &mut rng);
        (0..self.n_groups).map(group).collect()
    }

    fn group(&self, index: usize, rng: &mut Pcg64) -> Group {
        let normal: f64 = StandardNormal.sample(rng);
        let middle = self.middle * (self.between * normal).exp();
        // Sizes rise evenly in their logarithm from the smallest to the largest.
        let place = index as f64 / (self.n_groups.max(2) - 1) as f64;
        let (small, large) = (self.sizes.0 as f64, self.sizes.1 as f64);
        let n = (small * (large / small).powf(place)).round() as usize;
        let shape = match self.rates {
            Rates::Gamma(shape) => Some(shape),
            Rates::Gammas(low, high) => Some(rng.random_range(low..high)),
            _ => None,
        };
        let members = (0..n).map(|_| {
            let rate = match self.rates {
                Rates::Gamma(_) | Rates::Gammas(..) => {
                    let shape = shape.unwrap();
                    let gamma = rand_distr::Gamma::new(shape, middle / shape).unwrap();
                    gamma.sample(rng)
                }
                Rates::LogNormal(sigma) => LogNormal::new(middle.ln(), sigma).unwrap().sample(rng),
                Rates::Pareto(shape) => Pareto::new(middle, shape).unwrap().sample(rng),
                Rates::TwoPoint(times, share) if rng.random::<f64>() < share => middle * times,
                Rates::TwoPoint(..) | Rates::Equal => middle,
            };
            let polls = (0..self.n_polls).map(|_| self.poll(rate, rng)).collect();
            Member { rate, polls }
        });
        Group {
            members: members.collect(),
            gamma: shape.map(|shape| (shape, shape / middle)),
        }
    }

    fn poll(&self, rate: f64, rng: &mut Pcg64) -> Observation {
        let elapsed = match self.intervals {
            Intervals::Even => 1.0,
            Intervals::Uneven => 5.0_f64.powf(rng.random_range(-1.0..1.0)),
        };
        // The last change lies an exponential time back.
        let standard: f64 = Exp1.sample(rng);
        let age = standard / rate;
        let is_known = rng.random::<f64>() < self.with_age;
        let outcome = if age < elapsed {
            let age = is_known.then(|| Span::days(age).unwrap());
            Outcome::Changed { age }
        } else {
            Outcome::Unchanged
        };
        Observation::new(Span::days(elapsed).unwrap(), outcome).unwrap()
    }
}

/// The pooled estimator of each group.
pub(crate) fn pooled(groups: &[Group]) -> Vec<Bayes> {
    let polls = |group: &Group| -> Vec<Vec<Observation>> {
        let members = group.members.iter();
        members.map(|member| member.polls.clone()).collect()
    };
    let polls: Vec<_> = groups.iter().map(polls).collect();
    let priors = Prior::by_group(&polls).into_iter();
    priors.map(Bayes::new).collect()
}

/// The estimator of each group that knows how rates are distributed there, where it is a
/// gamma distribution.
pub(crate) fn with_true_priors(groups: &[Group]) -> Option<Vec<Bayes>> {
    let bayes = |group: &Group| {
        let (changes, days) = group.gamma?;
        let gamma = Gamma::new(changes, days).ok()?;
        Some(Bayes::new(Prior::fixed(gamma)))
    };
    groups.iter().map(bayes).collect()
}

/// How good estimates are.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Score {
    n: f64,
    below: f64,
    above: f64,
    width: f64,
    n_seen: f64,
    square: f64,
    square_unpooled: f64,
}

impl Score {
    /// Counts the estimates of all elements of a world, with an estimator for each group.
    pub(crate) fn add(&mut self, groups: &[Group], estimators: &[Bayes]) {
        for (group, estimator) in groups.iter().zip(estimators) {
            for Member { rate, polls } in &group.members {
                let estimate = estimator.estimate(polls);
                self.n += 1.0;
                self.below += f64::from(u8::from(*rate < estimate.low_per_day));
                self.above += f64::from(u8::from(*rate > estimate.high_per_day));
                self.width += (estimate.high_per_day / estimate.low_per_day).ln();
                // Without pooling nothing can be said of the logarithm of the rate of
                // an element in which no change was seen.
                if estimate.n_changes > 0 {
                    let unpooled = BiasReduced.estimate(polls).per_day;
                    self.n_seen += 1.0;
                    self.square += (estimate.per_day / rate).ln().powi(2);
                    self.square_unpooled += (unpooled / rate).ln().powi(2);
                }
            }
        }
    }

    /// The share of intervals that hold the true rate.
    pub(crate) fn coverage(&self) -> f64 {
        1.0 - (self.below + self.above) / self.n
    }

    /// The shares of rates below and above their interval.
    pub(crate) fn tails(&self) -> (f64, f64) {
        (self.below / self.n, self.above / self.n)
    }

    /// The mean of ln(high/low).
    pub(crate) fn width(&self) -> f64 {
        self.width / self.n
    }

    /// How much less the root of the mean square error of ln(rate) is than that of the
    /// bias-reduced estimate, which knows no other element.
    pub(crate) fn error_reduction(&self) -> f64 {
        1.0 - (self.square / self.square_unpooled).sqrt()
    }
}
