//! Search sources, from the outside.

use std::process::Stdio;
use std::time::{Duration, SystemTime};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_engine::FAIL_POINTS;
use springtide_engine::origin::search::{Rates, SearchServer, SearchSettings, Trouble};
use springtide_policy::Rate;

use crate::durability::inspect;
use crate::{Place, json, lines};

/// A shop whose rows each change every so many seconds.
fn shop(every: f64) -> SearchServer {
    SearchServer::start(SearchSettings {
        n_rows: 300,
        rates: Rates::Same(Rate::per_day(86_400.0 / every).unwrap()),
        ..SearchSettings::default()
    })
    .unwrap()
}

/// With two under way one may be answered after the other was refused.
const ONE_AT_A_TIME: &str = "[[group]]\nmatch = \"127.0.0.1\"\nrate = \"50/s\"\nconcurrency = 1\n";

/// A project that holds the first rows of a shop; `more` is for its source.
fn place(server: &SearchServer, n_rows: usize, more: &str) -> Place {
    let toml = format!(
        "[budget]\npolls = \"100/s\"\n[http]\nallow_private = [\"127.0.0.1\"]\n\
         [source.shop]\nkind = \"search\"\nurl = \"{}\"\nrows = \"rows.csv\"\n\
         attributes = {{ brand = \"words\", title = \"words\" }}\npage_size = 10\ntop = 100\n\
         by_id = \"{}\"\npause = \"1s\"\n{more}\n\
         [source.shop.answer]\nresults = \"/results\"\nid = \"/key/id\"\ntotal = \"/total\"\n\
         item = \"/item\"\n\
         fields = {{ price = \"/stats/price\", brand = \"/brand\", title = \"/title\" }}\n",
        server.search_url(),
        server.item_url()
    );
    let rows = server.catalogue().csv(0..n_rows, SystemTime::now());
    Place::with("springtide.toml", toml).and("rows.csv", rows)
}

#[test]
fn rows_are_polled_told_and_exported() {
    let server = shop(3.0);
    let place = place(&server, 40, "quota = \"30/s\"");
    let added = place.run("add shop --json").ok();
    assert_eq!(json(&added)[0]["kind"], "search");
    assert_eq!(json(&added)[0]["n_elements"], 40);
    assert_eq!(server.n_requests(), 0);
    place.run("run --for 5s").ok();
    let status = json(&place.run("status --json").ok());
    assert_eq!(status["n_elements"], 40);
    assert_eq!(status["sources"][0]["name"], "shop");
    assert!(status["sources"][0]["error"].is_null());
    assert!(status["freshness"]["predicted"].as_f64().unwrap() > 0.3);
    let used = status["budget"]["used_today"].as_f64().unwrap();
    assert!(used > 0.0 && used <= server.n_requests() as f64);

    let elements = lines(&place.run("ls --elements --json").ok());
    assert_eq!(elements.len(), 40);
    for element in &elements {
        assert_eq!(element["state"], "ok");
        assert!(element["rate_per_day"]["estimate"].as_f64().unwrap() > 0.0);
        assert!(element["n_polls"].as_u64().unwrap() >= 1);
    }
    let log = lines(&place.run("log --json").ok());
    assert!(log.iter().any(|change| change["kind"] == "changed"));

    place.run("export bodies out").ok();
    let manifest = place.read("out/manifest.jsonl");
    assert_eq!(manifest.lines().count(), 40);
    for line in manifest.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let file = format!("out/{}", entry["file"].as_str().unwrap());
        let row: serde_json::Value = serde_json::from_str(&place.read(&file)).unwrap();
        assert_eq!(row["id"], entry["locator"]);
        let number = server.catalogue().number(row["id"].as_str().unwrap());
        let there = server
            .catalogue()
            .row_at(number.unwrap(), SystemTime::now());
        assert_eq!(row["title"], there.title.as_str());
        assert!(row["price"].as_u64().is_some());
    }
    // Nobody says when a row changes.
    let status = json(&place.run("status --json").ok());
    assert_eq!(status["age_seconds"]["measured"], serde_json::Value::Null);
    assert!(status["age_seconds"]["predicted"].as_f64().is_some());
    let polled = place.run("poll r000007 --json").ok();
    assert_eq!(json(&polled)["n_polls"], 1);
    let doctor = json(&place.run("doctor --json").ok());
    assert_eq!(doctor["sound"], true);
    place.run("rm shop").ok();
    assert_eq!(place.run("ls --json").ok().stdout, "");
}

