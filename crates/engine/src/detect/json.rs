//! What matters in a JSON document: its values, not how they are written.
//!
//! Members are sorted by name, numbers brought to one form without rounding
//! (`1.50`, `15e-1` and `1.5` are the same), strings escaped in one way, and each
//! value gets a line of its own.

use std::borrow::Cow;
use std::ops::Range;

/// Values inside values; deeper documents are compared by their bytes.
const MAX_DEPTH: usize = 128;

/// Blanks before a line. Deeper lines are not set in further, so that the lines of
/// a hostile document are not much longer than itself.
const MAX_INDENT: usize = 8;

/// A JSON pointer (RFC 6901), cut at its slashes. `*` stands for every member.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pointer {
    parts: Vec<String>,
}

impl Pointer {
    /// Nothing if a `~` is followed by neither 0 nor 1, or if there is no part.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let parts = text.strip_prefix('/')?.split('/').map(|part| {
            let mut rest = part.split('~');
            let mut plain = rest.next().unwrap_or_default().to_owned();
            for escaped in rest {
                let (character, tail) = match escaped.as_bytes().first()? {
                    b'0' => ('~', &escaped[1..]),
                    b'1' => ('/', &escaped[1..]),
                    _ => return None,
                };
                plain.push(character);
                plain.push_str(tail);
            }
            Some(plain)
        });
        let parts = parts.collect::<Option<Vec<_>>>()?;
        Some(Self { parts })
    }
}

/// The lines of what matters in a document; nothing if it is none, or too deep.
pub(crate) fn lines(text: &str, keep: &[Pointer], drop: &[Pointer]) -> Option<String> {
    // From here on it is known to be well-formed.
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let mut writer = Writer {
        text,
        at: 0,
        lines: String::with_capacity(text.len() + text.len() / 4),
    };
    let rules = Rules {
        is_kept: keep.is_empty(),
        keep: keep.iter().map(|pointer| &pointer.parts[..]).collect(),
        drop: drop.iter().map(|pointer| &pointer.parts[..]).collect(),
    };
    writer.value(&rules, 0)?;
    if !writer.lines.is_empty() {
        writer.lines.push('\n');
    }
    Some(writer.lines)
}

/// What the pointers say of a value: what is left of each that leads here.
struct Rules<'a> {
    is_kept: bool,
    keep: Vec<&'a [String]>,
    drop: Vec<&'a [String]>,
}

impl<'a> Rules<'a> {
    /// The rules for a member; nothing if it is left out.
    fn of_member(&self, name: &str) -> Option<Self> {
        let follow = |pointers: &[&'a [String]]| -> Vec<&'a [String]> {
            let leads_on = |pointer: &&'a [String]| {
                let (first, rest) = pointer.split_first()?;
                (first == name || first == "*").then_some(rest)
            };
            pointers.iter().filter_map(leads_on).collect()
        };
        let drop = follow(&self.drop);
        if drop.iter().any(|rest| rest.is_empty()) {
            return None;
        }
        let keep = follow(&self.keep);
        let is_kept = self.is_kept || keep.iter().any(|rest| rest.is_empty());
        (is_kept || !keep.is_empty()).then_some(Self {
            is_kept,
            keep,
            drop,
        })
    }

    fn is_simple(&self) -> bool {
        self.is_kept && self.drop.is_empty()
    }
}

/// Reads a well-formed document and writes its lines.
struct Writer<'a> {
    text: &'a str,
    at: usize,
    lines: String,
}

/// A member of an object, as written.
struct Member<'a> {
    name: Cow<'a, str>,
    line: Range<usize>,
}

