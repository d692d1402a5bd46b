//! Values of rows as the copy has them, and rows as lines of a body.
//!
//! Integers and floats stay integers and floats, bytes become blobs, all else is text or
//! null. In a body a row is a line of JSON: an array of values, bytes as `{"hex": …}`, so
//! that every value is had back exactly as it was.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::Write as _;

use super::batch::ValueRef;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value as Json};

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number; neither NaN nor infinite, which are text.
    Real(f64),
    /// Text, and whatever has no kind of its own.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// The values of a row, column by column.
pub type Row = Vec<Value>;

impl Value {
    /// A float as the copy has it.
    pub(crate) fn real(number: f64) -> Self {
        match number {
            number if number.is_finite() => Self::Real(number),
            number if number.is_nan() => Self::Text("NaN".to_owned()),
            number if number > 0.0 => Self::Text("Infinity".to_owned()),
            _ => Self::Text("-Infinity".to_owned()),
        }
    }

    /// How many bytes it takes, about.
    pub(crate) fn n_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len() + 1,
            Self::Bytes(bytes) => bytes.len() + 1,
            Self::Null | Self::Integer(_) | Self::Real(_) => 1,
        }
    }

    /// As it is written in a body and in keys.
    pub(crate) fn to_json(&self) -> Json {
        match self {
            Self::Bytes(bytes) => {
                let hex = Json::String(hex(bytes));
                Json::Object(Map::from_iter([("hex".to_owned(), hex)]))
            }
            other => other.to_plain_json(),
        }
    }

    /// Where it is.
    pub(crate) fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text),
            Self::Bytes(bytes) => ValueRef::Bytes(bytes),
        }
    }

    /// Writes what [`to_json`](Self::to_json) is, at once: tables have many.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>) {
        self.as_ref().write_json(out);
    }

    /// Writes what [`to_plain_json`](Self::to_plain_json) is.
    pub(crate) fn write_plain_json(&self, out: &mut Vec<u8>) {
        self.as_ref().write_plain_json(out);
    }

    /// As it is shown: bytes are text in hex.
    pub fn to_plain_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Integer(number) => Json::Number((*number).into()),
            Self::Real(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
            Self::Text(text) => Json::String(text.clone()),
            Self::Bytes(bytes) => Json::String(hex(bytes)),
        }
    }

    /// What was written with [`to_json`](Self::to_json). Numbers are read from their digits:
    /// the nearest float, not one beside it.
    pub(crate) fn of_raw(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        Some(match text.as_bytes().first()? {
            b'n' => Self::Null,
            b'"' => Self::Text(serde_json::from_str(text).ok()?),
            b'{' => {
                let object: Json = serde_json::from_str(text).ok()?;
                Self::Bytes(unhex(object.get("hex")?.as_str()?)?)
            }
            _ => Self::number(text)?,
        })
    }

    /// A number from its digits.
    pub(crate) fn number(text: &str) -> Option<Self> {
        match text.contains(['.', 'e', 'E']) {
            true => text.parse().ok().map(Self::Real),
            false => text.parse().ok().map(Self::Integer),
        }
    }

    /// Where it is among values of the same kind, numbers by size and the rest by its
    /// bytes; nothing if they are of different kinds.
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(b)),
            (Self::Text(a), Self::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Real(a), Self::Real(b)) => a.partial_cmp(b),
            _ => None,
        }
    }
}

impl ValueRef<'_> {
    fn write_json(self, out: &mut Vec<u8>) {
        match self {
            Self::Bytes(bytes) => {
                out.extend(b"{\"hex\":\"");
                out.extend(hex(bytes).into_bytes());
                out.extend(b"\"}");
            }
            other => other.write_plain_json(out),
        }
    }

    fn write_plain_json(self, out: &mut Vec<u8>) {
        // To memory nothing fails.
        let _ = match self {
            Self::Null => out.write_all(b"null"),
            Self::Integer(number) => write!(out, "{number}"),
            Self::Real(number) => serde_json::to_writer(out, &number).map_err(Into::into),
            // Most texts are written as they are.
            Self::Text(text) if is_plain(text) => {
                out.push(b'"');
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
                Ok(())
            }
            Self::Text(text) => serde_json::to_writer(out, text).map_err(Into::into),
            Self::Bytes(bytes) => write!(out, "\"{}\"", hex(bytes)),
        };
    }
}

/// Whether a text is itself in JSON. It is looked at to its end, many bytes at a time.
fn is_plain(text: &str) -> bool {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    text.bytes().fold(true, |all, byte| all & is_plain(byte))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // To a string nothing fails.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() % 2 == 1 || !text.is_ascii() {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

/// The rows of a block, in the order of their keys.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<String>,
    /// Which of the columns the key is made of.
    pub(crate) key: Vec<usize>,
    pub(crate) rows: Vec<Row>,
}

