//! `/metrics`, as Prometheus reads them.

use std::fmt::Write;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use springtide_engine::clock::time;
use springtide_engine::view::{Age, Freshness, Miss, Status, Target};
use springtide_policy::Window;
use springtide_store::Moment;

use crate::app::Shared;
use crate::door::answer;
use crate::problem::Problem;
use crate::tally::{BUCKETS, Counts, OUTCOMES};

/// `GET /metrics`.
pub(crate) async fn metrics(State(app): State<Shared>) -> Result<Response<Body>, Problem> {
    let status = app.status().await?;
    let counts = app.link.tally().counts();
    // Those of another process are seen in the store alone.
    let last_poll_at = match counts.last_poll_at {
        Some(at) => Some(at),
        None => {
            let latest = app.read(|_, store| Ok(store.latest_polls(1)?)).await?;
            latest.first().copied()
        }
    };
    let current = app.current();
    let standing = Standing {
        target: current.target,
        is_ready: app.health.is_ready(&app).is_ok(),
        last_poll_at,
        silent_seconds: last_poll_at
            .map(|at| silent_seconds(current.settings.budget.window, at, app.now())),
    };
    let text = written(&status, &counts, standing);
    Ok(answer("text/plain; version=0.0.4; charset=utf-8", text))
}

/// What is to be reached, whether polls are made as far as they may be, when the last one
/// ended, and for how long polls were allowed since.
#[derive(Clone, Copy)]
struct Standing {
    target: Target,
    is_ready: bool,
    last_poll_at: Option<Moment>,
    silent_seconds: Option<f64>,
}

/// How long polls have been allowed between two moments: outside the hours of a window,
/// silence says nothing.
fn silent_seconds(window: Option<Window>, from: Moment, to: Moment) -> f64 {
    let (from, to) = (time(from), time(from.max(to)));
    let days = match window {
        Some(window) => window.open_days(from, to),
        None => to.as_days() - from.as_days(),
    };
    days * 86_400.0
}

fn written(
    status: &Status,
    counts: &Counts,
    Standing {
        target,
        is_ready,
        last_poll_at,
        silent_seconds,
    }: Standing,
) -> String {
    let mut text = Text::default();
    text.family(
        "springtide_polls_total",
        "counter",
        "Polls since this process began, by outcome",
    );
    for (source, by_outcome) in &counts.polls {
        for (outcome, n) in OUTCOMES.iter().zip(by_outcome) {
            text.sample("", &[("source", source), ("outcome", outcome)], *n as f64);
        }
    }
    text.family("springtide_changes_total", "counter", "Changes found");
    for source in &status.sources {
        text.sample("", &[("source", &source.name)], source.n_changes as f64);
    }
    text.family("springtide_elements", "gauge", "Elements by state");
    for source in &status.sources {
        let states = source.states;
        for (state, n) in [
            ("new", states.new),
            ("ok", states.ok),
            ("failing", states.failing),
            ("blocked", states.blocked),
            ("gone", states.gone),
        ] {
            text.sample("", &[("source", &source.name), ("state", state)], n as f64);
        }
    }
    text.family(
        "springtide_freshness",
        "gauge",
        "The share of copies that are fresh",
    );
    for source in &status.sources {
        let Freshness {
            measured,
            predicted,
            ..
        } = source.freshness;
        text.kinds(&source.name, measured, predicted);
    }
    text.family(
        "springtide_age_seconds",
        "gauge",
        "The mean time since the first change that a copy has missed",
    );
    for source in &status.sources {
        let Age {
            measured,
            predicted,
        } = source.age_seconds;
        text.kinds(&source.name, measured, predicted);
    }
    text.family(
        "springtide_target_freshness",
        "gauge",
        "The share of copies that is to be fresh, by [target]",
    );
    if let Some(share) = target.freshness {
        text.sample("", &[], share);
    }
    text.family(
        "springtide_target_age_seconds",
        "gauge",
        "The age that copies are to stay below, by [target], and when that is an error",
    );
    for (level, span) in [("warn", target.warn_after), ("error", target.error_after)] {
        if let Some(span) = span {
            text.sample("", &[("level", level)], span.as_days() * 86_400.0);
        }
    }
    text.family(
        "springtide_target_met",
        "gauge",
        "1 while [target] is met, 0 while it is missed",
    );
    let misses = target.misses(status);
    let is_known = |miss: &Miss| matches!(miss, Miss::Freshness(..) | Miss::Age(..));
    if target.is_set() && misses.iter().all(is_known) {
        text.sample("", &[], f64::from(u8::from(misses.is_empty())));
    }
    text.family(
        "springtide_ready",
        "gauge",
        "1 while polls are made as far as they may be, 0 when they have stopped: as /readyz",
    );
    text.sample("", &[], f64::from(u8::from(is_ready)));
    text.family(
        "springtide_budget_per_day",
        "gauge",
        "Polls a day that may be made",
    );
    text.sample("", &[], status.budget.per_day);
    text.family(
        "springtide_price",
        "gauge",
        "Price: the least value of a poll that is made",
    );
    if let Some(price) = status.budget.price {
        text.sample("", &[], price);
    }
    text.family(
        "springtide_poll_seconds",
        "histogram",
        "How long polls took",
    );
    let mut n = 0;
    for (end, counted) in BUCKETS.iter().zip(counts.seconds) {
        n += counted;
        text.sample("_bucket", &[("le", &end.to_string())], n as f64);
    }
    text.sample("_bucket", &[("le", "+Inf")], counts.n_timed as f64);
    text.sample("_sum", &[], counts.sum_seconds);
    text.sample("_count", &[], counts.n_timed as f64);
    text.family(
        "springtide_last_poll_timestamp_seconds",
        "gauge",
        "When the last poll ended",
    );
    if let Some(at) = last_poll_at {
        text.sample("", &[], at.0 as f64 / 1000.0);
    }
    text.family(
        "springtide_silent_seconds",
        "gauge",
        "Time since the last poll ended, without that outside [budget] window",
    );
    if let Some(seconds) = silent_seconds {
        text.sample("", &[], seconds);
    }
    if let Some(disk) = status.disk {
        text.family("springtide_store_bytes", "gauge", "What the store takes");
        text.sample("", &[], disk.store_bytes as f64);
        text.family("springtide_bodies_bytes", "gauge", "What the bodies take");
        text.sample("", &[], disk.bodies_bytes as f64);
        text.family(
            "springtide_copies_bytes",
            "gauge",
            "What the copies of tables take",
        );
        text.sample("", &[], disk.copies_bytes as f64);
    }
    text.family(
        "springtide_events_missed_total",
        "counter",
        "Events dropped because they came too fast",
    );
    text.sample("", &[], counts.n_missed as f64);
    text.written
}

