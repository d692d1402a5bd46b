//! Servers that mean harm, or were never tested: every way to answer badly that we
//! know of, by name.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;

use super::behaviour::{Behaviour, Step};

/// Longer than anybody waits.
const FOREVER: Duration = Duration::from_secs(3600);
/// As often as it takes.
const ENDLESS: u64 = u64::MAX;
/// Blank bytes that a bomb holds, at least: no body that is wanted is as long.
const BOMB: usize = 64 << 20;

/// All of them, with names.
pub fn all() -> Vec<(&'static str, Behaviour)> {
    vec![
        ("slow-headers", slow_headers()),
        ("silence", silence()),
        ("slow-body", slow_body()),
        ("stalled-body", stalled_body()),
        ("endless-body", endless_body()),
        ("endless-chunks", endless_chunks()),
        ("early-close", early_close()),
        ("close-at-once", close_at_once()),
        ("reset-at-once", reset_at_once()),
        ("reset-in-body", reset_in_body()),
        ("garbage", garbage()),
        ("endless-garbage", endless_garbage()),
        ("ancient", ancient()),
        ("broken-chunks", broken_chunks()),
        ("huge-chunk", huge_chunk()),
        ("negative-length", negative_length()),
        ("two-lengths", two_lengths()),
        ("length-too-long", length_too_long()),
        ("length-enormous", length_enormous()),
        ("many-headers", many_headers()),
        ("long-header", long_header()),
        ("endless-headers", endless_headers()),
        ("endless-trailers", endless_trailers()),
        ("endless-continue", endless_continue()),
        ("gzip-bomb", gzip_bomb()),
        ("endless-gzip", endless_gzip()),
        ("gzip-in-gzip-bomb", gzip_in_gzip_bomb()),
        ("endless-empty-gzip", endless_empty_gzip()),
        ("deflate-bomb", deflate_bomb()),
        ("br-bomb", br_bomb()),
        ("zstd-bomb", zstd_bomb()),
        ("zstd-window", zstd_window()),
        ("truncated-gzip", truncated_gzip()),
        ("corrupt-gzip", corrupt_gzip()),
        ("not-gzip", not_gzip()),
        ("unknown-encoding", unknown_encoding()),
        ("many-encodings", many_encodings()),
        ("long-location", long_location()),
        ("upgrade", upgrade()),
    ]
}

fn steps(steps: impl Into<Vec<Step>>) -> Behaviour {
    Behaviour::Steps(steps.into())
}

fn send(bytes: impl Into<Bytes>) -> Step {
    Step::Send(bytes.into())
}

fn repeat(bytes: impl Into<Bytes>, times: u64) -> Step {
    Step::Repeat(bytes.into(), times)
}

/// One byte of the headers a second.
pub fn slow_headers() -> Behaviour {
    let mut all = Vec::new();
    for &byte in b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx: " {
        all.push(send(vec![byte]));
        all.push(Step::Wait(Duration::from_secs(1)));
    }
    all.push(Step::Wait(FOREVER));
    steps(all)
}

/// Nothing at all.
pub fn silence() -> Behaviour {
    steps([Step::Wait(FOREVER)])
}

/// A byte of the body now and then, so that no pause is long and the whole is.
pub fn slow_body() -> Behaviour {
    let mut all = vec![send("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")];
    for _ in 0..20_000 {
        all.push(send("x"));
        all.push(Step::Wait(Duration::from_millis(20)));
    }
    steps(all)
}

/// Half a body, and then nothing.
pub fn stalled_body() -> Behaviour {
    steps([
        send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"),
        Step::Wait(FOREVER),
    ])
}

/// A body that does not say how long it is, and does not end.
pub fn endless_body() -> Behaviour {
    steps([
        send("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"),
        repeat("all work and no play\n", ENDLESS),
    ])
}

/// The same in chunks of one byte.
pub fn endless_chunks() -> Behaviour {
    steps([
        send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        repeat("1\r\nx\r\n", ENDLESS),
    ])
}

/// The connection is closed before the body is whole.
pub fn early_close() -> Behaviour {
    Behaviour::raw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
}

