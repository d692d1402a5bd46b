//! `springtide simulate`: what each policy would achieve, in a world that changes.

mod table;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use springtide_policy::agenda::FirstPolls;
use springtide_policy::in_use::InUse;
use springtide_policy::plan::Rule;
use springtide_policy::sample::{Sampling, Settings};
use springtide_policy::schedule::{Choice, Terms};
use springtide_policy::{Budget, Caps, Elements, Groups, Objective, Order, Span};
use springtide_sim::world::{Correlated, World};
use springtide_sim::{Hints, Measures, Outcomes, Parts, Setup, Start, compare};

use crate::args::{
    self, Breakdown, FirstPassName, Pages, SamplingArgs, SimPolicy, StartName, name_of,
};
use crate::failure::{Failure, Outcome};
use crate::history::History;
use crate::json::print_json;
use crate::moment::brief;
use crate::rates::RateTable;
use crate::table::{Input, unwritable};
use crate::talk::{Talk, count, percent};

/// How long a world lasts that does not say.
const SPAN_DAYS: f64 = 365.0;
/// From batch to batch, if nobody says.
const CYCLE_DAYS: f64 = 30.0;

pub(crate) fn run(args: &args::Simulate, talk: Talk) -> Outcome<()> {
    refuse_nonsense(args)?;
    let parameters = match &args.world.world {
        Some(path) => Some((path.as_path(), read_text(path)?)),
        None => None,
    };
    if let Some((path, text)) = &parameters
        && let Some(world) = table::world(path, text)?
    {
        return table::run(world, path, args, talk);
    }
    if let Some(&policy) = (args.policy.iter()).find(|&&policy| table::is_for_tables(policy)) {
        let what = format!("--policy {} is for tables", name_of(policy));
        return Err(Failure::input(what).hint("give a --world whose kind is \"table\""));
    }
    let Made { world, caps, names } = make_world(args, parameters, talk)?;
    let warmup = args.warmup.map_or(0.0, Span::as_days);
    refuse_all_warmup(warmup, world.span())?;
    refuse_too_much(args, &world)?;
    let budget = |per_day| -> Outcome<Budget> {
        let budget = Budget::per_day(per_day)
            .map_err(|error| Failure::input("bad --budget").cause(error))?;
        Ok(budget.with_caps(caps.clone()))
    };
    let later_budgets = args
        .budget
        .later
        .iter()
        .map(|&(from, per_day)| Ok((from, budget(per_day)?)))
        .collect::<Outcome<Vec<_>>>()?;
    let budget = budget(args.budget.per_day)?;
    let terms = Terms {
        max_interval: args.max_interval,
        window: args.window,
        ..Terms::new(budget)
    };
    let broken_down = args.breakdown.map(|by| break_down(&world, by, &names));
    let setups = args
        .policy
        .iter()
        .map(|&policy| {
            Ok(Setup {
                choice: choice(policy, args, &world)?,
                terms: terms.clone(),
                warmup,
                seed: args.seed,
                last_modified: args.last_modified.unwrap_or(0.0),
                hints: args.hints.map(|hints| Hints {
                    precision: hints.precision,
                    recall: hints.recall,
                    delay: hints.delay.as_days(),
                }),
                parts: broken_down.as_ref().map(|(_, parts)| parts.clone()),
                start: start(args),
                later_budgets: later_budgets.clone(),
            })
        })
        .collect::<Outcome<Vec<_>>>()?;

    let n_polls = args.budget.mean(world.span()) * world.span() * setups.len() as f64;
    let running = talk.progress("polling", Some(n_polls as u64));
    let outcomes = compare(&world, &setups, &|n_polls| running.advance(n_polls));
    drop(running);

    let labels = broken_down.as_ref().map(|(labels, _)| labels.as_slice());
    let rows: Vec<Row> = args
        .policy
        .iter()
        .zip(&outcomes)
        .map(|(&policy, outcome)| Row::new(policy, args, &world, outcome, labels))
        .collect();
    if args.json {
        print_json(&rows)
    } else {
        talk.say(format!(
            "{} elements, {} measured after {}",
            count(world.n_elements()),
            days(world.span() - warmup),
            days(warmup),
        ));
        print_table(&rows)
    }
}

