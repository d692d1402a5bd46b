//! Who comes in: by which name we were called, from where, and with which token. Whatever
//! goes out has headers that keep browsers from running what is not ours.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE,
    HOST, HeaderName, LOCATION, ORIGIN, REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use axum::middleware::Next;
use axum::response::IntoResponse;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::Semaphore;
use url::Url;

use crate::app::Shared;
use crate::pages;
use crate::problem::Problem;
use crate::settings::ServerSettings;

/// The longest body of a request.
pub(crate) const LONGEST_BODY: usize = 1_000_000;
/// Bodies that are read at a time.
const MOST_BODIES: usize = 64;
/// Of these, for requests without the token: they cannot block the others.
const MOST_BODIES_UNAUTHENTICATED: usize = 16;
/// How long a body may take to come in.
const BODY_TIME: Duration = Duration::from_secs(20);
/// How long an answer may be worked on.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Sessions are forgotten after this: a month.
const SESSION: Duration = Duration::from_secs(30 * 24 * 3600);
/// Sessions at a time; the oldest beyond this are forgotten.
const MOST_SESSIONS: usize = 1000;
/// Delay after a wrong token.
const WRONG_TOKEN: Duration = Duration::from_millis(500);

/// Pages run our own script and nothing else, and load nothing from elsewhere.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'";

/// Who may come in.
pub(crate) struct Door {
    names: Vec<String>,
    public: Option<Url>,
    token: Option<hmac::Tag>,
    /// Of this process: tokens are compared by their digests, in constant time.
    key: hmac::Key,
    random: SystemRandom,
    cookie: String,
    sessions: Mutex<HashMap<String, Instant>>,
    bodies: Semaphore,
    bodies_unauthenticated: Semaphore,
}

/// The address that a request came in by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalAddr(pub(crate) SocketAddr);

/// Marks a page, which says itself what is wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HtmlPage;

/// The body of a request, whole.
#[derive(Debug, Clone)]
pub(crate) struct Payload(pub(crate) Bytes);

