//! What a run tells while it goes on: to a person at a terminal, with a status line; as
//! lines for a log; or as JSON for a program.

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use springtide_engine::settings::Settings;
use springtide_engine::view::{FieldChange, change_kind_name};
use springtide_engine::{Event, Heard, PausedHost, Polled, view};
use springtide_store::{ChangeKind, FailureKind, Moment, Purpose};

use super::Project;
use super::log::RowFields;
use super::rows::RowFound;
use super::run::SharedSettings;
use crate::args::project::LogForm;
use crate::moment::{self, brief, relative, rfc3339, time_of_day};
use crate::plan::significant;
use crate::table::shorten_to;
use crate::talk::{Speaker, StatusLine, Talk, count, plural, say_always, size};
use crate::units::PaceUnit;
use crate::width;

/// In which form what happens is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// What changed, and a status line.
    Terminal,
    /// A line for each poll.
    Lines,
    /// An object for each event.
    Json,
    /// Not at all.
    None,
}

impl Form {
    /// As it was asked for, or as it suits who reads.
    pub(super) fn of(asked: Option<LogForm>, talk: Talk) -> Self {
        match asked {
            Some(LogForm::Json) => Self::Json,
            _ if talk == Talk::Quiet => Self::None,
            Some(LogForm::Lines) => Self::Lines,
            None if std::io::stderr().is_terminal() => Self::Terminal,
            None => Self::Lines,
        }
    }
}

/// Shows what happens, and holds up neither the engine nor its end.
pub(super) struct Screen {
    speaker: Speaker<Heard>,
    /// Events that had no room since the last that had.
    n_missed: u64,
}

/// How often the status line is written anew.
const TICK: Duration = Duration::from_millis(500);

impl Screen {
    /// These lines come first.
    pub(super) fn new(
        form: Form,
        talk: Talk,
        lines: Vec<String>,
        project: &Project,
        settings: &SharedSettings,
        budget_unit: PaceUnit,
    ) -> Self {
        let watch = (form == Form::Terminal).then(|| StatusWatch::keep(project, settings));
        let going_by = settings.lock().unwrap_or_else(PoisonError::into_inner);
        let of_rows = going_by.sources.iter().filter(|s| s.search.is_some());
        // Without bodies to compare, a change is told all the same.
        let rows = RowFields::of(project, of_rows.map(|source| &source.name)).unwrap_or_default();
        let rows = rows.with_tables(&going_by.sources);
        drop(going_by);
        let speaker = Speaker::new(move |told: Receiver<Heard>| {
            let mut reporter = Reporter::new(form, talk, watch, budget_unit);
            lines.iter().for_each(|line| reporter.note(line));
            loop {
                match told.recv_timeout(TICK) {
                    Ok(told) => reporter.hear(told, &rows),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                reporter.tick();
            }
        });
        Self {
            speaker,
            n_missed: 0,
        }
    }

    pub(super) fn show(&mut self, told: Heard) {
        let n_told = match &told {
            Heard::Event(_) => 1,
            Heard::Missed(n) => *n,
        };
        if self.n_missed > 0 && self.speaker.take(Heard::Missed(self.n_missed)) {
            self.n_missed = 0;
        }
        if self.n_missed > 0 || !self.speaker.take(told) {
            self.n_missed += n_told;
        }
    }

    /// Waits a little for all to be shown. Says whether it was.
    pub(super) fn close(self) -> bool {
        if self.n_missed > 0 {
            // If there is no room for that either, nobody reads it.
            self.speaker.take(Heard::Missed(self.n_missed));
        }
        self.speaker.close()
    }
}

/// Tells what happens.
enum Reporter {
    Terminal(Box<Terminal>),
    Lines,
    Json,
    Nobody,
}

impl Reporter {
    fn new(form: Form, talk: Talk, watch: Option<StatusWatch>, unit: PaceUnit) -> Self {
        match form {
            Form::Terminal => Self::Terminal(Box::new(Terminal::new(talk, watch, unit))),
            Form::Lines => Self::Lines,
            Form::Json => Self::Json,
            Form::None => Self::Nobody,
        }
    }

