//! Sitemaps: XML, indexes of them, plain lists, and feeds that are used as one.
//!
//! The XML is read event by event over the bytes at hand; no entity is expanded but
//! the five that XML has and character references, nothing is kept but the entries,
//! and every text has a limit. What could not be used is counted, with the reason of
//! the first; what came before the place where a document breaks off counts.

use std::borrow::Cow;
use std::io::Read;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;
use springtide_store::Moment;
use url::Url;

use crate::detect::decode;

/// Addresses longer than this are skipped. The protocol allows 2,048 characters,
/// most servers 8 kB.
const MAX_ADDRESS: usize = 8192;

/// The longest text of a date or a priority that is looked at.
const MAX_VALUE: usize = 64;

/// What a listing names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedSitemap {
    /// Pages, in their order; the same may be there twice.
    pub pages: Vec<SitemapEntry>,
    /// Further listings.
    pub sitemaps: Vec<SitemapEntry>,
    /// Entries that were not used.
    pub n_skipped: u64,
    /// The first of them, and why.
    pub first_skipped: Option<Skipped>,
    /// Why what is here may not be all that there is.
    pub problem: Option<ListingProblem>,
}

/// Something that a listing names.
#[derive(Debug, Clone, PartialEq)]
pub struct SitemapEntry {
    /// Its address, without fragment.
    pub url: String,
    /// When it is said to have changed last.
    pub lastmod: Option<Moment>,
    /// How much it matters beside the others, from 0 to 1, if that is said.
    pub priority: Option<f32>,
}

/// An entry that was not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The start of its address.
    pub url: String,
    /// Why.
    pub reason: SkippedReason,
}

/// Why an entry was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SkippedReason {
    /// It has no address.
    #[error("it has no address")]
    NoAddress,
    /// Its address is none, or not of the web.
    #[error("it is not an http or https address")]
    BadAddress,
    /// Its address is too long.
    #[error("its address is longer than 8192 bytes")]
    LongAddress,
    /// It is of another site.
    #[error("it is of another host than the listing")]
    OtherHost,
}

/// Why a listing could not be read, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListingProblem {
    /// It is something else.
    #[error("it is not a sitemap or a feed, but {found}")]
    NotAListing {
        /// What it looks like.
        found: String,
    },
    /// The XML is broken.
    #[error("the XML is broken at byte {at}: {reason}")]
    Broken {
        /// Where.
        at: u64,
        /// How.
        reason: String,
    },
    /// It ends in the middle.
    #[error("it ends before its last element does")]
    CutShort,
    /// It has more entries than were asked for.
    #[error("it has more than {0} entries")]
    TooManyEntries(usize),
    /// It is longer than was asked for once it is unpacked.
    #[error("it is longer than {0} bytes when unpacked")]
    TooLong(usize),
    /// The gzip is broken.
    #[error("it cannot be unpacked")]
    BadGzip,
    /// It defines entities, or refers to another document. Neither is ever looked up.
    #[error("it has entities of its own, or refers to another document, which is not read")]
    Entities,
    /// It is an index within indexes.
    #[error("it is an index within {0} others, so {1} listings that it names are left out")]
    TooDeep(u16, usize),
}

/// How much of a listing to read, and what of it to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListingLimits {
    /// Entries, used or skipped.
    pub n_entries: usize,
    /// Bytes, unpacked.
    pub n_bytes: usize,
    /// Whose entries to use.
    pub hosts: Hosts,
}

/// Whose entries to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// Those of the listing's own host, with or without `www.`, by http or https:
    /// no site may speak for another.
    Own,
    /// All: for a listing that was found where its entries' host says so, in its
    /// robots.txt, or that a user named.
    All,
}

/// What a listing names, or why it is none.
///
/// `base` is where it was found. A document that breaks off is a listing with a
/// [`problem`](ParsedSitemap::problem).
///
/// # Errors
/// If nothing of it could be read as a listing.
pub fn parse_sitemap(
    bytes: &[u8],
    base: &Url,
    limits: &ListingLimits,
) -> Result<ParsedSitemap, ListingProblem> {
    let mut problem = None;
    let unpacked;
    let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
        (unpacked, problem) = unpack(bytes, limits.n_bytes);
        &unpacked[..]
    } else if bytes.len() > limits.n_bytes {
        problem = Some(ListingProblem::TooLong(limits.n_bytes));
        &bytes[..limits.n_bytes]
    } else {
        bytes
    };
    let text = decode(bytes, None);
    let mut collector = Collector {
        listing: ParsedSitemap::default(),
        base,
        limits,
    };
    let found = if text.trim_start().starts_with('<') {
        read_xml(&text, &mut collector)
    } else {
        read_lines(&text, &mut collector)
    };
    let mut listing = collector.listing;
    match found {
        Ok(()) => listing.problem = problem,
        // What was cut off explains what is broken.
        Err(found) => match (problem, found) {
            (Some(problem), ListingProblem::NotAListing { .. }) if listing.is_empty() => {
                return Err(problem);
            }
            (None, found @ ListingProblem::NotAListing { .. }) => return Err(found),
            (problem, found) => listing.problem = Some(problem.unwrap_or(found)),
        },
    }
    Ok(listing)
}

