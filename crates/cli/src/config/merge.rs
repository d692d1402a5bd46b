//! Keys that come as JSON, put into `springtide.toml`.

use serde_json::{Map, Value as Json};
use toml_edit::{Array, InlineTable, Item, Table, TableLike, Value, value};

use super::edit::{Editor, set};
use super::{FILE, check_name};
use crate::failure::{Failure, Outcome};

impl Editor {
    /// Adds a source with these keys.
    pub(crate) fn add_source_with(&mut self, name: &str, keys: &Map<String, Json>) -> Outcome<()> {
        check_name(name).map_err(|why| {
            Failure::input("bad name")
                .cause(why)
                .hint("letters, digits, `-`, `_` and `.` make a name")
        })?;
        let mut table = Table::new();
        merge(&mut table, keys)?;
        self.insert_source(name, table)
    }

    /// Changes keys of a source that is there.
    pub(crate) fn change_source(&mut self, name: &str, keys: &Map<String, Json>) -> Outcome<()> {
        let sources = self.document.get_mut("source");
        let source = sources
            .and_then(Item::as_table_like_mut)
            .and_then(|sources| sources.get_mut(name))
            .and_then(Item::as_table_like_mut)
            .ok_or_else(|| Failure::input(format!("there is no source {name} in {FILE}")))?;
        merge(source, keys)
    }

    /// Changes keys of tables.
    pub(crate) fn change_tables(&mut self, tables: &Map<String, Json>) -> Outcome<()> {
        for (name, keys) in tables {
            let Json::Object(keys) = keys else {
                return Err(Failure::input(format!("`{name}` is not a table")));
            };
            merge(self.table(name)?, keys)?;
        }
        Ok(())
    }

    /// What is written in a table, as JSON.
    pub(crate) fn table_as_json(&self, name: &str) -> Json {
        match self.document.get(name).and_then(Item::as_table_like) {
            Some(table) => table_to_json(table),
            None => Json::Object(Map::new()),
        }
    }

    /// The whole file.
    pub(crate) fn text(&self) -> String {
        self.document.to_string()
    }
}

/// Sets each key; null takes it out, and tables are merged.
fn merge(table: &mut dyn TableLike, keys: &Map<String, Json>) -> Outcome<()> {
    for (key, json) in keys {
        match json {
            Json::Null => {
                table.remove(key);
            }
            Json::Object(inner) => {
                match table.get_mut(key).and_then(Item::as_table_like_mut) {
                    Some(known) => merge(known, inner)?,
                    None => {
                        let mut new = Table::new();
                        merge(&mut new, inner)?;
                        table.insert(key, Item::Table(new));
                    }
                };
            }
            json => match table.get(key) {
                Some(Item::Value(_)) | None => set(table, key, to_toml(json)?),
                Some(_) => {
                    table.insert(key, value(to_toml(json)?));
                }
            },
        }
    }
    Ok(())
}

fn to_toml(json: &Json) -> Outcome<Value> {
    Ok(match json {
        Json::Null => return Err(Failure::input("null cannot be in a list")),
        Json::Bool(is) => (*is).into(),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, Some(float)) => float.into(),
            (None, None) => return Err(Failure::input(format!("{number} is too large"))),
        },
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => {
            let mut array = Array::new();
            for item in items {
                array.push(to_toml(item)?);
            }
            array.into()
        }
        Json::Object(keys) => {
            let mut table = InlineTable::new();
            for (key, json) in keys {
                table.insert(key, to_toml(json)?);
            }
            table.into()
        }
    })
}

fn table_to_json(table: &dyn TableLike) -> Json {
    let pairs = table.iter().map(|(key, item)| {
        let json = match item {
            Item::Value(value) => value_to_json(value),
            item => item.as_table_like().map_or(Json::Null, table_to_json),
        };
        (key.to_owned(), json)
    });
    Json::Object(pairs.collect())
}

fn value_to_json(value: &Value) -> Json {
    match value {
        Value::String(text) => text.value().as_str().into(),
        Value::Integer(number) => (*number.value()).into(),
        Value::Float(number) => (*number.value()).into(),
        Value::Boolean(is) => (*is.value()).into(),
        Value::Datetime(at) => at.value().to_string().into(),
        Value::Array(items) => items.iter().map(value_to_json).collect(),
        Value::InlineTable(table) => table_to_json(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(before: &str, keys: &Json, after: &str) {
        let mut editor = Editor {
            document: before.parse().unwrap(),
        };
        editor.change_tables(keys.as_object().unwrap()).unwrap();
        assert_eq!(editor.text(), after);
    }

    #[test]
    fn keys_are_set_merged_and_taken_out_and_comments_stay() {
        check(
            "# ours\n[budget] # what may be spent\npolls = \"5/day\" # not much\nburst = \"1/hour\"\n\
             [target]\nage = { warn_after = \"1h\" } # soon\n",
            &json!({
                "budget": { "polls": "7/day", "burst": null },
                "target": { "age": { "error_after": "2h" }, "freshness": 0.9 }
            }),
            "# ours\n[budget] # what may be spent\npolls = \"7/day\" # not much\n\
             [target]\nage = { warn_after = \"1h\" , error_after = \"2h\" } # soon\nfreshness = 0.9\n",
        );
        check(
            "",
            &json!({ "target": { "age": { "error_after": "2h" } } }),
            "[target]\n\n[target.age]\nerror_after = \"2h\"\n",
        );
    }

    #[test]
    fn sources_come_with_all_their_keys() {
        let mut editor = Editor {
            document: "[http]\n# the end\n".parse().unwrap(),
        };
        let keys = json!({
            "kind": "page", "url": "https://example.org/\"]\n[x]", "weight": 2,
            "detect": { "keep": ["main"] }
        });
        editor
            .add_source_with("docs", keys.as_object().unwrap())
            .unwrap();
        let text = editor.text();
        let read: toml_edit::DocumentMut = text.parse().unwrap();
        assert_eq!(
            read["source"]["docs"]["url"].as_str(),
            Some("https://example.org/\"]\n[x]")
        );
        assert!(
            text.starts_with("[http]\n# the end\n\n[source.docs]\n"),
            "{text}"
        );
        assert!(
            text.contains("[source.docs.detect]\nkeep = [\"main\"]\n"),
            "{text}"
        );
        assert!(editor.add_source_with("../x", &Map::new()).is_err());
    }
}
