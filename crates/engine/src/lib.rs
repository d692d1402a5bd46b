//! Polls sources at the pace of a budget and keeps the copy: the only crate that
//! touches the outside world.

pub mod detect;
pub mod settings;
pub mod source;
