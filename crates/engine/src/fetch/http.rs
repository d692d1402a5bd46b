//! One request to one address.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use url::Url;

use super::decode::{DecodeError, Decoder};
use super::guard::Guard;
use super::locator::MAX_URL;
use super::sockets::failure;
use super::wire::Wire;
use super::{FailureKind, FetchFailure};
use crate::clock::Clock;
use crate::settings::{AllowPrivate, HttpSettings};

/// What we can decode, in the order in which we like it.
const ACCEPT_ENCODING: &str = "gzip, br, zstd, deflate";

/// Validators and content types that are longer, in bytes, are not taken: they have
/// to be kept and sent back.
const MAX_VALIDATOR: usize = 1024;

/// The longest Retry-After: 30 days. A longer one is taken for a mistake and cut to this.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(30 * 24 * 3600);

/// A body that nobody wants is read to its end if it is no longer than this, in bytes:
/// that leaves the connection open for the next request.
const MAX_DRAINED: usize = 32 * 1024;
/// It is read for no longer than this.
const DRAINED_WITHIN: Duration = Duration::from_millis(500);

/// More bytes than are decoded may have to be read: encodings that do not shorten.
const ENCODING_OVERHEAD: u64 = 64 * 1024;

/// Pieces of a body are crumbs if they have fewer bytes than this on average.
const CRUMB: u64 = 16;
/// A body that comes in more crumbs than this is given up: each costs us more work than it
/// costs the sender.
const MAX_CRUMBS: u64 = 10_000;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The contact cannot be part of a header.
    #[error("the contact {0:?} has characters that cannot be sent")]
    Contact(String),
    /// No secure connections can be made.
    #[error("cannot prepare secure connections")]
    Tls(#[from] rustls::Error),
    /// No requests can be made.
    #[error("cannot prepare requests")]
    Client(#[source] reqwest::Error),
}

/// Makes requests over a [`Wire`]. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Client {
    wire: Wire,
    clock: Clock,
    agent: HeaderValue,
    guard: Guard,
    limits: Timeouts,
    large: Arc<Semaphore>,
}

/// Bodies longer than this, in bytes, are large.
const LARGE: usize = 512 << 10;
/// Large bodies that are held at a time, whoever sends them: others wait, with their
/// connections.
const MOST_LARGE: usize = 12;
/// Bytes that are decoded at a time: a bomb makes a thousand times as many of them.
const SLICE: usize = 1 << 10;

/// How long each part of a request may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Until there is a connection.
    pub(super) connect: Duration,
    /// Until the headers are there.
    headers: Duration,
    /// Between two pieces of the body.
    idle: Duration,
    /// In all.
    pub(super) total: Duration,
}

impl Timeouts {
    /// Parts in proportion: a host that does not even accept a connection in a third
    /// of the time, or stops in the middle of a body for as long, will not make it.
    pub(super) fn new(total: Duration) -> Self {
        Self {
            connect: total / 3,
            headers: total * 2 / 3,
            idle: total / 3,
            total,
        }
    }
}

/// What to ask.
#[derive(Debug, Clone, Copy)]
pub struct HttpRequest<'a> {
    /// Where.
    pub url: &'a Url,
    /// The copy's ETag, if an answer is wanted only if it has changed.
    pub etag: Option<&'a str>,
    /// The copy's Last-Modified, if an answer is wanted only if it has changed.
    pub last_modified: Option<&'a str>,
    /// More headers. Those that have no legal spelling are left out. They may hold keys,
    /// and are not for another origin that a redirect leads to.
    pub headers: &'a [(String, String)],
    /// What to send; nothing asks by GET, anything by POST.
    pub body: Option<&'a [u8]>,
    /// The longest body that is wanted, decoded, in bytes.
    pub max_body: u64,
    /// What to do with a longer one.
    pub overflow: Overflow,
}

impl<'a> HttpRequest<'a> {
    /// Asks for whatever is there, up to so many bytes.
    pub fn new(url: &'a Url, max_body: u64) -> Self {
        Self {
            url,
            etag: None,
            last_modified: None,
            headers: &[],
            body: None,
            max_body,
            overflow: Overflow::Fail,
        }
    }
}

