//! What keeping polls, importing elements and going through all of them costs.
//!
//! The measures beside ours are taken in turns with them in the same run: for
//! polls, the same batches as rows of 200 bytes in a bare table of SQLite with one
//! index, set up alike; for going through all elements, reading a file with as many
//! bytes in pages of 4 KiB; for importing, one row of 100 bytes each in such a
//! table, without an index. Bodies have a bench of their own.
//!
//! `cargo bench -p springtide-store` takes 200,000 elements; `-- --elements 1e7` any
//! other number (ten million need 6 GB of disk and some minutes), `--at DIR` puts
//! the store there, and `--test` runs a small one only, to see that it works.

#![expect(clippy::print_stdout, reason = "a bench prints its findings")]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rusqlite::Connection;
use springtide_store::{
    BodyId, Change, ChangeFilter, ChangeKind, Copy, Element, ElementId, Fact, Group, GroupId, Host,
    Kept, MemoryOf, Moment, Poll, PollOutcome, Purpose, Reader, Robots, RobotsAnswer, Role, Source,
    SourceId, SourceKind, Sqlite, State, Totals, Writer,
};

const N_HOSTS: u32 = 8;
const PER_IMPORT: usize = 10_000;
const PER_COMMIT: usize = 100;
/// One poll in so many finds a change.
const CHANGES: u32 = 10;
const ROUNDS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let n = match value("--elements").and_then(|n| n.parse::<f64>().ok()) {
        _ if is_test => 2_000,
        Some(n) => n as usize,
        None => 200_000,
    };
    let n_polls = if is_test { 200 } else { 20_000 };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = value("--at").map_or_else(|| folder.path().to_owned(), PathBuf::from);

    let mut store = Sqlite::create_or_open(folder.join("store")).expect("a store");
    import(&mut store, &folder, n);
    scan(&store, &folder, n);
    poll(&mut store, &folder, n, n_polls);
    ask(&store, n);
    store.close().expect("closed");
    println!();
    println!("anonymous memory: {} MB", anonymous_kib() / 1024);
}

fn import(store: &mut Sqlite, folder: &Path, n: usize) {
    println!("importing {n} elements in batches of {PER_IMPORT}");
    let mut bare = Bare::new(&folder.join("import.db"), "");
    let mut facts: Vec<Fact> = (0..N_HOSTS).map(|host| Fact::Group(group(host))).collect();
    facts.push(Fact::Source(source(n)));
    store.commit(&facts).expect("kept");
    let (mut ours, mut theirs) = (0.0, 0.0);
    let mut since = 0.0;
    for (batch, first) in (0..n).step_by(PER_IMPORT).enumerate() {
        let numbers = first..n.min(first + PER_IMPORT);
        let facts: Vec<Fact> = numbers
            .clone()
            .map(|number| Fact::Element(element(number as u32)))
            .collect();
        ours += seconds(|| store.commit(&facts).expect("kept"));
        theirs += seconds(|| bare.insert(numbers.map(|number| number as u32), &[0; 100]));
        if (batch + 1) % 100 == 0 {
            let each = (ours - since) / (100 * PER_IMPORT) as f64;
            println!(
                "  up to {:>10}: {:.1} µs each, {} MB of anonymous memory",
                first + PER_IMPORT,
                1e6 * each,
                anonymous_kib() / 1024
            );
            since = ours;
        }
    }
    println!(
        "  {ours:.1} s, {:.2} µs each; {:.1} times a bare row",
        1e6 * ours / n as f64,
        ours / theirs
    );
}

fn scan(store: &Sqlite, folder: &Path, n: usize) {
    let path = folder.join("pass");
    fs::write(&path, vec![1; 64 * n]).expect("written");
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        times[0].push(seconds(|| {
            let mut sum = 0.0;
            let mut n_elements = 0;
            store
                .scan(1, &mut |_, brief| {
                    sum += f64::from(brief.weight);
                    n_elements += 1;
                })
                .expect("scanned");
            assert_eq!(n_elements, n);
            black_box(sum);
        }));
        times[1].push(seconds(|| {
            let mut file = File::open(&path).expect("a file");
            let mut page = [0; 4096];
            let mut sum = 0;
            loop {
                let length = file.read(&mut page).expect("read");
                if length == 0 {
                    break;
                }
                let records = page[..length].chunks_exact(64);
                sum += records.map(|record| u64::from(record[8])).sum::<u64>();
            }
            black_box(sum);
        }));
    }
    let [ours, pass] = times.map(median);
    println!(
        "scan: {:.0} ms, {:.1} ns each; {:.1} times a pass over a file",
        1e3 * ours,
        1e9 * ours / n as f64,
        ours / pass
    );
}

