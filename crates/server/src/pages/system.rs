//! `/system`: what there is behind it, and what is wrong with it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use springtide_engine::Pulse;
use springtide_engine::view::{ErrorCount, brief, count, plural};
use springtide_policy::GroupId;
use springtide_store::{Host, Moment, Pause};

use super::errors::{self, ErrorRow};
use super::html::{Format, Html, still, when};
use super::sources::{kept_for, said};
use super::{Frame, page};
use crate::app::Shared;
use crate::checkup::CheckupState;
use crate::door::see_other;
use crate::link::EngineState;
use crate::notices;
use crate::params::Params;
use crate::problem::Problem;

/// Hosts that are listed: paused ones first.
const MOST_HOSTS: usize = 100;

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    frame: Frame,
    error: Option<String>,
    is_reloaded: bool,
    engine: String,
    health: String,
    uptime: String,
    process: u32,
    queue: Option<Queue>,
    store: Html,
    bodies: Html,
    copies: Html,
    retention: Vec<(String, String)>,
    checkup: CheckupCard,
    receivers: Vec<ReceiverRow>,
    hosts: Vec<HostRow>,
    errors: Vec<ErrorCount>,
    failed: Vec<ErrorRow>,
}

/// What the engine is about.
struct Queue {
    n_under_way: usize,
    n_new: String,
    next: Html,
    why: &'static str,
}

/// What was found in store and bodies.
#[derive(Default)]
struct CheckupCard {
    is_under_way: bool,
    n_seen: String,
    is_sound: bool,
    says: Option<Html>,
    problems: Vec<String>,
}

struct ReceiverRow {
    name: String,
    n_waiting: usize,
    since: Html,
    n_given_up: u64,
    error: String,
}

struct HostRow {
    name: String,
    asked: Html,
    until: Html,
    why: String,
    n_failures: u32,
}

/// `GET /system`.
pub(super) async fn show(
    State(app): State<Shared>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let params = Params::of(request.uri(), &["reloaded"])?;
    shown(&app, None, params.get("reloaded").is_some()).await
}

/// `POST /system/reload`.
pub(super) async fn reload(State(app): State<Shared>) -> Result<Response<Body>, Problem> {
    match app.reload().await {
        Ok(()) => Ok(see_other("/system?reloaded=yes")),
        Err(problem) => shown(&app, Some(problem), false).await,
    }
}

/// `POST /system/check`.
pub(super) async fn check(State(app): State<Shared>) -> Response<Body> {
    app.checkup.begin(&app);
    see_other("/system#doctor")
}

/// What the next request waits for.
fn waits_for(pulse: &Pulse) -> &'static str {
    let is_for_host =
        |paused: &springtide_engine::PausedHost| pulse.next_at.is_some_and(|at| at >= paused.until);
    match pulse.next_at {
        None => "",
        Some(at) if at <= pulse.at => "",
        Some(_) if !pulse.may_spend => "when the budget allows it",
        Some(_) if pulse.paused_hosts.iter().any(is_for_host) => "when the pause of a host is over",
        Some(_) => "when it is due, or its host allows it",
    }
}

fn checkup_card(app: &Shared, now: Moment) -> CheckupCard {
    match app.checkup.state() {
        CheckupState::Never => CheckupCard::default(),
        CheckupState::UnderWay(n_seen) => CheckupCard {
            is_under_way: true,
            n_seen: count(n_seen.load(Ordering::Relaxed) as usize),
            ..CheckupCard::default()
        },
        CheckupState::Over(found) => {
            let what = match found.n_problems {
                0 => "Store and bodies are sound".to_owned(),
                n => plural(n as u64, "problem"),
            };
            let unnamed = match found.n_unnamed_bodies {
                0 => String::new(),
                n => format!(", {} unreferenced", count(n as usize)),
            };
            let text = format!(
                "{what}: {} looked at{unnamed}, in {}, ",
                plural(found.n_bodies, "body"),
                brief(found.seconds)
            );
            CheckupCard {
                is_sound: found.n_problems == 0,
                says: Some(Html::joined(&[
                    Html::from(&*text),
                    when(Some(found.at), now, ""),
                ])),
                problems: found.problems,
                ..CheckupCard::default()
            }
        }
    }
}

