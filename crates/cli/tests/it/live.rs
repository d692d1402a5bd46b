//! A project against an origin of our own, on loopback.

use std::io::BufRead;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use springtide_engine::origin::{Behaviour, Origin, SiteSettings, version_in};
use springtide_policy::Rate;

use crate::{Place, json, lines};

/// A site of so many pages that change when they are told to.
pub(crate) fn origin(n_pages: usize) -> Origin {
    Origin::start(SiteSettings {
        rates: vec![Rate::per_day(0.0).unwrap(); n_pages],
        ..SiteSettings::default()
    })
    .unwrap()
}

/// A project that may ask loopback, and quickly.
fn place() -> Place {
    Place::with(
        "springtide.toml",
        "[budget]\npolls = \"10000000/day\"\n[http]\nallow_private = [\"127.0.0.1\"]\n\
         [[group]]\nmatch = \"127.0.0.1\"\nrate = \"1000/s\"\nconcurrency = 8\n",
    )
}

#[test]
fn from_a_sitemap_to_a_copy_its_changes_and_a_diff() {
    let (origin, place) = (origin(20), place());
    let found = json(
        &place
            .run(&format!(
                "add {} --name docs --json",
                origin.url("/sitemap.xml")
            ))
            .ok(),
    );
    assert_eq!(
        (&found[0]["kind"], &found[0]["n_elements"]),
        (&"sitemap".into(), &20.into())
    );

    let ran = json(&place.run("run --once --json").ok());
    assert_eq!(ran["n_polls"], 21, "{ran}");
    let rows = lines(&place.run("ls --elements --json").ok());
    assert_eq!(rows.len(), 20);
    for row in &rows {
        assert_eq!(row["state"], "ok");
        assert_eq!(row["n_polls"], 1);
        // The first poll only brings the copy.
        assert_eq!(row["rate_per_day"], Value::Null);
        assert_eq!(row["frequency_per_day"], Value::Null);
        assert!(row["polled_at"].as_str().unwrap().ends_with('Z'));
        assert!(row["due_at"].as_str().unwrap() > row["polled_at"].as_str().unwrap());
        assert!(row["reason"].as_str().unwrap().contains("not known yet"));
    }
    let status = json(&place.run("status --json").ok());
    assert_eq!(status["freshness"]["predicted"], Value::Null);
    place.run("plan").failed(2, &["nothing to plan"]);
    let table = place.run("ls --elements").ok().stdout;
    assert!(table.contains("   ?  "), "{table}");

    let page = origin.url(&origin.site().path(3));
    origin.site().change(3);
    let polled = json(&place.run(&format!("poll {page} --json")).ok());
    assert_eq!(
        (&polled["n_polls"], &polled["n_changes"]),
        (&1.into(), &1.into())
    );
    let log = lines(&place.run(&format!("log --element {page} --json")).ok());
    assert_eq!(
        (&log[0]["kind"], &log[1]["kind"]),
        (&"changed".into(), &"added".into())
    );
    assert_eq!(log[0]["locator"].as_str(), Some(&*page));
    let digest = log[0]["digest"].as_str().unwrap();
    assert!(
        digest.starts_with("blake3:") && digest.len() == 71,
        "{digest}"
    );

    let diff = place.run(&format!("diff {page}")).ok().stdout;
    assert!(diff.contains("\n-") && diff.contains("\n+"), "{diff}");
    let diff = json(&place.run(&format!("diff {page} 1 2 --json")).ok());
    assert!(diff["n_added"].as_u64() > Some(0), "{diff}");
    assert_eq!(
        json(&place.run(&format!("diff {page} --versions --json")).ok())
            .as_array()
            .unwrap()
            .len(),
        2
    );
    place
        .run(&format!("diff {page} 1 9"))
        .failed(2, &["there is no version 9"]);

    place.run("export bodies copy").ok();
    let manifest = place.read("copy/manifest.jsonl");
    assert_eq!(manifest.lines().count(), 20);
    for line in manifest.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let locator = line["locator"].as_str().unwrap();
        let body = std::fs::read(place.path("copy").join(line["file"].as_str().unwrap())).unwrap();
        let number = usize::from(locator == page);
        assert!(version_in(&body).is_some(), "{locator}");
        assert_eq!(line["changed_at"].is_string(), number == 1, "{line}");
        assert_eq!(line["status"], 200);
    }

    // One that is lost is named, and the others are written.
    let line: Value = serde_json::from_str(manifest.lines().next().unwrap()).unwrap();
    let lost = std::fs::read(place.path("copy").join(line["file"].as_str().unwrap())).unwrap();
    let lost = springtide_store::BodyId::of(&lost);
    let segment = place.path(".springtide/bodies/000001.seg");
    let kept = std::fs::read(&segment).unwrap();
    let mut damaged = kept.clone();
    let at = kept.windows(32).position(|bytes| bytes == lost.0).unwrap();
    damaged[at + 48] ^= 1;
    std::fs::write(&segment, damaged).unwrap();
    let words = [line["locator"].as_str().unwrap(), "missing or damaged"];
    let summary = json(&place.run("export bodies part --json").failed(3, &words));
    assert_eq!(
        (&summary["n_elements"], &summary["n_missing"]),
        (&19.into(), &1.into())
    );
    assert_eq!(summary["missing"][0], line["locator"]);
    assert_eq!(place.read("part/manifest.jsonl").lines().count(), 19);
    std::fs::write(&segment, kept).unwrap();

    let status = json(&place.run("status --json").ok());
    assert_eq!(
        (&status["n_polls"], &status["n_elements"]),
        (&22.into(), &20.into())
    );
    assert!(
        status["freshness"]["predicted"]
            .as_f64()
            .is_some_and(|f| (0.0..=1.0).contains(&f))
    );
    assert!(status["oldest_poll_age_seconds"].as_f64().is_some());
    assert!(status["sources"][0]["next_poll_at"].is_string());
    let rows = lines(&place.run("ls --elements --json").ok());
    let known: Vec<&Value> = rows.iter().filter(|row| row["n_polls"] == 2).collect();
    assert_eq!(known.len(), 1);
    let rate = &known[0]["rate_per_day"];
    assert!(rate["low"].as_f64() < rate["estimate"].as_f64(), "{rate}");
    assert!(rate["estimate"].as_f64() < rate["high"].as_f64(), "{rate}");
    let frequency = known[0]["frequency_per_day"].as_f64().unwrap();
    // Nineteen others, of which nothing is known yet, have the rest.
    assert!(1e7 / 20.0 < frequency && frequency < 1e7, "{frequency}");
    let plan = json(&place.run("plan --json").ok());
    assert_eq!(plan["n_elements"], 20);
    // They were asked one after the other, and nothing was polled between: what is predicted
    // of now only falls.
    let later = json(&place.run("status --json").ok());
    let [before, plan, after] = [
        &status["freshness"]["predicted"],
        &plan["freshness"],
        &later["freshness"]["predicted"],
    ]
    .map(|share| share.as_f64().unwrap());
    assert!(before >= plan && plan >= after, "{before} {plan} {after}");
    assert_eq!(json(&place.run("doctor --json").ok())["sound"], true);
}

