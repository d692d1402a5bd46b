//! What a running engine is told, and what it tells: commands in, events out, both
//! bounded. A listener that is slow misses events, and is told how many; it never holds
//! up a poll.

use std::sync::Arc;

use springtide_store::{ElementId, Moment};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::event::{Event, PausedHost};

/// Events that wait for a slow listener; older ones are dropped.
const MOST_EVENTS: usize = 16_384;
/// Commands that wait for the engine.
const MOST_COMMANDS: usize = 64;

/// The two ends of a running engine: the one to hold, and the one to
/// [run](crate::run()) with.
///
/// ```
/// use springtide_engine::{Heard, handle};
///
/// let (handle, controls) = handle();
/// let mut events = handle.events();
/// drop(controls);
/// // Nobody runs with it any more, so nothing is told.
/// let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// assert!(matches!(runtime.block_on(events.next()), None::<Heard>));
/// ```
pub fn handle() -> (Handle, Controls) {
    let (stop, stopped) = watch::channel(false);
    let (to_engine, commands) = mpsc::channel(MOST_COMMANDS);
    let (events, _) = broadcast::channel(MOST_EVENTS);
    let handle = Handle {
        stop: Arc::new(stop),
        commands: to_engine,
        events: events.downgrade(),
    };
    let controls = Controls {
        stop: stopped,
        commands,
        events,
    };
    (handle, controls)
}

/// A hold on a running engine. Clones hold the same one.
#[derive(Debug, Clone)]
pub struct Handle {
    stop: Arc<watch::Sender<bool>>,
    commands: mpsc::Sender<Command>,
    events: broadcast::WeakSender<Event>,
}

/// Something that an engine is told to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Poll these next.
    Poll(Vec<ElementId>),
    /// Somebody says that these changed at that moment.
    Hint(Vec<ElementId>, Moment),
    /// What these listings list has changed.
    ListingsChanged(Vec<ElementId>),
    /// Keep a note by this name, and say so once it is on the disk.
    Note(&'static str, Vec<u8>, oneshot::Sender<()>),
    /// Spend this many polls a day from now on.
    Budget(f64),
    /// Say how it goes.
    Pulse(oneshot::Sender<Pulse>),
}

/// How a running engine goes, said by its loop: whoever hears it knows that it turns.
#[derive(Debug, Clone, PartialEq)]
pub struct Pulse {
    /// When it was said.
    pub at: Moment,
    /// Requests that have begun since the start.
    pub n_begun: u64,
    /// Polls that have ended.
    pub n_polls: u64,
    /// Those of them that failed.
    pub n_failed: u64,
    /// Requests that are under way, those for a robots.txt among them.
    pub n_under_way: usize,
    /// Whether the budget allows a poll now.
    pub may_spend: bool,
    /// When the next request may begin, by the budget, by what is due and by what hosts ask
    /// for, if nothing is heard before; nothing if none would.
    pub next_at: Option<Moment>,
    /// Hosts that are paused now.
    pub paused_hosts: Vec<PausedHost>,
}

/// The engine is not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine is not running")]
pub struct NotRunning;

impl Handle {
    /// Begins no more polls, and ends when those under way have. If it has ended
    /// already, nothing happens.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Whether the engine has ended, or never began.
    pub fn is_over(&self) -> bool {
        self.stop.is_closed()
    }

    /// Polls these next, as soon as budget and hosts allow.
    ///
    /// # Errors
    /// If the engine is not running.
    pub async fn poll(&self, elements: Vec<ElementId>) -> Result<(), NotRunning> {
        let command = Command::Poll(elements);
        self.commands.send(command).await.map_err(|_| NotRunning)
    }

