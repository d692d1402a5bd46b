//! `springtide add`: new sources, and what was found there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use springtide_engine::fetch::guard::is_public;
use springtide_engine::register::{Imported, ListColumns};
use springtide_engine::settings::{self, ListSettings, SourceSettings};
use springtide_engine::view::{kind_name, redacted};
use springtide_store::{Fact, Memory, Reader, SourceKind, Walk, Writer};
use toml_edit::{InlineTable, Value};
use url::Url;

use super::import::{self, Left, name_after};
use super::{PER_PAGE, Project, Shared, add_table, init};
use crate::args::SettingFlags;
use crate::args::project::{Add, AddKind};
use crate::columns::Colour;
use crate::config::edit::{Editor, NewSource};
use crate::config::table::is_database;
use crate::config::value::AllowPrivate;
use crate::config::{self, Config, DEFAULT_BUDGET, address, path_for_file};
use crate::failure::{Code, Failure, Outcome};
use crate::json::print_json;
use crate::live::{self, Found};
use crate::moment::brief;
use crate::table::{Unfinished, shorten, shorten_to};
use crate::talk::{Talk, count, plural};

pub(crate) fn run(
    args: &Add,
    named: Option<&Path>,
    talk: Talk,
    colour: Colour,
    unfinished: &Unfinished,
) -> Outcome<()> {
    if args.name.is_some() && args.urls.len() > 1 {
        return Err(Failure::input("--name is for one source")
            .cause(format!("{} are to be added", args.urls.len()))
            .hint("add them one by one"));
    }
    if args.urls.iter().any(|url| is_database(url)) {
        return add_table::run(args, named, talk, colour, unfinished);
    }
    if let Some(flag) = args.table.flag() {
        return Err(
            Failure::input(format!("{flag} is for tables of a database"))
                .hint("an address of one begins with postgres:, mysql: or sqlite:"),
        );
    }
    let flags = args.http.as_settings();
    let there = Project::look(named)?;
    let searches = match &there {
        Some(project) => project.config(&flags, talk)?.settings.sources,
        None => Vec::new(),
    };
    let meant = args
        .urls
        .iter()
        .map(|text| SourceArg::new(text, args, &searches))
        .collect::<Outcome<Vec<_>>>()?;
    let is_file = |meant: &SourceArg| matches!(meant, SourceArg::File(_));
    let of_files = [("--map", !args.map.is_empty()), ("--strict", args.strict)];
    if let Some((flag, _)) = of_files.iter().find(|(_, is_given)| *is_given)
        && !meant.iter().any(is_file)
    {
        return Err(Failure::input(format!("{flag} is for files of addresses"))
            .hint("leave it out; of an address, what is there says what it is"));
    }
    if there.is_some() || args.dry_run {
        return add(args, meant, there.as_ref(), None, talk, unfinished);
    }
    let folder = named.unwrap_or_else(|| Path::new("."));
    let budget = args.budget.map(|budget| budget.0.to_string());
    let had_store = folder.join(super::STORE).exists();
    let project = init::make(
        folder,
        budget.as_deref(),
        args.http.contact.as_deref(),
        unfinished,
    )?;
    let made = folder.join(config::FILE);
    let added = add(args, meant, Some(&project), Some(&made), talk, unfinished);
    let config = project.config(&SettingFlags::default(), Talk::Quiet)?;
    if added.is_err() && config.settings.sources.is_empty() {
        // What was made for nothing goes again.
        let _ = std::fs::remove_file(&made);
        if !had_store {
            let _ = std::fs::remove_dir_all(project.store_folder());
        }
    }
    added
}

