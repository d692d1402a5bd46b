//! `serve`: a project with an API, as programs and browsers meet it.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::json as read_json;
use crate::live::origin;
use crate::serving::{Serving, Stream, all_polled, project};

#[test]
fn the_api_shows_what_the_command_line_shows() {
    let origin = origin(12);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(12));
    assert_eq!(serving.get("/healthz").status, 200);
    serving.until("ready", |s| (s.get("/readyz").status == 200).then_some(()));

    origin.site().change(3);
    let page = origin.url(&origin.site().path(3));
    let found = serving.until("the change is found", |serving| {
        let changes = serving.get_json("/api/v1/changes");
        let changed = changes["items"].as_array().unwrap().clone();
        changed.into_iter().find(|c| c["kind"] == "changed")
    });
    assert_eq!(found["locator"].as_str(), Some(&*page));
    let log = crate::lines(&place.run("log --json --kind changed").ok());
    let mut same = found.clone();
    same.as_object_mut().unwrap().remove("id");
    assert_eq!(log[0], same);
    assert!(found["id"].as_u64() > Some(0));

    // Lists in pages, each element once.
    let (mut path, mut ids) = ("/api/v1/elements?limit=5".to_owned(), Vec::new());
    loop {
        let list = serving.get_json(&path);
        let items = list["items"].as_array().unwrap();
        assert!(items.len() <= 5);
        ids.extend(items.iter().map(|item| item["id"].as_u64().unwrap()));
        match list["next"].as_str() {
            Some(next) => path = format!("/api/v1/elements?limit=5&after={next}"),
            None => break,
        }
    }
    let lines = crate::lines(&place.run("ls --elements --json").ok());
    let wanted: Vec<u64> = lines.iter().map(|l| l["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, wanted);
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let first = serving.get_json("/api/v1/elements?limit=1")["items"][0].clone();
    assert_eq!(keys(&first), keys(&lines[0]));
    for sort in [
        "locator",
        "-n_polls",
        "due_at",
        "-rate_per_day",
        "changed_at",
        "source",
    ] {
        let (mut path, mut seen) = (format!("/api/v1/elements?limit=5&sort={sort}"), 0);
        loop {
            let list = serving.get_json(&path);
            seen += list["items"].as_array().unwrap().len();
            match list["next"].as_str() {
                Some(next) => path = format!("/api/v1/elements?limit=5&sort={sort}&after={next}"),
                None => break,
            }
        }
        assert!(seen >= 10, "{sort}: {seen}");
    }
    let some = serving.get_json("/api/v1/elements?sort=-locator&limit=3");
    let locators: Vec<&str> = (some["items"].as_array().unwrap().iter())
        .map(|item| item["locator"].as_str().unwrap())
        .collect();
    assert!(locators[0] > locators[1] && locators[1] > locators[2]);
    let part = &page[page.len() - 12..];
    let found = serving.get_json(&format!("/api/v1/elements?q={part}"));
    assert_eq!(found["items"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(serving.get("/api/v1/elements?sort=x").status, 400);
    assert_eq!(serving.get("/api/v1/elements?after=x").status, 400);
    assert_eq!(serving.get("/api/v1/elements?limit=0").status, 400);
    assert_eq!(serving.get("/api/v1/elements?state=fine").status, 400);
    assert_eq!(serving.get("/api/v1/elements?source=nope").status, 404);

    // One of them, its versions and its diff.
    let id = found["items"][0]["id"].as_u64().unwrap();
    let one = serving.get_json(&format!("/api/v1/elements/{id}"));
    assert_eq!(one["versions"].as_array().unwrap().len(), 2, "{one}");
    assert!(one["polls"].as_array().unwrap().len() >= 2);
    let body = serving.get(&format!("/api/v1/elements/{id}/versions/2"));
    assert_eq!(body.status, 200);
    assert!(
        body.header("content-security-policy")
            .starts_with("sandbox")
    );
    assert_eq!(body.header("x-content-type-options"), "nosniff");
    let diff = serving.get(&format!("/api/v1/elements/{id}/diff"));
    assert!(
        diff.body.contains("\n-") && diff.body.contains("\n+"),
        "{diff:?}"
    );
    let same = place.run(&format!("diff {id}")).ok().stdout;
    assert_eq!(diff.body.trim(), same.trim());
    assert_eq!(
        serving
            .get(&format!("/api/v1/elements/{id}/diff?from=1&to=9"))
            .status,
        404
    );
    assert_eq!(
        serving
            .get(&format!("/api/v1/elements/{id}/versions/9"))
            .status,
        404
    );
    assert_eq!(serving.get("/api/v1/elements/99999").status, 404);
    let polled = serving.write("POST", &format!("/api/v1/elements/{id}/poll"), &json!({}));
    assert_eq!(polled.status, 202, "{polled:?}");

    let feed = serving.get("/changes.atom?source=docs");
    assert_eq!(
        feed.header("content-type"),
        "application/atom+xml; charset=utf-8"
    );
    assert!(feed.body.contains("&lt;pre&gt;"), "{}", feed.body);
    let plan = serving.get_json("/api/v1/plan?budget=100/day");
    assert_eq!(plan["budget_per_day"], 100.0);
    assert_eq!(serving.get("/api/v1/plan?budget=much").status, 400);

    // They are computed once in a while.
    let metrics = serving.until("the change is counted", |serving| {
        let metrics = serving.get("/metrics").body;
        let is_counted = metrics.contains("springtide_changes_total{source=\"docs\"} 1");
        is_counted.then_some(metrics)
    });
    for name in [
        "springtide_polls_total{source=\"docs\",outcome=\"changed\"}",
        "springtide_changes_total{source=\"docs\"} 1",
        "springtide_elements{source=\"docs\",state=\"ok\"} 12",
        "springtide_freshness{source=\"docs\",kind=\"predicted\"}",
        "springtide_budget_per_day 10000000",
        "springtide_price ",
        "springtide_poll_seconds_bucket{le=\"+Inf\"}",
        "springtide_last_poll_timestamp_seconds ",
        "springtide_store_bytes ",
    ] {
        assert!(metrics.contains(name), "{name} in {metrics}");
    }

    // Beside it, another is read-only.
    let other = Serving::start(&place, "");
    assert_eq!(other.get_json("/api/v1/status")["n_elements"], 12);
    let refused = other.until("it reads only", |other| {
        let answer = other.write("POST", &format!("/api/v1/elements/{id}/poll"), &json!({}));
        (answer.status == 409).then_some(answer)
    });
    assert!(refused.body.contains("read-only"), "{refused:?}");
    assert_eq!(other.get_json("/readyz")["mode"], "read-only");
    assert_eq!(other.stop(), Some(0));
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn hostile_requests_are_refused() {
    let origin = origin(2);
    let place = project(&origin, "[server]\nhosts = [\"fresh.example.org\"]\n");
    let serving = Serving::start(&place, "");
    let with = |method: &str, path: &str, headers: &str| {
        let body = "{}";
        let length = body.len();
        serving.raw(&format!(
            "{method} {path} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ))
    };
    let address = &serving.address;
    for host in [
        "evil.example",
        "evil.example:7180",
        "10.1.2.3",
        "127.0.0.1.evil.example",
    ] {
        let answer = with("GET", "/api/v1/status", &format!("Host: {host}"));
        assert_eq!(answer.status, 421, "{host}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert_eq!(answer.json()["status"], 421);
    }
    for host in [
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1",
        "[::1]:80",
        "fresh.example.org",
    ] {
        let answer = with("GET", "/api/v1/status", &format!("Host: {host}"));
        assert_eq!(answer.status, 200, "{host}");
    }
    let two = format!("Host: {address}\r\nHost: {address}");
    assert_ne!(with("GET", "/api/v1/status", &two).status, 200);
    for origin in [
        "https://evil.example",
        "null",
        "http://127.0.0.1:1",
        "file://",
    ] {
        let headers = format!("Host: {address}\r\nOrigin: {origin}");
        assert_eq!(
            with("POST", "/api/v1/reload", &headers).status,
            403,
            "{origin}"
        );
        assert_eq!(
            with("PATCH", "/api/v1/settings", &headers).status,
            403,
            "{origin}"
        );
    }
    let cross = format!("Host: {address}\r\nSec-Fetch-Site: cross-site");
    assert_eq!(with("POST", "/api/v1/reload", &cross).status, 403);
    let ours = format!("Host: {address}\r\nOrigin: http://{address}");
    assert_eq!(with("POST", "/api/v1/reload", &ours).status, 200);

    assert_eq!(serving.send("DELETE", "/api/v1/status", "", "").status, 405);
    assert_eq!(serving.get("/api/v1/nothing").status, 404);
    assert_eq!(serving.get("/api/v1/sources/%ff").status, 400);
    assert_eq!(
        serving.write("POST", "/api/v1/hints", &json!([])).status,
        400
    );
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    assert_eq!(
        serving.send("POST", "/api/v1/hints", form, "a=b").status,
        415
    );
    let long = format!(
        "POST /api/v1/hints HTTP/1.1\r\nHost: {address}\r\nContent-Length: 1000001\r\n\r\n"
    );
    assert_eq!(serving.raw(&long).status, 413);
    let body = "x".repeat(1_100_000);
    let chunked = format!(
        "POST /api/v1/hints HTTP/1.1\r\nHost: {address}\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    assert_eq!(serving.raw(&chunked).status, 413);

    // Slow ones stop nothing.
    let slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /api/v1/sta").unwrap();
            stream
        })
        .collect();
    let begun = Instant::now();
    assert_eq!(serving.get("/healthz").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(2));
    drop(slow);
}

#[test]
fn a_token_is_asked_for_where_there_is_one() {
    let origin = origin(2);
    let place =
        project(&origin, "[server]\ntoken = \"file:token\"\n").and("token", "s3cret-of-ours\n");
    let serving = Serving::start(&place, "");
    for path in ["/healthz", "/metrics"] {
        assert_eq!(serving.get(path).status, 200, "{path}");
    }
    for path in [
        "/api/v1/status",
        "/api/v1/openapi.json",
        "/changes.atom",
        "/api/v1/changes/stream",
    ] {
        let answer = serving.get(path);
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    for wrong in [
        "Bearer wrong",
        "Bearer ",
        "Basic s3cret-of-ours",
        "s3cret-of-ours",
    ] {
        let header = format!("Authorization: {wrong}\r\n");
        assert_eq!(
            serving.send("GET", "/api/v1/status", &header, "").status,
            401,
            "{wrong}"
        );
    }
    let header = "Authorization: Bearer s3cret-of-ours\r\n";
    assert_eq!(
        serving.send("GET", "/api/v1/status", header, "").status,
        200
    );
    assert_eq!(serving.stop(), Some(0));

    let file = place
        .read("springtide.toml")
        .replace("file:token", "env:NOT_SET_HERE");
    std::fs::write(place.path("springtide.toml"), file).unwrap();
    place
        .run("serve --listen 127.0.0.1:0")
        .failed(2, &["NOT_SET_HERE"]);
    place.run("ls").ok();
    let file = place.read("springtide.toml");
    let file = file.replace("token = \"env:NOT_SET_HERE\"\n", "");
    std::fs::write(place.path("springtide.toml"), file).unwrap();
    place
        .run("serve --listen 0.0.0.0:0")
        .failed(2, &["without a token"]);
    place
        .run("serve --listen nowhere")
        .failed(2, &["is not an address"]);
}

#[test]
fn sources_and_settings_are_changed_in_the_file_and_hold_at_once() {
    let origin = origin(4);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(4));

    let answer = serving.write(
        "PATCH",
        "/api/v1/settings",
        &json!({ "budget": { "polls": "2000000/day" }, "target": { "freshness": "90%" } }),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["budget"]["polls"], "2000000/day");
    let file = place.read("springtide.toml");
    assert!(
        file.starts_with("# ours\n[budget]\npolls = \"2000000/day\" # much\n"),
        "{file}"
    );
    assert_eq!(serving.get_json("/api/v1/status")["budget"]["per_day"], 2e6);
    for bad in [
        json!({ "budget": { "polls": "many" } }),
        json!({ "budget": { "pols": "1/day" } }),
        json!({ "http": { "timeout": "1s" } }),
        json!({ "budget": 5 }),
    ] {
        let answer = serving.write("PATCH", "/api/v1/settings", &bad);
        assert_eq!(answer.status, 422, "{bad}: {answer:?}");
        assert_eq!(place.read("springtide.toml"), file);
    }

    let page = origin.url(&origin.site().path(1));
    let new = json!({ "name": "one", "kind": "page", "url": page, "weight": 2 });
    let answer = serving.write("POST", "/api/v1/sources", &new);
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.header("location"), "/api/v1/sources/one");
    assert_eq!(answer.json()["is_in_file"], true);
    serving.until("the new source is polled", |serving| {
        let one = serving.get_json("/api/v1/sources/one");
        (one["n_polls"].as_u64() > Some(0)).then_some(())
    });
    assert_eq!(serving.write("POST", "/api/v1/sources", &new).status, 409);
    for bad in [
        json!({ "kind": "page", "url": page }),
        json!({ "name": "a/b", "kind": "page", "url": page }),
        json!({ "name": "two", "kind": "book", "url": page }),
        json!({ "name": "two", "kind": "page", "url": "ftp://x" }),
        json!({ "name": "two", "kind": "page", "url": page, "colour": "red" }),
    ] {
        let answer = serving.write("POST", "/api/v1/sources", &bad);
        assert_eq!(answer.status, 422, "{bad}: {answer:?}");
    }
    let answer = serving.write("PATCH", "/api/v1/sources/one", &json!({ "weight": 3.5 }));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(place.read("springtide.toml").contains("weight = 3.5"));
    assert_eq!(
        serving
            .write("PATCH", "/api/v1/sources/none", &json!({}))
            .status,
        404
    );
    assert_eq!(
        serving.send("DELETE", "/api/v1/sources/one", "", "").status,
        204
    );
    assert_eq!(serving.get_json("/api/v1/sources/one")["is_in_file"], false);
    assert_eq!(
        serving.send("DELETE", "/api/v1/sources/one", "", "").status,
        404
    );
    assert!(!place.read("springtide.toml").contains("[source.one]"));

    // By hand, wholly or not at all.
    let good = place.read("springtide.toml");
    std::fs::write(place.path("springtide.toml"), good.replace("2000000", "no")).unwrap();
    let answer = serving.write("POST", "/api/v1/reload", &json!({}));
    assert_eq!(answer.status, 422, "{answer:?}");
    assert_eq!(serving.get_json("/api/v1/status")["budget"]["per_day"], 2e6);
    std::fs::write(
        place.path("springtide.toml"),
        good.replace("2000000", "3000000"),
    )
    .unwrap();
    // Who may come in is settled at the start.
    let other_door = format!("{good}\n[server]\nhosts = [\"fresh.example.org\"]\n");
    let three_million = place.read("springtide.toml");
    std::fs::write(place.path("springtide.toml"), other_door).unwrap();
    let answer = serving.write("POST", "/api/v1/reload", &json!({}));
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(answer.body.contains("[server]"), "{answer:?}");
    std::fs::write(place.path("springtide.toml"), three_million).unwrap();
    serving.signal("HUP");
    serving.until("the file is read again", |serving| {
        let status = serving.get_json("/api/v1/status");
        (status["budget"]["per_day"] == 3e6).then_some(())
    });
    let answer = serving.write(
        "POST",
        "/api/v1/hints",
        &json!({ "urls": [page, "https://example.org/"], "at": "2026-05-01T12:00:00Z" }),
    );
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json(), json!({ "n_known": 1, "n_unknown": 1 }));
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn a_budget_and_a_target_hold_at_once_and_the_run_goes_on() {
    let origin = origin(5);
    let place = project(&origin, "");
    let said = std::fs::File::create(place.path("said")).unwrap();
    let child = place
        .command("serve --listen 127.0.0.1:0 --log json")
        .stdout(std::process::Stdio::null())
        .stderr(said)
        .spawn()
        .unwrap();
    let begun = std::time::Instant::now();
    let address = loop {
        let said = place.read("said");
        if let Some((_, rest)) = said.split_once("serving on http://") {
            let end = rest.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ':'));
            if let Some(end) = end {
                break rest[..end].to_owned();
            }
        }
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(30),
            "{said}"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let serving = Serving::of(child, address);
    serving.until("all are polled", all_polled(5));
    let patch = |path: &str, body: Value| {
        let answer = serving.write("PATCH", path, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let n_polls = |serving: &Serving| serving.get_json("/api/v1/status")["n_polls"].as_u64();
    let begins = || {
        place
            .read("said")
            .matches("springtide.toml was read again")
            .count()
    };
    patch(
        "/api/v1/settings",
        json!({ "target": { "freshness": "50%" } }),
    );
    patch(
        "/api/v1/settings",
        json!({ "budget": { "polls": "5000000/day" } }),
    );
    let status = serving.get_json("/api/v1/status");
    assert_eq!(status["budget"]["per_day"], 5e6);
    let before = n_polls(&serving).unwrap();
    serving.until("it goes on", |serving| {
        (n_polls(serving)? > before + 20).then_some(())
    });
    assert_eq!(begins(), 0);
    // What elements go by takes a new run.
    patch("/api/v1/sources/docs", json!({ "weight": 3 }));
    serving.until("it has begun anew", |_| (begins() == 1).then_some(()));
    let before = n_polls(&serving).unwrap();
    serving.until("it goes on", |serving| {
        (n_polls(serving)? > before + 20).then_some(())
    });
    // With what it took in meanwhile, too, it ends when it is told to.
    patch(
        "/api/v1/settings",
        json!({ "budget": { "polls": "4000000/day" } }),
    );
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn a_stream_that_is_resumed_has_lost_nothing() {
    let origin = origin(30);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    let mut stream = Stream::open(&serving, None);
    serving.until("all are polled", all_polled(30));
    for page in 0..20 {
        origin.site().change(page);
    }
    let mut seen: Vec<(u64, Value)> = (0..5).map(|_| stream.next()).collect();
    drop(stream);
    serving.until("all changes are found", |serving| {
        let status = serving.get_json("/api/v1/status");
        (status["n_changes"].as_u64() >= Some(20)).then_some(())
    });
    assert_eq!(serving.stop(), Some(0));
    // Across a restart, too.
    let serving = Serving::start(&place, "");
    let last = seen.last().unwrap().0;
    let mut stream = Stream::open(&serving, Some(last));
    let listed = serving.get_json("/api/v1/changes?limit=1000");
    let mut listed: Vec<Value> = listed["items"].as_array().unwrap().clone();
    listed.reverse();
    let first = seen[0].0;
    listed.retain(|change| change["id"].as_u64() >= Some(first));
    while seen.len() < listed.len() {
        seen.push(stream.next());
    }
    let ids: Vec<u64> = seen.iter().map(|(id, _)| *id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    for ((id, event), listed) in seen.iter().zip(&listed) {
        assert_eq!(event, listed);
        assert_eq!(event["id"].as_u64(), Some(*id));
    }
    let bad = "Last-Event-ID: x\r\n";
    assert_eq!(
        serving
            .send("GET", "/api/v1/changes/stream", bad, "")
            .status,
        400
    );
}

#[test]
fn the_numbers_of_the_overview_are_told_in_the_stream_to_whoever_wants_them() {
    let origin = origin(4);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    let mut stream = Stream::open_at(
        &serving,
        "/api/v1/changes/stream?after=0&overview=true",
        None,
    );
    // What was found before, since it was asked for, and then both.
    let ids: Vec<u64> = (0..4).map(|_| stream.next().0).collect();
    assert_eq!(ids, [1, 2, 3, 4]);
    loop {
        let (_, told) = stream.next_of("overview");
        let status = serving.get_json("/api/v1/status");
        assert_eq!(told["budget"]["per_day"], 1e7);
        assert!(told["n_polls"].as_u64() <= status["n_polls"].as_u64());
        for key in told.as_object().unwrap().keys() {
            assert!(status.get(key).is_some(), "{key}");
        }
        assert!(told["sources"].is_null());
        if told["states"]["ok"] == 4 && told["n_elements"] == 4 {
            break;
        }
    }
    let bad = serving.get("/api/v1/changes/stream?overview=maybe");
    assert_eq!(bad.status, 400, "{bad:?}");
}

#[test]
fn a_page_says_from_where_on_its_stream_is_to_be_told() {
    let origin = origin(4);
    let place = project(&origin, "[source.lonely]\nkind = \"list\"\n");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(4));
    let stream_of = |path: &str| {
        let page = serving.get(path).body;
        let stream = page.split_once(" data-live=\"").map(|(_, rest)| rest);
        let stream = stream.and_then(|rest| rest.split('"').next());
        stream.map(|url| url.replace("&#38;", "&").replace("&amp;", "&"))
    };
    let (front, changes) = (stream_of("/").unwrap(), stream_of("/changes").unwrap());
    let of_docs = stream_of("/changes?source=docs").unwrap();
    let of_lonely = stream_of("/changes?source=lonely").unwrap();
    assert!(of_docs.ends_with("&source=docs"), "{of_docs}");
    // Further back nothing is found any more.
    assert_eq!(stream_of("/changes?since=1h"), None);
    let newest = serving.get_json("/api/v1/changes?limit=1")["items"][0]["id"].clone();
    for url in [&front, &changes, &of_docs, &of_lonely] {
        assert!(url.contains(&format!("?after={newest}")), "{url}");
    }
    // One that was found before the page opened its stream is told.
    origin.site().change(2);
    serving.until("it is found", |serving| {
        let newer = serving.get_json("/api/v1/changes?limit=1")["items"][0]["id"].clone();
        (newer != newest).then_some(())
    });
    for url in [&front, &changes, &of_docs] {
        let (id, change) = Stream::open_at(&serving, url, None).next();
        assert!(Some(id) > newest.as_u64(), "{url}");
        assert_eq!(change["locator"], origin.url(&origin.site().path(2)));
    }
    let far = serving.get("/api/v1/changes?after=18446744073709551615");
    assert_eq!(far.status, 400, "{far:?}");
    // And it has a page of its own, with what changed.
    let id = Stream::open_at(&serving, &changes, None).next().0;
    let page = serving.get(&format!("/changes/{id}")).body;
    assert!(
        page.contains("data-diff") && page.contains("class=\"add\""),
        "{page}"
    );
    for none in [
        "0",
        "999999",
        "-1",
        "x",
        "18446744073709551615",
        "99999999999999999999",
    ] {
        assert_eq!(
            serving.get(&format!("/changes/{none}")).status,
            404,
            "{none}"
        );
    }
}

#[test]
fn lists_and_tables_are_added_by_the_form_too() {
    let origin = origin(3);
    let place = project(&origin, "");
    let (page, list) = (origin.url(&origin.site().path(0)), "pages.txt");
    let place = place.and(list, format!("{page}\n"));
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(3));
    let form = format!(
        "Content-Type: application/x-www-form-urlencoded\r\nOrigin: http://{}\r\n",
        serving.address
    );
    let add = |fields: &[(&str, &str)]| {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        // What a browser sends of fields that are empty.
        let empty = ["weight", "table", "key", "cursor", "password"].into_iter();
        let empty = empty.filter(|name| fields.iter().all(|(other, _)| other != name));
        body.extend_pairs(empty.map(|name| (name, "")))
            .extend_pairs(fields);
        serving.send("POST", "/sources", &form, &body.finish())
    };
    let added = add(&[("name", "mine"), ("kind", "list"), ("url", list)]);
    assert_eq!(added.status, 303, "{added:?}");
    let added = add(&[
        ("name", "orders"),
        ("kind", "table"),
        ("url", "sqlite:shop.db"),
        ("table", "orders"),
        ("key", "region, day"),
        ("cursor", "updated_at"),
    ]);
    assert_eq!(added.status, 303, "{added:?}");
    let file = place.read("springtide.toml");
    for line in [
        "key = [\"region\", \"day\"]",
        "cursor = \"updated_at\"",
        "url = \"pages.txt\"",
    ] {
        assert!(file.contains(line), "{line} in {file}");
    }
    assert!(!file.contains("password"), "{file}");
    let bad = add(&[
        ("name", "more"),
        ("kind", "table"),
        ("url", "sqlite:shop.db"),
    ]);
    assert_eq!(bad.status, 422);
    assert!(bad.body.contains("neither `table` nor `query`"), "{bad:?}");
    let bad = add(&[
        ("name", "more"),
        ("kind", "page"),
        ("url", &page),
        ("cursor", "at"),
    ]);
    assert_eq!(bad.status, 422, "{bad:?}");
    assert!(
        bad.body.contains("value=\"at\"") && bad.body.contains("<details class=\"more\" open>")
    );
}

#[test]
fn what_was_predicted_is_kept_and_drawn_beside_what_was_measured() {
    let origin = origin(3);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    let line = |serving: &Serving| {
        let page = serving.get("/").body;
        let (_, line) = page.split_once("class=\"other\" points=\"")?;
        let n_points = line.split('"').next()?.split_whitespace().count();
        (n_points >= 2).then_some(())
    };
    serving.until("the line is there", line);
    assert_eq!(serving.stop(), Some(0));
    let serving = Serving::start(&place, "");
    assert!(line(&serving).is_some(), "it is kept");
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn a_store_that_fails_is_told_and_a_server_lives_on() {
    let origin = origin(3);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(3));
    serving.until("ready", |s| (s.get("/readyz").status == 200).then_some(()));
    // Its lock is taken away, and something in the way of another.
    std::fs::rename(place.path(".springtide"), place.path("away")).unwrap();
    std::fs::write(place.path(".springtide"), "").unwrap();
    let answer = serving.until("not ready", |serving| {
        let answer = serving.get("/readyz");
        (answer.status == 503).then_some(answer)
    });
    assert!(!answer.json()["detail"].as_str().unwrap().is_empty());
    assert_eq!(serving.get("/healthz").status, 200);
    std::fs::remove_file(place.path(".springtide")).unwrap();
    std::fs::rename(place.path("away"), place.path(".springtide")).unwrap();
    serving.until("ready again", |s| {
        (s.get("/readyz").status == 200).then_some(())
    });
    assert_eq!(read_json(&place.run("status --json").ok())["n_elements"], 3);
    assert_eq!(serving.stop(), Some(0));
}

/// The value that a page shows of something by name.
fn shown(page: &str, name: &str) -> Option<f64> {
    let at = page.find(&format!("data-name=\"{name}\" data-value=\""))?;
    let rest = page[at..].split("data-value=\"").nth(1)?;
    rest.split('"').next()?.parse().ok()
}

#[test]
fn pages_show_the_numbers_of_the_api_and_forms_work_without_a_script() {
    let origin = origin(5);
    let place = project(&origin, "[target]\nfreshness = \"90%\"\n");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(5));
    origin.site().change(1);
    let change = serving.until("a change is found", |serving| {
        let changes = serving.get_json("/api/v1/changes");
        let items = changes["items"].as_array().unwrap().clone();
        items.into_iter().find(|change| change["kind"] == "changed")
    });
    let element = &change["element"];
    for path in [
        "/",
        "/sources",
        "/sources/docs",
        "/elements",
        "/changes",
        "/budget",
        "/lab",
        "/system",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([
        format!("/elements/{element}"),
        format!("/elements/{element}?from=1&to=2&view=side"),
        "/elements?state=failing&sort=-rate_per_day".to_owned(),
        "/changes?since=1h&source=docs".to_owned(),
    ]) {
        let page = serving.get(&path);
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        let policy = page.header("content-security-policy");
        assert!(policy.contains("script-src 'self';"), "{policy}");
        // Nothing inline, nothing from elsewhere.
        for bad in [
            "<script>",
            "style=\"",
            "onclick",
            "src=\"http",
            "src=\"//",
            "javascript:",
        ] {
            assert!(!page.body.contains(bad), "{path}: {bad}");
        }
        assert!(page.body.contains("<main id=\"main\""), "{path}");
    }
    for asset in ["/assets/style.css", "/assets/app.js", "/assets/icon.svg"] {
        assert_eq!(serving.get(asset).status, 200, "{asset}");
    }
    assert_eq!(serving.get("/elements/999999").status, 404);
    assert_eq!(serving.get("/nowhere").status, 404);
    let page = serving.get("/").body;
    assert_eq!(shown(&page, "n_elements"), Some(5.0));
    assert_eq!(shown(&page, "budget.per_day"), Some(1e7));
    assert!(shown(&page, "n_polls") >= Some(6.0));
    assert!(
        serving
            .get(&format!("/elements/{element}"))
            .body
            .contains("class=\"add\"")
    );

    let form = format!(
        "Content-Type: application/x-www-form-urlencoded\r\nOrigin: http://{}\r\n",
        serving.address
    );
    let polled = serving.send("POST", &format!("/elements/{element}/poll"), &form, "");
    assert_eq!(polled.status, 303, "{polled:?}");
    let set = serving.send("POST", "/budget", &form, "polls=4000000%2Fday");
    assert_eq!(
        (set.status, set.header("location")),
        (303, "/budget?saved=yes")
    );
    assert!(
        place
            .read("springtide.toml")
            .contains("polls = \"4000000/day\" # much")
    );
    let bad = serving.send("POST", "/budget", &form, "polls=%3Cscript%3E");
    assert_eq!(bad.status, 422);
    assert!(bad.body.contains("&#60;script&#62;") || bad.body.contains("&lt;script&gt;"));
    assert!(!bad.body.contains("<script>"));
    let hostile = "name=x%22%3E%3Cscript%3E&kind=page&url=http%3A%2F%2F127.0.0.1%2F%22%3E%3Cb%3E";
    let bad = serving.send("POST", "/sources", &form, hostile);
    assert_eq!(bad.status, 422, "{bad:?}");
    assert!(!bad.body.contains("<script>") && !bad.body.contains("<b>"));
    let url = url::form_urlencoded::byte_serialize(origin.url("/d0/x\"><i>.html").as_bytes())
        .collect::<String>();
    let add = format!("name=page&kind=page&weight=2.5&url={url}");
    let added = serving.send("POST", "/sources", &form, &add);
    assert_eq!(
        (added.status, added.header("location")),
        (303, "/sources/page"),
        "{added:?}"
    );
    assert!(!serving.get("/sources/page").body.contains("<i>"));
    let changed = serving.send("POST", "/sources/page", &form, "weight=3");
    assert_eq!(changed.status, 303);
    assert!(place.read("springtide.toml").contains("weight = 3"));
    assert_eq!(
        serving
            .send("POST", "/sources/page", &form, "weight=-1")
            .status,
        422
    );
    assert_eq!(
        serving
            .send("POST", "/sources/page/remove", &form, "")
            .status,
        303
    );
    assert_eq!(
        serving.send("POST", "/system/reload", &form, "").status,
        303
    );
    let lab = serving.send(
        "POST",
        "/lab",
        &form,
        "policy=learned&policy=uniform&budget=100%2Fday&days=5",
    );
    assert!(matches!(lab.status, 303 | 409), "{lab:?}");
}

#[test]
fn signing_in_gives_a_cookie_that_is_not_the_token() {
    let origin = origin(1);
    let place = project(&origin, "[server]\ntoken = \"s3cret-of-ours\"\n");
    let serving = Serving::start(&place, "");
    let sent = serving.get("/changes?source=docs");
    assert_eq!(sent.status, 303);
    assert_eq!(
        sent.header("location"),
        "/signin?next=%2Fchanges%3Fsource%3Ddocs"
    );
    assert_eq!(serving.get("/signin").status, 200);
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let wrong = serving.send("POST", "/signin", form, "token=wrong&next=%2F");
    assert_eq!(wrong.status, 401);
    assert_eq!(wrong.header("set-cookie"), "");
    let right = serving.send(
        "POST",
        "/signin",
        form,
        "token=s3cret-of-ours&next=%2F%2Fevil.example",
    );
    assert_eq!((right.status, right.header("location")), (303, "/"));
    let cookie = right.header("set-cookie");
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains("s3cret"));
    let with = format!("Cookie: a=b; {}\r\n", cookie.split(';').next().unwrap());
    for path in ["/", "/api/v1/status"] {
        assert_eq!(serving.send("GET", path, &with, "").status, 200, "{path}");
    }
    assert_eq!(serving.send("POST", "/signout", &with, "").status, 303);
    assert_eq!(serving.send("GET", "/api/v1/status", &with, "").status, 401);
}
