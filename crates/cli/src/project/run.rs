//! `springtide run` and `springtide poll`: what the engine does, told as it happens.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use serde::Serialize;
use springtide_engine::settings::FirstPass;
use springtide_engine::{Ended, Event, Polled, Told, Until, What, Why};
use springtide_store::{ElementId, Source};

use super::log::kind_name;
use super::{Project, element_named};
use crate::args::project::{Poll, Run};
use crate::config::{Config, DEFAULT_BUDGET};
use crate::failure::{Code, Failure, Outcome};
use crate::json::print_json;
use crate::live;
use crate::moment::{self, brief, relative};
use crate::signals::Signals;
use crate::table::shorten_to;
use crate::talk::{Progress, Talk, count, plural};

pub(crate) fn run(args: &Run, project: &Project, talk: Talk, signals: &Signals) -> Outcome<()> {
    let config = project.config(&args.settings, talk)?;
    let span = args.span.map(|span| span.0.as_days() * 86_400.0);
    let until = Until {
        // Longer than anyone waits is for good.
        span: span.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        max_polls: args.max_polls,
        what: if args.once {
            What::DueNow
        } else {
            What::Everything
        },
    };
    let terms = terms(&config, talk);
    let (ended, is_read) = keep_fresh(project, config, until, signals, talk, terms)?;
    conclude(&ended, args.json, signals, talk, is_read)
}

pub(crate) fn poll(args: &Poll, project: &Project, talk: Talk, signals: &Signals) -> Outcome<()> {
    let config = project.config(&args.settings, talk)?;
    let what = if args.ids.is_empty() {
        What::DueNow
    } else {
        What::These(named(&args.ids, project, &config)?)
    };
    let until = Until {
        span: None,
        max_polls: None,
        what,
    };
    let (ended, is_read) = keep_fresh(project, config, until, signals, talk, Vec::new())?;
    if ended.why == Why::Budget {
        if args.json {
            print_json(&Summary::new(&ended))?;
        }
        let until = match ended.resumes_at {
            Some(at) => format!("; the next may be made {}", relative(at, moment::now())),
            None => String::new(),
        };
        let failure = Failure::new(Code::BudgetBlocks, "the budget allows no more polls now")
            .cause(format!("{} made{until}", plural(ended.n_polls, "poll")))
            .hint("wait, or raise budget.polls");
        return Err(said_to(is_read, failure));
    }
    conclude(&ended, args.json, signals, talk, is_read)
}

/// The elements that are meant: by number, address or the name of their source.
fn named(ids: &[String], project: &Project, config: &Config) -> Outcome<Vec<ElementId>> {
    let store = project.read()?;
    let refuse = |error| project.refuse(&error);
    let sources = store.sources().map_err(refuse)?;
    let mut elements = Vec::new();
    for id in ids {
        let Some(source) = sources.iter().find(|source| source.name == *id) else {
            if config
                .settings
                .sources
                .iter()
                .any(|source| source.name == *id)
            {
                return Err(
                    Failure::input(format!("the source {id} has no elements yet"))
                        .hint("`springtide run` takes in its rows or pages, and polls them"),
                );
            }
            let kept = element_named(project, &*store, id)?;
            let source = sources
                .iter()
                .find(|source| source.id == kept.element.source);
            source.map_or(Ok(()), |source| check_in_file(source, config))?;
            elements.push(kept.element.id);
            continue;
        };
        check_in_file(source, config)?;
        let mut from = Some(ElementId(0));
        while let Some(start) = from {
            let page = store
                .elements(Some(source.id), start, 1000)
                .map_err(refuse)?;
            from = page
                .last()
                .and_then(|kept| kept.element.id.0.checked_add(1))
                .map(ElementId);
            elements.extend(page.iter().map(|kept| kept.element.id));
        }
    }
    elements.sort_unstable();
    elements.dedup();
    Ok(elements)
}

/// What is kept of a source that is not in the file is not polled.
fn check_in_file(source: &Source, config: &Config) -> Outcome<()> {
    let wanted = &config.settings.sources;
    if wanted.iter().any(|wanted| wanted.name == source.name) {
        return Ok(());
    }
    Err(Failure::input(format!("cannot poll {}", source.name))
        .cause("the source is not in springtide.toml; it is kept, and not polled")
        .hint("write it back into the file, or remove what is kept of it with `springtide rm`"))
}

