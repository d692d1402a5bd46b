//! `springtide cover`: which keyword queries refresh our rows of a search source.

use std::collections::HashSet;
use std::path::Path;

use serde::Serialize;
use springtide_policy::freshness::staleness_after;
use springtide_policy::query::{
    Corpus, Cover, CoverProblem, Efficiency, Estimates, Limits, Method, Queries, Retrieval, Rows,
    RowsBuilder, Statistics, StopWords, Term, TermId, cover_by_keywords, term_key, terms_in,
};
use springtide_policy::{Rate, Span};
use twox_hash::XxHash3_64;

use crate::args::{self, Attribute, EfficiencyName, MethodName};
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::plan::significant;
use crate::rates::{ID, hash, refuse_duplicates};
use crate::table::{
    Batch, Cells, Column, ColumnType, Condition, Input, Kind, Output, Texts, Unfinished, shorten,
};
use crate::talk::{Talk, count, percent};

pub(crate) fn run(args: &args::Cover, talk: Talk, unfinished: &Unfinished) -> Outcome<()> {
    let stop_words = match &args.stop_words {
        Some(path) => stop_words(path)?,
        None => StopWords::english(),
    };
    let mut attributes: Vec<&Attribute> = args.attributes.iter().collect();
    attributes.sort_by_key(|attribute| (&attribute.name, attribute.split));
    attributes.dedup();
    let reader = Reader {
        attributes,
        stop_words,
        talk,
    };
    let rows = reader.rows(&args.rows)?;
    let estimates = reader.estimates(args, &rows)?;
    let (queries, cover) = choose(args, &rows, &estimates, talk);
    let to_file = args.out.as_deref().filter(|path| *path != Path::new("-"));
    if !args.json || to_file.is_some() {
        write(&rows, &queries, &cover, args.out.as_deref(), unfinished)?;
    }
    summarize(&rows, &cover, args.json, talk)
}

/// What all tables with attributes have in common.
struct Reader<'a> {
    attributes: Vec<&'a Attribute>,
    stop_words: StopWords,
    talk: Talk,
}

/// The columns of the rows before the attributes.
const ROW: [Column<'_>; 4] = [
    ID,
    Column {
        name: "weight",
        kind: Kind::Number(Condition {
            holds: |weight| weight >= 0.0,
            says: "a weight is zero or more",
            hint: "give 0 for a row that does not matter, 1 for an ordinary one",
        }),
        required: false,
    },
    Column {
        name: "rate_per_day",
        kind: Kind::Optional(Condition {
            holds: |rate| rate >= 0.0,
            says: "a rate is zero or more",
            hint: "give 0 for a row that never changes, or nothing if it is not known",
        }),
        required: false,
    },
    Column {
        name: "elapsed_days",
        kind: Kind::Optional(Condition {
            holds: |days| days >= 0.0,
            says: "the time since the last poll is zero or more",
            hint: "leave it empty where it is not known",
        }),
        required: false,
    },
];

