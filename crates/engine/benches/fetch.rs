//! How fast the origin answers, and how fast it can be asked.
//!
//! The origin has to be faster than what is measured with it. It is asked over plain
//! sockets that do nothing but write a request and read to the end of the answer, and
//! then by [`Client::hop`], in turns in the same run. Beside the speed is the processor
//! time that the origin's thread took for a request, which a busy machine changes less.
//!
//! `cargo bench -p springtide-engine --bench fetch`; `-- --test` runs a small one only.

#![expect(clippy::print_stdout, reason = "a bench prints its findings")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use springtide_engine::fetch::{Client, HttpRequest};
use springtide_engine::origin::{Origin, SiteSettings};
use springtide_engine::settings::{AllowPrivate, HttpSettings};
use springtide_policy::Rate;
use url::Url;

const N_PAGES: usize = 20_000;
const ROUNDS: usize = 3;

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let n_requests = if is_test { 400 } else { 60_000 };
    println!("asked by    connections  requests/s  origin µs/request");
    for _ in 0..if is_test { 1 } else { ROUNDS } {
        for n_connections in [1, 8, 32] {
            report("sockets", n_connections, n_requests, by_sockets);
            report("Client::hop", n_connections, n_requests, by_client);
        }
    }
}

fn report(name: &str, n_connections: usize, n_requests: usize, ask: fn(&Origin, usize, usize)) {
    let origin = Origin::start(SiteSettings {
        rates: vec![Rate::per_day(1.0).unwrap(); N_PAGES],
        page_bytes: 1000,
        ..SiteSettings::default()
    })
    .unwrap();
    let (begun_at, busy) = (Instant::now(), origin_time());
    ask(&origin, n_connections, n_requests);
    let (took, busy) = (begun_at.elapsed(), origin_time().saturating_sub(busy));
    let n = origin.n_requests() as f64;
    println!(
        "{name:<12}{n_connections:>11}{:>12.0}{:>19.1}",
        n / took.as_secs_f64(),
        busy.as_secs_f64() * 1e6 / n
    );
}

fn by_sockets(origin: &Origin, n_connections: usize, n_requests: usize) {
    let address = origin.addr().expect("an address");
    std::thread::scope(|scope| {
        for connection in 0..n_connections {
            scope.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut answer = vec![0; 16 * 1024];
                for n in 0..n_requests / n_connections {
                    let page = (connection + n * n_connections) % N_PAGES;
                    let request = format!(
                        "GET /d{}/p{page}.html HTTP/1.1\r\nhost: {address}\r\nuser-agent: bench\r\n\r\n",
                        page % 8
                    );
                    stream.write_all(request.as_bytes()).unwrap();
                    let mut length = 0;
                    while !answer[..length].ends_with(b"</html>\n") {
                        length += stream.read(&mut answer[length..]).unwrap();
                    }
                }
            });
        }
    });
}

fn by_client(origin: &Origin, n_connections: usize, n_requests: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let client = Client::new(&HttpSettings {
        contact: None,
        timeout: Duration::from_secs(30),
        max_body: 1_000_000,
        allow_private: AllowPrivate::All,
    })
    .unwrap();
    let client = Arc::new(client);
    runtime.block_on(async {
        let tasks: Vec<_> = (0..n_connections)
            .map(|connection| {
                let (client, base) = (client.clone(), origin.url(""));
                tokio::spawn(async move {
                    for n in 0..n_requests / n_connections {
                        let page = (connection + n * n_connections) % N_PAGES;
                        let url = format!("{base}/d{}/p{page}.html", page % 8);
                        let url = Url::parse(&url).unwrap();
                        let answer = client
                            .hop(&HttpRequest::new(&url, 1_000_000))
                            .await
                            .unwrap();
                        assert_eq!(answer.status, 200);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Processor time of the thread that serves, in steps of a hundredth of a second; none
/// where the system does not say.
fn origin_time() -> Duration {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return Duration::ZERO;
    };
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok())
        .filter(|stat| stat.contains("(origin)"))
        .filter_map(|stat| {
            let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
            let ticks: u64 = fields.get(11)?.parse().ok()?;
            let kernel: u64 = fields.get(12)?.parse().ok()?;
            Some(Duration::from_millis(10 * (ticks + kernel)))
        })
        .sum()
}
