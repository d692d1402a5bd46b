//! A notice as mail.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Mailboxes};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Code;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use serde_json::Value;
use springtide_engine::fetch::guard::{Guard, is_public};
use springtide_engine::settings::HttpSettings;

/// How long a server may take for one answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What is told of the events of one notice; the rest is on the dashboard.
const MOST_TEXT: usize = 200_000;
/// Lines of mail have 998 characters at the most, by RFC 5322; a page may be one line.
const LONGEST_LINE: usize = 900;

/// Whom to write to, and through whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Mail {
    to: Mailboxes,
    from: Mailbox,
    smtp: SmtpServer,
}

/// A server that takes mail.
#[derive(Clone, PartialEq, Eq)]
pub struct SmtpServer {
    /// Its name, or its address.
    pub host: String,
    /// Where it listens.
    pub port: u16,
    /// Whether all is encrypted from the first byte; else as soon as it offers to.
    pub is_tls: bool,
    /// Who we say that we are.
    pub user: Option<String>,
    /// And what we show for it.
    pub password: Option<String>,
    /// Who may say that it is the server, besides those whom everybody trusts.
    pub authority: Option<Authority>,
}

/// Certificates of those who are trusted to tell servers from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority(Vec<u8>);

impl Authority {
    /// The certificates in a file, as PEM.
    ///
    /// # Errors
    /// Why there are none to be had.
    pub fn from_pem(pem: Vec<u8>) -> Result<Self, String> {
        // Whoever reads them takes a file without any for an empty list.
        let begin = b"-----BEGIN CERTIFICATE-----";
        if !pem.windows(begin.len()).any(|part| part == begin) {
            return Err("there is no certificate in it".to_owned());
        }
        let authority = Self(pem);
        let any_name = "localhost".to_owned();
        match tls_parameters(any_name, Some(&authority)) {
            Ok(_) => Ok(authority),
            Err(why) => Err(format!("it is damaged: {why}")),
        }
    }
}

/// How to see that a server is who it is said to be.
fn tls_parameters(host: String, authority: Option<&Authority>) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(host);
    if let Some(Authority(pem)) = authority {
        let certificates = Certificate::from_pem(pem).map_err(|error| said(&error))?;
        builder = builder.add_root_certificate(certificates);
    }
    builder.build_rustls().map_err(|error| said(&error))
}

/// Says whether there is a password, never what it is.
impl fmt::Debug for SmtpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmtpServer")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("is_tls", &self.is_tls)
            .field("has_password", &self.password.is_some())
            .finish_non_exhaustive()
    }
}

impl Mail {
    /// Mail to these addresses, parted by commas, from this one.
    ///
    /// # Errors
    /// Which of them is not an address.
    pub fn new(to: &str, from: &str, smtp: SmtpServer) -> Result<Self, String> {
        let to: Mailboxes = to
            .parse()
            .map_err(|_| format!("`{to}` is not an address"))?;
        if to.iter().next().is_none() {
            return Err("there is no address".to_owned());
        }
        let from = from.parse();
        let from = from.map_err(|_| "`from` under [smtp] is not an address".to_owned())?;
        Ok(Self { to, from, smtp })
    }

    /// Whom to.
    pub(super) fn shown(&self) -> String {
        self.to.to_string()
    }

    /// Sends a notice; an error says why it was not taken, and never has the password.
    pub(super) async fn send(&self, notice: &[u8], http: &HttpSettings) -> Result<(), String> {
        let sent = self.try_to_send(notice, http).await;
        sent.map_err(|why| match &self.smtp.password {
            // A server may repeat what it was sent.
            Some(password) => why.replace(password.as_str(), "…"),
            None => why,
        })
    }

