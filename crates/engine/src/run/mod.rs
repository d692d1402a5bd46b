//! The loop: what the agenda asks for is asked, and what is found is kept before
//! anything follows from it.
//!
//! One task owns everything. Polls are tasks that ask it for their turns and tell it
//! what they found. Each time round it takes in what they said, asks the agenda what to
//! do, keeps all that as one batch, and only then lets anyone go: whatever is asked of
//! the world has been written down before.

mod answered;
mod begin;
mod blocks;
mod conclude;
mod digests;
mod entries;
mod listed;
mod listings;
mod open;
mod pauses;
mod search;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rand_pcg::Pcg64;
use springtide_policy::agenda::{Agenda, Ticket};
use springtide_policy::{Budget, GroupId};
use springtide_store::{
    ElementId, Fact, MemoryOf, Moment, Partition, Purpose, Robots, Role, SourceId, SourceKind,
    Totals,
};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use url::Url;

use crate::blocking::blocking;
use crate::clock::Clock;
use crate::detect::Lens;
use crate::event::Event;
use crate::fail_point::fail_point;
use crate::handle::{Command, Controls, Pulse};
use crate::ledger::Ledger;
use crate::new_elements::NewElements;
use crate::poll::{self, Message, PendingPoll, PollContext, RedirectRequest};
use crate::reach::{Reach, Reaches};
use crate::robots_cache::{self, Permit, RobotsCache};
use crate::search::Search;
use crate::settings::{Settings, SourceSettings};
use crate::source::Protocol;
use crate::source::feed::Feed;
use crate::source::listing::Listing;
use crate::source::web::Web;
use crate::source::websub::PushOffer;
use crate::trust::{HintKind, Trust};
use crate::{EndReason, Ended, Error, Outside, clock};
use blocks::TableState;
use entries::Pauses;
use listed::ToAdd;
use listings::FreeListings;
use upkeep::Upkeep;

/// What a run polls, and for how long.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// For how long.
    pub span: Option<Duration>,
    /// For how many polls.
    pub max_polls: Option<u64>,
    /// What to poll.
    pub scope: RunScope,
}

/// What to poll.
#[derive(Debug, Clone, Default)]
pub enum RunScope {
    /// Whatever the policy says, for good.
    #[default]
    Everything,
    /// What is new or due now, and no more.
    DueNow,
    /// These, now.
    These(Vec<ElementId>),
}

/// A poll that the budget allows within this time is waited for.
const WORTH_WAITING: Duration = Duration::from_secs(2);
/// Polls under way when the engine is told to stop are waited for this long.
const GRACE: Duration = Duration::from_secs(10);
/// Timers are no finer than this.
const SHORTEST_WAIT: Duration = Duration::from_micros(500);

/// Keeps the copy of a project fresh until it is stopped, or has done what was asked.
///
/// # Errors
/// If the engine itself cannot go on. What goes wrong with sources is kept and told.
pub async fn run(
    folder: &Path,
    settings: Settings,
    options: RunOptions,
    controls: Controls,
    outside: Outside,
) -> Result<Ended, Error> {
    let Controls {
        mut stop,
        mut commands,
        events,
    } = controls;
    let mut engine = Engine::open(folder, settings, options, events, outside)?;
    let ended = engine.run_loop(&mut stop, &mut commands).await;
    let closed = engine.close().await;
    let ended = ended?;
    closed?;
    Ok(ended)
}

struct Engine {
    settings: Settings,
    options: RunOptions,
    clock: Clock,
    rng: Pcg64,
    progress: Progress,

    /// What to ask for now, and when to wake.
    agenda: Agenda,
    /// The store, and what waits to be kept.
    ledger: Ledger,
    /// What the robots.txt of origins say, and who waits to hear it.
    robots_cache: RobotsCache<Waiter>,
    new_elements: NewElements,
    sources: BTreeMap<SourceId, SourceState>,
    searches: BTreeMap<SourceId, Search>,
    tables: BTreeMap<SourceId, TableState>,
    /// Hosts that sources other than search sources ask.
    shared_hosts: BTreeSet<GroupId>,
    /// What is wrong with hosts that are, or were, left alone.
    host_problems: BTreeMap<GroupId, String>,

