//! What there is at an address, before it becomes a source.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use rand::SeedableRng;
use rand_pcg::Pcg64;
use springtide_policy::agenda::Gate;
use springtide_store::{Fact, Robots, RobotsAnswer, SourceKind, Sqlite, Writer};
use url::Url;

use crate::clock::{self, Clock};
use crate::clock_step;
use crate::fetch::{
    self, Answer, Client, FailureKind, FetchFailure, GroupPath, HttpRequest, Overflow, RobotsRules,
    group_of, robots,
};
use crate::poll::verdict;
use crate::register::GroupIds;
use crate::robots_cache::{self, RobotsCache};
use crate::settings::Settings;
use crate::source::feed::parse_feed;
use crate::source::links::links;
use crate::source::sitemap::{Hosts as ListedHosts, ListingLimits, parse_sitemap};
use crate::{Error, Outside};

/// What was found at an address.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// What it is.
    pub kind: SourceKind,
    /// How many elements it is known to have so far; more may be found.
    pub n_elements: u64,
    /// Further listings that it names.
    pub n_listings: u64,
    /// What its robots.txt says.
    pub robots: RobotsFound,
    /// How long it asks us to wait between requests.
    pub crawl_delay: Option<Duration>,
    /// Whether it has an ETag.
    pub has_etag: bool,
    /// Whether it has a Last-Modified.
    pub has_last_modified: bool,
    /// Whether its listing says when elements last changed.
    pub has_hints: bool,
    /// How long the first pass will take.
    pub first_pass: Duration,
}

/// What a robots.txt says of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RobotsFound {
    /// There is none.
    None,
    /// It may be asked.
    Allowed,
    /// It may not.
    Disallowed,
    /// It could not be had, so nobody knows.
    Unreachable,
}

/// Nobody who looks at an address waits longer for its host.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Redirects that are followed.
const MOST_REDIRECTS: usize = 10;

/// Asks an address what it is, politely: what was asked before counts, and what is
/// asked now will.
///
/// A failure of the remote is the inner error.
///
/// # Errors
/// If the store or the client cannot be used.
pub async fn inspect(
    folder: &Path,
    settings: &Settings,
    url: &Url,
    as_site: bool,
    outside: Outside,
) -> Result<Result<Inspection, FetchFailure>, Error> {
    let Outside { clock, wire, seed } = outside;
    let mut store = Sqlite::create_or_open(folder.join(".springtide"))?;
    clock_step::shift_hosts(&mut store, &clock)?;
    let (mut gate, mut robots_cache) = (Gate::default(), RobotsCache::default());
    robots_cache::recall(&mut gate, &mut robots_cache, &store, clock.now())?;
    let mut inspector = Inspector {
        group_ids: GroupIds::read(&store)?,
        client: Client::over(wire, &settings.http, clock)?,
        clock,
        gate,
        robots_cache,
        settings,
        rng: Pcg64::seed_from_u64(seed),
        store: &mut store,
        robots_failure: None,
    };
    let found = inspector.look(url, as_site).await;
    let closed = store.close();
    let found = found?;
    closed?;
    Ok(found)
}

struct Inspector<'a> {
    group_ids: GroupIds,
    client: Client,
    clock: Clock,
    gate: Gate,
    /// Nobody waits here: requests are made one after the other.
    robots_cache: RobotsCache<()>,
    settings: &'a Settings,
    rng: Pcg64,
    store: &'a mut Sqlite,
    /// Why the last robots.txt that was asked for did not come, if nobody answered.
    robots_failure: Option<FetchFailure>,
}

