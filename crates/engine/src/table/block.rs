//! Blocks: ranges of keys, what they are called, and where rows are cut into them.

use std::cmp::Ordering;

use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::value::{Row, Rows, Value};

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

/// A block that nobody chose the size of has so many bytes, and rows between these.
const BLOCK_BYTES: usize = 64 << 10;
const FEWEST_ROWS: usize = 50;
const MOST_ROWS: usize = 2_000;

impl BlockSize {
    /// How many rows of so many bytes each; nothing if that is not known.
    pub(crate) fn of_rows(self, n_bytes: usize) -> Option<usize> {
        match self {
            Self::Rows(n) => Some(n.max(1)),
            Self::Chosen => {
                let n = BLOCK_BYTES.checked_div(n_bytes)?;
                Some(n.clamp(FEWEST_ROWS, MOST_ROWS))
            }
        }
    }

    /// How many rows are read at the most, where nobody knows how many there are.
    pub(crate) fn most_read(self) -> usize {
        match self {
            Self::Rows(n) => (n.max(1) * BLOCKS_READ).clamp(n.max(1), MOST_READ.max(n)),
            Self::Chosen => MOST_READ,
        }
    }
}

/// Blocks, and rows, that one statement of a first pass reads at the most.
const BLOCKS_READ: usize = 20;
const MOST_READ: usize = 40_000;

/// How many bytes a row has, about; 0 if there is none.
pub(crate) fn row_bytes(rows: &[Row]) -> usize {
    let n_bytes: usize = rows.iter().flatten().map(n_bytes).sum();
    match rows.len() {
        0 => 0,
        n => (n_bytes / n).max(1),
    }
}

fn n_bytes(value: &Value) -> usize {
    match value {
        Value::Null => 1,
        Value::Integer(_) | Value::Real(_) => 8,
        Value::Text(text) => text.len() + 2,
        Value::Bytes(bytes) => 2 * bytes.len() + 10,
    }
}

/// Rows of a range, cut into blocks.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    pub(crate) blocks: Vec<(Range, Rows)>,
    /// What of the range was not read.
    pub(crate) rest: Option<Range>,
}

/// Cuts the rows of a range into blocks. If not all of them were read (`is_cut_short`), the
/// last of them only says where the rest begins.
///
/// A block stays whole until it has twice as many rows as it should have. Where keys grow,
/// full blocks are cut off at the front, so that what grows is one small block at the end;
/// elsewhere blocks are cut into equal parts.
pub(crate) fn cut(range: &Range, mut rows: Rows, size: BlockSize, is_cut_short: bool) -> Cut {
    let n = size.of_rows(row_bytes(&rows.rows)).unwrap_or(MOST_ROWS);
    let mut rest = None;
    if is_cut_short && let Some(last) = rows.rows.pop() {
        rest = Some(Range {
            from: Some(rows.key_of(&last)),
            to: range.to.clone(),
        });
    }
    // What does not fill a block is read again with the rest.
    let n_full = rows.rows.len() / n * n;
    if let Some(rest) = &mut rest
        && n_full > 0
        && let Some(row) = rows.rows.get(n_full)
    {
        rest.from = Some(rows.key_of(row));
        rows.rows.truncate(n_full);
    }
    let end = rest.as_ref().map_or(&range.to, |rest| &rest.from);
    let total = rows.rows.len();
    let per_block = match () {
        () if rest.is_none() && total <= 2 * n && range.to.is_some() => total.max(1),
        () if rest.is_none() && range.to.is_some() => total.div_ceil(total.div_ceil(n)),
        () if rest.is_none() && total <= n + n / 2 => total.max(1),
        () => n,
    };
    let Rows { columns, key, rows } = rows;
    let mut blocks: Vec<(Range, Rows)> = Vec::new();
    let mut rows = rows.into_iter().peekable();
    let mut from = range.from.clone();
    loop {
        let piece = Rows {
            columns: columns.clone(),
            key: key.clone(),
            rows: rows.by_ref().take(per_block).collect(),
        };
        let next = rows.peek().map(|row| piece.key_of(row));
        let to = next.clone().or_else(|| end.clone());
        let is_last = next.is_none();
        blocks.push((Range { from, to }, piece));
        if is_last {
            return Cut { blocks, rest };
        }
        from = next;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(numbers: impl IntoIterator<Item = i64>) -> Rows {
        let row = |number| vec![Value::Integer(number), Value::Text("x".repeat(20))];
        Rows {
            columns: vec!["id".to_owned(), "text".to_owned()],
            key: vec![0],
            rows: numbers.into_iter().map(row).collect(),
        }
    }

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
            let cut = cut(&range, rows(0..n as i64), BlockSize::Rows(size), is_cut_short);
            let mut n_read = n - usize::from(is_cut_short && n > 0);
            if is_cut_short && n_read >= size {
                // Of what was cut short only full blocks are taken.
                n_read -= n_read % size;
            }
            let mut from = range.from.clone();
            let mut n_rows = 0;
            for (block, rows) in &cut.blocks {
                prop_assert_eq!(&block.from, &from);
                for row in &rows.rows {
                    prop_assert_eq!(block.has(&row[..1]), Some(true));
                }
                prop_assert!(rows.rows.len() <= 2 * size);
                n_rows += rows.rows.len();
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
