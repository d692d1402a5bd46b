use std::sync::Arc;

#[cfg(test)]
use statrs::function::gamma::digamma;

use super::fit::populations;
use super::population::Population;
use super::posterior::{Evidence, PriorBelief, quiet_days};
use super::{Estimator, RateEstimate, TAIL, n_changes};
use crate::{Error, Gamma, Observation, Outcome, Span};

/// What is usual among elements of a kind, seen poll by poll.
///
/// The belief about a rate is a gamma distribution. A poll updates it in constant
/// time and space, so that it can be kept for every element and learned as polls
/// come in.
#[derive(Debug, Clone, PartialEq)]
pub struct Bayes {
    prior: Prior,
    half_life: Option<f64>,
}

/// What is believed of an element's rate before it was polled: a gamma distribution
/// and, where it was fitted, the population of rates that this is nearest to.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    gamma: Gamma,
    population: Option<Arc<Population>>,
}

impl Bayes {
    /// An estimator that starts from this prior and forgets nothing.
    pub fn new(prior: Prior) -> Self {
        Self {
            prior,
            half_life: None,
        }
    }

    /// The same with evidence that counts half after so long, for elements that
    /// change their ways.
    ///
    /// # Errors
    /// If the half-life is not above zero.
    pub fn with_half_life(self, half_life: Span) -> Result<Self, Error> {
        if half_life > Span::ZERO {
            Ok(Self {
                half_life: Some(half_life.0),
                ..self
            })
        } else {
            Err(Error::HalfLife(half_life.0))
        }
    }

    /// What is believed before the first poll.
    pub fn prior(&self) -> Gamma {
        self.prior.gamma
    }

    /// What is believed after one more poll.
    ///
    /// ```text
    /// unchanged            b += I
    /// changed, age known   a += 1, b += min(age, I)
    /// changed              the gamma distribution with the mean and the mean
    ///                      logarithm of the posterior ∝ (1 − e^(−λI)) · Gamma(a, b)
    /// ```
    ///
    /// The first two are exact; the third is the gamma distribution that is nearest
    /// to the posterior (in Kullback and Leibler's sense). The one with the same
    /// variance instead goes by the high rates, which one more change does not rule
    /// out, and leaves too much belief in low ones, which it does. Evidence is forgotten towards the prior:
    /// a ← a₀ + (a − a₀)·2^(−I/half-life), and b likewise, before the update.
    #[must_use]
    pub fn update(&self, belief: Gamma, observation: &Observation) -> Gamma {
        let days = observation.elapsed.0;
        let Gamma { mut shape, mut per } = belief;
        if let Some(half_life) = self.half_life {
            let Gamma { shape: a0, per: b0 } = self.prior.gamma;
            let kept = (-days / half_life).exp2();
            shape = a0 + (shape - a0) * kept;
            per = b0 + (per - b0) * kept;
        }
        updated(Gamma { shape, per }, days, observation.outcome)
    }

    /// What is believed after these polls.
    pub fn belief(&self, observations: &[Observation]) -> Gamma {
        let update = |belief, poll| self.update(belief, poll);
        observations.iter().fold(self.prior.gamma, update)
    }
}

/// The belief after a poll that came so many days after the last, without
/// forgetting: see [`Bayes::update`].
pub(crate) fn updated(belief: Gamma, days: f64, outcome: Outcome) -> Gamma {
    let Gamma { shape, per } = belief;
    match outcome {
        Outcome::Unchanged | Outcome::Parts { n_changed: 0 } => Gamma {
            shape,
            per: per + days,
        },
        Outcome::Changed { age: Some(age) } => Gamma {
            shape: shape + 1.0,
            per: per + quiet_days(days, age.0),
        },
        Outcome::Changed { age: None } | Outcome::Parts { .. } => {
            // With L = ln(1 + I/b) and Eₖ = 1 − e^(−(a+k)L), the mean is a/b·E₁/E₀
            // and the mean logarithm ψ(a) − ln b + (1 − E₀)L/E₀: quotients of
            // numbers that keep their digits however short the interval.
            let length = (days / per).ln_1p();
            let kept = -(-shape * length).exp_m1();
            let first = -(-(shape + 1.0) * length).exp_m1();
            let (gap, _) = log_gap(shape);
            let ratio = first / kept;
            let gap = gap + ratio.ln() - (1.0 - kept) * length / kept;
            let mean = shape / per * ratio;
            let shape = shape_for(gap);
            Gamma {
                shape,
                per: shape / mean,
            }
        }
    }
}

