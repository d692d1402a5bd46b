//! Whom to poll: the one that is due first, or one that is worth more now.
//!
//! Due times are worked out when an element is polled, from the price and from what
//! is usual in its group at that time. Both move. So whoever comes first is valued
//! anew, and if it is not worth the price others are valued beside it.

use super::{Learned, MOST_LOOKS, Member, Valued, is_closed, worth};
use crate::value::{Blend, blended_value};
use crate::{ElementId, Elements, Time};

/// So many others are valued if the first in the queue is not worth the price, or
/// comes late.
const PROBES: usize = 8;
/// Late is so much of a mean interval after the due time.
const LATE: f64 = 0.25;
/// One that is worth less than this part of the price is not polled because it is
/// due: its due time is worked out anew.
const STALE_DUE: f64 = 0.5;
/// The golden section of 2³²: multiples of it fall evenly on any range.
const GOLDEN: u32 = 0x9e37_79b9;

impl Learned {
    /// The element to poll next, and when it is due; it may not be due yet.
    pub(in super::super) fn first(&mut self, elements: &Elements, now: Time) -> Option<(f64, u32)> {
        self.set_aside();
        if let Some(first) = self.first_by_deadline(now.0) {
            return Some(first);
        }
        self.work_out_price(elements, now.0);
        let first = self.first_in_queue(elements, now.0)?;
        Some(self.best_of_some(first, elements, now.0))
    }

    /// Who must be polled now, lest it waits longer than it may.
    fn first_by_deadline(&mut self, now: f64) -> Option<(f64, u32)> {
        let deadlines = self.deadlines.as_mut()?;
        // By the next poll it may be too late; and where the budget does not
        // reach, everyone is late.
        let soon = now + deadlines.dearest / self.budget;
        let is_hopeless = self.mean_interval > deadlines.longest;
        while let Some(&(_, polled_at, index)) = deadlines.queue.front() {
            let member = &self.members[index as usize];
            if member.is_here && !member.key.is_nan() && member.polled_at == polled_at {
                break;
            }
            deadlines.queue.pop_front();
        }
        for &(deadline, polled_at, index) in deadlines.queue.iter().take(MOST_LOOKS) {
            let member = &self.members[index as usize];
            if !is_hopeless && deadline > soon {
                break;
            }
            let waits = member.is_here
                && !member.key.is_nan()
                && !member.is_put
                && member.polled_at == polled_at;
            if waits && !is_closed(&self.tree, &self.closed, member.leaf) {
                return Some((deadline, index));
            }
        }
        None
    }

    /// The first in the queue. Whoever is due there and not worth it is put where it
    /// will be.
    fn first_in_queue(&mut self, elements: &Elements, now: f64) -> Option<(f64, u32)> {
        for _ in 0..MOST_LOOKS {
            let (due, index) = self.first_in_tree()?;
            let member = &self.members[index as usize];
            if !member.is_look
                && (due > now || member.is_sample || member.is_put || member.is_first)
            {
                return Some((due, index));
            }
            let is_look = member.is_look;
            let path = self.tree.path(member.leaf);
            self.wind(&path, now);
            let standing = self.standing(index, now);
            let worth = worth(elements.get(ElementId(index)));
            let now_worth = self.worth_now(index, &path, &standing);
            let least = if is_look { 1.0 } else { STALE_DUE };
            if worth * now_worth.value >= least * self.price {
                self.valued = Some(Valued {
                    index,
                    at: now,
                    standing,
                    worth: now_worth,
                });
                return Some((due, index));
            }
            let before = self.members[index as usize].key;
            self.wait(index, &path, &standing, worth);
            // Worth nothing, or next to it, however long it waits.
            if self.members[index as usize].key <= before {
                return Some((due, index));
            }
        }
        self.first_in_tree()
    }

    /// The first in the queue or, if that is not worth the price or comes late, whoever
    /// is worth most now of it and some others.
    fn best_of_some(&self, (due, index): (f64, u32), elements: &Elements, now: f64) -> (f64, u32) {
        let member = &self.members[index as usize];
        let is_late = now - due > LATE * self.mean_interval;
        if due <= now && (!is_late || member.is_sample || member.is_put) {
            return (due, index);
        }
        let worth = self.worth_if_above((index, member), 0.0, elements, now);
        let mut best = (worth, (due, index));
        if !is_late && best.0 >= self.price {
            return (due, index);
        }
        // Which ones depends on the time alone: asked again, or after a restart, it is
        // the same.
        let mut place = (now.to_bits().wrapping_mul(u64::from(GOLDEN)) >> 20) as u32;
        let others: [u32; PROBES] = std::array::from_fn(|_| {
            place = place.wrapping_add(GOLDEN);
            let n = self.members.len() as u64;
            ((u64::from(place) * n) >> 32) as u32
        });
        // They are anywhere in memory: all are asked for before the first is needed.
        let members = others.map(|other| self.members[other as usize]);
        for (other, member) in others.into_iter().zip(&members) {
            if other == index || !self.may_be_polled(member) {
                continue;
            }
            let worth = self.worth_if_above((other, member), best.0, elements, now);
            if worth > best.0 {
                best = (worth, (now, other));
            }
        }
        best.1
    }

    /// What polling an element is worth now, going by the rate of its group when that
    /// was last polled; or zero, if that is surely not more than `least`.
    fn worth_if_above(
        &self,
        (index, member): (u32, &Member),
        least: f64,
        elements: &Elements,
        now: f64,
    ) -> f64 {
        let standing = self.standing_at(index, member, now);
        let worth = worth(elements.get(ElementId(index)));
        if !self.hint_records.is_empty() {
            let path = self.tree.path(member.leaf);
            return worth * self.worth_now(index, &path, &standing).value;
        }
        // Values grow most slowly from their first terms: U ≤ λt²/2 and so on; and no wait is
        // stretched by more than the speed.
        let Blend {
            freshness,
            age,
            content,
        } = self.blend;
        let t = standing.interval * standing.speed.max(1.0);
        let belief = standing.of_part();
        let most = belief.mean() * t * t * (freshness / 2.0 + (age + content) * t / 3.0);
        if worth * most <= least {
            return 0.0;
        }
        worth * blended_value(belief, self.blend, standing.felt()).value
    }

    /// Whether an element waits, and in a group that is open.
    fn may_be_polled(&self, member: &Member) -> bool {
        !member.key.is_nan()
            && !member.is_put
            && member.is_here
            && !is_closed(&self.tree, &self.closed, member.leaf)
    }
}
