//! Ways to answer badly that a search server has.

use std::time::Duration;

use serde_json::{Map, Value};

use super::answer::{Answer, json};
use crate::origin::{Behaviour, Step};

/// A way in which a search server answers badly. Rows that go and come are not among
/// them: [`Catalogue::take_out`](super::Catalogue::take_out) and
/// [`put_in`](super::Catalogue::put_in) see to that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// A refusal, such as 429 or 503.
    Refused {
        /// Its status.
        status: u16,
        /// Its Retry-After: seconds, or a date.
        retry_after: Option<String>,
    },
    /// A page of HTML that asks whether you are human, with status 200.
    Captcha,
    /// The answer this much later.
    Late(Duration),
    /// Results and items under names that they did not have.
    OtherNames,
    /// An object where a list of results was, and a list where an item was.
    OtherKinds,
    /// Rows without ids.
    NoIds,
    /// Rows whose ids are numbers instead of strings.
    NumberIds,
    /// The first half of the JSON, as if it were all.
    BrokenJson,
    /// The first half of the body, after a promise of all of it.
    CutBody,
    /// Every other result, from the first on.
    Short,
    /// Every result twice.
    Repeated,
    /// The results of a page in the reverse order.
    Reversed,
    /// Results in another order at every request, so that pages do not fit together.
    Restless,
    /// No results and no item, though the total says otherwise.
    Empty,
    /// So many bytes that nobody asked for.
    Large(usize),
    /// Lists within lists, so deep.
    Deep(usize),
}

/// An answer with a trouble.
pub(super) fn distorted(trouble: &Trouble, mut answer: Answer) -> Behaviour {
    match trouble {
        Trouble::Refused {
            status,
            retry_after,
        } => return refusal(*status, retry_after.as_deref()),
        Trouble::Captcha => return captcha(),
        Trouble::Late(wait) => return json(&answer).after(*wait),
        // What went wrong already is trouble enough.
        _ if answer.status != 200 => return json(&answer),
        Trouble::Restless => {}
        Trouble::OtherNames => {
            rename(&mut answer.body, "results", "hits");
            rename(&mut answer.body, "item", "product");
        }
        Trouble::OtherKinds => other_kinds(&mut answer.body),
        Trouble::NoIds => for_rows(&mut answer.body, |row| row["key"] = Map::new().into()),
        Trouble::NumberIds => for_rows(&mut answer.body, |row| {
            let id = row["key"]["id"].as_str().unwrap_or_default();
            let digits = id.trim_start_matches(|c: char| !c.is_ascii_digit());
            row["key"]["id"] = digits.parse().unwrap_or(0_u64).into();
        }),
        Trouble::BrokenJson => return broken(&answer),
        Trouble::CutBody => return cut(&answer),
        Trouble::Short => for_results(&mut answer.body, |results| {
            *results = results.drain(..).step_by(2).collect();
        }),
        Trouble::Repeated => for_results(&mut answer.body, |results| {
            *results = results
                .drain(..)
                .flat_map(|row| [row.clone(), row])
                .collect();
        }),
        Trouble::Reversed => for_results(&mut answer.body, |results| results.reverse()),
        Trouble::Empty => {
            for_results(&mut answer.body, Vec::clear);
            if let Some(item) = answer.body.get_mut("item") {
                *item = Value::Null;
            }
        }
        Trouble::Large(bytes) => answer.body["padding"] = "x".repeat(*bytes).into(),
        Trouble::Deep(depth) => return deep(&answer, *depth),
    }
    json(&answer)
}

/// A refusal, with or without a word on how long it lasts.
pub(super) fn refusal(status: u16, retry_after: Option<&str>) -> Behaviour {
    match retry_after {
        Some(value) => Behaviour::retry_after(status, value),
        None => Behaviour::status(status),
    }
}

fn captcha() -> Behaviour {
    Behaviour::body(
        "text/html; charset=utf-8",
        "<!doctype html>\n<html lang=\"en\"><head><title>One moment</title></head>\n<body><h1>Are you human?</h1>\n<form method=\"post\"><label>Type the letters <input name=\"letters\"></label></form></body></html>\n",
    )
}

fn rename(body: &mut Value, name: &str, other: &str) {
    if let Some(value) = body.as_object_mut().and_then(|body| body.remove(name)) {
        body[other] = value;
    }
}

fn other_kinds(body: &mut Value) {
    if let Some(results) = body.get_mut("results") {
        let rows = results.as_array_mut().map(std::mem::take);
        let numbered = rows.unwrap_or_default().into_iter().enumerate();
        *results = numbered
            .map(|(n, row)| (n.to_string(), row))
            .collect::<Map<String, Value>>()
            .into();
    }
    if let Some(item) = body.get_mut("item") {
        *item = Value::Array(vec![item.take()]);
    }
}

fn for_results(body: &mut Value, mut change: impl FnMut(&mut Vec<Value>)) {
    if let Some(results) = body.get_mut("results").and_then(Value::as_array_mut) {
        change(results);
    }
}

fn for_rows(body: &mut Value, mut change: impl FnMut(&mut Value)) {
    for_results(body, |results| results.iter_mut().for_each(&mut change));
    if let Some(item) = body.get_mut("item") {
        change(item);
    }
}

fn broken(answer: &Answer) -> Behaviour {
    let text = answer.body.to_string().into_bytes();
    Behaviour::body("application/json", text[..text.len() / 2].to_vec())
}

fn cut(answer: &Answer) -> Behaviour {
    let text = answer.body.to_string().into_bytes();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        text.len()
    );
    Behaviour::Steps(vec![
        Step::Send(head.into()),
        Step::Send(text[..text.len() / 2].to_vec().into()),
    ])
}

/// Written by hand: what is taken apart again at the end, nest by nest, would not fit on
/// the stack.
fn deep(answer: &Answer, depth: usize) -> Behaviour {
    let mut text = answer.body.to_string();
    text.pop();
    text += ",\"nested\":";
    text += &"[".repeat(depth);
    text += &"]".repeat(depth);
    text.push('}');
    Behaviour::body("application/json", text)
}
