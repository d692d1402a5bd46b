//! What may be typed.

pub(crate) mod project;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Deserialize;
use springtide_policy::plan::Rule;
use springtide_policy::query::Split;
use springtide_policy::{Objective, Order, Span, Window};

pub(crate) use project::SettingFlags;

use crate::units::{self, Pace};

/// Keeps a local copy of remote sources as fresh as a polling budget allows, and
/// says how fresh it is.
#[derive(Debug, Parser)]
#[command(name = "springtide", version, propagate_version = true)]
pub(crate) struct Cli {
    /// Say less: errors only
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = COMMON)]
    pub(crate) quiet: bool,
    /// Say more: every poll, what was read, how long each step took
    #[arg(short, long, global = true, help_heading = COMMON)]
    pub(crate) verbose: bool,
    /// Colour what is printed: auto, always or never [default: auto, which is on a
    /// terminal unless NO_COLOR is set]
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        hide_possible_values = true,
        help_heading = COMMON
    )]
    pub(crate) color: Option<ColourChoice>,
    /// The folder of the project [default: here, or the nearest folder above with a
    /// springtide.toml]
    #[arg(long, global = true, value_name = "DIR", help_heading = COMMON)]
    pub(crate) project: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every verb has.
const COMMON: &str = "Common flags";

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourChoice {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(project::Demo),
    Init(project::Init),
    Add(project::Add),
    Rm(project::Rm),
    Rename(project::Rename),
    Ls(project::Ls),
    Poll(project::Poll),
    Run(project::Run),
    Serve(project::Serve),
    Notify(project::Notify),
    Status(project::Status),
    Log(project::Log),
    Diff(project::Diff),
    Cat(project::Cat),
    Import(project::Import),
    Export(project::Export),
    Doctor(project::Doctor),
    Plan(Plan),
    Estimate(Estimate),
    Simulate(Simulate),
    Reproduce(Reproduce),
    Cover(Cover),
    Completions(project::Completions),
    Man(project::Man),
}

/// How often to poll each element, from a table of change rates and a budget
///
/// Files are CSV with a header, CSV compressed as .gz or .zst, or .parquet; `-` is
/// standard input or output. The table needs the columns `id` and `rate_per_day`,
/// and may have `weight`, `cost` and `group`. The plan has the columns `id`,
/// `frequency_per_day`, `freshness` and `age_days`, in the order of the input.
///
/// Without `--rates` it is the project's own plan, by the rates that its polls have
/// shown, and what other budgets would buy.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  springtide plan --rates rates.csv --budget 2000/day --out plan.csv
  springtide plan --rates rates.parquet --target-freshness 95% --out plan.parquet
  springtide plan --rates rates.csv --budget 2000/day --curve
  springtide plan --budget 5000/day")]
pub(crate) struct Plan {
    /// The elements and their change rates [default: those of the project]
    #[arg(long, value_name = "FILE")]
    pub(crate) rates: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) goal: Goal,
    /// What to optimise [default: freshness]
    #[arg(long, value_enum)]
    pub(crate) objective: Option<ObjectiveName>,
    /// How to share the budget [default: optimal; of a project, as its policy does]
    #[arg(long, value_enum)]
    pub(crate) policy: Option<PolicyName>,
    /// How the polls of one element are spaced; changes what a plan gives, not the
    /// plan
    #[arg(long, value_enum, default_value_t = OrderName::Fixed)]
    pub(crate) order: OrderName,
    /// The most each group may get: columns `group` and `budget_per_day`
    #[arg(long, value_name = "FILE")]
    pub(crate) caps: Option<PathBuf>,
    /// Poll every element at least this often, as in 12/year [default of a project: once in
    /// max_interval]
    #[arg(long, value_name = "N/year", value_parser = units::per_day)]
    pub(crate) floor: Option<f64>,
    /// Instead of a plan: what every policy would give, around the budget
    #[arg(long)]
    pub(crate) curve: bool,
    /// Where the plan goes [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print the summary as JSON on standard output; of a table of rates, needs --out
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
#[group(multiple = false)]
pub(crate) struct Goal {
    /// Polls (or cost) per time, all elements together, as in 2000/day
    #[arg(long, value_name = "N/day", value_parser = units::pace)]
    pub(crate) budget: Option<Pace>,
    /// Instead of a budget: the least that reaches this freshness, as in 95%
    #[arg(long, value_name = "RATIO", value_parser = units::ratio)]
    pub(crate) target_freshness: Option<f64>,
    /// Instead of a budget: the least that reaches this age, as in 12h; implies
    /// --objective age
    #[arg(long, value_name = "SPAN", value_parser = units::span)]
    pub(crate) target_age: Option<Span>,
}

