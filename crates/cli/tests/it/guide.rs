//! The guides, command by command.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use springtide_engine::origin::search::{Limit, Rates, SearchServer, SearchSettings, Trouble};
use springtide_engine::origin::{Behaviour, Origin, SiteSettings};
use springtide_policy::Rate;

use crate::{Place, repository};

#[test]
fn every_command_of_the_first_five_minutes_does_what_the_guide_says() {
    let (origin, place) = (docs(), Place::new());
    let mut reader = Reader {
        folder: place.path(""),
        // What takes a reader a minute need not take a test as long.
        instead: vec![
            ("https://docs.example.org", origin.url("")),
            (
                "springtide demo",
                "springtide demo --for 6s --pages 50".into(),
            ),
            ("--for 1m", "--for 2s".into()),
        ],
        // Every poll is an audit, so that freshness is measured in no time.
        settings: vec![("BUDGET_POLLS", "8640000/day"), ("BUDGET_AUDIT", "100%")],
        before: Box::new(|command| {
            if command.starts_with("springtide poll") {
                origin.script("/intro.html", page("Introduction", "two"));
            }
        }),
        is_quick: false,
    };
    let read = reader.read("first-five-minutes.md");
    // Should the guide be laid out anew, it is still read.
    assert!(read.n_commands >= 12, "{read:?}");
    assert!(read.n_settings >= 2, "{read:?}");
    assert!(!origin.requests().is_empty());
}

#[test]
fn every_command_of_the_search_guide_does_what_the_guide_says() {
    let (shop, place) = (shop(), Place::new());
    let catalogue = shop.catalogue();
    let ours = 0..200;
    let refused = Trouble::Refused {
        status: 429,
        retry_after: Some("1".into()),
    };
    std::fs::create_dir(place.path("shop")).unwrap();
    let rows = catalogue.csv(ours.clone(), SystemTime::now());
    std::fs::write(place.path("shop/rows.csv"), rows).unwrap();
    let mut reader = Reader {
        folder: place.path(""),
        instead: vec![
            ("http://127.0.0.1:8099", shop.url("")),
            ("~/", String::new()),
            // Everything ten times as fast.
            ("\"5/s\"", "\"50/s\"".into()),
            ("\"20/s\"", "\"200/s\"".into()),
            // Without audits, it is queries that are refused.
            ("--budget 20/s", "--budget 200/s --audit 0".into()),
            ("--for 2m", "--for 2s".into()),
            ("--for 10s", "--for 3s".into()),
        ],
        settings: vec![("BUDGET_POLLS", "40/s"), ("BUDGET_AUDIT", "20%")],
        before: Box::new(|command| {
            if command.contains("--for") || command.contains("poll") {
                ours.clone().for_each(|row| catalogue.change(row));
            }
            shop.behave();
            if command.contains("--budget") {
                // However slowly it is asked here, it is too much.
                shop.misbehave(refused.clone(), shop.n_requests() + 30..);
            }
        }),
        // The quota says how fast.
        is_quick: true,
    };
    let read = reader.read("search.md");
    assert!(read.n_commands >= 14, "{read:?}");
    assert!(read.n_settings >= 2, "{read:?}");
    let n_by_id = shop
        .requests()
        .iter()
        .filter(|r| r.path.starts_with("/item/"))
        .count();
    assert!(0 < n_by_id && n_by_id < shop.requests().len() / 2);
}

