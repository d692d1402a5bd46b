//! `springtide estimate`: from what polls showed to how often elements change.

use std::collections::HashMap;
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rayon::prelude::*;
use serde::Serialize;
use springtide_policy::estimate::{
    Bayes, BiasReduced, Estimator, LastModified, Likelihood, Naive, Prior, RateEstimate,
};
use springtide_policy::{Observation, Outcome as Seen, Span};

use crate::args::{self, Method};
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::table::{
    Batch, Cells, Column, ColumnType, Condition, Input, Kind, Output, Texts, Unfinished, shorten,
};
use crate::talk::{Progress, Talk, count};

pub(crate) fn run(args: &args::Estimate, talk: Talk, unfinished: &Unfinished) -> Outcome<()> {
    let input = Input::new(&args.observations)?;
    let history = History::read(&input, talk)?;
    let estimating = talk.progress("estimating", Some(history.ids.len() as u64));
    let estimates = history.estimates(args.method, &estimating);
    drop(estimating);
    let to_file = args.out.as_deref().filter(|path| *path != Path::new("-"));
    if !args.json || to_file.is_some() {
        write(&history.ids, &estimates, args.out.as_deref(), unfinished)?;
    }
    if args.json {
        return print_json(&rows(&history.ids, &estimates));
    }
    talk.explain(format!(
        "{} polls of {} elements",
        count(history.polls.len()),
        count(history.ids.len())
    ));
    Ok(())
}

const COLUMNS: [Column; 6] = [
    Column {
        name: "id",
        kind: Kind::Id,
        required: true,
    },
    Column {
        name: "elapsed_days",
        kind: Kind::Number(Condition {
            holds: |days| days > 0.0,
            says: "the time since the poll before is above zero",
            hint: "drop the line: a poll at the same moment as another shows nothing",
        }),
        // Unless there is a timestamp.
        required: false,
    },
    Column {
        name: "changed",
        kind: Kind::Flag(Condition {
            holds: |changed| changed == 0.0 || changed == 1.0,
            says: "it is 0 or 1, or false or true",
            hint: "give 1 if the poll found a change, else 0",
        }),
        required: true,
    },
    Column {
        name: "changed_age_days",
        kind: Kind::Optional(Condition {
            holds: |days| days >= 0.0,
            says: "a change is not in the future",
            hint: "leave it empty where the time of the last change is not known",
        }),
        required: false,
    },
    Column {
        name: "group",
        kind: Kind::Text,
        required: false,
    },
    Column {
        name: "timestamp",
        kind: Kind::Text,
        required: false,
    },
];

/// All polls, by element.
struct History {
    /// In order of first appearance.
    ids: Texts,
    groups: Vec<u32>,
    n_groups: u32,
    /// Polls of the first element, then of the second, …
    polls: Vec<Observation>,
    /// Behind the last poll of each.
    ends: Vec<usize>,
}

impl History {
    fn read(input: &Input, talk: Talk) -> Outcome<Self> {
        let mut rows = PollRows::default();
        let reading = talk.progress("reading", input.n_rows());
        input.read(&COLUMNS, &reading, |batch| rows.take(input, &batch))?;
        drop(reading);
        if rows.ids.len() == 0 {
            return Err(Failure::input(format!("cannot read {}", input.name))
                .cause("there are no rows")
                .hint("give one row per poll"));
        }
        Ok(rows.into_history())
    }

    fn of(&self, element: usize) -> &[Observation] {
        let start = if element == 0 {
            0
        } else {
            self.ends[element - 1]
        };
        &self.polls[start..self.ends[element]]
    }

    fn estimates(&self, method: Method, progress: &Progress) -> Vec<RateEstimate> {
        let each = |estimator: &(dyn Estimator + Sync)| {
            let estimate = |element: usize| {
                progress.advance(1);
                estimator.estimate(self.of(element))
            };
            let elements = (0..self.ids.len()).into_par_iter();
            elements.map(estimate).collect()
        };
        match method {
            Method::Naive => each(&Naive),
            Method::BiasReduced => each(&BiasReduced),
            Method::Likelihood => each(&Likelihood),
            Method::LastModified => each(&LastModified),
            Method::Bayes => {
                let bayes: Vec<Bayes> = self.priors().into_iter().map(Bayes::new).collect();
                let estimate = |element: usize| {
                    progress.advance(1);
                    bayes[self.groups[element] as usize].estimate(self.of(element))
                };
                let elements = (0..self.ids.len()).into_par_iter();
                elements.map(estimate).collect()
            }
        }
    }

