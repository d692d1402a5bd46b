//! The clock of a group.

use crate::numeric::fading;

/// A clock that runs fast while a group shows more changes than expected, and
/// slowly while it shows fewer.
///
/// All rates, intervals and due times of a group's members are in the time that it
/// shows, so a burst in a few of them makes all the others due earlier, and a
/// quiet week makes them due later, without touching any of them. It is sampling,
/// as a by-product of polling. The clock is wound by the clock of the group around
/// it; the outermost one is time itself.
///
/// Its speed is that of changes seen to changes expected, both with a few more
/// added and both fading in the time of the group around it:
///
/// ```text
/// speed = (Z + k) / (E + k)
/// ```
///
/// It holds for as long as what was seen is news. A clock that has seen nothing for
/// that long runs as usual again: it can neither stand still nor race for good.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// What it shows, and what the clock around it showed then.
    pub(super) shows: f64,
    outer: f64,
    speed: f64,
    /// For how long the speed holds, on the clock around it.
    left: f64,
    seen: f64,
    expected: f64,
    /// What the clock around it showed when those two were last added to.
    observed: f64,
}

/// What is added to changes seen and expected: a group is believed to run as
/// usual until it has shown about so many.
const USUAL: f64 = 2.0;
/// How long half of what was seen counts, in days: as long as most bursts. Half as much
/// does as well where polls are days apart, twice as much where they are months apart.
const HALF_LIFE: f64 = 1.0;
/// How long what was seen is news.
const NEWS: f64 = HALF_LIFE / std::f64::consts::LN_2;

impl Clock {
    /// The numbers that it is remembered by.
    pub(super) const N: usize = 7;

    pub(super) fn numbers(&self) -> [f64; Self::N] {
        let Self {
            shows,
            outer,
            speed,
            left,
            seen,
            expected,
            observed,
        } = *self;
        [shows, outer, speed, left, seen, expected, observed]
    }

    /// What was remembered; a clock neither stands still nor runs backwards.
    pub(super) fn from_numbers(numbers: [f64; Self::N]) -> Self {
        let [shows, outer, speed, left, seen, expected, observed] = numbers;
        Self {
            shows,
            outer,
            speed: speed.max(f64::MIN_POSITIVE),
            left: left.max(0.0),
            seen: seen.max(0.0),
            expected: expected.max(0.0),
            observed,
        }
    }

    pub(super) fn new(outer: f64) -> Self {
        Self {
            shows: outer,
            outer,
            speed: 1.0,
            left: 0.0,
            seen: 0.0,
            expected: 0.0,
            observed: outer,
        }
    }

    pub(super) fn speed(&self) -> f64 {
        self.speed
    }

    /// Lets it run until the clock around it shows `outer`.
    pub(super) fn run_to(&mut self, outer: f64) {
        let passed = (outer - self.outer).max(0.0);
        self.shows = self.shows_at(self.outer + passed);
        self.left = (self.left - passed).max(0.0);
        self.outer = outer;
    }

    /// What it shows when the clock around it shows `outer`, if nothing more is seen:
    /// the inverse of [`when`](Self::when).
    pub(super) fn shows_at(&self, outer: f64) -> f64 {
        let passed = outer - self.outer;
        self.shows
            + if passed <= 0.0 {
                passed
            } else if passed <= self.left {
                self.speed * passed
            } else {
                passed + (self.speed - 1.0) * self.left
            }
    }

    /// What the clock around it shows when this one will show `shows`, if nothing
    /// more is seen.
    pub(super) fn when(&self, shows: f64) -> f64 {
        let wanted = shows - self.shows;
        let soon = self.speed * self.left;
        self.outer
            + if wanted <= 0.0 {
                wanted
            } else if wanted <= soon {
                wanted / self.speed
            } else {
                self.left + (wanted - soon)
            }
    }

    /// A poll showed a change or not, which was expected with this probability.
    pub(super) fn observe(&mut self, changed: bool, expected: f64) {
        let kept = fading((self.outer - self.observed) * (1.0 / NEWS));
        self.seen = self.seen * kept + f64::from(u8::from(changed));
        self.expected = self.expected * kept + expected;
        self.observed = self.outer;
        self.speed = (self.seen + USUAL) / (self.expected + USUAL);
        self.left = NEWS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(speed: f64, left: f64) -> Clock {
        Clock {
            shows: 5.0,
            speed,
            left,
            ..Clock::new(2.0)
        }
    }

    #[test]
    fn it_runs_in_two_steps_as_in_one() {
        for speed in [0.2, 1.0, 7.0] {
            let (mut whole, mut steps) = (clock(speed, 3.0), clock(speed, 3.0));
            whole.run_to(12.0);
            steps.run_to(4.0);
            steps.run_to(6.5);
            steps.run_to(12.0);
            assert!((steps.shows - whole.shows).abs() < 1e-12);
            // Three days at its speed, seven as usual.
            assert!((whole.shows - 5.0 - (3.0 * speed + 7.0)).abs() < 1e-12);
        }
    }

    #[test]
    fn when_is_the_inverse_of_running() {
        for speed in [0.05, 1.0, 20.0] {
            for wanted in [0.01, 1.0, 30.0, 500.0] {
                let mut clock = clock(speed, 3.0);
                clock.run_to(clock.when(5.0 + wanted));
                assert!((clock.shows - 5.0 - wanted).abs() < 1e-9 * wanted.max(1.0));
            }
        }
    }

    #[test]
    fn a_burst_speeds_it_up_and_silence_slows_it_down() {
        let mut clock = Clock::new(0.0);
        for _ in 0..9 {
            clock.observe(true, 0.1);
        }
        assert!(clock.speed() > 3.0);
        clock.run_to(100.0);
        let shown = clock.shows;
        clock.run_to(101.0);
        assert!((clock.shows - shown - 1.0).abs() < 1e-12, "it is forgotten");
        for _ in 0..30 {
            clock.observe(false, 0.3);
        }
        assert!(clock.speed() < 0.3);
    }
}
