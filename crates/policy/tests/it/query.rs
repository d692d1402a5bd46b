//! Queries: the choice against slow and simple ones.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_policy::query::{
    Corpus, Cover, CoverProblem, Efficiency, Limits, Method, Queries, Retrieval, Rows, RowsBuilder,
    Statistics, Term, TermId, cheapest_cover, cover_by_keywords,
};

const LETTERS: [&str; 7] = ["a", "b", "bc", "d", "e e", "f", "g"];

/// Rows, what is known of the server, and how to ask it.
#[derive(Debug, Clone)]
struct Case {
    rows: Vec<(BTreeSet<usize>, f64)>,
    counts: Vec<Option<u32>>,
    pairs: BTreeMap<(usize, usize), u32>,
    corpus: Option<Vec<BTreeSet<usize>>>,
    server_rows: Option<u32>,
    page_size: u64,
    top: u64,
    method: Method,
    efficiency: Efficiency,
    max_terms: usize,
    limits: Limits,
}

fn cases() -> impl Strategy<Value = Case> {
    let terms = || prop::collection::btree_set(0..LETTERS.len(), 0..5);
    // Whole numbers, so that ties are many and exact.
    let rows = prop::collection::vec((terms(), (0_u32..4).prop_map(f64::from)), 1..12);
    let counts = prop::collection::vec(prop::option::of(0_u32..60), LETTERS.len());
    let pair = (0..LETTERS.len(), 0..LETTERS.len(), 0_u32..40);
    let pairs = prop::collection::vec(pair, 0..10).prop_map(|pairs| {
        let pairs = pairs.into_iter().filter(|(a, b, _)| a < b);
        pairs.map(|(a, b, n)| ((a, b), n)).collect()
    });
    let known = (
        prop::option::of(prop::collection::vec(terms(), 0..30)),
        prop::option::of(40_u32..400),
    );
    let server = (
        1_u64..12,
        1_u64..60,
        prop_oneof![Just(Method::AllPages), Just(Method::FirstPage)],
    );
    let limits = (
        prop::option::of(1_u64..6),
        prop::option::of(1_u64..12),
        prop::option::of(0.0..1.0_f64),
        prop::option::of(0.0..3.0_f64),
    );
    let how = (
        prop_oneof![Just(Efficiency::Corrected), Just(Efficiency::Published)],
        1_usize..4,
    );
    (rows, counts, pairs, known, server, limits, how).prop_map(
        |(rows, counts, pairs, (corpus, server_rows), server, limits, how)| Case {
            rows,
            counts,
            pairs,
            corpus,
            server_rows,
            page_size: server.0,
            top: server.1,
            method: server.2,
            efficiency: how.0,
            max_terms: how.1,
            limits: Limits {
                max_queries: limits.0,
                max_requests: limits.1,
                coverage: limits.2,
                price: limits.3,
            },
        },
    )
}

/// A line of the result: text, rows of ours, of the server, requests, gain, covered.
type Line = (String, usize, f64, u64, f64, f64);

impl Case {
    fn retrieval(&self) -> Retrieval {
        Retrieval::new(self.page_size, self.top, self.method).unwrap()
    }

    fn rows(&self) -> Rows {
        let mut builder = RowsBuilder::new();
        for (terms, worth) in &self.rows {
            let term = |&letter: &usize| Term {
                key: LETTERS[letter].to_owned(),
                written: LETTERS[letter].to_owned(),
            };
            builder.add(terms.iter().map(term), *worth).unwrap();
        }
        builder.build()
    }

    fn statistics(&self, rows: &Rows) -> Statistics {
        let term = |letter: usize| rows.term(LETTERS[letter]);
        let mut statistics = Statistics::new(rows);
        for (letter, count) in self.counts.iter().enumerate() {
            if let (Some(term), Some(count)) = (term(letter), count) {
                statistics.count_term(term, f64::from(*count)).unwrap();
            }
        }
        for (&(a, b), &count) in &self.pairs {
            if let (Some(a), Some(b)) = (term(a), term(b)) {
                statistics.count_pair(b, a, f64::from(count)).unwrap();
            }
        }
        if let Some(n) = self.server_rows {
            statistics.set_server_rows(f64::from(n)).unwrap();
        }
        if let Some(corpus) = &self.corpus {
            let corpus = corpus
                .iter()
                .map(|terms| terms.iter().filter_map(|&letter| term(letter)));
            let corpus: Vec<Vec<TermId>> = corpus.map(Iterator::collect).collect();
            let corpus = Corpus::new(rows, corpus);
            statistics.set_corpus(corpus, Some(2.5)).unwrap();
        }
        statistics
    }

