//! Bytes into characters.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How far into a page its declared encoding is looked for, in bytes, as browsers do.
const MAX_PROLOGUE: usize = 1024;

/// The text of a body: by its byte order mark, else by its content type, else by
/// what it says of itself, else UTF-8.
///
/// Bytes that are not what they are said to be are read as windows-1252, in which
/// each byte is a character of its own: were they replaced by question marks, one
/// wrong byte could change into another unseen.
pub(crate) fn decode<'a>(body: &'a [u8], content_type: Option<&str>) -> Cow<'a, str> {
    let (encoding, body) = match Encoding::for_bom(body) {
        Some((encoding, length)) => (encoding, &body[length..]),
        None => {
            let label = content_type.and_then(charset_of);
            let encoding = label
                .and_then(|label| Encoding::for_label(label.as_bytes()))
                .or_else(|| declared_encoding(body))
                .unwrap_or(UTF_8);
            (encoding, body)
        }
    };
    if let Some(text) = encoding.decode_without_bom_handling_and_without_replacement(body) {
        return text;
    }
    if let Ok(text) = std::str::from_utf8(body) {
        return Cow::Borrowed(text);
    }
    WINDOWS_1252.decode_without_bom_handling(body).0
}

/// The `charset` parameter of a content type.
fn charset_of(content_type: &str) -> Option<&str> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        is_charset.then(|| value.trim().trim_matches(['"', '\'']))
    })
}

/// What a page or an XML document says of itself at its start: `charset=…` or
/// `encoding=…`.
fn declared_encoding(body: &[u8]) -> Option<&'static Encoding> {
    let prologue = &body[..body.len().min(MAX_PROLOGUE)];
    let start = prologue
        .iter()
        .position(|byte| !byte.is_ascii_whitespace())?;
    if prologue[start] != b'<' {
        return None;
    }
    let mut at = start;
    while let Some(equals) = memchr::memchr(b'=', &prologue[at..]) {
        let before = prologue[at..at + equals].trim_ascii_end();
        at += equals + 1;
        let is_word = |word: &[u8]| {
            before.len() >= word.len()
                && before[before.len() - word.len()..].eq_ignore_ascii_case(word)
        };
        if !(is_word(b"charset") || is_word(b"encoding")) {
            continue;
        }
        let value = prologue[at..].trim_ascii_start();
        let value = value
            .strip_prefix(b"\"")
            .or_else(|| value.strip_prefix(b"'"))
            .unwrap_or(value);
        let end = value
            .iter()
            .position(|byte| byte.is_ascii_whitespace() || b"\"'>/;?".contains(byte));
        let encoding = Encoding::for_label(&value[..end.unwrap_or(value.len())]);
        // What could be read so far was not UTF-16, whatever it says.
        return encoding.map(|found| found.output_encoding());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[track_caller]
    fn check(body: &[u8], content_type: Option<&str>, text: &str) {
        assert_eq!(decode(body, content_type), text);
    }

    #[test]
    fn the_mark_rules_then_the_header_then_the_page_then_utf_8() {
        check(
            b"\xef\xbb\xbfgr\xc3\xbcn",
            Some("text/html; charset=koi8-r"),
            "grün",
        );
        check(b"\xff\xfeg\0r\0", None, "gr");
        check(
            b"gr\xfcn",
            Some("text/html; Charset=\"ISO-8859-1\""),
            "grün",
        );
        check(
            b"<meta charset='koi8-r'>\xc1",
            None,
            "<meta charset='koi8-r'>а",
        );
        check(
            b"<meta content=\"text/html; charset=windows-1251\">\xe0",
            Some("text/html"),
            "<meta content=\"text/html; charset=windows-1251\">а",
        );
        check(
            b"<?xml encoding=\"koi8-r\"?>\xc1",
            None,
            "<?xml encoding=\"koi8-r\"?>а",
        );
        check("grün".as_bytes(), None, "grün");
    }

    #[test]
    fn wrong_bytes_stay_different_from_each_other() {
        for said in [
            None,
            Some("text/html; charset=utf-8"),
            Some("text/html; charset=no-such"),
        ] {
            assert_ne!(decode(b"a\xfe", said), decode(b"a\xff", said));
            assert_ne!(decode(b"a\x81", said), decode(b"a\x8d", said));
        }
    }

    #[test]
    fn what_is_said_of_utf_16_without_a_mark_is_not_believed() {
        check(
            b"<meta charset=utf-16le>ab",
            None,
            "<meta charset=utf-16le>ab",
        );
        check(b"<meta charset=", None, "<meta charset=");
        check(b"=", None, "=");
    }
}
