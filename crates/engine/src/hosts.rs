//! Who may be asked when: limits, robots.txt, and those who wait for their turn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use rand::Rng;
use springtide_policy::agenda::{Limit, LimitMemory, Pause, Verdict};
use springtide_policy::{GroupId, Span, Time};
use springtide_store::{Host, Moment, Robots, RobotsAnswer, SourceId};
use tokio::sync::oneshot;
use url::Url;

use crate::clock;
use crate::fetch::{self, RobotsRules, robots};
use crate::poll::Job;

/// All hosts that were ever asked, or are about to be.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    entries: BTreeMap<GroupId, Entry>,
    /// Those that changed since they were last kept.
    dirty: BTreeSet<GroupId>,
    /// Those with someone waiting.
    busy: BTreeSet<GroupId>,
}

#[derive(Debug)]
struct Entry {
    limit: Limit,
    /// What the settings say, without what robots.txt adds.
    gap: Span,
    robots: Vec<(Robots, RobotsRules)>,
    /// Origins whose robots.txt is being asked for.
    asking: BTreeSet<String>,
    /// When the robots.txt of an origin was last asked for, whatever came of it.
    tried: BTreeMap<String, Moment>,
    waiting: VecDeque<Waiting>,
}

/// Someone who wants to ask something of a host.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// What.
    pub(crate) url: Url,
    /// Who.
    pub(crate) who: Who,
}

/// Who wants to ask.
#[derive(Debug)]
pub(crate) enum Who {
    /// A poll that has not begun.
    Poll(Box<Job>),
    /// A poll under way, that was sent on.
    Hop(oneshot::Sender<(Permit, GroupId)>),
    /// Someone fetching a robots.txt, whom no robots.txt stops.
    Robots(oneshot::Sender<(Permit, GroupId)>),
}

/// Whether a request may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permit {
    /// It may, now.
    Go,
    /// The site asks us to keep away.
    Disallowed,
    /// The site's robots.txt could not be had.
    Unreachable,
    /// Not for a long time.
    Later,
}

/// What follows from asking who may go.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Tell them.
    Answer(GroupId, Waiting, Permit),
    /// Fetch a robots.txt first.
    FetchRobots(GroupId, Url),
}

/// More than so many do not queue for one host, nor does anyone who would have to
/// wait for longer than this: there are other hosts.
const MOST_WAITING: usize = 4;
const SOON: f64 = 2.0 / 86_400.0;
/// Nobody waits longer than this for a host.
const LONGEST_HOP_WAIT: f64 = 60.0 / 86_400.0;
/// While a robots.txt cannot be had and what it said before holds on, it is asked for
/// so often, in milliseconds.
const TRY_AGAIN: i64 = 3_600_000;

impl Hosts {
    /// What is known of a host from before.
    pub(crate) fn recall(&mut self, host: &Host, now: Moment) {
        let mut entry = Entry::new(Span::ZERO, 1);
        entry.robots = host
            .robots
            .iter()
            .map(|robots| (robots.clone(), RobotsRules::at(robots, now)))
            .collect();
        entry.settle_gap();
        let pause = match host.not_before_reason.as_deref() {
            Some("retry-after") => Some(Pause::RetryAfter),
            Some(_) => Some(Pause::BackOff),
            None => None,
        };
        let memory = LimitMemory {
            requested_at: host.requested_at.map(clock::time),
            not_before: host.not_before.map(clock::time),
            pause,
            n_failures: host.n_failures,
        };
        entry.limit.recall(memory, clock::time(now));
        self.entries.insert(host.group, entry);
    }

    /// Makes sure that a host is known, and keeps to these limits.
    pub(crate) fn meet(&mut self, group: GroupId, gap: Span, concurrency: u32) {
        let entry = self
            .entries
            .entry(group)
            .or_insert_with(|| Entry::new(gap, concurrency));
        entry.gap = gap;
        entry.limit.set_concurrency(concurrency);
        entry.settle_gap();
    }

    /// When a host may be asked, if nobody waits already.
    pub(crate) fn free_at(&self, group: GroupId) -> Time {
        match self.entries.get(&group) {
            Some(entry) if entry.waiting.is_empty() => entry.limit.free_at(),
            Some(_) => Time::NEVER,
            None => Time::START,
        }
    }

