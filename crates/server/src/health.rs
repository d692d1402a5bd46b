//! Whether all is well: that the engine responds, that polls are made, that the store works.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;
use springtide_engine::Pulse;
use springtide_store::Moment;

use crate::api::json;
use crate::app::Shared;
use crate::link::EngineState;
use crate::problem::Problem;

/// How often the engine is asked how it goes.
const EVERY: Duration = Duration::from_secs(2);
/// How long it may take to answer.
const WITHIN: Duration = Duration::from_secs(8);
/// Without an answer for this long, the engine does not respond.
const SILENT: Duration = Duration::from_secs(30);
/// If no poll was answered for this long and nothing explains it, `/readyz` fails, within a
/// minute.
const STALLED: Duration = Duration::from_secs(40);
/// The same after this many failures in a row without an answer, where the budget goes into
/// them.
const FAILURES: u64 = 3;
/// A run that takes over, or begins anew with other settings, is given this long.
const STARTING: Duration = Duration::from_secs(20);
/// Hosts that are named where it is said what is wrong.
const MOST_NAMED: usize = 3;
/// After a failure of the engine it is ready again once it has gone well for this long.
const CONVINCED: Duration = Duration::from_secs(6);

/// How it goes, as far as was seen.
pub(crate) struct Health {
    vitals: Mutex<Vitals>,
}

struct Vitals {
    /// When the engine last responded.
    responded_at: Instant,
    has_responded: bool,
    /// When a poll was last answered, or none was to be made.
    well_at: Instant,
    n_answered: u64,
    n_failed: u64,
    /// Failures since a poll was last answered.
    n_failures: u64,
    failed_at: Option<Instant>,
    /// The latest that was heard.
    pulse: Option<Pulse>,
}

impl Default for Health {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            vitals: Mutex::new(Vitals {
                responded_at: now,
                has_responded: false,
                well_at: now,
                n_answered: 0,
                n_failed: 0,
                n_failures: 0,
                failed_at: None,
                pulse: None,
            }),
        }
    }
}

impl Vitals {
    fn hear(&mut self, pulse: &Pulse, now: Instant) {
        (self.responded_at, self.has_responded) = (now, true);
        let n_answered = pulse.n_polls.saturating_sub(pulse.n_failed);
        if n_answered < self.n_answered || pulse.n_failed < self.n_failed {
            // Another run.
            (self.n_answered, self.n_failed) = (0, 0);
        }
        self.n_failures += pulse.n_failed - self.n_failed;
        if n_answered > self.n_answered {
            (self.well_at, self.n_failures) = (now, 0);
        } else if self.n_failures < FAILURES && is_quiet(pulse) {
            self.well_at = now;
        }
        (self.n_answered, self.n_failed) = (n_answered, pulse.n_failed);
        self.pulse = Some(pulse.clone());
    }

    /// What is wrong, if no poll was answered for too long.
    fn stall(&self, now: Instant) -> Option<String> {
        let silent = now.saturating_duration_since(self.well_at);
        if silent <= STALLED {
            return None;
        }
        let mut detail = format!(
            "no poll was answered for {} s, though the budget allows some",
            silent.as_secs()
        );
        let Some(pulse) = &self.pulse else {
            return Some(detail);
        };
        if pulse.n_under_way > 0 {
            detail = format!("{detail}; under way: {}", pulse.n_under_way);
        }
        let hosts = pulse.paused_hosts.iter().take(MOST_NAMED);
        let hosts: Vec<String> = hosts
            .map(|paused| format!("{}: {}", paused.host, paused.why))
            .collect();
        if !hosts.is_empty() {
            detail = format!("{detail}; paused: {}", hosts.join("; "));
        }
        Some(detail)
    }
}

