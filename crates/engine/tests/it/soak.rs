//! A long run in which everything happens: restarts, ends without a farewell, clocks that
//! are set, and servers that mean harm.
//!
//! It is played in virtual time, so nothing that is checked depends on how fast the machine
//! is. A minute of it is a test like any other; `scripts/soak 2h` plays more.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use springtide_engine::clock::Clock;
use springtide_engine::origin::{Origin, SiteSettings, hostile};
use springtide_engine::settings::{Retain, SourceSettings};
use springtide_engine::{Outside, Settings, handle};
use springtide_policy::{Rate, Span};
use springtide_store::{Bodies, Moment, Reader as _, SourceKind, Sqlite, State};

use crate::run::{elements, settings};
use crate::world::{BEGINNING, World, for_seconds};

const N_HOSTS: usize = 40;
const PAGES_PER_HOST: usize = 25;
const POLLS_PER_SECOND: f64 = 200.0;
/// Between two requests to a host.
const GAP: f64 = 0.1;
const CONCURRENCY: usize = 4;
/// No five seconds hold more than a tenth above the budget, and one.
const WINDOW: f64 = 5.0;
const MOST_IN_WINDOW: usize = 1 + (1.1 * POLLS_PER_SECOND * WINDOW) as usize;
/// What is kept of an element: so many versions, and single polls for so many seconds.
const VERSIONS: u32 = 3;
const POLLS_KEPT: f64 = 300.0;
/// What is to be forgotten is forgotten within so many seconds: passes are ten minutes
/// apart, or as far as runs are, and take a while; the same again for the room of bodies.
const LAG: f64 = 800.0;
/// What a row of each kind takes in the store with its indexes, in bytes; what a body of
/// 500 bytes takes, compressed or not, with its header and its place in the index; and what
/// is there before anything is kept, with room for what one run brings before it is forgotten.
const POLL_BYTES: u64 = 100;
const CHANGE_BYTES: u64 = 400;
const ELEMENT_BYTES: u64 = 2_000;
const BODY_BYTES: u64 = 800;
const FIXED_BYTES: u64 = 12 << 20;
/// Of at least so many seconds, the second half may not take a tenth more memory than the
/// first. Of fewer, the first has not yet had all that is held at a time.
const LONG: f64 = 600.0;
/// How far clocks are set between runs, in milliseconds.
const STEPS: [i64; 6] = [0, 0, 3_600_000, -600_000, 86_400_000 * 365, -86_400_000];

/// A site that does as it is told, and the requests that it has had, in milliseconds.
struct Host {
    origin: Origin,
    received: Vec<i64>,
}

fn site(number: usize) -> SiteSettings {
    let changes_per_second = |page: usize| 0.02 * page as f64 / PAGES_PER_HOST as f64;
    SiteSettings {
        seed: number as u64,
        rates: (0..PAGES_PER_HOST)
            .map(|page| Rate::per_day(changes_per_second(page) * 86_400.0).unwrap())
            .collect(),
        page_bytes: 500,
        latency: Duration::from_millis(20 * (number as u64 % 5)),
        robots: number
            .is_multiple_of(3)
            .then(|| "User-agent: *\nDisallow: /private\n".to_owned()),
        ..SiteSettings::default()
    }
}

fn memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.unwrap().parse().unwrap()
}

fn millis(at: std::time::SystemTime) -> i64 {
    springtide_engine::clock::moment(at).0
}

/// Checks what hosts have seen since the last time, and forgets it.
fn check_requests(hosts: &mut [Host], is_first_pass: bool) -> usize {
    let mut all = Vec::new();
    for host in hosts.iter_mut() {
        let requests = host.origin.requests();
        host.origin.forget_requests();
        let mut times: Vec<i64> = requests.iter().map(|r| millis(r.received_at)).collect();
        // Requests that were under way when the engine ended are in nobody's way.
        let spans = requests
            .iter()
            .filter_map(|r| Some((millis(r.received_at), millis(r.answered_at?))));
        let spans: Vec<(i64, i64)> = spans.collect();
        for &(at, _) in &spans {
            let n = spans
                .iter()
                .filter(|(from, to)| *from <= at && at < *to)
                .count();
            assert!(n <= CONCURRENCY, "{n} at a time");
        }
        let is_poll = |path: &str| !path.ends_with("robots.txt");
        all.extend(
            requests
                .iter()
                .filter(|r| is_poll(&r.path))
                .map(|r| millis(r.received_at)),
        );
        times.sort_unstable();
        host.received.extend(times);
        for pair in host.received.windows(2) {
            // Moments are whole milliseconds.
            let gap = pair[1] - pair[0];
            assert!(
                gap as f64 >= GAP * 1000.0 - 2.0,
                "{gap} ms between two requests"
            );
        }
        host.received.drain(..host.received.len().saturating_sub(1));
    }
    all.sort_unstable();
    if !is_first_pass {
        for (first, &at) in all.iter().enumerate() {
            let rest = &all[first..];
            let n = rest.partition_point(|other| ((other - at) as f64) < WINDOW * 1000.0);
            assert!(n <= MOST_IN_WINDOW, "{n} polls in {WINDOW} s");
        }
    }
    all.len()
}

