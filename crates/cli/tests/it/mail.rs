//! Notices by mail, to a server of our own on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::{ServerConnection, StreamOwned};

use crate::Place;
use crate::live::origin;
use crate::serving::{Serving, all_polled, project};

/// A mail that came in, and what the one who sent it said before.
#[derive(Debug, Clone, Default)]
struct Letter {
    to: Vec<String>,
    login: Option<String>,
    text: String,
    was_taken: bool,
    /// Whether nobody else could hear it.
    is_secret: bool,
}

impl Letter {
    fn header(&self, name: &str) -> &str {
        let line = self.text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim()
    }
}

type Letters = Arc<Mutex<Vec<Letter>>>;

/// How a server of ours takes mail.
#[derive(Clone, Copy)]
struct MailServer {
    password: &'static str,
    /// So many of the first it does not take.
    n_refused: usize,
    secrecy: Secrecy,
}

/// When what is said can be heard by nobody else.
#[derive(Clone, Copy, PartialEq)]
enum Secrecy {
    Never,
    /// After STARTTLS, which it insists on.
    Later,
    /// From the first byte.
    AtOnce,
}

/// A certificate for `localhost`, signed by itself, and its key, which protects nothing.
const CERTIFICATE: &[u8] = include_bytes!("../../../engine/tests/localhost/certificate.der");
const KEY: &[u8] = include_bytes!("../../../engine/tests/localhost/key.der");

type Secure = StreamOwned<ServerConnection, TcpStream>;

fn secure(stream: TcpStream) -> Secure {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CERTIFICATE.into()], KEY.try_into().unwrap())
        .unwrap();
    let connection = ServerConnection::new(Arc::new(config)).unwrap();
    StreamOwned::new(connection, stream)
}

impl MailServer {
    fn new(secrecy: Secrecy) -> Self {
        Self {
            password: "right-password",
            n_refused: 0,
            secrecy,
        }
    }

    /// Begins; its port, and what it will have taken.
    fn start(self) -> (u16, Letters) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let letters = Letters::default();
        let heard = Arc::clone(&letters);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Whoever hangs up in the middle has sent nothing.
                let _ = self.serve(stream, &heard);
            }
        });
        (port, letters)
    }

    fn serve(self, stream: TcpStream, letters: &Letters) -> std::io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        if self.secrecy == Secrecy::AtOnce {
            let mut stream = BufReader::new(secure(stream));
            write!(stream.get_mut(), "220 ours\r\n")?;
            return self.take_mail(stream, letters, true).map(drop);
        }
        let mut stream = BufReader::new(stream);
        write!(stream.get_mut(), "220 ours\r\n")?;
        let Some(stream) = self.take_mail(stream, letters, false)? else {
            return Ok(());
        };
        let stream = BufReader::new(secure(stream));
        self.take_mail(stream, letters, true).map(drop)
    }

    /// Takes mail until the other is gone, or wants to go on in secret.
    fn take_mail<S: Read + Write>(
        self,
        mut stream: BufReader<S>,
        letters: &Letters,
        is_secret: bool,
    ) -> std::io::Result<Option<S>> {
        let mut letter = Letter {
            is_secret,
            ..Letter::default()
        };
        let is_offered = self.secrecy == Secrecy::Later && !is_secret;
        let mut line = String::new();
        loop {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let word = line.get(..4).unwrap_or_default().to_ascii_uppercase();
            let answer = match &*word {
                "EHLO" if is_offered => "250-ours\r\n250-8BITMIME\r\n250 STARTTLS".to_owned(),
                "EHLO" => "250-ours\r\n250-8BITMIME\r\n250 AUTH PLAIN".to_owned(),
                "STAR" if is_offered => {
                    write!(stream.get_mut(), "220 go on\r\n")?;
                    // Nobody says anything before the other has: what was said in the open
                    // does not count.
                    assert_eq!(stream.buffer(), b"");
                    return Ok(Some(stream.into_inner()));
                }
                "QUIT" => "221 bye".to_owned(),
                _ if is_offered => "530 STARTTLS comes first".to_owned(),
                "AUTH" => self.log_in(&line, &mut letter),
                "RCPT" => {
                    letter.to.push(line.trim().to_owned());
                    "250 ok".to_owned()
                }
                "DATA" => {
                    write!(stream.get_mut(), "354 go on\r\n")?;
                    loop {
                        line.clear();
                        if stream.read_line(&mut line)? == 0 {
                            return Ok(None);
                        }
                        if line == ".\r\n" {
                            break;
                        }
                        let text = line.strip_prefix('.').unwrap_or(&line);
                        letter.text.push_str(text);
                    }
                    let mut letters = letters.lock().unwrap();
                    letter.was_taken = letters.len() >= self.n_refused;
                    let answer = match letter.was_taken {
                        true => "250 taken",
                        false => "451 not now",
                    };
                    letters.push(std::mem::take(&mut letter));
                    answer.to_owned()
                }
                _ => "250 ok".to_owned(),
            };
            write!(stream.get_mut(), "{answer}\r\n")?;
            if word == "QUIT" {
                return Ok(None);
            }
        }
    }

    fn log_in(self, line: &str, letter: &mut Letter) -> String {
        let given = line.trim().rsplit(' ').next().unwrap_or_default();
        // `\0user\0password`, in base 64.
        let wanted = base64(format!("\0us@example.org\0{}", self.password).as_bytes());
        letter.login = Some(given.to_owned());
        match given == wanted {
            true => "235 welcome".to_owned(),
            // As bad as servers get.
            false => format!("535 no: {given} is wrong, wrong-password"),
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = (0..3).fold(0_u32, |sum, i| {
            sum << 8 | u32::from(chunk.get(i).copied().unwrap_or(0))
        });
        for i in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= chunk.len() {
                letter as char
            } else {
                '='
            });
        }
    }
    text
}

