//! What matters in a body, and whether it changed.
//!
//! A [`Lens`] is made from a source's `keep` and `drop` once, and takes from one body
//! at a time what matters in it: an [`Extract`]. Two bodies are the same if their extracts
//! have the same digest, and then their texts are the same too: what a digest
//! notices, a [`diff()`] shows, and [`size_of_change`] measures.
//!
//! Nothing here touches a network or a clock (but to give up on a diff), and no
//! bytes are too odd: whatever cannot be read as what it is said to be is compared
//! byte by byte.
//!
//! ```
//! use springtide_engine::detect::Lens;
//!
//! let lens = Lens::new(&[], &[".ad".to_owned()])?;
//! let page = |ad, price| {
//!     format!("<title>Shoes</title><p class=ad>{ad}</p><p>Now {price} €</p>")
//! };
//! let extract = |page: String| lens.extract(page.as_bytes(), Some("text/html"));
//! assert_eq!(extract(page("Buy!", 30)).digest, extract(page("Sale!", 30)).digest);
//! assert_ne!(extract(page("Buy!", 30)).digest, extract(page("Buy!", 29)).digest);
//! assert_eq!(extract(page("Buy!", 30)).text, "Shoes\nNow 30 €\n");
//! # Ok::<(), springtide_engine::detect::BadSelector>(())
//! ```

mod charset;
mod diff;
mod html;
mod json;
mod page;
mod sketch;

use std::borrow::Cow;

use dom_query::Matcher;

pub(crate) use self::charset::decode;
pub use self::diff::diff;
pub(crate) use self::html::parse as parse_html;
use self::json::Pointer;
pub use self::sketch::size_of_change;

/// What matters in the elements of a source.
#[derive(Debug, Clone, Default)]
pub struct Lens {
    keep_in_html: Vec<Matcher>,
    drop_in_html: Vec<Matcher>,
    keep_in_json: Vec<Pointer>,
    drop_in_json: Vec<Pointer>,
    /// Whether matching an element may mean to look at all of its siblings.
    looks_at_siblings: bool,
}

/// What matters in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extract {
    /// Blake3 of what matters.
    pub digest: [u8; 32],
    /// What matters, as lines to compare.
    pub text: String,
    /// What [`size_of_change`] compares.
    pub sketch: Vec<u8>,
}

/// A selector that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{selector:?} is neither a CSS selector nor, beginning with /, a JSON pointer")]
pub struct BadSelector {
    /// As it was given.
    pub selector: String,
}

impl Lens {
    /// A lens that keeps only these parts, or all if there are none, without those
    /// that are dropped.
    ///
    /// A selector that begins with `/` is a JSON pointer, with `*` for every member
    /// of an array or an object, and matters in JSON alone; all others are CSS
    /// selectors and matter in HTML alone.
    ///
    /// # Errors
    /// If one is neither.
    pub fn new(keep: &[String], drop: &[String]) -> Result<Self, BadSelector> {
        let mut lens = Self::default();
        for (selectors, in_html, in_json) in [
            (keep, &mut lens.keep_in_html, &mut lens.keep_in_json),
            (drop, &mut lens.drop_in_html, &mut lens.drop_in_json),
        ] {
            for selector in selectors {
                let bad = || BadSelector {
                    selector: selector.clone(),
                };
                if selector.starts_with('/') {
                    in_json.push(Pointer::new(selector).ok_or_else(bad)?);
                } else {
                    in_html.push(Matcher::new(selector).map_err(|_| bad())?);
                    lens.looks_at_siblings |= selector.contains('~') || selector.contains(':');
                }
            }
        }
        Ok(lens)
    }

    /// What matters in a body.
    ///
    /// HTML: see the module `page`. JSON: the values, however they are written.
    /// Anything else: the bytes.
    pub fn extract(&self, body: &[u8], content_type: Option<&str>) -> Extract {
        let seen = match kind_of(body, content_type) {
            Kind::Html => self.extract_html(body, content_type),
            Kind::Json => self.extract_json(body),
            Kind::Text => None,
            Kind::Binary => return extract_bytes(body),
        };
        let Some(text) = seen else {
            return extract_text(body, content_type);
        };
        Extract {
            digest: *blake3::hash(text.as_bytes()).as_bytes(),
            sketch: sketch::sketch(&text),
            text,
        }
    }

    fn extract_html(&self, body: &[u8], content_type: Option<&str>) -> Option<String> {
        let text = decode(body, content_type);
        let document = html::parse(&text)?;
        if self.looks_at_siblings && !page::siblings_are_few(&document) {
            return None;
        }
        page::lines(&document, &self.keep_in_html, &self.drop_in_html)
    }

    fn extract_json(&self, body: &[u8]) -> Option<String> {
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        let text = std::str::from_utf8(body).ok()?;
        json::lines(text, &self.keep_in_json, &self.drop_in_json)
    }
}

/// Whether a body is a page.
pub(crate) fn is_html(body: &[u8], content_type: Option<&str>) -> bool {
    kind_of(body, content_type) == Kind::Html
}

fn extract_text(body: &[u8], content_type: Option<&str>) -> Extract {
    let text = decode(body, content_type);
    Extract {
        digest: *blake3::hash(body).as_bytes(),
        sketch: sketch::sketch(&text),
        text: text.into_owned(),
    }
}

fn extract_bytes(body: &[u8]) -> Extract {
    let digest = blake3::hash(body);
    Extract {
        digest: *digest.as_bytes(),
        text: format!("{} bytes, blake3:{digest}\n", body.len()),
        sketch: sketch::sketch_of_bytes(body),
    }
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Html,
    Json,
    Text,
    Binary,
}

/// By what it is said to be, or by its looks if nothing is said.
fn kind_of(body: &[u8], content_type: Option<&str>) -> Kind {
    let media_type = content_type.unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    let media_type: Cow<'_, str> = if media_type.bytes().any(|byte| byte.is_ascii_uppercase()) {
        media_type.to_ascii_lowercase().into()
    } else {
        media_type.into()
    };
    match &*media_type {
        "text/html" | "application/xhtml+xml" => Kind::Html,
        "application/json" | "text/json" => Kind::Json,
        other if other.ends_with("+json") => Kind::Json,
        other if other.starts_with("text/") || other.ends_with("+xml") => Kind::Text,
        "application/xml"
        | "application/javascript"
        | "application/yaml"
        | "application/toml"
        | "application/sql"
        | "application/x-ndjson"
        | "application/jsonl" => Kind::Text,
        "" | "application/octet-stream" | "unknown/unknown" => kind_by_looks(body),
        _ => Kind::Binary,
    }
}

fn kind_by_looks(body: &[u8]) -> Kind {
    let start = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let start = start.trim_ascii_start();
    let begins =
        |with: &[u8]| start.len() >= with.len() && start[..with.len()].eq_ignore_ascii_case(with);
    const MARKS: &[&[u8]] = &[
        b"<!doctype html",
        b"<html",
        b"<head",
        b"<body",
        b"<title",
        b"<script",
        b"<meta",
        b"<h1",
        b"<div",
        b"<p>",
        b"<!--",
    ];
    if MARKS.iter().any(|mark| begins(mark)) {
        Kind::Html
    } else if begins(b"{") || begins(b"[") {
        Kind::Json
    } else if memchr::memchr(0, body).is_none() {
        Kind::Text
    } else {
        Kind::Binary
    }
}
