//! Ctrl-C, SIGTERM and SIGHUP.

use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::failure::Code;
use crate::table::Unfinished;

/// What to do when we are told to stop.
///
/// By default the process ends without leaving half a file behind. Work that wants to
/// end in its own time says so with [`on_stop`](Self::on_stop).
#[derive(Clone, Default)]
pub(crate) struct Signals {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    on_stop: Option<Box<dyn FnOnce() + Send>>,
    on_hangup: Option<Box<dyn FnMut() + Send>>,
    received: Option<i32>,
}

impl Signals {
    /// Listens for the rest of the process's life.
    pub(crate) fn listen(unfinished: &Unfinished) -> Self {
        let ours = Self::default();
        // A file that grows too large (SIGXFSZ) is an error of the write, if only the
        // signal does not kill us first.
        let mut wanted = vec![SIGINT, SIGTERM, SIGXFSZ];
        // Whoever starts us with `nohup` wants us to outlive the terminal.
        if !is_ignored(SIGHUP) {
            wanted.push(SIGHUP);
        }
        let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else {
            return ours;
        };
        let unfinished = Arc::clone(unfinished);
        let listening = ours.clone();
        std::thread::spawn(move || {
            for signal in signals.forever().filter(|signal| *signal != SIGXFSZ) {
                if signal == SIGHUP && listening.hang_up() {
                    continue;
                }
                let on_stop = listening.receive(signal);
                if let Some(on_stop) = on_stop {
                    on_stop();
                    // A second signal means that this takes too long.
                    continue;
                }
                let unfinished = unfinished.lock().ok();
                if let Some(path) = unfinished.and_then(|mut path| path.take()) {
                    // Nothing is to be done about a file that will not go.
                    let _ = std::fs::remove_file(path);
                }
                std::process::exit(128 + signal);
            }
        });
        ours
    }

    /// From now on the first signal calls this instead of ending the process.
    pub(crate) fn on_stop(&self, on_stop: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.received.is_some() {
            // It came before there was anything to stop.
            return on_stop();
        }
        state.on_stop = Some(Box::new(on_stop));
    }

    /// The work is over: from now on a signal ends the process again.
    pub(crate) fn forget_on_stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.on_stop = None;
    }

    /// From now on a hangup calls this, and stops nothing.
    pub(crate) fn on_hangup(&self, on_hangup: impl FnMut() + Send + 'static) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.on_hangup = Some(Box::new(on_hangup));
    }

    /// Whether someone wanted to know of a hangup, and was told.
    fn hang_up(&self) -> bool {
        let taken = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.on_hangup.take()
        };
        // Not under the lock: it may take a while, and others want to know things.
        let Some(mut on_hangup) = taken else {
            return false;
        };
        on_hangup();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.on_hangup.get_or_insert(on_hangup);
        true
    }

    /// The exit code of the signal that was received, if one was.
    pub(crate) fn received(&self) -> Option<Code> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.received.map(|signal| match signal {
            SIGINT => Code::Interrupted,
            SIGHUP => Code::HungUp,
            _ => Code::Terminated,
        })
    }

    fn receive(&self, signal: i32) -> Option<Box<dyn FnOnce() + Send>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.received = Some(signal);
        state.on_stop.take()
    }
}

/// Whether a signal is ignored, where the system says so.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
