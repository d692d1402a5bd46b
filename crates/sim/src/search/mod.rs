//! A search source on a virtual clock: rows that change, and queries that refresh
//! some of them at once.

mod shipping;

use rand::SeedableRng;
use rand_distr::{Distribution, Exp};
use rand_pcg::Pcg64;
use springtide_policy::agenda::rows::{
    KnownRow, PageRead, RowState, SearchRequest, SearchSource, Settings,
};
use springtide_policy::query::rounds::{Rounds, greedy_order, staleness_share};
use springtide_policy::query::staleness::UpdateModel;
use springtide_policy::query::{CoverProblem, Efficiency, Limits, Live, Queries, Retrieval};
use springtide_policy::value::PollValue;
use springtide_policy::{ElementId, Objective, Rate, Span, Time, Weight};

pub use shipping::{SearchBox, Shipping, Start};

/// Rows that change at known rates, and what the server has besides them.
#[derive(Debug, Clone)]
pub struct SearchWorld {
    rates: Vec<Rate>,
    weights: Vec<Weight>,
    /// When each row changes, in order.
    changes: Vec<Vec<f64>>,
    span: f64,
}

/// Who decides what is asked next.
#[derive(Debug, Clone)]
pub enum Asker {
    /// These queries in this order, again and again.
    InTurn(Vec<usize>),
    /// The loop of the content paper (Algorithm 1): before each loop greedyProbes
    /// chooses at most so many queries as published; they are asked in the order that
    /// is best for the end of the loop; then it sleeps.
    RefreshLocal {
        /// Queries a loop; all that it takes to cover the rows if `None`.
        quota: Option<u64>,
        /// How long it sleeps after a loop.
        sleep: Span,
    },
    /// springtide's own choice where rates are known and all is answered at once: what is
    /// worth most a request now.
    Live,
    /// springtide as it ships: rates are learned, a quota is kept, rows are asked for by
    /// their ids too, and answers are refused or take a while.
    Shipping(Box<Shipping>),
}

/// How stale the copies were.
#[derive(Debug, Clone, PartialEq)]
pub struct Stale {
    /// The weighted staleness of all copies divided by their number, on average over
    /// the time that they were held.
    pub mean: f64,
    /// The same at some moments.
    pub at: Vec<(f64, f64)>,
    /// How often each query was asked, page by page.
    pub n_asked: Vec<u64>,
    /// How often rows were asked for by their ids.
    pub n_by_id: u64,
    /// How many of these requests were refused.
    pub n_refused: u64,
    /// Since when each row is held, in days; infinite if it never was.
    pub held_at: Vec<f64>,
}

impl SearchWorld {
    /// Rows that change at random with these rates for so many days.
    ///
    /// # Panics
    ///
    /// If there are not as many weights as rates.
    pub fn poisson(rates: Vec<Rate>, weights: Vec<Weight>, span: f64, seed: u64) -> Self {
        assert_eq!(rates.len(), weights.len(), "one of each for every row");
        let mut rng = Pcg64::seed_from_u64(seed);
        let changes = rates.iter().map(|rate| {
            let mut times = Vec::new();
            let Ok(gap) = Exp::new(rate.as_per_day()) else {
                return times;
            };
            let mut at = gap.sample(&mut rng);
            while at < span {
                times.push(at);
                at += gap.sample(&mut rng);
            }
            times
        });
        Self {
            changes: changes.collect(),
            rates,
            weights,
            span,
        }
    }

    /// How many rows there are.
    pub fn n_rows(&self) -> usize {
        self.rates.len()
    }

    /// The rows as one who asks knows them at the start.
    fn known_rows(&self, standing: RowState) -> impl Iterator<Item = KnownRow> + '_ {
        (0..)
            .zip(&self.weights)
            .map(move |(row, &weight)| KnownRow {
                element: ElementId(row),
                standing,
                since: Time::START,
                weight,
                staleness_weight: Weight::ONE,
            })
    }

    /// w·F of each row, so long after its last poll.
    fn worth(&self, polled_at: &[f64], now: f64) -> Vec<f64> {
        let rows = self.rates.iter().zip(&self.weights).zip(polled_at);
        rows.map(|((&rate, &weight), polled_at)| {
            let elapsed = Span::days(now - polled_at).expect("time goes on");
            weight.as_f64() * UpdateModel::Poisson(rate).expected(elapsed)
        })
        .collect()
    }
}

