//! Finding changes by sampling sites: the batch policies of the sampling paper
//! (Cho and Ntoulas, Effective change detection using sampling, VLDB 2002).
//!
//! Once a cycle, a batch of polls is made. A few of them are *samples*, taken at
//! random from each *site*; the sites whose samples had changed most are then
//! polled whole, or *downloaded*. What is sought is a high *ChangeRatio*: the share
//! of polls that find a change. That is not freshness: who finds many changes may
//! leave many others unseen for long.
//!
//! - [`Sampling`] names the policies, [`Settings`] has their parameters.
//! - A [`Sampler`] is driven through a batch: [`begin`](Sampler::begin), then
//!   [`next`](Sampler::next) and [`observe`](Sampler::observe) in turn.
//! - [`Shares`] is how the shares of changed elements are spread over sites, and
//!   [`Threshold`] how many samples that asks for (Theorem 2).
//!
//! A site is the outermost group of an element, or the innermost if told so
//! ([`Unit`]). Elements in no group are one site together: as sites of one element
//! each they would all have to be sampled to learn anything, and nothing would be
//! left to choose. Every poll counts one, whatever the element's cost.
//!
//! ```
//! use rand::SeedableRng;
//! use springtide_policy::sample::{Sampler, Sampling, Settings};
//! use springtide_policy::{Element, ElementId, Groups, Span, Time};
//!
//! // Two sites of a hundred elements; all of the first have changed.
//! let mut groups = Groups::new();
//! let sites = [groups.add(None), groups.add(None)];
//! let settings = Settings::new(Span::days(7.0)?)?.with_sample_size(5)?;
//! let mut sampler = Sampler::new(Sampling::Greedy, settings, &groups);
//! for id in 0..200 {
//!     let group = Some(sites[id as usize / 100]);
//!     let element = Element { group, ..Element::default() };
//!     sampler.add(ElementId(id), &element, Time::START);
//! }
//!
//! let mut rng = rand_pcg::Pcg64::seed_from_u64(1);
//! let now = Time::from_days(7.0)?;
//! let mut n_changes = 0;
//! sampler.begin(100.0, &mut rng);
//! while let Some(id) = sampler.next(&mut rng) {
//!     let changed = id.0 < 100;
//!     n_changes += u32::from(changed);
//!     sampler.observe(id, changed, now);
//! }
//! // All but the five samples of the second site.
//! assert_eq!(n_changes, 95);
//! # Ok::<(), springtide_policy::Error>(())
//! ```

mod batch;
mod copies;
mod history;
mod settings;
mod size;

pub use settings::{Aim, Settings, Subset, Unit};
pub use size::{Shares, Threshold, rough_sample_size};

use std::f64::consts::SQRT_2;

use statrs::function::erf::erf_inv;

use crate::{Element, ElementId, Groups, Rate, Time};
use batch::{Batch, Ranked, Role, Stage};
use copies::Copies;
use history::History;
use size::Moments;

/// The policies of the sampling paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sampling {
    /// Whoever was polled longest ago (section 2.1).
    RoundRobin,
    /// A fixed sample of each site; then each site in proportion to its changed
    /// samples (section 3.2).
    Proportional,
    /// A fixed sample of each site; then whole sites, those with the most changed
    /// samples first (section 3.2).
    Greedy,
    /// Samples until a site is surely worth being polled whole, or surely not
    /// (Algorithm 3.1).
    Adaptive,
    /// Round-robin with a share of the budget, greedy with the rest (section 3.6).
    RoundRobinGreedy,
    /// Each element as often as the optimal plan has it, going by its own history
    /// (section 2.1): first everyone once, then whoever is due earliest. Rates are
    /// estimated as by [`BiasReduced`](crate::estimate::BiasReduced).
    ///
    /// Optimal for freshness, unless the [`Aim`] is to find changes:
    ///
    /// ```text
    /// max Σ w f (1 − e^(−λ/f)):   g(λ/f) = μ/w,   g(x) = 1 − (1 + x) e^(−x)
    /// ```
    ///
    /// which for equal weights is in proportion to the rates. The plan for freshness
    /// leaves out those that change fastest, and finds fewer changes than greedy
    /// sampling for ever; the paper's Figure 10 says otherwise of the policy it ran.
    Frequency,
    /// Knows what has changed (section 4.4).
    Oracle,
}

