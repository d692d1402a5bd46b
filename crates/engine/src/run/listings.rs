//! Listings in the loop: how many a source may have, and what asking for them costs.
//!
//! Listings name listings, and whoever writes them decides how many: without bounds a
//! site could keep us asking for ever, beside the budget.

use std::collections::BTreeMap;

use springtide_policy::agenda::Poll;
use springtide_store::{ElementId, Fact, Failure, FailureKind, Kept, Moment, Role, SourceId};

use super::{Engine, SourceState};
use crate::view::redacted;
use crate::{Error, clock};

/// First polls of listings of one source that are free where first polls are. Further ones
/// count.
const MOST_FREE: u32 = 300;
/// A source may have this many listings at least: those that are free. Otherwise it may
/// have as many as elements, since a listing that names no element is of no use.
const MIN_LISTINGS: u64 = MOST_FREE as u64;
/// The most listings of a source: as many as one index of the protocol names.
const MAX_LISTINGS: u64 = 50_000;

impl SourceState {
    /// How many listings it may have.
    pub(super) fn max_listings(&self) -> u64 {
        self.settings.max_elements.clamp(MIN_LISTINGS, MAX_LISTINGS)
    }
}

impl Engine {
    /// Whether the first poll of an element is free, where such polls are. If it is of a
    /// listing and no more of them are, it waits for a poll that counts.
    pub(super) fn is_free(&mut self, poll: &Poll, now: Moment) -> Result<bool, Error> {
        let Some(kept) = self.ledger.kept(poll.id)? else {
            return Ok(true);
        };
        if kept.element.role != Role::Listing || self.free_listings.take(kept.element.source) {
            return Ok(true);
        }
        let at = clock::time(now);
        self.agenda.give_back(poll, at);
        self.agenda.look_at(poll.id, poll.group, at);
        Ok(false)
    }

    /// Listings that others name were left out, since their source has enough of them.
    pub(super) fn tell_left_out(
        &mut self,
        left_out: BTreeMap<ElementId, u64>,
        now: Moment,
    ) -> Result<(), Error> {
        for (id, n) in left_out {
            let Some(kept) = self.ledger.kept(id)? else {
                continue;
            };
            let source = kept.element.source;
            let most = self.sources.get(&source).map(SourceState::max_listings);
            let most = most.unwrap_or(MAX_LISTINGS);
            let problem = format!("listings left out: {n}; a source has at most {most}");
            self.set_listing_error(&kept, Some(incomplete(&kept, &problem, now)));
        }
        Ok(())
    }

    /// What is wrong with a listing, or that nothing is. Of many that are incomplete, the
    /// first speaks for the source until it is complete: that another one is says nothing of
    /// it, and that another one is not is nothing new.
    pub(super) fn set_listing_error(&mut self, listing: &Kept, failure: Option<Failure>) {
        let source = listing.element.source;
        let before = self.ledger.source(source);
        let is_of_another = before
            .and_then(|known| known.error.as_ref())
            .is_some_and(|error| {
                error.kind == FailureKind::Listing && !is_incomplete(listing, error)
            });
        let says_more = failure
            .as_ref()
            .is_some_and(|failure| failure.kind != FailureKind::Listing);
        if says_more || !is_of_another {
            self.set_source_error(source, failure);
        }
    }

    /// How many first polls of listings were free before the start.
    pub(super) fn recall_free_listings(&mut self) -> Result<(), Error> {
        let note = self.ledger.store().note(FreeListings::NAME)?;
        self.free_listings = FreeListings::read(&note.unwrap_or_default());
        Ok(())
    }
}

/// That a listing is incomplete.
pub(super) fn incomplete(listing: &Kept, problem: &str, at: Moment) -> Failure {
    Failure {
        kind: FailureKind::Listing,
        message: format!(
            "{} is incomplete: {problem}",
            redacted(&listing.element.locator)
        ),
        at,
    }
}

/// Whether what is wrong with a source is that this listing is incomplete. Only the locator
/// is compared: earlier versions kept the rest in other words.
fn is_incomplete(listing: &Kept, failure: &Failure) -> bool {
    let prefix = format!("{} is ", redacted(&listing.element.locator));
    failure.kind == FailureKind::Listing && failure.message.starts_with(&prefix)
}

/// First polls of listings that did not count, by source.
#[derive(Debug, Default)]
pub(super) struct FreeListings {
    n_polls: BTreeMap<SourceId, u32>,
    is_unkept: bool,
}

impl FreeListings {
    const NAME: &'static str = "free-listings";

    /// Takes one of a source's, if there are any left.
    fn take(&mut self, source: SourceId) -> bool {
        let n = self.n_polls.entry(source).or_default();
        if *n >= MOST_FREE {
            return false;
        }
        *n += 1;
        self.is_unkept = true;
        true
    }

    /// What is to be kept of them, if anything is new.
    pub(super) fn take_unkept(&mut self) -> Option<Fact> {
        let is_unkept = std::mem::take(&mut self.is_unkept);
        is_unkept.then(|| {
            let numbers = self.n_polls.iter().flat_map(|(source, n)| [source.0, *n]);
            let bytes = numbers.flat_map(u32::to_le_bytes).collect();
            Fact::Note(Self::NAME, Some(bytes))
        })
    }

    fn read(mut note: &[u8]) -> Self {
        let mut n_polls = BTreeMap::new();
        while let Some((source, rest)) = note.split_first_chunk::<4>()
            && let Some((n, rest)) = rest.split_first_chunk::<4>()
        {
            let source = SourceId(u32::from_le_bytes(*source));
            n_polls.insert(source, u32::from_le_bytes(*n));
            note = rest;
        }
        Self {
            n_polls,
            is_unkept: false,
        }
    }
}
