use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use flate2::write::GzEncoder;
use rayon::prelude::*;
use springtide_engine::table::{ColumnKind, Value};
use tempfile::{NamedTempFile, TempPath};

use super::{Texts, parquet};
use crate::failure::{Failure, Outcome};

/// The file that is being written, to be removed if we are told to stop.
pub(crate) type Unfinished = Arc<Mutex<Option<PathBuf>>>;

/// A table being written. It appears when it is finished, not before.
pub(crate) struct Output {
    name: String,
    sink: Sink,
    /// Where the finished file goes; `None` for what is written in place.
    destination: Option<(TempPath, PathBuf)>,
    unfinished: Unfinished,
}

/// What a column of the output holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ColumnType {
    Text,
    Numbers,
    /// Numbers that are whole more often than not, and then written so.
    Amounts,
    Counts,
    /// Values of one kind, any of which may be missing.
    Values(ColumnKind),
}

/// The cells of a column for some rows.
pub(crate) enum Cells<'a> {
    Texts(&'a Texts),
    /// Texts that others wrote.
    Foreign(&'a Texts),
    Numbers(Vec<f64>),
    Amounts(Vec<f64>),
    Counts(Vec<u64>),
    Values(Vec<Value>),
}

impl Cells<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Texts(texts) | Self::Foreign(texts) => texts.len(),
            Self::Numbers(numbers) | Self::Amounts(numbers) => numbers.len(),
            Self::Counts(counts) => counts.len(),
            Self::Values(values) => values.len(),
        }
    }
}

type Target = BufWriter<Box<dyn Write + Send>>;

enum Sink {
    Text(TextThread),
    Parquet(Box<parquet::Writer<Target>>),
}

/// A thread that compresses and writes text while the next is made.
struct TextThread {
    texts: SyncSender<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
}

/// Pieces of text that may wait for the thread.
const WAITING: usize = 64;

impl TextThread {
    fn new(mut compressor: Compressor) -> Self {
        let (texts, waiting) = sync_channel::<Vec<u8>>(WAITING);
        let thread = std::thread::spawn(move || {
            for text in waiting {
                compressor.write_all(&text)?;
            }
            compressor.finish()
        });
        Self { texts, thread }
    }

    /// Hands on a text; `false` if the thread has met an error and ended.
    fn write(&self, text: Vec<u8>) -> bool {
        self.texts.send(text).is_ok()
    }

    fn finish(self) -> io::Result<()> {
        drop(self.texts);
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("the writing thread broke down")))
    }
}

enum Compressor {
    None(Target),
    Gzip(GzEncoder<Target>),
    Zstd(zstd::Encoder<'static, Target>),
}

impl Compressor {
    fn write_all(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Self::None(target) => target.write_all(text),
            Self::Gzip(encoder) => encoder.write_all(text),
            Self::Zstd(encoder) => encoder.write_all(text),
        }
    }

    fn finish(self) -> io::Result<()> {
        let mut target = match self {
            Self::None(target) => target,
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Zstd(encoder) => encoder.finish()?,
        };
        target.flush()
    }
}