/// What is to be said before it starts.
fn terms(config: &Config, talk: Talk) -> Vec<String> {
    let mut terms = Vec::new();
    if config.is_budget_assumed {
        terms.push(format!(
            "no budget is set; {DEFAULT_BUDGET}/day is assumed. `budget.polls` in springtide.toml sets it"
        ));
    }
    if config.settings.sources.is_empty() {
        terms.push("there are no sources; add one with `springtide add URL`".to_owned());
    }
    if config.settings.budget.first_pass == FirstPass::Free && talk == Talk::Verbose {
        terms.push("first polls of new elements do not count towards the budget".to_owned());
    }
    terms
}

/// What came of it, and whether anyone reads what is said.
fn keep_fresh(
    project: &Project,
    config: Config,
    until: Until,
    signals: &Signals,
    talk: Talk,
    terms: Vec<String>,
) -> Outcome<(Ended, bool)> {
    config.check_secrets()?;
    let mut lines = Lines {
        talk,
        first_pass: None,
        n_new: 0,
    };
    let mut screen = Screen::new(terms, move |shown| match shown {
        Shown::Line(line) => lines.say(line),
        Shown::Told(heard) => lines.hear(heard),
    });
    let settings = config.settings;
    let ended = live::run(&project.folder, settings, until, signals, &mut |heard| {
        screen.show(heard);
    });
    let is_read = screen.close();
    match ended {
        Ok(ended) => Ok((ended, is_read)),
        Err(failure) => Err(said_to(is_read, failure)),
    }
}

/// Where nobody reads, to say anything would be to wait for ever.
fn said_to(is_read: bool, failure: Failure) -> Failure {
    match is_read {
        true => failure,
        false => failure.silent(),
    }
}

/// Shows what happens on a thread of its own: a terminal that is stopped, or a pipe that
/// nobody reads, holds up neither the engine nor its end.
struct Screen {
    to_thread: SyncSender<Shown>,
    /// Hears of it when the thread has ended.
    ended: Receiver<()>,
    /// Events that had no room since the last that had.
    n_missed: u64,
}

/// Something to show.
enum Shown {
    Line(String),
    Told(Told),
}

/// Events that wait to be shown.
const MOST_TO_SHOW: usize = 1024;
/// How long the last events may take to be shown.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Screen {
    /// These lines come first.
    fn new(lines: Vec<String>, mut show: impl FnMut(Shown) + Send + 'static) -> Self {
        let (to_thread, told) = sync_channel(MOST_TO_SHOW);
        let (end, ended) = sync_channel::<()>(0);
        std::thread::spawn(move || {
            let lines = lines.into_iter().map(Shown::Line);
            lines.chain(told).for_each(&mut show);
            // What it shows last is shown when it is dropped.
            drop(show);
            drop(end);
        });
        Self {
            to_thread,
            ended,
            n_missed: 0,
        }
    }

    fn show(&mut self, told: Told) {
        let n_told = match &told {
            Told::Event(_) => 1,
            Told::Missed(n) => *n,
        };
        let has_room = |shown| self.to_thread.try_send(Shown::Told(shown)).is_ok();
        if self.n_missed > 0 && has_room(Told::Missed(self.n_missed)) {
            self.n_missed = 0;
        }
        if self.n_missed > 0 || !has_room(told) {
            self.n_missed += n_told;
        }
    }

    /// Waits a little for all to be shown. Says whether it was.
    fn close(self) -> bool {
        let Self {
            to_thread,
            ended,
            n_missed,
        } = self;
        if n_missed > 0 {
            // If there is no room for that either, nobody reads it.
            let _ = to_thread.try_send(Shown::Told(Told::Missed(n_missed)));
        }
        drop(to_thread);
        ended.recv_timeout(LAST_WORDS) == Err(RecvTimeoutError::Disconnected)
    }
}

/// Tells what happens, to a person.
struct Lines {
    talk: Talk,
    first_pass: Option<Progress>,
    n_new: u64,
}