/// Asks a world so many requests a day, evenly, each query taking one, and measures
/// how stale the copies were, besides at `n_moments` moments.
pub fn run(
    world: &SearchWorld,
    queries: &Queries,
    asker: &Asker,
    per_day: f64,
    n_moments: u32,
) -> Stale {
    let interval = Span::days(1.0 / per_day).expect("some requests a day");
    let mut copies = Copies::new(world, queries.len(), n_moments);
    let start = Time::START;
    match asker {
        Asker::InTurn(order) => {
            let mut rounds = Rounds::new(order.clone(), interval, Span::ZERO, start);
            while let Some(now) = copies.until(rounds.wake_at()) {
                let query = rounds.next_query(now).expect("it is time");
                copies.ask(query, queries.rows(query), now);
            }
        }
        Asker::RefreshLocal { quota, sleep } => {
            let choose = |copies: &Copies<'_>, from: Time| {
                // As stale as rows will be when the first query is asked.
                let first = from.as_days() + interval.as_days();
                published(world, queries, &copies.polled_at, first, *quota)
            };
            let first = choose(&copies, start);
            let mut rounds = Rounds::new(first, interval, *sleep, start);
            while let Some(now) = copies.until(rounds.wake_at()) {
                let query = rounds.next_query(now).expect("it is time");
                copies.ask(query, queries.rows(query), now);
                if rounds.is_between() {
                    rounds.choose(choose(&copies, now));
                }
            }
        }
        Asker::Live => {
            let settings = Settings::new(Retrieval::USUAL, Objective::Content);
            let live = Live::new(queries.clone(), settings.retrieval);
            let mut source = SearchSource::new(settings, world.known_rows(RowState::Held));
            let generation = source.begin_queries();
            source.set_queries(generation, live, []);
            let value = |&rate: &Rate| PollValue::known(Objective::Content, rate);
            let values: Vec<PollValue> = world.rates.iter().map(value).collect();
            let mut clock = Rounds::new(vec![0], interval, Span::ZERO, start);
            while let Some(now) = copies.until(clock.wake_at()) {
                clock.next_query(now);
                let worth_of = |row: ElementId, _| {
                    let polled_at = copies.polled_at[row.index()];
                    let elapsed = Span::days((now.as_days() - polled_at).max(0.0)).ok()?;
                    Some(values[row.index()].after(elapsed))
                };
                let bid = source.request(&worth_of, now);
                let Some(SearchRequest::Page(page)) = bid.map(|bid| bid.request) else {
                    continue;
                };
                let rows = queries.rows(page.query);
                source.begun(&SearchRequest::Page(page), now);
                source.left(now);
                copies.ask(page.query, rows, now);
                source.answered(now);
                let returned: Vec<ElementId> = rows.iter().map(|&row| ElementId(row)).collect();
                let read = PageRead {
                    n_results: returned.len() as u64,
                    told_total: Some(queries.n_server(page.query)),
                    returned: &returned,
                };
                source.page_read(&page, &read);
                for row in returned {
                    source.polled(row, None, now);
                }
            }
        }
        Asker::Shipping(shipping) => {
            shipping::run(world, queries, shipping, per_day, &mut copies);
        }
    }
    copies.finish()
}

/// The queries of one loop of the content paper, in its order.
fn published(
    world: &SearchWorld,
    queries: &Queries,
    polled_at: &[f64],
    now: f64,
    quota: Option<u64>,
) -> Vec<usize> {
    let worth = world.worth(polled_at, now);
    let problem = CoverProblem {
        queries,
        worth: &worth,
        retrieval: Retrieval::USUAL,
        efficiency: Efficiency::Published,
    };
    let limits = Limits {
        max_queries: quota,
        ..Limits::default()
    };
    let chosen: Vec<usize> = problem
        .lazy(&limits)
        .steps
        .iter()
        .map(|s| s.query)
        .collect();
    let shares: Vec<f64> = chosen
        .iter()
        .map(|&query| {
            let rows = queries.rows(query).iter();
            let change: f64 = rows
                .map(|&row| {
                    world.weights[row as usize].as_f64() * world.rates[row as usize].as_per_day()
                })
                .sum();
            let change = Rate::per_day(change).expect("finite weights and rates");
            staleness_share(change, Span::days(1.0).expect("a day"), world.n_rows())
        })
        .collect();
    greedy_order(&shares)
        .into_iter()
        .map(|place| chosen[place])
        .collect()
}

