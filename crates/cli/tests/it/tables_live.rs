//! Tables of real databases that are changed, broken and taken away while a run goes on.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use crate::databases::{CutWay, Kind, Server};
use crate::tables::{copy, settings};
use crate::{Place, lines};

/// How long it may take until a copy shows what is to be seen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run that goes on until it is killed.
struct Running(Child);

impl Running {
    fn start(place: &Place) -> Self {
        let mut command = place.command("run");
        command.env("SHOP_PASSWORD", "s3cret");
        let log = std::fs::File::create(place.path("run.log")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        Self(child.unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the copy's rows are as they should be.
#[track_caller]
fn wait(place: &Place, what: &str, is_so: impl Fn(&[Value]) -> bool) {
    let begun = Instant::now();
    loop {
        let rows = match place.path("orders.db").exists() {
            true => copy(place, "orders.db", "orders"),
            false => Vec::new(),
        };
        if is_so(&rows) {
            return;
        }
        let said = || place.read("run.log");
        let first = rows.first();
        assert!(
            begun.elapsed() < PATIENCE,
            "never: {what}; {} rows, {first:?}\n{}",
            rows.len(),
            said()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn all(rows: &[Value], is_so: impl Fn(&Value) -> bool) -> bool {
    rows.len() == 300 && rows.iter().all(is_so)
}

#[track_caller]
fn columns_come_and_go(server: &Server, place: &Place, rename: &str) {
    let run = Running::start(place);
    wait(place, "all rows", |rows| rows.len() == 300);
    server.sql("alter table orders add column n int default 5");
    wait(place, "a new column, and its numbers", |rows| {
        all(rows, |row| row["n"] == 5)
    });
    server.sql(rename);
    wait(place, "another name", |rows| {
        all(rows, |row| row["title"] == "x" && row.get("name").is_none())
    });
    server.sql("alter table orders drop column n");
    wait(place, "one column less", |rows| {
        all(rows, |row| row.get("n").is_none())
    });
    drop(run);
    let log = lines(&place.run("log --rows --json").ok());
    let n = log.iter().filter(|row| row["kind"] == "schema").count();
    assert_eq!(n, 3);
    assert_eq!(log.len(), 303, "nothing else has happened");
}

#[test]
fn columns_of_postgres_come_and_go_while_digests_are_asked_for() {
    let Some(server) = Server::start(Kind::Postgres) else {
        return;
    };
    server.sql(
        "create type mood as enum ('glad', 'sad'); \
         create table orders (id int primary key, name text, mood mood default 'glad'); \
         insert into orders select i, 'x' from generate_series(1, 300) i",
    );
    let place = Place::with("springtide.toml", settings(&server, ""));
    columns_come_and_go(
        &server,
        &place,
        "alter table orders rename column name to title",
    );
    // What is shown changes, and no row is written.
    let run = Running::start(&place);
    server.sql("alter type mood rename value 'glad' to 'happy'");
    wait(&place, "another word", |rows| {
        all(rows, |row| row["mood"] == "happy")
    });
    drop(run);
}

#[test]
fn columns_of_maria_come_and_go_while_digests_are_asked_for() {
    let Some(server) = Server::start(Kind::Maria) else {
        return;
    };
    server.sql(
        "create table orders (id int primary key, name text); \
         insert into orders select seq, 'x' from seq_1_to_300",
    );
    let more = "password = \"env:SHOP_PASSWORD\"\n";
    let place = Place::with("springtide.toml", settings(&server, more));
    let rename = "alter table orders rename column name to title";
    columns_come_and_go(&server, &place, rename);
}

#[test]
fn a_database_that_fails_is_an_error_of_its_source_and_is_found_again() {
    let Some(mut server) = Server::start(Kind::Postgres) else {
        return;
    };
    let make = "create table orders (id int primary key, name text); \
         grant select on orders to reader; \
         insert into orders select i, 'x' from generate_series(1, 300) i";
    server.sql(make);
    let beside = "\n[source.beside]\nkind = \"table\"\nurl = \"sqlite:beside.db\"\ntable = \"t\"\n";
    let place = Place::with("springtide.toml", settings(&server, beside));
    let other = rusqlite::Connection::open(place.path("beside.db")).unwrap();
    other
        .execute_batch(
            "create table t (id integer primary key, n int); insert into t values (1, 0)",
        )
        .unwrap();
    let n_beside = |n: i64| {
        other.execute("update t set n = ?", [n]).unwrap();
        let begun = Instant::now();
        while copy(&place, ".springtide/copies/beside.db", "t") != [json!({"id": 1, "n": n})] {
            assert!(begun.elapsed() < PATIENCE, "the other source stands still");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let error_of = |name: &str| {
        let sources = lines(&place.run("ls --json").ok());
        let source = sources.into_iter().find(|source| source["name"] == name);
        source.unwrap()["error"].clone()
    };
    let wait_for_error = |words: &str| {
        let begun = Instant::now();
        while !error_of("orders").to_string().contains(words) {
            let said = error_of("orders");
            assert!(begun.elapsed() < PATIENCE, "no error says {words}: {said}");
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    let run = Running::start(&place);
    wait(&place, "all rows", |rows| rows.len() == 300);

    server.restart();
    server.sql("update orders set name = 'restarted'");
    wait(&place, "what came after a restart", |rows| {
        all(rows, |row| row["name"] == "restarted")
    });
    n_beside(1);

    server.sql("revoke select on orders from reader");
    wait_for_error("permission denied");
    n_beside(2);
    assert_eq!(copy(&place, "orders.db", "orders").len(), 300);
    server.sql("grant select on orders to reader; update orders set name = 'granted'");
    wait(&place, "what came after a grant", |rows| {
        all(rows, |row| row["name"] == "granted")
    });

    server.sql("drop table orders");
    wait_for_error("orders");
    n_beside(3);
    server.sql(make);
    server
        .sql("update orders set name = 'again' where id > 100; delete from orders where id <= 100");
    wait(&place, "the table that was made again", |rows| {
        rows.len() == 200 && rows.iter().all(|row| row["name"] == "again")
    });

    // A row of 5 MB, and connections that are cut.
    server.sql(
        "insert into orders select 1, repeat('y', 5000000); \
         select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = 'reader'",
    );
    wait(&place, "a row of 5 MB", |rows| {
        rows.len() == 201
            && rows
                .iter()
                .any(|row| row["name"].as_str().unwrap().len() == 5_000_000)
    });
    drop(run);

    // A key that is none.
    server.sql("create table pairs (a int, b int); insert into pairs values (1, 1), (1, 2)");
    let twice = settings(&server, "key = [\"a\"]\n").replace("\"orders\"", "\"pairs\"");
    let place = Place::with("springtide.toml", twice);
    place.run("run --for 2s").failed(3, &["not unique"]);
}

#[test]
fn a_copy_survives_kills_while_rows_are_written() {
    let Some(server) = Server::start(Kind::Postgres) else {
        return;
    };
    server.sql(
        "create table orders (id int primary key, n int); \
         insert into orders select i, 0 from generate_series(1, 3000) i",
    );
    let place = Place::with("springtide.toml", settings(&server, ""));
    for kill in 1..=6 {
        let run = Running::start(&place);
        for step in 0..10 * kill {
            server.sql(&format!(
                "update orders set n = n + 1 where id % 500 = {step}; \
                 delete from orders where id = {}; insert into orders values ({}, 0)",
                100 * kill + step,
                10_000 * kill + step
            ));
        }
        drop(run);
        place.run("doctor").ok();
    }
    let theirs: BTreeMap<i64, i64> = (server.sql("select id, n from orders").lines())
        .map(|line| line.split_once('|').unwrap())
        .map(|(id, n)| (id.parse().unwrap(), n.parse().unwrap()))
        .collect();
    let number = |value: &Value| value.as_i64().unwrap();
    let is_equal = |rows: &[Value]| {
        let rows = rows
            .iter()
            .map(|row| (number(&row["id"]), number(&row["n"])));
        rows.collect::<BTreeMap<_, _>>() == theirs
    };
    let run = Running::start(&place);
    wait(&place, "what the table has", is_equal);
    drop(run);
    // What was told of rows, one after the other, leads to the same.
    let mut told = BTreeMap::new();
    let log = lines(&place.run("log --rows --json --limit 1000000").ok());
    for row in log.iter().rev() {
        let (key, after) = (number(&row["key"][0]), &row["after"]);
        let before = told.get(&key).copied();
        assert_eq!(before, row["before"]["n"].as_i64(), "{row}");
        match after {
            Value::Null => told.remove(&key),
            after => told.insert(key, number(&after["n"])),
        };
    }
    assert_eq!(told, theirs);
}

#[track_caller]
fn a_cut_result_is_no_result(server: &Server, fill: &str, change: &str) {
    server.sql(&format!(
        "create table orders (id int primary key, name text); insert into orders {fill}"
    ));
    let way = CutWay::to(server.port);
    let more = "password = \"env:SHOP_PASSWORD\"\n";
    let (own, through) = (format!(":{}/", server.port), format!(":{}/", way.port));
    let place = Place::with(
        "springtide.toml",
        settings(server, more).replace(&own, &through),
    );
    // Within the rows of a first pass, and then within those of a block.
    way.cut(3, 100_000);
    let run = Running::start(&place);
    wait(&place, "all rows", |rows| rows.len() == 2_000);
    assert_eq!(way.n_left(), 0);
    way.cut(3, 12_000);
    server.sql(change);
    wait(&place, "other names", |rows| {
        rows.len() == 2_000
            && rows
                .iter()
                .all(|row| row["name"].as_str().unwrap().starts_with('y'))
    });
    assert_eq!(way.n_left(), 0);
    drop(run);
    let log = lines(&place.run("log --rows --json --limit 100000").ok());
    let n = |kind: &str| log.iter().filter(|row| row["kind"] == kind).count();
    assert_eq!((n("added"), n("changed"), log.len()), (2_000, 2_000, 4_000));
}

#[test]
fn a_result_of_postgres_that_is_cut_is_no_result() {
    let Some(server) = Server::start(Kind::Postgres) else {
        return;
    };
    a_cut_result_is_no_result(
        &server,
        "select i, repeat('x', 500) from generate_series(1, 2000) i",
        "update orders set name = repeat('y', 500)",
    );
}

#[test]
fn a_result_of_maria_that_is_cut_is_no_result() {
    let Some(server) = Server::start(Kind::Maria) else {
        return;
    };
    a_cut_result_is_no_result(
        &server,
        "select seq, repeat('x', 500) from seq_1_to_2000",
        "update orders set name = repeat('y', 500)",
    );
}

#[test]
fn what_a_cursor_cannot_show_is_found_by_blocks() {
    let Some(server) = Server::start(Kind::Postgres) else {
        return;
    };
    // More rows of one value than a poll of the cursor reads.
    server.sql(
        "create table orders (id int primary key, n int, updated_at timestamptz); \
         create index on orders (updated_at); \
         insert into orders select i, 0, now() from generate_series(1, 12000) i; \
         insert into orders select i, 0, null from generate_series(12001, 12050) i",
    );
    let more = "cursor = \"updated_at\"\nlate = \"1s\"\n\n[policy]\nmax_interval = \"5s\"\n";
    let text = settings(&server, more).replace("block = 40", "block = 500");
    let place = Place::with("springtide.toml", text);
    let run = Running::start(&place);
    let n_of = |rows: &[Value], n: i64| rows.iter().filter(|row| row["n"] == n).count();
    wait(&place, "all rows", |rows| rows.len() == 12_050);

    server.sql("update orders set n = 1, updated_at = now() where id <= 11000");
    wait(&place, "one value over several pages", |rows| {
        n_of(rows, 1) == 11_000
    });

    // One that began first commits last, long after the cursor has gone on.
    let mut late = server.begin(
        "begin; insert into orders values (20001, 2, clock_timestamp()); select pg_sleep(6); commit",
    );
    let mut early = server.begin(
        "begin; insert into orders values (20002, 3, clock_timestamp()); select pg_sleep(2); commit",
    );
    assert!(early.wait().unwrap().success());
    server.sql("update orders set updated_at = clock_timestamp() where id = 1");
    wait(&place, "who commits first", |rows| n_of(rows, 3) == 1);
    assert!(late.wait().unwrap().success());
    wait(&place, "who commits late", |rows| n_of(rows, 2) == 1);

    server.sql(
        "update orders set n = 4 where updated_at is null; \
         insert into orders values (20003, 4, null)",
    );
    wait(&place, "rows without a time", |rows| n_of(rows, 4) == 51);

    server
        .sql("update orders set n = 5, updated_at = now() - interval '1 day' where id % 1000 = 7");
    wait(&place, "a clock that was set back", |rows| {
        n_of(rows, 5) == 13
    });

    server.sql("update orders set n = 6 where id % 1000 = 8");
    wait(&place, "updates that leave the cursor alone", |rows| {
        n_of(rows, 6) == 13
    });

    server.sql("delete from orders where id % 1000 = 9 or updated_at is null");
    wait(&place, "deletes", |rows| rows.len() == 12_053 - 12 - 50);
    drop(run);
}

/// A version of a row: what was written, and from when to when, by the clock of both.
struct Version {
    key: String,
    n: i64,
    /// Before it was written, and once its end was.
    from: i64,
    to: i64,
}

fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[track_caller]
fn follows_random_writers(server: &Server, key: &str, seed: u64) {
    server.sql(&format!(
        "create table orders (id {key} primary key, n int, updated_at timestamp(6) null); \
         create index by_time on orders (updated_at)"
    ));
    let more = "password = \"env:SHOP_PASSWORD\"\ncursor = \"updated_at\"\nlate = \"1s\"\n\n\
                [policy]\nmax_interval = \"3s\"\n";
    let text = settings(server, more).replace("block = 40", "block = 20");
    let place = Place::with("springtide.toml", text);
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut versions: Vec<Version> = Vec::new();
    let mut here: Vec<usize> = Vec::new();
    let run = Running::start(&place);
    for step in 0..120 {
        let n_inserts = if step == 0 {
            200
        } else {
            rng.random_range(0..4)
        };
        let (mut text, mut ended, from) = (Vec::new(), Vec::new(), now());
        for _ in 0..n_inserts {
            let key = uuid(&mut rng);
            let n = versions.len() as i64;
            text.push(format!(
                "insert into orders values ('{key}', {n}, current_timestamp(6))"
            ));
            here.push(versions.len());
            versions.push(Version {
                key,
                n,
                from,
                to: i64::MAX,
            });
        }
        for _ in 0..rng.random_range(0..4) {
            let place = rng.random_range(0..here.len());
            let old = here[place];
            let (key, n) = (versions[old].key.clone(), versions.len() as i64);
            ended.push(old);
            let stamp = match rng.random_range(0..6) {
                0 => {
                    text.push(format!("delete from orders where id = '{key}'"));
                    here.swap_remove(place);
                    continue;
                }
                // It leaves the cursor alone.
                1 => "",
                _ => ", updated_at = current_timestamp(6)",
            };
            text.push(format!(
                "update orders set n = {n}{stamp} where id = '{key}'"
            ));
            here[place] = versions.len();
            versions.push(Version {
                key,
                n,
                from,
                to: i64::MAX,
            });
        }
        if !text.is_empty() {
            server.sql(&text.join("; "));
        }
        let to = now();
        ended.into_iter().for_each(|old| versions[old].to = to);
        if step % 20 == 19 && place.path("orders.db").exists() {
            for row in copy(&place, "orders.db", "orders") {
                let n = row["n"].as_u64().unwrap() as usize;
                assert_eq!(versions[n].key, row["id"], "nobody wrote that");
            }
        }
    }
    let mut theirs: Vec<(String, i64)> = (here.iter())
        .map(|&at| (versions[at].key.clone(), versions[at].n))
        .collect();
    theirs.sort();
    let is_equal = |rows: &[Value]| {
        let text = |row: &Value| row["id"].as_str().unwrap().to_owned();
        let mut rows: Vec<(String, i64)> = (rows.iter())
            .map(|row| (text(row), row["n"].as_i64().unwrap()))
            .collect();
        rows.sort();
        rows == theirs
    };
    wait(&place, "what the table has", is_equal);
    drop(run);
    // Whatever came into the copy was there between the poll before and this one, and after
    // what had come before.
    let at = |row: &Value| {
        let text = row.as_str()?;
        Some(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    };
    let mut newest: BTreeMap<String, i64> = BTreeMap::new();
    let log = lines(&place.run("log --rows --json --limit 1000000").ok());
    for row in log.iter().rev() {
        let key = row["key"][0].as_str().unwrap().to_owned();
        let found_at = at(&row["found_at"]).unwrap();
        let Some(n) = row["after"]["n"].as_i64() else {
            let last = newest[&key] as usize;
            let is_gone = versions.iter().rev().find(|version| version.key == key);
            assert!(is_gone.unwrap().to < i64::MAX, "{row}");
            assert!(versions[last].from <= found_at, "{row}");
            continue;
        };
        let version = &versions[n as usize];
        assert_eq!(version.key, key);
        assert!(version.from <= found_at, "{row}");
        let previous = at(&row["previous_poll_at"]);
        assert!(
            previous.is_none_or(|previous| version.to >= previous),
            "{row}"
        );
        let before = newest.insert(key, n);
        assert!(before.is_none_or(|before| before < n), "{row}");
    }
    assert!(newest.len() > 200);
}

fn uuid(rng: &mut Pcg64) -> String {
    let number: u128 = rng.random();
    let hex = format!("{number:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

#[test]
fn a_copy_follows_random_writers_of_postgres() {
    let Some(server) = Server::start(Kind::Postgres) else {
        return;
    };
    follows_random_writers(&server, "uuid", 1);
    let is_digest = |text: &String| text.contains("hashint8extended");
    let statements = server.statements();
    assert!(statements.iter().any(is_digest));
    assert!(
        statements
            .iter()
            .any(|text| text.contains("order by \"updated_at\""))
    );
}

#[test]
fn a_copy_follows_random_writers_of_maria() {
    let Some(server) = Server::start(Kind::Maria) else {
        return;
    };
    let key = "char(36) character set ascii collate ascii_bin";
    follows_random_writers(&server, key, 2);
    let statements = server.statements();
    assert!(
        statements
            .iter()
            .any(|text| text.contains("order by `updated_at`"))
    );
}
