//! Elements of many parts, such as blocks of rows: how large their changes are.

/// What is left, after a poll, of how many parts those before found changed,
const KEPT: f64 = 0.9;
/// and the fewest that it can come to.
const FEWEST: f64 = 1e-3;

/// The parts of an element, and how many of them have changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    n: f64,
    /// Parts that polls found changed, and changes that were to be expected by what is
    /// believed of the whole, the latest counting most.
    n_changed: f64,
    n_expected: f64,
}

impl Parts {
    pub(super) fn new(n: u32) -> Self {
        let n = f64::from(n);
        // Until something is seen, a change is one of one part.
        Self {
            n,
            n_changed: 1.0,
            n_expected: 1.0,
        }
    }

    /// A poll shows whether there was a change, and beyond that how large it was. A batch
    /// of a thousand rows is one change of them all; a thousand changes of a row each, in
    /// between two polls, are for the whole one too. Either way it is a thousand.
    pub(super) fn observe(&mut self, n_changed: f64, n_expected: f64) {
        self.n_changed = KEPT * self.n_changed + n_changed;
        self.n_expected = KEPT * self.n_expected + n_expected;
    }

    /// Changes are as large as another's, as far as is known.
    pub(super) fn inherit(&mut self, whole: &Self) {
        self.recall(whole.per_change());
    }

    /// A change was known to touch so many.
    pub(super) fn recall(&mut self, per_change: f64) {
        self.n_changed = per_change;
        self.n_expected = 1.0;
    }

    /// How many of them a change touches.
    pub(super) fn per_change(&self) -> f64 {
        self.n_changed.max(FEWEST) / self.n_expected.max(FEWEST)
    }

    /// How many changes it takes until all have changed.
    pub(super) fn in_changes(&self) -> f64 {
        (self.n / self.per_change()).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_something_is_seen_a_change_is_one_of_one_part() {
        assert_eq!(Parts::new(100).in_changes(), 100.0);
    }

    #[test]
    fn parts_that_change_together_take_few_changes() {
        let mut parts = Parts::new(100);
        for _ in 0..100 {
            parts.observe(0.0, 0.1);
            parts.observe(50.0, 0.1);
        }
        // A quarter of the expected changes is a change of 50: 250 parts for each.
        assert_eq!(parts.in_changes(), 1.0);
        let mut parts = Parts::new(100);
        for _ in 0..100 {
            parts.observe(2.0, 1.0);
        }
        assert!((parts.in_changes() - 50.0).abs() < 0.1);
    }

    #[test]
    fn what_was_seen_is_forgotten() {
        let mut parts = Parts::new(100);
        parts.observe(100.0, 1.0);
        assert!(parts.in_changes() < 2.0);
        for _ in 0..100 {
            parts.observe(1.0, 1.0);
        }
        assert!((parts.in_changes() - 100.0).abs() < 1.0);
    }
}
