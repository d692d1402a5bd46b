//! Draws the figures of `docs/concepts` into a folder.
//!
//! `cargo run --release -p springtide-sim --example concept_figures docs/concepts`
//!
//! Every world is made here from a seed, so the same code draws the same figures.

use std::error::Error;
use std::path::Path;

use springtide_policy::agenda::FirstPolls;
use springtide_policy::freshness::expected_freshness;
use springtide_policy::in_use::InUse;
use springtide_policy::plan::{Candidates, Policy, Rule, RulePolicy};
use springtide_policy::report::report;
use springtide_policy::sample::{Sampling, Settings};
use springtide_policy::schedule::{Choice, Terms};
use springtide_policy::value::PollValue;
use springtide_policy::{
    Budget, Element, Elements, Frequency, Groups, Objective, Order, Rate, Span,
};
use springtide_sim::figure::{Axis, Figure, Mark};
use springtide_sim::table::{By, TableMeasures, TableSetup, TableWorld};
use springtide_sim::world::{Correlated, World};
use springtide_sim::{Measures, Polled, Setup, Start, compare, run};

const SEED: u64 = 7;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let folder = std::env::args().nth(1).ok_or("name a folder")?;
    let figures = [
        ("sawtooth", sawtooth()?),
        ("spacing", spacing()?),
        ("two-elements", two_elements()?),
        ("value", value()?),
        ("frequency", frequency()?),
        ("ten-elements", ten_elements()?),
        ("burst", burst()?),
        ("change-ratio", change_ratio()?),
        ("learned", learned()?),
        ("first-hours", first_hours()?),
        ("tables", tables()?),
    ];
    for (name, figure) in figures {
        let path = Path::new(&folder).join(format!("{name}.svg"));
        std::fs::write(path, figure.svg())?;
    }
    Ok(())
}

/// One copy over twelve days: what happens to its age.
fn sawtooth() -> Outcome<Figure> {
    const SPAN: f64 = 12.0;
    let changes = vec![0.8, 2.6, 3.4, 8.9, 9.3, 11.4];
    let world = World::recorded(
        [Element::default()].into_iter().collect(),
        Groups::new(),
        Vec::new(),
        (vec![0, changes.len()], changes.clone()),
        SPAN,
    );
    let mut polls = Vec::new();
    run(
        &world,
        &setup(planned(&world, Rule::Uniform), 1.0 / 3.0, 0.0)?,
        &mut |Polled { at, .. }| polls.push(at),
    );
    let mut age = vec![(0.0, 0.0)];
    let mut dots = Vec::new();
    let mut in_sync = 0.0;
    for &poll in polls.iter().chain([&SPAN]) {
        let missed = changes.iter().filter(|&&at| at > in_sync && at <= poll);
        let first = missed.clone().copied().next().unwrap_or(poll);
        dots.extend(missed.map(|&at| (at, at - first)));
        age.extend([(first, 0.0), (poll, poll - first)]);
        if poll < SPAN {
            age.push((poll, 0.0));
        }
        in_sync = poll;
    }
    Ok(Figure::new(
        "One copy: fresh until the first change after a poll",
        Axis::linear("days").between(0.0, SPAN),
        Axis::linear("age of the copy, days"),
    )
    .with("age", Mark::Line, age)
    .with("a change", Mark::Dots, dots)
    .with("a poll", Mark::Dots, polls.iter().map(|&at| (at, 0.0))))
}

