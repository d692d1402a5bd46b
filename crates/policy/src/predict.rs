//! How fresh copies are now, as far as that can be told without polling them.

use std::collections::BTreeMap;

use crate::{Gamma, GroupId, Span};

/// A copy, and what is believed of how often its element changes.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldCopy {
    /// What is believed of the rate.
    pub belief: Gamma,
    /// What was believed of it before the element was polled: what is usual in its
    /// group.
    pub prior: Gamma,
    /// The group that `prior` is of; `None` if it is that of all elements.
    pub group: Option<GroupId>,
    /// How long ago the copy was known to be fresh.
    pub elapsed: Span,
    /// How many polls showed whether the element had changed.
    pub n_polls: u32,
    /// How many of them found a change.
    pub n_changes: u32,
    /// The mean time between them.
    pub interval: Span,
    /// The latest of them, if the element is [fast](Self::is_fast); of many that are, a
    /// few do.
    pub polls: Vec<PastPoll>,
    /// How many copies it stands for, itself included: one, unless only some were
    /// looked at.
    pub n_alike: f64,
}

/// A poll that showed whether an element had changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PastPoll {
    /// How long the poll before it was ago.
    pub interval: Span,
    /// Whether it had.
    pub changed: bool,
}

impl HeldCopy {
    /// Whether a poll of the element is more likely than not to find a change; or so many
    /// have, and none has not.
    pub fn is_fast(&self) -> bool {
        let is_likely = self.n_polls > 0 && self.belief.quiet(self.interval.0) < FAST;
        is_likely || self.n_polls >= ALWAYS && self.n_changes >= self.n_polls
    }
}

/// A share of copies that are fresh, with an interval that holds the true share with
/// a probability of 90 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictedFreshness {
    /// The share to expect: the mean of the chances of each.
    pub share: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// What is left out at each end of an interval, and where that is in a normal
/// distribution.
const TAIL: f64 = 0.05;
const NORMAL: f64 = 1.644_853_626_951_472_2;
/// The rates of two groups differ as if each were known from so many changes.
const GROUP_CHANGES: f64 = 3.0;
/// The most that the logarithm of a rate varies: by a factor of seven or so either
/// way. What is known less is not known at all.
const MOST_SPREAD: f64 = 4.0;
/// A gamma distribution that is more skewed than an exponential one has its mode at its
/// lower end.
const MOST_SKEW: f64 = 2.0;
/// The chance that a poll finds no change in an element, below which it is fast; and how
/// many polls that found one make it so.
const FAST: f64 = 0.5;
const ALWAYS: u32 = 4;
/// Fast elements may be faster, or slower, than is believed by a factor of e to this
/// power, and no more.
const MOST_DOUBT: f64 = 9.0;
/// Points and weights to average a function of a standard normal variable (Gauss and
/// Hermite): exact to degree 9, and to degree 5.
const FIVE: [(f64, f64); 5] = [
    (-2.856_970_013_872_806, 0.011_257_411_327_720_69),
    (-1.355_626_179_974_266, 0.222_075_922_005_612_6),
    (0.0, 0.533_333_333_333_333_3),
    (1.355_626_179_974_266, 0.222_075_922_005_612_6),
    (2.856_970_013_872_806, 0.011_257_411_327_720_69),
];
const THREE: [(f64, f64); 3] = [
    (-1.732_050_807_568_877_2, 1.0 / 6.0),
    (0.0, 2.0 / 3.0),
    (1.732_050_807_568_877_2, 1.0 / 6.0),
];

