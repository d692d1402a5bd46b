//! Ways to keep a copy of a table: the agenda's, block by block and with a cursor, as the
//! engine asks; and what people do today.

use std::ops::Range;

use rand::SeedableRng;
use rand_pcg::Pcg64;
use springtide_policy::agenda::{Agenda, LIKELY, Poll, Request, Together, Verdict, cursor_element};
use springtide_policy::plan::Rule;
use springtide_policy::schedule::{Choice, Terms};
use springtide_policy::{
    Element, ElementId, Elements, GroupId, Groups, Order, Outcome, Present, Rate, Span, Time,
};

use super::TableHistory;
use super::copies::{Copies, TableMeasures};

/// One experiment.
#[derive(Debug, Clone)]
pub struct TableSetup {
    /// How the copy is kept.
    pub by: By,
    /// The budget, and what else is to be kept to.
    pub terms: Terms,
    /// Days at the start that are not measured.
    pub warmup: f64,
    /// Where random numbers start.
    pub seed: u64,
}

/// How a copy is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Blocks in turn.
    Uniform,
    /// Blocks as they are worth it.
    Learned {
        /// Whether the database tells of blocks that did not change, many at once.
        digests: bool,
        /// Whether there is a cursor.
        cursor: bool,
    },
    /// The whole table every night, whatever that costs.
    FullCopy,
    /// The cursor alone, as often as the budget allows.
    CursorOnly,
}

/// The element that the cursor is; blocks follow in the order of their keys.
const CURSOR: ElementId = ElementId(0);
/// Blocks that are next to each other and in one group.
const PER_GROUP: usize = 32;
/// The cursor waits no longer, in days.
const LONGEST_WAIT: f64 = 1.0;
/// The shortest wait, in days: a tenth of a millisecond.
const SHORTEST: f64 = 1e-9;

impl TableHistory {
    /// Keeps a copy to the end of the span.
    pub fn run(&self, setup: &TableSetup) -> TableMeasures {
        let mut copies = Copies::new(self, setup.warmup);
        match setup.by {
            By::FullCopy => {
                let mut n_blocks = 0;
                for night in (1..).map(f64::from).take_while(|&night| night <= self.span) {
                    let all = 0..self.n_born(night);
                    let is_there = |&row: &usize| night < self.died(row);
                    let blocks = cut(all.clone(), all.filter(is_there), self.block);
                    n_blocks = blocks.len();
                    for rows in blocks {
                        let n_changed = rows.filter(|&row| copies.refresh(row, night)).count();
                        copies.note_poll(n_changed > 0, night);
                    }
                }
                copies.finish(n_blocks)
            }
            By::CursorOnly => {
                let per_day = setup.terms.budget.as_per_day();
                let times = (1..).map(|n| f64::from(n) / per_day);
                for now in times.take_while(|&now| now <= self.span) {
                    copies.read_cursor(now);
                }
                copies.finish(0)
            }
            By::Uniform | By::Learned { .. } => Mirror::new(setup, copies).run(),
        }
    }
}

/// Cuts a range so that each part has so many of these rows, and the last what is left.
fn cut(all: Range<usize>, rows: impl Iterator<Item = usize>, size: usize) -> Vec<Range<usize>> {
    let mut start = all.start;
    let ends = rows.step_by(size).skip(1).chain([all.end]);
    ends.map(|end| std::mem::replace(&mut start, end)..end)
        .collect()
}

/// A range of rows.
#[derive(Debug, Clone)]
struct Block {
    id: ElementId,
    rows: Range<usize>,
    /// When it was last read, or its digest told that it need not be.
    polled_at: f64,
    /// Whether its digest is known: not once the cursor has brought rows of it.
    has_digest: bool,
    /// Its digest has shown that it is not what it was.
    differs: bool,
}

impl Block {
    fn new(id: ElementId, rows: Range<usize>, polled_at: f64) -> Self {
        Self {
            id,
            rows,
            polled_at,
            has_digest: true,
            differs: false,
        }
    }
}

/// The agenda at work.
struct Mirror<'a> {
    copies: Copies<'a>,
    agenda: Agenda,
    rng: Pcg64,
    /// In the order of their keys, and where each element is among them.
    blocks: Vec<Block>,
    places: Vec<usize>,
    table: GroupId,
    groups: Vec<GroupId>,
    asks_digests: bool,
    has_cursor: bool,
}

