//! `springtide`: words in, decisions out. The library crates decide; this one
//! reads what was typed and the files it names, and writes what came of it.

mod args;
mod columns;
mod config;
mod cover;
mod demo;
mod estimate;
mod failure;
mod history;
mod json;
mod live;
mod moment;
mod panics;
mod plan;
mod project;
mod rates;
mod reproduce;
mod signals;
mod simulate;
mod table;
mod talk;
mod units;
mod width;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command, SettingFlags};
use clap::error::{ContextKind, ErrorKind};
use columns::Colour;
use failure::{Code, Failure, Outcome};
use project::Project;
use signals::Signals;
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
    let signals = Signals::listen(&unfinished);
    let outcome = run(&cli, talk, &unfinished, &signals);
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

fn run(cli: &Cli, talk: Talk, unfinished: &Unfinished, signals: &Signals) -> Outcome<()> {
    let named = cli.project.as_deref();
    let colour = Colour::chosen(cli.color);
    let find = || Project::find(named);
    match &cli.command {
        Command::Demo(args) => demo::run(args, talk, colour, unfinished, signals),
        Command::Init(args) => project::init::run(args, named, talk, unfinished),
        Command::Add(args) => project::add::run(args, named, talk, colour, unfinished),
        Command::Rm(args) => project::rm::run(args, &find()?, talk, unfinished),
        Command::Rename(args) => project::rename::run(args, &find()?, talk, unfinished),
        Command::Ls(args) => project::ls::run(args, &find()?, talk, colour),
        Command::Poll(args) => project::run::poll(args, &find()?, talk, signals),
        Command::Run(args) => project::run::run(args, &find()?, talk, signals),
        Command::Serve(args) => project::serve::run(args, &find()?, talk, unfinished, signals),
        Command::Notify(args) => project::notify::run(args, &find()?, talk),
        Command::Status(args) => project::status::run(args, &find()?, talk, colour),
        Command::Log(args) => project::log::run(args, &find()?, talk, colour),
        Command::Cat(args) => project::cat::run(args, &find()?),
        Command::Diff(args) => project::diff::run(args, &find()?, talk, colour),
        Command::Import(args) => project::import::run(args, &find()?, talk, unfinished),
        Command::Export(args) => project::export::run(args, &find()?, talk, unfinished),
        Command::Doctor(args) => project::doctor::run(args, &find()?, talk),
        Command::Plan(args) => match &args.rates {
            Some(rates) => plan::run(rates, args, talk, colour, unfinished),
            None => project::plan::run(args, &find()?, talk, colour, unfinished),
        },
        Command::Cover(args) => cover::run(args, talk, unfinished),
        Command::Estimate(args) => estimate::run(args, talk, unfinished),
        Command::Simulate(args) => simulate::run(args, talk),
        Command::Reproduce(args) => reproduce::run(args, talk, unfinished),
        Command::Completions(args) => {
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut Cli::command(), "springtide", &mut script);
            let mut stdout = std::io::stdout().lock();
            std::io::Write::write_all(&mut stdout, &script)
                .map_err(|error| table::unwritable("standard output", &error))
        }
        Command::Man(args) => clap_mangen::generate_to(Cli::command(), &args.folder)
            .map_err(|error| table::unwritable(&args.folder.display().to_string(), &error)),
    }
}

/// Says what to do first, to someone who has typed nothing but our name.
fn first_steps() -> ExitCode {
    let here = match Project::look(None) {
        Ok(Some(project)) if has_no_sources(&project) => format!(
            "The project in {} has no sources yet:\n\n\
             \x20 springtide add URL              keep a copy of a page, sitemap or feed\n\
             \x20 springtide add --site URL       or of a whole site\n\
             \x20 springtide run                  then: fetch it, and keep the copy fresh\n",
            project.folder.display()
        ),
        Ok(Some(project)) => format!(
            "The project in {}:\n\n\
             \x20 springtide status               how fresh the copy is\n\
             \x20 springtide run                  keep it fresh until stopped\n\
             \x20 springtide log                  what has changed\n\
             \x20 springtide add URL              keep a copy of something else too\n",
            project.folder.display()
        ),
        _ => "Keeps a local copy of remote sources as fresh as a polling budget allows.\n\n\
              \x20 springtide demo                 see it work, without a network\n\
              \x20 springtide add URL              make a project here, with a page, sitemap or feed\n\
              \x20 springtide run                  fetch it, and keep the copy fresh until stopped\n\
              \x20 springtide status               how fresh the copy is\n"
            .to_owned(),
    };
    let text = format!("{here}\nspringtide --help lists everything.\n");
    match std::io::Write::write_all(&mut std::io::stdout().lock(), text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(Code::Failed as u8),
    }
}

fn has_no_sources(project: &Project) -> bool {
    let config = project.config(&SettingFlags::default(), Talk::Quiet);
    config.is_ok_and(|config| config.settings.sources.is_empty())
}

/// Says what is wrong with the arguments, or gives the help that was asked for.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    if let (ErrorKind::ValueValidation, Some(cause)) = (error.kind(), cause) {
        let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
        let flag = context(ContextKind::InvalidArg);
        let value = shorten(&context(ContextKind::InvalidValue));
        let failure = Failure::input(format!("cannot understand {flag}"))
            .cause(format!("`{value}`: {cause}"))
            .hint("springtide help says what it takes");
        say_always(failure.to_string());
        return ExitCode::from(failure.code as u8);
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        && std::env::args_os().len() == 1
    {
        return first_steps();
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
