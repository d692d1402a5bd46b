//! What a budget would buy: the project's own plan.

use serde::Serialize;
use springtide_policy::plan::{Candidates, Policy, Rule, RulePolicy, Target};
use springtide_policy::report::report;
use springtide_policy::{Budget, Caps, Objective, Order};
use springtide_store::{Moment, Reader, Source};

use super::{Outlook, floor, predicted, present_policy};
use crate::Error;
use crate::settings::Settings;

/// The project's own plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanView {
    /// The budget that it is for.
    pub budget_per_day: f64,
    /// The freshness to expect. For the present budget that is the one of now, which
    /// `status` predicts; for another, what it gives in the long run.
    pub freshness: f64,
    /// The lower end of its 90 % interval; nothing for another budget.
    pub predicted_low: Option<f64>,
    /// Its upper end.
    pub predicted_high: Option<f64>,
    /// The age to expect, in the same way.
    pub age_seconds: f64,
    /// What the budget gives in the long run.
    pub long_run: Reached,
    /// What polling all elements alike gives in the long run.
    pub uniform: Reached,
    /// What budgets around this one would give in the long run.
    pub curve: Vec<WhatIf>,
}

/// The project's own plan for a budget, or for the present one; `None` if nothing is known
/// of any element.
///
/// # Errors
/// If the store cannot be read, or if the budget is negative or not finite.
pub fn plan(
    store: &dyn Reader,
    settings: &Settings,
    sources: &[Source],
    budget: Option<f64>,
    now: Moment,
) -> Result<Option<PlanView>, Error> {
    let outlook = Outlook::read(store, settings, now, &mut || {})?;
    if outlook.polled().n_known == 0 {
        return Ok(None);
    }
    let candidates = outlook.polled().candidates()?;
    let policy = present_policy(settings).unwrap_or_else(|| {
        RulePolicy::new(Rule::Optimal(settings.policy.objective)).with_floor(floor(settings))
    });
    let per_day = budget.unwrap_or(settings.budget.per_day);
    let budgets = FACTORS.map(|factor| factor * per_day);
    let curve = what_if(&candidates, policy, Order::Fixed, budgets)?;
    let point = what_if(&candidates, policy, Order::Fixed, [per_day])?[0];
    let predicted = match budget {
        None => predicted(store, settings, sources, now)?,
        Some(_) => None,
    };
    let fresh = predicted.map(|predicted| predicted.freshness);
    let age = predicted.map(|predicted| predicted.age.as_days() * SECONDS_PER_DAY);
    Ok(Some(PlanView {
        budget_per_day: per_day,
        freshness: fresh.map_or(point.freshness, |fresh| fresh.share),
        predicted_low: fresh.map(|fresh| fresh.low),
        predicted_high: fresh.map(|fresh| fresh.high),
        age_seconds: age.unwrap_or(point.age_seconds),
        long_run: Reached {
            freshness: point.freshness,
            age_seconds: point.age_seconds,
        },
        uniform: point.uniform,
        curve,
    }))
}

/// The least budget, in polls a day, that reaches a target in the long run: its freshness,
/// and its age by the plan with the least age. Nothing if none does, or nothing is known, or
/// nothing is wanted.
///
/// # Errors
/// If the store cannot be read.
pub fn budget_for(
    store: &dyn Reader,
    settings: &Settings,
    target: super::Target,
    now: Moment,
) -> Result<Option<f64>, Error> {
    let policy = present_policy(settings)
        .unwrap_or_else(|| RulePolicy::new(Rule::Optimal(Objective::Freshness)));
    let mut goals = Vec::new();
    if let Some(freshness) = target.freshness {
        goals.push((policy, Target::freshness(freshness, Order::Fixed)?));
    }
    if let Some(age) = target.error_after {
        // What is given up for the sake of freshness grows old for good.
        let policy = match policy.rule {
            Rule::Optimal(_) => RulePolicy {
                rule: Rule::Optimal(Objective::Age),
                ..policy
            },
            Rule::Uniform | Rule::Proportional => policy,
        };
        goals.push((policy, Target::age(age, Order::Fixed)));
    }
    let outlook = Outlook::read(store, settings, now, &mut || {})?;
    if goals.is_empty() || outlook.polled().n_known == 0 {
        return Ok(None);
    }
    let candidates = outlook.polled().candidates()?;
    let mut needed = Some(0.0_f64);
    for (policy, goal) in goals {
        let plan = policy.least(&candidates, &Caps::default(), goal).ok();
        let used = plan.map(|plan| report(&plan, &candidates, Order::Fixed).used_per_day);
        needed = needed.zip(used).map(|(needed, used)| needed.max(used));
    }
    Ok(needed)
}

const SECONDS_PER_DAY: f64 = 86_400.0;

/// What a budget gives in the long run, if rates are as believed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WhatIf {
    /// The budget.
    pub budget_per_day: f64,
    /// The mean freshness, by the weights of elements.
    pub freshness: f64,
    /// The mean age; null if an element that changes is never polled.
    pub age_seconds: f64,
    /// What polling all alike would give.
    pub uniform: Reached,
}

/// What a budget gives in the long run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reached {
    /// The mean freshness.
    pub freshness: f64,
    /// The mean age.
    pub age_seconds: f64,
}

/// The budgets around a given one that are looked at, as factors of it.
pub const FACTORS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

/// What a policy would give for these budgets.
///
/// # Errors
/// If a budget is negative or not finite.
pub fn what_if(
    candidates: &Candidates<'_>,
    policy: RulePolicy,
    order: Order,
    budgets: impl IntoIterator<Item = f64>,
) -> Result<Vec<WhatIf>, springtide_policy::Error> {
    let reached = |policy: RulePolicy, budget: &Budget| {
        let report = report(&policy.plan(candidates, budget), candidates, order);
        Reached {
            freshness: report.freshness,
            age_seconds: report.age.as_days() * SECONDS_PER_DAY,
        }
    };
    let uniform = RulePolicy {
        rule: Rule::Uniform,
        ..policy
    };
    let points = budgets.into_iter().map(|per_day| {
        let budget = Budget::per_day(per_day)?;
        let Reached {
            freshness,
            age_seconds,
        } = reached(policy, &budget);
        Ok(WhatIf {
            budget_per_day: per_day,
            freshness,
            age_seconds,
            uniform: reached(uniform, &budget),
        })
    });
    points.collect()
}
