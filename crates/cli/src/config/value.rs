//! Values as they are written: in the file, in a variable or behind a flag, always
//! by the same rules.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use springtide_engine::settings::{self, Burst};
use springtide_policy::{Span, Window};

use crate::args::ObjectiveName;
use crate::units::{self, Pace};

/// A value that is written as text or, where that is all there is to it, as a number.
macro_rules! written {
    ($(#[$doc:meta])* $name:ident($inner:ty), $parse:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub(crate) struct $name(pub(crate) $inner);

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let parse: fn(&str) -> Result<$inner, String> = $parse;
                parse(text).map(Self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(Text($expected)).and_then(|text| {
                    let refuse = |why| de::Error::custom(format!("`{text}`: {why}"));
                    text.parse().map_err(refuse)
                })
            }
        }
    };
}

written!(
    /// A number per time, above zero.
    PerTime(Pace),
    |text| match units::pace(text)? {
        pace if pace.per_day() > 0.0 => Ok(pace),
        _ => Err("a number above zero is expected".into()),
    },
    "a number per time, such as \"2000/day\""
);
written!(
    /// A whole number in a span.
    BurstLimit(Burst),
    units::burst,
    "a whole number per time, such as \"200/hour\""
);
written!(
    /// Hours of the day.
    Hours(Window),
    units::window,
    "hours of the day, such as \"22:00-06:00 UTC\""
);
written!(
    /// A share, from 0 to 1.
    Share(f64),
    units::ratio,
    "a share, such as \"2%\" or 0.02"
);
written!(
    /// A span of time, longer than nothing.
    PositiveSpan(Span),
    |text| match units::span(text)? {
        span if span.as_days() > 0.0 => Ok(span),
        _ => Err("a span above zero is expected".into()),
    },
    "a span of time, such as \"30s\" or \"12h\""
);
written!(
    /// A size in bytes.
    Size(u64),
    units::bytes,
    "a size, such as \"10MB\""
);

/// Takes text, and numbers as text.
struct Text(&'static str);

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

/// Which private addresses may be asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AllowPrivate(pub(crate) settings::AllowPrivate);

impl FromStr for AllowPrivate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text.trim() {
            "true" | "yes" | "1" => settings::AllowPrivate::All,
            "false" | "no" | "0" | "" => settings::AllowPrivate::None,
            list => {
                let networks = list.split(',').map(units::network);
                settings::AllowPrivate::Only(networks.collect::<Result<_, _>>()?)
            }
        }))
    }
}

impl<'de> Deserialize<'de> for AllowPrivate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Addresses;

        impl<'de> Visitor<'de> for Addresses {
            type Value = AllowPrivate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a list such as [\"127.0.0.2\", \"10.1.0.0/16\"]")
            }

            fn visit_bool<E>(self, all: bool) -> Result<AllowPrivate, E> {
                Ok(AllowPrivate(if all {
                    settings::AllowPrivate::All
                } else {
                    settings::AllowPrivate::None
                }))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<AllowPrivate, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<AllowPrivate, A::Error> {
                let mut networks = Vec::new();
                while let Some(text) = list.next_element::<String>()? {
                    networks.push(units::network(&text).map_err(de::Error::custom)?);
                }
                Ok(AllowPrivate(settings::AllowPrivate::Only(networks)))
            }
        }

        from.deserialize_any(Addresses)
    }
}

/// A value that a file or a variable of its own may hold instead: `env:NAME`,
/// `file:PATH`, or the value itself.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "String")]
pub(crate) enum Secret {
    Plain(String),
    Variable(String),
    File(String),
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        match text.split_once(':') {
            Some(("env", name)) => Self::Variable(name.to_owned()),
            Some(("file", path)) => Self::File(path.to_owned()),
            _ => Self::Plain(text),
        }
    }
}

/// Says where it is, never what it is.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(_) => f.write_str("…"),
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{path}"),
        }
    }
}

