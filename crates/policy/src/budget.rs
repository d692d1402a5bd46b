//! What may be spent: in total, and within each group.

use crate::{Error, GroupId, Time};

/// Polls (or, where polls have costs, cost) allowed per time.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    per_day: f64,
    caps: Caps,
}

impl Budget {
    /// A budget of this many polls a day, all elements together.
    ///
    /// # Errors
    /// If the number is negative, infinite or not a number.
    pub fn per_day(polls: f64) -> Result<Self, Error> {
        Ok(Self {
            per_day: amount(polls)?,
            caps: Caps::default(),
        })
    }

    /// The same budget, of which each capped group gets no more than its cap.
    #[must_use]
    pub fn with_caps(self, caps: Caps) -> Self {
        Self { caps, ..self }
    }

    /// The total a day.
    pub fn as_per_day(&self) -> f64 {
        self.per_day
    }

    /// The caps nested under the total.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }
}

/// The most that each of some groups may get.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Caps {
    /// Sorted by group, each once.
    caps: Vec<(GroupId, f64)>,
}

impl Caps {
    /// Caps from pairs of a group and its polls a day.
    ///
    /// # Errors
    /// If a number is negative, infinite or not a number, or if a group is
    /// named twice.
    pub fn per_day(caps: impl IntoIterator<Item = (GroupId, f64)>) -> Result<Self, Error> {
        let mut caps = caps
            .into_iter()
            .map(|(group, polls)| Ok((group, amount(polls)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        caps.sort_by_key(|&(group, _)| group);
        match caps.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(Error::CappedTwice(pair[0].0.number())),
            None => Ok(Self { caps }),
        }
    }

    /// The capped groups, each with its polls a day.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (GroupId, f64)> + '_ {
        self.caps.iter().copied()
    }
}

/// The hours of a day in which polls may be made: the freshness paper's
/// synchronization points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// When it opens and for how long, in days.
    opens: f64,
    length: f64,
}

impl Window {
    /// From one time of the day to another, which may be on the next day: 22 to 6
    /// are eight hours.
    ///
    /// # Errors
    ///
    /// If an hour lies outside a day, or the two are the same.
    pub fn from_hours(opens: f64, closes: f64) -> Result<Self, Error> {
        let is_hour = |hour: f64| (0.0..=24.0).contains(&hour);
        let length = (closes - opens).rem_euclid(24.0) / 24.0;
        if is_hour(opens) && is_hour(closes) && length > 0.0 {
            Ok(Self {
                opens: opens / 24.0,
                length,
            })
        } else {
            Err(Error::Window(opens, closes))
        }
    }

    /// Whether polls may be made at a time, counted in days since some midnight.
    pub fn contains(&self, time: Time) -> bool {
        self.is_open(time.0)
    }

    /// When polls may next be made: then, or when it opens.
    #[must_use]
    pub fn opens_at(&self, time: Time) -> Time {
        if !time.0.is_finite() || self.is_open(time.0) {
            return time;
        }
        let since = (time.0 - self.opens).rem_euclid(1.0);
        Time(time.0 + (1.0 - since))
    }

    /// For how many of the days between two times polls may be made.
    #[must_use]
    pub fn open_days(&self, from: Time, to: Time) -> f64 {
        (self.compress(to.0) - self.compress(from.0)) * self.length
    }

    pub(crate) fn is_open(&self, now: f64) -> bool {
        (now - self.opens).rem_euclid(1.0) < self.length
    }

    /// The time on a clock that runs only while the window is open, and then so
    /// fast that it keeps up.
    pub(crate) fn compress(&self, now: f64) -> f64 {
        let since = now - self.opens;
        let open = (since - since.floor()) / self.length;
        self.opens + since.floor() + open.min(1.0)
    }

    /// When that clock shows this: the inverse of [`compress`](Self::compress), but
    /// for a whole number of days, which is when it opens and not when it has closed.
    pub(crate) fn expand(&self, shown: f64) -> f64 {
        let since = shown - self.opens;
        self.opens + since.floor() + (since - since.floor()) * self.length
    }
}

fn amount(polls: f64) -> Result<f64, Error> {
    if polls >= 0.0 && polls.is_finite() {
        Ok(polls.abs())
    } else {
        Err(Error::Budget(polls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_across_midnight_is_open_for_eight_hours() {
        let window = Window::from_hours(22.0, 6.0).unwrap();
        for (hour, is_open) in [
            (0.0, true),
            (5.9, true),
            (6.1, false),
            (21.9, false),
            (22.1, true),
        ] {
            assert_eq!(window.is_open(3.0 + hour / 24.0), is_open, "{hour}");
        }
        assert_eq!(window.opens_at(Time(3.1)), Time(3.1));
        assert!((window.opens_at(Time(3.5)).0 - (3.0 + 22.0 / 24.0)).abs() < 1e-12);
        // A day of its clock is a day.
        let (now, later) = (10.95, 11.95);
        assert!((window.compress(later) - window.compress(now) - 1.0).abs() < 1e-12);
        for now in [10.95, 11.0, 11.2] {
            assert!(
                (window.expand(window.compress(now)) - now).abs() < 1e-12,
                "{now}"
            );
        }
        // Ten hours from 4 to 14, of which two, and a whole day.
        let open_hours = |from, to| window.open_days(Time(from), Time(to)) * 24.0;
        assert!((open_hours(11.0 + 4.0 / 24.0, 11.0 + 14.0 / 24.0) - 2.0).abs() < 1e-9);
        assert!((open_hours(10.4, 11.4) - 8.0).abs() < 1e-9);
        assert!(open_hours(11.3, 11.9).abs() < 1e-9);
        // What is due while it is closed waits until it opens.
        let opening = 11.0 + 22.0 / 24.0;
        assert!((window.expand(window.compress(11.5)) - opening).abs() < 1e-12);
    }

    #[test]
    fn a_window_of_no_length_is_refused() {
        assert!(Window::from_hours(6.0, 6.0).is_err());
        assert!(Window::from_hours(6.0, 25.0).is_err());
        assert!(Window::from_hours(f64::NAN, 6.0).is_err());
    }
}
