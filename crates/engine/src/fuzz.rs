//! Readers of foreign bytes, each fed with its corpus and with what can be made of it.
//!
//! The corpus of a reader is a folder in `fuzz/`, beside `src/`: small files as they are
//! found in the world, and whatever once broke it. Each is read as it is, and then with
//! parts of it flipped, cut out, repeated, and put into others. `cargo test` does that for
//! a moment, `scripts/fuzz` for as long as it is told to, and says how long the slowest
//! input took.

use std::panic::RefUnwindSafe;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant, UNIX_EPOCH};

use mysql_async::consts::{ColumnFlags, ColumnType};
use mysql_async::{Column, Value as Sql};
use springtide_store::{Bodies, RobotsAnswer};
use url::Url;

use crate::detect::{Lens, diff, size_of_change};
use crate::fetch::{self, Decoder, RobotsRules, robots};
use crate::search::answer;
use crate::settings::AnswerShape;
use crate::source::feed::{ParsedFeed, parse_feed};
use crate::source::links::links;
use crate::source::list::ListReader;
use crate::source::sitemap::{Hosts, ListingLimits, parse_sitemap};
use crate::source::websub;
use crate::table::mysql;
use crate::table::value::Value;

/// The longest input: longer ones find nothing that these do not, and take their time.
const MAX_INPUT: usize = 1 << 16;

/// What is done to an input: what, where, how much, and with what.
type Edit = (u8, u16, u16, u8);

/// Reads the corpus of a reader, and what can be made of it. `words` are those that mean
/// something to it.
fn fuzz(name: &str, words: &[&str], read: impl Fn(&[u8]) + RefUnwindSafe) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz")
        .join(name);
    let files = std::fs::read_dir(&folder).expect("a corpus");
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let corpus: Vec<Vec<u8>> = paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    assert!(!corpus.is_empty(), "{}", folder.display());
    for input in &corpus {
        read(input);
    }
    let slowest = Mutex::new((Duration::ZERO, Vec::new()));
    bolero::check!()
        .with_type::<(u16, Vec<Edit>)>()
        .for_each(|(number, edits)| {
            let input = edited(&corpus, words, *number, edits);
            let begun = Instant::now();
            read(&input);
            let took = begun.elapsed();
            let mut slowest = slowest.lock().unwrap();
            if took > slowest.0 {
                *slowest = (took, input);
            }
        });
    if let Some(folder) = std::env::var_os("SPRINGTIDE_FUZZ_SLOWEST") {
        let (took, input) = slowest.into_inner().unwrap();
        let file = format!("{name}-{}ms", took.as_millis());
        std::fs::write(Path::new(&folder).join(file), input).unwrap();
    }
}

/// An input of the corpus, edited.
fn edited(corpus: &[Vec<u8>], words: &[&str], number: u16, edits: &[Edit]) -> Vec<u8> {
    let of = |number: u16| &corpus[usize::from(number) % corpus.len()];
    let mut input = of(number).clone();
    for &(what, place, length, byte) in edits {
        let at = usize::from(place) % (input.len() + 1);
        let end = (at + usize::from(length) % 64).min(input.len());
        match what % 8 {
            0 if at < input.len() => input[at] ^= byte,
            1 => drop(input.drain(at..end)),
            2 => input.insert(at, byte),
            // Again and again: what nests, nests deep, and what adds up, does.
            3 | 4 => {
                let part = input[at..end].repeat(1 + usize::from(byte) % 64);
                drop(input.splice(at..at, part));
            }
            5 => {
                let other = of(length);
                let from = usize::from(byte) * other.len() / 256;
                drop(input.splice(at..end, other[from..].iter().copied()));
            }
            6 => input.truncate(at),
            _ if !words.is_empty() => {
                let word = words[usize::from(byte) % words.len()];
                drop(input.splice(at..at, word.bytes()));
            }
            _ => {}
        }
        input.truncate(MAX_INPUT);
    }
    input
}

fn base() -> Url {
    Url::parse("https://docs.example.org/a/b.xml").unwrap()
}