    async fn try_to_send(&self, notice: &[u8], http: &HttpSettings) -> Result<(), String> {
        let message = self.message(notice)?;
        let address = self.smtp.address(http).await?;
        let host = self.smtp.host.trim_matches(['[', ']']).to_owned();
        let tls = tls_parameters(host, self.smtp.authority.as_ref())?;
        let tls = match (self.smtp.is_tls, &self.smtp.password) {
            (true, _) => Tls::Wrapper(tls),
            // Whoever listens on the way could take the offer to encrypt out of the
            // answer, and read the password.
            (false, Some(_)) if is_public(address) => Tls::Required(tls),
            (false, _) => Tls::Opportunistic(tls),
        };
        // The address that was checked; the name is what the certificate is for.
        let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(address.to_string());
        let domain = self.from.email.domain();
        let mut builder = builder
            .port(self.smtp.port)
            .tls(tls)
            .hello_name(ClientId::Domain(domain.to_owned()))
            .timeout(Some(TIMEOUT));
        if let (Some(user), Some(password)) = (&self.smtp.user, &self.smtp.password) {
            builder = builder.credentials(Credentials::new(user.clone(), password.clone()));
        }
        match builder.build().send(message).await {
            Ok(_) => Ok(()),
            // What it says may repeat what it was sent, in whatever writing.
            Err(error) if error.status().is_some_and(is_about_login) => {
                Err("it does not take the user and the password".to_owned())
            }
            Err(error) => Err(said(&error)),
        }
    }

    /// What is sent. It is the same whenever it is, so that whoever gets it twice can see
    /// that it is one.
    fn message(&self, notice: &[u8]) -> Result<Message, String> {
        let notice: Value = serde_json::from_slice(notice).map_err(|e| e.to_string())?;
        let id = notice["id"].as_str().unwrap_or_default();
        let at = notice["at"].as_str().unwrap_or_default();
        let events = notice["events"].as_array().map_or(&[][..], Vec::as_slice);
        let mut message = Message::builder()
            .from(self.from.clone())
            .message_id(Some(format!("<{id}@{}>", self.from.email.domain())))
            .subject(subject(events))
            .raw_header(header("X-Springtide-Id", id))
            .raw_header(header("Auto-Submitted", "auto-generated"))
            .header(ContentType::TEXT_PLAIN);
        if let Ok(at) = at.parse::<jiff::Timestamp>() {
            message = message.date(at.into());
        }
        for to in self.to.iter() {
            message = message.to(to.clone());
        }
        message
            .body(text(id, at, events))
            .map_err(|error| error.to_string())
    }
}

/// Whether a refusal is one of who we say that we are: by RFC 4954, 6.
fn is_about_login(code: Code) -> bool {
    matches!(u16::from(code), 432 | 454 | 530 | 534 | 535 | 538)
}

fn header(name: &'static str, value: &str) -> HeaderValue {
    HeaderValue::new(HeaderName::new_from_ascii_str(name), value.to_owned())
}

/// An error with what it came from: its own words are few.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

impl SmtpServer {
    /// An address of it that we may connect to.
    async fn address(&self, http: &HttpSettings) -> Result<IpAddr, String> {
        let host = self.host.trim_matches(['[', ']']);
        let found = tokio::net::lookup_host((host, self.port)).await;
        let found = found.map_err(|error| format!("{host}: {error}"))?;
        let guard = Guard::new(http.allow_private.clone());
        let mut refused = None;
        for address in found.map(|address| address.ip()) {
            if guard.is_allowed(address) {
                return Ok(address);
            }
            refused = Some(address);
        }
        Err(match refused {
            Some(address) => format!(
                "{host} is at {address}, a private or special address; `allow_private` under \
                 [http] allows it"
            ),
            None => format!("{host} has no address"),
        })
    }
}

