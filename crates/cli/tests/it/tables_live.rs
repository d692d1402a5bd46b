//! Tables of real databases that are changed, broken and taken away while a run goes on.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::databases::{Kind, Server};
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
