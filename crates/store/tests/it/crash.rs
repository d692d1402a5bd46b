//! A process that writes is killed, again and again.
//!
//! The process is this test's own executable, told by an environment variable to
//! commit numbered batches for as long as it lives and to say each number once the
//! batch is kept.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_store::{
    Bodies, Change, ChangeFilter, ChangeKind, Element, ElementId, Fact, GroupId, History, Kept,
    Moment, Poll, PollOutcome, Purpose, Reader, Role, Source, SourceId, SourceKind, Sqlite, State,
    Totals, Writer,
};

const FOLDER: &str = "SPRINGTIDE_STORE_CRASH_FOLDER";
const NAME: &str = "crash::what_was_committed_survives_being_killed_and_nothing_is_half";
const N_KILLS: usize = 40;
const N_ELEMENTS: u32 = 500;
const POLLS_PER_BATCH: u64 = 7;

#[test]
fn what_was_committed_survives_being_killed_and_nothing_is_half() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        commit_until_killed(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Pcg64::seed_from_u64(4);
    let mut said = 0;
    for _ in 0..N_KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Some die while they open the store.
        let mut is_killed = rng.random_bool(0.2);
        if is_killed {
            std::thread::sleep(Duration::from_micros(rng.random_range(0..20_000)));
            child.kill().unwrap();
        }
        let mut left = rng.random_range(1..30);
        for line in lines {
            // The harness says a thing or two of its own.
            let Ok(number) = line.unwrap().parse::<u64>() else {
                continue;
            };
            said = number;
            left -= 1;
            if left <= 0 && !is_killed {
                std::thread::sleep(Duration::from_micros(rng.random_range(0..3_000)));
                child.kill().unwrap();
                is_killed = true;
            }
        }
        child.wait().unwrap();
        said = check(folder.path(), said);
    }
    assert!(said > N_KILLS as u64, "only {said} batches");
}

/// Checks that all that was said is there, and at most one batch that was not said.
/// Gives how many there are.
pub(crate) fn check(folder: &Path, said: u64) -> u64 {
    let Ok(store) = Sqlite::create_or_open(folder) else {
        panic!("the store cannot be opened");
    };
    let bodies = Bodies::open(folder.join("bodies")).unwrap();
    let problems = store.check(&mut |id| bodies.get(id).is_ok()).unwrap();
    assert_eq!(problems, []);
    let n_batches = n_batches(&store);
    assert!(
        n_batches == said || n_batches == said + 1,
        "{n_batches} batches, said {said}"
    );
    let polls: usize = (0..N_ELEMENTS)
        .map(|id| store.polls(ElementId(id), usize::MAX).unwrap().len())
        .sum();
    assert_eq!(polls as u64, n_batches * POLLS_PER_BATCH);
    let mut n_polls = 0;
    store
        .scan(1, &mut |_, brief| {
            n_polls += u64::from(brief.history.n_polls)
        })
        .unwrap();
    assert_eq!(n_polls, n_batches * POLLS_PER_BATCH);
    let changes = store.changes(&ChangeFilter::default(), None, usize::MAX);
    assert_eq!(changes.unwrap().len() as u64, n_batches);
    if n_batches > 0 {
        assert_eq!(store.sources().unwrap()[0].totals.n_polls, n_polls);
    }
    store.close().unwrap();
    n_batches
}

pub(crate) fn n_batches(store: &dyn Reader) -> u64 {
    let note = store.note("batches").unwrap();
    note.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

#[expect(clippy::print_stdout, reason = "it is how the other process is told")]
fn commit_until_killed(folder: &Path) -> ! {
    let mut store = Sqlite::create_or_open(folder).unwrap();
    let bodies = Bodies::open(folder.join("bodies")).unwrap();
    let mut number = n_batches(&store);
    loop {
        number += 1;
        let facts = batch(&store, &bodies, number);
        bodies.flush().unwrap();
        store.commit(&facts).unwrap();
        println!("{number}");
    }
}

/// Some polls, what they changed, a change with its body, and how many batches
/// there are.
pub(crate) fn batch(store: &Sqlite, bodies: &Bodies, number: u64) -> Vec<Fact> {
    let group = GroupId::new(0).unwrap();
    let at = Moment(number as i64);
    let n_polls = number * POLLS_PER_BATCH;
    let mut facts = vec![
        Fact::Group(springtide_store::Group {
            id: group,
            parent: None,
            name: "host".into(),
        }),
        Fact::Source(Source {
            id: SourceId(0),
            name: "source".into(),
            kind: SourceKind::List,
            url: "list.txt".into(),
            added_at: Moment(0),
            totals: Totals {
                n_polls,
                ..Totals::default()
            },
            error: None,
        }),
    ];
    for index in 0..POLLS_PER_BATCH {
        // Spread, so that no two of a batch are the same.
        let id = ElementId(((number * 31 + index * 67) % u64::from(N_ELEMENTS)) as u32);
        let mut kept = store.element(id).unwrap().unwrap_or_else(|| {
            Kept::new(Element {
                id,
                source: SourceId(0),
                locator: format!("https://host.example/{}", id.0),
                group,
                host: group,
                role: Role::Page,
                weight: 1.0,
                depth: 0,
            })
        });
        kept.state = State::Ok;
        kept.history = History {
            polled_at: Some(at),
            n_polls: kept.history.n_polls + 1,
            ..kept.history
        };
        if index == 0 {
            let body = number.to_le_bytes().repeat(100);
            facts.push(Fact::Change(Change {
                number: 0,
                version: 0,
                element: id,
                source: SourceId(0),
                found_at: at,
                previous_poll_at: None,
                kind: ChangeKind::Changed,
                bytes_before: None,
                bytes_after: None,
                digest: None,
                body: Some(bodies.put(&body).unwrap()),
                content_type: None,
                size: None,
            }));
        }
        facts.push(Fact::Kept(Box::new(kept)));
        facts.push(Fact::Poll(Poll {
            element: id,
            source: SourceId(0),
            begun_at: at,
            at,
            since: None,
            outcome: PollOutcome::Unchanged,
            status: Some(200),
            error: None,
            purpose: Purpose::Due,
            is_counted: true,
            age_ms: None,
        }));
    }
    facts.push(Fact::Note("batches", Some(number.to_le_bytes().to_vec())));
    facts
}