    /// Whether someone who comes now gets a turn before long.
    pub(crate) fn is_reachable(&self, group: GroupId, now: Time) -> bool {
        self.entries.get(&group).is_none_or(|entry| {
            let soon = now.as_days() + SOON;
            entry.waiting.len() < MOST_WAITING && entry.limit.paused_until().as_days() <= soon
        })
    }

    /// Whether nobody waits for a host.
    pub(crate) fn is_idle(&self, group: GroupId) -> bool {
        self.entries
            .get(&group)
            .is_none_or(|entry| entry.waiting.is_empty())
    }

    /// Until when a host is to be left alone, as far as that is known; now, if it is not.
    pub(crate) fn paused_until(&self, group: GroupId, now: Time) -> Time {
        let Some(entry) = self.entries.get(&group) else {
            return now;
        };
        let until = entry.limit.paused_until();
        if until > now { until } else { now }
    }

    /// Whether a host is left alone for a while, by its own word or since it failed.
    pub(crate) fn is_left_alone(&self, group: GroupId, now: Time) -> bool {
        let entry = self.entries.get(&group);
        entry.is_some_and(|entry| entry.limit.paused_until() > now)
    }

    /// Someone wants to ask something.
    pub(crate) fn wait(&mut self, group: GroupId, waiting: Waiting) {
        let entry = self.entries.get_mut(&group).expect("a host that was met");
        match waiting.who {
            // Those under way go first: they hold up others.
            Who::Poll(_) => entry.waiting.push_back(waiting),
            _ => entry.waiting.push_front(waiting),
        }
        self.busy.insert(group);
    }

    /// Gives out what turns there are.
    /// `may_leave` says of a poll whose host is free whether it may begin now; if so, it
    /// does.
    pub(crate) fn turns(
        &mut self,
        now: Moment,
        may_leave: &mut dyn FnMut(&Job) -> bool,
    ) -> Vec<Turn> {
        let mut turns = Vec::new();
        let at = clock::time(now);
        for group in self.busy.iter().copied().collect::<Vec<_>>() {
            let entry = self.entries.get_mut(&group).expect("a host that was met");
            let before = turns.len();
            entry.turns((group, now, at), may_leave, &mut turns);
            if entry.waiting.is_empty() {
                self.busy.remove(&group);
            }
            if turns.len() > before {
                self.dirty.insert(group);
            }
        }
        turns
    }

    /// Begins a request, if one may be begun now.
    pub(crate) fn begin_if_free(&mut self, group: GroupId, now: Moment) -> bool {
        let at = clock::time(now);
        match self.entries.get_mut(&group) {
            Some(entry) if entry.limit.free_at() <= at => {
                entry.limit.begin(1.0, at);
                self.dirty.insert(group);
                true
            }
            _ => false,
        }
    }

    /// A request that was given a turn has left.
    pub(crate) fn launched(&mut self, group: GroupId, now: Moment) {
        if let Some(entry) = self.entries.get_mut(&group) {
            entry.limit.left(clock::time(now));
            self.dirty.insert(group);
        }
    }

    /// A request has ended.
    pub(crate) fn end(&mut self, group: GroupId, verdict: Verdict, now: Moment, rng: &mut dyn Rng) {
        let Some(entry) = self.entries.get_mut(&group) else {
            return;
        };
        entry.limit.end(verdict, clock::time(now), rng);
        self.dirty.insert(group);
    }

    /// What came of asking for a robots.txt.
    pub(crate) fn heed(&mut self, group: GroupId, answer: Robots, now: Moment) {
        let Some(entry) = self.entries.get_mut(&group) else {
            return;
        };
        entry.asking.remove(&answer.origin);
        entry.tried.insert(answer.origin.clone(), now);
        let rules = RobotsRules::at(&answer, now);
        entry
            .robots
            .retain(|(robots, _)| robots.origin != answer.origin);
        entry.robots.push((answer, rules));
        entry.settle_gap();
        self.dirty.insert(group);
    }

    /// The robots.txt of an origin, as far as it is known.
    pub(crate) fn robots(&self, group: GroupId, origin: &str) -> Option<&(Robots, RobotsRules)> {
        let entry = self.entries.get(&group)?;
        entry
            .robots
            .iter()
            .find(|(robots, _)| robots.origin == origin)
    }

