//! How many rows of the server a query finds: |R_S(q)|.
//!
//! A server that reports totals tells, but only once asked. Before that there are
//! counts of terms, counts of pairs, or a similar corpus, and the estimates here.

use super::rows::{Lists, Rows, TermId};
use crate::Error;

/// What is known of the server beforehand.
#[derive(Debug, Clone)]
pub struct Statistics {
    /// Not a number where it is not known.
    term_counts: Vec<f64>,
    /// Pairs of terms, the smaller first, with counts; sorted when they are used.
    pairs: Vec<(u32, u32, f64)>,
    server_rows: Option<f64>,
    corpus: Option<(Corpus, Option<f64>)>,
}

impl Statistics {
    /// Nothing is known of the server's rows with the terms of ours.
    pub fn new(rows: &Rows) -> Self {
        Self {
            term_counts: vec![f64::NAN; rows.n_terms()],
            pairs: Vec::new(),
            server_rows: None,
            corpus: None,
        }
    }

    /// So many rows of the server have this term. What is said last holds.
    ///
    /// # Errors
    ///
    /// If the count is below zero, infinite or not a number.
    pub fn count_term(&mut self, term: TermId, count: f64) -> Result<(), Error> {
        self.term_counts[term.0 as usize] = checked(count)?;
        Ok(())
    }

    /// So many rows of the server have both terms. What is said first holds.
    ///
    /// # Errors
    ///
    /// If the count is below zero, infinite or not a number.
    pub fn count_pair(&mut self, one: TermId, other: TermId, count: f64) -> Result<(), Error> {
        let count = checked(count)?;
        if one != other {
            let (a, b) = (one.0.min(other.0), one.0.max(other.0));
            self.pairs.push((a, b, count));
        }
        Ok(())
    }

    /// The server has so many rows in all.
    ///
    /// # Errors
    ///
    /// If the number is below zero, infinite or not a number.
    pub fn set_server_rows(&mut self, n: f64) -> Result<(), Error> {
        self.server_rows = Some(checked(n)?);
        Ok(())
    }

    /// A corpus like the server's rows, `scale` times smaller.
    ///
    /// Without a scale it is estimated: from the terms that are counted both here and
    /// there ([`scale_factor`]). If, besides, the number of the server's rows is
    /// known, the corpus is taken for a sample of them, and a pair of counted terms is
    /// estimated as Li and Church do ([`co_occurrence`]), and by how many of the rows with
    /// either term we hold.
    ///
    /// # Errors
    ///
    /// If the scale is not above zero, infinite or not a number.
    pub fn set_corpus(&mut self, corpus: Corpus, scale: Option<f64>) -> Result<(), Error> {
        if let Some(scale) = scale
            && !(scale > 0.0 && scale.is_finite())
        {
            return Err(Error::Scale(scale));
        }
        self.corpus = Some((corpus, scale));
        Ok(())
    }

    /// Estimates for queries about these rows.
    pub fn estimates(self, rows: &Rows) -> Estimates {
        let n_terms = rows.n_terms();
        let mut pairs = self.pairs;
        pairs.sort_by_key(|&(a, b, _)| (a, b));
        pairs.dedup_by(|later, first| (later.0, later.1) == (first.0, first.1));
        let mut pair_ends = vec![0; n_terms];
        for (a, ..) in &pairs {
            pair_ends[*a as usize] += 1;
        }
        let mut end = 0;
        for each in &mut pair_ends {
            end += *each;
            *each = end;
        }
        let corpus = self.corpus.map(|(corpus, scale)| {
            let is_given = scale.is_some();
            let both = (0..n_terms as u32).filter_map(|term| {
                let count = self.term_counts[term as usize];
                let n = corpus.with_term(term).len();
                (!count.is_nan() && n > 0).then_some((count, n as f64))
            });
            let scale = scale.or_else(|| scale_factor(both)).unwrap_or(1.0);
            Scaled {
                corpus,
                scale,
                is_sample: !is_given && self.server_rows.is_some(),
            }
        });
        let least = |term: u32| rows.with_term(term).len() as f64;
        let base = (0..n_terms as u32).map(|term| {
            let given = self.term_counts[term as usize];
            let count = match &corpus {
                _ if !given.is_nan() => given,
                Some(scaled) => scaled.scale * scaled.corpus.with_term(term).len() as f64,
                None => 0.0,
            };
            count.max(least(term))
        });
        let base = base.collect();
        Estimates {
            is_given: self.term_counts.iter().map(|n| !n.is_nan()).collect(),
            base,
            n_local: (0..n_terms as u32).map(least).collect(),
            others: pairs.iter().map(|&(_, b, count)| (b, count)).collect(),
            pair_ends,
            server_rows: self.server_rows,
            corpus,
        }
    }
}

