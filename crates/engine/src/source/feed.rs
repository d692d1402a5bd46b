//! Feeds: RSS, Atom and JSON Feed. A feed names pages, or its entries are elements
//! themselves.
//!
//! [`parse_feed`] reads the bytes: by feed-rs, and if that fails by feed-rs once more,
//! after what feeds often get wrong has been mended. What a document may cost is bounded
//! before feed-rs sees it: its length, its entries, how deep its elements are nested and
//! how many attributes they have. No entity is expanded but the five that XML has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use serde_json::{Value, json};
use springtide_store::{Moment, Role};
use url::Url;

use super::websub;
use super::{
    AnswerContext, Mention, MentionKind, OwnSighting, Protocol, ReadError, Reading, Sighting,
};
use crate::detect::{Lens, decode};
use crate::settings::FeedEntries;

/// The longest feed, in bytes.
const MAX_BYTES: usize = 50 << 20;
/// The most entries of a feed that are read, whatever the settings allow: real ones have
/// some dozens, and all are in memory at once.
const MOST_ENTRIES: usize = 20_000;
/// Elements within elements. What pages are made of is seldom deeper than some dozens.
const DEEPEST: usize = 256;
/// Attributes of an element: they are compared with each other.
const MOST_ATTRIBUTES: usize = 500;
/// Objects of a JSON Feed: an entry has a few (authors, attachments).
const MOST_OBJECTS: usize = 10 * MOST_ENTRIES;
/// Ids and links longer than this are not used, as in sitemaps.
const LONGEST_ID: usize = 8192;
/// No feed is believed that it is not to be polled for longer than this.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 86_400);

/// A feed, as an element that tells of others.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) entries: FeedEntries,
    /// The most entries that are read.
    pub(crate) max_entries: usize,
    /// What entries are compared by, for how large a change is.
    pub(crate) lens: Arc<Lens>,
}

impl Protocol for Feed {
    fn read(&self, answered: &AnswerContext<'_>) -> Result<Reading, ReadError> {
        let answer = answered.answer;
        let copy = answered.kept.copy.as_ref();
        let parse = |body: &[u8], content_type: Option<&str>| {
            parse_feed(body, content_type, answered.url, self.max_entries)
        };
        let before = copy.and_then(|copy| {
            let body = answered.bodies.get(copy.body).ok()?;
            parse(&body, copy.content_type.as_deref()).ok()
        });
        let (own, feed, has_changed) = match super::status_only(answered)? {
            Some(own @ OwnSighting::NotModified) => (own, before.as_ref(), false),
            Some(own) => return Ok(own.into()),
            None => {
                let feed =
                    parse(&answer.body, answer.content_type.as_deref()).map_err(|problem| {
                        ReadError::answer(format!("the feed cannot be used: {problem}"))
                    })?;
                let digest = self.digest(&feed);
                let has_changed = answered.is_lost || copy.is_none_or(|copy| copy.digest != digest);
                let sighting = Sighting::of_answer(answered, digest, has_changed)?;
                let own = OwnSighting::Here(Box::new(sighting));
                return self.reading(own, &feed, before.as_ref(), has_changed, answered);
            }
        };
        let empty = ParsedFeed::default();
        self.reading(own, feed.unwrap_or(&empty), None, has_changed, answered)
    }
}

impl Feed {
    /// What matters in a feed: what it says of its entries, and not when it was made.
    fn digest(&self, feed: &ParsedFeed) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for entry in &feed.entries {
            match self.entries {
                FeedEntries::Pages => {
                    let dates = (entry.updated, entry.published);
                    hasher.update(format!("{:?} {dates:?}\n", entry.page).as_bytes());
                }
                FeedEntries::Content => {
                    hasher.update(&entry.to_json());
                }
            }
        }
        *hasher.finalize().as_bytes()
    }

    fn reading(
        &self,
        own: OwnSighting,
        feed: &ParsedFeed,
        before: Option<&ParsedFeed>,
        has_changed: bool,
        answered: &AnswerContext<'_>,
    ) -> Result<Reading, ReadError> {
        let mut reading = Reading {
            own,
            pause: feed
                .pause
                .max(answered.answer.max_age)
                .map(|pause| pause.min(LONGEST_PAUSE)),
            push: websub::offered(&answered.answer.links, feed, answered.url),
            ..Reading::default()
        };
        match self.entries {
            FeedEntries::Pages if has_changed => reading.mentions = mentions(feed, before),
            FeedEntries::Pages => {}
            FeedEntries::Content => {
                for entry in &feed.entries {
                    let body = entry.to_json();
                    // Whether it has changed is seen where our copy of it is known. If that
                    // was lost, it is here again.
                    let id = answered.bodies.put(&body)?;
                    let sighting = Sighting {
                        content_type: Some("application/json".to_owned()),
                        body: has_changed.then_some(id),
                        sketch: self.lens.extract(&body, Some("application/json")).sketch,
                        n_bytes: body.len() as u64,
                        ..Sighting::unchanged(*blake3::hash(&body).as_bytes())
                    };
                    reading.others.push((entry.id.clone(), sighting));
                }
            }
        }
        if has_changed {
            reading.problem = feed.problem.as_ref().map(FeedProblem::to_string);
        }
        Ok(reading)
    }
}

