//! The engine against an origin of its own, on loopback.

mod decode;
mod detect;
mod fresh;
mod guard;
mod hostile;
mod hostile_run;
mod http;
mod listing;
mod origin;
mod own_policy;
mod robots;
mod run;
mod same;
mod search;
mod search_server;
mod wire;
mod world;
