//! Hints from outside: a hub of WebSub and the key files of IndexNow, all on loopback.

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use springtide_engine::origin::{Behaviour, Origin};

use crate::live::origin;
use crate::serving::{Answer, Serving, all_polled, project};
use crate::{Place, lines};

/// What a hub was asked for.
type Asked = Arc<Mutex<Vec<HashMap<String, String>>>>;

/// A hub that takes whatever it is asked for; its address.
fn hub() -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hub", listener.local_addr().unwrap());
    let asked = Asked::default();
    let heard = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            if let Ok((_, body)) = crate::received(&stream) {
                let form = url::form_urlencoded::parse(&body).into_owned().collect();
                heard.lock().unwrap().push(form);
            }
            let answer = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, asked)
}

fn escaped(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn verify(serving: &Serving, topic: &str, more: &str) -> Answer {
    let topic = escaped(topic);
    serving.get(&format!(
        "/websub/news?hub.mode=subscribe&hub.topic={topic}&hub.challenge=n0nce{more}"
    ))
}

fn push(serving: &Serving, body: &str, signature: &str) -> u16 {
    let headers = format!("Content-Type: application/atom+xml\r\n{signature}");
    serving.send("POST", "/websub/news", &headers, body).status
}

fn signed(body: &str, secret: &str) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA512, secret.as_bytes());
    let tag = ring::hmac::sign(&key, body.as_bytes());
    let digits: String = tag.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    format!("X-Hub-Signature: sha512={digits}\r\n")
}

/// A feed of the first pages of a site.
fn feed(origin: &Origin, n_pages: usize, links: &str) -> String {
    let entries: String = (0..n_pages)
        .map(|page| {
            let url = origin.url(&origin.site().path(page));
            format!(
                "<entry><id>{url}</id><title>p</title><link href=\"{url}\"/>\
                 <updated>2026-05-01T12:00:00Z</updated></entry>"
            )
        })
        .collect();
    format!(
        "<feed xmlns=\"http://www.w3.org/2005/Atom\"><id>f</id><title>f</title>{links}\
         <updated>2026-05-01T12:00:00Z</updated>{entries}</feed>"
    )
}

fn n_asked(origin: &Origin, path: &str) -> usize {
    let requests = origin.requests();
    requests.iter().filter(|r| r.path == path).count()
}

