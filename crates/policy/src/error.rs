use thiserror::Error;

/// Why a value was refused at the door.
///
/// Only constructors fail. Once a [`Rate`](crate::Rate), a
/// [`Weight`](crate::Weight) or a [`Budget`](crate::Budget) exists it is sound,
/// and no mathematics on it can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A rate of changes below zero, infinite or not a number.
    #[error("a rate is zero or more, not {0}")]
    Rate(f64),
    /// A frequency of polls below zero, infinite or not a number.
    #[error("a frequency is zero or more, not {0}")]
    Frequency(f64),
    /// A weight below zero, infinite or not a number.
    #[error("a weight is zero or more, not {0}")]
    Weight(f64),
    /// A cost that is not above zero, infinite or not a number.
    #[error("a cost is above zero, not {0}")]
    Cost(f64),
    /// A budget below zero, infinite or not a number.
    #[error("a budget is zero or more, not {0}")]
    Budget(f64),
    /// A span of time below zero, infinite or not a number.
    #[error("a span of time is zero or more, not {0} days")]
    Span(f64),
    /// A moment that is not finite.
    #[error("a time is a finite number of days, not {0}")]
    Time(f64),
    /// A window that is not from one hour of the day to another.
    #[error("a window goes from one hour of the day to another, not from {0} to {1}")]
    Window(f64, f64),
    /// A time between two polls that is not above zero.
    #[error("the time between two polls is above zero, not {0} days")]
    Elapsed(f64),
    /// A freshness outside the unit interval.
    #[error("a freshness lies between 0 and 1, not at {0}")]
    Freshness(f64),
    /// A squared coefficient of variation below zero, infinite or not a number.
    #[error("a spread is zero or more, not {0}")]
    Spread(f64),
    /// A gamma distribution whose shape or rate is not above zero.
    #[error("the shape and the inverse scale of a gamma distribution are above zero, not {0}")]
    Gamma(f64),
    /// A half-life that is not above zero.
    #[error("a half-life is above zero, not {0} days")]
    HalfLife(f64),
    /// A cycle of batches that is not above zero.
    #[error("a cycle is longer than no time, not {0} days")]
    Cycle(f64),
    /// A sample of no element.
    #[error("a sample has one element at least, not {0}")]
    SampleSize(u32),
    /// A sample that is free, or costs more than a poll.
    #[error("a sample costs more than nothing and at most one poll, not {0}")]
    SampleCost(f64),
    /// A confidence that is not between 0 and 1.
    #[error("a confidence lies between 0 and 1, not at {0}")]
    Confidence(f64),
    /// A share outside the unit interval.
    #[error("a share lies between 0 and 1, not at {0}")]
    Share(f64),
    /// A row whose worth is below zero, infinite or not a number.
    #[error("what a row is worth is zero or more, not {0}")]
    Worth(f64),
    /// A count of rows that is below zero, infinite or not a number.
    #[error("a count is zero or more, not {0}")]
    Count(f64),
    /// A scale that is not above zero, infinite or not a number.
    #[error("a scale is above zero, not {0}")]
    Scale(f64),
    /// A server that gives no results, or none on a page.
    #[error("a page has one result at least, and so has an answer")]
    NoResults,
    /// A column whose length differs from that of the rates.
    #[error("{n_given} values for {n_elements} elements")]
    Length {
        /// How many elements there are.
        n_elements: usize,
        /// How many values were given.
        n_given: usize,
    },
    /// More elements than a plan can number.
    #[error("{0} elements are more than a plan can hold (4,294,967,295)")]
    TooMany(usize),
    /// A cap for a group that already has one.
    #[error("group {0} has two caps")]
    CappedTwice(u32),
}
