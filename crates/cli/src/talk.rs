//! Talk: what goes to standard error.

use std::fmt::Write;
use std::io::Write as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use springtide_engine::view::brief;
pub(crate) use springtide_engine::view::{count, percent, plural, size};

use crate::args::project::LogForm;
use crate::width;

/// Work that would take longer than this does not move.
const LONGEST_LEFT: Duration = Duration::from_secs(30 * 86_400);

/// How much to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Talk {
    Quiet,
    Normal,
    Verbose,
}

impl Talk {
    /// Says a line that everybody wants to know.
    pub(crate) fn say(self, line: impl AsRef<str>) {
        if self >= Self::Normal {
            say_always(line);
        }
    }

    /// What is left to say where machines read what happens: nothing.
    pub(crate) fn of_log(self, log: Option<LogForm>) -> Self {
        match log {
            Some(LogForm::Json) => Self::Quiet,
            _ => self,
        }
    }

    /// Says a line for those who asked.
    pub(crate) fn explain(self, line: impl AsRef<str>) {
        if self == Self::Verbose {
            say_always(line);
        }
    }

    /// Shows the progress of long work on a terminal: count, rate and time left
    /// (where the total is known).
    pub(crate) fn progress(self, what: &'static str, total: Option<u64>) -> Progress {
        let target = if self == Self::Quiet {
            ProgressDrawTarget::hidden()
        } else {
            // Hidden by itself where standard error is not a terminal.
            ProgressDrawTarget::stderr_with_hz(5)
        };
        let bar = ProgressBar::with_draw_target(total, target);
        let template = if total.is_some() {
            "{msg} {wide_bar} {human_pos} of {human_len} {rate} {left}"
        } else {
            "{msg} {spinner} {human_pos} {rate}"
        };
        let style = ProgressStyle::with_template(template).expect("a valid template");
        // Where nothing has moved, or hardly anything does, nobody knows how long it takes.
        let style = style.with_key("left", |state: &ProgressState, out: &mut dyn Write| {
            let left = state.eta();
            if !left.is_zero() && left < LONGEST_LEFT {
                // Text always has room.
                let _ = write!(out, "{} left", brief(left.as_secs_f64()));
            }
        });
        let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{}/s", count(state.per_sec().round() as usize));
        });
        bar.set_style(style);
        bar.set_message(what);
        // So that work of unknown length is seen to go on.
        if self > Self::Quiet && !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Progress {
            bar,
            talk: self,
            what,
            started: Instant::now(),
        }
    }
}

/// A line at the bottom of a terminal, below all that is said; or a few, each cut to its
/// width.
pub(crate) struct StatusLine {
    bar: ProgressBar,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
        let style = ProgressStyle::with_template("{msg}").expect("a valid template");
        bar.set_style(style);
        Self { bar }
    }

    pub(crate) fn set(&self, text: &str) {
        // A message of the bar's own is wrapped, and one that fits by itself is cut as a whole.
        let width = width::of_stderr().unwrap_or(usize::MAX);
        let lines = text.lines().map(|line| width::cut_at_end(line, width));
        self.bar.set_message(lines.collect::<Vec<_>>().join("\n"));
        self.bar.tick();
    }

    /// Says a line above it.
    pub(crate) fn say(&self, line: impl AsRef<str>) {
        self.bar.suspend(|| say_always(line));
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Someone who says things on a thread of their own: a terminal that is stopped, or a pipe
/// that nobody reads, holds up nobody else.
pub(crate) struct Speaker<T> {
    to_thread: SyncSender<T>,
    /// Hears of it when the thread has ended.
    ended: Receiver<()>,
}

/// Things that wait to be said.
const MOST_TO_SAY: usize = 1024;
/// How long the last of them may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Speaker<String> {
    /// Says lines.
    pub(crate) fn of_lines() -> Self {
        Self::new(|lines| lines.into_iter().for_each(say_always))
    }
}

impl<T: Send + 'static> Speaker<T> {
    /// `speak` says all that comes until there is no more.
    pub(crate) fn new(speak: impl FnOnce(Receiver<T>) + Send + 'static) -> Self {
        let (to_thread, told) = sync_channel(MOST_TO_SAY);
        let (end, ended) = sync_channel::<()>(0);
        std::thread::spawn(move || {
            speak(told);
            drop(end);
        });
        Self { to_thread, ended }
    }

    /// Hands over something to be said. Says whether there was room for it.
    pub(crate) fn take(&self, what: T) -> bool {
        self.to_thread.try_send(what).is_ok()
    }

    /// Waits a little for all to be said. Says whether it was.
    pub(crate) fn close(self) -> bool {
        let Self { to_thread, ended } = self;
        drop(to_thread);
        ended.recv_timeout(LAST_WORDS) == Err(RecvTimeoutError::Disconnected)
    }
}

/// Says a line. If nobody can hear it, that is no reason to fail.
pub(crate) fn say_always(line: impl AsRef<str>) {
    let _ = writeln!(std::io::stderr(), "{}", line.as_ref());
}

/// Work under way.
pub(crate) struct Progress {
    bar: ProgressBar,
    talk: Talk,
    what: &'static str,
    started: Instant,
}

impl Progress {
    pub(crate) fn advance(&self, n: usize) {
        self.bar.inc(n as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        let took: Duration = self.started.elapsed();
        self.talk
            .explain(format!("{}: {:.2} s", self.what, took.as_secs_f64()));
    }
}
