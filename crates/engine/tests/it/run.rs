//! The engine as a whole, against origins of our own.

use std::path::Path;
use std::time::{Duration, SystemTime};

use springtide_engine::origin::{Behaviour, Origin, SiteSettings, Validators, version_in};
use springtide_engine::settings::{
    AllowPrivate, BudgetSettings, FirstPass, GroupKey, GroupRule, HttpSettings, PolicyName,
    PolicySettings, SourceSettings,
};
use springtide_engine::{Ended, Event, Outside, Settings, Until, What, handle};
use springtide_policy::{Objective, Rate, Span};
use springtide_store::{
    Bodies, ChangeFilter, ChangeKind, ElementId, FailureKind, Kept, Reader, Role, SourceKind,
    Sqlite, State,
};

use crate::world::told;

/// Settings for polling loopback as fast as it goes.
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
                weight: 1.0,
                list_every: None,
                keep: Vec::new(),
                drop: Vec::new(),
                max_elements: 100_000,
                max_depth: 5,
                search: None,
            })
            .collect(),
    }
}

pub(crate) fn run(folder: &Path, settings: Settings, until: Until) -> (Ended, Vec<Event>) {
    run_till(folder, settings, until, || false)
}

/// Runs until something is so, or no longer than that.
pub(crate) fn run_till(
    folder: &Path,
    settings: Settings,
    until: Until,
    mut is_done: impl FnMut() -> bool + Send,
) -> (Ended, Vec<Event>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (handle, controls) = handle();
    let events = told(&handle);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !handle.is_over() && !is_done() {
                std::thread::sleep(Duration::from_millis(20));
            }
            handle.stop();
        });
        let outside = Outside::real(&settings.http).unwrap();
        let run = springtide_engine::run(folder, settings, until, controls, outside);
        let (ended, events) = runtime.block_on(async { tokio::join!(run, events) });
        (ended.unwrap(), events)
    })
}

pub(crate) fn elements(folder: &Path) -> Vec<Kept> {
    let store = Sqlite::read_only(folder.join(".springtide")).unwrap();
    store.elements(None, ElementId(0), 1_000_000).unwrap()
}

fn seconds(seconds: f64) -> Until {
    Until {
        span: Some(Duration::from_secs_f64(seconds)),
        ..Until::default()
    }
}

fn rates(per_second: &[f64]) -> Vec<Rate> {
    per_second
        .iter()
        .map(|rate| Rate::per_day(rate * 86_400.0).unwrap())
        .collect()
}

fn moment(at: springtide_store::Moment) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at.0.unsigned_abs())
}

