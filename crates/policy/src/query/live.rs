//! Which query to ask next, while rows grow stale: the rule for a live source.

use std::collections::BTreeMap;

use super::candidates::{Efficiency, Queries, Retrieval};
use super::rows::{Rows, TermId};
use super::server::Statistics;
use super::surplus::Surplus;
use crate::Error;

/// The choice of the next request of a search source, from moment to moment.
///
/// A query is worth the sum, over its rows, of what refreshing each is worth now,
/// times the chance that it is returned, per request:
///
/// ```text
/// Σ p(r)·w(r)·U(t − t(r)) / N(q),  r ∈ R_L(q)
/// ```
///
/// A row that another query has just returned is worth next to nothing, and one that
/// nobody has asked for in a long time much: overlaps, order and frequencies of the
/// queries come out by themselves. What a row is worth is said by whoever asks, in the
/// unit of all other polls, so that one price and one budget serve all sources.
///
/// Pages are requests of their own: what is chosen is a page. On which page of an answer
/// a row was is remembered, so a query whose third page has all that is ours costs one
/// request, however many it would take to read it all; and one that turns out to find
/// too much is left.
///
/// It does nothing by itself: it is told what was [read](Live::read) and says what is
/// [best](Live::best).
#[derive(Debug, Clone)]
pub struct Live {
    queries: Queries,
    /// How terms are written; for queries that were given none.
    rows: Rows,
    retrieval: Retrieval,
    /// Whether it was known beforehand what queries find on the server.
    is_counted: bool,
    known: BTreeMap<usize, Known>,
    /// Requests under way: a query and a page.
    under_way: Vec<(usize, u64)>,
    /// Those that came to nothing, and how often in a row.
    failed: BTreeMap<(usize, u64), u32>,
    /// What answers say of queries that were never asked.
    surplus: Surplus,
}

/// What answers have shown of a query.
#[derive(Debug, Clone)]
struct Known {
    /// What was last said, and what there must be at the least.
    total: Option<f64>,
    at_least: f64,
    places: Vec<Place>,
}

/// Where a row was in the answers to a query.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Its page, counted from 1; 0 if nobody knows.
    page: u16,
    /// If nobody does, how many pages from the first on it is not on.
    beyond: u16,
    /// How often in a row it was on none.
    n_missed: u8,
}

/// A request that could be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    /// Which query.
    pub query: usize,
    /// Which page of its answer, counted from 1.
    pub page: u64,
    /// What it is worth.
    pub value: f64,
}

/// A page of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Page<'a> {
    /// Which, counted from 1.
    pub number: u64,
    /// Our rows on it.
    pub returned: &'a [u32],
    /// How many results there are in all, if that is known.
    pub total: Option<f64>,
    /// How many there are at the least.
    pub at_least: f64,
}

/// How many times as many rows as we hold a server is taken to have when it is asked
/// which queries may matter: too many rather than too few.
const LARGE: f64 = 1000.0;

impl Live {
    /// Queries of which it is known how many rows they find on the server.
    pub fn new(queries: Queries, retrieval: Retrieval) -> Self {
        Self {
            queries,
            rows: Rows::default(),
            retrieval,
            is_counted: true,
            known: BTreeMap::new(),
            under_way: Vec::new(),
            failed: BTreeMap::new(),
            surplus: Surplus::default(),
        }
    }

    /// All queries of at most `max_terms` terms that may matter for rows of a server of
    /// which nothing is known. What queries find there is learned from those with terms
    /// of the same classes: from the same columns, say.
    ///
    /// # Errors
    ///
    /// If there are more rows than can be counted.
    pub fn about(
        rows: Rows,
        retrieval: Retrieval,
        max_terms: usize,
        class_of: impl Fn(TermId) -> u8,
    ) -> Result<Self, Error> {
        let mut statistics = Statistics::new(&rows);
        statistics.set_server_rows(LARGE * rows.len() as f64)?;
        for term in rows.term_ids() {
            let n_local = rows.with_term(term.0).len() as f64;
            statistics.count_term(term, LARGE * n_local)?;
        }
        let estimates = statistics.estimates(&rows);
        let efficiency = Efficiency::Corrected;
        let queries = Queries::about(&rows, &estimates, &retrieval, efficiency, max_terms);
        let classes: Vec<u8> = rows.term_ids().map(class_of).collect();
        let surplus = Surplus::new(&queries, &classes);
        Ok(Self {
            rows,
            is_counted: false,
            surplus,
            ..Self::new(queries, retrieval)
        })
    }

