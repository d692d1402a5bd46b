//! The table of rates: what is known of each element, in a file.

use std::collections::HashMap;

use rayon::prelude::*;
use springtide_policy::plan::Candidates;
use springtide_policy::{Caps, Cost, GroupId, Rate, Weight};
use twox_hash::XxHash3_64;

use crate::failure::{Failure, Outcome};
use crate::table::{Batch, Column, Condition, Input, Kind, Texts, shorten};
use crate::talk::{Talk, count};

pub(crate) const ID: Column<'static> = Column {
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

/// Ids are kept in memory up to this many bytes. The ids of more elements, which
/// would take more memory than all the rest, are read again when they are needed.
const KEPT_IDS: usize = 512 << 20;

/// The table of rates.
#[derive(Default)]
pub(crate) struct RateTable {
    /// The ids, batch by batch; `None` if they are too many to keep.
    pub(crate) ids: Option<Vec<Texts>>,
    pub(crate) rates: Vec<Rate>,
    /// Empty where the table has no such column.
    pub(crate) weights: Vec<Weight>,
    pub(crate) costs: Vec<Cost>,
    /// Empty where nobody asks for groups.
    pub(crate) groups: Vec<Option<GroupId>>,
    pub(crate) group_names: HashMap<String, GroupId>,
}

impl RateTable {
    pub(crate) fn read(input: &Input, with_groups: bool, talk: Talk) -> Outcome<Self> {
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
    pub(crate) fn caps(&self, input: &Input, talk: Talk) -> Outcome<Caps> {
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

    pub(crate) fn candidates(&self) -> Candidates<'_> {
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

pub(crate) fn hash(id: &str) -> u64 {
    XxHash3_64::oneshot(id.as_bytes())
}

/// That no id is there twice: by their hashes, and only where two are alike by
/// reading the ids again.
pub(crate) fn refuse_duplicates(input: &Input, mut hashes: Vec<u64>, talk: Talk) -> Outcome<()> {
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
