//! What is simulated is what ships: the simulator and the engine ask for the same
//! elements, for the same reasons, at the same times.

use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_engine::clock;
use springtide_engine::origin::{Origin, SiteSettings};
use springtide_engine::settings::{FirstPass, GroupKey, GroupRule, Settings};
use springtide_engine::{Event, Until, register};
use springtide_policy::agenda::{self, FirstPolls};
use springtide_policy::schedule::{Choice, Shadow, Terms};
use springtide_policy::{Budget, Element, Elements, Groups, Purpose, Rate, Span, Time, Weight};
use springtide_sim::project::{Asked, Project, Ticks, play};
use springtide_sim::world::World as Simulated;
use springtide_store::{Fact, Host, Robots, RobotsAnswer, SourceKind, Sqlite, Store};

use crate::run::settings;
use crate::world::{BEGINNING, World};

/// The engine's clock: timers of whole milliseconds.
struct EngineTicks;

impl Ticks for EngineTicks {
    fn time(&self, millis: i64) -> Time {
        clock::time(springtide_store::Moment(millis))
    }

    fn sleep(&self, wake_at: Time, now: i64) -> i64 {
        let wait = clock::until(wake_at, springtide_store::Moment(now));
        (wait.as_micros() as i64).div_euclid(1000).max(1)
            + i64::from(wait.as_millis() > 0 && wait.as_micros() % 1000 != 0)
    }
}

/// A project of pages on a few hosts, drawn from a seed.
struct Drawn {
    n_hosts: usize,
    n_pages: usize,
    gap_seconds: f64,
    polls_per_day: f64,
    audit: f64,
    first_pass: FirstPass,
    seed: u64,
}

impl Drawn {
    fn new(seed: u64) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        Self {
            n_hosts: rng.random_range(1..5),
            n_pages: rng.random_range(5..40),
            gap_seconds: rng.random_range(1..30) as f64 / 10.0,
            polls_per_day: rng.random_range(20_000.0..400_000.0),
            audit: if rng.random() { 0.1 } else { 0.0 },
            first_pass: if rng.random() {
                FirstPass::Free
            } else {
                FirstPass::Counted
            },
            seed,
        }
    }
}

/// Seconds that are played.
const SECONDS: i64 = 300;

#[tokio::test(start_paused = true)]
async fn pages_are_asked_for_in_the_same_order_at_the_same_times() {
    for seed in 0..12 {
        check(&Drawn::new(seed)).await;
    }
}