impl Reader<'_> {
    fn columns<'a>(&'a self, first: &[Column<'a>]) -> Vec<Column<'a>> {
        let attributes = self.attributes.iter().map(|attribute| Column {
            name: attribute.name.as_str(),
            kind: Kind::Text,
            required: true,
        });
        first.iter().copied().chain(attributes).collect()
    }

    /// The terms of a row whose attributes begin at a column of the batch.
    fn terms(&self, batch: &Batch, row: usize, first: usize) -> Vec<Term> {
        let mut terms = Vec::new();
        for (column, attribute) in (first..).zip(&self.attributes) {
            let cell = batch.texts(column).map_or("", |cells| cells.get(row));
            terms.extend(terms_in(cell, attribute.split, &self.stop_words));
        }
        terms
    }

    fn rows(&self, path: &Path) -> Outcome<Rows> {
        let input = Input::new(path)?;
        let columns = self.columns(&ROW);
        let mut rows = RowsBuilder::new();
        let mut hashes = Vec::new();
        let reading = self.talk.progress("reading rows", input.n_rows());
        input.read(&columns, &reading, |batch| {
            let Some(ids) = batch.texts(0) else {
                return Ok(());
            };
            for (row, id) in ids.iter().enumerate() {
                hashes.push(hash(id));
                let terms = self.terms(&batch, row, ROW.len());
                rows.add(terms, worth(&batch, row)).map_err(|error| {
                    Failure::input(format!("cannot read {}", input.name))
                        .cause(format!("{}: {error}", batch.place(row)))
                        .hint("weight, rate and elapsed days are too large together")
                })?;
            }
            Ok(())
        })?;
        drop(reading);
        let rows = rows.build();
        if rows.is_empty() {
            return Err(Failure::input(format!("cannot read {}", input.name))
                .cause("there are no rows")
                .hint("give one line per row of the source that we hold"));
        }
        refuse_duplicates(&input, hashes, self.talk)?;
        self.talk.explain(format!(
            "{} rows with {} terms",
            count(rows.len()),
            count(rows.n_terms())
        ));
        Ok(rows)
    }

    fn estimates(&self, args: &args::Cover, rows: &Rows) -> Outcome<Estimates> {
        const CHECKED: &str = "what was typed is checked";
        let mut statistics = Statistics::new(rows);
        let mut seen = HashSet::new();
        for path in &args.server.statistics {
            read_counts(path, rows, &mut statistics, &mut seen, self.talk)?;
        }
        if let Some(n) = args.server_rows {
            statistics.set_server_rows(n).expect(CHECKED);
        }
        if let Some(path) = &args.server.corpus {
            let corpus = self.corpus(path, rows)?;
            statistics.set_corpus(corpus, args.scale).expect(CHECKED);
        }
        Ok(statistics.estimates(rows))
    }

    fn corpus(&self, path: &Path, rows: &Rows) -> Outcome<Corpus> {
        let input = Input::new(path)?;
        let columns = self.columns(&[]);
        let mut corpus: Vec<Vec<TermId>> = Vec::new();
        let reading = self.talk.progress("reading corpus", input.n_rows());
        input.read(&columns, &reading, |batch| {
            for row in 0..batch.n_rows {
                let terms = self.terms(&batch, row, 0);
                let known = terms.iter().filter_map(|term| rows.term(&term.key));
                corpus.push(known.collect());
            }
            Ok(())
        })?;
        drop(reading);
        let n_rows = count(corpus.len());
        self.talk.explain(format!("{n_rows} rows of the corpus"));
        Ok(Corpus::new(rows, corpus))
    }
}

/// What refreshing a row is worth: its weight, times how stale it is by now if that
/// can be told.
fn worth(batch: &Batch, row: usize) -> f64 {
    const CHECKED: &str = "the reader has checked it";
    let number = |column: usize| {
        let number = batch.numbers(column).map(|numbers| numbers[row]);
        number.filter(|number| !number.is_nan())
    };
    let staleness = number(2).zip(number(3)).map(|(rate, elapsed)| {
        let rate = Rate::per_day(rate).expect(CHECKED);
        staleness_after(rate, Span::days(elapsed).expect(CHECKED))
    });
    number(1).unwrap_or(1.0) * staleness.unwrap_or(1.0)
}

/// A word on each line.
fn stop_words(path: &Path) -> Outcome<StopWords> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        let failure = Failure::input(format!("cannot read {name}"));
        match error.kind() {
            std::io::ErrorKind::NotFound => failure
                .cause("there is no such file")
                .hint("check the path"),
            std::io::ErrorKind::InvalidData => {
                failure.cause("it is not UTF-8").hint("save it as UTF-8")
            }
            _ => failure.cause(error).hint("give a text file, a word a line"),
        }
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(StopWords::new(text.split_whitespace()))
}

