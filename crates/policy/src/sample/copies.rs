//! The elements that batches draw from, by site.

use rand::RngExt;

use super::Unit;
use crate::{Element, ElementId, Groups, Time};

/// What is kept of an element: 36 bytes with its place in the site.
#[derive(Debug, Clone, Copy)]
struct Copy {
    site: u32,
    /// Where it is among the site's members.
    place: u32,
    weight: f64,
    polled_at: Time,
    /// Orders those polled at the same time, which a whole batch is.
    turn: u64,
}

/// The site of an element that is not there.
const NOWHERE: u32 = u32::MAX;

/// A site, and what the batch knows of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Site {
    /// Those taken in this batch come first.
    members: Vec<u32>,
    n_taken: usize,
    /// The rest of the members are in the order of download.
    is_sorted: bool,
    /// How many of those taken were samples, how many of these had changed, and
    /// the weight of those that had.
    pub(super) n_samples: u32,
    pub(super) n_changed: u32,
    pub(super) changed_weight: f64,
    pub(super) n_downloads: u32,
    /// Orders sites that rank alike.
    pub(super) lot: u32,
    /// The number of the last batch that sampled it.
    pub(super) sampled_in: u32,
}

impl Site {
    /// How many elements it has.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// How many of them the batch may still take.
    pub(super) fn n_left(&self) -> usize {
        self.members.len() - self.n_taken
    }

    /// Where the share of all its elements lies, within so many standard
    /// deviations: Wilson's interval, which does not shrink to a point where all
    /// samples agree.
    ///
    /// ```text
    /// (c + z²/2 ± z √(c (s − c)/s + z²/4)) / (s + z²)
    /// ```
    pub(super) fn interval(&self, deviations: f64) -> (f64, f64) {
        let (c, s) = (f64::from(self.n_changed), f64::from(self.n_samples));
        let square = deviations * deviations;
        let half = deviations * (c * (s - c) / s.max(1.0) + 0.25 * square).sqrt();
        let (middle, whole) = (c + 0.5 * square, s + square);
        ((middle - half) / whole, (middle + half) / whole)
    }
}

/// All elements, by number and by site.
#[derive(Debug, Clone)]
pub(super) struct Copies {
    copies: Vec<Copy>,
    n_copies: usize,
    /// Polls and arrivals so far.
    n_turns: u64,
    /// By the number of the group plus one; those without group come first.
    pub(super) sites: Vec<Site>,
    /// The site of each group.
    sites_of_groups: Vec<u32>,
}

impl Copies {
    pub(super) fn new(groups: &Groups, unit: Unit) -> Self {
        let numbers = 0..groups.len() as u32;
        let sites_of_groups: Vec<u32> = numbers
            .filter_map(crate::GroupId::new)
            .map(|group| match unit {
                Unit::Outermost => groups.outermost(group).number() + 1,
                Unit::Innermost => group.number() + 1,
            })
            .collect();
        Self {
            copies: Vec::new(),
            n_copies: 0,
            n_turns: 0,
            sites: vec![Site::default(); sites_of_groups.len() + 1],
            sites_of_groups,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.n_copies
    }

    pub(super) fn add(&mut self, id: ElementId, element: &Element, now: Time) {
        self.remove(id);
        let site = element.group.map_or(0, |group| {
            let number = group.number();
            let site = self.sites_of_groups.get(number as usize);
            site.copied().unwrap_or(number + 1)
        });
        if self.sites.len() <= site as usize {
            self.sites.resize(site as usize + 1, Site::default());
        }
        if self.copies.len() <= id.index() {
            let nothing = Copy {
                site: NOWHERE,
                place: 0,
                weight: 0.0,
                polled_at: Time::START,
                turn: 0,
            };
            self.copies.resize(id.index() + 1, nothing);
        }
        self.n_turns += 1;
        let members = &mut self.sites[site as usize].members;
        self.copies[id.index()] = Copy {
            site,
            place: members.len() as u32,
            weight: element.weight.0,
            polled_at: now,
            turn: self.n_turns,
        };
        members.push(id.0);
        self.sites[site as usize].is_sorted = false;
        self.n_copies += 1;
    }

    pub(super) fn remove(&mut self, id: ElementId) {
        let Some(site) = self.site(id.0) else {
            return;
        };
        let place = self.copies[id.index()].place as usize;
        let n_taken = self.sites[site].n_taken;
        // The taken ones stay in front: the last of them fills the gap, and the
        // last of all fills theirs.
        let gap = if place < n_taken {
            self.swap(site, place, n_taken - 1);
            self.sites[site].n_taken -= 1;
            n_taken - 1
        } else {
            place
        };
        let last = self.sites[site].len() - 1;
        self.swap(site, gap, last);
        let site = &mut self.sites[site];
        site.members.pop();
        site.is_sorted = false;
        self.copies[id.index()].site = NOWHERE;
        self.n_copies -= 1;
    }

    /// The site of an element that is there.
    pub(super) fn site(&self, id: u32) -> Option<usize> {
        let site = self.copies.get(id as usize)?.site;
        (site != NOWHERE).then_some(site as usize)
    }

    pub(super) fn weight(&self, id: u32) -> f64 {
        self.copies[id as usize].weight
    }

    pub(super) fn polled_at(&self, id: u32) -> Time {
        self.copies[id as usize].polled_at
    }

    /// An element was polled.
    pub(super) fn poll(&mut self, id: u32, now: Time) {
        self.n_turns += 1;
        let copy = &mut self.copies[id as usize];
        (copy.polled_at, copy.turn) = (now, self.n_turns);
    }

    /// Lower the longer ago an element was polled, or came.
    pub(super) fn turn(&self, id: u32) -> f64 {
        self.copies[id as usize].turn as f64
    }

    /// Those that are there, by number.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.copies.len() as u32).filter(|&id| self.site(id).is_some())
    }

