//! A server of a project, for tests to ask.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use springtide_engine::origin::Origin;

use crate::Place;

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
        parsed(&String::from_utf8_lossy(&answer), request)
    }

    /// The beginning of an answer that has no end, or all of one that refuses.
    pub(crate) fn begin(&self, path: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        if !head.starts_with("HTTP/1.1 200") {
            reader.read_to_string(&mut head).unwrap();
        }
        parsed(&head, path)
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

    pub(crate) fn signal(&self, name: &str) {
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

#[track_caller]
fn parsed(answer: &str, request: &str) -> Answer {
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

/// Events of a stream, as they come.
pub(crate) struct Stream(BufReader<TcpStream>);

impl Stream {
    pub(crate) fn open(serving: &Serving, last: Option<u64>) -> Self {
        Self::open_at(serving, "/api/v1/changes/stream", last)
    }

    pub(crate) fn open_at(serving: &Serving, path: &str, last: Option<u64>) -> Self {
        let mut stream = TcpStream::connect(&serving.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let last = last.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\n{last}\r\n",
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

    /// The next change: its number, and what is told.
    pub(crate) fn next(&mut self) -> (u64, Value) {
        self.next_of("change")
    }

    /// The next event of a kind; others are passed over.
    pub(crate) fn next_of(&mut self, kind: &str) -> (u64, Value) {
        let (mut id, mut is_it, mut line) = (0, false, String::new());
        loop {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended");
            if let Some(number) = line.strip_prefix("id: ") {
                id = number.trim().parse().unwrap();
            } else if let Some(event) = line.strip_prefix("event: ") {
                is_it = event.trim() == kind;
            } else if !is_it {
                continue;
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (id, serde_json::from_str(data.trim()).unwrap());
            }
        }
    }
}