/// Adds what is meant to a project, or says what would be added; the file of the project,
/// if it was just made.
fn add(
    args: &Add,
    meant: Vec<SourceArg>,
    project: Option<&Project>,
    made: Option<&Path>,
    talk: Talk,
    unfinished: &Unfinished,
) -> Outcome<()> {
    let flags = args.http.as_settings();
    let mut config = match project {
        Some(project) => project.config(&flags, talk)?,
        None => config::defaults(&flags)?,
    };
    let folder = project.map_or_else(|| Path::new("."), |project| &project.folder);
    // Looking at an address leaves a trace, so that it is polite; of a dry run in no
    // project it is forgotten.
    let nowhere = tempfile::tempdir()
        .map_err(|error| Failure::failed("cannot make a temporary folder").cause(error))?;
    let trace = project.map_or_else(|| nowhere.path(), |project| &project.folder);
    if args.dry_run {
        // What is there already need not be taken in again to say what is new.
        config.settings.sources.clear();
    }

    let (mut added, mut refused) = (Vec::new(), Vec::new());
    let mut names = Vec::new();
    for meant in meant {
        if let SourceArg::Search(source) = meant {
            // The file has it; its rows are still to be taken in.
            let known = &mut config.settings.sources;
            if known.iter().all(|known| known.name != source.name) {
                known.push((*source).clone());
            }
            added.push((*source, Found::default()));
            continue;
        }
        if let Some(name) = meant.known_as(&config) {
            talk.say(format!("{} is there already, as {name}", meant.shown()));
            names.push(name.to_owned());
            continue;
        }
        let mut source = meant.settings(args, &config, folder)?;
        let found = if args.offline || source.kind == SourceKind::List {
            Found::default()
        } else {
            let looking = talk.progress("looking", None);
            let found = live::inspect(trace, &config.settings, &source);
            drop(looking);
            match found {
                Ok(found) => found,
                Err(failure) if failure.code() == Code::SomeFailed => {
                    refused.push(failure);
                    continue;
                }
                Err(failure) => return Err(failure),
            }
        };
        if let (Some(kind), None, false) = (found.kind, args.kind, args.site) {
            source.kind = kind;
        }
        config.settings.sources.push(source.clone());
        added.push((source, found));
    }
    if added.is_empty() && !refused.is_empty() {
        return Err(all_refused(refused));
    }
    let mut store: Box<dyn Writer> = match project {
        Some(project) if !args.dry_run => Box::new(project.write()?),
        _ => Box::new(Memory::new()),
    };
    let reconciled = match project {
        Some(project) => project.reconcile(&mut *store, &config, talk)?,
        None => Project {
            folder: PathBuf::from("."),
        }
        .reconcile(&mut *store, &config, talk)?,
    };
    let new: Vec<&str> = added
        .iter()
        .map(|(source, _)| source.name.as_str())
        .collect();
    let mut failed = reconciled.failed.iter();
    if let Some((name, cause)) = failed.find(|(name, _)| new.contains(&name.as_str())) {
        forget(&mut *store, &new)?;
        let is_search = |(source, _): &(SourceSettings, _)| {
            source.name == *name && source.kind == SourceKind::Search
        };
        let expected = match added.iter().any(is_search) {
            true => "CSV with a header, a column `id`, and those of `attributes`",
            false if args.strict => "correct or drop the line, or leave out --strict",
            false => import::EXPECTED,
        };
        return Err(Failure::input(format!("cannot add {name}"))
            .cause(shorten_to(cause, 300))
            .hint(format!("{expected}; nothing was added")));
    }
    if let (Some(project), false) = (project, args.dry_run) {
        let private = match &args.http.allow_private {
            None | Some(AllowPrivate(settings::AllowPrivate::None)) => Vec::new(),
            Some(AllowPrivate(settings::AllowPrivate::Only(networks))) => {
                networks.iter().map(ToString::to_string).collect()
            }
            Some(AllowPrivate(settings::AllowPrivate::All)) => {
                // Also of those that were there: whoever reads that a private address was
                // not asked gives the flag with the same words as before.
                names.extend(new.into_iter().map(ToOwned::to_owned));
                let hosts = hosts(project, &*store, &names)?;
                private_addresses(&hosts, talk)
            }
        };
        let mut editor = Editor::open(&project.folder)?;
        if let Some(budget) = args.budget {
            editor.set_budget(&budget.0.to_string())?;
        }
        if let Some(contact) = &args.http.contact {
            editor.set_contact(contact)?;
        }
        editor.allow_private(&private)?;
        let new = added.iter().filter(|(source, _)| source.search.is_none());
        for (source, _) in new {
            editor.add_source(&NewSource {
                name: source.name.clone(),
                kind: kind_name(source.kind),
                url: source.file.is_none().then(|| source.url.clone()),
                file: source.file.as_ref().map(|path| {
                    let path = path_for_file(&project.folder, path);
                    path.display().to_string()
                }),
                weight: args.weight,
                others: match source.file {
                    Some(_) => of_list(&source.list),
                    None => Vec::new(),
                },
            })?;
        }
        editor.write(&project.folder, unfinished)?;
    }
    let known = store.sources().unwrap_or_default();
    drop(store);
    let of_name = |name: &str| {
        let mut imported = reconciled.imported.iter();
        imported
            .find(|(of, _)| of == name)
            .map(|(_, imported)| imported)
    };
    let rows: Vec<Row> = added
        .into_iter()
        .map(|(source, found)| {
            let known = known.iter().find(|known| known.name == source.name);
            let n_listed = known
                .filter(|known| {
                    let names_more = [SourceKind::Sitemap, SourceKind::Site, SourceKind::Feed];
                    !names_more.contains(&known.kind)
                })
                .map(|known| known.totals.n_elements);
            Row::new(&source, found, n_listed, of_name(&source.name))
        })
        .collect();
    if let Some(file) = made {
        talk.say(format!("made {}", file.display()));
    }
    if args.json {
        print_json(&rows)?;
    } else {
        for row in &rows {
            row.say(args.dry_run, talk);
            if let Some(imported) = of_name(&row.name) {
                import::tell_left_out(imported, talk);
            }
        }
        if let (Some(project), false) = (project, args.dry_run) {
            let config = project.config(&SettingFlags::default(), Talk::Quiet)?;
            Shared::warn(project, &config, talk)?;
        }
        if !rows.is_empty() && !args.dry_run {
            if config.is_budget_assumed && args.budget.is_none() {
                talk.say(format!("no budget is set; {DEFAULT_BUDGET}/day is assumed"));
            }
            talk.say("next: `springtide run`");
        }
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(all_refused(refused)),
    }
}

