//! The program as people and scripts meet it: what was typed in; standard output,
//! standard error, exit code and files out.

mod browser;
mod config;
mod cover;
mod databases;
mod deploy;
mod document;
mod durability;
mod errors;
mod estimate;
mod guide;
mod killed;
mod live;
mod mail;
mod many;
mod notices;
mod pages;
mod pause;
mod plan;
mod processes;
mod project;
mod reproduce;
mod run;
mod search;
mod serve;
mod serving;
mod simulate;
mod soak;
mod tables;
mod tables_live;
mod websub;
mod words;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Says that something is left out, past what a test's own output is caught by.
pub(crate) fn say_skipped(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what} ({why})");
}

/// A folder with some files in which the program is run.
pub(crate) struct Place {
    folder: TempDir,
}

pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A place with one file in it.
    pub(crate) fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        Self::new().and(name, content)
    }

    pub(crate) fn and(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.path(name), content).unwrap();
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The names of all files there, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_springtide"));
        command.args(line.split(' ').filter(|word| !word.is_empty()));
        command.current_dir(self.folder.path()).env("NO_COLOR", "1");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SPRINGTIDE_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs the program with these words, parted by blanks.
    pub(crate) fn run(&self, line: &str) -> Ran {
        self.run_with(line, b"")
    }

    /// The same with something on standard input.
    pub(crate) fn run_with(&self, line: &str, stdin: &[u8]) -> Ran {
        let mut child = self
            .command(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            // A program that refuses its arguments reads nothing.
            scope.spawn(move || {
                let _ = input.write_all(stdin);
            });
            child.wait_with_output().unwrap()
        });
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// What is seen of the program on a terminal of eighty columns that `script` pretends to be,
/// and typed there; nothing where there is no `script`, which is said.
#[cfg(unix)]
pub(crate) fn on_terminal(place: &Place, line: &str, typed: &str) -> Option<String> {
    let program = place.command("");
    let program = program.get_program().to_string_lossy().into_owned();
    let mut script = Command::new("script");
    let line = format!("stty cols 80 rows 24; {program} {line}");
    script.args(["-qec", &line, "/dev/null"]);
    script.current_dir(place.path(".")).env("TERM", "xterm");
    script.env("NO_COLOR", "1");
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = match script.spawn() {
        Ok(child) => child,
        Err(error) => {
            say_skipped(
                "a test on a terminal",
                &format!("there is no `script`: {error}"),
            );
            return None;
        }
    };
    let mut input = child.stdin.take().unwrap();
    input.write_all(typed.as_bytes()).unwrap();
    // It stays open: a terminal at its end would end what is asked there.
    let output = child.wait_with_output().unwrap();
    drop(input);
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Ran {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self
    }

    /// Failed with this code, and said so with these words.
    #[track_caller]
    pub(crate) fn failed(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{}", self.stderr);
        for word in words {
            assert!(
                self.stderr.contains(word),
                "no `{word}` in:\n{}",
                self.stderr
            );
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }
}

/// The cells of a CSV text without its header.
pub(crate) fn cells(csv: &str) -> Vec<Vec<&str>> {
    csv.lines()
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect()
}

/// One column of a CSV text as numbers.
pub(crate) fn column(csv: &str, index: usize) -> Vec<f64> {
    cells(csv)
        .iter()
        .map(|row| row[index].parse().unwrap())
        .collect()
}

/// A request that somebody sent: its head in small letters, line by line, and its body.
pub(crate) fn received(stream: &TcpStream) -> std::io::Result<(Vec<String>, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        head.push(line.trim_end().to_ascii_lowercase());
    }
    let length = head
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |n| n.parse().unwrap())];
    reader.read_exact(&mut body)?;
    Ok((head, body))
}

/// The repository's own folder.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What the program printed, as JSON.
pub(crate) fn json(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.stdout).unwrap()
}

/// The same, a document a line.
pub(crate) fn lines(ran: &Ran) -> Vec<serde_json::Value> {
    let lines = ran.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
