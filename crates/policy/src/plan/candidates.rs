use std::ops::Range;

use crate::{Caps, Cost, Error, GroupId, Rate, Weight};

/// The elements that share a budget: their rates and, where they differ, their
/// weights, the costs of polling them and the groups they belong to.
///
/// Columns rather than a list of elements: a plan for a hundred million of them
/// is little more than a few passes over these.
#[derive(Debug, Clone, Copy)]
pub struct Candidates<'a> {
    rates: &'a [Rate],
    weights: Option<&'a [Weight]>,
    costs: Option<&'a [Cost]>,
    groups: Option<&'a [Option<GroupId>]>,
}

impl<'a> Candidates<'a> {
    /// Elements with these rates, each of weight one and cost one, in no group.
    ///
    /// # Errors
    /// If there are more than a 32-bit number can count.
    pub fn new(rates: &'a [Rate]) -> Result<Self, Error> {
        if u32::try_from(rates.len()).is_err() {
            return Err(Error::TooMany(rates.len()));
        }
        Ok(Self {
            rates,
            weights: None,
            costs: None,
            groups: None,
        })
    }

    /// The same with a weight for each.
    ///
    /// # Errors
    /// If there are more or fewer weights than elements.
    pub fn with_weights(self, weights: &'a [Weight]) -> Result<Self, Error> {
        self.same_length(weights.len())?;
        Ok(Self {
            weights: Some(weights),
            ..self
        })
    }

    /// The same with a cost for each.
    ///
    /// # Errors
    /// If there are more or fewer costs than elements.
    pub fn with_costs(self, costs: &'a [Cost]) -> Result<Self, Error> {
        self.same_length(costs.len())?;
        Ok(Self {
            costs: Some(costs),
            ..self
        })
    }

    /// The same with a group for each, or none.
    ///
    /// # Errors
    /// If there are more or fewer groups than elements.
    pub fn with_groups(self, groups: &'a [Option<GroupId>]) -> Result<Self, Error> {
        self.same_length(groups.len())?;
        Ok(Self {
            groups: Some(groups),
            ..self
        })
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.rates.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// The rate of element number `index`.
    pub fn rate(&self, index: usize) -> Rate {
        self.rates[index]
    }

    /// The weight of element number `index`.
    pub fn weight(&self, index: usize) -> Weight {
        self.weights.map_or(Weight::ONE, |weights| weights[index])
    }

    /// The cost of a poll of element number `index`.
    pub fn cost(&self, index: usize) -> Cost {
        self.costs.map_or(Cost::ONE, |costs| costs[index])
    }

    /// Whether costs were given.
    pub(super) fn has_costs(&self) -> bool {
        self.costs.is_some()
    }

    /// The group of element number `index`.
    pub fn group(&self, index: usize) -> Option<GroupId> {
        self.groups.and_then(|groups| groups[index])
    }

    fn same_length(&self, n_given: usize) -> Result<(), Error> {
        if n_given == self.len() {
            Ok(())
        } else {
            Err(Error::Length {
                n_elements: self.len(),
                n_given,
            })
        }
    }
}

/// How many elements are looked at together: as many as fit well into the
/// nearest cache with all that is known of them.
pub(super) const BLOCK: usize = 512;

/// Some elements as the inner loops want them.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) rates: &'a [Rate],
    /// Rate times cost over weight: all that matters for whether a poll is worth
    /// the price. Infinite without weight, and not a number with neither weight
    /// nor changes.
    pub(super) ratios: &'a [f64],
    pub(super) costs: &'a [Cost],
}

/// Room for a block.
pub(super) struct Buffer {
    rates: Vec<Rate>,
    ratios: Vec<f64>,
    costs: Vec<Cost>,
}

impl Buffer {
    /// Room for blocks of `n` elements, of which a block has [`BLOCK`] at most. There
    /// may be many small groups, so it takes no more than it needs.
    pub(super) fn new(n: usize) -> Self {
        let n = n.min(BLOCK);
        Self {
            rates: vec![Rate::ZERO; n],
            ratios: vec![0.0; n],
            costs: vec![Cost::ONE; n],
        }
    }

