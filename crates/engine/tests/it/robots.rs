//! robots.txt, by the examples of RFC 9309.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use springtide_engine::fetch::robots::{self, MAX_BYTES, Step};
use springtide_engine::fetch::{
    Answer, Client, FailureKind, FetchFailure, HttpRequest, Overflow, RobotsRules,
};
use springtide_engine::origin::{Behaviour, SiteSettings, hostile};
use springtide_store::{Moment, Robots, RobotsAnswer};
use url::Url;

use super::http::{origin, settings, url as url_at};

use crate::cost::cpu_time;

fn rules(text: &str) -> RobotsRules {
    RobotsRules::new(&RobotsAnswer::Rules(text.to_owned()))
}

#[track_caller]
fn check(text: &str, allowed: &[&str], disallowed: &[&str]) {
    let rules = rules(text);
    for (paths, expected) in [(allowed, true), (disallowed, false)] {
        for path in paths {
            let url = Url::parse("https://www.example.com").unwrap().join(path);
            assert_eq!(rules.is_allowed(&url.unwrap()), expected, "{path}");
        }
    }
}

#[test]
fn the_group_with_our_name_holds_and_others_do_not() {
    let text = "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n\
        User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n\
        User-Agent: SpringTide\nUser-Agent: bazbot\nDisallow: /example/page.html\n\n\
        User-Agent: quxbot\n";
    // Of the RFC's simple example (5.1), with us as its barbot.
    check(
        text,
        &["/example/", "/example/other.html", "/a.gif", "/"],
        &["/example/page.html", "/example/page.html?x"],
    );
    // Without our name, the group for all.
    let text = text.replace("SpringTide", "barbot");
    check(
        &text,
        &["/publications/", "/a.gif?x", "/robots.txt"],
        &["/example/", "/example/page.html", "/a.gif"],
    );
    // A name that only begins like ours, or ours with a version, is not ours.
    check("User-Agent: spring\nDisallow: /\n", &["/"], &[]);
    check("User-Agent: springtide-images\nDisallow: /\n", &["/"], &[]);
}

#[test]
fn groups_with_our_name_are_one() {
    check(
        "user-agent: springtide\ndisallow: /a\n\nuser-agent: other\ndisallow: /b\n\nuser-agent: springtide\ndisallow: /c\n",
        &["/b"],
        &["/a", "/c"],
    );
}

#[test]
fn the_longest_match_wins_and_of_two_as_long_the_one_that_allows() {
    // The RFC's example of the longest match (5.2).
    check(
        "User-Agent: *\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n",
        &["/example/page/", "/example/page/x"],
        &["/example/page/disallowed.gif"],
    );
    check(
        "User-Agent: *\nDisallow: /page\nAllow: /page\n",
        &["/page"],
        &[],
    );
}

#[test]
fn stars_and_ends_are_what_the_rfc_says() {
    let all = "User-Agent: *\nDisallow: ";
    check(
        &format!("{all}/*.php$\n"),
        &["/a.php?x", "/php"],
        &["/a.php", "/d/a.php"],
    );
    check(
        &format!("{all}/fish*.php\n"),
        &["/Fish.php"],
        &["/fish.php", "/fishheads/catfish.php?x"],
    );
    check(
        &format!("{all}/fish\n"),
        &["/Fish", "/catfish"],
        &["/fish", "/fish/x", "/fishy"],
    );
    check(&format!("{all}/fish/\n"), &["/fish"], &["/fish/"]);
    check(&format!("{all}*\n"), &["/robots.txt"], &["/", "/x"]);
    check(&format!("{all}\n"), &["/", "/x"], &[]);
    check(&format!("{all}/ # all of it\n"), &[], &["/", "/x"]);
}

