//! A search source on a virtual clock: rows that change, and queries that refresh
//! some of them at once.

use rand::SeedableRng;
use rand_distr::{Distribution, Exp};
use rand_pcg::Pcg64;
use springtide_policy::query::rounds::{Rounds, greedy_order, staleness_share};
use springtide_policy::query::staleness::UpdateModel;
use springtide_policy::query::{Choice, Efficiency, Limits, Live, Page, Queries, Retrieval};
use springtide_policy::value::PollValue;
use springtide_policy::{Objective, Rate, Span, Time, Weight};

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
    /// springtide's own: what is worth most a request now.
    Live,
}

/// How stale the copies were.
#[derive(Debug, Clone, PartialEq)]
pub struct Stale {
    /// The weighted staleness of all rows divided by their number, on average over
    /// time.
    pub mean: f64,
    /// The same at some moments.
    pub at: Vec<(f64, f64)>,
    /// How often each query was asked.
    pub n_asked: Vec<u64>,
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

    /// What polling each row is worth, by its rate and weight.
    fn values(&self) -> Vec<PollValue> {
        let each = self.rates.iter().zip(&self.weights);
        each.map(|(&rate, &weight)| PollValue::known(Objective::Content, rate).weighing(weight))
            .collect()
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
            let mut live = Live::new(queries.clone(), Retrieval::USUAL);
            let values = world.values();
            let mut clock = Rounds::new(vec![0], interval, Span::ZERO, start);
            while let Some(now) = copies.until(clock.wake_at()) {
                clock.next_query(now);
                let since = |polled_at: &f64| Span::days((now.as_days() - polled_at).max(0.0));
                let each = values.iter().zip(&copies.polled_at);
                let worth: Vec<f64> = each
                    .map(|(value, polled_at)| value.after(since(polled_at).expect("a time")))
                    .collect();
                let Some(best) = live.best(&worth) else {
                    continue;
                };
                let returned = queries.rows(best.query);
                let page = Page {
                    number: best.page,
                    returned,
                    total: None,
                    at_least: 0.0,
                };
                live.read(best.query, &page);
                copies.ask(best.query, returned, now);
            }
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
    let choice = Choice {
        queries,
        worth: &worth,
        retrieval: Retrieval::USUAL,
        efficiency: Efficiency::Published,
    };
    let limits = Limits {
        max_queries: quota,
        ..Limits::default()
    };
    let chosen: Vec<usize> = choice.lazy(&limits).steps.iter().map(|s| s.query).collect();
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
    /// Weighted staleness, summed over time.
    sum: f64,
    moments: Vec<f64>,
    at: Vec<(f64, f64)>,
    n_asked: Vec<u64>,
}

impl<'a> Copies<'a> {
    fn new(world: &'a SearchWorld, n_queries: usize, n_moments: u32) -> Self {
        let moments = (1..=n_moments).rev();
        let moment = |n: u32| world.span * f64::from(n) / f64::from(n_moments);
        Self {
            world,
            polled_at: vec![0.0; world.n_rows()],
            next: vec![0; world.n_rows()],
            sum: 0.0,
            // The next is the last.
            moments: moments.map(moment).collect(),
            at: Vec::new(),
            n_asked: vec![0; n_queries],
        }
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

    /// A row's copy is in sync again.
    fn poll(&mut self, row: usize, now: f64) {
        let weight = self.world.weights[row].as_f64();
        let changes = &self.world.changes[row];
        while let Some(change) = changes.get(self.next[row]).filter(|at| **at <= now) {
            // The integral of the time since the change.
            self.sum += weight * (now - change).powi(2) / 2.0;
            self.next[row] += 1;
        }
        self.polled_at[row] = now;
    }

    /// How stale all copies are.
    fn staleness(&self, now: f64) -> f64 {
        let missed = |row: usize| -> f64 {
            let changes = self.world.changes[row][self.next[row]..].iter();
            let missed = changes.take_while(|at| **at <= now);
            missed.map(|at| now - at).sum()
        };
        let n = self.world.n_rows();
        let weighted = (0..n).map(|row| self.world.weights[row].as_f64() * missed(row));
        weighted.sum::<f64>() / n as f64
    }

    fn finish(mut self) -> Stale {
        let end = self.world.span;
        for row in 0..self.world.n_rows() {
            self.poll(row, end);
        }
        Stale {
            mean: self.sum / (self.world.n_rows() as f64 * end),
            at: self.at,
            n_asked: self.n_asked,
        }
    }
}
