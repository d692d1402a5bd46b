use super::RulePolicy;
use super::candidates::{BLOCK, Block};
use crate::Frequency;

/// Where on its scale of frequencies a rule stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Level {
    /// At the level `low`, or, where the budget falls into a jump between two
    /// neighbouring doubles, at the mean of `low` and `high` in which `low` has
    /// this share.
    ///
    /// The frequency of an element that is barely worth the price falls from
    /// λ/40 to nothing within the last digit of the level. Its marginal value
    /// hardly changes on the way, so any mean of the two is optimal, and one of
    /// them spends the budget.
    At { low: f64, high: f64, share: f64 },
    /// Where nobody here can use a poll: nothing beyond the floor, for nothing.
    Idle,
    /// The same frequency for all: what is left where a floor cannot be held.
    Even(f64),
}

impl Level {
    /// So high that nobody gets anything beyond the floor.
    pub(super) const TOP: Self = Self::exactly(f64::INFINITY);

    pub(super) const fn exactly(level: f64) -> Self {
        Self::At {
            low: level,
            high: level,
            share: 1.0,
        }
    }

    /// Whether elements get more here than at another level.
    pub(super) fn gives_more_than(self, other: Self) -> bool {
        match (self, other) {
            (
                Self::At { low, share, .. },
                Self::At {
                    low: other_low,
                    share: other_share,
                    ..
                },
            ) => low < other_low || low == other_low && share > other_share,
            // Who spends all they can, or just a share of it, gets no more.
            (_, Self::Even(_)) => true,
            (_, Self::Idle) => false,
            (Self::Idle | Self::Even(_), Self::At { .. }) => true,
        }
    }

    /// Writes what the elements of a block get.
    pub(super) fn write(self, policy: RulePolicy, block: Block<'_>, to: &mut [Frequency]) {
        match self {
            Self::Even(frequency) => to.fill(Frequency(frequency)),
            Self::Idle | Self::TOP => to.fill(policy.floor),
            Self::At { low, high, share } => {
                write_raised(policy, block, low, to);
                if low < high {
                    let mut others = [Frequency::ZERO; BLOCK];
                    write_raised(policy, block, high, &mut others[..to.len()]);
                    for (to, other) in to.iter_mut().zip(others) {
                        // Rounding must not take the mean of two floors below them.
                        let mean = share * to.0 + (1.0 - share) * other.0;
                        *to = Frequency(mean.max(policy.floor.0));
                    }
                }
            }
        }
    }
}

/// What the elements of a block get together at a level, times their costs.
pub(super) fn tally(policy: RulePolicy, block: Block<'_>, level: f64) -> f64 {
    let costs = block.costs;
    let mut frequencies = [Frequency::ZERO; BLOCK];
    write_raised(policy, block, level, &mut frequencies[..costs.len()]);
    let spent = costs.iter().zip(&frequencies);
    spent.map(|(cost, frequency)| cost.0 * frequency.0).sum()
}

fn write_raised(policy: RulePolicy, block: Block<'_>, level: f64, to: &mut [Frequency]) {
    policy.rule.write(block, level, to);
    let Frequency(floor) = policy.floor;
    if floor > 0.0 {
        for frequency in to {
            *frequency = Frequency(frequency.0.max(floor));
        }
    }
}

/// Closer than this to the target is there: far below what anyone checks, just
/// above the rounding of the sums.
const TOLERANCE: f64 = 1e-13;
/// Beyond so many steps the search has met a cliff, and halving is faster.
const PATIENCE: usize = 10;

/// The level at which a falling function of it reaches a target.
///
/// Secants on the logarithms, within a bracket that shrinks with every step,
/// until one is on target or no double is left between those above and those
/// below it. The start may itself be such a pair of neighbours, found on a
/// sample.
pub(super) fn find(target: f64, start: Level, value: impl Fn(f64) -> f64) -> Level {
    let (mut low, mut at_low) = (0.0, f64::INFINITY);
    let (mut high, mut at_high) = (f64::INFINITY, 0.0);
    let (mut level, mut neighbour) = match start {
        Level::At { low, high, .. } if low < high => (low, Some(high)),
        Level::At { low, .. } if low > 0.0 && low < f64::INFINITY => (low, None),
        _ => (1.0, None),
    };
    let mut before: Option<(f64, f64)> = None;
    let mut reach = 2.0;
    for step in 0.. {
        let now = (level, value(level));
        if (now.1 / target - 1.0).abs() <= TOLERANCE {
            return Level::exactly(level);
        }
        if now.1 > target {
            (low, at_low) = now;
        } else {
            (high, at_high) = now;
        }
        let inside = |level: &f64| *level > low && *level < high;
        let halving = step > PATIENCE && step % 2 == 0;
        let proposed = match neighbour.take() {
            Some(neighbour) => Some(neighbour),
            None if halving => None,
            None => {
                // All rules fall like some power of the level near −½.
                let exponent = before.map_or(-0.5, |before| {
                    (now.1 / before.1).ln() / (now.0 / before.0).ln()
                });
                Some(level * (target / now.1).powf(1.0 / exponent))
            }
        };
        before = Some(now);
        level = proposed.filter(inside).unwrap_or_else(|| {
            if high == f64::INFINITY || low == 0.0 {
                reach *= reach;
                let far = if low == 0.0 {
                    high / reach
                } else {
                    low * reach
                };
                far.clamp(f64::MIN_POSITIVE, f64::MAX)
            } else if high / low > 2.0 {
                low.sqrt() * high.sqrt()
            } else {
                low + 0.5 * (high - low)
            }
        });
        if !inside(&level) {
            break;
        }
    }
    // Neighbours, or the end of what a double can hold.
    let share = (target - at_high) / (at_low - at_high);
    if low == 0.0 || high == f64::INFINITY || !(0.0..=1.0).contains(&share) {
        return Level::exactly(if low == 0.0 { high } else { low });
    }
    Level::At { low, high, share }
}
