//! What all requests share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use jiff::Timestamp;
use springtide_engine::view::{Outlook, Rank, SortKey, Status};
use springtide_store::{ElementId, Moment, Reader, SourceId, State};
use tokio::sync::{Notify, Semaphore};

use crate::cached::Cached;
use crate::checkup::Checkup;
use crate::door::Door;
use crate::feed::Feed;
use crate::health::Health;
use crate::hints::KeyFiles;
use crate::lab::Lab;
use crate::link::{EngineState, Link, read_only};
use crate::pages::{BudgetEffect, budget_effect};
use crate::problem::Problem;
use crate::project::{Current, FileChange, Folder, ProjectFile, Refusal};
use crate::settings::ServerSettings;
use crate::websub::Subscriptions;

/// Requests that read the store at the same time; others wait for them.
const MOST_READING: usize = 8;
/// Orders of elements that are kept.
const MOST_ORDERS: usize = 8;
/// An order is good for this long, and longer if it took long to make.
const ORDER_FOR: Duration = Duration::from_millis(250);
/// A request that waits longer than this is told to come again.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// What all requests share, shared.
pub(crate) type Shared = Arc<App>;

/// What all requests share.
pub(crate) struct App {
    pub(crate) folder: Folder,
    pub(crate) file: Arc<dyn ProjectFile>,
    pub(crate) settings: ServerSettings,
    pub(crate) link: Link,
    pub(crate) door: Door,
    pub(crate) feed: Feed,
    pub(crate) health: Health,
    pub(crate) checkup: Checkup,
    pub(crate) lab: Lab,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) keys: KeyFiles,
    pub(crate) started_at: Instant,
    reading: Semaphore,
    status: Cached<Status>,
    outlook: Cached<Mutex<Outlook>>,
    budget_effect: Cached<BudgetEffect>,
    /// What was computed has been forgotten.
    forgotten: Notify,
    orders: Mutex<HashMap<SortRequest, KeptOrder>>,
}

/// Elements that are in an order, and which order.
pub(crate) type SortRequest = (Option<SourceId>, Option<State>, SortKey);
/// Elements in an order, with what they are sorted by.
pub(crate) type SortedIds = Arc<Vec<(Rank, ElementId)>>;

struct KeptOrder {
    order: SortedIds,
    made_at: Instant,
    cost: Duration,
}

impl KeptOrder {
    /// Whether it may still be told: for a moment, and for longer if it took long.
    fn is_good(&self) -> bool {
        self.made_at.elapsed() < ORDER_FOR.max(10 * self.cost)
    }
}

