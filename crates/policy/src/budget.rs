//! What may be spent: in total, and within each group.

use crate::{Error, GroupId};

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

fn amount(polls: f64) -> Result<f64, Error> {
    if polls >= 0.0 && polls.is_finite() {
        Ok(polls.abs())
    } else {
        Err(Error::Budget(polls))
    }
}