    /// The queries it chooses from.
    pub fn queries(&self) -> &Queries {
        &self.queries
    }

    /// The text of a query.
    pub fn text(&self, query: usize) -> String {
        self.queries.text(query, &self.rows)
    }

    /// How many rows a query is taken to find on the server: what was last said, else
    /// an estimate.
    ///
    /// Never less than we hold, nor less than was seen.
    pub fn n_server(&self, query: usize) -> f64 {
        let n_local = self.queries.rows(query).len() as f64;
        let known = self.known.get(&query);
        if let Some(total) = known.and_then(|known| known.total) {
            return total;
        }
        let estimate = if self.is_counted {
            self.queries.n_server(query).max(n_local)
        } else {
            n_local * self.surplus.expected(query, self.queries.term_list(query))
        };
        estimate.max(known.map_or(0.0, |known| known.at_least))
    }

    /// How many pages of an answer there are to read.
    pub fn n_pages(&self, query: usize) -> u64 {
        self.retrieval.n_requests(self.n_server(query))
    }

    /// The request that is best now, if these are what refreshing each row is worth;
    /// `None` if none is worth anything.
    ///
    /// Of queries that are worth the same the first in the order of their texts is
    /// taken. It looks at every row of every query: some milliseconds for a million.
    ///
    /// # Panics
    ///
    /// If there are not as many values as rows.
    pub fn best(&self, worth: &[f64]) -> Option<Ask> {
        let mut worth = worth.to_vec();
        self.discount_under_way(&mut worth);
        let mut best: Option<Ask> = None;
        for query in 0..self.queries.len() {
            let ask = self.weigh(query, &worth);
            if ask.value > best.map_or(0.0, |best| best.value) {
                best = Some(ask);
            }
        }
        best
    }

    /// The row that is worth most by itself, beside those that are about to come, and
    /// what it is worth: where rows can be asked for one by one, a request that returns
    /// it and nothing else.
    pub fn best_row(&self, worth: &[f64]) -> Option<(u32, f64)> {
        let mut worth = worth.to_vec();
        self.discount_under_way(&mut worth);
        let mut best = None;
        for (row, worth) in (0..).zip(worth) {
            if worth > best.map_or(0.0, |(_, most)| most) {
                best = Some((row, worth));
            }
        }
        best
    }

    /// The best request for one row: that of its queries which has it for the fewest
    /// requests.
    pub fn best_for(&self, row: u32) -> Option<Ask> {
        let mut worth = vec![0.0; self.rows.len().max(row as usize + 1)];
        worth[row as usize] = 1.0;
        let finds_it = |query: &usize| self.queries.rows(*query).binary_search(&row).is_ok();
        let asks = (0..self.queries.len()).filter(finds_it);
        asks.map(|query| self.weigh(query, &worth))
            .filter(|ask| ask.value > 0.0)
            .max_by(|one, other| one.value.total_cmp(&other.value))
    }

