//! Why a poll is made, and what it showed.

use crate::{Error, Span};

/// Why a poll is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// It is due.
    Due,
    /// Its element was drawn at random, to measure freshness.
    Audit,
    /// It is the first of its element.
    First,
    /// Someone asked for it.
    Asked,
}

/// What one poll showed, and how long after the poll before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    pub(crate) elapsed: Span,
    pub(crate) outcome: Outcome,
}

/// What became of an element between two polls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// It is as it was.
    Unchanged,
    /// It changed, once or more often. If it says when it did so last
    /// (Last-Modified), `age` is how long before the poll that was.
    Changed {
        /// From the last change to the poll.
        age: Option<Span>,
    },
}

impl Observation {
    /// What a poll showed this long after the poll before it.
    ///
    /// # Errors
    /// If no time had passed, or endless time.
    pub fn new(elapsed: Span, outcome: Outcome) -> Result<Self, Error> {
        if elapsed > Span::ZERO && elapsed < Span::FOREVER {
            Ok(Self { elapsed, outcome })
        } else {
            Err(Error::Elapsed(elapsed.0))
        }
    }

    /// Time since the poll before.
    pub fn elapsed(&self) -> Span {
        self.elapsed
    }

    /// What became of the element meanwhile.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether a change was seen.
    pub fn is_change(&self) -> bool {
        matches!(self.outcome, Outcome::Changed { .. })
    }
}
