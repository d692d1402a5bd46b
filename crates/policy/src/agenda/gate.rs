//! Who may be asked, and until when not: the one place that knows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use rand::Rng;

use super::limit::{Limit, LimitMemory, Pause, Verdict};
use super::{Poll, Ticket, later};
use crate::schedule::due::Key;
use crate::{GroupId, Span, Time};

/// Outermost groups with limits, and those who wait for a turn there.
///
/// A group that is not known has no limit. What bidders are told is only whether a
/// group is open; they are told when that changes.
#[derive(Debug, Default)]
pub struct Gate {
    entries: BTreeMap<GroupId, Entry>,
    /// Groups with someone waiting.
    busy: BTreeSet<GroupId>,
    /// Closed groups by when they may open; the last word is in the entry.
    reopen: BinaryHeap<Reverse<(Key, GroupId)>>,
    /// Groups that opened or closed since bidders were last told.
    changed: BTreeSet<GroupId>,
    /// Groups whose limit is not as it was when it was last remembered.
    unkept: BTreeSet<GroupId>,
}

#[derive(Debug)]
struct Entry {
    limit: Limit,
    /// What the settings say, and what the group itself asks for.
    gap: Span,
    own_gap: Span,
    /// Nothing new is asked while someone finds out whether it may be.
    n_holds: u32,
    waiting: VecDeque<Waiting>,
    /// Whether bidders take it to be open.
    is_open: bool,
}

/// Someone who waits for a turn at a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Waiting {
    /// A poll that was chosen and has not begun.
    Poll(Poll),
    /// A request that goes on from another, such as a redirect.
    Hop(Ticket),
}

impl Entry {
    fn new(limit: Limit, gap: Span) -> Self {
        Self {
            limit,
            gap,
            own_gap: Span::ZERO,
            n_holds: 0,
            waiting: VecDeque::new(),
            is_open: true,
        }
    }

    /// When someone new may ask.
    fn free_at(&self) -> Time {
        if self.n_holds > 0 || !self.waiting.is_empty() {
            return Time::NEVER;
        }
        self.limit.free_at()
    }
}

impl Gate {
    /// Requests to a group are this far apart, and so many at a time.
    pub fn set_limit(&mut self, group: GroupId, gap: Span, concurrency: u32) {
        let entry = self
            .entries
            .entry(group)
            .or_insert_with(|| Entry::new(Limit::new(gap, concurrency), gap));
        entry.gap = gap;
        entry.limit.set_gap(longer(gap, entry.own_gap));
        entry.limit.set_concurrency(concurrency);
    }

    /// A group asks for requests to be this far apart, at the least.
    pub fn set_own_gap(&mut self, group: GroupId, gap: Span) {
        if let Some(entry) = self.entries.get_mut(&group) {
            entry.own_gap = gap;
            entry.limit.set_gap(longer(entry.gap, gap));
        }
    }

    /// A group gets no more than so much a day; polls are begun in steps.
    pub fn set_cap(&mut self, group: GroupId, per_day: f64, step: Span) {
        let entry = Entry::new(Limit::per_day(per_day, step), Span::ZERO);
        self.entries.insert(group, entry);
        self.settle(group, Time(f64::NEG_INFINITY));
    }

    /// Takes in what was remembered of a group.
    pub fn recall(&mut self, group: GroupId, memory: LimitMemory, now: Time) {
        let entry = self
            .entries
            .entry(group)
            .or_insert_with(|| Entry::new(Limit::new(Span::ZERO, 1), Span::ZERO));
        entry.limit.recall(memory, now);
        if entry.limit.remember() != memory {
            // The clock has been set: from the next start on that holds which holds now.
            self.unkept.insert(group);
        }
        self.settle(group, now);
    }

    /// What is to be remembered of a group, if it is known.
    pub fn remember(&self, group: GroupId) -> Option<LimitMemory> {
        Some(self.entries.get(&group)?.limit.remember())
    }

    /// Groups of which something else is to be remembered than the last time.
    pub fn take_unkept(&mut self) -> BTreeSet<GroupId> {
        std::mem::take(&mut self.unkept)
    }

    /// When someone new may ask a group: [`Time::NEVER`] as long as that depends on
    /// those who wait there or are under way.
    pub fn free_at(&self, group: GroupId) -> Time {
        let entry = self.entries.get(&group);
        entry.map_or(Time(f64::NEG_INFINITY), Entry::free_at)
    }

