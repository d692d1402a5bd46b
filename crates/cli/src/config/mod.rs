//! `springtide.toml`, variables and flags in; settings out.
//!
//! A setting is what a flag says, else what a variable says (`SPRINGTIDE_BUDGET_POLLS`
//! for `budget.polls`), else what the file says, else the default. All are written the
//! same way. What is wrong is said with its line, its key and what to do about it.

mod complaint;
pub(crate) mod edit;
pub(crate) mod file;
mod merge;
mod notify;
mod search;
pub(crate) mod server;
pub(crate) mod table;
pub(crate) mod value;

use std::path::{Path, PathBuf};
use std::time::Duration;

use springtide_engine::detect::Lens;
use springtide_engine::register::ListColumns;
use springtide_engine::settings::{
    self, BudgetSettings, FeedEntries, GroupKey, GroupRule, HttpSettings, PolicySettings, Settings,
    SourceSettings,
};
use springtide_engine::view::{Target, redacted};
use springtide_policy::{Objective, Span};
use springtide_store::SourceKind;
use url::Url;

use crate::args::SettingFlags;
use crate::failure::{Failure, Outcome};
use crate::talk::Talk;
use crate::units::{Pace, PaceUnit};
use complaint::Text;
pub(crate) use complaint::nearest;
use value::{FirstPass, FromVariable, Policy};

/// The name of the file.
pub(crate) const FILE: &str = "springtide.toml";

/// Polls a day where nobody says how many: for one site, few enough to bother nobody.
pub(crate) const DEFAULT_BUDGET: f64 = 1000.0;
/// Of all polls, those that measure. One in fifty costs hardly any freshness, and
/// tells it to a few per cent within a day or two.
const DEFAULT_AUDIT: f64 = 0.02;
/// The longest that a request may take: far more than a server that works needs.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest body, in bytes: far more than pages have.
const DEFAULT_MAX_BODY: u64 = 10_000_000;
/// One request a second for each host.
const DEFAULT_GROUP_PER_DAY: f64 = 86_400.0;
/// Two requests at a time for each host.
const DEFAULT_CONCURRENCY: u32 = 2;
/// The sampling paper's.
const DEFAULT_CYCLE_DAYS: f64 = 30.0;
/// What a sitemap may list before somebody has to say that it is meant.
const DEFAULT_MAX_ELEMENTS: u64 = 100_000;
/// What following links may find: traps are endless.
const DEFAULT_MAX_SITE_ELEMENTS: u64 = 10_000;
/// How many links away a page may be.
const DEFAULT_MAX_DEPTH: u16 = 5;
/// The longest timeout: beyond a day, a hung request looks like a running one.
const LONGEST_TIMEOUT_DAYS: f64 = 1.0;

/// Everything that a project says.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// For the engine.
    pub(crate) settings: Settings,
    pub(crate) target: Target,
    /// What the budget was given by.
    pub(crate) budget_unit: PaceUnit,
    /// Where to listen, and who may come in.
    pub(crate) server: server::ServerConfig,
    /// Whom to tell what was found.
    pub(crate) notices: Vec<springtide_server::NoticeTarget>,
    /// Nobody said what may be spent.
    pub(crate) is_budget_assumed: bool,
    /// Secrets that cannot be had, and why: nothing is asked without them.
    missing_secrets: Vec<String>,
}

impl Config {
    /// The budget, in the unit that it was given in.
    pub(crate) fn budget(&self) -> Pace {
        Pace::of(self.settings.budget.per_day, self.budget_unit)
    }

    /// That everything is there that it takes to ask.
    pub(crate) fn check_secrets(&self) -> Outcome<()> {
        match self.missing_secrets.first() {
            Some(missing) => Err(Failure::input(format!("cannot use {FILE}"))
                .cause(missing)
                .hint("set the variable, or write the file, with one line and no more, before it runs")),
            None => Ok(()),
        }
    }
}

