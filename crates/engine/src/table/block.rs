//! Blocks: ranges of keys, what they are called, and where rows are cut into them.

use std::cmp::Ordering;
use std::ops::Range as Span;

use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::MOST_BYTES;
use super::value::Value;
use crate::settings::TableSettings;

/// A key, column by column.
pub(crate) type Key = Vec<Value>;

/// The keys from one on, up to another.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Range {
    /// The first; nothing if there is none before which there are no keys.
    pub(crate) from: Option<Key>,
    /// The first that is not in it.
    pub(crate) to: Option<Key>,
}

impl Range {
    /// What a block is called: the name of its source, and where it begins and ends.
    pub(crate) fn locator(&self, source: &str) -> String {
        let end = |key: &Option<Key>| key.as_ref().map_or_else(String::new, text);
        format!("{source}[{}..{})", end(&self.from), end(&self.to))
    }

    /// What [`locator`](Self::locator) wrote, whatever the source was called then.
    pub(crate) fn of_locator(locator: &str) -> Option<Self> {
        let inner = locator.strip_suffix(')')?;
        let inner = &inner[inner.find('[')? + 1..];
        let (from, rest) = key(inner)?;
        let (to, rest) = key(rest.strip_prefix("..")?)?;
        rest.is_empty().then_some(Self { from, to })
    }

    /// Whether a key is in it, where keys are in the order of their values.
    pub(crate) fn has(&self, key: &[Value]) -> Option<bool> {
        let is_before = |end: &Key| Some(order(key, end)? == Ordering::Less);
        let is_after_start = match &self.from {
            Some(from) => !is_before(from)?,
            None => true,
        };
        let is_before_end = match &self.to {
            Some(to) => is_before(to)?,
            None => true,
        };
        Some(is_after_start && is_before_end)
    }
}

/// Where a key is among others, by its values; nothing if they cannot be compared.
pub(crate) fn order(a: &[Value], b: &[Value]) -> Option<Ordering> {
    for (a, b) in a.iter().zip(b) {
        match a.order(b)? {
            Ordering::Equal => {}
            order => return Some(order),
        }
    }
    Some(a.len().cmp(&b.len()))
}

/// A key of one column is written as its value, one of several as a list.
fn text(key: &Key) -> String {
    match &key[..] {
        [value] => value.to_json().to_string(),
        values => Json::Array(values.iter().map(Value::to_json).collect()).to_string(),
    }
}

/// A key at the start of a text, if there is one, and what follows.
fn key(text: &str) -> Option<(Option<Key>, &str)> {
    if text.is_empty() || text.starts_with("..") {
        return Some((None, text));
    }
    let is_number = |byte: u8| byte.is_ascii_digit() || b"-+eE".contains(&byte);
    if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        // `1..5` would be read as the beginning of a float.
        let bytes = text.as_bytes();
        let mut end = 0;
        while end < bytes.len()
            && (is_number(bytes[end]) || bytes[end] == b'.' && bytes.get(end + 1) != Some(&b'.'))
        {
            end += 1;
        }
        return Some((Some(vec![Value::number(&text[..end])?]), &text[end..]));
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let raw = values.next()?.ok()?;
    let rest = &text[values.byte_offset()..];
    let key: Option<Key> = match raw.get().starts_with('[') {
        true => {
            let values: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
            values.into_iter().map(Value::of_raw).collect()
        }
        false => Value::of_raw(raw).map(|value| vec![value]),
    };
    Some((Some(key?), rest))
}

/// How many rows a block has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockSize {
    /// So many.
    Rows(usize),
    /// As many as are worth a statement.
    Chosen,
}

/// Bytes of a block whose size nobody chose, about.
const BLOCK_BYTES: usize = 64 << 10;
/// The fewest rows of such a block.
const FEWEST_ROWS: usize = 50;
/// The most rows of such a block.
const MOST_ROWS: usize = 2_000;

impl BlockSize {
    pub(crate) fn of(settings: &TableSettings) -> Self {
        match settings.block {
            Some(n) => Self::Rows(n as usize),
            None => Self::Chosen,
        }
    }

    /// How many rows of so many bytes each; nothing if that is not known.
    pub(crate) fn of_rows(self, n_bytes: usize) -> Option<usize> {
        match self {
            Self::Rows(n) => Some(n.min(at_once(n_bytes)).max(1)),
            Self::Chosen => {
                let n = BLOCK_BYTES.checked_div(n_bytes)?;
                Some(n.clamp(FEWEST_ROWS, MOST_ROWS).min(at_once(n_bytes)))
            }
        }
    }

    /// How many rows of so many bytes each, or of none.
    pub(crate) fn to_cut(self, n_bytes: usize) -> usize {
        self.of_rows(n_bytes).unwrap_or(MOST_ROWS)
    }

    /// How many rows are read at the most, where nobody knows how many there are.
    pub(crate) fn most_read(self) -> usize {
        match self {
            Self::Rows(n) => (n.max(1) * BLOCKS_READ).clamp(n.max(1), MOST_READ.max(n)),
            Self::Chosen => MOST_READ,
        }
    }
}

