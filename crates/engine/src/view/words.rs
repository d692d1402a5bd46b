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

/// An address or a locator as it may be shown: without the password in it. Where an address
/// of the web names a user alone, that may be a secret, too; of a database it is none.
///
/// ```
/// use springtide_engine::view::redacted;
///
/// assert_eq!(redacted("https://me:secret@example.org/a@b"), "https://me:***@example.org/a@b");
/// assert_eq!(redacted("https://secret@example.org"), "https://***@example.org");
/// assert_eq!(redacted("postgres://reader@db.example.org/shop"), "postgres://reader@db.example.org/shop");
/// ```
pub fn redacted(address: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = address.split_once(':').filter(|_| address.contains('@')) else {
        return Cow::Borrowed(address);
    };
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let rest_of_authority = rest.trim_start_matches(['/', '\\']);
    let slashes = &rest[..rest.len() - rest_of_authority.len()];
    let authority = rest_of_authority.split(['/', '\\', '?', '#']).next();
    let at = authority.and_then(|authority| authority.rfind('@'));
    let (Some(at), true) = (at, !slashes.is_empty() && scheme.chars().all(is_scheme)) else {
        return Cow::Borrowed(address);
    };
    let (secret, host) = rest_of_authority.split_at(at);
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    match secret.split_once(':') {
        Some((user, _)) => Cow::Owned(format!("{scheme}:{slashes}{user}:***{host}")),
        None if is_web => Cow::Owned(format!("{scheme}:{slashes}***{host}")),
        None => Cow::Borrowed(address),
    }
}

/// Seconds from one moment to a later one; zero if it is not later.
pub fn seconds_between(earlier: Moment, later: Moment) -> f64 {
    crate::clock::millis_between(earlier, later) as f64 / 1000.0
}

/// A span of seconds in one unit, or two where the larger says too little: `250ms`, `45s`,
/// `2m`, `1m 30s`, `1h 57m`, `3d 12h`, `100d`.
pub fn brief(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "infinite".to_owned();
    }
    if seconds > 0.0 && seconds < 0.9995 {
        return format!("{:.0}ms", (seconds * 1000.0).max(1.0));
    }
    // No finer than what is shown, so that nothing is rounded up to a whole larger unit.
    let finest = match seconds {
        s if s < 600.0 => 1.0,
        s if s < 36_000.0 => 60.0,
        s if s < 172_800.0 => 600.0,
        s if s < 864_000.0 => 3600.0,
        _ => 86_400.0,
    };
    let whole = (seconds / finest).round() * finest;
    let (larger, smaller) = match whole {
        s if s < 60.0 => return format!("{s:.0}s"),
        s if s < 3600.0 => ((60.0, "m"), (1.0, "s")),
        s if s < 86_400.0 => ((3600.0, "h"), (60.0, "m")),
        _ => ((86_400.0, "d"), (3600.0, "h")),
    };
    let n_larger = (whole / larger.0).floor();
    let n_smaller = ((whole - n_larger * larger.0) / smaller.0).round();
    match n_smaller {
        0.0 => format!("{n_larger:.0}{}", larger.1),
        n => format!("{n_larger:.0}{} {n:.0}{}", larger.1, smaller.1),
    }
}

/// How long ago, or how soon, in two words: `3h ago`, `in 5m`, `now`.
pub fn relative(moment: Moment, now: Moment) -> String {
    let seconds = (moment.0.saturating_sub(now.0)) / 1000;
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {}", brief(seconds as f64)),
        _ => format!("{} ago", brief(-(seconds as f64))),
    }
}

/// A count with thousands parted, as people read it.
pub fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (position, digit) in digits.char_indices() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in bytes, with two or three digits.
pub fn size(bytes: u64) -> String {
    let mut size = bytes as f64;
    let mut unit = "B";
    for larger in ["kB", "MB", "GB", "TB"] {
        // What would be printed as 1000 is one of the next.
        if size < 999.5 {
            break;
        }
        (size, unit) = (size / 1000.0, larger);
    }
    match unit {
        "B" => format!("{bytes} B"),
        _ if size < 9.95 => format!("{size:.1} {unit}"),
        _ => format!("{size:.0} {unit}"),
    }
}

/// A share in per cent.
pub fn percent(share: f64) -> String {
    // A digit more where it is nearly all, or hardly anything.
    if (share > 0.99 && share < 1.0) || (share > 0.0 && share < 0.01) {
        format!("{:.2}%", share * 100.0)
    } else {
        format!("{:.1}%", share * 100.0)
    }
}