/// What an `add` was told holds for later runs, and one that fails leaves nothing.
#[test]
fn add_keeps_what_it_was_told_and_leaves_nothing_when_it_fails() {
    let (origin, place) = (origin(3), Place::new());
    let page = origin.url(&origin.site().path(1));
    // Nobody listens there.
    let dead = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let private = place.run(&format!("add {page}"));
    private.failed(3, &["is a private or special address", "--allow-private"]);
    let refused = place.run(&format!("add {dead} --allow-private"));
    refused.failed(3, &["cannot fetch", "refused", "--offline"]);
    for name in ["springtide.toml", ".springtide"] {
        assert!(!place.path(name).exists(), "{name}");
    }

    // The rest is done.
    let flags = "--allow-private --contact me@example.org --budget 50000/day";
    let added = place.run(&format!("add {dead} {page} {flags} --json"));
    assert_eq!(json(&added)[0]["url"], page.as_str());
    added.failed(3, &["cannot fetch", "refused"]);
    let file = place.read("springtide.toml");
    for line in [
        "contact = \"me@example.org\"",
        "allow_private = [\"127.0.0.1\"]",
        "polls = \"50000/day\"",
    ] {
        assert!(file.contains(line), "{line} in {file}");
    }
    assert_eq!(file.matches("contact").count(), 1, "{file}");
    assert_eq!(json(&place.run("run --once --json").ok())["n_changes"], 0);
    let row = &lines(&place.run("ls --elements --json").ok())[0];
    assert_eq!(row["state"], "ok");
}

