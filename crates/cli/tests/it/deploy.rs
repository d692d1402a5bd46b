//! What `deploy/` has for others' programs, as those programs see it.

use std::collections::BTreeSet;
use std::process::Command;

use crate::live::origin;
use crate::serving::{Serving, all_polled, project};
use crate::{Place, repository, say_skipped};

fn deployed(name: &str) -> String {
    std::fs::read_to_string(repository().join("deploy").join(name)).unwrap()
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    systemd_takes(&[("springtide.service", &deployed("springtide.service"))]);
}

#[test]
fn the_units_of_the_guide_are_ones_that_systemd_takes() {
    let guide = repository().join("docs/guides/service.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let units: Vec<(&str, &str)> = guide
        .split("`/etc/systemd/system/")
        .skip(1)
        .map(|part| {
            let (name, rest) = part.split_once('`').unwrap();
            let (_, rest) = rest.split_once("```ini\n").unwrap();
            (name, rest.split_once("```").unwrap().0)
        })
        .collect();
    assert_eq!(units.len(), 3, "{units:?}");
    systemd_takes(&units);
}

#[test]
fn the_image_runs_as_a_service() {
    let image = std::fs::read_to_string(repository().join("Dockerfile")).unwrap();
    assert!(image.contains("ENTRYPOINT [\"springtide\"]\n"), "{image}");
    assert!(image.ends_with("CMD [\"run\", \"--service\"]\n"), "{image}");
}

/// That systemd finds nothing wrong with units.
fn systemd_takes(units: &[(&str, &str)]) {
    let place = Place::new();
    let mut verify = Command::new("systemd-analyze");
    verify.arg("verify");
    for (name, unit) in units {
        let program = "/usr/local/bin/springtide";
        assert!(
            !name.ends_with(".service") || unit.contains(program),
            "{unit}"
        );
        // It looks whether there is such a program.
        let unit = unit.replace(program, env!("CARGO_BIN_EXE_springtide"));
        std::fs::write(place.path(name), unit).unwrap();
        verify.arg(place.path(name));
    }
    let Ok(output) = verify.output() else {
        return say_skipped("units of systemd", "there is no systemd-analyze");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for (name, _) in units {
        assert!(!said.contains(name), "{said}");
    }
}

#[test]
fn alerts_fire_on_missed_targets_and_on_silence_and_otherwise_not() {
    let rules = repository().join("deploy/alerts.test.yml");
    let mut test = Command::new("promtool");
    test.args(["test", "rules"]).arg(rules);
    let Ok(output) = test.output() else {
        return say_skipped(
            "whether alerts fire",
            "there is no promtool, of Debian's prometheus",
        );
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
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
