//! What may be typed to work on a project.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use springtide_engine::view::SortKey;

use super::ObjectiveName;
use crate::config::value::{
    AllowPrivate, BurstLimit, FirstPass, Hours, PerTime, Policy, PositiveSpan, Share, Size,
};

/// Make a project: a folder with springtide.toml and .springtide/
///
/// Safe to repeat: what is there stays unchanged.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide init
  springtide init mirror --budget 2000/day")]
pub(crate) struct Init {
    /// Where [default: here]
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Polls per time, as in 2000/day; written into a new springtide.toml
    #[arg(long, value_name = "N/day")]
    pub(crate) budget: Option<PerTime>,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// See it work, without a network: keeps a copy of a small site of its own
///
/// Needs no network and no project. Two copies of the site are kept with the same budget:
/// one as springtide does it, one by polling every page equally often. The site itself
/// knows how fresh each copy truly is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide demo
  springtide demo --for 5m --pages 1000 --budget 50/s --keep /tmp/demo
  springtide demo --serve")]
pub(crate) struct Demo {
    /// For how long [default: 60s; with --serve, until stopped]
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) span: Option<PositiveSpan>,
    /// Run only springtide's own policy, with its dashboard
    #[arg(long, conflicts_with = "json")]
    pub(crate) serve: bool,
    /// Where the dashboard is [default: 127.0.0.1:7180]
    #[arg(long, value_name = "ADDRESS", requires = "serve")]
    pub(crate) listen: Option<String>,
    /// Pages of the site
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = pages)]
    pub(crate) pages: usize,
    /// Polls per time, for each of the two
    #[arg(long, value_name = "N/s", default_value = "30/s")]
    pub(crate) budget: PerTime,
    /// Where random numbers start
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Keep the projects in this folder, to look around
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn pages(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(pages @ 1..=20_000) => Ok(pages),
        _ => Err("from 1 to 20000".to_owned()),
    }
}

/// Add sources, and say what was found there
///
/// An address is a page, a sitemap or a feed, whichever it turns out to be; with
/// `--site` it is a site, whose sitemaps and links are followed. A file is a list: one
/// address a line, or CSV with the columns `url`, `weight` and `group`. Makes a project
/// where there is none.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide add https://docs.example.org/sitemap.xml --budget 2000/day
  springtide add --site https://example.org/ --name example
  springtide add urls.txt --dry-run
  springtide add pages.csv --map url=Address")]
pub(crate) struct Add {
    /// Addresses (of pages, sitemaps, feeds or a database), files with addresses, or names
    /// of search sources in springtide.toml
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
    /// They are sites: follow their sitemaps and links
    #[arg(long)]
    pub(crate) site: bool,
    /// They are of this kind, whatever they look like
    #[arg(long, value_enum, conflicts_with = "site")]
    pub(crate) kind: Option<AddKind>,
    /// What to call it [default: after its host or file]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// How much its freshness matters, relative to others
    #[arg(long, value_name = "W", value_parser = weight)]
    pub(crate) weight: Option<f64>,
    /// Polls per time for the whole project, as in 2000/day; written into
    /// springtide.toml
    #[arg(long, value_name = "N/day")]
    pub(crate) budget: Option<PerTime>,
    /// Only say what was found
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Columns of a file with other names: url=Address, weight=…, group=…
    #[arg(long, value_name = "COLUMN=NAME", value_delimiter = ',')]
    pub(crate) map: Vec<String>,
    /// A line of a file that cannot be used is an error, now and whenever it is read again
    #[arg(long)]
    pub(crate) strict: bool,
    /// Make no requests: write the source down as given
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) offline: bool,
    /// Print what was found as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) table: TableFlags,
    #[command(flatten)]
    pub(crate) http: HttpFlags,
}

/// How a database table is added
#[derive(Debug, Args)]
#[command(next_help_heading = "Tables (postgres:, mysql: or sqlite: addresses)")]
pub(crate) struct TableFlags {
    /// The table; without it, the tables that there are are listed
    #[arg(long, value_name = "TABLE")]
    pub(crate) table: Option<String>,
    /// Columns that are unique together [default: the primary key]
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub(crate) key: Vec<String>,
    /// A column that a change never lowers, such as updated_at
    #[arg(long, value_name = "COLUMN")]
    pub(crate) cursor: Option<String>,
    /// Where the password is: env:NAME or file:PATH
    #[arg(long, value_name = "PLACE")]
    pub(crate) password: Option<String>,
}

