//! What is simulated is what ships: the simulator and the engine ask for the same
//! elements, for the same reasons, at the same times.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_engine::clock;
use springtide_engine::origin::search::SearchServer;
use springtide_engine::origin::{Origin, SiteSettings};
use springtide_engine::settings::{
    Burst, FirstPass, GroupKey, GroupRule, SearchSettings, Settings,
};
use springtide_engine::{Event, RunOptions, register};
use springtide_policy::agenda::rows::{self, SearchSource, host_limit};
use springtide_policy::agenda::{self, FirstPolls};
use springtide_policy::query::{Live, Method, Retrieval, RowsBuilder, Split, StopWords, terms_in};
use springtide_policy::schedule::{Choice, Quota, Shadow, Terms};
use springtide_policy::{
    Budget, Element, Elements, Groups, Objective, Purpose, Rate, Span, Time, Weight,
};
use springtide_sim::project::{
    Asked, Page, Project, Question, SearchBox, Shop, Ticks, play, play_with,
};
use springtide_sim::world::World as Simulated;
use springtide_store::{
    ElementId, Fact, Group, GroupId, Moment, Reader, Robots, RobotsAnswer, Role, SourceKind,
    Sqlite, Writer,
};

use crate::run::settings;
use crate::search::{shop, source as shop_settings};
use crate::world::World;

/// The engine's clock: timers of whole milliseconds.
struct EngineTicks;

impl Ticks for EngineTicks {
    fn time(&self, millis: i64) -> Time {
        clock::time(Moment(millis))
    }

    fn sleep(&self, wake_at: Time, now: i64) -> i64 {
        let wait = clock::until(wake_at, Moment(now));
        (wait.as_micros() as i64).div_euclid(1000).max(1)
            + i64::from(wait.as_millis() > 0 && !wait.as_micros().is_multiple_of(1000))
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

/// Seconds that are played of pages, and of a shop.
const SECONDS: i64 = 300;
const SHOP_SECONDS: i64 = 40;

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

    let options = RunOptions {
        span: Some(Duration::from_secs(SECONDS as u64)),
        ..RunOptions::default()
    };
    let (_, events) = world.run(folder.path(), settings.clone(), options).await;
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

/// A host without a robots.txt, as is known.
fn known_host(group: GroupId, name: &str, now: Moment) -> Fact {
    let robots = Robots {
        origin: format!("http://{name}"),
        fetched_at: now,
        answer: RobotsAnswer::None,
    };
    Fact::Robots(group, vec![robots])
}

/// Takes in the pages, whose robots.txt are known; says what there is to simulate.
fn prepare(
    drawn: &Drawn,
    settings: &Settings,
    origins: &[Origin],
    folder: &Path,
    began: i64,
) -> Simulated {
    let now = Moment(began);
    let mut store = Sqlite::create_or_open(folder.join(".springtide")).unwrap();
    register::reconcile(&mut store, settings, now, &mut |_| {}).unwrap();
    let mut groups = Groups::new();
    let mut facts = Vec::new();
    for group in store.groups().unwrap() {
        assert_eq!(groups.add(group.parent), group.id);
        if group.parent.is_none() {
            facts.push(known_host(group.id, &group.name, now));
        }
    }
    store.commit(&facts).unwrap();
    let end = clock::wall_time(Moment(began + SECONDS * 1000));
    let start = clock::wall_time(now);
    let (mut elements, mut starts, mut times) = (Vec::new(), vec![0], Vec::new());
    let n = drawn.n_pages * drawn.n_hosts;
    for (index, kept) in store
        .elements(None, ElementId(0), n + 1)
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
        let days =
            |at: SystemTime| at.duration_since(start).unwrap_or_default().as_secs_f64() / 86_400.0;
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
        .filter_map(GroupId::new)
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
        n_expected: None,
        seed: drawn.seed,
    }
}

/// A shop of which some rows are ours, as the simulator asks it.
struct SimulatedShop<'a> {
    server: &'a SearchServer,
    /// Our rows by their numbers in the shop, and when each last came.
    ours: BTreeMap<usize, ElementId>,
    came_at: BTreeMap<ElementId, SystemTime>,
}

impl SimulatedShop<'_> {
    fn has_changed(&mut self, number: usize, row: ElementId, at: i64) -> bool {
        let at = clock::wall_time(Moment(at));
        let catalogue = self.server.catalogue();
        let before = self.came_at.insert(row, at);
        // A price may come again.
        let price_at = |at| catalogue.row_at(number, at).price;
        before.is_some_and(|before| price_at(before) != price_at(at))
    }
}

