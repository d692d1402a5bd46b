//! What a poll is worth.
//!
//! Let D(t) be the expected cost per time of a copy t after its last poll: for
//! freshness, the chance that it is stale. Polling it then is worth
//!
//! ```text
//! U(t) = t·D(t) − ∫₀ᵗ D(s) ds
//! ```
//!
//! times the element's weight, divided by the cost of the poll. U is the gain of
//! the whole cycle over not polling at that moment, and at the optimum it is the
//! same for every poll that is made: the price. (Olston and Pandey, WWW 2008;
//! for a known rate it is the freshness paper's multiplier μ, Appendix E.)

use std::f64::consts::SQRT_2;
use std::sync::LazyLock;

use crate::numeric::{
    Curve, UnitCurve, exponential_integral, quick_exp, quick_ln, series_from, solve_rising,
};
use crate::{Cost, Gamma, Rate, Span, Weight};

/// What is to be kept low, or high.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// The share of time that copies are fresh.
    #[default]
    Freshness,
    /// The time since the first change that a copy has missed.
    Age,
    /// The summed ages of all changes that a copy has missed (the content
    /// paper's measure).
    Content,
}

/// What a poll of one element is worth, as time passes since the last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PollValue {
    kind: Kind,
    weight: Weight,
    cost: Cost,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Known(Objective, Rate),
    Believed(Gamma),
}

impl PollValue {
    /// The value of polling an element whose rate is known.
    ///
    /// ```text
    /// objective   D(t)                    U(t)
    /// freshness   1 − e^(−λt)             (1 − e^(−λt)(1 + λt)) / λ
    /// age         t − (1 − e^(−λt))/λ     ((λt)²/2 − 1 + e^(−λt)(1 + λt)) / λ²
    /// content     λt²/2                   λt³/3
    /// ```
    ///
    /// For freshness it levels off at 1/λ: an element that changes too often for
    /// its weight is never worth the price. The others grow without bound.
    pub fn known(objective: Objective, rate: Rate) -> Self {
        Self {
            kind: Kind::Known(objective, rate),
            weight: Weight::ONE,
            cost: Cost::ONE,
        }
    }

    /// The value, for freshness, of polling an element whose rate is known only
    /// as a gamma distribution with shape a and inverse scale b.
    ///
    /// ```text
    /// D(t) = 1 − (b/(b+t))^a
    /// U(t) = b/(a−1) (1 − (b/(b+t))^(a−1)) − t (b/(b+t))^a
    /// ```
    ///
    /// While there is little evidence (a ≤ 1) it grows without bound, so that no
    /// element is given up before it was looked at.
    pub fn believed(belief: Gamma) -> Self {
        Self {
            kind: Kind::Believed(belief),
            weight: Weight::ONE,
            cost: Cost::ONE,
        }
    }

    /// The same for an element of this weight.
    #[must_use]
    pub fn weighing(self, weight: Weight) -> Self {
        Self { weight, ..self }
    }

    /// The same for a poll of this cost.
    #[must_use]
    pub fn costing(self, cost: Cost) -> Self {
        Self { cost, ..self }
    }

    /// What a poll is worth this long after the last one.
    pub fn after(&self, elapsed: Span) -> f64 {
        let t = elapsed.0;
        let worth = match self.kind {
            Kind::Known(_, Rate(0.0)) => 0.0,
            Kind::Known(Objective::Freshness, Rate(lambda)) => freshness_value(lambda * t) / lambda,
            // Divided twice, since the square of a small rate underflows.
            Kind::Known(Objective::Age, Rate(lambda)) => age_value(lambda * t) / lambda / lambda,
            Kind::Known(Objective::Content, Rate(lambda)) => lambda * t * t * t / 3.0,
            Kind::Believed(Gamma { shape, per }) => per * believed_value(shape, (t / per).ln_1p()),
        };
        self.weight.0 * worth / self.cost.0
    }

    /// How long after a poll the next one is worth the price: the inverse of
    /// [`after`](Self::after).
    ///
    /// `None` if it never is. Nothing is worth less than nothing, so a price of
    /// zero (or below) is reached at once.
    pub fn reaches(&self, price: f64) -> Option<Span> {
        if price.is_nan() {
            return None;
        }
        if price <= 0.0 {
            return Some(Span::ZERO);
        }
        // The price in units of the unweighted value. A weight of zero makes it
        // infinite, which nothing reaches.
        let wanted = price * self.cost.0 / self.weight.0;
        if wanted == f64::INFINITY {
            return None;
        }
        match self.kind {
            Kind::Known(_, Rate(0.0)) => None,
            Kind::Known(Objective::Freshness, Rate(lambda)) => {
                let y = wanted * lambda;
                (y < 1.0).then(|| Span(freshness_value_inverse(y) / lambda))
            }
            Kind::Known(Objective::Age, Rate(lambda)) => {
                let root = lambda * wanted.sqrt();
                Some(Span(age_value_inverse(root) / lambda))
            }
            Kind::Known(Objective::Content, Rate(lambda)) => {
                Some(Span((3.0 * wanted / lambda).cbrt()))
            }
            Kind::Believed(Gamma { shape, per }) => {
                let wanted = wanted / per;
                if shape > 1.0 && wanted >= 1.0 / (shape - 1.0) {
                    return None;
                }
                // Two changes' worth of time is a good start anywhere: value
                // and slope are far from their flat ends there.
                let start = (2.0 / shape.max(1.0)).ln_1p();
                let length = solve_rising(wanted, start, |length| {
                    let slope = shape * length.exp_m1() * (-shape * length).exp();
                    (believed_value(shape, length), slope)
                });
                Some(Span(per * length.exp_m1()))
            }
        }
    }
}

