//! What evidence of changes has been worth, by source and kind: hints of sitemaps, of
//! feeds and of pushes, and the validators that servers send.
//!
//! It is counted here and shown; what a hint means for the schedule is learned by the
//! policy, group by group.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use springtide_store::{ElementId, Fact, Moment, Reader, SourceId, SourceKind};

/// The name of the note.
const NOTE: &str = "trust";
/// Counts are kept this often, and when a run ends: what a crash costs is seconds of
/// them.
const KEPT_EVERY_MS: i64 = 10_000;
/// Elements of which it is remembered that they were hinted at; of more, nothing is
/// counted.
const MOST_HINTED: usize = 200_000;

/// Where a hint came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HintKind {
    /// The lastmod of a sitemap.
    Lastmod,
    /// An entry of a feed.
    Feed,
    /// Somebody told us.
    Push,
}

impl HintKind {
    /// What listings of a kind of source give.
    pub(crate) fn of_listing(kind: SourceKind) -> Self {
        match kind {
            SourceKind::Feed => Self::Feed,
            _ => Self::Lastmod,
        }
    }
}

/// What hints of one kind have been worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct HintCounts {
    /// Polls after a hint, and those of them that found a change.
    n: u64,
    n_true: u64,
    /// Changes that were found since the first hint.
    n_changes: u64,
    /// How long after the change a hint came, of those where that is known.
    delay_ms: f64,
    n_delays: u64,
}

/// What a validator has been worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct ValidatorCounts {
    n: u64,
    n_false: u64,
    is_used: bool,
}

/// What a table's cursor has been worth, in rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct CursorCounts {
    /// Rows that it showed to have come or changed.
    n_shown: u64,
    /// Rows of which a poll of a block showed it, and it should have before.
    n_missed: u64,
}

/// All that is counted of a source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct SourceCounts {
    hints: BTreeMap<HintKind, HintCounts>,
    etag: ValidatorCounts,
    last_modified: ValidatorCounts,
    cursor: CursorCounts,
}

/// What evidence has been worth, while it runs.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    of: BTreeMap<u32, SourceCounts>,
    /// When an element was first hinted at since its last poll, by kind.
    hinted: BTreeMap<ElementId, Vec<(HintKind, Moment)>>,
    is_unkept: bool,
    kept_at: Option<Moment>,
}

/// What a poll showed, for what is counted here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PollEvidence {
    pub(crate) at: Moment,
    /// Whether it found a change, and of how long before, if that is known.
    pub(crate) has_changed: bool,
    /// Whether it was a listing, which tells of others and not of itself.
    pub(crate) is_listing: bool,
    pub(crate) age_ms: Option<i64>,
}

impl Trust {
    /// What was kept of sources that there still are.
    pub(crate) fn read(store: &dyn Reader) -> Result<Self, springtide_store::Error> {
        let mut of = read_note(store)?;
        let sources = store.sources()?;
        of.retain(|id, _| sources.iter().any(|source| source.id.0 == *id));
        Ok(Self {
            of,
            ..Self::default()
        })
    }

    /// Somebody says that an element has changed.
    pub(crate) fn hint(&mut self, source: SourceId, id: ElementId, kind: HintKind, at: Moment) {
        let is_full = self.hinted.len() >= MOST_HINTED;
        if is_full && !self.hinted.contains_key(&id) {
            return;
        }
        let hints = self.hinted.entry(id).or_default();
        if hints.iter().all(|(known, _)| *known != kind) {
            hints.push((kind, at));
        }
        self.of
            .entry(source.0)
            .or_default()
            .hints
            .entry(kind)
            .or_default();
    }

    /// An element was polled, and answered.
    pub(crate) fn note_poll(&mut self, source: SourceId, id: ElementId, evidence: PollEvidence) {
        let hinted = self.hinted.remove(&id);
        let Some(of) = self.of.get_mut(&source.0) else {
            return;
        };
        for (kind, counts) in &mut of.hints {
            if evidence.is_listing && *kind != HintKind::Push {
                continue;
            }
            counts.n_changes += u64::from(evidence.has_changed);
            let hint = hinted.iter().flatten().find(|(known, _)| known == kind);
            self.is_unkept |= evidence.has_changed || hint.is_some();
            let Some((_, hinted_at)) = hint else {
                continue;
            };
            counts.n += 1;
            counts.n_true += u64::from(evidence.has_changed);
            if let Some(age) = evidence.age_ms.filter(|_| evidence.has_changed) {
                let changed_at = evidence.at.0.saturating_sub(age);
                // A change after the hint is another than the one it told of.
                if changed_at <= hinted_at.0 {
                    counts.delay_ms += (hinted_at.0 - changed_at) as f64;
                    counts.n_delays += 1;
                }
            }
        }
    }

    /// A poll showed a tag of ours to be true or false.
    pub(crate) fn note_etag(&mut self, source: SourceId, is_false: bool) {
        let of = self.of.entry(source.0).or_default();
        of.etag.n += 1;
        of.etag.n_false += u64::from(is_false);
        of.etag.is_used = true;
        self.is_unkept = true;
    }

    /// A poll showed a date of ours to be true or false; dates are believed, or not.
    pub(crate) fn note_date(&mut self, source: SourceId, is_false: bool, is_used: bool) {
        let of = self.of.entry(source.0).or_default();
        of.last_modified.n += 1;
        of.last_modified.n_false += u64::from(is_false);
        of.last_modified.is_used = is_used;
        self.is_unkept = true;
    }

