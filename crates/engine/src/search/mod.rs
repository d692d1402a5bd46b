//! A search source at work: our rows there, what is known of its queries, and when it
//! may be asked.
//!
//! It touches no network, and of what is kept only bodies. The loop asks it what to ask
//! next, and tells it what came of it.

pub(crate) mod answer;
pub(crate) mod form;
mod prepare;
pub mod rows;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use springtide_policy::query::{Ask, Live, Page, Request, Retrieval};
use springtide_policy::schedule::{Quota, Scheduler};
use springtide_policy::{Objective, Span, Time};
use springtide_store::{Bodies, BodyId, ElementId, Moment};

use crate::clock;
use crate::poll::Here;
use crate::settings::{RowWeight, SearchSettings, SourceSettings};
use answer::{Row as Answered, cell};
use prepare::KeptOf;
pub(crate) use prepare::{Preparation, Prepared};
use rows::FileRows;

/// No number of an answer counts more than this.
const MOST: f64 = 1e12;
/// Bytes of a cell that terms are taken from.
const LONGEST_CELL: usize = 1024;
/// A source is left alone no longer than this, in milliseconds.
const LONGEST_PAUSE: f64 = 86_400_000.0;
/// A row that was hoped for in so many answers is not to be had by queries; in so many
/// more, if it cannot be had otherwise.
const MOST_HOPES: f32 = 1.5;
const ONLY_HOPES: f32 = 4.0;
/// What an answer with none of our rows counts there.
const LEAST_HOPE: f32 = 0.1;
/// A row that is asked for by its id is not asked for again before this has passed, in
/// milliseconds, unless something has come of it.
const LONGEST_REQUEST: i64 = 60_000;
/// Nor is it, and that has been told.
const GIVEN_UP: f32 = 1e6;
/// What a mean difference is worth beside those seen of a row, in differences.
const USUAL_SIZES: f64 = 2.0;
/// Queries are made up anew when this share of the rows has new terms, or so many.
const ANEW_SHARE: f64 = 0.02;
const ANEW_LEAST: usize = 8;
/// Where nothing is worth asking, it is thought over again after so long, in days.
const IDLE: f64 = 0.2 / 86_400.0;

/// What polls of a search source share: how it is asked, and what we hold.
#[derive(Debug)]
pub(crate) struct Form {
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

/// A row of ours in an answer, or one that is to become ours.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) id: String,
    pub(crate) here: Here,
    /// What its fields say, if that is not what we hold.
    pub(crate) news: Option<News>,
}

/// Differences between versions: their sum, and how many there were.
#[derive(Debug, Clone, Copy, Default)]
struct Sizes {
    sum: f64,
    n: f64,
}

impl Sizes {
    /// Takes in a difference, if it is one.
    fn add(&mut self, difference: Option<f64>) {
        if let Some(difference) = difference.filter(|d| d.is_finite() && *d > 0.0) {
            self.sum += difference;
            self.n += 1.0;
        }
    }

    /// Takes in those of others.
    fn add_all(&mut self, other: Self) {
        self.sum += other.sum;
        self.n += other.n;
    }

    /// Their mean, with so many more that are as usual.
    fn mean_with(self, n: f64, usual: f64) -> f64 {
        match self.n + n {
            0.0 => usual,
            all => (self.sum + n * usual) / all,
        }
    }
}

/// What a row says that we did not know.
#[derive(Debug)]
pub(crate) struct News {
    digest: [u8; 32],
    value: Option<String>,
    /// How far that is from what we held.
    difference: Option<f64>,
    weight: Option<f64>,
    cells: Vec<Option<String>>,
}

impl Form {
    /// What is found of a row: nothing, if it is not ours and not to become ours.
    ///
    /// # Errors
    /// If its body cannot be put away.
    pub(crate) fn find(
        &self,
        row: &Answered,
        bodies: &Bodies,
    ) -> Result<Option<Found>, springtide_store::Error> {
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
        let mut here = Here {
            content_type: Some("application/json".to_owned()),
            n_bytes: row.body.len() as u64,
            ..Here::unchanged(digest)
        };
        if !has_changed {
            let id = row.id.clone();
            let news = None;
            return Ok(Some(Found { id, here, news }));
        }
        here.body = Some(bodies.put(&row.body)?);
        let news = self.news(row, digest, &held);
        here.is_minor = news.difference == Some(0.0);
        Ok(Some(Found {
            id: row.id.clone(),
            here,
            news: Some(news),
        }))
    }

