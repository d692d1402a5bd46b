#![cfg(unix)]

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::Place;

/// A stop in the middle of writing leaves no half file and the right exit code.
#[test]
fn a_signal_stops_cleanly() {
    let mut rates = Vec::new();
    writeln!(rates, "id,rate_per_day").unwrap();
    for element in 0..400_000 {
        writeln!(
            rates,
            "element{element},{}",
            1.0 + f64::from(element % 1000)
        )
        .unwrap();
    }
    let place = Place::with("rates.csv", rates);
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        // Compressing takes long enough to be interrupted.
        let mut child = place
            .command("plan --rates rates.csv --budget 5/day --out plan.csv.gz")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while place.files().len() < 2 && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let id = child.id().to_string();
        let kill = std::process::Command::new("kill")
            .args(["-s", signal, &id])
            .status()
            .unwrap();
        assert!(kill.success());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "SIG{signal}");
        assert_eq!(place.files(), ["rates.csv"], "SIG{signal}");
    }
}

#[test]
fn a_reader_that_has_had_enough_is_no_reason_to_complain() {
    let mut rates = b"id,rate_per_day\n".to_vec();
    for element in 0..100_000 {
        writeln!(rates, "element{element},1").unwrap();
    }
    let place = Place::with("rates.csv", rates);
    let mut child = place
        .command("plan --rates rates.csv --budget 5/day")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("error"));
}