fn checked(count: f64) -> Result<f64, Error> {
    if count.is_finite() && count >= 0.0 {
        Ok(count)
    } else {
        Err(Error::Count(count))
    }
}

/// Rows of something like the server, by the terms that our rows have.
#[derive(Debug, Clone)]
pub struct Corpus {
    by_row: Lists,
    by_term: Lists,
    n_terms: usize,
}

impl Corpus {
    /// The terms of each of its rows. Those that none of our rows has are left out by
    /// the caller.
    pub fn new<T>(rows: &Rows, corpus: impl IntoIterator<Item = T>) -> Self
    where
        T: IntoIterator<Item = TermId>,
    {
        let mut by_row = Lists::default();
        for terms in corpus {
            let mut ids: Vec<u32> = terms.into_iter().map(|term| term.0).collect();
            ids.sort_unstable();
            ids.dedup();
            by_row.push(&ids);
        }
        Self {
            by_term: by_row.inverted(rows.n_terms()),
            by_row,
            n_terms: rows.n_terms(),
        }
    }

    pub(super) fn with_term(&self, term: u32) -> &[u32] {
        debug_assert!((term as usize) < self.n_terms, "a term of our rows");
        self.by_term.get(term as usize)
    }

    pub(super) fn terms_of(&self, row: u32) -> &[u32] {
        self.by_row.get(row as usize)
    }

    /// How many rows have all these terms.
    fn count(&self, terms: &[u32]) -> usize {
        let Some((first, rest)) = terms.split_first() else {
            return self.by_row.len();
        };
        let has_rest = |row: &&u32| {
            let row = self.terms_of(**row);
            rest.iter().all(|term| row.binary_search(term).is_ok())
        };
        self.with_term(*first).iter().filter(has_rest).count()
    }
}

#[derive(Debug, Clone)]
struct Scaled {
    corpus: Corpus,
    scale: f64,
    is_sample: bool,
}

/// Estimates of how many rows of the server a query finds.
#[derive(Debug, Clone)]
pub struct Estimates {
    is_given: Vec<bool>,
    /// Of each term alone, never below what we hold of it.
    base: Vec<f64>,
    /// What we hold of it.
    n_local: Vec<f64>,
    /// For each term, the later terms that it is counted with.
    others: Vec<(u32, f64)>,
    pair_ends: Vec<usize>,
    server_rows: Option<f64>,
    corpus: Option<Scaled>,
}

impl Estimates {
    /// How many rows of the server have all these terms (sorted), of which we hold
    /// `n_local`.
    ///
    /// What was counted counts. Else the corpus, if there is one, scaled. Else, with
    /// the server's size known, independence, corrected by the pairs that were
    /// counted and capped at the rarest part; with n(t) rows for a term, n(s, t) for
    /// a pair and N in all,
    ///
    /// ```text
    /// N ∏ n(t)/N ∏ n(s, t)·N / (n(s)·n(t))
    /// ```
    ///
    /// Else the count of the rarest part. It is never below what we hold.
    pub(super) fn n_server(&self, terms: &[u32], n_local: usize) -> f64 {
        let in_corpus = self.corpus.as_ref().map(|scaled| match terms {
            // A single term has been looked up already.
            [] | [_] => 0,
            _ => scaled.corpus.count(terms),
        });
        self.with_corpus_count(terms, n_local, in_corpus)
    }

    /// The same where it is known how many rows of the corpus have the terms.
    pub(super) fn with_corpus_count(
        &self,
        terms: &[u32],
        n_local: usize,
        in_corpus: Option<usize>,
    ) -> f64 {
        let estimate = match *terms {
            [] => self.server_rows.unwrap_or(0.0),
            [term] => self.base[term as usize],
            [a, b] => match self.pair(a, b) {
                Some(count) => count,
                None => self.uncounted(terms, n_local, in_corpus),
            },
            _ => self.uncounted(terms, n_local, in_corpus),
        };
        estimate.max(n_local as f64)
    }

    /// Whether the rows of the server with all these terms were counted.
    pub(super) fn is_counted(&self, terms: &[u32]) -> bool {
        match *terms {
            [term] => self.is_given[term as usize],
            [a, b] => self.pair(a, b).is_some(),
            _ => false,
        }
    }