    /// A cursor showed changes of so many rows, and missed those of so many.
    pub(crate) fn note_cursor(&mut self, source: SourceId, n_shown: usize, n_missed: usize) {
        if n_shown + n_missed > 0 {
            let cursor = &mut self.of.entry(source.0).or_default().cursor;
            cursor.n_shown += n_shown as u64;
            cursor.n_missed += n_missed as u64;
            self.is_unkept = true;
        }
    }

    /// What is to be kept, if it is time, or at the end.
    pub(crate) fn take_unkept(&mut self, now: Moment, is_over: bool) -> Option<Fact> {
        let is_time = self
            .kept_at
            .is_none_or(|at| !(0..KEPT_EVERY_MS).contains(&(now.0 - at.0)));
        if !self.is_unkept || !is_time && !is_over {
            return None;
        }
        (self.is_unkept, self.kept_at) = (false, Some(now));
        let bytes = serde_json::to_vec(&self.of).unwrap_or_default();
        Some(Fact::Note(NOTE, Some(bytes)))
    }
}

fn read_note(store: &dyn Reader) -> Result<BTreeMap<u32, SourceCounts>, springtide_store::Error> {
    let note = store.note(NOTE)?;
    let known = note.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(known.unwrap_or_default())
}

/// What a kind of evidence has been worth, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TrustView {
    /// Hints.
    Hints {
        /// The share of hints after which the element had changed.
        precision: Option<f64>,
        /// The share of changes that were hinted at.
        recall: Option<f64>,
        /// How long after the change they came, on the mean, where that is known.
        delay_seconds: Option<f64>,
        /// Hints that a poll has shown to be right or wrong.
        n: u64,
    },
    /// A validator.
    Validator {
        /// Polls that were answered, of copies that had one.
        n: u64,
        /// Those that showed that it was wrong.
        n_false: u64,
        /// Whether it is relied on.
        is_used: bool,
    },
}

/// What evidence has been worth, by source and kind.
pub type TrustBySource = BTreeMap<SourceId, BTreeMap<&'static str, TrustView>>;

/// What evidence has been worth for each source; of a kind that was never met, nothing.
///
/// # Errors
/// If the store cannot be read.
pub fn trust(store: &dyn Reader) -> Result<TrustBySource, springtide_store::Error> {
    let shown = read_note(store)?;
    let shown = shown
        .into_iter()
        .map(|(id, of)| (SourceId(id), shown_of(&of)));
    Ok(shown.collect())
}

fn shown_of(of: &SourceCounts) -> BTreeMap<&'static str, TrustView> {
    let mut shown = BTreeMap::new();
    let share = |n: u64, of: u64| (of > 0).then(|| n as f64 / of as f64);
    for (kind, counts) in &of.hints {
        if counts.n == 0 {
            continue;
        }
        let name = match kind {
            HintKind::Lastmod => "lastmod",
            HintKind::Feed => "feed",
            HintKind::Push => "push",
        };
        let delay = share(1, counts.n_delays).map(|each| counts.delay_ms * each / 1000.0);
        let view = TrustView::Hints {
            precision: share(counts.n_true, counts.n),
            recall: share(counts.n_true, counts.n_changes),
            delay_seconds: delay,
            n: counts.n,
        };
        shown.insert(name, view);
    }
    let CursorCounts { n_shown, n_missed } = of.cursor;
    if n_shown + n_missed > 0 {
        let view = TrustView::Hints {
            // What it shows has changed: it is there to be seen.
            precision: (n_shown > 0).then_some(1.0),
            recall: share(n_shown, n_shown + n_missed),
            delay_seconds: None,
            n: n_shown,
        };
        shown.insert("cursor", view);
    }
    for (name, counts) in [("etag", of.etag), ("last_modified", of.last_modified)] {
        if counts.n > 0 {
            let view = TrustView::Validator {
                n: counts.n,
                n_false: counts.n_false,
                is_used: counts.is_used,
            };
            shown.insert(name, view);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_worth_what_polls_after_them_showed() {
        let (source, mut trust) = (SourceId(3), Trust::default());
        let shown = |at, has_changed, age_ms| PollEvidence {
            at: Moment(at),
            has_changed,
            is_listing: false,
            age_ms,
        };
        // Before anything was hinted at, nothing is counted.
        trust.note_poll(source, ElementId(1), shown(0, true, None));
        trust.hint(source, ElementId(1), HintKind::Push, Moment(10_000));
        trust.hint(source, ElementId(1), HintKind::Push, Moment(11_000));
        trust.hint(source, ElementId(2), HintKind::Push, Moment(10_000));
        // Two seconds before it was hinted at.
        trust.note_poll(source, ElementId(1), shown(20_000, true, Some(12_000)));
        trust.note_poll(source, ElementId(2), shown(20_000, false, None));
        trust.note_poll(source, ElementId(1), shown(30_000, true, Some(0)));
        trust.note_etag(source, false);
        let views = shown_of(&trust.of[&3]);
        assert_eq!(views.keys().copied().collect::<Vec<_>>(), ["etag", "push"]);
        assert_eq!(
            views["push"],
            TrustView::Hints {
                precision: Some(0.5),
                recall: Some(0.5),
                delay_seconds: Some(2.0),
                n: 2
            }
        );
        trust.note_cursor(source, 3, 1);
        let views = shown_of(&trust.of[&3]);
        assert!(
            matches!(views["cursor"], TrustView::Hints { recall, n, .. } if recall == Some(0.75) && n == 3)
        );
        let is_kept = |fact: Option<Fact>| matches!(fact, Some(Fact::Note(NOTE, Some(_))));
        assert!(is_kept(trust.take_unkept(Moment(30_000), false)));
        trust.note_date(source, true, false);
        assert!(!is_kept(trust.take_unkept(Moment(31_000), false)));
        assert!(is_kept(trust.take_unkept(Moment(31_000), true)));
    }
}
