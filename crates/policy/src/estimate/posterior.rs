use super::TAIL;
use super::population::Population;
use crate::{Gamma, Observation, Outcome};

/// What the polls of an element say about its rate, whatever their order.
///
/// ```text
/// L(λ) = Π_unchanged e^(−λI) · Π_changed (1 − e^(−λI)) · Π_changed, age known λe^(−λ min(age, I))
/// ```
pub(super) struct Evidence {
    /// Changes whose time is not known: days, how many. Equal intervals together.
    changed: Vec<(f64, f64)>,
    /// All intervals: days, how many.
    all: Vec<(f64, f64)>,
    /// Changes whose time is known.
    n_aged: f64,
    /// Days without a change: before polls that saw none, and after changes whose
    /// time is known.
    quiet: f64,
    n_polls: f64,
    n_changes: f64,
    total: f64,
}

/// What is believed of a rate beforehand.
#[derive(Clone, Copy)]
pub(super) enum PriorBelief<'a> {
    /// As little as possible: Jeffreys' prior, the root of the information that
    /// these polls would give.
    Nothing,
    Belief(Gamma),
    Population(&'a Population),
}

/// What is believed of a rate afterwards.
pub(super) struct After {
    /// As likely too high as too low.
    pub(super) median: f64,
    /// 5 % and 95 %.
    pub(super) interval: (f64, f64),
}

/// A change is never known to be younger than this, in days: half a second, since
/// sources tell its time in whole ones.
const YOUNGEST: f64 = 0.5 / 86_400.0;

/// Days without a change after one that is known to be of this age.
pub(super) fn quiet_days(elapsed: f64, age: f64) -> f64 {
    age.max(YOUNGEST).min(elapsed)
}

impl Evidence {
    pub(super) fn new(observations: &[Observation]) -> Self {
        let mut evidence = Self {
            changed: Vec::new(),
            all: Vec::new(),
            n_aged: 0.0,
            quiet: 0.0,
            n_polls: observations.len() as f64,
            n_changes: 0.0,
            total: 0.0,
        };
        for poll in observations {
            let days = poll.elapsed.0;
            evidence.total += days;
            evidence.all.push((days, 1.0));
            match poll.outcome {
                Outcome::Unchanged | Outcome::Parts { n_changed: 0 } => evidence.quiet += days,
                Outcome::Changed { age: Some(age) } => {
                    evidence.n_changes += 1.0;
                    evidence.n_aged += 1.0;
                    evidence.quiet += quiet_days(poll.elapsed.0, age.0);
                }
                Outcome::Changed { age: None } | Outcome::Parts { .. } => {
                    evidence.n_changes += 1.0;
                    evidence.changed.push((days, 1.0));
                }
            }
        }
        count_together(&mut evidence.all);
        count_together(&mut evidence.changed);
        evidence
    }

    /// The posterior. With changes whose time is not known it is integrated over the
    /// logarithm of the rate, where it is smooth and its tails fall exponentially,
    /// so that the trapezoidal rule is as good as any.
    pub(super) fn after(&self, before: PriorBelief<'_>) -> After {
        if let PriorBelief::Belief(Gamma { shape, per }) = before
            && self.changed.is_empty()
        {
            return After::of(Gamma {
                shape: shape + self.n_aged,
                per: per + self.quiet,
            });
        }
        let (top, left, right) = match before {
            PriorBelief::Population(population) => self.extent_in(population),
            PriorBelief::Nothing | PriorBelief::Belief(_) => self.extent(before),
        };
        let n_cells = ((right - left) / WIDEST_CELL).clamp(FEWEST_CELLS, MOST_CELLS) as usize;
        let width = (right - left) / n_cells as f64;
        let at = |cell: usize| left + width * cell as f64;
        let height = |cell: usize| (self.log_density(before, at(cell)) - top).exp();
        let heights: Vec<f64> = (0..=n_cells).map(height).collect();
        let areas = heights.windows(2).map(|pair| 0.5 * (pair[0] + pair[1]));
        let quantile = |probability: f64| {
            let all: f64 = areas.clone().sum();
            let mut below = 0.0;
            for (cell, area) in areas.clone().enumerate() {
                let wanted = probability * all - below;
                if wanted <= area {
                    // Within the cell the density is a straight line.
                    let (a, b) = (heights[cell], heights[cell + 1]);
                    let root = (a * a + 2.0 * wanted * (b - a)).max(0.0).sqrt();
                    let share = (2.0 * wanted / (a + root)).clamp(0.0, 1.0);
                    return (at(cell) + width * share).exp();
                }
                below += area;
            }
            right.exp()
        };
        After {
            median: quantile(0.5),
            interval: (quantile(TAIL), quantile(1.0 - TAIL)),
        }
    }