    context: PollContext,
    reaches: Reaches,
    messages: mpsc::UnboundedReceiver<Message>,
    tasks: JoinSet<()>,
    preparations: JoinSet<()>,
    /// Those who wait for a turn at a host, besides polls that have not begun.
    tickets: BTreeMap<Ticket, Waiter>,
    next_ticket: u64,
    /// What may begin or go on once all is kept.
    launches: Vec<Launch>,
    /// Elements that a listing named, and that are still to be taken in.
    listed: VecDeque<ToAdd>,
    /// Listings that asked not to be polled again before a time.
    pauses: Pauses,
    /// What evidence has been worth.
    trust: Trust,
    /// First polls of listings that did not count.
    free_listings: FreeListings,
    /// Groups of which the scheduler remembers something new.
    changed_groups: BTreeSet<GroupId>,
    /// What is done beside polling.
    upkeep: Upkeep,

    events: broadcast::Sender<Event>,
    pending_events: Vec<Event>,
    /// Those who want to know when their notes are kept.
    noted: Vec<oneshot::Sender<()>>,
}

/// How far a run has come.
#[derive(Debug, Default)]
struct Progress {
    started_at: Moment,
    deadline: Option<Instant>,
    /// Requests that have begun, and those that are over.
    n_begun: u64,
    n_polls: u64,
    n_changes: u64,
    n_failed: u64,
    /// Robots.txt that are being fetched.
    n_robots: usize,
    is_first_pass_over: bool,
    end_reason: Option<EndReason>,
}

/// Someone who waits: for a turn at a host, or to hear what its robots.txt says.
#[derive(Debug)]
enum Waiter {
    /// A poll that has not begun.
    Poll(springtide_policy::agenda::Poll),
    /// A poll under way that was sent on, or the fetch of a robots.txt that was.
    Hop(GroupId, RedirectRequest),
    /// The fetch of a robots.txt.
    Robots(GroupId, Reach, Url),
    /// A request to a search source that is at another host than the rest of it.
    Search(Box<PendingPoll>),
}

/// Something that may begin, or go on.
enum Launch {
    Poll(Box<PendingPoll>),
    Robots(GroupId, Reach, Url, Option<Robots>),
    /// What is said to someone under way who asked.
    Grant(oneshot::Sender<(Permit, GroupId)>, Permit, GroupId),
}

struct SourceState {
    settings: SourceSettings,
    reach: Reach,
    protocols: Protocols,
    /// What its Last-Modified has proved to be.
    dates: springtide_policy::estimate::DateTrust,
    /// Who tells of its changes, as has been told.
    push: Option<PushOffer>,
    has_sitemaps: bool,
    /// Listings that are known.
    n_listings: u64,
    /// Rows that a search box has shown, and the fields that none of them had.
    n_rows_seen: usize,
    absent: Vec<String>,
}

/// How the elements of a source are asked, by what they are for.
struct Protocols {
    page: Arc<dyn Protocol>,
    /// A page whose links are followed.
    hub: Arc<dyn Protocol>,
    listing: Arc<dyn Protocol>,
}

/// The most entries of one listing that are read.
const MOST_ENTRIES: usize = 200_000;

impl Protocols {
    fn of(settings: &SourceSettings, max_body: u64) -> Result<Self, Error> {
        let lens = Arc::new(Lens::new(&settings.keep, &settings.drop)?);
        let max_entries = usize::try_from(settings.max_elements).unwrap_or(usize::MAX);
        let listing: Arc<dyn Protocol> = match settings.kind {
            SourceKind::Feed => Arc::new(Feed {
                entries: settings.entries,
                max_entries,
                lens: Arc::clone(&lens),
            }),
            kind => Arc::new(Listing {
                max_entries: max_entries.min(MOST_ENTRIES),
                max_bytes: usize::try_from(max_body).unwrap_or(usize::MAX),
                names_other_hosts: kind == SourceKind::Sitemap,
            }),
        };
        Ok(Self {
            listing,
            page: Arc::new(Web {
                lens: Arc::clone(&lens),
                names_links: false,
            }),
            hub: Arc::new(Web {
                lens,
                names_links: true,
            }),
        })
    }
}

impl SourceState {
    /// How an element of this role is asked.
    fn protocol(&self, role: Role) -> Arc<dyn Protocol> {
        let follows_links = self.settings.kind == SourceKind::Site && !self.has_sitemaps;
        Arc::clone(match role {
            Role::Listing => &self.protocols.listing,
            Role::Hub if follows_links => &self.protocols.hub,
            Role::Hub | Role::Page | Role::Entry => &self.protocols.page,
        })
    }
}

