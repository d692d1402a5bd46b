//! Numerics that know nothing of polls: series, integrals, roots of rising
//! functions, and piecewise polynomials for the inner loops.

/// ∫₀ᴸ e^(ks) ds, that is (e^(kL) − 1)/k, and L where k is zero.
pub(crate) fn exponential_integral(k: f64, length: f64) -> f64 {
    let exponent = k * length;
    // The quotient of two tiny numbers keeps its digits, `0 / 0` does not; and a
    // product that has underflowed says nothing about k any more.
    if exponent.abs() < 1e-300 {
        length
    } else {
        exponent.exp_m1() / k
    }
}

/// The sum of terms that begin with `first` at index `start`, each `ratio(j)·r`
/// times the one before, until they no longer count.
pub(crate) fn series_from(r: f64, start: f64, first: f64, ratio: impl Fn(f64) -> f64) -> f64 {
    let (mut sum, mut term, mut j) = (first, first, start);
    loop {
        j += 1.0;
        term *= ratio(j) * r;
        let next = sum + term;
        if next == sum {
            return sum;
        }
        sum = next;
    }
}

/// ∫₀ˡ of a sum of exponentials e^(ku) with −`beta` ≤ k ≤ 2, by Gauss-Legendre
/// panels short enough for the fastest of them that still counts.
pub(crate) fn gauss_panels(length: f64, beta: f64, integrand: impl Fn(f64) -> f64) -> f64 {
    /// e^(−40) no longer counts beside one.
    const LAST_EXPONENT: f64 = 40.0;
    let mut sum = 0.0;
    let mut left = 0.0;
    while left < length {
        let width = if left * beta < LAST_EXPONENT {
            (2.0 / beta).min(1.0)
        } else {
            1.0
        };
        let right = (left + width).min(length);
        sum += gauss(left, right, &integrand);
        left = right;
    }
    sum
}

/// ∫ by the Gauss-Legendre rule with ten points, exact to degree 19.
fn gauss(left: f64, right: f64, integrand: impl Fn(f64) -> f64) -> f64 {
    const POINTS: [(f64, f64); 5] = [
        (0.148_874_338_981_631_22, 0.295_524_224_714_752_87),
        (0.433_395_394_129_247_2, 0.269_266_719_309_996_35),
        (0.679_409_568_299_024_4, 0.219_086_362_515_982_04),
        (0.865_063_366_688_984_5, 0.149_451_349_150_580_6),
        (0.973_906_528_517_171_7, 0.066_671_344_308_688_14),
    ];
    let (middle, half) = (0.5 * (left + right), 0.5 * (right - left));
    POINTS
        .iter()
        .map(|&(x, weight)| weight * (integrand(middle - half * x) + integrand(middle + half * x)))
        .sum::<f64>()
        * half
}

/// Where a rising function of a positive argument reaches a target.
///
/// `function` gives value and slope. The start may be any positive number. Each
/// step is Newton's on the logarithms, which is exact for power laws (what all
/// our functions are at both ends of their range), and halves the bracket
/// instead where Newton leaves it or does not shrink it fast enough.
pub(crate) fn solve_rising(target: f64, start: f64, function: impl Fn(f64) -> (f64, f64)) -> f64 {
    let (mut low, mut high) = (0.0_f64, f64::INFINITY);
    let mut x = start;
    for _ in 0..200 {
        let (value, slope) = function(x);
        if value == target {
            return x;
        }
        if value < target {
            low = x;
        } else {
            high = x;
        }
        // d ln value / d ln x; underflow of either makes it useless, not wrong.
        let elasticity = slope * x / value;
        let newton = x * ((target / value).ln() / elasticity).exp();
        let next = if newton > low && newton < high {
            newton
        } else if high == f64::INFINITY {
            low * 16.0
        } else if low == 0.0 {
            high / 16.0
        } else {
            low.sqrt() * high.sqrt()
        };
        if (next - x).abs() <= 2.0 * f64::EPSILON * x.abs() || next <= low || next >= high {
            return next.clamp(low, high.min(f64::MAX));
        }
        x = next;
    }
    x
}

