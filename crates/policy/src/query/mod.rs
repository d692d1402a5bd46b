//! Which keyword queries refresh the rows of a search source.
//!
//! Some sources can only be asked by keywords: product search, publication search.
//! Each of our *rows* there (its elements) has an id and some text; one good *query*
//! returns many of them at once, in pages. It takes few requests if it finds many of
//! ours and little else.
//!
//! - [`terms_in`] takes the cells of a row apart, and [`Rows`] keeps what terms each
//!   row has and what refreshing it is worth.
//! - [`Statistics`] are what is known of the server, from which [`Estimates`] of how
//!   many rows a query finds there follow.
//! - [`Queries`] are the queries there are; a [`CoverProblem`] of them gives a [`Cover`]:
//!   what to ask, in order, once.
//! - [`Live`] chooses from moment to moment, as rows grow stale.
//! - [`rounds`] has the content paper's order and interval, as published.
//! - [`staleness`] says how wrong a copy is.
//!
//! ```
//! use springtide_policy::query::{
//!     CoverProblem, Efficiency, Limits, Queries, Retrieval, RowsBuilder, Split, Statistics, StopWords,
//!     terms_in,
//! };
//!
//! let stop_words = StopWords::english();
//! let mut rows = RowsBuilder::new();
//! for title in ["The Tides of Venice", "Tides and Waves", "Waves of Venice"] {
//!     rows.add(terms_in(title, Split::Words, &stop_words), 1.0)?;
//! }
//! let rows = rows.build();
//! let mut statistics = Statistics::new(&rows);
//! for (term, count) in [("tides", 8.0), ("venice", 70.0), ("waves", 9000.0)] {
//!     let term = rows.term(term).expect("a row has it");
//!     statistics.count_term(term, count)?;
//! }
//! statistics.set_server_rows(100_000.0)?;
//!
//! let (retrieval, efficiency) = (Retrieval::USUAL, Efficiency::Corrected);
//! let estimates = statistics.estimates(&rows);
//! let queries = Queries::about(&rows, &estimates, &retrieval, efficiency, 2);
//! let cover = CoverProblem::new(&queries, &rows, retrieval, efficiency).cover(&Limits::default());
//! let asked: Vec<String> = cover
//!     .steps
//!     .iter()
//!     .map(|step| queries.text(step.query, &rows))
//!     .collect();
//! // One page has both about tides; the third takes a pair, since Venice alone has seven.
//! assert_eq!(asked, ["tides", "venice waves"]);
//! # Ok::<(), springtide_policy::Error>(())
//! ```

mod candidates;
mod exact;
mod greedy;
mod keywords;
mod live;
mod refine;
pub mod rounds;
mod rows;
mod server;
pub mod staleness;
mod surplus;
mod terms;

pub use candidates::{Efficiency, Method, Queries, Retrieval};
pub use exact::cheapest_cover;
pub use greedy::{Cover, CoverProblem, Limits, Step};
pub use keywords::cover_by_keywords;
pub use live::{BestPage, Live, Page};
pub use rows::{Rows, RowsBuilder, TermId};
pub use server::{Corpus, Estimates, Sample, Statistics, co_occurrence, scale_factor};
pub use terms::{Split, StopWords, Term, term_key, terms_in};
