//! Parquet, in and out: some columns of plain values, batch after batch. Read and
//! written by the columns' own readers and writers; the Arrow tables that usually stand
//! between cost more to build than all of the rest.

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, FileReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type as Schema};

use springtide_engine::table::{ColumnKind, Value};

use super::output::value_text;
use super::{
    Batch, Cells, Column, ColumnType, Kind, Places, Texts, Values, bad_cell, cannot_read,
    find_columns, number_in,
};
use crate::failure::{Failure, Outcome};

/// Rows that are decoded together.
const BATCH: usize = 1 << 16;

/// Rows that are encoded together: they are held until then.
const ROW_GROUP: usize = 1 << 18;
/// Values are each a piece of memory of their own, so fewer are held.
const ROW_GROUP_OF_VALUES: usize = 1 << 16;

/// Reads the wanted columns, handing on batch after batch in the order of the file.
pub(super) fn read<R: ChunkReader + 'static>(
    source: &str,
    reader: R,
    wanted: &[Column],
    take: &mut dyn FnMut(Batch) -> Outcome<()>,
) -> Outcome<()> {
    let file = guarded(source, || SerializedFileReader::new(reader))?;
    let schema = file.metadata().file_metadata().schema_descr();
    let fields = schema.root_schema().get_fields().iter();
    let names: Vec<String> = fields.map(|field| field.name().to_owned()).collect();
    let places = find_columns(source, wanted, &names)?;
    let leaves: Vec<Option<usize>> = wanted
        .iter()
        .zip(&places)
        .map(|(column, place)| place.map(|root| leaf(source, column, schema, root)))
        .map(Option::transpose)
        .collect::<Outcome<_>>()?;
    let mut first_row = 1;
    for group in 0..file.num_row_groups() {
        let group = guarded(source, || file.get_row_group(group))?;
        let mut readers = leaves
            .iter()
            .map(|leaf| leaf.map(|leaf| guarded(source, || group.get_column_reader(leaf))))
            .map(Option::transpose)
            .collect::<Outcome<Vec<_>>>()?;
        let mut n_left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        while n_left > 0 {
            let n_rows = n_left.min(BATCH);
            let mut columns = Vec::with_capacity(wanted.len());
            for ((column, reader), leaf) in wanted.iter().zip(&mut readers).zip(&leaves) {
                columns.push(match (reader, leaf) {
                    (Some(reader), Some(leaf)) => {
                        let kind = schema.column(*leaf);
                        let read = guarded(source, || Read::next(reader, &kind, n_rows))?;
                        let read = read.ok_or_else(|| wrong_type(source, column, &kind))?;
                        values(source, column, &kind, read, first_row)?
                    }
                    _ => Values::Absent,
                });
            }
            take(Batch {
                n_rows,
                columns,
                places: Places::Rows(first_row),
            })?;
            first_row += n_rows as u64;
            n_left -= n_rows;
        }
    }
    Ok(())
}

/// How many rows the file says it has.
pub(super) fn n_rows<R: ChunkReader + 'static>(reader: R) -> Option<u64> {
    let file = guarded("", || SerializedFileReader::new(reader)).ok()?;
    u64::try_from(file.metadata().file_metadata().num_rows()).ok()
}

/// Which column of plain values a field of the file is.
fn leaf(source: &str, column: &Column, schema: &SchemaDescriptor, root: usize) -> Outcome<usize> {
    let leaves = 0..schema.num_columns();
    let mut own = leaves.filter(|&leaf| schema.get_column_root_idx(leaf) == root);
    let is_plain = |leaf: &usize| {
        let leaf = schema.column(*leaf);
        leaf.path().parts().len() == 1 && leaf.max_rep_level() == 0
    };
    own.next().filter(is_plain).ok_or_else(|| {
        cannot_read(source)
            .cause(format!("column {} holds lists or records", column.name))
            .hint("write one value in each row")
    })
}

