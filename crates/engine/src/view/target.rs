//! What is to be reached, and what is missed of it.

use serde::Serialize;
use springtide_policy::Span;

use super::{Status, brief, percent};

/// What is to be reached; checked and reported, while the budget rules.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Target {
    /// The share of copies that is to be fresh.
    pub freshness: Option<f64>,
    /// The mean age above which it is said.
    pub warn_after: Option<Span>,
    /// The mean age above which the target is missed.
    pub error_after: Option<Span>,
}

/// What is missed of a target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Miss {
    /// Freshness is this, and not that.
    Freshness(f64, f64),
    /// It is not known yet.
    FreshnessUnknown,
    /// Age is so many seconds, above so many.
    Age(f64, f64),
    /// It is not known yet.
    AgeUnknown,
}

impl Target {
    /// Whether anything is to be reached.
    pub fn is_set(&self) -> bool {
        *self != Self::default()
    }

    /// What is missed now: by what was measured, else by what is predicted.
    pub fn misses(&self, status: &Status) -> Vec<Miss> {
        let mut misses = Vec::new();
        if let Some(wanted) = self.freshness {
            match status.freshness.measured.or(status.freshness.predicted) {
                Some(is) if is >= wanted => {}
                Some(is) => misses.push(Miss::Freshness(is, wanted)),
                None => misses.push(Miss::FreshnessUnknown),
            }
        }
        if let Some(limit) = self.error_after.map(seconds) {
            match age(status) {
                Some(is) if is <= limit => {}
                Some(is) => misses.push(Miss::Age(is, limit)),
                None => misses.push(Miss::AgeUnknown),
            }
        }
        misses
    }

    /// The age, and the one above which a word is due, if it is above that.
    pub fn warning(&self, status: &Status) -> Option<(f64, f64)> {
        let (is, limit) = (age(status)?, self.warn_after.map(seconds)?);
        (is > limit).then_some((is, limit))
    }
}

impl std::fmt::Display for Miss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Freshness(is, wanted) => {
                write!(f, "freshness is {}, not {}", percent(is), percent(wanted))
            }
            Self::FreshnessUnknown => f.write_str("freshness is not known yet"),
            Self::Age(is, limit) => write!(f, "age is {}, above {}", brief(is), brief(limit)),
            Self::AgeUnknown => f.write_str("age is not known yet"),
        }
    }
}

fn seconds(span: Span) -> f64 {
    span.as_days() * 86_400.0
}

fn age(status: &Status) -> Option<f64> {
    status.age_seconds.measured.or(status.age_seconds.predicted)
}
