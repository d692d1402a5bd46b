//! What the scheduler thinks of an element, as far as it can be told from what it has
//! written down. (To be connected; until then nothing is known.)

use springtide_policy::Objective;
use springtide_store::{Brief, GroupId, History, Moment, Role, State, Store};

/// What is needed to tell what the scheduler thinks.
pub(crate) struct View {
    /// What the scheduler remembers of all together.
    _note: Option<Vec<u8>>,
    _objective: Objective,
    _now: Moment,
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
#[expect(dead_code, reason = "read once the scheduler's memory is")]
pub(crate) struct Seen<'a> {
    pub(crate) group: GroupId,
    pub(crate) weight: f32,
    pub(crate) role: Role,
    pub(crate) state: State,
    pub(crate) history: &'a History,
}

impl<'a> From<&'a Brief> for Seen<'a> {
    fn from(brief: &'a Brief) -> Self {
        Self {
            group: brief.group,
            weight: brief.weight,
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
            weight: kept.element.weight,
            role: kept.element.role,
            state: kept.state,
            history: &kept.history,
        }
    }
}

impl View {
    /// Reads what the scheduler has written down.
    pub(crate) fn new(
        store: &dyn Store,
        objective: Objective,
        now: Moment,
    ) -> Result<Self, springtide_store::Error> {
        Ok(Self {
            _note: store.note("scheduler")?,
            _objective: objective,
            _now: now,
        })
    }

    /// Takes in what is remembered of the groups that these elements are in.
    pub(crate) fn prepare(
        &mut self,
        _store: &dyn Store,
        _groups: &[GroupId],
    ) -> Result<(), springtide_store::Error> {
        Ok(())
    }

    /// What a poll must be worth to be made.
    pub(crate) fn price(&self) -> Option<f64> {
        None
    }

    pub(crate) fn rate_of(&self, _seen: Seen<'_>) -> Option<RatePerDay> {
        None
    }

    /// How often it is polled, per day.
    pub(crate) fn frequency_of(&self, _seen: Seen<'_>) -> Option<f64> {
        None
    }

    pub(crate) fn due_of(&self, _seen: Seen<'_>) -> Option<Moment> {
        None
    }

    /// Why it is polled then, in plain words.
    pub(crate) fn reason_of(&self, _seen: Seen<'_>) -> Option<String> {
        None
    }

    /// The chance that its copy is fresh.
    pub(crate) fn freshness_of(&self, _seen: Seen<'_>) -> Option<f64> {
        None
    }

    /// How old its copy is expected to be, in seconds.
    pub(crate) fn age_of(&self, _seen: Seen<'_>) -> Option<f64> {
        None
    }
}
