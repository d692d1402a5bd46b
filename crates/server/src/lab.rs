//! The simulator on the project's own estimated world: what other policies and budgets
//! would give. One experiment at a time, in the background, bounded, and ended when asked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use springtide_policy::plan::Rule;
use springtide_policy::schedule::{Choice, Terms};
use springtide_policy::{Budget, Elements, Groups, Objective, Order, Rate, Weight, Window};
use springtide_sim::world::World;
use springtide_sim::{Setup, run};

use crate::app::Shared;
use crate::problem::Problem;

/// Elements of a world. Of more, evenly spaced ones stand for those around them.
const MOST_ELEMENTS: usize = 2000;
/// Polls of an experiment, over all days; a longer one is cut short.
const MOST_POLLS: f64 = 1_000_000.0;
/// The share of the days that is not measured: what learns has to learn first.
pub(crate) const WARMUP: f64 = 0.3;
/// The same for everybody who compares.
const SEED: u64 = 1;

/// Cases that are compared at a time.
pub(crate) const MOST_CASES: usize = 24;

/// The policies that may be compared, and what they are.
pub(crate) const POLICIES: [(&str, &str); 4] = [
    ("learned", "springtide, which knows nothing at the start"),
    ("uniform", "every element as often as any other"),
    ("proportional", "what changes more is polled more"),
    ("optimal", "the best there is, if all rates were known"),
];

/// Where experiments are made.
#[derive(Default)]
pub(crate) struct Lab {
    latest: Mutex<Option<Arc<Experiment>>>,
}

/// An experiment, over or under way.
pub(crate) struct Experiment {
    /// What is compared.
    pub(crate) cases: Vec<Case>,
    pub(crate) days: f64,
    pub(crate) n_elements: usize,
    /// Elements of the project that each of those stands for.
    pub(crate) n_alike: f64,
    n_expected: f64,
    n_polls: AtomicU64,
    is_cancelled: AtomicBool,
    is_over: AtomicBool,
    results: Mutex<Vec<LabResult>>,
}

/// A policy with a budget, which is spent within some hours of the day or at any.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    pub(crate) policy: &'static str,
    pub(crate) budget_per_day: f64,
    /// With the words for it.
    pub(crate) window: Option<(String, Window)>,
}

/// What a case gave.
#[derive(Debug, Clone)]
pub(crate) struct LabResult {
    pub(crate) case: Case,
    pub(crate) freshness: f64,
    pub(crate) age_seconds: f64,
    pub(crate) change_ratio: f64,
}

impl Lab {
    pub(crate) fn latest(&self) -> Option<Arc<Experiment>> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.clone()
    }

    pub(crate) fn cancel(&self) {
        if let Some(experiment) = self.latest() {
            experiment.is_cancelled.store(true, Ordering::Relaxed);
        }
    }
}

impl Experiment {
    pub(crate) fn results(&self) -> Vec<LabResult> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.clone()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// How far it has come, from 0 to 1.
    pub(crate) fn progress(&self) -> f64 {
        let n_polls = self.n_polls.load(Ordering::Relaxed) as f64;
        (n_polls / self.n_expected.max(1.0)).min(1.0)
    }
}

/// Begins an experiment on what is believed of the project's elements now.
pub(crate) async fn begin(app: &Shared, cases: Vec<Case>, days: f64) -> Result<(), Problem> {
    if app.lab.latest().is_some_and(|latest| !latest.is_over()) {
        return Err(
            Problem::new(StatusCode::CONFLICT, "an experiment is under way")
                .hint("wait until it is over, or stop it"),
        );
    }
    let outlook = app.outlook().await?;
    let (rates, weights, n_all) = {
        let outlook = outlook.lock().unwrap_or_else(PoisonError::into_inner);
        let polled = outlook.polled();
        if polled.n_known == 0 {
            return Err(Problem::new(
                StatusCode::CONFLICT,
                "no poll has shown yet how often anything changes",
            )
            .hint("come again when everything was polled twice"));
        }
        let step = polled.rates.len().div_ceil(MOST_ELEMENTS).max(1);
        let rates: Vec<Rate> = polled.rates.iter().step_by(step).copied().collect();
        let weights: Vec<Weight> = polled.weights.iter().step_by(step).copied().collect();
        (rates, weights, polled.rates.len())
    };
    let n_alike = n_all as f64 / rates.len() as f64;
    let largest = cases
        .iter()
        .map(|case| case.budget_per_day)
        .fold(0.0, f64::max);
    let days = days.min(MOST_POLLS / (largest / n_alike));
    let bad = |error: springtide_policy::Error| Problem::unprocessable(error.to_string());
    let budgets = cases
        .iter()
        .map(|case| Budget::per_day(case.budget_per_day / n_alike));
    let budgets: Vec<Budget> = budgets.collect::<Result<_, _>>().map_err(bad)?;
    let per_day: f64 = cases.iter().map(|case| case.budget_per_day / n_alike).sum();
    let experiment = Arc::new(Experiment {
        n_expected: per_day * days,
        cases,
        days,
        n_elements: rates.len(),
        n_alike,
        n_polls: AtomicU64::new(0),
        is_cancelled: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
        results: Mutex::default(),
    });
    let latest = Some(Arc::clone(&experiment));
    *app.lab
        .latest
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = latest;
    // Beside those that read the store, so that nobody waits for it.
    tokio::task::spawn_blocking(move || {
        carry_out(&experiment, rates, weights, &budgets);
        experiment.is_over.store(true, Ordering::Relaxed);
    });
    Ok(())
}

fn carry_out(experiment: &Experiment, rates: Vec<Rate>, weights: Vec<Weight>, budgets: &[Budget]) {
    let elements = Elements::from_columns(rates.len(), weights, Vec::new(), Vec::new());
    let world = World::poisson(elements, Groups::new(), rates, experiment.days, SEED);
    for (case, budget) in experiment.cases.iter().zip(budgets) {
        if experiment.is_cancelled() {
            return;
        }
        let planned = |rule| Choice::Planned {
            rule,
            order: Order::Fixed,
            rates: world.rates(),
        };
        let choice = match case.policy {
            "uniform" => planned(Rule::Uniform),
            "proportional" => planned(Rule::Proportional),
            "optimal" => planned(Rule::Optimal(Objective::Freshness)),
            _ => Choice::Learned,
        };
        let terms = Terms {
            window: case.window.as_ref().map(|(_, window)| *window),
            ..Terms::new(budget.clone())
        };
        let setup = Setup {
            warmup: experiment.days * WARMUP,
            seed: SEED,
            ..Setup::new(choice, terms)
        };
        let measured = run(&world, &setup, &mut |_| {
            experiment.n_polls.fetch_add(1, Ordering::Relaxed);
        })
        .all;
        let mut results = experiment
            .results
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        results.push(LabResult {
            case: case.clone(),
            freshness: measured.freshness,
            age_seconds: measured.age_days * 86_400.0,
            change_ratio: measured.change_ratio,
        });
    }
}
