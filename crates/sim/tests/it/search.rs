//! Search sources as they ship, on a virtual clock.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_policy::agenda::rows::Settings;
use springtide_policy::query::{Method, Queries, Retrieval};
use springtide_policy::schedule::Quota;
use springtide_policy::{Objective, Rate, Span, Time, Weight};
use springtide_sim::search::{Asker, SearchBox, SearchWorld, Shipping, Stale, Start, run};

const SECOND: f64 = 1.0 / 86_400.0;

fn seconds(n: f64) -> Span {
    Span::days(n * SECOND).unwrap()
}

fn at(seconds: f64) -> Time {
    Time::from_days(seconds * SECOND).unwrap()
}

/// Rows that change once in so many seconds, the first of ten ten times as often.
fn world(n_rows: usize, every: f64, span: f64) -> SearchWorld {
    let rate = |row: usize| {
        let times = if row.is_multiple_of(10) { 10.0 } else { 1.0 };
        Rate::per_day(times / (every * SECOND)).unwrap()
    };
    let rates = (0..n_rows).map(rate).collect();
    SearchWorld::poisson(rates, vec![Weight::ONE; n_rows], span * SECOND, 7)
}

/// Queries for five rows each, taken at random: twice as many as it takes to have each row
/// once. Each finds so many rows on the server for one of ours.
fn queries(n_rows: u32, surplus: f64) -> Queries {
    let mut rng = Pcg64::seed_from_u64(3);
    let mut rows: Vec<u32> = (0..n_rows).collect();
    let mut all: Vec<Vec<u32>> = Vec::new();
    for _ in 0..2 {
        for last in (1..rows.len()).rev() {
            rows.swap(last, rng.random_range(0..=last));
        }
        all.extend(rows.chunks(5).map(<[u32]>::to_vec));
    }
    Queries::given(all.iter().map(|rows| (&rows[..], 5.0 * surplus)))
}

fn shipping() -> Shipping {
    Shipping {
        settings: Settings {
            pause: seconds(5.0),
            ..Settings::new(Retrieval::USUAL, Objective::Content)
        },
        server: SearchBox {
            limit: None,
            outages: Vec::new(),
            latency: seconds(0.3),
            tells_totals: true,
            seed: 1,
        },
        start: Start::InSync,
    }
}

fn n_requests(stale: &Stale) -> u64 {
    stale.n_asked.iter().sum::<u64>() + stale.n_by_id
}

fn ship(world: &SearchWorld, queries: &Queries, shipping: Shipping, per_second: f64) -> Stale {
    let asker = Asker::Shipping(Box::new(shipping));
    run(world, queries, &asker, per_second / SECOND, 10)
}

#[test]
fn a_quota_is_kept_and_spent_however_large_the_budget_is() {
    let (world, queries) = (world(60, 100.0, 600.0), queries(60, 1.0));
    let mut with_quota = shipping();
    with_quota.settings.quota = Some(Quota::new(4, seconds(2.0)));
    with_quota.server.limit = Some((4, seconds(2.0)));
    let stale = ship(&world, &queries, with_quota, 50.0);
    assert_eq!(stale.n_refused, 0);
    // Four in two seconds, but each counts for as long as it is on its way.
    let n = n_requests(&stale);
    assert!((950..=1200).contains(&n), "{n} requests");
    // Whoever does not know of the limit is refused again and again, and has to leave the
    // source alone: it is served far less often than it could be.
    let mut without = shipping();
    without.server.limit = Some((4, seconds(2.0)));
    let refused = ship(&world, &queries, without, 50.0);
    let n_served = n_requests(&refused) - refused.n_refused;
    assert!(n_served < n / 2, "{n_served} served");
    assert!(
        refused.mean > 2.0 * stale.mean,
        "{} {}",
        refused.mean,
        stale.mean
    );
}

#[test]
fn a_source_that_refuses_everything_is_asked_ever_more_seldom() {
    let (world, queries) = (world(60, 100.0, 700.0), queries(60, 1.0));
    let mut down = shipping();
    down.server.latency = seconds(0.01);
    down.server.outages = vec![(at(0.0), at(630.0))];
    let stale = ship(&world, &queries, down, 2.0);
    // After 0, 5, 15, … and 315 seconds; after 635 it answers.
    assert_eq!(stale.n_refused, 7);
    let n_answered = n_requests(&stale) - stale.n_refused;
    assert!((125..=135).contains(&n_answered), "{n_answered}");
}

