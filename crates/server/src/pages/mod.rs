//! The dashboard: pages that are made here and work without a script.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode, Uri};

use crate::app::Shared;
use crate::door::{answer, see_other};
use crate::problem::Problem;

/// Whether a path is one of a page for people.
pub(crate) fn is_page(path: &str) -> bool {
    let is_for_programs = path.starts_with("/api/")
        || path.starts_with("/assets/")
        || path.starts_with("/websub/")
        || matches!(
            path,
            "/healthz" | "/readyz" | "/metrics" | "/changes.atom" | "/indexnow"
        );
    !is_for_programs
}

pub(crate) fn to_sign_in(_uri: &Uri) -> Response<Body> {
    see_other("/signin")
}

pub(crate) fn problem(_app: &Shared, problem: &Problem) -> Response<Body> {
    let mut response = answer("text/plain", problem.detail.clone());
    *response.status_mut() = problem.status;
    response
}

pub(crate) async fn nothing_here(State(_app): State<Shared>, _request: Request) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is nothing here")
}

pub(crate) fn router() -> Router<Shared> {
    Router::new()
}
