//! The API, the dashboard, metrics, hints and notices beside a running engine: what a team
//! watches and builds on.
//!
//! A [`Server`] is bound to an address, and runs until it is stopped. It neither fetches
//! nor plans: it reads the store through the engine's `view`, beside whoever writes, and
//! tells the engine what to do through its `Handle`, which it is given by a [`Link`]. What
//! `springtide.toml` holds and how it is changed is known to the program around it, a
//! [`ProjectFile`].

// The shapes of the API are one literal.
#![recursion_limit = "512"]

mod api;
mod app;
mod cached;
mod checkup;
mod door;
mod feed;
mod health;
mod hints;
mod history;
mod lab;
mod link;
mod listen;
mod metrics;
mod notices;
mod openapi;
mod pages;
mod params;
mod problem;
mod project;
mod settings;
mod tally;
mod websub;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use tokio::sync::watch;

pub use link::Link;
pub use notices::{Authority, Mail, NoticeKind, NoticeTarget, NoticeTo, SmtpServer, test_notice};
pub use project::{Current, FileChange, ProjectFile, Refusal, status};
pub use settings::ServerSettings;

use app::App;
use project::Folder;

/// Files that may be open at once: connections are files, too.
const MANY_FILES: u64 = 16_384;

/// A server that has an address.
pub struct Server {
    link: Link,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens, and answers from now on, of the project in a folder.
    ///
    /// # Errors
    /// If the address cannot be had, or threads cannot be made.
    pub fn start(
        folder: &Path,
        mut settings: ServerSettings,
        file: Arc<dyn ProjectFile>,
    ) -> io::Result<Self> {
        allow_many_files();
        let listener = std::net::TcpListener::bind(settings.listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        settings.listen = address;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("server")
            .enable_all()
            .build()?;
        let link = Link::new(runtime.handle().clone(), Arc::default());
        let folder = Folder::new(folder);
        // Before any engine runs: what is found from now on is told.
        let first = folder
            .store()
            .map_or(Some(0), |store| feed::latest(&*store).ok());
        let app = Arc::new(App::new(folder, file, settings, link.clone()));
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::Builder::new().name("server".into());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                    return;
                };
                tokio::spawn(feed::follow(Arc::clone(&app)));
                tokio::spawn(feed::tell_overview(Arc::clone(&app)));
                tokio::spawn(history::keep_predictions(Arc::clone(&app)));
                tokio::spawn(health::watch(Arc::clone(&app)));
                tokio::spawn(notices::run_notices(Arc::clone(&app), first));
                tokio::spawn(app::warm_up(Arc::clone(&app)));
                tokio::spawn(websub::subscribe(Arc::clone(&app)));
                listen::listen(listener, router(app), stopped).await;
            });
            runtime.shutdown_background();
        })?;
        Ok(Self {
            link,
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// By which it is told of engines.
    pub fn link(&self) -> &Link {
        &self.link
    }
}

impl Drop for Server {
    /// Answers what it was asked, and ends.
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

/// Threads that talk to others; those that read the store are apart.
const WORKERS: usize = 2;

/// Everything that may be asked for.
fn router(app: Arc<App>) -> Router {
    openapi::router()
        .merge(pages::router())
        .fallback(pages::nothing_here)
        .layer(axum::middleware::from_fn_with_state(
            Arc::clone(&app),
            door::pass,
        ))
        .with_state(app)
}

/// A thousand listeners are a thousand files, and by default a process may have as many.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit
        .maximum
        .map_or(MANY_FILES, |most| most.min(MANY_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        // If it may not be had, fewer connections are.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(wanted),
                ..limit
            },
        );
    }
}
