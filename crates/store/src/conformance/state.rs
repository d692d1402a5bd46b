//! Sources, groups, hosts, what is remembered, notes and leases.

use std::collections::BTreeSet;

use super::Place;
use super::assert_same;
use super::same::memories;
use super::samples::{bodies, changes, element, failure, group, keep, scan, source, sources};
use crate::{
    ChangeFilter, ElementId, Error, Fact, Group, GroupId, Host, MemoryOf, Moment, Numbered,
    Numbers, Partition, Pause, Robots, RobotsAnswer, Source, SourceId, SourceKind, Totals, Writer,
};

/// Nothing, and no error, is what an empty store says.
pub fn an_empty_store_has_no_answers(store: &mut dyn Writer) {
    assert_eq!(sources(store), []);
    assert_eq!(store.groups().unwrap(), []);
    assert_eq!(store.hosts().unwrap(), []);
    assert_eq!(store.robots().unwrap(), []);
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

/// A host is kept whole and replaced whole; so are the robots.txt of a group, and neither
/// changes the other.
pub fn hosts_and_robots_txt_are_kept_each_for_itself(store: &mut dyn Writer) {
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
    };
    let bare = Host {
        group: group(2),
        requested_at: None,
        not_before: None,
        pause: None,
        n_failures: 0,
    };
    let rules = RobotsAnswer::Rules("Disallow: /".into());
    let mut of_host = vec![
        robots("https://b.example", rules.clone()),
        robots("http://b.example", RobotsAnswer::None),
        robots("http://b.example:81", RobotsAnswer::Unreachable),
    ];
    let other = vec![robots("https://a.example", rules)];
    keep(
        store,
        &[
            Fact::Host(host.clone()),
            Fact::Robots(host.group, of_host.clone()),
            Fact::Robots(bare.group, other.clone()),
            Fact::Host(bare.clone()),
        ],
    );
    let both = |of_host: &Vec<Robots>| [(group(2), other.clone()), (group(5), of_host.clone())];
    assert_eq!(store.hosts().unwrap(), [bare.clone(), host.clone()]);
    assert_eq!(store.robots().unwrap(), both(&of_host));
    host.requested_at = Some(Moment(9));
    host.pause = Some(Pause::BackOff);
    keep(store, &[Fact::Host(host.clone())]);
    assert_eq!(store.hosts().unwrap(), [bare.clone(), host.clone()]);
    assert_eq!(store.robots().unwrap(), both(&of_host));
    of_host[0].answer = RobotsAnswer::Rules(String::new());
    of_host.remove(1);
    keep(store, &[Fact::Robots(host.group, of_host.clone())]);
    assert_eq!(store.robots().unwrap(), both(&of_host));
    keep(store, &[Fact::Robots(host.group, Vec::new())]);
    assert_eq!(store.robots().unwrap(), [(group(2), other)]);
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
