//! Every way to answer badly that we know of.

use std::time::Duration;

use futures_util::future::join_all;
use springtide_engine::fetch::{self, Client, FailureKind, FetchFailure, HttpRequest, Overflow};
use springtide_engine::origin::{Behaviour, Origin, SiteSettings, hostile};
use springtide_engine::settings::HttpSettings;

use super::http::{origin, settings, url};
use crate::world::World;

const MAX_BODY: u64 = 1_000_000;

/// What each of them is to us.
fn expected(name: &str) -> &'static [FailureKind] {
    use FailureKind::*;
    match name {
        "slow-headers" | "silence" | "slow-body" | "stalled-body" => &[Timeout],
        "endless-body" | "length-enormous" => &[TooLarge],
        "early-close" | "close-at-once" | "reset-at-once" | "reset-in-body" | "length-too-long" => {
            &[Reset]
        }
        "garbage" | "endless-garbage" | "ancient" | "broken-chunks" | "huge-chunk"
        | "negative-length" | "two-lengths" | "many-headers" | "long-header"
        | "endless-headers" | "endless-trailers" | "endless-chunks" => &[Protocol],
        "endless-continue" => &[Protocol, Timeout],
        "gzip-bomb" | "endless-gzip" | "gzip-in-gzip-bomb" | "endless-empty-gzip"
        | "deflate-bomb" | "br-bomb" | "zstd-bomb" => &[TooLarge],
        "zstd-window" | "truncated-gzip" | "corrupt-gzip" | "not-gzip" | "unknown-encoding"
        | "many-encodings" => &[Encoding],
        "long-location" => &[Url],
        "upgrade" => &[Answer],
        _ => &[],
    }
}

/// The most memory that this process has ever had, in kilobytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.unwrap().parse().unwrap()
}

#[tokio::test]
async fn every_bad_answer_is_a_failure_of_its_kind_in_bounded_memory() {
    let origin = origin(SiteSettings::default());
    let client = Client::new(&settings()).unwrap();
    // Those that end only with our patience are below.
    let all = hostile::all().into_iter();
    let all = all.filter(|(name, _)| !expected(name).contains(&FailureKind::Timeout));
    check_all(&origin, &client, all.collect()).await;
}

#[tokio::test(start_paused = true)]
async fn every_bad_answer_is_a_failure_of_its_kind_in_bounded_time() {
    let world = World::new();
    let origin = world.site("bad.example", SiteSettings::default());
    let timeout = Duration::from_secs(4);
    let settings = HttpSettings {
        timeout,
        ..settings()
    };
    let client = world.client(&settings);
    check_all(&origin, &client, hostile::all()).await;
    assert!(world.elapsed() <= timeout, "{:?}", world.elapsed());
}

/// Asks for all of them at once.
async fn check_all(origin: &Origin, client: &Client, all: Vec<(&str, Behaviour)>) {
    for (name, behaviour) in &all {
        origin.script(&format!("/{name}"), behaviour.clone());
    }
    let before = peak_memory();
    let results = join_all(all.iter().map(|(name, _)| async move {
        let url = url(origin, &format!("/{name}"));
        (*name, client.hop(&HttpRequest::new(&url, MAX_BODY)).await)
    }))
    .await;
    let grown = peak_memory() - before;
    for (name, result) in results {
        let kinds = expected(name);
        match result {
            Ok(answer) => panic!("{name}: {}", answer.status),
            Err(failure) => {
                assert!(kinds.contains(&failure.kind), "{name}: {:?}", failure);
                assert!(failure.message.len() < 200, "{name}: {failure}");
                assert!(
                    failure.message.chars().all(|c| !c.is_control()),
                    "{name}: {failure:?}"
                );
            }
        }
    }
    // Some forty at a time, each of up to a megabyte, and a brotli window among them.
    assert!(grown < 150_000, "{grown} kB more");
}

async fn ask(behaviour: Behaviour) -> Result<fetch::Answer, FetchFailure> {
    let origin = origin(SiteSettings::default());
    origin.script("/x", behaviour);
    let client = Client::new(&settings()).unwrap();
    let url = url(&origin, "/x");
    client.hop(&HttpRequest::new(&url, MAX_BODY)).await
}

