//! A row of ours: where we stand with it, and what it is worth beside others.

use crate::{ElementId, Time, Weight};

/// A row, as it is known before anything is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownRow {
    /// Its number among all elements.
    pub element: ElementId,
    /// Where we stand with it.
    pub standing: RowState,
    /// When it was last known to be fresh, or else became ours.
    pub since: Time,
    /// What its source and the list of our rows give it.
    pub weight: Weight,
    /// What its own fields say it counts, where staleness is weighed by one of them.
    pub staleness_weight: Weight,
}

/// Where we stand with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// It was never had.
    New,
    /// It was never had, no query brings it, and there is no request by id. It is not
    /// asked for any more, but may still come with others.
    Unreachable,
    /// We hold a copy.
    Held,
    /// It is gone, or we are kept from it.
    Out,
}

impl RowState {
    /// Whether it was never had.
    pub(super) fn is_never_had(self) -> bool {
        matches!(self, Self::New | Self::Unreachable)
    }
}

/// What a poll of a row found that was not so before.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RowChange {
    /// How far the new version is from the one before, if that can be said.
    pub difference: Option<f64>,
    /// What its own fields say it counts now, if they do.
    pub staleness_weight: Option<Weight>,
    /// Whether queries would be made of other terms now.
    pub has_new_terms: bool,
}

/// With a request by id, a row is left to it after so many [misses](Row::n_misses).
pub(super) const MOST_MISSES_WITH_ID: f64 = 1.5;
/// Without one, queries are all there is, so they are tried for longer.
const MOST_MISSES_WITHOUT_ID: f64 = 4.0;

/// A row at work.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) element: ElementId,
    pub(super) standing: RowState,
    /// When it was last known to be fresh, or else became ours.
    pub(super) since: Time,
    pub(super) weight: Weight,
    pub(super) staleness_weight: Weight,
    /// How far its versions were apart.
    pub(super) differences: Differences,
    /// It is not asked for by its id before then.
    pub(super) not_before: Option<Time>,
    /// Answers that should have brought it and did not, since it last came. An answer
    /// counts as a part of one, by how surely it should have.
    pub(super) n_misses: f64,
}

impl Row {
    pub(super) fn new(known: KnownRow) -> Self {
        Self {
            element: known.element,
            standing: known.standing,
            since: known.since,
            weight: known.weight,
            staleness_weight: known.staleness_weight,
            differences: Differences::default(),
            not_before: None,
            n_misses: 0.0,
        }
    }

    /// Whether it is new, and queries may yet bring it.
    pub(super) fn may_come_by_query(&self, has_by_id: bool) -> bool {
        let most = match has_by_id {
            true => MOST_MISSES_WITH_ID,
            false => MOST_MISSES_WITHOUT_ID,
        };
        self.standing == RowState::New && self.n_misses < most
    }

    /// Whether nothing keeps it from being asked for by its id now.
    pub(super) fn is_free(&self, now: Time) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }
}

/// Differences between versions: their sum, and how many there were.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Differences {
    sum: f64,
    n: f64,
}

/// How many differences as usual a row is taken to have had before those that were seen
/// of it. With two, a first difference moves its mean by a third of the way.
const USUAL_DIFFERENCES: f64 = 2.0;
/// The mean difference while nothing was seen of any row: a change is a change.
const UNKNOWN_DIFFERENCE: f64 = 1.0;

impl Differences {
    /// Takes in a difference. One that cannot be told is none, and neither is zero.
    pub fn add(&mut self, difference: Option<f64>) {
        if let Some(difference) = difference.filter(|d| d.is_finite() && *d > 0.0) {
            self.sum += difference;
            self.n += 1.0;
        }
    }

    /// Takes in those of others.
    pub fn add_all(&mut self, others: Self) {
        self.sum += others.sum;
        self.n += others.n;
    }

    /// The mean of those of all rows.
    pub(super) fn mean(self) -> f64 {
        match self.n {
            0.0 => UNKNOWN_DIFFERENCE,
            n => self.sum / n,
        }
    }

    /// How far a change of a row is from what was there, on average: its own mean, drawn
    /// towards the mean d of all rows as if two more had been as usual.
    ///
    /// ```text
    /// (Σ dᵢ + 2·d) / (n + 2)
    /// ```
    ///
    /// A row of which nothing was seen moves as far as others do.
    pub(super) fn shrunk_mean(self, usual: f64) -> f64 {
        (self.sum + USUAL_DIFFERENCES * usual) / (self.n + USUAL_DIFFERENCES)
    }
}
