//! Whatever is told, all stores say the same.

use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use springtide_store::conformance::assert_same;
use springtide_store::{
    BodyId, Change, ChangeKind, Copy, Element, ElementId, Fact, Failure, FailureKind, Group,
    GroupId, History, Host, Kept, Memory, MemoryOf, Moment, Partition, Pause, Poll, PollOutcome,
    Purpose, Query, Redirect, Robots, RobotsAnswer, Role, Source, SourceId, SourceKind, Sqlite,
    State, Totals, Writer,
};

/// Few of each, so that facts meet.
const N_ELEMENTS: u32 = 200;
const N_OTHERS: u32 = 3;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(5),
        ..ProptestConfig::default()
    })]

    #[test]
    fn memory_and_sqlite_give_the_same_answers(
        batches in prop::collection::vec(prop::collection::vec(fact(), 0..30), 1..6),
        is_reopened in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut memory = Memory::new();
        let mut sqlite = Sqlite::create_or_open(folder.path()).unwrap();
        for batch in &batches {
            memory.commit(batch).unwrap();
            sqlite.commit(batch).unwrap();
            if is_reopened {
                sqlite.close().unwrap();
                sqlite = Sqlite::create_or_open(folder.path()).unwrap();
            }
        }
        assert_same(&memory, &sqlite, N_ELEMENTS, N_OTHERS);
        let beside = Sqlite::read_only(folder.path()).unwrap();
        assert_same(&memory, &beside, N_ELEMENTS, N_OTHERS);
    }
}

fn fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        4 => element().prop_map(Fact::Element),
        6 => kept().prop_map(|kept| Fact::Kept(Box::new(kept))),
        4 => poll().prop_map(Fact::Poll),
        4 => change().prop_map(Fact::Change),
        1 => source().prop_map(Fact::Source),
        1 => source_id().prop_map(Fact::SourceRemoved),
        1 => (source_id(), totals()).prop_map(|(id, totals)| Fact::Totals(id, totals)),
        1 => (source_id(), option::of(failure()))
            .prop_map(|(id, failure)| Fact::SourceError(id, failure)),
        1 => (group_id(), option::of(group_id()), text())
            .prop_map(|(id, parent, name)| Fact::Group(Group { id, parent, name })),
        3 => query().prop_map(Fact::Query),
        1 => host().prop_map(Fact::Host),
        1 => robots().prop_map(|(group, robots)| Fact::Robots(group, robots)),
        2 => (memory_of(), bytes()).prop_map(|(of, bytes)| Fact::Memory(of, bytes)),
        1 => option::of(bytes()).prop_map(|bytes| Fact::Note("note", bytes)),
    ]
}

fn element() -> impl Strategy<Value = Element> {
    let numbers = (
        0..N_ELEMENTS,
        source_id(),
        group_id(),
        group_id(),
        any::<u16>(),
    );
    let role = prop_oneof![
        Just(Role::Page),
        Just(Role::Listing),
        Just(Role::Hub),
        Just(Role::Entry)
    ];
    (numbers, 0..20_u32, role, 0.0..9.0_f32).prop_map(|(numbers, locator, role, weight)| {
        let (id, source, group, host, depth) = numbers;
        Element {
            id: ElementId(id),
            source,
            locator: format!("https://a.example/{locator}"),
            group,
            host,
            role,
            weight,
            depth,
        }
    })
}

fn kept() -> impl Strategy<Value = Kept> {
    let state = prop_oneof![
        Just(State::New),
        Just(State::Ok),
        Just(State::Failing),
        Just(State::Blocked),
        Just(State::Gone)
    ];
    let failing = (option::of(failure()), any::<u16>(), any::<bool>());
    (element(), state, failing, option::of(copy()), history()).prop_map(
        |(element, state, (failure, n_failures, is_unlisted), copy, history)| Kept {
            element,
            state,
            failure,
            n_failures,
            is_unlisted,
            copy,
            history,
        },
    )
}

fn copy() -> impl Strategy<Value = Copy> {
    let texts = prop::array::uniform4(option::of(text()));
    let times = (moment(), option::of(moment()));
    (
        any::<u16>(),
        texts,
        any::<u8>(),
        0..u64::MAX / 2,
        times,
        bytes(),
    )
        .prop_map(
            |(
                status,
                [etag, last_modified, content_type, location],
                digest,
                n_bytes,
                times,
                sketch,
            )| {
                Copy {
                    status,
                    etag,
                    last_modified,
                    content_type,
                    digest: [digest; 32],
                    body: BodyId([digest / 2; 32]),
                    n_bytes,
                    fetched_at: times.0,
                    changed_at: times.1,
                    redirect: location.clone().map(|to| Redirect {
                        to,
                        first_at: times.0,
                        last_at: times.0,
                        n_polls: u32::from(status),
                        is_move: status % 2 == 0,
                    }),
                    location,
                    sketch,
                }
            },
        )
}

fn history() -> impl Strategy<Value = History> {
    let times = prop::array::uniform3(option::of(moment()));
    (times, any::<[u32; 2]>(), any::<[u8; 24]>()).prop_map(|(times, counts, memory)| History {
        first_polled_at: times[0],
        polled_at: times[1],
        synced_at: times[2],
        n_polls: counts[0],
        n_changes: counts[1],
        memory,
    })
}

