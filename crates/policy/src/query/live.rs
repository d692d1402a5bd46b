//! Which query to ask next, while rows grow stale: the rule for a live source.

use std::collections::BTreeMap;

use super::candidates::{Queries, Retrieval};
use crate::value::PollValue;
use crate::{Span, Time};

/// The choice of the next query of a search source, from moment to moment.
///
/// A query is worth the sum, over its rows, of what refreshing each is worth now,
/// times the chance that it is returned, per request:
///
/// ```text
/// Σ p(r)·w(r)·U(t − t(r)) / N(q),  r ∈ R_L(q)
/// ```
///
/// A row that another query has just returned is worth next to nothing, and one that
/// nobody has asked for in a long time much: overlaps, order and frequencies of the
/// queries come out by themselves. The value is in the same unit as that of any other
/// poll, so that one price and one budget serve all sources.
///
/// It does nothing by itself: it is told what was [answered](Live::answered) and
/// says which query is [best](Live::best).
#[derive(Debug, Clone)]
pub struct Live {
    queries: Queries,
    retrieval: Retrieval,
    values: Vec<PollValue>,
    polled_at: Vec<Time>,
    /// What each query's answer said last, by query.
    totals: BTreeMap<usize, f64>,
    /// How many rows queries were said to find, and how many they were taken to.
    reported: f64,
    predicted: f64,
    /// How often a query was asked, and how often a row was in the answer, for queries
    /// that have ever left one out.
    returns: BTreeMap<usize, Returns>,
}

#[derive(Debug, Clone)]
struct Returns {
    n_asked: u32,
    n_returned: Vec<u32>,
}

/// A query that could be asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    /// Which one.
    pub query: usize,
    /// How many requests it is expected to take.
    pub n_requests: u64,
    /// What it is worth a request.
    pub value: f64,
}

/// What a query was answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer<'a> {
    /// Our rows that were among the results.
    pub returned: &'a [u32],
    /// How many results there are in all, if the server says.
    pub total: Option<f64>,
}

/// How many results' worth of trust there is in the estimates to begin with.
const TRUST: f64 = 10.0;

impl Live {
    /// Queries about rows that were polled at these times, and what polling each is
    /// worth.
    ///
    /// # Panics
    ///
    /// If there are not as many values as times.
    pub fn new(
        queries: Queries,
        retrieval: Retrieval,
        values: Vec<PollValue>,
        polled_at: Vec<Time>,
    ) -> Self {
        assert_eq!(values.len(), polled_at.len(), "one of each for every row");
        Self {
            queries,
            retrieval,
            values,
            polled_at,
            totals: BTreeMap::new(),
            reported: 0.0,
            predicted: 0.0,
            returns: BTreeMap::new(),
        }
    }

    /// The queries it chooses from.
    pub fn queries(&self) -> &Queries {
        &self.queries
    }

    /// When a row was last polled, by whatever request.
    pub fn polled_at(&self, row: u32) -> Time {
        self.polled_at[row as usize]
    }

    /// The worth of polling a row is another, since more is known of its rate.
    pub fn set_value(&mut self, row: u32, value: PollValue) {
        self.values[row as usize] = value;
    }

    /// How many rows a query is taken to find on the server: what its last answer
    /// said, else the estimate, corrected by what answers have said of others.
    ///
    /// ```text
    /// |R_S(q)| · (Σ said + t) / (Σ estimated + t)
    /// ```
    ///
    /// over all answers, t being how far the estimates are trusted: the mean of a gamma
    /// distribution for a common factor. Never below what we hold.
    pub fn n_server(&self, query: usize) -> f64 {
        if let Some(total) = self.totals.get(&query) {
            return *total;
        }
        let factor = (self.reported + TRUST) / (self.predicted + TRUST);
        let least = self.queries.rows(query).len() as f64;
        (self.queries.n_server(query) * factor).max(least)
    }

