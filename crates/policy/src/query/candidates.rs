//! Which queries there are: terms, and terms together, as far as they can matter.

use std::cmp::Ordering;

use crate::parallel::*;

use super::rows::{Lists, Rows, TermId};
use super::server::{Corpus, Estimates};
use crate::Error;

/// How a server answers, and how much of it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retrieval {
    page_size: u64,
    top: u64,
    method: Method,
}

/// How many pages of an answer are read (content paper, section 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// All of them (Method 1).
    #[default]
    AllPages,
    /// The first (Method 2).
    FirstPage,
}

impl Retrieval {
    /// Ten results a page, and no more than a thousand in all, is what search boxes
    /// commonly give.
    pub const USUAL: Self = Self {
        page_size: 10,
        top: 1000,
        method: Method::AllPages,
    };

    /// A server that gives so many results a page, and only the `top` first of all.
    ///
    /// # Errors
    ///
    /// If a page has no results, or nothing is given at all.
    pub fn new(page_size: u64, top: u64, method: Method) -> Result<Self, Error> {
        if page_size == 0 || top == 0 {
            return Err(Error::NoResults);
        }
        Ok(Self {
            page_size,
            top,
            method,
        })
    }

    /// How many requests a query takes that finds so many rows on the server.
    ///
    /// ```text
    /// N(q) = ⌈min(|R_S(q)|, K) / p⌉ for all pages, 1 for the first page
    /// ```
    ///
    /// The content paper (section 5.1) leaves out that pages are whole and that a
    /// server gives K results at most.
    pub fn n_requests(&self, n_server: f64) -> u64 {
        match self.method {
            Method::FirstPage => 1,
            Method::AllPages => {
                let results = n_server.min(self.top as f64);
                ((results / self.page_size as f64).ceil() as u64).max(1)
            }
        }
    }

    /// How many requests a query takes on average that finds so many rows of ours and, by
    /// a guess, so many on the server in all: as if those of others were Poisson.
    ///
    /// A query that is guessed to fill a page just so takes two as often as one.
    pub(super) fn mean_requests(&self, n_local: usize, n_server: f64) -> f64 {
        /// With so many others a page more or less makes no difference.
        const MANY: f64 = 200.0;
        let n_local = n_local as f64;
        let others = n_server - n_local;
        if !(others > 0.0 && others < MANY) {
            return self.n_requests(n_server) as f64;
        }
        let (mut mean, mut sum) = (0.0, 0.0);
        let (mut chance, mut n) = ((-others).exp(), 0.0);
        // Six standard deviations beyond there is nothing left.
        while n <= others + 6.0 * others.sqrt() + 10.0 {
            mean += chance * self.n_requests(n_local + n) as f64;
            sum += chance;
            n += 1.0;
            chance *= others / n;
        }
        mean / sum
    }

    /// How many rows a server returns at the most that has so many.
    pub(super) fn most(&self, n_server: f64) -> f64 {
        match self.method {
            Method::AllPages => n_server.min(self.top as f64),
            Method::FirstPage => n_server.min(self.page_size.min(self.top) as f64),
        }
    }

    /// The chance that one of the server's rows that match is among those returned,
    /// if any of them may be.
    ///
    /// ```text
    /// min(1, K / |R_S(q)|) for all pages, min(1, p / |R_S(q)|) for the first page
    /// ```
    pub fn chance(&self, n_server: f64) -> f64 {
        let returned = match self.method {
            Method::AllPages => self.top,
            Method::FirstPage => self.page_size.min(self.top),
        };
        (returned as f64 / n_server).min(1.0)
    }

    /// How many results come with one request.
    pub fn page_size(&self) -> u64 {
        self.page_size
    }

    /// How many results come in all, at the most: K.
    pub fn top(&self) -> u64 {
        self.top
    }
}

