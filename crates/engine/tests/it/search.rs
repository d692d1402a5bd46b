//! Search sources: rows behind a search box, kept fresh by queries.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use springtide_engine::clock::Clock;
use springtide_engine::origin::search::{
    Catalogue, Rates, Row, SearchServer, SearchSettings as Shop, Totals, Trouble,
};
use springtide_engine::settings::{
    AnswerShape, Burst, Difference, Headers, RowWeight, SearchSettings, SourceSettings, Staleness,
};
use springtide_engine::{EndReason, Event, RunOptions, RunScope, Settings, clock};
use springtide_policy::query::{Queries, Split};
use springtide_policy::{Objective, Rate, Span, Weight};
use springtide_sim::search::{Asker, SearchWorld, run as simulate};
use springtide_store::{
    Bodies, ChangeFilter, ElementId, Kept, Moment, Purpose, Reader, Reading, Role, SourceKind,
    Sqlite, State,
};

use crate::run::settings;
use crate::world::{World, for_seconds};

const SECOND: f64 = 1.0 / 86_400.0;

fn span(seconds: f64) -> Span {
    Span::days(seconds * SECOND).unwrap()
}

fn rate(per_second: f64) -> Rate {
    Rate::per_day(per_second / SECOND).unwrap()
}

/// A shop with so many brands of so many rows each.
pub(crate) fn shop(n_brands: usize, n_each: usize, rates: Vec<Rate>) -> Shop {
    let row = |n: usize| {
        let (brand, place) = (n % n_brands, n / n_brands);
        let id = format!("r{n:04}");
        let title = format!("thing{} colour{}", n % 97, place % 7);
        Row::new(&id, &format!("brand{brand}"), &title, &[])
    };
    Shop {
        rows: (0..n_brands * n_each).map(row).collect(),
        n_rows: 0,
        rates: Rates::Given(rates),
        ..Shop::default()
    }
}

/// A source that holds some rows of a shop, in a file in a folder.
pub(crate) fn source(server: &SearchServer, folder: &Path, local: &[usize]) -> Settings {
    let rows = folder.join("rows.csv");
    let catalogue = server.catalogue();
    let now = catalogue.clock().wall_time();
    let text = catalogue.csv(local.iter().copied(), now);
    std::fs::write(&rows, text).unwrap();
    let mut settings = settings(&[("shop", SourceKind::Search, server.search_url())]);
    settings.groups.clear();
    settings.sources[0].search = Some(SearchSettings {
        body: None,
        rows,
        attributes: vec![
            ("brand".to_owned(), Split::Words),
            ("title".to_owned(), Split::Words),
        ],
        page_size: 10,
        first_page: 1,
        top: 100,
        quota: Some(Burst {
            n_polls: 20,
            span: span(1.0),
        }),
        by_id: Some(server.item_url()),
        max_interval: None,
        pause: span(0.5),
        adds_unknown: false,
        answer: AnswerShape {
            results: "/results".to_owned(),
            id: "/key/id".to_owned(),
            total: Some("/total".to_owned()),
            item: Some("/item".to_owned()),
            fields: [
                ("brand", "/brand"),
                ("price", "/stats/price"),
                ("title", "/title"),
            ]
            .map(|(name, at)| (name.to_owned(), at.to_owned()))
            .to_vec(),
        },
        staleness: Some(Staleness {
            field: "price".to_owned(),
            difference: Difference::Any,
            weight: RowWeight::Number(1.0),
        }),
        headers: Headers::default(),
    });
    settings
}

/// Runs until something is so, and not for ever.
async fn run_until(
    world: &World,
    folder: &Path,
    settings: &Settings,
    is_done: impl FnMut() -> bool,
) -> Vec<Event> {
    let run = world.run_till(folder, settings.clone(), for_seconds(60.0), is_done);
    run.await.1
}

fn search(settings: &mut Settings) -> &mut SearchSettings {
    settings.sources[0].search.as_mut().unwrap()
}

fn store(folder: &Path) -> Sqlite<Reading> {
    Sqlite::read_only(folder.join(".springtide")).unwrap()
}

/// Our rows, by id; none before there is a store.
fn rows(folder: &Path) -> BTreeMap<String, Kept> {
    let Ok(store) = Sqlite::read_only(folder.join(".springtide")) else {
        return BTreeMap::new();
    };
    let elements = store.elements(None, ElementId(0), 100_000).unwrap();
    let rows = elements
        .into_iter()
        .filter(|kept| kept.element.role != Role::Listing);
    rows.map(|kept| (kept.element.locator.clone(), kept))
        .collect()
}

