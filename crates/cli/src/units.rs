//! Rates, spans and ratios as people write them.

use springtide_policy::{Span, Window};

use crate::args::Hints;

const SECONDS_PER_DAY: f64 = 86_400.0;
/// A year as a unit is the Julian one.
const DAYS_PER_YEAR: f64 = 365.25;

/// `2000/day`, `30/hour`, `10/min`, `1/s`, `5/week`, `12/year`: per day.
pub(crate) fn per_day(text: &str) -> Result<f64, String> {
    let (number, unit) = text
        .split_once('/')
        .ok_or("a number per time is expected, such as 2000/day")?;
    let amount = number_in(number)?;
    let days = match unit.trim() {
        "s" | "sec" | "second" => 1.0 / SECONDS_PER_DAY,
        "m" | "min" | "minute" => 60.0 / SECONDS_PER_DAY,
        "h" | "hour" => 1.0 / 24.0,
        "d" | "day" => 1.0,
        "w" | "week" => 7.0,
        "month" => return Err("months differ in length; give it per day or per year".into()),
        "y" | "year" => DAYS_PER_YEAR,
        other => {
            return Err(format!(
                "unknown unit `{other}`; one of s, min, hour, day, week, year is expected"
            ));
        }
    };
    finite(amount / days)
}

/// `90s`, `5m`, `2h`, `30d`, `1h 30m`.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    let mut days = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("a span of time is expected, such as 90s, 5m, 2h or 30d".into());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .ok_or_else(|| format!("`{rest}` has no unit; one of s, m, h, d, w is expected"))?;
        let (number, tail) = rest.split_at(digits);
        if number.is_empty() {
            return Err(format!("`{rest}` does not begin with a number"));
        }
        let tail = tail.trim_start();
        let unit_end = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        days += number_in(number)?
            * match unit {
                "s" | "sec" | "second" | "seconds" => 1.0 / SECONDS_PER_DAY,
                "m" | "min" | "minute" | "minutes" => 60.0 / SECONDS_PER_DAY,
                "h" | "hour" | "hours" => 1.0 / 24.0,
                "d" | "day" | "days" => 1.0,
                "w" | "week" | "weeks" => 7.0,
                other => {
                    return Err(format!(
                        "unknown unit `{other}`; one of s, m, h, d, w is expected"
                    ));
                }
            };
        rest = tail.trim_start();
    }
    Span::days(days).map_err(|error| error.to_string())
}

/// `95%` or `0.95`.
pub(crate) fn ratio(text: &str) -> Result<f64, String> {
    let ratio = match text.trim().strip_suffix('%') {
        Some(percent) => number_in(percent)? / 100.0,
        None => number_in(text)?,
    };
    if (0.0..=1.0).contains(&ratio) {
        Ok(ratio)
    } else {
        Err("a share lies between 0 and 1, or 0% and 100%".into())
    }
}

/// A number above zero: `4.6`.
pub(crate) fn above_zero(text: &str) -> Result<f64, String> {
    match number_in(text)? {
        0.0 => Err("the number is above zero".into()),
        number => Ok(number),
    }
}

/// Hours of the day: `22:00-06:00`, with or without `UTC`.
pub(crate) fn window(text: &str) -> Result<Window, String> {
    let wanted = "two times of the day are expected, such as 22:00-06:00";
    let hour = |text: &str| {
        let (hours, minutes) = text.trim().split_once(':').ok_or(wanted)?;
        let (hours, minutes): (u8, u8) = match (hours.parse(), minutes.parse()) {
            (Ok(hours), Ok(minutes)) if minutes < 60 => (hours, minutes),
            _ => return Err(wanted),
        };
        Ok(f64::from(hours) + f64::from(minutes) / 60.0)
    };
    let text = text.trim().trim_end_matches("UTC");
    let (from, to) = text.split_once('-').ok_or(wanted)?;
    Window::from_hours(hour(from)?, hour(to)?).map_err(|error| error.to_string())
}

/// Precision, recall and delay of hints: `70%,60%,1h`.
pub(crate) fn hints(text: &str) -> Result<Hints, String> {
    let parts: Vec<&str> = text.split(',').collect();
    let [precision, recall, delay] = parts[..] else {
        return Err("precision, recall and delay are expected, such as 70%,60%,1h".into());
    };
    let (precision, recall) = (ratio(precision)?, ratio(recall)?);
    if precision == 0.0 {
        return Err("with a precision of 0 every hint would be wrong; it is above 0".into());
    }
    Ok(Hints {
        precision,
        recall,
        delay: span(delay)?,
    })
}

fn number_in(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let number: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number"))?;
    if number < 0.0 {
        return Err(format!("`{text}` is below zero"));
    }
    finite(number)
}

fn finite(number: f64) -> Result<f64, String> {
    if number.is_finite() {
        Ok(number)
    } else {
        Err("the number is too large, or none at all".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_day() {
        for (text, expected) in [
            ("2000/day", 2000.0),
            ("30/hour", 720.0),
            ("10/min", 14_400.0),
            ("1/s", 86_400.0),
            ("5/week", 5.0 / 7.0),
            ("12/year", 12.0 / 365.25),
            ("0.5/day", 0.5),
            ("1e3 / day", 1000.0),
            ("0/day", 0.0),
        ] {
            let computed = per_day(text).unwrap();
            assert!(
                (computed - expected).abs() <= 1e-12 * expected,
                "{text}: {computed}"
            );
        }
        for text in [
            "",
            "5",
            "5/",
            "/day",
            "-1/day",
            "nan/day",
            "inf/day",
            "1/fortnight",
            "1/month",
            "1e999/s",
        ] {
            assert!(per_day(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_add_up() {
        for (text, days) in [
            ("90s", 90.0 / 86_400.0),
            ("5m", 5.0 / 1440.0),
            ("2h", 2.0 / 24.0),
            ("30d", 30.0),
            ("1h 30m", 1.5 / 24.0),
            ("1.5d", 1.5),
            ("1d12h", 1.5),
            ("1 h 30 min", 1.5 / 24.0),
        ] {
            assert!(
                (span(text).unwrap().as_days() - days).abs() < 1e-12,
                "{text}"
            );
        }
        for text in ["", "5", "h", "-5d", "5 lightyears", "1..5d", "nand", "d5"] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn fuzz_units() {
        bolero::check!().with_type::<String>().for_each(|text| {
            assert!(
                per_day(text).is_ok_and(|rate| rate.is_finite() && rate >= 0.0)
                    || per_day(text).is_err()
            );
            let _ = (span(text), ratio(text));
        });
    }

    #[test]
    fn ratios_are_shares() {
        assert_eq!(ratio("95%"), Ok(0.95));
        assert_eq!(ratio("0.95"), Ok(0.95));
        assert_eq!(ratio("100%"), Ok(1.0));
        for text in ["95", "101%", "-1%", "nan", "", "%"] {
            assert!(ratio(text).is_err(), "{text}");
        }
    }
}
