//! The numbers by which closed sets are written.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use crate::{
    ChangeKind, FailureKind, MemoryOf, Moment, Pause, PollOutcome, Purpose, Role, SourceId,
    SourceKind, State,
};

/// Something that is written as a small number. Numbers are never given to
/// something else.
pub(super) trait Code: Copy + Sized {
    fn code(self) -> u8;
    fn from_code(code: u8) -> Option<Self>;
}

macro_rules! codes {
    ($type:ident { $($name:ident = $code:literal),+ $(,)? }) => {
        impl Code for $type {
            fn code(self) -> u8 {
                match self {
                    $(Self::$name => $code),+
                }
            }

            fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)+
                    _ => None,
                }
            }
        }
    };
}

macro_rules! columns {
    ($($type:ident),+) => {$(
        impl ToSql for $type {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.code().into())
            }
        }

        impl FromSql for $type {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let code = u8::column_result(value)?;
                Self::from_code(code).ok_or(FromSqlError::OutOfRange(code.into()))
            }
        }
    )+};
}

codes!(SourceKind { Page = 0, List = 1, Sitemap = 2, Site = 3, Search = 4, Feed = 5, Table = 6 });
codes!(Role { Page = 0, Listing = 1, Hub = 2, Entry = 3 });
// `state = 0` is in the schema.
codes!(State { New = 0, Ok = 1, Failing = 2, Blocked = 3, Gone = 4 });
codes!(PollOutcome { First = 0, Unchanged = 1, Changed = 2, Gone = 3, Failed = 4, Blocked = 5, Differs = 6 });
// `purpose = 1` is in the schema.
codes!(Purpose { Due = 0, Audit = 1, First = 2, Asked = 3 });
codes!(ChangeKind { Changed = 0, Added = 1, Gone = 2, Back = 3 });
columns!(
    SourceKind,
    Role,
    State,
    PollOutcome,
    PurposeColumn,
    ChangeKind
);

/// A [`Purpose`], which is another crate's, in a column.
#[derive(Debug, Clone, Copy)]
pub(super) struct PurposeColumn(pub(super) Purpose);

impl Code for PurposeColumn {
    fn code(self) -> u8 {
        self.0.code()
    }

    fn from_code(code: u8) -> Option<Self> {
        Purpose::from_code(code).map(Self)
    }
}

/// The kind and the number by which a memory is written. Kinds 2 and 3 are in
/// statements, too.
pub(super) fn memory_key(of: MemoryOf) -> [u32; 2] {
    match of {
        MemoryOf::Scheduler(partition) => [0, partition.0],
        MemoryOf::Pace(partition) => [1, partition.0],
        MemoryOf::Search(source) => [2, source.0],
        MemoryOf::Group(group) => [3, group.number()],
    }
}

/// The name by which a pause is written.
pub(super) fn pause_name(pause: Pause) -> &'static str {
    match pause {
        Pause::BackOff => "back-off",
        Pause::RetryAfter => "retry-after",
    }
}

/// The pause of this name; a host is left alone for as long whatever the reason was.
pub(super) fn pause_named(name: String) -> Pause {
    match name.as_str() {
        "retry-after" => Pause::RetryAfter,
        _ => Pause::BackOff,
    }
}

// By name: kinds come and go with what there is to poll.
impl ToSql for FailureKind {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.name().into())
    }
}

impl FromSql for FailureKind {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str().map(Self::from_name)
    }
}

impl ToSql for Moment {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

impl FromSql for Moment {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(Self)
    }
}

impl ToSql for SourceId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

impl FromSql for SourceId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        u32::column_result(value).map(Self)
    }
}
