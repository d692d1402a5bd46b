//! Limits on groups: no group is polled more often than it may be.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::due::Key;
use crate::{Caps, ElementId, GroupId};

/// Groups that may not be polled faster than so-and-so, and the elements that wait
/// for theirs.
///
/// An element whose turn comes while its group is at its limit is held here, and
/// goes first, by when it was due, as soon as the group is free. So a group at its
/// limit polls the most overdue of its elements: it has a higher price of its own.
#[derive(Debug, Default)]
pub(super) struct Limits {
    limits: BTreeMap<GroupId, Limit>,
    slack: f64,
    /// Groups with elements held, by when they are free again.
    waiting: BinaryHeap<Reverse<(Key, GroupId)>>,
    /// Groups that are free and have elements held, by the earliest due of them.
    ready: BinaryHeap<Reverse<(Key, GroupId)>>,
}

#[derive(Debug, Default)]
struct Limit {
    /// Days that a poll of cost one keeps the group busy.
    gap: f64,
    free_at: f64,
    held: BinaryHeap<Reverse<(Key, u32)>>,
}

impl Limit {
    /// Keeps the group busy for a poll of this cost that could have come no earlier
    /// than `from`.
    fn spend(&mut self, cost: f64, from: f64) {
        self.free_at = self.free_at.max(from) + self.gap * cost;
    }
}

impl Limits {
    /// Polls come in steps of `slack` days. One that had to wait for the next step
    /// does not make its group wait for longer than its limit says.
    pub(super) fn new(caps: &Caps, slack: f64) -> Self {
        let limits = caps.iter().map(|(group, per_day)| {
            let limit = Limit {
                gap: 1.0 / per_day,
                // One that may not be polled at all is never free.
                free_at: if per_day > 0.0 {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                },
                held: BinaryHeap::new(),
            };
            (group, limit)
        });
        Self {
            limits: limits.collect(),
            slack,
            ..Self::default()
        }
    }

    /// Whether an element of this (outermost) group may be polled now. If not it
    /// is held.
    pub(super) fn admits(
        &mut self,
        id: ElementId,
        group: Option<GroupId>,
        due: f64,
        now: f64,
    ) -> bool {
        let Some((group, limit)) =
            group.and_then(|group| Some((group, self.limits.get_mut(&group)?)))
        else {
            return true;
        };
        if limit.free_at <= now && limit.held.is_empty() {
            return true;
        }
        if limit.held.is_empty() {
            self.waiting.push(Reverse((Key(limit.free_at), group)));
        }
        limit.held.push(Reverse((Key(due), id.0)));
        false
    }

    /// Lets go of an element that is gone, if it is held.
    pub(super) fn release(&mut self, id: ElementId, group: Option<GroupId>) {
        if let Some(limit) = group.and_then(|group| self.limits.get_mut(&group)) {
            limit.held.retain(|Reverse((_, index))| *index != id.0);
        }
    }

    /// Notes a poll of this cost in this (outermost) group.
    pub(super) fn spend(&mut self, group: Option<GroupId>, cost: f64, now: f64) {
        if let Some(limit) = group.and_then(|group| self.limits.get_mut(&group)) {
            limit.spend(cost, now - self.slack);
        }
    }

    /// When the earliest due was due, of those held whose group is free.
    pub(super) fn first(&mut self, now: f64) -> Option<f64> {
        // Whoever was released may have been the last of its group, or its first.
        while let Some(&Reverse((due, group))) = self.ready.peek() {
            match self.limits[&group].held.peek() {
                Some(Reverse((first, _))) if *first == due => break,
                Some(Reverse((first, _))) => {
                    let first = *first;
                    self.ready.pop();
                    self.ready.push(Reverse((first, group)));
                }
                None => {
                    self.ready.pop();
                }
            }
        }
        while let Some(&Reverse((free_at, group))) = self.waiting.peek()
            && free_at.0 <= now
        {
            self.waiting.pop();
            if let Some(Reverse((due, _))) = self.limits[&group].held.peek() {
                self.ready.push(Reverse((*due, group)));
            }
        }
        self.ready.peek().map(|Reverse((due, _))| due.0)
    }

    /// Takes that one, and keeps its group busy for what it costs.
    pub(super) fn pop(&mut self, cost: impl Fn(ElementId) -> f64, now: f64) -> Option<ElementId> {
        let Reverse((_, group)) = self.ready.pop()?;
        let limit = self.limits.get_mut(&group)?;
        let Reverse((_, index)) = limit.held.pop()?;
        let id = ElementId(index);
        limit.spend(cost(id), now - self.slack);
        if !limit.held.is_empty() {
            self.waiting.push(Reverse((Key(limit.free_at), group)));
        }
        Some(id)
    }

    /// When the first group with elements held is free again.
    pub(super) fn wake_at(&self) -> f64 {
        match self.waiting.peek() {
            _ if !self.ready.is_empty() => f64::NEG_INFINITY,
            Some(Reverse((free_at, _))) => free_at.0,
            None => f64::INFINITY,
        }
    }
}
