use serde_json::Value;

use crate::Place;

fn json(place: &Place, line: &str) -> Vec<Value> {
    let ran = place.run(line).ok();
    match serde_json::from_str(&ran.stdout).unwrap() {
        Value::Array(rows) => rows,
        other => panic!("not an array: {other}"),
    }
}

#[test]
fn the_list_names_everything_in_reading_order() {
    let ran = Place::new().run("reproduce --list").ok();
    let lines = ran.stdout.lines();
    let freshness = lines.filter(|line| line.starts_with("freshness/"));
    // How far the titles stand off depends on the other papers' ids.
    let words = freshness.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let listed: Vec<_> = words.collect();
    insta::assert_snapshot!(listed.join("\n"), @r"
    freshness/figure-2 Freshness and age of one element over time
    freshness/figure-3 Expected freshness and age of one element over time
    freshness/figure-4 How the rates of elements are distributed
    freshness/example-1 Three elements, polled uniformly or in proportion
    freshness/example-2 How far apart the polls of a page are
    freshness/figure-5 When the polls of a day are made
    freshness/example-3 What the time of the polls changes
    freshness/table-2 Freshness and age in three orders
    freshness/figure-6 Freshness and age over the changes per poll
    freshness/claim-63-percent Section 4: freshness is 0.63 at r = 1
    freshness/claim-polls-for-80-percent Section 4: r below 0.46 for a freshness of 0.8
    freshness/claim-30-percent Section 4: fixed order is 30 % fresher than purely random
    freshness/claim-one-fourth Section 4: the age is one fourth in fixed order
    freshness/table-3 Uniform and proportional polling of gamma-distributed rates
    freshness/figure-7 Proportional against uniform polling
    freshness/table-4 Two elements, and what each choice of polls is worth
    freshness/claim-two-elements Section 5.2: which of two elements to poll once
    freshness/figure-9 Two elements, and every way to share the polls
    freshness/example-4 Five elements and five polls a day
    freshness/table-5 The best frequencies for five elements
    freshness/figure-10 The best frequency over the rate
    freshness/claim-weights Section 8: twice the weight is not twice the polls
    freshness/figure-11 Times between changes, for pages that change alike
    freshness/figure-12 Shares of pages by how often they change
    freshness/table-6 Freshness and age of a copy of the web
    freshness/claim-500-percent Section 6.3: optimal is 500 % fresher than proportional
    freshness/claim-23-percent Section 6.3: optimal has 23 % less age than uniform
    freshness/claim-100-times Section 6.3: proportional is 100 times older than optimal
    freshness/theorem-1 Freshness of all is the mean of the freshness of each
    freshness/figure-14 Expected freshness in fixed order
    freshness/theorem-2 Freshness over time is that over one interval
    freshness/claim-lemma-2 Appendix B: how intervals in random order are distributed
    freshness/theorem-3 Uniform polling is at least as fresh as proportional
    freshness/theorem-4 Uniform polling is at most as old as proportional
    freshness/figure-17 The best frequency at a price
    freshness/figure-18 The best frequency at two prices
    freshness/theorem-5 The price scales the graph of the best frequency
    freshness/claim-peak Appendix E: where the graph of the best frequency is highest
    ");
    assert_eq!(ran.stderr, "");
    let rows = json(&Place::new(), "reproduce --list --json freshness/table-5");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["title"], "The best frequencies for five elements");
}

