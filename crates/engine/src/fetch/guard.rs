//! Where we may connect.
//!
//! Addresses come from strangers: from sitemaps, links, redirects and name servers.
//! None of them may make us talk to the machine we run on, to its neighbours or to
//! the cloud's metadata service, unless the settings name them. So the URL is
//! checked before every request (an address written as a literal never meets the
//! resolver), every resolved address is checked, and the connection is made to one
//! of exactly those that were.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::sync::Semaphore;
use url::{Host, Url};

use super::locator::MAX_URL;
use super::{FailureKind, FetchFailure};
use crate::settings::AllowPrivate;

/// Decides where we may connect.
#[derive(Debug, Clone)]
pub struct Guard {
    allow: Arc<AllowPrivate>,
}

impl Guard {
    /// A guard that lets through public addresses and these private ones.
    pub fn new(allow: AllowPrivate) -> Self {
        Self {
            allow: Arc::new(allow),
        }
    }

    /// Whether a connection to this address may be made.
    pub fn is_allowed(&self, address: IpAddr) -> bool {
        // An IPv4 address in IPv6 clothes (`::ffff:10.0.0.1`) is dialled as the
        // IPv4 address, so it is judged as one.
        let address = address.to_canonical();
        is_public(address)
            || match &*self.allow {
                AllowPrivate::None => false,
                AllowPrivate::All => true,
                AllowPrivate::Only(networks) => {
                    networks.iter().any(|network| network.contains(&address))
                }
            }
    }

    /// Checks everything about a URL that can be checked without asking a name
    /// server.
    ///
    /// # Errors
    /// If it may not be asked.
    pub fn check(&self, url: &Url) -> Result<(), FetchFailure> {
        if url.as_str().len() > MAX_URL {
            return Err(FetchFailure::new(
                FailureKind::Url,
                format!(
                    "the address has {} bytes; at most {MAX_URL} can be fetched",
                    url.as_str().len()
                ),
            ));
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(FetchFailure::new(
                FailureKind::Url,
                format!("only http and https can be fetched, not {}", url.scheme()),
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(FetchFailure::new(
                FailureKind::Url,
                "a user name or a password in an address is not sent",
            ));
        }
        if url.port() == Some(0) {
            return Err(FetchFailure::new(
                FailureKind::Url,
                "there is no port 0 to connect to",
            ));
        }
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            // The url crate turns every spelling of an IPv4 address (decimal, octal,
            // hexadecimal, short) into `Host::Ipv4`. Should one slip through, the
            // connector would take it for a literal and not ask the resolver.
            Some(Host::Domain(name)) => match name.parse::<IpAddr>() {
                Ok(address) => address,
                Err(_) => return Ok(()),
            },
            None => {
                return Err(FetchFailure::new(
                    FailureKind::Url,
                    "an address without a host cannot be fetched",
                ));
            }
        };
        if self.is_allowed(address) {
            Ok(())
        } else {
            Err(refused(&Refused {
                host: address.to_string(),
                address,
            }))
        }
    }
}

/// A failure that says which address was refused, and what to do if that was wrong.
pub(super) fn refused(refused: &Refused) -> FetchFailure {
    FetchFailure::new(FailureKind::Address, refused.to_string())
}

/// A host all of whose addresses are out of bounds; one of them.
#[derive(Debug)]
pub(super) struct Refused {
    host: String,
    address: IpAddr,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address } = self;
        if *host == address.to_string() {
            write!(f, "{address} is a private or special address")?;
        } else {
            write!(f, "{host} is at {address}, a private or special address")?;
        }
        write!(
            f,
            "; `allow_private`, under its source or `[http]`, allows it"
        )
    }
}

impl std::error::Error for Refused {}

/// Lookups at a time. Each holds a thread until the system's resolver gives up,
/// which may take half a minute; more of them would starve everything else that
/// waits for one of tokio's 512, fewer would let a slow name server hold up all
/// others.
const MAX_LOOKUPS: usize = 256;

/// Resolves names by the system's resolver and leaves out addresses where we may
/// not connect.
pub(super) struct Resolver {
    guard: Guard,
    lookups: Arc<Semaphore>,
}

impl Resolver {
    pub(super) fn new(guard: Guard) -> Self {
        Self {
            guard,
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
        }
    }
}

impl reqwest::dns::Resolve for Resolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let guard = self.guard.clone();
        let lookups = self.lookups.clone();
        Box::pin(async move {
            let permit = lookups.acquire_owned().await?;
            let host = name.as_str().to_owned();
            let asked = host.clone();
            let found = tokio::task::spawn_blocking(move || {
                // Held by the thread, not by the future: a fetch that no longer
                // waits does not make the thread come back.
                let _permit = permit;
                (asked.as_str(), 0)
                    .to_socket_addrs()
                    .map(|addresses| addresses.collect::<Vec<SocketAddr>>())
            })
            .await??;
            let allowed: Vec<SocketAddr> = found
                .iter()
                .copied()
                .filter(|address| guard.is_allowed(address.ip()))
                .collect();
            match found.first() {
                Some(first) if allowed.is_empty() => Err(Box::new(Refused {
                    host,
                    address: first.ip(),
                })
                    as Box<dyn std::error::Error + Send + Sync>),
                _ => Ok(Box::new(allowed.into_iter()) as reqwest::dns::Addrs),
            }
        })
    }
}

/// Whether an address is one of the public Internet, by IANA's registries of
/// special-purpose addresses.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, d] = address.octets();
    !matches!(
        (a, b, c, d),
        // This network; the unspecified address reaches the machine itself.
        (0, ..)
            | (10, ..)
            // Carrier-grade NAT; a cloud's metadata service is at 100.100.100.200.
            | (100, 64..=127, ..)
            | (127, ..)
            // The platform services of a cloud, at an address that looks public.
            | (168, 63, 129, 16)
            // Link-local; the metadata service of most clouds is at 169.254.169.254.
            | (169, 254, ..)
            | (172, 16..=31, ..)
            // Protocol assignments; a cloud's metadata service is at 192.0.0.192.
            | (192, 0, 0, _)
            // Documentation, and the former relays of 6to4.
            | (192, 0, 2, _)
            | (192, 88, 99, _)
            | (192, 168, ..)
            // Benchmarks, documentation.
            | (198, 18..=19, ..)
            | (198, 51, 100, _)
            | (203, 0, 113, _)
            // Multicast, reserved, broadcast.
            | (224..=255, ..)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    match segments {
        // IPv4-mapped.
        [0, 0, 0, 0, 0, 0xffff, high, low] => is_public_v4(embedded(high, low)),
        // NAT64: on a network without IPv4, this is how all of it is reached.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(embedded(high, low)),
        // Protocol assignments, among them Teredo, which hides an IPv4 address, and
        // addresses for benchmarks.
        [0x2001, 0..=0x1ff, ..] => false,
        // Documentation.
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // 6to4 hides an IPv4 address too, and nobody uses it any more.
        [0x2002, ..] => false,
        // All that has been given out is in 2000::/3. What is outside is special:
        // unspecified, loopback, IPv4-compatible, unique-local, link-local,
        // site-local, multicast, discard.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}