/// How many of some copies are fresh now; `None` if there are none.
///
/// A copy is fresh with the chance (b/(b+t))^a, for a belief of shape a and inverse
/// scale b. How many are stale varies for three reasons: each is or is not; the usual
/// rate m of a group, which moves the beliefs of all its members that were seen little
/// of, is itself known only so well; and so is what is usual among groups.
///
/// ```text
/// information on ln m from its members:  I = Σ s·x/(s + x),   x = m·T
/// ```
///
/// for a prior of shape s and polls worth T days: what a count with a mean drawn from
/// the prior tells of its scale. Groups vary around what is usual among them by 1/k;
/// so that is known by Σ 1/(1/I + 1/k), and given it ln m varies by 1/(I + k) around
/// the value that was taken for it and moves with it by the share k/(I + k).
///
/// The first three moments of the number are summed over copies and averaged over
/// both rates; the interval is that of a shifted gamma distribution with these moments,
/// at whole numbers.
///
/// Where nearly every poll finds a change, polls say no more than that rates are high.
/// What they leave open widens the interval.
pub fn freshness_now<'a>(
    copies: impl IntoIterator<Item = &'a HeldCopy>,
) -> Option<PredictedFreshness> {
    let (mut n, mut fresh) = (0.0, 0.0);
    let mut groups: BTreeMap<Option<GroupId>, Vec<&HeldCopy>> = BTreeMap::new();
    let mut fast: Vec<&HeldCopy> = Vec::new();
    for copy in copies {
        n += copy.n_alike;
        fresh += copy.n_alike * copy.belief.quiet(copy.elapsed.0);
        groups.entry(copy.group).or_default().push(copy);
        if copy.is_fast() {
            fast.push(copy);
        }
    }
    let share = fresh / n;
    if share.is_nan() {
        return None;
    }
    let known: Vec<f64> = groups.values().map(|copies| information(copies)).collect();
    let of_all: f64 = known
        .iter()
        .map(|known| known * GROUP_CHANGES / (known + GROUP_CHANGES))
        .sum();
    let spread = (1.0 / of_all).min(MOST_SPREAD).sqrt();
    let stale = Moments::mixed(FIVE.iter().map(|&(point, weight)| {
        let mut sum = Moments::default();
        for (copies, known) in groups.values().zip(&known) {
            let total = known + GROUP_CHANGES;
            let moved = spread * point * GROUP_CHANGES / total;
            sum.add(of_group(copies, moved, 1.0 / total.sqrt()));
        }
        (sum, weight)
    }));
    let (least, most) = stale.interval(n);
    let (fewer, more) = doubt(&fast);
    let below = (share - (1.0 - most / n)).max(0.0).hypot(fewer / n);
    let above = ((1.0 - least / n) - share).max(0.0).hypot(more / n);
    Some(PredictedFreshness {
        share,
        low: (share - below).max(0.0),
        high: (share + above).min(1.0),
    })
}

/// How many fewer copies are fresh if fast elements are as fast as the polls that found no
/// change in them allow; and how many more if they are as slow.
///
/// If all rates were higher by a factor c, so many of these polls would find no change:
///
/// ```text
/// U(c) = Σ (b/(b + cI))^a
/// ```
///
/// The largest c is the one at which as many as did are as unlikely as 5 %, and the
/// smallest the one at which as few are.
fn doubt(fast: &[&HeldCopy]) -> (f64, f64) {
    let polls: Vec<(Gamma, PastPoll)> = fast
        .iter()
        .flat_map(|copy| copy.polls.iter().map(|&poll| (copy.belief, poll)))
        .collect();
    if polls.is_empty() {
        return (0.0, 0.0);
    }
    let expected = |c: f64| -> f64 {
        let of = |(belief, poll): &(Gamma, PastPoll)| belief.quiet(c * poll.interval.0);
        polls.iter().map(of).sum()
    };
    let n_unchanged = polls.iter().filter(|(_, poll)| !poll.changed).count() as f64;
    let quantile = |n: f64, probability| {
        let gamma = Gamma::new(n, 1.0);
        gamma.map_or(0.0, |gamma| gamma.quantile(probability))
    };
    // It falls as c rises. Where the end of the range is not far enough, it is the end.
    let factor = |wanted: f64, mut low: f64, mut high: f64| -> f64 {
        for _ in 0..24 {
            let middle = f64::midpoint(low, high);
            if expected(middle.exp()) > wanted {
                low = middle;
            } else {
                high = middle;
            }
        }
        f64::midpoint(low, high).exp()
    };
    let faster = factor(quantile(n_unchanged, TAIL), 0.0, MOST_DOUBT);
    let slower = factor(quantile(n_unchanged + 1.0, 1.0 - TAIL), -MOST_DOUBT, 0.0);
    let (mut fewer, mut more) = (0.0, 0.0);
    for copy in fast {
        let quiet = |factor: f64| copy.belief.quiet(copy.elapsed.0 * factor);
        fewer += copy.n_alike * (quiet(1.0) - quiet(faster));
        more += copy.n_alike * (quiet(slower) - quiet(1.0));
    }
    (fewer, more)
}

