//! Who is due next, in a tree of groups that each keep their own time.

use super::super::due::Key;
use super::clock::Clock;
use super::heap::{Entry, Heap};
use super::likeness::Likeness;

/// The number of a node; the outermost is the root.
pub(super) type NodeId = u32;
pub(super) const ROOT: NodeId = 0;
/// Marks the entry of a node among those of elements.
const NODE: u32 = 1 << 31;
/// A node deeper than this counts as the one that it is in.
pub(super) const DEEPEST: usize = 12;

/// Groups inside groups. Each has a clock and a heap of what is in it, elements and
/// groups, by when it is due on that clock. An entry that no longer holds stays
/// until it comes to the top.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: NodeId,
    pub(super) clock: Clock,
    /// Changes and days seen in it, and the rate that they, and the node around
    /// it, suggest for an element.
    pub(super) changes: f64,
    pub(super) days: f64,
    pub(super) rate: f64,
    /// The speeds of its clock and of those around it, as a product.
    pub(super) speed: f64,
    /// How alike its elements are, and the shape of what is believed of one at first:
    /// its own or, inside a site, that of the site.
    pub(super) likeness: Likeness,
    pub(super) shape: f64,
    /// Polls since its members' due times were last worked out anew, and the rate
    /// and the price that they then went by, as a quotient.
    pub(super) n_polls: u32,
    pub(super) basis: f64,
    /// Where it is in its parent's heap.
    position: u32,
    pub(super) depth: u8,
    /// Nothing in it is due, whatever its entries say.
    is_closed: bool,
    /// How many entries there were when those were last dropped that no longer held.
    n_kept: u32,
    heap: Heap,
}

impl Node {
    pub(super) fn new(parent: NodeId, position: u32, depth: u8, clock: Clock) -> Self {
        Self {
            parent,
            clock,
            changes: 0.0,
            days: 0.0,
            rate: 1.0,
            speed: 1.0,
            likeness: Likeness::default(),
            shape: Likeness::default().shape(),
            n_polls: 0,
            basis: f64::NAN,
            position,
            depth,
            is_closed: false,
            n_kept: 0,
            heap: Heap::default(),
        }
    }
}

/// The nodes around an element, from the root inwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    nodes: [NodeId; DEEPEST + 1],
    len: usize,
}

impl std::ops::Deref for Path {
    type Target = [NodeId];

    fn deref(&self) -> &[NodeId] {
        &self.nodes[..self.len]
    }
}

impl Tree {
    pub(super) fn new(rate: f64, now: f64) -> Self {
        let mut root = Node::new(ROOT, 0, 0, Clock::new(now));
        root.rate = rate;
        Self { nodes: vec![root] }
    }

    /// A new node with nothing in it, or the parent if that is as deep as can be.
    pub(super) fn add(&mut self, parent: NodeId) -> NodeId {
        let around = &self.nodes[parent as usize];
        if usize::from(around.depth) == DEEPEST {
            return parent;
        }
        let id = self.nodes.len() as NodeId;
        let position = around.heap.len() as u32;
        let clock = Clock::new(around.clock.shows);
        let mut node = Node::new(parent, position, around.depth + 1, clock);
        (node.rate, node.shape) = (around.rate, around.shape);
        node.likeness = around.likeness.inside();
        self.nodes.push(node);
        self.push(parent, f64::INFINITY, id | NODE);
        id
    }

    pub(super) fn path(&self, leaf: NodeId) -> Path {
        let len = usize::from(self.nodes[leaf as usize].depth) + 1;
        let mut nodes = [ROOT; DEEPEST + 1];
        let mut node = leaf;
        for place in nodes[..len].iter_mut().rev() {
            *place = node;
            node = self.nodes[node as usize].parent;
        }
        Path { nodes, len }
    }

    /// What a node's clock will show at a time, if nothing more is seen, and the speeds of
    /// it and of those around it, as a product.
    pub(super) fn read_at(&self, node: NodeId, at: f64) -> (f64, f64) {
        let Node { parent, clock, .. } = &self.nodes[node as usize];
        let (outer, speed) = match node {
            ROOT => (at, 1.0),
            _ => self.read_at(*parent, at),
        };
        (clock.shows_at(outer), speed * clock.speed())
    }

    /// The element that is due first, and when; `holds` says which entries still
    /// do.
    pub(super) fn first(&mut self, holds: impl Fn(u32, f64) -> bool) -> Option<(f64, u32)> {
        let mut node = ROOT;
        loop {
            match self.nodes[node as usize].heap.first() {
                Some((due, _)) if due == f64::INFINITY && node == ROOT => return None,
                Some((_, entry)) if entry & NODE != 0 => node = entry & !NODE,
                Some((key, index)) if holds(index, key) => {
                    let (due, _) = self.nodes[ROOT as usize].heap.get(0);
                    return Some((due, index));
                }
                Some(_) => {
                    self.pop(node);
                    self.tell(node);
                    node = ROOT;
                }
                None if node == ROOT => return None,
                None => {
                    // A group that was thought to have someone due.
                    self.tell(node);
                    node = ROOT;
                }
            }
        }
    }