    /// One element as a block.
    pub(super) fn one(&mut self, rate: Rate, weight: Weight, cost: Cost) -> Block<'_> {
        self.rates[0] = rate;
        self.ratios[0] = rate.0 * cost.0 / weight.0;
        self.costs[0] = cost;
        self.block(1)
    }

    /// The candidates of a range as a block, at most [`BLOCK`] of them.
    pub(super) fn range<'b>(
        &'b mut self,
        candidates: &Candidates<'b>,
        range: Range<usize>,
    ) -> Block<'b> {
        let rates = &candidates.rates[range.clone()];
        let weights = candidates.weights.map(|weights| &weights[range.clone()]);
        let costs = candidates.costs.map(|costs| &costs[range]);
        let ratios = self.ratios.iter_mut().zip(rates);
        match (costs, weights) {
            (None, None) => ratios.for_each(|(to, rate)| *to = rate.0),
            (None, Some(weights)) => {
                let all = ratios.zip(weights);
                all.for_each(|((to, rate), weight)| *to = rate.0 / weight.0);
            }
            (Some(costs), None) => {
                let all = ratios.zip(costs);
                all.for_each(|((to, rate), cost)| *to = rate.0 * cost.0);
            }
            (Some(costs), Some(weights)) => {
                let all = ratios.zip(costs).zip(weights);
                all.for_each(|(((to, rate), cost), weight)| {
                    *to = rate.0 * cost.0 / weight.0;
                });
            }
        }
        Block {
            rates,
            ratios: &self.ratios[..rates.len()],
            costs: costs.unwrap_or(&self.costs[..rates.len()]),
        }
    }

    /// The candidates of these numbers as a block, at most [`BLOCK`] of them.
    fn listed(&mut self, candidates: &Candidates<'_>, indices: &[u32]) -> Block<'_> {
        for (position, &index) in indices.iter().enumerate() {
            let index = index as usize;
            let (rate, cost) = (candidates.rate(index), candidates.cost(index));
            self.rates[position] = rate;
            self.ratios[position] = rate.0 * cost.0 / candidates.weight(index).0;
            self.costs[position] = cost;
        }
        self.block(indices.len())
    }

    fn block(&self, n: usize) -> Block<'_> {
        Block {
            rates: &self.rates[..n],
            ratios: &self.ratios[..n],
            costs: &self.costs[..n],
        }
    }
}

/// Who falls under which cap.
pub(super) struct Members {
    /// Those under none.
    pub(super) rest: Listing,
    /// Each capped group with its cap, in the order of the groups.
    pub(super) capped: Vec<(GroupId, f64, Listing)>,
}

/// Some of the candidates.
pub(super) enum Listing {
    All(usize),
    Some(Vec<u32>),
}

impl Listing {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::All(n) => *n,
            Self::Some(indices) => indices.len(),
        }
    }

    /// The number, among all candidates, of the one at `position` here.
    pub(super) fn index(&self, position: usize) -> usize {
        match self {
            Self::All(_) => position,
            Self::Some(indices) => indices[position] as usize,
        }
    }

    /// The candidates from one position here to another, at most [`BLOCK`].
    pub(super) fn block<'b>(
        &self,
        candidates: &Candidates<'b>,
        range: Range<usize>,
        buffer: &'b mut Buffer,
    ) -> Block<'b> {
        match self {
            Self::All(_) => buffer.range(candidates, range),
            Self::Some(indices) => buffer.listed(candidates, &indices[range]),
        }
    }
}

impl Members {
    pub(super) fn new(candidates: &Candidates<'_>, caps: &Caps) -> Self {
        let Some(groups) = candidates.groups.filter(|_| caps.iter().len() > 0) else {
            return Self {
                rest: Listing::All(candidates.len()),
                capped: caps
                    .iter()
                    .map(|(group, cap)| (group, cap, Listing::Some(Vec::new())))
                    .collect(),
            };
        };
        let mut rest = Vec::new();
        let mut capped: Vec<(GroupId, f64, Vec<u32>)> = caps
            .iter()
            .map(|(group, cap)| (group, cap, Vec::new()))
            .collect();
        for (index, group) in (0_u32..).zip(groups) {
            let place =
                group.and_then(|group| capped.binary_search_by_key(&group, |capped| capped.0).ok());
            match place {
                Some(place) => capped[place].2.push(index),
                None => rest.push(index),
            }
        }
        Self {
            rest: Listing::Some(rest),
            capped: capped
                .into_iter()
                .map(|(group, cap, indices)| (group, cap, Listing::Some(indices)))
                .collect(),
        }
    }
}