/// How many rows are as they should be.
fn n_ok(folder: &Path) -> usize {
    let all = rows(folder);
    all.values().filter(|kept| kept.state == State::Ok).count()
}

/// That every copy, and every version that was kept, was what the server had when it
/// was polled.
fn assert_true_copies(folder: &Path, server: &SearchServer) -> usize {
    let catalogue = server.catalogue();
    let store = store(folder);
    let bodies = Bodies::read_only(folder.join(".springtide/bodies")).unwrap();
    let ids: BTreeMap<ElementId, String> = rows(folder)
        .into_iter()
        .map(|(id, kept)| (kept.element.id, id))
        .collect();
    let mut answered: Vec<SystemTime> = server.requests().iter().map(|r| r.received_at).collect();
    answered.sort_unstable();
    let mut begun: BTreeMap<(ElementId, Moment), Moment> = BTreeMap::new();
    for &id in ids.keys() {
        let polls = store.polls(id, 100_000).unwrap();
        begun.extend(polls.iter().map(|poll| ((id, poll.at), poll.begun_at)));
    }
    let mut n = 0;
    let mut check = |element: ElementId, at: Moment, body| {
        let body: serde_json::Value = serde_json::from_slice(&bodies.get(body).unwrap()).unwrap();
        let row = catalogue.number(&ids[&element]).unwrap();
        // It was answered by one of the requests that came while it was being polled.
        let (from, to) = (
            clock::wall_time(begun[&(element, at)]),
            clock::wall_time(at),
        );
        let first = answered.partition_point(|at| *at < from);
        let mut answered = answered[first..].iter().take_while(|at| **at <= to);
        let is_true = answered.any(|at| {
            let there = catalogue.row_at(row, *at);
            body["price"] == there.price && body["title"] == there.title.as_str()
        });
        assert!(is_true, "{} at {at:?}: {body}", ids[&element]);
        n += 1;
    };
    for kept in rows(folder).values() {
        if let (Some(copy), Some(synced_at)) = (&kept.copy, kept.history.synced_at) {
            check(kept.element.id, synced_at, copy.body);
        }
    }
    let all = ChangeFilter::default();
    for change in store.changes(&all, None, 100_000).unwrap() {
        check(change.element, change.found_at, change.body.unwrap());
    }
    n
}

/// Mean content staleness of rows over a span of time, in seconds: the ages of the
/// changes that each copy had missed.
fn staleness(
    catalogue: &Catalogue,
    local: &[usize],
    polls: &BTreeMap<usize, Vec<SystemTime>>,
    from: SystemTime,
    to: SystemTime,
) -> f64 {
    let seconds = |from: SystemTime, to: SystemTime| {
        to.duration_since(from).unwrap_or_default().as_secs_f64()
    };
    let mut sum = 0.0;
    for row in local {
        let polls = polls.get(row).map_or(&[][..], Vec::as_slice);
        for change in catalogue.changes(*row, to) {
            let seen = polls.iter().find(|at| **at > change).copied();
            let end = seen.unwrap_or(to).min(to);
            let begin = from.max(change);
            if end > begin {
                let (first, last) = (seconds(change, begin), seconds(change, end));
                sum += (last * last - first * first) / 2.0;
            }
        }
    }
    sum / (local.len() as f64 * seconds(from, to))
}

/// When each row was polled, from what an engine told.
fn polls(catalogue: &Catalogue, events: &[Event]) -> BTreeMap<usize, Vec<SystemTime>> {
    let mut polls: BTreeMap<usize, Vec<SystemTime>> = BTreeMap::new();
    for event in events {
        if let Event::Polled(polled) = event
            && polled.error.is_none()
        {
            let id = polled.locator.rsplit('/').next().unwrap();
            if let Some(row) = catalogue.number(id) {
                polls
                    .entry(row)
                    .or_default()
                    .push(clock::wall_time(polled.at));
            }
        }
    }
    polls
}

const PER_SECOND: u32 = 40;
const SECONDS: f64 = 30.0;
const WARMUP: f64 = 10.0;
const N_BRANDS: usize = 60;
const N_EACH: usize = 20;