    /// Something to know that is no event.
    fn note(&mut self, line: &str) {
        match self {
            Self::Terminal(terminal) => terminal.status_line.say(line),
            Self::Lines => say_always(line),
            Self::Json => say_note(line),
            Self::Nobody => {}
        }
    }

    fn hear(&mut self, told: Heard, rows: &RowFields) {
        match (self, told) {
            (Self::Terminal(terminal), Heard::Event(event)) => terminal.tell(event, rows),
            (Self::Terminal(terminal), Heard::Missed(n)) => {
                terminal
                    .status_line
                    .say(format!("… {} not shown", plural(n, "event")));
            }
            (Self::Lines, Heard::Event(event)) => log(&event, rows),
            (Self::Lines, Heard::Missed(n)) => {
                say_always(format!(
                    "{} … {} not shown",
                    stamp(moment::now()),
                    plural(n, "event")
                ));
            }
            (Self::Json, Heard::Event(event)) => say_json(&JsonEvent::of(&event, rows)),
            (Self::Json, Heard::Missed(n)) => {
                let mut missed = JsonEvent::new("missed", moment::now());
                missed.n_events = Some(n);
                say_json(&missed);
            }
            (Self::Nobody, _) => {}
        }
    }

    fn tick(&mut self) {
        if let Self::Terminal(terminal) = self {
            terminal.tick();
        }
    }
}

/// What came of a poll, in a word.
fn outcome(polled: &Polled) -> &'static str {
    match (polled.change, &polled.error) {
        (_, Some((FailureKind::Robots, _))) => "blocked",
        (_, Some(_)) => "failed",
        (Some(kind), None) => change_kind_name(kind),
        // A listing, of which there is no copy to speak of.
        (None, None) if polled.purpose == Purpose::First => "read",
        (None, None) if polled.differs => "differs",
        (None, None) => "unchanged",
    }
}

/// The first pass is over, in a sentence.
fn first_pass(n_elements: u64, n_failing: u64, n_blocked: u64, n_unreached: u64) -> String {
    let out = [
        (n_failing, "failing"),
        (n_blocked, "blocked by robots.txt"),
        (n_unreached, "returned by no query"),
    ];
    let out = out.iter().filter(|(n, _)| *n > 0);
    let out: Vec<String> = out
        .map(|(n, what)| format!("{} {what}", count(*n as usize)))
        .collect();
    match (n_elements, out.is_empty()) {
        (0, _) => "there is nothing to poll: no elements were found".to_owned(),
        (_, true) => "every element has been polled once".to_owned(),
        (n, false) => {
            let n = plural(n, "element");
            format!("the first pass is done: {n}, of them {}", out.join(", "))
        }
    }
}

fn paused_line(paused: &PausedHost) -> String {
    let why = shorten_to(&paused.why, 200);
    format!(
        "{}: {why} (next try {})",
        paused.host,
        time_of_day(paused.until)
    )
}

/// A person at a terminal.
struct Terminal {
    talk: Talk,
    status_line: StatusLine,
    watch: Option<StatusWatch>,
    /// What the budget was given by.
    unit: PaceUnit,
    n_polls: u64,
    n_changes: u64,
    first_pass: FirstPass,
    /// Hosts that are, or were, paused.
    paused_hosts: BTreeMap<String, PausedHost>,
}

impl Terminal {
    fn new(talk: Talk, watch: Option<StatusWatch>, unit: PaceUnit) -> Self {
        Self {
            talk,
            status_line: StatusLine::new(),
            watch,
            unit,
            n_polls: 0,
            n_changes: 0,
            first_pass: FirstPass::default(),
            paused_hosts: BTreeMap::new(),
        }
    }

