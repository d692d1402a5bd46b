//! Tables of a MySQL or MariaDB server.
//!
//! Statements are sent as text, and answered in text: one message goes each way, and the
//! server's own spelling of a value is exact for every type but `float`, of which it writes
//! six digits. Whoever has one is asked by statements that are prepared first, which are
//! answered in binary.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::consts::{ColumnFlags, ColumnType};
use mysql_async::prelude::{Protocol, Queryable};
use mysql_async::{
    Column as Kind, Conn, DriverError, OptsBuilder, QueryResult, Row as MySqlRow, SslOpts,
    Value as Sql,
};
use springtide_store::FailureKind;

use super::database::{Answer, AvailableTable, Found, Login};
use super::statement::{Column, Dialect, Relation, Shape, Statement};
use super::value::Value;
use crate::fetch::FetchFailure;

/// A session that can only read.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Conn,
    timeout: Duration,
    is_broken: bool,
    /// Whether there are floats among what was answered.
    has_floats: bool,
}

/// How long a server may take to say who it is.
const CONNECT: Duration = Duration::from_secs(10);
/// A statement is given up a little after the server should have done so itself.
const MARGIN: Duration = Duration::from_secs(2);
/// The character set of what is no text.
const BINARY: u16 = 63;

impl Session {
    pub(super) async fn open(login: &Login) -> Result<Self, FetchFailure> {
        let (options, mode) = options(login)?;
        let secure = || {
            let ssl = SslOpts::default()
                .with_danger_accept_invalid_certs(mode != Mode::Verify)
                .with_danger_skip_domain_validation(mode != Mode::Verify);
            options.clone().ssl_opts(ssl)
        };
        let opened = match mode {
            Mode::Plain => connect(options.clone()).await,
            Mode::Prefer => match connect(secure()).await {
                Err(mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer)) => {
                    connect(options.clone()).await
                }
                opened => opened,
            },
            Mode::Require | Mode::Verify => connect(secure()).await,
        };
        let mut session = Self {
            connection: opened.map_err(|error| describe(&error))?,
            timeout: login.timeout,
            is_broken: false,
            has_floats: false,
        };
        session.begin().await?;
        Ok(session)
    }

    /// Says once what holds for all that follows: nothing is written, nothing takes too
    /// long, and times are in UTC.
    async fn begin(&mut self) -> Result<(), FetchFailure> {
        let version = self.ask(&Statement::plain("select version()")).await?;
        let version = version.rows.first().and_then(|row| row.first());
        let is_maria = matches!(version, Some(Value::Text(text)) if text.contains("Maria"));
        let limit = match is_maria {
            true => format!("max_statement_time = {}", self.timeout.as_secs_f64()),
            false => format!("max_execution_time = {}", self.timeout.as_millis()),
        };
        let settings = [
            "set session transaction read only".to_owned(),
            format!("set session {limit}, time_zone = '+00:00', lock_wait_timeout = 10"),
        ];
        for text in settings {
            let set = self.connection.query_drop(text);
            let set = tokio::time::timeout(CONNECT, set).await;
            let set = set.map_err(|_| timed_out())?;
            set.map_err(|error| describe(&error))?;
        }
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_broken
    }

    pub(super) async fn ask(&mut self, statement: &Statement) -> Result<Answer, FetchFailure> {
        self.ask_up_to(statement, usize::MAX).await
    }

    /// The same, of which about so many bytes are taken in, and two rows at the least. What is
    /// beyond is left to be read by nobody, and the connection with it.
    pub(super) async fn ask_up_to(
        &mut self,
        statement: &Statement,
        most_bytes: usize,
    ) -> Result<Answer, FetchFailure> {
        let text = &*statement.text;
        if !self.has_floats {
            let (columns, rows) = self.answer(text, Spelling::Text, most_bytes).await?;
            let is_float = |column: &Kind| column.column_type() == ColumnType::MYSQL_TYPE_FLOAT;
            self.has_floats = columns.iter().any(is_float);
            if !self.has_floats {
                return rows_of(&columns, rows, self.is_broken, of_text);
            }
        }
        let (columns, rows) = self.answer(text, Spelling::Binary, most_bytes).await?;
        rows_of(&columns, rows, self.is_broken, of_sql)
    }

    async fn answer(
        &mut self,
        text: &str,
        spelling: Spelling,
        most_bytes: usize,
    ) -> Result<(Arc<[Kind]>, Vec<MySqlRow>), FetchFailure> {
        // Until it is answered, nobody knows what is still to come.
        self.is_broken = true;
        let asked = async {
            match spelling {
                Spelling::Text => taken(self.connection.query_iter(text).await?, most_bytes).await,
                Spelling::Binary => {
                    taken(self.connection.exec_iter(text, ()).await?, most_bytes).await
                }
            }
        };
        let answered = tokio::time::timeout(self.timeout + MARGIN, asked).await;
        let (columns, rows, is_cut) = answered
            .map_err(|_| timed_out())?
            .map_err(|error| describe(&error))?;
        self.is_broken = is_cut;
        Ok((columns, rows))
    }

    pub(super) async fn shape(
        &mut self,
        relation: &Relation,
        key: &[String],
    ) -> Result<Shape, FetchFailure> {
        let Relation::Table(parts) = relation else {
            let text = format!(
                "select * from {} limit 0",
                Dialect::MySql.relation(relation)
            );
            let answer = self.ask(&Statement::plain(text)).await?;
            return Ok(Shape::of_query(answer.columns, key));
        };
        let (schema, table) = names(parts);
        let text = format!(
            "select column_name, data_type, coalesce(collation_name, '') \
             from information_schema.columns \
             where table_schema = {schema} and table_name = {table} order by ordinal_position"
        );
        let described = self.ask(&Statement::plain(text)).await?;
        if described.rows.is_empty() {
            let message = format!("there is no table {}", parts.join("."));
            return Err(FetchFailure::new(FailureKind::Database, message));
        }
        let mut columns = Vec::new();
        let mut ordered = Vec::new();
        for row in &described.rows {
            let [Value::Text(name), Value::Text(kind), Value::Text(collation)] = &row[..] else {
                continue;
            };
            let kind = kind.to_lowercase();
            let is_text = collation.ends_with("_bin") && kind.contains("char");
            if kind.ends_with("int") || kind.ends_with("binary") || is_text {
                ordered.push(name.clone());
            }
            columns.push(Column {
                name: name.clone(),
                kind,
            });
        }
        let key = match key.is_empty() {
            true => {
                let indexes = self.indexes(parts).await?;
                let primary = indexes.into_iter().find(|(name, _)| name == "PRIMARY");
                primary.map(|(_, columns)| columns).unwrap_or_default()
            }
            false => key.to_vec(),
        };
        Ok(Shape {
            columns,
            is_ordered: key.iter().all(|name| ordered.contains(name)),
            key,
            // These depend on which columns are asked for.
            mark: None,
            is_cursor_indexed: None,
        })
    }

    /// Indexes by name, each with its columns in their order.
    async fn indexes(
        &mut self,
        parts: &[String],
    ) -> Result<Vec<(String, Vec<String>)>, FetchFailure> {
        let (schema, table) = names(parts);
        let text = format!(
            "select index_name, column_name from information_schema.statistics \
             where table_schema = {schema} and table_name = {table} \
             order by index_name, seq_in_index"
        );
        let answer = self.ask(&Statement::plain(text)).await?;
        let mut indexes: Vec<(String, Vec<String>)> = Vec::new();
        for row in answer.rows {
            let [Value::Text(index), Value::Text(column)] = &row[..] else {
                continue;
            };
            match indexes.last_mut().filter(|(name, _)| name == index) {
                Some((_, columns)) => columns.push(column.clone()),
                None => indexes.push((index.clone(), vec![column.clone()])),
            }
        }
        Ok(indexes)
    }

    pub(super) async fn has_index(
        &mut self,
        parts: &[String],
        columns: &[String],
    ) -> Result<bool, FetchFailure> {
        let indexes = self.indexes(parts).await?;
        Ok(indexes.iter().any(|(_, of)| of.starts_with(columns)))
    }

    pub(super) async fn tables(&mut self) -> Result<Vec<AvailableTable>, FetchFailure> {
        let text = "select table_schema, table_name, table_rows, table_type = 'VIEW' \
             from information_schema.tables where table_schema not in \
             ('mysql', 'sys', 'information_schema', 'performance_schema') \
             order by 1, 2 limit 500";
        let answer = self.ask(&Statement::plain(text)).await?;
        let mut tables = Vec::new();
        for row in answer.rows {
            let [Value::Text(schema), Value::Text(name), n, is_view] = &row[..] else {
                continue;
            };
            let relation = Relation::Table(vec![schema.clone(), name.clone()]);
            let shape = self.shape(&relation, &[]).await?;
            tables.push(AvailableTable {
                name: format!("{schema}.{name}"),
                n_rows: match n {
                    Value::Integer(n) => Some(*n as f64),
                    _ => None,
                },
                is_view: *is_view == Value::Integer(1),
                found: Found::of(&shape),
            });
        }
        Ok(tables)
    }
}

