//! Plans: how often to poll each element.
//!
//! Every policy here is a rule that gives an element's frequency at a *level*,
//! one number for all elements: the higher it is, the less anyone gets. For the
//! optimal policies the level is the price of a poll; for the others it only
//! scales. A plan is the level at which the budget is spent, so that is all it
//! has to hold, and it can be asked for the frequency of any element at any
//! time.
//!
//! Caps and floors are small changes to the same rule. A group whose share at
//! the common level would pass its cap keeps a (higher) level of its own, at
//! which it spends just the cap. A floor replaces any frequency below it.

mod candidates;
mod digest;
mod level;
mod rule;
mod solve;
mod target;

pub use candidates::Candidates;
pub use rule::Rule;
pub use target::{Target, Unreachable};

use crate::parallel::*;

use crate::{Budget, Caps, Cost, Frequency, GroupId, Rate, Weight};
use candidates::{BLOCK, Buffer, Members};
use level::Level;
use solve::{CHUNK, Solver};

/// Something that turns candidates and a budget into a plan.
pub trait Policy {
    /// The plan that spends the budget on these candidates.
    ///
    /// All of the budget is spent if any candidate can use it. Nobody can use a
    /// poll who never changes or whose weight is zero (but uniform polling polls
    /// them all the same); where every candidate is at its cap, the rest of the
    /// budget is left.
    fn plan(&self, candidates: &Candidates<'_>, budget: &Budget) -> Plan;
}

/// A rule with a floor under it: the policies of the papers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RulePolicy {
    /// How the budget is shared.
    pub rule: Rule,
    /// No element is polled less often than this. Where a budget, or a group's
    /// cap, does not allow it, all elements concerned get the same frequency.
    pub floor: Frequency,
}

impl RulePolicy {
    /// The rule without a floor.
    pub fn new(rule: Rule) -> Self {
        Self {
            rule,
            floor: Frequency::ZERO,
        }
    }

    /// The same with a floor.
    #[must_use]
    pub fn with_floor(self, floor: Frequency) -> Self {
        Self { floor, ..self }
    }

    /// The plan with the least budget that reaches the target; the caps hold.
    ///
    /// # Errors
    /// If no budget reaches it: an element that changes is never always fresh,
    /// and a capped group is only as fresh as its cap allows.
    pub fn least(
        &self,
        candidates: &Candidates<'_>,
        caps: &Caps,
        target: Target,
    ) -> Result<Plan, Unreachable> {
        target::least(self, candidates, caps, target)
    }
}

impl Policy for RulePolicy {
    fn plan(&self, candidates: &Candidates<'_>, budget: &Budget) -> Plan {
        let members = Members::new(candidates, budget.caps());
        let spend = |policy| Solver::new(policy, candidates, &members).spend(budget.as_per_day());
        spend(*self)
            .or_else(|| spend(Self::new(Rule::Uniform)))
            .expect("without a floor every budget suffices")
    }
}

/// A frequency for every element.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    policy: RulePolicy,
    budget: f64,
    level: Level,
    /// The groups that spend their cap, with the levels at which they do, sorted.
    capped: Vec<(GroupId, Level)>,
}

impl Plan {
    /// The frequency of one element.
    pub fn frequency(
        &self,
        rate: Rate,
        weight: Weight,
        cost: Cost,
        group: Option<GroupId>,
    ) -> Frequency {
        let mut buffer = Buffer::new(1);
        let mut frequency = [Frequency::ZERO];
        let level = self.level_of(group);
        level.write(self.policy, buffer.one(rate, weight, cost), &mut frequency);
        frequency[0]
    }

    /// The frequencies of all candidates, in their order.
    pub fn frequencies(&self, candidates: &Candidates<'_>) -> Vec<Frequency> {
        let mut frequencies = vec![Frequency::ZERO; candidates.len()];
        self.write_frequencies(candidates, 0, &mut frequencies);
        frequencies
    }

    /// Writes the frequencies of the candidates from number `first` on, as many
    /// as there is room for.
    ///
    /// # Panics
    /// If there is room for more candidates than there are.
    pub fn write_frequencies(
        &self,
        candidates: &Candidates<'_>,
        first: usize,
        frequencies: &mut [Frequency],
    ) {
        let write = |first: usize, frequencies: &mut [Frequency]| {
            let mut buffer = Buffer::new(frequencies.len());
            for (index, frequencies) in frequencies.chunks_mut(BLOCK).enumerate() {
                let range = first + index * BLOCK..first + index * BLOCK + frequencies.len();
                let block = buffer.range(candidates, range.clone());
                self.level.write(self.policy, block, frequencies);
                if self.capped.is_empty() {
                    continue;
                }
                for (index, frequency) in range.zip(frequencies) {
                    let group = candidates.group(index);
                    if let Some(level) = group.and_then(|group| self.level_of_capped(group)) {
                        let block = buffer.range(candidates, index..index + 1);
                        level.write(self.policy, block, std::slice::from_mut(frequency));
                    }
                }
            }
        };
        frequencies
            .par_chunks_mut(CHUNK)
            .enumerate()
            .for_each(|(index, frequencies)| write(first + index * CHUNK, frequencies));
    }

    /// The budget a day that was given or found.
    pub fn budget_per_day(&self) -> f64 {
        self.budget
    }

    /// What a further unit of budget would add to Σ weight · value: μ.
    ///
    /// `None` for rules that do not go by value, where a floor leaves no choice,
    /// and for an empty budget, where a price nobody pays has no upper end. Zero
    /// if no element can use more.
    pub fn price(&self) -> Option<f64> {
        match (self.policy.rule, self.level) {
            (Rule::Optimal(_), Level::At { low, .. }) if low < f64::INFINITY => Some(low),
            (Rule::Optimal(_), Level::Idle) => Some(0.0),
            _ => None,
        }
    }

    fn level_of(&self, group: Option<GroupId>) -> Level {
        group
            .and_then(|group| self.level_of_capped(group))
            .unwrap_or(self.level)
    }

    /// The level of a group that spends its cap.
    fn level_of_capped(&self, group: GroupId) -> Option<Level> {
        let index = self
            .capped
            .binary_search_by_key(&group, |&(group, _)| group);
        index.ok().map(|index| self.capped[index].1)
    }
}
