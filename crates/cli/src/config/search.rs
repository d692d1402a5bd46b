//! A search source in the file.

use std::path::Path;

use springtide_engine::settings::{
    AnswerShape, Difference, Headers, RowWeight, SearchSettings, Staleness,
};
use springtide_policy::Span;
use springtide_policy::query::Split;

use super::{address, file};

/// Results on a page, as most search boxes have it.
const DEFAULT_PAGE_SIZE: u32 = 10;
/// The number of the first page, as most search boxes have it.
const DEFAULT_FIRST_PAGE: u32 = 1;
/// Results of a query in all, as most search boxes have it.
const DEFAULT_TOP: u32 = 1000;
/// Longer than most rows go without being in an answer.
const DEFAULT_MAX_INTERVAL_DAYS: f64 = 7.0;
/// The first pause after a refusal: a minute.
const DEFAULT_PAUSE_DAYS: f64 = 60.0 / 86_400.0;
/// The most results on a page: one with more is a mistake in the settings.
const LONGEST_PAGE: u32 = 10_000;

/// What is wrong, and what to do about it.
type Complaint = (String, &'static str);

/// What the file says of a search source, and secrets that cannot be had.
pub(super) fn settings(
    source: &file::Source,
    folder: &Path,
    max_interval: Option<Span>,
) -> Result<(SearchSettings, Vec<String>), Complaint> {
    let needs = [
        ("url", source.url.is_some()),
        ("rows", source.rows.is_some()),
        ("answer", source.answer.is_some()),
    ];
    if let Some((key, _)) = needs.iter().find(|(_, is_there)| !is_there) {
        return Err((format!("there is no `{key}`"), "a search source needs it"));
    }
    let others = [
        ("file", source.file.is_some()),
        ("list_every", source.list_every.is_some()),
        ("max_depth", source.max_depth.is_some()),
        ("detect.keep", !source.detect.keep.is_empty()),
        ("detect.drop", !source.detect.drop.is_empty()),
    ];
    if let Some((key, _)) = others.iter().find(|(_, is_there)| *is_there) {
        return Err((
            format!("`{key}` is not for search sources"),
            "leave it out; `answer.fields` says what of a row is kept",
        ));
    }
    let (Some(url), Some(rows), Some(answer)) = (&source.url, &source.rows, &source.answer) else {
        return Err(("keys are missing".into(), "give url, rows and answer"));
    };
    let templates = || std::iter::once(url).chain(&source.body);
    if !templates().any(|template| template.contains("{query}")) {
        return Err((
            "there is no `{query}` in `url` or `body`".into(),
            "it is where the query goes, such as url = \"https://shop.example.org/search?q={query}\"",
        ));
    }
    check_address("url", url, &["query", "page"])?;
    if let Some(by_id) = &source.by_id {
        check_address("by_id", by_id, &["id"])?;
        if !by_id.contains("{id}") {
            return Err((
                "there is no `{id}` in `by_id`".into(),
                "it is where the id of a row goes",
            ));
        }
    }
    let page_size = source.page_size.unwrap_or(DEFAULT_PAGE_SIZE);
    let has_pages = templates().any(|template| template.contains("{page}"));
    let top = match has_pages {
        true => source.top.unwrap_or(DEFAULT_TOP),
        // Only the first page can be asked for.
        false => source.top.unwrap_or(page_size).min(page_size),
    };
    if page_size == 0 || page_size > LONGEST_PAGE {
        let hint = "it says how many results a page has, from 1 to 10000";
        return Err((format!("page_size is {page_size}"), hint));
    }
    if top == 0 {
        let hint = "it says how many results there are in all, at the most";
        return Err(("top is 0".into(), hint));
    }
    let attributes = source.attributes.iter().flatten();
    let attributes: Vec<(String, Split)> = attributes
        .map(|(name, split)| {
            let split = match split {
                file::Attribute::Words => Split::Words,
                file::Attribute::List => Split::List,
            };
            (name.clone(), split)
        })
        .collect();
    if attributes.is_empty() {
        return Err((
            "there are no `attributes`".into(),
            "they are the columns that queries are made of, such as { title = \"words\" }",
        ));
    }
    let answer = shape(answer)?;
    let staleness = source
        .staleness
        .as_ref()
        .map(|staleness| self::staleness(staleness, &answer))
        .transpose()?;
    let mut missing = Vec::new();
    let mut headers = Vec::new();
    for (name, secret) in source.headers.iter().flatten() {
        let is_legal =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_legal) {
            missing.push(format!("headers.{name}: no header may have this name"));
            continue;
        }
        match secret.reveal_header(folder) {
            Ok(value) => headers.push((name.clone(), value)),
            Err(why) => missing.push(format!("headers.{name}: {why}")),
        }
    }
    let pause = source.pause.as_ref().map(|pause| pause.0);
    let settings = SearchSettings {
        body: source.body.clone(),
        rows: folder.join(rows),
        attributes,
        page_size,
        first_page: source.first_page.unwrap_or(DEFAULT_FIRST_PAGE),
        top,
        quota: source.quota.as_ref().map(|quota| quota.0),
        by_id: source.by_id.clone(),
        max_interval: source
            .max_interval
            .as_ref()
            .map(|span| span.0)
            .or(max_interval)
            .or_else(|| Some(super::days(DEFAULT_MAX_INTERVAL_DAYS))),
        pause: pause.unwrap_or_else(|| super::days(DEFAULT_PAUSE_DAYS)),
        adds_unknown: source.unknown == Some(file::Unknown::Add),
        answer,
        staleness,
        headers: Headers(headers),
    };
    Ok((settings, missing))
}

