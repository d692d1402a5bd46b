//! Search sources on the agenda: which of them is asked now, and for what.

use super::arbiter::Chosen;
use super::rows::{self, Bid, SearchRequest, SearchSource};
use super::{Agenda, FirstPolls, Request, Scope, earlier, later};
use crate::{ElementId, GroupId, Purpose, Time};

/// What the driver knows a search source by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SearchId(pub u32);

/// A request to a search source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchPoll {
    /// Of which source.
    pub source: SearchId,
    /// What is asked.
    pub request: SearchRequest,
    /// The outermost group that is asked.
    pub group: GroupId,
    /// Why.
    pub purpose: Purpose,
    /// The row that it is for, if it is for one.
    pub wanted: Option<ElementId>,
    /// Whether it counts towards the budget.
    pub is_counted: bool,
}

/// A search source, and where it is asked.
#[derive(Debug)]
pub(super) struct SearchEntry {
    source: SearchSource,
    group: GroupId,
    /// Whether the last turn of its group was of someone who is not new.
    is_owed: bool,
}

impl Agenda {
    /// A search source is asked from now on, through this outermost group.
    pub fn add_search(&mut self, id: SearchId, source: SearchSource, group: GroupId) {
        let asked = SearchEntry {
            source,
            group,
            is_owed: false,
        };
        self.searches.insert(id, asked);
    }

    /// A search source.
    pub fn search(&self, id: SearchId) -> Option<&SearchSource> {
        self.searches.get(&id).map(|asked| &asked.source)
    }

    /// A search source, to be told what became of requests.
    pub fn search_mut(&mut self, id: SearchId) -> Option<&mut SearchSource> {
        self.searches.get_mut(&id).map(|asked| &mut asked.source)
    }

    /// All search sources.
    pub fn searches(&self) -> impl Iterator<Item = (SearchId, &SearchSource)> {
        self.searches.iter().map(|(&id, asked)| (id, &asked.source))
    }

    /// The search source that an element is a row of.
    pub fn search_of(&self, element: ElementId) -> Option<SearchId> {
        let mut searches = self.searches.iter();
        let found = searches.find(|(_, asked)| asked.source.is_ours(element));
        found.map(|(&id, _)| id)
    }

    /// A request to a search source that was begun is not made: nothing is spent.
    pub fn give_back_search(&mut self, poll: &SearchPoll, now: Time) {
        self.gate.give_back(poll.group, now);
        self.refund_search(poll);
    }

    /// The turn of a request to a search source goes to another request of its group,
    /// which has to come first.
    pub fn refund_search(&mut self, poll: &SearchPoll) {
        if let Some(pace) = self.pace.as_mut().filter(|_| poll.is_counted) {
            pace.refund(1.0);
        }
        if let Some(source) = self.search_mut(poll.source) {
            source.withdrawn(&poll.request);
        }
        self.search_over(&poll.request);
    }

    /// A request to a search source is over, or not made.
    pub fn search_over(&mut self, request: &SearchRequest) {
        match request {
            SearchRequest::Page(_) => self.n_pages = self.n_pages.saturating_sub(1),
            SearchRequest::Row(id) => self.over(*id),
        }
    }

    /// Rows that were never had, those that cannot be had included.
    pub fn n_new_rows(&self) -> u64 {
        self.searches
            .values()
            .map(|asked| asked.source.n_never_had())
            .sum()
    }

    /// The outermost group that a search source is asked through.
    pub fn group_of_search(&self, id: SearchId) -> Option<GroupId> {
        self.searches.get(&id).map(|asked| asked.group)
    }

    /// Rows that have turned out to be unreachable since this was asked last.
    pub fn take_unreachable(&mut self) -> Vec<ElementId> {
        let searches = self.searches.values_mut();
        searches
            .flat_map(|asked| asked.source.take_newly_unreachable())
            .collect()
    }

    /// Whether a row that was never had may be had now, somewhere.
    pub fn has_new_rows(&self, now: Time) -> bool {
        self.searches
            .values()
            .any(|asked| asked.source.has_new(now))
    }

    /// Whether there are rows that are new, or have waited as long as they may, and that
    /// may be asked for by then.
    pub fn has_due_rows(&self, by: Time, now: Time) -> bool {
        let is_due =
            |asked: &SearchEntry| asked.source.has_due(now) && asked.source.paused_until(now) <= by;
        self.searches.values().any(is_due)
    }

    /// Someone had a turn in a group: the next there is owed to new rows, unless it was
    /// one of them.
    pub(super) fn note_turn(&mut self, group: GroupId, purpose: Purpose) {
        for asked in self.searches.values_mut().filter(|a| a.group == group) {
            asked.is_owed = purpose != Purpose::First;
        }
    }

    /// New rows, where first polls do not count: of sources whose group owes them a turn,
    /// or of any.
    pub(super) fn next_new_rows(&mut self, only_owed: bool, now: Time) -> Option<Request> {
        if self.searches.is_empty() {
            return None;
        }
        let ids: Vec<SearchId> = self.searches.keys().copied().collect();
        for id in ids {
            let asked = &self.searches[&id];
            if only_owed && !asked.is_owed || !self.may_ask(asked, now) {
                continue;
            }
            let asked = self.searches.get_mut(&id)?;
            match asked.source.request_for_new(now) {
                Some(bid) => {
                    return Some(self.begin_search(
                        id,
                        bid.request,
                        (Purpose::First, None),
                        false,
                        now,
                    ));
                }
                // They are about to come.
                None if asked.source.has_new(now) => asked.source.reconsider_later(now),
                None => {}
            }
        }
        None
    }

