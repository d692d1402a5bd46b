//! Which private addresses may be asked for whom.
//!
//! That is a source's own affair: what one is allowed, another one's listing or redirect
//! does not get. So there is a client for each answer, with connections of its own. If they
//! were shared, a name that leads to a private address would be reached by whoever asks
//! second, over the connection that was made for the first.

use crate::fetch::{self, Client};
use crate::settings::{AllowPrivate, SourceSettings};

/// What a source is allowed, as a number. Sources that are allowed the same share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reach(usize);

/// A client for each reach.
#[derive(Debug)]
pub(crate) struct Reaches {
    clients: Vec<(AllowPrivate, Client)>,
}

impl Reaches {
    /// Those of sources that do not say so themselves.
    pub(crate) fn new(usual: AllowPrivate, client: Client) -> Self {
        Self {
            clients: vec![(usual, client)],
        }
    }

    /// The reach of a source.
    ///
    /// # Errors
    /// If connections cannot be made at all.
    pub(crate) fn of(&mut self, source: &SourceSettings) -> Result<Reach, fetch::Error> {
        let Some(own) = &source.allow_private else {
            return Ok(Reach::default());
        };
        let known = self.clients.iter().position(|(allow, _)| allow == own);
        if let Some(at) = known {
            return Ok(Reach(at));
        }
        let client = self.clients[0].1.allowing(own.clone())?;
        self.clients.push((own.clone(), client));
        Ok(Reach(self.clients.len() - 1))
    }

    pub(crate) fn client(&self, reach: Reach) -> &Client {
        &self.clients[reach.0].1
    }

    /// Whether anyone may ask a private address.
    pub(crate) fn has_private(&self) -> bool {
        let mut allowed = self.clients.iter().map(|(allow, _)| allow);
        allowed.any(|allow| *allow != AllowPrivate::None)
    }
}