/// What a poll is worth for freshness, age and content together, to a scheduler.
///
/// ```text
/// U(t) = f·U_freshness(t) + a·U_age(t) + c·E[λ]·t³/3
/// ```
///
/// The value for freshness levels off once enough is known of an element that
/// changes often; the value for age never does. A little of it keeps such elements
/// from being given up for good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Blend {
    /// What a day of freshness is worth.
    pub(crate) freshness: f64,
    /// What a day less of age is worth, per day.
    pub(crate) age: f64,
    /// What one less of content staleness, λt²/2, is worth.
    pub(crate) content: f64,
}

impl Blend {
    /// One objective and nothing of the others.
    pub(crate) fn only(objective: Objective) -> Self {
        let share = |of| f64::from(u8::from(objective == of));
        Self {
            freshness: share(Objective::Freshness),
            age: share(Objective::Age),
            content: share(Objective::Content),
        }
    }
}

/// What a poll is worth at some time, how fast that rises, and how likely the copy
/// is stale then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Worth {
    pub(crate) value: f64,
    pub(crate) slope: f64,
    pub(crate) stale: f64,
}

/// The value of a poll for all three, of an element whose rate is known as a gamma
/// distribution with shape a and inverse scale b.
///
/// ```text
/// S(t) = (b/(b+t))^a                 the chance that it is fresh
/// U_freshness = ∫₀ᵗ S − t·S(t)
/// U_age       = t²/2 − ∫₀ᵗ s·S(s) ds
/// ```
///
/// Good to about seven digits, which is plenty to order polls by and costs a third
/// of what [`PollValue`] costs.
pub(crate) fn blended_value(belief: Gamma, blend: Blend, t: f64) -> Worth {
    let Gamma { shape: a, per: b } = belief;
    let y = t / b;
    let small = (a + 1.0) * y;
    let content = blend.content * a * y * t;
    if small < 0.03 {
        // Both closed forms cancel here; so far as four terms of their series go.
        let second = small * (a + 2.0) * y;
        let third = second * (a + 3.0) * y;
        let stale = a * y * (1.0 - small / 2.0 + second / 6.0 - third / 24.0);
        let density = a * y * (1.0 - small + second / 2.0 - third / 6.0);
        let freshness = a * t * y * (1.0 / 2.0 - small / 3.0 + second / 8.0 - third / 30.0);
        let age = a * t * t * y * (1.0 / 3.0 - small / 8.0 + second / 30.0 - third / 144.0);
        return Worth {
            value: blend.freshness * freshness + blend.age * age + content * t / 3.0,
            slope: blend.freshness * density + blend.age * t * stale + content,
            stale,
        };
    }
    let grown = 1.0 + y;
    let length = quick_ln(grown);
    let fresh = quick_exp(-a * length);
    // ∫ x^(−a) dx and ∫ x^(1−a) dx from 1 to 1 + y.
    let area = |power: f64, end: f64| {
        if power.abs() < 1e-7 {
            length
        } else {
            (end - 1.0) / power
        }
    };
    let first = area(1.0 - a, fresh * grown);
    let second = area(2.0 - a, fresh * grown * grown);
    let freshness = b * first - t * fresh;
    let density = t * a * fresh / (b * grown);
    let age = t * t / 2.0 - b * b * (second - first);
    Worth {
        value: blend.freshness * freshness + blend.age * age + content * t / 3.0,
        slope: blend.freshness * density + blend.age * t * (1.0 - fresh) + content,
        stale: 1.0 - fresh,
    }
}

/// How likely an element has changed by some time, as good as [`blended_value`].
pub(crate) fn chance_changed(belief: Gamma, t: f64) -> f64 {
    let Gamma { shape: a, per: b } = belief;
    let y = t / b;
    let small = (a + 1.0) * y;
    if small < 0.03 {
        let second = small * (a + 2.0) * y;
        let third = second * (a + 3.0) * y;
        a * y * (1.0 - small / 2.0 + second / 6.0 - third / 24.0)
    } else {
        1.0 - quick_exp(-a * quick_ln(1.0 + y))
    }
}

