//! The engine against an origin of its own, on loopback.

mod decode;
mod guard;
mod hostile;
mod http;
mod origin;
mod robots;
mod run;