#[test]
fn percent_encodings_are_compared_as_what_they_stand_for() {
    // The table of section 2.2.2.
    let all = "User-Agent: *\nDisallow: ";
    check(
        &format!("{all}/foo/bar?baz=quz\n"),
        &[],
        &["/foo/bar?baz=quz"],
    );
    check(
        &format!("{all}/foo/bar?baz=https://foo.bar\n"),
        &[],
        &["/foo/bar?baz=https://foo.bar"],
    );
    for rule in ["/foo/bar/ツ", "/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84"] {
        check(
            &format!("{all}{rule}\n"),
            &["/foo/bar/"],
            &["/foo/bar/ツ", "/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84"],
        );
    }
    check(
        &format!("{all}/foo/bar/%62%61%7A\n"),
        &[],
        &["/foo/bar/baz"],
    );
    // And of section 2.2.3.
    check(
        &format!("{all}/path/file-with-a-%2A.html\n"),
        &["/path/file-with-a-b.html"],
        &["/path/file-with-a-*.html", "/path/file-with-a-%2A.html"],
    );
    check(
        &format!("{all}/path/foo-%24\n"),
        &["/path/foo-"],
        &["/path/foo-$", "/path/foo-%24"],
    );
    check(
        &format!("{all}/\nAllow: /a-%2A\nAllow: /b$c\n"),
        &["/a-*", "/b$c"],
        &["/a-b", "/b"],
    );
}

#[test]
fn no_rules_allow_everything_and_no_answer_nothing() {
    let page = Url::parse("https://example.org/page").unwrap();
    assert!(RobotsRules::new(&RobotsAnswer::None).is_allowed(&page));
    assert!(!RobotsRules::new(&RobotsAnswer::Unreachable).is_allowed(&page));
    let robots = Url::parse("https://example.org/robots.txt").unwrap();
    assert!(RobotsRules::new(&RobotsAnswer::Unreachable).is_allowed(&robots));
    assert!(rules("<html>not found</html>").is_allowed(&page));
}

#[test]
fn a_delay_is_no_longer_than_a_day() {
    for (value, seconds) in [
        ("2.5", Some(2.5)),
        ("0", None),
        ("999999999", Some(86_400.0)),
        ("1e300", None),
        ("NaN", None),
        ("-5", None),
        ("soon", None),
    ] {
        let found = rules(&format!("User-agent: *\nCrawl-delay: {value}\n")).crawl_delay();
        assert_eq!(found, seconds.map(Duration::from_secs_f64), "{value}");
    }
}

#[test]
fn sitemaps_belong_to_no_group() {
    let rules = rules(
        "Sitemap: https://a.example/1.xml\nUser-agent: other\nDisallow: /\nSitemap: https://b.example/2.xml\nsitemap: nonsense\n",
    );
    let found: Vec<&str> = rules.sitemaps().iter().map(Url::as_str).collect();
    assert_eq!(
        found,
        ["https://a.example/1.xml", "https://b.example/2.xml"]
    );
}

const DAY: i64 = 86_400_000;

#[test]
fn what_was_known_holds_while_nothing_can_be_had() {
    let now = Moment(100 * DAY);
    let known = RobotsAnswer::Rules("User-agent: *\nDisallow: /a\n".to_owned());
    let first = robots::keep(None, "https://example.org", known.clone(), now);
    assert!(!robots::is_due(&first, Moment(now.0 + DAY - 1)));
    assert!(robots::is_due(&first, Moment(now.0 + DAY)));
    assert!(robots::is_due(&first, Moment(now.0 - 1)), "a wrong clock");
    let later = Moment(now.0 + 50 * DAY);
    let stale = robots::keep(
        Some(&first),
        "https://example.org",
        RobotsAnswer::Unreachable,
        later,
    );
    assert_eq!(stale.answer, known);
    assert!(robots::is_due(&stale, later));
    let gone = robots::keep(
        Some(&stale),
        "https://example.org",
        RobotsAnswer::None,
        later,
    );
    assert_eq!((gone.answer, gone.fetched_at), (RobotsAnswer::None, later));
}