/// What even spacing is worth: formulas as lines, the simulator as dots.
fn spacing() -> Outcome<Figure> {
    let orders = [
        ("evenly spaced", Order::Fixed),
        ("once a round, at any place in it", Order::Random),
        ("at any time", Order::PurelyRandom),
    ];
    let mut figure = Figure::new(
        "The same number of polls, spaced in three ways",
        Axis::log("polls per change").between(0.1, 10.0),
        Axis::linear("freshness").between(0.0, 1.0),
    );
    for (name, order) in orders {
        let points = curve(0.1, 10.0)
            .map(|polls| {
                let frequency = Frequency::per_day(polls)?;
                Ok((polls, expected_freshness(per_day(1.0)?, frequency, order)))
            })
            .collect::<Outcome<Vec<_>>>()?;
        figure = figure.with(name, Mark::Line, points);
    }
    let mut simulated = Vec::new();
    for (_, order) in orders {
        for polls in [0.2, 0.5, 1.0, 2.0, 5.0] {
            let elements = (0..200).map(|_| Element::default()).collect::<Elements>();
            let rates = vec![per_day(1.0)?; 200];
            let world = World::poisson(elements, Groups::new(), rates, 200.0, SEED);
            let choice = Choice::Planned {
                rule: Rule::Uniform,
                order,
                rates: world.rates(),
            };
            let measured = run(
                &world,
                &setup(choice, 200.0 * polls, 10.0)?,
                &mut |_: Polled| {},
            );
            simulated.push((polls, measured.all.freshness));
        }
    }
    Ok(figure.with("simulated", Mark::Dots, simulated))
}

/// A page that changes nine times a day and one that changes once.
fn two_elements() -> Outcome<Figure> {
    let rates = [per_day(9.0)?, per_day(1.0)?];
    let candidates = Candidates::new(&rates)?;
    let mut figure = Figure::new(
        "Two elements, changing nine times a day and once: what a budget buys",
        Axis::log("budget: polls a day, both together").between(0.3, 100.0),
        Axis::linear("freshness").between(0.0, 1.0),
    );
    for (name, rule) in [
        ("optimal", Rule::Optimal(Objective::Freshness)),
        ("uniform", Rule::Uniform),
        ("proportional to the rates", Rule::Proportional),
    ] {
        let points = curve(0.3, 100.0)
            .map(|budget| {
                let plan = RulePolicy::new(rule).plan(&candidates, &Budget::per_day(budget)?);
                let report = report(&plan, &candidates, Order::Fixed);
                Ok((budget, report.freshness))
            })
            .collect::<Outcome<Vec<_>>>()?;
        figure = figure.with(name, Mark::Line, points);
    }
    Ok(figure)
}

/// The price at which the figures about it look.
const PRICE: f64 = 0.25;

/// What a poll is worth, the longer the last one is ago.
fn value() -> Outcome<Figure> {
    let mut figure = Figure::new(
        "What a poll is worth, and when it reaches the price",
        Axis::linear("days since the last poll").between(0.0, 4.0),
        Axis::linear("value of a poll, days of freshness").between(0.0, 1.0),
    );
    let mut due = Vec::new();
    for (name, rate) in [
        ("changes once in 5 days", 0.2),
        ("once a day", 1.0),
        ("5 times a day", 5.0),
    ] {
        let value = PollValue::known(Objective::Freshness, per_day(rate)?);
        let points = (0..=200)
            .map(|step| {
                let days = f64::from(step) / 50.0;
                Ok((days, value.after(Span::days(days)?)))
            })
            .collect::<Outcome<Vec<_>>>()?;
        figure = figure.with(name, Mark::Line, points);
        due.extend(value.reaches(PRICE).map(|span| (span.as_days(), PRICE)));
    }
    Ok(figure
        .with("the price", Mark::Dashed, [(0.0, PRICE), (4.0, PRICE)])
        .with("due", Mark::Dots, due))
}

/// How often elements are polled at one price, by how often they change.
fn frequency() -> Outcome<Figure> {
    let mut figure = Figure::new(
        "Polls of an element, by how often it changes, at one price each",
        Axis::log("changes a day").between(0.01, 10.0),
        Axis::linear("polls a day").between(0.0, 1.5),
    );
    for (name, objective, price) in [
        ("for freshness", Objective::Freshness, PRICE),
        ("for age", Objective::Age, PRICE),
    ] {
        let points = (0..=600)
            .map(|step| {
                let rate = 0.01 * 1000_f64.powf(f64::from(step) / 600.0);
                let reaches = PollValue::known(objective, per_day(rate)?).reaches(price);
                Ok((rate, reaches.map_or(0.0, |span| 1.0 / span.as_days())))
            })
            .collect::<Outcome<Vec<_>>>()?;
        figure = figure.with(name, Mark::Line, points);
    }
    let proportional = curve(0.01, 10.0).map(|rate| (rate, rate));
    Ok(figure.with("proportional", Mark::Dashed, proportional))
}