/// How far a connection has to be secure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plain,
    Prefer,
    Require,
    Verify,
}

fn options(login: &Login) -> Result<(OptsBuilder, Mode), FetchFailure> {
    let refuse = |message: String| FetchFailure::new(FailureKind::Url, message);
    let url = url::Url::parse(&login.url)
        .map_err(|error| refuse(format!("the address of the database is not valid: {error}")))?;
    let mut mode = Mode::Prefer;
    for (key, value) in url.query_pairs() {
        if !matches!(&*key, "ssl-mode" | "sslmode" | "ssl_mode") {
            return Err(refuse(format!("the address has {key}, which is not known")));
        }
        mode = match &*value.to_ascii_lowercase().replace('_', "-") {
            "disabled" | "disable" => Mode::Plain,
            "preferred" | "prefer" => Mode::Prefer,
            "required" | "require" => Mode::Require,
            "verify-ca" | "verify-identity" | "verify-full" => Mode::Verify,
            _ => return Err(refuse(format!("there is no ssl-mode {value}"))),
        };
    }
    let plain = |text: &str| {
        let decoded =
            url::form_urlencoded::parse(format!("x={}", text.replace('+', "%2B")).as_bytes())
                .next()
                .map(|(_, value)| value.into_owned());
        decoded.unwrap_or_default()
    };
    let user = Some(plain(url.username())).filter(|user| !user.is_empty());
    let database = Some(plain(url.path().trim_start_matches('/'))).filter(|name| !name.is_empty());
    let host = url.host_str().unwrap_or("localhost");
    let options = OptsBuilder::default()
        .ip_or_hostname(host.trim_start_matches('[').trim_end_matches(']'))
        .tcp_port(url.port().unwrap_or(3306))
        .user(user)
        .pass(login.password.clone())
        .db_name(database)
        .prefer_socket(false)
        .stmt_cache_size(0)
        // What servers of either kind list sessions with.
        .connect_attributes(HashMap::from([(
            "program_name".to_owned(),
            login.application(),
        )]))
        .max_allowed_packet(Some(64 << 20));
    Ok((options, mode))
}

