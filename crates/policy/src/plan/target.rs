use super::candidates::{Candidates, Members};
use super::level::{Level, find};
use super::solve::Solver;
use super::{Plan, RulePolicy};
use crate::numeric::solve_share;
use crate::report::{Report, report};
use crate::{Caps, Error, Order, Span};

/// A freshness or an age to be reached, as the weighted mean over all elements
/// whose polls are spaced in an order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    wanted: Wanted,
    order: Order,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Wanted {
    Freshness(f64),
    Age(f64),
}

/// That no budget reaches a target, and what the largest would give.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("no budget reaches this target")]
pub struct Unreachable {
    /// The freshness that no budget passes.
    pub freshness: f64,
    /// The age that no budget goes below.
    pub age: Span,
}

impl Target {
    /// At least this freshness.
    ///
    /// # Errors
    /// If it is not between 0 and 1.
    pub fn freshness(freshness: f64, order: Order) -> Result<Self, Error> {
        if (0.0..=1.0).contains(&freshness) {
            let wanted = Wanted::Freshness(freshness);
            Ok(Self { wanted, order })
        } else {
            Err(Error::Freshness(freshness))
        }
    }

    /// At most this age.
    pub fn age(age: Span, order: Order) -> Self {
        let wanted = Wanted::Age(age.0);
        Self { wanted, order }
    }

    /// What is to be brought down: the odds of being stale, or the age.
    fn distance(&self, report: &Report) -> f64 {
        match self.wanted {
            // The odds of being stale, which keep their digits for low targets and for
            // high ones.
            Wanted::Freshness(_) => (1.0 - report.freshness) / report.freshness,
            Wanted::Age(_) => report.age.0,
        }
    }

    /// How far down.
    fn limit(&self) -> f64 {
        match self.wanted {
            Wanted::Freshness(freshness) => (1.0 - freshness) / freshness,
            Wanted::Age(days) => days,
        }
    }
}

/// The plan with the least budget that reaches the target.
pub(super) fn least(
    policy: &RulePolicy,
    candidates: &Candidates<'_>,
    caps: &Caps,
    target: Target,
) -> Result<Plan, Unreachable> {
    let members = Members::new(candidates, caps);
    let solver = Solver::new(*policy, candidates, &members);
    let limit = target.limit();
    let reached = |plan: &Plan| {
        let distance = target.distance(&report(plan, candidates, target.order));
        // No weight at all: any plan will do.
        distance <= limit || distance.is_nan()
    };

    let floor = solver.at(Level::TOP, solver.least());
    if reached(&floor) {
        return Ok(floor);
    }
    let most = solver.at(Level::exactly(LOWEST), f64::MAX);
    if !reached(&most) || limit == 0.0 {
        let best = report(&most, candidates, target.order);
        return Err(Unreachable {
            freshness: best.freshness,
            age: best.age,
        });
    }
    let distance = |level| {
        let plan = solver.at(level, 0.0);
        target.distance(&report(&plan, candidates, target.order))
    };
    // One over the distance falls with the level and is nearly a power of it.
    let mut level = find(1.0 / limit, Level::exactly(1.0), |level| {
        1.0 / distance(Level::exactly(level))
    });
    if let Level::At { low, high, .. } = level
        && low < high
    {
        let at = |share| Level::At { low, high, share };
        level = at(solve_share(-limit, |share| -distance(at(share))));
    }
    // The search ends within its tolerance on either side; a target is reached from
    // the generous one.
    if let Level::At { low, high, .. } = level
        && low == high
    {
        let nudges =
            [0.0, 1e-15, 1e-14, 1e-13, 1e-12].map(|nudge| Level::exactly(low * (1.0 - nudge)));
        level = nudges
            .into_iter()
            .find(|&level| distance(level) <= limit)
            .unwrap_or(level);
    }
    let plan = solver.at(level, 0.0);
    let used = report(&plan, candidates, target.order).used_per_day;
    Ok(Plan {
        budget: used,
        ..plan
    })
}

/// A level at which everybody is polled all the time.
const LOWEST: f64 = 1e-150;
