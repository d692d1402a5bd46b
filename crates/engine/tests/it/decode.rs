//! Content encodings: what was encoded comes out, and anything else is a failure.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::prelude::*;
use springtide_engine::fetch::{DecodeError, Decoder, MAX_RETRY_AFTER, http_date, retry_after};
use springtide_engine::origin::hostile::br_blanks;

const LIMIT: u64 = 100_000;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// Brotli without compression: pieces of up to 65,536 bytes as they are.
fn brotli(bytes: &[u8]) -> Vec<u8> {
    // A window of 16 bits, then as below, so that every piece begins at a byte.
    let (mut encoded, _) = br_blanks();
    for piece in bytes.chunks(1 << 16) {
        // Not the last; four nibbles of length less one; as it is.
        let header = ((piece.len() as u32 - 1) << 3) | 1 << 19;
        encoded.extend_from_slice(&header.to_le_bytes()[..3]);
        encoded.extend_from_slice(piece);
    }
    // The last, and empty.
    encoded.push(3);
    encoded
}

/// Decodes in pieces of this length.
fn decode(encoding: &str, bytes: &[u8], piece: usize, limit: u64) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = Decoder::new([encoding], limit)?;
    for piece in bytes.chunks(piece.max(1)) {
        decoder.feed(piece)?;
    }
    decoder.finish()
}

type Encode = fn(&[u8]) -> Vec<u8>;

fn encodings() -> Vec<(&'static str, Encode)> {
    vec![
        ("gzip", gzip),
        ("x-gzip", gzip),
        ("deflate", zlib),
        ("Deflate", raw_deflate),
        ("br", brotli),
        ("zstd", zstd),
        ("identity", <[u8]>::to_vec),
    ]
}

fn text() -> Vec<u8> {
    (0..3000_u32)
        .flat_map(|n| format!("line {} of some text\n", n * 7919 % 1013).into_bytes())
        .collect()
}

#[test]
fn what_was_encoded_comes_out_however_it_is_cut() {
    for (name, encode) in encodings() {
        for text in [&b""[..], b"x", b"ab", &text()] {
            let encoded = encode(text);
            for piece in [1, 2, 3, 7, 1000, usize::MAX] {
                let decoded = decode(name, &encoded, piece, LIMIT);
                assert_eq!(decoded.as_deref(), Ok(text), "{name} by {piece}");
            }
        }
    }
}

#[test]
fn encodings_on_top_of_each_other_are_undone_last_first() {
    let encoded = zstd(&brotli(&gzip(&text())));
    assert_eq!(decode("gzip, br,zstd", &encoded, 100, LIMIT), Ok(text()));
    let mut decoder = Decoder::new(["gzip", "identity, br", "zstd"], LIMIT).unwrap();
    decoder.feed(&encoded).unwrap();
    assert_eq!(decoder.finish(), Ok(text()));
    assert_eq!(
        Decoder::new(["gzip, gzip, gzip, gzip"], LIMIT).err(),
        Some(DecodeError::Stacked)
    );
    assert_eq!(
        Decoder::new(["gzip, sdch"], LIMIT).err(),
        Some(DecodeError::Unknown("sdch".to_owned()))
    );
}

#[test]
fn members_and_frames_follow_each_other() {
    let text = text();
    let (first, second) = text.split_at(1000);
    for (name, encode) in [("gzip", gzip as Encode), ("zstd", zstd)] {
        let encoded = [encode(first), encode(b""), encode(second)].concat();
        for piece in [1, 10, usize::MAX] {
            assert_eq!(decode(name, &encoded, piece, LIMIT), Ok(text.clone()));
        }
    }
}

#[test]
fn padding_after_the_end_is_passed_over() {
    for (name, encode) in encodings() {
        if matches!(name, "zstd" | "identity") {
            continue;
        }
        for padding in [&[0; 512][..], b"\r\n", &[0x1f]] {
            let mut encoded = encode(b"hello");
            encoded.extend_from_slice(padding);
            let decoded = decode(name, &encoded, 1, LIMIT);
            assert_eq!(decoded.as_deref(), Ok(&b"hello"[..]), "{name}");
        }
    }
}

#[test]
fn every_field_of_a_gzip_header_is_passed_over() {
    let mut encoder = flate2::GzBuilder::new()
        .filename("a name")
        .comment("a comment")
        .extra(vec![7; 300])
        .mtime(12345)
        .write(Vec::new(), Compression::fast());
    encoder.write_all(b"hello").unwrap();
    let encoded = encoder.finish().unwrap();
    for piece in [1, 5, usize::MAX] {
        assert_eq!(
            decode("gzip", &encoded, piece, LIMIT),
            Ok(b"hello".to_vec())
        );
    }
    let mut with_checksum = encoded;
    with_checksum[3] |= 2;
    let name_and_comment = b"a name\0a comment\0".len();
    let at = 10 + 2 + 300 + name_and_comment;
    with_checksum.splice(at..at, [1, 2]);
    assert_eq!(
        decode("gzip", &with_checksum, 1, LIMIT),
        Ok(b"hello".to_vec())
    );
    with_checksum[3] |= 0x40;
    assert_eq!(
        decode("gzip", &with_checksum, 1, LIMIT),
        Err(DecodeError::Corrupt("gzip"))
    );
}

