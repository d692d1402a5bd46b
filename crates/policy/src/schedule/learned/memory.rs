//! What is remembered of elements and groups, and how it is taken in again.

use super::super::memory::{
    Recalled, Remembered, numbers_from_slice, numbers_to_bytes, size_of_step, step_of_size,
};
use super::clock::Clock;
use super::likeness::Likeness;
use super::tree::{Node, NodeId, ROOT};
use super::{Learned, Member, NO_NODE};
use crate::hint::HintRecord;
use crate::{ElementId, Gamma, GroupId, Groups, Time};

impl Learned {
    /// What is remembered of an element that is waiting.
    pub(in super::super) fn remember(&self, id: ElementId) -> Option<Remembered> {
        let member = self
            .members
            .get(id.index())
            .filter(|member| member.is_here)?;
        let (due, wait) = if member.is_watched {
            (f64::INFINITY, f64::INFINITY)
        } else {
            let due = self.due_at(id).unwrap_or(member.polled_at);
            (due, member.key - member.polled)
        };
        Some(Remembered {
            is_look: member.is_look,
            is_sample: member.is_sample,
            is_put: member.is_put,
            depth: self.tree.nodes[member.leaf as usize].depth,
            size: self
                .parts
                .get(&id.0)
                .map_or(0, |parts| step_of_size(parts.per_change())),
            changes: member.changes,
            days: member.days,
            ahead: (member.polled - member.polled_at) as f32,
            wait: wait as f32,
            due_in: (due - member.polled_at) as f32,
        })
    }

    /// How many of these bytes are what is [remembered of all](Self::remember_all);
    /// what comes after is of someone else.
    pub(in super::super) fn remembered_of_all(bytes: &[u8]) -> usize {
        let lengths = [AllMemory::LEN, AllMemory::LEN_FIRST];
        let fits = |length: &usize| AllMemory::from_bytes(&bytes[..*length]).is_some();
        let held = lengths.into_iter().filter(|&length| length <= bytes.len());
        held.clone().find(fits).unwrap_or(0)
    }

    /// What is remembered of a group, if it has a node.
    pub(in super::super) fn remember_group(&self, group: GroupId) -> Option<Vec<u8>> {
        match self.nodes.get(group.number() as usize) {
            Some(&node) if node != NO_NODE => {
                let hint_records = self.hint_records.get(node as usize).copied();
                Some(NodeMemory::of(&self.tree.nodes[node as usize], hint_records).to_bytes())
            }
            _ => None,
        }
    }

    /// What is remembered of all elements together.
    pub(in super::super) fn remember_all(&self) -> Vec<u8> {
        let all = AllMemory {
            price: self.price,
            root: NodeMemory::of(
                &self.tree.nodes[ROOT as usize],
                self.hint_records.first().copied(),
            ),
            interval: Some(self.mean_interval),
        };
        all.to_bytes()
    }

    /// Takes in what was remembered of all elements together, before any of them.
    pub(in super::super) fn recall_all(&mut self, bytes: &[u8]) {
        if let Some(all) = AllMemory::from_bytes(bytes) {
            self.price = all.price.max(0.0);
            self.pricing.settle(all.interval);
            all.root.set(&mut self.tree.nodes[ROOT as usize]);
        }
    }

    /// Takes in what was remembered of a group; groups around it come before.
    pub(in super::super) fn recall_group(&mut self, groups: &Groups, group: GroupId, bytes: &[u8]) {
        let Some(memory) = NodeMemory::from_bytes(bytes) else {
            return;
        };
        self.make_room(group);
        let around = match groups.parent(group) {
            Some(parent) => self.leaf_of(groups, Some(parent)),
            None => ROOT,
        };
        let node = self.tree.add(around);
        self.nodes[group.number() as usize] = node;
        memory.set(&mut self.tree.nodes[node as usize]);
        if let Some(hint_records) = memory.hint_records() {
            self.hint_records
                .resize(self.tree.nodes.len(), HintRecord::NONE);
            self.hint_records[node as usize] = hint_records;
        }
    }

    /// Takes in an element that was polled before, with what is remembered of it.
    /// Once all are in, [`recalled`](Self::recalled) puts them in order.
    pub(in super::super) fn recall(&mut self, groups: &Groups, recalled: Recalled) {
        let Recalled {
            id,
            element,
            polled_at,
            remembered,
            is_watched,
        } = recalled;
        if let Some(group) = element.group {
            self.count_in(groups, group);
        }
        let leaf = match remembered {
            Some(remembered) => self.leaf_at(groups, element.group, remembered.depth),
            None => self.leaf_of(groups, element.group),
        };
        if is_watched {
            self.enter_watched((id, element), leaf, polled_at);
        } else {
            self.total_cost += element.cost.0;
            self.enter((id, element), leaf, polled_at);
        }
        if let Some(parts) = self.parts.get_mut(&id.0)
            && let Some(size) = remembered.and_then(|remembered| size_of_step(remembered.size))
        {
            parts.recall(size);
        }
        let member = &mut self.members[id.index()];
        match remembered {
            Some(remembered) => {
                member.changes = remembered.changes;
                member.days = remembered.days;
                member.polled = polled_at.0 + f64::from(remembered.ahead);
            }
            // Nothing is known but when it was polled: it is looked at at once.
            None if !is_watched => (member.key, member.is_look) = (polled_at.0, true),
            None => {}
        }
        if let Some(remembered) = remembered.filter(|_| !is_watched) {
            member.is_look = remembered.is_look;
            member.is_sample = remembered.is_sample;
            member.is_put = remembered.is_put;
            member.key = member.polled + f64::from(remembered.wait);
        }
    }

