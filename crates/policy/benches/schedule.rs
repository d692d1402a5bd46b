//! What scheduling a poll costs, in pops and pushes of a bare heap.
//!
//! Scheduling a poll is all of it: finding the element, taking in what the poll
//! showed, updating belief, group and price, and putting the element where it is
//! due next. The measure beside it is one `pop` and one `push` of std's
//! `BinaryHeap<(u64, u32)>` with as many entries, taken in turns with ours in the
//! same run. Beside it stand how long the agenda took to make, and what it then held in
//! memory for each element (where `/proc` says so).
//!
//! `cargo bench --bench schedule` goes up to 10⁷ elements; `-- --most 1e6` stops
//! earlier, and `--test` runs a small one only, to see that it works.

#![expect(clippy::print_stdout, reason = "a bench prints its findings")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a bench reads clock and arguments"
)]

use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use springtide_policy::agenda::{Agenda, Poll, Request, Verdict};
use springtide_policy::schedule::{Choice, Terms};
use springtide_policy::{Budget, Element, Elements, Groups, Outcome, Present, Time};

/// Elements of a host and of one of its directories.
const PER_HOST: usize = 1000;
const PER_DIRECTORY: usize = 50;
const ROUNDS: usize = 7;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let most = if is_test {
        10_000
    } else {
        let most = arguments.iter().position(|argument| argument == "--most");
        most.and_then(|at| arguments.get(at + 1)?.parse::<f64>().ok())
            .map_or(10_000_000, |most| most as usize)
    };
    println!(
        "medians of {ROUNDS} rounds; hosts of {PER_HOST} elements, directories of {PER_DIRECTORY}"
    );
    println!();
    println!("   elements   heap ns   poll ns   ratio   flat ns   ratio   start s   bytes each");
    let mut n = if is_test { 10_000 } else { 100_000 };
    while n <= most {
        measure(n);
        n *= 10;
    }
    println!();
    println!("flat: the same elements in no group");
}

fn measure(n: usize) {
    // As many polls as leave out what only the first ones cost, and no more than
    // anyone would wait for.
    let n_polls = (n / 2).clamp(20_000, 1_000_000);
    let mut heap = Heap::new(n);
    let mut grouped = Driven::new(n, true);
    let mut flat = Driven::new(n, false);
    // Some rounds of all elements: beliefs differ, and so do due times.
    let settle = (5 * n).min(5_000_000);
    grouped.poll(settle);
    flat.poll(settle);
    heap.turn(settle);
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        times[0].push(heap.turn(n_polls));
        times[1].push(grouped.poll(n_polls));
        times[2].push(flat.poll(n_polls));
    }
    let [bare, poll, flat_poll] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    println!(
        "{n:>11}  {bare:>8.0}  {poll:>8.0}  {:>6.2}  {flat_poll:>8.0}  {:>6.2}  {:>8.2}  {:>11.0}",
        poll / bare,
        flat_poll / bare,
        grouped.start_seconds,
        grouped.bytes / n as f64,
    );
}

/// A bare heap whose entries go in again at a random later time.
struct Heap {
    heap: BinaryHeap<(u64, u32)>,
    rng: Pcg64,
}

impl Heap {
    fn new(n: usize) -> Self {
        let mut rng = Pcg64::seed_from_u64(1);
        let entry = |index| (u64::MAX - (rng.next_u64() >> 24), index);
        Self {
            heap: (0..n as u32).map(entry).collect(),
            rng,
        }
    }

    /// Nanoseconds per pop and push.
    fn turn(&mut self, n: usize) -> f64 {
        let started = Instant::now();
        for _ in 0..n {
            if let Some((key, index)) = self.heap.pop() {
                self.heap.push((key - (self.rng.next_u64() >> 24), index));
            }
        }
        black_box(&self.heap);
        started.elapsed().as_nanos() as f64 / n as f64
    }
}

/// An agenda and elements that change at random.
struct Driven {
    agenda: Agenda,
    now: Time,
    /// How often each changes, and when it was polled, in days: side by side, for what
    /// the bench itself waits for is counted too.
    remote: Vec<(f32, f32)>,
    rng: Pcg64,
    /// What making the agenda took, and what it holds.
    start_seconds: f64,
    bytes: f64,
}

impl Driven {
    fn new(n: usize, is_grouped: bool) -> Self {
        let mut rng = Pcg64::seed_from_u64(2);
        let mut groups = Groups::new();
        let mut directories = Vec::new();
        for _ in 0..n.div_ceil(PER_HOST) {
            let host = groups.add(None);
            directories.extend((0..PER_HOST / PER_DIRECTORY).map(|_| groups.add(Some(host))));
        }
        let elements: Elements = (0..n)
            .map(|index| Element {
                group: is_grouped.then(|| directories[index / PER_DIRECTORY]),
                ..Element::default()
            })
            .collect();
        let remote = (0..n)
            .map(|_| {
                let normal: f64 = StandardNormal.sample(&mut rng);
                ((0.1 * (1.5 * normal).exp()) as f32, 0.0)
            })
            .collect();
        let terms = Terms::new(Budget::per_day(0.1 * n as f64).expect("a budget"));
        let held = held_bytes();
        let started = Instant::now();
        let agenda = Agenda::exact(
            Choice::Learned,
            terms,
            groups,
            Present::all(&elements),
            Time::START,
            &mut rng,
        );
        let start_seconds = started.elapsed().as_secs_f64();
        let bytes = held_bytes() - held;
        Self {
            agenda,
            now: Time::START,
            remote,
            rng,
            start_seconds,
            bytes,
        }
    }

    /// Nanoseconds per poll, what the drawing of changes takes not counted.
    fn poll(&mut self, n: usize) -> f64 {
        // Drawn beforehand, since the agenda's own costs alone are to be measured.
        let draws: Vec<f32> = (0..n).map(|_| self.rng.random()).collect();
        let started = Instant::now();
        for draw in draws {
            let now = self.agenda.wake_at(self.now);
            self.now = now;
            let next = self.agenda.next(now, &mut self.rng);
            let Some(Request::Poll(Poll { id, group, .. })) = next else {
                continue;
            };
            let days = now.as_days() as f32;
            let (rate, polled_at) = &mut self.remote[id.index()];
            let changes = *rate * (days - *polled_at);
            *polled_at = days;
            let outcome = if draw < changes / (1.0 + changes) {
                Outcome::Changed { age: None }
            } else {
                Outcome::Unchanged
            };
            self.agenda.observe(id, outcome, now);
            if let Some(group) = group {
                self.agenda.ended(group, Verdict::Fine, now, &mut self.rng);
            }
        }
        black_box(&self.agenda);
        started.elapsed().as_nanos() as f64 / n as f64
    }
}

/// What the process holds in memory of its own.
fn held_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| kilobytes * 1024.0)
}