/// The connection is closed without an answer.
pub fn close_at_once() -> Behaviour {
    steps([])
}

/// The connection is reset without an answer.
pub fn reset_at_once() -> Behaviour {
    steps([Step::Reset])
}

/// The connection is reset in the middle of the body.
pub fn reset_in_body() -> Behaviour {
    steps([
        send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"),
        Step::Wait(Duration::from_millis(50)),
        Step::Reset,
    ])
}

/// Something else, that ends.
pub fn garbage() -> Behaviour {
    Behaviour::raw("220 mail.example.org ESMTP ready\r\n\r\n")
}

/// Something else, that does not.
pub fn endless_garbage() -> Behaviour {
    steps([repeat(&b"\x00\x9f\x92\x96 \xff\xfe"[..], ENDLESS)])
}

/// HTTP of before there were headers.
pub fn ancient() -> Behaviour {
    Behaviour::raw("<html>hello</html>")
}

/// A chunk whose length is none.
pub fn broken_chunks() -> Behaviour {
    Behaviour::raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n")
}

/// A chunk whose length no number holds.
pub fn huge_chunk() -> Behaviour {
    Behaviour::raw(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello",
    )
}

/// A length below zero.
pub fn negative_length() -> Behaviour {
    Behaviour::raw("HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nhello")
}

/// Two lengths, of which one is wrong.
pub fn two_lengths() -> Behaviour {
    Behaviour::raw("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 3\r\n\r\nhello")
}

/// More is promised than comes.
pub fn length_too_long() -> Behaviour {
    Behaviour::raw("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello")
}

/// More is promised than there is in the world.
pub fn length_enormous() -> Behaviour {
    Behaviour::raw("HTTP/1.1 200 OK\r\ncontent-length: 9223372036854775807\r\n\r\nhello")
}

/// A hundred thousand headers.
pub fn many_headers() -> Behaviour {
    steps([
        send("HTTP/1.1 200 OK\r\n"),
        repeat("x: y\r\n", 100_000),
        send("content-length: 0\r\n\r\n"),
    ])
}

/// A header of ten megabytes.
pub fn long_header() -> Behaviour {
    steps([
        send("HTTP/1.1 200 OK\r\nx: "),
        repeat("y", 10_000_000),
        send("\r\ncontent-length: 0\r\n\r\n"),
    ])
}

/// Headers without end.
pub fn endless_headers() -> Behaviour {
    steps([
        send("HTTP/1.1 200 OK\r\n"),
        repeat("x-padding: aaaaaaaaaaaaaaaaaaaaaaaa\r\n", ENDLESS),
    ])
}

/// Headers without end, after the body.
pub fn endless_trailers() -> Behaviour {
    steps([
        send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"),
        repeat("x-padding: aaaaaaaaaaaaaaaaaaaaaaaa\r\n", ENDLESS),
    ])
}

/// Leave to go on, again and again.
pub fn endless_continue() -> Behaviour {
    steps([repeat("HTTP/1.1 100 Continue\r\n\r\n", ENDLESS)])
}

fn encoded(encoding: &str, body: impl Into<Bytes>) -> Behaviour {
    Behaviour::body("text/html", body).with("content-encoding", encoding)
}

fn endlessly_encoded(encoding: &str, begin: Vec<u8>, again: Vec<u8>) -> Behaviour {
    steps([
        send(format!(
            "HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\nconnection: close\r\n\r\n"
        )),
        send(begin),
        repeat(again, ENDLESS),
    ])
}

/// Kilobytes that decode to megabytes.
pub fn gzip_bomb() -> Behaviour {
    encoded("gzip", gzip_blanks(BOMB))
}

/// The same, again and again.
pub fn endless_gzip() -> Behaviour {
    endlessly_encoded("gzip", Vec::new(), gzip_blanks(1 << 20))
}

/// A bomb in a bomb.
pub fn gzip_in_gzip_bomb() -> Behaviour {
    encoded("gzip, gzip", gzip(&gzip_blanks(BOMB)))
}

