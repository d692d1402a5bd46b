//! What a store promises, kept by each of them.

mod body;
mod crash;
mod memory;
mod migrate;
mod power;
mod properties;
mod sqlite;
