//! Freshness and age of a copy whose element changes as a Poisson process.
//!
//! Everything here is a closed form of the freshness paper (Cho and
//! Garcia-Molina, *Synchronizing a database to improve freshness*) or its
//! inverse, arranged so that it keeps its digits over the whole range. What a
//! formula depends on is nearly always r = λ/f, the changes per poll.

use crate::numeric::{exponential_integral, gauss_panels, series_from, solve_rising};
use crate::{Error, Frequency, Rate, Span};

/// How the polls of one element are spaced (the paper's synchronization order).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Evenly: every round polls all elements in the same order.
    #[default]
    Fixed,
    /// Every round polls all elements, each time in another order.
    Random,
    /// Every poll picks any element, so that intervals are exponential.
    PurelyRandom,
}

/// The chance that a copy is still fresh this long after a poll.
///
/// ```text
/// E[F(t)] = e^(−λt)
/// ```
pub fn freshness_after(rate: Rate, elapsed: Span) -> f64 {
    (-exposure(rate, elapsed)).exp()
}

/// The expected age of a copy this long after a poll.
///
/// ```text
/// E[A(t)] = t (1 − (1 − e^(−λt)) / (λt))
/// ```
pub fn age_after(rate: Rate, elapsed: Span) -> Span {
    let x = exposure(rate, elapsed);
    if x == 0.0 {
        return Span::ZERO;
    }
    if x == f64::INFINITY {
        return elapsed;
    }
    Span(elapsed.0 * x * second_remainder(x))
}

/// The expected content staleness of a copy this long after a poll: the summed
/// ages of all the changes it has missed.
///
/// ```text
/// E[S(t)] = λt²/2
/// ```
///
/// The content paper (Yang et al., section 4) calls this *content freshness*,
/// though zero is best, and gives it as a bound; by Campbell's theorem it is
/// exact.
pub fn staleness_after(rate: Rate, elapsed: Span) -> f64 {
    exposure(rate, elapsed) * elapsed.0 / 2.0
}

/// Time-averaged freshness of an element that changes at `rate` and is polled
/// at `frequency` (freshness paper, Table 2).
///
/// ```text
/// fixed          (1 − e^(−r)) / r
/// random         (1 − ((1 − e^(−r)) / r)²) / r
/// purely random  1 / (1 + r)                       r = λ/f
/// ```
///
/// An element that never changes is always fresh; one that changes and is never
/// polled is never fresh.
pub fn expected_freshness(rate: Rate, frequency: Frequency, order: Order) -> f64 {
    match changes_per_poll(rate, frequency) {
        0.0 => 1.0,
        f64::INFINITY => 0.0,
        r => match order {
            Order::Fixed => first_remainder(r),
            // The square as printed loses all digits of 1 − F at small r; the
            // factors of the difference of squares do not.
            Order::Random => (1.0 + first_remainder(r)) * second_remainder(r),
            Order::PurelyRandom => 1.0 / (1.0 + r),
        },
    }
}

/// Time-averaged age of an element that changes at `rate` and is polled at
/// `frequency` (freshness paper, Table 2).
///
/// ```text
/// fixed          I (1/2 − 1/r + (1 − e^(−r)) / r²)
/// random         I (1/3 + (1/2 − 1/r)² − ((1 − e^(−r)) / r²)²)
/// purely random  I r / (1 + r)                     r = λ/f, I = 1/f
/// ```
///
/// An element that never changes has age zero; the age of one that changes and
/// is never polled grows forever.
pub fn expected_age(rate: Rate, frequency: Frequency, order: Order) -> Span {
    match changes_per_poll(rate, frequency) {
        0.0 => Span::ZERO,
        f64::INFINITY => Span::FOREVER,
        r => Span(age_in_intervals(r, order) / frequency.0),
    }
}

