//! `springtide reproduce`: the numbers of the papers beside ours.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;
use springtide_policy::Span;
use springtide_sim::paper::page::page;
use springtide_sim::paper::{Computed, Entry, Exhibit, Setting, Tally, Value, exhibits};
use springtide_sim::world::{Correlated, World};

use crate::args;
use crate::failure::{Failure, Outcome};
use crate::history::History;
use crate::json::print_json;
use crate::table::{Unfinished, shorten, unwritable, write_whole};
use crate::talk::{Talk, count};

/// Where random numbers start, so that everyone sees the same.
const SEED: u64 = 1;

pub(crate) fn run(args: &args::Reproduce, talk: Talk, unfinished: &Unfinished) -> Outcome<()> {
    let chosen = choose(&args.ids)?;
    if args.list {
        return list(&chosen, args.json);
    }
    let history = history(args.history.as_deref(), talk)?;
    let shown = compute(&chosen, &history, talk);
    if let Some(folder) = &args.out {
        write_files(folder, &shown, talk, unfinished)?;
    }
    if args.json {
        let rows = shown.iter().flat_map(|(exhibit, computed)| {
            let entries = computed.entries.iter();
            entries.map(|entry| Row::new(exhibit, entry))
        });
        return print_json(&rows.collect::<Vec<_>>());
    }
    let texts: Vec<_> = shown
        .iter()
        .map(|(e, computed)| text(e, computed))
        .collect();
    print(&texts.join("\n"))?;
    let Tally {
        n_agree,
        n_differ,
        n_unprinted,
    } = Tally::of(shown.iter().flat_map(|(_, computed)| &computed.entries));
    let verb = |n: usize, one: &str, many: &str| {
        let verb = if n == 1 { one } else { many };
        format!("{} {verb}", count(n))
    };
    talk.say(format!(
        "{}, {}, {} nothing printed to compare with",
        verb(n_agree, "agrees", "agree"),
        verb(n_differ, "differs", "differ"),
        verb(n_unprinted, "has", "have"),
    ));
    Ok(())
}

/// The exhibits with these ids, in reading order; all if there are no ids.
fn choose(ids: &[String]) -> Outcome<Vec<Exhibit>> {
    let all = exhibits();
    let is_called = |exhibit: &Exhibit, id: &str| exhibit.id == id || exhibit.full_id() == id;
    for id in ids {
        if !all.iter().any(|exhibit| is_called(exhibit, id)) {
            let nearest = nearest(id, &all);
            return Err(
                Failure::input(format!("nothing is called `{}`", shorten(id)))
                    .cause("the papers have no such table, figure, example, theorem or claim")
                    .hint(format!(
                        "did you mean {nearest}? springtide reproduce --list names them all"
                    )),
            );
        }
    }
    let is_chosen = |exhibit: &Exhibit| ids.iter().any(|id| is_called(exhibit, id));
    Ok(match ids {
        [] => all,
        _ => all.into_iter().filter(is_chosen).collect(),
    })
}

/// The id that takes the fewest strokes to get to.
fn nearest(id: &str, all: &[Exhibit]) -> String {
    let typed = id.to_lowercase();
    let names = all.iter().flat_map(|exhibit| {
        let short = exhibit.id.to_owned();
        [short, exhibit.full_id()]
    });
    let nearest = names.min_by_key(|name| n_strokes(&typed, name));
    nearest.unwrap_or_default()
}

