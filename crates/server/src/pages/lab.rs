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
use crate::lab::{self, Case, MOST_CASES, POLICIES, WARMUP};
use crate::problem::Problem;

const DAYS: f64 = 30.0;
/// What is typed for no hours in particular.
const ANY_TIME: &str = "any time";

#[derive(Template)]
#[template(path = "lab.html")]
struct LabPage {
    frame: Frame,
    error: Option<String>,
    policies: &'static [(&'static str, &'static str)],
    budget: String,
    hours: String,
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
    budget: String,
    hours: String,
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
            policy: result.case.policy,
            budget: view::per_day(result.case.budget_per_day),
            hours: match &result.case.window {
                Some((words, _)) => words.clone(),
                None => ANY_TIME.to_owned(),
            },
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
                (false, true) => "Stopping",
                (true, true) => "Stopped",
                (true, false) => "Results",
            },
            what: format!(
                "{} elements{alike}, {:.0} days, of which the first {:.0} % are not measured",
                view::count(experiment.n_elements),
                experiment.days,
                100.0 * WARMUP
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
        budget: match &latest {
            Some(latest) => each(&latest.cases, |case| format!("{}/day", case.budget_per_day)),
            None => format!("{per_day}/day"),
        },
        hours: latest.as_ref().map_or_else(String::new, |latest| {
            each(&latest.cases, |case| match &case.window {
                Some((words, _)) => words.clone(),
                None => ANY_TIME.to_owned(),
            })
        }),
        days: DAYS,
        run,
    };
    let code = problem.map_or(StatusCode::OK, |problem| problem.status);
    page(code, &template)
}

/// What cases have, each once, as it is typed.
fn each(cases: &[Case], of: impl Fn(&Case) -> String) -> String {
    let mut each: Vec<String> = Vec::new();
    for text in cases.iter().map(of) {
        if !each.contains(&text) {
            each.push(text);
        }
    }
    each.join(", ")
}

/// Words between commas.
fn between_commas(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

/// Every policy with every budget, within all these hours.
fn cases(
    app: &Shared,
    policies: &[&'static str],
    budgets: &str,
    hours: &str,
) -> Result<Vec<Case>, Problem> {
    if policies.is_empty() {
        return Err(Problem::unprocessable("Choose at least one policy"));
    }
    let mut windows = Vec::new();
    for words in between_commas(hours) {
        windows.push(match words == ANY_TIME {
            true => None,
            false => {
                let window = app.file.window(words);
                let bad = |why| Problem::unprocessable(format!("Hours: {why}"));
                Some((words.to_owned(), window.map_err(bad)?))
            }
        });
    }
    if windows.is_empty() {
        windows.push(None);
    }
    let mut cases = Vec::new();
    for words in between_commas(budgets) {
        let per_day = app.file.per_day(words);
        let bad = |why| Problem::unprocessable(format!("Budget: {why}"));
        let budget_per_day = per_day.map_err(bad)?;
        for window in &windows {
            cases.extend(policies.iter().map(|&policy| Case {
                policy,
                budget_per_day,
                window: window.clone(),
            }));
        }
    }
    match cases.len() {
        0 => Err(Problem::unprocessable("Budget: there is none")),
        n if n > MOST_CASES => Err(Problem::unprocessable(format!(
            "{n} combinations; at most {MOST_CASES} at a time"
        ))),
        _ => Ok(cases),
    }
}

/// `POST /lab`.
pub(super) async fn begin(
    State(app): State<Shared>,
    Extension(payload): Extension<Payload>,
) -> Response<Body> {
    let (mut policies, mut days) = (Vec::new(), DAYS);
    let (mut budget, mut hours) = (String::new(), String::new());
    for (name, value) in url::form_urlencoded::parse(&payload.0) {
        match &*name {
            "policy" => {
                let known = POLICIES.iter().find(|(known, _)| *known == value);
                policies.extend(known.map(|(known, _)| *known));
            }
            "budget" => budget = value.into_owned(),
            "hours" => hours = value.into_owned(),
            "days" => days = value.parse().unwrap_or(f64::NAN),
            _ => {}
        }
    }
    policies.dedup();
    policies.truncate(POLICIES.len());
    let begun = async {
        if !(1.0..=3650.0).contains(&days) {
            return Err(Problem::unprocessable("From 1 to 3650 days"));
        }
        let cases = cases(&app, &policies, &budget, &hours)?;
        lab::begin(&app, cases, days).await
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
