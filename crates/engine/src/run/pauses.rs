//! Hosts that are left alone for a while: why, and until when. The gate alone knows which
//! those are; here is what is said of them.

use std::time::Duration;

use springtide_policy::agenda::Pause;
use springtide_policy::{GroupId, Time};

use super::Engine;
use crate::event::{Event, PausedHost};
use crate::{Error, clock};

/// A run that ends once nothing is due waits this long for a host that has failed: for a few
/// tries. What is broken for longer is not fixed by waiting.
const PATIENCE_WITH_FAILURES: Duration = Duration::from_secs(10);
/// It waits this long for a host that asked for it, since that has said when to come.
const PATIENCE_WHEN_ASKED: Duration = Duration::from_secs(60);

impl Engine {
    /// What was wrong with hosts that are still left alone since an earlier run. What
    /// exactly it was is not kept.
    pub(super) fn recall_host_problems(&mut self, at: Time) -> Result<(), Error> {
        for host in self.ledger.store().hosts()? {
            let why = match self.agenda.gate().pause(host.group, at) {
                Some(Pause::BackOff) => "it did not answer in an earlier run",
                Some(Pause::RetryAfter) => "it asked us to wait, in an earlier run",
                None => continue,
            };
            self.host_problems.insert(host.group, why.to_owned());
        }
        let groups = self.host_problems.keys().copied().collect();
        let paused = self.paused_hosts(groups, at)?;
        self.pending_events
            .extend(paused.into_iter().map(Event::Paused));
        Ok(())
    }

    /// A request has ended, with something wrong with its host or nothing.
    pub(super) fn note_host_problem(
        &mut self,
        group: GroupId,
        problem: String,
        at: Time,
    ) -> Result<(), Error> {
        if problem.is_empty() || self.agenda.gate().pause(group, at).is_none() {
            return Ok(());
        }
        self.host_problems.insert(group, problem);
        let paused = self.paused_hosts(vec![group], at)?;
        self.pending_events
            .extend(paused.into_iter().map(Event::Paused));
        Ok(())
    }

    /// Those of these hosts that are paused now.
    pub(super) fn paused_hosts(
        &self,
        mut groups: Vec<GroupId>,
        at: Time,
    ) -> Result<Vec<PausedHost>, Error> {
        let gate = self.agenda.gate();
        groups.retain(|group| gate.pause(*group, at).is_some());
        let mut paused = Vec::new();
        for group in groups {
            if let (Some(until), Some(why), Some(host)) = (
                clock::moment_of(gate.paused_until(group)),
                self.host_problems.get(&group),
                self.ledger.group_name(group)?,
            ) {
                // The host is named beside it already.
                let why = why.strip_prefix(&format!("{host} is ")).unwrap_or(why);
                paused.push(PausedHost {
                    why: why.to_owned(),
                    host,
                    until,
                    is_requested: gate.pause(group, at) == Some(Pause::RetryAfter),
                });
            }
        }
        Ok(paused)
    }

    /// Whether a host is paused since it fails.
    pub(super) fn has_failing_hosts(&self, at: Time) -> bool {
        let gate = self.agenda.gate();
        let mut groups = self.host_problems.keys();
        groups.any(|group| gate.pause(*group, at) == Some(Pause::BackOff))
    }

    /// Whether all that is left to do is at hosts that are paused for longer than such a run
    /// waits.
    pub(super) fn only_paused_hosts_left(&self, at: Time) -> bool {
        if self.host_problems.is_empty() {
            return false;
        }
        let gate = self.agenda.gate();
        let is_given_up = |group: GroupId| {
            let patience = match gate.pause(group, at) {
                Some(Pause::BackOff) => PATIENCE_WITH_FAILURES,
                Some(Pause::RetryAfter) => PATIENCE_WHEN_ASKED,
                None => return false,
            };
            gate.paused_until(group) > at + clock::span(patience)
        };
        // A host that is closed for another reason (its gap or its concurrency) opens soon.
        let n_groups = self.agenda.scheduler().groups().len();
        let mut groups = (0..n_groups as u32).filter_map(GroupId::new);
        groups.all(|group| is_given_up(group) || gate.free_at(group) <= at)
            && self.host_problems.keys().any(|group| is_given_up(*group))
    }
}
