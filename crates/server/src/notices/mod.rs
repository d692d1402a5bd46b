//! Notices: what was found, told to others, at least once.
//!
//! What is to be told is derived from the changes in the store, which are numbered, and
//! from how elements stand. How far that has come and what waits to be delivered is an
//! outbox, a note in the store: it is on the disk before anything is sent, so whoever is
//! told twice is told by the same id. A receiver that fails holds up nobody but itself: it
//! has got as far as it has, and the outbox stays small, since what is to come is read from
//! the store once there is room for it.

mod deliver;
mod mail;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ring::rand::SecureRandom;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use springtide_engine::settings::HttpSettings;
use springtide_engine::view::{ErrorView, Miss, redacted, rfc3339};
use springtide_store::{Change, ChangeKind, ElementId, Moment, Reader, State};
use tokio::task::JoinSet;
use url::Url;

use crate::api::atom::diff_of;
use crate::app::Shared;
use crate::door::hex;
use crate::feed::{self, numbered};
use crate::link::EngineState;
use crate::problem::Problem;
pub use mail::{Authority, Mail, SmtpServer};

/// Whom to tell, and of what.
#[derive(Clone, PartialEq)]
pub struct NoticeTarget {
    /// How it is called: as the file has it.
    pub name: String,
    /// Where to.
    pub to: NoticeTo,
    /// Of what.
    pub on: BTreeSet<NoticeKind>,
    /// Of which sources; nothing for all.
    pub sources: Option<Vec<String>>,
    /// Failures in a row after which an element counts as failing.
    pub failures: u16,
    /// At most so often, together.
    pub digest: Option<Duration>,
    /// What it is signed with.
    pub secret: Option<String>,
}

/// Says whether there is a secret, never what it is.
impl std::fmt::Debug for NoticeTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NoticeTarget")
            .field("name", &self.name)
            .field("on", &self.on)
            .field("has_secret", &self.secret.is_some())
            .finish_non_exhaustive()
    }
}

/// Where a notice goes.
#[derive(Debug, Clone, PartialEq)]
pub enum NoticeTo {
    /// JSON is posted there.
    Web(Url),
    /// A program is run with it, in the folder of the project.
    Command(String),
    /// It is written to someone.
    Mail(Box<Mail>),
}

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "they are the words of the file")]
pub enum NoticeKind {
    Changed,
    Added,
    Gone,
    Failing,
    Recovered,
    TargetMissed,
    TargetMet,
}

/// The name of the note.
const NOTE: &str = "outbox";
/// How often it is looked whether there is something to tell, or to try again.
const LOOKS: Duration = Duration::from_millis(500);
/// How often elements and the target are looked at.
const STATES_EVERY: Duration = Duration::from_secs(3);
/// Changes that are read at once.
const PAGE: usize = 500;
/// Events in a notice.
const MOST_EVENTS: usize = 100;
/// Notices that wait for one receiver. What comes after them stays where it is until there is
/// room: all that waits is written anew with each step.
const MOST_WAITING: usize = 50;
/// Events that are gathered for one receiver; a digest of more takes several steps.
const MOST_GATHERED: usize = 5000;
/// Elements that are known to be failing.
const MOST_FAILING: usize = 100_000;
/// A notice that was not accepted is sent again after this, and then ever more rarely.
const FIRST_RETRY_MS: i64 = 2000;
/// The longest wait between two tries.
const LONGEST_RETRY_MS: i64 = 3_600_000;
/// The age at which a notice is dropped.
const GIVEN_UP_MS: i64 = 86_400_000;