/// What happened, in a line.
fn subject(events: &[Value]) -> String {
    let first = events.first();
    let of = |key: &str| first.and_then(|event| event[key].as_str()).unwrap_or("");
    let on = of("on").replace('-', " ");
    match (events.len(), of("locator")) {
        (1, "") => format!("springtide: {on}"),
        (1, locator) => format!("springtide: {on}: {}", line(locator, 150)),
        (n, _) => {
            let is_same = events.iter().all(|event| {
                event["on"] == events[0]["on"] && event["source"] == events[0]["source"]
            });
            match is_same && !of("source").is_empty() {
                true => format!("springtide: {n} {on} in {}", line(of("source"), 100)),
                false => format!("springtide: {n} events"),
            }
        }
    }
}

/// All of it.
fn text(id: &str, at: &str, events: &[Value]) -> String {
    let mut text = String::new();
    for (number, event) in events.iter().enumerate() {
        if text.len() > MOST_TEXT {
            let n = events.len() - number;
            text.push_str(&format!("… and {n} more: the dashboard has them all.\n\n"));
            break;
        }
        let of = |key: &str| event[key].as_str().unwrap_or_default();
        let mut add = |name: &str, value: &str| {
            if !value.is_empty() {
                text.push_str(&format!("{name}: {}\n", line(value, LONGEST_LINE)));
            }
        };
        add("on", of("on"));
        add("source", of("source"));
        add("locator", of("locator"));
        add("found at", of("found_at"));
        add("previous poll at", of("previous_poll_at"));
        add(
            "error",
            event["error"]["message"].as_str().unwrap_or_default(),
        );
        for miss in event["misses"].as_array().into_iter().flatten() {
            add("target", miss.as_str().unwrap_or_default());
        }
        let diff = of("diff");
        if !diff.is_empty() {
            text.push('\n');
            for diff_line in diff.lines() {
                text.push_str(&line(diff_line, LONGEST_LINE));
                text.push('\n');
            }
        }
        text.push('\n');
    }
    text.push_str(&format!("id: {id}\nat: {at}\n"));
    text
}

/// One line of what others wrote, without what would be another.
fn line(text: &str, longest: usize) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() && c != '\t' { ' ' } else { c })
        .take(longest)
        .collect();
    if text.chars().count() > longest {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mail() -> Mail {
        let smtp = SmtpServer {
            host: "mail.example.org".to_owned(),
            port: 587,
            is_tls: false,
            user: None,
            password: None,
            authority: None,
        };
        Mail::new(
            "ops@example.org, Eve <eve@example.org>",
            "us@example.org",
            smtp,
        )
        .unwrap()
    }

    #[test]
    fn a_mail_is_the_same_each_time_and_nobody_writes_headers_into_it() {
        let notice = json!({
            "id": "abc", "at": "2026-05-01T12:00:00.000Z",
            "events": [{
                "on": "changed", "source": "docs",
                "locator": "https://example.org/\r\nBcc: all@example.org\r\n\r\n",
                "diff": "-old\n+new\r\n.\r\nQUIT\r\n+Grüße", "found_at": "2026-05-01T11:59:00.000Z"
            }]
        });
        let notice = notice.to_string().into_bytes();
        let message = mail().message(&notice).unwrap().formatted();
        assert_eq!(message, mail().message(&notice).unwrap().formatted());
        let message = String::from_utf8(message).unwrap();
        let (head, body) = message.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("Message-ID: <abc@example.org>"), "{head}");
        assert!(head.contains("X-Springtide-Id: abc"), "{head}");
        assert!(!head.lines().any(|line| line.starts_with("Bcc")), "{head}");
        assert!(body.contains("+new") && body.contains("id: abc"), "{body}");
        assert!(message.lines().all(|line| line.len() < 999));
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let frame = |text: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        };
        for bad in ["", "certificate", &frame("AAAA"), &frame("é")] {
            assert!(Authority::from_pem(bad.into()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in ["", "nobody", "a@b@c", "ops@example.org\r\nRCPT TO:<x@y>"] {
            assert!(
                Mail::new(bad, "us@example.org", mail().smtp).is_err(),
                "{bad}"
            );
        }
        assert!(Mail::new("a@example.org", "us", mail().smtp).is_err());
    }
}