/// Whether no answer is to be expected now: nobody is asked, and the next who will be waits
/// for the budget, for a host's own pace, or to be due, but not for a host that fails.
fn is_quiet(pulse: &Pulse) -> bool {
    let waits_for_another = |until: Moment| pulse.next_at.is_some_and(|next| next < until);
    pulse.n_under_way == 0
        && pulse.next_at.is_none_or(|next| next > pulse.at)
        && (!pulse.may_spend
            || (pulse.paused_hosts.iter()).all(|paused| waits_for_another(paused.until)))
}

/// Asks the engine how it goes for as long as the server lives.
pub(crate) async fn watch(app: Shared) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let pulse = app.link.pulse(WITHIN).await;
        let (now, state) = (Instant::now(), app.link.state());
        let mut vitals = app.health.vitals();
        match (pulse, state) {
            (Some(pulse), _) => vitals.hear(&pulse, now),
            (None, EngineState::Failed(_)) => vitals.failed_at = Some(now),
            _ => {}
        }
    }
}

/// What `/healthz` and `/readyz` say when all is well.
#[derive(Debug, Serialize)]
pub(crate) struct Healthy {
    status: &'static str,
    mode: &'static str,
}

impl Health {
    fn vitals(&self) -> MutexGuard<'_, Vitals> {
        self.vitals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the engine went when it last said so; nothing if that was a while ago.
    pub(crate) fn pulse(&self) -> Option<Pulse> {
        let vitals = self.vitals();
        let is_recent = vitals.responded_at.elapsed() < SILENT;
        vitals.pulse.clone().filter(|_| is_recent)
    }

    /// Whether the engine responds.
    fn is_alive(&self, app: &Shared) -> Result<Healthy, Problem> {
        let vitals = self.vitals();
        match app.link.state() {
            EngineState::Running(_)
                if vitals.has_responded && vitals.responded_at.elapsed() > SILENT =>
            {
                let seconds = vitals.responded_at.elapsed().as_secs();
                let detail = format!("the engine has not responded for {seconds} s");
                Err(Problem::unavailable(detail))
            }
            state => Ok(Healthy::new(&state)),
        }
    }

    /// Whether polls are made, as far as they may be.
    pub(crate) fn is_ready(&self, app: &Shared) -> Result<Healthy, Problem> {
        let state = app.link.state();
        let vitals = self.vitals();
        match &state {
            EngineState::ReadOnly(_) => return Ok(Healthy::new(&state)),
            EngineState::Failed(why) => {
                return Err(Problem::unavailable(format!(
                    "the engine cannot go on: {why}"
                )));
            }
            EngineState::Starting if !vitals.has_responded => {
                return Err(Problem::unavailable("the engine is starting"));
            }
            EngineState::Starting if vitals.responded_at.elapsed() > STARTING => {
                return Err(Problem::unavailable("the engine is starting again"));
            }
            EngineState::Running(_) if !vitals.has_responded => {
                return Err(Problem::unavailable("the engine is starting"));
            }
            EngineState::Running(_) if vitals.responded_at.elapsed() > SILENT => {
                return Err(Problem::unavailable("the engine does not respond"));
            }
            EngineState::Running(_) | EngineState::Starting => {}
        }
        if vitals.failed_at.is_some_and(|at| at.elapsed() < CONVINCED) {
            let detail = "the engine has just begun again after a failure";
            return Err(Problem::unavailable(detail));
        }
        if let Some(stall) = vitals.stall(Instant::now()) {
            return Err(Problem::unavailable(stall));
        }
        Ok(Healthy::new(&state))
    }
}

impl Healthy {
    fn new(state: &EngineState) -> Self {
        Self {
            status: "ok",
            mode: match state {
                EngineState::ReadOnly(_) => "read-only",
                _ => "running",
            },
        }
    }
}

/// `GET /healthz`.
pub(crate) async fn healthz(State(app): State<Shared>) -> Response<Body> {
    match app.health.is_alive(&app) {
        Ok(well) => json(StatusCode::OK, &well),
        Err(problem) => problem.into_response(),
    }
}

