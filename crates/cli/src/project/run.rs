//! `springtide run` and `springtide poll`: what the engine does, told as it happens.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use springtide_engine::settings::{FirstPass, Settings};
use springtide_engine::{EndReason, Ended, Handle, PausedHost, RunOptions, RunScope};
use springtide_store::{ElementId, Moment, Source, State, Walk};

use super::screen::{Form, Screen, say_note};
use super::{PER_PAGE, Project, element_named};
use crate::args::project::{LogForm, Poll, Run};
use crate::config::{Config, DEFAULT_BUDGET};
use crate::failure::{Code, Failure, Outcome};
use crate::json::print_json;
use crate::live;
use crate::moment::{self, relative, time_of_day};
use crate::signals::Signals;
use crate::table::shorten_to;
use crate::talk::{Talk, count, plural};

pub(crate) fn run(args: &Run, project: &Project, talk: Talk, signals: &Signals) -> Outcome<()> {
    let mut config = project.config(&args.settings, talk)?;
    let begun = Instant::now();
    let span = args.span.map(|span| span.0.as_days() * 86_400.0);
    // Longer than anyone waits is for good.
    let span = span.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let mut terms = opening_lines(&config, talk);
    let reloaded = Reloaded::default();
    if args.service {
        reloaded.listen(args, project, talk, signals);
    }
    let mut sum: Option<Ended> = None;
    loop {
        let n_polls = sum.as_ref().map_or(0, |sum| sum.n_polls);
        let options = RunOptions {
            span: span.map(|span| span.saturating_sub(begun.elapsed())),
            max_polls: args.max_polls.map(|most| most.saturating_sub(n_polls)),
            scope: if args.once {
                RunScope::DueNow
            } else {
                RunScope::Everything
            },
        };
        let report = ReportOptions {
            form: Form::of(args.log, talk),
            talk,
            opening_lines: terms,
        };
        let (mut ended, is_read) = keep_fresh(
            project,
            config,
            options,
            signals,
            report,
            Some(&reloaded),
            &|_| {},
        )?;
        if let Some(sum) = &sum {
            ended.n_polls += sum.n_polls;
            ended.n_changes += sum.n_changes;
            ended.n_failed += sum.n_failed;
        }
        if let (EndReason::Stopped, Some(new)) = (ended.why, reloaded.take()) {
            config = new;
            terms = vec!["springtide.toml was read again".to_owned()];
            sum = Some(ended);
            continue;
        }
        if args.service
            && ended.why == EndReason::Stopped
            && signals.received() == Some(Code::Terminated)
        {
            // Whoever runs services stops them so, and takes any other code for a failure.
            ended.why = EndReason::Done;
            ended.failed_sources.clear();
        }
        return conclude(&ended, args.json, signals, talk.of_log(args.log), is_read);
    }
}

/// A configuration that was read anew while a run goes on: whole, or not at all.
#[derive(Clone, Default)]
pub(super) struct Reloaded {
    shared: Arc<Mutex<Reload>>,
}

#[derive(Default)]
struct Reload {
    /// What the next run goes by.
    config: Option<Config>,
    /// The present one.
    run: Option<Present>,
}

/// What a run goes by, for all who show it.
pub(super) type SharedSettings = Arc<Mutex<Settings>>;

/// A run, and what it goes by.
struct Present {
    handle: Handle,
    settings: SharedSettings,
}

impl Present {
    /// Takes in other settings, if that can be done while it goes on: with many elements it
    /// takes a while to begin anew. What only others go by, such as targets and notices, is
    /// not in them.
    fn amend(&self, new: &Settings) -> bool {
        let per_day = new.budget.per_day;
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = settings.budget.per_day != per_day;
        settings.budget.per_day = per_day;
        *settings == *new && (!is_other || self.handle.set_budget(per_day).is_ok())
    }
}

