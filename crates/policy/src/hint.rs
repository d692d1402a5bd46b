//! Evidence from listings and pushes: a sitemap's lastmod, a feed entry, a ping.
//!
//! A hint says that an element has changed. Some are wrong, some changes are never
//! hinted at, and how many is different for every source; obeying them blindly is
//! worse than ignoring them. So they count for what they have been worth so far.
//!
//! Let changes come at rate Δ, of which a share ρ (the recall) is hinted at, and
//! let false hints come at rate ν. After τ without a poll and with n hints
//!
//! ```text
//! P(fresh) = e^(−α τ) qⁿ,   α = (1 − ρ) Δ,   q = ν / (ρΔ + ν)
//! ```
//!
//! (Busa-Fekete et al., arXiv 2502.02430.) 1 − ρ is how many of the expected
//! changes are found by polls that no hint asked for; q is how many copies are
//! still fresh after a hint that would have been without. Both are counted here.

/// What a source's hints have been worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HintRecord {
    /// Polls without a hint: changes found, and changes expected had there been no
    /// hints to wait for.
    found: f64,
    expected: f64,
    /// Polls after a hint: copies still fresh, and expected to be without it.
    fresh: f64,
    expected_fresh: f64,
}

/// So many polls' worth of belief that hints mean nothing, to begin with.
const DOUBT: f64 = 2.0;
/// A hint never makes it certain that a copy is stale, nor silence that it is
/// fresh.
const LEAST: f64 = 0.01;
/// Hints that leave more than this of either are not worth the trouble.
const USELESS: f64 = 0.98;
/// Hints in one cycle that are reckoned with; more are as good as these.
const MOST_HINTS: u32 = 8;

impl HintRecord {
    pub(crate) const NONE: Self = Self {
        found: 0.0,
        expected: 0.0,
        fresh: 0.0,
        expected_fresh: 0.0,
    };

    /// The numbers that it is remembered by.
    pub(crate) const N: usize = 4;

    pub(crate) fn numbers(&self) -> [f64; Self::N] {
        [self.found, self.expected, self.fresh, self.expected_fresh]
    }

    pub(crate) fn from_numbers(numbers: [f64; Self::N]) -> Self {
        let [found, expected, fresh, expected_fresh] = numbers.map(|number| number.max(0.0));
        Self {
            found,
            expected,
            fresh,
            expected_fresh,
        }
    }

    /// The share of changes that come without a hint, 1 − ρ.
    fn silent(&self) -> f64 {
        ((self.found + DOUBT) / (self.expected + DOUBT)).clamp(LEAST, 1.0)
    }

    /// What a hint leaves of the chance that a copy is fresh, q.
    fn doubt(&self) -> f64 {
        ((self.fresh + DOUBT) / (self.expected_fresh + DOUBT)).clamp(LEAST, 1.0)
    }

    /// A poll that no hint asked for found a change or not; it was expected to with
    /// this chance, hints or no hints.
    pub(crate) fn observe_unhinted(&mut self, changed: bool, chance: f64) {
        self.found += f64::from(u8::from(changed));
        self.expected += chance;
    }

    /// A poll after so many hints; without them the copy would have been fresh with
    /// this chance.
    pub(crate) fn observe_hinted(&mut self, changed: bool, n_hints: u32, fresh: f64) {
        // Of several hints it takes one to be true: what they leave together is
        // counted as if each left its share.
        let share = 1.0 / f64::from(n_hints.max(1));
        self.fresh += share * f64::from(u8::from(!changed));
        self.expected_fresh += share * fresh;
    }

    /// What hints mean for an element that changes at this rate; `None` if they
    /// mean nothing.
    pub(crate) fn hinting(&self, rate: f64) -> Option<Hinting> {
        let (silent, doubt) = (self.silent(), self.doubt());
        if silent > USELESS || doubt > USELESS {
            return None;
        }
        let alpha = silent * rate;
        let gamma = (1.0 - silent) * rate / (1.0 - doubt);
        Some(Hinting {
            alpha,
            gamma,
            nu: doubt * gamma,
            beta: -doubt.ln() / alpha,
        })
    }
}

/// An element's silent changes (α), hints (γ), false hints (ν), and by how much a
/// hint ages its copy (β = −ln q / α).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hinting {
    alpha: f64,
    gamma: f64,
    nu: f64,
    beta: f64,
}

impl Hinting {
    /// How likely a copy is fresh, so long after its poll and after so many hints.
    pub(crate) fn fresh(&self, elapsed: f64, n_hints: u32) -> f64 {
        (-self.alpha * self.age(elapsed, n_hints)).exp()
    }