async fn connect(options: OptsBuilder) -> Result<Conn, mysql_async::Error> {
    let connecting = Conn::new(options);
    match tokio::time::timeout(CONNECT + MARGIN, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(mysql_async::Error::Io(mysql_async::IoError::Io(
            std::io::ErrorKind::TimedOut.into(),
        ))),
    }
}

/// The schema and the name of a table, as literals.
pub(super) fn names(parts: &[String]) -> (String, String) {
    let text = |name: &String| Dialect::MySql.text(name);
    match parts {
        [schema, table] => (text(schema), text(table)),
        [table] => ("database()".to_owned(), text(table)),
        _ => ("database()".to_owned(), text(&String::new())),
    }
}

/// How values are written in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Text,
    Binary,
}

/// Rows of a result, of about so many bytes, and whether there was more.
async fn taken<P: Protocol>(
    mut result: QueryResult<'_, '_, P>,
    most_bytes: usize,
) -> Result<(Arc<[Kind]>, Vec<MySqlRow>, bool), mysql_async::Error> {
    let columns = result.columns().unwrap_or_default();
    let (mut rows, mut n_bytes) = (Vec::new(), 0);
    while let Some(row) = result.next().await? {
        if n_bytes > most_bytes && rows.len() >= 2 {
            return Ok((columns, rows, true));
        }
        let row: MySqlRow = row;
        let values = (0..row.len()).filter_map(|at| row.as_ref(at));
        n_bytes += values
            .map(|value| match value {
                Sql::Bytes(bytes) => bytes.len() + 1,
                _ => 1,
            })
            .sum::<usize>();
        rows.push(row);
    }
    Ok((columns, rows, false))
}

