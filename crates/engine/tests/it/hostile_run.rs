//! A run among servers that mean us ill.

use std::time::Duration;

use springtide_engine::origin::{Origin, SiteSettings, hostile};
use springtide_engine::settings::SourceSettings;
use springtide_policy::Rate;
use springtide_store::{SourceKind, State};

use crate::run::{elements, settings};
use crate::world::World;

/// Memory that a process may have, in kilobytes. Servers and engine share this one.
const MOST_MEMORY: u64 = 500_000;
const SECONDS: f64 = 20.0;

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn bad_servers_are_told_of_and_the_good_one_keeps_its_rate() {
    let world = World::new();
    let good = world.site(
        "good.example",
        SiteSettings {
            rates: vec![Rate::per_day(0.0).unwrap(); 40],
            ..SiteSettings::default()
        },
    );
    // Each of them is a host of its own.
    let bad: Vec<(&str, Origin)> = hostile::all()
        .into_iter()
        .map(|(name, behaviour)| {
            let origin = world.site(&format!("{name}.bad.example"), SiteSettings::default());
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
    let (ended, _) = world.run_for(folder.path(), &settings, SECONDS).await;

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
        n_good >= 0.85 * 30.0 * SECONDS,
        "{n_good} of {}",
        30.0 * SECONDS
    );
    let all = elements(folder.path());
    let of_bad = |kept: &&springtide_store::Kept| kept.element.locator.contains(".bad.example/");
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
