//! What is to come: how often each element is polled at the present budget, and when
//! next.

use std::collections::HashSet;

use springtide_policy::agenda::Pace;
use springtide_policy::plan::{Candidates, Plan, Policy, Rule, RulePolicy};
use springtide_policy::{Budget, Cost, Frequency, Rate, Time, Weight};
use springtide_store::{
    Brief, ElementId, Error, History, MemoryOf, Moment, Partition, Reader, Role, SourceId, State,
};

use super::beliefs::{BeliefInput, Beliefs, Held};
use crate::settings::{PolicyName, Settings};
use crate::{choose, clock};

/// What is to come of all elements: the plan for the present budget, and the queue of
/// due times. It takes a look at each element, so it is made once and asked for many.
pub struct Outlook {
    now: Moment,
    pub(super) beliefs: Beliefs,
    polled: PolledElements,
    plan: Option<Plan>,
    due: DueTimes,
}

/// The elements that the budget is for, in columns, and how many it is not for.
#[derive(Debug, Default)]
pub struct PolledElements {
    /// Their numbers.
    pub ids: Vec<ElementId>,
    /// Which source each is of.
    pub sources: Vec<SourceId>,
    /// How often each changes: the mean of what is believed. Before two polls that is what
    /// is usual around it, and before the first what is usual among all.
    pub rates: Vec<Rate>,
    /// How much each matters.
    pub weights: Vec<Weight>,
    /// Those of them that were polled twice.
    pub n_known: u64,
    /// Rows of search sources: they come many to a request, so a plan of polls says
    /// nothing of them.
    pub n_rows: u64,
    /// Entries of feeds, which come many to a request too.
    pub n_entries: u64,
}

impl PolledElements {
    fn push(&mut self, (id, source): (ElementId, SourceId), rate: Rate, of_weight: f32) {
        self.ids.push(id);
        self.sources.push(source);
        self.rates.push(rate);
        self.weights.push(weight(of_weight));
    }

    /// The same as a plan wants them.
    ///
    /// # Errors
    /// If there are more than a 32-bit number can count.
    pub fn candidates(&self) -> Result<Candidates<'_>, springtide_policy::Error> {
        Candidates::new(&self.rates)?.with_weights(&self.weights)
    }
}

impl Outlook {
    /// Looks at all elements, telling `seen` of each.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn read(
        store: &dyn Reader,
        settings: &Settings,
        now: Moment,
        seen: &mut dyn FnMut(),
    ) -> Result<Self, Error> {
        let mut beliefs = Beliefs::new(store, settings, now)?;
        let mut groups = HashSet::new();
        store.scan(1, &mut |_, brief| {
            seen();
            if brief.history.synced_at.is_some() {
                groups.insert(brief.group);
            }
        })?;
        beliefs.prepare(store, groups)?;
        let mut polled = PolledElements::default();
        let (mut due, mut never) = (Vec::new(), Vec::new());
        store.scan(1, &mut |id, brief| {
            let held = beliefs.of(BeliefInput::from(brief));
            due.extend(held.and_then(|held| Some((held.due?, id))));
            let is_out = matches!(brief.state, State::Gone | State::Blocked);
            if brief.role == Role::Listing || is_out || !beliefs.is_wanted(brief.source) {
                return;
            }
            if brief.role == Role::Entry {
                polled.n_entries += 1;
                return;
            }
            if beliefs.is_search(brief.source) {
                polled.n_rows += 1;
                return;
            }
            match held.and_then(|held| Some((held, believed_rate(held)?))) {
                Some((held, rate)) => {
                    polled.n_known += u64::from(held.told.is_known);
                    polled.push((id, brief.source), rate, brief.weight);
                }
                None => never.push(((id, brief.source), brief.weight)),
            }
        })?;
        if let Some(usual) = mean(&polled.rates) {
            for (id, weight) in never {
                polled.push(id, usual, weight);
            }
        }
        let budget = Budget::per_day(settings.budget.per_day).ok();
        let plan = match (present_policy(settings), budget, polled.candidates()) {
            (Some(policy), Some(budget), Ok(candidates)) if polled.n_known > 0 => {
                Some(policy.plan(&candidates, &budget))
            }
            _ => None,
        };
        Ok(Self {
            now,
            beliefs,
            polled,
            plan,
            due: DueTimes::new(due, 1.0, &pace(store, settings, now)?, settings, now),
        })
    }

    /// The elements that the budget is for.
    pub fn polled(&self) -> &PolledElements {
        &self.polled
    }

    /// The same, for those who need nothing else.
    pub fn into_polled(self) -> PolledElements {
        self.polled
    }

    /// The plan for the present budget, by the present policy; `None` if nothing is
    /// known, or if the policy keeps to no plan.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// When an element is polled next.
    pub(super) fn due_at(&self, id: ElementId, brief: &Brief, held: &Held) -> Option<Moment> {
        if brief.history.synced_at > Some(self.now) {
            // Polled since, by a run beside us: its place in the queue is a new one.
            return held.due.and_then(clock::moment_of);
        }
        self.due.of(id)
    }

    /// How often an element is polled, a day, if its rate is known.
    pub(super) fn frequency(&self, brief: &Brief, held: &Held) -> Option<f64> {
        let rate = believed_rate(*held).filter(|_| held.told.is_known)?;
        let is_row = self.beliefs.is_search(brief.source) || brief.role == Role::Entry;
        match (&self.plan, brief.role) {
            // What a plan leaves out: listings, which are polled as the scheduler has
            // them due,
            (_, Role::Listing) => {
                let due_in = held.told.due_in.as_days();
                (due_in > 0.0 && due_in.is_finite()).then(|| 1.0 / due_in)
            }
            (Some(plan), _) if !is_row => {
                let weight = weight(brief.weight);
                let frequency = plan.frequency(rate, weight, Cost::ONE, None);
                Some(frequency.as_per_day())
            }
            // and rows of search sources, entries of feeds and whatever a policy without a
            // plan polls: as often as so far.
            _ => frequency_so_far(&brief.history),
        }
    }
}