impl SearchBox for SimulatedShop<'_> {
    fn page(&mut self, query: &str, number: u64, at: i64) -> Page {
        let found = self.server.catalogue().find(query);
        let (size, top) = (self.server.settings().page_size, self.server.settings().top);
        let first = (number as usize - 1) * size;
        let results: Vec<usize> = found
            .iter()
            .copied()
            .take(top)
            .skip(first)
            .take(size)
            .collect();
        let ours: Vec<(usize, ElementId)> = results
            .iter()
            .filter_map(|number| Some((*number, *self.ours.get(number)?)))
            .collect();
        Page {
            n_results: results.len() as u64,
            total: Some(found.len() as f64),
            rows: ours
                .into_iter()
                .map(|(number, row)| (row, self.has_changed(number, row, at)))
                .collect(),
        }
    }

    fn row(&mut self, row: ElementId, at: i64) -> bool {
        let number = self.ours.iter().find(|(_, id)| **id == row);
        let number = *number.expect("a row of ours").0;
        self.has_changed(number, row, at)
    }
}

#[tokio::test(start_paused = true)]
async fn a_search_source_is_asked_the_same_questions_within_its_quota() {
    for seed in 0..5 {
        check_shop(seed).await;
    }
}

async fn check_shop(seed: u64) {
    let mut rng = Pcg64::seed_from_u64(seed);
    let (n_brands, n_each) = (rng.random_range(2..8), rng.random_range(5..30));
    let n = n_brands * n_each;
    let local: Vec<usize> = (0..n).filter(|_| rng.random::<f64>() < 0.7).collect();
    let rates = (0..n).map(|_| Rate::per_day(10_f64.powf(rng.random_range(2.0..5.0))).unwrap());
    let shop = shop(n_brands, n_each, rates.collect());
    let quota = rng.random_range(2..8);
    let by_id: bool = rng.random();

    let world = World {
        seed,
        ..World::new()
    };
    let began = world.network.clock().now();
    let server = SearchServer::start_in(&world.network, "shop.example", shop);
    let folder = tempfile::tempdir().unwrap();
    let mut settings = shop_settings(&server, folder.path(), &local);
    let search = settings.sources[0].search.as_mut().unwrap();
    search.quota = Some(Burst {
        n_polls: quota,
        span: Span::days(1.0 / 86_400.0).unwrap(),
    });
    search.staleness = None;
    if !by_id {
        search.by_id = None;
    }
    let search = search.clone();
    settings.budget.per_day = f64::from(quota) * 86_400.0 * 0.9;
    settings.budget.audit = 0.0;

    // The shop's host and what its robots.txt says are known.
    let mut store = Sqlite::create_or_open(folder.path().join(".springtide")).unwrap();
    register::reconcile(&mut store, &settings, began, &mut |_| {}).unwrap();
    let mut groups = Groups::new();
    for group in store.groups().unwrap() {
        groups.add(group.parent);
    }
    let host = groups.add(None);
    let group = Group {
        id: host,
        parent: None,
        name: "shop.example".to_owned(),
    };
    store
        .commit(&[Fact::Group(group), known_host(host, "shop.example", began)])
        .unwrap();
    let mut ours = BTreeMap::new();
    let (mut known, mut row) = (Vec::new(), Element::default());
    for kept in store.elements(None, ElementId(0), n + 2).unwrap() {
        if kept.element.role != Role::Listing {
            let number = server.catalogue().number(&kept.element.locator).unwrap();
            ours.insert(number, kept.element.id);
            row.group = Some(kept.element.group);
            known.push((kept.element.id, number));
        }
    }
    store.close().unwrap();

    let options = RunOptions {
        span: Some(Duration::from_secs(SHOP_SECONDS as u64)),
        ..RunOptions::default()
    };
    world.run(folder.path(), settings.clone(), options).await;
    let millis = |at: SystemTime| clock::moment(at).0;
    let shipped: Vec<(i64, String)> = server
        .requests()
        .iter()
        .map(|request| (millis(request.received_at), request.path.clone()))
        .collect();

    let mut answers = SimulatedShop {
        server: &server,
        ours,
        came_at: BTreeMap::new(),
    };
    let source = decisions(&search, &known, &server, clock::time(began));
    let limit = host_limit(&[Quota::new(quota, Span::days(1.0 / 86_400.0).unwrap())]).unwrap();
    let nothing = Simulated::recorded(
        Elements::new(),
        groups,
        Vec::new(),
        (vec![0], Vec::new()),
        SECONDS as f64 / 86_400.0,
    );
    let project = Project {
        choice: Choice::Learned,
        terms: Terms {
            shadow: Shadow::Learner,
            ..Terms::new(Budget::per_day(settings.budget.per_day).unwrap())
        },
        agenda: agenda::Settings::default(),
        limits: vec![(host, limit.0, limit.1)],
        n_expected: Some((known.len() as u64).div_ceil(u64::from(search.page_size))),
        seed,
    };
    let mut shops = [Shop {
        source,
        group: host,
        row,
        answers: &mut answers,
    }];
    let mut played = Vec::new();
    let span = (began.0, began.0 + SHOP_SECONDS * 1000);
    let path_of = |question: Question| match question {
        Question::Page(text, page) => format!("/search?q={}&page={page}", encoded(&text)),
        Question::Row(id) => {
            let number = known.iter().find(|(row, _)| *row == id).unwrap().1;
            format!("/item/{}", server.catalogue().id(number))
        }
    };
    play_with(
        &nothing,
        &project,
        &mut shops,
        &EngineTicks,
        span,
        &mut |_| {},
        &mut |at, asked| {
            played.push((at, path_of(asked)));
        },
    );
    assert!(played.len() > 30, "{}", played.len());
    for (number, (played, shipped)) in played.iter().zip(&shipped).enumerate() {
        assert_eq!(played, shipped, "request {number} of seed {seed}");
    }
    let differ = played.len().abs_diff(shipped.len());
    assert!(differ <= 1, "{} {}", played.len(), shipped.len());
    assert!(server.most_in_span(Duration::from_secs(1)) <= quota as usize);
}

