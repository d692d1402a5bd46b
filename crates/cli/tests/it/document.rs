//! The document that describes the API, and whether answers are as it says.

use serde_json::{Value, json};

use crate::live::origin;
use crate::serving::{Answer, Serving, all_polled, project};

/// Every answer is one that the document allows.
#[test]
fn the_document_is_true_of_every_route() {
    let origin = origin(6);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(6));
    origin.site().change(2);
    serving.until("a change is found", |serving| {
        let status = serving.get_json("/api/v1/status");
        (status["n_changes"].as_u64() >= Some(1)).then_some(())
    });
    let document = serving.get_json("/api/v1/openapi.json");
    assert_eq!(document["openapi"], "3.1.0");
    let element = serving.get_json("/api/v1/changes?limit=1")["items"][0]["element"].clone();
    let mut n_checked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let fill = |id: &str, name: &str| {
                path.replace("{id}", id)
                    .replace("{n}", "1")
                    .replace("{name}", name)
            };
            let mut tries = vec![(fill(&element.to_string(), "docs"), sample(path, method))];
            tries.push((fill("4000000000", "nope"), json!({})));
            tries.push((fill("-1", "%00"), json!({ "x": [1, { "y": null }] })));
            tries.push((fill("abc", "%F0%9F%8C%8A"), json!("text")));
            for parameter in operation["parameters"].as_array().unwrap_or(&Vec::new()) {
                if parameter["in"] == "query" {
                    let name = parameter["name"].as_str().unwrap();
                    for value in [
                        "1",
                        "0",
                        "-1",
                        "docs",
                        "%00",
                        "99999999999999999999",
                        "a%20b",
                    ] {
                        let path = fill(&element.to_string(), "docs");
                        tries.push((format!("{path}?{name}={value}"), json!({})));
                    }
                }
            }
            for (path, body) in tries {
                let answer = match &**method {
                    "get" => ask(&serving, &path),
                    method => serving.write(&method.to_uppercase(), &path, &body),
                };
                check_answer(
                    &document,
                    operation,
                    &answer,
                    &format!("{method} {path} {body}"),
                );
                n_checked += 1;
            }
        }
    }
    assert!(n_checked > 100, "{n_checked}");
}

/// Asks for something; of what does not end by itself, for the beginning.
pub(crate) fn ask(serving: &Serving, path: &str) -> Answer {
    match path
        .split('?')
        .next()
        .is_some_and(|path| path.ends_with("/stream"))
    {
        true => serving.begin(path),
        false => serving.get(path),
    }
}

/// What is right to send.
fn sample(path: &str, method: &str) -> Value {
    match (method, path) {
        ("post", "/api/v1/sources") => {
            json!({ "name": "new", "kind": "page", "url": "http://127.0.0.1:1/" })
        }
        ("patch", "/api/v1/sources/{name}") => json!({ "weight": 2 }),
        ("patch", "/api/v1/settings") => json!({ "target": { "freshness": 0.9 } }),
        ("post", "/api/v1/hints") => json!({ "urls": ["https://example.org/"] }),
        ("post", "/indexnow") => json!({
            "host": "example.org", "key": "abcdefgh", "urlList": ["https://example.org/"]
        }),
        _ => json!({}),
    }
}

#[track_caller]
pub(crate) fn check_answer(document: &Value, operation: &Value, answer: &Answer, what: &str) {
    assert!(
        answer.status < 500 || answer.status == 503,
        "{what}: {answer:?}"
    );
    let responses = &operation["responses"];
    let class = format!("{}XX", answer.status / 100);
    let described = match &responses[answer.status.to_string()] {
        Value::Null => &responses[class],
        described => described,
    };
    assert!(described.is_object(), "{what}: {answer:?}");
    let Some(content) = described["content"].as_object() else {
        assert_eq!(answer.body, "", "{what}");
        return;
    };
    let kind = answer.header("content-type").split(';').next().unwrap();
    let content = content.get(kind).or_else(|| content.get("*/*"));
    let content = content.unwrap_or_else(|| panic!("{what}: {kind}"));
    if kind.ends_with("json") && !what.contains("/versions/") {
        check_shape(document, &content["schema"], &answer.json(), what);
    }
}

/// A value has the shape that a schema asks for, as far as ours say anything.
#[track_caller]
fn check_shape(document: &Value, schema: &Value, value: &Value, what: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        let schema = &document["components"]["schemas"][name];
        assert!(schema.is_object(), "{name}");
        return check_shape(document, schema, value, &format!("{what} {name}"));
    }
    if let Some(any) = schema["anyOf"].as_array() {
        return match value.is_null() {
            true => assert!(any.iter().any(|s| s["type"] == "null"), "{what}"),
            false => check_shape(document, &any[0], value, what),
        };
    }
    if let Some(allowed) = schema["enum"].as_array() {
        assert!(allowed.contains(value), "{what}: {value}");
        return;
    }
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() || number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allows = |wanted: &Value| wanted == is || wanted == "number" && is == "integer";
    let is_allowed = match &schema["type"] {
        Value::Array(types) => types.iter().any(allows),
        wanted => allows(wanted),
    };
    assert!(is_allowed, "{what}: {value} is no {}", schema["type"]);
    if let Value::Array(items) = value {
        for item in items {
            check_shape(document, &schema["items"], item, what);
        }
    }
    if let (Value::Object(object), Some(properties)) = (value, schema["properties"].as_object()) {
        for required in schema["required"].as_array().into_iter().flatten() {
            assert!(
                object.contains_key(required.as_str().unwrap()),
                "{what}: {required}"
            );
        }
        for (key, value) in object {
            match properties.get(key) {
                Some(schema) => check_shape(document, schema, value, &format!("{what}.{key}")),
                None => assert_ne!(schema["additionalProperties"], false, "{what}: {key}"),
            }
        }
    }
}
