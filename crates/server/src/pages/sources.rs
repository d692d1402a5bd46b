//! `/sources`, and one of them.

use askama::Template;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{Response, StatusCode};
use serde_json::{Map, Value};
use springtide_engine::settings::{FeedEntries, Retain, SourceSettings};
use springtide_engine::view::{self, SourceStatus, TrustView, kind_name};
use springtide_policy::Span;
use springtide_store::SourceKind;

use super::budget::Share;
use super::errors::{self, ErrorRow};
use super::html::{Format, Html, bar, interval, states, still, when};
use super::{Frame, page};
use crate::api::sources as api;
use crate::app::Shared;
use crate::door::{Payload, form, see_other};
use crate::problem::Problem;
use crate::websub;

/// The kinds that a form can add. A search source has more to say than a form could ask.
const KINDS: [&str; 6] = ["sitemap", "page", "site", "feed", "list", "table"];

#[derive(Template)]
#[template(path = "sources.html")]
struct SourcesPage {
    frame: Frame,
    rows: Vec<Row>,
    error: Option<String>,
    kinds: &'static [&'static str],
    chosen: String,
    url: String,
    name: String,
    weight: String,
    table: String,
    key: String,
    cursor: String,
}

struct Row {
    name: String,
    path: String,
    kind: &'static str,
    n_elements: Html,
    measured: Html,
    predicted: Html,
    failing: Html,
    n_polls: Html,
    n_changes: Html,
    next: Html,
    wrong: String,
}

/// `GET /sources`.
pub(super) async fn index(State(app): State<Shared>) -> Result<Response<Body>, Problem> {
    list(&app, StatusCode::OK, None, &Map::new()).await
}

