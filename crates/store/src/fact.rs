//! The facts that a store keeps.

use crate::{BodyId, Failure, FailureKind};
pub use springtide_policy::agenda::Pause;
pub use springtide_policy::{ElementId, GroupId, Purpose};

/// A moment: milliseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub i64);

/// The number of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// Something to be kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// A source is as said here, new or not.
    Source(Source),
    /// A source is no longer wanted, nor are its elements, its queries and what is
    /// known and remembered of them.
    SourceRemoved(SourceId),
    /// What has come of a source so far.
    Totals(SourceId, Totals),
    /// The first or the last failure of a source itself (its listing), or that there
    /// is none any more.
    SourceError(SourceId, Option<Failure>),
    /// A group that was not known before.
    Group(Group),
    /// An element that was not known before, or is no longer as it was known.
    Element(Element),
    /// An element and everything that is known of it, after a poll or a word from
    /// its listing.
    Kept(Box<Kept>),
    /// What one poll showed.
    Poll(Poll),
    /// A change that was found. Its number is given by the store.
    Change(Change),
    /// A change is not kept any longer, nor is the version that it brought.
    ChangeForgotten(u64),
    /// The body of the version that a change brought is not kept any longer; its digest
    /// and its time are.
    VersionForgotten(u64),
    /// A single poll is not kept any longer. What it was counted in stays.
    PollForgotten(u64),
    /// What is known of a query of a search source, after it was asked, new or not.
    Query(Query),
    /// What is known of a host.
    Host(Host),
    /// All robots.txt of a group, one for every origin (scheme, name and port) in it, instead
    /// of those before.
    Robots(GroupId, Vec<Robots>),
    /// What is to be remembered of something.
    Memory(MemoryOf, Vec<u8>),
    /// Anything else, by name; nothing to forget it.
    Note(&'static str, Option<Vec<u8>>),
}

/// What something is remembered of, as bytes of whoever remembers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryOf {
    /// All elements of a partition together: what a scheduler has learned from them.
    Scheduler(Partition),
    /// The polls of a partition: how much of the budget they have used, and when.
    Pace(Partition),
    /// A search source: how it was asked. Forgotten with the source.
    Search(SourceId),
    /// A group: what a scheduler has learned from its elements.
    Group(GroupId),
}

/// A part of a store that has one writer at a time: some outermost groups, and all that
/// is in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u32);

impl Partition {
    /// The only one, of a store that has one writer for everything.
    pub const WHOLE: Self = Self(0);
}

/// A remote place that we ask.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Its number.
    pub id: SourceId,
    /// Its name in the configuration; no two have the same.
    pub name: String,
    /// What it is.
    pub kind: SourceKind,
    /// Where it is: an address, or the path of a list.
    pub url: String,
    /// When it was added.
    pub added_at: Moment,
    /// What has come of it.
    pub totals: Totals,
    /// What is wrong with it, if anything.
    pub error: Option<Failure>,
}

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// One page.
    Page,
    /// A file with addresses.
    List,
    /// A sitemap, or an index of sitemaps.
    Sitemap,
    /// A site: what its sitemaps name, or what can be reached within it.
    Site,
    /// A search box.
    Search,
    /// A feed.
    Feed,
    /// A table of a database, or what a query returns.
    Table,
}

/// Running totals of a source.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Elements that are there: not gone.
    pub n_elements: u64,
    /// Those of them without a poll.
    pub n_new: u64,
    /// Those that fail.
    pub n_failing: u64,
    /// Those that we are asked to keep away from.
    pub n_blocked: u64,
    /// Elements that are gone.
    pub n_gone: u64,
    /// Polls, whatever came of them.
    pub n_polls: u64,
    /// Changes found.
    pub n_changes: u64,
}

/// Elements that share a limit, or a directory of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its number.
    pub id: GroupId,
    /// The group that it is in.
    pub parent: Option<GroupId>,
    /// Its name, unique within its parent.
    pub name: String,
}

/// What an element is.
#[derive(Debug, Clone, PartialEq)]
pub struct Element {
    /// Its number.
    pub id: ElementId,
    /// Where it is from.
    pub source: SourceId,
    /// Its address; unique within its source.
    pub locator: String,
    /// The innermost group that it is in.
    pub group: GroupId,
    /// The outermost group that it is in.
    pub host: GroupId,
    /// What it is for.
    pub role: Role,
    /// How much its freshness matters.
    pub weight: f32,
    /// How many links or listings away from the start of its source it was found.
    pub depth: u16,
}

/// What an element is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// To have a copy of.
    Page,
    /// To tell which elements there are.
    Listing,
    /// Both.
    Hub,
    /// To have a copy of, which polls of the feed that it is in keep fresh.
    Entry,
}

