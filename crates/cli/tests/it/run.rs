//! What a run tells: to a person at a terminal, into a log, to a program.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::live::origin;
#[cfg(unix)]
use crate::on_terminal;
use crate::{Place, json, lines};

/// A project that may ask loopback, and quickly.
fn place() -> Place {
    Place::with(
        "springtide.toml",
        "[budget]\npolls = \"5000/day\"\n[http]\nallow_private = [\"127.0.0.0/8\"]\n\
         [[group]]\nmatch = \"*\"\nrate = \"1000/s\"\nconcurrency = 8\n",
    )
}

/// An address at which nobody listens, on a host of its own.
fn dead() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn without_a_terminal_each_poll_is_a_line_with_time_outcome_status_size_and_duration() {
    let (origin, place) = (origin(3), place());
    let sitemap = origin.url("/sitemap.xml");
    place.run(&format!("add {sitemap} --name docs")).ok();
    let log = place.run("run --once").ok().stderr;
    let page = origin.url(&origin.site().path(1));
    let line = log.lines().find(|line| line.ends_with(&page)).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let [time, outcome, status, amount, unit, took, _] = words[..] else {
        panic!("{line}");
    };
    assert!(time.ends_with('Z') && time.contains('T'), "{line}");
    assert_eq!((outcome, status), ("added", "200"));
    assert!(amount.parse::<f64>().is_ok() && ["B", "kB"].contains(&unit));
    assert!(took.ends_with('s'), "{line}");
    assert!(log.contains("every element has been polled once"), "{log}");

    let again = place.run(&format!("poll {page}")).ok().stderr;
    let line = again.lines().find(|line| line.ends_with(&page)).unwrap();
    assert!(line.contains(" unchanged "), "{line}");
    assert_eq!(place.run("run --once --quiet").ok().stderr, "");
}

#[test]
fn a_log_for_machines_has_an_object_for_every_event() {
    let (origin, place) = (origin(3), place());
    let sitemap = origin.url("/sitemap.xml");
    place.run(&format!("add {sitemap} --name docs")).ok();
    let ran = place.run("run --once --log json --json").ok();
    let events: Vec<Value> = ran
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |name: &str| -> Vec<&Value> {
        events
            .iter()
            .filter(|event| event["event"] == name)
            .collect()
    };
    assert_eq!((of("started").len(), of("found").len()), (1, 1));
    let polled = of("polled");
    assert_eq!(polled.len() as u64, json(&ran)["n_polls"].as_u64().unwrap());
    let page = origin.url(&origin.site().path(2));
    let polled = polled
        .iter()
        .find(|event| event["locator"] == page)
        .unwrap();
    assert_eq!(
        (&polled["outcome"], &polled["status"], &polled["purpose"]),
        (&"added".into(), &200.into(), &"first".into())
    );
    assert!(polled["bytes"].as_u64() > Some(0), "{polled}");
    assert!(polled["duration_seconds"].as_f64().is_some(), "{polled}");
    assert!(polled["at"].as_str().unwrap().ends_with('Z'), "{polled}");
    assert_eq!(polled["error"], Value::Null);
    assert_eq!(of("first-pass-done")[0]["n_elements"], 3);
}

/// One dead host among others.
#[test]
fn a_run_of_what_is_due_gives_up_on_hosts_that_do_not_answer_and_says_so() {
    let (origin, dead) = (origin(3), dead());
    let mut urls: String = (0..3)
        .map(|n| origin.url(&origin.site().path(n)) + "\n")
        .collect();
    (0..5).for_each(|n| urls += &format!("{dead}/{n}\n"));
    let place = place().and("urls.txt", urls);
    place.run("add urls.txt --name all").ok();
    let ran = place.run("run --once --json");
    let summary = json(&ran);
    let host = &summary["hosts"][0];
    assert_eq!(host["host"], "127.0.0.2", "{summary}");
    assert!(host["why"].as_str().unwrap().contains("refused"), "{host}");
    assert!(host["until"].as_str().unwrap().ends_with('Z'), "{host}");
    assert!(!ran.stderr.contains("every element"), "{}", ran.stderr);
    ran.failed(
        3,
        &["gave up on 1 host", "127.0.0.2", "refused", "next try"],
    );
    let rows = lines(&place.run("ls --elements --json").ok());
    for row in rows {
        let is_dead = row["locator"].as_str().unwrap().starts_with(&dead);
        match (row["state"].as_str().unwrap(), is_dead) {
            ("ok", false) | ("new" | "failing", true) => {}
            _ => panic!("{row}"),
        }
    }
}

