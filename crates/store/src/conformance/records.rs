//! What adds up: changes, polls, queries, bodies; and what is forgotten or removed.

use std::collections::BTreeSet;

use super::samples::{
    bodies, change, changes, element, full, keep, poll, query, scan, source, sources,
};
use crate::{
    Audit, Change, ChangeFilter, ChangeKind, ElementId, Fact, FailureKind, MemoryOf, Moment,
    Partition, Poll, PollOutcome, Purpose, Query, SourceId, State, Writer,
};

/// The number that a change is told with does not matter.
pub fn changes_are_numbered_as_they_come_and_listed_newest_first(store: &mut dyn Writer) {
    keep(
        store,
        &[
            Fact::Element(element(0, "a")),
            Fact::Element(element(1, "b")),
        ],
    );
    let mut all = Vec::new();
    for (number, kind) in (1_u64..).zip([
        ChangeKind::Added,
        ChangeKind::Changed,
        ChangeKind::Gone,
        ChangeKind::Back,
    ]) {
        let change = Change {
            kind,
            ..change((number % 2) as u32, number as i64)
        };
        keep(store, &[Fact::Change(change.clone())]);
        // They take turns, and each brings a version.
        let version = number.div_ceil(2);
        all.insert(
            0,
            Change {
                number,
                version,
                ..change
            },
        );
    }
    let mut bare = change(0, 0);
    bare.previous_poll_at = None;
    bare.bytes_before = None;
    bare.bytes_after = None;
    bare.digest = None;
    bare.body = None;
    bare.content_type = None;
    bare.size = None;
    keep(store, &[Fact::Change(bare.clone())]);
    // Without a version, that of the last is still the last.
    let (number, version) = (5, 2);
    all.insert(
        0,
        Change {
            number,
            version,
            ..bare
        },
    );
    assert_eq!(changes(store, &ChangeFilter::default()), all);
    let page = store.changes(&ChangeFilter::default(), Some(4), 2).unwrap();
    assert_eq!(page, all[2..4]);
    let rest = store.changes(&ChangeFilter::default(), Some(u64::MAX), 1);
    assert_eq!(rest.unwrap(), all[..1]);
}