/// What is still to be told, to whom, and how far that has come.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Outbox {
    /// The number of the change from which on a receiver is told that is named now.
    last: u64,
    /// By the names of receivers.
    receivers: BTreeMap<String, Receiver>,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Receiver {
    /// The number of the last change that was looked at for it; the one above, if it is new.
    #[serde(default)]
    last: Option<u64>,
    /// Since when it has not got as far as the others.
    #[serde(default)]
    behind_since: Option<i64>,
    /// Notices, the oldest first.
    waiting: VecDeque<Notice>,
    /// Events that are gathered for the next.
    gathered: Vec<Event>,
    gathered_since: Option<i64>,
    /// When the last notice was made.
    made_at: Option<i64>,
    /// Elements that were told to be failing.
    failing: BTreeSet<u32>,
    /// Whether it was told that the target is missed.
    is_missed: bool,
    n_given_up: u64,
    /// Why the first that waits was not taken.
    #[serde(default)]
    error: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Notice {
    id: String,
    at: i64,
    n_tries: u32,
    next_at: i64,
    events: Vec<Event>,
}

/// Something to be told: a change by its number, or what else there is to say.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Event {
    Change(NoticeKind, u64),
    Other(Value),
}

/// Tells what there is to tell for as long as the server lives. `first` is the number of
/// the latest change when it began, if that could be read.
pub(crate) async fn run_notices(app: Shared, mut first: Option<u64>) {
    let mut outbox: Option<Outbox> = None;
    // As it was last kept.
    let mut kept: Vec<u8> = Vec::new();
    let mut deliveries: JoinSet<(String, String, Result<(), String>)> = JoinSet::new();
    let mut under_way: BTreeSet<String> = BTreeSet::new();
    let mut looked_at = None::<std::time::Instant>;
    let mut latest = app.feed.latest();
    let mut states = app.link.states();
    loop {
        tokio::select! {
            _ = tokio::time::sleep(LOOKS) => {}
            _ = latest.changed() => {}
            // What is found from the first turn on is told, so it is written down at once
            // from where.
            _ = states.changed() => {}
            Some(Ok((name, id, done))) = deliveries.join_next() => {
                under_way.remove(&name);
                if let Some(outbox) = &mut outbox {
                    outbox.conclude(&name, &id, done, app.now().0);
                }
            }
        }
        let targets = app.current().notices.clone();
        if !matches!(app.link.state(), EngineState::Running(_)) {
            continue;
        }
        if targets.is_empty() {
            // Whoever is named later is told what is found from then on.
            if first.is_some() && app.link.keep_note(NOTE, Vec::new()).await.is_ok() {
                (first, outbox) = (None, None);
                kept.clear();
            }
            continue;
        }
        let mut next = match outbox.take() {
            Some(known) => known,
            None => match app
                .read(move |_, store| {
                    let first = first.map_or_else(|| feed::latest(store), Ok)?;
                    Ok(Outbox::read(store, first)?)
                })
                .await
            {
                Ok(read) => read,
                Err(_) => continue,
            },
        };
        first = Some(next.last);
        let looks_at_states = looked_at.is_none_or(|at| at.elapsed() > STATES_EVERY);
        if looks_at_states {
            looked_at = Some(std::time::Instant::now());
        }
        let misses = match looks_at_states && app.current().target.is_set() {
            true => match app.status().await {
                Ok(status) => known_misses(app.current().target.misses(&status)),
                Err(_) => None,
            },
            false => None,
        };
        let (sent, now) = (targets.clone(), app.now());
        let taken = app
            .read(move |app, store| {
                next.keep_known(&sent);
                next.take_changes(app, store, &sent)?;
                if looks_at_states {
                    next.take_states(store, &sent)?;
                }
                if let Some(misses) = misses {
                    next.take_target(&misses, &sent, now);
                }
                next.make(&|| app.door.random_id(), &sent, now.0);
                Ok(next)
            })
            .await;
        let Ok(taken) = taken else {
            // It is read again, as it was kept.
            continue;
        };
        let after = serde_json::to_vec(&taken).unwrap_or_default();
        if after != kept {
            if app.link.keep_note(NOTE, after.clone()).await.is_err() {
                // What is not kept is not sent: it is derived again.
                continue;
            }
            kept = after;
        }
        for target in &targets {
            let due = taken.due(&target.name, app.now().0);
            if let Some(notice) = due.filter(|_| !under_way.contains(&target.name)) {
                under_way.insert(target.name.clone());
                let (app, target, notice) = (Arc::clone(&app), target.clone(), notice.clone());
                deliveries.spawn(async move {
                    let done = deliver_notice(&app, &target, &notice).await;
                    (target.name, notice.id, done)
                });
            }
        }
        outbox = Some(taken);
    }
}

