//! `/changes`: what was found, newest first; and one of them.

use askama::Template;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{Response, StatusCode};
use springtide_engine::view::{brief, seconds_between};
use springtide_store::Moment;

use super::html::{Html, diff};
use super::overview::found;
use super::{Frame, page};
use crate::api::atom::diff_of;
use crate::api::changes::{QUERY, list};
use crate::app::Shared;
use crate::feed::{NumberedChange, latest, numbered};
use crate::params::Params;
use crate::problem::Problem;

/// Changes on a page, where nobody says how many.
const PER_PAGE: &str = "40";

/// A change in a list.
pub(super) struct ChangeRow {
    pub(super) element: u32,
    pub(super) kind: &'static str,
    pub(super) locator: String,
    pub(super) source: String,
    pub(super) when: Html,
    pub(super) stale: Option<String>,
    pub(super) diff: Option<Html>,
}

impl ChangeRow {
    pub(super) fn new(change: &NumberedChange, now: Moment, text: Option<&str>) -> Self {
        let change = &change.change;
        let stale = change.previous_poll_at.zip(change.found_at);
        Self {
            element: change.element,
            kind: change.kind,
            locator: change.locator.clone(),
            source: change.source.clone(),
            when: found(change.found_at, now),
            stale: stale.map(|(before, found)| brief(seconds_between(before, found))),
            diff: text.map(diff),
        }
    }
}

#[derive(Template)]
#[template(path = "changes.html")]
struct ChangesPage {
    frame: Frame,
    sources: Vec<String>,
    chosen_source: String,
    since: String,
    feed_query: String,
    is_newest: bool,
    changes: Vec<ChangeRow>,
    nothing: &'static str,
    next: Option<String>,
}

/// `GET /changes`.
pub(super) async fn index(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let mut params = Params::of(request.uri(), &QUERY)?;
    params.set_default("limit", PER_PAGE);
    // Before the list is read: of those up to here, it has all that there are.
    let last = app.read(|_, store| latest(store)).await?;
    let found = list(&app, &params).await?;
    let now = app.now();
    let sources = source_names(&app).await?;
    let items = found.items;
    let last = items.first().map_or(last, |newest| newest.id.max(last));
    let changes = app
        .read(move |app, store| {
            Ok(items
                .iter()
                .map(|change| {
                    let diff = diff_of(app, store, change);
                    ChangeRow::new(change, now, diff.as_deref())
                })
                .collect())
        })
        .await?;
    let chosen_source = params.get("source").unwrap_or_default().to_owned();
    let of_source = |mark: char| match &*chosen_source {
        "" => String::new(),
        source => {
            let source = url::form_urlencoded::byte_serialize(source.as_bytes());
            format!("{mark}source={}", source.collect::<String>())
        }
    };
    let frame = Frame::new(&app, "Changes", "/changes");
    let is_newest = params.get("after").is_none() && params.get("since").is_none();
    let template = ChangesPage {
        frame: match is_newest {
            true => frame.live(last, &of_source('&')),
            false => frame,
        },
        sources,
        feed_query: of_source('?'),
        chosen_source,
        since: params.get("since").unwrap_or_default().to_owned(),
        is_newest,
        changes,
        nothing: match params.get("source").or_else(|| params.get("since")) {
            Some(_) => "No change was found that fits. Ask for more time, or for all sources.",
            None => "No change was found yet. They appear here as polls find them.",
        },
        next: found.next.map(|next| params.with("after", &next)),
    };
    Ok(page(StatusCode::OK, &template))
}

#[derive(Template)]
#[template(path = "change.html")]
struct ChangePage {
    frame: Frame,
    change: ChangeRow,
}

/// `GET /changes/{id}`: one change, with what changed. A script that shows changes as they
/// come takes that from here.
pub(super) async fn show(
    State(app): State<Shared>,
    Path(id): Path<String>,
) -> Result<Response<Body>, Problem> {
    let now = app.now();
    let found = app
        .read(move |app, store| {
            let before = id.parse::<i64>().ok();
            let before = before.and_then(|id| u64::try_from(id.checked_sub(1)?).ok());
            let mut changes = match before {
                Some(before) => store.changes_after(before, 1)?,
                None => Vec::new(),
            };
            changes.retain(|change| change.number.checked_sub(1) == before);
            let found = numbered(app, store, &changes)?;
            Ok(found.first().map(|change| {
                let diff = diff_of(app, store, change);
                ChangeRow::new(change, now, diff.as_deref())
            }))
        })
        .await?;
    let change = found
        .ok_or_else(|| Problem::not_found("there is no such change").hint("/changes lists them"))?;
    let template = ChangePage {
        frame: Frame::new(&app, "Change", "/changes"),
        change,
    };
    Ok(page(StatusCode::OK, &template))
}

/// The names of all sources.
pub(super) async fn source_names(app: &Shared) -> Result<Vec<String>, Problem> {
    let status = app.status().await?;
    Ok(status.sources.iter().map(|s| s.name.clone()).collect())
}
