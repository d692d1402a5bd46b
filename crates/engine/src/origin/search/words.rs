//! What drawn rows are called.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Row;
use crate::origin::changes::mix;

/// Where the numbers that rows are drawn from begin; those of changes are below.
pub(super) const STREAM: u64 = 1 << 32;

/// Words, brands and tags to draw rows from: few of each are common, and most are rare.
#[derive(Debug)]
pub(super) struct Drawing {
    words: Ranks,
    brands: Ranks,
    tags: Ranks,
}

impl Drawing {
    /// What so many rows are drawn from: a larger shop has more words and more brands,
    /// though not in proportion.
    pub(super) fn new(n_rows: usize) -> Self {
        let root = (n_rows as f64).sqrt();
        Self {
            words: Ranks::new((40.0 * root) as usize + WORDS.len(), 1.0, 5.0),
            brands: Ranks::new((2.0 * root) as usize + 5, 0.8, 0.0),
            tags: Ranks::new(TAGS.len(), 0.7, 0.0),
        }
    }

    /// A row, which depends on seed and number alone.
    pub(super) fn row(&self, seed: u64, number: usize) -> Row {
        let mut random = Pcg64Mcg::seed_from_u64(mix(seed, number as u64, STREAM));
        let brand = brand(self.brands.draw(&mut random));
        let n_words = random.random_range(3..=6);
        let title: Vec<String> = (0..n_words)
            .map(|_| word(self.words.draw(&mut random)))
            .collect();
        let mut tags = Vec::new();
        for _ in 0..random.random_range(0..=3) {
            let tag = TAGS[self.tags.draw(&mut random)].to_owned();
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        // From some to some hundreds, and as many of the one as of the other.
        let price = 200.0 * 300_f64.powf(random.random());
        Row {
            id: format!("r{number:06}"),
            brand,
            title: capitalised(&title.join(" ")),
            tags,
            price: price as u64 / 10 * 10 + 9,
            stock: random.random_range(0..100),
            version: 0,
        }
    }
}

/// Numbers from 0 on, the first of which is the commonest.
///
/// ```text
/// P(r) ∝ 1 / (r + 1 + q)^s
/// ```
///
/// The offset q keeps the first from being in half of all titles: no shop sells one
/// thing only.
#[derive(Debug)]
struct Ranks {
    /// Sums of the probabilities so far, times something.
    sums: Vec<f64>,
}

impl Ranks {
    fn new(n: usize, exponent: f64, offset: f64) -> Self {
        let sums = (1..=n)
            .scan(0.0, |sum, rank| {
                *sum += (rank as f64 + offset).powf(-exponent);
                Some(*sum)
            })
            .collect();
        Self { sums }
    }

    fn draw(&self, random: &mut Pcg64Mcg) -> usize {
        let last = self.sums.len() - 1;
        let u = random.random::<f64>() * self.sums[last];
        self.sums.partition_point(|&sum| sum <= u).min(last)
    }
}

/// A word by its rank: real ones first, then some that nobody has heard of.
fn word(rank: usize) -> String {
    match WORDS.get(rank) {
        Some(&word) => word.to_owned(),
        None => {
            // A step that has no divisor in common with the number of words of three
            // syllables comes by all of them, and neighbours do not sound alike.
            let (first, end) = (SYLLABLES.pow(2), SYLLABLES.pow(3));
            syllables(first + (rank - WORDS.len()) * 7919 % (end - first))
        }
    }
}

/// A brand by its rank, some of two words.
fn brand(rank: usize) -> String {
    let name = capitalised(&syllables(rank * 7 + SYLLABLES));
    match rank % 4 {
        3 => format!("{name} & Søn"),
        _ => name,
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).collect()
}

const CONSONANTS: [&str; 20] = [
    "b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "br",
    "st", "tr",
];
const VOWELS: [&str; 5] = ["a", "e", "i", "o", "u"];
const ACCENTED: [&str; 5] = ["á", "é", "ī", "ø", "ü"];
const SYLLABLES: usize = CONSONANTS.len() * VOWELS.len();

/// A number in syllables, the last of one in nine with an accent. Each has a spelling of
/// its own.
fn syllables(number: usize) -> String {
    let mut spelling = String::new();
    let mut rest = number;
    while rest >= SYLLABLES {
        let syllable = rest % SYLLABLES;
        spelling += CONSONANTS[syllable / VOWELS.len()];
        spelling += VOWELS[syllable % VOWELS.len()];
        rest /= SYLLABLES;
    }
    let vowels = if number % 9 == 4 { ACCENTED } else { VOWELS };
    spelling += CONSONANTS[rest / VOWELS.len()];
    spelling += vowels[rest % VOWELS.len()];
    spelling
}

const WORDS: [&str; 48] = [
    "kettle",
    "lamp",
    "copper",
    "chair",
    "small",
    "table",
    "blue",
    "oak",
    "café",
    "bottle",
    "garden",
    "large",
    "linen",
    "mirror",
    "steel",
    "wool",
    "blanket",
    "travel",
    "pan",
    "crème",
    "candle",
    "folding",
    "silver",
    "basket",
    "clock",
    "outdoor",
    "größe",
    "cotton",
    "shelf",
    "knife",
    "paper",
    "green",
    "réglable",
    "cushion",
    "bamboo",
    "glass",
    "jug",
    "żółty",
    "stool",
    "winter",
    "enamel",
    "茶",
    "hammer",
    "curtain",
    "piñata",
    "leather",
    "rack",
    "tray",
];

const TAGS: [&str; 16] = [
    "new",
    "sale",
    "free delivery",
    "kitchen",
    "gift",
    "handmade",
    "living room",
    "last chance",
    "recycled",
    "für draußen",
    "limited edition",
    "best seller",
    "vegan",
    "bath",
    "set of two",
    "spare part",
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_rank_is_another_word() {
        let words: HashSet<String> = (0..50_000).map(word).collect();
        assert_eq!(words.len(), 50_000);
        let brands: HashSet<String> = (0..3_000).map(brand).collect();
        assert_eq!(brands.len(), 3_000);
    }

    #[test]
    fn the_first_ranks_are_the_commonest() {
        let ranks = Ranks::new(1000, 1.0, 0.0);
        let mut random = Pcg64Mcg::seed_from_u64(5);
        let mut counts = [0_u32; 1000];
        for _ in 0..100_000 {
            counts[ranks.draw(&mut random)] += 1;
        }
        // 1 / H(1000) = 0.1336, and a tenth of it: within four standard deviations.
        assert!((13_360 - 430..13_360 + 430).contains(&counts[0]));
        assert!((1_336 - 146..1_336 + 146).contains(&counts[9]));
    }

    #[test]
    fn rows_have_what_a_shop_shows() {
        let drawing = Drawing::new(500);
        let rows: Vec<Row> = (0..500).map(|number| drawing.row(1, number)).collect();
        assert_eq!(rows[123].id, "r000123");
        for row in &rows {
            assert!((3..=6).contains(&row.title.split(' ').count()), "{row:?}");
            assert!(row.price >= 200 && row.price < 60_010, "{row:?}");
        }
        assert!(rows.iter().any(|row| !row.title.is_ascii()));
        assert!(rows.iter().any(|row| row.brand.contains(' ')));
    }
}
