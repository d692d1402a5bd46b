//! The store by SQLite.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use springtide_store::conformance::Place;
use springtide_store::{
    BodyId, Copy, Element, ElementId, Error, Fact, Failure, FailureKind, Group, GroupId, History,
    Kept, MemoryOf, Moment, Numbered, Partition, Poll, PollOutcome, Problem, Purpose, Query,
    Reader, Role, Source, SourceId, SourceKind, Sqlite, State, Totals, Writer,
};
use tempfile::TempDir;

struct Folder(TempDir);

impl Place for Folder {
    fn open(&self) -> Result<Box<dyn Writer>, Error> {
        Ok(Box::new(Sqlite::create_or_open(self.0.path())?))
    }

    fn read(&self) -> Result<Box<dyn Reader>, Error> {
        Ok(Box::new(Sqlite::read_only(self.0.path())?))
    }

    fn end_lease(&self) {
        fs::remove_file(self.0.path().join("lock")).unwrap();
    }
}

fn with_place(test: fn(&dyn Place)) {
    test(&Folder(tempfile::tempdir().unwrap()));
}

springtide_store::conformance!(with_place);

#[test]
fn there_is_one_writer_and_any_number_of_readers() {
    let (folder, mut store) = store();
    let again = Sqlite::create_or_open(folder.path());
    assert!(matches!(again, Err(Error::InUse)));
    let readers = [0, 1].map(|_| Sqlite::read_only(folder.path()).unwrap());
    store.commit(&[Fact::Note("a", Some(vec![1]))]).unwrap();
    for reader in &readers {
        assert_eq!(reader.note("a").unwrap(), Some(vec![1]));
    }
    store.close().unwrap();
    let mut store = Sqlite::create_or_open(folder.path()).unwrap();
    store.commit(&[Fact::Note("a", Some(vec![2]))]).unwrap();
    for reader in &readers {
        assert_eq!(reader.note("a").unwrap(), Some(vec![2]));
    }
}

#[test]
fn a_reader_sees_all_of_a_batch_or_none_of_it() {
    let (folder, mut store) = store();
    let reader = Sqlite::read_only(folder.path()).unwrap();
    let told = |n_polls| {
        let mut kept = Kept::new(element(0));
        kept.history.n_polls = n_polls;
        kept.n_failures = n_polls as u16;
        [Fact::Kept(Box::new(kept))]
    };
    store.commit(&told(0)).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..500).for_each(|n| store.commit(&told(n)).unwrap()));
        while !writer.is_finished() {
            let kept = reader.element(ElementId(0)).unwrap().unwrap();
            assert_eq!(u32::from(kept.n_failures), kept.history.n_polls);
        }
    });
}

#[test]
fn a_lock_that_was_replaced_is_no_lease() {
    let (folder, mut first) = store();
    fs::remove_file(folder.path().join("lock")).unwrap();
    fs::write(folder.path().join("lock"), b"").unwrap();
    let refused = first.commit(&[Fact::Note("a", None)]);
    assert!(matches!(refused, Err(Error::LeaseLost)));
    let refused = first.repair(&mut |_| true);
    assert!(matches!(refused, Err(Error::LeaseLost)));
}

#[test]
fn numbers_are_dense_whatever_was_reserved_before() {
    let (folder, mut store) = store();
    let numbers = store.numbers();
    assert_eq!(numbers.reserve(Numbered::Elements, 3).unwrap(), 0..3);
    store
        .commit(&[0, 1].map(|id| Fact::Element(element(id))))
        .unwrap();
    assert_eq!(numbers.element().unwrap(), ElementId(3));
    numbers.reserve(Numbered::Groups, 7).unwrap();
    numbers.reserve(Numbered::Sources, 7).unwrap();
    store.close().unwrap();
    let store = Sqlite::create_or_open(folder.path()).unwrap();
    assert_eq!(store.numbers().element().unwrap(), ElementId(2));
    assert_eq!(store.numbers().group().unwrap().number(), 0);
    assert_eq!(store.numbers().source().unwrap(), SourceId(0));
}