impl App {
    pub(crate) fn new(
        folder: Folder,
        file: Arc<dyn ProjectFile>,
        settings: ServerSettings,
        link: Link,
    ) -> Self {
        Self {
            door: Door::new(&settings),
            folder,
            file,
            settings,
            link,
            feed: Feed::default(),
            health: Health::default(),
            checkup: Checkup::default(),
            lab: Lab::default(),
            subscriptions: Subscriptions::default(),
            keys: KeyFiles::default(),
            started_at: Instant::now(),
            reading: Semaphore::new(MOST_READING),
            status: Cached::new(read_status),
            outlook: Cached::new(read_outlook),
            budget_effect: Cached::new(budget_effect),
            forgotten: Notify::new(),
            orders: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        Moment(Timestamp::now().as_millisecond())
    }

    pub(crate) fn current(&self) -> Arc<Current> {
        self.file.current()
    }

    /// Does something that takes the disk, where it holds up nobody else.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Shared) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = || Problem::unavailable("too many requests at a time").hint("try again");
        let permit = tokio::time::timeout(MAX_WAIT, self.reading.acquire()).await;
        let _permit = permit.map_err(|_| busy())?.map_err(|_| busy())?;
        let app = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&app)).await;
        done.unwrap_or_else(|_| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Err(Problem::new(
                status,
                "internal error: a bug in springtide; the log has more",
            ))
        })
    }

    /// Reads from the store, beside whoever writes.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Shared, &dyn Reader) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.blocking(move |app| read(app, &*app.folder.store()?))
            .await
    }

    /// How it stands with the project.
    pub(crate) async fn status(self: &Arc<Self>) -> Result<Arc<Status>, Problem> {
        self.status.get(self, |app| &app.status).await
    }

    /// What is to come of all elements.
    pub(crate) async fn outlook(self: &Arc<Self>) -> Result<Arc<Mutex<Outlook>>, Problem> {
        self.outlook.get(self, |app| &app.outlook).await
    }

    /// What the present budget buys, once that is known.
    pub(crate) async fn budget_effect(
        self: &Arc<Self>,
    ) -> Result<Option<Arc<BudgetEffect>>, Problem> {
        self.budget_effect
            .soon(self, |app| &app.budget_effect)
            .await
    }

    /// What is to come, as it was seen last, or else now.
    pub(crate) fn latest_outlook(self: &Arc<Self>) -> Result<Arc<Mutex<Outlook>>, Problem> {
        match self.outlook.latest() {
            Some(outlook) => Ok(outlook),
            None => read_outlook(self).map(Arc::new),
        }
    }

    /// Elements in an order. Of many, it takes a while to make, and is kept for a while.
    pub(crate) fn order(
        &self,
        request: SortRequest,
        make: impl FnOnce() -> Result<Vec<(Rank, ElementId)>, Problem>,
    ) -> Result<SortedIds, Problem> {
        let orders = || self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = orders().get(&request).filter(|kept| kept.is_good()) {
            return Ok(Arc::clone(&kept.order));
        }
        let begun = Instant::now();
        let order = Arc::new(make()?);
        let mut orders = orders();
        orders.retain(|_, kept| kept.is_good());
        if orders.len() < MOST_ORDERS {
            let kept = KeptOrder {
                order: Arc::clone(&order),
                made_at: Instant::now(),
                cost: begun.elapsed(),
            };
            orders.insert(request, kept);
        }
        Ok(order)
    }

    /// Changes the file, unless the project is not ours to change.
    pub(crate) async fn change(self: &Arc<Self>, change: FileChange) -> Result<(), Problem> {
        self.check_writable()?;
        let done = self.blocking(move |app| Ok(app.file.change(change)?)).await;
        self.forget();
        done
    }

    /// Reads the file again.
    pub(crate) async fn reload(self: &Arc<Self>) -> Result<(), Problem> {
        self.check_writable()?;
        let done = self.blocking(move |app| Ok(app.file.reload()?)).await;
        self.forget();
        done
    }

    /// That the project is run here, and not by another process.
    pub(crate) fn check_writable(&self) -> Result<(), Problem> {
        match self.link.state() {
            EngineState::ReadOnly(why) => Err(read_only(&why)),
            _ => Ok(()),
        }
    }

    /// What was computed by earlier settings is not told any more, and is computed anew.
    fn forget(&self) {
        self.clear();
        self.forgotten.notify_one();
    }

    fn clear(&self) {
        self.status.forget();
        self.outlook.forget();
        self.budget_effect.forget();
        self.orders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

/// Computes what takes a while before anyone asks for it: when the engine has started, and
/// when the settings have changed.
pub(crate) async fn warm_up(app: Shared) {
    let mut states = app.link.states();
    loop {
        tokio::select! {
            changed = states.changed() => match changed {
                // A file that was read again at a hangup, for one: what took long to compute
                // would be told for as long again.
                Ok(()) => app.clear(),
                Err(_) => return,
            },
            () = app.forgotten.notified() => {}
        }
        // What goes wrong is told to whoever asks for it.
        let _ = app.status().await;
        let _ = app.outlook().await;
        let _ = app.budget_effect().await;
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let problem = match refusal.is_ours {
            true => Self::unavailable(refusal.what),
            false => Self::unprocessable(refusal.what),
        };
        match refusal.hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

fn read_status(app: &Shared) -> Result<Status, Problem> {
    let current = app.current();
    let (settings, target) = (&current.settings, current.target);
    let folder = app.folder.path();
    Ok(crate::project::status(
        folder,
        settings,
        target,
        None,
        app.now(),
    )?)
}

fn read_outlook(app: &Shared) -> Result<Mutex<Outlook>, Problem> {
    let store = app.folder.store()?;
    let settings = &app.current().settings;
    let outlook = Outlook::read(&*store, settings, app.now(), &mut || {})?;
    Ok(Mutex::new(outlook))
}