/// What makes one query better than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Efficiency {
    /// What is still to be gained, times the chance to get it, per request.
    #[default]
    Corrected,
    /// As the content paper has it (equation 2): what all its rows are worth, covered
    /// already or not, per row of the server.
    ///
    /// ```text
    /// Σ w(r)·F(r; t) / |R_S(q)|,  r ∈ R_L(q)
    /// ```
    Published,
}

/// Queries, each with our rows that it finds and how many it finds on the server.
///
/// They are sorted by their text.
#[derive(Debug, Clone, Default)]
pub struct Queries {
    terms: Lists,
    rows: Lists,
    n_server: Vec<f64>,
    /// Whether that is a guess; nothing if it never is.
    is_guess: Vec<bool>,
}

impl Queries {
    /// All queries of at most `max_terms` terms that some row has, but for those that
    /// a better one, which is always asked before, leaves nothing to find:
    ///
    /// - of queries that find the same single row, all but the best;
    /// - a query that is another with one more term, and yet takes as many requests
    ///   (unless efficiency is as published, which prefers what finds less on the
    ///   server).
    ///
    /// The time this takes grows with the rows and, for pairs, with the square of
    /// the number of their terms, one addition each; the memory only with the queries
    /// that find two rows or more.
    pub fn about(
        rows: &Rows,
        estimates: &Estimates,
        retrieval: &Retrieval,
        efficiency: Efficiency,
        max_terms: usize,
    ) -> Self {
        let search = Search {
            rows,
            estimates,
            retrieval,
            efficiency,
        };
        /// Terms that one thread expands at a time.
        const CHUNK: u32 = 64;
        let n_terms = rows.n_terms() as u32;
        let chunks = (0..n_terms.div_ceil(CHUNK)).into_par_iter();
        let found: Vec<FoundQueries> = chunks
            .map_init(
                || Scratch::new(rows, max_terms),
                |scratch, chunk| {
                    let mut found = FoundQueries {
                        places: std::mem::take(&mut scratch.places),
                        ..FoundQueries::default()
                    };
                    for term in chunk * CHUNK..n_terms.min((chunk + 1) * CHUNK) {
                        search.expand_term(term, scratch, &mut found);
                    }
                    scratch.places = std::mem::take(&mut found.places);
                    found
                },
            )
            .collect();
        let mut all = search.merge(found);
        let guesses = all.terms.iter().map(|terms| !estimates.is_counted(terms));
        all.is_guess = guesses.collect();
        all
    }

    /// Queries given by the rows that each finds, with what it finds on the server;
    /// the text of each is its number.
    pub fn given<'a>(queries: impl IntoIterator<Item = (&'a [u32], f64)>) -> Self {
        let mut all = Self::default();
        for (number, (rows, n_server)) in (0..).zip(queries) {
            let mut rows = rows.to_vec();
            rows.sort_unstable();
            rows.dedup();
            all.push(&[number], &rows, n_server);
        }
        all
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.n_server.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.n_server.is_empty()
    }

    /// The terms of a query, in order.
    pub fn terms(&self, query: usize) -> impl Iterator<Item = TermId> + '_ {
        self.terms.get(query).iter().copied().map(TermId)
    }

    /// The text of a query: its terms, parted by blanks.
    pub fn text(&self, query: usize, rows: &Rows) -> String {
        rows.query(self.terms.get(query))
    }

    /// Our rows that a query finds: R_L(q).
    pub fn rows(&self, query: usize) -> &[u32] {
        self.rows.get(query)
    }

    /// How many rows it finds on the server: |R_S(q)|.
    pub fn n_server(&self, query: usize) -> f64 {
        self.n_server[query]
    }

    /// Whether that is a guess, and not what was counted.
    pub(super) fn is_guess(&self, query: usize) -> bool {
        self.is_guess.get(query).is_some_and(|is_guess| *is_guess)
    }

    pub(super) fn push(&mut self, terms: &[u32], rows: &[u32], n_server: f64) {
        self.terms.push(terms);
        self.rows.push(rows);
        self.n_server.push(n_server);
    }

    pub(super) fn term_list(&self, query: usize) -> &[u32] {
        self.terms.get(query)
    }

    fn append(&mut self, other: &Self) {
        self.terms.append(&other.terms);
        self.rows.append(&other.rows);
        self.n_server.extend_from_slice(&other.n_server);
    }
}

