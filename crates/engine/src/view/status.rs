//! How fresh the copy is now, measured and predicted, and what stands in the way.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use springtide_policy::Span;
use springtide_policy::predict::{
    HeldCopy, PastPoll, PredictedFreshness, freshness_now, mean_fresh,
};
use springtide_policy::report::share_interval;
use springtide_store::{
    Audit, Brief, ElementId, Error, Moment, PollOutcome, Reader, Role, Source, SourceId, State,
    Totals,
};

use super::beliefs::{BeliefInput, Beliefs, Held};
use super::outlook::{DueTimes, pace};
use super::words::{redacted, seconds_between};
use super::{ErrorView, States, is_in_settings, is_paused};
use crate::clock;
use crate::settings::{PolicyName, Settings};

/// How sure an interval is.
const CONFIDENCE: f64 = 0.9;
/// An interval from fewer audit polls than this says little.
const ENOUGH_AUDITS: usize = 100;
/// How far to go back for them, in days: a day if that is enough.
const DAYS_BACK: [i64; 3] = [1, 7, 30];
const MS_PER_DAY: i64 = 86_400_000;
const SECONDS_PER_DAY: f64 = 86_400.0;
/// Elements that are looked at; of more, some blocks are left out.
const MOST_SCANNED: u64 = 100_000;
/// Sources of which the sample held no element, and that are looked at by themselves.
const MOST_MISSED: usize = 50;
/// Elements of each such source that are read.
const FEW: usize = 200;
/// Failing elements whose errors are read; of more, a sample.
const MOST_ASKED: usize = 5_000;
/// Copies of all sources together that an interval is worked out from, and of each source: of
/// all of them so many, but of one not fewer than the last.
const MOST_CHOSEN: usize = 300;
const MOST_OF_SOURCES: usize = 3_000;
const LEAST_CHOSEN: usize = 10;
/// Polls of each of them that are read.
const LATEST_POLLS: usize = 20;
/// Polls of today that are counted.
const MOST_COUNTED: usize = 1_000_000;

/// How it stands with a project.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// How fresh its copies are.
    pub freshness: Freshness,
    /// How old they are.
    pub age_seconds: Age,
    /// What may be spent.
    pub budget: BudgetUse,
    /// Elements that are there: not gone.
    pub n_elements: u64,
    /// Sources.
    pub n_sources: usize,
    /// Polls, whatever came of them.
    pub n_polls: u64,
    /// Changes found.
    pub n_changes: u64,
    /// How long ago the last poll of the element was that has waited longest.
    pub oldest_poll_age_seconds: Option<f64>,
    /// How many elements are in which state.
    pub states: States,
    /// What is wrong with elements, the most frequent first.
    pub errors: Vec<ErrorCount>,
    /// How much it takes on the disk, if that could be told.
    pub disk: Option<Disk>,
    /// The same for each source.
    pub sources: Vec<SourceStatus>,
}

/// How much a project takes on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// The facts.
    pub store_bytes: u64,
    /// Bodies, and where they are.
    pub bodies_bytes: u64,
    /// Copies of tables.
    pub copies_bytes: u64,
}

/// How it stands with a source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceStatus {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// Whether it is in the settings. If not, it is kept and not polled.
    pub is_in_file: bool,
    /// Whether it is not polled for now, by the settings.
    pub is_paused: bool,
    /// What is wrong with the source itself, if anything.
    pub error: Option<ErrorView>,
    /// When one of its elements is polled next.
    #[serde(serialize_with = "super::serialize_moment")]
    pub next_poll_at: Option<Moment>,
    /// How fresh its copies are.
    pub freshness: Freshness,
    /// How old they are.
    pub age_seconds: Age,
    /// Elements that are there: not gone.
    pub n_elements: u64,
    /// Polls, whatever came of them.
    pub n_polls: u64,
    /// Changes found.
    pub n_changes: u64,
    /// How long ago the last poll of the element was that has waited longest.
    pub oldest_poll_age_seconds: Option<f64>,
    /// How many elements are in which state.
    pub states: States,
    /// What is wrong with elements, the most frequent first.
    pub errors: Vec<ErrorCount>,
}