/// A count of things, one or many.
pub fn plural(n: u64, thing: &str) -> String {
    let n_things = count(n as usize);
    match (n, thing.strip_suffix("dy")) {
        (1, _) => format!("{n_things} {thing}"),
        (_, Some(stem)) => format!("{n_things} {stem}dies"),
        (_, None) => format!("{n_things} {thing}s"),
    }
}

/// Three digits are enough to compare by, and of large numbers all before the point.
pub fn per_day(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        n if n >= 999.5 => count(n.round() as usize),
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n if n >= 1.0 => format!("{n:.2}"),
        n if n >= 0.001 => format!("{n:.3}"),
        n => format!("{n:.0e}"),
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
        SourceKind::Table => "table",
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
        State::New => Some("never polled; waits for its first poll"),
        State::Gone => Some("gone; looked at again from time to time"),
        State::Blocked => Some("disallowed by robots.txt, which is read again from time to time"),
        State::Failing => Some("never answered; tried again from time to time"),
        State::Ok => None,
    }
}

/// Why an element whose source is not in the settings is never polled.
pub(super) const NOT_WANTED: &str = "not polled: its source is not in springtide.toml";

/// And one whose source is paused, for now.
pub(super) const PAUSED: &str = "not polled: its source is paused";

/// Why an element is polled again when it is. Without a rate, nothing is known of how
/// often it changes.
pub(super) fn why(
    reason: Reason,
    per_day: Option<f64>,
    state: State,
    role: Role,
) -> Cow<'static, str> {
    if state == State::Failing || reason == Reason::Retry {
        return "a retry, since the last poll failed".into();
    }
    let then = match reason {
        Reason::Watched if role == Role::Entry => "comes with its feed",
        Reason::Watched => "comes with a query, or by its id",
        Reason::Worth | Reason::Retry => "polled again when its copy is likely stale",
        Reason::Look => "hardly worth a poll; decided again at that time",
        Reason::Sample => "polled early, to learn how often it changes",
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
    fn things_are_counted_as_they_are_spelled() {
        let counted = [1, 1200].map(|n| plural(n, "page"));
        assert_eq!(counted, ["1 page", "1,200 pages"]);
        assert_eq!([1, 0].map(|n| plural(n, "body")), ["1 body", "0 bodies"]);
    }

    #[test]
    fn no_password_in_an_address_is_shown() {
        for (address, shown) in [
            ("https://u:p@example.org/", "https://u:***@example.org/"),
            (
                "https://u:p@x@example.org:8/?a=b@c",
                "https://u:***@example.org:8/?a=b@c",
            ),
            ("https://:p@example.org", "https://:***@example.org"),
            (
                "HTTP:\\\\u:p@example.org\\a",
                "HTTP:\\\\u:***@example.org\\a",
            ),
            (
                "mysql://root:p@[::1]:3306/a",
                "mysql://root:***@[::1]:3306/a",
            ),
            (
                "https://u:p@example.org/?q={query}",
                "https://u:***@example.org/?q={query}",
            ),
            ("https://example.org/@u:p", "https://example.org/@u:p"),
            ("https://example.org?u:p@x", "https://example.org?u:p@x"),
            ("orders[[1,\"a:b@c\"]..)", "orders[[1,\"a:b@c\"]..)"),
            ("mailto:ops@example.org", "mailto:ops@example.org"),
            ("a row: b/c@d", "a row: b/c@d"),
            ("", ""),
        ] {
            assert_eq!(redacted(address), shown, "{address}");
        }
    }

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
            (0.9999, "1s"),
            (45.0, "45s"),
            (59.7, "1m"),
            (90.0, "1m 30s"),
            (120.0, "2m"),
            (300.0, "5m"),
            (754.0, "13m"),
            (3590.0, "1h"),
            (5400.0, "1h 30m"),
            (7020.0, "1h 57m"),
            (86_399.0, "1d"),
            (302_400.0, "3d 12h"),
            (863_999.0, "10d"),
            (8_640_000.0, "100d"),
            (f64::INFINITY, "infinite"),
        ] {
            assert_eq!(brief(seconds), wanted);
        }
    }

    #[test]
    fn sizes_have_two_or_three_digits() {
        for (bytes, wanted) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9_949, "9.9 kB"),
            (9_950, "10 kB"),
            (999_499, "999 kB"),
            (999_500, "1.0 MB"),
            (12_300_000_000, "12 GB"),
        ] {
            assert_eq!(size(bytes), wanted, "{bytes}");
        }
    }

    #[test]
    fn counts_are_parted_in_threes() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(123_456_789), "123,456,789");
    }
}
