//! What a lens sees, and what it does not.

use std::time::Duration;

use proptest::prelude::*;
use springtide_engine::detect::{Extract, Lens, diff, size_of_change};

use crate::cost::cpu_time;

fn lens(keep: &[&str], drop: &[&str]) -> Lens {
    let owned =
        |texts: &[&str]| -> Vec<String> { texts.iter().map(|&text| text.to_owned()).collect() };
    Lens::new(&owned(keep), &owned(drop)).unwrap()
}

fn see(page: &str) -> Extract {
    Lens::default().extract(page.as_bytes(), Some("text/html; charset=utf-8"))
}

#[track_caller]
fn check(page: &str, expected: &str) {
    assert_eq!(see(page).text, expected);
}

/// A page like many, with the parts that vary.
fn page(nav: &str, ad: &str, article: &str, clock: &str) -> String {
    format!(
        "<!DOCTYPE html><html><head><title>Tides</title><script>var at = '{clock}';</script>\
         <style>.x{{}}</style></head><body><header><a href=/>Home {nav}</a></header>\
         <nav><ul><li><a href='/{nav}'>{nav}</a></li></ul></nav><div class='ad'>{ad}</div>\
         <main><article><h1>Tides</h1>{article}</article></main><aside>{nav}</aside>\
         <footer>Made at {clock}</footer></body></html>"
    )
}

/// The same without marks for its main part.
fn unmarked_page(nav: &str, ad: &str, article: &str, clock: &str) -> String {
    format!(
        "<html><head><title>Tides</title></head><body><div id=nav>{nav}</div>\
         <div class='box top-ad'>{ad}</div><h1>Tides</h1><div>{article}</div>\
         <div class=clock>{clock}</div><div id=footer>{clock} {nav}</div></body></html>"
    )
}

#[test]
fn the_main_text_is_what_matters_and_the_frame_is_not() {
    for make in [page, unmarked_page] {
        let article = "<p>The tide turns.</p><p>Boats wait.</p>";
        let seen = see(&make("News", "Buy boats", article, "10:00:00"));
        assert_eq!(seen.text, "Tides\nTides\nThe tide turns.\nBoats wait.\n");
        let long_ad = "Buy boats, <b>now</b>, cheaper than ever. ".repeat(500);
        for (nav, ad, clock) in [
            ("News", "Buy boats", "10:00:01"),
            ("News, more news", "", "10:00:00"),
            ("", &long_ad, ""),
        ] {
            assert_eq!(see(&make(nav, ad, article, clock)), seen);
        }
        let changed = "<p>The tide turned.</p><p>Boats wait.</p>";
        assert_ne!(
            see(&make("News", "Buy boats", changed, "10:00:00")).digest,
            seen.digest
        );
    }
}

#[test]
fn everything_that_is_not_marked_as_a_frame_is_seen() {
    // What the readability of browsers would let go of: tables of numbers, lists of
    // links, short paragraphs, and what stands beside the longest text.
    let long = "A long paragraph, with commas, of the kind that wins. ".repeat(20);
    let make = |price: &str, link: &str, note: &str| {
        format!(
            "<body><div class=price>{price}</div><div><p>{long}</p><p>{long}</p></div>\
             <table><tr><td>{price}</td></tr></table><ul><li><a href=/x>{link}</a></li></ul>\
             <p>{note}</p></body>"
        )
    };
    let seen = see(&make("12", "one", "sold"));
    for other in [
        make("13", "one", "sold"),
        make("12", "two", "sold"),
        make("12", "one", "left"),
    ] {
        assert_ne!(see(&other).digest, seen.digest);
    }
}

#[test]
fn markup_that_does_not_show_does_not_matter() {
    let one = see("<title> A  page</title><p class=a id=1>One <b>two</b>\n three</p><!-- x -->");
    let other = see(
        "<!DOCTYPE html><html><head><title>A page</title><meta name=x content=y></head><body>\
         <p>\tOne <i>two</i> three </p><script>let x = 'p';</script><div hidden>no</div>\
         <div style='color:red; DISPLAY : none'>no</div><template><p>no</p></template></body>",
    );
    assert_eq!(one, other);
    assert_eq!(one.text, "A page\nOne two three\n");
}

