//! `springtide demo`: the whole product in one command, on a small site of its own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Serialize;
use springtide_engine::clock;
use springtide_engine::origin::{Origin, Site, SiteSettings};
use springtide_engine::settings::PolicyName;
use springtide_engine::{Event, Handle, Heard, Outside, RunOptions, handle};
use springtide_policy::Rate;
use springtide_policy::report::share_interval;
use springtide_store::{ChangeKind, Moment};
use tokio::sync::mpsc;

use crate::args::SettingFlags;
use crate::args::project::{Demo, Serve};
use crate::columns::{Colour, Columns, Side};
use crate::config;
use crate::failure::{Failure, Outcome};
use crate::json::print_json;
use crate::live;
use crate::moment::brief;
use crate::plan::significant;
use crate::project::run::silence_if_unread;
use crate::project::{Project, serve};
use crate::signals::Signals;
use crate::table::{Unfinished, unwritable};
use crate::talk::{Speaker, Talk, count, percent};

/// Directories of the site.
const N_DIRECTORIES: usize = 8;
/// In the first two, pages change every few seconds; in the others hardly ever, as on most
/// real sites.
const N_LIVELY: usize = 2;
/// The median time between changes of a page in the former; most pages are within a factor
/// of three.
const LIVELY_SECONDS: f64 = 4.0;
/// The same in the others.
const QUIET_SECONDS: f64 = 1800.0;
/// The share of polls that measure. More than usual: it is a short run.
const AUDIT: &str = "10%";
/// How often the true freshness is looked at.
const TICK: Duration = Duration::from_millis(100);
/// Lines of the live table are this far apart.
const LINE: Duration = Duration::from_secs(2);

/// How long it runs where nobody says so: as long as people watch.
const SHORT: Duration = Duration::from_secs(60);

/// What came of it, for a program.
#[derive(Serialize)]
struct Document {
    seconds: f64,
    n_pages: usize,
    changes_per_second: f64,
    polls_per_second: f64,
    learned: Part,
    uniform: Part,
}

#[derive(Serialize, Clone, Copy)]
struct Part {
    /// Over the time after the first pass, as the site knows it.
    freshness_true: Option<f64>,
    freshness_measured: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    n_polls: u64,
    n_changes: u64,
}

