//! What every store has to do, as tests over any of them.
//!
//! Each function is given an empty store, or a [`Place`] where there is one, and panics
//! if a promise is broken. A store's test file says how a place is come by, and
//! [`conformance!`](crate::conformance!) makes a test of each:
//!
//! ```
//! # use springtide_store::conformance::Place;
//! # use springtide_store::{Error, Memory, Reader, Writer};
//! struct InMemory(Memory);
//!
//! impl Place for InMemory {
//!     fn open(&self) -> Result<Box<dyn Writer>, Error> {
//!         Ok(Box::new(self.0.take_over()))
//!     }
//!
//!     fn read(&self) -> Result<Box<dyn Reader>, Error> {
//!         Ok(Box::new(self.0.clone()))
//!     }
//!
//!     fn end_lease(&self) {
//!         self.0.take_over();
//!     }
//! }
//!
//! fn with_place(test: fn(&dyn Place)) {
//!     test(&InMemory(Memory::new()));
//! }
//! springtide_store::conformance!(with_place);
//! ```
//!
//! [`assert_same`] asks two stores everything that can be asked.

use std::collections::BTreeSet;

use crate::{
    Audit, BodyId, Brief, Change, ChangeFilter, ChangeKind, Copy, Element, ElementId, Error, Fact,
    Failure, FailureKind, Group, GroupId, History, Host, Kept, MemoryOf, Moment, Numbered, Numbers,
    Partition, Pause, Poll, PollOutcome, Purpose, Query, Reader, Redirect, Robots, RobotsAnswer,
    Role, Source, SourceId, SourceKind, State, Totals, Writer,
};

/// Where there is a store to be tested, empty at first.
pub trait Place {
    /// Opens the store to write; nobody else writes to it.
    fn open(&self) -> Result<Box<dyn Writer>, Error>;
    /// Opens the store to read, beside whoever writes; it was opened to write before.
    fn read(&self) -> Result<Box<dyn Reader>, Error>;
    /// Takes the lease away from the writer there is, so that another may come.
    fn end_lease(&self);
}

/// A test for every function here, with a function that calls what it is given with a
/// [`Place`].
#[macro_export]
macro_rules! conformance {
    ($with_place:path) => {
        $crate::conformance! {
            $with_place:
            stores {
                an_empty_store_has_no_answers,
                sources_are_kept_and_come_in_the_order_of_their_numbers,
                totals_and_errors_are_those_of_their_source,
                groups_are_kept_and_found_by_number,
                hosts_are_kept_with_every_robots_txt,
                what_is_remembered_is_kept_by_what_it_is_of,
                notes_are_kept_and_forgotten,
                a_new_element_is_found_by_number_and_by_locator,
                one_locator_may_be_in_several_sources,
                what_an_element_is_may_change_without_what_is_known_of_it,
                everything_about_an_element_is_kept,
                a_copy_may_go_again,
                an_element_that_moved_is_found_where_it_is_and_not_where_it_was,
                elements_come_in_pages,
                new_elements_are_listed_and_counted_by_host,
                a_scan_passes_every_element_in_order,
                a_scan_with_a_stride_takes_whole_blocks,
                changes_are_numbered_as_they_come_and_listed_newest_first,
                changes_are_filtered_by_source_element_and_time,
                polls_are_listed_newest_first,
                audits_tell_whether_a_copy_was_fresh,
                the_latest_polls_that_count_are_listed,
                what_is_known_of_queries_is_kept_and_listed_by_text,
                bodies_of_copies_and_of_versions_are_named,
                what_is_forgotten_is_gone_and_the_rest_is_as_it_was,
                a_removed_source_leaves_nothing_and_its_numbers_are_not_given_again,
                facts_of_one_batch_are_kept_in_their_order,
            }
            places {
                what_was_kept_is_there_for_the_next_writer,
                whoever_reads_beside_a_writer_sees_what_was_committed,
                whoever_has_lost_the_lease_keeps_nothing,
                no_number_that_a_fact_has_is_given_again,
            }
        }
    };
    ($with_place:path: stores { $($store:ident,)+ } places { $($place:ident,)+ }) => {
        $(
            #[test]
            fn $store() {
                $with_place(|place| {
                    $crate::conformance::$store(&mut *place.open().expect("a store"));
                });
            }
        )+
        $(
            #[test]
            fn $place() {
                $with_place($crate::conformance::$place);
            }
        )+
    };
}