impl Secret {
    /// The value, without line ends at its end, which editors and shells leave there;
    /// paths are taken from the project's folder.
    pub(crate) fn reveal(&self, folder: &std::path::Path) -> Result<String, String> {
        let (text, place) = match self {
            Self::Plain(text) => (text.clone(), "it".to_owned()),
            Self::Variable(name) => match std::env::var(name) {
                Ok(text) => (text, format!("the variable {name}")),
                Err(std::env::VarError::NotPresent) => {
                    return Err(format!("there is no variable {name}"));
                }
                Err(_) => return Err(format!("the variable {name} is not UTF-8")),
            },
            Self::File(path) => match std::fs::read_to_string(folder.join(path)) {
                Ok(text) => (text, format!("the file {path}")),
                Err(error) => return Err(format!("cannot read {path}: {error}")),
            },
        };
        match text.trim_end_matches(['\n', '\r']) {
            "" => Err(format!("{place} is empty")),
            text => Ok(text.to_owned()),
        }
    }

    /// The value, if a header may have it.
    pub(crate) fn reveal_header(&self, folder: &std::path::Path) -> Result<String, String> {
        let value = self.reveal(folder)?;
        // What headers may hold: RFC 9110, 5.5.
        let is_legal = |byte: u8| byte == b'\t' || byte >= b' ' && byte != 0x7f;
        match value.bytes().position(|byte| !is_legal(byte)) {
            None => Ok(value),
            Some(at) => Err(format!(
                "byte {} of it is a control character, which no header may have",
                at + 1
            )),
        }
    }
}

/// Whether first polls of new elements count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FirstPass {
    /// They are limited by politeness alone
    Free,
    /// They are polls like any other
    Counted,
}

/// The policies that can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Policy {
    /// springtide's own: learns the rates, and polls where it is worth most
    Learned,
    /// The same frequency for all
    Uniform,
    /// In proportion to the estimated rates
    Proportional,
    /// The best plan for the estimated rates
    Optimal,
    /// In batches: the longest unpolled first
    RoundRobin,
    /// In batches: by the changes in a sample of each host
    SampleProportional,
    /// In batches: the hosts with most changes in a sample
    SampleGreedy,
    /// In batches: sampling until it is clear which hosts
    SampleAdaptive,
    /// In batches: a share round-robin, the rest sample-greedy
    RoundRobinGreedy,
    /// In batches: by rates estimated from history
    Frequency,
    /// Apache Nutch's adaptive schedule
    Nutch,
    /// Apache StormCrawler's adaptive scheduler
    #[value(name = "stormcrawler")]
    #[serde(rename = "stormcrawler")]
    StormCrawler,
    /// Miniflux's entry frequency
    Miniflux,
    /// Every element after the same interval
    FixedInterval,
}

impl From<Policy> for settings::PolicyName {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Learned => Self::Learned,
            Policy::Uniform => Self::Uniform,
            Policy::Proportional => Self::Proportional,
            Policy::Optimal => Self::Optimal,
            Policy::RoundRobin => Self::RoundRobin,
            Policy::SampleProportional => Self::SampleProportional,
            Policy::SampleGreedy => Self::SampleGreedy,
            Policy::SampleAdaptive => Self::SampleAdaptive,
            Policy::RoundRobinGreedy => Self::RoundRobinGreedy,
            Policy::Frequency => Self::Frequency,
            Policy::Nutch => Self::Nutch,
            Policy::StormCrawler => Self::StormCrawler,
            Policy::Miniflux => Self::Miniflux,
            Policy::FixedInterval => Self::FixedInterval,
        }
    }
}

/// Names are read from variables as they are from flags.
macro_rules! named {
    ($($name:ty),*) => {$(
        impl FromVariable for $name {
            fn from_variable(text: &str) -> Result<Self, String> {
                <Self as ValueEnum>::from_str(text.trim(), false).map_err(|_| {
                    let names = Self::value_variants().iter().map(|&name| crate::args::name_of(name));
                    format!("one of {} is expected", names.collect::<Vec<_>>().join(", "))
                })
            }
        }
    )*};
}
/// What parses by itself is read so.
macro_rules! parsed {
    ($($name:ty),*) => {$(
        impl FromVariable for $name {
            fn from_variable(text: &str) -> Result<Self, String> {
                text.parse().map_err(|error: <Self as FromStr>::Err| error.to_string())
            }
        }
    )*};
}

/// What can be set by a variable.
pub(crate) trait FromVariable: Sized {
    fn from_variable(text: &str) -> Result<Self, String>;
}

named!(FirstPass, Policy, ObjectiveName);
parsed!(
    PerTime,
    BurstLimit,
    Hours,
    Share,
    PositiveSpan,
    Size,
    AllowPrivate,
    String
);
