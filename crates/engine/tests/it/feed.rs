//! Feeds: what is read from them, and how they are kept.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use springtide_engine::origin::{Behaviour, Origin, SiteSettings};
use springtide_engine::settings::FeedEntries;
use springtide_engine::source::feed::{FeedEntry, FeedProblem, ParsedFeed, parse_feed};
use springtide_engine::{Event, RunOptions, RunScope, Settings};
use springtide_store::{
    Bodies, ChangeFilter, ChangeKind, Kept, Reader, Role, SourceKind, Sqlite, State,
};
use url::Url;

use crate::run::{self, elements};
use crate::world::World;

fn parse(text: &str) -> Result<ParsedFeed, FeedProblem> {
    let base = Url::parse("https://example.org/feed.xml").unwrap();
    parse_feed(text.as_bytes(), None, &base, 1000)
}

/// Ids, pages and dates of the entries, a line each.
#[track_caller]
fn check(text: &str, wanted: &[&str]) {
    let feed = parse(text).unwrap();
    let line = |entry: &FeedEntry| {
        let page = entry.page.as_deref().unwrap_or("-");
        let at = entry.changed_at().map_or(0, |at| at.0 / 1000);
        format!("{} {page} {at}", entry.id)
    };
    let lines: Vec<String> = feed.entries.iter().map(line).collect();
    assert_eq!(lines, wanted);
    assert_eq!(feed.problem, None);
}

#[test]
fn rss_2_is_read() {
    check(
        r#"<?xml version="1.0" encoding="ISO-8859-1"?><rss version="2.0"><channel><title>News</title>
        <link>https://example.org/</link><ttl>90</ttl>
        <item><guid isPermaLink="false">a1</guid><title>One</title><link>https://example.org/1</link>
          <pubDate>Tue, 14 Nov 2023 22:13:20 GMT</pubDate><description>First &amp; foremost</description></item>
        <item><title>Two</title><link>/2#top</link></item>
        <item><guid>https://example.org/3</guid><title>Three</title></item>
        </channel></rss>"#,
        &[
            "a1 https://example.org/1 1700000000",
            "https://example.org/2 https://example.org/2 0",
            "https://example.org/3 https://example.org/3 0",
        ],
    );
}

#[test]
fn rss_1_is_read() {
    check(
        r#"<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
        <channel rdf:about="https://example.org/"><title>News</title><link>https://example.org/</link>
        <description>All</description></channel>
        <item rdf:about="https://example.org/1"><title>One</title><link>https://example.org/1</link>
        <description>First</description></item></rdf:RDF>"#,
        &["https://example.org/1 https://example.org/1 0"],
    );
}

#[test]
fn atom_is_read() {
    check(
        r#"<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><id>urn:feed</id>
        <updated>2023-11-14T22:13:20Z</updated>
        <entry><id>urn:1</id><title>One</title><link rel="self" href="/1.atom"/>
          <link rel="alternate" href="https://example.org/1"/>
          <published>2023-11-13T00:00:00Z</published><updated>2023-11-14T22:13:20Z</updated></entry></feed>"#,
        &["urn:1 https://example.org/1 1700000000"],
    );
}

#[test]
fn json_feed_is_read() {
    check(
        r#"{"version": "https://jsonfeed.org/version/1.1", "title": "News", "items": [
          {"id": "1", "url": "https://example.org/1", "content_text": "First",
           "date_modified": "2023-11-14T22:13:20Z"},
          {"id": "2", "content_text": "Second"}]}"#,
        &["1 https://example.org/1 1700000000", "2 - 0"],
    );
}

#[test]
fn entries_are_kept_as_json() {
    let feed = parse(
        r#"<rss version="2.0"><channel><title>News</title><item><guid>a1</guid><title>One</title>
        <link>https://example.org/1</link><description>First</description>
        <pubDate>Tue, 14 Nov 2023 22:13:20 GMT</pubDate></item></channel></rss>"#,
    )
    .unwrap();
    let entry: serde_json::Value = serde_json::from_slice(&feed.entries[0].to_json()).unwrap();
    assert_eq!(
        entry,
        serde_json::json!({
            "id": "a1", "title": "One", "links": ["https://example.org/1"],
            "published": "2023-11-14T22:13:20Z", "updated": "2023-11-14T22:13:20Z",
            "summary": "First", "content": null,
        })
    );
}

