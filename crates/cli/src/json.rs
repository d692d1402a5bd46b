//! JSON for programs.

use std::io::Write;

use serde::Serialize;

use crate::failure::Outcome;
use crate::table::unwritable;

/// One JSON document on standard output.
pub(crate) fn print_json(document: &impl Serialize) -> Outcome<()> {
    let mut stdout = std::io::stdout().lock();
    let written = serde_json::to_writer_pretty(&mut stdout, document)
        .map_err(std::io::Error::from)
        .and_then(|()| writeln!(stdout))
        .and_then(|()| stdout.flush());
    written.map_err(|error| unwritable("standard output", &error))
}
