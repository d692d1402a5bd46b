//! Digests of blocks in the loop: which are asked for together, and what follows from what
//! they say.

use springtide_policy::Time;
use springtide_policy::agenda::{Poll, Together};
use springtide_store::{ElementId, Kept, Moment, PollOutcome, Purpose, SourceId};

use super::Engine;
use super::conclude::SharedAnswer;
use crate::event::{Event, Polled};
use crate::keep::{Finding, Seen};
use crate::poll::EndedPoll;
use crate::table::{KnownDigest, Range, TableStatement};
use crate::{Error, clock};

impl Engine {
    /// The digests to ask for instead of a block's rows, where the database can tell whether
    /// they are what they were, and they probably are. Those of blocks after it come with
    /// the same statement.
    pub(super) fn digests_for(
        &self,
        poll: &Poll,
        kept: &Kept,
        range: &Range,
        at: Time,
    ) -> Result<Option<TableStatement>, Error> {
        let source = kept.element.source;
        // An audit tells whether a copy is fresh: at once, and for certain. After a failure
        // nobody knows whether it was the digest that the database would not make.
        if poll.purpose == Purpose::Audit || kept.n_failures > 0 {
            return Ok(None);
        }
        let Some((own, chance)) = self.known_digest(source, kept, at) else {
            return Ok(None);
        };
        let Some(state) = self.tables.get(&source) else {
            return Ok(None);
        };
        let Some(mut together) = Together::new(chance, state.table.digest_threshold()) else {
            return Ok(None);
        };
        let mut known = vec![own];
        let mut last = range;
        while together.has_room()
            && let Some((id, block)) = state.next(last)
        {
            last = &block.range;
            let kept = match self.agenda.is_under_way(id) {
                true => None,
                false => self.ledger.kept(id)?,
            };
            let next = kept.and_then(|kept| self.known_digest(source, &kept, at));
            if together.takes(next.as_ref().map(|(_, chance)| *chance)) {
                known.extend(next.map(|(digest, _)| digest));
            }
        }
        Ok(Some(TableStatement::Digests(known)))
    }

    /// What a block's digest was, and the chance that it is another now; nothing if it is
    /// not known, or known to be another.
    fn known_digest(&self, source: SourceId, kept: &Kept, at: Time) -> Option<(KnownDigest, f64)> {
        let id = kept.element.id;
        let state = self.tables.get(&source)?;
        let block = state.blocks.get(&id).filter(|block| !block.differs)?;
        let copy = kept.copy.as_ref()?;
        let digest = copy.etag.clone()?;
        let synced_at = clock::time(kept.history.synced_at?);
        let belief = self.agenda.scheduler().belief(id, at)?;
        let chance = 1.0 - belief.quiet(at.since(synced_at).as_days());
        // Rows that are lost are not had back by hearing that they are what they were.
        if !self.context.bodies.contains(copy.body) {
            return None;
        }
        let known = KnownDigest {
            id,
            range: block.range.clone(),
            n_rows: block.n_rows,
            digest,
        };
        Some((known, chance))
    }

    /// Takes in what digests say. A block that is what it was has been polled by that; one
    /// that is not is read next.
    pub(super) fn conclude_digests(
        &mut self,
        ended: &EndedPoll,
        compared: Vec<(KnownDigest, Option<String>)>,
        now: Moment,
    ) -> Result<(), Error> {
        let own = ended.poll.kept.element.id;
        let answer = SharedAnswer {
            begun_at: ended.poll.begun_at,
            at: ended.at,
            status: None,
            purpose: Purpose::Due,
        };
        for (known, same) in compared {
            let id = known.id;
            if id == own {
                let Some(digest) = same else {
                    self.note_difference(ended, now)?;
                    continue;
                };
                let before = with_digest(ended.poll.kept.clone(), digest);
                let seen = Seen {
                    before: &before,
                    ..ended.seen()
                };
                self.conclude_element(&seen, now)?;
                continue;
            }
            let Some(kept) = self.ledger.kept(id)? else {
                continue;
            };
            // What came in between may be newer than what was asked about.
            let digest = kept.copy.as_ref().and_then(|copy| copy.etag.as_ref());
            if digest != Some(&known.digest) || !self.is_newest(&kept, &answer, now) {
                continue;
            }
            if let Some(digest) = same {
                let kept = with_digest(kept, digest);
                self.conclude_element(&answer.shows(&kept, Finding::NotModified), now)?;
            } else {
                self.set_differs(kept.element.source, id);
                let (group, at) = (Some(kept.element.host), clock::time(now));
                self.agenda.look_at(id, group, at);
            }
        }
        Ok(())
    }

    fn set_differs(&mut self, source: SourceId, id: ElementId) {
        let state = self.tables.get_mut(&source);
        if let Some(block) = state.and_then(|state| state.blocks.get_mut(&id)) {
            block.differs = true;
        }
    }

    /// The block that was polled has changed: the statement was a poll that showed no more
    /// than that, and the next one reads it.
    fn note_difference(&mut self, ended: &EndedPoll, now: Moment) -> Result<(), Error> {
        let (id, source) = (ended.poll.kept.element.id, ended.poll.kept.element.source);
        let at = clock::time(now);
        self.set_differs(source, id);
        let kept = self.ledger.kept(id)?;
        let before = kept.unwrap_or_else(|| ended.poll.kept.clone());
        let mut kept = before.clone();
        kept.history.n_polls = kept.history.n_polls.saturating_add(1);
        kept.history.polled_at = Some(ended.at);
        let poll = springtide_store::Poll {
            element: id,
            source,
            begun_at: ended.poll.begun_at,
            at: ended.at,
            since: before.history.synced_at,
            outcome: PollOutcome::Differs,
            status: None,
            error: None,
            purpose: ended.poll.purpose,
            is_counted: ended.poll.is_counted,
            age_ms: None,
        };
        self.pending_events.push(Event::Polled(Polled {
            differs: true,
            ..self.partial_event(&kept, ended)
        }));
        self.ledger.count(&before, &kept, Some(&poll));
        self.ledger.write_poll(poll);
        let host = Some(kept.element.host);
        self.ledger.write(kept);
        self.agenda.put_back(id, host, at, at);
        Ok(())
    }
}

/// A block that is what it was, with what its digest says now.
fn with_digest(mut kept: Kept, digest: String) -> Kept {
    if let Some(copy) = &mut kept.copy {
        copy.etag = Some(digest);
    }
    kept
}
