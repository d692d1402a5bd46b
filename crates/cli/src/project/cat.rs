//! `springtide cat`: the copy of an element, as it is or as it was.

use std::io::Write;

use springtide_engine::view::redacted;
use springtide_store::{Change, ChangeFilter, ChangeKind};

use super::{Project, element_named};
use crate::args::project::Cat;
use crate::failure::{Failure, Outcome};
use crate::moment;
use crate::table::{shorten, unwritable};

/// Changes that are read at a time.
const PAGE: usize = 1000;

pub(crate) fn run(args: &Cat, project: &Project) -> Outcome<()> {
    let store = project.read()?;
    let refuse = |error| project.refuse(&error);
    let kept = element_named(project, &*store, &args.element)?;
    let none = |cause: &str| {
        Failure::input(format!(
            "there is no copy of {}",
            shorten(&redacted(&args.element))
        ))
        .cause(cause)
    };
    let body = match &args.at {
        None => kept
            .copy
            .as_ref()
            .map(|copy| copy.body)
            .ok_or_else(|| none("no poll of it was answered yet"))?,
        Some(text) => {
            let at = super::log::moment_named("--at", text, moment::now())?;
            let filter = ChangeFilter {
                element: Some(kept.element.id),
                ..ChangeFilter::default()
            };
            let mut before = None;
            let held: Change = loop {
                let page = store.changes(&filter, before, PAGE).map_err(refuse)?;
                before = page.last().map(|change| change.number);
                let is_last = page.len() < PAGE;
                if let Some(change) = page.into_iter().find(|change| change.found_at <= at) {
                    break change;
                }
                if is_last {
                    return Err(none("it was first held later than that")
                        .hint("`springtide diff --versions` lists the versions that there are"));
                }
            };
            if held.kind == ChangeKind::Gone {
                return Err(none("it was gone then"));
            }
            held.body
                .ok_or_else(|| none("that version is no longer kept"))?
        }
    };
    let body = project.bodies()?.get(body).map_err(|error| {
        Failure::failed(format!(
            "cannot read the copy of {}",
            shorten(&redacted(&args.element))
        ))
        .cause(error)
        .hint("its next poll fetches it anew; `springtide doctor` says more")
    })?;
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(&body).and_then(|()| stdout.flush());
    written.map_err(|error| unwritable("standard output", &error))
}
