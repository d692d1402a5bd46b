//! Why a fetch failed: a fact about the remote, kept and shown.

use std::fmt;

/// Why there is no answer that can be used.
///
/// The message is for users. It names hosts and paths, and never a header, a
/// password or a query, any of which may hold a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchFailure {
    /// In one word.
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

/// A failure in one word. The words are kept in stores and shown to users: they
/// do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The name has no address.
    Dns,
    /// No connection.
    Connect,
    /// No secure connection.
    Tls,
    /// It took too long.
    Timeout,
    /// The connection broke before the answer was whole.
    Reset,
    /// What came was not HTTP.
    Protocol,
    /// More bytes than we take.
    TooLarge,
    /// A content encoding that is unknown, broken or cut short.
    Encoding,
    /// An address where we may not connect.
    Address,
    /// A URL that we do not ask.
    Url,
    /// Too many redirects, a loop, or nowhere to go.
    Redirects,
    /// The site asks us to keep away.
    Robots,
    /// A status that says no.
    Status,
    /// An answer that makes no sense of the request: a 304 to one without validators.
    Answer,
}

impl FailureKind {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Protocol => "protocol",
            Self::TooLarge => "too-large",
            Self::Encoding => "encoding",
            Self::Address => "address",
            Self::Url => "url",
            Self::Redirects => "redirects",
            Self::Robots => "robots",
            Self::Status => "status",
            Self::Answer => "answer",
        }
    }

    /// Whether the host is in trouble and should be left alone for a while, rather
    /// than the one page.
    ///
    /// A status is judged by [`Answer::is_host_trouble`](super::Answer::is_host_trouble)
    /// instead.
    pub fn is_host_trouble(self) -> bool {
        match self {
            Self::Dns
            | Self::Connect
            | Self::Tls
            | Self::Timeout
            | Self::Reset
            | Self::Protocol => true,
            Self::TooLarge
            | Self::Encoding
            | Self::Address
            | Self::Url
            | Self::Redirects
            | Self::Robots
            | Self::Status
            | Self::Answer => false,
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
