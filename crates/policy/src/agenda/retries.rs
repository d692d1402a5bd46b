//! Elements that are looked at at a time of their own, whatever the policy says: those
//! that are out, and those that were never had.

use std::collections::{BTreeMap, BTreeSet};

use crate::schedule::due::Key;
use crate::{ElementId, GroupId, Time};

/// One time for each element; the last word counts.
#[derive(Debug, Default)]
pub(super) struct Retries {
    by_time: BTreeSet<(Key, ElementId)>,
    of: BTreeMap<ElementId, (Key, Option<GroupId>)>,
}

impl Retries {
    /// An element of an outermost group is looked at then, and at no other time.
    pub(super) fn set(&mut self, id: ElementId, group: Option<GroupId>, due: Time) {
        if let Some((before, _)) = self.of.insert(id, (Key(due.0), group)) {
            self.by_time.remove(&(before, id));
        }
        self.by_time.insert((Key(due.0), id));
    }

    /// An element is not looked at after all.
    pub(super) fn remove(&mut self, id: ElementId) {
        if let Some((due, _)) = self.of.remove(&id) {
            self.by_time.remove(&(due, id));
        }
    }

    /// When the first is due.
    pub(super) fn next_at(&self) -> Time {
        let first = self.by_time.first();
        first.map_or(Time::NEVER, |(due, _)| Time(due.0))
    }

    /// Takes one that is due.
    pub(super) fn pop(&mut self, now: Time) -> Option<(ElementId, Option<GroupId>)> {
        let &(due, id) = self.by_time.first().filter(|(due, _)| due.0 <= now.0)?;
        self.by_time.remove(&(due, id));
        let (_, group) = self.of.remove(&id)?;
        Some((id, group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_has_one_time_and_the_last_word_counts() {
        let mut retries = Retries::default();
        for (id, due) in [(1, 10.0), (2, 20.0), (1, 30.0), (3, 5.0)] {
            retries.set(ElementId(id), None, Time(due));
        }
        retries.remove(ElementId(3));
        assert_eq!(retries.next_at(), Time(20.0));
        assert_eq!(retries.pop(Time(15.0)), None);
        let all = std::iter::from_fn(|| retries.pop(Time(99.0)));
        let order: Vec<u32> = all.map(|(id, _)| id.0).collect();
        assert_eq!(order, [2, 1]);
        assert_eq!(retries.next_at(), Time::NEVER);
    }
}
