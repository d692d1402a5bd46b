//! Content encodings, decoded while they are read, with a cap on what comes out.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Crc, Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

/// Encodings on top of each other. One is usual, two a mistake that happens; each
/// costs a window of memory.
const MAX_STACKED: usize = 3;

/// The largest window of zstd, as a power of two: 8 MiB, which is also what RFC 9659
/// asks of senders. Without a limit, a frame of a few bytes has us take gigabytes.
const MAX_ZSTD_WINDOW: u32 = 23;

/// Decoded bytes that are passed on at a time.
const BLOCK: usize = 32 * 1024;

/// Why a body could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// More came out than is taken.
    #[error("the body is longer than {0} bytes")]
    TooLarge(u64),
    /// An encoding that we did not ask for and do not know.
    #[error("the content encoding is not known: {0}")]
    Unknown(String),
    /// More encodings on top of each other than anybody needs.
    #[error("the body is encoded more than {MAX_STACKED} times over")]
    Stacked,
    /// Bytes that are not what they are said to be.
    #[error("the {0} encoding is corrupt")]
    Corrupt(&'static str),
    /// The end is missing.
    #[error("the {0} encoding ends too early")]
    Truncated(&'static str),
}

/// Decodes a body while it is read.
///
/// Holds at most `limit` decoded bytes, and between stacked encodings no more than a
/// block. What each of them gives out is bounded by the limit too, so work is
/// bounded by it and by what is fed.
pub struct Decoder {
    /// From the outermost encoding, which came last, to the innermost.
    stages: Vec<Stage>,
    decoded: Vec<u8>,
    limit: u64,
}

struct Stage {
    codec: Codec,
    n_out: u64,
}

impl Decoder {
    /// A decoder for a body with these content encodings, in the order in which they
    /// were applied: the values of `Content-Encoding`, each a list.
    ///
    /// # Errors
    /// If one of them is unknown, or there are too many.
    pub fn new<'a>(
        encodings: impl IntoIterator<Item = &'a str>,
        limit: u64,
    ) -> Result<Self, DecodeError> {
        let mut stages = Vec::new();
        for name in encodings.into_iter().flat_map(|list| list.split(',')) {
            let Some(codec) = Codec::by_name(name.trim())? else {
                continue;
            };
            if stages.len() == MAX_STACKED {
                return Err(DecodeError::Stacked);
            }
            stages.push(Stage { codec, n_out: 0 });
        }
        stages.reverse();
        Ok(Self {
            stages,
            decoded: Vec::new(),
            limit,
        })
    }

    /// Whether bodies come as they are.
    pub fn is_identity(&self) -> bool {
        self.stages.is_empty()
    }

    /// How many bytes were decoded so far.
    pub fn n_decoded(&self) -> usize {
        self.decoded.len()
    }

    /// Takes the next bytes of the body.
    ///
    /// # Errors
    /// If they are corrupt, or decode to more than the limit. What was decoded up to
    /// the limit is there then.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        feed(&mut self.stages, bytes, &mut self.decoded, self.limit)
    }

    /// Everything that was decoded, once the body has ended.
    ///
    /// # Errors
    /// If it has ended too early.
    pub fn finish(self) -> Result<Vec<u8>, DecodeError> {
        for stage in &self.stages {
            stage.codec.finish()?;
        }
        Ok(self.decoded)
    }

    /// What was decoded so far, whether or not the body has ended.
    pub fn into_decoded(self) -> Vec<u8> {
        self.decoded
    }
}

