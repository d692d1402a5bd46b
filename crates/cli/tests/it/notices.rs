//! Who is told of changes by `serve`, and of which.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Place;
use crate::live::origin;
use crate::serving::{Serving, all_polled, project};

/// A project with a program, `told`, that writes down all it is told.
fn with_program(place: Place) -> Place {
    let place = place.and("told", "#!/bin/sh\ncat >> heard\necho >> heard\n");
    let chmod = std::process::Command::new("chmod")
        .args(["+x", place.path("told").to_str().unwrap()])
        .status();
    assert!(chmod.unwrap().success());
    place
}

#[test]
fn every_change_is_told_at_least_once_though_receiver_and_server_fail() {
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let told: Arc<Mutex<Vec<(Value, String)>>> = Arc::default();
    let heard = Arc::clone(&told);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { continue };
            let Ok((head, body)) = crate::received(&stream) else {
                continue;
            };
            let mut signatures = head.iter();
            let signature =
                signatures.find_map(|line| line.strip_prefix("x-springtide-signature: "));
            let signature = signature.unwrap_or_default().to_owned();
            let body = serde_json::from_slice(&body).unwrap();
            heard.lock().unwrap().push((body, signature));
            // Every second one is not taken.
            let answer = match number % 2 {
                0 => "HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let origin = origin(6);
    let notify = format!(
        "[[notify]]\nto = \"http://127.0.0.1:{port}/hook\"\non = [\"changed\"]\nsecret = \"key\"\n"
    );
    let place = project(&origin, &notify);
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(6));
    for page in 0..6 {
        origin.site().change(page);
    }
    serving.until("all changes are found", |serving| {
        let status = serving.get_json("/api/v1/status");
        (status["n_changes"].as_u64() >= Some(6)).then_some(())
    });
    serving.kill();
    let serving = Serving::start(&place, "");
    let found = || {
        let told = told.lock().unwrap();
        let mut locators: Vec<String> = (told.iter())
            .flat_map(|(body, _)| body["events"].as_array().unwrap().clone())
            .filter(|event| event["on"] == "changed")
            .map(|event| event["locator"].as_str().unwrap().to_owned())
            .collect();
        locators.sort();
        locators.dedup();
        locators.len()
    };
    serving.until("all are told", |_| (found() == 6).then_some(()));
    serving.until("one that was not taken comes again by the same id", |_| {
        let told = told.lock().unwrap();
        let id = &told[0].0["id"];
        (told.iter().filter(|(body, _)| body["id"] == *id).count() > 1).then_some(())
    });
    let told = told.lock().unwrap();
    let (body, signature) = &told[0];
    assert!(
        signature.starts_with("sha256=") && signature.len() == 71,
        "{signature}"
    );
    assert!(
        body["events"][0]["diff"].as_str().unwrap().contains('+'),
        "{body}"
    );
    drop(told);
    place
        .run("notify test nobody")
        .failed(2, &["there is no [[notify]]"]);
    let private = place
        .read("springtide.toml")
        .replace("[\"127.0.0.1\"]", "false");
    let private = private.split("[source.docs]").next().unwrap().to_owned();
    let other = Place::with("springtide.toml", private);
    other.run("ls").failed(2, &["notify"]);
}

#[test]
fn a_program_is_told_on_standard_input_and_of_failures_once() {
    use springtide_engine::origin::Behaviour;
    let origin = origin(2);
    let notify = "[[notify]]\nto = \"exec:./told\"\n\
                  on = [\"failing\", \"recovered\"]\nfailures = 2\n";
    let place = with_program(project(&origin, notify));
    place.run("notify test told").ok();
    assert!(place.read("heard").contains("\"on\":\"test\""));
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(2));
    let path = origin.site().path(1);
    origin.script(&path, Behaviour::status(500));
    let events = |on: &str| {
        let heard = place.read("heard");
        heard.matches(&format!("\"on\":\"{on}\"")).count()
    };
    serving.until("it is told that it fails", |_| {
        (events("failing") == 1).then_some(())
    });
    origin.script(&path, Behaviour::Usual);
    serving.until("it is told that it has recovered", |_| {
        (events("recovered") == 1).then_some(())
    });
    assert_eq!(events("failing"), 1);
}

#[test]
fn whoever_is_named_later_is_told_what_is_found_from_then_on() {
    let origin = origin(3);
    let place = with_program(project(&origin, ""));
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(3));
    let n_changes = |serving: &Serving| {
        let list = serving.get_json("/api/v1/changes");
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .filter(|item| item["kind"] == "changed")
            .count()
    };
    origin.site().change(0);
    serving.until("the first change is found", |serving| {
        (n_changes(serving) == 1).then_some(())
    });
    let named = "[[notify]]\nto = \"exec:./told\"\non = [\"changed\", \"added\"]\n";
    let file = format!("{}\n{named}", place.read("springtide.toml"));
    std::fs::write(place.path("springtide.toml"), file).unwrap();
    assert_eq!(
        serving.write("POST", "/api/v1/reload", &json!({})).status,
        200
    );
    // Only what was found once the receiver is there counts.
    std::thread::sleep(Duration::from_secs(2));
    origin.site().change(1);
    let second = origin.url(&origin.site().path(1));
    serving.until("the second change is told", |_| {
        let heard = std::fs::read_to_string(place.path("heard")).unwrap_or_default();
        heard.contains(&second).then_some(())
    });
    let heard = place.read("heard");
    let first = origin.url(&origin.site().path(0));
    assert!(!heard.contains(&first), "{heard}");
    assert!(!heard.contains("\"on\":\"added\""), "{heard}");
}

#[test]
fn a_target_is_told_when_it_is_missed_and_when_it_is_met_again() {
    let origin = origin(3);
    let notify = "[[notify]]\nto = \"exec:./told\"\n\
                  on = [\"target-missed\", \"target-met\"]\n\
                  [target]\nfreshness = \"100%\"\n";
    let place = project(&origin, notify);
    let file = place.read("springtide.toml");
    let file = file.replace("# much", "# much\naudit = \"50%\"");
    let place = with_program(place.and("springtide.toml", &file));
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(3));
    let told = || {
        let heard = std::fs::read_to_string(place.path("heard")).unwrap_or_default();
        let bodies = heard.lines().filter(|line| !line.is_empty());
        let events = bodies.flat_map(|line| {
            let body: Value = serde_json::from_str(line).unwrap();
            body["events"].as_array().unwrap().clone()
        });
        events.collect::<Vec<Value>>()
    };
    let n_told = |on: &str| told().iter().filter(|event| event["on"] == on).count();
    // Until an audit finds a copy that is stale.
    serving.until("that it is missed is told", |_| {
        origin.site().change(0);
        (n_told("target-missed") == 1).then_some(())
    });
    assert_eq!(n_told("target-met"), 0);
    let why = told()[0]["misses"].clone();
    assert!(why[0].as_str().unwrap().contains("not 100.0%"), "{why}");
    let want = |share: &str| {
        let body = json!({ "target": { "freshness": share } });
        assert_eq!(
            serving.write("PATCH", "/api/v1/settings", &body).status,
            200
        );
    };
    want("1%");
    serving.until("that it is met is told", |_| {
        (n_told("target-met") == 1).then_some(())
    });
    want("100%");
    serving.until("and that it is missed again", |_| {
        (n_told("target-missed") == 2).then_some(())
    });
    assert_eq!(n_told("target-met"), 1);
    assert_eq!(serving.stop(), Some(0));
}
