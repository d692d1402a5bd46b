//! Policies that others write.

use std::fmt;
use std::sync::Arc;

use super::Terms;
use super::due::DueQueue;
use crate::{Budget, Element, ElementId, Groups, Outcome, Rate, Span, Time};

/// A policy of your own: it is told what happens to elements, and chooses whom to poll.
///
/// An element *waits* from when it is [added](Self::add) or
/// [observed](Self::observe) until its poll [begins](Self::begin). Someone who waits may
/// be chosen; nobody else may. That is all a policy has to keep to. It does not act, log,
/// sleep or look at the clock: `now` is told, and never goes back.
///
/// Budget, limits and closed groups are not its business. The scheduler asks when the
/// budget allows a poll, holds back whoever may not be asked yet, and tries failed polls
/// again by itself: to the policy, such an element is being polled meanwhile. It also
/// polls whoever has waited for [`Terms::max_interval`]. Someone may ask for an element
/// out of turn, so a poll may begin that the policy did not choose.
///
/// [`conformance::check`](super::conformance::check) tests whether a policy keeps to this.
///
/// ```
/// use std::collections::VecDeque;
///
/// use springtide_policy::schedule::{Choice, Custom, CustomPolicy, conformance};
/// use springtide_policy::{Element, ElementId, Groups, Outcome, Time};
///
/// /// Everyone in turn.
/// #[derive(Default)]
/// struct RoundRobin(VecDeque<ElementId>);
///
/// impl CustomPolicy for RoundRobin {
///     fn add(&mut self, id: ElementId, _: Element, _: &Groups, _: Time) {
///         self.0.push_back(id);
///     }
///     fn remove(&mut self, id: ElementId) {
///         self.0.retain(|&other| other != id);
///     }
///     fn choose(&mut self, _: Time) -> Option<ElementId> {
///         self.0.front().copied()
///     }
///     fn begin(&mut self, id: ElementId) {
///         self.0.retain(|&other| other != id);
///     }
///     fn observe(&mut self, id: ElementId, _: Outcome, _: Time) {
///         self.0.push_back(id);
///     }
/// }
///
/// let custom = Custom::new("round-robin", |_| RoundRobin::default());
/// conformance::check(&custom);
/// let choice = Choice::Custom(custom);
/// ```
pub trait CustomPolicy: Send {
    /// An element appears, with a copy in sync, and waits. `groups` says which groups
    /// its innermost is in. One that was removed may come back.
    fn add(&mut self, id: ElementId, element: Element, groups: &Groups, now: Time);

    /// An element is gone, whether it waited or was being polled.
    fn remove(&mut self, id: ElementId);

    /// Whom to poll now, of those who wait. This changes nothing yet: if the poll is
    /// made, it [begins](Self::begin); else the question comes again.
    ///
    /// Nobody, if none of them is worth a poll now. The policy is then asked again
    /// [when it says](Self::wake_at), or when it has been told something.
    fn choose(&mut self, now: Time) -> Option<ElementId>;

    /// The poll of an element that waits begins, and it waits no longer.
    fn begin(&mut self, id: ElementId);

    /// What the poll of an element showed. Its copy is in sync, and it waits again.
    fn observe(&mut self, id: ElementId, outcome: Outcome, now: Time);

    /// When to be asked again after nobody was chosen, if nothing is told before.
    fn wake_at(&self, now: Time) -> Time {
        let _ = now;
        Time::NEVER
    }

    /// Someone who may know says that an element has changed.
    fn hint(&mut self, id: ElementId, now: Time) {
        let _ = (id, now);
    }

    /// From now on the budget is another.
    fn set_budget(&mut self, budget: &Budget) {
        let _ = budget;
    }

    /// When an element that waits is due: for users to see, and for runs that end once
    /// nobody is due any more. Without it, such a run polls what is new, and no more.
    fn due_at(&self, id: ElementId) -> Option<Time> {
        let _ = id;
        None
    }

    /// What polling an element is worth now, by which requests to search sources are
    /// compared with it; without it, they take turns.
    fn worth(&self, id: ElementId, now: Time) -> Option<f64> {
        let _ = (id, now);
        None
    }