fn refuse_all_warmup(warmup: f64, span: f64) -> Outcome<()> {
    if warmup < span {
        return Ok(());
    }
    let (warmup, span) = (days(warmup), days(span));
    Err(Failure::input("nothing is left to measure")
        .cause(format!("the warm-up is {warmup} long, the span {span}"))
        .hint("give a shorter --warmup or a longer --span"))
}

/// That the options go together.
fn refuse_nonsense(args: &args::Simulate) -> Outcome<()> {
    let refuse =
        |what: &str, cause: &str, hint: &str| Err(Failure::input(what).cause(cause).hint(hint));
    for (position, policy) in args.policy.iter().enumerate() {
        if args.policy[..position].contains(policy) {
            let what = format!("--policy names {} twice", name_of(*policy));
            return Err(Failure::input(what).hint("name each policy once"));
        }
    }
    let has = |is: fn(SimPolicy) -> bool| args.policy.iter().any(|&policy| is(policy));
    let is_planned = |policy| {
        use SimPolicy::{Optimal, Proportional, Uniform};
        matches!(policy, Uniform | Proportional | Optimal)
    };
    let is_sampled = |policy| sampling(policy).is_some();
    let SamplingArgs {
        cycle,
        sample_size,
        confidence,
        step,
        sample_cost,
        share,
    } = &args.sampling;
    if args.pages.is_some() && args.world.history.is_none() {
        return refuse(
            "--pages goes with --history",
            "only a history has pages that come and go",
            "leave out --pages",
        );
    }
    if args.caps.is_some() && args.world.rates.is_none() {
        return refuse(
            "--caps goes with --rates",
            "caps are for the groups of a table of rates",
            "leave out --caps",
        );
    }
    if args.caps.is_some() && has(is_sampled) {
        return refuse(
            "--caps does not go with batches",
            "round-robin, sample-…, frequency and oracle know no limits on groups",
            "leave out --caps, or those policies",
        );
    }
    if args.last_modified.is_some() && !has(|policy| policy == SimPolicy::Learned) {
        return refuse(
            "--last-modified has no effect",
            "only learned makes anything of the times of changes",
            "leave it out, or add learned",
        );
    }
    if args.order.is_some() && !has(is_planned) {
        return refuse(
            "--order has no effect",
            "it is for uniform, proportional and optimal; the others choose their times themselves",
            "leave out --order, or add one of those policies",
        );
    }
    if cycle.is_some() && !has(is_sampled) {
        return refuse(
            "--cycle has no effect",
            "it is for the batches of round-robin, sample-…, frequency and oracle",
            "leave it out, or add one of those policies",
        );
    }
    let takes_samples = |policy| {
        use SimPolicy::{RoundRobinGreedy, SampleAdaptive, SampleGreedy, SampleProportional};
        matches!(
            policy,
            RoundRobinGreedy | SampleAdaptive | SampleGreedy | SampleProportional
        )
    };
    if (sample_cost.is_some() || sample_size.is_some()) && !has(takes_samples) {
        return refuse(
            "--sample-size and --sample-cost have no effect",
            "they are for the policies that take samples: sample-… and round-robin-greedy",
            "leave them out, or add one of those policies",
        );
    }
    let is_adaptive = |policy| policy == SimPolicy::SampleAdaptive;
    if (confidence.is_some() || step.is_some()) && !has(is_adaptive) {
        return refuse(
            "--confidence and --step have no effect",
            "they are for sample-adaptive",
            "leave them out, or add that policy",
        );
    }
    if share.is_some() && !has(|policy| policy == SimPolicy::RoundRobinGreedy) {
        return refuse(
            "--share has no effect",
            "it is the share of round-robin in round-robin-greedy",
            "leave it out, or add that policy",
        );
    }
    if args.hints.is_some() && !has(|policy| policy == SimPolicy::Learned) {
        return refuse(
            "--hints has no effect",
            "only learned makes anything of hints",
            "leave it out, or add learned",
        );
    }
    if args.first_pass.is_some() && args.start != Some(StartName::Cold) {
        return refuse(
            "--first-pass goes with --start cold",
            "a start with all copies in sync has no first pass",
            "leave it out, or give --start cold",
        );
    }
    if args.first_pass == Some(FirstPassName::Counted) && has(is_sampled) {
        return refuse(
            "--first-pass counted does not go with batches",
            "round-robin, sample-…, frequency and oracle poll at the end of each cycle alone",
            "leave it out, or those policies",
        );
    }
    if args
        .max_interval
        .is_some_and(|longest| longest == Span::ZERO)
    {
        return refuse(
            "--max-interval is zero",
            "an element cannot be polled all the time",
            "give a longer span, such as 30d",
        );
    }
    if args.max_interval.is_some() && !has(|policy| sampling(policy).is_none()) {
        return refuse(
            "--max-interval cannot be kept",
            "batches are chosen by what was sampled, not by who waited",
            "leave it out, or add a policy that polls one by one",
        );
    }
    Ok(())
}