/// Nothing, and no error, is what an empty store says.
pub fn an_empty_store_has_no_answers(store: &mut dyn Writer) {
    assert_eq!(sources(store), []);
    assert_eq!(store.groups().unwrap(), []);
    assert_eq!(store.hosts().unwrap(), []);
    assert_eq!(store.group_memories().unwrap(), []);
    let whole = MemoryOf::Scheduler(Partition::WHOLE);
    assert_eq!(store.memory(whole).unwrap(), None);
    assert_eq!(store.note("a").unwrap(), None);
    assert_eq!(store.next_element().unwrap(), 0);
    assert_eq!(store.element(ElementId(0)).unwrap(), None);
    assert_eq!(store.find(SourceId(0), "a").unwrap(), None);
    assert_eq!(store.find_all("a").unwrap(), []);
    assert_eq!(store.elements(None, ElementId(0), 9).unwrap(), []);
    assert_eq!(store.n_new().unwrap(), []);
    assert_eq!(scan(store, 1), []);
    assert_eq!(scan(store, 2), []);
    assert_eq!(changes(store, &ChangeFilter::default()), []);
    assert_eq!(store.audits(Moment(i64::MIN)).unwrap(), []);
    assert_eq!(store.latest_polls(9).unwrap(), []);
    assert_eq!(store.queries(SourceId(0)).unwrap(), []);
    assert_eq!(bodies(store), BTreeSet::new());
    keep(store, &[]);
}

/// Sources are kept whole, replaced, and sorted.
pub fn sources_are_kept_and_come_in_the_order_of_their_numbers(store: &mut dyn Writer) {
    let kinds = [
        SourceKind::Page,
        SourceKind::List,
        SourceKind::Sitemap,
        SourceKind::Site,
        SourceKind::Search,
        SourceKind::Feed,
        SourceKind::Table,
    ];
    let mut all: Vec<Source> = (0..)
        .zip(kinds)
        .map(|(id, kind)| Source { kind, ..source(id) })
        .collect();
    all.iter()
        .rev()
        .for_each(|source| keep(store, &[Fact::Source(source.clone())]));
    assert_eq!(sources(store), all);
    all[2].url = "https://elsewhere.example/".into();
    all[2].totals.n_gone = 7;
    all[2].error = Some(failure(3));
    keep(store, &[Fact::Source(all[2].clone())]);
    assert_eq!(sources(store), all);
}

/// Totals and errors change alone; those of no source go nowhere.
pub fn totals_and_errors_are_those_of_their_source(store: &mut dyn Writer) {
    let mut one = source(1);
    let totals = Totals {
        n_elements: 1,
        n_new: 2,
        n_failing: 3,
        n_blocked: 4,
        n_gone: 5,
        n_polls: 6,
        n_changes: u64::from(u32::MAX) + 7,
    };
    keep(
        store,
        &[
            Fact::Source(one.clone()),
            Fact::Totals(one.id, totals),
            Fact::SourceError(one.id, Some(failure(1))),
            Fact::Totals(SourceId(9), totals),
            Fact::SourceError(SourceId(9), Some(failure(1))),
        ],
    );
    one.totals = totals;
    one.error = Some(failure(1));
    assert_eq!(sources(store), [one.clone()]);
    keep(store, &[Fact::SourceError(one.id, None)]);
    one.error = None;
    assert_eq!(sources(store), [one]);
}

