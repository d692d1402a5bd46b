//! Hosts within this process, by name.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::io::DuplexStream;
use url::Url;

use super::{Shared, serve};
use crate::clock::Clock;
use crate::fetch::Wire;

/// What either side of a connection may have sent before the other reads it, in bytes.
const BUFFER: usize = 64 * 1024;

/// Hosts that are reached without sockets, and whose clock is that of whoever asks them:
/// for tests in virtual time. Clones share the hosts.
///
/// ```
/// use springtide_engine::clock::Clock;
/// use springtide_engine::origin::{Network, Origin, SiteSettings};
/// use springtide_store::Moment;
///
/// let network = Network::new(Clock::starting_at(Moment(0)));
/// let origin = Origin::start_in(&network, "docs.example", SiteSettings::default());
/// assert_eq!(origin.url("/"), "http://docs.example/");
/// // Whoever asks over this wire reaches it.
/// let wire = network.wire();
/// ```
#[derive(Debug, Clone)]
pub struct Network {
    clock: Clock,
    /// By name and port. A host that has stopped is known, and refuses.
    hosts: Arc<RwLock<HashMap<String, Option<Arc<Shared>>>>>,
}

impl Network {
    /// A network without hosts. Those that are started in it go by this clock.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            hosts: Arc::default(),
        }
    }

    /// The clock that its hosts go by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The way to its hosts.
    pub fn wire(&self) -> Wire {
        let network = self.clone();
        Wire::memory(move |url| network.dial(url))
    }

    fn dial(&self, url: &Url) -> io::Result<DuplexStream> {
        let name = format!(
            "{}:{}",
            url.host_str().unwrap_or_default(),
            url.port_or_known_default().unwrap_or_default()
        );
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let host = hosts.get(&name).ok_or(io::ErrorKind::NotFound)?;
        let host = host.clone().ok_or(io::ErrorKind::ConnectionRefused)?;
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        host.count_connection();
        // A client that breaks off is none of our business.
        tokio::spawn(async move { serve::serve(theirs, host).await.ok() });
        Ok(ours)
    }

    /// Lets a host be reached, instead of any that has had its name so far.
    pub(super) fn add(&self, name: &str, host: Arc<Shared>) {
        self.hosts
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(with_port(name), Some(host));
    }

    /// Has a host refuse connections, unless another has its name by now.
    pub(super) fn remove(&self, name: &str, host: &Arc<Shared>) {
        let mut hosts = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = hosts.get_mut(&with_port(name))
            && there.as_ref().is_some_and(|there| Arc::ptr_eq(there, host))
        {
            *there = None;
        }
    }
}

/// A host's name with its port, which is 80 if none is named.
fn with_port(name: &str) -> String {
    match name.rsplit_once(':') {
        Some(_) => name.to_owned(),
        None => format!("{name}:80"),
    }
}
