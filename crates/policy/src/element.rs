//! What is known of an element before any poll: how much its freshness
//! matters, what a poll of it costs, and which limit it falls under.

use std::num::NonZeroU32;

use crate::Error;

/// How much an element's freshness matters, relative to others.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Weight(pub(crate) f64);

impl Weight {
    /// The weight of an element about which nothing was said.
    pub const ONE: Self = Self(1.0);

    /// A weight, zero or more.
    ///
    /// # Errors
    /// If the number is negative, infinite or not a number.
    pub fn new(weight: f64) -> Result<Self, Error> {
        if weight >= 0.0 && weight.is_finite() {
            Ok(Self(weight.abs()))
        } else {
            Err(Error::Weight(weight))
        }
    }

    /// The weight as a number.
    pub fn as_f64(self) -> f64 {
        self.0
    }
}

/// What one poll of an element spends of the budget.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Cost(pub(crate) f64);

impl Cost {
    /// The cost of a poll about which nothing was said.
    pub const ONE: Self = Self(1.0);

    /// A cost, above zero.
    ///
    /// # Errors
    /// If the number is not above zero, infinite or not a number.
    pub fn new(cost: f64) -> Result<Self, Error> {
        if cost > 0.0 && cost.is_finite() {
            Ok(Self(cost))
        } else {
            Err(Error::Cost(cost))
        }
    }

    /// The cost as a number.
    pub fn as_f64(self) -> f64 {
        self.0
    }
}

/// The number of a group: of elements that share a limit, such as a host.
///
/// A number that is never zero inside, so that "no group" costs no memory: with a
/// hundred million elements that is half a gigabyte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(NonZeroU32);

impl GroupId {
    /// Group number so-and-so; `None` for 2³² − 1, which is one too many.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::MIN.checked_add(number).map(Self)
    }

    /// The number it was made from.
    pub fn number(self) -> u32 {
        self.0.get() - 1
    }
}

/// The groups there are, as a tree: a host, its directories, theirs.
///
/// Limits key on the outermost group of an element, what is learned on all of
/// them.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    parents: Vec<Option<GroupId>>,
}

impl Groups {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new group inside another, or outermost; groups are numbered as they come.
    ///
    /// # Panics
    ///
    /// If there are 2³² − 1 groups already, or no such parent.
    pub fn add(&mut self, parent: Option<GroupId>) -> GroupId {
        assert!(parent.is_none_or(|parent| (parent.number() as usize) < self.parents.len()));
        let number = u32::try_from(self.parents.len()).ok();
        let group = number
            .and_then(GroupId::new)
            .expect("fewer than 2³² − 1 groups");
        self.parents.push(parent);
        group
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    /// The group that this one is in.
    pub fn parent(&self, group: GroupId) -> Option<GroupId> {
        self.parents[group.number() as usize]
    }

    /// The group and all that it is in, innermost first.
    pub fn path(&self, group: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        std::iter::successors(Some(group), |&inner| self.parent(inner))
    }

    /// The outermost group that this one is in: the one that limits key on.
    pub fn outermost(&self, group: GroupId) -> GroupId {
        self.path(group).last().unwrap_or(group)
    }
}

/// The number of an element, dense from zero: what a scheduler knows it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId(pub u32);

impl ElementId {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a scheduler is told of an element when it appears.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Element {
    /// How much its freshness matters.
    pub weight: Weight,
    /// What a poll of it costs.
    pub cost: Cost,
    /// The innermost group that it is in.
    pub group: Option<GroupId>,
    /// How many parts it has that change each by itself, as the rows of a block: it is as
    /// fresh as the share of them that is. None is one.
    pub parts: u32,
}

impl Default for Element {
    /// One of weight and cost one, in no group, and of one part.
    fn default() -> Self {
        Self {
            weight: Weight::ONE,
            cost: Cost::ONE,
            group: None,
            parts: 1,
        }
    }
}

/// The elements there are, by number; what all have in common takes no memory.
#[derive(Debug, Clone, Default)]
pub struct Elements {
    n: usize,
    weights: Vec<Weight>,
    costs: Vec<Cost>,
    groups: Vec<Option<GroupId>>,
    parts: Vec<u32>,
}

impl Elements {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Elements by columns, each of which may be empty.
    ///
    /// # Panics
    ///
    /// If a column that is not empty is not of this length.
    pub fn from_columns(
        n: usize,
        weights: Vec<Weight>,
        costs: Vec<Cost>,
        groups: Vec<Option<GroupId>>,
    ) -> Self {
        for len in [weights.len(), costs.len(), groups.len()] {
            assert!(len == 0 || len == n, "a value for every element");
        }
        Self {
            n,
            weights,
            costs,
            groups,
            parts: Vec::new(),
        }
    }

    /// How many numbers are given out.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// An element; one that was never set is of weight and cost one, in no group, and of
    /// one part.
    pub fn get(&self, id: ElementId) -> Element {
        let index = id.index();
        Element {
            weight: self.weights.get(index).copied().unwrap_or(Weight::ONE),
            cost: self.costs.get(index).copied().unwrap_or(Cost::ONE),
            group: self.groups.get(index).copied().flatten(),
            parts: self.parts.get(index).copied().unwrap_or(1),
        }
    }

    /// Says what an element is.
    pub fn set(&mut self, id: ElementId, element: Element) {
        fn put<T: Copy + PartialEq>(column: &mut Vec<T>, index: usize, value: T, usual: T) {
            if index >= column.len() && value != usual {
                column.resize(index + 1, usual);
            }
            if let Some(place) = column.get_mut(index) {
                *place = value;
            }
        }
        let index = id.index();
        put(&mut self.weights, index, element.weight, Weight::ONE);
        put(&mut self.costs, index, element.cost, Cost::ONE);
        put(&mut self.groups, index, element.group, None);
        put(&mut self.parts, index, element.parts, 1);
        self.n = self.n.max(index + 1);
    }
}

/// The elements that are there, of those that are known.
#[derive(Debug, Clone, Copy)]
pub struct Present<'a> {
    elements: &'a Elements,
    ids: Option<&'a [ElementId]>,
}

impl<'a> Present<'a> {
    /// All of them.
    pub fn all(elements: &'a Elements) -> Self {
        Self {
            elements,
            ids: None,
        }
    }

    /// Those with these numbers.
    pub fn some(elements: &'a Elements, ids: &'a [ElementId]) -> Self {
        Self {
            elements,
            ids: Some(ids),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ids.map_or(self.elements.n, <[ElementId]>::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their numbers.
    pub fn ids(&self) -> impl Iterator<Item = ElementId> + 'a {
        let ids = self.ids;
        (0..self.len() as u32).map(move |position| match ids {
            Some(ids) => ids[position as usize],
            None => ElementId(position),
        })
    }

    /// They, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (ElementId, Element)> + 'a {
        let elements = self.elements;
        self.ids().map(move |id| (id, elements.get(id)))
    }

    /// They by themselves.
    pub fn to_elements(&self) -> Elements {
        if self.ids.is_none() {
            return self.elements.clone();
        }
        let mut elements = Elements::new();
        for (id, element) in self.iter() {
            elements.set(id, element);
        }
        elements
    }
}

impl FromIterator<Element> for Elements {
    fn from_iter<I: IntoIterator<Item = Element>>(elements: I) -> Self {
        let mut all = Self::new();
        for (index, element) in (0..).zip(elements) {
            all.set(ElementId(index), element);
        }
        all
    }
}
