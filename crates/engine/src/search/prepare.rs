//! What a search source needs before it can be asked, made away from the loop: what its
//! copies say, and its queries.

use std::collections::HashMap;
use std::sync::Arc;

use springtide_policy::agenda::rows::Differences;
use springtide_policy::query::{Live, RowsBuilder, StopWords, TermId, terms_in};
use springtide_store::{Bodies, BodyId};

use super::answer::Row as ServerRow;
use super::{Held, RowNews, SearchContext, set_cells};

/// Terms of a row that are used.
const MOST_TERMS_OF_A_ROW: usize = 64;
/// Terms in a query.
const MOST_TERMS: usize = 2;
/// A term that is longer, in bytes, is none.
const LONGEST_TERM: usize = 200;

/// All that is prepared away from the loop.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) generation: u32,
    pub(super) live: Live,
    /// What copies say, by row, the first time.
    pub(super) row_news: Vec<Option<RowNews>>,
    /// How far versions were apart, by row, the first time.
    pub(super) differences: Vec<Differences>,
}

/// What there is to prepare.
#[derive(Debug)]
pub(crate) struct Preparation {
    pub(super) context: Arc<SearchContext>,
    pub(super) generation: u32,
    pub(super) cells: Vec<Vec<String>>,
    /// Nothing, if it has been read.
    pub(super) kept: Vec<RowCopies>,
}

/// What is kept of a row.
#[derive(Debug)]
pub(super) struct RowCopies {
    pub(super) copy: Option<([u8; 32], BodyId)>,
    /// Its versions, in order.
    pub(super) versions: Vec<BodyId>,
}

impl Preparation {
    /// Reads copies, as far as they have to be read, and makes up queries.
    pub(crate) fn prepare(mut self, bodies: &Bodies) -> Result<Prepared, springtide_policy::Error> {
        let mut row_news: Vec<Option<RowNews>> = Vec::with_capacity(self.kept.len());
        let mut differences = Vec::with_capacity(self.kept.len());
        for (kept, cells) in self.kept.iter().zip(&mut self.cells) {
            let news = kept
                .copy
                .and_then(|(digest, body)| self.context.read(digest, body, bodies));
            if let Some(news) = &news {
                set_cells(cells, &news.cells);
            }
            row_news.push(news);
            differences.push(self.context.differences_of(&kept.versions, bodies));
        }
        let stop_words = StopWords::english();
        let mut rows = RowsBuilder::new();
        let mut columns: HashMap<String, u8> = HashMap::new();
        for cells in &self.cells {
            let mut terms = Vec::new();
            for (column, (cell, (_, split))) in
                (0..).zip(cells.iter().zip(&self.context.search.attributes))
            {
                let terms_of = terms_in(cell, *split, &stop_words).into_iter();
                // What is longer makes no query, nor an address.
                for term in terms_of.filter(|term| term.written.len() <= LONGEST_TERM) {
                    columns.entry(term.key.clone()).or_insert(column);
                    terms.push(term);
                }
            }
            terms.truncate(MOST_TERMS_OF_A_ROW);
            rows.add(terms, 1.0)?;
        }
        let rows = rows.build();
        let mut classes = vec![0; rows.n_terms()];
        for (key, column) in columns {
            if let Some(term) = rows.term(&key) {
                classes[term.0 as usize] = column;
            }
        }
        let class_of = |term: TermId| classes[term.0 as usize];
        Ok(Prepared {
            generation: self.generation,
            live: Live::about(rows, self.context.retrieval(), MOST_TERMS, class_of)?,
            row_news,
            differences,
        })
    }
}

impl SearchContext {
    /// What a copy says.
    fn read(&self, digest: [u8; 32], body: BodyId, bodies: &Bodies) -> Option<RowNews> {
        let body = bodies.get(body).ok()?;
        let fields = serde_json::from_slice::<serde_json::Value>(&body).ok()?;
        let serde_json::Value::Object(fields) = fields else {
            return None;
        };
        let row = ServerRow {
            id: String::new(),
            fields,
            body,
        };
        Some(self.news(&row, digest, &Held::default()))
    }

