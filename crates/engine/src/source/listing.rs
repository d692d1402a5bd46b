//! Listings: documents that name pages and further listings.

use std::collections::BTreeMap;

use springtide_store::{Moment, Role};
use url::Url;

use super::sitemap::{Hosts, ListingLimits, ListingProblem, ParsedSitemap, parse_sitemap};
use super::{
    AnswerContext, Mention, MentionKind, OwnSighting, Protocol, ReadError, Reading, Sighting,
};

/// How many indexes a listing may be in.
const DEEPEST: u16 = 3;
/// A listing.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The most entries that are read.
    pub(crate) max_entries: usize,
    /// The most bytes of one that came packed, unpacked.
    pub(crate) max_bytes: usize,
    /// Whether the one that a user named may name pages of other hosts. Those that it
    /// names may not.
    pub(crate) names_other_hosts: bool,
}

impl Protocol for Listing {
    fn read(&self, answered: &AnswerContext<'_>) -> Result<Reading, ReadError> {
        if let Some(own) = super::status_only(answered)? {
            return Ok(own.into());
        }
        let body = &answered.answer.body;
        let digest = *blake3::hash(body).as_bytes();
        let copy = answered.kept.copy.as_ref();
        if !answered.is_lost && copy.is_some_and(|copy| copy.digest == digest) {
            let sighting = Sighting::of_answer(answered, digest, false)?;
            return Ok(OwnSighting::Here(Box::new(sighting)).into());
        }
        let is_named_by_user = answered.kept.element.depth == 0;
        let limits = ListingLimits {
            n_entries: self.max_entries,
            n_bytes: self.max_bytes,
            hosts: match self.names_other_hosts && is_named_by_user {
                true => Hosts::All,
                false => Hosts::Own,
            },
        };
        let before = copy.and_then(|copy| answered.bodies.get(copy.body).ok());
        let depth = answered.kept.element.depth;
        let (mut mentions, mut problem) = news(body, before.as_deref(), answered.url, &limits)?;
        if depth >= DEEPEST {
            let n = mentions.len();
            mentions.retain(|mention| mention.role != Role::Listing);
            if mentions.len() < n {
                let n_left_out = n - mentions.len();
                problem = Some(ListingProblem::TooDeep(DEEPEST, n_left_out).to_string());
            }
        }
        Ok(Reading {
            own: OwnSighting::Here(Box::new(Sighting::of_answer(answered, digest, true)?)),
            mentions,
            problem,
            ..Reading::default()
        })
    }
}

/// What is new in a listing since it was last read, and why that may not be all.
fn news(
    body: &[u8],
    before: Option<&[u8]>,
    url: &Url,
    limits: &ListingLimits,
) -> Result<(Vec<Mention>, Option<String>), ReadError> {
    let now = parse_sitemap(body, url, limits)
        .map_err(|problem| ReadError::answer(format!("the listing cannot be used: {problem}")))?;
    let before = before
        .and_then(|body| parse_sitemap(body, url, limits).ok())
        .unwrap_or_default();
    let mut known: BTreeMap<&str, Option<Moment>> = entries(&before).collect();
    let mention = |url: &str, role, kind| Mention {
        locator: url.to_owned(),
        role,
        kind,
    };
    let (mut pages, mut sitemaps, mut touched) = (Vec::new(), Vec::new(), Vec::new());
    for (listed, role, added) in [
        (&now.pages, Role::Page, &mut pages),
        (&now.sitemaps, Role::Listing, &mut sitemaps),
    ] {
        for entry in listed {
            let url = entry.url.as_str();
            match known.remove(url) {
                Some(lastmod) if entry.lastmod > lastmod => {
                    touched.push(mention(url, Role::Page, MentionKind::Touched));
                }
                Some(_) => {}
                None => added.push(mention(url, role, MentionKind::Added)),
            }
        }
    }
    let mut mentions = sitemaps;
    mentions.append(&mut pages);
    mentions.append(&mut touched);
    // One that breaks off does not say who is gone.
    if now.problem.is_none() && before.problem.is_none() {
        let removed = known.into_keys();
        mentions.extend(removed.map(|url| mention(url, Role::Page, MentionKind::Removed)));
    }
    Ok((
        mentions,
        now.problem.as_ref().map(ListingProblem::to_string),
    ))
}

fn entries(listing: &ParsedSitemap) -> impl Iterator<Item = (&str, Option<Moment>)> {
    let listed = listing.pages.iter().chain(&listing.sitemaps);
    listed.map(|listed| (listed.url.as_str(), listed.lastmod))
}
