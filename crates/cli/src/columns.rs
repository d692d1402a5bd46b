//! Tables for people: columns side by side, cut to the width of the terminal. Addresses
//! give way first, then names and kinds; numbers never do.

use std::io::{IsTerminal, Write};

use unicode_width::UnicodeWidthStr;

use crate::args::ColourChoice;
use crate::failure::Outcome;
use crate::table::{shorten_to, unwritable};
use crate::width::{self, cut};

/// Rows under heads. Cells are made harmless to a terminal when they are added.
pub(crate) struct Columns {
    heads: Vec<&'static str>,
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

/// On which side a column is flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Right,
    /// Left, and cut where addresses have given way and there is still too little room: a
    /// name, a kind, a state.
    Left,
    /// Left, and the first to be cut: an address, a reason.
    Long,
    /// The same, and left out where hardly anything of it would be seen: the rest of its row
    /// says what it is.
    Extra,
}

/// What is long is cut to this first.
const LONG: usize = 16;
/// Then names are cut to this.
const NAME: usize = 8;
/// And then what is long again. Less than this is not worth showing.
const NARROWEST: usize = 5;
/// Blanks between columns.
const GAP: usize = 2;
/// A cell is no longer, even where the width is unknown.
const WIDEST: usize = 2000;

impl Columns {
    pub(crate) fn new(columns: &[(&'static str, Side)]) -> Self {
        Self {
            heads: columns.iter().map(|column| column.0).collect(),
            sides: columns.iter().map(|column| column.1).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.heads.len());
        let cells = cells.iter().map(|cell| shorten_to(cell, WIDEST));
        self.rows.push(cells.collect());
    }

    /// Leaves out those of these columns that say the same in every row.
    pub(crate) fn leave_out(&mut self, heads: &[&str], cell: &str) {
        for head in heads {
            let Some(at) = self.heads.iter().position(|known| known == head) else {
                continue;
            };
            if self.rows.iter().all(|row| row[at] == cell) {
                self.leave_out_whole(head);
            }
        }
    }

    /// Leaves out a column.
    pub(crate) fn leave_out_whole(&mut self, head: &str) {
        if let Some(at) = self.heads.iter().position(|known| *known == head) {
            self.heads.remove(at);
            self.sides.remove(at);
            self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Prints them on standard output.
    pub(crate) fn print(&self, colour: Colour) -> Outcome<()> {
        let text = self.lay_out(width::of_stdout(), colour);
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(|error| unwritable("standard output", &error))
    }

    /// How wide each column is, so that all fit if they can; 0 for one that is left out.
    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.heads.iter().map(|head| head.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let Some(width) = width else {
            return widths;
        };
        let natural = widths.clone();
        let total = |widths: &[usize]| {
            let shown = widths.iter().filter(|width| **width > 0);
            shown
                .map(|width| width + GAP)
                .sum::<usize>()
                .saturating_sub(GAP)
        };
        let shrink = |widths: &mut [usize], sides: &[Side], least: usize| {
            for (at, side) in self.sides.iter().enumerate() {
                if sides.contains(side) {
                    let excess = total(widths).saturating_sub(width);
                    widths[at] -= excess.min(widths[at].saturating_sub(least));
                }
            }
        };
        let give_way = |widths: &mut [usize]| {
            shrink(widths, &[Side::Long, Side::Extra], LONG);
            shrink(widths, &[Side::Left], NAME);
        };
        give_way(&mut widths);
        let extra = self.sides.iter().position(|side| *side == Side::Extra);
        if let Some(extra) = extra.filter(|_| total(&widths) > width) {
            // Names have their room back.
            widths = natural;
            widths[extra] = 0;
            give_way(&mut widths);
        }
        shrink(&mut widths, &[Side::Long], NARROWEST);
        widths
    }

    fn lay_out(&self, width: Option<usize>, colour: Colour) -> String {
        let widths = self.widths(width);
        let heads: Vec<String> = self.heads.iter().map(ToString::to_string).collect();
        let mut text = String::new();
        let push = |cells: &[String]| {
            let mut line = String::new();
            for (position, ((cell, &width), side)) in
                cells.iter().zip(&widths).zip(&self.sides).enumerate()
            {
                if width == 0 {
                    continue;
                }
                if position > 0 {
                    line.push_str("  ");
                }
                let cell = cut(cell, width);
                let gap = " ".repeat(width - cell.width().min(width));
                match side {
                    Side::Right => line.extend([gap, cell]),
                    Side::Left | Side::Long | Side::Extra => line.extend([cell, gap]),
                }
            }
            line.truncate(line.trim_end().len());
            line
        };
        let head = push(&heads);
        if colour == Colour::Shown {
            text.push_str(&format!("\u{1b}[1m{head}\u{1b}[0m\n"));
        } else {
            text.push_str(&head);
            text.push('\n');
        }
        for row in &self.rows {
            text.push_str(&push(row));
            text.push('\n');
        }
        text
    }
}

/// Whether standard output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Shown,
    Plain,
}

impl Colour {
    /// What was asked for with `--color`; else it is for terminals whose users have not
    /// said that they want none.
    pub(crate) fn chosen(choice: Option<ColourChoice>) -> Self {
        let is_shown = match choice.unwrap_or(ColourChoice::Auto) {
            ColourChoice::Always => true,
            ColourChoice::Never => false,
            ColourChoice::Auto => {
                std::io::stdout().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        };
        match is_shown {
            true => Self::Shown,
            false => Self::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_cells_are_cut_in_the_middle_to_fit() {
        let mut columns = Columns::new(&[("id", Side::Right), ("locator", Side::Long)]);
        columns.push(vec!["7".into(), "https://example.org/a/b".into()]);
        columns.push(vec!["12".into(), "x".into()]);
        assert_eq!(
            columns.lay_out(None, Colour::Plain),
            "id  locator\n 7  https://example.org/a/b\n12  x\n"
        );
        assert_eq!(
            columns.lay_out(Some(24), Colour::Plain),
            "id  locator\n 7  https://ex…e.org/a/b\n12  x\n"
        );
    }

    #[test]
    fn names_give_way_after_addresses_and_numbers_never() {
        let mut columns = Columns::new(&[
            ("name", Side::Left),
            ("n", Side::Right),
            ("url", Side::Extra),
        ]);
        let (name, url) = ("a-name-of-sixteen", "https://example.org/a/b/c");
        columns.push(vec![name.into(), "1,234".into(), url.into()]);
        let line = |width| {
            let text = columns.lay_out(Some(width), Colour::Plain);
            text.lines().last().unwrap().to_owned()
        };
        assert_eq!(line(51), format!("{name}  1,234  {url}"));
        assert_eq!(line(42), format!("{name}  1,234  https://…g/a/b/c"));
        assert_eq!(line(36), "a-nam…xteen  1,234  https://…g/a/b/c");
        // Names have their room back where there is none for the address.
        assert_eq!(line(30), format!("{name}  1,234"));
        assert_eq!(line(15), "a-na…een  1,234");
    }

    #[test]
    fn cells_do_nothing_to_a_terminal() {
        let mut columns = Columns::new(&[("a", Side::Left)]);
        columns.push(vec!["\u{1b}[31mred\n".into()]);
        assert_eq!(
            columns.lay_out(None, Colour::Plain),
            "a\n\\u{1b}[31mred\\n\n"
        );
    }
}