/// Time-averaged content staleness of an element that changes at `rate` and is
/// polled at `frequency`: the mean of [`staleness_after`].
///
/// ```text
/// fixed λ/(6f²)    random λ/(4f²)    purely random λ/f²
/// ```
///
/// Zero for an element that never changes, infinite for one that changes and
/// is never polled.
pub fn expected_staleness(rate: Rate, frequency: Frequency, order: Order) -> f64 {
    match changes_per_poll(rate, frequency) {
        0.0 => 0.0,
        r => {
            let divisor = match order {
                Order::Fixed => 6.0,
                Order::Random => 4.0,
                Order::PurelyRandom => 1.0,
            };
            r / (divisor * frequency.0)
        }
    }
}

/// The least frequency at which an element has the wanted freshness: the
/// inverse of [`expected_freshness`].
///
/// `None` if no frequency will do: an element that changes is never always
/// fresh.
///
/// # Errors
/// If the freshness is not between 0 and 1.
pub fn frequency_for_freshness(
    rate: Rate,
    freshness: f64,
    order: Order,
) -> Result<Option<Frequency>, Error> {
    if !(0.0..=1.0).contains(&freshness) {
        return Err(Error::Freshness(freshness));
    }
    Ok(match (rate.0, freshness) {
        (0.0, _) | (_, 0.0) => Some(Frequency::ZERO),
        (_, 1.0) => None,
        (lambda, _) => Some(Frequency(lambda / ratio_for_freshness(freshness, order))),
    })
}

/// The least frequency at which an element has the wanted age: the inverse of
/// [`expected_age`].
///
/// `None` if no frequency will do: the copy of an element that changes is
/// always somewhat old.
pub fn frequency_for_age(rate: Rate, age: Span, order: Order) -> Option<Frequency> {
    match (rate.0, age.0) {
        (0.0, _) | (_, f64::INFINITY) => Some(Frequency::ZERO),
        (_, 0.0) => None,
        (lambda, days) => {
            // A = m(r)/λ with m(r) = r·age_in_intervals(r), which rises from
            // zero without bound.
            let r = solve_rising(lambda * days, (lambda * days).max(1e-150), |r| {
                (r * age_in_intervals(r, order), age_slope(r, order))
            });
            Some(Frequency(lambda / r))
        }
    }
}

/// Elements whose rates follow a gamma distribution (freshness paper, Table 3).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Population {
    mean: Rate,
    spread: f64,
}

impl Population {
    /// A population with this mean rate and spread δ², the variance of the rates
    /// divided by their squared mean. A spread of zero means equal rates.
    ///
    /// # Errors
    /// If the spread is negative, infinite or not a number.
    pub fn new(mean: Rate, spread: f64) -> Result<Self, Error> {
        if spread >= 0.0 && spread.is_finite() {
            Ok(Self { mean, spread })
        } else {
            Err(Error::Spread(spread))
        }
    }

    /// Freshness when every element is polled at `frequency`.
    ///
    /// ```text
    /// F = (1 − (1 + rδ²)^(1 − 1/δ²)) / (r(1 − δ²)) = ∫₀¹ (1 + rδ²s)^(−1/δ²) ds
    /// ```
    ///
    /// The first form is the paper's, with holes at δ² = 0 and 1; the integral
    /// has none.
    pub fn uniform_freshness(&self, frequency: Frequency) -> f64 {
        match changes_per_poll(self.mean, frequency) {
            0.0 => 1.0,
            f64::INFINITY => 0.0,
            r if self.spread < TINY_SPREAD => first_remainder(r),
            r => {
                let (zeta, length, beta) = self.exponents(r);
                exponential_integral(1.0 - beta, length) / zeta
            }
        }
    }

