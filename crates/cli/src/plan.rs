//! `springtide plan`: from rates and a budget to how often to poll each element.

use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;
use springtide_engine::view::{FACTORS, Predicted, per_day, what_if};
use springtide_policy::freshness::{expected_age, expected_freshness};
use springtide_policy::plan::{Candidates, Plan, Policy, RulePolicy, Target};
use springtide_policy::report::{Report, report};
use springtide_policy::{Budget, Caps, Frequency, Objective, Order};

use crate::args::{self, ObjectiveName, PolicyName, name_of};
use crate::columns::{Colour, Columns, Side};
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::moment::brief;
use crate::rates::{ID, RateTable};
use crate::table::{Cells, ColumnType, Input, Output, Texts, Unfinished};
use crate::talk::{Talk, count, percent};
use crate::units::PaceUnit;

/// From a table of rates.
pub(crate) fn run(
    rates: &Path,
    args: &args::Plan,
    talk: Talk,
    colour: Colour,
    unfinished: &Unfinished,
) -> Outcome<()> {
    let goal = &args.goal;
    if goal.budget.is_none() && goal.target_freshness.is_none() && goal.target_age.is_none() {
        return Err(Failure::input("there is nothing to plan for")
            .hint("give one of --budget N/day, --target-freshness RATIO and --target-age SPAN"));
    }
    if args.json && !is_to_file(args) && !args.curve {
        return Err(Failure::input("--json needs --out FILE")
            .cause("the plan and its summary cannot both go to standard output")
            .hint("name a file for the plan; the summary goes to standard output"));
    }

    if rates == Path::new("-") && args.caps.as_deref() == Some(Path::new("-")) {
        return Err(
            Failure::input("--rates and --caps both read standard input")
                .hint("put one of them in a file"),
        );
    }
    let input = Input::new(rates)?;
    let elements = RateTable::read(&input, args.caps.is_some(), talk)?;
    let caps = match &args.caps {
        Some(path) => elements.caps(&Input::new(path)?, talk)?,
        None => Caps::default(),
    };
    let from = Origin::Table(&input);
    solve(&elements, from, &caps, args, talk, colour, unfinished)
}

/// Where rates are from.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// A table.
    Table(&'a Input),
    /// A project, of whose copies this is predicted, if its own plan for the present
    /// budget is asked for.
    Project(Option<Predicted>),
}

fn is_to_file(args: &args::Plan) -> bool {
    let out = args.out.as_deref();
    out.is_some_and(|path| path != Path::new("-"))
}

/// Solves for the goal, writes the plan and says what it gives. The ids of a project
/// must be in `elements`, and its plan is written only where it was asked for.
pub(crate) fn solve(
    elements: &RateTable,
    from: Origin<'_>,
    caps: &Caps,
    args: &args::Plan,
    talk: Talk,
    colour: Colour,
    unfinished: &Unfinished,
) -> Outcome<()> {
    let objective = objective(args)?;
    let candidates = elements.candidates();
    let floor = frequency(args.floor.unwrap_or(0.0), "--floor")?;
    let ask = PlanTask {
        candidates: &candidates,
        caps,
        floor,
        order: args.order.into(),
        objective,
        policy: args.policy.unwrap_or(PolicyName::Optimal),
    };

    let solving = talk.progress("solving", None);
    let plan = ask.plan(args)?;
    drop(solving);
    if args.curve {
        let as_json = args.json && !is_to_file(args);
        return curve(&ask, &plan, from, args, as_json, talk, unfinished);
    }

    let achieved = report(&plan, &candidates, ask.order);
    refuse_extremes(&plan, &achieved)?;
    let input = match from {
        Origin::Table(input) => Some(input),
        Origin::Project(_) if args.out.is_none() => {
            if !args.json {
                print_budgets(&ask, &plan, unit(args), colour)?;
            }
            return summarize(&ask, &plan, &achieved, from, args, talk);
        }
        Origin::Project(_) => None,
    };
    write(
        input,
        elements,
        &plan,
        ask.order,
        args.out.as_deref(),
        talk,
        unfinished,
    )?;
    summarize(&ask, &plan, &achieved, from, args, talk)
}

