//! The engine beside a server: whether it runs, how to tell it something, and what it
//! tells.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use springtide_engine::source::websub::PushOffer;
use springtide_engine::{Event, Handle, Heard, Pulse};
use springtide_store::{ElementId, Moment};
use tokio::sync::{Notify, watch};

use crate::problem::Problem;
use crate::tally::Tally;

/// How it stands with the engine.
#[derive(Debug, Clone)]
pub(crate) enum EngineState {
    /// It is about to run, for the first time or again.
    Starting,
    Running(Handle),
    /// Another process runs the project.
    ReadOnly(String),
    /// It cannot go on, and is tried again.
    Failed(String),
}

/// Whoever starts and ends engines tells a server by this. Clones tell the same one.
#[derive(Debug, Clone)]
pub struct Link {
    state: Arc<watch::Sender<EngineState>>,
    runtime: tokio::runtime::Handle,
    tally: Arc<Tally>,
    /// Something was found, or may have been.
    found: Arc<Notify>,
    /// Who tells of the changes of feeds, by the names of their sources.
    offers: Arc<Mutex<BTreeMap<String, PushOffer>>>,
    has_run: Arc<AtomicBool>,
}

/// An engine that is started again is waited for this long.
const PATIENCE: Duration = Duration::from_secs(15);

impl Link {
    pub(crate) fn new(runtime: tokio::runtime::Handle, tally: Arc<Tally>) -> Self {
        Self {
            state: Arc::new(watch::Sender::new(EngineState::Starting)),
            runtime,
            tally,
            found: Arc::default(),
            offers: Arc::default(),
            has_run: Arc::default(),
        }
    }

    /// An engine is about to run, of which this is a handle. It runs once it says so.
    pub fn began(&self, handle: &Handle) {
        let mut events = handle.events();
        let (tally, found) = (Arc::clone(&self.tally), Arc::clone(&self.found));
        let (state, handle) = (Arc::clone(&self.state), handle.clone());
        let (has_run, offers) = (Arc::clone(&self.has_run), Arc::clone(&self.offers));
        self.runtime.spawn(async move {
            while let Some(heard) = events.next().await {
                match heard {
                    Heard::Event(event) => {
                        if matches!(event, Event::Started { .. }) {
                            has_run.store(true, Ordering::Relaxed);
                            state.send_replace(EngineState::Running(handle.clone()));
                        }
                        if matches!(&event, Event::Polled(polled) if polled.change.is_some())
                            || matches!(event, Event::Asked { .. } | Event::Found { .. })
                        {
                            found.notify_one();
                        }
                        tally.hear(&event);
                        if let Event::PushOffered { source, offer } = event {
                            let mut offers = offers.lock().unwrap_or_else(PoisonError::into_inner);
                            offers.insert(source, offer);
                        }
                    }
                    Heard::Missed(n) => tally.miss(n),
                }
            }
            found.notify_one();
        });
    }

    /// Whether an engine has ever run.
    pub fn has_run(&self) -> bool {
        self.has_run.load(Ordering::Relaxed)
    }

    /// It is about to be started again.
    pub fn restarting(&self) {
        self.state.send_replace(EngineState::Starting);
    }

    /// Another process runs the project, for this is why it cannot be run here.
    pub fn is_read_only(&self, why: String) {
        self.state.send_replace(EngineState::ReadOnly(why));
    }

    /// It cannot go on, and will be tried again.
    pub fn failed(&self, why: String) {
        self.state.send_replace(EngineState::Failed(why));
    }

    pub(crate) fn state(&self) -> EngineState {
        self.state.borrow().clone()
    }

    /// How it stands, from now on.
    pub(crate) fn states(&self) -> watch::Receiver<EngineState> {
        self.state.subscribe()
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What feeds have offered since this was last asked.
    pub(crate) fn offers(&self) -> BTreeMap<String, PushOffer> {
        let mut offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *offers)
    }

    /// Returns once something may have been found.
    pub(crate) async fn found(&self) {
        self.found.notified().await;
    }

    /// Polls these next.
    pub(crate) async fn poll(&self, elements: Vec<ElementId>) -> Result<(), Problem> {
        self.tell(&Command::Poll(elements)).await
    }

    /// Somebody says that these changed at that moment.
    pub(crate) async fn hint(
        &self,
        elements: Vec<ElementId>,
        changed_at: Moment,
    ) -> Result<(), Problem> {
        self.tell(&Command::Hint(elements, changed_at)).await
    }

    /// What these listings list has changed.
    pub(crate) async fn listings_changed(&self, listings: Vec<ElementId>) -> Result<(), Problem> {
        self.tell(&Command::ListingsChanged(listings)).await
    }

    /// Keeps a note in the store.
    pub(crate) async fn keep_note(
        &self,
        name: &'static str,
        bytes: Vec<u8>,
    ) -> Result<(), Problem> {
        self.tell(&Command::Note(name, bytes)).await
    }

    /// How the engine goes, unless it does not say so in time.
    pub(crate) async fn pulse(&self, within: Duration) -> Option<Pulse> {
        let EngineState::Running(handle) = self.state() else {
            return None;
        };
        let pulse = tokio::time::timeout(within, handle.pulse()).await;
        pulse.ok().and_then(Result::ok)
    }

    /// Tells the engine that runs, or the one that is about to.
    async fn tell(&self, command: &Command) -> Result<(), Problem> {
        let mut states = self.state.subscribe();
        let told = async {
            loop {
                let state = states.borrow_and_update().clone();
                match state {
                    EngineState::Running(handle) => {
                        if command.send(&handle).await {
                            return Ok(());
                        }
                    }
                    EngineState::ReadOnly(why) => return Err(read_only(&why)),
                    EngineState::Failed(why) => {
                        let problem = format!("the engine cannot go on: {why}");
                        return Err(Problem::unavailable(problem));
                    }
                    EngineState::Starting => {}
                }
                if states.changed().await.is_err() {
                    return Err(Problem::unavailable("the engine has ended"));
                }
            }
        };
        match tokio::time::timeout(PATIENCE, told).await {
            Ok(told) => told,
            Err(_) => Err(Problem::unavailable("the engine does not answer")),
        }
    }
}

/// Something that an engine is told.
enum Command {
    Poll(Vec<ElementId>),
    Hint(Vec<ElementId>, Moment),
    ListingsChanged(Vec<ElementId>),
    Note(&'static str, Vec<u8>),
}

impl Command {
    /// Whether it was taken.
    async fn send(&self, handle: &Handle) -> bool {
        let given = match self {
            Self::Poll(elements) => handle.poll(elements.clone()).await,
            Self::Hint(elements, at) => handle.hint(elements.clone(), *at).await,
            Self::ListingsChanged(listings) => handle.listings_changed(listings.clone()).await,
            Self::Note(name, bytes) => handle.keep_note(name, bytes.clone()).await,
        };
        given.is_ok()
    }
}

/// What is answered to whoever wants something of an engine that is not ours.
pub(crate) fn read_only(why: &str) -> Problem {
    Problem::new(
        axum::http::StatusCode::CONFLICT,
        format!("this server is read-only: {why}"),
    )
    .hint("ask the process that runs the project, or stop it")
}
