//! A world whose elements change together: sites with bursts, regimes and days.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use springtide_policy::{Element, Elements, GroupId, Groups};

use super::{Life, World};

/// The parameters of a correlated world.
///
/// Its sites differ in size and in rate, their directories and elements again in
/// rate. A part of all changes comes in bursts, which touch many elements of one
/// directory, or of the whole site, at the same hour. A site has regimes: for
/// months it may be several times busier or quieter. Changes follow the hours of
/// the day and the days of the week. Elements are born and die, and young ones
/// change more often.
///
/// The defaults give the statistics that two years of 29 real sites have: about
/// half of the changes in bursts, ten sampled elements that predict a site's month
/// far better than the site's last month, and rates over four decades.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Correlated {
    /// Days that it lasts.
    pub span_days: f64,
    /// How many sites there are.
    pub sites: usize,
    /// Elements of a site: the median, and the σ of their lognormal distribution.
    pub elements_per_site: f64,
    /// See [`elements_per_site`](Self::elements_per_site).
    pub site_size_sigma: f64,
    /// Elements of a directory, on average.
    pub elements_per_directory: f64,
    /// Changes per day of an element: the median, and the σ of lognormal
    /// distributions between sites, between directories of a site and between
    /// elements of a directory.
    pub rate_per_day: f64,
    /// See [`rate_per_day`](Self::rate_per_day).
    pub site_rate_sigma: f64,
    /// See [`rate_per_day`](Self::rate_per_day).
    pub directory_rate_sigma: f64,
    /// See [`rate_per_day`](Self::rate_per_day).
    pub element_rate_sigma: f64,
    /// The share of changes that come in bursts.
    pub burst_share: f64,
    /// The share of bursts that touch the whole site, not one directory.
    pub site_burst_share: f64,
    /// The share of elements that a burst touches, on average.
    pub burst_size: f64,
    /// Mean days from one regime of a site to the next; 0 for none.
    pub regime_days: f64,
    /// How many times busier, or quieter, a regime is: the σ of the logarithm.
    pub regime_sigma: f64,
    /// How much the rate swings over a day, from 0 (not at all) to 1.
    pub day_swing: f64,
    /// Changes at the weekend, as a share of those on other days.
    pub weekend: f64,
    /// Births per element and year, and deaths.
    pub births_per_year: f64,
    /// See [`births_per_year`](Self::births_per_year).
    pub deaths_per_year: f64,
    /// How many times more often an element changes in its first 90 days.
    pub young_factor: f64,
}

impl Default for Correlated {
    fn default() -> Self {
        Self {
            span_days: 730.0,
            sites: 30,
            elements_per_site: 500.0,
            site_size_sigma: 1.0,
            elements_per_directory: 25.0,
            rate_per_day: 0.004,
            site_rate_sigma: 1.2,
            directory_rate_sigma: 0.7,
            element_rate_sigma: 0.9,
            burst_share: 0.5,
            site_burst_share: 0.3,
            burst_size: 0.25,
            regime_days: 180.0,
            regime_sigma: 0.6,
            day_swing: 0.6,
            weekend: 0.4,
            births_per_year: 0.1,
            deaths_per_year: 0.06,
            young_factor: 2.0,
        }
    }
}

/// For how long an element is young.
const YOUTH_DAYS: f64 = 90.0;

/// What a machine of today can hold.
const MOST_ELEMENTS: f64 = 2e7;
const MOST_CHANGES: f64 = 1e8;

/// A parameter that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{name} is {value}; {wanted}")]
pub struct ParameterError {
    /// Which.
    pub name: &'static str,
    /// What it is.
    pub value: f64,
    /// What it should be.
    pub wanted: &'static str,
}

impl Correlated {
    /// Makes the world; the same seed makes the same.
    ///
    /// # Errors
    ///
    /// If a parameter makes no sense.
    pub fn world(&self, seed: u64) -> Result<World, ParameterError> {
        self.check()?;
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut made = Made::default();
        for _ in 0..self.sites {
            self.make_site(&mut made, &mut rng);
        }
        let Made {
            groups,
            elements,
            lives,
            mut changes,
        } = made;
        let mut starts = vec![0];
        let mut times = Vec::new();
        for (changes, life) in changes.iter_mut().zip(&lives) {
            changes.retain(|at| *at >= life.born && *at <= life.died);
            changes.sort_by(f64::total_cmp);
            changes.dedup();
            times.append(changes);
            starts.push(times.len());
        }
        Ok(World::recorded(
            elements.into_iter().collect::<Elements>(),
            groups,
            lives,
            (starts, times),
            self.span_days,
        ))
    }

