//! When a search source may be asked: its quota, and pauses after refusals.

use super::{MILLIS_PER_DAY, SECOND};
use crate::schedule::Quota;
use crate::{Span, Time};

/// A source is not left alone for longer than a day after a refusal, unless its first
/// pause is longer: after a day anything may have been mended.
const LONGEST_PAUSE: Span = Span(1.0);
/// Doubling a pause more often than this gives more than the longest, whatever it was.
const MOST_DOUBLINGS: u32 = 40;
/// Where nothing is worth asking, it is thought over again after a fifth of a second: soon
/// enough for any quota, and seldom enough to cost nothing.
const IDLE: Span = Span(0.2 * SECOND);

/// A row that is out, and whose turn came while its source could not be asked, is looked
/// at again after ten seconds.
pub const LOOK_AGAIN: Span = Span(10.0 * SECOND);

/// Whether and when a source may be asked.
#[derive(Debug, Clone)]
pub(super) struct Access {
    quota: Option<Quota>,
    first_pause: Span,
    /// Refusals in a row.
    n_refusals: u32,
    refused_at: Option<Time>,
    paused_until: Option<Time>,
    /// A request was begun and has not left.
    pub(super) has_waiting: bool,
    /// There was nothing to ask; it is not thought over before then.
    idle_until: Option<Time>,
}

impl Access {
    pub(super) fn new(quota: Option<Quota>, first_pause: Span) -> Self {
        Self {
            quota,
            first_pause,
            n_refusals: 0,
            refused_at: None,
            paused_until: None,
            has_waiting: false,
            idle_until: None,
        }
    }

    /// Until when it is left alone; now, if it is not.
    pub(super) fn paused_until(&self, now: Time) -> Time {
        self.paused_until.map_or(now, |until| later(until, now))
    }

    /// When its quota allows a request, and it is not left alone.
    pub(super) fn allowed_at(&self, now: Time) -> Time {
        let paused_until = self.paused_until(now);
        match &self.quota {
            Some(quota) => later(quota.next_at(now), paused_until),
            None => paused_until,
        }
    }

    /// The same, but not while a request waits to leave, nor before it is worth thinking
    /// over what to ask.
    pub(super) fn wake_at(&self, now: Time) -> Time {
        match self.idle_until {
            _ if self.has_waiting => Time::NEVER,
            Some(until) => later(until, self.allowed_at(now)),
            None => self.allowed_at(now),
        }
    }

    pub(super) fn reconsider_later(&mut self, now: Time) {
        self.idle_until = Some(now + IDLE);
    }

    pub(super) fn may_leave(&self, now: Time) -> bool {
        let quota = self.quota.as_ref();
        quota.is_none_or(|quota| quota.next_at(now) <= now)
    }

    pub(super) fn left(&mut self, now: Time) {
        self.has_waiting = false;
        if let Some(quota) = &mut self.quota {
            quota.begin(now);
        }
    }

    pub(super) fn ended(&mut self, now: Time) {
        self.idle_until = None;
        if let Some(quota) = &mut self.quota {
            quota.end(now);
        }
    }

    /// It answers: the next pause is a first one again.
    pub(super) fn reset_backoff(&mut self) {
        self.n_refusals = 0;
    }

    /// Leaves it alone after a refusal of a request that was begun at this time, and says
    /// for how long.
    ///
    /// ```text
    /// min(p·2ⁿ, max(1 day, p)),   p the first pause, n refusals in a row before
    /// ```
    ///
    /// `None` if the request was begun before the last refusal was heard: it would
    /// have been refused for the same reason, so nothing follows from it again.
    pub(super) fn refused(&mut self, begun_at: Time, now: Time) -> Option<Span> {
        if self.refused_at.is_some_and(|at| begun_at < at) {
            return None;
        }
        self.refused_at = Some(now);
        let n_doublings = self.n_refusals.min(MOST_DOUBLINGS);
        let pause = self.first_pause.0 * 2_f64.powi(n_doublings as i32);
        let pause = Span(pause.min(LONGEST_PAUSE.0.max(self.first_pause.0)));
        self.n_refusals = self.n_refusals.saturating_add(1);
        self.leave_alone(pause, now);
        Some(pause)
    }

    /// Nothing is asked for so long; a longer wait that was set before stays.
    pub(super) fn leave_alone(&mut self, wait: Span, now: Time) {
        self.paused_until = Some(later(self.paused_until(now), now + wait));
    }

    /// What is remembered of a pause, and of the quota.
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 8 | until when it is left alone, in milliseconds since the start |
    /// | 4 | refusals in a row |
    /// | 1 | whether the last page was refused, which is the caller's to know |
    /// | the rest | the quota |
    pub(super) fn remember(&self, are_pages_refused: bool, bytes: &mut Vec<u8>) {
        let until = self.paused_until.map_or(0.0, |at| at.0 * MILLIS_PER_DAY);
        bytes.extend((until.round() as i64).to_le_bytes());
        bytes.extend(self.n_refusals.to_le_bytes());
        bytes.push(u8::from(are_pages_refused));
        bytes.extend(self.quota.as_ref().map(Quota::remember).unwrap_or_default());
    }

    /// Takes in what was remembered: the quota in any case, a pause only where the source
    /// is asked as it was then. Says whether the last page was refused, then.
    pub(super) fn recall(&mut self, bytes: &[u8], is_same_form: bool, now: Time) -> Option<bool> {
        let (until, rest) = bytes.split_first_chunk::<8>()?;
        let (n_refusals, rest) = rest.split_first_chunk::<4>()?;
        let (are_pages_refused, quota) = rest.split_first()?;
        if let Some(own) = &mut self.quota {
            own.recall(quota, now);
        }
        if !is_same_form {
            return None;
        }
        // A moment that is far away was written by a clock that was wrong.
        let until = i64::from_le_bytes(*until) as f64 / MILLIS_PER_DAY;
        self.paused_until = Some(Time(until.min(now.0 + LONGEST_PAUSE.0)));
        self.n_refusals = u32::from_le_bytes(*n_refusals);
        Some(*are_pages_refused != 0)
    }
}

fn later(one: Time, other: Time) -> Time {
    Time(one.0.max(other.0))
}

/// Between two requests to a host there is a second at the most where only a quota says
/// anything of it; that is what hosts get of which nothing is said.
const USUAL_GAP: Span = Span(SECOND);
/// Requests under way to such a host, at the least and at the most: a slow answer holds up
/// nobody, and a fast quota is no reason for a crowd.
const LEAST_UNDER_WAY: u32 = 2;
const MOST_UNDER_WAY: u32 = 16;

/// The least time between two requests to a host of which nothing is said but these
/// quotas, and how many may be under way.
///
/// ```text
/// gap = min(1 s, min g/2),   g the time between requests that spend a quota evenly
/// ```
///
/// The quotas themselves keep requests apart; half their gap is for those that come late.
/// `None` if there is no quota.
pub fn host_limit<'a>(quotas: impl IntoIterator<Item = &'a Quota>) -> Option<(Span, u32)> {
    let (mut gap, mut most) = (USUAL_GAP.0, None);
    for quota in quotas {
        gap = gap.min(quota.gap().0 / 2.0);
        most = most.max(Some(quota.n_requests()));
    }
    let most = most?.clamp(LEAST_UNDER_WAY, MOST_UNDER_WAY);
    Some((Span(gap), most))
}
