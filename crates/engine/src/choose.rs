//! The policy that the settings name, and the pace of their budget.

use std::sync::Arc;

use springtide_policy::agenda::{self, Pace};
use springtide_policy::in_use::InUse;
use springtide_policy::plan::Rule;
use springtide_policy::sample::{Sampling, Settings as Sample};
use springtide_policy::schedule::{Choice, Shadow, Terms};
use springtide_policy::{Budget, Order, Time};

use crate::Error;
use crate::settings::{BudgetSettings, PolicyName, Settings};

/// How polls are chosen, and on what terms.
pub(crate) fn policy(settings: &Settings) -> Result<(Choice, Terms), Error> {
    let policy = &settings.policy;
    let planned = |rule| Choice::Planned {
        rule,
        order: Order::Fixed,
        rates: Arc::from([]),
    };
    let sampled = |sampling| -> Result<Choice, Error> {
        Ok(Choice::Sampled(sampling, Sample::new(policy.cycle)?))
    };
    let choice = match &policy.name {
        PolicyName::Learned => Choice::Learned,
        PolicyName::Uniform => planned(Rule::Uniform),
        PolicyName::Proportional => planned(Rule::Proportional),
        PolicyName::Optimal => planned(Rule::Optimal(policy.objective)),
        PolicyName::RoundRobin => sampled(Sampling::RoundRobin)?,
        PolicyName::SampleProportional => sampled(Sampling::Proportional)?,
        PolicyName::SampleGreedy => sampled(Sampling::Greedy)?,
        PolicyName::SampleAdaptive => sampled(Sampling::Adaptive)?,
        PolicyName::RoundRobinGreedy => sampled(Sampling::RoundRobinGreedy)?,
        PolicyName::Frequency => sampled(Sampling::Frequency)?,
        PolicyName::Nutch => Choice::InUse(InUse::Nutch),
        PolicyName::StormCrawler => Choice::InUse(InUse::StormCrawler),
        PolicyName::Miniflux => Choice::InUse(InUse::Miniflux),
        PolicyName::FixedInterval => Choice::InUse(InUse::FixedInterval),
        PolicyName::Custom(custom) => Choice::Custom(custom.clone()),
    };
    let terms = Terms {
        objective: policy.objective,
        max_interval: policy.max_interval,
        // The pace keeps to the window.
        window: None,
        shadow: Shadow::Learner,
        ..Terms::new(Budget::per_day(settings.budget.per_day)?)
    };
    Ok((choice, terms))
}

/// The pace of a budget, as it was left according to what was remembered of it.
pub(crate) fn pace(budget: &BudgetSettings, remembered: Option<&[u8]>, at: Time) -> Pace {
    let burst = budget.burst.map(|burst| agenda::Burst {
        n_polls: burst.n_polls,
        span: burst.span,
    });
    let mut pace = Pace::new(budget.per_day, budget.window, burst, at);
    if let Some(bytes) = remembered {
        pace.recall(bytes, at);
    }
    pace
}
