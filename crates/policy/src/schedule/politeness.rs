//! How a host is to be asked: not too often, not too much at once, and not at all
//! for a while when it says so or fails.

use rand::{Rng, RngExt};

use crate::{Span, Time};

/// What is asked of a host, and how that went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// The least time between the beginnings of two requests.
    pub gap: Span,
    /// Requests at a time.
    pub concurrency: u32,
    /// When the last request was begun.
    pub requested_at: Option<Time>,
    /// Nothing is asked before then.
    pub not_before: Option<Time>,
    /// Requests in a row that the host failed to answer.
    pub n_failures: u32,
    n_under_way: u32,
}

/// What an answer, or none, says of the host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// It is well.
    Fine,
    /// It is in trouble.
    Trouble,
    /// It asks to be left alone until then.
    Wait(Time),
    /// Nothing.
    Unknown,
}

/// How long a host is left alone after it failed once; twice as long after each
/// failure that follows, up to the longest.
const FIRST_BACK_OFF: f64 = 2.0 / 86_400.0;
const LONGEST_BACK_OFF: f64 = 1.0 / 24.0;
/// The same for an element that could not be had from a host that is well.
const FIRST_RETRY: f64 = 30.0 / 86_400.0;
const LONGEST_RETRY: f64 = 1.0;
/// The longest that a host's own word counts for, in days.
const LONGEST_WAIT: f64 = 7.0;

impl Limit {
    /// A host that was never asked.
    pub fn new(gap: Span, concurrency: u32) -> Self {
        Self {
            gap,
            concurrency: concurrency.max(1),
            requested_at: None,
            not_before: None,
            n_failures: 0,
            n_under_way: 0,
        }
    }

    /// When the next request may be begun: [`Time::NEVER`] until one ends, if there
    /// are as many as there may be.
    pub fn free_at(&self) -> Time {
        // A host in trouble is tried with one request at a time.
        let most = if self.n_failures > 0 {
            1
        } else {
            self.concurrency
        };
        if self.n_under_way >= most {
            return Time::NEVER;
        }
        let paced = self.requested_at.map(|at| at.0 + self.gap.0);
        let asked = self.not_before.map(|at| at.0);
        Time(
            paced
                .into_iter()
                .chain(asked)
                .fold(f64::NEG_INFINITY, f64::max),
        )
    }

    /// A request is begun.
    pub fn begin(&mut self, now: Time) {
        self.begin_at(now, Span::ZERO);
    }

    /// A request is begun by someone whose clock ticks this far apart: gaps shorter
    /// than a tick are kept on average.
    pub fn begin_at(&mut self, now: Time, tick: Span) {
        let slack = if self.gap < tick { tick.0 } else { 0.0 };
        let due = self.requested_at.map_or(now.0, |at| at.0 + self.gap.0);
        self.requested_at = Some(Time(due.max(now.0 - slack).min(now.0)));
        self.n_under_way += 1;
    }

    /// A request has ended.
    pub fn end(&mut self, verdict: Verdict, now: Time, rng: &mut dyn Rng) {
        self.n_under_way = self.n_under_way.saturating_sub(1);
        match verdict {
            Verdict::Fine => {
                self.n_failures = 0;
                self.not_before = self.not_before.filter(|&at| at > now);
            }
            Verdict::Trouble => {
                self.n_failures = self.n_failures.saturating_add(1);
                let wait = doubled(FIRST_BACK_OFF, LONGEST_BACK_OFF, self.n_failures, rng);
                self.wait_until(Time(now.0 + wait));
            }
            Verdict::Wait(until) => {
                self.n_failures = self.n_failures.saturating_add(1);
                self.wait_until(Time(until.0.min(now.0 + LONGEST_WAIT)));
            }
            Verdict::Unknown => {}
        }
    }

    /// How many requests are under way.
    pub fn n_under_way(&self) -> u32 {
        self.n_under_way
    }

    fn wait_until(&mut self, until: Time) {
        let later = self.not_before.is_none_or(|at| at < until);
        if later {
            self.not_before = Some(until);
        }
    }
}