/// That a template is an address once it is filled in, whatever with.
fn check_address(key: &str, template: &str, names: &[&str]) -> Result<(), Complaint> {
    let mut filled = template.to_owned();
    for name in names {
        filled = filled.replace(&format!("{{{name}}}"), "1");
    }
    let url = address(&filled).map_err(|why| {
        let hint = "an address begins with https:// or http://";
        (format!("{key}: {why}"), hint)
    })?;
    let host = url.host_str().unwrap_or_default();
    let authority = template.split('/').nth(2).unwrap_or_default();
    if authority.contains('{') || host.is_empty() {
        let hint = "the host is the same for every request";
        return Err((
            format!("{key}: there is a placeholder in the name of its host"),
            hint,
        ));
    }
    Ok(())
}

fn shape(answer: &file::Answer) -> Result<AnswerShape, Complaint> {
    let item = answer.item.as_ref();
    let total = answer.total.as_ref();
    let named = [("results", Some(&answer.results)), ("id", Some(&answer.id))];
    let optional = [("total", total), ("item", item)];
    let fields = answer
        .fields
        .iter()
        .map(|(name, at)| (name.as_str(), Some(at)));
    for (name, pointer) in named.into_iter().chain(optional).chain(fields) {
        if let Some(pointer) = pointer.filter(|at| !at.is_empty() && !at.starts_with('/')) {
            return Err((
                format!("answer.{name}: {pointer:?} is not a JSON pointer"),
                "one begins with `/`, or is empty for all of it",
            ));
        }
    }
    if answer.fields.contains_key("id") {
        let hint = "the id is always kept; leave it out";
        return Err(("answer.fields has an `id`".into(), hint));
    }
    Ok(AnswerShape {
        results: answer.results.clone(),
        id: answer.id.clone(),
        total: answer.total.clone(),
        item: answer.item.clone(),
        fields: answer.fields.clone().into_iter().collect(),
    })
}

fn staleness(staleness: &file::Staleness, answer: &AnswerShape) -> Result<Staleness, Complaint> {
    if answer
        .fields
        .iter()
        .all(|(name, _)| *name != staleness.field)
    {
        return Err((
            format!("staleness.field: there is no field `{}`", staleness.field),
            "it is one of answer.fields",
        ));
    }
    let weight = match &staleness.weight {
        None => RowWeight::Number(1.0),
        Some(toml::Value::String(column)) => RowWeight::Column(column.clone()),
        Some(toml::Value::Integer(number)) if *number >= 0 => RowWeight::Number(*number as f64),
        Some(toml::Value::Float(number)) if *number >= 0.0 && number.is_finite() => {
            RowWeight::Number(*number)
        }
        Some(_) => {
            return Err((
                "staleness.weight is neither".into(),
                "it is a column, or a number that is zero or more",
            ));
        }
    };
    Ok(Staleness {
        field: staleness.field.clone(),
        difference: match staleness.difference {
            Some(file::Difference::Absolute) => Difference::Absolute,
            Some(file::Difference::Relative) => Difference::Relative,
            Some(file::Difference::Any) | None => Difference::Any,
        },
        weight,
    })
}
