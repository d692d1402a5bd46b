//! The cursor: a column that a change never lowers, by which rows that came or changed are
//! found without reading their blocks.
//!
//! A poll reads on from a little before the highest value seen, so that rows which were
//! written before but committed later are seen too. Where there are more rows than a poll
//! reads, the next one goes on after the last of them, by cursor and key.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp, civil};
use serde_json::json;
use serde_json::value::RawValue;
use springtide_store::{Bodies, BodyId, FailureKind};

use super::statement::Start;
use super::value::{Row, Rows, Value};
use super::{Database, FetchFailure, Shape, Sighting, Table};

/// Rows that a poll of a cursor reads at the most.
const MOST_READ: usize = 5_000;

/// How far a cursor has come.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct CursorState {
    /// The highest value seen.
    pub(crate) high: Option<Value>,
    /// The last row read, its cursor and then its key, if there was more than was read.
    pub(crate) after: Option<Vec<Value>>,
}

impl CursorState {
    pub(crate) fn to_body(&self) -> Vec<u8> {
        let after = self.after.as_ref();
        let after = after.map(|values| values.iter().map(Value::to_json).collect::<Vec<_>>());
        let high = self.high.as_ref().map(Value::to_json);
        json!({"high": high, "after": after})
            .to_string()
            .into_bytes()
    }

    pub(crate) fn from_body(body: &[u8]) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Body<'a> {
            #[serde(borrow)]
            high: Option<&'a RawValue>,
            #[serde(borrow)]
            after: Option<Vec<&'a RawValue>>,
        }
        let body: Body<'_> = serde_json::from_slice(body).ok()?;
        let all = |values: Vec<&RawValue>| values.into_iter().map(Value::of_raw).collect();
        Some(Self {
            high: body.high.and_then(Value::of_raw),
            after: body.after.and_then(all),
        })
    }

    /// Where to read on, so far behind the highest value.
    fn start(&self, late: SignedDuration) -> Start {
        match (&self.after, &self.high) {
            (Some(after), _) => Start::After(after.clone()),
            (None, Some(high)) => Start::At(earlier(high, late)),
            (None, None) => Start::Beginning,
        }
    }
}

/// A value so much earlier, if it is a time.
fn earlier(value: &Value, late: SignedDuration) -> Value {
    let Value::Text(text) = value else {
        return value.clone();
    };
    if let Ok(at) = text.parse::<Timestamp>()
        && let Ok(then) = at.checked_sub(late)
    {
        return Value::Text(then.to_string());
    }
    let (separator, normal) = match text.contains('T') {
        true => ('T', text.clone()),
        false => (' ', text.replacen(' ', "T", 1)),
    };
    if let Ok(at) = normal.parse::<civil::DateTime>()
        && let Ok(then) = at.checked_sub(late)
    {
        let mut then = then.to_string();
        if separator == ' ' {
            then = then.replacen('T', " ", 1);
        }
        if normal.len() == "2026-11-18".len() {
            then.truncate("2026-11-18".len());
        }
        return Value::Text(then);
    }
    value.clone()
}

/// What a poll of a cursor brought.
#[derive(Debug)]
pub(crate) struct CursorRead {
    pub(crate) rows: Rows,
    /// Whether there is more.
    pub(crate) is_cut_short: bool,
    /// Whether an index begins with the cursor, if that was asked and the database can tell.
    pub(crate) is_indexed: Option<bool>,
    /// The highest value seen.
    pub(crate) high: Option<Value>,
    /// How many are beyond what was seen before.
    n_new: u32,
    /// How far it has come, as a body.
    body: Option<BodyId>,
    digest: [u8; 32],
    n_bytes: u64,
}

impl CursorRead {
    pub(crate) fn sighting(&self) -> Sighting {
        Sighting {
            body: self.body,
            n_bytes: self.n_bytes,
            // It has moved, if only to where rows are that it had shown before.
            n_parts: Some(self.n_new.max(1)),
            ..Sighting::unchanged(self.digest)
        }
    }
}

