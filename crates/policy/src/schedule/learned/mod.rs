//! springtide's own policy: nothing is known at the start, and every poll teaches.
//!
//! What is believed of an element's rate is a gamma distribution. It begins as what
//! is usual in its group (host, directory, …), and every poll moves it. Polling the
//! element is worth what [`value`](crate::value) says for such a belief, a little of
//! it for age, so that nobody is given up for good. It is due when that reaches the
//! price, and the price is what polls have been worth of late: the earliest due is
//! polled as often as the budget allows, and if what is polled is worth less than
//! it was, the price falls.
//!
//! An element that is surely stale whenever it is polled has its polls spaced
//! unevenly, which tells how fast it changes and costs next to nothing.
//!
//! Groups keep clocks of their own, and members' times are on them: see [`Clock`](clock::Clock).

mod choose;
mod clock;
mod heap;
mod likeness;
mod memory;
mod nodes;
mod parts;
mod price;
mod tree;

use likeness::ShapeEvidence;
pub(super) use memory::{NodeMemory, price_in};
use parts::Parts;
use price::Pricing;
use tree::{Node, NodeId, Path, ROOT, Tree};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Terms, phases};
use crate::estimate::updated;
use crate::hint::{HintRecord, Hinting};
use crate::numeric::{fading, quick_exp, quick_ln};
use crate::value::{
    Blend, Worth, blended_value, blended_value_reaches, blended_value_reaches_near, chance_changed,
};
use crate::{
    Element, ElementId, Elements, Gamma, GroupId, Groups, Objective, Outcome, Present, Span, Time,
};

/// How many changes a group must have shown for its own rate to count as much as
/// that of the group around it.
const RATE_CHANGES: f64 = 3.0;
/// The changes that a guess counts for as long as nothing is known of any element:
/// once in a mean interval.
const VAGUE_CHANGES: f64 = 0.5;
/// How alike elements are is fitted for all of them, and for the outermost groups.
const SITE: usize = 1;
/// A change seen after a long interval may have been many; it counts as no more
/// than this for what is usual in the group.
const MOST_CHANGES: f64 = 5.0;
/// How long half of what was seen of an element counts, in days.
pub(super) const HALF_LIFE: f64 = 365.0;
/// What a mean interval less of age is worth, beside a day of freshness.
const AGE_SHARE: f64 = 0.001;
/// An element due later than this many mean intervals is looked at again by then:
/// the price may have fallen.
const LOOK_AGAIN: f64 = 2.0;
/// Due times in a leaf are worked out anew when its rate, or the price, has moved by
/// more than this factor,
const MOVED: f64 = 1.5;
/// but no more often than costs so many for each poll there.
const ANEW_PER_POLL: usize = 4;
/// A group of fewer elements does not get a node: they are too few to say much
/// together.
const FEWEST: u32 = 4;
/// A change as likely as this teaches nothing.
const SURE: f64 = 0.9;
/// Nor does any poll of an element whose belief has this shape: its rate is known to a
/// quarter.
const KNOWN: f64 = 16.0;
/// The chance of a change at which a poll teaches most about a rate: Fisher's
/// information on ln λ, (λt)²/(e^(λt) − 1), is highest at λt = 1.594.
const TELLING: f64 = 0.797;
/// A wait of so many days is stretched by the square root of its clocks' speed, a longer
/// one by more: see [`Standing::felt`]. Half and twice as much do as well.
const LONG_WAIT: f64 = 60.0;
/// So many in a row are looked at again before the next is simply polled.
const MOST_LOOKS: usize = 200;
/// A group without a node of its own: its elements are in the node of the group
/// around it.
const NO_NODE: NodeId = NodeId::MAX;
/// The shortest interval, in days: a tenth of a millisecond.
const SHORTEST: f64 = 1e-9;

#[derive(Debug)]
pub(super) struct Learned {
    tree: Tree,
    members: Vec<Member>,
    /// The node of each group, or [`NO_NODE`].
    nodes: Vec<NodeId>,
    /// How many elements were seen in each group and those in it.
    n_inside: Vec<u32>,
    price: f64,
    budget: f64,
    n_members: usize,
    /// Those of them that are neither being polled nor held back.
    n_waiting: usize,
    total_cost: f64,
    /// What all will cost once those are in who are about to join.
    expected_cost: f64,
    pricing: Pricing,
    /// Days between two polls of an element if all were polled alike.
    mean_interval: f64,
    blend: Blend,
    /// The element that was given out last, while its entry is still in the tree.
    taken: Option<u32>,
    /// What the element at the head of the queue was worth when it was last looked at,
    /// if nothing has happened since.
    valued: Option<Valued>,
    deadlines: Option<Deadlines>,
    /// What hints are worth in each outermost group, by its node; empty until there
    /// is one.
    hint_records: Vec<HintRecord>,
    /// The elements with hints since their last poll.
    hinted: BTreeMap<u32, Hinted>,
    /// The elements that have more than one part.
    parts: BTreeMap<u32, Parts>,
    /// Those being polled out of turn: what they are worth says nothing of the price.
    out_of_turn: BTreeSet<u32>,
    /// Nodes of groups that are closed: nothing in them comes first.
    closed: BTreeSet<NodeId>,
}