#[test]
fn a_hub_is_asked_to_tell_and_what_it_tells_is_evidence() {
    let (hub, asked) = hub();
    let origin = origin(101);
    let topic = origin.url("/feed.xml?as=self");
    let link = format!("<{hub}>; rel=\"hub\", <{topic}>; rel=\"self\"");
    let reply = |n: usize| {
        let body = feed(&origin, n, "");
        Behaviour::body("application/atom+xml", body).with("link", &link)
    };
    origin.script("/feed.xml", reply(100));
    let url = origin.url("/feed.xml");
    // So few polls that the feed is not polled by chance while this runs.
    let place = Place::with(
        "springtide.toml",
        format!(
            "[budget]\npolls = \"20000/day\"\n[http]\nallow_private = [\"127.0.0.1\"]\n\
             [[group]]\nmatch = \"127.0.0.1\"\nrate = \"1000/s\"\nconcurrency = 8\n\
             [server]\npublic = \"https://fresh.example.org/\"\n\
             [source.news]\nkind = \"feed\"\nurl = \"{url}\"\n"
        ),
    );
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(100));
    let form = serving.until("the hub is asked", |_| {
        asked.lock().unwrap().first().cloned()
    });
    assert_eq!(form["hub.mode"], "subscribe");
    assert_eq!(form["hub.topic"], topic);
    assert_eq!(
        form["hub.callback"],
        "https://fresh.example.org/websub/news"
    );
    let secret = form["hub.secret"].clone();
    assert_eq!(secret.len(), 64);
    let pushed = feed(&origin, 101, "");

    // Before it is verified, nobody tells us anything; and nobody verifies for another.
    assert_eq!(push(&serving, &pushed, &signed(&pushed, &secret)), 410);
    assert_eq!(verify(&serving, "https://example.org/", "").status, 404);
    let unsubscribe = format!(
        "/websub/news?hub.mode=unsubscribe&hub.topic={}&hub.challenge=x",
        escaped(&topic)
    );
    assert_eq!(serving.get(&unsubscribe).status, 404);
    assert_eq!(serving.get("/websub/other?hub.mode=subscribe").status, 404);
    assert_eq!(serving.get("/websub/news").status, 404);
    let verified = verify(&serving, &topic, "&hub.lease_seconds=4&hub.extra=1");
    assert_eq!((verified.status, &*verified.body), (200, "n0nce"));
    // Once is enough.
    assert_eq!(verify(&serving, &topic, "").status, 404);

    // It asks again before the lease ends, by the same secret, and knows it after a restart.
    let again = serving.until("it is renewed", |_| asked.lock().unwrap().get(1).cloned());
    assert_eq!(again["hub.secret"], secret);
    assert_eq!(serving.stop(), Some(0));
    let serving = Serving::start(&place, "");
    serving.until("it runs", |s| {
        (s.get("/readyz").status == 200).then_some(())
    });
    let verified = verify(&serving, &topic, "&hub.lease_seconds=864000");
    assert_eq!(verified.status, 200, "{verified:?}");

    let page = serving.get("/sources/news").body;
    assert!(page.contains("Subscribed at 127.0.0.1"), "{page}");

    // What is not signed by the hub counts for nothing.
    origin.script("/feed.xml", reply(101));
    let before = n_asked(&origin, "/feed.xml");
    for wrong in [
        String::new(),
        signed(&pushed, "another"),
        signed("other", &secret),
        "X-Hub-Signature: sha256=00\r\n".to_owned(),
    ] {
        assert_eq!(push(&serving, &pushed, &wrong), 403, "{wrong}");
    }
    // Nor does what is no news, or nothing at all.
    let same = feed(&origin, 100, "");
    assert_eq!(push(&serving, &same, &signed(&same, &secret)), 202);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(n_asked(&origin, "/feed.xml"), before);
    assert_eq!(push(&serving, &pushed, &signed(&pushed, &secret)), 202);
    serving.until("the new page is found", |serving| {
        let status = serving.get_json("/api/v1/status");
        (status["n_elements"] == 101).then_some(())
    });
    assert_eq!(n_asked(&origin, "/feed.xml"), before + 1);
    assert_eq!(serving.stop(), Some(0));
    let source = lines(&place.run("ls --json").ok()).remove(0);
    assert_eq!(source["trust"]["push"]["n"], 1, "{source}");
    assert_eq!(source["trust"]["push"]["precision"], 1.0, "{source}");
    assert_eq!(source["trust"]["lastmod"], json!(null), "{source}");
}

#[test]
fn a_hub_that_the_feed_itself_names_is_found_and_a_private_one_needs_leave() {
    let (hub, asked) = hub();
    let origin = origin(1);
    let links = format!("<link rel=\"hub\" href=\"{hub}\"/><link rel=\"self\" href=\"/own\"/>");
    let body = feed(&origin, 1, &links);
    origin.script("/feed.xml", Behaviour::body("application/atom+xml", body));
    let text = |more: &str| {
        format!(
            "[budget]\npolls = \"1000000/day\"\n[[group]]\nmatch = \"*\"\nrate = \"1000/s\"\n\
             [server]\npublic = \"https://fresh.example.org/x\"\n\
             [source.news]\nkind = \"feed\"\nurl = \"{}\"\n{more}",
            origin.url("/feed.xml")
        )
    };
    let place = Place::with("springtide.toml", text("allow_private = [\"127.0.0.1\"]\n"));
    let serving = Serving::start(&place, "");
    let form = serving.until("the hub is asked", |_| {
        asked.lock().unwrap().first().cloned()
    });
    assert_eq!(form["hub.topic"], origin.url("/own"));
    assert_eq!(
        form["hub.callback"],
        "https://fresh.example.org/x/websub/news"
    );
    // A source that is paused is told of nothing.
    let paused = serving.write("PATCH", "/api/v1/sources/news", &json!({ "paused": true }));
    assert_eq!(paused.status, 200, "{paused:?}");
    serving.until("nobody is waited for", |serving| {
        (verify(serving, &origin.url("/own"), "").status == 404).then_some(())
    });
}

