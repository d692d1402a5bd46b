//! The gamma distribution: what we believe of a rate.

use statrs::function::gamma::{gamma_lr, ln_gamma};

use crate::Error;

/// A rate known as a gamma distribution, in changes a day.
///
/// The shape counts changes, the inverse scale the days they took: a belief of
/// `Gamma::new(3.0, 10.0)` is worth as much as three changes seen in ten days.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gamma {
    pub(crate) shape: f64,
    /// The inverse scale, in days.
    pub(crate) per: f64,
}

impl Gamma {
    /// A belief worth `changes` changes in `days` days.
    ///
    /// # Errors
    /// If either number is not above zero, infinite or not a number.
    pub fn new(changes: f64, days: f64) -> Result<Self, Error> {
        for number in [changes, days] {
            if !(number > 0.0 && number.is_finite()) {
                return Err(Error::Gamma(number));
            }
        }
        Ok(Self {
            shape: changes,
            per: days,
        })
    }

    /// The changes it is worth: the shape a.
    pub fn changes(self) -> f64 {
        self.shape
    }

    /// The days it is worth: the inverse scale b.
    pub fn days(self) -> f64 {
        self.per
    }

    /// The mean rate, a/b changes a day.
    pub fn mean(self) -> f64 {
        self.shape / self.per
    }

    /// The chance that nothing changes for this many days: (b/(b+t))^a.
    pub fn quiet(self, days: f64) -> f64 {
        (-self.shape * (days / self.per).ln_1p()).exp()
    }

    /// The rate below which the true one lies with this probability, strictly
    /// between 0 and 1.
    pub fn quantile(self, probability: f64) -> f64 {
        standard_quantile(self.shape, probability) / self.per
    }
}

/// The quantile of the gamma distribution with scale one.
fn standard_quantile(shape: f64, probability: f64) -> f64 {
    // Near zero P(a, x) ≈ x^a / Γ(a+1). Where that is tiny even at the answer,
    // which it is for small shapes, it is the answer.
    let log_small = (probability.ln() + ln_gamma(shape + 1.0)) / shape;
    if log_small < -36.0 {
        return log_small.exp();
    }
    // Wilson and Hilferty's cube, else the power law, as the start.
    let ninth = 1.0 / (9.0 * shape);
    let cube = 1.0 - ninth + standard_normal_quantile(probability) * ninth.sqrt();
    let mut x = if cube > 0.2 {
        shape * cube * cube * cube
    } else {
        log_small.exp()
    };
    let (mut low, mut high) = (0.0_f64, f64::INFINITY);
    for _ in 0..100 {
        let error = gamma_lr(shape, x) - probability;
        if error < 0.0 {
            low = x;
        } else {
            high = x;
        }
        let density = ((shape - 1.0) * x.ln() - x - ln_gamma(shape)).exp();
        // Halley's step: d ln density / dx = (a − 1)/x − 1.
        let newton = error / density;
        let mut next = x - newton / (1.0 - 0.5 * newton * ((shape - 1.0) / x - 1.0)).max(0.5);
        if !(next > low && next < high) {
            next = if high == f64::INFINITY {
                2.0 * x
            } else if low == 0.0 {
                0.5 * x
            } else {
                0.5 * (low + high)
            };
        }
        if (next - x).abs() <= 1e-15 * x {
            return next;
        }
        x = next;
    }
    x
}

/// The quantile of the normal distribution, to three digits: a start for others.
fn standard_normal_quantile(probability: f64) -> f64 {
    // Hastings' rational approximation (Abramowitz and Stegun 26.2.22).
    let tail = probability.min(1.0 - probability);
    let t = (-2.0 * tail.ln()).sqrt();
    let z = t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + 0.04481 * t));
    if probability < 0.5 { -z } else { z }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Computed with mpmath to 100 digits.
    const QUANTILES: &[(f64, f64, f64)] = &[
        (0.01, 0.05, 4.4655350189104013e-131),
        (0.01, 0.5, 4.465535018910355e-31),
        (0.01, 0.95, 0.00336262399807469),
        (0.3, 0.05, 3.211034699722962e-05),
        (0.3, 0.5, 0.0731311358669519),
        (0.3, 0.95, 1.3723499441008866),
        (0.5, 0.05, 0.0019660700000097616),
        (0.5, 0.5, 0.2274682115597864),
        (0.5, 0.95, 1.9207294103470622),
        (1.0, 0.05, 0.051293294387550536),
        (1.0, 0.5, std::f64::consts::LN_2),
        (1.0, 0.95, 2.99573227355399),
        (2.5, 0.05, 0.5727381130308846),
        (2.5, 0.5, 2.1757300955477636),
        (2.5, 0.95, 5.535248846758176),
        (10.0, 0.05, 5.425405697091293),
        (10.0, 0.5, 9.668714614714132),
        (10.0, 0.95, 15.70521642211546),
        (1000.0, 0.05, 948.5598493836511),
        (1000.0, 0.5, 999.6666864269652),
        (1000.0, 0.95, 1052.5771180823206),
        (1000000.0, 0.05, 998355.7150837178),
        (1000000.0, 0.5, 999999.6666666864),
        (1000000.0, 0.95, 1001645.42194519),
    ];

    #[test]
    fn quantiles_keep_their_digits() {
        for &(shape, probability, x) in QUANTILES {
            let computed = Gamma::new(shape, 1.0).unwrap().quantile(probability);
            // A small shape magnifies the rounding of the probability; a large
            // one that of the incomplete gamma function.
            let tolerance = 1e-13 + 1e-15 / shape + 1e-17 * shape;
            assert!(
                (computed / x - 1.0).abs() < tolerance,
                "{shape} {probability}: {computed} {x}"
            );
        }
    }
}
