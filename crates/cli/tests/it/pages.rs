//! What the pages of a source, of the system and of the lab tell, what versions are called,
//! what hints say, and what is never shown.

use serde_json::{Value, json};

use crate::live::origin;
use crate::serving::{Serving, all_polled, project};

#[track_caller]
fn read_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn versions_keep_their_numbers_when_older_ones_are_forgotten() {
    let origin = origin(1);
    let place = project(&origin, "[retain]\nversions = 2\n");
    place.run("run --once").ok();
    let log = place.run("log --json").ok().stdout;
    let element = read_json(log.lines().next().unwrap())["element"].clone();
    for _ in 0..4 {
        origin.site().change(0);
        place.run(&format!("poll {element}")).ok();
    }
    place.run("doctor --gc").ok();
    let listed = read_json(
        &place
            .run(&format!("diff {element} --versions --json"))
            .ok()
            .stdout,
    );
    let numbers = |listed: &Value, name: &str| -> Vec<u64> {
        let versions = listed.as_array().unwrap().iter();
        versions.map(|v| v[name].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&listed, "number"), [4, 5]);
    let diff = place.run(&format!("diff {element} --json")).ok().stdout;
    let diff = read_json(&diff);
    assert_eq!(
        (&diff["before"]["number"], &diff["after"]["number"]),
        (&json!(4), &json!(5))
    );
    place
        .run(&format!("diff {element} 3"))
        .failed(2, &["no version 3", "versions 4 to 5"]);

    let serving = Serving::start(&place, "");
    let path = format!("/api/v1/elements/{element}");
    let versions = serving.get_json(&path)["versions"].clone();
    assert_eq!(numbers(&versions, "n"), [4, 5]);
    assert_eq!(serving.get(&format!("{path}/versions/5")).status, 200);
    for gone in [0, 1, 3, 6] {
        let answer = serving.get(&format!("{path}/versions/{gone}"));
        assert_eq!(answer.status, 404, "{answer:?}");
    }
    let diff = serving.get(&format!("{path}/diff"));
    assert!(diff.body.contains("(version 4,") && diff.body.contains("(version 5,"));
    assert_eq!(serving.get(&format!("{path}/diff?from=1&to=5")).status, 404);
    let page = serving.get(&format!("/elements/{element}")).body;
    assert!(page.contains("from 4 to 5"), "{page}");
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn a_hint_of_what_a_copy_already_has_counts_for_nothing() {
    let origin = origin(4);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(4));
    let elements = serving.get_json("/api/v1/elements")["items"].clone();
    let locators: Vec<&str> = (elements.as_array().unwrap().iter())
        .map(|element| element["locator"].as_str().unwrap())
        .collect();
    let hint = |url: &str, at: Value| {
        let body = json!({ "urls": [url], "at": at });
        let answer = serving.write("POST", "/api/v1/hints", &body);
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!(answer.json()["n_known"], 1);
    };
    let polls = |serving: &Serving| serving.get_json("/api/v1/status")["n_polls"].as_u64();
    let n_counted = |serving: &Serving| {
        let source = serving.get_json("/api/v1/sources/docs");
        source["trust"]["push"]["n"].as_u64().unwrap_or(0)
    };
    let before = polls(&serving).unwrap();
    serving.until("each is polled some times", |serving| {
        hint(locators[0], json!("2020-05-01T12:00:00Z"));
        (polls(serving)? > before + 40).then_some(())
    });
    assert_eq!(n_counted(&serving), 0);
    for (locator, at) in [
        (locators[1], json!("2999-05-01T12:00:00Z")),
        (locators[2], Value::Null),
    ] {
        let before = n_counted(&serving);
        // One that comes during a poll is not counted.
        serving.until("it is counted", |serving| {
            hint(locator, at.clone());
            (n_counted(serving) > before).then_some(())
        });
    }
    assert_eq!(serving.stop(), Some(0));
    let listed = read_json(&place.run("ls --json").ok().stdout);
    assert!(listed["trust"]["push"]["n"].as_u64() >= Some(2), "{listed}");
}

