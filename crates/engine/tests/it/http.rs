//! One request at a time: what is asked, and what comes back.

use std::time::{Duration, SystemTime};

use springtide_engine::fetch::{Client, FailureKind, HttpRequest};
use springtide_engine::origin::{Behaviour, Origin, SiteSettings, Validators, version_in};
use springtide_engine::settings::{AllowPrivate, HttpSettings};
use springtide_policy::Rate;
use url::Url;

const MAX_BODY: u64 = 1_000_000;

pub(crate) fn settings() -> HttpSettings {
    HttpSettings {
        contact: Some("ops@example.org".to_owned()),
        timeout: Duration::from_secs(20),
        max_body: MAX_BODY,
        allow_private: AllowPrivate::All,
    }
}

pub(crate) fn origin(settings: SiteSettings) -> Origin {
    let rates = [0.0, 1.0, 10.0].map(|rate| Rate::per_day(rate).unwrap());
    Origin::start(SiteSettings {
        rates: rates.to_vec(),
        ..settings
    })
    .unwrap()
}

pub(crate) fn url(origin: &Origin, path: &str) -> Url {
    Url::parse(&origin.url(path)).unwrap()
}

#[tokio::test]
async fn a_page_comes_with_its_body_and_what_it_says_of_itself() {
    let origin = origin(SiteSettings::default());
    let client = Client::new(&settings()).unwrap();
    let url = url(&origin, "/d1/p1.html");
    let before = SystemTime::now();
    let answer = client.hop(&HttpRequest::new(&url, MAX_BODY)).await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.etag.as_deref(), Some("\"1-0\""));
    assert_eq!(
        answer.content_type.as_deref(),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(version_in(&answer.body), Some(0));
    assert!(!answer.is_cut);
    assert!(before <= answer.asked_at && answer.asked_at <= answer.answered_at);
    let requests = origin.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        requests[0].user_agent.as_deref(),
        Some(concat!(
            "springtide/",
            env!("CARGO_PKG_VERSION"),
            " (+ops@example.org)"
        ))
    );
    assert_eq!(requests[0].if_none_match, None);
}

#[tokio::test]
async fn an_unchanged_page_is_a_304_without_a_body() {
    for validators in [Validators::Etag, Validators::LastModified, Validators::Both] {
        let origin = origin(SiteSettings {
            validators,
            ..SiteSettings::default()
        });
        // Last-Modified says nothing about the second in which a page changed.
        while validators == Validators::LastModified
            && origin.site().started_at().elapsed().unwrap() < Duration::from_millis(1100)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let client = Client::new(&settings()).unwrap();
        let url = url(&origin, "/d0/p0.html");
        let first = client.hop(&HttpRequest::new(&url, MAX_BODY)).await.unwrap();
        let again = HttpRequest {
            etag: first.etag.as_deref(),
            last_modified: first.last_modified.as_deref(),
            ..HttpRequest::new(&url, MAX_BODY)
        };
        let second = client.hop(&again).await.unwrap();
        assert_eq!(second.status, 304, "{validators:?}");
        assert!(second.body.is_empty());
        origin.site().change(0);
        let third = client.hop(&again).await.unwrap();
        assert_eq!(third.status, 200, "{validators:?}");
        assert_eq!(version_in(&third.body), Some(1));
    }
}

#[tokio::test]
async fn compressed_and_chunked_bodies_come_out_as_they_went_in() {
    for (is_gzipped, is_chunked) in [(true, false), (false, true), (true, true)] {
        let origin = origin(SiteSettings {
            is_gzipped,
            is_chunked,
            page_bytes: 100_000,
            ..SiteSettings::default()
        });
        let client = Client::new(&settings()).unwrap();
        let url = url(&origin, "/d2/p2.html");
        let answer = client.hop(&HttpRequest::new(&url, MAX_BODY)).await.unwrap();
        let expected = origin.site().html(2, 0, SystemTime::now());
        assert_eq!(answer.body, expected.as_bytes());
    }
}

#[tokio::test]
async fn a_redirect_is_returned_and_not_followed() {
    let origin = origin(SiteSettings::default());
    let client = Client::new(&settings()).unwrap();
    for location in [
        "/elsewhere",
        "http://10.0.0.1/",
        "file:///etc/passwd",
        "//x.example/é",
    ] {
        origin.script("/moved", Behaviour::redirect(301, location));
        let answer = client
            .hop(&HttpRequest::new(&url(&origin, "/moved"), MAX_BODY))
            .await
            .unwrap();
        assert!(answer.is_redirect());
        assert_eq!(answer.location.as_deref(), Some(location));
    }
    assert_eq!(origin.n_requests(), 4);
}

