//! A shop with a search box: tests, the benches and a guide ask it.
//!
//! - A [`Catalogue`] holds the rows, whose prices change at rates of their own. What is
//!   true of a row when follows from the seed.
//! - A [`SearchServer`] answers keyword queries in pages, and rows by id.
//! - A [`Trouble`] is a way in which it answers badly, for some requests.
//!
//! `GET /search?q=…&page=…`, or `POST /search` with `{"q": "…", "page": 1}`:
//!
//! ```json
//! {"total": 1, "page": 1, "results": [
//!   {"key": {"id": "r000007"}, "stats": {"price": 1299, "stock": 3},
//!    "brand": "Orvela", "title": "Copper kettle", "tags": "new;free delivery"}]}
//! ```
//!
//! `GET /item/{id}`: `{"item": {…}}` with the same row.
//!
//! It knows nothing of the engine, and nothing of what a client makes of it.
//!
//! ```
//! use springtide_engine::origin::search::{Row, SearchServer, SearchSettings, Trouble};
//!
//! let server = SearchServer::start(SearchSettings {
//!     rows: vec![Row::new("a", "Orvela", "Copper kettle", &["new"])],
//!     n_rows: 100,
//!     ..SearchSettings::default()
//! })
//! .unwrap();
//! assert_eq!(server.catalogue().find("orvela \"copper kettle\""), [0]);
//! server.misbehave_next(Trouble::Captcha, 2);
//! assert!(server.search_url().ends_with("/search?q={query}&page={page}"));
//! ```

mod answer;
mod catalogue;
mod index;
mod trouble;
mod words;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use springtide_policy::Rate;

use super::{Behaviour, Network, Origin, Request, SiteSettings};
use answer::ShopHandler;
pub use catalogue::{Catalogue, Row};
pub use trouble::Trouble;

/// A shop to be served.
#[derive(Debug, Clone)]
pub struct SearchSettings {
    /// What rows, changes and ranks follow from.
    pub seed: u64,
    /// Rows that are given. They come first.
    pub rows: Vec<Row>,
    /// Rows that are drawn, after those that are given.
    pub n_rows: usize,
    /// How often rows change.
    pub rates: Rates,
    /// How much faster than ours the shop's time goes: at 86,400, a rate of one a day is
    /// a change a second.
    pub time_scale: f64,
    /// Results on a page.
    pub page_size: usize,
    /// Results that a query gives at most, on all its pages.
    pub top: usize,
    /// The number of the first page.
    pub first_page: usize,
    /// How it says how many rows a query finds.
    pub totals: Totals,
    /// What the header `x-api-key` has to hold; without one, everybody may ask.
    pub api_key: Option<String>,
    /// How often it may be asked; without one, at will.
    pub limit: Option<Limit>,
    /// How long every answer takes.
    pub latency: Duration,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            rows: Vec::new(),
            n_rows: 1000,
            rates: Rates::Drawn {
                mean: Rate::per_day(1.0).expect("one is a rate"),
            },
            time_scale: 1.0,
            page_size: 10,
            top: 100,
            first_page: 1,
            totals: Totals::Exact,
            api_key: None,
            limit: None,
            latency: Duration::ZERO,
        }
    }
}

/// How often rows change.
#[derive(Debug, Clone)]
pub enum Rates {
    /// All alike.
    Same(Rate),
    /// Each at a rate of its own, from an exponential distribution.
    Drawn {
        /// What they are on average.
        mean: Rate,
    },
    /// Each as it is given; rows beyond the last never change.
    Given(Vec<Rate>),
}

/// How a server says how many rows a query finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Totals {
    /// As it is.
    Exact,
    /// To two significant digits.
    Rounded,
    /// No more than it shows.
    Capped,
    /// Not at all.
    Absent,
}

/// A limit of so many requests in any span of a length; those beyond are refused with
/// a 429, and do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// How many requests.
    pub n: usize,
    /// In what span.
    pub span: Duration,
}

/// A shop that runs until it is dropped.
#[derive(Debug)]
pub struct SearchServer {
    origin: Origin,
    handler: Arc<ShopHandler>,
}

