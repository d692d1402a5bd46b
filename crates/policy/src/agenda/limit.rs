//! How a host is to be asked: not too often, not too much at once, and not at all
//! for a while when it says so or fails.

use rand::{Rng, RngExt};

use crate::{Span, Time};

/// What is asked of a host, and how that went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// The least time between the beginnings of two requests of cost one.
    gap: Span,
    /// Requests at a time.
    concurrency: u32,
    /// How much of a request's lateness the next one may make up for.
    slack: Span,
    /// When the last request was begun, and what it cost.
    requested_at: Option<Time>,
    cost: f64,
    /// Nothing is asked before then.
    not_before: Option<Time>,
    /// Why not.
    pause: Option<Pause>,
    /// Requests in a row that the host failed to answer.
    n_failures: u32,
    n_under_way: u32,
    /// Not asked yet. The first request takes longer to get there than those that
    /// follow, so the gap is counted from its answer.
    is_cold: bool,
}

/// Why a host is left alone for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// It failed to answer.
    BackOff,
    /// It asked for it.
    RetryAfter,
}

/// What of a limit outlives a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LimitMemory {
    /// When the last request was begun.
    pub requested_at: Option<Time>,
    /// Nothing is asked before then.
    pub not_before: Option<Time>,
    /// Why not.
    pub pause: Option<Pause>,
    /// Requests in a row that the host failed to answer.
    pub n_failures: u32,
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
/// Waits are made longer by up to this share of themselves, so that not all end at once.
const JITTER: f64 = 0.5;
/// The same for an element that could not be had from a host that is well.
const FIRST_RETRY: f64 = 30.0 / 86_400.0;
const LONGEST_RETRY: f64 = 1.0;
/// The longest that a host's own word counts for, in days.
const LONGEST_WAIT: f64 = 7.0;
/// Gaps shorter than this, in days, are kept on average over it: timers are no finer
/// than ten milliseconds.
const FINEST: f64 = 0.01 / 86_400.0;
/// Gaps are made a little longer, since the way to the host takes a little longer or
/// shorter each time: by a fiftieth, up to so many days.
const MARGIN_SHARE: f64 = 1.0 / 50.0;
const MARGIN: f64 = 0.02 / 86_400.0;

impl Limit {
    /// A host that was never asked, over a network.
    pub fn new(gap: Span, concurrency: u32) -> Self {
        let mut limit = Self {
            gap,
            concurrency: concurrency.max(1),
            slack: Span::ZERO,
            requested_at: None,
            cost: 1.0,
            not_before: None,
            pause: None,
            n_failures: 0,
            n_under_way: 0,
            is_cold: true,
        };
        limit.set_gap(gap);
        limit
    }

    /// A group that may get so much a day, whose polls are begun in steps: one that had
    /// to wait for the next step does not make the group wait longer for it.
    pub fn per_day(cost: f64, step: Span) -> Self {
        Self {
            gap: Span(1.0 / cost),
            slack: step,
            not_before: (cost <= 0.0).then_some(Time::NEVER),
            is_cold: false,
            ..Self::new(Span::ZERO, u32::MAX)
        }
    }

    /// Requests are to be this far apart from now on.
    pub fn set_gap(&mut self, gap: Span) {
        let is_timed = gap.0 >= FINEST;
        let margin = (gap.0 * MARGIN_SHARE).min(MARGIN);
        self.gap = Span(gap.0 + if is_timed { margin } else { 0.0 });
        self.slack = Span(if is_timed { 0.0 } else { FINEST });
    }

    /// So many requests may be under way from now on; one at the least.
    pub fn set_concurrency(&mut self, concurrency: u32) {
        self.concurrency = concurrency.max(1);
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
        Time(self.paused_until().0.max(self.spaced_at()))
    }

    /// Until when the host is left alone, whatever may be under way: by its own word,
    /// or since it failed.
    pub fn paused_until(&self) -> Time {
        self.not_before.unwrap_or(Time(f64::NEG_INFINITY))
    }

