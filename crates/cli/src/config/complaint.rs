//! What is wrong with a file, by line and key.

use crate::failure::Failure;
use crate::table::shorten;

/// The text of a file that is being read.
pub(crate) struct Text<'a> {
    pub(crate) name: String,
    pub(crate) content: &'a str,
}

impl Text<'_> {
    /// That the file cannot be read; why is still to be said.
    pub(crate) fn refuse(&self) -> Failure {
        Failure::input(format!("cannot read {}", self.name))
    }

    /// The line of a byte, counted from one.
    pub(crate) fn line(&self, at: usize) -> usize {
        let before = &self.content.as_bytes()[..at.min(self.content.len())];
        memchr::memchr_iter(b'\n', before).count() + 1
    }

    /// What the reader of TOML found wrong.
    pub(crate) fn refuse_toml(&self, error: &toml::de::Error) -> Failure {
        let message = error.message().trim();
        let at = error.span().map(|span| span.start);
        let place = match at {
            Some(at) => format!("line {}: ", self.line(at)),
            None => String::new(),
        };
        let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        if message.starts_with("unknown field")
            && let [wrong, known @ ..] = quoted.as_slice()
        {
            let table = at.and_then(|at| self.table_at(at));
            let key = match &table {
                Some(table) => format!("{table}.{wrong}"),
                None => (*wrong).to_owned(),
            };
            let cause = match nearest(wrong, known.iter().copied()) {
                Some(near) => format!("{place}unknown key `{key}`; did you mean `{near}`?"),
                None => format!("{place}unknown key `{key}`"),
            };
            let hint = match table {
                Some(table) => format!("[{table}] has {}", known.join(", ")),
                None => format!("there are {}", known.join(", ")),
            };
            return self.refuse().cause(cause).hint(hint);
        }
        let key = at.and_then(|at| self.key_at(at));
        let key = key.map_or(String::new(), |key| format!("{key}: "));
        if message.starts_with("unknown variant")
            && let [wrong, known @ ..] = quoted.as_slice()
        {
            let wrong = shorten(wrong);
            let cause = match nearest(&wrong, known.iter().copied()) {
                Some(near) => format!("{place}{key}unknown `{wrong}`; did you mean `{near}`?"),
                None => format!("{place}{key}unknown `{wrong}`"),
            };
            let hint = format!("one of {} is expected", known.join(", "));
            return self.refuse().cause(cause).hint(hint);
        }
        let message = message.replace('\n', "; ");
        self.refuse()
            .cause(format!("{place}{key}{message}"))
            .hint("correct that line; what is not in the file has a default")
    }

    /// The table that a byte is in: what the last header before it names.
    fn table_at(&self, at: usize) -> Option<String> {
        let line = self.line(at);
        self.content
            .lines()
            .take(line)
            .filter_map(header)
            .last()
            .map(|(name, _)| name)
            // The wrong key may be the header itself, in which case its table is
            // what it is in.
            .and_then(|name| {
                let is_header = self
                    .content
                    .lines()
                    .nth(line - 1)
                    .and_then(header)
                    .is_some();
                if is_header {
                    name.rsplit_once('.').map(|(outer, _)| outer.to_owned())
                } else {
                    Some(name)
                }
            })
    }

    /// The key whose value holds a byte.
    fn key_at(&self, at: usize) -> Option<String> {
        let line = self.content.lines().nth(self.line(at) - 1)?;
        if let Some((name, _)) = header(line) {
            return Some(name);
        }
        let key = line.split_once('=').map(|(key, _)| key.trim())?;
        let is_key = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        if key.is_empty() || !key.chars().all(is_key) {
            return None;
        }
        Some(match self.table_at(at) {
            Some(table) => format!("{table}.{key}"),
            None => key.to_owned(),
        })
    }
}

/// The name in a header such as `[source.docs]`, and whether it is one of many.
fn header(line: &str) -> Option<(String, bool)> {
    let line = line.trim();
    let (inner, is_many) = match line.strip_prefix("[[") {
        Some(inner) => (inner, true),
        None => (line.strip_prefix('[')?, false),
    };
    let name = inner.split(']').next()?.trim();
    let is_name = !name.is_empty() && !name.contains(['=', ',', '{']);
    is_name.then(|| (name.to_owned(), is_many))
}

