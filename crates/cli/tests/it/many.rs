//! What holds of a server whatever is sent to it, and however much there is of everything.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Stdio;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Map, Value, json};

use crate::Place;
use crate::document::{ask, check_answer};
use crate::live::origin;
use crate::serving::{Serving, Stream, all_polled, project};

/// Words that somebody may send; nothing is at the addresses among them.
const WORDS: [&str; 16] = [
    "docs",
    "",
    "1",
    "-1",
    "0.95",
    "2000/day",
    "90s",
    "ok",
    "-due_at",
    "list",
    "http://127.0.0.1:1/",
    "../../etc/passwd",
    "\u{0}",
    "🌊\u{202e}",
    "'; drop table element; --",
    "<script>alert(1)</script>",
];
const NUMBERS: [f64; 9] = [0.0, 1.0, -1.0, 0.5, 2.0, 1e3, 4e9, 1e19, -1e300];

/// Draws what is sent, from what the document says.
struct Sender<'a> {
    document: &'a Value,
    rng: Pcg64,
    /// An element that there is.
    element: u64,
}

impl Sender<'_> {
    fn word(&mut self) -> String {
        match self.rng.random_bool(0.05) {
            true => "x".repeat(self.rng.random_range(1..5000)),
            false => (*WORDS.choose(&mut self.rng).unwrap()).to_owned(),
        }
    }

    fn number(&mut self) -> f64 {
        *NUMBERS.choose(&mut self.rng).unwrap()
    }

    /// A value that a schema allows, or one time in ten another.
    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.rsplit('/').next().unwrap();
            return self.value(&self.document["components"]["schemas"][name], depth);
        }
        if let Some(any) = schema["anyOf"].as_array() {
            let one = any.choose(&mut self.rng).unwrap();
            return self.value(one, depth);
        }
        if let Some(one) = schema["enum"].as_array().filter(|_| !self.is_odd()) {
            return one.choose(&mut self.rng).unwrap().clone();
        }
        let kinds = match &schema["type"] {
            Value::Array(kinds) => kinds.clone(),
            kind => vec![kind.clone()],
        };
        let kind = kinds.choose(&mut self.rng).and_then(Value::as_str);
        let odd = ["null", "boolean", "number", "string", "array", "object"];
        let kind = match self.is_odd() {
            true => odd.choose(&mut self.rng).copied(),
            false => kind,
        };
        match kind {
            Some("boolean") => json!(self.rng.random_bool(0.5)),
            Some("integer") => json!(self.number() as i64),
            Some("number") => json!(self.number()),
            Some("array") if depth < 4 => {
                let n = self.rng.random_range(0..4);
                (0..n)
                    .map(|_| self.value(&schema["items"], depth + 1))
                    .collect()
            }
            Some("object") if depth < 4 => self.object(schema, depth),
            None | Some("string") => json!(self.word()),
            _ => Value::Null,
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut object = Map::new();
        for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
            if self.rng.random_bool(0.5) {
                object.insert(key.clone(), self.value(schema, depth + 1));
            }
        }
        if self.is_odd() || object.is_empty() {
            object.insert(self.word(), json!(self.word()));
        }
        Value::Object(object)
    }

    fn is_odd(&mut self) -> bool {
        self.rng.random_bool(0.1)
    }

    /// A path, with what is in it, mostly of this source, and behind it.
    fn path(&mut self, path: &str, operation: &Value, source: &str) -> String {
        let (element, word) = (self.element, self.word());
        let id = match self.rng.random_range(0..4) {
            0 => escaped(&word),
            1 => (self.number() as i64).to_string(),
            _ => element.to_string(),
        };
        let name = match self.is_odd() {
            true => escaped(&word),
            false => source.to_owned(),
        };
        let mut full = path
            .replace("{id}", &id)
            .replace("{n}", ["1", "2", "0", "99"].choose(&mut self.rng).unwrap())
            .replace("{name}", &name);
        let mut mark = '?';
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] == "query" && self.rng.random_bool(0.4) {
                let value = match self.value(&parameter["schema"], 0) {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                let name = parameter["name"].as_str().unwrap();
                full.push_str(&format!("{mark}{name}={}", escaped(&value)));
                mark = '&';
            }
        }
        full
    }
}

