//! Elements by the hash of their locator.
//!
//! Hashes of new locators fall anywhere among those there are. In one tree of ten
//! million, ten thousand insertions write nearly as many pages; so they go into a
//! small tree first, and whenever that is full, in their order into a larger one,
//! and from there into the one that holds most. A lookup asks all three.
//!
//! Entries of elements that are gone, or have moved, stay until they are built
//! again: a lookup compares the locator itself, and numbers are not given twice.

use rusqlite::{Connection, params};

use super::counter;
use super::fault::Result;
use crate::ElementId;

/// How many there are in the smallest tree when they move on: it then takes some
/// 300 pages.
const MOST_NEW: i64 = 1 << 16;
/// The same for the second, which then takes some 5,000 pages.
const MOST_YOUNG: i64 = 1 << 20;

/// Part of a statement: the elements whose locator may have the hash `?1`.
macro_rules! candidates {
    () => {
        "(SELECT element FROM locator_new WHERE hash = ?1 \
          UNION ALL SELECT element FROM locator_young WHERE hash = ?1 \
          UNION ALL SELECT element FROM locator_old WHERE hash = ?1)"
    };
}
pub(super) use candidates;

/// The hash of a locator.
pub(super) fn hash(locator: &str) -> i64 {
    let digest: [u8; 32] = blake3::hash(locator.as_bytes()).into();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_le_bytes(first)
}

/// How many there are in the smaller trees, while a batch is written.
pub(super) struct Locators {
    n_new: i64,
    n_young: i64,
    is_changed: bool,
}

impl Locators {
    pub(super) fn empty() -> Self {
        Self {
            n_new: 0,
            n_young: 0,
            is_changed: true,
        }
    }

    pub(super) fn load(connection: &Connection) -> Result<Self> {
        Ok(Self {
            n_new: counter::load(connection, counter::N_LOCATORS_NEW)?,
            n_young: counter::load(connection, counter::N_LOCATORS_YOUNG)?,
            is_changed: false,
        })
    }

    pub(super) fn add(
        &mut self,
        connection: &Connection,
        element: ElementId,
        locator: &str,
    ) -> Result<()> {
        connection
            .prepare_cached("INSERT OR IGNORE INTO locator_new (hash, element) VALUES (?, ?)")?
            .execute(params![hash(locator), element.0])?;
        self.n_new += 1;
        self.is_changed = true;
        if self.n_new >= MOST_NEW {
            connection.execute_batch(
                "INSERT OR IGNORE INTO locator_young SELECT hash, element FROM locator_new;
                 DELETE FROM locator_new;",
            )?;
            self.n_young += self.n_new;
            self.n_new = 0;
        }
        if self.n_young >= MOST_YOUNG {
            connection.execute_batch(
                "INSERT OR IGNORE INTO locator_old SELECT hash, element FROM locator_young;
                 DELETE FROM locator_young;",
            )?;
            self.n_young = 0;
        }
        Ok(())
    }

    pub(super) fn save(&self, connection: &Connection) -> Result<()> {
        if self.is_changed {
            counter::save(connection, counter::N_LOCATORS_NEW, self.n_new)?;
            counter::save(connection, counter::N_LOCATORS_YOUNG, self.n_young)?;
        }
        Ok(())
    }
}