/// A batch policy at work.
///
/// Within a batch no element is polled twice. A sample costs
/// [`sample_cost`](Settings::with_sample_cost), any other poll one; all of the budget
/// is spent while there are elements left, but for a rest below one.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
    settings: Settings,
    copies: Copies,
    /// What the frequency policy remembers, by element; empty for the others.
    histories: Vec<History>,
    moments: Moments,
    /// What the oracle was told, for the next batch.
    foreseen: Vec<u32>,
    n_batches: u32,
    batch: Batch,
}

impl Sampler {
    /// A sampler without elements. Elements of groups that are not among these are
    /// taken for outermost.
    pub fn new(sampling: Sampling, settings: Settings, groups: &Groups) -> Self {
        Self {
            sampling,
            settings,
            copies: Copies::new(groups, settings.unit),
            histories: Vec::new(),
            moments: Moments::default(),
            foreseen: Vec::new(),
            n_batches: 0,
            batch: Batch::new(0.0, settings.sample_cost),
        }
    }

    /// A new element, or one that is to begin anew, whose copy is in sync.
    pub fn add(&mut self, id: ElementId, element: &Element, now: Time) {
        self.copies.add(id, element, now);
        if self.sampling == Sampling::Frequency {
            if self.histories.len() <= id.index() {
                self.histories.resize(id.index() + 1, History::new(now));
            }
            self.histories[id.index()] = History::new(now);
        }
    }

    /// An element is no more.
    pub fn remove(&mut self, id: ElementId) {
        self.copies.remove(id);
    }

    /// Whether it wants to be told before each batch which copies are stale.
    pub fn needs_foresight(&self) -> bool {
        self.sampling == Sampling::Oracle
    }

    /// These copies are stale: said before each batch to the policy that needs it.
    pub fn foresee(&mut self, changed: &[ElementId]) {
        if self.needs_foresight() {
            self.foreseen = changed.iter().map(|id| id.0).collect();
        }
    }

    /// A batch of `budget` polls, at the end of a cycle. What is left of the one
    /// before is dropped.
    pub fn begin(&mut self, budget: f64, rng: &mut dyn rand::Rng) {
        self.n_batches = self.n_batches.saturating_add(1);
        self.copies.release(rng);
        self.batch = Batch::new(budget, self.settings.sample_cost);
        // No more than there are elements.
        let n_polls = budget.clamp(0.0, self.copies.len() as f64) as usize;
        match self.sampling {
            Sampling::RoundRobin => self.batch.list(self.oldest(n_polls)),
            Sampling::Frequency => self.batch.list(self.due_first(n_polls)),
            Sampling::Oracle => {
                let foreseen = std::mem::take(&mut self.foreseen);
                self.batch.list(self.changed_first(foreseen, n_polls));
            }
            Sampling::RoundRobinGreedy => {
                let n_listed = (self.settings.share * n_polls as f64).round() as usize;
                self.batch.list(self.oldest(n_listed));
                self.begin_sampling(budget - n_listed as f64);
            }
            Sampling::Proportional | Sampling::Greedy | Sampling::Adaptive => {
                self.begin_sampling(budget);
            }
        }
    }

    /// Whom to poll next; `None` when the batch is over.
    pub fn next(&mut self, rng: &mut dyn rand::Rng) -> Option<ElementId> {
        loop {
            if !self.batch.affords(Role::Sample) {
                self.learn();
                return None;
            }
            if let Some(id) = self.batch.listed.pop() {
                if self.batch.affords(Role::Download) && self.copies.take(id) {
                    return Some(self.batch.ask(id, Role::Download));
                }
                continue;
            }
            match self.batch.stage {
                Stage::Sample => match self.next_sample(rng) {
                    Some(id) => return Some(self.batch.ask(id, Role::Sample)),
                    None => self.judge(),
                },
                Stage::Chosen | Stage::Subset | Stage::Outside => match self.next_ranked() {
                    Some(id) => return Some(self.batch.ask(id, Role::Download)),
                    None => self.go_on(),
                },
                Stage::Over => return None,
            }
        }
    }

