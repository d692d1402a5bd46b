//! `springtide init`.

use std::path::Path;

use serde::Serialize;

use super::Project;
use crate::args::SettingFlags;
use crate::args::project::Init;
use crate::config::{DEFAULT_BUDGET, FILE};
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::table::{Unfinished, write_whole};
use crate::talk::Talk;

pub(crate) fn run(
    args: &Init,
    named: Option<&Path>,
    talk: Talk,
    unfinished: &Unfinished,
) -> Outcome<()> {
    #[derive(Serialize)]
    struct Made {
        project: String,
        is_new: bool,
    }
    let folder = args
        .folder
        .as_deref()
        .or(named)
        .unwrap_or_else(|| Path::new("."));
    let is_new = !folder.join(FILE).exists();
    let budget = args.budget.map(|budget| budget.0.to_string());
    if !is_new && budget.is_some() {
        talk.say(format!(
            "{FILE} is there already; its budget stays as it is"
        ));
    }
    let project = make(folder, budget.as_deref(), None, unfinished)?;
    // What is there has to be in order for the next verb to work.
    project.config(&SettingFlags::default(), talk)?;
    if args.json {
        let project = folder.display().to_string();
        return print_json(&Made { project, is_new });
    }
    let place = folder.join(FILE);
    if is_new {
        talk.say(format!("made {}", place.display()));
        talk.say("next: `springtide add URL`, then `springtide run`");
    } else {
        talk.say(format!(
            "{} is there already, and in order",
            place.display()
        ));
    }
    Ok(())
}

/// Makes what is missing of a project.
pub(crate) fn make(
    folder: &Path,
    budget: Option<&str>,
    contact: Option<&str>,
    unfinished: &Unfinished,
) -> Outcome<Project> {
    let cannot = |error: std::io::Error| {
        Failure::failed(format!("cannot make a project in {}", folder.display())).cause(error)
    };
    std::fs::create_dir_all(folder).map_err(cannot)?;
    let path = folder.join(FILE);
    if !path.exists() {
        write_whole(&path, &template(budget, contact), unfinished)?;
    }
    let project = Project {
        folder: folder.to_owned(),
    };
    let store = project.store_folder();
    springtide_store::create_private_folder(&store).map_err(cannot)?;
    // The store is no part of what people keep under version control.
    let ignore = store.join(".gitignore");
    if !ignore.exists() {
        write_whole(&ignore, "*\n", unfinished)?;
    }
    Ok(project)
}

fn template(budget: Option<&str>, contact: Option<&str>) -> String {
    let assumed = format!("{DEFAULT_BUDGET}/day");
    let contact = match contact {
        Some(contact) => format!("contact = {}", toml_edit::Value::from(contact)),
        None => "# contact = \"you@example.org\"   # goes into the user agent".to_owned(),
    };
    format!(
        "# What springtide keeps a copy of, and what it may spend on it.\n\
         # Everything has a default.\n\
         \n\
         [budget]\n\
         polls = \"{}\"\n\
         \n\
         [http]\n\
         {contact}\n",
        budget.unwrap_or(&assumed)
    )
}
