//! How fresh copies are now, as far as that can be told without polling them.
//!
//! What polls have shown says how often elements change, but not quite: how rates are spread
//! is not known, and where nearly every poll finds a change, or none does, even less. So
//! many ways in which rates may be spread are held against what was seen, and what each
//! foretells counts for as much as it explains.

use std::collections::BTreeMap;

use statrs::function::gamma::gamma_lr;

use crate::numeric::quick_exp;
use crate::{Gamma, GroupId, Span};

/// A copy, and what polls have shown of its element.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldCopy {
    /// What is believed of the rate.
    pub belief: Gamma,
    /// The group whose members its element is like; `None` if those are all elements.
    pub group: Option<GroupId>,
    /// How long ago the copy was known to be fresh.
    pub elapsed: Span,
    /// How many polls showed whether the element had changed.
    pub n_polls: u32,
    /// How many of them found a change.
    pub n_changes: u32,
    /// The mean time between them.
    pub interval: Span,
    /// The latest of them, as far as they were looked up: where some found a change and some
    /// did not, it matters how long each came after the one before.
    pub polls: Vec<PastPoll>,
    /// How many copies it stands for, itself included: one, unless only some were
    /// looked at.
    pub n_alike: f64,
}

/// A poll that showed whether an element had changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PastPoll {
    /// How long the poll before it was ago.
    pub interval: Span,
    /// Whether it had.
    pub changed: bool,
}

impl HeldCopy {
    /// Whether its polls should be looked up.
    pub fn is_mixed(&self) -> bool {
        self.n_changes > 0 && self.n_changes < self.n_polls
    }
}

/// A share of copies that are fresh, with an interval that holds the true share with
/// a probability of 90 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictedFreshness {
    /// The share to expect: the mean of the chances of each.
    pub share: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// What is left out at each end of an interval.
const TAIL: f64 = 0.05;
/// Logarithms of the usual rates of groups deviate by so much in half of all worlds, as if
/// each were known from three changes; and in the other half by more, where one directory
/// changes every minute and the next one never.
const GROUP_DEVIATIONS: [f64; 2] = [0.58, 1.7];
/// Rates are told apart by so much of their natural logarithms, or by more if there would be
/// too many; and by twice as much where copies are few, and can tell no more: a project may
/// have a thousand feeds.
const STEP: f64 = 0.4;
const FEW: usize = 30;
const MOST_RATES: f64 = 100.0;
/// Usual rates are told apart by this part of that.
const FINER: usize = 8;
/// All rates lie within this factor of those that polls tell of.
const BEYOND: f64 = 1e3;
/// A hypothesis that is less likely than the likeliest by this factor is left out.
const UNLIKELY: f64 = 1e-3;
/// The shapes of gamma distributions that rates may have, and the deviations of the logarithm
/// if they are lognormal.
const SHAPES: [f64; 7] = [0.15, 0.3, 0.5, 0.8, 1.4, 3.0, 8.0];
const DEVIATIONS: [f64; 5] = [0.7, 1.1, 1.6, 2.2, 3.0];
/// The share of elements that may never change.
const NEVER: [f64; 4] = [0.0, 0.2, 0.4, 0.6];

