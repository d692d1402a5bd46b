//! The search server itself: what tests of search sources rely on.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use springtide_engine::clock::Clock;
use springtide_engine::fetch::{Answer, Client, HttpRequest};
use springtide_engine::origin::search::{
    Catalogue, Limit, Rates, Row, SearchServer, SearchSettings, Totals, Trouble,
};
use springtide_policy::Rate;
use springtide_store::Moment;
use url::Url;

use super::http::settings;
use crate::world::World;

/// Longer than any answer that is whole.
const MAX_BODY: u64 = 10_000_000;

fn still() -> SearchSettings {
    SearchSettings {
        rates: Rates::Same(Rate::ZERO),
        ..SearchSettings::default()
    }
}

fn start(settings: SearchSettings) -> SearchServer {
    SearchServer::start(settings).unwrap()
}

/// A shop of thirty kettles, three pages of which are shown.
fn kettles() -> SearchServer {
    let names: Vec<String> = (100..130).map(|n| format!("k{n}")).collect();
    start(SearchSettings {
        rows: names
            .iter()
            .map(|id| Row::new(id, "Orvela", "Copper kettle", &["new", "free delivery"]))
            .collect(),
        n_rows: 0,
        ..still()
    })
}

async fn fetch(url: &str) -> Answer {
    let url = Url::parse(url).unwrap();
    let client = Client::new(&settings()).unwrap();
    client.hop(&HttpRequest::new(&url, MAX_BODY)).await.unwrap()
}

fn search_url(server: &SearchServer, query: &str, page: usize) -> String {
    let page = page.to_string();
    let parameters = [("q", query), ("page", page.as_str())];
    Url::parse_with_params(&server.url("/search"), parameters)
        .unwrap()
        .into()
}

async fn search(server: &SearchServer, query: &str, page: usize) -> Value {
    let answer = fetch(&search_url(server, query, page)).await;
    assert_eq!(answer.status, 200, "{query}");
    serde_json::from_slice(&answer.body).unwrap()
}

async fn item(server: &SearchServer, id: &str) -> Value {
    let answer = fetch(&server.url(&format!("/item/{id}"))).await;
    assert_eq!(answer.status, 200, "{id}");
    serde_json::from_slice(&answer.body).unwrap()
}

/// The ids on a page.
fn ids(page: &Value) -> Vec<String> {
    let results = page["results"].as_array().unwrap().iter();
    results
        .map(|row| row["key"]["id"].as_str().unwrap().to_owned())
        .collect()
}

/// The ids of rows.
fn ids_of(catalogue: &Catalogue, rows: &[usize]) -> Vec<String> {
    rows.iter()
        .map(|&row| catalogue.id(row).to_owned())
        .collect()
}

/// Whether a row has a phrase, by looking: its words, blanks between and around them,
/// occur in one of the texts written in the same way.
fn has_phrase(row: &Row, phrase: &str) -> bool {
    let spaced = |text: &str| {
        let marks = |c: char| if c.is_alphanumeric() { c } else { ' ' };
        let text: String = text
            .to_uppercase()
            .to_lowercase()
            .chars()
            .map(marks)
            .collect();
        let words: Vec<&str> = text.split_whitespace().collect();
        format!(" {} ", words.join(" "))
    };
    let phrase = spaced(phrase);
    let mut texts = row.tags.iter().chain([&row.brand, &row.title]);
    texts.any(|text| spaced(text).contains(&phrase))
}

