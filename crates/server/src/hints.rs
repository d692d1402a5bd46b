//! Hints from outside that come in the ways of others: IndexNow.
//!
//! They are evidence, which counts for what it has been worth; none is a poll by itself.

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde_json::Value;

use crate::api::object;
use crate::api::settings::take_hints;
use crate::app::Shared;
use crate::door::Payload;
use crate::params::Params;
use crate::problem::Problem;

/// A key is of so many characters, by the protocol.
const KEY: std::ops::RangeInclusive<usize> = 8..=128;

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// That somebody may tell us what has changed: where there is a token, whoever knows it,
/// be it as the key.
fn check_key(app: &Shared, headers: &HeaderMap, key: Option<&str>) -> Result<(), Problem> {
    let is_key = |key: &str| {
        KEY.contains(&key.len())
            && key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if app.door.knows(headers) {
        return match key.is_none_or(is_key) {
            true => Ok(()),
            false => Err(Problem::new(StatusCode::FORBIDDEN, "that is no key")),
        };
    }
    match key {
        Some(key) if app.door.is_key(key) => Ok(()),
        Some(_) => Err(Problem::new(StatusCode::FORBIDDEN, "the key is not valid")),
        None => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "that takes a token, or the token as the key",
        )),
    }
}

/// `GET /indexnow`.
pub(crate) async fn indexnow_one(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &["url", "key", "keyLocation"])?;
    check_key(&app, request.headers(), params.get("key"))?;
    let Some(url) = params.get("url") else {
        return Err(Problem::bad_request("there is no `url`"));
    };
    if url::Url::parse(url).is_err() {
        return Err(Problem::unprocessable("`url` is no address"));
    }
    take_hints(&app, vec![url.to_owned()]).await?;
    Ok(empty(StatusCode::OK))
}

/// `POST /indexnow`.
pub(crate) async fn indexnow(
    State(app): State<Shared>,
    headers: HeaderMap,
    Extension(payload): Extension<Payload>,
) -> Result<Response<Body>, Problem> {
    let sent = object(&headers, &payload);
    let key = sent.as_ref().ok().and_then(|sent| sent.get("key"));
    check_key(&app, &headers, key.and_then(Value::as_str))?;
    let sent = sent?;
    let host = sent.get("host").and_then(Value::as_str).unwrap_or_default();
    let urls = match sent.get("urlList") {
        Some(Value::Array(urls)) => urls,
        _ => return Err(Problem::bad_request("there is no list `urlList`")),
    };
    let mut told = Vec::with_capacity(urls.len().min(10_000));
    for url in urls.iter().take(10_000) {
        let text = url.as_str().unwrap_or_default();
        let url = url::Url::parse(text).ok();
        // By the protocol, who has the key of a host speaks for that host.
        let is_of_host = (url.as_ref().and_then(|url| url.host_str()))
            .is_some_and(|named| host.split(':').next() == Some(named));
        if !is_of_host {
            return Err(Problem::unprocessable("an address is not of `host`"));
        }
        told.push(text.to_owned());
    }
    take_hints(&app, told).await?;
    Ok(empty(StatusCode::OK))
}