/// What is known to be missed. A target that is not known to be met or missed is neither.
fn known_misses(mut misses: Vec<Miss>) -> Option<Vec<Miss>> {
    let is_met = misses.is_empty();
    misses.retain(|miss| matches!(miss, Miss::Freshness(..) | Miss::Age(..)));
    (is_met || !misses.is_empty()).then_some(misses)
}

impl Receiver {
    fn has_room(&self) -> bool {
        self.waiting.len() < MOST_WAITING && self.gathered.len() < MOST_GATHERED
    }

    /// Takes in that it has changes before it or not, and drops those of them that have waited
    /// for a day: how many notices they would have been is counted.
    fn fall_behind(&mut self, is_behind: bool, changes: &mut Vec<Change>, now: i64) {
        if !is_behind {
            self.behind_since = None;
        } else if self.behind_since.is_none() {
            self.behind_since = Some(now);
        }
        if self.behind_since.is_some() {
            let n = changes.len();
            changes.retain(|change| now - change.found_at.0 <= GIVEN_UP_MS);
            self.n_given_up += (n - changes.len()).div_ceil(MOST_EVENTS) as u64;
        }
    }
}

impl Outbox {
    fn read(store: &dyn Reader, first: u64) -> Result<Self, springtide_store::Error> {
        let note = store.note(NOTE)?;
        let known = note.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(known.unwrap_or_else(|| Self {
            last: first,
            ..Self::default()
        }))
    }

    /// Receivers that are not in the file any more are told nothing more.
    fn keep_known(&mut self, targets: &[NoticeTarget]) {
        self.receivers
            .retain(|name, _| targets.iter().any(|target| target.name == *name));
        for target in targets {
            let receiver = self.receivers.entry(target.name.clone()).or_default();
            receiver.last.get_or_insert(self.last);
        }
    }

    /// Takes in the next changes.
    fn take_changes(
        &mut self,
        app: &Shared,
        store: &dyn Reader,
        targets: &[NoticeTarget],
    ) -> Result<(), Problem> {
        let names: BTreeMap<_, _> = (store.sources()?.into_iter())
            .map(|source| (source.id, source.name))
            .collect();
        let now = app.now().0;
        for target in targets {
            let receiver = self.receivers.entry(target.name.clone()).or_default();
            let last = *receiver.last.get_or_insert(self.last);
            if !receiver.has_room() {
                receiver.fall_behind(true, &mut Vec::new(), now);
                // Whoever is named from now on does not wait for this one.
                self.last = self.last.max(feed::latest(store)?);
                continue;
            }
            let mut changes = store.changes_after(last, PAGE)?;
            let is_behind = changes.len() == PAGE;
            let last = changes.last().map_or(last, |change| change.number);
            receiver.last = Some(last);
            receiver.fall_behind(is_behind, &mut changes, now);
            self.last = self.last.max(last);
            for change in &changes {
                let on = match change.kind {
                    ChangeKind::Changed => NoticeKind::Changed,
                    ChangeKind::Added | ChangeKind::Back => NoticeKind::Added,
                    ChangeKind::Gone => NoticeKind::Gone,
                };
                let source = names.get(&change.source).map_or("", String::as_str);
                if target.wants(on, source) {
                    self.gather(target, Event::Change(on, change.number), now);
                }
            }
        }
        Ok(())
    }

    fn gather(&mut self, target: &NoticeTarget, event: Event, now: i64) {
        let receiver = self.receivers.entry(target.name.clone()).or_default();
        receiver.gathered_since.get_or_insert(now);
        receiver.gathered.push(event);
    }