/// Runs something of the Parquet library. A damaged file is an error, even where
/// the library panics over it.
fn guarded<T>(source: &str, run: impl FnOnce() -> Result<T>) -> Outcome<T> {
    let damaged = |cause: String| -> Failure {
        cannot_read(source)
            .cause(format!("it is damaged: {cause}"))
            .hint("copy or write it again")
    };
    match crate::panics::caught(run) {
        Ok(result) => result.map_err(|error| match error {
            ParquetError::NYI(what) | ParquetError::General(what)
                if what.contains("Disabled feature") =>
            {
                cannot_read(source)
                    .cause(format!("it is compressed in a way we do not read: {what}"))
                    .hint("write it with zstd, snappy, gzip or lz4, or without compression")
            }
            error => damaged(error.to_string()),
        }),
        Err(message) => Err(damaged(message)),
    }
}

/// Some rows of a column: a value or nothing each.
enum Read {
    Texts(Vec<Option<ByteArray>>),
    /// Whole numbers, wide enough for all that there are with and without a sign.
    Whole(Vec<Option<i128>>),
    Numbers(Vec<Option<f64>>),
}

impl Read {
    /// The next rows; `None` if they are of a type that is neither text nor numbers.
    fn next(
        reader: &mut ColumnReader,
        kind: &ColumnDescriptor,
        n_rows: usize,
    ) -> Result<Option<Self>> {
        Ok(Some(match reader {
            ColumnReader::BoolColumnReader(reader) => {
                Self::Numbers(rows(reader, n_rows, |flag| f64::from(u8::from(flag)))?)
            }
            ColumnReader::FloatColumnReader(reader) => {
                Self::Numbers(rows(reader, n_rows, f64::from)?)
            }
            ColumnReader::DoubleColumnReader(reader) => {
                Self::Numbers(rows(reader, n_rows, |number| number)?)
            }
            ColumnReader::Int32ColumnReader(reader) => match has_sign(kind) {
                None => return Ok(None),
                Some(true) => Self::Whole(rows(reader, n_rows, i128::from)?),
                Some(false) => Self::Whole(rows(reader, n_rows, |number| {
                    i128::from(number.cast_unsigned())
                })?),
            },
            ColumnReader::Int64ColumnReader(reader) => match has_sign(kind) {
                None => return Ok(None),
                Some(true) => Self::Whole(rows(reader, n_rows, i128::from)?),
                Some(false) => Self::Whole(rows(reader, n_rows, |number| {
                    i128::from(number.cast_unsigned())
                })?),
            },
            ColumnReader::ByteArrayColumnReader(reader) if is_text(kind) => {
                Self::Texts(rows(reader, n_rows, |bytes| bytes)?)
            }
            ColumnReader::ByteArrayColumnReader(_)
            | ColumnReader::FixedLenByteArrayColumnReader(_)
            | ColumnReader::Int96ColumnReader(_) => return Ok(None),
        }))
    }
}

/// The next rows of a column, each value turned into another.
fn rows<T: DataType, U>(
    reader: &mut ColumnReaderImpl<T>,
    n_rows: usize,
    turn: impl Fn(T::T) -> U,
) -> Result<Vec<Option<U>>> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let (n_read, ..) = reader.read_records(n_rows, Some(&mut levels), None, &mut values)?;
    if n_read != n_rows {
        let error = "a column has fewer values than there are rows";
        return Err(ParquetError::General(error.to_owned()));
    }
    let mut values = values.into_iter().map(turn);
    // Only a column that may lack values has levels: 0 where it does.
    let has_value = |row: usize| levels.get(row).is_none_or(|level| *level > 0);
    let row = |row: usize| has_value(row).then(|| values.next()).flatten();
    Ok((0..n_rows).map(row).collect())
}

/// Whether whole numbers have a sign; `None` for dates, decimals and the like.
fn has_sign(kind: &ColumnDescriptor) -> Option<bool> {
    match (kind.logical_type_ref(), kind.converted_type()) {
        (Some(LogicalType::Integer(integer)), _) => Some(integer.is_signed),
        (Some(_), _) => None,
        (
            None,
            ConvertedType::NONE
            | ConvertedType::INT_8
            | ConvertedType::INT_16
            | ConvertedType::INT_32
            | ConvertedType::INT_64,
        ) => Some(true),
        (
            None,
            ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64,
        ) => Some(false),
        (None, _) => None,
    }
}

