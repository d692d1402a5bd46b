//! Changes found, newest first.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use springtide_engine::view;
use springtide_store::ChangeFilter;

use super::{json, named};
use crate::app::Shared;
use crate::feed::{NumberedChange, numbered};
use crate::params::{Page, Params, bad_token};
use crate::problem::Problem;

pub(crate) const QUERY: [&str; 4] = ["source", "since", "limit", "after"];

/// Some changes, and where the list goes on.
pub(crate) async fn list(app: &Shared, params: &Params) -> Result<Page<NumberedChange>, Problem> {
    let source = params.get("source").map(str::to_owned);
    let since = match params.get("since") {
        Some(text) => {
            let since = app.file.moment(text, app.now());
            Some(since.map_err(|why| Problem::bad_request(format!("`since`: {why}")))?)
        }
        None => None,
    };
    let before = match params.get("after") {
        // The store has no number above that of a signed one.
        Some(after) => {
            let after = after.parse::<i64>().map_err(|_| bad_token())?;
            Some(u64::try_from(after).map_err(|_| bad_token())?)
        }
        None => None,
    };
    let limit = params.limit()?;
    app.read(move |app, store| {
        let source = match source {
            Some(name) => {
                let sources = view::sources(store, &app.current().settings, app.now())?;
                Some(named(&sources, &name)?.id)
            }
            None => None,
        };
        let filter = ChangeFilter {
            source,
            element: None,
            since,
        };
        let mut changes = store.changes(&filter, before, limit + 1)?;
        let has_more = changes.len() > limit;
        changes.truncate(limit);
        let next = changes.last().filter(|_| has_more);
        let next = next.map(|change| change.number.to_string());
        let items = numbered(app, store, &changes)?;
        Ok(Page { items, next })
    })
    .await
}

/// `GET /api/v1/changes`.
pub(crate) async fn index(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &QUERY)?;
    Ok(json(StatusCode::OK, &list(&app, &params).await?))
}
