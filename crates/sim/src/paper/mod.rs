//! Every table and figure of the papers: what was printed, what we compute,
//! whether they agree, and where the paper errs.
//!
//! An [`Exhibit`] is a table, figure, example, theorem or claim with the function
//! that computes it again; [`exhibits`] are all of them. What comes of it is
//! [`Computed`]: an [`Entry`] per number, figures, and a remark for a reader.
//! [`page`](page::page) puts all of it on one page.
//!
//! Nothing here has a formula of its own: they are those of `springtide-policy`.
//! Where a paper prints a formula, it is written down here as printed, to be
//! compared with.

mod content;
mod freshness;
pub mod page;
mod sampling;

use std::fmt;

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
    /// Digits after the point that were printed, where digits were printed.
    digits: Option<usize>,
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

/// How many entries agree with what was printed, and how many do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Ours rounds to what was printed.
    pub n_agree: usize,
    /// It does not; the note says why.
    pub n_differ: usize,
    /// Nothing was printed.
    pub n_unprinted: usize,
}

/// All exhibits, paper by paper, each in reading order.
pub fn exhibits() -> Vec<Exhibit> {
    [
        freshness::exhibits(),
        sampling::exhibits(),
        content::exhibits(),
    ]
    .concat()
}

impl Paper {
    /// The word for it in ids and in names of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Freshness => "freshness",
            Self::Sampling => "sampling",
            Self::Content => "content",
        }
    }

    /// Who wrote it, and where.
    pub fn citation(self) -> &'static str {
        match self {
            Self::Freshness => {
                "Junghoo Cho and Hector Garcia-Molina, Synchronizing a database to improve \
                 freshness (SIGMOD 2000; technical report with proofs, 1999)"
            }
            Self::Sampling => {
                "Junghoo Cho and Alexandros Ntoulas, Effective change detection using sampling \
                 (VLDB 2002)"
            }
            Self::Content => {
                "Yang et al., on keeping a local copy fresh through keyword search (SIGMOD 2010)"
            }
        }
    }
}

impl Exhibit {
    /// The id with the paper, as in `freshness/table-5`: unique among all exhibits.
    pub fn full_id(&self) -> String {
        format!("{}/{}", self.paper.name(), self.id)
    }
}

impl fmt::Debug for Exhibit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full_id())
    }
}

impl Entry {
    /// A number of which the paper says nothing.
    pub(crate) fn unprinted(quantity: impl Into<String>, computed: impl Into<Value>) -> Self {
        Self {
            quantity: quantity.into(),
            printed: Value::None,
            computed: computed.into(),
            agrees: None,
            note: None,
            digits: None,
        }
    }

    /// A number printed with so many digits after the point (before it, if negative),
    /// which agrees if ours rounds to it.
    pub(crate) fn rounds_to(
        quantity: impl Into<String>,
        printed: f64,
        digits: i32,
        computed: f64,
    ) -> Self {
        Self {
            printed: printed.into(),
            agrees: Some(rounds_to(computed, digits, printed)),
            digits: printed_digits(digits),
            ..Self::unprinted(quantity, computed)
        }
    }

    /// Numbers printed with so many digits after the point, which agree if each of
    /// ours rounds to its own.
    pub(crate) fn all_round_to(
        quantity: impl Into<String>,
        printed: &[f64],
        digits: i32,
        computed: &[f64],
    ) -> Self {
        let mut pairs = printed.iter().zip(computed);
        let agrees = printed.len() == computed.len()
            && pairs.all(|(printed, computed)| rounds_to(*computed, digits, *printed));
        Self {
            printed: printed.into(),
            agrees: Some(agrees),
            digits: printed_digits(digits),
            ..Self::unprinted(quantity, computed)
        }
    }