/// How many times staler rows are that are asked for by their ids than those that queries
/// bring, both kept by the engine for a while, each from a server of its own.
async fn times_fresher(rates: &[Rate], local: &[usize]) -> f64 {
    let world = World::new();
    let server = world.shop(
        "shop.example",
        Shop {
            totals: Totals::Rounded,
            ..shop(N_BRANDS, N_EACH, rates.to_vec())
        },
    );
    let by_id = world.shop("ids.example", shop(N_BRANDS, N_EACH, rates.to_vec()));

    let folder = tempfile::tempdir().unwrap();
    let mut queries = source(&server, folder.path(), local);
    queries.budget.per_day = f64::from(PER_SECOND) / SECOND;
    search(&mut queries).quota = Some(Burst {
        n_polls: PER_SECOND,
        span: span(1.0),
    });
    let other = tempfile::tempdir().unwrap();
    let list = other.path().join("urls.txt");
    let urls: Vec<String> = local
        .iter()
        .map(|&row| by_id.url(&format!("/item/{}", by_id.catalogue().id(row))))
        .collect();
    std::fs::write(&list, urls.join("\n")).unwrap();
    let mut ids = settings(&[("ids", SourceKind::List, String::new())]);
    ids.sources[0] = SourceSettings {
        file: Some(list),
        ..ids.sources[0].clone()
    };
    ids.budget.per_day = f64::from(PER_SECOND) / SECOND;
    ids.policy.objective = Objective::Content;

    let begun = world.network.clock().wall_time();
    let ((_, of_queries), (_, of_ids)) = tokio::join!(
        world.run_for(folder.path(), &queries, SECONDS),
        world.run_for(other.path(), &ids, SECONDS)
    );
    let from = begun + Duration::from_secs_f64(WARMUP);
    let to = begun + Duration::from_secs_f64(SECONDS);
    let of = |server: &SearchServer, events: &[Event]| {
        let catalogue = server.catalogue();
        let polls = polls(catalogue, events);
        staleness(catalogue, local, &polls, from, to)
    };

    let most = server.most_in_span(Duration::from_secs(1));
    assert!(most <= PER_SECOND as usize, "{most} requests in a second");
    assert!(assert_true_copies(folder.path(), &server) > 1000);
    let least = (0.95 * f64::from(PER_SECOND) * SECONDS) as u64;
    let n_requests = [&server, &by_id].map(SearchServer::n_requests);
    assert!(n_requests.iter().all(|&n| n >= least), "{n_requests:?}");
    of(&by_id, &of_ids) / of(&server, &of_queries)
}

/// The same by the simulator, which knows rates and pages: a page of a brand is one
/// request. A day there is a second here.
fn predicted_times_fresher(rates: &[Rate], local: &[usize]) -> f64 {
    let number: BTreeMap<usize, u32> = local.iter().copied().zip(0..).collect();
    let shop = shop(N_BRANDS, N_EACH, rates.to_vec());
    let catalogue = Catalogue::new(&shop, Clock::system());
    let mut pages: Vec<Vec<u32>> = Vec::new();
    for brand in 0..N_BRANDS / 2 {
        let found = catalogue.find(&format!("brand{brand}"));
        for page in found.chunks(10) {
            let ours = page.iter().filter_map(|row| number.get(row).copied());
            pages.push(ours.collect());
        }
    }
    let singles: Vec<Vec<u32>> = (0..local.len() as u32).map(|row| vec![row]).collect();
    let world = SearchWorld::poisson(
        local
            .iter()
            .map(|&row| Rate::per_day(rates[row].as_per_day() * SECOND).unwrap())
            .collect(),
        vec![Weight::ONE; local.len()],
        4.0 * SECONDS,
        1,
    );
    let predicted = |queries: &[Vec<u32>]| {
        let queries = Queries::given(queries.iter().map(|rows| (&rows[..], 10.0)));
        simulate(&world, &queries, &Asker::Live, f64::from(PER_SECOND), 1).mean
    };
    predicted(&singles) / predicted(&pages)
}

