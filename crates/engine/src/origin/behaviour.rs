//! What a path does instead of what the site has there.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Request;

/// What a path does.
#[derive(Clone)]
pub enum Behaviour {
    /// What the site has there.
    Usual,
    /// This answer, in proper HTTP.
    Reply(Reply),
    /// These bytes, proper or not, after which the connection is closed.
    Steps(Vec<Step>),
    /// Whatever this says, asked for every request.
    Call(Arc<dyn Fn(&Request) -> Self + Send + Sync>),
}

impl fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usual => f.write_str("Usual"),
            Self::Reply(reply) => f.debug_tuple("Reply").field(reply).finish(),
            Self::Steps(steps) => f.debug_tuple("Steps").field(steps).finish(),
            Self::Call(_) => f.write_str("Call"),
        }
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its headers, beside those that it needs to be understood.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Bytes,
}

/// A part of an answer that need not be one.
#[derive(Debug, Clone)]
pub enum Step {
    /// Sends this.
    Send(Bytes),
    /// Sends this so often, or until nobody listens.
    Repeat(Bytes, u64),
    /// Sends nothing for so long.
    Wait(Duration),
    /// Breaks the connection, in the middle of whatever it was.
    Reset,
}

impl Behaviour {
    /// An answer with a status and nothing else.
    pub fn status(status: u16) -> Self {
        Self::Reply(Reply {
            status,
            headers: Vec::new(),
            body: Bytes::new(),
        })
    }

    /// An answer with a body.
    pub fn body(content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::Reply(Reply {
            status: 200,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            body: body.into(),
        })
    }

    /// A refusal for so long.
    pub fn retry_after(status: u16, value: &str) -> Self {
        Self::status(status).with("retry-after", value)
    }

    /// A redirect.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::status(status).with("location", location)
    }

    /// The same with another header; only an answer in proper HTTP has any.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if let Self::Reply(reply) = &mut self {
            reply.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// The same after a wait.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        match self {
            Self::Steps(mut steps) => {
                steps.insert(0, Step::Wait(wait));
                Self::Steps(steps)
            }
            Self::Reply(reply) => Self::Steps(vec![
                Step::Wait(wait),
                Step::Send(super::serve::encode(&reply, super::serve::Ending::Close).into()),
            ]),
            other => other,
        }
    }

    /// These bytes.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::Steps(vec![Step::Send(bytes.into())])
    }

    /// Whatever this says, asked for every request.
    pub fn call(decide: impl Fn(&Request) -> Self + Send + Sync + 'static) -> Self {
        Self::Call(Arc::new(decide))
    }
}
