//! What a scheduler remembers, as bytes: kept with every poll, handed back when it
//! starts again, and read by those who only want to know.

use super::learned::HALF_LIFE;
use crate::numeric::fading;
use crate::{Element, ElementId, Gamma, Span, Time};

/// What is remembered of an element.
pub type ElementMemory = [u8; 24];

/// The layout of what is remembered, in the first byte of each; none is zero.
const LAYOUT: u8 = 1;

/// What is remembered of an element, taken apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Remembered {
    /// Due only to be looked at again; due early, to learn; due when it was told to
    /// be.
    pub(super) is_look: bool,
    pub(super) is_sample: bool,
    pub(super) is_put: bool,
    /// How deep the node is that it belongs to.
    pub(super) depth: u8,
    pub(super) changes: f32,
    pub(super) days: f32,
    /// How far the clock of that node was ahead of time when it was last polled.
    pub(super) ahead: f32,
    /// When it is due after that, on that clock and by time itself.
    pub(super) wait: f32,
    pub(super) due_in: f32,
}

impl Remembered {
    pub(super) fn to_bytes(self) -> ElementMemory {
        let mut bytes = [0; 24];
        bytes[0] = LAYOUT;
        bytes[1] =
            u8::from(self.is_look) | u8::from(self.is_sample) << 1 | u8::from(self.is_put) << 2;
        bytes[2] = self.depth;
        bytes[4..8].copy_from_slice(&self.changes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.days.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.ahead.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.wait.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.due_in.to_le_bytes());
        bytes
    }

    /// `None` if nothing is remembered, or nothing that makes sense.
    pub(super) fn from_bytes(bytes: &ElementMemory) -> Option<Self> {
        let single = |at: usize| {
            f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let remembered = Self {
            is_look: bytes[1] & 1 != 0,
            is_sample: bytes[1] & 2 != 0,
            is_put: bytes[1] & 4 != 0,
            depth: bytes[2],
            changes: single(4),
            days: single(8),
            ahead: single(12),
            wait: single(16),
            due_in: single(20),
        };
        let Self {
            changes,
            days,
            ahead,
            wait,
            due_in,
            ..
        } = remembered;
        let makes_sense = changes >= 0.0
            && changes.is_finite()
            && days >= 0.0
            && days.is_finite()
            && ahead.is_finite()
            && !wait.is_nan()
            && !due_in.is_nan();
        (bytes[0] == LAYOUT && makes_sense).then_some(remembered)
    }
}

/// An element that was polled before, as it is taken in again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recalled {
    pub(super) id: ElementId,
    pub(super) element: Element,
    pub(super) polled_at: Time,
    /// Nothing, if nothing that makes sense is.
    pub(super) remembered: Option<Remembered>,
    /// Someone else sees to its polls.
    pub(super) is_watched: bool,
}

/// Numbers one after the other, behind a byte that tells their layout.
pub(crate) fn numbers_to_bytes(numbers: &[f64]) -> Vec<u8> {
    let mut bytes = vec![LAYOUT];
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

/// `None` if it is not so many finite numbers.
pub(crate) fn numbers_from_bytes<const N: usize>(bytes: &[u8]) -> Option<[f64; N]> {
    numbers_from_slice(bytes)?.try_into().ok()
}

/// `None` if it is not finite numbers.
pub(crate) fn numbers_from_slice(bytes: &[u8]) -> Option<Vec<f64>> {
    let (&LAYOUT, bytes) = bytes.split_first()? else {
        return None;
    };
    let numbers = bytes.chunks(8).map(|bytes| {
        let number = f64::from_le_bytes(bytes.try_into().ok()?);
        number.is_finite().then_some(number)
    });
    numbers.collect()
}

/// What is known of an element, read from what a scheduler remembers: for whoever
/// wants to tell, beside a scheduler or without one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recollection {
    /// What is believed of its rate.
    pub belief: Gamma,
    /// How long after its last poll it is due.
    pub due_in: Span,
    /// Why then.
    pub reason: Reason,
}

/// Why an element is due when it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Then a poll is worth its price.
    Worth,
    /// By then it will be looked at again whether a poll is worth its price.
    Look,
    /// Then a poll tells most about how often it changes.
    Sample,
    /// Its last poll failed, and then it is tried again.
    Retry,
    /// It is never due by itself: it comes with queries.
    Watched,
}

