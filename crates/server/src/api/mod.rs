//! What programs ask for, and the shapes that they are answered in: those of the command
//! line.

pub(crate) mod atom;
pub(crate) mod changes;
pub(crate) mod elements;
pub(crate) mod settings;
pub(crate) mod sources;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};
use springtide_store::Source;

use crate::app::Shared;
use crate::door::Payload;
use crate::params::Params;
use crate::problem::Problem;

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, document: &impl Serialize) -> Response<Body> {
    let text = serde_json::to_string(document).unwrap_or_default();
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// `GET /api/v1/status`.
pub(crate) async fn status(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    Params::of(request.uri(), &[])?;
    Ok(json(
        StatusCode::OK,
        &Arc::unwrap_or_clone(app.status().await?),
    ))
}

/// What was sent, as an object.
pub(crate) fn object(
    headers: &HeaderMap,
    payload: &Payload,
) -> Result<Map<String, Value>, Problem> {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if let Some(content_type) = content_type {
        let essence = content_type.split(|byte| *byte == b';').next();
        let essence = essence.unwrap_or_default().trim_ascii();
        if !essence.eq_ignore_ascii_case(b"application/json")
            && !essence.eq_ignore_ascii_case(b"application/merge-patch+json")
        {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Problem::new(status, "the body is to be application/json"));
        }
    }
    match serde_json::from_slice(&payload.0) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Problem::bad_request("the body is to be a JSON object")),
        Err(error) => Err(Problem::bad_request(format!(
            "the body cannot be read: {error}"
        ))),
    }
}

/// The source of this name.
pub(crate) fn named<'a>(sources: &'a [Source], name: &str) -> Result<&'a Source, Problem> {
    sources
        .iter()
        .find(|source| source.name == name)
        .ok_or_else(|| {
            Problem::not_found("there is no such source").hint("/api/v1/sources lists them")
        })
}