/// That the budget was met. It always is, but for numbers so far apart that the price
/// has left the range of a double.
fn refuse_extremes(plan: &Plan, achieved: &Report) -> Outcome<()> {
    let (budget, used) = (plan.budget_per_day(), achieved.used_per_day);
    let is_priced = plan.price().is_some_and(|price| price > 0.0);
    if used <= budget * (1.0 + 1e-6) && (used >= budget * (1.0 - 1e-6) || !is_priced) {
        return Ok(());
    }
    Err(Failure::input("cannot plan with these numbers")
        .cause("budget, rates, weights and costs lie too far apart to compute with")
        .hint("give a rate of 0 for what never changes, and weights and costs near 1"))
}

/// What the target or the flag says to optimise for.
fn objective(args: &args::Plan) -> Outcome<Objective> {
    match (args.goal.target_age, args.objective) {
        (Some(_), None | Some(ObjectiveName::Age)) => Ok(Objective::Age),
        (Some(_), Some(other)) => Err(Failure::input(format!(
            "--target-age and --objective {} do not go together",
            name_of(other)
        ))
        .cause("a target age is reached by the plan with the least age")
        .hint("leave out --objective")),
        (None, name) => Ok(name.unwrap_or(ObjectiveName::Freshness).into()),
    }
}

/// What all plans of one command have in common.
struct PlanTask<'a> {
    candidates: &'a Candidates<'a>,
    caps: &'a Caps,
    floor: Frequency,
    order: Order,
    objective: Objective,
    policy: PolicyName,
}

impl PlanTask<'_> {
    /// The plan for the budget or the target.
    fn plan(&self, args: &args::Plan) -> Outcome<Plan> {
        let policy = self.rule_policy(self.policy);
        let target = match (
            args.goal.budget,
            args.goal.target_freshness,
            args.goal.target_age,
        ) {
            (Some(budget), ..) => return self.spend(self.policy, budget.per_day()),
            (_, Some(freshness), _) => Target::freshness(freshness, self.order)
                .map_err(|error| Failure::input("bad --target-freshness").cause(error))?,
            (_, _, Some(age)) => Target::age(age, self.order),
            (None, None, None) => unreachable!("the command line asks for one of them"),
        };
        let plan = policy.least(self.candidates, self.caps, target);
        plan.map_err(|unreachable| {
            let (age, fresh) = (unreachable.age.as_days(), unreachable.freshness);
            let cause = match args.goal.target_age {
                Some(_) if age < 1e-30 => "no budget brings the age down to zero".to_owned(),
                Some(_) => format!("the largest budget leaves an age of {}", days(age)),
                None if fresh >= 1.0 => "no budget keeps all copies always fresh".to_owned(),
                None => format!("the largest budget gives a freshness of {fresh:.6}"),
            };
            Failure::input("no budget reaches this target")
                .cause(cause)
                .hint(match (args.goal.target_age, self.caps.iter().len()) {
                    (Some(_), 0) => "what changes is always somewhat old; allow a longer age",
                    (None, 0) => "what changes is never always fresh; lower the target",
                    (Some(_), _) => "allow a longer age, or raise the caps",
                    (None, _) => "lower the target, or raise the caps",
                })
        })
    }

    fn spend(&self, policy: PolicyName, per_day: f64) -> Outcome<Plan> {
        let budget = Budget::per_day(per_day)
            .map_err(|error| Failure::input("bad --budget").cause(error))?
            .with_caps(self.caps.clone());
        Ok(self.rule_policy(policy).plan(self.candidates, &budget))
    }

    fn rule_policy(&self, policy: PolicyName) -> RulePolicy {
        RulePolicy::new(policy.rule(self.objective)).with_floor(self.floor)
    }
}

fn frequency(per_day: f64, flag: &str) -> Outcome<Frequency> {
    Frequency::per_day(per_day).map_err(|error| Failure::input(format!("bad {flag}")).cause(error))
}