/// Reads the file of a project, the variables and the flags.
pub(crate) fn load(folder: &Path, flags: &SettingFlags, talk: Talk) -> Outcome<Config> {
    let path = folder.join(FILE);
    let content = std::fs::read_to_string(&path).map_err(|error| {
        let failure = Failure::input(format!("cannot read {}", path.display()));
        match error.kind() {
            std::io::ErrorKind::InvalidData => {
                failure.cause("it is not UTF-8").hint("save it as UTF-8")
            }
            _ => failure.cause(error),
        }
    })?;
    for name in unknown_variables(&content) {
        talk.say(name);
    }
    read(folder, &content, flags)
}

/// The same for a file that has this text.
pub(crate) fn read(folder: &Path, content: &str, flags: &SettingFlags) -> Outcome<Config> {
    let text = Text {
        name: folder.join(FILE).display().to_string(),
        content,
    };
    let mut file: file::File = toml::from_str(content).map_err(|error| text.refuse_toml(&error))?;
    overlay(&mut file, flags)?;
    resolve(file, folder, &text)
}

/// What holds where there is no file.
pub(crate) fn defaults(flags: &SettingFlags) -> Outcome<Config> {
    let mut file = file::File::default();
    overlay(&mut file, flags)?;
    let text = Text {
        name: FILE.to_owned(),
        content: "",
    };
    resolve(file, Path::new("."), &text)
}

/// A source about which nothing else is said.
pub(crate) fn source_with_defaults(
    name: String,
    kind: SourceKind,
    url: String,
    file: Option<PathBuf>,
    weight: Option<f64>,
) -> SourceSettings {
    SourceSettings {
        name,
        kind,
        url,
        file,
        list: settings::ListSettings::default(),
        is_paused: false,
        weight: weight.unwrap_or(1.0),
        list_every: None,
        keep: Vec::new(),
        drop: Vec::new(),
        max_elements: default_max_elements(kind),
        max_depth: DEFAULT_MAX_DEPTH,
        entries: FeedEntries::Pages,
        allow_private: None,
        search: None,
        table: None,
        retain: settings::Retain::default(),
    }
}

fn default_max_elements(kind: SourceKind) -> u64 {
    match kind {
        SourceKind::List | SourceKind::Table => u64::MAX,
        SourceKind::Site => DEFAULT_MAX_SITE_ELEMENTS,
        SourceKind::Page | SourceKind::Sitemap | SourceKind::Search | SourceKind::Feed => {
            DEFAULT_MAX_ELEMENTS
        }
    }
}

/// The keys that variables and flags can set, in one place.
macro_rules! overlay {
    ($file:ident, $flags:ident, $variables:ident: $($flag:ident => $table:ident $(. $key:ident)+;)*) => {
        /// Puts what flags and variables say over what the file says.
        fn overlay($file: &mut file::File, $flags: &SettingFlags) -> Outcome<()> {
            $(
                let path = concat!(stringify!($table) $(, ".", stringify!($key))+);
                if let Some(value) = &$flags.$flag {
                    $file.$table$(.$key)+ = Some(value.clone());
                } else if let Some(value) = variable(path)? {
                    $file.$table$(.$key)+ = Some(value);
                }
            )*
            Ok(())
        }

        /// The paths of the keys that variables can set.
        const $variables: &[&str] = &[
            $(concat!(stringify!($table) $(, ".", stringify!($key))+)),*
        ];
    };
}

overlay! {
    file, flags, VARIABLES:
    budget => budget.polls;
    burst => budget.burst;
    window => budget.window;
    audit => budget.audit;
    first_pass => budget.first_pass;
    target_freshness => target.freshness;
    warn_after => target.age.warn_after;
    error_after => target.age.error_after;
    objective => policy.objective;
    policy => policy.name;
    max_interval => policy.max_interval;
    cycle => policy.cycle;
    contact => http.contact;
    timeout => http.timeout;
    max_body => http.max_body;
    allow_private => http.allow_private;
}

/// `SPRINGTIDE_BUDGET_POLLS` for `budget.polls`.
fn variable_name(path: &str) -> String {
    format!("SPRINGTIDE_{}", path.replace('.', "_").to_uppercase())
}

