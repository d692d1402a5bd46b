//! The engine as a whole, against origins of our own.

use std::path::Path;
use std::time::{Duration, SystemTime};

use springtide_engine::origin::{Origin, SiteSettings, Validators, version_in};
use springtide_engine::settings::{
    AllowPrivate, BudgetSettings, FirstPass, GroupKey, GroupRule, HttpSettings, PolicyName,
    PolicySettings, SourceSettings,
};
use springtide_engine::{Ended, Event, Settings, Until, What};
use springtide_policy::{Objective, Rate, Span};
use springtide_store::{Bodies, ElementId, Kept, Role, SourceKind, Sqlite, State, Store};
use tokio::sync::{mpsc, watch};

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
            })
            .collect(),
    }
}

pub(crate) fn run(folder: &Path, settings: Settings, until: Until) -> (Ended, Vec<Event>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (_stop, stopped) = watch::channel(false);
        let (sender, mut events) = mpsc::unbounded_channel();
        let ended = springtide_engine::run(folder, settings, until, stopped, sender)
            .await
            .unwrap();
        let mut told = Vec::new();
        while let Ok(event) = events.try_recv() {
            told.push(event);
        }
        (ended, told)
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
    let (ended, events) = run(folder.path(), settings, seconds(4.0));
    eprintln!("{ended:?} {:?}", &events[..3]);
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
        let served = origin
            .site()
            .version_at(page, moment(kept.history.synced_at.unwrap()));
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
