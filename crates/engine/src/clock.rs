//! The one clock, and how its moments are written down.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use springtide_policy::{Span, Time};
use springtide_store::Moment;
use tokio::time::Instant;

const MILLIS_PER_DAY: f64 = 86_400_000.0;

/// Tells the time, and never goes back: it starts at a moment and goes on as Tokio's
/// timers do. Where those are paused (`tokio::time::pause`), so is this clock, and a
/// test of a day takes as long as the work that is done in it.
///
/// The system's clock is read once, at the start. Setting it during a run changes nothing
/// in the run; our times are then off by that much until the next start.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started_at: SystemTime,
    began: Instant,
    machine: Option<Machine>,
}

/// Since when a machine is up, in milliseconds since 1970 by a clock. As long as it is up,
/// that changes only if the clock is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Which start of which machine it is.
    pub(crate) boot: u128,
    pub(crate) up_since: i64,
}

impl Machine {
    /// What Linux says of it; other systems say nothing.
    fn of_system(now: SystemTime) -> Option<Self> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let id: String = id.chars().filter(char::is_ascii_hexdigit).collect();
        let boot = u128::from_str_radix(&id, 16).ok()?;
        // It goes on while the machine sleeps.
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let seconds: f64 = uptime.split_whitespace().next()?.parse().ok()?;
        Some(Self {
            boot,
            up_since: moment(now).0 - (seconds * 1000.0) as i64,
        })
    }
}

impl Clock {
    /// A clock that shows what the system's shows now.
    pub fn system() -> Self {
        let now = SystemTime::now();
        Self {
            started_at: now,
            began: Instant::now(),
            machine: Machine::of_system(now),
        }
    }

    /// A clock that shows this moment now.
    pub fn starting_at(at: Moment) -> Self {
        Self {
            started_at: wall_time(at),
            began: Instant::now(),
            machine: None,
        }
    }

    /// The same on a machine that has been up for so many milliseconds since a start with
    /// this number.
    #[must_use]
    pub fn on_machine(self, boot: u128, up_for: i64) -> Self {
        let up_since = self.now().0 - up_for;
        Self {
            machine: Some(Machine { boot, up_since }),
            ..self
        }
    }

    /// Since when the machine is up, if that is known.
    pub(crate) fn machine(&self) -> Option<Machine> {
        self.machine
    }

    /// The moment it is.
    pub fn now(&self) -> Moment {
        moment(self.wall_time())
    }

    /// The moment it is, to the nanosecond.
    pub fn wall_time(&self) -> SystemTime {
        self.started_at + self.began.elapsed()
    }
}

/// A moment of the system's clock.
pub fn moment(at: SystemTime) -> Moment {
    Moment(match at.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_millis() as i64,
        Err(before) => -(before.duration().as_millis() as i64),
    })
}

/// A moment as the system's clock has it.
pub fn wall_time(at: Moment) -> SystemTime {
    let since = Duration::from_millis(at.0.unsigned_abs());
    if at.0 < 0 {
        UNIX_EPOCH - since
    } else {
        UNIX_EPOCH + since
    }
}

/// A moment as policies know it: days since 1970.
pub fn time(at: Moment) -> Time {
    Time::from_days(at.0 as f64 / MILLIS_PER_DAY).unwrap_or(Time::START)
}

/// A policy's time as a moment; nothing if that never comes.
pub fn moment_of(time: Time) -> Option<Moment> {
    let millis = time.as_days() * MILLIS_PER_DAY;
    (millis.abs() < 9e15).then(|| Moment(millis.round() as i64))
}

/// A policy's span in days.
pub fn span(duration: Duration) -> Span {
    Span::days(duration.as_secs_f64() / 86_400.0).unwrap_or(Span::ZERO)
}

/// Milliseconds from one moment to another; zero if it is the other way round.
pub fn millis_between(earlier: Moment, later: Moment) -> i64 {
    later.0.saturating_sub(earlier.0).max(0)
}

/// How long to wait until a time; a while, if that never comes.
pub fn until(time: Time, now: Moment) -> Duration {
    const MAX_SLEEP: Duration = Duration::from_secs(60);
    let millis = time.as_days() * MILLIS_PER_DAY - now.0 as f64;
    if millis >= MAX_SLEEP.as_millis() as f64 {
        MAX_SLEEP
    } else {
        Duration::from_micros((millis.max(0.0) * 1000.0).ceil() as u64)
    }
}
