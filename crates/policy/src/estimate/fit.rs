//! Which rates are usual, from what the polls of many elements showed.
//!
//! A [`Peak`] says how the rates of a group are distributed. Each peak counts as much as
//! it makes the polls of the group likely, and as it is [`Usual`] among groups; how usual
//! a peak is, is learned from all groups. So what is not known of a group is part of
//! what is not known of its elements' rates (hierarchical Bayes), and a group with few
//! elements leans on the others.

use std::collections::BTreeMap;

use super::peak::{Peak, Standards};
use super::population::Population;
use super::posterior::Evidence;
use super::search::{Vector, climb, covariance, ellipsoid};
use crate::parallel::*;

/// The population of each group, from what the polls of its elements showed.
pub(super) fn populations(groups: &[Vec<Evidence>]) -> Vec<Population> {
    let all: Vec<&Evidence> = groups.iter().flatten().collect();
    let Some(grid) = Grid::over(&all) else {
        return vec![Population::new(&[(ANYTHING, 1.0)], (-10.0, 10.0)); groups.len()];
    };
    let general = Search::new(grid, &all, MOST_ELEMENTS).with_information(&all);
    let points = general.everywhere(general.others());
    if groups.len() == 1 {
        return vec![general.population(&points, &Usual::UNKNOWN)];
    }
    let search = |group: &Vec<Evidence>, most: usize| {
        let elements: Vec<&Evidence> = group.iter().collect();
        Search::new(grid, &elements, most)
    };
    let some = spread_out(groups.len(), MOST_GROUPS);
    let some = some.par_iter();
    let some: Vec<Search> = some
        .map(|&group| search(&groups[group], MOST_ELEMENTS_OF_SOME))
        .collect();
    let mut usual = Usual::within(&points);
    for _ in 0..N_ROUNDS {
        // Points are laid anew each time: they lie as far apart as groups are thought
        // to differ, and would be too far apart for groups that differ less.
        let lattice = Lattice::new(&grid, &usual);
        let points = some
            .par_iter()
            .map(|search| search.around(&lattice, &usual, 1.0));
        usual = usual.fitted(&points.collect::<Vec<_>>());
    }
    let lattice = Lattice::new(&grid, &usual);
    groups
        .par_iter()
        .map(|group| {
            let search = search(group, MOST_ELEMENTS_OF_GROUP);
            let points = search.around(&lattice, &usual, search.others());
            search.population(&points, &usual)
        })
        .collect()
}

/// A fit looks at no more elements than this: by then it is as good as it gets.
const MOST_ELEMENTS: usize = 4096;
/// The same for a group among others.
const MOST_ELEMENTS_OF_GROUP: usize = 512;
/// How groups differ is learned from no more of them than this, and from no more
/// elements of each.
const MOST_GROUPS: usize = 48;
const MOST_ELEMENTS_OF_SOME: usize = 128;
/// Rounds of points for groups and of how groups differ.
const N_ROUNDS: usize = 8;
/// Without any poll: a change a day, give or take.
const ANYTHING: Peak = Peak {
    middle: 0.0,
    spread: 3.0,
    skew: 0.0,
};

/// As many of the numbers below n, from all over. Steps of the golden ratio keep clear
/// of any order that elements are in, and the first few are from all over as well.
fn spread_out(n: usize, most: usize) -> Vec<usize> {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let at = |index: usize| (GOLDEN * index as f64).fract();
    let mut indices: Vec<usize> = if n <= most {
        (0..n).collect()
    } else {
        let some = (0..most).map(|index| (at(index) * n as f64) as usize);
        some.collect()
    };
    indices.sort_unstable();
    indices.dedup();
    indices.sort_by(|&a, &b| at(a).total_cmp(&at(b)));
    indices
}

/// Even steps of ln λ, over all that polls can tell apart.
#[derive(Debug, Clone, Copy)]
struct Grid {
    left: f64,
    step: f64,
    n: usize,
}

/// The narrowest and the widest step of ln λ; in standard errors of an element's own; and
/// the fewest and the most steps.
const STEPS: (f64, f64) = (0.05, 0.2);
const STEP_IN_ERRORS: f64 = 0.35;
const N_STEPS: (f64, f64) = (16.0, 320.0);