impl Output {
    /// A table with these columns at a path, whose ending says in which form; `-`
    /// or nothing is standard output, as CSV.
    pub(crate) fn new(
        path: Option<&Path>,
        columns: &[(&str, ColumnType)],
        unfinished: &Unfinished,
    ) -> Outcome<Self> {
        let path = path.filter(|path| *path != Path::new("-"));
        let name = match path {
            Some(path) => path.display().to_string(),
            None => "standard output".to_owned(),
        };
        let (target, destination) =
            open(path, unfinished).map_err(|error| unwritable(&name, &error))?;
        let target = BufWriter::with_capacity(1 << 18, target);
        let failed = |error: &(dyn std::error::Error + 'static)| unwritable(&name, error);
        let text = |compressor| Sink::Text(TextThread::new(compressor));
        let sink = match path.and_then(ending).as_deref() {
            Some("gz") => {
                let level = flate2::Compression::default();
                text(Compressor::Gzip(GzEncoder::new(target, level)))
            }
            Some("zst") => {
                let encoder = zstd::Encoder::new(target, zstd::DEFAULT_COMPRESSION_LEVEL).and_then(
                    |mut encoder| {
                        encoder.include_checksum(true)?;
                        Ok(encoder)
                    },
                );
                text(Compressor::Zstd(encoder.map_err(|error| failed(&error))?))
            }
            Some("parquet") => {
                let writer = parquet::Writer::new(target, columns);
                Sink::Parquet(Box::new(writer.map_err(|error| failed(&error))?))
            }
            _ => text(Compressor::None(target)),
        };
        let names: Vec<_> = columns.iter().map(|&(name, _)| name).collect();
        if let Sink::Text(thread) = &sink {
            // If this fails, so does `finish`, which says why.
            let mut head = Vec::new();
            for (at, name) in names.into_iter().enumerate() {
                if at > 0 {
                    head.push(b',');
                }
                push_foreign(&mut head, name);
            }
            head.push(b'\n');
            thread.write(head);
        }
        Ok(Self {
            name,
            sink,
            destination,
            unfinished: Arc::clone(unfinished),
        })
    }

    /// Writes some rows, given their columns.
    ///
    /// That text could not be written may come out only in the end.
    pub(crate) fn write(&mut self, columns: &[Cells<'_>]) -> Outcome<()> {
        match &mut self.sink {
            Sink::Text(thread) => {
                for lines in csv_lines(columns) {
                    if !thread.write(lines) {
                        break;
                    }
                }
                Ok(())
            }
            Sink::Parquet(writer) => {
                let written = writer.write(columns);
                written.map_err(|error| unwritable(&self.name, &error))
            }
        }
    }

    /// Writes what is left and lets the file appear.
    pub(crate) fn finish(self) -> Outcome<()> {
        let Self {
            name,
            sink,
            destination,
            unfinished,
        } = self;
        let finished = match sink {
            Sink::Text(thread) => thread.finish(),
            Sink::Parquet(writer) => writer
                .finish()
                .map_err(io::Error::other)
                .and_then(|mut target| target.flush()),
        };
        finished.map_err(|error| unwritable(&name, &error))?;
        if let Some((temporary, path)) = destination {
            let appeared = temporary.persist(path);
            appeared.map_err(|error| unwritable(&name, &error.error))?;
        }
        if let Ok(mut unfinished) = unfinished.lock() {
            *unfinished = None;
        }
        Ok(())
    }
}

/// Writes a text to a file, which appears when it is whole, not before.
pub(crate) fn write_whole(path: &Path, text: &str, unfinished: &Unfinished) -> Outcome<()> {
    let write = || -> io::Result<()> {
        let (mut target, destination) = open(Some(path), unfinished)?;
        target.write_all(text.as_bytes())?;
        target.flush()?;
        if let Some((temporary, path)) = destination {
            temporary.persist(path).map_err(|error| error.error)?;
        }
        Ok(())
    };
    write().map_err(|error| unwritable(&path.display().to_string(), &error))?;
    if let Ok(mut unfinished) = unfinished.lock() {
        *unfinished = None;
    }
    Ok(())
}

/// Lines of JSON in a file that appears when it is whole, or on standard output.
pub(crate) struct WholeFile {
    name: String,
    target: BufWriter<Box<dyn Write + Send>>,
    destination: Option<(TempPath, PathBuf)>,
    unfinished: Unfinished,
}

impl WholeFile {
    /// At a path; `-` or nothing is standard output.
    pub(crate) fn new(path: Option<&Path>, unfinished: &Unfinished) -> Outcome<Self> {
        let path = path.filter(|path| *path != Path::new("-"));
        let name = match path {
            Some(path) => path.display().to_string(),
            None => "standard output".to_owned(),
        };
        let (target, destination) =
            open(path, unfinished).map_err(|error| unwritable(&name, &error))?;
        Ok(Self {
            name,
            target: BufWriter::with_capacity(1 << 16, target),
            destination,
            unfinished: Arc::clone(unfinished),
        })
    }

    pub(crate) fn line(&mut self, line: &impl serde::Serialize) -> Outcome<()> {
        serde_json::to_writer(&mut self.target, line)
            .map_err(io::Error::from)
            .and_then(|()| self.target.write_all(b"\n"))
            .map_err(|error| unwritable(&self.name, &error))
    }

    /// Writes what is left and lets the file appear.
    pub(crate) fn finish(mut self) -> Outcome<()> {
        let flushed = self.target.flush();
        flushed.map_err(|error| unwritable(&self.name, &error))?;
        if let Some((temporary, path)) = self.destination {
            let appeared = temporary.persist(path);
            appeared.map_err(|error| unwritable(&self.name, &error.error))?;
        }
        if let Ok(mut unfinished) = self.unfinished.lock() {
            *unfinished = None;
        }
        Ok(())
    }
}

/// Output that cannot be written is a failure, not bad input.
pub(crate) fn unwritable(name: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    let failure = Failure::failed(format!("cannot write {name}")).cause(error);
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    if kind == Some(io::ErrorKind::NotFound) {
        return failure
            .cause("there is no such folder")
            .hint("make it first, or check the path");
    }
    if kind == Some(io::ErrorKind::BrokenPipe) {
        // Whoever read us has had enough, and knows it.
        return failure.silent();
    }
    failure.hint("check the folder, its permissions and the space left")
}

/// Something to write to, and where it goes when it is whole.
#[expect(clippy::type_complexity, reason = "a pair that is taken apart at once")]
fn open(
    path: Option<&Path>,
    unfinished: &Unfinished,
) -> io::Result<(Box<dyn Write + Send>, Option<(TempPath, PathBuf)>)> {
    let Some(path) = path else {
        return Ok((Box::new(io::stdout()), None));
    };
    // Through a link, what it points to is replaced, not the link.
    let path = behind_links(path)?;
    if is_stdout(&path) {
        return Ok((Box::new(io::stdout()), None));
    }
    // A pipe, a device or what another process holds open is written to, never
    // replaced.
    if path.exists() && !path.is_file() || is_of_process(&path) {
        let file = fs::OpenOptions::new().append(true).open(path)?;
        return Ok((Box::new(file), None));
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let temporary =
        NamedTempFile::with_prefix_in(".springtide-", folder.unwrap_or_else(|| Path::new(".")));
    let (file, temporary) = temporary?.into_parts();
    match fs::metadata(&path) {
        Ok(metadata) if metadata.permissions().readonly() => {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        Ok(metadata) => file.set_permissions(metadata.permissions())?,
        Err(_) => set_default_permissions(&file)?,
    }
    if let Ok(mut unfinished) = unfinished.lock() {
        *unfinished = Some(temporary.to_path_buf());
    }
    Ok((Box::new(file), Some((temporary, path))))
}

/// Where links lead, whether or not there is anything; but not what the links of
/// open files stand for.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(target) if !is_of_process(&path) => {
                path = path.parent().unwrap_or_else(|| Path::new("")).join(target);
            }
            _ => return Ok(path),
        }
    }
    Err(io::Error::other("too many links"))
}

