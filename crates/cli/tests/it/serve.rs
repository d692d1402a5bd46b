//! `serve`: a project with an API, as programs and browsers meet it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use springtide_engine::origin::Origin;

use crate::live::origin;
use crate::{Place, json as read_json};

/// A server of a project, ended with the test.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: String,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Serving {
    pub(crate) fn start(place: &Place, more: &str) -> Self {
        let mut command = place.command(&format!("serve --listen 127.0.0.1:0 {more}"));
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "{said}");
            if let Some((_, address)) = line.trim().split_once("serving on http://") {
                break address.to_owned();
            }
            said.push_str(&line);
        };
        // Someone has to read what it goes on to say.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Self { child, address }
    }

    /// One that was started otherwise.
    pub(crate) fn of(child: Child, address: String) -> Self {
        Self { child, address }
    }

    /// What it holds in memory.
    pub(crate) fn memory_kb(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
        kilobytes.unwrap().parse().unwrap()
    }

    /// Sends this as it is, and reads what is answered until the end.
    pub(crate) fn raw(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // Whoever is refused before all was sent may find the line cut.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("{answer:?} to {request:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| {
                let (name, value) = line.split_once(": ").unwrap();
                (name.to_ascii_lowercase(), value.to_owned())
            })
            .collect();
        let is_chunked = headers
            .iter()
            .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        Answer {
            status: status.parse().unwrap(),
            headers,
            body: match is_chunked {
                true => unchunked(body),
                false => body.to_owned(),
            },
        }
    }

    pub(crate) fn send(&self, method: &str, path: &str, more: &str, body: &str) -> Answer {
        self.raw(&format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Content-Length: {}\r\n{more}\r\n{body}",
            self.address,
            body.len()
        ))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", "")
    }

    #[track_caller]
    pub(crate) fn get_json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    pub(crate) fn write(&self, method: &str, path: &str, body: &Value) -> Answer {
        let json = "Content-Type: application/json\r\n";
        self.send(method, path, json, &body.to_string())
    }

    /// Waits until something holds.
    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, holds: impl Fn(&Self) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(value) = holds(self) {
                return value;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Tells it to stop, and gives its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
        self.child.wait().unwrap().code()
    }

    /// Kills it, in the middle of whatever it does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let kill = std::process::Command::new("kill")
            .args([&format!("-{name}"), &*id])
            .status();
        assert!(kill.unwrap().success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap_or(0);
        if length == 0 || rest.len() < length {
            break;
        }
        whole.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
    }
    whole
}

/// A project with a site of so many pages, and comments to be kept.
pub(crate) fn project(origin: &Origin, more: &str) -> Place {
    let url = origin.url("/sitemap.xml");
    Place::with(
        "springtide.toml",
        format!(
            "# ours\n[budget]\npolls = \"10000000/day\" # much\n\
             [http]\nallow_private = [\"127.0.0.1\"]\n\
             [[group]]\nmatch = \"127.0.0.1\"\nrate = \"1000/s\"\nconcurrency = 8\n{more}\n\
             [source.docs]\nkind = \"sitemap\"\nurl = \"{url}\"\n"
        ),
    )
}

pub(crate) fn all_polled(n: u64) -> impl Fn(&Serving) -> Option<Value> {
    move |serving| {
        let status = serving.get_json("/api/v1/status");
        (status["states"]["ok"].as_u64() == Some(n)).then_some(status)
    }
}

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

    let metrics = serving.get("/metrics").body;
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

    // Beside it, another only reads.
    let other = Serving::start(&place, "");
    assert_eq!(other.get_json("/api/v1/status")["n_elements"], 12);
    let refused = other.until("it reads only", |other| {
        let answer = other.write("POST", &format!("/api/v1/elements/{id}/poll"), &json!({}));
        (answer.status == 409).then_some(answer)
    });
    assert!(refused.body.contains("only reads"), "{refused:?}");
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
        .failed(2, &["no address"]);
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