    fn make_site(&self, made: &mut Made, rng: &mut Pcg64) {
        let site = made.groups.add(None);
        let size = self.elements_per_site * log_normal(self.site_size_sigma, rng);
        let n_start = size.round().max(1.0) as usize;
        let n_born = size * self.births_per_year * self.span_days / 365.25;
        let n_born = n_born.round() as usize;
        let n = n_start + n_born;
        let n_directories = (n as f64 / self.elements_per_directory).ceil().max(1.0) as usize;
        let directories: Vec<GroupId> = (0..n_directories)
            .map(|_| made.groups.add(Some(site)))
            .collect();
        let site_rate = self.rate_per_day * log_normal(self.site_rate_sigma, rng);
        let directory_rates: Vec<f64> = (0..n_directories)
            .map(|_| site_rate * log_normal(self.directory_rate_sigma, rng))
            .collect();

        let first = made.lives.len();
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); n_directories];
        let mut rates = Vec::with_capacity(n);
        for count in 0..n {
            let directory = rng.random_range(0..n_directories);
            let born = if count < n_start {
                0.0
            } else {
                rng.random_range(0.0..self.span_days)
            };
            let died = born + exponential(self.deaths_per_year / 365.25, rng);
            members[directory].push(first + count);
            rates.push(directory_rates[directory] * log_normal(self.element_rate_sigma, rng));
            made.lives.push(Life {
                born,
                died: if died > self.span_days {
                    f64::INFINITY
                } else {
                    died
                },
            });
            made.elements.push(Element {
                group: Some(directories[directory]),
                ..Element::default()
            });
            made.changes.push(Vec::new());
        }

        let regimes = self.regimes(rng);
        let busiest = regimes.iter().map(|&(_, busy)| busy).fold(0.0, f64::max);
        for (count, &rate) in rates.iter().enumerate() {
            let index = first + count;
            let born = made.lives[index].born;
            // Drawn at the highest rate there can be, then thinned.
            let most = rate * (1.0 - self.burst_share) * busiest * self.young_factor.max(1.0);
            let most = most * self.peak();
            let mut at = exponential(most, rng);
            while at < self.span_days {
                let young = if at - born < YOUTH_DAYS && born > 0.0 {
                    self.young_factor
                } else {
                    1.0
                };
                let share = busy_at(&regimes, at) / busiest * self.profile(at) / self.peak()
                    * young
                    / self.young_factor.max(1.0);
                if rng.random::<f64>() < share {
                    made.changes[index].push(at);
                }
                at += exponential(most, rng);
            }
        }
        self.burst(made, (first, &members, &rates), &regimes, rng);
    }

    /// The bursts of a site: each at one time, over one directory or all, an
    /// element taking part or not.
    fn burst(
        &self,
        made: &mut Made,
        (first, members, rates): (usize, &[Vec<usize>], &[f64]),
        regimes: &[(f64, f64)],
        rng: &mut Pcg64,
    ) {
        let busiest = regimes.iter().map(|&(_, busy)| busy).fold(0.0, f64::max);
        let total: f64 = rates.iter().sum();
        let everyone: Vec<usize> = (first..first + rates.len()).collect();
        let scope_of = |site: f64, directory: f64| {
            self.site_burst_share * site + (1.0 - self.site_burst_share) * directory
        };
        let directory_size = rates.len() as f64 / members.len() as f64;
        let touched = self.burst_size * scope_of(rates.len() as f64, directory_size);
        let most = self.burst_share * total / touched * busiest * self.peak();
        let mut at = exponential(most, rng);
        while at < self.span_days {
            let share = busy_at(regimes, at) / busiest * self.profile(at) / self.peak();
            if rng.random::<f64>() < share {
                let scope = if rng.random::<f64>() < self.site_burst_share {
                    &everyone
                } else {
                    // The busier a directory, the more of its site's bursts.
                    let mut left = rng.random::<f64>() * total;
                    let chosen = members.iter().find(|members| {
                        left -= members
                            .iter()
                            .map(|&index| rates[index - first])
                            .sum::<f64>();
                        left < 0.0
                    });
                    chosen.unwrap_or(&everyone)
                };
                // Some bursts are small, some touch nearly all.
                let size = rng
                    .random::<f64>()
                    .powf(1.0 / self.burst_size.max(1e-9) - 1.0);
                for &index in scope {
                    if rng.random::<f64>() < size {
                        made.changes[index].push(at);
                    }
                }
            }
            at += exponential(most, rng);
        }
    }

    /// When each regime of a site begins, and how busy it is.
    fn regimes(&self, rng: &mut Pcg64) -> Vec<(f64, f64)> {
        let mut regimes = vec![(0.0, log_normal(self.regime_sigma, rng))];
        if self.regime_days > 0.0 {
            let mut at = exponential(1.0 / self.regime_days, rng);
            while at < self.span_days {
                regimes.push((at, log_normal(self.regime_sigma, rng)));
                at += exponential(1.0 / self.regime_days, rng);
            }
        }
        regimes
    }

    /// How busy a moment of the week is, 1 on average.
    fn profile(&self, at: f64) -> f64 {
        let swing = 1.0 - self.day_swing * (at * std::f64::consts::TAU).cos();
        let day = if at.rem_euclid(7.0) < 5.0 {
            1.0
        } else {
            self.weekend
        };
        swing * day / self.mean_day()
    }

    fn peak(&self) -> f64 {
        (1.0 + self.day_swing) * self.weekend.max(1.0) / self.mean_day()
    }

    fn mean_day(&self) -> f64 {
        (5.0 + 2.0 * self.weekend) / 7.0
    }

    fn check(&self) -> Result<(), ParameterError> {
        const SHARE: &str = "it lies between 0 and 1";
        const SIGMA: &str = "it lies between 0 and 4";
        const A_YEAR: &str = "it lies between 0 and 50";
        // Name, value, from and to, in words. What lies beyond is no world that
        // anybody has seen, and may not fit into memory.
        let limits = [
            (
                "span_days",
                self.span_days,
                1e-3,
                1e5,
                "it is above 0 and at most 100000",
            ),
            (
                "sites",
                self.sites as f64,
                1.0,
                1e6,
                "it is at least 1 and at most 1000000",
            ),
            (
                "elements_per_site",
                self.elements_per_site,
                1.0,
                1e7,
                "it is at least 1 and at most 10000000",
            ),
            ("site_size_sigma", self.site_size_sigma, 0.0, 4.0, SIGMA),
            (
                "elements_per_directory",
                self.elements_per_directory,
                1.0,
                1e9,
                "it is at least 1",
            ),
            (
                "rate_per_day",
                self.rate_per_day,
                0.0,
                1e4,
                "it lies between 0 and 10000",
            ),
            ("site_rate_sigma", self.site_rate_sigma, 0.0, 4.0, SIGMA),
            (
                "directory_rate_sigma",
                self.directory_rate_sigma,
                0.0,
                4.0,
                SIGMA,
            ),
            (
                "element_rate_sigma",
                self.element_rate_sigma,
                0.0,
                4.0,
                SIGMA,
            ),
            ("burst_share", self.burst_share, 0.0, 1.0, SHARE),
            ("site_burst_share", self.site_burst_share, 0.0, 1.0, SHARE),
            (
                "burst_size",
                self.burst_size,
                1e-3,
                1.0,
                "it is at least 0.001 and at most 1",
            ),
            ("regime_sigma", self.regime_sigma, 0.0, 4.0, SIGMA),
            ("day_swing", self.day_swing, 0.0, 1.0, SHARE),
            (
                "weekend",
                self.weekend,
                0.0,
                10.0,
                "it lies between 0 and 10",
            ),
            ("births_per_year", self.births_per_year, 0.0, 50.0, A_YEAR),
            ("deaths_per_year", self.deaths_per_year, 0.0, 50.0, A_YEAR),
            (
                "young_factor",
                self.young_factor,
                0.0,
                50.0,
                "it lies between 0 and 50",
            ),
        ];
        let outside = limits
            .into_iter()
            .find(|&(_, value, from, to, _)| !(from..=to).contains(&value));
        if let Some((name, value, _, _, wanted)) = outside {
            return Err(ParameterError {
                name,
                value,
                wanted,
            });
        }
        let refuse = |name, value, wanted| {
            Err(ParameterError {
                name,
                value,
                wanted,
            })
        };
        if self.regime_days != 0.0 && !(0.1..=1e9).contains(&self.regime_days) {
            return refuse(
                "regime_days",
                self.regime_days,
                "it is 0 for none, or at least 0.1",
            );
        }
        // Means of lognormal distributions are e^(σ²/2) times their medians.
        let swollen = |sigmas: &[f64]| sigmas.iter().map(|s| s * s / 2.0).sum::<f64>().exp();
        let births = 1.0 + self.births_per_year * self.span_days / 365.25;
        let size = self.elements_per_site * swollen(&[self.site_size_sigma]) * births;
        let n = self.sites as f64 * size;
        if n > MOST_ELEMENTS {
            let wanted = "that makes more elements than fit in memory";
            return refuse("elements_per_site", self.elements_per_site, wanted);
        }
        let rates = [
            self.site_rate_sigma,
            self.directory_rate_sigma,
            self.element_rate_sigma,
            self.regime_sigma,
        ];
        let rate = self.rate_per_day * swollen(&rates) * self.young_factor.max(1.0);
        if n * rate * self.span_days > MOST_CHANGES {
            let wanted = "that makes more changes than fit in memory";
            return refuse("rate_per_day", self.rate_per_day, wanted);
        }
        Ok(())
    }
}

