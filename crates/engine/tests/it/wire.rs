//! What is the same over sockets and within this process, and what a world in virtual
//! time is.

use std::time::Duration;

use springtide_engine::fetch::{Client, FailureKind, HttpRequest};
use springtide_engine::origin::{Behaviour, Origin, SiteSettings, Step};
use springtide_engine::settings::HttpSettings;
use springtide_engine::{EndReason, Event, Outside, RunOptions, RunScope, handle};
use springtide_policy::Rate;
use springtide_store::{SourceKind, State};
use url::Url;

use crate::world::World;
use crate::{http, run};

fn site() -> SiteSettings {
    SiteSettings {
        rates: vec![Rate::per_day(0.0).unwrap(); 3],
        is_gzipped: true,
        ..SiteSettings::default()
    }
}

/// What an origin does at some paths.
fn scripts() -> Vec<(&'static str, Behaviour)> {
    let steps = |steps: &[Step]| Behaviour::Steps(steps.to_vec());
    vec![
        ("/moved", Behaviour::redirect(301, "/d0/p0.html?x=1#y")),
        ("/later", Behaviour::retry_after(503, "7")),
        ("/empty", Behaviour::status(204)),
        (
            "/cut",
            Behaviour::raw("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello"),
        ),
        (
            "/noise",
            Behaviour::raw("\x00\x01nothing of the kind\r\n\r\n"),
        ),
        ("/reset", steps(&[Step::Reset])),
        (
            "/large",
            Behaviour::body("text/html", vec![b'x'; 2_000_000]),
        ),
        (
            "/closed",
            Behaviour::raw("HTTP/1.1 200 OK\r\n\r\nup to the end"),
        ),
        ("/part", Behaviour::status(206)),
    ]
}

