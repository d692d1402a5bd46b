//! What the scheduler thinks of an element, as far as it can be told from what it has
//! written down.

use std::collections::HashMap;

use springtide_engine::clock;
use springtide_policy::schedule::{Reason, Recollection};
use springtide_store::{Brief, GroupId, History, Moment, Role, State, Store};

use crate::moment::brief;

/// What is needed to tell what the scheduler thinks.
pub(crate) struct View {
    price: Option<f64>,
    now: Moment,
    parents: HashMap<GroupId, Option<GroupId>>,
    memories: HashMap<GroupId, Vec<u8>>,
}

/// How often an element changes, with a 90 % interval; per day.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub(crate) struct RatePerDay {
    pub(crate) estimate: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// What is known of an element that a view needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) group: GroupId,
    pub(crate) role: Role,
    pub(crate) state: State,
    pub(crate) history: &'a History,
}

impl<'a> From<&'a Brief> for Seen<'a> {
    fn from(brief: &'a Brief) -> Self {
        Self {
            group: brief.group,
            role: brief.role,
            state: brief.state,
            history: &brief.history,
        }
    }
}

impl<'a> From<&'a springtide_store::Kept> for Seen<'a> {
    fn from(kept: &'a springtide_store::Kept) -> Self {
        Self {
            group: kept.element.group,
            role: kept.element.role,
            state: kept.state,
            history: &kept.history,
        }
    }
}

/// Groups that are held at a time.
const MOST_GROUPS: usize = 200_000;

impl View {
    /// Reads what the scheduler has written down.
    pub(crate) fn new(store: &dyn Store, now: Moment) -> Result<Self, springtide_store::Error> {
        let note = store.note("scheduler")?;
        Ok(Self {
            price: note.as_deref().and_then(Recollection::price),
            now,
            parents: HashMap::new(),
            memories: HashMap::new(),
        })
    }

    /// Takes in what is remembered of the groups that these elements are in.
    pub(crate) fn prepare(
        &mut self,
        store: &dyn Store,
        groups: &[GroupId],
    ) -> Result<(), springtide_store::Error> {
        if self.parents.len() > MOST_GROUPS {
            self.parents.clear();
            self.memories.clear();
        }
        let mut missing = groups.to_vec();
        loop {
            missing.sort_unstable();
            missing.dedup();
            missing.retain(|group| !self.parents.contains_key(group));
            if missing.is_empty() {
                return Ok(());
            }
            self.memories.extend(store.group_memories_by_id(&missing)?);
            let found = store.groups_by_id(&missing)?;
            if found.is_empty() {
                return Ok(());
            }
            self.parents
                .extend(found.iter().map(|group| (group.id, group.parent)));
            missing = found.iter().filter_map(|group| group.parent).collect();
        }
    }

    /// What a poll must be worth to be made.
    pub(crate) fn price(&self) -> Option<f64> {
        self.price
    }

    pub(crate) fn rate_of(&self, seen: Seen<'_>) -> Option<RatePerDay> {
        let belief = self.recollect(seen)?.belief;
        Some(RatePerDay {
            estimate: belief.mean(),
            low: belief.quantile(0.05),
            high: belief.quantile(0.95),
        })
    }

    /// How often it is polled, per day.
    pub(crate) fn frequency_of(&self, seen: Seen<'_>) -> Option<f64> {
        let due_in = self.recollect(seen)?.due_in.as_days();
        (due_in > 0.0).then(|| 1.0 / due_in)
    }

    pub(crate) fn due_of(&self, seen: Seen<'_>) -> Option<Moment> {
        let synced_at = clock::time(seen.history.synced_at?);
        clock::moment_of(synced_at + self.recollect(seen)?.due_in)
    }

    /// Why it is polled then, in plain words.
    pub(crate) fn reason_of(&self, seen: Seen<'_>) -> Option<String> {
        let often = |rate: RatePerDay| brief(86_400.0 / rate.estimate);
        Some(match seen.state {
            State::New => "never polled; the first pass will come to it".to_owned(),
            State::Gone => "gone; looked for again now and then".to_owned(),
            State::Blocked => "robots.txt keeps us out; it is asked again after a day".to_owned(),
            State::Failing => "its last poll failed; it is tried again".to_owned(),
            State::Ok => {
                let often = often(self.rate_of(seen)?);
                let is_overdue = self.due_of(seen).is_some_and(|due| due <= self.now);
                match self.recollect(seen)?.reason {
                    Reason::Retry => "its last poll failed; it is tried again".to_owned(),
                    _ if is_overdue => format!(
                        "changes about every {often}; a poll is worth its price, and waits for \
                         the budget"
                    ),
                    Reason::Sample => {
                        "stale at every poll; polled early, to learn how often it changes"
                            .to_owned()
                    }
                    Reason::Look => format!(
                        "changes about every {often}; until then a poll is not worth its price"
                    ),
                    Reason::Worth => {
                        format!("changes about every {often}; then a poll is worth its price")
                    }
                }
            }
        })
    }

    /// The chance that its copy is fresh.
    pub(crate) fn freshness_of(&self, seen: Seen<'_>) -> Option<f64> {
        let elapsed = clock::time(self.now).since(clock::time(seen.history.synced_at?));
        Some(self.recollect(seen)?.freshness(elapsed))
    }

    /// How old its copy is expected to be, in seconds.
    pub(crate) fn age_of(&self, seen: Seen<'_>) -> Option<f64> {
        let elapsed = clock::time(self.now).since(clock::time(seen.history.synced_at?));
        Some(self.recollect(seen)?.age(elapsed).as_days() * 86_400.0)
    }

    fn recollect(&self, seen: Seen<'_>) -> Option<Recollection> {
        if seen.state == State::Gone {
            return None;
        }
        let memory = &seen.history.memory;
        let depth = Recollection::depth(memory)?;
        let around = |group: &GroupId| self.parents.get(group).copied().flatten();
        let mut path: Vec<&Vec<u8>> = std::iter::successors(Some(seen.group), around)
            .filter_map(|group| self.memories.get(&group))
            .collect();
        path.reverse();
        let group = path.get(depth.checked_sub(1)?).or(path.last());
        let polled_at = clock::time(seen.history.synced_at?);
        let now = clock::time(self.now);
        Recollection::new(memory, group.map(|bytes| bytes.as_slice()), polled_at, now)
    }
}
