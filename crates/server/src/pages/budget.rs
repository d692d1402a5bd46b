//! `/budget`: what another would buy, and where this one goes.

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;

use askama::Template;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use springtide_engine::view::{self, PlanView, Target};
use springtide_policy::freshness::expected_freshness;
use springtide_policy::{Cost, Order};
use springtide_store::SourceId;

use super::html::{Format, Gain, Html, bar, curve, still};
use super::sources::said;
use super::{Frame, page};
use crate::api::sources::path_segment;
use crate::app::Shared;
use crate::door::{Payload, form, see_other};
use crate::params::Params;
use crate::problem::Problem;
use crate::project::FileChange;

#[derive(Template)]
#[template(path = "budget.html")]
struct BudgetPage {
    frame: Frame,
    error: Option<String>,
    is_saved: bool,
    is_computing: bool,
    per_day: Html,
    used: Html,
    price: Html,
    short: Option<String>,
    polls: String,
    slider_min: f64,
    slider_max: f64,
    slider_at: f64,
    chart: Html,
    curve: Vec<PointRow>,
    classes: Vec<ClassRow>,
    by_source: Vec<SourceRow>,
}

struct PointRow {
    is_now: bool,
    budget: Html,
    freshness: Html,
    age: Html,
    uniform: Html,
    uniform_age: Html,
}

struct ClassRow {
    name: &'static str,
    n: String,
    per_day: String,
    bar: Html,
}

struct SourceRow {
    name: String,
    path: String,
    per_day: String,
    n_polls: Html,
    n_changes: Html,
    bar: Html,
}

/// `GET /budget`.
pub(super) async fn show(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &["saved"])?;
    let is_saved = params.get("saved").is_some();
    shown(&app, None, None, is_saved).await
}

/// `POST /budget`.
pub(super) async fn set(
    State(app): State<Shared>,
    Extension(payload): Extension<Payload>,
) -> Result<Response<Body>, Problem> {
    let polls = form(&payload).remove("polls").unwrap_or_default();
    let polls = polls.trim().to_owned();
    let tables = Map::from_iter([("budget".to_owned(), json!({ "polls": polls }))]);
    match app.change(FileChange::Settings(tables)).await {
        Ok(()) => Ok(see_other("/budget?saved=yes")),
        Err(problem) => shown(&app, Some(problem), Some(polls), false).await,
    }
}

