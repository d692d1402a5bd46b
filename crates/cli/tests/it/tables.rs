//! Tables of real databases, as people keep a copy of them.

use serde_json::{Value, json};
use springtide_engine::table::{self, CopyReader};

use crate::databases::{Kind, Server};
use crate::{Place, json as document, lines};

/// The rows of a copy, each as a document, by the text of its first value.
pub(crate) fn copy(place: &Place, file: &str, table: &str) -> Vec<Value> {
    let reader = CopyReader::open(&place.path(file)).unwrap().unwrap();
    let columns = reader.columns(table).unwrap();
    let mut rows = Vec::new();
    if columns.is_empty() {
        // The file is there before anything was read.
        return rows;
    }
    let read = reader.rows::<table::CopyError>(table, &mut |row| {
        let fields = columns.iter().cloned();
        let fields = fields.zip(row.iter().map(table::Value::to_plain_json));
        rows.push(Value::Object(fields.collect()));
        Ok(())
    });
    read.unwrap();
    rows.sort_by_key(ToString::to_string);
    rows
}

pub(crate) fn settings(server: &Server, more: &str) -> String {
    format!(
        "[budget]\npolls = \"100/s\"\n\n[[group]]\nmatch = \"127.0.0.1\"\nrate = \"100/s\"\n\
         concurrency = 1\n\n[source.orders]\nkind = \"table\"\nurl = \"{}\"\n\
         table = \"orders\"\nblock = 40\ncopy = \"orders.db\"\n{more}",
        server.url()
    )
}