    /// When the next turn is to be given out, if polls that count may leave at
    /// `leave_at`.
    pub(crate) fn wake_at(&self, leave_at: Time) -> Time {
        let mut wake_at = Time::NEVER;
        for group in &self.busy {
            let entry = &self.entries[group];
            let free_at = entry.limit.free_at();
            for waiting in entry
                .waiting
                .iter()
                .filter(|waiting| !entry.is_held(waiting))
            {
                let turn_at = match &waiting.who {
                    Who::Poll(job) if job.is_counted && leave_at > free_at => leave_at,
                    _ => free_at,
                };
                if turn_at < wake_at {
                    wake_at = turn_at;
                }
            }
        }
        wake_at
    }

    /// How many polls that count wait for a turn.
    pub(crate) fn n_counted_waiting(&self) -> usize {
        let waiting = self
            .busy
            .iter()
            .flat_map(|group| &self.entries[group].waiting);
        waiting
            .filter(|waiting| matches!(&waiting.who, Who::Poll(job) if job.is_counted))
            .count()
    }

    /// What is to be kept since the last time.
    pub(crate) fn take_dirty(&mut self) -> Vec<Host> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty
            .into_iter()
            .filter_map(|group| {
                let entry = self.entries.get(&group)?;
                let moment = |at: Option<Time>| at.and_then(clock::moment_of);
                let memory = entry.limit.remember();
                let reason = memory.pause.map(|pause| match pause {
                    Pause::BackOff => "back-off",
                    Pause::RetryAfter => "retry-after",
                });
                Some(Host {
                    group,
                    requested_at: moment(memory.requested_at),
                    not_before: moment(memory.not_before),
                    not_before_reason: reason.map(str::to_owned),
                    n_failures: memory.n_failures,
                    robots: entry
                        .robots
                        .iter()
                        .map(|(robots, _)| robots.clone())
                        .collect(),
                })
            })
            .collect()
    }

    /// Polls of a source that have not begun give up.
    pub(crate) fn call_back(&mut self, source: SourceId) -> Vec<Job> {
        let mut home = Vec::new();
        for entry in self.entries.values_mut() {
            let waiting = std::mem::take(&mut entry.waiting);
            for waiting in waiting {
                match waiting.who {
                    Who::Poll(job) if job.kept.element.source == source => home.push(*job),
                    _ => entry.waiting.push_back(waiting),
                }
            }
        }
        home
    }

    /// Everyone who has not begun gives up.
    pub(crate) fn send_home(&mut self) -> Vec<Waiting> {
        let mut home = Vec::new();
        for group in std::mem::take(&mut self.busy) {
            if let Some(entry) = self.entries.get_mut(&group) {
                home.extend(entry.waiting.drain(..));
            }
        }
        home
    }
}

impl Entry {
    fn new(gap: Span, concurrency: u32) -> Self {
        let mut entry = Self {
            limit: Limit::new(gap, concurrency),
            gap,
            robots: Vec::new(),
            asking: BTreeSet::new(),
            tried: BTreeMap::new(),
            waiting: VecDeque::new(),
        };
        entry.settle_gap();
        entry
    }

    /// The gap that the settings and all of its robots.txt agree with.
    fn settle_gap(&mut self) {
        let asked = self
            .robots
            .iter()
            .filter_map(|(_, rules)| rules.crawl_delay())
            .max()
            .unwrap_or(Duration::ZERO);
        let gap = self.gap.as_days().max(clock::span(asked).as_days());
        self.limit.set_gap(Span::days(gap).unwrap_or(self.gap));
    }

    fn is_held(&self, waiting: &Waiting) -> bool {
        !matches!(waiting.who, Who::Robots(_)) && self.asking.contains(&fetch::origin(&waiting.url))
    }