fn escaped(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// As tools do that read the document and send whatever it allows, and some that it does
/// not: every answer is one that it allows, and none says that we failed.
#[test]
fn whatever_is_sent_is_answered_as_the_document_says() {
    let origin = origin(6);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(6));
    let document = serving.get_json("/api/v1/openapi.json");
    let element = serving.get_json("/api/v1/elements?limit=1")["items"][0]["id"].as_u64();
    let mut sender = Sender {
        document: &document,
        rng: Pcg64::seed_from_u64(16),
        element: element.unwrap(),
    };
    let operations: Vec<(&String, &String, &Value)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (path, method, operation))
        })
        .collect();
    let mut by_status: BTreeMap<u16, u32> = BTreeMap::new();
    for round in 0..40 {
        for (path, method, operation) in &operations {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let is_delete = *method == "delete";
            if is_delete {
                // With the other source all that there is would be gone.
                let spare =
                    json!({ "name": "spare", "kind": "page", "url": "http://127.0.0.1:1/" });
                serving.write("POST", "/api/v1/sources", &spare);
            }
            let path = sender.path(path, operation, if is_delete { "spare" } else { "docs" });
            let answer = match schema.is_object() {
                true => {
                    let body = sender.value(schema, 0);
                    serving.write(&method.to_uppercase(), &path, &body)
                }
                false if *method == "get" => ask(&serving, &path),
                false => serving.send(&method.to_uppercase(), &path, "", ""),
            };
            let what = format!("round {round}: {method} {path}");
            // One that begins anew after its settings were changed says that it does.
            let is_ready = path.starts_with("/readyz") && answer.status == 503;
            assert!(answer.status < 500 || is_ready, "{what}: {answer:?}");
            check_answer(&document, operation, &answer, &what);
            *by_status.entry(answer.status).or_default() += 1;
        }
    }
    assert!(by_status[&204] > 20, "{by_status:?}");
    // It was not refused at the door each time.
    assert!(by_status[&200] > 200, "{by_status:?}");
    assert!(by_status.len() > 4, "{by_status:?}");
    assert_eq!(serving.stop(), Some(0));
}

/// Page by page, while others come and go.
#[test]
fn a_list_of_many_shows_each_that_stayed_exactly_once() {
    const N_STAYING: usize = 100_000;
    const N_MOVING: usize = 3_000;
    let addresses = |name: &str, n: usize| -> String {
        let numbers = 0..n;
        numbers
            .map(|number| format!("http://127.0.0.1:1/{name}/{number}\n"))
            .collect()
    };
    // So slow that nothing is polled: this is about lists.
    let head = "[budget]\npolls = \"1/day\"\n[http]\nallow_private = [\"127.0.0.1\"]\n\
                [[group]]\nmatch = \"127.0.0.1\"\nrate = \"1/day\"\n\
                [source.stay]\nkind = \"list\"\nfile = \"stay.txt\"\n";
    let place = Place::with("springtide.toml", head)
        .and("stay.txt", addresses("stay", N_STAYING))
        .and("move0.txt", addresses("move0", N_MOVING))
        .and("move1.txt", addresses("move1", N_MOVING));
    let serving = Serving::start(&place, "");
    serving.until("all are known", |serving| {
        let status = serving.get_json("/api/v1/status");
        (status["n_elements"] == N_STAYING).then_some(())
    });
    for sort in ["", "&sort=-locator"] {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let (mut after, mut n_pages) = (String::new(), 0);
        loop {
            let page = serving.get_json(&format!("/api/v1/elements?limit=1000{sort}{after}"));
            for item in page["items"].as_array().unwrap() {
                let locator = item["locator"].as_str().unwrap().to_owned();
                *seen.entry(locator).or_default() += 1;
            }
            let Some(next) = page["next"].as_str() else {
                break;
            };
            after = format!("&after={}", escaped(next));
            // Others come, and go, and come back.
            if n_pages % 20 == 5 {
                let name = format!("move{}", n_pages / 20 % 2);
                let come = json!({ "name": name, "kind": "list", "file": format!("{name}.txt") });
                let added = serving.write("POST", "/api/v1/sources", &come);
                assert_eq!(added.status, 201, "{added:?}");
            }
            if n_pages % 20 == 15 {
                let path = format!("/api/v1/sources/move{}", n_pages / 20 % 2);
                let removed = serving.send("DELETE", &path, "", "");
                assert!(removed.status < 300, "{removed:?}");
            }
            n_pages += 1;
        }
        assert!(seen.values().all(|n| *n == 1), "{sort}");
        let is_staying = |locator: &&String| locator.contains("/stay/");
        assert_eq!(seen.keys().filter(is_staying).count(), N_STAYING, "{sort}");
        assert!(n_pages >= 99, "{sort}: {n_pages}");
    }
}

