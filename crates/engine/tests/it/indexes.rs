//! Listings that name listings.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use springtide_engine::origin::{Behaviour, Origin};
use springtide_engine::{Event, Settings};
use springtide_policy::Span;
use springtide_store::{Bodies, FailureKind, Reader, Role, Source, SourceKind, Sqlite};
use tempfile::TempDir;

use crate::run::{elements, quiet_site, settings};
use crate::world::World;

fn index(addresses: impl IntoIterator<Item = String>) -> Behaviour {
    let mut xml = String::from("<sitemapindex>");
    for address in addresses {
        write!(xml, "<sitemap><loc>{address}</loc></sitemap>").unwrap();
    }
    Behaviour::body("application/xml", xml + "</sitemapindex>")
}

/// A site whose listings are these, and a source of it.
fn listed_at(origin: &Origin) -> Settings {
    settings(&[("docs", SourceKind::Sitemap, origin.url("/index.xml"))])
}

fn source(folder: &TempDir) -> Source {
    let store = Sqlite::read_only(folder.path().join(".springtide")).unwrap();
    store.sources().unwrap().swap_remove(0)
}

fn n_listings(folder: &TempDir) -> usize {
    let listings = elements(folder.path());
    let listings = listings.iter().map(|kept| kept.element.role);
    listings.filter(|role| *role == Role::Listing).count()
}