impl SearchServer {
    /// Serves a shop on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If there is none, or no thread.
    pub fn start(settings: SearchSettings) -> io::Result<Self> {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), settings)
    }

    /// Serves a shop at an address, which has to be one of loopback.
    ///
    /// # Errors
    /// If it is not, or is taken, or there is no thread.
    pub fn start_at(address: SocketAddr, settings: SearchSettings) -> io::Result<Self> {
        let origin = Origin::start_at(address, site(&settings))?;
        Ok(Self::on(origin, settings))
    }

    /// Serves a shop in a network, under a name, with a port or without.
    pub fn start_in(network: &Network, name: &str, settings: SearchSettings) -> Self {
        Self::on(Origin::start_in(network, name, site(&settings)), settings)
    }

    fn on(origin: Origin, settings: SearchSettings) -> Self {
        let handler = Arc::new(ShopHandler::new(settings, origin.clock()));
        let answering = handler.clone();
        origin.script_others(Behaviour::call(move |request| answering.answer(request)));
        Self { origin, handler }
    }

    /// What it sells.
    pub fn catalogue(&self) -> &Catalogue {
        self.handler.catalogue()
    }

    /// How it was set up.
    pub fn settings(&self) -> &SearchSettings {
        self.handler.settings()
    }

    /// The server below, for paths that are to behave in ways of their own.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        self.origin.url(path)
    }

    /// The URL of a query, with places for its text and the page.
    pub fn search_url(&self) -> String {
        self.url("/search?q={query}&page={page}")
    }

    /// The URL of a row, with a place for its id.
    pub fn item_url(&self) -> String {
        self.url("/item/{id}")
    }

    /// Has some requests answered badly: those with these numbers, counting searches
    /// and items from 0 since the start. Where troubles meet, the last wins.
    pub fn misbehave(&self, trouble: Trouble, requests: impl RangeBounds<u64>) {
        let range = (
            requests.start_bound().cloned(),
            requests.end_bound().cloned(),
        );
        self.handler.add_trouble(trouble, range);
    }

    /// Has the next so many requests answered badly.
    pub fn misbehave_next(&self, trouble: Trouble, n: u64) {
        let first = self.n_requests();
        self.misbehave(trouble, first..first.saturating_add(n));
    }

    /// Has all requests answered well from now on.
    pub fn behave(&self) {
        self.handler.end_troubles();
    }

    /// How many searches and items were asked for.
    pub fn n_requests(&self) -> u64 {
        self.handler.n_requests()
    }

    /// The searches and items that were asked for, in the order in which they came; no
    /// more than are remembered.
    pub fn requests(&self) -> Vec<Request> {
        let mut requests = self.origin.requests();
        requests.retain(|request| answer::is_counted(&request.path));
        requests
    }

    /// The most searches and items that were asked for in any span of a length. What is
    /// that far apart or farther is not in one span.
    pub fn most_in_span(&self, span: Duration) -> usize {
        let mut moments: Vec<SystemTime> = self
            .requests()
            .iter()
            .map(|request| request.received_at)
            .collect();
        moments.sort_unstable();
        most_in_span(&moments, span)
    }
}

/// The site below a shop, which has nothing but its latency.
fn site(settings: &SearchSettings) -> SiteSettings {
    SiteSettings {
        latency: settings.latency,
        ..SiteSettings::default()
    }
}

fn most_in_span(moments: &[SystemTime], span: Duration) -> usize {
    let mut first = 0;
    let mut most = 0;
    for (n, &last) in moments.iter().enumerate() {
        while moments[first] + span <= last {
            first += 1;
        }
        most = most.max(n + 1 - first);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_holds_its_beginning_and_not_its_end() {
        let start = SystemTime::UNIX_EPOCH;
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let moments: Vec<SystemTime> = [0, 400, 1000, 1399, 1400, 3000].map(at).to_vec();
        let most = |milliseconds| most_in_span(&moments, Duration::from_millis(milliseconds));
        assert_eq!(most(1), 1);
        assert_eq!(most(400), 2);
        assert_eq!(most(401), 3);
        assert_eq!(most(1000), 3);
        assert_eq!(most(1001), 4);
        assert_eq!(most(3001), 6);
        assert_eq!(most_in_span(&[], Duration::from_secs(1)), 0);
    }
}