fn variable<T: FromVariable>(path: &str) -> Outcome<Option<T>> {
    let name = variable_name(path);
    let Some(text) = std::env::var_os(&name) else {
        return Ok(None);
    };
    let text = text.to_string_lossy();
    if text.trim().is_empty() {
        return Ok(None);
    }
    let value = T::from_variable(&text);
    value.map(Some).map_err(|cause| {
        Failure::input(format!("cannot understand {name}"))
            .cause(format!("`{}`: {cause}", crate::table::shorten(&text)))
            .hint(format!("it is written as `{path}` in {FILE}"))
    })
}

/// Variables that look like ours and are not, in words. They are no error: another
/// version may know them.
fn unknown_variables(content: &str) -> Vec<String> {
    let mut known: Vec<String> = VARIABLES.iter().map(|path| variable_name(path)).collect();
    // Where tests have a run die.
    known.push("SPRINGTIDE_FAIL_POINT".to_owned());
    known.push(variable_name(server::LISTEN));
    // Secrets may be called whatever the file calls them.
    let is_named = |name: &String| content.contains(&format!("env:{name}"));
    let mut names: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("SPRINGTIDE_") && !known.contains(name))
        .filter(|name| !is_named(name))
        .collect();
    names.sort();
    let say = |name: String| match nearest(&name, known.iter().map(String::as_str)) {
        Some(near) => format!("warning: {name} is not a setting; did you mean {near}?"),
        None => format!("warning: {name} is not a setting"),
    };
    names.into_iter().map(say).collect()
}

/// Checks what goes together and fills in what was left out.
fn resolve(file: file::File, folder: &Path, text: &Text<'_>) -> Outcome<Config> {
    let budget = BudgetSettings {
        per_day: file
            .budget
            .polls
            .map_or(DEFAULT_BUDGET, |polls| polls.0.per_day()),
        burst: file.budget.burst.map(|burst| burst.0),
        window: file.budget.window.map(|window| window.0),
        audit: file.budget.audit.map_or(DEFAULT_AUDIT, |audit| audit.0),
        first_pass: match file.budget.first_pass {
            Some(FirstPass::Counted) => settings::FirstPass::Counted,
            Some(FirstPass::Free) | None => settings::FirstPass::Free,
        },
    };
    let cycle = match file.policy.cycle {
        Some(cycle) => cycle.0,
        None => days(DEFAULT_CYCLE_DAYS),
    };
    let policy = PolicySettings {
        name: file.policy.name.unwrap_or(Policy::Learned).into(),
        objective: file
            .policy
            .objective
            .map_or(Objective::Freshness, Into::into),
        max_interval: file.policy.max_interval.map(|span| span.0),
        cycle,
    };
    let target = Target {
        freshness: file.target.freshness.map(|freshness| freshness.0),
        warn_after: file.target.age.warn_after.map(|span| span.0),
        error_after: file.target.age.error_after.map(|span| span.0),
    };
    if let (Some(warn), Some(error)) = (target.warn_after, target.error_after)
        && warn > error
    {
        return Err(text
            .refuse()
            .cause("target.age: warn_after is longer than error_after")
            .hint("a warning comes before an error"));
    }
    let server = server::settings(file.server, folder, text)?;
    let http = http(file.http, text)?;
    let (notices, secrets) = notify::targets(file.notify, file.smtp.as_ref(), &http, folder, text)?;
    let mut groups = Vec::with_capacity(file.group.len());
    for group in file.group {
        let line = text.line(group.span().start);
        groups.push(group_rule(group.into_inner(), line, text)?);
    }
    let mut sources: Vec<_> = file.source.into_iter().collect();
    sources.sort_by_key(|(name, _)| name.span().start);
    let (mut polled, mut missing_secrets) = (Vec::new(), secrets);
    for (name, source) in sources {
        let line = text.line(name.span().start);
        let name = name.into_inner();
        let search = match source.kind {
            file::Kind::Search => {
                let read = search::settings(&source, folder, policy.max_interval);
                let (search, missing) = read.map_err(|(why, hint)| {
                    let cause = format!("line {line}: source.{name}: {why}");
                    text.refuse().cause(cause).hint(hint)
                })?;
                let missing = missing.iter().map(|why| format!("source.{name}: {why}"));
                missing_secrets.extend(missing);
                Some(search)
            }
            _ => None,
        };
        let table = match source.kind {
            file::Kind::Table => {
                let read = table::settings(&source, &name, folder);
                let (table, missing) = read.map_err(|(why, hint)| {
                    let cause = format!("line {line}: source.{name}: {why}");
                    text.refuse().cause(cause).hint(hint)
                })?;
                let missing = missing.iter().map(|why| format!("source.{name}: {why}"));
                missing_secrets.extend(missing);
                Some(table)
            }
            _ => None,
        };
        let retain = retain(source.retain, file.retain).map_err(|why| {
            let cause = format!("line {line}: source.{name}: {why}");
            text.refuse().cause(cause).hint("keep one version at least")
        })?;
        let settings = source_settings(name, source, line, folder, text)?;
        polled.push(SourceSettings {
            search,
            table,
            retain,
            ..settings
        });
    }
    let quotas = quotas(&polled).filter(|_| file.budget.polls.is_none());
    Ok(Config {
        settings: Settings {
            budget: BudgetSettings {
                per_day: quotas.unwrap_or(budget.per_day),
                ..budget
            },
            policy,
            http,
            groups,
            sources: polled,
        },
        target,
        budget_unit: (file.budget.polls)
            .map(|polls| polls.0.unit)
            .unwrap_or_default(),
        server,
        notices,
        is_budget_assumed: file.budget.polls.is_none() && quotas.is_none(),
        missing_secrets,
    })
}