fn rows_of(
    columns: &[Kind],
    answered: Vec<MySqlRow>,
    is_cut: bool,
    of: fn(Sql, &Kind) -> Result<Value, FetchFailure>,
) -> Result<Answer, FetchFailure> {
    let mut rows = Vec::with_capacity(answered.len());
    for row in answered {
        let values = row.unwrap().into_iter().zip(columns);
        let values = values.map(|(value, column)| of(value, column));
        rows.push(values.collect::<Result<_, _>>()?);
    }
    let names = columns.iter().map(|column| column.name_str().into_owned());
    Ok(Answer {
        columns: names.collect(),
        rows,
        is_cut,
    })
}

/// A value of a column, from the server's spelling of it.
pub(crate) fn of_text(value: Sql, column: &Kind) -> Result<Value, FetchFailure> {
    use ColumnType as Type;
    let Sql::Bytes(bytes) = value else {
        return of_sql(value, column);
    };
    let kind = column.column_type();
    let spelled = match kind {
        Type::MYSQL_TYPE_TINY
        | Type::MYSQL_TYPE_SHORT
        | Type::MYSQL_TYPE_INT24
        | Type::MYSQL_TYPE_LONG
        | Type::MYSQL_TYPE_LONGLONG
        | Type::MYSQL_TYPE_YEAR
        | Type::MYSQL_TYPE_DOUBLE
        | Type::MYSQL_TYPE_DATE
        | Type::MYSQL_TYPE_NEWDATE
        | Type::MYSQL_TYPE_DATETIME
        | Type::MYSQL_TYPE_DATETIME2
        | Type::MYSQL_TYPE_TIMESTAMP
        | Type::MYSQL_TYPE_TIMESTAMP2
        | Type::MYSQL_TYPE_TIME
        | Type::MYSQL_TYPE_TIME2 => std::str::from_utf8(&bytes).ok(),
        _ => return of_sql(Sql::Bytes(bytes), column),
    };
    let read = spelled.and_then(|text| {
        Some(match kind {
            Type::MYSQL_TYPE_DOUBLE => Value::real(text.parse().ok()?),
            Type::MYSQL_TYPE_DATE | Type::MYSQL_TYPE_NEWDATE => Value::Text(text.to_owned()),
            Type::MYSQL_TYPE_TIME | Type::MYSQL_TYPE_TIME2 => {
                Value::Text(short_fraction(text).to_owned())
            }
            Type::MYSQL_TYPE_TIMESTAMP | Type::MYSQL_TYPE_TIMESTAMP2 => {
                Value::Text(format!("{}Z", short_fraction(text).replacen(' ', "T", 1)))
            }
            Type::MYSQL_TYPE_DATETIME | Type::MYSQL_TYPE_DATETIME2 => {
                Value::Text(short_fraction(text).replacen(' ', "T", 1))
            }
            _ => match text.parse::<i64>() {
                Ok(number) => Value::Integer(number),
                Err(_) => Value::Text(text.parse::<u64>().ok()?.to_string()),
            },
        })
    });
    read.ok_or_else(|| {
        let message = format!(
            "column {} has a value that is not a {kind:?}",
            column.name_str()
        );
        FetchFailure::new(FailureKind::Database, message)
    })
}

