//! New elements of each host, in the order in which they came. The agenda says whose turn
//! it is; which element that is, is known here. Those that are to come are left in the
//! store.

use std::collections::{BTreeMap, VecDeque};

use springtide_store::{ElementId, Error, GroupId, Reader};

/// New elements by their outermost group.
#[derive(Debug, Default)]
pub(crate) struct NewElements {
    groups: BTreeMap<GroupId, Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// The next few, in their order, and where in the store to read on.
    next: VecDeque<ElementId>,
    from: u32,
    /// Whether the store has been read up to those that came since the start.
    is_read: bool,
    /// Those that came since, while it has not.
    late: VecDeque<ElementId>,
}

/// New elements of a group that are read at a time.
const READ_AT_A_TIME: usize = 256;

impl NewElements {
    /// New elements of a group are in the store.
    pub(crate) fn expect(&mut self, group: GroupId) {
        self.groups.entry(group).or_default();
    }

    /// An element of the store that was never asked for, though a poll of it is there: it
    /// goes first.
    pub(crate) fn expect_again(&mut self, group: GroupId, id: ElementId) {
        self.groups.entry(group).or_default().next.push_back(id);
    }

    /// An element that was not known before.
    pub(crate) fn add(&mut self, group: GroupId, id: ElementId) {
        let queue = self.groups.entry(group).or_insert_with(|| Queue {
            is_read: true,
            ..Queue::default()
        });
        match queue.is_read {
            true => queue.next.push_back(id),
            false => queue.late.push_back(id),
        }
    }

    /// The next new element of a group, if there is one after all.
    pub(crate) fn next(
        &mut self,
        group: GroupId,
        store: &dyn Reader,
    ) -> Result<Option<ElementId>, Error> {
        let Some(queue) = self.groups.get_mut(&group) else {
            return Ok(None);
        };
        if queue.next.is_empty() && !queue.is_read {
            let read = store.new_elements(group, ElementId(queue.from), READ_AT_A_TIME)?;
            // Numbers rise: what came since the start comes after all that was there.
            let end = queue.late.front().copied().unwrap_or(ElementId(u32::MAX));
            let n_read = read.len();
            queue
                .next
                .extend(read.into_iter().take_while(|&id| id < end));
            if let Some(last) = queue.next.back() {
                queue.from = last.0.saturating_add(1);
            }
            if n_read < READ_AT_A_TIME || queue.next.len() < n_read {
                queue.is_read = true;
                queue.next.append(&mut queue.late);
            }
        }
        Ok(queue.next.pop_front())
    }
}