impl<'a> Mirror<'a> {
    fn new(setup: &TableSetup, copies: Copies<'a>) -> Self {
        let history = copies.history;
        // A stream of its own: the history is drawn from the same seed.
        let mut rng = Pcg64::seed_from_u64(setup.seed ^ 0x7363_6865_6475_6c65);
        // What comes later is in the last.
        let blocks = cut(0..usize::MAX, 0..history.n_first, history.block);
        let blocks: Vec<Block> = (blocks.into_iter())
            .zip(1..)
            .map(|(rows, number)| Block::new(ElementId(number), rows, 0.0))
            .collect();
        let mut all = Groups::new();
        let table = all.add(None);
        let groups: Vec<GroupId> = (0..=blocks.len() / PER_GROUP)
            .map(|_| all.add(Some(table)))
            .collect();
        let (choice, asks_digests, has_cursor) = match setup.by {
            By::Learned { digests, cursor } => (Choice::Learned, digests, cursor),
            _ => {
                let rule = Rule::Uniform;
                // Nobody asks how often blocks change.
                let rates = vec![Rate::ZERO; history.n_rows() + 2].into();
                let order = Order::Fixed;
                (Choice::Planned { rule, order, rates }, false, false)
            }
        };
        let group_of = |block: usize| Some(groups[(block + 1) / PER_GROUP]);
        let size = history.block as u32;
        let cursor = cursor_element(1.0, blocks.len() as u64, size, Some(table));
        let elements: Elements = std::iter::once(cursor)
            .chain((0..blocks.len()).map(|block| Element {
                group: group_of(block),
                parts: size,
                ..Element::default()
            }))
            .collect();
        let mut here: Vec<ElementId> = blocks.iter().map(|block| block.id).collect();
        if has_cursor {
            here.insert(0, CURSOR);
        }
        let present = Present::some(&elements, &here);
        let terms = setup.terms.clone();
        let mut agenda = Agenda::exact(choice, terms, all, present, Time::START, &mut rng);
        if has_cursor {
            let longest = Span::days(LONGEST_WAIT).expect("a day");
            agenda.set_listing(CURSOR, Some(Time::START), longest);
        }
        Self {
            copies,
            agenda,
            rng,
            places: std::iter::once(0).chain(0..blocks.len()).collect(),
            blocks,
            table,
            groups,
            asks_digests,
            has_cursor,
        }
    }

    fn run(mut self) -> TableMeasures {
        let span = self.copies.history.span;
        let mut woken_at = f64::NEG_INFINITY;
        let mut now = 0.0;
        loop {
            // Whoever has nothing to poll when it asked to be woken is not woken at the
            // same time again.
            let wake_at = self.agenda.wake_at(time(now)).as_days();
            now = wake_at.max(woken_at).max(now);
            if now > span {
                break;
            }
            woken_at = now + SHORTEST;
            while let Some(request) = self.agenda.next(time(now), &mut self.rng) {
                let Request::Poll(poll) = request else {
                    continue;
                };
                woken_at = now;
                self.poll(&poll, now);
                if let Some(group) = poll.group {
                    self.agenda
                        .ended(group, Verdict::Fine, time(now), &mut self.rng);
                }
            }
        }
        self.copies.finish(self.blocks.len())
    }

    fn poll(&mut self, poll: &Poll, now: f64) {
        if poll.id == CURSOR && self.has_cursor {
            return self.poll_cursor(now);
        }
        let block = self.places[poll.id.index()];
        match self.asked_together(block, now) {
            Some(blocks) => self.compare_digests(&blocks, poll, now),
            None => self.read(block, now),
        }
    }

    /// Reads the rows of a block.
    fn read(&mut self, block: usize, now: f64) {
        let rows = self.rows(block, now);
        let n_changed = rows.filter(|&row| self.copies.refresh(row, now)).count();
        self.copies.note_poll(n_changed > 0, now);
        let Block { id, rows, .. } = self.blocks[block].clone();
        self.blocks[block] = Block::new(id, rows, now);
        self.observe(id, n_changed, now);
        self.cut_last(now);
    }

