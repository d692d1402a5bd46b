//! `/`: is the copy fresh?

use askama::Template;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use springtide_engine::view::{self, SourceStatus, Status};
use springtide_policy::report::share_interval;
use springtide_store::{Audit, ChangeFilter, Moment};

use super::changes::ChangeRow;
use super::html::{
    Format, Html, Point, interval, live_bar, live_left, number, over_time, states, when,
};
use super::{Frame, page};
use crate::app::Shared;
use crate::feed::numbered;
use crate::history::{KEPT_MS, Prediction, predictions};
use crate::problem::Problem;

/// Changes on the page.
const LATEST: usize = 12;
/// Changes of a day that are counted.
const MOST_COUNTED: usize = 1000;
/// A day, in milliseconds.
const DAY: i64 = 86_400_000;
/// Points of the line, at most.
const POINTS: usize = 40;
/// Audits to a point, at least.
const ENOUGH: usize = 8;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    measured: Html,
    interval: Html,
    predicted: Html,
    predicted_interval: Html,
    age: Html,
    target: Option<String>,
    chart: Html,
    budget: Html,
    used: Html,
    left: Html,
    meter: Html,
    price: Html,
    oldest: Html,
    n_elements: Html,
    n_sources: Html,
    n_polls: Html,
    n_changes: Html,
    states: Html,
    last_day: String,
    concerns: Vec<Concern>,
    all_well: &'static str,
    changes: Vec<ChangeRow>,
    no_changes: &'static str,
}

/// Something that a person should look at.
struct Concern {
    level: &'static str,
    text: String,
    link: String,
}

/// `GET /`.
pub(super) async fn show(State(app): State<Shared>) -> Result<Response<Body>, Problem> {
    let status = app.status().await?;
    let now = app.now();
    let (latest, n_last_day, audits, predictions) = app
        .read(move |app, store| {
            let latest = store.changes(&ChangeFilter::default(), None, LATEST)?;
            let last_day = ChangeFilter {
                since: Some(Moment(now.0 - DAY)),
                ..ChangeFilter::default()
            };
            let n_last_day = store.changes(&last_day, None, MOST_COUNTED)?.len();
            let audits = store.audits(Moment(now.0 - KEPT_MS))?;
            let predictions = predictions(store)?;
            let latest = numbered(app, store, &latest)?;
            Ok((latest, n_last_day, audits, predictions))
        })
        .await?;
    let freshness = &status.freshness;
    let budget = &status.budget;
    let left = (budget.per_day - budget.used_today as f64).max(0.0);
    let age = status.age_seconds;
    let age = match age.measured {
        Some(_) => number("age_seconds.measured", age.measured, Format::Brief, ""),
        None => number(
            "age_seconds.predicted",
            age.predicted,
            Format::Brief,
            "not known yet",
        ),
    };
    let current = app.current();
    let count = |name: &str, n: u64| number(name, Some(n as f64), Format::Count, "");
    let last = latest.first().map_or(0, |newest| newest.id);
    let template = Overview {
        frame: Frame::new(&app, "Overview", "/").live(last, "&overview=true"),
        measured: number(
            "freshness.measured",
            freshness.measured,
            Format::Percent,
            "–",
        ),
        interval: interval(freshness, now),
        predicted: number(
            "freshness.predicted",
            freshness.predicted,
            Format::Percent,
            "not known yet: no element was polled twice",
        ),
        predicted_interval: between(freshness.predicted_low, freshness.predicted_high),
        age,
        target: current
            .target
            .freshness
            .map(|share| format!("{} fresh", view::percent(share))),
        chart: lines(&audits, &predictions, freshness.predicted, now),
        budget: number("budget.per_day", Some(budget.per_day), Format::PerDay, ""),
        used: count("budget.used_today", budget.used_today),
        left: live_left(left),
        meter: live_bar(budget.used_today as f64 / budget.per_day),
        price: number("budget.price", budget.price, Format::Plain, "none"),
        oldest: number(
            "oldest_poll_age_seconds",
            status.oldest_poll_age_seconds,
            Format::Brief,
            "none yet",
        ),
        n_elements: count("n_elements", status.n_elements),
        n_sources: count("n_sources", status.n_sources as u64),
        n_polls: count("n_polls", status.n_polls),
        n_changes: count("n_changes", status.n_changes),
        states: states(&status.states),
        last_day: match n_last_day {
            MOST_COUNTED => format!("{}+ changes", view::count(MOST_COUNTED)),
            n => view::plural(n as u64, "change"),
        },
        concerns: concerns(&app, &status),
        all_well: match status.n_sources {
            0 => "There are no sources yet: add one under Sources.",
            _ => "Every source answers, and the budget is enough for what is wanted.",
        },
        no_changes: match status.n_sources {
            0 => "Add a source first.",
            _ => "They appear here as polls find them.",
        },
        changes: latest
            .iter()
            .map(|c| ChangeRow::new(c, now, None))
            .collect(),
    };
    Ok(page(StatusCode::OK, &template))
}