/// Events of a stream, as they come.
pub(crate) struct Stream(BufReader<TcpStream>);

impl Stream {
    pub(crate) fn open(serving: &Serving, last: Option<u64>) -> Self {
        let mut stream = TcpStream::connect(&serving.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let last = last.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        let request = format!(
            "GET /api/v1/changes/stream HTTP/1.1\r\nHost: {}\r\n{last}\r\n",
            serving.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains("200"), "{line}");
        // Once greeted, nothing is missed.
        while !line.starts_with(": changes follow") {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        Self(reader)
    }

    pub(crate) fn next(&mut self) -> (u64, Value) {
        let (mut id, mut line) = (0, String::new());
        loop {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended");
            if let Some(number) = line.strip_prefix("id: ") {
                id = number.trim().parse().unwrap();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (id, serde_json::from_str(data.trim()).unwrap());
            }
        }
    }
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

/// Every answer is one that the document allows.
#[test]
fn the_document_is_true_of_every_route() {
    let origin = origin(6);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(6));
    origin.site().change(2);
    serving.until("a change is found", |serving| {
        let status = serving.get_json("/api/v1/status");
        (status["n_changes"].as_u64() >= Some(1)).then_some(())
    });
    let document = serving.get_json("/api/v1/openapi.json");
    assert_eq!(document["openapi"], "3.1.0");
    let element = serving.get_json("/api/v1/changes?limit=1")["items"][0]["element"].clone();
    let mut n_checked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let fill = |id: &str, name: &str| {
                path.replace("{id}", id)
                    .replace("{n}", "1")
                    .replace("{name}", name)
            };
            let mut tries = vec![(fill(&element.to_string(), "docs"), sample(path, method))];
            tries.push((fill("4000000000", "nope"), json!({})));
            tries.push((fill("-1", "%00"), json!({ "x": [1, { "y": null }] })));
            tries.push((fill("abc", "%F0%9F%8C%8A"), json!("text")));
            for parameter in operation["parameters"].as_array().unwrap_or(&Vec::new()) {
                if parameter["in"] == "query" {
                    let name = parameter["name"].as_str().unwrap();
                    for value in [
                        "1",
                        "0",
                        "-1",
                        "docs",
                        "%00",
                        "99999999999999999999",
                        "a%20b",
                    ] {
                        let path = fill(&element.to_string(), "docs");
                        tries.push((format!("{path}?{name}={value}"), json!({})));
                    }
                }
            }
            if path.ends_with("/stream") {
                // It does not end by itself.
                tries.clear();
            }
            for (path, body) in tries {
                let answer = match &**method {
                    "get" => serving.get(&path),
                    method => serving.write(&method.to_uppercase(), &path, &body),
                };
                check_answer(
                    &document,
                    operation,
                    &answer,
                    &format!("{method} {path} {body}"),
                );
                n_checked += 1;
            }
        }
    }
    assert!(n_checked > 100, "{n_checked}");
}

/// What is right to send.
fn sample(path: &str, method: &str) -> Value {
    match (method, path) {
        ("post", "/api/v1/sources") => {
            json!({ "name": "new", "kind": "page", "url": "http://127.0.0.1:1/" })
        }
        ("patch", "/api/v1/sources/{name}") => json!({ "weight": 2 }),
        ("patch", "/api/v1/settings") => json!({ "target": { "freshness": 0.9 } }),
        ("post", "/api/v1/hints") => json!({ "urls": ["https://example.org/"] }),
        ("post", "/indexnow") => json!({
            "host": "example.org", "key": "abcdefgh", "urlList": ["https://example.org/"]
        }),
        _ => json!({}),
    }
}

