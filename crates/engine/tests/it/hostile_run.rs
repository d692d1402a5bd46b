//! A run among servers that mean us ill.

use std::time::Duration;

use springtide_engine::Until;
use springtide_engine::origin::{Origin, SiteSettings, hostile};
use springtide_engine::settings::SourceSettings;
use springtide_policy::Rate;
use springtide_store::{SourceKind, State};

use crate::run::{elements, run, settings};

/// Memory that a process may have, in kilobytes. Servers and engine share this one.
const MOST_MEMORY: u64 = 500_000;
const SECONDS: f64 = 8.0;

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.unwrap().parse().unwrap()
}

#[test]
fn bad_servers_are_told_of_and_the_good_one_keeps_its_rate() {
    let good = Origin::start(SiteSettings {
        rates: vec![Rate::per_day(0.0).unwrap(); 40],
        ..SiteSettings::default()
    })
    .unwrap();
    // Each of them is a host of its own.
    let bad: Vec<(&str, Origin)> = hostile::all()
        .into_iter()
        .enumerate()
        .map(|(number, (name, behaviour))| {
            let address = format!("127.0.1.{}:0", number + 1);
            let origin = Origin::start_at(address.parse().unwrap(), SiteSettings::default());
            let origin = origin.unwrap();
            origin.script("/page.html", behaviour);
            (name, origin)
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("bad.txt");
    let urls: String = bad
        .iter()
        .map(|(_, origin)| origin.url("/page.html") + "\n")
        .collect();
    std::fs::write(&list, urls).unwrap();
    let mut settings = settings(&[
        ("good", SourceKind::Sitemap, good.url("/sitemap.xml")),
        ("bad", SourceKind::List, String::new()),
    ]);
    settings.sources[1] = SourceSettings {
        file: Some(list),
        ..settings.sources[1].clone()
    };
    settings.budget.per_day = 30.0 * 86_400.0;
    settings.http.timeout = Duration::from_secs(2);
    settings.http.max_body = 2 << 20;
    let before = peak_memory();
    let until = Until {
        span: Some(Duration::from_secs_f64(SECONDS)),
        ..Until::default()
    };
    let (ended, _) = run(folder.path(), settings, until);

    assert!(
        peak_memory() < before.max(150_000) + MOST_MEMORY / 2,
        "{}",
        peak_memory()
    );
    assert!(peak_memory() < MOST_MEMORY, "{}", peak_memory());
    // Thirty polls a second in all, of which the bad ones, that are left alone after they
    // have failed, take a few.
    let n_good = good.n_requests() as f64;
    assert!(
        n_good >= 0.7 * 30.0 * SECONDS,
        "{n_good} of {}",
        30.0 * SECONDS
    );
    let all = elements(folder.path());
    let of_bad = |kept: &&springtide_store::Kept| kept.element.locator.contains("//127.0.1.");
    assert_eq!(all.iter().filter(of_bad).count(), bad.len());
    for kept in all.iter().filter(of_bad) {
        let name = bad
            .iter()
            .find(|(_, origin)| kept.element.locator == origin.url("/page.html"))
            .unwrap()
            .0;
        assert!(kept.history.n_polls > 0, "{name}");
        // Some mean no harm, and one sends a page that is merely odd.
        if kept.state != State::Ok {
            assert!(kept.failure.is_some(), "{name}");
        }
    }
    let n_failing = all
        .iter()
        .filter(|kept| kept.state == State::Failing)
        .count();
    assert!(
        n_failing >= bad.len() * 3 / 4,
        "{n_failing} of {}",
        bad.len()
    );
    assert!(ended.n_failed > 0);
}
