//! The pace of a budget: when the next poll that counts may be made.

use std::collections::VecDeque;

use crate::schedule::memory::{numbers_from_bytes, numbers_to_bytes};
use crate::{Span, Time, Window};

/// When the budget allows the next poll.
///
/// Polls come as evenly as the budget says. One that comes late is made up for, as far
/// as polls may be saved up: a poll's worth on a clock that is never late
/// ([`even`](Self::even)); three tenths of a second's worth on one that is
/// ([`new`](Self::new)), so that no few seconds see many more than their share; or,
/// where a [`Burst`] is allowed, up to a day's worth, as fast as that allows. With a
/// window, a day's budget is spent while it is open.
#[derive(Debug, Clone)]
pub struct Pace {
    per_day: f64,
    window: Option<Window>,
    /// What may be made up for: so many polls, and as many as so many days bring.
    saved_polls: f64,
    saved_days: f64,
    burst: Option<Recent>,
    /// The budget is counted from here, on the window's clock if there is one.
    began: f64,
    /// What was spent since, less what was there to begin with. Times are worked out
    /// from it, not added up, so that the millionth poll is as exact as the first.
    spent: f64,
}

/// So many polls, at the most, in any span of this length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// How many.
    pub n_polls: u32,
    /// In how long.
    pub span: Span,
}

/// Days of polls that may be made up for where no burst is allowed: three tenths of
/// a second.
const SLACK: f64 = 0.3 / 86_400.0;
/// Days of polls that may be made up for where one is.
const SAVED: f64 = 1.0;
/// How far someone may run ahead: so many days of polls, or so many polls.
const AHEAD: f64 = 0.1;
const LEAST_AHEAD: f64 = 10.0;
/// What times and counts may lose by rounding, in polls and in days.
const ROUNDING: f64 = 1e-6;
const ROUNDING_DAYS: f64 = 1e-9;

impl Pace {
    /// A budget in polls a day, from now on, for a clock that may be late.
    pub fn new(per_day: f64, window: Option<Window>, burst: Option<Burst>, now: Time) -> Self {
        Self {
            per_day,
            window,
            saved_polls: 0.0,
            saved_days: if burst.is_some() { SAVED } else { SLACK },
            burst: burst.map(Recent::new),
            began: shown(window, now),
            spent: -1.0,
        }
    }

    /// The same for a clock that is never late: half a gap before the first poll, and
    /// half a gap after the last, so that a span holds as many as the budget says.
    pub fn even(per_day: f64, window: Option<Window>, now: Time) -> Self {
        Self {
            saved_polls: 1.0,
            saved_days: 0.0,
            spent: -0.5,
            ..Self::new(per_day, window, None, now)
        }
    }

    /// The budget is another from now on. What was saved up stays, as far as it may.
    pub fn set_per_day(&mut self, per_day: f64, now: Time) {
        (self.began, self.spent) = (shown(self.window, now), -self.level_at(now));
        self.per_day = per_day;
    }

    /// Polls a day.
    pub fn per_day(&self) -> f64 {
        self.per_day
    }

    /// When the next poll may be made, if none is made before; now, if it may be
    /// made now.
    pub fn next_at(&self, now: Time) -> Time {
        let next = match self.window {
            Some(window) => self.next_in(window, now),
            None if self.due() <= now.0 + self.rounding() => now,
            None => Time(self.due()),
        };
        match &self.burst {
            Some(recent) => Time(next.0.max(recent.free_at(now.0))),
            None => next,
        }
    }

    /// The same for someone who may run ahead of the budget, by a tenth of a day's polls or
    /// by ten. What is spent ahead is waited for by those who may not; a window and a
    /// burst hold for them alone.
    pub fn next_ahead_at(&self, now: Time) -> Time {
        let ahead = (AHEAD * self.per_day).max(LEAST_AHEAD);
        let (due, clock) = (self.due_after(1.0 - ahead), shown(self.window, now));
        match self.window {
            _ if due <= clock + self.rounding() => now,
            Some(window) => Time(window.expand(due).max(now.0)),
            None => Time(due),
        }
    }