impl ParsedSitemap {
    fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.sitemaps.is_empty()
    }
}

fn unpack(bytes: &[u8], n_bytes: usize) -> (Vec<u8>, Option<ListingProblem>) {
    let mut unpacked = Vec::new();
    let reader = flate2::read::MultiGzDecoder::new(bytes);
    let found = reader.take(n_bytes as u64 + 1).read_to_end(&mut unpacked);
    if unpacked.len() > n_bytes {
        unpacked.truncate(n_bytes);
        return (unpacked, Some(ListingProblem::TooLong(n_bytes)));
    }
    (unpacked, found.err().map(|_| ListingProblem::BadGzip))
}

/// Takes entries in, as long as there is room.
struct Collector<'a> {
    listing: ParsedSitemap,
    base: &'a Url,
    limits: &'a ListingLimits,
}

/// Whether a listing lists pages or listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Pages,
    Sitemaps,
}

impl Collector<'_> {
    fn take(&mut self, entry: &Entry, level: Level) -> Result<(), ListingProblem> {
        let listing = &mut self.listing;
        let n = listing.pages.len() as u64 + listing.sitemaps.len() as u64 + listing.n_skipped;
        if n >= self.limits.n_entries as u64 {
            return Err(ListingProblem::TooManyEntries(self.limits.n_entries));
        }
        match self.address(entry) {
            Ok(url) => {
                let listed = SitemapEntry {
                    url,
                    lastmod: moment(&entry.lastmod),
                    priority: priority(&entry.priority),
                };
                match level {
                    Level::Pages => self.listing.pages.push(listed),
                    Level::Sitemaps => self.listing.sitemaps.push(listed),
                }
            }
            Err(reason) => {
                self.listing.n_skipped += 1;
                if self.listing.first_skipped.is_none() {
                    let url = entry.address.chars().take(200).collect();
                    self.listing.first_skipped = Some(Skipped { url, reason });
                }
            }
        }
        Ok(())
    }

    fn address(&self, entry: &Entry) -> Result<String, SkippedReason> {
        if entry.is_too_long {
            return Err(SkippedReason::LongAddress);
        }
        let text = entry.address.trim();
        if text.is_empty() {
            return Err(SkippedReason::NoAddress);
        }
        let mut url = self
            .base
            .join(text)
            .map_err(|_| SkippedReason::BadAddress)?;
        // A reference that could not be resolved, or bytes that are no characters.
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() || entry.is_unclear {
            return Err(SkippedReason::BadAddress);
        }
        if self.limits.hosts == Hosts::Own && !is_same_host(&url, self.base) {
            return Err(SkippedReason::OtherHost);
        }
        url.set_fragment(None);
        Ok(url.into())
    }
}

fn is_same_host(one: &Url, other: &Url) -> bool {
    let bare = |url: &Url| {
        let host = url.host_str().unwrap_or_default();
        host.strip_prefix("www.").unwrap_or(host).to_owned()
    };
    // A port that the scheme implies is none, so http and https go together.
    one.port() == other.port() && bare(one) == bare(other)
}

/// The texts of an entry so far.
#[derive(Debug, Default)]
struct Entry {
    address: String,
    lastmod: String,
    priority: String,
    is_too_long: bool,
    is_unclear: bool,
}

/// A text of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Address,
    Lastmod,
    Priority,
}

impl Entry {
    fn clear(&mut self) {
        self.address.clear();
        self.lastmod.clear();
        self.priority.clear();
        self.is_too_long = false;
        self.is_unclear = false;
    }

    fn push(&mut self, field: Field, text: &str) {
        let (buffer, most) = match field {
            Field::Address => (&mut self.address, MAX_ADDRESS),
            Field::Lastmod => (&mut self.lastmod, MAX_VALUE),
            Field::Priority => (&mut self.priority, MAX_VALUE),
        };
        // Blanks before the first character do not count: some indent by kilobytes.
        let text = if buffer.is_empty() {
            text.trim_start()
        } else {
            text
        };
        if buffer.len() + text.trim_end().len() <= most {
            buffer.push_str(text.get(..most - buffer.len()).unwrap_or(text));
        } else if field == Field::Address {
            self.is_too_long = true;
            if buffer.is_empty() {
                buffer.extend(text.chars().take(200));
            }
        }
    }
}

