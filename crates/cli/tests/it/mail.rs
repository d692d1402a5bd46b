//! Notices by mail, to a server of our own on loopback.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::Place;
use crate::live::origin;
use crate::serve::{Serving, all_polled, project};

/// A mail that came in, and what the one who sent it said before.
#[derive(Debug, Clone, Default)]
struct Letter {
    to: Vec<String>,
    login: Option<String>,
    text: String,
    was_taken: bool,
}

impl Letter {
    fn header(&self, name: &str) -> &str {
        let line = self.text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim()
    }
}

type Letters = Arc<Mutex<Vec<Letter>>>;

/// A server that takes mail, but not the first so many; its port.
fn mail_server(n_refused: usize, password: &'static str) -> (u16, Letters) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let letters = Letters::default();
    let heard = Arc::clone(&letters);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever hangs up in the middle has sent nothing.
            let _ = take_mail(stream, &heard, n_refused, password);
        }
    });
    (port, letters)
}

fn take_mail(
    mut stream: TcpStream,
    letters: &Letters,
    n_refused: usize,
    password: &str,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut letter = Letter::default();
    let mut say = |text: &str| write!(stream, "{text}\r\n");
    say("220 ours")?;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let word = line.get(..4).unwrap_or_default().to_ascii_uppercase();
        match &*word {
            "EHLO" => say("250-ours\r\n250-8BITMIME\r\n250 AUTH PLAIN")?,
            "AUTH" => {
                let given = line
                    .trim()
                    .rsplit(' ')
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                // `\0user\0password`, in base 64.
                let wanted = base64(format!("\0us@example.org\0{password}").as_bytes());
                match given == wanted {
                    true => say("235 welcome")?,
                    // As bad as servers get.
                    false => say(&format!("535 no: {given} is wrong, wrong-password"))?,
                }
                letter.login = Some(given);
            }
            "MAIL" => say("250 ok")?,
            "RCPT" => {
                letter.to.push(line.trim().to_owned());
                say("250 ok")?;
            }
            "DATA" => {
                say("354 go on")?;
                loop {
                    line.clear();
                    if reader.read_line(&mut line)? == 0 {
                        return Ok(());
                    }
                    if line == ".\r\n" {
                        break;
                    }
                    letter
                        .text
                        .push_str(line.strip_prefix('.').unwrap_or(&line));
                }
                let mut letters = letters.lock().unwrap();
                letter.was_taken = letters.len() >= n_refused;
                let answer = match letter.was_taken {
                    true => "250 taken",
                    false => "451 not now",
                };
                letters.push(std::mem::take(&mut letter));
                say(answer)?;
            }
            "QUIT" => {
                say("221 bye")?;
                return Ok(());
            }
            _ => say("250 ok")?,
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
    let (port, letters) = mail_server(1, "right-password");
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
    let (port, letters) = mail_server(0, "right-password");
    let origin = origin(1);
    let place = project(&origin, &settings(port, "wrong-password"));
    let refused = place
        .run("notify test ops")
        .failed(1, &["not taken", "mailto:ops@example.org"]);
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
        ("mailto:ops@example.org", "mailto:nobody", "no address"),
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