pub(super) async fn read(
    table: &Table,
    database: &mut Database,
    shape: &mut Shape,
    state: &CursorState,
    bodies: &Bodies,
) -> Result<CursorRead, FetchFailure> {
    let refuse = |message: String| FetchFailure::new(FailureKind::Database, message);
    let settings = &table.settings;
    let name = settings.cursor.clone().unwrap_or_default();
    let late = SignedDuration::try_from(settings.late).unwrap_or_default();
    let start = state.start(late);
    let statement = |shape: &Shape| {
        // Who looked at the table has seen that it is there.
        let cursor = shape.column(&name).cloned().unwrap_or_default();
        let (dialect, shown) = (table.dialect(), table.shown(shape));
        dialect.past(
            &settings.relation,
            &shown,
            shape,
            &cursor,
            &start,
            MOST_READ,
        )
    };
    let answer = table.ask_rows(database, shape, 0, statement).await?;
    let shape = &*shape;
    let is_cut_short = answer.is_cut || answer.batch.n_rows() >= MOST_READ;
    let (columns, batch) = (answer.columns, answer.batch);
    let rows = Rows {
        key: table.key_of(shape, &columns, &batch)?,
        columns,
        rows: batch.to_rows(0..batch.n_rows()),
    };
    let Some(place) = rows.columns.iter().position(|column| *column == name) else {
        return Err(refuse(format!("there is no column {name}")));
    };
    let is_new = |row: &&Row| {
        let order = |high| row[place].order(high);
        (state.high.as_ref()).is_none_or(|high| order(high).is_none_or(Ordering::is_gt))
    };
    let n_new = rows.rows.iter().filter(is_new).count();
    let last = rows.rows.last();
    let position = |row: &Row| {
        let mut position = vec![row[place].clone()];
        position.extend(rows.key_of(row));
        position
    };
    let next = CursorState {
        // A clock that was set back makes nothing lower.
        high: match (last.map(|row| row[place].clone()), state.high.clone()) {
            (Some(new), Some(old)) if new.order(&old).is_some_and(Ordering::is_lt) => Some(old),
            (Some(new), _) => Some(new),
            (None, old) => old,
        },
        after: last.filter(|_| is_cut_short).map(position),
    };
    let body = next.to_body();
    let digest = *blake3::hash(&body).as_bytes();
    let has_moved = next != *state;
    let kept = |error: springtide_store::Error| {
        FetchFailure::new(FailureKind::Other, format!("it could not be kept: {error}"))
    };
    Ok(CursorRead {
        is_cut_short,
        is_indexed: shape.is_cursor_indexed,
        high: next.high,
        n_new: n_new as u32,
        body: has_moved
            .then(|| bodies.put(&body))
            .transpose()
            .map_err(kept)?,
        digest,
        n_bytes: body.len() as u64,
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_again_from_a_little_before() {
        let minute = SignedDuration::from_mins(1);
        let at = |text: &str| match earlier(&Value::Text(text.to_owned()), minute) {
            Value::Text(text) => text,
            value => panic!("{value:?}"),
        };
        assert_eq!(at("2026-11-18T00:00:30.5Z"), "2026-11-17T23:59:30.5Z");
        assert_eq!(at("2026-11-18T00:00:30"), "2026-11-17T23:59:30");
        assert_eq!(at("2026-11-18 00:00:30"), "2026-11-17 23:59:30");
        assert_eq!(at("2026-11-18"), "2026-11-17");
        assert_eq!(at("v12"), "v12");
        assert_eq!(earlier(&Value::Integer(7), minute), Value::Integer(7));
    }

    #[test]
    fn how_far_it_has_come_is_had_back() {
        for state in [
            CursorState::default(),
            CursorState {
                high: Some(Value::Text("x".to_owned())),
                after: Some(vec![Value::Integer(1), Value::Bytes(vec![2])]),
            },
        ] {
            assert_eq!(CursorState::from_body(&state.to_body()), Some(state));
        }
    }
}