/// How many of some copies are fresh now.
///
/// The rate of an element is that which is usual in its group times one drawn from a
/// distribution of a family: gamma or lognormal, of some width, or all alike; and a share of
/// elements may never change. An element whose polls, each an interval I after the one before,
/// found a change or not, has a rate λ with the likelihood
///
/// ```text
/// Π (1 − e^(−λI))  over polls that found one,  times  Π e^(−λI)  over the others
/// ```
///
/// and is fresh at t after its last poll with the mean of e^(−λt) over what this leaves of
/// the distribution. Families, and what is usual in groups and among them, are weighed by the
/// likelihood of all that was seen; under each, the number of copies that are stale has a
/// mean and a variance. Rates are on a grid of logarithms, so that a family is one row of
/// weights, moved to where its group is.
///
/// `share` is the [mean of the chances](mean_fresh) of each copy: of those that these stand
/// for, too. Three hundred copies take some ten milliseconds, and a hundred if each is in a
/// group of its own; more need not be given.
///
/// Before any poll has shown whether an element changes, there is only what is believed, and
/// the interval is all there is.
pub fn freshness_now(copies: &[HeldCopy], share: f64) -> PredictedFreshness {
    let (Some(stale), Some(mean)) = (stale(copies), mean_fresh(copies)) else {
        return PredictedFreshness {
            share,
            low: 0.0,
            high: 1.0,
        };
    };
    let n = n_alike(copies);
    let fresh = |n_stale: f64| ((n - n_stale) / n + (share - mean)).clamp(0.0, 1.0);
    let least = (quantile(&stale, n, TAIL) + 0.5).floor().clamp(0.0, n);
    let most = (quantile(&stale, n, 1.0 - TAIL) - 0.5).ceil().clamp(0.0, n);
    PredictedFreshness {
        share,
        low: fresh(most).min(share),
        high: fresh(least).max(share),
    }
}

/// The mean of the chances that each copy is fresh, by what is believed of it; `None` if there
/// are none.
pub fn mean_fresh<'a>(copies: impl IntoIterator<Item = &'a HeldCopy>) -> Option<f64> {
    let (mut n, mut fresh) = (0.0, 0.0);
    for copy in copies {
        n += copy.n_alike;
        fresh += copy.n_alike * copy.belief.quiet(copy.elapsed.0);
    }
    (n > 0.0).then(|| fresh / n)
}

fn n_alike(copies: &[HeldCopy]) -> f64 {
    copies.iter().map(|copy| copy.n_alike).sum()
}

/// How many copies are stale under each hypothesis, and how likely that is; `None` if no poll
/// has shown anything.
fn stale(copies: &[HeldCopy]) -> Option<Vec<(Moments, f64)>> {
    let grid = Grid::of(copies)?;
    let families = Family::all(&grid);
    let mut members: BTreeMap<Option<GroupId>, Vec<Seen>> = BTreeMap::new();
    for copy in copies {
        let seen = Seen::of(copy, &grid);
        members.entry(copy.group).or_default().push(seen);
    }
    let mut groups: Vec<Group> = members
        .into_values()
        .map(|members| Group::new(members, &families, grid.step))
        .collect();
    let mut hypotheses = Vec::new();
    for family in 0..families.len() {
        for never in 0..NEVER.len() {
            for usual in 0..grid.rates.len() {
                let hypothesis = Hypothesis {
                    family,
                    never,
                    usual,
                };
                let of = |group: &Group| group.log_likelihood(hypothesis);
                hypotheses.push((hypothesis, groups.iter().map(of).sum()));
            }
        }
    }
    let parts = likely(hypotheses).into_iter().map(|(hypothesis, weight)| {
        let mut sum = Moments::default();
        for group in &mut groups {
            sum.add(group.stale(hypothesis, &families));
        }
        (sum, weight)
    });
    Some(few(parts.collect()))
}

/// Parts of a mixture with nearly the same mean as one: about so many.
const MOST_PARTS: f64 = 100.0;

/// The same mixture of fewer parts.
fn few(mut parts: Vec<(Moments, f64)>) -> Vec<(Moments, f64)> {
    parts.sort_by(|(a, _), (b, _)| a.mean.total_cmp(&b.mean));
    let mut sum = 0.0;
    let alike = parts.chunk_by(|_, (_, weight)| {
        let before: f64 = sum;
        sum += weight;
        (before * MOST_PARTS).floor() == (sum * MOST_PARTS).floor()
    });
    let mixed = alike.map(|alike| {
        let total: f64 = alike.iter().map(|(_, weight)| weight).sum();
        let shares: Vec<_> = (alike.iter())
            .map(|&(part, weight)| (part, weight / total))
            .collect();
        (Moments::mixed(&shares), total)
    });
    mixed.collect()
}

