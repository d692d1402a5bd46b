//! Tables of databases that we may only read.
//!
//! An element is a block: the rows of a range of keys. A poll is one statement that reads a
//! block, or the digests of several, or the rows past a cursor. `statement` says what is
//! asked, in the words of each database; a driver each (`postgres`, `mysql`, `sqlite`) asks
//! it; `block` cuts rows into blocks; `digest` tells whether one has changed; `copy` is the
//! file that people read. When something is polled, and whether it may be, is decided
//! elsewhere.

mod batch;
mod block;
mod copy;
mod cursor;
mod database;
mod digest;
pub(crate) mod mysql;
mod postgres;
mod reader;
mod sqlite;
mod statement;
mod tls;
pub(crate) mod value;

use std::collections::HashSet;
use std::ops::Range as Span;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use springtide_policy::agenda::Verdict;
use springtide_store::{Bodies, BodyId, Copy, ElementId, FailureKind, Packed};
use tokio::time::Instant;

pub(crate) use batch::{Batch, ValueRef};
pub(crate) use block::{BlockSize, Cut, Range, at_once, cut, order};
pub(crate) use copy::{CopiedBlock, CopyFile, FirstRows, RowChange, Update, difference};
pub(crate) use cursor::{CursorRead, CursorState};
pub use database::{AvailableTable, DatabaseAddress, Found, FoundSize};
pub(crate) use database::{Database, Login, Pool, RowAnswer};
pub use reader::{ColumnKind, CopyError, CopyReader, RowLogged};
pub use statement::Relation;
pub(crate) use statement::{Dialect, Shape, Statement};
pub use value::{Row, Value};
pub(crate) use value::{Rows, key_text};

use crate::blocking::blocking;
use crate::fail_point::fail_point;
use crate::fetch::{FetchFailure, group_of};
use crate::poll::{EndedPoll, Message, PendingPoll, PollContext, PollResult, RedirectPath};
use crate::settings::{GroupRule, SourceSettings, TableSettings};
use crate::source::{OwnSighting, Reading, Sighting};

/// A table, and the connections to its database.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) settings: TableSettings,
    contact: Option<String>,
    pool: Pool,
    /// How many bytes a row of the last answer had; 0 if there was none yet.
    row_bytes: AtomicUsize,
    costs: digest::Costs,
}

/// What a database is asked for.
#[derive(Debug, Clone)]
pub(crate) struct TableRequest {
    pub(crate) table: Arc<Table>,
    pub(crate) what: TableStatement,
}

/// What a poll of a table reads.
#[derive(Debug, Clone)]
pub(crate) enum TableStatement {
    /// The rows of a block. The range may be larger than that of the element, if it takes
    /// in what comes after it: those are the elements that it takes in, and their copies.
    Block {
        range: Range,
        others: Vec<(ElementId, Copy)>,
    },
    /// Whether blocks are what they were: the one that is polled, and some after it.
    Digests(Vec<KnownDigest>),
    /// The rows past the cursor.
    Cursor(CursorState),
}

/// A block whose digest is known.
#[derive(Debug, Clone)]
pub(crate) struct KnownDigest {
    pub(crate) id: ElementId,
    pub(crate) range: Range,
    /// How many rows it had, if that is known.
    pub(crate) n_rows: Option<usize>,
    pub(crate) digest: String,
}

/// What a poll of a table showed.
#[derive(Debug)]
pub(crate) enum TableRead {
    Block(Box<BlockRead>),
    /// Each with its digest now, if it is what it was.
    Digests(Vec<(KnownDigest, Option<String>)>),
    Cursor(CursorRead),
    /// A cursor is of no use, and why.
    NoCursor(String),
}