#[track_caller]
pub(crate) fn check_answer(document: &Value, operation: &Value, answer: &Answer, what: &str) {
    assert!(
        answer.status < 500 || answer.status == 503,
        "{what}: {answer:?}"
    );
    let responses = &operation["responses"];
    let class = format!("{}XX", answer.status / 100);
    let described = match &responses[answer.status.to_string()] {
        Value::Null => &responses[class],
        described => described,
    };
    assert!(described.is_object(), "{what}: {answer:?}");
    let Some(content) = described["content"].as_object() else {
        assert_eq!(answer.body, "", "{what}");
        return;
    };
    let kind = answer.header("content-type").split(';').next().unwrap();
    let content = content.get(kind).or_else(|| content.get("*/*"));
    let content = content.unwrap_or_else(|| panic!("{what}: {kind}"));
    if kind.ends_with("json") && !what.contains("/versions/") {
        check_shape(document, &content["schema"], &answer.json(), what);
    }
}

/// A value has the shape that a schema asks for, as far as ours say anything.
#[track_caller]
fn check_shape(document: &Value, schema: &Value, value: &Value, what: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        let schema = &document["components"]["schemas"][name];
        assert!(schema.is_object(), "{name}");
        return check_shape(document, schema, value, &format!("{what} {name}"));
    }
    if let Some(any) = schema["anyOf"].as_array() {
        return match value.is_null() {
            true => assert!(any.iter().any(|s| s["type"] == "null"), "{what}"),
            false => check_shape(document, &any[0], value, what),
        };
    }
    if let Some(allowed) = schema["enum"].as_array() {
        assert!(allowed.contains(value), "{what}: {value}");
        return;
    }
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() || number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allows = |wanted: &Value| wanted == is || wanted == "number" && is == "integer";
    let is_allowed = match &schema["type"] {
        Value::Array(types) => types.iter().any(allows),
        wanted => allows(wanted),
    };
    assert!(is_allowed, "{what}: {value} is no {}", schema["type"]);
    if let Value::Array(items) = value {
        for item in items {
            check_shape(document, &schema["items"], item, what);
        }
    }
    if let (Value::Object(object), Some(properties)) = (value, schema["properties"].as_object()) {
        for required in schema["required"].as_array().into_iter().flatten() {
            assert!(
                object.contains_key(required.as_str().unwrap()),
                "{what}: {required}"
            );
        }
        for (key, value) in object {
            match properties.get(key) {
                Some(schema) => check_shape(document, schema, value, &format!("{what}.{key}")),
                None => assert_ne!(schema["additionalProperties"], false, "{what}: {key}"),
            }
        }
    }
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

#[test]
fn every_change_is_told_at_least_once_though_receiver_and_server_fail() {
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let told: Arc<Mutex<Vec<(Value, String)>>> = Arc::default();
    let heard = Arc::clone(&told);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { continue };
            let Ok((head, body)) = crate::received(&stream) else {
                continue;
            };
            let mut signatures = head.iter();
            let signature =
                signatures.find_map(|line| line.strip_prefix("x-springtide-signature: "));
            let signature = signature.unwrap_or_default().to_owned();
            let body = serde_json::from_slice(&body).unwrap();
            heard.lock().unwrap().push((body, signature));
            // Every second one is not taken.
            let answer = match number % 2 {
                0 => "HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let origin = origin(6);
    let notify = format!(
        "[[notify]]\nto = \"http://127.0.0.1:{port}/hook\"\non = [\"changed\"]\nsecret = \"key\"\n"
    );
    let place = project(&origin, &notify);
    let mut serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(6));
    for page in 0..6 {
        origin.site().change(page);
    }
    serving.until("all changes are found", |serving| {
        let status = serving.get_json("/api/v1/status");
        (status["n_changes"].as_u64() >= Some(6)).then_some(())
    });
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    let serving = Serving::start(&place, "");
    let found = || {
        let told = told.lock().unwrap();
        let mut locators: Vec<String> = (told.iter())
            .flat_map(|(body, _)| body["events"].as_array().unwrap().clone())
            .filter(|event| event["on"] == "changed")
            .map(|event| event["locator"].as_str().unwrap().to_owned())
            .collect();
        locators.sort();
        locators.dedup();
        locators.len()
    };
    serving.until("all are told", |_| (found() == 6).then_some(()));
    serving.until("one that was not taken comes again by the same id", |_| {
        let told = told.lock().unwrap();
        let id = &told[0].0["id"];
        (told.iter().filter(|(body, _)| body["id"] == *id).count() > 1).then_some(())
    });
    let told = told.lock().unwrap();
    let (body, signature) = &told[0];
    assert!(
        signature.starts_with("sha256=") && signature.len() == 71,
        "{signature}"
    );
    assert!(
        body["events"][0]["diff"].as_str().unwrap().contains('+'),
        "{body}"
    );
    drop(told);
    place
        .run("notify test nobody")
        .failed(2, &["there is no [[notify]]"]);
    let private = place
        .read("springtide.toml")
        .replace("[\"127.0.0.1\"]", "false");
    let private = private.split("[source.docs]").next().unwrap().to_owned();
    let other = Place::with("springtide.toml", private);
    other.run("ls").failed(2, &["notify"]);
}

