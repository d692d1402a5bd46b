//! What listings and pages name: elements that appear, go, come back, or are said to
//! have changed.

use std::collections::BTreeMap;

use springtide_policy::GroupId;
use springtide_store::{
    Element, ElementId, Fact, FailureKind, Kept, Moment, Role, SourceId, SourceKind, State, Store,
};
use url::Url;

use super::Engine;
use crate::event::Event;
use crate::{Error, clock, fetch};

/// Elements of a listing that are taken in at a time.
const LISTED_AT_A_TIME: usize = 2_000;

/// What is still to be taken in.
pub(super) enum Item {
    Listed(Listed),
    /// Everything that this listing names has been.
    Read(Box<Kept>),
}

/// Something that a listing named.
pub(super) struct Listed {
    pub(super) source: SourceId,
    pub(super) url: String,
    pub(super) role: Role,
    pub(super) depth: u16,
    pub(super) news: News,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Added,
    Touched,
    Removed,
}

impl Engine {
    /// Sitemaps that a robots.txt names are listings of the site it is of.
    pub(super) fn note_sitemaps(&mut self, group: GroupId, robots_url: &Url) {
        let origin = fetch::origin(robots_url);
        let Some((_, rules)) = self.hosts.robots(group, &origin) else {
            return;
        };
        let sitemaps: Vec<String> = rules.sitemaps().iter().map(Url::to_string).collect();
        for (&id, state) in &mut self.sources {
            let is_its = state.settings.kind == SourceKind::Site
                && Url::parse(&state.settings.url).is_ok_and(|url| fetch::origin(&url) == origin);
            if is_its && !sitemaps.is_empty() {
                state.has_sitemaps = true;
                self.listed.extend(sitemaps.iter().map(|url| {
                    Item::Listed(Listed {
                        source: id,
                        url: url.clone(),
                        role: Role::Listing,
                        depth: 1,
                        news: News::Added,
                    })
                }));
            }
        }
    }

    /// Takes in elements that listings and pages named.
    pub(super) fn take_in_listed(&mut self, now: Moment) -> Result<(), Error> {
        let mut n_found: BTreeMap<SourceId, u64> = BTreeMap::new();
        for _ in 0..LISTED_AT_A_TIME {
            let listed = match self.listed.pop_front() {
                Some(Item::Listed(listed)) => listed,
                Some(Item::Read(kept)) => {
                    self.finish_listing(*kept)?;
                    continue;
                }
                None => break,
            };
            let Ok(url) = fetch::locator(&listed.url) else {
                continue;
            };
            let Some(state) = self.sources.get(&listed.source) else {
                continue;
            };
            let is_full = state.source.totals.n_elements >= state.settings.max_elements;
            let weight = state.settings.weight as f32;
            let known = self.find(listed.source, url.as_str())?;
            match (known, listed.news) {
                (None, News::Added) if !is_full => {
                    let (host, group) = self.place(&url)?;
                    let id = ElementId(self.next_element);
                    self.next_element = self.next_element.checked_add(1).ok_or(Error::Numbering)?;
                    let element = Element {
                        id,
                        source: listed.source,
                        locator: url.to_string(),
                        group,
                        host,
                        role: listed.role,
                        weight,
                        depth: listed.depth,
                    };
                    self.facts.push(Fact::Element(element));
                    if let Some(state) = self.sources.get_mut(&listed.source) {
                        if listed.role == Role::Listing {
                            state.listings.insert(id, Moment(0));
                        } else {
                            state.source.totals.n_elements += 1;
                            state.source.totals.n_new += 1;
                            *n_found.entry(listed.source).or_default() += 1;
                        }
                    }
                    self.changed_sources.insert(listed.source);
                    self.first_pass.add(host, id);
                    self.is_first_pass_over = false;
                }
                (None, _) => {}
                (Some(mut kept), News::Added | News::Touched) => {
                    let id = kept.element.id;
                    if kept.is_unlisted
                        && kept
                            .failure
                            .as_ref()
                            .is_none_or(|f| f.kind != FailureKind::Moved)
                    {
                        kept.is_unlisted = false;
                        self.facts.push(Fact::Kept(Box::new(kept.clone())));
                    }
                    match kept.state {
                        State::Gone if listed.news == News::Added && !kept.is_unlisted => {
                            self.timers.set(id, now);
                        }
                        State::Ok | State::Failing => {
                            self.scheduler.hint(id, clock::time(now));
                            if kept.element.role == Role::Listing {
                                self.timers.set(id, now);
                            }
                        }
                        _ => {}
                    }
                }
                (Some(mut kept), News::Removed) => {
                    if kept.state != State::Gone && !kept.is_unlisted {
                        // Gone from its listing: the next poll tells whether it is gone.
                        kept.is_unlisted = true;
                        let id = kept.element.id;
                        self.facts.push(Fact::Kept(Box::new(kept)));
                        self.timers.set(id, now);
                    }
                }
            }
        }
        if !n_found.is_empty() {
            self.expect();
        }
        for (source, n_elements) in n_found {
            let source = self.sources[&source].source.name.clone();
            self.tell(Event::Found { source, n_elements });
        }
        Ok(())
    }

    /// A listing has been read: its copy is the new one from now on.
    pub(super) fn finish_listing(&mut self, read: Kept) -> Result<(), Error> {
        let id = read.element.id;
        self.under_way.remove(&id);
        let before = self.kept(id)?;
        let Some(mut kept) = before else {
            return Ok(());
        };
        let old = kept.copy.take().map(|copy| copy.body);
        let new = read.copy.as_ref().map(|copy| copy.body);
        self.obsolete.extend(old.filter(|&old| Some(old) != new));
        kept.copy = read.copy;
        self.facts.push(Fact::Kept(Box::new(kept)));
        Ok(())
    }

    /// An element by its address, among those kept and those about to be.
    pub(super) fn find(&self, source: SourceId, locator: &str) -> Result<Option<Kept>, Error> {
        for fact in self.facts.iter().rev() {
            match fact {
                Fact::Kept(kept)
                    if kept.element.source == source && kept.element.locator == locator =>
                {
                    return Ok(Some((**kept).clone()));
                }
                Fact::Element(element)
                    if element.source == source && element.locator == locator =>
                {
                    return Ok(Some(Kept::new(element.clone())));
                }
                _ => {}
            }
        }
        Ok(self.store.find(source, locator)?)
    }
}
