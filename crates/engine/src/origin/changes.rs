//! When things change: Poisson processes that follow from a seed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::clock::Clock;

/// The changes of things that are known by their number, from 0, drawn as far as
/// somebody asked. What is drawn depends on the seed alone, not on who asks when.
#[derive(Debug)]
pub(super) struct Changes {
    clock: Clock,
    started_at: SystemTime,
    courses: Vec<Mutex<Course>>,
}

/// The changes of a thing so far, in nanoseconds since the start, and the one to
/// come, in seconds.
#[derive(Debug)]
struct Course {
    random: Pcg64Mcg,
    rate_per_second: f64,
    next: f64,
    changes: Vec<u64>,
}

impl Course {
    /// Draws changes until the one to come is after `now`.
    fn advance(&mut self, now: u64) {
        while nanoseconds(self.next) <= now {
            self.changes.push(nanoseconds(self.next));
            self.next += gap(&mut self.random, self.rate_per_second);
        }
    }
}

/// Time to the next change, in seconds; forever, if there is none.
fn gap(random: &mut Pcg64Mcg, rate_per_second: f64) -> f64 {
    let u: f64 = random.random();
    -(-u).ln_1p() / rate_per_second
}

/// Forever is later than any moment that anybody asks for.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

impl Changes {
    /// Things that change at these rates, per second, from now on.
    pub(super) fn new(
        seed: u64,
        rates_per_second: impl IntoIterator<Item = f64>,
        clock: Clock,
    ) -> Self {
        let courses = rates_per_second
            .into_iter()
            .enumerate()
            .map(|(i, rate_per_second)| {
                let mut random = Pcg64Mcg::seed_from_u64(mix(seed, i as u64, 0));
                let next = gap(&mut random, rate_per_second);
                Mutex::new(Course {
                    random,
                    rate_per_second,
                    next,
                    changes: Vec::new(),
                })
            })
            .collect();
        Self {
            clock,
            started_at: clock.wall_time(),
            courses,
        }
    }

    /// When their time began.
    pub(super) fn started_at(&self) -> SystemTime {
        self.started_at
    }

    /// The clock that they go by.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// How many things there are.
    pub(super) fn len(&self) -> usize {
        self.courses.len()
    }

    /// How often a thing had changed by a moment.
    pub(super) fn count(&self, i: usize, at: SystemTime) -> u64 {
        self.read(i, at, |changes| changes.len() as u64)
    }

    /// When a thing last changed before a moment, if it had.
    pub(super) fn last(&self, i: usize, at: SystemTime) -> Option<SystemTime> {
        let last = self.read(i, at, |changes| changes.last().copied())?;
        Some(self.moment(last))
    }

    /// When a thing changed, up to a moment.
    pub(super) fn until(&self, i: usize, at: SystemTime) -> Vec<SystemTime> {
        self.read(i, at, |changes| {
            changes.iter().map(|&change| self.moment(change)).collect()
        })
    }

    /// Makes a thing change now, beside the changes that it would have had; not before
    /// the last of them.
    pub(super) fn add(&self, i: usize) {
        let now = self.since_start(self.clock.wall_time());
        if let Some(mut course) = self.course(i) {
            course.advance(now);
            let last = course.changes.last().copied().unwrap_or(0);
            course.changes.push(now.max(last));
        }
    }

    fn read<T>(&self, i: usize, at: SystemTime, read: impl FnOnce(&[u64]) -> T) -> T {
        let now = self.since_start(at);
        let Some(mut course) = self.course(i) else {
            return read(&[]);
        };
        course.advance(now);
        let n = course.changes.partition_point(|&change| change <= now);
        read(&course.changes[..n])
    }

    fn course(&self, i: usize) -> Option<MutexGuard<'_, Course>> {
        let course = self.courses.get(i)?;
        Some(course.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn since_start(&self, at: SystemTime) -> u64 {
        let since = at.duration_since(self.started_at).unwrap_or_default();
        // Centuries are long enough; the last nanosecond is forever.
        u64::try_from(since.as_nanos())
            .unwrap_or(u64::MAX)
            .min(u64::MAX - 1)
    }

    fn moment(&self, nanoseconds: u64) -> SystemTime {
        self.started_at + Duration::from_nanos(nanoseconds)
    }
}

/// A rate per second of our time from one per day of a time that is so much faster.
pub(super) fn rate_per_second(rate: springtide_policy::Rate, time_scale: f64) -> f64 {
    // `max` also turns a scale that is not a number into a time that stands still.
    (rate.as_per_day() / 86_400.0 * time_scale).max(0.0)
}

/// A seed from three numbers, each bit of which depends on all of them.
pub(super) fn mix(a: u64, b: u64, c: u64) -> u64 {
    next(next(next(a) ^ b) ^ c)
}

/// The generator SplitMix64.
pub(super) fn next(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