#[test]
fn what_is_remembered_is_written_when_it_is_another() {
    let (folder, mut store) = store();
    let told = |byte: u8| -> Vec<Fact> {
        [
            MemoryOf::Scheduler(Partition::WHOLE),
            MemoryOf::Pace(Partition::WHOLE),
            MemoryOf::Search(SourceId(0)),
            MemoryOf::Group(GroupId::new(0).unwrap()),
        ]
        .map(|of| Fact::Memory(of, vec![byte; 100]))
        .into()
    };
    let log = folder.path().join("store.db-wal");
    let mut n_bytes_after = |facts: &[Fact]| {
        store.commit(facts).unwrap();
        fs::metadata(&log).unwrap().len()
    };
    let first = n_bytes_after(&told(1));
    assert_eq!(n_bytes_after(&told(1)), first);
    let mut some = told(1);
    some[2] = Fact::Memory(MemoryOf::Search(SourceId(0)), vec![2; 100]);
    assert!(n_bytes_after(&some) > first);
}

#[test]
fn a_failure_of_a_kind_that_is_not_known_yet_is_read_as_another() {
    let (folder, mut store) = store();
    fill(&mut store, 2);
    open(folder.path())
        .execute_batch(
            "UPDATE element SET failure_kind = 'eclipse', failure_message = 'dark', failure_at = 5;
             UPDATE poll SET error = 'eclipse'",
        )
        .unwrap();
    let failure = store.element(ElementId(1)).unwrap().unwrap().failure;
    let expected = Failure {
        kind: FailureKind::Other,
        message: "dark".into(),
        at: Moment(5),
    };
    assert_eq!(failure, Some(expected));
    let polls = store.polls(ElementId(1), 9).unwrap();
    assert_eq!(polls[0].error, Some(FailureKind::Other));
}

#[test]
fn where_there_is_no_store_there_is_none_to_read() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Sqlite::read_only(folder.path());
    assert!(matches!(missing, Err(Error::Missing(_))));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // A writer that was killed before it had made anything.
    fs::write(folder.path().join("store.db"), b"").unwrap();
    let missing = Sqlite::read_only(folder.path());
    assert!(matches!(missing, Err(Error::Missing(_))));
    Sqlite::create_or_open(folder.path()).unwrap();
}

#[test]
fn a_store_of_a_later_version_is_left_alone() {
    let (folder, store) = store();
    drop(store);
    open(folder.path())
        .pragma_update(None, "user_version", 1000)
        .unwrap();
    let opened = Sqlite::create_or_open(folder.path());
    assert!(matches!(opened, Err(Error::TooNew { found: 1000, .. })));
    let opened = Sqlite::read_only(folder.path());
    assert!(matches!(opened, Err(Error::TooNew { found: 1000, .. })));
}

#[test]
fn what_is_not_a_store_is_an_error_and_stays_as_it_is() {
    let check = |bytes: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        fs::write(&path, bytes).unwrap();
        assert!(Sqlite::create_or_open(folder.path()).is_err());
        assert!(Sqlite::read_only(folder.path()).is_err());
        assert_eq!(fs::read(&path).unwrap(), bytes);
    };
    check(b"not a database, but long enough to be looked at as one");
    check(&[0; 5000]);
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign)
        .and_then(|connection| connection.execute_batch("CREATE TABLE theirs (a)"))
        .unwrap();
    check(&fs::read(&foreign).unwrap());
}

#[test]
fn a_file_cut_short_or_overwritten_is_an_error_or_a_finding_but_no_panic() {
    let (folder, mut store) = store();
    fill(&mut store, 2000);
    store.close().unwrap();
    let path = folder.path().join("store.db");
    let whole = fs::read(&path).unwrap();
    for index in 0..40 {
        let mut bytes = whole.clone();
        let at = whole.len() * index / 40;
        if index % 2 == 0 {
            bytes.truncate(at);
        } else {
            let end = bytes.len().min(at + 3000);
            bytes[at..end].fill(index as u8);
        }
        fs::write(&path, &bytes).unwrap();
        let Ok(mut store) = Sqlite::create_or_open(folder.path()) else {
            continue;
        };
        let _ = store.check(&mut |_| true);
        let _ = store.scan(1, &mut |_, _| {});
        let _ = store.elements(None, ElementId(0), usize::MAX);
        let _ = store.find(SourceId(0), "https://host.example/700");
        let _ = store.queries(SourceId(0));
        let _ = store.commit(&[Fact::Element(element(900)), Fact::Element(element(3000))]);
        let _ = store.repair(&mut |_| true);
        let _ = store.close();
        let _ = fs::remove_file(folder.path().join("store.db-wal"));
        let _ = fs::remove_file(folder.path().join("store.db-shm"));
    }
}

