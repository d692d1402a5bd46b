//! `springtide`: words in, decisions out. The library crates decide; this one
//! reads what was typed and the files it names, and writes what came of it.

mod args;
mod cover;
mod estimate;
mod failure;
mod history;
mod json;
mod panics;
mod plan;
mod rates;
mod reproduce;
mod simulate;
mod table;
mod talk;
mod units;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use args::{Cli, Command};
use clap::error::{ContextKind, ErrorKind};
use failure::{Code, Failure};
use table::{Unfinished, shorten};
use talk::{Talk, say_always};

fn main() -> ExitCode {
    panics::install();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error),
    };
    let talk = match (cli.quiet, cli.verbose) {
        (true, _) => Talk::Quiet,
        (_, true) => Talk::Verbose,
        _ => Talk::Normal,
    };
    let unfinished = Unfinished::default();
    clean_up_on_signals(&unfinished);
    let outcome = match &cli.command {
        Command::Plan(args) => plan::run(args, talk, &unfinished),
        Command::Estimate(args) => estimate::run(args, talk, &unfinished),
        Command::Simulate(args) => simulate::run(args, talk),
        Command::Reproduce(args) => reproduce::run(args, talk, &unfinished),
        Command::Cover(args) => cover::run(args, talk, &unfinished),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent {
                say_always(failure.to_string());
            }
            ExitCode::from(failure.code as u8)
        }
    }
}

/// Says what is wrong with the arguments, or gives the help that was asked for.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    if let (ErrorKind::ValueValidation, Some(cause)) = (error.kind(), cause) {
        let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
        let flag = context(ContextKind::InvalidArg);
        let value = shorten(&context(ContextKind::InvalidValue));
        let failure = Failure::input(format!("cannot understand {flag}"))
            .cause(format!("{cause}, not `{value}`"))
            .hint("springtide help says what it takes");
        say_always(failure.to_string());
        return ExitCode::from(failure.code as u8);
    }
    let printed = error.print();
    ExitCode::from(if error.use_stderr() {
        Code::BadInput as u8
    } else if printed.is_err() {
        Code::Failed as u8
    } else {
        0
    })
}

/// Stops on Ctrl-C and on SIGTERM without leaving half a file behind.
fn clean_up_on_signals(unfinished: &Unfinished) {
    // A file that grows too large (SIGXFSZ) is an error of the write, if only the
    // signal does not kill us first.
    let signals = [SIGINT, SIGTERM, SIGHUP, SIGXFSZ];
    let Ok(mut signals) = signal_hook::iterator::Signals::new(signals) else {
        return;
    };
    let unfinished = Arc::clone(unfinished);
    std::thread::spawn(move || {
        let Some(signal) = signals.forever().find(|signal| *signal != SIGXFSZ) else {
            return;
        };
        if let Some(path) = unfinished.lock().ok().and_then(|mut path| path.take()) {
            // Nothing is to be done about a file that will not go.
            let _ = std::fs::remove_file(path);
        }
        std::process::exit(128 + signal);
    });
}
