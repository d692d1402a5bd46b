//! `springtide serve`: `run`, and a server beside it.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use springtide_engine::{EndReason, RunOptions};
use springtide_policy::Window;
use springtide_server::{Current, FileChange, ProjectFile, Refusal, Server};
use springtide_store::Moment;

use super::Project;
use super::run::{Reloaded, ReportOptions, conclude, keep_fresh, opening_lines};
use super::screen::{Form, say_note};
use crate::args::SettingFlags;
use crate::args::project::{LogForm, Serve};
use crate::config::edit::Editor;
use crate::config::server::ServerConfig;
use crate::config::{self, Config};
use crate::failure::{Code, Failure, Outcome};
use crate::signals::Signals;
use crate::table::{Unfinished, write_whole};
use crate::talk::Talk;
use crate::{moment, units};

/// How long after a failure, or while another process runs the project, it is tried again.
const TRIED_AGAIN: Duration = Duration::from_secs(3);

pub(crate) fn run(
    args: &Serve,
    project: &Project,
    talk: Talk,
    unfinished: &Unfinished,
    signals: &Signals,
) -> Outcome<()> {
    until(args, project, None, talk, unfinished, signals)
}

/// The same, for a time.
pub(crate) fn until(
    args: &Serve,
    project: &Project,
    span: Option<Duration>,
    talk: Talk,
    unfinished: &Unfinished,
    signals: &Signals,
) -> Outcome<()> {
    let begun_at = Instant::now();
    let mut config = project.config(&args.settings, talk)?;
    config.check_secrets()?;
    let settings = config.server.checked(args.listen.as_deref())?;
    let reloaded = Reloaded::default();
    let file = Arc::new(File {
        project: project.clone(),
        flags: args.settings.clone(),
        server: config.server.clone(),
        current: Mutex::new(Arc::new(current(&config))),
        reloaded: reloaded.clone(),
        unfinished: Arc::clone(unfinished),
        editing: Mutex::new(()),
    });
    let listen = settings.listen;
    let shared: Arc<dyn ProjectFile> = Arc::<File>::clone(&file);
    let server = Server::start(&project.folder, settings, shared).map_err(|error| {
        Failure::failed(format!("cannot listen on {listen}"))
            .cause(error)
            .hint("another program may listen there; --listen gives another address")
    })?;
    let is_json = args.log == Some(LogForm::Json);
    let say = move |line: String| match is_json {
        true => say_note(&line),
        false => talk.say(line),
    };
    say(format!("serving on http://{}", server.address()));
    let reading = Arc::clone(&file);
    signals.on_hangup(move || match reading.read_again() {
        Ok(()) => {}
        Err(failure) if is_json => say_note(&failure.in_a_line()),
        Err(failure) => talk.say(format!("{failure}\nspringtide.toml was not read again")),
    });

    let link = server.link();
    let (mut is_first, mut told) = (true, String::new());
    let mut first_words = opening_lines(&config, talk);
    loop {
        let report = ReportOptions {
            form: Form::of(args.log, talk),
            talk,
            opening_lines: std::mem::take(&mut first_words),
        };
        let begun = |handle: &springtide_engine::Handle| link.began(handle);
        let ended = keep_fresh(
            project,
            config.clone(),
            RunOptions {
                span: span.map(|span| span.saturating_sub(begun_at.elapsed())),
                ..RunOptions::default()
            },
            signals,
            report,
            Some(&reloaded),
            &begun,
        );
        match ended {
            Ok((ended, is_read)) => {
                // A configuration that the run has taken in does not begin another.
                if ended.why == EndReason::Stopped
                    && signals.received().is_none()
                    && let Some(new) = reloaded.take()
                {
                    link.restarting();
                    config = new;
                    first_words = vec!["springtide.toml was read again".to_owned()];
                    (is_first, told) = (false, String::new());
                    continue;
                }
                drop(server);
                if signals.received() == Some(Code::Terminated) {
                    // Whoever runs services stops them so, and takes any other code for a
                    // failure.
                    return Ok(());
                }
                return conclude(&ended, false, signals, talk.of_log(args.log), is_read);
            }
            // Told to stop before it had begun.
            Err(_) if signals.received() == Some(Code::Terminated) => {
                drop(server);
                return Ok(());
            }
            Err(failure) if failure.code() == Code::InUse => {
                link.is_read_only(failure.in_a_line());
                let line = format!("{}; read-only until it ends", failure.in_a_line());
                if told != line {
                    say(line.clone());
                }
                told = line;
            }
            // What is wrong from the start is for whoever started it; what goes wrong later
            // may pass, and the rest is there meanwhile.
            Err(failure) if is_first && !link.has_run() => return Err(failure),
            Err(failure) => {
                link.failed(failure.in_a_line());
                let line = format!("{}; trying again", failure.in_a_line());
                if told != line {
                    say(line.clone());
                }
                told = line;
            }
        }
        is_first = false;
        let (stop, stopped) = channel();
        signals.on_stop(move || {
            // Nobody waits for it any more once a run has begun.
            let _ = stop.send(());
        });
        if stopped.recv_timeout(TRIED_AGAIN) != Err(RecvTimeoutError::Timeout)
            || signals.received().is_some()
        {
            drop(server);
            return match signals.received() {
                Some(Code::Terminated) | None => Ok(()),
                Some(code) => Err(Failure::new(code, "stopped").silent()),
            };
        }
        if let Some(new) = reloaded.take() {
            config = new;
        }
    }
}

