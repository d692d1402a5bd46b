//! A few numbers that stand for a text, by which two texts are compared.

use twox_hash::XxHash3_64;

/// Numbers in a sketch. The share of a text that changed comes out to a few per cent
/// of the whole; texts with no more word pairs than this are compared exactly.
const SIZE: usize = 64;

/// The least of the hashes of all pairs of neighbouring words, in ascending order:
/// two texts have as large a part of these in common as of all their pairs
/// (Broder's min-wise sampling, bottom-k).
///
/// The first word's left neighbour and the last word's right one are the edge of the
/// text, so a text of one word has pairs too.
pub(crate) fn sketch(text: &str) -> Vec<u8> {
    let mut least = Least::default();
    let mut previous = EDGE;
    for word in text.split_ascii_whitespace() {
        let hash = XxHash3_64::oneshot(word.as_bytes());
        least.add(pair(previous, hash));
        previous = hash;
    }
    if previous != EDGE {
        least.add(pair(previous, EDGE));
    }
    least.into_bytes()
}

/// The same for bytes that are no text: of blocks, each by itself.
pub(crate) fn sketch_of_bytes(bytes: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64;
    let mut least = Least::default();
    for block in bytes.chunks(BLOCK) {
        least.add(pair(EDGE, XxHash3_64::oneshot(block)));
    }
    least.into_bytes()
}

/// How much of a text is different after a change, by the sketches before and after:
/// from 0, nothing, to 1, all of it.
///
/// ```text
/// size = 1 − 2·|A ∩ B| / (|A| + |B|) = (1 − J) / (1 + J),   J = |A ∩ B| / |A ∪ B|
/// ```
///
/// of the sets of pairs A and B: half a text replaced by as much other text is a
/// half.
pub fn size_of_change(before: &[u8], after: &[u8]) -> f32 {
    if before == after {
        return 0.0;
    }
    let (mut before, mut after) = (numbers(before).peekable(), numbers(after).peekable());
    // The least of the union are a fair sample of it, as many as each sketch has.
    let (mut n_all, mut n_common) = (0u32, 0u32);
    while n_all < SIZE as u32 {
        let (Some(&a), Some(&b)) = (before.peek(), after.peek()) else {
            let left = before.count() + after.count();
            n_all += (left as u32).min(SIZE as u32 - n_all);
            break;
        };
        n_all += 1;
        if a <= b {
            before.next();
        }
        if b <= a {
            after.next();
        }
        n_common += u32::from(a == b);
    }
    if n_all == 0 {
        return 0.0;
    }
    let jaccard = f64::from(n_common) / f64::from(n_all);
    ((1.0 - jaccard) / (1.0 + jaccard)) as f32
}

fn numbers(sketch: &[u8]) -> impl Iterator<Item = u32> {
    let parts = sketch.chunks_exact(4);
    parts.map(|part| u32::from_le_bytes([part[0], part[1], part[2], part[3]]))
}

/// Stands for no word. No hash of a word is likely to be the same.
const EDGE: u64 = 0;

/// A hash of two hashes, in which their order counts.
fn pair(left: u64, right: u64) -> u32 {
    // Odd constants of no meaning: from the digits of the golden ratio and of
    // splitmix64's finisher.
    let mut mixed = left
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_add(right);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 32) as u32
}

/// The least of many numbers.
#[derive(Default)]
struct Least {
    numbers: Vec<u32>,
    /// No number from here on is among the least.
    limit: Option<u32>,
}

impl Least {
    fn add(&mut self, number: u32) {
        if self.limit.is_some_and(|limit| number >= limit) {
            return;
        }
        self.numbers.push(number);
        if self.numbers.len() >= 8 * SIZE {
            self.prune();
        }
    }

    fn prune(&mut self) {
        self.numbers.sort_unstable();
        self.numbers.dedup();
        self.numbers.truncate(SIZE);
        if self.numbers.len() == SIZE {
            self.limit = self.numbers.last().copied();
        }
    }

    fn into_bytes(mut self) -> Vec<u8> {
        self.prune();
        let bytes = self.numbers.iter().flat_map(|number| number.to_le_bytes());
        bytes.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{size_of_change, sketch, sketch_of_bytes};

    #[track_caller]
    fn check(before: &str, after: &str, expected: f32) {
        let found = size_of_change(&sketch(before), &sketch(after));
        assert!(
            (found - expected).abs() < 1e-6,
            "{found} instead of {expected}"
        );
        let back = size_of_change(&sketch(after), &sketch(before));
        assert_eq!(found, back);
    }

    #[test]
    fn small_texts_are_compared_exactly() {
        check("", "", 0.0);
        check("", "word", 1.0);
        check("one", "two", 1.0);
        // Pairs: ^version, version 3, 3$ and ^version, version 4, 4$.
        check("version 3", "version 4", 1.0 - 2.0 * 1.0 / 6.0);
        // Of five pairs each, two are different.
        check("a b c d", "a b x d", 1.0 - 2.0 * 3.0 / 10.0);
        check("a  b\nc", "a b c", 0.0);
    }

    #[test]
    fn half_a_long_text_replaced_is_about_a_half() {
        let words = |from: usize| {
            (from..from + 5000)
                .map(|n| format!("w{n} "))
                .collect::<String>()
        };
        let before = words(0) + &words(10_000);
        let after = words(0) + &words(20_000);
        let found = size_of_change(&sketch(&before), &sketch(&after));
        // Of 64 pairs, J = 1/3 has a standard error of 0.06, and half a text 0.07.
        assert!((found - 0.5).abs() < 0.2, "{found}");
        assert_eq!(
            size_of_change(&sketch(&words(0)), &sketch(&words(10_000))),
            1.0
        );
    }

    #[test]
    fn nothing_is_too_odd_to_compare() {
        for odd in [&[][..], &[1], &[1, 2, 3, 4, 5], &[255; 4000], &[0; 9]] {
            for other in [&[][..], &[7, 7], &[255; 256]] {
                let size = size_of_change(odd, other);
                assert!((0.0..=1.0).contains(&size));
            }
        }
    }

    #[test]
    fn bytes_have_sketches_too() {
        let before: Vec<u8> = (0..640).map(|n| (n % 251) as u8).collect();
        let mut after = before.clone();
        after[3] = 255;
        let size = size_of_change(&sketch_of_bytes(&before), &sketch_of_bytes(&after));
        assert!((size - 0.1).abs() < 1e-6, "{size}");
    }
}
