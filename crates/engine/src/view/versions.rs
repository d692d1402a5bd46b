//! The versions of an element that are kept, and what changed between two of them.

use std::ops::RangeInclusive;

use springtide_store::{Bodies, Change, ChangeFilter, ElementId, Error, Reader, Reading};

use crate::detect::{self, BadSelector, Lens};
use crate::settings::SourceSettings;

/// Lines around a change.
const CONTEXT: usize = 3;
/// Versions that are read; nobody goes further back by number.
const MOST_VERSIONS: usize = 100_000;

/// The versions of an element that are kept, the oldest first. They are numbered from 1, and
/// keep their numbers when older ones are forgotten.
#[derive(Debug)]
pub struct Versions {
    changes: Vec<Change>,
    lens: Lens,
}

/// Why two versions cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VersionsError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
    /// The settings of the source are no good.
    #[error(transparent)]
    Selector(#[from] BadSelector),
    /// There is no such version.
    #[error("there is no version {0}")]
    Unknown(u64),
    /// The body of a version is not kept any longer, or is damaged.
    #[error("version {0} is no longer kept")]
    NotKept(u64),
}

impl Versions {
    /// Those of an element of a source, seen as its settings have it.
    ///
    /// # Errors
    /// If the store cannot be read, or if what matters in the source is ill-defined.
    pub fn read(
        store: &dyn Reader,
        element: ElementId,
        settings: Option<&SourceSettings>,
    ) -> Result<Self, VersionsError> {
        let filter = ChangeFilter {
            element: Some(element),
            ..ChangeFilter::default()
        };
        let mut changes = store.changes(&filter, None, MOST_VERSIONS)?;
        changes.retain(Change::is_version);
        changes.reverse();
        let lens = match settings {
            Some(settings) => Lens::new(&settings.keep, &settings.drop)?,
            None => Lens::default(),
        };
        Ok(Self { changes, lens })
    }

    /// The changes that brought them, the oldest first.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The numbers of those that there are, if there are any.
    pub fn numbers(&self) -> Option<RangeInclusive<u64>> {
        let (first, last) = self.changes.first().zip(self.changes.last())?;
        Some(first.version..=last.version)
    }

    /// The version that a change brought, by the number of the change.
    pub fn of_change(&self, number: u64) -> Option<u64> {
        let change = self.changes.iter().find(|c| c.number == number)?;
        Some(change.version)
    }

    /// The change that brought a version.
    ///
    /// # Errors
    /// If there is none of this number.
    pub fn get(&self, version: u64) -> Result<&Change, VersionsError> {
        let place = self.changes.binary_search_by_key(&version, |c| c.version);
        let change = place.ok().and_then(|place| self.changes.get(place));
        change.ok_or(VersionsError::Unknown(version))
    }

    /// The body of a version.
    ///
    /// # Errors
    /// If there is no such version, or if it is no longer kept.
    pub fn body(&self, version: u64, bodies: &Bodies<Reading>) -> Result<Vec<u8>, VersionsError> {
        let missing = VersionsError::NotKept(version);
        match self.get(version)?.body {
            Some(body) => bodies.get(body).map_err(|_| missing),
            None => Err(missing),
        }
    }

    /// What matters in a version, as lines.
    ///
    /// # Errors
    /// As [`body`](Self::body).
    pub fn text(&self, version: u64, bodies: &Bodies<Reading>) -> Result<String, VersionsError> {
        let body = self.body(version, bodies)?;
        let content_type = self.get(version)?.content_type.as_deref();
        Ok(self.lens.extract(&body, content_type).text)
    }

    /// What changed from one version to another: hunks of a unified diff, without its
    /// two first lines; empty if nothing that matters did.
    ///
    /// # Errors
    /// As [`body`](Self::body).
    pub fn diff(
        &self,
        before: u64,
        after: u64,
        bodies: &Bodies<Reading>,
    ) -> Result<String, VersionsError> {
        let (old, new) = (self.text(before, bodies)?, self.text(after, bodies)?);
        Ok(detect::diff(&old, &new, CONTEXT))
    }
}