impl Door {
    pub(crate) fn new(settings: &ServerSettings) -> Self {
        let random = SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random)
            // Without any random numbers the system is not fit for anything.
            .unwrap_or_else(|_| {
                hmac::Key::new(hmac::HMAC_SHA256, &std::process::id().to_le_bytes())
            });
        let mut names: Vec<String> = settings.hosts.iter().map(|h| plain_host(h)).collect();
        names.extend(
            settings
                .public
                .as_ref()
                .and_then(Url::host_str)
                .map(plain_host),
        );
        Self {
            names,
            public: settings.public.clone(),
            token: (settings.token.as_ref()).map(|token| hmac::sign(&key, token.as_bytes())),
            key,
            random,
            cookie: format!("springtide_{}", settings.listen.port()),
            sessions: Mutex::default(),
            bodies: Semaphore::new(MOST_BODIES),
            bodies_unauthenticated: Semaphore::new(MOST_BODIES_UNAUTHENTICATED),
        }
    }

    /// Whether a token is asked for at all.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether this is the token.
    pub(crate) async fn is_token(&self, given: &str) -> bool {
        let is_right = self.matches(given);
        if !is_right {
            tokio::time::sleep(WRONG_TOKEN).await;
        }
        is_right
    }

    /// Whether this is the token, for those who cannot send it as one.
    pub(crate) fn is_key(&self, given: &str) -> bool {
        self.matches(given)
    }

    fn matches(&self, given: &str) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        hmac::verify(&self.key, given.as_bytes(), token.as_ref()).is_ok()
    }

    /// A cookie for someone who has signed in.
    pub(crate) fn sign_in(&self) -> Result<String, Problem> {
        let mut bytes = [0; 32];
        self.random.fill(&mut bytes).map_err(|_| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "the system has no random numbers")
        })?;
        let value = hex(&bytes);
        let now = Instant::now();
        let mut sessions = self.sessions();
        sessions.retain(|_, since| now.duration_since(*since) < SESSION);
        if sessions.len() >= MOST_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, since)| **since);
            if let Some(oldest) = oldest.map(|(value, _)| value.clone()) {
                sessions.remove(&oldest);
            }
        }
        sessions.insert(value.clone(), now);
        Ok(self.cookie(&value, SESSION.as_secs()))
    }

    /// A number that nobody has had before.
    pub(crate) fn random_id(&self) -> String {
        let mut bytes = [0; 16];
        // Without random numbers there would be no key either.
        let _ = self.random.fill(&mut bytes);
        hex(&bytes)
    }

    /// Ends the session of a request, and gives the cookie that says so.
    pub(crate) fn sign_out(&self, headers: &HeaderMap) -> String {
        if let Some(value) = self.session(headers) {
            self.sessions().remove(&value);
        }
        self.cookie("", 0)
    }

    fn cookie(&self, value: &str, seconds: u64) -> String {
        let is_secure = (self.public.as_ref()).is_some_and(|public| public.scheme() == "https");
        let secure = if is_secure { "; Secure" } else { "" };
        let name = &self.cookie;
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
    }

    fn session(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';'));
        let value = pairs.find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then(|| value.to_owned())
        });
        value.filter(|value| value.len() == 64)
    }

    /// Whether a request is from someone who may do everything.
    pub(crate) fn is_authorized(&self, headers: &HeaderMap) -> bool {
        if self.token.is_none() {
            return true;
        }
        if let Some(authorization) = headers.get(AUTHORIZATION) {
            let given = authorization.to_str().unwrap_or_default();
            let token = given.split_once(' ').filter(|(scheme, _)| {
                // The name of a scheme is read either way.
                scheme.eq_ignore_ascii_case("bearer")
            });
            return token.is_some_and(|(_, token)| self.matches(token.trim()));
        }
        // A session is a random number of ours: to guess at one by how long a look into a
        // table takes is to guess at its hash.
        self.session(headers).is_some_and(|value| {
            let since = self.sessions().get(&value).copied();
            since.is_some_and(|since| since.elapsed() < SESSION)
        })
    }

    /// Whether we may be called so: else someone has had a browser take us for another.
    fn is_our_name(&self, host: &str, local: Option<IpAddr>) -> bool {
        let host = plain_host(host);
        if host == "localhost" || host.ends_with(".localhost") {
            return true;
        }
        if let Ok(address) = host.parse::<IpAddr>() {
            let address = address.to_canonical();
            let is_here = local.is_some_and(|here| here.to_canonical() == address);
            if address.is_loopback() || is_here {
                return true;
            }
        }
        self.names.contains(&host)
    }

    fn check_name(&self, request: &Request) -> Result<String, Problem> {
        let refuse = |detail: &str| Problem::new(StatusCode::MISDIRECTED_REQUEST, detail);
        let local = request.extensions().get::<LocalAddr>();
        let local = local.map(|address| address.0.ip());
        let mut hosts = request.headers().get_all(HOST).iter();
        let (named, more) = (hosts.next(), hosts.next());
        let named = named
            .and_then(|host| host.to_str().ok())
            .unwrap_or_default();
        let target = request
            .uri()
            .authority()
            .map(|authority| authority.as_str());
        if more.is_some() || named.is_empty() {
            return Err(refuse("exactly one Host header is expected"));
        }
        for name in [Some(named), target].into_iter().flatten() {
            if !self.is_our_name(host_of(name), local) {
                return Err(refuse("this server is not known by that host name")
                    .hint("add it to `hosts` under [server] in springtide.toml"));
            }
        }
        Ok(named.to_ascii_lowercase())
    }

    /// A write from a browser is one from a page of ours.
    fn check_origin(&self, request: &Request, host: &str) -> Result<(), Problem> {
        if matches!(
            *request.method(),
            Method::GET | Method::HEAD | Method::OPTIONS
        ) {
            return Ok(());
        }
        let refuse = || {
            Problem::new(
                StatusCode::FORBIDDEN,
                "a write from a page of another origin is refused",
            )
            .hint("leave out the Origin header; only browsers need it")
        };
        let fetched = request.headers().get("sec-fetch-site");
        if fetched.is_some_and(|site| !matches!(site.as_bytes(), b"same-origin" | b"none")) {
            return Err(refuse());
        }
        for origin in request.headers().get_all(ORIGIN) {
            let origin = origin.to_str().ok().and_then(|text| Url::parse(text).ok());
            let origin = origin.ok_or_else(refuse)?;
            let is_public =
                (self.public.as_ref()).is_some_and(|public| public.origin() == origin.origin());
            let is_here = Url::parse(&format!("{}://{host}", origin.scheme()))
                .is_ok_and(|here| here.origin() == origin.origin() && origin.origin().is_tuple());
            if !is_here && !is_public {
                return Err(refuse());
            }
        }
        Ok(())
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, HashMap<String, Instant>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A host without its port and brackets, in small letters.
fn plain_host(host: &str) -> String {
    let host = host.trim().trim_end_matches('.').to_ascii_lowercase();
    let inner = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inner.map_or_else(|| host.clone(), str::to_owned)
}

/// The host of `name:port`, `[address]:port` or either without a port.
fn host_of(authority: &str) -> &str {
    let authority = authority.rsplit('@').next().unwrap_or_default();
    match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What everything that comes in passes.
pub(crate) async fn pass(
    State(app): State<Shared>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let is_page = pages::is_page(request.uri().path());
    let is_head = request.method() == Method::HEAD;
    let passed = tokio::time::timeout(ANSWER_TIME, let_in(&app, request, next)).await;
    let mut response = match passed {
        Ok(Ok(response)) => response,
        Ok(Err(problem)) => problem.into_response(),
        Err(_) => Problem::unavailable("that took too long").into_response(),
    };
    let problem = response.extensions().get::<Problem>().cloned();
    if let Some(problem) = problem {
        if is_page {
            let has_challenge = response.headers().get(WWW_AUTHENTICATE).cloned();
            response = pages::problem(&app, &problem);
            if let Some(challenge) = has_challenge {
                response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            }
        }
    } else if response.extensions().get::<HtmlPage>().is_none()
        && (response.status().is_client_error() || response.status().is_server_error())
    {
        // What was said by others than us: a path that cannot be read, a method that is
        // not there.
        let allow = response.headers().get("allow").cloned();
        let status = response.status();
        let detail = match status {
            StatusCode::METHOD_NOT_ALLOWED => "this method is not allowed here",
            _ => "the request cannot be read",
        };
        response = Problem::new(status, detail).into_response();
        if let Some(allow) = allow {
            response.headers_mut().insert("allow", allow);
        }
    }
    add_headers(response.headers_mut());
    if is_head {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn let_in(app: &Shared, request: Request, next: Next) -> Result<Response<Body>, Problem> {
    let door = &app.door;
    let host = door.check_name(&request)?;
    door.check_origin(&request, &host)?;
    let path = request.uri().path();
    let is_authorized = door.is_authorized(request.headers());
    if !is_authorized && !is_open(path) {
        if pages::is_page(path) && matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(pages::to_sign_in(request.uri()));
        }
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "a token is needed")
            .hint("send `Authorization: Bearer …` with the token of [server] in springtide.toml");
        let mut response = problem.into_response();
        let challenge = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        return Ok(response);
    }
    let request = match *request.method() {
        Method::GET | Method::HEAD => {
            let (mut parts, _) = request.into_parts();
            parts.extensions.insert(Payload(Bytes::new()));
            Request::from_parts(parts, Body::empty())
        }
        _ => read_whole(door, request).await?,
    };
    Ok(next.run(request).await)
}

/// What needs no token: what watches us, what signs in, what signs by itself, and what
/// pages are made of.
fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/metrics" | "/signin")
        || path.starts_with("/assets/")
        || path.starts_with("/websub/")
        || path.starts_with("/indexnow")
}

/// Reads the body of a request before anything is done with it, so that nobody works on
/// half of one.
async fn read_whole(door: &Door, request: Request) -> Result<Request, Problem> {
    let too_large = || {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is longer than 1 MB",
        )
    };
    let length = request.headers().get(CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > LONGEST_BODY as u64) {
        return Err(too_large());
    }
    let places = match is_open(request.uri().path()) {
        true => &door.bodies_unauthenticated,
        false => &door.bodies,
    };
    let (mut parts, body) = request.into_parts();
    let busy = || Problem::unavailable("too many requests at a time").hint("try again");
    let reading = async {
        let _permit = places.acquire().await.map_err(|_| busy())?;
        let limited = http_body_util::Limited::new(body, LONGEST_BODY);
        let whole = http_body_util::BodyExt::collect(limited).await;
        whole.map_err(
            |error| match error.is::<http_body_util::LengthLimitError>() {
                true => too_large(),
                false => Problem::bad_request("the body cannot be read"),
            },
        )
    };
    let slow = || Problem::new(StatusCode::REQUEST_TIMEOUT, "the body came too slowly");
    let whole = tokio::time::timeout(BODY_TIME, reading).await;
    let bytes = whole.map_err(|_| slow())??.to_bytes();
    parts.extensions.insert(Payload(bytes));
    Ok(Request::from_parts(parts, Body::empty()))
}

