//! What may be spent and what is to be reached, what another budget would buy, and hints
//! from outside.

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use springtide_engine::view::{self, PlanView};
use springtide_store::{ElementId, Moment};
use url::Url;

use super::{json, object};
use crate::app::Shared;
use crate::door::Payload;
use crate::params::Params;
use crate::problem::Problem;
use crate::project::FileChange;

/// What a budget would buy, if anything is known.
pub(crate) async fn plan_for(
    app: &Shared,
    budget: Option<f64>,
) -> Result<Option<PlanView>, Problem> {
    app.read(move |app, store| {
        let (settings, now) = (&app.current().settings, app.now());
        let sources = view::sources(store, settings, now)?;
        Ok(view::plan(store, settings, &sources, budget, now)?)
    })
    .await
}

/// `GET /api/v1/plan`.
pub(crate) async fn plan(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &["budget"])?;
    let budget = match params.get("budget") {
        Some(text) => {
            let per_day = match text.parse::<f64>() {
                Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
                _ => app.file.per_day(text),
            };
            Some(per_day.map_err(|why| Problem::bad_request(format!("`budget`: {why}")))?)
        }
        None => None,
    };
    match plan_for(&app, budget).await? {
        Some(plan) => Ok(json(StatusCode::OK, &plan)),
        None => Err(Problem::new(
            StatusCode::CONFLICT,
            "no poll has shown yet how often anything changes",
        )
        .hint("come again when everything was polled twice")),
    }
}

/// `GET /api/v1/settings`.
pub(crate) async fn show(State(app): State<Shared>) -> Result<Response<Body>, Problem> {
    let settings = app.blocking(|app| Ok(app.file.settings()?)).await?;
    Ok(json(StatusCode::OK, &settings))
}

/// `PATCH /api/v1/settings`.
pub(crate) async fn patch(
    State(app): State<Shared>,
    headers: HeaderMap,
    Extension(payload): Extension<Payload>,
) -> Result<Response<Body>, Problem> {
    let tables = object(&headers, &payload)?;
    for (name, table) in &tables {
        if !matches!(&**name, "budget" | "policy" | "target") {
            return Err(
                Problem::unprocessable("only some settings can be changed here")
                    .hint("there are budget, policy and target"),
            );
        }
        if !table.is_object() {
            return Err(Problem::unprocessable(format!("`{name}` is to be a table")));
        }
    }
    app.change(FileChange::Settings(tables)).await?;
    show(State(app)).await
}

/// `POST /api/v1/reload`.
pub(crate) async fn reload(State(app): State<Shared>) -> Result<Response<Body>, Problem> {
    app.reload().await?;
    show(State(app)).await
}

/// Addresses in one request.
const MOST_URLS: usize = 10_000;

/// What became of hints.
#[derive(Debug, Serialize)]
pub(crate) struct Hinted {
    n_known: usize,
    n_unknown: usize,
}

/// Takes in that somebody says these changed at that moment.
pub(crate) async fn take_hints(
    app: &Shared,
    urls: Vec<String>,
    changed_at: Moment,
) -> Result<Hinted, Problem> {
    app.check_writable()?;
    let n = urls.len();
    let (known, n_known) = app
        .read(move |_, store| {
            let (mut known, mut n_known): (Vec<ElementId>, usize) = (Vec::new(), 0);
            for text in &urls {
                let url = Url::parse(text.trim()).ok().map(|mut url| {
                    url.set_fragment(None);
                    url.to_string()
                });
                let found = store.find_all(url.as_deref().unwrap_or(text))?;
                n_known += usize::from(!found.is_empty());
                known.extend(found.into_iter().map(|kept| kept.element.id));
            }
            known.sort_unstable();
            known.dedup();
            Ok((known, n_known))
        })
        .await?;
    if !known.is_empty() {
        app.link.hint(known, changed_at).await?;
    }
    Ok(Hinted {
        n_known,
        n_unknown: n - n_known,
    })
}

/// `POST /api/v1/hints`.
pub(crate) async fn hints(
    State(app): State<Shared>,
    headers: HeaderMap,
    Extension(payload): Extension<Payload>,
) -> Result<Response<Body>, Problem> {
    let mut object = object(&headers, &payload)?;
    let refuse = |why: &str| Problem::unprocessable(why);
    let Some(Value::Array(urls)) = object.remove("urls") else {
        return Err(refuse("there is no list `urls`"));
    };
    let urls: Option<Vec<String>> = (urls.into_iter())
        .map(|url| url.as_str().map(str::to_owned))
        .collect();
    let urls = urls.ok_or_else(|| refuse("`urls` is a list of addresses"))?;
    if urls.len() > MOST_URLS {
        return Err(refuse("there are more than 10000 addresses"));
    }
    let now = app.now();
    let changed_at = match object.remove("at") {
        None | Some(Value::Null) => now,
        at => {
            let at = at.as_ref().and_then(Value::as_str);
            let at = at.and_then(|text| text.parse::<jiff::Timestamp>().ok());
            let at = at.ok_or_else(|| refuse("`at` is a time such as 2026-05-01T12:00:00Z"))?;
            // What is still to come by the clock of whoever says so is taken to be now.
            Moment(at.as_millisecond()).min(now)
        }
    };
    if let Some(unknown) = object.keys().next() {
        return Err(refuse(&format!("there is no key `{unknown}`")).hint("there are urls and at"));
    }
    let hinted = take_hints(&app, urls, changed_at).await?;
    Ok(json(StatusCode::ACCEPTED, &hinted))
}
