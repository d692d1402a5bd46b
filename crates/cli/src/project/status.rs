//! `springtide status`: how fresh the copy is now, measured and predicted.

use springtide_engine::settings::PolicyName;
use springtide_engine::view::{self, SourceStatus};
use springtide_policy::Objective;
use springtide_store::Moment;

use super::Project;
use super::log::since;
use crate::args::SettingFlags;
use crate::args::project::Status;
use crate::columns::{Colour, Columns, Side};
use crate::config::Config;
use crate::failure::{Code, Failure, Outcome};
use crate::json::print_json;
use crate::moment::{self, brief, relative, time_of_day};
use crate::plan::significant;
use crate::table::{shorten_to, unwritable};
use crate::talk::{Talk, count, percent, plural, size};
use crate::width::{self, wrapped};

/// Sources in the table for a person.
const WORST: usize = 10;
/// Kinds of errors that are told to a person.
const MOST_ERRORS: usize = 3;
/// The longest example of one, in characters.
const LONGEST_EXAMPLE: usize = 120;
/// What a line is about takes so many characters.
const LABEL: usize = 12;
/// The longest error of a source.
const LONGEST_ERROR: usize = 300;
/// What an element that is gone says is no error to a person.
const GONE: [&str; 3] = ["gone", "moved", "unlisted"];

pub(crate) fn run(args: &Status, project: &Project, talk: Talk, colour: Colour) -> Outcome<()> {
    let now = moment::now();
    let config = project.config(&SettingFlags::default(), talk)?;
    if args.check && !config.target.is_set() {
        return Err(Failure::input("there is no target to check")
            .cause(format!(
                "[target] is not in {}",
                project.folder.join(crate::config::FILE).display()
            ))
            .hint("add [target] with freshness = \"95%\", say"));
    }
    let since = since(args.since.as_deref(), now)?;
    let settings = &config.settings;
    let document = springtide_server::status(&project.folder, settings, config.target, since, now)
        .map_err(|error| crate::live::broken(&project.folder, error))?;
    warn_of_max_interval(&config, document.n_elements, talk);
    if args.json {
        print_json(&document)?;
    } else {
        print(&document, &config, now, talk, colour)?;
    }
    if args.check {
        return check(&document, &config, args.json, talk);
    }
    Ok(())
}

/// Says so if the budget does not allow what `max_interval` asks for.
fn warn_of_max_interval(config: &Config, n_elements: u64, talk: Talk) {
    let settings = &config.settings;
    let round = view::round_beyond_max_interval(settings, n_elements);
    if let (Some(round), Some(longest)) = (round, settings.policy.max_interval) {
        talk.say(format!(
            "warning: the budget takes {} for one poll of every element, and max_interval is {}; \
             all are polled equally often",
            brief(round.as_days() * 86_400.0),
            brief(longest.as_days() * 86_400.0)
        ));
    }
}

/// Against the target: the exit code, and a word about what is near.
fn check(document: &view::Status, config: &Config, as_json: bool, talk: Talk) -> Outcome<()> {
    let (target, unit) = (config.target, config.budget_unit);
    let missed: Vec<String> = (target.misses(document).iter())
        .map(ToString::to_string)
        .collect();
    let budget = document.budget;
    let hint = match budget.short_per_day.filter(|short| *short > 0.0) {
        Some(short) => format!(
            "it takes about {} polls {} in the long run, {} more than \
             budget.polls allows; raise that, or lower the target",
            significant(unit.of(budget.per_day + short)),
            unit.each(),
            significant(unit.of(short))
        ),
        None => "raise budget.polls, or lower the target".to_owned(),
    };
    if let Some((is, limit)) = target.warning(document) {
        let (is, limit) = (brief(is), brief(limit));
        talk.say(format!("warning: age is {is}, above {limit}"));
    }
    if missed.is_empty() {
        if !as_json {
            talk.say("the target is met");
        }
        return Ok(());
    }
    Err(Failure::new(Code::TargetMissed, "the target is missed")
        .cause(missed.join("; "))
        .hint(hint))
}

