//! How a search box is asked: addresses and bodies with a query filled in.

use url::Url;

use crate::fetch::{self, FetchFailure};
use crate::settings::{SearchSettings, SourceSettings};

/// A request that is filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilledRequest {
    pub(crate) url: Url,
    /// What to send; nothing asks by GET.
    pub(crate) body: Option<Vec<u8>>,
}

/// The request for a page of the answer to a query, counted from 1.
pub(crate) fn for_query(
    source: &SourceSettings,
    search: &SearchSettings,
    query: &str,
    page: u64,
) -> Result<FilledRequest, FetchFailure> {
    let page = (u64::from(search.first_page) + page.saturating_sub(1)).to_string();
    let filled = fill(&source.url, |name| match name {
        "query" => Some(percent_encoded(query)),
        "page" => Some(page.clone()),
        _ => None,
    });
    let body = search.body.as_ref().map(|body| {
        let filled = fill(body, |name| match name {
            "query" => Some(json_escaped(query)),
            "page" => Some(page.clone()),
            _ => None,
        });
        filled.into_bytes()
    });
    Ok(FilledRequest {
        url: fetch::locator(&filled)?,
        body,
    })
}

/// The request for one row.
pub(crate) fn for_row(template: &str, id: &str) -> Result<FilledRequest, FetchFailure> {
    let filled = fill(template, |name| (name == "id").then(|| percent_encoded(id)));
    Ok(FilledRequest {
        url: fetch::locator(&filled)?,
        body: None,
    })
}

/// A template with its blanks filled in, each once: what is filled in has none.
fn fill(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        filled.push_str(&rest[..start]);
        rest = &rest[start..];
        let named = rest
            .find('}')
            .and_then(|end| Some((end, value(&rest[1..end])?)));
        match named {
            Some((end, value)) => {
                filled.push_str(&value);
                rest = &rest[end + 1..];
            }
            None => {
                filled.push('{');
                rest = &rest[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// Everything but what needs no encoding anywhere in an address.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// A text as it is within the quotes of a JSON string.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_filled_once_and_braces_stay() {
        let value = |name: &str| (name == "query").then(|| "{page}".to_owned());
        assert_eq!(fill("a={query}&b={page}{", value), "a={page}&b={page}{");
        assert_eq!(
            fill(r#"{"q": "{query}", "n": {x: 1}}"#, value),
            r#"{"q": "{page}", "n": {x: 1}}"#
        );
    }

    #[test]
    fn what_is_filled_in_stays_where_it_is() {
        assert_eq!(percent_encoded("a b/&\"é#"), "a%20b%2F%26%22%C3%A9%23");
        assert_eq!(json_escaped("say \"é\"\n\\"), "say \\\"é\\\"\\n\\\\");
        let filled = for_row("http://127.0.0.1:1/item/{id}", "../x?y").unwrap();
        assert_eq!(filled.url.as_str(), "http://127.0.0.1:1/item/..%2Fx%3Fy");
    }
}
