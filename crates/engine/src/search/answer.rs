//! What a search box answers: bytes in, rows out.
//!
//! A tree of the whole answer would take up to a hundred times its bytes, and a compressed
//! answer grows a thousandfold before that: 14 kB on the wire once took 955 MB. So no tree
//! is built. What lies at a pointer is found as a part of the text, one step of the
//! pointer at a time, and only the fields of one row at a time become values.

use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::settings::AnswerShape;
use crate::source::{PageTally, ReadError};

/// A row as the server has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) id: String,
    /// Its fields, by name; null where the answer has none.
    pub(crate) fields: Map<String, Value>,
    /// Id and fields as one JSON object.
    pub(crate) body: Vec<u8>,
}

/// Results on a page that are looked at.
const MOST_RESULTS: usize = 10_000;
/// An id longer than this is none.
const LONGEST_ID: usize = 1024;
/// A total longer than this is none.
const LONGEST_TOTAL: usize = 64;
/// Bytes of the text of all fields of one row. A row with more of them is not used: of one
/// row this is far more than anyone compares, and as values it may be a hundred times as
/// much.
const LONGEST_FIELDS: usize = 256 << 10;

/// Reads a page, and hands over its rows, each once, in their order.
pub(crate) fn page(
    shape: &AnswerShape,
    body: &[u8],
    mut take: impl FnMut(Row) -> Result<(), ReadError>,
) -> Result<PageTally, ReadError> {
    let document = document(body)?;
    let listed = at(document, &shape.results).and_then(ResultList::of);
    let Some(listed) = listed else {
        let why = format!("it has no list of results at {:?}", shape.results);
        return Err(unusable(&why));
    };
    let mut tally = PageTally {
        n_results: listed.n_results,
        total: shape
            .total
            .as_ref()
            .and_then(|pointer| number(&value(at(document, pointer)?, LONGEST_TOTAL)?)),
        ..PageTally::default()
    };
    let mut seen = std::collections::BTreeSet::new();
    for result in listed.first {
        match id_of(shape, result).and_then(|id| row(shape, result, &id)) {
            Some(row) if seen.insert(row.id.clone()) => take(row)?,
            Some(_) => tally.n_repeated += 1,
            None => tally.n_unusable += 1,
        }
    }
    if tally.n_results > 0 && seen.is_empty() {
        return Err(unusable(&format!(
            "none of its {} results has an id at {:?} and any of the fields",
            tally.n_results, shape.id
        )));
    }
    Ok(tally)
}

/// The row that was asked for by its id; nothing, if that is what it says.
pub(crate) fn item(
    shape: &AnswerShape,
    wanted: &str,
    body: &[u8],
) -> Result<Option<Row>, ReadError> {
    let document = document(body)?;
    let pointer = shape.item.as_deref().unwrap_or_default();
    let Some(found) = at(document, pointer) else {
        return Err(unusable(&format!("it has no row at {pointer:?}")));
    };
    if found.get() == "null" {
        return Ok(None);
    }
    if let Some(other) = id_of(shape, found).filter(|id| id != wanted) {
        let why = format!("it is about another row, {:?}", shortened(&other));
        return Err(unusable(&why));
    }
    let row = row(shape, found, wanted);
    let none = || unusable(&format!("the row at {pointer:?} has none of the fields"));
    row.map(Some).ok_or_else(none)
}

fn unusable(why: &str) -> ReadError {
    ReadError::answer(format!("the answer cannot be used: {why}"))
}

/// An answer, seen to be JSON to its end.
fn document(body: &[u8]) -> Result<&RawValue, ReadError> {
    serde_json::from_slice(body).map_err(|error| {
        let start = body.trim_ascii_start();
        if start.starts_with(b"<") {
            unusable("it is HTML or XML, not JSON")
        } else if error.is_eof() {
            unusable("it breaks off")
        } else {
            unusable(&format!("it is not JSON: {error}"))
        }
    })
}

/// What lies at a pointer.
fn at<'a>(document: &'a RawValue, pointer: &str) -> Option<&'a RawValue> {
    let mut steps = pointer.split('/');
    // The empty pointer has no steps, any other begins with a slash.
    let start = steps.next().is_some_and(str::is_empty);
    steps.fold(start.then_some(document), |found, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        let mut reader = serde_json::Deserializer::from_str(found?.get());
        reader.deserialize_any(Step(&step)).ok().flatten()
    })
}

/// One step of a pointer, into an object or a list. The last of several members by one
/// name is the one that counts, as in a tree.
struct Step<'s>(&'s str);

impl<'de> Visitor<'de> for Step<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = members.next_key::<String>()? {
            if name == self.0 {
                found = Some(members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let is_number = self.0 == "0" || !self.0.starts_with(['0', '+']);
        let wanted = self.0.parse::<usize>().ok().filter(|_| is_number);
        let (mut found, mut number) = (None, 0);
        while let Some(part) = parts.next_element()? {
            if wanted == Some(number) {
                found = Some(part);
            }
            number += 1;
        }
        Ok(found)
    }
}

/// The results of a page.
#[derive(Default)]
struct ResultList<'a> {
    /// Those that are looked at.
    first: Vec<&'a RawValue>,
    n_results: usize,
}

