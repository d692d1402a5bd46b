//! How many elements to sample from a site, and what that is worth.

use statrs::function::beta::{beta_reg, ln_beta};

/// √(Nr), the sampling paper's rule of thumb where nothing is known of the shares
/// (section 3.3).
///
/// N is the number of elements of a site, r the budget over the number of all
/// elements.
pub fn rough_sample_size(n_elements: f64, ratio: f64) -> f64 {
    (n_elements * ratio).sqrt()
}

/// What there is to know about the sites that just miss, or just make, being
/// polled whole, if the best of them are polled and a budget suffices for a share
/// r of all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// r, the budget over the number of all elements.
    pub ratio: f64,
    /// ρ_t, the share of changed elements at which a site is just polled.
    pub share: f64,
    /// f(ρ_t), how densely the sites' shares lie there.
    pub density: f64,
    /// The mean share of the sites above.
    pub mean_above: f64,
    /// The mean share of the sites below.
    pub mean_below: f64,
}

impl Threshold {
    /// Theorem 2 of the sampling paper, as printed.
    ///
    /// ```text
    /// s = √( N r f(ρ_t) / (6 (ρ̄_r − ρ̄)) )
    /// ```
    ///
    /// ρ̄_r is the mean share above the threshold and ρ̄ that of all sites. Its
    /// proof adds the loss by wrong choices where it should subtract it, and does
    /// not take what the samples cost from the budget; the optimum is flat, so
    /// little is lost (0.02 at most where we looked).
    /// [`sample_size`](Self::sample_size) mends both.
    pub fn published_sample_size(&self, n_elements: f64) -> f64 {
        let mean = self.ratio * self.mean_above + (1.0 - self.ratio) * self.mean_below;
        (n_elements * self.ratio * self.density / (6.0 * (self.mean_above - mean))).sqrt()
    }

    /// Theorem 2 of the sampling paper with the budget enforced.
    ///
    /// ```text
    /// s = √( N f(ρ_t) v / ((c − r) ρ_t − (1 − r) ρ_low) ),   v = ρ_t (1 − ρ_t) / 2
    /// s ≤ rN / 3c
    /// ```
    ///
    /// c is what a sample costs; at c = 1 the bracket is (1 − r)(ρ_t − ρ_low), with
    /// ρ_low the mean share below the threshold: what a sample loses, being taken
    /// everywhere instead of at the threshold. Where samples are so cheap that they
    /// lose nothing, only the cap holds. N f v / s is what wrong choices lose, by the
    /// normal approximation of the binomial; it fails where samples eat up much of
    /// the budget, hence the cap.
    pub fn sample_size(&self, n_elements: f64, sample_cost: f64) -> f64 {
        let v = 0.5 * self.share * (1.0 - self.share);
        let loss = (sample_cost - self.ratio) * self.share - (1.0 - self.ratio) * self.mean_below;
        let cap = (self.ratio * n_elements / (3.0 * sample_cost)).min(n_elements);
        if loss > 0.0 {
            (n_elements * self.density * v / loss).sqrt().min(cap)
        } else {
            cap
        }
    }
}

/// How the shares of changed elements are spread over sites: a beta distribution,
/// which can be a hill, flat, or the V that the sampling paper found (Figure 5).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Both parameters of the distribution: as many changed and unchanged samples
    /// as knowing it is worth.
    pub(super) changed: f64,
    pub(super) unchanged: f64,
}

impl Shares {
    /// Every share is as likely as any other: what is assumed before any sample.
    pub const EVEN: Self = Self {
        changed: 1.0,
        unchanged: 1.0,
    };

    /// How far a fit goes: from a distribution with all sites at 0 or 1 but for a
    /// few to one with all alike.
    const SIZES: (f64, f64) = (0.02, 1000.0);

    /// The one with this mean and variance, or the nearest there is.
    pub fn with_moments(mean: f64, variance: f64) -> Self {
        let mean = mean.clamp(1e-6, 1.0 - 1e-6);
        let (least, most) = Self::SIZES;
        let size = (mean * (1.0 - mean) / variance.max(f64::MIN_POSITIVE) - 1.0).clamp(least, most);
        Self {
            changed: mean * size,
            unchanged: (1.0 - mean) * size,
        }
    }

    /// The mean share.
    pub fn mean(&self) -> f64 {
        self.changed / self.size()
    }