/// Those that are not much less likely than the likeliest, by logarithms of their
/// likelihoods, with weights that add up to one.
fn likely<T>(logs: Vec<(T, f64)>) -> Vec<(T, f64)> {
    let most = logs
        .iter()
        .map(|&(_, log)| log)
        .fold(f64::NEG_INFINITY, f64::max);
    let weights = logs.into_iter().map(|(it, log)| (it, (log - most).exp()));
    let mut kept: Vec<(T, f64)> = weights.filter(|&(_, weight)| weight > UNLIKELY).collect();
    let total: f64 = kept.iter().map(|(_, weight)| weight).sum();
    for (_, weight) in &mut kept {
        *weight /= total;
    }
    kept
}

/// Rates, by even steps of their logarithms: from so low that no copy would have changed to so
/// high that every poll would have found a change.
struct Grid {
    rates: Vec<f64>,
    step: f64,
}

impl Grid {
    fn of(copies: &[HeldCopy]) -> Option<Self> {
        let (mut shortest, mut longest) = (f64::INFINITY, 0.0_f64);
        for copy in copies {
            let polled_for = f64::from(copy.n_polls) * copy.interval.0;
            longest = longest.max(polled_for + copy.elapsed.0);
            let intervals = copy.polls.iter().map(|poll| poll.interval.0);
            let intervals = intervals.chain((polled_for > 0.0).then_some(copy.interval.0));
            shortest = intervals
                .filter(|&interval| interval > 0.0)
                .fold(shortest, f64::min);
        }
        let (low, high) = (-(longest * BEYOND).ln(), (BEYOND / shortest).ln());
        let step = if copies.len() < FEW { 2.0 * STEP } else { STEP };
        let n = ((high - low) / step).clamp(1.0, MOST_RATES).ceil();
        let step = (high - low) / n;
        let rate = |place| (low + step * f64::from(place)).exp();
        (high.is_finite() && low.is_finite()).then(|| Self {
            rates: (0..=n as u32).map(rate).collect(),
            step,
        })
    }
}

/// How rates are spread around what is usual: a weight for each distance on the grid, from
/// the farthest below to the farthest above.
struct Family {
    weights: Vec<f64>,
    /// The sum of the weights before each.
    before: Vec<f64>,
}

impl Family {
    fn all(grid: &Grid) -> Vec<Self> {
        let n = grid.rates.len() as i32;
        let of = |density: &dyn Fn(f64) -> f64| {
            let mut weights: Vec<f64> = (1 - n..n)
                .map(|away| density(f64::from(away) * grid.step))
                .collect();
            let total: f64 = weights.iter().sum();
            let (mut sum, mut before) = (0.0, Vec::with_capacity(weights.len() + 1));
            before.push(0.0);
            for weight in &mut weights {
                *weight /= total;
                sum += *weight;
                before.push(sum);
            }
            Self { weights, before }
        };
        let gamma = SHAPES.map(|shape| of(&|x: f64| (shape * (x - x.exp())).exp()));
        let lognormal =
            DEVIATIONS.map(|deviation| of(&|x: f64| (-0.5 * (x / deviation).powi(2)).exp()));
        let alike = of(&|x: f64| f64::from(u8::from(x == 0.0)));
        gamma.into_iter().chain(lognormal).chain([alike]).collect()
    }

    /// The mean of a function of the rate, if what is usual is at a place of the grid. What is
    /// beyond an end of the grid is as at the end.
    fn mean(&self, usual: usize, of_rate: &[f64]) -> f64 {
        let from = of_rate.len() - 1 - usual;
        let until = from + of_rate.len();
        let inside = self.weights[from..until].iter().zip(of_rate);
        inside.map(|(weight, value)| weight * value).sum::<f64>()
            + self.before[from] * of_rate[0]
            + (1.0 - self.before[until]) * of_rate[of_rate.len() - 1]
    }
}

/// A copy: how likely each rate is by what polls have shown, and how likely it is fresh with
/// each.
struct Seen {
    likelihood: Vec<f64>,
    fresh: Vec<f64>,
    /// Both, as a product.
    fresh_and_likely: Vec<f64>,
    /// The likelihood of never changing.
    never: f64,
    n_alike: f64,
}