impl TableFlags {
    /// One that is given, if any is.
    pub(crate) fn flag(&self) -> Option<&'static str> {
        let flags = [
            ("--table", self.table.is_some()),
            ("--key", !self.key.is_empty()),
            ("--cursor", self.cursor.is_some()),
            ("--password", self.password.is_some()),
        ];
        flags
            .into_iter()
            .find_map(|(flag, is_given)| is_given.then_some(flag))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AddKind {
    /// One page
    Page,
    /// A sitemap, or an index of sitemaps
    Sitemap,
    /// A site: its sitemaps, or its links
    Site,
    /// A file with addresses
    List,
    /// A feed: RSS, Atom or JSON Feed
    Feed,
}

/// Remove sources, with their elements and what is known of them
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Their names
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print what was removed as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Give a source another name; all that is known of it stays
#[derive(Debug, Args)]
pub(crate) struct Rename {
    /// Its present name
    #[arg(value_name = "OLD")]
    pub(crate) old: String,
    /// Its new name
    #[arg(value_name = "NEW")]
    pub(crate) new: String,
    /// Print the new name as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// List sources or, with --elements, elements
///
/// With `--elements`: when each was last polled, when it will be and why, how often it
/// changes and is polled, how fresh its copy is. `--json` gives one object per element
/// and line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide ls
  springtide ls --elements docs --state failing
  springtide ls --elements --json")]
pub(crate) struct Ls {
    /// Only this source
    #[arg(value_name = "SOURCE")]
    pub(crate) source: Option<String>,
    /// List elements
    #[arg(long)]
    pub(crate) elements: bool,
    /// Only elements in this state
    #[arg(long, value_enum, requires = "elements")]
    pub(crate) state: Option<StateName>,
    /// Also sitemaps and other listings, which are polled but have no copy
    #[arg(long, requires = "elements")]
    pub(crate) listings: bool,
    /// In this order; with `-` before it, the other way round
    #[arg(
        long,
        value_name = "KEY",
        requires = "elements",
        allow_hyphen_values = true
    )]
    pub(crate) sort: Option<SortKey>,
    /// At most this many [default: 50 elements in a table, all as JSON]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Print JSON: a source, or an element, a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateName {
    /// Never polled
    New,
    /// The last poll was answered
    Ok,
    /// The last poll failed
    Failing,
    /// Disallowed by robots.txt
    Blocked,
    /// No longer there
    Gone,
}

/// Poll now: what is due, the elements that are named, or those in a state
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide poll
  springtide poll 17 https://docs.example.org/intro.html
  springtide poll --state failing")]