impl<'a> ResultList<'a> {
    fn of(list: &'a RawValue) -> Option<Self> {
        let mut reader = serde_json::Deserializer::from_str(list.get());
        reader.deserialize_seq(Self::default()).ok()
    }
}

impl<'de> Visitor<'de> for ResultList<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut results: A) -> Result<Self, A::Error> {
        while let Some(result) = results.next_element()? {
            if self.first.len() < MOST_RESULTS {
                self.first.push(result);
            }
            self.n_results += 1;
        }
        Ok(self)
    }
}

/// What a text of no more than so many bytes says; nothing, if it is longer or nests too
/// deep.
fn value(text: &RawValue, most: usize) -> Option<Value> {
    let text = Some(text.get()).filter(|text| text.len() <= most)?;
    serde_json::from_str(text).ok()
}

fn id_of(shape: &AnswerShape, found: &RawValue) -> Option<String> {
    // A character may be spelled in six bytes.
    id(&value(at(found, &shape.id)?, 6 * LONGEST_ID + 2)?)
}

fn row(shape: &AnswerShape, found: &RawValue, id: &str) -> Option<Row> {
    let mut fields = Map::new();
    let (mut n_found, mut room) = (0, LONGEST_FIELDS);
    for (name, pointer) in &shape.fields {
        let field = match at(found, pointer) {
            None => Value::Null,
            Some(text) => {
                n_found += 1;
                let field = value(text, room)?;
                room -= text.get().len();
                field
            }
        };
        fields.insert(name.clone(), field);
    }
    if n_found == 0 && !shape.fields.is_empty() {
        return None;
    }
    let given = at(found, &shape.id).and_then(|given| value(given, LONGEST_FIELDS));
    let mut whole = fields.clone();
    whole.insert("id".to_owned(), given.unwrap_or_else(|| Value::from(id)));
    Some(Row {
        id: id.to_owned(),
        fields,
        body: Value::Object(whole).to_string().into_bytes(),
    })
}

/// An id, as we write it.
fn id(value: &Value) -> Option<String> {
    let id = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let is_fine = !id.is_empty() && id.len() <= LONGEST_ID && !id.contains(char::is_control);
    is_fine.then_some(id)
}

