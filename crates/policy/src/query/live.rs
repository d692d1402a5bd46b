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
    known: BTreeMap<usize, QueryRecord>,
    /// Requests under way: a query and a page.
    under_way: Vec<(usize, u64)>,
    /// Those that came to nothing, and how often in a row.
    failed: BTreeMap<(usize, u64), u32>,
    /// What answers say of queries that were never asked.
    surplus: Surplus,
    /// How many rows a term finds, if that was told: queries with others besides find no
    /// more.
    ceilings: Vec<f64>,
}

/// What answers have shown of a query.
#[derive(Debug, Clone)]
struct QueryRecord {
    /// What was last said, and what there must be at the least.
    total: Option<f64>,
    at_least: f64,
    places: Vec<RowPlace>,
    /// Pages that were read at least once, a bit each.
    read: Vec<u64>,
}

impl QueryRecord {
    fn new(n_rows: usize) -> Self {
        Self {
            total: None,
            at_least: 0.0,
            places: vec![RowPlace::default(); n_rows],
            read: Vec::new(),
        }
    }

    fn note_read(&mut self, page: u16) {
        let (word, bit) = (usize::from(page) / 64, page % 64);
        if self.read.len() <= word {
            self.read.resize(word + 1, 0);
        }
        self.read[word] |= 1 << bit;
    }

    /// How many rows of ours are known to be where.
    fn n_found(&self) -> usize {
        self.places.iter().filter(|place| place.page > 0).count()
    }

    /// How many results there are, if nobody says: as many for each of ours that was not
    /// found as for each that was.
    fn guess(&self, page_size: u64) -> Option<f64> {
        let n_read: u32 = self.read.iter().map(|word| word.count_ones()).sum();
        let ratio = (self.places.len() + 1) as f64 / (self.n_found() + 1) as f64;
        let guess = f64::from(n_read) * page_size as f64 * ratio;
        (n_read > 0).then(|| guess.max(self.at_least))
    }
}

/// Where a row was in the answers to a query.
#[derive(Debug, Clone, Copy, Default)]
struct RowPlace {
    /// Its page, counted from 1; 0 if nobody knows.
    page: u16,
    /// If nobody does, how many pages from the first on it is not on.
    beyond: u16,
    /// Pages read out of order that it is not on either: bit k is page `beyond + 2 + k`.
    ahead: u64,
    /// How often in a row it was on none.
    n_missed: u8,
}

impl RowPlace {
    /// It is not on a page.
    fn rule_out(&mut self, page: u16) {
        let ahead = i32::from(page) - i32::from(self.beyond) - 2;
        match ahead {
            -1 => {
                // What follows without a gap belongs to the beginning.
                let n = self.ahead.trailing_ones();
                self.beyond = self.beyond.saturating_add(1 + n as u16);
                self.ahead = self.ahead.checked_shr(n + 1).unwrap_or(0);
            }
            0..64 => self.ahead |= 1 << ahead,
            _ => {}
        }
    }

    /// The pages beyond the first ones that it is not on either, counted from 1.
    fn gaps(self) -> impl Iterator<Item = u64> {
        let mut left = self.ahead;
        std::iter::from_fn(move || {
            let next = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (next < 64).then(|| u64::from(self.beyond) + 2 + u64::from(next))
        })
    }

    /// How many of so many pages it may be on, if it is not known where.
    fn n_left(self, n_pages: u64) -> u64 {
        let n_gaps = self.gaps().filter(|page| *page <= n_pages).count() as u64;
        n_pages
            .saturating_sub(u64::from(self.beyond))
            .saturating_sub(n_gaps)
    }

    /// The chance that it is on one of the pages it may be on, each, if it is on any of
    /// all pages with this chance; and which those are.
    ///
    /// That it was not on the others makes it likelier that it is on none:
    ///
    /// ```text
    /// p / (n − p·(n − m)),   m of n pages left
    /// ```
    fn hope(mut self, n_pages: u64, chance: f64) -> (f64, Self) {
        let mut n_left = self.n_left(n_pages);
        if n_left == 0 {
            (self.beyond, self.ahead) = (0, 0);
            n_left = n_pages;
        }
        let (all, left) = (n_pages as f64, n_left as f64);
        let hope = chance / (all - chance * (all - left));
        (hope / (f64::from(self.n_missed) + 1.0), self)
    }
}

/// The page of a query that is worth most, or of all queries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestPage {
    /// Which query.
    pub query: usize,
    /// Which page of its answer, counted from 1.
    pub page: u64,
    /// What it is worth.
    pub value: f64,
}