    /// Until when a group is left alone, by its own word or since it failed.
    pub fn paused_until(&self, group: GroupId) -> Time {
        let entry = self.entries.get(&group);
        entry.map_or(Time(f64::NEG_INFINITY), |entry| entry.limit.paused_until())
    }

    /// Why a group is left alone, if it is at this time.
    pub fn pause(&self, group: GroupId, now: Time) -> Option<Pause> {
        let limit = &self.entries.get(&group)?.limit;
        limit.pause().filter(|_| limit.paused_until() > now)
    }

    /// Whether someone waits for a turn, wherever.
    pub fn has_waiting(&self) -> bool {
        !self.busy.is_empty()
    }

    /// How many polls that count wait, wherever.
    pub fn n_counted_waiting(&self) -> usize {
        if self.busy.is_empty() {
            return 0;
        }
        let busy = self.busy.iter();
        let waiting = busy.flat_map(|group| &self.entries[group].waiting);
        waiting
            .filter(|waiting| matches!(waiting, Waiting::Poll(poll) if poll.is_counted))
            .count()
    }

    /// Whether nothing at all is limited.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A request to a group is begun.
    pub fn begin(&mut self, group: GroupId, cost: f64, now: Time) {
        if let Some(entry) = self.entries.get_mut(&group) {
            entry.limit.begin(cost, now);
            self.unkept.insert(group);
            self.settle(group, now);
        }
    }

    /// A request that was begun has left only now.
    pub fn left(&mut self, group: GroupId, now: Time) {
        if let Some(entry) = self.entries.get_mut(&group) {
            entry.limit.left(now);
            self.unkept.insert(group);
            self.settle(group, now);
        }
    }

    /// A request that was begun is not made after all.
    pub fn give_back(&mut self, group: GroupId, now: Time) {
        if let Some(entry) = self.entries.get_mut(&group) {
            entry.limit.give_back();
            self.settle(group, now);
        }
    }

    /// A request has ended.
    pub fn end(&mut self, group: GroupId, verdict: Verdict, now: Time, rng: &mut dyn Rng) {
        if let Some(entry) = self.entries.get_mut(&group) {
            entry.limit.end(verdict, now, rng);
            self.unkept.insert(group);
            self.settle(group, now);
        }
    }

    /// Nothing new is asked of a group until it is [released](Self::release): someone
    /// finds out whether it may be. Those who wait go on.
    pub fn hold(&mut self, group: GroupId, now: Time) {
        if let Some(entry) = self.entries.get_mut(&group) {
            entry.n_holds += 1;
            self.settle(group, now);
        }
    }

    /// The end of a [hold](Self::hold).
    pub fn release(&mut self, group: GroupId, now: Time) {
        if let Some(entry) = self.entries.get_mut(&group) {
            entry.n_holds = entry.n_holds.saturating_sub(1);
            self.settle(group, now);
        }
    }

    /// Someone waits for a turn. Those who go on from another request go first, for
    /// they hold up others.
    pub fn wait(&mut self, group: GroupId, waiting: Waiting, now: Time) {
        let entry = self
            .entries
            .entry(group)
            .or_insert_with(|| Entry::new(Limit::new(Span::ZERO, u32::MAX), Span::ZERO));
        match waiting {
            Waiting::Poll(_) => entry.waiting.push_back(waiting),
            Waiting::Hop(_) => entry.waiting.push_front(waiting),
        }
        self.busy.insert(group);
        self.settle(group, now);
    }

    /// Gives a turn to someone who waits and whose group is free; polls only if they may
    /// leave.
    pub(super) fn next_turn(
        &mut self,
        leaves_at: impl Fn(&Poll) -> Time,
        now: Time,
    ) -> Option<(GroupId, Waiting)> {
        let goes = |waiting: &Waiting| match waiting {
            Waiting::Poll(poll) => leaves_at(poll) <= now,
            Waiting::Hop(_) => true,
        };
        let (group, place) = self.busy.iter().find_map(|&group| {
            let entry = &self.entries[&group];
            if entry.limit.free_at() > now {
                return None;
            }
            Some((group, entry.waiting.iter().position(goes)?))
        })?;
        let entry = self.entries.get_mut(&group)?;
        let waiting = entry.waiting.remove(place)?;
        if entry.waiting.is_empty() {
            self.busy.remove(&group);
        }
        Some((group, waiting))
    }

