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
pub(crate) struct Hearsay {
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

impl Hearsay {
    pub(crate) const NONE: Self = Self {
        found: 0.0,
        expected: 0.0,
        fresh: 0.0,
        expected_fresh: 0.0,
    };

    /// The share of changes that come without a hint, 1 − ρ.
    pub(crate) fn silent(&self) -> f64 {
        ((self.found + DOUBT) / (self.expected + DOUBT)).clamp(LEAST, 1.0)
    }

    /// What a hint leaves of the chance that a copy is fresh, q.
    pub(crate) fn doubt(&self) -> f64 {
        ((self.fresh + DOUBT) / (self.expected_fresh + DOUBT)).clamp(LEAST, 1.0)
    }

    /// A poll that no hint asked for found a change or not; it was expected to with
    /// this chance.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_mean_nothing_before_they_have_proved_themselves() {
        assert_eq!(Hearsay::NONE.silent(), 1.0);
        assert_eq!(Hearsay::NONE.doubt(), 1.0);
    }

    #[test]
    fn what_hints_are_worth_is_counted() {
        let mut hearsay = Hearsay::NONE;
        for poll in 0..10_000 {
            // Two in five of the expected changes come unannounced, and one in four
            // hinted copies is fresh that would have been in nine of ten cases.
            hearsay.observe_unhinted(poll % 25 == 0, 0.1);
            hearsay.observe_hinted(poll % 4 != 0, 1, 0.9);
        }
        assert!((hearsay.silent() - 0.4).abs() < 0.01);
        assert!((hearsay.doubt() - 0.25 / 0.9).abs() < 0.01);
    }
}
