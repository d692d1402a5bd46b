//! Where a batch stands.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::copies::Site;
use super::size::Shares;
use crate::ElementId;

/// A batch: what it has spent, and what comes next.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    budget: f64,
    sample_cost: f64,
    n_samples: u32,
    n_downloads: u32,
    /// Elements to be polled before any site is looked at, last first.
    pub(super) listed: Vec<u32>,
    pub(super) stage: Stage,
    /// The sites that it samples and downloads.
    pub(super) subset: Vec<u32>,
    /// Those of them that are yet to be sampled: one sample each for so many
    /// rounds, of which this one has come to site number `turn` among them.
    pub(super) sampled: Vec<u32>,
    pub(super) n_rounds: u32,
    pub(super) turn: usize,
    pub(super) has_learned: bool,
    /// The order of downloads.
    pub(super) ranking: BinaryHeap<Ranked>,
    /// How shares are spread over sites.
    pub(super) shares: Shares,
    pub(super) asked: Option<(u32, Role)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Taking samples.
    Sample,
    /// Downloading sites of which the samples were enough.
    Chosen,
    /// Downloading the sites of the subset.
    Subset,
    /// Downloading the others.
    Outside,
    Over,
}

/// What a poll is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Sample,
    Download,
}

impl Batch {
    pub(super) fn new(budget: f64, sample_cost: f64) -> Self {
        Self {
            budget,
            sample_cost,
            n_samples: 0,
            n_downloads: 0,
            listed: Vec::new(),
            stage: Stage::Over,
            subset: Vec::new(),
            sampled: Vec::new(),
            n_rounds: 0,
            turn: 0,
            has_learned: false,
            ranking: BinaryHeap::new(),
            shares: Shares::EVEN,
            asked: None,
        }
    }

    pub(super) fn list(&mut self, mut elements: Vec<u32>) {
        elements.reverse();
        self.listed = elements;
    }

    pub(super) fn ask(&mut self, id: u32, role: Role) -> ElementId {
        match role {
            Role::Sample => self.n_samples += 1,
            Role::Download => self.n_downloads += 1,
        }
        self.asked = Some((id, role));
        ElementId(id)
    }

    /// What is left of the budget.
    pub(super) fn left(&self) -> f64 {
        self.budget - self.sample_cost * f64::from(self.n_samples) - f64::from(self.n_downloads)
    }

    pub(super) fn affords(&self, role: Role) -> bool {
        /// Ten samples at a tenth make one poll, whatever doubles say.
        const SLACK: f64 = 1e-9;
        let cost = match role {
            Role::Sample => self.sample_cost,
            Role::Download => 1.0,
        };
        self.left() + SLACK * self.budget.max(1.0) >= cost
    }

    /// The share of changed elements that a site is expected to have.
    pub(super) fn mean(&self, site: &Site) -> f64 {
        let (n_changed, n_samples) = (site.n_changed.into(), site.n_samples.into());
        self.shares.posterior_mean(n_changed, n_samples)
    }
}

/// A site in the order of downloads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranked {
    pub(super) value: f64,
    /// Drawn anew for each batch, so that no site is always last among equals and
    /// starves (the paper's Theorem 3 overlooks that).
    pub(super) lot: u32,
    pub(super) site: u32,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value
            .total_cmp(&other.value)
            .then(self.lot.cmp(&other.lot))
            .then(other.site.cmp(&self.site))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}