fn settings(port: u16, password: &str) -> String {
    format!(
        "[[notify]]\nto = \"mailto:ops@example.org\"\non = [\"changed\"]\n\
         [smtp]\nurl = \"smtp://us%40example.org@127.0.0.1:{port}\"\n\
         password = \"{password}\"\nfrom = \"Us <us@example.org>\"\n"
    )
}

#[test]
fn a_mail_that_is_not_taken_comes_again_by_the_same_id() {
    let server = MailServer {
        n_refused: 1,
        ..MailServer::new(Secrecy::Never)
    };
    let (port, letters) = server.start();
    let origin = origin(3);
    let place = project(&origin, &settings(port, "right-password"));
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(3));
    origin.site().change(1);
    let locator = origin.url(&origin.site().path(1));
    serving.until("it is taken", |_| {
        let letters = letters.lock().unwrap();
        letters.iter().any(|letter| letter.was_taken).then_some(())
    });
    let letters = letters.lock().unwrap();
    assert_eq!(letters.len(), 2, "{letters:?}");
    for letter in &*letters {
        assert_eq!(letter.text, letters[0].text);
        assert_eq!(letter.to, ["RCPT TO:<ops@example.org>"]);
        assert!(letter.login.is_some());
    }
    let letter = &letters[0];
    let id = letter.header("X-Springtide-Id:");
    assert_eq!(id.len(), 32, "{letter:?}");
    assert_eq!(
        letter.header("Message-ID:"),
        format!("<{id}@example.org>"),
        "{letter:?}"
    );
    assert!(letter.header("Subject:").contains("changed"), "{letter:?}");
    assert_eq!(letter.header("From:"), "Us <us@example.org>");
    assert!(letter.text.contains(&*locator), "{letter:?}");
    assert!(letter.text.contains("\r\n+"), "{letter:?}");
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn a_wrong_password_is_nowhere_to_be_read() {
    let (port, letters) = MailServer::new(Secrecy::Never).start();
    let origin = origin(1);
    let place = project(&origin, &settings(port, "wrong-password"));
    let refused = place
        .run("notify test ops")
        .failed(1, &["did not accept the notice", "mailto:ops@example.org"]);
    for said in [&refused.stderr, &refused.stdout] {
        assert!(!said.contains("wrong-password"), "{said}");
        let encoded = base64(b"\0us@example.org\0wrong-password");
        assert!(!said.contains(&encoded), "{said}");
    }
    assert!(letters.lock().unwrap().is_empty());
    let right = place.read("springtide.toml");
    let right = right.replace("wrong-password", "right-password");
    std::fs::write(place.path("springtide.toml"), &right).unwrap();
    place.run("notify test 1").ok();
    assert_eq!(letters.lock().unwrap().len(), 1);
    assert!(letters.lock().unwrap()[0].text.contains("on: test"));

    // What makes no sense is refused before anything is sent.
    for (old, new, word) in [
        ("[\"127.0.0.1\"]", "false", "allow_private"),
        ("mailto:ops@example.org", "mailto:nobody", "not an address"),
        ("smtp://", "pop3://", "smtp"),
        ("us%40example.org@", "us:secret@", "password"),
        ("\"right-password\"", "\"env:NOT_SET_HERE\"", "NOT_SET_HERE"),
        ("[smtp]", "[server]\nhosts = []\n#", "[smtp]"),
    ] {
        let bad = right.split("[source.docs]").next().unwrap();
        assert!(bad.contains(old), "{old}");
        let bad = match old {
            "[smtp]" => bad.split("[smtp]").next().unwrap().to_owned(),
            _ => bad.replace(old, new),
        };
        let other = Place::with("springtide.toml", bad);
        other.run("notify test 1").failed(2, &[word]);
    }
}

