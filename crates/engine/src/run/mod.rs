//! The loop: polls begin as the scheduler, the pace and the hosts allow, and what
//! they find is kept before anything follows from it.
//!
//! One task owns everything. Polls are tasks that ask it for their turns and tell it
//! what they found. Each time round it takes in what they said, gives out turns,
//! keeps all that as one batch, and only then lets anyone go: whatever is asked of
//! the world has been written down before.

mod answered;
mod begin;
mod conclude;
mod listed;
mod open;
mod search;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rand_pcg::Pcg64;
use springtide_policy::agenda::{Pace, retry_in};
use springtide_policy::schedule::Scheduler;
use springtide_policy::{GroupId, Time};
use springtide_store::{ElementId, Fact, Moment, Source, SourceId, Sqlite, Store};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use url::Url;

use crate::blocking::blocking;
use crate::clock::Clock;
use crate::detect::Lens;
use crate::event::Event;
use crate::fail_point::fail_point;
use crate::first_pass::FirstPass;
use crate::hosts::{Hosts, Permit, Turn, Waiting, Who};
use crate::poll::{self, Job, Means, Message};
use crate::register::Places;
use crate::search::Search;
use crate::settings::{Settings, SourceSettings};
use crate::timers::Timers;
use crate::{Ended, Error, Outside, Why, clock, fetch};
use listed::Item;

/// What to do, and until when.
#[derive(Debug, Clone, Default)]
pub struct Until {
    /// For how long.
    pub span: Option<Duration>,
    /// For how many polls.
    pub max_polls: Option<u64>,
    /// What to poll.
    pub what: What,
}

/// What to poll.
#[derive(Debug, Clone, Default)]
pub enum What {
    /// Whatever the policy says, for good.
    #[default]
    Everything,
    /// What is new or due now, and no more.
    DueNow,
    /// These, now.
    These(Vec<ElementId>),
}

/// Whoever asks for a poll that the budget allows before this has passed waits for it.
const WORTH_WAITING: Duration = Duration::from_secs(2);
/// Polls under way when the engine is told to stop are waited for this long.
const GRACE: Duration = Duration::from_secs(10);

/// Keeps the copy of a project fresh until it is stopped, or has done what was asked.
///
/// # Errors
/// If the engine itself cannot go on. What goes wrong with sources is kept and told.
pub async fn run(
    folder: &Path,
    settings: Settings,
    until: Until,
    mut stop: watch::Receiver<bool>,
    events: mpsc::UnboundedSender<Event>,
    outside: Outside,
) -> Result<Ended, Error> {
    let mut engine = Engine::open(folder, settings, until, events, outside)?;
    let ended = engine.turn_until_over(&mut stop).await;
    let closed = engine.close().await;
    let ended = ended?;
    closed?;
    Ok(ended)
}

struct Engine {
    settings: Settings,
    until: Until,
    store: Sqlite,
    means: Means,
    messages: mpsc::UnboundedReceiver<Message>,
    tasks: JoinSet<()>,
    events: mpsc::UnboundedSender<Event>,
    clock: Clock,
    rng: Pcg64,

    scheduler: Scheduler,
    /// Hosts that the scheduler takes to be closed, and until when.
    closed: BTreeMap<GroupId, Time>,
    pace: Pace,
    hosts: Hosts,
    first_pass: FirstPass,
    sources: BTreeMap<SourceId, SourceState>,
    searches: BTreeMap<SourceId, Search>,
    /// The groups that limits of search sources are keyed on.
    search_hosts: BTreeMap<SourceId, GroupId>,
    /// Hosts whose last turn was of someone who is not new.
    is_turn_of_new: BTreeSet<GroupId>,
    /// Hosts that other sources ask.
    shared_hosts: BTreeSet<GroupId>,
    preparations: JoinSet<()>,
    places: Option<Places>,

