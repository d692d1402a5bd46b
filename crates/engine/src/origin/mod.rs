//! An origin server of our own, on loopback: a [`Site`] that changes at known rates,
//! and any [`Behaviour`] that a server can have. Tests, the demo and the benches ask
//! it. A shop with a search box, built on it, is in [`search`].
//!
//! It knows nothing of the engine: what it served when is in its log, and what was
//! true when follows from the seed of the site.
//!
//! ```
//! use springtide_engine::origin::{Behaviour, Origin, SiteSettings};
//! use springtide_policy::Rate;
//!
//! let origin = Origin::start(SiteSettings {
//!     rates: vec![Rate::per_day(24.0).unwrap(); 10],
//!     ..SiteSettings::default()
//! })
//! .unwrap();
//! origin.script("/moved", Behaviour::redirect(301, "/d0/p0.html"));
//! assert!(origin.url("/sitemap.xml").starts_with("http://127.0.0.1:"));
//! assert_eq!(origin.requests().len(), 0);
//! ```

mod behaviour;
mod changes;
pub mod hostile;
pub mod search;
mod serve;
mod site;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::SystemTime;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub use behaviour::{Behaviour, Reply, Step};
pub use site::{Site, SiteSettings, Validators, version_in};

/// Requests that are remembered; those after are only counted.
const MAX_LOG: usize = 250_000;

/// A server that runs, on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A request that was made.
#[derive(Debug, Clone)]
pub struct Request {
    /// When its headers were there.
    pub received_at: SystemTime,
    /// When all of the answer had been handed over; nothing before then.
    pub answered_at: Option<SystemTime>,
    /// Its method.
    pub method: String,
    /// Its path, with the query.
    pub path: String,
    /// The status that it was answered with; 0 for what is not HTTP.
    pub status: u16,
    /// Headers of interest.
    pub host: Option<String>,
    /// Headers of interest.
    pub user_agent: Option<String>,
    /// Headers of interest.
    pub if_none_match: Option<String>,
    /// Headers of interest.
    pub if_modified_since: Option<String>,
    /// Headers of interest.
    pub accept_encoding: Option<String>,
    /// All others, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

#[derive(Debug)]
struct Shared {
    site: Site,
    base: String,
    scripts: RwLock<HashMap<String, Behaviour>>,
    /// What paths without a script do.
    other: RwLock<Behaviour>,
    log: Mutex<Log>,
    n_connections: AtomicU64,
}

#[derive(Debug, Default)]
struct Log {
    requests: Vec<Request>,
    n_requests: u64,
    /// The number of the first that is remembered.
    first: u64,
}

impl Origin {
    /// Serves a site on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If there is none, or no thread.
    pub fn start(settings: SiteSettings) -> io::Result<Self> {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), settings)
    }

    /// Serves a site at an address, which has to be one of loopback.
    ///
    /// # Errors
    /// If it is not, or is taken, or there is no thread.
    pub fn start_at(address: SocketAddr, settings: SiteSettings) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "an origin serves loopback only",
            ));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // Bound without a runtime: the caller may be within one of its own.
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            site: Site::new(settings, SystemTime::now()),
            base: format!("http://{address}"),
            scripts: RwLock::default(),
            other: RwLock::new(Behaviour::Usual),
            log: Mutex::default(),
            n_connections: AtomicU64::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let serving = shared.clone();
        let thread = std::thread::Builder::new()
            .name("origin".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, serving) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.shared.base)
    }

    /// What it serves.
    pub fn site(&self) -> &Site {
        &self.shared.site
    }

    /// Has a path (with its query, or without) behave in a way of its own.
    pub fn script(&self, path: &str, behaviour: Behaviour) {
        self.shared
            .scripts
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(path.to_owned(), behaviour);
    }

    /// Has all paths that have no script behave in this way, instead of as the site
    /// has them.
    pub fn script_others(&self, behaviour: Behaviour) {
        *self
            .shared
            .other
            .write()
            .unwrap_or_else(PoisonError::into_inner) = behaviour;
    }

    /// Has a path behave as usual again.
    pub fn unscript(&self, path: &str) {
        self.shared
            .scripts
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(path);
    }

    /// The requests so far, in the order in which they came; no more than are
    /// remembered.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.locked().requests.clone()
    }

    /// How many requests there were.
    pub fn n_requests(&self) -> u64 {
        self.shared.locked().n_requests
    }

    /// How many connections there were.
    pub fn n_connections(&self) -> u64 {
        self.shared.n_connections.load(Ordering::Relaxed)
    }

    /// Forgets the requests so far.
    pub fn forget_requests(&self) {
        let mut log = self.shared.locked();
        log.requests.clear();
        log.first = log.n_requests;
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have stopped by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = shared.clone();
                shared.n_connections.fetch_add(1, Ordering::Relaxed);
                // A client that breaks off is none of our business.
                tokio::spawn(async move { serve::serve(stream, shared).await.ok() });
            }
            // Out of file descriptors, most likely: they come back.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
}

impl Shared {
    fn behaviour(&self, path: &str) -> Behaviour {
        let scripts = self.scripts.read().unwrap_or_else(PoisonError::into_inner);
        scripts
            .get(path)
            .or_else(|| scripts.get(path.split('?').next().unwrap_or_default()))
            .cloned()
            .unwrap_or_else(|| {
                let other = self.other.read().unwrap_or_else(PoisonError::into_inner);
                other.clone()
            })
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a request, and gives its number.
    fn log(&self, mut request: Request, status: u16) -> u64 {
        request.status = status;
        let mut log = self.locked();
        let number = log.n_requests;
        log.n_requests += 1;
        if log.requests.len() < MAX_LOG {
            log.requests.push(request);
        }
        number
    }

    /// Remembers that a request was answered.
    fn answered(&self, number: u64) {
        let mut log = self.locked();
        let at = number.checked_sub(log.first);
        if let Some(request) = at.and_then(|at| log.requests.get_mut(usize::try_from(at).ok()?)) {
            request.answered_at = Some(SystemTime::now());
        }
    }
}
