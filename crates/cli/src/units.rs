//! Rates, spans and ratios as people write them.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use springtide_engine::settings::Burst;
use springtide_policy::{Span, Window};

use crate::args::Hints;

const SECONDS_PER_DAY: f64 = 86_400.0;
/// A year as a unit is the Julian one.
const DAYS_PER_YEAR: f64 = 365.25;

/// A number per time, in the unit that it was given in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    amount: f64,
    pub(crate) unit: PaceUnit,
}

/// What a number per time is given by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PaceUnit {
    Second,
    Minute,
    Hour,
    #[default]
    Day,
    Week,
    Year,
}

impl PaceUnit {
    fn days(self) -> f64 {
        match self {
            Self::Second => 1.0 / SECONDS_PER_DAY,
            Self::Minute => 60.0 / SECONDS_PER_DAY,
            Self::Hour => 1.0 / 24.0,
            Self::Day => 1.0,
            Self::Week => 7.0,
            Self::Year => DAYS_PER_YEAR,
        }
    }

    /// As it is typed: `2000/day`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "min",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Year => "year",
        }
    }

    /// As it is said: 2000 polls a day.
    pub(crate) fn each(self) -> &'static str {
        match self {
            Self::Second => "a second",
            Self::Minute => "a minute",
            Self::Hour => "an hour",
            Self::Day => "a day",
            Self::Week => "a week",
            Self::Year => "a year",
        }
    }

    /// So many a day, in this unit.
    pub(crate) fn of(self, per_day: f64) -> f64 {
        per_day * self.days()
    }
}

impl Pace {
    /// So many a day, said in another unit.
    pub(crate) fn of(per_day: f64, unit: PaceUnit) -> Self {
        Self {
            amount: unit.of(per_day),
            unit,
        }
    }

    pub(crate) fn per_day(self) -> f64 {
        self.amount / self.unit.days()
    }
}

impl std::fmt::Display for Pace {
    /// Reads back as the same.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.amount, self.unit.name())
    }
}

/// `2000/day`, `30/hour`, `10/min`, `1/s`, `5/week`, `12/year`: per day.
pub(crate) fn per_day(text: &str) -> Result<f64, String> {
    pace(text).map(Pace::per_day)
}

/// The same, in the unit that it was given in.
pub(crate) fn pace(text: &str) -> Result<Pace, String> {
    let (number, unit) = text
        .split_once('/')
        .ok_or("a number per time is expected, such as 2000/day")?;
    let amount = number_in(number)?;
    let unit = match unit.trim() {
        "s" | "sec" | "second" => PaceUnit::Second,
        "m" | "min" | "minute" => PaceUnit::Minute,
        "h" | "hour" => PaceUnit::Hour,
        "d" | "day" => PaceUnit::Day,
        "w" | "week" => PaceUnit::Week,
        "month" => return Err("months differ in length; give it per day or per year".into()),
        "y" | "year" => PaceUnit::Year,
        other => {
            return Err(format!(
                "unknown unit `{other}`; one of s, min, hour, day, week, year is expected"
            ));
        }
    };
    let pace = Pace { amount, unit };
    finite(pace.per_day())?;
    Ok(pace)
}

/// Budgets a day, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Budgets {
    /// The first.
    pub(crate) per_day: f64,
    /// The others, and from when on, in days, each later than the one before.
    pub(crate) later: Vec<(f64, f64)>,
}

impl Budgets {
    /// The mean over so many days.
    pub(crate) fn mean(&self, days: f64) -> f64 {
        let mut total = 0.0;
        let (mut from, mut per_day) = (0.0, self.per_day);
        for &(until, next) in &self.later {
            let until = until.min(days);
            total += per_day * (until - from);
            (from, per_day) = (until, next);
        }
        if self.later.is_empty() || days == 0.0 {
            return self.per_day;
        }
        (total + per_day * (days - from)) / days
    }
}

