//! Numbers for what is new.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{ElementId, Error, Fact, GroupId, SourceId};

/// What has numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Numbered {
    /// Sources.
    Sources,
    /// Groups.
    Groups,
    /// Elements.
    Elements,
}

impl fmt::Display for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sources => "sources",
            Self::Groups => "groups",
            Self::Elements => "elements",
        })
    }
}

/// Where a writer's new sources, groups and elements have their numbers from: in the
/// order of asking, each once.
///
/// Clones share what is left, so several threads may number what one of them will
/// commit. A number that was given and is in no fact by the time the writer is closed is
/// given again by the next.
#[derive(Debug, Clone)]
pub struct Numbers(Arc<Mutex<Next>>);

/// The numbers that come next.
#[derive(Debug)]
struct Next {
    source: u32,
    group: u32,
    element: u32,
}

impl Next {
    fn of(&mut self, what: Numbered) -> &mut u32 {
        match what {
            Numbered::Sources => &mut self.source,
            Numbered::Groups => &mut self.group,
            Numbered::Elements => &mut self.element,
        }
    }
}

impl Numbers {
    /// From these numbers on, of sources, groups and elements.
    pub fn starting_at(source: u32, group: u32, element: u32) -> Self {
        Self(Arc::new(Mutex::new(Next {
            source,
            group,
            element,
        })))
    }

    /// So many numbers that nobody else has or gets.
    ///
    /// # Errors
    /// If there are not so many left.
    pub fn reserve(&self, what: Numbered, n: u32) -> Result<Range<u32>, Error> {
        let mut next = self.next();
        let next = next.of(what);
        let from = *next;
        *next = from.checked_add(n).ok_or(Error::NoNumberLeft(what))?;
        Ok(from..*next)
    }

    /// The number of a new source.
    ///
    /// # Errors
    /// If there are none left.
    pub fn source(&self) -> Result<SourceId, Error> {
        Ok(SourceId(self.reserve(Numbered::Sources, 1)?.start))
    }

    /// The number of a new group.
    ///
    /// # Errors
    /// If there are none left.
    pub fn group(&self) -> Result<GroupId, Error> {
        let number = self.reserve(Numbered::Groups, 1)?.start;
        GroupId::new(number).ok_or(Error::NoNumberLeft(Numbered::Groups))
    }

    /// The number of a new element.
    ///
    /// # Errors
    /// If there are none left.
    pub fn element(&self) -> Result<ElementId, Error> {
        Ok(ElementId(self.reserve(Numbered::Elements, 1)?.start))
    }

    /// Numbers in facts that are kept are taken, wherever they are from: for stores.
    pub fn take(&self, facts: &[Fact]) {
        let mut next = self.next();
        for fact in facts {
            let (what, number) = match fact {
                Fact::Source(source) => (Numbered::Sources, source.id.0),
                Fact::Group(group) => (Numbered::Groups, group.id.number()),
                Fact::Element(element) => (Numbered::Elements, element.id.0),
                Fact::Kept(kept) => (Numbered::Elements, kept.element.id.0),
                _ => continue,
            };
            let next = next.of(what);
            *next = (*next).max(number.saturating_add(1));
        }
    }

    fn next(&self) -> MutexGuard<'_, Next> {
        // A panic elsewhere leaves numbers as they are.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_given_twice_and_they_run_out() {
        let numbers = Numbers::starting_at(0, 0, u32::MAX - 12);
        let clone = numbers.clone();
        let elements = |numbers: &Numbers, n| numbers.reserve(Numbered::Elements, n);
        assert_eq!(elements(&numbers, 10).unwrap().len(), 10);
        assert_eq!(clone.element().unwrap(), ElementId(u32::MAX - 2));
        let refused = elements(&numbers, 2);
        let error = refused.unwrap_err();
        assert_eq!(
            error.to_string(),
            "there are more elements than can be numbered"
        );
        assert_eq!(numbers.element().unwrap(), ElementId(u32::MAX - 1));
        assert!(clone.element().is_err());
        assert_eq!(clone.source().unwrap(), SourceId(0));
        assert_eq!(clone.group().unwrap().number(), 0);
        assert_eq!(numbers.group().unwrap().number(), 1);
    }
}
