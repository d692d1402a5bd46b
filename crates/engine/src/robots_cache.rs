//! What the robots.txt of origins say, and who waits to hear it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use springtide_policy::agenda::{Gate, LimitMemory};
use springtide_policy::{GroupId, Span, Time};
use springtide_store::{Fact, Host, Moment, Reader, Robots, RobotsAnswer};
use url::Url;

use crate::clock;
use crate::fetch::{self, FetchFailure, RobotsRules, robots};
use crate::reach::Reach;

/// Whether a request may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permit {
    /// It may.
    Go,
    /// The site asks us to keep away.
    Disallowed,
    /// The site's robots.txt could not be had.
    Unreachable,
    /// The host is left alone for a long time.
    Later,
}

/// What is known of whether an address may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    /// It is known.
    Known(Permit),
    /// The robots.txt of its origin has to be fetched first.
    Unknown,
    /// It is being fetched.
    Coming,
}

/// The robots.txt of all origins that were asked, by group.
#[derive(Debug)]
pub(crate) struct RobotsCache<W> {
    origins: BTreeMap<(GroupId, String), Origin<W>>,
    /// Bytes of all robots.txt that are held.
    n_bytes: usize,
    /// Groups of which something else is to be kept than the last time.
    unkept: BTreeSet<GroupId>,
}

#[derive(Debug)]
struct Origin<W> {
    known: Option<(Robots, RobotsRules)>,
    /// When it was last asked for, whatever came of it.
    tried_at: Option<Moment>,
    is_asking: bool,
    /// Why it did not come the last time, if nobody answered.
    robots_failure: Option<FetchFailure>,
    /// Who was not allowed to ask for it, and when.
    refused: Vec<(Reach, Moment)>,
    /// Those who wait to hear what it says.
    waiting: Vec<W>,
}

/// While a robots.txt cannot be fetched and its old rules hold on, it is tried again this
/// often, in milliseconds.
const TRY_AGAIN: i64 = 3_600_000;
/// For this long, in milliseconds, a robots.txt that a source may not reach is not asked for
/// again. The poll itself is refused instead and says why. Afterwards the name may lead
/// elsewhere.
const REFUSED_FOR: i64 = 60_000;
/// Origins of one group that are held, with their robots.txt or because it was refused: beyond
/// that, those that were asked for longest ago are forgotten.
const MOST_ORIGINS: usize = 32;
/// The same in bytes: two of the longest. All of a group is written when one is another.
const MOST_BYTES_OF_GROUP: usize = 2 * robots::MAX_BYTES;
/// Bytes of all robots.txt that are held, parsed some ten times as much: those of some
/// thirty thousand hosts, where each has a page of it. Whoever is forgotten is asked again.
const MOST_BYTES: usize = 64 << 20;

impl<W> Default for RobotsCache<W> {
    fn default() -> Self {
        Self {
            origins: BTreeMap::new(),
            n_bytes: 0,
            unkept: BTreeSet::new(),
        }
    }
}

impl<W> RobotsCache<W> {
    /// Takes in what was kept of a group.
    pub(crate) fn recall(&mut self, group: GroupId, kept: &[Robots], now: Moment) {
        for robots in kept {
            let rules = RobotsRules::at(robots, now);
            self.learn(group, robots.clone(), rules);
            self.forget_oldest(group, &robots.origin);
        }
    }

    /// Whether an address may be asked by someone who may reach so far.
    pub(crate) fn ask(&self, group: GroupId, url: &Url, reach: Reach, now: Moment) -> Permission {
        let key = (group, fetch::origin(url));
        let Some(origin) = self.origins.get(&key) else {
            return Permission::Unknown;
        };
        if origin.is_refused(reach, now) {
            // The request is refused as well, before anyone is asked, and says why.
            return Permission::Known(Permit::Go);
        }
        if origin.is_asking {
            return Permission::Coming;
        }
        let Some((robots, rules)) = &origin.known else {
            return Permission::Unknown;
        };
        let is_allowed = rules.is_allowed(url);
        if robots::is_due(robots, now) {
            // What it said before holds on for a while where it cannot be had.
            let tried = |tried: Moment| clock::millis_between(tried, now) < TRY_AGAIN;
            if !(is_allowed && origin.tried_at.is_some_and(tried)) {
                return Permission::Unknown;
            }
        }
        Permission::Known(match robots.answer {
            _ if is_allowed => Permit::Go,
            RobotsAnswer::Unreachable => Permit::Unreachable,
            _ => Permit::Disallowed,
        })
    }