    /// The value of a printed formula, which agrees if ours is the same but for
    /// rounding. A formula that has no value there has printed nothing.
    pub(crate) fn equals(quantity: impl Into<String>, printed: f64, computed: f64) -> Self {
        // The printed forms cancel; nine digits are what they all keep.
        let is_near = computed.is_finite()
            && (computed - printed).abs() <= 1e-9 * computed.abs().max(printed.abs());
        Self {
            printed: printed.into(),
            agrees: printed.is_finite().then_some(is_near),
            ..Self::unprinted(quantity, computed)
        }
    }

    /// A statement that has no exceptions, and how many we found.
    pub(crate) fn holds(quantity: impl Into<String>, n_exceptions: usize) -> Self {
        Self::rounds_to(quantity, 0.0, 0, n_exceptions as f64)
    }

    /// The quantity for a reader, in the letters of the papers: `λ=1` for `lambda=1`.
    pub fn title(&self) -> String {
        let title = self.quantity.replace("lambda", "λ");
        title.replace("delta2", "δ²")
    }

    /// The printed value for a reader, with as many digits as were printed.
    pub fn theirs(&self) -> String {
        let digits = |number: &f64| match self.digits {
            Some(digits) => format!("{number:.digits$}"),
            None => significant(*number),
        };
        match &self.printed {
            Value::None => self.printed.to_string(),
            Value::Number(number) => digits(number),
            Value::List(numbers) => numbers.iter().map(digits).collect::<Vec<_>>().join(", "),
        }
    }

    /// The computed value for a reader: there always is one, if only infinity.
    pub fn ours(&self) -> String {
        match &self.computed {
            Value::None => "∞".to_owned(),
            value => value.to_string(),
        }
    }

    /// Whether they agree, in a word.
    pub fn verdict(&self) -> &'static str {
        match self.agrees {
            Some(true) => "agrees",
            Some(false) => "differs",
            None => "not printed",
        }
    }

    /// The same with a note.
    #[must_use]
    pub(crate) fn noted(self, note: impl Into<String>) -> Self {
        let note = Some(note.into());
        Self { note, ..self }
    }
}

impl Tally {
    /// Counts.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut tally = Self::default();
        for entry in entries {
            match entry.agrees {
                Some(true) => tally.n_agree += 1,
                Some(false) => tally.n_differ += 1,
                None => tally.n_unprinted += 1,
            }
        }
        tally
    }
}

/// Digits after the point as they were printed. More than any paper prints say how near a
/// limit is come to, and of that no digits were printed.
fn printed_digits(digits: i32) -> Option<usize> {
    const MOST: i32 = 4;
    (digits <= MOST).then_some(digits.max(0) as usize)
}

fn rounds_to(computed: f64, digits: i32, printed: f64) -> bool {
    let scale = 10_f64.powi(digits);
    // A printed .005 need not be one for the computer.
    ((computed * scale).round() - printed * scale).abs() < 1e-6
}

impl From<f64> for Value {
    /// What is infinite, or no number, is `None`.
    fn from(number: f64) -> Self {
        if number.is_finite() {
            Self::Number(number)
        } else {
            Self::None
        }
    }
}

impl From<&[f64]> for Value {
    fn from(numbers: &[f64]) -> Self {
        Self::List(numbers.to_vec())
    }
}

impl fmt::Display for Value {
    /// Six significant digits are more than any paper prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("–"),
            Self::Number(number) => f.write_str(&significant(*number)),
            Self::List(numbers) => {
                let numbers: Vec<_> = numbers.iter().copied().map(significant).collect();
                f.write_str(&numbers.join(", "))
            }
        }
    }
}