    fn news(&self, row: &Answered, digest: [u8; 32], held: &Held) -> News {
        let cell_of = |name: &str| row.fields.get(name).map(cell);
        let staleness = self.search.staleness.as_ref();
        let value = staleness.and_then(|staleness| cell_of(&staleness.field));
        let difference = self.difference(held.value.as_deref(), value.as_deref());
        News {
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
        Some(staleness.difference.between(before?, after?).min(MOST))
    }

    /// What a row counts, if a column says so.
    fn weight(&self, cell_of: impl Fn(&str) -> Option<String>) -> Option<f64> {
        match &self.search.staleness.as_ref()?.weight {
            RowWeight::Number(number) => Some(*number),
            RowWeight::Column(name) => {
                let number: f64 = cell_of(name)?.trim().parse().ok()?;
                (number >= 0.0).then_some(number.min(MOST))
            }
        }
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

    /// What is to be kept low.
    pub(crate) fn objective(&self, usual: Objective) -> Objective {
        match self.search.staleness {
            Some(_) => Objective::Content,
            None => usual,
        }
    }

    /// How it answers.
    fn retrieval(&self) -> Retrieval {
        let search = &self.search;
        let (page, top) = (u64::from(search.page_size), u64::from(search.top));
        let method = springtide_policy::query::Method::AllPages;
        Retrieval::new(page, top, method).unwrap_or(Retrieval::USUAL)
    }
}

/// A row of ours.
#[derive(Debug)]
struct Row {
    element: ElementId,
    standing: Standing,
    /// When it was last known to be fresh, or was taken in.
    since: Moment,
    /// What its source and its file give it, and what its fields say.
    weight: f64,
    counts: f64,
    /// How far its versions were apart.
    sizes: Sizes,
    /// It is not asked for by its id before then.
    held_until: Moment,
    /// In how many answers it was hoped for in vain, since it last came.
    hopes: f32,
    cells: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    New,
    In,
    Out,
}

impl Row {
    /// Whether it is new, and may come with a query.
    fn is_hoped_for(&self, has_id: bool) -> bool {
        let most = if has_id { MOST_HOPES } else { ONLY_HOPES };
        self.standing == Standing::New && self.hopes < most
    }

    /// Whether it is new, and there is a way to have it.
    fn may_be_had(&self, has_id: bool, now: Moment) -> bool {
        let may_be_asked = has_id && self.held_until <= now;
        self.is_hoped_for(has_id) || self.standing == Standing::New && may_be_asked
    }
}

/// What is known of a row before anything is asked.
#[derive(Debug)]
pub(crate) struct Known {
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
    pub(crate) form: Arc<Form>,
    /// The search box itself, as an element: requests are its polls.
    pub(crate) search_box: ElementId,
    quota: Option<Quota>,
    n_refusals: u32,
    paused_until: Moment,
    rows: Vec<Row>,
    numbers: HashMap<ElementId, u32>,
    live: Option<Live>,
    /// How often queries were made up, and whether they are being made up.
    generation: u32,
    is_building: bool,
    n_unbuilt: usize,
    /// A request was chosen and has not left.
    pub(crate) is_waiting: bool,
    idle_until: Time,
    /// Whether what was chosen last was overdue: others get every other request.
    was_overdue: bool,
    /// Whether the last request for a page was refused.
    are_queries_refused: bool,
    n_new: usize,
    /// New rows that nothing returns.
    given_up: Vec<ElementId>,
    /// How far versions of all rows were apart.
    sizes: Sizes,
    /// When it last refused.
    refused_at: Moment,
}

/// What to ask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Choice {
    Query(Ask),
    /// One row, by itself.
    Row(ElementId),
    /// The same for one that has waited as long as it may.
    Overdue(ElementId),
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
    /// A source with these rows, of which the file says what is in it.
    pub(crate) fn new(
        source: SourceSettings,
        search: SearchSettings,
        search_box: ElementId,
        known: Vec<Known>,
        file: &FileRows,
    ) -> (Self, Preparation) {
        let quota = search
            .quota
            .map(|quota| Quota::new(quota.n_polls, quota.span));
        let mut form = Form {
            source,
            search,
            held: RwLock::default(),
        };
        let columns: Vec<_> = form
            .search
            .attributes
            .iter()
            .map(|(name, _)| file.column(name))
            .collect();
        let in_file: HashMap<&str, usize> = (0..)
            .zip(&file.rows)
            .map(|(at, row)| (row.id.as_str(), at))
            .collect();
        let (mut rows, mut numbers, mut kept) = (Vec::new(), HashMap::new(), Vec::new());
        let mut held = HashMap::with_capacity(known.len());
        for known in known {
            let cells = in_file
                .get(known.id.as_str())
                .map(|&at| &file.rows[at].cells);
            let cell_at = |at: Option<usize>| Some(cells?[at?].clone());
            let counts = form.weight(|name| cell_at(file.column(name)));
            let standing = match known.synced_at {
                _ if known.is_out => Standing::Out,
                Some(_) => Standing::In,
                None => Standing::New,
            };
            numbers.insert(known.element, rows.len() as u32);
            rows.push(Row {
                element: known.element,
                standing,
                since: known.synced_at.unwrap_or(known.added_at),
                weight: known.weight,
                counts: counts.unwrap_or(1.0),
                sizes: Sizes::default(),
                held_until: Moment(0),
                hopes: 0.0,
                cells: columns
                    .iter()
                    .map(|&at| cell_at(at).unwrap_or_default())
                    .collect(),
            });
            let digest = known.copy.map(|(digest, _)| digest);
            held.insert(
                known.id,
                Held {
                    digest,
                    value: None,
                },
            );
            kept.push(KeptOf {
                copy: known.copy,
                versions: known.versions,
            });
        }
        form.held = RwLock::new(held);
        let n_new = rows
            .iter()
            .filter(|row| row.standing == Standing::New)
            .count();
        let mut search = Self {
            form: Arc::new(form),
            search_box,
            quota,
            n_refusals: 0,
            paused_until: Moment(0),
            rows,
            numbers,
            live: None,
            generation: 0,
            is_building: false,
            n_unbuilt: 0,
            is_waiting: false,
            idle_until: Time::START,
            was_overdue: false,
            are_queries_refused: false,
            n_new,
            given_up: Vec::new(),
            sizes: Sizes::default(),
            refused_at: Moment(0),
        };
        let preparation = search.preparation(kept);
        (search, preparation)
    }

    /// What is to be prepared, with what is kept of each row, if that is to be read.
    fn preparation(&mut self, kept: Vec<KeptOf>) -> Preparation {
        self.is_building = true;
        self.n_unbuilt = 0;
        Preparation {
            form: self.form.clone(),
            generation: self.generation + 1,
            cells: self.rows.iter().map(|row| row.cells.clone()).collect(),
            kept,
        }
    }

    /// What is to be prepared anew, once enough is not as it was.
    pub(crate) fn next_preparation(&mut self) -> Option<Preparation> {
        let least = (self.rows.len() as f64 * ANEW_SHARE) as usize;
        let is_time = self.n_unbuilt >= least.max(ANEW_LEAST);
        (is_time && !self.is_building).then(|| self.preparation(Vec::new()))
    }

    /// Queries were made up. What is known of them, by their texts, is in `remembered`.
    pub(crate) fn install<'a>(
        &mut self,
        prepared: Prepared,
        remembered: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) {
        self.is_building = false;
        self.generation = prepared.generation;
        let mut live = prepared.live;
        live.recall(remembered, |number| {
            self.numbers.get(&ElementId(number)).copied()
        });
        self.live = Some(live);
        let mut held = self
            .form
            .held
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let by_digest: HashMap<[u8; 32], &News> = prepared
            .told
            .iter()
            .flatten()
            .map(|news| (news.digest, news))
            .collect();
        for held in held.values_mut() {
            if let Some(news) = held.digest.and_then(|digest| by_digest.get(&digest)) {
                held.value.clone_from(&news.value);
            }
        }
        for (row, news) in self.rows.iter_mut().zip(&prepared.told) {
            if let Some(news) = news {
                set_cells(&mut row.cells, &news.cells);
                row.counts = news.weight.unwrap_or(row.counts);
            }
        }
        for (row, sizes) in self.rows.iter_mut().zip(prepared.sizes) {
            row.sizes.add_all(sizes);
            self.sizes.add_all(sizes);
        }
    }

