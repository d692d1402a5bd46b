//! Whether all is well: that the loop turns, that polls are made, that the store works.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;
use springtide_engine::Pulse;

use crate::api::json;
use crate::app::Shared;
use crate::link::EngineState;
use crate::problem::Problem;

/// How often the engine is asked how it goes, and how long it may take to say so.
const EVERY: Duration = Duration::from_secs(2);
const WITHIN: Duration = Duration::from_secs(8);
/// Without an answer for so long, the loop does not turn.
const SILENT: Duration = Duration::from_secs(30);
/// If no poll is answered for so long though the budget allows some, something is wrong.
/// Within a minute it is to be told.
const STALLED: Duration = Duration::from_secs(40);
/// Where nothing fails and nobody is left alone, polls may be rare for the sake of a host:
/// then only a longer silence is odd.
const ODD: Duration = Duration::from_secs(900);
/// So many failures in a row, and no answer, say the same where the budget is spent on
/// them.
const FAILURES: u64 = 3;
/// A run that takes over, or begins anew with other settings, is given this long.
const STARTING: Duration = Duration::from_secs(20);
/// After a failure it is well again once it has gone well for so long.
const CONVINCED: Duration = Duration::from_secs(6);

/// How it goes, as far as was seen.
pub(crate) struct Health {
    vitals: Mutex<Vitals>,
}

struct Vitals {
    /// When the loop last answered.
    turned_at: Instant,
    has_turned: bool,
    /// When a poll was last answered, or there was none to be made.
    well_at: Instant,
    n_answered: u64,
    n_failed: u64,
    /// Failures since a poll was last answered.
    n_failures: u64,
    failed_at: Option<Instant>,
    /// Hosts that are left alone, and why.
    paused: Vec<String>,
}

impl Default for Health {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            vitals: Mutex::new(Vitals {
                turned_at: now,
                has_turned: false,
                well_at: now,
                n_answered: 0,
                n_failed: 0,
                n_failures: 0,
                failed_at: None,
                paused: Vec::new(),
            }),
        }
    }
}

impl Vitals {
    fn hear(&mut self, pulse: &Pulse, now: Instant) {
        (self.turned_at, self.has_turned) = (now, true);
        let n_answered = pulse.n_polls.saturating_sub(pulse.n_failed);
        if n_answered < self.n_answered || pulse.n_failed < self.n_failed {
            // Another run.
            (self.n_answered, self.n_failed) = (0, 0);
        }
        self.n_failures += pulse.n_failed - self.n_failed;
        if n_answered > self.n_answered {
            (self.well_at, self.n_failures) = (now, 0);
        } else if !pulse.may_poll && self.n_failures < FAILURES {
            self.well_at = now;
        }
        (self.n_answered, self.n_failed) = (n_answered, pulse.n_failed);
        let paused = pulse.paused.iter().take(3);
        self.paused = paused
            .map(|paused| format!("{}: {}", paused.host, paused.why))
            .collect();
    }
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
pub(crate) struct Well {
    status: &'static str,
    mode: &'static str,
}

impl Health {
    fn vitals(&self) -> MutexGuard<'_, Vitals> {
        self.vitals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the loop turns.
    fn is_alive(&self, app: &Shared) -> Result<Well, Problem> {
        let vitals = self.vitals();
        match app.link.state() {
            EngineState::Running(_) if vitals.has_turned && vitals.turned_at.elapsed() > SILENT => {
                let seconds = vitals.turned_at.elapsed().as_secs();
                let detail = format!("the loop has not turned for {seconds} s");
                Err(Problem::unavailable(detail))
            }
            state => Ok(Well::new(&state)),
        }
    }

    /// Whether polls are made, as far as they may be.
    pub(crate) fn is_ready(&self, app: &Shared) -> Result<Well, Problem> {
        let state = app.link.state();
        let vitals = self.vitals();
        match &state {
            EngineState::ReadOnly(_) => return Ok(Well::new(&state)),
            EngineState::Failed(why) => {
                return Err(Problem::unavailable(format!(
                    "the engine cannot go on: {why}"
                )));
            }
            EngineState::Starting if !vitals.has_turned => {
                return Err(Problem::unavailable("the engine is starting"));
            }
            EngineState::Starting if vitals.turned_at.elapsed() > STARTING => {
                return Err(Problem::unavailable("the engine is starting again"));
            }
            EngineState::Running(_) if !vitals.has_turned => {
                return Err(Problem::unavailable("the engine is starting"));
            }
            EngineState::Running(_) if vitals.turned_at.elapsed() > SILENT => {
                return Err(Problem::unavailable("the loop does not turn"));
            }
            EngineState::Running(_) | EngineState::Starting => {}
        }
        if vitals.failed_at.is_some_and(|at| at.elapsed() < CONVINCED) {
            let detail = "the engine has just begun again after a failure";
            return Err(Problem::unavailable(detail));
        }
        let is_in_trouble = vitals.n_failures > 0 || !vitals.paused.is_empty();
        let longest = if is_in_trouble { STALLED } else { ODD };
        if vitals.well_at.elapsed() > longest {
            let seconds = vitals.well_at.elapsed().as_secs();
            let mut detail =
                format!("no poll was answered for {seconds} s, though the budget allows some");
            if !vitals.paused.is_empty() {
                detail = format!("{detail}; left alone: {}", vitals.paused.join("; "));
            }
            return Err(Problem::unavailable(detail));
        }
        Ok(Well::new(&state))
    }
}

impl Well {
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
    use springtide_store::Moment;

    fn pulse(n_polls: u64, n_failed: u64, may_poll: bool) -> Pulse {
        Pulse {
            at: Moment(0),
            n_begun: n_polls,
            n_polls,
            n_failed,
            n_under_way: 0,
            may_poll,
            paused: Vec::new(),
        }
    }

    #[test]
    fn silence_is_fine_while_there_is_nothing_to_poll() {
        let mut vitals = Health::default().vitals.into_inner().unwrap();
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        vitals.hear(&pulse(5, 0, true), at(1));
        assert_eq!(vitals.well_at, at(1));
        vitals.hear(&pulse(5, 0, false), at(2));
        assert_eq!(vitals.well_at, at(2));
        vitals.hear(&pulse(5, 0, true), at(3));
        assert_eq!(vitals.well_at, at(2));
    }

    #[test]
    fn failures_are_no_answers_and_a_new_run_counts_anew() {
        let mut vitals = Health::default().vitals.into_inner().unwrap();
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        vitals.hear(&pulse(5, 0, true), at(1));
        vitals.hear(&pulse(8, 3, false), at(2));
        vitals.hear(&pulse(9, 4, false), at(3));
        assert_eq!(vitals.well_at, at(1));
        vitals.hear(&pulse(1, 0, true), at(4));
        assert_eq!(vitals.well_at, at(4));
    }
}