#[test]
fn fuzz_sitemap() {
    let words = [
        "<url>",
        "</url>",
        "<loc>",
        "</loc>",
        "<lastmod>",
        "<sitemap>",
        "<!DOCTYPE a [",
        "&amp;",
        "<![CDATA[",
        "]]>",
        "<?xml",
        "https://docs.example.org/",
        "2024-02-30T25:00:00+14:00",
        "&#x10FFFF;",
        "<!--",
        "\u{feff}",
    ];
    fuzz("sitemap", &words, |bytes| {
        let limits = ListingLimits {
            n_entries: 100,
            n_bytes: 100_000,
            hosts: Hosts::Own,
        };
        if let Ok(listing) = parse_sitemap(bytes, &base(), &limits) {
            assert!(listing.pages.len() + listing.sitemaps.len() <= 100);
            for listed in listing.pages.iter().chain(&listing.sitemaps) {
                let url = Url::parse(&listed.url).unwrap();
                let host = url.host_str().map(|host| host.trim_start_matches("www."));
                assert_eq!(host, base().host_str());
            }
        }
    });
}

#[test]
fn fuzz_feed() {
    let words = [
        "<entry>",
        "</entry>",
        "<item>",
        "</item>",
        "<link>",
        "<guid>",
        "<content:encoded>",
        "<![CDATA[",
        "]]>",
        "&lt;",
        "&nbsp;",
        "xml:base=\"/x\"",
        "<ttl>9999999999</ttl>",
        "Mon, 31 Feb 2024 25:61:61 GMT",
        "\"items\": [",
        "\"url\":",
        "<sy:updatePeriod>",
        "<link rel=\"hub\" href=\"&amp;/\"/>",
    ];
    fuzz("feed", &words, |bytes| {
        for content_type in [
            None,
            Some("application/feed+json"),
            Some("text/xml; charset=utf-16"),
        ] {
            if let Ok(feed) = parse_feed(bytes, content_type, &base(), 50) {
                assert!(feed.entries.len() <= 50);
                for entry in &feed.entries {
                    let _ = (entry.changed_at(), entry.to_json());
                }
            }
        }
    });
}

#[test]
fn fuzz_robots() {
    let words = [
        "User-agent: ",
        "springtide",
        "Disallow: ",
        "Allow: ",
        "Crawl-delay: ",
        "Sitemap: ",
        "*",
        "$",
        "\r",
        "\n",
        "#",
        "%2F",
        "%",
        "/",
        "1e9",
        "springtide/0.1",
    ];
    let urls = ["", "a", "a*$b?q=%2f", "%C3%A9/\u{e9}", "robots.txt"]
        .map(|path| Url::parse(&format!("https://docs.example.org/{path}")).unwrap());
    fuzz("robots", &words, move |bytes| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let rules = RobotsRules::new(&RobotsAnswer::Rules(text));
        for url in &urls {
            let _ = rules.is_allowed(url);
        }
        let delay = rules.crawl_delay().unwrap_or_default();
        assert!(delay <= robots::MAX_CRAWL_DELAY);
        let _ = rules.sitemaps();
    });
}

#[test]
fn fuzz_page() {
    let words = [
        "<table>",
        "<tr>",
        "<td>",
        "<svg>",
        "<math>",
        "<template>",
        "<script>",
        "</p>",
        "<base href=",
        "<a href=\"",
        "<!--",
        "-->",
        "&#0;",
        "<meta charset=utf-7>",
        "<frameset>",
        "<b><i></b>",
        "<select>",
        "<form>",
        "\0",
        "<plaintext>",
    ];
    let lens = Lens::new(
        &["main".to_owned(), "/a/*".to_owned()],
        &[
            ".ad".to_owned(),
            "p:nth-child(2)".to_owned(),
            "/a/b".to_owned(),
        ],
    )
    .unwrap();
    fuzz("page", &words, move |bytes| {
        for content_type in [
            None,
            Some("text/html; charset=shift_jis"),
            Some("application/json"),
        ] {
            let plain = Lens::default().extract(bytes, content_type);
            let extract = lens.extract(bytes, content_type);
            assert_eq!(extract, lens.extract(bytes, content_type));
            let _ = diff(&plain.text, &extract.text, 3);
            let size = size_of_change(&plain.sketch, &extract.sketch);
            assert!((0.0..=1.0).contains(&size));
            for link in links(bytes, content_type, &base()) {
                assert!(matches!(link.scheme(), "http" | "https"));
            }
        }
    });
}