#[test]
fn feeds_say_how_long_they_stay_as_they_are() {
    let rss = |channel: &str| {
        let text = format!(
            r#"<rss version="2.0" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"><channel>
            <title>News</title>{channel}<item><guid>a</guid></item></channel></rss>"#
        );
        parse(&text).unwrap().pause.map(|pause| pause.as_secs())
    };
    assert_eq!(rss(""), None);
    assert_eq!(rss("<ttl>0</ttl>"), None);
    assert_eq!(rss("<ttl>90</ttl>"), Some(5400));
    let hourly = "<sy:updatePeriod> hourly </sy:updatePeriod>";
    assert_eq!(rss(hourly), Some(3600));
    let twice = format!("{hourly}<sy:updateFrequency>2</sy:updateFrequency>");
    assert_eq!(rss(&twice), Some(1800));
    assert_eq!(rss(&format!("<ttl>90</ttl>{twice}")), Some(5400));
}

#[test]
fn what_feeds_often_get_wrong_is_mended() {
    let rss = |item: &str| {
        format!(
            "<rss version=\"2.0\"><channel><title>News</title><item><guid>a</guid>{item}</item></channel></rss>"
        )
    };
    let title = |text: &str| {
        let feed = parse(text).unwrap();
        assert_eq!(feed.problem, None, "{text}");
        feed.entries[0].title.as_deref().unwrap().trim().to_owned()
    };
    assert_eq!(title(&rss("<title>Q & A</title>")), "Q & A");
    assert_eq!(title(&rss("<title>a\u{b}b&#x1;c</title>")), "abc");
    assert_eq!(title(&rss("<title>1 < 2</title>")), "1 < 2");
    assert_eq!(
        title(&rss(
            "<title><![CDATA[Q & A \u{8}]]></title><link>https://example.org/?a=1&b=2</link>"
        )),
        "Q & A"
    );
    let junk = format!("Warning: something\n{}", rss("<title>One</title>"));
    assert_eq!(title(&junk), "One");
    let json = "{\"version\": \"https://jsonfeed.org/version/1\", \"title\": \"News\", \"items\": [{\"id\": \"1\", \"title\": \"a\tb\", \"content_text\": \"\"}]}";
    assert_eq!(title(json), "a b");
}

#[test]
fn a_feed_that_breaks_off_has_the_entries_before() {
    let whole = "<rss version=\"2.0\"><channel><title>News</title><item><guid>a</guid></item>\
                 <item><guid>b</guid></item></channel></rss>";
    for end in whole.find("<item><guid>b").unwrap()..whole.len() - 1 {
        let feed = parse(&whole[..end]).unwrap();
        assert_eq!(feed.entries[0].id, "a", "{end}");
        assert_eq!(feed.problem, Some(FeedProblem::CutShort), "{end}");
    }
    let crossed = whole.replacen("<guid>b</guid>", "<b><guid>b</b></guid>", 1);
    let feed = parse(&crossed).unwrap();
    assert_eq!(feed.entries.len(), 1);
    assert!(matches!(feed.problem, Some(FeedProblem::Broken(_))));
}