fn soak_settings(hosts: &[Host], bad: &[Origin], folder: &std::path::Path) -> Settings {
    let list = folder.join("bad.txt");
    let urls: String = bad.iter().map(|o| o.url("/page.html") + "\n").collect();
    std::fs::write(&list, urls).unwrap();
    let good: Vec<(String, String)> = hosts
        .iter()
        .enumerate()
        .map(|(n, host)| (format!("good{n}"), host.origin.url("/sitemap.xml")))
        .collect();
    let mut sources: Vec<(&str, SourceKind, String)> = good
        .iter()
        .map(|(name, url)| (name.as_str(), SourceKind::Sitemap, url.clone()))
        .collect();
    sources.push(("bad", SourceKind::List, String::new()));
    let mut settings = settings(&sources);
    let last = settings.sources.len() - 1;
    settings.sources[last] = SourceSettings {
        file: Some(list),
        ..settings.sources[last].clone()
    };
    settings.budget.per_day = POLLS_PER_SECOND * 86_400.0;
    settings.http.timeout = Duration::from_secs(2);
    settings.http.max_body = 1 << 20;
    settings.groups[0].gap = Span::days(GAP / 86_400.0).unwrap();
    settings.groups[0].concurrency = CONCURRENCY as u32;
    for source in &mut settings.sources {
        source.retain = Retain {
            versions: Some(VERSIONS),
            polls: Some(Span::days(POLLS_KEPT / 86_400.0).unwrap()),
            ..Retain::default()
        };
    }
    settings
}

/// A run that is over.
struct Past {
    /// When it ended: since the beginning, and by the clock that it was given.
    ended: f64,
    ended_at: f64,
    lasted: f64,
    n_changes: u64,
}

/// What the store holds, and what it takes.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    n_elements: u64,
    n_polls: u64,
    n_changes: u64,
    n_bytes: u64,
}

impl Held {
    fn by(inner: &std::path::Path) -> Self {
        let store = Sqlite::read_only(inner).unwrap();
        Self {
            n_elements: u64::from(store.next_element().unwrap()),
            n_polls: store.polls_after(0, usize::MAX).unwrap().len() as u64,
            n_changes: store.changes_after(0, usize::MAX).unwrap().len() as u64,
            n_bytes: size_of(inner),
        }
    }

