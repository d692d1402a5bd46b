//! Serves a site on loopback until standard input ends, for benches and for trying
//! things out: `cargo run --release -p springtide-engine --example origin -- 20000 0`.
//!
//! The first number is how many pages it has, the second how often each changes, per
//! day. Prints the address of its sitemap.

use std::io::Read;

use springtide_engine::origin::{Origin, SiteSettings};
use springtide_policy::Rate;

#[expect(
    clippy::print_stdout,
    reason = "whoever started it wants to know where it is"
)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let n_pages: usize = arguments.next().unwrap_or_else(|| "200".into()).parse()?;
    let per_day: f64 = arguments.next().unwrap_or_else(|| "0".into()).parse()?;
    let origin = Origin::start(SiteSettings {
        rates: vec![Rate::per_day(per_day)?; n_pages],
        ..SiteSettings::default()
    })?;
    println!("{}", origin.url("/sitemap.xml"));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