#[test]
fn lines_are_those_that_a_reader_sees() {
    check(
        "<p>a<b>b</b>c<br>d</p><ul><li>e</li><li>f</li></ul><table><tr><td>g</td><td>h</td></tr>\
         <tr><td>i</td></tr></table><pre>j\n  k</pre>l",
        "abc\nd\ne\nf\ng h\ni\nj\nk\nl\n",
    );
}

#[test]
fn where_links_and_images_point_matters_but_for_their_queries() {
    let make = |href: &str, src: &str| {
        format!("<main><p>Get <a href='{href}'>it</a> <img src='{src}'></p></main>")
    };
    let seen = see(&make(
        "/v1.zip?session=1#top",
        "//cdn1.example.org/a.png?x=1",
    ));
    assert_eq!(seen.text, "Get it\n-> /v1.zip\n<- /a.png\n");
    assert_eq!(
        see(&make("/v1.zip?session=2", "//cdn2.example.org/a.png")),
        seen
    );
    assert_ne!(see(&make("/v2.zip", "//cdn1.example.org/a.png")), seen);
    assert_ne!(see(&make("/v1.zip", "//cdn1.example.org/b.png")), seen);
    check(
        "<p><a href='javascript:x()'>x</a><img src='data:image/png;base64,AA'></p>",
        "x\n",
    );
}

#[test]
fn an_empty_main_part_is_not_taken_for_the_page() {
    check(
        "<main></main><p>All of it is here.</p>",
        "All of it is here.\n",
    );
    check("<nav><a>One</a></nav><nav>Two</nav>", "One\nTwo\n");
    let menu = "<li>One of many links</li>".repeat(100);
    let directory = see(&format!("<nav>{menu}</nav><p>© 2024</p>"));
    assert!(directory.text.starts_with("One of many links\n"));
    check(
        "<body class='sidebar'><div class=sidebar><h1>Title</h1><p>Text</p></div>",
        "Title\nText\n",
    );
}

#[test]
fn a_page_without_text_is_compared_by_its_bytes() {
    let app = |version: u32| format!("<div id=app></div><script src=/app.{version}.js></script>");
    assert_ne!(see(&app(1)).digest, see(&app(2)).digest);
}

#[test]
fn kept_parts_are_all_that_is_seen_each_once_in_their_order() {
    let page = "<title>T</title><div id=b>B <span class=x>inner</span></div><p>no</p>\
                <p class=x>last</p><script type=j>1</script>";
    let seen = lens(&[".x", "#b"], &[]).extract(page.as_bytes(), Some("text/html"));
    assert_eq!(seen.text, "B inner\nlast\n");
    let seen = lens(&["title, script[type=j]"], &[]).extract(page.as_bytes(), Some("text/html"));
    assert_eq!(seen.text, "T\n1\n");
    let seen = lens(&[".none"], &[]).extract(page.as_bytes(), Some("text/html"));
    assert_eq!(seen.text, "");
}

#[test]
fn dropped_parts_are_dropped_before_all_else() {
    let lens = lens(&["main"], &["time", ".ad"]);
    let page = |at: &str| {
        format!("<main>Text <time>{at}</time><p class=ad><b>{at}</b></p><p>more</p></main>")
    };
    let one = lens.extract(page("10:00").as_bytes(), Some("text/html"));
    assert_eq!(
        one,
        lens.extract(page("11:00").as_bytes(), Some("text/html"))
    );
    assert_eq!(one.text, "Text\nmore\n");
}

#[test]
fn a_selector_that_is_none_is_named() {
    for bad in ["p >", "", "[", "/a~3", ":nonsense("] {
        let error = Lens::new(&[], &[bad.to_owned()]).unwrap_err();
        assert_eq!(error.selector, bad);
        let error = Lens::new(&["main".to_owned(), bad.to_owned()], &[]).unwrap_err();
        assert_eq!(error.selector, bad);
    }
}

