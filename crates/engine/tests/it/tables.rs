//! Tables of databases: blocks, cursors, and a copy that is what the source was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params};
use springtide_engine::settings::{Password, TableSettings};
use springtide_engine::table::{CopyReader, DatabaseAddress, Relation, RowLogged};
use springtide_engine::view::TrustView;
use springtide_engine::{Event, RunOptions, RunScope, Settings};
use springtide_store::{ElementId, FailureKind, Reader, Role, SourceKind, Sqlite, State};

use crate::run::{elements, settings};
use crate::world::World;

/// A project with a table of a SQLite file.
struct Project {
    folder: tempfile::TempDir,
    settings: Settings,
}

impl Project {
    fn new(table: &str, schema: &str, change: impl FnOnce(&mut TableSettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shop = folder.path().join("shop.db");
        let connection = Connection::open(&shop).unwrap();
        connection
            .pragma_update(None, "journal_mode", "wal")
            .unwrap();
        connection.execute_batch(schema).unwrap();
        let mut settings = settings(&[("shop", SourceKind::Table, "sqlite:shop.db".to_owned())]);
        settings.groups.clear();
        let mut table = TableSettings {
            address: DatabaseAddress::Sqlite(shop),
            relation: Relation::Table(vec![table.to_owned()]),
            password: Password(None),
            key: Vec::new(),
            cursor: None,
            late: Duration::from_secs(60),
            columns: Vec::new(),
            block: Some(50),
            copy: folder.path().join("copy.db"),
            timeout: Duration::from_secs(30),
        };
        change(&mut table);
        settings.sources[0].table = Some(table);
        Self { folder, settings }
    }

    fn table(&mut self) -> &mut TableSettings {
        self.settings.sources[0].table.as_mut().unwrap()
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn source(&self) -> Connection {
        let connection = Connection::open(self.path().join("shop.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        connection
    }

    fn copy(&self) -> PathBuf {
        self.path().join("copy.db")
    }

    /// What the source has, and what the copy has.
    fn both(&self, table: &str) -> (Rows, Rows) {
        let copy = Connection::open(self.copy()).unwrap();
        (all(&self.source(), table), all(&copy, table))
    }

    fn assert_in_step(&self, table: &str) {
        let (source, copy) = self.both(table);
        assert_eq!(copy, source);
    }

    fn log(&self) -> Vec<RowLogged> {
        let reader = CopyReader::open(&self.copy()).unwrap().unwrap();
        let mut log = reader
            .log("shop", None, (i64::MAX, i64::MAX), usize::MAX)
            .unwrap();
        log.reverse();
        log
    }
}

type Rows = Vec<Vec<(String, Sql)>>;

/// All rows of a table, in an order of their own.
fn all(connection: &Connection, table: &str) -> Rows {
    let mut statement = connection
        .prepare(&format!("SELECT * FROM \"{table}\""))
        .unwrap();
    let names: Vec<String> = (statement.column_names()).map(str::to_owned).collect();
    let mut found = statement.query([]).unwrap();
    let mut rows: Rows = Vec::new();
    while let Some(row) = found.next().unwrap() {
        let values = names.iter().enumerate();
        let mut row: Vec<(String, Sql)> = values
            .map(|(at, name)| (name.clone(), row.get(at).unwrap()))
            .collect();
        row.sort_by(|(a, _), (b, _)| a.cmp(b));
        rows.push(row);
    }
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

const ORDERS: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, total REAL, \
                      updated_at TEXT NOT NULL DEFAULT '2026-01-01T00:00:00Z')";

fn fill(connection: &mut Connection, n: i64) {
    let transaction = connection.transaction().unwrap();
    for id in 1..=n {
        let sql = "INSERT INTO orders (id, status, total) VALUES (?, 'new', ?)";
        transaction
            .execute(sql, params![id, id as f64 / 4.0])
            .unwrap();
    }
    transaction.commit().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_first_pass_cuts_a_table_into_blocks_and_copies_every_row() {
    let project = Project::new("orders", ORDERS, |_| {});
    fill(&mut project.source(), 2_345);
    let world = World::new();
    let ended = world.run_once(project.path(), &project.settings).await;
    project.assert_in_step("orders");
    // A statement reads twenty blocks of fifty rows, and the first a hundred rows.
    assert_eq!(ended.n_polls, 4);
    let blocks = elements(project.path());
    assert_eq!(blocks.len(), 47);
    let locators: Vec<&str> = (blocks.iter())
        .map(|kept| kept.element.locator.as_str())
        .collect();
    assert!(locators.contains(&"shop[..51)"), "{locators:?}");
    assert!(locators.contains(&"shop[2301..)"), "{locators:?}");
    assert!(blocks.iter().all(|kept| kept.state == State::Ok));
    let log = project.log();
    assert_eq!(log.len(), 2_345);
    assert!(
        log.iter()
            .all(|row| row.kind == "added" && row.before.is_none())
    );
    assert_eq!(log[0].key, "[1]");

    // Nothing has changed, so nothing is found.
    world.run_for(project.path(), &project.settings, 20.0).await;
    assert_eq!(project.log().len(), 2_345);
    let blocks = elements(project.path());
    assert!(blocks.iter().all(|kept| kept.history.n_changes == 0));
}

/// A random change to a table with a key of one kind.
fn disturb(connection: &Connection, kind: usize, rng: &mut Pcg64) {
    let number: i64 = rng.random_range(-40..400);
    let key: (Sql, Sql) = match kind {
        0 => (Sql::Integer(number), Sql::Null),
        1 => (
            Sql::Text(format!("k'{}\"\u{fc}", number * 7919 % 1000)),
            Sql::Null,
        ),
        2 => (
            Sql::Integer(number % 5),
            Sql::Text(format!("{:03}", number.rem_euclid(90))),
        ),
        _ => (Sql::Blob(number.to_be_bytes().to_vec()), Sql::Null),
    };
    let (columns, marks, condition) = match kind {
        2 => ("a, b", "?1, ?2", "a = ?1 AND b = ?2"),
        _ => ("a", "?1", "a = ?1 AND ?2 IS NULL"),
    };
    let value = match rng.random_range(0..4) {
        0 => Sql::Null,
        1 => Sql::Integer(rng.random()),
        2 => Sql::Real(rng.random::<f64>() * 1e9),
        _ => Sql::Text("\u{1f30a}\n'\"".repeat(rng.random_range(0..4))),
    };
    let changed = match rng.random_range(0..10) {
        0..5 => {
            let unused = if kind == 2 { "" } else { ", b" };
            let mark = if kind == 2 { "" } else { ", ?2" };
            connection.execute(
                &format!(
                    "INSERT OR REPLACE INTO t ({columns}{unused}, v) VALUES ({marks}{mark}, ?3)"
                ),
                params![key.0, key.1, value],
            )
        }
        5..8 => connection.execute(
            &format!("UPDATE t SET v = ?3 WHERE {condition}"),
            params![key.0, key.1, value],
        ),
        _ => connection.execute(
            &format!("DELETE FROM t WHERE {condition}"),
            params![key.0, key.1],
        ),
    };
    changed.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_copy_follows_writers_and_equals_the_source_once_they_stop() {
    for seed in 0..8_u64 {
        let kind = (seed % 4) as usize;
        let key = if kind == 2 { "a, b" } else { "a" };
        let schema = format!("CREATE TABLE t (a, b, v, PRIMARY KEY ({key})) WITHOUT ROWID");
        let schema = match kind {
            2 => schema,
            _ => schema.replace("a, b, v", "a NOT NULL, b, v"),
        };
        let mut project = Project::new("t", &schema, |table| table.block = Some(16));
        project.settings.policy.max_interval =
            Some(springtide_policy::Span::days(20.0 / 86_400.0).unwrap());
        let world = World::new();
        let mut rng = Pcg64::seed_from_u64(seed);
        let source = project.source();
        for _ in 0..rng.random_range(0..300) {
            disturb(&source, kind, &mut rng);
        }
        // Writers at work while it runs, and restarts in between.
        for _ in 0..3 {
            let writer = tokio::spawn({
                let source = project.source();
                let mut rng = Pcg64::seed_from_u64(rng.random());
                async move {
                    for _ in 0..150 {
                        tokio::time::sleep(Duration::from_millis(rng.random_range(0..160))).await;
                        disturb(&source, kind, &mut rng);
                    }
                }
            });
            world.run_for(project.path(), &project.settings, 10.0).await;
            writer.await.unwrap();
        }
        world.run_for(project.path(), &project.settings, 25.0).await;
        let (source, copy) = project.both("t");
        assert_eq!(copy, source, "seed {seed}");
        // The log tells how the copy came about.
        let mut told: BTreeMap<String, String> = BTreeMap::new();
        for row in project.log() {
            let before = told.get(&row.key);
            assert_eq!(before, row.before.as_ref(), "seed {seed}: {row:?}");
            match row.after {
                Some(after) => told.insert(row.key, after),
                None => told.remove(&row.key),
            };
        }
        assert_eq!(told.len(), source.len(), "seed {seed}");
        // Blocks cover all keys once.
        let blocks = elements(project.path());
        let alive = blocks.iter().filter(|kept| kept.state != State::Gone);
        let starts: Vec<String> = alive
            .map(|kept| kept.element.locator.split("..").next().unwrap().to_owned())
            .collect();
        let mut once = starts.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), starts.len(), "seed {seed}: {starts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_brings_rows_without_polls_of_their_blocks() {
    let mut project = Project::new("orders", ORDERS, |table| {
        table.cursor = Some("updated_at".to_owned());
    });
    // Blocks are polled hardly ever.
    project.settings.budget.per_day = 86_400.0;
    fill(&mut project.source(), 3_000);
    let world = World::new();
    world.run_for(project.path(), &project.settings, 30.0).await;
    project.assert_in_step("orders");
    let source = project.source();
    let mut late = 0;
    for n in 0..20_i64 {
        let at = format!("2026-02-01T00:{:02}:{:02}Z", n / 60, n % 60);
        let id = 1 + n * 71 % 3_000;
        let sql = "UPDATE orders SET status = ?, updated_at = ? WHERE id = ?";
        source
            .execute(sql, params![format!("s{n}"), at, id])
            .unwrap();
        let sql = "INSERT INTO orders (id, status, updated_at) VALUES (?, 'added', ?)";
        source.execute(sql, params![3_001 + n, at]).unwrap();
        world.run_for(project.path(), &project.settings, 10.0).await;
        let (source, copy) = project.both("orders");
        late += usize::from(source != copy);
    }
    assert!(late <= 6, "{late} of 20 were not there within ten seconds");
    let cursor = elements(project.path());
    let cursor = cursor
        .iter()
        .find(|kept| kept.element.role == Role::Listing);
    assert_eq!(cursor.unwrap().element.locator, "shop@updated_at");
    let log = project.log();
    let changed = log.iter().filter(|row| row.kind == "changed").count();
    assert!((20 - late..=20).contains(&changed), "{changed}");
    // What the cursor cannot see, blocks find.
    source
        .execute("DELETE FROM orders WHERE id % 500 = 0", [])
        .unwrap();
    source
        .execute("UPDATE orders SET total = -1 WHERE id = 77", [])
        .unwrap();
    project.settings.policy.max_interval =
        Some(springtide_policy::Span::days(120.0 / 86_400.0).unwrap());
    world
        .run_for(project.path(), &project.settings, 180.0)
        .await;
    project.assert_in_step("orders");
    let store = Sqlite::read_only(project.path().join(".springtide")).unwrap();
    let trust = springtide_engine::view::trust(&store).unwrap();
    let Some(TrustView::Hints { recall, n, .. }) = trust.values().find_map(|of| of.get("cursor"))
    else {
        panic!("{trust:?}");
    };
    // Of forty rows most, since the block at the end is known to be worth polls of its own,
    // over all these starts too; and none of the seven.
    assert!((25..=40).contains(n), "{n}");
    assert!((0.75..0.95).contains(&recall.unwrap()), "{recall:?}");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_was_left_behind_is_brought_in_step() {
    let project = Project::new("orders", ORDERS, |_| {});
    fill(&mut project.source(), 500);
    let world = World::new();
    world.run_once(project.path(), &project.settings).await;
    let old = std::fs::read(project.copy()).unwrap();
    let source = project.source();
    source
        .execute("UPDATE orders SET status = 'paid' WHERE id < 20", [])
        .unwrap();
    source
        .execute("DELETE FROM orders WHERE id > 480", [])
        .unwrap();
    world.run_for(project.path(), &project.settings, 30.0).await;
    project.assert_in_step("orders");
    // As if it had died after it kept what it found, and before the copy had it.
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(project.path().join(format!("copy.db{ending}")));
    }
    std::fs::write(project.copy(), old).unwrap();
    let (source, copy) = project.both("orders");
    assert_ne!(copy, source);
    let n_before = project.log().len();
    world.run_for(project.path(), &project.settings, 0.1).await;
    project.assert_in_step("orders");
    let log = project.log();
    let gone = log[n_before..].iter().filter(|row| row.kind == "gone");
    assert_eq!((log.len() - n_before, gone.count()), (39, 20));
}

#[tokio::test(start_paused = true)]
async fn only_blocks_that_differ_are_looked_at_to_bring_a_copy_in_step() {
    let project = Project::new("orders", ORDERS, |_| {});
    fill(&mut project.source(), 2_000);
    let world = World::new();
    world.run_once(project.path(), &project.settings).await;
    let old = std::fs::read(project.copy()).unwrap();
    let source = project.source();
    source
        .execute_batch(
            "UPDATE orders SET status = 'paid' WHERE id BETWEEN 1010 AND 1015; \
             DELETE FROM orders WHERE id BETWEEN 1230 AND 1330; \
             INSERT INTO orders (id, status) VALUES (5000, 'new')",
        )
        .unwrap();
    world.run_for(project.path(), &project.settings, 60.0).await;
    project.assert_in_step("orders");
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(project.path().join(format!("copy.db{ending}")));
    }
    std::fs::write(project.copy(), old).unwrap();
    // What nobody should write shows what was looked at: a row of a block that is as it was,
    // and one of a block that differs.
    let copy = Connection::open(project.copy()).unwrap();
    copy.execute_batch("UPDATE orders SET total = -1 WHERE id IN (300, 1020)")
        .unwrap();
    world.run_for(project.path(), &project.settings, 0.1).await;
    let written: Vec<i64> = copy
        .prepare("SELECT id FROM orders WHERE total = -1")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(written, [300]);
    copy.execute_batch("UPDATE orders SET total = id / 4.0 WHERE id = 300")
        .unwrap();
    project.assert_in_step("orders");
    // A copy that is gone is made anew.
    drop(copy);
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(project.path().join(format!("copy.db{ending}")));
    }
    world.run_for(project.path(), &project.settings, 0.1).await;
    project.assert_in_step("orders");
}

#[tokio::test(start_paused = true)]
async fn long_rows_are_read_a_few_at_a_time() {
    let most = 17 << 20;
    for block in [None, Some(50)] {
        let project = Project::new("orders", ORDERS, |table| table.block = block);
        fill(&mut project.source(), 60);
        // Rows as long as they are get known by the first that are read; the last are longer.
        let long = "UPDATE orders SET status = printf('%.*c', iif(id > 50, 4000000, 1000000), 'x')";
        project.source().execute(long, []).unwrap();
        let world = World::new();
        world.run_once(project.path(), &project.settings).await;
        project.assert_in_step("orders");
        let blocks = elements(project.path());
        let sizes: Vec<u64> = (blocks.iter())
            .map(|kept| kept.copy.as_ref().unwrap().n_bytes)
            .collect();
        assert!(sizes.iter().all(|&n_bytes| n_bytes < most), "{sizes:?}");
        // They are neither put together nor cut anew for ever.
        world.run_for(project.path(), &project.settings, 30.0).await;
        let settled = elements(project.path()).len();
        world.run_for(project.path(), &project.settings, 30.0).await;
        assert_eq!(elements(project.path()).len(), settled);
        assert_eq!(project.log().len(), 60);
    }
}

#[tokio::test(start_paused = true)]
async fn a_block_that_is_cut_from_another_joins_its_group() {
    let project = Project::new("orders", ORDERS, |_| {});
    fill(&mut project.source(), 4_000);
    project
        .source()
        .execute("UPDATE orders SET id = -20 * id", [])
        .unwrap();
    let world = World::new();
    world.run_once(project.path(), &project.settings).await;
    let first = elements(project.path());
    let mut groups: Vec<_> = first.iter().map(|kept| kept.element.group).collect();
    groups.sort();
    groups.dedup();
    assert_eq!(groups.len(), 3, "neighbours are together");
    let source = project.source();
    for id in -79_999..-79_801 {
        let sql = "INSERT OR IGNORE INTO orders (id) VALUES (?)";
        source.execute(sql, [id]).unwrap();
    }
    world.run_for(project.path(), &project.settings, 60.0).await;
    project.assert_in_step("orders");
    let of_first = first
        .iter()
        .find(|kept| kept.element.locator.starts_with("shop[.."));
    let of_first = of_first.unwrap().element.group;
    let known: Vec<_> = first.iter().map(|kept| kept.element.id).collect();
    let all = elements(project.path());
    let new: Vec<_> = all
        .iter()
        .filter(|kept| !known.contains(&kept.element.id))
        .collect();
    assert!(new.len() >= 2, "{new:?}");
    assert!(
        new.iter().all(|kept| kept.element.group == of_first),
        "{new:?}"
    );
}

/// What was said of sources that do what they can.
/// The first statement of a table reads a hundred rows, so that its blocks are merged at the
/// next poll.
#[tokio::test(start_paused = true)]
async fn a_block_that_was_merged_is_polled_by_nobody() {
    let project = Project::new("orders", ORDERS, |table| table.block = None);
    fill(&mut project.source(), 300);
    let world = World::new();
    world.run_once(project.path(), &project.settings).await;
    let poll_all = async || {
        let ids = elements(project.path()).into_iter();
        let options = RunOptions {
            scope: RunScope::These(ids.map(|kept| kept.element.id).collect()),
            ..RunOptions::default()
        };
        let ended = world.run(project.path(), project.settings.clone(), options);
        ended.await.0.n_polls
    };
    poll_all().await;
    let states = || -> Vec<State> {
        let blocks = elements(project.path()).into_iter();
        blocks.map(|kept| kept.state).collect()
    };
    assert_eq!(states(), [State::Ok, State::Gone]);
    assert_eq!(poll_all().await, 1);
    assert_eq!(states(), [State::Ok, State::Gone]);
    assert_eq!(project.log().len(), 300, "each row is added once");
}

fn warnings(events: &[Event]) -> Vec<&str> {
    let said = events.iter().filter_map(|event| match event {
        Event::SourceWarned { message, .. } => Some(&**message),
        _ => None,
    });
    said.collect()
}

#[tokio::test(start_paused = true)]
async fn a_cursor_over_keys_whose_order_is_not_known_is_told_and_not_polled() {
    let schema = "CREATE TABLE t (name TEXT COLLATE NOCASE PRIMARY KEY, v, \
                  updated_at TEXT NOT NULL DEFAULT '2026-01-01T00:00:00Z') WITHOUT ROWID";
    let project = Project::new("t", schema, |table| {
        table.cursor = Some("updated_at".to_owned());
    });
    let source = project.source();
    for n in 0..200 {
        let sql = "INSERT INTO t (name, v) VALUES (?1, 0)";
        source
            .execute(sql, [format!("{}{n}", ["a", "B"][n % 2])])
            .unwrap();
    }
    let world = World::new();
    let (ended, events) = world.run_for(project.path(), &project.settings, 20.0).await;
    let said = warnings(&events);
    assert!(
        matches!(said[..], [said] if said.contains("the key (name)")),
        "{said:?}"
    );
    assert!(ended.failed_sources.is_empty());
    let all = elements(project.path());
    let cursor = all.iter().find(|kept| kept.element.role == Role::Listing);
    assert_eq!(cursor.unwrap().state, State::Gone);
    let sql = "UPDATE t SET v = 1, updated_at = '2026-02-01T00:00:00Z' WHERE name = 'a100'";
    source.execute(sql, []).unwrap();
    world.run_for(project.path(), &project.settings, 30.0).await;
    project.assert_in_step("t");
}

#[tokio::test(start_paused = true)]
async fn a_cursor_without_an_index_is_told_of_where_a_table_is_large() {
    for (n_rows, index, is_told) in [(12_000, "", true), (500, "", false), (12_000, "i", false)] {
        let project = Project::new("orders", ORDERS, |table| {
            table.block = Some(1_000);
            table.cursor = Some("updated_at".to_owned());
        });
        fill(&mut project.source(), n_rows);
        if !index.is_empty() {
            let sql = "CREATE INDEX by_time ON orders (updated_at)";
            project.source().execute(sql, []).unwrap();
        }
        let world = World::new();
        let (_, events) = world.run_for(project.path(), &project.settings, 30.0).await;
        let said = warnings(&events);
        assert_eq!(said.len(), usize::from(is_told), "{said:?}");
        assert!(
            said.iter().all(|said| said.contains("cursor updated_at")),
            "{said:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_block_that_grows_beyond_what_is_read_at_once_loses_nothing() {
    let project = Project::new("orders", ORDERS, |table| table.block = Some(5));
    let source = project.source();
    let add = "INSERT INTO orders (id, status) VALUES (?, 'new')";
    for id in [1, 2, 3_000, 3_001] {
        source.execute(add, [id]).unwrap();
    }
    let world = World::new();
    world.run_once(project.path(), &project.settings).await;
    // In the middle of the only block: more than one statement reads.
    for id in 10..2_000 {
        source.execute(add, [id]).unwrap();
    }
    source
        .execute("DELETE FROM orders WHERE id = 3000", [])
        .unwrap();
    world.run_for(project.path(), &project.settings, 30.0).await;
    project.assert_in_step("orders");
    let log = project.log();
    let gone: Vec<&str> = (log.iter())
        .filter(|row| row.kind == "gone")
        .map(|row| row.key.as_str())
        .collect();
    assert_eq!(gone, ["[3000]"]);
    assert_eq!(log.len(), 4 + 1_990 + 1);
}

#[tokio::test(start_paused = true)]
async fn blocks_whose_size_nobody_chose_stay_as_they_are_while_rows_do() {
    let project = Project::new("orders", ORDERS, |table| table.block = None);
    fill(&mut project.source(), 4_000);
    let long = "UPDATE orders SET status = printf('%.200c', 'x')";
    project.source().execute(long, []).unwrap();
    let world = World::new();
    world.run_once(project.path(), &project.settings).await;
    let first = elements(project.path()).len();
    assert!((10..=20).contains(&first), "{first} blocks");
    world.run_for(project.path(), &project.settings, 30.0).await;
    let blocks = elements(project.path());
    assert_eq!(blocks.len(), first);
    assert!(blocks.iter().all(|kept| kept.history.n_polls > 1));
    // Once most rows are gone, few blocks are enough.
    let delete = "DELETE FROM orders WHERE id % 40 > 0";
    project.source().execute(delete, []).unwrap();
    world.run_for(project.path(), &project.settings, 60.0).await;
    project.assert_in_step("orders");
    let blocks = elements(project.path());
    let alive = blocks.iter().filter(|kept| kept.state != State::Gone);
    assert!(alive.count() <= first / 2);
}

#[tokio::test(start_paused = true)]
async fn columns_that_come_and_go_are_told_and_followed() {
    let project = Project::new("orders", ORDERS, |_| {});
    fill(&mut project.source(), 200);
    let world = World::new();
    world.run_once(project.path(), &project.settings).await;
    let source = project.source();
    source
        .execute_batch("ALTER TABLE orders ADD COLUMN note TEXT DEFAULT 'x'")
        .unwrap();
    world.run_for(project.path(), &project.settings, 30.0).await;
    project.assert_in_step("orders");
    source
        .execute_batch("ALTER TABLE orders DROP COLUMN status")
        .unwrap();
    world.run_for(project.path(), &project.settings, 30.0).await;
    project.assert_in_step("orders");
    let kinds: Vec<String> = (project.log().into_iter())
        .map(|row| row.kind)
        .filter(|kind| kind != "added")
        .collect();
    assert_eq!(kinds, ["schema", "schema"]);
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_whole_numbers_at_first_need_not_stay_so() {
    let schema = "CREATE TABLE t (a NOT NULL PRIMARY KEY, v) WITHOUT ROWID";
    let project = Project::new("t", schema, |_| {});
    let source = project.source();
    for number in 0..300 {
        let sql = "INSERT INTO t VALUES (?1, ?1 + 0.5)";
        source.execute(sql, [number]).unwrap();
    }
    let world = World::new();
    world.run_once(project.path(), &project.settings).await;
    project.assert_in_step("t");
    source
        .execute_batch("INSERT INTO t VALUES ('x', 1), (2.5, x'00ff'); DELETE FROM t WHERE a = 7")
        .unwrap();
    world.run_for(project.path(), &project.settings, 30.0).await;
    project.assert_in_step("t");
    assert_eq!(project.log().len(), 303);
}

#[tokio::test(start_paused = true)]
async fn the_log_of_a_first_pass_is_read_a_page_at_a_time() {
    let project = Project::new("orders", ORDERS, |_| {});
    fill(&mut project.source(), 230);
    let world = World::new();
    world.run_once(project.path(), &project.settings).await;
    let source = project.source();
    source
        .execute("UPDATE orders SET status = 'paid' WHERE id < 20", [])
        .unwrap();
    world.run_for(project.path(), &project.settings, 30.0).await;
    let mut all = project.log();
    all.reverse();
    assert_eq!(all.len(), 230 + 19);
    let reader = CopyReader::open(&project.copy()).unwrap().unwrap();
    for limit in [1, 7, 50, 100, 249, 300] {
        let mut pages = Vec::new();
        let mut before = (i64::MAX, i64::MAX);
        loop {
            let page = reader.log("shop", None, before, limit).unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else {
                break;
            };
            before = (last.found_at.0, last.number);
            pages.extend(page);
        }
        assert_eq!(pages, all, "pages of {limit}");
    }
    let numbers: Vec<i64> = all.iter().rev().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=249).collect::<Vec<_>>());
}

/// What is wrong with the only source.
fn error(folder: &Path) -> Option<(FailureKind, String)> {
    let store = Sqlite::read_only(folder.join(".springtide")).unwrap();
    let sources = store.sources().unwrap();
    let error = sources[0].error.clone()?;
    Some((error.kind, error.message))
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_table_is_named_and_nothing_is_copied_wrongly() {
    let world = World::new();
    let mut project = Project::new("orders", ORDERS, |_| {});
    fill(&mut project.source(), 120);
    project.table().relation = Relation::Table(vec!["order".to_owned()]);
    let ended = world
        .run_for(project.path(), &project.settings, 3.0)
        .await
        .0;
    assert_eq!(ended.failed_sources, ["shop"]);
    let (kind, message) = error(project.path()).unwrap();
    assert_eq!(
        (kind, &*message),
        (FailureKind::Database, "there is no table order")
    );

    project.table().relation = Relation::Table(vec!["orders".to_owned()]);
    world.run_for(project.path(), &project.settings, 5.0).await;
    assert_eq!(error(project.path()), None);
    project.assert_in_step("orders");

    // Dropped, and made again with other rows.
    let mut source = project.source();
    source
        .execute_batch("ALTER TABLE orders RENAME TO kept")
        .unwrap();
    let ended = world
        .run_for(project.path(), &project.settings, 20.0)
        .await
        .0;
    assert_eq!(ended.failed_sources, ["shop"]);
    assert!(error(project.path()).unwrap().1.contains("orders"));
    let copy = Connection::open(project.copy()).unwrap();
    assert_eq!(all(&copy, "orders").len(), 120);
    source.execute_batch(ORDERS).unwrap();
    fill(&mut source, 30);
    world
        .run_for(project.path(), &project.settings, 120.0)
        .await;
    assert_eq!(error(project.path()), None);
    project.assert_in_step("orders");

    let unique = |table: &mut TableSettings| table.key = vec!["status".to_owned()];
    let schema = format!("{ORDERS}; CREATE INDEX by_status ON orders (status)");
    let project = Project::new("orders", &schema, unique);
    fill(&mut project.source(), 3);
    world.run_for(project.path(), &project.settings, 2.0).await;
    assert!(error(project.path()).unwrap().1.contains("not unique"));
    let project = Project::new("orders", ORDERS, unique);
    world.run_for(project.path(), &project.settings, 2.0).await;
    assert!(
        error(project.path())
            .unwrap()
            .1
            .contains("no index begins with (status)")
    );
    let project = Project::new("orders", ORDERS, |table| {
        table.columns = vec!["id".to_owned(), "colour".to_owned()];
    });
    world.run_for(project.path(), &project.settings, 2.0).await;
    assert!(
        error(project.path())
            .unwrap()
            .1
            .contains("no column colour")
    );
}

#[tokio::test(start_paused = true)]
async fn a_query_is_one_block_and_never_more_than_five_statements_leave_in_a_second() {
    let world = World::new();
    let project = Project::new("orders", ORDERS, |table| {
        let query = "select status, sum(total) as total, count(*) as n from orders group by 1";
        table.relation = Relation::Query(query.to_owned());
        table.key = vec!["status".to_owned()];
    });
    let mut source = project.source();
    fill(&mut source, 100);
    let ended = world
        .run_for(project.path(), &project.settings, 10.0)
        .await
        .0;
    assert!(ended.n_polls <= 51, "{ended:?}");
    let copy = Connection::open(project.copy()).unwrap();
    assert_eq!(all(&copy, "shop").len(), 1);
    source
        .execute("UPDATE orders SET status = 'paid' WHERE id <= 10", [])
        .unwrap();
    world.run_for(project.path(), &project.settings, 10.0).await;
    let rows = all(&copy, "shop");
    assert_eq!(rows.len(), 2);
    assert_eq!(elements(project.path()).len(), 1);
    let store = Sqlite::read_only(project.path().join(".springtide")).unwrap();
    let first = store.element(ElementId(0)).unwrap();
    assert!(first.is_none_or(|kept| kept.element.locator == "shop[..)"));
}