    /// When polls that are due at some times, in rising order, can be made if they are
    /// made one after the other and have this share of the budget: not before they are
    /// due, and evenly where more are due than the budget allows. A burst is not counted
    /// on, but kept to.
    pub fn put_off(&self, due: &mut [Time], share: f64, now: Time) {
        let per_day = match &self.burst {
            Some(Recent { burst, .. }) => self.per_day.min(f64::from(burst.n_polls) / burst.span.0),
            None => self.per_day,
        };
        let gap = 1.0 / (per_day * share);
        let mut free = shown(self.window, self.next_at(now));
        for due in due {
            let at = shown(self.window, *due).max(free);
            *due = match self.window {
                Some(window) if at.is_finite() => Time(window.expand(at).max(due.0)),
                _ => Time(at),
            };
            free = at + gap;
        }
    }

    /// A poll of this cost is begun.
    pub fn spend(&mut self, cost: f64, now: Time) {
        let saved = self.saved_days + self.saved_polls / self.per_day;
        let late = shown(self.window, now) - saved - self.due();
        if late > 0.0 {
            self.began += late;
        }
        self.spent += cost;
        if let Some(recent) = &mut self.burst {
            recent.note(now.0);
        }
    }

    /// A poll of this cost that was begun is not made after all.
    pub fn refund(&mut self, cost: f64) {
        self.spent -= cost;
        if let Some(recent) = &mut self.burst {
            recent.take_back();
        }
    }

    /// What is to be remembered of it: what is saved up now, or was spent ahead. Not all
    /// that was spent since some beginning, which a clock that is then set back would say
    /// was spent at once.
    pub fn remember(&self, now: Time) -> Vec<u8> {
        let mut numbers = [0.0; 2 + Recent::N];
        (numbers[0], numbers[1]) = (self.level_at(now), shown(self.window, now));
        if let Some(recent) = &self.burst {
            numbers[2..].copy_from_slice(&recent.numbers());
        }
        numbers_to_bytes(&numbers)
    }

    /// Takes in what was remembered, so that a restart spends no more than no
    /// restart.
    pub fn recall(&mut self, bytes: &[u8], now: Time) {
        let Some([level, as_of, recent @ ..]) = numbers_from_bytes::<{ 2 + Recent::N }>(bytes)
        else {
            return;
        };
        // A clock that was set back does not stop the polls for good.
        self.began = as_of.min(shown(self.window, now));
        self.spent = -level;
        let level = self.level_at(now);
        (self.began, self.spent) = (shown(self.window, now), -level);
        if let Some(burst) = &mut self.burst {
            burst.recall(&recent, now.0);
        }
    }

    /// When the next poll is due, on the window's clock if there is one.
    fn due(&self) -> f64 {
        self.due_after(1.0)
    }

    /// When so many polls more than were spent have been earned.
    fn due_after(&self, n_polls: f64) -> f64 {
        match self.spent + n_polls {
            lacking if self.per_day > 0.0 => self.began + lacking / self.per_day,
            lacking if lacking > 0.0 => f64::INFINITY,
            _ => self.began,
        }
    }

    fn rounding(&self) -> f64 {
        if self.per_day > 0.0 {
            ROUNDING / self.per_day
        } else {
            0.0
        }
    }

    fn next_in(&self, window: Window, now: Time) -> Time {
        let clock = window.compress(now.0);
        let is_open = window.is_open(now.0) || window.is_open(now.0 + ROUNDING_DAYS);
        if is_open && self.due() <= clock + self.rounding().max(ROUNDING_DAYS) {
            return now;
        }
        Time(window.expand(self.due().max(clock)).max(now.0))
    }

    /// Polls saved up.
    fn level_at(&self, now: Time) -> f64 {
        let passed = (shown(self.window, now) - self.began).max(0.0);
        let most = 1.0 + self.saved_polls + self.saved_days * self.per_day;
        (passed * self.per_day - self.spent).min(most)
    }
}

fn shown(window: Option<Window>, now: Time) -> f64 {
    window.map_or(now.0, |window| window.compress(now.0))
}

/// Polls of late, counted in parts of a burst's span: a poll is counted for as long
/// as any of its part may be within the span.
#[derive(Debug, Clone)]
struct Recent {
    burst: Burst,
    /// The number of a part, and how many polls it has; the latest last.
    parts: VecDeque<(f64, u32)>,
}

/// Parts of a span.
const PARTS: usize = 32;

impl Recent {
    const N: usize = 2 * (PARTS + 2);

    fn new(burst: Burst) -> Self {
        Self {
            burst,
            parts: VecDeque::new(),
        }
    }

    fn part(&self, at: f64) -> f64 {
        (at / self.burst.span.0 * PARTS as f64).floor()
    }