#[test]
fn the_index_finds_what_looking_at_every_row_finds() {
    let catalogue = Catalogue::new(
        &SearchSettings {
            n_rows: 2000,
            ..still()
        },
        Clock::starting_at(Moment(0)),
    );
    let rows: Vec<Row> = (0..catalogue.n_rows())
        .map(|row| catalogue.row_at(row, catalogue.started_at()))
        .collect();
    let mut random = Pcg64Mcg::seed_from_u64(11);
    let (mut n_found, mut n_empty) = (0, 0);
    for _ in 0..200 {
        let phrases: Vec<String> = (0..random.random_range(1..=3))
            .map(|_| {
                let row = &rows[random.random_range(0..rows.len())];
                let words: Vec<&str> = row.title.split(' ').collect();
                let first = random.random_range(0..words.len());
                match random.random_range(0..5) {
                    0 => row.brand.clone(),
                    1 => row.tags.first().unwrap_or(&row.brand).clone(),
                    2 => words[first..words.len().min(first + 2)].join(" "),
                    _ => words[first].to_uppercase(),
                }
            })
            .collect();
        let quoted: Vec<String> = phrases
            .iter()
            .map(|phrase| format!("\"{phrase}\""))
            .collect();
        let query = quoted.join(" ");
        let mut found = catalogue.find(&query);
        found.sort_unstable();
        let expected: Vec<usize> = (0..rows.len())
            .filter(|&row| phrases.iter().all(|phrase| has_phrase(&rows[row], phrase)))
            .collect();
        assert_eq!(found, expected, "{query}");
        n_found += usize::from(found.len() > 1);
        n_empty += usize::from(found.is_empty());
    }
    assert!(n_found > 40 && n_empty > 20, "{n_found} and {n_empty}");
}

#[tokio::test]
async fn pages_share_out_the_best_results() {
    for first_page in [0, 1] {
        let server = start(SearchSettings {
            page_size: 7,
            top: 45,
            first_page,
            ..still()
        });
        let all = server.catalogue().find("kettle");
        assert!(all.len() > 50, "{}", all.len());
        assert!(!all.is_sorted());
        let mut shown = Vec::new();
        for page in first_page..first_page + 7 {
            let answer = search(&server, "kettle", page).await;
            assert_eq!(answer["total"], all.len());
            assert_eq!(answer["page"], page);
            shown.extend(ids(&answer));
        }
        assert_eq!(shown, ids_of(server.catalogue(), &all[..45]));
        let beyond = search(&server, "kettle", first_page + 7).await;
        assert_eq!(beyond["results"], json!([]));
        assert_eq!(beyond["total"], all.len());
    }
}

#[test]
fn ranks_differ_between_queries_and_not_between_times() {
    let catalogue = Catalogue::new(&still(), Clock::starting_at(Moment(0)));
    let again = Catalogue::new(&still(), Clock::system());
    assert_eq!(catalogue.find("kettle"), again.find("KETTLE "));
    let set = |rows: &[usize]| rows.iter().copied().collect::<HashSet<usize>>();
    let (one, two) = (catalogue.find("kettle lamp"), catalogue.find("lamp kettle"));
    assert_eq!(set(&one), set(&two));
    assert_ne!(one, two);
}

#[tokio::test]
async fn totals_are_as_they_were_set() {
    let settings = SearchSettings {
        n_rows: 2000,
        ..still()
    };
    let exact = Catalogue::new(&settings, Clock::starting_at(Moment(0)))
        .find("kettle")
        .len();
    assert!(
        (101..1000).contains(&exact) && !exact.is_multiple_of(10),
        "{exact}"
    );
    for (totals, expected) in [
        (Totals::Exact, json!(exact)),
        (Totals::Rounded, json!((exact + 5) / 10 * 10)),
        (Totals::Capped, json!(100)),
        (Totals::Absent, Value::Null),
    ] {
        let server = start(SearchSettings {
            totals,
            ..settings.clone()
        });
        let page = search(&server, "kettle", 1).await;
        assert_eq!(page["total"], expected, "{totals:?}");
        assert_eq!(ids(&page).len(), 10);
    }
}

#[tokio::test]
async fn a_row_is_served_as_it_was_when_it_was_asked_for() {
    // A change every 20 milliseconds or so.
    let server = start(SearchSettings {
        rows: vec![Row::new(
            "one",
            "Orvela",
            "Sundial",
            &["new", "free delivery"],
        )],
        n_rows: 20,
        rates: Rates::Same(Rate::per_day(50.0).unwrap()),
        time_scale: 86_400.0,
        ..SearchSettings::default()
    });
    let mut versions = HashSet::new();
    while versions.len() < 5 {
        let page = search(&server, "sundial", 1).await;
        let item = item(&server, "one").await;
        let requests = server.requests();
        let [asked_for_page, asked_for_item] = &requests[requests.len() - 2..] else {
            unreachable!("two were just made");
        };
        for (served, request) in [
            (&page["results"][0], asked_for_page),
            (&item["item"], asked_for_item),
        ] {
            let row = server.catalogue().row_at(0, request.received_at);
            let expected = json!({
                "key": {"id": "one"},
                "stats": {"price": row.price, "stock": row.stock},
                "brand": "Orvela",
                "title": "Sundial",
                "tags": "new;free delivery",
            });
            assert_eq!(*served, expected);
            versions.insert(row.version);
        }
    }
}