impl Reloaded {
    /// Reads the file again at every hangup. One that cannot be used changes nothing, and
    /// is told.
    fn listen(&self, args: &Run, project: &Project, talk: Talk, signals: &Signals) {
        let (ours, project, flags) = (self.clone(), project.clone(), args.settings.clone());
        let is_json = args.log == Some(LogForm::Json);
        signals.on_hangup(move || {
            let read = project.config(&flags, Talk::Quiet);
            let read = read.and_then(|config| config.check_secrets().map(|()| config));
            match read {
                Ok(config) => ours.offer(config),
                Err(failure) if is_json => say_note(&failure.in_a_line()),
                Err(failure) => talk.say(format!("{failure}\nspringtide.toml was not read again")),
            }
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Reload> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is another configuration: the run that goes by the old one ends.
    pub(super) fn offer(&self, config: Config) {
        let mut state = self.lock();
        state.config = Some(config);
        state.run.iter().for_each(|run| run.handle.stop());
    }

    /// The same for one that was changed here: what the run can take in, it takes in, and goes
    /// on.
    pub(super) fn offer_changed(&self, config: Config) {
        let mut state = self.lock();
        let is_taken = (state.run.as_ref()).is_some_and(|run| run.amend(&config.settings));
        state.config = Some(config);
        if !is_taken {
            state.run.iter().for_each(|run| run.handle.stop());
        }
    }

    pub(super) fn take(&self) -> Option<Config> {
        self.lock().config.take()
    }

    /// The run that is to go by another configuration when there is one.
    fn of_run(&self, run: Present) {
        let mut state = self.lock();
        if state.config.is_some() {
            // It came in between.
            run.handle.stop();
        }
        state.run = Some(run);
    }
}

pub(crate) fn poll(args: &Poll, project: &Project, talk: Talk, signals: &Signals) -> Outcome<()> {
    let config = project.config(&args.settings, talk)?;
    let state = args.state.map(super::ls::of_name);
    let what = match (args.ids.is_empty(), state) {
        (true, None) => RunScope::DueNow,
        (false, None) => RunScope::These(named(&args.ids, None, project, &config)?),
        (_, Some(state)) => {
            let sources = config.settings.sources.iter();
            let all = sources.map(|source| source.name.clone());
            let names = match args.ids.is_empty() {
                true => all.collect(),
                false => args.ids.clone(),
            };
            let these = named(&names, Some(state), project, &config)?;
            if these.is_empty() {
                talk.say("no element is in that state");
            }
            RunScope::These(these)
        }
    };
    let options = RunOptions {
        span: None,
        max_polls: None,
        scope: what,
    };
    let report = ReportOptions {
        form: Form::of(None, talk),
        talk,
        opening_lines: Vec::new(),
    };
    let (ended, is_read) = keep_fresh(project, config, options, signals, report, None, &|_| {})?;
    if ended.why == EndReason::Budget {
        signals.forget_on_stop();
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
        return Err(silence_if_unread(is_read, failure));
    }
    conclude(&ended, args.json, signals, talk, is_read)
}

/// The elements that are meant: by number, address or the name of their source; only
/// those in a state, if one is named.
fn named(
    ids: &[String],
    state: Option<State>,
    project: &Project,
    config: &Config,
) -> Outcome<Vec<ElementId>> {
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
                if state.is_some() {
                    continue;
                }
                return Err(
                    Failure::input(format!("the source {id} has no elements yet"))
                        .hint("`springtide run` finds its rows or pages, and polls them"),
                );
            }
            let kept = element_named(project, &*store, id)?;
            let source = sources
                .iter()
                .find(|source| source.id == kept.element.source);
            source.map_or(Ok(()), |source| check_in_file(source, config))?;
            if state.is_none_or(|state| kept.state == state) {
                elements.push(kept.element.id);
            }
            continue;
        };
        check_in_file(source, config)?;
        let mut walk = Walk::new(Some(source.id), PER_PAGE);
        while let Some(page) = walk.next(&*store).map_err(refuse)? {
            let meant = page
                .iter()
                .filter(|kept| state.is_none_or(|state| kept.state == state));
            elements.extend(meant.map(|kept| kept.element.id));
        }
    }
    elements.sort_unstable();
    elements.dedup();
    Ok(elements)
}

/// What is kept of a source that is not in the file, or is paused, is not polled.
fn check_in_file(source: &Source, config: &Config) -> Outcome<()> {
    let wanted = &config.settings.sources;
    match wanted.iter().find(|wanted| wanted.name == source.name) {
        Some(wanted) if wanted.is_paused => {
            return Err(Failure::input(format!("cannot poll {}", source.name))
                .cause("the source is paused")
                .hint("take `paused = true` out of springtide.toml"));
        }
        Some(_) => return Ok(()),
        None => {}
    }
    Err(Failure::input(format!("cannot poll {}", source.name))
        .cause("the source is not in springtide.toml; it is kept, and not polled")
        .hint("write it back into the file, or remove what is kept of it with `springtide rm`"))
}

