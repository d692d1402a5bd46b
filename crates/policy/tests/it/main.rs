//! What the crate promises, checked from outside.

mod brute;
mod estimate;
mod papers;
mod predicted;
mod properties;
mod query;
mod sample;