    /// What a poll is worth for freshness then.
    ///
    /// ```text
    /// V(ι) = W(ι) − e^(−αι) ψ(ι),   ι = τ + nβ
    /// ψ(ι) = Σ Rᵢ(γ(ι − iβ)) / γ                        the mean length of a cycle
    /// W(ι) = Σ νⁱ/(α+γ)^(i+1) Rᵢ((α+γ)(ι − iβ))         the mean time fresh in one
    /// ```
    ///
    /// summed while ι > iβ, with Rᵢ(x) = 1 − e^(−x) Σ x^j/j! up to j = i, for cycles
    /// that end when the copy is as old as this one, hints and all.
    pub(crate) fn value(&self, elapsed: f64, n_hints: u32) -> f64 {
        let age = self.age(elapsed, n_hints);
        let both = self.alpha + self.gamma;
        let (mut length, mut fresh) = (0.0, 0.0);
        let mut weight = 1.0 / both;
        for i in 0..=MOST_HINTS {
            let left = age - f64::from(i) * self.beta;
            if left <= 0.0 {
                break;
            }
            length += remainder(i, self.gamma * left) / self.gamma;
            fresh += weight * remainder(i, both * left);
            weight *= self.nu / both;
        }
        fresh - (-self.alpha * age).exp() * length
    }

    /// When, from `now` to the latest, a poll is worth what is wanted.
    pub(crate) fn reaches(&self, wanted: f64, n_hints: u32, (now, latest): (f64, f64)) -> f64 {
        if self.value(now, n_hints) >= wanted {
            return now;
        }
        let (mut low, mut high) = (now, latest.max(now));
        for _ in 0..12 {
            let middle = 0.5 * (low + high);
            if self.value(middle, n_hints) >= wanted {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    fn age(&self, elapsed: f64, n_hints: u32) -> f64 {
        elapsed + f64::from(n_hints.min(MOST_HINTS)) * self.beta
    }
}

/// Rᵢ(x) = 1 − e^(−x) Σ x^j/j! up to j = i.
fn remainder(i: u32, x: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for j in 1..=i {
        term *= x / f64::from(j);
        sum += term;
    }
    1.0 - (-x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_mean_nothing_before_they_have_proved_themselves() {
        assert_eq!(HintRecord::NONE.silent(), 1.0);
        assert_eq!(HintRecord::NONE.doubt(), 1.0);
    }

    #[test]
    fn what_hints_are_worth_is_counted() {
        let mut record = HintRecord::NONE;
        for poll in 0..10_000 {
            // Two in five of the expected changes come unannounced, and one in four
            // hinted copies is fresh that would have been in nine of ten cases.
            record.observe_unhinted(poll % 25 == 0, 0.1);
            record.observe_hinted(poll % 4 != 0, 1, 0.9);
        }
        assert!((record.silent() - 0.4).abs() < 0.01);
        assert!((record.doubt() - 0.25 / 0.9).abs() < 0.01);
    }

    fn hinting(change: f64, recall: f64, precision: f64) -> Hinting {
        let nu = recall * change * (1.0 - precision) / precision;
        let (alpha, gamma) = ((1.0 - recall) * change, recall * change + nu);
        Hinting {
            alpha,
            gamma,
            nu,
            beta: (gamma / nu).ln() / alpha,
        }
    }

    #[test]
    fn the_value_is_that_of_simulated_cycles() {
        // Length of a cycle and time fresh in it, by Monte Carlo: 1.0774 and .7764;
        // 1.6256 and .48658.
        for (change, recall, precision, age, length, fresh) in [
            (1.0, 0.6, 0.7, 3.0, 1.0774, 0.7764),
            (2.0, 0.3, 0.5, 2.5, 1.6256, 0.48658),
        ] {
            let hinting = hinting(change, recall, precision);
            let value = hinting.value(age, 0);
            let expected = fresh - (-hinting.alpha * age).exp() * length;
            assert!((value - expected).abs() < 2e-3, "{value} {expected}");
        }
    }

    #[test]
    fn without_hints_the_value_is_that_of_freshness() {
        let hinting = hinting(2.0, 1e-6, 0.5);
        for elapsed in [0.1, 1.0, 3.0] {
            let expected = crate::value::freshness_value(2.0 * elapsed) / 2.0;
            assert!((hinting.value(elapsed, 0) - expected).abs() < 1e-4);
        }
    }

    #[test]
    fn a_hint_makes_a_poll_worth_more() {
        let hinting = hinting(1.0, 0.6, 0.7);
        assert!(hinting.value(0.5, 1) > 3.0 * hinting.value(0.5, 0));
        assert!(hinting.fresh(0.5, 1) < 0.5 * hinting.fresh(0.5, 0));
        let due = hinting.reaches(hinting.value(2.0, 0), 0, (0.0, 5.0));
        assert!((due - 2.0).abs() < 0.01);
    }
}
