//! What a scheduler remembers, as bytes: kept with every poll, handed back when it
//! starts again, and read by those who only want to know.

use super::learned::{HALF_LIFE, NodeMemory};
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
    /// How many of its parts a change touches, in [steps](size_of_step); 0 if that is not
    /// known.
    pub(super) size: u8,
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
        bytes[3] = self.size;
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
            size: bytes[3],
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

/// Steps to a doubling, and the step that is 1.
const STEPS: f64 = 8.0;
const STEP_OF_ONE: f64 = 81.0;

/// A size that is above 0, to within a twentieth, in a byte that is not 0: from a thousandth
/// to some millions.
pub(super) fn step_of_size(size: f64) -> u8 {
    // The cast cuts off at the ends.
    (STEP_OF_ONE + STEPS * size.log2()).round().max(1.0) as u8
}

/// The size that a step is of.
pub(super) fn size_of_step(step: u8) -> Option<f64> {
    (step > 0).then(|| ((f64::from(step) - STEP_OF_ONE) / STEPS).exp2())
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

/// What is usual in a group at some time, read from what a scheduler remembers of it:
/// what is believed of an element there before it was polled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usual {
    prior: Gamma,
    /// What the group's clock shows now.
    shows: f64,
    now: Time,
}

impl Usual {
    /// What is usual in the last of some groups, each inside the one before it, the
    /// first of them outermost; without any, among all elements. `all` is what is
    /// remembered of all elements together. `None` if what there is makes no sense.
    pub fn new(all: Option<&[u8]>, path: &[&[u8]], now: Time) -> Option<Self> {
        let mut usual = all.and_then(NodeMemory::from_all);
        let mut shows = now.0;
        for group in path {
            let node = NodeMemory::from_bytes(group)?;
            shows = node.shows_at(shows);
            usual = Some(node);
        }
        Some(Self {
            prior: usual?.prior(),
            shows,
            now,
        })
    }
}

/// What is known of an element, read from what a scheduler remembers: for whoever
/// wants to tell, beside a scheduler or without one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recollection {
    /// What is believed of its rate.
    pub belief: Gamma,
    /// What was believed of it before it was polled: what is usual in its group.
    pub prior: Gamma,
    /// How long ago its last poll was on the clock of its group, which the belief is
    /// in.
    pub elapsed: Span,
    /// How many days of time a day of that clock was, since that poll.
    pub pace: f64,
    /// How long after its last poll it is due.
    pub due_in: Span,
    /// Why then.
    pub reason: Reason,
    /// Whether any poll has shown whether it changes: the first only brings the copy.
    pub is_known: bool,
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
    /// What is remembered of an element polled at some time, of what is usual in the
    /// group that [`depth`](Self::depth) says; `None` if nothing is.
    pub fn new(element: &ElementMemory, usual: &Usual, polled_at: Time) -> Option<Self> {
        let remembered = Remembered::from_bytes(element)?;
        let Usual { prior, shows, now } = *usual;
        let passed = now.since(polled_at).0;
        let elapsed = (shows - (polled_at.0 + f64::from(remembered.ahead))).max(0.0);
        let kept = fading(passed * (std::f64::consts::LN_2 / HALF_LIFE));
        let belief = Gamma {
            shape: prior.shape + f64::from(remembered.changes) * kept,
            per: prior.per + f64::from(remembered.days) * kept,
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
            prior,
            elapsed: Span(elapsed),
            pace: if elapsed > 0.0 { passed / elapsed } else { 1.0 },
            due_in: Span(f64::from(remembered.due_in).max(0.0)),
            reason,
            is_known: remembered.changes > 0.0 || remembered.days > 0.0,
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

    /// How likely its copy is fresh.
    ///
    /// ```text
    /// S(t) = (b/(b+t))^a
    /// ```
    pub fn freshness(&self) -> f64 {
        self.belief.quiet(self.elapsed.0)
    }

    /// The age to expect of its copy.
    ///
    /// ```text
    /// A(t) = t − ∫₀ᵗ S,   ∫₀ᵗ S = b((1 + t/b)^(1−a) − 1)/(1 − a)
    /// ```
    pub fn age(&self) -> Span {
        let Gamma { shape, per } = self.belief;
        let length = (self.elapsed.0 / per).ln_1p();
        let power = 1.0 - shape;
        let fresh = if power.abs() < 1e-9 {
            per * length
        } else {
            per * (power * length).exp_m1() / power
        };
        Span((self.elapsed.0 - fresh).max(0.0) * self.pace)
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
            size: 200,
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
    fn a_size_is_remembered_to_a_twentieth() {
        for size in [1e-3, 0.3, 1.0, 7.0, 500.0, 3e6] {
            let recalled = size_of_step(step_of_size(size)).unwrap();
            assert!((recalled / size - 1.0).abs() < 0.05, "{size}: {recalled}");
        }
        assert_eq!(size_of_step(step_of_size(1.0)), Some(1.0));
        assert_eq!((step_of_size(1e-9), step_of_size(1e12)), (1, 255));
        assert_eq!(size_of_step(0), None);
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
            let told = |elapsed| Recollection {
                belief: Gamma::new(shape, per).unwrap(),
                prior: Gamma::new(shape, per).unwrap(),
                elapsed: Span(elapsed),
                pace: 1.0,
                due_in: Span(1.0),
                reason: Reason::Worth,
                is_known: true,
            };
            // A(t) = ∫ 1 − S, by the midpoint rule.
            let (until, n) = (7.0, 20_000);
            let step = until / f64::from(n);
            let age: f64 = (0..n)
                .map(|i| 1.0 - told((f64::from(i) + 0.5) * step).freshness())
                .sum::<f64>()
                * step;
            assert!((told(until).age().0 - age).abs() < 1e-6);
        }
    }
}
