//! Tables: what blocks, digests and a cursor buy, beside what people do today.

use std::path::Path;

use serde::Serialize;
use springtide_policy::schedule::Terms;
use springtide_policy::{Budget, Span};
use springtide_sim::table::{By, TableHistory, TableMeasures, TableSetup, TableWorld};

use super::{Measured, days, print_lines};
use crate::args::{self, SimPolicy, name_of};
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::talk::{Talk, count, percent};

/// Rows compared that nobody would wait for.
const MOST_READ: f64 = 1e11;

/// How a policy keeps a copy of a table, if it is for tables.
pub(super) fn by(policy: SimPolicy) -> Option<By> {
    let learned = |digests, cursor| By::Learned { digests, cursor };
    Some(match policy {
        SimPolicy::Uniform => By::Uniform,
        SimPolicy::Learned => learned(false, false),
        SimPolicy::LearnedDigests => learned(true, false),
        SimPolicy::LearnedCursor => learned(false, true),
        SimPolicy::LearnedDigestsCursor => learned(true, true),
        SimPolicy::FullCopy => By::FullCopy,
        SimPolicy::CursorOnly => By::CursorOnly,
        _ => return None,
    })
}

/// Whether a policy is for tables alone.
pub(super) fn is_for_tables(policy: SimPolicy) -> bool {
    by(policy).is_some() && !matches!(policy, SimPolicy::Uniform | SimPolicy::Learned)
}

/// The parameters in a file, if it says that they are of a table.
pub(super) fn world(path: &Path, text: &str) -> Outcome<Option<TableWorld>> {
    let refuse = || Failure::input(format!("cannot read {}", path.display()));
    // What is no TOML at all is told of by whoever reads the other kind.
    let Ok(mut values) = toml::from_str::<toml::Table>(text) else {
        return Ok(None);
    };
    match values.remove("kind") {
        None => Ok(None),
        Some(kind) if kind.as_str() == Some("table") => {
            let world = values.try_into().map_err(|error| {
                refuse()
                    .cause(error.to_string().trim_end())
                    .hint("leave out what is to be as by default")
            })?;
            Ok(Some(world))
        }
        Some(kind) => Err(refuse()
            .cause(match kind.as_str() {
                Some(kind) => format!("kind is {kind:?}"),
                None => "kind is not text".to_owned(),
            })
            .hint("give kind = \"table\", or leave it out for a world of sites")),
    }
}

pub(super) fn run(
    mut world: TableWorld,
    path: &Path,
    args: &args::Simulate,
    talk: Talk,
) -> Outcome<()> {
    refuse_nonsense(args)?;
    if let Some(span) = args.span {
        world.span_days = span.as_days();
    }
    let warmup = args.warmup.map_or(0.0, Span::as_days);
    super::refuse_all_warmup(warmup, world.span_days)?;
    let per_day = args.budget.per_day;
    let budget =
        Budget::per_day(per_day).map_err(|error| Failure::input("bad --budget").cause(error))?;
    let history = world.history(args.seed).map_err(|error| {
        Failure::input(format!("cannot make a table of {}", path.display())).cause(error)
    })?;
    let n_read = world.span_days * (per_day * world.block as f64 + history.n_rows() as f64);
    if n_read > MOST_READ {
        return Err(Failure::input("that would take too long")
            .cause(format!("the budget comes to {n_read:.0e} rows"))
            .hint("give a smaller --budget or a shorter --span"));
    }
    let terms = Terms {
        max_interval: args.max_interval,
        window: args.window,
        ..Terms::new(budget)
    };
    let ways: Vec<By> = args.policy.iter().filter_map(|&name| by(name)).collect();
    let setups: Vec<TableSetup> = (ways.iter())
        .map(|&by| TableSetup {
            by,
            terms: terms.clone(),
            warmup,
            seed: args.seed,
        })
        .collect();
    let measured = history.compare(&setups);
    let rows: Vec<Row> = (args.policy.iter().zip(&measured))
        .map(|(&policy, measures)| Row::new(policy, args, &history, measures))
        .collect();
    if args.json {
        return print_json(&rows);
    }
    talk.say(format!(
        "{} rows, {} measured after {}",
        count(history.n_rows()),
        days(world.span_days - warmup),
        days(warmup),
    ));
    print_table(&rows)
}