    /// A prior for each group, fitted to its elements; without groups, one for all.
    fn priors(&self) -> Vec<Prior> {
        let all: Vec<&[Observation]> = (0..self.ids.len()).map(|index| self.of(index)).collect();
        let mut members: Vec<Vec<&[Observation]>> = vec![Vec::new(); self.n_groups as usize];
        for (polls, group) in all.into_iter().zip(&self.groups) {
            members[*group as usize].push(polls);
        }
        Prior::by_group(&members)
    }
}

/// Polls as they come in.
#[derive(Default)]
struct PollRows {
    numbers: HashMap<String, u32>,
    ids: Texts,
    group_numbers: HashMap<String, u32>,
    groups: Vec<u32>,
    /// The last poll of each element, where timestamps are given.
    polled_at: Vec<Timestamp>,
    elements: Vec<u32>,
    polls: Vec<Observation>,
}

impl PollRows {
    fn take(&mut self, input: &Input, batch: &Batch) -> Outcome<()> {
        let (Some(ids), Some(changed)) = (batch.texts(0), batch.numbers(2)) else {
            return Ok(());
        };
        if batch.numbers(1).is_none() && batch.texts(5).is_none() {
            return Err(Failure::input(format!("cannot read {}", input.name))
                .cause("there is no column elapsed_days, and no timestamp instead")
                .hint("the first line must name id, elapsed_days (or timestamp), changed"));
        }
        for (row, id) in ids.iter().enumerate() {
            let failure = |cause: String| {
                Failure::input(format!("cannot read {}", input.name))
                    .cause(format!("{}: {cause}", batch.place(row)))
            };
            let element = self.element(id)?;
            let group = batch.texts(4).map_or("", |groups| groups.get(row));
            let group = self.group(group);
            match self.groups.get(element as usize) {
                None => self.groups.push(group),
                Some(before) if *before == group => {}
                Some(_) => {
                    let id = shorten(id);
                    return Err(failure(format!("id \"{id}\" was in another group before"))
                        .hint("an element has one group"));
                }
            }
            let elapsed = match (batch.numbers(1), batch.texts(5)) {
                (Some(elapsed), _) => Some(elapsed[row]),
                (None, Some(timestamps)) => self
                    .since_poll_before(element, timestamps.get(row))
                    .map_err(|(cause, hint)| failure(cause).hint(hint))?,
                (None, None) => None,
            };
            // The first of an element's timestamps is where its first interval begins.
            let Some(elapsed) = elapsed else { continue };
            let age = batch
                .numbers(3)
                .map(|ages| ages[row])
                .filter(|age| !age.is_nan());
            let outcome = if changed[row] == 1.0 {
                let age = age.and_then(|days| Span::days(days).ok());
                Seen::Changed { age }
            } else {
                Seen::Unchanged
            };
            let poll = Span::days(elapsed).and_then(|span| Observation::new(span, outcome));
            self.polls.push(poll.expect("the reader has checked it"));
            self.elements.push(element);
        }
        Ok(())
    }

    /// Days since the poll before, of which there is none at first; else what is wrong,
    /// and what to do about it.
    fn since_poll_before(
        &mut self,
        element: u32,
        timestamp: &str,
    ) -> Result<Option<f64>, (String, &'static str)> {
        const SECONDS_PER_DAY: f64 = 86_400.0;
        let shown = shorten(timestamp);
        let at = moment_of(timestamp.trim()).ok_or_else(|| {
            (
                format!("timestamp is \"{shown}\"; it is not a time by RFC 3339"),
                "write it as 2026-05-01T12:00:00Z",
            )
        })?;
        let Some(before) = self.polled_at.get_mut(element as usize) else {
            self.polled_at.push(at);
            return Ok(None);
        };
        let elapsed = at.duration_since(*before).as_secs_f64() / SECONDS_PER_DAY;
        if elapsed <= 0.0 {
            return Err((
                format!("timestamp is \"{shown}\"; the poll before was not earlier"),
                "sort the rows of each id by time, and drop polls at the same moment",
            ));
        }
        *before = at;
        Ok(Some(elapsed))
    }