impl Estimator for Bayes {
    /// The rate is the posterior's median: a mean would go by the highest rates that
    /// polls leave possible, and where each found a change that is any.
    ///
    /// Given all polls at once, and without forgetting, the posterior is integrated
    /// exactly, so that their order does not matter. It is close to what
    /// [`belief`](Bayes::belief) finds poll by poll, which may stray where many
    /// changes in a row are followed by many polls without.
    fn estimate(&self, observations: &[Observation]) -> RateEstimate {
        let (per_day, (low_per_day, high_per_day)) = if self.half_life.is_some() {
            let belief = self.belief(observations);
            (
                belief.quantile(0.5),
                (belief.quantile(TAIL), belief.quantile(1.0 - TAIL)),
            )
        } else {
            let before = match &self.prior.population {
                Some(population) => PriorBelief::Population(population),
                None => PriorBelief::Belief(self.prior.gamma),
            };
            let after = Evidence::new(observations).after(before);
            (after.median, after.interval)
        };
        RateEstimate {
            n_polls: observations.len(),
            n_changes: n_changes(observations),
            per_day,
            low_per_day,
            high_per_day,
        }
    }
}

impl Prior {
    /// This prior.
    pub fn fixed(prior: Gamma) -> Self {
        Self {
            gamma: prior,
            population: None,
        }
    }

    /// The prior that fits some elements, given those polls of each. It is meant for
    /// these elements: see [`by_group`](Self::by_group).
    pub fn fitted<E: AsRef<[Observation]>>(elements: &[E]) -> Self {
        let mut priors = Self::by_group(&[elements]);
        priors.remove(0)
    }

    /// A prior for the elements of each group, given those polls of each element.
    ///
    /// The logarithms of rates in a group have one peak, of any middle, spread and skew:
    /// gamma, lognormal and Pareto's distribution of rates are such, or nearly. Every
    /// peak counts as much as it makes the polls of the group likely, and as it is usual
    /// among groups, which is fitted too. So a group with few elements leans on the
    /// others, and an interval holds what is not known of the group as well.
    pub fn by_group<G: AsRef<[E]>, E: AsRef<[Observation]>>(groups: &[G]) -> Vec<Self> {
        let evidence = |group: &G| {
            let elements = group.as_ref().iter();
            let evidence = elements.map(|polls| Evidence::new(polls.as_ref()));
            evidence.collect()
        };
        let groups: Vec<Vec<Evidence>> = groups.iter().map(evidence).collect();
        let prior = |population: Population| Self {
            gamma: population.gamma(),
            population: Some(Arc::new(population)),
        };
        populations(&groups).into_iter().map(prior).collect()
    }
}

/// The shape a of the gamma distribution whose mean's logarithm passes its mean
/// logarithm by `gap`: ln a − ψ(a) = gap.
pub(super) fn shape_for(gap: f64) -> f64 {
    let gap = gap.max(1e-9);
    // Minka's start, and Newton's steps on 1/a.
    let mut shape = (3.0 - gap + ((gap - 3.0) * (gap - 3.0) + 24.0 * gap).sqrt()) / (12.0 * gap);
    for _ in 0..20 {
        let (value, slope) = log_gap(shape);
        let next = 1.0 / (1.0 / shape + (value - gap) / (shape * shape * slope));
        let is_near = (next / shape - 1.0).abs() < 1e-6;
        shape = next;
        // The steps are quadratic: the next would change the twelfth digit.
        if is_near {
            break;
        }
    }
    shape
}

/// ψ′(a), the variance of the logarithm of a gamma distribution of this shape.
pub(super) fn trigamma(a: f64) -> f64 {
    let (_, slope) = log_gap(a);
    1.0 / a - slope
}

