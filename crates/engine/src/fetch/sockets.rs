//! Connections over sockets, and what it means when one fails.

use std::collections::HashMap;
use std::error::Error as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::{Request, Response};

use super::guard::{Guard, Refused, Resolver, refused};
use super::http::{Error, Timeouts, took_too_long};
use super::locator::origin;
use super::{FailureKind, FetchFailure};
use crate::settings::{AllowPrivate, HttpSettings};

/// Headers of an answer over HTTP/2, in bytes. (Over HTTP/1.1 it is a hundred headers
/// of some 400 kB in all, which is how hyper has it.)
const MAX_HEADERS: u32 = 64 * 1024;

/// Connections that are kept open to a host that is not being asked: it is rarely asked by
/// more at a time.
const MAX_IDLE_PER_HOST: usize = 4;
/// How long they are kept open. Servers close them after a minute or so in any case.
const IDLE_FOR: Duration = Duration::from_secs(60);

/// Origins to which connections are kept open. A process often may have no more than
/// 1,024 files, and once it has, no host can be reached; beyond these, each request has
/// a connection of its own.
const MAX_KEPT: usize = 128;

/// Connections to hosts, which are kept for the next request. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Sockets {
    /// Keeps connections.
    keeping: reqwest::Client,
    /// Closes them.
    closing: reqwest::Client,
    kept: Arc<Mutex<OpenOrigins>>,
    tls: rustls::ClientConfig,
    connect_timeout: Duration,
}

impl Sockets {
    pub(super) fn new(
        roots: rustls::RootCertStore,
        settings: &HttpSettings,
    ) -> Result<Self, Error> {
        let connect_timeout = Timeouts::new(settings.timeout).connect;
        let allow = settings.allow_private.clone();
        Self::build(tls(roots)?, connect_timeout, allow, Arc::default())
    }

    /// Connections of their own, to other private addresses. How many are kept is counted
    /// together.
    pub(super) fn allowing(&self, allow: AllowPrivate) -> Result<Self, Error> {
        let kept = Arc::clone(&self.kept);
        Self::build(self.tls.clone(), self.connect_timeout, allow, kept)
    }

    fn build(
        tls: rustls::ClientConfig,
        connect_timeout: Duration,
        allow: AllowPrivate,
        kept: Arc<Mutex<OpenOrigins>>,
    ) -> Result<Self, Error> {
        let resolver = Arc::new(Resolver::new(Guard::new(allow)));
        let client = |max_idle_per_host| {
            reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .dns_resolver(resolver.clone())
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                // Every request is counted; none is made behind our back.
                .retry(reqwest::retry::never())
                .referer(false)
                .connect_timeout(connect_timeout)
                .pool_max_idle_per_host(max_idle_per_host)
                .pool_idle_timeout(IDLE_FOR)
                .http2_max_header_list_size(MAX_HEADERS)
                .tcp_nodelay(true)
                .build()
                .map_err(Error::Client)
        };
        Ok(Self {
            keeping: client(MAX_IDLE_PER_HOST)?,
            closing: client(0)?,
            kept,
            tls,
            connect_timeout,
        })
    }

    pub(super) async fn send(&self, request: Request) -> reqwest::Result<Response> {
        let is_kept = self
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keeps(origin(request.url()), Instant::now());
        let client = if is_kept {
            &self.keeping
        } else {
            &self.closing
        };
        client.execute(request).await
    }

    /// The same, but every connection is closed after one request.
    #[cfg(test)]
    pub(super) fn closing_all(self) -> Self {
        Self {
            keeping: self.closing.clone(),
            ..self
        }
    }
}

/// The origins to which connections are kept open, and when each was last asked.
#[derive(Debug, Default)]
struct OpenOrigins {
    asked_at: HashMap<String, Instant>,
}

impl OpenOrigins {
    /// Whether a connection to this origin, which is asked now, is to be kept.
    fn keeps(&mut self, origin: String, now: Instant) -> bool {
        if self.asked_at.len() >= MAX_KEPT && !self.asked_at.contains_key(&origin) {
            // By now their connections are closed.
            self.asked_at
                .retain(|_, asked_at| now.duration_since(*asked_at) < IDLE_FOR);
            if self.asked_at.len() >= MAX_KEPT {
                return false;
            }
        }
        self.asked_at.insert(origin, now);
        true
    }
}