/// The rows of a range, as blocks.
#[derive(Debug)]
pub(crate) struct BlockRead {
    /// Each with how many rows it has, and these as a body.
    pub(crate) blocks: Vec<(Range, usize, Sighting)>,
    /// What of the range was not read, and the rows that we had of it, if we had any.
    pub(crate) rest: Option<(Range, Option<(usize, Sighting)>)>,
    /// What that is to the copy.
    pub(crate) columns: Vec<String>,
    pub(crate) key: Vec<usize>,
    pub(crate) columns_before: Vec<String>,
    pub(crate) rows: Vec<RowChange>,
    pub(crate) first: Vec<FirstRows>,
}

impl BlockRead {
    /// How many rows are not what they were.
    pub(crate) fn n_changed(&self) -> usize {
        let first = self.first.iter().map(|first| first.span.len());
        self.rows.len() + first.sum::<usize>()
    }
}

impl Table {
    pub(crate) fn new(
        source: &SourceSettings,
        settings: &TableSettings,
        contact: Option<String>,
    ) -> Self {
        Self {
            name: source.name.clone(),
            settings: settings.clone(),
            contact,
            pool: Pool::default(),
            row_bytes: AtomicUsize::new(0),
            costs: digest::Costs::default(),
        }
    }

    /// What the copy calls it.
    pub(crate) fn copy_name(&self) -> &str {
        self.settings.copy_name(&self.name)
    }

    pub(crate) fn size(&self) -> BlockSize {
        BlockSize::of(&self.settings)
    }

    /// Rows that a statement reads at the most, of a block that is known or not yet. Of one
    /// that is not, so many that what it brings can be held, and few while nobody knows how
    /// long they are.
    fn most_read(&self, is_first: bool) -> usize {
        let most = self.size().most_read();
        match self.row_bytes.load(Ordering::Relaxed) {
            _ if !is_first => most,
            0 => most.min(FIRST_READ),
            n_bytes => most.min(at_once(n_bytes)),
        }
    }

    fn dialect(&self) -> Dialect {
        self.settings.address.dialect()
    }

    async fn connect(&self) -> Result<(Database, Shape), FetchFailure> {
        if let Some(open) = self.pool.take() {
            return Ok(open);
        }
        let settings = &self.settings;
        let mut database = Database::open(&settings.address, &self.login()).await?;
        let shape = look(settings, &mut database).await?;
        Ok((database, shape))
    }

    /// Asks for rows. If the table has a column by then that it had not when it was looked at,
    /// it is looked at again first: what kind of values these are nobody has said.
    async fn ask_rows(
        &self,
        database: &mut Database,
        shape: &mut Shape,
        n_marks: usize,
        statement: impl Fn(&Shape) -> Statement,
    ) -> Result<RowAnswer, FetchFailure> {
        let most_bytes = match self.settings.relation {
            Relation::Table(_) => MOST_TAKEN,
            Relation::Query(_) => MOST_OF_QUERY_BYTES,
        };
        let answer = (database.ask_for_rows(&statement(shape), most_bytes)).await?;
        // The last may be a mark.
        let n_columns = answer.columns.len().saturating_sub(n_marks);
        let is_known = |name: &String| shape.column(name).is_some();
        if answer.columns[..n_columns].iter().all(is_known) {
            return Ok(answer);
        }
        *shape = look(&self.settings, database).await?;
        (database.ask_for_rows(&statement(shape), most_bytes)).await
    }

    fn login(&self) -> Login {
        login(&self.settings, self.contact.clone())
    }

    /// Which columns are asked for.
    fn shown(&self, shape: &Shape) -> String {
        let settings = &self.settings;
        if settings.columns.is_empty() {
            return "*".to_owned();
        }
        let key = shape.key.iter().chain(&settings.cursor);
        let missing = key.filter(|name| !settings.columns.contains(name));
        let mut names: Vec<&String> = Vec::new();
        for name in settings.columns.iter().chain(missing) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        self.dialect().names(names)
    }

    /// Whether rows are read with their marks. PostgreSQL stores them. MySQL and MariaDB
    /// compute them, which takes as long as the rows; so not during a first pass, nor where
    /// digests have proved slower.
    fn reads_marks(&self, is_first: bool) -> bool {
        match self.dialect() {
            Dialect::Postgres => true,
            Dialect::Sqlite | Dialect::MySql => !is_first && self.costs.digest_threshold() > 0.0,
        }
    }