/// Whether a path is one of the system's names for what a process holds open.
fn is_of_process(path: &Path) -> bool {
    path.starts_with("/proc") || path.starts_with("/dev/fd")
}

/// Whether a path stands for standard output.
fn is_stdout(path: &Path) -> bool {
    let own = format!("/proc/{}/fd/1", std::process::id());
    ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", &own].contains(&path.to_str().unwrap_or(""))
}

/// The ending of a name, in small letters.
fn ending(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

/// New files get what the user's mask allows, not the privacy of temporary ones.
#[cfg(unix)]
fn set_default_permissions(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mask = fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("Umask:"))?;
            u32::from_str_radix(line.trim(), 8).ok()
        });
    let mode = 0o666 & !mask.unwrap_or(0o022);
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_default_permissions(_: &File) -> io::Result<()> {
    Ok(())
}

/// Rows that are formatted together.
const LINES: usize = 1 << 11;

/// The rows as CSV, in pieces.
fn csv_lines(columns: &[Cells<'_>]) -> Vec<Vec<u8>> {
    let n_rows = columns.first().map_or(0, Cells::len);
    let piece = |piece: usize| {
        let mut lines = Vec::with_capacity(LINES * 80);
        // Shortest digits that read back to the same double.
        let mut buffer = zmij::Buffer::new();
        for row in piece * LINES..n_rows.min((piece + 1) * LINES) {
            for (position, column) in columns.iter().enumerate() {
                if position > 0 {
                    lines.push(b',');
                }
                match column {
                    Cells::Texts(texts) => push_quoted(&mut lines, texts.get(row)),
                    Cells::Foreign(texts) => push_foreign(&mut lines, texts.get(row)),
                    Cells::Numbers(numbers) => {
                        lines.extend_from_slice(buffer.format(numbers[row]).as_bytes());
                    }
                    Cells::Amounts(numbers) => {
                        let digits = buffer.format(numbers[row]);
                        let digits = digits.strip_suffix(".0").unwrap_or(digits);
                        lines.extend_from_slice(digits.as_bytes());
                    }
                    Cells::Counts(counts) => {
                        lines.extend_from_slice(counts[row].to_string().as_bytes());
                    }
                    Cells::Values(values) => push_foreign(&mut lines, &value_text(&values[row])),
                }
            }
            lines.push(b'\n');
        }
        lines
    };
    let n_pieces = n_rows.div_ceil(LINES);
    (0..n_pieces).into_par_iter().map(piece).collect()
}

/// A value as text: bytes in hex, and nothing for null.
pub(super) fn value_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::Text(text) => Cow::Borrowed(text),
        value => Cow::Owned(match value.to_plain_json() {
            serde_json::Value::String(text) => text,
            plain => plain.to_string(),
        }),
    }
}

/// A cell that others wrote. One that a program for tables would take for a formula, and
/// work out, gets an apostrophe before it.
fn push_foreign(line: &mut Vec<u8>, text: &str) {
    let is_number = || text.parse::<f64>().is_ok();
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number() {
        true => push_quoted(line, &format!("'{text}")),
        false => push_quoted(line, text),
    }
}

/// A cell, in quotes if it could be taken for more than one.
fn push_quoted(line: &mut Vec<u8>, text: &str) {
    let is_special = |byte: u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !text.bytes().any(is_special) {
        line.extend_from_slice(text.as_bytes());
        return;
    }
    line.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            line.push(b'"');
        }
        line.push(byte);
    }
    line.push(b'"');
}
