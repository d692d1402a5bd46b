//! What touches the network: the calls into the engine, and nothing else.

use std::path::Path;

use springtide_engine::fetch::guard::Guard;
use springtide_engine::settings::{Settings, SourceSettings};
use springtide_engine::view::redacted;
use springtide_engine::{Ended, Error, Handle, Heard, Outside, RobotsFound, RunOptions, handle};
use springtide_store::SourceKind;

use crate::config::address;
use crate::failure::{Code, Failure, Outcome};
use crate::project::{Project, causes};
use crate::signals::Signals;
use crate::table::shorten_to;

/// What was found at an address.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub(crate) struct Found {
    /// What it is.
    #[serde(skip)]
    pub(crate) kind: Option<SourceKind>,
    /// How many elements it names; more may be found.
    pub(crate) n_elements: Option<u64>,
    /// Further listings that it names, which name elements themselves.
    pub(crate) n_listings: Option<u64>,
    /// What robots.txt says, in a few words.
    pub(crate) robots: Option<&'static str>,
    pub(crate) crawl_delay_seconds: Option<f64>,
    /// `etag`, `last-modified`.
    pub(crate) validators: Vec<&'static str>,
    /// What hints it gives at changes: `lastmod`, `feed`.
    pub(crate) hints: Vec<&'static str>,
    /// How long the first polls of all elements take, politely.
    pub(crate) first_pass_seconds: Option<f64>,
}

/// Looks at a source: one request or a few.
pub(crate) fn inspect(
    folder: &Path,
    settings: &Settings,
    source: &SourceSettings,
) -> Outcome<Found> {
    let refuse = || {
        let what = format!("cannot fetch {}", shorten_to(&redacted(&source.url), 200));
        Failure::new(Code::SomeFailed, what)
    };
    let url = address(&source.url).map_err(|why| refuse().cause(why))?;
    let guard = Guard::new(settings.http.allow_private.clone());
    guard.check(&url).map_err(|failure| {
        let text = failure.to_string();
        // The rest is what to do, which the hint says in terms of this verb.
        let what = text.split(';').next().unwrap_or_default();
        refuse().cause(what).hint(
            "if it is yours, give --allow-private, or set allow_private under [http] in springtide.toml",
        )
    })?;
    let as_site = source.kind == SourceKind::Site;
    let asked = springtide_engine::inspect(folder, settings, &url, as_site, outside(settings)?);
    let asked = runtime()?.block_on(asked);
    let found = asked.map_err(|error| broken(folder, error))?;
    let found = found.map_err(|failure| {
        refuse()
            .cause(shorten_to(&failure.message, 300))
            .hint("check the address; --offline adds it without fetching")
    })?;
    let some = |is: bool, name: &'static str| is.then_some(name);
    let validators = [
        some(found.has_etag, "etag"),
        some(found.has_last_modified, "last-modified"),
    ];
    // What may not be asked could be anything.
    let is_seen = matches!(found.robots, RobotsFound::None | RobotsFound::Allowed);
    Ok(Found {
        kind: is_seen.then_some(found.kind),
        n_elements: is_seen.then_some(found.n_elements),
        n_listings: is_seen.then_some(found.n_listings),
        robots: Some(match found.robots {
            RobotsFound::None => "none",
            RobotsFound::Allowed => "allows it",
            RobotsFound::Disallowed => "disallows it: it will not be polled",
            RobotsFound::Unreachable => "cannot be fetched: nothing is polled until it can be",
        }),
        crawl_delay_seconds: found.crawl_delay.map(|delay| delay.as_secs_f64()),
        validators: validators.into_iter().flatten().collect(),
        hints: match found.kind {
            SourceKind::Feed => some(found.has_hints, "feed"),
            _ => some(found.has_hints, "lastmod"),
        }
        .into_iter()
        .collect(),
        first_pass_seconds: is_seen.then_some(found.first_pass.as_secs_f64()),
    })
}

/// Keeps the copy fresh until it is over; `on_begun` gets hold of it, and `each` is told
/// what happens.
pub(crate) fn run(
    folder: &Path,
    settings: Settings,
    options: RunOptions,
    signals: &Signals,
    on_begun: &dyn Fn(&Handle),
    each: &mut dyn FnMut(Heard),
) -> Outcome<Ended> {
    let (handle, controls) = handle();
    let mut events = handle.events();
    on_begun(&handle);
    signals.on_stop(move || handle.stop());
    let outside = outside(&settings)?;
    let runtime = runtime()?;
    let home = folder.to_owned();
    // The engine goes on while a terminal takes its time.
    let running = runtime.spawn(async move {
        springtide_engine::run(&home, settings, options, controls, outside).await
    });
    while let Some(told) = runtime.block_on(events.next()) {
        each(told);
    }
    match runtime.block_on(running) {
        Ok(ended) => ended.map_err(|error| broken(folder, error)),
        Err(error) => Err(Failure::failed("the engine cannot go on").cause(error)),
    }
}

/// The world as it is.
pub(crate) fn outside(settings: &Settings) -> Outcome<Outside> {
    Outside::real(&settings.http)
        .map_err(|error| Failure::failed("the engine cannot go on").cause(causes(&error)))
}

/// Where the engine runs.
pub(crate) fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build();
    runtime.map_err(|error| Failure::failed("cannot start").cause(error))
}

/// What it means that the engine cannot go on.
pub(crate) fn broken(folder: &Path, error: Error) -> Failure {
    let project = Project {
        folder: folder.to_owned(),
    };
    match error {
        Error::Store(error) => project.refuse(&error),
        Error::Register(error) => project.refuse_settings(error),
        Error::Selector(error) => Failure::input("bad detect").cause(error),
        error => Failure::failed("the engine cannot go on").cause(causes(&error)),
    }
}
