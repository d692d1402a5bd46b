//! A source that is paused: kept, and not polled.

use std::time::Duration;

use serde_json::{Value, json};

use crate::live::origin;
use crate::serving::{Serving, all_polled, project};
use crate::{json as read_json, lines};

#[test]
fn a_paused_source_keeps_its_history_and_is_not_polled() {
    let (origin, other) = (origin(4), origin(2));
    let more = format!(
        "[source.more]\nkind = \"sitemap\"\nurl = \"{}\"\n",
        other.url("/sitemap.xml")
    );
    let place = project(&origin, &more);
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(6));
    let form = format!(
        "Content-Type: application/x-www-form-urlencoded\r\nOrigin: http://{}\r\n",
        serving.address
    );
    let paused = serving.send("POST", "/sources/docs/pause", &form, "");
    assert_eq!(
        (paused.status, paused.header("location")),
        (303, "/sources/docs")
    );
    assert!(place.read("springtide.toml").contains("paused = true"));
    assert!(serving.get("/sources/docs").body.contains("It is paused"));
    let n_polls =
        |name: &str| serving.get_json(&format!("/api/v1/sources/{name}"))["n_polls"].as_u64();
    // What was under way ends, and the engine starts again.
    let before = n_polls("more");
    serving.until("the other is polled", |_| {
        (n_polls("more") > before).then_some(())
    });
    let (quiet, busy) = (origin.n_requests(), other.n_requests());
    origin.site().change(1);
    let n = n_polls("docs");
    serving.until("the other is polled much", |_| {
        (other.n_requests() > busy + 100).then_some(())
    });
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(origin.n_requests(), quiet);
    assert_eq!(n_polls("docs"), n);

    let docs = serving.get_json("/api/v1/sources/docs");
    assert_eq!(docs["is_paused"], true);
    assert_eq!(docs["n_elements"], 4);
    let element = serving.get_json("/api/v1/elements?source=docs")["items"][0].clone();
    assert_eq!(element["due_at"], Value::Null, "{element}");
    assert!(
        element["reason"].as_str().unwrap().contains("paused"),
        "{element}"
    );
    let path = format!("/api/v1/elements/{}/poll", element["id"]);
    assert_eq!(serving.write("POST", &path, &json!({})).status, 409);
    let page = serving.get(&format!("/elements/{}", element["id"]));
    assert!(page.body.contains("paused"));
    assert_eq!(serving.get("/sources").status, 200);
    assert!(place.run("ls").ok().stderr.contains("docs: paused"));
    assert!(place.run("status").ok().stdout.contains("paused"));
    let status = read_json(&place.run("status --json").ok());
    let part = status["sources"].as_array().unwrap().iter();
    let part = part.clone().find(|part| part["name"] == "docs").unwrap();
    assert_eq!(
        (&part["is_paused"], &part["next_poll_at"]),
        (&json!(true), &Value::Null)
    );
    let listed = lines(&place.run("ls --json").ok());
    assert_eq!(listed.iter().filter(|s| s["is_paused"] == true).count(), 1);

    // It goes on where it was.
    let patch = serving.write("PATCH", "/api/v1/sources/docs", &json!({ "paused": null }));
    assert_eq!(
        (patch.status, &patch.json()["is_paused"]),
        (200, &json!(false))
    );
    assert!(!place.read("springtide.toml").contains("paused"));
    serving.until("the change is found", |serving| {
        let status = serving.get_json("/api/v1/status");
        (status["n_changes"].as_u64() >= Some(1)).then_some(())
    });
    // What servers send has shown what it is worth by now.
    assert_eq!(serving.stop(), Some(0));
    let listed = lines(&place.run("ls --json").ok());
    let docs = listed
        .iter()
        .find(|source| source["name"] == "docs")
        .unwrap();
    let etag = &docs["trust"]["etag"];
    assert!(
        etag["n"].as_u64() > Some(0) && etag["n_false"] == 0,
        "{docs}"
    );
    assert_eq!(docs["trust"]["push"], Value::Null, "{docs}");

    let file = place
        .read("springtide.toml")
        .replace("[source.docs]\n", "[source.docs]\npaused = true\n");
    std::fs::write(place.path("springtide.toml"), file).unwrap();
    place.run("poll docs").failed(2, &["paused"]);
    let before = origin.n_requests();
    place.run("run --for 1s").ok();
    assert_eq!(origin.n_requests(), before);
}
