//! What a page of an answer says of its query.

use crate::ElementId;
use crate::query::Retrieval;

/// A page of the answer to a query, as it came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageRead<'a> {
    /// How many results it had, ours or not.
    pub n_results: u64,
    /// How many results the server says there are in all.
    pub told_total: Option<f64>,
    /// Our rows on it.
    pub returned: &'a [ElementId],
}

/// How many results a query has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NumberOfResults {
    /// In all, if that is known.
    pub total: Option<f64>,
    /// At the least.
    pub at_least: f64,
}

impl PageRead<'_> {
    /// How many results its query has, if this is the page with this number, counted
    /// from 1.
    ///
    /// ```text
    /// seen = (number − 1)·p + results
    /// ```
    ///
    /// A server that tells the total is believed. Else a page that is not full is the
    /// last, so there are as many as were seen; and after a full one there is at least
    /// one more, unless nothing after it may be asked for.
    pub fn n_results_of_query(&self, retrieval: &Retrieval, number: u64) -> NumberOfResults {
        let before = number.saturating_sub(1) as f64 * retrieval.page_size() as f64;
        let n_seen = before + self.n_results as f64;
        let (total, at_least) = match self.told_total {
            Some(total) => (Some(total), n_seen),
            None if !self.is_full(retrieval) => (Some(n_seen), n_seen),
            None if self.is_end(retrieval, number) => (None, n_seen),
            None => (None, n_seen + 1.0),
        };
        NumberOfResults { total, at_least }
    }

    /// Whether it has as many results as a page may have.
    pub fn is_full(&self, retrieval: &Retrieval) -> bool {
        self.n_results >= retrieval.page_size()
    }

    /// Whether there is nothing after it that may be asked for.
    pub fn is_end(&self, retrieval: &Retrieval, number: u64) -> bool {
        let last = self.told_total.unwrap_or(f64::INFINITY);
        let n_before_next = number as f64 * retrieval.page_size() as f64;
        n_before_next >= last.min(retrieval.top() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Method;

    #[track_caller]
    fn check(n_results: u64, told_total: Option<f64>, number: u64, expected: (Option<f64>, f64)) {
        let retrieval = Retrieval::new(10, 30, Method::AllPages).unwrap();
        let page = PageRead {
            n_results,
            told_total,
            returned: &[],
        };
        let NumberOfResults { total, at_least } = page.n_results_of_query(&retrieval, number);
        assert_eq!((total, at_least), expected);
    }

    #[test]
    fn a_page_tells_how_many_results_there_are() {
        // The server says so, and may be wrong.
        check(10, Some(45.0), 1, (Some(45.0), 10.0));
        check(3, Some(45.0), 2, (Some(45.0), 13.0));
        // Nobody says, but the page is not full.
        check(3, None, 2, (Some(13.0), 13.0));
        check(0, None, 1, (Some(0.0), 0.0));
        // There is more, nobody knows how much.
        check(10, None, 2, (None, 21.0));
        // There may be more, but nobody is shown it.
        check(10, None, 3, (None, 30.0));
    }

    #[test]
    fn the_last_page_is_where_the_total_or_the_server_ends() {
        let retrieval = Retrieval::new(10, 30, Method::AllPages).unwrap();
        let page = |told_total| PageRead {
            n_results: 10,
            told_total,
            returned: &[],
        };
        assert!(!page(None).is_end(&retrieval, 2));
        assert!(page(None).is_end(&retrieval, 3));
        assert!(page(Some(20.0)).is_end(&retrieval, 2));
        assert!(!page(Some(21.0)).is_end(&retrieval, 2));
        assert!(page(Some(500.0)).is_end(&retrieval, 3));
    }
}
