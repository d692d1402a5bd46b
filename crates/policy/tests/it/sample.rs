//! What holds for any batch, whatever its polls show.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_policy::sample::{Sampler, Sampling, Settings, Subset};
use springtide_policy::{Element, ElementId, GroupId, Groups, Span, Time, Weight};

const POLICIES: [Sampling; 7] = [
    Sampling::RoundRobin,
    Sampling::Proportional,
    Sampling::Greedy,
    Sampling::Adaptive,
    Sampling::RoundRobinGreedy,
    Sampling::Frequency,
    Sampling::Oracle,
];

fn settings() -> impl Strategy<Value = Settings> {
    let subset = prop_oneof![
        Just(Subset::All),
        Just(Subset::Chosen),
        (0.0..=1.0).prop_map(Subset::Share)
    ];
    let size = prop_oneof![Just(None), (1..30_u32).prop_map(Some)];
    let numbers = (0.01..0.99, 1..20_u32, 0.05..=1.0, 0.0..=1.0);
    (subset, size, numbers).prop_map(|(subset, size, (confidence, step, cost, share))| {
        let settings = Settings::new(Span::days(7.0).unwrap())
            .and_then(|settings| settings.with_subset(subset))
            .and_then(|settings| settings.with_confidence(confidence))
            .and_then(|settings| settings.with_step(step))
            .and_then(|settings| settings.with_sample_cost(cost))
            .and_then(|settings| settings.with_share(share))
            .unwrap();
        size.map_or(settings, |size| settings.with_sample_size(size).unwrap())
    })
}

/// Sites by their number of elements, of any weights; the first is that of elements
/// without a group.
fn sampler(sampling: Sampling, settings: Settings, sizes: &[u32], rng: &mut Pcg64) -> Sampler {
    weighted(sampling, settings, sizes, || {
        f64::from(rng.random_range(0..4_u8))
    })
}

fn weighted(
    sampling: Sampling,
    settings: Settings,
    sizes: &[u32],
    mut weight: impl FnMut() -> f64,
) -> Sampler {
    let mut groups = Groups::new();
    for _ in sizes {
        groups.add(None);
    }
    let mut sampler = Sampler::new(sampling, settings, &groups);
    let mut ids = 0..;
    for (site, &size) in sizes.iter().enumerate() {
        for id in ids.by_ref().take(size as usize) {
            let element = Element {
                weight: Weight::new(weight()).unwrap(),
                group: site
                    .checked_sub(1)
                    .and_then(|site| GroupId::new(site as u32)),
                ..Element::default()
            };
            sampler.add(ElementId(id), &element, Time::START);
        }
    }
    sampler
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn batches_spend_their_budget_and_poll_nobody_twice(
        sizes in proptest::collection::vec(0..40_u32, 1..12),
        settings in settings(),
        budget in 0.0..300.0,
        share in 0.0..=1.0,
        seed in 0..1_000_u64,
    ) {
        for sampling in POLICIES {
            let mut rng = Pcg64::seed_from_u64(seed);
            let mut sampler = sampler(sampling, settings, &sizes, &mut rng);
            let n_elements: u32 = sizes.iter().sum();
            for cycle in 1..4 {
                let now = Time::from_days(f64::from(cycle)).unwrap();
                sampler.begin(budget, &mut rng);
                let mut polled = vec![false; n_elements as usize];
                let mut n_polls = 0;
                while let Some(id) = sampler.next(&mut rng) {
                    prop_assert!(!std::mem::replace(&mut polled[id.index()], true));
                    n_polls += 1;
                    sampler.observe(id, rng.random_bool(share), now);
                }
                // Samples may be cheap, so polls may outnumber the budget; it is
                // never less than spent while there are elements.
                prop_assert!(n_polls >= (budget as u32).min(n_elements), "{sampling:?}");
            }
        }
    }

    #[test]
    fn polls_at_full_cost_never_pass_the_budget(
        sizes in proptest::collection::vec(0..40_u32, 1..12),
        settings in settings(),
        budget in 0.0..300.0,
        seed in 0..1_000_u64,
    ) {
        let settings = settings.with_sample_cost(1.0).unwrap();
        for sampling in POLICIES {
            let mut rng = Pcg64::seed_from_u64(seed);
            let mut sampler = sampler(sampling, settings, &sizes, &mut rng);
            sampler.begin(budget, &mut rng);
            let mut n_polls = 0;
            while let Some(id) = sampler.next(&mut rng) {
                n_polls += 1;
                sampler.observe(id, rng.random(), Time::from_days(1.0).unwrap());
            }
            prop_assert_eq!(n_polls, (budget as u32).min(sizes.iter().sum()), "{:?}", sampling);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_polls(
        sizes in proptest::collection::vec(0..40_u32, 1..12),
        settings in settings(),
        budget in 0.0..300.0,
    ) {
        for sampling in POLICIES {
            let run = || {
                let mut rng = Pcg64::seed_from_u64(5);
                let mut sampler = sampler(sampling, settings, &sizes, &mut rng);
                sampler.begin(budget, &mut rng);
                let mut polled = Vec::new();
                while let Some(id) = sampler.next(&mut rng) {
                    polled.push(id);
                    sampler.observe(id, id.0 % 3 == 0, Time::from_days(1.0).unwrap());
                }
                polled
            };
            prop_assert_eq!(run(), run());
        }
    }

    #[test]
    fn sampled_sites_that_are_all_or_nothing_are_told_apart(
        sites in proptest::collection::vec(any::<bool>(), 2..12),
        sample_size in 1..5_u32,
    ) {
        // As many further polls as the changed sites have elements left.
        const SIZE: u32 = 30;
        let settings = Settings::new(Span::days(7.0).unwrap())
            .and_then(|settings| settings.with_subset(Subset::All))
            .and_then(|settings| settings.with_sample_size(sample_size))
            .unwrap();
        let n_changed = sites.iter().filter(|&&changed| changed).count() as u32;
        let n_sites = sites.len() as u32;
        let budget = n_changed * SIZE + (n_sites - n_changed) * sample_size;
        prop_assume!(budget < n_sites * SIZE);
        let mut rng = Pcg64::seed_from_u64(1);
        let mut sizes = vec![0];
        sizes.extend(sites.iter().map(|_| SIZE));
        let mut sampler = weighted(Sampling::Greedy, settings, &sizes, || 1.0);
        sampler.begin(f64::from(budget), &mut rng);
        let mut n_found = 0;
        while let Some(id) = sampler.next(&mut rng) {
            let changed = sites[id.index() / SIZE as usize];
            n_found += u32::from(changed);
            sampler.observe(id, changed, Time::from_days(7.0).unwrap());
        }
        prop_assert_eq!(n_found, n_changed * SIZE);
    }
}
