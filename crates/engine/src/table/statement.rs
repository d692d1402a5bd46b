//! Statements: what is asked of a database, in the words of each.

use super::block::Range;
use super::digest::RowMark;
use super::value::{Value, hex};

/// How a database is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
    MySql,
}

/// What is asked for: a table, or what a query returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// A table by its name, with its schema if that is said.
    Table(Vec<String>),
    /// A query of the user's.
    Query(String),
}

/// What is known of what is asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    pub(crate) columns: Vec<Column>,
    /// The columns of the key, by name.
    pub(crate) key: Vec<String>,
    /// Whether keys are in the order of their values, as we compare them.
    pub(crate) is_ordered: bool,
    /// What tells a row from what it was, if the database can say that.
    pub(crate) mark: Option<RowMark>,
    /// Whether an index begins with the cursor; nothing if there is no cursor, or nobody can
    /// tell.
    pub(crate) is_cursor_indexed: Option<bool>,
}

/// A column, and its type as the database calls it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
}

impl Shape {
    /// What a query returns: columns, of which nothing more is known.
    pub(crate) fn of_query(columns: Vec<String>, key: &[String]) -> Self {
        let columns = columns.into_iter().map(|name| Column {
            name,
            kind: String::new(),
        });
        Self {
            columns: columns.collect(),
            key: key.to_vec(),
            is_ordered: false,
            mark: None,
            is_cursor_indexed: None,
        }
    }

    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// A statement, and the values that go with it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) values: Vec<Value>,
}

impl Statement {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            values: Vec::new(),
        }
    }
}

impl Dialect {
    /// A name, so that no character in it means anything.
    pub(crate) fn name(self, name: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!("\"{}\"", name.replace('"', "\"\"")),
            Self::MySql => format!("`{}`", name.replace('`', "``")),
        }
    }

    pub(crate) fn names<'a>(self, names: impl IntoIterator<Item = &'a String>) -> String {
        let names = names.into_iter().map(|name| self.name(name));
        names.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn relation(self, relation: &Relation) -> String {
        match relation {
            Relation::Table(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.name(part)).collect();
                parts.join(".")
            }
            Relation::Query(query) => format!("({query}) as {}", self.name("asked")),
        }
    }

    /// A text as a literal.
    pub(crate) fn text(self, text: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!("'{}'", text.replace('\'', "''")),
            Self::MySql => format!("_utf8mb4 x'{}'", hex(text.as_bytes())),
        }
    }

    /// A value in a statement, to be compared with a column of this kind.
    pub(super) fn value(self, value: &Value, kind: &str, values: &mut Vec<Value>) -> String {
        match (self, value) {
            (Self::Sqlite, value) => {
                values.push(value.clone());
                format!("?{}", values.len())
            }
            (_, Value::Null) => "null".to_owned(),
            (Self::Postgres, Value::Bytes(bytes)) => format!("'\\x{}'::bytea", hex(bytes)),
            (Self::Postgres, value) => {
                let plain = match value {
                    Value::Text(text) => text.clone(),
                    value => value.to_plain_json().to_string(),
                };
                format!("{}::{kind}", self.text(&plain))
            }
            (Self::MySql, Value::Bytes(bytes)) => format!("x'{}'", hex(bytes)),
            (Self::MySql, Value::Text(text)) if is_number(kind) => plain_number(text),
            (Self::MySql, Value::Text(text)) => self.text(text),
            (Self::MySql, value) => value.to_plain_json().to_string(),
        }
    }

    /// How a list of columns compares with these values, in their order.
    fn compared(
        self,
        columns: &[&Column],
        sign: Sign,
        with: &[Value],
        values: &mut Vec<Value>,
    ) -> String {
        let names: Vec<String> = columns.iter().map(|c| self.name(&c.name)).collect();
        let literals: Vec<String> = (columns.iter().zip(with))
            .map(|(column, value)| self.value(value, &column.kind, values))
            .collect();
        let (whole, strict, loose) = match sign {
            Sign::From => (">=", ">", ">="),
            Sign::After => (">", ">", ">="),
            Sign::Before => ("<", "<", "<="),
        };
        if columns.len() == 1 {
            return format!("{} {whole} {}", names[0], literals[0]);
        }
        if self != Self::MySql {
            let (names, literals) = (names.join(", "), literals.join(", "));
            return format!("({names}) {whole} ({literals})");
        }
        // It reads an index by a range only if the first column is compared by itself.
        let mut any = Vec::new();
        for last in 0..columns.len() {
            let is_last = last + 1 == columns.len();
            let sign = if is_last { whole } else { strict };
            let equal = (0..last).map(|at| format!("{} = {}", names[at], literals[at]));
            let mut all: Vec<String> = equal.collect();
            all.push(format!("{} {sign} {}", names[last], literals[last]));
            any.push(format!("({})", all.join(" and ")));
        }
        let first = format!("{} {loose} {}", names[0], literals[0]);
        format!("{first} and ({})", any.join(" or "))
    }

    /// The rows of a range, in the order of their keys, at most so many.
    pub(crate) fn range(
        self,
        relation: &Relation,
        shown: &str,
        shape: &Shape,
        range: &Range,
        limit: Option<usize>,
    ) -> Statement {
        let mut values = Vec::new();
        let condition = self.within(shape, range, &mut values);
        let key = self.names(&shape.key);
        let limit = limit.map_or_else(String::new, |limit| format!(" limit {limit}"));
        Statement {
            text: format!(
                "select {shown} from {}{condition} order by {key}{limit}",
                self.relation(relation)
            ),
            values,
        }
    }

    /// That a key is in a range, if that says anything.
    pub(crate) fn within(self, shape: &Shape, range: &Range, values: &mut Vec<Value>) -> String {
        let columns: Vec<&Column> = shape.key.iter().filter_map(|k| shape.column(k)).collect();
        let mut all = Vec::new();
        let ends = [(Sign::From, &range.from), (Sign::Before, &range.to)];
        for (sign, end) in ends {
            if let Some(key) = end.as_ref().filter(|key| key.len() == columns.len()) {
                all.push(self.compared(&columns, sign, key, values));
            }
        }
        match all.is_empty() {
            true => String::new(),
            false => format!(" where {}", all.join(" and ")),
        }
    }

    /// Rows from a value of the cursor on, or after a row, in the order of cursor and key.
    pub(crate) fn past(
        self,
        relation: &Relation,
        shown: &str,
        shape: &Shape,
        cursor: &Column,
        start: &Start,
        limit: usize,
    ) -> Statement {
        let mut values = Vec::new();
        let key = shape.key.iter().filter_map(|name| shape.column(name));
        let order: Vec<&Column> = std::iter::once(cursor).chain(key).collect();
        let condition = match start {
            Start::Beginning => format!("{} is not null", self.name(&cursor.name)),
            Start::At(value) => {
                let value = std::slice::from_ref(value);
                self.compared(&[cursor], Sign::From, value, &mut values)
            }
            Start::After(position) => self.compared(&order, Sign::After, position, &mut values),
        };
        let by = self.names(order.iter().map(|column| &column.name));
        Statement {
            text: format!(
                "select {shown} from {} where {condition} order by {by} limit {limit}",
                self.relation(relation)
            ),
            values,
        }
    }
}