/// All of them, or some by number.
pub fn groups_are_kept_and_found_by_number(store: &mut dyn Writer) {
    let named = |id, parent: Option<u32>, name: &str| Group {
        id: group(id),
        parent: parent.map(group),
        name: name.into(),
    };
    let all = [
        named(0, None, "a.example"),
        named(1, None, "b.example"),
        named(2, Some(0), "docs"),
        named(3, Some(2), "docs"),
    ];
    keep(store, &all.clone().map(Fact::Group));
    assert_eq!(store.groups().unwrap(), all);
    let some = store.groups_by_id(&[group(3), group(9), group(0)]).unwrap();
    assert_eq!(some, [all[3].clone(), all[0].clone()]);
}

/// A host is kept whole and replaced whole.
pub fn hosts_are_kept_with_every_robots_txt(store: &mut dyn Writer) {
    let robots = |origin: &str, answer| Robots {
        origin: origin.into(),
        fetched_at: Moment(4),
        answer,
    };
    let mut host = Host {
        group: group(5),
        requested_at: Some(Moment(1)),
        not_before: Some(Moment(2)),
        pause: Some(Pause::RetryAfter),
        n_failures: 3,
        robots: vec![
            robots(
                "https://b.example",
                RobotsAnswer::Rules("Disallow: /".into()),
            ),
            robots("http://b.example", RobotsAnswer::None),
            robots("http://b.example:81", RobotsAnswer::Unreachable),
        ],
    };
    let bare = Host {
        group: group(2),
        requested_at: None,
        not_before: None,
        pause: None,
        n_failures: 0,
        robots: Vec::new(),
    };
    keep(store, &[Fact::Host(host.clone()), Fact::Host(bare.clone())]);
    assert_eq!(store.hosts().unwrap(), [bare.clone(), host.clone()]);
    host.requested_at = Some(Moment(9));
    host.pause = Some(Pause::BackOff);
    keep(store, &[Fact::Host(host.clone())]);
    assert_eq!(store.hosts().unwrap(), [bare.clone(), host.clone()]);
    host.robots[0].answer = RobotsAnswer::Rules(String::new());
    keep(store, &[Fact::Host(host.clone())]);
    assert_eq!(store.hosts().unwrap(), [bare.clone(), host.clone()]);
    host.robots.remove(1);
    keep(store, &[Fact::Host(host.clone())]);
    assert_eq!(store.hosts().unwrap(), [bare.clone(), host.clone()]);
    host.robots.clear();
    keep(store, &[Fact::Host(host.clone())]);
    assert_eq!(store.hosts().unwrap(), [bare, host]);
}

/// Bytes in, the same bytes out; what is remembered of one thing is not of another.
pub fn what_is_remembered_is_kept_by_what_it_is_of(store: &mut dyn Writer) {
    let all = memories(2);
    let bytes = |index: usize| vec![index as u8; index];
    let told: Vec<Fact> = (0..)
        .zip(&all)
        .map(|(index, of)| Fact::Memory(*of, bytes(index)))
        .collect();
    keep(store, &told);
    // The same once more, as it comes with every batch.
    keep(store, &told);
    for (index, of) in (0..).zip(&all) {
        assert_eq!(store.memory(*of).unwrap(), Some(bytes(index)), "{of:?}");
    }
    keep(
        store,
        &[
            Fact::Memory(all[0], vec![1, 2, 3]),
            Fact::Memory(MemoryOf::Group(group(7)), vec![1]),
            Fact::Memory(all[0], Vec::new()),
            Fact::Memory(MemoryOf::Group(group(7)), vec![4]),
        ],
    );
    assert_eq!(store.memory(all[0]).unwrap(), Some(Vec::new()));
    assert_eq!(store.memory(all[1]).unwrap(), Some(bytes(1)));
    let groups = store.group_memories().unwrap();
    let numbers: Vec<u32> = groups.iter().map(|(group, _)| group.number()).collect();
    assert_eq!(numbers, [0, 1, 7]);
    let some = store.group_memories_by_id(&[group(7), group(4)]).unwrap();
    assert_eq!(some, [(group(7), vec![4])]);
}