    /// Facts that wait to be kept, and those that are written once for all of them.
    facts: Vec<Fact>,
    changed_groups: BTreeSet<GroupId>,
    changed_sources: BTreeSet<SourceId>,
    /// Polls that may begin, and answers to those under way, once that is kept.
    launches: Vec<Launch>,
    told: Vec<Event>,
    /// Bodies that nothing names once that is kept.
    obsolete: Vec<springtide_store::BodyId>,

    /// Elements that are looked at at some time, whatever the policy says: out, or
    /// never had.
    timers: Timers,
    /// Those the user asked for.
    asked: VecDeque<ElementId>,
    /// Elements that a listing named, and that are still to be taken in.
    listed: VecDeque<Item>,
    under_way: BTreeSet<ElementId>,
    /// Requests for pages of answers that are under way, or wait for their host.
    n_questions: usize,
    is_turn_of_searches: bool,
    next_element: u32,
    n_polls: u64,
    n_begun: u64,
    n_changes: u64,
    n_failed: u64,
    started_at: Moment,
    deadline: Option<Instant>,
    is_first_pass_over: bool,
    takes_new_turn: bool,
    n_turns: u32,
    why_over: Option<Why>,
}

enum Launch {
    Poll(Box<Job>),
    Robots(GroupId, Url, Option<springtide_store::Robots>),
    Answer(
        tokio::sync::oneshot::Sender<(Permit, GroupId)>,
        Permit,
        GroupId,
    ),
}

struct SourceState {
    source: Source,
    settings: SourceSettings,
    lens: Arc<Lens>,
    /// Its listings, and when they were last polled.
    listings: BTreeMap<ElementId, Moment>,
    /// Polls that showed its Last-Modified to be false, and all that could have.
    n_false_dates: u32,
    n_dates: u32,
    has_sitemaps: bool,
}

/// Elements whose bodies are looked through at the end of a run.
const MOST_TO_LOOK_THROUGH: u32 = 1_000_000;
/// Timers are no finer than this.
const SHORTEST_WAIT: Duration = Duration::from_micros(500);

impl Engine {
    async fn turn_until_over(&mut self, stop: &mut watch::Receiver<bool>) -> Result<Ended, Error> {
        let mut may_be_stopped = true;
        loop {
            let now = self.clock.now();
            if *stop.borrow() {
                self.why_over.get_or_insert(Why::Stopped);
            }
            if self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
            {
                self.why_over.get_or_insert(Why::TimeUp);
            }
            if self.why_over.is_some() {
                break;
            }
            while let Ok(message) = self.messages.try_recv() {
                self.hear(message, now)?;
            }
            self.take_in_listed(now)?;
            self.begin_polls(now)?;
            self.give_turns(now)?;
            self.check_whether_over(now);
            blocking(|| self.keep())?;
            self.launch();
            if self.why_over.is_some() {
                break;
            }
            if !self.listed.is_empty() {
                continue;
            }
            let wait = self.wait_for(now);
            tokio::select! {
                biased;
                // If nobody is left who could say so, it goes on.
                changed = stop.changed(), if may_be_stopped => may_be_stopped = changed.is_ok(),
                message = self.messages.recv() => {
                    if let Some(message) = message {
                        self.hear(message, self.clock.now())?;
                    }
                }
                () = tokio::time::sleep(wait) => {}
            }
            while self.tasks.try_join_next().is_some() {}
            while self.preparations.try_join_next().is_some() {}
        }
        self.finish().await?;
        Ok(self.ended())
    }