/// What a source says, else what is said for all.
fn retain(own: file::Retain, all: file::Retain) -> Result<settings::Retain, String> {
    let versions = own.versions.or(all.versions);
    if versions == Some(0) {
        return Err("retain.versions is 0".into());
    }
    Ok(settings::Retain {
        versions,
        within: own.within.or(all.within).map(|span| span.0),
        keeps_bodies: own.bodies.or(all.bodies).unwrap_or(true),
        polls: own.polls.or(all.polls).map(|span| span.0),
    })
}

fn http(http: file::Http, text: &Text<'_>) -> Outcome<HttpSettings> {
    let timeout = match http.timeout {
        Some(timeout) if timeout.0.as_days() > LONGEST_TIMEOUT_DAYS => {
            return Err(text
                .refuse()
                .cause("http.timeout is longer than a day")
                .hint("seconds or minutes are usual, such as 30s"));
        }
        Some(timeout) => Duration::from_secs_f64(timeout.0.as_days() * 86_400.0),
        None => DEFAULT_TIMEOUT,
    };
    // It goes into a header.
    if let Some(contact) = &http.contact
        && (contact.chars().any(|c| c.is_control() || !c.is_ascii()) || contact.len() > 200)
    {
        return Err(text
            .refuse()
            .cause("http.contact is more than a short line of plain characters")
            .hint("give an address such as ops@example.org"));
    }
    let contact = http.contact.map(|contact| contact.trim().to_owned());
    Ok(HttpSettings {
        contact: contact.filter(|contact| !contact.is_empty()),
        timeout,
        max_body: http.max_body.map_or(DEFAULT_MAX_BODY, |size| size.0),
        allow_private: http
            .allow_private
            .map_or(settings::AllowPrivate::None, |allow| allow.0),
    })
}