#[test]
fn fuzz_answer() {
    let words = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"results\"",
        "\"id\"",
        "\"total\"",
        "\"price\"",
        "1e999",
        "\"\\ud800\"",
        "null",
        "\"$serde_json::private::RawValue\"",
        "-0",
        "0.1e-400",
        "\u{feff}",
    ];
    let shape = AnswerShape {
        results: "/results".to_owned(),
        id: "/key/id".to_owned(),
        total: Some("/total".to_owned()),
        item: Some("/results/0".to_owned()),
        fields: vec![
            ("price".to_owned(), "/price".to_owned()),
            ("all".to_owned(), String::new()),
            ("deep".to_owned(), "/tags/1/~0".to_owned()),
        ],
    };
    fuzz("answer", &words, move |bytes| {
        let mut n_rows = 0;
        let page = answer::page(&shape, bytes, |row| {
            assert!(serde_json::from_slice::<serde_json::Value>(&row.body).is_ok());
            n_rows += 1;
            Ok(())
        });
        if let Ok(page) = page {
            assert_eq!(n_rows + page.n_repeated + page.n_unusable, page.n_results);
        }
        let _ = answer::item(&shape, "1", bytes);
    });
}

#[test]
fn fuzz_headers() {
    let words = [
        "Mon, 01 Jan 2024 00:00:00 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "max-age=",
        "99999999999999999999",
        "-1",
        "1e9",
        ";",
        ",",
        "//",
        "?",
        "#",
        "..",
        "%",
        "[::1]",
        "@",
        ":0",
        "xn--",
        "\u{200b}",
        "<",
        ">; rel=\"hub self\"",
        "rel=",
        "\"",
    ];
    fuzz("headers", &words, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let wait = fetch::retry_after(&text, UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        assert!(wait.is_none_or(|wait| wait <= fetch::MAX_RETRY_AFTER));
        let _ = (fetch::http_date(&text), fetch::max_age(&text));
        let links = [text.clone().into_owned()];
        let offer = websub::offered(&links, &ParsedFeed::default(), &base());
        assert!(offer.is_none_or(|offer| offer.hub.has_host() && offer.topic.has_host()));
        let urls = [fetch::locator(&text), fetch::resolve(&base(), &text)];
        for url in urls.into_iter().flatten() {
            assert!(matches!(url.scheme(), "http" | "https") && url.has_host());
            assert_eq!(fetch::locator(url.as_str()), Ok(url));
        }
    });
}

#[test]
fn fuzz_encoded() {
    fuzz("encoded", &[], |bytes| {
        for encodings in [
            &["gzip"][..],
            &["deflate"],
            &["br"],
            &["zstd"],
            &["gzip, br"],
        ] {
            let Ok(mut decoder) = Decoder::new(encodings.iter().copied(), 10_000) else {
                continue;
            };
            // In pieces, as they come.
            let fed = bytes.chunks(7).try_for_each(|piece| decoder.feed(piece));
            assert!(decoder.n_decoded() <= 10_000);
            if fed.is_ok()
                && let Ok(decoded) = decoder.finish()
            {
                assert!(decoded.len() <= 10_000);
            }
        }
    });
}

#[test]
fn fuzz_list() {
    let words = [
        "url", "weight", ",", "\"", "\n", "\r\n", "http://", "\t", "NaN", "-1", "\u{feff}", "#",
    ];
    fuzz("list", &words, |bytes| {
        if let Ok(list) = ListReader::new(bytes) {
            let _ = list.take(1000).count();
        }
        let _ = crate::search::rows::FileRows::parse(bytes);
    });
}

