//! A world of our own, in virtual time: hosts within this process, and a clock that
//! goes on only when everybody waits. For tests with `start_paused = true`.

use std::path::Path;
use std::time::Duration;

use springtide_engine::clock::Clock;
use springtide_engine::origin::Network;
use springtide_engine::{Ended, Event, Handle, Outside, Settings, Told, Until, handle};
use springtide_store::Moment;

/// When worlds begin: the 14th of November 2023, at 22:13:20.
pub(crate) const BEGINNING: Moment = Moment(1_700_000_000_000);

/// Hosts, a clock, and a seed.
pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) seed: u64,
}

impl World {
    /// A world without hosts, in which it is [`BEGINNING`].
    pub(crate) fn new() -> Self {
        Self {
            network: Network::new(Clock::starting_at(BEGINNING)),
            seed: 1,
        }
    }

    pub(crate) fn outside(&self) -> Outside {
        Outside {
            clock: self.network.clock(),
            wire: self.network.wire(),
            seed: self.seed,
        }
    }

    /// Time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        let millis = self.network.clock().now().0 - BEGINNING.0;
        Duration::from_millis(millis.unsigned_abs())
    }

    /// Runs the engine, and says what it told.
    pub(crate) async fn run(
        &self,
        folder: &Path,
        settings: Settings,
        until: Until,
    ) -> (Ended, Vec<Event>) {
        let (handle, controls) = handle();
        let events = told(&handle);
        let run = springtide_engine::run(folder, settings, until, controls, self.outside());
        let (ended, events) = tokio::join!(run, events);
        (ended.unwrap(), events)
    }
}

/// All that an engine tells from now on until it ends.
pub(crate) fn told(handle: &Handle) -> impl Future<Output = Vec<Event>> + use<> {
    let mut events = handle.events();
    async move {
        let mut told = Vec::new();
        while let Some(next) = events.next().await {
            match next {
                Told::Event(event) => told.push(event),
                Told::Missed(n) => panic!("{n} events were missed"),
            }
        }
        told
    }
}