    /// Elements that have begun to fail, or have recovered.
    fn take_states(&mut self, store: &dyn Reader, targets: &[NoticeTarget]) -> Result<(), Problem> {
        let wanted: Vec<&NoticeTarget> = (targets.iter())
            .filter(|t| {
                t.on.contains(&NoticeKind::Failing) || t.on.contains(&NoticeKind::Recovered)
            })
            .collect();
        let sources = store.sources()?;
        let n_failing: u64 = sources.iter().map(|source| source.totals.n_failing).sum();
        let n_told: usize = self.receivers.values().map(|r| r.failing.len()).sum();
        if wanted.is_empty() || n_failing == 0 && n_told == 0 {
            return Ok(());
        }
        let mut failing: Vec<ElementId> = Vec::new();
        if n_failing > 0 {
            store.scan(1, &mut |id, brief| {
                if brief.state == State::Failing && failing.len() < MOST_FAILING {
                    failing.push(id);
                }
            })?;
        }
        let name = |id| {
            let source = sources.iter().find(|source| source.id == id);
            source.map_or("", |source| &*source.name)
        };
        for target in wanted {
            let receiver = &self.receivers[&target.name];
            if !receiver.has_room() {
                continue;
            }
            let told = &receiver.failing;
            let new: Vec<ElementId> = (failing.iter())
                .filter(|id| !told.contains(&id.0))
                .take(MOST_GATHERED)
                .copied()
                .collect();
            let old: Vec<u32> = told.iter().copied().collect();
            for id in new {
                let Some(kept) = store.element(id)? else {
                    continue;
                };
                let source = name(kept.element.source);
                if kept.n_failures < target.failures || !target.is_of(source) {
                    continue;
                }
                let receiver = self.receivers.entry(target.name.clone()).or_default();
                receiver.failing.insert(id.0);
                if target.on.contains(&NoticeKind::Failing) {
                    let event = event_of_element(NoticeKind::Failing, &kept, source);
                    let at = kept.failure.as_ref().map_or(0, |failure| failure.at.0);
                    self.gather(target, event, at);
                }
            }
            for id in old {
                let kept = store.element(ElementId(id))?;
                if kept
                    .as_ref()
                    .is_some_and(|kept| kept.state == State::Failing)
                {
                    continue;
                }
                let receiver = self.receivers.entry(target.name.clone()).or_default();
                receiver.failing.remove(&id);
                let has_recovered = kept.filter(|kept| kept.state == State::Ok);
                if let Some(kept) =
                    has_recovered.filter(|_| target.on.contains(&NoticeKind::Recovered))
                {
                    let event =
                        event_of_element(NoticeKind::Recovered, &kept, name(kept.element.source));
                    self.gather(target, event, 0);
                }
            }
        }
        Ok(())
    }

    fn take_target(&mut self, misses: &[Miss], targets: &[NoticeTarget], now: Moment) {
        for target in targets {
            let receiver = self.receivers.entry(target.name.clone()).or_default();
            let is_missed = !misses.is_empty();
            if receiver.is_missed == is_missed {
                continue;
            }
            receiver.is_missed = is_missed;
            let on = match is_missed {
                true => NoticeKind::TargetMissed,
                false => NoticeKind::TargetMet,
            };
            if target.on.contains(&on) {
                let misses: Vec<String> = misses.iter().map(ToString::to_string).collect();
                let event = json!({ "on": on, "at": rfc3339(now), "misses": misses });
                self.gather(target, Event::Other(event), now.0);
            }
        }
    }