    /// Up to which chance that a block has changed its digest is asked for first.
    pub(crate) fn digest_threshold(&self) -> f64 {
        self.costs.digest_threshold()
    }

    /// Which columns are the key of answered rows, if they are what they should be: each with
    /// a key that no other has.
    fn key_of(
        &self,
        shape: &Shape,
        columns: &[String],
        batch: &Batch,
    ) -> Result<Vec<usize>, FetchFailure> {
        let refuse = |message: String| FetchFailure::new(FailureKind::Database, message);
        let place = |name: &String| columns.iter().position(|column| column == name);
        let key = shape.key.iter().map(place).collect::<Option<Vec<usize>>>();
        let Some(key) = key else {
            return Err(refuse(format!(
                "the key ({}) is not among the columns any more",
                shape.key.join(", ")
            )));
        };
        let mut names = HashSet::new();
        if let Some(twice) = columns
            .iter()
            .find(|name| !names.insert(name.to_lowercase()))
        {
            return Err(refuse(format!("two columns are called {twice}")));
        }
        let mut all = 0..batch.n_rows();
        let shown = |row: usize| (shape.key.join(", "), key_text(&batch.key(row, &key)));
        let is_null = |row: &usize| {
            key.iter()
                .any(|&at| batch.value(*row, at) == ValueRef::Null)
        };
        if let Some(row) = all.clone().find(is_null) {
            let (key, row) = shown(row);
            return Err(refuse(format!("the key ({key}) is null in a row: {row}")));
        }
        // In their order, equal ones are beside each other; in that of a language they need
        // not be.
        let twice = match shape.is_ordered {
            true => (1..batch.n_rows()).find(|&row| {
                let is_equal = |&at: &usize| batch.value(row - 1, at) == batch.value(row, at);
                key.iter().all(is_equal)
            }),
            false => {
                let mut keys = HashSet::with_capacity(batch.n_rows());
                all.find(|&row| !keys.insert(key_text(&batch.key(row, &key))))
            }
        };
        if let Some(row) = twice {
            let (key, row) = shown(row);
            return Err(refuse(format!("the key ({key}) is not unique: {row}")));
        }
        Ok(key)
    }

    async fn read(
        &self,
        what: &TableStatement,
        copy: Option<&Copy>,
        bodies: &Bodies,
    ) -> Result<TableRead, FetchFailure> {
        let (mut database, mut shape) = self.connect().await?;
        let mut has_same_columns = true;
        let read = match what {
            TableStatement::Block { range, others } => {
                let others = others.iter().map(|(_, copy)| copy);
                let copies: Vec<&Copy> = copy.into_iter().chain(others).collect();
                let read = self.read_block(&mut database, &mut shape, range, &copies, bodies);
                read.await.map(|read| TableRead::Block(Box::new(read)))
            }
            TableStatement::Digests(known) => {
                let read = self.read_digests(&mut database, &shape, known).await;
                read.map(|(compared, is_same)| {
                    has_same_columns = is_same;
                    TableRead::Digests(compared)
                })
            }
            TableStatement::Cursor(_) if !shape.is_ordered => {
                Ok(TableRead::NoCursor(why_no_cursor(&shape)))
            }
            TableStatement::Cursor(state) => {
                let read = cursor::read(self, &mut database, &mut shape, state, bodies);
                read.await.map(TableRead::Cursor)
            }
        };
        // After a failure nobody knows what is left to be answered on it, or whether the
        // table is still what it was.
        if read.is_ok() && has_same_columns {
            self.pool.give(database, shape);
        }
        read
    }

