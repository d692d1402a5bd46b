//! Elements and their copies.

use std::collections::BTreeSet;

use super::samples::{bodies, element, failure, full, group, keep, kept, scan};
use crate::{
    BodyId, Copy, Element, ElementId, Fact, History, Kept, Moment, Reader, Role, SourceId, State,
    Writer,
};

/// Of a new element nothing is known but what it is.
pub fn a_new_element_is_found_by_number_and_by_locator(store: &mut dyn Writer) {
    let one = element(0, "https://a.example/é?q=1#x");
    let two = element(1, "https://a.example/");
    keep(
        store,
        &[Fact::Element(one.clone()), Fact::Element(two.clone())],
    );
    let expected = Kept::new(one.clone());
    assert_eq!(store.element(one.id).unwrap(), Some(expected.clone()));
    let found = store.find(one.source, &one.locator).unwrap();
    assert_eq!(found, Some(expected));
    assert_eq!(store.find(SourceId(9), &one.locator).unwrap(), None);
    assert_eq!(store.find(one.source, "https://a.example").unwrap(), None);
    let locators = [two.locator.as_str(), "no", &one.locator, &two.locator];
    let ids = store.find_ids(one.source, &locators).unwrap();
    assert_eq!(ids, [Some(two.id), None, Some(one.id), Some(two.id)]);
    assert_eq!(store.next_element().unwrap(), 2);
}

/// Whichever source they are of.
pub fn one_locator_may_be_in_several_sources(store: &mut dyn Writer) {
    let mut all = [element(0, "a"), element(1, "a"), element(2, "b")];
    all[1].source = SourceId(8);
    keep(store, &all.clone().map(Fact::Element));
    let found = store.find_all("a").unwrap();
    assert_eq!(found, [kept(&all[0]), kept(&all[1])]);
    assert_eq!(store.find(SourceId(8), "a").unwrap(), Some(kept(&all[1])));
}

/// An element that is told again keeps its copy and its history.
pub fn what_an_element_is_may_change_without_what_is_known_of_it(store: &mut dyn Writer) {
    let mut kept = full(3);
    keep(store, &[Fact::Kept(Box::new(kept.clone()))]);
    kept.element = Element {
        weight: 9.5,
        role: Role::Listing,
        group: group(77),
        host: group(76),
        depth: 12,
        source: SourceId(6),
        ..kept.element
    };
    keep(store, &[Fact::Element(kept.element.clone())]);
    assert_eq!(store.element(kept.element.id).unwrap(), Some(kept.clone()));
    assert_eq!(scan(store, 1), [(kept.element.id, kept.brief())]);
}

/// Every field, with and without what may be absent.
pub fn everything_about_an_element_is_kept(store: &mut dyn Writer) {
    let mut kept = full(130);
    let check = |store: &mut dyn Writer, kept: &Kept| {
        keep(store, &[Fact::Kept(Box::new(kept.clone()))]);
        assert_eq!(store.element(kept.element.id).unwrap().as_ref(), Some(kept));
        assert_eq!(scan(store, 1), [(kept.element.id, kept.brief())]);
    };
    check(store, &kept);
    for state in [
        State::Blocked,
        State::Gone,
        State::Failing,
        State::Ok,
        State::New,
    ] {
        kept.state = state;
        check(store, &kept);
    }
    kept.failure = Some(failure(4));
    kept.n_failures = u16::MAX;
    kept.is_unlisted = true;
    check(store, &kept);
    kept.failure = None;
    kept.n_failures = 0;
    kept.is_unlisted = false;
    check(store, &kept);
    kept.copy = Some(Copy {
        status: 0,
        etag: None,
        last_modified: None,
        content_type: None,
        digest: [0; 32],
        body: BodyId([255; 32]),
        n_bytes: 0,
        fetched_at: Moment(-1),
        changed_at: None,
        location: None,
        redirect: None,
        sketch: Vec::new(),
    });
    check(store, &kept);
    kept.history = History {
        n_polls: u32::MAX,
        n_changes: u32::MAX,
        ..History::default()
    };
    check(store, &kept);
    assert_eq!(store.next_element().unwrap(), 131);
}

/// A copy is forgotten when what is known is told without it.
pub fn a_copy_may_go_again(store: &mut dyn Writer) {
    let mut kept = full(0);
    keep(store, &[Fact::Kept(Box::new(kept.clone()))]);
    kept.copy = None;
    keep(store, &[Fact::Kept(Box::new(kept.clone()))]);
    assert_eq!(store.element(kept.element.id).unwrap(), Some(kept));
    assert_eq!(bodies(store), BTreeSet::new());
}

/// There and back.
pub fn an_element_that_moved_is_found_where_it_is_and_not_where_it_was(store: &mut dyn Writer) {
    let mut kept = full(0);
    let source = kept.element.source;
    let before = kept.element.locator.clone();
    keep(store, &[Fact::Kept(Box::new(kept.clone()))]);
    for (to, from) in [
        ("after", before.as_str()),
        (&before, "after"),
        ("after", &before),
    ] {
        kept.element.locator = to.into();
        keep(store, &[Fact::Kept(Box::new(kept.clone()))]);
        assert_eq!(store.find(source, to).unwrap(), Some(kept.clone()));
        assert_eq!(store.find_all(to).unwrap(), [kept.clone()]);
        assert_eq!(store.find(source, from).unwrap(), None);
        assert_eq!(store.find_ids(source, &[from]).unwrap(), [None]);
        assert_eq!(store.find_all(from).unwrap(), []);
    }
}

