//! What the engine is told to do. Read from a file, variables and flags elsewhere;
//! here are plain values that have been checked.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use springtide_policy::query::Split;
pub use springtide_policy::query::staleness::Difference;
use springtide_policy::schedule::Custom;
use springtide_policy::{Objective, Span, Window};
use springtide_store::SourceKind;

use crate::source::list::ListColumns;
use crate::table::{DatabaseAddress, Relation};

/// Everything an engine has to know before it starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What may be spent.
    pub budget: BudgetSettings,
    /// How it is spent.
    pub policy: PolicySettings,
    /// How to ask.
    pub http: HttpSettings,
    /// Limits on hosts; the first that matches holds.
    pub groups: Vec<GroupRule>,
    /// What to keep a copy of.
    pub sources: Vec<SourceSettings>,
}

/// What may be spent.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetSettings {
    /// Polls a day.
    pub per_day: f64,
    /// No more polls than this in any span of this length, if set.
    pub burst: Option<Burst>,
    /// The hours in which polls may be made.
    pub window: Option<Window>,
    /// The share of polls that are drawn at random, to measure freshness.
    pub audit: f64,
    /// Whether first polls of new elements are counted.
    pub first_pass: FirstPass,
}

/// So many polls in any span of this length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// How many.
    pub n_polls: u32,
    /// In how long.
    pub span: Span,
}

/// Whether first polls of new elements count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstPass {
    /// They are limited by politeness alone.
    Free,
    /// They are polls like any other.
    Counted,
}

/// How the budget is spent.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySettings {
    /// Which policy.
    pub name: PolicyName,
    /// What it is to keep low.
    pub objective: Objective,
    /// Nothing waits longer.
    pub max_interval: Option<Span>,
    /// The cycle of policies that poll in batches.
    pub cycle: Span,
}

/// The policies that there are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say what they are")]
#[non_exhaustive]
pub enum PolicyName {
    Learned,
    Uniform,
    Proportional,
    Optimal,
    RoundRobin,
    SampleProportional,
    SampleGreedy,
    SampleAdaptive,
    RoundRobinGreedy,
    Frequency,
    Nutch,
    StormCrawler,
    Miniflux,
    FixedInterval,
    /// One that someone else has written. Rates are learned beside it, so that freshness
    /// can be told.
    Custom(Custom),
}

/// How to ask.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpSettings {
    /// Whom a server's owner can turn to; part of the user agent.
    pub contact: Option<String>,
    /// The longest that a request may take in all.
    pub timeout: std::time::Duration,
    /// The longest body, decoded.
    pub max_body: u64,
    /// Which private addresses may be asked for sources that do not say so themselves.
    pub allow_private: AllowPrivate,
}

/// Which private addresses may be asked.
#[derive(Debug, Clone, PartialEq)]
pub enum AllowPrivate {
    /// None.
    None,
    /// All.
    All,
    /// Those in these networks.
    Only(Vec<IpNet>),
}

/// A limit on hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRule {
    /// The hosts it is for: a name, or `*.` and a name.
    pub pattern: String,
    /// What makes hosts one group.
    pub key: GroupKey,
    /// The least time between two requests.
    pub gap: Span,
    /// Requests at a time.
    pub concurrency: u32,
}

/// What makes hosts one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupKey {
    /// Each host is a group.
    Host,
    /// All hosts of a registered domain are.
    Domain,
    /// All hosts that match are, by this name.
    Name(String),
}

/// Something to keep a copy of.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceSettings {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: SourceKind,
    /// Where it is: an address; for a list, empty.
    pub url: String,
    /// The file of a list.
    pub file: Option<PathBuf>,
    /// How the lines of that file are read.
    pub list: ListSettings,
    /// Whether it is not polled for now; what is kept of it stays.
    pub is_paused: bool,
    /// How much its elements matter.
    pub weight: f64,
    /// Its listing waits no longer than this.
    pub list_every: Option<Span>,
    /// What matters in its elements.
    pub keep: Vec<String>,
    /// What does not.
    pub drop: Vec<String>,
    /// No more elements than this.
    pub max_elements: u64,
    /// No more links away than this.
    pub max_depth: u16,
    /// What the entries of a feed are.
    pub entries: FeedEntries,
    /// Which private addresses may be asked for it, if not those that may be for all.
    pub allow_private: Option<AllowPrivate>,
    /// How it is asked and what it answers, if it is a search box.
    pub search: Option<SearchSettings>,
    /// How its database is asked, if it is a table.
    pub table: Option<TableSettings>,
    /// For how long what was found is kept.
    pub retain: Retain,
}