impl Grid {
    /// Nothing without any poll.
    fn over(elements: &[&Evidence]) -> Option<Self> {
        let extents = elements.iter().filter_map(|element| element.range());
        let (left, right) = extents.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        // A poll tells at most so much of ln λ: where 1.59 changes are to be expected.
        const MOST_INFORMATION: f64 = 0.648;
        let most_polls = elements.iter().map(|element| element.n_polls());
        let information = MOST_INFORMATION * most_polls.fold(1.0, f64::max);
        let step = (STEP_IN_ERRORS / information.sqrt()).clamp(STEPS.0, STEPS.1);
        let n_steps = ((right - left) / step).ceil().clamp(N_STEPS.0, N_STEPS.1);
        Some(Self {
            left,
            step: (right - left) / n_steps,
            n: n_steps as usize + 1,
        })
    }

    fn at(&self, cell: usize) -> f64 {
        self.left + self.step * cell as f64
    }

    fn extent(&self) -> (f64, f64) {
        (self.left, self.at(self.n - 1))
    }

    /// The share of a peak in each cell. What is beyond the ends counts to the last
    /// cells: polls cannot tell it from them.
    fn shares(&self, peak: &Peak, standards: &Standards) -> Vec<f64> {
        let below = standards.below(peak);
        let mut shares = Vec::with_capacity(self.n);
        let mut before = 0.0;
        for cell in 1..self.n {
            let after = below(self.at(cell) - 0.5 * self.step);
            shares.push(after - before);
            before = after;
        }
        shares.push(1.0 - before);
        shares
    }
}

/// How likely each rate makes the polls of an element, where it is not negligible.
#[derive(Clone)]
struct Row {
    first: usize,
    likelihoods: Vec<f64>,
    /// Elements of which the polls showed exactly this.
    n: f64,
}

impl Row {
    fn new(grid: &Grid, evidence: &Evidence, n: f64) -> Self {
        /// e^(−this) beside one does not count.
        const NEGLIGIBLE: f64 = 30.0;
        let cells = 0..grid.n;
        let logs: Vec<f64> = cells
            .map(|cell| evidence.log_likelihood(grid.at(cell)))
            .collect();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let counts = |log: &f64| *log > top - NEGLIGIBLE;
        let first = logs.iter().position(counts).unwrap_or(0);
        let last = logs.iter().rposition(counts).unwrap_or(0);
        let likelihoods = logs[first..=last].iter().map(|log| (log - top).exp());
        Self {
            first,
            likelihoods: likelihoods.collect(),
            n,
        }
    }

    fn log_likelihood(&self, shares: &[f64]) -> f64 {
        // A peak in which there is nobody like this element at all is not ruled out by
        // it alone, since one in so many is unlike all others.
        const LEAST: f64 = 1e-5;
        let terms = self.likelihoods.iter().zip(&shares[self.first..]);
        let sum: f64 = terms.map(|(likelihood, share)| likelihood * share).sum();
        self.n * (sum + LEAST).ln()
    }
}

/// A peak, and how likely it makes all polls.
#[derive(Debug, Clone, Copy)]
struct Point {
    peak: Peak,
    log_likelihood: f64,
    /// The logarithm of the volume of [`Vector`]s that it stands for.
    log_volume: f64,
    /// What the polls of an element would tell of its ln λ, were this the middle.
    information: f64,
}

/// Skew, ln(spread) and middle of a peak.
fn vector(peak: &Peak) -> Vector {
    [peak.skew, peak.spread.ln(), peak.middle]
}

fn peak_at([skew, log_spread, middle]: Vector) -> Peak {
    Peak {
        middle,
        spread: log_spread.exp(),
        skew,
    }
}

/// The least and the greatest spread. Elements that differ by less than a twentieth are
/// all alike.
const SPREADS: (f64, f64) = (0.05, 5.0);
const SKEWS: (f64, f64) = (-3.0, 3.0);