/// From a number on, of one source or of all.
pub fn elements_come_in_pages(store: &mut dyn Writer) {
    let all: Vec<Element> = (0..200)
        .map(|id| Element {
            source: SourceId(id % 3),
            ..element(2 * id, &format!("page {id}"))
        })
        .collect();
    let facts: Vec<Fact> = all.iter().cloned().map(Fact::Element).collect();
    keep(store, &facts);
    let mut ids = Vec::new();
    let mut from = ElementId(0);
    loop {
        let page = store.elements(None, from, 7).unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 7);
        from = ElementId(last.element.id.0 + 1);
        ids.extend(page.into_iter().map(|kept| kept.element));
    }
    assert_eq!(ids, all);
    let of_one = store.elements(Some(SourceId(1)), ElementId(3), 3).unwrap();
    let numbers: Vec<u32> = of_one.iter().map(|kept| kept.element.id.0).collect();
    assert_eq!(numbers, [8, 14, 20]);
    assert_eq!(store.elements(None, ElementId(0), 0).unwrap(), []);
    assert_eq!(store.elements(None, ElementId(u32::MAX), 9).unwrap(), []);
}

/// Until the first poll, whatever came of it.
pub fn new_elements_are_listed_and_counted_by_host(store: &mut dyn Writer) {
    let of_host = |id, host| Element {
        host: group(host),
        ..element(id, &id.to_string())
    };
    let all = [0, 1, 0, 0, 1].into_iter().zip(0..);
    let facts: Vec<Fact> = all
        .map(|(host, id)| Fact::Element(of_host(id, host)))
        .collect();
    keep(store, &facts);
    let new = |store: &dyn Reader, host, from, limit| {
        let ids = store.new_elements(group(host), ElementId(from), limit);
        ids.unwrap().into_iter().map(|id| id.0).collect::<Vec<_>>()
    };
    assert_eq!(new(store, 0, 0, 9), [0, 2, 3]);
    assert_eq!(new(store, 0, 1, 1), [2]);
    assert_eq!(new(store, 2, 0, 9), []);
    assert_eq!(store.n_new().unwrap(), [(group(0), 3), (group(1), 2)]);
    let polled = Kept {
        state: State::Failing,
        ..Kept::new(of_host(2, 0))
    };
    keep(store, &[Fact::Kept(Box::new(polled))]);
    assert_eq!(new(store, 0, 0, 9), [0, 3]);
    // To another host.
    keep(
        store,
        &[Fact::Element(of_host(3, 1)), Fact::Element(of_host(2, 1))],
    );
    assert_eq!(new(store, 0, 0, 9), [0]);
    assert_eq!(new(store, 1, 0, 9), [1, 3, 4]);
    assert_eq!(store.n_new().unwrap(), [(group(0), 1), (group(1), 3)]);
    let polled = [0].map(|id| {
        Fact::Kept(Box::new(Kept {
            state: State::Ok,
            ..Kept::new(of_host(id, 0))
        }))
    });
    keep(store, &polled);
    assert_eq!(store.n_new().unwrap(), [(group(1), 3)]);
    // New once more, as when nothing of it is known after all.
    keep(store, &[Fact::Kept(Box::new(Kept::new(of_host(2, 0))))]);
    assert_eq!(store.n_new().unwrap(), [(group(0), 1), (group(1), 3)]);
}

/// With gaps between them.
pub fn a_scan_passes_every_element_in_order(store: &mut dyn Writer) {
    let ids = [0, 1, 59, 60, 61, 500, 100_000];
    let all = ids.map(full);
    for kept in all.iter().rev() {
        keep(store, &[Fact::Kept(Box::new(kept.clone()))]);
    }
    let expected = all.map(|kept| (kept.element.id, kept.brief()));
    assert_eq!(scan(store, 1), expected);
    assert_eq!(scan(store, 0), expected);
}

/// Every so many blocks, the first among them.
pub fn a_scan_with_a_stride_takes_whole_blocks(store: &mut dyn Writer) {
    let n = 5000;
    let facts: Vec<Fact> = (0..n)
        .map(|id| Fact::Element(element(id, &id.to_string())))
        .collect();
    keep(store, &facts);
    let all = scan(store, 1);
    assert_eq!(all.len(), n as usize);
    for stride in [2, 3, 7] {
        let some = scan(store, stride);
        assert!(
            some.len() >= all.len() / stride / 2,
            "{} of {stride}",
            some.len()
        );
        assert!(
            some.len() <= 2 * all.len() / stride,
            "{} of {stride}",
            some.len()
        );
        assert_eq!(some[0], all[0]);
        assert!(some.iter().all(|brief| all.contains(brief)));
    }
}