    /// What is to be remembered across restarts of all elements together. It is written
    /// with every batch of polls, so a few kilobytes at most.
    fn remember(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes in what was [remembered](Self::remember), before any element.
    fn recall(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// An element that was polled before a restart is there again, and waits.
    fn add_again(&mut self, id: ElementId, element: Element, groups: &Groups, past: Past) {
        self.add(id, element, groups, past.polled_at);
    }
}

/// What is known of an element after a restart.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Past {
    /// When it was last polled.
    pub polled_at: Time,
    /// When it was [due](CustomPolicy::due_at), if the policy had said so.
    pub due_at: Option<Time>,
    /// How often it changes, as far as was learned beside the policy.
    pub rate: Option<Rate>,
}

/// What a policy starts from.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct StartingPoint<'a> {
    /// Budget and objective.
    pub terms: &'a Terms,
    /// When it starts.
    pub now: Time,
    /// Where random numbers start, for a policy that draws any.
    pub seed: u64,
}

/// How to make a [`CustomPolicy`]: what [`Choice::Custom`](super::Choice::Custom) holds,
/// so that one setup can be run many times, and on many threads.
#[derive(Clone)]
pub struct Custom {
    name: Arc<str>,
    make: Arc<Make>,
}

type Make = dyn Fn(StartingPoint<'_>) -> Box<dyn CustomPolicy> + Send + Sync;

impl Custom {
    /// A policy by a name, and how it is made. What one remembers is recalled only by
    /// one of the same name.
    pub fn new<P: CustomPolicy + 'static>(
        name: &str,
        make: impl Fn(StartingPoint<'_>) -> P + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            make: Arc::new(move |start| Box::new(make(start))),
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A policy, as if for the first time.
    pub(super) fn make(&self, start: StartingPoint<'_>) -> Box<dyn CustomPolicy> {
        (self.make)(start)
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Custom").field(&self.name).finish()
    }
}

/// Two are the same if one is a clone of the other.
impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}

impl Eq for Custom {}

/// A policy that names nobody is not asked again for a second: one that would be woken
/// at once, again and again, must not hold up a driver.
const SHORTEST_IDLE: Span = Span(1.0 / 86_400.0);

/// The first byte of what a policy remembers. No other part of what a scheduler
/// remembers begins with it.
const TAG: u8 = 2;

/// A policy of someone else's, and what it need not know: whose polls failed, and who
/// has waited for as long as anyone may.
pub(super) struct CustomQueue {
    name: Arc<str>,
    policy: Box<dyn CustomPolicy>,
    states: Vec<State>,
    n_waiting: usize,
    /// Those who are polled at a time whatever the policy says.
    fixed: DueQueue,
    /// No element waits longer than this.
    longest: Span,
    /// The latest time that was told.
    now: Time,
    /// Until when it is not asked, having chosen nobody.
    idle_until: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Waiting,
    Begun,
}

impl fmt::Debug for CustomQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomQueue")
            .field("name", &self.name)
            .field("n_waiting", &self.n_waiting)
            .finish_non_exhaustive()
    }
}

impl CustomQueue {
    pub(super) fn new(custom: &Custom, start: StartingPoint<'_>) -> Self {
        Self {
            name: Arc::clone(&custom.name),
            policy: custom.make(start),
            states: Vec::new(),
            n_waiting: 0,
            fixed: DueQueue::default(),
            longest: start.terms.max_interval.unwrap_or(Span::FOREVER),
            now: start.now,
            idle_until: None,
        }
    }

    pub(super) fn add(&mut self, id: ElementId, element: Element, groups: &Groups, now: Time) {
        self.told(now);
        self.policy.add(id, element, groups, now);
        self.set_waiting(id, now);
    }

    pub(super) fn add_again(
        &mut self,
        id: ElementId,
        element: Element,
        groups: &Groups,
        past: Past,
    ) {
        self.policy.add_again(id, element, groups, past);
        self.set_waiting(id, past.polled_at);
    }

    pub(super) fn remove(&mut self, id: ElementId) {
        match self.state(id) {
            State::Absent => return,
            State::Waiting => self.n_waiting -= 1,
            State::Begun => {}
        }
        self.states[id.index()] = State::Absent;
        self.fixed.take_out(id.0);
        self.policy.remove(id);
        self.idle_until = None;
    }

    pub(super) fn wake_at(&mut self) -> Time {
        let fixed = self.first_fixed();
        let chosen = match self.idle_until {
            _ if self.n_waiting == 0 => Time::NEVER,
            None => Time(f64::NEG_INFINITY),
            Some(until) => until,
        };
        Time(fixed.0.min(chosen.0))
    }

    pub(super) fn next_poll(&mut self, now: Time) -> Option<ElementId> {
        self.now = Time(self.now.0.max(now.0));
        let id = match self.fixed.first() {
            Some((due, index)) if due <= now.0 => ElementId(index),
            _ => match self.choose() {
                Some(id) => id,
                None => {
                    let again = self.policy.wake_at(self.now).0;
                    let soonest = self.now + SHORTEST_IDLE;
                    self.idle_until = Some(Time(again.max(soonest.0)));
                    return None;
                }
            },
        };
        self.begin(id);
        Some(id)
    }

