use crate::parallel::*;

use super::candidates::{BLOCK, Block, Buffer, Candidates, Listing};
use super::level::Level;
use super::rule::quotient;
use crate::value::{PollsLoop, with_polls_per_change};
use crate::{Cost, Objective, Rate};

/// Many elements in short: what they get together at any level near one that is
/// roughly known, without looking at each of them again.
///
/// At a level μ an element gets λ·T(μq), where T depends on the rule and the
/// quotient q on the element. So all elements with nearly the same quotient may
/// be replaced by a few that have the same moments. Only where T is not smooth,
/// near the price that an element is just worth, must they stay themselves.
pub(super) struct Digest {
    objective: Objective,
    /// Cost times rate, and quotient, of what stands in for the elements.
    stand_ins: Vec<(f64, f64)>,
    /// The levels for which that holds.
    valid: std::ops::Range<f64>,
}

/// How many intervals of quotients there are for each doubling.
const BUCKETS_PER_OCTAVE: usize = 1 << BUCKET_BITS;
const BUCKET_BITS: u32 = 7;
/// Products of level and quotient from 2^−32 up to 2^32 have buckets.
const FIRST_EXPONENT: i32 = -32;
const SMALLEST: f64 = 1.0 / (1_u64 << 32) as f64;
const N_BUCKETS: usize = 64 * BUCKETS_PER_OCTAVE;
/// Stand-ins per bucket. They get right every polynomial of degree four in the
/// quotient; with buckets this narrow what is left is below 1e-13.
const N_NODES: usize = 5;

/// Between these, relative to the level of the digest, elements stay themselves:
/// freshness has a threshold at one. The first is the edge of a bucket.
const NEAR_THRESHOLD: std::ops::Range<f64> = 0.890625..1.03;
/// How far the level may be off without anyone crossing that zone unseen.
const TRUST: std::ops::Range<f64> = 0.975..1.025;

/// Units of parallel work, each of which has buckets of its own, and the least
/// that is worth the trouble. Neither depends on the number of threads, so the
/// result does not.
const N_SEGMENTS: usize = 32;
const SEGMENT: usize = 1 << 18;

impl Digest {
    /// The listed elements in short, for levels near this one.
    pub(super) fn new(
        objective: Objective,
        candidates: &Candidates<'_>,
        listing: &Listing,
        level: f64,
    ) -> Self {
        let size = listing.len().div_ceil(N_SEGMENTS).max(SEGMENT);
        let segments: Vec<Segment> = (0..listing.len().div_ceil(size))
            .into_par_iter()
            .map(|index| {
                let mut segment = Segment::new();
                let end = listing.len().min((index + 1) * size);
                let mut buffer = Buffer::new(BLOCK);
                for (n_blocks, start) in (index * size..end).step_by(BLOCK).enumerate() {
                    let range = start..end.min(start + BLOCK);
                    let block = listing.block(candidates, range, &mut buffer);
                    segment.count(objective, block, level);
                    if (n_blocks + 1) % CARRIED == 0 {
                        segment.carry();
                    }
                }
                segment.carry();
                segment
            })
            .collect();
        let mut segments = segments.into_iter();
        let mut all = segments.next().unwrap_or_else(Segment::new);
        segments.for_each(|segment| all.add(&segment));
        Self {
            objective,
            stand_ins: all.into_stand_ins(objective, level),
            valid: match objective {
                Objective::Freshness => level * TRUST.start..level * TRUST.end,
                Objective::Age | Objective::Content => 0.0..f64::INFINITY,
            },
        }
    }

    /// About so many of the listed elements in place of all.
    pub(super) fn sample(
        objective: Objective,
        candidates: &Candidates<'_>,
        listing: &Listing,
        size: usize,
    ) -> Self {
        // An odd stride, so that columns that repeat with a power of two or with
        // ten do not look constant.
        let positions = (0..listing.len()).step_by((listing.len() / size) | 1);
        let represents = listing.len() as f64 / positions.len() as f64;
        let stand_in = |position| {
            let index = listing.index(position);
            let (rate, cost) = (candidates.rate(index).0, candidates.cost(index).0);
            let ratio = rate * cost / candidates.weight(index).0;
            let quotient = quotient(objective, rate, ratio);
            (quotient < f64::INFINITY).then_some((represents * cost * rate, quotient))
        };
        Self {
            objective,
            stand_ins: positions.filter_map(stand_in).collect(),
            valid: 0.0..f64::INFINITY,
        }
    }

    pub(super) fn holds_at(&self, level: Level) -> bool {
        matches!(level, Level::At { low, .. } if self.valid.contains(&low))
    }

    /// What the elements get together at a level, times their costs.
    pub(super) fn demand(&self, level: f64) -> f64 {
        let stand_ins = &self.stand_ins;
        with_polls_per_change(self.objective, DemandLoop { stand_ins, level })
    }
}

struct DemandLoop<'a> {
    stand_ins: &'a [(f64, f64)],
    level: f64,
}

impl PollsLoop for DemandLoop<'_> {
    type Output = f64;

    fn run(self, polls: impl Fn(f64) -> f64 + Sync) -> f64 {
        let demand = |&(mass, quotient): &(f64, f64)| mass * polls(self.level * quotient);
        let chunks = self.stand_ins.par_chunks(1 << 14);
        let sums: Vec<f64> = chunks.map(|chunk| chunk.iter().map(demand).sum()).collect();
        sums.iter().sum()
    }
}

/// Blocks after which sums are carried over to larger ones. Many small numbers added
/// to one large one lose a digit for every ten: without this, a hundred million
/// elements that are all alike would be summed to ten digits.
const CARRIED: usize = 128;