/// The pages that entries link to, if they are new or said to have changed. One that has
/// fallen off a feed is no less there.
fn mentions(feed: &ParsedFeed, before: Option<&ParsedFeed>) -> Vec<Mention> {
    let before = before.map_or(&[][..], |before| &before.entries);
    let known: BTreeMap<&str, Option<Moment>> = before
        .iter()
        .filter_map(|entry| Some((entry.page.as_deref()?, entry.changed_at())))
        .collect();
    let mut named = BTreeSet::new();
    let mut mentions = Vec::new();
    for entry in &feed.entries {
        let Some(page) = entry.page.as_deref().filter(|page| named.insert(*page)) else {
            continue;
        };
        let kind = match known.get(page) {
            None => MentionKind::Added,
            Some(changed_at) if entry.changed_at() > *changed_at => MentionKind::Touched,
            Some(_) => continue,
        };
        mentions.push(Mention {
            locator: page.to_owned(),
            role: Role::Page,
            kind,
        });
    }
    mentions
}

/// What is in a feed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedFeed {
    /// Its entries, each id once, in their order.
    pub entries: Vec<FeedEntry>,
    /// For how long it asks not to be polled again.
    pub pause: Option<Duration>,
    /// Who tells of its changes, and by what address, as it says.
    pub hub: Option<String>,
    /// Where it says that it is.
    pub own_link: Option<String>,
    /// Why what is here may not be all that there is.
    pub problem: Option<FeedProblem>,
}

/// An entry of a feed.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "they are what feeds call them")]
pub struct FeedEntry {
    /// Its id; or its link, or a digest of its title, if it has none.
    pub id: String,
    pub title: Option<String>,
    pub links: Vec<String>,
    /// The page that it is about.
    pub page: Option<String>,
    pub published: Option<Moment>,
    pub updated: Option<Moment>,
    pub summary: Option<String>,
    pub content: Option<String>,
}

impl FeedEntry {
    /// When it is said to have changed last.
    pub fn changed_at(&self) -> Option<Moment> {
        self.updated.max(self.published)
    }

    /// The entry as it is kept.
    pub fn to_json(&self) -> Vec<u8> {
        let date = |at: Option<Moment>| {
            let at = at.and_then(|at| jiff::Timestamp::from_millisecond(at.0).ok());
            at.map_or(Value::Null, |at| at.to_string().into())
        };
        let entry = json!({
            "id": self.id,
            "title": self.title,
            "links": self.links,
            "published": date(self.published),
            "updated": date(self.updated),
            "summary": self.summary,
            "content": self.content,
        });
        entry.to_string().into_bytes()
    }
}

/// Why a feed could not be read, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedProblem {
    /// It is something else.
    #[error("it is not RSS, Atom or JSON Feed")]
    NotAFeed,
    /// It is broken, and what is broken could not be mended.
    #[error("it is broken: {0}")]
    Broken(String),
    /// It ends in the middle.
    #[error("it ends before its last element does")]
    CutShort,
    /// It has more entries than are read.
    #[error("it has more than {0} entries")]
    TooManyEntries(usize),
    /// It is longer than what is read.
    #[error("it is longer than {0} bytes")]
    TooLong(usize),
    /// Its elements are nested too deep.
    #[error("its elements are nested more than {0} deep")]
    TooDeep(usize),
    /// An element has too many attributes.
    #[error("an element has more than {0} attributes")]
    TooManyAttributes(usize),
}

