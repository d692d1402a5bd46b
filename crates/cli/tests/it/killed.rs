//! Notices while everything fails: the server is killed again and again, and receivers take
//! what they are sent, refuse it, or hang up, as a seeded draw has it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::Value;

use crate::live::origin;
use crate::serving::{Serving, all_polled, project};

const N_PAGES: usize = 40;
const N_KILLS: usize = 6;

/// Draws below this are failures.
const TAKEN: u32 = 3;

/// What receivers were sent, taken or not.
type Sent = Arc<Mutex<Vec<Value>>>;

/// A receiver that fails one time in four, in one of three ways; its port.
fn receiver(seed: u64) -> (u16, Sent) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent = Sent::default();
    let heard = Arc::clone(&sent);
    std::thread::spawn(move || {
        let (mut rng, mut n_failed) = (Pcg64::seed_from_u64(seed), 0);
        for stream in listener.incoming().flatten() {
            // Not three times in a row: whoever tries again waits twice as long each time.
            let draw = match n_failed {
                2.. => TAKEN,
                _ => rng.random_range(0..12),
            };
            n_failed = if draw < TAKEN { n_failed + 1 } else { 0 };
            // One that is killed while it sends has sent nothing.
            let _ = hear(stream, &heard, draw);
        }
    });
    (port, sent)
}

fn hear(mut stream: TcpStream, sent: &Sent, draw: u32) -> std::io::Result<()> {
    if draw == 0 {
        // It hangs up before it has heard anything.
        return Ok(());
    }
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let (_, body) = crate::received(&stream)?;
    sent.lock()
        .unwrap()
        .push(serde_json::from_slice(&body).unwrap());
    let status = match draw {
        // It has heard it, and hangs up.
        1 => return Ok(()),
        2 => "500 No",
        _ => "204 Yes",
    };
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes())
}

#[test]
fn whoever_is_killed_again_and_again_tells_every_change_and_invents_none() {
    let origin = origin(N_PAGES);
    let (one, first) = receiver(1);
    let (two, second) = receiver(2);
    let notify =
        |port: u16| format!("[[notify]]\nto = \"http://127.0.0.1:{port}/\"\non = [\"changed\"]\n");
    let place = project(&origin, &format!("{}{}", notify(one), notify(two)));
    let mut serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(N_PAGES as u64));
    let mut rng = Pcg64::seed_from_u64(3);
    let each = N_PAGES / (N_KILLS + 1);
    for round in 0..N_KILLS {
        for page in round * each..(round + 1) * each {
            origin.site().change(page);
        }
        // At any point: before it is found, while it is told, or after.
        std::thread::sleep(Duration::from_millis(rng.random_range(20..900)));
        serving.kill();
        serving = Serving::start(&place, "");
    }
    let n_changed = N_KILLS * each;
    for page in n_changed..N_PAGES {
        origin.site().change(page);
    }
    let found = serving.until("all changes are found", |serving| {
        let changes = serving.get_json("/api/v1/changes?limit=1000");
        let mut changes = changes["items"].as_array().unwrap().clone();
        changes.retain(|change| change["kind"] == "changed");
        let pages: BTreeSet<_> = changes.iter().map(|c| c["locator"].to_string()).collect();
        (pages.len() == N_PAGES).then_some(changes)
    });
    let name = |change: &Value| {
        let of = |key: &str| change[key].as_str().unwrap_or_default().to_owned();
        (of("locator"), of("found_at"), of("digest"))
    };
    let found: BTreeSet<_> = found.iter().map(name).collect();
    let mut n_again = 0;
    for sent in [first, second] {
        serving.until("every change is told", |_| {
            let sent = sent.lock().unwrap();
            let events = sent
                .iter()
                .flat_map(|body| body["events"].as_array().unwrap());
            let told: BTreeSet<_> = events.map(name).collect();
            // None is invented.
            assert!(told.is_subset(&found), "{told:?}");
            (told == found).then_some(())
        });
        // What comes again by an id is what came before by it, and every change has one id.
        let sent = sent.lock().unwrap();
        let mut by_id: BTreeMap<&str, &Value> = BTreeMap::new();
        let mut ids: BTreeMap<_, &str> = BTreeMap::new();
        for body in &*sent {
            let id = body["id"].as_str().unwrap();
            assert_eq!(*by_id.entry(id).or_insert(body), body);
            for event in body["events"].as_array().unwrap() {
                assert_eq!(*ids.entry(name(event)).or_insert(id), id, "{event}");
            }
        }
        n_again += sent.len() - by_id.len();
    }
    assert!(n_again > 0, "nothing had to be sent again");
}
