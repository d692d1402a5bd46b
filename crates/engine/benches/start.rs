//! How soon a run starts with many elements that were polled before, and what it holds
//! in memory for each: `cargo bench -p springtide-engine --bench start -- --elements 1e7`.
//!
//! The project is made beforehand: 200 hosts with 50 directories each, every element
//! polled, with what a scheduler remembers of it. The time is that of a second start,
//! with a warm file cache, beside that of reading the store's file as it is.
#![expect(clippy::print_stdout, reason = "a bench tells what it found")]

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_pcg::Pcg64;
use springtide_engine::clock::{self, Clock};
use springtide_engine::settings::{
    AllowPrivate, BudgetSettings, FirstPass, HttpSettings, PolicyName, PolicySettings,
    SourceSettings,
};
use springtide_engine::{Event, Heard, Outside, RunOptions, Settings};
use springtide_policy::schedule::{Choice, Scheduler, Shadow, Terms};
use springtide_policy::{Budget, Elements, Groups, Objective, Outcome, Present, Span, Time};
use springtide_store::{
    Element, ElementId, Fact, Group, GroupId, History, Kept, MemoryOf, Moment, Partition, Role,
    Source, SourceId, SourceKind, Sqlite, State, Totals, Writer,
};

const N_HOSTS: u32 = 200;
const N_DIRECTORIES: u32 = 50;
const BATCH: u32 = 10_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let given = arguments
        .iter()
        .position(|argument| argument == "--elements");
    let given = given.and_then(|at| arguments.get(at + 1)?.parse::<f64>().ok());
    let n = given.unwrap_or(if is_test { 20_000.0 } else { 1e6 }) as u32;
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path(), n);
    for round in 0..3 {
        let read = read_store(folder.path());
        let (started, anonymous) = start(folder.path());
        println!(
            "round {round}: {n} elements, ready after {:.2} s; reading the file takes {:.2} s; \
             {:.0} bytes of anonymous memory an element",
            started.as_secs_f64(),
            read.as_secs_f64(),
            anonymous as f64 / f64::from(n)
        );
    }
}

/// Makes a project of so many elements that were polled an hour ago.
fn make(folder: &Path, n: u32) {
    let mut store = Sqlite::create_or_open(folder.join(".springtide")).expect("a store");
    let now = Clock::system().now();
    let polled_at = Moment(now.0 - 3_600_000);
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
    let mut places: Vec<(GroupId, GroupId)> = Vec::new();
    for host in 0..N_HOSTS {
        let host_group = groups.add(None);
        let name = format!("127.1.{}.{}", host / 100, host % 100 + 1);
        facts.push(fact(host_group, None, name));
        for directory in 0..N_DIRECTORIES {
            let group = groups.add(Some(host_group));
            facts.push(fact(group, Some(host_group), format!("d{directory}")));
            places.push((host_group, group));
        }
    }
    store.commit(&facts).expect("kept");

    // What a scheduler remembers of elements like these.
    let mut rng = Pcg64::seed_from_u64(1);
    let terms = Terms {
        shadow: Shadow::Learner,
        ..Terms::new(Budget::per_day(f64::from(n)).expect("a budget"))
    };
    let at = clock::time(polled_at);
    let nobody = Elements::new();
    let mut scheduler = Scheduler::new(
        Choice::Learned,
        terms,
        groups,
        Present::all(&nobody),
        at,
        &mut rng,
    );
    let n_few = 8 * N_HOSTS * N_DIRECTORIES;
    for index in 0..n_few {
        let (_, group) = places[(index as usize) % places.len()];
        let element = springtide_policy::Element {
            group: Some(group),
            ..springtide_policy::Element::default()
        };
        scheduler.add(ElementId(index), element, at, &mut rng);
    }
    let later = Time::from_days(at.as_days() + 0.5).expect("a time");
    for index in 0..n_few {
        let outcome = if index % 7 == 0 {
            Outcome::Changed { age: None }
        } else {
            Outcome::Unchanged
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
                let (host, group) = places[(index as usize) % places.len()];
                let element = Element {
                    id: ElementId(index),
                    source: SourceId(0),
                    locator: format!(
                        "http://127.1.0.1:9/d{}/p{index}.html",
                        index % N_DIRECTORIES
                    ),
                    group,
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

fn fact(id: GroupId, parent: Option<GroupId>, name: String) -> Fact {
    Fact::Group(Group { id, parent, name })
}

fn read_store(folder: &Path) -> Duration {
    let began = Instant::now();
    let mut file = std::fs::File::open(folder.join(".springtide/store.db")).expect("a store");
    let mut block = vec![0; 1 << 20];
    while file.read(&mut block).expect("readable") > 0 {}
    began.elapsed()
}

/// How long it takes until polls may begin, and the anonymous memory held then beyond
/// that before, in bytes.
fn start(folder: &Path) -> (Duration, u64) {
    let before = anonymous();
    let settings = Settings {
        budget: BudgetSettings {
            per_day: 1e-3,
            burst: None,
            window: None,
            audit: 0.0,
            first_pass: FirstPass::Counted,
        },
        policy: PolicySettings {
            name: PolicyName::Learned,
            objective: Objective::Freshness,
            max_interval: None,
            cycle: Span::days(1.0).expect("a span"),
        },
        http: HttpSettings {
            contact: None,
            timeout: Duration::from_secs(1),
            max_body: 1 << 20,
            allow_private: AllowPrivate::All,
        },
        groups: Vec::new(),
        sources: vec![SourceSettings {
            name: "pages".to_owned(),
            kind: SourceKind::List,
            url: String::new(),
            file: None,
            list: Default::default(),
            is_paused: false,
            weight: 1.0,
            list_every: None,
            keep: Vec::new(),
            drop: Vec::new(),
            max_elements: u64::MAX,
            max_depth: 0,
            entries: springtide_engine::settings::FeedEntries::Pages,
            allow_private: None,
            search: None,
            table: None,
            retain: Default::default(),
        }],
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (handle, controls) = springtide_engine::handle();
        let mut events = handle.events();
        let began = Instant::now();
        let folder = folder.to_owned();
        let running = tokio::spawn(async move {
            let outside = Outside::real(&settings.http).expect("a client");
            let options = RunOptions::default();
            springtide_engine::run(&folder, settings, options, controls, outside).await
        });
        let mut held = 0;
        let mut took = Duration::ZERO;
        while let Some(told) = events.next().await {
            if let Heard::Event(Event::Started { .. }) = told {
                took = began.elapsed();
                held = anonymous().saturating_sub(before);
                break;
            }
        }
        handle.stop();
        running.await.expect("a run").expect("a clean end");
        (took, held)
    })
}

fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