/// How long after a poll the next is worth `wanted`, to within a fiftieth of it;
/// `longest` if it is not by then.
pub(crate) fn blended_value_reaches(belief: Gamma, blend: Blend, wanted: f64, longest: f64) -> f64 {
    // The value for freshness begins as a·t²/2b·(1 − ⅔(a+1)t/b …), which is less
    // than its first term by about twice what the second moves the root.
    let Gamma { shape, per } = belief;
    let early = if blend.freshness > 0.0 {
        (2.0 * wanted * per / (shape * blend.freshness)).sqrt()
    } else {
        (3.0 * wanted * per / (shape * (blend.age + blend.content))).cbrt()
    };
    let later = early + (early * early * (shape + 1.0) / (3.0 * per)).min(early);
    blended_value_reaches_near(belief, blend, wanted, (later, longest))
}

/// The same, if it is known to be near some time: then it takes one look or two.
pub(crate) fn blended_value_reaches_near(
    belief: Gamma,
    blend: Blend,
    wanted: f64,
    (near, longest): (f64, f64),
) -> f64 {
    // After a step as short as this, what is left is a hundredth of the time at most.
    const LAST_STEP: f64 = 0.1;
    let mut t = near.clamp(longest * 1e-12, longest);
    for _ in 0..40 {
        let Worth { value, slope, .. } = blended_value(belief, blend, t);
        // Newton's method on logarithms, where value is close to a power of time:
        // ln x and e^x by the first terms of their continued fractions, since the
        // last digits of a step do not matter.
        let short = 2.0 * (wanted - value) / (wanted + value);
        let step = (short * value / (t * slope)).clamp(-1.5, 1.5);
        if t >= longest && step > 0.0 {
            return longest;
        }
        let square = step * step / 12.0;
        t *= (1.0 + step / 2.0 + square) / (1.0 - step / 2.0 + square);
        t = t.min(longest);
        if step.abs() < LAST_STEP {
            break;
        }
    }
    t
}

/// λ·U of freshness, as a function of x = λt.
///
/// ```text
/// g(x) = 1 − e^(−x)(1 + x)
/// ```
pub(crate) fn freshness_value(x: f64) -> f64 {
    if x < 1.0 {
        // e^(−x) Σ x^j / j! from j = 2: all terms positive, so nothing cancels.
        (-x).exp() * series_from(x, 2.0, x * x / 2.0, |j| 1.0 / j)
    } else if x < 800.0 {
        -(-x).exp_m1() - x * (-x).exp()
    } else {
        1.0
    }
}

/// The inverse of [`freshness_value`] for 0 ≤ y < 1: the quantile of the gamma
/// distribution with shape two.
pub(crate) fn freshness_value_inverse(y: f64) -> f64 {
    if y < 0.5 {
        let mut x = freshness_value_start(y);
        // The series alone is exact for tiny y, where Halley's step would
        // divide one underflow by another.
        if y > 1e-5 {
            for _ in 0..2 {
                let excess = (freshness_value(x) - y) / (x * (-x).exp());
                x -= excess / (1.0 - excess * (1.0 - x) / (2.0 * x));
            }
        }
        x
    } else {
        freshness_value_tail_inverse(-(-y).ln_1p())
    }
}

/// The inverse of [`freshness_value`] for y ≥ ½, given −ln(1 − y), which keeps
/// the digits that y itself has no room for.
fn freshness_value_tail_inverse(l: f64) -> f64 {
    let mut x = if l < 1.2 {
        freshness_value_start(-(-l).exp_m1())
    } else {
        let z = 1.0 + l;
        let p = z.ln();
        l + p + p / z + p * (p - 2.0) / (2.0 * z * z)
    };
    // Halley's steps on ln(1 + x) − x + l = 0, which is far closer to a line
    // than g itself.
    for _ in 0..3 {
        let slope = -x / (1.0 + x);
        let step = (x.ln_1p() - x + l) / slope;
        x -= step / (1.0 + step / (2.0 * slope * (1.0 + x) * (1.0 + x)));
    }
    x
}

/// The start of the series of the inverse in s = √(2y).
fn freshness_value_start(y: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        1.0,
        1.0 / 3.0,
        11.0 / 72.0,
        43.0 / 540.0,
        769.0 / 17_280.0,
        221.0 / 8_505.0,
        680_863.0 / 43_545_600.0,
        1_963.0 / 204_120.0,
    ];
    let s = (2.0 * y).sqrt();
    s * COEFFICIENTS.iter().rev().fold(0.0, |sum, c| sum * s + c)
}

/// λ²·U of age, as a function of x = λt.
///
/// ```text
/// k(x) = x²/2 − 1 + e^(−x)(1 + x)
/// ```
pub(crate) fn age_value(x: f64) -> f64 {
    if x < 1.0 {
        // Σ (−1)^(j+1) (j−1) x^j / j! from j = 3.
        series_from(x, 3.0, x * x * x / 3.0, |j| -(j - 1.0) / (j - 2.0) / j)
    } else {
        x * x / 2.0 - freshness_value(x)
    }
}