fn between(low: Option<f64>, high: Option<f64>) -> Html {
    match (low, high) {
        (Some(_), Some(_)) => Html::joined(&[
            "(".into(),
            number("freshness.predicted_low", low, Format::Percent, ""),
            " to ".into(),
            number("freshness.predicted_high", high, Format::Percent, ""),
            ")".into(),
        ]),
        _ => Html::default(),
    }
}

/// Freshness over the last days: measured, in parts of as many audits each, and what was
/// predicted meanwhile, up to now.
fn lines(
    audits: &[Audit],
    predictions: &[Prediction],
    predicted: Option<f64>,
    now: Moment,
) -> Html {
    let begins = [
        audits.first().map(|audit| audit.at),
        predictions.first().map(|one| one.at()),
    ];
    let Some(first) = begins.into_iter().flatten().min() else {
        return Html::default();
    };
    let per_point = audits.len().div_ceil(POINTS).max(ENOUGH);
    let span = (now.0 - first.0).max(1) as f64;
    let at = |moment: Moment| ((moment.0 - first.0) as f64 / span).min(1.0);
    let points = audits.chunks(per_point).filter_map(|part| {
        let n_fresh = part.iter().filter(|audit| audit.is_fresh).count() as u64;
        let (low, high) = share_interval(n_fresh, part.len() as u64, 0.9).ok()?;
        let middle = part.get(part.len() / 2)?.at;
        Some(Point {
            x: at(middle),
            y: n_fresh as f64 / part.len() as f64,
            low,
            high,
        })
    });
    let points: Vec<Point> = points.collect();
    let predicted = predicted.map(|share| (1.0, share));
    let beside: Vec<(f64, f64)> = (predictions.iter())
        .map(|one| (at(one.at()), one.freshness))
        .chain(predicted)
        .collect();
    over_time(&points, &beside, &view::relative(first, now))
}

/// What a person should look at, the worst first.
fn concerns(app: &Shared, status: &Status) -> Vec<Concern> {
    let mut concerns = Vec::new();
    let mut add = |level: &'static str, link: &str, text: String| {
        concerns.push(Concern {
            level,
            text,
            link: link.to_owned(),
        });
    };
    let path = |name: &str| format!("/sources/{}", crate::api::sources::path_segment(name));
    if let Err(problem) = app.health.is_ready(app) {
        add("bad", "/system", problem.detail);
    }
    let is_polled = |source: &&SourceStatus| source.is_in_file && !source.is_paused;
    for source in status.sources.iter().filter(is_polled) {
        if let Some(error) = &source.error {
            let text = format!("{} fails: {}", source.name, error.message);
            add("bad", &path(&source.name), text);
        }
    }
    for miss in app.current().target.misses(status) {
        add("bad", "/budget", format!("The target is missed: {miss}"));
    }
    if let Some(short) = status.budget.short_per_day.filter(|short| *short > 0.0) {
        let text = format!(
            "The budget is {} polls a day short of what the target needs in the long run",
            view::per_day(short)
        );
        add("warn", "/budget", text);
    }
    for source in status.sources.iter().filter(|source| !source.is_paused) {
        let states = source.states;
        if states.failing > 0 && source.error.is_none() {
            let n = view::plural(states.failing, "element");
            let example = source.errors.first().map_or("", |error| &*error.example);
            let text = format!("{}: {n} failing, such as {example}", source.name);
            add("warn", &format!("{}#wrong", path(&source.name)), text);
        }
        if states.blocked > 0 {
            let n = view::plural(states.blocked, "element");
            let text = format!("{}: robots.txt disallows {n}", source.name);
            add("warn", &path(&source.name), text);
        }
        if !source.is_in_file {
            let text = format!(
                "{} is not in springtide.toml: kept, and not polled",
                source.name
            );
            add("warn", &path(&source.name), text);
        }
    }
    if app.current().is_budget_assumed {
        let text = "No budget is set: a careful one is assumed".to_owned();
        add("warn", "/budget", text);
    }
    concerns
}

/// When something was, for a row of changes.
pub(super) fn found(at: Option<Moment>, now: Moment) -> Html {
    when(at, now, "–")
}