    /// Lets those under way end, for a while, and begins nothing more.
    async fn finish(&mut self) -> Result<(), Error> {
        for waiting in self.hosts.send_home() {
            if let Who::Poll(job) = waiting.who {
                if job.page().is_some() {
                    self.drop_page(&job);
                } else {
                    self.under_way.remove(&job.kept.element.id);
                }
            }
        }
        if !self.tasks.is_empty() {
            self.tell(Event::Stopping {
                n_under_way: self.under_way.len() + self.n_questions,
            });
            self.launch();
        }
        let until = Instant::now() + GRACE;
        while !self.tasks.is_empty() {
            tokio::select! {
                joined = self.tasks.join_next() => {
                    if joined.is_none() {
                        break;
                    }
                }
                message = self.messages.recv() => {
                    if let Some(message) = message {
                        self.hear(message, self.clock.now())?;
                        // Nobody gets another turn.
                        drop(self.hosts.send_home());
                    }
                }
                () = tokio::time::sleep_until(until) => {
                    self.tasks.abort_all();
                    break;
                }
            }
        }
        let now = self.clock.now();
        while let Ok(message) = self.messages.try_recv() {
            self.hear(message, now)?;
        }
        drop(self.hosts.send_home());
        self.launches.clear();
        while !self.listed.is_empty() {
            self.take_in_listed(now)?;
            blocking(|| self.keep())?;
        }
        blocking(|| self.keep())?;
        self.launches.clear();
        self.launch();
        Ok(())
    }

    async fn close(mut self) -> Result<(), Error> {
        self.tasks.shutdown().await;
        self.forget_obsolete()?;
        self.store.close()?;
        Ok(())
    }

    /// Removes bodies of listings that have been read and compared, unless anyone else
    /// names them. Of very many elements that is left to `doctor`.
    fn forget_obsolete(&mut self) -> Result<(), Error> {
        let mut obsolete: BTreeSet<_> = self.obsolete.drain(..).collect();
        if obsolete.is_empty() || self.next_element > MOST_TO_LOOK_THROUGH {
            return Ok(());
        }
        self.store.bodies(&mut |body| {
            obsolete.remove(&body);
        })?;
        for body in obsolete {
            self.means.bodies.remove(body)?;
        }
        Ok(())
    }

    fn ended(&self) -> Ended {
        Ended {
            why: self.why_over.unwrap_or(Why::Done),
            n_polls: self.n_polls,
            n_changes: self.n_changes,
            n_failed: self.n_failed,
            failed_sources: self
                .sources
                .values()
                .filter(|state| state.source.error.is_some())
                .map(|state| state.source.name.clone())
                .collect(),
        }
    }

