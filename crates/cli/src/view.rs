//! What the scheduler thinks of an element, told from what it has written down: beside a
//! `run`, or without one.

use std::borrow::Cow;
use std::collections::HashMap;

use springtide_engine::clock;
use springtide_engine::settings::{PolicyName, Settings};
use springtide_policy::schedule::{Choice, ElementMemory, Reason, Recollection, Scheduler, Terms};
use springtide_policy::{Budget, Elements, Gamma, Groups, Present};
use springtide_store::{
    Brief, Error, GroupId, History, Kept, MemoryOf, Moment, Partition, Reader, Role, State,
};

use crate::moment::brief;

const MS_PER_DAY: f64 = 86_400_000.0;
/// How sure an interval of a rate is.
const TAIL: f64 = 0.05;
/// Groups that are held at a time.
const MOST_GROUPS: usize = 500_000;

/// Groups in a circle are damage, and no reason to go round.
const DEEPEST: usize = 100;

/// What is needed to tell what the scheduler thinks.
pub(crate) struct View {
    now: Moment,
    price: Option<f64>,
    groups: HashMap<GroupId, Place>,
}

/// A group, and what is remembered of it.
struct Place {
    parent: Option<GroupId>,
    memory: Option<Vec<u8>>,
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

impl<'a> From<&'a Kept> for Seen<'a> {
    fn from(kept: &'a Kept) -> Self {
        Self {
            group: kept.element.group,
            role: kept.element.role,
            state: kept.state,
            history: &kept.history,
        }
    }
}

impl View {
    /// Reads what the scheduler has written down of all together.
    pub(crate) fn new(store: &dyn Reader, settings: &Settings, now: Moment) -> Result<Self, Error> {
        let memory = store.memory(MemoryOf::Scheduler(Partition::WHOLE))?;
        Ok(Self {
            now,
            price: memory.and_then(|memory| price(&memory, settings, now)),
            groups: HashMap::new(),
        })
    }

    /// Takes in what is remembered of some groups, and of those around them.
    pub(crate) fn prepare(&mut self, store: &dyn Reader, groups: &[GroupId]) -> Result<(), Error> {
        if self.groups.len() > MOST_GROUPS {
            self.groups.clear();
        }
        let mut wanted = groups.to_vec();
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
                let place = Place {
                    parent: group.parent,
                    memory: memories.remove(&group.id),
                };
                self.groups.insert(group.id, place);
            }
        }
    }

    /// What a poll must be worth to be made.
    pub(crate) fn price(&self) -> Option<f64> {
        self.price
    }

    /// All that can be told of an element.
    pub(crate) fn of(&self, seen: Seen<'_>) -> Told {
        let nothing = Told::default();
        match seen.state {
            State::New => {
                let reason = Some("never polled; the first pass comes to it".into());
                return Told { reason, ..nothing };
            }
            State::Gone => {
                let reason = Some("gone; looked at again from time to time".into());
                return Told { reason, ..nothing };
            }
            State::Blocked => {
                let reason =
                    "we are asked to keep away; robots.txt is read again from time to time";
                let reason = Some(reason.into());
                return Told { reason, ..nothing };
            }
            State::Ok | State::Failing => {}
        }
        let history = seen.history;
        let Some(synced_at) = history.synced_at else {
            let reason = (seen.state == State::Failing)
                .then(|| "never answered; tried again from time to time".into());
            return Told { reason, ..nothing };
        };
        let Some(told) = self.recollect(&history.memory, seen.group, synced_at) else {
            return nothing;
        };
        let due_in = told.due_in.as_days();
        let elapsed = clock::time(self.now).since(clock::time(synced_at));
        Told {
            belief: Some(told.belief),
            frequency: match told.reason {
                Reason::Watched => seen_frequency(history),
                _ => (due_in > 0.0 && due_in.is_finite()).then(|| 1.0 / due_in),
            },
            due_at: (due_in * MS_PER_DAY < i64::MAX as f64 / 4.0)
                .then(|| Moment(synced_at.0.saturating_add((due_in * MS_PER_DAY) as i64))),
            reason: Some(words(told.reason, told.belief.mean(), seen.state)),
            freshness: Some(told.freshness(elapsed)),
            age_seconds: Some(told.age(elapsed).as_days() * 86_400.0),
        }
    }

    fn recollect(
        &self,
        memory: &ElementMemory,
        group: GroupId,
        synced_at: Moment,
    ) -> Option<Recollection> {
        let depth = Recollection::depth(memory)?;
        // Those of which anything is remembered, outermost first.
        let mut path = Vec::new();
        let mut next = Some(group);
        for _ in 0..DEEPEST {
            let Some(place) = next.and_then(|id| self.groups.get(&id)) else {
                break;
            };
            path.extend(place.memory.as_deref());
            next = place.parent;
        }
        path.reverse();
        let usual = depth.checked_sub(1).and_then(|at| path.get(at).copied());
        let (polled, now) = (clock::time(synced_at), clock::time(self.now));
        Recollection::new(memory, usual, polled, now)
    }
}