#[test]
fn a_site_that_never_told_its_rules_is_left_alone_for_thirty_days() {
    let page = Url::parse("https://example.org/page").unwrap();
    let mut kept: Option<Robots> = None;
    for day in 0..=30 {
        let now = Moment(day * DAY);
        let next = robots::keep(
            kept.as_ref(),
            "https://example.org",
            RobotsAnswer::Unreachable,
            now,
        );
        assert!(robots::is_due(&next, now));
        let is_allowed = RobotsRules::at(&next, now).is_allowed(&page);
        assert_eq!(is_allowed, day == 30, "day {day}");
        kept = Some(next);
    }
}

fn answer(status: u16, location: Option<&str>, body: &str) -> Result<Answer, FetchFailure> {
    Ok(Answer {
        status,
        etag: None,
        last_modified: None,
        content_type: None,
        max_age: None,
        retry_after: None,
        links: Vec::new(),
        location: location.map(str::to_owned),
        body: body.to_owned().into(),
        is_cut: false,
        large_body_permit: None,
        asked_at: SystemTime::now(),
        answered_at: SystemTime::now(),
    })
}

#[test]
fn every_answer_means_what_the_rfc_says() {
    let url = Url::parse("https://example.org/robots.txt").unwrap();
    let read = |hop: Result<Answer, FetchFailure>| robots::read(&url, &hop, 0);
    assert_eq!(
        read(answer(200, None, "x")),
        Step::Done(RobotsAnswer::Rules("x".to_owned()))
    );
    for status in [400, 401, 403, 404, 410, 451] {
        assert_eq!(
            read(answer(status, None, "")),
            Step::Done(RobotsAnswer::None)
        );
    }
    for status in [429, 500, 502, 503, 599, 304] {
        assert_eq!(
            read(answer(status, None, "")),
            Step::Done(RobotsAnswer::Unreachable),
            "{status}"
        );
    }
    for kind in [
        FailureKind::Timeout,
        FailureKind::Dns,
        FailureKind::Encoding,
    ] {
        assert_eq!(
            read(Err(FetchFailure::new(kind, "no"))),
            Step::Done(RobotsAnswer::Unreachable)
        );
    }
    let elsewhere = answer(301, Some("//www.example.org/robots.txt"), "");
    assert_eq!(
        robots::read(&url, &elsewhere, 4),
        Step::Follow(Url::parse("https://www.example.org/robots.txt").unwrap())
    );
    assert_eq!(
        robots::read(&url, &elsewhere, 5),
        Step::Done(RobotsAnswer::None)
    );
}

#[tokio::test]
async fn five_redirects_are_followed_and_half_a_megabyte_is_read() {
    let origin = origin(SiteSettings::default());
    for hop in 0..5 {
        origin.script(
            &format!("/{hop}"),
            Behaviour::redirect(302, &format!("/{}", hop + 1)),
        );
    }
    origin.script("/robots.txt", Behaviour::redirect(301, "/1"));
    let mut long = String::from("User-agent: *\nDisallow: /first\n");
    while long.len() < 2 * MAX_BYTES {
        long.push_str("Allow: /padding\n");
    }
    long.push_str("Disallow: /last\n");
    origin.script("/5", Behaviour::body("text/plain", long));
    let client = Client::new(&settings()).unwrap();
    let page = url_at(&origin, "/page");
    let mut url = robots::url_of(&page);
    let mut n_redirects = 0;
    let found = loop {
        let hop = client
            .hop(&HttpRequest {
                overflow: Overflow::Cut,
                ..HttpRequest::new(&url, MAX_BYTES as u64)
            })
            .await;
        match robots::read(&url, &hop, n_redirects) {
            Step::Follow(next) => url = next,
            Step::Done(answer) => break answer,
            Step::Refused => panic!("{hop:?}"),
        }
        n_redirects += 1;
    };
    assert_eq!(n_redirects, 5);
    let RobotsAnswer::Rules(text) = &found else {
        panic!("{found:?}");
    };
    assert!(text.len() <= MAX_BYTES && text.ends_with('\n'));
    let rules = RobotsRules::new(&found);
    assert!(!rules.is_allowed(&url_at(&origin, "/first")));
    assert!(rules.is_allowed(&url_at(&origin, "/last")));
    // A site that is down is not one without rules.
    origin.script("/robots.txt", hostile::early_close());
    let url = robots::url_of(&page);
    let hop = client.hop(&HttpRequest::new(&url, MAX_BYTES as u64)).await;
    assert_eq!(
        robots::read(&url, &hop, 0),
        Step::Done(RobotsAnswer::Unreachable)
    );
}