/// An input is the letter of a column's type, a digit (1 where it is unsigned, 2 where its
/// character set is binary, 3 where both) and what a server sends.
#[test]
fn fuzz_mysql() {
    use ColumnType as Type;
    let kinds = [
        (b'i', Type::MYSQL_TYPE_LONGLONG),
        (b'y', Type::MYSQL_TYPE_YEAR),
        (b'f', Type::MYSQL_TYPE_DOUBLE),
        (b'd', Type::MYSQL_TYPE_DATE),
        (b'm', Type::MYSQL_TYPE_DATETIME),
        (b'z', Type::MYSQL_TYPE_TIMESTAMP),
        (b't', Type::MYSQL_TYPE_TIME),
        (b'n', Type::MYSQL_TYPE_NEWDECIMAL),
        (b'j', Type::MYSQL_TYPE_JSON),
        (b'b', Type::MYSQL_TYPE_BIT),
        (b's', Type::MYSQL_TYPE_VAR_STRING),
        (b'x', Type::MYSQL_TYPE_BLOB),
    ];
    let words = [
        "-",
        "+",
        ".",
        "0",
        "e",
        "E308",
        "NaN",
        "inf",
        ":",
        " ",
        "838:59:59.000000",
        "0000-00-00",
        "18446744073709551615",
        "-9223372036854775808",
        "\0",
        "\"",
        "\\",
        "\u{2028}",
        "\u{fffd}",
    ];
    fuzz("mysql", &words, move |bytes| {
        let [kind, flags, sent @ ..] = bytes else {
            return;
        };
        let named = kinds.iter().find(|(letter, _)| letter == kind);
        let (_, kind) = named.unwrap_or_else(|| &kinds[usize::from(*kind) % kinds.len()]);
        let is_unsigned = flags & 1 == 1;
        let column = Column::new(*kind)
            .with_flags(match is_unsigned {
                true => ColumnFlags::UNSIGNED_FLAG,
                false => ColumnFlags::empty(),
            })
            .with_character_set(if flags & 2 == 2 { 63 } else { 45 });
        let number = |at: usize| {
            let bytes = sent.iter().skip(at).chain(&[0; 8]).take(8);
            bytes.fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let byte = |at: usize| number(at) as u8;
        let is_negative = byte(0) & 1 == 1;
        let (days, micros) = (number(0) as u32, number(5) as u32);
        let said = [
            mysql::of_text(Sql::Bytes(sent.to_vec()), &column),
            mysql::of_sql(Sql::Bytes(sent.to_vec()), &column),
            mysql::of_sql(Sql::Int(number(0).cast_signed()), &column),
            mysql::of_sql(Sql::UInt(number(0)), &column),
            mysql::of_sql(Sql::Float(f32::from_bits(number(0) as u32)), &column),
            mysql::of_sql(Sql::Double(f64::from_bits(number(0))), &column),
            mysql::of_sql(
                Sql::Date(
                    number(0) as u16,
                    byte(2),
                    byte(3),
                    byte(4),
                    byte(5),
                    byte(6),
                    micros,
                ),
                &column,
            ),
            mysql::of_sql(
                Sql::Time(is_negative, days, byte(4), byte(5), byte(6), micros),
                &column,
            ),
        ];
        for value in said.into_iter().flatten() {
            // Whatever was sent is had back from a body as it was read.
            let mut written = Vec::new();
            value.write_json(&mut written);
            assert_eq!(serde_json::to_vec(&value.to_json()).unwrap(), written);
            let raw: &serde_json::value::RawValue = serde_json::from_slice(&written).unwrap();
            assert_eq!(Value::of_raw(raw), Some(value));
        }
    });
}

#[test]
fn a_damaged_body_is_an_error_or_the_body() {
    let folder = tempfile::tempdir().unwrap();
    let bodies = Bodies::open(folder.path()).unwrap();
    let body = b"All work and no play makes a body that is long enough to be packed. ".repeat(30);
    let id = bodies.put(&body).unwrap();
    bodies.flush().unwrap();
    drop(bodies);
    let files = files_in(folder.path());
    let whole: Vec<Vec<u8>> = files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect();
    bolero::check!()
        .with_type::<(u8, Vec<Edit>)>()
        .for_each(|(which, edits)| {
            let which = usize::from(*which) % files.len();
            let damaged = edited(&whole, &[], which as u16, edits);
            std::fs::write(&files[which], damaged).unwrap();
            if let Ok(bodies) = Bodies::open(folder.path()) {
                let is_sound = bodies.is_sound(id);
                if let Ok(found) = bodies.get(id) {
                    assert_eq!(found, body);
                } else {
                    assert!(!is_sound);
                }
            }
            std::fs::write(&files[which], &whole[which]).unwrap();
        });
}

fn files_in(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.retain(|file| std::fs::metadata(file).unwrap().len() > 0);
    files.sort();
    files
}