    /// The query that is worth most a request now; `None` if none is worth anything.
    ///
    /// Of queries that are worth the same the first in the order of their texts is
    /// taken. It looks at every row of every query: some milliseconds for a million.
    pub fn best(&self, now: Time) -> Option<Ask> {
        let worth = self.worth(now);
        let mut best: Option<Ask> = None;
        for query in 0..self.queries.len() {
            let n_server = self.n_server(query);
            let n_requests = self.retrieval.n_requests(n_server);
            let value = self.value(query, n_server, &worth) / n_requests as f64;
            if value > best.map_or(0.0, |best| best.value) {
                best = Some(Ask {
                    query,
                    n_requests,
                    value,
                });
            }
        }
        best
    }

    /// When, from now on, some query is worth the price; never, if none will be
    /// within `at_most`.
    pub fn wake_at(&self, price: f64, now: Time, at_most: Span) -> Time {
        let is_worth_it = |days: f64| {
            let then = Time(now.0 + days);
            self.best(then).is_some_and(|best| best.value >= price)
        };
        if is_worth_it(0.0) {
            return now;
        }
        if !at_most.0.is_finite() || !is_worth_it(at_most.0) {
            return Time::NEVER;
        }
        // The worth of each row only rises, and so does the best.
        let (mut low, mut high) = (0.0, at_most.0);
        while high - low > 1e-6 * high {
            let middle = (low + high) / 2.0;
            if is_worth_it(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Time(now.0 + high)
    }

    /// The row polled longest ago, if that is as long ago as `max_interval`: it is to
    /// be asked for by its id, since no query has returned it.
    pub fn overdue(&self, now: Time, max_interval: Span) -> Option<u32> {
        let (row, polled_at) = self.longest_unpolled()?;
        (now.0 - polled_at.0 >= max_interval.0).then_some(row)
    }

    /// When a row will be [overdue](Self::overdue).
    pub fn overdue_at(&self, max_interval: Span) -> Time {
        match self.longest_unpolled() {
            Some((_, polled_at)) => Time(polled_at.0 + max_interval.0),
            None => Time::NEVER,
        }
    }

    /// A query was answered: the rows that came with it are polled.
    pub fn answered(&mut self, query: usize, answer: &Answer<'_>, now: Time) {
        if let Some(total) = answer.total.filter(|total| *total >= 0.0) {
            let least = answer.returned.len() as f64;
            if !self.totals.contains_key(&query) {
                self.reported += total.max(least);
                self.predicted += self.queries.n_server(query);
            }
            self.totals.insert(query, total.max(least));
        }
        let rows = self.queries.rows(query);
        let places: Vec<usize> = answer
            .returned
            .iter()
            .filter_map(|row| rows.binary_search(row).ok())
            .collect();
        // A query that has always returned all its rows needs no book-keeping.
        if places.len() < rows.len() || self.returns.contains_key(&query) {
            let returns = self.returns.entry(query).or_insert_with(|| Returns {
                n_asked: 0,
                n_returned: vec![0; rows.len()],
            });
            returns.n_asked += 1;
            for place in places {
                returns.n_returned[place] += 1;
            }
        }
        for &row in answer.returned {
            self.polled(row, now);
        }
    }

    /// A row was polled, by its id or in the answer to something else.
    pub fn polled(&mut self, row: u32, now: Time) {
        if let Some(polled_at) = self.polled_at.get_mut(row as usize) {
            *polled_at = now;
        }
    }

    fn longest_unpolled(&self) -> Option<(u32, Time)> {
        let rows = (0..).zip(self.polled_at.iter().copied());
        rows.min_by(|one, other| one.1.0.total_cmp(&other.1.0))
    }

    /// What polling each row is worth now.
    fn worth(&self, now: Time) -> Vec<f64> {
        let each = self.values.iter().zip(&self.polled_at);
        each.map(|(value, polled_at)| value.after(Span((now.0 - polled_at.0).max(0.0))))
            .collect()
    }

    /// What a query's rows are worth, each times the chance that it is returned.
    ///
    /// A row's chance is p = min(1, K/|R_S|) to begin with, and then what answers
    /// showed, the first guess counted as one more: (returned + p)/(asked + 1).
    fn value(&self, query: usize, n_server: f64, worth: &[f64]) -> f64 {
        let rows = self.queries.rows(query);
        let chance = self.retrieval.chance(n_server);
        match self.returns.get(&query) {
            None => chance * rows.iter().map(|&row| worth[row as usize]).sum::<f64>(),
            Some(Returns {
                n_asked,
                n_returned,
            }) => {
                let each = rows.iter().zip(n_returned);
                each.map(|(&row, &n)| {
                    let chance = (f64::from(n) + chance) / f64::from(n_asked + 1);
                    chance * worth[row as usize]
                })
                .sum()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Objective, Rate, Weight};

    fn at(days: f64) -> Time {
        Time::from_days(days).unwrap()
    }

    fn value(rate: f64, weight: f64) -> PollValue {
        let rate = Rate::per_day(rate).unwrap();
        PollValue::known(Objective::Content, rate).weighing(Weight::new(weight).unwrap())
    }

    /// Three rows; a query for the first two, one for the last two, and one for each.
    fn live() -> Live {
        let queries: [(&[u32], f64); 5] = [
            (&[0, 1], 10.0),
            (&[1, 2], 25.0),
            (&[0], 1.0),
            (&[1], 1.0),
            (&[2], 1.0),
        ];
        Live::new(
            Queries::given(queries),
            Retrieval::USUAL,
            vec![value(1.0, 1.0), value(1.0, 1.0), value(1.0, 2.5)],
            vec![at(0.0); 3],
        )
    }

    #[test]
    fn a_query_is_worth_what_its_rows_are_worth_now() {
        let mut live = live();
        assert_eq!(live.best(at(0.0)), None);
        // λt³/3 each: 9 and 9, against 22.5 of the third alone.
        let best = live.best(at(3.0)).unwrap();
        assert_eq!((best.query, best.n_requests), (4, 1));
        assert!((best.value - 22.5).abs() < 1e-12);
        let answer = Answer {
            returned: &[2],
            total: None,
        };
        live.answered(4, &answer, at(3.0));
        let best = live.best(at(3.0)).unwrap();
        assert_eq!(best.query, 0);
        assert!((best.value - 18.0).abs() < 1e-12);
        live.polled(0, at(3.0));
        // Overlaps take care of themselves: now the second row alone, by the first
        // of three queries that take one request for it.
        assert_eq!(live.best(at(3.0)).unwrap().query, 0);
        live.polled(1, at(3.0));
        assert_eq!(live.best(at(3.0)), None);
    }

    #[test]
    fn it_wakes_when_a_query_is_worth_the_price() {
        let live = live();
        let woken = live.wake_at(22.5, at(0.0), Span::days(100.0).unwrap());
        assert!((woken.as_days() - 3.0).abs() < 1e-5, "{woken:?}");
        assert_eq!(
            live.wake_at(1e12, at(0.0), Span::days(100.0).unwrap()),
            Time::NEVER
        );
        assert_eq!(live.wake_at(0.1, at(5.0), Span::FOREVER), at(5.0));
    }

    #[test]
    fn totals_correct_the_estimates_of_other_queries() {
        let mut live = live();
        let answer = Answer {
            returned: &[0, 1],
            total: Some(40.0),
        };
        live.answered(0, &answer, at(1.0));
        assert_eq!(live.n_server(0), 40.0);
        // (40 + 10) / (10 + 10) times as many as was thought.
        assert_eq!(live.n_server(1), 62.5);
        // A rounded total may say less than was seen.
        let answer = Answer {
            returned: &[1, 2],
            total: Some(0.0),
        };
        live.answered(1, &answer, at(1.0));
        assert_eq!(live.n_server(1), 2.0);
    }

    #[test]
    fn a_row_that_is_not_returned_is_worth_less_there_and_due_by_id() {
        let mut live = live();
        let none = Answer {
            returned: &[],
            total: None,
        };
        let before = live.best(at(2.0)).unwrap();
        assert_eq!(before.query, 4);
        live.answered(4, &none, at(2.0));
        assert_ne!(live.best(at(2.0)).unwrap().query, 4);
        let week = Span::days(7.0).unwrap();
        live.polled(0, at(3.0));
        live.polled(1, at(4.0));
        assert_eq!(live.overdue(at(6.9), week), None);
        assert_eq!(live.overdue_at(week), at(7.0));
        assert_eq!(live.overdue(at(7.0), week), Some(2));
        live.polled(2, at(7.0));
        assert_eq!(live.overdue_at(week), at(10.0));
    }
}