    /// The blocks to ask for the digests of, instead of the rows of the first, if they
    /// will do.
    fn asked_together(&self, block: usize, now: f64) -> Option<Vec<usize>> {
        if !self.asks_digests {
            return None;
        }
        let mut together = Together::new(self.chance(block, now)?, LIKELY)?;
        let mut taken = vec![block];
        let mut others = block + 1..self.blocks.len();
        while together.has_room()
            && let Some(other) = others.next()
        {
            if together.takes(self.chance(other, now)) {
                taken.push(other);
            }
        }
        Some(taken)
    }

    /// The chance that a block has changed, if its digest is known.
    fn chance(&self, block: usize, now: f64) -> Option<f64> {
        let known = &self.blocks[block];
        if !known.has_digest || known.differs {
            return None;
        }
        let belief = self.agenda.scheduler().belief(known.id, time(now))?;
        Some(1.0 - belief.quiet(now - known.polled_at))
    }

    /// A block whose digest is what it was has been polled by that; one whose digest is
    /// not is read next.
    fn compare_digests(&mut self, blocks: &[usize], poll: &Poll, now: f64) {
        let mut n_different = 0;
        for &block in blocks {
            let id = self.blocks[block].id;
            let has_changed = |row| self.copies.has_changed(row, now);
            if !self.rows(block, now).any(has_changed) {
                self.blocks[block].polled_at = now;
                self.observe(id, 0, now);
                continue;
            }
            n_different += 1;
            self.blocks[block].differs = true;
            if id == poll.id {
                self.agenda
                    .put_back(poll.id, poll.group, time(now), time(now));
            } else {
                self.agenda.look_at(id, Some(self.table), time(now));
            }
        }
        self.copies.note_digests(n_different > 0, now);
    }

    /// Rows that the cursor brings are fresh. Of the rest of their blocks it says nothing,
    /// so these are not polled by that.
    fn poll_cursor(&mut self, now: f64) {
        let rows = self.copies.read_cursor(now);
        self.observe(CURSOR, rows.len(), now);
        for row in rows {
            let after = self.blocks.partition_point(|block| block.rows.start <= row);
            self.blocks[after - 1].has_digest = false;
        }
        self.cut_last(now);
    }

    /// Cuts full blocks off at the front of the last, so that the end stays small.
    fn cut_last(&mut self, now: f64) {
        let Some(whole) = self.blocks.last().cloned() else {
            return;
        };
        let size = self.copies.history.block;
        let held: Vec<usize> = (self.rows(self.blocks.len() - 1, now))
            .filter(|&row| self.copies.is_held(row))
            .collect();
        if held.len() <= size + size / 2 {
            return;
        }
        self.blocks.pop();
        for rows in cut(whole.rows.clone(), held.into_iter(), size) {
            let place = self.blocks.len();
            let id = match rows.end == whole.rows.end {
                true => whole.id,
                false => self.join(whole.id, now),
            };
            self.places[id.index()] = place;
            self.blocks.push(Block {
                id,
                rows,
                ..whole.clone()
            });
        }
    }

    /// A block that was part of another.
    fn join(&mut self, whole: ElementId, now: f64) -> ElementId {
        let id = ElementId(self.places.len() as u32);
        self.places.push(0);
        let number = id.index() / PER_GROUP;
        if number == self.groups.len() {
            let group = self.agenda.scheduler_mut().add_group(Some(self.table));
            self.groups.push(group);
        }
        let element = Element {
            group: Some(self.groups[number]),
            parts: self.copies.history.block as u32,
            ..Element::default()
        };
        self.agenda
            .join_from(whole, id, element, time(now), &mut self.rng);
        id
    }

    fn rows(&self, block: usize, now: f64) -> Range<usize> {
        let Range { start, end } = self.blocks[block].rows;
        start..end.min(self.copies.history.n_born(now))
    }

    fn observe(&mut self, id: ElementId, n_changed: usize, now: f64) {
        let n_changed = n_changed as u32;
        self.agenda
            .observe(id, Outcome::Parts { n_changed }, time(now));
    }
}

fn time(days: f64) -> Time {
    Time::from_days(days).expect("within the span")
}
