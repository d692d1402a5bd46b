//! The first pass: how many new elements each group has, and whose turn it is.

use std::collections::{BTreeMap, VecDeque};

use crate::GroupId;

/// New elements, counted by outermost group. Which element is a group's next is the
/// driver's to say, who need not hold them all.
#[derive(Debug, Default)]
pub(super) struct FirstPass {
    groups: BTreeMap<Option<GroupId>, GroupTurns>,
    /// Groups that are open and have new elements, in the order of their turns: those
    /// whose last turn was of someone else, and the others. Some are out of date.
    owed: VecDeque<Option<GroupId>>,
    turns: VecDeque<Option<GroupId>>,
    n_left: u64,
}

#[derive(Debug)]
struct GroupTurns {
    n_left: u64,
    is_open: bool,
    /// Whether its last turn was of someone who is not new.
    is_owed: bool,
    /// Whether it is in a queue.
    has_turn: bool,
}

impl FirstPass {
    /// So many more elements of a group are new.
    pub(super) fn add(&mut self, group: Option<GroupId>, n: u64, is_open: bool) {
        if n == 0 {
            return;
        }
        let place = self.groups.entry(group).or_insert(GroupTurns {
            n_left: 0,
            is_open,
            is_owed: false,
            has_turn: false,
        });
        place.n_left += n;
        self.n_left += n;
        self.queue(group);
    }

    /// How many are to come.
    pub(super) fn n_left(&self) -> u64 {
        self.n_left
    }

    /// Whether a group has any, be it open or not.
    pub(super) fn has(&self, group: GroupId) -> bool {
        self.groups.contains_key(&Some(group))
    }

    /// Whether there is a group that may be asked for one now.
    pub(super) fn is_ready(&mut self) -> bool {
        drop_outdated(&mut self.owed, &mut self.groups);
        drop_outdated(&mut self.turns, &mut self.groups);
        !self.owed.is_empty() || !self.turns.is_empty()
    }

    /// A group has opened or closed.
    pub(super) fn set_open(&mut self, group: GroupId, is_open: bool) {
        if let Some(place) = self.groups.get_mut(&Some(group)) {
            place.is_open = is_open;
            self.queue(Some(group));
        }
    }

    /// Someone who is not new had a turn in a group: the next is owed to a new one.
    pub(super) fn owe(&mut self, group: GroupId) {
        if let Some(place) = self.groups.get_mut(&Some(group)) {
            place.is_owed = true;
        }
    }

    /// A group that owes a turn to a new element.
    pub(super) fn next_owed(&mut self) -> Option<Option<GroupId>> {
        drop_outdated(&mut self.owed, &mut self.groups);
        let group = self.owed.pop_front()?;
        self.give_turn(group);
        Some(group)
    }

    /// The group whose turn it is; it gets another when it is open again, or at once if
    /// it has no limit.
    pub(super) fn next(&mut self) -> Option<Option<GroupId>> {
        if let Some(group) = self.next_owed() {
            return Some(group);
        }
        drop_outdated(&mut self.turns, &mut self.groups);
        let group = self.turns.pop_front()?;
        self.give_turn(group);
        Some(group)
    }

    fn give_turn(&mut self, group: Option<GroupId>) {
        if let Some(place) = self.groups.get_mut(&group) {
            (place.has_turn, place.is_owed) = (false, false);
        }
        self.take(group);
    }

    /// One of a group's new elements is about to be polled.
    pub(super) fn take(&mut self, group: Option<GroupId>) {
        let Some(place) = self.groups.get_mut(&group) else {
            return;
        };
        place.n_left = place.n_left.saturating_sub(1);
        self.n_left = self.n_left.saturating_sub(1);
        if place.n_left == 0 {
            self.groups.remove(&group);
        } else {
            self.queue(group);
        }
    }

    /// A group has no new elements after all.
    pub(super) fn clear(&mut self, group: Option<GroupId>) {
        if let Some(place) = self.groups.remove(&group) {
            self.n_left = self.n_left.saturating_sub(place.n_left);
        }
    }

    fn queue(&mut self, group: Option<GroupId>) {
        if let Some(place) = self.groups.get_mut(&group)
            && place.is_open
            && !place.has_turn
        {
            place.has_turn = true;
            match place.is_owed {
                true => self.owed.push_back(group),
                false => self.turns.push_back(group),
            }
        }
    }
}

fn drop_outdated(
    turns: &mut VecDeque<Option<GroupId>>,
    groups: &mut BTreeMap<Option<GroupId>, GroupTurns>,
) {
    while let Some(group) = turns.front() {
        match groups.get_mut(group) {
            Some(place) if place.is_open => return,
            Some(place) => place.has_turn = false,
            None => {}
        }
        turns.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_groups_take_turns_until_all_their_elements_are_had() {
        let group = |number| GroupId::new(number).unwrap();
        let mut pass = FirstPass::default();
        pass.add(Some(group(0)), 2, true);
        pass.add(Some(group(1)), 1, true);
        pass.add(Some(group(2)), 1, false);
        assert_eq!(pass.n_left(), 4);
        let taken: Vec<u32> = std::iter::from_fn(|| pass.next())
            .map(|group| group.unwrap().number())
            .collect();
        assert_eq!(taken, [0, 1, 0]);
        assert_eq!((pass.n_left(), pass.is_ready()), (1, false));
        pass.set_open(group(2), true);
        assert_eq!(pass.next(), Some(Some(group(2))));
        assert_eq!(pass.n_left(), 0);
    }

    #[test]
    fn a_group_that_closes_before_its_turn_gets_it_when_it_opens() {
        let group = GroupId::new(7).unwrap();
        let mut pass = FirstPass::default();
        pass.add(Some(group), 3, true);
        pass.set_open(group, false);
        assert_eq!(pass.next(), None);
        pass.set_open(group, true);
        assert_eq!(pass.next(), Some(Some(group)));
        pass.clear(Some(group));
        assert_eq!((pass.n_left(), pass.next()), (0, None));
    }
}