/// How well ten elements, and how well the month before, tell what share of a site
/// changes in a month.
fn ten_elements() -> Outcome<Figure> {
    const MONTH: f64 = 30.0;
    const N_MONTHS: usize = 24;
    let world = Correlated {
        births_per_year: 0.0,
        deaths_per_year: 0.0,
        ..correlated()
    }
    .world(SEED)?;
    // Whether each element changed in each month, by site.
    let mut sites: Vec<Vec<[bool; N_MONTHS]>> = vec![Vec::new(); world.groups().len()];
    for index in 0..world.n_elements() {
        let mut months = [false; N_MONTHS];
        for at in world.changes(index) {
            if let Some(month) = months.get_mut((at / MONTH) as usize) {
                *month = true;
            }
        }
        sites[site(&world, index)].push(months);
    }
    let (mut sampled, mut before) = (Vec::new(), Vec::new());
    for elements in sites.iter().filter(|elements| elements.len() > 50) {
        let share = |elements: &mut dyn Iterator<Item = &[bool; N_MONTHS]>, month: usize| {
            let (n, n_changed) = elements.fold((0.0, 0.0), |(n, n_changed), months| {
                (n + 1.0, n_changed + f64::from(u8::from(months[month])))
            });
            n_changed / n
        };
        // Elements come in no order, so every so-and-so-many-th is a sample.
        let every = elements.len() / 10;
        for month in 1..N_MONTHS {
            let ten = share(&mut elements.iter().step_by(every).take(10), month);
            let last = share(&mut elements.iter(), month - 1);
            let all = share(&mut elements.iter(), month);
            sampled.push((ten, all));
            before.push((last, all));
        }
    }
    let name = |what: &str, points: &[(f64, f64)]| format!("{what}: R² {:.2}", explained(points));
    Ok(Figure::new(
        "What tells how much of a site changes this month?",
        Axis::linear("share told").between(0.0, 1.0),
        Axis::linear("share of all elements that changed").between(0.0, 1.0),
    )
    .with(
        name("the month before, all elements", &before),
        Mark::Dots,
        before,
    )
    .with(
        name("this month, ten elements", &sampled),
        Mark::Dots,
        sampled,
    ))
}

/// The share of the variance of the second that is explained by taking it for the
/// first.
fn explained(points: &[(f64, f64)]) -> f64 {
    let mean = points.iter().map(|&(_, y)| y).sum::<f64>() / points.len() as f64;
    let left: f64 = points.iter().map(|&(x, y)| (y - x) * (y - x)).sum();
    let all: f64 = points.iter().map(|&(_, y)| (y - mean) * (y - mean)).sum();
    1.0 - left / all
}

