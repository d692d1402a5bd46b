//! The rows of a search source, in step with their file.

use std::collections::BTreeMap;
use std::path::Path;

use springtide_store::{
    Element, Fact, Failure, FailureKind, Kept, Moment, Role, Source, Totals, Walk, Writer,
};

use super::{
    BATCH, Error, GroupIds, Imported, Note, Notes, Reconciled, Stamp, bring_back, leave_out,
};
use crate::search::rows::{FileRow, FileRows, RowsError};
use crate::settings::{RowWeight, SourceSettings};
use crate::table::Range;

/// The group that the rows of a search source are in: what is usual there is usual for
/// no one else.
pub(crate) fn search_group(name: &str) -> String {
    format!("search:{name}")
}

/// The group that the entries of a feed are in.
pub(crate) fn feed_group(name: &str) -> String {
    format!("feed:{name}")
}

/// The group that the blocks of a table are in: its database is asked for nobody else.
pub(crate) fn table_group(name: &str) -> String {
    format!("table:{name}")
}

/// Writes a new table down, with one block for all its rows: the first poll cuts it.
pub(super) fn add_table(
    store: &mut dyn Writer,
    wanted: &SourceSettings,
    mut source: Source,
    group_ids: &mut GroupIds,
    mut facts: Vec<Fact>,
) -> Result<Source, Error> {
    let own = table_group(&wanted.name);
    let (host, group) = group_ids.find(&own, std::iter::once("0"), &mut facts)?;
    source.totals.n_elements = 1;
    source.totals.n_new = 1;
    facts.push(Fact::Source(source.clone()));
    facts.push(Fact::Element(Element {
        id: store.numbers().element()?,
        source: source.id,
        locator: Range::default().locator(&wanted.name),
        group,
        host,
        role: Role::Page,
        weight: wanted.weight as f32,
        depth: 0,
    }));
    facts.push(Fact::Totals(source.id, source.totals));
    store.commit(&facts)?;
    Ok(source)
}

/// Writes a new search source down, with the search box as an element, whose polls its
/// requests are.
pub(super) fn add_search(
    store: &mut dyn Writer,
    wanted: &SourceSettings,
    source: Source,
    group_ids: &mut GroupIds,
    mut facts: Vec<Fact>,
) -> Result<Source, Error> {
    let own = search_group(&wanted.name);
    let (host, group) = group_ids.find(&own, std::iter::empty(), &mut facts)?;
    facts.push(Fact::Source(source.clone()));
    facts.push(Fact::Element(Element {
        id: store.numbers().element()?,
        source: source.id,
        locator: wanted.url.clone(),
        group,
        host,
        role: Role::Listing,
        weight: wanted.weight as f32,
        depth: 0,
    }));
    facts.push(Fact::Totals(source.id, source.totals));
    store.commit(&facts)?;
    Ok(source)
}

/// A file of rows that is followed: read again whenever it has changed.
pub(super) struct FollowedRows<'a> {
    pub(super) wanted: &'a SourceSettings,
    pub(super) path: &'a Path,
    pub(super) now: Moment,
}