/// How many characters to put in, take out or replace to make one text of another
/// (Levenshtein).
fn n_strokes(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    // Nobody means anything by more.
    for (line, c) in from.chars().take(200).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (place, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(c != *other);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[to.len()]
}

/// A line per exhibit: id and title.
fn list(chosen: &[Exhibit], as_json: bool) -> Outcome<()> {
    #[derive(Serialize)]
    struct Listed {
        paper: &'static str,
        id: &'static str,
        title: &'static str,
    }
    if as_json {
        let listed = chosen.iter().map(|exhibit| Listed {
            paper: exhibit.paper.name(),
            id: exhibit.id,
            title: exhibit.title,
        });
        return print_json(&listed.collect::<Vec<_>>());
    }
    let ids: Vec<_> = chosen.iter().map(Exhibit::full_id).collect();
    let width = ids.iter().map(String::len).max().unwrap_or(0);
    let mut lines = String::new();
    for (id, exhibit) in ids.iter().zip(chosen) {
        let _ = writeln!(lines, "{id:width$}  {}", exhibit.title);
    }
    print(&lines)
}

/// The changes that figures about a history are drawn from.
fn history(folder: Option<&Path>, talk: Talk) -> Outcome<World> {
    if let Some(folder) = folder {
        let history = History::read(folder, talk)?;
        let span = Span::days(history.days()).expect("a history has a length");
        return Ok(history.world(span, false));
    }
    let world = Correlated::default().world(SEED);
    world.map_err(|error| Failure::failed("cannot make a world").cause(error))
}

fn compute(chosen: &[Exhibit], history: &World, talk: Talk) -> Vec<(Exhibit, Computed)> {
    let setting = Setting {
        history,
        seed: SEED,
    };
    let progress = talk.progress("computing", Some(chosen.len() as u64));
    let compute = |exhibit: &Exhibit| {
        let computed = (exhibit.compute)(&setting);
        progress.advance(1);
        (*exhibit, computed)
    };
    chosen.par_iter().map(compute).collect()
}

/// Writes every figure and its points, and then the page.
fn write_files(
    folder: &Path,
    shown: &[(Exhibit, Computed)],
    talk: Talk,
    unfinished: &Unfinished,
) -> Outcome<()> {
    std::fs::create_dir_all(folder)
        .map_err(|error| unwritable(&folder.display().to_string(), &error))?;
    let mut n_figures = 0;
    for (exhibit, computed) in shown {
        for (letter, figure) in ('a'..).zip(&computed.figures) {
            let name = exhibit.full_id().replace('/', "-");
            let name = match computed.figures.len() {
                1 => name,
                _ => format!("{name}-{letter}"),
            };
            write_whole(
                &folder.join(format!("{name}.svg")),
                &figure.svg(),
                unfinished,
            )?;
            write_whole(
                &folder.join(format!("{name}.csv")),
                &figure.csv(),
                unfinished,
            )?;
            n_figures += 1;
        }
    }
    let index = folder.join("index.html");
    write_whole(&index, &page(shown), unfinished)?;
    let figures = match n_figures {
        1 => "1 figure".to_owned(),
        n => format!("{} figures", count(n)),
    };
    talk.say(format!("wrote {figures} and {}", index.display()));
    Ok(())
}

/// What a program wants to know of an entry.
#[derive(Serialize)]
struct Row<'a> {
    paper: &'static str,
    id: &'static str,
    quantity: &'a str,
    printed: serde_json::Value,
    computed: serde_json::Value,
    agrees: Option<bool>,
    note: Option<&'a str>,
}

impl<'a> Row<'a> {
    fn new(exhibit: &Exhibit, entry: &'a Entry) -> Self {
        let json = |value: &Value| match value {
            Value::None => serde_json::Value::Null,
            Value::Number(number) => (*number).into(),
            Value::List(numbers) => numbers.clone().into(),
        };
        Self {
            paper: exhibit.paper.name(),
            id: exhibit.id,
            quantity: &entry.quantity,
            printed: json(&entry.printed),
            computed: json(&entry.computed),
            agrees: entry.agrees,
            note: entry.note.as_deref(),
        }
    }
}

/// An exhibit for a person: a table, and its notes below.
fn text(exhibit: &Exhibit, computed: &Computed) -> String {
    let mut notes: Vec<&str> = Vec::new();
    let mut rows = vec![["quantity", "printed", "ours", "verdict"].map(str::to_owned)];
    for entry in &computed.entries {
        let mark = entry.note.as_deref().map(|note| {
            let known = notes.iter().position(|known| *known == note);
            let number = known.unwrap_or_else(|| {
                notes.push(note);
                notes.len() - 1
            });
            format!(" [{}]", number + 1)
        });
        rows.push([
            entry.title(),
            entry.theirs(),
            entry.ours(),
            entry.verdict().to_owned() + &mark.unwrap_or_default(),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = [0, 1, 2].map(|column| width(column).unwrap_or(0));
    let mut text = format!("{}  {}\n", exhibit.full_id(), exhibit.title);
    for line in wrapped(computed.remark) {
        let _ = writeln!(text, "  {line}");
    }
    text.push('\n');
    for [quantity, printed, ours, verdict] in &rows {
        let [first, second, third] = widths;
        let _ = writeln!(
            text,
            "  {quantity:first$}  {printed:>second$}  {ours:>third$}  {verdict}"
        );
    }
    for (number, note) in (1..).zip(notes) {
        let _ = writeln!(text, "  [{number}] {note}");
    }
    text
}

/// A text in lines that are easy to read.
fn wrapped(text: &str) -> Vec<String> {
    const MAX_WIDTH: usize = 88;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= MAX_WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn print(text: &str) -> Outcome<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    written.map_err(|error| unwritable("standard output", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strokes_are_counted() {
        assert_eq!(n_strokes("", "abc"), 3);
        assert_eq!(n_strokes("abc", ""), 3);
        assert_eq!(n_strokes("tabel-5", "table-5"), 2);
        assert_eq!(n_strokes("figure9", "figure-9"), 1);
        assert_eq!(n_strokes("same", "same"), 0);
    }

    #[test]
    fn remarks_are_wrapped_between_words() {
        let text = "word ".repeat(40);
        let lines = wrapped(&text);
        assert_eq!(lines.join(" "), text.trim_end());
        assert!(lines.iter().all(|line| line.len() <= 88) && lines.len() == 3);
        assert!(wrapped("").is_empty());
    }
}