#[derive(Default)]
struct Made {
    groups: Groups,
    elements: Vec<Element>,
    lives: Vec<Life>,
    changes: Vec<Vec<f64>>,
}

fn busy_at(regimes: &[(f64, f64)], at: f64) -> f64 {
    let after = regimes.partition_point(|&(begin, _)| begin <= at);
    regimes[after - 1].1
}

fn log_normal(sigma: f64, rng: &mut Pcg64) -> f64 {
    let normal: f64 = StandardNormal.sample(rng);
    (sigma * normal).exp()
}

/// The time to the next event at this rate; infinite at rate zero.
fn exponential(rate: f64, rng: &mut Pcg64) -> f64 {
    -(1.0 - rng.random::<f64>()).ln() / rate.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Correlated {
        Correlated {
            sites: 10,
            elements_per_site: 200.0,
            ..Correlated::default()
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_world() {
        let changes = |seed| {
            let world = small().world(seed).unwrap();
            (0..world.n_elements())
                .flat_map(|index| world.changes(index).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        assert_eq!(changes(1), changes(1));
        assert_ne!(changes(1), changes(2));
    }

    #[test]
    fn changes_fall_within_a_life_and_rise() {
        let world = small().world(3).unwrap();
        for index in 0..world.n_elements() {
            let life = world.life(index);
            let changes: Vec<_> = world.changes(index).collect();
            assert!(changes.is_sorted());
            assert!(changes.iter().all(|&at| life.born <= at && at <= life.died));
        }
    }

    #[test]
    fn about_the_asked_share_of_changes_comes_in_bursts() {
        let world = small().world(5).unwrap();
        let mut times: Vec<_> = (0..world.n_elements())
            .flat_map(|index| world.changes(index).collect::<Vec<_>>())
            .collect();
        times.sort_by(f64::total_cmp);
        let shared = times
            .chunk_by(|a, b| a == b)
            .filter(|same| same.len() > 1)
            .map(<[f64]>::len)
            .sum::<usize>();
        let share = shared as f64 / times.len() as f64;
        assert!((share - 0.5).abs() < 0.2, "{share}");
    }

    #[test]
    fn parameters_without_sense_are_refused() {
        let error = Correlated {
            burst_share: 1.5,
            ..Correlated::default()
        };
        assert_eq!(
            error.world(1).unwrap_err().to_string(),
            "burst_share is 1.5; it lies between 0 and 1"
        );
        let huge = Correlated {
            sites: 1_000_000,
            ..Correlated::default()
        };
        assert!(huge.world(1).is_err());
    }
}