#[test]
fn other_documents_are_no_feeds() {
    for text in [
        "",
        "hello",
        "<html><body><p>hello</body></html>",
        "<urlset><url><loc>https://example.org/</loc></url></urlset>",
        "{\"items\": []}",
        "{",
        "<",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn hostile_feeds_cost_little() {
    let rss = |items: &str| {
        format!("<rss version=\"2.0\"><channel><title>x</title>{items}</channel></rss>")
    };
    // Entities that would be gigabytes.
    let mut bomb = String::from("<!DOCTYPE rss [<!ENTITY a0 \"haha\">");
    for n in 1..30 {
        write!(bomb, "<!ENTITY a{n} \"&a{};&a{};\">", n - 1, n - 1).unwrap();
    }
    bomb += "]>";
    bomb += &rss("<item><guid>a</guid><title>&a29;</title></item>");
    let feed = parse(&bomb).unwrap();
    assert!(feed.entries[0].title.as_ref().unwrap().len() < 100);
    // More entries than are read.
    let many = rss(&"<item><guid>a</guid></item>".repeat(1_000_000));
    let feed = parse(&many).unwrap();
    assert_eq!(feed.problem, Some(FeedProblem::TooManyEntries(1000)));
    assert_eq!(feed.entries.len(), 1);
    let objects = "{},".repeat(1_000_000);
    let json =
        format!("{{\"version\": \"https://jsonfeed.org/version/1\", \"items\": [{objects}{{}}]}}");
    assert!(matches!(parse(&json), Err(FeedProblem::TooManyEntries(_))));
    // Deep nesting.
    let deep = rss(&format!("<item>{}</item>", "<a>".repeat(100_000)));
    assert_eq!(parse(&deep), Err(FeedProblem::TooDeep(256)));
    let arrays = "[".repeat(100_000);
    let json = format!("{{\"version\": \"https://jsonfeed.org/version/1\", \"items\": {arrays}");
    assert!(matches!(parse(&json), Err(FeedProblem::Broken(_))));
    // Attributes by the thousand.
    let mut tag = String::from("<item");
    for n in 0..100_000 {
        write!(tag, " a{n}=''").unwrap();
    }
    let attributes = rss(&format!("{tag}></item>"));
    assert_eq!(parse(&attributes), Err(FeedProblem::TooManyAttributes(500)));
}

/// A feed whose entries have versions: `(id, version)`.
fn rss(entries: &[(u32, u32)], channel: &str) -> String {
    let mut text = format!("<rss version=\"2.0\"><channel><title>News</title>{channel}");
    for (id, version) in entries {
        write!(
            text,
            "<item><guid isPermaLink=\"false\">e{id}</guid><title>Entry {id}</title>\
             <link>http://news.example/p{id}.html</link><description>Version {version}</description>\
             <pubDate>Tue, 14 Nov 2023 22:{:02}:00 GMT</pubDate></item>",
            version
        )
        .unwrap();
    }
    text + "</channel></rss>"
}

fn feed_settings(origin: &Origin, entries: FeedEntries) -> Settings {
    let url = origin.url("/feed.xml");
    let mut settings = run::settings(&[("news", SourceKind::Feed, url)]);
    settings.sources[0].entries = entries;
    settings.budget.per_day = 1000.0;
    settings
}

fn span(hours: u64) -> RunOptions {
    RunOptions {
        span: Some(Duration::from_secs(3600 * hours)),
        ..RunOptions::default()
    }
}

fn news(world: &World) -> Origin {
    Origin::start_in(&world.network, "news.example", SiteSettings::default())
}

fn n_polls_of(origin: &Origin, path: &str) -> usize {
    let requests = origin.requests();
    requests
        .iter()
        .filter(|request| request.path == path)
        .count()
}

fn entries(folder: &std::path::Path, role: Role) -> Vec<Kept> {
    let all = elements(folder).into_iter();
    all.filter(|kept| kept.element.role == role).collect()
}

#[tokio::test(start_paused = true)]
async fn the_pages_of_a_feed_are_polled_and_stay_when_they_fall_off_it() {
    let world = World::new();
    let origin = news(&world);
    for id in 1..=3 {
        let page = format!("<html><body><main><p>Page {id}</p></main></body></html>");
        origin.script(&format!("/p{id}.html"), Behaviour::body("text/html", page));
    }
    let feed = |entries: &[(u32, u32)]| Behaviour::body("application/rss+xml", rss(entries, ""));
    origin.script("/feed.xml", feed(&[(1, 0), (2, 0)]));
    let folder = tempfile::tempdir().unwrap();
    let settings = feed_settings(&origin, FeedEntries::Pages);
    let (_, events) = world.run(folder.path(), settings.clone(), span(3)).await;
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Found { n_elements: 2, .. }))
    );
    let pages = entries(folder.path(), Role::Page);
    let locators: Vec<&str> = pages
        .iter()
        .map(|kept| kept.element.locator.as_str())
        .collect();
    assert_eq!(
        locators,
        ["http://news.example/p1.html", "http://news.example/p2.html"]
    );
    assert!(n_polls_of(&origin, "/p1.html") > 1);

    origin.script("/feed.xml", feed(&[(3, 0), (2, 1)]));
    world.run(folder.path(), settings, span(26)).await;
    let pages = entries(folder.path(), Role::Page);
    assert_eq!(pages.len(), 3);
    for kept in pages {
        assert_eq!(kept.state, State::Ok, "{kept:?}");
        assert!(!kept.is_unlisted);
    }
}

