//! The groups that elements are in, found or made.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use springtide_store::{Error, Fact, Group, GroupId, Numbers, Writer};

/// The numbers of groups by their paths, in a few bytes each.
///
/// Outermost groups, on which politeness depends, are known by their names. Of the
/// rest, of which there may be millions, only a keyed hash of parent and name is kept:
/// that two collide is as good as impossible, and would make one group of two
/// directories.
pub(crate) struct GroupIds {
    outermost: HashMap<String, GroupId>,
    inner: HashMap<u64, GroupId>,
    hash: RandomState,
    numbers: Numbers,
}

impl GroupIds {
    pub(crate) fn read(store: &dyn Writer) -> Result<Self, Error> {
        let mut group_ids = Self {
            outermost: HashMap::new(),
            inner: HashMap::new(),
            hash: RandomState::new(),
            numbers: store.numbers(),
        };
        for group in store.groups()? {
            match group.parent {
                None => {
                    group_ids.outermost.insert(group.name, group.id);
                }
                Some(parent) => {
                    let key = group_ids.hash.hash_one((parent, &*group.name));
                    group_ids.inner.insert(key, group.id);
                }
            }
        }
        Ok(group_ids)
    }

    /// The outermost and the innermost group of a path, and what has to be written
    /// down for them to be there.
    pub(crate) fn find<'a>(
        &mut self,
        outermost: &str,
        inner: impl Iterator<Item = &'a str>,
        facts: &mut Vec<Fact>,
    ) -> Result<(GroupId, GroupId), Error> {
        let host = match self.outermost.get(outermost) {
            Some(&group) => group,
            None => {
                let group = self.make(None, outermost, facts)?;
                self.outermost.insert(outermost.to_owned(), group);
                group
            }
        };
        let mut group = host;
        for name in inner {
            let key = self.hash.hash_one((group, name));
            group = match self.inner.get(&key) {
                Some(&inner) => inner,
                None => {
                    let inner = self.make(Some(group), name, facts)?;
                    self.inner.insert(key, inner);
                    inner
                }
            };
        }
        Ok((host, group))
    }

    fn make(
        &mut self,
        parent: Option<GroupId>,
        name: &str,
        facts: &mut Vec<Fact>,
    ) -> Result<GroupId, Error> {
        let id = self.numbers.group()?;
        facts.push(Fact::Group(Group {
            id,
            parent,
            name: name.to_owned(),
        }));
        Ok(id)
    }
}
