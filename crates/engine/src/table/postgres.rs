//! Tables of a PostgreSQL server.
//!
//! Statements are sent as text, and answered in text: the server's own spelling of a value
//! is exact for every type, and one message goes each way.

use std::fmt::Write as _;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use springtide_store::FailureKind;
use tokio::task::AbortHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, SimpleQueryMessage};

use super::batch::{Batch, ValueRef};
use super::database::{Answer, AvailableTable, Found, Login, RowAnswer};
use super::digest::WRITER_COLUMN;
use super::statement::{Column, Dialect, Relation, Shape, Statement};
use super::tls::{CertificateCheck, Tls};
use super::value::{Value, unhex};
use crate::fetch::FetchFailure;

/// A session that can only read.
#[derive(Debug)]
pub(crate) struct Session {
    client: Client,
    connection: AbortHandle,
    timeout: Duration,
    kinds: Vec<Column>,
    /// More was answered than was taken in, and the connection was cut for it.
    is_cut: bool,
}

/// How long a server may take to say who it is.
const CONNECT: Duration = Duration::from_secs(10);
/// A statement is given up a little after the server should have done so itself.
const MARGIN: Duration = Duration::from_secs(2);

impl Session {
    pub(super) async fn open(login: &Login) -> Result<Self, FetchFailure> {
        let (mut config, check) = config(login)?;
        let millis = login.timeout.as_millis();
        config
            .application_name(login.application())
            .connect_timeout(CONNECT.min(login.timeout))
            .options(format!(
                "-c default_transaction_read_only=on -c statement_timeout={millis} \
                 -c lock_timeout={millis} -c idle_in_transaction_session_timeout={millis} \
                 -c TimeZone=UTC -c DateStyle=ISO -c bytea_output=hex \
                 -c extra_float_digits=1 -c standard_conforming_strings=on \
                 -c client_encoding=UTF8"
            ));
        if let Some(password) = &login.password {
            config.password(password);
        }
        let connecting = config.connect(Tls::new(check)?);
        let opened = tokio::time::timeout(CONNECT + MARGIN, connecting).await;
        let (client, connection) = match opened {
            Ok(opened) => opened.map_err(|error| describe(&error))?,
            Err(_) => {
                let message = "the database did not answer";
                return Err(FetchFailure::new(FailureKind::Timeout, message));
            }
        };
        // It ends with the client; what breaks it breaks the statement under way.
        let connection = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self {
            client,
            connection: connection.abort_handle(),
            timeout: login.timeout,
            kinds: Vec::new(),
            is_cut: false,
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_cut || self.client.is_closed()
    }

    pub(super) async fn ask(&mut self, statement: &Statement) -> Result<Answer, FetchFailure> {
        let answered = self.ask_for_rows(statement, usize::MAX).await?;
        Ok(Answer {
            rows: answered.batch.to_rows(0..answered.batch.n_rows()),
            columns: answered.columns,
            is_cut: false,
        })
    }

    /// Sends one statement, and takes in about so many bytes of the answer, and two rows at
    /// the least. Where there are more, the server stops, since nobody is there any longer.
    pub(super) async fn ask_for_rows(
        &mut self,
        statement: &Statement,
        most_bytes: usize,
    ) -> Result<RowAnswer, FetchFailure> {
        let answered = self.answer(&statement.text, most_bytes);
        let answered = tokio::time::timeout(self.timeout + MARGIN, answered).await;
        let answer = answered.unwrap_or_else(|_| {
            let message = "the statement took too long";
            Err(FetchFailure::new(FailureKind::Timeout, message))
        })?;
        if answer.is_cut {
            self.is_cut = true;
            self.connection.abort();
        }
        Ok(answer)
    }

    /// What the server answers, row by row as it comes: it makes the next ones meanwhile.
    async fn answer(&self, text: &str, most_bytes: usize) -> Result<RowAnswer, FetchFailure> {
        let asked = self.client.simple_query_raw(text).await;
        let mut messages = std::pin::pin!(asked.map_err(|error| describe(&error))?);
        let mut answer = RowAnswer::default();
        let mut kinds: Vec<Spelled> = Vec::new();
        while let Some(message) = messages.try_next().await.map_err(|e| describe(&e))? {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    let names = columns.iter().map(|column| column.name().to_owned());
                    answer.columns = names.collect();
                    let known = answer.columns.iter().map(|name| self.spelled(name));
                    kinds = known.collect();
                    answer.batch = Batch::new(kinds.len());
                }
                SimpleQueryMessage::Row(row) => {
                    if answer.batch.n_bytes() > most_bytes && answer.batch.n_rows() >= 2 {
                        answer.is_cut = true;
                        break;
                    }
                    for (at, kind) in kinds.iter().enumerate() {
                        // What is no UTF-8 is no text to us, whatever the database takes it for.
                        let value = row.try_get(at).ok();
                        let read = value.and_then(|text| kind.read(text, &mut answer.batch));
                        read.ok_or_else(|| self.unread(&answer.columns[at]))?;
                    }
                }
                _ => {}
            }
        }
        Ok(answer)
    }

    fn kind(&self, name: &str) -> Option<&str> {
        let known = self.kinds.iter().find(|known| known.name == name);
        known.map(|column| &*column.kind)
    }

    /// How values of a column are spelled.
    fn spelled(&self, name: &str) -> Spelled {
        match self.kind(name) {
            None if name == WRITER_COLUMN => Spelled::Integer,
            kind => Spelled::of(kind.unwrap_or("text")),
        }
    }

    fn unread(&self, name: &str) -> FetchFailure {
        let kind = self.kind(name).unwrap_or("text");
        let message = format!("column {name} has a value that is not a {kind}");
        FetchFailure::new(FailureKind::Database, message)
    }

    pub(super) async fn shape(
        &mut self,
        relation: &Relation,
        key: &[String],
    ) -> Result<Shape, FetchFailure> {
        let text = format!("select * from {}", Dialect::Postgres.relation(relation));
        let prepared = self.client.prepare(&text);
        let prepared = tokio::time::timeout(self.timeout + MARGIN, prepared).await;
        let Ok(prepared) = prepared else {
            let message = "the database did not answer";
            return Err(FetchFailure::new(FailureKind::Timeout, message));
        };
        let prepared = prepared.map_err(|error| match (error.code(), relation) {
            (Some(&SqlState::UNDEFINED_TABLE), Relation::Table(parts)) => {
                let message = format!("there is no table {}", parts.join("."));
                FetchFailure::new(FailureKind::Database, message)
            }
            _ => describe(&error),
        })?;
        let columns = prepared.columns().iter().map(|column| {
            let kind = column.type_();
            let name = match kind.schema() {
                "pg_catalog" => kind.name().to_owned(),
                schema => {
                    let parts = [schema.to_owned(), kind.name().to_owned()];
                    Dialect::Postgres.relation(&Relation::Table(parts.to_vec()))
                }
            };
            Column {
                name: column.name().to_owned(),
                kind: name,
            }
        });
        let columns: Vec<Column> = columns.collect();
        self.kinds.clone_from(&columns);
        let (mut primary, mut collated) = (Vec::new(), Vec::new());
        if let Relation::Table(_) = relation {
            (primary, collated) = self.keys(relation).await?;
        }
        let key = match key.is_empty() {
            true => primary,
            false => key.to_vec(),
        };
        let is_ordered = key.iter().all(|name| {
            let kind = columns.iter().find(|column| column.name == *name);
            let kind = kind.map_or("", |column| &column.kind);
            let is_text = ["text", "varchar"].contains(&kind) && !collated.contains(name);
            is_text || ["int2", "int4", "int8", "oid", "uuid", "bytea"].contains(&kind)
        });
        Ok(Shape {
            columns,
            key,
            is_ordered: is_ordered && matches!(relation, Relation::Table(_)),
            // These depend on which columns are asked for.
            mark: None,
            is_cursor_indexed: None,
        })
    }

    /// Whether each row tells which transaction wrote it. Views and foreign tables do not, and
    /// children of an inherited table may not. Under row-level security a row may become
    /// visible without having been written.
    pub(super) async fn has_mark(&mut self, relation: &Relation) -> Result<bool, FetchFailure> {
        let text = format!(
            "select c.relkind in ('r', 'm') and not c.relhassubclass \
             and coalesce(m.amname, 'heap') = 'heap' and has_table_privilege(c.oid, 'select') \
             and not row_security_active(c.oid) \
             and current_setting('server_version_num')::int >= 120000 \
             from pg_catalog.pg_class c left join pg_catalog.pg_am m on m.oid = c.relam \
             where c.oid = {}::regclass",
            Dialect::Postgres.text(&Dialect::Postgres.relation(relation))
        );
        let answer = self.ask(&Statement::plain(text)).await?;
        let said = answer.rows.first().and_then(|row| row.first());
        if !matches!(said, Some(Value::Text(text)) if text == "t") {
            return Ok(false);
        }
        // A server that only speaks the protocol may lack these functions, or deny them.
        let text = format!(
            "select age({WRITER_COLUMN}), hashint8extended(0, 0), txid_current_snapshot() \
             from {} limit 0",
            Dialect::Postgres.relation(relation)
        );
        match self.ask(&Statement::plain(text)).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.kind == FailureKind::Database => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// The columns of the primary key, in its order, and the columns whose text is in the
    /// order of a language.
    async fn keys(
        &mut self,
        relation: &Relation,
    ) -> Result<(Vec<String>, Vec<String>), FetchFailure> {
        let text = format!(
            "select a.attname, coalesce(array_position(i.indkey::int2[], a.attnum), -1), \
             coalesce(l.collname in ('C', 'POSIX', 'ucs_basic') \
               or l.collname = 'default' and d.datcollate in ('C', 'POSIX'), true) \
             from pg_catalog.pg_attribute a \
             left join pg_catalog.pg_index i on i.indrelid = a.attrelid and i.indisprimary \
             left join pg_catalog.pg_collation l on l.oid = a.attcollation \
             left join pg_catalog.pg_database d on d.datname = current_database() \
             where a.attrelid = {}::regclass and a.attnum > 0 and not a.attisdropped \
             order by 2",
            Dialect::Postgres.text(&Dialect::Postgres.relation(relation))
        );
        let answer = self.ask(&Statement::plain(text)).await?;
        let (mut primary, mut collated) = (Vec::new(), Vec::new());
        for row in answer.rows {
            let [Value::Text(name), Value::Text(place), Value::Text(is_plain)] = &row[..] else {
                continue;
            };
            if place != "-1" {
                primary.push(name.clone());
            }
            if is_plain != "t" {
                collated.push(name.clone());
            }
        }
        Ok((primary, collated))
    }

    /// Whether ranges of a key can be read without a read of the whole: there are few rows, or
    /// the server comes to the first of them, in their order, sooner than to all of them. It
    /// is asked for its plan, which knows views, partitions, and tables that were never
    /// analysed as well.
    pub(super) async fn has_index(
        &mut self,
        relation: &Relation,
        key: &[String],
    ) -> Result<bool, FetchFailure> {
        let dialect = Dialect::Postgres;
        let (key, from) = (dialect.names(key), dialect.relation(relation));
        let all = self.plan(&format!("select {key} from {from}")).await?;
        if all.n_rows < FEW_ROWS {
            return Ok(true);
        }
        let first = format!("select {key} from {from} order by {key} limit 1");
        Ok(self.plan(&first).await?.cost < all.cost / 2.0)
    }

    /// How many rows there are, about, and how many bytes each, where nobody has counted: by
    /// the size of the file. It takes small ones for larger than they are, so of these nothing
    /// is said.
    pub(super) async fn uncounted(
        &mut self,
        relation: &Relation,
    ) -> Result<Option<(f64, f64)>, FetchFailure> {
        let all = format!("select * from {}", Dialect::Postgres.relation(relation));
        let plan = self.plan(&all).await?;
        Ok((plan.n_rows >= FEW_ROWS).then_some((plan.n_rows, plan.row_bytes)))
    }

    /// What the server expects of a statement, which it does not run.
    async fn plan(&mut self, text: &str) -> Result<Plan, FetchFailure> {
        let asked = Statement::plain(format!("explain (format json) {text}"));
        let answer = self.ask(&asked).await?;
        let said = answer.rows.first().and_then(|row| row.first());
        let plan = match said {
            Some(Value::Text(said)) => serde_json::from_str::<serde_json::Value>(said).ok(),
            _ => None,
        };
        let number = |name: &str| plan.as_ref()?[0]["Plan"][name].as_f64();
        let all = (|| {
            Some(Plan {
                n_rows: number("Plan Rows")?,
                row_bytes: number("Plan Width")?,
                cost: number("Total Cost")?,
            })
        })();
        all.ok_or_else(|| {
            let message = "the server shows no plan for its statements";
            FetchFailure::new(FailureKind::Database, message)
        })
    }

    /// Whether there is an index that begins with a column; nothing where there can be none.
    pub(super) async fn has_index_of(
        &mut self,
        relation: &Relation,
        column: &str,
    ) -> Result<Option<bool>, FetchFailure> {
        let dialect = Dialect::Postgres;
        let text = format!(
            "select c.relkind in ('r', 'm', 'p'), exists (select from pg_catalog.pg_index i \
               join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0] \
               where i.indrelid = c.oid and i.indisvalid and i.indpred is null \
               and a.attname = {}) from pg_catalog.pg_class c where c.oid = {}::regclass",
            dialect.text(column),
            dialect.text(&dialect.relation(relation))
        );
        let answer = self.ask(&Statement::plain(text)).await?;
        let is_true = |at: usize| {
            let said = answer.rows.first().and_then(|row| row.get(at));
            matches!(said, Some(Value::Text(said)) if said == "t")
        };
        Ok(is_true(0).then(|| is_true(1)))
    }

    pub(super) async fn tables(&mut self) -> Result<Vec<AvailableTable>, FetchFailure> {
        let text = "select n.nspname, c.relname, c.reltuples::bigint, c.relkind in ('v', 'm') \
             from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
             where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition \
             and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast') \
             and has_schema_privilege(n.oid, 'usage') \
             and has_any_column_privilege(c.oid, 'select') order by 1, 2 limit 500";
        self.kinds.clear();
        let answer = self.ask(&Statement::plain(text)).await?;
        let mut tables = Vec::new();
        for row in answer.rows {
            let [
                Value::Text(schema),
                Value::Text(name),
                Value::Text(n),
                Value::Text(is_view),
            ] = &row[..]
            else {
                continue;
            };
            let relation = Relation::Table(vec![schema.clone(), name.clone()]);
            let shape = self.shape(&relation, &[]).await?;
            self.kinds.clear();
            let mut n_rows = n.parse().ok().filter(|n: &f64| *n >= 0.0);
            if n_rows.is_none() && is_view != "t" {
                let uncounted = self.uncounted(&relation).await.ok().flatten();
                n_rows = uncounted.map(|(n_rows, _)| n_rows);
            }
            tables.push(AvailableTable {
                name: format!("{schema}.{name}"),
                n_rows,
                is_view: is_view == "t",
                found: Found::of(&shape),
            });
        }
        Ok(tables)
    }
}

