//! JSON for programs.

use std::io::{BufWriter, Write};

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

/// JSON lines on standard output, as they come.
pub(crate) struct Lines {
    stdout: BufWriter<std::io::StdoutLock<'static>>,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self {
            stdout: BufWriter::with_capacity(1 << 16, std::io::stdout().lock()),
        }
    }

    pub(crate) fn push(&mut self, line: &impl Serialize) -> Outcome<()> {
        serde_json::to_writer(&mut self.stdout, line)
            .map_err(std::io::Error::from)
            .and_then(|()| self.stdout.write_all(b"\n"))
            .map_err(|error| unwritable("standard output", &error))
    }

    pub(crate) fn finish(mut self) -> Outcome<()> {
        self.stdout
            .flush()
            .map_err(|error| unwritable("standard output", &error))
    }
}