    /// Age when every element is polled at `frequency`.
    ///
    /// ```text
    /// A = I/(1 − δ²) ((1 − δ²)/2 − 1/r + (1 − (1 + rδ²)^(2 − 1/δ²)) / (r²(1 − 2δ²)))
    ///   = I ∫₀¹ (1 − s)(1 − (1 + rδ²s)^(−1/δ²)) ds
    /// ```
    ///
    /// The first form is the paper's, with holes at δ² = 0, ½ and 1; the
    /// integral has none.
    pub fn uniform_age(&self, frequency: Frequency) -> Span {
        match changes_per_poll(self.mean, frequency) {
            0.0 => Span::ZERO,
            f64::INFINITY => Span::FOREVER,
            r if self.spread < TINY_SPREAD => Span(age_in_intervals(r, Order::Fixed) / frequency.0),
            r => {
                let (zeta, length, beta) = self.exponents(r);
                // With 1 + rδ²s = e^u the integrand is a sum of exponentials,
                // all positive, which Gauss's rule takes in panels.
                let integrand =
                    |u: f64| (length - u).exp_m1() * (2.0 * u).exp() * -(-beta * u).exp_m1();
                let integral = gauss_panels(length, beta, integrand);
                Span(integral / (zeta * zeta) / frequency.0)
            }
        }
    }

    /// Freshness when every element is polled in proportion to its rate and the
    /// mean frequency is `frequency`: that of equal rates, whatever the spread.
    pub fn proportional_freshness(&self, frequency: Frequency) -> f64 {
        expected_freshness(self.mean, frequency, Order::Fixed)
    }

    /// Age when every element is polled in proportion to its rate and the mean
    /// frequency is `frequency`.
    ///
    /// ```text
    /// A = I/(1 − δ²) (1/2 − 1/r + (1 − e^(−r)) / r²)
    /// ```
    ///
    /// It is infinite from δ² = 1 on, where the mean of 1/λ diverges: elements
    /// that hardly change are hardly polled, and grow old without bound. (The
    /// printed formula turns negative there.)
    pub fn proportional_age(&self, frequency: Frequency) -> Span {
        let even = expected_age(self.mean, frequency, Order::Fixed);
        if even == Span::ZERO || self.spread == 0.0 {
            even
        } else if self.spread >= 1.0 {
            Span::FOREVER
        } else {
            Span(even.0 / (1.0 - self.spread))
        }
    }

    /// rδ², ln(1 + rδ²) and 1/δ².
    fn exponents(&self, r: f64) -> (f64, f64, f64) {
        let zeta = r * self.spread;
        (zeta, zeta.ln_1p(), 1.0 / self.spread)
    }
}

/// Below this spread a population is as good as one of equal rates: what is
/// neglected is of the order of the spread itself.
const TINY_SPREAD: f64 = 1e-17;

/// λt, the changes to expect in a span; zero if either factor is.
fn exposure(rate: Rate, elapsed: Span) -> f64 {
    if rate.0 == 0.0 {
        0.0
    } else {
        rate.0 * elapsed.0
    }
}

/// r = λ/f: zero if the element never changes, infinite if it does and is never
/// polled.
fn changes_per_poll(rate: Rate, frequency: Frequency) -> f64 {
    if rate.0 == 0.0 {
        0.0
    } else {
        rate.0 / frequency.0
    }
}

/// (1 − e^(−r)) / r: the mean of e^(−s) over [0, r].
pub(crate) fn first_remainder(r: f64) -> f64 {
    // `1 - exp(-r)` loses every digit for elements that change far slower than
    // they are polled, which is most of them; `exp_m1` does not.
    if r == 0.0 { 1.0 } else { -(-r).exp_m1() / r }
}

/// (r − 1 + e^(−r)) / r², which is ½ at zero.
fn second_remainder(r: f64) -> f64 {
    if r < 1.0 {
        0.5 - age_of_slow(r)
    } else {
        (r + (-r).exp_m1()) / r / r
    }
}

/// ½ − 1/r + (1 − e^(−r))/r² for r up to one, where these cancel: Σ (−1)^(j+1)
/// r^(j−2) / j! from j = 3.
fn age_of_slow(r: f64) -> f64 {
    /// ±1/j! from j = 3; the last is below the rounding of the first.
    const COEFFICIENTS: [f64; 16] = {
        let mut coefficients = [0.0; 16];
        let (mut factorial, mut j) = (2.0, 3);
        while j < 19 {
            factorial *= -(j as f64);
            coefficients[j - 3] = -1.0 / factorial;
            j += 1;
        }
        coefficients
    };
    r * COEFFICIENTS
        .iter()
        .rev()
        .fold(0.0, |sum, coefficient| sum * r + coefficient)
}