    /// How many samples knowing the distribution is worth.
    fn size(&self) -> f64 {
        self.changed + self.unchanged
    }

    /// The mean share of sites of which so many of so many samples had changed.
    ///
    /// ```text
    /// (a + c) / (a + b + s)
    /// ```
    pub fn posterior_mean(&self, n_changed: f64, n_samples: f64) -> f64 {
        (self.changed + n_changed) / (self.size() + n_samples)
    }

    /// The threshold above which a share `ratio` of the sites lies.
    pub fn threshold(&self, ratio: f64) -> Threshold {
        let (a, b) = (self.changed, self.unchanged);
        let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if beta_reg(a, b, middle) < 1.0 - ratio {
                low = middle;
            } else {
                high = middle;
            }
        }
        let share = 0.5 * (low + high);
        let below = self.mean() * beta_reg(a + 1.0, b, share);
        Threshold {
            ratio,
            share,
            density: ((a - 1.0) * share.ln() + (b - 1.0) * (-share).ln_1p() - ln_beta(a, b)).exp(),
            mean_above: (self.mean() - below) / ratio,
            mean_below: below / (1.0 - ratio),
        }
    }

    /// The ChangeRatio that greedy sampling is expected to reach.
    ///
    /// Sites of N elements have c of s samples changed with the beta-binomial
    /// probability P(c), and those with the most are polled whole:
    ///
    /// ```text
    /// (s ρ̄ + (rN − ks) ρ̄_x) / (s + rN − ks)
    /// ρ̄_x = mean of (a + c)/(a + b + s) over the share x of sites with the most changed
    /// x = max((rN − ks)/(N − s), 1/M)
    /// ```
    ///
    /// k is what a sample costs. M is the number of sites: with few of them there
    /// is not much to choose from, however small the budget.
    pub fn greedy_change_ratio(
        &self,
        (n_sites, n_elements): (f64, f64),
        ratio: f64,
        (sample_size, sample_cost): (u32, f64),
    ) -> f64 {
        let s = f64::from(sample_size);
        let downloads = ratio * n_elements - sample_cost * s;
        if downloads <= 0.0 || s >= n_elements {
            return self.mean();
        }
        let share = (downloads / (n_elements - s)).max(1.0 / n_sites).min(1.0);
        let (a, b) = (self.changed, self.unchanged);
        // By logarithms: all changed may be too unlikely for a double, and every
        // other probability follows from it.
        let mut ln_chance = ln_beta(s + a, b) - ln_beta(a, b);
        let (mut left, mut sum, mut c) = (share, 0.0, s);
        loop {
            let taken = ln_chance.exp().min(left);
            sum += taken * self.posterior_mean(c, s);
            left -= taken;
            if left <= 0.0 || c < 1.0 {
                break;
            }
            ln_chance += (c / (s - c + 1.0) * (s - c + b) / (c - 1.0 + a)).ln();
            c -= 1.0;
        }
        let best = sum / (share - left);
        (s * self.mean() + downloads * best) / (s + downloads)
    }
}

/// What samples have shown of the shares, all sites counting alike.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    n_sites: f64,
    shares: f64,
    n_pairs: f64,
    pairs: f64,
}

impl Moments {
    /// Of the samples of one site, so many had changed.
    pub(super) fn learn(&mut self, n_changed: f64, n_samples: f64) {
        if n_samples >= 1.0 {
            self.n_sites += 1.0;
            self.shares += n_changed / n_samples;
        }
        // How often two samples have both changed is the square of the share on
        // average; the square of the samples' share would be too large.
        if n_samples >= 2.0 {
            self.n_pairs += 1.0;
            self.pairs += n_changed * (n_changed - 1.0) / (n_samples * (n_samples - 1.0));
        }
    }

    /// Whether anything was seen of the spread.
    pub(super) fn is_known(&self) -> bool {
        self.n_pairs >= 2.0
    }

