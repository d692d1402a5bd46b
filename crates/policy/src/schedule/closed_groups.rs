//! Elements whose turn came while their group was closed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{ElementId, GroupId};

/// Groups that are closed, as the gate says, and the elements that were given out
/// meanwhile and wait for them to open, in that order.
#[derive(Debug, Default)]
pub(super) struct ClosedGroups {
    closed: BTreeSet<GroupId>,
    waiting: BTreeMap<GroupId, VecDeque<ElementId>>,
    /// Groups that have opened, with someone waiting.
    open: BTreeSet<GroupId>,
}

impl ClosedGroups {
    pub(super) fn set_open(&mut self, group: GroupId, is_open: bool) {
        if !is_open {
            self.closed.insert(group);
            self.open.remove(&group);
        } else if self.closed.remove(&group) && self.waiting.contains_key(&group) {
            self.open.insert(group);
        }
    }

    pub(super) fn is_closed(&self, group: GroupId) -> bool {
        self.closed.contains(&group)
    }

    pub(super) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    pub(super) fn wait(&mut self, id: ElementId, group: GroupId) {
        self.waiting.entry(group).or_default().push_back(id);
    }

    /// Someone who waited, and whose group is open again.
    pub(super) fn pop(&mut self) -> Option<ElementId> {
        let group = *self.open.first()?;
        let waiting = self.waiting.get_mut(&group)?;
        let first = waiting.pop_front();
        self.drop_if_empty(group);
        first
    }

    /// Lets go of an element; says whether it waited.
    pub(super) fn release(&mut self, id: ElementId, group: GroupId) -> bool {
        let Some(waiting) = self.waiting.get_mut(&group) else {
            return false;
        };
        let before = waiting.len();
        waiting.retain(|&other| other != id);
        let has_waited = waiting.len() < before;
        self.drop_if_empty(group);
        has_waited
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether someone waits whose group is open again.
    pub(super) fn is_ready(&self) -> bool {
        !self.open.is_empty()
    }

    fn drop_if_empty(&mut self, group: GroupId) {
        if self.waiting.get(&group).is_some_and(VecDeque::is_empty) {
            self.waiting.remove(&group);
            self.open.remove(&group);
        }
    }
}
