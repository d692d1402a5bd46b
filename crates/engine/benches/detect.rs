//! What a look at a page costs, in parses of it; and what lines of a list and
//! entries of a sitemap cost.
//!
//! A look is all of it: bytes into characters, the tree, the choice of what
//! matters, its lines, their digest and sketch. The measure beside it is dom_query's
//! parse of the same page, taken in turns with it in the same run.
//!
//! `cargo bench -p springtide-engine --bench detect`; with `--test` it runs once,
//! to see that it works.

#![expect(clippy::print_stdout, reason = "a bench prints its findings")]

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use dom_query::Document;
use springtide_engine::detect::Lens;
use springtide_engine::source::list::ListReader;
use springtide_engine::source::sitemap::{Hosts, ListingLimits, parse_sitemap};
use url::Url;

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let rounds = if is_test { 1 } else { 15 };
    println!("medians of {rounds} rounds");
    println!();
    println!("     page   parse µs   look µs   ratio   keep, drop µs   ratio");
    for n_paragraphs in [3, 35, 400] {
        look_at(n_paragraphs, rounds);
    }
    println!();
    let n = if is_test { 1000 } else { 1_000_000 };
    listings(n, rounds.min(5));
}

fn look_at(n_paragraphs: usize, rounds: usize) {
    let page = page(n_paragraphs);
    let plain = Lens::default();
    let chosen =
        Lens::new(&["main".to_owned()], &[".ad".to_owned(), "time".to_owned()]).unwrap_or_default();
    let n_times = if rounds == 1 {
        1
    } else {
        1 + 2_000_000 / page.len()
    };
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        times[0].push(microseconds(n_times, || {
            black_box(Document::from(black_box(page.as_str())));
        }));
        for (lens, times) in [&plain, &chosen].into_iter().zip(&mut times[1..]) {
            times.push(microseconds(n_times, || {
                black_box(lens.extract(black_box(page.as_bytes()), Some("text/html")));
            }));
        }
    }
    let [parse, look, keep] = times.map(median);
    println!(
        "{:>6.1} kB {parse:>10.1} {look:>9.1} {:>7.2} {keep:>15.1} {:>7.2}",
        page.len() as f64 / 1000.0,
        look / parse,
        keep / parse
    );
}

fn listings(n: usize, rounds: usize) {
    let mut lines = String::new();
    let mut table = String::from("url,weight,group\n");
    let mut sitemap =
        String::from("<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">");
    for at in 0..n {
        let url = format!(
            "https://docs.example.org/guide/section-{}/page-{at}.html",
            at % 97
        );
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{url}");
        let _ = writeln!(table, "{url},{}.5,group {}", at % 7, at % 13);
        let _ = writeln!(
            sitemap,
            "<url><loc>{url}</loc><lastmod>2024-03-{:02}T10:00:00+00:00</lastmod></url>",
            at % 28 + 1
        );
    }
    sitemap.push_str("</urlset>");
    let Ok(base) = Url::parse("https://docs.example.org/sitemap.xml") else {
        return;
    };
    let limits = ListingLimits {
        n_entries: n,
        n_bytes: usize::MAX,
        hosts: Hosts::Own,
    };
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (list, times) in [&lines, &table].into_iter().zip(&mut times) {
            times.push(microseconds(1, || {
                let reader = ListReader::new(list.as_bytes());
                let n_read = reader.map_or(0, |reader| reader.flatten().count());
                assert_eq!(n_read, n);
            }));
        }
        times[2].push(microseconds(1, || {
            let listing = parse_sitemap(sitemap.as_bytes(), &base, &limits);
            assert_eq!(listing.map_or(0, |listing| listing.pages.len()), n);
        }));
    }
    let names = ["lines of a list", "rows of a list", "entries of a sitemap"];
    for (name, times) in names.into_iter().zip(times) {
        println!(
            "{name:>22}: {:.2} million per second",
            n as f64 / median(times)
        );
    }
}

/// The mean time of one run.
fn microseconds(n_times: usize, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..n_times {
        run();
    }
    start.elapsed().as_secs_f64() * 1e6 / n_times as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A page like many: a header, a menu, an article with links and images, a sidebar,
/// a footer.
fn page(n_paragraphs: usize) -> String {
    const WORDS: &[&str] = &[
        "tide", "moon", "water", "harbour", "the", "of", "rises", "twice", "a", "day", "and",
        "boats", "wait", "until", "it", "turns", "again", "slowly",
    ];
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Tides</title>\
         <link rel=\"stylesheet\" href=\"/s.css\"><script>var a = 1 < 2;</script></head>\n\
         <body class=\"page\">\n<header class=\"top\"><a href=\"/\">Home</a></header>\n<nav><ul>",
    );
    for at in 0..8 {
        let _ = writeln!(
            page,
            "<li class=\"item\"><a href=\"/part/{at}\">Part {at}</a></li>"
        );
    }
    page.push_str("</ul></nav>\n<main id=\"content\"><article><h1>Tides</h1>\n");
    let mut state = 1u64;
    for at in 0..n_paragraphs {
        if at % 5 == 0 {
            let _ = writeln!(page, "<h2 id=\"h{at}\">Section {at}</h2>");
        }
        page.push_str("<p class=\"text\">");
        for word in 0..70 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let next = WORDS[(state >> 33) as usize % WORDS.len()];
            match word % 30 {
                11 => {
                    let _ = write!(page, "<a href=\"/words/{next}\">{next}</a> ");
                }
                22 => {
                    let _ = write!(page, "<em>{next}</em>, ");
                }
                _ => {
                    page.push_str(next);
                    page.push(' ');
                }
            }
        }
        page.push_str("</p>\n");
    }
    page.push_str(
        "<img src=\"/i/tide.png\" alt=\"\"></article></main>\n\
         <aside><div class=\"ad\">Buy boats</div></aside>\n\
         <footer><p>Made at <time>10:00</time></p></footer>\n</body></html>\n",
    );
    page
}