    /// The most rows that may be held after these runs, if what is not to be kept is
    /// forgotten within [`LAG`], and what they may take: with room for the bodies that were
    /// dropped since, and a quarter of each segment, which may be dead before it is rewritten.
    fn most(self, past: &[Past]) -> Self {
        let Some(last) = past.last() else {
            return self;
        };
        let is_late = |run: &&Past| last.ended - run.ended < LAG;
        let late: Vec<&Past> = past.iter().filter(is_late).collect();
        // How old a poll is its stamp says: those of before a clock was set back are
        // younger than they were. What was young by any clock of late may still be there.
        let clocks = late.iter().map(|run| run.ended_at - run.lasted);
        let clock = clocks.fold(f64::INFINITY, f64::min);
        let is_young = |run: &&Past| is_late(run) || clock - run.ended_at < POLLS_KEPT;
        let young = past.iter().filter(is_young);
        let n_polls: f64 = young.map(|run| POLLS_PER_SECOND * run.lasted).sum();
        // First polls, and what may be made up for after each start.
        let more = self.n_elements + 100 * past.len() as u64;
        let n_late: u64 = late.iter().map(|run| run.n_changes).sum();
        let n_bodies = (self.n_changes + n_late) * 4 / 3;
        Self {
            n_elements: self.n_elements,
            n_polls: (1.1 * n_polls) as u64 + more,
            n_changes: self.n_elements * u64::from(VERSIONS) + n_late,
            n_bytes: FIXED_BYTES
                + ELEMENT_BYTES * self.n_elements
                + POLL_BYTES * self.n_polls
                + CHANGE_BYTES * self.n_changes
                + BODY_BYTES * n_bodies,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_adds_up_and_no_promise_is_broken_whatever_happens() {
    let told = std::env::var("SPRINGTIDE_SOAK_SECONDS").ok();
    let is_alone = told.is_some();
    let seconds: f64 = told.map_or(60.0, |seconds| {
        seconds.parse().expect("a number of seconds")
    });
    let mut rng = Pcg64::seed_from_u64(13);
    let world = World::new();
    let mut hosts: Vec<Host> = (0..N_HOSTS)
        .map(|n| Host {
            origin: world.site(&format!("good{n}.example"), site(n)),
            received: Vec::new(),
        })
        .collect();
    let bad: Vec<Origin> = hostile::all()
        .into_iter()
        .map(|(name, behaviour)| {
            let origin = world.site(&format!("{name}.bad.example"), SiteSettings::default());
            origin.script("/page.html", behaviour);
            origin
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let settings = soak_settings(&hosts, &bad, folder.path());

    // First polls do not count, so they come first.
    world.run_once(folder.path(), &settings).await;
    check_requests(&mut hosts, true);

    let inner = folder.path().join(".springtide");
    let network_clock = world.network.clock();
    let (mut set_by, mut n_polls, mut memory) = (0, 0, Vec::new());
    let (mut past, mut held, mut room) = (Vec::new(), Held::default(), 0);
    let begun = world.elapsed();
    let mut n_runs = 0;
    while (world.elapsed() - begun).as_secs_f64() < seconds {
        n_runs += 1;
        let span = rng.random_range(4.0..seconds.clamp(60.0, 1200.0) / 6.0);
        set_by += STEPS[rng.random_range(0..STEPS.len())];
        let now = network_clock.now();
        let up_for = now.0 - BEGINNING.0;
        let outside = Outside {
            clock: Clock::starting_at(Moment(now.0 + set_by)).on_machine(7, up_for),
            ..world.outside()
        };
        let began = world.elapsed().as_secs_f64();
        let n_changes = n_changes_found(&inner);
        let (_handle, controls) = handle();
        let run = springtide_engine::run(
            folder.path(),
            settings.clone(),
            for_seconds(span),
            controls,
            outside,
        );
        match n_runs % 3 {
            // Dropped in the midst of whatever it does, as if it had been killed.
            0 => {
                drop(tokio::time::timeout(Duration::from_secs_f64(span / 2.0), run).await);
                until_nobody_writes(&inner).await;
            }
            _ => drop(run.await.unwrap()),
        }
        n_polls += check_requests(&mut hosts, false);
        for origin in &bad {
            origin.forget_requests();
        }
        memory.push(memory_kb());
        let ended = world.elapsed().as_secs_f64();
        past.push(Past {
            ended,
            ended_at: ended + set_by as f64 / 1000.0,
            lasted: ended - began,
            n_changes: n_changes_found(&inner) - n_changes,
        });
        held = Held::by(&inner);
        let most = held.most(&past);
        assert!(held.n_polls <= most.n_polls, "{held:?} of {most:?}");
        assert!(held.n_changes <= most.n_changes, "{held:?} of {most:?}");
        // A database keeps the room that it once had, for what comes.
        room = room.max(most.n_bytes);
        assert!(held.n_bytes <= room, "{held:?} of {room}");
    }
    let lasted = (world.elapsed() - begun).as_secs_f64();

    let half = memory.len() / 2;
    let (first, second) = memory.split_at(half.max(1));
    let most_of = |part: &[u64]| part.iter().copied().max().unwrap_or(0);
    let (before, after) = (most_of(first), most_of(second));
    // Before anything is found wanting: all of it is wanted to find out why.
    tell(&format!(
        "{n_runs} runs, {lasted:.0} s, {n_polls} polls, memory {before} kB and then {after} kB, \
         store {} kB of at most {} kB, {} polls and {} versions of {} elements",
        held.n_bytes / 1024,
        room / 1024,
        held.n_polls,
        held.n_changes,
        held.n_elements
    ));

    let store = Sqlite::read_only(&inner).unwrap();
    let bodies = Bodies::read_only(inner.join("bodies")).unwrap();
    let problems = store.check(&mut |body| bodies.is_sound(body)).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    for kept in elements(folder.path()) {
        if !kept.element.locator.contains(".bad.example/") {
            assert_eq!(kept.state, State::Ok, "{kept:?}");
        }
    }
    // Whoever is ended loses what it would have done in the moment until it is back; and
    // after a clock was set ahead it looks as if time had passed, of which three tenths of
    // a second are made up for.
    let most = POLLS_PER_SECOND * lasted;
    let made_up = n_runs as f64 * (1.0 + 0.3 * POLLS_PER_SECOND);
    assert!(n_polls as f64 <= most + made_up, "{n_polls} of {most}");
    assert!((n_polls as f64) > 0.95 * most, "{n_polls} of {most}");
    // Among other tests memory is not ours alone.
    let is_flat = after as f64 <= 1.1 * before as f64;
    assert!(is_flat || !is_alone || seconds < LONG, "{memory:?}");
}

/// A run that is dropped leaves what its threads were at to be ended by them; the death of
/// a process would end it at once.
async fn until_nobody_writes(inner: &std::path::Path) {
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
        match Bodies::open(inner.join("bodies")) {
            Err(springtide_store::Error::InUse) => std::thread::sleep(Duration::from_millis(1)),
            opened => return drop(opened.unwrap()),
        }
    }
    panic!("a run that was dropped goes on writing");
}

/// All changes that were ever found.
fn n_changes_found(inner: &std::path::Path) -> u64 {
    let sources = Sqlite::read_only(inner).unwrap().sources().unwrap();
    sources.iter().map(|source| source.totals.n_changes).sum()
}

fn size_of(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => size_of(&entry.path()),
            false => entry.metadata().map_or(0, |of| of.len()),
        })
        .sum()
}

#[expect(clippy::print_stderr, reason = "for whoever runs it for hours")]
fn tell(report: &str) {
    eprintln!("{report}");
}
