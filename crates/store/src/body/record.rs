//! A body as it is in a segment: a header, then its bytes, compressed if that makes them
//! shorter.
//!
//! ```text
//! kind (1 byte), digest (32), length (8), length as kept (8), bytes as kept
//! ```
//!
//! A record says itself what it is, so that where bodies are can be found out again from
//! segments alone. Numbers are little-endian.

use std::cell::RefCell;
use std::io::Read;

use super::BodyId;

/// A body, named and compressed: made once, it can be [put](super::Bodies::put_packed) and
/// kept elsewhere too. Whether it is as it was written can be told from itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    pub(super) id: BodyId,
    pub(super) record: Vec<u8>,
}

impl Packed {
    /// Packs these bytes fast rather than small, as bodies of which many come at a time are.
    pub fn fast(bytes: &[u8]) -> Self {
        let id = BodyId::of(bytes);
        let record = encode(id, bytes, FAST);
        Self { id, record }
    }

    /// The name of the body.
    pub fn id(&self) -> BodyId {
        self.id
    }

    /// What to keep of it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.record
    }

    /// The body of which these bytes were kept; nothing if they are not what they were.
    pub fn unpack(kept: &[u8]) -> Option<Vec<u8>> {
        decode(kept).map(|(_, body)| body)
    }
}

/// How long what comes before the bytes is.
pub(super) const HEADER: usize = 49;
/// The level that zstd's authors chose as theirs. Higher ones gain a few per cent
/// on pages and take several times as long.
pub(super) const LEVEL: i32 = 3;
/// For what comes many at a time: quicker than [`LEVEL`], and a little longer.
const FAST: i32 = 1;
/// Below, there is nothing that zstd could find again.
const LEAST_TO_COMPRESS: usize = 64;
const STORED: u8 = b's';
const COMPRESSED: u8 = b'z';

/// What the header of a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: BodyId,
    kind: u8,
    length: u64,
    kept_length: u64,
}

impl Header {
    /// What these bytes begin with, if that can be a record.
    pub(super) fn of(record: &[u8]) -> Option<Self> {
        let (&kind, rest) = record.split_first()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let kept_length = rest.first_chunk()?;
        matches!(kind, STORED | COMPRESSED).then_some(Self {
            id: BodyId(*id),
            kind,
            length: u64::from_le_bytes(*length),
            kept_length: u64::from_le_bytes(*kept_length),
        })
    }

    /// How long the whole record is, if it can be as long as that.
    pub(super) fn record_length(&self) -> Option<u64> {
        self.kept_length.checked_add(HEADER as u64)
    }
}

/// The record of a body.
pub(super) fn encode(id: BodyId, bytes: &[u8], level: i32) -> Vec<u8> {
    let shorter = compressed(bytes, level);
    let (kind, content) = match &shorter {
        Some(shorter) => (COMPRESSED, shorter.as_slice()),
        None => (STORED, bytes),
    };
    let mut record = Vec::with_capacity(HEADER + content.len());
    record.push(kind);
    record.extend_from_slice(&id.0);
    record.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    record.extend_from_slice(&(content.len() as u64).to_le_bytes());
    record.extend_from_slice(content);
    record
}

/// The body in a record, or nothing if it is not as it was written.
pub(super) fn decode(record: &[u8]) -> Option<(BodyId, Vec<u8>)> {
    let header = Header::of(record)?;
    let kept = &record[HEADER..];
    if header.kept_length != kept.len() as u64 {
        return None;
    }
    let body = unpack(header.kind, header.length, kept)?;
    (BodyId::of(&body) == header.id).then_some((header.id, body))
}

/// What was kept in this way, never more than the length that is said.
pub(super) fn unpack(kind: u8, length: u64, kept: &[u8]) -> Option<Vec<u8>> {
    let one_more = length.checked_add(1)?;
    let mut body = Vec::new();
    match kind {
        STORED => body.extend_from_slice(kept),
        COMPRESSED => {
            let decoder = zstd::stream::read::Decoder::with_buffer(kept).ok()?;
            // What its length says, it may allocate; what a frame says, it may not.
            decoder.take(one_more).read_to_end(&mut body).ok()?;
        }
        _ => return None,
    }
    (body.len() as u64 == length).then_some(body)
}

thread_local! {
    /// A context of zstd is most of what compressing a small body takes, so it is
    /// kept.
    static COMPRESSOR: RefCell<Option<(i32, zstd::bulk::Compressor<'static>)>> =
        const { RefCell::new(None) };
}

/// These bytes compressed, if that makes them shorter.
fn compressed(bytes: &[u8], level: i32) -> Option<Vec<u8>> {
    if bytes.len() < LEAST_TO_COMPRESS {
        return None;
    }
    COMPRESSOR.with_borrow_mut(|compressor| {
        if compressor.as_ref().is_none_or(|(known, _)| *known != level) {
            let new = zstd::bulk::Compressor::new(level).ok();
            *compressor = new.map(|new| (level, new));
        }
        let (_, compressor) = compressor.as_mut()?;
        let shorter = compressor.compress(bytes).ok()?;
        (shorter.len() < bytes.len()).then_some(shorter)
    })
}
