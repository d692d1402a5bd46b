//! From the cells of a row to its terms.

use std::collections::BTreeSet;

/// How a cell is taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Split {
    /// Into words: runs of letters, digits, marks and underscores in any script,
    /// without stop words. Case does not matter.
    Words,
    /// At semicolons, each part a term of its own however many words it has.
    List,
}

/// A term of a cell: what it is compared by, and how it is written in a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The same for all spellings that a search box would not tell apart.
    pub key: String,
    /// As it was written; a word is written as its key.
    pub written: String,
}

/// Words that say nothing: they are no terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopWords(BTreeSet<String>);

impl StopWords {
    /// The commonest words of English, which any server has in most of its rows.
    ///
    /// Only English: the articles of one language are the nouns of another.
    pub fn english() -> Self {
        Self::new(ENGLISH.split_whitespace())
    }

    /// These words.
    pub fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self(words.into_iter().map(folded).collect())
    }

    /// No words at all.
    pub fn none() -> Self {
        Self(BTreeSet::new())
    }

    fn has(&self, key: &str) -> bool {
        self.0.contains(key)
    }
}

const ENGLISH: &str = "a about above after again against all am an and any are as at be because \
    been before being below between both but by can did do does doing down during each few for \
    from further had has have having he her here hers herself him himself his how i if in into is \
    it its itself just me more most my myself no nor not now of off on once only or other our \
    ours ourselves out over own same she should so some such than that the their theirs them \
    themselves then there these they this those through to too under until up very was we were \
    what when where which while who whom why will with you your yours yourself yourselves";

/// The terms of a cell, in its order; one that is there twice comes twice.
pub fn terms_in(cell: &str, split: Split, stop_words: &StopWords) -> Vec<Term> {
    match split {
        Split::Words => words(cell)
            .map(folded)
            .filter(|key| !stop_words.has(key))
            .map(|key| Term {
                written: key.clone(),
                key,
            })
            .collect(),
        Split::List => cell
            .split(';')
            .map(tidied)
            .filter(|part| !part.is_empty())
            .map(|written| Term {
                key: folded(&written),
                written,
            })
            .collect(),
    }
}

/// What a term that somebody else wrote down, in a table of counts say, is
/// compared by.
pub fn term_key(written: &str) -> String {
    folded(&tidied(written))
}

/// A text in which case makes no difference.
///
/// Up and down again is what the Unicode standard calls case folding, but for a few
/// letters: the sharp s becomes two, all sigmas are alike.
fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let fold = |c: char| {
        // The capital of a dotless i has lost what it was.
        let (kept, turned) = match c {
            'ı' => (Some(c), None),
            _ => (None, Some(c.to_uppercase().flat_map(char::to_lowercase))),
        };
        kept.into_iter().chain(turned.into_iter().flatten())
    };
    text.chars().flat_map(fold).collect()
}

/// A part of a list without what a query cannot say: blanks at its ends, several
/// blanks for one, control characters, and double quotes, which enclose a term.
fn tidied(part: &str) -> String {
    let is_blank = |c: char| c.is_whitespace() || c.is_control() || c == '"';
    let words: Vec<&str> = part
        .split(is_blank)
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

/// The words of a text as they are written.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(is_of_word)?;
            let has_word_before = rest.len() < text.len();
            let is_cut_off = has_word_before && matches!(&rest[..start], "'" | "’");
            let word = &rest[start..];
            let end = word.find(|c| !is_of_word(c)).unwrap_or(word.len());
            rest = &word[end..];
            // The end of "don't" and of "Dijkstra's" is no word of its own.
            if !is_cut_off || word[..end].chars().nth(2).is_some() {
                return Some(&word[..end]);
            }
        }
    })
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || is_mark(c)
}