#[tokio::test(start_paused = true)]
async fn indexes_nest_three_deep_and_what_is_left_out_is_told() {
    let world = World::new();
    let origin = quiet_site(&world, 2);
    let path = |depth: usize| format!("/{depth}.xml");
    origin.script("/index.xml", index([path(1)]));
    for depth in 1..9 {
        origin.script(&path(depth), index([path(depth + 1)]));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut settings = listed_at(&origin);
    // So that there is not much more to poll than listings, once a day.
    settings.budget.per_day = 50.0;
    let ended = world.run_once(folder.path(), &settings).await;
    assert_eq!(n_listings(&folder), 4);
    assert_eq!(ended.failed_sources, ["docs"]);
    let error = source(&folder).error.unwrap();
    assert_eq!(error.kind, FailureKind::Listing);
    let told = "/3.xml is incomplete: it is an index within 3 others";
    assert!(error.message.contains(told), "{}", error.message);

    // Another listing that is complete does not make it so; that listing does.
    origin.script("/2.xml", index([path(3), origin.url("/sitemap.xml")]));
    world.run_for(folder.path(), &settings, 90_000.0).await;
    assert!(source(&folder).error.is_some());
    origin.script("/3.xml", index([]));
    world.run_for(folder.path(), &settings, 90_000.0).await;
    assert_eq!(source(&folder).error, None);
}

#[tokio::test(start_paused = true)]
async fn many_listings_that_are_incomplete_are_told_once() {
    let world = World::new();
    let origin = quiet_site(&world, 2);
    let path = |depth: usize, number: usize| format!("/{depth}/{number}.xml");
    origin.script("/index.xml", index((0..20).map(|number| path(1, number))));
    for number in 0..20 {
        for depth in 1..9 {
            origin.script(&path(depth, number), index([path(depth + 1, number)]));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (_, events) = world
        .run_for(folder.path(), &listed_at(&origin), 600.0)
        .await;
    let told = events
        .iter()
        .filter(|event| matches!(event, Event::SourceFailed { .. }));
    assert_eq!(told.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_source_has_no_more_listings_than_it_may_have_elements() {
    let world = World::new();
    let origin = quiet_site(&world, 2);
    let paths = (0..500).map(|number| format!("/{number}.xml"));
    origin.script("/index.xml", index(paths));
    origin.script_others(index([]));
    let folder = tempfile::tempdir().unwrap();
    let mut settings = listed_at(&origin);
    settings.sources[0].max_elements = 400;
    world.run_for(folder.path(), &settings, 60.0).await;
    assert_eq!(n_listings(&folder), 400);
    let error = source(&folder).error.unwrap();
    // It names so many, and is one itself; what is beyond that in it is not read at all.
    let told = "/index.xml is incomplete: listings left out: 1; a source has at most 400";
    assert!(error.message.contains(told), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn after_some_hundreds_listings_count_also_after_a_restart() {
    let world = World::new();
    let origin = quiet_site(&world, 2);
    let paths = (0..1000).map(|number| format!("/{number}.xml"));
    origin.script("/index.xml", index(paths));
    origin.script_others(index([]));
    let folder = tempfile::tempdir().unwrap();
    let mut settings = listed_at(&origin);
    settings.budget.per_day = 24.0;
    for hour in 1..=4_usize {
        world.run_for(folder.path(), &settings, 3600.0).await;
        let requests = origin.requests();
        let is_listing = |path: &str| path.ends_with(".xml");
        let n = requests
            .iter()
            .filter(|request| is_listing(&request.path))
            .count();
        assert!((300..=301 + hour).contains(&n), "{n} after {hour} hours");
    }
}

#[tokio::test(start_paused = true)]
async fn a_packed_listing_is_no_longer_than_any_other_body() {
    let world = World::new();
    let origin = quiet_site(&world, 1);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"<urlset>").unwrap();
    encoder.write_all(&vec![b' '; 2 << 20]).unwrap();
    encoder.write_all(b"</urlset>").unwrap();
    let packed = encoder.finish().unwrap();
    origin.script("/index.xml", Behaviour::body("application/gzip", packed));
    let folder = tempfile::tempdir().unwrap();
    let mut settings = listed_at(&origin);
    settings.http.max_body = 1 << 20;
    world.run_once(folder.path(), &settings).await;
    let error = source(&folder).error.unwrap();
    assert!(
        error.message.contains("longer than 1048576 bytes"),
        "{}",
        error.message
    );
}

#[tokio::test(start_paused = true)]
async fn bodies_of_listings_do_not_pile_up_while_it_runs() {
    let world = World::new();
    let origin = quiet_site(&world, 1);
    let served = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&served);
    let page = origin.url(&origin.site().path(0));
    let changing = Behaviour::call(move |_| {
        let mut served = log.lock().unwrap();
        let n = served.len();
        let xml = format!("<urlset><url><loc>{page}</loc></url></urlset><!-- {n} -->");
        served.push(xml.clone());
        Behaviour::body("application/xml", xml)
    });
    origin.script("/index.xml", changing);
    let folder = tempfile::tempdir().unwrap();
    let mut settings = listed_at(&origin);
    settings.sources[0].list_every = Some(Span::days(1.0 / 86_400.0).unwrap());
    settings.budget.per_day = 2.0 * 86_400.0;
    let run = world.run_for(folder.path(), &settings, 10_000.0);
    // It never comes to an end of its own.
    assert!(
        tokio::time::timeout(Duration::from_secs(600), run)
            .await
            .is_err()
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = Bodies::open(elsewhere.path()).unwrap();
    let bodies = Bodies::read_only(folder.path().join(".springtide/bodies")).unwrap();
    let served = served.lock().unwrap();
    let is_there = |xml: &&String| bodies.is_sound(elsewhere.put(xml.as_bytes()).unwrap());
    let n_there = served.iter().filter(is_there).count();
    assert!(served.len() > 300, "{}", served.len());
    assert!(n_there < 100, "{n_there} of {}", served.len());
}

#[tokio::test(start_paused = true)]
async fn a_packed_listing_is_looked_at_no_further_than_a_body_may_be_long() {
    let world = World::new();
    let origin = quiet_site(&world, 1);
    let mut xml = String::from("<urlset>");
    for n in 0..5000 {
        write!(
            xml,
            "<url><loc>{}</loc></url>",
            origin.url(&format!("/{n}"))
        )
        .unwrap();
    }
    xml.push_str("</urlset>");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(xml.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    origin.script(
        "/sitemap.xml.gz",
        Behaviour::body("application/gzip", packed.clone()),
    );
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&[]);
    settings.http.max_body = packed.len() as u64 + 1000;
    let url = origin.url("/sitemap.xml.gz").parse().unwrap();
    let found = springtide_engine::inspect(folder.path(), &settings, &url, false, world.outside());
    let found = found.await.unwrap().unwrap();
    assert!(found.n_elements < 2000, "{}", found.n_elements);
}
