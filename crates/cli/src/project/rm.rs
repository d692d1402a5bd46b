//! `springtide rm`.

use std::io::{IsTerminal, Write};

use serde::Serialize;
use springtide_store::{Fact, Source, Writer};

use super::{Project, source_named, sources};
use crate::args::SettingFlags;
use crate::args::project::Rm;
use crate::config::edit::Editor;
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::table::{Unfinished, shorten_to};
use crate::talk::{Talk, plural};

pub(crate) fn run(
    args: &Rm,
    project: &Project,
    talk: Talk,
    unfinished: &Unfinished,
) -> Outcome<()> {
    #[derive(Serialize)]
    struct Removed {
        name: String,
        n_elements: u64,
    }
    let config = project.config(&SettingFlags::default(), talk)?;
    let mut store = project.write()?;
    let mut known = sources(project, &store, &config)?;
    for name in &args.names {
        source_named(&known, name)?;
    }
    known.retain(|source| args.names.contains(&source.name));
    if !args.yes && !args.json && !confirmed(&known) {
        return Err(Failure::failed("nothing was removed").hint("--yes removes without asking"));
    }
    let mut editor = Editor::open(&project.folder)?;
    for name in &args.names {
        editor.remove_source(name);
    }
    // The file first: what is in it and not in the store comes back, the other way
    // round it would go for good.
    editor.write(&project.folder, unfinished)?;
    let facts: Vec<Fact> = known
        .iter()
        .filter(|source| source.id != springtide_engine::view::NOT_IN_STORE)
        .map(|source| Fact::SourceRemoved(source.id))
        .collect();
    let removing = talk.progress("removing", None);
    store
        .commit(&facts)
        .and_then(|()| store.close())
        .map_err(|error| project.refuse(&error))?;
    drop(removing);
    if args.json {
        let removed = known.iter().map(|source| Removed {
            name: source.name.clone(),
            n_elements: source.totals.n_elements,
        });
        return print_json(&removed.collect::<Vec<_>>());
    }
    for source in &known {
        let n = plural(source.totals.n_elements, "element");
        talk.say(format!("removed {} with {n}", source.name));
    }
    if !known.is_empty() {
        talk.say("`springtide doctor --gc` frees the space of unreferenced bodies");
    }
    Ok(())
}

/// Asks a person, if there is one.
fn confirmed(sources: &[Source]) -> bool {
    let (mut stderr, stdin) = (std::io::stderr(), std::io::stdin());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return true;
    }
    let names: Vec<&str> = sources.iter().map(|source| &*source.name).collect();
    let n: u64 = sources.iter().map(|source| source.totals.n_elements).sum();
    let (names, n) = (shorten_to(&names.join(", "), 200), plural(n, "element"));
    let _ = write!(stderr, "remove {names} with {n} and their history? [y/N] ");
    let mut answer = String::new();
    let _ = stdin.read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes")
}
