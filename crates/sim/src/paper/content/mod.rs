//! Yang et al., on keeping a local copy fresh through keyword search (SIGMOD 2010).
//!
//! Its data (a list of papers from Google Scholar, the papers of Microsoft Research,
//! DVDs of Amazon, and DBLP and IMDB beside them) are lost, and so are the printed
//! values of its figures. [`corpora`] makes others that are like them as far as the
//! paper tells.

mod analysis;
mod citations;
mod corpora;
mod probes;

use super::{Computed, Entry, Exhibit, Paper, Setting};

/// The exhibits in reading order.
pub(super) fn exhibits() -> Vec<Exhibit> {
    let exhibit = |(id, title, compute): (_, _, fn(&Setting<'_>) -> Computed)| Exhibit {
        paper: Paper::Content,
        id,
        title,
        compute,
    };
    [analysis::EXHIBITS, citations::EXHIBITS, probes::EXHIBITS]
        .concat()
        .into_iter()
        .map(exhibit)
        .collect()
}

/// An id, a title, and what computes it.
type Listed = (&'static str, &'static str, fn(&Setting<'_>) -> Computed);

/// A number that is not compared digit by digit, and whether what is said of it
/// holds.
fn claim(quantity: impl Into<String>, printed: f64, computed: f64, holds: bool) -> Entry {
    Entry {
        printed: printed.into(),
        agrees: Some(holds),
        ..Entry::unprinted(quantity, computed)
    }
}
