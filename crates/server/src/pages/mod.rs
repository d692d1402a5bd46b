//! The dashboard: pages that are made here and work without a script. Charts are drawn
//! here as SVG, so that they need none either.

mod budget;
mod changes;
mod elements;
mod errors;
mod html;
mod lab;
mod overview;
mod sources;
mod system;

pub(crate) use budget::{BudgetEffect, budget_effect};

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::header::{CACHE_CONTROL, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use axum::routing::{get, post};

use crate::app::Shared;
use crate::door::{HtmlPage, Payload, answer, form, see_other};
use crate::link::EngineState;
use crate::params::Params;
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

/// What is around every page.
pub(crate) struct Frame {
    title: String,
    here: &'static str,
    notice: Option<String>,
    has_nav: bool,
    has_token: bool,
    /// The stream that a script shows as it comes.
    stream: Option<String>,
}

impl Frame {
    fn new(app: &Shared, title: impl Into<String>, here: &'static str) -> Self {
        let notice = match app.link.state() {
            EngineState::ReadOnly(_) => Some(
                "Another process runs this project: what is here can be read, and not changed."
                    .to_owned(),
            ),
            EngineState::Failed(why) => Some(format!("Nothing is polled now: {why}")),
            EngineState::Starting | EngineState::Running(_) => None,
        };
        Self {
            title: title.into(),
            here,
            notice,
            has_nav: true,
            has_token: app.door.has_token(),
            stream: None,
        }
    }

    /// What is found after the change of this number is shown as it comes: what was found
    /// while the page was on its way, too.
    fn live(self, last: u64, more: &str) -> Self {
        let stream = Some(format!("/api/v1/changes/stream?after={last}{more}"));
        Self { stream, ..self }
    }

    fn links(&self) -> [(&'static str, &'static str); 7] {
        [
            ("/", "Overview"),
            ("/sources", "Sources"),
            ("/elements", "Elements"),
            ("/changes", "Changes"),
            ("/budget", "Budget"),
            ("/lab", "Lab"),
            ("/system", "System"),
        ]
    }

    fn is_here(&self, path: &str) -> bool {
        self.here == path
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

/// A page as it is sent.
fn page(status: StatusCode, template: &impl Template) -> Response<Body> {
    let text = template.render().unwrap_or_default();
    let mut response = answer("text/html; charset=utf-8", text);
    *response.status_mut() = status;
    response.extensions_mut().insert(HtmlPage);
    response
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    frame: Frame,
    problem_title: &'a str,
    detail: &'a str,
    hint: Option<&'a str>,
}

/// A problem for a person.
pub(crate) fn problem(app: &Shared, problem: &Problem) -> Response<Body> {
    let mut frame = Frame::new(app, problem.title(), "");
    if matches!(
        problem.status,
        StatusCode::UNAUTHORIZED | StatusCode::MISDIRECTED_REQUEST
    ) {
        // Whoever is not known is told nothing.
        frame = Frame {
            has_nav: false,
            notice: None,
            ..frame
        };
    }
    let template = ProblemPage {
        frame,
        problem_title: problem.title(),
        detail: &problem.detail,
        hint: problem.hint.as_deref(),
    };
    page(problem.status, &template)
}

/// What is answered where there is nothing.
pub(crate) async fn nothing_here() -> Problem {
    Problem::not_found("there is nothing here").hint("the overview is at /")
}

#[derive(Template)]
#[template(path = "signin.html")]
struct SignIn<'a> {
    frame: Frame,
    is_wrong: bool,
    next: &'a str,
}

/// Sends someone who is not known to where they sign in.
pub(crate) fn to_sign_in(uri: &Uri) -> Response<Body> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let next: String = url::form_urlencoded::byte_serialize(path.as_bytes()).collect();
    see_other(&format!("/signin?next={next}"))
}

/// Where someone wanted to go, if that is one of our pages.
fn ours(next: &str) -> &str {
    let is_ours = next.starts_with('/') && !next.starts_with("//") && !next.contains('\\');
    match is_ours && next.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => next,
        false => "/",
    }
}