fn poll(store: &mut Sqlite, folder: &Path, n: usize, n_polls: usize) {
    let mut bare = Bare::new(
        &folder.join("polls.db"),
        "CREATE INDEX of_element ON row (element)",
    );
    let mut rng = Pcg64::seed_from_u64(1);
    let mut now = 1_700_000_000_000;
    let mut times = [const { Vec::new() }; 3];
    for round in 0..3 * ROUNDS {
        // Those new to be polled, then again, then anywhere.
        let kind = round / ROUNDS;
        let numbers: Vec<u32> = (0..n_polls)
            .map(|index| match kind {
                0 => ((round * n_polls + index) % n) as u32,
                1 => rng.random_range(0..n.min(n_polls) as u32),
                _ => rng.random_range(0..n as u32),
            })
            .collect();
        let mut taken = 0.0;
        for numbers in numbers.chunks(PER_COMMIT) {
            let mut facts = Vec::new();
            for number in numbers {
                now += 10;
                let known = store.element(ElementId(*number)).expect("read");
                facts.extend(polled(known.expect("an element"), now));
            }
            taken += seconds(|| store.commit(&facts).expect("kept"));
        }
        let theirs = seconds(|| {
            for numbers in numbers.chunks(PER_COMMIT) {
                bare.insert(numbers.iter().copied(), &[0; 200]);
            }
        });
        times[kind].push((taken, taken / theirs));
    }
    for (name, times) in ["first polls", "polls of few", "polls of any"]
        .iter()
        .zip(times)
    {
        let (taken, ratios): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
        println!(
            "{name}, {PER_COMMIT} to a commit: {:.0} per second; {:.1} times a bare row",
            n_polls as f64 / median(taken),
            median(ratios)
        );
    }
}

fn ask(store: &Sqlite, n: usize) {
    let mut rng = Pcg64::seed_from_u64(2);
    let mut time = |name: &str, ask: &mut dyn FnMut(u32)| {
        let times = (0..100).map(|_| {
            let number = rng.random_range(0..n as u32);
            seconds(|| ask(number))
        });
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        println!(
            "  {name:<22} {:>7.0} µs {:>7.0} µs",
            1e6 * times[50],
            1e6 * times[99]
        );
    };
    println!("questions:                median      most");
    time("element", &mut |number| {
        assert!(store.element(ElementId(number)).expect("read").is_some());
    });
    time("find", &mut |number| {
        let found = store.find(SourceId(0), &locator(number)).expect("read");
        assert_eq!(found.map(|kept| kept.element.id), Some(ElementId(number)));
    });
    time("find, not there", &mut |number| {
        let missing = format!("{}#", locator(number));
        assert!(store.find(SourceId(0), &missing).expect("read").is_none());
    });
    time("find_ids of 1000", &mut |number| {
        let locators: Vec<String> = (0..1000)
            .map(|index| locator(number.wrapping_mul(index) % n as u32))
            .collect();
        let locators: Vec<&str> = locators.iter().map(String::as_str).collect();
        let ids = store.find_ids(SourceId(0), &locators).expect("read");
        assert!(ids.iter().all(Option::is_some));
    });
    time("elements, 50", &mut |number| {
        black_box(store.elements(None, ElementId(number), 50).expect("read"));
    });
    time("elements of source, 50", &mut |number| {
        let elements = store.elements(Some(SourceId(0)), ElementId(number), 50);
        black_box(elements.expect("read"));
    });
    time("new_elements, 50", &mut |number| {
        let host = group(number % N_HOSTS).id;
        black_box(
            store
                .new_elements(host, ElementId(number), 50)
                .expect("read"),
        );
    });
    time("n_new", &mut |_| {
        black_box(store.n_new().expect("read"));
    });
    time("changes, 50", &mut |_| {
        black_box(
            store
                .changes(&ChangeFilter::default(), None, 50)
                .expect("read"),
        );
    });
    let last = store
        .changes(&ChangeFilter::default(), None, 1)
        .expect("read");
    let since = last.first().map(|change| Moment(change.found_at.0 - 1000));
    time("changes since, 50", &mut |_| {
        let filter = ChangeFilter {
            since,
            source: Some(SourceId(0)),
            element: None,
        };
        black_box(store.changes(&filter, None, 50).expect("read"));
    });
    time("polls, 50", &mut |number| {
        black_box(store.polls(ElementId(number), 50).expect("read"));
    });
    time("latest_polls, 1000", &mut |_| {
        black_box(store.latest_polls(1000).expect("read"));
    });
    time("sources", &mut |_| {
        black_box(store.sources().expect("read"));
    });
}

/// A table of SQLite without anything around it.
struct Bare {
    connection: Connection,
}

impl Bare {
    fn new(path: &Path, index: &str) -> Self {
        let connection = Connection::open(path).expect("a database");
        for (name, value) in [("cache_size", -65_536), ("wal_autocheckpoint", 16_384)] {
            connection.pragma_update(None, name, value).expect("set");
        }
        for (name, value) in [("journal_mode", "wal"), ("synchronous", "full")] {
            connection.pragma_update(None, name, value).expect("set");
        }
        let table = "CREATE TABLE row (number INTEGER PRIMARY KEY, element INTEGER, bytes BLOB);";
        connection.execute_batch(table).expect("a table");
        connection.execute_batch(index).expect("an index");
        Self { connection }
    }