pub(crate) struct Poll {
    /// Elements by number or address, or all of a source by its name [default: what is
    /// due]
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// All elements in this state, of the sources that are named or of all
    #[arg(long, value_enum)]
    pub(crate) state: Option<StateName>,
    /// Print what was found as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// Keep the copy fresh until stopped
///
/// Ctrl-C is safe at any time. Every flag under "Settings" can also be set in
/// springtide.toml, or by a variable named after its key: SPRINGTIDE_BUDGET_POLLS for
/// budget.polls. A flag overrules a variable, and a variable overrules the file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide run
  springtide run --for 10m --budget 100/hour
  springtide run --once")]
pub(crate) struct Run {
    /// Stop after this time
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) span: Option<PositiveSpan>,
    /// Stop after this many polls
    #[arg(long, value_name = "N")]
    pub(crate) max_polls: Option<u64>,
    /// Poll what is due now, then stop; hosts that do not answer are given up on
    #[arg(long)]
    pub(crate) once: bool,
    /// As a service: SIGTERM ends it with exit code 0, SIGHUP reads springtide.toml again
    #[arg(long, conflicts_with = "once")]
    pub(crate) service: bool,
    /// How to report what happens, on standard error [default: changes and a status line
    /// on a terminal, else lines]
    #[arg(long, value_enum, value_name = "FORM")]
    pub(crate) log: Option<LogForm>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// Keep the copy fresh until stopped, with an API, a dashboard and metrics beside it
///
/// It is `run` and a server. SIGTERM ends it with exit code 0, SIGHUP reads springtide.toml
/// again. Beyond loopback it takes a token, `server.token` in springtide.toml. If another process runs
/// the project, it is read-only.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide serve
  springtide serve --listen 127.0.0.1:8080")]
pub(crate) struct Serve {
    /// Where to listen [default: 127.0.0.1:7180]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// How to report what happens, on standard error [default: changes and a status line
    /// on a terminal, else lines]
    #[arg(long, value_enum, value_name = "FORM")]
    pub(crate) log: Option<LogForm>,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// Test whether notices arrive
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide notify test https://hooks.example.org/x
  springtide notify test 1")]
pub(crate) struct Notify {
    #[command(subcommand)]
    pub(crate) what: NotifyWhat,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum NotifyWhat {
    /// Send a test notice
    Test {
        /// Which of the receivers: its `to` or part of it, or its number in the file
        name: String,
    },
}

/// How a run tells what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogForm {
    /// A line for each poll: time, outcome, status, size, duration, address
    Lines,
    /// A JSON object a line for each event
    Json,
}

/// Settings of the file that can be overruled.
#[derive(Debug, Clone, Args, Default)]
#[command(next_help_heading = "Settings")]
pub(crate) struct SettingFlags {
    /// Polls per time, as in 2000/day
    #[arg(long, value_name = "N/day")]
    pub(crate) budget: Option<PerTime>,
    /// No more polls than this in any span, as in 200/hour
    #[arg(long, value_name = "N/hour")]
    pub(crate) burst: Option<BurstLimit>,
    /// The hours of the day in which polls may be made, as in "22:00-06:00 UTC"
    #[arg(long, value_name = "FROM-TO")]
    pub(crate) window: Option<Hours>,
    /// The share of polls drawn at random, to measure freshness [default: 2%]
    #[arg(long, value_name = "SHARE")]
    pub(crate) audit: Option<Share>,
    /// Whether first polls of new elements count [default: free]
    #[arg(long, value_enum)]
    pub(crate) first_pass: Option<FirstPass>,
    /// The freshness to be reached, as in 95%
    #[arg(long, value_name = "RATIO")]
    pub(crate) target_freshness: Option<Share>,
    /// The age above which to warn, as in 12h
    #[arg(long, value_name = "SPAN")]
    pub(crate) warn_after: Option<PositiveSpan>,
    /// The age above which the target is missed, as in 2d
    #[arg(long, value_name = "SPAN")]
    pub(crate) error_after: Option<PositiveSpan>,
    /// What to optimise [default: freshness]
    #[arg(long, value_enum)]
    pub(crate) objective: Option<ObjectiveName>,
    /// How to spend the budget [default: learned]
    #[arg(long, value_enum)]
    pub(crate) policy: Option<Policy>,
    /// Poll every element at least this often, where the budget allows it [default: none]
    #[arg(long, value_name = "SPAN")]
    pub(crate) max_interval: Option<PositiveSpan>,
    /// The cycle of policies that poll in batches [default: 30d]
    #[arg(long, value_name = "SPAN")]
    pub(crate) cycle: Option<PositiveSpan>,
    /// An address that owners of servers can write to; goes into the user agent
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) contact: Option<String>,
    /// The longest that a request may take [default: 30s]
    #[arg(long, value_name = "SPAN")]
    pub(crate) timeout: Option<PositiveSpan>,
    /// The longest body, decoded [default: 10MB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_body: Option<Size>,
    /// Allow requests to private addresses: all, or those in these networks
    #[arg(
        long,
        value_name = "NETWORK,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) allow_private: Option<AllowPrivate>,
}

/// The settings that matter to a few requests.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Settings")]
pub(crate) struct HttpFlags {
    /// An address that owners of servers can write to; goes into the user agent
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) contact: Option<String>,
    /// The longest that a request may take [default: 30s]
    #[arg(long, value_name = "SPAN")]
    pub(crate) timeout: Option<PositiveSpan>,
    /// Allow requests to private addresses: all, or those in these networks
    #[arg(
        long,
        value_name = "NETWORK,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) allow_private: Option<AllowPrivate>,
}

impl HttpFlags {
    pub(crate) fn as_settings(&self) -> SettingFlags {
        SettingFlags {
            contact: self.contact.clone(),
            timeout: self.timeout,
            allow_private: self.allow_private.clone(),
            ..SettingFlags::default()
        }
    }
}

/// How fresh the copy is now, measured and predicted
///
/// Freshness is measured by audit polls, which are drawn at random; the true value lies in
/// the interval shown in nine of ten cases.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide status
  springtide status --check --json")]