/// Whether bytes stand for a text, as far as the file says.
fn is_text(kind: &ColumnDescriptor) -> bool {
    match (kind.logical_type_ref(), kind.converted_type()) {
        (Some(logical), _) => {
            matches!(
                logical,
                LogicalType::String | LogicalType::Enum | LogicalType::Json
            )
        }
        (None, converted) => matches!(
            converted,
            ConvertedType::NONE | ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON
        ),
    }
}

/// Rows as what is wanted of their column.
fn values(
    source: &str,
    column: &Column,
    kind: &ColumnDescriptor,
    read: Read,
    first_row: u64,
) -> Outcome<Values> {
    let bad = |row: usize, cell: &str| {
        let place = format!("row {}", first_row + row as u64);
        bad_cell(source, &place, column, cell)
    };
    match column.kind {
        Kind::Id | Kind::Text => {
            let mut texts = Texts::default();
            for (row, text) in texts_of(&read)
                .ok_or_else(|| wrong_type(source, column, kind))?
                .enumerate()
            {
                let text = text.ok_or_else(|| wrong_type(source, column, kind))?;
                if text.is_empty() && matches!(column.kind, Kind::Id) {
                    return Err(bad(row, ""));
                }
                texts.push(&text);
            }
            Ok(Values::Text(texts))
        }
        Kind::Number(condition) | Kind::Flag(condition) | Kind::Optional(condition) => {
            let is_optional = matches!(column.kind, Kind::Optional(_));
            let number = |row: usize, number: Option<f64>| match number {
                // Some writers say "not a number" for nothing.
                None if is_optional => Ok(f64::NAN),
                Some(number) if number.is_nan() && is_optional => Ok(f64::NAN),
                None => Err(bad(row, "")),
                Some(number) if number.is_finite() && (condition.holds)(number) => Ok(number),
                Some(number) => Err(bad(row, &number.to_string())),
            };
            #[expect(
                clippy::cast_precision_loss,
                reason = "a count beyond 2^53 is near enough"
            )]
            let numbers: Outcome<Vec<f64>> = match &read {
                Read::Numbers(numbers) => {
                    let numbers = numbers.iter().enumerate();
                    numbers.map(|(row, cell)| number(row, *cell)).collect()
                }
                Read::Whole(numbers) => {
                    let numbers = numbers.iter().enumerate();
                    numbers
                        .map(|(row, cell)| number(row, cell.map(|whole| whole as f64)))
                        .collect()
                }
                // A text column may hold numbers, as it does in CSV.
                Read::Texts(texts) => {
                    let texts = texts.iter().enumerate();
                    let read = |(row, text): (usize, &Option<ByteArray>)| {
                        let cell = text_of(text.as_ref())
                            .ok_or_else(|| wrong_type(source, column, kind))?;
                        number_in(column.kind, cell).ok_or_else(|| bad(row, cell))
                    };
                    texts.map(read).collect()
                }
            };
            Ok(Values::Numbers(numbers?))
        }
    }
}

/// Texts, or whole numbers as such; nothing as an empty one. The inner `None` is for
/// bytes that are none.
fn texts_of(read: &Read) -> Option<Box<dyn Iterator<Item = Option<Cow<'_, str>>> + '_>> {
    match read {
        Read::Texts(texts) => Some(Box::new(
            texts
                .iter()
                .map(|text| text_of(text.as_ref()).map(Cow::Borrowed)),
        )),
        Read::Whole(numbers) => Some(Box::new(numbers.iter().map(|number| {
            Some(Cow::Owned(
                number.map_or_else(String::new, |number| number.to_string()),
            ))
        }))),
        Read::Numbers(_) => None,
    }
}

fn text_of(bytes: Option<&ByteArray>) -> Option<&str> {
    bytes.map_or(Some(""), |bytes| std::str::from_utf8(bytes.data()).ok())
}

