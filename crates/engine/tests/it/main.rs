//! The engine as its users meet it.

mod detect;
mod listing;