/// The share of copies that are fresh: every element counts the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Freshness {
    /// As audit polls have shown since some moment, with a 90 % interval.
    pub measured: Option<f64>,
    /// The lower end of that interval.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// When the first of these audit polls was.
    #[serde(serialize_with = "super::serialize_moment")]
    pub since: Option<Moment>,
    /// As it is believed to be now, with a 90 % interval; nothing while no element was
    /// polled twice.
    pub predicted: Option<f64>,
    /// The lower end of that interval.
    pub predicted_low: Option<f64>,
    /// Its upper end.
    pub predicted_high: Option<f64>,
    /// Audit polls that measured it; for tables.
    #[serde(skip)]
    pub n_audits: u64,
}

/// The mean age of copies: for how long they have been stale, 0 if they are fresh.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Age {
    /// As audit polls have shown, where elements say when they changed.
    pub measured: Option<f64>,
    /// As it is believed to be now.
    pub predicted: Option<f64>,
}

/// What may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BudgetUse {
    /// Polls a day.
    pub per_day: f64,
    /// Polls that counted since midnight, UTC.
    pub used_today: u64,
    /// What a poll must be worth to be made, if the policy goes by that.
    pub price: Option<f64>,
    /// Polls a day that it falls short of what the freshness and the age that are wanted
    /// take in the long run; nothing if none is wanted, if no budget is enough, or while
    /// nothing is known.
    pub short_per_day: Option<f64>,
}

/// Elements with the same kind of error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// Which kind.
    pub kind: String,
    /// How many.
    pub n: u64,
    /// One of them, and what is said of it.
    pub example: String,
}

/// What is predicted of the copies held now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predicted {
    /// The share that is fresh.
    pub freshness: PredictedFreshness,
    /// The mean age.
    pub age: Span,
}

