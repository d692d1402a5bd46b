//! One notice, to one receiver.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use ring::hmac;
use springtide_engine::fetch::{Client, HttpRequest};
use springtide_engine::settings::HttpSettings;
use tokio::io::AsyncWriteExt;

use super::{NoticeTarget, NoticeTo};
use crate::door::hex;

/// How long a receiver may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What of its answer is read.
const MOST_ANSWERED: u64 = 100_000;

/// Delivers a body; an error says why it was not taken.
pub(super) async fn deliver(
    target: &NoticeTarget,
    http: &HttpSettings,
    folder: &Path,
    body: Vec<u8>,
) -> Result<(), String> {
    let signature = target.secret.as_ref().map(|secret| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        format!("sha256={}", hex(hmac::sign(&key, &body).as_ref()))
    });
    let delivered = async {
        match &target.to {
            NoticeTo::Web(url) => {
                let client = Client::new(http).map_err(|error| error.to_string())?;
                let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
                headers.extend(signature.map(|s| ("x-springtide-signature".to_owned(), s)));
                let request = HttpRequest {
                    headers: &headers,
                    body: Some(&body),
                    ..HttpRequest::new(url, MOST_ANSWERED)
                };
                match client.hop(&request).await {
                    Ok(answer) if (200..300).contains(&answer.status) => Ok(()),
                    Ok(answer) => Err(format!("it answers {}", answer.status)),
                    Err(failure) => Err(failure.to_string()),
                }
            }
            NoticeTo::Mail(mail) => mail.send(&body, http).await,
            NoticeTo::Command(line) => run(line, folder, &body, signature).await,
        }
    };
    match tokio::time::timeout(TIMEOUT, delivered).await {
        Ok(delivered) => delivered,
        Err(_) => Err("it takes too long".to_owned()),
    }
}

async fn run(
    line: &str,
    folder: &Path,
    body: &[u8],
    signature: Option<String>,
) -> Result<(), String> {
    let mut words = line.split_whitespace();
    let program = words.next().unwrap_or_default();
    let folder = std::fs::canonicalize(folder).map_err(|error| error.to_string())?;
    // From the folder of the project, wherever we were started.
    let place = match program.contains('/') {
        true => folder.join(program),
        false => program.into(),
    };
    let mut command = tokio::process::Command::new(place);
    command
        .args(words)
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    if let Some(signature) = signature {
        command.env("SPRINGTIDE_SIGNATURE", signature);
    }
    let mut child = (command.spawn()).map_err(|error| format!("{program}: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not want to read it all may still have done what it should.
        let _ = stdin.write_all(body).await;
    }
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} ended with {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