/// What all steps of one search for queries have in common.
struct Search<'a> {
    rows: &'a Rows,
    estimates: &'a Estimates,
    retrieval: &'a Retrieval,
    efficiency: Efficiency,
}

/// Queries found by one thread, in order.
#[derive(Default)]
struct FoundQueries {
    of_many: Queries,
    /// For each row and first term at most one.
    of_one: Queries,
    /// The best so far with the first term at hand, and which of them is for a row:
    /// behind it, so that nothing is zero.
    best: Vec<(u32, Vec<u32>, f64)>,
    places: Vec<u32>,
}

impl FoundQueries {
    /// Notes a query that finds one row, if it is the best for that row so far.
    fn note(&mut self, search: &Search<'_>, row: u32, terms: &[u32], n_server: f64) {
        let place = &mut self.places[row as usize];
        match self.best.get_mut((*place as usize).wrapping_sub(1)) {
            None => {
                self.best.push((row, terms.to_vec(), n_server));
                *place = self.best.len() as u32;
            }
            Some((_, kept, n)) => {
                if search.compare((n_server, terms), (*n, kept)) == Ordering::Less {
                    kept.clear();
                    kept.extend_from_slice(terms);
                    *n = n_server;
                }
            }
        }
    }

    /// There are no more queries with the first term at hand.
    fn settle(&mut self) {
        for (row, terms, n_server) in self.best.drain(..) {
            self.places[row as usize] = 0;
            self.of_one.push(&terms, &[row], n_server);
        }
    }
}

/// What a thread counts with: for each number of terms, and for each row.
struct Scratch {
    levels: Vec<Level>,
    places: Vec<u32>,
}

struct Level {
    n_local: Vec<u32>,
    in_corpus: Vec<u32>,
    /// A row with the term: the only one, if there is one.
    row: Vec<u32>,
    /// Where the next row with the term goes.
    start: Vec<u32>,
    touched: Vec<u32>,
}

/// The place of rows that nobody asks for.
const NOWHERE: u32 = u32::MAX;

impl Scratch {
    fn new(rows: &Rows, max_terms: usize) -> Self {
        let n_terms = rows.n_terms();
        let level = || Level {
            n_local: vec![0; n_terms],
            in_corpus: vec![0; n_terms],
            row: vec![0; n_terms],
            start: vec![NOWHERE; n_terms],
            touched: Vec::new(),
        };
        Self {
            levels: (1..max_terms).map(|_| level()).collect(),
            places: vec![0; rows.len()],
        }
    }
}

