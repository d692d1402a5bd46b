//! Stores of earlier versions are brought up to date, with all that they hold.

use std::fs;

use rusqlite::Connection;
use springtide_store::conformance::assert_same;
use springtide_store::{
    BodyId, Change, ChangeKind, Copy, Element, ElementId, Error, Fact, Failure, FailureKind, Group,
    GroupId, History, Host, Kept, Memory, MemoryOf, Moment, Partition, Poll, PollOutcome, Purpose,
    Query, Reader, Robots, RobotsAnswer, Role, Source, SourceId, SourceKind, Sqlite, State, Totals,
    Writer,
};

/// A store of version 1, as the program of then wrote it when it was told [`facts`].
const V1: &str = concat!(
    include_str!("../../src/sqlite/v1.sql"),
    include_str!("v1_rows.sql")
);

/// A store of version 2, which was one of version 1.
const V2: &str = concat!(
    include_str!("../../src/sqlite/v1.sql"),
    include_str!("v1_rows.sql"),
    include_str!("../../src/sqlite/v2.sql"),
    include_str!("v2_rows.sql")
);

#[test]
fn a_store_of_version_2_is_brought_up_to_date_and_remembers_each_thing_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(folder.path().join("store.db")).unwrap();
    connection.execute_batch(V2).unwrap();
    connection.close().unwrap();
    let too_old = Sqlite::read_only(folder.path());
    assert!(matches!(too_old, Err(Error::TooOld { found: 2, .. })));

    let mut memory = Memory::new();
    memory.commit(&facts()).unwrap();
    let told = [
        Fact::Query(query()),
        Fact::Memory(MemoryOf::Scheduler(Partition::WHOLE), vec![13, 14, 15]),
        Fact::Memory(MemoryOf::Pace(Partition::WHOLE), vec![10, 11]),
        Fact::Memory(MemoryOf::Search(SourceId(0)), vec![16, 17]),
        Fact::Memory(MemoryOf::Search(SourceId(1)), Vec::new()),
    ];
    memory.commit(&told).unwrap();
    let store = Sqlite::create_or_open(folder.path()).unwrap();
    assert_eq!(store.check(&mut |_| true).unwrap(), []);
    assert_same(&memory, &store, 10, 9);
    assert_eq!(store.note("note").unwrap(), Some(vec![5, 6]));
    assert_eq!(store.note("register").unwrap(), Some(vec![12]));
    for name in ["scheduler", "pace", "search"] {
        assert_eq!(store.note(name).unwrap(), None);
    }
    assert!(folder.path().join("store.v2.bak").exists());
    // Numbers go on where they were.
    let numbers = store.numbers();
    assert_eq!(numbers.source().unwrap(), SourceId(2));
    assert_eq!(numbers.group().unwrap().number(), 2);
    assert_eq!(numbers.element().unwrap(), ElementId(2));
}

#[test]
fn a_note_of_searches_that_is_cut_short_is_taken_as_far_as_it_goes() {
    for (note, first, second) in [
        ("", None, None),
        ("00", None, None),
        ("0000000002000000", None, None),
        (
            "00000000020000001011010000000300000001",
            Some(vec![16, 17]),
            None,
        ),
        (
            "000000000200000010110100000002000000ffff",
            Some(vec![16, 17]),
            Some(vec![255; 2]),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("store.db")).unwrap();
        connection.execute_batch(V2).unwrap();
        let update = format!("UPDATE note SET bytes = X'{note}' WHERE name = 'search'");
        connection.execute_batch(&update).unwrap();
        connection.close().unwrap();
        let store = Sqlite::create_or_open(folder.path()).unwrap();
        let searches = [0, 1].map(|id| store.memory(MemoryOf::Search(SourceId(id))).unwrap());
        assert_eq!(searches, [first, second], "{note}");
    }
}