impl Engine {
    async fn run_loop(
        &mut self,
        stop: &mut watch::Receiver<bool>,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Result<Ended, Error> {
        let (mut may_be_stopped, mut accepts_commands) = (true, true);
        loop {
            let now = self.clock.now();
            if *stop.borrow() {
                self.progress.end_reason.get_or_insert(EndReason::Stopped);
            }
            if self
                .progress
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
            {
                self.progress.end_reason.get_or_insert(EndReason::TimeUp);
            }
            if self.progress.end_reason.is_some() {
                break;
            }
            while let Ok(message) = self.messages.try_recv() {
                self.handle_message(message, now)?;
            }
            self.take_in_listed(now)?;
            self.begin_requests(now)?;
            self.check_whether_over(now);
            self.retain()?;
            blocking(|| self.keep())?;
            self.launch();
            // Meanwhile the next are asked.
            blocking(|| self.settle())?;
            self.collect()?;
            if self.progress.end_reason.is_some() {
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
                command = commands.recv(), if accepts_commands => match command {
                    Some(command) => self.handle_command(command)?,
                    None => accepts_commands = false,
                },
                message = self.messages.recv() => {
                    if let Some(message) = message {
                        self.handle_message(message, self.clock.now())?;
                    }
                }
                () = tokio::time::sleep(wait) => {}
            }
            while self.tasks.try_join_next().is_some() {}
            while self.preparations.try_join_next().is_some() {}
        }
        self.finish().await?;
        self.summary()
    }

    /// Lets those under way end, for a while, and begins nothing more.
    async fn finish(&mut self) -> Result<(), Error> {
        self.agenda.set_stopping(true);
        self.drop_waiters();
        if !self.tasks.is_empty() {
            let n_under_way = self.agenda.n_under_way();
            self.pending_events.push(Event::Stopping { n_under_way });
            self.flush_events();
        }
        self.launches
            .retain(|launch| matches!(launch, Launch::Grant(..)));
        self.launch();
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
                        self.handle_message(message, self.clock.now())?;
                        // Nobody gets another turn.
                        self.drop_waiters();
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
            self.handle_message(message, now)?;
        }
        self.drop_waiters();
        self.launches.clear();
        while !self.listed.is_empty() {
            self.take_in_listed(now)?;
            blocking(|| self.keep())?;
            blocking(|| self.settle())?;
        }
        blocking(|| self.keep())?;
        blocking(|| self.settle())?;
        self.launches.clear();
        Ok(())
    }

    /// Drops everyone who waits: their channels close, which tells them.
    fn drop_waiters(&mut self) {
        self.tickets.clear();
        drop(self.robots_cache.take_waiting());
        drop(self.agenda.gate_mut().take_waiting(|_| true));
    }

    async fn close(mut self) -> Result<(), Error> {
        self.tasks.shutdown().await;
        self.upkeep.close().await?;
        if let Some(trust) = self.trust.take_unkept(self.clock.now(), true) {
            self.ledger.commit([trust])?;
        }
        self.ledger.close(&self.context.bodies)
    }

    fn summary(&self) -> Result<Ended, Error> {
        let failed = self
            .ledger
            .sources()
            .filter(|source| source.error.is_some());
        let why = self.progress.end_reason.unwrap_or(EndReason::Done);
        let purpose = match self.options.scope {
            RunScope::These(_) => Purpose::Asked,
            RunScope::Everything | RunScope::DueNow => Purpose::Due,
        };
        let at = clock::time(self.clock.now());
        let paused = self.paused_hosts(self.host_problems.keys().copied().collect(), at)?;
        let resumes_at = clock::moment_of(self.agenda.spends_at(purpose, at));
        Ok(Ended {
            why,
            paused_hosts: paused,
            n_polls: self.progress.n_polls,
            n_changes: self.progress.n_changes,
            n_failed: self.progress.n_failed,
            failed_sources: failed.map(|source| source.name.clone()).collect(),
            resumes_at: resumes_at.filter(|_| why == EndReason::Budget),
        })
    }

    /// What someone who holds the engine wants.
    fn handle_command(&mut self, command: Command) -> Result<(), Error> {
        match command {
            Command::Poll(ids) => self.poll_next(ids),
            Command::Hint(ids, changed_at) => {
                let now = self.clock.now();
                for id in ids {
                    if let Some(kept) = self.ledger.kept(id)?
                        && self.sources.contains_key(&kept.element.source)
                        && kept.history.synced_at.is_none_or(|at| at <= changed_at)
                    {
                        self.trust
                            .hint(kept.element.source, id, HintKind::Push, now);
                        self.agenda.scheduler_mut().hint(id, clock::time(now));
                    }
                }
                Ok(())
            }
            Command::ListingsChanged(ids) => {
                let at = clock::time(self.clock.now());
                ids.into_iter()
                    .for_each(|id| self.agenda.listing_changed(id, at));
                Ok(())
            }
            Command::Note(name, bytes, kept) => {
                self.ledger.write_note(name, bytes);
                self.noted.push(kept);
                Ok(())
            }
            Command::Budget(per_day) => {
                let budget = Budget::per_day(per_day)?;
                let at = clock::time(self.clock.now());
                self.settings.budget.per_day = per_day;
                self.agenda.set_budget(&budget, at);
                Ok(())
            }
            Command::Pulse(said) => {
                // Whoever asked may have gone.
                let _ = said.send(self.pulse()?);
                Ok(())
            }
        }
    }