    async fn read_block(
        &self,
        database: &mut Database,
        shape: &mut Shape,
        range: &Range,
        copies: &[&Copy],
        bodies: &Bodies,
    ) -> Result<BlockRead, FetchFailure> {
        let is_query = matches!(self.settings.relation, Relation::Query(_));
        let most = (!is_query).then(|| self.most_read(copies.is_empty()) + 1);
        let asks_marks = self.reads_marks(copies.is_empty());
        let statement = |shape: &Shape| {
            let mut shown = self.shown(shape);
            if let Some(mark) = shape.mark.as_ref().filter(|_| asks_marks) {
                shown = format!("{shown}, {}", mark.row);
            }
            (self.dialect()).range(&self.settings.relation, &shown, shape, range, most)
        };
        let n_marks = usize::from(asks_marks && shape.mark.is_some());
        let begun = Instant::now();
        let mut answer = self.ask_rows(database, shape, n_marks, statement).await?;
        let shape = &*shape;
        let is_cut = answer.is_cut;
        let RowAnswer { columns, batch, .. } = &mut answer;
        self.costs.note_reading(batch.n_rows(), begun.elapsed());
        if asks_marks && shape.mark.is_some() {
            columns.pop();
            batch.set_marks(1);
        }
        fail_point("fetched");
        let n_bytes = batch.row_bytes();
        if n_bytes > 0 {
            self.row_bytes.store(n_bytes, Ordering::Relaxed);
        }
        let is_cut_short = is_cut || most.is_some_and(|most| batch.n_rows() >= most);
        if is_query && (is_cut || batch.n_rows() > MOST_OF_QUERY) {
            let most = MOST_OF_QUERY_BYTES >> 20;
            let message = format!("the query returns more than {MOST_OF_QUERY} rows or {most} MB");
            return Err(FetchFailure::new(FailureKind::TooLarge, message));
        }
        let key = self.key_of(shape, columns, batch)?;
        let size = match is_query {
            true => BlockSize::Rows(MOST_OF_QUERY),
            false => self.size(),
        };
        let RowAnswer { columns, batch, .. } = answer;
        let batch = Arc::new(batch);
        blocking(|| {
            let key_at = |row| batch.key(row, &key);
            let cut = cut(
                range,
                batch.n_rows(),
                size.to_cut(n_bytes),
                is_cut_short,
                key_at,
            );
            let digest = |span: &Span<usize>| {
                let columns = &shape.mark.as_ref().filter(|_| asks_marks)?.columns_at_look;
                let marks = span.clone().map(|row| batch.mark(row));
                digest::of_marks(self.dialect(), marks, columns)
            };
            let digests = cut.blocks.iter().map(|(_, span)| digest(span)).collect();
            let read = Read {
                columns,
                key: key.clone(),
                batch: Arc::clone(&batch),
                digests,
            };
            compare(cut, read, copies, bodies)
        })
    }

    /// Whether blocks are what they were. Where the database cannot tell any longer, they
    /// are not. Says also whether the table still has the columns that it had.
    async fn read_digests(
        &self,
        database: &mut Database,
        shape: &Shape,
        known: &[KnownDigest],
    ) -> Result<(Vec<(KnownDigest, Option<String>)>, bool), FetchFailure> {
        let Some(mark) = &shape.mark else {
            let unknown = known.iter().map(|known| (known.clone(), None));
            return Ok((unknown.collect(), true));
        };
        let (dialect, relation) = (self.dialect(), &self.settings.relation);
        let asked = known.iter().map(|known| (&known.range, &*known.digest));
        let statement = digest::statement(dialect, relation, shape, mark, asked);
        let begun = Instant::now();
        let answer = database.ask(&statement).await?;
        let n_rows: Option<usize> = known.iter().map(|known| known.n_rows).sum();
        self.costs
            .note_digest(n_rows.unwrap_or_default(), begun.elapsed());
        fail_point("fetched");
        let digests: Vec<&str> = known.iter().map(|known| &*known.digest).collect();
        let told = digest::answered(dialect, answer.rows, mark, &digests);
        let compared = known.iter().cloned().zip(told.same);
        Ok((compared.collect(), told.has_same_columns))
    }
}

