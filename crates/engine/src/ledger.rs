//! The store, and what waits to be kept: facts by the batch, each found again before it is
//! written, by number and by locator.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use springtide_policy::GroupId;
use springtide_policy::schedule::Scheduler;
use springtide_store::{
    Bodies, BodyId, Change, Element, ElementId, Fact, Failure, Kept, Numbers, Poll, PollOutcome,
    Query, Reader, Role, Source, SourceId, State, Totals, Writer,
};

use crate::Error;
use crate::fail_point::fail_point;
use crate::register::GroupIds;

/// What is kept, and what is about to be.
pub(crate) struct Ledger {
    store: Box<dyn Writer>,
    numbers: Numbers,
    /// Facts that wait to be kept, in the order in which they came about.
    facts: Vec<Fact>,
    /// Elements and queries among them, as they are after all of them.
    elements: HashMap<ElementId, Kept>,
    located: HashMap<(SourceId, String), ElementId>,
    queries: HashMap<(SourceId, String), Query>,
    /// Sources that are wanted, with their running totals.
    sources: BTreeMap<SourceId, Source>,
    /// Those whose totals have changed.
    changed: BTreeSet<SourceId>,
    group_ids: Option<GroupIds>,
    next_element: u32,
    /// Bodies that nothing names once all is kept.
    obsolete: Vec<(ElementId, BodyId)>,
}

/// Elements whose bodies are looked through.
const MOST_TO_LOOK_THROUGH: u32 = 1_000_000;
/// Unreferenced bodies are removed once there are this many of them, and as many more for
/// each thousand elements that have to be looked through.
const MOST_OBSOLETE: usize = 64;

impl Ledger {
    pub(crate) fn new(
        store: Box<dyn Writer>,
        sources: BTreeMap<SourceId, Source>,
    ) -> Result<Self, Error> {
        Ok(Self {
            next_element: store.next_element()?,
            numbers: store.numbers(),
            store,
            facts: Vec::new(),
            elements: HashMap::new(),
            located: HashMap::new(),
            queries: HashMap::new(),
            sources,
            changed: BTreeSet::new(),
            group_ids: None,
            obsolete: Vec::new(),
        })
    }

    /// What has been kept so far.
    pub(crate) fn store(&self) -> &dyn Reader {
        &*self.store
    }

    /// Elements have numbers below this.
    pub(crate) fn next_element(&self) -> u32 {
        self.next_element
    }

    /// Whether nothing waits to be kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.changed.is_empty()
    }

    /// Keeps all that waits and what else is told, in one batch.
    pub(crate) fn commit(&mut self, others: impl IntoIterator<Item = Fact>) -> Result<(), Error> {
        self.facts.extend(others);
        for source in std::mem::take(&mut self.changed) {
            if let Some(known) = self.sources.get(&source) {
                self.facts.push(Fact::Totals(source, known.totals));
            }
        }
        fail_point("before-commit");
        self.store.commit(&self.facts)?;
        fail_point("after-commit");
        self.facts.clear();
        self.elements.clear();
        self.located.clear();
        self.queries.clear();
        Ok(())
    }

    /// Lets go of the store, and of bodies of listings that have been read and compared.
    pub(crate) fn close(mut self, bodies: &Bodies) -> Result<(), Error> {
        self.remove_obsolete(bodies, &|_| false)?;
        Ok(self.store.close()?)
    }

    /// Removes bodies of listings that have been read and compared, if there are many.
    /// Those of listings that are being polled stay: they may be as they were before.
    pub(crate) fn tidy(
        &mut self,
        bodies: &Bodies,
        is_under_way: &dyn Fn(ElementId) -> bool,
    ) -> Result<(), Error> {
        let most = MOST_OBSOLETE * (1 + self.next_element as usize / 1000);
        match self.obsolete.len() >= most {
            true => self.remove_obsolete(bodies, is_under_way),
            false => Ok(()),
        }
    }

    /// Removes bodies of listings, unless anyone names them. Of very many elements that is
    /// left to `doctor`.
    fn remove_obsolete(
        &mut self,
        bodies: &Bodies,
        is_under_way: &dyn Fn(ElementId) -> bool,
    ) -> Result<(), Error> {
        if self.next_element > MOST_TO_LOOK_THROUGH {
            self.obsolete.clear();
        }
        let may_stay = self.obsolete.extract_if(.., |(id, _)| !is_under_way(*id));
        let mut obsolete: BTreeSet<BodyId> = may_stay.map(|(_, body)| body).collect();
        if !obsolete.is_empty() {
            self.store.bodies(&mut |body| {
                obsolete.remove(&body);
            })?;
        }
        for body in obsolete {
            bodies.remove(body)?;
        }
        Ok(())
    }
}