    fn tell(&mut self, event: Event, rows: &RowFields) {
        match event {
            Event::Started {
                n_elements,
                n_new,
                seconds,
            } => {
                let took = brief(seconds);
                self.status_line.say(match n_elements {
                    0 => format!("ready after {took}; no elements yet"),
                    n => format!("{}, ready after {took}", plural(n, "element")),
                });
                self.first_pass.left(n_new);
            }
            Event::Polled(polled) => self.tell_poll(&polled, rows),
            Event::Asked {
                query,
                page,
                n_results,
                n_ours,
                error,
                ..
            } => {
                self.n_polls += 1;
                let query = shorten_to(&query, 200);
                self.explain(match error {
                    Some((kind, message)) => {
                        format!("{kind:9} {query}: {}", shorten_to(&message, 200))
                    }
                    None => format!(
                        "asked     {query}, page {page}: {n_ours} of {n_results} results are ours"
                    ),
                });
            }
            Event::Found { source, n_elements } => {
                let n = plural(n_elements, "new element");
                self.status_line.say(format!("{source}: {n}"));
            }
            Event::SourceFailed { source, message } | Event::SourceWarned { source, message } => {
                let message = shorten_to(&message, 300);
                self.status_line.say(format!("{source}: {message}"));
            }
            Event::PushOffered { source, offer } => {
                self.explain(format!(
                    "{source}: the hub {} offers to announce changes (WebSub)",
                    offer.hub
                ));
            }
            Event::Paused(paused) => {
                // Once for each host; the status line says the rest.
                match self.paused_hosts.contains_key(&paused.host) {
                    true => self.explain(paused_line(&paused)),
                    false => self.status_line.say(paused_line(&paused)),
                }
                self.paused_hosts.insert(paused.host.clone(), paused);
            }
            Event::FirstPassDone {
                n_elements,
                n_failing,
                n_blocked,
                n_unreached,
            } => {
                self.first_pass.left(0);
                let line = first_pass(n_elements, n_failing, n_blocked, n_unreached);
                self.status_line.say(line);
            }
            Event::Stopping { n_under_way } => {
                if n_under_way > 0 {
                    let n = plural(n_under_way as u64, "poll");
                    self.status_line
                        .say(format!("stopping; waiting for {n} under way"));
                }
            }
        }
    }

    fn tell_poll(&mut self, polled: &Polled, rows: &RowFields) {
        self.first_pass.left(polled.n_new);
        self.n_polls += 1;
        self.n_changes += u64::from(polled.change == Some(ChangeKind::Changed));
        let locator = shorten_to(&polled.locator, 200);
        match (&polled.change, &polled.error) {
            (_, Some((kind, message))) => {
                let message = shorten_to(message, 200);
                self.explain(format!("{kind:9} {locator}: {message}"));
            }
            // Every element is new once.
            (Some(ChangeKind::Added), _) => self.explain(format!("added     {locator}")),
            (Some(kind), _) => {
                let what = shorten_to(&rows.told(polled), 300);
                self.status_line
                    .say(format!("{:9} {what}", change_kind_name(*kind)));
            }
            (None, None) => self.explain(format!("unchanged {locator}")),
        }
    }

    fn explain(&self, line: String) {
        if self.talk == Talk::Verbose {
            self.status_line.say(line);
        }
    }

    fn tick(&mut self) {
        let now = moment::now();
        let seen = self.watch.as_ref().and_then(StatusWatch::seen);
        let mut parts = Vec::new();
        match (self.first_pass.text(Instant::now()), &seen) {
            (Some(text), _) => parts.push(text),
            (None, Some(seen)) => parts.push(match seen.next_poll_at {
                Some(next) if next <= now => "polling".to_owned(),
                Some(next) => format!("next poll {}", relative(next, now)),
                None => "nothing is due".to_owned(),
            }),
            (None, None) => {}
        }
        if let Some(seen) = &seen {
            parts.push(against_budget(seen.used_today, seen.per_day, self.unit));
        }
        parts.push(plural(self.n_changes, "change"));
        if let Some(freshness) = seen.and_then(|seen| seen.freshness) {
            parts.push(format!("{:.0}% fresh", freshness * 100.0));
        }
        let mut text = parts.join(" · ");
        let waiting = self.paused_hosts.values().filter(|host| host.until > now);
        if let Some(waiting) = waiting_for(waiting, width::of_stderr()) {
            // A line of its own, which is not cut where the first one is long.
            text = format!("{text}\n{waiting}");
        }
        self.status_line.set(&text);
    }
}

