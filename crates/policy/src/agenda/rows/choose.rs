//! What to ask next, and what it is worth.

use super::row::{MOST_MISSES_WITH_ID, Row};
use super::{Bid, PageRequest, RowState, SearchRequest, SearchSource, Settings, WorthOf};
use crate::query::BestPage;
use crate::{ElementId, Objective, Time};

impl SearchSource {
    /// The best request now: the page or the row by its id that is worth most, or every
    /// other time a row that has waited as long as it may.
    ///
    /// Where nothing is worth asking, it is to be [thought over
    /// later](Self::reconsider_later).
    pub fn request(&mut self, worth_of: WorthOf<'_>, now: Time) -> Option<Bid> {
        let overdue = self.request_for_overdue(now);
        if overdue.is_some() && !self.was_overdue {
            self.was_overdue = true;
            return overdue;
        }
        self.was_overdue = false;
        self.request_worth_most(worth_of, now).or(overdue)
    }

    /// A row that has waited as long as it may, by its id: the one that has waited longest.
    /// It is worth any price.
    pub fn request_for_overdue(&self, now: Time) -> Option<Bid> {
        let overdue = self.rows.iter().filter(|row| self.is_overdue(row, now));
        let first = overdue.min_by(|one, other| one.since.0.total_cmp(&other.since.0))?;
        Some(Bid {
            request: SearchRequest::Row(first.element),
            worth: f64::INFINITY,
        })
    }

    /// A request for rows that were never had: the page that is expected to bring most of
    /// them, or one of them by its id if no page brings that one for sure. It comes
    /// first, whatever others are worth.
    ///
    /// Where no page is expected to bring any and there is no request by id, those that are
    /// left [become unreachable](Self::take_newly_unreachable).
    pub fn request_for_new(&mut self, now: Time) -> Option<Bid> {
        if self.n_never_had == 0 {
            return None;
        }
        let has_by_id = self.settings.has_by_id;
        let live = self.live.as_ref()?;
        let rows = self.rows.iter();
        let is_wanted: Vec<f64> = rows
            .map(|row| f64::from(u8::from(row.may_come_by_query(has_by_id))))
            .collect();
        let page = live.best(&is_wanted);
        // With a request by id one row is had for sure.
        let request = match page.filter(|page| !has_by_id || page.value >= 1.0) {
            Some(page) => self.page(page),
            // What is under way may bring them.
            None if !live.is_idle() => return None,
            None if has_by_id => SearchRequest::Row(self.leave_new_to_ids(now)?),
            None => {
                self.give_up_new();
                return None;
            }
        };
        Some(Bid {
            request,
            worth: f64::INFINITY,
        })
    }

    /// What to ask for some rows that are wanted: the page that is expected to bring most of
    /// them, if those are more than one, else one of them by itself. `None` as long as all
    /// are about to come.
    ///
    /// A request for a [row](SearchRequest::Row) is given also where there is none by id; then a
    /// [page for it](Self::request_for_row) is to be asked for.
    pub fn request_for_wanted(
        &self,
        wanted: impl IntoIterator<Item = ElementId>,
    ) -> Option<SearchRequest> {
        let live = self.live.as_ref()?;
        let mut is_wanted = vec![0.0; self.rows.len()];
        for row in wanted.into_iter().filter_map(|row| self.number(row)) {
            is_wanted[row as usize] = 1.0;
        }
        // Where pages are refused, rows by their ids may not be.
        if !(self.settings.has_by_id && self.are_pages_refused) {
            let mut by_query = is_wanted.clone();
            for (wanted, row) in by_query.iter_mut().zip(&self.rows) {
                let is_beyond_queries = row.n_misses >= MOST_MISSES_WITH_ID
                    || matches!(row.standing, RowState::Out | RowState::Unreachable);
                if is_beyond_queries {
                    *wanted = 0.0;
                }
            }
            if let Some(page) = live.best(&by_query).filter(|page| page.value > 1.0) {
                return Some(self.page(page));
            }
        }
        // One that is more likely than not to come with what is under way is waited for.
        let (row, _) = live.best_row(&is_wanted).filter(|(_, left)| *left > 0.5)?;
        Some(SearchRequest::Row(self.rows[row as usize].element))
    }

    /// What to ask for one row: itself by its id, if that is possible, else the page that has
    /// it for the fewest requests, if any query finds it.
    pub fn request_for_row(&self, element: ElementId) -> Option<SearchRequest> {
        if self.settings.has_by_id {
            return self.is_ours(element).then_some(SearchRequest::Row(element));
        }
        let page = self.live.as_ref()?.best_for(self.number(element)?)?;
        Some(self.page(page))
    }

    /// Whether there is a row that was never had and may be had now.
    pub fn has_new(&self, now: Time) -> bool {
        self.n_never_had > 0 && self.rows.iter().any(|row| self.is_new_and_free(row, now))
    }

    /// Whether there is a row that was never had and may be had now, or one that has waited
    /// as long as it may.
    pub fn has_due(&self, now: Time) -> bool {
        let is_due = |row: &Row| match row.standing {
            RowState::New => self.is_new_and_free(row, now),
            RowState::Held => self.is_overdue(row, now),
            RowState::Unreachable | RowState::Out => false,
        };
        self.rows.iter().any(is_due)
    }

