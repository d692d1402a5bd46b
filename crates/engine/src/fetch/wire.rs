//! How a request gets to its host, and the answer back: over sockets, or within this
//! process.
//!
//! All that is done about an answer (limits, decoding, what its headers mean) is done
//! above, in the same way for both. Within this process, the bytes of a connection are
//! real HTTP/1.1; only the socket, the name's address and TLS are missing.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::client::conn::http1;
use reqwest::header::{self, HeaderValue};
use reqwest::{Body, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use url::{Position, Url};

use super::http::{Error, Timeouts};
use super::sockets::{self, Sockets};
use super::{FailureKind, FetchFailure};
use crate::settings::{AllowPrivate, HttpSettings};

/// How requests get to their hosts. Clones share connections.
#[derive(Debug, Clone)]
pub struct Wire(Kind);

#[derive(Clone)]
enum Kind {
    Sockets(Box<Sockets>),
    Memory(Arc<Dial>),
}

/// Connects to the host of an address within this process.
/// [`io::ErrorKind::NotFound`] means that there is no such host, any other error that
/// it does not listen.
pub type Dial = dyn Fn(&Url) -> io::Result<DuplexStream> + Send + Sync;

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sockets(sockets) => sockets.fmt(f),
            Self::Memory(_) => f.write_str("Memory"),
        }
    }
}

impl Wire {
    /// Over sockets, as these settings allow.
    ///
    /// # Errors
    /// If connections cannot be made at all.
    pub fn sockets(settings: &HttpSettings) -> Result<Self, Error> {
        let mut roots = rustls::RootCertStore::empty();
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        Self::trusting(roots, settings)
    }

    /// Over sockets, to hosts that these vouch for.
    pub(super) fn trusting(
        roots: rustls::RootCertStore,
        settings: &HttpSettings,
    ) -> Result<Self, Error> {
        let sockets = Sockets::new(roots, settings)?;
        Ok(Self(Kind::Sockets(Box::new(sockets))))
    }

    /// Within this process: every request has a connection of its own, to whoever
    /// `dial` says, and takes no time but that which the host takes. Of an `https`
    /// address the host alone matters.
    pub fn memory(dial: impl Fn(&Url) -> io::Result<DuplexStream> + Send + Sync + 'static) -> Self {
        Self(Kind::Memory(Arc::new(dial)))
    }

    /// The same with connections of their own, to other private addresses. Within this
    /// process no name has an address.
    pub(super) fn allowing(&self, allow: AllowPrivate) -> Result<Self, Error> {
        Ok(match &self.0 {
            Kind::Sockets(sockets) => Self(Kind::Sockets(Box::new(sockets.allowing(allow)?))),
            Kind::Memory(_) => self.clone(),
        })
    }

    /// Carries a request there, and the head of the answer back.
    pub(super) async fn send(
        &self,
        request: Request,
        host: &str,
        limits: &Timeouts,
    ) -> Result<Response, FetchFailure> {
        match &self.0 {
            Kind::Sockets(sockets) => sockets
                .send(request)
                .await
                .map_err(|error| sockets::failure(&error, host, limits)),
            Kind::Memory(dial) => {
                let stream = dial(request.url()).map_err(|error| unreached(&error, host))?;
                converse(stream, request).await.map_err(|error| {
                    let found = sockets::broken_http(Some(&error), host);
                    let (kind, message) = found.unwrap_or_else(|| sockets::no_http(host));
                    FetchFailure::new(kind, message)
                })
            }
        }
    }

    /// The same, but every connection is closed after one request.
    #[cfg(test)]
    pub(super) fn closing_all(self) -> Self {
        match self.0 {
            Kind::Sockets(sockets) => Self(Kind::Sockets(Box::new(sockets.closing_all()))),
            Kind::Memory(_) => self,
        }
    }
}

fn unreached(error: &io::Error, host: &str) -> FetchFailure {
    match error.kind() {
        io::ErrorKind::NotFound => {
            FetchFailure::new(FailureKind::Dns, format!("{host} has no address"))
        }
        _ => FetchFailure::new(
            FailureKind::Connect,
            format!("{host} is unreachable: connection refused"),
        ),
    }
}

/// One request and the head of its answer over a connection of its own.
async fn converse(stream: DuplexStream, request: Request) -> Result<Response, hyper::Error> {
    let target = request.url()[Position::BeforePath..Position::AfterQuery].parse();
    let authority = &request.url()[Position::BeforeHost..Position::AfterPort];
    let authority = HeaderValue::from_str(authority);
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let bytes = request.body().and_then(Body::as_bytes).map(<[u8]>::to_vec);
    let mut asked = hyper::Request::new(bytes.map_or_else(Body::default, Body::from));
    *asked.method_mut() = method;
    *asked.headers_mut() = headers;
    // An address that was parsed has a path and a host that can be written.
    if let (Ok(target), Ok(authority)) = (target, authority) {
        *asked.uri_mut() = target;
        asked.headers_mut().insert(header::HOST, authority);
    }
    let (mut sender, connection) = http1::handshake(Stream(stream)).await?;
    // Whoever reads the answer is told of what goes wrong.
    tokio::spawn(async move { connection.await.ok() });
    let answer = sender.send_request(asked).await?;
    Ok(answer.map(Body::wrap).into())
}

/// A stream of Tokio's as hyper wants it.
struct Stream(DuplexStream);

impl hyper::rt::Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; 8192];
        let room = buffer.remaining().min(bytes.len());
        let mut read = tokio::io::ReadBuf::new(&mut bytes[..room]);
        ready!(Pin::new(&mut self.0).poll_read(context, &mut read))?;
        buffer.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
