//! `springtide plan` without a table: the project's own plan, by what its polls have
//! shown, and what other budgets would buy.

use std::collections::BTreeSet;

use springtide_policy::{Caps, Gamma, Objective, Rate, Weight};
use springtide_store::{Brief, ElementId, Role, SourceId, SourceKind, State};

use super::Project;
use crate::args::{self, ObjectiveName, SettingFlags};
use crate::failure::{Failure, Outcome};
use crate::moment;
use crate::plan::solve;
use crate::rates::RateTable;
use crate::table::{Texts, Unfinished};
use crate::talk::{Talk, count};
use crate::view::{Seen, View};

pub(crate) fn run(
    args: &args::Plan,
    project: &Project,
    talk: Talk,
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
    let mut view = View::new(&*store, &config.settings, now).map_err(refuse)?;
    let reading = talk.progress(
        "reading",
        Some(u64::from(store.next_element().map_err(refuse)?)),
    );
    let mut briefs: Vec<(ElementId, Brief)> = Vec::new();
    let sources = store.sources().map_err(refuse)?.into_iter();
    // Their rows come many to a request: a plan of polls says nothing of them.
    let searches: BTreeSet<SourceId> = sources
        .filter(|source| source.kind == SourceKind::Search)
        .map(|source| source.id)
        .collect();
    let (mut n_rows, mut n_entries) = (0, 0);
    store
        .scan(1, &mut |id, brief| {
            reading.advance(1);
            if brief.role == Role::Listing || brief.state == State::Gone {
                return;
            }
            if brief.role == Role::Entry {
                n_entries += 1;
            } else if searches.contains(&brief.source) {
                n_rows += 1;
            } else {
                briefs.push((id, *brief));
            }
        })
        .map_err(refuse)?;
    drop(reading);
    let mut groups: Vec<_> = briefs.iter().map(|(_, brief)| brief.group).collect();
    groups.sort_unstable();
    groups.dedup();
    view.prepare(&*store, &groups).map_err(refuse)?;
    let mut table = RateTable::default();
    let mut ids = Texts::default();
    let mut n_unknown = 0;
    for (id, brief) in &briefs {
        let rate = view.of(Seen::from(brief)).belief.map(Gamma::mean);
        let Some(Ok(rate)) = rate.map(Rate::per_day) else {
            n_unknown += 1;
            continue;
        };
        let weight = Weight::new(super::rows::decimal(brief.weight)).unwrap_or(Weight::ONE);
        table.rates.push(rate);
        table.weights.push(weight);
        ids.push(&id.0.to_string());
    }
    table.ids = Some(vec![ids]);
    if n_rows > 0 {
        talk.say(format!(
            "{} rows of search sources are left out: they come with queries",
            count(n_rows)
        ));
    }
    if n_entries > 0 {
        talk.say(format!(
            "{} entries of feeds are left out: they come with their feeds",
            count(n_entries)
        ));
    }
    if table.rates.is_empty() && n_rows > 0 && n_unknown == 0 {
        return Err(Failure::input("there is nothing to plan")
            .cause("there are only rows of search sources, which come with queries")
            .hint("`springtide cover` says beforehand which queries would refresh rows"));
    }
    if table.rates.is_empty() {
        return Err(Failure::input("there is nothing to plan")
            .cause("no poll has shown yet how often anything changes")
            .hint("let `springtide run` poll everything once or twice first"));
    }
    if n_unknown > 0 {
        talk.say(format!(
            "{} elements are left out: never polled",
            count(n_unknown)
        ));
    }
    let mut args = args.clone();
    let goal = &mut args.goal;
    if goal.budget.is_none() && goal.target_freshness.is_none() && goal.target_age.is_none() {
        goal.budget = Some(config.settings.budget.per_day);
    }
    if args.objective.is_none() && args.goal.target_age.is_none() {
        args.objective = Some(match config.settings.policy.objective {
            Objective::Freshness => ObjectiveName::Freshness,
            Objective::Age => ObjectiveName::Age,
            Objective::Content => ObjectiveName::Content,
        });
    }
    solve(&table, None, &Caps::default(), &args, talk, unfinished)
}