fn feed(
    stages: &mut [Stage],
    mut bytes: &[u8],
    decoded: &mut Vec<u8>,
    limit: u64,
) -> Result<(), DecodeError> {
    let Some((stage, inner)) = stages.split_first_mut() else {
        let room =
            usize::try_from(limit.saturating_sub(decoded.len() as u64)).unwrap_or(usize::MAX);
        decoded.extend_from_slice(&bytes[..bytes.len().min(room)]);
        return if bytes.len() > room {
            Err(DecodeError::TooLarge(limit))
        } else {
            Ok(())
        };
    };
    let mut block = [0; BLOCK];
    loop {
        let step = stage.codec.step(bytes, &mut block)?;
        stage.n_out += step.written as u64;
        feed(inner, &block[..step.written], decoded, limit)?;
        // An inner encoding that puts out less than it takes (mostly empty blocks) would
        // never hit the limit; this ends it.
        if !inner.is_empty() && stage.n_out > limit {
            return Err(DecodeError::TooLarge(limit));
        }
        bytes = &bytes[step.read..];
        // A full block may mean that there is more where it came from.
        if bytes.is_empty() && step.written < block.len() {
            return Ok(());
        }
        if step.read == 0 && step.written == 0 {
            return Err(DecodeError::Corrupt(stage.codec.name()));
        }
    }
}

/// What one step did.
struct Step {
    read: usize,
    written: usize,
}

enum Codec {
    Gzip(Gzip),
    Deflate(Deflate),
    Brotli(Box<Brotli>),
    Zstd(Zstd),
}

impl Codec {
    /// The codec by the name it has in HTTP; none for a body as it is.
    fn by_name(name: &str) -> Result<Option<Self>, DecodeError> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "" | "identity" | "none" => None,
            "gzip" | "x-gzip" => Some(Self::Gzip(Gzip::new())),
            "deflate" => Some(Self::Deflate(Deflate::new())),
            "br" => Some(Self::Brotli(Box::new(Brotli::new()))),
            "zstd" => Some(Self::Zstd(Zstd::new()?)),
            _ => return Err(DecodeError::Unknown(printable(name))),
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Gzip(_) => "gzip",
            Self::Deflate(_) => "deflate",
            Self::Brotli(_) => "br",
            Self::Zstd(_) => "zstd",
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        match self {
            Self::Gzip(gzip) => gzip.step(input, output),
            Self::Deflate(deflate) => deflate.step(input, output),
            Self::Brotli(brotli) => brotli.step(input, output),
            Self::Zstd(zstd) => zstd.step(input, output),
        }
    }

    fn finish(&self) -> Result<(), DecodeError> {
        let is_whole = match self {
            Self::Gzip(gzip) => gzip.is_whole(),
            Self::Deflate(deflate) => deflate.is_whole(),
            Self::Brotli(brotli) => brotli.is_whole(),
            Self::Zstd(zstd) => zstd.is_whole(),
        };
        if is_whole {
            Ok(())
        } else {
            Err(DecodeError::Truncated(self.name()))
        }
    }
}

/// A name from a header in a message: short, and without anything that moves a
/// terminal's cursor.
fn printable(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_ascii_graphic())
        .take(32)
        .collect()
}

/// Gzip by RFC 1952: any number of members. What follows the last and is no member
/// is padding, as it is to browsers.
struct Gzip {
    inflate: Decompress,
    crc: Crc,
    at: GzipAt,
    has_member: bool,
}

enum GzipAt {
    /// In the ten bytes that every member begins with, with the flags once known.
    Start { n: u8, flags: u8 },
    /// In the length of the extra field.
    ExtraLength { n: u8, length: u16, flags: u8 },
    /// In the extra field.
    Extra { left: u16, flags: u8 },
    /// In the name of the file, or the comment: up to the next zero.
    Text { flags: u8 },
    /// In the checksum of the header.
    HeaderCrc { left: u8 },
    /// In the data.
    Data,
    /// In the checksum and the length.
    Trailer { n: u8, trailer: [u8; 8] },
    /// In what follows the last member.
    Padding,
}

const HEADER_CRC: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;

