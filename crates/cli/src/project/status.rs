//! `springtide status`: how fresh the copy is now, measured and predicted.

use std::collections::HashMap;

use serde::Serialize;
use springtide_policy::report::share_interval;
use springtide_store::{
    Audit, Brief, ElementId, Moment, Reader, Role, Source, SourceId, State, Totals,
};

use super::log::since;
use super::rows::ErrorRow;
use super::{Project, sources};
use crate::args::SettingFlags;
use crate::args::project::Status;
use crate::columns::{Columns, Side};
use crate::config::{Config, Target};
use crate::failure::{Code, Failure, Outcome};
use crate::json::print_json;
use crate::moment::{self, brief, midnight, relative, rfc3339, seconds_between};
use crate::table::unwritable;
use crate::talk::{Talk, count, plural};
use crate::view::{Seen, View};

/// How sure an interval is.
const CONFIDENCE: f64 = 0.9;
/// So many audit polls are needed for an interval that says something.
const ENOUGH_AUDITS: usize = 100;
/// How far to go back for them, in days: a day if that is enough.
const DAYS_BACK: [i64; 3] = [1, 7, 30];
const MS_PER_DAY: i64 = 86_400_000;
/// Elements that are looked at; of more, some blocks are left out.
const MOST_SCANNED: u64 = 100_000;
/// Sources of which no element was looked at are looked at by themselves, a few elements
/// each.
const MOST_MISSED: usize = 50;
const FEW: usize = 200;
/// Polls of today that are counted.
const MOST_COUNTED: usize = 1_000_000;
/// Sources in the table for a person.
const WORST: usize = 10;

/// What a program wants to know.
#[derive(Serialize)]
struct Document<'a> {
    freshness: Freshness,
    age_seconds: Age,
    budget: Budget,
    n_elements: u64,
    n_sources: usize,
    n_polls: u64,
    n_changes: u64,
    oldest_poll_age_seconds: Option<f64>,
    sources: Vec<Part<'a>>,
}

/// The same for one source.
#[derive(Serialize)]
struct Part<'a> {
    name: &'a str,
    url: &'a str,
    error: Option<ErrorRow<'a>>,
    #[serde(serialize_with = "moment::serialize")]
    next_poll_at: Option<Moment>,
    freshness: Freshness,
    age_seconds: Age,
    n_elements: u64,
    n_polls: u64,
    n_changes: u64,
    oldest_poll_age_seconds: Option<f64>,
    #[serde(skip)]
    totals: Totals,
}

#[derive(Serialize, Clone, Copy)]
struct Freshness {
    measured: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    #[serde(serialize_with = "moment::serialize")]
    since: Option<Moment>,
    predicted: Option<f64>,
    #[serde(skip)]
    n_audits: u64,
}

#[derive(Serialize, Clone, Copy)]
struct Age {
    measured: Option<f64>,
    predicted: Option<f64>,
}

#[derive(Serialize)]
struct Budget {
    per_day: f64,
    used_today: u64,
    price: Option<f64>,
}

pub(crate) fn run(args: &Status, project: &Project, talk: Talk) -> Outcome<()> {
    let now = moment::now();
    let config = project.config(&SettingFlags::default(), talk)?;
    if args.check && !config.target.is_set() {
        return Err(Failure::input("there is no target to check")
            .cause(format!(
                "[target] is not in {}",
                project.folder.join(crate::config::FILE).display()
            ))
            .hint("add [target] with freshness = \"95%\", say"));
    }
    let store = project.read()?;
    let sources = sources(project, &*store, &config)?;
    warn_of_max_interval(&config, &sources, talk);
    let document = gather(args, project, &config, &*store, &sources, now)?;
    if args.json {
        print_json(&document)?;
    } else {
        print(&document, &config, now, talk)?;
    }
    if args.check {
        return check(&document, config.target, args.json, talk);
    }
    Ok(())
}

/// Says so if the budget does not allow what `max_interval` asks for.
fn warn_of_max_interval(config: &Config, sources: &[Source], talk: Talk) {
    let n_elements: u64 = sources.iter().map(|source| source.totals.n_elements).sum();
    let (Some(longest), true) = (config.settings.policy.max_interval, n_elements > 0) else {
        return;
    };
    let round = n_elements as f64 / config.settings.budget.per_day;
    if round > longest.as_days() {
        talk.say(format!(
            "warning: the budget takes {} for one poll of every element, and max_interval is {}; \
             all are polled at the same frequency",
            brief(round * 86_400.0),
            brief(longest.as_days() * 86_400.0)
        ));
    }
}

