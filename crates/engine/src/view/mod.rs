//! What `status`, `ls`, `plan` and a server show of a project, computed once, here.
//!
//! Everything is read from a store, beside a run or without one, and nothing is written,
//! asked or decided. What comes out are plain structs whose JSON is what programs rely on;
//! whoever shows them adds nothing up.
//!
//! - [`status()`] tells how fresh the copies are, measured and predicted;
//! - [`SourceView`] is a line of `ls`, and [`Elements`] go through those of
//!   `ls --elements`;
//! - an [`Outlook`] holds the plan for the present budget and the queue of due times, which
//!   an [`ElementView`] gets its frequency and its due time from; [`plan()`] tells what a
//!   budget buys.
//!
//! Numbers that several of these show are made by one function each, so they agree to the
//! digit. Before a second poll has shown whether an element changes, nothing is known of
//! its rate, and nothing is said.

mod beliefs;
mod changes;
mod elements;
mod fields;
mod outlook;
mod plan;
mod sort;
mod status;
mod target;
mod versions;
mod words;

use std::collections::BTreeMap;

use serde::Serialize;
use springtide_store::{Error, Failure, Moment, Reader, Source, SourceId, State, Totals};

pub use changes::{ChangeView, change_kind_name, digest_text};
pub use elements::{ElementFilter, ElementView, Elements, RatePerDay};
pub use fields::{FieldChange, field_text, fields, fields_of};
pub use outlook::{Outlook, PolledElements, floor, present_policy};
pub use plan::{FACTORS, PlanView, Reached, WhatIf, budget_for, plan, what_if};
pub use sort::{Rank, SortBy, SortKey, ranked};
pub use status::{
    Age, BudgetUse, Disk, ErrorCount, Freshness, Predicted, SourceStatus, Status, predicted,
    round_beyond_max_interval, status,
};
pub use target::{Miss, Target};
pub use versions::{Versions, VersionsError};
pub use words::{
    brief, count, kind_name, per_day, percent, plural, redacted, relative, rfc3339,
    seconds_between, serialize_moment, size, state_name,
};

use crate::settings::Settings;
pub use crate::trust::{TrustBySource, TrustView, trust};

/// A source, as `ls --json` shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceView {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: &'static str,
    /// Where it is.
    pub url: String,
    /// Elements that are there: not gone.
    pub n_elements: u64,
    /// Those of them that were never polled.
    pub n_new: u64,
    /// Those whose last poll failed.
    pub n_failing: u64,
    /// Those that we are asked to keep away from.
    pub n_blocked: u64,
    /// Elements that are gone.
    pub n_gone: u64,
    /// Polls, whatever came of them.
    pub n_polls: u64,
    /// Changes found.
    pub n_changes: u64,
    /// Whether it is in the settings. If not, it is kept and not polled.
    pub is_in_file: bool,
    /// Whether it is not polled for now, by the settings.
    pub is_paused: bool,
    /// When it was added; nothing if it is only in the settings so far.
    #[serde(serialize_with = "serialize_moment")]
    pub added_at: Option<Moment>,
    /// What is wrong with it, if anything.
    pub error: Option<ErrorView>,
    /// What evidence of its changes has been worth, by kind, as far as any was met.
    pub trust: BTreeMap<&'static str, TrustView>,
}

impl SourceView {
    /// The source as it is shown.
    pub fn new(source: &Source, settings: &Settings, trust: &TrustBySource) -> Self {
        let totals = source.totals;
        Self {
            name: source.name.clone(),
            kind: kind_name(source.kind),
            url: redacted(&source.url).into_owned(),
            n_elements: totals.n_elements,
            n_new: totals.n_new,
            n_failing: totals.n_failing,
            n_blocked: totals.n_blocked,
            n_gone: totals.n_gone,
            n_polls: totals.n_polls,
            n_changes: totals.n_changes,
            is_in_file: is_in_settings(source, settings),
            is_paused: is_paused(source, settings),
            added_at: (source.id != NOT_IN_STORE).then_some(source.added_at),
            error: source.error.as_ref().map(ErrorView::new),
            trust: trust.get(&source.id).cloned().unwrap_or_default(),
        }
    }
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorView {
    /// In one word.
    pub kind: String,
    /// In a sentence.
    pub message: String,
    /// When.
    #[serde(serialize_with = "serialize_moment")]
    pub at: Option<Moment>,
}

impl ErrorView {
    /// The failure as it is shown.
    pub fn new(failure: &Failure) -> Self {
        Self {
            kind: failure.kind.name().to_owned(),
            message: failure.message.clone(),
            at: Some(failure.at),
        }
    }
}

/// How many elements are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct States {
    /// Never polled.
    pub new: u64,
    /// The last poll was answered.
    pub ok: u64,
    /// The last poll failed.
    pub failing: u64,
    /// We are asked to keep away.
    pub blocked: u64,
    /// No longer there.
    pub gone: u64,
}

impl From<Totals> for States {
    fn from(totals: Totals) -> Self {
        let rest = totals.n_new + totals.n_failing + totals.n_blocked;
        Self {
            new: totals.n_new,
            ok: totals.n_elements.saturating_sub(rest),
            failing: totals.n_failing,
            blocked: totals.n_blocked,
            gone: totals.n_gone,
        }
    }
}

impl States {
    /// Of all elements of some sources.
    pub fn of<'a>(sources: impl IntoIterator<Item = &'a Source>) -> Self {
        let mut all = Self::default();
        for states in sources.into_iter().map(|source| Self::from(source.totals)) {
            all.new += states.new;
            all.ok += states.ok;
            all.failing += states.failing;
            all.blocked += states.blocked;
            all.gone += states.gone;
        }
        all
    }

    /// How many are in a state.
    pub fn in_state(&self, state: State) -> u64 {
        match state {
            State::New => self.new,
            State::Ok => self.ok,
            State::Failing => self.failing,
            State::Blocked => self.blocked,
            State::Gone => self.gone,
        }
    }

    /// How many there are.
    pub fn all(&self) -> u64 {
        self.new + self.ok + self.failing + self.blocked + self.gone
    }
}

/// Whether a source is in the settings. If not, it is kept and not polled.
fn is_in_settings(source: &Source, settings: &Settings) -> bool {
    settings
        .sources
        .iter()
        .any(|wanted| wanted.name == source.name)
}

/// Whether a source is in the settings, and is not polled for now.
fn is_paused(source: &Source, settings: &Settings) -> bool {
    let mut wanted = settings.sources.iter();
    wanted.any(|wanted| wanted.name == source.name && wanted.is_paused)
}

/// Stands for the number that a source will have.
pub const NOT_IN_STORE: SourceId = SourceId(u32::MAX);

/// The sources of a project: those of the store, and those that are only in the settings
/// so far.
///
/// # Errors
/// If the store cannot be read.
pub fn sources(store: &dyn Reader, settings: &Settings, now: Moment) -> Result<Vec<Source>, Error> {
    let mut sources = store.sources()?;
    for wanted in &settings.sources {
        if sources.iter().all(|source| source.name != wanted.name) {
            let place = wanted.file.as_ref().map(|path| path.display().to_string());
            sources.push(Source {
                id: NOT_IN_STORE,
                name: wanted.name.clone(),
                kind: wanted.kind,
                url: place.unwrap_or_else(|| wanted.url.clone()),
                added_at: now,
                totals: Totals::default(),
                error: None,
            });
        }
    }
    Ok(sources)
}