/// Once the file allows it, what failed because of it is tried at once.
#[test]
fn what_the_file_did_not_allow_is_polled_when_it_does() {
    let (origin, place) = (origin(3), Place::new());
    let page = origin.url(&origin.site().path(1));
    place
        .run(&format!("add {page} --offline --budget 50000/day"))
        .ok();
    place.run("run --once").failed(3, &["private or special"]);
    let row = &lines(&place.run("ls --elements --json").ok())[0];
    assert_eq!(
        (&row["state"], &row["error"]["kind"]),
        (&"failing".into(), &"address".into())
    );
    let mended = place.read("springtide.toml") + "[http]\nallow_private = true\n";
    let mended = mended.replacen("[http]\n# contact", "# contact", 1);
    std::fs::write(place.path("springtide.toml"), mended).unwrap();
    place.run("run --once").ok();
    let row = &lines(&place.run("ls --elements --json").ok())[0];
    assert_eq!(row["state"], "ok");
}

/// A list of addresses that were not allowed is a first pass when they are, and not a day's
/// budget.
#[test]
fn what_the_file_did_not_allow_is_as_free_as_a_first_pass_when_it_does() {
    let (origin, place) = (origin(6), Place::new());
    let pages = (0..6).map(|n| origin.url(&origin.site().path(n)));
    let list = pages.collect::<Vec<_>>().join("\n");
    std::fs::write(place.path("urls.txt"), list).unwrap();
    let file = "[budget]\npolls = \"5/day\"\n[[group]]\nmatch = \"*\"\nrate = \"100/s\"\n\
                [source.urls]\nkind = \"list\"\nfile = \"urls.txt\"\n";
    std::fs::write(place.path("springtide.toml"), file).unwrap();
    let refused = place.run("run --once").ok().stderr;
    assert!(refused.contains("private or special"), "{refused}");
    let mended = format!("[http]\nallow_private = true\n{file}");
    std::fs::write(place.path("springtide.toml"), mended).unwrap();
    place.run("run --once --for 60s").ok();
    let rows = lines(&place.run("ls --elements --json").ok());
    assert_eq!(rows.len(), 6);
    assert!(rows.iter().all(|row| row["state"] == "ok"), "{rows:?}");
    assert_eq!(
        json(&place.run("status --json").ok())["budget"]["used_today"],
        0
    );
}

/// A name, a copy of now and of then, and the changes that someone looks for.
#[test]
fn a_source_is_renamed_its_copies_printed_and_its_log_searched() {
    let (origin, place) = (origin(6), place());
    let sitemap = origin.url("/sitemap.xml");
    place.run(&format!("add {sitemap} --name docs")).ok();
    place.run("run --once").ok();
    let page = |n: usize| origin.url(&origin.site().path(n));
    let first = place.run(&format!("cat {}", page(3))).ok().stdout;
    let between = moment();
    for n in [2, 3] {
        origin.site().change(n);
        place.run(&format!("poll {}", page(n))).ok();
    }
    let second = place.run(&format!("cat {}", page(3))).ok().stdout;
    assert!(version_in(second.as_bytes()) > version_in(first.as_bytes()));
    let then = place.run(&format!("cat {} --at {between}", page(3))).ok();
    assert_eq!(then.stdout, first);
    let early = place.run(&format!("cat {} --at 2020-01-01", page(3)));
    early.failed(2, &["there is no copy", "later than that"]);

    // First copies are one line, unless they are asked for.
    let table = place.run("log").ok().stdout;
    assert_eq!(table.lines().count(), 1 + 2 + 1, "{table}");
    assert!(table.contains("6 added"), "{table}");
    let kinds = |flags: &str| {
        let rows = lines(&place.run(&format!("log --json {flags}")).ok());
        let kind = |row: &Value| row["kind"].as_str().unwrap().to_owned();
        rows.iter().map(kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds("").len(), 8);
    assert_eq!(kinds("--kind changed"), ["changed", "changed"]);
    assert_eq!(kinds("--kind added,gone").len(), 6);
    let path = origin.site().path(3);
    assert_eq!(kinds(&format!("--grep {path}")), ["changed", "added"]);

    let sorted = lines(
        &place
            .run("ls --elements --json --sort -n_changes --limit 3")
            .ok(),
    );
    let counts: Vec<u64> = sorted
        .iter()
        .map(|row| row["n_changes"].as_u64().unwrap())
        .collect();
    assert_eq!(counts, [1, 1, 0]);
    place
        .run("ls --elements --sort colour")
        .failed(2, &["n_changes"]);

    let mut follow = place.command("log --json --follow --kind changed");
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut told = std::io::BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&told.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["locator"], page(2));
    assert_eq!(next()["locator"], page(3));
    origin.site().change(5);
    place.run(&format!("poll {}", page(5))).ok();
    assert_eq!(next()["locator"], page(5));
    follow.kill().unwrap();
    follow.wait().unwrap();

    let before = lines(&place.run("ls --elements --json").ok());
    place.run("rename docs manual").ok();
    place
        .run("rename docs other")
        .failed(2, &["no source docs"]);
    assert!(place.read("springtide.toml").contains("[source.manual]"));
    place.run("run --once").ok();
    let after = lines(&place.run("ls --elements --json").ok());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after["source"], "manual");
        assert_eq!(before["id"], after["id"]);
        assert!(after["n_polls"].as_u64() >= before["n_polls"].as_u64());
    }
}

