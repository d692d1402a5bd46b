//! A store that forgets everything when it is dropped.

use std::collections::BTreeMap;

use crate::{
    Audit, BodyId, Brief, Change, ChangeFilter, ElementId, Error, Fact, Group, GroupId, Host, Kept,
    Moment, Poll, Query, Source, SourceId, State, Store, sqlite,
};

/// Facts, kept in memory: for tests, and for a run that leaves nothing behind.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    sources: BTreeMap<SourceId, Source>,
    groups: BTreeMap<GroupId, Group>,
    memories: BTreeMap<GroupId, Vec<u8>>,
    hosts: BTreeMap<GroupId, Host>,
    notes: BTreeMap<&'static str, Vec<u8>>,
    elements: BTreeMap<ElementId, Kept>,
    next_element: u32,
    polls: Vec<Poll>,
    changes: BTreeMap<u64, Change>,
    n_changes: u64,
    queries: BTreeMap<(SourceId, String), Query>,
}

impl Memory {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn keep(&mut self, fact: &Fact) {
        match fact {
            Fact::Source(source) => {
                self.sources.insert(source.id, source.clone());
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
            Fact::Poll(poll) => self.polls.push(poll.clone()),
            Fact::Change(change) => {
                self.n_changes += 1;
                let number = self.n_changes;
                let change = change.clone();
                self.changes.insert(number, Change { number, ..change });
            }
            Fact::Query(query) => {
                let key = (query.source, query.text.clone());
                self.queries.insert(key, query.clone());
            }
            Fact::Host(host) => {
                self.hosts.insert(host.group, host.clone());
            }
            Fact::GroupMemory(group, bytes) => {
                self.memories.insert(*group, bytes.clone());
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
        let is_of = |element: &ElementId| {
            let kept = self.elements.get(element);
            kept.is_some_and(|kept| kept.element.source == source)
        };
        self.polls.retain(|poll| !is_of(&poll.element));
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

impl Store for Memory {
    fn commit(&mut self, facts: &[Fact]) -> Result<(), Error> {
        facts.iter().for_each(|fact| self.keep(fact));
        Ok(())
    }

    fn sources(&self) -> Result<Vec<Source>, Error> {
        Ok(self.sources.values().cloned().collect())
    }

    fn groups(&self) -> Result<Vec<Group>, Error> {
        Ok(self.groups.values().cloned().collect())
    }

    fn groups_by_id(&self, ids: &[GroupId]) -> Result<Vec<Group>, Error> {
        let groups = ids.iter().filter_map(|id| self.groups.get(id));
        Ok(groups.cloned().collect())
    }

    fn hosts(&self) -> Result<Vec<Host>, Error> {
        Ok(self.hosts.values().cloned().collect())
    }

    fn group_memories(&self) -> Result<Vec<(GroupId, Vec<u8>)>, Error> {
        let memories = self.memories.iter();
        Ok(memories.map(|(id, bytes)| (*id, bytes.clone())).collect())
    }

    fn group_memories_by_id(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Vec<u8>)>, Error> {
        let memory = |id: &GroupId| Some((*id, self.memories.get(id)?.clone()));
        Ok(ids.iter().filter_map(memory).collect())
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.notes.get(name).cloned())
    }

    fn next_element(&self) -> Result<u32, Error> {
        Ok(self.next_element)
    }

    fn element(&self, id: ElementId) -> Result<Option<Kept>, Error> {
        Ok(self.elements.get(&id).cloned())
    }

    fn find(&self, source: SourceId, locator: &str) -> Result<Option<Kept>, Error> {
        let is_it = |kept: &&Kept| kept.element.source == source && kept.element.locator == locator;
        Ok(self.elements.values().find(is_it).cloned())
    }

    fn find_all(&self, locator: &str) -> Result<Vec<Kept>, Error> {
        Ok(self.elements_where(|kept| kept.element.locator == locator))
    }

    fn elements(
        &self,
        source: Option<SourceId>,
        from: ElementId,
        limit: usize,
    ) -> Result<Vec<Kept>, Error> {
        let is_of = |kept: &&Kept| source.is_none_or(|source| kept.element.source == source);
        let elements = self.elements.range(from..).map(|(_, kept)| kept);
        Ok(elements.filter(is_of).take(limit).cloned().collect())
    }

    fn new_elements(
        &self,
        host: GroupId,
        from: ElementId,
        limit: usize,
    ) -> Result<Vec<ElementId>, Error> {
        let is_new = |kept: &&Kept| kept.state == State::New && kept.element.host == host;
        let elements = self.elements.range(from..).map(|(_, kept)| kept);
        let ids = elements.filter(is_new).map(|kept| kept.element.id);
        Ok(ids.take(limit).collect())
    }

    fn n_new(&self) -> Result<Vec<(GroupId, u64)>, Error> {
        let mut counts = BTreeMap::new();
        let new = self
            .elements
            .values()
            .filter(|kept| kept.state == State::New);
        new.for_each(|kept| *counts.entry(kept.element.host).or_default() += 1);
        Ok(counts.into_iter().collect())
    }

    fn scan(&self, stride: usize, each: &mut dyn FnMut(ElementId, &Brief)) -> Result<(), Error> {
        for (id, kept) in &self.elements {
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
        let changes = self.changes.range(..before.unwrap_or(u64::MAX)).rev();
        let changes = changes.map(|(_, change)| change).filter(|change| {
            filter.source.is_none_or(|source| change.source == source)
                && filter
                    .element
                    .is_none_or(|element| change.element == element)
                && filter.since.is_none_or(|since| change.found_at >= since)
        });
        Ok(changes.take(limit).cloned().collect())
    }

    fn polls(&self, element: ElementId, limit: usize) -> Result<Vec<Poll>, Error> {
        let polls = self
            .polls
            .iter()
            .rev()
            .filter(|poll| poll.element == element);
        Ok(polls.take(limit).cloned().collect())
    }

    fn audits(&self, since: Moment) -> Result<Vec<Audit>, Error> {
        let polls = self.polls.iter().filter(|poll| poll.at >= since);
        let mut audits: Vec<Audit> = polls.filter_map(Poll::audit).collect();
        audits.sort_by_key(|audit| audit.at);
        Ok(audits)
    }

    fn latest_polls(&self, limit: usize) -> Result<Vec<Moment>, Error> {
        let counted = self.polls.iter().filter(|poll| poll.is_counted);
        let mut begun: Vec<Moment> = counted.map(|poll| poll.begun_at).collect();
        begun.sort_unstable_by(|a, b| b.cmp(a));
        begun.truncate(limit);
        Ok(begun)
    }

    fn query(&self, source: SourceId, text: &str) -> Result<Option<Query>, Error> {
        Ok(self.queries.get(&(source, text.to_owned())).cloned())
    }

    fn queries(&self, source: SourceId) -> Result<Vec<Query>, Error> {
        let queries = self.queries.range((source, String::new())..);
        let queries = queries.map(|(_, query)| query);
        let of_source = queries.take_while(|query| query.source == source);
        Ok(of_source.cloned().collect())
    }

    fn bodies(&self, each: &mut dyn FnMut(BodyId)) -> Result<(), Error> {
        let copies = self.elements.values().filter_map(|kept| kept.copy.as_ref());
        copies.for_each(|copy| each(copy.body));
        let versions = self.changes.values().filter_map(|change| change.body);
        versions.for_each(each);
        Ok(())
    }
}