    /// The best request to a search source that counts, and what it is worth beside
    /// polls of elements. Rows that were never had come first, if it is their turn.
    pub(super) fn best_search(&mut self, now: Time) -> Option<(SearchId, Bid, Purpose)> {
        let is_free = self.settings.first_pass == FirstPolls::Free;
        let mut best: Option<(SearchId, Bid, Purpose)> = None;
        let ids: Vec<SearchId> = self.searches.keys().copied().collect();
        for id in ids {
            let asked = &self.searches[&id];
            // A first pass that does not count comes first.
            if !self.may_ask(asked, now) || is_free && asked.source.has_new(now) {
                continue;
            }
            let (next_is_first_poll, scope) = (self.next_is_first_poll && !is_free, self.scope);
            let scheduler = &self.scheduler;
            let source = &mut self.searches.get_mut(&id)?.source;
            let new = match next_is_first_poll {
                true => source.request_for_new(now),
                false => None,
            };
            let bid = match (new, scope) {
                (Some(new), _) => Some((new, Purpose::First)),
                (None, Scope::Everything) => source
                    .request(&|row, objective| scheduler.worth(row, objective, now), now)
                    .map(|bid| (bid, Purpose::Due)),
                (None, _) => source
                    .request_for_overdue(now)
                    .map(|bid| (bid, Purpose::Due)),
            };
            let Some((bid, purpose)) = bid else {
                source.reconsider_later(now);
                continue;
            };
            if best.is_none_or(|(_, most, _)| bid.worth > most.worth) {
                best = Some((id, bid, purpose));
            }
        }
        best
    }

    /// A row that someone asked for, and others with it if a query brings them.
    pub(super) fn ask_for_rows(&mut self, id: SearchId, now: Time) -> Chosen {
        let asked = &self.searches[&id];
        if !self.may_ask(asked, now) {
            return Chosen::None;
        }
        let wanted: Vec<ElementId> = self.asked().collect();
        let asked = &self.searches[&id];
        let Some(request) = asked.source.request_for_wanted(wanted) else {
            if let Some(source) = self.search_mut(id) {
                source.reconsider_later(now);
            }
            return Chosen::None;
        };
        let SearchRequest::Row(row) = request else {
            return Chosen::Go(self.begin_search(id, request, (Purpose::Asked, None), true, now));
        };
        let request = asked.source.request_for_row(row);
        // If what finds it is being asked, it is waited for.
        if request.is_some() || !asked.source.is_asking_pages() {
            self.forget_asked(|id| id == row);
        }
        match request {
            Some(request) => {
                let why = (Purpose::Asked, Some(row));
                Chosen::Go(self.begin_search(id, request, why, true, now))
            }
            None => Chosen::None,
        }
    }

    /// A row that is asked for by itself: out and looked at again, or drawn for an audit.
    pub(super) fn ask_for_row(
        &mut self,
        id: SearchId,
        row: ElementId,
        purpose: Purpose,
        now: Time,
    ) -> Chosen {
        let asked = &self.searches[&id];
        let request = match self.may_ask(asked, now) {
            true => asked.source.request_for_row(row),
            false => None,
        };
        match request {
            Some(request) => {
                Chosen::Go(self.begin_search(id, request, (purpose, Some(row)), true, now))
            }
            None => {
                if purpose == Purpose::Due {
                    let group = Some(asked.group);
                    self.retries.set(row, group, now + rows::LOOK_AGAIN);
                }
                Chosen::PassedOver
            }
        }
    }

    pub(super) fn begin_search(
        &mut self,
        source: SearchId,
        request: SearchRequest,
        (purpose, wanted): (Purpose, Option<ElementId>),
        is_counted: bool,
        now: Time,
    ) -> Request {
        let asked = self
            .searches
            .get_mut(&source)
            .expect("a source that was asked");
        asked.source.begun(&request, now);
        let group = asked.group;
        self.gate.begin(group, 1.0, now);
        self.first_pass.owe(group);
        self.note_turn(group, purpose);
        self.spend(is_counted, 1.0, now);
        match request {
            SearchRequest::Page(_) => self.n_pages += 1,
            SearchRequest::Row(id) => self.under_way.push(id),
        }
        Request::Search(SearchPoll {
            source,
            request,
            group,
            purpose,
            wanted,
            is_counted,
        })
    }

    /// When a search source may be asked, if the budget allows it at `paced`, or if what
    /// it would be asked for does not count.
    pub(super) fn searches_wake_at(&self, paced: Time, now: Time) -> Time {
        let is_free = self.has_free_first_polls();
        let opens = self
            .settings
            .window
            .map_or(now, |window| window.opens_at(now));
        let mut first = Time::NEVER;
        let ahead = self.spends_at(Purpose::Asked, now);
        for (&id, asked) in &self.searches {
            let is_asked = || self.asked().any(|row| self.search_of(row) == Some(id));
            let allowed = match is_free && asked.source.has_new(now) {
                true => opens,
                false if ahead < paced && is_asked() => ahead,
                false => paced,
            };
            let at = later(asked.source.wake_at(now), self.gate.free_at(asked.group));
            first = earlier(first, later(at, allowed));
        }
        first
    }

    fn may_ask(&self, asked: &SearchEntry, now: Time) -> bool {
        asked.source.wake_at(now) <= now && self.gate.free_at(asked.group) <= now
    }
}