/// The most blocks that one statement of a first pass reads.
const BLOCKS_READ: usize = 20;
/// The most rows that it reads.
const MOST_READ: usize = 40_000;

/// How many rows of so many bytes each, or of none, a statement may bring.
pub(crate) fn at_once(n_bytes: usize) -> usize {
    MOST_BYTES
        .checked_div(n_bytes)
        .map_or(usize::MAX, |n| n.max(1))
}

/// A range, cut into blocks.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// Each with which of the rows are in it.
    pub(crate) blocks: Vec<(Range, Span<usize>)>,
    /// What of the range was not read.
    pub(crate) rest: Option<Range>,
}

/// Cuts the rows of a range into blocks of `n`; there are `n_rows` of them, with these keys.
/// If not all of them were read (`is_cut_short`), the last of them only says where the rest
/// begins.
///
/// A block stays whole until it has twice as many rows as it should have. Where keys grow,
/// full blocks are cut off at the front, so that what grows is one small block at the end;
/// elsewhere blocks are cut into equal parts.
pub(crate) fn cut(
    range: &Range,
    n_rows: usize,
    n: usize,
    is_cut_short: bool,
    key_of: impl Fn(usize) -> Key,
) -> Cut {
    let (mut total, mut rest) = (n_rows, None);
    if is_cut_short && n_rows > 0 {
        total -= 1;
        // What does not fill a block is read again with the rest.
        if total >= n {
            total -= total % n;
        }
        rest = Some(Range {
            from: Some(key_of(total)),
            to: range.to.clone(),
        });
    }
    let end = rest.as_ref().map_or(&range.to, |rest| &rest.from);
    let per_block = match () {
        () if rest.is_none() && total <= 2 * n && range.to.is_some() => total.max(1),
        () if rest.is_none() && range.to.is_some() => total.div_ceil(total.div_ceil(n)),
        () if rest.is_none() && total <= n + n / 2 => total.max(1),
        () => n,
    };
    let mut blocks = Vec::new();
    let (mut at, mut from) = (0, range.from.clone());
    loop {
        let span = at..(at + per_block).min(total);
        at = span.end;
        let to = match at < total {
            true => Some(key_of(at)),
            false => end.clone(),
        };
        let next = to.clone();
        blocks.push((Range { from, to }, span));
        if at == total {
            return Cut { blocks, rest };
        }
        from = next;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_block_is_called_by_its_keys() {
        let key = |value: Value| Some(vec![value]);
        let text = |text: &str| Value::Text(text.to_owned());
        let ends = [
            (None, None, "t[..)"),
            (
                key(Value::Integer(1)),
                key(Value::Integer(501)),
                "t[1..501)",
            ),
            (None, key(Value::Integer(-3)), "t[..-3)"),
            (key(Value::Real(1.5)), None, "t[1.5..)"),
            (
                key(text("a..b\")[")),
                key(text("z")),
                r#"t["a..b\")[".."z")"#,
            ),
            (
                Some(vec![Value::Bytes(vec![1, 255])]),
                None,
                r#"t[{"hex":"01ff"}..)"#,
            ),
            (
                Some(vec![Value::Integer(1), Value::Text("x".to_owned())]),
                None,
                r#"t[[1,"x"]..)"#,
            ),
        ];
        for (from, to, locator) in ends {
            let range = Range { from, to };
            assert_eq!(range.locator("t"), locator);
            assert_eq!(Range::of_locator(locator), Some(range));
        }
        for bad in ["t", "t[1..2", "t[1.2)", "t[x..y)", "t[1..2)3)"] {
            assert_eq!(Range::of_locator(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn blocks_cover_their_range_once(
            n in 0..60_usize,
            size in 1..12_usize,
            is_cut_short: bool,
            has_end: bool,
        ) {
            let range = Range {
                from: Some(vec![Value::Integer(-1)]),
                to: has_end.then(|| vec![Value::Integer(1000)]),
            };
            let key_of = |row| vec![Value::Integer(row as i64)];
            let cut = cut(&range, n, size, is_cut_short, key_of);
            let mut n_read = n - usize::from(is_cut_short && n > 0);
            if is_cut_short && n_read >= size {
                // Of what was cut short only full blocks are taken.
                n_read -= n_read % size;
            }
            let mut from = range.from.clone();
            let mut n_rows = 0;
            for (block, rows) in &cut.blocks {
                prop_assert_eq!(&block.from, &from);
                for row in rows.clone() {
                    prop_assert_eq!(block.has(&key_of(row)), Some(true));
                }
                prop_assert!(rows.len() <= 2 * size);
                prop_assert_eq!(rows.start, n_rows);
                n_rows += rows.len();
                from.clone_from(&block.to);
            }
            prop_assert_eq!(n_rows, n_read);
            if let Some(rest) = &cut.rest {
                prop_assert_eq!(&rest.from, &from);
                from.clone_from(&rest.to);
            }
            prop_assert_eq!(from, range.to);
        }
    }
}