impl Seen {
    fn of(copy: &HeldCopy, grid: &Grid) -> Self {
        let n_changes = copy.n_changes.min(copy.n_polls);
        let n_found = copy.polls.iter().filter(|poll| poll.changed).count() as u32;
        let n_not = copy.polls.len() as u32 - n_found;
        // Of those that were not looked up, only the mean is known.
        let n_other = f64::from((copy.n_polls - n_changes).saturating_sub(n_not));
        let n_other_changes = f64::from(n_changes.saturating_sub(n_found));
        let likelihood = |&rate: &f64| {
            let changed = |interval: Span| -(-rate * interval.0).exp_m1();
            let mut log = -rate * n_other * copy.interval.0;
            let mut product = 1.0;
            for poll in &copy.polls {
                match poll.changed {
                    true => product *= changed(poll.interval),
                    false => log -= rate * poll.interval.0,
                }
            }
            if n_other_changes > 0.0 {
                log += n_other_changes * changed(copy.interval).ln();
            }
            log.exp() * product
        };
        let likelihood: Vec<f64> = grid.rates.iter().map(likelihood).collect();
        let fresh = grid.rates.iter().map(|rate| (-rate * copy.elapsed.0).exp());
        let fresh: Vec<f64> = fresh.collect();
        Self {
            fresh_and_likely: likelihood.iter().zip(&fresh).map(|(a, b)| a * b).collect(),
            likelihood,
            fresh,
            never: f64::from(u8::from(n_changes == 0)),
            n_alike: copy.n_alike,
        }
    }

    /// How likely the copy is fresh.
    fn chance(&self, family: &Family, never: f64, usual: usize) -> f64 {
        let of_never = never * self.never;
        let of_all = of_never + (1.0 - never) * family.mean(usual, &self.likelihood);
        match of_all > 0.0 {
            true => {
                (of_never + (1.0 - never) * family.mean(usual, &self.fresh_and_likely)) / of_all
            }
            false => family.mean(usual, &self.fresh),
        }
    }
}

/// A way in which rates may be spread: the family, the share of elements that never change,
/// and what is usual among groups, by their places.
#[derive(Debug, Clone, Copy)]
struct Hypothesis {
    family: usize,
    never: usize,
    usual: usize,
}

/// The copies of a group, and what was seen of them all.
struct Group {
    members: Vec<Seen>,
    /// How likely each rate is the usual one of the group, by family and share.
    likely: Vec<[UsualRates; NEVER.len()]>,
    /// How likely the usual rate of a group is so far from what is usual among them.
    deviations: Vec<f64>,
    /// How many copies are stale with each usual rate, by family and share: as far as it was
    /// asked.
    known: Vec<Vec<Option<Moments>>>,
}

impl Group {
    fn new(members: Vec<Seen>, families: &[Family], step: f64) -> Self {
        let n = members[0].likelihood.len();
        let of_family = |family: &Family| {
            let mut logs = NEVER.map(|_| vec![0.0; n]);
            for usual in 0..n {
                let mut products = NEVER.map(|_| Product::new());
                for seen in &members {
                    let of_rates = family.mean(usual, &seen.likelihood);
                    for (product, never) in products.iter_mut().zip(NEVER) {
                        product.times(never * seen.never + (1.0 - never) * of_rates);
                    }
                }
                for (logs, product) in logs.iter_mut().zip(products) {
                    logs[usual] = product.ln();
                }
            }
            logs.map(|logs| UsualRates::new(&logs))
        };
        let step = step / FINER as f64;
        let [_, widest] = GROUP_DEVIATIONS;
        let n_near = (3.0 * widest / step).ceil() as u32;
        let likely = |away| {
            let of = |deviation: f64| {
                let away = step * f64::from(away) / deviation;
                (-0.5 * away * away).exp() / deviation
            };
            GROUP_DEVIATIONS.map(of).iter().sum()
        };
        Self {
            likely: families.iter().map(of_family).collect(),
            members,
            deviations: (0..=n_near).map(likely).collect(),
            known: vec![Vec::new(); families.len() * NEVER.len()],
        }
    }