/// The known word that was probably meant.
pub(crate) fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Above this, words have more in common than not.
    const ALIKE: f64 = 0.7;
    let wrong = wrong.to_lowercase();
    known
        .map(|word| {
            let alike = strsim::normalized_damerau_levenshtein(&wrong, &word.to_lowercase());
            let is_part = word.len() > 2 && wrong.len() > 2;
            let is_part = is_part && (word.starts_with(&wrong) || wrong.starts_with(word));
            (word, if is_part { alike.max(ALIKE) } else { alike })
        })
        .filter(|(_, alike)| *alike >= ALIKE - 0.1)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file::File;
    use super::*;

    #[track_caller]
    fn check(content: &str, cause: &str) {
        let text = Text {
            name: "springtide.toml".into(),
            content,
        };
        let error = toml::from_str::<File>(content).unwrap_err();
        let said = text.refuse_toml(&error).to_string();
        assert!(said.contains(cause), "{said}");
    }

    #[test]
    fn unknown_keys_are_named_with_line_table_and_what_was_meant() {
        check(
            "[budget]\npolls = \"5/day\"\n\nbrust = \"5/hour\"\n",
            "line 4: unknown key `budget.brust`; did you mean `burst`?",
        );
        check(
            "[bugdet]\npolls = 1\n",
            "unknown key `bugdet`; did you mean `budget`?",
        );
        check(
            "[source.docs]\nkind = \"sitemap\"\nulr = \"x\"\n",
            "line 3: unknown key `source.docs.ulr`; did you mean `url`?",
        );
        check("[http]\nzzz = 1\n", "line 2: unknown key `http.zzz`\n");
        check("[source.a.detetc]\nkeep = []\n", "`detect`");
    }

    #[test]
    fn values_are_named_with_line_key_and_reason() {
        check(
            "[budget]\npolls = \"5/parsec\"\n",
            "line 2: budget.polls: `5/parsec`: unknown unit `parsec`",
        );
        check(
            "[budget]\naudit = 7\n",
            "line 2: budget.audit: `7`: a share",
        );
        check(
            "[policy]\nname = \"lerned\"\n",
            "line 2: policy.name: unknown `lerned`; did you mean `learned`?",
        );
        check(
            "[http]\nmax_body = true\n",
            "line 2: http.max_body: invalid type",
        );
        check("[http\n", "line 1");
        check(
            "[source.a]\nurl = \"https://example.org\"\n",
            "missing field `kind`",
        );
    }

    #[test]
    fn any_text_is_read_or_refused() {
        bolero::check!().with_type::<String>().for_each(|content| {
            let text = Text {
                name: String::new(),
                content,
            };
            if let Err(error) = toml::from_str::<File>(content) {
                let _ = text.refuse_toml(&error).to_string();
            }
        });
    }

    /// The settings of the documentation, with parts replaced, cut out and repeated.
    #[test]
    fn fuzz_config() {
        let page = include_str!("../../../../docs/reference/config.md");
        let examples: Vec<&str> = page
            .split("```toml\n")
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap_or_default())
            .collect();
        bolero::check!()
            .with_type::<(u8, Vec<(u16, u8, char)>)>()
            .for_each(|(number, edits)| {
                let example = examples[usize::from(*number) % examples.len()];
                let mut content: Vec<char> = example.chars().collect();
                for &(place, length, with) in edits {
                    let at = usize::from(place) % (content.len() + 1);
                    let end = (at + usize::from(length) / 16).min(content.len());
                    let part = match length % 3 {
                        0 => vec![with],
                        1 => Vec::new(),
                        _ => content[at..end].repeat(2),
                    };
                    content.splice(at..end, part);
                }
                let content: String = content.into_iter().collect();
                let text = Text {
                    name: String::new(),
                    content: &content,
                };
                let said = match toml::from_str::<File>(&content) {
                    Ok(file) => super::super::resolve(file, Path::new("."), &text).err(),
                    Err(error) => Some(text.refuse_toml(&error)),
                };
                let _ = said.map(|failure| failure.to_string());
            });
    }
}