/// Hints at an element since its last poll.
#[derive(Debug, Clone, Copy)]
struct Hinted {
    n_hints: u32,
    /// When the first came, as an interval since the poll.
    first: f64,
}

/// What is known of an element.
#[derive(Debug, Clone, Copy)]
struct Member {
    /// What its polls add to the belief that it began with, in changes and days of
    /// its leaf's clock.
    changes: f32,
    days: f32,
    /// When it was last polled, on its leaf's clock and by time itself.
    polled: f64,
    polled_at: f64,
    /// When it is due on its leaf's clock; not a number while it is not waiting.
    key: f64,
    leaf: NodeId,
    is_here: bool,
    /// Due only to be looked at again.
    is_look: bool,
    /// Due early, to learn.
    is_sample: bool,
    /// Due in its turn of the first round.
    is_first: bool,
    /// Due when it was told to be, and not before.
    is_put: bool,
    /// Never due: someone else sees to its polls.
    is_watched: bool,
}

impl Member {
    const NONE: Self = Self {
        changes: 0.0,
        days: 0.0,
        polled: 0.0,
        polled_at: 0.0,
        key: f64::NAN,
        leaf: ROOT,
        is_here: false,
        is_look: false,
        is_sample: false,
        is_first: false,
        is_put: false,
        is_watched: false,
    };
}

impl Member {
    fn standing(&self, leaf: &Node, parts: f64, now: f64) -> Standing {
        let prior = Gamma {
            shape: leaf.shape,
            per: leaf.shape / leaf.rate,
        };
        let kept = fading((now - self.polled_at) * (std::f64::consts::LN_2 / HALF_LIFE));
        Standing {
            prior,
            belief: Gamma {
                shape: prior.shape + f64::from(self.changes) * kept,
                per: prior.per + f64::from(self.days) * kept,
            },
            parts,
            interval: (leaf.clock.shows - self.polled).max(SHORTEST),
            speed: leaf.speed,
        }
    }
}

/// Elements in the order of their last polls, which is that of the times by which
/// they must be polled again.
#[derive(Debug)]
struct Deadlines {
    longest: f64,
    /// What the dearest poll costs: so much may come between.
    dearest: f64,
    /// By when, polled when, and who; one that was polled since no longer holds.
    queue: VecDeque<(f64, f64, u32)>,
}

impl Deadlines {
    fn push(&mut self, index: u32, polled_at: f64) {
        self.queue
            .push_back((polled_at + self.longest, polled_at, index));
    }
}

/// What a poll showed, how likely that was to be a change, and how long it was
/// since the last.
#[derive(Debug, Clone, Copy)]
struct PollEvidence {
    changed: bool,
    chance: f64,
    interval: f64,
}

/// What is believed of an element now.
#[derive(Debug, Clone, Copy)]
struct Standing {
    prior: Gamma,
    belief: Gamma,
    /// How many changes it takes until all of its parts have changed.
    parts: f64,
    /// How long ago its last poll was, on its leaf's clock.
    interval: f64,
    /// The speed that the clocks around it took by the last poll there, all together.
    /// They run by it for some days only; what it says of the time before stays.
    speed: f64,
}

impl Standing {
    /// How likely a change was by what its clock shows. Clocks are held against this:
    /// their speed is changes seen to changes expected in this way.
    fn expected(&self) -> f64 {
        chance_changed(self.belief, self.interval)
    }

    /// How likely a poll is to find a change now: by the time that its clock shows, times
    /// the speed that it has. The clock has taken in what was seen before, and still polls
    /// find so many times what was expected by it.
    fn chance(&self) -> f64 {
        chance_changed(self.belief, self.interval * self.speed)
    }

    /// How long its wait counts when polls are chosen: stretched by the speed of its
    /// clocks, or shortened, the more the longer it is.
    ///
    /// ```text
    /// t · speed^(t / (t + 60 days))
    /// ```
    ///
    /// Of a wait of months clocks that run fast for days have shown next to nothing, and what
    /// others were found to have missed it will have missed too. A wait of days was all in
    /// the news, and its clock has shown it; polls would crowd where it runs fast already.
    fn felt(&self) -> f64 {
        self.interval * self.stretch(self.interval)
    }

    fn stretch(&self, interval: f64) -> f64 {
        match self.speed == 1.0 {
            true => 1.0,
            false => quick_exp(quick_ln(self.speed) * interval / (interval + LONG_WAIT)),
        }
    }

    /// What is believed of one of its parts, if they are all alike. What an element is
    /// worth goes by its parts: of a block of a hundred rows, one of which changes every
    /// hour, a poll brings back one and not a hundred; and if each changes every day, the
    /// block is never fresh as a whole, but well worth a poll.
    fn of_part(&self) -> Gamma {
        Gamma {
            per: self.belief.per * self.parts,
            ..self.belief
        }
    }
}