    /// The corpus, if there is one to look pairs up in.
    pub(super) fn corpus(&self) -> Option<&Corpus> {
        self.corpus.as_ref().map(|scaled| &scaled.corpus)
    }

    fn pair(&self, a: u32, b: u32) -> Option<f64> {
        let start = match a {
            0 => 0,
            _ => self.pair_ends[a as usize - 1],
        };
        let others = &self.others[start..self.pair_ends[a as usize]];
        let at = others.binary_search_by_key(&b, |(other, _)| *other).ok()?;
        Some(others[at].1)
    }

    fn uncounted(&self, terms: &[u32], n_local: usize, in_corpus: Option<usize>) -> f64 {
        if let (Some(scaled), Some(n)) = (&self.corpus, in_corpus) {
            return match (terms, self.server_rows) {
                (&[a, b], Some(server_rows))
                    if scaled.is_sample
                        && self.is_given[a as usize]
                        && self.is_given[b as usize] =>
                {
                    let sample = Sample::new(
                        n,
                        scaled.corpus.with_term(a).len(),
                        scaled.corpus.with_term(b).len(),
                        scaled.corpus.by_row.len(),
                    );
                    let both = co_occurrence(
                        sample,
                        self.base[a as usize],
                        self.base[b as usize],
                        server_rows,
                    );
                    self.with_ours(a, b, n_local as f64, both, scaled.scale)
                }
                _ => scaled.scale * n as f64,
            };
        }
        let counts = terms.iter().map(|&term| self.base[term as usize]);
        let mut rarest = counts.clone().fold(f64::INFINITY, f64::min);
        let mut expected = self
            .server_rows
            .map(|n| counts.fold(n, |product, count| product * (count / n)));
        for (place, &a) in terms.iter().enumerate() {
            for &b in &terms[place + 1..] {
                let Some(count) = self.pair(a, b) else {
                    continue;
                };
                rarest = rarest.min(count);
                if let (Some(expected), Some(n)) = (&mut expected, self.server_rows) {
                    *expected *= count * n / (self.base[a as usize] * self.base[b as usize]);
                }
            }
        }
        match expected {
            // No rows of the server at all, says the caller, who holds some: no help.
            Some(expected) if !expected.is_nan() => expected.min(rarest),
            _ => rarest,
        }
    }

    /// How many rows of the server have both terms, of which we hold `n_local`, where a
    /// sample says `both`.
    ///
    /// A sample shows little of a pair that a dozen rows have. But our own rows tell
    /// something as well: if the server's other rows with a term had the other one as
    /// often as ours, there would be m of others; of both terms the one counts of which
    /// we hold more. With x by the sample, which is s times smaller, it is
    ///
    /// ```text
    /// n_local + (c + x/s) / (c/m + 1/s),  m = n_local·(min n(t)/l(t) − 1)
    /// ```
    ///
    /// the mean of a Gamma distribution that expects m with the weight of c rows seen,
    /// once x/s rows have been seen.
    fn with_ours(&self, a: u32, b: u32, n_local: f64, both: f64, scale: f64) -> f64 {
        /// What our own rows count for: on made-up papers one and four are as good.
        const ROWS_SEEN: f64 = 2.0;
        if n_local == 0.0 {
            return both;
        }
        let of_ours = |term: u32| self.base[term as usize] / self.n_local[term as usize];
        let expected = n_local * (of_ours(a).min(of_ours(b)) - 1.0);
        // All rows with one of the terms are ours.
        if expected <= 0.0 {
            return n_local;
        }
        let seen = (both - n_local).max(0.0) / scale;
        n_local + (ROWS_SEEN + seen) / (ROWS_SEEN / expected + 1.0 / scale)
    }
}

/// How many times larger a server is than a similar corpus, from a few queries: how
/// many rows each found on the server, and how many in the corpus.
///
/// The ratio of the sums, which is most likely if counts are Poisson with a common
/// ratio (content paper, section 4.1: c = |R_S| / |R_DBLP|). `None` if the corpus
/// has nothing of it.
pub fn scale_factor(counts: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let (mut server, mut corpus) = (0.0, 0.0);
    for (in_server, in_corpus) in counts {
        server += in_server;
        corpus += in_corpus;
    }
    (server > 0.0 && corpus > 0.0).then(|| server / corpus)
}

/// How often two terms are together, and how often not, in a sample of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Rows with both.
    pub both: f64,
    /// Rows with the first alone.
    pub first: f64,
    /// Rows with the second alone.
    pub second: f64,
    /// Rows with neither.
    pub neither: f64,
}

