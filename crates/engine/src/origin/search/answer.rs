//! What is said to whom: from a request to an answer.

use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use serde_json::{Value, json};
use url::form_urlencoded;

use super::trouble::{distorted, refusal};
use super::{Catalogue, Limit, Row, SearchSettings, Totals, Trouble};
use crate::clock::Clock;
use crate::origin::{Behaviour, Request};

/// Where requests are answered.
#[derive(Debug)]
pub(super) struct ShopHandler {
    settings: SearchSettings,
    catalogue: Catalogue,
    n_requests: AtomicU64,
    troubles: RwLock<Vec<(Trouble, Numbers)>>,
    /// When requests were let in, as far back as the limit reaches.
    let_in: Mutex<Vec<SystemTime>>,
}

/// Numbers of requests.
type Numbers = (Bound<u64>, Bound<u64>);

/// An answer in JSON.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

/// An answer as it is sent.
pub(super) fn json(answer: &Answer) -> Behaviour {
    let mut behaviour = Behaviour::body("application/json", answer.body.to_string());
    if let Behaviour::Reply(reply) = &mut behaviour {
        reply.status = answer.status;
    }
    behaviour
}

/// Whether a path is that of a search or an item.
pub(super) fn is_counted(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    path == "/search" || path.starts_with("/item/")
}

impl ShopHandler {
    pub(super) fn new(settings: SearchSettings, clock: Clock) -> Self {
        Self {
            catalogue: Catalogue::new(&settings, clock),
            settings,
            n_requests: AtomicU64::new(0),
            troubles: RwLock::default(),
            let_in: Mutex::default(),
        }
    }

    pub(super) fn settings(&self) -> &SearchSettings {
        &self.settings
    }

    pub(super) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    pub(super) fn n_requests(&self) -> u64 {
        self.n_requests.load(Ordering::Relaxed)
    }

    pub(super) fn add_trouble(&self, trouble: Trouble, numbers: Numbers) {
        self.troubles
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push((trouble, numbers));
    }

