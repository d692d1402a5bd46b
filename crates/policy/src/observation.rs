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
    /// So many of its [parts](crate::Element::parts) changed, or came, or went.
    Parts {
        /// How many.
        n_changed: u32,
    },
}

impl Outcome {
    /// Whether it, or a part of it, changed.
    pub fn is_change(self) -> bool {
        match self {
            Self::Unchanged => false,
            Self::Changed { .. } => true,
            Self::Parts { n_changed } => n_changed > 0,
        }
    }

    /// The same for who does not care about parts.
    pub(crate) fn of_whole(self) -> Self {
        match self {
            Self::Parts { n_changed: 0 } => Self::Unchanged,
            Self::Parts { .. } => Self::Changed { age: None },
            _ => self,
        }
    }
}

impl Observation {
    /// What a poll showed this long after the poll before it.
    ///
    /// # Errors
    /// If no time had passed, or endless time.
    pub fn new(elapsed: Span, outcome: Outcome) -> Result<Self, Error> {
        if elapsed > Span::ZERO && elapsed < Span::FOREVER {
            let outcome = outcome.of_whole();
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
        self.outcome.is_change()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_a_change_if_some_changed() {
        let parts = |n_changed| Observation::new(Span(1.0), Outcome::Parts { n_changed }).unwrap();
        assert!(!parts(0).is_change() && parts(1).is_change());
        assert_eq!(parts(0).outcome(), Outcome::Unchanged);
        assert_eq!(parts(7).outcome(), Outcome::Changed { age: None });
    }
}