    fn lines(&self, rows: &Rows, queries: &Queries, cover: &Cover) -> Vec<Line> {
        let line = |step: &springtide_policy::query::Step| {
            (
                queries.text(step.query, rows),
                queries.rows(step.query).len(),
                queries.n_server(step.query),
                step.n_requests,
                step.gain,
                step.covered,
            )
        };
        cover.steps.iter().map(line).collect()
    }

    /// Every set of terms that a row has: text, terms, rows, rows of the server.
    fn all_queries(&self) -> Vec<(String, Vec<usize>, Vec<usize>, f64)> {
        let mut all = Vec::new();
        for mask in 1_u32..1 << LETTERS.len() {
            let terms: Vec<usize> = (0..LETTERS.len())
                .filter(|letter| mask >> letter & 1 == 1)
                .collect();
            let has_all = |row: &BTreeSet<usize>| terms.iter().all(|term| row.contains(term));
            let found: Vec<usize> = (0..self.rows.len())
                .filter(|&row| has_all(&self.rows[row].0))
                .collect();
            if terms.len() > self.max_terms || found.is_empty() {
                continue;
            }
            let n_local = |term: usize| {
                let rows = self.rows.iter().filter(|(terms, _)| terms.contains(&term));
                rows.count() as f64
            };
            let in_corpus = |terms: &[usize]| {
                let corpus = self.corpus.as_ref()?;
                let has_all = |row: &&BTreeSet<usize>| terms.iter().all(|term| row.contains(term));
                Some(2.5 * corpus.iter().filter(has_all).count() as f64)
            };
            let base = |term: usize| {
                let given = self.counts[term].map(f64::from);
                let count = given.or_else(|| in_corpus(&[term])).unwrap_or(0.0);
                count.max(n_local(term))
            };
            let pair = |a: usize, b: usize| self.pairs.get(&(a, b)).map(|&n| f64::from(n));
            let mut pairs = Vec::new();
            for (place, &a) in terms.iter().enumerate() {
                let rest = terms[place + 1..].iter();
                pairs.extend(rest.filter_map(|&b| Some((a, b, pair(a, b)?))));
            }
            let n_server = match terms.as_slice() {
                [term] => base(*term),
                [a, b] if pair(*a, *b).is_some() => pair(*a, *b).unwrap(),
                _ if self.corpus.is_some() => in_corpus(&terms).unwrap(),
                _ => {
                    let rarest = terms.iter().map(|&term| base(term));
                    let rarest = rarest.chain(pairs.iter().map(|&(.., n)| n));
                    let rarest = rarest.fold(f64::INFINITY, f64::min);
                    match self.server_rows.map(f64::from) {
                        None => rarest,
                        Some(n) => {
                            let alone = terms.iter().fold(n, |p, &term| p * (base(term) / n));
                            let lift = |p: f64, &(a, b, c): &(usize, usize, f64)| {
                                p * (c * n / (base(a) * base(b)))
                            };
                            pairs.iter().fold(alone, lift).min(rarest)
                        }
                    }
                }
            };
            let mut written: Vec<String> = terms
                .iter()
                .map(|&term| match LETTERS[term] {
                    word if word.contains(' ') => format!("\"{word}\""),
                    word => word.to_owned(),
                })
                .collect();
            written.sort();
            let n_server = n_server.max(found.len() as f64);
            all.push((written.join(" "), terms, found, n_server));
        }
        all
    }

    fn answer(&self, n_server: f64) -> (u64, f64) {
        let (page, top) = (self.page_size as f64, self.top as f64);
        match self.method {
            Method::FirstPage => (1, (page.min(top) / n_server).min(1.0)),
            Method::AllPages => {
                let requests = (n_server.min(top) / page).ceil() as u64;
                (requests, (top / n_server).min(1.0))
            }
        }
    }

