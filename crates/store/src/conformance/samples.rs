//! What tests keep, and how they ask for it.

use std::collections::BTreeSet;

use crate::{
    BodyId, Brief, Change, ChangeFilter, ChangeKind, Copy, Element, ElementId, Fact, Failure,
    FailureKind, GroupId, History, Kept, Moment, Poll, PollOutcome, Purpose, Query, Reader,
    Redirect, Role, Source, SourceId, SourceKind, State, Totals, Writer,
};

pub(super) fn keep(store: &mut dyn Writer, facts: &[Fact]) {
    store.commit(facts).expect("kept");
}

pub(super) fn sources(store: &dyn Reader) -> Vec<Source> {
    store.sources().expect("sources")
}

pub(super) fn changes(store: &dyn Reader, filter: &ChangeFilter) -> Vec<Change> {
    store.changes(filter, None, usize::MAX).expect("changes")
}

pub(super) fn bodies(store: &dyn Reader) -> BTreeSet<BodyId> {
    let mut bodies = BTreeSet::new();
    store
        .bodies(&mut |body| {
            bodies.insert(body);
        })
        .expect("bodies");
    bodies
}

pub(super) fn scan(store: &dyn Reader, stride: usize) -> Vec<(ElementId, Brief)> {
    let mut briefs = Vec::new();
    store
        .scan(stride, &mut |id, brief| briefs.push((id, *brief)))
        .expect("scanned");
    briefs
}

pub(super) fn group(number: u32) -> GroupId {
    GroupId::new(number).expect("a group")
}

pub(super) fn source(id: u32) -> Source {
    Source {
        id: SourceId(id),
        name: format!("source {id}"),
        kind: SourceKind::List,
        url: format!("list-{id}.txt"),
        added_at: Moment(1_700_000_000_000),
        totals: Totals::default(),
        error: None,
    }
}

pub(super) fn failure(at: i64) -> Failure {
    Failure {
        kind: FailureKind::Timeout,
        message: "no answer within 30 s".into(),
        at: Moment(at),
    }
}

pub(super) fn element(id: u32, locator: &str) -> Element {
    Element {
        id: ElementId(id),
        source: SourceId(3),
        locator: locator.into(),
        group: group(2),
        host: group(1),
        role: Role::Page,
        weight: 1.0,
        depth: 0,
    }
}

pub(super) fn kept(element: &Element) -> Kept {
    Kept::new(element.clone())
}

/// An element of which everything is known.
pub(super) fn full(id: u32) -> Kept {
    let element = Element {
        role: Role::Hub,
        weight: 0.3,
        depth: u16::MAX,
        ..element(id, &format!("https://a.example/{id}"))
    };
    Kept {
        element,
        state: State::Ok,
        failure: None,
        n_failures: 0,
        is_unlisted: false,
        copy: Some(Copy {
            status: 200,
            etag: Some("W/\"x\"".into()),
            last_modified: Some("Tue, 14 Nov 2023 22:13:20 GMT".into()),
            content_type: Some("text/html".into()),
            digest: [1; 32],
            body: BodyId([2; 32]),
            n_bytes: 1 << 40,
            fetched_at: Moment(1_700_000_000_000),
            changed_at: Some(Moment(1_700_000_000_001)),
            location: Some("https://b.example/".into()),
            redirect: Some(Redirect {
                to: "https://c.example/".into(),
                first_at: Moment(1_700_000_000_005),
                last_at: Moment(1_700_000_000_006),
                n_polls: 7,
                is_move: true,
            }),
            sketch: vec![3; 100],
        }),
        history: History {
            first_polled_at: Some(Moment(1_700_000_000_002)),
            polled_at: Some(Moment(1_700_000_000_003)),
            synced_at: Some(Moment(1_700_000_000_004)),
            n_polls: 5,
            n_changes: 4,
            memory: [6; 24],
        },
    }
}

pub(super) fn poll(element: u32, at: i64) -> Poll {
    Poll {
        element: ElementId(element),
        source: SourceId(3),
        begun_at: Moment(at - 1),
        at: Moment(at),
        since: Some(Moment(at - 9)),
        outcome: PollOutcome::Unchanged,
        status: Some(304),
        error: None,
        purpose: Purpose::Due,
        is_counted: true,
        age_ms: None,
    }
}

pub(super) fn change(element: u32, found_at: i64) -> Change {
    Change {
        number: 999,
        version: 999,
        element: ElementId(element),
        source: SourceId(3),
        found_at: Moment(found_at),
        previous_poll_at: Some(Moment(found_at - 5)),
        kind: ChangeKind::Changed,
        bytes_before: Some(10),
        bytes_after: Some(20),
        digest: Some([7; 32]),
        body: Some(BodyId([8; 32])),
        content_type: Some("text/html".into()),
        size: Some(0.25),
    }
}

pub(super) fn query(source: u32, text: &str) -> Query {
    Query {
        source: SourceId(source),
        text: text.into(),
        asked_at: Moment(1_700_000_000_000),
        n_requests: 4,
        total: Some(1 << 40),
        n_results: 30,
        n_ours: 20,
        note: None,
        memory: vec![9; 40],
    }
}
