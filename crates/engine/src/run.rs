//! The loop: polls begin as the scheduler, the pace and the hosts allow, and what
//! they find is kept before anything follows from it.
//!
//! One task owns everything. Polls are tasks that ask it for their turns and tell it
//! what they found. Each time round it takes in what they said, gives out turns,
//! keeps all that as one batch, and only then lets anyone go: whatever is asked of
//! the world has been written down before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_policy::schedule::{Pace, Scheduler, retry_in};
use springtide_policy::{Cost, Elements, GroupId, Groups, Present, Span, Time, Weight};
use springtide_store::{
    Bodies, Brief, ChangeKind, Element, ElementId, Fact, Failure, Kept, Moment, Poll, PollOutcome,
    Purpose, Role, Source, SourceId, SourceKind, Sqlite, State, Store, Totals,
};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use url::Url;

use crate::choose;
use crate::clock;
use crate::detect::Lens;
use crate::event::{Event, Polled};
use crate::fail_point::fail_point;
use crate::fetch::{self, Client, GroupPath, group_of};
use crate::first_pass::FirstPass;
use crate::hosts::{Hosts, Permit, Turn, Waiting, Who};
use crate::keep::{self, Conclusion, Next};
use crate::poll::{self, Done, Found, Job, ListingNews, Means, Message};
use crate::register::{self, Places};
use crate::settings::{self, Settings, SourceSettings};
use crate::{Ended, Error, Why};

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