/// Writes the plan, reading the ids once more if they were not kept.
fn write(
    input: Option<&Input>,
    elements: &RateTable,
    plan: &Plan,
    order: Order,
    out: Option<&Path>,
    talk: Talk,
    unfinished: &Unfinished,
) -> Outcome<()> {
    let columns = [
        ("id", ColumnType::Text),
        ("frequency_per_day", ColumnType::Numbers),
        ("freshness", ColumnType::Numbers),
        ("age_days", ColumnType::Numbers),
    ];
    let candidates = elements.candidates();
    let mut output = Output::new(out, &columns, unfinished)?;
    let changed = || {
        let name = input.map_or("the rates", |input| &input.name);
        Failure::failed(format!("cannot read {name} again"))
            .cause("it changed while it was read")
            .hint("plan from a copy that nobody writes to")
    };
    let mut first = 0;
    let mut write = |ids: &Texts| {
        if first + ids.len() > candidates.len() {
            return Err(changed());
        }
        let mut frequencies = vec![Frequency::ZERO; ids.len()];
        plan.write_frequencies(&candidates, first, &mut frequencies);
        let each = frequencies.par_iter().enumerate();
        let (freshness, age): (Vec<f64>, Vec<f64>) = each
            .map(|(offset, &frequency)| {
                let rate = candidates.rate(first + offset);
                let age = expected_age(rate, frequency, order).as_days();
                (expected_freshness(rate, frequency, order), age)
            })
            .unzip();
        first += ids.len();
        let frequencies = frequencies.into_iter().map(Frequency::as_per_day).collect();
        output.write(&[
            Cells::Texts(ids),
            Cells::Numbers(frequencies),
            Cells::Numbers(freshness),
            Cells::Numbers(age),
        ])
    };
    let writing = talk.progress("writing", Some(candidates.len() as u64));
    match &elements.ids {
        Some(batches) => batches.iter().try_for_each(|ids| {
            writing.advance(ids.len());
            write(ids)
        })?,
        None => input.ok_or_else(changed)?.read(&[ID], &writing, |batch| {
            write(batch.texts(0).ok_or_else(changed)?)
        })?,
    }
    if first != candidates.len() {
        return Err(changed());
    }
    output.finish()
}

/// What a program wants to know of a plan.
#[derive(Serialize)]
struct Summary {
    n_elements: usize,
    n_unpolled: usize,
    budget_per_day: f64,
    used_per_day: f64,
    objective: String,
    policy: String,
    order: String,
    /// The means are null where they are infinite, or where no element has weight.
    freshness: f64,
    age_days: f64,
    content_staleness: f64,
    price: Option<f64>,
    #[serde(flatten)]
    own: Option<Own>,
}

/// What a program wants to know besides of a project's own plan. For the present budget
/// freshness and age are those of now, as in `status`, with an interval; for another, and
/// always here, what it gives in the long run.
#[derive(Serialize)]
struct Own {
    predicted_low: Option<f64>,
    predicted_high: Option<f64>,
    long_run: LongRun,
}

#[derive(Serialize)]
struct LongRun {
    freshness: f64,
    age_days: f64,
}

fn summarize(
    ask: &PlanTask<'_>,
    plan: &Plan,
    achieved: &Report,
    from: Origin<'_>,
    args: &args::Plan,
    talk: Talk,
) -> Outcome<()> {
    let objective = match ask.objective {
        Objective::Freshness => ObjectiveName::Freshness,
        Objective::Age => ObjectiveName::Age,
        Objective::Content => ObjectiveName::Content,
    };
    let long_run = LongRun {
        freshness: achieved.freshness,
        age_days: achieved.age.as_days(),
    };
    let predicted = match from {
        Origin::Project(predicted) => predicted,
        Origin::Table(_) => None,
    };
    let now = predicted.map(|predicted| predicted.freshness);
    let summary = Summary {
        n_elements: achieved.n_elements,
        n_unpolled: achieved.n_unpolled,
        budget_per_day: plan.budget_per_day(),
        used_per_day: achieved.used_per_day,
        objective: name_of(objective),
        policy: name_of(ask.policy),
        order: name_of(args.order),
        freshness: now.map_or(long_run.freshness, |now| now.share),
        age_days: predicted.map_or(long_run.age_days, |predicted| predicted.age.as_days()),
        content_staleness: achieved.content_staleness,
        price: plan.price(),
        own: matches!(from, Origin::Project(_)).then_some(Own {
            predicted_low: now.map(|now| now.low),
            predicted_high: now.map(|now| now.high),
            long_run,
        }),
    };
    if args.json {
        return print_json(&summary);
    }
    for line in summary.lines(unit(args), talk) {
        talk.say(line);
    }
    if ask.policy == PolicyName::Optimal && talk >= Talk::Normal && summary.freshness >= 0.0 {
        let uniform = ask.spend(PolicyName::Uniform, summary.budget_per_day)?;
        let uniform = report(&uniform, ask.candidates, ask.order);
        talk.say(format!(
            "  uniform would give  freshness {}, age {}",
            percent(uniform.freshness),
            days(uniform.age.as_days()),
        ));
    }
    Ok(())
}