/// Sources.
impl Ledger {
    pub(crate) fn source(&self, id: SourceId) -> Option<&Source> {
        self.sources.get(&id)
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.values()
    }

    /// The name of a source.
    pub(crate) fn name(&self, id: SourceId) -> String {
        self.sources
            .get(&id)
            .map_or_else(String::new, |source| source.name.clone())
    }

    /// What is wrong with a source now, or that nothing is.
    pub(crate) fn set_error(&mut self, id: SourceId, failure: Option<Failure>) {
        if let Some(source) = self.sources.get_mut(&id)
            && source.error != failure
        {
            source.error.clone_from(&failure);
            self.facts.push(Fact::SourceError(id, failure));
        }
    }

    /// Counts a poll, and an element that went from one state to another.
    pub(crate) fn count(&mut self, before: &Kept, after: &Kept, poll: Option<&Poll>) {
        let id = after.element.source;
        let Some(source) = self.sources.get_mut(&id) else {
            return;
        };
        if let Some(poll) = poll {
            source.totals.n_polls += 1;
            source.totals.n_changes += u64::from(poll.outcome == PollOutcome::Changed);
        }
        if after.element.role != Role::Listing {
            shift(&mut source.totals, before.state, after.state);
        }
        self.changed.insert(id);
    }
}

/// Elements.
impl Ledger {
    /// What is known of an element.
    pub(crate) fn kept(&self, id: ElementId) -> Result<Option<Kept>, Error> {
        match self.elements.get(&id) {
            Some(kept) => Ok(Some(kept.clone())),
            None => Ok(self.store.element(id)?),
        }
    }

    /// An element by its locator.
    pub(crate) fn find(&self, source: SourceId, locator: &str) -> Result<Option<Kept>, Error> {
        match self.located.get(&(source, locator.to_owned())) {
            Some(&id) => self.kept(id),
            None => match self.store.find(source, locator)? {
                // What is about to be kept of it may be at another address.
                Some(kept) => match self.elements.get(&kept.element.id) {
                    Some(pending) if pending.element.locator != locator => Ok(None),
                    Some(pending) => Ok(Some(pending.clone())),
                    None => Ok(Some(kept)),
                },
                None => Ok(None),
            },
        }
    }

    /// Writes down an element that was not known before, and gives it its number.
    pub(crate) fn add(&mut self, element: Element) -> Result<Kept, Error> {
        let id = self.numbers.element()?;
        let element = Element { id, ..element };
        self.next_element = self.next_element.max(id.0.saturating_add(1));
        self.facts.push(Fact::Element(element.clone()));
        if let Some(source) = self.sources.get_mut(&element.source)
            && element.role != Role::Listing
        {
            source.totals.n_elements += 1;
            source.totals.n_new += 1;
        }
        self.changed.insert(element.source);
        let kept = Kept::new(element);
        self.remember(&kept);
        Ok(kept)
    }

    /// Writes down what is known of an element.
    pub(crate) fn write(&mut self, kept: Kept) {
        self.remember(&kept);
        self.facts.push(Fact::Kept(Box::new(kept)));
    }