#[test]
fn a_log_has_as_many_lines_as_were_asked_for() {
    let (origin, place) = (origin(3), place());
    for n in 0..3 {
        let page = origin.url(&origin.site().path(n));
        place.run(&format!("add {page} --offline")).ok();
        place.run("run --once").ok();
        origin.site().change(n);
        place.run(&format!("poll {page}")).ok();
    }
    // A change and a first copy, three times.
    for limit in 1..=7_usize {
        let table = place.run(&format!("log --limit {limit}")).ok();
        let n_lines = table.stdout.lines().count();
        assert_eq!(n_lines, 1 + limit.min(6), "{limit}: {}", table.stdout);
        assert_eq!(table.stderr.contains("and more"), limit < 6, "{limit}");
    }
}

/// Now, between what was and what is to come.
fn moment() -> String {
    let pause = || std::thread::sleep(Duration::from_millis(5));
    pause();
    let now = format!("{:.3}", jiff::Timestamp::now());
    pause();
    now
}

/// Ten polls, where a tenth of a day's is less; then it says until when to wait.
#[test]
fn a_poll_that_is_asked_for_runs_ahead_of_the_budget() {
    let origin = origin(30);
    let settings = "[budget]\npolls = \"10/day\"\n[http]\nallow_private = [\"127.0.0.1\"]\n\
         [[group]]\nmatch = \"127.0.0.1\"\nrate = \"1000/s\"\nconcurrency = 8\n";
    let place = Place::with("springtide.toml", settings);
    let sitemap = origin.url("/sitemap.xml");
    place.run(&format!("add {sitemap} --name docs")).ok();
    place.run("run --once").ok();
    let page = |n: usize| origin.url(&origin.site().path(n));
    for n in 0..9 {
        let polled = place.run(&format!("poll {} --json", page(n))).ok();
        assert_eq!(json(&polled)["n_polls"], 1);
    }
    let polled = place.run("poll docs --json");
    assert!(json(&polled)["n_polls"].as_u64().unwrap() <= 2);
    polled.failed(
        8,
        &["the budget allows no more polls now", "may be made in"],
    );
    let polled = place.run(&format!("poll {} --json", page(20)));
    polled.failed(8, &["0 polls made"]);
    // They count: nothing else is polled meanwhile.
    assert_eq!(json(&place.run("run --for 1s --json").ok())["n_polls"], 0);
}

/// What a person took out of the file by mistake is there when it is back.
#[test]
fn a_source_that_is_taken_out_of_the_file_is_kept_and_not_polled() {
    let (origin, place) = (origin(5), place());
    let sitemap = origin.url("/sitemap.xml");
    place.run(&format!("add {sitemap} --name docs")).ok();
    place.run("run --once").ok();
    let with_it = place.read("springtide.toml");
    let without = &with_it[..with_it.find("[source.docs]").unwrap()];
    std::fs::write(place.path("springtide.toml"), without).unwrap();

    let ran = json(&place.run("run --once --json").ok());
    assert_eq!(ran["n_polls"], 0);
    let page = origin.url(&origin.site().path(1));
    for what in ["docs", &page] {
        let polled = place.run(&format!("poll {what}"));
        polled.failed(2, &["not in springtide.toml"]);
    }
    let listed = place.run("ls --json").ok();
    assert_eq!(json(&listed)["is_in_file"], false);
    assert!(
        place
            .run("ls")
            .ok()
            .stderr
            .contains("not in springtide.toml")
    );
    assert!(
        place
            .run("status")
            .ok()
            .stdout
            .contains("not in springtide.toml")
    );
    let rows = lines(&place.run("ls --elements --json").ok());
    assert_eq!(rows.len(), 5);
    for row in rows {
        assert_eq!((&row["n_polls"], &row["due_at"]), (&1.into(), &Value::Null));
    }

    std::fs::write(place.path("springtide.toml"), &with_it).unwrap();
    let polled = json(&place.run(&format!("poll {page} --json")).ok());
    assert_eq!(polled["n_polls"], 1);
    let rows = lines(&place.run("ls --elements --json").ok());
    assert_eq!(rows[1]["n_polls"], 2);
    std::fs::write(place.path("springtide.toml"), without).unwrap();
    place.run("rm docs").ok();
    assert_eq!(place.run("ls --elements --json").ok().stdout, "");
}