/// What was believed of an element at a time, and what polling it was worth then.
#[derive(Debug, Clone, Copy)]
struct Valued {
    index: u32,
    at: f64,
    standing: Standing,
    worth: Worth,
}

impl Learned {
    pub(super) fn new(terms: &Terms, groups: &Groups, present: Present<'_>, now: Time) -> Self {
        let total_cost: f64 = present.iter().map(|(_, element)| element.cost.0).sum();
        let mut learned = Self {
            tree: Tree::new(1.0, now.0),
            members: Vec::with_capacity(present.len()),
            nodes: Vec::new(),
            n_inside: Vec::new(),
            price: 0.0,
            budget: terms.first_per_day(),
            n_members: 0,
            n_waiting: 0,
            total_cost,
            expected_cost: 0.0,
            pricing: Pricing::new(),
            mean_interval: 0.0,
            blend: Blend::only(terms.objective),
            taken: None,
            valued: None,
            deadlines: terms.max_interval.map(|longest| Deadlines {
                longest: longest.0,
                dearest: present
                    .iter()
                    .map(|(_, element)| element.cost.0)
                    .fold(0.0, f64::max),
                queue: VecDeque::with_capacity(present.len()),
            }),
            hint_records: Vec::new(),
            hinted: BTreeMap::new(),
            parts: BTreeMap::new(),
            out_of_turn: BTreeSet::new(),
            closed: BTreeSet::new(),
        };
        learned.make_nodes(groups, present);
        learned.settle_pace();
        let mean_interval = learned.mean_interval;
        if !present.is_empty() {
            learned.price = learned.first_price(present);
        }

        for ((id, element), phase) in present.iter().zip(phases(present.len())) {
            let leaf = learned.leaf_of(groups, element.group);
            learned.enter((id, element), leaf, now);
            let member = &mut learned.members[id.index()];
            member.key = now.0 + phase * mean_interval;
            member.is_first = true;
            let (key, path) = (member.key, learned.tree.path(leaf));
            learned.put(&path, id.0, key);
        }
        if let Some(deadlines) = &mut learned.deadlines {
            // Not all at the same time, when they could not all be polled.
            let mut first: Vec<_> = present
                .ids()
                .zip(phases(present.len()))
                .map(|(id, phase)| (now.0 + phase * deadlines.longest, now.0, id.0))
                .collect();
            first.sort_by(|a, b| a.0.total_cmp(&b.0));
            deadlines.queue.extend(first);
        }
        learned
    }

    pub(super) fn add(&mut self, id: ElementId, element: Element, groups: &Groups, now: Time) {
        self.set_aside();
        if let Some(group) = element.group {
            self.make_node(groups, group);
        }
        self.total_cost += element.cost.0;
        self.settle_pace();
        if self.price == 0.0 {
            self.price = self.usual_price(worth(element));
        }
        let leaf = self.leaf_of(groups, element.group);
        self.enter((id, element), leaf, now);
        let path = self.tree.path(leaf);
        self.wind(&path, now.0);
        let member = &mut self.members[id.index()];
        member.polled = self.tree.nodes[leaf as usize].clock.shows;
        member.polled_at = now.0;
        if let Some(deadlines) = &mut self.deadlines {
            deadlines.dearest = deadlines.dearest.max(element.cost.0);
            deadlines.push(id.0, now.0);
        }
        let standing = self.standing(id.0, now.0);
        self.wait(id.0, &path, &standing, worth(element));
    }

    /// An element that was just added is part of what another was: it begins with the rate
    /// of that, which counts as little as it can.
    pub(super) fn inherit(
        &mut self,
        whole: ElementId,
        (part, element): (ElementId, Element),
        now: Time,
    ) {
        if !self.contains(whole) || !self.contains(part) || self.is_watched(part) {
            return;
        }
        self.set_aside();
        for id in [whole, part] {
            let path = self.tree.path(self.members[id.index()].leaf);
            self.wind(&path, now.0);
        }
        let rate = self.standing(whole.0, now.0).belief.mean();
        let prior = self.standing(part.0, now.0).prior;
        let is_faster = rate > prior.mean();
        // Faster than usual is so many changes more, slower so many days without one.
        let changes = match is_faster {
            true => (rate * prior.per - prior.shape).max(1.0),
            false => 0.0,
        };
        let member = &mut self.members[part.index()];
        member.changes = changes as f32;
        member.days = ((prior.shape + changes) / rate - prior.per).max(0.0) as f32;
        if let Some(&of_whole) = self.parts.get(&whole.0)
            && let Some(of_part) = self.parts.get_mut(&part.0)
        {
            of_part.inherit(&of_whole);
        }
        let path = self.tree.path(self.members[part.index()].leaf);
        let standing = self.standing(part.0, now.0);
        self.wait(part.0, &path, &standing, worth(element));
    }