/// A table of fewer rows is read without an index.
const FEW_ROWS: f64 = 10_000.0;

/// What the server expects of a statement.
#[derive(Debug, Clone, Copy)]
struct Plan {
    n_rows: f64,
    row_bytes: f64,
    /// In units of its own.
    cost: f64,
}

/// What an address says, and how far the server's certificate has to be good.
fn config(login: &Login) -> Result<(Config, CertificateCheck), FetchFailure> {
    let refuse = |message: String| FetchFailure::new(FailureKind::Url, message);
    let mut url = url::Url::parse(&login.url)
        .map_err(|error| refuse(format!("the address of the database is not valid: {error}")))?;
    let mut mode = "prefer".to_owned();
    let mut kept = Vec::new();
    for (key, value) in url.query_pairs() {
        match &*key {
            "sslmode" => mode = value.into_owned(),
            _ => kept.push((key.into_owned(), value.into_owned())),
        }
    }
    url.set_query(None);
    if !kept.is_empty() {
        url.query_pairs_mut().extend_pairs(kept);
    }
    let mut config: Config = url
        .as_str()
        .parse()
        .map_err(|error| refuse(format!("the address of the database is not valid: {error}")))?;
    let check = match &*mode {
        "disable" => {
            config.ssl_mode(SslMode::Disable);
            CertificateCheck::None
        }
        "allow" | "prefer" => {
            config.ssl_mode(SslMode::Prefer);
            CertificateCheck::None
        }
        "require" => {
            config.ssl_mode(SslMode::Require);
            CertificateCheck::None
        }
        "verify-ca" | "verify-full" => {
            config.ssl_mode(SslMode::Require);
            CertificateCheck::Verify
        }
        other => return Err(refuse(format!("there is no sslmode {other}"))),
    };
    Ok((config, check))
}