impl Sample {
    fn new(both: usize, first: usize, second: usize, all: usize) -> Self {
        let neither = (all + both).saturating_sub(first + second);
        Self {
            both: both as f64,
            first: (first - both) as f64,
            second: (second - both) as f64,
            neither: neither as f64,
        }
    }
}

/// How many of all rows have two terms together, from a sample of them and from how
/// many have each (Li and Church, *Using sketches to estimate associations*, 2005).
///
/// The most likely number: where, with f and g rows for the terms and D in all,
///
/// ```text
/// both/a − first/(f − a) − second/(g − a) + neither/(D − f − g + a) = 0
/// ```
///
/// A sample that shows nothing of either term leaves independence, fg/D.
pub fn co_occurrence(sample: Sample, first: f64, second: f64, server_rows: f64) -> f64 {
    let Sample {
        both,
        first: first_alone,
        second: second_alone,
        neither,
    } = sample;
    let low = (first + second - server_rows).max(0.0);
    let high = first.min(second);
    if high <= low {
        return high;
    }
    if both + first_alone + second_alone == 0.0 {
        return (first * second / server_rows).clamp(low, high);
    }
    // The log-likelihood is concave, so its slope falls: bisection finds where it is
    // zero, if only at an end.
    let slope = |a: f64| {
        let part = |n: f64, of: f64| if n == 0.0 { 0.0 } else { n / of };
        part(both, a) - part(first_alone, first - a) - part(second_alone, second - a)
            + part(neither, server_rows - first - second + a)
    };
    let (mut from, mut to) = (low, high);
    for _ in 0..80 {
        let middle = (from + to) / 2.0;
        if slope(middle) > 0.0 {
            from = middle;
        } else {
            to = middle;
        }
    }
    (from + to) / 2.0
}

#[cfg(test)]
mod tests {
    use super::super::rows::RowsBuilder;
    use super::super::terms::{Split, StopWords, terms_in};
    use super::*;

    fn rows(cells: &[&str]) -> Rows {
        let mut builder = RowsBuilder::new();
        for cell in cells {
            let terms = terms_in(cell, Split::Words, &StopWords::none());
            builder.add(terms, 1.0).unwrap();
        }
        builder.build()
    }

    #[track_caller]
    fn close(computed: f64, expected: f64) {
        assert!(
            (computed / expected - 1.0).abs() < 1e-9,
            "{computed} {expected}"
        );
    }

    #[test]
    fn counts_count_and_never_below_what_we_hold() {
        let rows = rows(&["a b c", "a b", "a"]);
        let [a, b, c] = [0, 1, 2].map(TermId);
        let mut statistics = Statistics::new(&rows);
        statistics.count_term(a, 100.0).unwrap();
        statistics.count_term(b, 1.0).unwrap();
        statistics.count_pair(c, a, 7.0).unwrap();
        let estimates = statistics.clone().estimates(&rows);
        assert_eq!(estimates.n_server(&[0], 3), 100.0);
        assert_eq!(estimates.n_server(&[1], 2), 2.0);
        // Without a count, as many as we hold.
        assert_eq!(estimates.n_server(&[2], 1), 1.0);
        assert_eq!(estimates.n_server(&[0, 2], 1), 7.0);
        // The rarer term, as the size of the server is not known.
        assert_eq!(estimates.n_server(&[0, 1], 2), 2.0);
        statistics.set_server_rows(1000.0).unwrap();
        statistics.count_term(b, 50.0).unwrap();
        let estimates = statistics.estimates(&rows);
        close(estimates.n_server(&[0, 1], 2), 5.0);
        close(estimates.n_server(&[0, 1], 6), 6.0);
    }

    #[test]
    fn three_terms_take_what_is_known_of_their_pairs() {
        let rows = rows(&["a b c"]);
        let [a, b, c] = [0, 1, 2].map(TermId);
        let mut statistics = Statistics::new(&rows);
        for (term, count) in [(a, 100.0), (b, 50.0), (c, 200.0)] {
            statistics.count_term(term, count).unwrap();
        }
        statistics.count_pair(a, b, 40.0).unwrap();
        let estimates = statistics.clone().estimates(&rows);
        assert_eq!(estimates.n_server(&[0, 1, 2], 1), 40.0);
        statistics.set_server_rows(1000.0).unwrap();
        let estimates = statistics.estimates(&rows);
        // A fifth of the forty.
        close(estimates.n_server(&[0, 1, 2], 1), 8.0);
    }