    /// The greedy choice among all queries, as one would write it down first.
    fn by_hand(&self, n_keywords: Option<usize>) -> Vec<Line> {
        let all = self.all_queries();
        let mut is_open: Vec<bool> = self.rows.iter().map(|(_, worth)| *worth > 0.0).collect();
        let mut missed = vec![1.0; self.rows.len()];
        let mut lines: Vec<Line> = Vec::new();
        let mut n_requests = 0;
        loop {
            let covered: f64 = missed.iter().map(|missed| 1.0 - missed).sum();
            let limits = &self.limits;
            if limits.max_queries.is_some_and(|n| lines.len() as u64 >= n)
                || limits
                    .coverage
                    .is_some_and(|share| covered >= share * self.rows.len() as f64)
            {
                return lines;
            }
            let frequency = |term: usize| {
                let rows = self.rows.iter().zip(&is_open);
                rows.filter(|((terms, _), is_open)| **is_open && terms.contains(&term))
                    .count()
            };
            let mut keywords: Vec<usize> = (0..LETTERS.len()).collect();
            keywords.retain(|&term| frequency(term) > 0);
            let written = |term: usize| match LETTERS[term] {
                word if word.contains(' ') => format!("\"{word}\""),
                word => word.to_owned(),
            };
            keywords.sort_by_key(|&term| (usize::MAX - frequency(term), written(term)));
            keywords.truncate(n_keywords.unwrap_or(usize::MAX));
            let gain = |rows: &[usize]| -> f64 {
                let open = rows.iter().filter(|&&row| is_open[row]);
                open.map(|&row| self.rows[row].1).sum()
            };
            let mut best: Option<(f64, u64, &str, usize)> = None;
            for (index, (text, terms, rows, n_server)) in all.iter().enumerate() {
                let (requests, chance) = self.answer(*n_server);
                let fits = limits
                    .max_requests
                    .is_none_or(|most| n_requests + requests <= most);
                if gain(rows) == 0.0
                    || !fits
                    || n_keywords.is_some() && !terms.iter().all(|term| keywords.contains(term))
                {
                    continue;
                }
                let value = match self.efficiency {
                    Efficiency::Corrected => gain(rows) * chance / requests as f64,
                    Efficiency::Published => {
                        rows.iter().map(|&row| self.rows[row].1).sum::<f64>() / n_server
                    }
                };
                let is_better = best.is_none_or(|(most, fewest, first, _)| {
                    let tie = (value / most - 1.0).abs() < 1e-11;
                    !tie && value > most || tie && (requests, text.as_str()) < (fewest, first)
                });
                if is_better {
                    best = Some((value, requests, text, index));
                }
            }
            let Some((value, requests, text, index)) = best else {
                return lines;
            };
            if limits.price.is_some_and(|price| value < price) {
                return lines;
            }
            let (_, _, rows, n_server) = &all[index];
            let gain = gain(rows);
            let (_, chance) = self.answer(*n_server);
            for &row in rows {
                is_open[row] = false;
                missed[row] *= 1.0 - chance;
            }
            n_requests += requests;
            let covered = missed.iter().map(|missed| 1.0 - missed).sum();
            let text = text.to_owned();
            lines.push((text, rows.len(), *n_server, requests, gain, covered));
        }
    }
}