#[test]
fn what_fails_is_told_and_the_rest_is_done() {
    let (origin, place) = (origin(2), place());
    origin.script("/broken", Behaviour::status(500));
    let urls = format!(
        "{}\n{}\n",
        origin.url(&origin.site().path(0)),
        origin.url("/broken")
    );
    let place = place.and("urls.txt", urls);
    place.run("add urls.txt").ok();
    place.run("run --once");
    let failing = lines(&place.run("ls --elements --state failing --json").ok());
    assert_eq!(failing.len(), 1);
    assert!(failing[0]["error"]["kind"].is_string(), "{}", failing[0]);
    assert_eq!(
        lines(&place.run("ls --elements --state ok --json").ok()).len(),
        1
    );
    let table = place.run("ls --elements").ok().stdout;
    assert!(table.contains("failing"), "{table}");
}

#[test]
fn the_end_of_a_first_pass_says_what_it_did_not_bring() {
    let empty = Behaviour::body("application/xml", "<urlset></urlset>");
    let (bare, project) = (origin(0), place());
    bare.script("/sitemap.xml", empty);
    project.run(&format!("add {}", bare.url("/sitemap.xml")));
    let told = project.run("run --once").stderr;
    let nothing = "there is nothing to poll: no elements were found";
    assert!(told.contains(nothing), "{told}");

    let site = origin(0);
    let rules = "User-agent: *\nDisallow: /no";
    site.script("/robots.txt", Behaviour::body("text/plain", rules));
    site.script("/yes", Behaviour::body("text/html", "<p>yes"));
    site.script("/fails", Behaviour::status(500));
    let urls = ["/yes", "/no/1", "/no/2", "/fails"].map(|path| site.url(path));
    let project = place().and("urls.txt", urls.join("\n"));
    project.run("add urls.txt").ok();
    let told = project.run("run --once").stderr;
    let of_them = "4 elements, of them 1 failing, 2 blocked by robots.txt";
    assert!(told.contains(of_them), "{told}");
}

#[test]
fn one_project_is_run_once_at_a_time_and_stops_when_told_to() {
    let (origin, place) = (origin(3), place());
    place
        .run(&format!("add {}", origin.url("/sitemap.xml")))
        .ok();
    let mut child = place
        .command("run")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let is_polled = || lines(&place.run("ls --elements --state ok --json").ok()).len() == 3;
    while !is_polled() && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Those who read do not mind, those who write do.
    assert_eq!(json(&place.run("status --json").ok())["n_elements"], 3);
    place.run("run --once").failed(11, &["in use"]);
    place
        .run("add https://a.example/ --offline")
        .failed(11, &["in use"]);
    let stopped = std::process::Command::new("kill")
        .args(["-s", "INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(stopped.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    place.run("doctor").ok();
    place.run("run --max-polls 1").ok();
    place
        .run("run --for 100ms")
        .failed(2, &["unknown unit `ms`"]);
    place.run("run --for 0.2s").ok();
}

/// Waits for a child to end, for as long as anyone would.
#[cfg(unix)]
fn code_of(mut child: std::process::Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::yield_now();
    }
}

#[cfg(unix)]
fn send(signal: &str, child: &std::process::Child) {
    let mut kill = std::process::Command::new("kill");
    let kill = kill.args([signal, &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
}

/// A pipe that is full, and that nobody reads.
#[cfg(unix)]
fn stalled() -> (std::io::PipeReader, Stdio) {
    use std::io::Write;
    let (reader, mut writer) = std::io::pipe().unwrap();
    let end = writer.try_clone().unwrap();
    let (begun, has_begun) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // More than any pipe takes: it is full when this waits.
        for _ in 0..1024 {
            let _ = writer.write_all(&[b'x'; 4096]);
            let _ = begun.send(());
        }
    });
    while has_begun.recv_timeout(Duration::from_secs(1)).is_ok() {}
    (reader, end.into())
}

#[test]
#[cfg(unix)]
fn a_terminal_that_is_stopped_stops_neither_polls_nor_the_end() {
    let (origin, place) = (origin(3), place());
    let url = origin.url("/sitemap.xml");
    place.run(&format!("add {url}")).ok();
    let (_reader, stderr) = stalled();
    let mut command = place.command("run -v --for 2s");
    let child = command
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .unwrap();
    assert_eq!(code_of(child), Some(0));
    assert_eq!(
        lines(&place.run("ls --elements --state ok --json").ok()).len(),
        3
    );

    let (_reader, stderr) = stalled();
    let n_before = origin.n_requests();
    let mut command = place.command("run -v");
    let child = command
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .unwrap();
    let start = Instant::now();
    while origin.n_requests() < n_before + 20 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "it does not poll"
        );
        std::thread::yield_now();
    }
    send("-INT", &child);
    assert_eq!(code_of(child), Some(130));

    let (_reader, stderr) = stalled();
    let mut command = place.command("demo --for 2s --pages 20");
    let command = command.stdout(Stdio::null()).stderr(stderr);
    assert_eq!(code_of(command.spawn().unwrap()), Some(0));
}