/// Hosts that are waited for, those that are tried soonest first: each with the reason and the
/// time of its next try, as many as there is room for.
fn waiting_for<'a>(
    paused: impl Iterator<Item = &'a PausedHost>,
    width: Option<usize>,
) -> Option<String> {
    let mut paused: Vec<&PausedHost> = paused.collect();
    paused.sort_by_key(|host| host.until);
    let mut paused = paused.into_iter();
    let told = |host: &PausedHost| {
        let why = shorten_to(brief_reason(&host.why), LONGEST_REASON);
        format!("{} ({why}, {})", host.host, time_of_day(host.until))
    };
    let mut text = format!("waiting for {}", told(paused.next()?));
    while let Some(host) = paused.next() {
        let longer = format!("{text}, {}", told(host));
        let n_after = paused.len();
        let room = if n_after == 0 {
            0
        } else {
            ", and 99 more".len()
        };
        if width.is_some_and(|width| longer.chars().count() + room > width) {
            return Some(format!("{text}, and {} more", count(n_after + 1)));
        }
        text = longer;
    }
    Some(text)
}

/// Characters of a reason on the status line; it was told in full above.
const LONGEST_REASON: usize = 24;

/// Why a host is waited for, without what goes without saying: `refused`, `status 429`.
fn brief_reason(why: &str) -> &str {
    let bare = [
        "unreachable: connection ",
        "unreachable: ",
        "it answered with ",
    ];
    let bare = bare.iter().find_map(|known| why.strip_prefix(known));
    bare.unwrap_or(why)
}

/// What was polled today, against what may be.
fn against_budget(used_today: u64, per_day: f64, unit: PaceUnit) -> String {
    let budget = significant(unit.of(per_day));
    match unit {
        PaceUnit::Day => format!("{} of {budget} polls today", count(used_today as usize)),
        // The sum of a day is not what was said.
        _ => format!(
            "{} today, {budget} {} allowed",
            plural(used_today, "poll"),
            unit.each()
        ),
    }
}

/// How far the first polls of new elements have come, and how long they still take.
#[derive(Default)]
struct FirstPass {
    n_total: u64,
    n_left: u64,
    /// How many were left when, lately.
    lately: VecDeque<(Instant, u64)>,
}

/// First polls of this span of time give their rate.
const RATE_WINDOW: Duration = Duration::from_secs(30);
/// No rate is told before this: the first few polls come all at once.
const MIN_SAMPLE: Duration = Duration::from_secs(2);

impl FirstPass {
    fn left(&mut self, n_left: u64) {
        if n_left > self.n_left {
            // More were found.
            self.n_total += n_left - self.n_left;
            self.lately.clear();
        }
        if n_left != self.n_left {
            self.lately.push_back((Instant::now(), n_left));
        }
        self.n_left = n_left;
        if n_left == 0 {
            *self = Self::default();
        }
    }

    /// How far it is, if it goes on; the time left only while something moves.
    fn text(&mut self, now: Instant) -> Option<String> {
        if self.n_left == 0 {
            return None;
        }
        while (self.lately.front()).is_some_and(|(at, _)| now.duration_since(*at) > RATE_WINDOW) {
            self.lately.pop_front();
        }
        let left = (self.lately.front().zip(self.lately.back()))
            .filter(|((since, first), (_, last))| {
                first > last && now.duration_since(*since) >= MIN_SAMPLE
            })
            .map(|((since, first), (_, last))| {
                let per_second = (first - last) as f64 / now.duration_since(*since).as_secs_f64();
                format!(", {} left", brief(self.n_left as f64 / per_second))
            });
        Some(format!(
            "first polls {} of {}{}",
            count((self.n_total - self.n_left) as usize),
            count(self.n_total as usize),
            left.unwrap_or_default()
        ))
    }
}

/// How things stand, looked at from time to time beside the run.
struct StatusWatch {
    seen: Arc<Mutex<Option<StatusSnapshot>>>,
    /// As long as this is there, someone looks.
    _looks: SyncSender<()>,
}

#[derive(Debug, Clone, Copy)]
struct StatusSnapshot {
    next_poll_at: Option<Moment>,
    used_today: u64,
    per_day: f64,
    freshness: Option<f64>,
}

/// The status is read no more often than this.
const LOOKS: Duration = Duration::from_secs(1);
/// Between two readings, this many times as long passes as the last one took.
const IDLE_FACTOR: u32 = 20;