    /// The spread that fits what was seen.
    pub(super) fn shares(&self) -> Shares {
        if !self.is_known() {
            return Shares::EVEN;
        }
        let mean = self.shares / self.n_sites;
        Shares::with_moments(mean, self.pairs / self.n_pairs - mean * mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(computed: f64, expected: f64, tolerance: f64) {
        assert!(
            (computed - expected).abs() <= tolerance,
            "{computed}, not {expected}"
        );
    }

    #[test]
    fn evenly_spread_shares_have_the_threshold_of_the_uniform_distribution() {
        let threshold = Shares::EVEN.threshold(0.28);
        check(threshold.share, 0.72, 1e-9);
        check(threshold.density, 1.0, 1e-9);
        check(threshold.mean_above, 0.86, 1e-9);
        check(threshold.mean_below, 0.36, 1e-9);
    }

    #[test]
    fn sample_sizes_of_evenly_spread_shares_are_those_worked_out_by_hand() {
        // N = 1000, r = 0.28: √(280 / (6 · 0.36)) and √(1000 · 0.1008 / (0.72 · 0.36)).
        let threshold = Shares::EVEN.threshold(0.28);
        check(threshold.published_sample_size(1000.0), 11.386, 1e-3);
        check(threshold.sample_size(1000.0, 1.0), 19.720, 1e-3);
        check(rough_sample_size(1000.0, 0.28), 16.733, 1e-3);
        // r = 0.1: √(1000 · 0.045 / (0.9 · 0.45)).
        let threshold = Shares::EVEN.threshold(0.1);
        check(threshold.sample_size(1000.0, 1.0), 10.541, 1e-3);
    }

    #[test]
    fn samples_take_no_more_than_a_third_of_the_budget() {
        let alike = Shares::with_moments(0.3, 0.01);
        let threshold = alike.threshold(0.05);
        check(threshold.sample_size(200.0, 1.0), 10.0 / 3.0, 1e-9);
        check(threshold.sample_size(200.0, 0.1), 100.0 / 3.0, 1e-9);
    }

    #[test]
    fn cheaper_samples_are_larger() {
        let threshold = Shares::EVEN.threshold(0.28);
        let sizes = [1.0, 0.9, 0.8, 0.5, 0.1].map(|cost| threshold.sample_size(1000.0, cost));
        assert!(sizes.is_sorted(), "{sizes:?}");
    }

    #[test]
    fn greedy_reaches_the_best_sites_with_large_samples_of_huge_sites() {
        let ratio = Shares::EVEN.greedy_change_ratio((1e6, 1e9), 0.28, (2000, 1.0));
        check(ratio, Shares::EVEN.threshold(0.28).mean_above, 1e-3);
    }

    #[test]
    fn samples_of_one_element_give_what_can_be_summed_by_hand() {
        // Half the sites have their sample changed, and two thirds of the rest of
        // theirs. N = 101, r = 51/101: half the sites are polled whole.
        let ratio = Shares::EVEN.greedy_change_ratio((1e6, 101.0), 51.0 / 101.0, (1, 1.0));
        check(ratio, (0.5 + 50.0 * 2.0 / 3.0) / 51.0, 1e-12);
    }

    #[test]
    fn spending_all_on_samples_finds_the_mean() {
        let shares = Shares::with_moments(0.4, 0.1);
        let ratio = shares.greedy_change_ratio((100.0, 100.0), 0.1, (10, 1.0));
        check(ratio, 0.4, 1e-12);
    }

    #[test]
    fn moments_see_through_the_noise_of_small_samples() {
        // Half the sites at 0.2, half at 0.8, two samples each, in the exact
        // proportions of the binomial distribution.
        let mut moments = Moments::default();
        for (n_changed, times) in [(0, 34), (1, 32), (2, 34)] {
            (0..times).for_each(|_| moments.learn(f64::from(n_changed), 2.0));
        }
        let shares = moments.shares();
        check(shares.mean(), 0.5, 1e-12);
        check(0.25 / (shares.size() + 1.0), 0.09, 1e-12);
    }

    #[test]
    fn a_fit_is_sound_whatever_was_seen() {
        for (n_changed, n_samples) in [(0.0, 5.0), (5.0, 5.0), (1.0, 1.0), (0.0, 0.0)] {
            let mut moments = Moments::default();
            (0..10).for_each(|_| moments.learn(n_changed, n_samples));
            let shares = moments.shares();
            assert!(shares.changed > 0.0 && shares.unchanged > 0.0);
            for ratio in [1e-6, 0.3, 1.0 - 1e-6] {
                let size = shares.threshold(ratio).sample_size(1000.0, 1.0);
                assert!(size >= 0.0, "{shares:?} {ratio}: {size}");
                let ratio = shares.greedy_change_ratio((100.0, 1000.0), ratio, (7, 1.0));
                assert!((0.0..=1.0).contains(&ratio), "{ratio}");
            }
        }
    }
}