#[test]
#[cfg(unix)]
fn a_run_that_is_over_and_cannot_say_so_is_ended_by_one_signal() {
    let (origin, place) = (origin(3), place());
    place
        .run(&format!("add {}", origin.url("/sitemap.xml")))
        .ok();
    let (_reader, stdout) = stalled();
    let mut command = place.command("run --quiet --json --max-polls 1");
    let child = command.stdout(stdout).stderr(Stdio::null()).spawn();
    let child = child.unwrap();
    let start = Instant::now();
    while origin.n_requests() < 3 || place.run("run --quiet --max-polls 1").code == 11 {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::yield_now();
    }
    send("-INT", &child);
    assert_eq!(code_of(child), Some(130));
}

#[test]
#[cfg(unix)]
fn a_hangup_that_is_ignored_at_the_start_stays_so() {
    let (origin, place) = (origin(3), place());
    place
        .run(&format!("add {}", origin.url("/sitemap.xml")))
        .ok();
    for (signals, expected) in [(&["-HUP"][..], 129), (&["-HUP", "-TERM"], 143)] {
        let run = place.command("run");
        let mut command = std::process::Command::new("sh");
        let trap = match signals.len() {
            1 => "",
            _ => "trap '' HUP; ",
        };
        let program = run.get_program().to_string_lossy();
        let line = format!("{trap}exec {program} run");
        command.args(["-c", &line]).current_dir(place.path("."));
        let n_before = origin.n_requests();
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = quiet.spawn().unwrap();
        let start = Instant::now();
        while origin.n_requests() < n_before + 10 {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "it does not poll"
            );
            std::thread::yield_now();
        }
        signals.iter().for_each(|signal| send(signal, &child));
        assert_eq!(code_of(child), Some(expected));
    }
}