fn tls(roots: rustls::RootCertStore) -> Result<rustls::ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// What a failed request means. Its chain of causes knows; its top knows nothing.
pub(super) fn failure(error: &reqwest::Error, host: &str, limits: &Timeouts) -> FetchFailure {
    for cause in causes(error.source()) {
        if let Some(address) = cause.downcast_ref::<Refused>() {
            return refused(address);
        }
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return FetchFailure::new(
                FailureKind::Tls,
                format!("no secure connection to {host}: {tls}"),
            );
        }
    }
    let found = broken_http(error.source(), host);
    if error.is_timeout() {
        return if error.is_connect() {
            took_too_long(&format!("no connection to {host}"), limits.connect)
        } else {
            took_too_long(&format!("{host} did not answer"), limits.total)
        };
    }
    if error.is_dns() {
        return FetchFailure::new(FailureKind::Dns, format!("{host} has no address"));
    }
    if error.is_connect() {
        let reason = match found {
            Some((FailureKind::Reset, _)) => "connection closed at once",
            _ if has_io(error, io::ErrorKind::ConnectionRefused) => "connection refused",
            _ if has_io(error, io::ErrorKind::HostUnreachable)
                || has_io(error, io::ErrorKind::NetworkUnreachable) =>
            {
                "no route to it"
            }
            _ => "no connection could be made",
        };
        return FetchFailure::new(
            FailureKind::Connect,
            format!("{host} is unreachable: {reason}"),
        );
    }
    if error.is_builder() {
        return FetchFailure::new(
            FailureKind::Url,
            format!("the request to {host} cannot be made"),
        );
    }
    let (kind, message) = found.unwrap_or_else(|| no_http(host));
    FetchFailure::new(kind, message)
}

/// What went wrong with the HTTP of a connection, as far as the deepest cause that says
/// so knows.
pub(super) fn broken_http(
    first: Option<&(dyn std::error::Error + 'static)>,
    host: &str,
) -> Option<(FailureKind, String)> {
    let mut found = None;
    for cause in causes(first) {
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            found = from_io(io, host).or(found);
        } else if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
            found = from_hyper(hyper, host).or(found);
        } else if let Some(h2) = cause.downcast_ref::<h2::Error>()
            && h2.is_remote()
            && (h2.is_reset() || h2.is_go_away())
        {
            found = Some(broken_off(host));
        }
    }
    found
}

/// Something that is not HTTP, or not as much of it as we can read.
pub(super) fn no_http(host: &str) -> (FailureKind, String) {
    (
        FailureKind::Protocol,
        format!("{host} sent something that is not HTTP"),
    )
}

fn broken_off(host: &str) -> (FailureKind, String) {
    (
        FailureKind::Reset,
        format!("{host} closed the connection before the answer was whole"),
    )
}

fn from_io(error: &io::Error, host: &str) -> Option<(FailureKind, String)> {
    match error.kind() {
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => Some(broken_off(host)),
        _ => None,
    }
}

fn from_hyper(error: &hyper::Error, host: &str) -> Option<(FailureKind, String)> {
    if error.is_incomplete_message() {
        Some(broken_off(host))
    } else if error.to_string().contains("too large") {
        // hyper has a method for this, but only where it is built as a server.
        Some((
            FailureKind::Protocol,
            format!("{host} sent more headers than we read"),
        ))
    } else if error.is_parse() {
        Some(no_http(host))
    } else {
        None
    }
}

fn has_io(error: &reqwest::Error, kind: io::ErrorKind) -> bool {
    causes(error.source()).any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|io| io.kind() == kind)
    })
}

/// An error, what it comes from, and what that comes from. An [`io::Error`] that holds
/// another error passes over it when asked for its source, so it is asked for what it
/// holds.
fn causes<'a>(
    first: Option<&'a (dyn std::error::Error + 'static)>,
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(first, |&cause| {
        match cause.downcast_ref::<io::Error>().map(io::Error::get_ref) {
            Some(Some(held)) => Some(held),
            _ => cause.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_kept_to_so_many_origins_and_to_those_asked_lately() {
        let mut kept = OpenOrigins::default();
        let start = Instant::now();
        for n in 0..MAX_KEPT {
            assert!(kept.keeps(n.to_string(), start));
        }
        assert!(!kept.keeps("one more".to_owned(), start));
        assert!(kept.keeps("0".to_owned(), start + IDLE_FOR / 2));
        assert!(kept.keeps("one more".to_owned(), start + IDLE_FOR));
        assert_eq!(kept.asked_at.len(), 2);
    }
}