    /// When it may be asked; never, before there is anything to ask.
    pub(crate) fn ready_at(&self, now: Moment) -> Time {
        if self.live.is_none() || self.is_waiting {
            return Time::NEVER;
        }
        self.allowed_at(now)
    }

    /// Rows of which it has turned out that nothing returns them.
    pub(crate) fn take_given_up(&mut self) -> Vec<ElementId> {
        std::mem::take(&mut self.given_up)
    }

    /// Until when it is left alone; now, if it is not.
    pub(crate) fn paused_until(&self, now: Moment) -> Time {
        clock::time(self.paused_until.max(now))
    }

    /// When its quota allows a request, and it is not left alone.
    pub(crate) fn allowed_at(&self, now: Moment) -> Time {
        let mut ready = self.paused_until(now);
        if let Some(quota) = &self.quota {
            let next = quota.next_at(clock::time(now));
            ready = if next > ready { next } else { ready };
        }
        ready
    }

    /// The same for those who have something to ask unless it was thought over just now.
    pub(crate) fn wake_at(&self, now: Moment) -> Time {
        let ready = self.ready_at(now);
        if self.idle_until > ready {
            self.idle_until
        } else {
            ready
        }
    }

    /// Whether a request that is about to leave may leave now; if so, it counts.
    pub(crate) fn leave(&mut self, at: Time) -> bool {
        match &mut self.quota {
            Some(quota) if quota.next_at(at) > at => false,
            Some(quota) => {
                quota.begin(at);
                self.is_waiting = false;
                true
            }
            None => {
                self.is_waiting = false;
                true
            }
        }
    }

