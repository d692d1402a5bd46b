//! Hints by IndexNow.
//!
//! A hint is evidence, weighed by how reliable hints have been; it is no poll by itself.
//! Whoever has our token may send any. Others prove that a site is theirs by a key in a file
//! on it, which is fetched and compared first, only for sites that we keep something of. The
//! result is remembered for a while, so that nobody can have us fetch it again and again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde_json::Value;
use springtide_engine::fetch::{Client, HttpRequest, Overflow};
use springtide_engine::settings::HttpSettings;
use tokio::sync::Semaphore;
use url::Url;

use crate::api::object;
use crate::api::settings::take_hints;
use crate::app::Shared;
use crate::door::Payload;
use crate::params::Params;
use crate::problem::Problem;

/// Characters of a key, by the protocol.
const KEY: std::ops::RangeInclusive<usize> = 8..=128;
/// What of a key file is read: the key, and some line ends.
const MOST_READ: u64 = 1000;
/// How long a site may take for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// A key that was found in its file is believed for this long.
const GOOD_FOR: Duration = Duration::from_secs(3600);
/// A file that did not hold a key is not fetched again for this long.
const BAD_FOR: Duration = Duration::from_secs(60);
/// Keys that are remembered.
const MOST_KEYS: usize = 1000;
/// Key files that are fetched at a time.
const MOST_AT_ONCE: usize = 4;
/// Addresses in one request, by the protocol.
const MOST_URLS: usize = 10_000;

/// Keys that were compared with their files, by where those are.
pub(crate) struct KeyFiles {
    known: Mutex<HashMap<(String, String), (Instant, bool)>>,
    fetches: Semaphore,
}

impl Default for KeyFiles {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            fetches: Semaphore::new(MOST_AT_ONCE),
        }
    }
}