/// Polls, or changes, that nobody would wait for.
const MOST_EVENTS: f64 = 1e11;
/// Hints are all kept in memory.
const MOST_HINTS: f64 = 1e8;
/// Weights and costs further from one than this cannot be added up.
const FARTHEST: f64 = 1e50;

/// That the experiment comes to an end.
fn refuse_too_much(args: &args::Simulate, world: &World) -> Outcome<()> {
    let refuse = |cause: String, hint: &str| {
        Err(
            Failure::input("that would take too long, or too much memory")
                .cause(cause)
                .hint(hint),
        )
    };
    let n_polls = args.budget.mean(world.span()) * world.span();
    if n_polls > MOST_EVENTS {
        let cause = format!("the budget comes to {n_polls:.0e} polls");
        return refuse(cause, "give a smaller --budget or a shorter --span");
    }
    let n = world.n_elements();
    let changes = |index| world.rate(index).as_per_day() * world.lifetime(index);
    let n_changes: f64 = (0..n).map(changes).sum();
    if n_changes > MOST_EVENTS {
        let cause = format!("the rates come to {n_changes:.0e} changes");
        return refuse(cause, "give lower rates or a shorter --span");
    }
    if let Some(hints) = args.hints {
        let n_hints = n_changes * hints.recall / hints.precision;
        if n_hints > MOST_HINTS {
            let cause = format!("a precision so low comes to {n_hints:.0e} hints");
            return refuse(cause, "give a higher precision or a shorter --span");
        }
    }
    let is_far = |number: f64| number != 0.0 && !(1.0 / FARTHEST..FARTHEST).contains(&number);
    let is_extreme = |index| {
        let element = world.element(index);
        is_far(element.weight.as_f64()) || is_far(element.cost.as_f64())
    };
    if (0..n).any(is_extreme) {
        return Err(Failure::input("cannot simulate with these numbers")
            .cause("weights or costs lie too far apart to compute with")
            .hint("give weights and costs near 1"));
    }
    Ok(())
}

/// A world, the caps on its groups, and what its outermost groups are called.
struct Made {
    world: World,
    caps: Caps,
    names: Vec<String>,
}

