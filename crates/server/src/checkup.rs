//! What `springtide doctor` finds in store and bodies, looked for beside the rest when
//! somebody asks: one look at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use springtide_store::Moment;

use crate::app::Shared;
use crate::problem::causes;

/// A project that takes no more than this is looked at without being asked: it takes a
/// moment.
const SMALL: u64 = 64 << 20;
/// Problems that are listed; more would not be read.
const MOST_LISTED: usize = 100;

/// The latest look.
#[derive(Default)]
pub(crate) struct Checkup {
    state: Mutex<CheckupState>,
}

/// How it stands with it.
#[derive(Debug, Clone, Default)]
pub(crate) enum CheckupState {
    /// Nobody has looked yet.
    #[default]
    Never,
    /// So many bodies have been looked at.
    UnderWay(Arc<AtomicU64>),
    Over(CheckedUp),
}

/// What was found.
#[derive(Debug, Clone)]
pub(crate) struct CheckedUp {
    pub(crate) at: Moment,
    pub(crate) seconds: f64,
    /// What is wrong; nothing if all is sound.
    pub(crate) problems: Vec<String>,
    pub(crate) n_problems: usize,
    pub(crate) n_bodies: u64,
    pub(crate) n_unnamed_bodies: u64,
}

impl Checkup {
    pub(crate) fn state(&self) -> CheckupState {
        self.lock().clone()
    }

    /// Looks, unless somebody does.
    pub(crate) fn begin(&self, app: &Shared) {
        let n_seen = Arc::new(AtomicU64::new(0));
        {
            let mut state = self.lock();
            if matches!(*state, CheckupState::UnderWay(_)) {
                return;
            }
            *state = CheckupState::UnderWay(Arc::clone(&n_seen));
        }
        let app = Arc::clone(app);
        tokio::task::spawn_blocking(move || {
            let found = look(&app, &n_seen);
            *app.checkup.lock() = CheckupState::Over(found);
        });
    }

    /// Looks for the first time, if that takes no more than a moment.
    pub(crate) fn begin_if_small(&self, app: &Shared, n_bytes: u64) {
        if n_bytes <= SMALL && matches!(*self.lock(), CheckupState::Never) {
            self.begin(app);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CheckupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn look(app: &Shared, n_seen: &AtomicU64) -> CheckedUp {
    let begun = Instant::now();
    let examined = app.folder.examine(&mut || {
        n_seen.fetch_add(1, Ordering::Relaxed);
    });
    let (problems, n_unnamed_bodies) = match &examined {
        Ok(examined) => (
            examined.problems.iter().map(ToString::to_string).collect(),
            examined.n_unnamed_bodies,
        ),
        Err(error) => (vec![causes(error)], 0),
    };
    let mut problems: Vec<String> = problems;
    let n_problems = problems.len();
    problems.truncate(MOST_LISTED);
    CheckedUp {
        at: app.now(),
        seconds: begun.elapsed().as_secs_f64(),
        problems,
        n_problems,
        n_bodies: n_seen.load(Ordering::Relaxed),
        n_unnamed_bodies,
    }
}