/// `GET /readyz`.
pub(crate) async fn readyz(State(app): State<Shared>) -> Result<Response<Body>, Problem> {
    let well = app.health.is_ready(&app)?;
    // That it can be read is seen by reading it.
    app.read(|_, store| Ok(store.sources()?)).await?;
    Ok(json(StatusCode::OK, &well))
}

#[cfg(test)]
mod tests {
    use super::*;
    use springtide_engine::PausedHost;

    /// Polls that have ended, those of them that failed, and when the next may begin.
    fn pulse(n_polls: u64, n_failed: u64, next_at: Option<i64>) -> Pulse {
        Pulse {
            at: Moment(0),
            n_begun: n_polls,
            n_polls,
            n_failed,
            n_under_way: 0,
            may_spend: true,
            next_at: next_at.map(Moment),
            paused_hosts: Vec::new(),
        }
    }

    fn paused_host(until: i64) -> PausedHost {
        PausedHost {
            host: "docs.example.org".to_owned(),
            until: Moment(until),
            why: "it does not answer".to_owned(),
            is_requested: false,
        }
    }

    /// What is said after each pulse was heard again and again for as many seconds.
    fn said(heard: &[(u64, Pulse)]) -> Option<String> {
        let mut vitals = Health::default().vitals.into_inner().unwrap();
        let mut now = Instant::now();
        for (seconds, pulse) in heard {
            for _ in 0..seconds.div_ceil(2) {
                now += Duration::from_secs(2);
                vitals.hear(pulse, now);
            }
        }
        vitals.stall(now)
    }

    #[test]
    fn silence_is_fine_while_there_is_nothing_to_poll() {
        let spent = Pulse {
            may_spend: false,
            paused_hosts: vec![paused_host(500)],
            ..pulse(5, 0, Some(900))
        };
        for quiet in [pulse(5, 0, None), pulse(5, 0, Some(1)), spent] {
            assert_eq!(said(&[(2, pulse(5, 0, Some(0))), (4000, quiet)]), None);
        }
    }

    #[test]
    fn a_host_that_wants_to_be_asked_seldom_is_no_trouble_beside_one_that_fails() {
        let both = Pulse {
            paused_hosts: vec![paused_host(9000)],
            ..pulse(5, 1, Some(300))
        };
        assert_eq!(said(&[(4000, both)]), None);
    }

    #[test]
    fn polls_that_stop_are_told_within_a_minute_though_none_fails() {
        let begun = (2, pulse(5, 0, Some(0)));
        // They hang, with a budget of which they were the last, or with one that has more.
        for may_spend in [false, true] {
            let hanging = Pulse {
                n_under_way: 2,
                may_spend,
                ..pulse(5, 0, Some(900))
            };
            let told = said(&[begun.clone(), (54, hanging)]).unwrap();
            assert!(told.contains("under way: 2"), "{told}");
        }
        // None is begun that may be.
        assert!(said(&[begun.clone(), (54, pulse(5, 0, Some(0)))]).is_some());
        // The next waits for a host that is paused.
        let left_alone = Pulse {
            paused_hosts: vec![paused_host(500)],
            ..pulse(5, 0, Some(500))
        };
        let told = said(&[begun.clone(), (54, left_alone.clone())]).unwrap();
        assert!(told.contains("docs.example.org"), "{told}");
        // And it is well again with the next answer.
        let well = (2, pulse(6, 0, Some(1)));
        assert_eq!(said(&[begun, (54, left_alone), well]), None);
    }

    #[test]
    fn failures_are_no_answers_and_a_new_run_counts_anew() {
        let failing = [
            (2, pulse(5, 0, Some(1))),
            (2, pulse(8, 3, Some(1))),
            (54, pulse(9, 4, Some(1))),
        ];
        assert!(said(&failing).is_some());
        let [first, second, third] = failing;
        let anew = (2, pulse(1, 0, Some(1)));
        assert_eq!(said(&[first, second, third, anew]), None);
    }
}