/// Two sites alike, until one of them is rewritten for twelve days.
fn burst() -> Outcome<Figure> {
    const PER_SITE: usize = 500;
    const SPAN: f64 = 160.0;
    const REWRITE: (f64, f64) = (100.0, 112.0);
    // Changes once in fifty days, and in the rewrite ten times as often.
    let usual = World::poisson(
        (0..2 * PER_SITE).map(|_| Element::default()).collect(),
        Groups::new(),
        vec![per_day(0.02)?; 2 * PER_SITE],
        SPAN + 9.0 * (REWRITE.1 - REWRITE.0),
        SEED,
    );
    let mut groups = Groups::new();
    let sites = [groups.add(None), groups.add(None)];
    let elements: Elements = (0..2 * PER_SITE)
        .map(|index| Element {
            group: Some(sites[index % 2]),
            ..Element::default()
        })
        .collect();
    let (mut starts, mut times) = (vec![0], Vec::new());
    for index in 0..2 * PER_SITE {
        // The rewritten site lives through those days at ten times the speed.
        let squeeze = |at: f64| match at - REWRITE.0 {
            _ if index % 2 == 1 => at,
            since if since <= 0.0 => at,
            since if since <= 10.0 * (REWRITE.1 - REWRITE.0) => REWRITE.0 + since / 10.0,
            _ => at - 9.0 * (REWRITE.1 - REWRITE.0),
        };
        times.extend(usual.changes(index).map(squeeze).filter(|&at| at <= SPAN));
        starts.push(times.len());
    }
    let world = World::recorded(elements, groups, Vec::new(), (starts, times), SPAN);

    const N_BINS: usize = 40;
    const BIN: f64 = SPAN / N_BINS as f64;
    let mut polls = [[0.0; N_BINS]; 2];
    let setup = setup(Choice::Learned, 100.0, 0.0)?;
    run(&world, &setup, &mut |Polled { at, element, .. }| {
        if let Some(n) = polls[element % 2].get_mut((at / BIN) as usize) {
            *n += 1.0 / BIN;
        }
    });
    let mut changes = [0.0; N_BINS];
    for index in (0..2 * PER_SITE).step_by(2) {
        for at in world.changes(index) {
            if let Some(n) = changes.get_mut((at / BIN) as usize) {
                *n += 1.0 / BIN;
            }
        }
    }
    let steps = |counts: [f64; N_BINS]| {
        let points = counts.into_iter().enumerate();
        let points = points.map(|(place, n)| (BIN * place as f64, n)).skip(15);
        points.chain([(SPAN, counts[N_BINS - 1])])
    };
    Ok(Figure::new(
        "One of two sites is rewritten from day 100 to day 112",
        Axis::linear("day").between(60.0, SPAN),
        Axis::linear("a day").between(0.0, 120.0),
    )
    .with("its changes", Mark::Steps, steps(changes))
    .with("polls of it", Mark::Steps, steps(polls[0]))
    .with("polls of the other", Mark::Steps, steps(polls[1])))
}

/// Two measures of the same policies.
fn change_ratio() -> Outcome<Figure> {
    // Twenty sites; those of each change a third more often than those of the last,
    // from once a year to six times a week.
    const PER_SITE: usize = 100;
    let mut groups = Groups::new();
    let (mut elements, mut rates) = (Vec::new(), Vec::new());
    for site in 0..20 {
        let group = Some(groups.add(None));
        let rate = per_day(1.35_f64.powi(site) / 365.25)?;
        for _ in 0..PER_SITE {
            elements.push(Element {
                group,
                ..Element::default()
            });
            rates.push(rate);
        }
    }
    let elements = elements.into_iter().collect();
    let world = World::poisson(elements, groups, rates, 730.0, SEED);
    let settings = Settings::new(Span::days(30.0)?)?;
    let sampled = |sampling| Choice::Sampled(sampling, settings);
    let policies = [
        ("round-robin", sampled(Sampling::RoundRobin)),
        ("sample-greedy", sampled(Sampling::Greedy)),
        ("sample-adaptive", sampled(Sampling::Adaptive)),
        ("frequency", sampled(Sampling::Frequency)),
        ("oracle", sampled(Sampling::Oracle)),
        ("uniform", planned(&world, Rule::Uniform)),
        ("learned", Choice::Learned),
    ];
    let names = policies.clone().map(|(name, _)| name);
    let measured = measure(&world, 90.0, policies.map(|(_, choice)| choice))?;
    let bars = |of: fn(&Measures) -> f64| {
        let places = (0..).map(f64::from);
        places.zip(measured.iter().map(of)).collect::<Vec<_>>()
    };
    Ok(Figure::new(
        "Finding changes is not being fresh: one poll per element in 90 days",
        Axis::names("", names),
        Axis::linear("share").between(0.0, 1.0),
    )
    .with("ChangeRatio", Mark::Bars, bars(|m| m.change_ratio))
    .with("freshness", Mark::Bars, bars(|m| m.freshness)))
}