/// Whether two choices are the same, up to rounding. Where two queries gain the same, either
/// may be chosen, and what follows need not be the same.
fn alike(one: &[Line], other: &[Line]) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
    for (one, other) in one.iter().zip(other) {
        let is_same_gain = one.3 == other.3 && near(one.4, other.4);
        if one.0 != other.0 && is_same_gain {
            return true;
        }
        let is_same = (&one.0, one.1) == (&other.0, other.1)
            && is_same_gain
            && near(one.2, other.2)
            && near(one.5, other.5);
        if !is_same {
            return false;
        }
    }
    one.len() == other.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_choice_is_the_one_by_hand_among_all_queries(case in cases()) {
        let rows = case.rows();
        let estimates = case.statistics(&rows).estimates(&rows);
        let retrieval = case.retrieval();
        let queries =
            Queries::about(&rows, &estimates, &retrieval, case.efficiency, case.max_terms);
        let choice = CoverProblem::new(&queries, &rows, retrieval, case.efficiency);
        let lazy = choice.lazy(&case.limits);
        let expected = case.by_hand(None);
        let found = case.lines(&rows, &queries, &lazy);
        prop_assert!(alike(&found, &expected), "{found:?}\n{expected:?}");
        let plain = choice.plain(&case.limits);
        prop_assert_eq!(lazy.steps, plain.steps);
    }

    #[test]
    fn keywords_are_the_most_frequent_terms_of_what_is_left(
        case in cases(),
        n_keywords in 1_usize..8,
    ) {
        let most = case.limits.max_queries;
        let case = Case { limits: Limits { max_queries: None, ..case.limits }, ..case };
        let rows = case.rows();
        let estimates = case.statistics(&rows).estimates(&rows);
        let (retrieval, efficiency) = (case.retrieval(), case.efficiency);
        let sizes = (case.max_terms, n_keywords);
        let choose =
            |limits| cover_by_keywords(&rows, &estimates, retrieval, efficiency, sizes, &limits);
        let (queries, mut cover) = choose(case.limits);
        let found = case.lines(&rows, &queries, &cover);
        let expected = case.by_hand(Some(n_keywords));
        prop_assert!(alike(&found, &expected), "{found:?}\n{expected:?}");

        // With few queries, as good or better than the first few of those.
        let Some(most) = most else { return Ok(()); };
        let (few_queries, few) = choose(Limits { max_queries: Some(most), ..case.limits });
        cover.steps.truncate(usize::try_from(most).unwrap());
        let value = |queries: &Queries, cover: &Cover| {
            CoverProblem::new(queries, &rows, retrieval, efficiency).value(cover)
        };
        let (found, expected) = (value(&few_queries, &few), value(&queries, &cover));
        prop_assert!(few.steps.len() as u64 <= most);
        prop_assert!(found >= expected * (1.0 - 1e-9), "{found} and {expected}");
    }

    #[test]
    fn what_is_covered_is_worth_its_bound_of_the_best_there_is(
        case in cases(),
        quota in 1_u64..10,
    ) {
        // A server that returns all there is, asked for at most two terms.
        let case = Case {
            top: 1000,
            method: Method::AllPages,
            efficiency: Efficiency::Corrected,
            max_terms: case.max_terms.min(2),
            limits: Limits { max_requests: Some(quota), ..Limits::default() },
            ..case
        };
        let rows = case.rows();
        let estimates = case.statistics(&rows).estimates(&rows);
        let retrieval = case.retrieval();
        let queries =
            Queries::about(&rows, &estimates, &retrieval, case.efficiency, case.max_terms);
        let choice = CoverProblem::new(&queries, &rows, retrieval, case.efficiency);
        let cover = choice.cover(&case.limits);
        prop_assert!(cover.n_requests() <= quota);
        let optimum = case.best_within(quota);
        let bound = (1.0 - (-1.0_f64).exp()) / 2.0 * optimum;
        let value = choice.value(&cover);
        prop_assert!(value >= bound - 1e-9, "{value} of {optimum}");
    }
}

impl Case {
    /// The most that queries can cover within a quota: for every set of rows the
    /// fewest requests that cover them.
    fn best_within(&self, quota: u64) -> f64 {
        let mut fewest: BTreeMap<u32, u64> = BTreeMap::from([(0, 0)]);
        for (_, _, rows, n_server) in self.all_queries() {
            let found: u32 = rows.iter().map(|row| 1 << row).sum();
            let (requests, _) = self.answer(n_server);
            for (covered, n) in fewest.clone() {
                if n + requests <= quota {
                    let best = fewest.entry(covered | found).or_insert(u64::MAX);
                    *best = (*best).min(n + requests);
                }
            }
        }
        let worth = |covered: &u32| -> f64 {
            let rows = (0..self.rows.len()).filter(|row| covered >> row & 1 == 1);
            rows.map(|row| self.rows[row].1).sum()
        };
        fewest.keys().map(worth).fold(0.0, f64::max)
    }
}

