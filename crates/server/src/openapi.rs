//! All that programs may ask for, in one table: the routes are made from it, and so is the
//! document that describes them.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::routing::{MethodRouter, delete, get, patch, post};
use serde_json::{Map, Value, json};

use crate::api::{self, changes, elements, settings, sources};
use crate::app::Shared;
use crate::{feed, health, hints, metrics, websub};

/// Something that may be asked for.
struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    handler: MethodRouter<Shared>,
    params: &'static [&'static str],
    body: Option<&'static str>,
    answers: Vec<(u16, Answer)>,
}

/// What is answered when all is well.
#[derive(Clone, Copy)]
enum Answer {
    /// JSON of a named shape.
    Json(&'static str),
    /// Something else, of these types.
    Other(&'static str),
    Empty,
}

impl Operation {
    fn new(
        (method, path): (&'static str, &'static str),
        summary: &'static str,
        handler: MethodRouter<Shared>,
        answers: &[(u16, Answer)],
    ) -> Self {
        Self {
            method,
            path,
            summary,
            handler,
            params: &[],
            body: None,
            answers: answers.to_vec(),
        }
    }

    fn takes(self, params: &'static [&'static str]) -> Self {
        Self { params, ..self }
    }

    fn with_body(self, body: &'static str) -> Self {
        let body = Some(body);
        Self { body, ..self }
    }
}

/// Everything that programs may ask for.
fn operations() -> Vec<Operation> {
    use Answer::{Empty, Json, Other};
    let on = Operation::new;
    vec![
        on(
            ("get", "/api/v1/status"),
            "Status: freshness and age, measured and predicted, budget, states, errors",
            get(api::status),
            &[(200, Json("Status"))],
        ),
        on(
            ("get", "/api/v1/sources"),
            "All sources",
            get(sources::index),
            &[(200, Json("SourcePage"))],
        )
        .takes(&["limit", "after"]),
        on(
            ("post", "/api/v1/sources"),
            "Adds a source to springtide.toml",
            post(sources::create),
            &[(201, Json("Source"))],
        )
        .with_body("NewSource"),
        on(
            ("get", "/api/v1/sources/{name}"),
            "One source",
            get(sources::show),
            &[(200, Json("Source"))],
        ),
        on(
            ("patch", "/api/v1/sources/{name}"),
            "Changes keys of a source in springtide.toml; null takes one out",
            patch(sources::patch),
            &[(200, Json("Source"))],
        )
        .with_body("SourceKeys"),
        on(
            ("delete", "/api/v1/sources/{name}"),
            "Takes a source out of springtide.toml; what is kept of it stays until `springtide rm`",
            delete(sources::remove),
            &[(204, Empty)],
        ),
        on(
            ("get", "/api/v1/elements"),
            "Elements, by number or in another order",
            get(elements::index),
            &[(200, Json("ElementPage"))],
        )
        .takes(&["source", "state", "q", "sort", "limit", "after"]),
        on(
            ("get", "/api/v1/elements/{id}"),
            "One element, with its latest polls and its versions",
            get(elements::show),
            &[(200, Json("ElementDetail"))],
        ),
        on(
            ("get", "/api/v1/elements/{id}/versions/{n}"),
            "The body of a version as it was, in a sandbox",
            get(elements::version),
            &[(200, Other("*/*"))],
        ),
        on(
            ("get", "/api/v1/elements/{id}/diff"),
            "What changed between two versions, as a unified diff; by default the last two",
            get(elements::diff),
            &[(200, Other("text/plain"))],
        )
        .takes(&["from", "to"]),
        on(
            ("post", "/api/v1/elements/{id}/poll"),
            "Polls an element next",
            post(elements::poll),
            &[(202, Json("Accepted"))],
        ),
        on(
            ("get", "/api/v1/changes"),
            "Changes found, newest first",
            get(changes::index),
            &[(200, Json("ChangePage"))],
        )
        .takes(&["source", "since", "limit", "after"]),
        on(
            ("get", "/api/v1/changes/stream"),
            "Changes as they are found, as server-sent events `change`; Last-Event-ID resumes",
            get(feed::stream_changes),
            &[(200, Other("text/event-stream"))],
        )
        .takes(&["source", "stream_after", "overview"]),
        on(
            ("get", "/changes.atom"),
            "The latest changes as an Atom feed, with diffs",
            get(api::atom::feed),
            &[(200, Other("application/atom+xml"))],
        )
        .takes(&["source"]),
        on(
            ("get", "/api/v1/plan"),
            "What a budget buys in the long run, and what others around it would",
            get(settings::plan),
            &[(200, Json("Plan"))],
        )
        .takes(&["budget"]),
        on(
            ("get", "/api/v1/settings"),
            "Budget, policy and target as springtide.toml has them",
            get(settings::show),
            &[(200, Json("Settings"))],
        ),
        on(
            ("patch", "/api/v1/settings"),
            "Changes budget, policy and target in springtide.toml; null takes a key out",
            patch(settings::patch),
            &[(200, Json("Settings"))],
        )
        .with_body("Settings"),
        on(
            ("post", "/api/v1/reload"),
            "Reads springtide.toml again, wholly or not at all",
            post(settings::reload),
            &[(200, Json("Settings"))],
        ),
        on(
            ("post", "/api/v1/hints"),
            "Reports that pages have changed. A hint: weighed by how reliable hints have been, and no poll by itself",
            post(settings::hints),
            &[(202, Json("Hinted"))],
        )
        .with_body("Hints"),
        on(
            ("get", "/indexnow"),
            "IndexNow: one address that has changed",
            get(hints::indexnow_one),
            &[(200, Empty), (202, Empty)],
        )
        .takes(&["url", "key", "keyLocation"]),
        on(
            ("post", "/indexnow"),
            "IndexNow: addresses that have changed",
            post(hints::indexnow),
            &[(200, Empty), (202, Empty)],
        )
        .with_body("IndexNow"),
        on(
            ("get", "/websub/{name}"),
            "WebSub: confirms or denies a subscription",
            get(websub::verify),
            &[(200, Other("text/plain"))],
        )
        .takes(&[
            "hub.mode",
            "hub.topic",
            "hub.challenge",
            "hub.lease_seconds",
        ]),
        on(
            ("post", "/websub/{name}"),
            "WebSub: a feed has changed, signed with the secret that its hub was given",
            post(websub::pushed),
            &[(202, Empty)],
        ),
        on(
            ("get", "/api/v1/openapi.json"),
            "This document",
            get(document),
            &[(200, Json("Any"))],
        ),
        on(
            ("get", "/metrics"),
            "Metrics for Prometheus",
            get(metrics::metrics),
            &[(200, Other("text/plain"))],
        ),
        on(
            ("get", "/healthz"),
            "Whether the engine responds",
            get(health::healthz),
            &[(200, Json("Well"))],
        ),
        on(
            ("get", "/readyz"),
            "Whether polls are made, as far as the budget allows them, and the store works",
            get(health::readyz),
            &[(200, Json("Well"))],
        ),
    ]
}

/// The routes of all that programs may ask for.
pub(crate) fn router() -> Router<Shared> {
    let routes = operations().into_iter();
    routes.fold(Router::new(), |router, operation| {
        router.route(operation.path, operation.handler)
    })
}

/// `GET /api/v1/openapi.json`.
async fn document(State(app): State<Shared>) -> Response<Body> {
    api::json(StatusCode::OK, &described(app.door.has_token()))
}

/// The document.
pub(crate) fn described(has_token: bool) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations() {
        let path = paths
            .entry(operation.path)
            .or_insert_with(|| Value::Object(Map::new()));
        path[operation.method] = describe(&operation, has_token);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "springtide",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Keeps a local copy of remote sources as fresh as a polling budget \
                            allows, and says how fresh it is.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" }
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": { "schemas": schemas() }
    });
    if has_token {
        document["components"]["securitySchemes"] =
            json!({ "token": { "type": "http", "scheme": "bearer" } });
    }
    document
}