    /// Why it is left alone, if it is.
    pub fn pause(&self) -> Option<Pause> {
        self.pause
    }

    fn spaced_at(&self) -> f64 {
        let spaced = |at: Time| at.0 + self.gap.0 * self.cost;
        self.requested_at.map_or(f64::NEG_INFINITY, spaced)
    }

    /// A request is begun.
    pub fn begin(&mut self, cost: f64, now: Time) {
        let due = if self.requested_at.is_some() {
            self.spaced_at()
        } else {
            now.0 - self.slack.0
        };
        self.requested_at = Some(Time(due.max(now.0 - self.slack.0).min(now.0)));
        self.cost = cost;
        self.n_under_way += 1;
    }

    /// A request that was begun has left only now.
    pub fn left(&mut self, now: Time) {
        if self.slack == Span::ZERO {
            self.requested_at = Some(now);
        }
    }

    /// A request that was begun is not made after all.
    pub fn give_back(&mut self) {
        self.n_under_way = self.n_under_way.saturating_sub(1);
        self.requested_at = self
            .requested_at
            .map(|at| Time(at.0 - self.gap.0 * self.cost));
    }

    /// A request has ended.
    pub fn end(&mut self, verdict: Verdict, now: Time, rng: &mut dyn Rng) {
        self.n_under_way = self.n_under_way.saturating_sub(1);
        if std::mem::take(&mut self.is_cold) {
            self.requested_at = Some(now);
        }
        match verdict {
            Verdict::Fine => {
                self.n_failures = 0;
                self.not_before = self.not_before.filter(|&at| at > now);
                self.pause = self.pause.filter(|_| self.not_before.is_some());
            }
            Verdict::Trouble => {
                self.n_failures = self.n_failures.saturating_add(1);
                let wait = doubled(FIRST_BACK_OFF, LONGEST_BACK_OFF, self.n_failures, rng);
                self.wait_until(Time(now.0 + wait), Pause::BackOff);
            }
            Verdict::Wait(until) => {
                self.n_failures = self.n_failures.saturating_add(1);
                self.wait_until(Time(until.0.min(now.0 + LONGEST_WAIT)), Pause::RetryAfter);
            }
            Verdict::Unknown => {}
        }
    }

    /// How many requests are under way.
    pub fn n_under_way(&self) -> u32 {
        self.n_under_way
    }

    /// What outlives a run.
    pub fn remember(&self) -> LimitMemory {
        LimitMemory {
            requested_at: self.requested_at,
            not_before: self.not_before,
            pause: self.pause,
            n_failures: self.n_failures,
        }
    }

    /// Takes in what was remembered. Pauses are lengths: if the last request is yet to
    /// come, the clock has been set back since, and both moments with it; and no pause
    /// is longer than it can have been.
    pub fn recall(&mut self, memory: LimitMemory, now: Time) {
        let set_back = memory
            .requested_at
            .map_or(0.0, |at| (at.0 - now.0).max(0.0));
        let longest = match memory.pause {
            Some(Pause::BackOff) => LONGEST_BACK_OFF * (1.0 + JITTER),
            Some(Pause::RetryAfter) | None => LONGEST_WAIT,
        };
        self.requested_at = memory.requested_at.map(|at| Time(at.0 - set_back));
        self.not_before = memory
            .not_before
            .map(|at| Time((at.0 - set_back).min(now.0 + longest)));
        self.pause = memory.pause;
        self.n_failures = memory.n_failures;
    }