async fn shown(
    app: &Shared,
    problem: Option<Problem>,
    typed: Option<String>,
    is_saved: bool,
) -> Result<Response<Body>, Problem> {
    let status = app.status().await?;
    let effect = app.budget_effect().await?;
    let plan = effect.as_ref().and_then(|effect| effect.plan.as_ref());
    let settings = app.blocking(|app| Ok(app.file.settings()?)).await.ok();
    let written = settings.and_then(|settings| {
        let polls = settings.get("budget")?.get("polls")?;
        Some(match polls {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    });
    let budget = &status.budget;
    let per_day = budget.per_day;
    let ids: HashMap<String, SourceId> = app
        .read(|_, store| {
            let sources = store.sources()?.into_iter();
            Ok(sources.map(|source| (source.name, source.id)).collect())
        })
        .await?;
    let planned = |name: &str| {
        let share = effect.as_ref()?.of(*ids.get(name)?)?;
        share.polls_per_day
    };
    let all_planned = effect.as_ref().map_or(0.0, |effect| effect.polls_per_day());
    let n_polls: u64 = status.sources.iter().map(|source| source.n_polls).sum();
    let at = per_day.log10();
    let template = BudgetPage {
        frame: Frame::new(app, "Budget", "/budget"),
        error: problem.as_ref().map(said),
        is_saved,
        per_day: still("budget.per_day", Some(per_day), Format::PerDay, ""),
        used: still(
            "budget.used_today",
            Some(budget.used_today as f64),
            Format::Count,
            "",
        ),
        price: still("budget.price", budget.price, Format::Plain, "none"),
        short: budget.short_per_day.map(|short| match short > 0.0 {
            true => format!("{} polls a day short", view::per_day(short)),
            false => "enough".to_owned(),
        }),
        polls: typed
            .or(written)
            .unwrap_or_else(|| format!("{per_day}/day")),
        slider_min: at - 1.0,
        slider_max: at + 1.0,
        slider_at: at,
        is_computing: effect.is_none(),
        chart: match plan {
            Some(plan) => drawn(plan, &app.current().target),
            None if effect.is_none() => {
                Html::from("That is being computed. Look again in a moment.")
            }
            None => Html::from(
                "No poll has shown yet how often anything changes. Come again when everything \
                 was polled twice.",
            ),
        },
        curve: plan.map_or_else(Vec::new, |plan| {
            plan.curve
                .iter()
                .map(|point| point_row(point, plan))
                .collect()
        }),
        classes: effect.as_deref().map(classes).unwrap_or_default(),
        by_source: (status.sources.iter())
            .map(|source| SourceRow {
                name: source.name.clone(),
                path: path_segment(&source.name),
                per_day: planned(&source.name).map_or_else(|| "–".to_owned(), view::per_day),
                n_polls: still("n_polls", Some(source.n_polls as f64), Format::Count, ""),
                n_changes: still(
                    "n_changes",
                    Some(source.n_changes as f64),
                    Format::Count,
                    "",
                ),
                bar: bar(match planned(&source.name) {
                    Some(per_day) => per_day / all_planned.max(f64::MIN_POSITIVE),
                    None => source.n_polls as f64 / n_polls.max(1) as f64,
                }),
            })
            .collect(),
    };
    let code = problem.map_or(StatusCode::OK, |problem| problem.status);
    Ok(page(code, &template))
}

/// Freshness over the budget, and age below it.
fn drawn(plan: &PlanView, target: &Target) -> Html {
    let (mut freshness, mut age) = (Vec::new(), Vec::new());
    for view::WhatIf {
        budget_per_day,
        freshness: fresh,
        age_seconds,
        uniform,
    } in &plan.curve
    {
        freshness.push((*budget_per_day, *fresh, uniform.freshness));
        age.push((*budget_per_day, *age_seconds, uniform.age_seconds));
    }
    let oldest = target.warn_after.or(target.error_after);
    let oldest = oldest.map(|span| span.as_days() * 86_400.0);
    let now = plan.budget_per_day;
    let age = match curve(Gain::Age, &age, now, oldest) {
        none if none == Html::default() => {
            "Infinite for all of these budgets: some elements change and are never polled.".into()
        }
        drawn => drawn,
    };
    Html::joined(&[
        Html::lead("Freshness"),
        curve(Gain::Freshness, &freshness, now, target.freshness),
        Html::lead("Age"),
        age,
    ])
}

fn point_row(point: &view::WhatIf, plan: &PlanView) -> PointRow {
    let age = |name: &str, age: f64| still(name, Some(age), Format::Brief, "infinite");
    let share = |name: &str, share: f64| still(name, Some(share), Format::Percent, "");
    let budget = point.budget_per_day;
    PointRow {
        is_now: (budget / plan.budget_per_day - 1.0).abs() < 1e-9,
        budget: still("budget_per_day", Some(budget), Format::PerDay, ""),
        freshness: share("freshness", point.freshness),
        age: age("age_seconds", point.age_seconds),
        uniform: share("uniform.freshness", point.uniform.freshness),
        uniform_age: age("uniform.age_seconds", point.uniform.age_seconds),
    }
}

/// How often elements of a class change at least, a day, and what they are called.
const CLASSES: [(f64, &str); 5] = [
    (24.0, "hourly or more often"),
    (1.0, "daily or more often"),
    (1.0 / 7.0, "weekly"),
    (1.0 / 30.0, "monthly"),
    (0.0, "more rarely"),
];

/// What the present budget buys, and where its polls go.
pub(crate) struct BudgetEffect {
    plan: Option<PlanView>,
    /// Of each class, how many elements there are, and how many polls a day they get.
    classes: Option<[(u64, f64); CLASSES.len()]>,
    /// The same of each source, with what they give, in the long run.
    by_source: BTreeMap<SourceId, Share>,
}

/// What a source takes of the budget, and what that gives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Share {
    /// Elements that the budget is for.
    pub(crate) n_elements: u64,
    /// How often they are believed to change, a day, all together.
    pub(crate) changes_per_day: f64,
    /// How often they are polled; nothing if the policy keeps to no plan.
    pub(crate) polls_per_day: Option<f64>,
    /// How many of them are fresh then.
    pub(crate) n_fresh: Option<f64>,
}

impl BudgetEffect {
    /// What a source takes and gives, if anything is known of it.
    pub(crate) fn of(&self, source: SourceId) -> Option<Share> {
        self.by_source.get(&source).copied()
    }

    /// Polls a day of all sources.
    pub(crate) fn polls_per_day(&self) -> f64 {
        let shares = self.by_source.values();
        shares.filter_map(|share| share.polls_per_day).sum()
    }
}

/// Computes it, of all elements.
pub(crate) fn budget_effect(app: &Shared) -> Result<BudgetEffect, Problem> {
    let store = app.folder.store()?;
    let (settings, now) = (&app.current().settings, app.now());
    let sources = view::sources(&*store, settings, now)?;
    let plan = view::plan(&*store, settings, &sources, None, now)?;
    let outlook = app.latest_outlook()?;
    let outlook = outlook.lock().unwrap_or_else(PoisonError::into_inner);
    let polled = outlook.polled();
    let mut classes = outlook.plan().map(|_| [(0_u64, 0.0); CLASSES.len()]);
    let mut by_source: BTreeMap<SourceId, Share> = BTreeMap::new();
    let elements = polled
        .sources
        .iter()
        .zip(&polled.rates)
        .zip(&polled.weights);
    // Where nothing is known, rates are what is usual, which says nothing.
    for ((source, rate), weight) in elements.filter(|_| polled.n_known > 0) {
        let share = by_source.entry(*source).or_default();
        share.n_elements += 1;
        share.changes_per_day += rate.as_per_day();
        let (Some(plan), Some(classes)) = (outlook.plan(), &mut classes) else {
            continue;
        };
        let frequency = plan.frequency(*rate, *weight, Cost::ONE, None);
        let class = (CLASSES.iter()).position(|(least, _)| rate.as_per_day() >= *least);
        let (n, per_day) = &mut classes[class.unwrap_or(CLASSES.len() - 1)];
        *n += 1;
        *per_day += frequency.as_per_day();
        *share.polls_per_day.get_or_insert(0.0) += frequency.as_per_day();
        *share.n_fresh.get_or_insert(0.0) += expected_freshness(*rate, frequency, Order::Fixed);
    }
    Ok(BudgetEffect {
        plan,
        classes,
        by_source,
    })
}

/// Where the polls of the present plan go, by how often elements change.
fn classes(effect: &BudgetEffect) -> Vec<ClassRow> {
    let Some(sums) = effect.classes else {
        return Vec::new();
    };
    let all: f64 = sums.iter().map(|(_, per_day)| per_day).sum();
    let row = |((_, name), (n, per_day)): (&(f64, &'static str), (u64, f64))| ClassRow {
        name,
        n: view::count(n as usize),
        per_day: view::per_day(per_day),
        bar: bar(per_day / all.max(f64::MIN_POSITIVE)),
    };
    CLASSES.iter().zip(sums).map(row).collect()
}
