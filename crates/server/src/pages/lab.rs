//! `/lab`: what other policies and budgets would give.

use askama::Template;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{Response, StatusCode};
use springtide_engine::view;

use super::html::{Format, Html, bar, still};
use super::sources::said;
use super::{Frame, page};
use crate::app::Shared;
use crate::door::{Payload, see_other};
use crate::lab::{self, POLICIES};
use crate::problem::Problem;

const DAYS: f64 = 30.0;

#[derive(Template)]
#[template(path = "lab.html")]
struct LabPage {
    frame: Frame,
    error: Option<String>,
    policies: &'static [(&'static str, &'static str)],
    budget: String,
    days: f64,
    run: Option<Run>,
}

struct Run {
    title: &'static str,
    what: String,
    is_over: bool,
    progress: String,
    rows: Vec<Row>,
}

struct Row {
    policy: &'static str,
    fresh: Html,
    age: Html,
    ratio: Html,
    bar: Html,
}

/// `GET /lab`.
pub(super) async fn show(State(app): State<Shared>) -> Response<Body> {
    shown(&app, None)
}

fn shown(app: &Shared, problem: Option<Problem>) -> Response<Body> {
    let run = app.lab.latest().map(|experiment| {
        let results = experiment.results();
        let rows = results.iter().map(|result| Row {
            policy: result.policy,
            fresh: still("freshness", Some(result.freshness), Format::Percent, "–"),
            age: still("age_seconds", Some(result.age_seconds), Format::Brief, "–"),
            ratio: still(
                "change_ratio",
                Some(result.change_ratio),
                Format::Percent,
                "–",
            ),
            bar: bar(result.freshness),
        });
        let alike = match experiment.n_alike > 1.01 {
            true => format!(", each for {:.0} of the project", experiment.n_alike),
            false => String::new(),
        };
        Run {
            title: match (experiment.is_over(), experiment.is_cancelled()) {
                (false, false) => "Under way",
                (false, true) => "Ends after this policy",
                (true, true) => "Stopped",
                (true, false) => "What came of it",
            },
            what: format!(
                "{} elements{alike}, {} polls a day, {:.0} days, of which the first third is not \
                 measured",
                view::count(experiment.n_elements),
                view::per_day(experiment.budget_per_day),
                experiment.days
            ),
            is_over: experiment.is_over(),
            progress: format!("{:.3}", experiment.progress()),
            rows: rows.collect(),
        }
    });
    let latest = app.lab.latest();
    let per_day = app.current().settings.budget.per_day;
    let template = LabPage {
        frame: Frame::new(app, "Lab", "/lab"),
        error: problem.as_ref().map(said),
        policies: &POLICIES,
        budget: format!(
            "{}/day",
            latest
                .as_ref()
                .map_or(per_day, |latest| latest.budget_per_day)
        ),
        days: DAYS,
        run,
    };
    let code = problem.map_or(StatusCode::OK, |problem| problem.status);
    page(code, &template)
}

/// `POST /lab`.
pub(super) async fn begin(
    State(app): State<Shared>,
    Extension(payload): Extension<Payload>,
) -> Response<Body> {
    let (mut policies, mut budget, mut days) = (Vec::new(), String::new(), DAYS);
    for (name, value) in url::form_urlencoded::parse(&payload.0) {
        match &*name {
            "policy" => {
                let known = POLICIES.iter().find(|(known, _)| *known == value);
                policies.extend(known.map(|(known, _)| *known));
            }
            "budget" => budget = value.into_owned(),
            "days" => days = value.parse().unwrap_or(f64::NAN),
            _ => {}
        }
    }
    policies.dedup();
    policies.truncate(POLICIES.len());
    let begun = async {
        if policies.is_empty() {
            return Err(Problem::unprocessable("Choose at least one policy"));
        }
        if !(1.0..=3650.0).contains(&days) {
            return Err(Problem::unprocessable("From 1 to 3650 days"));
        }
        let per_day = app.file.per_day(&budget);
        let per_day = per_day.map_err(|why| Problem::unprocessable(format!("Budget: {why}")))?;
        lab::begin(&app, policies, per_day, days).await
    };
    match begun.await {
        Ok(()) => see_other("/lab"),
        Err(problem) => shown(&app, Some(problem)),
    }
}

/// `POST /lab/cancel`.
pub(super) async fn cancel(State(app): State<Shared>) -> Response<Body> {
    app.lab.cancel();
    see_other("/lab")
}
