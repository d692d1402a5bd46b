use serde_json::Value;

use crate::{Place, cells, column, repository};

const FIVE: &str = "id,rate_per_day\na,1\nb,2\nc,3\nd,4\ne,5\n";

#[test]
fn the_paper_s_example_comes_out() {
    let ran = Place::with("rates.csv", FIVE)
        .run("plan --rates rates.csv --budget 5/day")
        .ok();
    assert!(
        ran.stdout
            .starts_with("id,frequency_per_day,freshness,age_days\na,1.1498")
    );
    let rounded: Vec<String> = column(&ran.stdout, 1)
        .iter()
        .map(|f| format!("{f:.2}"))
        .collect();
    assert_eq!(rounded, ["1.15", "1.36", "1.35", "1.14", "0.00"]);
    assert_eq!(cells(&ran.stdout)[4], ["e", "0.0", "0.0", "inf"]);
    insta::assert_snapshot!(ran.stderr, @r"
      elements            5; 1 that changes is never polled
      plan                optimal for freshness, fixed order
      budget              5 a day
      predicted freshness 37.4%
      predicted age       infinite: some elements are never polled
      uniform would give  freshness 36.5%, age 6h 6m
    ");
}

#[test]
fn json_is_one_document_and_nothing_else() {
    let place = Place::with("rates.csv", FIVE);
    let ran = place
        .run("plan --rates rates.csv --budget 5/day --json --out plan.csv")
        .ok();
    assert_eq!(ran.stderr, "");
    let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
    let keys: Vec<_> = summary.as_object().unwrap().keys().cloned().collect();
    let mut expected = vec![
        "n_elements",
        "n_unpolled",
        "budget_per_day",
        "used_per_day",
        "objective",
        "policy",
        "order",
        "freshness",
        "age_days",
        "content_staleness",
        "price",
    ];
    expected.sort_unstable();
    let mut found = keys;
    found.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(summary["n_unpolled"], 1);
    assert_eq!(summary["age_days"], Value::Null);
    assert_eq!(summary["content_staleness"], Value::Null);
    assert_eq!(summary["policy"], "optimal");
    assert!((summary["used_per_day"].as_f64().unwrap() / 5.0 - 1.0).abs() < 1e-12);
    assert_eq!(place.read("plan.csv").lines().count(), 6);

    let ran = place
        .run("plan --rates rates.csv --budget 5/day --policy uniform --json --out plan.csv")
        .ok();
    let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(summary["price"], Value::Null);
    place
        .run("plan --rates rates.csv --budget 5/day --json")
        .failed(2, &["--json needs --out"]);
}

#[test]
fn every_format_goes_in_and_out() {
    let place = Place::with(
        "rates.csv",
        "id,rate_per_day,weight\na,1,2\n\"b,\"\"c\",0.25,0.5\n",
    );
    let plain = place
        .run("plan --rates rates.csv --budget 3/day -q")
        .ok()
        .stdout;
    assert!(plain.contains("\n\"b,\"\"c\","));
    for ending in ["csv", "csv.gz", "csv.zst", "parquet"] {
        place
            .run(&format!(
                "plan --rates rates.csv --budget 3/day -q --out first.{ending}"
            ))
            .ok();
    }
    // A plan has no rates, but `estimate` reads ids and makes a table that `plan`
    // reads: every format goes round.
    let polls = "id,elapsed_days,changed\na,1,1\na,1,0\nb,2,0\nb,2,1\n";
    let place = place.and("polls.csv", polls);
    let expected = place
        .run("estimate --observations polls.csv --out rates2.csv")
        .ok();
    assert_eq!(expected.stdout, "");
    let direct = place
        .run("plan --rates rates2.csv --budget 3/day -q")
        .ok()
        .stdout;
    for ending in ["csv.gz", "csv.zst", "parquet"] {
        place
            .run(&format!(
                "estimate --observations polls.csv --out again.{ending}"
            ))
            .ok();
        let again = place
            .run(&format!("plan --rates again.{ending} --budget 3/day -q"))
            .ok();
        assert_eq!(again.stdout, direct, "{ending}");
        let bytes = std::fs::read(place.path(&format!("again.{ending}"))).unwrap();
        let piped = place
            .run_with("plan --rates - --budget 3/day -q", &bytes)
            .ok();
        assert_eq!(piped.stdout, direct, "{ending} from standard input");
    }
}

#[test]
fn least_budgets_reach_their_targets() {
    let place = Place::with("rates.csv", FIVE);
    let summary = |line: &str| -> Value {
        let ran = place.run(&format!(
            "plan --rates rates.csv {line} --json --out plan.csv"
        ));
        serde_json::from_str(&ran.ok().stdout).unwrap()
    };
    let fresh = summary("--target-freshness 80%");
    assert!((fresh["freshness"].as_f64().unwrap() - 0.8).abs() < 1e-9);
    let again = summary(&format!("--budget {}/day", fresh["budget_per_day"]));
    assert!((again["freshness"].as_f64().unwrap() - 0.8).abs() < 1e-9);
    let young = summary("--target-age 1h");
    assert_eq!(young["objective"], "age");
    assert!((young["age_days"].as_f64().unwrap() * 24.0 - 1.0).abs() < 1e-9);
    place
        .run("plan --rates rates.csv --target-freshness 100%")
        .failed(2, &["no budget reaches this target"]);
    place
        .run("plan --rates rates.csv --target-age 1h --objective freshness")
        .failed(2, &["do not go together"]);
}

#[test]
fn caps_hold_and_the_rest_goes_to_others() {
    let rates = "id,rate_per_day,group\na,1,x\nb,1,x\nc,1,y\nd,1,\n";
    let place = Place::with("rates.csv", rates).and("caps.csv", "group,budget_per_day\nx,1\n");
    let ran = place
        .run("plan --rates rates.csv --budget 9/day --caps caps.csv -q")
        .ok();
    let frequencies = column(&ran.stdout, 1);
    for (frequency, expected) in frequencies.iter().zip([0.5, 0.5, 4.0, 4.0]) {
        assert!((frequency - expected).abs() < 1e-9, "{frequencies:?}");
    }
    let place = place.and("caps.csv", "group,budget_per_day\nz,1\n");
    place
        .run("plan --rates rates.csv --budget 9/day --caps caps.csv")
        .failed(
            2,
            &[
                "cannot read caps.csv",
                "line 2: no element is in group \"z\"",
            ],
        );
    let place = place.and("caps.csv", "group,budget_per_day\nx,1\nx,2\n");
    place
        .run("plan --rates rates.csv --budget 9/day --caps caps.csv")
        .failed(2, &["line 3: group \"x\" is named twice"]);
}

#[test]
fn a_floor_is_held_or_shared() {
    let place = Place::with("rates.csv", "id,rate_per_day\na,0\nb,0.001\nc,1\n");
    let ran = place
        .run("plan --rates rates.csv --budget 1/day --floor 36.525/year -q")
        .ok();
    let frequencies = column(&ran.stdout, 1);
    assert!((frequencies[0] - 0.1).abs() < 1e-15 && frequencies[0] == frequencies[1]);
    assert!((frequencies[2] - 0.8).abs() < 1e-9);
    let ran = place
        .run("plan --rates rates.csv --budget 0.03/day --floor 36.525/year -q")
        .ok();
    for frequency in column(&ran.stdout, 1) {
        assert!((frequency - 0.01).abs() < 1e-12);
    }
}

#[test]
fn a_curve_has_every_policy_around_the_budget() {
    let place = Place::with("rates.csv", FIVE);
    let ran = place
        .run("plan --rates rates.csv --budget 5/day --curve")
        .ok();
    assert!(
        ran.stdout
            .starts_with("budget_per_day,policy,freshness,age_days\n")
    );
    let rows = cells(&ran.stdout);
    assert_eq!(rows.len(), 51);
    let at_budget: Vec<_> = rows.iter().filter(|row| row[0] == "5.0").collect();
    assert_eq!(at_budget.len(), 3);
    let fresh = |policy: &str| -> f64 {
        let row = at_budget.iter().find(|row| row[1] == policy).unwrap();
        row[2].parse().unwrap()
    };
    assert!((fresh("optimal") - 0.373_889).abs() < 1e-6);
    assert!((fresh("uniform") - 0.365_053).abs() < 1e-6);
    assert!((fresh("proportional") - 0.316_738).abs() < 1e-6);
    for out in ["", " --out -"] {
        let ran = place.run(&format!(
            "plan --rates rates.csv --budget 5/day --curve --json{out}"
        ));
        let points: Value = serde_json::from_str(&ran.ok().stdout).unwrap();
        assert_eq!(points.as_array().unwrap().len(), 51);
    }
    let line = "plan --rates rates.csv --budget 5/day --curve --json --out curve.csv";
    let summary: Value = serde_json::from_str(&place.run(line).ok().stdout).unwrap();
    assert_eq!(summary["n_elements"], 5);
    assert_eq!(place.read("curve.csv").lines().count(), 52);
}

#[test]
fn the_order_changes_what_a_plan_gives_but_not_the_plan() {
    let place = Place::with("rates.csv", FIVE);
    let plan = |order: &str| {
        let line = format!("plan --rates rates.csv --budget 5/day -q --order {order}");
        place.run(&line).ok().stdout
    };
    let (fixed, random) = (plan("fixed"), plan("purely-random"));
    assert_eq!(column(&fixed, 1), column(&random, 1));
    assert!(column(&fixed, 2)[0] > column(&random, 2)[0]);
}

#[test]
fn odd_worlds_have_plans() {
    let place = Place::with("still.csv", "id,rate_per_day\na,0\nb,0\n")
        .and("light.csv", "id,rate_per_day,weight\na,1,0\n")
        .and("one.csv", "id,rate_per_day\na,3\n");
    let ran = place.run("plan --rates still.csv --budget 5/day -q").ok();
    assert_eq!(
        cells(&ran.stdout),
        [["a", "0.0", "1.0", "0.0"], ["b", "0.0", "1.0", "0.0"]]
    );
    let ran = place.run("plan --rates light.csv --budget 5/day -q").ok();
    assert_eq!(cells(&ran.stdout), [["a", "0.0", "0.0", "inf"]]);
    let ran = place.run("plan --rates one.csv --budget 5/day -q").ok();
    assert!((column(&ran.stdout, 1)[0] - 5.0).abs() < 1e-9);
    let ran = place.run("plan --rates one.csv --budget 0/day -q").ok();
    assert_eq!(column(&ran.stdout, 1), [0.0]);
    let ran = place
        .run("plan --rates still.csv --budget 5/day --policy uniform -q")
        .ok();
    assert_eq!(column(&ran.stdout, 1), [2.5, 2.5]);
}

#[test]
fn the_shipped_example_is_planned() {
    let rates = repository().join("examples/rates.csv");
    let caps = repository().join("examples/caps.csv");
    let (rates, caps) = (rates.display(), caps.display());
    let place = Place::new();
    let ran = place
        .run(&format!(
            "plan --rates {rates} --budget 100/day --caps {caps}"
        ))
        .ok();
    let used: f64 = column(&ran.stdout, 1).iter().sum();
    assert!((used - 100.0).abs() < 1e-7);
    let polls = repository().join("examples/polls.csv");
    let ran = place
        .run(&format!("estimate --observations {}", polls.display()))
        .ok();
    assert!(ran.stdout.lines().count() > 50);
}

#[test]
fn help_names_every_flag() {
    let help = Place::new().run("plan --help").ok().stdout;
    for flag in [
        "--rates",
        "--budget",
        "--target-freshness",
        "--target-age",
        "--objective",
        "--policy",
        "--order",
        "--caps",
        "--floor",
        "--curve",
        "--out",
        "--json",
        "--quiet",
        "--verbose",
    ] {
        assert!(help.contains(flag), "{flag}");
    }
}