impl Summary {
    /// The summary for a person.
    fn lines(&self, unit: PaceUnit, talk: Talk) -> Vec<String> {
        let unpolled = match self.n_unpolled {
            0 => "every one that changes is polled".to_owned(),
            1 => "1 that changes is never polled".to_owned(),
            n => format!("{} that change are never polled", count(n)),
        };
        let policy = match self.policy.as_str() {
            "optimal" => format!("optimal for {}", self.objective),
            other => other.to_owned(),
        };
        let mut lines = vec![
            format!(
                "  elements            {}; {unpolled}",
                count(self.n_elements)
            ),
            format!("  plan                {policy}, {} order", self.order),
            format!(
                "  budget              {} {}",
                significant(unit.of(self.budget_per_day)),
                unit.each()
            ),
        ];
        if (self.used_per_day / self.budget_per_day - 1.0).abs() > 1e-9 {
            lines.push(format!(
                "  used                {} {}: no element can use, or may have, more",
                significant(unit.of(self.used_per_day)),
                unit.each()
            ));
        }
        if self.freshness.is_nan() {
            lines.push("  freshness and age   not defined: every weight is 0".to_owned());
            return lines;
        }
        let (freshness, age) = (self.freshness, days(self.age_days));
        match &self.own {
            Some(Own {
                predicted_low: Some(low),
                predicted_high: Some(high),
                long_run,
            }) => {
                lines.push(format!(
                    "  predicted freshness {} now ({} to {}), as in `status`",
                    percent(freshness),
                    percent(*low),
                    percent(*high)
                ));
                lines.push(format!("  predicted age       {age} now"));
                let freshness = percent(long_run.freshness);
                lines.push(format!("  in the long run     freshness {freshness}"));
                let age = days(long_run.age_days);
                lines.push(format!("                      age       {age}"));
            }
            _ => {
                lines.push(format!("  predicted freshness {}", percent(freshness)));
                lines.push(format!("  predicted age       {age}"));
            }
        }
        if self.objective == "content" {
            let staleness = significant(self.content_staleness);
            lines.push(format!(
                "  predicted staleness {staleness} days of missed changes' ages"
            ));
        }
        if let Some(price) = self.price.filter(|_| talk == Talk::Verbose) {
            lines.push(format!("  price of a poll     {}", significant(price)));
        }
        lines
    }
}

/// What the budget was given by; a day, if it is what comes of a target.
fn unit(args: &args::Plan) -> PaceUnit {
    let budget = args.goal.budget.map(|budget| budget.unit);
    budget.unwrap_or_default()
}