/// How it stands with an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Never polled.
    New,
    /// The last poll was answered.
    Ok,
    /// The last poll failed.
    Failing,
    /// We are asked to keep away.
    Blocked,
    /// It is no longer there.
    Gone,
}

/// Everything that is known of an element.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// What it is.
    pub element: Element,
    /// How it stands.
    pub state: State,
    /// What went wrong last, unless the last poll was answered.
    pub failure: Option<Failure>,
    /// Polls in a row that failed, or found nothing there.
    pub n_failures: u16,
    /// No longer in its listing.
    pub is_unlisted: bool,
    /// Our copy, once there is one.
    pub copy: Option<Copy>,
    /// What was seen of it.
    pub history: History,
}

impl Kept {
    /// An element of which nothing else is known.
    pub fn new(element: Element) -> Self {
        Self {
            element,
            state: State::New,
            failure: None,
            n_failures: 0,
            is_unlisted: false,
            copy: None,
            history: History::default(),
        }
    }

    /// What of it is kept in few bytes.
    pub fn brief(&self) -> Brief {
        Brief {
            source: self.element.source,
            group: self.element.group,
            weight: self.element.weight,
            role: self.element.role,
            state: self.state,
            history: self.history,
        }
    }
}

/// Our version of an element.
#[derive(Debug, Clone, PartialEq)]
pub struct Copy {
    /// The status it came with.
    pub status: u16,
    /// Its validators, as sent.
    pub etag: Option<String>,
    /// Its validators, as sent.
    pub last_modified: Option<String>,
    /// What kind of content it is, as sent.
    pub content_type: Option<String>,
    /// The digest of what matters in it.
    pub digest: [u8; 32],
    /// Where its body is.
    pub body: BodyId,
    /// How long the body is.
    pub n_bytes: u64,
    /// When the body was fetched: at the poll that last found a change.
    pub fetched_at: Moment,
    /// When the last change was found, if one was.
    pub changed_at: Option<Moment>,
    /// Where it was last found, if not at its locator. The validators hold there.
    pub location: Option<String>,
    /// Where its locator sends us on for good, if it does.
    pub redirect: Option<Redirect>,
    /// A sketch of the text, by which the size of a change is told.
    pub sketch: Vec<u8>,
}

/// Where the locator of an element sends us on, by a status that says for good.
#[derive(Debug, Clone, PartialEq)]
pub struct Redirect {
    /// Where to.
    pub to: String,
    /// The first poll that was sent there.
    pub first_at: Moment,
    /// The last poll that asked at the locator.
    pub last_at: Moment,
    /// How many polls were sent there.
    pub n_polls: u32,
    /// Whether the element counts as moved: it is then asked there, and at its locator
    /// from time to time.
    pub is_move: bool,
}

/// What was seen of an element.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct History {
    /// The first poll that was answered.
    pub first_polled_at: Option<Moment>,
    /// The last poll, whatever came of it.
    pub polled_at: Option<Moment>,
    /// The last poll that was answered: when the copy was last known to be fresh.
    pub synced_at: Option<Moment>,
    /// Polls, whatever came of them.
    pub n_polls: u32,
    /// Polls that found a change.
    pub n_changes: u32,
    /// What the scheduler remembers of it.
    pub memory: ElementMemory,
}

/// What a scheduler remembers of an element.
pub type ElementMemory = [u8; 24];

/// What is kept of an element in few bytes, for those who go through all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Brief {
    /// Where it is from.
    pub source: SourceId,
    /// The innermost group that it is in.
    pub group: GroupId,
    /// How much its freshness matters.
    pub weight: f32,
    /// What it is for.
    pub role: Role,
    /// How it stands.
    pub state: State,
    /// What was seen of it.
    pub history: History,
}

/// What one poll showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Poll {
    /// Of which element.
    pub element: ElementId,
    /// Of which source.
    pub source: SourceId,
    /// When it was begun.
    pub begun_at: Moment,
    /// When it was answered, or given up.
    pub at: Moment,
    /// When the copy was last known to be fresh before.
    pub since: Option<Moment>,
    /// What it showed.
    pub outcome: PollOutcome,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// What went wrong, if something did.
    pub error: Option<FailureKind>,
    /// Why it was made.
    pub purpose: Purpose,
    /// Whether it counts towards the budget.
    pub is_counted: bool,
    /// For how long the copy had been stale, 0 if it was fresh; nothing where nobody says
    /// when it changes.
    pub age_ms: Option<i64>,
}

