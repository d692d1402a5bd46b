//! Search boxes: a page of the answer to a query shows many rows, a request by id one.

use std::sync::Arc;

use serde_json::Value;
use springtide_store::{Kept, Purpose};

use super::{
    AnswerContext, OwnSighting, PageTally, Protocol, ReadError, Reading, RequestParts, Sighting,
};
use crate::fetch::{Answer, FailureKind, FetchFailure};
use crate::search::{SearchContext, answer};

/// A page of the answer to a query.
#[derive(Debug)]
pub(crate) struct ResultPage {
    pub(crate) context: Arc<SearchContext>,
    /// What is sent; nothing asks by GET.
    pub(crate) body: Option<Vec<u8>>,
    /// Counted from 1.
    pub(crate) number: u64,
}

/// One row, by its id.
#[derive(Debug)]
pub(crate) struct RowById {
    pub(crate) context: Arc<SearchContext>,
}

impl Protocol for ResultPage {
    fn request<'a>(&'a self, _: &'a Kept, _: Purpose) -> RequestParts<'a> {
        RequestParts {
            body: self.body.as_deref(),
            ..with_headers(&self.context)
        }
    }

    fn follows_redirects(&self) -> bool {
        false
    }

    fn has_own_pauses(&self) -> bool {
        true
    }

    fn read(&self, answered: &AnswerContext<'_>) -> Result<Reading, ReadError> {
        let answer = answered.answer;
        match answer.status {
            200 | 203 => {}
            // Some answer that there is no such page.
            400 | 404 | 410 | 416 | 422 if self.number > 1 => return Ok(Reading::default()),
            _ => return Err(ReadError::Failed(refusal(answer))),
        }
        let shape = &self.context.search.answer;
        let mut others = Vec::new();
        // Fields that none of the rows so far has.
        let mut absent: Vec<String> = shape.fields.iter().map(|(name, _)| name.clone()).collect();
        let mut n_rows = 0;
        let page = answer::page(shape, &answer.body, |row| {
            n_rows += 1;
            absent.retain(|name| row.fields.get(name).is_none_or(Value::is_null));
            if let Some(sighting) = self.context.find(&row, answered.bodies)? {
                others.push((row.id, sighting));
            }
            Ok(())
        })?;
        Ok(Reading {
            others,
            page: PageTally {
                n_rows,
                absent,
                ..page
            },
            ..Reading::default()
        })
    }
}

impl Protocol for RowById {
    fn request<'a>(&'a self, _: &'a Kept, _: Purpose) -> RequestParts<'a> {
        with_headers(&self.context)
    }

    fn follows_redirects(&self) -> bool {
        false
    }

    fn has_own_pauses(&self) -> bool {
        true
    }

    fn read(&self, answered: &AnswerContext<'_>) -> Result<Reading, ReadError> {
        let answer = answered.answer;
        match answer.status {
            200 | 203 => {}
            404 | 410 => return Ok(OwnSighting::NotThere.into()),
            _ => return Err(ReadError::Failed(refusal(answer))),
        }
        let shape = &self.context.search.answer;
        let id = &answered.kept.element.locator;
        let Some(row) = answer::item(shape, id, &answer.body)? else {
            return Ok(OwnSighting::NotThere.into());
        };
        let sighting: Option<Sighting> = self.context.find(&row, answered.bodies)?;
        let not_ours = || ReadError::answer("the answer cannot be used: the row is not ours");
        let sighting = sighting.ok_or_else(not_ours)?;
        Ok(OwnSighting::Here(Box::new(sighting)).into())
    }
}

fn with_headers(context: &SearchContext) -> RequestParts<'_> {
    RequestParts {
        headers: &context.search.headers.0,
        ..RequestParts::default()
    }
}

/// What a status says that no search box answers a query with.
fn refusal(answer: &Answer) -> FetchFailure {
    let status = answer.status;
    if status == 429 {
        let message = "too many requests, says the server (status 429)";
        return FetchFailure::new(FailureKind::Status, message);
    }
    if answer.is_redirect() {
        let location = answer.location.iter().flat_map(|location| location.chars());
        let location: String = location.take(200).collect();
        return FetchFailure::new(
            FailureKind::Redirects,
            format!("the server answered with status {status} and redirects to {location}"),
        );
    }
    let message = format!("the server answered with status {status}");
    FetchFailure::new(FailureKind::Status, message)
}