impl Search<'_> {
    /// All queries whose first term is this.
    fn expand_term(&self, term: u32, scratch: &mut Scratch, found: &mut FoundQueries) {
        let rows = self.rows.with_term(term);
        let n_server = self.estimates.n_server(&[term], rows.len());
        match rows {
            [] => return,
            [row] => found.note(self, *row, &[term], n_server),
            _ => found.of_many.push(&[term], rows, n_server),
        }
        let in_corpus = self.estimates.corpus().map(|corpus| corpus.with_term(term));
        let levels = &mut scratch.levels;
        self.expand(&mut vec![term], rows, n_server, in_corpus, levels, found);
        found.settle();
    }

    /// All queries with these terms and more that come after them in the order.
    fn expand(
        &self,
        terms: &mut Vec<u32>,
        rows: &[u32],
        n_server: f64,
        in_corpus: Option<&[u32]>,
        levels: &mut [Level],
        found: &mut FoundQueries,
    ) {
        let Some((level, deeper)) = levels.split_first_mut() else {
            return;
        };
        let (requests, chance) = self.answer(n_server);
        let is_corrected = self.efficiency == Efficiency::Corrected;
        // One request for all of it: no further term can make that better.
        if is_corrected && requests == 1 && chance == 1.0 {
            return;
        }
        let last = *terms.last().expect("it starts with one");
        let after = |all: &[u32]| all.partition_point(|&term| term <= last);
        for &row in rows {
            let all = self.rows.terms_of(row);
            for &term in &all[after(all)..] {
                let n = &mut level.n_local[term as usize];
                if *n == 0 {
                    level.touched.push(term);
                }
                *n += 1;
                level.row[term as usize] = row;
            }
        }
        let corpus = self.estimates.corpus();
        for &row in in_corpus.unwrap_or_default() {
            let all = corpus.map_or(&[][..], |corpus| corpus.terms_of(row));
            for &term in &all[after(all)..] {
                level.in_corpus[term as usize] += 1;
            }
        }
        let mut touched = std::mem::take(&mut level.touched);
        touched.sort_unstable();
        let is_last = deeper.is_empty();
        // Queries that find several rows, and where those begin among all.
        let mut several: Vec<(u32, f64, bool)> = Vec::new();
        let mut n_several = 0;
        for &term in &touched {
            let n_local = level.n_local[term as usize];
            let n_corpus = in_corpus.map(|_| level.in_corpus[term as usize] as usize);
            terms.push(term);
            let estimates = self.estimates;
            let n_server = estimates.with_corpus_count(terms, n_local as usize, n_corpus);
            let is_dominated = is_corrected && self.answer(n_server) == (requests, chance);
            level.start[term as usize] = NOWHERE;
            if n_local == 1 {
                let row = level.row[term as usize];
                if !is_dominated {
                    found.note(self, row, terms, n_server);
                }
                if !is_last {
                    let corpus_rows = with_term(corpus, in_corpus, term);
                    let corpus_rows = corpus_rows.as_deref();
                    self.expand(terms, &[row], n_server, corpus_rows, deeper, found);
                }
            } else if !(is_dominated && is_last) {
                level.start[term as usize] = n_several;
                n_several += n_local;
                several.push((term, n_server, is_dominated));
            }
            terms.pop();
        }
        let mut those = vec![0; n_several as usize];
        for &row in rows {
            let all = self.rows.terms_of(row);
            for &term in &all[after(all)..] {
                let next = &mut level.start[term as usize];
                if *next != NOWHERE {
                    those[*next as usize] = row;
                    *next += 1;
                }
            }
        }
        for (term, n_server, is_dominated) in several {
            let end = level.start[term as usize];
            let start = end - level.n_local[term as usize];
            let those = &those[start as usize..end as usize];
            terms.push(term);
            if !is_dominated {
                found.of_many.push(terms, those, n_server);
            }
            if !is_last {
                let corpus_rows = with_term(corpus, in_corpus, term);
                let corpus_rows = corpus_rows.as_deref();
                self.expand(terms, those, n_server, corpus_rows, deeper, found);
            }
            terms.pop();
        }
        for &term in &touched {
            level.n_local[term as usize] = 0;
        }
        for &row in in_corpus.unwrap_or_default() {
            let all = corpus.map_or(&[][..], |corpus| corpus.terms_of(row));
            for &term in &all[after(all)..] {
                level.in_corpus[term as usize] = 0;
            }
        }
        touched.clear();
        level.touched = touched;
    }

    fn answer(&self, n_server: f64) -> (u64, f64) {
        let chance = self.retrieval.chance(n_server);
        (self.retrieval.n_requests(n_server), chance)
    }

    /// Which of two queries for the same rows is better: that comes first.
    fn compare(&self, one: (f64, &[u32]), other: (f64, &[u32])) -> Ordering {
        let by_answer = match self.efficiency {
            Efficiency::Published => one.0.total_cmp(&other.0),
            // Fewer on the server take no more requests, nor have a smaller chance.
            Efficiency::Corrected => {
                let (one, other) = (self.answer(one.0), self.answer(other.0));
                one.0.cmp(&other.0).then(other.1.total_cmp(&one.1))
            }
        };
        by_answer.then_with(|| one.1.cmp(other.1))
    }

    /// All of it in the order of the text.
    fn merge(&self, found: Vec<FoundQueries>) -> Queries {
        let mut of_many = Queries::default();
        let mut of_one = Queries::default();
        for found in found {
            of_many.append(&found.of_many);
            of_one.append(&found.of_one);
        }
        let mut best: Vec<Option<usize>> = vec![None; self.rows.len()];
        for query in 0..of_one.len() {
            let of = |query: usize| (of_one.n_server(query), of_one.term_list(query));
            let best = &mut best[of_one.rows(query)[0] as usize];
            let is_better =
                best.is_none_or(|before| self.compare(of(query), of(before)) == Ordering::Less);
            if is_better {
                *best = Some(query);
            }
        }
        let mut kept: Vec<usize> = best.into_iter().flatten().collect();
        kept.sort_by(|&one, &other| of_one.term_list(one).cmp(of_one.term_list(other)));
        let mut all = Queries::default();
        let mut many = (0..of_many.len()).peekable();
        for query in kept {
            let terms = of_one.term_list(query);
            while let Some(next) = many.next_if(|&next| of_many.term_list(next) < terms) {
                let (terms, rows) = (of_many.term_list(next), of_many.rows(next));
                all.push(terms, rows, of_many.n_server(next));
            }
            all.push(terms, of_one.rows(query), of_one.n_server(query));
        }
        for next in many {
            let (terms, rows) = (of_many.term_list(next), of_many.rows(next));
            all.push(terms, rows, of_many.n_server(next));
        }
        all
    }
}

