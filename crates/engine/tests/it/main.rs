//! The engine against origins of its own: in virtual time within this process, and on
//! loopback for what only sockets show.

mod clocks;
mod cost;
mod decode;
mod detect;
mod feed;
mod fresh;
mod guard;
mod hostile;
mod hostile_run;
mod http;
mod indexes;
mod listing;
mod moves;
mod origin;
mod own_policy;
mod reach;
mod retain;
mod robots;
mod run;
mod same;
mod search;
mod search_server;
mod soak;
mod tables;
mod tables_fresh;
mod view;
mod wire;
mod world;
