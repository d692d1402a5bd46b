use std::io::Write as _;

use crate::{Place, say_skipped};

const SITES: &str = "site_id,name\n1,a\n2,b\n";
const PAGES: &str = "page_id,site_id,path,created_h,deleted_h,n_changes
10,1,docs/a.html,-1,,2
11,1,docs/b.html,-1,,0
12,2,index.html,24,72,1
13,2,x/y/z.html,48,48,1
";
const CHANGES: &str = "page_id,hour\n10,6\n10,30\n12,24\n13,48\n";

fn history(sites: &str, pages: &str, changes: &str) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("h")).unwrap();
    place
        .and("h/sites.csv", sites)
        .and("h/pages.csv", pages)
        .and("h/changes.csv", changes)
}

fn rates() -> Place {
    let rows: String = (0..200)
        .map(|row| {
            format!(
                "e{row},{},{}\n",
                0.05 * f64::from(1 + row % 40),
                1 + row % 3
            )
        })
        .collect();
    Place::with("rates.csv", format!("id,rate_per_day,weight\n{rows}"))
}

/// A field of each object of the JSON array.
fn field(json: &str, name: &str) -> Vec<serde_json::Value> {
    let rows: Vec<serde_json::Value> = serde_json::from_str(json).unwrap();
    rows.iter().map(|row| row[name].clone()).collect()
}