#[test]
fn every_command_of_the_feed_guide_does_what_the_guide_says() {
    let origin = Origin::start(SiteSettings {
        robots: Some(String::new()),
        ..SiteSettings::default()
    })
    .unwrap();
    let entry = |number: u32| {
        let path = format!("/{number}.html");
        origin.script(&path, page(&path, "one"));
        format!(
            "<item><guid isPermaLink=\"false\">urn:news:{number}</guid><title>Q & A</title>\
             <link>{}</link><pubDate>Mon, 04 May 2026 07:20:00 GMT</pubDate></item>",
            origin.url(&path)
        )
    };
    let entries: String = (1..=2).map(entry).collect();
    let feed =
        format!("<rss version=\"2.0\"><channel><title>News</title>{entries}</channel></rss>");
    origin.script("/feed.xml", Behaviour::body("application/rss+xml", feed));
    let place = Place::new();
    let mut reader = Reader {
        folder: place.path(""),
        instead: vec![("https://news.example.org", origin.url(""))],
        settings: vec![("BUDGET_POLLS", "100/s")],
        before: Box::new(|_| {}),
        is_quick: false,
    };
    let read = reader.read("feeds.md");
    assert!(read.n_commands >= 5, "{read:?}");
    assert!(read.n_settings >= 1, "{read:?}");
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
fn every_command_of_the_guide_to_tables_does_what_the_guide_says() {
    if Command::new("sqlite3").arg("--version").output().is_err() {
        eprintln!("left out: sqlite3 is not installed");
        return;
    }
    let place = Place::new();
    let mut reader = Reader {
        folder: place.path(""),
        instead: vec![("--for 20s", "--for 4s".into())],
        settings: vec![("BUDGET_POLLS", "50/s")],
        before: Box::new(|_| {}),
        is_quick: true,
    };
    let read = reader.read("tables.md");
    assert!(read.n_commands >= 12, "{read:?}");
}

#[test]
fn every_command_of_the_mirror_guide_does_what_the_guide_says() {
    let (origin, place) = (docs(), Place::new());
    let folder = origin.url("").replace("http://", "").replace(':', "_");
    let mut reader = Reader {
        folder: place.path(""),
        instead: vec![
            ("https://docs.example.org", origin.url("")),
            ("docs.example.org", folder),
            ("--for 1m", "--for 2s".into()),
        ],
        settings: vec![("BUDGET_POLLS", "8640000/day"), ("BUDGET_AUDIT", "100%")],
        before: Box::new(|command| {
            if command.contains("--for") {
                origin.script("/intro.html", page("Introduction", "two"));
            }
        }),
        is_quick: false,
    };
    let read = reader.read("mirror.md");
    assert!(read.n_commands >= 10, "{read:?}");
    let mirrored = place.path("docs/mirror/manifest.jsonl");
    assert_eq!(
        std::fs::read_to_string(mirrored).unwrap().lines().count(),
        12
    );
}

#[test]
fn every_command_of_the_archive_guide_does_what_the_guide_says() {
    let (origin, place) = (docs(), Place::new());
    // Nobody listens there.
    let dead = "127.0.0.2";
    let mut lines = vec!["Address,Topic".to_owned()];
    for name in ["a", "b", "c", "d", "e"] {
        let path = format!("/{name}.html");
        origin.script(&path, page(&path, "one"));
        lines.push(format!("{},history", origin.url(&path)));
    }
    lines.push(format!("{},history", origin.url("/missing.html")));
    lines.push(format!("http://{dead}:9/a.html,news"));
    lines.push("n/a,news".to_owned());
    std::fs::write(place.path("addresses.csv"), lines.join("\n")).unwrap();
    let mut reader = Reader {
        folder: place.path(""),
        instead: vec![
            ("https://one.example.org", origin.url("")),
            ("https://dead.example.org", format!("http://{dead}:9")),
            ("dead.example.org", dead.to_owned()),
            ("--for 1m", "--for 2s".into()),
        ],
        settings: vec![("BUDGET_POLLS", "8640000/day")],
        before: Box::new(|_| {}),
        is_quick: false,
    };
    let read = reader.read("archive.md");
    assert!(read.n_commands >= 12, "{read:?}");
}

#[test]
fn every_command_of_the_guide_to_plans_does_what_the_guide_says() {
    let place = Place::new();
    std::fs::create_dir(place.path("examples")).unwrap();
    for name in ["polls.csv", "rates.csv", "caps.csv"] {
        let from = repository().join("examples").join(name);
        std::fs::copy(from, place.path("examples").join(name)).unwrap();
    }
    let mut reader = Reader {
        folder: place.path(""),
        instead: Vec::new(),
        settings: Vec::new(),
        before: Box::new(|_| {}),
        is_quick: true,
    };
    let read = reader.read("plans.md");
    assert!(read.n_commands >= 9, "{read:?}");
}

/// Someone who does what a guide says, against a server on loopback.
struct Reader<'a> {
    folder: PathBuf,
    /// What is done instead of what the guide has.
    instead: Vec<(&'static str, String)>,
    /// Settings for all of it.
    settings: Vec<(&'static str, &'static str)>,
    /// What happens out there before a command is typed.
    before: Box<dyn Fn(&str) + 'a>,
    /// Whether the project asks loopback as fast as it can.
    is_quick: bool,
}

/// What there was to follow.
#[derive(Debug, Default)]
struct Followed {
    n_commands: usize,
    n_settings: usize,
}

impl Reader<'_> {
    /// Follows a guide from the beginning to the end.
    fn read(&mut self, guide: &str) -> Followed {
        let guide = repository().join("docs/guides").join(guide);
        let guide = std::fs::read_to_string(guide).unwrap();
        let mut followed = Followed::default();
        for block in blocks(&guide) {
            match block.language {
                "console" => {
                    for step in block.steps() {
                        self.follow(&step);
                        followed.n_commands += 1;
                    }
                }
                "toml" => {
                    self.set(&self.as_here(&block.lines.join("\n")));
                    followed.n_settings += 1;
                }
                "text" => {}
                other => panic!("nobody runs a block of {other}"),
            }
        }
        followed
    }

    /// Types a command, and compares what is seen with what the guide shows: all its
    /// words, whatever the numbers.
    fn follow(&mut self, step: &Step) {
        let command = self.as_here(step.command);
        if let Some(folder) = command.strip_prefix("cd ") {
            self.folder.push(folder);
            return;
        }
        (self.before)(&command);
        let fails = step.shown.iter().any(|line| line.starts_with("error:"));
        let seen = self.run(&command, if fails { 3 } else { 0 });
        for word in step.shown.iter().flat_map(|line| line.split_whitespace()) {
            let word = word.trim_end_matches([',', ';']);
            let is_word = word.chars().filter(|c| c.is_alphabetic()).count() > 3
                && !word.contains(|c: char| c.is_ascii_digit())
                // Which query it was depends on what was answered when.
                && !word.contains('"');
            let word = self.as_here(word);
            assert!(
                !is_word || seen.contains(&word),
                "`{command}` does not show `{word}`, but:\n{seen}"
            );
        }
        self.hurry();
    }

    fn run(&self, command: &str, code: i32) -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_springtide"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(program.parent().unwrap().to_owned())
            .chain(std::env::split_paths(&path));
        let mut shell = Command::new("sh");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SPRINGTIDE_") {
                shell.env_remove(name);
            }
        }
        if !command.contains("demo") {
            shell.env("SPRINGTIDE_HTTP_ALLOW_PRIVATE", "127.0.0.0/8");
            for (name, value) in &self.settings {
                shell.env(format!("SPRINGTIDE_{name}"), value);
            }
        }
        let output = shell
            .args(["-c", command])
            .current_dir(&self.folder)
            .env("PATH", std::env::join_paths(folders).unwrap())
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let seen = [output.stdout, output.stderr].concat();
        let seen = String::from_utf8(seen).unwrap();
        assert_eq!(output.status.code(), Some(code), "`{command}`:\n{seen}");
        seen
    }

    /// Adds something to the project's settings.
    fn set(&self, settings: &str) {
        let path = self.folder.join("springtide.toml");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, format!("{text}\n{settings}\n")).unwrap();
    }

    /// Once there is a project, it need not wait for a second between polls.
    fn hurry(&mut self) {
        if !self.is_quick && self.folder.join("springtide.toml").exists() {
            self.set("[[group]]\nmatch = \"127.0.0.1\"\nrate = \"200/s\"\nconcurrency = 4");
            self.is_quick = true;
        }
    }

    fn as_here(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (said, done) in &self.instead {
            text = text.replace(said, done);
        }
        text
    }
}

