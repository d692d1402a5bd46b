//! What the scheduler believes of elements, read from what it has written down: beside a
//! run, or without one.

use std::collections::{BTreeSet, HashMap};

use springtide_policy::predict::HeldCopy;
use springtide_policy::schedule::{Reason, Recollection, Usual};
use springtide_policy::{Span, Time};
use springtide_store::{
    Brief, Error, GroupId, History, Kept, MemoryOf, Moment, Partition, Reader, Role, SourceId,
    SourceKind, State,
};

use super::{is_in_settings, is_paused};
use crate::clock;
use crate::settings::Settings;

/// Groups that are held at a time by those who need few of them at once.
const MOST_GROUPS: usize = 500_000;
/// Groups whose parents form a cycle are damage; stop after this many levels.
const DEEPEST: usize = 100;

/// Reads beliefs at one moment.
pub(super) struct Beliefs {
    now: Moment,
    /// What is remembered of all elements together.
    all: Option<Vec<u8>>,
    groups: HashMap<GroupId, GroupMemory>,
    /// What is usual among the elements of a group that go by a node so deep.
    usual: HashMap<(GroupId, usize), Option<UsualOf>>,
    /// The sources that elements are polled of.
    wanted: BTreeSet<SourceId>,
    /// Those that are not for now.
    paused: BTreeSet<SourceId>,
    searches: BTreeSet<SourceId>,
}

/// What is usual, and in which group; `None` if among all.
type UsualOf = (Usual, Option<GroupId>);

/// A group, and what is remembered of it.
struct GroupMemory {
    parent: Option<GroupId>,
    name: String,
    memory: Option<Vec<u8>>,
}

/// What is kept of an element that its belief is read from.
#[derive(Debug, Clone, Copy)]
pub(super) struct BeliefInput<'a> {
    pub(super) source: SourceId,
    pub(super) group: GroupId,
    pub(super) role: Role,
    pub(super) state: State,
    pub(super) history: &'a History,
}

impl<'a> From<&'a Brief> for BeliefInput<'a> {
    fn from(brief: &'a Brief) -> Self {
        Self {
            source: brief.source,
            group: brief.group,
            role: brief.role,
            state: brief.state,
            history: &brief.history,
        }
    }
}

impl<'a> From<&'a Kept> for BeliefInput<'a> {
    fn from(kept: &'a Kept) -> Self {
        Self {
            source: kept.element.source,
            group: kept.element.group,
            role: kept.element.role,
            state: kept.state,
            history: &kept.history,
        }
    }
}

/// An element in the schedule, with a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) told: Recollection,
    /// The group whose usual rate its belief began with; `None` if that of all.
    pub(super) leaf: Option<GroupId>,
    /// When the scheduler has it due, if it ever has.
    pub(super) due: Option<Time>,
}

impl Beliefs {
    /// Reads what is remembered of all elements together.
    pub(super) fn new(store: &dyn Reader, settings: &Settings, now: Moment) -> Result<Self, Error> {
        let sources = store.sources()?;
        Ok(Self {
            now,
            all: store.memory(MemoryOf::Scheduler(Partition::WHOLE))?,
            groups: HashMap::new(),
            usual: HashMap::new(),
            wanted: sources
                .iter()
                .filter(|source| is_in_settings(source, settings) && !is_paused(source, settings))
                .map(|source| source.id)
                .collect(),
            paused: sources
                .iter()
                .filter(|source| is_paused(source, settings))
                .map(|source| source.id)
                .collect(),
            searches: sources
                .iter()
                .filter(|source| source.kind == SourceKind::Search)
                .map(|source| source.id)
                .collect(),
        })
    }

    /// Takes in some groups, and those around them.
    pub(super) fn prepare(
        &mut self,
        store: &dyn Reader,
        groups: impl IntoIterator<Item = GroupId>,
    ) -> Result<(), Error> {
        if self.groups.len() > MOST_GROUPS {
            self.groups.clear();
            self.usual.clear();
        }
        let mut wanted: Vec<GroupId> = groups.into_iter().collect();
        loop {
            wanted.sort_unstable();
            wanted.dedup();
            wanted.retain(|group| !self.groups.contains_key(group));
            if wanted.is_empty() {
                return Ok(());
            }
            let found = store.groups_by_id(&wanted)?;
            let mut memories: HashMap<_, _> =
                store.group_memories_by_id(&wanted)?.into_iter().collect();
            if found.is_empty() {
                return Ok(());
            }
            wanted = found.iter().filter_map(|group| group.parent).collect();
            for group in found {
                let place = GroupMemory {
                    parent: group.parent,
                    name: group.name,
                    memory: memories.remove(&group.id),
                };
                self.groups.insert(group.id, place);
            }
        }
    }

