//! Clocks that are set between runs. Within a run ours goes on whatever is done to the
//! system's: see `clock.rs` of the engine.

use std::path::Path;
use std::time::Duration;

use springtide_engine::Settings;
use springtide_engine::clock::Clock;
use springtide_engine::origin::{Behaviour, Network, Origin, SiteSettings};
use springtide_policy::{Rate, Span};
use springtide_store::{Moment, Reader as _, Role, SourceKind, Sqlite, State};

use crate::run::{elements, quiet_site, settings};
use crate::world::{BEGINNING, World};

const HOUR: i64 = 3_600_000;
const YEAR: i64 = 365 * 24 * HOUR;

/// A world in which the clock is ahead by so many milliseconds.
fn ahead_by(millis: i64) -> World {
    World {
        network: Network::new(Clock::starting_at(Moment(BEGINNING.0 + millis))),
        seed: 1,
    }
}

/// Requests for pages.
fn n_pages_asked(origin: &Origin) -> usize {
    let requests = origin.requests();
    let is_page = |path: &str| path.ends_with(".html");
    requests
        .iter()
        .filter(|request| is_page(&request.path))
        .count()
}

#[tokio::test(start_paused = true)]
async fn what_a_clock_that_was_ahead_wrote_down_holds_up_nobody() {
    for ahead in [600_000, YEAR] {
        let folder = tempfile::tempdir().unwrap();
        let world = ahead_by(ahead);
        let origin = quiet_site(&world, 3);
        let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
        settings.budget.per_day = 86_400.0;
        world.run_for(folder.path(), &settings, 60.0).await;
        // And then the host fails.
        origin.script_others(Behaviour::status(503));
        world.run_for(folder.path(), &settings, 60.0).await;

        let world = ahead_by(0);
        let origin = quiet_site(&world, 3);
        world.run_for(folder.path(), &settings, 600.0).await;
        assert!(
            n_pages_asked(&origin) > 100,
            "{ahead}: {}",
            n_pages_asked(&origin)
        );
        let elements = elements(folder.path());
        let pages = elements
            .iter()
            .filter(|kept| kept.element.role == Role::Page);
        for kept in pages {
            assert_eq!(kept.state, State::Ok);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_robots_txt_that_cannot_be_had_keeps_us_out_whatever_the_clock_shows() {
    for (before, after) in [(HOUR, 0), (YEAR, 0), (0, YEAR)] {
        let folder = tempfile::tempdir().unwrap();
        for ahead in [before, after] {
            let world = ahead_by(ahead);
            let origin = quiet_site(&world, 3);
            origin.script("/robots.txt", Behaviour::status(500));
            let page = ("page", SourceKind::Page, origin.url(&origin.site().path(0)));
            world
                .run_for(folder.path(), &settings(&[page]), 7200.0)
                .await;
            assert!(!origin.requests().is_empty());
            assert_eq!(n_pages_asked(&origin), 0, "{before} {after}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_is_as_long_as_it_was_after_the_clock_was_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let world = ahead_by(YEAR);
    let origin = quiet_site(&world, 1);
    let page = ("page", SourceKind::Page, origin.url(&origin.site().path(0)));
    let mut settings = settings(&[page]);
    settings.budget.per_day = 86_400.0;
    world.run_for(folder.path(), &settings, 10.0).await;
    let n_before = n_pages_asked(&origin);
    let path = origin.site().path(0);
    origin.script(&path, Behaviour::retry_after(503, "3600"));
    world.run_for(folder.path(), &settings, 10.0).await;
    assert_eq!(n_pages_asked(&origin), n_before + 1);
    let world = ahead_by(0);
    let origin = quiet_site(&world, 1);
    world.run_for(folder.path(), &settings, 3500.0).await;
    assert_eq!(n_pages_asked(&origin), 0);
    world.run_for(folder.path(), &settings, 300.0).await;
    assert!(n_pages_asked(&origin) > 0);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_is_as_long_as_it_was_after_the_clock_was_set_ahead() {
    // Whoever does not know that the machine was up all the time takes it for time.
    for (is_up, set_by, is_early) in [
        (true, YEAR, false),
        (true, HOUR, false),
        (true, -YEAR, false),
        (false, YEAR, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let world = ahead_by(0);
        let origin = quiet_site(&world, 1);
        let path = origin.site().path(0);
        let page = ("page", SourceKind::Page, origin.url(&path));
        let mut settings = settings(&[page]);
        settings.budget.per_day = 86_400.0;
        let outside = |set_by: i64, boot: u128| {
            let now = world.network.clock().now();
            let clock = Clock::starting_at(Moment(now.0 + set_by));
            springtide_engine::Outside {
                clock: clock.on_machine(boot, HOUR + now.0 - BEGINNING.0),
                ..world.outside()
            }
        };
        let run = async |outside, seconds| {
            let (_handle, controls) = springtide_engine::handle();
            let until = crate::world::for_seconds(seconds);
            let run =
                springtide_engine::run(folder.path(), settings.clone(), until, controls, outside);
            run.await.unwrap()
        };
        run(outside(0, 1), 10.0).await;
        origin.script(&path, Behaviour::retry_after(503, "3600"));
        run(outside(0, 1), 10.0).await;
        origin.unscript(&path);
        let n_before = n_pages_asked(&origin);
        let boot = if is_up { 1 } else { 2 };
        // Twice, for what is moved is not moved again.
        run(outside(set_by, boot), 1000.0).await;
        run(outside(set_by, boot), 2400.0).await;
        assert_eq!(n_pages_asked(&origin) > n_before, is_early, "{set_by}");
        run(outside(set_by, boot), 400.0).await;
        assert!(n_pages_asked(&origin) > n_before, "{set_by}");
    }
}

/// Changes and single polls that are kept of the time before a moment.
fn n_kept_before(moment: i64, folder: &Path) -> (usize, usize) {
    let store = Sqlite::read_only(folder.join(".springtide")).unwrap();
    let changes = store.changes_after(0, usize::MAX).unwrap();
    let polls = store.polls_after(0, usize::MAX).unwrap();
    let is_before = |at: Moment| at.0 < moment;
    (
        changes.iter().filter(|c| is_before(c.found_at)).count(),
        polls.iter().filter(|poll| is_before(poll.at)).count(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_ahead_for_a_moment_throws_no_history_away() {
    // Whether the machine was up all the time, so that it knows how much time has passed,
    // or was restarted, or says nothing of it.
    for boots in [Some((1, 1)), Some((1, 2)), None] {
        let folder = tempfile::tempdir().unwrap();
        let world = ahead_by(0);
        let rates = vec![Rate::per_day(8640.0).unwrap(); 2];
        let site = SiteSettings {
            rates,
            ..SiteSettings::default()
        };
        let origin = world.site("busy.example", site);
        let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
        settings.budget.per_day = 8640.0;
        settings.sources[0].retain.within = Some(Span::days(30.0).unwrap());
        settings.sources[0].retain.polls = Some(Span::days(30.0).unwrap());
        let run = async |set_by: i64, boot: Option<u128>, settings: &Settings, seconds: f64| {
            let now = world.network.clock().now();
            let clock = Clock::starting_at(Moment(now.0 + set_by));
            let clock = match boot {
                Some(boot) => clock.on_machine(boot, HOUR + now.0 - BEGINNING.0),
                None => clock,
            };
            let outside = springtide_engine::Outside {
                clock,
                ..world.outside()
            };
            let (_handle, controls) = springtide_engine::handle();
            let until = crate::world::for_seconds(seconds);
            let run =
                springtide_engine::run(folder.path(), settings.clone(), until, controls, outside);
            run.await.unwrap()
        };
        let (before, after) = boots.unzip();
        run(0, before, &settings, 1200.0).await;
        let end = world.network.clock().now().0;
        let was = n_kept_before(end, folder.path());
        assert!(was.0 > 50 && was.1 > 100, "{was:?}");
        // Three times, as one who is started again and again.
        for _ in 0..3 {
            run(YEAR, after, &settings, 1200.0).await;
            assert_eq!(n_kept_before(end, folder.path()), was, "{boots:?}");
        }
        run(0, after, &settings, 1200.0).await;
        assert_eq!(n_kept_before(end, folder.path()), was, "{boots:?}");

        // What a clock has shown for a day is true.
        run(YEAR, after, &settings, 1200.0).await;
        settings.budget.per_day = 100.0;
        run(YEAR, after, &settings, 86_400.0).await;
        // But for the last change of each element, which brought its copy.
        let (n_changes, n_polls) = n_kept_before(end, folder.path());
        assert!(
            n_changes <= 2 && n_polls == 0,
            "{boots:?}: {n_changes}, {n_polls}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_grown_too_old_while_nobody_ran_is_forgotten_at_once_if_the_machine_was_up() {
    let folder = tempfile::tempdir().unwrap();
    let world = ahead_by(0);
    let origin = quiet_site(&world, 2);
    let mut settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    settings.sources[0].retain.polls = Some(Span::days(30.0).unwrap());
    let run = async || {
        let now = world.network.clock().now();
        let outside = springtide_engine::Outside {
            clock: Clock::starting_at(now).on_machine(1, HOUR + now.0 - BEGINNING.0),
            ..world.outside()
        };
        let (_handle, controls) = springtide_engine::handle();
        let until = crate::world::for_seconds(60.0);
        let run = springtide_engine::run(folder.path(), settings.clone(), until, controls, outside);
        run.await.unwrap()
    };
    run().await;
    tokio::time::sleep(Duration::from_secs(40 * 86_400)).await;
    run().await;
    let store = Sqlite::read_only(folder.path().join(".springtide")).unwrap();
    let oldest = store.polls_after(0, 1).unwrap()[0].at;
    assert!(oldest.0 > BEGINNING.0 + 39 * 24 * HOUR, "{oldest:?}");
}