#[test]
fn a_commit_that_fails_keeps_nothing() {
    let (_folder, mut store) = store();
    let mut bad = source(7);
    bad.totals.n_polls = u64::MAX;
    let facts = [
        Fact::Element(element(0)),
        Fact::Note("a", Some(vec![1])),
        Fact::Source(bad),
    ];
    assert!(store.commit(&facts).is_err());
    assert_eq!(store.element(ElementId(0)).unwrap(), None);
    assert_eq!(store.note("a").unwrap(), None);
    assert_eq!(store.n_new().unwrap(), []);
    assert_eq!(store.next_element().unwrap(), 0);
    store.commit(&facts[..2]).unwrap();
    assert_eq!(store.n_new().unwrap().len(), 1);
}

#[test]
fn locators_are_found_in_all_three_trees() {
    let (_folder, mut store) = store();
    // Enough to move on from the first to the second, and some.
    let n = 70_000;
    let facts: Vec<Fact> = (0..n).map(|id| Fact::Element(element(id))).collect();
    facts
        .chunks(10_000)
        .for_each(|facts| store.commit(facts).unwrap());
    let all: Vec<Element> = (0..n).map(element).collect();
    let locators: Vec<&str> = all.iter().map(|element| element.locator.as_str()).collect();
    let found = store.find_ids(SourceId(0), &locators).unwrap();
    assert!(
        (0..)
            .zip(&found)
            .all(|(id, found)| *found == Some(ElementId(id)))
    );
    for id in [0, 65_535, 65_536, n - 1] {
        let found = store.find_all(&element(id).locator).unwrap();
        assert_eq!(found, [Kept::new(element(id))]);
    }
}

#[test]
fn a_backup_is_a_store_with_the_same_facts() {
    let (folder, mut store) = store();
    fill(&mut store, 500);
    let other = tempfile::tempdir().unwrap();
    store.back_up(other.path().join("store.db")).unwrap();
    let copy = Sqlite::create_or_open(other.path()).unwrap();
    springtide_store::conformance::assert_same(&store, &copy, 500, 3);
    assert_eq!(copy.check(&mut |_| true).unwrap(), []);
    let names = fs::read_dir(other.path()).unwrap();
    assert!(
        names
            .flatten()
            .all(|name| !name.path().ends_with("store.db.new"))
    );
    drop(folder);
}

#[test]
fn a_closed_store_is_one_file() {
    let (folder, mut store) = store();
    fill(&mut store, 100);
    store.close().unwrap();
    let mut names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["lock", "store.db"]);
}

#[test]
fn a_sound_store_has_no_problems_and_nothing_to_repair() {
    let (_folder, mut store) = store();
    fill(&mut store, 500);
    assert_eq!(store.check(&mut |_| true).unwrap(), []);
    assert_eq!(store.repair(&mut |_| true).unwrap(), Vec::<String>::new());
    store.commit(&[Fact::SourceRemoved(SourceId(0))]).unwrap();
    assert_eq!(store.check(&mut |_| true).unwrap(), []);
}