impl<'a> Writer<'a> {
    /// Writes a value, or only reads over it where there are no rules for it.
    /// Nothing if it is too deep.
    fn value(&mut self, rules: &Rules<'_>, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.skip_blanks();
        match self.byte() {
            b'{' => self.object(rules, depth),
            b'[' => self.array(rules, depth),
            b'"' => {
                let text = self.string();
                if rules.is_kept {
                    write_string(&mut self.lines, &text);
                }
                Some(())
            }
            _ => {
                let start = self.at;
                let rest = &self.text.as_bytes()[start..];
                let end = rest.iter().position(|byte| b",]} \t\r\n".contains(byte));
                self.at += end.unwrap_or(rest.len());
                if rules.is_kept {
                    let word = &self.text[start..self.at];
                    if word.starts_with(|first: char| first.is_ascii_alphabetic()) {
                        self.lines.push_str(word);
                    } else {
                        write_number(&mut self.lines, word);
                    }
                }
                Some(())
            }
        }
    }

    fn object(&mut self, rules: &Rules<'_>, depth: usize) -> Option<()> {
        let before = self.lines.len();
        self.lines.push('{');
        let start = self.lines.len();
        let mut members: Vec<Member<'a>> = Vec::new();
        self.at += 1;
        loop {
            self.skip_blanks();
            match self.byte() {
                b'}' => break,
                b',' => {
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            let name = self.string();
            self.skip_blanks();
            self.at += 1; // the colon
            let line = self.lines.len();
            self.new_line(depth + 1);
            write_string(&mut self.lines, &name);
            self.lines.push_str(": ");
            if self.member(rules, &name, depth, line)? {
                let line = line..self.lines.len();
                members.push(Member { name, line });
            }
        }
        self.at += 1;
        if !members.is_sorted_by(|a, b| a.name <= b.name) {
            members.sort_by(|a, b| a.name.cmp(&b.name));
            let mut sorted = String::with_capacity(self.lines.len() - start);
            for member in &members {
                sorted.push_str(&self.lines[member.line.clone()]);
            }
            self.lines.truncate(start);
            self.lines.push_str(&sorted);
        }
        self.end(rules, before, members.len(), '}', depth);
        Some(())
    }

    fn array(&mut self, rules: &Rules<'_>, depth: usize) -> Option<()> {
        let before = self.lines.len();
        self.lines.push('[');
        let mut n_written = 0;
        let mut index = 0usize;
        self.at += 1;
        loop {
            self.skip_blanks();
            match self.byte() {
                b']' => break,
                b',' => {
                    self.at += 1;
                    index += 1;
                    continue;
                }
                _ => {}
            }
            let line = self.lines.len();
            self.new_line(depth + 1);
            let is_written = if rules.is_simple() {
                self.value(rules, depth + 1)?;
                true
            } else {
                self.member(rules, &index.to_string(), depth, line)?
            };
            n_written += usize::from(is_written);
        }
        self.at += 1;
        self.end(rules, before, n_written, ']', depth);
        Some(())
    }

    /// Writes the value of a member whose line begins at `line`, or takes the line
    /// back. Whether it is written; nothing if it is too deep.
    fn member(&mut self, rules: &Rules<'_>, name: &str, depth: usize, line: usize) -> Option<bool> {
        if rules.is_simple() {
            self.value(rules, depth + 1)?;
            return Some(true);
        }
        let value = self.lines.len();
        let inner = rules.of_member(name);
        match &inner {
            Some(inner) => self.value(inner, depth + 1)?,
            None => {
                let nothing = Rules {
                    is_kept: false,
                    keep: Vec::new(),
                    drop: Vec::new(),
                };
                self.value(&nothing, depth + 1)?;
                self.lines.truncate(value);
            }
        }
        let is_written = self.lines.len() > value;
        if !is_written {
            self.lines.truncate(line);
        }
        Some(is_written)
    }

    /// Ends an object or an array. One that was only gone through for what it may
    /// hold, and held nothing, leaves no trace.
    fn end(&mut self, rules: &Rules<'_>, before: usize, n: usize, bracket: char, depth: usize) {
        if n == 0 && !rules.is_kept {
            self.lines.truncate(before);
            return;
        }
        if n > 0 {
            self.new_line(depth);
        }
        self.lines.push(bracket);
    }

    fn new_line(&mut self, depth: usize) {
        self.lines.push('\n');
        for _ in 0..depth.min(MAX_INDENT) {
            self.lines.push(' ');
        }
    }

    /// The byte here. A well-formed document does not end where one is asked for.
    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(b'}')
    }

    fn skip_blanks(&mut self) {
        while matches!(self.byte(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    /// A string, whose opening quote is here.
    fn string(&mut self) -> Cow<'a, str> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut at = start;
        let mut has_escapes = false;
        while let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[at.min(bytes.len())..]) {
            at += found;
            if bytes[at] == b'"' {
                break;
            }
            has_escapes = true;
            at += 2;
        }
        let end = at.min(bytes.len());
        self.at = end + 1;
        // Both ends are at ASCII characters, if the document is well-formed.
        let inner = self.text.get(start..end).unwrap_or_default();
        if has_escapes {
            Cow::Owned(unescape(inner))
        } else {
            Cow::Borrowed(inner)
        }
    }
}

/// The characters of a string. A half of a surrogate pair is no character, and
/// stays as it is written, but for the case of its digits.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut characters = rest.chars();
        let Some(kind) = characters.next() else { break };
        rest = characters.as_str();
        match kind {
            'b' => plain.push('\u{8}'),
            'f' => plain.push('\u{c}'),
            'n' => plain.push('\n'),
            'r' => plain.push('\r'),
            't' => plain.push('\t'),
            'u' => {
                let unit = unit_of(rest);
                rest = rest.get(4..).unwrap_or_default();
                let low = rest.strip_prefix("\\u").map(unit_of);
                let units = [unit, low.unwrap_or(0)];
                match char::decode_utf16(units).next() {
                    Some(Ok(character)) => {
                        plain.push(character);
                        if character.len_utf16() == 2 {
                            rest = rest.get(6..).unwrap_or_default();
                        }
                    }
                    _ => plain.push_str(&format!("\\u{unit:04x}")),
                }
            }
            other => plain.push(other),
        }
    }
    plain.push_str(rest);
    plain
}