/// How often an element has been polled, per day.
fn seen_frequency(history: &History) -> Option<f64> {
    let (first, last) = (history.first_polled_at?, history.polled_at?);
    let days = clock::millis_between(first, last) as f64 / MS_PER_DAY;
    (days > 0.0).then(|| f64::from(history.n_polls.saturating_sub(1)) / days)
}

/// What can be told of an element; nothing where nothing is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Told {
    /// What is believed of its rate.
    pub(crate) belief: Option<Gamma>,
    /// How often it is polled, per day.
    pub(crate) frequency: Option<f64>,
    pub(crate) due_at: Option<Moment>,
    /// Why it is polled then, in plain words.
    pub(crate) reason: Option<Cow<'static, str>>,
    /// The chance that its copy is fresh.
    pub(crate) freshness: Option<f64>,
    /// How old its copy is expected to be.
    pub(crate) age_seconds: Option<f64>,
}

impl RatePerDay {
    /// Quantiles take their time, so they are found only for those who see them.
    pub(crate) fn new(belief: Gamma) -> Self {
        Self {
            estimate: belief.mean(),
            low: belief.quantile(TAIL),
            high: belief.quantile(1.0 - TAIL),
        }
    }
}

fn words(reason: Reason, per_day: f64, state: State) -> Cow<'static, str> {
    let every = || brief(86_400.0 / per_day);
    match reason {
        _ if state == State::Failing => "the last poll failed; tried again then".into(),
        Reason::Worth => {
            let every = every();
            format!("changes about every {every}; then a poll is worth its price").into()
        }
        Reason::Look => {
            let every = every();
            format!("changes about every {every}; then it is looked at whether a poll is worth its price")
                .into()
        }
        Reason::Sample => "polled early, to learn how often it changes".into(),
        Reason::Watched => {
            let every = every();
            format!("changes about every {every}; comes with a query, or by its id").into()
        }
        Reason::Retry => "the last poll failed; tried again then".into(),
    }
}

/// The price that a learned policy has written down.
fn price(note: &[u8], settings: &Settings, now: Moment) -> Option<f64> {
    if settings.policy.name != PolicyName::Learned {
        return None;
    }
    let mut terms = Terms::new(Budget::per_day(settings.budget.per_day).ok()?);
    terms.objective = settings.policy.objective;
    let nobody = Elements::new();
    // Without elements there is nothing to draw.
    let mut rng = rand_pcg::Pcg64::new(0, 0);
    let mut scheduler = Scheduler::new(
        Choice::Learned,
        terms,
        Groups::new(),
        Present::all(&nobody),
        clock::time(now),
        &mut rng,
    );
    scheduler.recall_all(note);
    scheduler.price().filter(|price| price.is_finite())
}
