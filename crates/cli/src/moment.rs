//! Moments and spans as people and programs read them.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::Serializer;
use springtide_store::Moment;

use crate::units;

const MS_PER_SECOND: i64 = 1000;
const MS_PER_DAY: f64 = 86_400_000.0;

/// The present.
pub(crate) fn now() -> Moment {
    Moment(Timestamp::now().as_millisecond())
}

/// RFC 3339 in UTC with milliseconds.
pub(crate) fn rfc3339(moment: Moment) -> String {
    match Timestamp::from_millisecond(moment.0) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        // Beyond the year 9999, or before -9999: no clock shows that.
        Err(_) => String::from("unknown"),
    }
}

/// The same for a field that may be null.
#[expect(clippy::ref_option, reason = "serde hands it over so")]
pub(crate) fn serialize<S: Serializer>(
    moment: &Option<Moment>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match moment {
        Some(moment) => serializer.serialize_some(&rfc3339(*moment)),
        None => serializer.serialize_none(),
    }
}

/// Seconds from one moment to a later one; zero if it is not later.
pub(crate) fn seconds_between(earlier: Moment, later: Moment) -> f64 {
    (later.0.saturating_sub(earlier.0)).max(0) as f64 / MS_PER_SECOND as f64
}

/// Midnight, UTC, of the day of a moment.
pub(crate) fn midnight(moment: Moment) -> Moment {
    const DAY: i64 = 86_400_000;
    Moment(moment.0.div_euclid(DAY) * DAY)
}

/// How long ago, or how soon, in two words: `3h ago`, `in 5m`, `now`.
pub(crate) fn relative(moment: Moment, now: Moment) -> String {
    let seconds = (moment.0.saturating_sub(now.0)) / MS_PER_SECOND;
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {}", brief(seconds as f64)),
        _ => format!("{} ago", brief(-(seconds as f64))),
    }
}

/// A span of seconds in one unit, or two where it is short of the next: `90s`, `5m`,
/// `2h`, `3.5d`.
pub(crate) fn brief(seconds: f64) -> String {
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

/// `2h` (ago), `today`, `yesterday`, `2026-05-01`, `2026-05-01T12:00:00Z`.
pub(crate) fn since(text: &str, now: Moment) -> Result<Moment, String> {
    let wanted = "a span such as 2h, a day such as 2026-05-01, today, yesterday or a time \
                  such as 2026-05-01T12:00:00Z is expected";
    let text = text.trim();
    let at_midnight = |date: Date| {
        let zoned = date.to_zoned(TimeZone::UTC).ok()?;
        Some(Moment(zoned.timestamp().as_millisecond()))
    };
    match text {
        "today" => return Ok(midnight(now)),
        "yesterday" => {
            let day = Timestamp::from_millisecond(now.0).map_err(|_| wanted)?;
            let day = day.to_zoned(TimeZone::UTC).date();
            let day = day.checked_sub(1.day()).map_err(|_| wanted)?;
            return at_midnight(day).ok_or_else(|| wanted.to_owned());
        }
        _ => {}
    }
    if let Ok(span) = units::span(text.trim_end_matches("ago").trim_end()) {
        return Ok(Moment(now.0 - (span.as_days() * MS_PER_DAY) as i64));
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(Moment(timestamp.as_millisecond()));
    }
    text.parse::<Date>()
        .ok()
        .and_then(at_midnight)
        .ok_or_else(|| wanted.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-05-02T03:04:05.678Z.
    const NOW: Moment = Moment(1_777_691_045_678);

    #[test]
    fn moments_are_utc_with_milliseconds() {
        assert_eq!(rfc3339(NOW), "2026-05-02T03:04:05.678Z");
        assert_eq!(rfc3339(Moment(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Moment(i64::MAX)), "unknown");
    }

    #[test]
    fn since_understands_what_people_say() {
        for (text, wanted) in [
            ("2h", "2026-05-02T01:04:05.678Z"),
            ("2h ago", "2026-05-02T01:04:05.678Z"),
            ("today", "2026-05-02T00:00:00.000Z"),
            ("yesterday", "2026-05-01T00:00:00.000Z"),
            ("2026-04-30", "2026-04-30T00:00:00.000Z"),
            ("2026-04-30T12:00:00+02:00", "2026-04-30T10:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(since(text, NOW).unwrap()), wanted, "{text}");
        }
        for text in ["", "soon", "2026-13-01", "5"] {
            assert!(since(text, NOW).is_err(), "{text}");
        }
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
        assert_eq!(relative(Moment(NOW.0 - 300_000), NOW), "5m ago");
        assert_eq!(relative(Moment(NOW.0 + 300_000), NOW), "in 5m");
    }
}