    /// A request that left is over, by now at the latest.
    pub(crate) fn end(&mut self, now: Moment) {
        self.idle_until = Time::START;
        if let Some(quota) = &mut self.quota {
            quota.end(clock::time(now));
        }
    }

    /// It refuses to answer, or answers what is none: it is left alone for a while.
    /// Says for how long; nothing, if the request was begun before the last refusal, from
    /// which nothing follows again.
    pub(crate) fn pause(&mut self, begun_at: Moment, now: Moment) -> Option<Duration> {
        if begun_at < self.refused_at {
            return None;
        }
        self.refused_at = now;
        let first = self.form.search.pause.as_days() * 86_400_000.0;
        let wait = first * 2_f64.powi(self.n_refusals.min(40) as i32);
        let wait = wait.min(LONGEST_PAUSE.max(first)).ceil();
        self.n_refusals = self.n_refusals.saturating_add(1);
        self.leave_alone(Moment(now.0 + wait as i64));
        Some(Duration::from_millis(wait as u64))
    }

    /// It is left alone until then.
    pub(crate) fn leave_alone(&mut self, until: Moment) {
        self.paused_until = self.paused_until.max(until);
    }

    /// It answers.
    pub(crate) fn is_well(&mut self) {
        self.n_refusals = 0;
    }

    /// How many rows have never been had.
    pub(crate) fn n_new(&self) -> u64 {
        self.n_new as u64
    }

    /// Whether there is a row that was never had and that may be had now.
    pub(crate) fn has_new(&self, now: Moment) -> bool {
        let has_id = self.form.search.by_id.is_some();
        self.n_new > 0 && self.rows.iter().any(|row| row.may_be_had(has_id, now))
    }

    /// What to ask for rows that we have never had: the query that finds most of them,
    /// or one of them by its id.
    pub(crate) fn choose_new(&mut self, now: Moment) -> Option<Choice> {
        if self.n_new == 0 {
            return None;
        }
        let live = self.live.as_ref()?;
        let has_id = self.form.search.by_id.is_some();
        let worth: Vec<f64> = self
            .rows
            .iter()
            .map(|row| f64::from(u8::from(row.is_hoped_for(has_id))))
            .collect();
        let ask = live.best(&worth);
        // With a request by id one row is had for sure.
        if let Some(ask) = ask.filter(|ask| !has_id || ask.value >= 1.0) {
            return Some(Choice::Query(ask));
        }
        if !live.is_idle() {
            return None;
        }
        if self.form.search.by_id.is_none() {
            // No query finds them.
            for row in &mut self.rows {
                if row.standing == Standing::New && row.hopes < GIVEN_UP {
                    row.hopes = GIVEN_UP;
                    self.given_up.push(row.element);
                }
            }
            return None;
        }
        let mut next = None;
        for row in &mut self.rows {
            if row.standing == Standing::New {
                // No query is worth it for them.
                row.hopes = row.hopes.max(MOST_HOPES);
                let may_be_asked = row.held_until <= now;
                next = next.or_else(|| may_be_asked.then_some(row.element));
            }
        }
        next.map(Choice::Row)
    }