pub(crate) fn run(
    args: &Demo,
    talk: Talk,
    colour: Colour,
    unfinished: &Unfinished,
    signals: &Signals,
) -> Outcome<()> {
    let cannot = |what: &str, error: &dyn std::fmt::Display| {
        Failure::failed(format!("cannot {what}")).cause(error.to_string())
    };
    let temporary;
    let folder: &Path = match &args.keep {
        Some(folder) => folder,
        None => {
            temporary = tempfile::tempdir().map_err(|error| cannot("make a folder", &error))?;
            temporary.path()
        }
    };
    let rates = rates(args.pages, args.seed);
    let changes_per_second = rates.iter().map(|rate| rate.as_per_day()).sum::<f64>() / 86_400.0;
    let site = SiteSettings {
        seed: args.seed,
        rates,
        n_directories: N_DIRECTORIES,
        has_volatile_parts: true,
        ..SiteSettings::default()
    };
    let origin = Origin::start(site).map_err(|error| cannot("serve a site on loopback", &error))?;
    let budget = args.budget.0;
    let per_second = budget.per_day() / 86_400.0;
    let policies = [
        ("learned", PolicyName::Learned),
        ("uniform", PolicyName::Uniform),
    ];
    let mut runs = policies.map(|(policy, name)| Watched {
        policy,
        name,
        folder: folder.join(policy),
        polled_at: vec![None; args.pages],
        n_polls: 0,
        n_changes: 0,
        measured_from: None,
        sum: 0.0,
        n_ticks: 0,
    });
    if args.serve {
        let project = Project {
            folder: runs[0].folder.clone(),
        };
        write_project(&runs[0], &origin, args)?;
        let span = args.span.map(|span| seconds(span.0));
        let span = span
            .transpose()
            .map_err(|error| cannot("run for so long", &error))?;
        let serve = Serve {
            listen: args.listen.clone(),
            log: None,
            settings: SettingFlags::default(),
        };
        return serve::until(&serve, &project, span, talk, unfinished, signals);
    }
    for run in &runs {
        write_project(run, &origin, args)?;
    }

    let speaker = Speaker::of_lines();
    let say = |line: String| {
        // A line that has no room is not missed.
        let _ = talk == Talk::Quiet || speaker.take(line);
    };
    say(format!(
        "a site of {} pages on {}, with {changes_per_second:.1} changes a second;\n\
         {} polls {} to keep up\n\
         learned is springtide, which knows nothing at the start;\n\
         uniform polls every page equally often",
        count(args.pages),
        origin.url("").trim_start_matches("http://"),
        significant(budget.unit.of(budget.per_day())),
        budget.unit.each(),
    ));
    let span = match args.span {
        Some(span) => seconds(span.0).map_err(|error| cannot("run for so long", &error))?,
        None => SHORT,
    };
    let begun = Instant::now();
    let told: Option<&dyn Fn(String)> = (!args.json && talk >= Talk::Normal).then_some(&say);
    let watched = watch_both(&mut runs, &origin, span, signals, told);
    let is_read = speaker.close();
    watched.map_err(|failure| silence_if_unread(is_read, failure))?;
    signals.forget_on_stop();
    let stopped = || {
        signals
            .received()
            .map(|code| Failure::new(code, "stopped").silent())
    };
    if let (false, Some(stopped)) = (is_read, stopped()) {
        // Nor would anyone read the table.
        return Err(stopped);
    }
    let parts = runs
        .each_ref()
        .map(Watched::part)
        .into_iter()
        .collect::<Outcome<Vec<_>>>()?;
    let document = Document {
        seconds: begun.elapsed().as_secs_f64(),
        n_pages: args.pages,
        changes_per_second,
        polls_per_second: per_second,
        learned: parts[0],
        uniform: parts[1],
    };
    if args.json {
        print_json(&document)?;
    } else {
        print(&document, colour)?;
        if let Some(folder) = args.keep.as_ref().filter(|_| is_read) {
            talk.say(format!(
                "\nlook around: springtide --project {} status, or ls --elements, or log",
                folder.join("learned").display()
            ));
        }
    }
    stopped().map_or(Ok(()), Err)
}

fn seconds(span: springtide_policy::Span) -> Result<Duration, std::time::TryFromFloatSecsError> {
    Duration::try_from_secs_f64(span.as_days() * 86_400.0)
}