impl Gzip {
    fn new() -> Self {
        Self {
            inflate: Decompress::new(false),
            crc: Crc::new(),
            at: GzipAt::Start { n: 0, flags: 0 },
            has_member: false,
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        let mut read = 0;
        loop {
            if matches!(self.at, GzipAt::Data) {
                let (step, has_ended) = inflate(&mut self.inflate, "gzip", &input[read..], output)?;
                self.crc.update(&output[..step.written]);
                if has_ended {
                    self.at = GzipAt::Trailer {
                        n: 0,
                        trailer: [0; 8],
                    };
                }
                read += step.read;
                if step.written > 0 || !has_ended {
                    return Ok(Step {
                        read,
                        written: step.written,
                    });
                }
            }
            let Some(&byte) = input.get(read) else {
                return Ok(Step { read, written: 0 });
            };
            read += 1;
            self.at = self.next(byte)?;
        }
    }

    /// Where we are after a byte that is not data.
    fn next(&mut self, byte: u8) -> Result<GzipAt, DecodeError> {
        Ok(match self.at {
            GzipAt::Start { n, flags } => {
                let is_right = match n {
                    0 => byte == 0x1f,
                    1 => byte == 0x8b,
                    2 => byte == 8,
                    // Bits that are not defined might stand for a field that we would
                    // take for data.
                    3 => byte & 0xe0 == 0,
                    _ => true,
                };
                match (is_right, n) {
                    (false, 0 | 1) if self.has_member => GzipAt::Padding,
                    (false, _) => return Err(DecodeError::Corrupt("gzip")),
                    (true, 3) => GzipAt::Start { n: 4, flags: byte },
                    (true, 9) => self.after_start(flags),
                    (true, _) => GzipAt::Start { n: n + 1, flags },
                }
            }
            GzipAt::ExtraLength { n: 0, flags, .. } => GzipAt::ExtraLength {
                n: 1,
                length: u16::from(byte),
                flags,
            },
            GzipAt::ExtraLength { length, flags, .. } => match length | u16::from(byte) << 8 {
                0 => self.after_start(flags),
                left => GzipAt::Extra { left, flags },
            },
            GzipAt::Extra { left: 1, flags } => self.after_start(flags),
            GzipAt::Extra { left, flags } => GzipAt::Extra {
                left: left - 1,
                flags,
            },
            GzipAt::Text { flags } if byte == 0 => self.after_start(flags),
            GzipAt::Text { flags } => GzipAt::Text { flags },
            GzipAt::HeaderCrc { left: 1 } => self.begin_data(),
            GzipAt::HeaderCrc { left } => GzipAt::HeaderCrc { left: left - 1 },
            GzipAt::Data => GzipAt::Data,
            GzipAt::Trailer { n, mut trailer } => {
                trailer[usize::from(n)] = byte;
                if n < 7 {
                    GzipAt::Trailer { n: n + 1, trailer }
                } else {
                    let [a, b, c, d, e, f, g, h] = trailer;
                    if u32::from_le_bytes([a, b, c, d]) != self.crc.sum()
                        || u32::from_le_bytes([e, f, g, h]) != self.crc.amount()
                    {
                        return Err(DecodeError::Corrupt("gzip"));
                    }
                    self.has_member = true;
                    GzipAt::Start { n: 0, flags: 0 }
                }
            }
            GzipAt::Padding => GzipAt::Padding,
        })
    }

    /// The next of the fields that these flags announce.
    fn after_start(&mut self, flags: u8) -> GzipAt {
        if flags & EXTRA != 0 {
            GzipAt::ExtraLength {
                n: 0,
                length: 0,
                flags: flags & !EXTRA,
            }
        } else if flags & NAME != 0 {
            GzipAt::Text {
                flags: flags & !NAME,
            }
        } else if flags & COMMENT != 0 {
            GzipAt::Text {
                flags: flags & !COMMENT,
            }
        } else if flags & HEADER_CRC != 0 {
            GzipAt::HeaderCrc { left: 2 }
        } else {
            self.begin_data()
        }
    }

    fn begin_data(&mut self) -> GzipAt {
        self.inflate.reset(false);
        self.crc.reset();
        GzipAt::Data
    }

    /// An answer without a body is often labelled all the same.
    fn is_whole(&self) -> bool {
        match self.at {
            GzipAt::Start { n, .. } => n == 0 || self.has_member,
            GzipAt::Padding => true,
            _ => false,
        }
    }
}

/// What HTTP calls deflate: zlib by the book, raw deflate by some servers.
struct Deflate {
    first: Option<u8>,
    inflate: Option<Decompress>,
    has_ended: bool,
}

impl Deflate {
    fn new() -> Self {
        Self {
            first: None,
            inflate: None,
            has_ended: false,
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        if self.has_ended {
            return Ok(Step {
                read: input.len(),
                written: 0,
            });
        }
        if let Some(decompress) = &mut self.inflate {
            let (step, has_ended) = inflate(decompress, "deflate", input, output)?;
            self.has_ended = has_ended;
            return Ok(step);
        }
        let (Some(&byte), first) = (input.first(), self.first) else {
            return Ok(Step {
                read: 0,
                written: 0,
            });
        };
        let Some(first) = first else {
            self.first = Some(byte);
            return Ok(Step {
                read: 1,
                written: 0,
            });
        };
        // A raw stream that begins like zlib would have to begin with a stored block
        // whose padding is not zero, which no encoder writes.
        let is_zlib = first & 0x0f == 8 && (u16::from(first) << 8 | u16::from(byte)) % 31 == 0;
        let decompress = self.inflate.insert(Decompress::new(is_zlib));
        let (step, has_ended) = inflate(decompress, "deflate", &[first, byte], output)?;
        if step.read < 2 && !has_ended {
            return Err(DecodeError::Corrupt("deflate"));
        }
        self.has_ended = has_ended;
        Ok(Step {
            read: 1,
            written: step.written,
        })
    }

    fn is_whole(&self) -> bool {
        self.has_ended || (self.first.is_none() && self.inflate.is_none())
    }
}

/// One step of inflating, and whether the stream has ended.
fn inflate(
    decompress: &mut Decompress,
    name: &'static str,
    input: &[u8],
    output: &mut [u8],
) -> Result<(Step, bool), DecodeError> {
    let (read, written) = (decompress.total_in(), decompress.total_out());
    let status = decompress
        .decompress(input, output, FlushDecompress::None)
        .map_err(|_| DecodeError::Corrupt(name))?;
    let step = Step {
        read: (decompress.total_in() - read) as usize,
        written: (decompress.total_out() - written) as usize,
    };
    Ok((step, status == Status::StreamEnd))
}

/// Brotli by RFC 7932.
struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    has_begun: bool,
    has_ended: bool,
}

impl Brotli {
    fn new() -> Self {
        Self {
            // Strict: without the windows of up to a gigabyte that are no part of
            // the format as HTTP knows it.
            state: BrotliState::new_strict(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            ),
            has_begun: false,
            has_ended: false,
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        if self.has_ended {
            return Ok(Step {
                read: input.len(),
                written: 0,
            });
        }
        self.has_begun |= !input.is_empty();
        let (mut left_in, mut read) = (input.len(), 0);
        let (mut left_out, mut written, mut total) = (output.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut left_in,
            &mut read,
            input,
            &mut left_out,
            &mut written,
            output,
            &mut total,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultFailure => return Err(DecodeError::Corrupt("br")),
            BrotliResult::ResultSuccess => self.has_ended = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
        }
        Ok(Step { read, written })
    }

    fn is_whole(&self) -> bool {
        self.has_ended || !self.has_begun
    }
}

/// Zstandard by RFC 8878: any number of frames.
struct Zstd {
    decoder: ZstdDecoder<'static>,
    is_in_frame: bool,
}

impl Zstd {
    fn new() -> Result<Self, DecodeError> {
        let mut decoder = ZstdDecoder::new().map_err(|_| DecodeError::Corrupt("zstd"))?;
        decoder
            .set_parameter(DParameter::WindowLogMax(MAX_ZSTD_WINDOW))
            .map_err(|_| DecodeError::Corrupt("zstd"))?;
        Ok(Self {
            decoder,
            is_in_frame: false,
        })
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        if input.is_empty() && !self.is_in_frame {
            return Ok(Step {
                read: 0,
                written: 0,
            });
        }
        let status = self
            .decoder
            .run_on_buffers(input, output)
            .map_err(|_| DecodeError::Corrupt("zstd"))?;
        self.is_in_frame = status.remaining > 0;
        Ok(Step {
            read: status.bytes_read,
            written: status.bytes_written,
        })
    }

    fn is_whole(&self) -> bool {
        !self.is_in_frame
    }
}