/// What is decided about a search source, made of its rows as the engine makes it.
fn decisions(
    search: &SearchSettings,
    known: &[(ElementId, usize)],
    server: &SearchServer,
    now: Time,
) -> SearchSource {
    let retrieval = Retrieval::new(
        u64::from(search.page_size),
        u64::from(search.top),
        Method::AllPages,
    )
    .unwrap();
    let settings = rows::Settings {
        has_by_id: search.by_id.is_some(),
        max_interval: search.max_interval,
        pause: search.pause,
        quota: search
            .quota
            .map(|quota| Quota::new(quota.n_polls, quota.span)),
        ..rows::Settings::new(retrieval, Objective::Freshness)
    };
    let rows_known = known.iter().map(|&(element, _)| rows::KnownRow {
        element,
        standing: rows::RowState::New,
        since: now,
        weight: Weight::ONE,
        staleness_weight: Weight::ONE,
    });
    let mut source = SearchSource::new(settings, rows_known);
    let generation = source.begin_queries();
    let stop_words = StopWords::english();
    let mut builder = RowsBuilder::new();
    let mut columns = BTreeMap::new();
    for &(_, number) in known {
        let row = server
            .catalogue()
            .row_at(number, server.catalogue().started_at());
        let mut terms = Vec::new();
        for (column, cell) in (0..).zip([&row.brand, &row.title]) {
            for term in terms_in(cell, Split::Words, &stop_words) {
                columns.entry(term.key.clone()).or_insert(column);
                terms.push(term);
            }
        }
        builder.add(terms, 1.0).unwrap();
    }
    let rows = builder.build();
    let mut classes = vec![0; rows.n_terms()];
    for (key, column) in columns {
        classes[rows.term(&key).unwrap().0 as usize] = column;
    }
    let live = Live::about(rows, retrieval, 2, |term| classes[term.0 as usize]).unwrap();
    source.set_queries(generation, live, []);
    source
}

/// A query as it is in an address.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[test]
fn the_worlds_differ_in_what_matters() {
    let drawn: Vec<Drawn> = (0..12).map(Drawn::new).collect();
    assert!(drawn.iter().any(|d| d.audit > 0.0) && drawn.iter().any(|d| d.audit == 0.0));
    assert!(drawn.iter().any(|d| d.first_pass == FirstPass::Counted));
    assert!(drawn.iter().any(|d| d.n_hosts == 1) && drawn.iter().any(|d| d.n_hosts > 2));
}
