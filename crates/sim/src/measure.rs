//! How fresh the copies were: exact integrals over time.

use springtide_policy::{Element, Weight};

/// What an experiment measured. Means are over time and elements, weighted, after
/// the warm-up; they are not numbers if nothing was there to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Measures {
    /// Polls over the whole span.
    pub n_polls: u64,
    /// The share of time that copies were fresh.
    pub freshness: f64,
    /// The time since the first change that a copy missed, in days.
    pub age_days: f64,
    /// The summed ages of all changes that a copy missed, in days.
    pub content_staleness: f64,
    /// Polls that found a change, per poll, after the warm-up.
    pub change_ratio: f64,
    /// The same, each poll counted by the weight of its element.
    pub weighted_change_ratio: f64,
    /// Elements that changed and were polled after their first change, per
    /// element that changed, over the whole span.
    pub fairness: f64,
    /// How far what polls found was from what the policy had thought likely, after the
    /// warm-up: the mean of −ln of the chance that it gave to what it then found. Nothing
    /// of a policy that believes nothing.
    pub log_loss: Option<f64>,
}

/// Running totals of an experiment, or of a part of its elements.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    warmup: f64,
    n_polls: u64,
    measured: Polls,
    /// Weighted days: there at all, fresh.
    here: f64,
    fresh: f64,
    /// Weighted squares of days.
    aged: f64,
    missed: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Polls {
    n: u64,
    n_found: u64,
    weight: f64,
    weight_found: f64,
    /// Those of which it was foretold how likely they were to find a change, and the sum
    /// of −ln of the chances given to what they found.
    n_foretold: u64,
    surprise: f64,
}

/// A chance that is given to what cannot be is at least this: no single poll decides.
const LEAST_CHANCE: f64 = 1e-6;

/// A copy from when it was in sync until its next poll, or its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spell {
    warmup: f64,
    from: f64,
    until: f64,
    first_change: f64,
    aged: f64,
    missed: f64,
}

impl Spell {
    /// Notes a change; the first one noted is the first there was.
    pub(crate) fn change(&mut self, at: f64) {
        // The integral of the time since the change, over what is measured.
        let measured_from = at.max(self.warmup);
        if measured_from < self.until {
            let (begin, end) = (measured_from - at, self.until - at);
            let aged = (end - begin) * (end + begin) / 2.0;
            self.missed += aged;
            if self.first_change == f64::INFINITY {
                self.aged = aged;
            }
        }
        self.first_change = self.first_change.min(at);
    }
}

impl Tally {
    pub(crate) fn new(warmup: f64) -> Self {
        Self {
            warmup,
            n_polls: 0,
            measured: Polls::default(),
            here: 0.0,
            fresh: 0.0,
            aged: 0.0,
            missed: 0.0,
        }
    }

    /// A poll that brings the first copy finds no change since another.
    pub(crate) fn first_poll(&mut self) {
        self.n_polls += 1;
    }

    /// A poll found a change or not, and how likely a change was thought to be.
    pub(crate) fn poll(
        &mut self,
        element: Element,
        (found, chance): (bool, Option<f64>),
        now: f64,
    ) {
        self.n_polls += 1;
        if now >= self.warmup {
            if let Some(chance) = chance {
                let given = if found { chance } else { 1.0 - chance };
                self.measured.n_foretold += 1;
                self.measured.surprise -= given.max(LEAST_CHANCE).ln();
            }
            let weight = element.weight.as_f64();
            self.measured.n += 1;
            self.measured.weight += weight;
            if found {
                self.measured.n_found += 1;
                self.measured.weight_found += weight;
            }
        }
    }

    pub(crate) fn spell(&self, from: f64, until: f64) -> Spell {
        Spell {
            warmup: self.warmup,
            from,
            until,
            first_change: f64::INFINITY,
            aged: 0.0,
            missed: 0.0,
        }
    }

    pub(crate) fn add(&mut self, spell: &Spell, weight: Weight) {
        let weight = weight.as_f64();
        let from = spell.from.max(self.warmup);
        self.here += weight * (spell.until - from).max(0.0);
        self.fresh += weight * (spell.until.min(spell.first_change) - from).max(0.0);
        self.aged += weight * spell.aged;
        self.missed += weight * spell.missed;
    }

    pub(crate) fn measures(&self, (n_changed, n_found): (usize, usize)) -> Measures {
        Measures {
            n_polls: self.n_polls,
            freshness: self.fresh / self.here,
            age_days: self.aged / self.here,
            content_staleness: self.missed / self.here,
            change_ratio: self.measured.n_found as f64 / self.measured.n as f64,
            weighted_change_ratio: self.measured.weight_found / self.measured.weight,
            fairness: n_found as f64 / n_changed as f64,
            log_loss: (self.measured.n_foretold > 0)
                .then(|| self.measured.surprise / self.measured.n_foretold as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two changes, at 1 and 3, in a spell from 0 to 4.
    fn measured(warmup: f64) -> Measures {
        let mut tally = Tally::new(warmup);
        let mut spell = tally.spell(0.0, 4.0);
        spell.change(1.0);
        spell.change(3.0);
        tally.add(&spell, Weight::ONE);
        tally.measures((1, 0))
    }

    #[test]
    fn integrals_are_exact() {
        let all = measured(0.0);
        assert_eq!(all.freshness, 1.0 / 4.0);
        assert_eq!(all.age_days, 4.5 / 4.0);
        assert_eq!(all.content_staleness, (4.5 + 0.5) / 4.0);
    }

    #[test]
    fn what_was_thought_likely_is_held_against_what_was_found() {
        let mut tally = Tally::new(1.0);
        assert_eq!(tally.measures((1, 1)).log_loss, None);
        let polls = [(true, 0.5, 0.0), (true, 0.25, 1.0), (false, 0.25, 2.0)];
        for (found, chance, now) in polls {
            tally.poll(Element::default(), (found, Some(chance)), now);
        }
        tally.poll(Element::default(), (true, None), 3.0);
        let expected = -(0.25_f64.ln() + 0.75_f64.ln()) / 2.0;
        let found = tally.measures((1, 1)).log_loss.unwrap();
        assert!((found - expected).abs() < 1e-12);
        tally.poll(Element::default(), (true, Some(0.0)), 3.0);
        assert!(tally.measures((1, 1)).log_loss.unwrap().is_finite());
    }

    #[test]
    fn a_warmup_within_a_spell_cuts_it() {
        let late = measured(2.0);
        assert_eq!(late.freshness, 0.0);
        // From age 1 to age 3 over two days.
        assert_eq!(late.age_days, 4.0 / 2.0);
        assert_eq!(late.content_staleness, (4.0 + 0.5) / 2.0);
        assert!(measured(4.0).freshness.is_nan());
    }
}
