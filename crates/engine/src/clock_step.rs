//! Clocks that were set between runs.
//!
//! A clock that may have been set between runs does not tell how much time has passed. While
//! the machine stays up, its boot time does: as far as that seems to have moved, the clock
//! was set. Hosts' times are moved as far, so that a Retry-After or a back-off ends neither
//! sooner nor later. After a reboot nothing shows it, and the clock is believed unless it is
//! behind what was written.
//!
//! What is thrown away because of its age cannot be had back, so that there a clock is not
//! believed as easily: see [`TrustedNow`].

use springtide_store::{Fact, Moment, Reader, Sqlite, Writer as _};

use crate::Error;
use crate::clock::{Clock, Machine};

/// The note with the machine's boot time.
const MACHINE: &str = "machine";
/// The note with the trusted present.
const TRUSTED_NOW: &str = "present";
/// Nothing is moved by less, in milliseconds: the time since the machine's start is told
/// in hundredths of a second.
const MIN_SHIFT_MS: i64 = 50;
/// A clock that is ahead of the known time by more than this, in milliseconds, is doubted for
/// as long: one day. Clocks drift far less, and history is kept far longer.
const DOUBTED: i64 = 86_400_000;

/// The present, to tell by it how old something is that was written down.
///
/// A clock that was set ahead (by a year, for a moment) would make all history too old to be
/// kept. So one that is more than a day ahead of what is known to have passed is believed
/// only after it has shown that for a day; until then, what was written before is as old as
/// it is known to be, and what was written since as old as the clock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustedNow {
    clock: Moment,
    doubt: Option<Doubt>,
}

/// A clock that went ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Doubt {
    /// What it showed when that was first seen.
    since: Moment,
    /// The moment it is, as far as is known.
    known: Moment,
}

impl TrustedNow {
    /// What a clock shows that is believed.
    pub fn at(clock: Moment) -> Self {
        Self { clock, doubt: None }
    }

    /// What a clock shows beside a store. What is known of the time that has passed since it
    /// was written is the machine's word, or else none.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn beside(store: &dyn Reader, clock: &Clock) -> Result<Self, Error> {
        let now = clock.now();
        let before = store.note(TRUSTED_NOW)?;
        Ok(match before.and_then(|bytes| Self::from_bytes(&bytes)) {
            Some(before) => before.after(now, moved_by(store, clock)?),
            None => Self::at(now),
        })
    }

    /// How old something is that was written down then, in milliseconds; nothing if that is
    /// still to come.
    pub fn age(&self, at: Moment) -> i64 {
        let now = match self.doubt {
            Some(doubt) if at < doubt.since => doubt.known,
            _ => self.clock,
        };
        now.0.saturating_sub(at.0).max(0)
    }

    /// How far the clock is ahead of what is known, in milliseconds, while it is doubted.
    pub fn ahead_by(&self) -> Option<i64> {
        let lead = |doubt: Doubt| self.clock.0.saturating_sub(doubt.known.0);
        self.doubt.map(lead)
    }

    /// To be kept, for whoever comes next.
    pub fn fact(&self) -> Fact {
        let Doubt { since, known } = self.doubt.unwrap_or(Doubt {
            since: Moment(i64::MAX),
            known: self.clock,
        });
        let numbers = [self.clock, since, known].map(|moment| moment.0.to_le_bytes());
        Fact::Note(TRUSTED_NOW, Some(numbers.concat()))
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = bytes.get(8 * at..8 * at + 8)?;
            Some(Moment(i64::from_le_bytes(bytes.try_into().ok()?)))
        };
        let (clock, since, known) = (number(0)?, number(1)?, number(2)?);
        let doubt = (since.0 != i64::MAX).then_some(Doubt { since, known });
        Some(Self { clock, doubt })
    }

    /// The present later, when the clock shows this and was set by so much meanwhile, if
    /// that is known.
    fn after(self, clock: Moment, set_by: Option<i64>) -> Self {
        let shown = clock.0.saturating_sub(self.clock.0);
        let passed = set_by.map_or(0, |set_by| shown.saturating_sub(set_by).max(0));
        let known = self.doubt.map_or(self.clock, |doubt| doubt.known);
        let known = Moment(known.0.saturating_add(passed));
        if clock.0.saturating_sub(known.0) <= DOUBTED {
            return Self::at(clock);
        }
        let since = match self.doubt {
            Some(doubt) if doubt.since <= clock => doubt.since,
            _ => clock,
        };
        if clock.0.saturating_sub(since.0) >= DOUBTED {
            return Self::at(clock);
        }
        let doubt = Some(Doubt { since, known });
        Self { clock, doubt }
    }
}

/// Moves what is kept of hosts as far as the clock was set since the last run, and writes
/// down what time it is.
///
/// # Errors
/// If the store cannot be read or written.
pub(crate) fn shift_hosts(store: &mut Sqlite, clock: &Clock) -> Result<(), Error> {
    let mut facts = vec![TrustedNow::beside(store, clock)?.fact()];
    let moved_by = moved_by(store, clock)?;
    let is_moved = moved_by.is_some_and(|by| by.abs() >= MIN_SHIFT_MS);
    if let Some(machine) = clock.machine()
        && (is_moved || moved_by.is_none())
    {
        facts.push(Fact::Note(MACHINE, Some(to_bytes(machine))));
    }
    if let (true, Some(by)) = (is_moved, moved_by) {
        let moved = |at: Moment| Moment(at.0.saturating_add(by));
        for mut host in store.hosts()? {
            host.requested_at = host.requested_at.map(moved);
            host.not_before = host.not_before.map(moved);
            facts.push(Fact::Host(host));
        }
        for (group, mut of_group) in store.robots()? {
            for robots in &mut of_group {
                robots.fetched_at = moved(robots.fetched_at);
            }
            facts.push(Fact::Robots(group, of_group));
        }
    }
    // In one batch: whoever is killed here has moved all of them, or none.
    Ok(store.commit(&facts)?)
}

/// How far the clock was set since the machine was last written down, in milliseconds;
/// nothing is known of it if the machine was restarted since.
fn moved_by(store: &dyn Reader, clock: &Clock) -> Result<Option<i64>, Error> {
    let Some(machine) = clock.machine() else {
        return Ok(None);
    };
    let before = store.note(MACHINE)?.and_then(|bytes| from_bytes(&bytes));
    let before = before.filter(|before| before.boot == machine.boot);
    Ok(before.map(|before| machine.up_since.saturating_sub(before.up_since)))
}

fn to_bytes(machine: Machine) -> Vec<u8> {
    let mut bytes = machine.boot.to_le_bytes().to_vec();
    bytes.extend(machine.up_since.to_le_bytes());
    bytes
}

fn from_bytes(bytes: &[u8]) -> Option<Machine> {
    let (boot, up_since) = bytes.split_at_checked(16)?;
    Some(Machine {
        boot: u128::from_le_bytes(boot.try_into().ok()?),
        up_since: i64::from_le_bytes(up_since.try_into().ok()?),
    })
}
