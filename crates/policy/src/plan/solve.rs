use crate::parallel::*;

use super::candidates::{BLOCK, Buffer, Candidates, Listing, Members};
use super::digest::Digest;
use super::level::{Level, find, tally};
use super::{Plan, Rule, RulePolicy};
use crate::GroupId;
use crate::numeric::solve_share;

/// Elements per unit of parallel work. Sums are taken per unit and then in order,
/// so that the result does not depend on the number of threads.
pub(super) const CHUNK: usize = 32 * BLOCK;

/// No more elements than this are solved as they are. Of more, so many are taken
/// for a sample first.
const SAMPLE: usize = 1 << 14;

/// Budgets and floors closer than this are the same.
const ROUNDING: f64 = 1e-12;

/// Elements that share a budget, parted by the caps they fall under.
pub(super) struct Solver<'a> {
    policy: RulePolicy,
    candidates: &'a Candidates<'a>,
    rest: Part<'a>,
    capped: Vec<Capped<'a>>,
}

/// Some of the elements.
#[derive(Clone, Copy)]
struct Part<'a> {
    listing: &'a Listing,
    /// Σ cost.
    total_cost: f64,
    /// Whether anybody here can use a poll.
    in_use: bool,
}

/// Elements under a cap.
struct Capped<'a> {
    group: GroupId,
    cap: f64,
    part: Part<'a>,
    /// Where they spend just the cap; idle if they never do.
    level: Level,
}

impl<'a> Solver<'a> {
    pub(super) fn new(
        policy: RulePolicy,
        candidates: &'a Candidates<'a>,
        members: &'a Members,
    ) -> Self {
        let part = |listing| Part::new(policy.rule, candidates, listing);
        let capped = members.capped.par_iter().map(|(group, cap, listing)| {
            let part = part(listing);
            let alone = Self {
                policy,
                candidates,
                rest: part,
                capped: Vec::new(),
            };
            Capped {
                group: *group,
                cap: *cap,
                part,
                level: alone
                    .level(*cap)
                    .unwrap_or(Level::Even(*cap / part.total_cost)),
            }
        });
        Self {
            policy,
            candidates,
            rest: part(&members.rest),
            capped: capped.collect(),
        }
    }

    /// The plan that spends this budget; `None` if it does not pay for the floor.
    pub(super) fn spend(&self, budget: f64) -> Option<Plan> {
        self.level(budget).map(|level| self.at(level, budget))
    }

    /// The plan at a level, whatever that spends.
    pub(super) fn at(&self, level: Level, budget: f64) -> Plan {
        let full = self.capped.iter();
        let full = full.filter(|capped| level.gives_more_than(capped.level));
        Plan {
            policy: self.policy,
            budget,
            level,
            capped: full.map(|capped| (capped.group, capped.level)).collect(),
        }
    }

    /// What the floor takes; nothing can be had for less.
    pub(super) fn least(&self) -> f64 {
        let floor = self.policy.floor.0;
        let capped = self.capped.iter();
        let capped = capped.map(|capped| capped.cap.min(floor * capped.part.total_cost));
        floor * self.rest.total_cost + capped.sum::<f64>()
    }