    /// What the poll showed; said before the next is asked for.
    pub fn observe(&mut self, id: ElementId, changed: bool, now: Time) {
        let Some(site) = self.copies.site(id.0) else {
            return;
        };
        self.copies.poll(id.0, now);
        if let Some(history) = self.histories.get_mut(id.index()) {
            history.observe(changed);
        }
        if self.batch.asked.take() == Some((id.0, Role::Sample)) {
            let weight = self.copies.weight(id.0);
            let site = &mut self.copies.sites[site];
            site.n_samples += 1;
            if changed {
                site.n_changed += 1;
                site.changed_weight += weight;
            }
        }
    }

    /// How the shares of changed elements are spread over sites, as far as samples
    /// have shown it.
    pub fn shares(&self) -> Shares {
        self.moments.shares()
    }

    /// Those polled longest ago.
    fn oldest(&self, n: usize) -> Vec<u32> {
        first_by(self.copies.ids().collect(), n, |&id| self.copies.turn(id))
    }

    /// The heaviest of those that have changed, then those polled longest ago.
    fn changed_first(&self, mut changed: Vec<u32>, n: usize) -> Vec<u32> {
        changed.sort_unstable();
        changed.dedup();
        changed.retain(|&id| self.copies.site(id).is_some());
        let is_changed = |id: &u32| changed.binary_search(id).is_ok();
        let rest: Vec<u32> = self.copies.ids().filter(|id| !is_changed(id)).collect();
        let mut listed = first_by(changed, n, |&id| -self.copies.weight(id));
        let n_left = n - listed.len();
        listed.extend(first_by(rest, n_left, |&id| self.copies.turn(id)));
        listed
    }

    /// Those never polled, then those due earliest.
    fn due_first(&self, n: usize) -> Vec<u32> {
        let (known, new): (Vec<u32>, Vec<u32>) = self
            .copies
            .ids()
            .partition(|&id| self.histories[id as usize].n_polls > 0);
        let mut listed = first_by(new, n, |&id| self.copies.turn(id));
        let n_left = n - listed.len();
        if n_left > 0 {
            let rates: Vec<Rate> = known
                .iter()
                .map(|&id| self.histories[id as usize].rate(self.copies.polled_at(id)))
                .collect();
            let weights = known.iter().map(|&id| self.copies.weight(id));
            let per_day = n as f64 / self.settings.cycle.0;
            let intervals = history::intervals(&rates, weights, self.settings.aim, per_day);
            let due: Vec<(f64, u32)> = known
                .iter()
                .zip(intervals)
                .map(|(&id, interval)| ((self.copies.polled_at(id) + interval).0, id))
                .collect();
            let due = first_by(due, n_left, |&(due_at, _)| due_at);
            listed.extend(due.into_iter().map(|(_, id)| id));
        }
        listed
    }

    /// Chooses the sites to sample, and how many samples to take of each.
    fn begin_sampling(&mut self, budget: f64) {
        let sites = &self.copies.sites;
        let mut subset: Vec<u32> = (0..sites.len() as u32)
            .filter(|&site| sites[site as usize].len() > 0)
            .collect();
        subset.sort_unstable_by_key(|&site| {
            let site = &sites[site as usize];
            (site.sampled_in, site.lot)
        });
        let n_elements = self.copies.len() as f64;
        let size = n_elements / subset.len() as f64;
        let ratio = budget / n_elements;
        // Who can poll everyone has nothing to choose.
        let is_choice = ratio > 0.0 && ratio < 1.0;
        if is_choice {
            let within = self.subset_ratio(ratio, subset.len() as f64, size);
            if within > ratio {
                let most = budget / within;
                let mut n_within = 0.0;
                subset.retain(|&site| {
                    let len = sites[site as usize].len() as f64;
                    let fits = n_within == 0.0 || n_within + 0.5 * len <= most;
                    n_within += if fits { len } else { f64::INFINITY };
                    fits
                });
            }
            self.batch.n_rounds = self.n_samples(size, within);
        }
        for &site in &subset {
            self.copies.sites[site as usize].sampled_in = self.n_batches;
        }
        self.batch.sampled.clone_from(&subset);
        self.batch.subset = subset;
        self.batch.shares = self.moments.shares();
        self.batch.stage = Stage::Sample;
    }

