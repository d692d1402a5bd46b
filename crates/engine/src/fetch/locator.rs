//! URLs as locators, and the groups that they fall into.

use springtide_policy::Span;
use url::Url;

use super::{FailureKind, FetchFailure};
use crate::settings::{GroupKey, GroupRule};

/// The longest URL that is asked or kept, in bytes. Servers commonly refuse longer
/// ones, and one in a million is an attack on somebody.
pub const MAX_URL: usize = 8192;

/// Directories after the host that make groups of their own.
const MAX_DIRECTORIES: usize = 3;

/// A directory with a longer name, in bytes, makes no group: it is data in a path,
/// and no two pages have the same.
const MAX_DIRECTORY: usize = 100;

/// Without a rule, seconds between the beginnings of two requests to a host.
const DEFAULT_GAP_SECONDS: f64 = 1.0;
/// Without a rule, requests to a host at a time.
const DEFAULT_CONCURRENCY: u32 = 2;

/// The one spelling of a URL by which an element is known: without fragment and
/// default port, the host in lower case, dot segments resolved, the digits of
/// percent-encodings in upper case.
///
/// # Errors
/// If it is not a URL that is ever asked.
pub fn locator(url: &str) -> Result<Url, FetchFailure> {
    check_length(url)?;
    let url = Url::parse(url.trim())
        .map_err(|error| FetchFailure::new(FailureKind::Url, format!("not a URL: {error}")))?;
    normalized(url)
}

/// The locator of what a page at `base` calls `reference`: a link, or where it
/// redirects to.
///
/// # Errors
/// If it is not a URL that is ever asked.
pub fn resolve(base: &Url, reference: &str) -> Result<Url, FetchFailure> {
    check_length(reference)?;
    let url = base
        .join(reference.trim())
        .map_err(|error| FetchFailure::new(FailureKind::Url, format!("not a URL: {error}")))?;
    normalized(url)
}

fn check_length(url: &str) -> Result<(), FetchFailure> {
    if url.len() > MAX_URL {
        return Err(FetchFailure::new(
            FailureKind::Url,
            format!(
                "the address has {} bytes; at most {MAX_URL} can be fetched",
                url.len()
            ),
        ));
    }
    Ok(())
}

fn normalized(mut url: Url) -> Result<Url, FetchFailure> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(FetchFailure::new(
            FailureKind::Url,
            format!("only http and https can be fetched, not {}", url.scheme()),
        ));
    }
    url.set_fragment(None);
    if let Some(path) = upper_case_escapes(url.path()) {
        url.set_path(&path);
    }
    if let Some(query) = url.query().and_then(upper_case_escapes) {
        url.set_query(Some(&query));
    }
    // Escaping may have made it longer.
    check_length(url.as_str())?;
    Ok(url)
}

/// The text with the digits of its percent-encodings in upper case, if any were not.
fn upper_case_escapes(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_escape = |at: usize| {
        bytes[at] == b'%'
            && bytes.get(at + 1).is_some_and(u8::is_ascii_hexdigit)
            && bytes.get(at + 2).is_some_and(u8::is_ascii_hexdigit)
    };
    let is_lower =
        |at: usize| bytes[at + 1].is_ascii_lowercase() || bytes[at + 2].is_ascii_lowercase();
    if !(0..bytes.len()).any(|at| is_escape(at) && is_lower(at)) {
        return None;
    }
    let mut upper = String::with_capacity(text.len());
    let mut rest = 0;
    for (at, character) in text.char_indices() {
        if is_escape(at) {
            rest = 3;
        }
        if rest > 0 {
            rest -= 1;
            upper.push(character.to_ascii_uppercase());
        } else {
            upper.push(character);
        }
    }
    Some(upper)
}

/// Where a robots.txt holds: scheme, host and port, such as `https://example.org`.
pub fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// The group of a URL, outermost level first, and its limits.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupPath {
    /// The outermost group, which limits are keyed on.
    pub key: String,
    /// Directories within it: priors and clocks are shared there too.
    pub directories: Vec<String>,
    /// The least time between two requests.
    pub gap: Span,
    /// Requests at a time.
    pub concurrency: u32,
    /// Whether that is what a rule says.
    pub has_rule: bool,
}

/// The group of a URL by the first rule that matches its host.
///
/// In a rule's pattern `*` stands for any characters; as in browsers, `*.example.org`
/// is `example.org` too. Ports do not matter: they are doors of one machine.
pub fn group_of(url: &Url, rules: &[GroupRule]) -> GroupPath {
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    let rule = rules.iter().find(|rule| matches(&rule.pattern, host));
    let key = match rule.map(|rule| &rule.key) {
        None | Some(GroupKey::Host) => host.to_owned(),
        Some(GroupKey::Domain) => registered_domain(url, host).to_owned(),
        Some(GroupKey::Name(name)) => name.clone(),
    };
    GroupPath {
        key,
        directories: directories(url),
        gap: rule.map_or_else(
            || Span::days(DEFAULT_GAP_SECONDS / 86_400.0).unwrap_or(Span::ZERO),
            |rule| rule.gap,
        ),
        concurrency: rule.map_or(DEFAULT_CONCURRENCY, |rule| rule.concurrency),
        has_rule: rule.is_some(),
    }
}