    /// The highest log density, and from where to where it counts.
    fn extent(&self, before: PriorBelief<'_>) -> (f64, f64, f64) {
        let density = |theta: f64| self.log_density(before, theta);
        let share = (self.n_changes + 0.5) / (self.n_polls + 1.0);
        let start = (-(-share).ln_1p() * self.n_polls / self.total).ln();
        // To the top in steps that get shorter until they make no difference.
        let (mut at, mut top) = (start, density(start));
        let mut step = 1.0;
        loop {
            let sides = [at - step, at + step].map(|theta| (theta, density(theta)));
            if let Some(&(theta, higher)) = sides.iter().find(|side| side.1 > top) {
                (at, top) = (theta, higher);
            } else if top - sides[0].1.min(sides[1].1) > FLAT && step > 1e-9 {
                step /= 2.0;
            } else {
                break;
            }
        }
        let edge = |direction: f64| {
            let mut width = step;
            while top - density(at + direction * width) < NEGLIGIBLE && width < 1e3 {
                width *= 1.5;
            }
            at + direction * width
        };
        (top, edge(-1.0), edge(1.0))
    }

    /// The same in a population, which may have several peaks.
    fn extent_in(&self, population: &Population) -> (f64, f64, f64) {
        let before = PriorBelief::Population(population);
        let density = |theta: f64| self.log_density(before, theta);
        let (left, right) = population.extent();
        let n = ((right - left) / SCAN).ceil();
        let step = (right - left) / n;
        let at = |cell: usize| left + step * cell as f64;
        let scan: Vec<f64> = (0..=n as usize).map(|cell| density(at(cell))).collect();
        let best = (0..scan.len()).max_by(|&a, &b| scan[a].total_cmp(&scan[b]));
        let best = best.unwrap_or(0);
        // To the top in steps that get shorter until they make no difference.
        let (mut theta, mut top) = (at(best), scan[best]);
        let mut width = 0.5 * step;
        while width > 1e-7 {
            let sides = [theta - width, theta + width].map(|theta| (theta, density(theta)));
            if let Some(&side) = sides.iter().find(|side| side.1 > top) {
                (theta, top) = side;
            } else if top - sides[0].1.min(sides[1].1) > FLAT {
                width /= 2.0;
            } else {
                break;
            }
        }
        let counts = |log: &f64| top - log < NEGLIGIBLE;
        let first = scan.iter().position(counts).map_or(theta, at).min(theta);
        let last = scan.iter().rposition(counts).map_or(theta, at).max(theta);
        if last - first > step {
            return (top, (first - step).max(left), (last + step).min(right));
        }
        // All of it lies within a few steps: as near as possible.
        let edge = |direction: f64| {
            let mut off = width;
            while off < 2.0 * step && top - density(theta + direction * off) < NEGLIGIBLE {
                off *= 1.5;
            }
            (theta + direction * off).clamp(left, right)
        };
        (top, edge(-1.0), edge(1.0))
    }

    /// The logarithm of L(λ), at a ln λ.
    pub(super) fn log_likelihood(&self, theta: f64) -> f64 {
        let rate = theta.exp();
        let mut log_likelihood = self.n_aged * theta - rate * self.quiet;
        // One logarithm for several intervals: few enough for the product to be a
        // number.
        for intervals in self.changed.chunks(8) {
            let mut product = 1.0;
            for &(days, n) in intervals {
                let chance = -(-rate * days).exp_m1();
                if n == 1.0 && chance > 1e-30 {
                    product *= chance;
                } else {
                    log_likelihood += n * chance.ln();
                }
            }
            log_likelihood += f64::ln(product);
        }
        log_likelihood
    }

    /// From where to where ln λ may be, as far as these polls tell; nothing without
    /// any.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let shortest = self.all.first().map(|&(days, _)| days)?;
        let quickest = self.n_aged / self.quiet.max(YOUNGEST);
        // Where a change in all the time would be one in some thousands of elements,
        // and where one would be missed in hardly any interval.
        let (low, high) = (1e-3 / self.total, (20.0 / shortest).max(10.0 * quickest));
        (low > 0.0 && high.is_finite()).then(|| (low.ln(), high.ln()))
    }

    pub(super) fn n_polls(&self) -> f64 {
        self.n_polls
    }

    /// What these polls, whatever they show, tell of ln λ: Fisher's information.
    pub(super) fn information(&self, theta: f64) -> f64 {
        let rate = theta.exp();
        // A change whose time is told says more; so often it is.
        let told = self.n_aged / self.n_changes.max(1.0);
        let mut information = 0.0;
        for &(days, n) in &self.all {
            let exposure = rate * days;
            let (fall, rest) = (-(-exposure).exp_m1(), (-exposure).exp());
            information += n * (told * fall + (1.0 - told) * exposure * exposure * rest / fall);
        }
        information
    }

    /// The same for elements of which the polls showed the same.
    pub(super) fn key(&self) -> Vec<u64> {
        let mut key = vec![self.n_aged.to_bits(), self.quiet.to_bits()];
        for (days, n) in &self.changed {
            key.extend([days.to_bits(), n.to_bits()]);
        }
        key
    }

    /// The log density of ln λ, up to a constant.
    fn log_density(&self, before: PriorBelief<'_>, theta: f64) -> f64 {
        let rate = theta.exp();
        let log_density = self.log_likelihood(theta);
        match before {
            PriorBelief::Population(population) => log_density + population.at(theta),
            PriorBelief::Belief(Gamma { shape, per }) => log_density + shape * theta - per * rate,
            PriorBelief::Nothing => {
                let information = self.information(theta);
                log_density + 0.5 * information.max(f64::MIN_POSITIVE).ln()
            }
        }
    }
}