/// Rows that the first statement reads: as many as tell how long they are.
const FIRST_READ: usize = 100;
/// Bytes that a statement brings, about.
const MOST_BYTES: usize = 8 << 20;
/// Bytes of an answer that are taken in, if rows are longer than those before them were.
const MOST_TAKEN: usize = 2 * MOST_BYTES;
/// Rows that a query may return.
const MOST_OF_QUERY: usize = 100_000;
/// Bytes that it may return, about.
const MOST_OF_QUERY_BYTES: usize = 64 << 20;

/// Rows that were read, and the digests of the blocks that they are cut into.
struct Read {
    columns: Vec<String>,
    key: Vec<usize>,
    batch: Arc<Batch>,
    digests: Vec<Option<String>>,
}

/// Blocks as bodies, and how their rows differ from those of the copies before.
fn compare(
    cut: Cut,
    read: Read,
    copies: &[&Copy],
    bodies: &Bodies,
) -> Result<BlockRead, FetchFailure> {
    let kept = |error: springtide_store::Error| {
        FetchFailure::new(
            FailureKind::Other,
            format!("its rows could not be kept: {error}"),
        )
    };
    let mut blocks = Vec::with_capacity(cut.blocks.len());
    let known = match (copies, &cut.blocks[..]) {
        ([copy], [_]) if bodies.contains(copy.body) => Some(copy.digest),
        _ => None,
    };
    let written = write_bodies(&read, &cut.blocks, known);
    let each = cut.blocks.iter().zip(&written).zip(read.digests);
    for (((range, span), body), digest) in each {
        let mut sighting = Sighting::unchanged(body.digest);
        sighting.n_bytes = body.n_bytes;
        sighting.content_type = Some(CONTENT_TYPE.to_owned());
        sighting.etag = digest;
        if let Some(packed) = &body.packed {
            bodies.put_packed(packed).map_err(kept)?;
            sighting.body = Some(packed.id());
        }
        blocks.push((range.clone(), span.len(), sighting));
    }
    let (columns, key, batch) = (read.columns, read.key, read.batch);
    if copies.is_empty() {
        let first = cut.blocks.into_iter().zip(written);
        let first = first.filter_map(|((_, span), body)| {
            Some(FirstRows {
                batch: Arc::clone(&batch),
                span,
                body: body.packed?,
            })
        });
        return Ok(BlockRead {
            blocks,
            rest: cut.rest.map(|range| (range, None)),
            columns_before: columns.clone(),
            columns,
            key,
            rows: Vec::new(),
            first: first.collect(),
        });
    }
    let has_changed = blocks.iter().any(|(.., sighting)| sighting.body.is_some());
    let mut before = Rows {
        columns: columns.clone(),
        key: key.clone(),
        rows: Vec::new(),
    };
    if has_changed {
        for copy in copies {
            // One that is lost is had anew; its rows are taken for new ones.
            let body = bodies.get(copy.body).ok();
            if let Some(rows) = body.and_then(|body| Rows::from_body(&body)) {
                before.columns = rows.columns;
                before.key = rows.key;
                before.rows.extend(rows.rows);
            }
        }
    }
    let mut rows = match has_changed {
        true => {
            let after = cut.blocks.iter().map(|(_, span)| Rows {
                columns: columns.clone(),
                key: key.clone(),
                rows: batch.to_rows(span.clone()),
            });
            difference(&before, after.collect())
        }
        false => Vec::new(),
    };
    let mut rest = cut.rest.map(|range| (range, None));
    if let Some((_, had)) = rest.as_mut().filter(|_| !before.rows.is_empty()) {
        // Those that were not seen may be in what was not read: that is asked next, and
        // tells whether they are gone.
        let unseen = rows.extract_if(.., |change| change.after.is_none());
        let unseen = unseen.filter_map(|change| change.before).collect();
        let unseen = Rows {
            rows: unseen,
            ..before.clone()
        };
        let body = unseen.to_body();
        let sighting = Sighting {
            body: Some(bodies.put(&body).map_err(kept)?),
            n_bytes: body.len() as u64,
            content_type: Some(CONTENT_TYPE.to_owned()),
            ..Sighting::unchanged(*blake3::hash(&body).as_bytes())
        };
        *had = Some((unseen.rows.len(), sighting));
    }
    Ok(BlockRead {
        blocks,
        rest,
        columns,
        key,
        columns_before: before.columns,
        rows,
        first: Vec::new(),
    })
}

