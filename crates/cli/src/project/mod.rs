//! A project: a folder with `springtide.toml`, and `.springtide/` with the store and the
//! bodies. Each verb that works on one is a file here.

pub(crate) mod add;
mod add_table;
pub(crate) mod cat;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod init;
mod layout;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod notify;
pub(crate) mod plan;
pub(crate) mod rename;
pub(crate) mod rm;
mod rows;
pub(crate) mod run;
mod screen;
pub(crate) mod serve;
pub(crate) mod status;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use springtide_engine::register::{self, Reconciled, Step};
use springtide_engine::settings::SourceSettings;
use springtide_engine::view::{self, redacted};
use springtide_store::{
    Bodies, ElementId, Error, Kept, Memory, Reader, Reading, Source, Sqlite, State, Walk, Writer,
};

use crate::args::SettingFlags;
use crate::config::{self, Config, FILE};
use crate::failure::{Code, Failure, Outcome};
use crate::moment;
use crate::table::shorten;
use crate::talk::{Progress, Talk};

/// Where the store is, in the folder of a project.
const STORE: &str = ".springtide";
/// Where the bodies are, in there.
const BODIES: &str = "bodies";

/// A folder with a `springtide.toml`.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    pub(crate) folder: PathBuf,
}

impl Project {
    /// The project that was named, or the nearest one upwards.
    pub(crate) fn find(named: Option<&Path>) -> Outcome<Self> {
        Self::look(named)?.ok_or_else(|| {
            let place = match named {
                Some(folder) => folder.display().to_string(),
                None => "this folder or any above it".to_owned(),
            };
            Failure::new(Code::NoProject, "there is no project here")
                .cause(format!("there is no {FILE} in {place}"))
                .hint("make one with `springtide init`, or name one with --project DIR")
        })
    }

    /// The same, if there is one.
    pub(crate) fn look(named: Option<&Path>) -> Outcome<Option<Self>> {
        let has_one = |folder: &Path| folder.join(FILE).is_file();
        if let Some(folder) = named {
            let folder = folder.to_owned();
            return Ok(has_one(&folder).then_some(Self { folder }));
        }
        let here = std::env::current_dir()
            .map_err(|error| Failure::failed("cannot tell which folder this is").cause(error))?;
        let folder = here.ancestors().find(|folder| has_one(folder));
        Ok(folder.map(|folder| Self {
            // Short names for messages.
            folder: if folder == here {
                PathBuf::from(".")
            } else {
                folder.to_owned()
            },
        }))
    }

    pub(crate) fn store_folder(&self) -> PathBuf {
        self.folder.join(STORE)
    }

    /// What its file, the variables and the flags say.
    pub(crate) fn config(&self, flags: &SettingFlags, talk: Talk) -> Outcome<Config> {
        config::load(&self.folder, flags, talk)
    }

    /// The store, to read beside whoever writes; an empty one if there is none yet.
    pub(crate) fn read(&self) -> Outcome<Box<dyn Reader>> {
        match Sqlite::read_only(self.store_folder()) {
            Ok(store) => Ok(Box::new(store)),
            Err(Error::Missing(_)) => Ok(Box::new(Memory::new())),
            Err(error) => Err(self.refuse(&error)),
        }
    }

    /// The store, to write; made if there is none.
    pub(crate) fn write(&self) -> Outcome<Sqlite> {
        Sqlite::create_or_open(self.store_folder()).map_err(|error| self.refuse(&error))
    }

    /// The bodies, to read them beside whoever writes.
    pub(crate) fn bodies(&self) -> Outcome<Bodies<Reading>> {
        Bodies::read_only(self.bodies_folder()).map_err(|error| self.refuse(&error))
    }

    pub(crate) fn bodies_folder(&self) -> PathBuf {
        self.store_folder().join(BODIES)
    }

    /// What a failure of the store means to the user.
    pub(crate) fn refuse(&self, error: &Error) -> Failure {
        let folder = self.store_folder();
        let folder = folder.display();
        let failure = Failure::failed(format!("cannot use the store in {folder}"));
        match error {
            Error::InUse => Failure::new(Code::InUse, "the project is in use")
                .cause(format!("another process writes to the store in {folder}"))
                .hint("stop it first, or wait until it has ended"),
            Error::TooNew { .. } => failure.cause(error).hint("use the newer springtide"),
            Error::TooOld { .. } => failure
                .cause(error)
                .hint("`springtide doctor --repair` or the next `run` does that, after a backup"),
            Error::Damaged(_) => failure.cause(error).hint("`springtide doctor --repair`"),
            Error::LeaseLost => failure
                .cause(error)
                .hint("its lock was removed or replaced meanwhile; start again"),
            Error::Busy(_) => failure
                .cause(causes(error))
                .hint("another process has kept it busy; try again"),
            Error::Full(_) => failure
                .cause(causes(error))
                .hint("make room, and try again"),
            error => failure.cause(causes(error)),
        }
    }

    /// Brings the store in step with the configuration, saying what that takes.
    pub(crate) fn reconcile(
        &self,
        store: &mut dyn Writer,
        config: &Config,
        talk: Talk,
    ) -> Outcome<Reconciled> {
        let mut steps = Steps::new(talk);
        let reconciled = register::reconcile(store, &config.settings, moment::now(), &mut |step| {
            steps.take(step);
        });
        reconciled.map_err(|error| self.refuse_settings(error))
    }

    pub(crate) fn refuse_settings(&self, error: register::Error) -> Failure {
        match error {
            register::Error::Store(error) => self.refuse(&error),
            error => {
                Failure::failed("cannot apply the settings to the store").cause(causes(&error))
            }
        }
    }
}

/// An error and all that it came from, in a line.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}