/// What to do with a body that is longer than wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// It is a failure.
    Fail,
    /// What is wanted of it is taken, and the rest left.
    Cut,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Its ETag, as sent.
    pub etag: Option<String>,
    /// Its Last-Modified, as sent.
    pub last_modified: Option<String>,
    /// What kind of content it is, as sent.
    pub content_type: Option<String>,
    /// How long after `answered_at` the server wants to be left alone, at most
    /// [`MAX_RETRY_AFTER`].
    pub retry_after: Option<Duration>,
    /// How long it is said to stay as it is (`max-age` of Cache-Control).
    pub max_age: Option<Duration>,
    /// What its Link headers say, as sent: the first few.
    pub links: Vec<String>,
    /// Where it is instead, as sent: to be resolved against the URL, and to be
    /// checked like any other.
    pub location: Option<String>,
    /// The body, decoded; empty unless the status is 2xx.
    pub body: Bytes,
    /// Whether the body was longer, and was cut as asked.
    pub is_cut: bool,
    /// Leave to hold a large body, of which there are only so many at a time; given back
    /// when the answer is dropped.
    pub large_body_permit: Option<Arc<OwnedSemaphorePermit>>,
    /// When the request was begun.
    pub asked_at: SystemTime,
    /// When the headers of the answer were there.
    pub answered_at: SystemTime,
}

impl Answer {
    /// Whether the status says that the host is in trouble, or has had enough, rather
    /// than that there is something about the one page. A 500 is the page's: one
    /// broken page among thousands is common.
    pub fn is_host_trouble(&self) -> bool {
        matches!(self.status, 429 | 502 | 503 | 504 | 520..=530)
    }

    /// Whether it says where it is instead.
    pub fn is_redirect(&self) -> bool {
        matches!(self.status, 301 | 302 | 303 | 307 | 308) && self.location.is_some()
    }
}

impl Client {
    /// A client that asks as these settings say, over sockets and by the system's clock.
    ///
    /// # Errors
    /// If the contact cannot be sent, or connections cannot be made at all.
    pub fn new(settings: &HttpSettings) -> Result<Self, Error> {
        Self::over(Wire::sockets(settings)?, settings, Clock::system())
    }

    /// A client that asks as these settings say, over a wire and by a clock that are
    /// given.
    ///
    /// # Errors
    /// If the contact cannot be sent.
    pub fn over(wire: Wire, settings: &HttpSettings, clock: Clock) -> Result<Self, Error> {
        Ok(Self {
            wire,
            clock,
            agent: user_agent(settings.contact.as_deref())?,
            guard: Guard::new(settings.allow_private.clone()),
            limits: Timeouts::new(settings.timeout),
            large: Arc::new(Semaphore::new(MOST_LARGE)),
        })
    }

    /// A client that may ask other private addresses, over connections of its own.
    ///
    /// # Errors
    /// If connections cannot be made at all.
    pub(crate) fn allowing(&self, allow: AllowPrivate) -> Result<Self, Error> {
        Ok(Self {
            wire: self.wire.allowing(allow.clone())?,
            guard: Guard::new(allow),
            ..self.clone()
        })
    }

    /// The guard that decides where it may connect.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Makes one request. Redirects are returned, not followed.
    ///
    /// # Errors
    /// If nothing came back that can be used. That is a fact about the remote, not
    /// an error of ours.
    pub async fn hop(&self, ask: &HttpRequest<'_>) -> Result<Answer, FetchFailure> {
        self.guard.check(ask.url)?;
        let host = ask.url.host_str().unwrap_or_default();
        match timeout(self.limits.total, self.ask(ask, host)).await {
            Ok(result) => result,
            Err(_) => Err(took_too_long(
                &format!("{host} had not sent everything"),
                self.limits.total,
            )),
        }
    }

    async fn ask(&self, ask: &HttpRequest<'_>, host: &str) -> Result<Answer, FetchFailure> {
        let method = if ask.body.is_some() {
            Method::POST
        } else {
            Method::GET
        };
        let mut request = Request::new(method, ask.url.clone());
        *request.headers_mut() = headers(ask, &self.agent);
        *request.body_mut() = ask.body.map(|body| body.to_vec().into());
        let asked_at = self.clock.wall_time();
        let sent = self.wire.send(request, host, &self.limits);
        let response = match timeout(self.limits.headers, sent).await {
            Ok(response) => response?,
            Err(_) => {
                return Err(took_too_long(
                    &format!("{host} did not answer"),
                    self.limits.headers,
                ));
            }
        };
        let answered_at = self.clock.wall_time();
        if let Some(problem) = unexpected_status(response.status().as_u16(), ask) {
            return Err(FetchFailure::new(
                FailureKind::Answer,
                format!("{host} {problem}"),
            ));
        }
        let mut answer = Answer {
            status: response.status().as_u16(),
            etag: text(response.headers(), &header::ETAG, MAX_VALIDATOR),
            last_modified: text(response.headers(), &header::LAST_MODIFIED, MAX_VALIDATOR),
            content_type: text(response.headers(), &header::CONTENT_TYPE, MAX_VALIDATOR),
            max_age: text(response.headers(), &header::CACHE_CONTROL, MAX_VALIDATOR)
                .and_then(|value| max_age(&value)),
            retry_after: text(response.headers(), &header::RETRY_AFTER, MAX_VALIDATOR).and_then(
                |value| {
                    let date = text(response.headers(), &header::DATE, MAX_VALIDATOR)
                        .and_then(|date| http_date(&date));
                    retry_after(&value, date.unwrap_or(answered_at))
                },
            ),
            links: links(response.headers()),
            location: location(response.headers())?,
            body: Bytes::new(),
            is_cut: false,
            large_body_permit: None,
            asked_at,
            answered_at,
        };
        if response.status().is_success() {
            (answer.body, answer.is_cut) = self
                .read(response, ask, host, &mut answer.large_body_permit)
                .await?;
        } else {
            drain(response).await;
        }
        Ok(answer)
    }

