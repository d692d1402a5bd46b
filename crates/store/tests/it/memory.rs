//! The store in memory.

use springtide_store::conformance::Place;
use springtide_store::{Error, Memory, Reader, Writer};

struct InMemory(Memory);

impl Place for InMemory {
    fn open(&self) -> Result<Box<dyn Writer>, Error> {
        Ok(Box::new(self.0.take_over()))
    }

    fn read(&self) -> Result<Box<dyn Reader>, Error> {
        Ok(Box::new(self.0.clone()))
    }

    fn end_lease(&self) {
        self.0.take_over();
    }
}

fn with_place(test: fn(&dyn Place)) {
    test(&InMemory(Memory::new()));
}

springtide_store::conformance!(with_place);