    fn end_of(&self, part: f64) -> f64 {
        (part + 1.0) * self.burst.span.0 / PARTS as f64
    }

    /// When there is room for another poll.
    fn free_at(&self, now: f64) -> f64 {
        let mut n_polls: u32 = 0;
        for &(part, n) in self.parts.iter().rev() {
            let over_at = self.end_of(part) + self.burst.span.0;
            if over_at <= now {
                break;
            }
            n_polls = n_polls.saturating_add(n);
            if n_polls >= self.burst.n_polls {
                return over_at;
            }
        }
        now
    }

    fn note(&mut self, now: f64) {
        let part = self.part(now);
        match self.parts.back_mut() {
            Some((last, n)) if *last >= part => *n += 1,
            _ => self.parts.push_back((part, 1)),
        }
        while self.parts.len() > PARTS + 2 {
            self.parts.pop_front();
        }
    }

    fn take_back(&mut self) {
        if let Some((_, n)) = self.parts.back_mut() {
            *n = n.saturating_sub(1);
        }
    }

    fn numbers(&self) -> [f64; Self::N] {
        let mut numbers = [0.0; Self::N];
        for (pair, &(part, n)) in numbers.chunks_exact_mut(2).zip(&self.parts) {
            pair.copy_from_slice(&[part, f64::from(n)]);
        }
        numbers
    }