/// A page of an answer, as it was read.
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
            ceilings: Vec::new(),
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
        let ceilings = vec![f64::INFINITY; classes.len()];
        let surplus = Surplus::new(&queries, &classes);
        Ok(Self {
            rows,
            is_counted: false,
            surplus,
            ceilings,
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
    /// Where nobody says, never less than we hold, nor less than was seen, unless one of
    /// its terms finds less.
    pub fn n_server(&self, query: usize) -> f64 {
        let n_local = self.queries.rows(query).len() as f64;
        let known = self.known.get(&query);
        if let Some(total) = known.and_then(|known| known.total) {
            return total;
        }
        if self.is_counted {
            let at_least = known.map_or(0.0, |known| known.at_least);
            return self.queries.n_server(query).max(n_local).max(at_least);
        }
        let terms = self.queries.term_list(query);
        let guess = known.and_then(|known| known.guess(self.retrieval.page_size()));
        let guess = guess.unwrap_or_else(|| n_local * self.surplus.expected(query, terms));
        let ceilings = terms.iter().map(|&term| self.ceilings[term as usize]);
        ceilings.fold(guess, f64::min)
    }

    /// Of an answer: on how many pages it is, and the chance that a row of ours is on any
    /// of them that was on none so far.
    ///
    /// ```text
    /// min(1, K/|R_S|), and not more rows than it has results
    /// ```
    fn outlook(&self, query: usize) -> (u64, f64) {
        let n_server = self.n_server(query);
        let n_local = self.queries.rows(query).len();
        let n_found = self.known.get(&query).map_or(0, QueryRecord::n_found);
        let n_missing = n_local.saturating_sub(n_found).max(1);
        // A half, since nothing is certain.
        let room = (self.retrieval.most(n_server) - n_found as f64).max(0.0) + 0.5;
        let chance = self.retrieval.chance(n_server);
        let n_pages = self.retrieval.n_requests(n_server);
        (n_pages, chance.min(room / n_missing as f64))
    }

    /// How many pages of an answer there are to read.
    pub fn n_pages(&self, query: usize) -> u64 {
        self.outlook(query).0
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
    pub fn best(&self, worth: &[f64]) -> Option<BestPage> {
        let mut worth = worth.to_vec();
        self.discount_under_way(&mut worth);
        let mut best: Option<BestPage> = None;
        for query in 0..self.queries.len() {
            let page = self.weigh(query, &worth);
            if page.value > best.map_or(0.0, |best| best.value) {
                best = Some(page);
            }
        }
        best
    }

    /// The row that is worth most by itself, beside those that are about to come, and
    /// what it is worth.
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
    pub fn best_for(&self, row: u32) -> Option<BestPage> {
        let queries = 0..self.queries.len();
        let last_rows = queries.clone().map(|query| self.queries.rows(query).last());
        let n_rows = last_rows.flatten().max()? + 1;
        let mut worth = vec![0.0; n_rows.max(row + 1) as usize];
        worth[row as usize] = 1.0;
        let finds_it = |query: &usize| self.queries.rows(*query).binary_search(&row).is_ok();
        queries
            .filter(finds_it)
            .map(|query| self.weigh(query, &worth))
            .filter(|page| page.value > 0.0)
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
        let known = self
            .known
            .entry(query)
            .or_insert_with(|| QueryRecord::new(n_rows));
        let at_least = page.at_least.max(page.returned.len() as f64);
        known.at_least = known.at_least.max(at_least);
        if let Some(total) = page
            .total
            .filter(|total| total.is_finite() && *total >= 0.0)
        {
            known.total = Some(total.max(at_least));
            known.at_least = at_least;
            lower(&mut self.ceilings, self.queries.term_list(query), known);
        }
        let number = u16::try_from(page.number).unwrap_or(u16::MAX);
        known.note_read(number);
        let rows = self.queries.rows(query);
        let mut is_here = vec![false; rows.len()];
        let returned = page.returned.iter();
        for place in returned.filter_map(|row| rows.binary_search(row).ok()) {
            is_here[place] = true;
        }
        for (place, is_here) in known.places.iter_mut().zip(is_here) {
            if is_here {
                *place = RowPlace {
                    page: number,
                    ..RowPlace::default()
                };
            } else if place.page == number {
                // It has moved.
                *place = RowPlace::default();
                place.rule_out(number);
            } else if place.page == 0 {
                place.rule_out(number);
            }
        }
        self.settle_surplus();
        let n_pages = self.n_pages(query).min(MOST_PAGES as u64);
        let known = self.known.get_mut(&query);
        for place in known.into_iter().flat_map(|known| &mut known.places) {
            if place.page == 0 && place.n_left(n_pages) == 0 {
                *place = RowPlace {
                    n_missed: place.n_missed.saturating_add(1),
                    ..RowPlace::default()
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
        bytes.extend((known.read.len() as u16).to_le_bytes());
        bytes.extend(known.read.iter().flat_map(|word| word.to_le_bytes()));
        for (&row, place) in self.queries.rows(query).iter().zip(&known.places) {
            let is_nothing =
                (place.page, place.beyond, place.ahead, place.n_missed) == (0, 0, 0, 0);
            if !is_nothing {
                bytes.extend(number_of(row).to_le_bytes());
                bytes.extend(place.page.to_le_bytes());
                bytes.extend(place.beyond.to_le_bytes());
                bytes.extend(place.ahead.to_le_bytes());
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
                lower(&mut self.ceilings, self.queries.term_list(query), &known);
                self.known.insert(query, known);
            }
        }
        self.settle_surplus();
    }

    /// Works out anew what answers say of queries that were never asked.
    fn settle_surplus(&mut self) {
        let queries = &self.queries;
        let page_size = self.retrieval.page_size();
        let told = self.known.iter().filter_map(|(&query, known)| {
            let n_local = queries.rows(query).len().max(1) as f64;
            let total = known.total.or_else(|| known.guess(page_size))?;
            Some((query, total / n_local))
        });
        self.surplus.settle(queries, told);
    }

    /// Rows that are about to come are worth that much less.
    fn discount_under_way(&self, worth: &mut [f64]) {
        for &(query, page) in &self.under_way {
            let (n_pages, chance) = self.outlook(query);
            let known = self.known.get(&query);
            for (at, &row) in self.queries.rows(query).iter().enumerate() {
                let place = known.map_or_else(RowPlace::default, |known| known.places[at]);
                let (hope, place) = match place.page {
                    0 => place.hope(n_pages, chance),
                    there => (f64::from(u8::from(u64::from(there) == page)), place),
                };
                let may_be_there =
                    u64::from(place.beyond) < page && place.gaps().all(|gap| gap != page);
                if may_be_there {
                    worth[row as usize] *= 1.0 - hope;
                }
            }
        }
    }

    /// The page of a query that is worth most.
    ///
    /// A row is on the page where it was, or else on any where it was not missing; it is
    /// there at all with the chance p = min(1, K/|R_S|), halved, then a third, … for each
    /// time that it was on none of them.
    fn weigh(&self, query: usize, worth: &[f64]) -> BestPage {
        let rows = self.queries.rows(query);
        let (n_pages, chance) = self.outlook(query);
        let is_asked = |page| self.under_way.contains(&(query, page));
        let doubt = |page| match self.failed.get(&(query, page)) {
            Some(&n) => 1.0 / f64::from(n + 1),
            None => 1.0,
        };
        let mut best = BestPage {
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
            let worth = worth[row as usize];
            if let Some(sum) = on_page.get_mut(usize::from(place.page).wrapping_sub(1)) {
                *sum += worth;
                continue;
            }
            let (hope, place) = place.hope(n_pages, chance);
            from_page[usize::from(place.beyond).min(n_told - 1)] += hope * worth;
            for gap in place.gaps().take_while(|gap| *gap <= n_told as u64) {
                on_page[gap as usize - 1] -= hope * worth;
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

/// No query with this term finds more than the term does by itself.
fn lower(ceilings: &mut [f64], terms: &[u32], known: &QueryRecord) {
    if let ([term], Some(total)) = (terms, known.total)
        && let Some(ceiling) = ceilings.get_mut(*term as usize)
    {
        *ceiling = total;
    }
}

/// Pages of an answer that are told apart.
const MOST_PAGES: usize = 1000;
/// The layout of what is remembered, in its first byte.
const LAYOUT: u8 = 2;

fn recalled(
    bytes: &[u8],
    rows: &[u32],
    row_of: impl Fn(u32) -> Option<u32>,
) -> Option<QueryRecord> {
    let (&LAYOUT, bytes) = bytes.split_first()? else {
        return None;
    };
    let (total, bytes) = bytes.split_first_chunk::<8>()?;
    let (at_least, bytes) = bytes.split_first_chunk::<8>()?;
    let (n_words, bytes) = bytes.split_first_chunk::<2>()?;
    let n_words = usize::from(u16::from_le_bytes(*n_words));
    let (read, places) = bytes.split_at_checked(8 * n_words)?;
    let (total, at_least) = (f64::from_le_bytes(*total), f64::from_le_bytes(*at_least));
    let mut known = QueryRecord {
        total: (total.is_finite() && total >= 0.0).then_some(total),
        at_least: if at_least.is_finite() { at_least } else { 0.0 },
        places: vec![RowPlace::default(); rows.len()],
        read: read
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect(),
    };
    for entry in places.as_chunks::<17>().0 {
        let [n0, n1, n2, n3, p0, p1, b0, b1, ahead @ .., n_missed] = *entry;
        let number = u32::from_le_bytes([n0, n1, n2, n3]);
        let at = row_of(number).and_then(|row| rows.binary_search(&row).ok());
        if let Some(at) = at {
            known.places[at] = RowPlace {
                page: u16::from_le_bytes([p0, p1]),
                beyond: u16::from_le_bytes([b0, b1]),
                ahead: u64::from_le_bytes(ahead),
                n_missed,
            };
        }
    }
    Some(known)
}

#[cfg(test)]
mod tests {
    use super::super::candidates::Method;
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
        assert_eq!(live.best_for(0).unwrap().query, 2);
        assert_eq!(live.best_for(3), None);
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
        // Nobody says how many there are: ten with one of our four and one more, so to say,
        // of five.
        read(&mut live, 1, &[0], None);
        assert_eq!(live.n_server(red), 25.0);
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
        // What has moved may be anywhere else.
        read(&mut live, 3, &[1], Some(30.0));
        assert_eq!(live.weigh(red, &[0.0, 0.0, 3.0, 0.0]).value, 1.5);
        live.begin(red, 3);
        assert_eq!(live.weigh(red, &[0.0, 1.0, 0.0, 0.0]).value, 0.0);
    }

    #[test]
    fn pages_that_brought_nothing_lose_their_worth() {
        let mut live = titled(&["red boat"; 30]);
        let red = query_of(&live, "red");
        // The server shows thirty of very many, and does not say so.
        live.retrieval = Retrieval::new(10, 30, Method::AllPages).unwrap();
        let mut n_vain = [0; 3];
        for _ in 0..60 {
            // Nothing is where it was.
            let ask = live.weigh(red, &[1.0; 30]);
            n_vain[ask.page as usize - 1] += 1;
            let page = Page {
                number: ask.page,
                at_least: 30.0,
                total: None,
                ..EMPTY
            };
            live.read(red, &page);
        }
        // Each page as often as the others, and less and less is hoped for.
        assert_eq!(n_vain, [20; 3]);
        let chance = 30.0 / live.n_server(red);
        let ask = live.weigh(red, &[1.0; 30]);
        assert!(
            (ask.value - 30.0 * chance / 3.0 / 21.0).abs() < 1e-9,
            "{ask:?}"
        );
    }

    #[test]
    fn an_endless_answer_is_not_read_to_its_end() {
        let mut live = titled(&["red boat", "red house", "red mill", "old boat", "old mill"]);
        let red = query_of(&live, "red");
        let mut values = Vec::new();
        for number in 1..=40 {
            let page = Page {
                number,
                returned: &[],
                total: None,
                at_least: 10.0 * number as f64 + 1.0,
            };
            live.read(red, &page);
            values.push(live.value(red, &[1.0; 5]));
        }
        // Rows of ours are as rare as it was long to look for them.
        assert!(
            values[0] <= 1.0 && values.is_sorted_by(|a, b| a > b),
            "{values:?}"
        );
        assert!(values[39] < 0.03, "{values:?}");
    }

    #[test]
    fn a_word_that_the_server_does_not_know_is_worth_little_with_any_other() {
        let titles = [["red boat"; 5], ["old boat"; 5], ["red mill"; 5]].concat();
        let mut live = titled(&titles);
        let (red, both) = (query_of(&live, "red"), query_of(&live, "boat red"));
        let worth = [1.0; 15];
        assert_eq!(
            (live.value(red, &worth), live.value(both, &worth)),
            (10.0, 5.0)
        );
        live.read(red, &EMPTY);
        // It has no results, so none of ours, unless it was wrong.
        assert!((live.value(red, &worth) - 0.25).abs() < 1e-12);
        assert_eq!(live.value(both, &worth), 0.5);
        assert_eq!(live.best(&worth).unwrap().query, query_of(&live, "boat"));
        let page = Page {
            total: Some(5.0),
            returned: &[1, 2, 3, 4],
            ..EMPTY
        };
        live.read(red, &page);
        assert_eq!(live.outlook(red), (1, 1.5 / 6.0));
    }

    #[test]
    fn pages_out_of_order_are_ruled_out_too() {
        let mut place = RowPlace::default();
        for page in [3, 4, 7, 90, 1] {
            place.rule_out(page);
        }
        assert_eq!((place.beyond, place.n_left(10)), (1, 6));
        assert_eq!(place.gaps().collect::<Vec<u64>>(), [3, 4, 7]);
        // On one of six of ten, if it is on any.
        assert!((place.hope(10, 1.0).0 - 1.0 / 6.0).abs() < 1e-12);
        assert!((place.hope(10, 0.5).0 - 0.05 / 0.8).abs() < 1e-12);
        place.rule_out(2);
        assert_eq!((place.beyond, place.n_left(10)), (4, 5));
        assert_eq!(place.gaps().collect::<Vec<u64>>(), [7]);
        for page in 5..=70 {
            place.rule_out(page);
        }
        assert_eq!((place.beyond, place.ahead), (70, 0));
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