fn group_rule(group: file::Group, line: usize, text: &Text<'_>) -> Outcome<GroupRule> {
    let refuse = |cause: String| text.refuse().cause(format!("line {line}: {cause}"));
    let pattern = group.pattern.trim().to_ascii_lowercase();
    let host = pattern.strip_prefix("*.").unwrap_or(&pattern);
    let is_host = !host.is_empty() && !host.contains(['*', '/', ' ']);
    // An address with colons is one of version 6; anything else with one has a port.
    let has_port = host.contains(':') && !host.contains("::") && host.matches(':').count() == 1;
    if pattern != "*" && (!is_host || has_port) {
        return Err(refuse(format!(
            "group.match is `{}`",
            crate::table::shorten(&group.pattern)
        ))
        .hint("it is a host without a port, such as docs.example.org, *.example.org or *"));
    }
    let concurrency = group.concurrency.unwrap_or(DEFAULT_CONCURRENCY);
    if concurrency == 0 {
        return Err(refuse("group.concurrency is 0".into())
            .hint("at least one request at a time is needed to poll at all"));
    }
    let key = match group.key.as_deref().unwrap_or("host") {
        "host" => GroupKey::Host,
        "domain" => GroupKey::Domain,
        "" => return Err(refuse("group.key is empty".into()).hint("host, domain or a name")),
        name => GroupKey::Name(name.to_owned()),
    };
    let per_day = group
        .rate
        .map_or(DEFAULT_GROUP_PER_DAY, |rate| rate.0.per_day());
    let gap = Span::days(1.0 / per_day)
        .map_err(|error| refuse(format!("group.rate: {error}")).hint("1/s is usual"))?;
    Ok(GroupRule {
        pattern,
        key,
        gap,
        concurrency,
    })
}

fn source_settings(
    name: String,
    source: file::Source,
    line: usize,
    folder: &Path,
    text: &Text<'_>,
) -> Outcome<SourceSettings> {
    let refuse = |cause: String| {
        text.refuse()
            .cause(format!("line {line}: source.{name}: {cause}"))
    };
    if let Err(why) = check_name(&name) {
        return Err(refuse(why).hint("letters, digits, `-`, `_` and `.` make a name"));
    }
    if source.kind != file::Kind::Search
        && let Some(key) = source.search_key()
    {
        return Err(refuse(format!("`{key}` is for search sources"))
            .hint("leave it out, or set kind = \"search\""));
    }
    if source.kind != file::Kind::Table
        && let Some(key) = source.table_key()
    {
        return Err(
            refuse(format!("`{key}` is for tables")).hint("leave it out, or set kind = \"table\"")
        );
    }
    let of_lists = [
        ("map", source.map.is_some()),
        ("strict", source.strict.is_some()),
    ];
    if let Some((key, _)) = of_lists.iter().find(|(_, is_set)| *is_set)
        && source.kind != file::Kind::List
    {
        return Err(
            refuse(format!("`{key}` is for lists")).hint("leave it out, or set kind = \"list\"")
        );
    }
    if source.kind != file::Kind::Feed && source.entries.is_some() {
        return Err(
            refuse("`entries` is for feeds".into()).hint("leave it out, or set kind = \"feed\"")
        );
    }
    let weight = source.weight.unwrap_or(1.0);
    if !(weight >= 0.0 && weight.is_finite()) {
        return Err(refuse(format!("weight is {weight}")).hint("a weight is zero or more"));
    }
    let kind = match source.kind {
        file::Kind::Page => SourceKind::Page,
        file::Kind::List => SourceKind::List,
        file::Kind::Sitemap => SourceKind::Sitemap,
        file::Kind::Site => SourceKind::Site,
        file::Kind::Search => SourceKind::Search,
        file::Kind::Feed => SourceKind::Feed,
        file::Kind::Table => SourceKind::Table,
    };
    let (url, file) = if kind == SourceKind::List {
        // Where there is neither, elements come by `import` only.
        let path = match (source.url, source.file) {
            (Some(_), Some(_)) => {
                return Err(
                    refuse("there is both `url` and `file`".into()).hint("a list is in one file")
                );
            }
            (path, None) | (None, path) => path,
        };
        if let Some(path) = &path
            && path.contains("://")
            && !path.starts_with("file://")
        {
            return Err(
                refuse(format!("the list is at `{path}`, which is not a file"))
                    .hint("a list is a file; for one page, set kind = \"page\""),
            );
        }
        let path = path.map(|path| folder.join(path.trim_start_matches("file://")));
        (String::new(), path)
    } else {
        if source.file.is_some() {
            return Err(refuse("`file` is for lists".into()).hint("give `url` instead"));
        }
        let Some(url) = source.url else {
            return Err(refuse("there is no `url`".into())
                .hint("say where it is, such as url = \"https://example.org/\""));
        };
        if matches!(kind, SourceKind::Search | SourceKind::Table) {
            // It has blanks that an address has not, or is one of a database.
            (url, None)
        } else {
            let url = address(&url).map_err(|why| {
                refuse(format!("url: {why}")).hint("an address begins with https:// or http://")
            })?;
            (url.to_string(), None)
        }
    };
    let map = source.map.unwrap_or_default();
    let list = settings::ListSettings {
        columns: list_columns(file.as_deref(), map),
        is_strict: source.strict.unwrap_or(false),
    };
    let max_elements = source
        .max_elements
        .unwrap_or_else(|| default_max_elements(kind));
    if max_elements == 0 {
        return Err(refuse("max_elements is 0".into()).hint("remove the source instead"));
    }
    if let Err(error) = Lens::new(&source.detect.keep, &source.detect.drop) {
        return Err(refuse(format!("detect: {error}"))
            .hint("CSS selectors are expected, or JSON pointers, which begin with `/`"));
    }
    Ok(SourceSettings {
        name,
        kind,
        url,
        file,
        list,
        is_paused: source.paused.unwrap_or(false),
        weight,
        list_every: source.list_every.map(|span| span.0),
        keep: source.detect.keep,
        drop: source.detect.drop,
        max_elements,
        max_depth: source.max_depth.unwrap_or(DEFAULT_MAX_DEPTH),
        entries: match source.entries {
            Some(file::Entries::Content) => FeedEntries::Content,
            Some(file::Entries::Pages) | None => FeedEntries::Pages,
        },
        allow_private: source.allow_private.map(|allow| allow.0),
        search: None,
        table: None,
        retain: settings::Retain::default(),
    })
}

