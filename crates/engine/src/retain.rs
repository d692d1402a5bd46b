//! For how long versions and single polls are kept.
//!
//! [`Retention`] goes through changes and polls from the oldest on, a few at a time, and
//! says which of them are to be forgotten. The last change of an element, which brought
//! its current copy, is never among them, nor is what was learned: totals, beliefs, history.

use std::collections::BTreeMap;

use springtide_policy::Span;
use springtide_store::{Change, ChangeFilter, Fact, Moment, Reader, Source, SourceId};

use crate::Error;
pub use crate::clock_step::TrustedNow;
use crate::settings::{Retain, Settings};

/// A pass over all that is kept.
#[derive(Debug, Clone)]
pub struct Retention {
    rules: BTreeMap<SourceId, Retain>,
    /// The change and the poll that were looked at last.
    change: u64,
    poll: u64,
}

/// What a step of a pass came to, to be kept in one batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// These are to be forgotten, and then there is more to look at.
    Forget(Vec<Fact>),
    /// These are to be forgotten, and then all have been looked at. The next pass begins at
    /// the beginning, whoever makes it.
    Last(Vec<Fact>),
}

/// Rows that are looked at in one step: some milliseconds' work.
const PER_STEP: usize = 1000;
/// Where a pass is remembered to be.
const NOTE: &str = "retention";

impl Retention {
    /// A pass over what is kept of these sources, from the beginning.
    pub fn new(settings: &Settings, sources: &[Source]) -> Self {
        let rules = sources.iter().filter_map(|source| {
            let settings = settings.sources.iter().find(|s| s.name == source.name)?;
            let retain = settings.retain;
            (retain != Retain::default()).then_some((source.id, retain))
        });
        Self {
            rules: rules.collect(),
            change: 0,
            poll: 0,
        }
    }

    /// The same from where the last one was when it ended.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn resumed(self, store: &dyn Reader) -> Result<Self, Error> {
        let note = store.note(NOTE)?.unwrap_or_default();
        let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
        let (change, poll) = match note.split_at_checked(8) {
            Some((change, poll)) => (number(change), number(poll)),
            None => (None, None),
        };
        Ok(Self {
            change: change.unwrap_or(0),
            poll: poll.unwrap_or(0),
            ..self
        })
    }

    /// Whether anything is ever forgotten.
    pub fn forgets_anything(&self) -> bool {
        !self.rules.is_empty()
    }

    /// What is to be forgotten of the next few changes and polls. Where the pass is comes
    /// with it, to be kept in the same batch, and so does the present.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn step(&mut self, store: &dyn Reader, now: &TrustedNow) -> Result<Step, Error> {
        if !self.forgets_anything() {
            return Ok(Step::Last(Vec::new()));
        }
        let mut facts = vec![now.fact()];
        let changes = store.changes_after(self.change, PER_STEP)?;
        for change in &changes {
            facts.extend(self.what_to_forget(change, store, now)?);
            self.change = change.number;
        }
        let polls = store.polls_after(self.poll, PER_STEP)?;
        for poll in &polls {
            let span = self.rules.get(&poll.source).and_then(|rule| rule.polls);
            if span.is_some_and(|span| is_older(poll.at, span, now)) {
                facts.push(Fact::PollForgotten(poll.number));
            }
            self.poll = poll.number;
        }
        // Ends when little is left, not when nothing is: polls go on meanwhile, and a busy run
        // would never finish a pass.
        if changes.len() < PER_STEP && polls.len() < PER_STEP {
            (self.change, self.poll) = (0, 0);
            facts.push(Fact::Note(NOTE, None));
            return Ok(Step::Last(facts));
        }
        let mut note = self.change.to_le_bytes().to_vec();
        note.extend_from_slice(&self.poll.to_le_bytes());
        facts.push(Fact::Note(NOTE, Some(note)));
        Ok(Step::Forget(facts))
    }

    /// What is to be forgotten of a change, if anything is.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn what_to_forget(
        &self,
        change: &Change,
        store: &dyn Reader,
        now: &TrustedNow,
    ) -> Result<Option<Fact>, Error> {
        let Some(rule) = self.rules.get(&change.source) else {
            return Ok(None);
        };
        if rule.versions.is_none() && rule.within.is_none() && rule.keeps_bodies {
            return Ok(None);
        }
        let n = rule.versions.map_or(1, |n| n.max(1) as usize);
        let filter = ChangeFilter {
            element: Some(change.element),
            ..ChangeFilter::default()
        };
        let newest = store.changes(&filter, None, n)?;
        let mut newest = newest.iter().map(|newest| newest.number);
        // What the last change brought is the current copy.
        if newest.next() == Some(change.number) {
            return Ok(None);
        }
        let mut is_among = || newest.any(|number| number == change.number);
        let is_one_too_many = rule.versions.is_some() && !is_among();
        let is_too_old = |span| is_older(change.found_at, span, now);
        if is_one_too_many || rule.within.is_some_and(is_too_old) {
            return Ok(Some(Fact::ChangeForgotten(change.number)));
        }
        let is_dropped = !rule.keeps_bodies && change.body.is_some();
        Ok(is_dropped.then_some(Fact::VersionForgotten(change.number)))
    }
}

fn is_older(at: Moment, span: Span, now: &TrustedNow) -> bool {
    let millis = span.as_days() * 86_400_000.0;
    now.age(at) as f64 > millis
}
