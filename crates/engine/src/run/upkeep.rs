//! Work done beside polling, a little at a time: expired versions and polls are forgotten,
//! unreferenced bodies are removed, and bodies in an older format are migrated.
//!
//! What is forgotten is told to the ledger like anything else; bodies have a task of their
//! own. A poll writes a body before the batch that refers to it, so a collection goes in
//! this order: protect everything written from now on; wait for the polls under way; commit
//! what they found; only then look up what is referenced.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use springtide_store::{Bodies, Collection, Fact, Reader, Source, Sqlite};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Engine;
use crate::Error;
use crate::retain::{Retention, Step, TrustedNow};
use crate::settings::Settings;

/// Between two steps of a pass over all that is kept.
const STEP_EVERY: Duration = Duration::from_millis(100);
/// Between two passes.
const PASS_EVERY: Duration = Duration::from_secs(600);
/// A collection reads all names of bodies, so it waits until it is worth it: for this many
/// bodies, or for the end of a pass that dropped any.
const MANY_DROPPED: u64 = 1000;
/// Between two collections.
const COLLECTION_EVERY: Duration = Duration::from_secs(600);
/// A segment is rewritten when this share of it is dead.
const DEAD_ENOUGH: f64 = 0.25;
/// How long others have the disk and the processor to themselves after each step.
const PAUSE: Duration = Duration::from_millis(5);
/// Bodies in an older format that are migrated in one step.
const MIGRATED_AT_ONCE: usize = 100;

pub(super) struct Upkeep {
    folder: PathBuf,
    /// None where everything is kept for good.
    retention: Option<Retention>,
    step_at: Instant,
    /// Bodies that something has ceased to name.
    n_dropped: u64,
    collection: State,
    collect_at: Instant,
    tasks: JoinSet<Result<(), springtide_store::Error>>,
    is_over: Arc<AtomicBool>,
}

/// How far a collection has come.
enum State {
    None,
    /// Polls that were under way when it began hold what is counted here.
    Waiting(Arc<()>, Collection<Arc<Bodies>>),
    /// They are over, and what they said is being kept.
    Keeping(Collection<Arc<Bodies>>),
    Running,
}

impl Upkeep {
    pub(super) fn new(
        folder: &Path,
        settings: &Settings,
        store: &dyn Reader,
        sources: &[Source],
        bodies: &Arc<Bodies>,
    ) -> Result<Self, Error> {
        let retention = Retention::new(settings, sources);
        let retention = match retention.forgets_anything() {
            true => Some(retention.resumed(store)?),
            false => None,
        };
        let now = Instant::now();
        let mut upkeep = Self {
            folder: folder.to_owned(),
            retention,
            step_at: now + STEP_EVERY,
            n_dropped: 0,
            collection: State::None,
            collect_at: now,
            tasks: JoinSet::new(),
            is_over: Arc::default(),
        };
        if bodies.has_old() {
            let (bodies, is_over) = (Arc::clone(bodies), Arc::clone(&upkeep.is_over));
            upkeep
                .tasks
                .spawn_blocking(move || migrate_bodies(&bodies, &is_over));
        }
        Ok(upkeep)
    }

    /// When there is something to do, if that can be told.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let collection = match self.collection {
            State::Waiting(..) | State::Keeping(_) => Some(Instant::now() + STEP_EVERY),
            State::None | State::Running => None,
        };
        let step = self.retention.as_ref().map(|_| self.step_at);
        [collection, step].into_iter().flatten().min()
    }

    /// A body is no longer named by what named it.
    pub(super) fn count_dropped(&mut self, n: u64) {
        self.n_dropped += n;
    }

    /// Ends what is under way, and waits for it.
    pub(super) async fn close(mut self) -> Result<(), Error> {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            // Who panicked has said so.
            ended.unwrap_or(Ok(()))?;
        }
        Ok(())
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        // Also where nobody waits for it.
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Engine {
    /// Forgets a little of what is not to be kept any longer.
    pub(super) fn retain(&mut self) -> Result<(), Error> {
        let upkeep = &mut self.upkeep;
        let at = Instant::now();
        let Some(retention) = upkeep.retention.as_mut().filter(|_| at >= upkeep.step_at) else {
            return Ok(());
        };
        let now = TrustedNow::beside(self.ledger.store(), &self.context.clock)?;
        let step = retention.step(self.ledger.store(), &now)?;
        let (Step::Forget(facts) | Step::Last(facts)) = &step;
        let is_body =
            |fact: &&Fact| matches!(fact, Fact::ChangeForgotten(_) | Fact::VersionForgotten(_));
        upkeep.n_dropped += facts.iter().filter(is_body).count() as u64;
        let facts = match step {
            Step::Forget(facts) => {
                upkeep.step_at = at + STEP_EVERY;
                facts
            }
            Step::Last(facts) => {
                upkeep.step_at = at + PASS_EVERY;
                if upkeep.n_dropped > 0 {
                    upkeep.n_dropped = upkeep.n_dropped.max(MANY_DROPPED);
                }
                facts
            }
        };
        self.ledger.forget(facts);
        Ok(())
    }

    /// Goes on with the collection of unreferenced bodies, when all that was said has been
    /// kept.
    pub(super) fn collect(&mut self) -> Result<(), Error> {
        let upkeep = &mut self.upkeep;
        while let Some(ended) = upkeep.tasks.try_join_next() {
            ended.unwrap_or(Ok(()))?;
            if matches!(upkeep.collection, State::Running) && upkeep.tasks.is_empty() {
                upkeep.collection = State::None;
                upkeep.collect_at = Instant::now() + COLLECTION_EVERY;
            }
        }
        upkeep.collection = match std::mem::replace(&mut upkeep.collection, State::None) {
            State::None
                if upkeep.n_dropped >= MANY_DROPPED && Instant::now() >= upkeep.collect_at =>
            {
                upkeep.n_dropped = 0;
                self.ledger.clear_obsolete();
                let collection = Collection::begin(Arc::clone(&self.context.bodies))?;
                let others = std::mem::take(&mut self.context.under_way);
                State::Waiting(others, collection)
            }
            State::Waiting(others, collection) if Arc::strong_count(&others) == 1 => {
                // What they said may only now be heard.
                State::Keeping(collection)
            }
            // What a listing named is taken in before the listing itself is written down.
            State::Keeping(collection) if self.listed.is_empty() => {
                let (folder, is_over) = (upkeep.folder.clone(), Arc::clone(&upkeep.is_over));
                upkeep
                    .tasks
                    .spawn_blocking(move || sweep(&folder, collection, &is_over));
                State::Running
            }
            state => state,
        };
        Ok(())
    }
}

fn sweep(
    folder: &Path,
    mut collection: Collection<Arc<Bodies>>,
    is_over: &AtomicBool,
) -> Result<(), springtide_store::Error> {
    let store = Sqlite::read_only(folder)?;
    store.bodies(&mut |body| collection.mark(body))?;
    let swept = collection.sweep(DEAD_ENOUGH, &mut || {
        std::thread::sleep(PAUSE);
        match is_over.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    swept.map(|_| ())
}

fn migrate_bodies(bodies: &Bodies, is_over: &AtomicBool) -> Result<(), springtide_store::Error> {
    while !is_over.load(Ordering::Relaxed) && bodies.bring_over(MIGRATED_AT_ONCE)? > 0 {
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