/// How the columns of a list are found: a file whose name says that it is CSV is CSV, with
/// or without a header.
pub(crate) fn list_columns(file: Option<&Path>, map: file::ListMap) -> ListColumns {
    let name = file.map(|path| path.to_string_lossy().to_ascii_lowercase());
    let name = name.unwrap_or_default();
    let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
    let file::ListMap { url, weight, group } = map;
    ListColumns {
        is_csv: name.ends_with(".csv") || url.is_some() || weight.is_some() || group.is_some(),
        url,
        weight,
        group,
    }
}

/// Requests a day that search sources allow, if there is nothing else to spend a budget
/// on: who says how often a server may be asked has said what may be spent.
fn quotas(sources: &[SourceSettings]) -> Option<f64> {
    let per_day = |source: &SourceSettings| {
        let quota = source.search.as_ref()?.quota?;
        Some(f64::from(quota.n_polls) / quota.span.as_days())
    };
    let each: Option<Vec<f64>> = sources.iter().map(per_day).collect();
    each.filter(|each| !each.is_empty())
        .map(|each| each.iter().sum())
}

/// An address that can be polled, without a fragment.
pub(crate) fn address(text: &str) -> Result<Url, String> {
    let shown = crate::table::shorten(&redacted(text));
    let mut url = Url::parse(text.trim()).map_err(|error| format!("`{shown}`: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{shown}` is neither http nor https"));
    }
    if url.host().is_none() {
        return Err(format!("`{shown}` has no host"));
    }
    url.set_fragment(None);
    Ok(url)
}

/// That a source may be called so: it is typed, and part of paths.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    const MAX_NAME: usize = 100;
    let is_fine = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_fine) {
        return Err(format!(
            "`{}` is not a valid name",
            crate::table::shorten(name)
        ));
    }
    if name.starts_with(['.', '-']) {
        return Err("a name does not begin with `.` or `-`".into());
    }
    Ok(())
}

/// A path as it is written into the file: from the project's folder, where it lies in
/// it.
pub(crate) fn path_for_file(folder: &Path, path: &Path) -> PathBuf {
    let absolute = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (folder, path) = (absolute(folder), absolute(path));
    match path.strip_prefix(&folder) {
        Ok(inside) => inside.to_owned(),
        Err(_) => path,
    }
}

fn days(days: f64) -> Span {
    Span::days(days).unwrap_or(Span::ZERO)
}