fn sign_in_page(app: &Shared, next: &str, is_wrong: bool) -> Response<Body> {
    let frame = Frame {
        has_nav: false,
        notice: None,
        ..Frame::new(app, "Sign in", "")
    };
    let status = match is_wrong {
        true => StatusCode::UNAUTHORIZED,
        false => StatusCode::OK,
    };
    page(
        status,
        &SignIn {
            frame,
            is_wrong,
            next: ours(next),
        },
    )
}

async fn sign_in_form(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &["next"])?;
    if app.door.is_authorized(request.headers()) {
        return Ok(see_other(ours(params.get("next").unwrap_or("/"))));
    }
    Ok(sign_in_page(&app, params.get("next").unwrap_or("/"), false))
}

async fn sign_in(
    State(app): State<Shared>,
    Extension(payload): Extension<Payload>,
) -> Result<Response<Body>, Problem> {
    let fields = form(&payload);
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    if !app.door.is_token(field("token")).await {
        return Ok(sign_in_page(&app, field("next"), true));
    }
    let mut response = see_other(ours(field("next")));
    if let Ok(cookie) = HeaderValue::from_str(&app.door.sign_in()?) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}

async fn sign_out(State(app): State<Shared>, headers: HeaderMap) -> Response<Body> {
    let cookie = app.door.sign_out(&headers);
    let mut response = see_other("/signin");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn asset(content_type: &'static str, text: &'static str) -> Response<Body> {
    let mut response = answer(content_type, text);
    // Another version of the program has others.
    let hour = HeaderValue::from_static("max-age=600");
    response.headers_mut().insert(CACHE_CONTROL, hour);
    response
}

async fn style() -> Response<Body> {
    asset(
        "text/css; charset=utf-8",
        include_str!("../../assets/style.css"),
    )
}

async fn script() -> Response<Body> {
    asset(
        "text/javascript; charset=utf-8",
        include_str!("../../assets/app.js"),
    )
}

async fn icon() -> Response<Body> {
    asset("image/svg+xml", include_str!("../../assets/icon.svg"))
}

/// The pages, and what they are made of.
pub(crate) fn router() -> Router<Shared> {
    Router::new()
        .route("/", get(overview::show))
        .route("/sources", get(sources::index).post(sources::add))
        .route("/sources/{name}", get(sources::show).post(sources::change))
        .route("/sources/{name}/pause", post(sources::pause))
        .route("/sources/{name}/resume", post(sources::resume))
        .route("/sources/{name}/remove", post(sources::remove))
        .route("/elements", get(elements::index))
        .route("/elements/{id}", get(elements::show))
        .route("/elements/{id}/poll", post(elements::poll))
        .route("/changes", get(changes::index))
        .route("/changes/{id}", get(changes::show))
        .route("/budget", get(budget::show).post(budget::set))
        .route("/lab", get(lab::show).post(lab::begin))
        .route("/lab/cancel", post(lab::cancel))
        .route("/system", get(system::show))
        .route("/system/reload", post(system::reload))
        .route("/system/check", post(system::check))
        .route("/signin", get(sign_in_form).post(sign_in))
        .route("/signout", post(sign_out))
        .route("/assets/style.css", get(style))
        .route("/assets/app.js", get(script))
        .route("/assets/icon.svg", get(icon))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere_after_signing_in() {
        for (next, to) in [
            ("/changes?source=a", "/changes?source=a"),
            ("//evil.example/", "/"),
            ("https://evil.example/", "/"),
            ("/\\evil.example", "/"),
            ("/a\r\nSet-Cookie: x", "/"),
            ("", "/"),
        ] {
            assert_eq!(ours(next), to, "{next:?}");
        }
    }
}
