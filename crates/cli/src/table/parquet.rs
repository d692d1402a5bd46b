//! Parquet, batch after batch, only the wanted columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

use super::{
    Batch, Column, Kind, Places, Texts, Values, bad_cell, cannot_read, find_columns, number_in,
};
use crate::failure::{Failure, Outcome};

/// Rows that are decoded together.
const BATCH: usize = 1 << 16;

/// Reads the wanted columns, handing on batch after batch in the order of the file.
pub(super) fn read<R: ChunkReader + 'static>(
    source: &str,
    reader: R,
    wanted: &[Column],
    take: &mut dyn FnMut(Batch) -> Outcome<()>,
) -> Outcome<()> {
    let builder = guarded(source, || builder(reader))?;
    let names: Vec<String> = builder
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    let places = find_columns(source, wanted, &names)?;
    let projection =
        ProjectionMask::roots(builder.parquet_schema(), places.iter().flatten().copied());
    let mut batches = guarded(source, || {
        builder
            .with_projection(projection)
            .with_batch_size(BATCH)
            .build()
    })?;
    let mut first_row = 1;
    while let Some(batch) = guarded(source, || batches.next().transpose().map_err(Into::into))? {
        let taken = Batch {
            n_rows: batch.num_rows(),
            columns: wanted
                .iter()
                .zip(&places)
                .map(|(column, place)| match place {
                    None => Ok(Values::Absent),
                    Some(_) => values(source, column, &batch, first_row),
                })
                .collect::<Outcome<_>>()?,
            places: Places::Rows(first_row),
        };
        first_row += batch.num_rows() as u64;
        take(taken)?;
    }
    Ok(())
}

/// How many rows the file says it has.
pub(super) fn n_rows<R: ChunkReader + 'static>(reader: R) -> Option<u64> {
    let builder = guarded("", || builder(reader)).ok()?;
    u64::try_from(builder.metadata().file_metadata().num_rows()).ok()
}

fn builder<R: ChunkReader + 'static>(
    reader: R,
) -> parquet::errors::Result<ParquetRecordBatchReaderBuilder<R>> {
    // The plain types of the file, whatever a writer noted about its own.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    ParquetRecordBatchReaderBuilder::try_new_with_options(reader, options)
}