fn poll() -> impl Strategy<Value = Poll> {
    let outcome = prop_oneof![
        Just(PollOutcome::First),
        Just(PollOutcome::Unchanged),
        Just(PollOutcome::Changed),
        Just(PollOutcome::Gone),
        Just(PollOutcome::Failed),
        Just(PollOutcome::Blocked)
    ];
    let purpose = prop_oneof![
        Just(Purpose::Due),
        Just(Purpose::Audit),
        Just(Purpose::First),
        Just(Purpose::Asked)
    ];
    let times = (
        moment(),
        moment(),
        option::of(moment()),
        option::of(0..99_i64),
    );
    let rest = (
        option::of(any::<u16>()),
        option::of(failure_kind()),
        any::<bool>(),
    );
    (0..N_ELEMENTS, source_id(), times, outcome, purpose, rest).prop_map(
        |(element, source, (begun_at, at, since, age_ms), outcome, purpose, rest)| Poll {
            element: ElementId(element),
            source,
            begun_at,
            at,
            since,
            outcome,
            status: rest.0,
            error: rest.1,
            purpose,
            is_counted: rest.2,
            age_ms,
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    let kind = prop_oneof![
        Just(ChangeKind::Changed),
        Just(ChangeKind::Added),
        Just(ChangeKind::Gone),
        Just(ChangeKind::Back)
    ];
    let times = (moment(), option::of(moment()));
    let lengths = prop::array::uniform2(option::of(0..u64::MAX / 2));
    let rest = (
        option::of(any::<u8>()),
        option::of(text()),
        option::of(0.0..1.0_f32),
    );
    (0..4_u32, source_id(), times, kind, lengths, rest).prop_map(
        |(element, source, times, kind, lengths, (digest, content_type, size))| Change {
            number: 0,
            version: 0,
            element: ElementId(element),
            source,
            found_at: times.0,
            previous_poll_at: times.1,
            kind,
            bytes_before: lengths[0],
            bytes_after: lengths[1],
            digest: digest.map(|digest| [digest; 32]),
            body: digest.map(|digest| BodyId([digest; 32])),
            content_type,
            size,
        },
    )
}

fn source() -> impl Strategy<Value = Source> {
    let kind = prop_oneof![
        Just(SourceKind::Page),
        Just(SourceKind::List),
        Just(SourceKind::Sitemap),
        Just(SourceKind::Site),
        Just(SourceKind::Search),
        Just(SourceKind::Feed)
    ];
    (
        source_id(),
        text(),
        kind,
        moment(),
        totals(),
        option::of(failure()),
    )
        .prop_map(|(id, text, kind, added_at, totals, error)| Source {
            id,
            name: text.clone(),
            kind,
            url: text,
            added_at,
            totals,
            error,
        })
}

fn totals() -> impl Strategy<Value = Totals> {
    prop::array::uniform7(0..u64::MAX / 2).prop_map(|counts| Totals {
        n_elements: counts[0],
        n_new: counts[1],
        n_failing: counts[2],
        n_blocked: counts[3],
        n_gone: counts[4],
        n_polls: counts[5],
        n_changes: counts[6],
    })
}

fn query() -> impl Strategy<Value = Query> {
    // Some that meet, some that are anything.
    let texts = (prop_oneof!["[ab]{0,2}", text()], option::of(text()));
    let total = option::of(any::<u64>());
    (
        source_id(),
        texts,
        moment(),
        any::<[u32; 3]>(),
        total,
        bytes(),
    )
        .prop_map(
            |(source, (text, note), asked_at, counts, total, memory)| Query {
                source,
                text,
                asked_at,
                n_requests: counts[0],
                total,
                n_results: counts[1],
                n_ours: counts[2],
                note,
                memory,
            },
        )
}

fn host() -> impl Strategy<Value = Host> {
    let times = prop::array::uniform2(option::of(moment()));
    let pause = prop_oneof![Just(Pause::BackOff), Just(Pause::RetryAfter)];
    (group_id(), times, option::of(pause), any::<u32>()).prop_map(
        |(group, times, pause, n_failures)| Host {
            group,
            requested_at: times[0],
            not_before: times[1],
            pause,
            n_failures,
        },
    )
}

fn robots() -> impl Strategy<Value = (GroupId, Vec<Robots>)> {
    let answer = prop_oneof![
        text().prop_map(RobotsAnswer::Rules),
        Just(RobotsAnswer::None),
        Just(RobotsAnswer::Unreachable)
    ];
    let robots = (text(), moment(), answer).prop_map(|(origin, fetched_at, answer)| Robots {
        origin,
        fetched_at,
        answer,
    });
    (group_id(), prop::collection::vec(robots, 0..3))
}

fn failure() -> impl Strategy<Value = Failure> {
    (failure_kind(), text(), moment()).prop_map(|(kind, message, at)| Failure { kind, message, at })
}

fn failure_kind() -> impl Strategy<Value = FailureKind> {
    prop::sample::select(FailureKind::ALL)
}

fn memory_of() -> impl Strategy<Value = MemoryOf> {
    let partition = || (0..N_OTHERS).prop_map(Partition);
    prop_oneof![
        partition().prop_map(MemoryOf::Scheduler),
        partition().prop_map(MemoryOf::Pace),
        source_id().prop_map(MemoryOf::Search),
        group_id().prop_map(MemoryOf::Group),
    ]
}

fn source_id() -> impl Strategy<Value = SourceId> {
    (0..N_OTHERS).prop_map(SourceId)
}

fn group_id() -> impl Strategy<Value = GroupId> {
    (0..N_OTHERS).prop_map(|number| GroupId::new(number).expect("few"))
}

fn moment() -> impl Strategy<Value = Moment> {
    prop_oneof![
        4 => -10..100_i64,
        1 => -(1_i64 << 47)..1 << 47,
    ]
    .prop_map(Moment)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zé\u{0}'\"]{0,6}", "\\PC{0,12}"]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..10)
}