#[test]
fn a_killed_run_keeps_to_the_quota_and_loses_nothing() {
    const QUOTA: usize = 12;
    let server = shop(2.0);
    let place = place(&server, 60, "quota = \"12/s\"");
    let mut rng = Pcg64::seed_from_u64(11);
    let lives = 30;
    for life in 0..lives {
        let mut command = place.command("run --for 2s");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let point = FAIL_POINTS[life % FAIL_POINTS.len()];
        if life % 2 == 0 {
            let n = rng.random_range(1..6);
            command.env("SPRINGTIDE_FAIL_POINT", format!("{point}:{n}"));
        }
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(rng.random_range(100..700)));
        // It may have died by itself.
        let _ = child.kill();
        child.wait().unwrap();
    }
    place.run("run --for 3s").ok();
    let most = server.most_in_span(Duration::from_secs(1));
    assert!(most <= QUOTA, "{most} requests in a second");
    assert!(server.n_requests() > 30, "{}", server.n_requests());
    assert!(inspect(&place) > 60);
    let elements = lines(&place.run("ls --elements --json").ok());
    assert!(elements.iter().all(|element| element["state"] == "ok"));
}

#[test]
fn a_refusal_is_an_error_of_its_source_until_it_is_over() {
    let server = shop(30.0);
    let place = place(&server, 40, "quota = \"20/s\"");
    server.misbehave(Trouble::Captcha, 5..6);
    place.run("run --for 0.9s").failed(3, &["shop"]);
    let status = json(&place.run("status --json").ok());
    let error = &status["sources"][0]["error"];
    assert!(
        error["message"].as_str().unwrap().contains("HTML"),
        "{error}"
    );
    place.run("run --for 3s").ok();
    let status = json(&place.run("status --json").ok());
    assert!(status["sources"][0]["error"].is_null());
}

#[test]
fn rows_follow_their_file() {
    let server = shop(1e6);
    let place = place(&server, 30, "quota = \"50/s\"");
    place.run("run --once").ok();
    let rows = |n: std::ops::Range<usize>| server.catalogue().csv(n, SystemTime::now());
    std::fs::write(place.path("rows.csv"), rows(10..35)).unwrap();
    place.run("run --once").ok();
    let elements = lines(&place.run("ls --elements --json").ok());
    let in_state = |state: &str| {
        let with = elements.iter().filter(|element| element["state"] == state);
        with.count()
    };
    assert_eq!((in_state("ok"), in_state("gone")), (25, 10));
    std::fs::write(place.path("rows.csv"), "id,brand,title\na,b,c\na,b,c\n").unwrap();
    place.run("run --for 1s").failed(3, &["shop"]);
    let status = json(&place.run("status --json").ok());
    let message = status["sources"][0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("line 3"), "{message}");
    // What was known is still there.
    let elements = lines(&place.run("ls --elements --json").ok());
    assert_eq!(elements.len(), 35);
    std::fs::write(place.path("rows.csv"), rows(10..35)).unwrap();
    place.run("run --for 0.5s").ok();
    // Away, and back as it was.
    std::fs::rename(place.path("rows.csv"), place.path("away.csv")).unwrap();
    place.run("run --for 0.5s").failed(3, &["shop", "rows.csv"]);
    std::fs::rename(place.path("away.csv"), place.path("rows.csv")).unwrap();
    place.run("run --for 0.5s").ok();
}

#[test]
fn once_does_not_wait_for_a_source_that_is_left_alone() {
    let server = shop(1e6);
    let place = place(&server, 40, &format!("quota = \"50/s\"\n{ONE_AT_A_TIME}"));
    let toml = place
        .read("springtide.toml")
        .replace("pause = \"1s\"", "pause = \"10m\"");
    std::fs::write(place.path("springtide.toml"), toml).unwrap();
    server.misbehave(Trouble::Captcha, 4..);
    // Whoever waited would ask again.
    place.run("run --once").failed(3, &["shop"]);
    place.run("run --once").failed(3, &["shop"]);
    place.run("poll r000001").failed(3, &["shop"]);
    assert_eq!(server.n_requests(), 5);
}

#[test]
fn a_retry_after_of_nothing_is_none() {
    let server = shop(1e6);
    let place = place(&server, 40, &format!("quota = \"50/s\"\n{ONE_AT_A_TIME}"));
    let refused = Trouble::Refused {
        status: 429,
        retry_after: Some("0".to_owned()),
    };
    server.misbehave(refused, 4..);
    place.run("run --for 4s").failed(3, &["shop", "429"]);
    // Four answers, a refusal, and after one second, and two more, others.
    let n = server.n_requests();
    assert!((6..=7).contains(&n), "{n}");
}

