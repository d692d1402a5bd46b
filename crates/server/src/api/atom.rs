//! `/changes.atom`: changes for readers of feeds, with what changed in them.

use std::fmt::Write;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use springtide_engine::view::{rfc3339, seconds_between};
use springtide_store::{ElementId, Moment, Reader};

use super::{changes, elements};
use crate::app::Shared;
use crate::door::answer;
use crate::feed::NumberedChange;
use crate::params::Params;
use crate::problem::Problem;

/// Entries of a feed.
const ENTRIES: usize = 50;
/// The longest diff in an entry, in bytes.
const LONGEST_DIFF: usize = 20_000;

/// What a change changed, if both versions are kept; cut if it is long.
pub(crate) fn diff_of(app: &Shared, store: &dyn Reader, change: &NumberedChange) -> Option<String> {
    let versions = elements::versions(app, store, ElementId(change.change.element)).ok()?;
    let version = versions.of_change(change.id)?;
    let before = version.checked_sub(1)?;
    let bodies = app.folder.bodies().ok()?;
    let mut diff = versions.diff(before, version, &bodies).ok()?;
    if diff.len() > LONGEST_DIFF {
        let mut end = LONGEST_DIFF;
        while !diff.is_char_boundary(end) {
            end -= 1;
        }
        diff.truncate(end);
        diff.push_str("\n…\n");
    }
    Some(diff)
}

/// `GET /changes.atom`.
pub(crate) async fn feed(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &["source"])?;
    let mut page = changes::list(&app, &params).await?;
    page.items.truncate(ENTRIES);
    let source = params.get("source").map(str::to_owned);
    let public = app.settings.public.as_ref();
    let base = public.map(|url| url.as_str().trim_end_matches('/').to_owned());
    let text = app
        .read(move |app, store| {
            let entries: Vec<_> = (page.items.iter())
                .map(|change| (change, diff_of(app, store, change)))
                .collect();
            Ok(written(
                &entries,
                source.as_deref(),
                base.as_deref(),
                app.now(),
            ))
        })
        .await?;
    Ok(answer("application/atom+xml; charset=utf-8", text))
}

fn written(
    entries: &[(&NumberedChange, Option<String>)],
    source: Option<&str>,
    base: Option<&str>,
    now: Moment,
) -> String {
    let base = base.unwrap_or_default();
    let (of, query) = match source {
        Some(source) => {
            let query = url::form_urlencoded::byte_serialize(source.as_bytes());
            (
                format!(" of {}", escape(source)),
                format!("?source={}", escape(&query.collect::<String>())),
            )
        }
        None => (String::new(), String::new()),
    };
    let newest = entries
        .first()
        .and_then(|(change, _)| change.change.found_at);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <feed xmlns=\"http://www.w3.org/2005/Atom\">\n\
         <title>Changes{of}</title>\n<id>urn:springtide:changes{}</id>\n\
         <updated>{}</updated>\n<author><name>springtide</name></author>\n\
         <link rel=\"self\" href=\"{}/changes.atom{query}\"/>\n",
        match source {
            Some(source) => format!(":{}", escape(source)),
            None => String::new(),
        },
        rfc3339(newest.unwrap_or(now)),
        escape(base),
    );
    for (change, diff) in entries {
        let NumberedChange { id, change } = change;
        let at = change.found_at.map(rfc3339).unwrap_or_default();
        let link = match url::Url::parse(&change.locator) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => url.to_string(),
            _ => format!("{base}/elements/{}", change.element),
        };
        let stale = change.previous_poll_at.zip(change.found_at);
        let stale = stale.map_or_else(String::new, |(before, found)| {
            let brief = springtide_engine::view::brief(seconds_between(before, found));
            format!(" Our copy was stale for at most {brief}.")
        });
        let summary = format!(
            "{} {} ({}).{stale}",
            change.locator, change.kind, change.source
        );
        let diff = diff.as_deref().unwrap_or_default();
        let content = format!("<pre>{}</pre>", escape(diff));
        // To write to a text does not fail.
        let _ = write!(
            text,
            "<entry>\n<id>urn:springtide:change:{id}</id>\n<title>{}: {}</title>\n\
             <updated>{at}</updated>\n<link href=\"{}\"/>\n\
             <category term=\"{}\"/>\n<summary>{}</summary>\n\
             <content type=\"html\">{}</content>\n</entry>\n",
            change.kind,
            escape(&change.locator),
            escape(&link),
            escape(&change.source),
            escape(&summary),
            escape(&content),
        );
    }
    text.push_str("</feed>\n");
    text
}

/// Text as it may stand in XML; characters that may not are left out.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}