/// How it stands with a project now. Freshness and age are measured by the audit polls
/// from `since` on; without it by those of the last day, or of as many days as it takes to
/// have enough.
///
/// # Errors
/// If the store cannot be read.
pub fn status(
    store: &dyn Reader,
    settings: &Settings,
    sources: &[Source],
    since: Option<Moment>,
    now: Moment,
) -> Result<Status, Error> {
    let audits = match since {
        Some(since) => store.audits(since)?,
        None => latest_audits(store, now)?,
    };
    let look = Survey::new(store, settings, sources, now)?;
    let mut errors = look.errors(store)?;
    let mut copies: HashMap<SourceId, Vec<&OurCopy>> = HashMap::new();
    for ours in &look.copies {
        copies.entry(ours.source).or_default().push(ours);
    }
    let most = (MOST_OF_SOURCES / sources.len().max(1)).clamp(LEAST_CHOSEN, MOST_CHOSEN);
    let parts = sources
        .iter()
        .map(|source| {
            let own = audits.iter().filter(|audit| audit.source == source.id);
            let copies = copies.remove(&source.id).unwrap_or_default();
            let predicted = predict(store, &copies, most)?;
            let found = look.found.get(&source.id).copied().unwrap_or_default();
            Ok(SourceStatus {
                name: source.name.clone(),
                url: redacted(&source.url).into_owned(),
                is_in_file: is_in_settings(source, settings),
                is_paused: is_paused(source, settings),
                error: source.error.as_ref().map(ErrorView::new),
                next_poll_at: found.next_poll_at,
                freshness: Freshness::new(own.clone(), predicted),
                age_seconds: Age::new(own, predicted),
                n_elements: source.totals.n_elements,
                n_polls: source.totals.n_polls,
                n_changes: source.totals.n_changes,
                oldest_poll_age_seconds: found.oldest.map(|oldest| seconds_between(oldest, now)),
                states: States::from(source.totals),
                errors: errors.remove(&source.id).unwrap_or_default(),
            })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let predicted = predict_all(store, &look)?;
    let oldest = look.found.values().filter_map(|found| found.oldest).min();
    let total = |of: fn(&Totals) -> u64| sources.iter().map(|source| of(&source.totals)).sum();
    let price = look
        .price
        .filter(|_| matches!(settings.policy.name, PolicyName::Learned));
    Ok(Status {
        freshness: Freshness::new(audits.iter(), predicted),
        age_seconds: Age::new(audits.iter(), predicted),
        budget: BudgetUse {
            per_day: settings.budget.per_day,
            used_today: used_today(store, settings, now)?,
            price,
            short_per_day: None,
        },
        n_elements: total(|totals| totals.n_elements),
        n_sources: sources.len(),
        n_polls: total(|totals| totals.n_polls),
        n_changes: total(|totals| totals.n_changes),
        oldest_poll_age_seconds: oldest.map(|oldest| seconds_between(oldest, now)),
        states: States::of(sources),
        errors: all_errors(&parts),
        disk: None,
        sources: parts,
    })
}

/// What is predicted of the copies held now: the same as in [`status`].
///
/// # Errors
/// If the store cannot be read.
pub fn predicted(
    store: &dyn Reader,
    settings: &Settings,
    sources: &[Source],
    now: Moment,
) -> Result<Option<Predicted>, Error> {
    let look = Survey::new(store, settings, sources, now)?;
    predict_all(store, &look)
}

/// How long one poll of every element takes, if that is longer than `max_interval`, so
/// that all are polled equally often.
pub fn round_beyond_max_interval(settings: &Settings, n_elements: u64) -> Option<Span> {
    let longest = settings.policy.max_interval?;
    let round = Span::days(n_elements as f64 / settings.budget.per_day).ok()?;
    (round > longest).then_some(round)
}

fn latest_audits(store: &dyn Reader, now: Moment) -> Result<Vec<Audit>, Error> {
    let mut audits = Vec::new();
    for days in DAYS_BACK {
        audits = store.audits(Moment(now.0 - days * MS_PER_DAY))?;
        if audits.len() >= ENOUGH_AUDITS {
            break;
        }
    }
    Ok(audits)
}

fn used_today(store: &dyn Reader, settings: &Settings, now: Moment) -> Result<u64, Error> {
    let midnight = Moment(now.0.div_euclid(MS_PER_DAY) * MS_PER_DAY);
    // No day has more polls than this, unless the budget was larger this morning.
    let most = (settings.budget.per_day * 2.0 + 1000.0).min(MOST_COUNTED as f64) as usize;
    let latest = store.latest_polls(most)?;
    Ok(latest
        .iter()
        .take_while(|&&begun| begun >= midnight)
        .count() as u64)
}

impl Freshness {
    fn new<'a>(audits: impl Iterator<Item = &'a Audit>, predicted: Option<Predicted>) -> Self {
        let (mut n_audits, mut n_fresh, mut since) = (0, 0, None::<Moment>);
        for audit in audits {
            n_audits += 1;
            n_fresh += u64::from(audit.is_fresh);
            since = Some(since.map_or(audit.at, |since| since.min(audit.at)));
        }
        let interval = share_interval(n_fresh, n_audits, CONFIDENCE);
        let interval = interval.ok().filter(|_| n_audits > 0);
        let predicted = predicted.map(|predicted| predicted.freshness);
        Self {
            measured: (n_audits > 0).then(|| n_fresh as f64 / n_audits as f64),
            low: interval.map(|interval| interval.0),
            high: interval.map(|interval| interval.1),
            since,
            predicted: predicted.map(|predicted| predicted.share),
            predicted_low: predicted.map(|predicted| predicted.low),
            predicted_high: predicted.map(|predicted| predicted.high),
            n_audits,
        }
    }
}

impl Age {
    /// Measured if anybody says when elements change, and every stale copy's age is
    /// known.
    fn new<'a>(audits: impl Iterator<Item = &'a Audit>, predicted: Option<Predicted>) -> Self {
        let (mut n, mut sum, mut is_known) = (0_u64, Some(0.0), false);
        for audit in audits {
            n += 1;
            is_known |= audit.age_ms.is_some();
            let age_ms = audit.age_ms.or_else(|| audit.is_fresh.then_some(0));
            sum = sum.zip(age_ms).map(|(sum, ms)| sum + ms as f64 / 1000.0);
        }
        Self {
            measured: sum.filter(|_| is_known).map(|sum| sum / n as f64),
            predicted: predicted.map(|predicted| predicted.age.as_days() * SECONDS_PER_DAY),
        }
    }
}