fn is_allowed([skew, log_spread, _]: Vector) -> bool {
    let (least, greatest) = (SPREADS.0.ln() - 1e-9, SPREADS.1.ln() + 1e-9);
    (least..=greatest).contains(&log_spread) && (SKEWS.0..=SKEWS.1).contains(&skew)
}

/// The search for peaks that make what polls showed likely.
struct Search {
    grid: Grid,
    rows: Vec<Row>,
    n_elements: f64,
    /// What the polls of an element tell of its ln λ, on the mean, in each cell; empty
    /// where it does not matter.
    information: Vec<f64>,
}

/// Elements at a first look, and at a second.
const LOOK: usize = 64;
const SECOND_LOOK: usize = 512;
/// Spreads and skews at a first look.
const N_SPREADS: usize = 14;
const N_SKEWS: usize = 7;
/// The skew of a peak narrower than this makes no difference.
const NARROW: f64 = 0.3;
/// Middles at a first look: as far apart as this, in spreads and in itself.
const APART_IN_SPREADS: f64 = 0.5;
const APART: f64 = 0.2;
/// Beside the likeliest point one with less weight than this does not count.
const NEGLIGIBLE: f64 = 1e-3;
/// Steps of skew, ln(spread) and middle at first, on the way to the likeliest point.
const STRIDES: Vector = [0.5, 0.3, 0.3];
/// Points that must count for the sum over them to be good: of points that were laid
/// without regard to what is likely, and of those around the likeliest; and the greatest
/// share of the latter.
const ENOUGH: f64 = 25.0;
const FEWEST: f64 = 12.0;
const MOST_OF_ALL: f64 = 0.45;
/// How often points are laid anew.
const MOST_LOOKS: usize = 10;

impl Search {
    fn new(grid: Grid, elements: &[&Evidence], most: usize) -> Self {
        let some = spread_out(elements.len(), most);
        let mut places = BTreeMap::new();
        let mut counted: Vec<(&Evidence, f64)> = Vec::new();
        for &index in &some {
            let element = elements[index];
            let place = *places.entry(element.key()).or_insert_with(|| {
                counted.push((element, 0.0));
                counted.len() - 1
            });
            counted[place].1 += 1.0;
        }
        let rows = counted
            .par_iter()
            .map(|(element, n)| Row::new(&grid, element, *n))
            .collect();
        Self {
            grid,
            rows,
            n_elements: some.len() as f64,
            information: Vec::new(),
        }
    }

    /// The same with what polls tell, which only matters where the middle may be anywhere.
    fn with_information(self, elements: &[&Evidence]) -> Self {
        let few = spread_out(elements.len(), LOOK);
        let information = |cell: usize| {
            let theta = self.grid.at(cell);
            let of = |&index: &usize| elements[index].information(theta);
            few.iter().map(of).sum::<f64>() / few.len().max(1) as f64
        };
        Self {
            information: (0..self.grid.n).map(information).collect(),
            ..self
        }
    }

    /// Tries peaks of all kinds, then more of those that are likely, with the likelihood
    /// to this power.
    fn everywhere(&self, power: f64) -> Vec<Point> {
        let usual = &Usual::UNKNOWN;
        let points = self.few(LOOK).tried(&self.peaks_everywhere());
        if self.rows.len() <= LOOK {
            return self.closer(points, usual, power);
        }
        if self.rows.len() > SECOND_LOOK {
            return self.around_the_top(&points, usual, power);
        }
        let weights = usual.weights(&points, power);
        let kept = points.iter().zip(weights);
        let kept = kept.filter(|(_, weight)| *weight > NEGLIGIBLE);
        let kept: Vec<_> = kept
            .map(|(point, _)| (point.peak, point.log_volume))
            .collect();
        self.closer(self.tried(&kept), usual, power)
    }

    /// Tries peaks that are usual, then more of those that are likely.
    fn around(&self, lattice: &Lattice, usual: &Usual, power: f64) -> Vec<Point> {
        // Among many rows hardly any of these peaks counts, and a few rows tell which.
        let few = (self.rows.len() > LOOK).then(|| self.few(LOOK));
        let points = few.as_ref().unwrap_or(self).tried_lattice(lattice);
        if few.is_some() {
            self.around_the_top(&points, usual, power)
        } else {
            self.closer(points, usual, power)
        }
    }

