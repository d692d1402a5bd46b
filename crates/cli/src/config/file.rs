//! What `springtide.toml` may hold.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::value::{
    AllowPrivate, BurstLimit, FirstPass, Hours, PerTime, Policy, PositiveSpan, Secret, Share, Size,
};
use crate::args::ObjectiveName;

/// The whole file. Everything may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct File {
    pub(crate) budget: Budget,
    pub(crate) target: Target,
    pub(crate) policy: PolicyKeys,
    pub(crate) http: Http,
    pub(crate) retain: Retain,
    pub(crate) server: Server,
    pub(crate) notify: Vec<Spanned<Notify>>,
    pub(crate) smtp: Option<Smtp>,
    pub(crate) group: Vec<Spanned<Group>>,
    pub(crate) source: BTreeMap<Spanned<String>, Source>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Budget {
    pub(crate) polls: Option<PerTime>,
    pub(crate) burst: Option<BurstLimit>,
    pub(crate) window: Option<Hours>,
    pub(crate) audit: Option<Share>,
    pub(crate) first_pass: Option<FirstPass>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Target {
    pub(crate) freshness: Option<Share>,
    pub(crate) age: TargetAge,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TargetAge {
    pub(crate) warn_after: Option<PositiveSpan>,
    pub(crate) error_after: Option<PositiveSpan>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PolicyKeys {
    pub(crate) objective: Option<ObjectiveName>,
    pub(crate) name: Option<Policy>,
    pub(crate) max_interval: Option<PositiveSpan>,
    pub(crate) cycle: Option<PositiveSpan>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Http {
    pub(crate) contact: Option<String>,
    pub(crate) timeout: Option<PositiveSpan>,
    pub(crate) max_body: Option<Size>,
    pub(crate) allow_private: Option<AllowPrivate>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Server {
    pub(crate) listen: Option<String>,
    pub(crate) token: Option<Secret>,
    pub(crate) public: Option<String>,
    pub(crate) hosts: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Notify {
    pub(crate) to: String,
    pub(crate) on: Vec<springtide_server::NoticeKind>,
    pub(crate) sources: Option<Vec<String>>,
    pub(crate) failures: Option<u16>,
    pub(crate) digest: Option<PositiveSpan>,
    pub(crate) secret: Option<Secret>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Smtp {
    pub(crate) url: String,
    pub(crate) password: Option<Secret>,
    pub(crate) from: String,
    pub(crate) ca: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    #[serde(rename = "match")]
    pub(crate) pattern: String,
    pub(crate) key: Option<String>,
    pub(crate) rate: Option<PerTime>,
    pub(crate) concurrency: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Source {
    pub(crate) kind: Kind,
    pub(crate) url: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) map: Option<ListMap>,
    pub(crate) strict: Option<bool>,
    pub(crate) weight: Option<f64>,
    pub(crate) paused: Option<bool>,
    pub(crate) list_every: Option<PositiveSpan>,
    pub(crate) max_elements: Option<u64>,
    pub(crate) max_depth: Option<u16>,
    pub(crate) allow_private: Option<AllowPrivate>,
    #[serde(default)]
    pub(crate) detect: Detect,
    #[serde(default)]
    pub(crate) retain: Retain,
    // Of a feed only.
    pub(crate) entries: Option<Entries>,
    // Of a search source only.
    pub(crate) body: Option<String>,
    pub(crate) rows: Option<String>,
    pub(crate) attributes: Option<BTreeMap<String, Attribute>>,
    pub(crate) page_size: Option<u32>,
    pub(crate) first_page: Option<u32>,
    pub(crate) top: Option<u32>,
    pub(crate) quota: Option<BurstLimit>,
    pub(crate) by_id: Option<String>,
    pub(crate) max_interval: Option<PositiveSpan>,
    pub(crate) pause: Option<PositiveSpan>,
    pub(crate) unknown: Option<Unknown>,
    pub(crate) answer: Option<Answer>,
    pub(crate) staleness: Option<Staleness>,
    pub(crate) headers: Option<BTreeMap<String, Secret>>,
    // Of a table only.
    pub(crate) table: Option<String>,
    pub(crate) query: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) key: Option<Vec<String>>,
    pub(crate) cursor: Option<String>,
    pub(crate) late: Option<PositiveSpan>,
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) block: Option<u32>,
    pub(crate) copy: Option<String>,
    pub(crate) timeout: Option<PositiveSpan>,
}

/// How the columns of a list are called.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ListMap {
    pub(crate) url: Option<String>,
    pub(crate) weight: Option<String>,
    pub(crate) group: Option<String>,
}

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Page,
    List,
    Sitemap,
    Site,
    Search,
    Feed,
    Table,
}

/// What the entries of a feed are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Entries {
    Pages,
    Content,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Detect {
    pub(crate) keep: Vec<String>,
    pub(crate) drop: Vec<String>,
}

/// For how long what was found is kept.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retain {
    pub(crate) versions: Option<u32>,
    pub(crate) within: Option<PositiveSpan>,
    pub(crate) bodies: Option<bool>,
    pub(crate) polls: Option<PositiveSpan>,
}

/// How a column is cut into terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Attribute {
    Words,
    List,
}

/// What to do with rows that are not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unknown {
    Ignore,
    Add,
}

/// Where in an answer things are, as JSON pointers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    pub(crate) results: String,
    pub(crate) id: String,
    pub(crate) total: Option<String>,
    pub(crate) item: Option<String>,
    #[serde(default)]
    pub(crate) fields: BTreeMap<String, String>,
}

/// How wrong a stale row is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Staleness {
    pub(crate) field: String,
    pub(crate) difference: Option<Difference>,
    pub(crate) weight: Option<toml::Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Difference {
    Absolute,
    Relative,
    Any,
}

impl Source {
    /// A key that only search sources have, if it is set.
    pub(crate) fn search_key(&self) -> Option<&'static str> {
        let keys = [
            ("body", self.body.is_some()),
            ("rows", self.rows.is_some()),
            ("attributes", self.attributes.is_some()),
            ("page_size", self.page_size.is_some()),
            ("first_page", self.first_page.is_some()),
            ("top", self.top.is_some()),
            ("quota", self.quota.is_some()),
            ("by_id", self.by_id.is_some()),
            ("max_interval", self.max_interval.is_some()),
            ("pause", self.pause.is_some()),
            ("unknown", self.unknown.is_some()),
            ("answer", self.answer.is_some()),
            ("staleness", self.staleness.is_some()),
            ("headers", self.headers.is_some()),
        ];
        keys.into_iter()
            .find_map(|(key, is_set)| is_set.then_some(key))
    }

    /// A key that only tables have, if it is set.
    pub(crate) fn table_key(&self) -> Option<&'static str> {
        let keys = [
            ("table", self.table.is_some()),
            ("query", self.query.is_some()),
            ("password", self.password.is_some()),
            ("key", self.key.is_some()),
            ("cursor", self.cursor.is_some()),
            ("late", self.late.is_some()),
            ("columns", self.columns.is_some()),
            ("block", self.block.is_some()),
            ("copy", self.copy.is_some()),
            ("timeout", self.timeout.is_some()),
        ];
        keys.into_iter()
            .find_map(|(key, is_set)| is_set.then_some(key))
    }
}