fn gather<'a>(
    args: &Status,
    project: &Project,
    config: &Config,
    store: &dyn Reader,
    sources: &'a [Source],
    now: Moment,
) -> Outcome<Document<'a>> {
    let refuse = |error| project.refuse(&error);
    let audits = audits(args, store, now).map_err(refuse)??;
    let scanned = Scanned::new(store, config, sources, now).map_err(refuse)?;

    let total = |of: fn(&Totals) -> u64| sources.iter().map(|source| of(&source.totals)).sum();
    let mut all = Sums::default();
    let parts = sources
        .iter()
        .map(|source| {
            let sums = scanned.sums.get(&source.id).copied().unwrap_or_default();
            // What was looked at stands for all of the source.
            all.add(sums.scaled_to(source.totals.n_elements));
            let own = audits.iter().filter(|audit| audit.source == source.id);
            Part {
                name: &source.name,
                url: &source.url,
                error: source.error.as_ref().map(ErrorRow::new),
                next_poll_at: sums.next,
                freshness: freshness(own.clone(), sums.freshness()),
                age_seconds: age(own, sums.age()),
                n_elements: source.totals.n_elements,
                n_polls: source.totals.n_polls,
                n_changes: source.totals.n_changes,
                oldest_poll_age_seconds: sums.oldest.map(|oldest| seconds_between(oldest, now)),
                totals: source.totals,
            }
        })
        .collect();
    let today = midnight(now);
    // No day has more polls than this, unless the budget was larger this morning.
    let most = (config.settings.budget.per_day * 2.0 + 1000.0).min(MOST_COUNTED as f64) as usize;
    let latest = store.latest_polls(most).map_err(refuse)?;
    let used_today = latest.iter().take_while(|&&begun| begun >= today).count();
    Ok(Document {
        freshness: freshness(audits.iter(), all.freshness()),
        age_seconds: age(audits.iter(), all.age()),
        budget: Budget {
            per_day: config.settings.budget.per_day,
            used_today: used_today as u64,
            price: scanned.price,
        },
        n_elements: total(|totals| totals.n_elements),
        n_sources: sources.len(),
        n_polls: total(|totals| totals.n_polls),
        n_changes: total(|totals| totals.n_changes),
        oldest_poll_age_seconds: all.oldest.map(|oldest| seconds_between(oldest, now)),
        sources: parts,
    })
}

/// The audit polls that measure: of the last day, or of as many days as it takes to have
/// enough.
fn audits(
    args: &Status,
    store: &dyn Reader,
    now: Moment,
) -> Result<Outcome<Vec<Audit>>, springtide_store::Error> {
    let since = match since(args.since.as_deref(), now) {
        Ok(since) => since,
        Err(failure) => return Ok(Err(failure)),
    };
    if let Some(since) = since {
        return store.audits(since).map(Ok);
    }
    let mut audits = Vec::new();
    for days in DAYS_BACK {
        audits = store.audits(Moment(now.0 - days * MS_PER_DAY))?;
        if audits.len() >= ENOUGH_AUDITS {
            break;
        }
    }
    Ok(Ok(audits))
}

fn freshness<'a>(audits: impl Iterator<Item = &'a Audit>, predicted: Option<f64>) -> Freshness {
    let (mut n_audits, mut n_fresh, mut since) = (0, 0, None::<Moment>);
    for audit in audits {
        n_audits += 1;
        n_fresh += u64::from(audit.is_fresh);
        since = Some(since.map_or(audit.at, |since| since.min(audit.at)));
    }
    let interval = share_interval(n_fresh, n_audits, CONFIDENCE);
    let interval = interval.ok().filter(|_| n_audits > 0);
    Freshness {
        measured: (n_audits > 0).then(|| n_fresh as f64 / n_audits as f64),
        low: interval.map(|interval| interval.0),
        high: interval.map(|interval| interval.1),
        since,
        predicted,
        n_audits,
    }
}

/// The mean age, if anybody says when elements change, and every stale copy's is known.
fn age<'a>(audits: impl Iterator<Item = &'a Audit>, predicted: Option<f64>) -> Age {
    let (mut n, mut sum, mut is_known) = (0_u64, Some(0.0), false);
    for audit in audits {
        n += 1;
        is_known |= audit.age_ms.is_some();
        let age_ms = audit.age_ms.or_else(|| audit.is_fresh.then_some(0));
        sum = sum.zip(age_ms).map(|(sum, ms)| sum + ms as f64 / 1000.0);
    }
    Age {
        measured: sum.filter(|_| is_known).map(|sum| sum / n as f64),
        predicted,
    }
}

/// What the elements of a source come to.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    n: u64,
    weight: f64,
    freshness: f64,
    age: f64,
    /// Whether anything is predicted of them.
    n_predicted: u64,
    oldest: Option<Moment>,
    next: Option<Moment>,
}