    /// How many samples of a site before a decision, for sites of this size and a
    /// budget for this share of their elements.
    fn n_samples(&self, size: f64, ratio: f64) -> u32 {
        let cost = self.settings.sample_cost;
        // A third of the budget: see `Threshold::sample_size`.
        let most = ratio * size / (3.0 * cost);
        let sample_size = match (self.sampling, self.settings.sample_size) {
            (Sampling::Adaptive, _) => f64::from(self.settings.step).min(most),
            (_, Some(sample_size)) => return sample_size,
            _ if self.moments.is_known() => {
                let threshold = self.moments.shares().threshold(ratio);
                threshold.sample_size(size, cost)
            }
            _ => rough_sample_size(size, ratio).min(most),
        };
        sample_size.round().max(1.0) as u32
    }

    /// The budget over the number of elements of the sites to be sampled: over that
    /// of all, or higher if it is better spent on a subset.
    fn subset_ratio(&self, ratio: f64, n_sites: f64, size: f64) -> f64 {
        /// Whole numbers of sites leave little use for finer steps.
        const STEP: f64 = 1.2;
        /// Passing over sites must be worth it.
        const LEAST_GAIN: f64 = 1.01;
        match self.settings.subset {
            Subset::All => ratio,
            Subset::Share(share) => ratio.max(share),
            Subset::Chosen => {
                let shares = self.moments.shares();
                let value = |within: f64| {
                    let sites = (n_sites * ratio / within, size);
                    let samples = (self.n_samples(size, within), self.settings.sample_cost);
                    shares.greedy_change_ratio(sites, within, samples)
                };
                let (mut best, mut most) = (ratio, LEAST_GAIN * value(ratio));
                let mut within = STEP * ratio;
                while within < 1.0 {
                    let value = value(within);
                    if value > most {
                        (best, most) = (within, value);
                    }
                    within *= STEP;
                }
                best
            }
        }
    }

    /// Takes samples from each site in turn, so that a budget which ends early has
    /// sampled all sites alike.
    fn next_sample(&mut self, rng: &mut dyn rand::Rng) -> Option<u32> {
        let batch = &mut self.batch;
        while batch.n_rounds > 0 && !batch.sampled.is_empty() {
            while let Some(&site) = batch.sampled.get(batch.turn) {
                batch.turn += 1;
                if let Some(id) = self.copies.draw(site as usize, rng) {
                    return Some(id);
                }
            }
            batch.n_rounds -= 1;
            batch.turn = 0;
            let sites = &self.copies.sites;
            batch
                .sampled
                .retain(|&site| sites[site as usize].n_left() > 0);
        }
        None
    }

    /// All samples are taken, or for adaptive sampling those of this step.
    fn judge(&mut self) {
        self.learn();
        if self.sampling == Sampling::Adaptive {
            self.decide();
            self.batch.stage = Stage::Chosen;
        } else {
            self.rank(self.batch.subset.clone());
            self.batch.stage = Stage::Subset;
        }
    }

    /// Learns from the first samples of the batch how shares are spread. From these
    /// alone: sites sampled further were chosen for what they had shown.
    fn learn(&mut self) {
        if self.batch.has_learned {
            return;
        }
        self.batch.has_learned = true;
        for &site in &self.batch.subset {
            let site = &self.copies.sites[site as usize];
            let (n_changed, n_samples) = (site.n_changed, site.n_samples);
            self.moments.learn(n_changed.into(), n_samples.into());
        }
        self.batch.shares = self.moments.shares();
    }