#[test]
fn a_program_is_told_on_standard_input_and_of_failures_once() {
    use springtide_engine::origin::Behaviour;
    let origin = origin(2);
    let notify = "[[notify]]\nto = \"exec:./told\"\n\
                  on = [\"failing\", \"recovered\"]\nfailures = 2\n";
    let place = project(&origin, notify).and("told", "#!/bin/sh\ncat >> heard\necho >> heard\n");
    let chmod = std::process::Command::new("chmod")
        .args(["+x", place.path("told").to_str().unwrap()])
        .status();
    assert!(chmod.unwrap().success());
    place.run("notify test told").ok();
    assert!(place.read("heard").contains("\"on\":\"test\""));
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(2));
    let path = origin.site().path(1);
    origin.script(&path, Behaviour::status(500));
    let events = |on: &str| {
        let heard = place.read("heard");
        heard.matches(&format!("\"on\":\"{on}\"")).count()
    };
    serving.until("it is told that it fails", |_| {
        (events("failing") == 1).then_some(())
    });
    origin.script(&path, Behaviour::Usual);
    serving.until("it is told that it has recovered", |_| {
        (events("recovered") == 1).then_some(())
    });
    assert_eq!(events("failing"), 1);
}

#[test]
fn whoever_is_named_later_is_told_what_is_found_from_then_on() {
    let origin = origin(3);
    let place = project(&origin, "").and("told", "#!/bin/sh\ncat >> heard\necho >> heard\n");
    let chmod = std::process::Command::new("chmod")
        .args(["+x", place.path("told").to_str().unwrap()])
        .status();
    assert!(chmod.unwrap().success());
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(3));
    let n_changes = |serving: &Serving| {
        let list = serving.get_json("/api/v1/changes");
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .filter(|item| item["kind"] == "changed")
            .count()
    };
    origin.site().change(0);
    serving.until("the first change is found", |serving| {
        (n_changes(serving) == 1).then_some(())
    });
    let named = "[[notify]]\nto = \"exec:./told\"\non = [\"changed\", \"added\"]\n";
    let file = format!("{}\n{named}", place.read("springtide.toml"));
    std::fs::write(place.path("springtide.toml"), file).unwrap();
    assert_eq!(
        serving.write("POST", "/api/v1/reload", &json!({})).status,
        200
    );
    // Only what was found once the receiver is there counts.
    std::thread::sleep(Duration::from_secs(2));
    origin.site().change(1);
    let second = origin.url(&origin.site().path(1));
    serving.until("the second change is told", |_| {
        let heard = std::fs::read_to_string(place.path("heard")).unwrap_or_default();
        heard.contains(&second).then_some(())
    });
    let heard = place.read("heard");
    let first = origin.url(&origin.site().path(0));
    assert!(!heard.contains(&first), "{heard}");
    assert!(!heard.contains("\"on\":\"added\""), "{heard}");
}
