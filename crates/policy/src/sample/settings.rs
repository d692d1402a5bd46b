use crate::{Error, Span};

/// What the batch policies may be told; every one has a default but the cycle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    pub(super) cycle: Span,
    pub(super) sample_size: Option<u32>,
    pub(super) confidence: f64,
    pub(super) step: u32,
    pub(super) sample_cost: f64,
    pub(super) share: f64,
    pub(super) unit: Unit,
    pub(super) subset: Subset,
    pub(super) aim: Aim,
}

/// What the frequency policy plans for, with the rates that it has estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aim {
    /// The highest freshness: the optimal plan of the freshness paper, which gives
    /// up on elements that change too often.
    #[default]
    Freshness,
    /// The most changes found, which is what the sampling paper measures.
    Changes,
}

/// What samples are taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// The outermost group of an element: a site.
    #[default]
    Outermost,
    /// The innermost: a directory. The sampling paper asks (section 6) whether
    /// that would be better.
    Innermost,
}

/// Which sites are sampled in a batch (sampling paper, section 3.5).
///
/// A budget too small to sample every site well is better spent on some of them,
/// taken in turn: those not sampled for longest, at random among equals.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Subset {
    /// All, however small the budget.
    All,
    /// As many as promise the highest ChangeRatio, given the budget and the spread
    /// of the shares seen so far ([`Shares::greedy_change_ratio`](super::Shares::greedy_change_ratio)).
    #[default]
    Chosen,
    /// So many that the budget is this share of their elements; all if it is a
    /// higher share of all. The paper takes the share of sites that change much.
    Share(f64),
}

impl Settings {
    /// The confidence with which the adaptive policy decides: the paper's.
    pub const CONFIDENCE: f64 = 0.9;
    /// How many elements the adaptive policy samples between decisions: the
    /// paper's.
    pub const STEP: u32 = 10;
    /// The share of round-robin in round-robin-greedy: the paper's.
    pub const SHARE: f64 = 0.3;

    /// The defaults, for a batch at the end of every cycle.
    ///
    /// # Errors
    ///
    /// If the cycle is no time at all.
    pub fn new(cycle: Span) -> Result<Self, Error> {
        if cycle > Span::ZERO && cycle < Span::FOREVER {
            Ok(Self {
                cycle,
                sample_size: None,
                confidence: Self::CONFIDENCE,
                step: Self::STEP,
                sample_cost: 1.0,
                share: Self::SHARE,
                unit: Unit::default(),
                subset: Subset::default(),
                aim: Aim::default(),
            })
        } else {
            Err(Error::Cycle(cycle.0))
        }
    }

    /// The same with this many elements sampled from each site, rather than the
    /// number of [`Threshold::sample_size`](super::Threshold::sample_size).
    ///
    /// # Errors
    ///
    /// If it is zero.
    pub fn with_sample_size(self, sample_size: u32) -> Result<Self, Error> {
        Ok(Self {
            sample_size: Some(some(sample_size)?),
            ..self
        })
    }

    /// The same with the adaptive policy deciding at this confidence.
    ///
    /// # Errors
    ///
    /// If it is not between 0 and 1.
    pub fn with_confidence(self, confidence: f64) -> Result<Self, Error> {
        if confidence > 0.0 && confidence < 1.0 {
            Ok(Self { confidence, ..self })
        } else {
            Err(Error::Confidence(confidence))
        }
    }

    /// The same with the adaptive policy sampling this many between decisions.
    ///
    /// # Errors
    ///
    /// If it is zero.
    pub fn with_step(self, step: u32) -> Result<Self, Error> {
        Ok(Self {
            step: some(step)?,
            ..self
        })
    }

    /// The same with samples that cost this much of a poll, changed or not. A
    /// sampled element is not polled again in the batch (sampling paper, section
    /// 3.1).
    ///
    /// # Errors
    ///
    /// If it is not above zero, or above one.
    pub fn with_sample_cost(self, sample_cost: f64) -> Result<Self, Error> {
        if sample_cost > 0.0 && sample_cost <= 1.0 {
            Ok(Self {
                sample_cost,
                ..self
            })
        } else {
            Err(Error::SampleCost(sample_cost))
        }
    }

    /// The same with this share of the budget for round-robin in
    /// round-robin-greedy.
    ///
    /// # Errors
    ///
    /// If it is below 0 or above 1.
    pub fn with_share(self, share: f64) -> Result<Self, Error> {
        Ok(Self {
            share: unit_interval(share)?,
            ..self
        })
    }

    /// The same with samples of these.
    #[must_use]
    pub fn with_unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// The same with these sites sampled in a batch.
    ///
    /// # Errors
    ///
    /// If it is a share below 0 or above 1.
    pub fn with_subset(self, subset: Subset) -> Result<Self, Error> {
        if let Subset::Share(share) = subset {
            unit_interval(share)?;
        }
        Ok(Self { subset, ..self })
    }

    /// The same with another aim of the frequency policy.
    #[must_use]
    pub fn with_aim(self, aim: Aim) -> Self {
        Self { aim, ..self }
    }

    /// The time from one batch to the next.
    pub fn cycle(&self) -> Span {
        self.cycle
    }
}

fn some(count: u32) -> Result<u32, Error> {
    if count > 0 {
        Ok(count)
    } else {
        Err(Error::SampleSize(count))
    }
}

fn unit_interval(share: f64) -> Result<f64, Error> {
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err(Error::Share(share))
    }
}
