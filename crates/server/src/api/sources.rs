//! Sources: lists of them, and changes to the file that names them.

use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::{Map, Value};
use springtide_engine::view::{self, SourceView};

use super::{json, named, object};
use crate::app::Shared;
use crate::door::Payload;
use crate::params::{Page, Params};
use crate::problem::Problem;
use crate::project::FileChange;

/// Some sources, and where the list goes on.
pub(crate) async fn list(app: &Shared, params: &Params) -> Result<Page<SourceView>, Problem> {
    let after = params.get("after").map(str::to_owned);
    let limit = params.limit()?;
    app.read(move |app, store| {
        let current = app.current();
        let mut sources = view::sources(store, &current.settings, app.now())?;
        // By name, which all have; a number they have once they are in the store.
        sources.sort_by(|one, other| one.name.cmp(&other.name));
        if let Some(after) = after {
            sources.retain(|source| source.name > after);
        }
        let has_more = sources.len() > limit;
        sources.truncate(limit);
        let next = sources.last().filter(|_| has_more);
        let next = next.map(|source| source.name.clone());
        let trust = view::trust(store)?;
        let view = |source| SourceView::new(source, &current.settings, &trust);
        let items = sources.iter().map(view).collect();
        Ok(Page { items, next })
    })
    .await
}

/// `GET /api/v1/sources`.
pub(crate) async fn index(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &["limit", "after"])?;
    Ok(json(StatusCode::OK, &list(&app, &params).await?))
}

pub(crate) async fn one(app: &Shared, name: String) -> Result<SourceView, Problem> {
    app.read(move |app, store| {
        let current = app.current();
        let sources = view::sources(store, &current.settings, app.now())?;
        let source = named(&sources, &name)?;
        let trust = view::trust(store)?;
        Ok(SourceView::new(source, &current.settings, &trust))
    })
    .await
}

/// `GET /api/v1/sources/{name}`.
pub(crate) async fn show(
    State(app): State<Shared>,
    Path(name): Path<String>,
) -> Result<Response<Body>, Problem> {
    Ok(json(StatusCode::OK, &one(&app, name).await?))
}

/// Adds a source with these keys.
pub(crate) async fn add(
    app: &Shared,
    name: String,
    keys: Map<String, Value>,
) -> Result<SourceView, Problem> {
    let current = app.current();
    if (current.settings.sources.iter()).any(|source| source.name == name) {
        let conflict = Problem::new(StatusCode::CONFLICT, "there is a source of that name");
        return Err(conflict.hint("give it another, or change the one that is there"));
    }
    app.change(FileChange::AddSource(name.clone(), keys))
        .await?;
    one(app, name).await
}

/// `POST /api/v1/sources`.
pub(crate) async fn create(
    State(app): State<Shared>,
    headers: HeaderMap,
    Extension(payload): Extension<Payload>,
) -> Result<Response<Body>, Problem> {
    let mut keys = object(&headers, &payload)?;
    let Some(Value::String(name)) = keys.remove("name") else {
        return Err(Problem::unprocessable("there is no `name`")
            .hint("say what to call it, beside the keys of [source.NAME]"));
    };
    let source = add(&app, name, keys).await?;
    let mut response = json(StatusCode::CREATED, &source);
    let place = format!("/api/v1/sources/{}", path_segment(&source.name));
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(LOCATION, place);
    }
    Ok(response)
}

/// A name as part of a path.
pub(crate) fn path_segment(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(byte as char);
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn check_in_file(app: &Shared, name: &str) -> Result<(), Problem> {
    let current = app.current();
    match (current.settings.sources.iter()).any(|source| source.name == name) {
        true => Ok(()),
        false => Err(Problem::not_found("there is no such source in the file")
            .hint("/api/v1/sources lists them")),
    }
}

/// Changes keys of a source.
pub(crate) async fn change(
    app: &Shared,
    name: String,
    keys: Map<String, Value>,
) -> Result<SourceView, Problem> {
    check_in_file(app, &name)?;
    app.change(FileChange::ChangeSource(name.clone(), keys))
        .await?;
    one(app, name).await
}

/// `PATCH /api/v1/sources/{name}`.
pub(crate) async fn patch(
    State(app): State<Shared>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Extension(payload): Extension<Payload>,
) -> Result<Response<Body>, Problem> {
    let keys = object(&headers, &payload)?;
    Ok(json(StatusCode::OK, &change(&app, name, keys).await?))
}

/// Takes a source out of the file. What is kept of it stays, as when it is taken out by
/// hand.
pub(crate) async fn remove_from_file(app: &Shared, name: String) -> Result<(), Problem> {
    check_in_file(app, &name)?;
    app.change(FileChange::RemoveSource(name)).await
}

/// `DELETE /api/v1/sources/{name}`.
pub(crate) async fn remove(
    State(app): State<Shared>,
    Path(name): Path<String>,
) -> Result<Response<Body>, Problem> {
    remove_from_file(&app, name).await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