/// How often each element changes, from what its polls showed
///
/// Files are CSV with a header, CSV compressed as .gz or .zst, or .parquet; `-` is
/// standard input or output. The table needs the columns `id`, `elapsed_days` (or
/// `timestamp`) and `changed` (0 or 1, or false or true), one row per poll, and may
/// have `changed_age_days` (how long before the poll the last change was) and
/// `group`. The result has the columns `id`, `n_polls`, `n_changes`, `rate_per_day`,
/// `low_per_day` and `high_per_day` (a 90 % interval), one row per id.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide estimate --observations polls.csv --out rates.csv
  springtide estimate --observations polls.csv | springtide plan --rates - --budget 500/day")]
pub(crate) struct Estimate {
    /// What the polls showed
    #[arg(long, value_name = "FILE")]
    pub(crate) observations: PathBuf,
    /// How to estimate
    #[arg(long, value_enum, default_value_t = Method::Bayes)]
    pub(crate) method: Method,
    /// Where the rates go [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print the rates as a JSON array on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// The numbers of the papers, computed again beside what was printed
///
/// Every table, figure, example, theorem and claim that has numbers: what the paper
/// says, what we compute, whether they agree, and where the paper errs. `--list`
/// names them. With `--json` there is one object per number: `paper`, `id`,
/// `quantity`, `printed`, `computed`, `agrees` and `note`; null is infinite or not
/// printed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide reproduce table-5 figure-9
  springtide reproduce --out papers/
  springtide reproduce --json")]
pub(crate) struct Reproduce {
    /// Which, as in table-5 or freshness/table-5 [default: all]
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// A recorded history for the figures that need one [default: a world made from
    /// a seed]
    #[arg(long, value_name = "DIR")]
    pub(crate) history: Option<PathBuf>,
    /// Also write each figure as SVG, its points as CSV, and a page with everything,
    /// index.html
    #[arg(long, value_name = "DIR", conflicts_with = "list")]
    pub(crate) out: Option<PathBuf>,
    /// Print the numbers as a JSON array
    #[arg(long)]
    pub(crate) json: bool,
    /// Only name what there is
    #[arg(long)]
    pub(crate) list: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ObjectiveName {
    /// The share of time that copies are fresh
    Freshness,
    /// The time since the first change that a copy has missed
    Age,
    /// The summed ages of all changes that a copy has missed
    Content,
}

impl From<ObjectiveName> for Objective {
    fn from(name: ObjectiveName) -> Self {
        match name {
            ObjectiveName::Freshness => Self::Freshness,
            ObjectiveName::Age => Self::Age,
            ObjectiveName::Content => Self::Content,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyName {
    /// The best for the objective
    Optimal,
    /// The same frequency for all
    Uniform,
    /// In proportion to the rates
    Proportional,
}

impl PolicyName {
    pub(crate) fn rule(self, objective: Objective) -> Rule {
        match self {
            Self::Optimal => Rule::Optimal(objective),
            Self::Uniform => Rule::Uniform,
            Self::Proportional => Rule::Proportional,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderName {
    /// Evenly
    Fixed,
    /// Once in every round, at any place in it
    Random,
    /// At any time
    PurelyRandom,
}

impl From<OrderName> for Order {
    fn from(name: OrderName) -> Self {
        match name {
            OrderName::Fixed => Self::Fixed,
            OrderName::Random => Self::Random,
            OrderName::PurelyRandom => Self::PurelyRandom,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// From what is usual in the group, corrected by every poll
    Bayes,
    /// The rate under which what was seen is most likely
    Likelihood,
    /// By how long ago the last change was, where that is known
    LastModified,
    /// By the share of polls without a change
    BiasReduced,
    /// Changes seen per time
    Naive,
}

/// How fresh each policy would keep a copy, in a world that changes
///
/// A world is a table of rates, whose elements change at random; a recorded history
/// of changes; or the parameters of a world whose elements change together, or of a
/// table of a database (`kind = "table"`). Every policy meets the same changes and has
/// the same budget. The first column of the table names the policy; with `--json` there
/// is one object per policy.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide simulate --rates rates.csv --policy uniform,optimal,learned --budget 2000/day
  springtide simulate --history history/ --pages alive --policy uniform,learned \\
      --budget 5000/day --warmup 240d --json
  springtide simulate --world world.toml --policy round-robin,sample-greedy --budget 500/day")]
pub(crate) struct Simulate {
    #[command(flatten)]
    pub(crate) world: WorldArgs,
    /// Which pages of a history [default: all that are there at some time]
    #[arg(long, value_enum)]
    pub(crate) pages: Option<Pages>,
    /// The policies to try
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        required = true,
        value_name = "NAME,…"
    )]
    pub(crate) policy: Vec<SimPolicy>,
    /// Polls (or cost) per time, all elements together, as in 2000/day; or several,
    /// each from a time on, as in 900/day,9000/day@100d
    #[arg(long, value_name = "N/day[@SPAN],…", value_parser = units::budgets)]
    pub(crate) budget: units::Budgets,
    /// What is held at the start: all copies, in sync, or none [default: all]
    #[arg(long, value_enum)]
    pub(crate) start: Option<StartName>,
    /// Whether the first pass of a cold start counts towards the budget [default:
    /// free]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) first_pass: Option<FirstPassName>,
    /// How long it lasts [default: the length of the history, or 365d]
    #[arg(long, value_parser = units::span)]
    pub(crate) span: Option<Span>,
    /// How much of the span, from its start, is not measured [default: nothing]
    #[arg(long, value_name = "SPAN", value_parser = units::span)]
    pub(crate) warmup: Option<Span>,
    /// Where random numbers start; the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How uniform, proportional and optimal space the polls of one element
    /// [default: fixed]
    #[arg(long, value_enum)]
    pub(crate) order: Option<OrderName>,
    /// Poll every element at least this often, where the budget allows it [default: none]
    #[arg(long, value_name = "SPAN", value_parser = units::span)]
    pub(crate) max_interval: Option<Span>,
    /// The hours of the day in which polls may be made, as in 22:00-06:00
    #[arg(long, value_name = "FROM-TO", value_parser = units::window)]
    pub(crate) window: Option<Window>,
    /// The most each group of a table of rates may get: columns `group` and
    /// `budget_per_day`
    #[arg(long, value_name = "FILE")]
    pub(crate) caps: Option<PathBuf>,
    /// The share of elements that tell when they last changed [default: none]
    #[arg(long, value_name = "SHARE", value_parser = units::ratio)]
    pub(crate) last_modified: Option<f64>,
    /// A listing that hints at changes: the share of hints that are true, the share
    /// of changes that are hinted at, and how late; as in 70%,60%,1h
    #[arg(long, value_name = "PRECISION,RECALL,DELAY", value_parser = units::hints)]
    pub(crate) hints: Option<Hints>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    /// Also by group, or by how often elements change
    #[arg(long, value_enum, value_name = "BY")]
    pub(crate) breakdown: Option<Breakdown>,
    /// Print one object per policy as a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct WorldArgs {
    /// Elements that change at random with given rates: a table as for `plan`
    #[arg(long, value_name = "FILE")]
    pub(crate) rates: Option<PathBuf>,
    /// A recorded history: a folder with sites.csv, pages.csv and changes.csv, plain,
    /// .gz or .zst
    #[arg(long, value_name = "DIR")]
    pub(crate) history: Option<PathBuf>,
    /// Parameters of a world whose elements change together, or of a table (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) world: Option<PathBuf>,
}

/// For the batch policies of the sampling paper.
#[derive(Debug, Args)]
pub(crate) struct SamplingArgs {
    /// Time from one batch to the next [default: 30d]
    #[arg(long, value_name = "SPAN", value_parser = units::span)]
    pub(crate) cycle: Option<Span>,
    /// Elements sampled of each site [default: chosen]
    #[arg(long, value_name = "N", value_parser = units::count::<u32>)]
    pub(crate) sample_size: Option<u32>,
    /// How sure sample-adaptive is before it decides [default: 0.9]
    #[arg(long, value_name = "SHARE", value_parser = units::ratio)]
    pub(crate) confidence: Option<f64>,
    /// Elements that sample-adaptive samples at a time [default: 10]
    #[arg(long, value_name = "N", value_parser = units::count::<u32>)]
    pub(crate) step: Option<u32>,
    /// What a sample costs, as a share of a poll [default: 1]
    #[arg(long, value_name = "SHARE", value_parser = units::ratio)]
    pub(crate) sample_cost: Option<f64>,
    /// The share of round-robin in round-robin-greedy [default: 30%]
    #[arg(long, value_name = "SHARE", value_parser = units::ratio)]
    pub(crate) share: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hints {
    pub(crate) precision: f64,
    pub(crate) recall: f64,
    pub(crate) delay: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StartName {
    /// All copies, in sync
    Warm,
    /// None: a first pass comes first, and copies count from when they are held
    Cold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FirstPassName {
    /// First polls do not count towards the budget, and are made at once
    Free,
    /// First polls are polls like any other
    Counted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pages {
    /// There at some time of the span
    All,
    /// There throughout
    Alive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Breakdown {
    /// By group: a site, or the group column
    Group,
    /// By how often elements change
    Rate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimPolicy {
    /// The same frequency for all
    Uniform,
    /// In proportion to the rates, which are known
    Proportional,
    /// The best plan for rates that are known
    Optimal,
    /// springtide's own: nothing is known at the start
    Learned,
    /// In batches: the longest unpolled first
    RoundRobin,
    /// In batches: by the changes in a sample of each site
    SampleProportional,
    /// In batches: the sites with most changes in a sample
    SampleGreedy,
    /// In batches: sampling until it is clear which sites
    SampleAdaptive,
    /// In batches: a share round-robin, the rest sample-greedy
    RoundRobinGreedy,
    /// In batches: by rates estimated from history
    Frequency,
    /// In batches: what has changed, as if that were known
    Oracle,
    /// Apache Nutch's adaptive schedule
    Nutch,
    /// Apache StormCrawler's adaptive scheduler
    #[value(name = "stormcrawler")]
    StormCrawler,
    /// Miniflux's entry frequency
    Miniflux,
    /// Every element after the same interval
    FixedInterval,
    /// Tables: learned, where the database tells of blocks that did not change
    #[value(name = "learned+digests")]
    LearnedDigests,
    /// Tables: learned, with a cursor
    #[value(name = "learned+cursor")]
    LearnedCursor,
    /// Tables: learned, with both
    #[value(name = "learned+digests+cursor")]
    LearnedDigestsCursor,
    /// Tables: all of it every night, whatever the budget
    FullCopy,
    /// Tables: the cursor and nothing else
    CursorOnly,
}

/// Which keyword queries refresh rows that can only be searched for
///
/// Files are CSV with a header, CSV compressed as .gz or .zst, or .parquet; `-` is
/// standard input or output. The table of rows needs the column `id` and the named
/// attributes, and may have `weight`, `rate_per_day` and `elapsed_days`. What is known
/// of the server is a table with the columns `term` and `count`, or `term_a`, `term_b`
/// and `count`, or a corpus with the same attributes. The result has the columns
/// `query`, `n_local`, `n_server`, `n_requests`, `gain` and `covered`, in order of
/// issue.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  springtide cover --rows papers.csv --attribute title --attribute authors:list \\
      --statistics terms.csv --statistics pairs.csv --server-rows 1000000 --out queries.csv
  springtide cover --rows papers.csv --attribute title --corpus dblp.csv.gz --scale 4.6")]
pub(crate) struct Cover {
    /// The rows to refresh
    #[arg(long, value_name = "FILE")]
    pub(crate) rows: PathBuf,
    /// A column to take terms from: its words, or with NAME:list what is between
    /// semicolons
    #[arg(long = "attribute", value_name = "NAME", required = true, value_parser = attribute)]
    pub(crate) attributes: Vec<Attribute>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// How many times larger than the corpus the server is [default: estimated from
    /// terms that are counted in both, or 1]
    #[arg(long, value_name = "N", requires = "corpus", value_parser = units::above_zero)]
    pub(crate) scale: Option<f64>,
    /// How many rows the server has in all
    #[arg(long, value_name = "N", value_parser = units::above_zero)]
    pub(crate) server_rows: Option<f64>,
    /// The most terms a query may have
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) max_terms: u8,
    /// Choose among the K most frequent terms of the rows not yet covered [default:
    /// all terms]
    #[arg(long, value_name = "K", value_parser = units::count::<u64>)]
    pub(crate) keywords: Option<u64>,
    /// Words to leave out, instead of the commonest English ones
    #[arg(long, value_name = "FILE")]
    pub(crate) stop_words: Option<PathBuf>,
    /// Results that come with one request
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = units::count::<u64>)]
    pub(crate) page_size: u64,
    /// The most results that the server gives to a query
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = units::count::<u64>)]
    pub(crate) top: u64,
    /// How much of an answer is read
    #[arg(long, value_enum, default_value_t = MethodName::AllPages)]
    pub(crate) method: MethodName,
    /// At most this many queries
    #[arg(long, value_name = "N", value_parser = units::count::<u64>)]
    pub(crate) max_queries: Option<u64>,
    /// At most this many requests, all queries together
    #[arg(long, value_name = "N", value_parser = units::count::<u64>)]
    pub(crate) max_requests: Option<u64>,
    /// Stop when this share of the rows is covered, as in 99%
    #[arg(long, value_name = "RATIO", value_parser = units::ratio)]
    pub(crate) coverage: Option<f64>,
    /// Stop when no query gains this much a request
    #[arg(long, value_name = "GAIN", value_parser = units::above_zero)]
    pub(crate) price: Option<f64>,
    /// What makes one query better than another
    #[arg(long, value_enum, default_value_t = EfficiencyName::Corrected)]
    pub(crate) efficiency: EfficiencyName,
    /// Where the queries go [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print the summary as JSON on standard output, and the queries to --out only
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct ServerArgs {
    /// How many rows of the server have a term, or a pair of terms; may be given more
    /// than once
    #[arg(long, value_name = "FILE")]
    pub(crate) statistics: Vec<PathBuf>,
    /// Rows like those of the server, with the same attributes
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: Option<PathBuf>,
}

/// A column that has terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) split: Split,
}

fn attribute(text: &str) -> Result<Attribute, String> {
    let (name, split) = match text.rsplit_once(':') {
        Some((name, "list")) => (name, Split::List),
        Some((name, "words")) => (name, Split::Words),
        _ => (text, Split::Words),
    };
    let name = name.trim().to_owned();
    if name.is_empty() {
        return Err("a column has a name".to_owned());
    }
    Ok(Attribute { name, split })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodName {
    /// All pages, as far as the server gives them
    AllPages,
    /// The first page only
    FirstPage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EfficiencyName {
    /// What is still to be gained, times the chance to get it, per request
    Corrected,
    /// What all its rows are worth per row of the server, as the content paper has it
    Published,
}

/// The name of a value as it is typed.
pub(crate) fn name_of(value: impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is hidden");
    value.get_name().to_owned()
}