impl Recollection {
    /// What is remembered of an element polled at some time, and of the group that
    /// [`depth`](Self::depth) says; `None` if nothing is.
    pub fn new(
        element: &ElementMemory,
        group: Option<&[u8]>,
        polled_at: Time,
        now: Time,
    ) -> Option<Self> {
        let remembered = Remembered::from_bytes(element)?;
        let node = group.and_then(super::learned::NodeMemory::from_bytes);
        let (shape, rate) = node.map_or((1.0, 1.0), |node| (node.shape, node.rate));
        let kept = fading(now.since(polled_at).0 * (std::f64::consts::LN_2 / HALF_LIFE));
        let belief = Gamma {
            shape: shape + f64::from(remembered.changes) * kept,
            per: shape / rate + f64::from(remembered.days) * kept,
        };
        let reason = if remembered.wait == f32::INFINITY && remembered.due_in == f32::INFINITY {
            Reason::Watched
        } else if remembered.is_put {
            Reason::Retry
        } else if remembered.is_sample {
            Reason::Sample
        } else if remembered.is_look {
            Reason::Look
        } else {
            Reason::Worth
        };
        Some(Self {
            belief,
            due_in: Span(f64::from(remembered.due_in).max(0.0)),
            reason,
        })
    }

    /// Whose rate is usual for this element: of the groups that it is in and of which
    /// anything is remembered, the first, counted from the outermost, the second, …; 0
    /// if it is that of all elements.
    pub fn depth(element: &ElementMemory) -> Option<usize> {
        Remembered::from_bytes(element).map(|remembered| usize::from(remembered.depth))
    }

    /// What a poll must be worth to be made, from what is remembered of all elements
    /// together.
    pub fn price(all: &[u8]) -> Option<f64> {
        super::learned::price_in(all).filter(|&price| price > 0.0)
    }

    /// How likely a copy is fresh this long after its last poll.
    ///
    /// ```text
    /// S(t) = (b/(b+t))^a
    /// ```
    pub fn freshness(&self, elapsed: Span) -> f64 {
        let Gamma { shape, per } = self.belief;
        (-shape * (elapsed.0 / per).ln_1p()).exp()
    }

    /// The age to expect of a copy this long after its last poll.
    ///
    /// ```text
    /// A(t) = t − ∫₀ᵗ S,   ∫₀ᵗ S = b((1 + t/b)^(1−a) − 1)/(1 − a)
    /// ```
    pub fn age(&self, elapsed: Span) -> Span {
        let Gamma { shape, per } = self.belief;
        let length = (elapsed.0 / per).ln_1p();
        let power = 1.0 - shape;
        let fresh = if power.abs() < 1e-9 {
            per * length
        } else {
            per * (power * length).exp_m1() / power
        };
        Span((elapsed.0 - fresh).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_of_an_element_is_read_back() {
        let remembered = Remembered {
            is_look: true,
            is_sample: false,
            is_put: true,
            depth: 3,
            changes: 2.5,
            days: 17.25,
            ahead: -3.5,
            wait: 0.25,
            due_in: f32::INFINITY,
        };
        assert_eq!(
            Remembered::from_bytes(&remembered.to_bytes()),
            Some(remembered)
        );
        assert_eq!(Remembered::from_bytes(&[0; 24]), None);
        assert_eq!(Remembered::from_bytes(&[255; 24]), None);
        let mut torn = remembered.to_bytes();
        torn[4..8].copy_from_slice(&f32::NAN.to_le_bytes());
        assert_eq!(Remembered::from_bytes(&torn), None);
    }

    #[test]
    fn numbers_are_read_back_or_not_at_all() {
        let bytes = numbers_to_bytes(&[1.5, -2.0]);
        assert_eq!(numbers_from_bytes::<2>(&bytes), Some([1.5, -2.0]));
        assert_eq!(numbers_from_bytes::<3>(&bytes), None);
        assert_eq!(numbers_from_bytes::<0>(&[]), None);
        assert_eq!(
            numbers_from_bytes::<1>(&numbers_to_bytes(&[f64::NAN])),
            None
        );
    }

    #[test]
    fn freshness_falls_and_age_rises_as_their_integrals_say() {
        for (shape, per) in [(0.6, 3.0), (1.0, 10.0), (20.0, 5.0)] {
            let told = Recollection {
                belief: Gamma::new(shape, per).unwrap(),
                due_in: Span(1.0),
                reason: Reason::Worth,
            };
            // A(t) = ∫ 1 − S, by the midpoint rule.
            let (until, n) = (7.0, 20_000);
            let step = until / f64::from(n);
            let age: f64 = (0..n)
                .map(|i| 1.0 - told.freshness(Span((f64::from(i) + 0.5) * step)))
                .sum::<f64>()
                * step;
            assert!((told.age(Span(until)).0 - age).abs() < 1e-6);
        }
    }
}
