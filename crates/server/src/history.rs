//! What was predicted, kept so that it can be seen beside what was measured.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use springtide_store::{Error, Moment, Reader};

use crate::app::Shared;
use crate::link::EngineState;

/// The name of the note.
const NOTE: &str = "predictions";
/// How often it is looked whether it is time for another.
const LOOKS: Duration = Duration::from_secs(5);
/// Between two of them, in milliseconds. A week of them is a thousand, some 30 kB.
const APART_MS: i64 = 600_000;
/// The age at which they are forgotten, in milliseconds.
pub(crate) const KEPT_MS: i64 = 7 * 86_400_000;

/// A freshness that was predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Prediction {
    at: i64,
    pub(crate) freshness: f64,
}

impl Prediction {
    /// When.
    pub(crate) fn at(self) -> Moment {
        Moment(self.at)
    }
}

/// Those that were kept, in their order.
pub(crate) fn predictions(store: &dyn Reader) -> Result<Vec<Prediction>, Error> {
    let note = store.note(NOTE)?;
    let kept = note.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(kept.unwrap_or_default())
}

/// Keeps what is predicted for as long as the server lives.
pub(crate) async fn keep_predictions(app: Shared) {
    let mut kept: Option<Vec<Prediction>> = None;
    loop {
        tokio::time::sleep(LOOKS).await;
        if !matches!(app.link.state(), EngineState::Running(_)) {
            // Another process may keep others meanwhile.
            kept = None;
            continue;
        }
        let mut known = match kept.take() {
            Some(known) => known,
            None => match app.read(|_, store| Ok(predictions(store)?)).await {
                Ok(known) => known,
                Err(_) => continue,
            },
        };
        let now = app.now();
        if is_time(&known, now)
            && let Ok(status) = app.status().await
            && let Some(freshness) = status.freshness.predicted
        {
            add(&mut known, freshness, now);
            let bytes = serde_json::to_vec(&known).unwrap_or_default();
            if app.link.keep_note(NOTE, bytes).await.is_err() {
                // It is read again, as it was kept.
                continue;
            }
        }
        kept = Some(known);
    }
}

fn is_time(known: &[Prediction], now: Moment) -> bool {
    // After a clock was set back, too.
    known
        .last()
        .is_none_or(|last| (now.0 - last.at).abs() >= APART_MS)
}

fn add(known: &mut Vec<Prediction>, freshness: f64, now: Moment) {
    known.retain(|one| one.at < now.0 && one.at >= now.0 - KEPT_MS);
    known.push(Prediction {
        at: now.0,
        freshness,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_of_predictions_is_kept_and_no_more() {
        let mut known = Vec::new();
        for minute in 0..30 * 24 * 60 {
            let now = Moment(minute * 60_000);
            if is_time(&known, now) {
                add(&mut known, 0.5, now);
            }
        }
        assert_eq!(known.len() as i64, KEPT_MS / APART_MS + 1);
        assert!(known.windows(2).all(|pair| pair[0].at < pair[1].at));
        // A clock that was set back makes the later ones untrue.
        let back = Moment(29 * 86_400_000);
        assert!(is_time(&known, back));
        add(&mut known, 0.5, back);
        assert_eq!(known.last().map(|last| last.at()), Some(back));
        assert!(known.windows(2).all(|pair| pair[0].at < pair[1].at));
    }
}
