//! Spans of time: plain values, real or simulated.

use crate::Error;

/// Days in a year, where a year is a unit: the Julian year.
pub(crate) const DAYS_PER_YEAR: f64 = 365.25;

/// A length of time, zero or more.
///
/// Only results may be endless ([`Span::FOREVER`]): the age of a copy that is
/// never polled again. What comes in from outside is finite.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Span(pub(crate) f64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0.0);
    /// Longer than any other span.
    pub const FOREVER: Self = Self(f64::INFINITY);

    /// A span of this many days.
    ///
    /// # Errors
    /// If the number is negative, infinite or not a number.
    pub fn days(days: f64) -> Result<Self, Error> {
        if days >= 0.0 && days.is_finite() {
            Ok(Self(days.abs()))
        } else {
            Err(Error::Span(days))
        }
    }

    /// The span in days.
    pub fn as_days(self) -> f64 {
        self.0
    }
}