    /// Somebody says that these changed at that moment. That is evidence, which counts for
    /// what it has been worth so far, and asks for no poll by itself. Of those that were
    /// polled since, it says nothing: their copies have the change.
    ///
    /// # Errors
    /// If the engine is not running.
    pub async fn hint(
        &self,
        elements: Vec<ElementId>,
        changed_at: Moment,
    ) -> Result<(), NotRunning> {
        let command = Command::Hint(elements, changed_at);
        self.commands.send(command).await.map_err(|_| NotRunning)
    }

    /// What these listings list is known to have changed: they are polled as soon as budget,
    /// hosts and what they asked for allow.
    ///
    /// # Errors
    /// If the engine is not running.
    pub async fn listings_changed(&self, listings: Vec<ElementId>) -> Result<(), NotRunning> {
        let command = Command::ListingsChanged(listings);
        self.commands.send(command).await.map_err(|_| NotRunning)
    }

    /// Keeps a note in the store, of which the engine is the only writer. It is on the disk
    /// when this returns.
    ///
    /// # Errors
    /// If the engine is not running, or ended before it was kept.
    pub async fn keep_note(&self, name: &'static str, bytes: Vec<u8>) -> Result<(), NotRunning> {
        let (kept, is_kept) = oneshot::channel();
        let command = Command::Note(name, bytes, kept);
        self.commands.send(command).await.map_err(|_| NotRunning)?;
        is_kept.await.map_err(|_| NotRunning)
    }

    /// From now on this many polls a day may be spent.
    ///
    /// # Errors
    /// If the engine is not running, or is behind with what it was told before.
    pub fn set_budget(&self, per_day: f64) -> Result<(), NotRunning> {
        let command = Command::Budget(per_day);
        self.commands.try_send(command).map_err(|_| NotRunning)
    }

    /// How it goes, once the loop has come round to say so.
    ///
    /// # Errors
    /// If the engine is not running.
    pub async fn pulse(&self) -> Result<Pulse, NotRunning> {
        let (said, heard) = oneshot::channel();
        let command = Command::Pulse(said);
        self.commands.send(command).await.map_err(|_| NotRunning)?;
        heard.await.map_err(|_| NotRunning)
    }

    /// Everything that is told from now on.
    pub fn events(&self) -> Events {
        Events(self.events.upgrade().map(|events| events.subscribe()))
    }
}

/// What an engine tells, from some moment on.
#[derive(Debug)]
pub struct Events(Option<broadcast::Receiver<Event>>);

/// What a listener hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// Something happened.
    Event(Event),
    /// So many events were missed by a listener that was too slow.
    Missed(u64),
}

impl Events {
    /// The next, once there is one; nothing once the engine has ended.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.0.as_mut()?.recv().await {
            Ok(event) => Some(Heard::Event(event)),
            Err(broadcast::error::RecvError::Lagged(n)) => Some(Heard::Missed(n)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// The engine's end of a [`Handle`].
#[derive(Debug)]
pub struct Controls {
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) events: broadcast::Sender<Event>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(n_elements: u64) -> Event {
        Event::Found {
            source: "docs".to_owned(),
            n_elements,
        }
    }

    #[tokio::test]
    async fn a_slow_listener_misses_the_oldest_and_holds_up_nobody() {
        let (handle, controls) = handle();
        let (mut slow, mut other) = (handle.events(), handle.events());
        let n = MOST_EVENTS as u64 + 10;
        for number in 0..n {
            // As the engine tells: without waiting for anyone.
            assert!(controls.events.send(event(number)).is_ok());
        }
        assert_eq!(slow.next().await, Some(Heard::Missed(10)));
        assert_eq!(slow.next().await, Some(Heard::Event(event(10))));
        drop(controls);
        let mut last = None;
        while let Some(told) = other.next().await {
            last = Some(told);
        }
        assert_eq!(last, Some(Heard::Event(event(n - 1))));
        assert!(handle.is_over());
        assert_eq!(handle.poll(vec![ElementId(1)]).await, Err(NotRunning));
        assert_eq!(handle.events().next().await, None);
    }
}
