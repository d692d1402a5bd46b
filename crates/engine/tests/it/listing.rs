//! What sources list: sitemaps, links of pages, list files.

use std::io::{self, Read, Write};
use std::time::Duration;

use proptest::prelude::*;
use springtide_engine::source::links::{MAX_LINKS, links};
use springtide_engine::source::list::{ListProblemReason, ListReader, ListedUrl};
use springtide_engine::source::sitemap::{
    Hosts, ListingLimits, ListingProblem, ParsedSitemap, SkippedReason, parse_sitemap,
};
use url::Url;

const LIMITS: ListingLimits = ListingLimits {
    n_entries: 100_000,
    n_bytes: 50_000_000,
    hosts: Hosts::Own,
};

use crate::cost::cpu_time;

fn base() -> Url {
    Url::parse("https://example.org/sitemap.xml").unwrap()
}

fn parse(text: impl AsRef<[u8]>) -> Result<ParsedSitemap, ListingProblem> {
    parse_sitemap(text.as_ref(), &base(), &LIMITS)
}

fn urlset(entries: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">{entries}</urlset>"
    )
}

fn urls(listing: &ParsedSitemap) -> Vec<&str> {
    listing.pages.iter().map(|page| &*page.url).collect()
}

#[track_caller]
fn check(text: impl AsRef<[u8]>, expected: &[&str]) {
    let listing = parse(text).unwrap();
    assert_eq!(urls(&listing), expected);
    assert_eq!((listing.n_skipped, &listing.problem), (0, &None));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_kind_of_sitemap_is_read() {
    check(
        urlset(
            "<url><loc> https://example.org/a?x=1&amp;y=2#top </loc></url>\n\
             <url><loc><![CDATA[https://example.org/b]]></loc><image:image>\
             <image:loc>https://example.org/no.png</image:loc></image:image>\
             <xhtml:link rel='alternate' href='https://example.org/no'/></url>\
             <url><loc>https://example.org/c?a=1&b=&#x31;</loc></url><url><loc>/d</loc></url>",
        ),
        &[
            "https://example.org/a?x=1&y=2",
            "https://example.org/b",
            "https://example.org/c?a=1&b=1",
            "https://example.org/d",
        ],
    );
    check("<urlset/>", &[]);
    check(
        "<s:urlset xmlns:s='x'><s:url><s:loc>https://example.org/a</s:loc></s:url></s:urlset>",
        &["https://example.org/a"],
    );
    check(
        "\u{feff}https://example.org/a\r\n\r\n# more\nhttps://example.org/b",
        &["https://example.org/a", "https://example.org/b"],
    );
    check(
        "<rss><channel><link>https://example.org/</link><item><title>t</title>\
         <link>https://example.org/a</link><pubDate>Mon, 04 Mar 2024 05:06:07 GMT</pubDate></item>\
         </channel></rss>",
        &["https://example.org/a"],
    );
    check(
        "<feed xmlns='http://www.w3.org/2005/Atom'><link href='https://example.org/'/><entry>\
         <link rel='self' href='https://example.org/no'/><link href='/a'/>\
         <updated>2024-03-04T05:06:07Z</updated></entry></feed>",
        &["https://example.org/a"],
    );
    let listing = parse(
        "<sitemapindex><sitemap><loc>https://example.org/1.xml</loc><lastmod>2024</lastmod>\
         </sitemap></sitemapindex>",
    )
    .unwrap();
    assert_eq!(listing.sitemaps[0].url, "https://example.org/1.xml");
    assert!(listing.sitemaps[0].lastmod.is_some() && listing.pages.is_empty());
}

#[test]
fn packed_sitemaps_are_unpacked_up_to_a_limit() {
    let text = urlset("<url><loc>https://example.org/a</loc></url>");
    check(gzip(text.as_bytes()), &["https://example.org/a"]);
    check(
        [gzip(text.as_bytes()), gzip(b"\n")].concat(),
        &["https://example.org/a"],
    );
    let cut = &gzip(text.as_bytes())[..40];
    assert!(parse(cut).is_ok_and(|listing| listing.problem.is_some()) || parse(cut).is_err());
    let bomb = gzip(&vec![b' '; 60_000_000]);
    assert_eq!(parse(&bomb), Err(ListingProblem::TooLong(LIMITS.n_bytes)));
    let bomb = gzip(format!("{text}{}", " ".repeat(60_000_000)).as_bytes());
    let listing = parse(&bomb).unwrap();
    assert_eq!(
        listing.problem,
        Some(ListingProblem::TooLong(LIMITS.n_bytes))
    );
    assert_eq!(urls(&listing), ["https://example.org/a"]);
}

#[test]
fn dates_are_read_in_all_forms_of_the_standard() {
    // Milliseconds by Python's datetime.
    for (text, expected) in [
        ("2024", Some(1704067200000)),
        ("2024-03", Some(1709251200000)),
        ("2024-03-04", Some(1709510400000)),
        ("2024-03-04T05:06Z", Some(1709528760000)),
        ("2024-03-04T05:06+01:00", Some(1709525160000)),
        ("2024-03-04T05:06:07Z", Some(1709528767000)),
        (" 2024-03-04T05:06:07.5-02:00\n", Some(1709535967500)),
        ("2024-03-04T05:06:07", Some(1709528767000)),
        ("2024-03-04 05:06:07", Some(1709528767000)),
        ("2024-03-04T05:06:07+0000", Some(1709528767000)),
        ("Mon, 04 Mar 2024 05:06:07 GMT", Some(1709528767000)),
        ("4 Mar 2024 05:06:07 +0000", Some(1709528767000)),
        ("", None),
        ("yesterday", None),
        ("2024-13", None),
        ("2024-02-30", None),
        ("99999-01-01", None),
        ("20é4", None),
        ("é024-01", None),
    ] {
        let entry = format!("<url><loc>/a</loc><lastmod>{text}</lastmod></url>");
        let listing = parse(urlset(&entry)).unwrap();
        let found = listing.pages[0].lastmod.map(|moment| moment.0);
        assert_eq!(found, expected, "{text:?}");
    }
}

#[test]
fn priorities_are_shares_or_none() {
    for (text, expected) in [
        ("0.8", Some(0.8)),
        (" 1 ", Some(1.0)),
        ("2", None),
        ("NaN", None),
        ("high", None),
    ] {
        let entry = format!("<url><loc>/a</loc><priority>{text}</priority></url>");
        assert_eq!(parse(urlset(&entry)).unwrap().pages[0].priority, expected);
    }
}

#[test]
fn what_is_skipped_is_counted_with_the_first_reason() {
    let long = format!("https://example.org/{}", "x".repeat(64_000));
    for (loc, reason) in [
        ("", SkippedReason::NoAddress),
        ("ftp://example.org/a", SkippedReason::BadAddress),
        ("http://", SkippedReason::BadAddress),
        ("/a&lol9;", SkippedReason::BadAddress),
        (&long, SkippedReason::LongAddress),
        ("https://other.org/", SkippedReason::OtherHost),
        ("https://example.org:8443/", SkippedReason::OtherHost),
        ("https://example.org.evil.net/", SkippedReason::OtherHost),
    ] {
        let entries = format!("<url><loc>{loc}</loc></url><url/><url><loc>/ok</loc></url>");
        let listing = parse(urlset(&entries)).unwrap();
        assert_eq!(urls(&listing), ["https://example.org/ok"]);
        assert_eq!(listing.n_skipped, 2);
        let first = listing.first_skipped.unwrap();
        assert_eq!(first.reason, reason, "{loc:.60}");
        assert!(first.url.len() <= 200);
    }
    let other = urlset("<url><loc>https://other.org/</loc></url>");
    let all = ListingLimits {
        hosts: Hosts::All,
        ..LIMITS
    };
    assert_eq!(
        parse_sitemap(other.as_bytes(), &base(), &all)
            .unwrap()
            .pages
            .len(),
        1
    );
    check(
        urlset("<url><loc>http://www.example.org/a</loc></url>"),
        &["http://www.example.org/a"],
    );
}

#[test]
fn what_came_before_a_break_counts_and_the_break_is_told() {
    let whole = urlset("<url><loc>https://example.org/a</loc></url><url><loc>/b</loc></url>");
    let after_first = whole.find("<url><loc>/b").unwrap();
    for end in after_first..whole.len() {
        let listing = parse(&whole[..end]).unwrap();
        assert!(!listing.pages.is_empty() && listing.pages.len() <= 2);
        assert_eq!(
            listing.problem,
            Some(ListingProblem::CutShort),
            "{}",
            &whole[..end]
        );
    }
    let mixed = urlset("<url><loc>https://example.org/a</loc></url><url><loc>/b</url></loc>");
    let listing = parse(mixed).unwrap();
    assert_eq!(urls(&listing), ["https://example.org/a"]);
    assert!(matches!(
        listing.problem,
        Some(ListingProblem::Broken { .. })
    ));
}

#[test]
fn what_is_no_listing_is_an_error_that_says_what_it_is() {
    for (text, found) in [
        (
            "<!doctype html><html><body>Not found</body></html>",
            "<html>",
        ),
        ("", "text without addresses"),
        ("{\"error\": 1}", "text without addresses"),
        ("<?xml version='1.0'?>", "XML without elements"),
        ("<", "broken XML"),
    ] {
        let found = found.to_owned();
        assert_eq!(
            parse(text),
            Err(ListingProblem::NotAListing { found }),
            "{text}"
        );
    }
}

#[test]
fn a_listing_stops_at_its_limits() {
    let entries = "<url><loc>/a</loc></url>".repeat(1000);
    let limits = ListingLimits {
        n_entries: 10,
        ..LIMITS
    };
    let listing = parse_sitemap(urlset(&entries).as_bytes(), &base(), &limits).unwrap();
    assert_eq!(listing.pages.len(), 10);
    assert_eq!(listing.problem, Some(ListingProblem::TooManyEntries(10)));
    let limits = ListingLimits {
        n_bytes: 500,
        ..LIMITS
    };
    let listing = parse_sitemap(urlset(&entries).as_bytes(), &base(), &limits).unwrap();
    assert_eq!(listing.problem, Some(ListingProblem::TooLong(500)));
    assert!(listing.pages.len() > 5);
}

#[test]
fn what_would_have_to_be_looked_up_is_a_problem() {
    let entries = urlset("<url><loc>https://example.org/a</loc></url>");
    let parse = |document_type: &str| parse(format!("{document_type}{entries}")).unwrap();
    for document_type in ["", "<!DOCTYPE urlset>", "<!DOCTYPE urlset [ ]>"] {
        assert_eq!(parse(document_type).problem, None, "{document_type}");
    }
    for document_type in [
        "<!DOCTYPE urlset [<!ENTITY a 'b'>]>",
        "<!DOCTYPE urlset SYSTEM 'file:///etc/passwd'>",
        "<!DOCTYPE rss PUBLIC '-//x//y' 'http://example.org/x.dtd'>",
        "<!DOCTYPE urlset [<!ENTITY % a SYSTEM 'http://example.org/x'> %a;]>",
    ] {
        let listing = parse(document_type);
        assert_eq!(
            listing.problem,
            Some(ListingProblem::Entities),
            "{document_type}"
        );
        assert_eq!(urls(&listing), ["https://example.org/a"]);
    }
}

#[test]
fn hostile_listings_cost_little() {
    let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;\">\
                <!ENTITY c \"&b;&b;&b;&b;&b;&b;\">]>"
        .to_owned()
        + &urlset("<url><loc>https://example.org/&c;</loc></url><url><loc>/ok</loc></url>");
    let listing = parse(&bomb).unwrap();
    assert_eq!(
        (listing.n_skipped, urls(&listing)),
        (1, vec!["https://example.org/ok"])
    );
    assert_eq!(listing.problem, Some(ListingProblem::Entities));
    let size = 1_000_000;
    let repeat = |text: &str| text.repeat(size / text.len());
    for (name, text) in [
        (
            "many entries",
            urlset(&"<url><loc>/a</loc></url>".repeat(200_000)),
        ),
        ("nested", "<urlset>".to_owned() + &repeat("<url>")),
        (
            "attributes",
            "<feed><entry><link ".to_owned() + &repeat("a='1' ") + "/></entry></feed>",
        ),
        (
            "references",
            "<urlset><url><loc>".to_owned() + &repeat("&amp;"),
        ),
        (
            "unknown references",
            "<urlset><url><loc>".to_owned() + &repeat("&x;"),
        ),
        ("ampersands", "<urlset><url><loc>".to_owned() + &repeat("&")),
        ("less than", repeat("<")),
        ("comments", "<urlset>".to_owned() + &repeat("<!-- -->")),
        ("one line", repeat("x")),
        ("lines", repeat("x\n")),
        ("spaces", "<urlset><url><loc>".to_owned() + &repeat(" ")),
    ] {
        let taken = cpu_time(|| {
            if let Ok(listing) = parse(&text) {
                assert!(listing.pages.len() <= LIMITS.n_entries);
            }
        });
        assert!(taken < Duration::from_secs(4), "{name}: {taken:?}");
    }
}

#[test]
fn links_are_those_within_the_host_each_once() {
    let page = br##"<base href="/dir/"><link rel="Canonical" href="/canonical">
        <a href="a">a</a> <a href="a#part">a</a> <a href=" /b?x=1 ">b</a>
        <a href="https://EXAMPLE.org:443/c">c</a> <map><area href="d"></map>
        <a href="https://other.org/">no</a> <a href="http://example.org/">no</a>
        <a href="mailto:x@example.org">no</a> <a href="javascript:x()">no</a>
        <a rel="noopener NoFollow" href="no">no</a> <a href="#top">no</a> <a>no</a>
        <a href="https://example.org/page">itself</a> <!-- <a href="no"> -->
        <script>"<a href='no'>"</script>"##;
    let base = Url::parse("https://example.org/page#x").unwrap();
    let found = links(page, Some("text/html"), &base);
    let found: Vec<&str> = found.iter().map(Url::as_str).collect();
    let expected = ["canonical", "dir/a", "b?x=1", "c", "dir/d"];
    let expected = expected.map(|path| format!("https://example.org/{path}"));
    assert_eq!(found, expected);
    assert!(links(page, Some("text/plain"), &base).is_empty());
    for robots in ["nofollow", "noindex, NOFOLLOW", "none"] {
        let page = format!("<meta name=Robots content='{robots}'><a href=/a>a</a>");
        assert!(links(page.as_bytes(), Some("text/html"), &base).is_empty());
    }
    let page = "<meta name=robots content=noindex><a href=/a>a</a>";
    assert_eq!(links(page.as_bytes(), Some("text/html"), &base).len(), 1);
}

#[test]
fn links_are_bounded() {
    let page: String = (0..30_000).map(|at| format!("<a href=/{at}>")).collect();
    assert_eq!(
        links(page.as_bytes(), Some("text/html"), &base()).len(),
        MAX_LINKS
    );
    let long = format!("<a href='/{}'>", "x".repeat(64_000));
    assert!(links(long.as_bytes(), Some("text/html"), &base()).is_empty());
}

fn read(bytes: &[u8]) -> Vec<Result<ListedUrl, (u64, String)>> {
    let reader = ListReader::new(bytes).unwrap();
    let items =
        reader.map(|item| item.map_err(|problem| (problem.line, problem.reason.to_string())));
    items.collect()
}

fn listed(url: &str) -> ListedUrl {
    ListedUrl {
        url: url.to_owned(),
        weight: None,
        group: None,
    }
}

#[test]
fn a_list_has_an_address_a_line() {
    let bytes =
        b"\xef\xbb\xbf# list\r\n\r\nhttps://example.org/a\r\n  HTTP://Example.org/b#x  \nno\n\
                  ftp://example.org/\n\xff\xfe\nhttps://example.org/c,d";
    let expected = [
        Ok(listed("https://example.org/a")),
        Ok(listed("http://example.org/b")),
        Err((5, "\"no\" is not an http or https address".to_owned())),
        Err((
            6,
            "\"ftp://example.org/\" is not an http or https address".to_owned(),
        )),
        Err((7, "it is not UTF-8".to_owned())),
        Ok(listed("https://example.org/c,d")),
    ];
    assert_eq!(read(bytes), expected);
    assert_eq!(read(b""), []);
    assert_eq!(read(b"\n# nothing\n"), []);
}

#[test]
fn a_table_has_columns_by_name_in_any_order() {
    let bytes = b"# table\nGroup, weight ,URL,other\n\
                  \"a, b\",2.5,\"https://example.org/a?x=\"\"1\"\"\",\n\
                  ,,https://example.org/b\n\
                  g,-1,https://example.org/c\n\
                  g,NaN,https://example.org/c\n\
                  g,1\n\
                  \"g,1,https://example.org/c\n\
                  g,0,https://example.org/d,x,y,z\n";
    let expected = [
        Ok(ListedUrl {
            url: "https://example.org/a?x=%221%22".to_owned(),
            weight: Some(2.5),
            group: Some("a, b".to_owned()),
        }),
        Ok(listed("https://example.org/b")),
        Err((5, "weight is \"-1\"; a weight is zero or more".to_owned())),
        Err((6, "weight is \"NaN\"; a weight is zero or more".to_owned())),
        Err((7, "\"\" is not an http or https address".to_owned())),
        Err((8, "a quote is not closed".to_owned())),
        Ok(ListedUrl {
            url: "https://example.org/d".to_owned(),
            weight: Some(0.0),
            group: Some("g".to_owned()),
        }),
    ];
    assert_eq!(read(bytes), expected);
    for header in ["url", "locator", "loc,weight"] {
        let text = format!("{header}\nhttps://example.org/a\n");
        assert_eq!(read(text.as_bytes()), [Ok(listed("https://example.org/a"))]);
    }
}

#[test]
fn packed_lists_are_unpacked() {
    let text = b"https://example.org/a\nhttps://example.org/b\n";
    let expected = [
        Ok(listed("https://example.org/a")),
        Ok(listed("https://example.org/b")),
    ];
    assert_eq!(read(&gzip(text)), expected);
    assert_eq!(read(&zstd::encode_all(&text[..], 1).unwrap()), expected);
    let mut cut = gzip(&text.repeat(1000));
    cut.truncate(cut.len() - 9);
    let items = read(&cut);
    assert!(items.len() > 1000 && items[items.len() - 1].is_err());
}

#[test]
fn a_line_without_end_is_one_problem_and_takes_no_memory() {
    let endless = io::repeat(b'x').take(200_000_000);
    let lines = b"https://example.org/a\n"
        .chain(endless)
        .chain(&b"\nhttps://example.org/b\n"[..]);
    let items: Vec<_> = ListReader::new(lines).unwrap().collect();
    assert_eq!(items.len(), 3);
    let problem = items[1].as_ref().unwrap_err();
    assert_eq!(problem.line, 2);
    assert!(matches!(problem.reason, ListProblemReason::TooLong));
    assert!(items[2].is_ok());
}

#[test]
fn a_file_that_cannot_be_read_further_ends_the_list() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    let items: Vec<_> = ListReader::new(b"https://example.org/a\nhttps".chain(Broken))
        .unwrap()
        .collect();
    assert_eq!(items.len(), 2);
    let problem = items[1].as_ref().unwrap_err();
    assert!(matches!(problem.reason, ListProblemReason::Read(_)));
}