impl Poll {
    /// What it says of freshness, if it is an audit that says anything: one that
    /// was answered, of an element with a copy.
    pub fn audit(&self) -> Option<Audit> {
        if self.purpose != Purpose::Audit {
            return None;
        }
        let is_fresh = match self.outcome {
            PollOutcome::Unchanged => true,
            PollOutcome::Changed | PollOutcome::Gone => false,
            PollOutcome::First
            | PollOutcome::Failed
            | PollOutcome::Blocked
            | PollOutcome::Differs => return None,
        };
        Some(Audit {
            at: self.at,
            source: self.source,
            is_fresh,
            age_ms: self.age_ms,
        })
    }
}

/// What a poll showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PollOutcome {
    /// The first copy.
    First,
    /// It is as it was.
    Unchanged,
    /// It has changed.
    Changed,
    /// It is no longer there.
    Gone,
    /// No answer, or none that could be used.
    Failed,
    /// We are asked to keep away, and did.
    Blocked,
    /// It has changed, as far as a digest tells; what it is now, another poll shows.
    Differs,
}

/// An audit poll that told whether a copy was fresh.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Audit {
    /// When.
    pub at: Moment,
    /// Of which source.
    pub source: SourceId,
    /// Whether the copy was fresh.
    pub is_fresh: bool,
    /// For how long it had been stale, 0 if it was fresh; nothing if nobody knows when
    /// it changes.
    pub age_ms: Option<i64>,
}

/// A change that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Its number, rising; 0 until it is kept.
    pub number: u64,
    /// In which element.
    pub element: ElementId,
    /// Of which source.
    pub source: SourceId,
    /// When it was found.
    pub found_at: Moment,
    /// When the copy was last known to be fresh before.
    pub previous_poll_at: Option<Moment>,
    /// What happened.
    pub kind: ChangeKind,
    /// How long the body was.
    pub bytes_before: Option<u64>,
    /// How long it is.
    pub bytes_after: Option<u64>,
    /// The digest of what matters in it, after.
    pub digest: Option<[u8; 32]>,
    /// The body after; kept for as long as a version may be asked for.
    pub body: Option<BodyId>,
    /// The content type after.
    pub content_type: Option<String>,
    /// How much of it changed, from 0 to 1, if that is known.
    pub size: Option<f32>,
    /// Which version of the element it brought, from 1; of a change that brought none, the
    /// last before it. It is given by the store, and stays when older ones are forgotten.
    pub version: u64,
}

impl Change {
    /// Whether it brought a version, be its body kept or not.
    pub fn is_version(&self) -> bool {
        self.digest.is_some() || self.body.is_some()
    }
}

/// What happened to an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It changed.
    Changed,
    /// It appeared.
    Added,
    /// It is no longer there.
    Gone,
    /// It is there again.
    Back,
}

/// A single poll that is kept: what has to be known to decide for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptPoll {
    /// Its number, rising.
    pub number: u64,
    /// Of which source.
    pub source: SourceId,
    /// When it ended.
    pub at: Moment,
}

/// Which changes to list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChangeFilter {
    /// Those of this source.
    pub source: Option<SourceId>,
    /// Those of this element.
    pub element: Option<ElementId>,
    /// Those found from then on.
    pub since: Option<Moment>,
}

/// What is known of a query of a search source, after it was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Of which source.
    pub source: SourceId,
    /// Its text; unique within its source.
    pub text: String,
    /// When it was last asked.
    pub asked_at: Moment,
    /// Requests made for it in all, whatever came of them.
    pub n_requests: u32,
    /// How many results there are in all, as the server last said.
    pub total: Option<u64>,
    /// How many results came with the last answer, on all its pages.
    pub n_results: u32,
    /// How many of those are ours.
    pub n_ours: u32,
    /// What was odd about the last answer, in one sentence, if anything.
    pub note: Option<String>,
    /// What a policy remembers of it.
    pub memory: Vec<u8>,
}

/// What is known of a host: of an outermost group.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Which one.
    pub group: GroupId,
    /// When a request was last begun.
    pub requested_at: Option<Moment>,
    /// Nothing is asked before then.
    pub not_before: Option<Moment>,
    /// Why.
    pub pause: Option<Pause>,
    /// Requests in a row that failed.
    pub n_failures: u32,
}

/// A robots.txt.
#[derive(Debug, Clone, PartialEq)]
pub struct Robots {
    /// The origin whose it is, such as `https://example.org`.
    pub origin: String,
    /// When it was fetched.
    pub fetched_at: Moment,
    /// What came of it.
    pub answer: RobotsAnswer,
}

/// What came of asking for a robots.txt.
#[derive(Debug, Clone, PartialEq)]
pub enum RobotsAnswer {
    /// The rules, cut to what RFC 9309 asks to be read.
    Rules(String),
    /// There are none (4xx): everything is allowed.
    None,
    /// The server failed (5xx, or no answer): stay away.
    Unreachable,
}
