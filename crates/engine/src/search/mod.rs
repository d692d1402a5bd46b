//! A search source at work: how it is asked, and what we hold of its rows.
//!
//! What to ask next, and when, is decided in the policy crate
//! ([`SearchSource`]). This knows texts, bodies
//! and digests, touches no network, and of what is kept only bodies.

pub(crate) mod answer;
mod prepare;
pub(crate) mod request;
pub mod rows;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use springtide_policy::agenda::SearchPoll;
use springtide_policy::agenda::rows::{
    KnownRow, PageRequest, RowChange, RowState, SearchSource, Settings,
};
use springtide_policy::query::Retrieval;
use springtide_policy::schedule::Quota;
use springtide_policy::{Objective, Weight};
use springtide_store::{Bodies, BodyId, ElementId, Moment, Purpose};

use crate::clock;
use crate::settings::{RowWeight, SearchSettings, SourceSettings};
use crate::source::Sighting;
use answer::{Row as ServerRow, cell};
use prepare::RowCopies;
pub(crate) use prepare::{Preparation, Prepared};
use rows::FileRows;

/// No number of an answer counts more than this.
const MAX_NUMBER: f64 = 1e12;
/// Bytes of a cell that terms are taken from.
const LONGEST_CELL: usize = 1024;
/// What polls of a search source share: how it is asked, and what we hold.
#[derive(Debug)]
pub(crate) struct SearchContext {
    pub(crate) source: SourceSettings,
    pub(crate) search: SearchSettings,
    held: RwLock<HashMap<String, Held>>,
}

/// What we hold of a row.
#[derive(Debug, Clone, Default)]
struct Held {
    digest: Option<[u8; 32]>,
    /// What staleness goes by.
    value: Option<String>,
}

/// What a search source is asked for.
#[derive(Debug)]
pub(crate) struct SearchBoxRequest {
    pub(crate) poll: SearchPoll,
    /// A page of the answer to a query; if not, one row.
    pub(crate) page: Option<AskedPage>,
}

/// A page of the answer to a query.
#[derive(Debug, Clone)]
pub(crate) struct AskedPage {
    pub(crate) request: PageRequest,
    /// The text of the query.
    pub(crate) text: String,
    /// The row that it is asked for, and why, if it is for one.
    pub(crate) wanted: Option<(ElementId, Purpose)>,
}

/// What a row says that we did not know.
#[derive(Debug)]
pub(crate) struct RowNews {
    digest: [u8; 32],
    value: Option<String>,
    /// How far that is from what we held.
    difference: Option<f64>,
    /// What it counts, if its fields say so.
    weight: Option<Weight>,
    cells: Vec<Option<String>>,
}

impl SearchContext {
    /// A row of ours in an answer, or one that is to become ours; nothing if it is neither.
    ///
    /// # Errors
    /// If its body cannot be put away.
    pub(crate) fn find(
        &self,
        row: &ServerRow,
        bodies: &Bodies,
    ) -> Result<Option<Sighting>, springtide_store::Error> {
        let (held, has_room) = {
            let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
            let has_room = (held.len() as u64) < self.source.max_elements;
            (held.get(&row.id).cloned(), has_room)
        };
        if held.is_none() && !(self.search.adds_unknown && has_room) {
            return Ok(None);
        }
        let held = held.unwrap_or_default();
        let digest = *blake3::hash(&row.body).as_bytes();
        let has_changed = held.digest != Some(digest);
        // Also if we hold it: if it was lost, it is here again.
        let body = bodies.put(&row.body)?;
        let mut sighting = Sighting {
            content_type: Some("application/json".to_owned()),
            n_bytes: row.body.len() as u64,
            ..Sighting::unchanged(digest)
        };
        if has_changed {
            sighting.body = Some(body);
            let news = self.news(row, digest, &held);
            sighting.is_minor = news.difference == Some(0.0);
            sighting.news = Some(Box::new(news));
        }
        Ok(Some(sighting))
    }

    fn news(&self, row: &ServerRow, digest: [u8; 32], held: &Held) -> RowNews {
        let cell_of = |name: &str| row.fields.get(name).map(cell);
        let staleness = self.search.staleness.as_ref();
        let value = staleness.and_then(|staleness| cell_of(&staleness.field));
        let difference = self.difference(held.value.as_deref(), value.as_deref());
        RowNews {
            digest,
            value,
            difference,
            weight: self.weight(cell_of),
            cells: self
                .search
                .attributes
                .iter()
                .map(|(name, _)| Some(cut(&cell_of(name)?, LONGEST_CELL).to_owned()))
                .collect(),
        }
    }

