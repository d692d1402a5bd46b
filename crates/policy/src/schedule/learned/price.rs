//! What a poll must be worth to be made.

use super::tree::ROOT;
use super::{Learned, SHORTEST, worth};
use crate::value::{blended_value, blended_value_reaches};
use crate::{ElementId, Elements, Gamma, Present};

/// How the price is found.
///
/// In the long run it is what polls were worth of late. That says nothing of what
/// polls are worth on the whole when there were none, or others: at the start, after
/// a change of the budget or of the number of elements, after a pause. Then it is
/// the price at which polls would add up to the budget, from what is believed of
/// rates, until all have been polled some times.
#[derive(Debug)]
pub(super) struct Pricing {
    /// Polls since the price had to be found anew.
    n_polls: u64,
    /// At how many of them it is worked out next.
    next: u64,
    /// The mean interval that it was worked out for.
    interval: f64,
    /// When the last poll was.
    pub(super) polled_at: f64,
}

/// A price is worked out anew if the mean interval has changed by more than this
/// factor since,
const CHANGED: f64 = 1.2;
/// or if nothing was polled for so many mean intervals.
const PAUSE: f64 = 0.25;
/// For so many rounds it is worked out,
const ROUNDS: u64 = 2;
/// so often in each.
const PER_ROUND: u64 = 4;
/// So many elements stand for all.
const SAMPLED: usize = 256;
/// Steps of halving ln price: from twelve decades to a hundredth.
const HALVINGS: usize = 12;

impl Pricing {
    pub(super) fn new() -> Self {
        Self {
            n_polls: 0,
            next: 0,
            interval: f64::NAN,
            polled_at: f64::INFINITY,
        }
    }

    /// The price was found before, for this mean interval or, if that is not known,
    /// for the one that there is.
    pub(super) fn settle(&mut self, interval: Option<f64>) {
        (self.n_polls, self.interval) = (u64::MAX / 2, interval.unwrap_or(f64::INFINITY));
    }

    /// Notes what the mean interval is now.
    pub(super) fn mind(&mut self, interval: f64) {
        if self.interval == f64::INFINITY {
            self.interval = interval;
        }
        let ratio = interval / self.interval;
        if !(1.0 / CHANGED..CHANGED).contains(&ratio) {
            (self.n_polls, self.next, self.interval) = (0, 0, interval);
        }
    }

    fn is_due(&self, n_members: usize) -> bool {
        self.n_polls >= self.next && self.is_open(n_members)
    }

    /// Whether it is still being worked out.
    fn is_open(&self, n_members: usize) -> bool {
        self.n_polls <= ROUNDS * n_members as u64
    }
}

impl Learned {
    /// What polls would be worth if all elements were of the mean weight, and
    /// changed once in a mean interval.
    pub(super) fn first_price(&self, present: Present<'_>) -> f64 {
        let total: f64 = present.iter().map(|(_, element)| worth(element)).sum();
        self.usual_price(1.0) * total / present.len() as f64
    }

    /// What a poll of an element is worth that changed once in a mean interval.
    pub(super) fn usual_price(&self, worth: f64) -> f64 {
        let shape = self.tree.nodes[ROOT as usize].shape;
        let prior = Gamma {
            shape,
            per: shape * self.mean_interval,
        };
        worth * blended_value(prior, self.blend, self.mean_interval).value
    }

    /// The price is what polls were worth of late: a mean of logarithms over about
    /// one round.
    pub(super) fn note_price(&mut self, value: f64, now: f64) {
        if now - self.pricing.polled_at > PAUSE * self.mean_interval {
            (self.pricing.n_polls, self.pricing.next) = (0, 0);
        }
        self.pricing.polled_at = now;
        self.pricing.n_polls += 1;
        if value > 0.0 && !self.pricing.is_open(self.n_members) {
            let share = 1.0 / self.n_members.max(2) as f64;
            self.price *= 1.0 + share * 2.0 * (value - self.price) / (value + self.price);
        }
    }

    /// Works out the price, if it is time to: the one at which the polls of all
    /// elements, each made when it is worth the price, add up to the budget.
    pub(super) fn work_out_price(&mut self, elements: &Elements, now: f64) {
        if !self.pricing.is_due(self.n_members) {
            return;
        }
        let step = (self.n_members as u64 / PER_ROUND).max(SAMPLED as u64 / 16);
        self.pricing.next = self.pricing.n_polls + step;
        let stride = self.members.len().div_ceil(SAMPLED).max(1);
        let sample: Vec<(Gamma, f64, f64)> = (0..)
            .zip(&self.members)
            .step_by(stride)
            .filter(|(_, member)| member.is_here && !member.is_watched)
            .map(|(index, member)| {
                let leaf = &self.tree.nodes[member.leaf as usize];
                let element = elements.get(ElementId(index));
                let belief = member.standing(leaf, self.parts_of(index), now).of_part();
                (belief, worth(element), element.cost.0)
            })
            .filter(|&(_, worth, _)| worth > 0.0)
            .collect();
        let cost: f64 = sample.iter().map(|&(.., cost)| cost).sum();
        if cost == 0.0 {
            return;
        }
        let wanted = cost / self.mean_interval;
        let longest = 1e3 * self.mean_interval;
        let demand = |price: f64| -> f64 {
            let polls = sample.iter().map(|&(belief, worth, cost)| {
                let interval = blended_value_reaches(belief, self.blend, price / worth, longest);
                cost / interval.max(SHORTEST)
            });
            polls.sum()
        };
        let middle = self.usual_price(1.0).ln();
        let (mut low, mut high) = (middle - 28.0, middle + 28.0);
        for _ in 0..HALVINGS {
            let price = 0.5 * (low + high);
            if demand(price.exp()) > wanted {
                low = price;
            } else {
                high = price;
            }
        }
        self.price = (0.5 * (low + high)).exp();
    }
}