/// A copy that is held.
struct OurCopy {
    element: ElementId,
    source: SourceId,
    is_known: bool,
    age: f64,
    copy: HeldCopy,
}

fn predict_all(store: &dyn Reader, look: &Survey) -> Result<Option<Predicted>, Error> {
    let copies: Vec<&OurCopy> = look.copies.iter().collect();
    predict(store, &copies, MOST_CHOSEN)
}

/// What is predicted of some copies, unless nothing is known of any; the interval, from
/// `most` of them.
fn predict(
    store: &dyn Reader,
    copies: &[&OurCopy],
    most: usize,
) -> Result<Option<Predicted>, Error> {
    let n = |copies: &mut dyn Iterator<Item = &HeldCopy>| copies.map(|copy| copy.n_alike).sum();
    let n_all: f64 = n(&mut copies.iter().map(|ours| &ours.copy));
    let age = copies.iter().map(|ours| ours.copy.n_alike * ours.age);
    let age = Span::days(age.sum::<f64>() / n_all);
    let share = mean_fresh(copies.iter().map(|ours| &ours.copy));
    let is_known = copies.iter().any(|ours| ours.is_known);
    let (Some(share), Ok(age), true) = (share, age, is_known) else {
        return Ok(None);
    };
    let step = copies.len().div_ceil(most).max(1);
    let mut chosen = copies
        .iter()
        .step_by(step)
        .map(|ours| ours.with_polls(store))
        .collect::<Result<Vec<_>, Error>>()?;
    let n_chosen: f64 = n(&mut chosen.iter());
    for copy in &mut chosen {
        copy.n_alike *= n_all / n_chosen;
    }
    let freshness = freshness_now(&chosen, share);
    Ok(Some(Predicted { freshness, age }))
}

impl OurCopy {
    /// The copy with the latest polls of its element, if they say more than their number.
    fn with_polls(&self, store: &dyn Reader) -> Result<HeldCopy, Error> {
        let mut copy = self.copy.clone();
        if copy.is_mixed() {
            for poll in store.polls(self.element, LATEST_POLLS)? {
                let changed = match poll.outcome {
                    PollOutcome::Unchanged => false,
                    PollOutcome::Changed => true,
                    _ => continue,
                };
                copy.polls.extend(poll.since.map(|since| PastPoll {
                    interval: clock::time(poll.at).since(clock::time(since)),
                    changed,
                }));
            }
        }
        Ok(copy)
    }
}

/// What looking at elements has shown.
struct Survey {
    copies: Vec<OurCopy>,
    found: HashMap<SourceId, SourceSurvey>,
    /// Those with something wrong, as far as their states tell.
    wrong: Vec<ElementId>,
    /// How many elements each that was looked at stands for.
    stride: u64,
    price: Option<f64>,
}

/// What looking at the elements of a source has shown.
#[derive(Debug, Clone, Copy, Default)]
struct SourceSurvey {
    n: u64,
    oldest: Option<Moment>,
    next_poll_at: Option<Moment>,
}