    /// How far two versions are apart, if that counts.
    fn difference(&self, before: Option<&str>, after: Option<&str>) -> Option<f64> {
        let staleness = self.search.staleness.as_ref()?;
        Some(
            staleness
                .difference
                .between(before?, after?)
                .min(MAX_NUMBER),
        )
    }

    /// What a row counts, if a column says so.
    fn weight(&self, cell_of: impl Fn(&str) -> Option<String>) -> Option<Weight> {
        let number = match &self.search.staleness.as_ref()?.weight {
            RowWeight::Number(number) => *number,
            RowWeight::Column(name) => {
                let number: f64 = cell_of(name)?.trim().parse().ok()?;
                Some(number)
                    .filter(|number| *number >= 0.0)?
                    .min(MAX_NUMBER)
            }
        };
        Weight::new(number).ok()
    }

    /// A digest of how it is asked and what it is expected to answer.
    fn digest(&self) -> [u8; 8] {
        let how = (&self.source.url, &self.search.body, &self.search.by_id);
        let what = (&self.search.answer, &self.search.headers);
        let digest = blake3::hash(format!("{how:?} {what:?}").as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&digest.as_bytes()[..8]);
        first
    }

    /// What decides about it has to know.
    fn settings(&self, default_objective: Objective) -> Settings {
        let search = &self.search;
        let quota = search.quota.as_ref();
        Settings {
            retrieval: self.retrieval(),
            has_by_id: search.by_id.is_some(),
            max_interval: search.max_interval,
            pause: search.pause,
            quota: quota.map(|quota| Quota::new(quota.n_polls, quota.span)),
            objective: match search.staleness {
                Some(_) => Objective::Content,
                None => default_objective,
            },
            common_objective: default_objective,
            form: self.digest(),
        }
    }

    fn held_mut(&self) -> RwLockWriteGuard<'_, HashMap<String, Held>> {
        self.held.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it answers.
    pub(crate) fn retrieval(&self) -> Retrieval {
        let search = &self.search;
        let (page, top) = (u64::from(search.page_size), u64::from(search.top));
        let method = springtide_policy::query::Method::AllPages;
        Retrieval::new(page, top, method).unwrap_or(Retrieval::USUAL)
    }
}

/// What is known of a row before anything is asked.
#[derive(Debug)]
pub(crate) struct HeldRow {
    pub(crate) element: ElementId,
    pub(crate) id: String,
    pub(crate) weight: f64,
    pub(crate) synced_at: Option<Moment>,
    pub(crate) added_at: Moment,
    pub(crate) is_out: bool,
    pub(crate) copy: Option<([u8; 32], BodyId)>,
    /// Its versions, in order, as far as their differences are to be learned from.
    pub(crate) versions: Vec<BodyId>,
}

/// A search source at work.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) context: Arc<SearchContext>,
    /// The search box itself, as an element: requests are its polls.
    pub(crate) search_box: ElementId,
    /// What terms are taken from, by the number of the row.
    cells: Vec<Vec<String>>,
}

/// The beginning of a text.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}

/// Takes in cells that are there; says whether any is another than before.
fn set_cells(cells: &mut [String], news: &[Option<String>]) -> bool {
    let mut has_changed = false;
    for (cell, news) in cells.iter_mut().zip(news) {
        let news = news.as_deref().map(|news| cut(news, LONGEST_CELL));
        if let Some(news) = news.filter(|news| news != cell) {
            news.clone_into(cell);
            has_changed = true;
        }
    }
    has_changed
}

