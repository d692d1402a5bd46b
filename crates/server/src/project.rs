//! What of a project is handed to a server: its folder, and its file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::notices::NoticeTarget;
use serde_json::{Map, Value};
use springtide_engine::settings::Settings;
use springtide_engine::view::{self, Disk, Status, Target};
use springtide_policy::Window;
use springtide_store::{Bodies, Error, Examined, Memory, Moment, Reader, Reading, Sqlite, examine};

/// What the file of a project says, as far as a server has to know.
#[derive(Debug, Clone)]
pub struct Current {
    /// For the engine.
    pub settings: Settings,
    /// What is to be reached.
    pub target: Target,
    /// Nobody said what may be spent.
    pub is_budget_assumed: bool,
    /// Whom to tell what was found.
    pub notices: Vec<NoticeTarget>,
}

/// A change to the file of a project. The keys are those of the file; null takes one out.
#[derive(Debug, Clone, PartialEq)]
pub enum FileChange {
    /// A source that was not there.
    AddSource(String, Map<String, Value>),
    /// Other keys of a source that is.
    ChangeSource(String, Map<String, Value>),
    /// A source is taken out; what is kept of it stays.
    RemoveSource(String),
    /// Other keys of `[budget]`, `[policy]` and `[target]`.
    Settings(Map<String, Value>),
}

/// Why something is not done: what, why, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong with what was asked for.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Whether it is not what was asked for that is wrong, but that it cannot be done.
    pub is_ours: bool,
}

/// The file of a project, read and changed by the program that a server is part of: what
/// it may hold and how it is written is not the server's to know.
pub trait ProjectFile: Send + Sync {
    /// What holds now.
    fn current(&self) -> Arc<Current>;

    /// Changes the file, with its comments kept, if what comes of it makes sense; it then
    /// holds from the next turn of the loop.
    ///
    /// # Errors
    /// If it makes no sense, or cannot be written; then nothing has changed.
    fn change(&self, change: FileChange) -> Result<(), Refusal>;

    /// Reads the file again. It holds from the next turn of the loop.
    ///
    /// # Errors
    /// If it cannot be used; then what held still holds.
    fn reload(&self) -> Result<(), Refusal>;

    /// `[budget]`, `[policy]` and `[target]` as they are written.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn settings(&self) -> Result<Map<String, Value>, Refusal>;

    /// The moment that words such as `2h` or `yesterday` mean.
    ///
    /// # Errors
    /// If they mean none: what is expected.
    fn moment(&self, text: &str, now: Moment) -> Result<Moment, String>;

    /// The hours of the day that words such as `22:00-06:00 UTC` mean.
    ///
    /// # Errors
    /// If they mean none: what is expected.
    fn window(&self, text: &str) -> Result<Window, String>;

    /// The number a day that words such as `2000/day` mean.
    ///
    /// # Errors
    /// If they mean none: what is expected.
    fn per_day(&self, text: &str) -> Result<f64, String>;
}

/// The folder of a project, to read what is kept in it.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    folder: PathBuf,
}

/// Where the store is, in the folder of a project.
const STORE: &str = ".springtide";
/// Where the bodies are, in the folder of the store.
const BODIES: &str = "bodies";

impl Folder {
    pub(crate) fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// The store, to read beside whoever writes; an empty one if there is none yet.
    pub(crate) fn store(&self) -> Result<Box<dyn Reader>, Error> {
        match Sqlite::read_only(self.folder.join(STORE)) {
            Ok(store) => Ok(Box::new(store)),
            Err(Error::Missing(_)) => Ok(Box::new(Memory::new())),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn bodies(&self) -> Result<Bodies<Reading>, Error> {
        Bodies::read_only(self.folder.join(STORE).join(BODIES))
    }

    /// Goes through store and bodies, and says what is wrong; nothing is where nothing was
    /// kept yet.
    pub(crate) fn examine(&self, seen: &mut dyn FnMut()) -> Result<Examined, Error> {
        match Sqlite::read_only(self.folder.join(STORE)) {
            Ok(store) => examine(&store, &self.bodies()?, seen),
            Err(Error::Missing(_)) => Ok(Examined::default()),
            Err(error) => Err(error),
        }
    }

    /// How much store, bodies and copies of tables take.
    fn disk(&self, settings: &Settings) -> Result<Disk, Error> {
        // Several tables may be in one file.
        let copies: BTreeSet<&Path> = (settings.sources.iter())
            .filter_map(|source| Some(source.table.as_ref()?.copy.as_path()))
            .collect();
        Ok(Disk {
            store_bytes: database_bytes(&self.folder.join(STORE).join("store.db")),
            bodies_bytes: self.bodies()?.n_bytes()?,
            copies_bytes: copies.into_iter().map(database_bytes).sum(),
        })
    }
}

/// How much a file of SQLite takes, with its log.
fn database_bytes(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    length(path) + length(Path::new(&log))
}

/// How it stands with the project in a folder, with all that `status --json` shows.
///
/// # Errors
/// If the store cannot be read.
pub fn status(
    folder: &Path,
    settings: &Settings,
    target: Target,
    since: Option<Moment>,
    now: Moment,
) -> Result<Status, springtide_engine::Error> {
    let folder = Folder::new(folder);
    let store = folder.store()?;
    let sources = view::sources(&*store, settings, now)?;
    let mut status = view::status(&*store, settings, &sources, since, now)?;
    status.disk = Some(folder.disk(settings)?);
    if target.is_set() {
        let needed = view::budget_for(&*store, settings, target, now)?;
        let short = needed.map(|needed| (needed - status.budget.per_day).max(0.0));
        status.budget.short_per_day = short;
    }
    Ok(status)
}