/// A number with at most six significant digits and no trailing zeros.
fn significant(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 {
        return "0".to_owned();
    }
    if !(1e-5..1e9).contains(&size) {
        return format!("{number:.3e}");
    }
    let digits = (5.0 - size.log10().floor()).max(0.0) as usize;
    let text = format!("{number:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use springtide_policy::{Element, Groups, Rate};

    use super::*;

    fn small_world() -> World {
        let rates: Vec<Rate> = [1.0 / 10.0; 40]
            .into_iter()
            .chain([1.0 / 30.0; 40])
            .chain([0.0, 5.0])
            .map(|rate| Rate::per_day(rate).unwrap())
            .collect();
        let elements = rates.iter().map(|_| Element::default()).collect();
        World::poisson(elements, Groups::new(), rates, 730.0, 1)
    }

    #[test]
    fn every_exhibit_has_its_own_id_and_something_to_show_which_is_the_same_every_time() {
        let world = small_world();
        let setting = Setting {
            history: &world,
            seed: 1,
        };
        let mut ids = HashSet::new();
        for exhibit in exhibits() {
            assert!(ids.insert(exhibit.full_id()), "{exhibit:?} is there twice");
            let computed = (exhibit.compute)(&setting);
            let again = (exhibit.compute)(&setting);
            assert_eq!(computed.entries, again.entries, "{exhibit:?}");
            assert!(!computed.entries.is_empty(), "{exhibit:?}");
            assert!(!computed.remark.is_empty(), "{exhibit:?}");
            let is_figure = exhibit.id.starts_with("figure");
            assert!(!is_figure || !computed.figures.is_empty(), "{exhibit:?}");
            let mut quantities = HashSet::new();
            for entry in &computed.entries {
                assert!(quantities.insert(&entry.quantity), "{exhibit:?} {entry:?}");
                if entry.agrees == Some(false) {
                    assert!(entry.note.is_some(), "{exhibit:?} {entry:?}");
                }
                let is_printed = entry.printed != Value::None;
                assert_eq!(is_printed, entry.agrees.is_some(), "{exhibit:?} {entry:?}");
            }
        }
    }

    #[test]
    fn a_number_agrees_if_it_rounds_to_what_was_printed() {
        let agrees = |printed, digits, computed| {
            Entry::rounds_to("", printed, digits, computed).agrees == Some(true)
        };
        assert!(agrees(0.46, 2, 0.464_21));
        assert!(!agrees(0.12, 2, 0.128_7));
        assert!(agrees(400.0, -2, 406.0));
        assert!(!agrees(400.0, 0, 406.0));
        assert!(!agrees(0.0, 0, f64::INFINITY));
        assert!(Entry::all_round_to("", &[2.0, 3.0], 0, &[2.0]).agrees == Some(false));
        assert_eq!(Entry::equals("", f64::NAN, 1.0).agrees, None);
        assert_eq!(Entry::equals("", 1.0, f64::INFINITY).agrees, Some(false));
    }

    #[test]
    fn what_was_printed_has_its_digits() {
        assert_eq!(Entry::rounds_to("", 0.5, 2, 0.498).theirs(), "0.50");
        assert_eq!(Entry::rounds_to("", 400.0, -2, 406.0).theirs(), "400");
        let list = Entry::all_round_to("", &[1.0, 2.5], 1, &[1.0, 2.5]);
        assert_eq!(list.theirs(), "1.0, 2.5");
        assert_eq!(Entry::equals("", 0.5, 0.5).theirs(), "0.5");
        assert_eq!(Entry::rounds_to("limit", 1.0, 6, 1.0).theirs(), "1");
        assert_eq!(Entry::unprinted("e1 lambda=1", 2.0).theirs(), "–");
        let entry = Entry::unprinted("age r=1 delta2=0.5 lambda=1", 2.0);
        assert_eq!(entry.title(), "age r=1 δ²=0.5 λ=1");
    }

    #[test]
    fn values_are_short() {
        let text = |number: f64| Value::from(number).to_string();
        assert_eq!(text(0.632_120_558), "0.632121");
        assert_eq!(text(406.0), "406");
        assert_eq!(text(1e-12), "1.000e-12");
        assert_eq!(text(-0.25), "-0.25");
        assert_eq!(text(f64::INFINITY), "–");
        assert_eq!(Value::from([2.0, 3.0].as_slice()).to_string(), "2, 3");
    }
}
