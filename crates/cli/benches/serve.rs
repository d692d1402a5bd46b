//! How soon a server answers with many elements, beside a run that polls 100 of them a
//! second: `cargo bench -p springtide --bench serve -- --elements 1e6`.
//!
//! The project is made beforehand, with elements that were all polled before; a site on
//! loopback answers for them. Times are until the first byte, at the median and at the
//! worst; then once more while 500 connections send their requests a byte at a time. How many
//! of the polls that were due meanwhile were made, and for how long none ends after settings
//! were changed, is told at the end.
#![expect(clippy::print_stdout, reason = "a bench tells what it found")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_pcg::Pcg64;
use springtide_engine::clock::{self, Clock};
use springtide_engine::origin::{Behaviour, Origin, SiteSettings};
use springtide_policy::schedule::{Choice, Scheduler, Shadow, Terms};
use springtide_policy::{Budget, Elements, Groups, Outcome, Present, Time};
use springtide_store::{
    Element, ElementId, Fact, Group, GroupId, History, Kept, MemoryOf, Moment, Partition, Role,
    Source, SourceId, SourceKind, Sqlite, State, Totals, Writer,
};

const N_DIRECTORIES: u32 = 1000;
const BATCH: u32 = 10_000;
/// Polls a second, beside which everything is answered.
const POLLS: f64 = 100.0;
const N_SLOW: usize = 500;
/// What is written through the API: a budget is taken in by the run, a weight by another.
const WRITES: [(&str, &str); 2] = [
    (
        "/api/v1/settings",
        "{\"budget\": {\"polls\": \"8640001/day\"}}",
    ),
    ("/api/v1/sources/pages", "{\"weight\": 2}"),
];
/// For so long it is looked at what comes of a write; longer, if no poll has ended by then.
const AFTERMATH: Duration = Duration::from_secs(10);

const PAGES: [&str; 9] = [
    "/",
    "/sources",
    "/sources/pages",
    "/elements",
    "/elements/4242",
    "/changes",
    "/budget",
    "/lab",
    "/system",
];
const LISTS: [&str; 6] = [
    "/api/v1/elements",
    "/api/v1/elements?limit=1000",
    "/api/v1/elements?sort=due_at",
    "/api/v1/elements?sort=-rate_per_day&state=ok",
    "/api/v1/sources",
    "/api/v1/changes",
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<f64>().ok()
    };
    let n = number("--elements").unwrap_or(if is_test { 5000.0 } else { 1e6 }) as u32;
    let rounds = if is_test { 2 } else { 15 };
    let origin = Origin::start(SiteSettings::default()).expect("an origin");
    let body = "<html><body><main><p>as it was</p></main></body></html>";
    origin.script_others(Behaviour::body("text/html", body));
    let folder = tempfile::tempdir().expect("a folder");
    let address = origin.addr().expect("an address").to_string();
    make(folder.path(), n, &address);
    let server = Serving::start(folder.path());
    println!(
        "{n} elements; served after {:.1} s",
        server.started.as_secs_f64()
    );
    let begun = (Instant::now(), server.n_polls());
    server.measure(rounds, "");
    let slow: Vec<TcpStream> = (0..N_SLOW)
        .filter_map(|_| {
            let mut stream = TcpStream::connect(&server.address).ok()?;
            stream.write_all(b"GET /api/v1/sta").ok()?;
            Some(stream)
        })
        .collect();
    server.measure(rounds, &format!(" ({} slow connections)", slow.len()));
    let n_polls = server.n_polls() - begun.1;
    let seconds = begun.0.elapsed().as_secs_f64();
    println!(
        "{n_polls} polls of {:.0} due meanwhile, {:.0} a second",
        POLLS * seconds,
        n_polls as f64 / seconds
    );
    drop(slow);
    for (path, body) in WRITES {
        let silence =
            server.silence_after(path, body, if is_test { Duration::ZERO } else { AFTERMATH });
        println!(
            "PATCH {path}: no poll ended for {:.2} s",
            silence.as_secs_f64()
        );
    }
}

struct Serving {
    child: Child,
    address: String,
    started: Duration,
}

