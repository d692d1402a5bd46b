//! What is promised of a process that is killed: nothing finished is lost or doubled,
//! nothing is half there, and whoever comes after is as polite.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_engine::FAIL_POINTS;
use springtide_engine::origin::{Origin, SiteSettings};
use springtide_policy::Rate;
use springtide_store::{Bodies, ElementId, Reader, Sqlite};

use crate::Place;

/// Kills at random moments, and at each fail point.
const N_RANDOM: u32 = 110;
const N_AT_EACH: u32 = 16;
/// Between two requests, in seconds.
const GAP: f64 = 0.01;

fn place(origin: &Origin) -> Place {
    Place::with(
        "springtide.toml",
        format!(
            "[budget]\npolls = \"400/s\"\n[http]\nallow_private = [\"127.0.0.1\"]\n\
             [[group]]\nmatch = \"127.0.0.1\"\nrate = \"100/s\"\nconcurrency = 4\n\
             [source.docs]\nkind = \"sitemap\"\nurl = \"{}\"\n",
            origin.url("/sitemap.xml")
        ),
    )
}

/// Lines that tell of a poll that is kept.
fn n_told(stderr: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(stderr);
    let is_poll = |line: &&str| {
        let first = line.split_whitespace().next().unwrap_or_default();
        matches!(first, "added" | "changed" | "unchanged" | "gone" | "back")
    };
    text.lines().filter(is_poll).count() as u64
}

/// What must be true of a store, whatever happened. Says how many polls it has.
pub(crate) fn inspect(place: &Place) -> u64 {
    let folder = place.path(".springtide");
    let store = Sqlite::read_only(&folder).unwrap();
    let bodies = Bodies::read_only(folder.join("bodies")).unwrap();
    let problems = store.check(&mut |body| bodies.contains(body)).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    let mut n_polls = 0;
    for kept in store.elements(None, ElementId(0), 10_000).unwrap() {
        let polls = store.polls(kept.element.id, 100_000).unwrap();
        assert_eq!(polls.len() as u64, u64::from(kept.history.n_polls));
        assert_eq!(
            polls.first().map(|poll| poll.at),
            kept.history.polled_at,
            "{kept:?}"
        );
        n_polls += polls.len() as u64;
        if let Some(copy) = kept.copy {
            bodies.get(copy.body).unwrap();
        }
    }
    let totals: u64 = store
        .sources()
        .unwrap()
        .iter()
        .map(|s| s.totals.n_polls)
        .sum();
    assert_eq!(totals, n_polls);
    n_polls
}

#[test]
fn a_killed_run_loses_nothing_doubles_nothing_and_is_as_polite() {
    let origin = Origin::start(SiteSettings {
        rates: vec![Rate::per_day(0.3 * 86_400.0).unwrap(); 60],
        ..SiteSettings::default()
    })
    .unwrap();
    let place = place(&origin);
    let mut rng = Pcg64::seed_from_u64(7);
    let mut n_told_in_all = 0;
    let mut died: BTreeMap<&str, u32> = BTreeMap::new();

    let at_points = FAIL_POINTS
        .iter()
        .flat_map(|point| (1..=N_AT_EACH).map(move |n| Some((*point, n))));
    let mut lives: Vec<_> = at_points.chain((0..N_RANDOM).map(|_| None)).collect();
    for index in (1..lives.len()).rev() {
        lives.swap(index, rng.random_range(0..=index));
    }
    for (number, life) in lives.into_iter().enumerate() {
        let mut command = place.command("run -v --for 0.7s");
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some((point, n)) = life {
            command.env("SPRINGTIDE_FAIL_POINT", format!("{point}:{n}"));
        }
        let mut child = command.spawn().unwrap();
        if life.is_none() {
            std::thread::sleep(Duration::from_millis(rng.random_range(20..400)));
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        n_told_in_all += n_told(&output.stderr);
        if let Some((point, _)) = life {
            // A second is long enough for each of them to come by.
            *died.entry(point).or_default() += u32::from(output.status.code().is_none());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("panicked"), "{text}");
        if number % 10 == 0 && place.path(".springtide/store.db").exists() {
            inspect(&place);
        }
    }
    for point in FAIL_POINTS {
        // Few polls find a change, and a slow machine makes few polls.
        assert!(died.get(point).is_some_and(|n| *n >= 2), "{died:?}");
    }
    place.run("run --once").ok();
    let n_kept = inspect(&place);
    assert!(n_kept > 300, "{n_kept}");
    assert!(
        n_kept >= n_told_in_all,
        "{n_kept} kept, {n_told_in_all} told"
    );
    let requests = origin.requests();
    let n_asked = requests.iter().filter(|r| r.path != "/robots.txt").count() as u64;
    assert!(n_kept <= n_asked, "{n_kept} kept, {n_asked} asked");

    // A hundred requests a second, through all of it; their way here takes a little
    // longer or shorter each time.
    for span in requests.windows(11) {
        let took = span[10].received_at.duration_since(span[0].received_at);
        let took = took.unwrap_or_default().as_secs_f64();
        assert!(took >= 10.0 * GAP - 0.02, "ten requests in {took} s");
    }
    let doctor = place.run("doctor --json").ok();
    assert!(doctor.stdout.contains("\"sound\":true") || doctor.stdout.contains("\"sound\": true"));
}

/// A listing counts as read once all that it names is kept: whoever dies in between
/// reads it again.
#[test]
fn a_run_killed_in_the_middle_of_a_listing_loses_none_of_it() {
    const N_PAGES: usize = 5_000;
    let origin = Origin::start(SiteSettings {
        rates: vec![Rate::per_day(0.0).unwrap(); N_PAGES],
        ..SiteSettings::default()
    })
    .unwrap();
    for n in 1..12 {
        let place = place(&origin);
        let mut command = place.command("run --quiet --for 1m");
        command.env("SPRINGTIDE_FAIL_POINT", format!("after-commit:{n}"));
        assert!(command.status().unwrap().code().is_none(), "{n}");
        place.run("run --quiet --max-polls 2 --for 1m").ok();
        let store = Sqlite::read_only(place.path(".springtide")).unwrap();
        let totals = store.sources().unwrap()[0].totals;
        assert_eq!(totals.n_elements, N_PAGES as u64, "killed at {n}");
        let n_kept = store.elements(None, ElementId(0), 10_000).unwrap().len();
        assert_eq!(n_kept, N_PAGES + 1, "killed at {n}");
    }
}