    /// Makes notices of what was gathered, where it is time.
    fn make(&mut self, new_id: &dyn Fn() -> String, targets: &[NoticeTarget], now: i64) {
        for target in targets {
            let receiver = self.receivers.entry(target.name.clone()).or_default();
            let wait = target.digest.map_or(0, |digest| digest.as_millis() as i64);
            let since = receiver
                .made_at
                .max(receiver.gathered_since.filter(|_| wait > 0));
            if since.is_some_and(|since| now < since + wait) {
                continue;
            }
            // The digest of one that is behind goes on with what follows.
            let is_whole = receiver.behind_since.is_none() || wait == 0;
            if is_whole && receiver.gathered_since.take().is_some() {
                receiver.made_at = Some(now);
            }
            let events = std::mem::take(&mut receiver.gathered);
            if events.is_empty() {
                continue;
            }
            let mut events = &events[..];
            // While one is being tried, what comes after it goes into the next.
            if wait == 0
                && receiver.waiting.len() > 1
                && let Some(last) = receiver.waiting.back_mut()
            {
                let room = MOST_EVENTS.saturating_sub(last.events.len());
                let (with_it, rest) = events.split_at(room.min(events.len()));
                last.events.extend_from_slice(with_it);
                if !with_it.is_empty() {
                    // It has not been tried, and its day begins with the last to join.
                    (last.at, last.next_at) = (now, now);
                }
                events = rest;
            }
            for events in events.chunks(MOST_EVENTS) {
                receiver.waiting.push_back(Notice {
                    id: new_id(),
                    at: now,
                    n_tries: 0,
                    next_at: now,
                    events: events.to_vec(),
                });
            }
            let is_over = |notice: &Notice| now - notice.at > GIVEN_UP_MS;
            while receiver.waiting.front().is_some_and(is_over) {
                receiver.waiting.pop_front();
                receiver.n_given_up += 1;
            }
        }
    }

    /// The notice that is to be delivered to a receiver now: they come in order.
    fn due(&self, name: &str, now: i64) -> Option<&Notice> {
        let notice = self.receivers.get(name)?.waiting.front()?;
        (notice.next_at <= now).then_some(notice)
    }

    /// A notice was delivered, or is tried again later.
    fn conclude(&mut self, name: &str, id: &str, done: Result<(), String>, now: i64) {
        let Some(receiver) = self.receivers.get_mut(name) else {
            return;
        };
        let Some(notice) = receiver.waiting.front_mut().filter(|n| n.id == id) else {
            return;
        };
        receiver.error = done.err();
        if receiver.error.is_none() {
            receiver.waiting.pop_front();
        } else if now - notice.at > GIVEN_UP_MS {
            receiver.waiting.pop_front();
            receiver.n_given_up += 1;
        } else {
            let wait = FIRST_RETRY_MS.saturating_mul(1 << notice.n_tries.min(20));
            notice.n_tries += 1;
            notice.next_at = now + wait.min(LONGEST_RETRY_MS);
        }
    }
}

/// How it stands with a receiver, as it is shown.
pub(crate) struct ReceiverView {
    pub(crate) name: String,
    pub(crate) n_waiting: usize,
    pub(crate) oldest: Option<Moment>,
    pub(crate) n_given_up: u64,
    pub(crate) error: Option<String>,
}

/// How it stands with all receivers.
pub(crate) fn receivers(
    store: &dyn Reader,
    targets: &[NoticeTarget],
) -> Result<Vec<ReceiverView>, Problem> {
    let outbox = Outbox::read(store, 0)?;
    let view = |target: &NoticeTarget| {
        let known = outbox.receivers.get(&target.name);
        let waiting = known.map(|known| &known.waiting);
        ReceiverView {
            name: target.to.shown(),
            n_waiting: waiting.map_or(0, VecDeque::len),
            oldest: waiting.and_then(|w| w.front()).map(|n| Moment(n.at)),
            n_given_up: known.map_or(0, |known| known.n_given_up),
            error: known.and_then(|known| known.error.clone()),
        }
    };
    Ok(targets.iter().map(view).collect())
}

impl NoticeTo {
    /// Where, for those who need not know how to get there: the path of a hook is often
    /// its password.
    fn shown(&self) -> String {
        match self {
            Self::Web(url) => url.origin().ascii_serialization(),
            Self::Command(line) => {
                let program = line.split_whitespace().next();
                program.unwrap_or_default().to_owned()
            }
            Self::Mail(mail) => mail.shown(),
        }
    }
}

impl NoticeTarget {
    fn is_of(&self, source: &str) -> bool {
        (self.sources.as_ref()).is_none_or(|sources| sources.iter().any(|name| name == source))
    }