/// How the server spells values of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelled {
    Integer,
    Real,
    Boolean,
    Bytes,
    Moment,
    ZonedMoment,
    Text,
}

impl Spelled {
    fn of(kind: &str) -> Self {
        match kind {
            "int2" | "int4" | "int8" | "oid" => Self::Integer,
            "float4" | "float8" => Self::Real,
            "bool" => Self::Boolean,
            "bytea" => Self::Bytes,
            "timestamp" => Self::Moment,
            "timestamptz" => Self::ZonedMoment,
            _ => Self::Text,
        }
    }

    /// Takes in a value; nothing if it is none.
    fn read(self, text: Option<&str>, batch: &mut Batch) -> Option<()> {
        let Some(text) = text else {
            batch.push(ValueRef::Null);
            return Some(());
        };
        batch.push(match self {
            Self::Integer => ValueRef::Integer(text.parse().ok()?),
            Self::Real if ["NaN", "Infinity", "-Infinity"].contains(&text) => ValueRef::Text(text),
            Self::Real => {
                let number = Value::real(text.parse().ok()?);
                batch.push(number.as_ref());
                return Some(());
            }
            Self::Boolean => ValueRef::Integer(i64::from(text == "t")),
            Self::Bytes => {
                batch.push(ValueRef::Bytes(&unhex(text.strip_prefix("\\x")?)?));
                return Some(());
            }
            Self::Moment | Self::ZonedMoment => {
                let zone = if self == Self::Moment { "" } else { "Z" };
                push_moment(text, zone, batch);
                return Some(());
            }
            Self::Text => ValueRef::Text(text),
        });
        Some(())
    }
}

