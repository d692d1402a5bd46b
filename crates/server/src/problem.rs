//! What is answered when something cannot be done: problem details (RFC 9457), with a
//! hint at what to do.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;
use springtide_engine::view::VersionsError;

/// Why a request is not answered as it wanted.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
    pub(crate) hint: Option<String>,
}

/// The same as it is written.
#[derive(Serialize)]
struct Document<'a> {
    title: &'a str,
    status: u16,
    detail: &'a str,
    hint: Option<&'a str>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            hint: None,
        }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, what)
    }

    /// What was sent can be read, and makes no sense.
    pub(crate) fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// It cannot be done now.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        let hint = Some(hint.into());
        Self { hint, ..self }
    }

    /// In a few words.
    pub(crate) fn title(&self) -> &'static str {
        self.status.canonical_reason().unwrap_or("Error")
    }
}

impl From<springtide_store::Error> for Problem {
    fn from(error: springtide_store::Error) -> Self {
        Self::unavailable(format!("the store cannot be read: {}", causes(&error)))
            .hint("`springtide doctor` says what is wrong with it")
    }
}

impl From<springtide_engine::Error> for Problem {
    fn from(error: springtide_engine::Error) -> Self {
        match error {
            springtide_engine::Error::Store(error) => error.into(),
            error => Self::unavailable(causes(&error)),
        }
    }
}

impl From<VersionsError> for Problem {
    fn from(error: VersionsError) -> Self {
        match error {
            VersionsError::Store(error) => error.into(),
            VersionsError::Selector(error) => Self::unavailable(causes(&error)),
            error => Self::not_found(error.to_string()),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let document = Document {
            title: self.title(),
            status: self.status.as_u16(),
            detail: &self.detail,
            hint: self.hint.as_deref(),
        };
        let text = serde_json::to_string(&document).unwrap_or_default();
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status;
        response.headers_mut().insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        // A page for people is made of it where a person asked.
        response.extensions_mut().insert(self);
        response
    }
}

/// An error and all that it came from, in a line.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}
