//! Where a run starts: from what was kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use rand::SeedableRng;
use rand_pcg::Pcg64;
use springtide_policy::agenda::{self, Agenda, FirstPolls, ROBOTS_HOLD, Scope};
use springtide_policy::estimate::DateTrust;
use springtide_policy::schedule::Scheduler;
use springtide_policy::{Elements, GroupId, Groups, Present, Span, Time};
use springtide_store::{
    Bodies, Brief, ElementId, FailureKind, MemoryOf, Moment, Partition, Reader, Role, SourceId,
    SourceKind, Sqlite, State,
};
use tokio::sync::{Semaphore, broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::conclude::member;
use super::entries::Pauses;
use super::listings::FreeListings;
use super::upkeep::Upkeep;
use super::{Engine, Progress, Protocols, RunOptions, RunScope, SourceState};
use crate::event::Event;
use crate::fetch::{Client, limits_of};
use crate::ledger::Ledger;
use crate::new_elements::NewElements;
use crate::poll::PollContext;
use crate::reach::{Reach, Reaches};
use crate::robots_cache::{self, RobotsCache};
use crate::settings::{FeedEntries, FirstPass, Settings};
use crate::trust::Trust;
use crate::{Error, Outside, choose, clock, clock_step, register};

/// Elements without a copy that are checked at the start: did the settings refuse their last
/// poll?
const MAX_RECHECKED: usize = 100_000;
/// A listing waits no longer than a day, whatever is learned of it.
const LONGEST_LISTING_WAIT: f64 = 1.0;

impl Engine {
    pub(super) fn open(
        folder: &Path,
        mut settings: Settings,
        options: RunOptions,
        events: broadcast::Sender<Event>,
        outside: Outside,
    ) -> Result<Self, Error> {
        let begun = Instant::now();
        // As if they were not there: what is kept of them stays, and nobody is asked.
        settings.sources.retain(|source| !source.is_paused);
        let Outside { clock, wire, seed } = outside;
        let now = clock.now();
        let at = clock::time(now);
        let inner = folder.join(".springtide");
        let mut store = Sqlite::create_or_open(&inner)?;
        clock_step::shift_hosts(&mut store, &clock)?;
        let bodies = Arc::new(Bodies::open(inner.join("bodies"))?);
        let client = Client::over(wire, &settings.http, clock)?;
        let mut reaches = Reaches::new(settings.http.allow_private.clone(), client.clone());
        let reconciled = register::reconcile(&mut store, &settings, now, &mut |_| {})?;

        let mut rng = Pcg64::seed_from_u64(seed);
        let (mut sources, mut kept_sources) = (BTreeMap::new(), BTreeMap::new());
        for source in store.sources()? {
            let Some(wanted) = settings.sources.iter().find(|s| s.name == source.name) else {
                continue;
            };
            let state = SourceState {
                settings: wanted.clone(),
                reach: reaches.of(wanted)?,
                protocols: Protocols::of(wanted, settings.http.max_body)?,
                dates: DateTrust::default(),
                push: None,
                has_sitemaps: false,
                n_listings: 0,
                n_rows_seen: 0,
                absent: Vec::new(),
            };
            sources.insert(source.id, state);
            kept_sources.insert(source.id, source);
        }
        let all_sources: Vec<_> = kept_sources.values().cloned().collect();
        let upkeep = Upkeep::new(&inner, &settings, &store, &all_sources, &bodies)?;
        let trust = Trust::read(&store)?;
        let ledger = Ledger::new(Box::new(store), kept_sources)?;
        let mut agenda = agenda_of(&settings, &ledger, at, &mut rng)?;
        agenda.set_scope(match &options.scope {
            RunScope::Everything => Scope::Everything,
            RunScope::DueNow => Scope::DueBy(at),
            RunScope::These(_) => Scope::Asked,
        });
        // Limits hold from the first request on, whoever it is for.
        for group in ledger.store().groups()? {
            if group.parent.is_none() {
                let (gap, concurrency) = limits_of(&group.name, &settings.groups);
                agenda.gate_mut().set_limit(group.id, gap, concurrency);
            }
        }
        let mut robots_cache = RobotsCache::default();
        robots_cache::recall(agenda.gate_mut(), &mut robots_cache, ledger.store(), now)?;

        let (to_loop, messages) = mpsc::unbounded_channel();
        let context = PollContext {
            client,
            reach: Reach::default(),
            clock,
            bodies,
            to_loop,
            max_body: settings.http.max_body,
            one_at_a_time: Arc::new(Semaphore::new(1)),
            under_way: Arc::default(),
        };
        let mut engine = Self {
            progress: Progress {
                started_at: now,
                deadline: options.span.map(|span| begun + span),
                ..Progress::default()
            },
            settings,
            options,
            clock,
            rng,
            agenda,
            ledger,
            robots_cache,
            new_elements: NewElements::default(),
            sources,
            searches: BTreeMap::new(),
            tables: BTreeMap::new(),
            shared_hosts: BTreeSet::new(),
            host_problems: BTreeMap::new(),
            context,
            reaches,
            messages,
            tasks: JoinSet::new(),
            preparations: JoinSet::new(),
            tickets: BTreeMap::new(),
            next_ticket: 0,
            launches: Vec::new(),
            listed: VecDeque::new(),
            pauses: Pauses::default(),
            trust,
            free_listings: FreeListings::default(),
            changed_groups: BTreeSet::new(),
            upkeep,
            events,
            pending_events: Vec::new(),
            noted: Vec::new(),
        };
        engine.recall_host_problems(at)?;
        let n_elements = engine.recall_elements(at)?;
        engine.open_searches(at)?;
        engine.open_tables(now)?;
        engine.progress.is_first_pass_over = engine.n_new() == 0;
        engine.expect();
        if let RunScope::These(ids) = &engine.options.scope {
            engine.poll_next(ids.clone())?;
        }
        let (n_new, seconds) = (engine.n_new(), begun.elapsed().as_secs_f64());
        engine.pending_events.push(Event::Started {
            n_elements,
            n_new,
            seconds,
        });
        let imported = reconciled.imported.into_iter();
        let in_part = imported.filter_map(|(name, list)| Some((name, list.lines_left_out()?)));
        for (source, message) in reconciled.failed.into_iter().chain(in_part) {
            engine
                .pending_events
                .push(Event::SourceFailed { source, message });
        }
        Ok(engine)
    }

    /// Takes in all elements; says how many there are.
    fn recall_elements(&mut self, at: Time) -> Result<u64, Error> {
        // What was polled in the future was polled by a clock that was wrong: it is not
        // waited for.
        let seen_at = |moment: Moment| {
            let then = clock::time(moment);
            if then > at { at } else { then }
        };
        let mut n_elements = 0;
        let mut out: Vec<(ElementId, GroupId, Time, bool)> = Vec::new();
        // Tables that never answered are polled at once: their owner may have fixed them.
        let mut unread: Vec<(ElementId, GroupId)> = Vec::new();
        let mut listings = Vec::new();
        let (mut search_groups, mut other_groups) = (BTreeSet::new(), BTreeSet::new());
        let Self {
            agenda,
            ledger,
            sources,
            ..
        } = self;
        let has_search = sources
            .values()
            .any(|state| state.settings.search.is_some());
        let scheduler = agenda.scheduler_mut();
        scheduler.reserve(ledger.next_element() as usize);
        ledger.store().scan(1, &mut |id, brief: &Brief| {
            let Some(state) = sources.get_mut(&brief.source) else {
                return;
            };
            let is_search = state.settings.search.is_some();
            let is_watched = is_search || brief.role == Role::Entry;
            if is_search {
                search_groups.insert(brief.group);
            } else if has_search {
                other_groups.insert(brief.group);
            }
            if is_search && brief.role == Role::Listing {
                // The search box itself, which is asked as its queries are.
                return;
            }
            if brief.role == Role::Listing {
                listings.push((id, brief.source, brief.history.polled_at.map(seen_at)));
                state.has_sitemaps = true;
                state.n_listings += 1;
            }
            let is_counted = brief.state != State::Gone && brief.role != Role::Listing;
            n_elements += u64::from(is_counted);
            match (brief.state, brief.history.synced_at) {
                (State::New, _) => {}
                (State::Failing, None) if state.settings.kind == SourceKind::Table => {
                    unread.push((id, scheduler.groups().outermost(brief.group)));
                }
                (State::Gone, _) | (_, None) => {
                    let polled_at = brief.history.polled_at.map_or(at, seen_at);
                    let group = scheduler.groups().outermost(brief.group);
                    out.push((id, group, polled_at, brief.state == State::Gone));
                }
                (_, Some(synced_at)) => {
                    let n = ledger
                        .source(brief.source)
                        .map_or(0, |s| s.totals.n_elements);
                    let settings = &state.settings;
                    let element = member(settings, brief.role, brief.weight, brief.group, n);
                    let (synced_at, memory) = (seen_at(synced_at), &brief.history.memory);
                    match is_watched {
                        true => scheduler.recall_watched(id, element, synced_at, memory),
                        false => scheduler.recall(id, element, synced_at, memory),
                    }
                }
            }
        })?;
        scheduler.recalled(at, &mut self.rng);
        let outermost = |group| scheduler.groups().outermost(group);
        let search_hosts: BTreeSet<GroupId> = search_groups.into_iter().map(outermost).collect();
        self.shared_hosts = other_groups.into_iter().map(outermost).collect();
        for (id, source, polled_at) in listings {
            let longest = self.longest_listing_wait(source);
            self.agenda.set_listing(id, polled_at, longest);
        }
        self.recall_pauses()?;
        self.recall_free_listings()?;
        // What is left of `recheck_interval`; how often each has failed is not kept.
        let recheck_interval = self.recheck_interval();
        // `allow_private` may have been set since.
        let rechecks = self.reaches.has_private() && out.len() <= MAX_RECHECKED;
        for (id, group, polled_at, is_gone) in out {
            let wait = match is_gone {
                false if recheck_interval > ROBOTS_HOLD => ROBOTS_HOLD,
                _ => recheck_interval,
            };
            let is_rechecked = !is_gone && rechecks && self.was_not_allowed(id)?;
            if is_rechecked && !search_hosts.contains(&group) {
                // Nothing was requested: its first poll is still to come, and as free as others.
                self.new_elements.expect_again(group, id);
                self.agenda.add_new(Some(group), 1, at);
                continue;
            }
            let due = if is_rechecked { at } else { polled_at + wait };
            self.agenda.look_at(id, Some(group), due);
        }
        for (id, group) in unread {
            self.agenda.look_at(id, Some(group), at);
        }
        for (group, n) in self.ledger.store().n_new()? {
            if !search_hosts.contains(&group) {
                self.new_elements.expect(group);
                self.agenda.add_new(Some(group), n, at);
            }
        }
        self.agenda.set_n_known(self.ledger.next_element());
        Ok(n_elements)
    }

    /// Whether the settings kept the last poll of an element from being made.
    fn was_not_allowed(&self, id: ElementId) -> Result<bool, Error> {
        let failure = self.ledger.kept(id)?.and_then(|kept| kept.failure);
        Ok(failure.is_some_and(|failure| failure.kind == FailureKind::Address))
    }

    /// Someone wants these to be polled next.
    pub(super) fn poll_next(&mut self, ids: Vec<ElementId>) -> Result<(), Error> {
        for id in ids {
            let kept = self.ledger.kept(id)?;
            // The rows of a block that was merged are another's now.
            if kept.as_ref().is_some_and(|kept| self.is_retired(kept)) {
                continue;
            }
            let kept = kept.map(|kept| self.polled_for(kept)).transpose()?;
            let polled = kept.as_ref().map_or(id, |kept| kept.element.id);
            // Several entries of a feed are had by one poll of it.
            if polled == id || self.agenda.asked().all(|asked| asked != polled) {
                let group = kept.map(|kept| kept.element.host);
                self.agenda.ask_for(polled, group);
            }
        }
        Ok(())
    }

    /// How many elements have never been polled, and rows never had.
    pub(super) fn n_new(&self) -> u64 {
        self.agenda.n_new() + self.agenda.n_new_rows()
    }

    /// How long a listing of a source waits at the most.
    pub(super) fn longest_listing_wait(&self, source: SourceId) -> Span {
        let set = self
            .sources
            .get(&source)
            .and_then(|s| s.settings.list_every);
        set.unwrap_or_else(|| Span::days(LONGEST_LISTING_WAIT).expect("a day"))
    }

    /// Tells the scheduler how many elements there will be once all have been polled.
    pub(super) fn expect(&mut self) {
        let n: u64 = self
            .ledger
            .sources()
            .map(|source| {
                let n = source.totals.n_elements;
                let settings = self.sources.get(&source.id).map(|state| &state.settings);
                let has_entries = settings.is_some_and(|settings| {
                    settings.kind == SourceKind::Feed && settings.entries == FeedEntries::Content
                });
                if has_entries {
                    // They come with the feed.
                    return 0;
                }
                match settings.and_then(|settings| settings.search.as_ref()) {
                    // As many requests as it takes to have all its rows, at the least.
                    Some(search) => n.div_ceil(u64::from(search.page_size.max(1))),
                    None => n,
                }
            })
            .sum();
        let n = n + self.agenda.n_listings() as u64;
        self.agenda.scheduler_mut().expect(n);
    }

    /// How long an element is out before it is looked at again.
    pub(super) fn recheck_interval(&self) -> Span {
        let totals = self.ledger.sources().map(|source| source.totals);
        let n: u64 = totals.map(|totals| totals.n_elements + totals.n_gone).sum();
        self.agenda.recheck_interval(n)
    }
}

/// The agenda that the settings ask for, with what was remembered of its parts.
fn agenda_of(
    settings: &Settings,
    ledger: &Ledger,
    at: Time,
    rng: &mut Pcg64,
) -> Result<Agenda, Error> {
    let store = ledger.store();
    let mut groups = Groups::new();
    for group in store.groups()? {
        if groups.add(group.parent) != group.id {
            return Err(Error::Numbering);
        }
    }
    let budget = &settings.budget;
    let remembered = store.memory(MemoryOf::Pace(Partition::WHOLE))?;
    let pace = choose::pace(budget, remembered.as_deref(), at);
    let (choice, terms) = choose::policy(settings)?;
    let nobody = Elements::new();
    let mut scheduler = Scheduler::new(choice, terms, groups, Present::all(&nobody), at, rng);
    if let Some(bytes) = store.memory(MemoryOf::Scheduler(Partition::WHOLE))? {
        scheduler.recall_all(&bytes);
    }
    for (group, bytes) in store.group_memories()? {
        scheduler.recall_group(group, &bytes);
    }
    let settings = agenda::Settings {
        audit: budget.audit,
        first_pass: match budget.first_pass {
            FirstPass::Free => FirstPolls::Free,
            FirstPass::Counted => FirstPolls::Counted,
        },
        window: budget.window,
    };
    Ok(Agenda::new(scheduler, Some(pace), settings))
}