#[test]
fn a_sqlite_table_is_listed_added_copied_and_exported() {
    let place = Place::new();
    let shop = springtide_sqlite(&place, "shop.db");
    shop("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, updated_at TEXT, total REAL)");
    shop("CREATE TABLE notes (text TEXT)");
    for id in 1..=300 {
        shop(&format!(
            "INSERT INTO orders VALUES ({id}, 'new', '2026-01-01T00:00:00Z', 100)"
        ));
    }
    let listed = document(&place.run("add sqlite:shop.db --json").ok());
    assert_eq!(listed[0]["table"], "notes");
    assert_eq!(listed[1]["key"], json!(["id"]));
    assert_eq!(listed[1]["cursors"], json!(["updated_at"]));
    assert_eq!(
        (&listed[0]["n_rows"], &listed[1]["n_rows"]),
        (&json!(0.0), &json!(300.0))
    );
    assert!(!place.path("springtide.toml").exists());
    place
        .run("add sqlite:shop.db --table nothing")
        .failed(2, &["there is no table nothing"]);
    place
        .run("add sqlite:shop.db --table notes")
        .failed(2, &["no primary key"]);
    assert!(!place.path("springtide.toml").exists());
    // What fails at the end leaves nothing either.
    std::fs::write(place.path(".springtide"), "in the way").unwrap();
    place
        .run("add sqlite:shop.db --table orders")
        .failed(1, &["cannot"]);
    assert!(!place.path("springtide.toml").exists());
    std::fs::remove_file(place.path(".springtide")).unwrap();
    let added = place.run("add sqlite:shop.db --table orders --cursor updated_at");
    let said = added.ok().stderr;
    assert!(said.contains("about 300, in 1 block"), "{said}");
    assert!(said.contains("no index begins with it"), "{said}");
    shop("CREATE TABLE named (name TEXT COLLATE NOCASE PRIMARY KEY, updated_at TEXT)");
    place
        .run("add sqlite:shop.db --table named --cursor updated_at")
        .failed(2, &["the key (name)", "leave the cursor out"]);
    let settings = place.read("springtide.toml");
    std::fs::rename(place.path(".springtide"), place.path("away")).unwrap();
    std::fs::write(place.path(".springtide"), "in the way").unwrap();
    place
        .run("add sqlite:shop.db --table other --offline")
        .failed(1, &["cannot"]);
    assert_eq!(place.read("springtide.toml"), settings);
    std::fs::remove_file(place.path(".springtide")).unwrap();
    std::fs::rename(place.path("away"), place.path(".springtide")).unwrap();
    place.run("add sqlite:shop.db --table orders").ok();
    assert_eq!(place.read("springtide.toml").matches("[source.").count(), 1);
    place.run("run --once").ok();
    assert_eq!(
        copy(&place, ".springtide/copies/orders.db", "orders").len(),
        300
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let copy = std::fs::metadata(place.path(".springtide/copies/orders.db")).unwrap();
        assert_eq!(copy.permissions().mode() & 0o777, 0o600);
    }
    let disk = document(&place.run("status --json").ok())["disk"].clone();
    assert!(disk["copies_bytes"].as_u64() > Some(4096), "{disk}");
    let shown = place.run("status").ok().stdout;
    assert!(shown.contains(" for copies of tables"), "{shown}");
    shop(
        "UPDATE orders SET status = 'paid', updated_at = '2026-01-02T00:00:00Z', total = 119 WHERE id = 7",
    );
    place.run("run --for 4s --budget 20/s").ok();
    // Without a cursor to find it first, the poll of its block tells what it was.
    shop("UPDATE orders SET status = 'open' WHERE id = 8");
    let told = place.run("poll orders").ok().stderr;
    assert!(told.contains(" [8] status new → open"), "{told}");
    let log = lines(&place.run("log --rows --json --limit 2").ok());
    let log = &log[1..];
    assert_eq!(log[0]["kind"], "changed");
    assert_eq!(log[0]["key"], json!([7]));
    assert_eq!(log[0]["source"], "orders");
    assert_eq!(log[0]["before"]["status"], "new");
    assert_eq!(log[0]["after"]["status"], "paid");
    assert!(log[0]["found_at"].is_string());
    let fields = json!([
        {"name": "status", "before": "new", "after": "paid"},
        {"name": "total", "before": 100.0, "after": 119.0},
        {"name": "updated_at", "before": "2026-01-01T00:00:00Z", "after": "2026-01-02T00:00:00Z"},
    ]);
    assert_eq!(log[0]["fields"], fields);
    let shown = place.run("log --rows --limit 2").ok().stdout;
    let changed = "status new → paid, total 100.0 → 119.0 (+19 %), ";
    assert!(shown.contains(changed), "{shown}");
    place.run("export rows orders --out rows.csv").ok();
    assert_eq!(place.read("rows.csv").lines().count(), 301);
    place.run("export rows orders --out rows.jsonl").ok();
    assert!(
        place
            .read("rows.jsonl")
            .contains(r#""id":7,"status":"paid""#)
    );
    place.run("export rows orders --out rows.parquet").ok();
    place.run("export rows nobody").failed(2, &["nobody"]);
    let ls = lines(&place.run("ls --json").ok());
    assert_eq!(ls[0]["kind"], "table");
    place.run("doctor").ok();
}

#[test]
fn csv_has_no_cell_that_a_program_for_tables_would_work_out() {
    let rows = "id,title\n=1+1,word\n";
    let settings = "[budget]\npolls = \"100/day\"\n[source.goods]\nkind = \"table\"\n\
                    url = \"sqlite:shop.db\"\ntable = \"goods\"\n\
                    [source.shop]\nkind = \"search\"\nurl = \"http://127.0.0.1:9/{query}/{page}\"\n\
                    rows = \"rows.csv\"\nattributes = { title = \"words\" }\n\
                    [source.shop.answer]\nresults = \"/results\"\nid = \"/id\"\n";
    let place = Place::with("springtide.toml", settings).and("rows.csv", rows);
    let shop = springtide_sqlite(&place, "shop.db");
    shop("CREATE TABLE goods (id INTEGER PRIMARY KEY, \"=note\" TEXT)");
    shop(
        "INSERT INTO goods (\"=note\") VALUES \
         ('=1+1'), ('+cmd'), ('-a'), ('@SUM(A1)'), (char(9) || '=1'), ('=a,\"b\"'), \
         ('-1.50'), (-3), ('1=1'), ('')",
    );
    // The shop may not be asked; its rows are known all the same.
    let run = place.run("run --once --quiet");
    assert!(matches!(run.code, 0 | 3), "{}", run.stderr);
    place.run("export rows goods --out goods.csv").ok();
    assert_eq!(
        place.read("goods.csv"),
        "id,'=note\n1,'=1+1\n2,'+cmd\n3,'-a\n4,'@SUM(A1)\n5,'\t=1\n6,\"'=a,\"\"b\"\"\"\n\
         7,-1.50\n8,-3\n9,1=1\n10,\n"
    );
    let csv = place.run("export csv").ok().stdout;
    assert!(csv.contains(",shop,'=1+1,"), "{csv}");
    place.run("export rows goods --out goods.jsonl").ok();
    assert!(place.read("goods.jsonl").contains(r#""=note":"=1+1""#));
}

#[test]
fn parquet_has_the_kinds_of_columns_and_what_is_missing() {
    use parquet::basic::Type;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    let place = Place::new();
    let shop = springtide_sqlite(&place, "shop.db");
    shop("CREATE TABLE items (id INTEGER PRIMARY KEY, price REAL, name TEXT, hash BLOB, any)");
    shop("INSERT INTO items VALUES (1, 2.5, 'one', x'00ff', 1), (2, NULL, NULL, NULL, 'x')");
    place.run("add sqlite:shop.db --table items").ok();
    place.run("run --once").ok();
    place.run("export rows items --out items.parquet").ok();
    let file = std::fs::File::open(place.path("items.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    let kinds: Vec<Type> = (schema.columns().iter())
        .map(|column| column.physical_type())
        .collect();
    let (bytes, real, whole) = (Type::BYTE_ARRAY, Type::DOUBLE, Type::INT64);
    assert_eq!(kinds, [whole, real, bytes, bytes, bytes]);
    let rows = reader.get_row_iter(None).unwrap();
    let rows: Vec<Vec<Field>> = rows
        .map(|row| {
            row.unwrap()
                .into_columns()
                .into_iter()
                .map(|(_, field)| field)
                .collect()
        })
        .collect();
    assert_eq!(
        rows[0][..3],
        [Field::Long(1), Field::Double(2.5), Field::Str("one".into())]
    );
    assert_eq!(rows[0][3], Field::Bytes(vec![0, 255].into()));
    assert_eq!(rows[1][1..4], [Field::Null, Field::Null, Field::Null]);
    // Of several kinds: as text.
    assert_eq!(
        [&rows[0][4], &rows[1][4]],
        [&Field::Str("1".into()), &Field::Str("x".into())]
    );
}

/// Says things to a SQLite file.
fn springtide_sqlite(place: &Place, name: &str) -> impl Fn(&str) {
    let connection = rusqlite::Connection::open(place.path(name)).unwrap();
    move |text| {
        connection.execute_batch(text).unwrap();
    }
}

#[test]
fn a_postgres_table_is_followed_in_every_type_and_only_read() {
    let Some(server) = Server::start(Kind::Postgres) else {
        return;
    };
    server.sql(
        "create type mood as enum ('glad', 'sad'); \
         create table orders (region text collate \"de-x-icu\", id int, mood mood, amount numeric(30, 10), \
           ratio double precision, small real, is_paid boolean, data bytea, doc jsonb, raw json, \
           tag uuid, day date, at timestamp, zoned timestamptz, span interval, list int[], \
           primary key (region, id)); \
         insert into orders select (array['Äpfel', 'apfel', 'Zebra', 'öl', 'it''s'])[1 + i % 5], i, \
           'glad', 12345678901234567890.0123456789, 0.1, 0.1, i % 2 = 0, '\\x00ff', '{\"b\": 1, \"a\": 2}', \
           '{\"b\": 1}', '00000000-0000-0000-0000-00000000000a', '2026-02-28', '2026-02-28 12:00:00.25', \
           '2026-02-28 12:00:00.25+02', '1 day 2 hours', '{1,2}' from generate_series(1, 500) i; \
         insert into orders (region, id, ratio) values ('x', -1, 'NaN'), ('x', -2, '-Infinity')",
    );
    let place = Place::with("springtide.toml", settings(&server, ""));
    place.run("run --once").ok();
    let rows = copy(&place, "orders.db", "orders");
    assert_eq!(rows.len(), 502);
    let row = rows.iter().find(|row| row["id"] == 2).unwrap();
    assert_eq!(
        *row,
        json!({
            "region": "Zebra", "id": 2, "mood": "glad",
            "amount": "12345678901234567890.0123456789", "ratio": 0.1, "small": 0.1,
            "is_paid": 1, "data": "00ff", "doc": "{\"a\": 2, \"b\": 1}", "raw": "{\"b\": 1}",
            "tag": "00000000-0000-0000-0000-00000000000a", "day": "2026-02-28",
            "at": "2026-02-28T12:00:00.25", "zoned": "2026-02-28T10:00:00.25Z",
            "span": "1 day 02:00:00", "list": "{1,2}",
        })
    );
    let odd = rows.iter().find(|row| row["id"] == -1).unwrap();
    assert_eq!((&odd["ratio"], &odd["day"]), (&json!("NaN"), &Value::Null));

    let run = || drop(place.run("run --for 2s").ok());
    digests_do_while_nothing_changes(&server, run);
    server.sql(
        "update orders set mood = 'sad' where id % 50 = 0; delete from orders where id % 49 = 0; \
         insert into orders (region, id) select 'Übermut', i from generate_series(1, 300) i",
    );
    place.run("run --for 6s").ok();
    let mine: Vec<String> = copy(&place, "orders.db", "orders")
        .iter()
        .map(|row| {
            let mood = row["mood"].as_str().unwrap_or_default();
            format!("{}|{}|{mood}", row["region"].as_str().unwrap(), row["id"])
        })
        .collect();
    let mut theirs: Vec<String> = server
        .sql("select region, id, mood from orders")
        .lines()
        .map(str::to_owned)
        .collect();
    let mut mine = mine;
    mine.sort();
    theirs.sort();
    assert_eq!(mine, theirs);
    let kinds = lines(&place.run("log --rows --json").ok());
    let n = |kind: &str| kinds.iter().filter(|row| row["kind"] == kind).count();
    assert_eq!((n("added"), n("gone"), n("changed")), (802, 10, 10));

    server.assert_only_read_one_by_one();

    // One that makes no digests is read.
    server.sql(
        "revoke execute on function hashint8extended(bigint, bigint) from public; \
         update orders set small = 2 where id = 3",
    );
    place.run("run --for 3s").ok();
    let rows = copy(&place, "orders.db", "orders");
    assert!(rows.iter().any(|row| row["small"] == 2.0 && row["id"] == 3));

    server.sql("alter table orders rename to elsewhere");
    place.run("run --for 2s").failed(3, &["orders"]);
    let ls = lines(&place.run("ls --json").ok());
    assert!(ls[0]["error"].to_string().contains("orders"), "{}", ls[0]);
    server.sql("alter table elsewhere rename to orders");
    place.run("run --for 4s").ok();
    let tables = document(&place.run(&format!("add {} --json", server.url())).ok());
    assert_eq!(tables[0]["table"], "public.orders");
    assert_eq!(tables[0]["key"], json!(["region", "id"]));
    place
        .run(&format!(
            "add postgres://nobody@127.0.0.1:{}/shop --table orders",
            server.port
        ))
        .failed(2, &["nobody"]);
}

#[test]
fn a_maria_table_is_followed_in_every_type_and_only_read() {
    let Some(server) = Server::start(Kind::Maria) else {
        return;
    };
    server.sql(
        "create table orders (a varchar(20), b bigint, big bigint unsigned, amount decimal(30, 10), \
           ratio double, small float, is_paid boolean, data varbinary(10), doc json, day date, \
           at datetime(3), zoned timestamp(3) null, span time, word enum('x', 'y'), bits bit(3), \
           primary key (a, b)); \
         insert into orders select concat('Ä', seq % 7), cast(seq as signed) - 100, 18446744073709551615, \
           12345678901234567890.0123456789, 0.1, 0.1, seq % 2, x'00ff', '{\"b\": 1}', '2026-02-28', \
           '2026-02-28 12:00:00.250', '2026-02-28 12:00:00.250', '-26:00:01', 'y', 5 \
           from seq_1_to_500",
    );
    let url = server.url();
    let place = Place::with(
        "springtide.toml",
        settings(&server, "password = \"env:SHOP_PASSWORD\"\n"),
    );
    place.run("run --once").failed(2, &["SHOP_PASSWORD"]);
    let run = |line: &str, password: &str| {
        let mut command = place.command(line);
        let output = command.env("SHOP_PASSWORD", password).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, _, said) = run("run --for 2s", "wr0ng");
    assert_eq!(code, Some(3), "{said}");
    assert!(!said.contains("wr0ng") && said.contains("denied"), "{said}");
    let (code, _, said) = run("run --for 4s", "s3cret");
    assert_eq!(code, Some(0), "{said}");
    let rows = copy(&place, "orders.db", "orders");
    assert_eq!(rows.len(), 500);
    let row = rows.iter().find(|row| row["b"] == -99).unwrap();
    assert_eq!(row["big"], "18446744073709551615");
    assert_eq!(row["amount"], "12345678901234567890.0123456789");
    assert_eq!((&row["ratio"], &row["small"]), (&json!(0.1), &json!(0.1)));
    assert_eq!((&row["is_paid"], &row["data"]), (&json!(1), &json!("00ff")));
    assert_eq!(row["doc"], "{\"b\": 1}");
    assert_eq!(
        (&row["day"], &row["at"]),
        (&json!("2026-02-28"), &json!("2026-02-28T12:00:00.25"))
    );
    assert!(row["zoned"].as_str().unwrap().ends_with('Z'), "{row}");
    assert_eq!(
        (&row["span"], &row["word"], &row["bits"]),
        (&json!("-26:00:01"), &json!("y"), &json!(5))
    );

    // Whether they are worth it is seen by asking for some.
    let is_digest = |text: &String| text.contains("bit_xor") && text.contains("as marks");
    assert!(server.statements().iter().any(is_digest));
    server.sql(
        "update orders set word = 'x', small = 0.1000001 where b % 50 = 0; delete from orders where b % 49 = 0; \
         insert into orders (a, b) select 'zuletzt', seq from seq_1_to_100",
    );
    let (code, _, said) = run("run --for 5s", "s3cret");
    assert_eq!(code, Some(0), "{said}");
    let mut mine: Vec<String> = (copy(&place, "orders.db", "orders").iter())
        .map(|row| {
            let word = row["word"].as_str().unwrap_or("NULL");
            format!("{}\t{}\t{word}", row["a"].as_str().unwrap(), row["b"])
        })
        .collect();
    let theirs = server.sql("select a, b, word from orders");
    let mut theirs: Vec<&str> = theirs.lines().collect();
    mine.sort();
    theirs.sort_unstable();
    assert_eq!(mine, theirs);
    // The database itself shows six digits.
    let rows = copy(&place, "orders.db", "orders");
    assert!(rows.iter().any(|row| row["small"] == 0.1000001));
    server.assert_only_read_one_by_one();
    assert_nobody_knows_the_password(&place);
    assert!(!url.contains("s3cret"));
}

/// No file has it.
#[track_caller]
fn assert_nobody_knows_the_password(place: &Place) {
    for path in walk(&place.path("")) {
        let bytes = std::fs::read(&path).unwrap_or_default();
        let has_it = bytes.windows(6).any(|bytes| bytes == b"s3cret");
        assert!(!has_it, "{}", path.display());
    }
}

#[test]
fn the_password_of_postgres_is_in_no_output_log_or_store() {
    let Some(server) = Server::start(Kind::Postgres) else {
        return;
    };
    server.sql(
        "create table orders (id int primary key, n int); \
         insert into orders select i, i from generate_series(1, 100) i",
    );
    server.ask_for_password();
    let more = "password = \"env:SHOP_PASSWORD\"\n";
    let place = Place::with("springtide.toml", settings(&server, more));
    let mut said = String::new();
    for (line, password, code) in [
        ("run --for 2s", "wr0ng", 3),
        ("run --once -v --log json", "s3cret", 0),
        ("run --for 2s --log lines", "s3cret", 0),
        ("status --json", "s3cret", 0),
        ("ls --json", "s3cret", 0),
    ] {
        let mut command = place.command(line);
        let output = command.env("SHOP_PASSWORD", password).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        said.push_str(&String::from_utf8_lossy(&text));
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
    }
    assert!(said.contains("authentication failed"), "{said}");
    assert!(
        !said.contains("s3cret") && !said.contains("wr0ng"),
        "{said}"
    );
    assert_eq!(copy(&place, "orders.db", "orders").len(), 100);
    assert_nobody_knows_the_password(&place);
}

#[test]
fn the_budget_counts_each_statement_about_rows_and_no_other() {
    for kind in [Kind::Postgres, Kind::Maria] {
        let (quote, numbers) = match kind {
            Kind::Postgres => ('"', "select i, 0, now() from generate_series(1, 500) i"),
            Kind::Maria => ('`', "select seq, 0, now() from seq_1_to_500"),
        };
        let Some(server) = Server::start(kind) else {
            continue;
        };
        server.sql(&format!(
            "create table orders (id int primary key, n int, updated_at timestamp); \
             insert into orders {numbers}"
        ));
        let more = "password = \"env:SHOP_PASSWORD\"\ncursor = \"updated_at\"\n";
        let place = Place::with("springtide.toml", settings(&server, more));
        let mut n_polls = 0;
        for _ in 0..2 {
            let mut command = place.command("run --for 3s --json");
            let output = command.env("SHOP_PASSWORD", "s3cret").output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            let said: Value = serde_json::from_str(&said).unwrap();
            n_polls += said["n_polls"].as_u64().unwrap() as usize;
        }
        let table = format!(" from {quote}orders{quote}");
        let statements = server.statements();
        let is_about_rows = |text: &&String| {
            text.contains(&table) && !text.starts_with("explain") && !text.ends_with("limit 0")
        };
        let n_statements = statements.iter().filter(is_about_rows).count();
        assert!(n_polls > 10);
        // One may be cut off when a run ends.
        assert!(
            n_statements.abs_diff(n_polls) <= 2,
            "{n_statements} for {n_polls} polls"
        );
        assert!(statements.len() - n_statements <= 2 * 16, "{statements:?}");
    }
}

/// While nothing changes, the database is asked for digests; how often rather than for rows goes
/// by what either was seen to take, which on a busy machine may be anything.
fn digests_do_while_nothing_changes(server: &Server, run: impl Fn()) {
    let seen = server.statements().len();
    run();
    let asked = server.statements().split_off(seen);
    let is_digest = |text: &&String| text.contains("hashint8extended");
    let n_digests = asked.iter().filter(is_digest).count();
    assert!(n_digests > 10, "{n_digests} digests");
}

/// All files below a folder.
fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(walk(&path)),
            false => files.push(path),
        }
    }
    files
}

#[test]
fn a_large_table_that_has_no_index_is_refused_even_if_nobody_has_counted_it() {
    let Some(server) = Server::start(Kind::Postgres) else {
        return;
    };
    server.sql(
        "create table fresh (id int, n int) with (autovacuum_enabled = off); \
         insert into fresh select i, i from generate_series(1, 100000) i; \
         create view large as select * from fresh; \
         create view sums as select n % 10 as k, count(*) from fresh group by 1; \
         create table orders (id int primary key, n int, updated_at timestamptz) \
           with (autovacuum_enabled = off); \
         insert into orders select i, i, now() from generate_series(1, 50000) i; \
         create view bought as select * from orders where n >= 0",
    );
    let place = Place::new();
    let add = |more: &str| place.run(&format!("add {} --dry-run --table {more}", server.url()));
    for large in ["fresh", "large"] {
        add(&format!("{large} --key id")).failed(2, &["no index begins with (id)"]);
    }
    add("sums --key k").ok();
    add("bought --key id").ok();
    let said = add("orders --cursor updated_at").ok().stderr;
    assert!(said.contains("no index begins with it"), "{said}");
    server.sql("create index on orders (updated_at)");
    let said = add("orders --cursor updated_at").ok().stderr;
    assert!(!said.contains("no index"), "{said}");
    let tables = document(&place.run(&format!("add {} --json", server.url())).ok());
    let fresh = tables
        .as_array()
        .unwrap()
        .iter()
        .find(|table| table["table"] == "public.fresh");
    let n_rows = fresh.unwrap()["n_rows"].as_f64().unwrap();
    assert!((50_000.0..200_000.0).contains(&n_rows), "{n_rows}");
}