    /// What a query is worth a request, if these are what refreshing each row is worth.
    pub fn value(&self, query: usize, worth: &[f64]) -> f64 {
        self.weigh(query, worth).value
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// A request is made.
    pub fn begin(&mut self, query: usize, page: u64) {
        self.under_way.push((query, page));
    }

    /// A request is not made after all.
    pub fn give_up(&mut self, query: usize, page: u64) {
        self.under_way.retain(|asked| *asked != (query, page));
    }

    /// A request came to nothing: there may be something about it that the server does
    /// not like, so others are tried first.
    pub fn fail(&mut self, query: usize, page: u64) {
        self.give_up(query, page);
        *self.failed.entry((query, page)).or_default() += 1;
    }

    /// A page of an answer was read.
    pub fn read(&mut self, query: usize, page: &Page<'_>) {
        self.give_up(query, page.number);
        self.failed.remove(&(query, page.number));
        let n_rows = self.queries.rows(query).len();
        let known = self.known.entry(query).or_insert_with(|| Known {
            total: None,
            at_least: 0.0,
            places: vec![Place::default(); n_rows],
        });
        let at_least = page.at_least.max(page.returned.len() as f64);
        known.at_least = known.at_least.max(at_least);
        if let Some(total) = page
            .total
            .filter(|total| total.is_finite() && *total >= 0.0)
        {
            known.total = Some(total.max(at_least));
            known.at_least = at_least;
        }
        if known.total.is_some() {
            self.settle_surplus();
        }
        let n_pages = self.n_pages(query);
        let rows = self.queries.rows(query);
        let Some(known) = self.known.get_mut(&query) else {
            return;
        };
        let number = u16::try_from(page.number).unwrap_or(u16::MAX);
        let mut is_here = vec![false; rows.len()];
        let returned = page.returned.iter();
        for place in returned.filter_map(|row| rows.binary_search(row).ok()) {
            is_here[place] = true;
        }
        for (place, is_here) in known.places.iter_mut().zip(is_here) {
            if is_here {
                *place = Place {
                    page: number,
                    ..Place::default()
                };
                continue;
            }
            if place.page == number {
                // It has moved.
                place.page = 0;
            }
            if place.page == 0 && place.beyond.saturating_add(1) == number {
                place.beyond = number;
            }
            if place.page == 0 && u64::from(place.beyond) >= n_pages.min(MOST_PAGES as u64) {
                *place = Place {
                    n_missed: place.n_missed.saturating_add(1),
                    ..Place::default()
                };
            }
        }
    }

    /// What is to be remembered of a query, with rows by numbers of the caller's.
    pub fn remember(&self, query: usize, number_of: impl Fn(u32) -> u32) -> Vec<u8> {
        let mut bytes = vec![LAYOUT];
        let Some(known) = self.known.get(&query) else {
            return bytes;
        };
        bytes.extend(known.total.unwrap_or(f64::NAN).to_le_bytes());
        bytes.extend(known.at_least.to_le_bytes());
        for (&row, place) in self.queries.rows(query).iter().zip(&known.places) {
            if place.page > 0 || place.n_missed > 0 || place.beyond > 0 {
                bytes.extend(number_of(row).to_le_bytes());
                bytes.extend(place.page.to_le_bytes());
                bytes.extend(place.beyond.to_le_bytes());
                bytes.push(place.n_missed);
            }
        }
        bytes
    }

    /// Takes in what was remembered of queries, by their texts; rows that are no longer
    /// there have no number.
    pub fn recall<'a>(
        &mut self,
        remembered: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        row_of: impl Fn(u32) -> Option<u32>,
    ) {
        let remembered: BTreeMap<&str, &[u8]> = remembered.into_iter().collect();
        if remembered.is_empty() {
            return;
        }
        for query in 0..self.queries.len() {
            let Some(bytes) = remembered.get(self.text(query).as_str()) else {
                continue;
            };
            if let Some(known) = recalled(bytes, self.queries.rows(query), &row_of) {
                self.known.insert(query, known);
            }
        }
        self.settle_surplus();
    }

    /// Works out anew what answers say of queries that were never asked.
    fn settle_surplus(&mut self) {
        let queries = &self.queries;
        let told = self.known.iter().filter_map(|(&query, known)| {
            let n_local = queries.rows(query).len().max(1) as f64;
            Some((query, known.total? / n_local))
        });
        self.surplus.settle(queries, told);
    }