/// What is left stale by policies that start without knowing anything.
fn learned() -> Outcome<Figure> {
    let world = correlated().world(SEED)?;
    let policies = [
        ("learned", Choice::Learned),
        ("stormcrawler", Choice::InUse(InUse::StormCrawler)),
        (
            "optimal, rates known",
            planned(&world, Rule::Optimal(Objective::Freshness)),
        ),
    ];
    let mut points = vec![Vec::new(); policies.len()];
    for every in [4.0, 7.0, 14.0, 30.0, 60.0, 120.0] {
        let choices = policies.clone().map(|(_, choice)| choice);
        let uniform = measure(&world, every, [planned(&world, Rule::Uniform)])?;
        let uniform = 1.0 - uniform[0].freshness;
        for (points, measured) in points.iter_mut().zip(measure(&world, every, choices)?) {
            points.push((every, (1.0 - measured.freshness) / uniform));
        }
    }
    let mut figure = Figure::new(
        "What is left stale, as a share of what uniform polling leaves",
        Axis::log("days per poll and element: a small budget is to the right").between(4.0, 120.0),
        Axis::linear("staleness, uniform = 1").between(0.4, 1.4),
    );
    for ((name, _), points) in policies.into_iter().zip(points) {
        figure = figure.with(name, Mark::Line, points);
    }
    Ok(figure.with("uniform", Mark::Dashed, [(4.0, 1.0), (120.0, 1.0)]))
}

/// How fresh copies are after a first pass, of pages that nothing is known of.
fn first_hours() -> Outcome<Figure> {
    const RATES: [f64; 5] = [4320.0, 1440.0, 288.0, 24.0, 0.0];
    const N: usize = 1200;
    const HOUR: f64 = 1.0 / 24.0;
    const HOURS: f64 = 12.0;
    const MOMENTS: usize = 240;
    const WORLDS: u64 = 8;
    let hours = |moment: usize| HOURS * moment as f64 / MOMENTS as f64;
    let mut fresh = [[0.0; MOMENTS + 1]; 3];
    for seed in 0..WORLDS {
        let mut groups = Groups::new();
        let group = Some(groups.add(None));
        let element = Element {
            group,
            ..Element::default()
        };
        let rates = RATES.into_iter().cycle().take(N).map(per_day);
        let world = World::poisson(
            (0..N).map(|_| element).collect(),
            groups,
            rates.collect::<Outcome<Vec<_>>>()?,
            HOURS * HOUR,
            SEED + seed,
        );
        let choices = [
            Choice::Learned,
            planned(&world, Rule::Uniform),
            planned(&world, Rule::Optimal(Objective::Freshness)),
        ];
        for (fresh, choice) in fresh.iter_mut().zip(choices) {
            let setup = Setup {
                start: Start::Cold(FirstPolls::Free),
                ..setup(choice, 40_000.0, 0.0)?
            };
            // The first pass is over at once.
            let mut polls = vec![vec![0.0]; N];
            run(&world, &setup, &mut |polled| {
                polls[polled.element].push(polled.at);
            });
            for (index, polls) in polls.iter().enumerate() {
                let changes: Vec<f64> = world.changes(index).collect();
                for (moment, fresh) in fresh.iter_mut().enumerate() {
                    let at = hours(moment) * HOUR;
                    let last = |times: &[f64]| {
                        let n = times.partition_point(|&time| time <= at);
                        n.checked_sub(1).map(|place| times[place])
                    };
                    if last(&changes) <= last(polls) {
                        *fresh += 1.0 / (N as u64 * WORLDS) as f64;
                    }
                }
            }
        }
    }
    let mut figure = Figure::new(
        "1,200 pages that nothing is known of, after a first pass",
        Axis::linear("hours; the budget pays for one poll of each in 43 minutes")
            .between(0.0, HOURS),
        Axis::linear("share of copies that are fresh").between(0.2, 0.6),
    );
    let marks = [
        ("learned", Mark::Line),
        ("uniform", Mark::Dashed),
        ("optimal, rates known", Mark::Line),
    ];
    for ((name, mark), fresh) in marks.into_iter().zip(fresh) {
        let points = fresh.into_iter().enumerate();
        let points = points.map(|(moment, fresh)| (hours(moment), fresh));
        figure = figure.with(name, mark, points);
    }
    Ok(figure)
}