/// Queries about rows drawn from a seed: few that find many, many that find few.
fn drawn(n_queries: usize, n_rows: u32, seed: u64) -> Vec<(Vec<u32>, f64)> {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut queries: Vec<(Vec<u32>, f64)> = (0..n_queries)
        .map(|place| {
            let size = (f64::from(n_rows) / 10.0 / (place + 1) as f64 * 4.0).clamp(4.0, 500.0);
            let rows: Vec<u32> = (0..size as u32)
                .map(|_| rng.random_range(0..n_rows))
                .collect();
            let n_server = rows.len() as f64 * rng.random_range(1.0..20.0);
            (rows, n_server)
        })
        .collect();
    // Whatever is left has a query, so that full cover exists.
    for row in 0..n_rows {
        let place = rng.random_range(0..n_queries);
        queries[place].0.push(row);
    }
    queries
}

#[test]
fn lazy_greedy_is_plain_greedy_with_far_fewer_evaluations() {
    let queries = drawn(4000, 20_000, 1);
    let queries = Queries::given(queries.iter().map(|(rows, n)| (rows.as_slice(), *n)));
    let worth = vec![1.0; 20_000];
    let choice = CoverProblem {
        queries: &queries,
        worth: &worth,
        retrieval: Retrieval::new(10, 1_000_000, Method::AllPages).unwrap(),
        efficiency: Efficiency::Corrected,
    };
    let lazy = choice.lazy(&Limits::default());
    assert_eq!(lazy.covered(), 20_000.0);
    // Plain greedy looks at every query for every one it asks, and once more to see
    // that nothing is left. (Running it takes a minute; smaller ones run below.)
    let n_plain = (lazy.steps.len() as u64 + 1) * 4000;
    let fewer = n_plain as f64 / lazy.n_evaluations as f64;
    assert!(fewer >= 50.0, "{fewer}");
    for seed in 2..6 {
        let queries = drawn(200, 1000, seed);
        let queries = Queries::given(queries.iter().map(|(rows, n)| (rows.as_slice(), *n)));
        let choice = CoverProblem {
            queries: &queries,
            worth: &worth[..1000],
            ..choice
        };
        let (lazy, plain) = (
            choice.lazy(&Limits::default()),
            choice.plain(&Limits::default()),
        );
        assert_eq!(lazy.steps, plain.steps);
        assert_eq!(
            plain.n_evaluations,
            (plain.steps.len() as u64 + 1) * 200,
            "as counted above"
        );
        assert!(lazy.n_evaluations < plain.n_evaluations / 10);
    }
}

#[test]
fn greedy_covers_within_the_logarithm_of_the_cheapest_cover() {
    // Section 3.3's program, solved exactly, against greedy by rows of the server.
    let mut worst: f64 = 1.0;
    for seed in 0..60 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let n_rows = 14;
        let queries: Vec<(Vec<u32>, f64)> = (0..16)
            .map(|_| {
                let rows: Vec<u32> = (0..n_rows).filter(|_| rng.random_bool(0.25)).collect();
                let n_server = rows.len() as f64 + f64::from(rng.random_range(0_u32..30));
                (rows, n_server)
            })
            .chain((0..n_rows).map(|row| (vec![row], 30.0)))
            .collect();
        let given: Vec<(&[u32], f64)> = queries.iter().map(|(r, n)| (r.as_slice(), *n)).collect();
        let (_, cheapest) = cheapest_cover(n_rows as usize, &given).unwrap();
        let queries = Queries::given(given);
        // A page has one result, so that requests are rows of the server.
        let choice = CoverProblem {
            queries: &queries,
            worth: &vec![1.0; n_rows as usize],
            retrieval: Retrieval::new(1, 1000, Method::AllPages).unwrap(),
            efficiency: Efficiency::Corrected,
        };
        let cover = choice.cover(&Limits::default());
        assert_eq!(cover.covered(), f64::from(n_rows));
        let ratio = cover.n_requests() as f64 / cheapest;
        let harmonic: f64 = (1..=n_rows).map(|n| 1.0 / f64::from(n)).sum();
        assert!((1.0 - 1e-9..=harmonic).contains(&ratio), "{ratio}");
        worst = worst.max(ratio);
    }
    assert!(worst > 1.0, "greedy is not always the cheapest");
}

