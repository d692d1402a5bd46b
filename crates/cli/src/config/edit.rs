//! Changes to `springtide.toml` that leave everything else in it as it was: comments,
//! order, blank lines.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, TableLike, Value, value};

use super::FILE;
use crate::failure::{Failure, Outcome};
use crate::table::{Unfinished, write_whole};

/// The file, to be changed and written back.
pub(crate) struct Editor {
    pub(super) document: DocumentMut,
}

/// A source to be written into the file.
#[derive(Debug, Default, Clone)]
pub(crate) struct NewSource {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) url: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) weight: Option<f64>,
    /// What else is said of it.
    pub(crate) others: Vec<(&'static str, Value)>,
}

impl Editor {
    /// Opens the file of a project.
    pub(crate) fn open(folder: &Path) -> Outcome<Self> {
        let path = folder.join(FILE);
        let refuse = || Failure::input(format!("cannot read {}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|error| refuse().cause(error))?;
        let document = text
            .parse()
            .map_err(|error: toml_edit::TomlError| refuse().cause(error.message()))?;
        Ok(Self { document })
    }

    /// Adds a source at the end.
    pub(crate) fn add_source(&mut self, source: &NewSource) -> Outcome<()> {
        let mut table = Table::new();
        table.insert("kind", value(source.kind));
        if let Some(url) = &source.url {
            table.insert("url", value(url));
        }
        if let Some(file) = &source.file {
            table.insert("file", value(file));
        }
        if let Some(weight) = source.weight {
            table.insert("weight", value(weight));
        }
        for (key, other) in &source.others {
            table.insert(key, value(other.clone()));
        }
        self.insert_source(&source.name, table)
    }

    /// Puts the table of a source at the end.
    pub(super) fn insert_source(&mut self, name: &str, mut table: Table) -> Outcome<()> {
        // What stands behind the last table stays where it is.
        let trailing = self
            .document
            .trailing()
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.document.set_trailing("");
        let sources = self
            .document
            .entry("source")
            .or_insert_with(|| {
                // No header of its own: `[source.docs]` says it all.
                let mut sources = Table::new();
                sources.set_implicit(true);
                Item::Table(sources)
            })
            .as_table_like_mut()
            .ok_or_else(|| Failure::input(format!("`source` in {FILE} is not a table")))?;
        table.decor_mut().set_prefix(format!("{trailing}\n"));
        sources.insert(name, Item::Table(table));
        Ok(())
    }

    /// Takes a source out; `false` if there is none of this name.
    pub(crate) fn remove_source(&mut self, name: &str) -> bool {
        let sources = self.document.get_mut("source");
        let sources = sources.and_then(Item::as_table_like_mut);
        sources.is_some_and(|sources| sources.remove(name).is_some())
    }

    /// Gives a source another name, if it is there.
    pub(crate) fn rename_source(&mut self, old: &str, new: &str) {
        let sources = self.document.get_mut("source");
        if let Some(sources) = sources.and_then(Item::as_table_like_mut)
            && let Some(source) = sources.remove(old)
        {
            sources.insert(new, source);
        }
    }

    /// Sets `budget.polls`.
    pub(crate) fn set_budget(&mut self, polls: &str) -> Outcome<()> {
        set(self.table("budget")?, "polls", polls.into());
        Ok(())
    }

    /// Sets `http.contact`.
    pub(crate) fn set_contact(&mut self, contact: &str) -> Outcome<()> {
        set(self.table("http")?, "contact", contact.into());
        Ok(())
    }

    /// Adds addresses or networks to `http.allow_private`, unless all may be asked.
    pub(crate) fn allow_private(&mut self, networks: &[String]) -> Outcome<()> {
        let http = self.table("http")?;
        let old = http.get("allow_private").and_then(Item::as_value);
        if networks.is_empty() || old.and_then(Value::as_bool) == Some(true) {
            return Ok(());
        }
        let mut list = old.and_then(Value::as_array).cloned().unwrap_or_default();
        for network in networks {
            if list.iter().all(|known| known.as_str() != Some(network)) {
                list.push(network);
            }
        }
        set(http, "allow_private", list.into());
        Ok(())
    }

    /// A table of settings, made if it is not there.
    pub(super) fn table(&mut self, name: &str) -> Outcome<&mut dyn TableLike> {
        self.document
            .entry(name)
            .or_insert_with(|| Item::Table(Table::new()))
            .as_table_like_mut()
            .ok_or_else(|| Failure::input(format!("`{name}` in {FILE} is not a table")))
    }

    /// Writes the file, whole or not at all.
    pub(crate) fn write(&self, folder: &Path, unfinished: &Unfinished) -> Outcome<()> {
        write_whole(&folder.join(FILE), &self.document.to_string(), unfinished)
    }
}

/// Sets a value; a comment behind the old one stays there.
pub(super) fn set(table: &mut dyn TableLike, key: &str, new: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = new;
            *old.decor_mut() = decor;
        }
        None => {
            table.insert(key, value(new));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_order_survive() {
        let text = "# ours\n[http] # how to ask\ncontact = \"a@example.org\"\n\n\
                    [budget]\npolls = \"5/day\" # not much\n\n\
                    # the manual\n[source.docs]\nkind = \"page\"\nurl = \"https://example.org/\"\n";
        let mut editor = Editor {
            document: text.parse().unwrap(),
        };
        editor.set_budget("7/day").unwrap();
        editor
            .add_source(&NewSource {
                name: "urls.txt".into(),
                kind: "list",
                file: Some("urls.txt".into()),
                ..NewSource::default()
            })
            .unwrap();
        let wanted = text.replace("5/day", "7/day")
            + "\n[source.\"urls.txt\"]\nkind = \"list\"\nfile = \"urls.txt\"\n";
        assert_eq!(editor.document.to_string(), wanted);
        assert!(editor.remove_source("urls.txt") && !editor.remove_source("urls.txt"));
        assert_eq!(editor.document.to_string(), text.replace("5/day", "7/day"));
        editor.rename_source("docs", "manual");
        let renamed = text.replace("5/day", "7/day");
        assert_eq!(
            editor.document.to_string(),
            renamed.replace("[source.docs]", "[source.manual]")
        );
    }

    #[test]
    fn private_addresses_are_added_to_those_that_are_there() {
        let edited = |text: &str| {
            let mut editor = Editor {
                document: text.parse().unwrap(),
            };
            let new = ["10.0.0.1".to_owned(), "127.0.0.1".to_owned()];
            editor.allow_private(&new).unwrap();
            editor.document.to_string()
        };
        let both = "[http]\nallow_private = [\"10.0.0.1\", \"127.0.0.1\"]\n";
        assert_eq!(edited(""), both);
        assert_eq!(edited("[http]\nallow_private = false\n"), both);
        assert_eq!(edited("[http]\nallow_private = [\"10.0.0.1\"]\n"), both);
        let all = "[http]\nallow_private = true\n";
        assert_eq!(edited(all), all);
    }

    #[test]
    fn a_comment_at_the_end_stays_with_its_table() {
        let mut editor = Editor {
            document: "[http]\n# contact = \"\"\n".parse().unwrap(),
        };
        for name in ["a", "b"] {
            let (name, kind) = (name.to_owned(), "list");
            let source = NewSource {
                name,
                kind,
                ..NewSource::default()
            };
            editor.add_source(&source).unwrap();
        }
        assert_eq!(
            editor.document.to_string(),
            "[http]\n# contact = \"\"\n\n[source.a]\nkind = \"list\"\n\n\
             [source.b]\nkind = \"list\"\n"
        );
    }

    #[test]
    fn an_empty_file_gets_what_is_added() {
        let mut editor = Editor {
            document: DocumentMut::new(),
        };
        editor.set_budget("2000/day").unwrap();
        editor
            .add_source(&NewSource {
                name: "docs".into(),
                kind: "sitemap",
                url: Some("https://example.org/sitemap.xml".into()),
                weight: Some(2.0),
                ..NewSource::default()
            })
            .unwrap();
        assert_eq!(
            editor.document.to_string(),
            "[budget]\npolls = \"2000/day\"\n\n[source.docs]\nkind = \"sitemap\"\n\
             url = \"https://example.org/sitemap.xml\"\nweight = 2.0\n"
        );
    }
}
