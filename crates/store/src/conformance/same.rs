//! Whether two stores answer alike.

use super::samples::{bodies, group, scan};
use crate::{ChangeFilter, Element, ElementId, MemoryOf, Moment, Partition, Reader, SourceId};

/// Asks both stores everything about elements, sources and groups up to these
/// numbers and panics where they differ.
pub fn assert_same(a: &dyn Reader, b: &dyn Reader, n_elements: u32, n_others: u32) {
    assert_eq!(a.sources().unwrap(), b.sources().unwrap());
    assert_eq!(a.groups().unwrap(), b.groups().unwrap());
    assert_eq!(a.hosts().unwrap(), b.hosts().unwrap());
    assert_eq!(a.robots().unwrap(), b.robots().unwrap());
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
        for limit in [1, usize::MAX] {
            let failed = b.failed_polls(source, limit).unwrap();
            assert_eq!(a.failed_polls(source, limit).unwrap(), failed);
        }
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
pub(super) fn memories(n: u32) -> Vec<MemoryOf> {
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