    /// The body, decoded while it comes, and whether it was cut.
    async fn read(
        &self,
        mut response: Response,
        ask: &HttpRequest<'_>,
        host: &str,
        permit: &mut Option<Arc<OwnedSemaphorePermit>>,
    ) -> Result<(Bytes, bool), FetchFailure> {
        let encodings: Result<Vec<&str>, _> = response
            .headers()
            .get_all(header::CONTENT_ENCODING)
            .iter()
            .map(HeaderValue::to_str)
            .collect();
        let encodings = encodings.map_err(|_| {
            FetchFailure::new(
                FailureKind::Encoding,
                format!("{host} names a content encoding that cannot be read"),
            )
        })?;
        let mut decoder =
            Decoder::new(encodings, ask.max_body).map_err(|error| undecoded(&error, host))?;
        if ask.overflow == Overflow::Fail
            && decoder.is_identity()
            && response
                .content_length()
                .is_some_and(|length| length > ask.max_body)
        {
            return Err(undecoded(&DecodeError::TooLarge(ask.max_body), host));
        }
        let (mut n_read, mut n_pieces): (u64, u64) = (0, 0);
        loop {
            let chunk = match timeout(self.limits.idle, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return Err(failure(&error, host, &self.limits)),
                Err(_) => {
                    return Err(took_too_long(
                        &format!("{host} stopped in the middle of the body and sent nothing more"),
                        self.limits.idle,
                    ));
                }
            };
            n_read = n_read.saturating_add(chunk.len() as u64);
            n_pieces += 1;
            if n_pieces > MAX_CRUMBS && n_read < n_pieces * CRUMB {
                return Err(FetchFailure::new(
                    FailureKind::Protocol,
                    format!("{host} sends its body a few bytes at a time"),
                ));
            }
            let mut fed = Ok(());
            for slice in chunk.chunks(SLICE) {
                if permit.is_none() && decoder.n_decoded() > LARGE {
                    // The semaphore is never closed; if it were, the body would be read
                    // without a permit.
                    let free = Arc::clone(&self.large).acquire_owned().await;
                    *permit = free.ok().map(Arc::new);
                }
                fed = decoder.feed(slice);
                if fed.is_err() {
                    break;
                }
            }
            if fed.is_ok() && n_read > ask.max_body.saturating_add(ENCODING_OVERHEAD) {
                fed = Err(DecodeError::TooLarge(ask.max_body));
            }
            match fed {
                Ok(()) => {}
                Err(DecodeError::TooLarge(_)) if ask.overflow == Overflow::Cut => {
                    return Ok((compact(decoder.into_decoded()), true));
                }
                Err(error) => return Err(undecoded(&error, host)),
            }
        }
        match decoder.finish() {
            Ok(body) => Ok((compact(body), false)),
            Err(error) => Err(undecoded(&error, host)),
        }
    }
}

/// A body without the room that it grew in.
fn compact(mut body: Vec<u8>) -> Bytes {
    body.shrink_to_fit();
    Bytes::from(body)
}

fn user_agent(contact: Option<&str>) -> Result<HeaderValue, Error> {
    let name = concat!("springtide/", env!("CARGO_PKG_VERSION"));
    let agent = match contact.map(str::trim).filter(|contact| !contact.is_empty()) {
        Some(contact) => format!("{name} (+{contact})"),
        None => name.to_owned(),
    };
    let is_sendable = agent.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    match HeaderValue::from_str(&agent) {
        Ok(value) if is_sendable => Ok(value),
        _ => Err(Error::Contact(contact.unwrap_or_default().to_owned())),
    }
}