/// How often each page changes: widely different, as on real sites.
fn rates(n: usize, seed: u64) -> Vec<Rate> {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut normal = || -> f64 {
        // Box and Muller.
        let (u, v): (f64, f64) = (rng.random(), rng.random());
        (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    };
    (0..n)
        .filter_map(|page| {
            let median = if page % N_DIRECTORIES < N_LIVELY {
                LIVELY_SECONDS
            } else {
                QUIET_SECONDS
            };
            Rate::per_day(normal().exp() / median * 86_400.0).ok()
        })
        .collect()
}

fn write_project(run: &Watched, origin: &Origin, args: &Demo) -> Outcome<()> {
    let refuse = |error: std::io::Error| {
        Failure::failed(format!("cannot write to {}", run.folder.display()))
            .cause(error.to_string())
    };
    if run.folder.join(config::FILE).exists() {
        return Err(
            Failure::input(format!("{} is a project", run.folder.display()))
                .hint("give --keep a folder that is empty"),
        );
    }
    std::fs::create_dir_all(&run.folder).map_err(refuse)?;
    let text = format!(
        "# Made by `springtide demo`. The site that it kept a copy of is gone.\n\
         [budget]\npolls = \"{}\"\naudit = \"{AUDIT}\"\n\n\
         [policy]\nname = \"{}\"\n\n\
         [http]\nallow_private = [\"127.0.0.0/8\"]\n\n\
         [[group]]\nmatch = \"127.0.0.1\"\nkey = \"host\"\nrate = \"500/s\"\nconcurrency = 4\n\n\
         [source.demo]\nkind = \"sitemap\"\nurl = \"{}\"\n",
        args.budget.0,
        run.policy,
        origin.url("/sitemap.xml"),
    );
    std::fs::write(run.folder.join(config::FILE), text).map_err(refuse)
}

/// An engine at work, seen from the site.
struct Watched {
    policy: &'static str,
    name: PolicyName,
    folder: PathBuf,
    /// When each page was last fetched.
    polled_at: Vec<Option<SystemTime>>,
    n_polls: u64,
    n_changes: u64,
    /// Since every page was there.
    measured_from: Option<Moment>,
    sum: f64,
    n_ticks: u64,
}

impl Watched {
    fn hear(&mut self, event: Event, site: &Site) {
        match event {
            Event::Polled(polled) => {
                self.n_polls += 1;
                self.n_changes += u64::from(polled.change == Some(ChangeKind::Changed));
                let path = url::Url::parse(&polled.locator).ok();
                let page = path.and_then(|url| site.page(url.path()));
                if let (Some(page), None) = (page, &polled.error) {
                    self.polled_at[page] = Some(clock::wall_time(polled.at));
                }
            }
            Event::FirstPassDone { .. } if self.polled_at.iter().all(Option::is_some) => {
                self.measured_from.get_or_insert_with(|| site.clock().now());
            }
            _ => {}
        }
    }

    /// The share of pages whose copy is as the page is now.
    fn true_freshness(&self, site: &Site, now: SystemTime) -> f64 {
        let is_fresh = |(page, polled_at): (usize, &Option<SystemTime>)| {
            polled_at.is_some_and(|at| site.version_at(page, at) == site.version_at(page, now))
        };
        let n_fresh = self
            .polled_at
            .iter()
            .enumerate()
            .filter(|page| is_fresh(*page));
        n_fresh.count() as f64 / self.polled_at.len().max(1) as f64
    }

    fn tick(&mut self, site: &Site) {
        if self.measured_from.is_some() {
            self.sum += self.true_freshness(site, site.clock().wall_time());
            self.n_ticks += 1;
        }
    }

    /// What audit polls say: the share of fresh copies, and a 90 % interval.
    fn measured(&self) -> Outcome<Option<(f64, f64, f64)>> {
        let Some(since) = self.measured_from else {
            return Ok(None);
        };
        let project = Project {
            folder: self.folder.clone(),
        };
        let store = project.read()?;
        let audits = store
            .audits(since)
            .map_err(|error| project.refuse(&error))?;
        let n_fresh = audits.iter().filter(|audit| audit.is_fresh).count() as u64;
        let n = audits.len() as u64;
        Ok(share_interval(n_fresh, n, 0.9)
            .ok()
            .filter(|_| n > 0)
            .map(|(low, high)| (n_fresh as f64 / n as f64, low, high)))
    }

    fn part(&self) -> Outcome<Part> {
        let measured = self.measured()?;
        Ok(Part {
            freshness_true: (self.n_ticks > 0).then(|| self.sum / self.n_ticks as f64),
            freshness_measured: measured.map(|(share, ..)| share),
            low: measured.map(|(_, low, _)| low),
            high: measured.map(|(.., high)| high),
            n_polls: self.n_polls,
            n_changes: self.n_changes,
        })
    }
}

/// Runs both engines and tells how they do, if anyone wants to know.
fn watch_both(
    runs: &mut [Watched; 2],
    origin: &Origin,
    span: Duration,
    signals: &Signals,
    say: Option<&dyn Fn(String)>,
) -> Outcome<()> {
    let mut engines = Vec::new();
    let (sender, mut events) = mpsc::unbounded_channel();
    for (number, run) in runs.iter().enumerate() {
        let project = Project {
            folder: run.folder.clone(),
        };
        let mut config = project.config(&SettingFlags::default(), Talk::Quiet)?;
        // Whatever a variable says: the two are to differ in this, and in nothing else.
        config.settings.policy.name = run.name.clone();
        let options = RunOptions {
            span: Some(span),
            ..RunOptions::default()
        };
        // All go by one clock: what was true when is compared.
        let outside = Outside {
            clock: origin.clock(),
            ..live::outside(&config.settings)?
        };
        engines.push((number, project.folder, config.settings, options, outside));
    }
    let runtime = live::runtime()?;
    runtime.block_on(async {
        let mut running = tokio::task::JoinSet::new();
        let mut handles = Vec::new();
        for (number, folder, settings, options, outside) in engines {
            let sender = sender.clone();
            let (handle, controls) = handle();
            let mut heard = handle.events();
            handles.push(handle);
            running.spawn(async move {
                let forward = tokio::spawn(async move {
                    while let Some(told) = heard.next().await {
                        if let Heard::Event(event) = told {
                            // Nobody listens only once everything is over.
                            let _ = sender.send((number, event));
                        }
                    }
                });
                let ended =
                    springtide_engine::run(&folder, settings, options, controls, outside).await;
                let _ = forward.await;
                ended
            });
        }
        drop(sender);
        signals.on_stop(move || handles.iter().for_each(Handle::stop));
        let begun = Instant::now();
        let mut ticks = tokio::time::interval(TICK);
        let mut next_line = LINE;
        if let Some(say) = say {
            say(HEAD.to_owned());
        }
        loop {
            tokio::select! {
                ended = running.join_next() => match ended {
                    None => return Ok(()),
                    Some(Ok(Ok(_))) => {}
                    Some(Ok(Err(error))) => return Err(live::broken(Path::new("the demo"), error)),
                    Some(Err(error)) => {
                        return Err(Failure::failed("cannot go on").cause(error.to_string()));
                    }
                },
                Some((number, event)) = events.recv() => runs[number].hear(event, origin.site()),
                _ = ticks.tick() => {
                    for run in runs.iter_mut() {
                        run.tick(origin.site());
                    }
                    if let Some(say) = say
                        && begun.elapsed() >= next_line
                    {
                        next_line += LINE;
                        say(line(begun.elapsed(), runs, origin.site())?);
                    }
                }
            }
        }
    })
}

const HEAD: &str = "\n  time  policy     polls  truly fresh          measured";

/// Two lines of the live table, one for each policy.
fn line(elapsed: Duration, runs: &[Watched; 2], site: &Site) -> Outcome<String> {
    let now = site.clock().wall_time();
    let mut lines = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let time = match index {
            0 => brief(elapsed.as_secs_f64().round()),
            _ => String::new(),
        };
        let measured = match run.measured()? {
            Some((share, low, high)) => {
                format!("{} ({} to {})", percent(share), percent(low), percent(high))
            }
            None => "first pass".to_owned(),
        };
        let fresh = run.true_freshness(site, now);
        lines.push(format!(
            "{time:>6}  {:8} {:>7} {:>6} {}  {measured}",
            run.policy,
            count(run.n_polls as usize),
            percent(fresh),
            bar(fresh),
        ));
    }
    Ok(lines.join("\n"))
}