impl StatusWatch {
    fn keep(project: &Project, settings: &SharedSettings) -> Self {
        let (looks, until) = sync_channel::<()>(0);
        let seen = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&seen);
        let (project, settings) = (project.clone(), Arc::clone(settings));
        std::thread::spawn(move || {
            loop {
                let begun = Instant::now();
                // They may be amended while it runs.
                let settings = settings
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                // A store that cannot be read now is looked at again.
                if let Some(snapshot) = StatusSnapshot::look(&project, &settings) {
                    *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
                }
                let wait = LOOKS.max(begun.elapsed() * IDLE_FACTOR);
                if until.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        });
        Self {
            seen,
            _looks: looks,
        }
    }

    fn seen(&self) -> Option<StatusSnapshot> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StatusSnapshot {
    fn look(project: &Project, settings: &Settings) -> Option<Self> {
        let now = moment::now();
        let store = project.read().ok()?;
        let sources = view::sources(&*store, settings, now).ok()?;
        let status = view::status(&*store, settings, &sources, None, now).ok()?;
        let next = status.sources.iter().filter_map(|part| part.next_poll_at);
        Some(Self {
            next_poll_at: next.min(),
            used_today: status.budget.used_today,
            per_day: status.budget.per_day,
            freshness: status.freshness.measured.or(status.freshness.predicted),
        })
    }
}

/// A time as logs have it.
fn stamp(at: Moment) -> String {
    let text = rfc3339(at);
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// Writes what happened into a log.
fn log(event: &Event, rows: &RowFields) {
    let line = |at: Moment, what: &str, rest: String| {
        say_always(format!("{} {what:9} {rest}", stamp(at)));
    };
    let now = moment::now();
    match event {
        Event::Started {
            n_elements,
            n_new,
            seconds,
        } => line(
            now,
            "started",
            match n_elements {
                0 => format!("no elements yet, ready after {}", brief(*seconds)),
                n => format!(
                    "{}, {} new, ready after {}",
                    plural(*n, "element"),
                    count(*n_new as usize),
                    brief(*seconds)
                ),
            },
        ),
        Event::Polled(polled) => {
            let error = polled
                .error
                .as_ref()
                .map(|(kind, message)| format!(" ({kind}: {})", shorten_to(message, 200)));
            let rest = format!(
                "{} {}{}",
                answer(polled.status, polled.n_bytes, polled.seconds),
                shorten_to(&rows.told(polled), 300),
                error.unwrap_or_default()
            );
            line(polled.at, outcome(polled), rest);
        }
        Event::Asked {
            source,
            query,
            page,
            n_results,
            n_ours,
            at,
            status,
            seconds,
            error,
        } => {
            let (what, came) = match error {
                Some((kind, message)) => {
                    ("failed", format!("{kind}: {}", shorten_to(message, 200)))
                }
                None => ("asked", format!("{n_ours} of {n_results} results are ours")),
            };
            let rest = format!(
                "{} {source}: {}, page {page} ({came})",
                answer(*status, None, *seconds),
                shorten_to(query, 200),
            );
            line(*at, what, rest);
        }
        Event::Found { source, n_elements } => {
            let n = plural(*n_elements, "new element");
            line(now, "found", format!("{source}: {n}"));
        }
        Event::SourceFailed { source, message } | Event::SourceWarned { source, message } => {
            line(
                now,
                "source",
                format!("{source}: {}", shorten_to(message, 300)),
            );
        }
        Event::PushOffered { source, offer } => {
            let hub = shorten_to(offer.hub.as_str(), 200);
            let what = format!("{source}: the hub {hub} offers to announce changes (WebSub)");
            line(now, "hub", what);
        }
        Event::Paused(paused) => {
            let why = shorten_to(&paused.why, 200);
            let until = stamp(paused.until);
            line(
                now,
                "waiting",
                format!("for {}: {why} (next try {until})", paused.host),
            );
        }
        Event::FirstPassDone {
            n_elements,
            n_failing,
            n_blocked,
            n_unreached,
        } => {
            let text = first_pass(*n_elements, *n_failing, *n_blocked, *n_unreached);
            line(now, "done", text);
        }
        Event::Stopping { n_under_way } => {
            let n = plural(*n_under_way as u64, "poll");
            line(now, "stopping", format!("{n} under way"));
        }
    }
}

/// Status, size and duration, one below the other in a log.
fn answer(status: Option<u16>, n_bytes: Option<u64>, seconds: f64) -> String {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    format!(
        "{:>3} {:>7} {:>6}",
        or_none(status.map(|status| status.to_string())),
        or_none(n_bytes.map(size)),
        brief(seconds)
    )
}

/// An event as programs read it. What does not go with its kind is left out.
#[derive(Serialize, Default)]
struct JsonEvent<'a> {
    #[serde(serialize_with = "moment::serialize")]
    at: Option<Moment>,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    polled: Option<JsonPoll<'a>>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    asked: Option<JsonAsked<'a>>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    paused: Option<JsonPaused<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_elements: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_new: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_failing: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_blocked: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_unreached: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_under_way: Option<u64>,
}

#[derive(Serialize)]
struct JsonPoll<'a> {
    element: u32,
    locator: &'a str,
    purpose: &'static str,
    outcome: &'static str,
    status: Option<u16>,
    bytes: Option<u64>,
    duration_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Vec<FieldChange>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<RowFound>>,
    error: Option<JsonError<'a>>,
}

