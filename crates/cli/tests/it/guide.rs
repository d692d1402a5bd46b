//! The guide for the first five minutes, command by command.

use std::path::{Path, PathBuf};
use std::process::Command;

use springtide_engine::origin::{Behaviour, Origin, SiteSettings};

use crate::{Place, repository};

/// The site that the guide keeps a copy of.
const SITE: &str = "https://docs.example.org";

/// What takes a reader a minute need not take a test as long.
const SHORTER: [(&str, &str); 2] = [
    ("springtide demo", "springtide demo --for 6s --pages 50"),
    ("--for 1m", "--for 2s"),
];

#[test]
fn every_command_of_the_guide_does_what_the_guide_says() {
    let guide = repository().join("docs/guides/first-five-minutes.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (origin, place) = (docs(), Place::new());
    let mut reader = Reader {
        folder: place.path(""),
        origin: &origin,
        is_quick: false,
    };
    let (mut n_commands, mut n_settings) = (0, 0);
    for block in blocks(&guide) {
        match block.language {
            "console" => {
                for step in block.steps() {
                    reader.follow(&step);
                    n_commands += 1;
                }
            }
            "toml" => {
                reader.set(&block.lines.join("\n"));
                n_settings += 1;
            }
            "text" => {}
            other => panic!("nobody runs a block of {other}"),
        }
    }
    // Should the guide be laid out anew, it is still read.
    assert!(n_commands >= 12, "only {n_commands} commands were found");
    assert!(n_settings >= 2, "only {n_settings} settings were found");
    assert!(!origin.requests().is_empty());
}

/// Someone who does what the guide says, against an origin on loopback.
struct Reader<'a> {
    folder: PathBuf,
    origin: &'a Origin,
    /// Whether the project asks loopback as fast as it can.
    is_quick: bool,
}

impl Reader<'_> {
    /// Types a command, and compares what is seen with what the guide shows: all its
    /// words, whatever the numbers.
    fn follow(&mut self, step: &Step) {
        if let Some(folder) = step.command.strip_prefix("cd ") {
            self.folder.push(folder);
            return;
        }
        if step.command.starts_with("springtide poll") {
            self.origin
                .script("/intro.html", page("Introduction", "two"));
        }
        let mut command = self.at_origin(step.command);
        for (long, short) in SHORTER {
            command = command.replace(long, short);
        }
        let seen = self.run(&command);
        for word in step.shown.iter().flat_map(|line| line.split_whitespace()) {
            let is_word = word.chars().filter(|c| c.is_alphabetic()).count() > 3
                && !word.contains(|c: char| c.is_ascii_digit());
            let word = self.at_origin(word);
            assert!(
                !is_word || seen.contains(&word),
                "`{command}` does not show `{word}`, but:\n{seen}"
            );
        }
        self.hurry();
    }

    fn run(&self, command: &str) -> String {
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
            // Every poll is an audit, so that freshness is measured in no time.
            shell
                .env("SPRINGTIDE_HTTP_ALLOW_PRIVATE", "127.0.0.1")
                .env("SPRINGTIDE_BUDGET_POLLS", "100/s")
                .env("SPRINGTIDE_BUDGET_AUDIT", "100%");
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
        assert_eq!(output.status.code(), Some(0), "`{command}`:\n{seen}");
        seen
    }

    /// Adds something to the project's settings.
    fn set(&self, settings: &str) {
        let path = self.folder.join("springtide.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, format!("{text}\n{settings}\n")).unwrap();
    }

    /// Once there is a project, it need not wait for a second between polls.
    fn hurry(&mut self) {
        if !self.is_quick && self.folder.join("springtide.toml").exists() {
            self.set("[[group]]\nmatch = \"127.0.0.1\"\nrate = \"200/s\"\nconcurrency = 4");
            self.is_quick = true;
        }
    }

    fn at_origin(&self, text: &str) -> String {
        text.replace(SITE, &self.origin.url(""))
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