/// What the polls of a group's members tell of the logarithm of its usual rate.
fn information(copies: &[&HeldCopy]) -> f64 {
    let of = |copy: &&HeldCopy| {
        let shape = copy.prior.shape;
        let changes = copy.prior.mean() * (copy.belief.per - copy.prior.per);
        copy.n_alike * shape * changes / (shape + changes)
    };
    copies.iter().map(of).sum()
}

/// How many of a group's copies are stale, if the logarithm of its usual rate varies by
/// `spread` around one that is higher by `moved` than was taken for it.
fn of_group(copies: &[&HeldCopy], moved: f64, spread: f64) -> Moments {
    Moments::mixed(THREE.iter().map(|&(point, weight)| {
        let slower = (-moved - spread * point).exp();
        let mut sum = Moments::default();
        let (mut n, mut squares) = (0.0, 0.0);
        for copy in copies {
            let belief = Gamma {
                shape: copy.belief.shape,
                per: copy.belief.per + copy.prior.per * (slower - 1.0),
            };
            let stale = 1.0 - belief.quiet(copy.elapsed.0);
            let varies = copy.n_alike * stale * (1.0 - stale);
            n += copy.n_alike;
            squares += copy.n_alike * stale * stale;
            sum.add(Moments {
                mean: copy.n_alike * stale,
                variance: varies,
                third: varies * (1.0 - 2.0 * stale),
            });
        }
        // Those that were not looked at may not be as those that were.
        let n_alike = n / copies.len() as f64;
        sum.variance += (n_alike - 1.0) * (squares - sum.mean * sum.mean / n).max(0.0);
        (sum, weight)
    }))
}

/// The mean of a number, and its second and third central moments.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    mean: f64,
    variance: f64,
    third: f64,
}

impl Moments {
    /// The moments of a sum of independent numbers.
    fn add(&mut self, other: Self) {
        self.mean += other.mean;
        self.variance += other.variance;
        self.third += other.third;
    }

    /// The moments of a number that is one of several with these weights, which add up
    /// to one.
    fn mixed(parts: impl Iterator<Item = (Self, f64)>) -> Self {
        let parts: Vec<_> = parts.collect();
        let mean = parts.iter().map(|(part, weight)| weight * part.mean).sum();
        let mut mixed = Self {
            mean,
            ..Self::default()
        };
        for (part, weight) in parts {
            let away = part.mean - mean;
            mixed.variance += weight * (part.variance + away * away);
            mixed.third += weight * (part.third + away * (3.0 * part.variance + away * away));
        }
        mixed
    }

    /// The least and the most, of whole numbers up to `n`, that it is.
    fn interval(&self, n: f64) -> (f64, f64) {
        let spread = self.variance.max(0.0).sqrt();
        let skew = self.third / (spread * self.variance);
        let quantile = |probability: f64, normal: f64| {
            let shape = 4.0 / (skew * skew);
            // Nothing to tell from a normal distribution; or nothing varies.
            if !(1e-6..1e6).contains(&shape) {
                return self.mean + spread * normal;
            }
            let gamma = |probability| {
                let standard = Gamma { shape, per: 1.0 };
                (standard.quantile(probability) - shape) / shape.sqrt()
            };
            let away = match skew > 0.0 {
                true => gamma(probability),
                false => -gamma(1.0 - probability),
            };
            self.mean + spread * away
        };
        let mut least = quantile(TAIL, -NORMAL);
        if skew > MOST_SKEW {
            // Few copies are stale in most worlds, and many in some. The shifted
            // distribution then begins near its mean; one that begins at zero does not.
            let per = self.mean / self.variance;
            let from_zero = Gamma::new(self.mean * per, per);
            least = from_zero
                .map_or(0.0, |gamma| gamma.quantile(TAIL))
                .min(least);
        }
        let least = (least + 0.5).floor();
        let most = (quantile(1.0 - TAIL, NORMAL) - 0.5).ceil();
        (least.clamp(0.0, n), most.clamp(0.0, n))
    }
}
