//! The program itself, killed again and again among servers that mean harm.
//!
//! Ten seconds of it are a test like any other; `scripts/soak` plays more, with a program
//! that may be another build than that of the tests. What a run does over hours is played
//! in virtual time, in the engine's own tests.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_engine::clock::wall_time;
use springtide_engine::origin::{Origin, SiteSettings, hostile, version_in};
use springtide_policy::Rate;
use springtide_store::{Bodies, ChangeFilter, ElementId, Reader, Sqlite, State};

use crate::durability::inspect;
use crate::{Place, lines};

const N_PAGES: usize = 100;
const POLLS_PER_SECOND: f64 = 100.0;
/// No five seconds hold more than a tenth above the budget, and one. On their way some
/// requests are overtaken by others: a fiftieth.
const WINDOW: Duration = Duration::from_secs(5);
const MOST_IN_WINDOW: usize = 1 + (1.02 * 1.1 * POLLS_PER_SECOND * 5.0) as usize;
/// Between two requests to the good one, in seconds; so many of them are looked at
/// together, and may have come this much closer to one another on their way.
const GAP: f64 = 1.0 / 150.0;
const GAPS: usize = 60;
const JITTER: f64 = 0.06;
/// `polled_at` is at most so long after the answer.
const LATE: Duration = Duration::from_secs(1);

struct Soak {
    place: Place,
    good: Origin,
    bad: Vec<Origin>,
    /// What is killed.
    program: Option<PathBuf>,
}

impl Soak {
    fn new() -> Self {
        // From pages that change every few seconds to some that hardly ever do.
        let rate = |page: usize| Rate::per_day(86_400.0 * 0.4 / (1 + page) as f64).unwrap();
        let good = Origin::start(SiteSettings {
            rates: (0..N_PAGES).map(rate).collect(),
            ..SiteSettings::default()
        })
        .unwrap();
        // Each is a host of its own, so that none is asked more rarely for another's sake.
        let bad: Vec<Origin> = hostile::all()
            .into_iter()
            .zip(1..)
            .map(|((_, behaviour), number)| {
                let address = SocketAddr::from((Ipv4Addr::new(127, 0, 1, number), 0));
                let origin = Origin::start_at(address, SiteSettings::default()).unwrap();
                origin.script("/page.html", behaviour);
                origin
            })
            .collect();
        let list: String = bad.iter().map(|o| o.url("/page.html") + "\n").collect();
        let settings = format!(
            "[budget]\npolls = \"{POLLS_PER_SECOND}/s\"\n\
             [http]\nallow_private = [\"127.0.0.0/8\"]\ntimeout = \"1s\"\nmax_body = \"100KB\"\n\
             [[group]]\nmatch = \"127.0.0.1\"\nrate = \"150/s\"\nconcurrency = 4\n\
             [retain]\nversions = 3\n\
             [source.good]\nkind = \"sitemap\"\nurl = \"{}\"\n\
             [source.bad]\nkind = \"list\"\nfile = \"bad.txt\"\n",
            good.url("/sitemap.xml")
        );
        Self {
            place: Place::with("springtide.toml", settings).and("bad.txt", list),
            good,
            bad,
            program: std::env::var_os("SPRINGTIDE_SOAK_PROGRAM").map(PathBuf::from),
        }
    }

    fn command(&self, line: &str) -> Command {
        let own = self.place.command(line);
        let Some(program) = &self.program else {
            return own;
        };
        let mut command = Command::new(program);
        command.args(own.get_args()).env("NO_COLOR", "1");
        command.current_dir(self.place.path(""));
        for (name, value) in own.get_envs() {
            if value.is_none() {
                command.env_remove(name);
            }
        }
        command
    }