impl KeyFiles {
    /// Whether the file at an address holds this key.
    async fn holds(&self, file: &Url, key: &str, http: &HttpSettings) -> Result<bool, Problem> {
        let place = (file.to_string(), key.to_owned());
        if let Some((at, is_good)) = self.known().get(&place).copied() {
            let lasts = if is_good { GOOD_FOR } else { BAD_FOR };
            if at.elapsed() < lasts {
                return Ok(is_good);
            }
        }
        let busy = |_| Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many keys at a time");
        let _permit = self.fetches.try_acquire().map_err(busy)?;
        let is_good = fetch_key(file, key, http).await;
        let mut known = self.known();
        known.retain(|_, (at, _)| at.elapsed() < GOOD_FOR);
        if known.len() < MOST_KEYS {
            known.insert(place, (Instant::now(), is_good));
        }
        Ok(is_good)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(String, String), (Instant, bool)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn fetch_key(file: &Url, key: &str, http: &HttpSettings) -> bool {
    let http = HttpSettings {
        timeout: http.timeout.min(PATIENCE),
        ..http.clone()
    };
    let Ok(client) = Client::new(&http) else {
        return false;
    };
    let request = HttpRequest {
        overflow: Overflow::Cut,
        ..HttpRequest::new(file, MOST_READ)
    };
    match client.hop(&request).await {
        Ok(answer) if answer.status == 200 => answer.body.trim_ascii() == key.as_bytes(),
        _ => false,
    }
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// What somebody tells us by IndexNow.
struct Told {
    urls: Vec<Url>,
    key: Option<String>,
    key_location: Option<String>,
}

/// Takes it in, if whoever says so may.
async fn take(app: &Shared, headers: &HeaderMap, told: Told) -> Result<Response<Body>, Problem> {
    let has_token = app.door.has_token() && app.door.is_authorized(headers);
    let is_token = |key: &str| app.door.has_token() && app.door.is_key(key);
    let urls: Vec<String> = told.urls.iter().map(Url::to_string).collect();
    let Some(key) = told.key else {
        if !has_token {
            return Err(Problem::bad_request("there is no `key`"));
        }
        take_hints(app, urls, app.now()).await?;
        return Ok(empty(StatusCode::OK));
    };
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !KEY.contains(&key.len()) || !key.bytes().all(is_key) {
        return Err(Problem::new(StatusCode::FORBIDDEN, "not a valid key"));
    }
    if has_token || is_token(&key) {
        take_hints(app, urls, app.now()).await?;
        return Ok(empty(StatusCode::OK));
    }
    let Some(first) = told.urls.first() else {
        return Ok(empty(StatusCode::OK));
    };
    let file = key_file(first, &key, told.key_location.as_deref())?;
    // A file in a folder speaks for that folder.
    let folder = file
        .join(".")
        .map_err(|_| Problem::unprocessable("`keyLocation`"))?;
    if !told
        .urls
        .iter()
        .all(|url| url.as_str().starts_with(folder.as_str()))
    {
        return Err(Problem::unprocessable(
            "the key does not cover this address",
        ));
    }
    // Nobody is asked for what we would not use.
    let Some(http) = known_http(app, urls.clone()).await? else {
        return Ok(empty(StatusCode::ACCEPTED));
    };
    if !app.keys.holds(&file, &key, &http).await? {
        let problem = Problem::new(StatusCode::FORBIDDEN, "the key file does not hold this key");
        return Err(problem.hint("IndexNow has the key in a text file of the same site"));
    }
    take_hints(app, urls, app.now()).await?;
    Ok(empty(StatusCode::OK))
}

/// Where the file of a key is.
fn key_file(url: &Url, key: &str, location: Option<&str>) -> Result<Url, Problem> {
    let refuse = || Problem::unprocessable("`keyLocation` is not on the same site");
    let file = match location {
        Some(location) => Url::parse(location).map_err(|_| refuse())?,
        None => url.join(&format!("/{key}.txt")).map_err(|_| refuse())?,
    };
    match file.origin() == url.origin() && file.origin().is_tuple() {
        true => Ok(file),
        false => Err(refuse()),
    }
}

/// How to ask the site of these addresses, if we keep something of them.
async fn known_http(app: &Shared, urls: Vec<String>) -> Result<Option<HttpSettings>, Problem> {
    app.read(move |app, store| {
        let current = app.current();
        let sources = store.sources()?;
        for url in urls {
            for kept in store.find_all(&url)? {
                let source = sources.iter().find(|s| s.id == kept.element.source);
                let mut settings = current.settings.sources.iter();
                let settings = settings.find(|s| Some(&s.name) == source.map(|s| &s.name));
                if let Some(settings) = settings.filter(|settings| !settings.is_paused) {
                    let mut http = current.settings.http.clone();
                    if let Some(allow) = &settings.allow_private {
                        http.allow_private = allow.clone();
                    }
                    return Ok(Some(http));
                }
            }
        }
        Ok(None)
    })
    .await
}

fn address(text: &str) -> Option<Url> {
    let mut url = Url::parse(text.trim()).ok()?;
    url.set_fragment(None);
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

/// `GET /indexnow`.
pub(crate) async fn indexnow_one(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &["url", "key", "keyLocation"])?;
    let Some(url) = params.get("url") else {
        return Err(Problem::bad_request("there is no `url`"));
    };
    let url = address(url).ok_or_else(|| Problem::unprocessable("`url` is not a valid address"))?;
    let told = Told {
        urls: vec![url],
        key: params.get("key").map(str::to_owned),
        key_location: params.get("keyLocation").map(str::to_owned),
    };
    take(&app, request.headers(), told).await
}

/// `POST /indexnow`.
pub(crate) async fn indexnow(
    State(app): State<Shared>,
    headers: HeaderMap,
    Extension(payload): Extension<Payload>,
) -> Result<Response<Body>, Problem> {
    let sent = object(&headers, &payload)?;
    let text = |name: &str| sent.get(name).and_then(Value::as_str);
    let host = text("host").unwrap_or_default().to_ascii_lowercase();
    let urls = match sent.get("urlList") {
        Some(Value::Array(urls)) if urls.len() <= MOST_URLS => urls,
        Some(Value::Array(_)) => {
            return Err(Problem::unprocessable(
                "there are more than 10000 addresses",
            ));
        }
        _ => return Err(Problem::bad_request("there is no list `urlList`")),
    };
    let mut told = Vec::with_capacity(urls.len());
    for url in urls {
        let url = address(url.as_str().unwrap_or_default());
        // By the protocol, who has the key of a host speaks for that host.
        let is_of_host = |url: &Url| {
            let named = url.host_str().unwrap_or_default();
            let port = url.port().map(|port| format!("{named}:{port}"));
            host == named || Some(&host) == port.as_ref()
        };
        match url.filter(is_of_host) {
            Some(url) => told.push(url),
            None => return Err(Problem::unprocessable("an address is not of `host`")),
        }
    }
    let told = Told {
        urls: told,
        key: text("key").map(str::to_owned),
        key_location: text("keyLocation").map(str::to_owned),
    };
    take(&app, &headers, told).await
}
