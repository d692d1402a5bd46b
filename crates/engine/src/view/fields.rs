//! What changed in a row: which fields, from what to what.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use springtide_store::{Bodies, Change, ChangeFilter, ChangeKind, Error, Reader};

/// A field of a row that is another than before.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FieldChange {
    /// Its name.
    pub name: String,
    /// What it was; null if there was none.
    pub before: Value,
    /// What it is; null if there is none.
    pub after: Value,
}

/// Text of a field is cut after this many characters.
const LONGEST_TEXT: usize = 60;

impl fmt::Display for FieldChange {
    /// `price 6662 → 7919 (+19 %)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (field_text(&self.before), field_text(&self.after));
        write!(f, "{} {before} → {after}", self.name)?;
        if let (Some(before), Some(after)) = (number(&self.before), number(&self.after))
            && before != 0.0
        {
            let share = 100.0 * (after - before) / before.abs();
            let n_digits = usize::from(share.abs() < 9.95);
            write!(f, " ({share:+.n_digits$} %)")?;
        }
        Ok(())
    }
}

/// The value of a field as people read it, cut if it is long.
pub fn field_text(value: &Value) -> String {
    let text = match value {
        Value::Null => return "none".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A number, or a text that is one.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    number.filter(|number| number.is_finite())
}

/// The fields in which two versions of a row differ, by name. What is no row has none.
pub fn fields(before: &[u8], after: &[u8]) -> Vec<FieldChange> {
    let object = |bytes: &[u8]| serde_json::from_slice::<Map<String, Value>>(bytes).ok();
    let (Some(before), Some(after)) = (object(before), object(after)) else {
        return Vec::new();
    };
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let of = |row: &Map<String, Value>, name: &str| row.get(name).cloned().unwrap_or(Value::Null);
    let changes = names.into_iter().map(|name| FieldChange {
        name: name.clone(),
        before: of(&before, name),
        after: of(&after, name),
    });
    changes
        .filter(|field| field.before != field.after)
        .collect()
}

/// The same for a change of a row that was kept, against the version before it. Of other
/// kinds of changes, and where a body is lost, there is nothing to tell.
///
/// # Errors
/// If the store cannot be read.
pub fn fields_of<Access>(
    store: &dyn Reader,
    bodies: &Bodies<Access>,
    change: &Change,
) -> Result<Vec<FieldChange>, Error> {
    /// Versions that are looked through for the last one with a body.
    const LOOKS_BACK: usize = 10;
    let Some(after) = change.body.filter(|_| change.kind == ChangeKind::Changed) else {
        return Ok(Vec::new());
    };
    let filter = ChangeFilter {
        element: Some(change.element),
        ..ChangeFilter::default()
    };
    let earlier = store.changes(&filter, Some(change.number), LOOKS_BACK)?;
    let before = earlier.iter().find_map(|change| change.body);
    Ok(before.map_or_else(Vec::new, |before| {
        match (bodies.get(before), bodies.get(after)) {
            (Ok(before), Ok(after)) => fields(&before, &after),
            _ => Vec::new(),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_differ_are_told_with_what_they_were() {
        let before = br#"{"id":"r0102","price":6662,"title":"Tides","old":1}"#;
        let after = br#"{"id":"r0102","price":7919,"title":"Tides","new":[2]}"#;
        let told: Vec<String> = fields(before, after)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            told,
            [
                "new none → [2]",
                "old 1 → none",
                "price 6662 → 7919 (+19 %)"
            ]
        );
        assert_eq!(fields(b"<html>", after), []);
        let long = format!("{{\"a\":\"{}\"}}", "é".repeat(100));
        let told = fields(br#"{"a":"1.5"}"#, long.as_bytes())[0].to_string();
        assert_eq!(told, format!("a 1.5 → {}…", "é".repeat(60)));
        let told = fields(br#"{"a":"100"}"#, br#"{"a":99.5}"#)[0].to_string();
        assert_eq!(told, "a 100 → 99.5 (-0.5 %)");
    }
}