/// How something compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    From,
    After,
    Before,
}

/// Where a cursor goes on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Start {
    /// Everything.
    Beginning,
    /// At this value.
    At(Value),
    /// After a row: its cursor, and then its key.
    After(Vec<Value>),
}

fn is_number(kind: &str) -> bool {
    ["decimal", "bigint", "int", "double", "float"].contains(&kind)
}

/// A number that was kept as text, if it is one.
fn plain_number(text: &str) -> String {
    let is_plain = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    match is_plain && !text.is_empty() {
        true => text.to_owned(),
        false => "null".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_asked_for_in_the_words_of_each_database() {
        let column = |name: &str, kind: &str| Column {
            name: name.to_owned(),
            kind: kind.to_owned(),
        };
        let shape = Shape {
            columns: vec![column("a\"b", "text"), column("n", "int8")],
            key: vec!["a\"b".to_owned(), "n".to_owned()],
            is_ordered: false,
            mark: None,
            is_cursor_indexed: None,
        };
        let key = |text: &str, n| Some(vec![Value::Text(text.to_owned()), Value::Integer(n)]);
        let range = Range {
            from: key("it's", -1),
            to: key("x", 2),
        };
        let relation = Relation::Table(vec!["s".to_owned(), "t".to_owned()]);
        let text = |dialect: Dialect| dialect.range(&relation, "*", &shape, &range, Some(3)).text;
        insta::assert_snapshot!(text(Dialect::Postgres), @r#"select * from "s"."t" where ("a""b", "n") >= ('it''s'::text, '-1'::int8) and ("a""b", "n") < ('x'::text, '2'::int8) order by "a""b", "n" limit 3"#);
        insta::assert_snapshot!(text(Dialect::Sqlite), @r#"select * from "s"."t" where ("a""b", "n") >= (?1, ?2) and ("a""b", "n") < (?3, ?4) order by "a""b", "n" limit 3"#);
        insta::assert_snapshot!(text(Dialect::MySql), @r#"select * from `s`.`t` where `a"b` >= _utf8mb4 x'69742773' and ((`a"b` > _utf8mb4 x'69742773') or (`a"b` = _utf8mb4 x'69742773' and `n` >= -1)) and `a"b` <= _utf8mb4 x'78' and ((`a"b` < _utf8mb4 x'78') or (`a"b` = _utf8mb4 x'78' and `n` < 2)) order by `a"b`, `n` limit 3"#);
    }
}