#[test]
fn a_hub_that_is_no_longer_wanted_is_asked_to_stop() {
    let ((one, asked_one), (two, asked_two)) = (hub(), hub());
    let origin = origin(1);
    let name_hub = |hub: &str| {
        let link = format!("<{hub}>; rel=\"hub\"");
        let body = feed(&origin, 1, "");
        let reply = Behaviour::body("application/atom+xml", body).with("link", &link);
        origin.script("/feed.xml", reply);
    };
    name_hub(&one);
    let topic = origin.url("/feed.xml");
    let place = Place::with(
        "springtide.toml",
        format!(
            "[budget]\npolls = \"1000000/day\"\n[http]\nallow_private = [\"127.0.0.1\"]\n\
             [[group]]\nmatch = \"*\"\nrate = \"1000/s\"\n\
             [server]\npublic = \"https://fresh.example.org\"\n\
             [source.news]\nkind = \"feed\"\nurl = \"{topic}\"\n"
        ),
    );
    let serving = Serving::start(&place, "");
    let form_of = |asked: &Asked, mode: &str| {
        let asked = asked.lock().unwrap();
        asked.iter().find(|form| form["hub.mode"] == mode).cloned()
    };
    let stop = |serving: &Serving| {
        let topic = escaped(&topic);
        serving.get(&format!(
            "/websub/news?hub.mode=unsubscribe&hub.topic={topic}&hub.challenge=n0nce"
        ))
    };
    serving.until("the first is asked", |_| form_of(&asked_one, "subscribe"));
    assert_eq!(verify(&serving, &topic, "").status, 200);
    assert_eq!(stop(&serving).status, 404);

    name_hub(&two);
    let form = serving.until("the first is asked to stop", |_| {
        form_of(&asked_one, "unsubscribe")
    });
    assert_eq!(form["hub.topic"], topic);
    assert_eq!(
        form["hub.callback"],
        "https://fresh.example.org/websub/news"
    );
    let form = serving.until("the second is asked", |_| form_of(&asked_two, "subscribe"));
    let stopped = stop(&serving);
    assert_eq!((stopped.status, &*stopped.body), (200, "n0nce"));
    // Once is enough, and the second goes on.
    assert_eq!(stop(&serving).status, 404);
    assert_eq!(verify(&serving, &topic, "").status, 200);
    let body = feed(&origin, 1, "");
    let signature = signed(&body, &form["hub.secret"]);
    assert_eq!(push(&serving, &body, &signature), 202);

    // It is written down: whoever is started anew asks it to stop, and knows that it did.
    let removed = serving.send("DELETE", "/api/v1/sources/news", "", "");
    assert!(matches!(removed.status, 200 | 204), "{removed:?}");
    serving.until("the second is asked to stop", |_| {
        form_of(&asked_two, "unsubscribe")
    });
    assert_eq!(push(&serving, &body, &signature), 410);
    assert_eq!(serving.stop(), Some(0));
    let serving = Serving::start(&place, "");
    serving.until("it runs", |s| {
        (s.get("/readyz").status == 200).then_some(())
    });
    assert_eq!(stop(&serving).status, 200);
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn what_the_entries_of_a_feed_have_been_worth_is_told() {
    let origin = origin(3);
    let reply = |updated: &str| {
        let body = feed(&origin, 3, "");
        let newest = body.replacen("2026-05-01T12:00:00Z</updated></entry>", updated, 1);
        Behaviour::body("application/atom+xml", newest)
    };
    origin.script("/feed.xml", reply("2026-05-01T12:00:00Z</updated></entry>"));
    let url = origin.url("/feed.xml");
    let place = Place::with(
        "springtide.toml",
        format!(
            "[budget]\npolls = \"10000000/day\"\n[http]\nallow_private = [\"127.0.0.1\"]\n\
             [[group]]\nmatch = \"127.0.0.1\"\nrate = \"1000/s\"\nconcurrency = 8\n\
             [source.news]\nkind = \"feed\"\nurl = \"{url}\"\n"
        ),
    );
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(3));
    origin.site().change(0);
    origin.script("/feed.xml", reply("2026-05-02T12:00:00Z</updated></entry>"));
    let before = n_asked(&origin, "/feed.xml");
    serving.until("the feed is polled", |_| {
        (n_asked(&origin, "/feed.xml") > before + 1).then_some(())
    });
    let (page, before) = (
        origin.site().path(0),
        n_asked(&origin, &origin.site().path(0)),
    );
    serving.until("the page is polled", |_| {
        (n_asked(&origin, &page) > before + 2).then_some(())
    });
    assert_eq!(serving.stop(), Some(0));
    let source = lines(&place.run("ls --json").ok()).remove(0);
    let trust = &source["trust"]["feed"];
    // Whether the page was polled before the feed told of it is chance.
    assert_eq!(trust["n"], 1, "{source}");
    assert!(trust["precision"].is_number(), "{source}");
    assert_eq!(source["trust"]["push"], json!(null), "{source}");
}