    /// The same with so many rows at most.
    fn few(&self, n_rows: usize) -> Self {
        Self {
            rows: self.rows.iter().take(n_rows).cloned().collect(),
            information: self.information.clone(),
            ..*self
        }
    }

    fn peaks_everywhere(&self) -> Vec<(Peak, f64)> {
        let (left, right) = self.grid.extent();
        let log_spreads = steps((SPREADS.0.ln(), SPREADS.1.ln()), N_SPREADS);
        let mut peaks = Vec::new();
        for log_spread in &log_spreads.at {
            let spread = log_spread.exp();
            let skews = if spread < NARROW {
                Steps {
                    at: vec![0.0],
                    width: SKEWS.1 - SKEWS.0,
                }
            } else {
                steps(SKEWS, N_SKEWS)
            };
            let apart = (APART_IN_SPREADS * spread).max(APART);
            let n_middles = ((right - left + 2.0) / apart).ceil() as usize + 1;
            let middles = steps((left - 1.0, right + 1.0), n_middles);
            let log_volume = (log_spreads.width * skews.width * middles.width).ln();
            for &skew in &skews.at {
                let peak = |&middle: &f64| (peak_at([skew, *log_spread, middle]), log_volume);
                peaks.extend(middles.at.iter().map(peak));
            }
        }
        peaks
    }

    /// These points, if enough of them count, else others.
    fn closer(&self, points: Vec<Point>, usual: &Usual, power: f64) -> Vec<Point> {
        if n_counting(&usual.weights(&points, power)) > ENOUGH {
            points
        } else {
            self.around_the_top(&points, usual, power)
        }
    }

    /// Points around the likeliest, which is sought from the likeliest of these.
    fn around_the_top(&self, points: &[Point], usual: &Usual, power: f64) -> Vec<Point> {
        let weights = usual.weights(points, power);
        let best = (0..points.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b]));
        let start = best.map_or([0.0; 3], |best| vector(&points[best].peak));
        // With many rows, first with a few of them.
        let few = (self.rows.len() > 2 * SECOND_LOOK).then(|| self.few(SECOND_LOOK));
        let first = few.as_ref().unwrap_or(self);
        let height = |at: Vector| {
            if !is_allowed(at) {
                return f64::NEG_INFINITY;
            }
            usual.log_weight(&first.tried(&[(peak_at(at), 0.0)])[0], power)
        };
        let mut around = [[0.0; 3]; 3];
        for (side, stride) in STRIDES.iter().enumerate() {
            around[side][side] = (0.5 * stride).powi(2);
        }
        let points = first.laid_around(climb(start, STRIDES, height), around, usual, power);
        if few.is_none() {
            return points;
        }
        let vectors: Vec<Vector> = points.iter().map(|point| vector(&point.peak)).collect();
        let (middle, mut around) = covariance(&vectors, &usual.weights(&points, power));
        let share = first.rows.len() as f64 / self.rows.len() as f64;
        around
            .iter_mut()
            .flatten()
            .for_each(|value| *value *= share);
        self.laid_around(middle, around, usual, power)
    }

    /// Points over where the weight is, to begin with around this middle.
    fn laid_around(
        &self,
        mut middle: Vector,
        mut around: [Vector; 3],
        usual: &Usual,
        power: f64,
    ) -> Vec<Point> {
        let mut points = Vec::new();
        for _ in 0..MOST_LOOKS {
            points = self.tried_around(middle, &around);
            let weights = usual.weights(&points, power);
            // Where points beyond these count too, nearly all of these count the same.
            let n = n_counting(&weights);
            if n > FEWEST && n < MOST_OF_ALL * weights.len() as f64 {
                break;
            }
            let vectors: Vec<Vector> = points.iter().map(|point| vector(&point.peak)).collect();
            let (mean, mut next) = covariance(&vectors, &weights);
            // Never so narrow at once that the next look may miss it.
            for (next, before) in next.iter_mut().flatten().zip(around.iter().flatten()) {
                *next += 0.1 * before;
            }
            (middle, around) = (mean, next);
        }
        points
    }

    fn tried_around(&self, middle: Vector, covariance: &[Vector; 3]) -> Vec<Point> {
        self.tried(&allowed_around(middle, covariance))
    }

    fn tried(&self, peaks: &[(Peak, f64)]) -> Vec<Point> {
        let standards = Standards::of(peaks.iter().map(|(peak, _)| *peak));
        let point = |&(peak, log_volume): &(Peak, f64)| {
            let shares = self.grid.shares(&peak, &standards);
            self.point(peak, log_volume, &shares)
        };
        peaks.par_iter().map(point).collect()
    }

    fn tried_lattice(&self, lattice: &Lattice) -> Vec<Point> {
        let peaks = lattice.0.iter();
        let point = |(peak, log_volume, shares): &(Peak, f64, Vec<f64>)| {
            self.point(*peak, *log_volume, shares)
        };
        peaks.map(point).collect()
    }

    fn point(&self, peak: Peak, log_volume: f64, shares: &[f64]) -> Point {
        let cell = ((peak.middle - self.grid.left) / self.grid.step).max(0.0) as usize;
        let cell = cell.min(self.grid.n - 1);
        Point {
            peak,
            log_likelihood: self.rows.iter().map(|row| row.log_likelihood(shares)).sum(),
            log_volume,
            information: self.information.get(cell).copied().unwrap_or(0.0),
        }
    }

    /// What the logarithm of the likelihood counts in what an element is judged by. Its own
    /// polls count again when its rate is estimated, so that only the others' are to.
    fn others(&self) -> f64 {
        1.0 - 1.0 / self.n_elements.max(1.0)
    }

    /// All points together, which were laid for what [`others`](Self::others) say.
    fn population(&self, points: &[Point], usual: &Usual) -> Population {
        let weights = usual.weights(points, self.others());
        let peaks = points.iter().map(|point| point.peak).zip(weights);
        let peaks: Vec<(Peak, f64)> = peaks.filter(|(_, weight)| *weight > NEGLIGIBLE).collect();
        Population::new(&peaks, self.grid.extent())
    }
}

