//! `springtide plan` without a table: the project's own plan, by what its polls have
//! shown, and what other budgets would buy.

use springtide_engine::view::{self, Outlook};
use springtide_policy::plan::Rule;
use springtide_policy::{Caps, Objective};

use super::{Project, sources};
use crate::args::{self, ObjectiveName, OrderName, PolicyName, SettingFlags};
use crate::columns::Colour;
use crate::failure::{Failure, Outcome};
use crate::moment;
use crate::plan::{Origin, solve};
use crate::rates::RateTable;
use crate::table::{Texts, Unfinished};
use crate::talk::{Talk, count, plural};

pub(crate) fn run(
    args: &args::Plan,
    project: &Project,
    talk: Talk,
    colour: Colour,
    unfinished: &Unfinished,
) -> Outcome<()> {
    if args.caps.is_some() {
        return Err(Failure::input("--caps is for a table of rates")
            .hint("limits of hosts are in [[group]] of springtide.toml"));
    }
    let flags = SettingFlags::default();
    let config = project.config(&flags, talk)?;
    let store = project.read()?;
    let refuse = |error| project.refuse(&error);
    let now = moment::now();
    let settings = &config.settings;
    let n_elements = u64::from(store.next_element().map_err(refuse)?);
    let reading = talk.progress("reading", Some(n_elements));
    let outlook = Outlook::read(&*store, settings, now, &mut || reading.advance(1));
    let outlook = outlook.map_err(refuse)?;
    drop(reading);
    let polled = outlook.into_polled();
    let mut ids = Texts::default();
    polled.ids.iter().for_each(|id| ids.push(&id.0.to_string()));
    let table = RateTable {
        ids: Some(vec![ids]),
        rates: polled.rates,
        weights: polled.weights,
        ..RateTable::default()
    };
    if polled.n_rows > 0 {
        talk.say(format!(
            "{} of search sources left out: rows come with queries",
            plural(polled.n_rows, "row")
        ));
    }
    if polled.n_entries > 0 {
        let n = match polled.n_entries {
            1 => "1 entry".to_owned(),
            n => format!("{} entries", count(n as usize)),
        };
        talk.say(format!(
            "{n} of feeds left out: entries come with their feed"
        ));
    }
    let n_elements = table.rates.len() as u64;
    if n_elements == 0 && polled.n_rows > 0 {
        return Err(Failure::input("there is nothing to plan")
            .cause("there are only rows of search sources, which come with queries")
            .hint("`springtide cover` says beforehand which queries would refresh rows"));
    }
    if n_elements == 0 {
        return Err(Failure::input("there is nothing to plan")
            .cause("no elements are known yet")
            .hint("`springtide add URL` adds a source, and `springtide run` polls it"));
    }
    if polled.n_known == 0 {
        return Err(Failure::input("there is nothing to plan")
            .cause("no poll has shown yet how often anything changes")
            .hint("let `springtide run` poll everything twice first"));
    }
    if polled.n_known < n_elements {
        talk.say(format!(
            "{} polled less than twice: assumed to change as is usual here",
            plural(n_elements - polled.n_known, "element")
        ));
    }
    let mut args = args.clone();
    let goal = &mut args.goal;
    let has_goal =
        goal.budget.is_some() || goal.target_freshness.is_some() || goal.target_age.is_some();
    let has_terms = args.policy.is_some()
        || args.objective.is_some()
        || args.floor.is_some()
        || args.order != OrderName::Fixed;
    let predicted = match has_goal || has_terms {
        true => None,
        false => {
            let sources = sources(project, &*store, &config)?;
            view::predicted(&*store, settings, &sources, now).map_err(refuse)?
        }
    };
    if !has_goal {
        goal.budget = Some(config.budget());
    }
    if args.objective.is_none() && args.goal.target_age.is_none() {
        args.objective = Some(match settings.policy.objective {
            Objective::Freshness => ObjectiveName::Freshness,
            Objective::Age => ObjectiveName::Age,
            Objective::Content => ObjectiveName::Content,
        });
    }
    let rule = view::present_policy(settings).map(|policy| policy.rule);
    args.policy = args.policy.or(match rule {
        Some(Rule::Uniform) => Some(PolicyName::Uniform),
        Some(Rule::Proportional) => Some(PolicyName::Proportional),
        Some(Rule::Optimal(_)) | None => Some(PolicyName::Optimal),
    });
    args.floor = args
        .floor
        .or_else(|| Some(view::floor(settings).as_per_day()));
    let from = Origin::Project(predicted);
    solve(
        &table,
        from,
        &Caps::default(),
        &args,
        talk,
        colour,
        unfinished,
    )
}