#[test]
fn a_first_pass_has_every_row_once_by_queries_and_what_they_hide_by_ids() {
    let (world, queries) = (world(60, 1e5, 300.0), queries(60, 6.0));
    let mut cold = shipping();
    cold.start = Start::Cold;
    cold.settings.quota = Some(Quota::new(2, seconds(1.0)));
    // Of thirty results the first ten are shown, and nothing says that there are more.
    cold.settings.retrieval = Retrieval::new(10, 10, Method::AllPages).unwrap();
    cold.settings.has_by_id = true;
    let by_id = ship(&world, &queries, cold.clone(), 1e-4);
    let last = by_id.held_at.iter().copied().fold(0.0, f64::max) / SECOND;
    assert!(last < 40.0, "the last row came after {last} s");
    let n_asked: u64 = by_id.n_asked.iter().sum();
    assert!(n_asked > 5, "{n_asked} queries");
    assert!(by_id.n_by_id > 10, "{} by id", by_id.n_by_id);
    // By ids alone it would take a request for every row.
    assert!(n_requests(&by_id) < 60, "{} requests", n_requests(&by_id));
    // Without ids the rest is given up after a while, and the budget is for the others.
    cold.settings.has_by_id = false;
    let queries_only = ship(&world, &queries, cold, 1e-4);
    let n_held = queries_only
        .held_at
        .iter()
        .filter(|at| at.is_finite())
        .count();
    assert!((20..60).contains(&n_held), "{n_held} rows");
    assert!(
        n_requests(&queries_only) < 400,
        "{}",
        n_requests(&queries_only)
    );
}

#[test]
fn what_is_not_held_is_not_measured() {
    // Whatever changes before a row is had does not count.
    let (world, queries) = (world(60, 20.0, 600.0), queries(60, 1.0));
    let mut cold = shipping();
    cold.start = Start::Cold;
    cold.settings.quota = Some(Quota::new(1, seconds(5.0)));
    let stale = ship(&world, &queries, cold, 0.2);
    assert!(
        stale
            .held_at
            .iter()
            .all(|at| *at > 0.0 && *at < 200.0 * SECOND)
    );
    let warm = ship(&world, &queries, shipping(), 0.2);
    assert!(stale.mean < 1.3 * warm.mean, "{} {}", stale.mean, warm.mean);
}

#[test]
fn a_row_that_queries_hide_waits_no_longer_than_it_may() {
    let (world, queries) = (world(60, 1e4, 2000.0), queries(60, 1.0));
    // The last ten rows are in no query.
    let kept = (0..queries.len()).map(|query| {
        let rows = queries.rows(query).iter().copied();
        rows.filter(|row| *row < 50).collect::<Vec<u32>>()
    });
    let kept: Vec<Vec<u32>> = kept.filter(|rows| !rows.is_empty()).collect();
    let queries = Queries::given(kept.iter().map(|rows| (&rows[..], rows.len() as f64)));
    let mut overdue = shipping();
    overdue.settings.has_by_id = true;
    overdue.settings.max_interval = Some(seconds(100.0));
    // Nothing else makes anyone ask by id.
    overdue.settings.objective = Objective::Freshness;
    let stale = ship(&world, &queries, overdue.clone(), 0.5);
    // Ten rows twenty times, and others where a page is worth less than that.
    assert!((180..=500).contains(&stale.n_by_id), "{}", stale.n_by_id);
    overdue.settings.has_by_id = false;
    assert_eq!(ship(&world, &queries, overdue, 0.5).n_by_id, 0);
}

#[test]
fn what_ships_learns_nearly_as_much_as_it_takes() {
    let (world, queries) = (world(200, 500.0, 20_000.0), queries(200, 1.0));
    let round = Asker::InTurn((0..queries.len()).collect());
    let per_second = 1.0;
    let means = [round, Asker::Live]
        .map(|asker| run(&world, &queries, &asker, per_second / SECOND, 0).mean);
    let learned = ship(&world, &queries, shipping(), per_second);
    assert!((20_000..=20_001).contains(&n_requests(&learned)));
    let [round, known] = means;
    assert!(known < 0.9 * round, "{known} of {round}");
    assert!(learned.mean < 1.1 * known, "{} {known}", learned.mean);
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    let (world, queries) = (world(60, 50.0, 300.0), queries(60, 4.0));
    let mut all = shipping();
    all.start = Start::Cold;
    all.settings.quota = Some(Quota::new(3, seconds(1.0)));
    all.settings.has_by_id = true;
    all.server.outages = vec![(at(50.0), at(70.0))];
    all.server.tells_totals = false;
    let once = ship(&world, &queries, all.clone(), 1.0);
    assert_eq!(once, ship(&world, &queries, all.clone(), 1.0));
    all.server.seed = 2;
    assert_ne!(once, ship(&world, &queries, all, 1.0));
}
