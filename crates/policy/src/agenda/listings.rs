//! Listings: elements that tell which elements there are. They wait no longer than
//! they may, whatever is learned of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::schedule::due::Key;
use crate::{Element, ElementId, GroupId, Span, Time, Weight};

/// What a listing matters beside its elements: as much as this share of them.
const SHARE: f64 = 0.02;

/// What a listing weighs whose source has so many elements of this weight.
pub fn listing_weight(weight: f64, n_elements: u64) -> Weight {
    let weight = weight * (SHARE * n_elements as f64).max(1.0);
    Weight::new(weight).unwrap_or(Weight::ONE)
}

/// A table may grow to so many blocks before its cursor is told of it.
const MANY_BLOCKS: u64 = 1_000;

/// The cursor of a table that has so many blocks of this weight, of so many rows each. It
/// is an element of all the rows there are: a row that it brings is worth as much as one
/// that a block does.
pub fn cursor_element(weight: f64, n_blocks: u64, rows: u32, group: Option<GroupId>) -> Element {
    let n_blocks = n_blocks.max(MANY_BLOCKS);
    let n_rows = n_blocks.saturating_mul(u64::from(rows.max(1)));
    Element {
        weight: Weight::new(weight * n_blocks as f64).unwrap_or(Weight::ONE),
        group,
        parts: u32::try_from(n_rows).unwrap_or(u32::MAX),
        ..Element::default()
    }
}

/// Listings by when they must be polled again.
#[derive(Debug, Default)]
pub(super) struct Listings {
    by_time: BTreeSet<(Key, ElementId)>,
    of: BTreeMap<ElementId, Listing>,
    /// Those that the scheduler chose before they may be polled, by when they may.
    aside: BTreeSet<(Key, ElementId)>,
}

#[derive(Debug, Clone, Copy)]
struct Listing {
    due: Key,
    longest: Span,
    /// It asked not to be polled before.
    held_until: Time,
}

impl Listings {
    /// A listing waits no longer than this after its polls, of which the last was then.
    pub(super) fn set(&mut self, id: ElementId, polled_at: Option<Time>, longest: Span) {
        self.remove(id);
        let due = Key(polled_at.map_or(f64::INFINITY, |at| (at + longest).0));
        let held_until = Time(f64::NEG_INFINITY);
        self.of.insert(
            id,
            Listing {
                due,
                longest,
                held_until,
            },
        );
        self.by_time.insert((due, id));
    }

    /// A listing that has been polled is not polled before this, however long it may
    /// wait.
    pub(super) fn hold(&mut self, id: ElementId, until: Time) {
        let Some(listing) = self.of.get_mut(&id) else {
            return;
        };
        listing.held_until = until;
        if until.0 > listing.due.0 {
            self.by_time.remove(&(listing.due, id));
            listing.due = Key(until.0);
            self.by_time.insert((listing.due, id));
        }
    }

    /// What a listing lists has changed: it is polled as soon as it may be.
    pub(super) fn changed(&mut self, id: ElementId, now: Time) {
        let Some(listing) = self.of.get_mut(&id) else {
            return;
        };
        let due = Key(now.0.max(listing.held_until.0));
        if due < listing.due {
            self.by_time.remove(&(listing.due, id));
            listing.due = due;
            self.by_time.insert((due, id));
        }
    }

    /// Sets a listing aside that is not to be polled yet; says whether it is one.
    pub(super) fn set_aside(&mut self, id: ElementId, now: Time) -> bool {
        let until = self.of.get(&id).map(|listing| listing.held_until);
        let Some(until) = until.filter(|&until| until > now) else {
            return false;
        };
        self.aside.insert((Key(until.0), id));
        true
    }

    /// Takes back a listing that was set aside, before its time; says whether it was.
    pub(super) fn take_back(&mut self, id: ElementId) -> bool {
        let until = self.of.get(&id).map(|listing| Key(listing.held_until.0));
        until.is_some_and(|until| self.aside.remove(&(until, id)))
    }

    /// One that was set aside and may be polled now.
    pub(super) fn next_back(&mut self, now: Time) -> Option<ElementId> {
        let &first = self.aside.first().filter(|(until, _)| until.0 <= now.0)?;
        self.aside.remove(&first);
        Some(first.1)
    }

    pub(super) fn remove(&mut self, id: ElementId) {
        if let Some(listing) = self.of.remove(&id) {
            self.by_time.remove(&(listing.due, id));
            self.aside.remove(&(Key(listing.held_until.0), id));
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

    /// When the first must be polled, or may be again.
    pub(super) fn next_at(&self) -> Time {
        let first = [self.by_time.first(), self.aside.first()];
        let first = first.into_iter().flatten().map(|&(at, _)| at.0);
        first.fold(Time::NEVER, |first, at| Time(first.0.min(at)))
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
    fn a_listing_that_asked_for_it_waits_longer_than_it_may() {
        let mut listings = Listings::default();
        let id = ElementId(3);
        listings.set(id, Some(Time(0.0)), Span(1.0));
        listings.hold(id, Time(5.0));
        assert_eq!(listings.next_at(), Time(5.0));
        assert!(listings.set_aside(id, Time(4.9)) && listings.take_back(id));
        assert!(listings.set_aside(id, Time(4.9)) && listings.next_back(Time(4.9)).is_none());
        assert_eq!(listings.next_back(Time(5.0)), Some(id));
        assert!(!listings.set_aside(id, Time(5.0)) && !listings.take_back(id));
        assert_eq!(listings.pop(Time(5.0)), Some(id));
        // What it asked for after the poll before counts no more.
        assert_eq!(listings.next_at(), Time(6.0));
        listings.hold(id, Time(5.5));
        assert_eq!(listings.next_at(), Time(6.0));
    }

    #[test]
    fn a_listing_is_hastened_and_still_gets_what_it_asked_for() {
        let mut listings = Listings::default();
        let id = ElementId(3);
        listings.set(id, Some(Time(0.0)), Span(9.0));
        listings.changed(id, Time(1.0));
        assert_eq!(listings.pop(Time(1.0)), Some(id));
        assert_eq!(listings.next_at(), Time(10.0));
        listings.hold(id, Time(5.0));
        listings.changed(id, Time(2.0));
        listings.changed(id, Time(6.0));
        assert_eq!(listings.next_at(), Time(5.0));
        listings.changed(ElementId(4), Time(2.0));
        assert_eq!(listings.len(), 1);
    }

    #[test]
    fn a_row_is_worth_as_much_to_a_cursor_as_to_a_block_however_many_blocks_there_are() {
        for n_blocks in [1, 500, 1_000_000, u64::MAX] {
            let cursor = cursor_element(2.0, n_blocks, 100, None);
            let per_row = cursor.weight.as_f64() / f64::from(cursor.parts);
            assert!(per_row >= 2.0 / 100.0, "{n_blocks}");
        }
        let cursor = cursor_element(2.0, 5_000, 100, None);
        assert_eq!((cursor.weight.as_f64(), cursor.parts), (10_000.0, 500_000));
    }

    #[test]
    fn a_listing_weighs_as_much_as_a_fiftieth_of_its_elements() {
        assert_eq!(listing_weight(2.0, 0).as_f64(), 2.0);
        assert_eq!(listing_weight(2.0, 500).as_f64(), 20.0);
    }
}
