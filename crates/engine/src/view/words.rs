//! Moments, spans, states and reasons as people and programs read them.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serializer;
use springtide_policy::schedule::Reason;
use springtide_store::{Moment, Role, SourceKind, State};

/// RFC 3339 in UTC with milliseconds.
pub fn rfc3339(moment: Moment) -> String {
    match Timestamp::from_millisecond(moment.0) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        // Beyond the year 9999, or before -9999: no clock shows that.
        Err(_) => String::from("unknown"),
    }
}

/// The same for a field that may be null.
pub fn serialize_moment<S: Serializer>(
    moment: &Option<Moment>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match moment {
        Some(moment) => serializer.serialize_some(&rfc3339(*moment)),
        None => serializer.serialize_none(),
    }
}

/// Seconds from one moment to a later one; zero if it is not later.
pub fn seconds_between(earlier: Moment, later: Moment) -> f64 {
    crate::clock::millis_between(earlier, later) as f64 / 1000.0
}

/// A span of seconds in one unit, or two where it is short of the next: `90s`, `5m`,
/// `2h`, `3.5d`.
pub fn brief(seconds: f64) -> String {
    let tidy = |number: f64, unit: &str| {
        if number < 10.0 && (number * 10.0).round() % 10.0 != 0.0 {
            format!("{number:.1}{unit}")
        } else {
            format!("{number:.0}{unit}")
        }
    };
    match seconds {
        s if !s.is_finite() => "for ever".to_owned(),
        s if s < 1.0 && s > 0.0 => format!("{:.0}ms", (s * 1000.0).max(1.0)),
        s if s < 120.0 => format!("{s:.0}s"),
        s if s < 7200.0 => tidy(s / 60.0, "m"),
        s if s < 172_800.0 => tidy(s / 3600.0, "h"),
        s => tidy(s / 86_400.0, "d"),
    }
}

/// What a kind of source is called.
pub fn kind_name(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Page => "page",
        SourceKind::List => "list",
        SourceKind::Sitemap => "sitemap",
        SourceKind::Site => "site",
        SourceKind::Search => "search",
        SourceKind::Feed => "feed",
    }
}

/// What a state is called.
pub fn state_name(state: State) -> &'static str {
    match state {
        State::New => "new",
        State::Ok => "ok",
        State::Failing => "failing",
        State::Blocked => "blocked",
        State::Gone => "gone",
    }
}

/// Why an element that has no copy, or is not polled, is polled when it is.
pub(super) fn why_out(state: State) -> Option<&'static str> {
    match state {
        State::New => Some("never polled; the first pass comes to it"),
        State::Gone => Some("gone; looked at again from time to time"),
        State::Blocked => {
            Some("we are asked to keep away; robots.txt is read again from time to time")
        }
        State::Failing => Some("never answered; tried again from time to time"),
        State::Ok => None,
    }
}

/// Why an element whose source is not in the settings is never polled.
pub(super) const NOT_WANTED: &str = "not polled: its source is not in springtide.toml";

/// Why an element is polled again when it is. Without a rate, nothing is known of how
/// often it changes.
pub(super) fn why(
    reason: Reason,
    per_day: Option<f64>,
    state: State,
    role: Role,
) -> Cow<'static, str> {
    if state == State::Failing || reason == Reason::Retry {
        return "the last poll failed; tried again then".into();
    }
    let then = match reason {
        Reason::Watched if role == Role::Entry => "comes with its feed",
        Reason::Watched => "comes with a query, or by its id",
        Reason::Worth | Reason::Retry => "polled again when its copy is likely stale",
        Reason::Look => "a poll is hardly worth its cost; looked at again then",
        Reason::Sample => "polled early, to learn how often",
    };
    match per_day {
        Some(per_day) => {
            let every = brief(86_400.0 / per_day);
            format!("changes about every {every}; {then}").into()
        }
        None if reason == Reason::Watched => {
            format!("seen once; how often it changes is not known yet; {then}").into()
        }
        None => "polled once; how often it changes is not known yet".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_utc_with_milliseconds() {
        let moment = Moment(1_777_691_045_678);
        assert_eq!(rfc3339(moment), "2026-05-02T03:04:05.678Z");
        assert_eq!(rfc3339(Moment(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Moment(i64::MAX)), "unknown");
    }

    #[test]
    fn spans_are_short() {
        for (seconds, wanted) in [
            (0.0, "0s"),
            (0.25, "250ms"),
            (90.0, "90s"),
            (300.0, "5m"),
            (5400.0, "90m"),
            (9000.0, "2.5h"),
            (302_400.0, "3.5d"),
            (8_640_000.0, "100d"),
        ] {
            assert_eq!(brief(seconds), wanted);
        }
    }
}