impl Serving {
    fn start(folder: &Path) -> Self {
        let begun = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_springtide"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut lines = BufReader::new(child.stderr.take().expect("words"));
        let address = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).expect("words") > 0, "it ended");
            if let Some((_, address)) = line.trim().split_once("serving on http://") {
                break address.to_owned();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let mut serving = Self {
            child,
            address,
            started: Duration::ZERO,
        };
        while !serving.ask("/readyz").1.starts_with("HTTP/1.1 200") || serving.n_polls() == 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
        serving.started = begun.elapsed();
        serving
    }

    /// How long it takes until the first byte, and the answer.
    fn ask(&self, path: &str) -> (Duration, String) {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.address
        );
        let begun = Instant::now();
        stream.write_all(request.as_bytes()).expect("sent");
        let mut first = [0];
        stream.read_exact(&mut first).expect("an answer");
        let took = begun.elapsed();
        let mut rest = vec![first[0]];
        stream.read_to_end(&mut rest).expect("an answer");
        (took, String::from_utf8_lossy(&rest).into_owned())
    }

    fn n_polls(&self) -> u64 {
        let (_, answer) = self.ask("/api/v1/sources/pages");
        let n = answer.split("\"n_polls\":").nth(1);
        let n = n.and_then(|rest| rest.split([',', '}']).next()?.trim().parse().ok());
        n.unwrap_or(0)
    }

    /// How many polls this process has made, as it counts them itself.
    fn n_ended(&self) -> u64 {
        let (_, answer) = self.ask("/metrics");
        let n = answer.split("\nspringtide_poll_seconds_count ").nth(1);
        n.and_then(|rest| rest.lines().next()?.parse().ok())
            .unwrap_or(0)
    }

    /// The longest time without the end of a poll after something was written.
    fn silence_after(&self, path: &str, body: &str, looked: Duration) -> Duration {
        let begun = Instant::now();
        let (mut seen, mut at, mut longest) = (self.n_ended(), begun, Duration::ZERO);
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        let request = format!(
            "PATCH {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        while begun.elapsed() < looked || at == begun {
            std::thread::sleep(Duration::from_millis(5));
            let n = self.n_ended();
            if n != seen {
                longest = longest.max(at.elapsed());
                (seen, at) = (n, Instant::now());
            }
        }
        longest
    }

    fn measure(&self, rounds: usize, what: &str) {
        for path in PAGES.into_iter().chain(LISTS) {
            let mut times: Vec<Duration> = (0..rounds)
                .map(|_| {
                    // Like a person, or a program that has something else to do as well.
                    std::thread::sleep(Duration::from_millis(100));
                    let (took, answer) = self.ask(path);
                    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
                    took
                })
                .collect();
            times.sort();
            println!(
                "{path}{what}: {:.1} ms at the median, {:.1} ms at the worst",
                times[rounds / 2].as_secs_f64() * 1000.0,
                times[rounds - 1].as_secs_f64() * 1000.0
            );
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a project of so many elements that were polled an hour ago.
fn make(folder: &Path, n: u32, address: &str) {
    let per_day = POLLS * 86_400.0;
    let settings = format!(
        "[budget]\npolls = \"{per_day}/day\"\n[http]\nallow_private = [\"127.0.0.1\"]\n\
         [[group]]\nmatch = \"127.0.0.1\"\nrate = \"10000/s\"\nconcurrency = 8\n\
         [source.pages]\nkind = \"list\"\n"
    );
    std::fs::write(folder.join("springtide.toml"), settings).expect("settings");
    let mut store = Sqlite::create_or_open(folder.join(".springtide")).expect("a store");
    let polled_at = Moment(Clock::system().now().0 - 3_600_000);
    let mut groups = Groups::new();
    let mut facts = vec![Fact::Source(Source {
        id: SourceId(0),
        name: "pages".to_owned(),
        kind: SourceKind::List,
        url: String::new(),
        added_at: polled_at,
        totals: Totals {
            n_elements: u64::from(n),
            ..Totals::default()
        },
        error: None,
    })];
    let host = groups.add(None);
    facts.push(group(host, None, "127.0.0.1".to_owned()));
    let mut places = Vec::new();
    for directory in 0..N_DIRECTORIES {
        let inner = groups.add(Some(host));
        facts.push(group(inner, Some(host), format!("d{directory}")));
        places.push(inner);
    }
    store.commit(&facts).expect("kept");

    // What a scheduler remembers of elements like these.
    let mut rng = Pcg64::seed_from_u64(1);
    let terms = Terms {
        shadow: Shadow::Learner,
        ..Terms::new(Budget::per_day(per_day).expect("a budget"))
    };
    let at = clock::time(polled_at);
    let nobody = Elements::new();
    let present = Present::all(&nobody);
    let mut scheduler = Scheduler::new(Choice::Learned, terms, groups, present, at, &mut rng);
    let n_few = 8 * N_DIRECTORIES;
    for index in 0..n_few {
        let element = springtide_policy::Element {
            group: Some(places[index as usize % places.len()]),
            ..springtide_policy::Element::default()
        };
        scheduler.add(ElementId(index), element, at, &mut rng);
    }
    let later = Time::from_days(at.as_days() + 0.5).expect("a time");
    for index in 0..n_few {
        let outcome = match index % 7 {
            0 => Outcome::Changed { age: None },
            _ => Outcome::Unchanged,
        };
        scheduler.observe(ElementId(index), outcome, later);
    }
    let memories = (0..scheduler.groups().len() as u32).filter_map(|number| {
        let group = GroupId::new(number)?;
        let memory = scheduler.remember_group(group)?;
        Some(Fact::Memory(MemoryOf::Group(group), memory))
    });
    let mut facts: Vec<Fact> = memories.collect();
    let of = MemoryOf::Scheduler(Partition::WHOLE);
    facts.push(Fact::Memory(of, scheduler.remember_all()));
    store.commit(&facts).expect("kept");
    for from in (0..n).step_by(BATCH as usize) {
        let facts: Vec<Fact> = (from..n.min(from + BATCH))
            .map(|index| {
                let directory = index % N_DIRECTORIES;
                let element = Element {
                    id: ElementId(index),
                    source: SourceId(0),
                    locator: format!("http://{address}/d{directory}/p{index}.html"),
                    group: places[directory as usize],
                    host,
                    role: Role::Page,
                    weight: 1.0,
                    depth: 0,
                };
                let memory = scheduler.remember(ElementId(index % n_few));
                Fact::Kept(Box::new(Kept {
                    state: State::Ok,
                    history: History {
                        first_polled_at: Some(polled_at),
                        polled_at: Some(polled_at),
                        synced_at: Some(Moment(polled_at.0 + i64::from(index % 3_600_000))),
                        n_polls: 2,
                        n_changes: u32::from(index % 7 == 0),
                        memory: memory.expect("a member"),
                    },
                    ..Kept::new(element)
                }))
            })
            .collect();
        store.commit(&facts).expect("kept");
    }
    store.close().expect("closed");
}

fn group(id: GroupId, parent: Option<GroupId>, name: String) -> Fact {
    Fact::Group(Group { id, parent, name })
}
