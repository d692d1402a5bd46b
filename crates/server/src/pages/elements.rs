//! `/elements`, and one of them.

use askama::Template;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{Response, StatusCode};
use springtide_engine::view::{self, rfc3339};
use springtide_store::Moment;

use super::changes::source_names;
use super::html::{Format, Html, diff, side_by_side, still, timeline, when};
use super::{Frame, page};
use crate::api::elements::{self as api, ElementQuery};
use crate::api::sources::path_segment;
use crate::app::Shared;
use crate::door::see_other;
use crate::params::Params;
use crate::problem::Problem;

const STATES: [&str; 5] = ["new", "ok", "failing", "blocked", "gone"];
/// What elements can be sorted by, and what that is called.
const SORTS: [(&str, &str); 8] = [
    ("", "id"),
    ("due_at", "next poll"),
    ("-polled_at", "last poll"),
    ("-changed_at", "last change"),
    ("-rate_per_day", "changes a day"),
    ("-frequency_per_day", "polls a day"),
    ("freshness", "stalest first"),
    ("locator", "locator"),
];

#[derive(Template)]
#[template(path = "elements.html")]
struct ElementsPage {
    frame: Frame,
    part: String,
    sources: Vec<String>,
    chosen_source: String,
    states: &'static [&'static str],
    chosen_state: String,
    sorts: &'static [(&'static str, &'static str)],
    chosen_sort: String,
    rows: Vec<Row>,
    nothing: &'static str,
    next: Option<String>,
}

struct Row {
    id: u32,
    locator: String,
    state: &'static str,
    polled: Html,
    next: Html,
    rate: Html,
    frequency: Html,
    fresh: String,
    source: String,
    source_path: String,
}

/// `GET /elements`.
pub(super) async fn index(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &api::QUERY)?;
    let found = api::list(&app, ElementQuery::of(&params)?).await?;
    let now = app.now();
    let rows = (found.items.into_iter())
        .map(|element| Row {
            id: element.id,
            state: element.state,
            polled: when(element.polled_at, now, "–"),
            next: when(element.due_at, now, "–"),
            rate: still(
                "rate_per_day.estimate",
                element.rate_per_day.map(|rate| rate.estimate),
                Format::PerDay,
                "?",
            ),
            frequency: still(
                "frequency_per_day",
                element.frequency_per_day,
                Format::PerDay,
                "?",
            ),
            fresh: believed(element.freshness, "?"),
            source_path: path_segment(&element.source),
            source: element.source,
            locator: element.locator,
        })
        .collect();
    let chosen = |name| params.get(name).unwrap_or_default().to_owned();
    let is_filtered = ["q", "source", "state"]
        .iter()
        .any(|name| params.get(name).is_some());
    let template = ElementsPage {
        frame: Frame::new(&app, "Elements", "/elements"),
        part: chosen("q"),
        sources: source_names(&app).await?,
        chosen_source: chosen("source"),
        states: &STATES,
        chosen_state: chosen("state"),
        sorts: &SORTS,
        chosen_sort: chosen("sort"),
        rows,
        nothing: match is_filtered {
            true => "No element fits. Ask for another part of a locator, state or source.",
            false => "There are no elements yet. Add a source, and the first polls find them.",
        },
        next: found.next.map(|next| params.with("after", &next)),
    };
    Ok(page(StatusCode::OK, &template))
}

/// How likely an element is fresh. It goes on while one looks, and is no value of the API, so
/// it has no name.
fn believed(freshness: Option<f64>, none: &str) -> String {
    freshness.map_or_else(|| none.to_owned(), view::percent)
}

#[derive(Template)]
#[template(path = "element.html")]
struct ElementPage {
    frame: Frame,
    id: u32,
    source: String,
    source_path: String,
    locator: String,
    is_asked: bool,
    state: &'static str,
    reason: String,
    error: Option<String>,
    rate: Html,
    frequency: Html,
    fresh: String,
    polled: Html,
    next: Html,
    changed: Html,
    weight: f64,
    group: String,
    n_polls: Html,
    n_changes: Html,
    timeline: Html,
    polls: Vec<PollRow>,
    versions: Vec<VersionRow>,
    from: u64,
    to: u64,
    is_side: bool,
    diff: Html,
}