    /// Steps 7 to 10 of Algorithm 3.1: sites surely above the threshold are ranked
    /// for download; neither they nor the ones surely below are sampled further.
    ///
    /// The threshold is the share at which what is left of the budget would end if
    /// the sites yet undecided were polled whole, best first. A site's share is the
    /// middle of its interval: after a single sample the share of the samples is 0 or
    /// 1, which would be a threshold that half of the sites cannot reach. Sites
    /// without elements left are out already; the algorithm as printed would keep
    /// them for ever.
    fn decide(&mut self) {
        let deviations = SQRT_2 * erf_inv(self.settings.confidence);
        let sampled = std::mem::take(&mut self.batch.sampled);
        let mut sites: Vec<(u32, f64, f64)> = sampled
            .into_iter()
            .map(|site| {
                let (low, high) = self.copies.sites[site as usize].interval(deviations);
                (site, low, high)
            })
            .collect();
        sites.sort_unstable_by(|one, other| {
            let middles = (other.1 + other.2).total_cmp(&(one.1 + one.2));
            middles.then(one.0.cmp(&other.0))
        });
        let mut left = self.batch.left();
        let last = sites.iter().find(|&&(site, ..)| {
            left -= self.copies.sites[site as usize].n_left() as f64;
            left < 0.0
        });
        let threshold = last.map_or(f64::NEG_INFINITY, |&(_, low, high)| 0.5 * (low + high));
        let mut chosen = Vec::new();
        for (site, low, high) in sites {
            if low > threshold {
                chosen.push(site);
            } else if high >= threshold {
                self.batch.sampled.push(site);
            }
        }
        self.rank(chosen);
    }

    /// Puts sites into the order of downloads.
    fn rank(&mut self, sites: Vec<u32>) {
        for site in sites {
            if self.copies.sites[site as usize].n_left() > 0 {
                let heaviest = self.copies.heaviest(site as usize);
                self.push(site, heaviest);
            }
        }
    }

    fn push(&mut self, site: u32, heaviest: f64) {
        /// Sites without a changed sample come after all others, and get even
        /// shares.
        const NO_CHANGE: f64 = 1e-12;
        let at = &self.copies.sites[site as usize];
        let value = match self.sampling {
            // The next poll goes to the site that is furthest behind its share.
            Sampling::Proportional => {
                at.changed_weight.max(NO_CHANGE) / (f64::from(at.n_downloads) + 0.5)
            }
            _ => self.batch.mean(at) * heaviest,
        };
        self.batch.ranking.push(Ranked {
            value,
            lot: at.lot,
            site,
        });
    }

    fn next_ranked(&mut self) -> Option<u32> {
        if !self.batch.affords(Role::Download) {
            return None;
        }
        let site = self.batch.ranking.pop()?.site;
        let id = self.copies.take_first(site as usize);
        self.copies.sites[site as usize].n_downloads += 1;
        if let Some(next) = self.copies.first(site as usize) {
            self.push(site, self.copies.weight(next));
        }
        id
    }

    /// The ranked sites are exhausted, or the budget.
    fn go_on(&mut self) {
        self.batch.stage = match self.batch.stage {
            Stage::Chosen if !self.batch.sampled.is_empty() => {
                self.batch.n_rounds = self.settings.step;
                Stage::Sample
            }
            // What the algorithm as printed would leave unspent.
            Stage::Chosen if self.batch.affords(Role::Download) => {
                self.rank(self.batch.subset.clone());
                Stage::Subset
            }
            Stage::Subset if self.batch.affords(Role::Download) => {
                self.rank((0..self.copies.sites.len() as u32).collect());
                Stage::Outside
            }
            _ => Stage::Over,
        };
    }
}

