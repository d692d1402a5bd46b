//! `[[notify]]`: whom to tell, and of what.

use std::path::Path;
use std::time::Duration;

use springtide_engine::fetch::guard::Guard;
use springtide_engine::settings::HttpSettings;
use springtide_server::{NoticeTarget, NoticeTo};

use super::complaint::Text;
use super::file;
use crate::failure::Outcome;

/// Failures in a row after which an element counts as failing, where nobody says so: one
/// may be chance, two may be a restart.
const DEFAULT_FAILURES: u16 = 3;

/// Checks what the file says; secrets that cannot be had are named.
pub(super) fn targets(
    notify: Vec<toml::Spanned<file::Notify>>,
    http: &HttpSettings,
    folder: &Path,
    text: &Text<'_>,
) -> Outcome<(Vec<NoticeTarget>, Vec<String>)> {
    let (mut targets, mut missing): (Vec<NoticeTarget>, Vec<String>) = (Vec::new(), Vec::new());
    for notify in notify {
        let line = text.line(notify.span().start);
        let notify = notify.into_inner();
        let refuse = |cause: String| text.refuse().cause(format!("line {line}: notify: {cause}"));
        let to = match notify.to.split_once(':') {
            Some(("exec", line)) if !line.trim().is_empty() => {
                NoticeTo::Command(line.trim().to_owned())
            }
            Some(("mailto", _)) => {
                return Err(refuse("mail is not sent yet".to_owned())
                    .hint("a program may send it: to = \"exec:./send-mail\""));
            }
            _ => {
                let url = super::address(&notify.to).map_err(|why| {
                    refuse(format!("to: {why}"))
                        .hint("an address, or exec: and a program, is expected")
                })?;
                let is_named_private = url.host_str().is_some_and(|host| {
                    (host == "localhost" || host.ends_with(".localhost"))
                        && !Guard::new(http.allow_private.clone())
                            .is_allowed(std::net::Ipv4Addr::LOCALHOST.into())
                });
                let checked = Guard::new(http.allow_private.clone()).check(&url);
                if is_named_private || checked.is_err() {
                    let why = checked.map_or_else(
                        |failure| failure.to_string(),
                        |()| "localhost is a private address".to_owned(),
                    );
                    return Err(refuse(format!("to: {why}"))
                        .hint("if it is yours, set allow_private under [http]"));
                }
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