    pub(super) fn end_troubles(&self) {
        self.troubles
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// What a request is answered with.
    pub(super) fn answer(&self, request: &Request) -> Behaviour {
        if !is_counted(&request.path) {
            return Behaviour::status(404);
        }
        let number = self.n_requests.fetch_add(1, Ordering::Relaxed);
        if let Some(wait) = self.refused_for(request.received_at) {
            return refusal(429, Some(&wait.to_string()));
        }
        if !self.has_key(request) {
            return json(&failure(401, "no key, or not one of ours"));
        }
        match self.trouble(number) {
            Some(trouble @ Trouble::Restless) => {
                distorted(&trouble, self.found(request, number + 1))
            }
            Some(trouble) => distorted(&trouble, self.found(request, 0)),
            None => json(&self.found(request, 0)),
        }
    }

    /// For how many seconds, rounded up, a request at a moment is refused; nothing, if it
    /// is let in.
    fn refused_for(&self, now: SystemTime) -> Option<u64> {
        let Limit { n, span } = self.settings.limit?;
        let mut let_in = self.let_in.lock().unwrap_or_else(PoisonError::into_inner);
        let_in.retain(|&at| at + span > now);
        if let_in.len() < n {
            let_in.push(now);
            return None;
        }
        let first = let_in.iter().min().copied().unwrap_or(now);
        let wait = (first + span).duration_since(now).unwrap_or_default();
        Some(wait.as_secs_f64().ceil() as u64)
    }

    fn has_key(&self, request: &Request) -> bool {
        self.settings.api_key.as_ref().is_none_or(|key| {
            request
                .headers
                .iter()
                .any(|(name, value)| name == "x-api-key" && value == key)
        })
    }

    fn trouble(&self, number: u64) -> Option<Trouble> {
        let troubles = self.troubles.read().unwrap_or_else(PoisonError::into_inner);
        let mut latest_first = troubles.iter().rev();
        let (trouble, _) = latest_first.find(|(_, numbers)| numbers.contains(&number))?;
        Some(trouble.clone())
    }

    fn found(&self, request: &Request, salt: u64) -> Answer {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        if let Some(id) = path.strip_prefix("/item/") {
            return match request.method.as_str() {
                "GET" => self.item(id, request.received_at),
                _ => failure(405, "items are for GET"),
            };
        }
        let asked = match request.method.as_str() {
            "GET" => Asked::in_address(query),
            "POST" => Asked::in_body(&request.body),
            _ => return failure(405, "searches are for GET and POST"),
        };
        match asked {
            Some(asked) => self.page(&asked, request.received_at, salt),
            None => failure(400, "a search has q, and page, which is a number"),
        }
    }

    fn item(&self, id: &str, at: SystemTime) -> Answer {
        let row = unescaped(id)
            .and_then(|id| self.catalogue.number(&id))
            .filter(|&row| self.catalogue.is_there(row));
        match row {
            Some(row) => Answer {
                status: 200,
                body: json!({ "item": result(&self.catalogue.row_at(row, at)) }),
            },
            None => failure(404, "no such item"),
        }
    }

    fn page(&self, asked: &Asked, at: SystemTime, salt: u64) -> Answer {
        let settings = &self.settings;
        let page = asked.page.unwrap_or(settings.first_page);
        let Some(number) = page.checked_sub(settings.first_page) else {
            return failure(400, "no such page");
        };
        let (total, rows) = self.catalogue.best(&asked.query, settings.top, salt);
        let results: Vec<Value> = rows
            .iter()
            .skip(number.saturating_mul(settings.page_size))
            .take(settings.page_size)
            .map(|&row| result(&self.catalogue.row_at(row, at)))
            .collect();
        let mut body = json!({ "page": page, "results": results });
        let total = match settings.totals {
            Totals::Exact => Some(total),
            Totals::Rounded => Some(rounded(total)),
            Totals::Capped => Some(total.min(settings.top)),
            Totals::Absent => None,
        };
        if let Some(total) = total {
            body["total"] = total.into();
        }
        Answer { status: 200, body }
    }
}

/// A search.
struct Asked {
    query: String,
    page: Option<usize>,
}

impl Asked {
    fn in_address(parameters: &str) -> Option<Self> {
        let (mut query, mut page) = (None, None);
        for (name, value) in form_urlencoded::parse(parameters.as_bytes()) {
            match &*name {
                "q" => query = Some(value.into_owned()),
                "page" => page = Some(value.parse().ok()?),
                _ => {}
            }
        }
        Some(Self {
            query: query?,
            page,
        })
    }

    fn in_body(body: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let page = match body.get("page") {
            Some(page) => Some(usize::try_from(page.as_u64()?).ok()?),
            None => None,
        };
        Some(Self {
            query: body.get("q")?.as_str()?.to_owned(),
            page,
        })
    }
}

/// A row as it is shown.
fn result(row: &Row) -> Value {
    json!({
        "key": { "id": row.id },
        "stats": { "price": row.price, "stock": row.stock },
        "brand": row.brand,
        "title": row.title,
        "tags": row.tags.join(";"),
    })
}

fn failure(status: u16, message: &str) -> Answer {
    Answer {
        status,
        body: json!({ "error": message }),
    }
}

/// A number to two significant digits.
fn rounded(n: usize) -> usize {
    let digits = n.checked_ilog10().unwrap_or(0);
    let unit = 10_usize.pow(digits.saturating_sub(1));
    (n + unit / 2) / unit * unit
}

/// A part of a path without its percent signs.
fn unescaped(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(u8::from_str_radix(after.get(..2)?, 16).ok()?);
        rest = &after[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_keep_two_digits() {
        let numbers = [0, 7, 99, 104, 105, 995, 1249, 1250, 123_456];
        let expected = [0, 7, 99, 100, 110, 1000, 1200, 1300, 120_000];
        assert_eq!(numbers.map(rounded), expected);
    }

    #[test]
    fn ids_may_hold_anything() {
        assert_eq!(unescaped("r000%20x%C3%A9+"), Some("r000 xé+".to_owned()));
        for part in ["%", "%2", "%zz", "%C3"] {
            assert_eq!(unescaped(part), None, "{part}");
        }
    }
}
