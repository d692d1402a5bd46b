//! Finding changes by sampling sources: the batch policies of the sampling paper.

#![expect(missing_docs, unused, reason = "stub")]
use crate::*;
use rand::Rng;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    RoundRobin,
    Proportional,
    Greedy,
    Adaptive,
    RoundRobinGreedy,
    Frequency,
    Oracle,
}
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub cycle: Span,
}
impl Settings {
    pub fn new(cycle: Span) -> Result<Self, Error> {
        Ok(Self { cycle })
    }
    pub fn cycle(&self) -> Span {
        self.cycle
    }
    pub fn with_sample_size(self, _: u32) -> Result<Self, Error> {
        Ok(self)
    }
    pub fn with_confidence(self, _: f64) -> Result<Self, Error> {
        Ok(self)
    }
    pub fn with_step(self, _: u32) -> Result<Self, Error> {
        Ok(self)
    }
    pub fn with_sample_cost(self, _: f64) -> Result<Self, Error> {
        Ok(self)
    }
    pub fn with_share(self, _: f64) -> Result<Self, Error> {
        Ok(self)
    }
}
#[derive(Debug)]
pub struct Sampler {
    q: Vec<ElementId>,
    left: usize,
    at: usize,
}
impl Sampler {
    pub fn new(sampling: Sampling, settings: Settings, groups: &Groups) -> Self {
        Self {
            q: vec![],
            left: 0,
            at: 0,
        }
    }
    pub fn add(&mut self, id: ElementId, element: &Element, now: Time) {
        self.q.push(id)
    }
    pub fn remove(&mut self, id: ElementId) {
        self.q.retain(|x| *x != id)
    }
    pub fn foresee(&mut self, changed: &[ElementId]) {}
    pub fn needs_foresight(&self) -> bool {
        false
    }
    pub fn begin(&mut self, budget: f64, rng: &mut dyn Rng) {
        self.left = (budget.round() as usize).min(self.q.len())
    }
    pub fn next(&mut self, rng: &mut dyn Rng) -> Option<ElementId> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        self.at = (self.at + 1) % self.q.len();
        Some(self.q[self.at])
    }
    pub fn observe(&mut self, id: ElementId, changed: bool, now: Time) {}
}
