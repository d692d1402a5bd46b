//! What listings and pages name: elements that appear, go, come back, or are said to
//! have changed.

use std::collections::BTreeMap;

use springtide_policy::GroupId;
use springtide_store::{
    Element, ElementId, FailureKind, Kept, Moment, Role, SourceId, SourceKind, State,
};
use url::Url;

use super::Engine;
use crate::event::Event;
use crate::source::MentionKind;
use crate::trust::HintKind;
use crate::{Error, clock, fetch};

/// Elements of a listing that are taken in at a time.
const LISTED_AT_A_TIME: usize = 2_000;

/// What is still to be added.
pub(super) enum ToAdd {
    Named(NamedElement),
    /// Everything that this listing names has been added.
    ListingDone(Box<Kept>),
}

/// Something that a listing named.
pub(super) struct NamedElement {
    pub(super) source: SourceId,
    pub(super) url: String,
    pub(super) role: Role,
    pub(super) depth: u16,
    pub(super) mention: MentionKind,
    /// The element that named it, if one did.
    pub(super) by: Option<ElementId>,
}

impl Engine {
    /// Sitemaps that a robots.txt names are listings of the site it is of.
    pub(super) fn note_sitemaps(&mut self, group: GroupId, robots_url: &Url) {
        let origin = fetch::origin(robots_url);
        let Some(rules) = self.robots_cache.rules(group, &origin) else {
            return;
        };
        let sitemaps: Vec<String> = rules.sitemaps().iter().map(Url::to_string).collect();
        for (&id, state) in &mut self.sources {
            let is_its = state.settings.kind == SourceKind::Site
                && Url::parse(&state.settings.url).is_ok_and(|url| fetch::origin(&url) == origin);
            if is_its && !sitemaps.is_empty() {
                state.has_sitemaps = true;
                self.listed.extend(sitemaps.iter().map(|url| {
                    ToAdd::Named(NamedElement {
                        source: id,
                        url: url.clone(),
                        role: Role::Listing,
                        depth: 1,
                        mention: MentionKind::Added,
                        by: None,
                    })
                }));
            }
        }
    }

    /// Takes in elements that listings and pages named.
    pub(super) fn take_in_listed(&mut self, now: Moment) -> Result<(), Error> {
        let at = clock::time(now);
        let mut n_found: BTreeMap<SourceId, u64> = BTreeMap::new();
        let mut left_out: BTreeMap<ElementId, u64> = BTreeMap::new();
        for _ in 0..LISTED_AT_A_TIME {
            let listed = match self.listed.pop_front() {
                Some(ToAdd::Named(listed)) => listed,
                Some(ToAdd::ListingDone(kept)) => {
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
            let totals = self
                .ledger
                .source(listed.source)
                .map(|source| source.totals);
            let n_elements = totals.map_or(0, |totals| totals.n_elements);
            let is_full = n_elements >= state.settings.max_elements;
            let has_listings = state.n_listings >= state.max_listings();
            let weight = state.settings.weight as f32;
            let hint_kind = HintKind::of_listing(state.settings.kind);
            let known = self.ledger.find(listed.source, url.as_str())?;
            match (known, listed.mention) {
                (None, MentionKind::Added) if listed.role == Role::Listing && has_listings => {
                    if let Some(by) = listed.by {
                        *left_out.entry(by).or_default() += 1;
                    }
                }
                (None, MentionKind::Added) if !is_full => {
                    let (host, group) = self.groups_of(&url)?;
                    let kept = self.ledger.add(Element {
                        id: ElementId(0),
                        source: listed.source,
                        locator: url.to_string(),
                        group,
                        host,
                        role: listed.role,
                        weight,
                        depth: listed.depth,
                    })?;
                    let id = kept.element.id;
                    if listed.role == Role::Listing {
                        let longest = self.longest_listing_wait(listed.source);
                        self.agenda.set_listing(id, None, longest);
                        if let Some(state) = self.sources.get_mut(&listed.source) {
                            state.n_listings += 1;
                        }
                    } else {
                        *n_found.entry(listed.source).or_default() += 1;
                    }
                    self.new_elements.add(host, id);
                    self.agenda.add_new(Some(host), 1, at);
                    self.agenda.set_n_known(self.ledger.next_element());
                    self.progress.is_first_pass_over = false;
                }
                (None, _) => {}
                (Some(mut kept), MentionKind::Added | MentionKind::Touched) => {
                    let (id, group) = (kept.element.id, Some(kept.element.host));
                    if kept.is_unlisted
                        && kept
                            .failure
                            .as_ref()
                            .is_none_or(|f| f.kind != FailureKind::Moved)
                    {
                        kept.is_unlisted = false;
                        self.ledger.write(kept.clone());
                    }
                    match kept.state {
                        State::Gone
                            if listed.mention == MentionKind::Added && !kept.is_unlisted =>
                        {
                            self.agenda.look_at(id, group, at);
                        }
                        State::Ok | State::Failing => {
                            self.agenda.scheduler_mut().hint(id, at);
                            self.trust.hint(listed.source, id, hint_kind, now);
                            if kept.element.role == Role::Listing {
                                self.agenda.look_at(id, group, at);
                            }
                        }
                        _ => {}
                    }
                }
                (Some(mut kept), MentionKind::Removed) => {
                    if kept.state != State::Gone && !kept.is_unlisted {
                        // Gone from its listing: the next poll tells whether it is gone.
                        kept.is_unlisted = true;
                        let (id, group) = (kept.element.id, Some(kept.element.host));
                        self.ledger.write(kept);
                        self.agenda.look_at(id, group, at);
                    }
                }
            }
        }
        self.tell_left_out(left_out, now)?;
        if !n_found.is_empty() {
            self.expect();
        }
        for (source, n_elements) in n_found {
            let source = self.ledger.name(source);
            self.pending_events
                .push(Event::Found { source, n_elements });
        }
        Ok(())
    }

    /// A listing has been read: its copy is the new one from now on.
    pub(super) fn finish_listing(&mut self, read: Kept) -> Result<(), Error> {
        let id = read.element.id;
        self.agenda.finish(id);
        let before = self.ledger.kept(id)?;
        let Some(mut kept) = before else {
            return Ok(());
        };
        let old = kept.copy.take().map(|copy| copy.body);
        let new = read.copy.as_ref().map(|copy| copy.body);
        if let Some(old) = old.filter(|&old| Some(old) != new) {
            self.ledger.drop_body(id, old);
            self.upkeep.count_dropped(1);
        }
        kept.copy = read.copy;
        self.ledger.write(kept);
        Ok(())
    }
}