fn make_world(
    args: &args::Simulate,
    parameters: Option<(&Path, String)>,
    talk: Talk,
) -> Outcome<Made> {
    if args.span == Some(Span::ZERO) {
        return Err(Failure::input("--span is zero").hint("give a longer one, such as 365d"));
    }
    match (&args.world.rates, &args.world.history, parameters) {
        (Some(path), ..) => {
            let span = args.span.map_or(SPAN_DAYS, Span::as_days);
            poisson_world(path, span, args, talk)
        }
        (_, Some(folder), _) => {
            let history = History::read(folder, talk)?;
            let span = match args.span {
                Some(span) => {
                    if span.as_days() > history.days() {
                        talk.say(format!(
                            "warning: the history is {} long; nothing is known to change after it",
                            days(history.days())
                        ));
                    }
                    span
                }
                None => Span::days(history.days()).expect("hours are finite"),
            };
            let world = history.world(span, args.pages == Some(Pages::Alive));
            if world.n_elements() == 0 {
                return Err(Failure::input("no page is there throughout")
                    .hint("leave out --pages alive, or give a shorter --span"));
            }
            let names = history.site_names();
            Ok(Made {
                world,
                caps: Caps::default(),
                names,
            })
        }
        (_, _, Some((path, text))) => {
            let mut parameters = read_parameters(path, &text)?;
            if let Some(span) = args.span {
                parameters.span_days = span.as_days();
            }
            let world = parameters.world(args.seed).map_err(|error| {
                Failure::input(format!("cannot make a world of {}", path.display())).cause(error)
            })?;
            Ok(Made {
                world,
                caps: Caps::default(),
                names: Vec::new(),
            })
        }
        (None, None, None) => unreachable!("the command line asks for one of them"),
    }
}

fn read_text(path: &Path) -> Outcome<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format!("cannot read {}", path.display())).cause(error))
}

fn read_parameters(path: &Path, text: &str) -> Outcome<Correlated> {
    toml::from_str(text).map_err(|error| {
        Failure::input(format!("cannot read {}", path.display()))
            .cause(error.to_string().trim_end())
            .hint("leave out what is to be as by default; an empty file is a world")
    })
}

fn poisson_world(path: &Path, span: f64, args: &args::Simulate, talk: Talk) -> Outcome<Made> {
    let input = Input::new(path)?;
    let table = RateTable::read(&input, true, talk)?;
    let caps = match &args.caps {
        Some(path) => table.caps(&Input::new(path)?, talk)?,
        None => Caps::default(),
    };
    let mut groups = Groups::new();
    for _ in 0..table.group_names.len() {
        groups.add(None);
    }
    let mut names = vec![String::new(); groups.len()];
    for (name, group) in &table.group_names {
        names[group.number() as usize].clone_from(name);
    }
    let elements =
        Elements::from_columns(table.rates.len(), table.weights, table.costs, table.groups);
    let world = World::poisson(elements, groups, table.rates, span, args.seed);
    Ok(Made { world, caps, names })
}

/// The sampling paper's policy of that name.
fn sampling(policy: SimPolicy) -> Option<Sampling> {
    Some(match policy {
        SimPolicy::RoundRobin => Sampling::RoundRobin,
        SimPolicy::SampleProportional => Sampling::Proportional,
        SimPolicy::SampleGreedy => Sampling::Greedy,
        SimPolicy::SampleAdaptive => Sampling::Adaptive,
        SimPolicy::RoundRobinGreedy => Sampling::RoundRobinGreedy,
        SimPolicy::Frequency => Sampling::Frequency,
        SimPolicy::Oracle => Sampling::Oracle,
        _ => return None,
    })
}

fn choice(policy: SimPolicy, args: &args::Simulate, world: &World) -> Outcome<Choice> {
    let planned = |rule| Choice::Planned {
        rule,
        order: args.order.map_or(Order::Fixed, Into::into),
        rates: world.rates(),
    };
    Ok(match policy {
        SimPolicy::Uniform => planned(Rule::Uniform),
        SimPolicy::Proportional => planned(Rule::Proportional),
        SimPolicy::Optimal => planned(Rule::Optimal(Objective::Freshness)),
        SimPolicy::Learned => Choice::Learned,
        SimPolicy::Nutch => Choice::InUse(InUse::Nutch),
        SimPolicy::StormCrawler => Choice::InUse(InUse::StormCrawler),
        SimPolicy::Miniflux => Choice::InUse(InUse::Miniflux),
        SimPolicy::FixedInterval => Choice::InUse(InUse::FixedInterval),
        sampled => {
            let sampling = sampling(sampled).expect("all others are named above");
            Choice::Sampled(sampling, settings(&args.sampling)?)
        }
    })
}