/// Whether it was closed or only dropped.
pub fn what_was_kept_is_there_for_the_next_writer(place: &dyn Place) {
    let mut first = place.open().unwrap();
    keep(&mut *first, &[Fact::Note("a", Some(vec![1]))]);
    first.close().unwrap();
    let mut second = place.open().unwrap();
    assert_eq!(second.note("a").unwrap(), Some(vec![1]));
    keep(&mut *second, &[Fact::Note("a", Some(vec![2]))]);
    drop(second);
    let third = place.open().unwrap();
    assert_eq!(third.note("a").unwrap(), Some(vec![2]));
}

/// As soon as it was, and after the writer has gone.
pub fn whoever_reads_beside_a_writer_sees_what_was_committed(place: &dyn Place) {
    let mut writer = place.open().unwrap();
    let before = place.read().unwrap();
    keep(
        &mut *writer,
        &[
            Fact::Element(element(0, "a")),
            Fact::Note("a", Some(vec![1])),
        ],
    );
    let after = place.read().unwrap();
    for reader in [&before, &after] {
        assert_eq!(reader.note("a").unwrap(), Some(vec![1]));
        assert_same(&**reader, &*writer, 2, 3);
    }
    writer.close().unwrap();
    assert_eq!(before.next_element().unwrap(), 1);
}

/// A batch of one who has been replaced is refused whole, now and later; what its
/// successor keeps is not touched.
pub fn whoever_has_lost_the_lease_keeps_nothing(place: &dyn Place) {
    let mut first = place.open().unwrap();
    keep(&mut *first, &[Fact::Note("a", Some(vec![1]))]);
    place.end_lease();
    let late = [
        Fact::Note("a", Some(vec![9])),
        Fact::Note("b", Some(vec![9])),
    ];
    let refused = |first: &mut dyn Writer| {
        assert!(matches!(first.commit(&late), Err(Error::LeaseLost)));
    };
    refused(&mut *first);
    let mut second = place.open().unwrap();
    refused(&mut *first);
    keep(&mut *second, &[Fact::Note("a", Some(vec![2]))]);
    refused(&mut *first);
    assert_eq!(second.note("a").unwrap(), Some(vec![2]));
    assert_eq!(second.note("b").unwrap(), None);
    // It may still read.
    assert_eq!(first.note("a").unwrap(), Some(vec![2]));
}

/// Neither by this writer nor by the next, wherever the number is from and whatever
/// has become of what had it.
pub fn no_number_that_a_fact_has_is_given_again(place: &dyn Place) {
    let mut writer = place.open().unwrap();
    let numbers = writer.numbers();
    let (one, other) = (numbers.clone(), writer.numbers());
    let elements = [
        one.reserve(Numbered::Elements, 3).unwrap(),
        other.reserve(Numbered::Elements, 2).unwrap(),
    ];
    let mut given: Vec<u32> = elements.into_iter().flatten().collect();
    given.push(one.element().unwrap().0);
    let (source_id, group_id) = (one.source().unwrap(), other.group().unwrap());
    let new = |group, name: &str| {
        Fact::Group(Group {
            id: group,
            parent: None,
            name: name.into(),
        })
    };
    let mut facts: Vec<Fact> = given
        .iter()
        .map(|&id| Fact::Element(element(id, &id.to_string())))
        .collect();
    facts.push(Fact::Source(source(source_id.0)));
    facts.push(new(group_id, "a.example"));
    keep(&mut *writer, &facts);
    // From elsewhere.
    let far = given.iter().max().unwrap() + 100;
    let by_hand = [
        Fact::Element(element(far, "far")),
        Fact::Source(source(source_id.0 + 5)),
        new(group(group_id.number() + 5), "far.example"),
    ];
    keep(&mut *writer, &by_hand);
    let mut taken: BTreeSet<u32> = given.iter().copied().collect();
    assert_eq!(taken.len(), given.len());
    taken.insert(far);
    let of_source = SourceId(source_id.0 + 5);
    keep(&mut *writer, &[Fact::SourceRemoved(of_source)]);
    let check = |numbers: &Numbers| {
        let elements = numbers.reserve(Numbered::Elements, 150).unwrap();
        assert_eq!(elements.len(), 150);
        assert!(elements.into_iter().all(|id| !taken.contains(&id)));
        let sources: BTreeSet<u32> = (0..9).map(|_| numbers.source().unwrap().0).collect();
        assert_eq!(sources.len(), 9);
        assert!(!sources.contains(&source_id.0) && !sources.contains(&of_source.0));
        let groups: BTreeSet<GroupId> = (0..9).map(|_| numbers.group().unwrap()).collect();
        assert_eq!(groups.len(), 9);
        assert!(!groups.contains(&group_id));
        assert!(!groups.contains(&group(group_id.number() + 5)));
    };
    check(&numbers);
    writer.close().unwrap();
    check(&place.open().unwrap().numbers());
}

