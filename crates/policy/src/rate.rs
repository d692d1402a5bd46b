//! How often the remote changes, and how often we poll it.
//!
//! Two types, so that one is never passed for the other.

use crate::{Error, Span, time::DAYS_PER_YEAR};

/// How often an element changes: λ, changes per time.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Rate(pub(crate) f64);

impl Rate {
    /// The rate of an element that never changes.
    pub const ZERO: Self = Self(0.0);

    /// A rate of this many changes a day.
    ///
    /// # Errors
    /// If the number is negative, infinite or not a number.
    pub fn per_day(changes: f64) -> Result<Self, Error> {
        if changes >= 0.0 && changes.is_finite() {
            // `abs` turns the negative zero, which compares as zero, into zero.
            Ok(Self(changes.abs()))
        } else {
            Err(Error::Rate(changes))
        }
    }

    /// Changes a day.
    pub fn as_per_day(self) -> f64 {
        self.0
    }
}

/// How often we poll an element: f, polls per time.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Frequency(pub(crate) f64);

impl Frequency {
    /// The frequency of an element that is never polled.
    pub const ZERO: Self = Self(0.0);

    /// A frequency of this many polls a day.
    ///
    /// # Errors
    /// If the number is negative, infinite or not a number.
    pub fn per_day(polls: f64) -> Result<Self, Error> {
        if polls >= 0.0 && polls.is_finite() {
            Ok(Self(polls.abs()))
        } else {
            Err(Error::Frequency(polls))
        }
    }

    /// A frequency of this many polls a year of 365.25 days.
    ///
    /// # Errors
    /// If the number is negative, infinite or not a number.
    pub fn per_year(polls: f64) -> Result<Self, Error> {
        Self::per_day(polls / DAYS_PER_YEAR)
    }

    /// Polls a day.
    pub fn as_per_day(self) -> f64 {
        self.0
    }

    /// The time between two polls, 1/f; forever if there are none.
    pub fn interval(self) -> Span {
        Span(1.0 / self.0)
    }
}
