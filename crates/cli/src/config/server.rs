//! `[server]`: where to listen, and who may come in.

use std::net::SocketAddr;
use std::path::Path;

use springtide_server::ServerSettings;
use url::Url;

use super::complaint::Text;
use super::{file, variable};
use crate::failure::{Failure, Outcome};

/// The key of the address, which a flag or a variable may give as well.
pub(crate) const LISTEN: &str = "server.listen";
/// One that nobody else has by default, as far as we know.
const DEFAULT_LISTEN: &str = "127.0.0.1:7180";

/// What the file says of the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServerConfig {
    listen: Option<String>,
    /// The token, or why it cannot be had: it takes none to look at the project.
    token: Option<Result<String, String>>,
    public: Option<Url>,
    hosts: Vec<String>,
}

/// Checks what the file says.
pub(super) fn settings(
    server: file::Server,
    folder: &Path,
    text: &Text<'_>,
) -> Outcome<ServerConfig> {
    let refuse = |cause: String| text.refuse().cause(cause);
    if let Some(listen) = &server.listen {
        address(listen).map_err(|why| {
            refuse(format!("server.listen: {why}")).hint("127.0.0.1:7180 is the default")
        })?;
    }
    let public = match &server.public {
        Some(public) => {
            let url = super::address(public).map_err(|why| {
                refuse(format!("server.public: {why}"))
                    .hint("it is where others reach the server, such as https://fresh.example.org")
            })?;
            Some(url)
        }
        None => None,
    };
    for host in &server.hosts {
        let is_name = |c: char| c.is_alphanumeric() || "-._:[]".contains(c);
        if host.is_empty() || !host.chars().all(is_name) {
            return Err(refuse(format!(
                "server.hosts: `{}` is not a host name",
                crate::table::shorten(host)
            ))
            .hint("names are without https:// and without a port"));
        }
    }
    Ok(ServerConfig {
        listen: server.listen,
        token: server.token.map(|token| token.reveal(folder)),
        public,
        hosts: server.hosts,
    })
}

impl ServerConfig {
    /// What a server is told, if it may start: beyond loopback it takes a token.
    pub(crate) fn checked(&self, flag: Option<&str>) -> Outcome<ServerSettings> {
        let listen = match flag {
            Some(listen) => Some(listen.to_owned()),
            None => variable::<String>(LISTEN)?.or_else(|| self.listen.clone()),
        };
        let listen = listen.as_deref().unwrap_or(DEFAULT_LISTEN);
        let address = address(listen).map_err(|why| {
            Failure::input("cannot understand where to listen")
                .cause(why)
                .hint("an address and a port are expected, such as 127.0.0.1:7180")
        })?;
        let token = match &self.token {
            Some(Ok(token)) => Some(token.clone()),
            Some(Err(why)) => {
                return Err(Failure::input("cannot read the token of the server")
                    .cause(format!("server.token: {why}"))
                    .hint("set the variable, or write the file, before it runs"));
            }
            None => None,
        };
        if token.is_none() && !address.ip().is_loopback() {
            return Err(
                Failure::input(format!("cannot listen on {address} without a token"))
                    .cause("everyone who reaches it could read and change the project")
                    .hint("set token = \"env:SPRINGTIDE_TOKEN\" under [server]"),
            );
        }
        Ok(ServerSettings {
            listen: address,
            token,
            public: self.public.clone(),
            hosts: self.hosts.clone(),
        })
    }
}

/// An address with a port; this machine has a name as well.
fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    let named = text.strip_prefix("localhost:");
    let address = match named {
        Some(port) => format!("127.0.0.1:{port}").parse(),
        None => text.parse(),
    };
    let shown = crate::table::shorten(text);
    address.map_err(|_| format!("`{shown}` is not an address with a port"))
}
