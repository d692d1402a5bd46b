//! How wide a terminal is, and text that fits.

use std::io::IsTerminal;

use terminal_size::{Height, Width, terminal_size_of};
use unicode_width::UnicodeWidthStr;

/// Lines are this wide where nobody says how wide they may be.
const USUAL: usize = 80;

/// Of the terminal that standard output is, if it is one.
pub(crate) fn of_stdout() -> Option<usize> {
    let stdout = std::io::stdout();
    stdout
        .is_terminal()
        .then(|| columns(terminal_size_of(&stdout)))
}

/// The same for standard error.
pub(crate) fn of_stderr() -> Option<usize> {
    let stderr = std::io::stderr();
    stderr
        .is_terminal()
        .then(|| columns(terminal_size_of(&stderr)))
}

fn columns(size: Option<(Width, Height)>) -> usize {
    size.map_or(USUAL, |(width, _)| usize::from(width.0))
}

/// A text behind a label, in lines of a terminal's width (or the usual one), those after the
/// first beginning where it did. Only what has no blanks is cut.
pub(crate) fn wrapped(label: &str, text: &str, width: Option<usize>) -> Vec<String> {
    let indent = label.width();
    let room = width.unwrap_or(USUAL).saturating_sub(indent).max(NARROWEST);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.width() + 1 + word.width() > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&cut(word, room));
    }
    lines.push(line);
    let lines = lines.iter().enumerate();
    lines
        .map(|(at, line)| match at {
            0 => format!("{label}{line}"),
            _ => format!("{:indent$}{line}", ""),
        })
        .collect()
}

/// Text is no narrower than this, however narrow the terminal.
const NARROWEST: usize = 20;

/// As much of a text as fits, in the middle of which something is left out: both ends
/// of an address tell what it is.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let head = start(text.chars(), room.div_ceil(2));
    let tail = start(text.chars().rev(), room - head.width().min(room));
    let tail: String = tail.chars().rev().collect();
    format!("{head}…{tail}")
}

/// As much of a text as fits, of which the end is left out.
pub(crate) fn cut_at_end(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    format!("{}…", start(text.chars(), width.saturating_sub(1)))
}

fn start(chars: impl Iterator<Item = char>, room: usize) -> String {
    let mut start = String::new();
    for c in chars {
        start.push(c);
        if start.width() > room {
            start.pop();
            break;
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_where_it_says_the_least() {
        assert_eq!(cut("https://example.org/a/b", 20), "https://ex…e.org/a/b");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("日本語の文", 6), "日…文");
        assert_eq!(cut_at_end("abcdef", 4), "abc…");
        assert_eq!(cut("abc", 0), "…");
    }

    #[test]
    fn text_is_wrapped_between_words_below_its_label() {
        let text = "one two three four five six";
        let lines = wrapped("errors  ", text, Some(30));
        assert_eq!(lines, ["errors  one two three four", "        five six"]);
        assert_eq!(wrapped("a ", "", None), ["a "]);
        let long = wrapped("", &"x".repeat(100), None).concat();
        assert_eq!(long.chars().count(), 80);
    }
}