    /// An element appears whose polls someone else sees to: what they show teaches as
    /// any other's, but it is never due here, and takes nothing of the budget.
    pub(super) fn watch(&mut self, id: ElementId, element: Element, groups: &Groups, now: Time) {
        self.set_aside();
        if let Some(group) = element.group {
            self.make_node(groups, group);
        }
        let leaf = self.leaf_of(groups, element.group);
        self.enter_watched((id, element), leaf, now);
        let path = self.tree.path(leaf);
        self.wind(&path, now.0);
        self.members[id.index()].polled = self.tree.nodes[leaf as usize].clock.shows;
    }

    /// What polling an element is worth now for an objective, but for its weight and
    /// cost.
    pub(super) fn worth(&self, id: ElementId, objective: Objective, now: Time) -> Option<f64> {
        let member = self.members.get(id.index()).filter(|m| m.is_here)?;
        let standing = self.standing_at(id.0, member, now.0);
        Some(blended_value(standing.of_part(), Blend::only(objective), standing.felt()).value)
    }

    /// What polling an element is worth now, weight and cost included.
    pub(super) fn worth_of(&mut self, id: ElementId, element: Element, now: Time) -> Option<f64> {
        let member = self.members.get(id.index()).filter(|m| m.is_here)?;
        let path = self.tree.path(member.leaf);
        self.wind(&path, now.0);
        let standing = self.standing(id.0, now.0);
        Some(worth(element) * self.worth_now(id.0, &path, &standing).value)
    }

    pub(super) fn contains(&self, id: ElementId) -> bool {
        let member = self.members.get(id.index());
        member.is_some_and(|member| member.is_here)
    }

    pub(super) fn is_watched(&self, id: ElementId) -> bool {
        let member = self.members.get(id.index());
        member.is_some_and(|member| member.is_here && member.is_watched)
    }

    pub(super) fn remove(&mut self, id: ElementId, cost: f64) {
        self.set_aside();
        if let Some(member) = self.members.get_mut(id.index())
            && member.is_here
        {
            let is_watched = member.is_watched;
            if !member.key.is_nan() {
                self.n_waiting -= 1;
            }
            *member = Member::NONE;
            self.hinted.remove(&id.0);
            self.parts.remove(&id.0);
            if !is_watched {
                self.n_members -= 1;
                self.total_cost -= cost;
                self.settle_pace();
            }
        }
    }

    /// Gives out the element that [`first`](Self::first) named.
    pub(super) fn take(&mut self, index: u32) {
        self.taken = Some(index);
        self.n_waiting -= 1;
    }

    /// Gives out an element whose turn it is not, if it is there and waiting.
    pub(super) fn take_out_of_turn(&mut self, id: ElementId) -> bool {
        self.set_aside();
        match self.members.get_mut(id.index()) {
            Some(member) if member.is_here && !member.key.is_nan() => {
                member.key = f64::NAN;
                self.n_waiting -= 1;
                self.out_of_turn.insert(id.0);
                true
            }
            _ => false,
        }
    }

    /// A poll came to nothing: the element is due again at this time, and nothing
    /// was learned.
    pub(super) fn put_back(&mut self, id: ElementId, due: Time, now: Time) {
        self.set_aside();
        self.out_of_turn.remove(&id.0);
        let waits = |member: &&Member| member.is_here && !member.is_watched;
        let Some(member) = self.members.get(id.index()).filter(waits) else {
            return;
        };
        if member.key.is_nan() {
            self.n_waiting += 1;
        }
        let path = self.tree.path(member.leaf);
        self.wind(&path, now.0);
        let key = self.shown_at(&path, due.0);
        let member = &mut self.members[id.index()];
        (member.key, member.is_look, member.is_put) = (key, false, true);
        self.put(&path, id.0, key);
    }

    /// A group has opened or closed: as far as it has a node, nothing in it comes first
    /// while it is closed.
    pub(super) fn set_open(&mut self, group: GroupId, is_open: bool) {
        let node = self.nodes.get(group.number() as usize).copied();
        if let Some(node) = node.filter(|&node| node != NO_NODE) {
            self.set_aside();
            match is_open {
                true => self.closed.remove(&node),
                false => self.closed.insert(node),
            };
            self.tree.set_closed(node, !is_open);
        }
    }

    /// Whether anyone waits who may be polled.
    pub(super) fn has_someone(&mut self) -> bool {
        self.n_waiting > 0 && (self.closed.is_empty() || self.first_in_tree().is_some())
    }

    /// What a node's clock, at the end of a path that was [wound](Self::wind), will
    /// show at a time, if nothing more is seen.
    fn shown_at(&self, path: &Path, at: f64) -> f64 {
        path.iter().fold(at, |outer, &node| {
            self.tree.nodes[node as usize].clock.shows_at(outer)
        })
    }

    /// So much may be spent a day from now on. Nothing at all is a pause, in which
    /// nothing is worked out anew.
    pub(super) fn set_budget(&mut self, per_day: f64) {
        if per_day > 0.0 {
            self.budget = per_day;
            self.settle_pace();
        }
    }