/// How a list is read, as the file says it; nothing if it is the usual way.
fn of_list(list: &ListSettings) -> Vec<(&'static str, Value)> {
    let ListColumns {
        url, weight, group, ..
    } = &list.columns;
    let columns = [("url", url), ("weight", weight), ("group", group)];
    let mut map = InlineTable::new();
    for (column, name) in columns {
        if let Some(name) = name {
            map.insert(column, name.as_str().into());
        }
    }
    let mut others = Vec::new();
    if !map.is_empty() {
        others.push(("map", map.into()));
    }
    if list.is_strict {
        others.push(("strict", true.into()));
    }
    others
}

/// What could not be fetched, and so was not added.
fn all_refused(mut refused: Vec<Failure>) -> Failure {
    if refused.len() == 1 {
        return refused.remove(0);
    }
    let few = refused.iter().take(MOST_REFUSED).map(Failure::in_a_line);
    let more = match refused.len().saturating_sub(MOST_REFUSED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let n = count(refused.len());
    let what = format!("{n} addresses could not be fetched, and were not added");
    Failure::new(Code::SomeFailed, what)
        .cause(format!("{}{more}", few.collect::<Vec<_>>().join("; ")))
        .hint("check them; --offline adds them without fetching")
}

/// An address of each host that these sources have: their own, or those of a list.
fn hosts(
    project: &Project,
    store: &dyn Reader,
    names: &[String],
) -> Outcome<BTreeMap<String, Url>> {
    let refuse = |error| project.refuse(&error);
    let mut hosts = BTreeMap::new();
    let mut take = |locator: &str| {
        if let Ok(url) = address(locator)
            && hosts.len() < MOST_HOSTS
        {
            let host = url.host_str().unwrap_or_default().to_owned();
            hosts.entry(host).or_insert(url);
        }
    };
    let sources = store.sources().map_err(refuse)?.into_iter();
    for source in sources.filter(|source| names.contains(&source.name)) {
        take(&source.url);
        if source.kind == SourceKind::List {
            let mut walk = Walk::new(Some(source.id), PER_PAGE);
            while let Some(page) = walk.next(store).map_err(refuse)? {
                page.iter().for_each(|kept| take(&kept.element.locator));
            }
        }
    }
    Ok(hosts)
}

/// The private ones among the addresses that hosts are at.
fn private_addresses(hosts: &BTreeMap<String, Url>, talk: Talk) -> Vec<String> {
    let looking = talk.progress("looking up hosts", Some(hosts.len() as u64));
    let mut addresses = Vec::new();
    for url in hosts.values() {
        let resolved = url.socket_addrs(|| None).unwrap_or_default();
        let private = resolved
            .into_iter()
            .filter(|address| !is_public(address.ip()));
        addresses.extend(private.map(|address| address.ip().to_string()));
        looking.advance(1);
    }
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Hosts of a list that are looked up for `--allow-private`: whoever has more of them in a
/// network of their own names the network.
const MOST_HOSTS: usize = 1000;

/// Failures that are told one by one.
const MOST_REFUSED: usize = 5;

/// Takes new sources out of the store again.
fn forget(store: &mut dyn Writer, names: &[&str]) -> Outcome<()> {
    let cannot = |error: springtide_store::Error| {
        Failure::failed("cannot use the store").cause(super::causes(&error))
    };
    let sources = store.sources().map_err(cannot)?;
    let gone: Vec<Fact> = sources
        .iter()
        .filter(|source| names.contains(&source.name.as_str()))
        .map(|source| Fact::SourceRemoved(source.id))
        .collect();
    store.commit(&gone).map_err(cannot)
}

/// What was typed, understood.
enum SourceArg {
    Url(Url),
    File(PathBuf),
    /// A search source that the file has.
    Search(Box<SourceSettings>),
}

impl SourceArg {
    fn new(text: &str, args: &Add, known: &[SourceSettings]) -> Outcome<Self> {
        let is_meant = |source: &&SourceSettings| source.search.is_some() && source.name == text;
        if let Some(source) = known.iter().find(is_meant) {
            return Ok(Self::Search(Box::new(source.clone())));
        }
        let path = Path::new(text.strip_prefix("file://").unwrap_or(text));
        let refuse = |cause: String| {
            Failure::input(format!("cannot add {}", shorten(&redacted(text)))).cause(cause)
        };
        if args.kind == Some(AddKind::List) || path.is_file() {
            if !path.is_file() {
                return Err(refuse("there is no such file".to_owned()).hint("check the path"));
            }
            if args.site {
                return Err(refuse("it is a file, not a site".to_owned())
                    .hint("leave out --site; a file is a list of addresses"));
            }
            return Ok(Self::File(path.to_owned()));
        }
        if !text.contains("://") {
            return Err(refuse("it is neither an address nor a file".to_owned())
                .hint(format!("for an address, write https://{}", shorten(text))));
        }
        address(text)
            .map(Self::Url)
            .map_err(|why| refuse(why).hint("an address begins with https:// or http://"))
    }

    fn shown(&self) -> String {
        match self {
            Self::Url(url) => shorten_to(&redacted(url.as_str()), 200),
            Self::File(path) => path.display().to_string(),
            Self::Search(source) => source.name.clone(),
        }
    }

    /// The source that is the same, if there is one.
    fn known_as<'a>(&self, config: &'a Config) -> Option<&'a str> {
        let same = |source: &&SourceSettings| match (self, &source.file) {
            (Self::Url(url), None) => source.url == url.as_str(),
            (Self::File(path), Some(known)) => {
                let whole = |path: &Path| std::fs::canonicalize(path).ok();
                whole(path).is_some() && whole(path) == whole(known)
            }
            _ => false,
        };
        let known = config.settings.sources.iter().find(same);
        known.map(|source| source.name.as_str())
    }

    fn settings(&self, args: &Add, config: &Config, folder: &Path) -> Outcome<SourceSettings> {
        let taken = |name: &str| {
            config
                .settings
                .sources
                .iter()
                .any(|source| source.name == name)
        };
        let name = match &args.name {
            Some(name) => {
                config::check_name(name).map_err(|why| {
                    Failure::input("bad --name")
                        .cause(why)
                        .hint("letters, digits, `-`, `_` and `.` make a name")
                })?;
                if taken(name) {
                    return Err(Failure::input(format!("there is a source {name} already"))
                        .hint("give another --name"));
                }
                name.clone()
            }
            None => {
                let base = self.name();
                let numbered = (2..).map(|n| format!("{base}-{n}"));
                let mut names = std::iter::once(base.clone()).chain(numbered);
                names.find(|name| !taken(name)).unwrap_or_default()
            }
        };
        let kind = match (self, args.kind) {
            (Self::File(_), _) => SourceKind::List,
            (Self::Search(_), _) => SourceKind::Search,
            (Self::Url(_), Some(AddKind::Site)) => SourceKind::Site,
            (Self::Url(_), _) if args.site => SourceKind::Site,
            (Self::Url(_), Some(AddKind::Sitemap)) => SourceKind::Sitemap,
            (Self::Url(_), Some(AddKind::Page)) => SourceKind::Page,
            (Self::Url(_), Some(AddKind::Feed)) => SourceKind::Feed,
            (Self::Url(url), _) => kind_by_name(url),
        };
        let (url, file) = match self {
            Self::Url(url) => (url.to_string(), None),
            Self::Search(source) => (source.url.clone(), None),
            Self::File(path) => {
                // From the project's folder, as the file will have it.
                let path = folder.join(path_for_file(folder, path));
                (String::new(), Some(path))
            }
        };
        let list = ListSettings {
            columns: config::list_columns(file.as_deref(), import::map(&args.map)?),
            is_strict: args.strict,
        };
        let source = config::source_with_defaults(name, kind, url, file, args.weight);
        Ok(SourceSettings { list, ..source })
    }

    /// What it is called unless somebody says otherwise: its host, or its file.
    fn name(&self) -> String {
        let name = match self {
            Self::Url(url) => {
                let host = url.host_str().unwrap_or("source");
                let host = host.strip_prefix("www.").unwrap_or(host);
                let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
                let host: String = host.chars().map(plain).collect();
                host.trim_matches('-').to_owned()
            }
            Self::File(path) => name_after(path),
            Self::Search(source) => source.name.clone(),
        };
        if name.is_empty() {
            "source".to_owned()
        } else {
            name
        }
    }
}