/// A time with as few digits of its second as it takes.
fn short_fraction(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

/// A value of a column, from its bits.
pub(crate) fn of_sql(value: Sql, column: &Kind) -> Result<Value, FetchFailure> {
    use ColumnType as Type;
    let kind = column.column_type();
    let is_unsigned = column.flags().contains(ColumnFlags::UNSIGNED_FLAG);
    Ok(match value {
        Sql::NULL => Value::Null,
        Sql::Int(number) if is_unsigned && number < 0 => Value::Text((number as u64).to_string()),
        Sql::Int(number) => Value::Integer(number),
        Sql::UInt(number) => match i64::try_from(number) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Text(number.to_string()),
        },
        // The shortest that is this float: what people wrote.
        Sql::Float(number) => match number.to_string().parse() {
            Ok(number) => Value::real(number),
            Err(_) => Value::real(f64::from(number)),
        },
        Sql::Double(number) => Value::real(number),
        Sql::Date(year, month, day, hour, minute, second, micros) => {
            let date = format!("{year:04}-{month:02}-{day:02}");
            if kind == Type::MYSQL_TYPE_DATE || kind == Type::MYSQL_TYPE_NEWDATE {
                return Ok(Value::Text(date));
            }
            let is_zoned = matches!(
                kind,
                Type::MYSQL_TYPE_TIMESTAMP | Type::MYSQL_TYPE_TIMESTAMP2
            );
            let zone = if is_zoned { "Z" } else { "" };
            let part = fraction(micros);
            Value::Text(format!(
                "{date}T{hour:02}:{minute:02}:{second:02}{part}{zone}"
            ))
        }
        Sql::Time(is_negative, days, hours, minutes, seconds, micros) => {
            let sign = if is_negative { "-" } else { "" };
            // A server may say anything: days beyond its own range are no reason to panic.
            let hours = u64::from(days) * 24 + u64::from(hours);
            let part = fraction(micros);
            Value::Text(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{part}"))
        }
        Sql::Bytes(bytes) if kind == Type::MYSQL_TYPE_BIT && bytes.len() <= 8 => {
            let number = bytes
                .iter()
                .fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
            match i64::try_from(number) {
                Ok(number) => Value::Integer(number),
                Err(_) => Value::Text(number.to_string()),
            }
        }
        Sql::Bytes(bytes) => {
            let is_text = column.character_set() != BINARY
                || matches!(
                    kind,
                    Type::MYSQL_TYPE_NEWDECIMAL | Type::MYSQL_TYPE_DECIMAL | Type::MYSQL_TYPE_JSON
                );
            match (is_text, String::from_utf8(bytes)) {
                (true, Ok(text)) => Value::Text(text),
                (true, Err(_)) => {
                    let message =
                        format!("column {} has text that is not UTF-8", column.name_str());
                    return Err(FetchFailure::new(FailureKind::Database, message));
                }
                (false, Ok(text)) => Value::Bytes(text.into_bytes()),
                (false, Err(error)) => Value::Bytes(error.into_bytes()),
            }
        }
    })
}

/// Parts of a second, as few digits as it takes.
fn fraction(micros: u32) -> String {
    match micros {
        0 => String::new(),
        micros => format!(".{micros:06}").trim_end_matches('0').to_owned(),
    }
}

fn timed_out() -> FetchFailure {
    FetchFailure::new(FailureKind::Timeout, "the statement took too long")
}

fn describe(error: &mysql_async::Error) -> FetchFailure {
    let (kind, message) = match error {
        mysql_async::Error::Server(said) => {
            let kind = match said.code {
                // Interrupted: by MySQL, and by MariaDB.
                3024 | 1969 | 1317 => FailureKind::Timeout,
                // Too many connections, shutting down, or gone.
                1040 | 1053 | 1203 | 2006 | 2013 => FailureKind::Connect,
                _ => FailureKind::Database,
            };
            (kind, said.message.clone())
        }
        mysql_async::Error::Io(error) => {
            let message = error.to_string();
            let kind = match message.contains("timed out") {
                true => FailureKind::Timeout,
                false => FailureKind::Connect,
            };
            (kind, message)
        }
        error => (FailureKind::Connect, error.to_string()),
    };
    FetchFailure::new(kind, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_say_who_is_there_and_whom_to_turn_to() {
        let login = Login {
            url: "mysql://reader@db.example.org/shop".to_owned(),
            contact: Some("ops@example.org".to_owned()),
            ..Login::default()
        };
        let (options, _) = options(&login).unwrap();
        let options = mysql_async::Opts::from(options);
        let attributes = options.connect_attributes().unwrap();
        assert_eq!(attributes["program_name"], "springtide (ops@example.org)");
    }
}