/// Peaks that are usual, with what they stand for and their share in each cell: the same
/// for all groups.
struct Lattice(Vec<(Peak, f64, Vec<f64>)>);

/// Skews, spreads and middles of a lattice, and how many standard deviations they reach.
/// Of the middle even a few elements tell much, so that its steps are short.
const N_LATTICE: [usize; 3] = [5, 6, 16];
const LATTICE_REACH: f64 = 2.4;

impl Lattice {
    fn new(grid: &Grid, usual: &Usual) -> Self {
        let sides: [Steps; 3] = std::array::from_fn(|side| {
            let (mean, deviation) = usual.0[side];
            let reach = LATTICE_REACH * deviation;
            steps((mean - reach, mean + reach), N_LATTICE[side])
        });
        let [skews, log_spreads, middles] = &sides;
        let log_volume = sides.iter().map(|side| side.width.ln()).sum::<f64>();
        let mut peaks = Vec::new();
        for &skew in &skews.at {
            for &log_spread in &log_spreads.at {
                let vectors = middles.at.iter().map(|&middle| [skew, log_spread, middle]);
                let allowed = vectors.filter(|vector| is_allowed(*vector));
                peaks.extend(allowed.map(|vector| (peak_at(vector), log_volume)));
            }
        }
        let standards = Standards::of(peaks.iter().map(|(peak, _)| *peak));
        let peaks = peaks.into_iter();
        let with_shares = |(peak, log_volume)| (peak, log_volume, grid.shares(&peak, &standards));
        Self(peaks.map(with_shares).collect())
    }
}

/// Peaks over where a normal distribution has its weight, with what each stands for.
fn allowed_around(middle: Vector, covariance: &[Vector; 3]) -> Vec<(Peak, f64)> {
    let (vectors, log_volume) = ellipsoid(middle, covariance);
    let allowed = vectors.into_iter().filter(|vector| is_allowed(*vector));
    allowed
        .map(|vector| (peak_at(vector), log_volume))
        .collect()
}

