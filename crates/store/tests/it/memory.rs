//! The store in memory.

use springtide_store::{Memory, Store};

fn with_store(test: fn(&mut dyn Store)) {
    test(&mut Memory::new());
}

springtide_store::conformance!(with_store);
