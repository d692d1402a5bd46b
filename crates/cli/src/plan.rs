//! `springtide plan`: from rates and a budget to how often to poll each element.

use std::collections::HashMap;
use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;
use springtide_policy::freshness::{expected_age, expected_freshness};
use springtide_policy::plan::{Candidates, Plan, Policy, RulePolicy, Target};
use springtide_policy::report::{Report, report};
use springtide_policy::{Budget, Caps, Cost, Frequency, GroupId, Objective, Order, Rate, Weight};
use twox_hash::XxHash3_64;

use crate::args::{self, ObjectiveName, PolicyName, name_of};
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::table::{
    Batch, Cells, Column, Condition, Holds, Input, Kind, Output, Texts, Unfinished, shorten,
};
use crate::talk::{Talk, count};

pub(crate) fn run(args: &args::Plan, talk: Talk, unfinished: &Unfinished) -> Outcome<()> {
    let objective = objective(args)?;
    let to_file = args
        .out
        .as_deref()
        .is_some_and(|path| path != Path::new("-"));
    if args.json && !to_file && !args.curve {
        return Err(Failure::input("--json needs --out FILE")
            .cause("the plan and its summary cannot both go to standard output")
            .hint("name a file for the plan; the summary goes to standard output"));
    }

    if args.rates == Path::new("-") && args.caps.as_deref() == Some(Path::new("-")) {
        return Err(
            Failure::input("--rates and --caps both read standard input")
                .hint("put one of them in a file"),
        );
    }
    let input = Input::new(&args.rates)?;
    let elements = Elements::read(&input, args.caps.is_some(), talk)?;
    let caps = match &args.caps {
        Some(path) => elements.caps(&Input::new(path)?, talk)?,
        None => Caps::default(),
    };
    let candidates = elements.candidates();
    let floor = frequency(args.floor.unwrap_or(0.0), "--floor")?;
    let ask = Ask {
        candidates: &candidates,
        caps: &caps,
        floor,
        order: args.order.into(),
        objective,
    };

    let solving = talk.progress("solving", None);
    let plan = ask.plan(args)?;
    drop(solving);
    if args.curve {
        let as_json = args.json && !to_file;
        return curve(&ask, &plan, args, as_json, talk, unfinished);
    }

    let achieved = report(&plan, &candidates, ask.order);
    refuse_extremes(&plan, &achieved)?;
    write(
        &input,
        &elements,
        &plan,
        ask.order,
        args.out.as_deref(),
        talk,
        unfinished,
    )?;
    summarize(&ask, &plan, &achieved, args, talk)
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
struct Ask<'a> {
    candidates: &'a Candidates<'a>,
    caps: &'a Caps,
    floor: Frequency,
    order: Order,
    objective: Objective,
}

impl Ask<'_> {
    /// The plan for the budget or the target.
    fn plan(&self, args: &args::Plan) -> Outcome<Plan> {
        let policy = self.policy(args.policy);
        let target = match (
            args.goal.budget,
            args.goal.target_freshness,
            args.goal.target_age,
        ) {
            (Some(budget), ..) => return self.spend(args.policy, budget),
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
        Ok(self.policy(policy).plan(self.candidates, &budget))
    }

    fn policy(&self, policy: PolicyName) -> RulePolicy {
        RulePolicy::new(policy.rule(self.objective)).with_floor(self.floor)
    }
}

fn frequency(per_day: f64, flag: &str) -> Outcome<Frequency> {
    Frequency::per_day(per_day).map_err(|error| Failure::input(format!("bad {flag}")).cause(error))
}

const ID: Column = Column {
    name: "id",
    kind: Kind::Id,
    required: true,
};

const COLUMNS: [Column; 5] = [
    ID,
    Column {
        name: "rate_per_day",
        kind: Kind::Number(Condition {
            holds: |rate| rate >= 0.0,
            says: "a rate is zero or more",
            hint: "drop the line, or give 0 for an element that never changes",
        }),
        required: true,
    },
    Column {
        name: "weight",
        kind: Kind::Number(Condition {
            holds: |weight| weight >= 0.0,
            says: "a weight is zero or more",
            hint: "give 0 for an element that does not matter, 1 for an ordinary one",
        }),
        required: false,
    },
    Column {
        name: "cost",
        kind: Kind::Number(Condition {
            holds: |cost| cost > 0.0,
            says: "a cost is above zero",
            hint: "give 1 for an ordinary poll",
        }),
        required: false,
    },
    Column {
        name: "group",
        kind: Kind::Text,
        required: false,
    },
];