    fn turns(
        &mut self,
        (group, now, at): (GroupId, Moment, Time),
        may_leave: &mut dyn FnMut(&Job) -> bool,
        turns: &mut Vec<Turn>,
    ) {
        let mut position = 0;
        while position < self.waiting.len() {
            let waiting = &self.waiting[position];
            let origin = fetch::origin(&waiting.url);
            let free_at = self.limit.free_at();
            let is_free = free_at <= at;
            let permit = match &waiting.who {
                Who::Robots(_) => Permit::Go,
                _ if self.asking.contains(&origin) => {
                    position += 1;
                    continue;
                }
                _ => match self
                    .robots
                    .iter_mut()
                    .find(|(robots, _)| robots.origin == origin)
                {
                    Some((robots, rules))
                        if robots::is_due(robots, now)
                            && is_free
                            && !(rules.is_allowed(&waiting.url)
                                && self.tried.get(&origin).is_some_and(|&tried| {
                                    clock::millis_between(tried, now) < TRY_AGAIN
                                })) =>
                    {
                        self.limit.begin(1.0, at);
                        self.asking.insert(origin);
                        turns.push(Turn::FetchRobots(group, robots::url_of(&waiting.url)));
                        continue;
                    }
                    Some((robots, rules)) if !rules.is_allowed(&waiting.url) => {
                        match robots.answer {
                            RobotsAnswer::Unreachable => Permit::Unreachable,
                            _ => Permit::Disallowed,
                        }
                    }
                    Some(_) => Permit::Go,
                    None if is_free => {
                        self.limit.begin(1.0, at);
                        self.asking.insert(origin);
                        turns.push(Turn::FetchRobots(group, robots::url_of(&waiting.url)));
                        continue;
                    }
                    None => Permit::Go,
                },
            };
            let permit = match permit {
                Permit::Go if is_free => {
                    if let Who::Poll(job) = &waiting.who
                        && !may_leave(job)
                    {
                        position += 1;
                        continue;
                    }
                    self.limit.begin(1.0, at);
                    Permit::Go
                }
                Permit::Go
                    if free_at.as_days() - at.as_days() > LONGEST_HOP_WAIT
                        && free_at < Time::NEVER =>
                {
                    Permit::Later
                }
                Permit::Go => {
                    position += 1;
                    continue;
                }
                refusal => refusal,
            };
            let waiting = self.waiting.remove(position).expect("a place in the queue");
            turns.push(Turn::Answer(group, waiting, permit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    fn hosts(robots: Robots) -> (Hosts, GroupId, Moment) {
        let (mut hosts, group, now) = (
            Hosts::default(),
            GroupId::new(0).unwrap(),
            Moment(1000 * DAY),
        );
        hosts.meet(group, Span::ZERO, 2);
        hosts.heed(group, robots, Moment(now.0 - 2 * DAY));
        (hosts, group, now)
    }

    fn robots(text: &str, now: Moment) -> Robots {
        Robots {
            origin: "https://example.org".to_owned(),
            fetched_at: now,
            answer: RobotsAnswer::Rules(text.to_owned()),
        }
    }

    fn ask(hosts: &mut Hosts, group: GroupId) -> oneshot::Receiver<(Permit, GroupId)> {
        let (sender, receiver) = oneshot::channel();
        let url = Url::parse("https://example.org/page").unwrap();
        let who = Who::Hop(sender);
        hosts.wait(group, Waiting { url, who });
        receiver
    }

    #[test]
    fn what_robots_said_holds_on_while_it_cannot_be_had() {
        let old = robots("User-agent: *\nDisallow: /private\n", Moment(998 * DAY));
        let (mut hosts, group, now) = hosts(old.clone());
        let _waits = ask(&mut hosts, group);
        let turns = hosts.turns(now, &mut |_| true);
        assert!(matches!(turns[..], [Turn::FetchRobots(..)]), "{turns:?}");
        // It could not be had: what was known before is handed back.
        hosts.end(
            group,
            Verdict::Unknown,
            now,
            &mut rand_pcg::Pcg64::new(1, 1),
        );
        hosts.heed(group, old, now);
        let turns = hosts.turns(Moment(now.0 + 1000), &mut |_| true);
        assert!(
            matches!(turns[..], [Turn::Answer(_, _, Permit::Go)]),
            "{turns:?}"
        );
    }

    #[test]
    fn nobody_waits_for_a_host_that_is_to_be_left_alone_for_long() {
        let (mut hosts, group, now) = hosts(robots("", Moment(1000 * DAY)));
        let mut rng = rand_pcg::Pcg64::new(1, 1);
        let until = clock::time(Moment(now.0 + DAY));
        hosts.end(group, Verdict::Wait(until), now, &mut rng);
        let _waits = ask(&mut hosts, group);
        let turns = hosts.turns(now, &mut |_| true);
        assert!(
            matches!(turns[..], [Turn::Answer(_, _, Permit::Later)]),
            "{turns:?}"
        );
        assert_eq!(hosts.paused_until(group, clock::time(now)), until);
    }
}