/// A fenced block of the guide.
struct Block<'a> {
    language: &'a str,
    lines: Vec<&'a str>,
}

/// A command, and the lines that it is said to show.
struct Step<'a> {
    command: &'a str,
    shown: Vec<&'a str>,
}

impl<'a> Block<'a> {
    fn steps(&self) -> Vec<Step<'a>> {
        let mut steps: Vec<Step<'a>> = Vec::new();
        for line in &self.lines {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step {
                    command,
                    shown: Vec::new(),
                }),
                (None, Some(step)) => step.shown.push(line),
                (None, None) => panic!("a block begins with a command, not with `{line}`"),
            }
        }
        steps
    }
}

fn blocks(guide: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for line in guide.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block {
                    language,
                    lines: Vec::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.lines.push(line),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block does not end");
    blocks
}

/// The documentation of something: twelve pages that change when they are told to.
fn docs() -> Origin {
    let origin = Origin::start(SiteSettings {
        robots: Some("User-agent: *\nDisallow: /private/\n".to_owned()),
        ..SiteSettings::default()
    })
    .unwrap();
    let mut paths = vec!["/intro.html".to_owned(), "/install.html".to_owned()];
    paths.extend((1..=10).map(|number| format!("/guide/{number}.html")));
    let entries: String = paths
        .iter()
        .map(|path| {
            let url = origin.url(path);
            format!("<url><loc>{url}</loc><lastmod>2026-05-01</lastmod></url>")
        })
        .collect();
    let sitemap = format!(
        "<?xml version=\"1.0\"?><urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\
         {entries}</urlset>"
    );
    origin.script("/sitemap.xml", Behaviour::body("application/xml", sitemap));
    for path in &paths {
        let title = if path == "/intro.html" {
            "Introduction"
        } else {
            path
        };
        origin.script(path, page(title, "one"));
    }
    origin
}

fn page(title: &str, version: &str) -> Behaviour {
    let html = format!(
        "<!doctype html><html><head><title>{title}</title></head><body><nav>Home</nav>\
         <main><h1>{title}</h1><p>Version {version} is the current one.</p></main></body></html>"
    );
    Behaviour::body("text/html", html)
}

/// The shop of the search guide, which allows ten times as much.
fn shop() -> SearchServer {
    let mean = Rate::per_day(100.0).unwrap();
    SearchServer::start(SearchSettings {
        n_rows: 500,
        rates: Rates::Drawn { mean },
        limit: Some(Limit {
            n: 50,
            span: Duration::from_secs(1),
        }),
        ..SearchSettings::default()
    })
    .unwrap()
}