    /// Makes room for so many elements.
    pub(in super::super) fn reserve(&mut self, n: usize) {
        self.members.reserve_exact(n);
    }

    /// Everyone who was there before is in again.
    pub(in super::super) fn recalled(&mut self, now: Time) {
        self.settle_pace();
        if self.n_members > 0 && self.price == 0.0 {
            self.price = self.usual_price(1.0);
        }
        let mut n_entries = vec![0_usize; self.tree.nodes.len()];
        let waits = |member: &Member| member.is_here && !member.is_watched;
        let mut last = f64::NEG_INFINITY;
        for member in self.members.iter().filter(|member| waits(member)) {
            n_entries[member.leaf as usize] += 1;
            last = last.max(member.polled_at);
        }
        if last > f64::NEG_INFINITY {
            // The time between two runs may be a pause, too.
            self.pricing.polled_at = last;
        }
        for (node, &n) in (0..).zip(&n_entries) {
            self.tree.reserve(node, n);
            let path = self.tree.path(node);
            self.wind(&path, now.0);
        }
        for (index, member) in (0..).zip(&self.members) {
            if waits(member) {
                self.tree.put_unordered(member.leaf, index, member.key);
            }
        }
        // Nodes further in come after those around them.
        for node in (0..n_entries.len()).rev() {
            if n_entries[node] > 0 {
                self.tree.put_anew(node as NodeId, |_, _, key| Some(key));
            }
        }
        if let Some(deadlines) = &mut self.deadlines {
            let longest = deadlines.longest;
            let members = (0..).zip(&self.members);
            let mut queue: Vec<_> = members
                .filter(|(_, member)| waits(member))
                .map(|(index, member)| (member.polled_at + longest, member.polled_at, index))
                .collect();
            queue.sort_by(|a, b| a.0.total_cmp(&b.0));
            deadlines.queue = queue.into();
            deadlines.dearest = 1.0;
        }
    }
}

/// What is remembered of a node: its clock, what was seen in it, and what its hints
/// were worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct NodeMemory {
    clock: [f64; Clock::N],
    changes: f64,
    days: f64,
    rate: f64,
    hint_records: [f64; HintRecord::N],
    likeness: Likeness,
    shape: f64,
}

impl NodeMemory {
    /// What was remembered at first, and what came after.
    const N_FIRST: usize = Clock::N + 3 + HintRecord::N;
    const N: usize = Self::N_FIRST + Likeness::N + 1;

    fn of(node: &Node, hint_records: Option<HintRecord>) -> Self {
        Self {
            clock: node.clock.numbers(),
            changes: node.changes,
            days: node.days,
            rate: node.rate,
            hint_records: hint_records.unwrap_or(HintRecord::NONE).numbers(),
            likeness: node.likeness,
            shape: node.shape,
        }
    }

    fn set(&self, node: &mut Node) {
        node.clock = Clock::from_numbers(self.clock);
        (node.changes, node.days, node.rate) = (self.changes, self.days, self.rate);
        (node.likeness, node.shape) = (self.likeness, self.shape);
    }

    fn hint_records(&self) -> Option<HintRecord> {
        let hint_records = HintRecord::from_numbers(self.hint_records);
        (hint_records != HintRecord::NONE).then_some(hint_records)
    }

    fn numbers(&self) -> [f64; Self::N] {
        let mut numbers = [0.0; Self::N];
        numbers[..Clock::N].copy_from_slice(&self.clock);
        numbers[Clock::N..Clock::N + 3].copy_from_slice(&[self.changes, self.days, self.rate]);
        numbers[Clock::N + 3..Self::N_FIRST].copy_from_slice(&self.hint_records);
        let [log_shape, information] = self.likeness.numbers();
        numbers[Self::N_FIRST..].copy_from_slice(&[log_shape, information, self.shape]);
        numbers
    }