fn wrong_type(source: &str, column: &Column, kind: &ColumnDescriptor) -> Failure {
    let wanted = match column.kind {
        Kind::Id | Kind::Text => "text",
        Kind::Number(_) | Kind::Flag(_) | Kind::Optional(_) => "numbers",
    };
    let found = match (kind.logical_type_ref(), kind.physical_type()) {
        (Some(LogicalType::Date), _) => "dates",
        (Some(LogicalType::Time(_)), _) => "times of day",
        (Some(LogicalType::Timestamp(_)), _) | (_, Type::INT96) => "points in time",
        (Some(LogicalType::Decimal(_)), _) => "decimals",
        (_, Type::BOOLEAN) => "true and false",
        (_, Type::FLOAT | Type::DOUBLE) => "numbers with fractions",
        (_, Type::INT32 | Type::INT64) => "numbers of a kind of their own",
        (_, Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY) => "bytes",
    };
    cannot_read(source)
        .cause(format!(
            "column {} holds {found}, not {wanted}",
            column.name
        ))
        .hint(format!("write it as {wanted}"))
}

/// A file that is being written.
pub(super) struct Writer<W: Write> {
    file: SerializedFileWriter<W>,
    /// Rows that wait for enough others.
    waiting: Vec<Waiting>,
    n_waiting: usize,
}

enum Waiting {
    Texts(Texts),
    Numbers(Vec<f64>),
    Counts(Vec<i64>),
    Values(ColumnKind, Vec<Value>),
}

impl<W: Write + Send> Writer<W> {
    pub(super) fn new(target: W, columns: &[(&str, ColumnType)]) -> Result<Self> {
        let field = |&(name, holds): &(&str, ColumnType)| {
            let (plain, logical) = match holds {
                ColumnType::Text => (Type::BYTE_ARRAY, Some(LogicalType::String)),
                ColumnType::Numbers | ColumnType::Amounts => (Type::DOUBLE, None),
                ColumnType::Counts => (Type::INT64, Some(LogicalType::integer(64, false))),
                ColumnType::Values(ColumnKind::Integers) => (Type::INT64, None),
                ColumnType::Values(ColumnKind::Reals) => (Type::DOUBLE, None),
                ColumnType::Values(ColumnKind::Bytes) => (Type::BYTE_ARRAY, None),
                ColumnType::Values(ColumnKind::Texts) => {
                    (Type::BYTE_ARRAY, Some(LogicalType::String))
                }
            };
            let repetition = match holds {
                ColumnType::Values(_) => Repetition::OPTIONAL,
                _ => Repetition::REQUIRED,
            };
            let field = Schema::primitive_type_builder(name, plain)
                .with_logical_type(logical)
                .with_repetition(repetition);
            field.build().map(Arc::new)
        };
        let fields = columns.iter().map(field).collect::<Result<_>>()?;
        let schema = Schema::group_type_builder("schema").with_fields(fields);
        let file = SerializedFileWriter::new(target, Arc::new(schema.build()?), properties())?;
        let waiting = columns.iter().map(|(_, holds)| match holds {
            ColumnType::Text => Waiting::Texts(Texts::default()),
            ColumnType::Numbers | ColumnType::Amounts => Waiting::Numbers(Vec::new()),
            ColumnType::Counts => Waiting::Counts(Vec::new()),
            ColumnType::Values(kind) => Waiting::Values(*kind, Vec::new()),
        });
        Ok(Self {
            file,
            waiting: waiting.collect(),
            n_waiting: 0,
        })
    }