    fn wait_until(&mut self, until: Time, pause: Pause) {
        if self.not_before.is_none_or(|at| at < until) {
            self.not_before = Some(until);
            self.pause = Some(pause);
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
    wait * (1.0 + JITTER * rng.random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    const SECOND: f64 = 1.0 / 86_400.0;

    #[test]
    fn requests_keep_their_distance_and_their_number() {
        // A fiftieth longer, since the way there takes longer or shorter each time.
        let gap = 1.02 * SECOND;
        let mut limit = Limit::new(Span(SECOND), 2);
        let mut rng = Pcg64::seed_from_u64(1);
        assert!(limit.free_at() <= Time(100.0));
        limit.begin(1.0, Time(100.0));
        // Its first request may have been long on the way.
        let answered_at = 100.0 + 0.5 * SECOND;
        limit.end(Verdict::Fine, Time(answered_at), &mut rng);
        let near = |at: f64| (limit.free_at().0 - at).abs() < 1e-9 * SECOND;
        assert!(near(answered_at + gap), "{:?}", limit.free_at());
        let second_at = 102.0;
        limit.begin(1.0, Time(second_at));
        limit.begin(1.0, Time(second_at + gap));
        assert_eq!(limit.free_at(), Time::NEVER);
        limit.end(Verdict::Fine, Time(second_at + 1.5 * gap), &mut rng);
        let near = |at: f64| (limit.free_at().0 - at).abs() < 1e-9 * SECOND;
        assert!(near(second_at + 2.0 * gap), "{:?}", limit.free_at());
    }

    #[test]
    fn gaps_too_short_to_be_timed_are_kept_on_average() {
        let mut limit = Limit::new(Span(0.001 * SECOND), 1000);
        let mut rng = Pcg64::seed_from_u64(1);
        let mut n = 0;
        for tick in 0..100 {
            let now = Time(100.0 + f64::from(tick) * 0.01 * SECOND);
            while limit.free_at() <= now {
                limit.begin(1.0, now);
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
            limit.begin(1.0, Time(now));
            assert!(limit.n_failures == 0 || limit.free_at() == Time::NEVER);
            limit.end(Verdict::Trouble, Time(now), &mut rng);
            waits.push(limit.free_at().0 - now);
            now = limit.free_at().0;
        }
        assert!((2.0..=3.0).contains(&(waits[0] / SECOND)));
        assert!((8.0..=12.0).contains(&(waits[2] / SECOND)));
        assert!((1.0..=1.5).contains(&(waits[19] * 24.0)));
        limit.begin(1.0, Time(now));
        limit.end(Verdict::Fine, Time(now), &mut rng);
        assert!(limit.free_at() <= Time(now));
    }

    #[test]
    fn a_host_that_asks_to_be_left_alone_is() {
        let mut limit = Limit::new(Span(SECOND), 2);
        let mut rng = Pcg64::seed_from_u64(1);
        limit.begin(1.0, Time(100.0));
        limit.begin(1.0, Time(101.0));
        limit.end(Verdict::Wait(Time(103.0)), Time(101.5), &mut rng);
        // A good answer to another request does not take that back.
        limit.end(Verdict::Fine, Time(101.6), &mut rng);
        assert_eq!(limit.free_at(), Time(103.0));
        // For ever is too long.
        limit.begin(1.0, Time(103.0));
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

    #[test]
    fn pauses_are_lengths_however_the_clock_was_set() {
        let recalled = |requested_at, not_before, pause| {
            let mut limit = Limit::new(Span(SECOND), 1);
            let memory = LimitMemory {
                requested_at: Some(Time(requested_at)),
                not_before: Some(Time(not_before)),
                pause: Some(pause),
                n_failures: 1,
            };
            limit.recall(memory, Time(1000.0));
            limit.free_at().0 - 1000.0
        };
        let check = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        // As it was.
        let minute = 60.0 * SECOND;
        check(
            recalled(1000.0 - minute, 1000.0 + minute, Pause::BackOff),
            minute,
        );
        // Set back by ten minutes, and by a year, right after a request.
        for back in [10.0 * minute, 365.0] {
            let at = 1000.0 + back;
            check(recalled(at, at + minute, Pause::BackOff), minute);
            check(recalled(at, at + 2.0, Pause::RetryAfter), 2.0);
        }
        // Whatever is written, no longer than it can be.
        check(
            recalled(999.0, 1365.0, Pause::BackOff),
            1.5 * LONGEST_BACK_OFF,
        );
        check(recalled(999.0, 1365.0, Pause::RetryAfter), LONGEST_WAIT);
    }
}