impl Rows {
    /// The key of a row.
    pub(crate) fn key_of(&self, row: &Row) -> Vec<Value> {
        let values = self.key.iter().filter_map(|&at| row.get(at));
        values.cloned().collect()
    }

    /// Rows by their keys.
    pub(crate) fn by_key(&self) -> HashMap<String, &Row> {
        let keyed = self.rows.iter();
        keyed
            .map(|row| (key_text(&self.key_of(row)), row))
            .collect()
    }

    /// As a body: what the columns are, and then a line for each row.
    pub(crate) fn to_body(&self) -> Vec<u8> {
        let rows = self.rows.iter().map(|row| row.iter().map(Value::as_ref));
        body_of(&self.columns, &self.key, rows)
    }

    /// What was written with [`to_body`](Self::to_body); nothing if it was not.
    pub(crate) fn from_body(body: &[u8]) -> Option<Self> {
        let mut lines = body.split(|&byte| byte == b'\n');
        let head: Json = serde_json::from_slice(lines.next()?).ok()?;
        let names = |name: &str| -> Option<Vec<String>> {
            let names = head.get(name)?.as_array()?.iter();
            names.map(|name| Some(name.as_str()?.to_owned())).collect()
        };
        let (columns, key) = (names("columns")?, names("key")?);
        let key = key
            .iter()
            .map(|name| columns.iter().position(|c| c == name));
        let key = key.collect::<Option<Vec<usize>>>()?;
        let mut rows = Vec::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let values: Vec<&RawValue> = serde_json::from_slice(line).ok()?;
            let row: Option<Row> = values.into_iter().map(Value::of_raw).collect();
            rows.push(row.filter(|row| row.len() == columns.len())?);
        }
        Some(Self { columns, key, rows })
    }
}

/// What [`Rows::to_body`] makes, of rows that are elsewhere.
pub(crate) fn body_of<'a>(
    columns: &[String],
    key: &[usize],
    rows: impl Iterator<Item = impl Iterator<Item = ValueRef<'a>>>,
) -> Vec<u8> {
    let key = key.iter().filter_map(|&at| columns.get(at));
    let key: Vec<&String> = key.collect();
    let head = serde_json::json!({"columns": columns, "key": key});
    let mut body = head.to_string().into_bytes();
    body.push(b'\n');
    for row in rows {
        write_list(row, &mut body, ValueRef::write_json);
        body.push(b'\n');
    }
    body
}

/// A key as text: a JSON array.
pub(crate) fn key_text(key: &[Value]) -> String {
    list_text(key, Value::write_json)
}

/// Values as a JSON array.
pub(crate) fn list_text(values: &[Value], write: fn(&Value, &mut Vec<u8>)) -> String {
    let mut text = Vec::new();
    let write = |value: &Value, out: &mut Vec<u8>| write(value, out);
    write_list(values.iter(), &mut text, write);
    String::from_utf8(text).expect("JSON is text")
}

fn write_list<T>(
    values: impl Iterator<Item = T>,
    out: &mut Vec<u8>,
    write: impl Fn(T, &mut Vec<u8>),
) {
    out.push(b'[');
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(value, out);
    }
    out.push(b']');
}

/// A row as a JSON object, bytes in hex. `names` are the columns as JSON.
pub(crate) fn object_text(names: &[String], row: &Row) -> String {
    let mut text = vec![b'{'];
    for (at, (name, value)) in names.iter().zip(row).enumerate() {
        if at > 0 {
            text.push(b',');
        }
        text.extend(name.as_bytes());
        text.push(b':');
        value.write_plain_json(&mut text);
    }
    text.push(b'}');
    String::from_utf8(text).expect("JSON is text")
}

/// Names as JSON.
pub(crate) fn json_names(names: &[String]) -> Vec<String> {
    let names = names.iter();
    names
        .map(|name| Json::String(name.clone()).to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            any::<f64>().prop_map(Value::real),
            any::<String>().prop_map(Value::Text),
            any::<Vec<u8>>().prop_map(Value::Bytes),
        ]
    }

    proptest! {
        #[test]
        fn a_body_gives_back_what_it_was_made_of(
            rows in prop::collection::vec(prop::collection::vec(values(), 3), 0..8)
        ) {
            let columns = ["id", "a b", "\u{fc}\n"].map(str::to_owned).to_vec();
            let rows = Rows { columns, key: vec![0, 2], rows };
            prop_assert_eq!(Rows::from_body(&rows.to_body()), Some(rows));
        }
    }
}