/// The share between 0 and 1 at which a rising function reaches a target; an end
/// if it does not.
///
/// Secants across the bracket, exact for straight lines, take turns with halving,
/// so that a bend costs little.
pub(crate) fn solve_share(target: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    let (mut at_low, mut at_high) = (function(low), function(high));
    if at_high <= target {
        return high;
    }
    for step in 0..200 {
        if at_low >= target {
            break;
        }
        let share = if step % 2 == 0 {
            low + (high - low) * ((target - at_low) / (at_high - at_low))
        } else {
            low + 0.5 * (high - low)
        };
        let value = function(share);
        if value == target || share <= low || share >= high {
            return share;
        }
        if value < target {
            (low, at_low) = (share, value);
        } else {
            (high, at_high) = (share, value);
        }
    }
    low
}

/// How many polynomials there are for each doubling of the argument.
const PIECES_PER_OCTAVE: usize = 1 << PIECE_BITS;
const PIECE_BITS: u32 = 5;
/// All other bits of a float.
const PIECE_SHIFT: u32 = 52 - PIECE_BITS;
/// Polynomials of degree six.
const N_COEFFICIENTS: usize = 7;

/// A smooth function of a positive argument as piecewise polynomials.
///
/// The inverse functions behind the plans cost several exponentials. The solver
/// needs them for every element in every pass, so it evaluates these instead:
/// 32 polynomials of degree six for each doubling of the argument, chosen by the
/// leading bits of the float itself. For functions that are analytic around each
/// piece, such as logarithms and powers, the error stays near 1e-15.
pub(crate) struct Curve {
    pieces: Vec<Piece>,
    /// The leading bits of the smallest argument.
    first: u64,
}

/// A cache line each.
#[repr(align(64))]
struct Piece([f64; N_COEFFICIENTS]);

impl Curve {
    /// The curve of `function` on [2^low, 2^high).
    pub(crate) fn new(low: i32, high: i32, function: impl Fn(f64) -> f64) -> Self {
        let octaves = usize::try_from(high - low).expect("a range from low to high");
        let first = 2.0_f64.powi(low).to_bits() >> PIECE_SHIFT;
        let edge = |index: usize| f64::from_bits((first + index as u64) << PIECE_SHIFT);
        let pieces = (0..octaves * PIECES_PER_OCTAVE)
            .map(|index| Piece(interpolate(edge(index), edge(index + 1), &function)))
            .collect();
        Self { pieces, first }
    }

    /// The value at `x`.
    ///
    /// # Panics
    /// If `x` is outside the range.
    #[inline]
    pub(crate) fn value(&self, x: f64) -> f64 {
        self.value_beyond(0, x)
    }

    /// The value of the piece for `x`, counted from piece number `offset`.
    #[inline]
    fn value_beyond(&self, offset: usize, x: f64) -> f64 {
        let bits = x.to_bits();
        let index = (bits >> PIECE_SHIFT).wrapping_sub(self.first) as usize + offset;
        // The bits below those that chose the piece, read as a fraction of it.
        const ONE: u64 = 1.0_f64.to_bits();
        const FRACTION: u64 = (1 << 52) - 1;
        let t = f64::from_bits(((bits << PIECE_BITS) & FRACTION) | ONE) - 1.5;
        let [c0, c1, c2, c3, c4, c5, c6] = self.pieces[index].0;
        // Estrin's scheme: the same operations as Horner's, in a shorter chain.
        let t2 = t * t;
        (c0 + c1 * t) + t2 * ((c2 + c3 * t) + t2 * ((c4 + c5 * t) + t2 * c6))
    }
}

/// A function on the open unit interval as piecewise polynomials, finer and
/// finer towards both ends.
pub(crate) struct UnitCurve {
    /// The pieces by the argument, for the left half, then those by the distance
    /// to one, for the right.
    curve: Curve,
    n_left: usize,
}

impl UnitCurve {
    /// The smallest argument; what is below counts as this.
    pub(crate) const LEAST: f64 = 1.0 / (1_u64 << 60) as f64;

    /// The curve that is `left` of the argument up to ½, and `right` of the
    /// distance to one from there.
    pub(crate) fn new(left: impl Fn(f64) -> f64, right: impl Fn(f64) -> f64) -> Self {
        let mut curve = Curve::new(-60, -1, left);
        let n_left = curve.pieces.len();
        // The last octave of the right is there for ½ itself.
        curve.pieces.extend(Curve::new(-60, 0, right).pieces);
        Self { curve, n_left }
    }

