//! Digests of blocks: which are asked for together, instead of reading rows.

/// Blocks that one statement tells of, and those that are looked through for them.
const MOST_BLOCKS: usize = 32;
const LOOKED_THROUGH: usize = 128;
/// A block that is so much less likely to have changed than the one that is polled is not
/// worth the time of the database.
const MUCH_LESS: f64 = 0.1;
/// A digest of a block that has changed more likely than not is a statement for nothing.
pub const LIKELY: f64 = 0.5;

/// The blocks whose digests one statement asks for: the one that is polled, and of those
/// after it some.
#[derive(Debug, Clone)]
pub struct Together {
    /// The chance that the first has changed, and up to which one a digest is asked for.
    chance: f64,
    likely: f64,
    n_taken: usize,
    n_seen: usize,
}

impl Together {
    /// Begins with the block that is polled and has changed with this chance. Nothing if
    /// that is above `likely`: then its rows had better be read.
    pub fn new(chance: f64, likely: f64) -> Option<Self> {
        (chance <= likely).then_some(Self {
            chance,
            likely,
            n_taken: 1,
            n_seen: 0,
        })
    }

    /// Whether one more is to be looked at.
    pub fn has_room(&self) -> bool {
        self.n_taken < MOST_BLOCKS && self.n_seen < LOOKED_THROUGH
    }

    /// Whether the next block, which has changed with this chance, is asked for too;
    /// nothing is known of one whose digest is not.
    pub fn takes(&mut self, chance: Option<f64>) -> bool {
        self.n_seen += 1;
        let is_worth_it =
            |&chance: &f64| chance <= self.likely && chance >= MUCH_LESS * self.chance;
        let takes = chance.as_ref().is_some_and(is_worth_it);
        self.n_taken += usize::from(takes);
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_probably_changed_is_read() {
        assert!(Together::new(0.51, LIKELY).is_none());
        assert!(Together::new(0.5, LIKELY).is_some());
        assert!(Together::new(1e-9, 0.0).is_none());
    }

    #[test]
    fn blocks_that_are_about_as_quiet_are_asked_for_with_it() {
        let mut together = Together::new(0.2, LIKELY).unwrap();
        assert!(together.takes(Some(0.021)) && together.takes(Some(0.5)));
        assert!(!together.takes(Some(0.019)) && !together.takes(Some(0.6)));
        assert!(!together.takes(None));
    }

    #[test]
    fn no_more_are_taken_or_looked_at_than_a_statement_has_room_for() {
        let mut together = Together::new(0.2, LIKELY).unwrap();
        while together.has_room() {
            together.takes(Some(0.2));
        }
        assert_eq!(together.n_taken, MOST_BLOCKS);
        let mut together = Together::new(0.2, LIKELY).unwrap();
        while together.has_room() {
            together.takes(None);
        }
        assert_eq!((together.n_taken, together.n_seen), (1, LOOKED_THROUGH));
    }
}