    /// What the robots.txt of an address says of it, old or not; that we may not, if
    /// nobody knows.
    pub(crate) fn known(&self, group: GroupId, url: &Url) -> Permit {
        let origin = self.origins.get(&(group, fetch::origin(url)));
        match origin.and_then(|origin| origin.known.as_ref()) {
            Some((_, rules)) if rules.is_allowed(url) => Permit::Go,
            Some((robots, _)) if robots.answer != RobotsAnswer::Unreachable => Permit::Disallowed,
            _ => Permit::Unreachable,
        }
    }

    /// Why the robots.txt of an address did not come the last time, if nobody answered.
    pub(crate) fn robots_failure(&self, group: GroupId, url: &Url) -> Option<FetchFailure> {
        let origin = self.origins.get(&(group, fetch::origin(url)))?;
        origin.robots_failure.clone()
    }

    /// Nobody answered when a robots.txt was asked for, or someone did.
    pub(crate) fn set_robots_failure(
        &mut self,
        group: GroupId,
        url: &Url,
        robots_failure: Option<FetchFailure>,
    ) {
        self.origin(group, &fetch::origin(url)).robots_failure = robots_failure;
    }

    /// Someone waits to hear what the robots.txt of an address says.
    pub(crate) fn wait(&mut self, group: GroupId, url: &Url, who: W) {
        let origin = self.origin(group, &fetch::origin(url));
        origin.waiting.push(who);
    }

    /// The robots.txt of an address is asked for. What it said before, if that is known.
    pub(crate) fn begin(&mut self, group: GroupId, url: &Url) -> Option<Robots> {
        let origin = self.origin(group, &fetch::origin(url));
        origin.is_asking = true;
        origin.known.as_ref().map(|(robots, _)| robots.clone())
    }

    /// What came of asking for a robots.txt; those who waited for it.
    pub(crate) fn set(&mut self, group: GroupId, answer: Robots, now: Moment) -> Vec<W> {
        let rules = RobotsRules::at(&answer, now);
        let name = answer.origin.clone();
        let origin = self.learn(group, answer, rules);
        origin.is_asking = false;
        origin.tried_at = Some(now);
        let waiting = std::mem::take(&mut origin.waiting);
        self.unkept.insert(group);
        self.forget_oldest(group, &name);
        waiting
    }

    /// A robots.txt was not asked for, since who wanted to may not reach so far. What is
    /// known of it stays as it is. Those who waited for it have to ask again: some of them
    /// may reach farther.
    pub(crate) fn refuse(
        &mut self,
        group: GroupId,
        url: &Url,
        reach: Reach,
        now: Moment,
    ) -> Vec<W> {
        let origin = self.origin(group, &fetch::origin(url));
        origin.is_asking = false;
        origin.refused.retain(|(who, _)| *who != reach);
        origin.refused.push((reach, now));
        let waiting = std::mem::take(&mut origin.waiting);
        self.forget_oldest(group, &fetch::origin(url));
        waiting
    }

    /// What a robots.txt says, as far as it is known.
    pub(crate) fn rules(&self, group: GroupId, origin: &str) -> Option<&RobotsRules> {
        let origin = self.origins.get(&(group, origin.to_owned()))?;
        origin.known.as_ref().map(|(_, rules)| rules)
    }

    /// The gap that all robots.txt of a group ask for.
    pub(crate) fn crawl_delay(&self, group: GroupId) -> Span {
        let delays = self
            .of_group(group)
            .filter_map(|(_, rules)| rules.crawl_delay());
        delays.max().map_or(Span::ZERO, clock::span)
    }