/// Runs something of the Parquet library. A damaged file is an error, even where
/// the library panics over it.
fn guarded<T>(source: &str, run: impl FnOnce() -> parquet::errors::Result<T>) -> Outcome<T> {
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

fn values(source: &str, column: &Column, batch: &RecordBatch, first_row: u64) -> Outcome<Values> {
    let array = batch
        .column_by_name(column.name)
        .ok_or_else(|| cannot_read(source).cause(format!("there is no column {}", column.name)))?;
    let place = |row: usize| format!("row {}", first_row + row as u64);
    let bad = |row: usize, cell: &str| bad_cell(source, &place(row), column, cell);
    match column.kind {
        Kind::Id | Kind::Text => {
            let cells = texts(array).ok_or_else(|| wrong_type(source, column, array))?;
            let empty = (0..cells.len()).find(|&row| cells.get(row).is_empty());
            match empty {
                Some(row) if matches!(column.kind, Kind::Id) => Err(bad(row, "")),
                _ => Ok(Values::Text(cells)),
            }
        }
        Kind::Number(condition) | Kind::Flag(condition) | Kind::Optional(condition) => {
            // A text column may hold numbers, as it does in CSV.
            if let Some(cells) = texts(array).filter(|_| !array.data_type().is_integer()) {
                let number =
                    |(row, cell)| number_in(column.kind, cell).ok_or_else(|| bad(row, cell));
                let numbers = cells.iter().enumerate().map(number);
                return Ok(Values::Numbers(numbers.collect::<Outcome<_>>()?));
            }
            let mut numbers = numbers(array).ok_or_else(|| wrong_type(source, column, array))?;
            for (row, number) in numbers.iter_mut().enumerate() {
                // Some writers say "not a number" for nothing.
                let is_optional = matches!(column.kind, Kind::Optional(_));
                if array.is_null(row) || number.is_nan() && is_optional {
                    if !is_optional {
                        return Err(bad(row, ""));
                    }
                    *number = f64::NAN;
                } else if !(number.is_finite() && (condition.holds)(*number)) {
                    return Err(bad(row, &number.to_string()));
                }
            }
            Ok(Values::Numbers(numbers))
        }
    }
}

fn wrong_type(source: &str, column: &Column, array: &dyn Array) -> Failure {
    let wanted = match column.kind {
        Kind::Id | Kind::Text => "text",
        Kind::Number(_) | Kind::Flag(_) | Kind::Optional(_) => "numbers",
    };
    cannot_read(source)
        .cause(format!(
            "column {} holds {} values, not {wanted}",
            column.name,
            array.data_type()
        ))
        .hint(format!("write it as {wanted}"))
}

/// A column of text, or of whole numbers, as text.
fn texts(array: &dyn Array) -> Option<Texts> {
    let mut texts = Texts::default();
    match array.data_type() {
        DataType::Utf8 => array
            .as_string::<i32>()
            .iter()
            .for_each(|text| texts.push(text.unwrap_or_default())),
        DataType::LargeUtf8 => array
            .as_string::<i64>()
            .iter()
            .for_each(|text| texts.push(text.unwrap_or_default())),
        DataType::Utf8View => array
            .as_string_view()
            .iter()
            .for_each(|text| texts.push(text.unwrap_or_default())),
        DataType::Binary => {
            for bytes in array.as_binary::<i32>() {
                texts.push(std::str::from_utf8(bytes.unwrap_or_default()).ok()?);
            }
        }
        DataType::Int32 => array
            .as_primitive::<Int32Type>()
            .iter()
            .for_each(|number| texts.push(&number.map(|n| n.to_string()).unwrap_or_default())),
        DataType::Int64 => array
            .as_primitive::<Int64Type>()
            .iter()
            .for_each(|number| texts.push(&number.map(|n| n.to_string()).unwrap_or_default())),
        DataType::UInt32 => array
            .as_primitive::<UInt32Type>()
            .iter()
            .for_each(|number| texts.push(&number.map(|n| n.to_string()).unwrap_or_default())),
        DataType::UInt64 => array
            .as_primitive::<UInt64Type>()
            .iter()
            .for_each(|number| texts.push(&number.map(|n| n.to_string()).unwrap_or_default())),
        _ => return None,
    }
    Some(texts)
}

/// A column of numbers; whatever for nulls.
fn numbers(array: &dyn Array) -> Option<Vec<f64>> {
    macro_rules! widened {
        ($type:ty) => {{
            let numbers = array.as_primitive::<$type>().values();
            numbers.iter().map(|&number| f64::from(number)).collect()
        }};
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "a count beyond 2^53 is near enough"
    )]
    Some(match array.data_type() {
        DataType::Float64 => array.as_primitive::<Float64Type>().values().to_vec(),
        DataType::Float32 => widened!(Float32Type),
        DataType::Int8 => widened!(Int8Type),
        DataType::Int16 => widened!(Int16Type),
        DataType::Int32 => widened!(Int32Type),
        DataType::UInt8 => widened!(UInt8Type),
        DataType::UInt16 => widened!(UInt16Type),
        DataType::UInt32 => widened!(UInt32Type),
        DataType::Int64 => {
            let numbers = array.as_primitive::<Int64Type>().values();
            numbers.iter().map(|&number| number as f64).collect()
        }
        DataType::UInt64 => {
            let numbers = array.as_primitive::<UInt64Type>().values();
            numbers.iter().map(|&number| number as f64).collect()
        }
        DataType::Boolean => {
            let flags = array.as_boolean().values();
            flags.iter().map(|flag| f64::from(u8::from(flag))).collect()
        }
        _ => return None,
    })
}