#[test]
fn a_policy_is_one_object_with_these_fields_in_this_order() {
    let place = history(SITES, PAGES, CHANGES);
    let ran = place
        .run("simulate --history h --policy uniform --budget 1/day --json")
        .ok();
    insta::assert_snapshot!(ran.stdout, @r#"
    [
      {
        "policy": "uniform",
        "seed": 1,
        "n_elements": 4,
        "n_polls": 3,
        "budget_per_day": 1.0,
        "freshness": 0.578125,
        "age_days": 0.3330078125,
        "content_staleness": 0.3330078125,
        "change_ratio": 0.6666666666666666,
        "fairness": 0.3333333333333333
      }
    ]
    "#);
}

#[test]
fn pages_that_are_there_throughout_can_be_asked_for() {
    let place = history(SITES, PAGES, CHANGES);
    let run = |words: &str| {
        let line = format!("simulate --history h --policy uniform --budget 1/day --json {words}");
        field(&place.run(&line).ok().stdout, "n_elements")[0].clone()
    };
    assert_eq!(run(""), 4);
    assert_eq!(run("--pages all"), 4);
    assert_eq!(run("--pages alive"), 2);
    // Neither of the two later pages is born on the first day.
    assert_eq!(run("--span 1d"), 2);
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let place = rates();
    let run = |threads: &str, seed: u32| {
        let line = format!(
            "simulate --rates rates.csv --policy uniform,proportional,optimal,learned,nutch,\
             sample-greedy,frequency,oracle --budget 100/day --span 200d --cycle 5d --seed {seed} \
             --order random --json"
        );
        let mut command = place.command(&line);
        let output = command.env("RAYON_NUM_THREADS", threads).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run("1", 5), run("3", 5));
    assert_ne!(run("1", 5), run("1", 6));
}

#[test]
fn optimal_beats_uniform_beats_proportional_and_learned_comes_close() {
    let place = rates();
    let line = "simulate --rates rates.csv --policy optimal,learned,uniform,proportional \
                --budget 60/day --span 400d --warmup 100d --json";
    let freshness: Vec<f64> = field(&place.run(line).ok().stdout, "freshness")
        .iter()
        .map(|freshness| freshness.as_f64().unwrap())
        .collect();
    assert!(freshness.is_sorted_by(|a, b| a > b), "{freshness:?}");
}

#[test]
fn every_policy_has_the_same_budget() {
    let place = rates();
    let line = "simulate --rates rates.csv --budget 100/day --span 90d --json --policy \
                uniform,proportional,optimal,learned,round-robin,sample-proportional,\
                sample-greedy,sample-adaptive,round-robin-greedy,frequency,oracle,nutch,\
                stormcrawler,miniflux,fixed-interval --cycle 1d";
    let ran = place.run(line).ok();
    let names = field(&ran.stdout, "policy");
    for (policy, n_polls) in names.iter().zip(field(&ran.stdout, "n_polls")) {
        let n_polls = n_polls.as_f64().unwrap();
        assert!((n_polls - 9000.0).abs() <= 100.0, "{policy}: {n_polls}");
    }
}

#[test]
fn a_span_beyond_the_history_is_allowed_and_warned_of() {
    let place = history(SITES, PAGES, CHANGES);
    let ran = place
        .run("simulate --history h --policy uniform --budget 1/day --span 400d")
        .ok();
    assert!(
        ran.stderr.contains("nothing is known to change after it"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_table_reads_well_without_colour() {
    let place = history(SITES, PAGES, CHANGES);
    let ran = place
        .run("simulate --history h --policy uniform,nutch --budget 1/day --breakdown group")
        .ok();
    assert!(!ran.stdout.contains('\u{1b}'));
    insta::assert_snapshot!(ran.stdout, @r#"
    policy   freshness  staleness against uniform     age  content  change ratio  fairness  polls
    uniform      57.8%                     100.0%      8h       8h         66.7%     33.3%      3
      1          77.1%                             2h 39m   2h 39m         66.7%    100.0%      3
      2           0.0%                                 1d       1d             -      0.0%      0
    nutch        56.2%                     103.7%  8h 26m   8h 26m         66.7%     33.3%      3
      1          75.0%                             3h 15m   3h 15m         66.7%    100.0%      3
      2           0.0%                                 1d       1d             -      0.0%      0
    "#);
}

#[test]
fn a_table_is_kept_block_by_block_with_a_cursor_or_as_people_do() {
    let place = Place::with(
        "table.toml",
        "kind = \"table\"\nrows = 2000\nhot_rows = 200\n",
    );
    let run = |rest: &str| {
        place.run(&format!(
            "simulate --world table.toml --budget 50/day {rest}"
        ))
    };
    let all = "--policy uniform,learned,learned+digests,learned+cursor,learned+digests+cursor,\
               full-copy,cursor-only --span 30d --warmup 10d";
    let ran = run(&format!("{all} --json")).ok();
    let stale: Vec<f64> = field(&ran.stdout, "freshness")
        .iter()
        .map(|freshness| 1.0 - freshness.as_f64().unwrap())
        .collect();
    assert!(stale[1] < stale[0] && stale[3] < stale[1], "{stale:?}");
    let gone: Vec<f64> = (field(&ran.stdout, "gone").iter())
        .map(|gone| gone.as_f64().unwrap())
        .collect();
    assert!(gone[6] > 10.0 * gone[3], "{gone:?}");
    let budgets = field(&ran.stdout, "budget_per_day");
    assert_eq!(
        (&budgets[0], &budgets[5]),
        (&50.0.into(), &serde_json::Value::Null)
    );
    assert_eq!(field(&ran.stdout, "n_cursor_polls")[6], 1500);
    assert_eq!(ran.stdout, run(&format!("{all} --json")).ok().stdout);
    let table = run(all).ok().stdout;
    assert!(table.starts_with("policy"), "{table}");
    assert!(
        table.contains("against uniform") && table.contains("of which gone"),
        "{table}"
    );

    for (rest, complaint) in [
        ("--policy nutch", "is not for tables"),
        (
            "--policy learned --hints 70%,60%,1h",
            "--hints is not for tables",
        ),
        (
            "--policy learned --warmup 90d",
            "nothing is left to measure",
        ),
    ] {
        run(rest).failed(2, &[complaint]);
    }
    for (text, complaint) in [
        ("kind = \"tabel\"", "kind is"),
        ("kind = \"table\"\nrow = 5", "row"),
        ("kind = \"table\"\nrecall = 2", "recall is 2"),
    ] {
        let place = Place::with("table.toml", text);
        let line = "simulate --world table.toml --budget 50/day --policy learned";
        place.run(line).failed(2, &[complaint]);
    }
    rates()
        .run("simulate --rates rates.csv --budget 9/day --policy full-copy")
        .failed(2, &["is for tables"]);
}

#[test]
fn a_correlated_world_is_made_from_its_parameters() {
    let place = Place::with(
        "world.toml",
        "sites = 3\nelements_per_site = 50.0\nspan_days = 60.0\n",
    )
    .and("odd.toml", "sights = 3\n")
    .and("wrong.toml", "burst_share = 7\n");
    let line = "simulate --world world.toml --policy uniform,learned --budget 20/day --json";
    place.run(line).ok();
    place
        .run("simulate --world odd.toml --policy uniform --budget 20/day")
        .failed(2, &["odd.toml", "sights", "hint"]);
    place
        .run("simulate --world wrong.toml --policy uniform --budget 20/day")
        .failed(2, &["burst_share is 7"]);
}

#[track_caller]
fn refuse(sites: &str, pages: &str, changes: &str, words: &[&str]) {
    history(sites, pages, changes)
        .run("simulate --history h --policy uniform --budget 1/day")
        .failed(2, words);
}

#[test]
fn malformed_histories_are_errors_with_file_and_line() {
    let page = |row: &str| format!("{PAGES}{row}\n");
    let change = |rows: &str| format!("page_id,hour\n{rows}\n");
    refuse(
        SITES,
        PAGES,
        &change("10,6\n99,7"),
        &["h/changes.csv", "line 3", "no page \"99\""],
    );
    refuse(
        SITES,
        PAGES,
        &change("10,6\n10,30\n10,29"),
        &["h/changes.csv", "line 4", "29 after 30"],
    );
    refuse(
        SITES,
        PAGES,
        &change("10,6\n10,6"),
        &["line 3", "6 after 6"],
    );
    refuse(
        SITES,
        PAGES,
        &change("10,6\n12,24\n10,30"),
        &["line 4", "\"10\" comes again"],
    );
    refuse(
        SITES,
        PAGES,
        &change("12,23"),
        &["line 2", "before the page was created"],
    );
    refuse(
        SITES,
        PAGES,
        &change("12,73"),
        &["line 2", "after the page was deleted"],
    );
    refuse(
        SITES,
        PAGES,
        &change("10,-1"),
        &["line 2", "hour is \"-1\""],
    );
    refuse(
        SITES,
        &page("14,2,q,50,40,0"),
        CHANGES,
        &["h/pages.csv", "line 6", "deleted_h is 40", "created_h"],
    );
    refuse(
        SITES,
        &page("14,7,q,-1,,0"),
        CHANGES,
        &["line 6", "no site \"7\""],
    );
    refuse(SITES, &page("10,1,q,-1,,0"), CHANGES, &["line 6", "\"10\""]);
    refuse(
        SITES,
        &page("14,1,q,-2,,0"),
        CHANGES,
        &["line 6", "created_h"],
    );
    refuse(
        "site_id\n1\n2\n3\n",
        PAGES,
        CHANGES,
        &["site \"3\"", "line 4", "no pages"],
    );
    refuse("site_id\n", PAGES, CHANGES, &["h/sites.csv", "no sites"]);
    refuse(
        SITES,
        "page_id,site_id\n",
        CHANGES,
        &["h/pages.csv", "no column"],
    );
}

#[test]
fn a_truncated_gzip_is_an_error() {
    let place = history(SITES, PAGES, CHANGES);
    std::fs::remove_file(place.path("h/changes.csv")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(CHANGES.as_bytes()).unwrap();
    let whole = gzip.finish().unwrap();
    let line = "simulate --history h --policy uniform --budget 1/day";
    let place = place.and("h/changes.csv.gz", &whole);
    place.run(line).ok();
    let place = place.and("h/changes.csv.gz", &whole[..whole.len() - 9]);
    place
        .run(line)
        .failed(2, &["h/changes.csv.gz", "cut short"]);
}

#[test]
fn a_missing_table_is_named() {
    let place = history(SITES, PAGES, CHANGES);
    std::fs::remove_file(place.path("h/pages.csv")).unwrap();
    let line = "simulate --history h --policy uniform --budget 1/day";
    place.run(line).failed(2, &["no pages.csv"]);
    place
        .run("simulate --history none --policy uniform --budget 1/day")
        .failed(2, &["no such folder"]);
}

#[test]
fn a_count_that_does_not_fit_is_a_warning() {
    let pages = PAGES.replace("docs/b.html,-1,,0", "docs/b.html,-1,,4");
    let place = history(SITES, &pages, CHANGES);
    let line = "simulate --history h --policy uniform --budget 1/day";
    let ran = place.run(line).ok();
    assert!(ran.stderr.contains("line 3"), "{}", ran.stderr);
}

#[test]
fn a_start_with_nothing_held_begins_with_a_first_pass() {
    let place = rates();
    let run = |words: &str| {
        let line = format!(
            "simulate --rates rates.csv --policy uniform,learned --span 50d --json {words}"
        );
        let stdout = place.run(&line).ok().stdout;
        let numbers = |name: &str| -> Vec<f64> {
            let numbers = field(&stdout, name);
            numbers.iter().map(|n| n.as_f64().unwrap()).collect()
        };
        (
            numbers("n_polls"),
            numbers("freshness"),
            numbers("budget_per_day"),
        )
    };
    let (n_polls, warm, _) = run("--budget 20/day");
    let (n_free, free, _) = run("--budget 20/day --start cold");
    let (n_counted, counted, _) = run("--budget 20/day --start cold --first-pass counted");
    assert_eq!(n_polls[1], 1000.0);
    assert!((n_free[1] - 1000.0).abs() <= 1.0, "{n_free:?}");
    assert!((n_counted[1] - 1000.0).abs() <= 1.0, "{n_counted:?}");
    assert!(free[1] != warm[1] && counted[1] != free[1]);
    assert_eq!(run("--budget 20/day --start warm").1, warm);

    // The budget is another from the 25th day on, and then there is none.
    let (n_polls, _, budgets) = run("--budget 20/day,100/day@25d,0/day@30d");
    assert_eq!(budgets, [20.0; 2]);
    for n_polls in n_polls {
        assert!((n_polls - 1000.0).abs() <= 6.0, "{n_polls}");
    }
    for (budget, what) in [
        ("20/day,100/day", "@100d"),
        ("20/day,100/day@9d,5/day@3d", "later than"),
        ("20/day,100@9d", "per time"),
    ] {
        let line = format!("simulate --rates rates.csv --policy learned --budget {budget}");
        place.run(&line).failed(2, &[what]);
    }
}

#[test]
fn options_that_make_no_sense_together_are_refused_with_a_hint() {
    let place = rates().and("world.toml", "");
    for (words, what) in [
        (
            "--rates rates.csv --world world.toml --policy uniform",
            "cannot be used with",
        ),
        (
            "--rates rates.csv --policy uniform --pages alive",
            "--pages",
        ),
        ("--rates rates.csv --policy uniform,uniform", "twice"),
        (
            "--rates rates.csv --policy learned --order random",
            "--order",
        ),
        ("--rates rates.csv --policy uniform --cycle 30d", "--cycle"),
        ("--rates rates.csv --policy uniform --step 5", "--step"),
        ("--rates rates.csv --policy uniform --share 5%", "--share"),
        (
            "--rates rates.csv --policy uniform --hints 70%,60%,1h",
            "--hints",
        ),
        (
            "--rates rates.csv --policy learned --hints 0,60%,1h",
            "precision",
        ),
        (
            "--rates rates.csv --policy uniform --max-interval 0d",
            "--max-interval",
        ),
        (
            "--rates rates.csv --policy oracle --max-interval 30d",
            "--max-interval",
        ),
        (
            "--rates rates.csv --policy uniform --warmup 500d",
            "warm-up",
        ),
        ("--rates rates.csv --policy uniform --span 0d", "--span"),
        ("--rates rates.csv --policy nonesuch", "nonesuch"),
        (
            "--rates rates.csv --policy uniform --first-pass counted",
            "--start cold",
        ),
        (
            "--rates rates.csv --policy oracle --start cold --first-pass counted",
            "batches",
        ),
        ("--policy uniform", "required"),
    ] {
        let line = format!("simulate {words} --budget 10/day");
        place.run(&line).failed(2, &[what]);
    }
}

/// Two years of true changes of 29 sites, which lie beside the repository where it is
/// developed and are not part of it.
fn real_history() -> Option<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let folder = root.join("shared/data/history");
    if folder.is_dir() {
        return Some(folder);
    }
    let why = "there is none at shared/data/history";
    say_skipped("what needs a recorded history", why);
    None
}

#[test]
fn learned_is_the_best_on_real_histories() {
    let Some(history) = real_history() else {
        return;
    };
    const N_PAGES: f64 = 34_274.0;
    // Cycles in which a batch is not simply everything.
    for (days, cycle, most_stale) in [(120.0, 30, 0.92), (30.0, 7, 0.74), (7.0, 1, 0.56)] {
        let line = format!(
            "simulate --history {} --pages alive --warmup 5840h --budget {}/day --json \
             --cycle {cycle}d --policy \
             uniform,learned,round-robin,sample-proportional,sample-greedy,sample-adaptive,\
             round-robin-greedy,frequency,nutch,stormcrawler,miniflux,fixed-interval",
            history.display(),
            N_PAGES / days
        );
        let ran = Place::new().run(&line).ok();
        let numbers = |name: &str| -> Vec<f64> {
            let fields = field(&ran.stdout, name);
            fields
                .iter()
                .map(|number| number.as_f64().unwrap())
                .collect()
        };
        assert_eq!(numbers("n_elements")[0], N_PAGES);
        let (freshness, age) = (numbers("freshness"), numbers("age_days"));
        let stale = (1.0 - freshness[1]) / (1.0 - freshness[0]);
        assert!(stale <= most_stale, "{days} days: {stale}");
        assert!(age[1] <= age[0], "{days} days: {age:?}");
        let others = freshness[2..].iter().copied().fold(freshness[0], f64::max);
        assert!(freshness[1] > others, "{days} days: {freshness:?}");
    }
}
