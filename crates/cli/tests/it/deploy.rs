//! What `deploy/` has for others' programs, as those programs see it.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Command;

use crate::live::origin;
use crate::serving::{Serving, all_polled, project};
use crate::{Place, repository};

fn deployed(name: &str) -> String {
    std::fs::read_to_string(repository().join("deploy").join(name)).unwrap()
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let unit = deployed("springtide.service");
    let program = "/usr/local/bin/springtide";
    assert!(unit.contains(program), "{unit}");
    // It looks whether there is such a program.
    let unit = unit.replace(program, env!("CARGO_BIN_EXE_springtide"));
    let place = Place::with("springtide.service", unit);
    let mut verify = Command::new("systemd-analyze");
    verify.arg("verify").arg(place.path("springtide.service"));
    let Ok(output) = verify.output() else {
        // Past what the test's own output is caught by.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: the unit of systemd (there is no systemd-analyze)"
        );
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("springtide.service"), "{said}");
}

/// The names of metrics in a text, as they are without what Prometheus puts behind those of
/// histograms.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c| !is_of_name(c));
    let names = words.filter(|word| word.starts_with("springtide_"));
    names
        .map(|name| {
            let endings = ["_bucket", "_sum", "_count"];
            let mut bare = endings.iter().filter_map(|end| name.strip_suffix(end));
            bare.next().unwrap_or(name).to_owned()
        })
        .collect()
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_there_are() {
    let origin = origin(3);
    let place = project(&origin, "");
    let serving = Serving::start(&place, "");
    serving.until("all are polled", all_polled(3));
    let metrics = serving.get("/metrics").body;
    for file in ["grafana.json", "alerts.yml"] {
        let asked = metrics_in(&deployed(file));
        assert!(asked.len() > 1, "{file}: {asked:?}");
        for name in asked {
            let is_there = metrics.contains(&format!("# TYPE {name} "));
            assert!(is_there, "{file}: {name}");
        }
    }
    serde_json::from_str::<serde_json::Value>(&deployed("grafana.json")).unwrap();
}