/// Nothing, compressed, again and again: bytes go in, and none come out.
pub fn endless_empty_gzip() -> Behaviour {
    endlessly_encoded("gzip", Vec::new(), gzip(b""))
}

/// Kilobytes that decode to megabytes.
pub fn deflate_bomb() -> Behaviour {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    write_blanks(&mut encoder, BOMB);
    encoded("deflate", encoder.finish().unwrap_or_default())
}

/// A few bytes that decode to megabytes, again and again.
pub fn br_bomb() -> Behaviour {
    let (begin, again) = br_blanks();
    endlessly_encoded("br", begin, again)
}

/// Kilobytes that decode to megabytes.
pub fn zstd_bomb() -> Behaviour {
    let bomb = zstd::stream::write::Encoder::new(Vec::new(), 19).and_then(|mut encoder| {
        write_blanks(&mut encoder, BOMB);
        encoder.finish()
    });
    encoded("zstd", bomb.unwrap_or_default())
}

/// A frame that wants two gigabytes of memory before it says anything.
pub fn zstd_window() -> Behaviour {
    // Magic number, no content size, a window of 2^31 bytes, and a last block that
    // repeats one byte three times.
    encoded("zstd", &b"\x28\xb5\x2f\xfd\x00\xa8\x1b\x00\x00\x20"[..])
}

/// Half of something.
pub fn truncated_gzip() -> Behaviour {
    let mut whole = gzip(b"a body that is not there to its end, whatever it says");
    whole.truncate(whole.len() - 12);
    encoded("gzip", whole)
}

/// Something with a byte that is wrong.
pub fn corrupt_gzip() -> Behaviour {
    let mut whole = gzip(b"a body with a byte that is wrong, somewhere in the sum of it");
    let n = whole.len();
    whole[n - 6] ^= 0x55;
    encoded("gzip", whole)
}

/// What it says it is, it is not.
pub fn not_gzip() -> Behaviour {
    encoded("gzip", "<html>hello</html>")
}

/// An encoding that nobody asked for.
pub fn unknown_encoding() -> Behaviour {
    encoded("compress", "hello")
}

/// Encodings that nobody needs.
pub fn many_encodings() -> Behaviour {
    encoded(&["gzip"; 1000].join(", "), "hello")
}

/// A redirect to an address of 64 kB.
pub fn long_location() -> Behaviour {
    Behaviour::redirect(301, &format!("/{}", "a".repeat(64 * 1024)))
}

/// Another protocol, from now on.
pub fn upgrade() -> Behaviour {
    Behaviour::raw(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: tea\r\nconnection: upgrade\r\n\r\n",
    )
}

/// A sitemap of so many pages, sent as it is made.
pub fn large_sitemap(n_pages: u64) -> Behaviour {
    steps([
        send(
            "HTTP/1.1 200 OK\r\ncontent-type: application/xml\r\nconnection: close\r\n\r\n<?xml version=\"1.0\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
        ),
        repeat(
            "<url><loc>http://127.0.0.1/the-same-page-again.html</loc></url>\n",
            n_pages,
        ),
        send("</urlset>\n"),
    ])
}

/// A sitemap whose one address would be some gigabytes long, if its entities were
/// written out.
pub fn entity_bomb() -> Behaviour {
    let mut xml =
        String::from("<?xml version=\"1.0\"?>\n<!DOCTYPE urlset [\n<!ENTITY e0 \"lol\">\n");
    for n in 1..10 {
        let again = format!("&e{};", n - 1).repeat(10);
        xml += &format!("<!ENTITY e{n} \"{again}\">\n");
    }
    xml += "]>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"><url><loc>http://127.0.0.1/&e9;</loc></url></urlset>\n";
    Behaviour::body("application/xml", xml)
}

/// Text that is none.
pub fn invalid_utf8() -> Behaviour {
    let mut html = b"<html><head><title>\xff\xfe</title></head><body><p>".to_vec();
    for n in 0..2000_u16 {
        html.extend_from_slice(&[0x80 | (n % 128) as u8, 0xc3, b' ']);
    }
    html.extend_from_slice(b"\xed\xa0\x80</p></body></html>");
    Behaviour::body("text/html; charset=utf-8", html)
}

