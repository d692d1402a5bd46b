//! What is asked for behind the question mark, and pages of lists.

use axum::http::Uri;
use serde::Serialize;

use crate::problem::Problem;

/// Items of a list where nobody says how many.
const DEFAULT_LIMIT: usize = 100;
/// The most items of a list.
const MAX_LIMIT: usize = 1000;
/// The longest parameter, in bytes.
const MAX_PARAM_BYTES: usize = 2000;

/// The parameters of a request.
#[derive(Debug, Default)]
pub(crate) struct Params {
    pairs: Vec<(String, String)>,
}

impl Params {
    /// Those of a request that may have these.
    pub(crate) fn of(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let query = uri.query().unwrap_or_default();
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let refuse = |why: &str| Err(Problem::bad_request(format!("`{name}` {why}")));
            if !known.contains(&&*name) {
                let hint = match known {
                    [] => "it takes no parameters".to_owned(),
                    known => format!("there are {}", known.join(", ")),
                };
                let problem = Problem::bad_request("there is no such parameter");
                return Err(problem.hint(hint));
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                return refuse("is given twice");
            }
            if value.len() > MAX_PARAM_BYTES {
                return refuse("is too long");
            }
            pairs.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self { pairs })
    }

    /// Those of a request that others may add to: what is not known is not looked at.
    pub(crate) fn known_of(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let query = uri.query().unwrap_or_default();
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        let pairs: Vec<(String, String)> = pairs
            .filter(|(name, _)| known.contains(&&**name))
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        match pairs.iter().any(|(_, value)| value.len() > MAX_PARAM_BYTES) {
            true => Err(Problem::bad_request("a parameter is too long")),
            false => Ok(Self { pairs }),
        }
    }

    /// A parameter that is given, and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|(known, _)| known == name)?;
        Some(&*pair.1).filter(|value| !value.is_empty())
    }

    /// What a parameter is where it is not given.
    pub(crate) fn set_default(&mut self, name: &str, value: &str) {
        if self.get(name).is_none() {
            self.pairs.retain(|(known, _)| known != name);
            self.pairs.push((name.to_owned(), value.to_owned()));
        }
    }

    /// How many items are wanted.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        match self.get("limit").map(str::parse::<u64>) {
            None => Ok(DEFAULT_LIMIT),
            Some(Ok(n @ 1..)) => Ok(usize::try_from(n).unwrap_or(MAX_LIMIT).min(MAX_LIMIT)),
            Some(_) => Err(Problem::bad_request(
                "`limit` is a whole number, and at least 1",
            )),
        }
    }

    /// The same parameters with another value for one, as they are written.
    pub(crate) fn with(&self, name: &str, value: &str) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (known, other) in &self.pairs {
            if known != name && !other.is_empty() {
                query.append_pair(known, other);
            }
        }
        query.append_pair(name, value);
        query.finish()
    }
}

/// Some items of a list, and where it goes on.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<String>,
}

/// A token that is none of ours.
pub(crate) fn bad_token() -> Problem {
    Problem::bad_request("`after` is not from a list that was answered here")
        .hint("give the `next` of the page before, with the same parameters")
}
