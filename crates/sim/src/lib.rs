//! Worlds that change, on a virtual clock.
//!
//! The simulator feeds time and observations to the scheduler of
//! `springtide-policy` and measures exactly how fresh the copies were. It contains
//! no policy: what it says of one is a statement about the code that ships. It
//! reads and writes no files: worlds come in as values, reports go out as values.

pub mod figure;
mod measure;
pub mod paper;
mod parallel;
pub mod project;
mod run;
pub mod search;
mod start;
pub mod table;
pub mod world;

pub use measure::Measures;
pub use run::{Hints, Outcomes, Parts, Polled, Setup, compare, run};
pub use start::Start;
