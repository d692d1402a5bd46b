//! Links of a page to other pages of its host.

use std::collections::HashSet;

use dom_query::{Document, Matcher, NodeRef};
use url::Url;

use crate::detect::{decode, is_html, parse_html};

/// Links of one page. Those after them are found on other pages, or not at all.
pub const MAX_LINKS: usize = 10_000;

/// Links longer than this are not followed, as in sitemaps.
const MAX_ADDRESS: usize = 8192;

/// The links of a page to pages of the same scheme, host and port, in their order,
/// each once and without fragment; the page itself is not among them.
///
/// A page that asks not to be followed (`<meta name=robots content=nofollow>`) has
/// none, and links that do (`rel=nofollow`) are left out. The canonical address of a
/// page, if it names one, comes first. Anything but HTML has no links.
pub fn links(body: &[u8], content_type: Option<&str>, base: &Url) -> Vec<Url> {
    if !is_html(body, content_type) {
        return Vec::new();
    }
    let text = decode(body, content_type);
    let Some(document) = parse_html(&text) else {
        return Vec::new();
    };
    if asks_not_to_be_followed(&document) {
        return Vec::new();
    }
    let own_base = document.base_uri();
    let joined = own_base.and_then(|uri| base.join(uri.trim()).ok());
    let joined = joined.as_ref().unwrap_or(base);
    let mut page = base.clone();
    page.set_fragment(None);
    let mut seen = HashSet::from([page]);
    let mut links = Vec::new();
    for node in nodes(&document, "link[rel][href]")
        .filter(|node| has_rel(node, "canonical"))
        .chain(nodes(&document, "a[href], area[href]").filter(|node| !has_rel(node, "nofollow")))
    {
        let Some(href) = node.attr("href") else {
            continue;
        };
        let href = href.trim();
        if href.len() > MAX_ADDRESS || href.starts_with('#') {
            continue;
        }
        let Ok(mut url) = joined.join(href) else {
            continue;
        };
        if url.origin() != base.origin() || !matches!(url.scheme(), "http" | "https") {
            continue;
        }
        url.set_fragment(None);
        if url.as_str().len() <= MAX_ADDRESS && seen.insert(url.clone()) {
            links.push(url);
            if links.len() >= MAX_LINKS {
                break;
            }
        }
    }
    links
}

fn nodes<'a>(document: &'a Document, selector: &str) -> impl Iterator<Item = NodeRef<'a>> {
    // Selectors here are written by us.
    let matcher = Matcher::new(selector).ok();
    let selection = matcher.map(|matcher| document.select_matcher(&matcher));
    let nodes = selection.map(|selection| selection.nodes().to_vec());
    nodes.unwrap_or_default().into_iter()
}

fn has_rel(node: &NodeRef<'_>, wanted: &str) -> bool {
    node.attr("rel").is_some_and(|rel| {
        let mut words = rel.split_ascii_whitespace();
        words.any(|word| word.eq_ignore_ascii_case(wanted))
    })
}

fn asks_not_to_be_followed(document: &Document) -> bool {
    nodes(document, "meta[name][content]").any(|meta| {
        let name = meta.attr("name").unwrap_or_default();
        let content = meta.attr("content").unwrap_or_default();
        let is_for_us = ["robots", "springtide"]
            .iter()
            .any(|wanted| name.trim().eq_ignore_ascii_case(wanted));
        is_for_us
            && content.split(',').any(|word| {
                let word = word.trim();
                word.eq_ignore_ascii_case("nofollow") || word.eq_ignore_ascii_case("none")
            })
    })
}