    /// All robots.txt of a group.
    pub(crate) fn kept(&self, group: GroupId) -> Vec<Robots> {
        self.of_group(group)
            .map(|(robots, _)| robots.clone())
            .collect()
    }

    /// What is to be kept of groups of which it is something else than the last time.
    pub(crate) fn take_unkept(&mut self) -> Vec<Fact> {
        let unkept = std::mem::take(&mut self.unkept).into_iter();
        unkept
            .map(|group| Fact::Robots(group, self.kept(group)))
            .collect()
    }

    /// Everyone who waits gives up.
    pub(crate) fn take_waiting(&mut self) -> Vec<W> {
        let origins = self.origins.values_mut();
        origins
            .flat_map(|origin| origin.waiting.drain(..))
            .collect()
    }

    fn of_group(&self, group: GroupId) -> impl Iterator<Item = &(Robots, RobotsRules)> {
        let origins = self.origins_of(Some(group));
        origins.filter_map(|(_, origin)| origin.known.as_ref())
    }

    /// The origins of a group, or all.
    fn origins_of(
        &self,
        group: Option<GroupId>,
    ) -> impl Iterator<Item = (&(GroupId, String), &Origin<W>)> {
        let first = group.map_or(Bound::Unbounded, |group| {
            Bound::Included((group, String::new()))
        });
        let origins = self.origins.range((first, Bound::Unbounded));
        origins.take_while(move |((of, _), _)| group.is_none_or(|group| *of == group))
    }

    fn origin(&mut self, group: GroupId, origin: &str) -> &mut Origin<W> {
        self.origins
            .entry((group, origin.to_owned()))
            .or_insert_with(|| Origin {
                known: None,
                tried_at: None,
                is_asking: false,
                robots_failure: None,
                refused: Vec::new(),
                waiting: Vec::new(),
            })
    }

    /// Takes in what a robots.txt says, instead of what it said before.
    fn learn(&mut self, group: GroupId, robots: Robots, rules: RobotsRules) -> &mut Origin<W> {
        self.n_bytes += n_bytes(&robots);
        let before = {
            let origin = self.origin(group, &robots.origin);
            origin
                .known
                .take()
                .map_or(0, |(before, _)| n_bytes(&before))
        };
        self.n_bytes -= before;
        let name = robots.origin.clone();
        let origin = self.origin(group, &name);
        origin.known = Some((robots, rules));
        origin
    }

    /// Forgets those that were asked for longest ago while there are too many, in a group
    /// or in all; not the one that was asked for just now.
    fn forget_oldest(&mut self, group: GroupId, newest: &str) {
        loop {
            let n = self.origins_of(Some(group)).count();
            let n_bytes_of_group: usize = self.of_group(group).map(|known| n_bytes(&known.0)).sum();
            let is_too_much = n > MOST_ORIGINS || n_bytes_of_group > MOST_BYTES_OF_GROUP;
            if !(is_too_much && self.forget_one(Some(group), (group, newest))) {
                break;
            }
        }
        while self.n_bytes > MOST_BYTES && self.forget_one(None, (group, newest)) {}
    }

    /// Forgets the one that was asked for longest ago, of a group or of all, if nobody
    /// waits for it; says whether there was one. Those that were only refused go first:
    /// whoever asks for them again is refused again, and nothing is sent.
    fn forget_one(&mut self, group: Option<GroupId>, newest: (GroupId, &str)) -> bool {
        let oldest = self
            .origins_of(group)
            .filter(|(_, origin)| !origin.is_asking && origin.waiting.is_empty())
            .filter(|((of, name), _)| (*of, name.as_str()) != newest)
            // Of all, only those are forgotten that hold bytes.
            .filter(|(_, origin)| group.is_some() || origin.n_bytes() > 0)
            .map(|(key, origin)| (origin.known.is_some(), origin.asked_at(), key))
            .min();
        let Some((was_known, _, oldest)) = oldest else {
            return false;
        };
        let oldest = oldest.clone();
        let forgotten = self.origins.remove(&oldest);
        self.n_bytes -= forgotten.map_or(0, |origin| origin.n_bytes());
        if was_known {
            self.unkept.insert(oldest.0);
        }
        true
    }
}