/// Age in units of the interval.
fn age_in_intervals(r: f64, order: Order) -> f64 {
    match order {
        Order::Fixed if r < 1.0 => age_of_slow(r),
        Order::Fixed => 0.5 - second_remainder(r),
        Order::Random if r > 1.0 => {
            let fresh = first_remainder(r);
            7.0 / 12.0 - (1.0 - (1.0 - fresh) * (1.0 + fresh) / r) / r
        }
        // Σ (−1)^(n+1) (2ⁿ − 2) r^(n−4) / n! from n = 5: what is left when the
        // constants of the printed form have cancelled.
        Order::Random => {
            let ratio = |n: f64| {
                let power = n.exp2();
                -(power - 2.0) / (power / 2.0 - 2.0) / n
            };
            series_from(r, 5.0, r / 4.0, ratio)
        }
        Order::PurelyRandom => r / (1.0 + r),
    }
}

/// d/dr of r·[`age_in_intervals`].
fn age_slope(r: f64, order: Order) -> f64 {
    match order {
        // m = r/2 − 1 + φ with φ = (1 − e^(−r))/r, and φ' = (e^(−r) − φ)/r. For
        // small r that difference is the second remainder in disguise.
        Order::Fixed => {
            let fresh = first_remainder(r);
            if r > 1e-3 {
                0.5 + ((-r).exp() - fresh) / r
            } else {
                r / 3.0 - r * r / 8.0
            }
        }
        Order::Random => {
            if r > 1e-3 {
                let fresh = first_remainder(r);
                let slope = ((-r).exp() - fresh) / r;
                7.0 / 12.0 - (1.0 - fresh * fresh) / (r * r) - 2.0 * fresh * slope / r
            } else {
                r / 2.0 - 31.0 / 120.0 * r * r
            }
        }
        Order::PurelyRandom => r * (2.0 + r) / ((1.0 + r) * (1.0 + r)),
    }
}

/// The r at which an element has the wanted freshness, strictly between 0 and 1.
fn ratio_for_freshness(freshness: f64, order: Order) -> f64 {
    let stale = 1.0 - freshness;
    if order == Order::PurelyRandom {
        return stale / freshness;
    }
    // Solved for the odds of being stale, which rise like a power of r at both
    // ends. 1 − F is r·second_remainder in fixed order.
    solve_rising(stale / freshness, stale / freshness, |r| {
        let (first, second) = (first_remainder(r), second_remainder(r));
        let first_slope = if r > 1e-3 {
            ((-r).exp() - first) / r
        } else {
            -0.5 + r / 3.0 - r * r / 8.0
        };
        let second_slope = if r > 1e-3 {
            (-first_slope - second) / r
        } else {
            -1.0 / 6.0 + r / 12.0
        };
        let (fresh, stale, slope) = match order {
            Order::Fixed => (first, r * second, first_slope),
            _ => {
                let fresh = (1.0 + first) * second;
                // 1 − (1 + φ)ψ with φ = 1 − rψ; and ½ − ψ is the age in fixed
                // order, which has a form that does not cancel.
                let stale = 2.0 * age_in_intervals(r, Order::Fixed) + r * second * second;
                let slope = first_slope * second + (1.0 + first) * second_slope;
                (fresh, stale, slope)
            }
        };
        (stale / fresh, -slope / (fresh * fresh))
    })
}

