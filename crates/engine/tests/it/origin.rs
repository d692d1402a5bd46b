//! The origin itself: what tests and the demo rely on.

use std::time::{Duration, SystemTime};

use springtide_engine::fetch::{Client, HttpRequest};
use springtide_engine::origin::{Behaviour, Origin, SiteSettings, Validators, version_in};
use springtide_policy::Rate;
use url::Url;

use super::http::settings;
use crate::world::World;

fn site(n_pages: usize, rate_per_day: f64) -> SiteSettings {
    SiteSettings {
        rates: vec![Rate::per_day(rate_per_day).unwrap(); n_pages],
        ..SiteSettings::default()
    }
}

async fn body(origin: &Origin, path: &str) -> String {
    let client = Client::new(&settings()).unwrap();
    let url = Url::parse(&origin.url(path)).unwrap();
    let answer = client
        .hop(&HttpRequest::new(&url, 50_000_000))
        .await
        .unwrap();
    assert_eq!(answer.status, 200, "{path}");
    String::from_utf8(answer.body.to_vec()).unwrap()
}

#[tokio::test]
async fn a_page_is_served_in_the_version_that_was_true_when_it_was_asked_for() {
    // A change every 20 milliseconds or so.
    let origin = Origin::start(SiteSettings {
        time_scale: 86_400.0,
        is_gzipped: true,
        ..site(4, 50.0)
    })
    .unwrap();
    let client = Client::new(&settings()).unwrap();
    let mut versions = Vec::new();
    while versions.last().is_none_or(|&version| version < 5) {
        let url = Url::parse(&origin.url("/d3/p3.html")).unwrap();
        let answer = client
            .hop(&HttpRequest::new(&url, 1_000_000))
            .await
            .unwrap();
        let version = version_in(&answer.body).unwrap();
        let received_at = origin.requests().last().unwrap().received_at;
        assert_eq!(version, origin.site().version_at(3, received_at));
        assert!(origin.site().version_at(3, answer.asked_at) <= version);
        assert!(version <= origin.site().version_at(3, answer.answered_at));
        versions.push(version);
    }
    let changes = origin.site().changes(3, SystemTime::now());
    assert!(changes.len() >= 5 && changes.is_sorted());
}

#[tokio::test]
async fn volatile_parts_are_no_change() {
    let origin = Origin::start(SiteSettings {
        has_volatile_parts: true,
        ..site(1, 0.0)
    })
    .unwrap();
    let (first, second) = (
        body(&origin, "/d0/p0.html").await,
        body(&origin, "/d0/p0.html").await,
    );
    assert_ne!(first, second);
    let main = |html: &str| html.split("</main>").next().unwrap().to_owned();
    assert_eq!(main(&first), main(&second));
    let etag = |n: usize| origin.requests()[n].if_none_match.clone();
    assert_eq!((etag(0), etag(1)), (None, None));
}

#[tokio::test]
async fn all_pages_are_in_the_sitemap_and_within_reach_of_links() {
    let origin = Origin::start(SiteSettings {
        has_lastmod: true,
        ..site(345, 0.0)
    })
    .unwrap();
    let sitemap = body(&origin, "/sitemap.xml").await;
    assert_eq!(sitemap.matches("<loc>").count(), 345);
    assert_eq!(sitemap.matches("<lastmod>20").count(), 345);
    let mut reached = vec![false; 345];
    let mut pages = vec!["/".to_owned()];
    while let Some(path) = pages.pop() {
        for link in body(&origin, &path).await.split("href=\"").skip(1) {
            let link = link.split('"').next().unwrap();
            if let Some(page) = origin.site().page(link)
                && !std::mem::replace(&mut reached[page], true)
            {
                pages.push(link.to_owned());
            }
        }
    }
    assert!(reached.iter().all(|&is_reached| is_reached));
}

#[tokio::test]
async fn a_large_site_has_an_index_of_sitemaps() {
    let origin = Origin::start(site(50_001, 0.0)).unwrap();
    let index = body(&origin, "/sitemap.xml").await;
    assert!(index.contains("/sitemap-1.xml") && !index.contains("/sitemap-2.xml"));
    let last = body(&origin, "/sitemap-1.xml").await;
    assert_eq!(last.matches("<loc>").count(), 1);
    assert!(last.contains(&origin.url("/d0/p50000.html")));
}

#[tokio::test(start_paused = true)]
async fn last_modified_is_not_said_before_it_is_true_of_one_version_only() {
    let world = World::new();
    let origin = world.site(
        "docs.example",
        SiteSettings {
            validators: Validators::LastModified,
            ..site(1, 0.0)
        },
    );
    let client = world.client(&settings());
    let url = Url::parse(&origin.url("/d0/p0.html")).unwrap();
    let said = async || {
        let answer = client
            .hop(&HttpRequest::new(&url, 1_000_000))
            .await
            .unwrap();
        answer.last_modified
    };
    // Worlds begin with a second.
    origin.site().change(0);
    tokio::time::sleep(Duration::from_millis(999)).await;
    assert_eq!(said().await, None);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(
        said().await.as_deref(),
        Some("Tue, 14 Nov 2023 22:13:20 GMT")
    );
}

#[tokio::test]
async fn requests_are_remembered_and_forgotten() {
    let origin = Origin::start(site(3, 0.0)).unwrap();
    origin.script(
        "/x",
        Behaviour::call(|request| {
            if request.path.ends_with("?odd") {
                Behaviour::status(404)
            } else {
                Behaviour::Usual
            }
        }),
    );
    let client = Client::new(&settings()).unwrap();
    for (path, status) in [("/x?odd", 404), ("/", 200), ("/x", 404)] {
        let url = Url::parse(&origin.url(path)).unwrap();
        let answer = client
            .hop(&HttpRequest::new(&url, 1_000_000))
            .await
            .unwrap();
        assert_eq!(answer.status, status);
    }
    let requests = origin.requests();
    let seen: Vec<(&str, u16)> = requests
        .iter()
        .map(|request| (request.path.as_str(), request.status))
        .collect();
    assert_eq!(seen, [("/x?odd", 404), ("/", 200), ("/x", 404)]);
    let host = origin.addr().unwrap().to_string();
    assert_eq!(requests[0].host.as_deref(), Some(host.as_str()));
    origin.forget_requests();
    let url = Url::parse(&origin.url("/")).unwrap();
    client
        .hop(&HttpRequest::new(&url, 1_000_000))
        .await
        .unwrap();
    assert_eq!((origin.requests().len(), origin.n_requests()), (1, 4));
}

#[test]
fn an_origin_that_is_dropped_is_gone_at_once() {
    let origin = Origin::start(site(1, 0.0)).unwrap();
    origin.script("/slow", springtide_engine::origin::hostile::silence());
    let address = origin.addr().unwrap();
    let waiting = std::net::TcpStream::connect(address).unwrap();
    drop(origin);
    drop(waiting);
    assert!(std::net::TcpStream::connect(address).is_err());
    // And its port is free for the next.
    Origin::start_at(address, site(1, 0.0)).unwrap();
}