async fn check(drawn: &Drawn) {
    let world = World {
        seed: drawn.seed,
        ..World::new()
    };
    let began = world.network.clock().now();
    let mut rng = Pcg64::seed_from_u64(drawn.seed ^ 1);
    let origins: Vec<Origin> = (0..drawn.n_hosts)
        .map(|host| {
            let rates = (0..drawn.n_pages)
                .map(|_| Rate::per_day(10_f64.powf(rng.random_range(2.0..4.5))).unwrap());
            let settings = SiteSettings {
                seed: drawn.seed + host as u64,
                rates: rates.collect(),
                ..SiteSettings::default()
            };
            Origin::start_in(&world.network, &format!("h{host}.example"), settings)
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let settings = settings_of(drawn, &origins, folder.path());
    let simulated = prepare(drawn, &settings, &origins, folder.path(), began.0);

    let until = Until {
        span: Some(std::time::Duration::from_secs(SECONDS as u64)),
        ..Until::default()
    };
    let (_, events) = world.run(folder.path(), settings.clone(), until).await;
    let shipped: Vec<Asked> = events
        .iter()
        .filter_map(|event| match event {
            Event::Polled(polled) => Some(Asked {
                at: polled.at.0,
                element: polled.element.index(),
                purpose: polled.purpose,
                changed: polled.change == Some(springtide_store::ChangeKind::Changed),
            }),
            _ => None,
        })
        .collect();

    let mut played = Vec::new();
    let project = project_of(drawn, &simulated);
    let span = (began.0, began.0 + SECONDS * 1000);
    play(&simulated, &project, &EngineTicks, span, &mut |asked| {
        played.push(asked)
    });
    assert!(played.len() > drawn.n_pages, "{}", played.len());
    for (number, (played, shipped)) in played.iter().zip(&shipped).enumerate() {
        assert_eq!(played, shipped, "poll {number} of seed {}", drawn.seed);
    }
    // The last may have been cut off by the end.
    let differ = played.len().abs_diff(shipped.len());
    assert!(
        differ <= drawn.n_hosts,
        "{} {}",
        played.len(),
        shipped.len()
    );
    let n_audits = played
        .iter()
        .filter(|asked| asked.purpose == Purpose::Audit)
        .count();
    assert_eq!(n_audits > 0, drawn.audit > 0.0, "{n_audits}");
}

fn settings_of(drawn: &Drawn, origins: &[Origin], folder: &Path) -> Settings {
    let lines: Vec<String> = (0..drawn.n_pages)
        .flat_map(|page| origins.iter().map(move |o| o.url(&o.site().path(page))))
        .collect();
    let file = folder.join("urls.txt");
    std::fs::write(&file, lines.join("\n")).unwrap();
    let mut settings = settings(&[("list", SourceKind::List, String::new())]);
    settings.sources[0].file = Some(file);
    settings.budget.per_day = drawn.polls_per_day;
    settings.budget.audit = drawn.audit;
    settings.budget.first_pass = drawn.first_pass;
    settings.groups = vec![GroupRule {
        pattern: "*".to_owned(),
        key: GroupKey::Host,
        gap: Span::days(drawn.gap_seconds / 86_400.0).unwrap(),
        concurrency: 2,
    }];
    settings
}

/// Takes in the pages, whose robots.txt are known; says what there is to simulate.
fn prepare(
    drawn: &Drawn,
    settings: &Settings,
    origins: &[Origin],
    folder: &Path,
    began: i64,
) -> Simulated {
    let now = springtide_store::Moment(began);
    let mut store = Sqlite::create_or_open(folder.join(".springtide")).unwrap();
    register::register(&mut store, settings, now, &mut |_| {}).unwrap();
    let mut groups = Groups::new();
    let mut facts = Vec::new();
    for group in store.groups().unwrap() {
        assert_eq!(groups.add(group.parent), group.id);
        if group.parent.is_none() {
            facts.push(Fact::Host(Host {
                group: group.id,
                requested_at: None,
                not_before: None,
                not_before_reason: None,
                n_failures: 0,
                robots: vec![Robots {
                    origin: format!("http://{}", group.name),
                    fetched_at: now,
                    answer: RobotsAnswer::None,
                }],
            }));
        }
    }
    store.commit(&facts).unwrap();
    let end = clock::wall_time(springtide_store::Moment(began + SECONDS * 1000));
    let start = clock::wall_time(now);
    let (mut elements, mut starts, mut times) = (Vec::new(), vec![0], Vec::new());
    let n = drawn.n_pages * drawn.n_hosts;
    for (index, kept) in store
        .elements(None, springtide_store::ElementId(0), n + 1)
        .unwrap()
        .into_iter()
        .enumerate()
    {
        assert_eq!(kept.element.id.index(), index);
        elements.push(Element {
            weight: Weight::ONE,
            group: Some(kept.element.group),
            ..Element::default()
        });
        let (page, host) = (index / drawn.n_hosts, index % drawn.n_hosts);
        let changes = origins[host].site().changes(page, end);
        let days = |at: std::time::SystemTime| {
            at.duration_since(start).unwrap_or_default().as_secs_f64() / 86_400.0
        };
        times.extend(changes.into_iter().filter(|&at| at > start).map(days));
        starts.push(times.len());
    }
    assert_eq!(elements.len(), n);
    store.close().unwrap();
    let elements: Elements = elements.into_iter().collect();
    Simulated::recorded(
        elements,
        groups,
        Vec::new(),
        (starts, times),
        SECONDS as f64 / 86_400.0,
    )
}

fn project_of(drawn: &Drawn, world: &Simulated) -> Project {
    let gap = Span::days(drawn.gap_seconds / 86_400.0).unwrap();
    let hosts = (0..world.groups().len() as u32)
        .filter_map(springtide_store::GroupId::new)
        .filter(|&group| world.groups().parent(group).is_none());
    Project {
        choice: Choice::Learned,
        terms: Terms {
            shadow: Shadow::Learner,
            ..Terms::new(Budget::per_day(drawn.polls_per_day).unwrap())
        },
        agenda: agenda::Settings {
            audit: drawn.audit,
            first_pass: match drawn.first_pass {
                FirstPass::Free => FirstPolls::Free,
                FirstPass::Counted => FirstPolls::Counted,
            },
            window: None,
        },
        limits: hosts.map(|host| (host, gap, 2)).collect(),
        seed: drawn.seed,
    }
}

#[test]
fn the_worlds_differ_in_what_matters() {
    let drawn: Vec<Drawn> = (0..12).map(Drawn::new).collect();
    assert!(drawn.iter().any(|d| d.audit > 0.0) && drawn.iter().any(|d| d.audit == 0.0));
    assert!(drawn.iter().any(|d| d.first_pass == FirstPass::Counted));
    assert!(drawn.iter().any(|d| d.n_hosts == 1) && drawn.iter().any(|d| d.n_hosts > 2));
    assert!(BEGINNING.0 > 0);
}