    /// So many elements will be there before long, as far as is known: the budget has
    /// to do for them all.
    pub(super) fn expect(&mut self, n_elements: f64) {
        self.expected_cost = n_elements;
        self.settle_pace();
    }

    pub(super) fn polled_at(&self, id: ElementId) -> Option<f64> {
        let member = self.members.get(id.index())?;
        member.is_here.then_some(member.polled_at)
    }

    /// What is believed of an element's rate, in changes a day.
    pub(super) fn belief(&self, id: ElementId, now: Time) -> Option<Gamma> {
        let member = self.members.get(id.index())?;
        let leaf = &self.tree.nodes[member.leaf as usize];
        member
            .is_here
            .then(|| member.standing(leaf, 1.0, now.0).belief)
    }

    /// How likely a poll of an element is to find a change now.
    pub(super) fn chance(&self, id: ElementId, now: Time) -> Option<f64> {
        let member = self.members.get(id.index()).filter(|m| m.is_here)?;
        let path = self.tree.path(member.leaf);
        let standing = self.standing_at(id.0, member, now.0);
        Some(match self.hinting(id.0, &path, standing.belief) {
            None => standing.chance(),
            Some(_) => self.worth_now(id.0, &path, &standing).stale,
        })
    }

    pub(super) fn observe(
        &mut self,
        id: ElementId,
        elements: &Elements,
        outcome: Outcome,
        now: Time,
    ) {
        let index = id.0;
        let mut valued = None;
        // One that was shown by the poll of another has not been worth one itself, and says
        // nothing of the price.
        let was_chosen = self.taken == Some(index) || self.members[id.index()].key.is_nan();
        if self.taken == Some(index) {
            self.taken = None;
            self.n_waiting += 1;
            // Nothing has happened since it was chosen, but that time may have passed.
            let last = self.valued.take();
            valued = last.filter(|valued| valued.index == index && valued.at == now.0);
        } else {
            self.set_aside();
            let member = &self.members[id.index()];
            if member.key.is_nan() && !member.is_watched {
                self.n_waiting += 1;
            }
        }
        let is_watched = self.members[id.index()].is_watched;
        let path = self.tree.path(self.members[id.index()].leaf);
        let worth = worth(elements.get(id));
        let (standing, now_worth) = match valued {
            Some(valued) => (valued.standing, valued.worth),
            None => {
                self.wind(&path, now.0);
                let standing = self.standing(index, now.0);
                (standing, self.worth_now(index, &path, &standing))
            }
        };
        if !self.out_of_turn.remove(&index) && was_chosen && !is_watched {
            self.note_price(worth * now_worth.value, now.0);
        }

        let Standing {
            prior,
            belief,
            interval,
            ..
        } = standing;
        let changed = outcome.is_change();
        if let Some(parts) = self.parts.get_mut(&index) {
            let n_changed = match outcome {
                Outcome::Parts { n_changed } => f64::from(n_changed),
                _ => f64::from(u8::from(changed)),
            };
            parts.observe(n_changed, belief.mean() * interval);
        }
        let chance = now_worth.stale;
        let hinted = self.hinted.remove(&index);
        self.learn_from_hint(hinted, &path, &standing, changed);
        let has_been_polled = belief.per > prior.per;
        let of_shape = match has_been_polled {
            true => ShapeEvidence::of(prior, belief, interval, changed),
            false => None,
        };
        // An element's own change is no news of its group if it was to be expected.
        let mut expected = chance;
        let mut speed = 1.0;
        for (depth, &node) in path.iter().enumerate() {
            let node = &mut self.tree.nodes[node as usize];
            if changed {
                let likely = belief.mean() * interval / chance.max(1e-12);
                node.changes += likely.min(MOST_CHANGES);
            }
            node.days += interval;
            if depth <= SITE
                && let Some(evidence) = of_shape
            {
                node.likeness.observe(evidence);
            }
            if depth > 0 {
                node.clock.observe(changed, expected);
                expected *= node.clock.speed();
                speed *= node.clock.speed();
                node.speed = speed;
            }
        }
        let member = &mut self.members[id.index()];
        let elapsed = (now.0 - member.polled_at).max(SHORTEST);
        let belief = match (outcome, hinted) {
            // A poll made because of a change says nothing by finding it; when it
            // came does.
            (_, Some(hinted)) if changed => Gamma {
                shape: belief.shape + 1.0,
                per: belief.per + hinted.first,
            },
            // Ages are in days, intervals in the time of the leaf's clock.
            (Outcome::Changed { age: Some(age) }, None) => {
                let age = Some(Span(age.0 * interval / elapsed));
                updated(belief, interval, Outcome::Changed { age })
            }
            _ => updated(belief, interval, outcome),
        };
        member.changes = (belief.shape - prior.shape).max(0.0) as f32;
        member.days = (belief.per - prior.per).max(0.0) as f32;
        member.polled_at = now.0;
        (member.is_put, member.is_first) = (false, false);
        let leaf = path[path.len() - 1];
        member.polled = self.tree.nodes[leaf as usize].clock.shows;
        if is_watched {
            return;
        }
        if let Some(deadlines) = &mut self.deadlines {
            deadlines.push(index, now.0);
        }
        let standing = Standing {
            prior,
            belief,
            parts: self.parts_of(index),
            interval: SHORTEST,
            speed,
        };
        self.wait(index, &path, &standing, worth);
        // Where hints say when to poll, intervals are not chosen; and how many parts have
        // changed tells how fast it changes at any interval.
        if hinted.is_none() && !self.parts.contains_key(&index) {
            let last = PollEvidence {
                changed,
                chance,
                interval,
            };
            self.space_unevenly(index, &path, belief, last);
        }
        self.keep_up(leaf, elements, now);
    }

