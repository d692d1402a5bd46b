//! What the engine has of the world outside.

use crate::clock::Clock;
use crate::fetch::{self, Wire};
use crate::settings::HttpSettings;

/// What time it is, how hosts are reached, and what chance follows from.
///
/// A run reads no other clock, asks through no other wire and draws from no other
/// chance, so with all three given it can be repeated.
#[derive(Debug, Clone)]
pub struct Outside {
    /// What time it is.
    pub clock: Clock,
    /// How hosts are reached.
    pub wire: Wire,
    /// The seed of everything that is drawn.
    pub seed: u64,
}

impl Outside {
    /// The world as it is: the system's clock, sockets, and a seed that nobody chose.
    ///
    /// # Errors
    /// If connections cannot be made at all.
    pub fn real(settings: &HttpSettings) -> Result<Self, fetch::Error> {
        let clock = Clock::system();
        Ok(Self {
            clock,
            wire: Wire::sockets(settings)?,
            seed: clock.now().0.unsigned_abs(),
        })
    }
}
