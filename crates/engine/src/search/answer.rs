//! What a search box answers: bytes in, rows out.

use serde_json::{Map, Value};

use crate::settings::AnswerShape;

/// A row as the server has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) id: String,
    /// Its fields, by name; null where the answer has none.
    pub(crate) fields: Map<String, Value>,
    /// Id and fields as one JSON object.
    pub(crate) body: Vec<u8>,
}

/// A page of an answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Results {
    /// The rows on it, each once, in their order.
    pub(crate) rows: Vec<Row>,
    /// How many results there were, rows or not.
    pub(crate) n_results: usize,
    /// Results that came twice, and results of which nothing could be made.
    pub(crate) n_repeated: usize,
    pub(crate) n_unusable: usize,
    /// How many there are in all, if that is said.
    pub(crate) total: Option<f64>,
}

/// Results on a page that are looked at.
const MOST_RESULTS: usize = 10_000;
/// An id longer than this is none.
const LONGEST_ID: usize = 1024;

/// The rows of a page.
pub(crate) fn page(shape: &AnswerShape, body: &[u8]) -> Result<Results, String> {
    let document = document(body)?;
    let Some(Value::Array(results)) = document.pointer(&shape.results) else {
        return Err(format!("it has no list of results at {:?}", shape.results));
    };
    let mut page = Results {
        n_results: results.len(),
        total: shape
            .total
            .as_ref()
            .and_then(|pointer| number(document.pointer(pointer)?)),
        ..Results::default()
    };
    let mut seen = std::collections::BTreeSet::new();
    for result in results.iter().take(MOST_RESULTS) {
        let id = result.pointer(&shape.id).and_then(id);
        match id.and_then(|id| row(shape, result, &id)) {
            Some(row) if seen.insert(row.id.clone()) => page.rows.push(row),
            Some(_) => page.n_repeated += 1,
            None => page.n_unusable += 1,
        }
    }
    if page.n_results > 0 && page.rows.is_empty() {
        return Err(format!(
            "none of its {} results has an id at {:?} and any of the fields",
            page.n_results, shape.id
        ));
    }
    Ok(page)
}

/// The row that was asked for by its id; nothing, if that is what it says.
pub(crate) fn item(shape: &AnswerShape, wanted: &str, body: &[u8]) -> Result<Option<Row>, String> {
    let document = document(body)?;
    let pointer = shape.item.as_deref().unwrap_or_default();
    let Some(found) = document.pointer(pointer) else {
        return Err(format!("it has no row at {pointer:?}"));
    };
    if found.is_null() {
        return Ok(None);
    }
    let given = found.pointer(&shape.id);
    if let Some(other) = given.and_then(id).filter(|id| id != wanted) {
        return Err(format!("it is about another row, {:?}", shortened(&other)));
    }
    let row = row(shape, found, wanted);
    let none = || format!("the row at {pointer:?} has none of the fields");
    row.map(Some).ok_or_else(none)
}

fn document(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|error| {
        let start = body.trim_ascii_start();
        if start.starts_with(b"<") {
            "it is a page of HTML or XML, and no JSON".to_owned()
        } else if error.is_eof() {
            "it breaks off".to_owned()
        } else {
            format!("it is no JSON: {error}")
        }
    })
}

fn row(shape: &AnswerShape, found: &Value, id: &str) -> Option<Row> {
    let mut fields = Map::new();
    let mut n_found = 0;
    for (name, pointer) in &shape.fields {
        let value = found.pointer(pointer);
        n_found += usize::from(value.is_some());
        fields.insert(name.clone(), value.cloned().unwrap_or(Value::Null));
    }
    if n_found == 0 && !shape.fields.is_empty() {
        return None;
    }
    let given = found.pointer(&shape.id);
    let mut whole = fields.clone();
    whole.insert(
        "id".to_owned(),
        given.cloned().unwrap_or_else(|| Value::from(id)),
    );
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

    #[test]
    fn rows_are_taken_from_where_the_pointers_say() {
        let body = format!(
            r#"{{"total": "1,200", "results": [{}, {}, {}, {{"x": 1}}]}}"#,
            result("\"a\"", "1.50"),
            result("7", "null"),
            result("\"a\"", "2"),
        );
        let page = page(&shape(), body.as_bytes()).unwrap();
        assert_eq!(page.total, Some(1200.0));
        assert_eq!(
            (page.n_results, page.n_repeated, page.n_unusable),
            (4, 1, 1)
        );
        let bodies: Vec<_> = page
            .rows
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
        assert_eq!(page.rows[1].id, "7");
    }

    #[test]
    fn what_is_no_answer_is_said_to_be_none() {
        let deep = "[".repeat(100_000);
        for (body, why) in [
            ("<html>Are you human?</html>", "HTML"),
            (r#"{"total": 3, "results": [{"key""#, "breaks off"),
            (r#"{"items": []}"#, "no list of results"),
            (r#"{"results": {"a": 1}}"#, "no list of results"),
            (
                r#"{"results": [{"key": {"id": []}}]}"#,
                "none of its 1 results",
            ),
            ("", "breaks off"),
            (&deep, "no JSON"),
        ] {
            let said = page(&shape(), body.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        let empty = page(&shape(), br#"{"results": []}"#).unwrap();
        assert_eq!(empty, Results::default());
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