fn start(args: &args::Simulate) -> Start {
    match (args.start, args.first_pass) {
        (Some(StartName::Cold), Some(FirstPassName::Counted)) => Start::Cold(FirstPolls::Counted),
        (Some(StartName::Cold), _) => Start::Cold(FirstPolls::Free),
        _ => Start::Warm,
    }
}

fn settings(args: &SamplingArgs) -> Outcome<Settings> {
    let refuse = |error| Failure::input("cannot sample like that").cause(error);
    let cycle = match args.cycle {
        Some(cycle) => cycle,
        None => Span::days(CYCLE_DAYS).map_err(refuse)?,
    };
    let mut settings = Settings::new(cycle).map_err(refuse)?;
    if let Some(size) = args.sample_size {
        settings = settings.with_sample_size(size).map_err(refuse)?;
    }
    if let Some(confidence) = args.confidence {
        settings = settings.with_confidence(confidence).map_err(refuse)?;
    }
    if let Some(step) = args.step {
        settings = settings.with_step(step).map_err(refuse)?;
    }
    if let Some(cost) = args.sample_cost {
        settings = settings.with_sample_cost(cost).map_err(refuse)?;
    }
    if let Some(share) = args.share {
        settings = settings.with_share(share).map_err(refuse)?;
    }
    Ok(settings)
}

/// The classes of rates: what they are called, and below how many changes a day
/// each ends.
const RATE_CLASSES: [(&str, f64); 6] = [
    ("never", f64::MIN_POSITIVE),
    ("under 1/year", 1.0 / 365.25),
    ("under 12/year", 12.0 / 365.25),
    ("under 1/week", 1.0 / 7.0),
    ("under 1/day", 1.0),
    ("1/day or more", f64::INFINITY),
];

fn break_down(world: &World, by: Breakdown, names: &[String]) -> (Vec<String>, Parts) {
    let n = world.n_elements();
    match by {
        Breakdown::Rate => {
            let of = (0..n).map(|index| {
                let rate = world.rate(index).as_per_day();
                RATE_CLASSES.partition_point(|&(_, end)| end <= rate) as u32
            });
            let labels = RATE_CLASSES.map(|(label, _)| label.to_owned());
            let parts = Parts {
                of: of.collect(),
                n: labels.len(),
            };
            (labels.to_vec(), parts)
        }
        Breakdown::Group => {
            // Outermost groups in the order of their numbers, and at the end those
            // in no group.
            let groups = world.groups();
            let outermost = |index| {
                let group = world.element(index).group?;
                Some(groups.outermost(group).number())
            };
            let mut known: Vec<u32> = (0..n).filter_map(outermost).collect();
            known.sort_unstable();
            known.dedup();
            let of: Arc<[u32]> = (0..n)
                .map(|index| match outermost(index) {
                    Some(group) => known.partition_point(|&other| other < group) as u32,
                    None => known.len() as u32,
                })
                .collect();
            let mut labels: Vec<String> = known
                .iter()
                .map(|&group| {
                    let name = names.get(group as usize).cloned();
                    name.unwrap_or_else(|| group.to_string())
                })
                .collect();
            if of.contains(&(known.len() as u32)) {
                labels.push("(no group)".to_owned());
            }
            let n = labels.len();
            (labels, Parts { of, n })
        }
    }
}

/// What one policy achieved.
#[derive(Serialize)]
struct Row {
    policy: String,
    seed: u64,
    n_elements: usize,
    n_polls: u64,
    budget_per_day: f64,
    #[serde(flatten)]
    measured: Measured,
    #[serde(skip_serializing_if = "Option::is_none")]
    weighted_change_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    breakdown: Vec<PartRow>,
}

/// What a policy achieved for a part of the elements.
#[derive(Serialize)]
struct PartRow {
    part: String,
    n_polls: u64,
    #[serde(flatten)]
    measured: Measured,
}

/// `null` where there was nothing to measure.
#[derive(Serialize)]
struct Measured {
    freshness: Option<f64>,
    age_days: Option<f64>,
    content_staleness: Option<f64>,
    change_ratio: Option<f64>,
    fairness: Option<f64>,
    /// Only of a policy that believes something.
    #[serde(skip_serializing_if = "Option::is_none")]
    log_loss: Option<f64>,
}

