//! Feeds in the loop: entries that are elements, and feeds that ask to be left alone.

use std::collections::BTreeMap;
use std::time::Duration;

use springtide_store::{Element, ElementId, Fact, Kept, Moment, Purpose, Role};

use super::Engine;
use super::conclude::SharedAnswer;
use crate::event::Event;
use crate::poll::{EndedPoll, PollResult};
use crate::register::feed_group;
use crate::source::Sighting;
use crate::source::feed::LONGEST_PAUSE;
use crate::{Error, clock};

impl Engine {
    /// Takes in what a feed shows of its entries, each a poll of its own.
    pub(super) fn take_in_entries(&mut self, ended: EndedPoll, now: Moment) -> Result<(), Error> {
        let Ok(PollResult::Read(reading)) = ended.found else {
            return Ok(());
        };
        let source = ended.poll.kept.element.source;
        if let Some(state) = self.sources.get_mut(&source)
            && reading.push.is_some()
            && reading.push != state.push
        {
            state.push.clone_from(&reading.push);
            self.pending_events
                .extend(reading.push.map(|offer| Event::PushOffered {
                    source: self.ledger.name(source),
                    offer,
                }));
        }
        if reading.others.is_empty() || !self.sources.contains_key(&source) {
            return Ok(());
        }
        let answer = SharedAnswer {
            begun_at: ended.poll.begun_at,
            at: ended.at,
            status: ended.status,
            purpose: match ended.poll.purpose {
                Purpose::Asked => Purpose::Asked,
                _ => Purpose::Due,
            },
        };
        let mut n_elements = 0;
        for (id, sighting) in reading.others {
            let Some((kept, is_new)) = self.entry(&ended.poll.kept.element, id, &sighting)? else {
                continue;
            };
            n_elements += u64::from(is_new);
            self.conclude_sighting(&kept, sighting, &answer, now)?;
        }
        if n_elements > 0 {
            let source = self.ledger.name(source);
            self.pending_events
                .push(Event::Found { source, n_elements });
        }
        Ok(())
    }

    /// An entry by its id, and whether it was not known before; nothing if there is no
    /// room for it.
    fn entry(
        &mut self,
        feed: &Element,
        id: String,
        sighting: &Sighting,
    ) -> Result<Option<(Kept, bool)>, Error> {
        if let Some(kept) = self.ledger.find(feed.source, &id)? {
            // An id may be the address of the feed itself.
            let is_entry = kept.element.role == Role::Entry;
            return Ok(is_entry.then_some((kept, false)));
        }
        let Some(known) = self.ledger.source(feed.source) else {
            return Ok(None);
        };
        let settings = &self.sources[&feed.source].settings;
        let n_elements = known.totals.n_elements + known.totals.n_gone;
        if sighting.body.is_none() || n_elements >= settings.max_elements {
            return Ok(None);
        }
        let (weight, key) = (settings.weight as f32, feed_group(&known.name));
        let scheduler = self.agenda.scheduler_mut();
        let (host, group) = self.ledger.groups_of(&key, &[], scheduler)?;
        let kept = self.ledger.add(Element {
            id: ElementId(0),
            source: feed.source,
            locator: id,
            group,
            host,
            role: Role::Entry,
            weight,
            depth: feed.depth.saturating_add(1),
        })?;
        self.agenda.set_n_known(self.ledger.next_element());
        Ok(Some((kept, true)))
    }

    /// What is polled if an element is asked for: of an entry, the feed that it is in.
    pub(super) fn polled_for(&self, kept: Kept) -> Result<Kept, Error> {
        let element = &kept.element;
        if element.role != Role::Entry {
            return Ok(kept);
        }
        let from = self
            .ledger
            .store()
            .elements(Some(element.source), ElementId(0), 1)?;
        // The feed came before its entries.
        let feed = from
            .into_iter()
            .find(|kept| kept.element.role == Role::Listing);
        Ok(feed.unwrap_or(kept))
    }

    /// A listing asks not to be polled again for a while.
    pub(super) fn pause_listing(&mut self, id: ElementId, at: Moment, pause: Duration) {
        let millis = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
        let until = Moment(at.0.saturating_add(millis));
        self.agenda.hold_listing(id, clock::time(until));
        self.pauses.set(id, until, at);
    }

    /// Listings that asked for it before the start are left alone as long as they asked,
    /// and no longer than anyone may ask, however the clock was set since.
    pub(super) fn recall_pauses(&mut self) -> Result<(), Error> {
        let note = self.ledger.store().note(Pauses::NAME)?;
        self.pauses = Pauses::read(&note.unwrap_or_default());
        let longest = i64::try_from(LONGEST_PAUSE.as_millis()).unwrap_or(i64::MAX);
        let furthest = Moment(self.progress.started_at.0.saturating_add(longest));
        for until in self.pauses.until.values_mut() {
            self.pauses.is_unkept |= *until > furthest;
            *until = (*until).min(furthest);
        }
        for (&id, &until) in &self.pauses.until {
            self.agenda.hold_listing(id, clock::time(until));
        }
        Ok(())
    }
}

/// Listings that asked not to be polled again before a time.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    until: BTreeMap<ElementId, Moment>,
    is_unkept: bool,
}

impl Pauses {
    const NAME: &'static str = "pauses";

    fn set(&mut self, id: ElementId, until: Moment, now: Moment) {
        self.until.retain(|_, until| *until > now);
        self.until.insert(id, until);
        self.is_unkept = true;
    }

    /// What is to be kept of them, if anything is new.
    pub(super) fn take_unkept(&mut self) -> Option<Fact> {
        let is_unkept = std::mem::take(&mut self.is_unkept);
        is_unkept.then(|| {
            let each = self.until.iter().flat_map(|(id, until)| {
                let (id, until) = (id.0.to_le_bytes(), until.0.to_le_bytes());
                id.into_iter().chain(until)
            });
            Fact::Note(Self::NAME, Some(each.collect()))
        })
    }

    fn read(mut note: &[u8]) -> Self {
        let mut until = BTreeMap::new();
        while let Some((id, rest)) = note.split_first_chunk::<4>()
            && let Some((at, rest)) = rest.split_first_chunk::<8>()
        {
            let id = ElementId(u32::from_le_bytes(*id));
            until.insert(id, Moment(i64::from_le_bytes(*at)));
            note = rest;
        }
        Self {
            until,
            is_unkept: false,
        }
    }
}