    /// Writes down what a poll showed.
    pub(crate) fn write_poll(&mut self, poll: Poll) {
        self.facts.push(Fact::Poll(poll));
    }

    /// Writes down a note of somebody else's.
    pub(crate) fn write_note(&mut self, name: &'static str, bytes: Vec<u8>) {
        self.facts.push(Fact::Note(name, Some(bytes)));
    }

    /// Writes down a change that was found.
    pub(crate) fn write_change(&mut self, change: Change) {
        self.facts.push(Fact::Change(change));
    }

    /// Whether no other element of a source is sent on to this address for good.
    pub(crate) fn is_sole_redirect(
        &self,
        source: SourceId,
        id: ElementId,
        address: &str,
    ) -> Result<bool, Error> {
        // Two are enough: of two, at least one is another element.
        let found = self.store.redirected_to(source, address, 2)?;
        Ok(found.into_iter().all(|other| other == id))
    }

    /// A body that a listing does not name any more.
    pub(crate) fn drop_body(&mut self, id: ElementId, body: BodyId) {
        self.obsolete.push((id, body));
    }

    /// Forgets the bodies to be removed: a collection removes them instead.
    pub(crate) fn clear_obsolete(&mut self) {
        self.obsolete.clear();
    }

    /// Writes down what is not kept any longer.
    pub(crate) fn forget(&mut self, facts: Vec<Fact>) {
        self.facts.extend(facts);
    }

    fn remember(&mut self, kept: &Kept) {
        let element = &kept.element;
        let place = (element.source, element.locator.clone());
        self.located.insert(place, element.id);
        self.elements.insert(element.id, kept.clone());
    }
}

/// Queries and groups.
impl Ledger {
    /// What is known of a query of a search source.
    pub(crate) fn query(&self, source: SourceId, text: &str) -> Result<Option<Query>, Error> {
        match self.queries.get(&(source, text.to_owned())) {
            Some(query) => Ok(Some(query.clone())),
            None => Ok(self.store.query(source, text)?),
        }
    }

    /// Writes down what is known of a query.
    pub(crate) fn write_query(&mut self, query: Query) {
        let place = (query.source, query.text.clone());
        self.queries.insert(place, query.clone());
        self.facts.push(Fact::Query(query));
    }

    /// What a group is called, if it has been kept.
    pub(crate) fn group_name(&self, id: GroupId) -> Result<Option<String>, Error> {
        let mut groups = self.store.groups_by_id(&[id])?;
        Ok(groups.pop().map(|group| group.name))
    }

    /// The outermost and the innermost group of a path. The scheduler is told of groups
    /// that are new.
    pub(crate) fn groups_of(
        &mut self,
        key: &str,
        directories: &[String],
        scheduler: &mut Scheduler,
    ) -> Result<(GroupId, GroupId), Error> {
        let group_ids = match &mut self.group_ids {
            Some(group_ids) => group_ids,
            none => none.insert(GroupIds::read(&*self.store)?),
        };
        let before = self.facts.len();
        let inner = directories.iter().map(String::as_str);
        let found = group_ids.find(key, inner, &mut self.facts);
        for fact in &self.facts[before..] {
            if let Fact::Group(group) = fact
                && scheduler.add_group(group.parent) != group.id
            {
                return Err(Error::Numbering);
            }
        }
        Ok(found?)
    }
}

/// An element went from one state to another.
fn shift(totals: &mut Totals, from: State, to: State) {
    if from == to {
        return;
    }
    let count = |totals: &mut Totals, state, by: i64| {
        let add = |n: &mut u64| *n = n.saturating_add_signed(by);
        match state {
            State::New => add(&mut totals.n_new),
            State::Ok => {}
            State::Failing => add(&mut totals.n_failing),
            State::Blocked => add(&mut totals.n_blocked),
            State::Gone => add(&mut totals.n_gone),
        }
        if state != State::Gone {
            add(&mut totals.n_elements);
        }
    };
    count(totals, from, -1);
    count(totals, to, 1);
}