/// A run of elements, half digested.
struct Segment {
    /// Σ cost·rate·t^k per bucket, where t says where in it, −½ to ½; and one
    /// bucket for the others.
    moments: Vec<[f64; N_NODES]>,
    /// The same of the last few blocks, not yet carried over.
    recent: Vec<[f64; N_NODES]>,
    /// Those that stay themselves.
    kept: Vec<(f64, f64)>,
}

impl Segment {
    fn new() -> Self {
        Self {
            moments: vec![[0.0; N_NODES]; N_BUCKETS + 1],
            recent: vec![[0.0; N_NODES]; N_BUCKETS + 1],
            kept: Vec::new(),
        }
    }

    fn count(&mut self, objective: Objective, block: Block<'_>, level: f64) {
        let (n_buckets, end) = buckets(objective);
        let elements = block.rates.iter().zip(block.ratios).zip(block.costs);
        for ((&Rate(rate), &ratio), &Cost(cost)) in elements {
            let quotient = quotient(objective, rate, ratio);
            let (mass, relative) = (cost * rate, level * quotient);
            let index = bucket(relative);
            // Whoever belongs in no bucket goes into one that nobody looks at:
            // cheaper than a branch that is a surprise every third time.
            let t = place_in_bucket(relative);
            let mut moment = mass;
            for sum in &mut self.recent[index.min(N_BUCKETS)] {
                *sum += moment;
                moment *= t;
            }
            if (index >= n_buckets) & (relative < end) {
                self.kept.push((mass, quotient));
            }
        }
    }

    /// Carries recent sums over.
    fn carry(&mut self) {
        for (sums, recent) in self.moments.iter_mut().zip(&mut self.recent) {
            // Most buckets are empty, and stay so.
            if recent[0] != 0.0 {
                add(sums, recent);
                *recent = [0.0; N_NODES];
            }
        }
    }

    fn add(&mut self, other: &Self) {
        for (sums, moments) in self.moments.iter_mut().zip(&other.moments) {
            add(sums, moments);
        }
        self.kept.extend(&other.kept);
    }

    /// Replaces every bucket by elements at its Chebyshev points with masses that
    /// give it the same moments.
    fn into_stand_ins(self, objective: Objective, level: f64) -> Vec<(f64, f64)> {
        let nodes = chebyshev_points();
        let basis = lagrange_basis(&nodes);
        let (n_buckets, _) = buckets(objective);
        let mut stand_ins = self.kept;
        for (index, moments) in self.moments[..n_buckets].iter().enumerate() {
            if moments[0] == 0.0 {
                continue;
            }
            let (left, right) = (left_edge(index), left_edge(index + 1));
            for (node, polynomial) in nodes.iter().zip(&basis) {
                let mass = polynomial.iter().zip(moments).map(|(c, m)| c * m).sum();
                let relative = left + (node + 0.5) * (right - left);
                stand_ins.push((mass, relative / level));
            }
        }
        stand_ins
    }
}

fn add(sums: &mut [f64; N_NODES], moments: &[f64; N_NODES]) {
    for (sum, moment) in sums.iter_mut().zip(moments) {
        *sum += moment;
    }
}

/// How many buckets are of use, and the product of level and quotient from which
/// on nobody gets anything.
fn buckets(objective: Objective) -> (usize, f64) {
    match objective {
        Objective::Freshness => (bucket(NEAR_THRESHOLD.start), NEAR_THRESHOLD.end),
        Objective::Age | Objective::Content => (N_BUCKETS, f64::INFINITY),
    }
}

/// All bits of a float below those that choose its bucket.
const BUCKET_SHIFT: u32 = 52 - BUCKET_BITS;

/// The number of the bucket for a positive float; beyond all buckets if it is too
/// small, too large or none.
#[inline]
fn bucket(relative: f64) -> usize {
    const FIRST: u64 = SMALLEST.to_bits() >> BUCKET_SHIFT;
    (relative.to_bits() >> BUCKET_SHIFT).wrapping_sub(FIRST) as usize
}

/// The left edge of a bucket.
fn left_edge(bucket: usize) -> f64 {
    let exponent = FIRST_EXPONENT + (bucket / BUCKETS_PER_OCTAVE) as i32;
    let place = (bucket % BUCKETS_PER_OCTAVE) as f64 / BUCKETS_PER_OCTAVE as f64;
    2.0_f64.powi(exponent) * (1.0 + place)
}

/// Where in its bucket a float lies: −½ at the left edge.
#[inline]
fn place_in_bucket(relative: f64) -> f64 {
    const ONE: u64 = 1.0_f64.to_bits();
    const FRACTION: u64 = (1 << 52) - 1;
    f64::from_bits(((relative.to_bits() << BUCKET_BITS) & FRACTION) | ONE) - 1.5
}

fn chebyshev_points() -> [f64; N_NODES] {
    std::array::from_fn(|j| 0.5 * (std::f64::consts::PI * (j as f64 + 0.5) / N_NODES as f64).cos())
}

/// The coefficients of the polynomials that are one at one node and zero at the
/// others.
fn lagrange_basis(nodes: &[f64; N_NODES]) -> [[f64; N_NODES]; N_NODES] {
    std::array::from_fn(|j| {
        let mut coefficients = [0.0; N_NODES];
        coefficients[0] = 1.0;
        for (i, node) in nodes.iter().enumerate() {
            if i == j {
                continue;
            }
            // coefficients ← coefficients · (t − node) / (nodeⱼ − node)
            for k in (0..N_NODES).rev() {
                let lower = if k > 0 { coefficients[k - 1] } else { 0.0 };
                coefficients[k] = (lower - node * coefficients[k]) / (nodes[j] - node);
            }
        }
        coefficients
    })
}