fn unit_of(text: &str) -> u16 {
    let digits = text.get(..4).unwrap_or_default();
    u16::from_str_radix(digits, 16).unwrap_or(0)
}

fn write_string(lines: &mut String, text: &str) {
    lines.push('"');
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        lines.push_str(&text[start..at]);
        start = at + 1;
        if escape.is_empty() {
            lines.push_str(&format!("\\u{byte:04x}"));
        } else {
            lines.push_str(escape);
        }
    }
    lines.push_str(&text[start..]);
    lines.push('"');
}

/// A number in one form: as written if it is a plain integer, else its digits
/// without needless zeros and one exponent. Nothing is rounded.
fn write_number(lines: &mut String, text: &str) {
    let is_plain = !text.contains(['.', 'e', 'E']);
    if is_plain {
        lines.push_str(if text == "-0" { "0" } else { text });
        return;
    }
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let Ok(exponent) = exponent.parse::<i64>() else {
        lines.push_str(text);
        return;
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{part}");
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        lines.push('0');
        return;
    }
    let n_trailing = digits.len() - digits.trim_end_matches('0').len();
    // The number is `significant` times ten to this.
    let power = exponent
        .saturating_sub(i64::try_from(part.len()).unwrap_or(i64::MAX))
        .saturating_add(i64::try_from(n_trailing).unwrap_or(i64::MAX));
    lines.push_str(sign);
    let n_digits = i64::try_from(significant.len()).unwrap_or(i64::MAX);
    let point = n_digits.saturating_add(power);
    // Plain where that is not longer than anyone would write it.
    if (0..=20).contains(&power) {
        lines.push_str(significant);
        lines.extend(std::iter::repeat_n(
            '0',
            usize::try_from(power).unwrap_or(0),
        ));
    } else if power < 0 && point > 0 {
        let point = usize::try_from(point).unwrap_or(0);
        lines.push_str(&significant[..point]);
        lines.push('.');
        lines.push_str(&significant[point..]);
    } else if (-20..=0).contains(&point) {
        lines.push_str("0.");
        lines.extend(std::iter::repeat_n(
            '0',
            usize::try_from(-point).unwrap_or(0),
        ));
        lines.push_str(significant);
    } else {
        lines.push_str(significant);
        lines.push_str(&format!("e{power}"));
    }
}