    /// Rows that are about to come are worth that much less.
    fn discount_under_way(&self, worth: &mut [f64]) {
        for &(query, page) in &self.under_way {
            let n_pages = self.n_pages(query);
            let known = self.known.get(&query);
            for (at, &row) in self.queries.rows(query).iter().enumerate() {
                let place = known.map_or_else(Place::default, |known| known.places[at]);
                let left = n_pages.saturating_sub(u64::from(place.beyond)).max(1) as f64;
                let factor = match u64::from(place.page) {
                    0 if u64::from(place.beyond) < page => 1.0 - 1.0 / left,
                    there if there == page => 0.0,
                    _ => 1.0,
                };
                worth[row as usize] *= factor;
            }
        }
    }

    /// The page of a query that is worth most.
    ///
    /// A row is on the page where it was, or else on any that it may be on; it is there
    /// at all with the chance p = min(1, K/|R_S|), halved, then a third, … for each time
    /// in a row that it was not.
    fn weigh(&self, query: usize, worth: &[f64]) -> Ask {
        let rows = self.queries.rows(query);
        let n_server = self.n_server(query);
        let n_pages = self.retrieval.n_requests(n_server);
        let chance = self.retrieval.chance(n_server);
        let is_asked = |page| self.under_way.contains(&(query, page));
        let doubt = |page| match self.failed.get(&(query, page)) {
            Some(&n) => 1.0 / f64::from(n + 1),
            None => 1.0,
        };
        let mut best = Ask {
            query,
            page: 1,
            value: 0.0,
        };
        let Some(known) = self.known.get(&query) else {
            if !is_asked(1) {
                let sum: f64 = rows.iter().map(|&row| worth[row as usize]).sum();
                best.value = doubt(1) * chance * sum / n_pages as f64;
            }
            return best;
        };
        let n_told = usize::try_from(n_pages)
            .unwrap_or(MOST_PAGES)
            .min(MOST_PAGES);
        let mut on_page = vec![0.0; n_told];
        // What may be on any page from this one on, each.
        let mut from_page = vec![0.0; n_told];
        for (&row, place) in rows.iter().zip(&known.places) {
            let expected = worth[row as usize] / f64::from(u16::from(place.n_missed) + 1);
            match on_page.get_mut(usize::from(place.page).wrapping_sub(1)) {
                Some(sum) => *sum += expected,
                None => {
                    let first = usize::from(place.beyond).min(n_told - 1);
                    from_page[first] += chance * expected / (n_pages - first as u64) as f64;
                }
            }
        }
        let mut anywhere = 0.0;
        for (page, (there, from)) in (1..).zip(on_page.into_iter().zip(from_page)) {
            anywhere += from;
            let value = doubt(page) * (there + anywhere);
            if value > best.value && !is_asked(page) {
                (best.page, best.value) = (page, value);
            }
        }
        best
    }
}

/// Pages of an answer that are told apart.
const MOST_PAGES: usize = 1000;
/// The layout of what is remembered, in its first byte.
const LAYOUT: u8 = 1;

fn recalled(bytes: &[u8], rows: &[u32], row_of: impl Fn(u32) -> Option<u32>) -> Option<Known> {
    let (&LAYOUT, bytes) = bytes.split_first()? else {
        return None;
    };
    let (total, bytes) = bytes.split_first_chunk::<8>()?;
    let (at_least, places) = bytes.split_first_chunk::<8>()?;
    let (total, at_least) = (f64::from_le_bytes(*total), f64::from_le_bytes(*at_least));
    let mut known = Known {
        total: (total.is_finite() && total >= 0.0).then_some(total),
        at_least: if at_least.is_finite() { at_least } else { 0.0 },
        places: vec![Place::default(); rows.len()],
    };
    for entry in places.chunks_exact(9) {
        let number = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let at = row_of(number).and_then(|row| rows.binary_search(&row).ok());
        if let Some(at) = at {
            known.places[at] = Place {
                page: u16::from_le_bytes([entry[4], entry[5]]),
                beyond: u16::from_le_bytes([entry[6], entry[7]]),
                n_missed: entry[8],
            };
        }
    }
    Some(known)
}