/// Those rows of the corpus that have one more term.
fn with_term(corpus: Option<&Corpus>, rows: Option<&[u32]>, term: u32) -> Option<Vec<u32>> {
    Some(intersection(rows?, corpus?.with_term(term)))
}

/// What two sorted lists have in common.
pub(super) fn intersection(one: &[u32], other: &[u32]) -> Vec<u32> {
    let (short, long) = if one.len() <= other.len() {
        (one, other)
    } else {
        (other, one)
    };
    let mut common = Vec::new();
    // Of lists that differ much in length the long one is skipped through.
    if short.len() * 16 < long.len() {
        let mut rest = long;
        for &number in short {
            let at = rest.partition_point(|&other| other < number);
            rest = &rest[at..];
            if rest.first() == Some(&number) {
                common.push(number);
            }
        }
        return common;
    }
    let mut rest = long.iter().peekable();
    for &number in short {
        while rest.next_if(|&&other| other < number).is_some() {}
        if rest.peek() == Some(&&number) {
            common.push(number);
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(computed: f64, expected: f64) {
        assert!((computed - expected).abs() < 1e-5, "{computed} {expected}");
    }

    #[test]
    fn a_guess_that_just_fills_a_page_may_take_two() {
        let usual = Retrieval::USUAL;
        // Nothing of others: what is ours is known.
        close(usual.mean_requests(10, 10.0), 1.0);
        // One more on average: none with a chance of 1/e.
        close(usual.mean_requests(10, 11.0), 2.0 - (-1.0_f64).exp());
        // At most one other fits: (1 + 2)/e².
        close(usual.mean_requests(9, 11.0), 2.0 - 3.0 * (-2.0_f64).exp());
        close(usual.mean_requests(1, 900.0), 90.0);
        let first = Retrieval::new(10, 1000, Method::FirstPage).unwrap();
        close(first.mean_requests(9, 30.0), 1.0);
        let short = Retrieval::new(10, 15, Method::AllPages).unwrap();
        close(short.mean_requests(30, 60.0), 2.0);
    }
}