async fn list(
    app: &Shared,
    status_code: StatusCode,
    error: Option<String>,
    fields: &Map<String, Value>,
) -> Result<Response<Body>, Problem> {
    let status = app.status().await?;
    let now = app.now();
    let kinds: Vec<(String, &'static str)> = app
        .read(|_, store| {
            let sources = store.sources()?.into_iter();
            Ok(sources.map(|s| (s.name, kind_name(s.kind))).collect())
        })
        .await?;
    let row = |source: &SourceStatus| {
        let count = |name: &str, n: u64| still(name, Some(n as f64), Format::Count, "");
        let share = |name: &str, share| still(name, share, Format::Percent, "–");
        let kind = kinds.iter().find(|(name, _)| *name == source.name);
        Row {
            path: api::path_segment(&source.name),
            name: source.name.clone(),
            kind: kind.map_or("new", |(_, kind)| kind),
            n_elements: count("n_elements", source.n_elements),
            measured: share("freshness.measured", source.freshness.measured),
            predicted: share("freshness.predicted", source.freshness.predicted),
            failing: count("states.failing", source.states.failing),
            n_polls: count("n_polls", source.n_polls),
            n_changes: count("n_changes", source.n_changes),
            next: when(source.next_poll_at, now, "–"),
            wrong: match (&source.error, source.is_in_file) {
                _ if source.is_paused => "paused: kept, and not polled".to_owned(),
                (Some(error), _) => error.message.clone(),
                (None, false) => "not in springtide.toml: kept, and not polled".to_owned(),
                (None, true) => String::new(),
            },
        }
    };
    let field = |name: &str| {
        let value = fields.get(name).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let template = SourcesPage {
        frame: Frame::new(app, "Sources", "/sources"),
        rows: status.sources.iter().map(row).collect(),
        error,
        kinds: &KINDS,
        chosen: field("kind"),
        url: field("url"),
        name: field("name"),
        weight: field("weight"),
        table: field("table"),
        key: field("key"),
        cursor: field("cursor"),
    };
    Ok(page(status_code, &template))
}

/// `POST /sources`.
pub(super) async fn add(
    State(app): State<Shared>,
    Extension(payload): Extension<Payload>,
) -> Result<Response<Body>, Problem> {
    // A field that was left empty says nothing.
    let fields: Map<String, Value> = (form(&payload).into_iter())
        .filter(|(_, value)| !value.trim().is_empty())
        .map(|(name, value)| (name, value.trim().into()))
        .collect();
    let mut keys = fields.clone();
    let name = match keys.remove("name") {
        Some(Value::String(name)) => name,
        _ => String::new(),
    };
    if let Some(Value::String(text)) = keys.get("weight") {
        let weight = text.parse::<f64>().ok().map_or(Value::Null, Value::from);
        keys.insert("weight".to_owned(), weight);
    }
    if let Some(Value::String(text)) = keys.get("key") {
        let columns: Vec<&str> = text.split(',').map(str::trim).collect();
        keys.insert("key".to_owned(), columns.into());
    }
    match api::add(&app, name, keys).await {
        Ok(source) => Ok(see_other(&format!(
            "/sources/{}",
            api::path_segment(&source.name)
        ))),
        Err(problem) => list(&app, problem.status, Some(said(&problem)), &fields).await,
    }
}

/// A problem in a line.
pub(super) fn said(problem: &Problem) -> String {
    match &problem.hint {
        Some(hint) => format!("{}. {hint}", problem.detail),
        None => problem.detail.clone(),
    }
}

#[derive(Template)]
#[template(path = "source.html")]
struct SourcePage {
    frame: Frame,
    name: String,
    path: String,
    query: String,
    kind: &'static str,
    url: String,
    is_in_file: bool,
    is_paused: bool,
    trust: Vec<TrustRow>,
    subscription: Option<Html>,
    message: Option<String>,
    error: Option<String>,
    measured: Html,
    interval: Html,
    predicted: Html,
    age: Html,
    next: Html,
    oldest: Html,
    n_elements: Html,
    n_polls: Html,
    n_changes: Html,
    states: Html,
    errors: Vec<String>,
    failures: Option<Html>,
    failed: Vec<ErrorRow>,
    weight: f64,
    share: Option<ShareOfSource>,
    is_computing: bool,
    found: String,
    counts: Vec<String>,
    counts_by_default: &'static str,
    kept_for: String,
}

/// What a source costs and gives.
struct ShareOfSource {
    changes: String,
    changes_each: String,
    polls: Option<String>,
    share: Option<Html>,
    fresh: Option<String>,
}

struct TrustRow {
    what: &'static str,
    n: Html,
    says: Html,
}

/// What a kind of evidence has been worth, in a row.
fn trust_row(kind: &'static str, trust: &TrustView) -> TrustRow {
    let name = |key: &str| format!("trust.{kind}.{key}");
    let what = match kind {
        "lastmod" => "lastmod of sitemaps",
        "feed" => "entries of feeds",
        "push" => "pushes",
        "cursor" => "cursor of the table",
        "etag" => "ETag",
        "last_modified" => "Last-Modified",
        other => other,
    };
    let count = |key: &str, n: u64| still(&name(key), Some(n as f64), Format::Count, "");
    match *trust {
        TrustView::Hints {
            precision,
            recall,
            delay_seconds,
            n,
        } => {
            let share = |key: &str, share| still(&name(key), share, Format::Percent, "?");
            let delay = still(&name("delay_seconds"), delay_seconds, Format::Brief, "?");
            TrustRow {
                what,
                n: count("n", n),
                says: Html::joined(&[
                    share("precision", precision),
                    " of them were right, ".into(),
                    share("recall", recall),
                    " of changes were told, ".into(),
                    delay,
                    " after the change".into(),
                ]),
            }
        }
        TrustView::Validator {
            n,
            n_false,
            is_used,
        } => TrustRow {
            what,
            n: count("n", n),
            says: Html::joined(&[
                count("n_false", n_false),
                match is_used {
                    true => " were wrong; it is relied on".into(),
                    false => " were wrong; it is not relied on".into(),
                },
            ]),
        },
    }
}

/// `GET /sources/{name}`.
pub(super) async fn show(
    State(app): State<Shared>,
    Path(name): Path<String>,
) -> Result<Response<Body>, Problem> {
    one(&app, name, None).await
}

async fn one(
    app: &Shared,
    name: String,
    problem: Option<Problem>,
) -> Result<Response<Body>, Problem> {
    let view = api::one(app, name).await?;
    let status = app.status().await?;
    let effect = app.budget_effect().await?;
    let now = app.now();
    let wanted = view.name.clone();
    let (id, failures, failed) = app
        .read(move |_, store| {
            let sources = store.sources()?;
            let Some(source) = sources.into_iter().find(|s| s.name == wanted) else {
                // It is only in the file so far.
                return Ok((None, None, Vec::new()));
            };
            let over_time = errors::over_time(store, &source, now)?;
            let latest = errors::latest(store, std::slice::from_ref(&source), now)?;
            Ok((Some(source.id), over_time, latest))
        })
        .await?;
    let share = id.and_then(|id| effect.as_ref()?.of(id));
    let all_polls = effect.as_ref().map_or(0.0, |effect| effect.polls_per_day());
    let source = status.sources.iter().find(|s| s.name == view.name);
    let source = source.ok_or_else(|| Problem::not_found("there is no such source"))?;
    let current = app.current();
    let settings = current.settings.sources.iter();
    let settings = settings.into_iter().find(|s| s.name == view.name);
    let count = |name: &str, n: u64| still(name, Some(n as f64), Format::Count, "");
    let age = source.age_seconds;
    let code = problem.as_ref().map_or(StatusCode::OK, |p| p.status);
    let subscription = match websub::subscribed_hub(app, &view.name).await {
        Some((hub, Some(until))) if until > now => Some(Html::joined(&[
            Html::from(&*format!("Subscribed at {hub} until ")),
            when(Some(until), now, ""),
            "; renewed before that.".into(),
        ])),
        Some((hub, _)) => {
            let text = format!("Asked {hub} for a subscription; not confirmed yet.");
            Some(Html::from(&*text))
        }
        None => None,
    };
    let template = SourcePage {
        frame: Frame::new(app, &view.name, "/sources"),
        path: api::path_segment(&view.name),
        query: url::form_urlencoded::byte_serialize(view.name.as_bytes()).collect(),
        kind: view.kind,
        url: view.url.clone(),
        is_in_file: view.is_in_file,
        is_paused: view.is_paused,
        subscription,
        trust: view
            .trust
            .iter()
            .map(|(kind, trust)| trust_row(kind, trust))
            .collect(),
        message: problem.as_ref().map(said),
        error: view
            .error
            .as_ref()
            .map(|error| format!("{}: {}", error.kind, error.message)),
        measured: still(
            "freshness.measured",
            source.freshness.measured,
            Format::Percent,
            "–",
        ),
        interval: interval(&source.freshness, now),
        predicted: still(
            "freshness.predicted",
            source.freshness.predicted,
            Format::Percent,
            "not known yet",
        ),
        age: match age.measured {
            Some(_) => still("age_seconds.measured", age.measured, Format::Brief, ""),
            None => still(
                "age_seconds.predicted",
                age.predicted,
                Format::Brief,
                "not known yet",
            ),
        },
        next: when(source.next_poll_at, now, "–"),
        oldest: still(
            "oldest_poll_age_seconds",
            source.oldest_poll_age_seconds,
            Format::Brief,
            "none yet",
        ),
        n_elements: count("n_elements", source.n_elements),
        n_polls: count("n_polls", source.n_polls),
        n_changes: count("n_changes", source.n_changes),
        states: states(&source.states),
        errors: (source.errors.iter())
            .map(|error| format!("{}: {}, such as {}", error.kind, error.n, error.example))
            .collect(),
        failures,
        failed,
        weight: settings.map_or(1.0, |settings| settings.weight),
        share: share.map(|share| share_of_source(share, all_polls)),
        is_computing: effect.is_none(),
        // Not a value of the API, so without a name.
        found: match source.n_polls {
            0 => "–".to_owned(),
            n_polls => view::percent(source.n_changes as f64 / n_polls as f64),
        },
        counts: settings.map(what_counts).unwrap_or_default(),
        counts_by_default: settings.map_or("", counts_by_default),
        kept_for: settings.map_or_else(String::new, |settings| kept_for(&settings.retain)),
        name: view.name,
    };
    Ok(page(code, &template))
}

fn share_of_source(share: Share, all_polls: f64) -> ShareOfSource {
    let n = share.n_elements.max(1) as f64;
    ShareOfSource {
        changes: view::per_day(share.changes_per_day),
        changes_each: view::per_day(share.changes_per_day / n),
        polls: share.polls_per_day.map(view::per_day),
        share: share
            .polls_per_day
            .map(|polls| bar(polls / all_polls.max(f64::MIN_POSITIVE))),
        fresh: share.n_fresh.map(|n_fresh| {
            format!(
                "{} of {}, {}",
                view::count(n_fresh.round() as usize),
                view::plural(share.n_elements, "element"),
                view::percent(n_fresh / n)
            )
        }),
    }
}

/// What of its elements is compared, where the file says so.
fn what_counts(settings: &SourceSettings) -> Vec<String> {
    let mut counts = Vec::new();
    if !settings.keep.is_empty() {
        counts.push(format!("only {}", settings.keep.join(", ")));
    }
    if !settings.drop.is_empty() {
        counts.push(format!("not {}", settings.drop.join(", ")));
    }
    counts
}

/// What matters in elements of a source that says nothing of it.
fn counts_by_default(settings: &SourceSettings) -> &'static str {
    match settings.kind {
        SourceKind::Search => "the fields that are kept",
        SourceKind::Table => "the columns that are kept",
        SourceKind::Feed if settings.entries == FeedEntries::Content => "the entry",
        _ => "the main text and title; of JSON, the values",
    }
}

/// For how long versions and polls are kept, in words.
pub(super) fn kept_for(retain: &Retain) -> String {
    let brief = |span: Span| view::brief(span.as_days() * 86_400.0);
    let mut words = vec![match (retain.versions, retain.within) {
        (None, None) => "all versions".to_owned(),
        (Some(n), None) => format!("the newest {}", view::plural(u64::from(n), "version")),
        (None, Some(span)) => format!("versions of the last {}", brief(span)),
        (Some(n), Some(span)) => format!(
            "the newest {} of the last {}",
            view::plural(u64::from(n), "version"),
            brief(span)
        ),
    }];
    if !retain.keeps_bodies {
        words.push("older ones without their bodies".to_owned());
    }
    words.push(match retain.polls {
        Some(span) => format!("polls of the last {}", brief(span)),
        None => "all polls".to_owned(),
    });
    words.join(", ")
}

/// `POST /sources/{name}`.
pub(super) async fn change(
    State(app): State<Shared>,
    Path(name): Path<String>,
    Extension(payload): Extension<Payload>,
) -> Result<Response<Body>, Problem> {
    let fields = form(&payload);
    let weight = fields
        .get("weight")
        .and_then(|text| text.trim().parse::<f64>().ok());
    let changed = match weight.filter(|weight| weight.is_finite() && *weight >= 0.0) {
        Some(weight) => {
            let keys = Map::from_iter([("weight".to_owned(), weight.into())]);
            api::change(&app, name.clone(), keys).await
        }
        None => Err(Problem::unprocessable("A weight is a number, zero or more")),
    };
    match changed {
        Ok(_) => Ok(see_other(&format!("/sources/{}", api::path_segment(&name)))),
        Err(problem) => one(&app, name, Some(problem)).await,
    }
}

/// `POST /sources/{name}/pause`.
pub(super) async fn pause(
    State(app): State<Shared>,
    Path(name): Path<String>,
) -> Result<Response<Body>, Problem> {
    set_paused(app, name, true.into()).await
}

/// `POST /sources/{name}/resume`.
pub(super) async fn resume(
    State(app): State<Shared>,
    Path(name): Path<String>,
) -> Result<Response<Body>, Problem> {
    set_paused(app, name, Value::Null).await
}

async fn set_paused(
    app: Shared,
    name: String,
    is_paused: Value,
) -> Result<Response<Body>, Problem> {
    let keys = Map::from_iter([("paused".to_owned(), is_paused)]);
    match api::change(&app, name.clone(), keys).await {
        Ok(_) => Ok(see_other(&format!("/sources/{}", api::path_segment(&name)))),
        Err(problem) => one(&app, name, Some(problem)).await,
    }
}

/// `POST /sources/{name}/remove`.
pub(super) async fn remove(
    State(app): State<Shared>,
    Path(name): Path<String>,
) -> Result<Response<Body>, Problem> {
    api::remove_from_file(&app, name).await?;
    Ok(see_other("/sources"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_told_as_one() {
        let cursor = TrustView::Hints {
            precision: Some(1.0),
            recall: Some(0.75),
            delay_seconds: None,
            n: 3,
        };
        let row = trust_row("cursor", &cursor);
        assert_eq!(row.what, "cursor of the table");
        let validator = TrustView::Validator {
            n: 3,
            n_false: 1,
            is_used: true,
        };
        assert_eq!(trust_row("last_modified", &validator).what, "Last-Modified");
    }
}
