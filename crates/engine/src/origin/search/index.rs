//! Which rows have which words.

use std::collections::HashMap;

use twox_hash::XxHash3_64;

/// The words of all rows, and for each word the rows that have it.
#[derive(Debug, Default)]
pub(super) struct Index {
    words: HashMap<String, u32>,
    /// Rows by word, in their order.
    rows: Vec<Vec<u32>>,
    /// Words by row, in their order, with a [`GAP`] after each text.
    texts: Vec<Box<[u32]>>,
}

/// No word: no phrase reaches across it.
const GAP: u32 = u32::MAX;

impl Index {
    /// An index of rows that have these texts.
    pub(super) fn new<'a, T>(rows: impl IntoIterator<Item = T>) -> Self
    where
        T: IntoIterator<Item = &'a str>,
    {
        let mut index = Self::default();
        for (row, texts) in (0..).zip(rows) {
            let mut all = Vec::new();
            for text in texts {
                all.extend(words_in(text).map(|word| index.add(word, row)));
                all.push(GAP);
            }
            index.texts.push(all.into());
        }
        index
    }

    fn add(&mut self, word: String, row: u32) -> u32 {
        let n_words = self.rows.len() as u32;
        let word = *self.words.entry(word).or_insert(n_words);
        if word == n_words {
            self.rows.push(Vec::new());
        }
        let rows = &mut self.rows[word as usize];
        if rows.last() != Some(&row) {
            rows.push(row);
        }
        word
    }

    /// The rows that a query finds, in their order.
    pub(super) fn find(&self, query: &Query) -> impl Iterator<Item = u32> {
        // What has an unknown word has no rows.
        let phrases: Option<Vec<Vec<u32>>> = query
            .phrases
            .iter()
            .map(|phrase| {
                phrase
                    .iter()
                    .map(|word| self.words.get(word).copied())
                    .collect()
            })
            .collect();
        let phrases = phrases.unwrap_or_default();
        let rarest = phrases
            .iter()
            .flatten()
            .map(|&word| &self.rows[word as usize])
            .min_by_key(|rows| rows.len());
        let candidates = rarest.into_iter().flatten().copied();
        candidates.filter(move |&row| {
            let text = &self.texts[row as usize];
            phrases
                .iter()
                .all(|phrase| text.windows(phrase.len()).any(|words| words == phrase))
        })
    }
}

/// What is asked for: all of these phrases, each of one word or several that follow each
/// other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    phrases: Vec<Vec<String>>,
}

impl Query {
    /// Takes a query apart at its blanks and double quotes. What other marks join, such
    /// as `usb-c`, is a phrase.
    pub(super) fn parse(text: &str) -> Self {
        let phrases = text
            .split('"')
            .enumerate()
            .flat_map(|(n, part)| match n % 2 {
                0 => part.split_whitespace().collect(),
                _ => vec![part],
            })
            .map(|phrase| words_in(phrase).collect::<Vec<String>>())
            .filter(|phrase| !phrase.is_empty())
            .collect();
        Self { phrases }
    }

    /// A number that differs between queries.
    pub(super) fn digest(&self) -> u64 {
        let phrases: Vec<String> = self.phrases.iter().map(|words| words.join(" ")).collect();
        XxHash3_64::oneshot(phrases.join("\"").as_bytes())
    }
}

/// The words of a text: runs of letters, digits and underscores, without regard to case.
fn words_in(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(|word| {
            // Up and down again, so that a sharp s and two of them are the same.
            word.chars()
                .flat_map(char::to_uppercase)
                .flat_map(char::to_lowercase)
                .collect()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, expected: &[u32]) {
        let index = Index::new([
            vec!["Orvela", "Copper kettle, large", "free delivery"],
            vec!["Copper & Co", "Kettle", "new"],
            vec!["Café Noord", "Größe USB-C kettle", "delivery", "free"],
        ]);
        let found: Vec<u32> = index.find(&Query::parse(query)).collect();
        assert_eq!(found, expected, "{query}");
    }

    #[test]
    fn all_words_have_to_be_there() {
        check("kettle", &[0, 1, 2]);
        check("KETTLE copper", &[0, 1]);
        check("copper kettle large", &[0]);
        check("copper unknown", &[]);
    }

    #[test]
    fn words_in_quotes_follow_each_other_in_one_text() {
        check("\"copper kettle\"", &[0]);
        check("\"kettle copper\"", &[]);
        check("\"free delivery\"", &[0]);
        check("free delivery", &[0, 2]);
        check("\"copper co\" kettle", &[1]);
        check("kettle \"free delivery", &[0]);
    }

    #[test]
    fn case_and_marks_do_not_matter() {
        check("CAFÉ", &[2]);
        check("grösse", &[2]);
        check("usb-c", &[2]);
        check("c-usb", &[]);
    }

    #[test]
    fn a_query_without_words_finds_nothing() {
        check("", &[]);
        check(" \"\" -- ", &[]);
    }
}