    /// Someone says that an element has changed.
    pub(super) fn hint(&mut self, id: ElementId, element: Element, now: Time) {
        let index = id.0;
        self.set_aside();
        match self.members.get(id.index()) {
            // One that is being polled is about to be seen anyway.
            Some(member) if member.is_here && !member.key.is_nan() => {}
            _ => return,
        }
        let path = self.tree.path(self.members[id.index()].leaf);
        self.wind(&path, now.0);
        if self.hint_records.len() < self.tree.nodes.len() {
            self.hint_records
                .resize(self.tree.nodes.len(), HintRecord::NONE);
        }
        let standing = self.standing(index, now.0);
        let hinted = self.hinted.entry(index).or_insert(Hinted {
            n_hints: 0,
            first: standing.interval,
        });
        hinted.n_hints += 1;
        // A hint overrules what was to be learned by an early poll.
        self.members[id.index()].is_sample = false;
        self.wait(index, &path, &standing, worth(element));
    }

    pub(super) fn price(&self) -> f64 {
        self.price
    }

    /// When the earliest due is, of those who wait in nodes that are open.
    pub(super) fn first_ready(&mut self) -> Option<f64> {
        self.set_aside();
        self.first_in_tree().map(|(due, _)| due)
    }

    /// When the earliest due is, of all who wait.
    pub(super) fn first_due(&mut self) -> Option<f64> {
        self.set_aside();
        let open = self.first_in_tree().map(|(due, _)| due);
        let members = &self.members;
        let closed = self.closed.iter().filter_map(|&node| {
            self.tree.first_inside(node, |index, key| {
                members[index as usize].key.to_bits() == key.to_bits()
            })
        });
        open.into_iter().chain(closed).reduce(f64::min)
    }

    /// When an element is due, if nothing more is seen.
    pub(super) fn due_at(&self, id: ElementId) -> Option<f64> {
        let member = self.members.get(id.index())?;
        if member.key.is_nan() {
            return None;
        }
        let path = self.tree.path(member.leaf);
        let due = path[1..].iter().rev().fold(member.key, |key, &node| {
            self.tree.nodes[node as usize].clock.when(key)
        });
        Some(due)
    }

    fn first_in_tree(&mut self) -> Option<(f64, u32)> {
        let members = &self.members;
        self.tree
            .first(|index, key| members[index as usize].key.to_bits() == key.to_bits())
    }

    /// Notes that the element given out last is not waiting, before anything else
    /// is done to the tree.
    fn set_aside(&mut self) {
        self.valued = None;
        if let Some(index) = self.taken.take() {
            self.members[index as usize].key = f64::NAN;
        }
    }

    /// Spaces the next two polls of an element unevenly, if the last one taught
    /// nothing.
    ///
    /// An element that is surely stale by its next poll shows a change every time,
    /// whether it changes twice between polls or a hundred times, and it matters
    /// which: one is worth its polls, the other is not. So its next poll comes
    /// early, when it is most telling, and the one after later by as much. That
    /// costs next to nothing, for what such an element gains from a poll it has
    /// gained long before the next.
    fn space_unevenly(&mut self, index: u32, path: &Path, belief: Gamma, last: PollEvidence) {
        let leaf = path[path.len() - 1];
        let now = self.tree.nodes[leaf as usize].clock.shows;
        let member = &mut self.members[index as usize];
        let interval = member.key - now;
        if member.is_sample {
            member.is_sample = false;
            // What was learned that way may have been that it is slow.
            if !last.changed {
                return;
            }
            member.key += (interval - last.interval).max(0.0);
        } else {
            let is_known = belief.shape > KNOWN;
            if !last.changed || last.chance < SURE || is_known {
                return;
            }
            let telling = belief.per * ((1.0 - TELLING).powf(-1.0 / belief.shape) - 1.0);
            if telling > 0.5 * interval {
                return;
            }
            member.is_sample = true;
            member.is_look = false;
            member.key = now + telling;
        }
        let key = member.key;
        self.put(path, index, key);
    }