    /// `None` if it is not as many numbers as are remembered, or were once.
    fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let (first, later) = numbers.split_at_checked(Self::N_FIRST)?;
        let (likeness, shape) = match *later {
            [] => (Likeness::default(), Likeness::default().shape()),
            [log_shape, information, shape] => (
                Likeness::from_numbers([log_shape, information]),
                shape.max(f64::MIN_POSITIVE),
            ),
            _ => return None,
        };
        let mut memory = Self {
            clock: [0.0; Clock::N],
            changes: first[Clock::N].max(0.0),
            days: first[Clock::N + 1].max(0.0),
            rate: first[Clock::N + 2].max(f64::MIN_POSITIVE),
            hint_records: [0.0; HintRecord::N],
            likeness,
            shape,
        };
        memory.clock.copy_from_slice(&first[..Clock::N]);
        memory.hint_records.copy_from_slice(&first[Clock::N + 3..]);
        Some(memory)
    }

    fn to_bytes(self) -> Vec<u8> {
        numbers_to_bytes(&self.numbers())
    }

    pub(in super::super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::from_numbers(&numbers_from_slice(bytes)?)
    }

    /// What is usual among all elements, in what is remembered of them together.
    pub(in super::super) fn from_all(all: &[u8]) -> Option<Self> {
        let all = all.get(..Learned::remembered_of_all(all))?;
        AllMemory::from_bytes(all).map(|all| all.root)
    }

    /// What is believed of an element there before it was polled.
    pub(in super::super) fn prior(&self) -> Gamma {
        Gamma {
            shape: self.shape,
            per: self.shape / self.rate,
        }
    }

    /// What its clock shows when the clock around it shows `outer`, if nothing more is
    /// seen.
    pub(in super::super) fn shows_at(&self, outer: f64) -> f64 {
        Clock::from_numbers(self.clock).shows_at(outer)
    }
}

/// The price, in what is remembered of all elements together.
pub(in super::super) fn price_in(all: &[u8]) -> Option<f64> {
    let all = all.get(..Learned::remembered_of_all(all))?;
    AllMemory::from_bytes(all).map(|all| all.price)
}

/// What is remembered of all elements together, by a scheduler that learns.
struct AllMemory {
    price: f64,
    root: NodeMemory,
    /// The mean interval that the price is for, if that was remembered.
    interval: Option<f64>,
}

impl AllMemory {
    /// As bytes, today and at first.
    const LEN: usize = 1 + 8 * (NodeMemory::N + 2);
    const LEN_FIRST: usize = 1 + 8 * (NodeMemory::N_FIRST + 1);

    fn to_bytes(&self) -> Vec<u8> {
        let mut numbers = vec![self.price];
        numbers.extend(self.root.numbers());
        numbers.extend(self.interval);
        numbers_to_bytes(&numbers)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let numbers = numbers_from_slice(bytes)?;
        let (&price, rest) = numbers.split_first()?;
        let (root, interval) = match rest.len() {
            NodeMemory::N_FIRST => (rest, None),
            _ => rest.split_last().map(|(&last, rest)| (rest, Some(last)))?,
        };
        Some(Self {
            price,
            root: NodeMemory::from_numbers(root)?,
            interval,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::memory::numbers_from_bytes;
    use super::*;

    fn node() -> NodeMemory {
        let mut node = Node::new(ROOT, 0, 0, Clock::new(3.0));
        (node.changes, node.days, node.rate) = (4.0, 20.0, 0.2);
        node.likeness = Likeness::from_numbers([1.0, 9.0]);
        node.shape = node.likeness.shape();
        NodeMemory::of(&node, None)
    }

    #[test]
    fn a_group_is_read_back_and_so_is_one_of_before_shapes_were_fitted() {
        let memory = node();
        assert_eq!(NodeMemory::from_bytes(&memory.to_bytes()), Some(memory));
        let older = &memory.to_bytes()[..1 + 8 * NodeMemory::N_FIRST];
        let older = NodeMemory::from_bytes(older).unwrap();
        assert_eq!((older.changes, older.rate), (4.0, 0.2));
        assert_eq!(older.likeness, Likeness::default());
        let torn = &memory.to_bytes()[..1 + 8 * (NodeMemory::N_FIRST + 1)];
        assert_eq!(NodeMemory::from_bytes(torn), None);
    }

    #[test]
    fn what_is_remembered_of_all_is_told_from_what_comes_after_it() {
        let all = AllMemory {
            price: 0.5,
            root: node(),
            interval: Some(7.0),
        };
        let bytes = all.to_bytes();
        let mut older = numbers_to_bytes(&[0.5]);
        older.extend(&node().to_bytes()[1..1 + 8 * NodeMemory::N_FIRST]);
        for all in [bytes, older] {
            assert_eq!(price_in(&all), Some(0.5));
            let mut both = all.clone();
            both.extend(numbers_to_bytes(&[1.0, 2.0]));
            for whole in [&all, &both] {
                let (first, after) = whole.split_at(Learned::remembered_of_all(whole));
                assert_eq!(first, all.as_slice());
                let batches = numbers_from_bytes::<2>(after);
                assert_eq!(batches.is_some(), whole.len() > all.len());
            }
        }
        assert_eq!(
            Learned::remembered_of_all(&numbers_to_bytes(&[1.0, 2.0])),
            0
        );
    }
}