/// What is left stale of a table's rows, by budget and by how its copy is kept.
fn tables() -> Outcome<Figure> {
    let world = TableWorld::default();
    let history = world.history(SEED)?;
    let learned = |digests, cursor| By::Learned { digests, cursor };
    let ways = [
        ("blocks in turn", By::Uniform),
        ("learned", learned(false, false)),
        ("learned, with digests", learned(true, false)),
        ("learned, with a cursor", learned(false, true)),
        ("the cursor alone", By::CursorOnly),
    ];
    let setup = |by, budget| -> Outcome<TableSetup> {
        Ok(TableSetup {
            by,
            terms: Terms::new(Budget::per_day(budget)?),
            warmup: world.span_days / 3.0,
            seed: SEED,
        })
    };
    let mut figure = Figure::new(
        "A table with a hot end, a hot range and deletes",
        Axis::log("statements a day").between(40.0, 500.0),
        Axis::linear("rows that are stale, per cent").between(0.0, 7.0),
    );
    for (name, by) in ways {
        let budgets = [40.0, 60.0, 100.0, 150.0, 200.0, 300.0, 500.0];
        let setups = budgets.map(|budget| setup(by, budget));
        let setups = setups.into_iter().collect::<Outcome<Vec<_>>>()?;
        let measured = history.compare(&setups);
        let stale = |m: &TableMeasures| 100.0 * (1.0 - m.of_rows.freshness);
        let points = budgets.into_iter().zip(measured.iter().map(stale));
        figure = figure.with(name, Mark::Line, points);
    }
    // It keeps to no budget: it is where it is.
    let nightly = history.run(&setup(By::FullCopy, 1.0)?).of_rows;
    let per_day = nightly.n_polls as f64 / world.span_days;
    let stale = 100.0 * (1.0 - nightly.freshness);
    Ok(figure.with("all of it every night", Mark::Dots, [(per_day, stale)]))
}

/// Runs policies with a budget of one poll per element in so many days.
fn measure<const N: usize>(
    world: &World,
    every: f64,
    choices: [Choice; N],
) -> Outcome<Vec<Measures>> {
    let budget = world.n_elements() as f64 / every;
    let warmup = world.span() / 3.0;
    let setups = choices.map(|choice| setup(choice, budget, warmup));
    let setups = setups.into_iter().collect::<Outcome<Vec<_>>>()?;
    let outcomes = compare(world, &setups, &|_| {});
    Ok(outcomes.into_iter().map(|outcome| outcome.all).collect())
}

/// A world like that of two years of real sites, and smaller.
fn correlated() -> Correlated {
    Correlated {
        sites: 20,
        elements_per_site: 150.0,
        ..Correlated::default()
    }
}

fn site(world: &World, index: usize) -> usize {
    let group = world.element(index).group.expect("all are in a group");
    world.groups().outermost(group).number() as usize
}

fn setup(choice: Choice, budget: f64, warmup: f64) -> Outcome<Setup> {
    Ok(Setup {
        choice,
        terms: Terms::new(Budget::per_day(budget)?),
        warmup,
        seed: SEED,
        last_modified: 0.0,
        hints: None,
        parts: None,
        start: Start::Warm,
        later_budgets: Vec::new(),
    })
}

fn planned(world: &World, rule: Rule) -> Choice {
    Choice::Planned {
        rule,
        order: Order::Fixed,
        rates: world.rates(),
    }
}

fn per_day(changes: f64) -> Outcome<Rate> {
    Ok(Rate::per_day(changes)?)
}

/// Points from here to there, evenly in the logarithm.
fn curve(least: f64, most: f64) -> impl Iterator<Item = f64> {
    (0..=100).map(move |step| least * (most / least).powf(f64::from(step) / 100.0))
}