/// What is in a feed, or why it is none.
///
/// `base` is where it was found. A document that breaks off is a feed with a
/// [`problem`](ParsedFeed::problem): what came before counts.
///
/// # Errors
/// If nothing of it could be read as a feed.
pub fn parse_feed(
    bytes: &[u8],
    content_type: Option<&str>,
    base: &Url,
    max_entries: usize,
) -> Result<ParsedFeed, FeedProblem> {
    if bytes.len() > MAX_BYTES {
        return Err(FeedProblem::TooLong(MAX_BYTES));
    }
    let max_entries = max_entries.min(MOST_ENTRIES);
    let text = decode(bytes, content_type);
    let text = text.trim_start_matches(['\u{feff}', '\0', ' ', '\t', '\r', '\n']);
    let (feed, survey, mut problem) = match text.as_bytes().first() {
        Some(b'{') => {
            let feed = read_json(text)?;
            (feed, Survey::of_json(text), None)
        }
        _ => read_xml(text, base, max_entries)?,
    };
    let pause = survey.pause();
    let by_ttl = feed
        .ttl
        .map(|minutes| Duration::from_secs(u64::from(minutes) * 60));
    let mut ids = BTreeSet::new();
    let n_entries = feed.entries.len();
    let entries = feed.entries.into_iter().take(max_entries);
    let entries: Vec<FeedEntry> = entries
        .map(|entry| entry_of(entry, base))
        .filter(|entry| entry.id.len() <= LONGEST_ID && ids.insert(entry.id.clone()))
        .collect();
    if n_entries > max_entries {
        problem = Some(FeedProblem::TooManyEntries(max_entries));
    }
    Ok(ParsedFeed {
        entries,
        pause: by_ttl.max(pause).filter(|pause| !pause.is_zero()),
        hub: survey.hub,
        own_link: survey.own_link,
        problem,
    })
}

fn entry_of(entry: feed_rs::model::Entry, base: &Url) -> FeedEntry {
    let address = |text: &str| {
        let mut url = base.join(text.trim()).ok()?;
        let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
        url.set_fragment(None);
        Some(String::from(url)).filter(|url| is_web && url.len() <= LONGEST_ID)
    };
    let is_about = |rel: Option<&str>| matches!(rel, None | Some("alternate" | "canonical" | ""));
    let linked = entry.links.iter();
    let linked = linked.filter(|link| is_about(link.rel.as_deref()) && link.target.is_none());
    let page = linked
        .map(|link| link.href.as_str())
        // The id of an RSS item is its address, if it has no other.
        .chain(Some(entry.id.as_str()).filter(|id| id.starts_with("http")))
        .find_map(address);
    let text = |text: feed_rs::model::Text| clean(text.content);
    let (published, updated) = (
        entry.published.map(|at| Moment(at.timestamp_millis())),
        entry.updated.map(|at| Moment(at.timestamp_millis())),
    );
    let title = entry.title.map(text);
    let id = match (entry.id.trim(), &page) {
        ("", Some(page)) => page.clone(),
        ("", None) => {
            let title = title.as_deref().unwrap_or_default();
            format!("{base}#{}", &blake3::hash(title.as_bytes()).to_hex()[..16])
        }
        (id, _) => clean(id.to_owned()),
    };
    FeedEntry {
        id,
        title,
        links: entry.links.into_iter().map(|link| link.href).collect(),
        page,
        published,
        updated,
        summary: entry.summary.map(text),
        content: entry.content.and_then(|content| content.body).map(clean),
    }
}

fn parser(base: Option<&Url>) -> feed_rs::parser::Parser {
    feed_rs::parser::Builder::new()
        .base_uri(base.map(Url::as_str))
        .sanitize_content(false)
        // Entries without an id are given one here, where their links are known in full.
        .id_generator(|_, _, _| String::new())
        .build()
}

fn broken(error: &feed_rs::parser::ParseFeedError) -> FeedProblem {
    FeedProblem::Broken(error.to_string().chars().take(200).collect())
}

fn read_json(text: &str) -> Result<feed_rs::model::Feed, FeedProblem> {
    if !text.contains("jsonfeed.org/version") {
        return Err(FeedProblem::NotAFeed);
    }
    if memchr::memchr_iter(b'{', text.as_bytes()).count() > MOST_OBJECTS {
        return Err(FeedProblem::TooManyEntries(MOST_ENTRIES));
    }
    let parser = parser(None);
    parser.parse(text.as_bytes()).or_else(|_| {
        let is_blank = |c: char| c.is_control();
        let mended = text.replace(is_blank, " ");
        parser
            .parse(mended.as_bytes())
            .map_err(|error| broken(&error))
    })
}

type Read = (feed_rs::model::Feed, Survey, Option<FeedProblem>);

