//! How alike the elements of a group are.

use crate::Gamma;
use crate::numeric::quick_exp;

/// The shape of the gamma distribution that rates in a group have, fitted as polls
/// come in.
///
/// Many changes beyond what is usual in one element, and none in another, mean that
/// they differ: a small shape. If all change as often as is usual, it is large, and
/// an element's own polls say little.
///
/// Under a belief with shape a and inverse scale b, which began with shape s and mean
/// m, an element is unchanged after t with the chance S = (b/(b+t))^a, and
///
/// ```text
/// d ln S / d ln s = s ln(b/(b+t)) + a (s/m) (1/b − 1/(b+t))
/// ```
///
/// is the slope of the logarithm of the likelihood if it was unchanged; times
/// −S/(1−S) it is that of a change. Steps go along it, over the information so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Likeness {
    log_shape: f64,
    information: f64,
    /// The shape itself: it is asked for more often than it moves.
    shape: f64,
}

/// What a poll says of the shape: which way it moves its logarithm, and how much the
/// poll tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShapeEvidence {
    slope: f64,
    information: f64,
}

/// The shape to begin with: most elements change less than the mean.
const SHAPE: f64 = 1.0;
/// The information to begin with: as from a dozen polls.
const INFORMATION: f64 = 1.0;
/// The least and the greatest shape. Beyond these nothing is gained.
const SHAPES: (f64, f64) = (0.15, 30.0);
/// A change as likely as this says nothing of shapes.
const SURE: f64 = 0.95;

impl Default for Likeness {
    fn default() -> Self {
        Self::from_numbers([SHAPE.ln(), INFORMATION])
    }
}

impl Likeness {
    /// The numbers that it is remembered by.
    pub(super) const N: usize = 2;

    pub(super) fn numbers(self) -> [f64; Self::N] {
        [self.log_shape, self.information]
    }

    pub(super) fn from_numbers([log_shape, information]: [f64; Self::N]) -> Self {
        let log_shape = log_shape.clamp(SHAPES.0.ln(), SHAPES.1.ln());
        Self {
            log_shape,
            information: information.max(INFORMATION),
            shape: quick_exp(log_shape),
        }
    }

    /// That of a new group inside one of this.
    pub(super) fn inside(self) -> Self {
        Self {
            information: INFORMATION,
            ..self
        }
    }

    pub(super) fn shape(self) -> f64 {
        self.shape
    }

    /// Moves the shape by what a poll says of it.
    pub(super) fn observe(&mut self, evidence: ShapeEvidence) {
        self.information += evidence.information;
        self.log_shape = (self.log_shape + evidence.slope / self.information)
            .clamp(SHAPES.0.ln(), SHAPES.1.ln());
        self.shape = quick_exp(self.log_shape);
    }
}

impl ShapeEvidence {
    /// An element that was believed to begin with as `prior`, and by now as `belief`,
    /// was found changed or not after an interval. `None` if that says nothing.
    pub(super) fn of(prior: Gamma, belief: Gamma, interval: f64, changed: bool) -> Option<Self> {
        let length = (interval / belief.per).ln_1p();
        let fresh = quick_exp(-belief.shape * length);
        let stale = 1.0 - fresh;
        if !(1e-12..SURE).contains(&stale) {
            return None;
        }
        let after = belief.per + interval;
        let slope =
            belief.shape * prior.per * interval / (belief.per * after) - prior.shape * length;
        let odds = fresh / stale;
        Some(Self {
            slope: if changed { -slope * odds } else { slope },
            information: slope * slope * odds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;
    use crate::estimate::updated;
    use rand::{RngExt, SeedableRng};
    use rand_distr::Distribution;
    use rand_pcg::Pcg64;

    /// The shape found from ten polls each of elements whose rates have this one.
    fn fitted(shape: f64, n: usize, seed: u64) -> f64 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let rates = rand_distr::Gamma::new(shape, 1.0 / shape).unwrap();
        let mut likeness = Likeness::default();
        let mut elements: Vec<(f64, f64, f64)> =
            (0..n).map(|_| (rates.sample(&mut rng), 0.0, 0.0)).collect();
        for _ in 0..10 {
            for (rate, changes, days) in &mut elements {
                let prior = Gamma {
                    shape: likeness.shape(),
                    per: likeness.shape(),
                };
                let belief = Gamma {
                    shape: prior.shape + *changes,
                    per: prior.per + *days,
                };
                let changed = rng.random::<f64>() > (-*rate).exp();
                let evidence = ShapeEvidence::of(prior, belief, 1.0, changed);
                if let Some(evidence) = evidence.filter(|_| *days > 0.0) {
                    likeness.observe(evidence);
                }
                let outcome = match changed {
                    true => Outcome::Changed { age: None },
                    false => Outcome::Unchanged,
                };
                let after = updated(belief, 1.0, outcome);
                (*changes, *days) = (after.shape - prior.shape, after.per - prior.per);
            }
        }
        likeness.shape()
    }

    #[test]
    fn it_finds_how_alike_rates_are() {
        for (shape, seed) in [(0.4, 1), (1.0, 2), (3.0, 3)] {
            let found = fitted(shape, 2000, seed);
            assert!((0.7..1.5).contains(&(found / shape)), "{shape}: {found}");
        }
        // All alike: as far as it goes.
        assert!(fitted(1000.0, 2000, 4) > 12.0);
    }

    #[test]
    fn it_is_the_slope_of_the_likelihood_that_it_follows() {
        let mean = 0.7;
        let (changes, days, interval) = (1.3, 4.0, 2.5);
        let fresh = |log_shape: f64| {
            let shape = log_shape.exp();
            let (a, b) = (shape + changes, shape / mean + days);
            (b / (b + interval)).powf(a)
        };
        for shape in [0.3, 1.0, 8.0_f64] {
            let at = shape.ln();
            let slope = (fresh(at + 1e-5).ln() - fresh(at - 1e-5).ln()) / 2e-5;
            let mut likeness = Likeness::from_numbers([at, 1e6]);
            let prior = Gamma {
                shape,
                per: shape / mean,
            };
            let belief = Gamma {
                shape: shape + changes,
                per: shape / mean + days,
            };
            likeness.observe(ShapeEvidence::of(prior, belief, interval, false).unwrap());
            let step = (likeness.numbers()[0] - at) * likeness.numbers()[1];
            assert!((step / slope - 1.0).abs() < 1e-3, "{shape}: {step} {slope}");
        }
    }
}