/// The rows of a block as a body.
struct Written {
    digest: [u8; 32],
    n_bytes: u64,
    /// Nothing if it is the one that is known.
    packed: Option<Packed>,
}

/// So many blocks are worth a thread that writes them.
const WORTH_A_THREAD: usize = 4;

/// Rows as bodies. Of a first pass there are many, and the database waits meanwhile: so they
/// are written side by side.
fn write_bodies(
    read: &Read,
    blocks: &[(Range, Span<usize>)],
    known: Option<[u8; 32]>,
) -> Vec<Written> {
    let one = |(_, span): &(Range, Span<usize>)| {
        let rows = span.clone().map(|row| read.batch.row(row));
        let body = value::body_of(&read.columns, &read.key, rows);
        let n_bytes = body.len() as u64;
        if let Some(digest) = known.filter(|known| *known == BodyId::of(&body).0) {
            return Written {
                digest,
                n_bytes,
                packed: None,
            };
        }
        let packed = Packed::fast(&body);
        Written {
            digest: packed.id().0,
            n_bytes,
            packed: Some(packed),
        }
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let n_threads = n_threads.min(blocks.len() / WORTH_A_THREAD).max(1);
    let (here, elsewhere) = blocks.split_at(blocks.len().div_ceil(n_threads));
    std::thread::scope(|scope| {
        let parts = elsewhere.chunks(here.len().max(1));
        let others: Vec<_> = parts
            .map(|part| scope.spawn(|| part.iter().map(one).collect::<Vec<_>>()))
            .collect();
        let mut written: Vec<Written> = here.iter().map(one).collect();
        for other in others {
            written.extend(other.join().expect("rows are written without panics"));
        }
        written
    })
}

/// What kind of content a block is: lines of JSON.
pub(crate) const CONTENT_TYPE: &str = "application/x-ndjson";

fn login(settings: &TableSettings, contact: Option<String>) -> Login {
    Login {
        url: match &settings.address {
            DatabaseAddress::Postgres(url) | DatabaseAddress::MySql(url) => url.clone(),
            DatabaseAddress::Sqlite(_) => String::new(),
        },
        password: settings.password.0.clone(),
        timeout: settings.timeout,
        contact,
    }
}

/// Makes a poll of a table, and tells the loop.
pub(crate) async fn poll(poll: PendingPoll, ask: TableRequest, context: PollContext) {
    let copy = poll.kept.copy.as_ref();
    let read = ask.table.read(&ask.what, copy, &context.bodies);
    let read = AssertUnwindSafe(read).catch_unwind().await;
    let read = read.unwrap_or_else(|_| {
        let message = "springtide failed to read its answer (a bug in springtide)";
        Err(FetchFailure::new(FailureKind::Answer, message))
    });
    let verdict = match &read {
        Ok(_) => Verdict::Fine,
        Err(failure) if failure.kind.is_host_trouble() => Verdict::Trouble,
        Err(_) => Verdict::Unknown,
    };
    let problem = match (&read, verdict) {
        (Err(failure), Verdict::Trouble) => failure.message.clone(),
        _ => String::new(),
    };
    context.tell(Message::Ended(poll.host, verdict, problem));
    fail_point("answered");
    let found = read.map(|read| {
        let own = match &read {
            TableRead::Block(_) | TableRead::Digests(_) | TableRead::NoCursor(_) => {
                OwnSighting::NoCopy
            }
            TableRead::Cursor(read) => OwnSighting::Here(Box::new(read.sighting())),
        };
        PollResult::Read(Box::new(Reading {
            own,
            table: Some(Box::new(read)),
            ..Reading::default()
        }))
    });
    let at = context.clock.now();
    context.tell(Message::Done(Box::new(EndedPoll {
        poll,
        at,
        status: None,
        redirects: RedirectPath::default(),
        found,
    })));
}

/// Statements a second that a database is sent where nobody says how many.
const PER_SECOND: f64 = 5.0;

/// How often a database may be asked: the time between two statements, and how many at a time.
pub(crate) fn limit_of(
    settings: &TableSettings,
    rules: &[GroupRule],
) -> (springtide_policy::Span, u32) {
    let default = springtide_policy::Span::days(1.0 / (PER_SECOND * 86_400.0)).expect("a gap");
    let host = settings.address.host();
    let url = host.and_then(|host| url::Url::parse(&format!("http://{host}/")).ok());
    match url.map(|url| group_of(&url, rules)) {
        Some(path) if path.has_rule => (path.gap, path.concurrency),
        _ => (default, 1),
    }
}

/// The time between two statements to a database, where these are the limits.
pub fn gap(settings: &TableSettings, rules: &[GroupRule]) -> springtide_policy::Span {
    limit_of(settings, rules).0
}

/// What a look at a database finds: the tables that may be read.
///
/// # Errors
/// If it cannot be asked.
pub async fn tables(
    settings: &TableSettings,
    contact: Option<String>,
) -> Result<Vec<AvailableTable>, FetchFailure> {
    let login = login(settings, contact);
    let mut database = Database::open(&settings.address, &login).await?;
    database.tables().await
}

/// What a look at a table finds.
///
/// # Errors
/// If it cannot be asked, or cannot be kept a copy of.
pub async fn inspect(
    settings: &TableSettings,
    contact: Option<String>,
) -> Result<Found, FetchFailure> {
    let login = login(settings, contact);
    let mut database = Database::open(&settings.address, &login).await?;
    let shape = look(settings, &mut database).await?;
    if settings.cursor.is_some() && !shape.is_ordered {
        let message = why_no_cursor(&shape);
        return Err(FetchFailure::new(FailureKind::Database, message));
    }
    let size = database.size(&settings.relation).await?;
    Ok(Found {
        size: size.map(|(n_rows, row_bytes)| size_of(settings, n_rows, row_bytes)),
        ..Found::of(&shape)
    })
}

/// Rows that a cursor brings belong to a block each, and to which only the order of their keys
/// can tell.
fn why_no_cursor(shape: &Shape) -> String {
    format!(
        "a cursor is of no use here, since only the database knows the order of the key ({}), \
         and so the block of a row; leave the cursor out, and blocks find all changes",
        shape.key.join(", ")
    )
}

/// What the size of a table means to a copy of it.
fn size_of(settings: &TableSettings, n_rows: f64, row_bytes: Option<f64>) -> FoundSize {
    let size = BlockSize::of(settings);
    let n_bytes = row_bytes.map_or(0, |n_bytes| n_bytes as usize);
    let per_block = size.of_rows(n_bytes).unwrap_or(USUAL_ROWS);
    let most = size.most_read().min(at_once(n_bytes));
    FoundSize {
        n_rows,
        n_blocks: (n_rows / per_block as f64).ceil().max(1.0),
        n_statements: (n_rows / most as f64).ceil().max(1.0),
    }
}

/// Rows of a block, about, where nobody knows how long they are.
const USUAL_ROWS: usize = 500;

/// Looks at what there is to be asked for.
async fn look(settings: &TableSettings, database: &mut Database) -> Result<Shape, FetchFailure> {
    let mut columns = settings.columns.clone();
    columns.extend(settings.cursor.clone());
    let shape = database.shape(&settings.relation, &settings.key, &columns);
    let mut shape = shape.await?;
    if let Some(cursor) = &settings.cursor {
        shape.is_cursor_indexed = database.has_index_of(&settings.relation, cursor).await?;
    }
    Ok(shape)
}