/// What a person sees.
#[test]
#[cfg(unix)]
fn on_a_terminal_a_line_at_the_foot_says_how_things_stand() {
    let (origin, dead) = (origin(3), dead());
    let urls: String = (0..3)
        .map(|n| origin.url(&origin.site().path(n)) + "\n")
        .collect();
    let place = place().and("urls.txt", format!("{urls}{dead}/\n"));
    place.run("add urls.txt --name all").ok();
    let Some(seen) = on_terminal(&place, "run --for 4s", "") else {
        return;
    };
    for words in [
        "of 5,000 polls today",
        "0 changes",
        "127.0.0.2: unreachable: connection refused (next try ",
        "waiting for 127.0.0.2 (refused, ",
        "4 polls found 0 changes",
    ] {
        assert!(seen.contains(words), "no `{words}` in:\n{seen}");
    }
    // Lines of a log are not for people.
    assert!(!seen.contains("Z added"), "{seen}");
}

/// A dead host, and one that has had enough.
#[test]
#[cfg(unix)]
fn of_several_hosts_that_are_waited_for_each_is_named_with_the_reason() {
    use springtide_engine::origin::Behaviour;
    let (busy, dead) = (origin(0), dead());
    let refuse = Behaviour::retry_after(429, "600");
    busy.script("/robots.txt", Behaviour::body("text/plain", ""));
    busy.script("/", refuse);
    let urls = format!("{}\n{dead}/\n", busy.url("/"));
    let place = place().and("urls.txt", urls);
    place.run("add urls.txt --name all").ok();
    let Some(seen) = on_terminal(&place, "run --for 4s", "") else {
        return;
    };
    let lines = seen.split(['\r', '\n', '\u{1b}']);
    let mut hosts = lines.filter_map(|line| Some(line.split_once("waiting for ")?.1));
    // The first that is tried again is told first.
    let both = |hosts: &str| {
        let refused = hosts.find("127.0.0.2 (refused, ");
        let busy = hosts.find("127.0.0.1 (status 429, ");
        refused.is_some() && refused < busy
    };
    assert!(hosts.any(both), "{seen}");
}