/// What the target asks for, as far as a budget can be told for it.
fn wanted(config: &Config) -> String {
    let target = config.target;
    let fresh = target
        .freshness
        .map(|share| format!("{} fresh", percent(share)));
    let age = target.error_after.map(|age| {
        let seconds = age.as_days() * 86_400.0;
        let policy = &config.settings.policy;
        let gives_up = matches!(policy.name, PolicyName::Learned | PolicyName::Optimal)
            && policy.objective != Objective::Age;
        // A plan for freshness gives some elements up, and they grow old.
        let how = if gives_up {
            " by objective = \"age\""
        } else {
            ""
        };
        format!("an age of {}{how}", brief(seconds))
    });
    let both: Vec<String> = [fresh, age].into_iter().flatten().collect();
    both.join(", ")
}

fn print(
    document: &view::Status,
    config: &Config,
    now: Moment,
    talk: Talk,
    colour: Colour,
) -> Outcome<()> {
    use std::io::Write;
    let mut lines = Vec::new();
    let freshness = document.freshness;
    lines.push(match (freshness.measured, freshness.low, freshness.high) {
        (Some(measured), Some(low), Some(high)) => format!(
            "freshness   {} measured ({} to {}, {} since {})",
            percent(measured),
            percent(low),
            percent(high),
            plural(freshness.n_audits, "audit poll"),
            freshness.since.map(time_of_day).unwrap_or_default(),
        ),
        _ => "freshness   not measured yet".to_owned(),
    });
    lines.push(
        match (
            freshness.predicted,
            freshness.predicted_low,
            freshness.predicted_high,
        ) {
            (Some(predicted), Some(low), Some(high)) => format!(
                "            {} predicted ({} to {})",
                percent(predicted),
                percent(low),
                percent(high),
            ),
            _ => "            not predicted yet: no element was polled twice".to_owned(),
        },
    );
    let age = document.age_seconds;
    let measured = age.measured.map(|age| format!("{} measured", brief(age)));
    let predicted = age.predicted.map(|age| format!("{} predicted", brief(age)));
    let both: Vec<String> = [measured, predicted].into_iter().flatten().collect();
    if !both.is_empty() {
        lines.push(format!("age         {}", both.join(", ")));
    }
    let budget = &document.budget;
    let assumed = if config.is_budget_assumed {
        " (assumed: no [budget] is set)"
    } else {
        ""
    };
    let unit = config.budget_unit;
    let n_polls = significant(unit.of(budget.per_day));
    lines.push(format!(
        "budget      {n_polls} {} {}{assumed}, {} used since {}",
        if n_polls == "1" { "poll" } else { "polls" },
        unit.each(),
        count(budget.used_today as usize),
        // Days are counted in UTC, and begin when they do where the reader is.
        time_of_day(moment::midnight(now))
    ));
    if let Some(short) = budget.short_per_day {
        let wanted = wanted(config);
        lines.push(match short > 0.0 {
            true => format!(
                "            {} polls {} short of the target ({wanted}) in the long run",
                significant(unit.of(short)),
                unit.each()
            ),
            false => format!("            enough for the target ({wanted}) in the long run"),
        });
    }
    let states = document.states;
    let by_state = [
        (states.ok, "ok"),
        (states.new, "new"),
        (states.failing, "failing"),
        (states.blocked, "blocked"),
    ];
    let by_state = by_state.iter().filter(|(n, _)| *n > 0);
    let by_state: Vec<String> = by_state
        .map(|(n, state)| format!("{} {state}", count(*n as usize)))
        .collect();
    let mut by_state = match by_state.is_empty() {
        true => String::new(),
        false => format!(": {}", by_state.join(", ")),
    };
    if states.gone > 0 {
        // They are not among those that there are.
        by_state.push_str(&format!(" (and {} gone)", count(states.gone as usize)));
    }
    lines.push(format!(
        "elements    {} in {}{by_state}",
        count(document.n_elements as usize),
        plural(document.n_sources as u64, "source")
    ));
    lines.push(format!(
        "polls       {}, which found {}",
        count(document.n_polls as usize),
        plural(document.n_changes, "change")
    ));
    if let Some(disk) = document.disk {
        let copies = match disk.copies_bytes {
            0 => String::new(),
            n => format!(", {} for copies of tables", size(n)),
        };
        lines.push(format!(
            "disk        {} for bodies, {} for the store{copies}",
            size(disk.bodies_bytes),
            size(disk.store_bytes)
        ));
    }
    if let Some(seconds) = document.oldest_poll_age_seconds {
        lines.push(format!("oldest poll {} ago", brief(seconds)));
    }
    let errors = document.errors.iter();
    let errors = errors.filter(|error| !GONE.contains(&&*error.kind));
    for (index, error) in errors.take(MOST_ERRORS).enumerate() {
        let label = format!("{:LABEL$}", if index == 0 { "errors" } else { "" });
        let example = shorten_to(&error.example, LONGEST_EXAMPLE);
        lines.push(format!(
            "{label}{}: {}, such as {example}",
            error.kind,
            count(error.n as usize)
        ));
    }
    let width = width::of_stdout();
    let lines = lines.iter().flat_map(|line| {
        let (label, text) = line.split_at(LABEL);
        wrapped(label, text, width)
    });
    let lines: Vec<String> = lines.collect();
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{}", lines.join("\n")).and_then(|()| stdout.flush());
    written.map_err(|error| unwritable("standard output", &error))?;
    drop(stdout);

    let mut parts: Vec<&SourceStatus> = document.sources.iter().collect();
    let is_odd = |part: &&SourceStatus| part.error.is_some() || !part.is_in_file || part.is_paused;
    if parts.len() > 1 || parts.iter().any(is_odd) {
        let known = |part: &SourceStatus| part.freshness.predicted.or(part.freshness.measured);
        // The worst first; what fails is worse than what is stale.
        parts.sort_by(|a, b| {
            let rank = |part: &SourceStatus| (part.error.is_none(), known(part).unwrap_or(2.0));
            let ((a_fine, a), (b_fine, b)) = (rank(a), rank(b));
            a_fine.cmp(&b_fine).then(a.total_cmp(&b))
        });
        let mut columns = Columns::new(&[
            ("source", Side::Left),
            ("measured", Side::Right),
            ("predicted", Side::Right),
            ("elements", Side::Right),
            ("failing", Side::Right),
            ("changes", Side::Right),
            ("next poll", Side::Right),
        ]);
        let mut odd = Vec::new();
        let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
        for part in parts.iter().take(WORST) {
            let next = part.next_poll_at.map(|next| relative(next, now));
            let what = match (&part.error, part.is_in_file) {
                _ if part.is_paused => Some("paused; kept, and not polled"),
                (Some(error), _) => Some(&*error.message),
                (None, true) => None,
                (None, false) => Some("not in springtide.toml; kept, and not polled"),
            };
            if let Some(what) = what {
                let what = shorten_to(what, LONGEST_ERROR);
                odd.extend(wrapped(&format!("{}: ", part.name), &what, width));
            }
            columns.push(vec![
                part.name.clone(),
                share(part.freshness.measured),
                share(part.freshness.predicted),
                count(part.n_elements as usize),
                count(part.states.failing as usize),
                count(part.n_changes as usize),
                next.unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout).map_err(|error| unwritable("standard output", &error))?;
        drop(stdout);
        columns.leave_out(&["failing"], "0");
        columns.print(colour)?;
        let mut stdout = std::io::stdout().lock();
        let written = odd.iter().try_for_each(|line| writeln!(stdout, "{line}"));
        written.map_err(|error| unwritable("standard output", &error))?;
        drop(stdout);
        if parts.len() > WORST {
            let more = count(parts.len() - WORST);
            talk.say(format!(
                "and {more} more sources; `springtide ls` lists all"
            ));
        }
    }
    Ok(())
}
