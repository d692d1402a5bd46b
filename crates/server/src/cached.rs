//! Something that takes a while to compute and is asked for often.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::app::Shared;
use crate::problem::Problem;

/// A value is good for this long, or for [`TIMES_COST`] times what it took to compute.
const GOOD_FOR: Duration = Duration::from_millis(250);
/// For this many times what it took to compute, a value is good.
const TIMES_COST: u32 = 10;
/// A computation longer than this is not waited for if a value younger than [`STALE_FOR`] is
/// at hand.
const QUICK: Duration = Duration::from_millis(40);
/// The greatest age of such a value; or twice as long as it is good, if that is more.
const STALE_FOR: Duration = Duration::from_secs(60);
/// How long `soon` waits, so that a page comes at once.
const SOON: Duration = Duration::from_millis(60);

/// The latest value, computed by one at a time.
pub(crate) struct Cached<T> {
    slot: Mutex<Option<Slot<T>>>,
    /// How often it was forgotten.
    n_forgotten: AtomicU64,
    computing: Arc<tokio::sync::Mutex<()>>,
    compute: fn(&Shared) -> Result<T, Problem>,
}

struct Slot<T> {
    value: Arc<T>,
    at: Instant,
    cost: Duration,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self {
            value: Arc::clone(&self.value),
            ..*self
        }
    }
}

impl<T: Send + Sync + 'static> Cached<T> {
    pub(crate) fn new(compute: fn(&Shared) -> Result<T, Problem>) -> Self {
        Self {
            slot: Mutex::new(None),
            n_forgotten: AtomicU64::new(0),
            computing: Arc::default(),
            compute,
        }
    }

    fn slot(&self) -> Option<Slot<T>> {
        self.slot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What is known from before is not to be told any more.
    pub(crate) fn forget(&self) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        self.n_forgotten.fetch_add(1, Ordering::Relaxed);
        *slot = None;
    }

    /// The value, as of the last moments.
    pub(crate) async fn get(
        &self,
        app: &Shared,
        of: fn(&Shared) -> &Self,
    ) -> Result<Arc<T>, Problem> {
        let is_good = |slot: &Slot<T>| slot.at.elapsed() < GOOD_FOR.max(TIMES_COST * slot.cost);
        if let Some(slot) = self.slot() {
            if is_good(&slot) {
                return Ok(slot.value);
            }
            let stale_for = STALE_FOR.max(2 * TIMES_COST * slot.cost);
            if slot.cost > QUICK && slot.at.elapsed() < stale_for {
                if let Ok(permit) = Arc::clone(&self.computing).try_lock_owned() {
                    let app = Arc::clone(app);
                    tokio::spawn(async move {
                        // What goes wrong is told to whoever has to wait for it.
                        let _ = of(&app).renew(&app).await;
                        drop(permit);
                    });
                }
                return Ok(slot.value);
            }
        }
        let _one_at_a_time = self.computing.lock().await;
        match self.slot().filter(is_good) {
            Some(slot) => Ok(slot.value),
            None => self.renew(app).await,
        }
    }

    /// The value, unless it takes long to compute and there is no older one: then it is
    /// there when somebody asks again.
    pub(crate) async fn soon(
        &self,
        app: &Shared,
        of: fn(&Shared) -> &Self,
    ) -> Result<Option<Arc<T>>, Problem> {
        let app = Arc::clone(app);
        let getting = tokio::spawn(async move { of(&app).get(&app, of).await });
        match tokio::time::timeout(SOON, getting).await {
            Ok(Ok(value)) => value.map(Some),
            Ok(Err(_)) => Err(Problem::unavailable(
                "internal error: a bug in springtide; the log has more",
            )),
            Err(_) => Ok(None),
        }
    }

    /// The value as it was computed last, whenever that was.
    pub(crate) fn latest(&self) -> Option<Arc<T>> {
        self.slot().map(|slot| slot.value)
    }

    async fn renew(&self, app: &Shared) -> Result<Arc<T>, Problem> {
        let (compute, begun) = (self.compute, Instant::now());
        let n_forgotten = self.n_forgotten.load(Ordering::Relaxed);
        let value = Arc::new(app.blocking(compute).await?);
        let new = Slot {
            value: Arc::clone(&value),
            at: Instant::now(),
            cost: begun.elapsed(),
        };
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        // What was begun before it was forgotten is of what held then.
        if self.n_forgotten.load(Ordering::Relaxed) == n_forgotten {
            *slot = Some(new);
        }
        drop(slot);
        Ok(value)
    }
}
