//! What goes wrong with sources and elements: facts about the remote, kept and shown.

use std::fmt;

use crate::Moment;

/// What went wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What it was.
    pub kind: FailureKind,
    /// In a sentence.
    pub message: String,
    /// When.
    pub at: Moment,
}

macro_rules! failure_kinds {
    ($($(#[$doc:meta])+ $kind:ident = $name:literal,)+) => {
        /// What went wrong, of all that can.
        ///
        /// Each kind has a name, by which it is kept in stores and shown to users:
        /// names do not change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum FailureKind {
            $($(#[$doc])+ $kind,)+
        }

        impl FailureKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// The kind of this name; [`Other`](Self::Other) if there is none, as
            /// in a store that a later version has written to.
            pub fn from_name(name: &str) -> Self {
                match name {
                    $($name => Self::$kind,)+
                    _ => Self::Other,
                }
            }
        }
    };
}

failure_kinds! {
    /// The name has no address.
    Dns = "dns",
    /// No connection.
    Connect = "connect",
    /// No secure connection.
    Tls = "tls",
    /// It took too long.
    Timeout = "timeout",
    /// The connection broke before the answer was whole.
    Reset = "reset",
    /// What came was not HTTP.
    Protocol = "protocol",
    /// More bytes than we take.
    TooLarge = "too-large",
    /// A content encoding that is unknown, broken or cut short.
    Encoding = "encoding",
    /// An address where we may not connect.
    Address = "address",
    /// A URL that we do not ask.
    Url = "url",
    /// Too many redirects, a loop, or nowhere to go.
    Redirects = "redirects",
    /// The site asks us to keep away.
    Robots = "robots",
    /// A status that says no.
    Status = "status",
    /// An answer that makes no sense of the request: a 304 to one without validators.
    Answer = "answer",
    /// The element was not there at the last poll; it is gone if the next agrees.
    NotFound = "not-found",
    /// The element is no longer there.
    Gone = "gone",
    /// The element is at an address that another element has.
    Moved = "moved",
    /// The list that named the element no longer does.
    Unlisted = "unlisted",
    /// No query returns the row, and it cannot be asked for otherwise.
    Unreached = "unreached",
    /// A file with addresses cannot be read.
    List = "list",
    /// A listing is longer or deeper than we take.
    Listing = "listing",
    /// The file with the rows of a search source cannot be read.
    Rows = "rows",
    /// A database says that it cannot be done.
    Database = "database",
    /// Something that this version has no name for.
    Other = "other",
}

impl FailureKind {
    /// Whether the host is in trouble and should be left alone for a while, rather
    /// than the one element.
    ///
    /// Of [`Status`](Self::Status) the status itself says more.
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
            | Self::Answer
            | Self::NotFound
            | Self::Gone
            | Self::Moved
            | Self::Unlisted
            | Self::Unreached
            | Self::List
            | Self::Listing
            | Self::Rows
            | Self::Database
            | Self::Other => false,
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name() {
        for &kind in FailureKind::ALL {
            assert_eq!(FailureKind::from_name(kind.name()), kind);
        }
        assert_eq!(FailureKind::from_name("eclipse"), FailureKind::Other);
    }
}