/// Bytes that look like a listing here and there.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let parts = prop::sample::select(vec![
        &b"<urlset>"[..],
        b"</urlset>",
        b"<url>",
        b"</url>",
        b"<loc>",
        b"</loc>",
        b"https://example.org/",
        b"<lastmod>",
        b"</lastmod>",
        b"2024",
        b"-01",
        b"T10:00",
        b"&amp;",
        b"&",
        b"<![CDATA[",
        b"]]>",
        b"<!--",
        b"-->",
        b"<rss>",
        b"<channel>",
        b"<item>",
        b"<link",
        b" href='",
        b"'",
        b"/>",
        b"\n",
        b",",
        b"\"",
        b"url,weight\n",
        b"#",
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
        b"\xff",
        b"<a href=",
        b"<base href='http://[",
        b"\xef\xbb\xbf",
        b"<feed>",
        b"<entry>",
        b"<?xml encoding='utf-16'?>",
    ]);
    let part = prop_oneof![
        3 => parts.prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_can_be_asked_for_what_they_list(bytes in bytes()) {
        if let Ok(listing) = parse(&bytes) {
            for page in listing.pages.iter().chain(&listing.sitemaps) {
                prop_assert!(page.url.starts_with("http"));
            }
        }
        links(&bytes, None, &base());
        links(&bytes, Some("text/html"), &base());
        if let Ok(reader) = ListReader::new(&bytes[..]) {
            let n_lines = reader.count();
            // Unless it is packed, there is no more than what is there.
            prop_assert!(n_lines <= bytes.len() + 1 || bytes.starts_with(&[0x1f]) || bytes.starts_with(&[0x28]));
        }
    }

    #[test]
    fn what_is_written_is_read(paths in prop::collection::vec("[a-z0-9/?=]{0,20}", 0..50)) {
        let entries: String = paths
            .iter()
            .map(|path| format!("<url><loc>https://example.org/{path}</loc></url>"))
            .collect();
        let expected: Vec<String> = paths
            .iter()
            .map(|path| Url::parse(&format!("https://example.org/{path}")).unwrap().into())
            .collect();
        let listing = parse(urlset(&entries)).unwrap();
        prop_assert_eq!(urls(&listing), expected.iter().map(|url| &**url).collect::<Vec<_>>());
        let lines: String = expected.iter().map(|url| format!("{url}\n")).collect();
        let read: Vec<ListedUrl> = ListReader::new(lines.as_bytes()).unwrap().flatten().collect();
        prop_assert_eq!(read, expected.iter().map(|url| listed(url)).collect::<Vec<_>>());
    }
}
