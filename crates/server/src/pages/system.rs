//! `/system`: what there is behind it, and what is wrong with it.

use std::collections::HashMap;

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use springtide_engine::view::{ErrorCount, brief};
use springtide_policy::GroupId;
use springtide_store::{Host, Pause};

use super::html::{Format, Html, still, when};
use super::sources::said;
use super::{Frame, page};
use crate::app::Shared;
use crate::door::see_other;
use crate::link::EngineState;
use crate::notices;
use crate::params::Params;
use crate::problem::Problem;

/// Hosts that are listed: those that are left alone first.
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
    store: Html,
    bodies: Html,
    receivers: Vec<ReceiverRow>,
    hosts: Vec<HostRow>,
    errors: Vec<ErrorCount>,
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
    why: &'static str,
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

async fn shown(
    app: &Shared,
    problem: Option<Problem>,
    is_reloaded: bool,
) -> Result<Response<Body>, Problem> {
    let status = app.status().await?;
    let now = app.now();
    let (mut hosts, names, receivers) = app
        .read(|app, store| {
            let receivers = notices::receivers(store, &app.current().notices)?;
            let hosts = store.hosts()?;
            let ids: Vec<GroupId> = hosts.iter().map(|host| host.group).collect();
            let groups = store.groups_by_id(&ids)?;
            let names: HashMap<GroupId, String> = groups
                .into_iter()
                .map(|group| (group.id, group.name))
                .collect();
            Ok((hosts, names, receivers))
        })
        .await?;
    let left_alone = |host: &Host| host.not_before.filter(|until| *until > now);
    hosts.sort_by_key(|host| std::cmp::Reverse((left_alone(host), host.requested_at)));
    let rows = hosts.iter().take(MOST_HOSTS).map(|host| HostRow {
        name: names.get(&host.group).cloned().unwrap_or_default(),
        asked: when(host.requested_at, now, "never"),
        until: when(left_alone(host), now, "–"),
        why: match host.pause.filter(|_| left_alone(host).is_some()) {
            Some(Pause::BackOff) => "it fails",
            Some(Pause::RetryAfter) => "it asks for it",
            None => "",
        },
        n_failures: host.n_failures,
    });
    let disk = status.disk;
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
            EngineState::ReadOnly(why) => format!("reading only: {why}"),
            EngineState::Failed(why) => format!("tried again: {why}"),
        },
        health: match app.health.is_ready(app) {
            Ok(_) => "well".to_owned(),
            Err(problem) => problem.detail,
        },
        uptime: brief(app.started_at.elapsed().as_secs_f64()),
        store: bytes("disk.store_bytes", disk.map(|disk| disk.store_bytes)),
        bodies: bytes("disk.bodies_bytes", disk.map(|disk| disk.bodies_bytes)),
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
    };
    let code = problem.map_or(StatusCode::OK, |problem| problem.status);
    Ok(page(code, &template))
}
