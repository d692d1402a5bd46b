//! What one source is allowed to reach is not for another.

use std::path::Path;

use springtide_engine::fetch::FailureKind;
use springtide_engine::origin::{Behaviour, Origin, SiteSettings};
use springtide_engine::settings::{AllowPrivate, Settings};
use springtide_engine::{Outside, RunOptions, RunScope, handle};
use springtide_store::{Kept, Role, SourceKind, State};

use crate::run::{elements, settings};
use crate::world::World;

fn only(network: &str) -> AllowPrivate {
    AllowPrivate::Only(vec![network.parse().unwrap()])
}

fn paths(origin: &Origin) -> Vec<String> {
    let requests = origin.requests().into_iter();
    requests.map(|request| request.path).collect()
}

fn at<'a>(all: &'a [Kept], end: &str) -> &'a Kept {
    let mut pages = all.iter().filter(|kept| kept.element.role != Role::Listing);
    pages
        .find(|kept| kept.element.locator.ends_with(end))
        .unwrap()
}

#[track_caller]
fn assert_refused(kept: &Kept) {
    let failure = kept.failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::Address, "{kept:?}");
    assert_eq!(kept.state, State::Failing);
}

#[tokio::test(start_paused = true)]
async fn neither_a_redirect_nor_a_listing_of_another_source_reaches_what_one_is_allowed() {
    let world = World::new();
    let inside = world.site("10.0.0.5", SiteSettings::default());
    inside.script("/ours.html", Behaviour::body("text/html", "<p>Ours"));
    inside.script("/theirs.html", Behaviour::body("text/html", "<p>Theirs"));
    let public = world.site("public.example", SiteSettings::default());
    let sitemap = format!(
        "<urlset><url><loc>{}</loc></url></urlset>",
        inside.url("/theirs.html?listed")
    );
    public.script("/sitemap.xml", Behaviour::body("application/xml", sitemap));
    let theirs = inside.url("/theirs.html?sent");
    public.script("/sent", Behaviour::redirect(302, &theirs));
    let ours = inside.url("/ours.html?sent");
    public.script("/to-ours", Behaviour::redirect(302, &ours));
    let mut settings = settings(&[
        ("ours", SourceKind::Page, inside.url("/ours.html")),
        ("to-ours", SourceKind::Page, public.url("/to-ours")),
        ("listing", SourceKind::Sitemap, public.url("/sitemap.xml")),
        ("redirect", SourceKind::Page, public.url("/sent")),
    ]);
    settings.http.allow_private = AllowPrivate::None;
    // Its own redirects may go there.
    for source in &mut settings.sources[..2] {
        source.allow_private = Some(only("10.0.0.0/8"));
    }
    let folder = tempfile::tempdir().unwrap();
    world.run_for(folder.path(), &settings, 30.0).await;
    let asked = paths(&inside);
    assert!(asked.iter().any(|path| path == "/ours.html"), "{asked:?}");
    assert!(asked.iter().all(|path| !path.contains("theirs")));
    let all = elements(folder.path());
    assert_eq!(at(&all, "/ours.html").state, State::Ok);
    assert_eq!(at(&all, "/to-ours").state, State::Ok);
    assert_refused(at(&all, "/theirs.html?listed"));
    assert_refused(at(&all, "/sent"));
}

#[tokio::test(start_paused = true)]
async fn a_source_may_be_allowed_less_than_others() {
    let world = World::new();
    let inside = world.site("10.0.0.5", SiteSettings::default());
    inside.script("/a.html", Behaviour::body("text/html", "<p>A"));
    let mut settings = settings(&[
        ("all", SourceKind::Page, inside.url("/a.html")),
        ("none", SourceKind::Page, inside.url("/b.html")),
        ("others", SourceKind::Page, inside.url("/c.html")),
    ]);
    settings.http.allow_private = AllowPrivate::All;
    settings.sources[1].allow_private = Some(AllowPrivate::None);
    settings.sources[2].allow_private = Some(only("10.0.0.6/32"));
    let folder = tempfile::tempdir().unwrap();
    world.run_for(folder.path(), &settings, 30.0).await;
    let asked = paths(&inside);
    assert!(
        asked
            .iter()
            .all(|path| path == "/robots.txt" || path == "/a.html")
    );
    let all = elements(folder.path());
    assert_eq!(at(&all, "/a.html").state, State::Ok);
    assert_refused(at(&all, "/b.html"));
    assert_refused(at(&all, "/c.html"));
}

/// Polls what is due, over sockets.
async fn run_once(folder: &Path, settings: &Settings) {
    let options = RunOptions {
        scope: RunScope::DueNow,
        ..RunOptions::default()
    };
    let outside = Outside::real(&settings.http).unwrap();
    let (_handle, controls) = handle();
    let run = springtide_engine::run(folder, settings.clone(), options, controls, outside);
    run.await.unwrap();
}

#[tokio::test]
async fn a_name_that_leads_inside_is_reached_by_those_who_may_and_its_robots_txt_holds() {
    let origin = Origin::start(SiteSettings::default()).unwrap();
    let rules = "User-agent: *\nDisallow: /private\n";
    origin.script("/robots.txt", Behaviour::body("text/plain", rules));
    for path in ["/a.html", "/b.html", "/private.html"] {
        origin.script(path, Behaviour::body("text/html", "<p>Here"));
    }
    let url = |path: &str| format!("http://localhost:{}{path}", origin.addr().unwrap().port());
    let mut settings = settings(&[
        ("a", SourceKind::Page, url("/a.html")),
        ("b", SourceKind::Page, url("/b.html")),
        ("private", SourceKind::Page, url("/private.html")),
    ]);
    settings.http.allow_private = AllowPrivate::None;
    let folder = tempfile::tempdir().unwrap();
    // Nobody may, so nobody is asked, and nothing is known of its robots.txt.
    run_once(folder.path(), &settings).await;
    assert_eq!(origin.n_connections(), 0);
    // One may not ask, over a connection that is open for others either.
    for source in &mut settings.sources[1..] {
        source.allow_private = Some(AllowPrivate::All);
    }
    run_once(folder.path(), &settings).await;
    let all = elements(folder.path());
    assert_refused(at(&all, "/a.html"));
    assert_eq!(at(&all, "/b.html").state, State::Ok);
    assert_eq!(at(&all, "/private.html").state, State::Blocked);
    let asked = paths(&origin);
    assert!(
        asked
            .iter()
            .all(|path| path == "/robots.txt" || path == "/b.html"),
        "{asked:?}"
    );
    assert_eq!(
        asked.iter().filter(|path| *path == "/robots.txt").count(),
        1
    );
}
