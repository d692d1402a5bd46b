//! What is known of an element before any poll: how much its freshness
//! matters, what a poll of it costs, and which limit it falls under.

use std::num::NonZeroU32;

use crate::Error;

/// How much an element's freshness matters, relative to others.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Weight(pub(crate) f64);

impl Weight {
    /// The weight of an element about which nothing was said.
    pub const ONE: Self = Self(1.0);

    /// A weight, zero or more.
    ///
    /// # Errors
    /// If the number is negative, infinite or not a number.
    pub fn new(weight: f64) -> Result<Self, Error> {
        if weight >= 0.0 && weight.is_finite() {
            Ok(Self(weight.abs()))
        } else {
            Err(Error::Weight(weight))
        }
    }

    /// The weight as a number.
    pub fn as_f64(self) -> f64 {
        self.0
    }
}

/// What one poll of an element spends of the budget.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Cost(pub(crate) f64);

impl Cost {
    /// The cost of a poll about which nothing was said.
    pub const ONE: Self = Self(1.0);

    /// A cost, above zero.
    ///
    /// # Errors
    /// If the number is not above zero, infinite or not a number.
    pub fn new(cost: f64) -> Result<Self, Error> {
        if cost > 0.0 && cost.is_finite() {
            Ok(Self(cost))
        } else {
            Err(Error::Cost(cost))
        }
    }

    /// The cost as a number.
    pub fn as_f64(self) -> f64 {
        self.0
    }
}

/// The number of a group: of elements that share a limit, such as a host.
///
/// A number that is never zero inside, so that "no group" costs no memory: with a
/// hundred million elements that is half a gigabyte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(NonZeroU32);

impl GroupId {
    /// Group number so-and-so; `None` for 2³² − 1, which is one too many.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::MIN.checked_add(number).map(Self)
    }

    /// The number it was made from.
    pub fn number(self) -> u32 {
        self.0.get() - 1
    }
}