#[tokio::test]
async fn retry_after_is_a_span() {
    let origin = origin(SiteSettings::default());
    let client = Client::new(&settings()).unwrap();
    for (value, seconds) in [
        ("7", Some(7)),
        ("99999999999999999999", Some(30 * 86_400)),
        ("Fri, 31 Dec 1999 23:59:59 GMT", Some(0)),
        ("Fri, 31 Dec 2100 23:59:59 GMT", Some(30 * 86_400)),
        ("-1", None),
        ("soon", None),
    ] {
        origin.script("/busy", Behaviour::retry_after(503, value));
        let answer = client
            .hop(&HttpRequest::new(&url(&origin, "/busy"), MAX_BODY))
            .await
            .unwrap();
        assert_eq!(answer.status, 503);
        assert!(answer.is_host_trouble());
        assert_eq!(
            answer.retry_after,
            seconds.map(Duration::from_secs),
            "{value}"
        );
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let origin = origin(SiteSettings::default());
    let client = Client::new(&settings()).unwrap();
    let paths = ["/d0/p0.html", "/nothing", "/moved", "/d1/p1.html"];
    origin.script("/moved", Behaviour::redirect(302, "/"));
    for path in paths {
        client
            .hop(&HttpRequest::new(&url(&origin, path), MAX_BODY))
            .await
            .unwrap();
    }
    assert_eq!(origin.n_connections(), 1);
}

#[tokio::test]
async fn what_is_sent_is_what_was_asked() {
    let origin = origin(SiteSettings::default());
    origin.script("/search", Behaviour::body("application/json", "{}"));
    let client = Client::new(&settings()).unwrap();
    let headers = [
        ("X-Api-Key".to_owned(), "secret".to_owned()),
        ("content-type".to_owned(), "application/json".to_owned()),
        ("bad name".to_owned(), "x".to_owned()),
        ("bad-value".to_owned(), "a\r\nb: c".to_owned()),
    ];
    let url = url(&origin, "/search");
    let ask = HttpRequest {
        headers: &headers,
        body: Some(b"{\"q\": 1}"),
        ..HttpRequest::new(&url, MAX_BODY)
    };
    client.hop(&ask).await.unwrap();
    let request = &origin.requests()[0];
    assert_eq!(request.method, "POST");
    assert_eq!(request.body, b"{\"q\": 1}");
    let has = |name: &str, value: &str| {
        request
            .headers
            .contains(&(name.to_owned(), value.to_owned()))
    };
    assert!(has("x-api-key", "secret") && has("content-type", "application/json"));
    assert!(
        !request
            .headers
            .iter()
            .any(|(name, _)| name.starts_with("bad"))
    );
}

#[tokio::test]
async fn every_address_that_is_one_can_be_asked() {
    let origin = origin(SiteSettings::default());
    let client = Client::new(&settings()).unwrap();
    for path in [
        "/a b/é/%zz%/%00/[x]/{y}/|/^/`/~/!$&'()*+,;=:@",
        "/?q=a b&r={x}|y^z`\"<>'[]\\é%",
        "//double//slash",
        "/../../up",
        "/;params?x?y??",
        "/?",
    ] {
        let url = url(&origin, path);
        client.hop(&HttpRequest::new(&url, MAX_BODY)).await.unwrap();
        let asked = origin.requests().pop().unwrap().path;
        assert_eq!(asked, &url[url::Position::BeforePath..], "{path}");
    }
}

#[tokio::test]
async fn nobody_there_is_a_failure_to_connect() {
    let origin = origin(SiteSettings::default());
    let url = url(&origin, "/");
    drop(origin);
    let client = Client::new(&settings()).unwrap();
    let failure = client
        .hop(&HttpRequest::new(&url, MAX_BODY))
        .await
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connect, "{failure}");
    assert_eq!(
        failure.message,
        "127.0.0.1 is unreachable: connection refused"
    );
    assert!(failure.kind.is_host_trouble());
}

#[tokio::test]
async fn a_name_without_an_address_is_a_failure_of_dns() {
    let client = Client::new(&settings()).unwrap();
    // Reserved: no such name ever has an address.
    let url = Url::parse("http://nowhere.invalid/").unwrap();
    let failure = client
        .hop(&HttpRequest::new(&url, MAX_BODY))
        .await
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Dns, "{failure}");
}

#[tokio::test]
async fn plain_http_on_a_secure_port_is_a_failure_of_tls() {
    let origin = origin(SiteSettings::default());
    let client = Client::new(&settings()).unwrap();
    let url = Url::parse(&origin.url("/").replace("http:", "https:")).unwrap();
    let failure = client
        .hop(&HttpRequest::new(&url, MAX_BODY))
        .await
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Tls, "{failure}");
}

#[test]
fn a_contact_that_cannot_be_sent_is_refused_at_the_start() {
    for contact in ["a\nb", "é@example.org"] {
        let settings = HttpSettings {
            contact: Some(contact.to_owned()),
            ..settings()
        };
        assert!(Client::new(&settings).is_err(), "{contact:?}");
    }
}