    #[test]
    fn a_corpus_is_scaled() {
        let rows = rows(&["a b", "b"]);
        let [a, b] = [0, 1].map(TermId);
        let corpus = || {
            let both = std::iter::repeat_n(vec![a, b], 3);
            Corpus::new(&rows, both.chain(std::iter::repeat_n(vec![b], 7)))
        };
        let mut statistics = Statistics::new(&rows);
        statistics.set_corpus(corpus(), Some(4.6)).unwrap();
        let estimates = statistics.estimates(&rows);
        close(estimates.n_server(&[0], 1), 13.8);
        close(estimates.n_server(&[0, 1], 1), 13.8);
        close(estimates.n_server(&[1], 2), 46.0);
        // From one term that is counted on both sides.
        let mut statistics = Statistics::new(&rows);
        statistics.set_corpus(corpus(), None).unwrap();
        statistics.count_term(b, 20.0).unwrap();
        let estimates = statistics.clone().estimates(&rows);
        close(estimates.n_server(&[0], 1), 6.0);
        // Known margins and size: three of ten in the sample, all of a's.
        statistics.count_term(a, 5.0).unwrap();
        statistics.set_server_rows(30.0).unwrap();
        let estimates = statistics.estimates(&rows);
        let both = estimates.n_server(&[0, 1], 1);
        assert!((4.0..=5.0).contains(&both), "{both}");
    }

    #[test]
    fn our_own_rows_tell_of_a_pair_that_the_sample_has_not() {
        let rows = rows(&["a b", "a b", "a", "c b"]);
        let estimates = |count_of_a: f64, in_sample: &[&[u32]]| {
            let mut statistics = Statistics::new(&rows);
            for (term, count) in [(0, count_of_a), (1, 400.0), (2, 1000.0)] {
                statistics.count_term(TermId(term), count).unwrap();
            }
            statistics.set_server_rows(10_000.0).unwrap();
            let sample = in_sample.iter().map(|row| row.iter().map(|&t| TermId(t)));
            let corpus = Corpus::new(&rows, sample);
            statistics.set_corpus(corpus, None).unwrap();
            statistics.estimates(&rows)
        };
        // We hold a third of a's rows, of which two have b: four of others, if those are
        // alike. A sample of a thousandth says little.
        let nothing: &[&[u32]] = &[&[2]];
        let both = estimates(9.0, nothing).n_server(&[0, 1], 2);
        close(both, 2.0 + 2.0 / (2.0 / 4.0 + 1.0 / 1000.0));
        // All of a's rows are ours.
        assert_eq!(estimates(3.0, nothing).n_server(&[0, 1], 2), 2.0);
        // A large sample is believed: there is no other.
        let much = [vec![&[0][..]; 9], vec![&[1][..]; 400]].concat();
        let both = estimates(9.0, &much).n_server(&[0, 1], 2);
        assert!((2.0..3.5).contains(&both), "{both}");
    }

    #[test]
    fn the_most_likely_co_occurrence_is_where_the_slope_is_zero() {
        // A sample in proportion says what it shows.
        let sample = Sample {
            both: 2.0,
            first: 8.0,
            second: 18.0,
            neither: 72.0,
        };
        close(co_occurrence(sample, 100.0, 200.0, 1000.0), 20.0);
        // Known margins correct a sample with too many of the first term: by a grid
        // search on the likelihood.
        let sample = Sample {
            both: 4.0,
            first: 16.0,
            second: 16.0,
            neither: 64.0,
        };
        let found = co_occurrence(sample, 100.0, 200.0, 1000.0);
        let likelihood = |a: f64| {
            4.0 * a.ln()
                + 16.0 * (100.0 - a).ln()
                + 16.0 * (200.0 - a).ln()
                + 64.0 * (700.0 + a).ln()
        };
        for step in 1..1000 {
            let a = f64::from(step) / 10.0;
            assert!(likelihood(found) >= likelihood(a) - 1e-9, "{found} {a}");
        }
        let nothing = Sample {
            both: 0.0,
            first: 0.0,
            second: 0.0,
            neither: 10.0,
        };
        close(co_occurrence(nothing, 100.0, 200.0, 1000.0), 20.0);
        let none_together = Sample {
            both: 0.0,
            first: 5.0,
            second: 5.0,
            neither: 10.0,
        };
        assert!(co_occurrence(none_together, 100.0, 200.0, 1000.0) < 1e-9);
    }

    #[test]
    fn a_scale_is_the_ratio_of_sums() {
        assert_eq!(scale_factor([(46.0, 10.0), (0.0, 0.0)]), Some(4.6));
        assert_eq!(scale_factor([(46.0, 0.0)]), None);
        assert_eq!(scale_factor([]), None);
    }
}