/// Shows how far a list has been taken in.
pub(crate) struct Steps {
    talk: Talk,
    checking: Option<Progress>,
    taking: Option<Progress>,
}

impl Steps {
    pub(crate) fn new(talk: Talk) -> Self {
        Self {
            talk,
            checking: None,
            taking: None,
        }
    }

    pub(crate) fn take(&mut self, step: Step) {
        let talk = self.talk;
        match step {
            Step::Checked(n) => {
                self.taking = None;
                let checking = self
                    .checking
                    .get_or_insert_with(|| talk.progress("checking", None));
                checking.advance(n as usize);
            }
            Step::Taken(n, total) => {
                self.checking = None;
                let begin = || talk.progress("importing", Some(total));
                self.taking.get_or_insert_with(begin).advance(n as usize);
            }
        }
    }
}

/// The sources of a project: those of the store, and those that are only in the file
/// so far.
pub(crate) fn sources(
    project: &Project,
    store: &dyn Reader,
    config: &Config,
) -> Outcome<Vec<Source>> {
    view::sources(store, &config.settings, moment::now()).map_err(|error| project.refuse(&error))
}

/// The source of this name, which must be there.
pub(crate) fn source_named<'a>(sources: &'a [Source], name: &str) -> Outcome<&'a Source> {
    sources
        .iter()
        .find(|source| source.name == name)
        .ok_or_else(|| {
            let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
            let failure =
                Failure::input(format!("there is no source {}", shorten(&redacted(name))));
            match config::nearest(name, names.iter().copied()) {
                Some(near) => failure.hint(format!("did you mean {near}?")),
                None if names.is_empty() => failure.hint("add one with `springtide add URL`"),
                None => failure.hint(format!("there are {}", shorten(&names.join(", ")))),
            }
        })
}

/// Rows of the store that are read at once.
const PER_PAGE: usize = 10_000;

/// Addresses that several sources have, so that each is polled more than once.
#[derive(Debug, Default, serde::Serialize)]
pub(crate) struct Shared {
    /// How many.
    pub(crate) n: u64,
    /// One of them, and two sources that have it.
    pub(crate) example: Option<(String, String, String)>,
    /// There are too many elements to look.
    pub(crate) is_skipped: bool,
}

impl Shared {
    /// Elements that are looked through; of more than these it takes too long.
    pub(crate) const MAX_ELEMENTS: u32 = 200_000;

    /// Those among the sources of a store that are in the file.
    pub(crate) fn find(project: &Project, store: &dyn Reader, config: &Config) -> Outcome<Self> {
        let refuse = |error| project.refuse(&error);
        let mut shared = Self::default();
        let wanted = &config.settings.sources;
        if store.next_element().map_err(refuse)? > Self::MAX_ELEMENTS {
            shared.is_skipped = wanted.len() > 1;
            return Ok(shared);
        }
        let mut seen: HashMap<String, String> = HashMap::new();
        for source in store.sources().map_err(refuse)? {
            // The id of a row is one in its own shop alone.
            let is_web =
                |known: &&SourceSettings| known.name == source.name && known.search.is_none();
            if wanted.iter().find(is_web).is_none() {
                continue;
            }
            let mut walk = Walk::new(Some(source.id), PER_PAGE);
            while let Some(page) = walk.next(store).map_err(refuse)? {
                for kept in page.into_iter().filter(|kept| kept.state != State::Gone) {
                    match seen.get(&kept.element.locator) {
                        Some(other) if *other != source.name => {
                            shared.n += 1;
                            shared.example.get_or_insert_with(|| {
                                (
                                    kept.element.locator.clone(),
                                    other.clone(),
                                    source.name.clone(),
                                )
                            });
                        }
                        Some(_) => {}
                        None => {
                            seen.insert(kept.element.locator, source.name.clone());
                        }
                    }
                }
            }
        }
        Ok(shared)
    }

    /// Says so if there are any.
    pub(crate) fn warn(project: &Project, config: &Config, talk: Talk) -> Outcome<()> {
        let shared = Self::find(project, &*project.read()?, config)?;
        if let Some(warning) = shared.warning() {
            talk.say(format!("warning: {warning}"));
        }
        Ok(())
    }

    /// What is to be said of them, if there are any.
    pub(crate) fn warning(&self) -> Option<String> {
        let (locator, one, other) = self.example.as_ref()?;
        let locator = shorten(&redacted(locator));
        Some(match self.n {
            1 => format!("{locator} is in two sources, {one} and {other}: it is polled for both"),
            n => format!(
                "{} are in two sources, such as {locator} in {one} and {other}: they are polled for both",
                format_args!("{} addresses", crate::talk::count(n as usize))
            ),
        })
    }
}

/// The element that a number, or else an address or the id of a row, stands for.
pub(crate) fn element_named(project: &Project, store: &dyn Reader, text: &str) -> Outcome<Kept> {
    let refuse = |error: Error| project.refuse(&error);
    if let Ok(number) = text.parse::<u32>()
        && let Some(kept) = store.element(ElementId(number)).map_err(refuse)?
    {
        return Ok(kept);
    }
    let locator = config::address(text).map_or_else(|_| text.to_owned(), |url| url.to_string());
    let mut found = store.find_all(&locator).map_err(refuse)?;
    match found.len() {
        0 => Err(
            Failure::input(format!("there is no element {}", shorten(&redacted(text))))
                .hint("`springtide ls --elements` lists them"),
        ),
        1 => Ok(found.remove(0)),
        _ => {
            let ids: Vec<String> = found
                .iter()
                .map(|kept| kept.element.id.0.to_string())
                .collect();
            Err(Failure::input(format!(
                "{} is in several sources",
                shorten(&redacted(text))
            ))
            .cause(format!("it is elements {}", ids.join(" and ")))
            .hint("name it by its number"))
        }
    }
}