/// A time in ISO 8601. Those that have none there are left as they are.
fn push_moment(text: &str, zone: &str, batch: &mut Batch) {
    let is_plain = text.starts_with(|c: char| c.is_ascii_digit()) && !text.ends_with("BC");
    match text.split_once(' ') {
        Some((date, time)) if is_plain => {
            let time = time.strip_suffix("+00").unwrap_or(time);
            batch.push_text([date, "T", time, zone]);
        }
        _ => batch.push_text([text]),
    }
}

/// What went wrong, without anything of the address but what the server says.
fn describe(error: &tokio_postgres::Error) -> FetchFailure {
    let Some(said) = error.as_db_error() else {
        let mut message = String::new();
        let mut cause: Option<&dyn std::error::Error> = Some(error);
        while let Some(error) = cause {
            let separator = if message.is_empty() { "" } else { ": " };
            let _ = write!(message, "{separator}{error}");
            cause = error.source();
        }
        let kind = match () {
            () if message.contains("timed out") => FailureKind::Timeout,
            () if error.is_closed() => FailureKind::Reset,
            () => FailureKind::Connect,
        };
        return FetchFailure::new(kind, message);
    };
    let state = said.code();
    let class = state.code().get(..2).unwrap_or_default();
    let kind = match (class, state) {
        (_, &SqlState::QUERY_CANCELED) => FailureKind::Timeout,
        // Connections refused, servers that are starting or stopping, or have no room.
        ("08" | "57" | "53", _) => FailureKind::Connect,
        _ => FailureKind::Database,
    };
    let mut message = said.message().to_owned();
    if let Some(hint) = said.hint() {
        let _ = write!(message, " ({hint})");
    }
    FetchFailure::new(kind, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_the_server_spells() {
        let text = |text: &str| Some(Value::Text(text.to_owned()));
        let value = |text: Option<&str>, kind: &str| {
            let mut batch = Batch::new(1);
            Spelled::of(kind).read(text, &mut batch)?;
            Some(batch.value(0, 0).to_value())
        };
        assert_eq!(value(Some("-7"), "int8"), Some(Value::Integer(-7)));
        assert_eq!(value(Some("0.1"), "float4"), Some(Value::Real(0.1)));
        assert_eq!(value(Some("NaN"), "float8"), text("NaN"));
        assert_eq!(value(Some("12.300"), "numeric"), text("12.300"));
        assert_eq!(value(Some("t"), "bool"), Some(Value::Integer(1)));
        assert_eq!(
            value(Some("\\x00ff"), "bytea"),
            Some(Value::Bytes(vec![0, 255]))
        );
        assert_eq!(value(None, "int8"), Some(Value::Null));
        assert_eq!(
            value(Some("2026-11-18 05:00:01.25+00"), "timestamptz"),
            text("2026-11-18T05:00:01.25Z")
        );
        assert_eq!(
            value(Some("2026-11-18 05:00:01"), "timestamp"),
            text("2026-11-18T05:00:01")
        );
        assert_eq!(value(Some("infinity"), "timestamptz"), text("infinity"));
        assert_eq!(value(Some("x"), "int8"), None);
    }

    #[test]
    fn the_mode_of_the_address_is_libpqs() {
        let of = |url: &str| {
            let login = Login {
                url: url.to_owned(),
                ..Login::default()
            };
            config(&login).map(|(config, check)| (config.get_ssl_mode(), check))
        };
        let base = "postgres://reader@db.example.org/shop";
        assert_eq!(of(base).unwrap(), (SslMode::Prefer, CertificateCheck::None));
        let full = of(&format!("{base}?sslmode=verify-full"));
        assert_eq!(full.unwrap(), (SslMode::Require, CertificateCheck::Verify));
        assert!(of(&format!("{base}?sslmode=maybe")).is_err());
    }
}