impl Lines {
    fn hear(&mut self, heard: Told) {
        match heard {
            Told::Event(event) => self.tell(event),
            Told::Missed(n) => self.say(format!("… {} not shown", plural(n, "event"))),
        }
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::Started {
                n_elements,
                n_new,
                seconds,
            } => {
                let (n, took) = (plural(n_elements, "element"), brief(seconds));
                self.say(format!("{n}, ready after {took}"));
                self.expect_new(n_new);
            }
            Event::Polled(polled) => self.tell_poll(&polled),
            Event::Asked {
                query,
                page,
                n_results,
                n_ours,
                error,
                ..
            } => {
                let query = shorten_to(&query, 200);
                self.explain(match error {
                    Some((kind, message)) => {
                        format!("{kind:8} {query}: {}", shorten_to(&message, 200))
                    }
                    None => format!(
                        "asked    {query}, page {page}: {n_ours} of {n_results} results are ours"
                    ),
                });
            }
            Event::Found { source, n_elements } => {
                let n = plural(n_elements, "new element");
                self.say(format!("{source}: {n}"));
            }
            Event::SourceFailed { source, message } => {
                let message = shorten_to(&message, 300);
                self.say(format!("{source}: {message}"));
            }
            Event::FirstPassDone {
                n_elements,
                n_failing,
                n_blocked,
                n_unreached,
            } => {
                self.first_pass = None;
                let out = [
                    (n_failing, "failing"),
                    (n_blocked, "blocked by robots.txt"),
                    (n_unreached, "returned by no query"),
                ];
                let out = out.iter().filter(|(n, _)| *n > 0);
                let out: Vec<String> = out
                    .map(|(n, what)| format!("{} {what}", count(*n as usize)))
                    .collect();
                self.say(match (n_elements, out.is_empty()) {
                    (0, _) => "there is nothing to poll: no elements were found".to_owned(),
                    (_, true) => "every element has been polled once".to_owned(),
                    (n, false) => {
                        let n = plural(n, "element");
                        format!("the first pass is done: {n}, of them {}", out.join(", "))
                    }
                });
            }
            Event::Stopping { n_under_way } => {
                self.first_pass = None;
                if n_under_way > 0 {
                    self.say(format!("stopping; {n_under_way} polls are under way"));
                }
            }
        }
    }

    fn tell_poll(&mut self, polled: &Polled) {
        if let Some(first_pass) = &self.first_pass {
            first_pass.advance(self.n_new.saturating_sub(polled.n_new) as usize);
            self.n_new = self.n_new.min(polled.n_new);
        } else {
            self.expect_new(polled.n_new);
        }
        let locator = shorten_to(&polled.locator, 200);
        match (&polled.change, &polled.error) {
            (_, Some((kind, message))) => {
                let message = shorten_to(message, 200);
                self.explain(format!("{kind:8} {locator}: {message}"));
            }
            // Every element is new once.
            (Some(springtide_store::ChangeKind::Added), _) => {
                self.explain(format!("added    {locator}"));
            }
            (Some(kind), _) => self.say(format!("{:8} {locator}", kind_name(*kind))),
            (None, None) => self.explain(format!("unchanged {locator}")),
        }
    }

    fn expect_new(&mut self, n_new: u64) {
        if n_new > 0 && self.first_pass.is_none() {
            self.first_pass = Some(self.talk.progress("first polls", Some(n_new)));
            self.n_new = n_new;
        }
    }

    fn say(&self, line: String) {
        match &self.first_pass {
            Some(bar) if self.talk >= Talk::Normal => bar.say(line),
            _ => self.talk.say(line),
        }
    }

    fn explain(&self, line: String) {
        if self.talk == Talk::Verbose {
            self.say(line);
        }
    }
}

/// What a program wants to know of a run.
#[derive(Serialize)]
struct Summary<'a> {
    ended: &'static str,
    n_polls: u64,
    n_changes: u64,
    n_failed: u64,
    failed_sources: &'a [String],
}

impl<'a> Summary<'a> {
    fn new(ended: &'a Ended) -> Self {
        Self {
            ended: match ended.why {
                Why::Stopped => "stopped",
                Why::TimeUp => "time-up",
                Why::MaxPolls => "max-polls",
                Why::Done => "done",
                Why::Budget => "budget",
            },
            n_polls: ended.n_polls,
            n_changes: ended.n_changes,
            n_failed: ended.n_failed,
            failed_sources: &ended.failed_sources,
        }
    }
}

/// Says what came of it, and with which code to end.
fn conclude(
    ended: &Ended,
    as_json: bool,
    signals: &Signals,
    talk: Talk,
    is_read: bool,
) -> Outcome<()> {
    let talk = match is_read {
        true => talk,
        false => Talk::Quiet,
    };
    if as_json {
        print_json(&Summary::new(ended))?;
    }
    let failed = match ended.n_failed {
        0 => String::new(),
        n => format!("; {} failed", count(n as usize)),
    };
    talk.say(format!(
        "{} found {}{failed}",
        plural(ended.n_polls, "poll"),
        plural(ended.n_changes, "change")
    ));
    if ended.why == Why::Budget {
        talk.say("more is due; the budget allows no more polls now");
    }
    if let (Why::Stopped, Some(code)) = (ended.why, signals.received()) {
        return Err(Failure::new(code, "stopped").silent());
    }
    if ended.failed_sources.is_empty() {
        return Ok(());
    }
    let names = shorten_to(&ended.failed_sources.join(", "), 300);
    let failure = Failure::new(Code::SomeFailed, "some sources failed")
        .cause(names)
        .hint("`springtide ls` says why");
    Err(said_to(is_read, failure))
}