/// ln a − ψ(a) and its derivative.
fn log_gap(a: f64) -> (f64, f64) {
    let mut x = a;
    let (mut gap, mut slope) = (0.0, 1.0 / a);
    // Both functions' recurrences, to where their asymptotic series (with
    // Bernoulli's numbers) are good to thirteen digits.
    while x < 9.0 {
        let step = 1.0 / x;
        gap += step;
        slope -= step * step;
        x += 1.0;
    }
    let r = 1.0 / x;
    let y = r * r;
    gap += r / 2.0 + y * (1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y / 240.0)));
    gap -= (x / a).ln();
    slope -= r + y / 2.0 + y * r * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)));
    (gap, slope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Likelihood;
    use rand::{RngExt, SeedableRng};
    use rand_distr::Distribution;
    use rand_pcg::Pcg64;

    fn poll(days: f64, changed: bool) -> Observation {
        let outcome = if changed {
            Outcome::Changed { age: None }
        } else {
            Outcome::Unchanged
        };
        Observation::new(Span(days), outcome).unwrap()
    }

    fn bayes(shape: f64, per: f64) -> Bayes {
        Bayes::new(Prior::fixed(Gamma::new(shape, per).unwrap()))
    }

    #[test]
    fn an_update_has_the_mean_and_mean_logarithm_of_the_exact_posterior() {
        for (shape, per, days) in [
            (0.6, 0.3, 1.0),
            (3.0, 10.0, 2.0),
            (50.0, 1.0, 0.01),
            (0.3, 100.0, 1e-3),
        ] {
            let updated = bayes(shape, per).update(Gamma { shape, per }, &poll(days, true));
            // ∫ f(λ) λ^(a−1) e^(−bλ) (1 − e^(−λI)) dλ on a fine grid of ln λ.
            let integral = |f: &dyn Fn(f64) -> f64| -> f64 {
                (-40_000..40_000)
                    .map(|i| {
                        let theta = f64::from(i) * 1e-3;
                        let rate = theta.exp();
                        let density = (shape * theta - per * rate).exp();
                        f(rate) * density * -(-rate * days).exp_m1()
                    })
                    .sum()
            };
            let whole = integral(&|_| 1.0);
            let mean = integral(&|rate| rate) / whole;
            let mean_log = integral(&f64::ln) / whole;
            assert!((updated.mean() / mean - 1.0).abs() < 1e-6);
            let ours = digamma(updated.shape) - updated.per.ln();
            assert!((ours - mean_log).abs() < 1e-6, "{ours} {mean_log}");
        }
    }

    #[test]
    fn a_short_interval_with_a_change_is_worth_a_whole_change() {
        let updated = bayes(0.5, 1.0).update(
            Gamma {
                shape: 0.5,
                per: 1.0,
            },
            &poll(1e-12, true),
        );
        assert!((updated.shape - 1.5).abs() < 1e-9 && (updated.per - 1.0).abs() < 1e-9);
    }

    #[test]
    fn with_many_polls_the_prior_no_longer_matters() {
        let mut rng = Pcg64::seed_from_u64(3);
        let polls: Vec<_> = (0..3000)
            .map(|_| {
                let days: f64 = rng.random_range(0.1..2.0);
                poll(days, rng.random::<f64>() < -(-0.7 * days).exp_m1())
            })
            .collect();
        let likelihood = Likelihood.estimate(&polls).per_day;
        for (shape, per) in [(0.3, 0.01), (0.5, 5.0)] {
            let estimate = bayes(shape, per).estimate(&polls).per_day;
            assert!(
                (estimate / likelihood - 1.0).abs() < 0.02,
                "{estimate} {likelihood}"
            );
        }
    }

    #[test]
    fn the_order_of_polls_does_not_matter_when_all_are_given() {
        let mut polls = vec![poll(1.0, true); 1000];
        polls.extend(vec![poll(1.0, false); 1000]);
        let sorted = bayes(0.5, 0.5).estimate(&polls);
        polls.reverse();
        assert_eq!(bayes(0.5, 0.5).estimate(&polls), sorted);
        assert!((sorted.per_day - 2.0_f64.ln()).abs() < 0.01, "{sorted:?}");
    }

    #[test]
    fn changes_just_now_have_a_finite_rate() {
        let now = Outcome::Changed {
            age: Some(Span::ZERO),
        };
        let polls = [Observation::new(Span(1.0), now).unwrap(); 2];
        let estimate = Bayes::new(Prior::fitted(&[&polls])).estimate(&polls);
        assert!(estimate.high_per_day.is_finite(), "{estimate:?}");
    }

    #[test]
    fn forgetting_goes_back_to_the_prior() {
        let bayes = bayes(0.5, 5.0).with_half_life(Span(30.0)).unwrap();
        let busy = bayes.belief(&vec![poll(1.0, true); 100]);
        assert!(busy.mean() > 1.0);
        // A single poll after a long silence: what was learned has faded.
        let later = bayes.update(busy, &poll(3000.0, false));
        let fresh = bayes.update(bayes.prior(), &poll(3000.0, false));
        assert!((later.mean() / fresh.mean() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_fitted_prior_finds_the_population() {
        let mut rng = Pcg64::seed_from_u64(5);
        let truth = rand_distr::Gamma::new(0.8, 0.5).unwrap();
        let elements: Vec<Vec<Observation>> = (0..2000)
            .map(|_| {
                let rate: f64 = truth.sample(&mut rng);
                (0..40)
                    .map(|_| poll(1.0, rng.random::<f64>() < -(-rate).exp_m1()))
                    .collect()
            })
            .collect();
        let polls: Vec<_> = elements.iter().map(Vec::as_slice).collect();
        let Prior { gamma: prior, .. } = Prior::fitted(&polls);
        assert!((prior.mean() / 0.4 - 1.0).abs() < 0.05, "{prior:?}");
        assert!((prior.shape / 0.8 - 1.0).abs() < 0.15, "{prior:?}");
    }

    #[test]
    fn a_small_group_leans_on_the_others() {
        let mut rng = Pcg64::seed_from_u64(9);
        let mut group = |n: usize, rate: f64| -> Vec<Vec<Observation>> {
            let mut polls = || {
                let mut poll = || poll(1.0, rng.random::<f64>() < -(-rate).exp_m1());
                (0..20).map(|_| poll()).collect()
            };
            (0..n).map(|_| polls()).collect()
        };
        let mut groups: Vec<_> = (0..8).map(|_| group(50, 0.2)).collect();
        groups.extend([group(1, 4.0), group(50, 4.0), Vec::new()]);
        let priors = Prior::by_group(&groups);
        let [busy_few, busy, none] = [8, 9, 10].map(|group: usize| priors[group].gamma.mean());
        assert!((priors[0].gamma.mean() / 0.2 - 1.0).abs() < 0.2);
        assert!((busy / 4.0 - 1.0).abs() < 0.4, "{busy}");
        assert!(
            busy_few < 0.6 * busy && busy_few < 2.0 * none,
            "{busy_few} {none}"
        );
    }

    #[test]
    fn one_that_is_unlike_all_others_shows_it() {
        let mut groups = vec![vec![poll(1.0, false); 100]; 300];
        for (index, polls) in groups.iter_mut().enumerate() {
            for at in 0..5 {
                polls[(index + 20 * at) % 100] = poll(1.0, true);
            }
        }
        let unlike: Vec<_> = (0..100).map(|day| poll(1.0, day % 3 != 0)).collect();
        groups.push(unlike.clone());
        let estimate = Bayes::new(Prior::fitted(&groups)).estimate(&unlike);
        assert!(
            (0.9..1.3).contains(&estimate.per_day) && estimate.low_per_day > 0.7,
            "{estimate:?}"
        );
    }

    #[test]
    fn shape_for_inverts() {
        for shape in [0.01, 0.3, 1.0, 7.0, 300.0_f64] {
            let gap = shape.ln() - digamma(shape);
            assert!((shape_for(gap) / shape - 1.0).abs() < 1e-9, "{shape}");
        }
        // ψ(1) = −γ and ψ′(1) = π²/6.
        let (gap, slope) = log_gap(1.0);
        assert!((gap - 0.577_215_664_901_532_9).abs() < 1e-11);
        assert!((1.0 - slope - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-10);
    }
}