#[test]
fn a_password_in_an_address_is_shown_to_nobody() {
    let origin = origin(2);
    let with_password = origin
        .url("/d0/p.html")
        .replace("http://", "http://me:hunter2@");
    let place = project(
        &origin,
        &format!("[source.page]\nkind = \"page\"\nurl = \"{with_password}\"\n"),
    );
    let serving = Serving::start(&place, "-v");
    serving.until("all are polled", |serving| {
        let states = &serving.get_json("/api/v1/status")["states"];
        (states["ok"] == 2 && states["failing"] == 1).then_some(())
    });
    let elements = serving.get_json("/api/v1/elements?source=page");
    let element = &elements["items"][0];
    let locator = element["locator"].as_str().unwrap();
    assert!(locator.starts_with("http://me:***@127.0.0.1"), "{locator}");
    let id = &element["id"];
    for path in [
        "/api/v1/status",
        "/api/v1/sources",
        "/api/v1/sources/page",
        "/api/v1/elements",
        "/api/v1/elements?sort=locator&limit=1",
        "/api/v1/changes",
        "/changes.atom",
        "/metrics",
        "/readyz",
        "/",
        "/sources",
        "/sources/page",
        "/elements",
        "/changes",
        "/budget",
        "/system",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([format!("/api/v1/elements/{id}"), format!("/elements/{id}")])
    {
        let answer = serving.get(&path);
        assert!(!answer.body.contains("hunter2"), "{path}: {}", answer.body);
        // Nor in the digits of a token.
        assert!(
            !answer.body.contains("68756e74657232"),
            "{path}: {}",
            answer.body
        );
    }
    let found = serving.get_json("/api/v1/elements?q=hunter2");
    assert_eq!(found["items"], json!([]));
    assert_eq!(serving.stop(), Some(0));
    for line in [
        "status",
        "status --json",
        "ls",
        "ls --json",
        "ls --elements",
        "ls --elements --json",
        "log",
        "log --json",
        "run --for 1s -v",
        "run --for 1s --log json",
        "poll -v",
        "doctor --json",
        "export jsonl",
    ] {
        let ran = place.run(line);
        assert!(!ran.stdout.contains("hunter2"), "{line}: {}", ran.stdout);
        assert!(!ran.stderr.contains("hunter2"), "{line}: {}", ran.stderr);
    }
    // Nor to whoever typed it, since others read what a program says.
    for line in [
        format!("add {with_password}2"),
        format!("add {with_password}2 --dry-run"),
        "add ftp://me:hunter2@127.0.0.1/".to_owned(),
        "add postgres://me:hunter2@127.0.0.1:9/a".to_owned(),
        format!("diff {with_password}"),
        format!("cat {with_password}"),
        format!("poll {with_password}2"),
        "rm http://me:hunter2@127.0.0.1/".to_owned(),
    ] {
        let ran = place.run(&line);
        assert_ne!(ran.code, 0, "{line}");
        assert!(!ran.stdout.contains("hunter2"), "{line}: {}", ran.stdout);
        assert!(!ran.stderr.contains("hunter2"), "{line}: {}", ran.stderr);
    }
}

#[test]
fn pages_tell_what_a_source_costs_and_what_was_wrong_and_what_doctor_finds() {
    let origin = origin(5);
    let place = project(&origin, "[target]\nfreshness = \"90%\"\n");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(5));
    let gone = origin.url("/nowhere.html");
    let dead = json!({ "name": "dead", "kind": "page", "url": gone });
    assert_eq!(serving.write("POST", "/api/v1/sources", &dead).status, 201);
    let page = serving.until("it is known what it costs", |serving| {
        let page = serving.get("/sources/docs").body;
        page.contains("kept fresh").then_some(page)
    });
    for words in [
        "changes a day",
        "polls a day",
        "of the budget",
        "all versions",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = serving.until("what was wrong is told", |serving| {
        let page = serving.get("/sources/dead").body;
        page.contains("of the last 7 days").then_some(page)
    });
    assert!(page.contains("The latest failed polls") && page.contains("/nowhere.html"));
    let system = serving.until("doctor has looked, and the engine was heard", |serving| {
        let page = serving.get("/system").body;
        (page.contains("are sound") && page.contains("under way")).then_some(page)
    });
    for words in [
        "under way",
        "next request",
        "/nowhere.html",
        "The latest failed polls",
    ] {
        assert!(system.contains(words), "{words}: {system}");
    }
    let form = format!(
        "Content-Type: application/x-www-form-urlencoded\r\nOrigin: http://{}\r\n",
        serving.address
    );
    assert_eq!(serving.send("POST", "/system/check", &form, "").status, 303);
    assert!(
        serving
            .get("/budget")
            .body
            .contains("href=\"/sources/dead\"")
    );
    let metrics = serving.get("/metrics").body;
    assert!(metrics.contains("\nspringtide_target_freshness 0.9\n"));

    let lab = "policy=learned&policy=uniform&budget=10%2Fday%2C+20%2Fday&days=30\
               &hours=any+time%2C+22%3A00-06%3A00+UTC";
    serving.until("something is known", |serving| {
        let status = serving.send("POST", "/lab", &form, lab).status;
        (status == 303).then_some(())
    });
    let page = serving.until("the experiment is over", |serving| {
        let page = serving.get("/lab").body;
        page.contains("Results").then_some(page)
    });
    // Two policies, two budgets, with and without hours.
    assert_eq!(page.matches("<th scope=\"row\">").count(), 8, "{page}");
    assert_eq!(page.matches("<td>22:00-06:00 UTC</td>").count(), 4);
    for bad in ["hours=25%3A00-26%3A00", "hours=nonsense"] {
        let lab = format!("policy=uniform&budget=10%2Fday&days=5&{bad}");
        assert_eq!(serving.send("POST", "/lab", &form, &lab).status, 422);
    }
    let many = format!("policy=uniform&days=5&budget={}", "1%2Fday%2C".repeat(25));
    assert_eq!(serving.send("POST", "/lab", &form, &many).status, 422);
}
