//! The schedulers that people run today, from their documented rules and defaults,
//! to compare with.
//!
//! Each decides, after a poll, when the next poll of that element is due, from what
//! its polls showed. None knows of a budget; the scheduler polls what is due
//! earliest, as often as the budget allows.

use crate::{Outcome, Span, Time};

/// A scheduler in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InUse {
    /// Apache Nutch's `AdaptiveFetchSchedule`.
    Nutch,
    /// Apache StormCrawler's `AdaptiveScheduler`.
    StormCrawler,
    /// Miniflux's `entry_frequency`. A change found is an entry; a feed would show
    /// all of them, where a poll of a page shows one at most.
    Miniflux,
    /// Every element after the same interval.
    FixedInterval,
}

const MINUTE: f64 = 1.0 / 1440.0;

/// Nutch: the interval that every element starts with
/// (`db.fetch.interval.default`), and the least and the longest.
const NUTCH_START: f64 = 30.0;
const NUTCH_LEAST: f64 = MINUTE;
const NUTCH_MOST: f64 = 365.0;
/// Nutch: how much longer an interval gets after a poll without a change, and how
/// much shorter after one with (`inc_rate`, `dec_rate`), and how far the next poll
/// moves towards the last change (`sync_delta_rate`).
const NUTCH_LONGER: f64 = 0.4;
const NUTCH_SHORTER: f64 = 0.2;
const NUTCH_SYNC_RATE: f64 = 0.3;

/// StormCrawler: the interval that every element starts with
/// (`fetchInterval.default`), the least and the longest, and the two rates.
const STORM_START: f64 = 1440.0 * MINUTE;
const STORM_LEAST: f64 = 60.0 * MINUTE;
const STORM_MOST: f64 = 20_160.0 * MINUTE;
const STORM_RATE: f64 = 0.5;

/// Miniflux: the least and the longest interval
/// (`SCHEDULER_ENTRY_FREQUENCY_MIN_INTERVAL`, `…_MAX_INTERVAL`).
const MINIFLUX_LEAST: f64 = 5.0 * MINUTE;
const MINIFLUX_MOST: f64 = 1440.0 * MINUTE;

/// What a scheduler in use remembers of an element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// Nutch and StormCrawler: the interval, in days.
    interval: f32,
    /// Nutch: when the last change was seen.
    changed_at: f64,
    /// Miniflux: changes seen on each of the last seven days, and which day was
    /// the last of them.
    week: [u16; 7],
    day: i32,
    /// Whether a poll was made: only then is the interval its own.
    is_polled: bool,
}

impl InUse {
    pub(crate) fn start(self, now: Time) -> Memory {
        let interval = match self {
            Self::Nutch => NUTCH_START,
            Self::StormCrawler => STORM_START,
            Self::Miniflux | Self::FixedInterval => 0.0,
        };
        Memory {
            interval: interval as f32,
            changed_at: now.0,
            week: [0; 7],
            day: now.0.floor() as i32,
            is_polled: false,
        }
    }

    /// Whether an element waits for as long as a round takes, and not longer or shorter by
    /// what its polls have shown.
    pub(crate) fn waits_a_round(self, memory: &Memory) -> bool {
        self == Self::FixedInterval || !memory.is_polled
    }

    /// When the next poll is due after one that showed `outcome`.
    ///
    /// `fixed` is the interval of [`FixedInterval`](Self::FixedInterval).
    pub(crate) fn due(self, memory: &mut Memory, outcome: Outcome, now: Time, fixed: Span) -> Time {
        let changed = outcome.is_change();
        let interval = f64::from(memory.interval);
        memory.is_polled = true;
        match self {
            Self::Nutch => {
                if changed {
                    memory.changed_at = now.0;
                }
                let rate = if changed {
                    -NUTCH_SHORTER
                } else {
                    NUTCH_LONGER
                };
                let quiet = now.0 - memory.changed_at;
                let interval = (interval * (1.0 + rate)).max(quiet);
                let interval = interval.clamp(NUTCH_LEAST, NUTCH_MOST);
                memory.interval = interval as f32;
                Time(now.0 - quiet * NUTCH_SYNC_RATE + interval)
            }
            Self::StormCrawler => {
                let interval = if changed {
                    (1.0 - STORM_RATE) * interval + STORM_RATE * STORM_LEAST
                } else {
                    (interval * (1.0 + STORM_RATE)).min(STORM_MOST)
                };
                memory.interval = interval as f32;
                Time(now.0 + interval)
            }
            Self::Miniflux => {
                let day = now.0.floor() as i32;
                for passed in (memory.day + 1..=day).take(7) {
                    memory.week[passed.rem_euclid(7) as usize] = 0;
                }
                memory.day = day;
                if changed {
                    let today = &mut memory.week[day.rem_euclid(7) as usize];
                    *today = today.saturating_add(1);
                }
                let a_week: u32 = memory.week.iter().map(|&n| u32::from(n)).sum();
                let interval = if a_week == 0 {
                    MINIFLUX_MOST
                } else {
                    (7.0 / f64::from(a_week)).clamp(MINIFLUX_LEAST, MINIFLUX_MOST)
                };
                Time(now.0 + interval)
            }
            Self::FixedInterval => now + fixed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The intervals after polls that found a change or not, each made when due.
    fn intervals(rule: InUse, polls: &str) -> Vec<f64> {
        let mut now = Time(0.0);
        let mut memory = rule.start(now);
        polls
            .chars()
            .map(|poll| {
                let outcome = match poll {
                    'c' => Outcome::Changed { age: None },
                    _ => Outcome::Unchanged,
                };
                let due = rule.due(&mut memory, outcome, now, Span(3.0));
                let interval = due.0 - now.0;
                now = due;
                (interval * 1e3).round() / 1e3
            })
            .collect()
    }

    #[test]
    fn nutch_shortens_by_a_fifth_and_lengthens_by_two() {
        assert_eq!(intervals(InUse::Nutch, "cc"), [24.0, 19.2]);
        // 19.2·1.4 = 26.88 and the last change 19.2 ago, of which three tenths are
        // taken off again.
        assert_eq!(intervals(InUse::Nutch, "ccu"), [24.0, 19.2, 21.12]);
    }

    #[test]
    fn stormcrawler_halves_towards_an_hour_and_stops_at_two_weeks() {
        assert_eq!(intervals(InUse::StormCrawler, "cu"), [0.521, 0.781]);
        let long = intervals(InUse::StormCrawler, "uuuuuuuuuu");
        assert_eq!(long.last(), Some(&14.0));
    }

    #[test]
    fn miniflux_polls_as_often_as_the_last_week_had_entries() {
        let rule = InUse::Miniflux;
        let mut memory = rule.start(Time(0.0));
        let mut interval = |day: f64, outcome| {
            let due = rule.due(&mut memory, outcome, Time(day), Span(3.0));
            due.0 - day
        };
        assert_eq!(interval(0.0, Outcome::Unchanged), 1.0);
        // Polled every sixth hour, and changed each time: 28 changes a week.
        let changed = Outcome::Changed { age: None };
        for quarter in 1..=28 {
            interval(f64::from(quarter) * 0.25, changed);
        }
        assert!((interval(7.0, Outcome::Unchanged) - 0.25).abs() < 0.05);
        // A quiet week forgets them.
        assert_eq!(interval(15.0, Outcome::Unchanged), 1.0);
    }

    #[test]
    fn a_fixed_interval_is_fixed() {
        assert_eq!(intervals(InUse::FixedInterval, "cuc"), [3.0, 3.0, 3.0]);
    }
}
