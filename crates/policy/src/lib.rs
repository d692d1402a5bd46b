//! The mathematics and every decision of springtide.
//!
//! A *source* changes when it likes and tells nobody. We keep a *copy* of its
//! *elements* and may only *poll* them, and polls are scarce. This crate says how
//! often each element should be polled, what that achieves, and how often it
//! changes to begin with.
//!
//! It does no I/O, reads no clock, draws no random numbers of its own, is not
//! async and does not log. It takes values and returns values, so the simulator
//! and the engine can drive the same code.
//!
//! # The nouns
//!
//! - A [`Rate`] is how often an element changes, a [`Frequency`] how often it is
//!   polled. Both are per time; they are never the same type.
//! - [`freshness`] gives the freshness and the age of a copy, from the two.
//! - [`value`] gives what a poll is worth, and so when it is worth its price.
//! - [`plan`] turns [`Candidates`](plan::Candidates) and a [`Budget`] into a
//!   [`Plan`](plan::Plan): one *price* for a poll, from which everyone's frequency
//!   follows. Weights, costs, caps on groups and floors are part of it.
//! - [`estimate`] turns [`Observation`]s, which is what polls showed, into rates
//!   with their uncertainty.
//! - [`sample`] polls in batches, and learns from a few elements of a site about the
//!   rest of it.
//! - [`query`] chooses keyword queries, each of which polls many elements at once.
//! - [`agenda`] says what to ask for now, and when to wake.
//! - [`report`](mod@report) says what a plan achieves.
//!
//! # An example
//!
//! Five elements change one to five times a day, and we may poll five times a day.
//! How often should each be polled? (This is Example 4 of the freshness paper.)
//!
//! ```
//! use springtide_policy::plan::{RulePolicy, Candidates, Policy, Rule};
//! use springtide_policy::report::report;
//! use springtide_policy::{Budget, Objective, Order, Rate};
//!
//! let rates: Vec<Rate> = [1.0, 2.0, 3.0, 4.0, 5.0]
//!     .into_iter()
//!     .map(Rate::per_day)
//!     .collect::<Result<_, _>>()?;
//! let candidates = Candidates::new(&rates)?;
//! let budget = Budget::per_day(5.0)?;
//!
//! let best = RulePolicy::new(Rule::Optimal(Objective::Freshness)).plan(&candidates, &budget);
//! let polls: Vec<String> = best
//!     .frequencies(&candidates)
//!     .iter()
//!     .map(|frequency| format!("{:.2}", frequency.as_per_day()))
//!     .collect();
//! // The element that changes most often is not worth a single poll.
//! assert_eq!(polls, ["1.15", "1.36", "1.35", "1.14", "0.00"]);
//!
//! let even = RulePolicy::new(Rule::Uniform).plan(&candidates, &budget);
//! let (best, even) = (
//!     report(&best, &candidates, Order::Fixed),
//!     report(&even, &candidates, Order::Fixed),
//! );
//! assert!(best.freshness > even.freshness);
//! # Ok::<(), springtide_policy::Error>(())
//! ```
//!
//! # Where the formulas come from
//!
//! *freshness* is Cho and Garcia-Molina, Synchronizing a database to improve
//! freshness (SIGMOD 2000); *sampling* is Cho and Ntoulas, Effective change
//! detection using sampling (VLDB 2002); *content* is Yang et al. on content freshness by
//! keyword search (SIGMOD 2010). Each of their formulas has exactly one
//! function here, whose documentation names it and, where the paper errs, says so.

#![warn(missing_docs)]

pub mod agenda;
mod budget;
mod element;
mod error;
pub mod estimate;
pub mod freshness;
mod gamma;
mod hint;
pub mod in_use;
mod numeric;
mod observation;
mod order;
mod parallel;
pub mod plan;
pub mod predict;
pub mod query;
mod rate;
pub mod report;
pub mod sample;
pub mod schedule;
mod time;
pub mod value;

pub use budget::{Budget, Caps, Window};
pub use element::{Cost, Element, ElementId, Elements, GroupId, Groups, Present, Weight};
pub use error::Error;
pub use freshness::Order;
pub use gamma::Gamma;
pub use observation::{Observation, Outcome, Purpose};
pub use rate::{Frequency, Rate};
pub use time::{Span, Time};
pub use value::Objective;
