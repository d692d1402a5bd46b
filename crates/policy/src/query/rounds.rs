//! In which order queries are asked, and how far apart: the content paper's rules
//! (sections 4.3 and 4.4) and the loop around them (Algorithm 1).
//!
//! They are here as published. All orders of a loop have the same staleness on
//! average over time, since every query is asked once a loop: what helps is to ask
//! some more often than others, in proportion to the cube root of what changes in
//! their rows per request. That is the plan for content of a candidate with that rate
//! and cost ([`Rule::Optimal`](crate::plan::Rule)).

use crate::{Error, Rate, Span, Time, Weight};

/// How much changes in the rows of one query: Σ w·λ, as a rate.
///
/// # Errors
///
/// If the sum is too large for a number.
pub fn change_of_query(rows: impl IntoIterator<Item = (Weight, Rate)>) -> Result<Rate, Error> {
    let sum = rows.into_iter().map(|(weight, rate)| weight.0 * rate.0);
    Rate::per_day(sum.sum())
}

/// What the rows of one query add to the staleness of all: a of the content paper's
/// equation 4.
///
/// ```text
/// a = 1/|L| Σ ½ w·λ·I²
/// ```
pub fn staleness_share(change: Rate, interval: Span, n_rows: usize) -> f64 {
    change.0 * interval.0 * interval.0 / 2.0 / n_rows as f64
}

/// The staleness of all rows at the end of a loop of k queries, if query i was asked
/// at its place x(i) of it, or not at all at place 0 (content paper, equation 4).
///
/// ```text
/// Σ a(i)·(k − x(i))²
/// ```
pub fn staleness_at_end(shares: &[f64], places: &[u32]) -> f64 {
    let k = shares.len() as f64;
    let each = shares.iter().zip(places);
    each.map(|(share, &place)| share * (k - f64::from(place)).powi(2))
        .sum()
}

/// The order that makes [`staleness_at_end`] least (content paper, section 4.3): the
/// query whose rows add least first.
pub fn greedy_order(shares: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|&one, &other| shares[one].total_cmp(&shares[other]));
    order
}