    /// What a poll must be worth to be made.
    pub(super) fn price(&self) -> Option<f64> {
        self.all.as_deref().and_then(Recollection::price)
    }

    /// Whether the elements of a source are polled at all.
    pub(super) fn is_wanted(&self, source: SourceId) -> bool {
        self.wanted.contains(&source)
    }

    /// Whether they are not for now.
    pub(super) fn is_paused(&self, source: SourceId) -> bool {
        self.paused.contains(&source)
    }

    /// Whether the elements of a source come with queries.
    pub(super) fn is_search(&self, source: SourceId) -> bool {
        self.searches.contains(&source)
    }

    /// What is believed of an element, if it is in the schedule and has a copy. Its
    /// group has been [prepared](Self::prepare).
    pub(super) fn of(&mut self, seen: BeliefInput<'_>) -> Option<Held> {
        if !matches!(seen.state, State::Ok | State::Failing) || !self.is_wanted(seen.source) {
            return None;
        }
        let synced_at = clock::time(seen.history.synced_at?);
        let memory = &seen.history.memory;
        let depth = Recollection::depth(memory)?;
        let key = (seen.group, depth);
        let (usual, leaf) = match self.usual.get(&key) {
            Some(usual) => *usual,
            None => {
                let usual = self.usual(seen.group, depth);
                self.usual.insert(key, usual);
                usual
            }
        }?;
        let told = Recollection::new(memory, &usual, synced_at)?;
        let is_box = seen.role == Role::Listing && self.is_search(seen.source);
        let is_due = told.reason != Reason::Watched && !is_box;
        Some(Held {
            told,
            leaf,
            due: is_due.then(|| synced_at + told.due_in),
        })
    }

    fn usual(&self, group: GroupId, depth: usize) -> Option<UsualOf> {
        // Those of which anything is remembered, outermost first.
        let mut path = Vec::new();
        for (id, place) in self.around(group) {
            path.extend(place.memory.as_deref().map(|memory| (id, memory)));
        }
        path.reverse();
        path.truncate(depth);
        let leaf = path.last().map(|&(id, _)| id);
        let path: Vec<&[u8]> = path.into_iter().map(|(_, memory)| memory).collect();
        let usual = Usual::new(self.all.as_deref(), &path, clock::time(self.now))?;
        Some((usual, leaf))
    }

    /// A group and those around it, outermost last.
    fn around(&self, group: GroupId) -> impl Iterator<Item = (GroupId, &GroupMemory)> {
        let find = |id: GroupId| self.groups.get(&id).map(|place| (id, place));
        let outer = move |(_, place): &(GroupId, &GroupMemory)| place.parent.and_then(find);
        std::iter::successors(find(group), outer).take(DEEPEST)
    }

    /// The path of a group's names, outermost first.
    pub(super) fn group_name(&self, group: GroupId) -> String {
        let mut names: Vec<&str> = self.around(group).map(|(_, place)| &*place.name).collect();
        names.reverse();
        names.join("/")
    }
}

impl Held {
    /// The copy, to predict how fresh it is together with others; one of `n_alike`.
    pub(super) fn copy(&self, history: &History, n_alike: f64) -> HeldCopy {
        // The first poll brought the copy; those after it showed whether it changed.
        let n_polls = history.n_polls.saturating_sub(1);
        let first_and_last = history.first_polled_at.zip(history.synced_at);
        let polled_for = first_and_last.map_or(Span::ZERO, |(first, last)| {
            clock::time(last).since(clock::time(first))
        });
        let interval = polled_for.as_days() / f64::from(n_polls.max(1));
        HeldCopy {
            belief: self.told.belief,
            group: self.leaf,
            elapsed: self.told.elapsed,
            n_polls,
            n_changes: history.n_changes.min(n_polls),
            interval: Span::days(interval).unwrap_or(Span::ZERO),
            polls: Vec::new(),
            n_alike,
        }
    }
}