    /// The rates that may be usual in it under a hypothesis, by their places on the finer
    /// grid, with how likely each is.
    fn usual(&self, hypothesis: Hypothesis) -> impl Iterator<Item = (usize, f64)> + '_ {
        let usual = FINER * hypothesis.usual;
        let UsualRates { weights, .. } = &self.likely[hypothesis.family][hypothesis.never];
        let most = self.deviations.len() - 1;
        let near = usual.saturating_sub(most)..(usual + most + 1).min(weights.len());
        near.map(move |at| (at, weights[at] * self.deviations[at.abs_diff(usual)]))
    }

    /// The logarithm of the likelihood of a hypothesis: by the coarser grid, on which how far
    /// groups deviate is told well enough.
    fn log_likelihood(&self, hypothesis: Hypothesis) -> f64 {
        let UsualRates { most, coarser, .. } = &self.likely[hypothesis.family][hypothesis.never];
        let usual = hypothesis.usual;
        let far = (self.deviations.len() - 1) / FINER;
        let near = usual.saturating_sub(far)..(usual + far + 1).min(coarser.len());
        let of = |at: usize| coarser[at] * self.deviations[FINER * at.abs_diff(usual)];
        most + near.map(of).sum::<f64>().max(f64::MIN_POSITIVE).ln()
    }

    /// How many of the copies are stale under a hypothesis.
    fn stale(&mut self, hypothesis: Hypothesis, families: &[Family]) -> Moments {
        let most = self.usual(hypothesis).map(|(_, weight)| weight);
        let least = UNLIKELY * most.fold(0.0, f64::max);
        let usual: Vec<_> = self
            .usual(hypothesis)
            .filter(|&(_, weight)| weight > least)
            .collect();
        let total: f64 = usual.iter().map(|(_, weight)| weight).sum();
        let parts = usual.into_iter().map(|(usual, weight)| {
            let (place, part) = (usual / FINER, usual % FINER);
            let at = self.stale_at(hypothesis, place, families);
            let moments = match part {
                0 => at,
                _ => at.towards(
                    self.stale_at(hypothesis, place + 1, families),
                    part as f64 / FINER as f64,
                ),
            };
            (moments, weight / total)
        });
        Moments::mixed(&parts.collect::<Vec<_>>())
    }

    /// The same, if this rate is the usual one of the group.
    fn stale_at(&mut self, hypothesis: Hypothesis, usual: usize, families: &[Family]) -> Moments {
        let Hypothesis { family, never, .. } = hypothesis;
        let known = &mut self.known[family * NEVER.len() + never];
        if known.is_empty() {
            known.resize(self.members[0].likelihood.len(), None);
        }
        *known[usual].get_or_insert_with(|| {
            Moments::of_stale(self.members.iter().map(|seen| {
                let fresh = seen.chance(&families[family], NEVER[never], usual);
                (1.0 - fresh, seen.n_alike)
            }))
        })
    }
}

/// How likely each rate is the usual one, on a finer grid than that of rates: what is usual
/// among many is known far better than the rate of one.
struct UsualRates {
    /// The logarithm of the likelihood of the likeliest, and how likely others are beside it.
    most: f64,
    weights: Vec<f64>,
    /// The sums of those nearest to each rate of the grid.
    coarser: Vec<f64>,
}