    /// When the first element of a node is due, whether the node is closed or not; by
    /// looking through all of it.
    pub(super) fn first_inside(
        &self,
        node: NodeId,
        holds: impl Fn(u32, f64) -> bool + Copy,
    ) -> Option<f64> {
        let Node { clock, heap, .. } = &self.nodes[node as usize];
        let key = |(key, entry): Entry| match entry & NODE {
            0 => Some(key).filter(|&key| holds(entry, key)),
            _ => self.first_inside(entry & !NODE, holds),
        };
        heap.iter()
            .filter_map(key)
            .reduce(f64::min)
            .map(|key| clock.when(key))
    }

    /// An element is due at this time of its leaf's clock.
    pub(super) fn put(&mut self, path: &Path, index: u32, key: f64) {
        let leaf = path[path.len() - 1];
        let heap = &self.nodes[leaf as usize].heap;
        if heap.first().is_some_and(|(_, first)| first == index) {
            self.sink(leaf, 0, (key, index));
        } else {
            self.push(leaf, key, index);
        }
        self.tell(leaf);
    }

    /// Closes a node, so that nothing in it comes first, or opens it again.
    pub(super) fn set_closed(&mut self, node: NodeId, is_closed: bool) {
        let place = &mut self.nodes[node as usize].is_closed;
        if *place != is_closed {
            *place = is_closed;
            self.tell(node);
        }
    }

    /// Makes room for so many more entries.
    pub(super) fn reserve(&mut self, node: NodeId, n: usize) {
        self.nodes[node as usize].heap.reserve(n);
    }

    /// Puts an element in without order; [`put_anew`](Self::put_anew) then makes it.
    pub(super) fn put_unordered(&mut self, node: NodeId, index: u32, key: f64) {
        self.nodes[node as usize].heap.push((key, index));
    }

    /// How many entries a node has.
    pub(super) fn n_entries(&self, node: NodeId) -> usize {
        self.nodes[node as usize].heap.len()
    }

    /// Whether so many entries have come in that those should be dropped that no
    /// longer hold: by [`put_anew`](Self::put_anew).
    pub(super) fn is_cluttered(&self, node: NodeId) -> bool {
        let Node { heap, n_kept, .. } = &self.nodes[node as usize];
        heap.len() > 64 + *n_kept as usize * 3 / 2
    }

    /// Gives a node's elements new times; `None` for an entry that no longer holds.
    pub(super) fn put_anew(
        &mut self,
        node: NodeId,
        mut key: impl FnMut(&Node, u32, f64) -> Option<f64>,
    ) {
        let mut heap = std::mem::take(&mut self.nodes[node as usize].heap);
        let around = &self.nodes[node as usize];
        heap.retime(|(due, entry)| match entry & NODE {
            0 => key(around, entry, due),
            _ => Some(due),
        });
        self.nodes[node as usize].n_kept = heap.len() as u32;
        self.nodes[node as usize].heap = heap;
        // As a heap is made: from the bottom up.
        let n = self.nodes[node as usize].heap.len();
        for position in (0..n).rev() {
            let entry = self.nodes[node as usize].heap.get(position);
            self.sink(node, position, entry);
        }
        self.tell(node);
    }

    /// Moves a node, and those around it, to where their first members now put
    /// them.
    fn tell(&mut self, node: NodeId) {
        let mut node = node;
        while node != ROOT {
            let Node {
                parent,
                clock,
                position,
                is_closed,
                heap,
                ..
            } = &self.nodes[node as usize];
            let (parent, position) = (*parent, *position as usize);
            let due = match heap.first() {
                Some((key, _)) if !is_closed => clock.when(key),
                _ => f64::INFINITY,
            };
            let (before, _) = self.nodes[parent as usize].heap.get(position);
            let entry = (due, node | NODE);
            if due < before {
                self.rise(parent, position, entry);
            } else {
                self.sink(parent, position, entry);
            }
            node = parent;
        }
    }

    fn push(&mut self, node: NodeId, key: f64, entry: u32) {
        let heap = &mut self.nodes[node as usize].heap;
        heap.push((key, entry));
        let last = heap.len() - 1;
        self.rise(node, last, (key, entry));
    }

    fn pop(&mut self, node: NodeId) {
        let heap = &mut self.nodes[node as usize].heap;
        if let Some(last) = heap.pop()
            && heap.len() > 0
        {
            self.sink(node, 0, last);
        }
    }

    fn rise(&mut self, node: NodeId, mut position: usize, entry: Entry) {
        let mut heap = std::mem::take(&mut self.nodes[node as usize].heap);
        while position > 0 {
            let above = Heap::above(position);
            let other = heap.get(above);
            if Key(other.0) <= Key(entry.0) {
                break;
            }
            heap.set(position, other);
            self.moved(other, position);
            position = above;
        }
        heap.set(position, entry);
        self.moved(entry, position);
        self.nodes[node as usize].heap = heap;
    }

    fn sink(&mut self, node: NodeId, mut position: usize, entry: Entry) {
        let mut heap = std::mem::take(&mut self.nodes[node as usize].heap);
        while let Some((below, least)) = heap.earliest_below(position) {
            if least.0 >= entry.0 {
                break;
            }
            heap.set(position, least);
            self.moved(least, position);
            position = below;
        }
        heap.set(position, entry);
        self.moved(entry, position);
        self.nodes[node as usize].heap = heap;
    }

    /// Notes where an entry is now, if it is a node's.
    fn moved(&mut self, (_, entry): Entry, position: usize) {
        if entry & NODE != 0 {
            self.nodes[(entry & !NODE) as usize].position = position as u32;
        }
    }
}