#[tokio::test]
async fn a_body_may_be_cut_where_that_is_asked_for() {
    let origin = origin(SiteSettings::default());
    let client = Client::new(&settings()).unwrap();
    for (name, behaviour) in [
        ("endless", hostile::endless_body()),
        ("gzip", hostile::gzip_bomb()),
        ("enormous", hostile::length_enormous()),
    ] {
        origin.script("/x", behaviour);
        let url = url(&origin, "/x");
        let result = client
            .hop(&HttpRequest {
                overflow: Overflow::Cut,
                ..HttpRequest::new(&url, 1000)
            })
            .await;
        if name == "enormous" {
            // It is not more than is wanted that came, but less than was promised.
            assert_eq!(result.unwrap_err().kind, FailureKind::Reset);
        } else {
            let answer = result.unwrap();
            assert_eq!((answer.body.len(), answer.is_cut), (1000, true), "{name}");
        }
    }
}

#[tokio::test]
async fn the_cap_is_exact() {
    let body = vec![b'x'; 1000];
    for (limit, is_taken) in [(1001, true), (1000, true), (999, false)] {
        let origin = origin(SiteSettings::default());
        origin.script("/x", Behaviour::body("text/plain", body.clone()));
        let client = Client::new(&settings()).unwrap();
        let url = url(&origin, "/x");
        let result = client.hop(&HttpRequest::new(&url, limit)).await;
        assert_eq!(result.is_ok(), is_taken, "{limit}");
    }
}

#[tokio::test]
async fn a_sitemap_of_a_million_entries_stops_at_the_cap() {
    let failure = ask(hostile::large_sitemap(1_000_000)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::TooLarge);
}

#[tokio::test]
async fn odd_answers_are_returned_as_they_are() {
    let answer = ask(hostile::entity_bomb()).await.unwrap();
    assert!(answer.body.len() < 2000);
    let answer = ask(hostile::invalid_utf8()).await.unwrap();
    assert!(std::str::from_utf8(&answer.body).is_err());
    let answer = ask(hostile::lying_validators()).await.unwrap();
    assert_eq!(answer.etag.as_deref(), Some("\"always the same\""));
    let empty = Behaviour::body("text/html", "").with("content-encoding", "gzip");
    assert!(ask(empty).await.unwrap().body.is_empty());
    let long = Behaviour::body("text/html", "x").with("etag", &"e".repeat(5000));
    assert_eq!(ask(long).await.unwrap().etag, None);
    let late = Behaviour::body("text/html", "x").after(Duration::from_millis(30));
    assert_eq!(&ask(late).await.unwrap().body[..], b"x");
}

#[tokio::test]
async fn an_answer_to_what_was_not_asked_is_a_failure() {
    for behaviour in [hostile::always_304(), hostile::partial()] {
        let failure = ask(behaviour).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Answer, "{failure}");
    }
}

#[tokio::test]
async fn leave_to_go_on_is_no_answer_and_what_follows_is() {
    let answer = ask(Behaviour::raw(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    ))
    .await
    .unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"hello"[..]));
}

#[tokio::test]
async fn a_location_that_is_no_text_is_escaped() {
    let answer = ask(Behaviour::raw(
        &b"HTTP/1.1 302 Found\r\nlocation: /caf\xe9\r\ncontent-length: 0\r\n\r\n"[..],
    ))
    .await
    .unwrap();
    assert_eq!(answer.location.as_deref(), Some("/caf%E9"));
}

#[tokio::test(start_paused = true)]
async fn no_message_tells_a_secret() {
    let world = World::new();
    let origin = world.site("bad.example", SiteSettings::default());
    let client = world.client(&settings());
    let headers = [("x-api-key".to_owned(), "s3cret".to_owned())];
    for (_, behaviour) in hostile::all() {
        origin.script("/x", behaviour);
        let url = url(&origin, "/x?token=s3cret");
        let ask = HttpRequest {
            headers: &headers,
            ..HttpRequest::new(&url, MAX_BODY)
        };
        let failure = client.hop(&ask).await.unwrap_err();
        assert!(!failure.message.contains("s3cret"), "{failure}");
    }
}