fn n_bytes(robots: &Robots) -> usize {
    match &robots.answer {
        RobotsAnswer::Rules(text) => text.len(),
        RobotsAnswer::None | RobotsAnswer::Unreachable => 0,
    }
}

impl<W> Origin<W> {
    fn n_bytes(&self) -> usize {
        self.known.as_ref().map_or(0, |(robots, _)| n_bytes(robots))
    }

    /// When it was last asked for, or last refused to someone.
    fn asked_at(&self) -> Option<Moment> {
        let fetched_at = self.known.as_ref().map(|(robots, _)| robots.fetched_at);
        let refused_at = self.refused.iter().map(|&(_, at)| at).max();
        fetched_at.max(self.tried_at).max(refused_at)
    }

    fn is_refused(&self, reach: Reach, now: Moment) -> bool {
        let mut refused = self.refused.iter();
        refused.any(|&(who, at)| who == reach && clock::millis_between(at, now) < REFUSED_FOR)
    }
}

/// What is to be kept of a host, if it is known.
pub(crate) fn host(gate: &Gate, group: GroupId) -> Option<Host> {
    let memory = gate.remember(group)?;
    let moment = |at: Option<Time>| at.and_then(clock::moment_of);
    Some(Host {
        group,
        requested_at: moment(memory.requested_at),
        not_before: moment(memory.not_before),
        pause: memory.pause,
        n_failures: memory.n_failures,
    })
}