    fn recall(&mut self, numbers: &[f64], now: f64) {
        let latest = self.part(now);
        self.parts = numbers
            .chunks_exact(2)
            .filter(|pair| pair[1] > 0.0 && pair[0] <= latest)
            .map(|pair| (pair[0], pair[1] as u32))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: f64 = 1.0 / 86_400.0;

    /// Polls as early as is allowed, for so many days; asked late now and then.
    fn polls(mut pace: Pace, days: f64, is_late: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut polls = Vec::new();
        let mut now = 0.25;
        loop {
            let next = pace.next_at(Time(now));
            now = next.0 + is_late(polls.len());
            if now >= 0.25 + days {
                return polls;
            }
            if pace.next_at(Time(now)).0 <= now {
                pace.spend(1.0, Time(now));
                polls.push(now);
            }
        }
    }

    fn most_within(polls: &[f64], span: f64) -> usize {
        let first = |last: usize| polls.partition_point(|&at| at <= polls[last] - span);
        (0..polls.len())
            .map(|last| last + 1 - first(last))
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn ten_polls_or_a_tenth_of_a_day_may_run_ahead_and_are_waited_for() {
        for (per_day, most) in [(24.0, 10), (1000.0, 100)] {
            let mut pace = Pace::new(per_day, None, None, Time::START);
            pace.spend(1.0, Time::START);
            let mut n = 0;
            while pace.next_ahead_at(Time::START) <= Time::START {
                pace.spend(1.0, Time::START);
                n += 1;
            }
            assert_eq!(n, most);
            let gap = 1.0 / per_day;
            let next = |at: Time| (at.0 / gap).round();
            assert_eq!(next(pace.next_ahead_at(Time::START)), 1.0);
            assert_eq!(next(pace.next_at(Time::START)), f64::from(most) + 1.0);
            // A restart forgives nothing.
            let mut other = Pace::new(per_day, None, None, Time::START);
            other.recall(&pace.remember(Time::START), Time::START);
            assert_eq!(next(other.next_at(Time::START)), f64::from(most) + 1.0);
        }
    }

    #[test]
    fn no_five_seconds_hold_more_than_their_share() {
        for per_day in [2_000.0, 20_000.0, 864_000.0] {
            let late = |n: usize| {
                if n.is_multiple_of(97) {
                    0.2 * SECOND
                } else {
                    1e-4 * SECOND
                }
            };
            let polls = polls(Pace::new(per_day, None, None, Time(0.25)), 0.2, late);
            let most = 1.0 + 1.1 * per_day * 5.0 * SECOND;
            assert!(
                most_within(&polls, 5.0 * SECOND) as f64 <= most,
                "{per_day}"
            );
            assert!(polls.len() as f64 > 0.8 * 0.2 * per_day, "{}", polls.len());
        }
    }

    #[test]
    fn a_burst_makes_up_for_lost_time_and_no_more_than_it_may() {
        let burst = Burst {
            n_polls: 200,
            span: Span(1.0 / 24.0),
        };
        // Six hours pass before anyone polls.
        let late = |n: usize| if n == 1 { 0.25 } else { 0.0 };
        let polls = polls(Pace::new(2000.0, None, Some(burst), Time(0.25)), 1.0, late);
        assert!(most_within(&polls, 1.0 / 24.0) <= 200);
        assert!((1990..=2002).contains(&polls.len()), "{}", polls.len());
    }

    #[test]
    fn a_window_holds_the_polls_of_the_whole_day() {
        let window = Window::from_hours(22.0, 6.0).unwrap();
        let polls = polls(
            Pace::new(240.0, Some(window), None, Time(0.25)),
            2.0,
            |_| 0.0,
        );
        // Times lose a little by rounding, where it opens and where it closes.
        let is_open = |at: f64| window.is_open(at - 1e-9) || window.is_open(at + 1e-9);
        assert!(polls.iter().all(|&at| is_open(at)));
        assert!((475..=482).contains(&polls.len()), "{}", polls.len());
    }

    #[test]
    fn a_clock_that_is_set_back_between_two_runs_holds_up_nothing() {
        let mut pace = Pace::new(86_400.0, None, None, Time(3.0));
        let mut now = 3.0;
        for _ in 0..10_000 {
            now = pace.next_at(Time(now)).0;
            pace.spend(1.0, Time(now));
        }
        let bytes = pace.remember(Time(now));
        for back in [600.0 * SECOND, 1.0, 2.9] {
            let now = Time(now - back);
            let mut again = Pace::new(86_400.0, None, None, now);
            again.recall(&bytes, now);
            let wait = again.next_at(now).0 - now.0;
            assert!((0.5 * SECOND..1.5 * SECOND).contains(&wait), "{wait}");
        }
    }

    #[test]
    fn a_restart_spends_no_more_than_no_restart() {
        let burst = Burst {
            n_polls: 5,
            span: Span(0.1),
        };
        let mut pace = Pace::new(48.0, None, Some(burst), Time(3.0));
        let mut polls = Vec::new();
        let mut now = 3.4;
        while now < 6.0 {
            now = pace.next_at(Time(now)).0;
            pace.spend(1.0, Time(now));
            polls.push(now);
            let mut again = Pace::new(48.0, None, Some(burst), Time(now));
            again.recall(&pace.remember(Time(now)), Time(now));
            pace = again;
        }
        assert!(most_within(&polls, 0.1) <= 5);
        assert!(polls.len() as f64 <= 1.0 + 48.0 * 3.0, "{}", polls.len());
        assert!(polls.len() as f64 >= 48.0 * 2.6, "{}", polls.len());
    }

    #[test]
    fn what_is_due_at_once_is_put_off_until_the_budget_allows_it() {
        let check = |pace: Pace, due: &[f64], expected: &[f64]| {
            let mut times: Vec<Time> = due.iter().copied().map(Time).collect();
            pace.put_off(&mut times, 0.5, Time(1.0));
            for (time, expected) in times.iter().zip(expected) {
                assert!((time.0 - expected).abs() < 1e-9, "{times:?}");
            }
        };
        let pace = Pace::new(20.0, None, None, Time(1.0));
        check(
            pace,
            &[0.5, 1.0, 1.05, 1.5, 1.51],
            &[1.0, 1.1, 1.2, 1.5, 1.6],
        );
        // Six hours hold a day's polls, and nothing is due outside them.
        let window = Window::from_hours(0.0, 6.0).unwrap();
        let pace = Pace::new(20.0, Some(window), None, Time(1.0));
        check(
            pace,
            &[0.5, 1.0, 1.2, 1.5, 2.5],
            &[1.0, 1.025, 1.2, 2.0, 3.0],
        );
        let burst = Burst {
            n_polls: 1,
            span: Span(0.25),
        };
        let pace = Pace::new(20.0, None, Some(burst), Time(1.0));
        check(pace, &[1.0, 1.0], &[1.0, 1.5]);
        let pace = Pace::new(0.0, None, None, Time(1.0));
        let mut times = [Time(1.0), Time(1.0)];
        pace.put_off(&mut times, 1.0, Time(1.0));
        assert_eq!(times[1], Time::NEVER);
    }

    #[test]
    fn no_budget_is_no_polls() {
        let mut pace = Pace::new(0.0, None, None, Time(1.0));
        pace.spend(1.0, Time(1.0));
        assert_eq!(pace.next_at(Time(2.0)), Time::NEVER);
    }
}
