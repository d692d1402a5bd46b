//! The engine against an origin of its own, on loopback.

mod http;
