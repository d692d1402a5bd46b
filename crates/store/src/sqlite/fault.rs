//! What SQLite says of a failure, and what that means to the one who met it.

use rusqlite::ErrorCode;

use crate::Error;

/// A failure on its way out of this module. Outside, [`Error`] names no database.
#[derive(Debug)]
pub(crate) struct Fault(Error);

/// What the functions of this module give.
pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

/// Something is not as it was written.
pub(super) fn damaged(what: impl Into<String>) -> Fault {
    Fault(Error::Damaged(what.into()))
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        let Some(code) = error.sqlite_error_code() else {
            return Self(without_code(error));
        };
        Self(match code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Busy(error.into()),
            ErrorCode::DiskFull => Error::Full(error.into()),
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch => {
                Error::Damaged(error.to_string())
            }
            ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::AuthorizationForStatementDenied => Error::Denied(error.into()),
            _ => Error::Failed(error.into()),
        })
    }
}

/// Failures that are not SQLite's own: of those who bind values and read rows.
fn without_code(error: rusqlite::Error) -> Error {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::QueryReturnedNoRows => Error::Damaged(error.to_string()),
        error => Error::Failed(error.into()),
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        fault.0
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn errors_say_what_can_be_done() {
        let error = |code| {
            let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            Error::from(Fault::from(failure))
        };
        assert!(matches!(error(ffi::SQLITE_BUSY), Error::Busy(_)));
        assert!(matches!(error(ffi::SQLITE_FULL), Error::Full(_)));
        assert!(matches!(error(ffi::SQLITE_CORRUPT), Error::Damaged(_)));
        assert!(matches!(error(ffi::SQLITE_NOTADB), Error::Damaged(_)));
        assert!(matches!(error(ffi::SQLITE_READONLY), Error::Denied(_)));
        assert!(matches!(error(ffi::SQLITE_CANTOPEN), Error::Denied(_)));
        assert!(matches!(error(ffi::SQLITE_IOERR), Error::Failed(_)));
        let unread = rusqlite::Error::IntegralValueOutOfRange(3, -1);
        let unread = Error::from(Fault::from(unread));
        assert!(matches!(unread, Error::Damaged(what) if what.contains("-1")));
    }
}