/// Our copies of the rows, and how stale they have been.
struct Copies<'a> {
    world: &'a SearchWorld,
    polled_at: Vec<f64>,
    /// The first change of each row that its copy has not got.
    next: Vec<usize>,
    /// Since when each is held; infinite if it is not.
    held_at: Vec<f64>,
    /// Weighted staleness, summed over time.
    sum: f64,
    moments: Vec<f64>,
    at: Vec<(f64, f64)>,
    n_asked: Vec<u64>,
    n_by_id: u64,
    n_refused: u64,
}

impl<'a> Copies<'a> {
    fn new(world: &'a SearchWorld, n_queries: usize, n_moments: u32) -> Self {
        let moments = (1..=n_moments).rev();
        let moment = |n: u32| world.span * f64::from(n) / f64::from(n_moments);
        Self {
            world,
            polled_at: vec![0.0; world.n_rows()],
            next: vec![0; world.n_rows()],
            held_at: vec![0.0; world.n_rows()],
            sum: 0.0,
            // The next is the last.
            moments: moments.map(moment).collect(),
            at: Vec::new(),
            n_asked: vec![0; n_queries],
            n_by_id: 0,
            n_refused: 0,
        }
    }

    /// None is held.
    fn forget(&mut self) {
        self.held_at.fill(f64::INFINITY);
    }

    /// Goes on to a time, if it is within the span.
    fn until(&mut self, time: Time) -> Option<Time> {
        let now = time.as_days();
        while let Some(moment) = self.moments.pop_if(|moment| *moment <= now) {
            let stale = self.staleness(moment);
            self.at.push((moment, stale));
        }
        (now <= self.world.span).then_some(time)
    }

    fn ask(&mut self, query: usize, rows: &[u32], now: Time) {
        self.n_asked[query] += 1;
        for &row in rows {
            self.poll(row as usize, now.as_days());
        }
    }

    /// A row's copy is in sync again. Says whether it was not.
    fn poll(&mut self, row: usize, now: f64) -> bool {
        let weight = self.world.weights[row].as_f64();
        let changes = &self.world.changes[row];
        let is_held = self.held_at[row] <= now;
        let mut was_stale = false;
        while let Some(change) = changes.get(self.next[row]).filter(|at| **at <= now) {
            if is_held {
                // The integral of the time since the change.
                self.sum += weight * (now - change).powi(2) / 2.0;
                was_stale = true;
            }
            self.next[row] += 1;
        }
        self.held_at[row] = self.held_at[row].min(now);
        self.polled_at[row] = now;
        was_stale
    }

    /// How stale all copies are.
    fn staleness(&self, now: f64) -> f64 {
        let missed = |row: usize| -> f64 {
            let changes = self.world.changes[row][self.next[row]..].iter();
            let missed = changes.take_while(|at| **at <= now);
            missed.map(|at| now - at).sum()
        };
        let is_held = |row: &usize| self.held_at[*row] <= now;
        let held: Vec<usize> = (0..self.world.n_rows()).filter(is_held).collect();
        let weighted = held
            .iter()
            .map(|&row| self.world.weights[row].as_f64() * missed(row));
        weighted.sum::<f64>() / held.len().max(1) as f64
    }

    fn finish(mut self) -> Stale {
        let end = self.world.span;
        let held_at = self.held_at.clone();
        let held: Vec<usize> = (0..held_at.len())
            .filter(|row| held_at[*row] <= end)
            .collect();
        let mut unheld = 0.0;
        for &row in &held {
            self.poll(row, end);
            unheld += held_at[row];
        }
        Stale {
            mean: self.sum / (held.len() as f64 * end - unheld),
            at: self.at,
            n_asked: self.n_asked,
            n_by_id: self.n_by_id,
            n_refused: self.n_refused,
            held_at,
        }
    }
}