/// Reads a table of counts, of terms or of pairs.
fn read_counts(
    path: &Path,
    rows: &Rows,
    statistics: &mut Statistics,
    seen: &mut HashSet<u128>,
    talk: Talk,
) -> Outcome<()> {
    let input = Input::new(path)?;
    let name = |name| Column {
        name,
        kind: Kind::Id,
        required: false,
    };
    let columns = [
        name("term"),
        name("term_a"),
        name("term_b"),
        Column {
            name: "count",
            kind: Kind::Number(Condition {
                holds: |count| count >= 0.0,
                says: "a count is zero or more",
                hint: "give how many rows of the server have it, or drop the line",
            }),
            required: true,
        },
    ];
    let refuse = |cause: String, hint: &str| {
        Failure::input(format!("cannot read {}", input.name))
            .cause(cause)
            .hint(hint)
    };
    const CHECKED: &str = "the reader has checked it";
    let reading = talk.progress("reading statistics", input.n_rows());
    input.read(&columns, &reading, |batch| {
        let [term, one, other] = [0, 1, 2].map(|column| batch.texts(column));
        let counts = batch.numbers(3).unwrap_or_default();
        match (term, one, other) {
            (Some(terms), None, None) => {
                for (row, (term, &count)) in terms.iter().zip(counts).enumerate() {
                    let key = term_key(term);
                    let place = batch.place(row);
                    if key.is_empty() {
                        let cause = format!("{place}: term is empty");
                        return Err(refuse(cause, "every row needs one"));
                    }
                    if !seen.insert(fingerprint(&key)) {
                        let term = shorten(term);
                        let cause = format!("{place}: term \"{term}\" is given twice");
                        return Err(refuse(cause, "give each term one count; case is ignored"));
                    }
                    if let Some(term) = rows.term(&key) {
                        statistics.count_term(term, count).expect(CHECKED);
                    }
                }
            }
            (None, Some(ones), Some(others)) => {
                let pairs = ones.iter().zip(others.iter()).zip(counts);
                for (row, ((one, other), &count)) in pairs.enumerate() {
                    let (a, b) = (term_key(one), term_key(other));
                    let place = batch.place(row);
                    if a.is_empty() || b.is_empty() {
                        let cause = format!("{place}: a term is empty");
                        return Err(refuse(cause, "every row needs two"));
                    }
                    let pair = format!("\"{}\" and \"{}\"", shorten(one), shorten(other));
                    if a == b {
                        let cause = format!("{place}: {pair} are the same term");
                        return Err(refuse(cause, "a pair has two terms; case is ignored"));
                    }
                    let (first, second) = if a < b { (&a, &b) } else { (&b, &a) };
                    if !seen.insert(fingerprint(&format!("{first}\0{second}"))) {
                        let cause = format!("{place}: the pair {pair} is given twice");
                        let hint = "give each pair one count, in either order; case is ignored";
                        return Err(refuse(cause, hint));
                    }
                    if let (Some(a), Some(b)) = (rows.term(&a), rows.term(&b)) {
                        statistics.count_pair(a, b, count).expect(CHECKED);
                    }
                }
            }
            _ => {
                let cause = match (term, one, other) {
                    (None, ..) => "there is no column term, nor term_a and term_b",
                    _ => "it has a column term and columns of pairs",
                };
                let hint = "the first line must name term,count or term_a,term_b,count";
                return Err(refuse(cause.to_owned(), hint));
            }
        }
        Ok(())
    })
}

/// What tells a text from all others, for all that is likely.
fn fingerprint(text: &str) -> u128 {
    let hash = |seed| u128::from(XxHash3_64::oneshot_with_seed(seed, text.as_bytes()));
    hash(0) << 64 | hash(1)
}