/// The inverse of [`age_value`], given the root of its argument: x with
/// k(x) = u².
///
/// The root, because the squares of ordinary rates and prices leave the range
/// of a double sooner than one would like.
pub(crate) fn age_value_inverse(u: f64) -> f64 {
    if u > AGE_ALL_QUADRATIC {
        return SQRT_2 * if u < 1e9 { (u * u + 1.0).sqrt() } else { u };
    }
    let c = cube_root_of_three_squares(u);
    if c < 1e-4 {
        return c * (1.0 + c * (0.125 + c * (13.0 / 960.0)));
    }
    let y = u * u;
    let mut x = if y < 1.0 {
        c * (1.0 + c * (0.125 + c * (13.0 / 960.0)))
    } else {
        (2.0 * (y + 1.0)).sqrt()
    };
    for _ in 0..3 {
        let fall = -(-x).exp_m1();
        let excess = (age_value(x) - y) / (x * fall);
        x -= excess / (1.0 - excess * (fall + x * (-x).exp()) / (2.0 * x * fall));
    }
    x
}

/// From here on e^(−x)(1 + x) no longer counts beside x²/2, so k inverts by hand.
const AGE_ALL_QUADRATIC: f64 = 31.0;

/// (3u²)^⅓ without the square.
fn cube_root_of_three_squares(u: f64) -> f64 {
    let root = u.cbrt();
    const CUBE_ROOT_OF_THREE: f64 = 1.442_249_570_307_408_4;
    CUBE_ROOT_OF_THREE * root * root
}

/// U/b for a believed rate, as a function of L = ln(1 + t/b).
///
/// ```text
/// h(L) = a ∫₀ᴸ (e^s − 1) e^(−as) ds
/// ```
fn believed_value(shape: f64, length: f64) -> f64 {
    let x = shape * length;
    if length * shape.max(1.0) < 1.0 {
        // e^(−x) Σ xʲ/j! (1/a + … + 1/a^(j−1)) from j = 2: all terms positive.
        // Written with powers of L, since a may be tiny.
        let (mut sum, mut term, mut powers, mut j) = (0.0, shape * length, 1.0, 1.0);
        loop {
            // `term` is a Lʲ/j!, `powers` is 1 + a + … + a^(j−2).
            j += 1.0;
            term *= length / j;
            let next = sum + term * powers;
            if next == sum {
                return (-x).exp() * sum;
            }
            sum = next;
            powers = 1.0 + shape * powers;
        }
    } else if shape < 1.0 {
        shape * exponential_integral(1.0 - shape, length) + (-x).exp_m1()
    } else {
        exponential_integral(1.0 - shape, length) - (-x).exp() * length.exp_m1()
    }
}

/// 1/x with g(x) = y, as a function of y: the polls per change of an element for
/// which a poll is worth y/λ, on the interval where there is such an x.
static POLLS_FOR_FRESHNESS: LazyLock<UnitCurve> = LazyLock::new(|| {
    UnitCurve::new(
        |y| 1.0 / freshness_value_inverse(y),
        |rest| 1.0 / freshness_value_tail_inverse(-rest.ln()),
    )
});

/// 1/x with k(x) = y, as a function of y: the polls per change of an element for
/// which a poll is worth y/λ². For y outside, see [`with_polls_per_change`].
static POLLS_FOR_AGE: LazyLock<Curve> =
    LazyLock::new(|| Curve::new(-60, 10, |y| 1.0 / age_value_inverse(y.sqrt())));

/// Runs a loop over many elements with what gives their polls per change for an
/// objective: the function of y that is 1/x where
///
/// ```text
/// freshness   g(x) = y; zero if y is one or more
/// age         k(x) = y
/// content     x³/3 = y
/// ```
///
/// For an infinite y it is zero, and for one that is zero or not a number, which
/// is what an element without changes has, it is finite. Each objective gets a copy of the loop of its own, in which nothing is left
/// to choose, and looks up its curve once.
pub(crate) fn with_polls_per_change<L: PollsLoop>(objective: Objective, run: L) -> L::Output {
    match objective {
        Objective::Freshness => {
            let curve = &*POLLS_FOR_FRESHNESS;
            run.run(|y| {
                if y < UnitCurve::LEAST {
                    polls_for_freshness_of_slow(y)
                } else {
                    curve.value(y)
                }
            })
        }
        Objective::Age => {
            let curve = &*POLLS_FOR_AGE;
            run.run(|y| {
                if (UnitCurve::LEAST..AGE_QUADRATIC).contains(&y) {
                    curve.value(y)
                } else {
                    polls_for_age_at_the_ends(y)
                }
            })
        }
        Objective::Content => run.run(|y| 1.0 / (3.0 * y).max(f64::MIN_POSITIVE).cbrt()),
    }
}

/// A loop that wants to know polls per change.
pub(crate) trait PollsLoop {
    type Output;
    fn run(self, polls: impl Fn(f64) -> f64 + Sync) -> Self::Output;
}

/// 1/x for freshness below the curve, where x = √(2y) + 2y/3.
#[cold]
fn polls_for_freshness_of_slow(y: f64) -> f64 {
    // What is smaller than any real quotient of rate and weight must not become
    // an infinite frequency.
    let s = (2.0 * y).max(f64::MIN_POSITIVE).sqrt();
    1.0 / (s * (1.0 + s / 3.0))
}