/// All that is asked holds; times need not be in order.
pub fn changes_are_filtered_by_source_element_and_time(store: &mut dyn Writer) {
    let times = [10, 30, 20, 40, 5, 35, 50, 7];
    let facts = (0..).zip(times).map(|(index, at)| {
        let element = index % 3;
        Fact::Change(Change {
            source: SourceId(element % 2),
            ..change(element, at)
        })
    });
    let facts: Vec<Fact> = facts.collect();
    keep(store, &facts);
    let numbers = |source: Option<u32>, element: Option<u32>, since: Option<i64>| {
        let filter = ChangeFilter {
            source: source.map(SourceId),
            element: element.map(ElementId),
            since: since.map(Moment),
        };
        let found = changes(store, &filter);
        found.iter().map(|change| change.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(Some(0), None, None), [7, 6, 4, 3, 1]);
    assert_eq!(numbers(None, Some(2), None), [6, 3]);
    assert_eq!(numbers(Some(1), Some(2), None), []);
    assert_eq!(numbers(Some(0), Some(2), None), [6, 3]);
    assert_eq!(numbers(None, None, Some(30)), [7, 6, 4, 2]);
    assert_eq!(numbers(None, None, Some(51)), []);
    assert_eq!(numbers(None, None, Some(-9)).len(), times.len());
    assert_eq!(numbers(Some(0), Some(0), Some(11)), [7, 4]);
}

/// Newest is what was kept last.
pub fn polls_are_listed_newest_first(store: &mut dyn Writer) {
    keep(
        store,
        &[
            Fact::Element(element(0, "a")),
            Fact::Element(element(1, "b")),
        ],
    );
    let outcomes = [
        PollOutcome::First,
        PollOutcome::Unchanged,
        PollOutcome::Changed,
        PollOutcome::Gone,
        PollOutcome::Failed,
        PollOutcome::Blocked,
    ];
    let purposes = [Purpose::First, Purpose::Due, Purpose::Audit, Purpose::Asked];
    let mut all = Vec::new();
    for (index, outcome) in outcomes.into_iter().enumerate() {
        let mut poll = poll(0, index as i64);
        poll.outcome = outcome;
        poll.purpose = purposes[index % purposes.len()];
        poll.is_counted = index % 2 == 0;
        if index % 3 == 0 {
            poll.since = None;
            poll.status = None;
            poll.error = Some(FailureKind::Timeout);
            poll.age_ms = Some(77);
        }
        keep(
            store,
            &[Fact::Poll(poll.clone()), Fact::Poll(self::poll(1, 0))],
        );
        all.insert(0, poll);
    }
    assert_eq!(store.polls(ElementId(0), 99).unwrap(), all);
    assert_eq!(store.polls(ElementId(0), 2).unwrap(), all[..2]);
    assert_eq!(store.polls(ElementId(1), 99).unwrap().len(), 6);
    assert_eq!(store.polls(ElementId(2), 99).unwrap(), []);
    let source = all[0].source;
    let failed = store.failed_polls(source, 99).unwrap();
    all.retain(|poll| poll.error.is_some());
    assert_eq!((failed.len(), &failed), (2, &all));
    assert_eq!(store.failed_polls(source, 1).unwrap(), all[..1]);
    let other = SourceId(source.0 + 1);
    assert_eq!(store.failed_polls(other, 99).unwrap(), []);
}

/// Those that were answered, of elements with a copy.
pub fn audits_tell_whether_a_copy_was_fresh(store: &mut dyn Writer) {
    keep(store, &[Fact::Element(element(0, "a"))]);
    let audit = |at, outcome, age_ms| {
        Fact::Poll(Poll {
            outcome,
            age_ms,
            purpose: Purpose::Audit,
            ..poll(0, at)
        })
    };
    keep(
        store,
        &[
            audit(10, PollOutcome::Unchanged, None),
            audit(15, PollOutcome::Unchanged, Some(0)),
            audit(40, PollOutcome::Changed, Some(9)),
            audit(20, PollOutcome::Changed, None),
            audit(30, PollOutcome::Gone, None),
            audit(30, PollOutcome::Failed, None),
            audit(30, PollOutcome::Blocked, None),
            audit(30, PollOutcome::First, None),
            Fact::Poll(Poll {
                outcome: PollOutcome::Changed,
                ..poll(0, 30)
            }),
        ],
    );
    let expected = |at, is_fresh, age_ms| Audit {
        at: Moment(at),
        source: element(0, "").source,
        is_fresh,
        age_ms,
    };
    let all = [
        expected(10, true, None),
        expected(15, true, Some(0)),
        expected(20, false, None),
        expected(30, false, None),
        expected(40, false, Some(9)),
    ];
    assert_eq!(store.audits(Moment(0)).unwrap(), all);
    assert_eq!(store.audits(Moment(20)).unwrap(), all[2..]);
}

/// By when they were begun, not by when they were answered.
pub fn the_latest_polls_that_count_are_listed(store: &mut dyn Writer) {
    keep(store, &[Fact::Element(element(0, "a"))]);
    let begun = |at, is_counted| {
        Fact::Poll(Poll {
            begun_at: Moment(at),
            is_counted,
            ..poll(0, 100)
        })
    };
    let polls = [(3, true), (1, true), (9, false), (4, true), (4, true)];
    keep(store, &polls.map(|(at, is_counted)| begun(at, is_counted)));
    let all = [4, 4, 3, 1].map(Moment);
    assert_eq!(store.latest_polls(9).unwrap(), all);
    assert_eq!(store.latest_polls(3).unwrap(), all[..3]);
}

/// The last word on each holds; one text may be asked of several sources.
pub fn what_is_known_of_queries_is_kept_and_listed_by_text(store: &mut dyn Writer) {
    let texts = ["", "Tide", "tide", "tide\0", "tide table", "é", "\u{10000}"];
    let mut all = texts.map(|text| query(3, text));
    for query in all.iter().rev() {
        keep(store, &[Fact::Query(query.clone())]);
    }
    let others = [query(4, "tide")];
    keep(store, &others.clone().map(Fact::Query));
    assert_eq!(store.queries(SourceId(3)).unwrap(), all);
    assert_eq!(store.queries(SourceId(4)).unwrap(), others);
    assert_eq!(store.queries(SourceId(2)).unwrap(), []);
    all[2] = Query {
        asked_at: Moment(-1),
        n_requests: u32::MAX,
        total: Some(u64::MAX),
        n_results: u32::MAX,
        n_ours: u32::MAX,
        note: Some("the server says 3 and sends 4".into()),
        memory: vec![0, 255],
        ..all[2].clone()
    };
    all[3] = Query {
        total: None,
        memory: Vec::new(),
        ..all[3].clone()
    };
    keep(
        store,
        &[
            Fact::Query(query(3, "tide\0")),
            Fact::Query(all[2].clone()),
            Fact::Query(all[3].clone()),
        ],
    );
    assert_eq!(store.queries(SourceId(3)).unwrap(), all);
    assert_eq!(store.queries(SourceId(4)).unwrap(), others);
}

/// So that no other needs to be kept.
pub fn bodies_of_copies_and_of_versions_are_named(store: &mut dyn Writer) {
    let kept = full(0);
    let change = change(0, 1);
    let copy = kept.copy.as_ref().unwrap().body;
    let version = change.body.unwrap();
    keep(store, &[Fact::Kept(Box::new(kept)), Fact::Change(change)]);
    assert_eq!(bodies(store), BTreeSet::from([copy, version]));
}

/// Single changes, bodies of versions and polls; what they were counted in stays.
pub fn what_is_forgotten_is_gone_and_the_rest_is_as_it_was(store: &mut dyn Writer) {
    let kept = full(0);
    let copy = kept.copy.as_ref().unwrap().body;
    let mut facts = vec![Fact::Kept(Box::new(kept.clone()))];
    facts.extend((1..=4).map(|at| Fact::Change(change(0, at))));
    facts.extend((1..=4).map(|at| Fact::Poll(poll(0, at))));
    keep(store, &facts);
    let numbers = |store: &dyn Writer| -> [Vec<u64>; 2] {
        let changes = store.changes_after(0, 100).unwrap();
        let polls = store.polls_after(0, 100).unwrap();
        [
            changes.iter().map(|change| change.number).collect(),
            polls.iter().map(|poll| poll.number).collect(),
        ]
    };
    let [changes_before, polls_before] = numbers(store);
    assert!(changes_before.is_sorted() && polls_before.is_sorted());
    let [c, p] = [&changes_before, &polls_before];
    let later = store.polls_after(p[1], 1).unwrap();
    assert_eq!((later[0].number, later[0].at), (p[2], Moment(3)));
    assert_eq!(store.changes_after(c[2], 100).unwrap()[0].number, c[3]);
    keep(
        store,
        &[
            Fact::ChangeForgotten(c[0]),
            Fact::VersionForgotten(c[1]),
            Fact::PollForgotten(p[0]),
            Fact::PollForgotten(p[1]),
        ],
    );
    assert_eq!(numbers(store), [c[1..].to_vec(), p[2..].to_vec()]);
    let left = store.changes_after(0, 100).unwrap();
    let versions: Vec<u64> = left.iter().map(|change| change.version).collect();
    assert_eq!(versions, [2, 3, 4]);
    assert_eq!(left[0].digest, change(0, 2).digest);
    let has_body: Vec<bool> = left.iter().map(|change| change.body.is_some()).collect();
    assert_eq!(has_body, [false, true, true]);
    assert_eq!(store.polls(ElementId(0), 100).unwrap().len(), 2);
    assert_eq!(store.element(ElementId(0)).unwrap().unwrap(), kept);
    let named = left.iter().filter_map(|change| change.body).chain([copy]);
    assert_eq!(bodies(store), named.collect());
    // To forget what is not there is no harm.
    keep(
        store,
        &[Fact::ChangeForgotten(c[0]), Fact::PollForgotten(p[0])],
    );
    // The next version has the next number, however few are left.
    keep(
        store,
        &[Fact::ChangeForgotten(c[1]), Fact::ChangeForgotten(c[2])],
    );
    keep(store, &[Fact::Change(change(0, 5))]);
    let left = store.changes_after(0, 100).unwrap();
    let versions: Vec<u64> = left.iter().map(|change| change.version).collect();
    assert_eq!(versions, [4, 5]);
}

/// Its elements, copies, polls, changes and queries go with it, and nothing else
/// does.
pub fn a_removed_source_leaves_nothing_and_its_numbers_are_not_given_again(store: &mut dyn Writer) {
    let of = |id: u32, source| {
        let mut kept = full(id);
        kept.element.source = SourceId(source);
        kept.state = if id.is_multiple_of(3) {
            State::New
        } else {
            State::Ok
        };
        Fact::Kept(Box::new(kept))
    };
    let polls_and_changes = |id, source| {
        let poll = Poll {
            source: SourceId(source),
            purpose: Purpose::Audit,
            ..poll(id, 1)
        };
        let change = Change {
            source: SourceId(source),
            ..change(id, 1)
        };
        [Fact::Poll(poll), Fact::Change(change)]
    };
    let mut facts = vec![Fact::Source(source(0)), Fact::Source(source(1))];
    for number in [0, 1, 2] {
        facts.push(Fact::Query(query(number, "a")));
        facts.push(Fact::Query(query(number, "b")));
        let memory = vec![number as u8];
        facts.push(Fact::Memory(MemoryOf::Search(SourceId(number)), memory));
    }
    facts.push(Fact::Memory(MemoryOf::Pace(Partition(1)), vec![1]));
    for id in 0..300 {
        facts.push(of(id, id % 2));
        facts.extend(polls_and_changes(id, id % 2));
    }
    keep(store, &facts);
    keep(store, &[Fact::SourceRemoved(SourceId(1))]);
    assert_eq!(sources(store), [source(0)]);
    assert_eq!(scan(store, 1).len(), 150);
    assert!(scan(store, 1).iter().all(|(id, _)| id.0 % 2 == 0));
    assert_eq!(
        store.elements(Some(SourceId(1)), ElementId(0), 9).unwrap(),
        []
    );
    assert_eq!(store.element(ElementId(1)).unwrap(), None);
    assert_eq!(store.find_all(&full(1).element.locator).unwrap(), []);
    assert_eq!(store.polls(ElementId(1), 9).unwrap(), []);
    assert_eq!(store.polls(ElementId(2), 9).unwrap().len(), 1);
    assert_eq!(store.audits(Moment(0)).unwrap().len(), 150);
    assert_eq!(changes(store, &ChangeFilter::default()).len(), 150);
    let remembered = [
        MemoryOf::Search(SourceId(0)),
        MemoryOf::Search(SourceId(1)),
        MemoryOf::Pace(Partition(1)),
    ];
    let remembered = remembered.map(|of| store.memory(of).unwrap());
    assert_eq!(remembered, [Some(vec![0]), None, Some(vec![1])]);
    let n_queries = [0, 1, 2].map(|number| store.queries(SourceId(number)).unwrap().len());
    assert_eq!(n_queries, [2, 0, 2]);
    let n_new: u64 = store.n_new().unwrap().iter().map(|(_, n)| n).sum();
    assert_eq!(n_new, 50);
    assert_eq!(store.next_element().unwrap(), 300);
    // Numbers of changes rise, even if the last are gone.
    keep(store, &[Fact::SourceRemoved(SourceId(0))]);
    assert_eq!(scan(store, 1), []);
    assert_eq!(bodies(store), BTreeSet::new());
    assert_eq!(store.n_new().unwrap(), []);
    assert_eq!(store.latest_polls(9).unwrap(), []);
    keep(store, &[of(300, 2)]);
    keep(store, &polls_and_changes(300, 2));
    assert_eq!(changes(store, &ChangeFilter::default())[0].number, 301);
    assert_eq!(store.next_element().unwrap(), 301);
}

/// Later facts see what earlier ones of the same batch said.
pub fn facts_of_one_batch_are_kept_in_their_order(store: &mut dyn Writer) {
    let mut kept = full(0);
    let before = kept.clone();
    kept.history.n_polls += 1;
    kept.element.source = SourceId(5);
    keep(
        store,
        &[
            Fact::Element(element(1, "b")),
            Fact::Kept(Box::new(before)),
            Fact::Poll(poll(0, 1)),
            Fact::Kept(Box::new(kept.clone())),
            Fact::SourceRemoved(element(1, "b").source),
            Fact::Poll(poll(0, 2)),
            Fact::Note("a", Some(vec![1])),
            Fact::Note("a", None),
            Fact::Query(query(7, "before")),
            Fact::Memory(MemoryOf::Search(SourceId(7)), vec![1]),
            Fact::Memory(MemoryOf::Search(SourceId(8)), vec![1]),
            Fact::SourceRemoved(SourceId(7)),
            Fact::SourceRemoved(SourceId(8)),
            Fact::Query(query(7, "after")),
            Fact::Memory(MemoryOf::Search(SourceId(7)), vec![2]),
        ],
    );
    assert_eq!(store.element(ElementId(0)).unwrap(), Some(kept));
    assert_eq!(store.element(ElementId(1)).unwrap(), None);
    assert_eq!(
        store.polls(ElementId(0), 9).unwrap(),
        [poll(0, 2), poll(0, 1)]
    );
    assert_eq!(store.note("a").unwrap(), None);
    assert_eq!(store.queries(SourceId(7)).unwrap(), [query(7, "after")]);
    let of = [7, 8].map(|number| MemoryOf::Search(SourceId(number)));
    let remembered = of.map(|of| store.memory(of).unwrap());
    assert_eq!(remembered, [Some(vec![2]), None]);
    assert_eq!(store.next_element().unwrap(), 2);
}
