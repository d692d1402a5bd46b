//! What is counted of what an engine tells: for metrics, since this process began.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use springtide_engine::Event;
use springtide_store::{ChangeKind, Moment};

/// The upper ends of the buckets of a poll's seconds: from an answer of a server next door
/// to a timeout.
pub(crate) const BUCKETS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0,
];

/// Running counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Counts {
    /// Of each source: changed, unchanged, failed.
    pub(crate) polls: BTreeMap<String, [u64; 3]>,
    /// Polls that took at most as long as each bucket says, and longer ones.
    pub(crate) seconds: [u64; BUCKETS.len() + 1],
    pub(crate) n_timed: u64,
    pub(crate) sum_seconds: f64,
    pub(crate) last_poll_at: Option<Moment>,
    /// Events that came faster than they could be counted.
    pub(crate) n_missed: u64,
}

/// What came of polls, as metrics call it.
pub(crate) const OUTCOMES: [&str; 3] = ["changed", "unchanged", "failed"];

impl Tally {
    pub(crate) fn hear(&self, event: &Event) {
        let (source, seconds, at, outcome) = match event {
            Event::Polled(polled) => {
                let outcome = match (&polled.change, &polled.error) {
                    (Some(ChangeKind::Changed | ChangeKind::Gone | ChangeKind::Back), _) => 0,
                    (_, Some(_)) => 2,
                    _ if polled.differs => 0,
                    // The first copy of an element is no change of it.
                    (Some(ChangeKind::Added) | None, None) => 1,
                };
                (&polled.source, polled.seconds, polled.at, outcome)
            }
            Event::Asked {
                source,
                seconds,
                at,
                error,
                ..
            } => (source, *seconds, *at, if error.is_some() { 2 } else { 1 }),
            _ => return,
        };
        let mut counts = self.lock();
        counts.polls.entry(source.clone()).or_default()[outcome] += 1;
        let bucket = BUCKETS.iter().position(|end| seconds <= *end);
        counts.seconds[bucket.unwrap_or(BUCKETS.len())] += 1;
        counts.n_timed += 1;
        counts.sum_seconds += seconds;
        counts.last_poll_at = counts.last_poll_at.max(Some(at));
    }

    pub(crate) fn miss(&self, n: u64) {
        self.lock().n_missed += n;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
