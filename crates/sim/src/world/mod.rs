//! Worlds that change: elements, when they live, and when they change.
//!
//! A [`World`] is made by [`World::poisson`] from rates, by [`World::recorded`]
//! from a history, or by [`Correlated::world`] from a few parameters. Whatever made
//! it, the simulator asks the same things of it, and every policy meets the same
//! changes.

mod correlated;

pub use correlated::{Correlated, ParameterError};

use std::sync::Arc;

use springtide_policy::{Element, ElementId, Elements, Groups, Rate};

/// Elements, when they live, and when they change. Times are in days since the
/// start.
#[derive(Debug, Clone)]
pub struct World {
    elements: Elements,
    groups: Groups,
    /// Empty if every element is there throughout.
    lives: Vec<Life>,
    changes: Changes,
    span: f64,
}

/// From when to when an element is there. Its copy is in sync at birth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Life {
    /// Zero for an element that is there from the start.
    pub born: f64,
    /// Infinite for an element that is there at the end.
    pub died: f64,
}

impl Life {
    /// There throughout.
    pub const WHOLE: Self = Self {
        born: 0.0,
        died: f64::INFINITY,
    };
}

#[derive(Debug, Clone)]
enum Changes {
    /// Drawn when they are asked for, so that a world of many elements takes
    /// little memory: change number so-and-so of an element is a function of the
    /// seed.
    Poisson { rates: Arc<[Rate]>, seed: u64 },
    /// Element i has the times from `starts[i]` to `starts[i + 1]`.
    Recorded { starts: Vec<usize>, times: Vec<f64> },
}

/// Where an element's changes were read up to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    /// The next change; infinite after the last.
    pub(crate) next: f64,
    n_read: u32,
}

impl World {
    /// Elements that change as Poisson processes with these rates.
    ///
    /// # Panics
    ///
    /// If the numbers of elements and rates differ.
    pub fn poisson(
        elements: Elements,
        groups: Groups,
        rates: impl Into<Arc<[Rate]>>,
        span: f64,
        seed: u64,
    ) -> Self {
        let rates = rates.into();
        assert_eq!(elements.len(), rates.len(), "one rate per element");
        Self {
            elements,
            groups,
            lives: Vec::new(),
            changes: Changes::Poisson { rates, seed },
            span,
        }
    }

    /// Elements that change at given times, element after element, each in rising
    /// order: element i's changes are `times[starts[i]..starts[i + 1]]`.
    ///
    /// # Panics
    ///
    /// If the numbers of elements, lives and starts do not fit each other.
    pub fn recorded(
        elements: Elements,
        groups: Groups,
        lives: Vec<Life>,
        (starts, times): (Vec<usize>, Vec<f64>),
        span: f64,
    ) -> Self {
        assert_eq!(
            elements.len() + 1,
            starts.len(),
            "where each element starts"
        );
        assert!(lives.is_empty() || lives.len() == elements.len());
        Self {
            elements,
            groups,
            lives,
            changes: Changes::Recorded { starts, times },
            span,
        }
    }

    /// How many elements there are.
    pub fn n_elements(&self) -> usize {
        self.elements.len()
    }

    /// How long it lasts, in days.
    pub fn span(&self) -> f64 {
        self.span
    }

    /// An element's weight, cost and group.
    pub fn element(&self, index: usize) -> Element {
        self.elements.get(id(index))
    }

    /// The groups that elements are in.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// When an element is there.
    pub fn life(&self, index: usize) -> Life {
        self.lives.get(index).copied().unwrap_or(Life::WHOLE)
    }

    /// Whether all elements are there throughout.
    pub fn is_settled(&self) -> bool {
        self.lives.iter().all(|&life| life == Life::WHOLE)
    }

    /// How long an element is there within the span, in days.
    pub fn lifetime(&self, index: usize) -> f64 {
        let life = self.life(index);
        (life.died.min(self.span) - life.born).max(0.0)
    }

    /// The changes of an element within the span, in rising order.
    pub fn changes(&self, index: usize) -> impl Iterator<Item = f64> + '_ {
        let mut cursor = self.cursor(index);
        std::iter::from_fn(move || {
            let next = cursor.next;
            (next <= self.span).then(|| {
                self.step(index, &mut cursor);
                next
            })
        })
    }

    /// An element's true mean rate: the one it was made with, or its changes per
    /// time of life.
    pub fn rate(&self, index: usize) -> Rate {
        match &self.changes {
            Changes::Poisson { rates, .. } => rates[index],
            Changes::Recorded { .. } => {
                let days = self.lifetime(index);
                let n_changes = self.changes(index).count();
                let per_day = if days > 0.0 {
                    n_changes as f64 / days
                } else {
                    0.0
                };
                Rate::per_day(per_day).expect("counts and days are finite")
            }
        }
    }

    /// The true mean rates of all elements.
    pub fn rates(&self) -> Arc<[Rate]> {
        match &self.changes {
            Changes::Poisson { rates, .. } => Arc::clone(rates),
            Changes::Recorded { .. } => (0..self.n_elements())
                .map(|index| self.rate(index))
                .collect(),
        }
    }

    /// All elements.
    pub fn elements(&self) -> &Elements {
        &self.elements
    }

    pub(crate) fn cursor(&self, index: usize) -> Cursor {
        let mut cursor = Cursor {
            next: 0.0,
            n_read: 0,
        };
        self.step(index, &mut cursor);
        cursor
    }

    /// Goes on to the next change.
    pub(crate) fn step(&self, index: usize, cursor: &mut Cursor) {
        cursor.next = match &self.changes {
            Changes::Poisson { rates, .. } if rates[index] == Rate::ZERO => f64::INFINITY,
            Changes::Poisson { rates, seed } => {
                let gap = -draw(*seed, index as u64, cursor.n_read).ln();
                cursor.next + gap / rates[index].as_per_day()
            }
            Changes::Recorded { starts, times } => times[starts[index]..starts[index + 1]]
                .get(cursor.n_read as usize)
                .copied()
                .unwrap_or(f64::INFINITY),
        };
        cursor.n_read += 1;
    }
}

/// The number of the element at an index.
pub(crate) fn id(index: usize) -> ElementId {
    ElementId(u32::try_from(index).expect("elements are numbered in 32 bits"))
}

/// A number above 0 and at most 1, the same for the same three.
///
/// Steele, Lea and Flood's SplitMix, whose mixing function is good enough to take
/// the place of a generator with a state per element.
pub(crate) fn draw(seed: u64, element: u64, count: u32) -> f64 {
    let mut bits = mix(seed ^ mix(element.wrapping_add(0x9e37_79b9_7f4a_7c15)));
    bits = mix(bits.wrapping_add(u64::from(count).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
