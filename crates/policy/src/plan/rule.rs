use super::candidates::Block;
use crate::value::{PollsLoop, with_polls_per_change};
use crate::{Frequency, Objective, Rate};

/// How a budget is shared among elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The same frequency for all (freshness paper, section 3).
    Uniform,
    /// Frequencies in proportion to the rates, whatever the weights: what
    /// intuition suggests and, for equal weights and costs, never better than
    /// uniform (Theorems 3 and 4).
    Proportional,
    /// The best for an objective (freshness paper, section 5.3 and Appendix E,
    /// with weights and costs): every poll that is made is worth the price.
    Optimal(Objective),
}

impl Rule {
    /// Writes the frequencies of the elements of a block at a level.
    ///
    /// ```text
    /// uniform        f = 1/μ
    /// proportional   f = λ/μ
    /// freshness      g(λ/f) = μλc/w; zero if the right side is one or more
    /// age            k(λ/f) = μλ²c/w
    /// content        (λ/f)³/3 = μλ²c/w
    /// ```
    ///
    /// Every one falls as the level μ rises. Who never changes, or has no weight,
    /// is not polled by the optimal ones.
    pub(super) fn write(self, block: Block<'_>, level: f64, to: &mut [Frequency]) {
        match self {
            Self::Uniform => to.fill(Frequency(1.0 / level)),
            Self::Proportional => {
                for (to, rate) in to.iter_mut().zip(block.rates) {
                    *to = Frequency(rate.0 / level);
                }
            }
            Self::Optimal(objective) => {
                let write = WriteLoop {
                    objective,
                    block,
                    level,
                    to,
                };
                with_polls_per_change(objective, write);
            }
        }
    }
}

struct WriteLoop<'a> {
    objective: Objective,
    block: Block<'a>,
    level: f64,
    to: &'a mut [Frequency],
}

impl PollsLoop for WriteLoop<'_> {
    type Output = ();

    fn run(self, polls: impl Fn(f64) -> f64) {
        let elements = self.block.rates.iter().zip(self.block.ratios);
        for (to, (&Rate(rate), &ratio)) in self.to.iter_mut().zip(elements) {
            let y = self.level * quotient(self.objective, rate, ratio);
            *to = Frequency(rate * polls(y));
        }
    }
}

/// All of an element that matters for its polls per change: the right sides of
/// [`Rule::write`] without the level. Infinite for one without weight; whatever
/// it is for one without changes, nothing comes of it.
#[inline]
pub(super) fn quotient(objective: Objective, rate: f64, ratio: f64) -> f64 {
    match objective {
        Objective::Freshness => ratio,
        Objective::Age | Objective::Content => ratio * rate,
    }
}