fn add_headers(headers: &mut HeaderMap) {
    let mut add = |name: HeaderName, value: &'static str| {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    };
    add(CONTENT_SECURITY_POLICY, PAGE_POLICY);
    add(X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Others are told nothing. With `no-referrer` browsers would not even tell us that a form
    // is one of ours: its Origin would be `null`.
    add(REFERRER_POLICY, "same-origin");
    add(CACHE_CONTROL, "no-store");
    add(HeaderName::from_static("x-frame-options"), "DENY");
    add(
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    add(
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
}

/// Sends a browser on, after something was done.
pub(crate) fn see_other(location: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// An answer of this type.
pub(crate) fn answer(content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// The fields of a form.
pub(crate) fn form(payload: &Payload) -> HashMap<String, String> {
    url::form_urlencoded::parse(&payload.0)
        .into_owned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_ports() {
        for (authority, host) in [
            ("example.org", "example.org"),
            ("Example.org:80", "Example.org"),
            ("[::1]:7180", "[::1]"),
            ("[::1]", "[::1]"),
            ("user@example.org:1", "example.org"),
        ] {
            assert_eq!(host_of(authority), host);
        }
        assert_eq!(plain_host("[::1]"), "::1");
        assert_eq!(plain_host("LOCALHOST."), "localhost");
    }

    #[test]
    fn only_our_names_are_ours() {
        let door = Door::new(&ServerSettings {
            listen: "127.0.0.1:7180".parse().unwrap(),
            token: Some("secret".into()),
            public: Url::parse("https://fresh.example.org").ok(),
            hosts: vec!["copy.example.org".into()],
        });
        let here = Some("10.0.0.7".parse().unwrap());
        for name in [
            "localhost",
            "127.0.0.1",
            "127.9.9.9",
            "[::1]",
            "10.0.0.7",
            "fresh.example.org",
            "COPY.example.org",
        ] {
            assert!(door.is_our_name(name, here), "{name}");
        }
        for name in [
            "evil.example",
            "10.0.0.8",
            "localhost.evil.example",
            "",
            "127.0.0.1.nip.io",
        ] {
            assert!(!door.is_our_name(name, here), "{name}");
        }
        assert!(door.matches("secret") && !door.matches("secre") && !door.matches(""));
    }
}
