//! Whether what a source says of its changes is to be believed.

/// What the Last-Modified of a source's elements has proved to be.
///
/// A date that moved though nothing had changed was false: such dates are made up when
/// somebody asks, and say nothing of changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DateTrust {
    n_dates: u64,
    n_false: u64,
}

/// No more than one date in so many may be false.
const MOST_FALSE: u64 = 20;

impl DateTrust {
    /// A poll showed a date to be true or false.
    pub fn note(&mut self, is_false: bool) {
        self.n_dates += 1;
        self.n_false += u64::from(is_false);
    }

    /// Whether dates are to be believed: until too many have been false.
    pub fn is_trusted(&self) -> bool {
        self.n_false * MOST_FALSE <= self.n_dates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_believed_until_one_in_twenty_is_false() {
        let mut dates = DateTrust::default();
        assert!(dates.is_trusted());
        dates.note(true);
        assert!(!dates.is_trusted());
        for _ in 0..19 {
            dates.note(false);
        }
        assert!(dates.is_trusted());
    }
}