const CAPS: [Column; 2] = [
    Column {
        name: "group",
        kind: Kind::Id,
        required: true,
    },
    Column {
        name: "budget_per_day",
        kind: Kind::Number(Condition {
            holds: |budget| budget >= 0.0,
            says: "a budget is zero or more",
            hint: "give 0 for a group that must not be polled, or drop the line",
        }),
        required: true,
    },
];

/// Ids are kept in memory up to so many bytes. The ids of more elements, which
/// would take more memory than all the rest, are read again when they are needed.
const KEPT_IDS: usize = 512 << 20;

/// The table of rates.
#[derive(Default)]
struct Elements {
    /// The ids, batch by batch; `None` if they are too many to keep.
    ids: Option<Vec<Texts>>,
    rates: Vec<Rate>,
    /// Empty where the table has no such column.
    weights: Vec<Weight>,
    costs: Vec<Cost>,
    /// Empty where nobody asks for groups.
    groups: Vec<Option<GroupId>>,
    group_names: HashMap<String, GroupId>,
}

impl Elements {
    fn read(input: &Input, with_groups: bool, talk: Talk) -> Outcome<Self> {
        let n_rows = input.n_rows();
        let mut elements = Self {
            ids: Some(Vec::new()),
            ..Self::default()
        };
        let mut n_bytes = 0;
        let mut hashes: Vec<u64> = Vec::new();
        if let Some(n_rows) = n_rows.and_then(|n_rows| usize::try_from(n_rows).ok()) {
            // A damaged file may say anything.
            let n_rows = n_rows.min(1 << 32);
            let _ = elements.rates.try_reserve_exact(n_rows);
            let _ = hashes.try_reserve_exact(n_rows);
        }
        let columns = if with_groups {
            &COLUMNS[..]
        } else {
            &COLUMNS[..4]
        };
        let reading = talk.progress("reading", n_rows);
        input.read(columns, &reading, |mut batch| {
            elements.take(&batch)?;
            let Some(mut ids) = batch.take_texts(0) else {
                return Ok(());
            };
            hashes.extend(ids.iter().map(hash));
            ids.shrink();
            n_bytes += ids.n_bytes();
            if n_bytes > KEPT_IDS {
                elements.ids = None;
            }
            if let Some(kept) = &mut elements.ids {
                kept.push(ids);
            }
            Ok(())
        })?;
        drop(reading);
        if elements.rates.is_empty() {
            return Err(Failure::input(format!("cannot read {}", input.name))
                .cause("there are no rows")
                .hint("give one row per element"));
        }
        refuse_duplicates(input, hashes, talk)?;
        talk.explain(format!("{} elements", count(elements.rates.len())));
        Ok(elements)
    }

    fn take(&mut self, batch: &Batch) -> Outcome<()> {
        const CHECKED: &str = "the reader has checked it";
        let rates = batch.numbers(1).unwrap_or_default().iter();
        self.rates
            .extend(rates.map(|&rate| Rate::per_day(rate).expect(CHECKED)));
        let weights = batch.numbers(2).unwrap_or_default().iter();
        self.weights
            .extend(weights.map(|&weight| Weight::new(weight).expect(CHECKED)));
        let costs = batch.numbers(3).unwrap_or_default().iter();
        self.costs
            .extend(costs.map(|&cost| Cost::new(cost).expect(CHECKED)));
        if let Some(groups) = (batch.n_columns() > 4).then(|| batch.texts(4)).flatten() {
            for name in groups.iter() {
                let group = if name.is_empty() {
                    None
                } else if let Some(group) = self.group_names.get(name) {
                    Some(*group)
                } else {
                    let number = u32::try_from(self.group_names.len()).ok();
                    let group = number.and_then(GroupId::new).ok_or_else(|| {
                        Failure::input("too many groups").hint("there may be 4,294,967,295")
                    })?;
                    self.group_names.insert(name.to_owned(), group);
                    Some(group)
                };
                self.groups.push(group);
            }
        }
        Ok(())
    }