/// The least time between two requests to an outermost group, and how many may be under
/// way, by the group's key: what [`group_of`] says of its members, as far as the key tells.
pub fn limits_of(key: &str, rules: &[GroupRule]) -> (Span, u32) {
    let named = rules.iter().find(|rule| match &rule.key {
        GroupKey::Name(name) => name == key,
        GroupKey::Domain => rule.pattern.ends_with(key),
        GroupKey::Host => false,
    });
    if let Some(rule) = named {
        return (rule.gap, rule.concurrency);
    }
    let host = if key.contains(':') && !key.starts_with('[') {
        format!("http://[{key}]/")
    } else {
        format!("http://{key}/")
    };
    let url = Url::parse(&host).or_else(|_| Url::parse("http://invalid.invalid/"));
    let path = group_of(&url.expect("an address"), rules);
    (path.gap, path.concurrency)
}

/// The part of a host that was registered, by the public suffix list; the host
/// itself if it is an address or has no such part.
fn registered_domain<'a>(url: &Url, host: &'a str) -> &'a str {
    match url.host() {
        Some(url::Host::Domain(_)) => psl::domain_str(host).unwrap_or(host),
        _ => host,
    }
}

fn matches(pattern: &str, host: &str) -> bool {
    let pattern = pattern.trim_end_matches('.').to_ascii_lowercase();
    if pattern.strip_prefix("*.") == Some(host) {
        return true;
    }
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = host.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn directories(url: &Url) -> Vec<String> {
    let Some((directories, _page)) = url.path().trim_start_matches('/').rsplit_once('/') else {
        return Vec::new();
    };
    directories
        .split('/')
        .take(MAX_DIRECTORIES)
        .take_while(|name| !name.is_empty() && name.len() <= MAX_DIRECTORY)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_locator(url: &str, expected: &str) {
        assert_eq!(locator(url).unwrap().as_str(), expected);
    }

    #[test]
    fn spellings_of_one_address_are_one_locator() {
        check_locator(
            "HTTP://Example.ORG:80/a/../b/./c#part",
            "http://example.org/b/c",
        );
        check_locator("https://example.org:443", "https://example.org/");
        check_locator("https://example.org:8443/", "https://example.org:8443/");
        check_locator(
            "https://example.org/%7efoo?q=%c3%a9",
            "https://example.org/%7Efoo?q=%C3%A9",
        );
        check_locator("https://example.org/%zz%", "https://example.org/%zz%");
        check_locator(
            "https://bücher.example/ü",
            "https://xn--bcher-kva.example/%C3%BC",
        );
        check_locator(" https://example.org/x ", "https://example.org/x");
    }

    #[test]
    fn a_locator_is_its_own_locator() {
        for url in [
            "http://a.example/%e2%82%ac/./x?y=%e2#z",
            "https://b.example/a//b/",
        ] {
            let once = locator(url).unwrap();
            assert_eq!(locator(once.as_str()).unwrap(), once);
        }
    }

    #[test]
    fn what_is_never_asked_has_no_locator() {
        for url in [
            "ftp://example.org/",
            "file:///etc/passwd",
            "mailto:a@b",
            "example.org",
            "",
        ] {
            assert_eq!(locator(url).unwrap_err().kind, FailureKind::Url, "{url}");
        }
        let long = format!("http://example.org/{}", "a".repeat(MAX_URL));
        assert_eq!(locator(&long).unwrap_err().kind, FailureKind::Url);
        // Three times as long once it is escaped.
        let grows = format!("http://example.org/{}", "é".repeat(MAX_URL / 4));
        assert_eq!(locator(&grows).unwrap_err().kind, FailureKind::Url);
    }

    fn rule(pattern: &str, key: GroupKey) -> GroupRule {
        GroupRule {
            pattern: pattern.to_owned(),
            key,
            gap: Span::days(0.5).unwrap(),
            concurrency: 7,
        }
    }

    fn group(url: &str, rules: &[GroupRule]) -> GroupPath {
        group_of(&Url::parse(url).unwrap(), rules)
    }

    #[test]
    fn without_a_rule_a_host_is_a_group_with_the_default_limits() {
        let found = group("https://docs.example.org:8443/a/b/c/d/e.html?x=/y/", &[]);
        assert_eq!(found.key, "docs.example.org");
        assert_eq!(found.directories, ["a", "b", "c"]);
        assert!((found.gap.as_days() * 86_400.0 - 1.0).abs() < 1e-9);
        assert_eq!(found.concurrency, 2);
        assert!(
            group("https://example.org/page", &[])
                .directories
                .is_empty()
        );
        assert_eq!(group("https://example.org/a/", &[]).directories, ["a"]);
        assert_eq!(group("https://example.org./", &[]).key, "example.org");
    }

    #[test]
    fn the_first_rule_that_matches_holds() {
        let rules = [
            rule("a.example.co.uk", GroupKey::Name("ours".to_owned())),
            rule("*.example.co.uk", GroupKey::Domain),
            rule("127.0.0.*", GroupKey::Domain),
            rule("*.net", GroupKey::Host),
        ];
        assert_eq!(group("http://a.example.co.uk/", &rules).key, "ours");
        assert_eq!(
            group("http://b.c.example.co.uk/", &rules).key,
            "example.co.uk"
        );
        assert_eq!(group("http://example.co.uk/", &rules).key, "example.co.uk");
        assert_eq!(group("http://127.0.0.2:99/", &rules).key, "127.0.0.2");
        assert_eq!(group("http://127.0.0.2:99/", &rules).concurrency, 7);
        assert_eq!(group("http://x.y.net/", &rules).key, "x.y.net");
        assert_eq!(group("http://badexample.co.uk/", &rules).concurrency, 2);
    }
}