#[test]
fn the_best_single_query_saves_greedy_from_a_small_one() {
    // One row for one request, or fifty for fifty-one: a quota of fifty-one.
    let many: Vec<u32> = (1..=50).collect();
    let queries = Queries::given([(&[0][..], 1.0), (&many[..], 510.0)]);
    let choice = CoverProblem {
        queries: &queries,
        worth: &[1.0; 51],
        retrieval: Retrieval::USUAL,
        efficiency: Efficiency::Corrected,
    };
    let limits = Limits {
        max_requests: Some(51),
        ..Limits::default()
    };
    assert_eq!(choice.lazy(&limits).covered(), 1.0);
    let cover = choice.cover(&limits);
    assert_eq!(cover.covered(), 50.0);
    assert_eq!(cover.n_requests(), 51);
}

#[test]
fn a_large_cover_is_never_dearer_than_the_greedy_one_and_covers_as_much() {
    // Two pages for every block of twenty rows, and single pages across blocks, which
    // greedy takes first though they break up the blocks.
    let n_rows = 18_000;
    let blocks = (0..n_rows / 20).map(|block| (block * 20..block * 20 + 20).collect());
    let across = (0..1080).map(|page| {
        let rows = page * 10..page * 10 + 10;
        rows.map(|place| place * 7919 % n_rows).collect()
    });
    let queries: Vec<Vec<u32>> = blocks.chain(across).collect();
    let queries = Queries::given(
        queries
            .iter()
            .map(|rows| (rows.as_slice(), rows.len() as f64)),
    );
    let worth = vec![1.0; n_rows as usize];
    let choice = CoverProblem {
        queries: &queries,
        worth: &worth,
        retrieval: Retrieval::USUAL,
        efficiency: Efficiency::Corrected,
    };
    let greedy = choice.lazy(&Limits::default());
    let cover = choice.cover(&Limits::default());
    assert_eq!(cover.covered(), f64::from(n_rows));
    assert!(cover.n_requests() < greedy.n_requests());
    assert_eq!(cover.n_requests(), 1800, "the blocks alone");
    let values = |cover: &Cover| -> Vec<f64> {
        let steps = cover.steps.iter();
        steps
            .map(|step| step.gain / step.n_requests as f64)
            .collect()
    };
    assert!(
        values(&cover).is_sorted_by(|one, other| one >= other),
        "in greedy order"
    );
    // Within a quota, and up to a share, it is no worse either.
    let quota = Limits {
        max_requests: Some(1500),
        ..Limits::default()
    };
    assert!(choice.value(&choice.cover(&quota)) >= choice.value(&choice.lazy(&quota)));
    assert!(choice.cover(&quota).n_requests() <= 1500);
    let share = Limits {
        coverage: Some(0.99),
        ..Limits::default()
    };
    let (cover, greedy) = (choice.cover(&share), choice.lazy(&share));
    assert!(cover.covered() >= 0.99 * f64::from(n_rows));
    assert!(cover.n_requests() <= greedy.n_requests());
}

#[test]
fn rows_that_are_worth_nothing_do_not_make_a_large_cover_dearer() {
    // Pages of nine rows that are worth something and one that is not, and a page for
    // each ten of the latter.
    let n_pages = 1200;
    let good = (0..n_pages).map(|page| (page * 10..page * 10 + 10).collect());
    let poor = (0..n_pages / 10).map(|page| (page * 10..page * 10 + 10).map(|p| p * 10).collect());
    let queries: Vec<Vec<u32>> = good.chain(poor).collect();
    let queries = Queries::given(queries.iter().map(|rows| (rows.as_slice(), 10.0)));
    let worth: Vec<f64> = (0..n_pages * 10)
        .map(|row| f64::from(u8::from(row % 10 != 0)))
        .collect();
    let choice = CoverProblem {
        queries: &queries,
        worth: &worth,
        retrieval: Retrieval::USUAL,
        efficiency: Efficiency::Corrected,
    };
    let cover = choice.cover(&Limits::default());
    assert_eq!(cover.n_requests(), u64::from(n_pages));
    assert_eq!(choice.value(&cover), f64::from(n_pages * 9));
}