impl Sums {
    fn count(&mut self, seen: Seen<'_>, view: &View) {
        if seen.state == State::Gone {
            return;
        }
        let told = view.of(seen);
        self.next = [self.next, told.due_at].into_iter().flatten().min();
        if seen.role == Role::Listing {
            return;
        }
        self.n += 1;
        let polled_at = seen.history.polled_at;
        self.oldest = [self.oldest, polled_at].into_iter().flatten().min();
        if let Some(freshness) = told.freshness {
            // Every element counts the same, as it does for the audit polls.
            self.n_predicted += 1;
            self.weight += 1.0;
            self.freshness += freshness;
            self.age += told.age_seconds.unwrap_or(f64::NAN);
        }
    }

    /// The sums as they would be of so many elements.
    fn scaled_to(self, n: u64) -> Self {
        if self.n == 0 {
            return self;
        }
        let factor = n as f64 / self.n as f64;
        Self {
            weight: self.weight * factor,
            freshness: self.freshness * factor,
            age: self.age * factor,
            ..self
        }
    }

    fn add(&mut self, other: Self) {
        self.n += other.n;
        self.weight += other.weight;
        self.freshness += other.freshness;
        self.age += other.age;
        self.n_predicted += other.n_predicted;
        self.oldest = [self.oldest, other.oldest].into_iter().flatten().min();
        self.next = [self.next, other.next].into_iter().flatten().min();
    }

    fn freshness(&self) -> Option<f64> {
        let mean = self.freshness / self.weight;
        (self.n_predicted > 0 && mean.is_finite()).then_some(mean)
    }

    fn age(&self) -> Option<f64> {
        let mean = self.age / self.weight;
        (self.n_predicted > 0 && mean.is_finite()).then_some(mean)
    }
}

/// What looking at the elements showed.
struct Scanned {
    sums: HashMap<SourceId, Sums>,
    price: Option<f64>,
}

impl Scanned {
    fn new(
        store: &dyn Reader,
        config: &Config,
        sources: &[Source],
        now: Moment,
    ) -> Result<Self, springtide_store::Error> {
        let mut view = View::new(store, &config.settings, now)?;
        let n_elements = u64::from(store.next_element()?);
        let stride = n_elements.div_ceil(MOST_SCANNED).max(1) as usize;
        let mut briefs: Vec<Brief> = Vec::new();
        store.scan(stride, &mut |_, brief| briefs.push(*brief))?;
        // Nothing is told of an element without an answer.
        let answered = briefs
            .iter()
            .filter(|brief| brief.history.synced_at.is_some());
        let mut groups: Vec<_> = answered.map(|brief| brief.group).collect();
        groups.sort_unstable();
        groups.dedup();
        view.prepare(store, &groups)?;
        let mut sums: HashMap<SourceId, Sums> = HashMap::new();
        for brief in &briefs {
            let sums = sums.entry(brief.source).or_default();
            sums.count(Seen::from(brief), &view);
        }
        let missed = sources
            .iter()
            .filter(|source| !sums.contains_key(&source.id) && source.totals.n_elements > 0)
            .take(MOST_MISSED);
        let missed: Vec<SourceId> = missed.map(|source| source.id).collect();
        for source in missed {
            let page = store.elements(Some(source), ElementId(0), FEW)?;
            let groups: Vec<_> = page.iter().map(|kept| kept.element.group).collect();
            view.prepare(store, &groups)?;
            let sums = sums.entry(source).or_default();
            for kept in &page {
                sums.count(Seen::from(kept), &view);
            }
        }
        Ok(Self {
            sums,
            price: view.price(),
        })
    }
}

/// Against the target: the exit code, and a word about what is near.
fn check(document: &Document<'_>, target: Target, as_json: bool, talk: Talk) -> Outcome<()> {
    let mut missed = Vec::new();
    if let Some(wanted) = target.freshness {
        let freshness = document.freshness;
        match freshness.measured.or(freshness.predicted) {
            Some(is) if is >= wanted => {}
            Some(is) => missed.push(format!(
                "freshness is {}, not {}",
                percent(is),
                percent(wanted)
            )),
            None => missed.push("freshness is not known yet".to_owned()),
        }
    }
    let is = document.age_seconds;
    let is = is.measured.or(is.predicted);
    let seconds = |span: springtide_policy::Span| span.as_days() * 86_400.0;
    if let Some(limit) = target.error_after.map(seconds) {
        match is {
            Some(is) if is <= limit => {}
            Some(is) => missed.push(format!("age is {}, above {}", brief(is), brief(limit))),
            None => missed.push("age is not known yet".to_owned()),
        }
    }
    if let (Some(limit), Some(is)) = (target.warn_after.map(seconds), is)
        && is > limit
    {
        let (is, limit) = (brief(is), brief(limit));
        talk.say(format!("warning: age is {is}, above {limit}"));
    }
    if missed.is_empty() {
        if !as_json {
            talk.say("the target is met");
        }
        return Ok(());
    }
    Err(Failure::new(Code::TargetMissed, "the target is missed")
        .cause(missed.join("; "))
        .hint("raise budget.polls, or lower the target"))
}