/// A note is replaced, and forgotten when there is nothing in its place.
pub fn notes_are_kept_and_forgotten(store: &mut dyn Writer) {
    let bytes = Some(vec![0, 255]);
    keep(
        store,
        &[Fact::Note("a", bytes.clone()), Fact::Note("b", None)],
    );
    assert_eq!(store.note("a").unwrap(), bytes);
    assert_eq!(store.note("b").unwrap(), None);
    keep(store, &[Fact::Note("a", Some(Vec::new()))]);
    assert_eq!(store.note("a").unwrap(), Some(Vec::new()));
    keep(store, &[Fact::Note("a", None)]);
    assert_eq!(store.note("a").unwrap(), None);
}

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
    for (number, kind) in (1..).zip([
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
        all.insert(0, Change { number, ..change });
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
    all.insert(0, Change { number: 5, ..bare });
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

/// Asks both stores everything about elements, sources and groups up to these
/// numbers and panics where they differ.
pub fn assert_same(a: &dyn Reader, b: &dyn Reader, n_elements: u32, n_others: u32) {
    assert_eq!(a.sources().unwrap(), b.sources().unwrap());
    assert_eq!(a.groups().unwrap(), b.groups().unwrap());
    assert_eq!(a.hosts().unwrap(), b.hosts().unwrap());
    assert_eq!(a.group_memories().unwrap(), b.group_memories().unwrap());
    for of in memories(n_others) {
        assert_eq!(a.memory(of).unwrap(), b.memory(of).unwrap(), "{of:?}");
    }
    assert_eq!(a.next_element().unwrap(), b.next_element().unwrap());
    assert_eq!(a.n_new().unwrap(), b.n_new().unwrap());
    assert_eq!(bodies(a), bodies(b));
    for stride in 0..4 {
        assert_eq!(scan(a, stride), scan(b, stride));
    }
    for limit in [0, 3, usize::MAX] {
        assert_eq!(
            a.latest_polls(limit).unwrap(),
            b.latest_polls(limit).unwrap()
        );
    }
    let elements = a.elements(None, ElementId(0), usize::MAX).unwrap();
    assert_eq!(
        elements,
        b.elements(None, ElementId(0), usize::MAX).unwrap()
    );
    for kept in &elements {
        let Element {
            source, locator, ..
        } = &kept.element;
        assert_eq!(
            a.find(*source, locator).unwrap(),
            b.find(*source, locator).unwrap()
        );
        assert_eq!(a.find_all(locator).unwrap(), b.find_all(locator).unwrap());
        let redirect = kept.copy.as_ref().and_then(|copy| copy.redirect.as_ref());
        let to = redirect.map_or(locator.as_str(), |redirect| &redirect.to);
        for limit in [0, 1, usize::MAX] {
            assert_eq!(
                a.redirected_to(*source, to, limit).unwrap(),
                b.redirected_to(*source, to, limit).unwrap()
            );
        }
        let ids = b.find_ids(*source, &[locator, "?"]).unwrap();
        assert_eq!(a.find_ids(*source, &[locator, "?"]).unwrap(), ids);
    }
    for id in (0..n_elements).map(ElementId) {
        assert_eq!(a.element(id).unwrap(), b.element(id).unwrap());
        for limit in [1, usize::MAX] {
            assert_eq!(a.polls(id, limit).unwrap(), b.polls(id, limit).unwrap());
        }
    }
    let moments = [i64::MIN, 0, 50, 99].map(Moment);
    for since in moments {
        assert_eq!(a.audits(since).unwrap(), b.audits(since).unwrap());
    }
    for number in 0..n_others {
        let (source, id) = (SourceId(number), group(number));
        assert_eq!(a.queries(source).unwrap(), b.queries(source).unwrap());
        for from in [0, n_elements / 2].map(ElementId) {
            for limit in [2, usize::MAX] {
                let page = b.elements(Some(source), from, limit).unwrap();
                assert_eq!(a.elements(Some(source), from, limit).unwrap(), page);
                let new = b.new_elements(id, from, limit).unwrap();
                assert_eq!(a.new_elements(id, from, limit).unwrap(), new);
            }
        }
    }
    for source in [None, Some(SourceId(0)), Some(SourceId(1))] {
        for element in [None, Some(ElementId(0)), Some(ElementId(1))] {
            for since in moments.map(Some).into_iter().chain([None]) {
                for (before, limit) in [(None, usize::MAX), (Some(7), 3)] {
                    let filter = ChangeFilter {
                        source,
                        element,
                        since,
                    };
                    let changes = b.changes(&filter, before, limit).unwrap();
                    assert_eq!(a.changes(&filter, before, limit).unwrap(), changes);
                }
            }
        }
    }
}

/// What can be remembered of partitions, sources and groups below a number.
fn memories(n: u32) -> Vec<MemoryOf> {
    let of_number = |number| {
        [
            MemoryOf::Scheduler(Partition(number)),
            MemoryOf::Pace(Partition(number)),
            MemoryOf::Search(SourceId(number)),
            MemoryOf::Group(group(number)),
        ]
    };
    (0..n).flat_map(of_number).collect()
}

fn keep(store: &mut dyn Writer, facts: &[Fact]) {
    store.commit(facts).expect("kept");
}

fn sources(store: &dyn Reader) -> Vec<Source> {
    store.sources().expect("sources")
}

fn changes(store: &dyn Reader, filter: &ChangeFilter) -> Vec<Change> {
    store.changes(filter, None, usize::MAX).expect("changes")
}

fn bodies(store: &dyn Reader) -> BTreeSet<BodyId> {
    let mut bodies = BTreeSet::new();
    store
        .bodies(&mut |body| {
            bodies.insert(body);
        })
        .expect("bodies");
    bodies
}

fn scan(store: &dyn Reader, stride: usize) -> Vec<(ElementId, Brief)> {
    let mut briefs = Vec::new();
    store
        .scan(stride, &mut |id, brief| briefs.push((id, *brief)))
        .expect("scanned");
    briefs
}

fn group(number: u32) -> GroupId {
    GroupId::new(number).expect("a group")
}

fn source(id: u32) -> Source {
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

fn failure(at: i64) -> Failure {
    Failure {
        kind: FailureKind::Timeout,
        message: "no answer within 30 s".into(),
        at: Moment(at),
    }
}

fn element(id: u32, locator: &str) -> Element {
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

fn kept(element: &Element) -> Kept {
    Kept::new(element.clone())
}

/// An element of which everything is known.
fn full(id: u32) -> Kept {
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

fn poll(element: u32, at: i64) -> Poll {
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

fn change(element: u32, found_at: i64) -> Change {
    Change {
        number: 999,
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

fn query(source: u32, text: &str) -> Query {
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