fn read_lines(text: &str, collector: &mut Collector<'_>) -> Result<(), ListingProblem> {
    let mut entry = Entry::default();
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        entry.clear();
        entry.push(Field::Address, line);
        // A line is an address in full, or none.
        entry.is_unclear = !line
            .get(..4)
            .is_some_and(|start| start.eq_ignore_ascii_case("http"));
        collector.take(&entry, Level::Pages)?;
    }
    if collector.listing.is_empty() {
        return Err(ListingProblem::NotAListing {
            found: "text without addresses".to_owned(),
        });
    }
    Ok(())
}

/// How the entries of a document are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    UrlSet,
    Index,
    /// RSS 0.9x and 2.0, whose items are in a channel.
    Rss,
    /// RSS 1.0, whose items are beside it.
    Rdf,
    Atom,
}

impl Format {
    fn of_root(name: &str) -> Option<Self> {
        Some(match name {
            "urlset" => Self::UrlSet,
            "sitemapindex" => Self::Index,
            "rss" => Self::Rss,
            "RDF" => Self::Rdf,
            "feed" => Self::Atom,
            _ => return None,
        })
    }

    /// The element of an entry, and how deep it is.
    fn entry(self) -> (&'static str, usize) {
        match self {
            Self::UrlSet => ("url", 2),
            Self::Index => ("sitemap", 2),
            Self::Rss => ("item", 3),
            Self::Rdf => ("item", 2),
            Self::Atom => ("entry", 2),
        }
    }

    fn field(self, name: &str) -> Option<Field> {
        Some(match (self, name) {
            (Self::UrlSet | Self::Index, "loc") => Field::Address,
            (Self::UrlSet | Self::Index, "lastmod") => Field::Lastmod,
            (Self::UrlSet, "priority") => Field::Priority,
            (Self::Rss | Self::Rdf, "link") => Field::Address,
            (Self::Rss, "pubDate") | (Self::Rdf, "date") => Field::Lastmod,
            (Self::Atom, "updated") => Field::Lastmod,
            _ => return None,
        })
    }

    fn level(self) -> Level {
        match self {
            Self::Index => Level::Sitemaps,
            _ => Level::Pages,
        }
    }
}

fn read_xml(text: &str, collector: &mut Collector<'_>) -> Result<(), ListingProblem> {
    let mut reader = Reader::from_str(text);
    // Addresses with a bare `&` are common.
    reader.config_mut().allow_dangling_amp = true;
    let mut document = Document::default();
    loop {
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(_) if document.format.is_none() => return Err(not_a_listing("broken XML")),
            // A tag, a comment or a section that is open at the end.
            Err(quick_xml::Error::Syntax(_)) => return Err(ListingProblem::CutShort),
            Err(error) => {
                return Err(ListingProblem::Broken {
                    at: reader.error_position(),
                    reason: error.to_string().chars().take(200).collect(),
                });
            }
        };
        match event {
            Event::Start(start) => document.open(&start)?,
            Event::Empty(start) => {
                document.open(&start)?;
                document.close(collector)?;
            }
            Event::End(_) => document.close(collector)?,
            Event::Text(content) => document.push(&content.xml10_content()),
            Event::CData(content) => document.push(&content.xml10_content()),
            Event::GeneralRef(reference) => document.push_reference(&reference),
            Event::Eof if document.depth > 0 => return Err(ListingProblem::CutShort),
            Event::Eof if document.format.is_none() => {
                return Err(not_a_listing("XML without elements"));
            }
            Event::Eof if document.has_entities => return Err(ListingProblem::Entities),
            Event::Eof => return Ok(()),
            Event::DocType(content) => document.has_entities |= has_references(&content),
            _ => {}
        }
    }
}

/// Whether a document type defines entities, or is somewhere else.
fn has_references(document_type: &str) -> bool {
    let mut words = document_type.split(|c: char| c.is_ascii_whitespace() || c == '[');
    document_type.contains("<!ENTITY") || words.any(|word| matches!(word, "SYSTEM" | "PUBLIC"))
}

fn not_a_listing(found: &str) -> ListingProblem {
    ListingProblem::NotAListing {
        found: found.chars().take(100).collect(),
    }
}

/// Where in a document we are.
#[derive(Debug, Default)]
struct Document {
    format: Option<Format>,
    /// The prefix of the root element.
    prefix: String,
    /// Elements that are open.
    depth: usize,
    /// The entry that is open, if one is.
    entry: Option<Entry>,
    /// The text of it that is open, if one is.
    field: Option<Field>,
    /// What is here may not be all: some of it would have to be looked up.
    has_entities: bool,
}

