//! The engine against an origin of its own, on loopback.

mod decode;
mod detect;
mod guard;
mod hostile;
mod http;
mod listing;
mod origin;
mod robots;
mod run;
