use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::{Batch, Column, cannot_read, csv, parquet as parquet_table};
use crate::failure::{Failure, Outcome};
use crate::talk::Progress;

/// A table to be read, more than once if need be.
#[derive(Debug)]
pub(crate) struct Input {
    /// What to call it in messages.
    pub(crate) name: String,
    place: Place,
    format: Format,
}

#[derive(Debug)]
enum Place {
    File(PathBuf),
    /// What came in through a pipe, which gives its bytes only once.
    Memory(Bytes),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Csv,
    Gzip,
    Zstd,
    Parquet,
}

impl Input {
    /// The table at a path; `-` is standard input.
    pub(crate) fn new(path: &Path) -> Outcome<Self> {
        let is_stdin = path == Path::new("-");
        let name = if is_stdin {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let unreadable = |error: io::Error| unreadable(&name, &error);
        let place = if is_stdin {
            let mut bytes = Vec::new();
            io::stdin()
                .lock()
                .read_to_end(&mut bytes)
                .map_err(unreadable)?;
            Place::Memory(bytes.into())
        } else if path.metadata().map_err(unreadable)?.is_file() {
            Place::File(path.to_owned())
        } else {
            let mut bytes = Vec::new();
            let mut file = File::open(path).map_err(unreadable)?;
            file.read_to_end(&mut bytes).map_err(unreadable)?;
            Place::Memory(bytes.into())
        };
        let mut input = Self {
            name,
            place,
            format: Format::Csv,
        };
        input.format = input.detect(path)?;
        Ok(input)
    }

    /// The table in some bytes, as if they had come through a pipe.
    #[cfg(test)]
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Outcome<Self> {
        let mut input = Self {
            name: "bytes".to_owned(),
            place: Place::Memory(bytes.into()),
            format: Format::Csv,
        };
        input.format = input.detect(Path::new("-"))?;
        Ok(input)
    }

    /// Reads the wanted columns from the beginning, handing each batch on.
    pub(crate) fn read(
        &self,
        wanted: &[Column],
        progress: &Progress,
        mut take: impl FnMut(Batch) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut take = |batch: Batch| {
            progress.advance(batch.n_rows);
            take(batch)
        };
        match (&self.place, self.format) {
            (Place::File(path), Format::Parquet) => {
                let file = File::open(path).map_err(|error| unreadable(&self.name, &error))?;
                parquet_table::read(&self.name, file, wanted, &mut take)
            }
            (Place::Memory(bytes), Format::Parquet) => {
                parquet_table::read(&self.name, bytes.clone(), wanted, &mut take)
            }
            (_, format) => {
                let reader = self
                    .bytes()
                    .map_err(|error| unreadable(&self.name, &error))?;
                let reader: Box<dyn Read + Send> = match format {
                    Format::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
                    Format::Zstd => {
                        let decoder = zstd::Decoder::with_buffer(reader);
                        Box::new(decoder.map_err(|error| unreadable(&self.name, &error))?)
                    }
                    Format::Csv | Format::Parquet => Box::new(reader),
                };
                csv::read(&self.name, reader, wanted, &mut take)
            }
        }
    }

    /// How many rows there are, if that can be told without reading them.
    pub(crate) fn n_rows(&self) -> Option<u64> {
        match (&self.place, self.format) {
            (Place::File(path), Format::Parquet) => parquet_table::n_rows(File::open(path).ok()?),
            (Place::Memory(bytes), Format::Parquet) => parquet_table::n_rows(bytes.clone()),
            _ => None,
        }
    }

    /// By the first bytes; the name only serves to say what is wrong.
    fn detect(&self, path: &Path) -> Outcome<Format> {
        let mut start = Vec::new();
        let reader = self
            .bytes()
            .map_err(|error| unreadable(&self.name, &error))?;
        let read = reader.take(4).read_to_end(&mut start);
        read.map_err(|error| unreadable(&self.name, &error))?;
        let format = match start.as_slice() {
            [0x1f, 0x8b, ..] => Format::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Format::Zstd,
            b"PAR1" => Format::Parquet,
            _ => Format::Csv,
        };
        let ending = path.extension().and_then(|ending| ending.to_str());
        let expected = match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("gz") => Format::Gzip,
            Some("zst") => Format::Zstd,
            Some("parquet") => Format::Parquet,
            _ => return Ok(format),
        };
        if expected == format {
            return Ok(format);
        }
        let kind = match expected {
            Format::Gzip => "gzip",
            Format::Zstd => "zstd",
            Format::Parquet => "Parquet",
            Format::Csv => "CSV",
        };
        Err(cannot_read(&self.name)
            .cause(format!("its name says {kind}, its first bytes do not"))
            .hint("it may be empty, cut short or misnamed"))
    }

    fn bytes(&self) -> io::Result<Box<dyn BufRead + Send>> {
        Ok(match &self.place {
            Place::File(path) => Box::new(BufReader::with_capacity(1 << 16, File::open(path)?)),
            Place::Memory(bytes) => Box::new(Cursor::new(bytes.clone())),
        })
    }
}

/// Input that cannot be read, whether missing, forbidden or broken.
pub(super) fn unreadable(name: &str, error: &io::Error) -> Failure {
    let failure = cannot_read(name);
    match error.kind() {
        io::ErrorKind::NotFound => failure
            .cause("there is no such file")
            .hint("check the path"),
        io::ErrorKind::PermissionDenied => failure
            .cause("it may not be read")
            .hint("check its permissions"),
        io::ErrorKind::IsADirectory => failure.cause("it is a folder").hint("name a file in it"),
        io::ErrorKind::UnexpectedEof => failure
            .cause("it is cut short")
            .hint("copy or compress it again"),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => failure
            .cause(format!("it is damaged: {error}"))
            .hint("copy or compress it again"),
        _ => failure.cause(error),
    }
}