/// The same validators whatever it holds: another text at every request, and a 304
/// for those who believe it.
pub fn lying_validators() -> Behaviour {
    let n = std::sync::atomic::AtomicU64::new(0);
    Behaviour::call(move |request| {
        let n = n.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let answer = if request.if_none_match.is_some() || request.if_modified_since.is_some() {
            Behaviour::status(304)
        } else {
            Behaviour::body("text/html", format!("<p>another text, the {n}th</p>"))
        };
        answer
            .with("etag", "\"always the same\"")
            .with("last-modified", "Sat, 01 Jan 2000 00:00:00 GMT")
    })
}

/// A 304 to whoever asks.
pub fn always_304() -> Behaviour {
    Behaviour::status(304)
}

/// A part, which nobody asked for.
pub fn partial() -> Behaviour {
    Behaviour::Reply(super::Reply {
        status: 206,
        headers: vec![("content-range".to_owned(), "bytes 0-4/1000".to_owned())],
        body: Bytes::from_static(b"hello"),
    })
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    // Into memory, nothing fails.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

fn gzip_blanks(n: usize) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    write_blanks(&mut encoder, n);
    encoder.finish().unwrap_or_default()
}

/// Writes blanks without holding them all.
fn write_blanks(encoder: &mut impl std::io::Write, n: usize) {
    const PIECE: usize = 1 << 16;
    for _ in 0..n / PIECE {
        // Into memory, nothing fails.
        let _ = encoder.write_all(&[b' '; PIECE]);
    }
}

/// The beginning of a brotli stream, and a piece of some bytes that holds a megabyte of
/// blanks and can follow it any number of times.
///
/// There is no compressor for brotli here; this is put together by hand from RFC 7932.
pub fn br_blanks() -> (Vec<u8>, Vec<u8>) {
    let mut begin = Bits::default();
    // A window of 16 bits is one zero bit. An empty block of metadata leads to the next
    // byte: not the last, no nibbles of length, reserved, no bytes to skip.
    begin.push(0, 1);
    begin.push(0, 1);
    begin.push(0b11, 2);
    begin.push(0, 1);
    begin.push(0, 2);

    let n_blanks: u32 = 1 << 20;
    let mut block = Bits::default();
    // Not the last; five nibbles of length less one; compressed.
    block.push(0, 1);
    block.push(1, 2);
    block.push(n_blanks - 1, 20);
    block.push(0, 1);
    // One type of each kind of block; no postfix bits, no direct distances; one context
    // mode; one tree of literals, one of distances.
    block.push(0, 3);
    block.push(0, 2);
    block.push(0, 4);
    block.push(0, 2);
    block.push(0, 2);
    // Three codes of one symbol each, which takes no bits: the literal blank; the
    // command that inserts one and copies 2118 and what 24 bits say; the distance of one
    // and what one bit says.
    for (symbol, n_bits) in [(u32::from(b' '), 8), (INSERT_ONE_COPY_MANY, 10), (16, 6)] {
        block.push(1, 2);
        block.push(0, 2);
        block.push(symbol, n_bits);
    }
    // Insert one blank; copy the rest, from a distance of one.
    block.push(n_blanks - 1 - 2118, 24);
    block.push(0, 1);
    // And to the next byte.
    block.push(0, 1);
    block.push(0b11, 2);
    block.push(0, 1);
    block.push(0, 2);
    (begin.bytes, block.bytes)
}

/// Insert code 1 (one literal) and copy code 23 (2118 and 24 more bits): the cell for
/// insert codes 0 to 7 and copy codes 16 to 23 begins at 384 (section 5).
const INSERT_ONE_COPY_MANY: u32 = 384 + (1 << 3) + 7;

/// Bits, the lowest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    n_bits: usize,
}

impl Bits {
    fn push(&mut self, value: u32, n_bits: usize) {
        for bit in 0..n_bits {
            if self.n_bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= ((value >> bit & 1) as u8) << (self.n_bits % 8);
            }
            self.n_bits += 1;
        }
    }
}
