//! How fresh the engine keeps a copy, and whether it knows.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use springtide_engine::origin::{Site, SiteSettings};
use springtide_engine::settings::PolicyName;
use springtide_engine::{Event, clock};
use springtide_policy::plan::Rule;
use springtide_policy::report::share_interval;
use springtide_policy::schedule::{Choice, Terms};
use springtide_policy::{Budget, Element, Elements, Groups, Order, Rate};
use springtide_sim::world::World as Simulated;
use springtide_sim::{Setup, Start, run as simulate};
use springtide_store::{Moment, Reader, SourceKind, Sqlite};

use crate::run::settings;
use crate::world::{BEGINNING, World};

const N_PAGES: usize = 160;
const N_DIRECTORIES: usize = 8;
const DAYS: f64 = 100.0;
const WARMUP: f64 = 45.0;

/// Changes a day: half of the directories change every twenty days in the middle, give
/// or take a factor of twenty; the others hardly ever.
fn rates() -> Vec<Rate> {
    (0..N_PAGES)
        .map(|page| {
            let (row, directory) = (page / N_DIRECTORIES, page % N_DIRECTORIES);
            let place = (row as f64 * 0.618_033_988_749_895 + directory as f64 * 0.37).fract();
            let place = place.clamp(0.01, 0.99);
            // The logistic quantile, close to the normal one.
            let deviate = (place / (1.0 - place)).ln() / 1.702;
            let (median, spread) = if directory < 4 {
                (20.0, 3.0)
            } else {
                (2000.0, 1.0)
            };
            Rate::per_day((spread * deviate).exp() / median).unwrap()
        })
        .collect()
}

/// When each page was last polled, and how fresh that made the copies.
struct Copies<'a> {
    site: &'a Site,
    polls: Vec<Vec<SystemTime>>,
}

impl<'a> Copies<'a> {
    fn new(site: &'a Site, events: &[Event]) -> Self {
        let mut polls = vec![Vec::new(); site.n_pages()];
        for event in events {
            if let Event::Polled(polled) = event
                && polled.error.is_none()
                && let Some(page) = site.page(&path_of(&polled.locator))
            {
                polls[page].push(clock::wall_time(polled.at));
            }
        }
        Self { site, polls }
    }

    /// The share of copies that were fresh, over a span of time.
    fn freshness(&self, from: SystemTime, to: SystemTime) -> f64 {
        let whole = to.duration_since(from).unwrap().as_secs_f64();
        let fresh: f64 = (0..self.polls.len())
            .map(|page| self.fresh_seconds(page, from, to))
            .sum();
        fresh / (whole * self.polls.len() as f64)
    }

    fn fresh_seconds(&self, page: usize, from: SystemTime, to: SystemTime) -> f64 {
        let changes = self.site.changes(page, to);
        let polls = &self.polls[page];
        let mut fresh = 0.0;
        for (index, &polled_at) in polls.iter().enumerate() {
            let until = polls.get(index + 1).copied().unwrap_or(to).min(to);
            let stale_at = changes.iter().copied().find(|&at| at > polled_at);
            let end = stale_at.map_or(until, |at| at.min(until));
            let begin = polled_at.max(from);
            fresh += end.duration_since(begin).unwrap_or_default().as_secs_f64();
        }
        fresh
    }
}

fn path_of(locator: &str) -> String {
    url::Url::parse(locator).unwrap().path().to_owned()
}

/// A number of days after the beginning.
fn after(days: f64) -> SystemTime {
    clock::wall_time(BEGINNING) + Duration::from_secs_f64(days * 86_400.0)
}

/// What the simulator says of a policy, over a few seeds.
fn predicted(choice: impl Fn(Arc<[Rate]>) -> Choice, per_day: f64) -> f64 {
    let mut groups = Groups::new();
    let host = groups.add(None);
    let directories: Vec<_> = (0..N_DIRECTORIES).map(|_| groups.add(Some(host))).collect();
    let elements: Elements = (0..N_PAGES)
        .map(|page| Element {
            group: Some(directories[page % N_DIRECTORIES]),
            ..Element::default()
        })
        .collect();
    let rates: Arc<[Rate]> = rates().into();
    let freshness = |seed| {
        let world = Simulated::poisson(elements.clone(), groups.clone(), rates.clone(), DAYS, seed);
        let setup = Setup {
            choice: choice(rates.clone()),
            terms: Terms::new(Budget::per_day(per_day).unwrap()),
            warmup: WARMUP,
            seed,
            last_modified: 0.0,
            hints: None,
            parts: None,
            start: Start::Warm,
            later_budgets: Vec::new(),
        };
        simulate(&world, &setup, &mut |_| {}).all.freshness
    };
    (1..=8).map(freshness).sum::<f64>() / 8.0
}

