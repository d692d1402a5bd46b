//! HTTP/1.1, by hand: a connection, from the first request to the last.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;

use super::behaviour::{Behaviour, Reply, Step};
use super::{Request, Shared};

/// The longest request, in bytes: headers, and a body with them.
const MAX_REQUEST: usize = 1 << 20;

/// Repeated bytes are sent in blocks of this many bytes.
const BLOCK: usize = 16 * 1024;
/// Each block takes this long. So an endless answer takes time in virtual time too, and
/// clients' timeouts fire.
const PER_BLOCK: Duration = Duration::from_millis(1);

/// How a connection goes on after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    KeepAlive,
    Close,
}

/// A connection: a socket, or one within this process.
pub(super) trait Connection: AsyncRead + AsyncWrite + Unpin {
    /// Has the other side see it break, rather than end, when it is dropped.
    fn break_off(&self) -> io::Result<()>;
}

impl Connection for TcpStream {
    fn break_off(&self) -> io::Result<()> {
        self.set_zero_linger()
    }
}

impl Connection for DuplexStream {
    /// There is no other way to end: what was sent arrives, and no more.
    fn break_off(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves one connection until either side has had enough.
pub(super) async fn serve(mut stream: impl Connection, shared: Arc<Shared>) -> io::Result<()> {
    let mut input = Vec::with_capacity(4096);
    loop {
        let Some(length) = read_head(&mut stream, &mut input).await? else {
            return Ok(());
        };
        let received_at = shared.clock.wall_time();
        let Some((mut request, n_body, ending)) = parse(&input[..length], received_at) else {
            stream
                .write_all(
                    b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                )
                .await?;
            return Ok(());
        };
        input.drain(..length);
        while input.len() < n_body.min(MAX_REQUEST) {
            if stream.read_buf(&mut input).await? == 0 {
                return Ok(());
            }
        }
        request.body = input.drain(..n_body.min(input.len())).collect();

        let mut behaviour = shared.behaviour(&request.path);
        if let Behaviour::Call(decide) = &behaviour {
            behaviour = decide(&request);
        }
        let is_head = request.method == "HEAD";
        match behaviour {
            Behaviour::Usual | Behaviour::Call(_) => {
                let answer = usual(&shared, &request, ending);
                let number = shared.log(request, answer.status);
                delay(&shared).await;
                let sent = if is_head {
                    &answer.bytes[..answer.n_head]
                } else {
                    &answer.bytes[..]
                };
                stream.write_all(sent).await?;
                shared.answered(number);
            }
            Behaviour::Reply(reply) => {
                let number = shared.log(request, reply.status);
                delay(&shared).await;
                stream.write_all(&encode(&reply, ending)).await?;
                shared.answered(number);
            }
            Behaviour::Steps(steps) => {
                let number = shared.log(request, status_of(&steps));
                carry_out(&mut stream, &steps).await?;
                shared.answered(number);
                linger(&mut stream).await;
                return Ok(());
            }
        }
        if ending == Ending::Close {
            return Ok(());
        }
    }
}

/// Waits for as long as every answer takes.
async fn delay(shared: &Shared) {
    let latency = shared.site.settings().latency;
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
}

/// Reads until the headers of a request are there, and says where they end; nothing,
/// if there is no other request.
async fn read_head(stream: &mut impl Connection, input: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let mut seen: usize = 0;
    loop {
        let from = seen.saturating_sub(3);
        if let Some(at) = input[from..].windows(4).position(|end| end == b"\r\n\r\n") {
            return Ok(Some(from + at + 4));
        }
        seen = input.len();
        // A client that speaks something else, such as TLS, would wait for an answer
        // as long as we would wait for the end of its headers.
        if input
            .first()
            .is_some_and(|byte| !byte.is_ascii_alphabetic())
        {
            return Ok(Some(seen));
        }
        if seen > MAX_REQUEST || stream.read_buf(input).await? == 0 {
            return Ok(None);
        }
    }
}

/// A request, how long its body is, and whether it is the last.
fn parse(head: &[u8], received_at: SystemTime) -> Option<(Request, usize, Ending)> {
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let mut request = Request {
        received_at,
        answered_at: None,
        method: words.next()?.to_owned(),
        path: words.next()?.to_owned(),
        status: 0,
        host: None,
        user_agent: None,
        if_none_match: None,
        if_modified_since: None,
        accept_encoding: None,
        headers: Vec::new(),
        body: Vec::new(),
    };
    let mut n_body = 0;
    let mut ending = match words.next()? {
        "HTTP/1.1" => Ending::KeepAlive,
        "HTTP/1.0" => Ending::Close,
        _ => return None,
    };
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("host") {
            request.host = Some(value.to_owned());
        } else if is("user-agent") {
            request.user_agent = Some(value.to_owned());
        } else if is("if-none-match") {
            request.if_none_match = Some(value.to_owned());
        } else if is("if-modified-since") {
            request.if_modified_since = Some(value.to_owned());
        } else if is("accept-encoding") {
            request.accept_encoding = Some(value.to_owned());
        } else if is("content-length") {
            n_body = value.parse().ok()?;
        } else if is("connection") {
            if value.eq_ignore_ascii_case("close") {
                ending = Ending::Close;
            }
        } else if !is("accept") {
            request
                .headers
                .push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }
    Some((request, n_body, ending))
}

/// An answer, ready to be sent.
struct Encoded {
    status: u16,
    bytes: Vec<u8>,
    n_head: usize,
}

/// What the site has there.
fn usual(shared: &Shared, request: &Request, ending: Ending) -> Encoded {
    let site = &shared.site;
    let now = request.received_at;
    let path = request.path.split('?').next().unwrap_or_default();
    if let Some(page) = site.page(path) {
        let version = site.version_at(page, now);
        let changed_at = site.changed_at(page, now);
        let validators = site.settings().validators;
        let etag = validators.has_etag().then(|| {
            // Where parts differ at every request, versions are alike at best.
            let weak = if site.settings().has_volatile_parts {
                "W/"
            } else {
                ""
            };
            format!("{weak}\"{page}-{version}\"")
        });
        let last_modified = (validators.has_last_modified() && is_settled(changed_at, now))
            .then(|| httpdate::fmt_http_date(changed_at));
        let is_unchanged = match (&request.if_none_match, &request.if_modified_since) {
            (Some(theirs), _) => etag
                .as_deref()
                .is_some_and(|etag| theirs.split(',').any(|other| other.trim() == etag)),
            (None, Some(theirs)) => {
                last_modified.is_some()
                    && httpdate::parse_http_date(theirs)
                        .is_ok_and(|since| seconds(changed_at) <= seconds(since))
            }
            (None, None) => false,
        };
        let mut headers = String::new();
        if let Some(etag) = etag {
            headers += &format!("etag: {etag}\r\n");
        }
        if let Some(last_modified) = last_modified {
            headers += &format!("last-modified: {last_modified}\r\n");
        }
        return if is_unchanged {
            assemble(shared, request, ending, 304, &headers, "")
        } else {
            headers += "content-type: text/html; charset=utf-8\r\n";
            assemble(
                shared,
                request,
                ending,
                200,
                &headers,
                &site.html(page, version, now),
            )
        };
    }
    const HTML: &str = "content-type: text/html; charset=utf-8\r\n";
    const XML: &str = "content-type: application/xml\r\n";
    let base = || match &request.host {
        Some(host) => format!("http://{host}"),
        None => shared.base.clone(),
    };
    let sitemap = path
        .strip_prefix("/sitemap-")
        .and_then(|rest| rest.strip_suffix(".xml"))
        .and_then(|number| number.parse().ok())
        .filter(|&number| number < site.n_sitemaps());
    let (headers, body): (&str, Cow<'_, str>) = match (path, sitemap) {
        ("/", _) => (HTML, site.home().into()),
        ("/robots.txt", _) => match &site.settings().robots {
            Some(robots) => ("content-type: text/plain\r\n", robots.into()),
            None => return assemble(shared, request, ending, 404, HTML, "nothing here"),
        },
        ("/sitemap.xml", _) if site.n_sitemaps() == 1 => {
            (XML, site.sitemap(0, &base(), now).into())
        }
        ("/sitemap.xml", _) => (XML, site.sitemap_index(&base()).into()),
        (_, Some(number)) => (XML, site.sitemap(number, &base(), now).into()),
        _ => return assemble(shared, request, ending, 404, HTML, "nothing here"),
    };
    assemble(shared, request, ending, 200, headers, &body)
}

/// Whether a page cannot change again within the second that its Last-Modified is:
/// before, the header would be true of two versions.
fn is_settled(changed_at: SystemTime, now: SystemTime) -> bool {
    seconds(now) > seconds(changed_at)
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

fn assemble(
    shared: &Shared,
    request: &Request,
    ending: Ending,
    status: u16,
    headers: &str,
    body: &str,
) -> Encoded {
    let settings = shared.site.settings();
    let is_gzipped = settings.is_gzipped
        && status == 200
        && request
            .accept_encoding
            .as_deref()
            .is_some_and(|accepted| accepted.contains("gzip"));
    let body: Cow<'_, [u8]> = if is_gzipped {
        gzip(body.as_bytes()).into()
    } else {
        body.as_bytes().into()
    };
    let mut bytes = Vec::with_capacity(body.len() + 256);
    let mut head = format!("HTTP/1.1 {status} {}\r\n{headers}", reason(status));
    if is_gzipped {
        head += "content-encoding: gzip\r\n";
    }
    if ending == Ending::Close {
        head += "connection: close\r\n";
    }
    let is_chunked = settings.is_chunked && status == 200;
    if is_chunked {
        head += "transfer-encoding: chunked\r\n";
    } else if status != 304 {
        head += &format!("content-length: {}\r\n", body.len());
    }
    head += "\r\n";
    bytes.extend_from_slice(head.as_bytes());
    let n_head = bytes.len();
    if is_chunked {
        for chunk in body.chunks(1000) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
    } else {
        bytes.extend_from_slice(&body);
    }
    Encoded {
        status,
        bytes,
        n_head,
    }
}

fn gzip(body: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Into memory, nothing fails.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

/// An answer as bytes.
pub(super) fn encode(reply: &Reply, ending: Ending) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} {}\r\n", reply.status, reason(reply.status));
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    if !matches!(reply.status, 204 | 304) {
        head += &format!("content-length: {}\r\n", reply.body.len());
    }
    if ending == Ending::Close {
        head += "connection: close\r\n";
    }
    head += "\r\n";
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&reply.body);
    bytes
}