/// That nothing is asked for which tables do not have.
fn refuse_nonsense(args: &args::Simulate) -> Outcome<()> {
    if let Some(&policy) = args.policy.iter().find(|&&policy| by(policy).is_none()) {
        let what = format!("--policy {} is not for tables", name_of(policy));
        return Err(Failure::input(what).hint(
            "give uniform, learned, learned+digests, learned+cursor, learned+digests+cursor, \
             full-copy or cursor-only",
        ));
    }
    let sampling = &args.sampling;
    let given = [
        ("--pages", args.pages.is_some()),
        ("--caps", args.caps.is_some()),
        ("--start", args.start.is_some()),
        ("--first-pass", args.first_pass.is_some()),
        ("--order", args.order.is_some()),
        ("--last-modified", args.last_modified.is_some()),
        ("--hints", args.hints.is_some()),
        ("--breakdown", args.breakdown.is_some()),
        ("--cycle", sampling.cycle.is_some()),
        ("a budget that changes", !args.budget.later.is_empty()),
    ];
    if let Some((what, _)) = given.into_iter().find(|&(_, is_given)| is_given) {
        return Err(Failure::input(format!("{what} is not for tables"))
            .hint("leave it out, or give another world"));
    }
    Ok(())
}

/// What one way to keep a copy achieved.
#[derive(Serialize)]
struct Row {
    policy: String,
    seed: u64,
    n_elements: Option<usize>,
    n_polls: u64,
    budget_per_day: Option<f64>,
    #[serde(flatten)]
    measured: Measured,
    n_rows: usize,
    gone: Option<f64>,
    n_cursor_polls: u64,
    n_digest_polls: u64,
}

impl Row {
    fn new(
        policy: SimPolicy,
        args: &args::Simulate,
        history: &TableHistory,
        measures: &TableMeasures,
    ) -> Self {
        Self {
            policy: name_of(policy),
            seed: args.seed,
            n_elements: (policy != SimPolicy::CursorOnly).then_some(measures.n_blocks),
            n_polls: measures.of_rows.n_polls,
            budget_per_day: (policy != SimPolicy::FullCopy).then_some(args.budget.per_day),
            measured: Measured::new(&measures.of_rows),
            n_rows: history.n_rows(),
            gone: measures.gone.is_finite().then_some(measures.gone),
            n_cursor_polls: measures.n_cursor,
            n_digest_polls: measures.n_digests,
        }
    }

    fn stale(&self) -> Option<f64> {
        self.measured.freshness.map(|freshness| 1.0 - freshness)
    }
}

fn print_table(rows: &[Row]) -> Outcome<()> {
    let uniform = (rows.iter())
        .find(|row| row.policy == name_of(SimPolicy::Uniform))
        .and_then(Row::stale)
        .filter(|&stale| stale > 0.0);
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let share = |number: Option<f64>| or_none(number.map(percent));
    let mut heads = vec!["policy", "stale"];
    if uniform.is_some() {
        heads.push("against uniform");
    }
    heads.extend([
        "of which gone",
        "age",
        "polls",
        "of the cursor",
        "of digests",
    ]);
    let mut lines = vec![heads.iter().map(ToString::to_string).collect::<Vec<_>>()];
    let number = |n: u64| count(usize::try_from(n).unwrap_or(usize::MAX));
    for row in rows {
        let mut cells = vec![row.policy.clone(), share(row.stale())];
        if let Some(uniform) = uniform {
            let relative = |stale| percent(stale / uniform);
            cells.push(or_none(row.stale().map(relative)));
        }
        cells.extend([
            share(row.gone),
            or_none(row.measured.age_days.map(days)),
            number(row.n_polls),
            number(row.n_cursor_polls),
            number(row.n_digest_polls),
        ]);
        lines.push(cells);
    }
    print_lines(&lines)
}
