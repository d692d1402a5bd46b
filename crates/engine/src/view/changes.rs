//! Changes as programs see them: the rows of `log --json`, of a server and of notices.

use serde::Serialize;
use springtide_store::{Change, ChangeKind, Moment};

use super::{FieldChange, redacted};

/// A change that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeView {
    /// The number of the element.
    pub element: u32,
    /// The name of its source.
    pub source: String,
    /// Its address, or the id of a row.
    pub locator: String,
    /// When it was found.
    #[serde(serialize_with = "super::serialize_moment")]
    pub found_at: Option<Moment>,
    /// When the copy was last known to be fresh before.
    #[serde(serialize_with = "super::serialize_moment")]
    pub previous_poll_at: Option<Moment>,
    /// What happened: `changed`, `added`, `gone`, `back`.
    pub kind: &'static str,
    /// How long the body was.
    pub bytes_before: Option<u64>,
    /// How long it is.
    pub bytes_after: Option<u64>,
    /// The digest of what matters in it: `blake3:` and hex.
    pub digest: Option<String>,
    /// Of a row, what changed in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<FieldChange>>,
}

impl ChangeView {
    /// The change as it is shown: with the name of its source, the locator of its element
    /// and, of a row, what changed in it.
    pub fn new(
        change: &Change,
        source: &str,
        locator: &str,
        fields: Option<Vec<FieldChange>>,
    ) -> Self {
        Self {
            element: change.element.0,
            source: source.to_owned(),
            locator: redacted(locator).into_owned(),
            found_at: Some(change.found_at),
            previous_poll_at: change.previous_poll_at,
            kind: change_kind_name(change.kind),
            bytes_before: change.bytes_before,
            bytes_after: change.bytes_after,
            digest: change.digest.as_ref().map(digest_text),
            fields,
        }
    }
}

/// What happened, in a word.
pub fn change_kind_name(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Changed => "changed",
        ChangeKind::Added => "added",
        ChangeKind::Gone => "gone",
        ChangeKind::Back => "back",
    }
}

/// A digest as it is written: what it is, and hex.
pub fn digest_text(digest: &[u8; 32]) -> String {
    let mut text = String::with_capacity(7 + 64);
    text.push_str("blake3:");
    for byte in digest {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    text
}