/// Values from one to another, and what lies between two.
struct Steps {
    at: Vec<f64>,
    width: f64,
}

fn steps((low, high): (f64, f64), n: usize) -> Steps {
    let width = (high - low) / (n - 1) as f64;
    Steps {
        at: (0..n).map(|step| low + width * step as f64).collect(),
        width,
    }
}

/// So many points of equal weight would be as good.
fn n_counting(weights: &[f64]) -> f64 {
    let total: f64 = weights.iter().sum();
    let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
    total * total / squares
}

/// What peaks groups have: means and standard deviations of skew, ln(spread) and middle.
#[derive(Debug, Clone, Copy)]
struct Usual([(f64, f64); 3]);

/// How groups differ is fitted as if there were so many more groups, that differ as in
/// `DIFFER`.
const MORE_GROUPS: f64 = 2.0;
const DIFFER: Vector = [0.4, 0.3, 0.7];

impl Usual {
    /// Where nothing is known, rates differ by orders of magnitude, with more elements
    /// that change hardly ever than such that change very often; and the middle may be
    /// anywhere.
    const UNKNOWN: Self = Self([(-0.8, 1.0), (0.5, 0.8), (0.0, f64::INFINITY)]);

    /// Of the groups in a population with such peaks. Groups may differ as much as all
    /// elements do. The skew of the whole says nothing of theirs: it is from how they
    /// differ.
    fn within(points: &[Point]) -> Self {
        let [_, (log_spread, _), (middle, _)] = moments(points, &Self::UNKNOWN);
        let Self([skew, (_, deviation), _]) = Self::UNKNOWN;
        Self([
            skew,
            (log_spread - 0.2, deviation),
            (middle, log_spread.exp()),
        ])
    }

    /// The same, after one more round of expectation and maximisation: given what makes
    /// the polls of these groups likely.
    fn fitted(&self, groups: &[Vec<Point>]) -> Self {
        let n = groups.len() as f64;
        let Self([.., (_, whole)]) = *self;
        let moments: Vec<_> = groups.iter().map(|points| moments(points, self)).collect();
        Self(std::array::from_fn(|side| {
            let of_side = || moments.iter().map(|moments| moments[side]);
            let mean = of_side().map(|(mean, _)| mean).sum::<f64>() / n;
            let square =
                |(middle, deviation): (f64, f64)| (middle - mean).powi(2) + deviation.powi(2);
            let differ = DIFFER[side].min(whole);
            let squares = of_side().map(square).sum::<f64>() + MORE_GROUPS * differ * differ;
            (mean, (squares / (n + MORE_GROUPS)).sqrt())
        }))
    }

    /// What each point counts, with its likelihood to this power; the likeliest one.
    fn weights(&self, points: &[Point], power: f64) -> Vec<f64> {
        let logs: Vec<f64> = points
            .iter()
            .map(|point| self.log_weight(point, power))
            .collect();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        logs.into_iter().map(|log| (log - top).exp()).collect()
    }

    fn log_weight(&self, point: &Point, power: f64) -> f64 {
        let mut log_weight = power * point.log_likelihood + point.log_volume;
        for (value, (mean, deviation)) in vector(&point.peak).into_iter().zip(self.0) {
            log_weight -= 0.5 * ((value - mean) / deviation).powi(2);
        }
        let Self([.., (_, deviation)]) = self;
        if deviation.is_infinite() {
            // Jeffreys' prior of the middle: without it, where no poll saw a change,
            // rates however low would have most of the weight.
            let least = 1.0 / point.information.max(1e-12);
            log_weight -= 0.5 * (least + point.peak.spread.powi(2)).ln();
        }
        log_weight
    }
}

/// Means and standard deviations of skew, ln(spread) and middle.
fn moments(points: &[Point], usual: &Usual) -> [(f64, f64); 3] {
    let vectors: Vec<Vector> = points.iter().map(|point| vector(&point.peak)).collect();
    let (mean, covariance) = covariance(&vectors, &usual.weights(points, 1.0));
    std::array::from_fn(|side| (mean[side], covariance[side][side].sqrt()))
}
