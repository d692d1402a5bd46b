//! What a store promises, kept by each of them.

mod sqlite;