#[test]
fn damage_is_found_and_what_follows_from_the_rest_is_mended() {
    #[track_caller]
    fn check(damage: &str, expected: &[&str], left: &[&str]) {
        let (folder, mut store) = store();
        fill(&mut store, 200);
        store.close().unwrap();
        open(folder.path()).execute_batch(damage).unwrap();
        let mut store = Sqlite::create_or_open(folder.path()).unwrap();
        let problems = |store: &Sqlite| {
            let problems = store.check(&mut |id| id != BodyId([9; 32])).unwrap();
            problems.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(problems(&store), expected);
        let done = store.repair(&mut |id| id != BodyId([9; 32])).unwrap();
        assert_eq!(done.is_empty(), expected == left, "{done:?}");
        assert_eq!(problems(&store), left);
        let all = store.elements(None, ElementId(0), usize::MAX).unwrap();
        let mut n_elements = 0;
        store.scan(1, &mut |_, _| n_elements += 1).unwrap();
        assert_eq!(all.len(), n_elements);
    }
    check(
        "UPDATE element SET weight = 2 WHERE id = 77",
        &["the record of element 77 differs from the element"],
        &[],
    );
    check(
        "DELETE FROM element WHERE id IN (0, 199)",
        &[
            "there is a record of element 0, which does not exist",
            "there is a record of element 199, which does not exist",
            "host 0 has 99 new elements, not 100",
            "there is a copy of element 199, which does not exist",
            "there is a poll of element 199, which does not exist",
        ],
        &[],
    );
    check(
        "DELETE FROM chunk WHERE id = 3; DELETE FROM element WHERE id > 181",
        &[
            "element 180 has no record",
            "element 181 has no record",
            "host 0 has 91 new elements, not 100",
            "there is a copy of element 183, which does not exist",
            "there is a copy of element 185, which does not exist",
            "there is a copy of element 187, which does not exist",
            "there is a copy of element 189, which does not exist",
            "there is a copy of element 191, which does not exist",
            "there is a copy of element 193, which does not exist",
            "there is a copy of element 195, which does not exist",
            "there is a copy of element 197, which does not exist",
            "there is a copy of element 199, which does not exist",
            "there is a poll of element 183, which does not exist",
            "there is a poll of element 185, which does not exist",
            "there is a poll of element 187, which does not exist",
            "there is a poll of element 189, which does not exist",
            "there is a poll of element 191, which does not exist",
            "there is a poll of element 193, which does not exist",
            "there is a poll of element 195, which does not exist",
            "there is a poll of element 197, which does not exist",
            "there is a poll of element 199, which does not exist",
        ],
        &[],
    );
    check(
        "UPDATE chunk SET bytes = x'00' WHERE id = 1;
         DELETE FROM element WHERE id BETWEEN 62 AND 119;
         DELETE FROM copy WHERE element BETWEEN 62 AND 119;
         DELETE FROM poll WHERE element BETWEEN 62 AND 119;
         UPDATE new_elements SET n = 71",
        &[
            "the records of elements 60–119 cannot be read",
            "element 60 has no record",
            "element 61 has no record",
        ],
        &[],
    );
    check(
        "DELETE FROM locator_new WHERE element = 5",
        &["element 5 is not found by its locator"],
        &[],
    );
    check(
        "UPDATE new_elements SET n = n + 1; UPDATE counter SET value = 199 WHERE name = 'next_element'",
        &[
            "element 199 has a number that would be given again",
            "host 0 has 100 new elements, not 101",
        ],
        &[],
    );
    let body = "09".repeat(32);
    check(
        &format!("UPDATE copy SET body = x'{body}' WHERE element = 7"),
        &[&format!("the body of element 7 is missing: {body}")],
        &[],
    );
    check(
        "UPDATE element SET source = 4, host = 5, group_id = 5 WHERE id = 3",
        &[
            "the record of element 3 differs from the element",
            "element 3 is of source 4, which does not exist",
            "element 3 is in group 5, which does not exist",
        ],
        &[
            "element 3 is of source 4, which does not exist",
            "element 3 is in group 5, which does not exist",
        ],
    );
    check(
        "UPDATE query SET source = 4 WHERE text = 'ebb';
         INSERT INTO query VALUES (4, 'flow', 0, 0, NULL, 0, 0, NULL, x'')",
        &["there are queries of source 4, which does not exist"],
        &[],
    );
    check(
        "INSERT INTO memory VALUES (0, 9, x'00'), (2, 0, x'00'), (2, 4, x'00')",
        &["something is remembered of source 4, which does not exist"],
        &[],
    );
    let parent = ["group 0 is in group 9, which does not exist"];
    check("UPDATE element_group SET parent = 9", &parent, &parent);
}

#[test]
fn repair_removes_queries_without_a_source_and_no_others() {
    let (_folder, mut store) = store();
    fill(&mut store, 0);
    let before = store.queries(SourceId(0)).unwrap();
    assert_eq!(before.len(), 2);
    let alone = ["a", "b", "c"].map(|text| Fact::Query(query(4, text)));
    store.commit(&alone).unwrap();
    let problems = store.check(&mut |_| true).unwrap();
    assert_eq!(problems, [Problem::QueriesAlone(SourceId(4))]);
    let done = store.repair(&mut |_| true).unwrap();
    assert_eq!(done, ["3 queries of unknown sources, removed"]);
    assert_eq!(store.queries(SourceId(4)).unwrap(), []);
    assert_eq!(store.queries(SourceId(0)).unwrap(), before);
}

#[test]
fn a_lost_record_is_told_again_by_the_polls() {
    let (folder, mut store) = store();
    fill(&mut store, 200);
    let before = store.element(ElementId(121)).unwrap().unwrap();
    store.close().unwrap();
    open(folder.path())
        .execute_batch("DELETE FROM chunk WHERE id = 2")
        .unwrap();
    let mut store = Sqlite::create_or_open(folder.path()).unwrap();
    assert!(matches!(
        store.element(ElementId(121)),
        Err(Error::Damaged(_))
    ));
    let done = store.repair(&mut |_| true).unwrap();
    assert_eq!(done, ["60 records written again"]);
    let after = store.element(ElementId(121)).unwrap().unwrap();
    // But for what the scheduler remembered.
    let history = History {
        memory: [0; 24],
        ..before.history
    };
    assert_eq!(after, Kept { history, ..before });
}

fn store() -> (TempDir, Sqlite) {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::create_or_open(folder.path()).unwrap();
    (folder, store)
}

fn open(folder: &Path) -> Connection {
    Connection::open(folder.join("store.db")).unwrap()
}

/// So many elements, every other polled once, and two queries.
fn fill(store: &mut Sqlite, n: u32) {
    let group = Group {
        id: GroupId::new(0).unwrap(),
        parent: None,
        name: "host.example".into(),
    };
    let mut facts = vec![Fact::Group(group), Fact::Source(source(0))];
    facts.extend(["ebb", "flow"].map(|text| Fact::Query(query(0, text))));
    for id in 0..n {
        let mut kept = Kept::new(element(id));
        if id % 2 == 1 {
            let at = Moment(1000 + i64::from(id));
            kept.state = State::Ok;
            kept.copy = Some(copy(id, at));
            kept.history = History {
                first_polled_at: Some(at),
                polled_at: Some(at),
                synced_at: Some(at),
                n_polls: 1,
                n_changes: 0,
                memory: [id as u8; 24],
            };
            facts.push(Fact::Poll(poll(id, at)));
        }
        facts.push(Fact::Kept(Box::new(kept)));
    }
    store.commit(&facts).unwrap();
}

fn source(id: u32) -> Source {
    Source {
        id: SourceId(id),
        name: format!("source {id}"),
        kind: SourceKind::List,
        url: "list.txt".into(),
        added_at: Moment(0),
        totals: Totals::default(),
        error: None,
    }
}

fn element(id: u32) -> Element {
    let group = GroupId::new(0).unwrap();
    Element {
        id: ElementId(id),
        source: SourceId(0),
        locator: format!("https://host.example/{id}"),
        group,
        host: group,
        role: Role::Page,
        weight: 1.0,
        depth: 0,
    }
}

fn copy(id: u32, at: Moment) -> Copy {
    Copy {
        status: 200,
        etag: Some("\"1\"".into()),
        last_modified: None,
        content_type: None,
        digest: [id as u8; 32],
        body: BodyId([id as u8 | 128; 32]),
        n_bytes: 1,
        fetched_at: at,
        changed_at: None,
        location: None,
        redirect: None,
        sketch: vec![1; 64],
    }
}

fn poll(id: u32, at: Moment) -> Poll {
    Poll {
        element: ElementId(id),
        source: SourceId(0),
        begun_at: at,
        at,
        since: None,
        outcome: PollOutcome::First,
        status: Some(200),
        error: None,
        purpose: Purpose::First,
        is_counted: false,
        age_ms: None,
    }
}

fn query(source: u32, text: &str) -> Query {
    Query {
        source: SourceId(source),
        text: text.into(),
        asked_at: Moment(1000),
        n_requests: 1,
        total: Some(12),
        n_results: 10,
        n_ours: 3,
        note: None,
        memory: vec![1; 16],
    }
}