    /// The caps in a table, for groups that the elements have.
    fn caps(&self, input: &Input, talk: Talk) -> Outcome<Caps> {
        let refuse = |cause: String, hint: &str| {
            Failure::input(format!("cannot read {}", input.name))
                .cause(cause)
                .hint(hint)
        };
        let mut caps: HashMap<GroupId, f64> = HashMap::new();
        let reading = talk.progress("reading caps", input.n_rows());
        input.read(&CAPS, &reading, |batch| {
            let (Some(names), Some(budgets)) = (batch.texts(0), batch.numbers(1)) else {
                return Ok(());
            };
            for (row, (name, budget)) in names.iter().zip(budgets).enumerate() {
                let place = batch.place(row);
                let Some(group) = self.group_names.get(name) else {
                    let name = shorten(name);
                    let cause = format!("{place}: no element is in group \"{name}\"");
                    let hint = "check its spelling, or drop the line";
                    return Err(refuse(cause, hint));
                };
                if caps.insert(*group, *budget).is_some() {
                    let name = shorten(name);
                    let cause = format!("{place}: group \"{name}\" is named twice");
                    return Err(refuse(cause, "give each group one cap"));
                }
            }
            Ok(())
        })?;
        Caps::per_day(caps).map_err(|error| refuse(error.to_string(), "correct the table"))
    }

    fn candidates(&self) -> Candidates<'_> {
        const SAME: &str = "columns of one table";
        let mut candidates = Candidates::new(&self.rates).expect("fewer rows than a plan can hold");
        if !self.weights.is_empty() {
            candidates = candidates.with_weights(&self.weights).expect(SAME);
        }
        if !self.costs.is_empty() {
            candidates = candidates.with_costs(&self.costs).expect(SAME);
        }
        if !self.groups.is_empty() {
            candidates = candidates.with_groups(&self.groups).expect(SAME);
        }
        candidates
    }
}

fn hash(id: &str) -> u64 {
    XxHash3_64::oneshot(id.as_bytes())
}

/// That no id is there twice: by their hashes, and only where two are alike by
/// reading the ids again.
fn refuse_duplicates(input: &Input, mut hashes: Vec<u64>, talk: Talk) -> Outcome<()> {
    let sorting = talk.progress("looking for duplicates", None);
    hashes.par_sort_unstable();
    let mut alike: Vec<u64> = hashes
        .windows(2)
        .filter(|pair| pair[0] == pair[1])
        .map(|pair| pair[0])
        .collect();
    drop(hashes);
    drop(sorting);
    if alike.is_empty() {
        return Ok(());
    }
    alike.dedup();
    let reading = talk.progress("confirming duplicates", input.n_rows());
    let mut seen: HashMap<String, String> = HashMap::new();
    input.read(&[ID], &reading, |batch| {
        let ids = batch.texts(0).into_iter().flat_map(Texts::iter);
        for (row, id) in ids.enumerate() {
            if alike.binary_search(&hash(id)).is_err() {
                continue;
            }
            if let Some(first) = seen.insert(id.to_owned(), batch.place(row)) {
                let place = batch.place(row);
                let id = shorten(id);
                return Err(Failure::input(format!("cannot read {}", input.name))
                    .cause(format!("{place}: id \"{id}\" is already in {first}"))
                    .hint("ids must be unique; drop one of the two"));
            }
        }
        Ok(())
    })
}

