//! Clocks that were set between runs.
//!
//! How much time has passed since the last run, a clock cannot show that may have been set
//! meanwhile. The machine can, while it is up: by how much its start seems to have moved is
//! how far the clock was set. What is kept of hosts is then moved as far, so that a
//! Retry-After or a back-off ends neither sooner nor later. After a restart of the machine
//! nothing shows it, and a clock is believed that is not behind what was written.

use springtide_store::{Fact, Host, Moment, Reader as _, Sqlite, Writer as _};

use crate::Error;
use crate::clock::{Clock, Machine};

/// Under which it is written down.
const NAME: &str = "machine";
/// Nothing is moved by less, in milliseconds: the time since the machine's start is told
/// in hundredths of a second.
const LEAST: i64 = 50;

/// Moves what is kept of hosts as far as the clock was set since the last run.
///
/// # Errors
/// If the store cannot be read or written.
pub(crate) fn account_for(store: &mut Sqlite, clock: &Clock) -> Result<(), Error> {
    let Some(machine) = clock.machine() else {
        return Ok(());
    };
    let before = store.note(NAME)?.and_then(|bytes| from_bytes(&bytes));
    let moved_by = match before {
        Some(before) if before.boot == machine.boot => {
            machine.up_since.saturating_sub(before.up_since)
        }
        _ => 0,
    };
    let is_moved = moved_by.abs() >= LEAST;
    if !is_moved && before.is_some_and(|before| before.boot == machine.boot) {
        return Ok(());
    }
    // In one batch: whoever is killed here has moved all of them, or none.
    let mut facts = vec![Fact::Note(NAME, Some(to_bytes(machine)))];
    if is_moved {
        let hosts = store.hosts()?.into_iter();
        facts.extend(hosts.map(|host| Fact::Host(moved(host, moved_by))));
    }
    Ok(store.commit(&facts)?)
}

fn moved(mut host: Host, by: i64) -> Host {
    let moved = |at: Moment| Moment(at.0.saturating_add(by));
    host.requested_at = host.requested_at.map(moved);
    host.not_before = host.not_before.map(moved);
    for robots in &mut host.robots {
        robots.fetched_at = moved(robots.fetched_at);
    }
    host
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