/// What is to be said before it starts.
pub(super) fn opening_lines(config: &Config, talk: Talk) -> Vec<String> {
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

/// How what happens is shown.
pub(super) struct ReportOptions {
    pub(super) form: Form,
    pub(super) talk: Talk,
    /// What is said first.
    pub(super) opening_lines: Vec<String>,
}

/// What came of it, and whether anyone reads what is said.
pub(super) fn keep_fresh(
    project: &Project,
    config: Config,
    options: RunOptions,
    signals: &Signals,
    report: ReportOptions,
    reloaded: Option<&Reloaded>,
    begun: &dyn Fn(&Handle),
) -> Outcome<(Ended, bool)> {
    config.check_secrets()?;
    let (settings, unit) = (config.settings, config.budget_unit);
    let ReportOptions {
        form,
        talk,
        opening_lines,
    } = report;
    let shared = SharedSettings::new(Mutex::new(settings.clone()));
    let mut screen = Screen::new(form, talk, opening_lines, project, &shared, unit);
    let on_begun = |handle: &Handle| {
        begun(handle);
        if let Some(reloaded) = reloaded {
            reloaded.of_run(Present {
                handle: handle.clone(),
                settings: Arc::clone(&shared),
            });
        }
    };
    let mut each = |heard| screen.show(heard);
    let ended = live::run(
        &project.folder,
        settings,
        options,
        signals,
        &on_begun,
        &mut each,
    );
    let is_read = screen.close();
    match ended {
        Ok(ended) => Ok((ended, is_read)),
        Err(failure) => Err(silence_if_unread(is_read, failure)),
    }
}

/// Silences a failure if nobody reads standard error: writing to it would block.
pub(crate) fn silence_if_unread(is_read: bool, failure: Failure) -> Failure {
    match is_read {
        true => failure,
        false => failure.silent(),
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
    /// Hosts that are paused now.
    hosts: Vec<HostLeft<'a>>,
}

#[derive(Serialize)]
struct HostLeft<'a> {
    host: &'a str,
    why: &'a str,
    #[serde(serialize_with = "moment::serialize")]
    until: Option<Moment>,
}

impl<'a> Summary<'a> {
    fn new(ended: &'a Ended) -> Self {
        Self {
            ended: match ended.why {
                EndReason::Stopped => "stopped",
                EndReason::TimeUp => "time-up",
                EndReason::MaxPolls => "max-polls",
                EndReason::Done => "done",
                EndReason::Budget => "budget",
                EndReason::Paused => "hosts",
            },
            n_polls: ended.n_polls,
            n_changes: ended.n_changes,
            n_failed: ended.n_failed,
            failed_sources: &ended.failed_sources,
            hosts: (ended.paused_hosts.iter())
                .map(|paused| HostLeft {
                    host: &paused.host,
                    why: &paused.why,
                    until: Some(paused.until),
                })
                .collect(),
        }
    }
}

/// Hosts that are named to a person.
const MOST_HOSTS: usize = 5;

/// Which hosts were given up on, why, and until when.
fn given_up(paused: &[PausedHost]) -> String {
    let named = paused.iter().take(MOST_HOSTS).map(|paused| {
        let why = shorten_to(&paused.why, 120);
        format!(
            "{}: {why} (next try {})",
            paused.host,
            time_of_day(paused.until)
        )
    });
    let mut lines: Vec<String> = named.collect();
    if paused.len() > MOST_HOSTS {
        lines.push(format!(
            "and {} more",
            plural((paused.len() - MOST_HOSTS) as u64, "host")
        ));
    }
    lines.join("\n         ")
}

/// Says what came of it, and with which code to end.
pub(super) fn conclude(
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
    signals.forget_on_stop();
    if as_json {
        print_json(&Summary::new(ended))?;
    }
    let failed = match ended.n_failed {
        0 => String::new(),
        n => format!("; {} failed", count(n as usize)),
    };
    talk.say(match (ended.n_polls, ended.why) {
        (0, EndReason::Done) => "no polls were made: nothing is due".to_owned(),
        (0, _) => "no polls were made".to_owned(),
        (n_polls, _) => format!(
            "{} found {}{failed}",
            plural(n_polls, "poll"),
            plural(ended.n_changes, "change")
        ),
    });
    if ended.why == EndReason::Budget {
        talk.say("more is due; the budget allows no more polls now");
    }
    if let (EndReason::Stopped, Some(code)) = (ended.why, signals.received()) {
        return Err(Failure::new(code, "stopped").silent());
    }
    if ended.why == EndReason::Paused {
        let n = plural(ended.paused_hosts.len() as u64, "host");
        let failure = Failure::new(
            Code::SomeFailed,
            format!("gave up on {n}; the rest is done"),
        )
        .cause(given_up(&ended.paused_hosts))
        .hint(
            "a later run tries again; `springtide ls --elements --state failing` lists what failed",
        );
        return Err(silence_if_unread(is_read, failure));
    }
    if ended.failed_sources.is_empty() {
        return Ok(());
    }
    let names = shorten_to(&ended.failed_sources.join(", "), 300);
    let failure = Failure::new(Code::SomeFailed, "some sources failed")
        .cause(names)
        .hint("`springtide ls` says why");
    Err(silence_if_unread(is_read, failure))
}
