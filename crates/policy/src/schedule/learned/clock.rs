//! The clock of a group.

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
/// added and both fading with the same half-life (in the time of the group around
/// it):
///
/// ```text
/// speed(s) = (Z·u + k) / (E·u + k),   u = e^(−s/τ)
/// ```
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// What it shows, and what the clock around it showed then.
    pub(super) shows: f64,
    outer: f64,
    seen: f64,
    expected: f64,
}

/// What is added to changes seen and expected: a group is believed to run as
/// usual until it has shown about so many.
const USUAL: f64 = 3.0;
/// How long half of what was seen counts, in days.
const HALF_LIFE: f64 = 3.0;
const TAU: f64 = HALF_LIFE / std::f64::consts::LN_2;
/// Evidence so faint that the clock may be taken to run as usual.
const FAINT: f64 = 1e-4;

impl Clock {
    pub(super) fn new(outer: f64) -> Self {
        Self {
            shows: outer,
            outer,
            seen: 0.0,
            expected: 0.0,
        }
    }

    pub(super) fn speed(&self) -> f64 {
        (self.seen + USUAL) / (self.expected + USUAL)
    }

    /// Lets it run until the clock around it shows `outer`.
    pub(super) fn run_to(&mut self, outer: f64) {
        let passed = outer - self.outer;
        if passed > 0.0 {
            let kept = (-passed / TAU).exp();
            self.shows += self.run(passed, kept);
            self.seen *= kept;
            self.expected *= kept;
            self.outer = outer;
        }
    }

    /// What the clock around it shows when this one will show `shows`, if nothing
    /// more is seen.
    pub(super) fn when(&self, shows: f64) -> f64 {
        let wanted = shows - self.shows;
        if wanted <= 0.0 || wanted == f64::INFINITY {
            return self.outer + wanted / self.speed();
        }
        if self.seen + self.expected < FAINT {
            return self.outer + wanted;
        }
        // Newton's method; the speed goes monotonically to one, so a step from
        // between the two extremes stays there. A thousandth is near enough: who
        // is due is looked at again when its turn comes.
        let mut passed = wanted / self.speed().max(1.0);
        for _ in 0..20 {
            let kept = (-passed / TAU).exp();
            let off = self.run(passed, kept) - wanted;
            if off.abs() <= 1e-3 * wanted {
                break;
            }
            let speed = (self.seen * kept + USUAL) / (self.expected * kept + USUAL);
            passed = (passed - off / speed).max(0.1 * passed);
        }
        self.outer + passed
    }

    /// A poll showed a change or not, which was expected with this probability.
    pub(super) fn observe(&mut self, changed: bool, expected: f64) {
        self.seen += f64::from(u8::from(changed));
        self.expected += expected;
    }

    /// How far it runs while the clock around it runs `passed`: the integral of
    /// the speed.
    fn run(&self, passed: f64, kept: f64) -> f64 {
        if self.expected < FAINT {
            return passed + TAU * (self.seen - self.expected) / USUAL * (1.0 - kept);
        }
        let fading = (self.expected + USUAL) / (self.expected * kept + USUAL);
        passed + TAU * (self.seen / self.expected - 1.0) * fading.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(seen: f64, expected: f64) -> Clock {
        Clock {
            shows: 5.0,
            outer: 2.0,
            seen,
            expected,
        }
    }

    #[test]
    fn it_runs_as_far_as_its_speed_integrates_to() {
        for (seen, expected) in [
            (0.0, 0.0),
            (5.0, 1.0),
            (0.0, 8.0),
            (1e-5, 1e-5),
            (40.0, 0.0),
        ] {
            let mut whole = clock(seen, expected);
            whole.run_to(12.0);
            // The midpoint rule in ten thousand steps.
            let mut sum = 0.0;
            for step in 0..10_000 {
                let kept = (-(f64::from(step) + 0.5) * 1e-3 / TAU).exp();
                sum += 1e-3 * (seen * kept + USUAL) / (expected * kept + USUAL);
            }
            let shows = whole.shows - 5.0;
            assert!((shows / sum - 1.0).abs() < 1e-4, "{shows} {sum}");
            // In two steps as in one.
            let mut steps = clock(seen, expected);
            steps.run_to(4.0);
            steps.run_to(12.0);
            assert!((steps.shows - whole.shows).abs() < 1e-6);
        }
    }

    #[test]
    fn when_is_the_inverse_of_running() {
        for (seen, expected) in [(0.0, 0.0), (5.0, 1.0), (0.0, 30.0), (60.0, 0.1)] {
            for wanted in [0.01, 1.0, 30.0, 500.0] {
                let mut clock = clock(seen, expected);
                clock.run_to(clock.when(5.0 + wanted));
                let off = (clock.shows - 5.0) / wanted - 1.0;
                assert!(off.abs() < 2e-3, "{seen} {expected} {wanted}: {off}");
            }
        }
    }

    #[test]
    fn a_burst_speeds_it_up_and_silence_slows_it_down() {
        let mut clock = clock(0.0, 0.0);
        for _ in 0..9 {
            clock.observe(true, 0.1);
        }
        assert!(clock.speed() > 3.0);
        clock.run_to(100.0);
        assert!((clock.speed() - 1.0).abs() < 1e-6, "it is forgotten");
        for _ in 0..30 {
            clock.observe(false, 0.3);
        }
        assert!(clock.speed() < 0.3);
    }
}
