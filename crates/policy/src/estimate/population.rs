//! What rates are usual among some elements.

use super::bayes::shape_for;
use super::peak::{Peak, Standards};
use crate::Gamma;

/// A distribution of rates: the logarithm of the density of ln λ at even steps, a
/// straight line between them, and nothing beyond.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Population {
    left: f64,
    step: f64,
    log_density: Vec<f64>,
    /// The gamma distribution that is nearest.
    gamma: Gamma,
}

/// One element in so many is unlike all others, and may have any rate. Where all are
/// alike, this is what lets one that is not show it.
const UNLIKE: f64 = 1e-3;
/// A share that is left out in either tail.
const NEGLIGIBLE: f64 = 1e-6;
/// A peak that has less of the weight need not be drawn finely.
const MINOR: f64 = 1e-3;
/// The widest step of ln λ, in itself and in spreads of a peak; and how many there may
/// be.
const WIDEST: f64 = 0.08;
const WIDEST_IN_SPREADS: f64 = 0.2;
const MOST_STEPS: f64 = 1200.0;

impl Population {
    /// Peaks with these weights. A rate that is unlike all others has a logarithm between
    /// `left` and `right`.
    pub(super) fn new(peaks: &[(Peak, f64)], (left, right): (f64, f64)) -> Self {
        let total: f64 = peaks.iter().map(|(_, weight)| weight).sum();
        let standards = Standards::of(peaks.iter().map(|(peak, _)| *peak));
        let (mut low, mut high, mut step) = (left, right, WIDEST);
        for (peak, weight) in peaks {
            let extent = standards.extent(peak, NEGLIGIBLE * total / weight);
            (low, high) = (low.min(extent.0), high.max(extent.1));
            if *weight > MINOR * total {
                step = step.min(WIDEST_IN_SPREADS * peak.spread);
            }
        }
        let n_steps = ((high - low) / step).ceil().min(MOST_STEPS);
        let step = (high - low) / n_steps;
        let mut density = vec![0.0; n_steps as usize + 1];
        for (peak, weight) in peaks {
            let weight = weight / (total * step);
            let below = standards.below(peak);
            let extent = standards.extent(peak, 0.1 * NEGLIGIBLE);
            let cell = |theta: f64| ((theta - low) / step).max(0.0) as usize;
            let (first, last) = (cell(extent.0), cell(extent.1) + 2);
            let mut before = below(low + step * (first as f64 - 0.5));
            let cells = density.iter_mut().enumerate().take(last).skip(first);
            for (cell, density) in cells {
                let after = below(low + step * (cell as f64 + 0.5));
                *density += weight * (after - before);
                before = after;
            }
        }
        let at = |cell: usize| low + step * cell as f64;
        let gamma = nearest_gamma(density.iter().enumerate().map(|(cell, &d)| (at(cell), d)));
        let any = UNLIKE / (high - low);
        let log_density = |density: &f64| ((1.0 - UNLIKE) * density + any).ln();
        Self {
            left: low,
            step,
            log_density: density.iter().map(log_density).collect(),
            gamma,
        }
    }

    /// From where to where ln λ may be.
    pub(super) fn extent(&self) -> (f64, f64) {
        let n_steps = self.log_density.len() - 1;
        (self.left, self.left + self.step * n_steps as f64)
    }

    /// The logarithm of the density of ln λ.
    pub(super) fn at(&self, theta: f64) -> f64 {
        let place = (theta - self.left) / self.step;
        let last = self.log_density.len() - 1;
        if place < 0.0 || place > last as f64 {
            return f64::NEG_INFINITY;
        }
        let cell = (place as usize).min(last - 1);
        let (a, b) = (self.log_density[cell], self.log_density[cell + 1]);
        a + (b - a) * (place - cell as f64)
    }

    /// The gamma distribution with the same mean and the same mean logarithm.
    pub(super) fn gamma(&self) -> Gamma {
        self.gamma
    }
}

fn nearest_gamma(density: impl Iterator<Item = (f64, f64)>) -> Gamma {
    let (mut total, mut mean, mut mean_log) = (0.0, 0.0, 0.0);
    for (theta, density) in density {
        total += density;
        mean += density * theta.exp();
        mean_log += density * theta;
    }
    let mean = mean / total;
    let shape = shape_for(mean.ln() - mean_log / total);
    Gamma {
        shape,
        per: shape / mean,
    }
}