#[test]
fn a_sitemap_is_followed_and_every_copy_is_what_was_served() {
    let origin = Origin::start(SiteSettings {
        rates: rates(&(0..40).map(|i| 0.02 * f64::from(i)).collect::<Vec<_>>()),
        has_volatile_parts: true,
        validators: Validators::None,
        ..SiteSettings::default()
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    let (ended, _) = run(folder.path(), settings, seconds(4.0));
    assert!(ended.n_polls > 100, "{ended:?}");
    assert!(ended.n_changes > 10);
    let bodies = Bodies::open(folder.path().join(".springtide/bodies")).unwrap();
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
        let held = version_in(&body).unwrap();
        let synced_at = moment(kept.history.synced_at.unwrap()) + Duration::from_millis(1);
        let requests = origin.requests().into_iter();
        let answered = requests
            .filter(|request| request.path == path && request.received_at <= synced_at)
            .map(|request| request.received_at);
        let served = origin.site().version_at(page, answered.max().unwrap());
        assert_eq!(held, served, "{path}");
    }
}

#[test]
fn what_is_due_now_is_polled_and_then_it_ends() {
    let origin = Origin::start(SiteSettings {
        rates: rates(&[0.0; 10]),
        ..SiteSettings::default()
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    let until = Until {
        what: What::DueNow,
        ..Until::default()
    };
    let (ended, _) = run(folder.path(), settings, until);
    assert_eq!(ended.n_polls, 11);
    assert!(
        elements(folder.path())
            .iter()
            .all(|kept| kept.state == State::Ok)
    );
}

fn until_done(folder: &Path, settings: &Settings) -> Ended {
    let until = Until {
        what: What::DueNow,
        ..Until::default()
    };
    run(folder, settings.clone(), until).0
}

fn quiet_origin(n_pages: usize) -> Origin {
    Origin::start(SiteSettings {
        rates: rates(&vec![0.0; n_pages]),
        ..SiteSettings::default()
    })
    .unwrap()
}

/// Seconds between requests, of which the first are of the first run.
fn gaps(origin: &Origin) -> Vec<f64> {
    let at: Vec<SystemTime> = origin.requests().iter().map(|r| r.received_at).collect();
    at.windows(2)
        .map(|pair| {
            pair[1]
                .duration_since(pair[0])
                .unwrap_or_default()
                .as_secs_f64()
        })
        .collect()
}

/// That requests are so far apart, but for what a busy machine makes of it: one that is
/// received late comes nearer to the next.
fn assert_apart(gaps: &[f64], least: f64) {
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!(mean >= least, "{mean} of {gaps:?}");
    assert!(gaps.iter().all(|&gap| gap >= 0.8 * least), "{gaps:?}");
}

#[test]
fn requests_keep_their_distance_through_restarts() {
    let origin = quiet_origin(30);
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    settings.groups[0].gap = Span::days(0.15 / 86_400.0).unwrap();
    for _ in 0..4 {
        run(folder.path(), settings.clone(), seconds(0.8));
    }
    let gaps = gaps(&origin);
    assert!(gaps.len() > 10, "{}", gaps.len());
    assert_apart(&gaps, 0.15);
}

#[test]
fn robots_and_crawl_delay_are_kept_to() {
    let origin = Origin::start(SiteSettings {
        rates: rates(&[0.0; 16]),
        robots: Some("User-agent: *\nDisallow: /d1/\nCrawl-delay: 0.2\n".to_owned()),
        ..SiteSettings::default()
    })
    .unwrap();
    let paths: Vec<String> = (0..16).map(|page| origin.site().path(page)).collect();
    let forbidden: Vec<&String> = paths
        .iter()
        .filter(|path| path.starts_with("/d1/"))
        .collect();
    assert!(!forbidden.is_empty(), "{paths:?}");
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    until_done(folder.path(), &settings);
    let requests = origin.requests();
    assert!(
        requests
            .iter()
            .all(|request| !request.path.starts_with("/d1/"))
    );
    assert_eq!(requests[0].path, "/robots.txt");
    assert_apart(&gaps(&origin)[1..], 0.2);
    let blocked = elements(folder.path())
        .into_iter()
        .filter(|kept| kept.state == State::Blocked)
        .count();
    assert_eq!(blocked, forbidden.len());
}

#[test]
fn a_site_whose_robots_cannot_be_had_is_left_alone() {
    let origin = quiet_origin(5);
    origin.script("/robots.txt", Behaviour::status(500));
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    run(folder.path(), settings.clone(), seconds(1.0));
    assert!(origin.requests().iter().all(|r| r.path == "/robots.txt"));
    let kept = &elements(folder.path())[0];
    // Nobody has asked us to keep away: its host could not be asked.
    assert_eq!(kept.state, State::Failing);
    assert_eq!(kept.failure.as_ref().unwrap().kind, FailureKind::Robots);
}

#[test]
fn a_host_that_asks_to_wait_is_left_alone_through_restarts() {
    let origin = quiet_origin(20);
    let page = origin.site().path(5);
    origin.script(&page, Behaviour::retry_after(503, "3"));
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    settings.groups[0].concurrency = 1;
    for _ in 0..4 {
        run(folder.path(), settings.clone(), seconds(1.0));
    }
    let requests = origin.requests();
    let refused = requests
        .iter()
        .position(|request| request.status == 503)
        .unwrap();
    let at = requests[refused].received_at;
    let later = requests
        .get(refused + 1)
        .map(|next| next.received_at.duration_since(at).unwrap());
    assert!(
        later.is_none_or(|later| later >= Duration::from_secs(3)),
        "{later:?}"
    );
}

#[test]
fn elements_go_and_come_back() {
    let origin = quiet_origin(6);
    let (gone, missing) = (origin.site().path(1), origin.site().path(2));
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    until_done(folder.path(), &settings);
    origin.script(&gone, Behaviour::status(410));
    origin.script(&missing, Behaviour::status(404));
    let state = |path: &str| {
        let all = elements(folder.path());
        all.into_iter()
            .find(|kept| kept.element.locator.ends_with(path))
            .unwrap()
    };
    let poll = |path: &str| {
        let until = Until {
            what: What::These(vec![state(path).element.id]),
            ..Until::default()
        };
        run(folder.path(), settings.clone(), until).0
    };
    poll(&gone);
    assert_eq!(state(&gone).state, State::Gone);
    poll(&missing);
    assert_eq!(state(&missing).state, State::Failing);
    poll(&missing);
    assert_eq!(state(&missing).state, State::Gone);
    origin.unscript(&gone);
    poll(&gone);
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

#[test]
fn what_has_moved_for_good_keeps_its_history() {
    let origin = quiet_origin(3);
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    until_done(folder.path(), &settings);
    let before = elements(folder.path());
    let moved = before
        .iter()
        .find(|kept| kept.element.role == Role::Page)
        .unwrap();
    let path = moved.element.locator.replace(&origin.url(""), "");
    origin.script(&path, Behaviour::redirect(301, "/new/place.html"));
    let body = Behaviour::body(
        "text/html",
        "<html><body><main><p>It is here now.</p></main></body></html>",
    );
    origin.script("/new/place.html", body);
    for _ in 0..2 {
        let until = Until {
            what: What::These(vec![moved.element.id]),
            ..Until::default()
        };
        run(folder.path(), settings.clone(), until);
    }
    let after = elements(folder.path());
    let kept = after
        .iter()
        .find(|kept| kept.element.id == moved.element.id)
        .unwrap();
    assert_eq!(kept.element.locator, origin.url("/new/place.html"));
    assert_eq!(kept.history.n_polls, moved.history.n_polls + 2);
    let old = after
        .iter()
        .find(|kept| kept.element.locator == moved.element.locator)
        .unwrap();
    assert_eq!(old.state, State::Gone);
    // The second poll went straight there.
    let n = origin
        .requests()
        .iter()
        .filter(|request| request.path == path)
        .count();
    assert_eq!(n, 2);
}

#[test]
fn all_that_is_due_at_one_host_is_polled_before_it_ends() {
    let origin = quiet_origin(20);
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    settings.groups[0].gap = Span::days(0.02 / 86_400.0).unwrap();
    until_done(folder.path(), &settings);
    // A round takes less than half a second, so after two all are due.
    std::thread::sleep(Duration::from_secs(2));
    let ended = until_done(folder.path(), &settings);
    assert!(ended.n_polls >= 15, "{ended:?}");
}

/// Where a host allows no more than the budget does, new elements and old ones take
/// turns: neither waits for the others to be done.
#[test]
fn new_elements_have_their_turn_at_a_busy_host() {
    for first_pass in [FirstPass::Free, FirstPass::Counted] {
        let origin = quiet_origin(60);
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
        settings.groups[0].gap = Span::days(0.03 / 86_400.0).unwrap();
        settings.budget.first_pass = first_pass;
        let (ended, _) = run_till(folder.path(), settings, seconds(60.0), || {
            origin.n_requests() > 61 && elements(folder.path()).iter().all(|k| k.copy.is_some())
        });
        let all = elements(folder.path());
        let n_new = all.iter().filter(|kept| kept.copy.is_none()).count();
        assert_eq!(n_new, 0, "{first_pass:?}");
        assert_eq!(all.len(), 61, "{first_pass:?}");
        // A turn each, about.
        assert!(
            (75..250).contains(&ended.n_polls),
            "{first_pass:?} {ended:?}"
        );
    }
}

/// Two hosts, one of which makes its polls wait: the budget is kept to when polls leave,
/// not when they are chosen.
#[test]
fn no_five_seconds_hold_more_polls_than_the_budget_allows() {
    let slow = Origin::start_at(
        "127.0.0.2:0".parse().unwrap(),
        SiteSettings {
            rates: rates(&[0.0; 8]),
            robots: Some("User-agent: *\nCrawl-delay: 0.9\n".to_owned()),
            ..SiteSettings::default()
        },
    )
    .unwrap();
    let fast = quiet_origin(20);
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&[
        ("slow", SourceKind::Sitemap, slow.url("/sitemap.xml")),
        ("fast", SourceKind::Sitemap, fast.url("/sitemap.xml")),
    ]);
    let per_second = 3.0;
    settings.budget.per_day = per_second * 86_400.0;
    settings.budget.first_pass = FirstPass::Counted;
    settings.budget.audit = 0.5;
    run(folder.path(), settings, seconds(14.0));
    let mut at: Vec<SystemTime> = [&slow, &fast]
        .iter()
        .flat_map(|origin| origin.requests())
        .filter(|request| request.path != "/robots.txt")
        .map(|request| request.received_at)
        .collect();
    at.sort_unstable();
    assert!(at.len() as f64 > 0.8 * 14.0 * per_second, "{}", at.len());
    let most = (1.0 + 1.1 * per_second * 5.0) as usize;
    for polls in at.windows(most + 1) {
        let took = polls[most].duration_since(polls[0]).unwrap();
        assert!(took >= Duration::from_millis(4_900), "{most} in {took:?}");
    }
}