#[tokio::test(start_paused = true)]
async fn queries_keep_rows_fresher_than_ids_do_as_the_simulator_says() {
    let n_rows = N_BRANDS * N_EACH;
    let rates: Vec<Rate> = (0..n_rows)
        .map(|n| rate(0.3 * (2.0 * ((n * 7) as f64 * 0.618_033_988_749_895).fract()).exp() / 3.2))
        .collect();
    // Two thirds of the rows of half the brands.
    let is_ours = |n: &usize| n % N_BRANDS < N_BRANDS / 2 && !n.is_multiple_of(3);
    let local: Vec<usize> = (0..n_rows).filter(is_ours).collect();
    let predicted = predicted_times_fresher(&rates, &local);
    let times = times_fresher(&rates, &local).await;
    assert!(
        times >= 0.8 * predicted,
        "{times} times, and not {predicted}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_quota_holds_across_restarts() {
    let world = World::new();
    let server = world.shop("shop.example", shop(10, 10, vec![rate(0.5); 100]));
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..60).collect();
    let mut settings = source(&server, folder.path(), &local);
    search(&mut settings).quota = Some(Burst {
        n_polls: 8,
        span: span(2.0),
    });
    for _ in 0..6 {
        world.run_for(folder.path(), &settings, 0.7).await;
    }
    let most = server.most_in_span(Duration::from_secs(2));
    assert!(most <= 8, "{most} requests in two seconds");
    assert!(server.n_requests() >= 10, "{}", server.n_requests());
    assert!(assert_true_copies(folder.path(), &server) > 20);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_no_query_finds_is_asked_for_by_its_id() {
    let mut shop = shop(10, 10, vec![rate(0.0); 100]);
    shop.rows[7] = Row::new("r0007", "odd", "one", &[]);
    let world = World::new();
    let server = world.shop("shop.example", shop);
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..30).collect();
    let mut settings = source(&server, folder.path(), &local);
    // The server knows it by other words than our list does.
    let path = folder.path().join("rows.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("odd", "even").replace("one", "two");
    std::fs::write(&path, text).unwrap();
    search(&mut settings).max_interval = Some(span(2.0));
    let by_id = |id: &str| {
        let path = format!("/item/{id}");
        let requests = server.requests().into_iter();
        requests.filter(|request| request.path == path).count()
    };
    run_until(&world, folder.path(), &settings, || {
        n_ok(folder.path()) == 30 && by_id("r0007") >= 1
    })
    .await;
    assert!(by_id("r0007") >= 1, "{}", by_id("r0007"));
    let all = rows(folder.path());
    assert_eq!(all.len(), 30);
    for (id, kept) in &all {
        assert_eq!(kept.state, State::Ok, "{id}");
    }
}

/// A shop that shows ten of the hundred rows of a brand, and whose titles say nothing.
fn hiding_shop(world: &World, rates: Vec<Rate>) -> SearchServer {
    let mut shop = shop(2, 100, rates);
    shop.top = 10;
    for (n, row) in shop.rows.iter_mut().enumerate() {
        let brand = format!("brand{}", n % 2);
        *row = Row::new(&format!("r{n:04}"), &brand, "thing", &[]);
    }
    world.shop("shop.example", shop)
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_worth_little_waits_no_longer_than_it_may() {
    let mut rates = vec![rate(2.0); 200];
    rates[59] = rate(0.0);
    let world = World::new();
    let server = hiding_shop(&world, rates);
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..60).collect();
    let mut settings = source(&server, folder.path(), &local);
    let own = search(&mut settings);
    (own.top, own.max_interval) = (10, Some(span(4.0)));
    let polls = || {
        let requests = server.requests().into_iter();
        let of_it = requests.filter(|request| request.path == "/item/r0059");
        of_it.map(|request| request.received_at).collect::<Vec<_>>()
    };
    run_until(&world, folder.path(), &settings, || polls().len() >= 5).await;
    let polls = polls();
    assert!(polls.len() >= 5, "{polls:?}");
    for pair in polls.windows(2) {
        let wait = pair[1].duration_since(pair[0]).unwrap();
        assert!(wait < Duration::from_secs(8), "{wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_queries_hide_are_asked_for_by_their_ids_when_they_are_worth_it() {
    let world = World::new();
    let server = hiding_shop(&world, vec![rate(0.2); 200]);
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..60).collect();
    let mut settings = source(&server, folder.path(), &local);
    search(&mut settings).top = 10;
    settings.budget.audit = 0.0;
    let fewest = || {
        let all = rows(folder.path());
        all.values().map(|kept| kept.history.n_polls).min()
    };
    run_until(&world, folder.path(), &settings, || fewest() >= Some(4)).await;
    assert!(fewest() >= Some(4), "{:?}", fewest());
    assert_true_copies(folder.path(), &server);
}

#[tokio::test(start_paused = true)]
async fn without_totals_no_page_is_asked_for_again_and_again() {
    // Thirty of the hundred rows of a brand are shown, and nobody says how many there are.
    let mut shop = shop(4, 100, vec![rate(0.2); 400]);
    (shop.top, shop.totals) = (30, Totals::Absent);
    let world = World::new();
    let server = world.shop("shop.example", shop);
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..160).collect();
    let mut settings = source(&server, folder.path(), &local);
    let own = search(&mut settings);
    own.top = 1000;
    own.by_id = None;
    own.quota = Some(Burst {
        n_polls: 60,
        span: span(1.0),
    });
    run_until(&world, folder.path(), &settings, || {
        server.n_requests() > 600
    })
    .await;
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for request in server.requests() {
        *times.entry(request.path).or_default() += 1;
    }
    let most = times.iter().max_by_key(|(_, n)| **n).unwrap();
    assert!(*most.1 < 120, "{most:?} of {}", server.n_requests());
}

#[tokio::test(start_paused = true)]
async fn rows_that_are_not_ours_are_ignored_or_added() {
    for adds_unknown in [false, true] {
        let world = World::new();
        let server = world.shop("shop.example", shop(4, 10, vec![rate(0.0); 40]));
        let folder = tempfile::tempdir().unwrap();
        let mut settings = source(&server, folder.path(), &[0, 4, 8]);
        search(&mut settings).adds_unknown = adds_unknown;
        run_until(&world, folder.path(), &settings, || {
            server.n_requests() > 20 && (rows(folder.path()).len() > 3 || !adds_unknown)
        })
        .await;
        let found = rows(folder.path()).len();
        assert_eq!(found > 3, adds_unknown, "{found}");
        // They stay, and are asked for like the others.
        let before = server.n_requests();
        run_until(&world, folder.path(), &settings, || {
            let all = rows(folder.path());
            server.n_requests() > before + 10 && all.values().all(|kept| kept.copy.is_some())
        })
        .await;
        let all = rows(folder.path());
        assert!(all.len() >= found);
        assert!(all.values().all(|kept| kept.copy.is_some()));
        let sources = store(folder.path()).sources().unwrap();
        assert_eq!(sources[0].totals.n_elements, all.len() as u64);
        assert_eq!(sources[0].totals.n_new, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_it_answers_is_an_observation_with_a_reason_and_it_goes_on() {
    let refused = |status, retry_after: Option<&str>| Trouble::Refused {
        status,
        retry_after: retry_after.map(str::to_owned),
    };
    // What is wrong, and in which words that is told; nothing if it is no failure.
    let troubles = [
        (refused(429, None), Some("429")),
        (refused(429, Some("1")), Some("429")),
        (refused(503, None), Some("503")),
        (refused(403, None), Some("403")),
        (Trouble::Captcha, Some("HTML")),
        (Trouble::OtherNames, Some("no list of results")),
        (Trouble::OtherKinds, Some("no list of results")),
        (Trouble::NoIds, Some("has an id")),
        (Trouble::BrokenJson, Some("breaks off")),
        (Trouble::CutBody, Some("")),
        // What is not looked at does not matter.
        (Trouble::Deep(100_000), None),
        (Trouble::NumberIds, None),
        (Trouble::Short, None),
        (Trouble::Repeated, None),
        (Trouble::Reversed, None),
        (Trouble::Restless, None),
        (Trouble::Empty, None),
        (Trouble::Large(2000), None),
    ];
    for (trouble, words) in troubles {
        let name = format!("{trouble:?}");
        let world = World::new();
        let server = world.shop("shop.example", shop(10, 12, vec![rate(0.2); 120]));
        let folder = tempfile::tempdir().unwrap();
        let local: Vec<usize> = (0..50).collect();
        let settings = source(&server, folder.path(), &local);
        server.misbehave(trouble, 6..8);
        let has_error = || store(folder.path()).sources().unwrap()[0].error.is_some();
        let is_well = || server.n_requests() > 12 && n_ok(folder.path()) == 50 && !has_error();
        let events = run_until(&world, folder.path(), &settings, is_well).await;
        let told: Vec<&String> = events
            .iter()
            .filter_map(|event| match event {
                Event::SourceFailed { message, .. } => Some(message),
                _ => None,
            })
            .collect();
        match words {
            Some(words) => {
                assert!(told.iter().any(|m| m.contains(words)), "{name}: {told:?}");
            }
            // A row that was asked for by its id may have another.
            None => assert!(
                told.iter().all(|m| m.contains("about another row")),
                "{name}: {told:?}"
            ),
        }
        // It answers again, and nothing is wrong any more.
        let sources = store(folder.path()).sources().unwrap();
        assert_eq!(sources[0].error, None, "{name}");
        assert_eq!(n_ok(folder.path()), 50, "{name}");
        assert!(server.n_requests() > 12, "{name}: {}", server.n_requests());
        assert!(server.most_in_span(Duration::from_secs(1)) <= 20, "{name}");
        assert_true_copies(folder.path(), &server);
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_refuses_is_left_alone_for_twice_as_long_each_time() {
    let world = World::new();
    let server = world.shop("shop.example", shop(10, 12, vec![rate(0.2); 120]));
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..50).collect();
    let settings = source(&server, folder.path(), &local);
    server.misbehave(Trouble::Captcha, 3..6);
    // A restart in between is no reason to ask sooner.
    let mut told = Vec::new();
    for _ in 0..40 {
        let (_, events) = world.run_for(folder.path(), &settings, 1.2).await;
        told.extend(events.into_iter().filter_map(|event| match event {
            Event::SourceFailed { message, .. } => Some(message),
            _ => None,
        }));
        if server.n_requests() > 6 {
            break;
        }
    }
    for wait in ["0.5", "1", "2"] {
        let words = format!("no requests for {wait} s");
        assert!(told.iter().any(|m| m.ends_with(&words)), "{wait}: {told:?}");
    }
    let at: Vec<SystemTime> = server.requests().iter().map(|r| r.received_at).collect();
    for (n, least) in [(3, 0.5), (4, 1.0), (5, 2.0)] {
        let gap = at[n + 1].duration_since(at[n]).unwrap().as_secs_f64();
        assert!(gap >= least, "{gap} s after refusal {n}");
    }
}

#[tokio::test(start_paused = true)]
async fn rows_go_and_come_back() {
    let world = World::new();
    let server = world.shop("shop.example", shop(5, 10, vec![rate(0.0); 50]));
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..20).collect();
    let mut settings = source(&server, folder.path(), &local);
    search(&mut settings).max_interval = Some(span(0.5));
    let state = || rows(folder.path()).get("r0003").map(|kept| kept.state);
    run_until(&world, folder.path(), &settings, || {
        state() == Some(State::Ok)
    })
    .await;
    assert_eq!(state(), Some(State::Ok));
    server.catalogue().take_out(3);
    // Not there by its id, twice.
    run_until(&world, folder.path(), &settings, || {
        state() == Some(State::Gone)
    })
    .await;
    assert_eq!(state(), Some(State::Gone));
    server.catalogue().put_in(3);
    run_until(&world, folder.path(), &settings, || {
        state() == Some(State::Ok)
    })
    .await;
    assert_eq!(state(), Some(State::Ok));
}

#[tokio::test(start_paused = true)]
async fn the_search_box_is_asked_by_post_with_a_key_and_without_totals() {
    let world = World::new();
    let server = world.shop(
        "shop.example",
        Shop {
            api_key: Some("top secret".to_owned()),
            totals: Totals::Absent,
            first_page: 0,
            ..shop(10, 12, vec![rate(0.2); 120])
        },
    );
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..50).collect();
    let mut settings = source(&server, folder.path(), &local);
    settings.sources[0].url = server.url("/search");
    let own = search(&mut settings);
    own.body = Some(r#"{"q": "{query}", "page": {page}}"#.to_owned());
    own.first_page = 0;
    own.headers = Headers(vec![("x-api-key".to_owned(), "top secret".to_owned())]);
    own.by_id = None;
    assert!(!format!("{own:?}").contains("top secret"));
    run_until(&world, folder.path(), &settings, || {
        server.n_requests() > 40 && n_ok(folder.path()) == 50
    })
    .await;
    for (id, kept) in rows(folder.path()) {
        assert_eq!(kept.state, State::Ok, "{id}: {:?}", kept.failure);
    }
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.method == "POST")
    );
    assert_true_copies(folder.path(), &server);
}

#[tokio::test(start_paused = true)]
async fn one_budget_is_shared_with_other_sources() {
    use springtide_engine::origin::SiteSettings;
    let world = World::new();
    let server = world.shop("shop.example", shop(10, 12, vec![rate(0.1); 120]));
    let site = world.site(
        "docs.example",
        SiteSettings {
            rates: vec![rate(0.1); 60],
            ..SiteSettings::default()
        },
    );
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..60).collect();
    let mut both = settings(&[("docs", SourceKind::Sitemap, site.url("/sitemap.xml"))]);
    both.sources
        .extend(source(&server, folder.path(), &local).sources);
    both.budget.per_day = 20.0 / SECOND;
    both.budget.first_pass = springtide_engine::settings::FirstPass::Counted;
    let (ended, _) = world.run_for(folder.path(), &both, 12.0).await;
    let (of_shop, of_site) = (server.n_requests(), site.n_requests());
    assert!(ended.n_polls <= 20 * 12 + 8, "{ended:?}");
    assert!(ended.n_polls >= 150, "{ended:?}");
    // Ten rows come with a request, so it takes fewer of them; but neither starves.
    assert!(of_shop >= 25 && of_site >= 50, "{of_shop} and {of_site}");
    let polls: u64 = store(folder.path()).sources().unwrap()[1].totals.n_polls;
    assert!(polls > 3 * of_shop, "{polls}");
}

/// A shop in which nothing changes, and fifty of its rows, each polled.
async fn kept_shop(has_id: bool) -> (World, SearchServer, tempfile::TempDir, Settings) {
    let world = World::new();
    let server = world.shop("shop.example", shop(10, 12, vec![rate(0.0); 120]));
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..50).collect();
    let mut settings = source(&server, folder.path(), &local);
    if !has_id {
        search(&mut settings).by_id = None;
    }
    run_until(&world, folder.path(), &settings, || {
        n_ok(folder.path()) == 50
    })
    .await;
    (world, server, folder, settings)
}

