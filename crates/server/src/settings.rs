//! What a server is told before it starts.

use std::net::SocketAddr;

use url::Url;

/// Where to listen, and who may come in.
#[derive(Clone)]
pub struct ServerSettings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Who has it may do everything; without one, everyone who reaches us may.
    pub token: Option<String>,
    /// Under which address others reach us, such as `https://fresh.example.org`.
    pub public: Option<Url>,
    /// Names that we are called by, besides those of this machine.
    pub hosts: Vec<String>,
}

/// Says whether there is a token, never what it is.
impl std::fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSettings")
            .field("listen", &self.listen)
            .field("has_token", &self.token.is_some())
            .field("public", &self.public.as_ref().map(Url::as_str))
            .field("hosts", &self.hosts)
            .finish()
    }
}