fn headers(ask: &HttpRequest<'_>, agent: &HeaderValue) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::USER_AGENT, agent.clone());
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static(ACCEPT_ENCODING),
    );
    let validators = [
        (header::IF_NONE_MATCH, ask.etag),
        (header::IF_MODIFIED_SINCE, ask.last_modified),
    ];
    for (name, value) in validators {
        if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
            headers.insert(name, value);
        }
    }
    for (name, value) in ask.headers {
        if let (Ok(name), Ok(mut value)) = (
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_str(value),
        ) {
            // It may be a key: not to be seen in anything that is printed.
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    headers
}

/// What is wrong with a status that nothing in the request called for.
fn unexpected_status(status: u16, ask: &HttpRequest<'_>) -> Option<&'static str> {
    match status {
        101 => Some("wants to switch to another protocol"),
        206 => Some("sent a part of the body, and all of it was requested"),
        304 if ask.etag.is_none() && ask.last_modified.is_none() => {
            Some("answered 304 to a request without validators")
        }
        _ => None,
    }
}

/// A header that is readable and not too long.
fn text(headers: &HeaderMap, name: &HeaderName, max: usize) -> Option<String> {
    let value = headers.get(name)?;
    let text = value.to_str().ok()?.trim();
    (!text.is_empty() && text.len() <= max).then(|| text.to_owned())
}

/// Link headers that are kept.
const MOST_LINKS: usize = 8;
/// The longest of them, in bytes.
const MAX_LINK: usize = 4096;

fn links(headers: &HeaderMap) -> Vec<String> {
    let all = headers.get_all(header::LINK).iter();
    let all = all.filter_map(|value| value.to_str().ok());
    let short = all.filter(|value| value.len() <= MAX_LINK);
    short.take(MOST_LINKS).map(str::to_owned).collect()
}

/// Where a redirect leads. Bytes that are no text are escaped, as browsers do.
fn location(headers: &HeaderMap) -> Result<Option<String>, FetchFailure> {
    let Some(value) = headers.get(header::LOCATION) else {
        return Ok(None);
    };
    if value.len() > MAX_URL {
        return Err(FetchFailure::new(
            FailureKind::Url,
            format!(
                "redirected to an address of {} bytes; at most {MAX_URL} can be fetched",
                value.len()
            ),
        ));
    }
    let text = match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(_) => value
            .as_bytes()
            .iter()
            .map(|&byte| {
                if byte.is_ascii() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            })
            .collect(),
    };
    Ok(Some(text))
}

/// Reads a short body that nobody wants.
async fn drain(mut response: Response) {
    let mut left = MAX_DRAINED;
    if response
        .content_length()
        .is_some_and(|length| length > left as u64)
    {
        return;
    }
    // Whatever happens, the answer is known; at worst the connection is closed.
    let _ = timeout(DRAINED_WITHIN, async {
        while let Ok(Some(chunk)) = response.chunk().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                break;
            }
        }
    })
    .await;
}

/// The `max-age` of a Cache-Control, unless what it is of is not to be kept at all.
pub(crate) fn max_age(value: &str) -> Option<Duration> {
    let mut seconds = None;
    for directive in value.split(',') {
        let directive = directive.trim().to_ascii_lowercase();
        if matches!(directive.as_str(), "no-cache" | "no-store") {
            return None;
        }
        if let Some(number) = directive.strip_prefix("max-age=") {
            seconds = number.trim_matches('"').parse().ok();
        }
    }
    seconds.map(Duration::from_secs)
}

/// How long a server wants to be left alone: a number of seconds, or a date, which is
/// compared with the server's own clock if it says what that shows.
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Too many digits for a number are too many seconds in any case.
        let seconds = value.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    }
    let until = http_date(value)?;
    Some(
        until
            .duration_since(now)
            .unwrap_or_default()
            .min(MAX_RETRY_AFTER),
    )
}

/// A date as HTTP writes it, in any of the three formats.
pub fn http_date(value: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(value.trim()).ok()
}

pub(super) fn took_too_long(what: &str, span: Duration) -> FetchFailure {
    let seconds = (span.as_secs_f64() * 10.0).round() / 10.0;
    FetchFailure::new(FailureKind::Timeout, format!("{what} within {seconds} s"))
}

