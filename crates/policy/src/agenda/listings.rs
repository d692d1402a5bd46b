//! Listings: elements that tell which elements there are. They wait no longer than
//! they may, whatever is learned of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::schedule::due::Key;
use crate::{ElementId, Span, Time, Weight};

/// What a listing matters beside its elements: as much as this share of them.
const SHARE: f64 = 0.02;

/// What a listing weighs whose source has so many elements of this weight.
pub fn listing_weight(weight: f64, n_elements: u64) -> Weight {
    let weight = weight * (SHARE * n_elements as f64).max(1.0);
    Weight::new(weight).unwrap_or(Weight::ONE)
}

/// Listings by when they must be polled again.
#[derive(Debug, Default)]
pub(super) struct Listings {
    by_time: BTreeSet<(Key, ElementId)>,
    of: BTreeMap<ElementId, Listing>,
}

#[derive(Debug, Clone, Copy)]
struct Listing {
    due: Key,
    longest: Span,
}

impl Listings {
    /// A listing waits no longer than this after its polls, of which the last was then.
    pub(super) fn set(&mut self, id: ElementId, polled_at: Option<Time>, longest: Span) {
        self.remove(id);
        let due = Key(polled_at.map_or(f64::INFINITY, |at| (at + longest).0));
        self.of.insert(id, Listing { due, longest });
        self.by_time.insert((due, id));
    }

    pub(super) fn remove(&mut self, id: ElementId) {
        if let Some(listing) = self.of.remove(&id) {
            self.by_time.remove(&(listing.due, id));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    pub(super) fn contains(&self, id: ElementId) -> bool {
        self.of.contains_key(&id)
    }

    /// A listing is polled now, or not for a reason: it waits again.
    pub(super) fn polled(&mut self, id: ElementId, now: Time) {
        if let Some(&Listing { longest, .. }) = self.of.get(&id) {
            self.set(id, Some(now), longest);
        }
    }

    /// When the first must be polled.
    pub(super) fn next_at(&self) -> Time {
        let first = self.by_time.first();
        first.map_or(Time::NEVER, |(due, _)| Time(due.0))
    }

    /// One that must be polled now; whatever comes of that, it then waits again.
    pub(super) fn pop(&mut self, now: Time) -> Option<ElementId> {
        let &(_, id) = self.by_time.first().filter(|(due, _)| due.0 <= now.0)?;
        self.polled(id, now);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_waits_no_longer_than_it_may_after_each_poll() {
        let mut listings = Listings::default();
        let id = ElementId(4);
        listings.set(id, None, Span(1.0));
        assert_eq!(
            listings.next_at(),
            Time::NEVER,
            "its first poll is another matter"
        );
        listings.polled(id, Time(10.0));
        assert_eq!(
            (listings.pop(Time(10.9)), listings.pop(Time(11.0))),
            (None, Some(id))
        );
        assert_eq!(listings.next_at(), Time(12.0));
        listings.remove(id);
        assert_eq!(listings.next_at(), Time::NEVER);
    }

    #[test]
    fn a_listing_weighs_as_much_as_a_fiftieth_of_its_elements() {
        assert_eq!(listing_weight(2.0, 0).as_f64(), 2.0);
        assert_eq!(listing_weight(2.0, 500).as_f64(), 20.0);
    }
}
