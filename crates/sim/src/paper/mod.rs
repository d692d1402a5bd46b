//! Every table and figure of the papers: what was printed, what we compute,
//! whether they agree, and where the paper errs.

use crate::figure::Figure;
use crate::world::World;

/// One of the papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paper {
    /// Cho and Garcia-Molina, Synchronizing a database to improve freshness.
    Freshness,
    /// Cho and Ntoulas, Effective change detection using sampling.
    Sampling,
    /// Yang et al., on content freshness by keyword search.
    Content,
}

/// A table, figure, example, theorem or claim that can be computed again.
#[derive(Clone, Copy)]
pub struct Exhibit {
    /// Where it is from.
    pub paper: Paper,
    /// As in `table-5`, `figure-9`, `claim-…`.
    pub id: &'static str,
    /// What it shows, in a few words.
    pub title: &'static str,
    /// Computes it.
    pub compute: fn(&Setting<'_>) -> Computed,
}

/// What computing an exhibit may draw on.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// A history of changes.
    pub history: &'a World,
    /// Where random numbers start.
    pub seed: u64,
}

/// An exhibit, computed again.
#[derive(Debug, Clone, Default)]
pub struct Computed {
    /// One per table cell or claim.
    pub entries: Vec<Entry>,
    /// What it looks like; none for most tables.
    pub figures: Vec<Figure>,
    /// One or two sentences for a reader.
    pub remark: &'static str,
}

/// One number, or one list of numbers, beside what was printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Measure, policy or order, and parameters as in `r=1`.
    pub quantity: String,
    /// What the paper says.
    pub printed: Value,
    /// What we compute.
    pub computed: Value,
    /// Whether they agree; `None` where nothing was printed.
    pub agrees: Option<bool>,
    /// Why they do not, or what else is to be said.
    pub note: Option<String>,
}

/// A printed or computed value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Infinite, or not printed.
    None,
    /// A number.
    Number(f64),
    /// Several.
    List(Vec<f64>),
}
