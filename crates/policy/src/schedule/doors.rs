//! Groups that are closed for a while, and the elements that wait at their doors.

use std::collections::{BTreeMap, VecDeque};

use crate::{ElementId, GroupId};

/// Elements whose turn came while their group was closed, in that order.
#[derive(Debug, Default)]
pub(super) struct Doors {
    closed_until: BTreeMap<GroupId, f64>,
    waiting: BTreeMap<GroupId, VecDeque<ElementId>>,
}

impl Doors {
    pub(super) fn close(&mut self, group: GroupId, until: f64) {
        self.closed_until.insert(group, until);
    }

    pub(super) fn is_closed(&self, group: GroupId, now: f64) -> bool {
        self.closed_until
            .get(&group)
            .is_some_and(|&until| until > now)
    }

    pub(super) fn wait(&mut self, id: ElementId, group: GroupId) {
        self.waiting.entry(group).or_default().push_back(id);
    }

    /// Someone who waited, and whose group is open again.
    pub(super) fn pop(&mut self, now: f64) -> Option<ElementId> {
        let open = self.waiting.keys().copied();
        let group = open
            .into_iter()
            .find(|&group| !self.is_closed(group, now))?;
        let waiting = self.waiting.get_mut(&group)?;
        let first = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&group);
        }
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
        if waiting.is_empty() {
            self.waiting.remove(&group);
        }
        has_waited
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// When the first group opens at whose door someone waits.
    pub(super) fn opens_at(&self) -> f64 {
        let until = |group| self.closed_until.get(group).copied();
        self.waiting
            .keys()
            .map(|group| until(group).unwrap_or(f64::NEG_INFINITY))
            .fold(f64::INFINITY, f64::min)
    }
}