impl After {
    fn of(belief: Gamma) -> Self {
        Self {
            median: belief.quantile(0.5),
            interval: (belief.quantile(TAIL), belief.quantile(1.0 - TAIL)),
        }
    }
}

/// e^(−this) beside one does not count in a tail of 5 %.
const NEGLIGIBLE: f64 = 11.0;
/// A log density that differs by less is as good as flat.
const FLAT: f64 = 0.05;
/// Steps of ln λ in the search for where a density counts.
const SCAN: f64 = 0.3;
/// Cells of the integral: as narrow as this, within reason, in units of ln λ.
const WIDEST_CELL: f64 = 0.05;
const FEWEST_CELLS: f64 = 96.0;
const MOST_CELLS: f64 = 640.0;

/// Sorts, and counts equal intervals together.
fn count_together(intervals: &mut Vec<(f64, f64)>) {
    intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
    intervals.dedup_by(|next, first| {
        let equal = next.0 == first.0;
        if equal {
            first.1 += next.1;
        }
        equal
    });
}

/// A 90 % interval of the rate without any prior belief.
///
/// For equal intervals and no ages this is Jeffreys' interval of a binomial
/// proportion, whose coverage stays closest to what it promises. Its lower end is
/// zero if no change was seen.
pub(super) fn interval(observations: &[Observation]) -> (f64, f64) {
    if observations.is_empty() {
        return (0.0, f64::INFINITY);
    }
    let evidence = Evidence::new(observations);
    let (low, high) = evidence.after(PriorBelief::Nothing).interval;
    (if evidence.n_changes == 0.0 { 0.0 } else { low }, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;
    use crate::estimate::polls;

    #[test]
    fn regular_polls_have_the_interval_of_a_proportion() {
        // Beta(X + ½, n − X + ½) at 5 % and 95 % for n = 10, computed with scipy
        // (stats.beta.ppf), as −ln(1 − p).
        for (x, low, high) in [
            (3, 0.124_803, 0.816_732),
            (5, 0.303_706, 1.339_709),
            (9, 1.106_959, 4.023_402),
            (10, 1.767_419, 8.559_390),
        ] {
            let days: Vec<f64> = (0..10).map(|i| if i < x { -1.0 } else { 1.0 }).collect();
            let (ours_low, ours_high) = interval(&polls(&days));
            assert!((ours_low / low - 1.0).abs() < 3e-3, "{x}: {ours_low} {low}");
            assert!(
                (ours_high / high - 1.0).abs() < 3e-3,
                "{x}: {ours_high} {high}"
            );
        }
    }

    #[test]
    fn no_change_in_one_poll_has_the_interval_of_a_proportion() {
        // 95 % of Beta(½, 1½), computed with scipy, as −ln(1 − p).
        let (low, high) = interval(&polls(&[1.0]));
        assert_eq!(low, 0.0);
        assert!((high / 1.476_134 - 1.0).abs() < 3e-3, "{high}");
    }

    #[test]
    fn many_polls_have_a_narrow_interval() {
        // A hundred thousand polls of one day, half of which saw a change: ln 2, with
        // a standard error of 1/√n.
        let mut days = vec![1.0; 50_000];
        days.extend(vec![-1.0; 50_000]);
        let (low, high) = interval(&polls(&days));
        let error = 1.0 / 1e5_f64.sqrt();
        assert!(
            (low - (2.0_f64.ln() - 1.645 * error)).abs() < 0.05 * error,
            "{low}"
        );
        assert!(
            (high - (2.0_f64.ln() + 1.645 * error)).abs() < 0.05 * error,
            "{high}"
        );
    }

    #[test]
    fn the_posterior_of_a_gamma_prior_is_the_gamma_posterior_where_there_is_one() {
        let prior = Gamma::new(0.7, 3.0).unwrap();
        let mut observations = polls(&[1.0, 2.0]);
        let aged = Outcome::Changed {
            age: Some(Span(0.5)),
        };
        observations.push(Observation::new(Span(4.0), aged).unwrap());
        let after = Evidence::new(&observations).after(PriorBelief::Belief(prior));
        let exact = Gamma::new(1.7, 6.5).unwrap();
        assert!((after.median / exact.quantile(0.5) - 1.0).abs() < 1e-12);
        assert!((after.interval.0 / exact.quantile(TAIL) - 1.0).abs() < 1e-12);
        // A change seen within a very short interval is as good as one of known time.
        let mut observations = polls(&[1.0, 2.0, -1e-9]);
        let after = Evidence::new(&observations).after(PriorBelief::Belief(prior));
        observations.truncate(2);
        let exact = Gamma::new(1.7, 6.0).unwrap();
        assert!(
            (after.median / exact.quantile(0.5) - 1.0).abs() < 5e-3,
            "{}",
            after.median
        );
        assert!((after.interval.1 / exact.quantile(1.0 - TAIL) - 1.0).abs() < 5e-3);
    }
}