/// Takes in what was kept of hosts.
pub(crate) fn recall<W>(
    gate: &mut Gate,
    robots_cache: &mut RobotsCache<W>,
    store: &dyn Reader,
    now: Moment,
) -> Result<(), springtide_store::Error> {
    let mut requested_at = HashMap::new();
    for host in store.hosts()? {
        let memory = LimitMemory {
            requested_at: host.requested_at.map(clock::time),
            not_before: host.not_before.map(clock::time),
            pause: host.pause,
            n_failures: host.n_failures,
        };
        gate.recall(host.group, memory, clock::time(now));
        requested_at.insert(host.group, host.requested_at);
    }
    for (group, kept) in store.robots()? {
        let requested_at = requested_at.get(&group).copied().flatten();
        let kept = kept.iter();
        let kept: Vec<Robots> = kept
            .map(|known| robots::recalled(known, requested_at, now))
            .collect();
        robots_cache.recall(group, &kept, now);
        gate.set_own_gap(group, robots_cache.crawl_delay(group));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    fn robots(text: &str, fetched_at: Moment) -> Robots {
        Robots {
            origin: "https://example.org".to_owned(),
            fetched_at,
            answer: RobotsAnswer::Rules(text.to_owned()),
        }
    }

    fn url(path: &str) -> Url {
        Url::parse(&format!("https://example.org{path}")).unwrap()
    }

    #[test]
    fn what_robots_said_holds_on_while_it_cannot_be_had() {
        let (group, now) = (GroupId::new(0).unwrap(), Moment(1000 * DAY));
        let old = robots("User-agent: *\nDisallow: /private\n", Moment(998 * DAY));
        let mut robots_cache = RobotsCache::<u8>::default();
        robots_cache.recall(group, std::slice::from_ref(&old), Moment(998 * DAY));
        assert_eq!(
            robots_cache.ask(group, &url("/page"), Reach::default(), now),
            Permission::Unknown
        );
        assert_eq!(robots_cache.begin(group, &url("/page")), Some(old.clone()));
        assert_eq!(
            robots_cache.ask(group, &url("/page"), Reach::default(), now),
            Permission::Coming
        );
        robots_cache.wait(group, &url("/page"), 7);
        // It could not be had: what was known before is handed back.
        assert_eq!(robots_cache.set(group, old.clone(), now), [7]);
        let later = Moment(now.0 + 1000);
        assert_eq!(
            robots_cache.ask(group, &url("/page"), Reach::default(), later),
            Permission::Known(Permit::Go)
        );
        // Whether what it kept us from is still so has to be asked.
        assert_eq!(
            robots_cache.ask(group, &url("/private"), Reach::default(), later),
            Permission::Unknown
        );
        // It is kept once, and not again with whatever is kept of its host.
        assert_eq!(robots_cache.take_unkept(), [Fact::Robots(group, vec![old])]);
        assert_eq!(robots_cache.take_unkept(), []);
    }

    #[test]
    fn a_group_does_not_hold_the_robots_of_every_port() {
        let group = GroupId::new(3).unwrap();
        let mut robots_cache = RobotsCache::<u8>::default();
        for port in 0..100 {
            let answer = Robots {
                origin: format!("http://example.org:{port}"),
                ..robots("", Moment(port))
            };
            robots_cache.set(group, answer, Moment(port));
        }
        assert_eq!(robots_cache.kept(group).len(), MOST_ORIGINS);
        let newest = Url::parse("http://example.org:99/").unwrap();
        assert_eq!(
            robots_cache.ask(group, &newest, Reach::default(), Moment(100)),
            Permission::Known(Permit::Go)
        );
    }

    #[test]
    fn a_name_that_is_refused_at_port_after_port_is_not_held_for_each() {
        let (group, reach) = (GroupId::new(3).unwrap(), Reach::default());
        let mut robots_cache = RobotsCache::<u16>::default();
        robots_cache.set(group, robots("", Moment(0)), Moment(0));
        robots_cache.take_unkept();
        for port in 1..1000 {
            let url = Url::parse(&format!("http://example.org:{port}/")).unwrap();
            robots_cache.wait(group, &url, port);
            robots_cache.begin(group, &url);
            let now = Moment(i64::from(port));
            assert_eq!(robots_cache.refuse(group, &url, reach, now), [port]);
            // Whoever waited is told so by the request itself.
            let word = robots_cache.ask(group, &url, reach, now);
            assert_eq!(word, Permission::Known(Permit::Go));
        }
        assert_eq!(robots_cache.origins.len(), MOST_ORIGINS);
        // What is known of its other ports is held all the same, and not written again.
        assert_eq!(robots_cache.kept(group).len(), 1);
        assert_eq!(robots_cache.take_unkept(), []);
    }

    #[test]
    fn all_hosts_together_do_not_hold_more_than_so_many_bytes() {
        let mut robots_cache = RobotsCache::<u8>::default();
        let long = format!("User-agent: other\nDisallow: /{}", "x".repeat(400_000));
        for number in 0..300 {
            let group = GroupId::new(number).unwrap();
            let answer = robots(&long, Moment(i64::from(number)));
            robots_cache.set(group, answer, Moment(i64::from(number)));
        }
        assert!(robots_cache.n_bytes <= MOST_BYTES);
        let kept = |number| robots_cache.kept(GroupId::new(number).unwrap()).len();
        assert_eq!((0..300).map(kept).sum::<usize>(), MOST_BYTES / long.len());
        assert_eq!((kept(0), kept(299)), (0, 1));
        // What was forgotten is not kept either, and is asked for again.
        let first = GroupId::new(0).unwrap();
        assert!(robots_cache.unkept.contains(&first));
        let word = robots_cache.ask(first, &url("/"), Reach::default(), Moment(300));
        assert_eq!(word, Permission::Unknown);
        // Of one host, two of the longest.
        let mut robots_cache = RobotsCache::<u8>::default();
        for port in 0..10 {
            let answer = Robots {
                origin: format!("http://example.org:{port}"),
                ..robots(&long, Moment(port))
            };
            robots_cache.set(first, answer, Moment(port));
        }
        assert_eq!(robots_cache.kept(first).len(), 2);
    }
}