    pub(super) fn observe(&mut self, id: ElementId, outcome: Outcome, now: Time) {
        if self.state(id) == State::Absent {
            return;
        }
        self.told(now);
        self.begin(id);
        self.policy.observe(id, outcome, now);
        self.set_waiting(id, now);
    }

    pub(super) fn take(&mut self, id: ElementId) -> bool {
        let is_held = self.fixed.due(id.0).is_some();
        let can_be = self.state(id) == State::Waiting || is_held;
        if can_be {
            self.begin(id);
        }
        can_be
    }

    pub(super) fn put_back(&mut self, id: ElementId, due: Time) {
        if self.state(id) == State::Absent {
            return;
        }
        self.begin(id);
        self.fixed.put(id.0, due.0);
    }

    /// When whoever comes next is due.
    pub(super) fn first_due(&mut self) -> Time {
        let chosen = self.choose().and_then(|id| self.policy.due_at(id));
        let chosen = chosen.unwrap_or(Time::NEVER);
        Time(self.first_fixed().0.min(chosen.0))
    }

    pub(super) fn due_at(&self, id: ElementId) -> Option<Time> {
        let chosen = match self.state(id) {
            State::Waiting => self.policy.due_at(id),
            _ => None,
        };
        let fixed = self.fixed.due(id.0).map(Time);
        match (chosen, fixed) {
            (Some(chosen), Some(fixed)) => Some(Time(chosen.0.min(fixed.0))),
            (one, other) => one.or(other),
        }
    }

    pub(super) fn next_worth(&mut self, now: Time) -> Option<f64> {
        self.now = Time(self.now.0.max(now.0));
        let id = self.choose()?;
        self.policy
            .worth(id, self.now)
            .filter(|worth| !worth.is_nan())
    }

    pub(super) fn hint(&mut self, id: ElementId, now: Time) {
        if self.state(id) != State::Absent {
            self.told(now);
            self.policy.hint(id, now);
        }
    }

    pub(super) fn set_budget(&mut self, budget: &Budget) {
        self.policy.set_budget(budget);
        self.idle_until = None;
    }

    /// The name, its length before it, and what the policy remembers.
    pub(super) fn remember(&self) -> Vec<u8> {
        let notes = self.policy.remember();
        if notes.is_empty() {
            return notes;
        }
        let length = self.name.len() as u32;
        let mut bytes = vec![TAG];
        bytes.extend(length.to_le_bytes());
        bytes.extend(self.name.as_bytes());
        bytes.extend(notes);
        bytes
    }

    pub(super) fn recall(&mut self, bytes: &[u8]) {
        let notes = || {
            let bytes = bytes.strip_prefix(&[TAG])?;
            let (length, bytes) = bytes.split_first_chunk::<4>()?;
            let (name, notes) = bytes.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            (name == self.name.as_bytes()).then_some(notes)
        };
        if let Some(notes) = notes() {
            self.policy.recall(notes);
        }
    }

    /// Whom the policy would poll now. What is wrong with one that names someone who does
    /// not wait is for its author to see, and stops nobody's engine.
    fn choose(&mut self) -> Option<ElementId> {
        if self.n_waiting == 0 {
            return None;
        }
        let id = self.policy.choose(self.now)?;
        let waits = self.state(id) == State::Waiting;
        debug_assert!(waits, "{}: element {} does not wait", self.name, id.0);
        waits.then_some(id)
    }

    fn begin(&mut self, id: ElementId) {
        self.fixed.take_out(id.0);
        if self.state(id) == State::Waiting {
            self.states[id.index()] = State::Begun;
            self.n_waiting -= 1;
            self.policy.begin(id);
        }
    }

    fn set_waiting(&mut self, id: ElementId, polled_at: Time) {
        if id.index() >= self.states.len() {
            self.states.resize(id.index() + 1, State::Absent);
        }
        self.states[id.index()] = State::Waiting;
        self.n_waiting += 1;
        if self.longest < Span::FOREVER {
            self.fixed.put(id.0, (polled_at + self.longest).0);
        }
        self.idle_until = None;
    }

    fn told(&mut self, now: Time) {
        self.now = Time(self.now.0.max(now.0));
        self.idle_until = None;
    }

    fn first_fixed(&mut self) -> Time {
        self.fixed.first().map_or(Time::NEVER, |(due, _)| Time(due))
    }

    fn state(&self, id: ElementId) -> State {
        self.states
            .get(id.index())
            .copied()
            .unwrap_or(State::Absent)
    }
}
