//! Which groups have a node, and which node an element is in.

use super::tree::{NodeId, ROOT};
use super::{FEWEST, Learned, NO_NODE};
use crate::{GroupId, Groups, Present};

impl Learned {
    /// A node for every group of some size with elements of its own or with more
    /// than one group inside; one that holds the same elements as the group around
    /// it would count what they show twice.
    pub(super) fn make_nodes(&mut self, groups: &Groups, present: Present<'_>) {
        self.n_inside = vec![0; groups.len()];
        self.nodes = vec![NO_NODE; groups.len()];
        for group in present.iter().filter_map(|(_, element)| element.group) {
            for around in groups.path(group) {
                self.n_inside[around.number() as usize] += 1;
            }
        }
        // A group comes after the one that it is in.
        for number in 0..groups.len() as u32 {
            let group = GroupId::new(number).expect("a group that there is");
            self.make_node_if_of_some_size(groups, group);
        }
    }

    /// Counts one more element in a group, and makes nodes where there are enough.
    pub(super) fn make_node(&mut self, groups: &Groups, group: GroupId) {
        self.count_in(groups, group);
        let mut path: Vec<_> = groups.path(group).collect();
        path.reverse();
        for group in path {
            self.make_node_if_of_some_size(groups, group);
        }
    }

    pub(super) fn count_in(&mut self, groups: &Groups, group: GroupId) {
        self.make_room(group);
        for around in groups.path(group) {
            self.n_inside[around.number() as usize] += 1;
        }
    }

    pub(super) fn make_node_if_of_some_size(&mut self, groups: &Groups, group: GroupId) {
        let number = group.number() as usize;
        let n = self.n_inside[number];
        if n == 0 || self.nodes[number] != NO_NODE {
            return;
        }
        match groups.parent(group) {
            None => self.nodes[number] = self.tree.add(ROOT),
            Some(parent) => {
                if n >= FEWEST && self.n_inside[parent.number() as usize] > n {
                    let around = self.leaf_of(groups, Some(parent));
                    self.nodes[number] = self.tree.add(around);
                }
            }
        }
    }

    pub(super) fn make_room(&mut self, group: GroupId) {
        let n = group.number() as usize + 1;
        if n > self.nodes.len() {
            self.nodes.resize(n, NO_NODE);
            self.n_inside.resize(n, 0);
        }
    }

    /// The innermost node around the elements of a group.
    pub(super) fn leaf_of(&self, groups: &Groups, group: Option<GroupId>) -> NodeId {
        group
            .into_iter()
            .flat_map(|group| groups.path(group))
            .map(|group| self.nodes[group.number() as usize])
            .find(|&node| node != NO_NODE)
            .unwrap_or(ROOT)
    }

    /// The node of this depth around the elements of a group: an element stays where
    /// it was when nodes further in are made.
    pub(super) fn leaf_at(&self, groups: &Groups, group: Option<GroupId>, depth: u8) -> NodeId {
        let mut node = self.leaf_of(groups, group);
        while self.tree.nodes[node as usize].depth > depth {
            node = self.tree.nodes[node as usize].parent;
        }
        node
    }
}