fn describe(operation: &Operation, has_token: bool) -> Value {
    let mut described = json!({
        "summary": operation.summary,
        "operationId": name_of(operation),
        "responses": responses(operation),
    });
    let in_path = operation.path.split(['{', '}']).skip(1).step_by(2);
    let parameters: Vec<Value> = in_path
        .map(|name| {
            let schema = match name {
                "name" => json!({ "type": "string" }),
                _ => json!({ "type": "integer", "minimum": 0 }),
            };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .chain(operation.params.iter().map(|name| parameter(name)))
        .collect();
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(body) = operation.body {
        let schema = json!({ "$ref": format!("#/components/schemas/{body}") });
        described["requestBody"] = json!({
            "required": true, "content": { "application/json": { "schema": schema } }
        });
    }
    let is_open = matches!(
        operation.path,
        "/metrics" | "/healthz" | "/readyz" | "/indexnow" | "/websub/{name}"
    );
    if has_token && !is_open {
        described["security"] = json!([{ "token": [] }]);
    }
    described
}

/// `get_elements_id_diff` for `GET /api/v1/elements/{id}/diff`.
fn name_of(operation: &Operation) -> String {
    let path = operation.path.trim_start_matches("/api/v1");
    let words = path.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    format!("{}_{}", operation.method, words.join("_"))
}

fn responses(operation: &Operation) -> Value {
    let mut responses = Map::new();
    for (status, answer) in &operation.answers {
        let mut response = json!({ "description": "Done" });
        match answer {
            Answer::Json(shape) => {
                let schema = json!({ "$ref": format!("#/components/schemas/{shape}") });
                response["content"] = json!({ "application/json": { "schema": schema } });
            }
            Answer::Other(kind) => {
                let mut content = Map::new();
                content.insert(
                    (*kind).to_owned(),
                    json!({ "schema": { "type": "string" } }),
                );
                response["content"] = content.into();
            }
            Answer::Empty => {}
        }
        responses.insert(status.to_string(), response);
    }
    let problem = json!({ "$ref": "#/components/schemas/Problem" });
    let problem = json!({
        "description": "It cannot be done, and why",
        "content": { "application/problem+json": { "schema": problem } }
    });
    for status in ["4XX", "5XX"] {
        responses.insert(status.to_owned(), problem.clone());
    }
    responses.into()
}

fn parameter(name: &str) -> Value {
    let (name, schema, description) = match name {
        "limit" => (
            name,
            json!({ "type": "integer", "minimum": 1, "default": 100 }),
            "How many items; at most 1000 are answered",
        ),
        "after" => (
            name,
            json!({ "type": "string" }),
            "The `next` of the page before",
        ),
        "stream_after" => (
            "after",
            json!({ "type": "integer", "minimum": 0 }),
            "As Last-Event-ID, for those who cannot send one",
        ),
        "overview" => (
            name,
            json!({ "type": "boolean", "default": false }),
            "Whether the numbers of `status`, without its lists, are told too, once a second, \
             as events `overview`",
        ),
        "source" => (name, json!({ "type": "string" }), "The name of a source"),
        "state" => (
            name,
            json!({ "enum": ["new", "ok", "failing", "blocked", "gone"] }),
            "The state of the element",
        ),
        "q" => (name, json!({ "type": "string" }), "Part of a locator"),
        "sort" => (
            name,
            json!({
                "type": "string",
                "pattern": "^-?(id|source|locator|state|weight|polled_at|changed_at|due_at|\
                            rate_per_day|frequency_per_day|n_polls|n_changes|freshness)$"
            }),
            "A key; `-` before it descends",
        ),
        "since" => (
            name,
            json!({ "type": "string" }),
            "A time, a day, or a span such as 2h",
        ),
        "budget" => (
            name,
            json!({ "type": "string" }),
            "Polls per time, such as 2000/day; by default the present budget",
        ),
        "from" | "to" => (
            name,
            json!({ "type": "integer", "minimum": 1 }),
            "The number of a version",
        ),
        name if name.starts_with("hub.") => (name, json!({ "type": "string" }), "As WebSub has it"),
        _ => (name, json!({ "type": "string" }), "As IndexNow has it"),
    };
    json!({ "name": name, "in": "query", "description": description, "schema": schema })
}

/// The shapes of all that is sent and answered.
fn schemas() -> Value {
    let time = json!({ "type": ["string", "null"], "format": "date-time" });
    let count = json!({ "type": "integer", "minimum": 0 });
    let maybe_count = json!({ "type": ["integer", "null"], "minimum": 0 });
    let number = json!({ "type": "number" });
    let maybe = json!({ "type": ["number", "null"] });
    let text = json!({ "type": "string" });
    let maybe_text = json!({ "type": ["string", "null"] });
    let yes = json!({ "type": "boolean" });
    let to = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let or_null = |name: &str| json!({ "anyOf": [to(name), { "type": "null" }] });
    let list = |name: &str| json!({ "type": "array", "items": to(name) });
    let page = |name: &str| exact(json!({ "items": list(name), "next": maybe_text }));
    let element = json!({
        "id": count, "source": text, "locator": text, "group": text, "weight": number,
        "rate_per_day": or_null("Rate"), "frequency_per_day": maybe, "polled_at": time,
        "changed_at": time, "due_at": time, "reason": maybe_text, "n_polls": count,
        "n_changes": count, "state": to("State"), "error": or_null("Error")
    });
    let mut detail = element.clone();
    detail["polls"] = list("Poll");
    detail["versions"] = list("Version");
    let how = json!({
        "freshness": to("Freshness"), "age_seconds": to("Age"), "n_elements": count,
        "n_polls": count, "n_changes": count, "oldest_poll_age_seconds": maybe,
        "states": to("States"), "errors": list("ErrorCount")
    });
    let mut status = how.clone();
    status["budget"] = to("Budget");
    status["n_sources"] = count.clone();
    status["disk"] = or_null("Disk");
    status["sources"] = list("SourceStatus");
    let mut source_status = how;
    source_status["name"] = text.clone();
    source_status["url"] = text.clone();
    source_status["is_in_file"] = yes.clone();
    source_status["is_paused"] = yes.clone();
    source_status["error"] = or_null("Error");
    source_status["next_poll_at"] = time.clone();
    let mut change = exact(json!({
        "id": count, "element": count, "source": text, "locator": text, "found_at": time,
        "previous_poll_at": time, "kind": { "enum": ["changed", "added", "gone", "back"] },
        "bytes_before": maybe_count, "bytes_after": maybe_count, "digest": maybe_text
    }));
    change["properties"]["fields"] = json!({ "type": "array", "items": { "type": "object" } });
    let mut plan = json!({
        "budget_per_day": number, "freshness": number, "predicted_low": maybe,
        "predicted_high": maybe, "age_seconds": maybe, "long_run": to("Reached"),
        "uniform": to("Reached"), "curve": list("WhatIf")
    });
    plan = exact(plan);
    json!({
        "Any": { "type": "object" },
        "Problem": exact(json!({
            "title": text, "status": count, "detail": text, "hint": maybe_text
        })),
        "State": { "enum": ["new", "ok", "failing", "blocked", "gone"] },
        "States": exact(json!({
            "new": count, "ok": count, "failing": count, "blocked": count, "gone": count
        })),
        "Error": exact(json!({ "kind": text, "message": text, "at": time })),
        "ErrorCount": exact(json!({ "kind": text, "n": count, "example": text })),
        "Rate": exact(json!({ "estimate": number, "low": number, "high": number })),
        "Freshness": exact(json!({
            "measured": maybe, "low": maybe, "high": maybe, "since": time, "predicted": maybe,
            "predicted_low": maybe, "predicted_high": maybe
        })),
        "Age": exact(json!({ "measured": maybe, "predicted": maybe })),
        "Budget": exact(json!({
            "per_day": number, "used_today": count, "price": maybe, "short_per_day": maybe
        })),
        "Disk": exact(json!({ "store_bytes": count, "bodies_bytes": count, "copies_bytes": count })),
        "Status": exact(status),
        "SourceStatus": exact(source_status),
        "Source": exact(json!({
            "name": text, "kind": text, "url": text, "n_elements": count, "n_new": count,
            "n_failing": count, "n_blocked": count, "n_gone": count, "n_polls": count,
            "n_changes": count, "is_in_file": yes, "is_paused": yes, "added_at": time,
            "error": or_null("Error"), "trust": to("Trust")
        })),
        "Trust": {
            "type": "object", "additionalProperties": false,
            "properties": {
                "lastmod": to("HintTrust"), "feed": to("HintTrust"), "push": to("HintTrust"),
                "cursor": to("HintTrust"),
                "etag": to("ValidatorTrust"), "last_modified": to("ValidatorTrust")
            },
            "description": "What evidence of changes has been worth, by kind, where any was met"
        },
        "HintTrust": exact(json!({
            "precision": maybe, "recall": maybe, "delay_seconds": maybe, "n": count
        })),
        "ValidatorTrust": exact(json!({ "n": count, "n_false": count, "is_used": yes })),
        "SourcePage": page("Source"),
        "NewSource": {
            "type": "object", "required": ["name", "kind"],
            "properties": { "name": text, "kind": text, "url": text },
            "description": "`name`, and the keys of [source.NAME] in springtide.toml"
        },
        "SourceKeys": {
            "type": "object", "description": "Keys of [source.NAME] in springtide.toml"
        },
        "Settings": {
            "type": "object", "additionalProperties": false,
            "properties": {
                "budget": { "type": "object" }, "policy": { "type": "object" },
                "target": { "type": "object" }
            },
            "description": "Tables of springtide.toml, with its keys"
        },
        "Element": exact(element),
        "ElementPage": page("Element"),
        "ElementDetail": exact(detail),
        "Poll": exact(json!({
            "begun_at": time, "at": time,
            "outcome": {
                "enum": [
                    "first", "unchanged", "changed", "differs", "gone", "failed", "blocked"
                ]
            },
            "status": maybe_count, "error": maybe_text,
            "purpose": { "enum": ["due", "audit", "first", "asked"] }, "is_counted": yes
        })),
        "Version": exact(json!({
            "n": count, "at": time, "digest": maybe_text, "bytes": maybe_count
        })),
        "Accepted": exact(json!({ "id": count })),
        "Change": change,
        "ChangePage": page("Change"),
        "Reached": exact(json!({ "freshness": number, "age_seconds": maybe })),
        "WhatIf": exact(json!({
            "budget_per_day": number, "freshness": number, "age_seconds": maybe,
            "uniform": to("Reached")
        })),
        "Plan": plan,
        "Hints": {
            "type": "object", "required": ["urls"], "additionalProperties": false,
            "properties": { "urls": { "type": "array", "items": text }, "at": time }
        },
        "Hinted": exact(json!({ "n_known": count, "n_unknown": count })),
        "IndexNow": {
            "type": "object", "required": ["host", "key", "urlList"],
            "properties": {
                "host": text, "key": text, "keyLocation": text,
                "urlList": { "type": "array", "items": text }
            }
        },
        "Well": exact(json!({ "status": text, "mode": { "enum": ["running", "read-only"] } }))
    })
}

/// An object with these keys, all of them, and no others.
fn exact(properties: Value) -> Value {
    let keys: Vec<String> = properties
        .as_object()
        .map(|keys| keys.keys().cloned().collect())
        .unwrap_or_default();
    json!({
        "type": "object", "properties": properties, "required": keys,
        "additionalProperties": false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_that_is_named_is_described() {
        let document = described(true);
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for named in text.split("#/components/schemas/").skip(1) {
            let name = named.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
        let mut names: Vec<String> = operations().iter().map(name_of).collect();
        names.sort();
        let n = names.len();
        names.dedup();
        assert_eq!(names.len(), n);
    }
}
