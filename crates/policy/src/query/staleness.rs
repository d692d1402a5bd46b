//! How wrong a copy is: content staleness.
//!
//! The content paper calls it *content freshness*, though zero is best.

use crate::freshness::staleness_after;
use crate::{Rate, Span, Time, Weight};

/// How far two versions of a cell are apart: δ of the content paper, section 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// |a − b| of two numbers.
    Absolute,
    /// |a − b| / max(|a|, |b|) of two numbers.
    Relative,
    /// One if they differ at all.
    Any,
}

impl Difference {
    /// The difference between our version and the remote one.
    ///
    /// Cells that hold no numbers differ by one or not at all.
    pub fn between(self, ours: &str, theirs: &str) -> f64 {
        let number = |cell: &str| {
            let number: Option<f64> = cell.trim().parse().ok();
            number.filter(|number| number.is_finite())
        };
        let any = f64::from(u8::from(ours != theirs));
        match (self, number(ours), number(theirs)) {
            (Self::Absolute, Some(a), Some(b)) => (a - b).abs(),
            (Self::Relative, Some(a), Some(b)) => match a.abs().max(b.abs()) {
                0.0 => 0.0,
                // Each divided for itself, so that huge numbers do not overflow.
                most => (a / most - b / most).abs(),
            },
            _ => any,
        }
    }
}

/// How a row is taken to change, to estimate how wrong our copy is by now: F(r; t).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum UpdateModel {
    /// By one, every so often (content paper, section 3.1).
    Steady(Span),
    /// As a Poisson process; what counts is the sum of the ages of the changes that
    /// were missed (section 4.2).
    Poisson(Rate),
}

impl UpdateModel {
    /// How wrong a copy is this long after its last poll, on average.
    ///
    /// ```text
    /// steady   t/ω
    /// Poisson  λt²/2
    /// ```
    pub fn expected(self, elapsed: Span) -> f64 {
        match self {
            Self::Steady(every) if every == Span::FOREVER || elapsed == Span::ZERO => 0.0,
            Self::Steady(every) => elapsed.0 / every.0,
            Self::Poisson(rate) => staleness_after(rate, elapsed),
        }
    }
}

/// The summed ages of the changes that a copy has missed: F(e; t) of the content
/// paper, section 4.2.
///
/// ```text
/// Σ t − t(i)   over the changes after the last poll and up to now
/// ```
pub fn missed_ages(changes: &[Time], polled_at: Time, now: Time) -> f64 {
    let missed = changes
        .iter()
        .filter(|change| change.0 > polled_at.0 && change.0 <= now.0);
    missed.map(|change| now.0 - change.0).sum()
}

/// How wrong all copies are: the mean of weighted staleness (content paper,
/// equations 1 and 3).
///
/// ```text
/// F(L; t) = 1/|L| Σ w(r)·F(r; t)
/// ```
///
/// Not a number if there are no copies.
pub fn content_staleness(copies: impl IntoIterator<Item = (Weight, f64)>) -> f64 {
    let (mut sum, mut n) = (0.0, 0_u32);
    for (weight, staleness) in copies {
        sum += weight.0 * staleness;
        n += 1;
    }
    sum / f64::from(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_of_numbers_where_there_are_numbers() {
        assert_eq!(Difference::Absolute.between("10", "7.5"), 2.5);
        assert_eq!(Difference::Relative.between("10", "5"), 0.5);
        assert_eq!(Difference::Relative.between("0", "0.0"), 0.0);
        assert_eq!(Difference::Relative.between("1e308", "-1e308"), 2.0);
        assert_eq!(Difference::Any.between("10", "10.0"), 1.0);
        assert_eq!(Difference::Absolute.between("in stock", "sold out"), 1.0);
        assert_eq!(Difference::Relative.between("sold out", "sold out"), 0.0);
    }

    #[test]
    fn a_steady_citation_comes_every_so_often() {
        let span = |days| Span::days(days).unwrap();
        let steady = UpdateModel::Steady(span(5.0));
        assert_eq!(steady.expected(span(20.0)), 4.0);
        assert_eq!(UpdateModel::Steady(Span::FOREVER).expected(span(1.0)), 0.0);
        let poisson = UpdateModel::Poisson(Rate::per_day(3.0).unwrap());
        assert_eq!(poisson.expected(span(2.0)), 6.0);
    }

    #[test]
    fn table_2_of_the_content_paper() {
        // Changes at 5, 6 and 7, the last poll before them.
        let at = |days| Time::from_days(days).unwrap();
        let changes = [1.0, 5.0, 6.0, 7.0].map(at);
        let ages = [6.0, 7.0, 8.0].map(|now| missed_ages(&changes, at(4.0), at(now)));
        assert_eq!(ages, [1.0, 3.0, 6.0]);
    }

    #[test]
    fn all_copies_are_averaged() {
        let weight = |weight| Weight::new(weight).unwrap();
        let copies = [(weight(2.0), 3.0), (weight(1.0), 0.0)];
        assert_eq!(content_staleness(copies), 3.0);
        assert!(content_staleness([]).is_nan());
    }
}