/// Marks that belong to the letter before them and are not letters by themselves:
/// accents, vowel points, viramas, tone marks, joiners.
fn is_mark(c: char) -> bool {
    matches!(
        c,
        '\u{300}'..='\u{36f}'
            | '\u{483}'..='\u{489}'
            | '\u{591}'..='\u{5bd}'
            | '\u{5bf}'
            | '\u{5c1}'..='\u{5c2}'
            | '\u{5c4}'..='\u{5c5}'
            | '\u{5c7}'
            | '\u{610}'..='\u{61a}'
            | '\u{64b}'..='\u{65f}'
            | '\u{6d6}'..='\u{6dc}'
            | '\u{6df}'..='\u{6e8}'
            | '\u{6ea}'..='\u{6ed}'
            | '\u{730}'..='\u{74a}'
            | '\u{7eb}'..='\u{7f3}'
            | '\u{816}'..='\u{82d}'
            | '\u{859}'..='\u{85b}'
            | '\u{898}'..='\u{963}'
            | '\u{981}'..='\u{983}'
            | '\u{9bc}'..='\u{9cd}'
            | '\u{a01}'..='\u{a03}'
            | '\u{a3c}'..='\u{a51}'
            | '\u{a81}'..='\u{a83}'
            | '\u{abc}'..='\u{acd}'
            | '\u{afa}'..='\u{aff}'
            | '\u{b01}'..='\u{b03}'
            | '\u{b3c}'..='\u{b57}'
            | '\u{bbe}'..='\u{bcd}'
            | '\u{c00}'..='\u{c04}'
            | '\u{c3c}'..='\u{c56}'
            | '\u{c81}'..='\u{c83}'
            | '\u{cbc}'..='\u{cd6}'
            | '\u{d00}'..='\u{d03}'
            | '\u{d3b}'..='\u{d4d}'
            | '\u{dca}'..='\u{ddf}'
            | '\u{e31}'..='\u{e3a}'
            | '\u{e47}'..='\u{e4e}'
            | '\u{eb1}'..='\u{ebc}'
            | '\u{ec8}'..='\u{ece}'
            | '\u{f35}'
            | '\u{f37}'
            | '\u{f39}'
            | '\u{f71}'..='\u{f84}'
            | '\u{f86}'..='\u{fbc}'
            | '\u{102b}'..='\u{103e}'
            | '\u{135d}'..='\u{135f}'
            | '\u{1712}'..='\u{1734}'
            | '\u{17b4}'..='\u{17d3}'
            | '\u{180b}'..='\u{180d}'
            | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{200c}'..='\u{200d}'
            | '\u{20d0}'..='\u{20f0}'
            | '\u{302a}'..='\u{302f}'
            | '\u{3099}'..='\u{309a}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{fe20}'..='\u{fe2f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_words(cell: &str, expected: &[&str]) {
        let terms = terms_in(cell, Split::Words, &StopWords::english());
        let keys: Vec<&str> = terms.iter().map(|term| term.key.as_str()).collect();
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_cell_is_split_into_words_without_stop_words() {
        check_words(
            "The Art of Computer-Programming, 3rd ed.",
            &["art", "computer", "programming", "3rd", "ed"],
        );
        check_words("author_12 x_y", &["author_12", "x_y"]);
        check_words("  ,;  ", &[]);
        check_words("", &[]);
    }

    #[test]
    fn what_an_apostrophe_cuts_off_is_no_word() {
        check_words("Dijkstra's algorithm", &["dijkstra", "algorithm"]);
        check_words("don’t they’ll", &["don"]);
        check_words("l'eau d'Arc", &["l", "eau", "d", "arc"]);
        check_words("'n' roll", &["n", "roll"]);
        check_words("rock 'n' roll", &["rock", "n", "roll"]);
    }

    #[test]
    fn words_are_words_in_any_script() {
        check_words("Über STRASSE Straße", &["über", "strasse", "strasse"]);
        check_words("ΟΔΟΣ οδός", &["οδοσ", "οδόσ"]);
        check_words("Базы данных", &["базы", "данных"]);
        check_words("हिन्दी भाषा।", &["हिन्दी", "भाषा"]);
        check_words("数据库 系统", &["数据库", "系统"]);
        check_words("e\u{301}tude", &["e\u{301}tude"]);
        check_words("ภาษาไทย", &["ภาษาไทย"]);
        check_words("INDEX Ilk ılk", &["index", "ilk", "ılk"]);
    }

    #[test]
    fn the_parts_of_a_list_stay_whole_and_as_written() {
        let terms = terms_in(
            " Ann  Lee; The Who;;O'Brien \"X\" Y ;\t",
            Split::List,
            &StopWords::english(),
        );
        let written: Vec<&str> = terms.iter().map(|term| term.written.as_str()).collect();
        let keys: Vec<&str> = terms.iter().map(|term| term.key.as_str()).collect();
        assert_eq!(written, ["Ann Lee", "The Who", "O'Brien X Y"]);
        assert_eq!(keys, ["ann lee", "the who", "o'brien x y"]);
        assert_eq!(term_key(" ANN LEE "), "ann lee");
    }

    #[test]
    fn stop_words_may_be_others() {
        let stop_words = StopWords::new(["DAS", "und"]);
        let terms = terms_in("Das Boot und the sea", Split::Words, &stop_words);
        let keys: Vec<&str> = terms.iter().map(|term| term.key.as_str()).collect();
        assert_eq!(keys, ["boot", "the", "sea"]);
    }
}