/// Writes the plan, reading the ids once more if they were not kept.
fn write(
    input: &Input,
    elements: &Elements,
    plan: &Plan,
    order: Order,
    out: Option<&Path>,
    talk: Talk,
    unfinished: &Unfinished,
) -> Outcome<()> {
    let columns = [
        ("id", Holds::Text),
        ("frequency_per_day", Holds::Numbers),
        ("freshness", Holds::Numbers),
        ("age_days", Holds::Numbers),
    ];
    let candidates = elements.candidates();
    let mut output = Output::new(out, &columns, unfinished)?;
    let changed = || {
        Failure::failed(format!("cannot read {} again", input.name))
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
        None => input.read(&[ID], &writing, |batch| {
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
}

fn summarize(
    ask: &Ask<'_>,
    plan: &Plan,
    achieved: &Report,
    args: &args::Plan,
    talk: Talk,
) -> Outcome<()> {
    let objective = match ask.objective {
        Objective::Freshness => ObjectiveName::Freshness,
        Objective::Age => ObjectiveName::Age,
        Objective::Content => ObjectiveName::Content,
    };
    let summary = Summary {
        n_elements: achieved.n_elements,
        n_unpolled: achieved.n_unpolled,
        budget_per_day: plan.budget_per_day(),
        used_per_day: achieved.used_per_day,
        objective: name_of(objective),
        policy: name_of(args.policy),
        order: name_of(args.order),
        freshness: achieved.freshness,
        age_days: achieved.age.as_days(),
        content_staleness: achieved.content_staleness,
        price: plan.price(),
    };
    if args.json {
        return print_json(&summary);
    }
    for line in summary.lines() {
        talk.say(line);
    }
    if args.policy == PolicyName::Optimal && talk >= Talk::Normal && summary.freshness >= 0.0 {
        let uniform = ask.spend(PolicyName::Uniform, summary.budget_per_day)?;
        let uniform = report(&uniform, ask.candidates, ask.order);
        talk.say(format!(
            "  uniform would give  freshness {:.4}, age {}",
            uniform.freshness,
            days(uniform.age.as_days()),
        ));
    }
    Ok(())
}

impl Summary {
    /// The summary for a person.
    fn lines(&self) -> Vec<String> {
        let unpolled = match self.n_unpolled {
            0 => "each that changes is polled".to_owned(),
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
                "  budget              {} a day",
                significant(self.budget_per_day)
            ),
        ];
        if (self.used_per_day / self.budget_per_day - 1.0).abs() > 1e-9 {
            let used = significant(self.used_per_day);
            lines.push(format!(
                "  used                {used} a day: nobody else can use, or may have, more"
            ));
        }
        if self.freshness.is_nan() {
            lines.push("  freshness and age   of nothing: no element has weight".to_owned());
            return lines;
        }
        lines.push(format!("  predicted freshness {:.4}", self.freshness));
        lines.push(format!("  predicted age       {}", days(self.age_days)));
        if self.objective == "content" {
            let staleness = significant(self.content_staleness);
            lines.push(format!(
                "  predicted staleness {staleness} days of missed changes' ages"
            ));
        }
        if let Some(price) = self.price {
            lines.push(format!("  price of a poll     {}", significant(price)));
        }
        lines
    }
}

/// Six digits, without an exponent where a person would write none.
fn significant(number: f64) -> String {
    if number == 0.0 || (1e-4..1e9).contains(&number.abs()) {
        let digits = 6 - number.abs().max(1e-4).log10().floor() as i32 - 1;
        let text = format!("{number:.*}", usize::try_from(digits).unwrap_or(0));
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    } else {
        format!("{number:.5e}")
    }
}

/// A span as a person would say it.
fn days(days: f64) -> String {
    if days == f64::INFINITY {
        "without end: some elements are never polled".to_owned()
    } else if days >= 1.0 || days == 0.0 {
        format!("{} days", significant(days))
    } else if days * 24.0 >= 1.0 {
        format!("{} hours", significant(days * 24.0))
    } else {
        format!("{} minutes", significant(days * 1440.0))
    }
}

/// How far around the budget a curve goes, in steps of the square root of two.
const CURVE_STEPS: i32 = 8;

/// What every policy would give for budgets around that of the plan.
fn curve(
    ask: &Ask<'_>,
    plan: &Plan,
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
        ("budget_per_day", Holds::Numbers),
        ("policy", Holds::Text),
        ("freshness", Holds::Numbers),
        ("age_days", Holds::Numbers),
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
        return summarize(ask, plan, &achieved, args, talk);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(significant(500.0), "500");
        assert_eq!(significant(0.123_456_789), "0.123457");
        assert_eq!(significant(123_456_789.0), "123456789");
        assert_eq!(significant(1e-7), "1.00000e-7");
        assert_eq!(significant(0.0), "0");
        assert_eq!(days(0.5), "12 hours");
        assert_eq!(days(3.0), "3 days");
        assert_eq!(days(0.01), "14.4 minutes");
    }
}