#[derive(Serialize)]
struct JsonAsked<'a> {
    query: &'a str,
    page: u64,
    n_results: usize,
    n_ours: usize,
    status: Option<u16>,
    duration_seconds: f64,
    error: Option<JsonError<'a>>,
}

#[derive(Serialize)]
struct JsonPaused<'a> {
    host: &'a str,
    why: &'a str,
    #[serde(serialize_with = "moment::serialize")]
    until: Option<Moment>,
}

#[derive(Serialize)]
struct JsonError<'a> {
    kind: String,
    message: &'a str,
}

impl<'a> JsonEvent<'a> {
    fn new(event: &'static str, at: Moment) -> Self {
        Self {
            at: Some(at),
            event,
            ..Self::default()
        }
    }

    fn message(mut self, message: &'a str) -> Self {
        self.message = Some(message);
        self
    }

    fn of(event: &'a Event, rows: &RowFields) -> Self {
        let now = moment::now();
        match event {
            Event::Started {
                n_elements, n_new, ..
            } => Self {
                n_elements: Some(*n_elements),
                n_new: Some(*n_new),
                ..Self::new("started", now)
            },
            Event::Polled(polled) => Self {
                source: Some(&polled.source),
                polled: Some(JsonPoll {
                    element: polled.element.0,
                    locator: &polled.locator,
                    purpose: match polled.purpose {
                        Purpose::Due => "due",
                        Purpose::Audit => "audit",
                        Purpose::First => "first",
                        Purpose::Asked => "asked",
                    },
                    outcome: outcome(polled),
                    status: polled.status,
                    bytes: polled.n_bytes,
                    duration_seconds: polled.seconds,
                    fields: rows.of_poll(polled),
                    rows: rows.rows_of(polled),
                    error: polled.error.as_ref().map(JsonError::of),
                }),
                ..Self::new("polled", polled.at)
            },
            Event::Asked {
                source,
                query,
                page,
                n_results,
                n_ours,
                at,
                status,
                seconds,
                error,
            } => Self {
                source: Some(source),
                asked: Some(JsonAsked {
                    query,
                    page: *page,
                    n_results: *n_results,
                    n_ours: *n_ours,
                    status: *status,
                    duration_seconds: *seconds,
                    error: error.as_ref().map(JsonError::of),
                }),
                ..Self::new("asked", *at)
            },
            Event::Found { source, n_elements } => Self {
                source: Some(source),
                n_elements: Some(*n_elements),
                ..Self::new("found", now)
            },
            Event::SourceFailed { source, message } => Self {
                source: Some(source),
                ..Self::new("source-failed", now).message(message)
            },
            Event::SourceWarned { source, message } => Self {
                source: Some(source),
                ..Self::new("source-warned", now).message(message)
            },
            Event::PushOffered { source, offer } => Self {
                source: Some(source),
                ..Self::new("hub", now).message(offer.hub.as_str())
            },
            Event::Paused(paused) => Self {
                paused: Some(JsonPaused {
                    host: &paused.host,
                    why: &paused.why,
                    until: Some(paused.until),
                }),
                ..Self::new("paused", now)
            },
            Event::FirstPassDone {
                n_elements,
                n_failing,
                n_blocked,
                n_unreached,
            } => Self {
                n_elements: Some(*n_elements),
                n_failing: Some(*n_failing),
                n_blocked: Some(*n_blocked),
                n_unreached: Some(*n_unreached),
                ..Self::new("first-pass-done", now)
            },
            Event::Stopping { n_under_way } => Self {
                n_under_way: Some(*n_under_way as u64),
                ..Self::new("stopping", now)
            },
        }
    }
}

