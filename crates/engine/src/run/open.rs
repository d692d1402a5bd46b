//! Where a run starts: from what was kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use rand::SeedableRng;
use rand_pcg::Pcg64;
use springtide_policy::agenda::{self, Pace};
use springtide_policy::schedule::Scheduler;
use springtide_policy::{Elements, Groups, Present};
use springtide_store::{Bodies, Brief, Moment, Role, Sqlite, State, Store};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::conclude::{ROBOTS_HOLD, member};
use super::{Engine, SourceState, Until, What};
use crate::detect::Lens;
use crate::event::Event;
use crate::fetch::Client;
use crate::first_pass::FirstPass;
use crate::hosts::Hosts;
use crate::poll::Means;
use crate::settings::Settings;
use crate::timers::Timers;
use crate::{Error, Outside, choose, clock, register};

/// An element that is gone, or that we are to keep away from, is looked at again after
/// so many rounds of all elements.
const ROUNDS_OUT: f64 = 5.0;

impl Engine {
    pub(super) fn open(
        folder: &Path,
        settings: Settings,
        until: Until,
        events: mpsc::UnboundedSender<Event>,
        outside: Outside,
    ) -> Result<Self, Error> {
        let begun = Instant::now();
        let Outside { clock, wire, seed } = outside;
        let now = clock.now();
        let inner = folder.join(".springtide");
        let mut store = Sqlite::create_or_open(&inner)?;
        let bodies = Arc::new(Bodies::open(inner.join("bodies"))?);
        let client = Client::over(wire, &settings.http, clock)?;
        let registered = register::register(&mut store, &settings, now, &mut |_| {})?;

        let mut rng = Pcg64::seed_from_u64(seed);
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
        let burst = budget.burst.map(|burst| agenda::Burst {
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
        let has_search = sources
            .values()
            .any(|state| state.settings.search.is_some());
        let (mut search_groups, mut other_groups) = (BTreeSet::new(), BTreeSet::new());
        store.scan(1, &mut |id, brief: &Brief| {
            let Some(state) = sources.get_mut(&brief.source) else {
                return;
            };
            let is_search = state.settings.search.is_some();
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
                    if is_search {
                        scheduler.recall_watched(id, element, clock::time(synced_at), memory);
                        return;
                    }
                    scheduler.recall(id, element, clock::time(synced_at), memory);
                }
            }
        })?;
        scheduler.recalled(at, &mut rng);

        let shared_hosts = other_groups
            .into_iter()
            .map(|group| scheduler.groups().outermost(group))
            .collect();

        let (to_loop, messages) = mpsc::unbounded_channel();
        let means = Means {
            client,
            clock,
            bodies,
            to_loop,
            max_body: settings.http.max_body,
            one_at_a_time: Arc::new(Semaphore::new(1)),
        };
        let first_pass = FirstPass::new(&store, &search_groups)?;
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
            clock,
            rng,
            scheduler,
            closed: BTreeMap::new(),
            pace,
            hosts,
            first_pass,
            sources,
            searches: BTreeMap::new(),
            search_hosts: BTreeMap::new(),
            is_turn_of_new: BTreeSet::new(),
            shared_hosts,
            preparations: JoinSet::new(),
            places: None,
            facts: Vec::new(),
            changed_groups: BTreeSet::new(),
            changed_sources: BTreeSet::new(),
            launches: Vec::new(),
            told: Vec::new(),
            obsolete: Vec::new(),
            timers: Timers::default(),
            asked,
            listed: VecDeque::new(),
            under_way: BTreeSet::new(),
            n_questions: 0,
            is_turn_of_searches: false,
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
            engine
                .timers
                .set(id, Moment(polled_at.0.saturating_add(wait)));
        }
        engine.open_searches(now)?;
        engine.is_first_pass_over &= engine.n_new_rows() == 0;
        engine.expect();
        engine.tell(Event::Started {
            n_elements,
            n_new: engine.first_pass.n_left() + engine.n_new_rows(),
            seconds: begun.elapsed().as_secs_f64(),
        });
        for (source, message) in registered.failed {
            engine.tell(Event::SourceFailed { source, message });
        }
        Ok(engine)
    }

    /// Tells the scheduler how many elements there will be once all have been polled.
    pub(super) fn expect(&mut self) {
        let n: u64 = self
            .sources
            .values()
            .map(|state| {
                let n = state.source.totals.n_elements;
                match &state.settings.search {
                    // As many requests as it takes to have all its rows, at the least.
                    Some(search) => n.div_ceil(u64::from(search.page_size.max(1))),
                    None => n + state.listings.len() as u64,
                }
            })
            .sum();
        self.scheduler.expect(n);
    }

    /// How long an element is out before it is looked at again, in milliseconds.
    pub(super) fn time_out(&self) -> i64 {
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