/// `2000/day`, or `900/day,9000/day@100d`.
pub(crate) fn budgets(text: &str) -> Result<Budgets, String> {
    let mut parts = text.split(',');
    let mut budgets = Budgets {
        per_day: per_day(parts.next().unwrap_or_default())?,
        later: Vec::new(),
    };
    for part in parts {
        let (number, from) = part
            .split_once('@')
            .ok_or("each budget after the first needs a time, as in 9000/day@100d")?;
        let from = span(from)?.as_days();
        let before = budgets.later.last().map_or(0.0, |&(from, _)| from);
        if from <= before {
            return Err("each budget begins later than the one before".into());
        }
        budgets.later.push((from, per_day(number)?));
    }
    Ok(budgets)
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

/// A whole number above zero.
pub(crate) fn count<N: FromStr + Default + PartialEq>(text: &str) -> Result<N, String> {
    let number: Option<N> = text.trim().parse().ok();
    let number = number.filter(|number| *number != N::default());
    number.ok_or_else(|| "a whole number above zero is expected".into())
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

/// A whole number of polls in a span: `200/hour`, `10/s`.
pub(crate) fn burst(text: &str) -> Result<Burst, String> {
    let wanted = "a whole number per time is expected, such as 200/hour";
    let (number, unit) = text.split_once('/').ok_or(wanted)?;
    let n_polls: u32 = number.trim().parse().map_err(|_| wanted)?;
    if n_polls == 0 {
        return Err("it is at least 1".into());
    }
    // By what one per unit is, so that both know the same units.
    let per_day = per_day(&format!("1/{}", unit.trim()))?;
    let span = Span::days(1.0 / per_day).map_err(|error| error.to_string())?;
    Ok(Burst { n_polls, span })
}

/// `10MB`, `500KiB`, `2 GB`, `4096`: bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let factor: u64 = match unit {
        "" | "B" => 1,
        "kB" | "KB" | "k" | "K" => 1_000,
        "MB" | "M" => 1_000_000,
        "GB" | "G" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        other => {
            return Err(format!(
                "unknown unit `{other}`; one of kB, MB, GB, KiB, MiB, GiB is expected"
            ));
        }
    };
    if number.trim().is_empty() {
        return Err("a size is expected, such as 10MB or 500KiB".into());
    }
    let size = number_in(number)? * factor as f64;
    // Beyond this a double no longer counts single bytes, and nobody means it.
    const MAX_SIZE: f64 = 1e15;
    if (1.0..=MAX_SIZE).contains(&size) {
        Ok(size.round() as u64)
    } else {
        Err("a size lies between 1 byte and 1,000,000 GB".into())
    }
}

/// Networks parted by commas, each `10.1.0.0/16` or one address.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    let network = text.parse::<IpNet>().map(|network| network.trunc());
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    network
        .or_else(|_| address())
        .map_err(|_| format!("`{text}` is neither an address nor a network, such as 10.1.0.0/16"))
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
    fn a_pace_is_written_as_it_was_given() {
        for text in [
            "30/hour", "0.1/s", "2000/day", "10/min", "5/week", "12/year",
        ] {
            let given = pace(text).unwrap();
            assert_eq!(given.to_string(), text);
            assert_eq!(given.unit.of(given.per_day()).round(), given.amount.round());
        }
        assert_eq!(pace("90/h").unwrap().to_string(), "90/hour");
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
    fn sizes_count_in_thousands_or_in_powers_of_two() {
        for (text, expected) in [
            ("10MB", 10_000_000),
            ("500KiB", 512_000),
            ("1.5 kB", 1500),
            ("4096", 4096),
            ("1GiB", 1 << 30),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "MB", "0", "-1MB", "5 parsecs", "1e99GB", "nan"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bursts_are_whole_numbers_in_a_span() {
        let burst = burst("200/hour").unwrap();
        assert_eq!(burst.n_polls, 200);
        assert!((burst.span.as_days() * 24.0 - 1.0).abs() < 1e-12);
        for text in ["0/hour", "1.5/hour", "200", "200/", "-1/s", "1/month"] {
            assert!(super::burst(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_is_a_network_of_one() {
        assert_eq!(network("127.0.0.2").unwrap().to_string(), "127.0.0.2/32");
        assert_eq!(network("10.1.2.3/16").unwrap().to_string(), "10.1.0.0/16");
        assert_eq!(network("::1").unwrap().to_string(), "::1/128");
        assert!(network("localhost").is_err() && network("10.0.0.0/33").is_err());
    }

    #[test]
    fn fuzz_units() {
        bolero::check!().with_type::<String>().for_each(|text| {
            assert!(
                per_day(text).is_ok_and(|rate| rate.is_finite() && rate >= 0.0)
                    || per_day(text).is_err()
            );
            let _ = (span(text), ratio(text), burst(text), bytes(text));
            let _ = (window(text), network(text));
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