/// The queries there are, and those to ask.
fn choose(args: &args::Cover, rows: &Rows, estimates: &Estimates, talk: Talk) -> (Queries, Cover) {
    let method = match args.method {
        MethodName::AllPages => Method::AllPages,
        MethodName::FirstPage => Method::FirstPage,
    };
    let retrieval = Retrieval::new(args.page_size, args.top, method);
    let retrieval = retrieval.expect("what was typed is checked");
    let efficiency = match args.efficiency {
        EfficiencyName::Corrected => Efficiency::Corrected,
        EfficiencyName::Published => Efficiency::Published,
    };
    let limits = Limits {
        max_queries: args.max_queries,
        max_requests: args.max_requests,
        coverage: args.coverage,
        price: args.price,
    };
    let max_terms = usize::from(args.max_terms);
    if let Some(n) = args.keywords {
        let _choosing = talk.progress("choosing", None);
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        let sizes = (max_terms, n);
        return cover_by_keywords(rows, estimates, retrieval, efficiency, sizes, &limits);
    }
    let finding = talk.progress("finding queries", None);
    let queries = Queries::about(rows, estimates, &retrieval, efficiency, max_terms);
    drop(finding);
    talk.explain(format!("{} queries to choose from", count(queries.len())));
    let choosing = talk.progress("choosing", None);
    let cover = CoverProblem::new(&queries, rows, retrieval, efficiency).cover(&limits);
    drop(choosing);
    talk.explain(format!(
        "{} gains worked out",
        count(usize::try_from(cover.n_evaluations).unwrap_or(usize::MAX))
    ));
    (queries, cover)
}

fn write(
    rows: &Rows,
    queries: &Queries,
    cover: &Cover,
    out: Option<&Path>,
    unfinished: &Unfinished,
) -> Outcome<()> {
    let columns = [
        ("query", ColumnType::Text),
        ("n_local", ColumnType::Counts),
        ("n_server", ColumnType::Amounts),
        ("n_requests", ColumnType::Counts),
        ("gain", ColumnType::Amounts),
        ("covered", ColumnType::Amounts),
    ];
    let steps = || cover.steps.iter();
    let mut texts = Texts::default();
    steps().for_each(|step| texts.push(&queries.text(step.query, rows)));
    let n_local = steps().map(|step| queries.rows(step.query).len() as u64);
    let n_server = steps().map(|step| queries.n_server(step.query));
    let mut output = Output::new(out, &columns, unfinished)?;
    output.write(&[
        Cells::Texts(&texts),
        Cells::Counts(n_local.collect()),
        Cells::Amounts(n_server.collect()),
        Cells::Counts(steps().map(|step| step.n_requests).collect()),
        Cells::Amounts(steps().map(|step| step.gain).collect()),
        Cells::Amounts(steps().map(|step| step.covered).collect()),
    ])?;
    output.finish()
}

/// What a program wants to know of a cover.
#[derive(Serialize)]
struct Summary {
    n_queries: usize,
    n_requests: u64,
    coverage_ratio: f64,
    /// Null without a request.
    speedup_ratio: f64,
    n_rows: usize,
}

fn summarize(rows: &Rows, cover: &Cover, as_json: bool, talk: Talk) -> Outcome<()> {
    let n_requests = cover.n_requests();
    let summary = Summary {
        n_queries: cover.steps.len(),
        n_requests,
        coverage_ratio: cover.covered() / rows.len() as f64,
        speedup_ratio: cover.covered() / n_requests as f64,
        n_rows: rows.len(),
    };
    if as_json {
        return print_json(&summary);
    }
    let without = match rows.n_without_terms() {
        0 => String::new(),
        1 => "; 1 has no term, so no query finds it".to_owned(),
        n => format!("; {} have no term, so no query finds them", count(n)),
    };
    talk.say(format!(
        "  rows               {}{without}",
        count(rows.len())
    ));
    let requests = usize::try_from(n_requests).unwrap_or(usize::MAX);
    let requests = match requests {
        1 => "1 request".to_owned(),
        n => format!("{} requests", count(n)),
    };
    talk.say(format!(
        "  queries            {}, in {requests}",
        count(summary.n_queries)
    ));
    talk.say(format!(
        "  expected coverage  {}",
        percent(summary.coverage_ratio)
    ));
    if n_requests > 0 {
        talk.say(format!(
            "  expected speedup   {} rows a request; fetching by id has 1",
            significant(summary.speedup_ratio)
        ));
    }
    Ok(())
}