/// Three digits, without an exponent where a person would write none.
pub(crate) fn significant(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        n if (1e-4..1.0).contains(&n) => {
            let digits = 2 - n.log10().floor() as i32;
            let text = format!("{number:.*}", usize::try_from(digits).unwrap_or(2));
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        n if (1.0..1e12).contains(&n) => {
            let text = per_day(number);
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
        _ => format!("{number:.2e}"),
    }
}

/// A span as a person would say it.
fn days(days: f64) -> String {
    if days == f64::INFINITY {
        "infinite: some elements are never polled".to_owned()
    } else {
        brief(days * 86_400.0)
    }
}

/// What other budgets would buy, for a person.
fn print_budgets(ask: &PlanTask<'_>, plan: &Plan, unit: PaceUnit, colour: Colour) -> Outcome<()> {
    let mut columns = Columns::new(&[
        (
            match unit {
                PaceUnit::Second => "budget/s",
                PaceUnit::Minute => "budget/min",
                PaceUnit::Hour => "budget/hour",
                PaceUnit::Day => "budget/day",
                PaceUnit::Week => "budget/week",
                PaceUnit::Year => "budget/year",
            },
            Side::Right,
        ),
        ("freshness in the long run", Side::Right),
        ("age", Side::Right),
        ("uniform would give", Side::Right),
    ]);
    let budgets = FACTORS.map(|factor| plan.budget_per_day() * factor);
    let policy = ask.rule_policy(PolicyName::Optimal);
    let points = what_if(ask.candidates, policy, ask.order, budgets)
        .map_err(|error| Failure::input("bad --budget").cause(error))?;
    for point in points {
        columns.push(vec![
            significant(unit.of(point.budget_per_day)),
            percent(point.freshness),
            match point.age_seconds.is_finite() {
                true => brief(point.age_seconds),
                false => "infinite".to_owned(),
            },
            percent(point.uniform.freshness),
        ]);
    }
    columns.print(colour)
}

/// How far around the budget a curve goes, in steps of the square root of two.
const CURVE_STEPS: i32 = 8;

/// What every policy would give for budgets around that of the plan.
fn curve(
    ask: &PlanTask<'_>,
    plan: &Plan,
    from: Origin<'_>,
    args: &args::Plan,
    as_json: bool,
    talk: Talk,
    unfinished: &Unfinished,
) -> Outcome<()> {
    #[derive(Serialize)]
    struct Point {
        budget_per_day: f64,
        policy: &'static str,
        freshness: f64,
        age_days: f64,
    }
    let policies = [
        (PolicyName::Optimal, "optimal"),
        (PolicyName::Uniform, "uniform"),
        (PolicyName::Proportional, "proportional"),
    ];
    let n_steps = u64::from(CURVE_STEPS.unsigned_abs()) * 2 + 1;
    let solving = talk.progress("drawing the curve", Some(3 * n_steps));
    let mut points = Vec::new();
    for step in -CURVE_STEPS..=CURVE_STEPS {
        let budget = plan.budget_per_day() * (f64::from(step) / 2.0).exp2();
        for (policy, name) in policies {
            let plan = ask.spend(policy, budget)?;
            let achieved = report(&plan, ask.candidates, ask.order);
            points.push(Point {
                budget_per_day: budget,
                policy: name,
                freshness: achieved.freshness,
                age_days: achieved.age.as_days(),
            });
            solving.advance(1);
        }
    }
    drop(solving);
    if as_json {
        return print_json(&points);
    }
    let columns = [
        ("budget_per_day", ColumnType::Numbers),
        ("policy", ColumnType::Text),
        ("freshness", ColumnType::Numbers),
        ("age_days", ColumnType::Numbers),
    ];
    let mut names = Texts::default();
    points.iter().for_each(|point| names.push(point.policy));
    let numbers = |of: fn(&Point) -> f64| Cells::Numbers(points.iter().map(of).collect());
    let mut output = Output::new(args.out.as_deref(), &columns, unfinished)?;
    output.write(&[
        numbers(|point| point.budget_per_day),
        Cells::Texts(&names),
        numbers(|point| point.freshness),
        numbers(|point| point.age_days),
    ])?;
    output.finish()?;
    if args.json {
        let achieved = report(plan, ask.candidates, ask.order);
        return summarize(ask, plan, &achieved, from, args, talk);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_fits_eighty_columns_though_some_are_never_polled() {
        let summary = Summary {
            n_elements: 123_456,
            n_unpolled: 12_345,
            budget_per_day: 123_456.0,
            used_per_day: 123_456.0,
            objective: "freshness".to_owned(),
            policy: "optimal".to_owned(),
            order: "fixed".to_owned(),
            freshness: 0.123,
            age_days: f64::INFINITY,
            content_staleness: f64::INFINITY,
            price: None,
            own: Some(Own {
                predicted_low: Some(0.1),
                predicted_high: Some(0.2),
                long_run: LongRun {
                    freshness: 0.123,
                    age_days: f64::INFINITY,
                },
            }),
        };
        for line in summary.lines(PaceUnit::Day, Talk::Normal) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(significant(500.0), "500");
        assert_eq!(significant(0.123_456_789), "0.123");
        assert_eq!(significant(0.25), "0.25");
        assert_eq!(significant(83.333), "83.3");
        assert_eq!(significant(123_456_789.0), "123,456,789");
        assert_eq!(significant(1e-7), "1.00e-7");
        assert_eq!(significant(0.0), "0");
        assert_eq!(days(0.5), "12h");
        assert_eq!(days(0.01), "14m");
        assert_eq!(days(1.833_78e-4), "16s");
    }
}