impl UsualRates {
    /// Between the rates of the grid the logarithm goes by parabolas: of the curvatures at
    /// both ends by the one that is nearer to none.
    fn new(logs: &[f64]) -> Self {
        let curvature = |at: usize| match at {
            0 => 0.0,
            _ if at + 1 == logs.len() => 0.0,
            _ => logs[at - 1] - 2.0 * logs[at] + logs[at + 1],
        };
        let mut finer = Vec::with_capacity(FINER * logs.len());
        for at in 0..logs.len() - 1 {
            let (left, right) = (curvature(at), curvature(at + 1));
            let bent = match left * right > 0.0 {
                true if left.abs() < right.abs() => left,
                true => right,
                false => 0.0,
            };
            for part in 0..FINER {
                let beyond = part as f64 / FINER as f64;
                let line = logs[at] + beyond * (logs[at + 1] - logs[at]);
                finer.push(line - 0.5 * beyond * (1.0 - beyond) * bent);
            }
        }
        finer.extend(logs.last());
        let most = finer.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = finer.iter().map(|log| quick_exp(log - most)).collect();
        let mut coarser = vec![0.0; logs.len()];
        for (at, weight) in weights.iter().enumerate() {
            coarser[(at + FINER / 2) / FINER] += weight;
        }
        Self {
            most,
            weights,
            coarser,
        }
    }
}

/// A product of many numbers between zero and one.
struct Product {
    log: f64,
    product: f64,
}

impl Product {
    fn new() -> Self {
        Self {
            log: 0.0,
            product: 1.0,
        }
    }

    fn times(&mut self, number: f64) {
        self.product *= number.max(1e-200);
        if self.product < 1e-100 {
            self.log += self.product.ln();
            self.product = 1.0;
        }
    }

    fn ln(self) -> f64 {
        self.log + self.product.ln()
    }
}

/// The mean of a number, and its variance.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    mean: f64,
    variance: f64,
}

impl Moments {
    /// Of the number of copies that are stale: the chance of each, and for how many it stands.
    fn of_stale(copies: impl Iterator<Item = (f64, f64)>) -> Self {
        let (mut sum, mut n, mut n_looked, mut squares) = (Self::default(), 0.0, 0.0, 0.0);
        for (stale, n_alike) in copies {
            sum.add(Self {
                mean: n_alike * stale,
                variance: n_alike * stale * (1.0 - stale),
            });
            n += n_alike;
            n_looked += 1.0;
            squares += n_alike * stale * stale;
        }
        // Those that were not looked at may not be as those that were.
        sum.variance += (n / n_looked - 1.0) * (squares - sum.mean * sum.mean / n).max(0.0);
        sum
    }

    /// Of a sum of independent numbers.
    fn add(&mut self, other: Self) {
        self.mean += other.mean;
        self.variance += other.variance;
    }

    /// Of what is so much of the way from one number to another.
    fn towards(self, other: Self, share: f64) -> Self {
        Self {
            mean: self.mean + share * (other.mean - self.mean),
            variance: self.variance + share * (other.variance - self.variance),
        }
    }

    /// Of a number that is one of several with these weights, which add up to one.
    fn mixed(parts: &[(Self, f64)]) -> Self {
        let mean = parts.iter().map(|(part, weight)| weight * part.mean).sum();
        let variance = parts.iter().map(|(part, weight)| {
            let away = part.mean - mean;
            weight * (part.variance + away * away)
        });
        Self {
            mean,
            variance: variance.sum(),
        }
    }

    /// The chance that a number between 0 and `n` is at most `x`: by a gamma distribution
    /// with these moments, from the end that is nearer to the mean.
    fn up_to(&self, x: f64, n: f64) -> f64 {
        let from_end = self.mean > n / 2.0;
        let (mean, at) = match from_end {
            true => (n - self.mean, n - x),
            false => (self.mean, x),
        };
        let shape = mean * mean / self.variance;
        let scaled = at * mean / self.variance;
        let below = if at <= 0.0 {
            0.0
        } else if (1e-9..1e9).contains(&shape) && (1e-300..1e12).contains(&scaled) {
            gamma_lr(shape, scaled)
        } else {
            // Nothing varies.
            f64::from(u8::from(at >= mean))
        };
        if from_end { 1.0 - below } else { below }
    }
}

/// The number between 0 and `n` up to which a number is with this probability that is one of
/// several with these weights.
fn quantile(parts: &[(Moments, f64)], n: f64, probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, n);
    for _ in 0..30 {
        let middle = f64::midpoint(low, high);
        let below: f64 = parts
            .iter()
            .map(|(part, weight)| weight * part.up_to(middle, n))
            .sum();
        if below < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}