fn read_xml(text: &str, base: &Url, max_entries: usize) -> Result<Read, FeedProblem> {
    // The text is decoded: whatever encoding it declares is not its own any more.
    let text = match (text.starts_with("<?xml"), text.find("?>")) {
        (true, Some(end)) => &text[end + 2..],
        _ => text,
    };
    let parse = |text: &str| parser(Some(base)).parse(text.as_bytes());
    let survey = Survey::of(text, max_entries);
    if !survey.is_feed {
        // Whatever stands before the first tag may be all that is wrong.
        let start = text.find('<').filter(|&start| start > 0);
        return match start {
            Some(start) => read_xml(&text[start..], base, max_entries),
            None => Err(FeedProblem::NotAFeed),
        };
    }
    match &survey.problem {
        None => {
            if let Ok(feed) = parse(text) {
                return Ok((feed, survey, None));
            }
        }
        Some(FeedProblem::TooDeep(_) | FeedProblem::TooManyAttributes(_)) => {
            return Err(survey.problem.unwrap_or(FeedProblem::NotAFeed));
        }
        Some(_) => {}
    }
    let mut mended = mend(text);
    let survey = Survey::of(&mended, max_entries);
    if let Some(problem) = &survey.problem {
        if survey.end_of_entries == 0 {
            return Err(problem.clone());
        }
        mended.truncate(survey.end_of_entries);
        for name in survey.open_after_entries.iter().rev() {
            mended.push_str(&format!("</{name}>"));
        }
    }
    let feed = parse(&mended).map_err(|error| broken(&error))?;
    let problem = survey.problem.clone();
    Ok((feed, survey, problem))
}

/// What a look at all tags of a document shows, before anything is made of it.
#[derive(Debug, Default)]
struct Survey {
    /// Whether its first element is that of a feed.
    is_feed: bool,
    n_entries: usize,
    /// Where the last entry ends that is whole, and the elements that are open there.
    end_of_entries: usize,
    open_after_entries: Vec<String>,
    /// What `<sy:updatePeriod>` and `<sy:updateFrequency>` say.
    period: String,
    frequency: String,
    /// What its first links to a hub and to itself are.
    hub: Option<String>,
    own_link: Option<String>,
    problem: Option<FeedProblem>,
}

impl Survey {
    fn of(text: &str, max_entries: usize) -> Self {
        let mut survey = Self::default();
        let mut open = Vec::new();
        survey.problem = survey.walk(text, max_entries, &mut open).err();
        survey
    }

    fn walk(
        &mut self,
        text: &str,
        max_entries: usize,
        open: &mut Vec<String>,
    ) -> Result<(), FeedProblem> {
        let mut reader = Reader::from_str(text);
        loop {
            let event = reader.read_event().map_err(|error| match error {
                quick_xml::Error::Syntax(_) => FeedProblem::CutShort,
                error => FeedProblem::Broken(error.to_string().chars().take(200).collect()),
            })?;
            match event {
                Event::Start(tag) => {
                    self.enter(&tag, open, max_entries)?;
                    open.push(tag.name().into_inner().to_owned());
                }
                Event::Empty(tag) => {
                    self.enter(&tag, open, max_entries)?;
                }
                Event::End(_) => {
                    let name = open.pop().unwrap_or_default();
                    if is_entry(&name, open.len()) {
                        self.end_of_entries = reader.buffer_position() as usize;
                        self.open_after_entries.clone_from(open);
                    }
                }
                Event::Text(text) if open.len() <= 3 => {
                    let field = match open.last().map(|name| local(name)) {
                        Some("updatePeriod") => &mut self.period,
                        Some("updateFrequency") => &mut self.frequency,
                        _ => continue,
                    };
                    field.extend(text.trim().chars().take(20));
                }
                Event::Eof if open.is_empty() => return Ok(()),
                Event::Eof => return Err(FeedProblem::CutShort),
                _ => {}
            }
        }
    }

    fn enter(
        &mut self,
        tag: &BytesStart<'_>,
        open: &[String],
        max_entries: usize,
    ) -> Result<(), FeedProblem> {
        let name = tag.name().into_inner();
        if open.is_empty() {
            self.is_feed |= matches!(local(name), "rss" | "RDF" | "feed");
        }
        if open.len() >= DEEPEST {
            return Err(FeedProblem::TooDeep(DEEPEST));
        }
        let quotes = tag.bytes().filter(|byte| matches!(byte, b'"' | b'\''));
        if quotes.count() > 2 * MOST_ATTRIBUTES {
            return Err(FeedProblem::TooManyAttributes(MOST_ATTRIBUTES));
        }
        let is_in_entry = open
            .last()
            .is_some_and(|name| is_entry(name, open.len() - 1));
        if matches!((local(name), open.len()), ("link", 1 | 2)) && !is_in_entry {
            self.note_link(tag);
        }
        if is_entry(name, open.len()) {
            if self.n_entries >= max_entries {
                return Err(FeedProblem::TooManyEntries(max_entries));
            }
            self.n_entries += 1;
        }
        Ok(())
    }