/// The largest interval between queries at which the staleness at the end of a loop
/// is below `threshold` times the loop's length times the number of rows (content
/// paper, section 4.4): doubling or halving from one day, then bisection.
///
/// ```text
/// g(x, I) = 1/|L|² Σ w·λ·(k − x)²/2k · I  <  α
/// ```
///
/// The two sides have different units: the staleness is a mean over rows and grows
/// with the square of time, the threshold is neither. [`interval_for`] takes a target
/// in the unit of the staleness. If nothing changes there is no such interval.
pub fn published_interval(changes: &[Rate], n_rows: usize, threshold: f64) -> Option<Span> {
    let slope = |interval: f64| {
        let length = changes.len() as f64 * interval * n_rows as f64;
        end_of_ordered_loop(changes, n_rows, Span(interval)) / length
    };
    if !(threshold > 0.0 && threshold.is_finite()) || slope(1.0) <= 0.0 {
        return None;
    }
    let (mut low, mut high) = (1.0, 1.0);
    while slope(high) < threshold {
        low = high;
        high *= 2.0;
    }
    while slope(low) > threshold {
        high = low;
        low /= 2.0;
    }
    // Once for every bit of a number.
    for _ in 0..52 {
        let middle = (low + high) / 2.0;
        if slope(middle) < threshold {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(Span(low))
}

/// The largest interval between queries at which the staleness at the end of a loop
/// is no more than `staleness`. If nothing changes there is none.
///
/// ```text
/// I = √(F / Σ a(i)·(k − x(i))²),  a for an interval of one
/// ```
pub fn interval_for(changes: &[Rate], n_rows: usize, staleness: f64) -> Option<Span> {
    let of_one = end_of_ordered_loop(changes, n_rows, Span(1.0));
    (of_one > 0.0 && staleness >= 0.0).then(|| Span((staleness / of_one).sqrt()))
}

/// The staleness at the end of a loop in the greedy order.
fn end_of_ordered_loop(changes: &[Rate], n_rows: usize, interval: Span) -> f64 {
    let share = |&change: &Rate| staleness_share(change, interval, n_rows);
    let shares: Vec<f64> = changes.iter().map(share).collect();
    let mut places = vec![0; shares.len()];
    for (place, query) in (1..).zip(greedy_order(&shares)) {
        places[query] = place;
    }
    staleness_at_end(&shares, &places)
}

/// The loop around it all (content paper, Algorithm 1): some queries, one at each
/// interval, then sleep, then again.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    order: Vec<usize>,
    interval: Span,
    sleep: Span,
    n_asked: usize,
    began_at: Time,
}

impl Rounds {
    /// A loop that begins now; the first query is asked one interval later.
    pub fn new(order: Vec<usize>, interval: Span, sleep: Span, now: Time) -> Self {
        Self {
            order,
            interval,
            sleep,
            n_asked: 0,
            began_at: now,
        }
    }

    /// When the next query is to be asked; never, if there is none.
    pub fn wake_at(&self) -> Time {
        match self.order.as_slice() {
            [] => Time::NEVER,
            _ => Time(self.began_at.0 + (self.n_asked + 1) as f64 * self.interval.0),
        }
    }

    /// The query to ask now, if it is time.
    pub fn next_query(&mut self, now: Time) -> Option<usize> {
        if self.wake_at().0 > now.0 {
            return None;
        }
        let query = *self.order.get(self.n_asked)?;
        self.n_asked += 1;
        if self.n_asked == self.order.len() {
            self.began_at = Time(self.wake_at().0 - self.interval.0 + self.sleep.0);
            self.n_asked = 0;
        }
        Some(query)
    }

    /// Whether a loop is over and the next has not begun to ask: the moment to choose
    /// queries anew.
    pub fn is_between(&self) -> bool {
        self.n_asked == 0
    }

    /// Asks other queries from the next loop on.
    pub fn choose(&mut self, order: Vec<usize>) {
        self.order = order;
        self.n_asked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(rates: &[f64]) -> Vec<Rate> {
        rates
            .iter()
            .map(|&rate| Rate::per_day(rate).unwrap())
            .collect()
    }

    fn day() -> Span {
        Span::days(1.0).unwrap()
    }

    #[test]
    fn table_3_of_the_content_paper() {
        // Two queries of two rows each, with rates 1 and 2, and 3 and 4.
        let changes = rates(&[3.0, 7.0]);
        let shares: Vec<f64> = changes
            .iter()
            .map(|&change| staleness_share(change, day(), 4))
            .collect();
        assert_eq!(shares, [0.375, 0.875]);
        let printed = [
            ([0, 0], 5.0),
            ([1, 0], 3.875),
            ([2, 0], 3.5),
            ([0, 1], 2.375),
            ([2, 1], 0.875),
            ([0, 2], 1.5),
            ([1, 2], 0.375),
        ];
        for (places, expected) in printed {
            assert_eq!(staleness_at_end(&shares, &places), expected, "{places:?}");
        }
        assert_eq!(greedy_order(&shares), [0, 1]);
    }

    #[test]
    fn the_greedy_order_is_the_best_of_all_orders() {
        let shares = [0.7, 0.1, 2.0, 0.4, 0.4];
        let mut places = vec![0; 5];
        for (place, query) in (1..).zip(greedy_order(&shares)) {
            places[query] = place;
        }
        let best = staleness_at_end(&shares, &places);
        // Heap's algorithm: all 120 orders.
        let mut order: Vec<u32> = (1..=5).collect();
        let mut counters = [0; 5];
        let mut place = 0;
        while place < 5 {
            if counters[place] < place {
                let swapped = if place % 2 == 0 { 0 } else { counters[place] };
                order.swap(swapped, place);
                assert!(staleness_at_end(&shares, &order) >= best - 1e-12);
                counters[place] += 1;
                place = 0;
            } else {
                counters[place] = 0;
                place += 1;
            }
        }
    }

    #[test]
    fn intervals_meet_their_targets() {
        let changes = rates(&[3.0, 7.0]);
        // g(x̃, I) = 0.375·I²/(2I·4).
        let interval = published_interval(&changes, 4, 0.1).unwrap().as_days();
        assert!((interval - 0.1 * 8.0 / 0.375).abs() < 1e-9, "{interval}");
        for threshold in [1e-6, 1e-3, 1e3] {
            let found = published_interval(&changes, 4, threshold).unwrap();
            assert!((found.as_days() / (threshold * 8.0 / 0.375) - 1.0).abs() < 1e-9);
        }
        let interval = interval_for(&changes, 4, 1.5).unwrap().as_days();
        assert!((interval - 2.0).abs() < 1e-12);
        assert_eq!(published_interval(&rates(&[0.0]), 4, 0.1), None);
        // A single query is asked at the end, when nothing is stale.
        assert_eq!(interval_for(&rates(&[5.0]), 4, 0.1), None);
    }

    #[test]
    fn a_loop_asks_in_order_and_sleeps() {
        let at = |days| Time::from_days(days).unwrap();
        let mut rounds = Rounds::new(vec![4, 7], day(), Span::days(3.0).unwrap(), at(10.0));
        let mut asked = Vec::new();
        for _ in 0..5 {
            let now = rounds.wake_at();
            assert_eq!(rounds.next_query(at(now.as_days() - 0.5)), None);
            asked.push((rounds.next_query(now).unwrap(), now.as_days()));
        }
        // Each loop lasts kI + τ.
        let expected = [(4, 11.0), (7, 12.0), (4, 16.0), (7, 17.0), (4, 21.0)];
        assert_eq!(asked, expected);
        assert!(!rounds.is_between());
        let nothing = Rounds::new(Vec::new(), day(), day(), at(0.0));
        assert_eq!(nothing.wake_at(), Time::NEVER);
    }
}