    /// What a poll said.
    fn hear(&mut self, message: Message, now: Moment) -> Result<(), Error> {
        match message {
            Message::Ask(url, who) => {
                let group = self.host_of(&url)?;
                self.hosts.wait(group, Waiting { url, who });
            }
            Message::Ended(group, verdict) => {
                self.hosts.end(group, verdict, now, &mut self.rng);
                self.reopen(group);
            }
            Message::Robots(group, url, robots) => {
                self.hosts.heed(group, robots, now);
                self.note_sitemaps(group, &url);
            }
            Message::Done(done) => self.conclude(*done, now)?,
            Message::Prepared(source, prepared) => self.install(source, prepared)?,
            Message::Broken(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Gives out turns at hosts.
    fn give_turns(&mut self, now: Moment) -> Result<(), Error> {
        let (pace, at) = (&mut self.pace, clock::time(now));
        let searches = &mut self.searches;
        // The budget is spent when a poll leaves, not when it is chosen.
        let turns = self.hosts.turns(now, &mut |job| {
            let mut may_leave = !job.is_counted || pace.next_at(at) <= at;
            if let Some(search) = searches.get_mut(&job.kept.element.source) {
                may_leave = may_leave && search.decisions.may_leave(at);
                if may_leave {
                    search.decisions.left(at);
                }
            }
            if job.is_counted && may_leave {
                pace.spend(1.0, at);
            }
            may_leave
        });
        for turn in turns {
            match turn {
                Turn::FetchRobots(group, url) => {
                    let origin = fetch::origin(&url);
                    let previous = self
                        .hosts
                        .robots(group, &origin)
                        .map(|(robots, _)| robots.clone());
                    self.launches.push(Launch::Robots(group, url, previous));
                }
                Turn::Answer(group, waiting, permit) => match waiting.who {
                    Who::Poll(mut job) => {
                        if permit == Permit::Go {
                            job.begun_at = now;
                            self.launches.push(Launch::Poll(job));
                        } else if permit == Permit::Later {
                            self.come_back_later(*job, group, now);
                        } else {
                            self.conclude(poll::keep_out(*job, permit, now), now)?;
                        }
                        self.reopen(group);
                    }
                    Who::Hop(sender) | Who::Robots(sender) => {
                        self.launches.push(Launch::Answer(sender, permit, group));
                        self.reopen(group);
                    }
                },
            }
        }
        Ok(())
    }

    /// A poll whose host is to be left alone for longer than it is worth waiting.
    fn come_back_later(&mut self, job: Job, group: GroupId, now: Moment) {
        let (id, at) = (job.kept.element.id, clock::time(now));
        self.n_begun = self.n_begun.saturating_sub(1);
        if job.question.is_some() {
            self.request_later(&job, group, now);
        }
        if job.page().is_some() {
            return;
        }
        self.under_way.remove(&id);
        let due = self.hosts.paused_until(group, at) + retry_in(1, &mut self.rng);
        self.try_again(id, due, now);
    }

    /// An element that could not be asked for is due again at a time.
    fn try_again(&mut self, id: ElementId, due: Time, now: Moment) {
        let at = clock::time(now);
        if self.scheduler.belief(id, at).is_some() {
            self.scheduler.put_back(id, due, at);
        } else if let Some(due) = clock::moment_of(due) {
            self.timers.set(id, due);
        }
    }

    /// Lets the scheduler know when a host may be asked again.
    fn reopen(&mut self, group: GroupId) {
        let free_at = self.hosts.free_at(group);
        self.close_host(group, free_at);
        self.first_pass.reopen(group, free_at);
    }

    /// Nothing of a host is chosen before then.
    fn close_host(&mut self, group: GroupId, until: Time) {
        self.closed.insert(group, until);
        self.scheduler.set_open(group, false);
    }

    fn open_hosts(&mut self, now: Time) {
        let scheduler = &mut self.scheduler;
        self.closed.retain(|&group, until| {
            let is_open = *until <= now;
            if is_open {
                scheduler.set_open(group, true);
            }
            !is_open
        });
    }

    fn check_whether_over(&mut self, now: Moment) {
        let is_idle = self.under_way.is_empty() && self.n_questions == 0 && self.listed.is_empty();
        if self
            .until
            .max_polls
            .is_some_and(|most| self.n_polls >= most)
            || is_idle
                && self
                    .until
                    .max_polls
                    .is_some_and(|most| self.n_begun >= most)
        {
            self.why_over = Some(Why::MaxPolls);
        }
        let has_new = self.first_pass.n_left() > 0
            || self
                .searches
                .values()
                .any(|s| s.decisions.has_new(clock::time(now)));
        if !self.is_first_pass_over && !has_new && is_idle {
            self.is_first_pass_over = true;
            let n_unreached = self.n_new_rows();
            self.told.push(Event::FirstPassDone { n_unreached });
        }
        let at = clock::time(now);
        match &self.until.what {
            What::Everything => {}
            What::DueNow if !is_idle => {}
            What::DueNow => {
                let soon = at + clock::span(WORTH_WAITING);
                let is_first_pass_left =
                    self.first_pass.n_left() > 0 || self.has_due_rows(soon, now);
                let is_due = is_first_pass_left
                    || self.scheduler.is_due(clock::time(self.started_at))
                    || self.timers.next().is_some_and(|due| due <= now);
                let is_free = self.is_first_pass_free();
                if !is_due {
                    self.why_over = Some(Why::Done);
                } else if !(is_first_pass_left && is_free)
                    && self.pace.next_at(at) > at + clock::span(WORTH_WAITING)
                {
                    self.why_over = Some(Why::Budget);
                }
            }
            What::These(_) => {
                if is_idle && self.asked.is_empty() {
                    self.why_over = Some(Why::Done);
                } else if is_idle {
                    let soon = at + clock::span(WORTH_WAITING);
                    if self.pace.next_at(at) > soon {
                        self.why_over = Some(Why::Budget);
                    } else if let Err(why) = self.is_worth_waiting(soon, now) {
                        self.why_over = Some(why);
                    }
                }
            }
        }
    }

    /// Keeps everything that was said and decided since the last time, in one batch.
    fn keep(&mut self) -> Result<(), Error> {
        let hosts = self.hosts.take_dirty();
        if self.facts.is_empty() && self.launches.is_empty() && hosts.is_empty() {
            self.flush_events();
            return Ok(());
        }
        self.facts.extend(hosts.into_iter().map(Fact::Host));
        for group in std::mem::take(&mut self.changed_groups) {
            if let Some(memory) = self.scheduler.remember_group(group) {
                self.facts.push(Fact::GroupMemory(group, memory));
            }
        }
        for source in std::mem::take(&mut self.changed_sources) {
            if let Some(state) = self.sources.get(&source) {
                self.facts.push(Fact::Totals(source, state.source.totals));
            }
        }
        let memory = self.scheduler.remember_all();
        self.facts.push(Fact::Note("scheduler", Some(memory)));
        self.facts
            .push(Fact::Note("pace", Some(self.pace.remember())));
        if let Some(memory) = self.remember_searches() {
            self.facts.push(Fact::Note("search", Some(memory)));
        }
        fail_point("before-commit");
        self.store.commit(&self.facts)?;
        fail_point("after-commit");
        self.facts.clear();
        self.flush_events();
        Ok(())
    }

    fn flush_events(&mut self) {
        for event in self.told.drain(..) {
            // Whether anyone listens is not our concern.
            let _ = self.events.send(event);
        }
    }

    fn tell(&mut self, event: Event) {
        self.told.push(event);
    }

    /// Lets those go who may, now that it is written down.
    fn launch(&mut self) {
        fail_point("before-launch");
        // Keeping may have taken a while: gaps are counted from now.
        let now = self.clock.now();
        for launch in self.launches.drain(..) {
            let means = self.means.clone();
            match &launch {
                Launch::Poll(job) => self.hosts.launched(job.host, now),
                Launch::Robots(group, ..) | Launch::Answer(_, Permit::Go, group) => {
                    self.hosts.launched(*group, now);
                }
                Launch::Answer(..) => {}
            }
            match launch {
                Launch::Poll(job) => {
                    self.tasks.spawn(poll::poll(*job, means));
                }
                Launch::Robots(group, url, previous) => {
                    self.tasks
                        .spawn(poll::fetch_robots(group, url, previous, means));
                }
                // Whoever asked may have been ended meanwhile.
                Launch::Answer(sender, permit, group) => drop(sender.send((permit, group))),
            }
        }
    }

    /// How long there is nothing to do, unless someone says something.
    fn wait_for(&mut self, now: Moment) -> Duration {
        let at = clock::time(now);
        let mut wake_at = self.hosts.wake_at(self.pace.next_at(at));
        let mut consider = |time: Time| {
            if time < wake_at {
                wake_at = time;
            }
        };
        if self.has_room() {
            let paced = self.pace.next_at(at);
            consider(self.searches_wake_at(paced, now));
            let mut due = self.scheduler.wake_at();
            for &until in self.closed.values() {
                due = if until < due { until } else { due };
            }
            if let Some(timer) = self.timers.next().map(clock::time)
                && timer < due
            {
                due = timer;
            }
            consider(if due > paced { due } else { paced });
            if self.is_first_pass_free() {
                let opens = self.first_pass.wake_at();
                let window = self.settings.budget.window;
                consider(match window {
                    Some(window) => window.opens_at(if opens > at { opens } else { at }),
                    None => opens,
                });
            }
        }
        let shortest = match self.until.what {
            What::Everything => SHORTEST_WAIT,
            // Whoever is not due is not waited for.
            _ => 10 * SHORTEST_WAIT,
        };
        let mut wait = clock::until(wake_at, now).max(shortest);
        if let Some(deadline) = self.deadline {
            wait = wait.min(deadline.saturating_duration_since(Instant::now()));
        }
        wait
    }
}