#[test]
fn a_thousand_streams_cost_little_and_each_hears_of_every_change() {
    const N_STREAMS: usize = 1000;
    const MOST_KB: u64 = 100_000;
    let origin = origin(5);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(5));
    let before = serving.memory_kb();
    let mut streams: Vec<Stream> = (0..N_STREAMS)
        .map(|_| Stream::open(&serving, None))
        .collect();
    let n_polls = |serving: &Serving| {
        let status = serving.get_json("/api/v1/status");
        status["n_polls"].as_u64().unwrap()
    };
    let before_polls = n_polls(&serving);
    for page in 0..5 {
        origin.site().change(page);
    }
    for stream in &mut streams {
        let mut ids: Vec<u64> = (0..5).map(|_| stream.next().0).collect();
        ids.dedup();
        assert_eq!(ids.len(), 5);
    }
    serving.until("it goes on polling", |serving| {
        (n_polls(serving) > before_polls + 20).then_some(())
    });
    let after = serving.memory_kb();
    assert!(after < before + MOST_KB, "{before} kB and then {after} kB");
}

#[test]
fn five_hundred_who_dawdle_stop_nobody() {
    const N_SLOW: usize = 500;
    let origin = origin(5);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    let slow: Vec<TcpStream> = (0..N_SLOW)
        .map(|_| {
            let mut stream = TcpStream::connect(&serving.address).unwrap();
            stream
                .write_all(b"GET /api/v1/status HTTP/1.1\r\nHo")
                .unwrap();
            stream
        })
        .collect();
    serving.until("all are polled", all_polled(5));
    for path in ["/", "/elements", "/api/v1/elements", "/healthz"] {
        assert_eq!(serving.get(path).status, 200, "{path}");
    }
    assert_eq!(slow.len(), N_SLOW);
}

#[test]
fn strangers_who_send_slowly_take_nobody_elses_place() {
    const N_SLOW: usize = 200;
    let origin = origin(2);
    let token = "[server]\ntoken = \"file:token\"\n";
    let place = project(&origin, token).and("token", "s3cret-of-ours\n");
    let serving = Serving::start(&place, "");
    let mut slow: Vec<TcpStream> = (0..N_SLOW)
        .map(|_| TcpStream::connect(&serving.address).unwrap())
        .collect();
    let head = format!(
        "POST /indexnow HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 1000\r\n\r\n{{",
        serving.address
    );
    for stream in &mut slow {
        stream.write_all(head.as_bytes()).unwrap();
    }
    let ours = "Authorization: Bearer s3cret-of-ours\r\n";
    for _ in 0..3 {
        let answer = serving.send("POST", "/api/v1/reload", ours, "{}");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(slow.len(), N_SLOW);
}

#[test]
fn demo_serves_its_dashboard_and_says_where() {
    let place = Place::new();
    let line = "demo --serve --listen 127.0.0.1:0 --for 20s --pages 20";
    let mut command = place.command(line);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = said.find_map(|line| {
        let line = line.unwrap();
        let (_, address) = line.split_once("serving on http://")?;
        Some(address.trim().to_owned())
    });
    let demo = Serving::of(child, address.expect("an address"));
    std::thread::spawn(move || said.for_each(drop));
    let page = demo.get("/");
    assert_eq!(page.status, 200, "{page:?}");
    demo.until("its pages are polled", |demo| {
        let status = demo.get_json("/api/v1/status");
        (status["states"]["ok"].as_u64() >= Some(20)).then_some(())
    });
    assert!(demo.get("/").body.contains("data-name=\"n_elements\""));
}