    /// How it goes.
    fn pulse(&mut self) -> Result<Pulse, Error> {
        let now = self.clock.now();
        let at = clock::time(now);
        let wake_at = self.agenda.wake_at(at);
        Ok(Pulse {
            at: now,
            n_begun: self.progress.n_begun,
            n_polls: self.progress.n_polls,
            n_failed: self.progress.n_failed,
            n_under_way: self.agenda.n_under_way() + self.progress.n_robots,
            may_spend: self.agenda.spends_at(Purpose::Due, at) <= at,
            next_at: clock::moment_of(if wake_at < at { at } else { wake_at }),
            paused_hosts: self.paused_hosts(self.host_problems.keys().copied().collect(), at)?,
        })
    }

    /// What a poll said.
    fn handle_message(&mut self, message: Message, now: Moment) -> Result<(), Error> {
        let at = clock::time(now);
        match message {
            Message::Hop(redirect) => self.ask_to_go_on(redirect, now)?,
            Message::RobotsHop(redirect) => {
                let group = self.host_of(&redirect.url)?;
                self.wait_for_turn(group, Waiter::Hop(group, redirect), at);
            }
            Message::Ended(group, verdict, problem) => {
                self.agenda.ended(group, verdict, at, &mut self.rng);
                self.note_host_problem(group, problem, at)?;
            }
            Message::Robots(group, url, robots, robots_failure) => {
                self.on_robots(group, &url, (robots, robots_failure), now)?;
            }
            Message::RobotsRefused(group, url, reach) => {
                self.on_robots_refused(group, &url, reach, now)?;
            }
            Message::Done(done) => self.conclude(*done, now)?,
            Message::Prepared(source, prepared) => self.install(source, prepared)?,
            Message::Broken(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.agenda.n_under_way() == 0
            && self.progress.n_robots == 0
            && self.tickets.is_empty()
            && !self.agenda.gate().has_waiting()
            && self.listed.is_empty()
    }

    fn check_whether_over(&mut self, now: Moment) {
        let (at, is_idle) = (clock::time(now), self.is_idle());
        let is_reached = |n: u64| self.options.max_polls.is_some_and(|most| n >= most);
        if is_reached(self.progress.n_polls) || is_idle && is_reached(self.progress.n_begun) {
            self.progress.end_reason = Some(EndReason::MaxPolls);
        }
        let has_new = self.agenda.n_new() > 0 || self.agenda.has_new_rows(at);
        if !self.progress.is_first_pass_over && !has_new && is_idle {
            self.progress.is_first_pass_over = true;
            let n_unreached = self.agenda.n_new_rows();
            let total = |of: fn(Totals) -> u64| {
                let sources = self.ledger.sources();
                sources.map(|source| of(source.totals)).sum()
            };
            self.pending_events.push(Event::FirstPassDone {
                n_elements: total(|totals| totals.n_elements),
                n_failing: total(|totals| totals.n_failing),
                n_blocked: total(|totals| totals.n_blocked),
                n_unreached,
            });
        }
        if !is_idle {
            return;
        }
        let soon = at + clock::span(WORTH_WAITING);
        match &self.options.scope {
            RunScope::Everything => {}
            RunScope::DueNow => {
                let is_first_pass_left =
                    self.agenda.n_new() > 0 || self.agenda.has_due_rows(soon, at);
                let is_due = is_first_pass_left
                    || self
                        .agenda
                        .has_due(clock::time(self.progress.started_at), at);
                if !is_due {
                    let has_failed = self.has_failing_hosts(at);
                    let why = if has_failed {
                        EndReason::Paused
                    } else {
                        EndReason::Done
                    };
                    self.progress.end_reason = Some(why);
                } else if !(is_first_pass_left && self.is_first_pass_free())
                    && self.agenda.spends_at(Purpose::Due, at) > soon
                {
                    self.progress.end_reason = Some(EndReason::Budget);
                } else if !self.agenda.has_due_rows(soon, at) && self.only_paused_hosts_left(at) {
                    self.progress.end_reason = Some(EndReason::Paused);
                }
            }
            RunScope::These(_) => {
                if self.agenda.asked().next().is_none() {
                    self.progress.end_reason = Some(EndReason::Done);
                } else if self.agenda.spends_at(Purpose::Asked, at) > soon {
                    self.progress.end_reason = Some(EndReason::Budget);
                } else if let Some(why) = self.reason_to_end(soon, at) {
                    self.progress.end_reason = Some(why);
                }
            }
        }
    }

    /// Keeps everything that was said and decided since the last time, in one batch.
    fn keep(&mut self) -> Result<(), Error> {
        let hosts = self.agenda.gate_mut().take_unkept();
        let mut facts = self.robots_cache.take_unkept();
        let is_idle = hosts.is_empty() && facts.is_empty();
        if self.ledger.is_empty() && self.launches.is_empty() && is_idle {
            return Ok(());
        }
        let hosts = hosts.into_iter();
        let hosts = hosts.filter_map(|group| robots_cache::host(self.agenda.gate(), group));
        facts.extend(hosts.map(Fact::Host));
        let scheduler = self.agenda.scheduler();
        for group in std::mem::take(&mut self.changed_groups) {
            if let Some(memory) = scheduler.remember_group(group) {
                facts.push(Fact::Memory(MemoryOf::Group(group), memory));
            }
        }
        let of = MemoryOf::Scheduler(Partition::WHOLE);
        facts.push(Fact::Memory(of, scheduler.remember_all()));
        if let Some(pace) = self.agenda.pace() {
            let of = MemoryOf::Pace(Partition::WHOLE);
            let at = clock::time(self.clock.now());
            facts.push(Fact::Memory(of, pace.remember(at)));
        }
        for (id, search) in self.agenda.searches() {
            let of = MemoryOf::Search(SourceId(id.0));
            facts.push(Fact::Memory(of, search.remember()));
        }
        facts.extend(self.pauses.take_unkept());
        facts.extend(self.trust.take_unkept(self.clock.now(), false));
        facts.extend(self.free_listings.take_unkept());
        // What is named is on the disk before what names it.
        self.context.bodies.flush()?;
        self.ledger.commit(facts)?;
        for noted in self.noted.drain(..) {
            let _ = noted.send(());
        }
        let agenda = &self.agenda;
        self.ledger
            .tidy(&self.context.bodies, &|id| agenda.is_under_way(id))
    }

    /// What follows from what was kept: the copies of tables have it, and it is told.
    fn settle(&mut self) -> Result<(), Error> {
        self.apply_to_copies()?;
        self.flush_events();
        Ok(())
    }

    fn flush_events(&mut self) {
        for event in self.pending_events.drain(..) {
            // Whether anyone listens is not our concern.
            let _ = self.events.send(event);
        }
    }

    /// Lets those go who may, now that it is written down.
    fn launch(&mut self) {
        fail_point("before-launch");
        // Keeping may have taken a while: gaps are counted from now.
        let at = clock::time(self.clock.now());
        for launch in self.launches.drain(..) {
            let gate = self.agenda.gate_mut();
            match launch {
                Launch::Poll(pending) => {
                    gate.left(pending.host, at);
                    let source = self.sources.get(&pending.kept.element.source);
                    let reach = source.map_or_else(Reach::default, |state| state.reach);
                    let context = self.context.reaching(reach, &self.reaches);
                    self.tasks.spawn(poll::poll(*pending, context));
                }
                Launch::Robots(group, reach, url, previous) => {
                    gate.left(group, at);
                    let context = self.context.reaching(reach, &self.reaches);
                    let fetch = poll::fetch_robots(group, url, previous, context);
                    self.tasks.spawn(fetch);
                }
                Launch::Grant(sender, permit, group) => {
                    if permit == Permit::Go {
                        gate.left(group, at);
                    }
                    // Whoever asked may have been ended meanwhile.
                    let _ = sender.send((permit, group));
                }
            }
        }
    }

    /// How long to sleep if nothing comes in.
    fn wait_for(&mut self, now: Moment) -> Duration {
        let shortest = match self.options.scope {
            RunScope::Everything => SHORTEST_WAIT,
            // Whoever is not due is not waited for.
            _ => 10 * SHORTEST_WAIT,
        };
        let wake_at = self.agenda.wake_at(clock::time(now));
        let wait = clock::until(wake_at, now).max(shortest);
        let wait = match self.upkeep.wake_at() {
            Some(at) => wait.min(at.saturating_duration_since(Instant::now()).max(shortest)),
            None => wait,
        };
        match self.progress.deadline {
            Some(deadline) => wait.min(deadline.saturating_duration_since(Instant::now())),
            None => wait,
        }
    }
}
