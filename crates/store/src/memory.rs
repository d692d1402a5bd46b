//! A store that forgets everything when it is dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{
    Audit, BodyId, Brief, Change, ChangeFilter, ElementId, Error, Fact, Group, GroupId, Host, Kept,
    KeptPoll, MemoryOf, Moment, Numbers, Poll, Query, Reader, Robots, Source, SourceId, State,
    Writer, sqlite,
};

/// Facts, kept in memory: for tests, and for a run that leaves nothing behind.
///
/// Clones share what is kept, and the lease: one may write while another reads.
#[derive(Debug, Clone)]
pub struct Memory {
    shared: Arc<RwLock<Facts>>,
    /// The lease, which is lost when there is a later one.
    lease: u64,
    numbers: Numbers,
}

#[derive(Debug, Default)]
struct Facts {
    /// The latest lease.
    lease: u64,
    sources: BTreeMap<SourceId, Source>,
    next_source: u32,
    groups: BTreeMap<GroupId, Group>,
    memories: BTreeMap<MemoryOf, Vec<u8>>,
    hosts: BTreeMap<GroupId, Host>,
    robots: BTreeMap<GroupId, Vec<Robots>>,
    notes: BTreeMap<&'static str, Vec<u8>>,
    elements: BTreeMap<ElementId, Kept>,
    next_element: u32,
    polls: BTreeMap<u64, Poll>,
    n_polls: u64,
    changes: BTreeMap<u64, Change>,
    n_changes: u64,
    queries: BTreeMap<(SourceId, String), Query>,
}

