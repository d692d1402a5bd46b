//! The dashboard in a real browser: Debian's Chromium, driven over the WebDriver protocol.
//! Where it is not installed, this is said and left out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use springtide_engine::origin::Behaviour;

use crate::live::origin;
use crate::serving::{Serving, all_polled};
use crate::{Place, say_skipped};

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const CONTROL: &str = "\u{e009}";

/// ChromeDriver, and one browser.
struct Browser {
    driver: Child,
    address: String,
    session: String,
}

impl Browser {
    /// A browser, if there is one here.
    fn start(has_scripts: bool) -> Option<Self> {
        let driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let is_there = Command::new("chromium").arg("--version").output().is_ok();
        let (Ok(mut driver), true) = (driver, is_there) else {
            say_skipped(
                "the dashboard in a browser",
                "chromium and chromium-driver are not installed",
            );
            return None;
        };
        let mut lines = BufReader::new(driver.stdout.take().unwrap());
        let port = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "no port");
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                break port.trim().trim_end_matches('.').to_owned();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let mut browser = Self {
            driver,
            address: format!("127.0.0.1:{port}"),
            session: String::new(),
        };
        let scripts = if has_scripts { 1 } else { 2 };
        let options = json!({
            "binary": "/usr/bin/chromium",
            // There is no user to be kept apart from in a container.
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--no-first-run", "--disable-background-networking", "--window-size=1280,900"],
            "prefs": { "profile.managed_default_content_settings.javascript": scripts },
            "perfLoggingPrefs": { "enableNetwork": true, "enablePage": false }
        });
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" }
        }}});
        let made = browser.call("POST", "/session", &wanted);
        browser.session = made["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    /// Asks the driver.
    #[track_caller]
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let body = match method {
            "POST" => body.to_string(),
            _ => String::new(),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\
             Content-Type: application/json\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        // It does not hang up, though it is asked to.
        let mut reader = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0, "{path}");
            if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = n.trim().parse().unwrap();
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let value = answer["value"].clone();
        assert!(value["error"].is_null(), "{method} {path}: {value}");
        value
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}{path}", self.session), body)
    }

    #[track_caller]
    fn go(&self, serving: &Serving, path: &str) {
        let url = format!("http://{}{path}", serving.address);
        self.post("/url", &json!({ "url": url }));
    }

    fn path(&self) -> String {
        let url = self.call("GET", &format!("/session/{}/url", self.session), &json!({}));
        let url = url::Url::parse(url.as_str().unwrap()).unwrap();
        url.path().to_owned()
    }

    /// Waits until a key that was pressed has led here.
    #[track_caller]
    fn arrives_at(&self, path: &str) {
        let begun = Instant::now();
        while self.path() != path {
            let page = "return document.querySelector('main').innerText;";
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "never at {path}: {} {}",
                self.path(),
                self.run(page)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs a script from outside the page; its policy does not hold for us.
    #[track_caller]
    fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    fn protocol(&self, command: &str, params: &Value) {
        self.post(
            "/goog/cdp/execute",
            &json!({ "cmd": command, "params": params }),
        );
    }

    /// How wide the screen is, and whether its user likes it dark.
    fn dress(&self, width: u32, scheme: &str) {
        self.protocol(
            "Emulation.setDeviceMetricsOverride",
            &json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 }),
        );
        self.protocol(
            "Emulation.setEmulatedMedia",
            &json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
    }

    fn press(&self, keys: &[&str]) {
        let down = keys
            .iter()
            .map(|key| json!({ "type": "keyDown", "value": key }));
        let up = keys
            .iter()
            .rev()
            .map(|key| json!({ "type": "keyUp", "value": key }));
        let actions: Vec<Value> = down.chain(up).collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.post("/actions", &json!({ "actions": [keyboard] }));
    }

    fn type_text(&self, text: &str) {
        let actions: Vec<Value> = text
            .chars()
            .flat_map(|c| {
                let key = c.to_string();
                [
                    json!({ "type": "keyDown", "value": key }),
                    json!({ "type": "keyUp", "value": key }),
                ]
            })
            .collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.post("/actions", &json!({ "actions": [keyboard] }));
    }

    /// Presses Tab until this says that the right one is reached.
    #[track_caller]
    fn tab_to(&self, what: &str, is_it: &str) {
        for _ in 0..60 {
            self.press(&[TAB]);
            let script = format!("const it = document.activeElement; return !!({is_it});");
            if self.run(&script) == json!(true) {
                let seen = "const s = getComputedStyle(document.activeElement); \
                            return s.outlineStyle !== 'none' || s.boxShadow !== 'none';";
                assert_eq!(
                    self.run(seen),
                    json!(true),
                    "{what} is not seen to be reached"
                );
                return;
            }
        }
        panic!("{what} cannot be reached by Tab on {}", self.path());
    }

    /// What went wrong in the page since this was last asked, and what it asked others for.
    fn complaints(&self, serving: &Serving) -> Vec<String> {
        let mut complaints = Vec::new();
        let log = |kind: &str| self.post("/se/log", &json!({ "type": kind }));
        for entry in log("browser").as_array().unwrap() {
            if matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING")) {
                complaints.push(entry["message"].to_string());
            }
        }
        for entry in log("performance").as_array().unwrap() {
            let message: Value =
                serde_json::from_str(entry["message"].as_str().unwrap_or("{}")).unwrap();
            let message = &message["message"];
            if message["method"] != "Network.requestWillBeSent" {
                continue;
            }
            let url = message["params"]["request"]["url"]
                .as_str()
                .unwrap_or_default();
            let ours = format!("http://{}/", serving.address);
            if !url.starts_with(&ours) && !url.starts_with("data:") && !url.starts_with("about:") {
                complaints.push(format!("it asks for {url}"));
            }
        }
        complaints
    }

    #[track_caller]
    fn until(&self, what: &str, script: &str) {
        let begun = Instant::now();
        while self.run(script) != json!(true) {
            assert!(begun.elapsed() < Duration::from_secs(15), "never: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.session.is_empty() {
            self.call("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// What finds out whether everyone can use a page.
fn axe() -> Option<String> {
    let path = match std::env::var_os("AXE_CORE") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../target/axe/node_modules/axe-core/axe.min.js"),
    };
    let text = std::fs::read_to_string(path).ok();
    if text.is_none() {
        say_skipped("the dashboard in a browser", "axe-core is not installed");
    }
    text
}

const HOSTILE: &str = "&lt;/pre&gt;&lt;img src=x onerror=\"window.hacked=1\"&gt;\
                       &lt;script&gt;window.hacked=1&lt;/script&gt;&quot;onmouseover=&quot;hacked()";

/// A site, and a feed that would like to be more than text; few polls, so that numbers
/// stay what they are.
fn hostile_project() -> (springtide_engine::origin::Origin, Place) {
    let origin = origin(6);
    let feed = format!(
        "<feed xmlns=\"http://www.w3.org/2005/Atom\"><id>f</id><title>{HOSTILE}</title>\
         <updated>2026-05-01T12:00:00Z</updated><entry><id>{HOSTILE}</id><title>{HOSTILE}</title>\
         <updated>2026-05-01T12:00:00Z</updated><content type=\"html\">{HOSTILE}</content>\
         </entry></feed>"
    );
    origin.script("/feed.xml", Behaviour::body("application/atom+xml", feed));
    let page = "<html><head><title>fine</title></head><body><p>some text</p>\
                <script>document.title = 'hacked'; window.hacked = 1</script>\
                <img src=x onerror=\"document.title = 'hacked'\"></body></html>";
    let path = origin.site().path(5);
    origin.script(&path, Behaviour::body("text/html", page));
    let (site, feed) = (origin.url("/sitemap.xml"), origin.url("/feed.xml"));
    let place = Place::with(
        "springtide.toml",
        format!(
            "# ours\n[budget]\npolls = \"20/day\" # few\n\
             [http]\nallow_private = [\"127.0.0.1\"]\n[target]\nfreshness = \"90%\"\n\
             [[group]]\nmatch = \"127.0.0.1\"\nrate = \"1000/s\"\nconcurrency = 8\n\
             [source.docs]\nkind = \"sitemap\"\nurl = \"{site}\"\n\
             [source.news]\nkind = \"feed\"\nurl = \"{feed}\"\nentries = \"content\"\n"
        ),
    );
    (origin, place)
}

/// The number of the element that a page of the site is.
fn element_of(serving: &Serving, origin: &springtide_engine::origin::Origin, page: usize) -> u64 {
    let path = origin.site().path(page);
    let found = serving.get_json(&format!("/api/v1/elements?q={path}"));
    found["items"][0]["id"].as_u64().unwrap()
}

fn find_change(serving: &Serving, origin: &springtide_engine::origin::Origin, page: usize) -> u64 {
    let id = element_of(serving, origin, page);
    origin.site().change(page);
    let n = serving.get_json("/api/v1/status")["n_changes"].as_u64();
    let polled = serving.write("POST", &format!("/api/v1/elements/{id}/poll"), &json!({}));
    assert_eq!(polled.status, 202, "{polled:?}");
    serving.until("the change is found", |serving| {
        let status = serving.get_json("/api/v1/status");
        (status["n_changes"].as_u64() > n).then_some(())
    });
    id
}

fn pages(serving: &Serving, id: u64) -> Vec<String> {
    let hostile = serving.get_json("/api/v1/elements?source=news")["items"][0]["id"].clone();
    [
        "/",
        "/sources",
        "/sources/docs",
        "/sources/news",
        "/elements",
        "/changes",
        "/budget",
        "/lab",
        "/system",
        "/nowhere",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([
        format!("/elements/{id}?from=1&to=2&view=side"),
        format!("/elements/{hostile}"),
    ])
    .collect()
}

/// The values that a page shows by the names of the API; of those in a table also what its
/// row is of: where that leads, or the number of the row.
const SHOWN: &str = "return [...document.querySelectorAll('main [data-name][data-value]')]
    .map(it => {
      const row = it.closest('tr');
      const link = row && row.querySelector('a');
      return [it.dataset.name, Number(it.dataset.value),
        link ? link.getAttribute('href') : row ? row.rowIndex : null];
    });";

/// What of the API stands behind a page, or behind a row of it.
fn told_by_the_api(serving: &Serving, path: &str) -> Vec<Value> {
    let path = path.split('?').next().unwrap();
    let status = serving.get_json("/api/v1/status");
    if let Some(name) = path.strip_prefix("/sources/") {
        let mut sources = status["sources"].as_array().unwrap().iter();
        let source = sources
            .find(|source| source["name"] == name)
            .unwrap()
            .clone();
        return vec![source, serving.get_json(&format!("/api/v1/sources/{name}"))];
    }
    if path.starts_with("/elements/") {
        return vec![serving.get_json(&format!("/api/v1{path}"))];
    }
    vec![status]
}

/// What a page shows otherwise than the API, and how many numbers it shows.
fn numbers_that_differ(browser: &Browser, serving: &Serving, path: &str) -> (Vec<String>, usize) {
    browser.go(serving, path);
    let shown = browser.run(SHOWN);
    let shown = shown.as_array().unwrap();
    let whole = told_by_the_api(serving, path);
    let mut wrong = Vec::new();
    for one in shown {
        let (name, shown) = (one[0].as_str().unwrap(), one[1].as_f64().unwrap());
        let told = match &one[2] {
            Value::String(link) if link.starts_with('/') => told_by_the_api(serving, link),
            Value::Number(row) if path == "/budget" => {
                let row = row.as_u64().unwrap() as usize;
                vec![serving.get_json("/api/v1/plan")["curve"][row - 1].clone()]
            }
            _ => whole.clone(),
        };
        let values: Vec<f64> = (told.iter())
            .filter_map(|told| {
                name.split('.')
                    .fold(told, |value, key| &value[key])
                    .as_f64()
            })
            .collect();
        // What is predicted or believed, and how long ago something was, goes on while we look.
        let is_so = |value: &f64| {
            let slack = match name {
                name if name.ends_with("_seconds") => 30.0 + 0.2 * value,
                name if name.contains("predicted") || name == "freshness" => 0.05,
                name if name.contains("_per_day") || name.starts_with("uniform") => 0.05 * value,
                _ => 0.0,
            };
            (value - shown).abs() <= slack
        };
        if !values.iter().any(is_so) {
            wrong.push(format!("{path}: {name}: {shown}, not {values:?}"));
        }
    }
    (wrong, shown.len())
}

/// The changes that the page of changes lists, and those of the API.
fn changes_listed(browser: &Browser, serving: &Serving) -> (Value, Value) {
    browser.go(serving, "/changes");
    let listed = browser.run(
        "return [...document.querySelectorAll('#changes > li')].map(it =>
           ['.kind', '.locator', '.source'].map(part => it.querySelector(part).textContent)
             .concat(it.querySelector('time').dateTime));",
    );
    let told = serving.get_json("/api/v1/changes?limit=40");
    let told = told["items"].as_array().unwrap().iter();
    let told = told.map(|c| json!([c["kind"], c["locator"], c["source"], c["found_at"]]));
    (listed, told.collect())
}

#[test]
fn every_page_is_well_in_a_browser_light_and_dark_wide_and_narrow() {
    let Some(browser) = Browser::start(true) else {
        return;
    };
    let axe = axe();
    let (origin, place) = hostile_project();
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(7));
    let id = find_change(&serving, &origin, 1);
    let pages = pages(&serving, id);
    for (width, scheme) in [
        (1280, "light"),
        (1280, "dark"),
        (390, "light"),
        (390, "dark"),
    ] {
        browser.dress(width, scheme);
        for path in &pages {
            let what = format!("{path}, {scheme}, {width} wide");
            browser.go(&serving, path);
            let mut complaints = browser.complaints(&serving);
            // That there is nothing at an address is an error only to the browser.
            complaints.retain(|complaint| path != "/nowhere" || !complaint.contains("404"));
            assert!(complaints.is_empty(), "{what}: {complaints:?}");
            assert_eq!(browser.run("return window.hacked;"), json!(null), "{what}");
            let fits = "return document.documentElement.scrollWidth <= window.innerWidth;";
            assert_eq!(
                browser.run(fits),
                json!(true),
                "{what}: it is wider than the screen"
            );
            let is_dark = "const c = getComputedStyle(document.documentElement).backgroundColor\
                           .match(/[0-9.]+/g).map(Number); return c[0] + c[1] + c[2] < 384;";
            assert_eq!(browser.run(is_dark), json!(scheme == "dark"), "{what}");
            let is_checked = matches!((width, scheme), (1280, "light") | (390, "dark"));
            if let Some(axe) = axe.as_ref().filter(|_| is_checked) {
                browser.run(axe);
                let found = browser.post(
                    "/execute/async",
                    &json!({ "args": [], "script":
                        "const done = arguments[0];
                         axe.run().then(found => done(found.violations
                           .filter(v => v.impact === 'serious' || v.impact === 'critical')
                           .map(v => v.id + ': ' + v.nodes.map(n => n.html + ' ' +
                             n.failureSummary).join('; '))));" }),
                );
                assert_eq!(found, json!([]), "{what}");
            }
        }
    }

    // Numbers are those of the API; a poll may come in between.
    browser.dress(1280, "light");
    let element = format!("/elements/{id}");
    for (path, least) in [
        ("/", 10),
        ("/sources", 8),
        ("/sources/docs", 6),
        ("/elements", 2),
        (&*element, 2),
        ("/budget", 8),
        ("/system", 1),
    ] {
        let (mut wrong, mut n) = numbers_that_differ(&browser, &serving, path);
        for _ in 0..5 {
            if wrong.is_empty() {
                break;
            }
            (wrong, n) = numbers_that_differ(&browser, &serving, path);
        }
        assert!(wrong.is_empty(), "{wrong:?}");
        assert!(n >= least, "{path}: {n}");
    }
    let (mut listed, mut told) = changes_listed(&browser, &serving);
    for _ in 0..5 {
        if listed == told {
            break;
        }
        (listed, told) = changes_listed(&browser, &serving);
    }
    assert_eq!(listed, told);

    // What is found between the making of a page and its opening is shown.
    let before = serving.get("/changes").body;
    find_change(&serving, &origin, 4);
    browser.go(&serving, "/lab");
    let page = json!(before);
    browser.run(&format!(
        "document.open(); document.write({page}); document.close();"
    ));
    let locator = origin.url(&origin.site().path(4));
    browser.until(
        "the change is shown",
        &format!(
            "const first = document.querySelector('#changes li.new');
             return !!first && first.textContent.includes({locator:?});"
        ),
    );

    // What is found is shown while the page is open.
    for path in ["/", "/changes"] {
        browser.go(&serving, path);
        browser.until(
            "it is live",
            "const live = document.querySelector('.live'); return live && !live.hidden;",
        );
        let page = if path == "/" { 2 } else { 3 };
        find_change(&serving, &origin, page);
        let locator = origin.url(&origin.site().path(page));
        browser.until(
            "the change is shown",
            &format!(
                "const first = document.querySelector('#changes li');
                 return !!first && first.textContent.includes({locator:?})
                   && first.classList.contains('new');"
            ),
        );
        if path == "/" {
            let n = serving.get_json("/api/v1/status")["n_changes"]
                .as_u64()
                .unwrap();
            browser.until(
                "the number is",
                &format!(
                    "return Number(document.querySelector('[data-name=n_changes]')
                       .dataset.value) === {n};"
                ),
            );
            // By the one stream, without asking anew.
            let asked = "return performance.getEntriesByType('resource')
                           .filter(it => it.name.includes('/api/v1/status')).length;";
            assert_eq!(browser.run(asked), json!(0));
        } else {
            // With what changed in place.
            browser.run("document.querySelector('#changes li.new summary').click();");
            browser.until(
                "what changed is shown",
                "const open = document.querySelector('#changes li.new details[open]');
                 return !!open && !!open.querySelector('.diff .add');",
            );
        }
        let complaints = browser.complaints(&serving);
        assert!(complaints.is_empty(), "{complaints:?}");
    }

    // A body of somebody else's is shown and does nothing.
    let hostile = element_of(&serving, &origin, 5);
    browser.go(&serving, &format!("/api/v1/elements/{hostile}/versions/1"));
    assert_ne!(browser.run("return document.title;"), json!("hacked"));
    let text = browser.run("return document.documentElement.textContent;");
    assert!(text.as_str().unwrap().contains("some text"), "{text}");
    drop(browser);
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn all_that_is_done_is_done_by_keyboard_alone_and_without_a_script() {
    let Some(browser) = Browser::start(false) else {
        return;
    };
    let (origin, place) = hostile_project();
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(7));
    browser.go(&serving, "/");
    let is_live = "return document.querySelector('.live').hidden;";
    assert_eq!(browser.run(is_live), json!(true), "no script runs");

    // Adding a source, from the overview on.
    browser.tab_to(
        "the link to the sources",
        "it.getAttribute('href') === '/sources'",
    );
    browser.press(&[ENTER]);
    browser.arrives_at("/sources");
    browser.tab_to("the address", "it.id === 'url'");
    let page = origin.url(&origin.site().path(0));
    browser.type_text(&page);
    browser.tab_to("the kind", "it.id === 'kind'");
    browser.type_text("page");
    browser.tab_to("the name", "it.id === 'name'");
    browser.type_text("one");
    browser.tab_to(
        "the button",
        "it.tagName === 'BUTTON' && it.textContent === 'Add'",
    );
    browser.press(&[ENTER]);
    browser.arrives_at("/sources/one");
    assert_eq!(serving.get_json("/api/v1/sources/one")["kind"], "page");

    // Pausing it, and going on.
    let pause = "it.tagName === 'BUTTON' && it.textContent.startsWith('Pause')";
    browser.tab_to("the button", pause);
    browser.press(&[ENTER]);
    let is_paused =
        |serving: &Serving| serving.get_json("/api/v1/sources/one")["is_paused"] == true;
    serving.until("it is paused", |serving| is_paused(serving).then_some(()));
    assert!(place.read("springtide.toml").contains("paused = true"));
    let resume = "it.tagName === 'BUTTON' && it.textContent.startsWith('Resume')";
    browser.tab_to("the button", resume);
    browser.press(&[ENTER]);
    serving.until("it goes on", |serving| (!is_paused(serving)).then_some(()));

    // Polling now, and reading what changed.
    let id = element_of(&serving, &origin, 1);
    origin.site().change(1);
    browser.go(&serving, &format!("/elements/{id}"));
    let poll = "it.tagName === 'BUTTON' && it.textContent === 'Poll now'";
    browser.tab_to("the button", poll);
    browser.press(&[ENTER]);
    serving.until("it is polled", |serving| {
        let versions = serving.get_json(&format!("/api/v1/elements/{id}"));
        (versions["versions"].as_array().unwrap().len() == 2).then_some(())
    });
    browser.go(&serving, &format!("/elements/{id}"));
    browser.tab_to("the version", "it.id === 'from'");
    browser.type_text("1");
    let compare = "it.tagName === 'BUTTON' && it.textContent === 'Compare'";
    browser.tab_to("the button", compare);
    browser.press(&[ENTER]);
    browser.until(
        "what changed is shown",
        "return document.querySelector('main').textContent.includes('from 1 to 2');",
    );
    let has_lines = "return document.querySelectorAll('.add').length > 0;";
    assert_eq!(browser.run(has_lines), json!(true));
    browser.go(&serving, "/changes");
    browser.tab_to("what changed", "it.tagName === 'SUMMARY'");
    browser.press(&[ENTER]);
    let is_open = "return document.querySelector('details').open;";
    assert_eq!(browser.run(is_open), json!(true));

    // Another budget.
    browser.go(&serving, "/budget");
    browser.tab_to("the budget", "it.id === 'polls'");
    browser.press(&[CONTROL, "a"]);
    browser.type_text("30/day");
    browser.press(&[ENTER]);
    serving.until("it is written", |_| {
        let file = place.read("springtide.toml");
        file.contains("polls = \"30/day\" # few").then_some(())
    });
    browser.arrives_at("/budget");
    let complaints = browser.complaints(&serving);
    assert!(complaints.is_empty(), "{complaints:?}");
    drop(browser);
    assert_eq!(serving.stop(), Some(0));
}