/// From here on k(x) is x²/2 − 1.
const AGE_QUADRATIC: f64 = 1024.0;

/// 1/x for age below and above the curve.
#[cold]
fn polls_for_age_at_the_ends(y: f64) -> f64 {
    if y >= 1.0 {
        1.0 / (2.0 * (y + 1.0)).sqrt()
    } else {
        1.0 / age_value_inverse(y.max(f64::MIN_POSITIVE).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // All references were computed with mpmath to 60 digits or more.

    const FRESHNESS_VALUES: &[(f64, f64)] = &[
        (1e-150, 5e-301),
        (1e-100, 5e-201),
        (1e-30, 5.0000000000000005e-61),
        (1e-12, 4.999999999996667e-25),
        (1e-08, 4.999999966666667e-17),
        (1e-05, 4.999966666791667e-11),
        (0.001, 4.996667916333403e-07),
        (0.1, 0.00467884016044447),
        (0.5, 0.09020401043104986),
        (0.9, 0.22751764649286169),
        (0.999, 0.2638732382772878),
        (1.0, 0.26424111765711533),
        (1.001, 0.2646089970370042),
        (1.5, 0.4421745996289254),
        (2.0, 0.5939941502901619),
        (5.0, 0.9595723180054871),
        (10.0, 0.9995006007726127),
        (20.0, 0.9999999567157739),
        (30.0, 0.9999999999970991),
        (37.0, 0.9999999999999968),
        (100.0, 1.0),
        (745.0, 1.0),
        (800.0, 1.0),
    ];

    const FRESHNESS_VALUE_INVERSES: &[(f64, f64)] = &[
        (1e-300, 1.4142135623730952e-150),
        (1e-30, 1.4142135623730959e-15),
        (1e-12, 1.4142142290401938e-06),
        (1e-06, 0.001414880661479343),
        (0.001, 0.04540201776948956),
        (0.05, 0.35536151069866206),
        (0.2, 0.8243883090329847),
        (0.4999, 1.6780278457294133),
        (0.5, 1.6783469900166605),
        (0.5001, 1.6786661754757524),
        (0.69, 2.3928546190770223),
        (0.7, 2.4392164832802044),
        (0.71, 2.4868823970010983),
        (0.9, 3.8897201698674295),
        (0.99, 6.638352067993811),
        (0.999999, 16.68842079082944),
        (0.999999999999, 31.099896029053795),
        (0.9999999999999999, 40.461567483087464),
    ];

    const AGE_VALUES: &[(f64, f64)] = &[
        (1e-100, 3.3333333333333334e-301),
        (1e-60, 3.333333333333333e-181),
        (1e-20, 3.333333333333333e-61),
        (1e-12, 3.333333333332083e-37),
        (1e-08, 3.3333333208333337e-25),
        (1e-05, 3.333320833366667e-16),
        (0.001, 3.332083666597234e-10),
        (0.1, 0.0003211598395555305),
        (0.5, 0.034795989568950136),
        (0.9, 0.1774823535071383),
        (0.999, 0.23512726172271217),
        (1.0, 0.23575888234288464),
        (1.001, 0.23639150296299571),
        (1.5, 0.6828254003710745),
        (2.0, 1.406005849709838),
        (3.0, 3.699148273471456),
        (5.0, 11.540427681994514),
        (10.0, 49.00049939922739),
        (30.0, 449.0000000000029),
        (100.0, 4999.0),
        (1000.0, 499999.0),
        (1000000.0, 499999999999.0),
    ];

    const AGE_VALUE_INVERSES: &[(f64, f64)] = &[
        (1e-300, 1.4422495703074084e-100),
        (1e-200, 3.107232505953859e-67),
        (1e-100, 6.694329500821695e-34),
        (1e-30, 1.4422495703334094e-10),
        (1e-12, 0.0001442275571761449),
        (1e-08, 0.0031084397739871584),
        (0.0001, 0.06750754417871623),
        (0.001, 0.14686591887841685),
        (0.01, 0.3232027916825642),
        (0.1, 0.7295964540410089),
        (0.2, 0.9406665082373826),
        (0.2357, 0.9999068426407599),
        (0.24, 1.0066740872621347),
        (0.5, 1.3293025437391128),
        (1.0, 1.7436710640925275),
        (2.0, 2.311631058586834),
        (10.0, 4.679157747615777),
        (100.0, 14.212669684027134),
        (1000000.0, 1414.2142694796994),
        (1000000000000.0, 1414213.562373802),
        (1e+30, 1414213562373095.0),
        (1e+100, 1.414213562373095e+50),
        (1e+200, 1.414213562373095e+100),
        (1e+300, 1.4142135623730951e+150),
    ];

    const BELIEVED_VALUES: &[(f64, f64, f64, f64)] = &[
        (1e-06, 0.001, 0.001, 3.068526733722392e-10),
        (1e-06, 1e-06, 0.01, 9.990707488776978e-09),
        (
            1e-06,
            9.999999999999999e-10,
            0.0004999999999999999,
            4.999808165618971e-10,
        ),
        (1e-06, 0.001, 1000.0000000000001, 0.0009999733691411208),
        (1e-06, 1e-06, 1.5, 1.4999659477779098e-06),
        (
            1e-06,
            9.999999999999999e-10,
            0.009999999999999998,
            9.999832702208294e-09,
        ),
        (1e-06, 0.001, 10000000.0, 9.999779720895763),
        (0.3, 0.3, 1e-06, 4.999985555597083e-13),
        (0.3, 0.0003, 9.999999999999999e-06, 4.859590049151876e-08),
        (0.3, 300.0, 500.0, 50.41571207435764),
        (0.3, 0.3, 1.0, 0.12351437669319584),
        (0.3, 0.0003, 0.0015, 0.00019734715828699875),
        (0.3, 300.0, 10000.0, 1203.3570032711534),
        (0.3, 0.3, 10000.0, 188.02271646584322),
        (0.6, 0.0006, 9.999999999999999e-10, 4.999991111125554e-16),
        (0.6, 600.0, 10.0, 0.04912532807767319),
        (0.6, 0.6, 0.5, 0.06400327181481767),
        (0.6, 0.0006, 0.001, 0.00016548227619219008),
        (0.6, 600.0, 1500.0, 268.44045423105894),
        (0.6, 0.6, 10.0, 1.445718045751967),
        (0.6, 0.0006, 9.999999999999998, 0.042455153641287206),
        (0.999999999, 999.999999, 0.001, 4.99999333334083e-10),
        (0.999999999, 0.999999999, 0.01, 4.934075415785713e-05),
        (0.999999999, 0.000999999999, 0.0005, 7.213177476085633e-05),
        (0.999999999, 999.999999, 1000.0, 193.14718051045105),
        (0.999999999, 0.999999999, 1.5, 0.31629073178788425),
        (0.999999999, 0.000999999999, 0.01, 0.0014888043637401494),
        (0.999999999, 999.999999, 10000000.0, 8210.54038297336),
        (1.0, 1.0, 1e-06, 4.999993333340833e-13),
        (1.0, 0.001, 1e-05, 4.934075415818187e-08),
        (1.0, 1000.0, 500.0, 72.13177477483104),
        (1.0, 1.0, 1.0, 0.19314718055994531),
        (1.0, 0.001, 0.0015, 0.0003162907318741551),
        (1.0, 1000.0, 10000.0, 1488.8043637074616),
        (1.0, 1.0, 10000.0, 8.210540356977516),
        (
            1.000000001,
            0.001000000001,
            9.999999999999999e-10,
            4.999993333340836e-16,
        ),
        (1.000000001, 1000.0000010000001, 10.0, 0.04934075415850659),
        (1.000000001, 1.000000001, 0.5, 0.07213177478880577),
        (1.000000001, 0.001000000001, 0.001, 0.00019314718060943958),
        (1.000000001, 1000.0000010000001, 1500.0, 316.2907319604259),
        (1.000000001, 1.000000001, 10.0, 1.4888043636747734),
        (1.000000001, 0.001000000001, 10.0, 0.008210540330981668),
        (2.0, 2000.0, 0.001, 4.99999500000375e-10),
        (2.0, 2.0, 0.01, 4.950372515531794e-05),
        (2.0, 0.002, 0.0005, 8e-05),
        (2.0, 2000.0, 1000.0, 222.22222222222223),
        (2.0, 2.0, 1.5, 0.3673469387755102),
        (2.0, 0.002, 0.01, 0.001388888888888889),
        (2.0, 2000.0, 10000000.0, 1999.200239936016),
        (50.0, 50.0, 1e-06, 4.999996600001326e-13),
        (50.0, 0.05, 1e-05, 4.966132226025749e-08),
        (50.0, 50000.0, 500.0, 89.73649282303623),
        (50.0, 50.0, 1.0, 0.26218799565926154),
        (50.0, 0.05, 0.0015000000000000002, 0.00043850234747511797),
        (50.0, 50000.0, 10000.0, 1019.174762234399),
        (50.0, 50.0, 10000.0, 1.0204081632653061),
        (1000000.0, 1000.0, 1e-09, 4.999996666664584e-16),
        (1000000.0, 1000000000.0, 10.0, 0.04966791301066263),
        (1000000.0, 1000000.0, 0.5, 0.09020398691056888),
        (1000000.0, 1000.0, 0.001, 0.0002642410140188415),
        (1000000.0, 1000000000.0, 1500.0, 442.1744142500388),
        (1000000.0, 1000000.0, 10.0, 0.9995015753037688),
        (1000000.0, 1000.0, 10.0, 0.001000001000001),
        (
            1000000000000.0,
            1000000000000000.0,
            0.001,
            4.999996666667917e-10,
        ),
        (
            1000000000000.0,
            1000000000000.0,
            0.01,
            4.9667913340265564e-05,
        ),
        (1000000000000.0, 1000000000.0, 0.0005, 9.020401043102634e-05),
        (
            1000000000000.0,
            1000000000000000.0,
            1000.0,
            264.2411176570117,
        ),
        (1000000000000.0, 1000000000000.0, 1.5, 0.44217459962874006),
        (1000000000000.0, 1000000000.0, 0.01, 0.0009995006007735873),
        (
            1000000000000.0,
            1000000000000000.0,
            10000000.0,
            1000.000000001,
        ),
    ];

    const BELIEVED_VALUE_INVERSES: &[(f64, f64, f64, f64)] = &[
        (1e-06, 0.001, 3.068526733722392e-10, 0.001),
        (
            1e-06,
            9.999999999999999e-10,
            4.999808165618971e-10,
            0.0004999999999999999,
        ),
        (
            1e-06,
            9.999999999999999e-10,
            9.999832702208294e-09,
            0.009999999999999998,
        ),
        (0.3, 0.3, 4.999985555597083e-13, 1e-06),
        (0.3, 0.3, 0.12351437669319584, 1.0),
        (0.3, 300.0, 1203.3570032711534, 10000.0),
        (0.6, 0.0006, 4.999991111125554e-16, 9.999999999999999e-10),
        (0.6, 0.0006, 0.00016548227619219008, 0.001),
        (0.6, 0.6, 1.445718045751967, 10.0),
        (0.999999999, 0.999999999, 4.934075415785713e-05, 0.01),
        (0.999999999, 0.999999999, 0.31629073178788425, 1.5),
        (1.0, 1.0, 4.999993333340833e-13, 1e-06),
        (1.0, 1000.0, 72.13177477483104, 500.0),
        (1.0, 1000.0, 1488.8043637074616, 10000.000000000002),
        (1.000000001, 1000.0000010000001, 0.04934075415850659, 10.0),
        (1.000000001, 1000.0000010000001, 316.2907319604259, 1500.0),
        (2.0, 2000.0, 4.99999500000375e-10, 0.001),
        (2.0, 0.002, 8e-05, 0.0005),
        (50.0, 50.0, 4.999996600001326e-13, 1e-06),
        (50.0, 50000.0, 89.73649282303623, 500.0),
        (1000000.0, 1000.0, 4.999996666664584e-16, 1e-09),
        (1000000.0, 1000000.0, 0.09020398691056888, 0.5),
        (1000000.0, 1000000000.0, 442.1744142500388, 1500.0),
        (1000000000000.0, 1000000000.0, 9.020401043102634e-05, 0.0005),
        (1000000000000.0, 1000000000000.0, 0.44217459962874006, 1.5),
    ];

    /// Equal to within so many units in the last place.
    #[track_caller]
    fn check(computed: f64, reference: f64, ulps: f64, what: &str) {
        let error = (computed - reference).abs() / reference.abs();
        assert!(
            error <= ulps * f64::EPSILON || computed == reference,
            "{what}: {computed:e} should be {reference:e}, off by {error:e}"
        );
    }

    #[test]
    fn freshness_value_keeps_its_digits_everywhere() {
        for &(x, y) in FRESHNESS_VALUES {
            check(freshness_value(x), y, 4.0, &format!("g({x})"));
        }
    }

    #[test]
    fn freshness_value_inverse_keeps_its_digits_everywhere() {
        for &(y, x) in FRESHNESS_VALUE_INVERSES {
            check(freshness_value_inverse(y), x, 4.0, &format!("g⁻¹({y})"));
        }
    }

    #[test]
    fn age_value_keeps_its_digits_everywhere() {
        for &(x, y) in AGE_VALUES {
            check(age_value(x), y, 4.0, &format!("k({x})"));
        }
    }

    #[test]
    fn age_value_inverse_keeps_its_digits_everywhere() {
        for &(y, x) in AGE_VALUE_INVERSES {
            check(age_value_inverse(y.sqrt()), x, 4.0, &format!("k⁻¹({y})"));
        }
    }

    #[test]
    fn believed_value_keeps_its_digits_everywhere() {
        for &(shape, per, t, value) in BELIEVED_VALUES {
            let belief = Gamma::new(shape, per).unwrap();
            let computed = PollValue::believed(belief).after(Span::days(t).unwrap());
            check(
                computed,
                value,
                8.0,
                &format!("U({t}) for Gamma({shape}, {per})"),
            );
        }
    }

    #[test]
    fn believed_value_is_inverted() {
        for &(shape, per, price, t) in BELIEVED_VALUE_INVERSES {
            let belief = Gamma::new(shape, per).unwrap();
            let computed = PollValue::believed(belief).reaches(price).unwrap();
            check(
                computed.as_days(),
                t,
                16.0,
                &format!("U = {price} for Gamma({shape}, {per})"),
            );
        }
    }

    #[test]
    fn value_and_inverse_agree_with_weight_and_cost() {
        let rate = Rate::per_day(0.3).unwrap();
        let (weight, cost) = (Weight::new(5.0).unwrap(), Cost::new(2.0).unwrap());
        let belief = Gamma::new(0.6, 2.0).unwrap();
        for value in [
            PollValue::known(Objective::Freshness, rate),
            PollValue::known(Objective::Age, rate),
            PollValue::known(Objective::Content, rate),
            PollValue::believed(belief),
        ] {
            let plain = value.after(Span(4.0));
            let value = value.weighing(weight).costing(cost);
            check(value.after(Span(4.0)), plain * 2.5, 2.0, "weight over cost");
            let time = value.reaches(value.after(Span(4.0))).unwrap();
            check(time.as_days(), 4.0, 8.0, "there and back");
            assert_eq!(value.weighing(Weight::new(0.0).unwrap()).reaches(1.0), None);
            assert_eq!(value.reaches(0.0), Some(Span::ZERO));
        }
    }

    #[test]
    fn what_changes_too_fast_for_its_weight_is_never_worth_the_price() {
        let fast = PollValue::known(Objective::Freshness, Rate::per_day(10.0).unwrap());
        assert_eq!(fast.reaches(0.1), None);
        assert!(fast.reaches(0.0999).is_some());
        let sure = PollValue::believed(Gamma::new(11.0, 1.0).unwrap());
        assert_eq!(sure.reaches(0.1), None);
        let unsure = PollValue::believed(Gamma::new(1.0, 0.1).unwrap());
        assert!(unsure.reaches(1.0).is_some());
    }

    #[test]
    fn what_never_changes_is_never_worth_a_poll() {
        for objective in [Objective::Freshness, Objective::Age, Objective::Content] {
            let value = PollValue::known(objective, Rate::ZERO);
            assert_eq!(value.after(Span(1e9)), 0.0);
            assert_eq!(value.reaches(1e-9), None);
        }
    }

    #[test]
    fn curves_follow_the_inverses() {
        for step in 1..20_000 {
            let exponent = f64::from(step) / 20_000.0;
            let y = 2.0_f64.powf(-53.0 * exponent) / 2.0;
            for y in [y, 1.0 - y] {
                let polls = 1.0 / freshness_value_inverse(y);
                check(
                    POLLS_FOR_FRESHNESS.value(y),
                    polls,
                    12.0,
                    &format!("1/g⁻¹({y})"),
                );
            }
            let y = 2.0_f64.powf(-60.0 + 70.0 * exponent);
            let polls = 1.0 / age_value_inverse(y.sqrt());
            check(POLLS_FOR_AGE.value(y), polls, 10.0, &format!("1/k⁻¹({y})"));
        }
    }

    #[test]
    fn a_blend_is_the_sum_of_its_integrals() {
        for (shape, per) in [
            (0.3, 20.0),
            (0.9999999, 3.0),
            (1.0, 1.0),
            (2.0, 5.0),
            (7.5, 0.4),
        ] {
            let belief = Gamma::new(shape, per).unwrap();
            for t in [1e-4, 0.01, 0.011, 0.1, 1.0, 30.0] {
                // Simpson's rule on ∫ S and ∫ s·S.
                let fresh = |s: f64| (per / (per + s)).powf(shape);
                let n = 4000;
                let step = t / f64::from(n);
                let simpson = |f: &dyn Fn(f64) -> f64| -> f64 {
                    (0..=n)
                        .map(|i| {
                            let weight = if i == 0 || i == n {
                                1.0
                            } else if i % 2 == 1 {
                                4.0
                            } else {
                                2.0
                            };
                            weight * f(f64::from(i) * step) * step / 3.0
                        })
                        .sum()
                };
                // Of the chance to be stale, which does not cancel.
                let freshness = simpson(&|s| fresh(s) - fresh(t));
                let age = simpson(&|s| s * -((per / (per + s)).ln() * shape).exp_m1());
                let blend = Blend {
                    freshness: 2.0,
                    age: 3.0,
                    content: 0.5,
                };
                let Worth { value, slope, .. } = blended_value(belief, blend, t);
                let content = shape / per * t * t * t / 3.0;
                let expected = 2.0 * freshness + 3.0 * age + 0.5 * content;
                assert!(
                    (value / expected - 1.0).abs() < 1e-6,
                    "{shape} {per} {t}: {value} {expected}"
                );
                let later = blended_value(belief, blend, t * 1.001);
                let rise = (later.value - value) / (t * 0.001);
                assert!((slope / rise - 1.0).abs() < 2e-3, "{shape} {per} {t}");
            }
        }
    }

    #[test]
    fn a_blend_reaches_what_is_wanted_or_the_longest() {
        let blend = Blend {
            freshness: 1.0,
            age: 0.001,
            content: 0.0,
        };
        for (shape, per) in [(0.3, 20.0), (1.0, 1.0), (50.0, 5.0)] {
            let belief = Gamma::new(shape, per).unwrap();
            for wanted in [1e-6, 0.01, 1.0, 40.0] {
                let t = blended_value_reaches(belief, blend, wanted, 1e6);
                let Worth { value, .. } = blended_value(belief, blend, t);
                assert!((value / wanted - 1.0).abs() < 0.021, "{shape} {wanted}");
            }
            assert_eq!(blended_value_reaches(belief, blend, 1e300, 60.0), 60.0);
        }
    }
}