pub(crate) struct Status {
    /// Exit with 4 if the target that springtide.toml sets is missed
    #[arg(long)]
    pub(crate) check: bool,
    /// Measure from then on: 2h, yesterday, 2026-05-01 [default: the last day, or as
    /// long as it takes to have a hundred audit polls]
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The changes found, newest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide log --since yesterday --kind changed
  springtide log --source docs --json --follow")]
pub(crate) struct Log {
    /// Only those found from then on: 2h, yesterday, 2026-05-01
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Only of this source
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Only of this element: its number or its address
    #[arg(long, value_name = "ID")]
    pub(crate) element: Option<String>,
    /// Only of these kinds
    #[arg(long, value_name = "KIND,…", value_enum, value_delimiter = ',')]
    pub(crate) kind: Vec<ChangeName>,
    /// Only of elements with this in their address
    #[arg(long, value_name = "TEXT")]
    pub(crate) grep: Option<String>,
    /// Oldest first, and then each as it is found, until stopped
    #[arg(long)]
    pub(crate) follow: bool,
    /// At most this many [default: 50 in a table, all as JSON]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// What happened to rows of tables, one by one
    #[arg(long, conflicts_with_all = ["follow", "element"])]
    pub(crate) rows: bool,
    /// Print one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What was found of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChangeName {
    /// It changed
    Changed,
    /// Its first copy
    Added,
    /// It is no longer there
    Gone,
    /// It is there again
    Back,
}

/// Print the copy of an element, the current one or an earlier one
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide cat https://docs.example.org/intro.html
  springtide cat 17 --at 2026-05-01")]
pub(crate) struct Cat {
    /// The element: its number or its address
    #[arg(value_name = "ELEMENT")]
    pub(crate) element: String,
    /// The copy that was held then: 2h (ago), yesterday, 2026-05-01
    #[arg(long, value_name = "WHEN")]
    pub(crate) at: Option<String>,
}

/// What changed between two versions of an element
///
/// Versions are numbered from 1, the first; without numbers the last two are compared.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide diff https://docs.example.org/intro.html
  springtide diff 17 3 5
  springtide diff 17 --versions")]
pub(crate) struct Diff {
    /// The element: its number or its address
    #[arg(value_name = "ELEMENT")]
    pub(crate) element: String,
    /// The version before [default: the one before B]
    #[arg(value_name = "A")]
    pub(crate) before: Option<u64>,
    /// The version after [default: the last]
    #[arg(value_name = "B")]
    pub(crate) after: Option<u64>,
    /// Only list the versions that there are
    #[arg(long, conflicts_with_all = ["before", "after"])]
    pub(crate) versions: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Import addresses from a file; no requests are made
///
/// The file has one address a line (blank lines and those that begin with `#` are
/// skipped) or is CSV with the columns `url`, `weight` and `group`, or without a header
/// and with addresses in one column; .gz and .zst files are unpacked. It becomes a source
/// of kind list, which does not need the file any more. A line that cannot be used is
/// left out and reported.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide import urls.txt
  springtide import pages.csv.gz --source shop --map url=Address")]
pub(crate) struct Import {
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The source that they go to, new or not [default: named after the file]
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Columns with other names: url=Address, weight=…, group=…
    #[arg(long, value_name = "COLUMN=NAME", value_delimiter = ',')]
    pub(crate) map: Vec<String>,
    /// A line that cannot be used is an error, and nothing is imported
    #[arg(long)]
    pub(crate) strict: bool,
    /// How much their freshness matters, relative to others
    #[arg(long, value_name = "W", value_parser = weight)]
    pub(crate) weight: Option<f64>,
    /// Print what was imported as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write out the copy, or what is known of its elements
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide export bodies copy/
  springtide export jsonl elements.jsonl
  springtide export csv elements.csv.gz")]
pub(crate) struct Export {
    /// What to write
    #[arg(value_enum, value_name = "FORM")]
    pub(crate) form: ExportForm,
    /// For bodies a folder; for rows the name of the table; else a file [default: standard
    /// output]
    #[arg(value_name = "TO")]
    pub(crate) to: Option<PathBuf>,
    /// The file for rows: .csv, .jsonl or .parquet [default: standard output, as CSV]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Name body files by source and number instead of by host and path
    #[arg(long)]
    pub(crate) flat: bool,
    /// Print what was written as JSON; needs a file or folder
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportForm {
    /// The copy: one file per element, laid out as on its host, and manifest.jsonl
    Bodies,
    /// Elements, one JSON object a line
    Jsonl,
    /// Elements as CSV (.gz, .zst or .parquet by the ending)
    Csv,
    /// The rows of a table
    Rows,
}

/// Check store and configuration; repair, back up, clear out
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Repair what can be repaired, and say what was done
    #[arg(long)]
    pub(crate) repair: bool,
    /// Write a copy of the store to this file first
    #[arg(long, value_name = "FILE")]
    pub(crate) back_up: Option<PathBuf>,
    /// Forget what `[retain]` does not keep, and remove unreferenced bodies
    #[arg(long)]
    pub(crate) gc: bool,
    /// Only say what --gc would remove
    #[arg(long, requires = "gc")]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a script that completes commands as they are typed
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// For which shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Write the manual pages into a folder
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Where to
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

fn weight(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(weight) if weight >= 0.0 && weight.is_finite() => Ok(weight),
        _ => Err("a weight is zero or more".into()),
    }
}