#[test]
fn selectors_of_pages_and_pointers_of_json_do_not_meet() {
    let lens = lens(&["main", "/price"], &[".ad", "/price/currency"]);
    let page = lens.extract(b"<main>a<b class=ad>x</b></main>b", Some("text/html"));
    assert_eq!(page.text, "a\n");
    let json = br#"{"seen": 1, "price": {"currency": "EUR", "amount": 1.50}}"#;
    let json = lens.extract(json, Some("application/vnd.api+json; charset=utf-8"));
    assert_eq!(json.text, "{\n \"price\": {\n  \"amount\": 1.5\n }\n}\n");
}

#[test]
fn the_kind_is_what_is_said_or_what_it_looks_like() {
    let look = |body: &[u8], content_type| Lens::default().extract(body, content_type).text;
    assert_eq!(look(b" <!doctype HTML><p>a", None), "a\n");
    assert_eq!(look(b" {\"a\":1}", None), "{\n \"a\": 1\n}\n");
    assert_eq!(look(b"<p>a", Some("text/plain")), "<p>a");
    assert_eq!(look(b"{broken", Some("application/json")), "{broken");
    assert_eq!(look(b"<p>a", Some("TEXT/HTML")), "a\n");
    assert!(look(b"\x89PNG", Some("image/png")).starts_with("4 bytes, blake3:"));
    assert!(look(b"\x00\x01", None).starts_with("2 bytes, blake3:"));
    assert_eq!(
        look(b"<p>gr\xfcn", Some("text/html; charset=latin1")),
        "grün\n"
    );
}