    fn element(&mut self, id: &str) -> Outcome<u32> {
        if let Some(element) = self.numbers.get(id) {
            return Ok(*element);
        }
        let element = u32::try_from(self.ids.len())
            .map_err(|_| Failure::input("too many elements").hint("there may be 4,294,967,295"))?;
        self.numbers.insert(id.to_owned(), element);
        self.ids.push(id);
        Ok(element)
    }

    fn group(&mut self, name: &str) -> u32 {
        if let Some(group) = self.group_numbers.get(name) {
            return *group;
        }
        let group = self.group_numbers.len() as u32;
        self.group_numbers.insert(name.to_owned(), group);
        group
    }

    /// Sorts the polls by element, keeping the order of each element's own.
    fn into_history(self) -> History {
        let mut starts = vec![0; self.ids.len() + 1];
        for element in &self.elements {
            starts[*element as usize + 1] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut next = starts.clone();
        let mut sorted = self.polls.clone();
        for (element, poll) in self.elements.iter().zip(&self.polls) {
            let place = &mut next[*element as usize];
            sorted[*place] = *poll;
            *place += 1;
        }
        History {
            ids: self.ids,
            groups: self.groups,
            n_groups: self.group_numbers.len() as u32,
            polls: sorted,
            ends: starts[1..].to_vec(),
        }
    }
}

/// A time by RFC 3339, or one that tells no zone, as pandas writes it: then of UTC. Only the
/// spans between them count.
fn moment_of(text: &str) -> Option<Timestamp> {
    let zoned = text.parse::<Timestamp>();
    zoned.ok().or_else(|| {
        let plain: DateTime = text.parse().ok()?;
        TimeZone::UTC.to_timestamp(plain).ok()
    })
}

fn write(
    ids: &Texts,
    estimates: &[RateEstimate],
    out: Option<&Path>,
    unfinished: &Unfinished,
) -> Outcome<()> {
    let columns = [
        ("id", ColumnType::Text),
        ("n_polls", ColumnType::Counts),
        ("n_changes", ColumnType::Counts),
        ("rate_per_day", ColumnType::Numbers),
        ("low_per_day", ColumnType::Numbers),
        ("high_per_day", ColumnType::Numbers),
    ];
    let counts = |of: fn(&RateEstimate) -> usize| {
        Cells::Counts(
            estimates
                .iter()
                .map(|estimate| of(estimate) as u64)
                .collect(),
        )
    };
    let numbers = |of: fn(&RateEstimate) -> f64| Cells::Numbers(estimates.iter().map(of).collect());
    let mut output = Output::new(out, &columns, unfinished)?;
    output.write(&[
        Cells::Texts(ids),
        counts(|estimate| estimate.n_polls),
        counts(|estimate| estimate.n_changes),
        numbers(|estimate| estimate.per_day),
        numbers(|estimate| estimate.low_per_day),
        numbers(|estimate| estimate.high_per_day),
    ])?;
    output.finish()
}

/// A row for programs; null is infinite.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    n_polls: usize,
    n_changes: usize,
    rate_per_day: f64,
    low_per_day: f64,
    high_per_day: f64,
}

fn rows<'a>(ids: &'a Texts, estimates: &[RateEstimate]) -> Vec<Row<'a>> {
    let row = |(id, estimate): (&'a str, &RateEstimate)| Row {
        id,
        n_polls: estimate.n_polls,
        n_changes: estimate.n_changes,
        rate_per_day: estimate.per_day,
        low_per_day: estimate.low_per_day,
        high_per_day: estimate.high_per_day,
    };
    ids.iter().zip(estimates).map(row).collect()
}