    fn insert(&mut self, elements: impl Iterator<Item = u32>, bytes: &[u8]) {
        let transaction = self.connection.transaction().expect("a transaction");
        for element in elements {
            transaction
                .prepare_cached("INSERT INTO row (element, bytes) VALUES (?, ?)")
                .and_then(|mut insert| insert.execute((element, bytes)))
                .expect("inserted");
        }
        transaction.commit().expect("committed");
    }
}

/// What the engine keeps after a poll: the element, the poll, its host, what is
/// remembered of its group, and perhaps a change.
fn polled(mut kept: Kept, now: i64) -> Vec<Fact> {
    let at = Moment(now);
    let element = kept.element.clone();
    let is_first = kept.copy.is_none();
    let is_change = !is_first && ((now / 10) as u32).is_multiple_of(CHANGES);
    let digest = BodyId::of(&now.to_le_bytes());
    let since = kept.history.synced_at;
    kept.state = State::Ok;
    kept.history.first_polled_at = kept.history.first_polled_at.or(Some(at));
    kept.history.polled_at = Some(at);
    kept.history.synced_at = Some(at);
    kept.history.n_polls += 1;
    kept.history.memory = [now as u8; 24];
    if is_first || is_change {
        kept.copy = Some(Copy {
            status: 200,
            etag: Some(format!("\"{now:x}\"")),
            last_modified: Some("Tue, 14 Nov 2023 22:13:20 GMT".into()),
            content_type: Some("text/html; charset=utf-8".into()),
            digest: digest.0,
            body: digest,
            n_bytes: 12_345,
            fetched_at: at,
            changed_at: is_change.then_some(at),
            location: None,
            redirect: None,
            sketch: vec![now as u8; 128],
        });
    }
    let outcome = match (is_first, is_change) {
        (true, _) => PollOutcome::First,
        (_, true) => PollOutcome::Changed,
        _ => PollOutcome::Unchanged,
    };
    let mut facts = vec![
        Fact::Poll(Poll {
            element: element.id,
            source: element.source,
            begun_at: at,
            at,
            since,
            outcome,
            status: Some(200),
            error: None,
            purpose: if now % 500 == 0 {
                Purpose::Audit
            } else {
                Purpose::Due
            },
            is_counted: true,
            age_ms: None,
        }),
        Fact::Memory(MemoryOf::Group(element.group), vec![now as u8; 64]),
        Fact::Host(Host {
            group: element.host,
            requested_at: Some(at),
            not_before: None,
            pause: None,
            n_failures: 0,
        }),
        Fact::Robots(
            element.host,
            vec![Robots {
                origin: "https://example.org".into(),
                fetched_at: Moment(0),
                answer: RobotsAnswer::Rules("User-agent: *\nDisallow: /private\n".repeat(30)),
            }],
        ),
    ];
    if is_change {
        kept.history.n_changes += 1;
        facts.push(Fact::Change(Change {
            number: 0,
            version: 0,
            element: element.id,
            source: element.source,
            found_at: at,
            previous_poll_at: since,
            kind: ChangeKind::Changed,
            bytes_before: Some(12_345),
            bytes_after: Some(12_345),
            digest: Some(digest.0),
            body: Some(digest),
            content_type: Some("text/html; charset=utf-8".into()),
            size: Some(0.1),
        }));
    }
    facts.push(Fact::Kept(Box::new(kept)));
    facts
}

fn group(host: u32) -> Group {
    Group {
        id: GroupId::new(host).expect("few"),
        parent: None,
        name: format!("host-{host}.example.org"),
    }
}

fn source(n: usize) -> Source {
    Source {
        id: SourceId(0),
        name: "all".into(),
        kind: SourceKind::List,
        url: "list.txt".into(),
        added_at: Moment(0),
        totals: Totals {
            n_elements: n as u64,
            n_new: n as u64,
            ..Totals::default()
        },
        error: None,
    }
}

fn element(number: u32) -> Element {
    let host = group(number % N_HOSTS).id;
    Element {
        id: ElementId(number),
        source: SourceId(0),
        locator: locator(number),
        group: host,
        host,
        role: Role::Page,
        weight: 1.0,
        depth: 1,
    }
}

/// Some 60 bytes.
fn locator(number: u32) -> String {
    format!(
        "https://host-{}.example.org/articles/{:03}/page-{number:08}.html",
        number % N_HOSTS,
        number % 1000
    )
}

fn seconds(act: impl FnOnce()) -> f64 {
    let started = Instant::now();
    act();
    started.elapsed().as_secs_f64()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// What the process holds that is in no file; 0 where the system does not say.
fn anonymous_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}