    /// Works out the due times of a leaf anew if what they went by has moved, so
    /// that elements polled long ago follow what their group has learned since.
    /// Those never polled stay where they are: the first round is for everyone.
    fn keep_up(&mut self, leaf: NodeId, elements: &Elements, now: Time) {
        let n_entries = self.tree.n_entries(leaf);
        let node = &mut self.tree.nodes[leaf as usize];
        node.n_polls += 1;
        if ANEW_PER_POLL * (node.n_polls as usize) < n_entries {
            return;
        }
        let basis = node.rate * node.speed / self.price;
        let has_moved = basis > node.basis * MOVED || basis * MOVED < node.basis;
        if has_moved || node.basis.is_nan() {
            node.basis = basis;
            node.n_polls = 0;
        }
        if !has_moved {
            return;
        }
        let path = self.tree.path(leaf);
        let mut tree = std::mem::replace(&mut self.tree, Tree::new(1.0, 0.0));
        tree.put_anew(leaf, |node, index, due| {
            let member = self.members[index as usize];
            if member.key.to_bits() != due.to_bits() {
                return None;
            }
            if member.is_sample || member.is_put || member.is_first {
                return Some(due);
            }
            let standing = member.standing(node, self.parts_of(index), now.0);
            let worth = worth(elements.get(ElementId(index)));
            let before = (!member.is_look).then_some(due - member.polled);
            let (key, is_look) = self.due(index, &path, node, (&standing, worth), before);
            let member = &mut self.members[index as usize];
            (member.key, member.is_look) = (key, is_look);
            Some(key)
        });
        self.tree = tree;
    }

    /// Makes room for an element in a leaf.
    fn enter(&mut self, (id, element): (ElementId, Element), leaf: NodeId, now: Time) {
        self.enter_watched((id, element), leaf, now);
        self.members[id.index()].is_watched = false;
        self.n_members += 1;
        self.n_waiting += 1;
    }

    /// Makes room for an element in a leaf that is only watched.
    fn enter_watched(&mut self, (id, element): (ElementId, Element), leaf: NodeId, now: Time) {
        if id.index() >= self.members.len() {
            self.members.resize(id.index() + 1, Member::NONE);
        }
        if element.parts > 1 {
            self.parts.insert(id.0, Parts::new(element.parts));
        }
        self.members[id.index()] = Member {
            polled: now.0,
            polled_at: now.0,
            leaf,
            is_here: true,
            is_watched: true,
            ..Member::NONE
        };
    }

    /// Works out what follows from the budget and the elements there are.
    fn settle_pace(&mut self) {
        self.valued = None;
        let total = self.total_cost.max(self.expected_cost);
        // Nobody yet, or only such as are watched.
        self.mean_interval = if total > 0.0 { total } else { 1.0 } / self.budget;
        if self.blend.freshness > 0.0 {
            self.blend.age = AGE_SHARE / self.mean_interval;
        }
        self.pricing.mind(self.mean_interval);
    }

    /// Lets the clocks of a path run until now, and brings the rates that are
    /// usual there up to date.
    fn wind(&mut self, path: &Path, now: f64) {
        let mut outer = now;
        let mut usual = 1.0 / self.mean_interval;
        let mut weight = VAGUE_CHANGES;
        let mut shape = 0.0;
        let mut speed = 1.0;
        for (depth, &node) in path.iter().enumerate() {
            let node = &mut self.tree.nodes[node as usize];
            node.clock.run_to(outer);
            outer = node.clock.shows;
            speed *= node.clock.speed();
            node.speed = speed;
            node.rate = (node.changes + weight) / (node.days + weight / usual);
            (usual, weight) = (node.rate, RATE_CHANGES);
            if depth <= SITE {
                shape = node.likeness.shape();
            }
            node.shape = shape;
        }
    }

    /// What is believed of an element whose path was [wound](Self::wind).
    fn standing(&self, index: u32, now: f64) -> Standing {
        let member = &self.members[index as usize];
        let leaf = &self.tree.nodes[member.leaf as usize];
        member.standing(leaf, self.parts_of(index), now)
    }

    /// The same if its path was not wound: its clocks are read, and the rate and the shape
    /// of its group are those of the last poll there.
    fn standing_at(&self, index: u32, member: &Member, now: f64) -> Standing {
        let leaf = &self.tree.nodes[member.leaf as usize];
        let (shows, speed) = self.tree.read_at(member.leaf, now);
        Standing {
            interval: (shows - member.polled).max(SHORTEST),
            speed,
            ..member.standing(leaf, self.parts_of(index), now)
        }
    }

    fn parts_of(&self, index: u32) -> f64 {
        match self.parts.is_empty() {
            true => 1.0,
            false => self.parts.get(&index).map_or(1.0, Parts::in_changes),
        }
    }

    /// Puts an element where it is due, or where it is to be looked at again.
    fn wait(&mut self, index: u32, path: &Path, standing: &Standing, worth: f64) {
        let leaf = &self.tree.nodes[path[path.len() - 1] as usize];
        let (key, is_look) = self.due(index, path, leaf, (standing, worth), None);
        let member = &mut self.members[index as usize];
        (member.key, member.is_look) = (key, is_look);
        self.put(path, index, key);
    }