impl Document {
    fn open(&mut self, start: &BytesStart<'_>) -> Result<(), ListingProblem> {
        self.depth += 1;
        let name = start.local_name();
        let name: &str = name.as_ref();
        let Some(format) = self.format else {
            self.format = Format::of_root(name);
            self.prefix = prefix_of(start).to_owned();
            return match self.format {
                Some(_) => Ok(()),
                None => Err(not_a_listing(&format!("<{name}>"))),
            };
        };
        let (entry_name, entry_depth) = format.entry();
        if self.depth == entry_depth && name == entry_name {
            self.entry = Some(Entry::default());
            return Ok(());
        }
        let Some(entry) = &mut self.entry else {
            return Ok(());
        };
        // `<image:loc>` and its like are of the page, not its address. Dates of
        // RSS 1.0 always come from elsewhere.
        let prefix = prefix_of(start);
        let is_own = prefix == self.prefix || prefix.is_empty() || format == Format::Rdf;
        if self.depth == entry_depth + 1 && is_own {
            self.field = format.field(name);
            if format == Format::Atom && name == "link" {
                take_link(start, entry);
            }
        }
        Ok(())
    }

    fn close(&mut self, collector: &mut Collector<'_>) -> Result<(), ListingProblem> {
        self.field = None;
        self.depth = self.depth.saturating_sub(1);
        let Some(format) = self.format else {
            return Ok(());
        };
        if self.depth < format.entry().1
            && let Some(entry) = self.entry.take()
        {
            collector.take(&entry, format.level())?;
        }
        Ok(())
    }

    fn push(&mut self, text: &str) {
        if let (Some(entry), Some(field)) = (&mut self.entry, self.field) {
            entry.push(field, text);
        }
    }

    fn push_reference(&mut self, reference: &BytesRef<'_>) {
        let resolved = match reference.resolve_char_ref() {
            Ok(Some(character)) => Some(character),
            // Entities that a document defines itself are not looked up, so they
            // cannot grow.
            _ => match &**reference {
                "amp" => Some('&'),
                "lt" => Some('<'),
                "gt" => Some('>'),
                "quot" => Some('"'),
                "apos" => Some('\''),
                _ => None,
            },
        };
        match resolved {
            Some(character) => self.push(character.encode_utf8(&mut [0; 4])),
            None => {
                if let (Some(entry), Some(Field::Address)) = (&mut self.entry, self.field) {
                    entry.is_unclear = true;
                }
            }
        }
    }
}

fn prefix_of<'a>(start: &'a BytesStart<'_>) -> &'a str {
    let name = start.name().into_inner();
    name.split_once(':').map_or("", |(prefix, _)| prefix)
}

/// The page of an Atom entry is a link of it, unless that says it is something else.
fn take_link(start: &BytesStart<'_>, entry: &mut Entry) {
    let value = |name: &str| {
        // The check for doubles compares each with all before it.
        let mut attributes = start.attributes();
        let mut attributes = attributes.with_checks(false).flatten();
        let found = attributes.find(|attribute| attribute.key.into_inner() == name)?;
        found
            .normalized_value(quick_xml::XmlVersion::Implicit1_0)
            .ok()
            .map(Cow::into_owned)
    };
    let is_page = value("rel").is_none_or(|rel| rel == "alternate");
    if is_page
        && entry.address.is_empty()
        && let Some(href) = value("href")
    {
        entry.push(Field::Address, &href);
    }
}

fn priority(text: &str) -> Option<f32> {
    let priority: f32 = text.trim().parse().ok()?;
    (0.0..=1.0).contains(&priority).then_some(priority)
}

/// A date in any form of the W3C's note on dates, or of RFC 2822 as in RSS. Without
/// a time zone it is UTC.
fn moment(text: &str) -> Option<Moment> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let timestamp = if let Ok(timestamp) = text.parse::<Timestamp>() {
        timestamp
    } else if text.starts_with(|first: char| first.is_ascii_digit()) && is_dated_first(text) {
        let datetime = match text.len() {
            4 => Date::new(text.parse().ok()?, 1, 1).ok()?.into(),
            7 => {
                let (year, month) = text.split_once('-')?;
                let date = Date::new(year.parse().ok()?, month.parse().ok()?, 1);
                date.ok()?.into()
            }
            _ => text.parse::<DateTime>().ok()?,
        };
        datetime.to_zoned(TimeZone::UTC).ok()?.timestamp()
    } else {
        let parser = jiff::fmt::rfc2822::DateTimeParser::new();
        parser.parse_timestamp(text).ok()?
    };
    Some(Moment(timestamp.as_millisecond()))
}

/// Whether a text begins with a year rather than with a day.
fn is_dated_first(text: &str) -> bool {
    text.bytes().take(4).filter(u8::is_ascii_digit).count() == 4
}