/// A share as a bar of ten.
fn bar(share: f64) -> String {
    let full = (share * 10.0).round().clamp(0.0, 10.0) as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(10 - full))
}

fn print(document: &Document, colour: Colour) -> Outcome<()> {
    let or_none = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    let mut columns = Columns::new(&[
        ("policy", Side::Left),
        ("truly fresh", Side::Right),
        ("measured", Side::Right),
        ("90% interval", Side::Right),
        ("polls", Side::Right),
        ("changes found", Side::Right),
    ]);
    for (name, part) in [("learned", document.learned), ("uniform", document.uniform)] {
        columns.push(vec![
            name.to_owned(),
            or_none(part.freshness_true),
            or_none(part.freshness_measured),
            match (part.low, part.high) {
                (Some(low), Some(high)) => format!("{} to {}", percent(low), percent(high)),
                _ => "-".to_owned(),
            },
            count(part.n_polls as usize),
            count(part.n_changes as usize),
        ]);
    }
    let mut stdout = std::io::stdout().lock();
    std::io::Write::write_all(&mut stdout, b"\n")
        .map_err(|error| unwritable("standard output", &error))?;
    drop(stdout);
    columns.print(colour)?;
    if let (Some(learned), Some(uniform)) = (
        document.learned.freshness_true,
        document.uniform.freshness_true,
    ) {
        let stale = 100.0 * (1.0 - learned) / (1.0 - uniform).max(1e-9);
        let line = format!(
            "\nSame site, same budget: {stale:.0} stale copies with springtide\n\
             for every 100 with uniform polling.\n"
        );
        let mut stdout = std::io::stdout().lock();
        std::io::Write::write_all(&mut stdout, line.as_bytes())
            .map_err(|error| unwritable("standard output", &error))?;
    }
    Ok(())
}
