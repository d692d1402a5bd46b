//! Where the copy of an element goes in an export: as on its host, host by host and folder
//! by folder, so that the export can be browsed; or flat, by number.
//!
//! Addresses are hostile. Whatever they say, a name here is one that any file system
//! takes, lies within the export, and is no other element's, even where capital letters
//! do not count or one address is both a file and a folder.

use std::collections::HashSet;

use springtide_store::{Copy, Kept};
use twox_hash::XxHash3_64;
use url::Url;

use crate::table::is_invisible;

/// The names that are given, one after the other.
pub(super) struct Layout {
    is_flat: bool,
    /// Digests of the names of files and folders so far, in small letters: of ten million
    /// names these take little room, and two that meet by chance cost a longer name.
    files: HashSet<u64>,
    folders: HashSet<u64>,
}

/// A part of a name is no longer, in bytes; file systems take 255.
const LONGEST_PART: usize = 120;
/// A whole name is no longer, in bytes.
const LONGEST_NAME: usize = 700;
/// A name has no more parts.
const DEEPEST: usize = 30;

impl Layout {
    pub(super) fn flat() -> Self {
        Self {
            is_flat: true,
            ..Self::by_host()
        }
    }

    pub(super) fn by_host() -> Self {
        Self {
            is_flat: false,
            files: HashSet::from([digest("manifest.jsonl")]),
            folders: HashSet::new(),
        }
    }

    /// The name of the file for an element, relative to the export, with `/` between its
    /// parts.
    pub(super) fn name(&mut self, kept: &Kept, source: &str, copy: &Copy) -> String {
        let (id, locator) = (kept.element.id.0, &*kept.element.locator);
        let content_type = copy.content_type.as_deref();
        if self.is_flat {
            let ending = flat_ending(content_type, locator);
            return format!("{source}/{:04}/{id}{ending}", id / 1000);
        }
        let (folders, file) = parts(source, locator);
        let file = with_ending(file, content_type);
        self.claim(folders, &file, id)
    }

    /// Takes a name that nobody has: the one that is wanted, or one like it.
    fn claim(&mut self, folders: Vec<String>, file: &str, id: u32) -> String {
        let mut name = String::new();
        for folder in folders {
            let mut path = format!("{name}{folder}");
            // A file has that name.
            while self.files.contains(&digest(&path)) {
                path.push('~');
            }
            self.folders.insert(digest(&path));
            name = path + "/";
        }
        let (stem, ending) = match file.rsplit_once('.') {
            Some((stem, ending)) if !stem.is_empty() => (stem, format!(".{ending}")),
            _ => (file, String::new()),
        };
        let mut path = format!("{name}{file}");
        let mut mark = format!("~{id}");
        while self.files.contains(&digest(&path)) || self.folders.contains(&digest(&path)) {
            path = format!("{name}{stem}{mark}{ending}");
            mark.push('~');
        }
        self.files.insert(digest(&path));
        path
    }
}

/// Names that differ in capital letters alone are one.
fn digest(name: &str) -> u64 {
    XxHash3_64::oneshot(name.to_lowercase().as_bytes())
}

/// The folders of an address, and the file within them.
fn parts(source: &str, locator: &str) -> (Vec<String>, String) {
    let url = Url::parse(locator).ok();
    let host = url.as_ref().and_then(Url::host_str);
    let (Some(url), Some(host)) = (&url, host) else {
        // The id of a row, or of an entry.
        return (vec![part(source, source)], part(locator, locator));
    };
    let port = url.port().map(|port| format!("_{port}"));
    let host = format!("{host}{}", port.unwrap_or_default());
    let mut folders = vec![part(&host, locator)];
    let segments = url.path_segments().into_iter().flatten();
    let mut segments: Vec<String> = segments.map(decoded).collect();
    let mut file = match segments.pop() {
        Some(last) if !last.is_empty() => last,
        _ => "index".to_owned(),
    };
    if let Some(query) = url.query().filter(|query| !query.is_empty()) {
        file = format!("{file}@{}", decoded(query));
    }
    folders.extend(segments.iter().map(|segment| part(segment, locator)));
    let file = part(&file, locator);
    let n_bytes: usize = folders.iter().map(|folder| folder.len() + 1).sum();
    if folders.len() > DEEPEST || n_bytes + file.len() > LONGEST_NAME {
        folders.truncate(1);
        folders.push("~".to_owned());
        return (folders, format!("{:016x}", digest(locator)));
    }
    (folders, file)
}

/// A part of an address as a browser looks for it in a folder: decoded, unless that is no
/// text.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = |at: usize| char::from(*tail.get(at)?).to_digit(16);
        match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// A part that any file system takes. Of one that is too long as much as fits, and a