/// How often an element is believed to change.
fn believed_rate(held: Held) -> Option<Rate> {
    Rate::per_day(held.told.belief.mean()).ok()
}

fn mean(rates: &[Rate]) -> Option<Rate> {
    let sum: f64 = rates.iter().map(|rate| rate.as_per_day()).sum();
    Rate::per_day(sum / rates.len() as f64).ok()
}

fn weight(weight: f32) -> Weight {
    Weight::new(decimal(weight)).unwrap_or(Weight::ONE)
}

/// The double that a short number is meant to be: 0.1, not 0.10000000149.
pub(super) fn decimal(number: f32) -> f64 {
    number
        .to_string()
        .parse()
        .unwrap_or_else(|_| f64::from(number))
}

/// How often an element has been polled, per day.
fn frequency_so_far(history: &History) -> Option<f64> {
    let (first, last) = (history.first_polled_at?, history.polled_at?);
    let days = clock::time(last).since(clock::time(first)).as_days();
    (days > 0.0).then(|| f64::from(history.n_polls.saturating_sub(1)) / days)
}

/// The plan that the settings come to in the long run: how the budget is shared, and the
/// frequency below which `max_interval` lets no element fall. `None` for policies that
/// go by rules of their own.
pub fn present_policy(settings: &Settings) -> Option<RulePolicy> {
    let rule = match &settings.policy.name {
        PolicyName::Learned | PolicyName::Optimal => Rule::Optimal(settings.policy.objective),
        PolicyName::Uniform | PolicyName::RoundRobin | PolicyName::FixedInterval => Rule::Uniform,
        PolicyName::Proportional => Rule::Proportional,
        PolicyName::SampleProportional
        | PolicyName::SampleGreedy
        | PolicyName::SampleAdaptive
        | PolicyName::RoundRobinGreedy
        | PolicyName::Frequency
        | PolicyName::Nutch
        | PolicyName::StormCrawler
        | PolicyName::Miniflux
        | PolicyName::Custom(_) => return None,
    };
    Some(RulePolicy::new(rule).with_floor(floor(settings)))
}

/// The frequency below which `max_interval` lets no element fall.
pub fn floor(settings: &Settings) -> Frequency {
    let longest = settings.policy.max_interval;
    longest
        .and_then(|longest| Frequency::per_day(1.0 / longest.as_days()).ok())
        .unwrap_or(Frequency::ZERO)
}

/// The pace of the budget, as the last run left it.
pub(super) fn pace(store: &dyn Reader, settings: &Settings, now: Moment) -> Result<Pace, Error> {
    let remembered = store.memory(MemoryOf::Pace(Partition::WHOLE))?;
    let at = clock::time(now);
    Ok(choose::pace(&settings.budget, remembered.as_deref(), at))
}

/// When elements are polled next, if all goes on as it is.
#[derive(Debug, Default)]
pub(super) struct DueTimes {
    /// By number.
    times: Vec<(ElementId, Moment)>,
}

impl DueTimes {
    /// The scheduler says when each is due; the budget says how many may be polled
    /// meanwhile, besides those that are drawn at random to measure freshness. If only a
    /// share of all elements is looked at, they have that share of the budget.
    pub(super) fn new(
        mut due: Vec<(Time, ElementId)>,
        share: f64,
        pace: &Pace,
        settings: &Settings,
        now: Moment,
    ) -> Self {
        let order = |a: &(Time, ElementId), b: &(Time, ElementId)| {
            let (a_days, b_days) = (a.0.as_days(), b.0.as_days());
            a_days.total_cmp(&b_days).then(a.1.cmp(&b.1))
        };
        due.sort_unstable_by(order);
        let mut times: Vec<Time> = due.iter().map(|&(due, _)| due).collect();
        let share = share * (1.0 - settings.budget.audit);
        pace.put_off(&mut times, share, clock::time(now));
        let mut times: Vec<(ElementId, Moment)> = due
            .into_iter()
            .zip(times)
            .filter_map(|((_, id), at)| Some((id, clock::moment_of(at)?)))
            .collect();
        times.sort_unstable_by_key(|&(id, _)| id);
        Self { times }
    }

    pub(super) fn of(&self, id: ElementId) -> Option<Moment> {
        let at = self.times.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        Some(self.times[at].1)
    }
}