    /// What a JSON Feed says of who tells of it.
    fn of_json(text: &str) -> Self {
        let feed: Value = serde_json::from_str(text).unwrap_or_default();
        let hubs = feed["hubs"].as_array().into_iter().flatten();
        let mut hubs = hubs.filter(|hub| {
            let kind = hub["type"].as_str().unwrap_or_default();
            kind.eq_ignore_ascii_case("websub") || kind.eq_ignore_ascii_case("pubsubhubbub")
        });
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Self {
            hub: hubs.find_map(|hub| text(&hub["url"])),
            own_link: text(&feed["feed_url"]),
            ..Self::default()
        }
    }

    /// A link of the feed itself, if it is one to a hub or to itself.
    fn note_link(&mut self, tag: &BytesStart<'_>) {
        let value = |name: &str| {
            let attribute = tag.try_get_attribute(name).ok()??;
            let value = quick_xml::escape::unescape(&attribute.value).ok()?;
            Some(value.trim().to_owned())
        };
        let Some(relation) = value("rel") else {
            return;
        };
        for (wanted, link) in [("hub", &mut self.hub), ("self", &mut self.own_link)] {
            let mut words = relation.split_ascii_whitespace();
            if link.is_none() && words.any(|word| word.eq_ignore_ascii_case(wanted)) {
                *link = value("href");
            }
        }
    }

    /// How long it says that it stays as it is: a period, or a share of one.
    fn pause(&self) -> Option<Duration> {
        let days = match self.period.as_str() {
            "hourly" => 1.0 / 24.0,
            "daily" => 1.0,
            "weekly" => 7.0,
            "monthly" => 30.0,
            "yearly" => 365.0,
            _ => return None,
        };
        let times: f64 = self.frequency.parse().unwrap_or(1.0);
        Duration::try_from_secs_f64(days * 86_400.0 / times.max(1.0)).ok()
    }
}

/// Whether an element is an entry, within so many others.
fn is_entry(name: &str, depth: usize) -> bool {
    matches!((local(name), depth), ("item", 1 | 2) | ("entry", 1))
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// A document without what feeds often get wrong: a `&` or a `<` that stands for itself,
/// characters and references to characters that XML does not have.
fn mend(text: &str) -> String {
    let mut mended = String::with_capacity(text.len() + text.len() / 64);
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| matches!(c, '&' | '<') || is_not_xml(c)) {
        mended.push_str(&rest[..at]);
        rest = &rest[at..];
        let verbatim = [("<![CDATA[", "]]>"), ("<!--", "-->")]
            .into_iter()
            .find(|(start, _)| rest.starts_with(start));
        let n_taken = if let Some((_, end)) = verbatim {
            let length = rest.find(end).map_or(rest.len(), |at| at + end.len());
            mended.extend(rest[..length].chars().filter(|&c| !is_not_xml(c)));
            length
        } else if rest.starts_with('&') {
            match reference(rest) {
                Some((length, true)) => {
                    mended.push_str(&rest[..length]);
                    length
                }
                // A character that there is not.
                Some((length, false)) => length,
                None => {
                    mended.push_str("&amp;");
                    1
                }
            }
        } else if let Some(after) = rest.strip_prefix('<') {
            let next = after.chars().next();
            let is_tag = next.is_some_and(|c| c.is_alphabetic() || "_:/!?".contains(c));
            mended.push_str(if is_tag { "<" } else { "&lt;" });
            1
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        rest = &rest[n_taken..];
    }
    mended.push_str(rest);
    mended
}

/// How long a reference is, and whether it is to something that there is.
fn reference(text: &str) -> Option<(usize, bool)> {
    const LONGEST_NAME: usize = 32;
    let start = text.get(1..).unwrap_or_default();
    let end = start
        .bytes()
        .take(LONGEST_NAME)
        .position(|byte| byte == b';')?;
    let name = &start[..end];
    let number = match name.strip_prefix('#') {
        Some(number) => match number.strip_prefix(['x', 'X']) {
            Some(number) => u32::from_str_radix(number, 16).ok()?,
            None => number.parse().ok()?,
        },
        None => {
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            return is_name.then_some((end + 2, true));
        }
    };
    let is_there = char::from_u32(number).is_some_and(|c| !is_not_xml(c));
    Some((end + 2, is_there))
}

/// A text without characters that neither XML nor anyone who reads it has a use for; the
/// parser lets some of them pass.
fn clean(text: String) -> String {
    match text.contains(is_not_xml) {
        true => text.replace(is_not_xml, ""),
        false => text,
    }
}

/// Whether XML has no such character.
fn is_not_xml(c: char) -> bool {
    matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}
