//! Distributions of rates with one peak.

use statrs::function::gamma::{digamma, ln_gamma};

use super::bayes::trigamma;

/// A distribution of the logarithm of a rate, with one peak and tails of any weight.
///
/// ```text
/// ln λ = middle + spread · Z,   Z = −sign(skew) · (ln G − ψ(k)) / √ψ′(k),   G ~ Gamma(k, 1),   k = 1/skew²
/// ```
///
/// This is Prentice's log-gamma family. Without skew λ is lognormal. A negative skew
/// has the longer tail to the left, as a gamma distribution does (that of shape a has
/// skew −1/√a and spread √ψ′(a)); a positive one has it to the right, and a great one
/// is close to Pareto's distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Peak {
    /// The mean of ln λ.
    pub(super) middle: f64,
    /// The standard deviation of ln λ.
    pub(super) spread: f64,
    pub(super) skew: f64,
}

/// Z for one skew: how much of it lies below −REACH, −REACH + STEP, ….
struct Standard {
    skew: f64,
    below: Vec<f64>,
}

/// Beyond so many standard deviations, to either side, there is nothing.
const REACH: f64 = 14.0;
const STEP: f64 = 1.0 / 16.0;
/// A skew nearer to zero is none.
const NO_SKEW: f64 = 0.05;

impl Standard {
    fn new(skew: f64) -> Self {
        let shape = 1.0 / (skew * skew);
        let log_density: Box<dyn Fn(f64) -> f64> = if skew.abs() < NO_SKEW {
            Box::new(|z| -0.5 * z * z)
        } else {
            let (center, scale) = (digamma(shape), trigamma(shape).sqrt());
            let log_norm = scale.ln() - ln_gamma(shape);
            Box::new(move |z| {
                let log_gamma = center - skew.signum() * scale * z;
                log_norm + shape * log_gamma - log_gamma.exp()
            })
        };
        let n_steps = (2.0 * REACH / STEP) as usize;
        let density = |step: usize| log_density(STEP * step as f64 - REACH).exp();
        let mut below = Vec::with_capacity(n_steps + 1);
        let (mut total, mut before) = (0.0, 0.0);
        for step in 0..=n_steps {
            let density = density(step);
            total += 0.5 * (before + density);
            before = density;
            below.push(total);
        }
        below.iter_mut().for_each(|share| *share /= total);
        Self { skew, below }
    }

    fn below(&self, z: f64) -> f64 {
        let place = (z + REACH) / STEP;
        if place <= 0.0 {
            return 0.0;
        }
        let step = place as usize;
        match self.below.get(step + 1) {
            Some(next) => self.below[step] + (next - self.below[step]) * (place - step as f64),
            None => 1.0,
        }
    }
}

/// What all peaks with some skews need.
pub(super) struct Standards(Vec<Standard>);

impl Standards {
    pub(super) fn of(peaks: impl Iterator<Item = Peak>) -> Self {
        let mut skews: Vec<f64> = peaks.map(|peak| peak.skew).collect();
        skews.sort_by(f64::total_cmp);
        skews.dedup();
        Self(skews.into_iter().map(Standard::new).collect())
    }

    /// The share of one of the peaks below a ln λ.
    pub(super) fn below<'a>(&'a self, peak: &Peak) -> impl Fn(f64) -> f64 + 'a {
        let standard = self.standard(peak);
        let Peak { middle, spread, .. } = *peak;
        move |theta| standard.below((theta - middle) / spread)
    }

    /// From where to where ln λ may be, but for this share on either side.
    pub(super) fn extent(&self, peak: &Peak, share: f64) -> (f64, f64) {
        let below = &self.standard(peak).below;
        let first = below.partition_point(|&below| below < share).max(1) - 1;
        let last = below.partition_point(|&below| below < 1.0 - share);
        let at = |step: usize| peak.middle + peak.spread * (STEP * step as f64 - REACH);
        (at(first), at(last.min(below.len() - 1)))
    }

    fn standard(&self, peak: &Peak) -> &Standard {
        let place = self.0.partition_point(|standard| standard.skew < peak.skew);
        &self.0[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(peak: Peak, values: &[(f64, f64)]) {
        let standards = Standards::of(std::iter::once(peak));
        let below = standards.below(&peak);
        for &(rate, share) in values {
            let computed = below(f64::ln(rate));
            assert!(
                (computed - share).abs() < 5e-4,
                "{rate}: {computed} {share}"
            );
        }
    }

    #[test]
    fn a_peak_without_skew_is_lognormal() {
        // The normal distribution at −1.645, 0 and 1.
        let peak = Peak {
            middle: 0.5,
            spread: 2.0,
            skew: 0.0,
        };
        let at = |z: f64| (0.5 + 2.0 * z).exp();
        check(
            peak,
            &[(at(-1.644_854), 0.05), (at(0.0), 0.5), (at(1.0), 0.841_345)],
        );
    }

    #[test]
    fn the_exponential_distribution_is_a_peak_with_skew_minus_one() {
        let peak = Peak {
            middle: -0.577_215_664_9,
            spread: std::f64::consts::PI / 6.0_f64.sqrt(),
            skew: -1.0,
        };
        let share = |rate: f64| (rate, -(-rate).exp_m1());
        check(peak, &[0.01, 0.1, 1.0, 3.0].map(share));
        // Mirrored: the distribution of its inverse.
        let mirrored = Peak {
            middle: -peak.middle,
            skew: 1.0,
            ..peak
        };
        let share = |rate: f64| (1.0 / rate, (-rate).exp());
        check(mirrored, &[0.01, 0.1, 1.0, 3.0].map(share));
    }
}