#[test]
fn secrets_are_needed_to_ask_and_shown_nowhere() {
    let server = SearchServer::start(SearchSettings {
        api_key: Some("hush-hush".to_owned()),
        n_rows: 50,
        ..SearchSettings::default()
    })
    .unwrap();
    let place = place(&server, 20, "quota = \"30/s\"");
    let toml = place.read("springtide.toml");
    let headers = "[source.shop.headers]\nx-api-key = \"env:SHOP_KEY_OF_THE_TEST\"\n";
    std::fs::write(place.path("springtide.toml"), format!("{toml}{headers}")).unwrap();
    place.run("run --once").failed(2, &["SHOP_KEY_OF_THE_TEST"]);
    for (key, said) in [
        ("", "is empty"),
        ("\n", "is empty"),
        ("hush\nhush", "byte 5"),
        ("hush\u{1}", "byte 5"),
    ] {
        let mut command = place.command("run --once");
        let output = command.env("SHOP_KEY_OF_THE_TEST", key).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(said) && !told.contains("hush"), "{told}");
    }
    assert_eq!(server.n_requests(), 0);
    place.run("status").ok();
    place.run("ls").ok();
    let mut command = place.command("run -v --once");
    // As a shell or a file leaves it.
    command.env("SHOP_KEY_OF_THE_TEST", "hush-hush\r\n");
    let output = command.output().unwrap();
    assert!(output.status.success());
    let said = [output.stdout, output.stderr].concat();
    assert!(!String::from_utf8_lossy(&said).contains("hush"));
    let store = std::fs::read(place.path(".springtide/store.db")).unwrap();
    assert!(!store.windows(9).any(|bytes| bytes == b"hush-hush"));
    let elements = lines(&place.run("ls --elements --json").ok());
    assert!(elements.iter().all(|element| element["state"] == "ok"));
}

#[test]
fn once_asks_for_what_is_new_and_then_stops() {
    let server = shop(1e6);
    let place = place(&server, 40, "quota = \"50/s\"");
    place.run("run --once").ok();
    let elements = lines(&place.run("ls --elements --json").ok());
    assert!(elements.iter().all(|element| element["state"] == "ok"));
    let n = server.n_requests();
    assert!(n <= 40, "{n}");
    place.run("run --once").ok();
    assert_eq!(server.n_requests(), n);
}

/// A person reads what changed, and a program gets it by name.
#[test]
fn what_changed_in_a_row_is_told_field_by_field() {
    let server = shop(1e9);
    let place = place(&server, 20, "quota = \"50/s\"");
    place.run("run --once").ok();
    let price = |row: usize| server.catalogue().row_at(row, SystemTime::now()).price;
    let before = price(7);
    server.catalogue().change(7);
    let after = price(7);
    let ran = place.run("poll r000007 --json").ok();
    let words = format!("r000007 price {before} → {after} (");
    assert!(ran.stderr.contains(&words), "{}", ran.stderr);
    let table = place.run("log").ok().stdout;
    assert!(table.contains(&words), "{table}");
    let log = lines(&place.run("log --json --kind changed").ok());
    assert_eq!(log[0]["fields"][0]["name"], "price");
    assert_eq!(log[0]["fields"][0]["before"], before);
    assert_eq!(log[0]["fields"][0]["after"], after);
    server.catalogue().change(8);
    let ran = place.run("run --for 20s --max-polls 40 --log json --audit 0");
    let events = ran
        .stderr
        .lines()
        .map(|line| -> serde_json::Value { serde_json::from_str(line).unwrap() });
    let mut changed = events.filter(|event| event["outcome"] == "changed");
    let changed = changed.next().unwrap();
    assert_eq!(changed["fields"][0]["name"], "price", "{changed}");
}

#[test]
fn a_field_that_no_result_has_is_an_error_of_the_source() {
    let server = shop(1e9);
    let place = place(&server, 40, "quota = \"50/s\"");
    let good = place.read("springtide.toml");
    let bad = good.replace("brand = \"/brand\"", "brand = \"/brnad\"");
    std::fs::write(place.path("springtide.toml"), bad).unwrap();
    let ran = place.run("run --once");
    ran.failed(3, &["no result has the field `brand` (at \"/brnad\")"]);
    let doctor = place.run("doctor").ok();
    assert!(
        doctor.stderr.contains("failing: shop: no result has"),
        "{}",
        doctor.stderr
    );
    assert!(
        doctor.stderr.contains("1 source fails"),
        "{}",
        doctor.stderr
    );
    assert_eq!(
        json(&place.run("doctor --json").ok())["failing"][0]["source"],
        "shop"
    );
    std::fs::write(place.path("springtide.toml"), good).unwrap();
    place.run("run --once").ok();
}