#[test]
#[cfg(unix)]
fn what_is_kept_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (origin, place) = (origin(3), place());
    place
        .run(&format!("add {}", origin.url("/sitemap.xml")))
        .ok();
    let check = || {
        let mut folders = vec![place.path(".springtide")];
        let mut n_files = 0;
        while let Some(folder) = folders.pop() {
            let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", folder.display());
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = std::fs::symlink_metadata(&path).unwrap();
                if metadata.is_dir() {
                    folders.push(path);
                } else if path.file_name().unwrap() != ".gitignore" {
                    let mode = metadata.permissions().mode();
                    assert_eq!(mode & 0o777, 0o600, "{}", path.display());
                    n_files += 1;
                }
            }
        }
        assert!(n_files >= 5, "{n_files}");
    };
    place.run("run --once").ok();
    check();
    // As an earlier version left it.
    for (name, mode) in [("", 0o755), ("/store.db", 0o644), ("/lock", 0o644)] {
        let path = place.path(&format!(".springtide{name}"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    place.run("run --once").ok();
    check();
}

#[test]
#[cfg(unix)]
fn an_export_does_not_follow_links() {
    use std::os::unix::fs::symlink;
    let (origin, place) = (origin(2), place());
    let add = format!("add {} --name docs", origin.url("/sitemap.xml"));
    place.run(&add).ok();
    place.run("run --once").ok();
    place.run("export bodies copy").ok();
    let line: Value =
        serde_json::from_str(place.read("copy/manifest.jsonl").lines().next().unwrap()).unwrap();
    let file = format!("copy/{}", line["file"].as_str().unwrap());
    let body = place.read(&file);
    // A link in the place of a file goes, and what it points to stays.
    let secret = place.path("secret");
    std::fs::write(&secret, "mine").unwrap();
    std::fs::remove_file(place.path(&file)).unwrap();
    symlink(&secret, place.path(&file)).unwrap();
    place.run("export bodies copy").ok();
    assert_eq!(
        (place.read(&file), place.read("secret")),
        (body, "mine".to_owned())
    );
    assert!(!place.path(&file).is_symlink());
    // One in the place of a folder, or of the manifest, is refused.
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    std::fs::create_dir(place.path("other")).unwrap();
    symlink(place.path("elsewhere"), place.path("other/docs")).unwrap();
    place.run("export bodies other --flat").failed(1, &["link"]);
    let host = line["file"].as_str().unwrap().split('/').next().unwrap();
    symlink(
        place.path("elsewhere"),
        place.path(&format!("other/{host}")),
    )
    .unwrap();
    place.run("export bodies other").failed(1, &["link"]);
    assert_eq!(
        std::fs::read_dir(place.path("elsewhere")).unwrap().count(),
        0
    );
    std::fs::create_dir(place.path("third")).unwrap();
    symlink(&secret, place.path("third/manifest.jsonl")).unwrap();
    place.run("export bodies third").failed(1, &["link"]);
    assert_eq!(place.read("secret"), "mine");
}

#[test]
fn what_retain_does_not_keep_is_counted_first_and_then_forgotten() {
    let (origin, place) = (origin(3), place());
    let sitemap = origin.url("/sitemap.xml");
    place.run(&format!("add {sitemap} --name docs")).ok();
    place.run("run --once").ok();
    let page = origin.url(&origin.site().path(1));
    for _ in 0..4 {
        origin.site().change(1);
        place.run(&format!("poll {page}")).ok();
    }
    let versions = || {
        let versions = json(&place.run(&format!("diff {page} --versions --json")).ok());
        versions.as_array().unwrap().len()
    };
    assert_eq!(versions(), 5);
    let disk = || json(&place.run("status --json").ok())["disk"].clone();
    let bodies_before = disk()["bodies_bytes"].as_u64().unwrap();
    assert!(bodies_before > 1000 && disk()["store_bytes"].as_u64() > Some(4096));
    let table = place.run("status").ok().stdout;
    assert!(
        table.contains("disk        ") && table.contains(" for bodies"),
        "{table}"
    );

    place.run("doctor --dry-run").failed(2, &["--gc"]);
    // Nothing is said of how long anything is kept: only the listing's bodies may go.
    let all = json(&place.run("doctor --gc --dry-run --json").ok());
    assert_eq!(all["n_versions_forgotten"], Value::Null, "{all}");
    let config = place.read("springtide.toml") + "\n[retain]\nversions = 2\npolls = \"0.001s\"\n";
    let place = place.and("springtide.toml", config);
    let foreseen = json(&place.run("doctor --gc --dry-run --json").ok());
    assert_eq!(
        (&foreseen["dry_run"], &foreseen["sound"]),
        (&true.into(), &true.into())
    );
    assert_eq!(foreseen["n_versions_forgotten"], 3, "{foreseen}");
    assert_eq!(foreseen["n_polls_forgotten"], 8, "{foreseen}");
    let n_bodies = foreseen["n_bodies_freed"].as_u64().unwrap();
    assert!(n_bodies >= 3, "{foreseen}");
    let done = json(&place.run("doctor --gc --json").ok());
    for key in [
        "n_versions_forgotten",
        "n_polls_forgotten",
        "n_bodies_freed",
    ] {
        assert_eq!(done[key], foreseen[key], "{key}");
    }
    assert_eq!(done["dry_run"], false);
    let versions = json(&place.run(&format!("diff {page} --versions --json")).ok());
    assert_eq!(versions.as_array().unwrap().len(), 2);
    let status = json(&place.run("status --json").ok());
    // Totals stay.
    assert_eq!(
        (&status["n_polls"], &status["n_changes"]),
        (&8.into(), &4.into())
    );
    place.run("export bodies copy").ok();
    let again = json(&place.run("doctor --gc --json").ok());
    assert_eq!(
        (&again["n_bodies_freed"], &again["sound"]),
        (&0.into(), &true.into())
    );
}

/// An export can be looked at with a browser, whatever addresses there are.
#[test]
fn bodies_are_laid_out_as_on_their_hosts() {
    let (origin, place) = (origin(0), place());
    let paths = [
        ("/", "text/html", "index.html"),
        ("/guide/", "text/html", "guide/index.html"),
        ("/guide/start", "text/html", "guide/start.html"),
        ("/guide", "application/x-thing", "guide~3"),
        ("/Guide/Start", "text/html", "Guide/Start~4.html"),
        ("/style.css", "text/css", "style.css"),
        ("/list?page=2", "text/html", "list@page=2.html"),
        (
            "/..%2F..%2Fetc/passwd",
            "text/plain",
            ".._.._etc/passwd.txt",
        ),
    ];
    let mut urls = String::new();
    for (path, content_type, _) in paths {
        origin.script(
            path,
            Behaviour::body(content_type, format!("body of {path}")),
        );
        urls += &(origin.url(path) + "\n");
    }
    let place = place.and("urls.txt", urls);
    place.run("add urls.txt --name all").ok();
    place.run("run --once").ok();
    place.run("export bodies copy").ok();
    let host = origin.url("").replace("http://", "").replace(':', "_");
    let mut files = std::collections::BTreeMap::new();
    for line in place.read("copy/manifest.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        files.insert(text("locator"), text("file"));
    }
    assert_eq!(files.len(), paths.len());
    // By number, so that names do not depend on what came later.
    for (index, (path, _, wanted)) in paths.iter().enumerate() {
        let file = &files[&origin.url(path)];
        assert_eq!(
            place.read(&format!("copy/{file}")),
            format!("body of {path}")
        );
        let wanted = wanted.replace(&format!("~{index}"), "~");
        let without_number: String = match file.split_once('~') {
            Some((stem, rest)) => format!("{stem}~{}", rest.trim_start_matches(char::is_numeric)),
            None => file.clone(),
        };
        assert_eq!(without_number, format!("{host}/{wanted}"));
    }
    place.run("export bodies numbers --flat").ok();
    let manifest = place.read("numbers/manifest.jsonl");
    assert!(
        manifest
            .lines()
            .all(|line| line.contains("\"file\":\"all/0000/"))
    );
}

/// What fails is tried again by whoever asks for it; what is there twice is warned of.
#[test]
fn what_fails_is_polled_by_its_state_and_what_is_there_twice_is_told() {
    let (origin, place) = (origin(3), place());
    origin.script("/broken", Behaviour::status(500));
    let urls = format!(
        "{}\n{}\n",
        origin.url("/broken"),
        origin.url(&origin.site().path(1))
    );
    let place = place.and("urls.txt", urls);
    place.run("add urls.txt --name list").ok();
    place.run("run --once").ok();
    let polled = json(&place.run("poll --state failing --json").ok());
    assert_eq!(
        (&polled["n_polls"], &polled["n_failed"]),
        (&1.into(), &1.into())
    );
    origin.script("/broken", Behaviour::body("text/html", "<p>mended</p>"));
    let polled = json(&place.run("poll --state failing list --json").ok());
    assert_eq!(
        (&polled["n_polls"], &polled["n_failed"]),
        (&1.into(), &0.into())
    );
    let none = place.run("poll --state failing --json").ok();
    assert_eq!(json(&none)["n_polls"], 0);
    assert!(
        none.stderr.contains("no element is in that state"),
        "{}",
        none.stderr
    );

    let page = origin.url(&origin.site().path(1));
    let added = place.run(&format!("add {page} --name one")).ok();
    let words = format!("warning: {page} is in two sources, list and one");
    assert!(added.stderr.contains(&words), "{}", added.stderr);
    assert!(place.run("doctor").ok().stderr.contains(&words));
    assert_eq!(json(&place.run("doctor --json").ok())["shared"]["n"], 1);
}

/// Whoever wants more than the budget gives is told by how much.
#[test]
fn status_says_what_the_budget_falls_short_of_the_target_by() {
    let (origin, place) = (origin(4), place());
    // However long the lines are.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sitemap = origin.url("/sitemap.xml");
    place.run(&format!("add {sitemap} --name docs")).ok();
    place.run("run --once").ok();
    for n in 0..4 {
        origin.site().change(n);
    }
    place.run("poll docs").ok();
    let file = place.read("springtide.toml");
    let file = file.replace("10000000/day", "1/day") + "\n[target]\nfreshness = \"99%\"\n";
    std::fs::write(place.path("springtide.toml"), &file).unwrap();
    let short = &json(&place.run("status --json").ok())["budget"]["short_per_day"];
    assert!(short.as_f64().unwrap() > 0.0, "{short}");
    let shown = words(&place.run("status").ok().stdout);
    assert!(
        shown.contains("polls a day short of the target (99.0% fresh) in the long run"),
        "{shown}"
    );
    assert!(shown.contains("4 in 1 source: 4 ok polls"), "{shown}");
    // The same for an age alone.
    let aged = file.replace("freshness = \"99%\"", "age = { error_after = \"1s\" }");
    std::fs::write(place.path("springtide.toml"), aged).unwrap();
    let short = &json(&place.run("status --json").ok())["budget"]["short_per_day"];
    assert!(short.as_f64().unwrap() > 0.0, "{short}");
    let shown = words(&place.run("status").ok().stdout);
    assert!(
        shown.contains("short of the target (an age of 1s by objective = \"age\")"),
        "{shown}"
    );
}