#[test]
fn a_store_of_version_1_is_brought_up_to_date_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(V1).unwrap();
    connection.close().unwrap();
    let too_old = Sqlite::read_only(folder.path());
    assert!(matches!(too_old, Err(Error::TooOld { found: 1, .. })));

    let mut memory = Memory::new();
    memory.commit(&facts()).unwrap();
    let mut store = Sqlite::create_or_open(folder.path()).unwrap();
    assert_eq!(store.check(&mut |_| true).unwrap(), []);
    assert_same(&memory, &store, 10, 3);
    assert_eq!(store.note("note").unwrap(), Some(vec![5, 6]));
    assert_eq!(store.queries(SourceId(1)).unwrap(), []);
    let backup = folder.path().join("store.v1.bak");
    let version: i64 = Connection::open(&backup)
        .and_then(|backup| backup.pragma_query_value(None, "user_version", |row| row.get(0)))
        .unwrap();
    assert_eq!(version, 1);

    let asked = [Fact::Query(query())];
    memory.commit(&asked).unwrap();
    store.commit(&asked).unwrap();
    store.close().unwrap();
    fs::remove_file(&backup).unwrap();
    let store = Sqlite::create_or_open(folder.path()).unwrap();
    assert!(!backup.exists());
    assert_eq!(store.queries(SourceId(1)).unwrap(), [query()]);
    assert_same(&memory, &store, 10, 3);
}

/// One of each, and of elements one that is new and one that is known well.
fn facts() -> Vec<Fact> {
    let source = |id, kind| Source {
        id: SourceId(id),
        name: format!("source {id}"),
        kind,
        url: "https://a.example/".into(),
        added_at: Moment(1_700_000_000_000),
        totals: Totals {
            n_elements: 2,
            n_new: 1,
            n_polls: 1,
            n_changes: 1,
            ..Totals::default()
        },
        error: Some(Failure {
            kind: FailureKind::Timeout,
            message: "no answer within 30 s".into(),
            at: Moment(1_700_000_000_001),
        }),
    };
    let (host, group) = (GroupId::new(0).unwrap(), GroupId::new(1).unwrap());
    let named = |id, parent, name: &str| Group {
        id,
        parent,
        name: name.into(),
    };
    let element = |id| Element {
        id: ElementId(id),
        source: SourceId(0),
        locator: format!("https://a.example/{id}"),
        group,
        host,
        role: Role::Page,
        weight: 0.5,
        depth: 2,
    };
    let at = Moment(1_700_000_000_002);
    let mut kept = Kept::new(element(1));
    kept.state = State::Ok;
    kept.copy = Some(Copy {
        status: 200,
        etag: Some("\"1\"".into()),
        last_modified: None,
        content_type: Some("text/html".into()),
        digest: [1; 32],
        body: BodyId([2; 32]),
        n_bytes: 100,
        fetched_at: at,
        changed_at: Some(at),
        location: None,
        redirect: None,
        sketch: vec![3; 8],
    });
    kept.history = History {
        first_polled_at: Some(at),
        polled_at: Some(at),
        synced_at: Some(at),
        n_polls: 1,
        n_changes: 1,
        memory: [4; 24],
    };
    vec![
        Fact::Source(source(0, SourceKind::Site)),
        Fact::Source(source(1, SourceKind::Search)),
        Fact::Group(named(host, None, "a.example")),
        Fact::Group(named(group, Some(host), "docs")),
        Fact::Memory(MemoryOf::Group(group), vec![7; 9]),
        Fact::Host(Host {
            group: host,
            requested_at: Some(at),
            not_before: None,
            pause: None,
            n_failures: 0,
        }),
        Fact::Robots(
            host,
            vec![Robots {
                origin: "https://a.example".into(),
                fetched_at: at,
                answer: RobotsAnswer::Rules("Disallow: /private".into()),
            }],
        ),
        Fact::Element(element(0)),
        Fact::Kept(Box::new(kept)),
        Fact::Poll(Poll {
            element: ElementId(1),
            source: SourceId(0),
            begun_at: at,
            at,
            since: None,
            outcome: PollOutcome::Changed,
            status: Some(200),
            error: None,
            purpose: Purpose::Audit,
            is_counted: true,
            age_ms: Some(12),
        }),
        Fact::Change(Change {
            number: 0,
            version: 0,
            element: ElementId(1),
            source: SourceId(0),
            found_at: at,
            previous_poll_at: None,
            kind: ChangeKind::Changed,
            bytes_before: Some(90),
            bytes_after: Some(100),
            digest: Some([1; 32]),
            body: Some(BodyId([2; 32])),
            content_type: Some("text/html".into()),
            size: Some(0.25),
        }),
        Fact::Note("note", Some(vec![5, 6])),
    ]
}

fn query() -> Query {
    Query {
        source: SourceId(1),
        text: "tide".into(),
        asked_at: Moment(1_700_000_000_003),
        n_requests: 2,
        total: Some(40),
        n_results: 20,
        n_ours: 5,
        note: None,
        memory: vec![8; 3],
    }
}