#[test]
fn whoever_has_the_key_file_of_a_site_may_tell_of_its_pages() {
    let origin = origin(3);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(3));
    let page = origin.url(&origin.site().path(1));
    let host = url::Url::parse(&page)
        .unwrap()
        .host_str()
        .unwrap()
        .to_owned();
    let key = "0123456789abcdef";
    let one = |key: &str, more: &str| {
        let page = escaped(&page);
        serving
            .get(&format!("/indexnow?url={page}&key={key}{more}"))
            .status
    };
    assert_eq!(one(key, ""), 403);
    assert_eq!(n_asked(&origin, &format!("/{key}.txt")), 1);
    assert_eq!(one("short", ""), 403);
    assert_eq!(one("with%2Fslash", ""), 403);
    origin.script(
        "/fedcba9876543210.txt",
        Behaviour::body("text/plain", "another"),
    );
    assert_eq!(one("fedcba9876543210", ""), 403);
    let good = "good-key-1";
    origin.script(
        &format!("/{good}.txt"),
        Behaviour::body("text/plain", "good-key-1\n"),
    );
    assert_eq!(one(good, ""), 200);
    // It is remembered.
    assert_eq!(one(good, ""), 200);
    assert_eq!(n_asked(&origin, &format!("/{good}.txt")), 1);
    let many = json!({ "host": host, "key": good, "urlList": [page] });
    assert_eq!(serving.write("POST", "/indexnow", &many).status, 200);
    // A key in a folder speaks for what is in that folder, and for no other site.
    let here = escaped(&origin.url("/elsewhere/key.txt"));
    origin.script(
        "/elsewhere/key.txt",
        Behaviour::body("text/plain", "good-key-2"),
    );
    assert_eq!(one("good-key-2", &format!("&keyLocation={here}")), 422);
    let root = escaped(&origin.url("/root-key.txt"));
    origin.script("/root-key.txt", Behaviour::body("text/plain", "good-key-2"));
    assert_eq!(one("good-key-2", &format!("&keyLocation={root}")), 200);
    let other = escaped("http://127.0.0.2:1/key.txt");
    assert_eq!(one("good-key-2", &format!("&keyLocation={other}")), 422);
    // Of sites that we have nothing of, nobody is asked anything.
    let unknown = serving.get(&format!(
        "/indexnow?url=https%3A%2F%2Fexample.org%2F&key={key}"
    ));
    assert_eq!(unknown.status, 202, "{unknown:?}");
}
