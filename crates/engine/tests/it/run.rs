//! The engine as a whole, against origins of our own.

use std::path::Path;
use std::time::{Duration, SystemTime};

use springtide_engine::origin::{Behaviour, Origin, SiteSettings, Validators, version_in};
use springtide_engine::settings::{
    AllowPrivate, BudgetSettings, FirstPass, GroupKey, GroupRule, HttpSettings, PolicyName,
    PolicySettings, SourceSettings,
};
use springtide_engine::{
    EndReason, Event, Heard, NotRunning, RunOptions, RunScope, Settings, clock, handle,
};
use springtide_policy::{Objective, Rate, Span};
use springtide_store::{
    Bodies, ChangeFilter, ChangeKind, ElementId, FailureKind, Kept, Reader, Role, SourceKind,
    Sqlite, State,
};

use crate::world::{World, for_seconds};

/// Settings for polling hosts of our own as fast as it goes.
pub(crate) fn settings(sources: &[(&str, SourceKind, String)]) -> Settings {
    Settings {
        budget: BudgetSettings {
            per_day: 86_400.0 * 50.0,
            burst: None,
            window: None,
            audit: 0.02,
            first_pass: FirstPass::Free,
        },
        policy: PolicySettings {
            name: PolicyName::Learned,
            objective: Objective::Freshness,
            max_interval: None,
            cycle: Span::days(1.0).unwrap(),
        },
        http: HttpSettings {
            contact: None,
            timeout: Duration::from_secs(5),
            max_body: 10 << 20,
            allow_private: AllowPrivate::All,
        },
        groups: vec![GroupRule {
            pattern: "*".to_owned(),
            key: GroupKey::Host,
            gap: Span::days(0.0001 / 86_400.0).unwrap(),
            concurrency: 16,
        }],
        sources: sources
            .iter()
            .map(|(name, kind, url)| SourceSettings {
                name: (*name).to_owned(),
                kind: *kind,
                url: url.clone(),
                file: None,
                list: Default::default(),
                is_paused: false,
                weight: 1.0,
                list_every: None,
                keep: Vec::new(),
                drop: Vec::new(),
                max_elements: 100_000,
                max_depth: 5,
                entries: springtide_engine::settings::FeedEntries::Pages,
                allow_private: None,
                search: None,
                table: None,
                retain: Default::default(),
            })
            .collect(),
    }
}

pub(crate) fn elements(folder: &Path) -> Vec<Kept> {
    let store = Sqlite::read_only(folder.join(".springtide")).unwrap();
    store.elements(None, ElementId(0), 1_000_000).unwrap()
}