    /// One life, in whose midst it is looked at by others, and its death.
    fn live_and_die(&self, rng: &mut Pcg64) {
        let mut command = self.command("run --quiet --for 1m");
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        std::thread::sleep(Duration::from_millis(rng.random_range(20..1500)));
        if rng.random_bool(0.2) {
            self.place.run("status --json").ok();
        }
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_none(), "it was not killed: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }

    /// Nothing is damaged, doubled or missing; and every version that is kept is what the
    /// page was when it was asked for.
    fn check_store(&self) {
        inspect(&self.place);
        let folder = self.place.path(".springtide");
        let store = Sqlite::read_only(&folder).unwrap();
        let bodies = Bodies::read_only(folder.join("bodies")).unwrap();
        let site = self.good.site();
        let start = self.good.url("");
        for kept in store.elements(None, ElementId(0), 10_000).unwrap() {
            let path = kept.element.locator.strip_prefix(&start);
            let Some(page) = path.and_then(|path| site.page(path)) else {
                continue;
            };
            assert_eq!(kept.state, State::Ok, "{kept:?}");
            let version_of = |body| version_in(&bodies.get(body).unwrap()).unwrap();
            let check = |version: u64, at: SystemTime| {
                let (least, most) = (site.version_at(page, at - LATE), site.version_at(page, at));
                let is_true = (least..=most).contains(&version);
                assert!(is_true, "{version} of {least} to {most}: {kept:?}");
            };
            let copy = kept.copy.as_ref().unwrap();
            let polled_at = kept.history.polled_at.unwrap();
            check(version_of(copy.body), wall_time(polled_at));
            let filter = ChangeFilter {
                element: Some(kept.element.id),
                ..ChangeFilter::default()
            };
            for change in store.changes(&filter, None, 1000).unwrap() {
                if let Some(body) = change.body {
                    check(version_of(body), wall_time(change.found_at));
                }
            }
        }
    }

    /// The budget was kept to, and so was the gap, through all lives.
    fn check_requests(&self) -> usize {
        let good = self.good.requests();
        let mut polls: Vec<SystemTime> = good
            .iter()
            .chain(
                self.bad
                    .iter()
                    .flat_map(Origin::requests)
                    .collect::<Vec<_>>()
                    .iter(),
            )
            .filter(|request| !request.path.ends_with("robots.txt"))
            .map(|request| request.received_at)
            .collect();
        polls.sort_unstable();
        for (first, &at) in polls.iter().enumerate() {
            let n = polls[first..].partition_point(|&other| other < at + WINDOW);
            assert!(n <= MOST_IN_WINDOW, "{n} polls in {WINDOW:?}");
        }
        let mut times: Vec<SystemTime> = good.iter().map(|r| r.received_at).collect();
        times.sort_unstable();
        for span in times.windows(GAPS + 1) {
            let took = span[GAPS].duration_since(span[0]).unwrap().as_secs_f64();
            let least = GAPS as f64 * GAP - JITTER;
            assert!(took >= least, "{GAPS} gaps in {took} s");
        }
        polls.len()
    }
}

#[test]
fn whoever_is_killed_among_bad_servers_keeps_every_promise() {
    let told = std::env::var("SPRINGTIDE_SOAK_KILLED_SECONDS").ok();
    let seconds: f64 = told.map_or(10.0, |told| told.parse().expect("a number of seconds"));
    let soak = Soak::new();
    // First polls do not count, so they come first; some of the bad fail at once.
    let first = soak.place.run("run --once --quiet");
    assert!(matches!(first.code, 0 | 3), "{}", first.stderr);
    soak.good.forget_requests();
    soak.bad.iter().for_each(Origin::forget_requests);

    let mut rng = Pcg64::seed_from_u64(13);
    let (begun, mut n_lives) = (Instant::now(), 0);
    while begun.elapsed().as_secs_f64() < seconds {
        soak.live_and_die(&mut rng);
        n_lives += 1;
        if n_lives % 20 == 0 {
            soak.check_store();
        }
    }
    let lasted = begun.elapsed().as_secs_f64();
    soak.place.run("doctor --json").ok();
    soak.check_store();
    let n_polls = soak.check_requests();
    tell(&format!(
        "{n_lives} lives in {lasted:.0} s, {n_polls} polls, each life ended by SIGKILL"
    ));
    let rows = lines(&soak.place.run("ls --elements --json").ok());
    assert_eq!(rows.len(), N_PAGES + soak.bad.len());
    // Starting takes a while, in which nothing is polled.
    let is_busy = n_polls as f64 > 0.2 * POLLS_PER_SECOND * lasted;
    assert!(is_busy, "{n_polls} polls in {lasted} s");

    // And it goes on as if nothing had happened.
    let last = soak.place.run("run --quiet --for 2s");
    assert!(matches!(last.code, 0 | 3), "{}", last.stderr);
    soak.check_store();
}

#[expect(clippy::print_stderr, reason = "for whoever runs it for long")]
fn tell(report: &str) {
    eprintln!("{report}");
}
