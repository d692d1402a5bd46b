//! Elements that are looked at at some time, whatever the policy says: those that are
//! out, and those that were never had.

use std::collections::{BTreeMap, BTreeSet};

use springtide_store::{ElementId, Moment};

/// One time for each element.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    by_time: BTreeSet<(Moment, ElementId)>,
    of: BTreeMap<ElementId, Moment>,
}

impl Timers {
    /// An element is looked at then, and at no other time that was set before.
    pub(crate) fn set(&mut self, id: ElementId, due: Moment) {
        if let Some(before) = self.of.insert(id, due) {
            self.by_time.remove(&(before, id));
        }
        self.by_time.insert((due, id));
    }

    /// When the first is due.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.by_time.first().map(|&(due, _)| due)
    }

    /// Takes one that is due.
    pub(crate) fn pop(&mut self, now: Moment) -> Option<ElementId> {
        let &(due, id) = self.by_time.first().filter(|(due, _)| *due <= now)?;
        self.by_time.remove(&(due, id));
        self.of.remove(&id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_has_one_time_and_the_last_word_counts() {
        let mut timers = Timers::default();
        timers.set(ElementId(1), Moment(10));
        timers.set(ElementId(2), Moment(20));
        timers.set(ElementId(1), Moment(30));
        assert_eq!(timers.next(), Some(Moment(20)));
        assert_eq!(timers.pop(Moment(15)), None);
        let order: Vec<_> = std::iter::from_fn(|| timers.pop(Moment(99))).collect();
        assert_eq!(order, [ElementId(2), ElementId(1)]);
        assert_eq!(timers.next(), None);
    }
}