fn current(config: &Config) -> Current {
    Current {
        settings: config.settings.clone(),
        target: config.target,
        is_budget_assumed: config.is_budget_assumed,
        notices: config.notices.clone(),
    }
}

/// `springtide.toml`, for a server.
struct File {
    project: Project,
    flags: SettingFlags,
    /// What it said of the server when that began.
    server: ServerConfig,
    current: Mutex<Arc<Current>>,
    reloaded: Reloaded,
    unfinished: Unfinished,
    /// One change at a time.
    editing: Mutex<()>,
}

impl File {
    fn read_again(&self) -> Outcome<()> {
        let _one_at_a_time = self.editing.lock().unwrap_or_else(PoisonError::into_inner);
        let config = self.project.config(&self.flags, Talk::Quiet)?;
        self.check(&config)?;
        // Lists and rows in other files may have changed, too.
        self.now_holds(&config);
        self.reloaded.offer(config);
        Ok(())
    }

    /// That all of it can hold from now on: who may come in is settled at the start.
    fn check(&self, config: &Config) -> Outcome<()> {
        config.check_secrets()?;
        if config.server != self.server {
            return Err(
                Failure::input("[server] is not as it was when the server began")
                    .hint("start `springtide serve` anew, so that it holds"),
            );
        }
        Ok(())
    }

    fn now_holds(&self, config: &Config) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(current(config));
    }

    fn edit(&self, change: FileChange) -> Outcome<()> {
        let _one_at_a_time = self.editing.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = &self.project.folder;
        let mut editor = Editor::open(folder)?;
        match change {
            FileChange::AddSource(name, keys) => editor.add_source_with(&name, &keys)?,
            FileChange::ChangeSource(name, keys) => editor.change_source(&name, &keys)?,
            FileChange::RemoveSource(name) => {
                if !editor.remove_source(&name) {
                    return Err(Failure::input("there is no such source in the file"));
                }
            }
            FileChange::Settings(tables) => editor.change_tables(&tables)?,
        }
        let text = editor.text();
        // What makes no sense is not written.
        let config = config::read(folder, &text, &self.flags)?;
        self.check(&config)?;
        write_whole(&folder.join(config::FILE), &text, &self.unfinished)?;
        self.now_holds(&config);
        self.reloaded.offer_changed(config);
        Ok(())
    }
}

impl ProjectFile for File {
    fn current(&self) -> Arc<Current> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }

    fn change(&self, change: FileChange) -> Result<(), Refusal> {
        self.edit(change).map_err(|failure| refusal(&failure))
    }

    fn reload(&self) -> Result<(), Refusal> {
        self.read_again().map_err(|failure| refusal(&failure))
    }

    fn settings(&self) -> Result<Map<String, Value>, Refusal> {
        let editor = Editor::open(&self.project.folder).map_err(|failure| refusal(&failure))?;
        let tables = ["budget", "policy", "target"];
        let tables = tables.map(|name| (name.to_owned(), editor.table_as_json(name)));
        Ok(tables.into_iter().collect())
    }

    fn moment(&self, text: &str, now: Moment) -> Result<Moment, String> {
        moment::since(text, now)
    }

    fn window(&self, text: &str) -> Result<Window, String> {
        units::window(text)
    }

    fn per_day(&self, text: &str) -> Result<f64, String> {
        match units::per_day(text)? {
            0.0 => Err("it is above zero".to_owned()),
            per_day => Ok(per_day),
        }
    }
}

/// The same for whoever asked over the wire: why, and what to do.
fn refusal(failure: &Failure) -> Refusal {
    Refusal {
        what: failure
            .why()
            .map_or_else(|| failure.in_a_line(), str::to_owned),
        hint: failure.next_step().map(str::to_owned),
        is_ours: failure.code() != Code::BadInput,
    }
}