    pub(super) fn write(&mut self, columns: &[Cells<'_>]) -> Result<()> {
        self.n_waiting += columns.first().map_or(0, Cells::len);
        for (waiting, cells) in self.waiting.iter_mut().zip(columns) {
            match (waiting, cells) {
                (Waiting::Texts(waiting), Cells::Texts(texts) | Cells::Foreign(texts)) => {
                    texts.iter().for_each(|text| waiting.push(text));
                }
                (Waiting::Numbers(waiting), Cells::Numbers(numbers) | Cells::Amounts(numbers)) => {
                    waiting.extend_from_slice(numbers);
                }
                (Waiting::Counts(waiting), Cells::Counts(counts)) => {
                    waiting.extend(counts.iter().map(|count| count.cast_signed()));
                }
                (Waiting::Values(_, waiting), Cells::Values(values)) => {
                    waiting.extend_from_slice(values);
                }
                _ => {
                    let error = "a column was given cells of another kind";
                    return Err(ParquetError::General(error.to_owned()));
                }
            }
        }
        let most = match self.waiting.first() {
            Some(Waiting::Values(..)) => ROW_GROUP_OF_VALUES,
            _ => ROW_GROUP,
        };
        if self.n_waiting >= most {
            self.write_waiting()?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<W> {
        if self.n_waiting > 0 {
            self.write_waiting()?;
        }
        self.file.into_inner()
    }

    fn write_waiting(&mut self) -> Result<()> {
        self.n_waiting = 0;
        let mut group = self.file.next_row_group()?;
        for waiting in &mut self.waiting {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            match waiting {
                Waiting::Texts(texts) => {
                    let texts = byte_arrays(std::mem::take(texts));
                    column
                        .typed::<ByteArrayType>()
                        .write_batch(&texts, None, None)?;
                }
                Waiting::Numbers(numbers) => {
                    let typed = column.typed::<DoubleType>();
                    typed.write_batch(numbers, None, None)?;
                    numbers.clear();
                }
                Waiting::Counts(counts) => {
                    let typed = column.typed::<Int64Type>();
                    typed.write_batch(counts, None, None)?;
                    counts.clear();
                }
                Waiting::Values(kind, values) => {
                    write_values(*kind, &std::mem::take(values), &mut column)?;
                }
            }
            column.close()?;
        }
        group.close().map(drop)
    }
}

/// Writes values of one kind; where one is missing, the levels say so.
fn write_values(
    kind: ColumnKind,
    values: &[Value],
    column: &mut SerializedColumnWriter<'_>,
) -> Result<()> {
    let levels = values.iter().map(|value| i16::from(*value != Value::Null));
    let levels: Vec<i16> = levels.collect();
    let there = values.iter().filter(|value| **value != Value::Null);
    match kind {
        ColumnKind::Integers => {
            let numbers = there.filter_map(|value| match value {
                Value::Integer(number) => Some(*number),
                _ => None,
            });
            let numbers: Vec<i64> = numbers.collect();
            let typed = column.typed::<Int64Type>();
            typed.write_batch(&numbers, Some(&levels), None)?;
        }
        ColumnKind::Reals => {
            let numbers = there.filter_map(|value| match value {
                Value::Real(number) => Some(*number),
                _ => None,
            });
            let numbers: Vec<f64> = numbers.collect();
            let typed = column.typed::<DoubleType>();
            typed.write_batch(&numbers, Some(&levels), None)?;
        }
        ColumnKind::Texts | ColumnKind::Bytes => {
            let bytes = there.map(|value| match value {
                Value::Bytes(bytes) if kind == ColumnKind::Bytes => ByteArray::from(bytes.clone()),
                value => ByteArray::from(value_text(value).into_owned().into_bytes()),
            });
            let bytes: Vec<ByteArray> = bytes.collect();
            let typed = column.typed::<ByteArrayType>();
            typed.write_batch(&bytes, Some(&levels), None)?;
        }
    }
    Ok(())
}

/// The texts as parts of the one piece of memory that they are in.
fn byte_arrays(texts: Texts) -> Vec<ByteArray> {
    let bytes = Bytes::from(texts.bytes.into_bytes());
    let starts = std::iter::once(0).chain(texts.ends.iter().copied());
    let parts = starts.zip(&texts.ends);
    parts
        .map(|(start, &end)| ByteArray::from(bytes.slice(start..end)))
        .collect()
}

fn properties() -> Arc<WriterProperties> {
    // Nearly every value is unlike every other: a dictionary would only cost.
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false);
    Arc::new(properties.build())
}

#[cfg(test)]
mod tests {
    use parquet::data_type::Int32Type;
    use parquet::schema::parser::parse_message_type;

    use super::super::Condition;
    use super::*;

    const AT_LEAST_ZERO: Condition = Condition {
        holds: |number| number >= 0.0,
        says: "it is zero or more",
        hint: "give another",
    };

    /// A file of one column, `n`, of some type, with these values, whose levels say where
    /// one is missing.
    fn file<T: DataType>(kind: &str, values: &[T::T], levels: &[i16]) -> Bytes {
        let schema = parse_message_type(&format!("message rows {{ {kind}; }}")).unwrap();
        let mut writer =
            SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let repeated = kind.starts_with("REPEATED").then_some(levels);
        let typed = column.typed::<T>();
        typed.write_batch(values, Some(levels), repeated).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        Bytes::from(writer.into_inner().unwrap())
    }

    fn column(bytes: Bytes, kind: Kind) -> Outcome<Vec<Values>> {
        let wanted = Column {
            name: "n",
            kind,
            required: true,
        };
        let mut batches = Vec::new();
        read("it", bytes, &[wanted], &mut |batch| {
            batches.extend(batch.columns);
            Ok(())
        })?;
        Ok(batches)
    }

    fn numbers(bytes: Bytes) -> Vec<f64> {
        let batches = column(bytes, Kind::Optional(AT_LEAST_ZERO)).unwrap();
        let numbers = batches.into_iter().flat_map(|values| match values {
            Values::Numbers(numbers) => numbers,
            other => panic!("{other:?}"),
        });
        numbers.collect()
    }

    #[test]
    fn a_missing_value_stays_in_its_row() {
        let levels = [0, 1, 1, 0, 1];
        let bytes = file::<DoubleType>("OPTIONAL DOUBLE n", &[2.0, 3.0, 5.0], &levels);
        let read = numbers(bytes.clone());
        assert_eq!(
            read.iter().map(|n| n.is_nan()).collect::<Vec<_>>(),
            levels.map(|l| l == 0)
        );
        assert_eq!((read[1], read[2], read[4]), (2.0, 3.0, 5.0));
        let refused = column(bytes, Kind::Number(AT_LEAST_ZERO)).unwrap_err();
        assert!(
            refused.to_string().contains("row 1: n is empty"),
            "{refused}"
        );
    }

    #[test]
    fn rows_that_fill_many_batches_come_in_their_order() {
        let written: Vec<f64> = (0..3 * BATCH + 7).map(|row| row as f64).collect();
        let levels = vec![1; written.len()];
        let bytes = file::<DoubleType>("OPTIONAL DOUBLE n", &written, &levels);
        assert_eq!(numbers(bytes), written);
    }

    #[test]
    fn whole_numbers_have_a_sign_or_not() {
        let signed = file::<Int32Type>("REQUIRED INT32 n", &[7], &[0]);
        assert_eq!(numbers(signed), [7.0]);
        let unsigned = file::<Int32Type>("REQUIRED INT32 n (UINT_32)", &[-1], &[0]);
        assert_eq!(numbers(unsigned.clone()), [f64::from(u32::MAX)]);
        match &column(unsigned, Kind::Id).unwrap()[0] {
            Values::Text(texts) => assert_eq!(texts.get(0), "4294967295"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_neither_text_nor_numbers_is_refused_by_name() {
        let dates = file::<Int32Type>("REQUIRED INT32 n (DATE)", &[7], &[0]);
        let refused = column(dates, Kind::Number(AT_LEAST_ZERO)).unwrap_err();
        assert!(
            refused.to_string().contains("dates, not numbers"),
            "{refused}"
        );
        let lists = file::<DoubleType>("REPEATED DOUBLE n", &[], &[0]);
        let refused = column(lists, Kind::Number(AT_LEAST_ZERO)).unwrap_err();
        assert!(
            refused.to_string().contains("lists or records"),
            "{refused}"
        );
    }
}
