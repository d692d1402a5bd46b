//! Elements as programs see them: the rows of `ls --elements --json` and of `export`.

use std::collections::HashMap;

use serde::Serialize;
use springtide_store::{ElementId, GroupId, Kept, Moment, Role, Source, SourceId, State, Store};

use super::Project;
use crate::failure::Outcome;
use crate::moment;
use crate::view::{RatePerDay, Seen, View};

/// An element in full.
#[derive(Debug, Serialize)]
pub(crate) struct Row<'a> {
    pub(crate) id: u32,
    pub(crate) source: &'a str,
    pub(crate) locator: &'a str,
    pub(crate) group: String,
    pub(crate) weight: f64,
    pub(crate) rate_per_day: Option<RatePerDay>,
    pub(crate) frequency_per_day: Option<f64>,
    #[serde(serialize_with = "moment::serialize")]
    pub(crate) polled_at: Option<Moment>,
    #[serde(serialize_with = "moment::serialize")]
    pub(crate) changed_at: Option<Moment>,
    #[serde(serialize_with = "moment::serialize")]
    pub(crate) due_at: Option<Moment>,
    pub(crate) reason: Option<String>,
    pub(crate) n_polls: u32,
    pub(crate) n_changes: u32,
    pub(crate) state: &'static str,
    pub(crate) error: Option<ErrorRow<'a>>,
    /// The chance that its copy is fresh; for people.
    #[serde(skip)]
    pub(crate) freshness: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ErrorRow<'a> {
    pub(crate) kind: &'a str,
    pub(crate) message: &'a str,
    #[serde(serialize_with = "moment::serialize")]
    pub(crate) at: Option<Moment>,
}

impl<'a> ErrorRow<'a> {
    pub(crate) fn new(failure: &'a springtide_store::Failure) -> Self {
        Self {
            kind: &failure.kind,
            message: &failure.message,
            at: Some(failure.at),
        }
    }
}

pub(crate) fn state_name(state: State) -> &'static str {
    match state {
        State::New => "new",
        State::Ok => "ok",
        State::Failing => "failing",
        State::Blocked => "blocked",
        State::Gone => "gone",
    }
}

/// Which elements are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub(crate) source: Option<SourceId>,
    pub(crate) state: Option<State>,
    /// Listings as well.
    pub(crate) listings: bool,
}

impl Wanted {
    pub(crate) fn has(&self, kept: &Kept) -> bool {
        let is_listed = self.listings || kept.element.role != Role::Listing;
        is_listed && self.state.is_none_or(|state| state == kept.state)
    }
}

/// Elements that are read at a time.
const PAGE: usize = 2000;
/// Names of groups that are held at a time.
const MOST_NAMES: usize = 200_000;

/// Goes through elements with all that is told of them.
pub(crate) struct Rows<'a> {
    project: &'a Project,
    store: &'a dyn Store,
    sources: HashMap<SourceId, &'a str>,
    groups: HashMap<GroupId, (Option<GroupId>, String)>,
    view: View,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(
        project: &'a Project,
        store: &'a dyn Store,
        sources: &'a [Source],
        view: View,
    ) -> Self {
        let sources = sources.iter().map(|source| (source.id, &*source.name));
        Self {
            project,
            store,
            sources: sources.collect(),
            groups: HashMap::new(),
            view,
        }
    }

    /// Calls `each` with the wanted elements in the order of their numbers, until it
    /// says that this is enough.
    pub(crate) fn each(
        &mut self,
        wanted: Wanted,
        each: &mut dyn FnMut(&Kept, &Row<'_>) -> Outcome<Enough>,
    ) -> Outcome<()> {
        let mut from = Some(ElementId(0));
        let mut n = 100;
        while let Some(start) = from {
            let page = self
                .store
                .elements(wanted.source, start, n)
                .map_err(|error| self.project.refuse(&error))?;
            // A few are there at once; for many, pages are larger.
            n = (n * 4).min(PAGE);
            from = page
                .last()
                .and_then(|kept| kept.element.id.0.checked_add(1))
                .map(ElementId);
            let page: Vec<Kept> = page.into_iter().filter(|kept| wanted.has(kept)).collect();
            self.prepare(&page)?;
            for kept in &page {
                if each(kept, &self.row(kept))? == Enough::Yes {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reads what is needed of the groups of some elements.
    fn prepare(&mut self, page: &[Kept]) -> Outcome<()> {
        let refuse = |error| self.project.refuse(&error);
        if self.groups.len() > MOST_NAMES {
            self.groups.clear();
        }
        let mut missing: Vec<GroupId> = page.iter().map(|kept| kept.element.group).collect();
        missing.sort_unstable();
        missing.dedup();
        self.view.prepare(self.store, &missing).map_err(refuse)?;
        loop {
            missing.retain(|group| !self.groups.contains_key(group));
            if missing.is_empty() {
                return Ok(());
            }
            let found = self.store.groups_by_id(&missing).map_err(refuse)?;
            if found.is_empty() {
                return Ok(());
            }
            missing = found.iter().filter_map(|group| group.parent).collect();
            missing.sort_unstable();
            missing.dedup();
            let found = found
                .into_iter()
                .map(|group| (group.id, (group.parent, group.name)));
            self.groups.extend(found);
        }
    }

    fn row<'b>(&'b self, kept: &'b Kept) -> Row<'b> {
        let element = &kept.element;
        let told = self.view.of(Seen::from(kept));
        Row {
            id: element.id.0,
            source: self
                .sources
                .get(&element.source)
                .copied()
                .unwrap_or_default(),
            locator: &element.locator,
            group: self.group_name(element.group),
            weight: decimal(element.weight),
            rate_per_day: told.rate,
            frequency_per_day: told.frequency,
            polled_at: kept.history.polled_at,
            changed_at: kept.copy.as_ref().and_then(|copy| copy.changed_at),
            due_at: told.due_at,
            reason: told.reason,
            n_polls: kept.history.n_polls,
            n_changes: kept.history.n_changes,
            state: state_name(kept.state),
            error: kept.failure.as_ref().map(ErrorRow::new),
            freshness: told.freshness,
        }
    }

    /// Its path, outermost first.
    fn group_name(&self, group: GroupId) -> String {
        let mut names = Vec::new();
        let mut group = Some(group);
        while let Some((parent, name)) = group.and_then(|group| self.groups.get(&group)) {
            names.push(name.as_str());
            group = *parent;
            // Groups in a circle are damage, and no reason to go round.
            if names.len() > 100 {
                break;
            }
        }
        names.reverse();
        names.join("/")
    }
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enough {
    Yes,
    No,
}

/// The double that a short number is meant to be: 0.1, not 0.10000000149.
pub(crate) fn decimal(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}
