//! Tables in files: CSV (plain, gzip, zstd) and Parquet, in and out.
//!
//! An [`Input`] can be opened as often as it takes, each time for some of its
//! [`Column`]s, and comes in [`Batch`]es. What is wrong with it is said with the
//! line and the cell. An [`Output`] appears whole or not at all.

mod csv;
mod input;
mod output;
mod parquet;

pub(crate) use input::Input;
pub(crate) use output::{
    Cells, ColumnType, Output, Unfinished, WholeFile, unwritable, write_whole,
};

use crate::failure::{Failure, Outcome};

/// A column that a reader wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Text that identifies something; never empty.
    Id,
    /// Text that may be empty.
    Text,
    /// A number that fulfils a condition; never empty.
    Number(Condition),
    /// The same, where `false` and `true` stand for 0 and 1.
    Flag(Condition),
    /// A number as for `Number`, or nothing.
    Optional(Condition),
}

/// What a number must be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    pub(crate) holds: fn(f64) -> bool,
    /// The condition in words: "a rate is zero or more".
    pub(crate) says: &'static str,
    pub(crate) hint: &'static str,
}

/// Some consecutive rows, with the wanted columns in the wanted order.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) n_rows: usize,
    columns: Vec<Values>,
    /// Where in the file each row is, for messages; empty if row by row.
    places: Places,
}

#[derive(Debug)]
enum Values {
    /// A column that the file does not have.
    Absent,
    Text(Texts),
    /// Not a number where the cell was empty.
    Numbers(Vec<f64>),
}

#[derive(Debug)]
enum Places {
    /// The line of each row in a text file.
    Lines(Vec<u64>),
    /// The number of the first row, counted from one.
    Rows(u64),
}

impl Batch {
    /// How many columns were asked for.
    pub(crate) fn n_columns(&self) -> usize {
        self.columns.len()
    }

    /// A text column, if the file has it.
    pub(crate) fn texts(&self, column: usize) -> Option<&Texts> {
        match &self.columns[column] {
            Values::Text(texts) => Some(texts),
            Values::Absent | Values::Numbers(_) => None,
        }
    }

    /// A text column to keep, if the file has it.
    pub(crate) fn take_texts(&mut self, column: usize) -> Option<Texts> {
        match std::mem::replace(&mut self.columns[column], Values::Absent) {
            Values::Text(texts) => Some(texts),
            Values::Absent | Values::Numbers(_) => None,
        }
    }

    /// A column of numbers, if the file has it.
    pub(crate) fn numbers(&self, column: usize) -> Option<&[f64]> {
        match &self.columns[column] {
            Values::Numbers(numbers) => Some(numbers),
            Values::Absent | Values::Text(_) => None,
        }
    }

    /// Where a row is, in words: "line 3".
    pub(crate) fn place(&self, row: usize) -> String {
        match &self.places {
            Places::Lines(lines) => format!("line {}", lines[row]),
            Places::Rows(first) => format!("row {}", first + row as u64),
        }
    }
}

/// Many short texts in one piece of memory.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    bytes: String,
    ends: Vec<usize>,
}