fn percent(share: f64) -> String {
    // Two digits more where a whole per cent would round up to all.
    if share > 0.99 && share < 1.0 {
        format!("{:.2}%", share * 100.0)
    } else {
        format!("{:.1}%", share * 100.0)
    }
}

fn print(document: &Document<'_>, config: &Config, now: Moment, talk: Talk) -> Outcome<()> {
    use std::io::Write;
    let mut lines = Vec::new();
    let freshness = document.freshness;
    lines.push(match (freshness.measured, freshness.low, freshness.high) {
        (Some(measured), Some(low), Some(high)) => format!(
            "freshness   {} measured ({} to {}, {} since {})",
            percent(measured),
            percent(low),
            percent(high),
            plural(freshness.n_audits, "audit poll"),
            freshness.since.map(rfc3339).unwrap_or_default(),
        ),
        _ => "freshness   not measured yet".to_owned(),
    });
    if let Some(predicted) = freshness.predicted {
        lines.push(format!("            {} predicted", percent(predicted)));
    }
    let age = document.age_seconds;
    let measured = age.measured.map(|age| format!("{} measured", brief(age)));
    let predicted = age.predicted.map(|age| format!("{} predicted", brief(age)));
    let both: Vec<String> = [measured, predicted].into_iter().flatten().collect();
    if !both.is_empty() {
        lines.push(format!("age         {}", both.join(", ")));
    }
    let budget = &document.budget;
    let assumed = if config.is_budget_assumed {
        " (assumed: no [budget] is set)"
    } else {
        ""
    };
    lines.push(format!(
        "budget      {} polls a day{assumed}, {} used today (UTC)",
        super::ls::per_day(budget.per_day),
        count(budget.used_today as usize)
    ));
    let n_new: u64 = document.sources.iter().map(|part| part.totals.n_new).sum();
    let new = if n_new > 0 {
        format!(", {} of them never polled", count(n_new as usize))
    } else {
        String::new()
    };
    lines.push(format!(
        "elements    {} in {}{new}",
        count(document.n_elements as usize),
        plural(document.n_sources as u64, "source")
    ));
    lines.push(format!(
        "polls       {}, which found {}",
        count(document.n_polls as usize),
        plural(document.n_changes, "change")
    ));
    if let Some(seconds) = document.oldest_poll_age_seconds {
        lines.push(format!("oldest poll {} ago", brief(seconds)));
    }
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{}", lines.join("\n")).and_then(|()| stdout.flush());
    written.map_err(|error| unwritable("standard output", &error))?;
    drop(stdout);

    let mut parts: Vec<&Part<'_>> = document.sources.iter().collect();
    if parts.len() > 1 || parts.iter().any(|part| part.error.is_some()) {
        let known = |part: &Part<'_>| part.freshness.predicted.or(part.freshness.measured);
        // The worst first; what fails is worse than what is stale.
        parts.sort_by(|a, b| {
            let rank = |part: &Part<'_>| (part.error.is_none(), known(part).unwrap_or(2.0));
            let ((a_fine, a), (b_fine, b)) = (rank(a), rank(b));
            a_fine.cmp(&b_fine).then(a.total_cmp(&b))
        });
        let mut columns = Columns::new(&[
            ("source", Side::Left),
            ("measured", Side::Right),
            ("predicted", Side::Right),
            ("elements", Side::Right),
            ("failing", Side::Right),
            ("changes", Side::Right),
            ("next poll", Side::Right),
            ("error", Side::Long),
        ]);
        let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
        for part in parts.iter().take(WORST) {
            let next = part.next_poll_at.map(|next| relative(next, now));
            let error = part.error.as_ref().map(|error| error.message.to_owned());
            columns.push(vec![
                part.name.to_owned(),
                share(part.freshness.measured),
                share(part.freshness.predicted),
                count(part.n_elements as usize),
                count(part.totals.n_failing as usize),
                count(part.n_changes as usize),
                next.unwrap_or_else(|| "-".to_owned()),
                error.unwrap_or_default(),
            ]);
        }
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout).map_err(|error| unwritable("standard output", &error))?;
        drop(stdout);
        columns.print()?;
        if parts.len() > WORST {
            let more = count(parts.len() - WORST);
            talk.say(format!(
                "and {more} more sources; `springtide ls` lists all"
            ));
        }
    }
    Ok(())
}