impl Measured {
    fn new(measures: &Measures) -> Self {
        let known = |number: f64| number.is_finite().then_some(number);
        Self {
            freshness: known(measures.freshness),
            age_days: known(measures.age_days),
            content_staleness: known(measures.content_staleness),
            change_ratio: known(measures.change_ratio),
            fairness: known(measures.fairness),
            log_loss: measures.log_loss,
        }
    }
}

impl Row {
    fn new(
        policy: SimPolicy,
        args: &args::Simulate,
        world: &World,
        outcome: &Outcomes,
        labels: Option<&[String]>,
    ) -> Self {
        let all = &outcome.all;
        let parts = labels.unwrap_or_default().iter().zip(&outcome.parts);
        Self {
            policy: name_of(policy),
            seed: args.seed,
            n_elements: world.n_elements(),
            n_polls: all.n_polls,
            budget_per_day: args.budget.mean(world.span()),
            measured: Measured::new(all),
            weighted_change_ratio: labels
                .map(|_| all.weighted_change_ratio)
                .filter(|ratio| ratio.is_finite()),
            breakdown: parts
                .map(|(part, measures)| PartRow {
                    part: part.clone(),
                    n_polls: measures.n_polls,
                    measured: Measured::new(measures),
                })
                .collect(),
        }
    }
}

fn print_table(rows: &[Row]) -> Outcome<()> {
    let uniform = rows
        .iter()
        .find(|row| row.policy == name_of(SimPolicy::Uniform))
        .and_then(|row| row.measured.freshness)
        .filter(|&freshness| freshness < 1.0);
    let mut heads = vec!["policy", "freshness"];
    if uniform.is_some() {
        heads.push("staleness against uniform");
    }
    heads.extend(["age", "content", "change ratio", "fairness", "polls"]);
    let mut lines = vec![heads.iter().map(ToString::to_string).collect::<Vec<_>>()];
    for row in rows {
        lines.push(cells(&row.policy, &row.measured, uniform, row.n_polls));
        for part in &row.breakdown {
            let name = format!("  {}", part.part);
            let mut cells = cells(&name, &part.measured, None, part.n_polls);
            if uniform.is_some() {
                cells.insert(2, String::new());
            }
            lines.push(cells);
        }
    }
    print_lines(&lines)
}

/// Prints lines of cells: the first cell to the left, the others to the right.
fn print_lines(lines: &[Vec<String>]) -> Outcome<()> {
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|column| {
            let width = |line: &Vec<String>| line[column].chars().count();
            lines.iter().map(width).max().unwrap_or(0)
        })
        .collect();
    let mut stdout = std::io::stdout().lock();
    for line in lines {
        let mut text = String::new();
        for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            if column == 0 {
                text.push_str(&format!("{cell:<width$}"));
            } else {
                text.push_str(&format!("  {cell:>width$}"));
            }
        }
        writeln!(stdout, "{}", text.trim_end())
            .map_err(|error| unwritable("standard output", &error))?;
    }
    stdout
        .flush()
        .map_err(|error| unwritable("standard output", &error))
}

fn cells(name: &str, measured: &Measured, uniform: Option<f64>, n_polls: u64) -> Vec<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let share = |number: Option<f64>| or_none(number.map(percent));
    let mut cells = vec![name.to_owned(), share(measured.freshness)];
    if let Some(uniform) = uniform {
        let relative = measured
            .freshness
            .map(|freshness| percent((1.0 - freshness) / (1.0 - uniform)));
        cells.push(or_none(relative));
    }
    cells.extend([
        or_none(measured.age_days.map(days)),
        or_none(measured.content_staleness.map(days)),
        share(measured.change_ratio),
        share(measured.fairness),
        count(usize::try_from(n_polls).unwrap_or(usize::MAX)),
    ]);
    cells
}

/// Days as people say them.
fn days(days: f64) -> String {
    brief(days * 86_400.0)
}