    /// Whether there is a row that is new, or has waited as long as it may.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        let has_id = self.form.search.by_id.is_some();
        let longest = self.form.search.max_interval.filter(|_| has_id);
        let is_due = |row: &Row| match row.standing {
            Standing::New => row.may_be_had(has_id, now),
            Standing::In => longest.is_some_and(|longest| {
                let waited = clock::millis_between(row.since, now) as f64;
                row.held_until <= now && waited >= longest.as_days() * 86_400_000.0
            }),
            Standing::Out => false,
        };
        self.rows.iter().any(is_due)
    }

    /// What to ask now: what is worth most a request, or a row that nothing has returned
    /// for too long.
    pub(crate) fn choose(
        &mut self,
        scheduler: &Scheduler,
        usual: Objective,
        now: Moment,
    ) -> Option<Choice> {
        let overdue = self.overdue(now);
        if overdue.is_some() && !self.was_overdue {
            self.was_overdue = true;
            return overdue;
        }
        self.was_overdue = false;
        let live = self.live.as_ref()?;
        let worth = self.worth(scheduler, self.form.objective(usual), now);
        let has_id = self.form.search.by_id.is_some();
        let may_be_asked = |row: u32| {
            let row = &self.rows[row as usize];
            has_id && row.standing == Standing::In && row.held_until <= now
        };
        let request = live.next(&worth, may_be_asked);
        let choice = request.map(|request| match request {
            Request::Page(ask) => Choice::Query(ask),
            Request::Row(row) => Choice::Row(self.rows[row as usize].element),
        });
        choice.or(overdue)
    }

    /// There is nothing to ask: it is thought over again in a while, or after an answer.
    pub(crate) fn rest(&mut self, now: Moment) {
        let until = clock::time(now).as_days() + IDLE;
        self.idle_until = Time::from_days(until).unwrap_or(Time::START);
    }

    /// The row that has waited longest, if it has to be asked for by its id.
    pub(crate) fn overdue(&self, now: Moment) -> Option<Choice> {
        let longest = self.form.search.max_interval?.as_days() * 86_400_000.0;
        self.form.search.by_id.as_ref()?;
        let is_overdue = |row: &&Row| {
            row.standing != Standing::Out
                && row.held_until <= now
                && clock::millis_between(row.since, now) as f64 >= longest
        };
        let rows = self.rows.iter().filter(is_overdue);
        let first = rows.min_by_key(|row| row.since);
        first.map(|row| Choice::Overdue(row.element))
    }

    /// A row is about to be asked for by its id: not again before that has come to
    /// something.
    pub(crate) fn begin_row(&mut self, element: ElementId, now: Moment) {
        self.is_waiting = true;
        if let Some(&number) = self.numbers.get(&element) {
            self.rows[number as usize].held_until = Moment(now.0 + LONGEST_REQUEST);
        }
    }

    /// What to ask for some rows that are wanted: the query that is expected to bring most
    /// of them, if those are more than one, else one of them; nothing, as long as all are
    /// about to come.
    pub(crate) fn choose_among(&self, wanted: impl Iterator<Item = ElementId>) -> Option<Choice> {
        let live = self.live.as_ref()?;
        let mut worth = vec![0.0; self.rows.len()];
        for row in wanted.filter_map(|element| self.numbers.get(&element)) {
            worth[*row as usize] = 1.0;
        }
        let has_id = self.form.search.by_id.is_some();
        if !(has_id && self.are_queries_refused) {
            let mut hoped_for = worth.clone();
            for (worth, row) in hoped_for.iter_mut().zip(&self.rows) {
                if row.standing == Standing::Out || row.hopes >= MOST_HOPES {
                    *worth = 0.0;
                }
            }
            if let Some(ask) = live.best(&hoped_for).filter(|ask| ask.value > 1.0) {
                return Some(Choice::Query(ask));
            }
        }
        let (row, _) = live.best_row(&worth).filter(|(_, left)| *left > 0.5)?;
        Some(Choice::Row(self.rows[row as usize].element))
    }

    /// The best request for one row, if any query finds it.
    pub(crate) fn choose_for(&self, element: ElementId) -> Option<Ask> {
        let row = *self.numbers.get(&element)?;
        self.live.as_ref()?.best_for(row)
    }

    /// What a request is worth for another objective, each, beside elements of other
    /// sources: what rows count among themselves is a matter of their own. What has
    /// waited as long as it may is worth any price.
    pub(crate) fn value(
        &self,
        choice: &Choice,
        scheduler: &Scheduler,
        objective: Objective,
        now: Moment,
    ) -> f64 {
        if matches!(choice, Choice::Overdue(_)) {
            return f64::INFINITY;
        }
        let worth = self.worth(scheduler, objective, now);
        let (mut counts, mut weights) = (0.0, 0.0);
        for row in &self.rows {
            counts += row.weight * row.counts * self.size(row);
            weights += row.weight;
        }
        let scale = if counts > 0.0 { weights / counts } else { 1.0 };
        let value = match choice {
            Choice::Query(ask) => self.live.as_ref().map(|live| live.value(ask.query, &worth)),
            Choice::Row(element) | Choice::Overdue(element) => {
                let row = self.numbers.get(element);
                row.map(|&row| worth[row as usize])
            }
        };
        scale * value.unwrap_or(0.0)
    }

    /// How far a change of a row is from what was there, on average.
    fn size(&self, row: &Row) -> f64 {
        let usual = self.sizes.mean_with(0.0, 1.0);
        row.sizes.mean_with(USUAL_SIZES, usual)
    }

    /// What refreshing each row is worth now.
    fn worth(&self, scheduler: &Scheduler, objective: Objective, now: Moment) -> Vec<f64> {
        let at = clock::time(now);
        let (mut sum, mut n) = (0.0, 0.0);
        let mut worth: Vec<f64> = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let value = match row.standing {
                Standing::In => scheduler.worth(row.element, objective, at).unwrap_or(0.0),
                Standing::New | Standing::Out => 0.0,
            };
            let value = row.weight * row.counts * self.size(row) * value;
            sum += value;
            n += f64::from(u8::from(row.standing == Standing::In));
            worth.push(value);
        }
        // A row that we have never had is worth what others are.
        let usual = if n > 0.0 { sum / n } else { 1.0 };
        for (worth, row) in worth.iter_mut().zip(&self.rows) {
            if row.standing == Standing::New {
                *worth = usual;
            }
        }
        worth
    }

    /// The text of a query.
    pub(crate) fn text(&self, query: usize) -> Option<String> {
        Some(self.live.as_ref()?.text(query))
    }

    /// How often queries have been made up.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// A request is about to be made.
    pub(crate) fn begin(&mut self, ask: &Ask) {
        self.is_waiting = true;
        if let Some(live) = &mut self.live {
            live.begin(ask.query, ask.page);
        }
    }

    /// A request is not made after all.
    pub(crate) fn give_up(&mut self, query: usize, page: u64, generation: u32) {
        if let Some(live) = self.live.as_mut().filter(|_| generation == self.generation) {
            live.give_up(query, page);
        }
    }

    /// A request came to nothing.
    pub(crate) fn fail(&mut self, query: usize, page: u64, generation: u32) {
        self.are_queries_refused = true;
        if let Some(live) = self.live.as_mut().filter(|_| generation == self.generation) {
            live.fail(query, page);
        }
    }

    /// A page was read; what is to be remembered of its query, unless queries have been
    /// made up anew since.
    pub(crate) fn read(
        &mut self,
        (query, generation): (usize, u32),
        number: u64,
        returned: &[ElementId],
        (total, at_least): (Option<f64>, f64),
    ) -> Option<Vec<u8>> {
        self.are_queries_refused = false;
        if generation != self.generation {
            return None;
        }
        let returned: Vec<u32> = returned
            .iter()
            .filter_map(|element| self.numbers.get(element).copied())
            .collect();
        let live = self.live.as_mut()?;
        let page = Page {
            number,
            returned: &returned,
            total,
            at_least,
        };
        live.read(query, &page);
        let n_pages = live.n_pages(query);
        let rows = &self.rows;
        let memory = live.remember(query, |row| rows[row as usize].element.0);
        // Where others came, it should have; else there is something about the query.
        let n_came = returned.len() as f32;
        let hope = (n_came / (n_came + 1.0)).max(LEAST_HOPE) / n_pages as f32;
        for &number in live.queries().rows(query) {
            if !returned.contains(&number) {
                self.rows[number as usize].hopes += hope;
            }
        }
        Some(memory)
    }

    /// Whether a request for a page is under way.
    pub(crate) fn is_asking(&self) -> bool {
        self.live.as_ref().is_some_and(|live| !live.is_idle())
    }

    /// Whether an element is a row of ours.
    pub(crate) fn is_ours(&self, element: ElementId) -> bool {
        self.numbers.contains_key(&element)
    }

    /// A row becomes ours.
    pub(crate) fn add(&mut self, element: ElementId, id: &str, weight: f64, now: Moment) {
        self.numbers.insert(element, self.rows.len() as u32);
        let mut held = self
            .form
            .held
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        held.insert(id.to_owned(), Held::default());
        self.rows.push(Row {
            element,
            standing: Standing::New,
            since: now,
            weight,
            counts: 1.0,
            sizes: Sizes::default(),
            held_until: Moment(0),
            hopes: 0.0,
            cells: vec![String::new(); self.form.search.attributes.len()],
        });
        self.n_new += 1;
        self.n_unbuilt += 1;
    }

    /// A row was polled, by whatever request.
    pub(crate) fn polled(&mut self, element: ElementId, id: &str, news: Option<&News>, at: Moment) {
        let Some(&number) = self.numbers.get(&element) else {
            return;
        };
        self.stand(element, Standing::In);
        let row = &mut self.rows[number as usize];
        row.since = row.since.max(at);
        row.held_until = Moment(0);
        row.hopes = 0.0;
        let Some(news) = news else {
            return;
        };
        for sizes in [&mut row.sizes, &mut self.sizes] {
            sizes.add(news.difference);
        }
        row.counts = news.weight.unwrap_or(row.counts);
        self.n_unbuilt += usize::from(set_cells(&mut row.cells, &news.cells));
        let mut held = self
            .form
            .held
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        held.insert(
            id.to_owned(),
            Held {
                digest: Some(news.digest),
                value: news.value.clone(),
            },
        );
    }

    /// A row is gone, or we are kept from it.
    pub(crate) fn out(&mut self, element: ElementId) {
        self.stand(element, Standing::Out);
    }

    fn stand(&mut self, element: ElementId, standing: Standing) {
        let Some(&number) = self.numbers.get(&element) else {
            return;
        };
        let row = &mut self.rows[number as usize];
        self.n_new -= usize::from(row.standing == Standing::New && standing != Standing::New);
        row.standing = standing;
    }

    /// A row could not be had by its id, and is not asked for that way before then, nor
    /// for longer than a row may wait.
    pub(crate) fn hold(&mut self, element: ElementId, until: Moment, now: Moment) {
        if let Some(&number) = self.numbers.get(&element) {
            let longest = self.form.search.max_interval.map(Span::as_days);
            let longest = longest.map_or(f64::INFINITY, |days| days * 86_400_000.0);
            let wait = (clock::millis_between(now, until) as f64).min(longest);
            self.rows[number as usize].held_until = Moment(now.0 + wait as i64);
        }
    }

    /// What is to be remembered of how it was asked.
    pub(crate) fn remember(&self) -> Vec<u8> {
        let mut bytes = self.form.digest().to_vec();
        bytes.extend(self.paused_until.0.to_le_bytes());
        bytes.extend(self.n_refusals.to_le_bytes());
        bytes.push(u8::from(self.are_queries_refused));
        bytes.extend(self.quota.as_ref().map(Quota::remember).unwrap_or_default());
        bytes
    }

    /// Takes in what was remembered.
    pub(crate) fn recall(&mut self, bytes: &[u8], now: Moment) {
        let Some((digest, rest)) = bytes.split_first_chunk::<8>() else {
            return;
        };
        let Some((until, rest)) = rest.split_first_chunk::<8>() else {
            return;
        };
        let Some((n_refusals, rest)) = rest.split_first_chunk::<4>() else {
            return;
        };
        let Some((are_queries_refused, quota)) = rest.split_first() else {
            return;
        };
        // Whoever asks in another way may be answered.
        if *digest == self.form.digest() {
            // A moment that is far away was written by a clock that was wrong.
            let furthest = now.0.saturating_add(LONGEST_PAUSE as i64);
            self.paused_until = Moment(i64::from_le_bytes(*until).min(furthest));
            self.n_refusals = u32::from_le_bytes(*n_refusals);
            self.are_queries_refused = *are_queries_refused != 0;
        }
        if let Some(own) = &mut self.quota {
            own.recall(quota, clock::time(now));
        }
    }
}