fn rates(per_second: &[f64]) -> Vec<Rate> {
    per_second
        .iter()
        .map(|rate| Rate::per_day(rate * 86_400.0).unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_sitemap_is_followed_and_every_copy_is_what_was_served() {
    let world = World::new();
    let origin = world.site(
        "docs.example",
        SiteSettings {
            rates: rates(&(0..40).map(|i| 0.02 * f64::from(i)).collect::<Vec<_>>()),
            has_volatile_parts: true,
            validators: Validators::None,
            ..SiteSettings::default()
        },
    );
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    let (ended, _) = world.run_for(folder.path(), &settings, 4.0).await;
    assert_eq!(world.elapsed(), Duration::from_secs(4));
    assert!(ended.n_polls > 100, "{ended:?}");
    assert!(ended.n_changes > 10);
    let bodies = Bodies::read_only(folder.path().join(".springtide/bodies")).unwrap();
    let pages: Vec<Kept> = elements(folder.path())
        .into_iter()
        .filter(|kept| kept.element.role != Role::Listing)
        .collect();
    assert_eq!(pages.len(), 40);
    for kept in pages {
        assert_eq!(kept.state, State::Ok, "{kept:?}");
        let copy = kept.copy.unwrap();
        let body = bodies.get(copy.body).unwrap();
        let path = kept.element.locator.replace(&origin.url(""), "");
        let page = origin.site().page(&path).unwrap();
        let synced_at = clock::wall_time(kept.history.synced_at.unwrap());
        let served = origin.site().version_at(page, synced_at);
        assert_eq!(version_in(&body).unwrap(), served, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_due_now_is_polled_and_then_it_ends() {
    let world = World::new();
    let origin = quiet_site(&world, 10);
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    let ended = world.run_once(folder.path(), &settings).await;
    assert_eq!((ended.n_polls, ended.why), (11, EndReason::Done));
    assert!(
        elements(folder.path())
            .iter()
            .all(|kept| kept.state == State::Ok)
    );
}

/// A site on which nothing ever changes.
pub(crate) fn quiet_site(world: &World, n_pages: usize) -> Origin {
    world.site(
        "docs.example",
        SiteSettings {
            rates: rates(&vec![0.0; n_pages]),
            ..SiteSettings::default()
        },
    )
}

/// Time between requests.
fn gaps(origin: &Origin) -> Vec<Duration> {
    let at: Vec<SystemTime> = origin.requests().iter().map(|r| r.received_at).collect();
    at.windows(2)
        .map(|pair| pair[1].duration_since(pair[0]).unwrap())
        .collect()
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[tokio::test(start_paused = true)]
async fn requests_keep_their_distance_through_restarts() {
    let world = World::new();
    let origin = quiet_site(&world, 30);
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    settings.groups[0].gap = Span::days(0.15 / 86_400.0).unwrap();
    for _ in 0..4 {
        world.run_for(folder.path(), &settings, 0.8).await;
    }
    let gaps = gaps(&origin);
    assert!(gaps.iter().all(|&gap| gap >= millis(150)), "{gaps:?}");
    // Nor do they dawdle: there is a margin of two in a hundred, and a little at a
    // restart.
    assert!(gaps.len() >= 18, "{gaps:?}");
    assert!(gaps.iter().all(|&gap| gap <= millis(165)), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn robots_and_crawl_delay_are_kept_to() {
    let world = World::new();
    let origin = world.site(
        "docs.example",
        SiteSettings {
            rates: rates(&[0.0; 16]),
            robots: Some("User-agent: *\nDisallow: /d1/\nCrawl-delay: 0.2\n".to_owned()),
            ..SiteSettings::default()
        },
    );
    let paths: Vec<String> = (0..16).map(|page| origin.site().path(page)).collect();
    let forbidden: Vec<&String> = paths
        .iter()
        .filter(|path| path.starts_with("/d1/"))
        .collect();
    assert!(!forbidden.is_empty(), "{paths:?}");
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    world.run_once(folder.path(), &settings).await;
    let requests = origin.requests();
    assert!(
        requests
            .iter()
            .all(|request| !request.path.starts_with("/d1/"))
    );
    assert_eq!(requests[0].path, "/robots.txt");
    let gaps = &gaps(&origin)[1..];
    let is_kept = |gap: &Duration| (millis(200)..millis(210)).contains(gap);
    assert!(gaps.iter().all(is_kept), "{gaps:?}");
    let blocked = elements(folder.path())
        .into_iter()
        .filter(|kept| kept.state == State::Blocked)
        .count();
    assert_eq!(blocked, forbidden.len());
}

#[tokio::test(start_paused = true)]
async fn a_site_whose_robots_cannot_be_had_is_left_alone() {
    let world = World::new();
    let origin = quiet_site(&world, 5);
    origin.script("/robots.txt", Behaviour::status(500));
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    settings.budget.per_day = 1000.0;
    // A day of it, and then it is well again.
    let day = 86_400.0;
    world.run_for(folder.path(), &settings, day).await;
    let requests = origin.requests();
    assert!(requests.iter().all(|r| r.path == "/robots.txt"));
    // It is asked for again now and then, and not all the time.
    assert!((2..100).contains(&requests.len()), "{}", requests.len());
    let kept = &elements(folder.path())[0];
    // Nobody has asked us to keep away: its host could not be asked.
    assert_eq!(kept.state, State::Failing);
    assert_eq!(kept.failure.as_ref().unwrap().kind, FailureKind::Robots);
    origin.unscript("/robots.txt");
    world.run_for(folder.path(), &settings, day).await;
    let all = elements(folder.path());
    assert_eq!(all.len(), 6);
    assert!(all.iter().all(|kept| kept.state == State::Ok));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_asks_to_wait_is_left_alone_through_restarts() {
    let world = World::new();
    let origin = quiet_site(&world, 20);
    let page = origin.site().path(5);
    origin.script(&page, Behaviour::retry_after(503, "3"));
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    settings.groups[0].concurrency = 1;
    for _ in 0..5 {
        world.run_for(folder.path(), &settings, 1.0).await;
    }
    let requests = origin.requests();
    let refused = requests
        .iter()
        .position(|request| request.status == 503)
        .unwrap();
    let (at, next) = (&requests[refused], &requests[refused + 1]);
    let wait = next.received_at.duration_since(at.received_at).unwrap();
    // The server counts on a clock of its own, and is given a tenth of a second more.
    assert!((millis(3_100)..millis(3_200)).contains(&wait), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn elements_go_and_come_back() {
    let world = World::new();
    let origin = quiet_site(&world, 6);
    let (gone, missing) = (origin.site().path(1), origin.site().path(2));
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    world.run_once(folder.path(), &settings).await;
    origin.script(&gone, Behaviour::status(410));
    origin.script(&missing, Behaviour::status(404));
    let state = |path: &str| {
        let all = elements(folder.path());
        all.into_iter()
            .find(|kept| kept.element.locator.ends_with(path))
            .unwrap()
    };
    let poll = async |path: &str| {
        let options = RunOptions {
            scope: RunScope::These(vec![state(path).element.id]),
            ..RunOptions::default()
        };
        world.run(folder.path(), settings.clone(), options).await
    };
    poll(&gone).await;
    assert_eq!(state(&gone).state, State::Gone);
    poll(&missing).await;
    assert_eq!(state(&missing).state, State::Failing);
    poll(&missing).await;
    assert_eq!(state(&missing).state, State::Gone);
    origin.unscript(&gone);
    poll(&gone).await;
    assert_eq!(state(&gone).state, State::Ok);
    let store = Sqlite::read_only(folder.path().join(".springtide")).unwrap();
    let changes = store.changes(&ChangeFilter::default(), None, 100).unwrap();
    let kinds: Vec<ChangeKind> = changes.iter().map(|change| change.kind).collect();
    assert_eq!(
        kinds[..3],
        [ChangeKind::Back, ChangeKind::Gone, ChangeKind::Gone]
    );
    assert_eq!(kinds[3..], [ChangeKind::Added; 6]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_lost_or_damaged_is_fetched_anew() {
    let world = World::new();
    let origin = quiet_site(&world, 3);
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    world.run_once(folder.path(), &settings).await;
    let before = elements(folder.path());
    let pages: Vec<&Kept> = before
        .iter()
        .filter(|kept| kept.element.role == Role::Page)
        .collect();
    let place = folder.path().join(".springtide/bodies");
    let body = |kept: &Kept| kept.copy.as_ref().unwrap().body;
    let segment = place.join("000001.seg");
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(32).position(|id| id == body(pages[0]).0);
    bytes[at.unwrap()..][..60].fill(0);
    std::fs::write(&segment, bytes).unwrap();
    Bodies::open(&place)
        .unwrap()
        .remove(body(pages[1]))
        .unwrap();
    let poll = async || {
        let n_before = origin.requests().len();
        let options = RunOptions {
            scope: RunScope::These(pages.iter().map(|kept| kept.element.id).collect()),
            ..RunOptions::default()
        };
        world.run(folder.path(), settings.clone(), options).await;
        let mut requests = origin.requests().split_off(n_before);
        requests.retain(|request| request.path != "/robots.txt");
        requests.sort_by_key(|request| request.path.clone());
        requests
    };
    // The other one is asked for as always.
    let statuses: Vec<u16> = poll().await.iter().map(|request| request.status).collect();
    assert_eq!(statuses, [200, 200, 304]);
    let bodies = Bodies::read_only(&place).unwrap();
    let after = elements(folder.path());
    for (kept, n_changes) in after
        .iter()
        .filter(|kept| kept.element.role == Role::Page)
        .zip([1, 1, 0])
    {
        let body = bodies.get(kept.copy.as_ref().unwrap().body).unwrap();
        assert_eq!(version_in(&body), Some(0));
        assert_eq!(kept.history.n_changes, n_changes);
    }
    let statuses: Vec<u16> = poll().await.iter().map(|request| request.status).collect();
    assert_eq!(statuses, [304, 304, 304]);
}

#[tokio::test(start_paused = true)]
async fn that_it_stops_is_told_at_once() {
    let world = World::new();
    let origin = quiet_site(&world, 1);
    let path = origin.site().path(0);
    let slow = Behaviour::body("text/html", "<p>At last.</p>").after(Duration::from_secs(4));
    origin.script(&path, slow);
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("page", SourceKind::Page, origin.url(&path))]);
    let (handle, controls) = handle();
    let mut events = handle.events();
    let (until, outside) = (RunOptions::default(), world.outside());
    let run = springtide_engine::run(folder.path(), settings, until, controls, outside);
    let stop = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.stop();
        while let Some(told) = events.next().await {
            if let Heard::Event(Event::Stopping { n_under_way }) = told {
                return Some((n_under_way, world.elapsed()));
            }
        }
        None
    };
    let (ended, told) = tokio::join!(run, stop);
    assert_eq!(ended.unwrap().why, EndReason::Stopped);
    let (n_under_way, elapsed) = told.unwrap();
    assert_eq!(n_under_way, 1);
    assert!(elapsed < Duration::from_millis(1100), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn another_budget_holds_while_a_run_goes_on() {
    const HOUR: Duration = Duration::from_secs(3600);
    let world = World::new();
    let origin = quiet_site(&world, 20);
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    settings.budget.per_day = 240.0;
    let (handle, controls) = handle();
    let (until, outside) = (RunOptions::default(), world.outside());
    let run = springtide_engine::run(folder.path(), settings, until, controls, outside);
    let change = async {
        // First polls are free.
        tokio::time::sleep(HOUR).await;
        let mut n_polls = Vec::new();
        for per_day in [240.0, 2400.0, 24.0] {
            handle.set_budget(per_day).unwrap();
            let before = handle.pulse().await.unwrap().n_polls;
            tokio::time::sleep(10 * HOUR).await;
            n_polls.push(handle.pulse().await.unwrap().n_polls - before);
        }
        handle.stop();
        n_polls
    };
    let (ended, n_polls) = tokio::join!(run, change);
    assert_eq!(ended.unwrap().why, EndReason::Stopped);
    for (n, wanted) in n_polls.iter().zip([100_u64, 1000, 10]) {
        assert!(n.abs_diff(wanted) <= 2 + wanted / 20, "{n_polls:?}");
    }
    assert_eq!(handle.set_budget(1.0), Err(NotRunning));
}

#[tokio::test(start_paused = true)]
async fn all_that_is_due_at_one_host_is_polled_before_it_ends() {
    let world = World::new();
    let origin = quiet_site(&world, 20);
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    settings.groups[0].gap = Span::days(0.02 / 86_400.0).unwrap();
    world.run_once(folder.path(), &settings).await;
    // A round takes less than half a second, so after an hour all are due.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let ended = world.run_once(folder.path(), &settings).await;
    assert!(ended.n_polls >= 20, "{ended:?}");
}

/// Where a host allows no more than the budget does, new elements and old ones take
/// turns, as long as the old ones are worth theirs: nobody new waits for them to be done.
#[tokio::test(start_paused = true)]
async fn new_elements_have_their_turn_at_a_busy_host() {
    for first_pass in [FirstPass::Free, FirstPass::Counted] {
        let world = World::new();
        let origin = quiet_site(&world, 60);
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
        settings.groups[0].gap = Span::days(0.03 / 86_400.0).unwrap();
        settings.budget.first_pass = first_pass;
        let is_done =
            || origin.n_requests() > 61 && elements(folder.path()).iter().all(|k| k.copy.is_some());
        let most = for_seconds(60.0);
        let (ended, _) = world.run_till(folder.path(), settings, most, is_done).await;
        let all = elements(folder.path());
        let n_new = all.iter().filter(|kept| kept.copy.is_none()).count();
        assert_eq!(n_new, 0, "{first_pass:?}");
        assert_eq!(all.len(), 61, "{first_pass:?}");
        // A turn each, about, or fewer for those that were polled just now.
        assert!(
            (61..250).contains(&ended.n_polls),
            "{first_pass:?} {ended:?}"
        );
    }
}

/// Two hosts, one of which makes its polls wait: the budget is kept to when polls leave,
/// not when they are chosen.
#[tokio::test(start_paused = true)]
async fn no_five_seconds_hold_more_polls_than_the_budget_allows() {
    let world = World::new();
    let slow = world.site(
        "slow.example",
        SiteSettings {
            rates: rates(&[0.0; 8]),
            robots: Some("User-agent: *\nCrawl-delay: 0.9\n".to_owned()),
            ..SiteSettings::default()
        },
    );
    let fast = quiet_site(&world, 20);
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&[
        ("slow", SourceKind::Sitemap, slow.url("/sitemap.xml")),
        ("fast", SourceKind::Sitemap, fast.url("/sitemap.xml")),
    ]);
    let (per_second, seconds) = (3.0, 100.0);
    settings.budget.per_day = per_second * 86_400.0;
    settings.budget.first_pass = FirstPass::Counted;
    settings.budget.audit = 0.5;
    world.run_for(folder.path(), &settings, seconds).await;
    let mut at: Vec<SystemTime> = [&slow, &fast]
        .iter()
        .flat_map(|origin| origin.requests())
        .filter(|request| request.path != "/robots.txt")
        .map(|request| request.received_at)
        .collect();
    at.sort_unstable();
    let n = at.len() as f64;
    assert!(
        (0.95 * seconds * per_second..=seconds * per_second + 1.0).contains(&n),
        "{n}"
    );
    let most = (1.0 + 1.1 * per_second * 5.0) as usize;
    for polls in at.windows(most + 1) {
        let took = polls[most].duration_since(polls[0]).unwrap();
        assert!(took >= Duration::from_secs(5), "{most} in {took:?}");
    }
}