#[test]
fn a_table_is_readable_and_its_erratum_named() {
    let ran = Place::new().run("reproduce freshness/table-5").ok();
    insta::assert_snapshot!(ran.stdout, @r"
    freshness/table-5  The best frequencies for five elements
      Five polls a day for elements that change one to five times a day. For freshness the
      fastest is not worth a single poll; for age all get about one.

      quantity                        printed      ours  verdict
      frequency for freshness e1 λ=1     1.15   1.14989  agrees
      frequency for freshness e2 λ=2     1.36   1.35841  agrees
      frequency for freshness e3 λ=3     1.35   1.35384  agrees
      frequency for freshness e4 λ=4     1.14   1.13786  agrees
      frequency for freshness e5 λ=5     0.00         0  agrees
      frequency for age e1 λ=1           0.84   0.83487  differs [1]
      frequency for age e2 λ=2           0.97  0.967925  agrees
      frequency for age e3 λ=3           1.03   1.03352  agrees
      frequency for age e4 λ=4           1.07   1.07061  agrees
      frequency for age e5 λ=5           1.09   1.09307  agrees
      [1] erratum: 0.83487 rounds to 0.83
    ");
    insta::assert_snapshot!(ran.stderr, @"9 agree, 1 differs, 0 have nothing printed to compare with");
}

#[test]
fn json_has_an_object_per_number() {
    let place = Place::new();
    let ran = place.run("reproduce freshness/table-6 --json").ok();
    assert_eq!(ran.stderr, "");
    let first: String = ran
        .stdout
        .lines()
        .take(10)
        .map(|line| format!("{line}\n"))
        .collect();
    insta::assert_snapshot!(first, @r#"
    [
      {
        "paper": "freshness",
        "id": "table-6",
        "quantity": "freshness proportional",
        "printed": 0.12,
        "computed": 0.12868681652295944,
        "agrees": false,
        "note": "erratum: 0.1287 rounds to 0.13; the paper cut it off"
      },
    "#);
    // Infinite is null, and so is what was not printed.
    let rows = json(&place, "reproduce freshness/table-3 --json");
    let find = |quantity: &str| {
        let found = rows.iter().find(|row| row["quantity"] == quantity);
        found.unwrap_or_else(|| panic!("no {quantity}"))
    };
    let beyond = find("age proportional r=1 delta2=1.5 I=1");
    assert_eq!(beyond["computed"], Value::Null);
    assert_eq!(beyond["agrees"], false);
    assert!(beyond["printed"].as_f64().unwrap() < 0.0);
    let hole = find("age uniform r=1 delta2=0.5 I=1");
    assert_eq!(
        (&hole["printed"], &hole["agrees"]),
        (&Value::Null, &Value::Null)
    );
    assert!((hole["computed"].as_f64().unwrap() - 0.121_86).abs() < 1e-5);
    let best = json(&place, "reproduce freshness/table-4 --json");
    let best = best
        .iter()
        .find(|row| row["quantity"] == "best f1, f2 total=10");
    assert_eq!(best.unwrap()["computed"], serde_json::json!([7.0, 3.0]));
}

#[test]
fn what_differs_says_why_and_what_was_not_printed_is_not_judged() {
    let rows = json(&Place::new(), "reproduce --json");
    assert!(rows.len() > 200);
    for row in &rows {
        let keys: Vec<_> = row.as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 7, "{row}");
        assert_eq!(row["agrees"].is_null(), row["printed"].is_null(), "{row}");
        assert!(row["agrees"] != false || row["note"].is_string(), "{row}");
    }
}

#[test]
fn figures_points_and_a_page_are_written() {
    let place = Place::new();
    let ran = place
        .run("reproduce figure-6 figure-9 --out new/papers")
        .ok();
    assert!(ran.stderr.contains("index.html"), "{}", ran.stderr);
    let mut names: Vec<_> = std::fs::read_dir(place.path("new/papers"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("freshness") || name == "index.html")
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "freshness-figure-6-a.csv",
            "freshness-figure-6-a.svg",
            "freshness-figure-6-b.csv",
            "freshness-figure-6-b.svg",
            "freshness-figure-9.csv",
            "freshness-figure-9.svg",
            "index.html",
        ]
    );
    let points = place.read("new/papers/freshness-figure-9.csv");
    assert!(points.starts_with("series,x,y\n1 a day,0.0,"));
    let page = place.read("new/papers/index.html");
    assert!(page.contains("id=\"freshness-figure-9\"") && page.contains("<svg "));
    assert!(!page.contains("lambda") && page.contains("prefers-color-scheme: dark"));
    let figure = place.read("new/papers/freshness-figure-9.svg");
    assert!(figure.contains("prefers-color-scheme:dark"));
    let again = place
        .run("reproduce figure-6 figure-9 --out new/papers -q")
        .ok();
    assert_eq!(again.stderr, "");
    assert_eq!(place.read("new/papers/index.html"), page);
}

#[test]
fn unknown_ids_are_refused_with_the_nearest() {
    let place = Place::new();
    let ran = place.run("reproduce tabel-5 --out papers").failed(2, &[]);
    insta::assert_snapshot!(ran.stderr, @r"
    error: nothing is called `tabel-5`
      cause: the papers have no such table, figure, example, theorem or claim
      hint:  did you mean table-5? springtide reproduce --list names them all
    ");
    assert!(place.files().is_empty());
    place
        .run("reproduce freshness/figure9")
        .failed(2, &["did you mean freshness/figure-9?"]);
    place
        .run("reproduce content/table-5")
        .failed(2, &["did you mean"]);
}

#[test]
fn a_folder_that_cannot_be_made_is_a_failure() {
    let place = Place::with("file", "in the way");
    place
        .run("reproduce table-5 --out file")
        .failed(1, &["cannot write file"]);
    assert_eq!(place.read("file"), "in the way");
    place
        .run("reproduce --list --out papers")
        .failed(2, &["cannot be used with"]);
}

#[test]
fn figures_about_a_history_are_drawn_from_the_one_given() {
    let changes: String = (0..50)
        .map(|n| format!("p,{}\n", 240 * n + n % 7))
        .collect();
    let place = Place::new();
    std::fs::create_dir(place.path("history")).unwrap();
    let place = place
        .and("history/sites.csv", "site_id\ns\n")
        .and(
            "history/pages.csv",
            "page_id,site_id,path,created_h,deleted_h,n_changes\np,s,/,-1,,50\n",
        )
        .and("history/changes.csv", format!("page_id,hour\n{changes}"));
    let line = "reproduce freshness/figure-11 --history history --json";
    let rows = json(&place, line);
    let of = |quantity: &str| {
        let found = rows.iter().find(|row| row["quantity"] == quantity);
        found.map(|row| row["computed"].as_f64().unwrap())
    };
    assert_eq!(of("elements mean=10"), Some(1.0));
    assert_eq!(of("intervals mean=10"), Some(49.0));
    assert!(of("coefficient of variation of the intervals mean=10").unwrap() < 0.1);
    assert_eq!(of("elements mean=30"), Some(0.0));
    place
        .run("reproduce figure-11 --history nowhere")
        .failed(2, &["there is no such folder"]);
}
