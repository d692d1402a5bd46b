//! The first pass: new elements, host by host, in the order in which they came.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use springtide_policy::Time;
use springtide_store::{ElementId, Error, GroupId, Store};

use crate::hosts::Hosts;

/// Which new element is next. Those that are to come are left in the store.
#[derive(Debug)]
pub(crate) struct FirstPass {
    hosts: BTreeMap<GroupId, Queue>,
    /// Hosts with new elements, by when they may be asked; some are out of date.
    ready: BinaryHeap<Reverse<(Millis, GroupId)>>,
    n_left: u64,
}

#[derive(Debug)]
struct Queue {
    n_left: u64,
    /// The next few, and where to read on.
    next: VecDeque<ElementId>,
    from: ElementId,
    free_at: Millis,
}

/// A time with an order, in whole milliseconds.
type Millis = i64;

/// New elements of a host that are read at a time.
const READ_AT_A_TIME: usize = 256;

impl FirstPass {
    /// The new elements in a store, but for those of some groups that others see to.
    pub(crate) fn new(store: &dyn Store, left_out: &BTreeSet<GroupId>) -> Result<Self, Error> {
        let mut pass = Self {
            hosts: BTreeMap::new(),
            ready: BinaryHeap::new(),
            n_left: 0,
        };
        let n_new = store.n_new()?.into_iter();
        for (host, n) in n_new.filter(|(host, _)| !left_out.contains(host)) {
            pass.queue(host).n_left = n;
            pass.n_left += n;
        }
        Ok(pass)
    }

    /// How many are to come.
    pub(crate) fn n_left(&self) -> u64 {
        self.n_left
    }

    /// An element that was not known before; it is in the store, or will be when it is
    /// asked for.
    pub(crate) fn add(&mut self, host: GroupId, id: ElementId) {
        let queue = self.queue(host);
        // Read from the store in their order, unless everything before was.
        if queue.n_left == queue.next.len() as u64 && queue.next.len() < READ_AT_A_TIME {
            queue.next.push_back(id);
            queue.from = ElementId(id.0.saturating_add(1));
        }
        queue.n_left += 1;
        self.n_left += 1;
    }

    /// The next new element, at a host that may be asked now; the host is not given
    /// again before it is [reopened](Self::reopen).
    pub(crate) fn next(
        &mut self,
        store: &dyn Store,
        hosts: &Hosts,
        now: Time,
    ) -> Result<Option<(GroupId, ElementId)>, Error> {
        while let Some(&Reverse((free_at, host))) = self.ready.peek() {
            let Some(queue) = self.hosts.get_mut(&host) else {
                self.ready.pop();
                continue;
            };
            if queue.free_at != free_at {
                self.ready.pop();
                continue;
            }
            if free_at > millis(now) {
                return Ok(None);
            }
            self.ready.pop();
            if !hosts.is_idle(host) {
                // Someone waits there; it comes back when they have had their turn.
                queue.free_at = Millis::MAX;
                continue;
            }
            let really = millis(hosts.free_at(host));
            if really > millis(now) {
                queue.free_at = really;
                if really < Millis::MAX {
                    self.ready.push(Reverse((really, host)));
                }
                continue;
            }
            if let Some(id) = self.take(host, store)? {
                return Ok(Some((host, id)));
            }
        }
        Ok(None)
    }

    /// Whether any are to come at a host.
    pub(crate) fn is_left_at(&self, host: GroupId) -> bool {
        self.hosts.contains_key(&host)
    }

    /// The next new element at a host, which is not given again before it is
    /// [reopened](Self::reopen).
    pub(crate) fn take(
        &mut self,
        host: GroupId,
        store: &dyn Store,
    ) -> Result<Option<ElementId>, Error> {
        let Some(queue) = self.hosts.get_mut(&host) else {
            return Ok(None);
        };
        if queue.next.is_empty() {
            queue
                .next
                .extend(store.new_elements(host, queue.from, READ_AT_A_TIME)?);
            if let Some(last) = queue.next.back() {
                queue.from = ElementId(last.0.saturating_add(1));
            }
        }
        let next = queue.next.pop_front();
        if next.is_some() {
            queue.n_left = queue.n_left.saturating_sub(1);
            self.n_left = self.n_left.saturating_sub(1);
            queue.free_at = Millis::MAX;
        } else {
            self.n_left = self.n_left.saturating_sub(queue.n_left);
            self.hosts.remove(&host);
        }
        Ok(next)
    }

    /// A host may be asked again at this time.
    pub(crate) fn reopen(&mut self, host: GroupId, free_at: Time) {
        if let Some(queue) = self.hosts.get_mut(&host) {
            queue.free_at = millis(free_at);
            if queue.free_at < Millis::MAX {
                self.ready.push(Reverse((queue.free_at, host)));
            }
        }
    }

    /// When the first host with new elements may be asked.
    pub(crate) fn wake_at(&self) -> Time {
        match self.ready.peek() {
            Some(&Reverse((free_at, _))) => {
                Time::from_days(free_at as f64 / 86_400_000.0).unwrap_or(Time::NEVER)
            }
            None => Time::NEVER,
        }
    }

    fn queue(&mut self, host: GroupId) -> &mut Queue {
        let ready = &mut self.ready;
        self.hosts.entry(host).or_insert_with(|| {
            ready.push(Reverse((Millis::MIN, host)));
            Queue {
                n_left: 0,
                next: VecDeque::new(),
                from: ElementId(0),
                free_at: Millis::MIN,
            }
        })
    }
}

fn millis(time: Time) -> Millis {
    (time.as_days() * 86_400_000.0).ceil() as Millis
}
