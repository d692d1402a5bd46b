//! Why a fetch failed: a fact about the remote, kept and shown.

use std::fmt;

use springtide_store::FailureKind;

/// Why there is no answer that can be used.
///
/// The message is for users. It names hosts and paths, and never a header, a
/// password or a query, any of which may hold a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchFailure {
    /// What it was.
    pub kind: FailureKind,
    /// In a sentence.
    pub message: String,
}

impl FetchFailure {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

impl fmt::Display for FetchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FetchFailure {}