impl Inspector<'_> {
    async fn look(
        &mut self,
        url: &Url,
        as_site: bool,
    ) -> Result<Result<Inspection, FetchFailure>, Error> {
        let (robots_found, rules) = self.robots(url).await?;
        let crawl_delay = rules.crawl_delay();
        let mut inspection = Inspection {
            kind: if as_site {
                SourceKind::Site
            } else {
                SourceKind::Page
            },
            n_elements: 0,
            n_listings: 0,
            robots: robots_found,
            crawl_delay,
            has_etag: false,
            has_last_modified: false,
            has_hints: false,
            first_pass: Duration::ZERO,
        };
        if let Some(failure) = self.robots_failure.take() {
            return Ok(Err(failure));
        }
        if matches!(
            robots_found,
            RobotsFound::Disallowed | RobotsFound::Unreachable
        ) {
            return Ok(Ok(inspection));
        }
        let (at, answer) = match self.follow(url, self.settings.http.max_body).await? {
            Ok(found) => found,
            Err(failure) => return Ok(Err(failure)),
        };
        if !(200..300).contains(&answer.status) {
            return Ok(Err(FetchFailure::new(
                FailureKind::Status,
                format!("the server answered with status {}", answer.status),
            )));
        }
        inspection.has_etag = answer.etag.is_some();
        inspection.has_last_modified = answer.last_modified.is_some();
        if as_site {
            inspection.n_listings = rules.sitemaps().len() as u64;
            if rules.sitemaps().is_empty() {
                let content_type = answer.content_type.as_deref();
                inspection.n_elements = 1 + links(&answer.body, content_type, &at).len() as u64;
            }
        } else {
            let limits = ListingLimits {
                n_entries: 200_000,
                n_bytes: usize::try_from(self.settings.http.max_body).unwrap_or(usize::MAX),
                hosts: ListedHosts::All,
            };
            let content_type = answer.content_type.as_deref();
            let feed = parse_feed(&answer.body, content_type, &at, limits.n_entries);
            let listing = parse_sitemap(&answer.body, &at, &limits);
            let is_listing = is_listing(&answer, &at);
            match (feed, listing) {
                (Ok(feed), _) if is_listing => {
                    inspection.kind = SourceKind::Feed;
                    inspection.n_elements = feed.entries.len() as u64;
                    let mut entries = feed.entries.iter();
                    inspection.has_hints = entries.any(|entry| entry.changed_at().is_some());
                }
                (_, Ok(listing)) if is_listing => {
                    inspection.kind = SourceKind::Sitemap;
                    inspection.n_elements = listing.pages.len() as u64;
                    inspection.n_listings = listing.sitemaps.len() as u64;
                    inspection.has_hints = listing.pages.iter().any(|page| page.lastmod.is_some());
                }
                _ => inspection.n_elements = 1,
            }
        }
        let GroupPath { gap, .. } = group_of(url, &self.settings.groups);
        let gap = Duration::from_secs_f64(gap.as_days() * 86_400.0);
        let gap = gap.max(crawl_delay.unwrap_or_default());
        let n = u32::try_from(inspection.n_elements + inspection.n_listings).unwrap_or(u32::MAX);
        inspection.first_pass = gap.saturating_mul(n);
        Ok(Ok(inspection))
    }

    async fn robots(&mut self, url: &Url) -> Result<(RobotsFound, RobotsRules), Error> {
        let group = self.host_of(url)?;
        let origin = fetch::origin(url);
        let now = self.clock.now();
        let known = self.robots_cache.kept(group);
        let known = known.into_iter().find(|robots| robots.origin == origin);
        let kept = match known {
            Some(known)
                if !robots::is_due(&known, now) && known.answer != RobotsAnswer::Unreachable =>
            {
                known
            }
            previous => {
                let fetched = self.fetch_robots(url, &origin, previous.as_ref()).await?;
                let Some(fetched) = fetched else {
                    // The request for the address itself says why it may not be asked.
                    let none = RobotsRules::new(&RobotsAnswer::None);
                    return Ok((RobotsFound::None, none));
                };
                fetched
            }
        };
        let rules = RobotsRules::at(&kept, self.clock.now());
        let found = match &kept.answer {
            RobotsAnswer::Unreachable => RobotsFound::Unreachable,
            _ if !rules.is_allowed(url) => RobotsFound::Disallowed,
            RobotsAnswer::None => RobotsFound::None,
            RobotsAnswer::Rules(_) => RobotsFound::Allowed,
        };
        self.robots_cache.set(group, kept, self.clock.now());
        self.gate
            .set_own_gap(group, self.robots_cache.crawl_delay(group));
        self.keep()?;
        Ok((found, rules))
    }

    /// What is known of a robots.txt once it was asked for; nothing if it may not be.
    async fn fetch_robots(
        &mut self,
        url: &Url,
        origin: &str,
        previous: Option<&Robots>,
    ) -> Result<Option<Robots>, Error> {
        let mut at = robots::url_of(url);
        let mut n_redirects = 0;
        let answer = loop {
            let hop = self
                .hop(&at, robots::MAX_BYTES as u64, Overflow::Cut)
                .await?;
            if let Err(failure) = &hop {
                let is_silent = matches!(
                    failure.kind,
                    FailureKind::Dns | FailureKind::Connect | FailureKind::Tls
                );
                self.robots_failure = is_silent.then(|| failure.clone());
            }
            match robots::read(&at, &hop, n_redirects) {
                robots::Step::Done(answer) => break answer,
                robots::Step::Refused => return Ok(None),
                robots::Step::Follow(next) => {
                    n_redirects += 1;
                    at = next;
                }
            }
        };
        let kept = robots::keep(previous, origin, answer, self.clock.now());
        Ok(Some(kept))
    }

    async fn follow(
        &mut self,
        url: &Url,
        max_body: u64,
    ) -> Result<Result<(Url, Answer), FetchFailure>, Error> {
        let mut at = url.clone();
        let mut seen = BTreeSet::new();
        loop {
            let answer = match self.hop(&at, max_body, Overflow::Fail).await? {
                Ok(answer) => answer,
                Err(failure) => return Ok(Err(failure)),
            };
            if !answer.is_redirect() {
                return Ok(Ok((at, answer)));
            }
            let next = match fetch::resolve(&at, answer.location.as_deref().unwrap_or_default()) {
                Ok(next) => next,
                Err(failure) => return Ok(Err(failure)),
            };
            if !seen.insert(at) || seen.len() > MOST_REDIRECTS {
                return Ok(Err(FetchFailure::new(
                    FailureKind::Redirects,
                    format!("a redirect loop, or more than {MOST_REDIRECTS} redirects"),
                )));
            }
            let (found, _) = Box::pin(self.robots(&next)).await?;
            if matches!(found, RobotsFound::Disallowed | RobotsFound::Unreachable) {
                return Ok(Err(FetchFailure::new(
                    FailureKind::Robots,
                    "redirected to an address that robots.txt disallows",
                )));
            }
            at = next;
        }
    }

    /// Waits for the host's turn, and asks.
    async fn hop(
        &mut self,
        url: &Url,
        max_body: u64,
        overflow: Overflow,
    ) -> Result<Result<Answer, FetchFailure>, Error> {
        let group = self.host_of(url)?;
        loop {
            let now = self.clock.now();
            let free_at = self.gate.free_at(group);
            if free_at <= clock::time(now) {
                self.gate.begin(group, 1.0, clock::time(now));
                break;
            }
            if free_at > clock::time(now) + clock::span(LONGEST_WAIT) {
                return Ok(Err(FetchFailure::new(
                    FailureKind::Status,
                    "requests to the host are paused",
                )));
            }
            tokio::time::sleep(clock::until(free_at, now)).await;
        }
        self.keep()?;
        let ask = HttpRequest {
            overflow,
            ..HttpRequest::new(url, max_body)
        };
        let hop = self.client.hop(&ask).await;
        let now = clock::time(self.clock.now());
        self.gate
            .end(group, verdict(&hop, false), now, &mut self.rng);
        self.keep()?;
        Ok(hop)
    }

    fn host_of(&mut self, url: &Url) -> Result<springtide_store::GroupId, Error> {
        let path = group_of(url, &self.settings.groups);
        let mut facts = Vec::new();
        let found = self
            .group_ids
            .find(&path.key, std::iter::empty(), &mut facts);
        let (host, _) = found?;
        if !facts.is_empty() {
            self.store.commit(&facts)?;
        }
        self.gate.set_limit(host, path.gap, path.concurrency);
        Ok(host)
    }

    fn keep(&mut self) -> Result<(), Error> {
        let hosts = self.gate.take_unkept().into_iter();
        let mut facts: Vec<Fact> = hosts
            .filter_map(|group| robots_cache::host(&self.gate, group))
            .map(Fact::Host)
            .collect();
        facts.extend(self.robots_cache.take_unkept());
        Ok(self.store.commit(&facts)?)
    }
}

/// Whether an answer is meant as a listing, and is not a page in which one could be
/// read.
fn is_listing(answer: &Answer, url: &Url) -> bool {
    let content_type = answer.content_type.as_deref().unwrap_or_default();
    let is_html = content_type.contains("html");
    let path = url.path();
    let is_text = content_type.starts_with("text/plain");
    !is_html && (!is_text || path.contains("sitemap"))
}