struct PollRow {
    when: Html,
    outcome: &'static str,
    error: Option<&'static str>,
    purpose: &'static str,
    status: String,
}

struct VersionRow {
    n: u64,
    at: String,
    size: String,
}

/// `GET /elements/{id}`.
pub(super) async fn show(
    State(app): State<Shared>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &["from", "to", "view", "asked"])?;
    let id = api::number(&id)?;
    let detail = api::detail(&app, id).await?;
    let now = app.now();
    let n_versions = detail.versions.len();
    let (from, to) = match detail.versions.first().zip(detail.versions.last()) {
        None => (0, 0),
        Some((first, last)) => {
            let numbers = Some(first.n..=last.n);
            api::which(params.get("from"), params.get("to"), numbers)?
        }
    };
    let text = match from == to {
        true => Some(String::new()),
        false => {
            let compared = app.read(move |app, store| {
                let versions = api::versions(app, store, id)?;
                Ok(versions.diff(from, to, &app.folder.bodies()?)?)
            });
            compared.await.ok()
        }
    };
    let is_side = params.get("view") == Some("side");
    let diff = match &text {
        None => Html::from("One of the two is no longer kept."),
        Some(_) if n_versions < 2 => Html::from("There is only one version so far."),
        Some(text) if is_side => side_by_side(text),
        Some(text) => diff(text),
    };
    let element = detail.element;
    let rate = element.rate_per_day;
    let rate = match rate {
        Some(known) => Html::joined(&[
            still(
                "rate_per_day.estimate",
                Some(known.estimate),
                Format::PerDay,
                "",
            ),
            " (".into(),
            still("rate_per_day.low", Some(known.low), Format::PerDay, ""),
            " to ".into(),
            still("rate_per_day.high", Some(known.high), Format::PerDay, ""),
            ", 90 %)".into(),
        ]),
        None => still("rate_per_day", None, Format::PerDay, "not known yet"),
    };
    let count = |name: &str, n: u32| still(name, Some(f64::from(n)), Format::Count, "");
    let marks: Vec<(Moment, &str)> = (detail.polls.iter())
        .filter_map(|poll| Some((poll.at?, poll.outcome)))
        .collect();
    let template = ElementPage {
        frame: Frame::new(&app, element.locator.clone(), "/elements"),
        id: element.id,
        source_path: path_segment(&element.source),
        is_asked: params.get("asked").is_some(),
        state: element.state,
        reason: element.reason.as_deref().unwrap_or_default().to_owned(),
        error: (element.error.as_ref()).map(|error| format!("{}: {}", error.kind, error.message)),
        rate,
        frequency: still(
            "frequency_per_day",
            element.frequency_per_day,
            Format::PerDay,
            "not known yet",
        ),
        fresh: believed(element.freshness, "not known yet"),
        polled: when(element.polled_at, now, "never"),
        next: when(element.due_at, now, "–"),
        changed: when(element.changed_at, now, "none found"),
        weight: element.weight,
        n_polls: count("n_polls", element.n_polls),
        n_changes: count("n_changes", element.n_changes),
        timeline: timeline(&marks),
        polls: (detail.polls.iter())
            .map(|poll| PollRow {
                when: when(poll.at, now, ""),
                outcome: poll.outcome,
                error: poll.error,
                purpose: poll.purpose,
                status: poll
                    .status
                    .map_or(String::new(), |status| status.to_string()),
            })
            .collect(),
        versions: (detail.versions.iter().rev())
            .map(|version| VersionRow {
                n: version.n,
                at: version.at.map(rfc3339).unwrap_or_default(),
                size: version.bytes.map(view::size).unwrap_or_default(),
            })
            .collect(),
        from,
        to,
        is_side,
        diff,
        group: element.group,
        source: element.source,
        locator: element.locator,
    };
    Ok(page(StatusCode::OK, &template))
}

/// `POST /elements/{id}/poll`.
pub(super) async fn poll(
    State(app): State<Shared>,
    Path(id): Path<String>,
) -> Result<Response<Body>, Problem> {
    let id = api::number(&id)?;
    api::poll_next(&app, id).await?;
    Ok(see_other(&format!("/elements/{}?asked=yes", id.0)))
}
