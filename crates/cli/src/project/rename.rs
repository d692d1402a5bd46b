//! `springtide rename`.

use serde::Serialize;
use springtide_store::{Fact, Source, Writer};

use super::{Project, source_named, sources};
use crate::args::SettingFlags;
use crate::args::project::Rename;
use crate::config::{self, edit::Editor};
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::table::Unfinished;
use crate::talk::Talk;

pub(crate) fn run(
    args: &Rename,
    project: &Project,
    talk: Talk,
    unfinished: &Unfinished,
) -> Outcome<()> {
    #[derive(Serialize)]
    struct Renamed<'a> {
        old: &'a str,
        new: &'a str,
    }
    let config = project.config(&SettingFlags::default(), talk)?;
    let mut store = project.write()?;
    let known = sources(project, &store, &config)?;
    let source = source_named(&known, &args.old)?;
    config::check_name(&args.new).map_err(|why| {
        Failure::input("cannot rename the source")
            .cause(why)
            .hint("letters, digits, `-`, `_` and `.` make a name")
    })?;
    if known.iter().any(|source| source.name == args.new) {
        return Err(
            Failure::input(format!("there is a source {} already", args.new))
                .hint("give another name"),
        );
    }
    let mut editor = Editor::open(&project.folder)?;
    editor.rename_source(&args.old, &args.new);
    // The store first: under a name that is not in the file, a source waits.
    if source.id != springtide_engine::view::NOT_IN_STORE {
        let renamed = Source {
            name: args.new.clone(),
            ..source.clone()
        };
        let kept = store.commit(&[Fact::Source(renamed)]);
        kept.map_err(|error| project.refuse(&error))?;
    }
    editor.write(&project.folder, unfinished)?;
    store.close().map_err(|error| project.refuse(&error))?;
    let (old, new) = (&*args.old, &*args.new);
    if args.json {
        return print_json(&Renamed { old, new });
    }
    talk.say(format!("renamed {old} to {new}"));
    Ok(())
}