impl Search {
    /// A source with these rows, of which the file says what is in it. What polls of all
    /// elements are weighed by is the usual objective.
    pub(crate) fn new(
        source: SourceSettings,
        search: SearchSettings,
        search_box: ElementId,
        known: Vec<HeldRow>,
        file: &FileRows,
        default_objective: Objective,
    ) -> (Self, SearchSource, Preparation) {
        let mut context = SearchContext {
            source,
            search,
            held: RwLock::default(),
        };
        let columns: Vec<_> = context
            .search
            .attributes
            .iter()
            .map(|(name, _)| file.column(name))
            .collect();
        let in_file: HashMap<&str, usize> = (0..)
            .zip(&file.rows)
            .map(|(at, row)| (row.id.as_str(), at))
            .collect();
        let (mut rows, mut cells, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let mut held = HashMap::with_capacity(known.len());
        for known in known {
            let in_file = in_file
                .get(known.id.as_str())
                .map(|&at| &file.rows[at].cells);
            let cell_at = |at: Option<usize>| Some(in_file?[at?].clone());
            let staleness_weight = context.weight(|name| cell_at(file.column(name)));
            let standing = match known.synced_at {
                _ if known.is_out => RowState::Out,
                Some(_) => RowState::Held,
                None => RowState::New,
            };
            rows.push(KnownRow {
                element: known.element,
                standing,
                since: clock::time(known.synced_at.unwrap_or(known.added_at)),
                weight: Weight::new(known.weight).unwrap_or(Weight::ONE),
                staleness_weight: staleness_weight.unwrap_or(Weight::ONE),
            });
            let cells_of = columns.iter().map(|&at| cell_at(at).unwrap_or_default());
            cells.push(cells_of.collect());
            let digest = known.copy.map(|(digest, _)| digest);
            held.insert(
                known.id,
                Held {
                    digest,
                    value: None,
                },
            );
            kept.push(RowCopies {
                copy: known.copy,
                versions: known.versions,
            });
        }
        context.held = RwLock::new(held);
        let mut decisions = SearchSource::new(context.settings(default_objective), rows);
        let search = Self {
            context: Arc::new(context),
            search_box,
            cells,
        };
        let preparation = search.preparation(&mut decisions, kept);
        (search, decisions, preparation)
    }

    /// What is to be prepared, with what is kept of each row, if that is to be read.
    fn preparation(&self, decisions: &mut SearchSource, kept: Vec<RowCopies>) -> Preparation {
        Preparation {
            context: self.context.clone(),
            generation: decisions.begin_queries(),
            cells: self.cells.clone(),
            kept,
        }
    }

    /// What is to be prepared anew, once enough is not as it was.
    pub(crate) fn next_preparation(&self, decisions: &mut SearchSource) -> Option<Preparation> {
        let is_time = decisions.are_queries_outdated();
        is_time.then(|| self.preparation(decisions, Vec::new()))
    }

    /// Queries were made up. What is known of them, by their texts, is in `remembered`.
    pub(crate) fn install<'a>(
        &mut self,
        decisions: &mut SearchSource,
        prepared: Prepared,
        remembered: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) {
        decisions.set_queries(prepared.generation, prepared.live, remembered);
        let mut held = self.context.held_mut();
        let by_digest: HashMap<[u8; 32], &RowNews> = prepared
            .row_news
            .iter()
            .flatten()
            .map(|news| (news.digest, news))
            .collect();
        for held in held.values_mut() {
            if let Some(news) = held.digest.and_then(|digest| by_digest.get(&digest)) {
                held.value.clone_from(&news.value);
            }
        }
        let told = prepared.row_news.iter().zip(prepared.differences);
        for (number, (news, differences)) in (0..).zip(told) {
            let weight = news.as_ref().and_then(|news| news.weight);
            decisions.recall_row(number, weight, differences);
        }
        for (cells, news) in self.cells.iter_mut().zip(&prepared.row_news) {
            if let Some(news) = news {
                set_cells(cells, &news.cells);
            }
        }
    }

    /// A row becomes ours.
    pub(crate) fn add(&mut self, id: &str) {
        let n_cells = self.context.search.attributes.len();
        self.cells.push(vec![String::new(); n_cells]);
        let mut held = self.context.held_mut();
        held.insert(id.to_owned(), Held::default());
    }

    /// A row was polled, by whatever request.
    pub(crate) fn polled(
        &mut self,
        decisions: &mut SearchSource,
        (element, id): (ElementId, &str),
        news: Option<&RowNews>,
        at: Moment,
    ) {
        let Some(number) = decisions.number(element) else {
            return;
        };
        let change = news.map(|news| RowChange {
            difference: news.difference,
            staleness_weight: news.weight,
            has_new_terms: set_cells(&mut self.cells[number as usize], &news.cells),
        });
        decisions.polled(element, change.as_ref(), clock::time(at));
        if let Some(news) = news {
            let now_held = Held {
                digest: Some(news.digest),
                value: news.value.clone(),
            };
            self.context.held_mut().insert(id.to_owned(), now_held);
        }
    }
}