#[cfg(test)]
mod tests {
    use super::{Pointer, lines};

    #[track_caller]
    fn check(text: &str, keep: &[&str], drop: &[&str], expected: &str) {
        let pointers = |texts: &[&str]| -> Vec<Pointer> {
            texts
                .iter()
                .map(|text| Pointer::new(text).unwrap())
                .collect()
        };
        let found = lines(text, &pointers(keep), &pointers(drop)).unwrap();
        let found: Vec<&str> = found.lines().map(str::trim).collect();
        assert_eq!(found.join(""), expected);
    }

    #[test]
    fn order_blanks_and_escapes_do_not_matter() {
        check(
            r#" {"b" : [1 , 2],"a":"\u0041\/\n"} "#,
            &[],
            &[],
            r#"{"a": "A/\n""b": [12]}"#,
        );
        check("[]", &[], &[], "[]");
        check("{}", &[], &[], "{}");
        check(r#"{"a":{},"":[[]]}"#, &[], &[], r#"{"": [[]]"a": {}}"#);
        check(
            r#""\ud83d\ude00 \ud800 \uD800x""#,
            &[],
            &[],
            r#""😀 \\ud800 \\ud800x""#,
        );
        check("true", &[], &[], "true");
    }

    #[test]
    fn numbers_are_brought_to_one_form_and_never_rounded() {
        for same in ["1.5", "1.50", "15e-1", "0.15E+1", "150e-2"] {
            check(same, &[], &[], "1.5");
        }
        for same in ["1e2", "100", "1.00e2", "100.0"] {
            check(same, &[], &[], "100");
        }
        for zero in ["0", "-0", "0.0", "-0.00e7"] {
            check(zero, &[], &[], "0");
        }
        check(
            "12345678901234567890123",
            &[],
            &[],
            "12345678901234567890123",
        );
        check(
            "0.1000000000000000000000000000001",
            &[],
            &[],
            "0.1000000000000000000000000000001",
        );
        check("-0.05", &[], &[], "-0.05");
        check("1e400", &[], &[], "1e400");
        check("10e399", &[], &[], "1e400");
        check("1e99999999999999999999", &[], &[], "1e99999999999999999999");
    }

    #[test]
    fn pointers_keep_and_drop() {
        let text =
            r#"{"items":[{"id":1,"price":2,"seen":9},{"id":3,"price":4}],"at":7,"a/b":{"~":1}}"#;
        check(
            text,
            &["/items/*/price"],
            &[],
            r#"{"items": [{"price": 2}{"price": 4}]}"#,
        );
        check(
            text,
            &["/items/1"],
            &[],
            r#"{"items": [{"id": 3"price": 4}]}"#,
        );
        check(
            text,
            &[],
            &["/items/*/seen", "/items/*/id", "/at", "/a~1b"],
            r#"{"items": [{"price": 2}{"price": 4}]}"#,
        );
        check(text, &["/a~1b/~0"], &[], r#"{"a/b": {"~": 1}}"#);
        check(
            text,
            &["/items"],
            &["/items/0"],
            r#"{"items": [{"id": 3"price": 4}]}"#,
        );
        check(text, &["/none/at/all"], &[], "");
        check(text, &["/at/deeper"], &[], "");
    }

    #[test]
    fn a_bad_escape_is_no_pointer() {
        assert!(Pointer::new("/a~2").is_none());
        assert!(Pointer::new("/a~").is_none());
        assert!(Pointer::new("a").is_none());
    }

    #[test]
    fn what_is_not_json_or_too_deep_has_no_lines() {
        assert!(lines("{", &[], &[]).is_none());
        assert!(lines("{} {}", &[], &[]).is_none());
        assert!(lines("", &[], &[]).is_none());
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(lines(&deep(100), &[], &[]).is_some());
        assert!(lines(&deep(100_000), &[], &[]).is_none());
    }

    #[test]
    fn twice_the_same_name_is_kept_twice() {
        check(
            r#"{"b":1,"a":2,"b":3}"#,
            &[],
            &[],
            r#"{"a": 2"b": 1"b": 3}"#,
        );
    }
}