#[tokio::test(start_paused = true)]
async fn the_entries_of_a_feed_are_kept_fresh_by_its_polls_alone() {
    let world = World::new();
    let origin = news(&world);
    let feed = |entries: &[(u32, u32)]| Behaviour::body("application/rss+xml", rss(entries, ""));
    origin.script("/feed.xml", feed(&[(1, 0), (2, 0)]));
    let folder = tempfile::tempdir().unwrap();
    let mut settings = feed_settings(&origin, FeedEntries::Content);
    world.run(folder.path(), settings.clone(), span(2)).await;
    let before = entries(folder.path(), Role::Entry);
    let locators: Vec<&str> = before
        .iter()
        .map(|kept| kept.element.locator.as_str())
        .collect();
    assert_eq!(locators, ["e1", "e2"]);
    let feed_at = entries(folder.path(), Role::Listing)[0].history.synced_at;
    assert!(before.iter().all(|kept| kept.history.synced_at == feed_at));

    // One changes, one falls off, one comes.
    origin.script("/feed.xml", feed(&[(3, 0), (2, 5)]));
    let (_, events) = world.run(folder.path(), settings.clone(), span(26)).await;
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Found { n_elements: 1, .. }))
    );
    let store = Sqlite::read_only(folder.path().join(".springtide")).unwrap();
    let changes = store.changes(&ChangeFilter::default(), None, 100).unwrap();
    let kinds: Vec<_> = changes
        .iter()
        .map(|change| (change.element.0, change.kind))
        .collect();
    assert_eq!(
        kinds
            .iter()
            .filter(|(_, kind)| *kind == ChangeKind::Added)
            .count(),
        3
    );
    assert_eq!(
        kinds
            .iter()
            .filter(|(_, kind)| *kind == ChangeKind::Changed)
            .count(),
        1
    );
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    let after = entries(folder.path(), Role::Entry);
    let [gone, changed, added] = &after[..] else {
        panic!("{after:?}");
    };
    assert_eq!(gone.state, State::Ok);
    assert!(gone.history.synced_at < changed.history.synced_at);
    assert_eq!((changed.history.n_changes, added.history.n_changes), (1, 0));
    let bodies = Bodies::read_only(folder.path().join(".springtide/bodies")).unwrap();
    let body = bodies.get(changed.copy.as_ref().unwrap().body).unwrap();
    let entry: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (&entry["id"], &entry["summary"]),
        (&"e2".into(), &"Version 5".into())
    );
    // Nothing else was asked, and a restart changes nothing of that.
    let paths: Vec<String> = origin
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect();
    assert!(
        paths
            .iter()
            .all(|path| path == "/feed.xml" || path == "/robots.txt")
    );

    // Who asks for an entry gets a poll of its feed.
    let n = n_polls_of(&origin, "/feed.xml");
    let options = RunOptions {
        scope: RunScope::These(vec![changed.element.id, added.element.id]),
        ..RunOptions::default()
    };
    // With something to spend at once.
    settings.budget.per_day = 1e7;
    let (ended, _) = world.run(folder.path(), settings, options).await;
    assert_eq!(
        (ended.n_polls, n_polls_of(&origin, "/feed.xml")),
        (1, n + 1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_feed_says_that_its_entries_are_unchanged() {
    let world = World::new();
    let origin = news(&world);
    let behaviour = Behaviour::call(|request| match &request.if_none_match {
        Some(_) => Behaviour::status(304),
        None => Behaviour::body("application/rss+xml", rss(&[(1, 0)], "")).with("etag", "\"1\""),
    });
    origin.script("/feed.xml", behaviour);
    let folder = tempfile::tempdir().unwrap();
    let settings = feed_settings(&origin, FeedEntries::Content);
    world.run(folder.path(), settings, span(48)).await;
    let n = n_polls_of(&origin, "/feed.xml");
    assert!(n > 1, "{n}");
    let entry = &entries(folder.path(), Role::Entry)[0];
    let feed = &entries(folder.path(), Role::Listing)[0];
    assert_eq!(entry.history.synced_at, feed.history.synced_at);
    // Of two polls within a millisecond, one says nothing new.
    assert!(n - entry.history.n_polls as usize <= 1);
    assert_eq!(entry.history.n_changes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_only_says_when_it_was_made_has_not_changed() {
    let world = World::new();
    let origin = news(&world);
    let made = Arc::new(AtomicU64::new(0));
    let behaviour = Behaviour::call(move |_| {
        let n = made.fetch_add(1, Ordering::Relaxed);
        let channel = format!(
            "<lastBuildDate>Tue, 14 Nov 2023 22:13:{:02} GMT</lastBuildDate>",
            n % 60
        );
        Behaviour::body("application/rss+xml", rss(&[(1, 0)], &channel))
    });
    origin.script("/feed.xml", behaviour);
    let folder = tempfile::tempdir().unwrap();
    let settings = feed_settings(&origin, FeedEntries::Content);
    world.run(folder.path(), settings, span(48)).await;
    assert!(n_polls_of(&origin, "/feed.xml") > 1);
    assert_eq!(
        entries(folder.path(), Role::Listing)[0].history.n_changes,
        0
    );
}

/// When the feed was asked for, in seconds since the beginning.
fn asked_at(origin: &Origin) -> Vec<u64> {
    let began = std::time::UNIX_EPOCH + Duration::from_millis(crate::world::BEGINNING.0 as u64);
    let requests = origin.requests().into_iter();
    let of_feed = requests.filter(|request| request.path == "/feed.xml");
    of_feed
        .map(|request| request.received_at.duration_since(began).unwrap().as_secs())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_feed_is_not_polled_sooner_than_it_says_across_restarts() {
    for (channel, header) in [
        ("<ttl>300</ttl>", "max-age=60"),
        ("", "public, max-age=18000"),
    ] {
        let world = World::new();
        let origin = news(&world);
        let version = Arc::new(AtomicU64::new(0));
        // It changes all the time, and so is worth polling all the time.
        let behaviour = Behaviour::call(move |_| {
            let n = version.fetch_add(1, Ordering::Relaxed) as u32;
            Behaviour::body("application/rss+xml", rss(&[(1, n % 60)], channel))
                .with("cache-control", header)
        });
        origin.script("/feed.xml", behaviour);
        let folder = tempfile::tempdir().unwrap();
        let mut settings = feed_settings(&origin, FeedEntries::Content);
        settings.sources[0].list_every = Some(springtide_policy::Span::days(0.01).unwrap());
        for _ in 0..8 {
            world.run(folder.path(), settings.clone(), span(3)).await;
        }
        let asked = asked_at(&origin);
        assert!((3..=5).contains(&asked.len()), "{asked:?}");
        for pair in asked.windows(2) {
            assert!(pair[1] - pair[0] >= 18_000, "{asked:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_feed_whose_entries_become_something_else_starts_anew() {
    let world = World::new();
    let origin = news(&world);
    let feed = Behaviour::body("application/rss+xml", rss(&[(1, 0)], ""));
    origin.script("/feed.xml", feed);
    let page = "<html><body><main><p>Page</p></main></body></html>";
    origin.script("/p1.html", Behaviour::body("text/html", page));
    let folder = tempfile::tempdir().unwrap();
    for (entries_are, role) in [
        (FeedEntries::Content, Role::Entry),
        (FeedEntries::Pages, Role::Page),
        (FeedEntries::Content, Role::Entry),
    ] {
        let settings = feed_settings(&origin, entries_are);
        world.run(folder.path(), settings, span(1)).await;
        let roles: Vec<Role> = elements(folder.path())
            .iter()
            .map(|kept| kept.element.role)
            .collect();
        assert_eq!(roles, [Role::Listing, role]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_feed_is_an_error_of_its_source() {
    let world = World::new();
    let origin = news(&world);
    let whole = rss(&[(1, 0), (2, 0)], "");
    let cut = whole[..whole.len() - 40].to_owned();
    let folder = tempfile::tempdir().unwrap();
    let error = || {
        let store = Sqlite::read_only(folder.path().join(".springtide")).unwrap();
        let error = store.sources().unwrap()[0].error.clone();
        error.map_or_else(String::new, |error| error.message)
    };
    let settings = feed_settings(&origin, FeedEntries::Content);
    for (body, wanted, n) in [
        (
            "<html></html>".to_owned(),
            "the feed cannot be used: it is not RSS",
            0,
        ),
        (cut, "it ends before its last element does", 1),
        (whole, "", 2),
    ] {
        origin.script("/feed.xml", Behaviour::body("application/rss+xml", body));
        world.run(folder.path(), settings.clone(), span(26)).await;
        assert!(error().contains(wanted), "{}", error());
        assert_eq!(error().is_empty(), wanted.is_empty(), "{}", error());
        assert_eq!(entries(folder.path(), Role::Entry).len(), n);
    }
}
