//! An origin server of our own, on loopback or in a [`Network`] within this process: a
//! [`Site`] that changes at known rates, and any [`Behaviour`] that a server can have.
//! Tests, the demo and the benches ask it. A shop with a search box, built on it, is in [`search`].
//!
//! It knows nothing of the engine but its clock and its wire: what it served when is in
//! its log, and what was true when follows from the seed of the site.
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
mod network;
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

use crate::clock::Clock;
pub use behaviour::{Behaviour, Reply, Step};
pub use network::Network;
pub use site::{Site, SiteSettings, Validators, version_in};

/// Requests that are remembered; those after are only counted.
const MAX_LOG: usize = 250_000;

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Origin {
    shared: Arc<Shared>,
    runs_on: RunsOn,
}

/// Where a server runs.
#[derive(Debug)]
enum RunsOn {
    /// On a thread of its own.
    Loopback {
        address: SocketAddr,
        stop: Option<oneshot::Sender<()>>,
        thread: Option<JoinHandle<()>>,
    },
    /// On the runtime of whoever asks, under this name.
    Memory { network: Network, name: String },
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
    clock: Clock,
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
        let base = format!("http://{address}");
        let shared = Arc::new(Shared::new(settings, base, Clock::system()));
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
            shared,
            runs_on: RunsOn::Loopback {
                address,
                stop: Some(stop),
                thread: Some(thread),
            },
        })
    }

    /// Serves a site in a network, under a name, with a port or without.
    pub fn start_in(network: &Network, name: &str, settings: SiteSettings) -> Self {
        let base = format!("http://{name}");
        let shared = Arc::new(Shared::new(settings, base, network.clock()));
        network.add(name, shared.clone());
        Self {
            shared,
            runs_on: RunsOn::Memory {
                network: network.clone(),
                name: name.to_owned(),
            },
        }
    }

    /// Where it listens; nowhere, if it is within this process.
    pub fn addr(&self) -> Option<SocketAddr> {
        match self.runs_on {
            RunsOn::Loopback { address, .. } => Some(address),
            RunsOn::Memory { .. } => None,
        }
    }

    /// The clock that it goes by.
    pub fn clock(&self) -> Clock {
        self.shared.clock
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
        match &mut self.runs_on {
            RunsOn::Loopback { stop, thread, .. } => {
                if let Some(stop) = stop.take() {
                    // It may have stopped by itself.
                    let _ = stop.send(());
                }
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
            RunsOn::Memory { network, name } => network.remove(name, &self.shared),
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = shared.clone();
                shared.count_connection();
                // A client that breaks off is none of our business.
                tokio::spawn(async move {
                    stream.set_nodelay(true).ok()?;
                    serve::serve(stream, shared).await.ok()
                });
            }
            // Out of file descriptors, most likely: they come back.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
}

impl Shared {
    fn new(settings: SiteSettings, base: String, clock: Clock) -> Self {
        Self {
            clock,
            site: Site::new(settings, clock),
            base,
            scripts: RwLock::default(),
            other: RwLock::new(Behaviour::Usual),
            log: Mutex::default(),
            n_connections: AtomicU64::new(0),
        }
    }

    fn count_connection(&self) {
        self.n_connections.fetch_add(1, Ordering::Relaxed);
    }

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
            request.answered_at = Some(self.clock.wall_time());
        }
    }
}
