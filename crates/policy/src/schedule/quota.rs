//! A limit that a server sets: in no span of some length more than so many requests.

use std::collections::VecDeque;

use super::memory::{numbers_from_slice, numbers_to_bytes};
use crate::{Span, Time};

/// When a quota allows the next request.
///
/// The server counts requests when they arrive, on the way to which each takes a while
/// of its own. So a request counts from when it is begun until a whole span after it
/// was answered: whenever the server saw it, it was not later. Requests come as evenly
/// as the quota says, since rows are stalest when they are not asked for.
#[derive(Debug, Clone)]
pub struct Quota {
    n_requests: u32,
    span: f64,
    /// When requests ended, in parts: when the first and the last of each part did, and
    /// how many; the latest last.
    ended: VecDeque<Part>,
    n_under_way: u32,
    /// When the next is due if they are to come evenly.
    due: f64,
}

#[derive(Debug, Clone, Copy)]
struct Part {
    first: f64,
    last: f64,
    n: u32,
}

/// Up to so many requests are counted one by one; of more, those that ended within this
/// share of the span count as if they had all ended with the last of them.
const MOST_PARTS: usize = 64;
/// A request that comes late is made up for by no more than this, in days: ten
/// milliseconds.
const SLACK: f64 = 0.01 / 86_400.0;
/// What a span may lose by rounding, on either side, in days: a millisecond.
const ROUNDING: f64 = 0.001 / 86_400.0;

impl Quota {
    /// So many requests, at the most, in any span of this length; one at the least.
    pub fn new(n_requests: u32, span: Span) -> Self {
        Self {
            n_requests: n_requests.max(1),
            span: span.0,
            ended: VecDeque::new(),
            n_under_way: 0,
            due: f64::NEG_INFINITY,
        }
    }

    /// How many requests there may be in a span.
    pub fn n_requests(&self) -> u32 {
        self.n_requests
    }

    /// The time between two requests that come evenly.
    pub fn gap(&self) -> Span {
        Span(self.span / f64::from(self.n_requests))
    }

    /// When the next request may be made, if none is made before: now, if it may be made
    /// now, and [`Time::NEVER`] until one ends, if there are as many as there may be.
    pub fn next_at(&self, now: Time) -> Time {
        let mut n = self.n_under_way;
        if n >= self.n_requests {
            return Time::NEVER;
        }
        let mut free_at = f64::NEG_INFINITY;
        for part in self.ended.iter().rev() {
            n = n.saturating_add(part.n);
            if n >= self.n_requests {
                free_at = part.last + self.span + ROUNDING;
                break;
            }
        }
        Time(now.0.max(free_at).max(self.due))
    }

    /// A request is made.
    pub fn begin(&mut self, now: Time) {
        self.n_under_way += 1;
        let gap = self.gap().0;
        self.due = self.due.max(now.0 - SLACK) + gap;
    }

    /// A request was answered, or will not be.
    pub fn end(&mut self, now: Time) {
        self.n_under_way = self.n_under_way.saturating_sub(1);
        self.note(now.0, 1);
    }

    fn note(&mut self, now: f64, n: u32) {
        while let Some(first) = self.ended.front()
            && first.last + self.span + ROUNDING < now
        {
            self.ended.pop_front();
        }
        let is_many = self.n_requests as usize > MOST_PARTS;
        let width = self.span / MOST_PARTS as f64;
        match self.ended.back_mut() {
            Some(part) if is_many && now - part.first < width => {
                part.last = part.last.max(now);
                part.n = part.n.saturating_add(n);
            }
            _ => self.ended.push_back(Part {
                first: now,
                last: now,
                n,
            }),
        }
    }

    /// What is to be remembered of it.
    pub fn remember(&self) -> Vec<u8> {
        let mut numbers = vec![
            f64::from(self.n_under_way),
            if self.due.is_finite() { self.due } else { 0.0 },
        ];
        for part in &self.ended {
            numbers.extend([part.first, part.last, f64::from(part.n)]);
        }
        numbers_to_bytes(&numbers)
    }

    /// Takes in what was remembered. Requests that were under way may have arrived at
    /// any time until now.
    pub fn recall(&mut self, bytes: &[u8], now: Time) {
        let numbers = numbers_from_slice(bytes).unwrap_or_default();
        let Some(([n_under_way, due], parts)) = numbers.split_first_chunk::<2>() else {
            return;
        };
        // A moment that is yet to come was written by a clock that was wrong.
        self.due = due.min(now.0 + self.gap().0);
        self.ended = parts
            .chunks_exact(3)
            .map(|part| Part {
                first: part[0].min(now.0),
                last: part[1].min(now.0),
                n: part[2] as u32,
            })
            .collect();
        if *n_under_way > 0.0 {
            self.note(now.0, *n_under_way as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    const SECOND: f64 = 1.0 / 86_400.0;

    fn span(seconds: f64) -> Span {
        Span::days(seconds * SECOND).unwrap()
    }

    /// Asks as fast as it may; a request takes up to `slow` seconds, and arrives at any
    /// time within them. Restarts now and then, with requests under way.
    fn arrivals(n: u32, length: f64, slow: f64, until: f64, seed: u64) -> Vec<f64> {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut quota = Quota::new(n, span(length));
        let mut arrived = Vec::new();
        let mut ends: Vec<f64> = Vec::new();
        let mut now = 0.0_f64;
        while now < until {
            ends.sort_by(f64::total_cmp);
            while ends.first().is_some_and(|end| *end <= now) {
                quota.end(Time(ends.remove(0) * SECOND));
            }
            let next = quota.next_at(Time(now * SECOND)).0 / SECOND;
            if next <= now + 1e-9 && ends.len() < 4 {
                quota.begin(Time(now * SECOND));
                let took = slow * rng.random::<f64>();
                arrived.push(now + took * rng.random::<f64>());
                ends.push(now + took);
                if rng.random::<f64>() < 0.05 {
                    let kept = quota.remember();
                    now += slow;
                    quota = Quota::new(n, span(length));
                    quota.recall(&kept, Time(now * SECOND));
                    ends.clear();
                }
                continue;
            }
            let end = ends.first().copied().unwrap_or(f64::INFINITY);
            now = if ends.len() < 4 { next.min(end) } else { end };
        }
        arrived.sort_by(f64::total_cmp);
        arrived
    }

    #[test]
    fn no_span_holds_more_whatever_the_way_and_however_often_it_is_killed() {
        for (n, length, slow) in [
            (10, 1.0, 0.01),
            (10, 1.0, 0.7),
            (3, 1.0, 2.0),
            (500, 60.0, 0.3),
            (1, 1.0, 0.1),
        ] {
            let arrived = arrivals(n, length, slow, 200.0 * length, 7);
            assert!(arrived.len() > 20, "{n} in {length}");
            for (at, &first) in arrived.iter().enumerate() {
                let within = arrived[at..].iter().take_while(|t| **t < first + length);
                assert!(within.count() <= n as usize, "{n} in {length}, slow {slow}");
            }
        }
    }

    #[test]
    fn requests_come_evenly_and_nearly_as_many_as_there_may_be() {
        let mut quota = Quota::new(10, span(1.0));
        let mut times = Vec::new();
        let mut now = Time(0.0);
        while now.0 < 100.0 * SECOND {
            now = quota.next_at(now);
            times.push(now.0 / SECOND);
            quota.begin(now);
            quota.end(Time(now.0 + 0.002 * SECOND));
        }
        assert!(times.len() >= 985, "{}", times.len());
        for pair in times.windows(2) {
            assert!(pair[1] - pair[0] > 0.05, "{pair:?}");
        }
    }
}