#[test]
fn rules_made_to_cost_time_cost_little_of_it() {
    let mut text = String::from("User-agent: *\nAllow: /b\n");
    while text.len() < MAX_BYTES {
        text.push_str("Disallow: *a*ab\n");
    }
    let url = Url::parse(&format!("http://x.example/{}", "a".repeat(8000))).unwrap();
    let short = Url::parse("http://x.example/b").unwrap();
    let taken = cpu_time(|| {
        let rules = rules(&text);
        assert!(!rules.is_allowed(&url));
        assert!(rules.is_allowed(&short));
    });
    assert!(taken < Duration::from_secs(5), "{taken:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_bytes_are_rules_of_some_kind(body in prop::collection::vec(any::<u8>(), 0..2000), path in ".{0,200}") {
        let url = Url::parse("https://example.org/robots.txt").unwrap();
        let hop = answer(200, None, "").map(|answer| Answer { body: body.into(), ..answer });
        let Step::Done(found) = robots::read(&url, &hop, 0) else { panic!() };
        let rules = RobotsRules::new(&found);
        let mut page = Url::parse("https://example.org/").unwrap();
        page.set_path(&path);
        let _ = (rules.is_allowed(&page), rules.crawl_delay(), rules.sitemaps().len());
    }

    #[test]
    fn lines_that_look_like_rules_are_rules_of_some_kind(
        lines in prop::collection::vec("(user-agent|disallow|allow|crawl-delay|sitemap)[: ]{0,2}[*$%/a-c2A]{0,12}", 0..40),
        path in "[*$%/a-c2A]{0,30}",
    ) {
        let rules = rules(&lines.join("\n"));
        let mut page = Url::parse("https://example.org/").unwrap();
        page.set_path(&path);
        let _ = (rules.is_allowed(&page), rules.crawl_delay());
    }
}

#[test]
fn our_name_with_a_version_is_ours() {
    for name in [
        "springtide",
        "springtide/0.1",
        "SpringTide / 2.0 (+x)",
        "springtide/*",
    ] {
        let text = format!("User-agent: *\nAllow: /\n\nUser-Agent: {name}\r\nDisallow: /\n");
        let rules = RobotsRules::new(&RobotsAnswer::Rules(text));
        let url = Url::parse("https://example.org/a").unwrap();
        assert!(!rules.is_allowed(&url), "{name}");
    }
    let text = "User-agent: springtides/0.1\nDisallow: /\n".to_owned();
    let rules = RobotsRules::new(&RobotsAnswer::Rules(text));
    assert!(rules.is_allowed(&Url::parse("https://example.org/a").unwrap()));
}

#[test]
fn many_plain_rules_are_answered_and_those_made_to_cost_time_are_a_no() {
    let path = "x".repeat(1500);
    let url = Url::parse(&format!("https://example.org/{path}")).unwrap();
    let rules = |rule: &dyn Fn(usize) -> String| {
        let lines: String = (0..15_000)
            .map(|n| format!("Disallow: {}\n", rule(n)))
            .collect();
        RobotsRules::new(&RobotsAnswer::Rules(format!("User-agent: *\n{lines}")))
    };
    assert!(rules(&|n| format!("/{n}")).is_allowed(&url));
    // Each would have to be looked for all along the path.
    assert!(!rules(&|n| format!("/*{n}$")).is_allowed(&url));
}