    /// The value at `y`; zero from one on, and that of [`LEAST`](Self::LEAST)
    /// below it.
    ///
    /// No branches: on which side of which end an element falls is as good as
    /// random, and a branch foreseen wrongly costs more than all the rest. Read
    /// as integers, floats of one sign keep their order, so a borrow tells which
    /// of two is the smaller.
    #[inline]
    pub(crate) fn value(&self, y: f64) -> f64 {
        const HALF: u64 = 0.5_f64.to_bits();
        const ONE: u64 = 1.0_f64.to_bits();
        // Not a number may have a sign.
        let bits = y.abs().to_bits();
        let is_left = mask_if_below(bits, HALF);
        let is_inside = mask_if_below(bits, ONE);
        let nearest = (bits & is_left) | ((1.0 - y).to_bits() & !is_left & is_inside);
        let offset = self.n_left & !is_left as usize;
        let value = self
            .curve
            .value_beyond(offset, f64::from_bits(nearest.max(Self::LEAST.to_bits())));
        f64::from_bits(value.to_bits() & is_inside)
    }
}

/// All ones if `a` is below `b`, else zero; both below 2⁶³.
#[inline]
fn mask_if_below(a: u64, b: u64) -> u64 {
    (a.wrapping_sub(b).cast_signed() >> 63).cast_unsigned()
}

/// The polynomial in t = (x − left)/(right − left) − ½ that agrees with
/// `function` at the Chebyshev points.
fn interpolate(left: f64, right: f64, function: impl Fn(f64) -> f64) -> [f64; N_COEFFICIENTS] {
    let n = N_COEFFICIENTS;
    let nodes: [f64; N_COEFFICIENTS] =
        std::array::from_fn(|j| 0.5 * (std::f64::consts::PI * (j as f64 + 0.5) / n as f64).cos());
    // Newton's divided differences, of the distance to the value in the middle:
    // subtracting it first keeps the rounding of the large part out of them.
    let middle = function(0.5 * (left + right));
    let mut differences = nodes.map(|t| function(left + (t + 0.5) * (right - left)) - middle);
    for order in 1..n {
        for j in (order..n).rev() {
            differences[j] = (differences[j] - differences[j - 1]) / (nodes[j] - nodes[j - order]);
        }
    }
    let mut coefficients = [0.0; N_COEFFICIENTS];
    for j in (0..n).rev() {
        // coefficients ← coefficients · (t − node) + difference
        for i in (1..n).rev() {
            coefficients[i] = coefficients[i - 1] - nodes[j] * coefficients[i];
        }
        coefficients[0] = differences[j] - nodes[j] * coefficients[0];
    }
    coefficients[0] += middle;
    coefficients
}

/// What is left of evidence that fades: about e^(−x), for x of zero or more, where
/// a percent does not matter and speed does.
pub(crate) fn fading(x: f64) -> f64 {
    1.0 / (1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0))))
}

/// e^x to eight digits, without a call: beliefs are worked out some ten times a poll.
///
/// x = k ln 2 + r with a whole k, and e^r by its series to r⁷. Beyond e^±700 it is that.
#[inline]
pub(crate) fn quick_exp(x: f64) -> f64 {
    /// Added to a number it leaves no room for what comes after the point.
    const ROUNDING: f64 = 6_755_399_441_055_744.0;
    const SERIES: [f64; 8] = [
        1.0,
        1.0,
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
    ];
    let x = x.clamp(-700.0, 700.0);
    let shifted = x * std::f64::consts::LOG2_E + ROUNDING;
    let k = shifted - ROUNDING;
    let r = x - k * std::f64::consts::LN_2;
    let [a, b, c, d, e, f, g, h] = SERIES;
    let square = r * r;
    let low = (a + b * r) + (c + d * r) * square;
    let high = (e + f * r) + (g + h * r) * square;
    let power = f64::from_bits(((k as i64 + 1023) as u64) << 52);
    (low + high * (square * square)) * power
}