#[test]
fn json_is_the_same_however_it_is_written() {
    let look = |body: &str| Lens::default().extract(body.as_bytes(), Some("application/json"));
    let one = look(r#"{"a":[1,2.0],"b":"x"}"#);
    assert_eq!(
        one,
        look("\u{feff}{ \"b\": \"\\u0078\",\n \"a\": [1, 2e0] }")
    );
    assert_ne!(one, look(r#"{"a":[2.0,1],"b":"x"}"#));
    assert_ne!(
        look("9007199254740993").digest,
        look("9007199254740992").digest
    );
}

/// Pages that no one writes. Each is looked at with and without selectors.
#[test]
fn hostile_pages_cost_little() {
    let size = 250_000;
    let repeat = |text: &str| text.repeat(size / text.len());
    let numbered = |make: fn(usize) -> String| {
        let mut text = String::new();
        for at in 0.. {
            text += &make(at);
            if text.len() > size {
                break;
            }
        }
        text
    };
    let bold: String = (0..200).map(|at| format!("<b id={at}>")).collect();
    let pages = [
        ("nested", "<div>".repeat(25_000) + "deep"),
        ("less than", repeat("<")),
        ("less than, letter", repeat("<a ")),
        ("open tag", "<div ".to_owned() + &repeat("a=b ")),
        (
            "attributes",
            numbered(|at| format!("<p a{at}=1 b{at} c{at}>")),
        ),
        (
            "one tag",
            "<div ".to_owned() + &numbered(|at| format!("a{at} ")) + ">x",
        ),
        ("bodies", numbered(|at| format!("<body a{at}=1 b{at}=2>"))),
        ("bold", bold + &repeat("<p>x")),
        ("bold in bold", numbered(|at| format!("<b id={at}>x"))),
        ("links", repeat("<a><div>")),
        ("lists", repeat("<dt><li>")),
        ("tables", repeat("<table><tr><td>")),
        ("foster", "<table>".to_owned() + &repeat("<b>x<tr>")),
        ("closed", repeat("</p></br></x>")),
        (
            "drawings",
            "<svg>".to_owned() + &repeat("<style><script><title>"),
        ),
        ("templates", repeat("<template>")),
        ("comments", repeat("<!---->")),
        ("references", repeat("&amp;&#x41;&no;")),
        ("nulls", repeat("\0")),
        ("siblings", repeat("<i></i>")),
        ("frames", repeat("<div class=ad>")),
        ("headings", repeat("<div class=ad><h1>x")),
        ("selects", repeat("<select><option>")),
        ("forms", repeat("<form><p>")),
    ];
    let chosen = lens(&["b", ".x p"], &["i", "div > div .y"]);
    for (name, page) in pages {
        let taken = cpu_time(|| {
            Lens::default().extract(page.as_bytes(), Some("text/html"));
            chosen.extract(page.as_bytes(), Some("text/html"));
        });
        // A hundred times what a page of this size takes here would be a quarter of a
        // minute.
        assert!(taken < Duration::from_secs(5), "{name}: {taken:?}");
    }
}

#[test]
fn selectors_that_look_at_siblings_cost_little() {
    let page = "<i></i>".repeat(50_000);
    let small = "<b>x</b><i>a</i>".to_owned() + &"<i></i>".repeat(5_000);
    for selector in [
        ".x ~ i",
        "i:nth-last-of-type(7n)",
        "i:has(~ .x)",
        ":not(b ~ i)",
    ] {
        let taken = cpu_time(|| {
            lens(&[], &[selector]).extract(page.as_bytes(), Some("text/html"));
            lens(&[], &[selector]).extract(small.as_bytes(), Some("text/html"));
        });
        assert!(taken < Duration::from_secs(5), "{selector}: {taken:?}");
    }
    let seen = lens(&[], &["b ~ i"]).extract(small.as_bytes(), Some("text/html"));
    assert_eq!(seen.text, "x\n");
}

#[test]
fn no_text_is_lost_in_depths() {
    let page = "<div>".repeat(100_000) + "deep" + &"</div>".repeat(100_000) + "<p>end";
    let seen = see(&page);
    assert!(seen.text.starts_with("deep") && seen.text.ends_with("end\n"));
    let page = "<i></i>".repeat(600_000) + "<p>end <b>of</b> it</p><script>no</script>";
    assert_eq!(see(&page).text, "end of it\n");
}

#[test]
fn hostile_json_costs_little() {
    let deep = "[".repeat(1_000_000);
    let shallow = format!("[{}0]", "{\"b\":[],\"a\":1},".repeat(100_000));
    let layers = "{\"b\":1,\"a\":".repeat(120) + &"[".repeat(0) + "1" + &"}".repeat(120);
    for json in [&deep, &shallow, &layers] {
        let taken = cpu_time(|| {
            Lens::default().extract(json.as_bytes(), Some("application/json"));
        });
        assert!(taken < Duration::from_secs(5), "{taken:?}");
    }
}

#[test]
fn a_change_has_a_size_and_a_diff() {
    let page = |price: u32| format!("<h1>Shoes</h1><p>Now {price} €</p><p>Black, of leather</p>");
    let (before, after) = (see(&page(30)), see(&page(29)));
    assert_eq!(
        diff(&before.text, &after.text, 1),
        "@@ -1,3 +1,3 @@\n Shoes\n-Now 30 €\n+Now 29 €\n Black, of leather\n"
    );
    let size = size_of_change(&before.sketch, &after.sketch);
    assert!(size > 0.0 && size < 0.5, "{size}");
}

/// Words of an article, of letters and digits.
fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-zA-Z0-9äöü]{1,8}", 1..60)
}

/// Puts words into markup, one kind after another.
fn article(words: &[String]) -> String {
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        text += &match at % 7 {
            0 => format!("<p>{word} "),
            1 => format!("<a href=/x>{word}</a> "),
            2 => format!("</p><ul><li>{word}</li></ul>"),
            3 => format!("<div class=meta>{word}</div>"),
            4 => format!("<table><tr><td>{word}</td></tr></table>"),
            5 => format!("<section><h2>{word}</h2></section>"),
            _ => format!("<footer>{word}</footer><span>{word}</span> "),
        };
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_bytes_can_be_looked_at(
        body in prop::collection::vec(any::<u8>(), 0..600),
        content_type in prop::sample::select(vec![
            None, Some("text/html"), Some("application/json"), Some("text/plain"),
            Some("text/html; charset=shift_jis"), Some("text/html; charset=utf-16"), Some("x/y"),
        ]),
    ) {
        let lens = lens(&[], &[".a", "/a"]);
        prop_assert_eq!(lens.extract(&body, content_type), lens.extract(&body, content_type));
        lens_with_keep().extract(&body, content_type);
    }

    #[test]
    fn any_tags_can_be_looked_at(
        tags in prop::collection::vec(prop::sample::select(vec![
            "<p>", "</p>", "<b>", "</b>", "<a href=x>", "</a>", "<table>", "<tr>", "<td>", "</table>",
            "<svg>", "<math>", "<mi>", "<title>", "<template>", "</template>", "<select>", "<option>",
            "<script>", "</script>", "<main>", "<nav>", "<form>", "</form>", "<body a=b>", "<html>",
            "<frameset>", "<style>", "<plaintext>", "<textarea>", "x", " ", "<!--", "-->", "&amp", "<",
            "<head>", "</html>", "<li>", "<dd>", "<h1>", "<button>", "<nobr>", "<annotation-xml>",
        ]), 0..80),
    ) {
        let page = tags.concat();
        let seen = see(&page);
        prop_assert_eq!(&seen, &see(&page));
        lens_with_keep().extract(page.as_bytes(), Some("text/html"));
    }

    #[test]
    fn a_change_in_any_word_of_an_article_is_seen(
        words in words(), at in any::<prop::sample::Index>(), other in "[a-zA-Z0-9äöü]{1,8}",
    ) {
        let at = at.index(words.len());
        prop_assume!(words[at] != other);
        let mut changed = words.clone();
        changed[at] = other;
        for make in [page, unmarked_page] {
            let before = see(&make("n", "a", &article(&words), "1"));
            let after = see(&make("n", "a", &article(&changed), "1"));
            prop_assert_ne!(before.digest, after.digest);
            prop_assert_ne!(before.text, after.text);
        }
    }

    #[test]
    fn a_change_in_a_frame_is_not_seen(
        words in words(), one in "[a-z <>/]{0,40}", other in "[a-z]{0,40}",
    ) {
        let one = one.replace(['<', '>', '/'], "");
        for make in [page, unmarked_page] {
            let before = see(&make(&one, &one, &article(&words), &one));
            let after = see(&make(&other, &other, &article(&words), &other));
            prop_assert_eq!(before, after);
        }
    }

    #[test]
    fn a_change_in_a_dropped_part_is_never_seen(
        words in words(), one in ".{0,40}", other in ".{0,40}",
    ) {
        let lens = lens(&[], &[".gone", "time"]);
        let make = |text: &str| {
            let text = text.replace('<', "&lt;").replace('&', "&amp;");
            let article = article(&words);
            format!("<div class='gone x'>{text}</div>{article}<p>a <time>{text}</time> b</p>")
        };
        let before = lens.extract(make(&one).as_bytes(), Some("text/html"));
        let after = lens.extract(make(&other).as_bytes(), Some("text/html"));
        prop_assert_eq!(before, after);
    }

    #[test]
    fn sizes_of_changes_are_shares(one in words(), other in words()) {
        let sketch = |words: &[String]| {
            Lens::default().extract(words.join(" ").as_bytes(), Some("text/plain")).sketch
        };
        let (one, other) = (sketch(&one), sketch(&other));
        let size = size_of_change(&one, &other);
        prop_assert!((0.0..=1.0).contains(&size));
        prop_assert_eq!(size, size_of_change(&other, &one));
        prop_assert_eq!(size == 0.0, one == other);
    }
}

fn lens_with_keep() -> Lens {
    lens(&["p", "main b", "/a/*"], &["i", "/a/0"])
}