impl Survey {
    fn new(
        store: &dyn Reader,
        settings: &Settings,
        sources: &[Source],
        now: Moment,
    ) -> Result<Self, Error> {
        let mut beliefs = Beliefs::new(store, settings, now)?;
        let n_elements = u64::from(store.next_element()?);
        let stride = n_elements.div_ceil(MOST_SCANNED).max(1);
        let mut looked: Vec<(ElementId, Brief)> = Vec::new();
        store.scan(stride as usize, &mut |id, brief| looked.push((id, *brief)))?;
        let met: HashSet<SourceId> = looked.iter().map(|(_, brief)| brief.source).collect();
        let missed = sources
            .iter()
            .filter(|source| source.totals.n_elements > 0 && !met.contains(&source.id));
        for source in missed.take(MOST_MISSED) {
            let page = store.elements(Some(source.id), ElementId(0), FEW)?;
            looked.extend(page.iter().map(|kept| (kept.element.id, kept.brief())));
        }
        // Nothing is believed of an element without an answer.
        let answered = looked
            .iter()
            .filter(|(_, brief)| brief.history.synced_at.is_some());
        beliefs.prepare(store, answered.map(|(_, brief)| brief.group))?;

        let held: Vec<Option<Held>> = looked
            .iter()
            .map(|(_, brief)| beliefs.of(BeliefInput::from(brief)))
            .collect();
        let due = held.iter().zip(&looked);
        let due = due.filter_map(|(held, (id, _))| Some((held.as_ref()?.due?, *id)));
        let pace = pace(store, settings, now)?;
        let share = 1.0 / stride as f64;
        let due = DueTimes::new(due.collect(), share, &pace, settings, now);

        let mut look = Self {
            copies: Vec::new(),
            found: HashMap::new(),
            wrong: Vec::new(),
            stride,
            price: beliefs.price(),
        };
        for (held, (id, brief)) in held.iter().zip(&looked) {
            let found = look.found.entry(brief.source).or_default();
            let next = held.and_then(|_| due.of(*id));
            found.next_poll_at = [found.next_poll_at, next].into_iter().flatten().min();
            if brief.role == Role::Listing {
                continue;
            }
            let is_new_row = brief.state == State::New && beliefs.is_search(brief.source);
            if is_new_row || !matches!(brief.state, State::New | State::Ok) {
                look.wrong.push(*id);
            }
            if brief.state == State::Gone {
                continue;
            }
            found.n += 1;
            let polled_at = brief.history.polled_at;
            found.oldest = [found.oldest, polled_at].into_iter().flatten().min();
            look.copies.extend(held.map(|held| OurCopy {
                element: *id,
                source: brief.source,
                is_known: held.told.is_known,
                age: held.told.age().as_days(),
                copy: held.copy(&brief.history, 1.0),
            }));
        }
        if stride > 1 {
            // What was looked at stands for all of its source.
            let totals: HashMap<SourceId, u64> = sources
                .iter()
                .map(|source| (source.id, source.totals.n_elements))
                .collect();
            for ours in &mut look.copies {
                let n = look
                    .found
                    .get(&ours.source)
                    .map_or(1, |found| found.n.max(1));
                let total = totals.get(&ours.source).copied().unwrap_or(n).max(n);
                ours.copy.n_alike = total as f64 / n as f64;
            }
        }
        Ok(look)
    }

    /// What is wrong with the elements of each source.
    fn errors(&self, store: &dyn Reader) -> Result<HashMap<SourceId, Vec<ErrorCount>>, Error> {
        let step = self.wrong.len().div_ceil(MOST_ASKED).max(1);
        let n_alike = self.stride * step as u64;
        let mut counts: BTreeMap<(SourceId, String), ErrorCount> = BTreeMap::new();
        for &id in self.wrong.iter().step_by(step) {
            let Some(kept) = store.element(id)? else {
                continue;
            };
            let Some(failure) = &kept.failure else {
                continue;
            };
            let error = ErrorView::new(failure);
            let count = counts
                .entry((kept.element.source, error.kind.clone()))
                .or_insert_with(|| ErrorCount {
                    kind: error.kind,
                    n: 0,
                    example: format!("{}: {}", redacted(&kept.element.locator), error.message),
                });
            count.n += n_alike;
        }
        let mut errors: HashMap<SourceId, Vec<ErrorCount>> = HashMap::new();
        for ((source, _), count) in counts {
            errors.entry(source).or_default().push(count);
        }
        for errors in errors.values_mut() {
            errors.sort_by_key(|count| std::cmp::Reverse(count.n));
        }
        Ok(errors)
    }
}

/// The errors of all sources together.
fn all_errors(sources: &[SourceStatus]) -> Vec<ErrorCount> {
    let mut counts: BTreeMap<&str, ErrorCount> = BTreeMap::new();
    for count in sources.iter().flat_map(|source| &source.errors) {
        match counts.get_mut(&*count.kind) {
            Some(all) => all.n += count.n,
            None => {
                counts.insert(&count.kind, count.clone());
            }
        }
    }
    let mut counts: Vec<ErrorCount> = counts.into_values().collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.n));
    counts
}