/// What an address looks like before it has been asked.
fn kind_by_name(url: &Url) -> SourceKind {
    let name = url
        .path()
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let is_listing = name.contains("sitemap") && (name.ends_with(".xml") || name.ends_with(".txt"));
    if is_listing || url.path().ends_with("/sitemap") {
        SourceKind::Sitemap
    } else {
        SourceKind::Page
    }
}

/// What is said of a new source.
#[derive(Serialize)]
struct Row {
    name: String,
    kind: &'static str,
    url: String,
    #[serde(flatten)]
    found: Found,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_left_out: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<Vec<Left>>,
}

impl Row {
    fn new(
        source: &SourceSettings,
        mut found: Found,
        n_listed: Option<u64>,
        imported: Option<&Imported>,
    ) -> Self {
        let imported = imported.filter(|_| source.kind == SourceKind::List);
        found.n_elements = found.n_elements.or(n_listed);
        let place = source.file.as_ref().map(|path| path.display().to_string());
        Self {
            name: source.name.clone(),
            kind: kind_name(source.kind),
            url: place.unwrap_or_else(|| redacted(&source.url).into_owned()),
            found,
            n_left_out: imported.map(|imported| imported.n_bad),
            left_out: imported.map(import::left_out),
        }
    }

    fn say(&self, is_dry: bool, talk: Talk) {
        let would = if is_dry { "would add" } else { "added" };
        let url = shorten_to(&self.url, 200);
        talk.say(format!("{would} {} ({}): {url}", self.name, self.kind));
        let line = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                talk.say(format!("  {name:12}{value}"));
            }
        };
        let found = &self.found;
        let first_pass = found.first_pass_seconds.filter(|seconds| *seconds >= 1.0);
        let some = |texts: &[&str]| (!texts.is_empty()).then(|| texts.join(", "));
        let n_listings = found.n_listings.filter(|n| *n > 0);
        let named = match (found.n_elements, n_listings) {
            (Some(0), Some(n)) => Some(format!("named by {}", plural(n, "further listing"))),
            (Some(m), Some(n)) => Some(format!(
                "{}, and those of {}",
                count(m as usize),
                plural(n, "further listing")
            )),
            (n_elements, _) => n_elements.map(|n| count(n as usize)),
        };
        line("elements", named);
        line("robots.txt", found.robots.map(str::to_owned));
        line("crawl-delay", found.crawl_delay_seconds.map(brief));
        line("validators", some(&found.validators));
        line("hints", some(&found.hints));
        line(
            "first pass",
            first_pass.map(|s| format!("about {}", brief(s))),
        );
    }
}