impl<'a> JsonError<'a> {
    fn of((kind, message): &'a (springtide_store::FailureKind, String)) -> Self {
        Self {
            kind: kind.to_string(),
            message,
        }
    }
}

/// Something to know that is no event, to a program.
pub(super) fn say_note(line: &str) {
    say_json(&JsonEvent::new("note", moment::now()).message(line));
}

fn say_json(event: &JsonEvent<'_>) {
    // Nothing in it cannot be written.
    if let Ok(line) = serde_json::to_string(event) {
        say_always(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_left_is_shown_when_nothing_moves() {
        let mut pass = FirstPass::default();
        pass.left(100);
        let text = |pass: &mut FirstPass, later: u64| {
            pass.text(Instant::now() + Duration::from_secs(later))
        };
        assert_eq!(text(&mut pass, 1).as_deref(), Some("first polls 0 of 100"));
        pass.left(90);
        assert_eq!(text(&mut pass, 1).as_deref(), Some("first polls 10 of 100"));
        let moving = text(&mut pass, 5).unwrap();
        assert!(moving.starts_with("first polls 10 of 100, ") && moving.ends_with(" left"));
        assert_eq!(
            text(&mut pass, 60).as_deref(),
            Some("first polls 10 of 100")
        );
        pass.left(0);
        assert_eq!(text(&mut pass, 1), None);
    }

    #[test]
    fn polls_are_told_against_the_budget_as_it_was_given() {
        let day = against_budget(41, 2000.0, PaceUnit::Day);
        assert_eq!(day, "41 of 2,000 polls today");
        let hour = against_budget(1, 720.0, PaceUnit::Hour);
        assert_eq!(hour, "1 poll today, 30 an hour allowed");
    }

    #[test]
    fn of_hosts_that_are_waited_for_as_many_are_named_as_there_is_room_for() {
        let host = |n: i64, why: &str| PausedHost {
            host: format!("{n}.example.org"),
            until: Moment(moment::now().0 + n * 60_000),
            why: why.to_owned(),
            is_requested: false,
        };
        let hosts = [
            host(2, "it answered with status 429"),
            host(1, "unreachable: connection refused"),
            host(3, "it did not answer in an earlier run"),
        ];
        let said = |hosts: &[PausedHost], width| {
            let said = waiting_for(hosts.iter(), width).unwrap_or_default();
            // Whatever time it is.
            said.split(", ")
                .filter(|part| !part.ends_with(')'))
                .collect::<Vec<_>>()
                .join(", ")
        };
        assert_eq!(said(&[], None), "");
        let all = "waiting for 1.example.org (refused, 2.example.org (status 429, \
                   3.example.org (it did not answer in an …";
        assert_eq!(said(&hosts, None), all);
        let one = "waiting for 1.example.org (refused, and 2 more";
        assert_eq!(said(&hosts, Some(10)), one);
        for width in 70..200 {
            let said = waiting_for(hosts.iter(), Some(width)).unwrap_or_default();
            assert!(said.chars().count() <= width, "{width}: {said}");
        }
    }

    #[test]
    fn a_first_pass_says_what_it_could_not_poll() {
        assert_eq!(first_pass(3, 0, 0, 0), "every element has been polled once");
        assert_eq!(
            first_pass(1000, 50, 2, 0),
            "the first pass is done: 1,000 elements, of them 50 failing, 2 blocked by robots.txt"
        );
    }
}