/// Polls at a time, over all hosts.
const MOST_AT_ONCE: usize = 256;
/// Whoever asks for a poll that the budget allows before this has passed waits for it.
const WORTH_WAITING: Duration = Duration::from_secs(2);
/// Polls under way when the engine is told to stop are waited for this long.
const GRACE: Duration = Duration::from_secs(10);
/// A listing waits no longer than this, whatever is learned of it.
const LONGEST_LISTING_WAIT: f64 = 1.0;
/// What a listing matters beside its elements: as much as this share of them.
const LISTING_SHARE: f64 = 0.02;
/// An element that is gone, or that we are to keep away from, is looked at again after
/// so many rounds of all elements.
const ROUNDS_OUT: f64 = 5.0;
/// Elements of a listing that are taken in at a time.
const LISTED_AT_A_TIME: usize = 2_000;
/// Elements whose hosts are to be left alone that are passed over at a time.
const MOST_REFUSED: usize = 64;
/// Draws of an element at random before it is left.
const MOST_DRAWS: usize = 64;

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
) -> Result<Ended, Error> {
    let mut engine = Engine::open(folder, settings, until, events)?;
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
    rng: Pcg64,

    scheduler: Scheduler,
    pace: Pace,
    hosts: Hosts,
    first_pass: FirstPass,
    sources: BTreeMap<SourceId, SourceState>,
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
    timers: BTreeSet<(Moment, ElementId)>,
    /// Those the user asked for.
    asked: VecDeque<ElementId>,
    /// Elements that a listing named, and that are still to be taken in.
    listed: VecDeque<Item>,
    under_way: BTreeSet<ElementId>,
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

/// What is still to be taken in.
enum Item {
    Listed(Listed),
    /// Everything that this listing names has been.
    Read(Box<Kept>),
}

/// Something that a listing named.
struct Listed {
    source: SourceId,
    url: String,
    role: Role,
    depth: u16,
    news: News,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    Added,
    Touched,
    Removed,
}

impl Engine {
    fn open(
        folder: &Path,
        settings: Settings,
        until: Until,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<Self, Error> {
        let begun = Instant::now();
        let now = clock::now();
        let inner = folder.join(".springtide");
        let mut store = Sqlite::create_or_open(&inner)?;
        let bodies = Arc::new(Bodies::open(inner.join("bodies"))?);
        let client = Client::new(&settings.http)?;
        register::register(&mut store, &settings, now, &mut |_| {})?;

        let mut rng = Pcg64::seed_from_u64(now.0.unsigned_abs());
        let mut groups = Groups::new();
        for group in store.groups()? {
            let added = groups.add(group.parent);
            if added != group.id {
                return Err(Error::Numbering);
            }
        }
        let mut hosts = Hosts::default();
        for host in store.hosts()? {
            hosts.recall(&host, now);
        }
        let mut sources = BTreeMap::new();
        for source in store.sources()? {
            let Some(wanted) = settings.sources.iter().find(|s| s.name == source.name) else {
                continue;
            };
            let lens = Lens::new(&wanted.keep, &wanted.drop)?;
            let state = SourceState {
                settings: wanted.clone(),
                lens: Arc::new(lens),
                listings: BTreeMap::new(),
                n_false_dates: 0,
                n_dates: 0,
                has_sitemaps: false,
                source,
            };
            sources.insert(state.source.id, state);
        }

        let at = clock::time(now);
        let budget = &settings.budget;
        let burst = budget
            .burst
            .map(|burst| springtide_policy::schedule::Burst {
                n_polls: burst.n_polls,
                span: burst.span,
            });
        let mut pace = Pace::new(budget.per_day, budget.window, burst, at);
        if let Some(bytes) = store.note("pace")? {
            pace.recall(&bytes, at);
        }
        let next_element = store.next_element()?;
        let (choice, terms) = choose::policy(&settings)?;
        let nobody = Elements::new();
        let mut scheduler =
            Scheduler::new(choice, terms, groups, Present::all(&nobody), at, &mut rng);
        if let Some(bytes) = store.note("scheduler")? {
            scheduler.recall_all(&bytes);
        }
        for (group, bytes) in store.group_memories()? {
            scheduler.recall_group(group, &bytes);
        }
        scheduler.reserve(next_element as usize);
        let mut timers = BTreeSet::new();
        let mut n_elements = 0;
        store.scan(1, &mut |id, brief: &Brief| {
            let Some(state) = sources.get_mut(&brief.source) else {
                return;
            };
            if brief.role == Role::Listing {
                let polled_at = brief.history.polled_at.unwrap_or(Moment(0));
                state.listings.insert(id, polled_at);
                state.has_sitemaps = true;
            }
            let is_counted = brief.state != State::Gone && brief.role != Role::Listing;
            n_elements += u64::from(is_counted);
            match (brief.state, brief.history.synced_at) {
                (State::New, _) => {}
                (State::Gone, _) | (_, None) => {
                    let polled_at = brief.history.polled_at.unwrap_or(now);
                    timers.insert((polled_at, id, brief.state == State::Gone));
                }
                (_, Some(synced_at)) => {
                    let element = member(brief.role, brief.weight, brief.group, state);
                    let memory = &brief.history.memory;
                    scheduler.recall(id, element, clock::time(synced_at), memory);
                }
            }
        })?;
        scheduler.recalled(at, &mut rng);

        let (to_loop, messages) = mpsc::unbounded_channel();
        let means = Means {
            client,
            bodies,
            to_loop,
            max_body: settings.http.max_body,
            one_at_a_time: Arc::new(Semaphore::new(1)),
        };
        let first_pass = FirstPass::new(&store)?;
        let asked = match &until.what {
            What::These(ids) => ids.iter().copied().collect(),
            _ => VecDeque::new(),
        };
        let mut engine = Self {
            deadline: until.span.map(|span| begun + span),
            is_first_pass_over: first_pass.n_left() == 0,
            settings,
            until,
            store,
            means,
            messages,
            tasks: JoinSet::new(),
            events,
            rng,
            scheduler,
            pace,
            hosts,
            first_pass,
            sources,
            places: None,
            facts: Vec::new(),
            changed_groups: BTreeSet::new(),
            changed_sources: BTreeSet::new(),
            launches: Vec::new(),
            told: Vec::new(),
            obsolete: Vec::new(),
            timers: BTreeSet::new(),
            asked,
            listed: VecDeque::new(),
            under_way: BTreeSet::new(),
            next_element,
            n_polls: 0,
            n_begun: 0,
            n_changes: 0,
            n_failed: 0,
            started_at: now,
            takes_new_turn: false,
            n_turns: 0,
            why_over: None,
        };
        // Spread over what is left of their time out, since nobody knows how often each
        // has failed.
        for (polled_at, id, is_gone) in timers {
            let mut wait = engine.time_out();
            if !is_gone {
                wait = wait.min(ROBOTS_HOLD);
            }
            engine.set_timer(id, Moment(polled_at.0.saturating_add(wait)));
        }
        engine.expect();
        engine.tell(Event::Started {
            n_elements,
            n_new: engine.first_pass.n_left(),
            seconds: begun.elapsed().as_secs_f64(),
        });
        Ok(engine)
    }

    async fn turn_until_over(&mut self, stop: &mut watch::Receiver<bool>) -> Result<Ended, Error> {
        let mut may_be_stopped = true;
        loop {
            let now = clock::now();
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
            tokio::task::block_in_place(|| self.keep())?;
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
                        self.hear(message, clock::now())?;
                    }
                }
                () = tokio::time::sleep(wait) => {}
            }
            while self.tasks.try_join_next().is_some() {}
        }
        self.finish().await?;
        Ok(self.ended())
    }

    /// Lets those under way end, for a while, and begins nothing more.
    async fn finish(&mut self) -> Result<(), Error> {
        for waiting in self.hosts.send_home() {
            if let Who::Poll(job) = waiting.who {
                self.under_way.remove(&job.kept.element.id);
            }
        }
        if !self.tasks.is_empty() {
            self.tell(Event::Stopping {
                n_under_way: self.under_way.len(),
            });
            self.launch();
        }
        let until = tokio::time::Instant::now() + GRACE;
        while !self.tasks.is_empty() {
            tokio::select! {
                joined = self.tasks.join_next() => {
                    if joined.is_none() {
                        break;
                    }
                }
                message = self.messages.recv() => {
                    if let Some(message) = message {
                        self.hear(message, clock::now())?;
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
        let now = clock::now();
        while let Ok(message) = self.messages.try_recv() {
            self.hear(message, now)?;
        }
        drop(self.hosts.send_home());
        self.launches.clear();
        while !self.listed.is_empty() {
            self.take_in_listed(now)?;
            tokio::task::block_in_place(|| self.keep())?;
        }
        tokio::task::block_in_place(|| self.keep())?;
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
            Message::Broken(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Sitemaps that a robots.txt names are listings of the site it is of.
    fn note_sitemaps(&mut self, group: GroupId, robots_url: &Url) {
        let origin = fetch::origin(robots_url);
        let Some((_, rules)) = self.hosts.robots(group, &origin) else {
            return;
        };
        let sitemaps: Vec<String> = rules.sitemaps().iter().map(Url::to_string).collect();
        for (&id, state) in &mut self.sources {
            let is_its = state.settings.kind == SourceKind::Site
                && Url::parse(&state.settings.url).is_ok_and(|url| fetch::origin(&url) == origin);
            if is_its && !sitemaps.is_empty() {
                state.has_sitemaps = true;
                self.listed.extend(sitemaps.iter().map(|url| {
                    Item::Listed(Listed {
                        source: id,
                        url: url.clone(),
                        role: Role::Listing,
                        depth: 1,
                        news: News::Added,
                    })
                }));
            }
        }
    }

    /// Takes in what a poll came to.
    fn conclude(&mut self, done: Done, now: Moment) -> Result<(), Error> {
        let id = done.job.kept.element.id;
        let source = done.job.kept.element.source;
        self.under_way.remove(&id);
        let Some(state) = self.sources.get_mut(&source) else {
            return Ok(());
        };
        if done
            .job
            .kept
            .copy
            .as_ref()
            .is_some_and(|copy| copy.last_modified.is_some())
        {
            state.n_dates += 1;
            state.n_false_dates += u32::from(keep::shows_a_false_date(&done));
        }
        let trusts_dates = state.n_false_dates * 20 <= state.n_dates;
        let at = clock::time(now);
        let belief = self.scheduler.belief(id, at);
        let Conclusion {
            mut kept,
            poll,
            change,
            next,
        } = keep::conclude(&done, belief, trusts_dates);

        let was_in = belief.is_some();
        match next {
            Next::Observed(outcome) if was_in => self.scheduler.observe(id, outcome, at),
            Next::Join | Next::Observed(_) => {
                let element = member(
                    kept.element.role,
                    kept.element.weight,
                    kept.element.group,
                    &self.sources[&source],
                );
                if was_in {
                    self.scheduler.remove(id, at);
                }
                self.scheduler.add(id, element, at, &mut self.rng);
            }
            Next::Retry => {
                let mut due = at + retry_in(u32::from(kept.n_failures.max(1)), &mut self.rng);
                if let Some((_, until)) = self.hosts.reason(done.job.host) {
                    due = if until > due { until } else { due };
                }
                if was_in {
                    self.scheduler.put_back(id, due, at);
                } else if let Some(due) = clock::moment_of(due) {
                    self.set_timer(id, due);
                }
            }
            Next::Out => {
                if was_in {
                    self.scheduler.remove(id, at);
                }
                let wait = match kept.state {
                    State::Blocked => ROBOTS_HOLD,
                    _ => self.time_out(),
                };
                self.set_timer(id, Moment(now.0.saturating_add(wait)));
            }
        }
        if let Some(memory) = self.scheduler.remember(id) {
            kept.history.memory = memory;
        }
        for group in self.scheduler.groups().path(kept.element.group) {
            self.changed_groups.insert(group);
        }
        self.count(&done.job.kept, &kept, poll.as_ref());
        self.note_source_error(&kept, &done);
        if poll.is_some() {
            self.n_polls += 1;
        } else {
            // Nothing was asked, so it does not count.
            self.n_begun = self.n_begun.saturating_sub(1);
        }
        self.n_changes += u64::from(
            change
                .as_ref()
                .is_some_and(|c| c.kind == ChangeKind::Changed),
        );
        let locator = kept.element.locator.clone();
        self.told.push(Event::Polled(Polled {
            element: id,
            locator,
            source: self.sources[&source].source.name.clone(),
            at: done.at,
            purpose: done.job.purpose,
            change: change.as_ref().map(|change| change.kind),
            error: kept
                .failure
                .as_ref()
                .map(|failure| (failure.kind.clone(), failure.message.clone())),
            n_new: self.first_pass.n_left(),
        }));
        self.follow_up(&done, &mut kept)?;
        self.facts.extend(poll.map(Fact::Poll));
        self.facts.extend(change.map(Fact::Change));
        let has_news = matches!(&done.found, Ok(Found::Here(here)) if here.listing.is_some());
        if has_news {
            // What it lists is kept before it counts as read: whoever dies in between
            // reads it again.
            let before = done.job.kept.copy.clone();
            self.under_way.insert(id);
            self.listed.push_back(Item::Read(Box::new(kept.clone())));
            kept.copy = before;
        }
        self.facts.push(Fact::Kept(Box::new(kept)));
        if self.sources[&source].listings.contains_key(&id)
            && let Some(state) = self.sources.get_mut(&source)
        {
            state.listings.insert(id, now);
        }
        Ok(())
    }

    /// What else follows from what was found: elements that it names, and where it has
    /// moved.
    fn follow_up(&mut self, done: &Done, kept: &mut Kept) -> Result<(), Error> {
        let Ok(Found::Here(here)) = &done.found else {
            return Ok(());
        };
        let source = kept.element.source;
        let depth = kept.element.depth.saturating_add(1);
        let state = &self.sources[&source];
        let mut listed = Vec::new();
        let mut list = |urls: &[String], role, news| {
            listed.extend(urls.iter().map(|url| Listed {
                source,
                url: url.clone(),
                role,
                depth,
                news,
            }));
        };
        if let Some(ListingNews {
            pages,
            sitemaps,
            touched,
            removed,
            ..
        }) = &here.listing
        {
            list(sitemaps, Role::Listing, News::Added);
            list(pages, Role::Page, News::Added);
            list(touched, Role::Page, News::Touched);
            list(removed, Role::Page, News::Removed);
        }
        if !here.links.is_empty() && !state.has_sitemaps && depth <= state.settings.max_depth {
            let urls: Vec<String> = here.links.iter().map(Url::to_string).collect();
            list(&urls, Role::Hub, News::Added);
        }
        self.listed.extend(listed.into_iter().map(Item::Listed));
        if let Some(target) = &here.moved_to {
            self.move_to(kept, target)?;
        }
        Ok(())
    }

    /// An element has moved for good: it keeps its history and gets a new address, and
    /// a note is left at the old one; or, if there is an element at the new one, it is
    /// gone.
    fn move_to(&mut self, kept: &mut Kept, target: &Url) -> Result<(), Error> {
        let element = &mut kept.element;
        if element.role == Role::Listing || target.as_str() == element.locator {
            return Ok(());
        }
        if self.sources[&element.source].settings.kind != SourceKind::Page
            && self.find(element.source, target.as_str())?.is_none()
        {
            if let Some(state) = self.sources.get_mut(&element.source) {
                state.source.totals.n_gone += 1;
            }
            let old = Element {
                id: ElementId(self.next_element),
                ..element.clone()
            };
            self.next_element += 1;
            let failure = Failure {
                kind: "moved".to_owned(),
                message: format!("moved to {target}"),
                at: clock::now(),
            };
            element.locator = target.to_string();
            let (host, group) = self.place(target)?;
            (element.host, element.group) = (host, group);
            self.facts.push(Fact::Element(old.clone()));
            self.facts.push(Fact::Kept(Box::new(Kept {
                element: old,
                state: State::Gone,
                failure: Some(failure),
                n_failures: 0,
                is_unlisted: true,
                copy: None,
                history: springtide_store::History::default(),
            })));
        }
        Ok(())
    }

    /// Keeps the running totals of a source.
    fn count(&mut self, before: &Kept, after: &Kept, poll: Option<&Poll>) {
        let source = after.element.source;
        let Some(state) = self.sources.get_mut(&source) else {
            return;
        };
        let totals = &mut state.source.totals;
        if let Some(poll) = poll {
            totals.n_polls += 1;
            totals.n_changes += u64::from(poll.outcome == PollOutcome::Changed);
            self.n_failed += u64::from(poll.outcome == PollOutcome::Failed);
        }
        if after.element.role != Role::Listing {
            shift(totals, before.state, after.state);
        }
        self.changed_sources.insert(source);
    }

    /// A listing that fails, or is cut short, is an error of its source; so is the only
    /// page of one.
    fn note_source_error(&mut self, kept: &Kept, done: &Done) {
        let source = kept.element.source;
        let Some(state) = self.sources.get_mut(&source) else {
            return;
        };
        let speaks_for_it = kept.element.role == Role::Listing
            || kept.element.depth == 0 && state.settings.kind != SourceKind::List;
        if !speaks_for_it {
            return;
        }
        let cut_short = match &done.found {
            Ok(Found::Here(here)) => here
                .listing
                .as_ref()
                .and_then(|listing| listing.problem.as_ref()),
            _ => None,
        };
        let failure = match cut_short {
            Some(problem) => Some(Failure {
                kind: "listing".to_owned(),
                message: format!("{} is not whole: {problem}", kept.element.locator),
                at: done.at,
            }),
            None => kept.failure.clone(),
        };
        // A listing that is as it was when it was cut short still is.
        let is_same = matches!(&done.found, Ok(Found::NotModified))
            || matches!(&done.found, Ok(Found::Here(here)) if here.body.is_none());
        if failure.is_none() && is_same {
            let was_cut = state
                .source
                .error
                .as_ref()
                .is_some_and(|e| e.kind == "listing");
            if was_cut {
                return;
            }
        }
        if let Some(failure) = &failure {
            self.told.push(Event::SourceFailed {
                source: state.source.name.clone(),
                message: failure.message.clone(),
            });
        }
        if failure != state.source.error {
            state.source.error = failure.clone();
            self.facts.push(Fact::SourceError(source, failure));
        }
    }

    /// Takes in elements that listings and pages named.
    fn take_in_listed(&mut self, now: Moment) -> Result<(), Error> {
        let mut n_found: BTreeMap<SourceId, u64> = BTreeMap::new();
        for _ in 0..LISTED_AT_A_TIME {
            let listed = match self.listed.pop_front() {
                Some(Item::Listed(listed)) => listed,
                Some(Item::Read(kept)) => {
                    self.finish_listing(*kept)?;
                    continue;
                }
                None => break,
            };
            let Ok(url) = fetch::locator(&listed.url) else {
                continue;
            };
            let Some(state) = self.sources.get(&listed.source) else {
                continue;
            };
            let is_full = state.source.totals.n_elements >= state.settings.max_elements;
            let weight = state.settings.weight as f32;
            let known = self.find(listed.source, url.as_str())?;
            match (known, listed.news) {
                (None, News::Added) if !is_full => {
                    let (host, group) = self.place(&url)?;
                    let id = ElementId(self.next_element);
                    self.next_element = self.next_element.checked_add(1).ok_or(Error::Numbering)?;
                    let element = Element {
                        id,
                        source: listed.source,
                        locator: url.to_string(),
                        group,
                        host,
                        role: listed.role,
                        weight,
                        depth: listed.depth,
                    };
                    self.facts.push(Fact::Element(element));
                    if let Some(state) = self.sources.get_mut(&listed.source) {
                        if listed.role == Role::Listing {
                            state.listings.insert(id, Moment(0));
                        } else {
                            state.source.totals.n_elements += 1;
                            state.source.totals.n_new += 1;
                            *n_found.entry(listed.source).or_default() += 1;
                        }
                    }
                    self.changed_sources.insert(listed.source);
                    self.first_pass.add(host, id);
                    self.is_first_pass_over = false;
                }
                (None, _) => {}
                (Some(mut kept), News::Added | News::Touched) => {
                    let id = kept.element.id;
                    if kept.is_unlisted && kept.failure.as_ref().is_none_or(|f| f.kind != "moved") {
                        kept.is_unlisted = false;
                        self.facts.push(Fact::Kept(Box::new(kept.clone())));
                    }
                    match kept.state {
                        State::Gone if listed.news == News::Added && !kept.is_unlisted => {
                            self.set_timer(id, now);
                        }
                        State::Ok | State::Failing => {
                            self.scheduler.hint(id, clock::time(now));
                            if kept.element.role == Role::Listing {
                                self.set_timer(id, now);
                            }
                        }
                        _ => {}
                    }
                }
                (Some(mut kept), News::Removed) => {
                    if kept.state != State::Gone && !kept.is_unlisted {
                        // Gone from its listing: the next poll tells whether it is gone.
                        kept.is_unlisted = true;
                        let id = kept.element.id;
                        self.facts.push(Fact::Kept(Box::new(kept)));
                        self.set_timer(id, now);
                    }
                }
            }
        }
        if !n_found.is_empty() {
            self.expect();
        }
        for (source, n_elements) in n_found {
            let source = self.sources[&source].source.name.clone();
            self.tell(Event::Found { source, n_elements });
        }
        Ok(())
    }

    /// A listing has been read: its copy is the new one from now on.
    fn finish_listing(&mut self, read: Kept) -> Result<(), Error> {
        let id = read.element.id;
        self.under_way.remove(&id);
        let before = match self.pending(id) {
            Some(kept) => Some(kept),
            None => self.store.element(id)?,
        };
        let Some(mut kept) = before else {
            return Ok(());
        };
        let old = kept.copy.take().map(|copy| copy.body);
        let new = read.copy.as_ref().map(|copy| copy.body);
        self.obsolete.extend(old.filter(|&old| Some(old) != new));
        kept.copy = read.copy;
        self.facts.push(Fact::Kept(Box::new(kept)));
        Ok(())
    }

    /// An element by its address, among those kept and those about to be.
    fn find(&self, source: SourceId, locator: &str) -> Result<Option<Kept>, Error> {
        for fact in self.facts.iter().rev() {
            match fact {
                Fact::Kept(kept)
                    if kept.element.source == source && kept.element.locator == locator =>
                {
                    return Ok(Some((**kept).clone()));
                }
                Fact::Element(element)
                    if element.source == source && element.locator == locator =>
                {
                    return Ok(Some(Kept::new(element.clone())));
                }
                _ => {}
            }
        }
        Ok(self.store.find(source, locator)?)
    }

    /// Begins polls, as far as pace and hosts allow: what was asked for, what is to be
    /// looked at again, what is due, and what is new.
    fn begin_polls(&mut self, now: Moment) -> Result<(), Error> {
        let at = clock::time(now);
        let mut n_refused = 0;
        while self.has_room() && self.pace.next_at(at) <= at && n_refused < MOST_REFUSED {
            match self.next_counted(now)? {
                Some((id, purpose)) => {
                    if self.begin(id, purpose, true, now)? {
                        self.pace.spend(1.0, at);
                        self.n_begun += 1;
                    } else {
                        n_refused += 1;
                    }
                }
                None => break,
            }
        }
        let is_free = self.settings.budget.first_pass == settings::FirstPass::Free;
        let is_open = self
            .settings
            .budget
            .window
            .is_none_or(|window| window.contains(at));
        if is_free && is_open && !matches!(self.until.what, What::These(_)) {
            while self.has_room() {
                let Some((host, id)) = self.first_pass.next(&self.store, &self.hosts, at)? else {
                    break;
                };
                if self.begin(id, Purpose::First, false, now)? {
                    self.n_begun += 1;
                } else {
                    self.reopen(host);
                }
            }
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.under_way.len() < MOST_AT_ONCE
            && self.until.max_polls.is_none_or(|most| self.n_begun < most)
    }

    /// The next poll that counts.
    fn next_counted(&mut self, now: Moment) -> Result<Option<(ElementId, Purpose)>, Error> {
        let at = clock::time(now);
        if let Some(id) = self.asked.pop_front() {
            return Ok(Some((id, Purpose::Asked)));
        }
        if let What::These(_) = self.until.what {
            return Ok(None);
        }
        // Those who are out, or were never had, are many where much is wrong: they get
        // every fourth turn, and leave the others to those who are in.
        self.n_turns = self.n_turns.wrapping_add(1);
        if self.n_turns.is_multiple_of(4)
            && let Some(id) = self.due_timer(now)
        {
            return Ok(Some((id, Purpose::Due)));
        }
        if let Some(id) = self.overdue_listing(now) {
            return Ok(Some((id, Purpose::Due)));
        }
        if self.settings.budget.first_pass == settings::FirstPass::Counted {
            // New ones and old ones take turns.
            self.takes_new_turn = !self.takes_new_turn;
            if self.takes_new_turn
                && let Some((_, id)) = self.first_pass.next(&self.store, &self.hosts, at)?
            {
                return Ok(Some((id, Purpose::First)));
            }
        }
        if matches!(self.until.what, What::Everything)
            && self.rng.random::<f64>() < self.settings.budget.audit
            && let Some(id) = self.draw(at)
        {
            return Ok(Some((id, Purpose::Audit)));
        }
        if matches!(self.until.what, What::DueNow)
            && !self.scheduler.is_ready(clock::time(self.started_at), at)
        {
            let timer = self.due_timer(now);
            return Ok(timer.map(|id| (id, Purpose::Due)));
        }
        let due = self.scheduler.next_poll(at, &mut self.rng);
        if due.is_none() && self.settings.budget.first_pass == settings::FirstPass::Counted {
            let new = self.first_pass.next(&self.store, &self.hosts, at)?;
            return Ok(new.map(|(_, id)| (id, Purpose::First)));
        }
        let due = match due {
            Some(id) => Some(id),
            None => self.due_timer(now),
        };
        Ok(due.map(|id| (id, Purpose::Due)))
    }

    fn due_timer(&mut self, now: Moment) -> Option<ElementId> {
        let &(due, id) = self.timers.first().filter(|(due, _)| *due <= now)?;
        self.timers.remove(&(due, id));
        if self.under_way.contains(&id) {
            self.set_timer(id, Moment(now.0 + 60_000));
            return None;
        }
        Some(id)
    }

    /// A listing that has waited as long as it may; whatever comes of that, it then
    /// waits again.
    fn overdue_listing(&mut self, now: Moment) -> Option<ElementId> {
        for state in self.sources.values_mut() {
            let longest = state
                .settings
                .list_every
                .map_or(LONGEST_LISTING_WAIT, Span::as_days);
            let longest = (longest * 86_400_000.0) as i64;
            for (&id, polled_at) in &mut state.listings {
                let is_overdue = clock::millis_between(*polled_at, now) >= longest;
                if is_overdue
                    && polled_at.0 > 0
                    && !self.under_way.contains(&id)
                    && self.scheduler.belief(id, clock::time(now)).is_some()
                {
                    *polled_at = now;
                    return Some(id);
                }
            }
        }
        None
    }

    /// An element drawn at random from those that we have a copy of.
    fn draw(&mut self, at: Time) -> Option<ElementId> {
        for _ in 0..MOST_DRAWS {
            let id = ElementId(self.rng.random_range(0..self.next_element.max(1)));
            if self.scheduler.belief(id, at).is_some() {
                let is_listing = self
                    .sources
                    .values()
                    .any(|state| state.listings.contains_key(&id));
                if !is_listing && !self.under_way.contains(&id) {
                    return Some(id);
                }
            }
        }
        None
    }

    /// Sends a poll to wait for its host. Says whether there was anything to poll.
    fn begin(
        &mut self,
        id: ElementId,
        purpose: Purpose,
        is_counted: bool,
        now: Moment,
    ) -> Result<bool, Error> {
        if self.under_way.contains(&id) {
            return Ok(false);
        }
        let at = clock::time(now);
        let kept = match self.pending(id) {
            Some(kept) => Some(kept),
            None => self.store.element(id)?,
        };
        let Some(kept) = kept.filter(|kept| self.sources.contains_key(&kept.element.source)) else {
            self.scheduler.remove(id, at);
            return Ok(false);
        };
        let has_moved = kept.failure.as_ref().is_some_and(|why| why.kind == "moved");
        let is_of_list = self.sources[&kept.element.source].settings.kind == SourceKind::List;
        let is_unwanted =
            kept.state == State::Gone && (has_moved || kept.is_unlisted && is_of_list);
        if is_unwanted && purpose != Purpose::Asked {
            // It is elsewhere, or its list does not name it any more: nobody wants to
            // know.
            return Ok(false);
        }
        let is_free_to_wait = match purpose {
            Purpose::Asked | Purpose::First => true,
            _ => self.hosts.is_reachable(kept.element.host, at),
        };
        if !is_free_to_wait {
            // A host that is to be left alone holds up nobody else.
            if purpose == Purpose::Due {
                let until = self
                    .hosts
                    .reason(kept.element.host)
                    .map_or(at, |(_, until)| until);
                let retry = until + retry_in(1, &mut self.rng);
                if self.scheduler.belief(id, at).is_some() {
                    self.scheduler.put_back(id, retry, at);
                } else if let Some(due) = clock::moment_of(retry) {
                    self.set_timer(id, due);
                }
            }
            return Ok(false);
        }
        // Whoever is polled out of turn does not get its turn as well.
        self.scheduler.take(id, at);
        let purpose = match (purpose, kept.copy.is_some()) {
            (Purpose::Due | Purpose::Audit, false) => Purpose::First,
            (purpose, _) => purpose,
        };
        let moved_to = kept.copy.as_ref().and_then(|copy| copy.location.clone());
        let address = moved_to.as_deref().unwrap_or(&kept.element.locator);
        let state = &self.sources[&kept.element.source];
        let (kind, lens, wants_links, max_entries) = (
            state.settings.kind,
            Arc::clone(&state.lens),
            state.settings.kind == SourceKind::Site && !state.has_sitemaps,
            usize::try_from(state.settings.max_elements).unwrap_or(usize::MAX),
        );
        let url = match fetch::locator(address) {
            Ok(url) => url,
            Err(failure) => {
                let done = Done {
                    at: now,
                    status: None,
                    found: Err(failure),
                    job: Job {
                        host: kept.element.host,
                        url: robots_free(),
                        kept,
                        purpose,
                        is_counted,
                        begun_at: now,
                        lens,
                        kind,
                        max_entries,
                        wants_links,
                    },
                };
                self.conclude(done, now)?;
                return Ok(true);
            }
        };
        let host = self.host_of(&url)?;
        let origin = fetch::origin(&url);
        let is_kept_out = self
            .hosts
            .robots(host, &origin)
            .is_some_and(|(robots, rules)| {
                !fetch::robots::is_due(robots, now) && !rules.is_allowed(&url)
            });
        let job = Job {
            kept,
            url,
            host,
            purpose,
            is_counted,
            begun_at: now,
            lens,
            kind,
            max_entries: max_entries.min(MOST_ENTRIES),
            wants_links,
        };
        if is_kept_out {
            // Nothing is asked, so it costs nothing.
            self.conclude(poll::keep_out(job, Permit::Disallowed), now)?;
            return Ok(false);
        }
        self.under_way.insert(id);
        self.hosts.wait(host, poll::waiting(job));
        // Nobody else of the host, until it has had its turn.
        self.scheduler.close(host, Time::NEVER);
        Ok(true)
    }

    /// What is known of an element, if that is not kept yet.
    fn pending(&self, id: ElementId) -> Option<Kept> {
        self.facts.iter().rev().find_map(|fact| match fact {
            Fact::Kept(kept) if kept.element.id == id => Some((**kept).clone()),
            Fact::Element(element) if element.id == id => Some(Kept::new(element.clone())),
            _ => None,
        })
    }

    /// The outermost group of an address, with its limits.
    fn host_of(&mut self, url: &Url) -> Result<GroupId, Error> {
        let GroupPath {
            key,
            gap,
            concurrency,
            ..
        } = group_of(url, &self.settings.groups);
        let (host, _) = self.place_named(&key, &[])?;
        self.hosts.meet(host, gap, concurrency);
        Ok(host)
    }

    /// The outermost and the innermost group of an address.
    fn place(&mut self, url: &Url) -> Result<(GroupId, GroupId), Error> {
        let GroupPath {
            key, directories, ..
        } = group_of(url, &self.settings.groups);
        self.place_named(&key, &directories)
    }

    fn place_named(
        &mut self,
        key: &str,
        directories: &[String],
    ) -> Result<(GroupId, GroupId), Error> {
        let places = match &mut self.places {
            Some(places) => places,
            none => none.insert(Places::read(&self.store)?),
        };
        let before = self.facts.len();
        let inner = directories.iter().map(String::as_str);
        let found = places.find(key, inner, &mut self.facts);
        for fact in &self.facts[before..] {
            if let Fact::Group(group) = fact
                && self.scheduler.add_group(group.parent) != group.id
            {
                return Err(Error::Numbering);
            }
        }
        found.ok_or(Error::Numbering)
    }

    /// Gives out turns at hosts.
    fn give_turns(&mut self, now: Moment) -> Result<(), Error> {
        for turn in self.hosts.turns(now) {
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
                            self.conclude(poll::keep_out(*job, permit), now)?;
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
        self.under_way.remove(&id);
        self.n_begun = self.n_begun.saturating_sub(1);
        let until = self.hosts.reason(group).map_or(at, |(_, until)| until);
        let due = until + retry_in(1, &mut self.rng);
        if self.scheduler.belief(id, at).is_some() {
            self.scheduler.put_back(id, due, at);
        } else if let Some(due) = clock::moment_of(due) {
            self.set_timer(id, due);
        }
    }

    /// Lets the scheduler know when a host may be asked again.
    fn reopen(&mut self, group: GroupId) {
        let free_at = self.hosts.free_at(group);
        self.scheduler.close(group, free_at);
        self.first_pass.reopen(group, free_at);
    }

    fn check_whether_over(&mut self, now: Moment) {
        let is_idle = self.under_way.is_empty() && self.listed.is_empty();
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
        if !self.is_first_pass_over && self.first_pass.n_left() == 0 && is_idle {
            self.is_first_pass_over = true;
            self.told.push(Event::FirstPassDone);
        }
        let at = clock::time(now);
        match &self.until.what {
            What::Everything => {}
            What::DueNow if !is_idle => {}
            What::DueNow => {
                let is_first_pass_left = self.first_pass.n_left() > 0;
                let is_due = is_first_pass_left
                    || self.scheduler.is_due(clock::time(self.started_at))
                    || self.timers.first().is_some_and(|(due, _)| *due <= now);
                let is_free = self.settings.budget.first_pass == settings::FirstPass::Free;
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
                } else if is_idle && self.pace.next_at(at) > at + clock::span(WORTH_WAITING) {
                    self.why_over = Some(Why::Budget);
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
        let now = clock::now();
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
        let mut wake_at = self.hosts.wake_at();
        let mut consider = |time: Time| {
            if time < wake_at {
                wake_at = time;
            }
        };
        if self.has_room() {
            let paced = self.pace.next_at(at);
            let mut due = self.scheduler.wake_at();
            if let Some((timer, _)) = self.timers.first() {
                due = if clock::time(*timer) < due {
                    clock::time(*timer)
                } else {
                    due
                };
            }
            consider(if due > paced { due } else { paced });
            if self.settings.budget.first_pass == settings::FirstPass::Free {
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

    /// Tells the scheduler how many elements there will be once all have been polled.
    fn expect(&mut self) {
        let n: u64 = self
            .sources
            .values()
            .map(|state| state.source.totals.n_elements + state.listings.len() as u64)
            .sum();
        self.scheduler.expect(n);
    }

    fn set_timer(&mut self, id: ElementId, due: Moment) {
        self.timers.insert((due, id));
    }

    /// How long an element is out before it is looked at again, in milliseconds.
    fn time_out(&self) -> i64 {
        let n: u64 = self
            .sources
            .values()
            .map(|state| state.source.totals.n_elements + state.source.totals.n_gone)
            .sum();
        let round = n.max(1) as f64 / self.settings.budget.per_day.max(1e-9);
        let days = (ROUNDS_OUT * round).clamp(30.0 / 86_400.0, 30.0);
        (days * 86_400_000.0) as i64
    }
}

/// Elements whose bodies are looked through at the end of a run.
const MOST_TO_LOOK_THROUGH: u32 = 1_000_000;
/// What a robots.txt says holds for a day, in milliseconds.
const ROBOTS_HOLD: i64 = 86_400_000;
/// Timers are no finer than this.
const SHORTEST_WAIT: Duration = Duration::from_micros(500);
/// The most entries of one listing that are read.
const MOST_ENTRIES: usize = 200_000;

/// An address that is none, for a poll that comes to nothing before it begins.
fn robots_free() -> Url {
    Url::parse("http://invalid.invalid/").expect("an address")
}

/// What the scheduler is told of an element.
fn member(
    role: Role,
    weight: f32,
    group: GroupId,
    state: &SourceState,
) -> springtide_policy::Element {
    let mut weight = f64::from(weight);
    if role == Role::Listing {
        weight *= (LISTING_SHARE * state.source.totals.n_elements as f64).max(1.0);
    }
    springtide_policy::Element {
        weight: Weight::new(weight).unwrap_or(Weight::ONE),
        cost: Cost::ONE,
        group: Some(group),
    }
}

/// An element went from one state to another.
fn shift(totals: &mut Totals, from: State, to: State) {
    if from == to {
        return;
    }
    let count = |totals: &mut Totals, state, by: i64| {
        let add = |n: &mut u64| *n = n.saturating_add_signed(by);
        match state {
            State::New => add(&mut totals.n_new),
            State::Ok => {}
            State::Failing => add(&mut totals.n_failing),
            State::Blocked => add(&mut totals.n_blocked),
            State::Gone => add(&mut totals.n_gone),
        }
        if state != State::Gone {
            add(&mut totals.n_elements);
        }
    };
    count(totals, from, -1);
    count(totals, to, 1);
}