    /// Nobody is taken any more.
    pub(super) fn release(&mut self, rng: &mut dyn rand::Rng) {
        for site in &mut self.sites {
            site.n_taken = 0;
            site.is_sorted = false;
            site.n_samples = 0;
            site.n_changed = 0;
            site.changed_weight = 0.0;
            site.n_downloads = 0;
            if !site.members.is_empty() {
                site.lot = rng.random();
            }
        }
    }

    /// Takes an element, unless it is gone or taken.
    pub(super) fn take(&mut self, id: u32) -> bool {
        let Some(site) = self.site(id) else {
            return false;
        };
        let place = self.copies[id as usize].place as usize;
        let n_taken = self.sites[site].n_taken;
        if place < n_taken {
            return false;
        }
        if place > n_taken {
            self.swap(site, place, n_taken);
            self.sites[site].is_sorted = false;
        }
        self.sites[site].n_taken += 1;
        true
    }

    /// Takes any element of a site.
    pub(super) fn draw(&mut self, site: usize, rng: &mut dyn rand::Rng) -> Option<u32> {
        let (n_taken, len) = (self.sites[site].n_taken, self.sites[site].len());
        if n_taken == len {
            return None;
        }
        let place = rng.random_range(n_taken..len);
        let id = self.sites[site].members[place];
        self.take(id).then_some(id)
    }

    /// Takes the heaviest element of a site, of equals the one polled longest ago.
    pub(super) fn take_first(&mut self, site: usize) -> Option<u32> {
        let id = self.first(site)?;
        self.take(id).then_some(id)
    }

    /// The element that would be taken first.
    pub(super) fn first(&mut self, site: usize) -> Option<u32> {
        if !self.sites[site].is_sorted {
            self.sort(site);
        }
        let site = &self.sites[site];
        site.members.get(site.n_taken).copied()
    }

    /// The weight of the heaviest element that a site has left.
    pub(super) fn heaviest(&self, site: usize) -> f64 {
        let site = &self.sites[site];
        let left = &site.members[site.n_taken..];
        left.iter().map(|&id| self.weight(id)).fold(0.0, f64::max)
    }

    fn sort(&mut self, site: usize) {
        let site = &mut self.sites[site];
        let copies = &mut self.copies;
        let left = &mut site.members[site.n_taken..];
        left.sort_unstable_by(|&one, &other| {
            let (a, b) = (&copies[one as usize], &copies[other as usize]);
            b.weight.total_cmp(&a.weight).then(a.turn.cmp(&b.turn))
        });
        for (place, &id) in (site.n_taken as u32..).zip(left.iter()) {
            copies[id as usize].place = place;
        }
        site.is_sorted = true;
    }

    fn swap(&mut self, site: usize, one: usize, other: usize) {
        let members = &mut self.sites[site].members;
        members.swap(one, other);
        self.copies[members[one] as usize].place = one as u32;
        self.copies[members[other] as usize].place = other as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(n_changed: u32, n_samples: u32) -> Site {
        Site {
            n_changed,
            n_samples,
            ..Site::default()
        }
    }

    #[test]
    fn intervals_are_those_of_wilson() {
        // From the textbook form, with p = c/s: (p + z²/2s ± z√(p(1 − p)/s + z²/4s²))
        // / (1 + z²/s).
        let expected = [
            (7, 10, 0.441_699_796, 0.873_123_416),
            (2, 10, 0.068_557_988, 0.459_207_194),
            (0, 10, 0.0, 0.212_941_970),
            (10, 10, 0.787_058_030, 1.0),
        ];
        for (n_changed, n_samples, low, high) in expected {
            let interval = site(n_changed, n_samples).interval(1.644_853_627);
            let near = |one: f64, other: f64| (one - other).abs() < 1e-8;
            assert!(
                near(interval.0, low) && near(interval.1, high),
                "{n_changed} of {n_samples}: {interval:?}"
            );
        }
    }

    #[test]
    fn a_site_without_samples_may_have_any_share() {
        assert_eq!(site(0, 0).interval(1.6), (0.0, 1.0));
    }

    #[test]
    fn an_element_takes_little_memory() {
        assert_eq!(size_of::<Copy>() + size_of::<u32>(), 36);
    }
}
