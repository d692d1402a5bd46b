//! A project from its first minute, as the engine runs one: new elements, hosts with
//! limits, audits, and a clock that ticks.
//!
//! [`run`](crate::run()) plays policies on elements whose copies are in sync at the start,
//! on a clock that is never late. This plays the same agenda as a driver with sockets
//! would: for the same world, clock and seed it asks for the same elements at the same
//! times as the engine does.

use std::collections::{BTreeMap, VecDeque};

use rand::SeedableRng;
use rand_pcg::Pcg64;
use springtide_policy::agenda::rows::{PageRead, RowChange, SearchRequest, SearchSource};
use springtide_policy::agenda::{self, Agenda, Pace, Poll, Request, SearchId, SearchPoll, Verdict};
use springtide_policy::schedule::{Choice, Scheduler, Terms};
use springtide_policy::{
    Element, ElementId, Elements, GroupId, Outcome, Present, Purpose, Span, Time,
};

use crate::world::{Cursor, World, id};

/// What is kept fresh, and how.
#[derive(Debug, Clone)]
pub struct Project {
    /// How polls are chosen.
    pub choice: Choice,
    /// The budget, and what else is to be kept to.
    pub terms: Terms,
    /// Audits, and whether first polls count.
    pub agenda: agenda::Settings,
    /// The least time between requests to outermost groups, and how many at a time.
    pub limits: Vec<(GroupId, Span, u32)>,
    /// How many requests all elements take, where that is not their number: rows come
    /// many at a time.
    pub n_expected: Option<u64>,
    /// Where random numbers start.
    pub seed: u64,
}

/// A clock that ticks in milliseconds.
pub trait Ticks {
    /// A number of milliseconds as the time that policies know.
    fn time(&self, millis: i64) -> Time;
    /// How many milliseconds pass before whoever asks at `now` to be woken at a time is.
    fn sleep(&self, wake_at: Time, now: i64) -> i64;
}

/// A search source of a project.
pub struct Shop<'a> {
    /// What is decided about it. Its rows are elements beside those of the world, and
    /// have higher numbers.
    pub source: SearchSource,
    /// The outermost group that it is asked through.
    pub group: GroupId,
    /// What the scheduler is told of its rows.
    pub row: Element,
    /// Who answers.
    pub answers: &'a mut dyn SearchBox,
}

/// Who answers requests to a search source.
pub trait SearchBox {
    /// A page of the answer to a query, counted from 1, at a tick.
    fn page(&mut self, query: &str, number: u64, at: i64) -> Page;
    /// Whether a row that is asked for by its id has changed since it last came.
    fn row(&mut self, row: ElementId, at: i64) -> bool;
}

/// A page of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// How many results are on it.
    pub n_results: u64,
    /// How many the query has in all, if that is told.
    pub total: Option<f64>,
    /// Our rows on it, and whether each has changed since it last came.
    pub rows: Vec<(ElementId, bool)>,
}

/// A request to a search source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// A page of the answer to a query.
    Page(String, u64),
    /// A row by its id.
    Row(ElementId),
}

/// A poll that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// When, in milliseconds.
    pub at: i64,
    /// Of which element.
    pub element: usize,
    /// Why.
    pub purpose: Purpose,
    /// Whether it found a change.
    pub changed: bool,
}

/// Plays a project in which everything is new, from one tick to another, telling `watch`
/// of every poll. Answers take no time. The world's time starts with the project's.
pub fn play(
    world: &World,
    project: &Project,
    clock: &dyn Ticks,
    (start, end): (i64, i64),
    watch: &mut dyn FnMut(Asked),
) {
    play_with(
        world,
        project,
        &mut [],
        clock,
        (start, end),
        watch,
        &mut |_, _| {},
    );
}