#[tokio::test]
async fn answers_and_failures_are_the_same_over_sockets_and_in_memory() {
    let world = World::new();
    let [there, here] = [
        Origin::start(site()).unwrap(),
        Origin::start_in(&world.network, "docs.example:8080", site()),
    ];
    let clients = [
        Client::new(&http::settings()).unwrap(),
        world.client(&http::settings()),
    ];
    let paths = [
        "/",
        "/d1/p1.html",
        "/d2/p2.html?q=%20",
        "/robots.txt",
        "/sitemap.xml",
    ];
    let scripts = scripts();
    for (path, behaviour) in &scripts {
        there.script(path, behaviour.clone());
        here.script(path, behaviour.clone());
    }
    for path in paths
        .into_iter()
        .chain(scripts.iter().map(|(path, _)| *path))
    {
        let mut found = Vec::new();
        for (origin, client) in [&there, &here].into_iter().zip(&clients) {
            let url = Url::parse(&origin.url(path)).unwrap();
            let headers = [("x-api-key".to_owned(), "secret".to_owned())];
            let ask = HttpRequest {
                headers: &headers,
                body: (path == "/").then_some(b"{}".as_slice()),
                ..HttpRequest::new(&url, 1_000_000)
            };
            let text = match client.hop(&ask).await {
                Ok(answer) => format!(
                    "{} {:?} {:?} {:?} {:?} {:?} {:?}",
                    answer.status,
                    answer.etag,
                    answer.content_type,
                    answer.retry_after,
                    answer.location,
                    answer.is_cut,
                    String::from_utf8_lossy(&answer.body)
                ),
                Err(failure) => format!("{:?} {}", failure.kind, failure.message),
            };
            let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
            let name = url.host_str().unwrap();
            found.push(text.replace(host, "HOST").replace(name, "HOST"));
        }
        assert_eq!(found[0], found[1], "{path}");
    }
    let requests = [&there, &here].map(|origin| {
        let seen = origin.requests().into_iter().map(|request| {
            let host = request.host.map(|host| host.contains(':'));
            let sent = (request.method, request.path, request.status, request.body);
            (
                sent,
                host,
                request.user_agent,
                request.accept_encoding,
                request.headers,
            )
        });
        seen.collect::<Vec<_>>()
    });
    assert_eq!(requests[0], requests[1]);
    assert_eq!(requests[0].len(), paths.len() + scripts.len());
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_not_there_has_no_address_and_one_that_stopped_refuses() {
    let world = World::new();
    let client = Client::over(
        world.network.wire(),
        &http::settings(),
        world.network.clock(),
    );
    let client = client.unwrap();
    let origin = Origin::start_in(&world.network, "docs.example", site());
    let ask = async |url: &str| {
        let url = Url::parse(url).unwrap();
        let answer = client.hop(&HttpRequest::new(&url, 1000)).await;
        answer
            .map(|answer| answer.status)
            .map_err(|failure| failure.kind)
    };
    assert_eq!(ask("http://docs.example/").await, Ok(200));
    assert_eq!(ask("http://other.example/").await, Err(FailureKind::Dns));
    drop(origin);
    assert_eq!(ask("http://docs.example/").await, Err(FailureKind::Connect));
    let _again = Origin::start_in(&world.network, "docs.example", site());
    assert_eq!(ask("http://docs.example/").await, Ok(200));
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_memory_takes_as_long_as_the_host_takes_and_no_longer_than_allowed() {
    let world = World::new();
    let settings = HttpSettings {
        timeout: Duration::from_secs(30),
        ..http::settings()
    };
    let client = Client::over(world.network.wire(), &settings, world.network.clock()).unwrap();
    let latency = Duration::from_secs(12);
    let origin = Origin::start_in(
        &world.network,
        "slow.example",
        SiteSettings { latency, ..site() },
    );
    let url = Url::parse(&origin.url("/")).unwrap();
    let answer = client.hop(&HttpRequest::new(&url, 100_000)).await.unwrap();
    let took = answer.answered_at.duration_since(answer.asked_at).unwrap();
    assert_eq!((took, world.elapsed()), (latency, latency));
    assert_eq!(origin.requests()[0].received_at, answer.asked_at);

    origin.script("/", Behaviour::status(200).after(Duration::from_secs(3600)));
    let failure = client.hop(&HttpRequest::new(&url, 1000)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout, "{failure}");
    assert_eq!(world.elapsed(), latency + Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_day_of_polls_takes_no_time_and_is_the_same_every_time() {
    let mut days = Vec::new();
    for _ in 0..2 {
        let world = World::new();
        let rates = (0..5).map(|n| Rate::per_day(f64::from(n)).unwrap());
        let origin = Origin::start_in(
            &world.network,
            "docs.example",
            SiteSettings {
                rates: rates.collect(),
                ..SiteSettings::default()
            },
        );
        let folder = tempfile::tempdir().unwrap();
        let sitemap = origin.url("/sitemap.xml");
        let mut settings = run::settings(&[("docs", SourceKind::Sitemap, sitemap)]);
        settings.budget.per_day = 100.0;
        let day = RunOptions {
            span: Some(Duration::from_secs(86_400)),
            ..RunOptions::default()
        };
        let (ended, events) = world.run(folder.path(), settings, day).await;
        assert_eq!(world.elapsed(), Duration::from_secs(86_400));
        assert!((90..=110).contains(&ended.n_polls), "{ended:?}");
        let polled = |event: &Event| match event {
            Event::Polled(polled) => Some((polled.at, polled.locator.clone(), polled.change)),
            _ => None,
        };
        days.push(events.iter().filter_map(polled).collect::<Vec<_>>());
    }
    assert_eq!(days[0], days[1]);
}

/// What only the real world shows: several threads, sockets, and a clock that nobody
/// stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_runs_over_sockets_and_by_the_clock_of_the_system() {
    let origin = Origin::start(site()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let settings = run::settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
    let outside = Outside::real(&settings.http).unwrap();
    let began = outside.clock.now();
    let options = RunOptions {
        scope: RunScope::DueNow,
        ..RunOptions::default()
    };
    let (_handle, controls) = handle();
    let run = springtide_engine::run(folder.path(), settings, options, controls, outside);
    let ended = run.await.unwrap();
    assert_eq!((ended.why, ended.n_polls), (EndReason::Done, 4));
    assert!(origin.n_connections() >= 1);
    for kept in run::elements(folder.path()) {
        assert_eq!(kept.state, State::Ok, "{kept:?}");
        assert!(kept.history.polled_at.unwrap() >= began);
    }
}