fn undecoded(error: &DecodeError, host: &str) -> FetchFailure {
    let kind = match error {
        DecodeError::TooLarge(_) => FailureKind::TooLarge,
        DecodeError::Unknown(_)
        | DecodeError::Stacked
        | DecodeError::Corrupt(_)
        | DecodeError::Truncated(_) => FailureKind::Encoding,
    };
    FetchFailure::new(kind, format!("{host}: {error}"))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::settings::AllowPrivate;

    /// A certificate for `localhost`, signed by itself, and its key, which protects
    /// nothing.
    const CERTIFICATE: &[u8] = include_bytes!("../../tests/localhost/certificate.der");
    const KEY: &[u8] = include_bytes!("../../tests/localhost/key.der");

    /// A server at `localhost` that speaks HTTP/2 only; a client that trusts it; and its
    /// address.
    async fn secure() -> (Client, Url) {
        let certificate = CertificateDer::from(CERTIFICATE);
        let key = PrivateKeyDer::try_from(KEY).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        // A client that breaks off is what some of the tests are about.
                        let _ = serve_h2(stream).await;
                    }
                });
            }
        });
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).unwrap();
        let wire = Wire::trusting(roots, &settings()).unwrap();
        let client = Client::over(wire, &settings(), Clock::system()).unwrap();
        let url = Url::parse(&format!("https://localhost:{port}/")).unwrap();
        (client, url)
    }

    fn settings() -> HttpSettings {
        HttpSettings {
            contact: None,
            timeout: Duration::from_secs(10),
            max_body: 1_000_000,
            allow_private: AllowPrivate::All,
        }
    }

    async fn serve_h2(
        stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>,
    ) -> Result<(), h2::Error> {
        let mut connection = h2::server::handshake(stream).await?;
        while let Some(request) = connection.accept().await {
            let (request, mut respond) = request?;
            let mut response = reqwest::header::HeaderMap::new();
            let path = request.uri().path().to_owned();
            if path == "/headers" {
                for n in 0..100 {
                    let name = HeaderName::try_from(format!("x-{n}")).unwrap();
                    response.insert(name, HeaderValue::from_str(&"y".repeat(5_000)).unwrap());
                }
            }
            let mut answer = http::Response::new(());
            *answer.headers_mut() = response;
            let mut body = respond.send_response(answer, false)?;
            match path.as_str() {
                "/reset" => body.send_reset(h2::Reason::INTERNAL_ERROR),
                "/endless" => {
                    tokio::spawn(async move {
                        loop {
                            body.reserve_capacity(10_000);
                            let has_room =
                                std::future::poll_fn(|context| body.poll_capacity(context)).await;
                            let Some(Ok(room)) = has_room else { return };
                            if body.send_data(vec![b'x'; room].into(), false).is_err() {
                                return;
                            }
                        }
                    });
                }
                _ => body.send_data(Bytes::from_static(b"hello"), true)?,
            }
        }
        Ok(())
    }

    async fn ask(client: &Client, url: &Url, path: &str) -> Result<Answer, FetchFailure> {
        let url = url.join(path).unwrap();
        client.hop(&HttpRequest::new(&url, 1_000_000)).await
    }

    #[tokio::test]
    async fn connections_that_are_not_kept_are_closed() {
        let origin = crate::origin::Origin::start(Default::default()).unwrap();
        let url = Url::parse(&origin.url("/")).unwrap();
        let mut client = Client::new(&settings()).unwrap();
        client.wire = client.wire.closing_all();
        for _ in 0..3 {
            assert_eq!(ask(&client, &url, "/").await.unwrap().status, 200);
        }
        assert_eq!(origin.n_connections(), 3);
    }

    #[tokio::test]
    async fn http_2_is_spoken_over_a_secure_connection() {
        let (client, url) = secure().await;
        let answer = ask(&client, &url, "/").await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (200, &b"hello"[..]));
    }

    #[tokio::test]
    async fn a_certificate_of_nobody_we_trust_is_a_failure_of_tls() {
        let (_, url) = secure().await;
        let client = Client::new(&settings()).unwrap();
        let failure = ask(&client, &url, "/").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Tls, "{failure}");
    }

    #[tokio::test]
    async fn a_certificate_for_another_name_is_a_failure_of_tls() {
        let (client, mut url) = secure().await;
        url.set_host(Some("127.0.0.1")).unwrap();
        let failure = ask(&client, &url, "/").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Tls, "{failure}");
    }

    #[tokio::test]
    async fn bad_answers_over_http_2_are_failures_too() {
        let (client, url) = secure().await;
        for (path, kind) in [
            ("/headers", FailureKind::Protocol),
            ("/reset", FailureKind::Reset),
            ("/endless", FailureKind::TooLarge),
        ] {
            let failure = ask(&client, &url, path).await.unwrap_err();
            assert_eq!(failure.kind, kind, "{path}: {failure}");
        }
        assert!(ask(&client, &url, "/").await.is_ok());
    }
}