/// Whoever manages services stops them with SIGTERM and has them read their files again
/// with SIGHUP.
#[test]
#[cfg(unix)]
fn a_service_reads_its_file_again_whole_or_not_at_all_and_ends_with_success() {
    use std::io::BufRead;
    let (origin, place) = (origin(3), place());
    let page = |n: usize| origin.url(&origin.site().path(n));
    place.run(&format!("add {} --name one", page(0))).ok();
    let mut child = place
        .command("run --service --log json --json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    // Ends with the child, should it never come.
    let mut wait_for = |is_it: &dyn Fn(&Value) -> bool| loop {
        let line = told.next().unwrap().unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        if is_it(&event) {
            return event;
        }
    };
    let id = child.id().to_string();
    let send = |signal: &str| {
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.unwrap().success());
    };
    wait_for(&|event| event["locator"] == page(0));
    let file = place.read("springtide.toml");
    std::fs::write(place.path("springtide.toml"), "[budgte]\n").unwrap();
    send("-HUP");
    let refused = wait_for(&|event| event["event"] == "note");
    let refused = refused["message"].as_str().unwrap();
    assert!(refused.contains("did you mean `budget`"), "{refused}");
    let with_more = format!(
        "{file}\n[source.two]\nkind = \"page\"\nurl = \"{}\"\n",
        page(1)
    );
    std::fs::write(place.path("springtide.toml"), with_more).unwrap();
    send("-HUP");
    let note = wait_for(&|event| event["event"] == "note");
    assert_eq!(note["message"], "springtide.toml was read again");
    wait_for(&|event| event["locator"] == page(1));
    send("-TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summary["n_polls"].as_u64() >= Some(2), "{summary}");
}

/// What is shown fits a terminal of 80 columns, in projects as people have them: sources
/// with long names, elements in every state, numbers of four digits.
#[test]
#[cfg(unix)]
fn tables_fit_eighty_columns() {
    let site = origin(12);
    site.script("/fails", springtide_engine::origin::Behaviour::status(500));
    site.script("/gone", springtide_engine::origin::Behaviour::status(410));
    let rules = "User-agent: *\nDisallow: /no";
    let rules = springtide_engine::origin::Behaviour::body("text/plain", rules);
    site.script("/robots.txt", rules);
    let dead = dead();
    let urls: String = (0..1100)
        .map(|n| format!("{dead}/a/long/path/to/an/article-{n}.html\n"))
        .collect();
    let others = ["/fails", "/gone", "/no"].map(|path| site.url(path));
    let place = place()
        .and("many.txt", urls)
        .and("others.txt", others.join("\n"));
    let sitemap = site.url("/sitemap.xml");
    for add in [
        "add many.txt --name archive-of-it-all".to_owned(),
        "add others.txt --name a-few-of-another".to_owned(),
        format!("add {sitemap} --name documentation-12"),
    ] {
        place.run(&add).ok();
    }
    place.run("run --once").failed(3, &[]);
    site.site().change(1);
    place.run("poll documentation-12");
    let is_narrow = |seen: &str, what: &str| {
        for line in seen.lines() {
            let line = line.trim_start_matches("[2K").trim_end();
            assert!(line.chars().count() <= 80, "{what}: {line}\n{seen}");
        }
    };
    let verbs = [
        "ls",
        "ls --elements",
        "ls --elements --state failing",
        "ls --elements --state gone",
        "ls --elements --sort -id",
        "-v ls --elements",
        "status",
        "plan",
        "log",
        "log --kind added",
    ];
    for verb in verbs {
        let Some(seen) = on_terminal(&place, verb, "") else {
            return;
        };
        // Each time the line is written anew it is another.
        let seen = seen.replace(['\r', '\u{1b}'], "\n");
        is_narrow(&seen, verb);
        if verb.ends_with("ls --elements --state failing") {
            // The common part of addresses is told once.
            assert!(seen.matches(&dead).count() <= 1, "{seen}");
        }
        assert!(!seen.contains(" seconds"), "{seen}");
    }
    // Errors are wrapped for those who read a file, too.
    let status = place.run("status").ok().stdout;
    is_narrow(&status, "status");
    let words: Vec<&str> = status.split_whitespace().collect();
    let words = words.join(" ");
    let states = [
        "1,114 in 3 sources: 12 ok, ",
        "1 blocked (and 1 gone) polls",
    ];
    for states in states {
        assert!(words.contains(states), "{status}");
    }
    let Some(demo) = on_terminal(&place, "demo --for 5s --pages 40", "") else {
        return;
    };
    is_narrow(&demo.replace(['\r', '\u{1b}'], "\n"), "demo");
    let bars = demo.lines();
    let bars = bars.filter(|line| line.contains('█') || line.contains('░'));
    let n_bars = bars.count();
    assert!(n_bars >= 2 && n_bars.is_multiple_of(2), "{demo}");
}

#[test]
fn colour_is_as_it_was_asked_for() {
    let place = place();
    place.run("add https://a.example/ --offline --name a").ok();
    assert!(
        place
            .run("ls --color always")
            .ok()
            .stdout
            .contains("\u{1b}[1m")
    );
    assert!(!place.run("ls --color never").ok().stdout.contains('\u{1b}'));
    assert!(!place.run("ls").ok().stdout.contains('\u{1b}'));
    place.run("ls --color sometimes").failed(2, &["always"]);
    let help = place.run("--help").ok().stdout;
    for words in ["Common flags:", "--color", "completions", "man "] {
        assert!(help.contains(words), "{help}");
    }
}
