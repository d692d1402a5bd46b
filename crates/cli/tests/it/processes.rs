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

/// What stands for standard output is written to, not replaced.
#[test]
#[cfg(target_os = "linux")]
fn names_of_standard_output_are_standard_output() {
    let place = Place::with("rates.csv", "id,rate_per_day\na,1\n").and("log", "before\n");
    std::os::unix::fs::symlink("/proc/self/fd/1", place.path("link")).unwrap();
    std::os::unix::fs::symlink("plan.csv", place.path("dangling")).unwrap();
    for name in ["/dev/fd/1", "/proc/self/fd/1", "link"] {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .open(place.path("log"))
            .unwrap();
        let mut command = place.command("plan --quiet --rates rates.csv --budget 5/day --out");
        assert!(
            command.arg(name).stdout(log).status().unwrap().success(),
            "{name}"
        );
    }
    let log = place.read("log");
    assert!(log.starts_with("before\nid,"), "{log}");
    assert_eq!(log.matches("id,frequency_per_day").count(), 3);
    place
        .run("plan --quiet --rates rates.csv --budget 5/day --out dangling")
        .ok();
    assert!(place.read("plan.csv").starts_with("id,"));
    assert!(place.path("link").is_symlink() && place.path("dangling").is_symlink());
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

/// It lies below the folder of devices, and is none.
#[test]
fn a_file_in_shared_memory_is_a_file() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let place = Place::with("rates.csv", "id,rate_per_day\na,1\n");
    let path = folder.path().join("plan.csv");
    let line = format!(
        "plan --rates rates.csv --budget 1/day --out {}",
        path.display()
    );
    for _ in 0..2 {
        place.run(&line).ok();
        let plan = std::fs::read_to_string(&path).unwrap();
        assert_eq!(plan.lines().count(), 2, "{plan}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