/// How long after so many polls in a row that came to nothing an element is tried
/// again.
pub fn retry_in(n_failures: u32, rng: &mut dyn Rng) -> Span {
    Span(doubled(FIRST_RETRY, LONGEST_RETRY, n_failures, rng))
}

/// `first`, doubled with each failure after the first, up to `longest`, and up
/// to a half of it more at random, so that those who failed together do not come
/// again together.
fn doubled(first: f64, longest: f64, n_failures: u32, rng: &mut dyn Rng) -> f64 {
    let doublings = n_failures.saturating_sub(1).min(40);
    let wait = (first * 2_f64.powi(doublings as i32)).min(longest);
    wait * (1.0 + 0.5 * rng.random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    const SECOND: f64 = 1.0 / 86_400.0;

    #[test]
    fn requests_keep_their_distance_and_their_number() {
        let mut limit = Limit::new(Span(SECOND), 2);
        let mut rng = Pcg64::seed_from_u64(1);
        assert!(limit.free_at() <= Time(100.0));
        limit.begin(Time(100.0));
        assert_eq!(limit.free_at(), Time(100.0 + SECOND));
        limit.begin(Time(100.0 + SECOND));
        assert_eq!(limit.free_at(), Time::NEVER);
        limit.end(Verdict::Fine, Time(100.0 + 1.5 * SECOND), &mut rng);
        assert_eq!(limit.free_at(), Time(100.0 + SECOND + SECOND));
    }

    #[test]
    fn gaps_too_short_to_be_timed_are_kept_on_average() {
        let mut limit = Limit::new(Span(0.001 * SECOND), 1000);
        let mut rng = Pcg64::seed_from_u64(1);
        let mut n = 0;
        for tick in 0..100 {
            let now = Time(100.0 + f64::from(tick) * 0.01 * SECOND);
            while limit.free_at() <= now {
                limit.begin_at(now, Span(0.01 * SECOND));
                limit.end(Verdict::Fine, now, &mut rng);
                n += 1;
            }
        }
        assert!((985..=1001).contains(&n), "{n}");
    }

    #[test]
    fn a_failing_host_is_asked_less_and_less_and_one_at_a_time() {
        let mut limit = Limit::new(Span(0.0), 8);
        let mut rng = Pcg64::seed_from_u64(1);
        let mut now = 100.0;
        let mut waits = Vec::new();
        for _ in 0..20 {
            limit.begin(Time(now));
            assert!(limit.n_failures == 0 || limit.free_at() == Time::NEVER);
            limit.end(Verdict::Trouble, Time(now), &mut rng);
            waits.push(limit.free_at().0 - now);
            now = limit.free_at().0;
        }
        assert!((2.0..=3.0).contains(&(waits[0] / SECOND)));
        assert!((8.0..=12.0).contains(&(waits[2] / SECOND)));
        assert!((1.0..=1.5).contains(&(waits[19] * 24.0)));
        limit.begin(Time(now));
        limit.end(Verdict::Fine, Time(now), &mut rng);
        assert!(limit.free_at() <= Time(now));
    }

    #[test]
    fn a_host_that_asks_to_be_left_alone_is() {
        let mut limit = Limit::new(Span(SECOND), 2);
        let mut rng = Pcg64::seed_from_u64(1);
        limit.begin(Time(100.0));
        limit.begin(Time(101.0));
        limit.end(Verdict::Wait(Time(103.0)), Time(101.5), &mut rng);
        // A good answer to another request does not take that back.
        limit.end(Verdict::Fine, Time(101.6), &mut rng);
        assert_eq!(limit.free_at(), Time(103.0));
        // For ever is too long.
        limit.begin(Time(103.0));
        limit.end(Verdict::Wait(Time(1e9)), Time(103.0), &mut rng);
        assert_eq!(limit.free_at(), Time(110.0));
    }

    #[test]
    fn an_element_that_fails_is_tried_again_within_a_day() {
        let mut rng = Pcg64::seed_from_u64(1);
        let first = retry_in(1, &mut rng).0 / SECOND;
        assert!((30.0..=45.0).contains(&first));
        assert!((1.0..=1.5).contains(&retry_in(1000, &mut rng).0));
    }
}