    /// How far versions of a row are apart, each from the one before it.
    fn differences_of(&self, versions: &[BodyId], bodies: &Bodies) -> Differences {
        let mut differences = Differences::default();
        let mut before = None;
        for &version in versions {
            let news = self.read([0; 32], version, bodies);
            let value = news.and_then(|news| news.value);
            differences.add(self.difference(before.as_deref(), value.as_deref()));
            before = value;
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use springtide_policy::{Objective, Span};
    use springtide_store::{ElementId, Moment, SourceKind};

    use super::super::rows::FileRows;
    use super::super::{HeldRow, Search};
    use super::*;
    use crate::settings::{
        AnswerShape, Difference, Headers, RowWeight, SearchSettings, SourceSettings, Staleness,
    };

    fn settings() -> (SourceSettings, SearchSettings) {
        let source = SourceSettings {
            name: "shop".to_owned(),
            kind: SourceKind::Search,
            url: "http://127.0.0.1:1/search?q={query}".to_owned(),
            file: None,
            list: Default::default(),
            is_paused: false,
            weight: 1.0,
            list_every: None,
            keep: Vec::new(),
            drop: Vec::new(),
            max_elements: 100,
            max_depth: 5,
            entries: crate::settings::FeedEntries::Pages,
            allow_private: None,
            retain: Default::default(),
            search: None,
            table: None,
        };
        let search = SearchSettings {
            body: None,
            rows: "rows.csv".into(),
            attributes: Vec::new(),
            page_size: 10,
            first_page: 1,
            top: 100,
            quota: None,
            by_id: None,
            max_interval: None,
            pause: Span::ZERO,
            adds_unknown: false,
            answer: AnswerShape {
                results: String::new(),
                id: "/id".to_owned(),
                total: None,
                item: None,
                fields: vec![("price".to_owned(), "/price".to_owned())],
            },
            staleness: Some(Staleness {
                field: "price".to_owned(),
                difference: Difference::Absolute,
                weight: RowWeight::Number(1.0),
            }),
            headers: Headers::default(),
        };
        (source, search)
    }

    #[test]
    fn how_far_rows_move_is_learned_again_from_their_versions() {
        let folder = tempfile::tempdir().unwrap();
        let bodies = Bodies::open(folder.path()).unwrap();
        let put = |price: &str| bodies.put(format!(r#"{{"price":{price}}}"#).as_bytes());
        let row = |id: u32, prices: &[&str]| HeldRow {
            element: ElementId(id),
            id: id.to_string(),
            weight: 1.0,
            synced_at: Some(Moment(1)),
            added_at: Moment(0),
            is_out: false,
            copy: None,
            versions: prices.iter().map(|price| put(price).unwrap()).collect(),
        };
        let known = vec![
            row(1, &["10", "40", "40", "\"sold\"", "5", "15"]),
            row(2, &["10", "8"]),
            row(3, &["10"]),
        ];
        let (source, search) = settings();
        let file = FileRows::default();
        let (search_box, usual) = (ElementId(0), Objective::Freshness);
        let (mut search, mut decisions, preparation) =
            Search::new(source, search, search_box, known, &file, usual);
        search.install(&mut decisions, preparation.prepare(&bodies).unwrap(), []);
        // 30, 1 for what is no number, twice, and 10; then 2.
        let usual = (30.0 + 1.0 + 1.0 + 10.0 + 2.0) / 5.0;
        let means = [1, 2, 3].map(|row| decisions.mean_difference(ElementId(row)).unwrap());
        let expected = [(42.0 + 2.0 * usual) / 6.0, (2.0 + 2.0 * usual) / 3.0, usual];
        assert_eq!(means, expected);
    }
}