#[test]
fn what_is_cut_short_is_a_failure() {
    let text = text();
    for (name, encode) in encodings() {
        if name == "identity" {
            continue;
        }
        let encoded = encode(&text);
        for end in (1..encoded.len()).step_by(encoded.len() / 50 + 1) {
            let result = decode(name, &encoded[..end], 1000, LIMIT);
            assert!(result.is_err(), "{name} cut to {end} of {}", encoded.len());
        }
        let result = decode(name, &encoded[..encoded.len() - 1], 1000, LIMIT);
        assert!(result.is_err(), "{name} without its last byte");
    }
}

#[test]
fn a_wrong_sum_is_a_failure() {
    let mut encoded = gzip(&text());
    for at in encoded.len() - 8..encoded.len() {
        encoded[at] ^= 1;
        assert_eq!(
            decode("gzip", &encoded, 1000, LIMIT),
            Err(DecodeError::Corrupt("gzip"))
        );
        encoded[at] ^= 1;
    }
}

#[test]
fn the_cap_holds_to_the_byte() {
    let text = text();
    let length = text.len() as u64;
    for (name, encode) in encodings() {
        let encoded = encode(&text);
        assert!(decode(name, &encoded, 500, length).is_ok(), "{name}");
        assert_eq!(
            decode(name, &encoded, 500, length - 1),
            Err(DecodeError::TooLarge(length - 1)),
            "{name}"
        );
        let mut decoder = Decoder::new([name], 10).unwrap();
        assert!(decoder.feed(&encoded).is_err());
        assert_eq!(decoder.into_decoded(), &text[..10], "{name}");
    }
}

#[test]
fn brotli_by_hand_is_a_megabyte_of_blanks() {
    let (begin, again) = br_blanks();
    let encoded = [&begin[..], &again, &again, &[3]].concat();
    assert!(encoded.len() < 60);
    let decoded = decode("br", &encoded, 1, 10 << 20).unwrap();
    assert_eq!(decoded.len(), 2 << 20);
    assert!(decoded.iter().all(|&byte| byte == b' '));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn any_bytes_decode_to_something_within_the_cap_or_fail(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        piece in 1..100_usize,
        which in 0..6_usize,
    ) {
        let names = ["gzip", "deflate", "br", "zstd", "br, gzip", "zstd, deflate"];
        if let Ok(decoded) = decode(names[which], &bytes, piece, 5000) {
            prop_assert!(decoded.len() <= 5000);
        }
    }

    #[test]
    fn damaged_encodings_decode_to_something_within_the_cap_or_fail(
        text in prop::collection::vec(any::<u8>(), 0..300),
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        piece in 1..100_usize,
        which in 0..7_usize,
    ) {
        let (name, encode) = encodings()[which];
        let mut encoded = encode(&text);
        let n = encoded.len();
        if n > 0 {
            for (at, byte) in damage {
                encoded[at % n] = byte;
            }
        }
        if let Ok(decoded) = decode(name, &encoded, piece, 5000) {
            prop_assert!(decoded.len() <= 5000);
        }
    }

    #[test]
    fn anything_comes_back_from_every_encoding(
        text in prop::collection::vec(any::<u8>(), 0..3000),
        piece in 1..500_usize,
    ) {
        for (name, encode) in encodings() {
            prop_assert_eq!(decode(name, &encode(&text), piece, LIMIT), Ok(text.clone()));
        }
    }

    #[test]
    fn any_retry_after_is_bounded(value in ".{0,60}", digits in "[0-9]{1,40}") {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for value in [value, digits] {
            prop_assert!(retry_after(&value, now).is_none_or(|span| span <= MAX_RETRY_AFTER));
            let _ = http_date(&value);
        }
    }

    #[test]
    fn dates_that_are_nearly_dates_do_no_harm(value in "(Mon|Tue|Sunday)[, ]{1,2}[0-9]{0,2}[ -][A-Z][a-z]{2}[ -][0-9]{0,5} [0-9]{0,3}:[0-9]{0,3}:[0-9]{0,3} (GMT|UTC)?") {
        let _ = http_date(&value);
    }
}

#[test]
fn dates_are_read_in_all_three_formats() {
    let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    for value in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ] {
        assert_eq!(http_date(value), Some(expected), "{value}");
    }
    let soon = retry_after(
        "Sun, 06 Nov 1994 08:49:37 GMT",
        expected - Duration::from_secs(5),
    );
    assert_eq!(soon, Some(Duration::from_secs(5)));
}
