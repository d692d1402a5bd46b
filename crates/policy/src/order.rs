//! When in its period an element is polled: the synchronization orders of the
//! freshness paper (Algorithms B.1 to B.3).
//!
//! A plan says how often; an order says where in time those polls fall. Time is
//! measured here in polls: an element of frequency f is at *place* f·t after t, and
//! one poll falls in every period of length one.

use rand::{Rng, RngExt};

use crate::Order;

impl Order {
    /// The place of an element's first poll, given its phase: where between 0 and
    /// 1 its first period begins.
    pub fn first_place(self, phase: f64, rng: &mut dyn Rng) -> f64 {
        match self {
            Self::Fixed => phase,
            Self::PurelyRandom => self.next_place(0.0, rng),
            // The period before it may have begun already.
            Self::Random => [phase - 1.0, phase]
                .map(|begin| begin + rng.random::<f64>())
                .into_iter()
                .find(|&place| place >= 0.0)
                .unwrap_or(phase),
        }
    }

    /// The place of the poll after the one at `place`. An element's periods begin
    /// at whole numbers.
    ///
    /// - Fixed (B.1): one period later.
    /// - Random (B.2): anywhere in the next period.
    /// - Purely random (B.3): as long after as it takes, with one poll per period
    ///   on average.
    pub fn next_place(self, place: f64, rng: &mut dyn Rng) -> f64 {
        match self {
            Self::Fixed => place + 1.0,
            Self::Random => place.floor() + 1.0 + rng.random::<f64>(),
            // One minus a number below one: the logarithm of zero is not asked for.
            Self::PurelyRandom => place - (1.0 - rng.random::<f64>()).ln(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    #[test]
    fn every_order_polls_once_a_period() {
        let mut rng = Pcg64::seed_from_u64(1);
        for order in [Order::Fixed, Order::Random, Order::PurelyRandom] {
            let mut place = 0.0;
            let (mut n_polls, mut gaps) = (0, 0.0);
            while place < 20_000.0 {
                let next = order.next_place(place, &mut rng);
                gaps += (next - place) * (next - place);
                assert!(next >= place);
                place = next;
                n_polls += 1;
            }
            // Four standard deviations of a Poisson count.
            assert!((f64::from(n_polls) - 20_000.0).abs() < 4.0 * 20_000_f64.sqrt());
            // The second moment of a gap: 1, 7/6 and 2.
            let moment = gaps / f64::from(n_polls);
            let expected = match order {
                Order::Fixed => 1.0,
                Order::Random => 7.0 / 6.0,
                Order::PurelyRandom => 2.0,
            };
            assert!((moment / expected - 1.0).abs() < 0.06, "{order:?} {moment}");
        }
    }
}