    /// Puts an element where it is due on its leaf's clock.
    fn put(&mut self, path: &Path, index: u32, key: f64) {
        self.tree.put(path, index, key);
        let leaf = path[path.len() - 1];
        if self.tree.is_cluttered(leaf) {
            let members = &self.members;
            self.tree.put_anew(leaf, |_, index, key| {
                let holds = members[index as usize].key.to_bits() == key.to_bits();
                holds.then_some(key)
            });
        }
    }

    /// When an element is due on its leaf's clock, or to be looked at again. If it was due
    /// `before` so long after its last poll, it will not be long before or after that.
    fn due(
        &self,
        index: u32,
        path: &Path,
        leaf: &Node,
        (standing, worth): (&Standing, f64),
        before: Option<f64>,
    ) -> (f64, bool) {
        let waited = standing.interval;
        let longest = LOOK_AGAIN * self.mean_interval + waited;
        let wanted = self.price / worth;
        if wanted == f64::INFINITY {
            return (f64::INFINITY, false);
        }
        // A wait is felt to be so long after so much of it, near enough: whoever is due is
        // valued once more. Where there are hints, it is by the clock alone.
        let (interval, stretch) = match self.hinting(index, path, standing.belief) {
            None => {
                let belief = standing.of_part();
                let interval = match before {
                    None => blended_value_reaches(belief, self.blend, wanted, longest),
                    Some(before) => {
                        let near = before * standing.stretch(before);
                        blended_value_reaches_near(belief, self.blend, wanted, (near, longest))
                    }
                };
                (interval, standing.stretch(interval))
            }
            Some((hinting, n_hints)) => {
                let aged =
                    blended_value_reaches(standing.of_part(), self.age_alone(), wanted, longest);
                let interval = hinting.reaches(wanted, n_hints, (waited, aged.max(waited)));
                (interval, 1.0)
            }
        };
        let due = leaf.clock.shows + interval / stretch - waited;
        (due, interval >= longest || self.hinted.contains_key(&index))
    }

    /// What hints mean for an element, and how many there were since its last poll;
    /// `None` if hints mean nothing.
    fn hinting(&self, index: u32, path: &Path, belief: Gamma) -> Option<(Hinting, u32)> {
        if self.hint_records.is_empty() {
            return None;
        }
        let node = path.get(1).unwrap_or(&ROOT);
        let hinting = self
            .hint_records
            .get(*node as usize)?
            .hinting(belief.mean())?;
        let n_hints = self.hinted.get(&index).map_or(0, |hinted| hinted.n_hints);
        Some((hinting, n_hints))
    }

    /// What polling an element is worth now, but for its weight and cost.
    fn worth_now(&self, index: u32, path: &Path, standing: &Standing) -> Worth {
        let interval = standing.interval;
        match self.hinting(index, path, standing.belief) {
            None => {
                let felt = standing.felt();
                let worth = blended_value(standing.of_part(), self.blend, felt);
                match felt == interval && standing.parts == 1.0 {
                    true => worth,
                    false => Worth {
                        stale: standing.expected(),
                        ..worth
                    },
                }
            }
            Some((hinting, n_hints)) => {
                let aged = blended_value(standing.of_part(), self.age_alone(), interval);
                Worth {
                    value: hinting.value(interval, n_hints) + aged.value,
                    stale: 1.0 - hinting.fresh(interval, n_hints),
                    ..aged
                }
            }
        }
    }

    fn age_alone(&self) -> Blend {
        Blend {
            freshness: 0.0,
            ..self.blend
        }
    }

    /// Takes in what a poll says of hints.
    fn learn_from_hint(
        &mut self,
        hinted: Option<Hinted>,
        path: &Path,
        standing: &Standing,
        changed: bool,
    ) {
        let node = *path.get(1).unwrap_or(&ROOT) as usize;
        let Some(hint_records) = self.hint_records.get_mut(node) else {
            return;
        };
        let Gamma { shape, per } = standing.belief;
        match hinted {
            Some(hinted) => {
                let fresh = match hint_records.hinting(standing.belief.mean()) {
                    Some(hinting) => hinting.fresh(standing.interval, 0),
                    None => (-shape * (standing.interval / per).ln_1p()).exp(),
                };
                hint_records.observe_hinted(changed, hinted.n_hints, fresh);
            }
            None => {
                let chance = -(-shape * (standing.interval / per).ln_1p()).exp_m1();
                hint_records.observe_unhinted(changed, chance);
            }
        }
    }
}

/// Whether a leaf is inside a node that is closed.
fn is_closed(tree: &Tree, closed: &BTreeSet<NodeId>, leaf: NodeId) -> bool {
    !closed.is_empty() && tree.path(leaf).iter().any(|node| closed.contains(node))
}

/// What an element's freshness is worth per cost of a poll.
fn worth(element: Element) -> f64 {
    element.weight.0 / element.cost.0
}