/// The first `n` by a key, in its order; those with equal keys in theirs.
fn first_by<T: PartialOrd>(mut all: Vec<T>, n: usize, key: impl Fn(&T) -> f64) -> Vec<T> {
    let order = |one: &T, other: &T| {
        let by_key = key(one).total_cmp(&key(other));
        by_key.then(one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal))
    };
    if n < all.len() {
        all.select_nth_unstable_by(n, order);
        all.truncate(n);
    }
    all.sort_unstable_by(order);
    all
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    use super::*;
    use crate::{GroupId, Span};

    /// Sites with so many elements each, on a clock that ticks cycles of a day.
    struct Script {
        sampler: Sampler,
        rng: Pcg64,
        cycle: u32,
    }

    fn settings() -> Settings {
        Settings::new(Span(1.0)).unwrap()
    }

    fn script(sampling: Sampling, settings: Settings, sizes: &[u32]) -> Script {
        let mut groups = Groups::new();
        for _ in sizes {
            groups.add(None);
        }
        let mut sampler = Sampler::new(sampling, settings, &groups);
        let mut id = 0;
        for (site, &size) in (0..).zip(sizes) {
            for _ in 0..size {
                let element = Element {
                    group: GroupId::new(site),
                    ..Element::default()
                };
                sampler.add(ElementId(id), &element, Time(0.0));
                id += 1;
            }
        }
        Script {
            sampler,
            rng: Pcg64::seed_from_u64(1),
            cycle: 0,
        }
    }

    impl Script {
        /// Who is polled in a batch, in order.
        fn batch(&mut self, budget: f64, changed: impl Fn(u32) -> bool) -> Vec<u32> {
            self.cycle += 1;
            let now = Time(f64::from(self.cycle));
            self.sampler.begin(budget, &mut self.rng);
            let mut polled = Vec::new();
            while let Some(id) = self.sampler.next(&mut self.rng) {
                polled.push(id.0);
                self.sampler.observe(id, changed(id.0), now);
            }
            polled
        }
    }

    #[test]
    fn round_robin_goes_on_where_it_stopped() {
        let mut script = script(Sampling::RoundRobin, settings(), &[3, 4]);
        assert_eq!(script.batch(3.0, |_| true), [0, 1, 2]);
        assert_eq!(script.batch(3.0, |_| false), [3, 4, 5]);
        assert_eq!(script.batch(3.0, |_| true), [6, 0, 1]);
    }

    #[test]
    fn proportional_shares_what_samples_leave_as_example_2_does() {
        // The samples of a site are found out only by polling; changed are 70 of the
        // first hundred and 20 of the second, and the split must be that of the
        // samples seen.
        let settings = settings().with_sample_size(10).unwrap();
        let mut script = script(Sampling::Proportional, settings, &[100, 100]);
        let changed = |id: u32| id % 100 < if id < 100 { 70 } else { 20 };
        let polled = script.batch(100.0, changed);
        let count = |ids: &[u32], site: u32| ids.iter().filter(|&&id| id / 100 == site).count();
        let (samples, rest) = polled.split_at(20);
        assert_eq!(count(samples, 0), 10);
        let hits = |site: u32| {
            samples
                .iter()
                .filter(|&&id| id / 100 == site && changed(id))
                .count()
        };
        let share = 80.0 * hits(0) as f64 / (hits(0) + hits(1)) as f64;
        assert!((count(rest, 0) as f64 - share).abs() <= 0.5, "{share}");
    }

    #[test]
    fn proportional_passes_on_what_a_small_site_cannot_use() {
        let settings = settings().with_sample_size(2).unwrap();
        let mut script = script(Sampling::Proportional, settings, &[4, 20, 20]);
        let polled = script.batch(16.0, |id| id < 24);
        assert_eq!(polled.iter().filter(|&&id| id < 4).count(), 4);
        assert_eq!(polled.iter().filter(|&&id| id >= 24).count(), 2);
    }

    #[test]
    fn greedy_polls_the_site_with_the_most_changed_samples_whole() {
        let settings = settings().with_sample_size(5).unwrap();
        let mut script = script(Sampling::Greedy, settings, &[50, 50, 50]);
        let polled = script.batch(60.0, |id| (50..100).contains(&id));
        let count = |site: u32| polled.iter().filter(|&&id| id / 50 == site).count();
        assert_eq!((count(0), count(1), count(2)), (5, 50, 5));
    }

    #[test]
    fn greedy_polls_the_heaviest_first() {
        let mut script = script(
            Sampling::Greedy,
            settings().with_sample_size(1).unwrap(),
            &[0],
        );
        for id in 0..10 {
            let element = Element {
                weight: crate::Weight(f64::from(id % 5)),
                ..Element::default()
            };
            script.sampler.add(ElementId(id), &element, Time(0.0));
        }
        let polled = script.batch(9.0, |_| true);
        let weights: Vec<u32> = polled[1..].iter().map(|id| id % 5).collect();
        assert!(
            weights.is_sorted_by(|one, other| one >= other),
            "{weights:?}"
        );
    }

    #[test]
    fn sites_that_always_tie_take_turns() {
        // Everything always changes and the budget suffices for one site of three.
        let settings = settings().with_sample_size(1).unwrap();
        let mut script = script(Sampling::Greedy, settings, &[10, 10, 10]);
        let mut polled = std::collections::BTreeSet::new();
        for _ in 0..30 {
            polled.extend(script.batch(12.0, |_| true));
        }
        assert_eq!(polled.len(), 30);
    }

    #[test]
    fn adaptive_samples_little_where_sites_are_far_apart() {
        // The paper's example of section 3.4: shares of 0, 0.45, 0.55 and 1.
        let settings = settings().with_step(5).unwrap();
        let mut script = script(Sampling::Adaptive, settings, &[100; 4]);
        let changed = |id: u32| id % 100 < [0, 45, 55, 100][id as usize / 100];
        let polled = script.batch(200.0, changed);
        let count = |site: u32| polled.iter().filter(|&&id| id / 100 == site).count();
        assert_eq!(polled.len(), 200);
        assert_eq!(count(3), 100);
        assert!(count(0) <= 20, "{}", count(0));
        assert!(count(1) + count(2) >= 80);
    }

    #[test]
    fn a_tenth_of_the_cost_for_samples_leaves_a_tenth_less_for_the_rest() {
        // Section 3.1, a hundred times smaller: 1,000 polls, 100 samples, 990 more.
        let settings = settings()
            .with_sample_size(10)
            .and_then(|settings| settings.with_sample_cost(0.1))
            .unwrap();
        let mut script = script(Sampling::Greedy, settings, &[1000; 10]);
        assert_eq!(script.batch(1000.0, |id| id < 5000).len(), 1090);
    }

    #[test]
    fn a_small_budget_samples_sites_in_turn() {
        // Example 3: a thousand sites, a budget of half a poll for each.
        let settings = settings().with_sample_size(10).unwrap();
        let mut script = script(Sampling::Greedy, settings, &[100; 1000]);
        let mut seen = std::collections::BTreeSet::new();
        let mut n_before = 0;
        for _ in 0..10 {
            let polled = script.batch(500.0, |id| id % 100 < (id / 100) % 100);
            assert_eq!(polled.len(), 500);
            seen.extend(polled.iter().map(|id| id / 100));
            assert!(seen.len() >= n_before + 5, "new sites each time");
            n_before = seen.len();
        }
    }

    #[test]
    fn a_budget_that_ends_with_the_samples_still_teaches_how_shares_are_spread() {
        let settings = settings()
            .with_sample_size(5)
            .and_then(|settings| settings.with_subset(Subset::All))
            .unwrap();
        let mut script = script(Sampling::Greedy, settings, &[10; 10]);
        assert_eq!(script.sampler.shares(), Shares::EVEN);
        script.batch(50.0, |id| id < 20);
        assert!((script.sampler.shares().mean() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn a_given_share_fixes_the_size_of_the_subset() {
        let settings = settings()
            .with_sample_size(10)
            .and_then(|settings| settings.with_subset(Subset::Share(0.18)))
            .unwrap();
        let mut script = script(Sampling::Greedy, settings, &[100; 100]);
        // 180 polls are 18 % of the elements of ten sites.
        let mut sites: Vec<u32> = script.batch(180.0, |_| false);
        sites.iter_mut().for_each(|id| *id /= 100);
        sites.sort_unstable();
        sites.dedup();
        assert_eq!(sites.len(), 10);
    }

    #[test]
    fn round_robin_greedy_reaches_everyone() {
        let settings = settings().with_sample_size(2).unwrap();
        let mut script = script(Sampling::RoundRobinGreedy, settings, &[50, 50]);
        let mut polled = std::collections::BTreeSet::new();
        for _ in 0..7 {
            polled.extend(script.batch(50.0, |id| id < 50));
        }
        // 15 of 50 go round-robin: a hundred elements take at most seven batches.
        assert_eq!(polled.len(), 100);
    }

    #[test]
    fn frequency_polls_everyone_once_then_those_that_change() {
        let settings = settings().with_aim(Aim::Changes);
        let mut script = script(Sampling::Frequency, settings, &[5, 5]);
        assert_eq!(script.batch(5.0, |id| id < 2), [0, 1, 2, 3, 4]);
        assert_eq!(script.batch(5.0, |_| false), [5, 6, 7, 8, 9]);
        let polled = script.batch(2.0, |_| true);
        assert_eq!(polled, [0, 1]);
    }

    #[test]
    fn the_oracle_polls_what_has_changed_and_then_the_oldest() {
        let mut script = script(Sampling::Oracle, settings(), &[6]);
        assert!(script.sampler.needs_foresight());
        script.sampler.foresee(&[ElementId(4), ElementId(2)]);
        assert_eq!(script.batch(4.0, |_| false), [2, 4, 0, 1]);
        script.sampler.foresee(&[ElementId(1)]);
        assert_eq!(script.batch(3.0, |_| false), [1, 3, 5]);
    }

    #[test]
    fn a_removed_element_is_not_polled_and_an_added_one_is() {
        for sampling in [Sampling::RoundRobin, Sampling::Greedy, Sampling::Frequency] {
            let mut script = script(sampling, settings(), &[3, 3]);
            script.batch(4.0, |_| true);
            script.sampler.remove(ElementId(1));
            script.sampler.remove(ElementId(1));
            script
                .sampler
                .add(ElementId(9), &Element::default(), Time(1.0));
            let mut polled = script.batch(100.0, |_| true);
            polled.sort_unstable();
            assert_eq!(polled, [0, 2, 3, 4, 5, 9], "{sampling:?}");
        }
    }

    #[test]
    fn directories_can_be_sampled_instead_of_sites() {
        // One site; all of its second directory changed.
        let mut groups = Groups::new();
        let site = groups.add(None);
        let directories = [groups.add(Some(site)), groups.add(Some(site))];
        for unit in [Unit::Outermost, Unit::Innermost] {
            let settings = settings().with_sample_size(2).unwrap().with_unit(unit);
            let mut script = script(Sampling::Greedy, settings, &[]);
            script.sampler = Sampler::new(Sampling::Greedy, settings, &groups);
            for id in 0..40 {
                let element = Element {
                    group: Some(directories[id as usize / 20]),
                    ..Element::default()
                };
                script.sampler.add(ElementId(id), &element, Time(0.0));
            }
            let polled = script.batch(20.0, |id| id >= 20);
            let n_changes = polled.iter().filter(|&&id| id >= 20).count();
            match unit {
                Unit::Outermost => assert!(n_changes <= 2, "all but the samples go in order"),
                Unit::Innermost => assert_eq!(n_changes, 18),
            }
        }
    }

    #[test]
    fn settings_are_checked_at_the_door() {
        use crate::Error;
        let settings = settings();
        assert_eq!(Settings::new(Span::ZERO), Err(Error::Cycle(0.0)));
        assert_eq!(settings.with_sample_size(0), Err(Error::SampleSize(0)));
        assert_eq!(settings.with_step(0), Err(Error::SampleSize(0)));
        assert_eq!(settings.with_confidence(1.0), Err(Error::Confidence(1.0)));
        assert_eq!(settings.with_sample_cost(0.0), Err(Error::SampleCost(0.0)));
        assert_eq!(settings.with_share(1.5), Err(Error::Share(1.5)));
        assert_eq!(
            settings.with_subset(Subset::Share(-1.0)),
            Err(Error::Share(-1.0))
        );
    }
}