#[tokio::test]
async fn a_change_can_be_made() {
    let server = kettles();
    let before = item(&server, "k107").await;
    server.catalogue().change(7);
    let after = item(&server, "k107").await;
    assert_ne!(
        before["item"]["stats"]["price"],
        after["item"]["stats"]["price"]
    );
    assert_eq!(before["item"]["title"], after["item"]["title"]);
    let now = SystemTime::now();
    assert_eq!(server.catalogue().changes(7, now).len(), 1);
    assert_eq!(server.catalogue().changes(8, now).len(), 0);
}

#[tokio::test]
async fn a_search_may_be_posted() {
    let server = kettles();
    let client = Client::new(&settings()).unwrap();
    let url = Url::parse(&server.url("/search")).unwrap();
    for (body, expected) in [
        (r#"{"q": "\"copper kettle\"", "page": 2}"#, 200),
        (r#"{"q": "copper"}"#, 200),
        (r#"{"q": "copper", "page": 0}"#, 400),
        (r#"{"q": "copper", "page": "2"}"#, 400),
        (r#"{"query": "copper"}"#, 400),
        ("copper", 400),
    ] {
        let ask = HttpRequest {
            body: Some(body.as_bytes()),
            ..HttpRequest::new(&url, MAX_BODY)
        };
        let answer = client.hop(&ask).await.unwrap();
        assert_eq!(answer.status, expected, "{body}");
        if expected == 200 {
            let page: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(page["total"], 30, "{body}");
        }
    }
    let posted = server.requests();
    assert_eq!(posted[0].method, "POST");
    assert!(posted[0].body.starts_with(b"{\"q\""));
    assert_eq!(
        fetch(&server.url("/search?q=copper&page=x")).await.status,
        400
    );
    assert_eq!(fetch(&server.url("/search")).await.status, 400);
}

#[tokio::test]
async fn only_searches_and_items_are_counted() {
    let server = kettles();
    for (path, status) in [
        ("/robots.txt", 404),
        ("/", 404),
        ("/search?q=copper", 200),
        ("/item/k100", 200),
        ("/item/k%31%300", 200),
        ("/item/k999", 404),
        ("/sitemap.xml", 404),
    ] {
        assert_eq!(fetch(&server.url(path)).await.status, status, "{path}");
    }
    assert_eq!(server.n_requests(), 4);
    assert_eq!(server.requests().len(), 4);
    assert_eq!(server.most_in_span(Duration::from_secs(3600)), 4);
    assert_eq!(server.most_in_span(Duration::from_nanos(1)), 1);
    assert_eq!(server.origin().n_requests(), 7);
}

#[tokio::test]
async fn without_the_key_nothing_is_said() {
    let server = start(SearchSettings {
        api_key: Some("secret".to_owned()),
        ..still()
    });
    let client = Client::new(&settings()).unwrap();
    for path in ["/search?q=kettle", "/item/r000003"] {
        let url = Url::parse(&server.url(path)).unwrap();
        for (key, expected) in [(None, 401), (Some("guess"), 401), (Some("secret"), 200)] {
            let headers: Vec<(String, String)> = key
                .iter()
                .map(|&key| ("X-Api-Key".to_owned(), key.to_owned()))
                .collect();
            let ask = HttpRequest {
                headers: &headers,
                ..HttpRequest::new(&url, MAX_BODY)
            };
            assert_eq!(client.hop(&ask).await.unwrap().status, expected);
        }
    }
    assert_eq!(fetch(&server.url("/robots.txt")).await.status, 404);
}

#[tokio::test]
async fn what_is_beyond_the_limit_is_refused() {
    let server = start(SearchSettings {
        limit: Some(Limit {
            n: 3,
            span: Duration::from_secs(3600),
        }),
        ..still()
    });
    for n in 0..6 {
        let answer = fetch(&search_url(&server, "kettle", 1)).await;
        assert_eq!(answer.status, if n < 3 { 200 } else { 429 });
        assert_eq!(fetch(&server.url("/robots.txt")).await.status, 404);
    }
    let refused = server.requests().iter().filter(|r| r.status == 429).count();
    assert_eq!(refused, 3);
    assert_eq!(server.most_in_span(Duration::from_secs(3600)), 6);
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_is_let_in_when_the_span_is_over() {
    let world = World::new();
    let limit = Limit {
        n: 2,
        span: Duration::from_secs(4),
    };
    let server = world.shop(
        "shop.example",
        SearchSettings {
            limit: Some(limit),
            ..still()
        },
    );
    let client = world.client(&settings());
    let url = Url::parse(&search_url(&server, "kettle", 1)).unwrap();
    let mut statuses = Vec::new();
    for _ in 0..10 {
        let answer = client.hop(&HttpRequest::new(&url, MAX_BODY)).await.unwrap();
        statuses.push(answer.status);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let expected = [200, 200, 429, 429, 200, 200, 429, 429, 200, 200];
    assert_eq!(statuses, expected);
}

#[tokio::test]
async fn a_refusal_says_how_long_or_does_not() {
    let server = kettles();
    for (status, retry_after) in [
        (429, None),
        (429, Some("120")),
        (503, None),
        (503, Some("7")),
    ] {
        let retry_after = retry_after.map(str::to_owned);
        let trouble = Trouble::Refused {
            status,
            retry_after: retry_after.clone(),
        };
        server.misbehave_next(trouble, 2);
        for url in [search_url(&server, "copper", 1), server.url("/item/k100")] {
            let answer = fetch(&url).await;
            assert_eq!(answer.status, status);
            assert_eq!(
                answer.retry_after.map(|wait| wait.as_secs().to_string()),
                retry_after
            );
        }
        assert_eq!(fetch(&server.url("/item/k100")).await.status, 200);
    }
}

#[tokio::test]
async fn trouble_is_for_the_requests_that_it_was_meant_for() {
    let server = kettles();
    server.misbehave(Trouble::Empty, 2..4);
    server.misbehave(Trouble::Short, 3..);
    let mut n_results = Vec::new();
    for _ in 0..6 {
        n_results.push(ids(&search(&server, "copper", 1).await).len());
    }
    assert_eq!(n_results, [10, 10, 0, 5, 5, 5]);
    server.misbehave_next(Trouble::Repeated, 1);
    assert_eq!(ids(&search(&server, "copper", 1).await).len(), 20);
    assert_eq!(ids(&search(&server, "copper", 1).await).len(), 5);
    server.behave();
    assert_eq!(ids(&search(&server, "copper", 1).await).len(), 10);
}

#[tokio::test]
async fn a_captcha_is_html_that_is_fine() {
    let server = kettles();
    server.misbehave(Trouble::Captcha, ..);
    let answer = fetch(&search_url(&server, "copper", 1)).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.starts_with(b"<!doctype html>"));
    assert!(serde_json::from_slice::<Value>(&answer.body).is_err());
}

#[tokio::test]
async fn shapes_may_be_others() {
    let server = kettles();
    let usual = search(&server, "copper", 1).await;
    let usual_item = item(&server, "k105").await;
    let with = async |trouble: Trouble| {
        server.misbehave_next(trouble, 2);
        let page = search(&server, "copper", 1).await;
        (page, item(&server, "k105").await)
    };

    let (page, item) = with(Trouble::OtherNames).await;
    assert_eq!(page.get("results"), None);
    assert_eq!(page["hits"], usual["results"]);
    assert_eq!(item.get("item"), None);
    assert_eq!(item["product"], usual_item["item"]);

    let (page, item) = with(Trouble::OtherKinds).await;
    assert_eq!(page["results"]["3"], usual["results"][3]);
    assert_eq!(item["item"][0], usual_item["item"]);

    let (page, item) = with(Trouble::NoIds).await;
    assert_eq!(page["results"][0]["key"], json!({}));
    assert_eq!(page["results"][9]["stats"], usual["results"][9]["stats"]);
    assert_eq!(item["item"]["key"], json!({}));

    let (page, item) = with(Trouble::NumberIds).await;
    let id = usual["results"][4]["key"]["id"].as_str().unwrap();
    assert_eq!(page["results"][4]["key"]["id"].to_string(), id[1..]);
    assert_eq!(item["item"]["key"]["id"], 105);

    let (page, item) = with(Trouble::Empty).await;
    assert_eq!(page, json!({"total": 30, "page": 1, "results": []}));
    assert_eq!(item, json!({"item": null}));
}

#[tokio::test]
async fn results_may_be_fewer_more_or_in_another_order() {
    let server = kettles();
    let usual = ids(&search(&server, "copper", 2).await);
    let with = async |trouble: Trouble| {
        server.misbehave_next(trouble, 1);
        let page = search(&server, "copper", 2).await;
        assert_eq!(page["total"], 30);
        ids(&page)
    };
    let every_other: Vec<String> = usual.iter().step_by(2).cloned().collect();
    assert_eq!(with(Trouble::Short).await, every_other);
    let twice: Vec<String> = usual
        .iter()
        .flat_map(|id| [id.clone(), id.clone()])
        .collect();
    assert_eq!(with(Trouble::Repeated).await, twice);
    let backwards: Vec<String> = usual.iter().rev().cloned().collect();
    assert_eq!(with(Trouble::Reversed).await, backwards);
    let (once, again) = (with(Trouble::Restless).await, with(Trouble::Restless).await);
    assert!(once != usual && again != usual && once != again);
    assert_eq!(once.len(), 10);
}

#[tokio::test]
async fn json_may_be_broken_cut_large_or_deep() {
    let server = kettles();
    let url = search_url(&server, "copper", 1);
    let whole = fetch(&url).await.body;

    server.misbehave_next(Trouble::BrokenJson, 1);
    let broken = fetch(&url).await;
    assert_eq!(broken.status, 200);
    assert_eq!(broken.body, whole[..whole.len() / 2]);

    server.misbehave_next(Trouble::CutBody, 1);
    let client = Client::new(&settings()).unwrap();
    let parsed = Url::parse(&url).unwrap();
    assert!(
        client
            .hop(&HttpRequest::new(&parsed, MAX_BODY))
            .await
            .is_err()
    );

    server.misbehave_next(Trouble::Large(3_000_000), 1);
    let large = search(&server, "copper", 1).await;
    assert_eq!(large["padding"].as_str().unwrap().len(), 3_000_000);
    assert_eq!(ids(&large).len(), 10);

    server.misbehave_next(Trouble::Deep(100_000), 1);
    let deep = fetch(&url).await;
    assert_eq!(
        deep.body.len(),
        whole.len() + ",\"nested\":".len() + 200_000
    );
    assert!(serde_json::from_slice::<Value>(&deep.body).is_err());
    server.misbehave_next(Trouble::Deep(3), 1);
    assert_eq!(search(&server, "copper", 1).await["nested"], json!([[[]]]));
}

#[tokio::test(start_paused = true)]
async fn answers_take_as_long_as_they_were_set_to_or_longer() {
    let world = World::new();
    let (latency, wait) = (Duration::from_secs(1), Duration::from_secs(5));
    let server = world.shop("shop.example", SearchSettings { latency, ..still() });
    server.misbehave(Trouble::Late(wait), 1..2);
    let client = world.client(&settings());
    let url = Url::parse(&search_url(&server, "kettle", 1)).unwrap();
    for took in [latency, wait, latency] {
        let answer = client.hop(&HttpRequest::new(&url, MAX_BODY)).await.unwrap();
        assert_eq!(answer.asked_at + took, answer.answered_at);
        let request = server.requests().pop().unwrap();
        assert_eq!(request.received_at, answer.asked_at);
        assert_eq!(request.answered_at, Some(answer.answered_at));
    }
}

#[tokio::test]
async fn rows_go_and_come() {
    let server = kettles();
    let catalogue = server.catalogue();
    catalogue.take_out(7);
    assert!(!catalogue.is_there(7));
    assert_eq!(fetch(&server.url("/item/k107")).await.status, 404);
    let mut shown = Vec::new();
    for page in 1..=3 {
        let page = search(&server, "copper", page).await;
        assert_eq!(page["total"], 29);
        shown.extend(ids(&page));
    }
    assert_eq!(shown.len(), 29);
    assert!(!shown.contains(&"k107".to_owned()));
    catalogue.put_in(7);
    assert_eq!(fetch(&server.url("/item/k107")).await.status, 200);
    assert_eq!(search(&server, "copper", 1).await["total"], 30);
}
