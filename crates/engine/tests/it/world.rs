//! A world of our own, in virtual time: hosts within this process, and a clock that
//! goes on only when everybody waits. For tests with `start_paused = true`.

use std::path::Path;
use std::time::Duration;

use springtide_engine::clock::Clock;
use springtide_engine::fetch::Client;
use springtide_engine::origin::search::{SearchServer, SearchSettings};
use springtide_engine::origin::{Network, Origin, SiteSettings};
use springtide_engine::settings::HttpSettings;
use springtide_engine::{
    Ended, Event, Handle, Heard, Outside, RunOptions, RunScope, Settings, handle,
};
use springtide_store::Moment;

/// When worlds begin: the 14th of November 2023, at 22:13:20.
pub(crate) const BEGINNING: Moment = Moment(1_700_000_000_000);

/// How often it is looked whether a run may end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Hosts, a clock, and a seed.
pub(crate) struct World {
    pub(crate) network: Network,
    pub(crate) seed: u64,
}

impl World {
    /// A world without hosts, in which it is [`BEGINNING`].
    pub(crate) fn new() -> Self {
        Self::with_seed(1)
    }

    pub(crate) fn with_seed(seed: u64) -> Self {
        Self {
            network: Network::new(Clock::starting_at(BEGINNING)),
            seed,
        }
    }

    pub(crate) fn site(&self, name: &str, settings: SiteSettings) -> Origin {
        Origin::start_in(&self.network, name, settings)
    }

    pub(crate) fn shop(&self, name: &str, settings: SearchSettings) -> SearchServer {
        SearchServer::start_in(&self.network, name, settings)
    }

    pub(crate) fn client(&self, settings: &HttpSettings) -> Client {
        Client::over(self.network.wire(), settings, self.network.clock()).unwrap()
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
        options: RunOptions,
    ) -> (Ended, Vec<Event>) {
        let (handle, controls) = handle();
        let events = told(&handle);
        let run = springtide_engine::run(folder, settings, options, controls, self.outside());
        let (ended, events) = tokio::join!(run, events);
        (ended.unwrap(), events)
    }

    /// The same for so many seconds.
    pub(crate) async fn run_for(
        &self,
        folder: &Path,
        settings: &Settings,
        seconds: f64,
    ) -> (Ended, Vec<Event>) {
        self.run(folder, settings.clone(), for_seconds(seconds))
            .await
    }

    /// The same until nothing is due.
    pub(crate) async fn run_once(&self, folder: &Path, settings: &Settings) -> Ended {
        let options = RunOptions {
            scope: RunScope::DueNow,
            ..RunOptions::default()
        };
        self.run(folder, settings.clone(), options).await.0
    }

    /// The same until something is so, or no longer than that.
    pub(crate) async fn run_till(
        &self,
        folder: &Path,
        settings: Settings,
        options: RunOptions,
        mut is_done: impl FnMut() -> bool,
    ) -> (Ended, Vec<Event>) {
        let (handle, controls) = handle();
        let events = told(&handle);
        let run = springtide_engine::run(folder, settings, options, controls, self.outside());
        let look = async {
            while !handle.is_over() && !is_done() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            handle.stop();
        };
        let (ended, events, ()) = tokio::join!(run, events, look);
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
                Heard::Event(event) => told.push(event),
                Heard::Missed(n) => panic!("{n} events were missed"),
            }
        }
        told
    }
}

pub(crate) fn for_seconds(seconds: f64) -> RunOptions {
    RunOptions {
        span: Some(Duration::from_secs_f64(seconds)),
        ..RunOptions::default()
    }
}