    /// The most that can be spent.
    fn most(&self) -> f64 {
        let floor = self.policy.floor.0;
        let most = |part: &Part<'_>| {
            if part.in_use {
                f64::INFINITY
            } else {
                floor * part.total_cost
            }
        };
        let capped = self.capped.iter();
        let capped = capped.map(|capped| capped.cap.min(most(&capped.part)));
        most(&self.rest) + capped.sum::<f64>()
    }

    /// The level at which this budget is spent; `None` if it does not pay for the
    /// floor.
    fn level(&self, budget: f64) -> Option<Level> {
        let least = self.least();
        if least > budget * (1.0 + ROUNDING) {
            None
        } else if budget >= self.most() {
            Some(Level::Idle)
        } else if least >= budget * (1.0 - ROUNDING) {
            Some(Level::TOP)
        } else {
            Some(match self.search(budget) {
                Level::At { low, high, .. } if low < high => self.blend(low, high, budget),
                level => level,
            })
        }
    }

    /// The level between two neighbours at which a budget is spent, where groups
    /// may reach their caps on the way.
    fn blend(&self, low: f64, high: f64, budget: f64) -> Level {
        let ends = |part: &Part<'_>| {
            let end = |level| demand(self.policy, self.candidates, part.listing, level);
            (end(low), end(high))
        };
        let capped: Vec<_> = self.capped.iter().map(|c| (c.cap, ends(&c.part))).collect();
        let rest = ends(&self.rest);
        let mean =
            |share: f64, (at_low, at_high): (f64, f64)| share * at_low + (1.0 - share) * at_high;
        let share = solve_share(budget, |share| {
            let capped = capped.iter().map(|&(cap, ends)| mean(share, ends).min(cap));
            mean(share, rest) + capped.sum::<f64>()
        });
        Level::At { low, high, share }
    }

    /// The level at which a budget is spent that pays for the floor and can be
    /// used.
    fn search(&self, budget: f64) -> Level {
        let is_long = |part: &Part<'_>| part.listing.len() > SAMPLE;
        let objective = match self.policy.rule {
            // A floor depends on the element, not just on its quotient.
            Rule::Optimal(objective)
                if self.policy.floor.0 == 0.0 && self.parts().any(|part| is_long(&part)) =>
            {
                objective
            }
            _ => return find(budget, Level::exactly(1.0), |level| self.demand(level, &[])),
        };
        let shorten = |short: &dyn Fn(&Listing) -> Digest| -> Vec<Option<Digest>> {
            let long = |part: Part<'a>| is_long(&part).then(|| short(part.listing));
            self.parts().map(long).collect()
        };
        let candidates = self.candidates;
        // First on samples, then on digests made for the level found there, until
        // one is found at which they hold.
        let samples = shorten(&|listing| Digest::sample(objective, candidates, listing, SAMPLE));
        let mut level = find(budget, Level::exactly(1.0), |level| {
            self.demand(level, &samples)
        });
        for _ in 0..4 {
            let Level::At { low: guess, .. } = level else {
                break;
            };
            let digests = shorten(&|listing| Digest::new(objective, candidates, listing, guess));
            level = find(budget, level, |level| self.demand(level, &digests));
            if digests
                .iter()
                .flatten()
                .all(|digest| digest.holds_at(level))
            {
                return level;
            }
        }
        find(budget, level, |level| self.demand(level, &[]))
    }

    /// What all elements get together at a level, times their costs: by the
    /// digests of the parts that have one.
    fn demand(&self, level: f64, digests: &[Option<Digest>]) -> f64 {
        let of_part = |index: usize, part: &Part<'_>| match digests.get(index) {
            Some(Some(digest)) => digest.demand(level),
            _ => demand(self.policy, self.candidates, part.listing, level),
        };
        let capped = self.capped.par_iter().enumerate().map(|(index, capped)| {
            if Level::exactly(level).gives_more_than(capped.level) {
                capped.cap
            } else {
                of_part(1 + index, &capped.part)
            }
        });
        of_part(0, &self.rest) + capped.collect::<Vec<f64>>().iter().sum::<f64>()
    }

    fn parts(&self) -> impl Iterator<Item = Part<'a>> + '_ {
        std::iter::once(self.rest).chain(self.capped.iter().map(|capped| capped.part))
    }
}

impl<'a> Part<'a> {
    fn new(rule: Rule, candidates: &Candidates<'_>, listing: &'a Listing) -> Self {
        let can_use = |position: usize| {
            let index = listing.index(position);
            let (rate, weight) = (candidates.rate(index).0, candidates.weight(index).0);
            match rule {
                Rule::Uniform => true,
                Rule::Proportional => rate > 0.0,
                Rule::Optimal(_) => rate > 0.0 && weight > 0.0,
            }
        };
        let total_cost = if candidates.has_costs() {
            let cost = |position| candidates.cost(listing.index(position)).0;
            let sums = per_chunk(listing, |range| range.map(cost).sum::<f64>());
            sums.iter().sum()
        } else {
            listing.len() as f64
        };
        Self {
            listing,
            total_cost,
            in_use: (0..listing.len()).any(can_use),
        }
    }
}

/// What the listed elements get together at a level, times their costs.
fn demand(policy: RulePolicy, candidates: &Candidates<'_>, listing: &Listing, level: f64) -> f64 {
    let sums = per_chunk(listing, |range| {
        let mut buffer = Buffer::new(range.len());
        let mut sum = 0.0;
        for start in range.clone().step_by(BLOCK) {
            let range = start..range.end.min(start + BLOCK);
            let block = listing.block(candidates, range, &mut buffer);
            sum += tally(policy, block, level);
        }
        sum
    });
    sums.iter().sum()
}

/// Something for each chunk of a list, in its order.
fn per_chunk<T: Send>(
    listing: &Listing,
    work: impl Fn(std::ops::Range<usize>) -> T + Sync,
) -> Vec<T> {
    let n = listing.len();
    (0..n.div_ceil(CHUNK))
        .into_par_iter()
        .map(|chunk| work(chunk * CHUNK..n.min((chunk + 1) * CHUNK)))
        .collect()
}
