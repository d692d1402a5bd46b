//! Asking: one request to one address, and what has to be known before it is made.
//!
//! [`Client::hop`] makes one request and returns what came of it: an [`Answer`], or
//! a [`FetchFailure`], which is a fact about the remote and no error of ours. It
//! follows no redirect; whoever drives it does, and asks [`RobotsRules`] and the
//! limits of the [`GroupPath`] before every hop. [`guard`] decides where we may
//! connect at all; a [`Wire`] carries the request there.
//!
//! Nothing here knows elements, budgets or stores. Every byte that comes in is
//! taken for hostile: sizes, numbers and times are bounded before they are used.

mod decode;
mod failure;
pub mod guard;
mod http;
mod locator;
pub mod robots;
mod sockets;
mod wire;

pub use decode::{DecodeError, Decoder};
pub use failure::FetchFailure;
#[cfg(test)]
pub(crate) use http::max_age;
pub use http::{
    Answer, Client, Error, HttpRequest, MAX_RETRY_AFTER, Overflow, http_date, retry_after,
};
pub use locator::{GroupPath, MAX_URL, group_of, limits_of, locator, origin, resolve};
pub use robots::RobotsRules;
pub use springtide_store::FailureKind;
pub use wire::{Dial, Wire};
