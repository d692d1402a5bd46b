//! `[[notify]]` and `[smtp]`: whom to tell, of what, and through whom.

use std::path::Path;
use std::time::Duration;

use springtide_engine::fetch::guard::Guard;
use springtide_engine::settings::HttpSettings;
use springtide_server::{Authority, Mail, NoticeTarget, NoticeTo, SmtpServer};
use url::Url;

use super::complaint::Text;
use super::file;
use crate::failure::Outcome;

/// Failures in a row after which an element counts as failing, where nobody says so: one
/// may be chance, two may be a restart.
const DEFAULT_FAILURES: u16 = 3;

const ALLOW: &str = "if it is yours, set allow_private under [http]";

/// Checks what the file says; secrets that cannot be had are named.
pub(super) fn targets(
    notify: Vec<toml::Spanned<file::Notify>>,
    smtp: Option<&file::Smtp>,
    http: &HttpSettings,
    folder: &Path,
    text: &Text<'_>,
) -> Outcome<(Vec<NoticeTarget>, Vec<String>)> {
    let (mut targets, mut missing): (Vec<NoticeTarget>, Vec<String>) = (Vec::new(), Vec::new());
    let server = match smtp {
        Some(smtp) => Some((
            smtp_server(smtp, http, folder, text, &mut missing)?,
            &smtp.from,
        )),
        None => None,
    };
    for notify in notify {
        let line = text.line(notify.span().start);
        let notify = notify.into_inner();
        let refuse = |cause: String| text.refuse().cause(format!("line {line}: notify: {cause}"));
        let to = match notify.to.split_once(':') {
            Some(("exec", line)) if !line.trim().is_empty() => {
                NoticeTo::Command(line.trim().to_owned())
            }
            Some(("mailto", to)) => {
                let Some((server, from)) = &server else {
                    return Err(refuse("there is no [smtp] to send mail through".to_owned())
                        .hint("[smtp] has url, from and, where there is a user, password"));
                };
                let mail = Mail::new(&unescaped(to), from, server.clone()).map_err(|why| {
                    refuse(format!("to: {why}"))
                        .hint("an address is expected, such as mailto:ops@example.org")
                })?;
                NoticeTo::Mail(Box::new(mail))
            }
            _ => {
                let url = super::address(&notify.to).map_err(|why| {
                    refuse(format!("to: {why}"))
                        .hint("an address, mailto: and one, or exec: and a program, is expected")
                })?;
                check_private(&url, http)
                    .map_err(|why| refuse(format!("to: {why}")).hint(ALLOW))?;
                NoticeTo::Web(url)
            }
        };
        let secret = match notify.secret.map(|secret| secret.reveal(folder)) {
            Some(Ok(secret)) => Some(secret),
            Some(Err(why)) => {
                missing.push(format!("notify: {why}"));
                None
            }
            None => None,
        };
        let same = targets.iter().filter(|known| known.to == to).count();
        targets.push(NoticeTarget {
            name: match same {
                0 => notify.to,
                n => format!("{} ({})", notify.to, n + 1),
            },
            to,
            on: notify.on.into_iter().collect(),
            sources: notify.sources,
            failures: notify.failures.unwrap_or(DEFAULT_FAILURES).max(1),
            digest: notify
                .digest
                .map(|span| Duration::from_secs_f64(span.0.as_days() * 86_400.0)),
            secret,
        });
    }
    Ok((targets, missing))
}

/// That an address is not one of our own network, as far as that can be seen without
/// asking a name server.
fn check_private(url: &Url, http: &HttpSettings) -> Result<(), String> {
    let guard = Guard::new(http.allow_private.clone());
    guard.check(url).map_err(|failure| failure.to_string())?;
    let is_named_private = url.host_str().is_some_and(|host| {
        (host == "localhost" || host.ends_with(".localhost"))
            && !guard.is_allowed(std::net::Ipv4Addr::LOCALHOST.into())
    });
    match is_named_private {
        true => Err("localhost is a private address".to_owned()),
        false => Ok(()),
    }
}

/// Where mail is handed in over TLS from the first byte (RFC 8314).
const SMTPS_PORT: u16 = 465;
/// Where mail is handed in by a user who signs in (RFC 6409).
const SUBMISSION_PORT: u16 = 587;
/// Where servers take mail, without a user (RFC 5321).
const SMTP_PORT: u16 = 25;

/// `[smtp]`.
fn smtp_server(
    smtp: &file::Smtp,
    http: &HttpSettings,
    folder: &Path,
    text: &Text<'_>,
    missing: &mut Vec<String>,
) -> Outcome<SmtpServer> {
    let expected = "it is such as smtps://user@mail.example.org";
    let refuse = |why: &str| text.refuse().cause(format!("smtp.{why}"));
    let url = Url::parse(smtp.url.trim());
    let url = url.map_err(|error| refuse(&format!("url: {error}")).hint(expected))?;
    let is_tls = match url.scheme() {
        "smtps" => true,
        "smtp" => false,
        _ => return Err(refuse("url: it is neither smtp nor smtps").hint(expected)),
    };
    let has_more = !matches!(url.path(), "" | "/") || url.query().is_some();
    let host = url.host_str().filter(|host| !host.is_empty() && !has_more);
    let Some(host) = host else {
        return Err(refuse("url: only a host is expected").hint(expected));
    };
    if url.password().is_some() {
        return Err(refuse("url: there is a password in it")
            .hint("give it as password = \"env:SMTP_PASSWORD\""));
    }
    // Only addresses of the web are read as hosts with all their spellings.
    let as_web = Url::parse(&format!("http://{host}/"));
    let as_web = as_web.map_err(|error| refuse(&format!("url: {error}")).hint(expected))?;
    check_private(&as_web, http).map_err(|why| refuse(&format!("url: {why}")).hint(ALLOW))?;
    let user = Some(unescaped(url.username())).filter(|user| !user.is_empty());
    if user.is_none() && smtp.password.is_some() {
        return Err(refuse("url: there is a password, and no user").hint(expected));
    }
    let password = match smtp.password.as_ref().map(|secret| secret.reveal(folder)) {
        Some(Ok(password)) => Some(password),
        Some(Err(why)) => {
            missing.push(format!("smtp.password: {why}"));
            None
        }
        None => None,
    };
    let authority = match &smtp.ca {
        Some(path) => {
            let pem = std::fs::read(folder.join(path)).map_err(|error| error.to_string());
            let authority = pem.and_then(Authority::from_pem).map_err(|why| {
                refuse(&format!("ca: {path}: {why}"))
                    .hint("it is a file of certificates as PEM, beside springtide.toml")
            })?;
            Some(authority)
        }
        None => None,
    };
    Ok(SmtpServer {
        authority,
        port: url.port().unwrap_or(match (is_tls, &user) {
            (true, _) => SMTPS_PORT,
            (false, Some(_)) => SUBMISSION_PORT,
            (false, None) => SMTP_PORT,
        }),
        host: as_web.host_str().unwrap_or(host).to_owned(),
        is_tls,
        user,
        password,
    })
}

/// What a part of an address stands for: `%40` for `@`.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let pair = after.get(..2).filter(|_| first == b'%');
        let pair = pair.and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