/// How the file of a list is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListSettings {
    /// How its columns are found, if it is CSV.
    pub columns: ListColumns,
    /// A line that cannot be used is an error, and nothing of the list is taken.
    pub is_strict: bool,
}

/// For how long what was found is kept. By default, for good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retain {
    /// Of each element the newest, so many.
    pub versions: Option<u32>,
    /// And none older.
    pub within: Option<Span>,
    /// Whether versions are kept with their bodies; else that of the current copy alone.
    pub keeps_bodies: bool,
    /// Single polls, so long.
    pub polls: Option<Span>,
}

impl Default for Retain {
    fn default() -> Self {
        Self {
            versions: None,
            within: None,
            keeps_bodies: true,
            polls: None,
        }
    }
}

/// What the entries of a feed are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FeedEntries {
    /// Their links are elements, polled like any page.
    #[default]
    Pages,
    /// They are elements themselves, which polls of the feed keep fresh.
    Content,
}

/// How a search box is asked, and what it answers.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSettings {
    /// What is sent, with `{query}` and `{page}` in it; nothing asks by GET.
    pub body: Option<String>,
    /// The file with our rows.
    pub rows: PathBuf,
    /// The columns that terms are taken from, and how.
    pub attributes: Vec<(String, Split)>,
    /// Results a page.
    pub page_size: u32,
    /// The number of the first page.
    pub first_page: u32,
    /// Results in all, at the most.
    pub top: u32,
    /// No more requests than this in any span of this length.
    pub quota: Option<Burst>,
    /// Where one row is, with `{id}` in it.
    pub by_id: Option<String>,
    /// A row that no query has returned for so long is asked for by its id.
    pub max_interval: Option<Span>,
    /// How long it is left alone after an answer that is none; twice as long after the
    /// next, and so on.
    pub pause: Span,
    /// Whether rows that are not ours become ours.
    pub adds_unknown: bool,
    /// Where in an answer things are.
    pub answer: AnswerShape,
    /// How wrong a stale row is.
    pub staleness: Option<Staleness>,
    /// Headers to ask with.
    pub headers: Headers,
}

/// Where in an answer things are, as JSON pointers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerShape {
    /// The results, a list.
    pub results: String,
    /// The id of a row, within it.
    pub id: String,
    /// How many results there are in all.
    pub total: Option<String>,
    /// The row, in the answer to a request by id.
    pub item: Option<String>,
    /// The fields of a row that are kept, by name, within it.
    pub fields: Vec<(String, String)>,
}

/// How wrong a stale row is.
#[derive(Debug, Clone, PartialEq)]
pub struct Staleness {
    /// The field that matters.
    pub field: String,
    /// How far two values of it are apart.
    pub difference: Difference,
    /// What a row counts.
    pub weight: RowWeight,
}

/// What a row counts.
#[derive(Debug, Clone, PartialEq)]
pub enum RowWeight {
    /// So much, each of them.
    Number(f64),
    /// What this field or column says.
    Column(String),
}

/// How a table of a database is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSettings {
    /// Where the database is.
    pub address: DatabaseAddress,
    /// What is asked for.
    pub relation: Relation,
    /// What to log in with.
    pub password: Password,
    /// The columns that are unique together; if none are named, those of the primary key.
    pub key: Vec<String>,
    /// A column that a change never lowers.
    pub cursor: Option<String>,
    /// How far behind the cursor a row may still appear.
    pub late: Duration,
    /// The columns that are kept; if none are named, all.
    pub columns: Vec<String>,
    /// Rows to an element, if someone has chosen.
    pub block: Option<u32>,
    /// Where the copy is.
    pub copy: PathBuf,
    /// The longest that a statement may take.
    pub timeout: Duration,
}

impl TableSettings {
    /// What the copy of the table is called, in a source of this name.
    pub fn copy_name<'a>(&'a self, source: &'a str) -> &'a str {
        match &self.relation {
            Relation::Table(parts) => parts.last().map_or(source, String::as_str),
            Relation::Query(_) => source,
        }
    }
}

/// What to log in with, if anything. It is not shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Password(pub Option<String>);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "set" } else { "none" })
    }
}

/// Headers to ask with. They may be secrets, and are not shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Headers(pub Vec<(String, String)>);

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}