/// digest of the whole address.
fn part(text: &str, locator: &str) -> String {
    // Invisible ones too: whoever looks into the folder would take the name for another.
    let is_bad = |c: char| {
        c.is_control()
            || is_invisible(c)
            || matches!(c, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|')
    };
    let mut name: String = text
        .chars()
        .map(|c| if is_bad(c) { '_' } else { c })
        .collect();
    if name.len() > LONGEST_PART {
        // What it ends in tells what it is.
        let ending = plain_ending(&name).map(|ending| format!(".{ending}"));
        let fits = (0..=LONGEST_PART - 40).rev();
        let end = fits.into_iter().find(|end| name.is_char_boundary(*end));
        name.truncate(end.unwrap_or(0));
        name = format!(
            "{name}~{:016x}{}",
            digest(locator),
            ending.unwrap_or_default()
        );
    }
    // Nothing, this folder and the one above; and what Windows would cut off.
    if name.is_empty() || name.ends_with(['.', ' ']) {
        name.push('_');
    }
    // Devices, on Windows, whatever follows the first point.
    let device = name
        .split('.')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let is_numbered = |name: &str| {
        let number = device.strip_prefix(name);
        number.is_some_and(|number| number.len() == 1 && number != "0")
    };
    let is_device = matches!(&*device, "con" | "prn" | "aux" | "nul");
    if is_device || is_numbered("com") || is_numbered("lpt") {
        name.insert(0, '_');
    }
    name
}

/// The ending of a name, if it is short and plain.
fn plain_ending(name: &str) -> Option<&str> {
    let (stem, ending) = name.rsplit_once('.')?;
    let is_plain = ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (!stem.is_empty() && (1..=8).contains(&ending.len()) && is_plain).then_some(ending)
}

/// The name of a file with an ending that tells a browser what is in it.
fn with_ending(file: String, content_type: Option<&str>) -> String {
    let endings = endings(content_type);
    let has = plain_ending(&file).map(str::to_ascii_lowercase);
    let is_told = match (&has, endings.first()) {
        (_, None) => true,
        (Some(has), _) if endings.contains(&has.as_str()) => true,
        // Programs and the like: a browser shows them, unless they say that they are
        // something else.
        (Some(has), Some(&"txt")) => {
            !matches!(has.as_str(), "html" | "htm" | "xhtml" | "svg" | "xml")
        }
        _ => false,
    };
    match endings.first() {
        Some(ending) if !is_told => format!("{file}.{ending}"),
        _ => file,
    }
}

/// What files of a type end in, the usual ending first.
fn endings(content_type: Option<&str>) -> &'static [&'static str] {
    let essence = content_type.and_then(|kind| kind.split(';').next());
    match &*essence.unwrap_or_default().trim().to_ascii_lowercase() {
        "text/html" => &["html", "htm"],
        "application/xhtml+xml" => &["xhtml", "html", "htm"],
        "text/plain" => &["txt"],
        "text/markdown" => &["md"],
        "application/json" => &["json"],
        "application/ld+json" => &["jsonld", "json"],
        "application/xml" | "text/xml" => &["xml", "rss", "atom", "xsd", "xsl"],
        "application/rss+xml" => &["rss", "xml"],
        "application/atom+xml" => &["atom", "xml"],
        "text/css" => &["css"],
        "text/javascript" | "application/javascript" => &["js", "mjs"],
        "text/csv" => &["csv"],
        "application/pdf" => &["pdf"],
        "application/wasm" => &["wasm"],
        "application/zip" => &["zip"],
        "application/gzip" => &["gz", "tgz"],
        "image/png" => &["png"],
        "image/jpeg" => &["jpg", "jpeg"],
        "image/gif" => &["gif"],
        "image/svg+xml" => &["svg"],
        "image/webp" => &["webp"],
        "image/avif" => &["avif"],
        "image/x-icon" | "image/vnd.microsoft.icon" => &["ico"],
        "font/woff2" => &["woff2"],
        "audio/mpeg" => &["mp3"],
        "video/mp4" => &["mp4"],
        _ => &[],
    }
}

