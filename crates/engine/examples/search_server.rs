//! Serves a shop with a search box on loopback, for benches and for trying things out:
//! `cargo run --release -p springtide-engine --example search_server -- --port 8099
//! --rows 20000 --rate 2 --limit 10/s --rows-csv rows.csv --local 500`.
//!
//! - `--port N`: where it listens; 0, which is the default, takes a free port
//! - `--rows N`: how many rows it has, 1000 by default
//! - `--seed N`: what rows, changes and ranks follow from
//! - `--rate N`: how often a row changes on average, per day
//! - `--page-size N`, `--top N`: results on a page, and on all pages of a query
//! - `--limit N/s`: requests in any second (`min`, `hour`, `day`) that are not refused
//! - `--totals exact|rounded|capped|absent`: how it says how many rows a query finds
//! - `--rows-csv FILE`, `--local N`: writes the first N rows, all by default, as a list
//!   of one's own
//! - `--for SECONDS`: stops by itself; otherwise at Ctrl-C
//!
//! Prints the addresses of its queries and of its rows.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use springtide_engine::origin::search::{Limit, Rates, SearchServer, SearchSettings, Totals};
use springtide_policy::Rate;

type Failure = Box<dyn std::error::Error>;

/// What was typed.
struct Arguments {
    port: u16,
    settings: SearchSettings,
    rows_csv: Option<String>,
    n_local: Option<usize>,
    runs_for: Option<Duration>,
}

#[expect(
    clippy::print_stdout,
    reason = "whoever started it wants to know where it is"
)]
fn main() -> Result<(), Failure> {
    let arguments = parse(std::env::args().skip(1))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let server = SearchServer::start_at(address, arguments.settings)?;
    if let Some(file) = arguments.rows_csv {
        let catalogue = server.catalogue();
        let n_rows = arguments.n_local.unwrap_or(usize::MAX);
        let rows = 0..n_rows.min(catalogue.n_rows());
        std::fs::write(file, catalogue.csv(rows, SystemTime::now()))?;
    }
    println!("{}", server.search_url());
    println!("{}", server.item_url());
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let end = tokio::time::sleep(arguments.runs_for.unwrap_or(Duration::MAX));
            tokio::select! {
                () = end => Ok(()),
                stopped = tokio::signal::ctrl_c() => stopped,
            }
        })?;
    println!("{} requests", server.n_requests());
    Ok(())
}

fn parse(mut typed: impl Iterator<Item = String>) -> Result<Arguments, Failure> {
    let mut arguments = Arguments {
        port: 0,
        settings: SearchSettings::default(),
        rows_csv: None,
        n_local: None,
        runs_for: None,
    };
    let settings = &mut arguments.settings;
    while let Some(name) = typed.next() {
        let value = typed.next().ok_or_else(|| format!("{name} of what?"))?;
        match name.as_str() {
            "--port" => arguments.port = value.parse()?,
            "--rows" => settings.n_rows = value.parse()?,
            "--seed" => settings.seed = value.parse()?,
            "--rate" => {
                let mean = Rate::per_day(value.parse()?)?;
                settings.rates = Rates::Drawn { mean };
            }
            "--page-size" => settings.page_size = value.parse()?,
            "--top" => settings.top = value.parse()?,
            "--limit" => settings.limit = Some(limit(&value)?),
            "--totals" => settings.totals = totals(&value)?,
            "--rows-csv" => arguments.rows_csv = Some(value),
            "--local" => arguments.n_local = Some(value.parse()?),
            "--for" => {
                arguments.runs_for = Some(Duration::try_from_secs_f64(value.parse()?)?);
            }
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    Ok(arguments)
}

fn limit(typed: &str) -> Result<Limit, Failure> {
    let (n, unit) = typed.split_once('/').unwrap_or((typed, "s"));
    let seconds = match unit {
        "s" => 1,
        "min" => 60,
        "hour" => 3600,
        "day" => 86_400,
        _ => return Err(format!("unknown unit {unit}: s, min, hour or day").into()),
    };
    Ok(Limit {
        n: n.parse()?,
        span: Duration::from_secs(seconds),
    })
}

fn totals(typed: &str) -> Result<Totals, Failure> {
    Ok(match typed {
        "exact" => Totals::Exact,
        "rounded" => Totals::Rounded,
        "capped" => Totals::Capped,
        "absent" => Totals::Absent,
        _ => return Err(format!("unknown totals {typed}").into()),
    })
}
