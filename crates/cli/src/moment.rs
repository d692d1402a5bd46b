//! Moments and spans as people and programs read them.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
pub(crate) use springtide_engine::view::{
    brief, relative, rfc3339, seconds_between, serialize_moment as serialize,
};
use springtide_store::Moment;

use crate::units;

const MS_PER_DAY: f64 = 86_400_000.0;

/// The present.
pub(crate) fn now() -> Moment {
    Moment(Timestamp::now().as_millisecond())
}

/// Midnight, UTC, of the day of a moment.
pub(crate) fn midnight(moment: Moment) -> Moment {
    const DAY: i64 = 86_400_000;
    Moment(moment.0.div_euclid(DAY) * DAY)
}

/// A moment where the reader is: `2026-05-04 07:20`.
pub(crate) fn local(moment: Moment) -> String {
    match Timestamp::from_millisecond(moment.0) {
        Ok(timestamp) => {
            let zoned = timestamp.to_zoned(TimeZone::system());
            zoned.strftime("%Y-%m-%d %H:%M").to_string()
        }
        Err(_) => "unknown".to_owned(),
    }
}

/// The time of day where the reader is, with the date if that is not today's: `14:02`.
pub(crate) fn time_of_day(moment: Moment) -> String {
    let (then, today) = (local(moment), local(now()));
    match (then.split_once(' '), today.split_once(' ')) {
        (Some((day, time)), Some((today, _))) if day == today => time.to_owned(),
        _ => then,
    }
}

/// `2h` (ago), `today`, `yesterday`, `2026-05-01`, `2026-05-01T12:00:00Z`. Days begin
/// where the reader is, as the times that are shown to them.
pub(crate) fn since(text: &str, now: Moment) -> Result<Moment, String> {
    since_at(text, now, &TimeZone::system())
}

fn since_at(text: &str, now: Moment, zone: &TimeZone) -> Result<Moment, String> {
    let wanted = "a span such as 2h, a day such as 2026-05-01, today, yesterday or a time \
                  such as 2026-05-01T12:00:00Z is expected";
    let text = text.trim();
    let at_midnight = |date: Date| {
        let zoned = date.to_zoned(zone.clone()).ok()?;
        Some(Moment(zoned.timestamp().as_millisecond()))
    };
    let n_days_ago = match text {
        "today" => Some(0),
        "yesterday" => Some(1),
        _ => None,
    };
    if let Some(n_days) = n_days_ago {
        let day = Timestamp::from_millisecond(now.0).map_err(|_| wanted)?;
        let day = day.to_zoned(zone.clone()).date();
        let day = day.checked_sub(n_days.days()).map_err(|_| wanted)?;
        return at_midnight(day).ok_or_else(|| wanted.to_owned());
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
    fn since_understands_what_people_say() {
        for (text, wanted) in [
            ("2h", "2026-05-02T01:04:05.678Z"),
            ("2h ago", "2026-05-02T01:04:05.678Z"),
            ("today", "2026-05-02T00:00:00.000Z"),
            ("yesterday", "2026-05-01T00:00:00.000Z"),
            ("2026-04-30", "2026-04-30T00:00:00.000Z"),
            ("2026-04-30T12:00:00+02:00", "2026-04-30T10:00:00.000Z"),
        ] {
            let moment = since_at(text, NOW, &TimeZone::UTC).unwrap();
            assert_eq!(rfc3339(moment), wanted, "{text}");
        }
        // Where it is still the day before.
        let west = TimeZone::fixed(jiff::tz::offset(-4));
        for (text, wanted) in [
            ("today", "2026-05-01T04:00:00.000Z"),
            ("yesterday", "2026-04-30T04:00:00.000Z"),
            ("2026-04-30", "2026-04-30T04:00:00.000Z"),
            ("2026-04-30T12:00:00Z", "2026-04-30T12:00:00.000Z"),
        ] {
            let moment = since_at(text, NOW, &west).unwrap();
            assert_eq!(rfc3339(moment), wanted, "{text}");
        }
        for text in ["", "soon", "2026-13-01", "5"] {
            assert!(since(text, NOW).is_err(), "{text}");
        }
    }

    #[test]
    fn moments_are_told_from_now() {
        assert_eq!(relative(Moment(NOW.0 - 300_000), NOW), "5m ago");
        assert_eq!(relative(Moment(NOW.0 + 300_000), NOW), "in 5m");
    }
}
