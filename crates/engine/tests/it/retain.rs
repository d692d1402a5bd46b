//! For how long versions, bodies and polls are kept, while a run goes on.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use springtide_engine::Settings;
use springtide_engine::origin::{SiteSettings, Validators};
use springtide_engine::retain::{Retention, Step, TrustedNow};
use springtide_engine::settings::Retain;
use springtide_policy::{Rate, Span};
use springtide_store::{
    Bodies, Change, ChangeFilter, Fact, Kept, Moment, Reader, Role, Source, SourceKind, Sqlite,
};

use crate::run::{elements, quiet_site, settings};
use crate::world::World;

fn seconds(seconds: f64) -> Span {
    Span::days(seconds / 86_400.0).unwrap()
}

fn versions(store: &dyn Reader, kept: &Kept) -> Vec<Change> {
    let filter = ChangeFilter {
        element: Some(kept.element.id),
        ..ChangeFilter::default()
    };
    store.changes(&filter, None, usize::MAX).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_not_to_be_kept_is_forgotten_while_it_runs_and_its_room_is_given_back() {
    let world = World::new();
    let names = ["all", "few", "bare", "young"];
    let sites = names.map(|name| {
        let site = SiteSettings {
            rates: vec![Rate::per_day(86_400.0).unwrap(); 4],
            validators: Validators::None,
            ..SiteSettings::default()
        };
        world.site(&format!("{name}.example"), site)
    });
    let sources: Vec<_> = names
        .iter()
        .zip(&sites)
        .map(|(name, site)| (*name, SourceKind::Sitemap, site.url("/sitemap.xml")))
        .collect();
    let mut settings = settings(&sources);
    settings.budget.per_day = 3.0 * 86_400.0;
    let rules = [
        Retain::default(),
        Retain {
            versions: Some(3),
            ..Retain::default()
        },
        Retain {
            keeps_bodies: false,
            polls: Some(seconds(300.0)),
            ..Retain::default()
        },
        Retain {
            within: Some(seconds(100.0)),
            ..Retain::default()
        },
    ];
    for (source, rule) in settings.sources.iter_mut().zip(rules) {
        source.retain = rule;
    }
    let folder = tempfile::tempdir().unwrap();
    // Passes are ten minutes apart: at the start, then, and then again.
    let (ended, _) = world.run_for(folder.path(), &settings, 1300.0).await;
    assert!(ended.n_changes > 1000, "{ended:?}");

    let store = Sqlite::read_only(folder.path().join(".springtide")).unwrap();
    let bodies = Bodies::read_only(folder.path().join(".springtide/bodies")).unwrap();
    let latest = store.changes(&ChangeFilter::default(), None, 1).unwrap()[0].found_at;
    let (passed_at, an_age) = (Moment(latest.0 - 120_000), Moment(latest.0 - 250_000));
    let mut n_of = [0; 4];
    for kept in elements(folder.path()) {
        if kept.element.role == Role::Listing {
            continue;
        }
        assert!(bodies.is_sound(kept.copy.as_ref().unwrap().body));
        let found = versions(&store, &kept);
        assert!(
            found
                .iter()
                .all(|c| c.body.is_none_or(|body| bodies.is_sound(body)))
        );
        let old: Vec<&Change> = found.iter().filter(|c| c.found_at < passed_at).collect();
        n_of[kept.element.source.0 as usize] += old.len();
        assert!(kept.history.n_changes > 20, "{kept:?}");
        match names[kept.element.source.0 as usize] {
            "all" => assert!(old.iter().all(|change| change.body.is_some())),
            "few" => assert!(old.len() <= 3, "{}", old.len()),
            "bare" => {
                assert!(old.iter().all(|change| change.digest.is_some()));
                // The last may have been the newest when it was passed.
                assert!(old[1..].iter().all(|change| change.body.is_none()));
                let polls = store.polls(kept.element.id, usize::MAX).unwrap();
                let n_old = polls.iter().filter(|p| p.at.0 < latest.0 - 500_000).count();
                assert_eq!(n_old, 0);
                assert!(kept.history.n_polls as usize > polls.len());
            }
            _ => assert!(old.iter().all(|change| change.found_at > an_age)),
        }
    }
    assert!(n_of[0] > 100 && n_of[2] > 100, "{n_of:?}");
    // Bodies of the first ten minutes, at the least, have been collected.
    let mut named = HashSet::new();
    store
        .bodies(&mut |body| {
            named.insert(body);
        })
        .unwrap();
    let left = bodies.unnamed(&named).unwrap().n_bodies;
    let n_dropped = ended.n_changes - named.len() as u64;
    assert!(left < 3 * n_dropped / 4, "{left} of {n_dropped} are left");
    let found = store.check(&mut |body| bodies.is_sound(body)).unwrap();
    assert_eq!(found, []);
}

#[test]
fn a_pass_goes_on_where_it_was_and_begins_again_when_it_is_over() {
    let source = Source {
        id: springtide_store::SourceId(0),
        name: "docs".into(),
        kind: SourceKind::Page,
        url: "https://a.example/".into(),
        added_at: Moment(0),
        totals: springtide_store::Totals::default(),
        error: None,
    };
    let change = |at: i64| Change {
        number: 0,
        version: 0,
        element: springtide_store::ElementId(0),
        source: source.id,
        found_at: Moment(at),
        previous_poll_at: None,
        kind: springtide_store::ChangeKind::Changed,
        bytes_before: None,
        bytes_after: None,
        digest: None,
        body: None,
        content_type: None,
        size: None,
    };
    let mut store = springtide_store::Memory::new();
    let writer: &mut dyn springtide_store::Writer = &mut store;
    let facts: Vec<Fact> = (0..2500).map(|at| Fact::Change(change(at))).collect();
    writer.commit(&facts).unwrap();
    let mut settings: Settings = settings(&[("docs", SourceKind::Page, source.url.clone())]);
    settings.sources[0].retain.within = Some(seconds(1.0));
    let retention = || Retention::new(&settings, std::slice::from_ref(&source));
    assert!(retention().forgets_anything());
    // From the beginning each time, as one who is started anew for each step.
    let mut n_steps = 0;
    loop {
        let mut retention = retention().resumed(writer).unwrap();
        match retention
            .step(writer, &TrustedNow::at(Moment(2600)))
            .unwrap()
        {
            Step::Forget(facts) => writer.commit(&facts).unwrap(),
            Step::Last(facts) => break writer.commit(&facts).unwrap(),
        }
        n_steps += 1;
    }
    assert_eq!(n_steps, 2);
    let left = writer.changes_after(0, usize::MAX).unwrap();
    assert_eq!(left.len(), 900);
    assert_eq!(left[0].found_at, Moment(1600));
    // Whoever is started afterwards looks at all of it again: what was young has aged.
    let mut later = retention().resumed(writer).unwrap();
    let Step::Last(facts) = later.step(writer, &TrustedNow::at(Moment(2700))).unwrap() else {
        panic!("900 are looked at in one step");
    };
    writer.commit(&facts).unwrap();
    let left = writer.changes_after(0, usize::MAX).unwrap();
    assert_eq!(left[0].found_at, Moment(1700));

    // One is through though something is found between any two steps.
    let mut busy = retention();
    let mut now = 2700;
    while let Step::Forget(facts) = busy.step(writer, &TrustedNow::at(Moment(now))).unwrap() {
        writer.commit(&facts).unwrap();
        now += 1;
        assert!(now < 2710, "it is never through");
        writer.commit(&[Fact::Change(change(now))]).unwrap();
    }

    settings.sources[0].retain = Retain::default();
    let mut nothing = Retention::new(&settings, &[source]);
    assert!(!nothing.forgets_anything());
    let over = nothing
        .step(writer, &TrustedNow::at(Moment(i64::MAX)))
        .unwrap();
    assert_eq!(over, Step::Last(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn bodies_of_an_earlier_version_are_brought_over_by_a_run() {
    let world = World::new();
    let origin = quiet_site(&world, 5);
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    world.run_once(folder.path(), &settings).await;
    let place = folder.path().join(".springtide/bodies");
    let n = as_earlier_versions_kept_them(&place, &elements(folder.path()));
    assert_eq!(n, 6);
    world.run_for(folder.path(), &settings, 2.0).await;
    let of_ours =
        |name: &str| name.ends_with(".seg") || name.starts_with("index") || name == "lock";
    for entry in fs::read_dir(&place).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(of_ours(&name), "{name}");
    }
    let bodies = Bodies::read_only(&place).unwrap();
    for kept in elements(folder.path()) {
        assert!(bodies.is_sound(kept.copy.unwrap().body));
        // None had to be fetched anew.
        assert_eq!(kept.history.n_changes, 0);
    }
}

/// Puts all bodies into files of their own, and says how many there were.
fn as_earlier_versions_kept_them(place: &Path, elements: &[Kept]) -> usize {
    let bodies = Bodies::read_only(place).unwrap();
    let ids = elements.iter().map(|kept| kept.copy.as_ref().unwrap().body);
    let all: Vec<_> = ids.map(|id| (id, bodies.get(id).unwrap())).collect();
    drop(bodies);
    fs::remove_dir_all(place).unwrap();
    for (id, body) in &all {
        let name = id.to_string();
        let path = place.join(&name[..2]).join(&name[2..]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = vec![b's'];
        file.extend_from_slice(&(body.len() as u64).to_le_bytes());
        file.extend_from_slice(body);
        fs::write(path, file).unwrap();
    }
    all.len()
}