/// A number of results, however it is written: some give it as a text, with commas.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.replace([',', ' '], "").parse().ok()?,
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// What a field says, as a cell of a table would.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // A list of texts is what a cell parts by semicolons.
        Value::Array(parts) => parts.iter().map(cell).collect::<Vec<_>>().join(";"),
        other => other.to_string(),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> AnswerShape {
        AnswerShape {
            results: "/results".to_owned(),
            id: "/key/id".to_owned(),
            total: Some("/total".to_owned()),
            item: Some("/item".to_owned()),
            fields: vec![
                ("price".to_owned(), "/stats/price".to_owned()),
                ("title".to_owned(), "/title".to_owned()),
            ],
        }
    }

    fn result(id: &str, price: &str) -> String {
        format!(r#"{{"key": {{"id": {id}}}, "stats": {{"price": {price}}}, "title": "A"}}"#)
    }

    fn page(shape: &AnswerShape, body: &[u8]) -> Result<(PageTally, Vec<Row>), String> {
        let mut rows = Vec::new();
        let tally = super::page(shape, body, |row| {
            rows.push(row);
            Ok(())
        });
        tally.map(|tally| (tally, rows)).map_err(said)
    }

    fn item(shape: &AnswerShape, wanted: &str, body: &[u8]) -> Result<Option<Row>, String> {
        super::item(shape, wanted, body).map_err(said)
    }

    fn said(unread: ReadError) -> String {
        match unread {
            ReadError::Failed(failure) => failure.message,
            ReadError::Store(error) => error.to_string(),
        }
    }

    #[test]
    fn rows_are_taken_from_where_the_pointers_say() {
        let body = format!(
            r#"{{"total": "1,200", "results": [{}, {}, {}, {{"x": 1}}]}}"#,
            result("\"a\"", "1.50"),
            result("7", "null"),
            result("\"a\"", "2"),
        );
        let (tally, rows) = page(&shape(), body.as_bytes()).unwrap();
        assert_eq!(tally.total, Some(1200.0));
        assert_eq!(
            (tally.n_results, tally.n_repeated, tally.n_unusable),
            (4, 1, 1)
        );
        let bodies: Vec<_> = rows
            .iter()
            .map(|row| String::from_utf8(row.body.clone()).unwrap())
            .collect();
        assert_eq!(
            bodies,
            [
                r#"{"id":"a","price":1.5,"title":"A"}"#,
                r#"{"id":7,"price":null,"title":"A"}"#
            ]
        );
        assert_eq!(rows[1].id, "7");
    }

    #[test]
    fn a_pointer_leads_where_it_would_in_a_tree() {
        let text = r#" {"a": [1, {"b/c": "\u00e9"}, [[]]], "m~n": {"": null}, "a~1": 3,
            "twice": 1, "twice": {"last": 2}, "t\u0061b": 1e3} "#;
        let tree: Value = serde_json::from_str(text).unwrap();
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        for pointer in [
            "",
            "/",
            "/a",
            "/a/0",
            "/a/1/b~1c",
            "/a/01",
            "/a/+1",
            "/a/-1",
            "/a/3",
            "/a/2/0/0",
            "/a/2/0",
            "/m~0n",
            "/m~0n/",
            "/m~0n//",
            "/a~01",
            "/twice",
            "/twice/last",
            "/tab",
            "/tab/0",
            "a",
            "a/0",
            "/nothing",
        ] {
            let found = at(raw, pointer).map(|text| value(text, 1000).unwrap());
            assert_eq!(found.as_ref(), tree.pointer(pointer), "{pointer:?}");
        }
    }

    #[test]
    fn what_is_no_answer_is_said_to_be_none() {
        let deep = "[".repeat(100_000);
        for (body, why) in [
            ("<html>Are you human?</html>", "HTML"),
            (r#"{"total": 3, "results": [{"key""#, "breaks off"),
            (r#"{"total": 3, "results": []} no"#, "not JSON"),
            (r#"{"items": []}"#, "no list of results"),
            (r#"{"results": {"a": 1}}"#, "no list of results"),
            (
                r#"{"results": [{"key": {"id": []}}]}"#,
                "none of its 1 results",
            ),
            ("", "breaks off"),
            (&deep, "breaks off"),
        ] {
            let said = page(&shape(), body.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        let empty = page(&shape(), br#"{"results": []}"#).unwrap();
        assert_eq!(empty, (PageTally::default(), Vec::new()));
    }

    /// The most memory that this process has ever had, in megabytes.
    fn peak_memory() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
        kilobytes.unwrap().parse::<u64>().unwrap() / 1024
    }

    #[test]
    fn an_answer_takes_no_more_memory_than_its_bytes_and_one_row() {
        // As a tree, each of these is some 320 MB: a small object is a node with room for
        // eleven members.
        const BYTES: usize = 4 << 20;
        let many = |unit: &str| vec![unit; BYTES / unit.len()].join(",");
        let unwanted = format!(
            r#"{{"x": [{}], "results": [{}]}}"#,
            many(r#"{"a":0}"#),
            result("1", "2")
        );
        let rows = format!(r#"{{"results": [{}]}}"#, many(r#"{"a":0}"#));
        let fields = format!(
            r#"{{"results": [{}, {}]}}"#,
            result("1", "2"),
            result("3", &format!("[{}]", many(r#"{"a":0}"#)))
        );
        let each = format!("[{}]", vec![r#"{"a":0}"#; 1000].join(","));
        let mut rows_with_much = String::new();
        for n in 0..BYTES / each.len() {
            rows_with_much += &format!("{}, ", result(&n.to_string(), &each));
        }
        let rows_with_much = format!(r#"{{"results": [{rows_with_much}{}]}}"#, result("0", "1"));
        let before = peak_memory();
        let mut n_rows = 0;
        let mut read = |body: &str| {
            super::page(&shape(), body.as_bytes(), |_| {
                n_rows += 1;
                Ok(())
            })
        };
        assert_eq!(read(&unwanted).unwrap().n_results, 1);
        assert!(said(read(&rows).unwrap_err()).contains("none of its"));
        assert_eq!(read(&fields).unwrap().n_unusable, 1);
        let tally = read(&rows_with_much).unwrap();
        assert_eq!((tally.n_unusable, tally.n_repeated), (0, 1));
        assert_eq!(n_rows, 2 + tally.n_results - 1);
        let grown = peak_memory() - before;
        // Other tests run beside this one, in the same process.
        assert!(grown < 100, "{grown} MB more");
    }

    #[test]
    fn an_item_is_the_row_that_was_asked_for() {
        let body = format!(r#"{{"item": {}}}"#, result("\"a\"", "3"));
        let row = item(&shape(), "a", body.as_bytes()).unwrap().unwrap();
        assert_eq!(row.fields["price"], Value::from(3));
        assert!(item(&shape(), "b", body.as_bytes()).is_err());
        assert!(item(&shape(), "a", b"{}").is_err());
        assert_eq!(item(&shape(), "a", br#"{"item": null}"#), Ok(None));
        assert!(item(&shape(), "a", br#"{"item": {}}"#).is_err());
    }

    #[test]
    fn a_list_is_a_cell_with_semicolons() {
        let value: Value = serde_json::from_str(r#"["Ada", "Grace", 3]"#).unwrap();
        assert_eq!(cell(&value), "Ada;Grace;3");
    }
}