async fn carry_out(stream: &mut impl Connection, steps: &[Step]) -> io::Result<()> {
    for step in steps {
        match step {
            Step::Send(bytes) => stream.write_all(bytes).await?,
            Step::Repeat(bytes, times) => {
                // Many short pieces go out together.
                let per_block = (BLOCK / bytes.len().max(1)).max(1) as u64;
                let block = Bytes::from(bytes.repeat(per_block.min(*times) as usize));
                for _ in 0..times / per_block {
                    stream.write_all(&block).await?;
                    tokio::time::sleep(PER_BLOCK).await;
                }
                let rest = (times % per_block) as usize * bytes.len();
                stream.write_all(&block[..rest.min(block.len())]).await?;
            }
            Step::Wait(wait) => tokio::time::sleep(*wait).await,
            Step::Reset => {
                stream.break_off()?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
    }
    Ok(())
}

/// Closes a connection so that what was sent arrives: what is closed with bytes
/// unread is reset, and takes what is on its way with it.
async fn linger(stream: &mut impl Connection) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut rest = [0; 1024];
    let _ = tokio::time::timeout(Duration::from_secs(1), async {
        while stream.read(&mut rest).await.is_ok_and(|n| n > 0) {}
    })
    .await;
}

/// The status that the first bytes claim; 0, if they do not.
fn status_of(steps: &[Step]) -> u16 {
    steps
        .iter()
        .find_map(|step| match step {
            Step::Send(bytes) => Some(bytes),
            _ => None,
        })
        .and_then(|bytes| bytes.strip_prefix(b"HTTP/1.1 "))
        .and_then(|rest| rest.get(..3))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        410 => "Gone",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