/// The same with search sources; `ask` is told of every request to them.
pub fn play_with(
    world: &World,
    project: &Project,
    shops: &mut [Shop<'_>],
    clock: &dyn Ticks,
    (start, end): (i64, i64),
    watch: &mut dyn FnMut(Asked),
    ask: &mut dyn FnMut(i64, Question),
) {
    let mut rng = Pcg64::seed_from_u64(project.seed);
    let mut at = clock.time(start);
    let (mut agenda, mut newcomers) = open(world, project, at, &mut rng);
    for (number, shop) in (0..).zip(shops.iter()) {
        agenda.add_search(SearchId(number), shop.source.clone(), shop.group);
    }
    if let Some(n) = project.n_expected {
        agenda.scheduler_mut().expect(n);
    }
    let mut copies: Vec<Cursor> = (0..world.n_elements()).map(|i| world.cursor(i)).collect();
    let mut now = start;
    loop {
        let (mut polls, mut searches) = (Vec::new(), Vec::new());
        while let Some(request) = agenda.next(at, &mut rng) {
            match request {
                Request::Poll(poll) => polls.push(poll),
                Request::Search(poll) => {
                    if let Some(source) = agenda.search_mut(poll.source) {
                        source.left(at);
                    }
                    searches.push(poll);
                }
                Request::New { group, is_counted } => {
                    let new = newcomers.get_mut(&group).and_then(VecDeque::pop_front);
                    let Some(id) = new else {
                        agenda.no_more_new(group, is_counted, at);
                        continue;
                    };
                    agenda.set_under_way(id);
                    polls.push(Poll {
                        id,
                        group,
                        purpose: Purpose::First,
                        is_counted,
                        cost: 1.0,
                    });
                }
                _ => {}
            }
        }
        if polls.is_empty() && searches.is_empty() {
            now += clock.sleep(agenda.wake_at(at), now);
            if now >= end {
                return;
            }
            at = clock.time(now);
            continue;
        }
        let groups: Vec<GroupId> = polls
            .iter()
            .filter_map(|poll| poll.group)
            .chain(searches.iter().map(|search| search.group))
            .collect();
        for &group in &groups {
            agenda.gate_mut().left(group, at);
        }
        for &group in &groups {
            agenda.ended(group, Verdict::Fine, at, &mut rng);
        }
        for search in searches {
            let shop = &mut shops[search.source.0 as usize];
            answer(&mut agenda, shop, &search, (now, at), ask);
        }
        for poll in polls {
            let index = poll.id.index();
            let changed = look(
                world,
                &mut copies[index],
                index,
                (now - start) as f64 / MS_PER_DAY,
            );
            let is_new = !agenda.scheduler().contains(poll.id);
            watch(Asked {
                at: now,
                element: index,
                purpose: poll.purpose,
                changed: changed && !is_new,
            });
            match (is_new, changed) {
                (true, _) => agenda.join(poll.id, world.element(index), at, &mut rng),
                (_, true) => agenda.observe(poll.id, Outcome::Changed { age: None }, at),
                (_, false) => agenda.observe(poll.id, Outcome::Unchanged, at),
            }
        }
    }
}

const MS_PER_DAY: f64 = 86_400_000.0;

/// What follows from the answer to a request to a search source.
fn answer(
    agenda: &mut Agenda,
    shop: &mut Shop<'_>,
    search: &SearchPoll,
    (now, at): (i64, Time),
    ask: &mut dyn FnMut(i64, Question),
) {
    agenda.search_over(&search.request);
    let Some(source) = agenda.search_mut(search.source) else {
        return;
    };
    source.answered(at);
    let page = match search.request {
        SearchRequest::Page(request) => {
            let text = source.text(&request).unwrap_or_default();
            let page = shop.answers.page(&text, request.number, now);
            ask(now, Question::Page(text, request.number));
            Some((request, page))
        }
        SearchRequest::Row(_) => None,
    };
    let rows = match (&page, search.request) {
        (Some((_, page)), _) => page.rows.clone(),
        (None, SearchRequest::Row(row)) => {
            ask(now, Question::Row(row));
            vec![(row, shop.answers.row(row, now))]
        }
        (None, SearchRequest::Page(_)) => Vec::new(),
    };
    for &(row, has_changed) in &rows {
        let is_held = agenda.scheduler().contains(row);
        match (is_held, has_changed) {
            (false, _) => agenda.watch(row, shop.row, at),
            (true, true) => agenda.observe(row, Outcome::Changed { age: None }, at),
            (true, false) => agenda.observe(row, Outcome::Unchanged, at),
        }
        // What came for the first time is news, and no change.
        let change = (has_changed || !is_held).then_some(RowChange {
            difference: None,
            staleness_weight: None,
            has_new_terms: false,
        });
        if let Some(source) = agenda.search_mut(search.source) {
            source.polled(row, change.as_ref(), at);
        }
    }
    if let Some((request, page)) = page
        && let Some(source) = agenda.search_mut(search.source)
    {
        let returned: Vec<ElementId> = page.rows.iter().map(|&(row, _)| row).collect();
        let read = PageRead {
            n_results: page.n_results,
            told_total: page.total,
            returned: &returned,
        };
        source.page_read(&request, &read);
    }
}

/// New elements by group, in the order of their numbers.
type Newcomers = BTreeMap<Option<GroupId>, VecDeque<ElementId>>;

fn open(world: &World, project: &Project, at: Time, rng: &mut Pcg64) -> (Agenda, Newcomers) {
    let (terms, nobody) = (project.terms.clone(), Elements::new());
    let pace = Pace::new(terms.budget.as_per_day(), project.agenda.window, None, at);
    let groups = world.groups().clone();
    let present = Present::all(&nobody);
    let mut scheduler = Scheduler::new(project.choice.clone(), terms, groups, present, at, rng);
    scheduler.recalled(at, rng);
    let mut agenda = Agenda::new(scheduler, Some(pace), project.agenda);
    for &(group, gap, concurrency) in &project.limits {
        agenda.gate_mut().set_limit(group, gap, concurrency);
    }
    let mut newcomers = Newcomers::new();
    for index in 0..world.n_elements() {
        let group = world.element(index).group;
        let outermost = group.map(|group| world.groups().outermost(group));
        newcomers.entry(outermost).or_default().push_back(id(index));
    }
    for (&group, ids) in &newcomers {
        agenda.add_new(group, ids.len() as u64, at);
    }
    agenda.set_n_known(world.n_elements() as u32);
    agenda.scheduler_mut().expect(world.n_elements() as u64);
    (agenda, newcomers)
}

/// Whether an element has changed since it was last looked at.
fn look(world: &World, cursor: &mut Cursor, index: usize, now: f64) -> bool {
    let mut has_changed = false;
    while cursor.next <= now {
        has_changed = true;
        world.step(index, cursor);
    }
    has_changed
}
