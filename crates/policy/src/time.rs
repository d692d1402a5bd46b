//! Times and spans of time: plain values, real or simulated.

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

/// A moment, as time since a start that the driver chooses: the first day of a
/// simulation, or the epoch of a real clock.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Time(pub(crate) f64);

impl Time {
    /// The start.
    pub const START: Self = Self(0.0);
    /// Later than every moment.
    pub const NEVER: Self = Self(f64::INFINITY);

    /// The moment this many days after the start, or before it if negative.
    ///
    /// # Errors
    ///
    /// If the number is not finite.
    pub fn from_days(days: f64) -> Result<Self, Error> {
        if days.is_finite() {
            Ok(Self(days))
        } else {
            Err(Error::Time(days))
        }
    }

    /// Days since the start.
    pub fn as_days(self) -> f64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is yet to come.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span((self.0 - earlier.0).max(0.0))
    }
}

impl std::ops::Add<Span> for Time {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0 + span.0)
    }
}