    fn wants(&self, on: NoticeKind, source: &str) -> bool {
        self.on.contains(&on) && self.is_of(source)
    }
}

fn event_of_element(on: NoticeKind, kept: &springtide_store::Kept, source: &str) -> Event {
    Event::Other(json!({
        "on": on,
        "element": kept.element.id.0,
        "source": source,
        "locator": redacted(&kept.element.locator),
        "found_at": kept.history.polled_at.map(rfc3339),
        "previous_poll_at": kept.history.synced_at.map(rfc3339),
        "kind": null, "bytes_before": null, "bytes_after": null, "digest": null,
        "error": kept.failure.as_ref().map(ErrorView::new),
        "diff": null
    }))
}

/// A notice with all that is told, and its delivery.
async fn deliver_notice(
    app: &Shared,
    target: &NoticeTarget,
    notice: &Notice,
) -> Result<(), String> {
    let (id, at, events) = (notice.id.clone(), Moment(notice.at), notice.events.clone());
    let body = app
        .read(move |app, store| {
            let mut told = Vec::with_capacity(events.len());
            for event in events {
                match event {
                    Event::Other(value) => told.push(value),
                    Event::Change(on, number) => {
                        let found = store.changes_after(number.saturating_sub(1), 1)?;
                        let found: Vec<Change> =
                            found.into_iter().filter(|c| c.number == number).collect();
                        for change in numbered(app, store, &found)? {
                            let mut value = json!(change.change);
                            value["on"] = json!(on);
                            value["diff"] = json!(diff_of(app, store, &change));
                            told.push(value);
                        }
                    }
                }
            }
            Ok(json!({ "id": id, "at": rfc3339(at), "events": told }).to_string())
        })
        .await
        .map_err(|problem| problem.detail)?;
    let current = app.current();
    let folder = app.folder.path().to_owned();
    deliver::deliver(target, &current.settings.http, &folder, body.into_bytes()).await
}

