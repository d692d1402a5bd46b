//! Entries by when they are due, laid out for memory that is slow to come.

/// When something is due, and what it is.
pub(super) type Entry = (f64, u32);

/// Entries below each: as many as share a line of cache, so that a step down waits for
/// memory once, and there are half as many steps as in a binary heap.
const CHILDREN: usize = 4;

/// The children of one entry, or the first entry alone; a place without an entry is due
/// never, and comes after those with one.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Siblings([Entry; CHILDREN]);

impl Siblings {
    const NONE: Self = Self([(f64::INFINITY, u32::MAX); CHILDREN]);

    /// The place of the earliest; of equal ones, the first. Which one it is cannot be
    /// foreseen, so they are compared without branches.
    fn earliest(&self) -> usize {
        let [(a, _), (b, _), (c, _), (d, _)] = self.0;
        let (left, early) = (usize::from(b < a), if b < a { b } else { a });
        let (right, late) = (2 + usize::from(d < c), if d < c { d } else { c });
        if late < early { right } else { left }
    }
}

/// The places of a heap, and which are above and below which. Whoever moves entries
/// keeps them in order, and may note where they are.
///
/// The first entry is the last of line 0, and the children of entry `p` fill line `p + 1`.
#[derive(Debug, Default)]
pub(super) struct Heap {
    lines: Vec<Siblings>,
    len: usize,
}

impl Heap {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> Option<Entry> {
        (self.len > 0).then(|| self.get(0))
    }

    pub(super) fn get(&self, position: usize) -> Entry {
        let (line, place) = place(position);
        self.lines[line].0[place]
    }

    pub(super) fn set(&mut self, position: usize, entry: Entry) {
        let (line, place) = place(position);
        self.lines[line].0[place] = entry;
    }

    /// The position above one that is not the first.
    pub(super) fn above(position: usize) -> usize {
        (position - 1) / CHILDREN
    }

    /// The earliest of the entries below a position, and where it is; one that is due
    /// never may be none.
    pub(super) fn earliest_below(&self, position: usize) -> Option<(usize, Entry)> {
        let children = self.lines.get(position + 1)?;
        let place = children.earliest();
        Some((CHILDREN * position + 1 + place, children.0[place]))
    }

    /// Puts an entry last.
    pub(super) fn push(&mut self, entry: Entry) {
        let position = self.len;
        if place(position).0 == self.lines.len() {
            self.lines.push(Siblings::NONE);
        }
        self.len += 1;
        self.set(position, entry);
    }

    /// Takes the last entry.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        self.len = self.len.checked_sub(1)?;
        let entry = self.get(self.len);
        let (line, place) = place(self.len);
        match place {
            0 => self.lines.truncate(line),
            _ => self.set(self.len, Siblings::NONE.0[0]),
        }
        Some(entry)
    }

    /// Makes room for so many more entries.
    pub(super) fn reserve(&mut self, n: usize) {
        let n_lines = (self.len + n).div_ceil(CHILDREN) + 1;
        self.lines
            .reserve_exact(n_lines.saturating_sub(self.lines.len()));
    }

    /// All entries, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.len).map(|position| self.get(position))
    }

    /// Gives entries other times, and drops those for which there is none; what is left
    /// is in no order.
    pub(super) fn retime(&mut self, mut time: impl FnMut(Entry) -> Option<f64>) {
        let mut n_kept = 0;
        for position in 0..self.len {
            let entry = self.get(position);
            if let Some(due) = time(entry) {
                self.set(n_kept, (due, entry.1));
                n_kept += 1;
            }
        }
        while self.len > n_kept {
            self.pop();
        }
    }
}

/// The line of a position, and its place there.
fn place(position: usize) -> (usize, usize) {
    let from_line_start = position + CHILDREN - 1;
    (from_line_start / CHILDREN, from_line_start % CHILDREN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_an_entry_are_the_four_that_name_it_as_above() {
        let mut heap = Heap::default();
        for index in 0..100 {
            heap.push((f64::from(index), index));
        }
        for position in 0..100 {
            let below = (1..100).filter(|&other| Heap::above(other) == position);
            let first = below.min().map(|other| heap.get(other));
            let found = heap.earliest_below(position).map(|(_, entry)| entry);
            let found = found.filter(|entry| entry.0 < f64::INFINITY);
            assert_eq!(found, first, "{position}");
        }
    }

    #[test]
    fn entries_are_taken_from_the_end_and_leave_nothing_behind() {
        let mut heap = Heap::default();
        for index in 0..11 {
            heap.push((1.0, index));
        }
        heap.retime(|(due, index)| (index % 2 == 0).then_some(due + f64::from(index)));
        let left: Vec<u32> = heap.iter().map(|(_, index)| index).collect();
        assert_eq!(left, [0, 2, 4, 6, 8, 10]);
        assert_eq!(heap.earliest_below(0), Some((1, (3.0, 2))));
        assert_eq!(
            heap.earliest_below(1).map(|(at, entry)| (at, entry.0)),
            Some((5, 11.0))
        );
        let taken = std::iter::from_fn(|| heap.pop()).count();
        assert_eq!((taken, heap.len(), heap.first()), (6, 0, None));
    }

    #[test]
    fn of_equal_ones_the_first_is_the_earliest() {
        for (keys, first) in [
            ([1.0, 1.0, 1.0, 1.0], 0),
            ([2.0, 1.0, 1.0, 1.0], 1),
            ([2.0, 2.0, 1.0, 1.0], 2),
            ([2.0, 2.0, 3.0, 1.0], 3),
            ([f64::INFINITY; 4], 0),
        ] {
            let siblings = Siblings(keys.map(|key| (key, 0)));
            assert_eq!(siblings.earliest(), first, "{keys:?}");
        }
    }
}