#[tokio::test(start_paused = true)]
async fn a_page_after_the_last_may_be_refused() {
    // Thirty of a hundred and twenty are shown, and nobody says how many there are.
    let mut shop = shop(2, 120, vec![rate(0.2); 240]);
    (shop.top, shop.totals) = (30, Totals::Absent);
    let world = World::new();
    let server = world.shop("shop.example", shop);
    for query in (0..2)
        .map(|n| format!("brand{n}"))
        .chain((0..7).map(|n| format!("colour{n}")))
    {
        let path = format!("/search?q={query}&page=4");
        let refusal = springtide_engine::origin::Behaviour::status(400);
        server.origin().script(&path, refusal);
    }
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..200).collect();
    let settings = source(&server, folder.path(), &local);
    let is_refused = || {
        server
            .requests()
            .iter()
            .any(|request| request.status == 400)
    };
    let events = run_until(&world, folder.path(), &settings, || {
        is_refused() && n_ok(folder.path()) == 200
    })
    .await;
    assert!(is_refused());
    assert_eq!(n_ok(folder.path()), 200);
    let is_failure = |event: &Event| matches!(event, Event::SourceFailed { .. });
    assert!(!events.iter().any(is_failure));
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_by_the_user_is_polled_by_its_id_or_by_a_query() {
    for has_id in [true, false] {
        let (world, server, folder, settings) = kept_shop(has_id).await;
        let row = rows(folder.path())["r0011"].clone();
        server.catalogue().change(11);
        let before = server.n_requests();
        let asked = RunOptions {
            scope: RunScope::These(vec![row.element.id]),
            ..for_seconds(60.0)
        };
        let (ended, events) = world.run(folder.path(), settings, asked).await;
        assert_eq!(ended.n_polls, server.n_requests() - before);
        let is_asked = |event: &Event| matches!(event, Event::Polled(p) if p.element == row.element.id && p.purpose == Purpose::Asked);
        assert!(events.iter().any(is_asked));
        let now = rows(folder.path())["r0011"].clone();
        assert_eq!(now.history.n_changes, 1);
        assert_true_copies(folder.path(), &server);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_by_the_user_comes_with_few_queries() {
    for has_id in [true, false] {
        let (world, server, folder, settings) = kept_shop(has_id).await;
        let ids: Vec<ElementId> = rows(folder.path())
            .values()
            .map(|kept| kept.element.id)
            .collect();
        let (before, began) = (server.n_requests(), world.network.clock().now());
        let asked = RunOptions {
            scope: RunScope::These(ids),
            ..for_seconds(60.0)
        };
        let (ended, _) = world.run(folder.path(), settings, asked).await;
        assert_eq!(ended.n_polls, server.n_requests() - before);
        assert!(ended.n_polls <= 25, "{ended:?}");
        for (id, kept) in rows(folder.path()) {
            assert!(kept.history.synced_at.unwrap() >= began, "{id}");
            let polls = store(folder.path()).polls(kept.element.id, 100).unwrap();
            assert!(
                polls.iter().any(|poll| poll.purpose == Purpose::Asked),
                "{id}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_that_the_server_does_not_know_spoils_little() {
    for has_id in [true, false] {
        let world = World::new();
        let server = world.shop("shop.example", shop(10, 40, vec![rate(0.0); 400]));
        let folder = tempfile::tempdir().unwrap();
        let local: Vec<usize> = (0..300).collect();
        let mut settings = source(&server, folder.path(), &local);
        let own = search(&mut settings);
        own.quota = Some(Burst {
            n_polls: 50,
            span: span(1.0),
        });
        if !has_id {
            own.by_id = None;
        }
        let path = folder.path().join("rows.csv");
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, lines) = text.split_once('\n').unwrap();
        let lines = lines.replace("brand", "book brand");
        std::fs::write(&path, format!("{head}\n{lines}")).unwrap();
        run_until(&world, folder.path(), &settings, || {
            n_ok(folder.path()) == 300
        })
        .await;
        assert_eq!(n_ok(folder.path()), 300);
        // By id it would take as many as there are rows; some come after all were had.
        assert!(server.n_requests() <= 150, "{}", server.n_requests());
        let ids: Vec<ElementId> = rows(folder.path())
            .values()
            .map(|kept| kept.element.id)
            .collect();
        let asked = RunOptions {
            scope: RunScope::These(ids),
            ..for_seconds(60.0)
        };
        let (ended, _) = world.run(folder.path(), settings, asked).await;
        assert_eq!(ended.why, EndReason::Done, "{ended:?}");
        assert!(ended.n_polls <= 60, "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn queries_are_made_up_anew_while_others_are_under_way() {
    // Every row that is not ours becomes ours, so that queries change all the time.
    let world = World::new();
    let server = world.shop(
        "shop.example",
        Shop {
            latency: Duration::from_millis(40),
            ..shop(20, 20, vec![rate(0.5); 400])
        },
    );
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..400).step_by(41).collect();
    let mut settings = source(&server, folder.path(), &local);
    let own = search(&mut settings);
    own.adds_unknown = true;
    own.quota = Some(Burst {
        n_polls: 100,
        span: span(1.0),
    });
    run_until(&world, folder.path(), &settings, || {
        server.n_requests() > 300 && rows(folder.path()).len() > 100
    })
    .await;
    let n_rows = rows(folder.path()).len();
    assert!(n_rows > 100, "{n_rows}");
    assert!(server.n_requests() > 100, "{}", server.n_requests());
    assert_true_copies(folder.path(), &server);
}

#[tokio::test(start_paused = true)]
async fn one_query_that_is_always_refused_does_not_stop_the_others() {
    let world = World::new();
    let server = world.shop("shop.example", shop(10, 12, vec![rate(0.0); 120]));
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..50).collect();
    let mut settings = source(&server, folder.path(), &local);
    let own = search(&mut settings);
    own.pause = span(0.2);
    own.by_id = None;
    // The commonest word, which is tried first.
    for page in 1..=10 {
        let path = format!("/search?q=colour0&page={page}");
        let refusal = springtide_engine::origin::Behaviour::status(400);
        server.origin().script(&path, refusal);
    }
    run_until(&world, folder.path(), &settings, || {
        n_ok(folder.path()) == 50
    })
    .await;
    assert_eq!(n_ok(folder.path()), 50);
}

#[tokio::test(start_paused = true)]
async fn a_row_without_words_holds_up_nobody() {
    let mut shop = shop(10, 10, vec![rate(0.0); 100]);
    shop.rows[3] = Row::new("r0003", "the", "of and", &[]);
    let world = World::new();
    let server = world.shop("shop.example", shop);
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..30).collect();
    let mut settings = source(&server, folder.path(), &local);
    settings.budget.audit = 0.0;
    server.origin().script(
        "/item/r0003",
        springtide_engine::origin::Behaviour::status(500),
    );
    search(&mut settings).pause = span(0.1);
    let n_polls = || {
        rows(folder.path())
            .get("r0001")
            .map_or(0, |kept| kept.history.n_polls)
    };
    run_until(&world, folder.path(), &settings, || {
        n_ok(folder.path()) == 29 && n_polls() > 3
    })
    .await;
    assert_eq!(n_ok(folder.path()), 29);
    assert!(n_polls() > 3, "{}", n_polls());
    world.run_once(folder.path(), &settings).await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_slower_than_patience_is_waited_for_by_once() {
    let world = World::new();
    let server = world.shop("shop.example", shop(4, 10, vec![rate(0.0); 40]));
    let folder = tempfile::tempdir().unwrap();
    let local: Vec<usize> = (0..24).collect();
    let mut settings = source(&server, folder.path(), &local);
    search(&mut settings).quota = Some(Burst {
        n_polls: 1,
        span: span(2.2),
    });
    world.run_once(folder.path(), &settings).await;
    let all = rows(folder.path());
    assert!(all.values().all(|kept| kept.state == State::Ok));
    assert!(server.n_requests() < 12, "{}", server.n_requests());
}