/// With one poll for ten changes, learned is better than uniform by what the simulator
/// says, and uniform better than proportional.
#[tokio::test(start_paused = true)]
async fn learned_is_as_much_fresher_than_uniform_as_the_simulator_says() {
    let per_day = rates().iter().map(|rate| rate.as_per_day()).sum::<f64>() / 10.0;
    let uniform = |rates| Choice::Planned {
        rule: Rule::Uniform,
        order: Order::Fixed,
        rates,
    };
    let gain = predicted(|_| Choice::Learned, per_day) - predicted(uniform, per_day);
    assert!(gain > 0.015, "{gain}");

    let world = World::new();
    let origin = world.site(
        "docs.example",
        SiteSettings {
            rates: rates(),
            n_directories: N_DIRECTORIES,
            page_bytes: 300,
            ..SiteSettings::default()
        },
    );
    let folder = tempfile::tempdir().unwrap();
    let policies = [
        PolicyName::Learned,
        PolicyName::Uniform,
        PolicyName::Proportional,
    ];
    let runs = policies
        .into_iter()
        .enumerate()
        .map(async |(number, name)| {
            let mut settings =
                settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
            settings.budget.per_day = per_day;
            settings.policy.name = name;
            let folder = folder.path().join(number.to_string());
            let (_, events) = world.run_for(&folder, &settings, DAYS * 86_400.0).await;
            Copies::new(origin.site(), &events).freshness(after(WARMUP), after(DAYS))
        });
    let freshness = join_all(runs).await;
    let [learned, uniform, proportional] = freshness[..] else {
        panic!("three runs");
    };
    // One run of each, on the same changes: the difference is good to about a
    // hundredth.
    assert!(
        learned - uniform >= 0.8 * gain - 0.01,
        "{learned} {uniform}, predicted {gain}"
    );
    assert!(uniform > proportional, "{uniform} {proportional}");
}

/// What audit polls say of a run.
fn measured(folder: &Path, since: Moment) -> (f64, f64) {
    let store = Sqlite::read_only(folder.join(".springtide")).unwrap();
    let audits = store.audits(since).unwrap();
    let n_fresh = audits.iter().filter(|audit| audit.is_fresh).count() as u64;
    share_interval(n_fresh, audits.len() as u64, 0.9).unwrap()
}

/// Of thirty runs, the truth is in the 90 % interval of at least twenty-one: fewer
/// have a chance of about 1 in 2,000.
#[tokio::test(start_paused = true)]
async fn measured_freshness_holds_the_truth() {
    const SECONDS: f64 = 4.0;
    let mut n_held = 0;
    for seed in 0..30 {
        let world = World::with_seed(seed);
        let origin = world.site(
            "docs.example",
            SiteSettings {
                seed,
                rates: (0..60)
                    .map(|page| Rate::per_day(0.02 * f64::from(page % 12) * 86_400.0).unwrap())
                    .collect(),
                page_bytes: 300,
                ..SiteSettings::default()
            },
        );
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
        settings.budget.per_day = 40.0 * 86_400.0;
        settings.budget.audit = 0.5;
        let (_, events) = world.run_for(folder.path(), &settings, SECONDS).await;
        let since = events.iter().rev().find_map(|event| match event {
            Event::Polled(polled) if polled.n_new > 0 => Some(polled.at),
            _ => None,
        });
        let since = since.unwrap();
        let (from, to) = (clock::wall_time(since), after(SECONDS / 86_400.0));
        let truth = Copies::new(origin.site(), &events).freshness(from, to);
        let (low, high) = measured(folder.path(), since);
        n_held += u32::from((low..=high).contains(&truth));
    }
    assert!(n_held >= 21, "{n_held} of 30");
}
