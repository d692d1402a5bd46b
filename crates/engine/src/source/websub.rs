//! WebSub: who tells others when a feed changes, as the feed or its server says.
//!
//! Headers come before what is in the document, and of several hubs the first is taken.

use url::Url;

use super::feed::ParsedFeed;

/// Links of one answer that are looked at.
const MOST_LINKS: usize = 50;
/// Longer addresses are not used.
const MAX_ADDRESS: usize = 2000;

/// Who tells of changes, and by what name they know the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushOffer {
    /// Where to ask for being told.
    pub hub: Url,
    /// What to ask for.
    pub topic: Url,
}

/// What is offered by the Link headers of an answer from this address, and by the feed in
/// it.
pub(crate) fn offered(links: &[String], feed: &ParsedFeed, base: &Url) -> Option<PushOffer> {
    let links: Vec<(&str, String)> = links.iter().flat_map(|value| read_links(value)).collect();
    let by_header = |wanted: &str| {
        let is_wanted = |rel: &String| {
            let mut words = rel.split_ascii_whitespace();
            words.any(|word| word.eq_ignore_ascii_case(wanted))
        };
        let mut found = links.iter().filter(|(_, rel)| is_wanted(rel));
        found.find_map(|(target, _)| address(target, base))
    };
    let in_feed = |link: &Option<String>| link.as_deref().and_then(|link| address(link, base));
    let hub = by_header("hub").or_else(|| in_feed(&feed.hub))?;
    let topic = by_header("self").or_else(|| in_feed(&feed.own_link));
    Some(PushOffer {
        hub,
        topic: topic.unwrap_or_else(|| base.clone()),
    })
}

fn address(text: &str, base: &Url) -> Option<Url> {
    let url = base.join(text.trim()).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    (is_web && url.as_str().len() <= MAX_ADDRESS).then_some(url)
}

/// The targets in the value of a Link header, each with its relation: RFC 8288, 3.
fn read_links(value: &str) -> Vec<(&str, String)> {
    let mut links = Vec::new();
    let mut rest = value;
    while let Some((_, after)) = rest.split_once('<')
        && links.len() < MOST_LINKS
    {
        let Some((target, after)) = after.split_once('>') else {
            break;
        };
        let (relation, after) = read_relation(after);
        links.push((target, relation));
        rest = after;
    }
    links
}

/// The relation among the parameters that follow, and what comes after them.
fn read_relation(mut rest: &str) -> (String, &str) {
    let mut relation = None;
    loop {
        rest = rest.trim_start();
        let Some(after) = rest.strip_prefix(';') else {
            return (relation.unwrap_or_default(), rest);
        };
        let end = after.find(['=', ';', ',']).unwrap_or(after.len());
        let name = after[..end].trim();
        rest = &after[end..];
        let Some(after) = rest.strip_prefix('=') else {
            continue;
        };
        let after = after.trim_start();
        let value = match after.strip_prefix('"') {
            Some(quoted) => {
                let end = quoted.find('"').unwrap_or(quoted.len());
                rest = quoted.get(end + 1..).unwrap_or_default();
                &quoted[..end]
            }
            None => {
                let end = after.find([';', ',']).unwrap_or(after.len());
                rest = &after[end..];
                after[..end].trim()
            }
        };
        // The first counts, says the RFC.
        if name.eq_ignore_ascii_case("rel") && relation.is_none() {
            relation = Some(value.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(links: &[&str], feed: &ParsedFeed, wanted: Option<(&str, &str)>) {
        let base = Url::parse("https://example.org/feed").unwrap();
        let links: Vec<String> = links.iter().map(|link| (*link).to_owned()).collect();
        let found = offered(&links, feed, &base);
        let found = found.as_ref();
        let found = found.map(|offer| (offer.hub.as_str(), offer.topic.as_str()));
        assert_eq!(found, wanted, "{links:?}");
    }

    #[test]
    fn hubs_are_found_in_headers_and_then_in_the_feed() {
        let none = ParsedFeed::default();
        let base = "https://example.org/feed";
        check(&[], &none, None);
        check(&["<https://hub.example/>; rel=next"], &none, None);
        check(&["<ftp://hub.example/>; rel=hub"], &none, None);
        let hub = "https://hub.example/";
        check(
            &["<https://hub.example>; rel=hub"],
            &none,
            Some((hub, base)),
        );
        check(
            &["</f?a=1,2>; title=\"a, <b>\"; rel=\"self\", <https://hub.example/>; rel=\"x HUB\""],
            &none,
            Some((hub, "https://example.org/f?a=1,2")),
        );
        let feed = ParsedFeed {
            hub: Some("https://other.example/".to_owned()),
            own_link: Some("/own".to_owned()),
            ..ParsedFeed::default()
        };
        let own = "https://example.org/own";
        check(&[], &feed, Some(("https://other.example/", own)));
        check(&["<https://hub.example/>;rel=hub"], &feed, Some((hub, own)));
        for hostile in [
            "<",
            "<>",
            "<a>;",
            "<a>;=",
            "<a>;rel=\"",
            "<a>;;;rel",
            "><;rel=hub",
        ] {
            check(&[hostile], &none, None);
        }
    }
}