/// The expected age of a copy that has missed changes, the last of which was `since_last`
/// before now, `elapsed` after its poll.
///
/// ```text
/// A = t − (1 − e^(−λL))/λ,   L = t − since_last
/// ```
///
/// The first change it missed is the last one, or one of those that a Poisson process
/// has before it: the expected time until the first of them, or L, is
/// ∫ e^(−λs) ds from 0 to L.
pub fn expected_age_of_first_change(rate: Rate, elapsed: Span, since_last: Span) -> Span {
    let (Rate(lambda), Span(t)) = (rate, elapsed);
    let before = (t - since_last.0).max(0.0);
    let first = exponential_integral(-lambda, before);
    Span((t - first).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    // All references were computed with mpmath to 60 digits or more.

    /// r, freshness in fixed, random and purely random order, age likewise.
    const TABLE_2: &[(f64, f64, f64, f64, f64, f64, f64)] = &[
        (
            1e-12,
            0.9999999999995,
            0.9999999999994167,
            0.999999999999,
            1.66666666666625e-13,
            2.4999999999991386e-13,
            9.99999999999e-13,
        ),
        (
            1e-08,
            0.999999995,
            0.9999999941666667,
            0.9999999900000001,
            1.6666666625e-09,
            2.499999991388889e-09,
            9.999999900000002e-09,
        ),
        (
            0.0001,
            0.999950001666625,
            0.9999416691665806,
            0.9999000099990001,
            1.6666250008333195e-05,
            2.499913891388826e-05,
            9.999000099990002e-05,
        ),
        (
            0.01,
            0.9950166250831947,
            0.994191580804927,
            0.9900990099009901,
            0.001662508319464261,
            0.0024914138260331183,
            0.009900990099009901,
        ),
        (
            0.1,
            0.9516258196404043,
            0.9440829939372877,
            0.9090909090909091,
            0.016258196404042684,
            0.02416327270620992,
            0.09090909090909091,
        ),
        (
            0.5,
            0.7869386805747332,
            0.7614550260305962,
            0.6666666666666666,
            0.0738773611494663,
            0.10624338539452574,
            0.3333333333333333,
        ),
        (
            0.9,
            0.6593670447326676,
            0.6280390003561203,
            0.5263157894736842,
            0.12151893859185295,
            0.17004333372902253,
            0.4736842105263158,
        ),
        (
            1.0,
            0.6321205588285577,
            0.600423599106272,
            0.5,
            0.13212055882855767,
            0.18375693243960528,
            0.5,
        ),
        (
            1.1,
            0.6064808330017458,
            0.5747099992740986,
            0.47619047619047616,
            0.1422553027288599,
            0.19670605994615026,
            0.5238095238095238,
        ),
        (
            2.0,
            0.43233235838169365,
            0.4065443659480614,
            0.3333333333333333,
            0.21616617919084682,
            0.286605516307364,
            0.6666666666666666,
        ),
        (
            2.6,
            0.3560486237637177,
            0.3358574528907548,
            0.2777777777777778,
            0.25232639375527605,
            0.32789389213746983,
            0.7222222222222222,
        ),
        (
            5.0,
            0.1986524106001829,
            0.19210744395254728,
            0.16666666666666666,
            0.3397304821200366,
            0.4217548221238428,
            0.8333333333333334,
        ),
        (
            10.0,
            0.09999546000702375,
            0.09900009079779837,
            0.09090909090909091,
            0.4099995460007024,
            0.4932333424131132,
            0.9090909090909091,
        ),
        (
            100.0,
            0.01,
            0.009999,
            0.009900990099009901,
            0.4901,
            0.5734333233333333,
            0.9900990099009901,
        ),
        (
            10000.0,
            0.0001,
            9.9999999e-05,
            9.999000099990002e-05,
            0.49990001,
            0.5832333433333332,
            0.9999000099990001,
        ),
        (
            100000000.0,
            1e-08,
            9.999999999999999e-09,
            9.9999999e-09,
            0.4999999900000001,
            0.5833333233333334,
            0.9999999900000001,
        ),
    ];

    /// r, δ², freshness and age in intervals under uniform allocation.
    const TABLE_3: &[(f64, f64, f64, f64)] = &[
        (1e-06, 1e-12, 0.9999995000001667, 1.6666662500000832e-07),
        (1e-06, 1e-06, 0.9999995000001667, 1.6666662499996666e-07),
        (1e-06, 0.1, 0.9999995000001833, 1.6666662083334433e-07),
        (1e-06, 0.5, 0.99999950000025, 1.6666660416669165e-07),
        (1e-06, 0.999999, 0.9999995000003333, 1.6666658333342498e-07),
        (1e-06, 1.0, 0.9999995000003333, 1.6666658333338332e-07),
        (1e-06, 1.5, 0.9999995000004167, 1.6666656250008332e-07),
        (1e-06, 4.0, 0.9999995000008334, 1.6666645833370834e-07),
        (1e-06, 100.0, 0.9999995000168325, 1.6666245850249984e-07),
        (0.1, 1e-12, 0.9516258196404058, 0.016258196404042292),
        (0.1, 1e-06, 0.9516258211869348, 0.016258196011562174),
        (0.1, 0.1, 0.951779730667632, 0.01621909967885398),
        (0.1, 0.5, 0.9523809523809523, 0.016065667772801228),
        (0.1, 0.999999, 0.9531017966339856, 0.015880221888398615),
        (0.1, 1.0, 0.9531017980432486, 0.015880221524265395),
        (0.1, 1.5, 0.9537910634329458, 0.01570138526056157),
        (0.1, 4.0, 0.9568393377162863, 0.014892753138856005),
        (0.1, 100.0, 0.9837746302399556, 0.006456234540728037),
        (1.0, 1e-12, 0.6321205588286379, 0.13212055882853435),
        (1.0, 1e-06, 0.6321206391299278, 0.13212053549163785),
        (1.0, 0.1, 0.6398915351416834, 0.1298508608198147),
        (1.0, 0.5, 0.6666666666666666, 0.12186043243265753),
        (1.0, 0.999999, 0.6931471334806086, 0.11370565359722332),
        (1.0, 1.0, std::f64::consts::LN_2, 0.11370563888010939),
        (1.0, 1.5, 0.7144176165949065, 0.10697797925636679),
        (1.0, 4.0, 0.7812338416273701, 0.08483297026616425),
        (1.0, 100.0, 0.9640874156416805, 0.015714427237136983),
        (10.0, 1e-12, 0.09999546000712348, 0.4099995460006323),
        (10.0, 1e-06, 0.09999555973017747, 0.4099994759675294),
        (10.0, 0.1, 0.11089409722222222, 0.4027235243055556),
        (10.0, 0.5, 0.16666666666666666, 0.3716703787691222),
        (10.0, 0.999999, 0.2397893886651668, 0.3362315847208746),
        (10.0, 1.0, 0.23978952727983704, 0.33623151999217926),
        (10.0, 1.5, 0.30396841995794927, 0.3068252640336406),
        (10.0, 4.0, 0.5067572904766866, 0.217470729863655),
        (10.0, 100.0, 0.9426042605421472, 0.026358359395633475),
        (1000.0, 1e-12, 0.001000000000001, 0.49900099999999903),
        (1000.0, 1e-06, 0.001000001000001, 0.499000999002999),
        (1000.0, 0.1, 0.0011111111111111111, 0.4988902777777778),
        (1000.0, 0.5, 0.001996007984031936, 0.49802486642440436),
        (1000.0, 0.999999, 0.006908736823642242, 0.49408434951697),
        (1000.0, 1.0, 0.0069087547793152205, 0.49408433646590544),
        (1000.0, 1.5, 0.02089937133975901, 0.48481502180951086),
        (1000.0, 4.0, 0.1673558921445326, 0.40448701078996074),
        (1000.0, 100.0, 0.900252284361204, 0.04761241865123239),
    ];

    const RATIO_FOR_FRESHNESS: &[(Order, f64, f64)] = &[
        (Order::Fixed, 0.999999, 2.000001333391956e-06),
        (Order::Fixed, 0.95, 0.10347883154622287),
        (Order::Fixed, 0.8, 0.46421275437881654),
        (Order::Fixed, 0.5, 1.59362426004004),
        (Order::Fixed, 0.1, 9.999545794446535),
        (Order::Fixed, 0.001, 1000.0),
        (Order::Random, 0.999999, 1.7142869738113355e-06),
        (Order::Random, 0.95, 0.0890081576545253),
        (Order::Random, 0.8, 0.4041510129360474),
        (Order::Random, 0.5, 1.4371628247450143),
        (Order::Random, 0.1, 9.89793732930674),
        (Order::Random, 0.001, 999.9989999979999),
        (Order::PurelyRandom, 0.999999, 1.0000010000297558e-06),
        (Order::PurelyRandom, 0.95, 0.052631578947368474),
        (Order::PurelyRandom, 0.8, 0.24999999999999992),
        (Order::PurelyRandom, 0.5, 1.0),
        (Order::PurelyRandom, 0.1, 9.0),
        (Order::PurelyRandom, 0.001, 999.0),
    ];

    /// Order, λ·age, r.
    const RATIO_FOR_AGE: &[(Order, f64, f64)] = &[
        (Order::Fixed, 1e-12, 2.4494904927833846e-06),
        (Order::Fixed, 0.001, 0.07821624003178576),
        (Order::Fixed, 0.1, 0.8564978994750234),
        (Order::Fixed, 1.0, 3.4367798065438144),
        (Order::Fixed, 10.0, 21.90871211466373),
        (Order::Fixed, 1000000.0, 2000001.999999),
        (Order::Random, 1e-12, 2.000000688889082e-06),
        (Order::Random, 0.001, 0.06394058050327833),
        (Order::Random, 0.1, 0.707718307597249),
        (Order::Random, 1.0, 2.9002406210319593),
        (Order::Random, 10.0, 18.76605188753274),
        (Order::Random, 1000000.0, 1714287.4285704286),
        (Order::PurelyRandom, 1e-12, 1.000000500000125e-06),
        (Order::PurelyRandom, 0.001, 0.03212672920173694),
        (Order::PurelyRandom, 0.1, 0.37015621187164244),
        (Order::PurelyRandom, 1.0, 1.618033988749895),
        (Order::PurelyRandom, 10.0, 10.916079783099615),
        (Order::PurelyRandom, 1000000.0, 1000000.999999),
    ];

    #[track_caller]
    fn check(computed: f64, reference: f64, ulps: f64, what: &str) {
        let error = (computed - reference).abs() / reference.abs();
        assert!(
            error <= ulps * f64::EPSILON || computed == reference,
            "{what}: {computed:e} should be {reference:e}, off by {error:e}"
        );
    }

    const ORDERS: [Order; 3] = [Order::Fixed, Order::Random, Order::PurelyRandom];

    #[test]
    fn the_first_missed_change_is_the_last_one_or_before_it() {
        let age = |rate, since| expected_age_of_first_change(Rate(rate), Span(10.0), Span(since)).0;
        // A slow element has missed one change; a fast one has missed many, the first
        // soon after its poll.
        assert!((age(1e-9, 3.0) - 3.0).abs() < 1e-6);
        assert!((age(1e3, 3.0) - (10.0 - 1e-3)).abs() < 1e-9);
        assert!((age(0.5, 4.0) - (10.0 - (1.0 - (-3.0_f64).exp()) / 0.5)).abs() < 1e-12);
    }

    #[test]
    fn table_2_keeps_its_digits_everywhere() {
        for &(r, f1, f2, f3, a1, a2, a3) in TABLE_2 {
            let (rate, frequency) = (Rate(r), Frequency(1.0));
            for (order, fresh, age) in [
                (ORDERS[0], f1, a1),
                (ORDERS[1], f2, a2),
                (ORDERS[2], f3, a3),
            ] {
                let what = format!("{order:?} at r = {r}");
                check(
                    expected_freshness(rate, frequency, order),
                    fresh,
                    4.0,
                    &what,
                );
                check(expected_age(rate, frequency, order).0, age, 6.0, &what);
            }
        }
    }

    #[test]
    fn table_3_keeps_its_digits_through_its_holes() {
        for &(r, spread, fresh, age) in TABLE_3 {
            let population = Population::new(Rate(r), spread).unwrap();
            let what = format!("r = {r}, δ² = {spread}");
            // Where the exponents are large, so is what one rounding of them does.
            let condition = 8.0 + r.max(r / spread.min(1.0)).min(40.0 / spread.min(1.0)) / 50.0;
            check(
                population.uniform_freshness(Frequency(1.0)),
                fresh,
                condition,
                &what,
            );
            check(
                population.uniform_age(Frequency(1.0)).0,
                age,
                condition,
                &what,
            );
        }
    }

    #[test]
    fn proportional_age_is_infinite_where_it_diverges() {
        let age = |spread| {
            let population = Population::new(Rate(1.0), spread).unwrap();
            population.proportional_age(Frequency(1.0)).0
        };
        check(age(0.0), 0.132_120_558_828_557_67, 4.0, "equal rates");
        check(age(0.5), 2.0 * age(0.0), 2.0, "half");
        assert_eq!(age(1.0), f64::INFINITY);
        assert_eq!(age(1.5), f64::INFINITY);
    }

    #[test]
    fn frequency_for_freshness_inverts() {
        for &(order, freshness, r) in RATIO_FOR_FRESHNESS {
            let frequency = frequency_for_freshness(Rate(1.0), freshness, order).unwrap();
            let what = format!("{order:?} {freshness}");
            check(frequency.unwrap().0, 1.0 / r, 16.0, &what);
        }
    }

    #[test]
    fn frequency_for_age_inverts() {
        for &(order, age, r) in RATIO_FOR_AGE {
            let frequency = frequency_for_age(Rate(1.0), Span(age), order).unwrap();
            check(frequency.0, 1.0 / r, 16.0, &format!("{order:?} {age}"));
        }
    }

    #[test]
    fn what_never_changes_is_fresh_and_what_is_never_polled_is_not() {
        for order in ORDERS {
            for frequency in [Frequency::ZERO, Frequency(3.0)] {
                assert_eq!(expected_freshness(Rate::ZERO, frequency, order), 1.0);
                assert_eq!(expected_age(Rate::ZERO, frequency, order), Span::ZERO);
                assert_eq!(expected_staleness(Rate::ZERO, frequency, order), 0.0);
            }
            assert_eq!(expected_freshness(Rate(2.0), Frequency::ZERO, order), 0.0);
            assert_eq!(
                expected_age(Rate(2.0), Frequency::ZERO, order),
                Span::FOREVER
            );
            assert_eq!(
                expected_staleness(Rate(2.0), Frequency::ZERO, order),
                f64::INFINITY
            );
            let wanted = |rate, fresh| frequency_for_freshness(rate, fresh, order).unwrap();
            assert_eq!(wanted(Rate(2.0), 1.0), None);
            assert_eq!(wanted(Rate::ZERO, 1.0), Some(Frequency::ZERO));
            assert_eq!(frequency_for_age(Rate(2.0), Span::ZERO, order), None);
            assert_eq!(
                frequency_for_age(Rate::ZERO, Span::ZERO, order),
                Some(Frequency::ZERO)
            );
        }
    }

    #[test]
    fn over_time_a_copy_goes_stale_and_old() {
        let (rate, day) = (Rate(2.0), Span(1.0));
        check(
            freshness_after(rate, day),
            0.135_335_283_236_612_7,
            2.0,
            "e^-2",
        );
        check(
            age_after(rate, day).0,
            0.567_667_641_618_306_4,
            2.0,
            "1 - (1 - e^-2)/2",
        );
        assert_eq!(staleness_after(rate, day), 1.0);
        assert_eq!(freshness_after(Rate::ZERO, Span::FOREVER), 1.0);
        assert_eq!(age_after(Rate::ZERO, Span::FOREVER), Span::ZERO);
        assert_eq!(age_after(rate, Span::FOREVER), Span::FOREVER);
    }
}