impl FollowedRows<'_> {
    pub(super) fn follow(
        &self,
        store: &mut dyn Writer,
        source: &Source,
        group_ids: &mut GroupIds,
        notes: &mut Notes,
        reconciled: &mut Reconciled,
    ) -> Result<(), Error> {
        let stamp = Stamp::of(self.path, &self.wanted.list);
        let weight = self.wanted.weight;
        let is_read = notes.get(source.id).is_some_and(|note| {
            note.stamp.is_some() && note.stamp == stamp && note.weight == weight
        });
        if is_read {
            // It may have been away for a while.
            if source
                .error
                .as_ref()
                .is_some_and(|error| error.kind == FailureKind::Rows)
            {
                store.commit(&[Fact::SourceError(source.id, None)])?;
            }
            return Ok(());
        }
        let failure = match FileRows::read(self.path).and_then(|file| self.check(file)) {
            Ok(file) => {
                let imported = self.take(store, source, file, group_ids)?;
                let name = self.wanted.name.clone();
                reconciled.imported.push((name, imported));
                notes.set(source.id, Note { stamp, weight });
                None
            }
            Err(error) => {
                let message = format!("{}: {error}", self.path.display());
                let failed = &mut reconciled.failed;
                failed.push((self.wanted.name.clone(), message.clone()));
                Some(Failure {
                    kind: FailureKind::Rows,
                    message,
                    at: self.now,
                })
            }
        };
        let mut facts = vec![notes.fact(), Fact::SourceError(source.id, failure)];
        if source.url != self.wanted.url {
            let sources = store.sources()?;
            let mut source = sources.into_iter().find(|other| other.id == source.id);
            if let Some(source) = &mut source {
                source.url.clone_from(&self.wanted.url);
            }
            facts.extend(source.map(Fact::Source));
            facts.rotate_right(1);
        }
        store.commit(&facts)?;
        Ok(())
    }

    /// That every attribute, and the weight, is a column, or a field of the answers.
    fn check(&self, file: FileRows) -> Result<FileRows, RowsError> {
        let search = self.wanted.search.as_ref();
        let fields = search.map_or(&[][..], |search| &search.answer.fields);
        let attributes = search.into_iter().flat_map(|search| &search.attributes);
        let weight = search.and_then(|search| match &search.staleness.as_ref()?.weight {
            RowWeight::Column(name) => Some(name),
            RowWeight::Number(_) => None,
        });
        let mut named = attributes.map(|(name, _)| name).chain(weight);
        let is_missing = |name: &&String| {
            file.column(name).is_none() && fields.iter().all(|(field, _)| field != *name)
        };
        match named.find(is_missing) {
            Some(name) => Err(RowsError::NoColumn(name.clone())),
            None => Ok(file),
        }
    }

    /// Takes in rows that are new, and leaves out those that came from the file and are
    /// no longer in it.
    fn take(
        &self,
        store: &mut dyn Writer,
        source: &Source,
        file: FileRows,
        group_ids: &mut GroupIds,
    ) -> Result<Imported, Error> {
        let mut rows: BTreeMap<String, FileRow> = BTreeMap::new();
        let mut order = Vec::with_capacity(file.rows.len());
        for row in file.rows {
            order.push(row.id.clone());
            rows.insert(row.id.clone(), row);
        }
        let mut imported = Imported {
            n_lines: order.len() as u64,
            ..Imported::default()
        };
        let mut totals = source.totals;
        let mut walk = Walk::new(Some(source.id), BATCH);
        while let Some(page) = walk.next(store)? {
            let mut facts = Vec::new();
            for kept in page {
                if kept.element.role != Role::Listing {
                    self.match_row(kept, &mut rows, &mut totals, &mut imported, &mut facts);
                }
            }
            facts.push(Fact::Totals(source.id, totals));
            store.commit(&facts)?;
        }
        let numbers = store.numbers();
        let new: Vec<&FileRow> = order.iter().filter_map(|id| rows.get(id)).collect();
        for some in new.chunks(BATCH) {
            let mut facts = Vec::new();
            let own = search_group(&self.wanted.name);
            let (host, group) = group_ids.find(&own, std::iter::empty(), &mut facts)?;
            for row in some {
                facts.push(Fact::Element(Element {
                    id: numbers.element()?,
                    source: source.id,
                    locator: row.id.clone(),
                    group,
                    host,
                    role: Role::Page,
                    weight: self.weight(row),
                    depth: 0,
                }));
            }
            totals.n_elements += some.len() as u64;
            totals.n_new += some.len() as u64;
            imported.n_added += some.len() as u64;
            facts.push(Fact::Totals(source.id, totals));
            store.commit(&facts)?;
        }
        Ok(imported)
    }

    /// A row that is known, as the file has it now.
    fn match_row(
        &self,
        mut kept: Kept,
        rows: &mut BTreeMap<String, FileRow>,
        totals: &mut Totals,
        imported: &mut Imported,
        facts: &mut Vec<Fact>,
    ) {
        let is_from_file = kept.element.depth == 0;
        match rows.remove(&kept.element.locator) {
            Some(row) => {
                let weight = self.weight(&row);
                if kept.is_unlisted {
                    bring_back(&mut kept, totals);
                } else if kept.element.weight == weight && is_from_file {
                    return;
                }
                (kept.element.weight, kept.element.depth) = (weight, 0);
                facts.push(Fact::Element(kept.element.clone()));
                facts.push(Fact::Kept(Box::new(kept)));
            }
            None if is_from_file && !kept.is_unlisted => {
                leave_out(&mut kept, totals, self.now);
                imported.n_unlisted += 1;
                facts.push(Fact::Kept(Box::new(kept)));
            }
            None => {}
        }
    }

    fn weight(&self, row: &FileRow) -> f32 {
        (self.wanted.weight * row.weight) as f32
    }
}