impl Texts {
    pub(crate) fn push(&mut self, text: &str) {
        self.bytes.push_str(text);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// What they take up in memory.
    pub(crate) fn n_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// A cell that does not hold what its column promises.
fn bad_cell(source: &str, place: &str, column: &Column, cell: &str) -> Failure {
    let name = column.name;
    let failure = cannot_read(source);
    match column.kind {
        Kind::Id | Kind::Text => failure
            .cause(format!("{place}: {name} is empty"))
            .hint("every row needs one"),
        Kind::Number(_) | Kind::Flag(_) if cell.is_empty() => failure
            .cause(format!("{place}: {name} is empty"))
            .hint("fill it in, or drop the line"),
        Kind::Number(condition) | Kind::Flag(condition) | Kind::Optional(condition) => {
            let cell = shorten(cell);
            let Condition { says, hint, .. } = condition;
            let (says, hint) = match cell.trim().parse::<f64>() {
                Err(_) if matches!(column.kind, Kind::Flag(_)) => (says, hint),
                Err(_) => ("it is not a number", "give a number, or drop the line"),
                Ok(number) if !number.is_finite() => {
                    ("it is not finite", "give a finite number, or drop the line")
                }
                Ok(_) => (says, hint),
            };
            failure
                .cause(format!("{place}: {name} is \"{cell}\"; {says}"))
                .hint(hint)
        }
    }
}

/// The number in a cell, if it may be there.
fn number_in(kind: Kind, cell: &str) -> Option<f64> {
    let cell = cell.trim();
    match kind {
        Kind::Optional(_) if cell.is_empty() => Some(f64::NAN),
        Kind::Flag(_) if cell.eq_ignore_ascii_case("true") => Some(1.0),
        Kind::Flag(_) if cell.eq_ignore_ascii_case("false") => Some(0.0),
        Kind::Number(condition) | Kind::Flag(condition) | Kind::Optional(condition) => {
            let number: f64 = cell.parse().ok()?;
            (number.is_finite() && (condition.holds)(number)).then_some(number)
        }
        Kind::Id | Kind::Text => None,
    }
}

fn cannot_read(source: &str) -> Failure {
    Failure::input(format!("cannot read {source}"))
}

/// Where in a file each wanted column is; `None` for one that it lacks and may
/// lack.
fn find_columns(source: &str, wanted: &[Column], names: &[String]) -> Outcome<Vec<Option<usize>>> {
    let find = |column: &Column| {
        let mut places = (0..names.len()).filter(|&index| names[index] == column.name);
        match (places.next(), places.next()) {
            (Some(_), Some(_)) => Err(cannot_read(source)
                .cause(format!("two columns are named {}", column.name))
                .hint("rename one of them")),
            (Some(index), None) => Ok(Some(index)),
            (None, _) if !column.required => Ok(None),
            (None, _) if names.iter().all(String::is_empty) => Err(cannot_read(source)
                .cause("the first line is blank")
                .hint("the first line must name the columns")),
            (None, _) => {
                let required = wanted.iter().filter(|column| column.required);
                let required: Vec<_> = required.map(|column| column.name).collect();
                let found = shorten(&names.join(", "));
                Err(cannot_read(source)
                    .cause(format!("there is no column {}, only {found}", column.name))
                    .hint(format!("the first line must name {}", required.join(", "))))
            }
        }
    };
    wanted.iter().map(find).collect()
}

/// A text that fits into a message, and does nothing to a terminal.
pub(crate) fn shorten(text: &str) -> String {
    shorten_to(text, 60)
}

/// The same with another length.
pub(crate) fn shorten_to(text: &str, most: usize) -> String {
    let mut short: String = text.chars().take(most).flat_map(visible).collect();
    if text.chars().nth(most).is_some() {
        short.push('…');
    }
    short
}

fn visible(c: char) -> impl Iterator<Item = char> {
    let is_hidden = c.is_control() || is_invisible(c);
    let escaped = is_hidden.then(|| c.escape_unicode().to_string());
    let escaped = escaped.map(|escaped| match c {
        '\t' | '\r' | '\n' => c.escape_default().to_string(),
        _ => escaped,
    });
    let escaped = escaped.map(|escaped| escaped.chars().collect::<Vec<_>>());
    let plain = (!is_hidden).then_some(c);
    escaped.into_iter().flatten().chain(plain)
}

/// Characters that have no width, or that change in which direction others are shown: with
/// them a text looks like another.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use super::*;
    use crate::talk::Talk;

    const COLUMNS: [Column; 3] = [
        Column {
            name: "id",
            kind: Kind::Id,
            required: true,
        },
        Column {
            name: "rate_per_day",
            kind: Kind::Number(Condition {
                holds: |rate| rate >= 0.0,
                says: "a rate is zero or more",
                hint: "",
            }),
            required: true,
        },
        Column {
            name: "group",
            kind: Kind::Text,
            required: false,
        },
    ];

    /// Ids, rates and groups, or the error.
    fn read(bytes: &[u8]) -> Result<Vec<(String, f64, String)>, String> {
        let mut rows = Vec::new();
        let input = Input::from_bytes(bytes.to_vec()).map_err(|error| error.to_string())?;
        let progress = Talk::Quiet.progress("", None);
        let read = input.read(&COLUMNS, &progress, |batch| {
            for row in 0..batch.n_rows {
                let group = batch.texts(2).map_or("", |groups| groups.get(row));
                rows.push((
                    batch.texts(0).unwrap().get(row).to_owned(),
                    batch.numbers(1).unwrap()[row],
                    group.to_owned(),
                ));
            }
            Ok(())
        });
        read.map(|()| rows).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, f64, &str)]) {
        let rows = read(text.as_bytes()).unwrap();
        let rows: Vec<_> = rows
            .iter()
            .map(|(id, rate, group)| (&**id, *rate, &**group))
            .collect();
        assert_eq!(rows, expected);
    }

    #[track_caller]
    fn refuse(bytes: &[u8], cause: &str) {
        let error = read(bytes).unwrap_err();
        assert!(error.contains(cause), "{error}");
    }

    #[test]
    fn columns_are_found_by_name_in_any_order() {
        check(
            "group,x,rate_per_day,id\ng,0,1.5,a\n,,2,b\n",
            &[("a", 1.5, "g"), ("b", 2.0, "")],
        );
        check("\u{feff}id , rate_per_day\na,1\n", &[("a", 1.0, "")]);
    }

    #[test]
    fn quotes_line_ends_and_blank_lines_are_understood() {
        let expected = [
            ("a,b", 1.0, "say \"x\""),
            ("c\nd", 2.0, ""),
            ("e", 3.0, "é"),
        ];
        check(
            "id,rate_per_day,group\r\n\"a,b\",1,\"say \"\"x\"\"\"\r\n\r\n\"c\nd\",2,\r\ne,3,é",
            &expected,
        );
    }

    #[test]
    fn lines_are_counted_as_an_editor_does() {
        refuse(
            b"id,rate_per_day\na,1\n\n\"b\nb\",2\n\nc,-1\n",
            "line 7: rate_per_day is \"-1\"",
        );
        refuse(
            b"id,rate_per_day\n\n\na,x\n",
            "line 4: rate_per_day is \"x\"; it is not a number",
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        refuse(b"", "it is empty");
        refuse(
            b"id,rate_per_day\r\na,1\r\n\r\nb,-1\r\n",
            "line 4: rate_per_day",
        );
        refuse(b"id,rate_per_day\ra,1\r", "line 1: a carriage return");
        refuse(b",\n", "the first line is blank");
        refuse(b"id,rate_per_day\na,\x1b[31m\n", "\"\\u{1b}[31m\"");
        refuse(
            b"id,rate\na,1\n",
            "there is no column rate_per_day, only id, rate",
        );
        refuse(b"id,id,rate_per_day\na,b,1\n", "two columns are named id");
        refuse(
            b"id,rate_per_day\na,1\nb\n",
            "line 3 has 1 cell, the first line 2 cells",
        );
        refuse(b"id,rate_per_day\na,1,2\n", "line 2 has 3 cells");
        refuse(b"id,rate_per_day\n,1\n", "line 2: id is empty");
        refuse(b"id,rate_per_day\na,\n", "line 2: rate_per_day is empty");
        refuse(
            b"id,rate_per_day\na,inf\n",
            "line 2: rate_per_day is \"inf\"; it is not finite",
        );
        refuse(b"id,rate_per_day\na,1e999\n", "it is not finite");
        refuse(b"id,rate_per_day\na,nan\n", "it is not finite");
        refuse(b"id,rate_per_day\na\xff,1\n", "line 2: it is not UTF-8");
        refuse(b"id,rate_per_day\na\0,1\n", "line 2: it holds a zero byte");
        refuse(b"\xff\xfei\0d\0", "it is encoded as UTF-16");
        refuse(
            b"id,rate_per_day\na,1\n\"b,2\n",
            "line 3: a row begins here that does not end",
        );
        refuse(
            b"id,rate_per_day\nb\"x\",2\n",
            "line 2: a quote within a cell",
        );
        refuse(
            b"id,rate_per_day\n\"b\"x,2\n",
            "line 2: a quote within a cell",
        );
    }

    /// Rows with quoted line breaks, many blocks long.
    fn long_table(n: usize) -> (String, Vec<(String, f64, String)>) {
        let rows: Vec<_> = (0..n)
            .map(|i| {
                (
                    format!("row {i},\n\"{}\"", i % 7),
                    i as f64 / 8.0,
                    "g".repeat(i % 50),
                )
            })
            .collect();
        let mut text = "id,rate_per_day,group\n".to_owned();
        for (id, rate, group) in &rows {
            text += &format!("\"{}\",{rate},{group}\n", id.replace('"', "\"\""));
        }
        (text, rows)
    }

    #[test]
    fn blocks_end_where_rows_do() {
        let (text, rows) = long_table(100_000);
        assert!(text.len() > 4 << 20);
        assert_eq!(read(text.as_bytes()).unwrap(), rows);
        // The line of an error far down counts all before it.
        let text = format!("{text}x,-1,\n");
        refuse(text.as_bytes(), &format!("line {}: ", text.lines().count()));
    }

    #[test]
    fn gzip_and_zstd_are_read_and_cuts_are_noticed() {
        let (text, rows) = long_table(20_000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
        for bytes in [gzip, zstd] {
            assert_eq!(read(&bytes).unwrap(), rows);
            for end in [5, bytes.len() / 2, bytes.len() - 1] {
                let error = read(&bytes[..end]).unwrap_err();
                assert!(
                    error.contains("cut short") || error.contains("damaged"),
                    "{error}"
                );
            }
        }
    }

    /// A small Parquet file of the same rows as [`long_table`].
    fn parquet_table(n: usize) -> (Vec<u8>, Vec<(String, f64, String)>) {
        let (_, rows) = long_table(n);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let columns = [
            ("id", ColumnType::Text),
            ("rate_per_day", ColumnType::Numbers),
            ("group", ColumnType::Text),
        ];
        let (mut ids, mut groups) = (Texts::default(), Texts::default());
        rows.iter().for_each(|row| ids.push(&row.0));
        rows.iter().for_each(|row| groups.push(&row.2));
        let mut output = Output::new(Some(&path), &columns, &Unfinished::default()).unwrap();
        let rates = rows.iter().map(|row| row.1).collect();
        output
            .write(&[
                Cells::Texts(&ids),
                Cells::Numbers(rates),
                Cells::Texts(&groups),
            ])
            .unwrap();
        assert!(!path.exists(), "a file appears only when it is whole");
        output.finish().unwrap();
        (std::fs::read(path).unwrap(), rows)
    }

    #[test]
    fn parquet_is_read_and_cuts_are_noticed() {
        let (bytes, rows) = parquet_table(3000);
        assert_eq!(read(&bytes).unwrap(), rows);
        for end in [4, 100, bytes.len() / 2, bytes.len() - 1] {
            refuse(&bytes[..end], "damaged");
        }
    }

    #[test]
    fn names_that_do_not_fit_the_bytes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.gz", "a.csv.zst", "a.parquet"] {
            let path = folder.path().join(name);
            std::fs::write(&path, "id,rate_per_day\na,1\n").unwrap();
            let error = Input::new(&path).unwrap_err().to_string();
            assert!(error.contains("its first bytes do not"), "{error}");
        }
        let error = Input::new(Path::new("nowhere.csv"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("there is no such file"), "{error}");
    }

    /// Any bytes are a table or an error, and a table is what another reader sees.
    #[test]
    fn fuzz_csv() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let mut text = b"id,rate_per_day\n".to_vec();
            // Mostly characters that mean something to the reader.
            let alphabet = b"ab1.,,\"\"\n\n\r-e \xc3\xa9";
            text.extend(bytes.iter().map(|byte| match byte {
                0..=199 => alphabet[*byte as usize % alphabet.len()],
                other => *other,
            }));
            if let Ok(rows) = read(&text) {
                let mut reader = ::csv::Reader::from_reader(text.as_slice());
                let other: Vec<_> = reader
                    .records()
                    .map(|record| record.map(|record| record[0].to_owned()).unwrap())
                    .collect();
                let ours: Vec<_> = rows.into_iter().map(|row| row.0).collect();
                assert_eq!(ours, other);
            }
        });
    }

    #[test]
    fn fuzz_any_bytes() {
        bolero::check!()
            .with_type::<(u8, Vec<u8>)>()
            .for_each(|(kind, bytes)| {
                let mut whole = match kind % 4 {
                    0 => Vec::new(),
                    1 => vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3],
                    2 => vec![0x28, 0xb5, 0x2f, 0xfd],
                    _ => b"PAR1".to_vec(),
                };
                whole.extend(bytes);
                let _ = read(&whole);
            });
    }

    #[test]
    fn fuzz_damaged_parquet() {
        crate::panics::install();
        let (good, _) = parquet_table(50);
        bolero::check!()
            .with_type::<Vec<(u16, u8)>>()
            .for_each(|damage| {
                let mut bytes = good.clone();
                for (place, byte) in damage.iter().take(4) {
                    let place = *place as usize % bytes.len();
                    bytes[place] ^= byte;
                }
                let _ = read(&bytes);
            });
    }

    #[test]
    fn what_cannot_be_seen_is_shown_escaped() {
        assert_eq!(
            shorten("a\u{202e}b\u{200b}\u{feff}c"),
            "a\\u{202e}b\\u{200b}\\u{feff}c"
        );
        assert_eq!(shorten("a\tb\u{1b}[1m"), "a\\tb\\u{1b}[1m");
        assert_eq!(shorten("größe \u{5d0} 日本"), "größe \u{5d0} 日本");
    }
}