/// The ending of a flat name: by the type, or else as the address has it.
fn flat_ending(content_type: Option<&str>, locator: &str) -> String {
    if let Some(ending) = endings(content_type).first() {
        return format!(".{ending}");
    }
    let path = locator.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    match plain_ending(name).filter(|_| path.matches('/').count() > 2) {
        Some(ending) => format!(".{}", ending.to_ascii_lowercase()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(layout: &mut Layout, locator: &str, content_type: &str, id: u32) -> String {
        let (folders, file) = parts("shop", locator);
        let file = with_ending(file, Some(content_type));
        layout.claim(folders, &file, id)
    }

    #[track_caller]
    fn check(given: &[(&str, &str, &str)]) {
        let mut layout = Layout::by_host();
        for (index, (locator, content_type, wanted)) in given.iter().enumerate() {
            let name = name(&mut layout, locator, content_type, index as u32);
            assert_eq!(&name, wanted, "{locator}");
        }
    }

    #[test]
    fn files_lie_where_their_addresses_say_and_end_as_browsers_need() {
        let html = "text/html; charset=utf-8";
        check(&[
            ("https://a.example/", html, "a.example/index.html"),
            ("https://a.example/docs/", html, "a.example/docs/index.html"),
            ("https://a.example/docs/a.htm", html, "a.example/docs/a.htm"),
            (
                "https://a.example/docs/b.php?x=1&y=/2",
                html,
                "a.example/docs/b.php@x=1&y=_2.html",
            ),
            (
                "https://a.example/read%20me",
                "text/plain",
                "a.example/read me.txt",
            ),
            ("https://a.example/a.py", "text/plain", "a.example/a.py"),
            (
                "http://a.example:8080/logo.PNG",
                "image/png",
                "a.example_8080/logo.PNG",
            ),
            (
                "https://a.example/what",
                "application/x-unknown",
                "a.example/what",
            ),
            ("r0102", "application/json", "shop/r0102.json"),
        ]);
    }

    #[test]
    fn names_look_like_what_they_are() {
        check(&[
            (
                "https://a.example/%E2%80%AEgnp.exe",
                "x/y",
                "a.example/_gnp.exe",
            ),
            ("https://a.example/a%E2%80%8Bb", "x/y", "a.example/a_b"),
            // And still are two.
            ("https://a.example/a%EF%BB%BFb", "x/y", "a.example/a_b~2"),
        ]);
    }

    #[test]
    fn names_that_meet_are_told_apart() {
        let html = "text/html";
        check(&[
            ("https://a.example/x", "x/y", "a.example/x"),
            // A file and a folder.
            ("https://a.example/x/y", html, "a.example/x~/y.html"),
            ("https://a.example/d/e", "x/y", "a.example/d/e"),
            ("https://a.example/d", "x/y", "a.example/d~3"),
            // Capital letters.
            ("https://a.example/Page", html, "a.example/Page.html"),
            ("https://a.example/page", html, "a.example/page~5.html"),
            // With and without an ending, and over another scheme.
            ("https://a.example/page.html", html, "a.example/page~6.html"),
            ("http://a.example/page.html", html, "a.example/page~7.html"),
            ("https://a.example/i/", html, "a.example/i/index.html"),
            (
                "https://a.example/i/index.html",
                html,
                "a.example/i/index~9.html",
            ),
            (
                "https://manifest.jsonl/",
                html,
                "manifest.jsonl~/index.html",
            ),
        ]);
    }

    #[test]
    fn no_address_leads_out_of_an_export_or_to_a_name_that_nothing_takes() {
        let long = "x".repeat(5000);
        let deep = "d/".repeat(400);
        let mut layout = Layout::by_host();
        for (id, locator) in [
            "https://a.example/../../etc/passwd".to_owned(),
            "https://a.example/%2e%2e/%2e%2e%2fetc".to_owned(),
            "https://a.example/..%2f..%2fetc/x".to_owned(),
            "https://a.example/..%5c..%5cetc".to_owned(),
            "https://a.example/a%00b%0a".to_owned(),
            "https://a.example///".to_owned(),
            "https://a.example/con/NUL.txt/com1".to_owned(),
            "https://a.example/a./b%20/c:d".to_owned(),
            format!("https://a.example/{long}.html?{long}"),
            format!("https://a.example/{deep}x.html"),
            format!("https://a.example/{}", "%F0%9F%8C%8A".repeat(400)),
            "../../etc/passwd".to_owned(),
            "..".to_owned(),
            "a\0b".to_owned(),
            "/etc/passwd".to_owned(),
            String::new(),
        ]
        .iter()
        .enumerate()
        {
            let name = name(&mut layout, locator, "text/html", id as u32);
            assert!(name.len() < 1000, "{name}");
            for part in name.split('/') {
                assert!(!part.is_empty() && part.len() <= 255, "{name}");
                assert!(
                    part != "." && part != ".." && !part.ends_with(['.', ' ']),
                    "{name}"
                );
                assert!(!part.contains(['\0', '\\', ':', '\n']), "{name}");
                assert_ne!(part.to_lowercase().split('.').next(), Some("nul"), "{name}");
            }
        }
    }

    #[test]
    fn fuzz_names_are_within_the_export_and_no_two_are_the_same() {
        bolero::check!()
            .with_type::<Vec<String>>()
            .for_each(|locators| {
                let mut layout = Layout::by_host();
                let mut seen = HashSet::new();
                for (id, text) in locators.iter().enumerate() {
                    for locator in [text.clone(), format!("https://a.example/{text}")] {
                        let name = name(&mut layout, &locator, "text/html", id as u32);
                        assert!(name.split('/').all(|part| !matches!(part, "" | "." | "..")));
                        assert!(seen.insert(name.to_lowercase()), "{name}");
                    }
                }
            });
    }
}
