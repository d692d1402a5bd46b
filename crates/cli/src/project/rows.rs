//! Elements as programs see them: the rows of `ls --elements --json` and of `export`.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use springtide_store::{
    ElementId, GroupId, Kept, Moment, Reader, Role, Source, SourceId, State, Totals,
};

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
    pub(crate) reason: Option<Cow<'static, str>>,
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
            kind: failure.kind.name(),
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
    store: &'a dyn Reader,
    sources: HashMap<SourceId, &'a str>,
    groups: HashMap<GroupId, (Option<GroupId>, String)>,
    totals: Counts,
    view: View,
}

/// How many elements are in which state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    totals: Totals,
}

impl Counts {
    pub(crate) fn of<'a>(sources: impl Iterator<Item = &'a Source>) -> Self {
        let mut sum = Totals::default();
        for source in sources {
            let totals = source.totals;
            sum.n_elements += totals.n_elements;
            sum.n_new += totals.n_new;
            sum.n_failing += totals.n_failing;
            sum.n_blocked += totals.n_blocked;
            sum.n_gone += totals.n_gone;
        }
        Self { totals: sum }
    }

    pub(crate) fn n_all(&self) -> u64 {
        self.totals.n_elements + self.totals.n_gone
    }

    pub(crate) fn in_state(&self, state: State) -> u64 {
        let totals = self.totals;
        match state {
            State::New => totals.n_new,
            State::Failing => totals.n_failing,
            State::Blocked => totals.n_blocked,
            State::Gone => totals.n_gone,
            State::Ok => {
                let rest = totals.n_new + totals.n_failing + totals.n_blocked;
                totals.n_elements.saturating_sub(rest)
            }
        }
    }
}

impl<'a> Rows<'a> {
    pub(crate) fn new(
        project: &'a Project,
        store: &'a dyn Reader,
        sources: &'a [Source],
        view: View,
    ) -> Self {
        let totals = Counts::of(sources.iter());
        let sources = sources.iter().map(|source| (source.id, &*source.name));
        Self {
            totals,
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
        if let Some(ids) = self.rare(wanted)? {
            for chunk in ids.chunks(100) {
                let page = chunk.iter().map(|&id| self.store.element(id));
                let page = page.collect::<Result<Vec<_>, _>>();
                let page = page.map_err(|error| self.project.refuse(&error))?;
                // It may have changed since.
                let page: Vec<Kept> = page.into_iter().flatten().collect();
                let page: Vec<Kept> = page.into_iter().filter(|kept| wanted.has(kept)).collect();
                self.prepare(&page)?;
                for kept in &page {
                    if each(kept, &self.row(kept))? == Enough::Yes {
                        return Ok(());
                    }
                }
            }
            return Ok(());
        }
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

    /// The numbers of wanted elements, where they are few among many: what is kept of all
    /// in few bytes is gone through many times faster than all that is known.
    fn rare(&self, wanted: Wanted) -> Outcome<Option<Vec<ElementId>>> {
        /// At most one in so many.
        const RARE: u64 = 20;
        let Some(state) = wanted.state else {
            return Ok(None);
        };
        let (n_wanted, n_all) = (self.totals.in_state(state), self.totals.n_all());
        if n_wanted > n_all / RARE {
            return Ok(None);
        }
        let mut ids = Vec::new();
        let scanned = self.store.scan(1, &mut |id, brief| {
            let is_of_source = wanted.source.is_none_or(|source| source == brief.source);
            if brief.state == state && is_of_source {
                ids.push(id);
            }
        });
        scanned.map_err(|error| self.project.refuse(&error))?;
        Ok(Some(ids))
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
            rate_per_day: told.belief.map(RatePerDay::new),
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
    number
        .to_string()
        .parse()
        .unwrap_or_else(|_| f64::from(number))
}
