//! What is due next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{ElementId, Time};

/// Elements by when they are due, earliest first; of two due at once the lower
/// number.
///
/// An element is in it once or not at all: asking for another time replaces the
/// first. What is replaced or taken out stays in the heap until it comes to the
/// top, which costs less than finding it there.
#[derive(Debug, Default)]
pub(crate) struct DueQueue {
    heap: BinaryHeap<Reverse<(Key, u32)>>,
    /// When each element is due; NaN if it is not in the queue.
    due: Vec<f64>,
    n_due: usize,
}

/// A time that is not NaN, with an order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Key(pub(crate) f64);

impl Eq for Key {}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl DueQueue {
    pub(crate) fn with_capacity(n: usize) -> Self {
        Self {
            heap: BinaryHeap::with_capacity(n),
            due: Vec::with_capacity(n),
            n_due: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.n_due
    }

    /// Puts an element in, or elsewhere if it is in already.
    pub(crate) fn put(&mut self, index: u32, due: f64) {
        debug_assert!(!due.is_nan());
        let at = index as usize;
        if at >= self.due.len() {
            self.due.resize(at + 1, f64::NAN);
        }
        if self.due[at].is_nan() {
            self.n_due += 1;
        }
        self.due[at] = due;
        self.heap.push(Reverse((Key(due), index)));
        self.clear_out();
    }

    pub(crate) fn take_out(&mut self, index: u32) {
        if let Some(due) = self.due.get_mut(index as usize)
            && !due.is_nan()
        {
            *due = f64::NAN;
            self.n_due -= 1;
        }
    }

    /// The earliest, and when it is due.
    pub(crate) fn first(&mut self) -> Option<(f64, u32)> {
        while let Some(&Reverse((Key(due), index))) = self.heap.peek() {
            if self.due[index as usize].to_bits() == due.to_bits() {
                return Some((due, index));
            }
            self.heap.pop();
        }
        None
    }

    pub(crate) fn pop(&mut self) -> Option<(f64, u32)> {
        let first = self.first()?;
        self.heap.pop();
        self.take_out(first.1);
        Some(first)
    }

    /// When an element is due.
    pub(crate) fn due(&self, index: u32) -> Option<f64> {
        let due = self.due.get(index as usize).copied();
        due.filter(|due| !due.is_nan())
    }

    /// Drops what was replaced once it is most of the heap, so that elements that
    /// are put elsewhere again and again do not pile up.
    fn clear_out(&mut self) {
        if self.heap.len() > 64 && self.heap.len() > 3 * self.n_due {
            let due = &self.due;
            self.heap
                .retain(|Reverse((key, index))| due[*index as usize].to_bits() == key.0.to_bits());
        }
    }
}

/// When elements are due, and who is due earliest: what most policies keep. Putting an
/// element in and taking one out costs a heap operation or two.
#[derive(Debug, Default)]
pub struct DueTimes(DueQueue);

impl DueTimes {
    /// Of nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on an element is due then.
    pub fn set(&mut self, id: ElementId, due: Time) {
        self.0.put(id.0, due.0);
    }

    /// Nothing is known of an element any more.
    pub fn remove(&mut self, id: ElementId) {
        self.0.take_out(id.0);
    }

    /// Who is due earliest, and when; of several the one with the lowest number.
    pub fn first(&mut self) -> Option<(Time, ElementId)> {
        let (due, index) = self.0.first()?;
        Some((Time(due), ElementId(index)))
    }

    /// When an element is due.
    pub fn due_at(&self, id: ElementId) -> Option<Time> {
        self.0.due(id.0).map(Time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_a_later_word_counts() {
        let mut queue = DueQueue::default();
        for (index, due) in [(0, 3.0), (1, 1.0), (2, 2.0), (1, 5.0)] {
            queue.put(index, due);
        }
        queue.take_out(0);
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.due(1), Some(5.0));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(2.0, 2), (5.0, 1)]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn an_element_put_back_to_an_earlier_time_is_there_once() {
        let mut queue = DueQueue::default();
        queue.put(0, 1.0);
        queue.put(0, 2.0);
        queue.put(0, 1.0);
        assert_eq!(queue.pop(), Some((1.0, 0)));
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn moving_elements_about_takes_no_more_and_more_memory() {
        let mut queue = DueQueue::default();
        for step in 0..10_000 {
            queue.put(step % 10, f64::from(step));
        }
        assert!(queue.heap.len() <= 65);
    }
}