    /// Rows that have become [unreachable](RowState::Unreachable) since this was asked last.
    pub fn take_newly_unreachable(&mut self) -> Vec<ElementId> {
        std::mem::take(&mut self.newly_unreachable)
    }

    /// The page, or the row by its id, that is worth most.
    fn request_worth_most(&self, worth_of: WorthOf<'_>, now: Time) -> Option<Bid> {
        let live = self.live.as_ref()?;
        let Settings {
            objective,
            common_objective,
            has_by_id,
            ..
        } = self.settings;
        let worth = self.worth_of_rows(worth_of, objective);
        let page = live.best(&worth);
        let least = page.map_or(0.0, |page| page.value);
        let by_id = has_by_id.then(|| live.best_row(&self.by_id(&worth, now)));
        let common_worth = match objective == common_objective {
            true => worth,
            false => self.worth_of_rows(worth_of, common_objective),
        };
        let (request, worth) = match (by_id.flatten(), page) {
            (Some((row, worth)), _) if worth > least => {
                let element = self.rows[row as usize].element;
                (SearchRequest::Row(element), common_worth[row as usize])
            }
            (_, Some(page)) => (self.page(page), live.value(page.query, &common_worth)),
            (_, None) => return None,
        };
        Some(Bid {
            request,
            worth: self.scale() * worth,
        })
    }

    /// What refreshing each row is worth now for an objective:
    ///
    /// ```text
    /// w·s·d·U
    /// ```
    ///
    /// with its weight, what its own fields say it counts, how far it usually moves, and what
    /// polling it is worth by its rate. A row that was never had is worth what those that
    /// we hold are on average, or 1 if we hold none; one that is out is worth nothing.
    pub(super) fn worth_of_rows(&self, worth_of: WorthOf<'_>, objective: Objective) -> Vec<f64> {
        let usual_difference = self.differences.mean();
        let (mut sum, mut n) = (0.0, 0.0);
        let mut worth = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let value = match row.standing {
                RowState::Held => {
                    n += 1.0;
                    let difference = row.differences.shrunk_mean(usual_difference);
                    let counts = row.weight.0 * row.staleness_weight.0 * difference;
                    counts * worth_of(row.element, objective).unwrap_or(0.0)
                }
                _ => 0.0,
            };
            sum += value;
            worth.push(value);
        }
        let usual = if n > 0.0 { sum / n } else { 1.0 };
        for (worth, row) in worth.iter_mut().zip(&self.rows) {
            if row.standing.is_never_had() {
                *worth = usual;
            }
        }
        worth
    }

    /// What the worth of rows is multiplied by to stand beside that of other elements, which
    /// have a weight and nothing else: what rows count among themselves is a matter of
    /// their own.
    ///
    /// ```text
    /// Σ w / Σ w·s·d
    /// ```
    fn scale(&self) -> f64 {
        let usual_difference = self.differences.mean();
        let (mut weights, mut counts) = (0.0, 0.0);
        for row in &self.rows {
            let difference = row.differences.shrunk_mean(usual_difference);
            counts += row.weight.0 * row.staleness_weight.0 * difference;
            weights += row.weight.0;
        }
        if counts > 0.0 { weights / counts } else { 1.0 }
    }

    /// What rows are worth by their ids: nothing where that may not be asked now.
    fn by_id(&self, worth: &[f64], now: Time) -> Vec<f64> {
        let may_be_asked = |row: &Row| row.standing == RowState::Held && row.is_free(now);
        let rows = self.rows.iter().zip(worth);
        rows.map(|(row, &worth)| if may_be_asked(row) { worth } else { 0.0 })
            .collect()
    }

    fn page(&self, page: BestPage) -> SearchRequest {
        SearchRequest::Page(PageRequest {
            generation: self.generation,
            query: page.query,
            number: page.page,
        })
    }

    /// Whether a row has waited as long as it may, and may be asked for by its id now.
    fn is_overdue(&self, row: &Row, now: Time) -> bool {
        let longest = self.settings.max_interval;
        let longest = longest.filter(|_| self.settings.has_by_id);
        row.standing != RowState::Out
            && row.is_free(now)
            && longest.is_some_and(|longest| now.since(row.since) >= longest)
    }

    /// Whether a row was never had, and there is a way to have it now.
    fn is_new_and_free(&self, row: &Row, now: Time) -> bool {
        let has_by_id = self.settings.has_by_id;
        row.standing == RowState::New
            && (row.may_come_by_query(has_by_id) || has_by_id && row.is_free(now))
    }

    /// No page is worth it for new rows: from now on they are asked for by their ids. The
    /// first that may be.
    fn leave_new_to_ids(&mut self, now: Time) -> Option<ElementId> {
        let mut first = None;
        for row in &mut self.rows {
            if row.standing == RowState::New {
                row.n_misses = row.n_misses.max(MOST_MISSES_WITH_ID);
                first = first.or_else(|| row.is_free(now).then_some(row.element));
            }
        }
        first
    }

    /// Nothing brings new rows.
    fn give_up_new(&mut self) {
        for row in &mut self.rows {
            if row.standing == RowState::New {
                row.standing = RowState::Unreachable;
                self.newly_unreachable.push(row.element);
            }
        }
    }
}