/// Delivers a notice that only says that it can be.
///
/// # Errors
/// Why it cannot, in a sentence.
pub fn test_notice(
    target: &NoticeTarget,
    http: &HttpSettings,
    folder: &Path,
) -> Result<(), String> {
    let mut bytes = [0; 16];
    let random = ring::rand::SystemRandom::new().fill(&mut bytes);
    random.map_err(|_| "the system has no random numbers".to_owned())?;
    let at = rfc3339(Moment(jiff::Timestamp::now().as_millisecond()));
    let body = json!({ "id": hex(&bytes), "at": at, "events": [{ "on": "test" }] });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(deliver::deliver(
        target,
        http,
        folder,
        body.to_string().into_bytes(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn target(digest: Option<Duration>) -> NoticeTarget {
        NoticeTarget {
            name: "hook".to_owned(),
            to: NoticeTo::Command("true".to_owned()),
            on: BTreeSet::from([NoticeKind::Changed]),
            sources: None,
            failures: 3,
            digest,
            secret: None,
        }
    }

    /// An outbox with one receiver, and ids that count.
    struct Play {
        outbox: Outbox,
        target: NoticeTarget,
        n_ids: std::cell::Cell<u32>,
        n_changes: u64,
    }

    impl Play {
        fn new(digest: Option<Duration>) -> Self {
            Self {
                outbox: Outbox::default(),
                target: target(digest),
                n_ids: std::cell::Cell::new(0),
                n_changes: 0,
            }
        }

        fn find(&mut self, n_changes: u64, now: i64) {
            for _ in 0..n_changes {
                self.n_changes += 1;
                let event = Event::Change(NoticeKind::Changed, self.n_changes);
                self.outbox.gather(&self.target, event, now);
            }
            self.make(now);
        }

        fn make(&mut self, now: i64) {
            let new_id = || {
                self.n_ids.set(self.n_ids.get() + 1);
                format!("id-{}", self.n_ids.get())
            };
            let targets = std::slice::from_ref(&self.target);
            self.outbox.make(&new_id, targets, now);
        }

        /// Tries the one that is due, if one is: its id, and the changes in it.
        fn attempt(&mut self, done: Result<(), String>, now: i64) -> Option<(String, Vec<u64>)> {
            let notice = self.outbox.due("hook", now)?.clone();
            let changes = notice.events.iter().map(|event| match event {
                Event::Change(_, number) => *number,
                Event::Other(_) => 0,
            });
            let changes = changes.collect();
            self.outbox.conclude("hook", &notice.id, done, now);
            Some((notice.id, changes))
        }

        fn receiver(&self) -> &Receiver {
            &self.outbox.receivers["hook"]
        }

        fn receiver_or_new(&mut self) -> &Receiver {
            self.outbox.receivers.entry("hook".to_owned()).or_default()
        }
    }

    #[test]
    fn what_comes_while_one_is_tried_is_joined_and_stays_in_order() {
        let mut play = Play::new(None);
        play.find(1, 0);
        let first = play.attempt(Err("it is down".into()), 0).unwrap();
        // The next has a notice of its own, and those after it join that.
        for at in 1..=250 {
            play.find(1, at);
        }
        let lengths = |play: &Play| -> Vec<usize> {
            let waiting = play.receiver().waiting.iter();
            waiting.map(|notice| notice.events.len()).collect()
        };
        assert_eq!(lengths(&play), [1, MOST_EVENTS, MOST_EVENTS, 50]);
        // Many at once are parted, none is lost, and what was tried is as it was.
        play.find(230, 251);
        assert_eq!(lengths(&play), [1, 100, 100, 100, 100, 80]);
        let mut told = Vec::new();
        let again = play.attempt(Ok(()), FIRST_RETRY_MS).unwrap();
        assert_eq!(again, first);
        told.extend(again.1);
        while let Some((_, changes)) = play.attempt(Ok(()), FIRST_RETRY_MS) {
            told.extend(changes);
        }
        assert_eq!(told, (1..=play.n_changes).collect::<Vec<_>>());
        assert_eq!(play.receiver().n_given_up, 0);
    }

    #[test]
    fn a_notice_is_tried_for_a_day_under_one_id_and_then_given_up_and_counted() {
        let mut play = Play::new(None);
        play.find(1, 0);
        let (mut ids, mut times) = (BTreeSet::new(), Vec::new());
        for now in (0..30 * HOUR).step_by(1000) {
            if let Some((id, _)) = play.attempt(Err("it is down".into()), now) {
                ids.insert(id);
                times.push(now);
            }
        }
        assert_eq!(ids.len(), 1);
        assert!(times[1] <= 10_000, "the first retry is within 10 s");
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.clone().all(|gap| gap <= LONGEST_RETRY_MS + 1000));
        let last = *times.last().unwrap();
        assert!(
            (GIVEN_UP_MS..GIVEN_UP_MS + 2 * HOUR).contains(&last),
            "{last}"
        );
        assert_eq!(play.receiver().n_given_up, 1);
        assert!(play.receiver().waiting.is_empty());
        assert_eq!(play.receiver().error.as_deref(), Some("it is down"));
    }

    #[test]
    fn what_was_joined_late_is_not_given_up_with_what_was_there_before() {
        let mut play = Play::new(None);
        play.find(1, 0);
        play.attempt(Err("it is down".into()), 0);
        for hour in 0..24 {
            play.find(1, hour * HOUR + 1);
        }
        // The first is given up; the changes of the last hours still have most of a day.
        let now = GIVEN_UP_MS + 1000;
        play.attempt(Err("it is down".into()), now);
        assert_eq!(play.receiver().n_given_up, 1);
        let (_, changes) = play.attempt(Ok(()), now).unwrap();
        assert_eq!(changes, (2..=25).collect::<Vec<_>>());
        assert_eq!(play.receiver().n_given_up, 1);
    }

    /// Changes with numbers from `first` on, found then.
    fn found(first: u64, n: u64, at: i64) -> Vec<Change> {
        let change = |number| Change {
            number,
            element: ElementId(1),
            source: springtide_store::SourceId(0),
            kind: ChangeKind::Changed,
            found_at: Moment(at),
            previous_poll_at: None,
            bytes_before: None,
            bytes_after: None,
            digest: None,
            body: None,
            content_type: None,
            size: None,
            version: 1,
        };
        (first..first + n).map(change).collect()
    }

    #[test]
    fn whoever_fails_for_long_keeps_little_and_loses_nothing_that_is_younger_than_a_day() {
        let mut play = Play::new(None);
        // What there is to tell comes at once, and is taken only where there is room.
        while play.receiver_or_new().has_room() {
            play.find(PAGE as u64, 0);
        }
        let longest = serde_json::to_vec(&play.outbox).unwrap().len();
        assert!(longest < 400_000, "{longest}");
        assert_eq!(play.receiver().n_given_up, 0);
        // The first that is delivered makes room.
        let n = play.receiver().waiting.len();
        for _ in 0..=n - MOST_WAITING {
            assert!(!play.receiver().has_room());
            play.attempt(Ok(()), 0);
        }
        assert!(play.receiver().has_room());

        // Of what waits in the store, that which is older than a day is given up.
        let receiver = play.outbox.receivers.get_mut("hook").unwrap();
        let mut changes = [found(1, 250, 0), found(251, 250, 2 * HOUR)].concat();
        receiver.fall_behind(true, &mut changes, GIVEN_UP_MS + HOUR);
        assert_eq!((changes.len(), changes[0].number), (250, 251));
        assert_eq!(receiver.n_given_up, 3);
        // Nothing of one that keeps up, however long nobody served it.
        let mut changes = found(501, 10, 0);
        receiver.fall_behind(false, &mut changes, 9 * GIVEN_UP_MS);
        assert_eq!((changes.len(), receiver.n_given_up), (10, 3));
    }

    #[test]
    fn a_digest_of_more_than_there_is_room_for_is_told_in_turn() {
        let mut play = Play::new(Some(Duration::from_secs(3600)));
        play.find(MOST_GATHERED as u64, 0);
        let receiver = play.outbox.receivers.get_mut("hook").unwrap();
        assert!(!receiver.has_room());
        receiver.fall_behind(true, &mut Vec::new(), 1);
        play.make(HOUR);
        assert!(play.receiver().gathered.is_empty());
        // The rest of it does not wait for another hour.
        play.find(100, HOUR + 1);
        assert!(play.receiver().gathered.is_empty());
        let receiver = play.outbox.receivers.get_mut("hook").unwrap();
        receiver.fall_behind(false, &mut Vec::new(), HOUR + 2);
        play.find(1, HOUR + 2);
        play.find(1, HOUR + 3);
        assert_eq!(play.receiver().gathered.len(), 1);
    }

    #[test]
    fn a_target_of_which_nothing_is_known_any_more_is_not_met() {
        assert_eq!(known_misses(vec![]), Some(vec![]));
        assert_eq!(known_misses(vec![Miss::FreshnessUnknown]), None);
        let missed = Miss::Freshness(0.5, 0.9);
        let both = vec![missed, Miss::AgeUnknown];
        assert_eq!(known_misses(both), Some(vec![missed]));
    }

    #[test]
    fn a_digest_gathers_until_its_time_has_come() {
        let mut play = Play::new(Some(Duration::from_secs(3600)));
        play.find(2, 0);
        play.find(3, HOUR - 1);
        assert!(play.receiver().waiting.is_empty());
        play.make(HOUR);
        let (_, changes) = play.attempt(Ok(()), HOUR).unwrap();
        assert_eq!(changes, [1, 2, 3, 4, 5]);
        play.find(1, HOUR + 1);
        assert_eq!(play.attempt(Ok(()), 2 * HOUR - 1), None);
        play.make(2 * HOUR + 1);
        assert!(play.attempt(Ok(()), 2 * HOUR + 1).is_some());
    }
}