#[cfg(test)]
mod tests {
    use super::super::rows::RowsBuilder;
    use super::super::terms::{Split, StopWords, terms_in};
    use super::*;

    /// Three rows; a query for the first two, one for the last two, and one for each.
    fn live() -> Live {
        let queries: [(&[u32], f64); 5] = [
            (&[0, 1], 10.0),
            (&[1, 2], 25.0),
            (&[0], 1.0),
            (&[1], 1.0),
            (&[2], 1.0),
        ];
        Live::new(Queries::given(queries), Retrieval::USUAL)
    }

    fn titled(titles: &[&str]) -> Live {
        let mut rows = RowsBuilder::new();
        for title in titles {
            let terms = terms_in(title, Split::Words, &StopWords::english());
            rows.add(terms, 1.0).unwrap();
        }
        Live::about(rows.build(), Retrieval::USUAL, 2, |_| 0).unwrap()
    }

    fn query_of(live: &Live, text: &str) -> usize {
        let all = 0..live.queries().len();
        all.into_iter().find(|&q| live.text(q) == text).unwrap()
    }

    const EMPTY: Page<'_> = Page {
        number: 1,
        returned: &[],
        total: Some(0.0),
        at_least: 0.0,
    };

    #[test]
    fn a_query_is_worth_what_its_rows_are_worth_now() {
        let live = live();
        assert_eq!(live.best(&[0.0; 3]), None);
        let best = live.best(&[9.0, 9.0, 22.5]).unwrap();
        assert_eq!((best.query, best.page), (4, 1));
        assert_eq!(best.value, 22.5);
        // Overlaps take care of themselves.
        assert_eq!(live.best(&[9.0, 9.0, 0.0]).unwrap().query, 0);
        assert_eq!(live.best(&[0.0, 9.0, 0.0]).unwrap().query, 0);
        assert_eq!(live.best_for(2).unwrap().query, 4);
        assert_eq!(live.best_row(&[9.0, 9.5, 0.0]), Some((1, 9.5)));
        assert_eq!(live.best_row(&[0.0; 3]), None);
    }

    #[test]
    fn what_is_under_way_is_not_asked_twice() {
        let mut live = live();
        live.begin(0, 1);
        let best = live.best(&[9.0, 9.0, 1.0]).unwrap();
        assert_eq!((best.query, best.value), (4, 1.0));
        assert_eq!(live.best_row(&[9.0, 9.0, 1.0]), Some((2, 1.0)));
        live.give_up(0, 1);
        assert_eq!(live.best(&[9.0, 9.0, 1.0]).unwrap().query, 0);
        // What the server does not like is not asked again and again.
        live.fail(0, 1);
        live.fail(0, 1);
        assert_eq!(live.best(&[9.0, 9.0, 1.0]).unwrap().query, 2);
    }

    #[test]
    fn a_query_that_finds_too_much_is_left_after_its_first_page() {
        let mut live = titled(&["red boat", "red house", "red mill", "blue boat"]);
        let red = query_of(&live, "red");
        assert_eq!(live.best(&[1.0; 4]).unwrap().query, red);
        live.begin(red, 1);
        let page = Page {
            returned: &[0],
            total: Some(900.0),
            ..EMPTY
        };
        live.read(red, &page);
        // Two of ours among ninety pages, against one that is in one.
        let best = live.best(&[0.0, 1.0, 1.0, 1.0]).unwrap();
        assert_ne!(best.query, red);
        assert_eq!(live.n_server(red), 900.0);
        // The first page is worth asking again: the row was there.
        assert_eq!(live.value(red, &[1.0, 0.0, 0.0, 0.0]), 1.0);
    }

    #[test]
    fn the_page_is_asked_for_that_has_what_is_wanted() {
        let mut live = titled(&["red boat", "red boat", "red boat", "red boat"]);
        let red = query_of(&live, "red");
        let read = |live: &mut Live, number, returned: &[u32], total: Option<f64>| {
            let at_least = 10.0 * number as f64 + f64::from(u8::from(total.is_none()));
            let page = Page {
                number,
                returned,
                total,
                at_least,
            };
            live.read(red, &page);
        };
        // Nobody says how many there are: there is a page more than was read.
        read(&mut live, 1, &[0], None);
        assert_eq!(live.n_server(red), 11.0);
        read(&mut live, 1, &[0], Some(30.0));
        // Two on either of two pages: one on each.
        let ask = live.weigh(red, &[0.5, 1.0, 1.0, 0.0]);
        assert_eq!((ask.page, ask.value), (2, 1.0));
        read(&mut live, 2, &[], Some(30.0));
        let ask = live.weigh(red, &[0.5, 1.0, 1.0, 0.0]);
        assert_eq!((ask.page, ask.value), (3, 2.0));
        read(&mut live, 3, &[1, 2], Some(30.0));
        assert_eq!(live.weigh(red, &[0.0, 1.0, 1.0, 0.0]).page, 3);
        // The last was on none of them.
        let ask = live.weigh(red, &[0.0, 0.0, 0.0, 3.0]);
        assert_eq!((ask.page, ask.value), (1, 0.5));
        // What has moved may be anywhere.
        read(&mut live, 3, &[1], Some(30.0));
        assert_eq!(live.weigh(red, &[0.0, 0.0, 3.0, 0.0]).value, 1.0);
        live.begin(red, 3);
        assert_eq!(live.weigh(red, &[0.0, 1.0, 0.0, 0.0]).value, 0.0);
    }

    #[test]
    fn totals_correct_the_estimates_of_other_queries() {
        let mut live = titled(&["red boat", "red house", "red mill", "old boat", "old mill"]);
        let (red, boat) = (query_of(&live, "red"), query_of(&live, "boat"));
        assert_eq!(live.n_server(boat), 2.0);
        let page = Page {
            returned: &[0, 1, 2],
            total: Some(300.0),
            ..EMPTY
        };
        live.read(red, &page);
        // A hundred times as many, and as many: ten times as many in the middle.
        assert!((live.n_server(boat) - 20.0).abs() < 1e-9);
        // A rounded total may say less than was seen.
        let page = Page {
            total: Some(0.0),
            ..page
        };
        live.read(red, &page);
        assert_eq!(live.n_server(red), 3.0);
    }

    #[test]
    fn a_row_that_is_not_returned_is_worth_less_there() {
        let mut live = live();
        assert_eq!(live.best(&[0.0, 1.0, 3.0]).unwrap().query, 4);
        live.read(4, &EMPTY);
        live.read(4, &EMPTY);
        let best = live.best(&[0.0, 1.0, 3.0]).unwrap();
        assert_eq!(best.query, 1);
    }

    #[test]
    fn what_was_seen_of_queries_is_remembered_by_their_texts() {
        let titles = ["red boat", "red house", "red mill", "blue boat"];
        let mut before = titled(&titles);
        let red = query_of(&before, "red");
        let page = Page {
            returned: &[0, 2],
            total: Some(45.0),
            ..EMPTY
        };
        before.read(red, &page);
        let bytes = before.remember(red, |row| row + 100);
        let mut after = titled(&["blue boat", "red mill", "red house", "red boat"]);
        let row_of = |number: u32| Some(103 - number);
        after.recall([("red", &bytes[..]), ("gone", &[1][..])], row_of);
        let red = query_of(&after, "red");
        assert_eq!(after.n_server(red), 45.0);
        let (worth, other) = ([0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]);
        assert_eq!(after.weigh(red, &worth).value, 1.0);
        assert_eq!(after.weigh(red, &other).page, 2);
        // Bytes that make no sense are no memory.
        after.recall([("red", &[9, 9][..])], row_of);
        assert_eq!(after.n_server(red), 45.0);
    }
}