/// ln x to eight digits, without a call, for any normal x above zero.
///
/// x = 2^e m with m between √½ and √2, and ln m = 2 artanh s by its series in
/// s = (m − 1)/(m + 1), so that the digits stay near one.
#[inline]
pub(crate) fn quick_ln(x: f64) -> f64 {
    /// The bits of √½.
    const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let bits = x.to_bits();
    let e = (bits.wrapping_sub(ROOT_HALF) as i64) >> 52;
    let m = f64::from_bits(bits.wrapping_sub((e as u64) << 52));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let series =
        (2.0 + z * (2.0 / 3.0)) + z * z * ((2.0 / 5.0 + z * (2.0 / 7.0)) + z * z * (2.0 / 9.0));
    e as f64 * std::f64::consts::LN_2 + s * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_functions_have_eight_digits() {
        for step in 0..20_000 {
            let x = -700.0 + 0.07 * f64::from(step);
            assert!((quick_exp(x) / x.exp() - 1.0).abs() < 1e-8, "{x}");
            let y = (0.01 * x).exp();
            assert!((quick_ln(y) - y.ln()).abs() <= 1e-8 * y.ln().abs(), "{y}");
        }
        assert!((quick_ln(1.0 + 1e-9) / 1e-9_f64.ln_1p() - 1.0).abs() < 1e-6);
        assert_eq!((quick_ln(1.0), quick_exp(0.0)), (0.0, 1.0));
        assert!(quick_exp(f64::NEG_INFINITY) < 1e-300);
        assert!(quick_exp(f64::INFINITY) > 1e300);
        assert!((quick_ln(f64::MIN_POSITIVE) / f64::MIN_POSITIVE.ln() - 1.0).abs() < 1e-8);
        assert!((quick_ln(f64::MAX) / f64::MAX.ln() - 1.0).abs() < 1e-8);
    }

    #[test]
    fn exponential_integral_holds_through_its_removable_zero() {
        assert_eq!(exponential_integral(0.0, 3.0), 3.0);
        assert_eq!(exponential_integral(1e-320, 3.0), 3.0);
        assert!((exponential_integral(1e-9, 2.0) - 2.000_000_002).abs() < 1e-15);
        assert_eq!(exponential_integral(1.0, 1.0), 1.0_f64.exp_m1());
    }

    #[test]
    fn solve_rising_finds_roots_far_from_the_start() {
        for target in [1e-200, 1e-9, 0.5, 3.0, 1e200] {
            let root = solve_rising(target, 1.0, |x| (x * x * x, 3.0 * x * x));
            assert!((root / target.cbrt() - 1.0).abs() < 1e-15, "{target}");
        }
        // Flat at first: Newton's step from the start would leave the line.
        let root = solve_rising(0.9, 1e-3, |x| {
            (1.0 - (-x * x).exp(), 2.0 * x * (-x * x).exp())
        });
        assert!((root - 10.0_f64.ln().sqrt()).abs() < 1e-14);
    }

    #[test]
    fn solve_share_finds_straight_and_bent_roots() {
        assert_eq!(solve_share(0.25, |share| share), 0.25);
        assert!((solve_share(0.25, |share| share * share) - 0.5).abs() < 1e-15);
        assert!((solve_share(0.7, |share| (share / 0.1).min(1.0)) - 0.07).abs() < 1e-15);
        assert_eq!(solve_share(2.0, |share| share), 1.0);
        assert_eq!(solve_share(-1.0, |share| share), 0.0);
    }

    #[test]
    fn curve_follows_its_function() {
        let curve = Curve::new(-20, 3, f64::ln);
        for step in 0..10_000 {
            let x = 2.0_f64.powf(-20.0 + 23.0 * f64::from(step) / 10_001.0);
            let error = (curve.value(x) - x.ln()).abs();
            assert!(error <= 2e-15 * x.ln().abs().max(1.0), "{x}");
        }
    }

    #[test]
    fn unit_curve_follows_its_function_to_both_ends() {
        let logit = |y: f64, rest: f64| y.ln() - rest.ln();
        let curve = UnitCurve::new(|y| logit(y, 1.0 - y), |rest| logit(1.0 - rest, rest));
        for step in 0..10_000 {
            let y = 2.0_f64.powf(-53.0 * f64::from(step) / 10_000.0) / 2.0;
            for y in [y, 1.0 - y] {
                let expected = logit(y, 1.0 - y);
                let error = (curve.value(y) - expected).abs();
                assert!(error <= 4e-15 * expected.abs().max(1.0), "{y}");
            }
        }
        assert_eq!(curve.value(0.0), curve.value(UnitCurve::LEAST));
        for beyond in [1.0, 2.0, f64::INFINITY, f64::NAN, -f64::NAN] {
            assert_eq!(curve.value(beyond), 0.0);
        }
    }
}