impl Memory {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            shared: Arc::default(),
            lease: 0,
            numbers: Numbers::starting_at(0, 0, 0),
        }
    }

    /// Another writer of what is kept here, which takes the lease: this one and its
    /// clones only read from now on.
    pub fn take_over(&self) -> Self {
        let mut facts = self.facts_mut();
        facts.lease += 1;
        let last_group = facts.groups.keys().next_back();
        let next_group = last_group.map_or(0, |group| group.number().saturating_add(1));
        Self {
            shared: Arc::clone(&self.shared),
            lease: facts.lease,
            numbers: Numbers::starting_at(facts.next_source, next_group, facts.next_element),
        }
    }

    fn facts(&self) -> RwLockReadGuard<'_, Facts> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn facts_mut(&self) -> RwLockWriteGuard<'_, Facts> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer for Memory {
    fn commit(&mut self, facts: &[Fact]) -> Result<(), Error> {
        let mut kept = self.facts_mut();
        if kept.lease != self.lease {
            return Err(Error::LeaseLost);
        }
        facts.iter().for_each(|fact| kept.keep(fact));
        self.numbers.take(facts);
        Ok(())
    }

    fn numbers(&self) -> Numbers {
        self.numbers.clone()
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

impl Facts {
    fn keep(&mut self, fact: &Fact) {
        match fact {
            Fact::Source(source) => {
                self.sources.insert(source.id, source.clone());
                self.next_source = self.next_source.max(source.id.0.saturating_add(1));
            }
            Fact::SourceRemoved(id) => self.remove(*id),
            Fact::Totals(id, totals) => {
                if let Some(source) = self.sources.get_mut(id) {
                    source.totals = *totals;
                }
            }
            Fact::SourceError(id, error) => {
                if let Some(source) = self.sources.get_mut(id) {
                    source.error = error.clone();
                }
            }
            Fact::Group(group) => {
                self.groups.insert(group.id, group.clone());
            }
            Fact::Element(element) => {
                let known = self.elements.entry(element.id);
                known
                    .and_modify(|kept| kept.element = element.clone())
                    .or_insert_with(|| Kept::new(element.clone()));
                self.next_element = self.next_element.max(element.id.0.saturating_add(1));
            }
            Fact::Kept(kept) => {
                let id = kept.element.id;
                self.elements.insert(id, (**kept).clone());
                self.next_element = self.next_element.max(id.0.saturating_add(1));
            }
            Fact::Poll(poll) => {
                self.n_polls += 1;
                self.polls.insert(self.n_polls, poll.clone());
            }
            Fact::Change(change) => {
                self.n_changes += 1;
                let number = self.n_changes;
                let earlier = self.changes.values().rev();
                let earlier = earlier.filter(|earlier| earlier.element == change.element);
                let last = earlier.map(|earlier| earlier.version).next().unwrap_or(0);
                let version = last + u64::from(change.is_version());
                let change = Change {
                    number,
                    version,
                    ..change.clone()
                };
                self.changes.insert(number, change);
            }
            Fact::ChangeForgotten(number) => {
                self.changes.remove(number);
            }
            Fact::VersionForgotten(number) => {
                if let Some(change) = self.changes.get_mut(number) {
                    change.body = None;
                }
            }
            Fact::PollForgotten(number) => {
                self.polls.remove(number);
            }
            Fact::Query(query) => {
                let key = (query.source, query.text.clone());
                self.queries.insert(key, query.clone());
            }
            Fact::Host(host) => {
                self.hosts.insert(host.group, host.clone());
            }
            Fact::Robots(group, robots) => {
                self.robots.insert(*group, robots.clone());
            }
            Fact::Memory(of, bytes) => {
                self.memories.insert(*of, bytes.clone());
            }
            Fact::Note(name, Some(bytes)) => {
                self.notes.insert(name, bytes.clone());
            }
            Fact::Note(name, None) => {
                self.notes.remove(name);
            }
        }
    }

    fn remove(&mut self, source: SourceId) {
        self.sources.remove(&source);
        self.memories.remove(&MemoryOf::Search(source));
        let is_of = |element: &ElementId| {
            let kept = self.elements.get(element);
            kept.is_some_and(|kept| kept.element.source == source)
        };
        self.polls.retain(|_, poll| !is_of(&poll.element));
        self.changes.retain(|_, change| change.source != source);
        self.elements
            .retain(|_, kept| kept.element.source != source);
        self.queries.retain(|_, query| query.source != source);
    }

    fn elements_where(&self, is_wanted: impl Fn(&Kept) -> bool) -> Vec<Kept> {
        let wanted = self.elements.values().filter(|kept| is_wanted(kept));
        wanted.cloned().collect()
    }
}

impl Reader for Memory {
    fn sources(&self) -> Result<Vec<Source>, Error> {
        let facts = self.facts();
        Ok(facts.sources.values().cloned().collect())
    }

    fn groups(&self) -> Result<Vec<Group>, Error> {
        let facts = self.facts();
        Ok(facts.groups.values().cloned().collect())
    }

    fn groups_by_id(&self, ids: &[GroupId]) -> Result<Vec<Group>, Error> {
        let facts = self.facts();
        let groups = ids.iter().filter_map(|id| facts.groups.get(id));
        Ok(groups.cloned().collect())
    }

    fn hosts(&self) -> Result<Vec<Host>, Error> {
        let facts = self.facts();
        Ok(facts.hosts.values().cloned().collect())
    }

    fn robots(&self) -> Result<Vec<(GroupId, Vec<Robots>)>, Error> {
        let facts = self.facts();
        let robots = facts.robots.iter().filter(|(_, robots)| !robots.is_empty());
        Ok(robots
            .map(|(group, robots)| (*group, robots.clone()))
            .collect())
    }

    fn memory(&self, of: MemoryOf) -> Result<Option<Vec<u8>>, Error> {
        let facts = self.facts();
        Ok(facts.memories.get(&of).cloned())
    }

    fn group_memories(&self) -> Result<Vec<(GroupId, Vec<u8>)>, Error> {
        let facts = self.facts();
        let memories = facts.memories.iter();
        let groups = memories.filter_map(|(of, bytes)| match of {
            MemoryOf::Group(group) => Some((*group, bytes.clone())),
            _ => None,
        });
        Ok(groups.collect())
    }

    fn group_memories_by_id(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Vec<u8>)>, Error> {
        let facts = self.facts();
        let memory = |id: &GroupId| Some((*id, facts.memories.get(&MemoryOf::Group(*id))?.clone()));
        Ok(ids.iter().filter_map(memory).collect())
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let facts = self.facts();
        Ok(facts.notes.get(name).cloned())
    }

    fn next_element(&self) -> Result<u32, Error> {
        let facts = self.facts();
        Ok(facts.next_element)
    }

    fn element(&self, id: ElementId) -> Result<Option<Kept>, Error> {
        let facts = self.facts();
        Ok(facts.elements.get(&id).cloned())
    }

    fn find(&self, source: SourceId, locator: &str) -> Result<Option<Kept>, Error> {
        let facts = self.facts();
        let is_it = |kept: &&Kept| kept.element.source == source && kept.element.locator == locator;
        Ok(facts.elements.values().find(is_it).cloned())
    }

    fn find_all(&self, locator: &str) -> Result<Vec<Kept>, Error> {
        let facts = self.facts();
        Ok(facts.elements_where(|kept| kept.element.locator == locator))
    }

    fn redirected_to(
        &self,
        source: SourceId,
        address: &str,
        limit: usize,
    ) -> Result<Vec<ElementId>, Error> {
        let facts = self.facts();
        let leads_there = |kept: &&Kept| {
            let redirect = kept.copy.as_ref().and_then(|copy| copy.redirect.as_ref());
            kept.element.source == source && redirect.is_some_and(|found| found.to == address)
        };
        let found = facts.elements.values().filter(leads_there);
        Ok(found.map(|kept| kept.element.id).take(limit).collect())
    }

    fn elements(
        &self,
        source: Option<SourceId>,
        from: ElementId,
        limit: usize,
    ) -> Result<Vec<Kept>, Error> {
        let facts = self.facts();
        let is_of = |kept: &&Kept| source.is_none_or(|source| kept.element.source == source);
        let elements = facts.elements.range(from..).map(|(_, kept)| kept);
        Ok(elements.filter(is_of).take(limit).cloned().collect())
    }

    fn new_elements(
        &self,
        host: GroupId,
        from: ElementId,
        limit: usize,
    ) -> Result<Vec<ElementId>, Error> {
        let facts = self.facts();
        let is_new = |kept: &&Kept| kept.state == State::New && kept.element.host == host;
        let elements = facts.elements.range(from..).map(|(_, kept)| kept);
        let ids = elements.filter(is_new).map(|kept| kept.element.id);
        Ok(ids.take(limit).collect())
    }

    fn n_new(&self) -> Result<Vec<(GroupId, u64)>, Error> {
        let facts = self.facts();
        let mut counts = BTreeMap::new();
        let kept = facts.elements.values();
        let new = kept.filter(|kept| kept.state == State::New);
        new.for_each(|kept| *counts.entry(kept.element.host).or_default() += 1);
        Ok(counts.into_iter().collect())
    }

    fn scan(&self, stride: usize, each: &mut dyn FnMut(ElementId, &Brief)) -> Result<(), Error> {
        let facts = self.facts();
        for (id, kept) in &facts.elements {
            let block = (id.0 / sqlite::record::PER_CHUNK) as usize;
            if block.is_multiple_of(stride.max(1)) {
                each(*id, &kept.brief());
            }
        }
        Ok(())
    }

    fn changes(
        &self,
        filter: &ChangeFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Change>, Error> {
        let facts = self.facts();
        let changes = facts.changes.range(..before.unwrap_or(u64::MAX)).rev();
        let changes = changes.map(|(_, change)| change).filter(|change| {
            filter.source.is_none_or(|source| change.source == source)
                && filter
                    .element
                    .is_none_or(|element| change.element == element)
                && filter.since.is_none_or(|since| change.found_at >= since)
        });
        Ok(changes.take(limit).cloned().collect())
    }

    fn changes_after(&self, after: u64, limit: usize) -> Result<Vec<Change>, Error> {
        let facts = self.facts();
        let changes = facts.changes.range(after.saturating_add(1)..);
        Ok(changes
            .take(limit)
            .map(|(_, change)| change.clone())
            .collect())
    }

    fn polls_after(&self, after: u64, limit: usize) -> Result<Vec<KeptPoll>, Error> {
        let facts = self.facts();
        let polls = facts.polls.range(after.saturating_add(1)..).take(limit);
        let kept = polls.map(|(number, poll)| KeptPoll {
            number: *number,
            source: poll.source,
            at: poll.at,
        });
        Ok(kept.collect())
    }

    fn polls(&self, element: ElementId, limit: usize) -> Result<Vec<Poll>, Error> {
        let facts = self.facts();
        let latest_first = facts.polls.values().rev();
        let polls = latest_first.filter(|poll| poll.element == element);
        Ok(polls.take(limit).cloned().collect())
    }

    fn failed_polls(&self, source: SourceId, limit: usize) -> Result<Vec<Poll>, Error> {
        let facts = self.facts();
        let latest_first = facts.polls.values().rev();
        let polls = latest_first.filter(|poll| poll.source == source && poll.error.is_some());
        Ok(polls.take(limit).cloned().collect())
    }

    fn audits(&self, since: Moment) -> Result<Vec<Audit>, Error> {
        let facts = self.facts();
        let polls = facts.polls.values().filter(|poll| poll.at >= since);
        let mut audits: Vec<Audit> = polls.filter_map(Poll::audit).collect();
        audits.sort_by_key(|audit| audit.at);
        Ok(audits)
    }

    fn latest_polls(&self, limit: usize) -> Result<Vec<Moment>, Error> {
        let facts = self.facts();
        let counted = facts.polls.values().filter(|poll| poll.is_counted);
        let mut begun: Vec<Moment> = counted.map(|poll| poll.begun_at).collect();
        begun.sort_unstable_by(|a, b| b.cmp(a));
        begun.truncate(limit);
        Ok(begun)
    }

    fn query(&self, source: SourceId, text: &str) -> Result<Option<Query>, Error> {
        let facts = self.facts();
        Ok(facts.queries.get(&(source, text.to_owned())).cloned())
    }

    fn queries(&self, source: SourceId) -> Result<Vec<Query>, Error> {
        let facts = self.facts();
        let queries = facts.queries.range((source, String::new())..);
        let queries = queries.map(|(_, query)| query);
        let of_source = queries.take_while(|query| query.source == source);
        Ok(of_source.cloned().collect())
    }

    fn bodies(&self, each: &mut dyn FnMut(BodyId)) -> Result<(), Error> {
        let facts = self.facts();
        let copies = facts
            .elements
            .values()
            .filter_map(|kept| kept.copy.as_ref());
        copies.for_each(|copy| each(copy.body));
        let versions = facts.changes.values().filter_map(|change| change.body);
        versions.for_each(each);
        Ok(())
    }
}