async fn shown(
    app: &Shared,
    problem: Option<Problem>,
    is_reloaded: bool,
) -> Result<Response<Body>, Problem> {
    let status = app.status().await?;
    let now = app.now();
    let (mut hosts, names, receivers, failed) = app
        .read(move |app, store| {
            let failed = errors::latest(store, &store.sources()?, now)?;
            let receivers = notices::receivers(store, &app.current().notices)?;
            let hosts = store.hosts()?;
            let ids: Vec<GroupId> = hosts.iter().map(|host| host.group).collect();
            let groups = store.groups_by_id(&ids)?;
            let names: HashMap<GroupId, String> = groups
                .into_iter()
                .map(|group| (group.id, group.name))
                .collect();
            Ok((hosts, names, receivers, failed))
        })
        .await?;
    let pulse = app.health.pulse();
    let left_alone = |host: &Host| host.not_before.filter(|until| *until > now);
    hosts.sort_by_key(|host| std::cmp::Reverse((left_alone(host), host.requested_at)));
    let rows = hosts.iter().take(MOST_HOSTS).map(|host| {
        let name = names.get(&host.group).cloned().unwrap_or_default();
        // The engine knows what it was; in the store is only of what kind.
        let paused = pulse.iter().flat_map(|pulse| &pulse.paused_hosts);
        let mut why = paused
            .filter(|paused| paused.host == name)
            .map(|p| p.why.clone());
        let why = match host.pause.filter(|_| left_alone(host).is_some()) {
            None => String::new(),
            Some(Pause::BackOff) => why.next().unwrap_or_else(|| "it fails".to_owned()),
            Some(Pause::RetryAfter) => why.next().unwrap_or_else(|| "it asks for it".to_owned()),
        };
        HostRow {
            name,
            asked: when(host.requested_at, now, "never"),
            until: when(left_alone(host), now, "–"),
            why,
            n_failures: host.n_failures,
        }
    });
    let disk = status.disk;
    if let Some(disk) = disk {
        let n_bytes = disk.store_bytes.saturating_add(disk.bodies_bytes);
        app.checkup.begin_if_small(app, n_bytes);
    }
    let bytes = |name: &str, n: Option<u64>| match n {
        Some(n) => Html::joined(&[
            still(name, Some(n as f64), Format::Count, ""),
            " bytes".into(),
        ]),
        None => "–".into(),
    };
    let template = SystemPage {
        frame: Frame::new(app, "System", "/system"),
        error: problem.as_ref().map(said),
        is_reloaded,
        engine: match app.link.state() {
            EngineState::Starting => "starting".to_owned(),
            EngineState::Running(_) => "running".to_owned(),
            EngineState::ReadOnly(why) => format!("read-only: {why}"),
            EngineState::Failed(why) => format!("failed, trying again: {why}"),
        },
        health: match app.health.is_ready(app) {
            Ok(_) => "well".to_owned(),
            Err(problem) => problem.detail,
        },
        uptime: brief(app.started_at.elapsed().as_secs_f64()),
        process: std::process::id(),
        queue: pulse.as_ref().map(|pulse| Queue {
            n_under_way: pulse.n_under_way,
            n_new: count(status.states.new as usize),
            next: when(pulse.next_at, now, "none"),
            why: waits_for(pulse),
        }),
        retention: (app.current().settings.sources.iter())
            .map(|source| (source.name.clone(), kept_for(&source.retain)))
            .collect(),
        checkup: checkup_card(app, now),
        store: bytes("disk.store_bytes", disk.map(|disk| disk.store_bytes)),
        bodies: bytes("disk.bodies_bytes", disk.map(|disk| disk.bodies_bytes)),
        copies: bytes("disk.copies_bytes", disk.map(|disk| disk.copies_bytes)),
        receivers: (receivers.into_iter())
            .map(|receiver| ReceiverRow {
                name: receiver.name,
                n_waiting: receiver.n_waiting,
                since: when(receiver.oldest, now, "–"),
                n_given_up: receiver.n_given_up,
                error: receiver.error.unwrap_or_default(),
            })
            .collect(),
        hosts: rows.collect(),
        errors: status.errors.clone(),
        failed,
    };
    let code = problem.map_or(StatusCode::OK, |problem| problem.status);
    Ok(page(code, &template))
}