    /// One of those groups which may be asked now though someone waits there, since nobody
    /// of them may leave yet.
    pub(super) fn free_beside_waiting(
        &self,
        which: impl Fn(GroupId) -> bool,
        leaves_at: impl Fn(&Poll) -> Time,
        now: Time,
    ) -> Option<GroupId> {
        let goes = |waiting: &Waiting| match waiting {
            Waiting::Poll(poll) => leaves_at(poll) <= now,
            Waiting::Hop(_) => true,
        };
        let may_ask = |group: &GroupId| {
            let entry = &self.entries[group];
            let is_free = entry.n_holds == 0 && entry.limit.free_at() <= now;
            is_free && !entry.waiting.iter().any(goes)
        };
        let mut busy = self.busy.iter().copied();
        busy.find(|group| which(*group) && may_ask(group))
    }

    /// When the first of those groups may be asked in which someone waits.
    pub(super) fn frees_at(&self, which: impl Fn(GroupId) -> bool) -> Time {
        let busy = self.busy.iter().filter(|group| which(**group));
        let free_at = busy.map(|group| match &self.entries[group] {
            entry if entry.n_holds == 0 => entry.limit.free_at(),
            _ => Time::NEVER,
        });
        free_at.fold(Time::NEVER, super::earlier)
    }

    /// Those who wait for a group that is left alone until later than this go home.
    pub(super) fn take_hopeless(&mut self, by: Time) -> Vec<(GroupId, Waiting)> {
        let mut home = Vec::new();
        let entries = &mut self.entries;
        self.busy.retain(|group| match entries.get_mut(group) {
            Some(entry) if entry.limit.paused_until() > by => {
                home.extend(entry.waiting.drain(..).map(|waiting| (*group, waiting)));
                false
            }
            _ => true,
        });
        home
    }

    /// Everyone who waits goes home, or only those whom `which` names.
    pub fn take_waiting(&mut self, which: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let mut home = Vec::new();
        for group in self.busy.clone() {
            if let Some(entry) = self.entries.get_mut(&group) {
                let (go, stay) = entry.waiting.drain(..).partition(&which);
                entry.waiting = stay;
                let go: VecDeque<Waiting> = go;
                home.extend(go);
                if entry.waiting.is_empty() {
                    self.busy.remove(&group);
                }
                self.changed.insert(group);
            }
        }
        home
    }

    /// When the next turn may be given to someone who waits; polls leave at these times
    /// at the earliest.
    pub(super) fn wake_at(&self, leaves_at: impl Fn(&Poll) -> Time) -> Time {
        let mut wake_at = Time::NEVER;
        for group in &self.busy {
            let entry = &self.entries[group];
            let free_at = entry.limit.free_at();
            for waiting in &entry.waiting {
                let turn_at = match waiting {
                    Waiting::Poll(poll) => later(leaves_at(poll), free_at),
                    Waiting::Hop(_) => free_at,
                };
                if turn_at < wake_at {
                    wake_at = turn_at;
                }
            }
        }
        wake_at
    }

    /// When the first closed group may open by itself.
    pub(super) fn reopens_at(&self) -> Time {
        let first = self.reopen.peek();
        first.map_or(Time::NEVER, |Reverse((at, _))| Time(at.0))
    }

    /// Groups that have opened (`true`) or closed since the last time.
    pub(super) fn take_changes(&mut self, now: Time) -> Vec<(GroupId, bool)> {
        while let Some(&Reverse((at, group))) = self.reopen.peek()
            && at.0 <= now.0
        {
            self.reopen.pop();
            self.changed.insert(group);
        }
        let mut changes = Vec::new();
        for group in std::mem::take(&mut self.changed) {
            let Some(entry) = self.entries.get_mut(&group) else {
                continue;
            };
            let free_at = entry.free_at();
            let is_open = free_at <= now;
            if !is_open && free_at < Time::NEVER {
                self.reopen.push(Reverse((Key(free_at.0), group)));
            }
            if entry.is_open != is_open {
                entry.is_open = is_open;
                changes.push((group, is_open));
            }
        }
        changes
    }

    fn settle(&mut self, group: GroupId, now: Time) {
        let Some(entry) = self.entries.get(&group) else {
            return;
        };
        if entry.is_open != (entry.free_at() <= now) || !entry.is_open {
            self.changed.insert(group);
        }
    }
}

fn longer(one: Span, other: Span) -> Span {
    if one > other { one } else { other }
}
