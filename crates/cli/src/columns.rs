//! Tables for people: columns side by side, cut to the width of the terminal.

use std::io::{IsTerminal, Write};

use unicode_width::UnicodeWidthStr;

use crate::args::ColourChoice;
use crate::failure::Outcome;
use crate::table::{shorten_to, unwritable};

/// Rows under heads. Cells are made harmless to a terminal when they are added.
pub(crate) struct Columns {
    heads: Vec<&'static str>,
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

/// On which side a column is flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
    /// Left, and the first to be cut if there is too little room.
    Long,
}

/// Less than this is not worth showing.
const NARROWEST: usize = 16;
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
        let stdout = std::io::stdout().lock();
        let is_terminal = stdout.is_terminal();
        let width = is_terminal
            .then(terminal_size::terminal_size)
            .flatten()
            .map(|(width, _)| usize::from(width.0));
        let text = self.lay_out(width, colour);
        let mut stdout = stdout;
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(|error| unwritable("standard output", &error))
    }

    fn lay_out(&self, width: Option<usize>, colour: Colour) -> String {
        let mut widths: Vec<usize> = self.heads.iter().map(|head| head.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        if let Some(width) = width {
            let total: usize = widths.iter().sum::<usize>() + 2 * (widths.len().max(1) - 1);
            let mut excess = total.saturating_sub(width);
            for (column, side) in widths.iter_mut().zip(&self.sides) {
                if *side == Side::Long {
                    let cut = excess.min(column.saturating_sub(NARROWEST));
                    *column -= cut;
                    excess -= cut;
                }
            }
        }
        let heads: Vec<String> = self.heads.iter().map(ToString::to_string).collect();
        let mut text = String::new();
        let push = |cells: &[String]| {
            let mut line = String::new();
            for (position, ((cell, &width), side)) in
                cells.iter().zip(&widths).zip(&self.sides).enumerate()
            {
                if position > 0 {
                    line.push_str("  ");
                }
                let cell = if cell.width() > width {
                    cut(cell, width)
                } else {
                    cell.clone()
                };
                let gap = " ".repeat(width - cell.width().min(width));
                match side {
                    Side::Right => line.extend([gap, cell]),
                    Side::Left | Side::Long => line.extend([cell, gap]),
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

/// As much of a text as fits, in the middle of which something is left out: both ends
/// of an address tell what it is.
fn cut(text: &str, width: usize) -> String {
    let (mut head, mut tail) = (String::new(), String::new());
    let room = width.saturating_sub(1);
    let chars: Vec<char> = text.chars().collect();
    for &c in &chars {
        head.push(c);
        if head.width() > room.div_ceil(2) {
            head.pop();
            break;
        }
    }
    for &c in chars.iter().rev() {
        tail.insert(0, c);
        if tail.width() + head.width() > room {
            tail.remove(0);
            break;
        }
    }
    format!("{head}…{tail}")
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
    fn cells_do_nothing_to_a_terminal() {
        let mut columns = Columns::new(&[("a", Side::Left)]);
        columns.push(vec!["\u{1b}[31mred\n".into()]);
        assert_eq!(
            columns.lay_out(None, Colour::Plain),
            "a\n\\u{1b}[31mred\\n\n"
        );
    }
}