/// A project that sends mail to `localhost`, by the name that the certificate has.
fn secret_project(scheme: &str, host: &str, port: u16, more: &str) -> Place {
    let digits = base64(CERTIFICATE);
    let text = format!(
        "[http]\nallow_private = [\"127.0.0.1\", \"::1\"]\n\
         [[notify]]\nto = \"mailto:ops@example.org\"\non = [\"changed\"]\n\
         [smtp]\nurl = \"{scheme}://us%40example.org@{host}:{port}\"\n\
         password = \"right-password\"\nfrom = \"us@example.org\"\n{more}"
    );
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in digits.as_bytes().chunks(64) {
        pem.push_str(std::str::from_utf8(line).unwrap());
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    Place::with("springtide.toml", text)
        .and("ca.pem", pem)
        .and("none.pem", "nothing")
}

#[test]
fn mail_goes_in_secret_to_a_server_that_is_trusted_and_to_no_other() {
    for (scheme, secrecy) in [("smtp", Secrecy::Later), ("smtps", Secrecy::AtOnce)] {
        let (port, letters) = MailServer::new(secrecy).start();
        let trusted = secret_project(scheme, "localhost", port, "ca = \"ca.pem\"\n");
        trusted.run("notify test 1").ok();
        let sent = std::mem::take(&mut *letters.lock().unwrap());
        assert_eq!(sent.len(), 1, "{scheme}: {sent:?}");
        assert!(sent[0].is_secret && sent[0].was_taken, "{scheme}: {sent:?}");
        assert!(sent[0].login.is_some(), "{scheme}: {sent:?}");

        // Nobody has said who that is; and what is certified is its name, not its address.
        let unknown = secret_project(scheme, "localhost", port, "");
        let other_name = secret_project(scheme, "127.0.0.1", port, "ca = \"ca.pem\"\n");
        for place in [unknown, other_name] {
            let refused = place.run("notify test 1");
            let refused = refused.failed(1, &["did not accept the notice", "certificate"]);
            assert!(
                !refused.stderr.contains("right-password"),
                "{}",
                refused.stderr
            );
        }
        assert!(letters.lock().unwrap().is_empty(), "{scheme}");
    }
    let nothing = secret_project("smtps", "localhost", 1, "ca = \"none.pem\"\n");
    let words = ["smtp.ca", "none.pem", "no certificate"];
    nothing.run("notify test 1").failed(2, &words);
    let missing = secret_project("smtps", "localhost", 1, "ca = \"missing.pem\"\n");
    missing.run("notify test 1").failed(2, &["missing.pem"]);
}

/// Whoever asks for `smtps` never speaks in the open, whatever answers there.
#[test]
fn a_server_that_does_not_keep_secrets_is_told_none() {
    let (port, letters) = MailServer::new(Secrecy::Never).start();
    let place = secret_project("smtps", "localhost", port, "ca = \"ca.pem\"\n");
    place
        .run("notify test 1")
        .failed(1, &["did not accept the notice"]);
    assert!(letters.lock().unwrap().is_empty());
}