/// Metrics, one family after the other.
#[derive(Default)]
struct Text {
    written: String,
    family: &'static str,
}

impl Text {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        // To write to a text does not fail.
        let _ = writeln!(self.written, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.written, "{}{suffix}", self.family);
        for (place, (name, label)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let label = label
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.written, "{before}{name}=\"{label}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.written, "{end} {value}");
    }

    fn kinds(&mut self, source: &str, measured: Option<f64>, predicted: Option<f64>) {
        for (kind, value) in [("measured", measured), ("predicted", predicted)] {
            if let Some(value) = value {
                self.sample("", &[("source", source), ("kind", kind)], value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_told_where_there_is_one() {
        let status = Status {
            freshness: Freshness {
                measured: Some(0.8),
                ..no_freshness()
            },
            age_seconds: Age {
                measured: None,
                predicted: None,
            },
            budget: springtide_engine::view::BudgetUse {
                per_day: 100.0,
                used_today: 0,
                price: None,
                short_per_day: None,
            },
            n_elements: 0,
            n_sources: 0,
            n_polls: 0,
            n_changes: 0,
            oldest_poll_age_seconds: None,
            states: springtide_engine::view::States::default(),
            errors: Vec::new(),
            disk: None,
            sources: Vec::new(),
        };
        let told = |freshness: Option<f64>, is_ready| {
            let target = Target {
                freshness,
                ..Target::default()
            };
            let standing = Standing {
                target,
                is_ready,
                last_poll_at: None,
                silent_seconds: None,
            };
            written(&status, &Counts::default(), standing)
        };
        let missed = told(Some(0.9), false);
        for line in [
            "\nspringtide_target_freshness 0.9\n",
            "\nspringtide_target_met 0\n",
            "\nspringtide_ready 0\n",
        ] {
            assert!(missed.contains(line), "{line} in {missed}");
        }
        let met = told(Some(0.8), true);
        assert!(
            met.contains("\nspringtide_target_met 1\n") && met.contains("\nspringtide_ready 1\n")
        );
        let none = told(None, true);
        assert!(
            !none.contains("\nspringtide_target_met ")
                && !none.contains("\nspringtide_target_freshness ")
        );
    }

    fn no_freshness() -> Freshness {
        Freshness {
            measured: None,
            low: None,
            high: None,
            since: None,
            predicted: None,
            predicted_low: None,
            predicted_high: None,
            n_audits: 0,
        }
    }

    #[test]
    fn hours_in_which_nothing_may_be_polled_are_no_silence() {
        const HOUR: i64 = 3_600_000;
        let night = Window::from_hours(22.0, 6.0).ok();
        let hours = |window, from: i64, to: i64| {
            let day = 20_000 * 24;
            let at = |hour: i64| Moment((day + hour) * HOUR);
            (silent_seconds(window, at(from), at(to)) / 3600.0).round()
        };
        assert_eq!(hours(None, 5, 21), 16.0);
        assert_eq!(hours(night, 5, 21), 1.0);
        assert_eq!(hours(night, 5, 24), 3.0);
        // A clock that was set back.
        assert_eq!(hours(night, 24, 23), 0.0);
    }

    #[test]
    fn labels_are_escaped_and_numbers_are_plain() {
        let mut text = Text::default();
        text.family("a", "gauge", "An a");
        text.sample("", &[("b", "c\"d\\e\nf")], 2.0);
        text.sample("_sum", &[], 0.25);
        assert_eq!(
            text.written,
            "# HELP a An a\n# TYPE a gauge\na{b=\"c\\\"d\\\\e\\nf\"} 2\na_sum 0.25\n"
        );
    }
}
