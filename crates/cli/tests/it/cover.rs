use serde_json::Value;

use crate::{Place, cells};

const ROWS: &str = "id,title,authors,weight
1,The Tides of Venice,Ann Lee;Bo Chen,1
2,Tides and Waves,Bo Chen,2
3,Waves of Venice,Ann Lee;Cy,1
4,Deep Water,Ann Lee,1
";

const TERMS: &str = "term,count\nTides,30\nwaves,50\nvenice,400\nAnn Lee,12\nBo Chen,90\nx,1\n";

const PAIRS: &str = "term_a,term_b,count\nVENICE,waves,3\nbo chen,tides,15\n";

fn place() -> Place {
    Place::with("rows.csv", ROWS)
        .and("terms.csv", TERMS)
        .and("pairs.csv", PAIRS)
}

const LINE: &str = "cover --rows rows.csv --attribute title --attribute authors:list \
    --statistics terms.csv --statistics pairs.csv";

#[test]
fn queries_come_in_order_of_issue() {
    let ran = place().run(LINE).ok();
    // "Ann Lee" finds three of ours in two requests; "cy", "deep" and "water", which
    // nobody counted, are taken to find nothing else.
    insta::assert_snapshot!(ran.stdout, @r#"
    query,n_local,n_server,n_requests,gain,covered
    """Ann Lee""",3,12,2,3,3
    """Bo Chen"" tides",2,15,2,2,4
    "#);
    insta::assert_snapshot!(ran.stderr, @r"
      rows               4
      queries            2, in 4 requests
      expected coverage  100.0%
      expected speedup   1 rows a request; fetching by id has 1
    ");
}

/// One request for one row is the better bargain, and of one query the worse.
#[test]
fn with_few_queries_the_one_that_gains_most_goes_first() {
    let tides: String = (0..36).map(|id| format!("{id},Tides\n")).collect();
    let place = Place::with("rows.csv", format!("id,title\n{tides}36,Deep\n"))
        .and("terms.csv", "term,count\ntides,400\ndeep,1\n");
    let first = |flags: &str| {
        let line = "cover --rows rows.csv --attribute title --statistics terms.csv";
        let ran = place.run(&format!("{line} {flags}")).ok();
        ran.stdout.lines().nth(1).unwrap().to_owned()
    };
    assert_eq!(first("--max-queries 1"), "tides,36,400,40,36,36");
    assert_eq!(
        first("--max-queries 1 --keywords 5"),
        "tides,36,400,40,36,36"
    );
    assert_eq!(first("--max-queries 1 --max-requests 39"), "deep,1,1,1,1,1");
    // With both, the order is by what a request gains.
    assert_eq!(first("--max-queries 2"), "deep,1,1,1,1,1");
    assert_eq!(
        first("--max-queries 1 --efficiency published"),
        "deep,1,1,1,1,1"
    );
}

#[test]
fn json_is_the_summary_alone() {
    let place = place();
    let ran = place.run(&format!("{LINE} --json --out queries.csv")).ok();
    assert_eq!(ran.stderr, "");
    let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        summary,
        serde_json::json!({
            "n_queries": 2,
            "n_requests": 4,
            "coverage_ratio": 1.0,
            "speedup_ratio": 1.0,
            "n_rows": 4,
        })
    );
    assert_eq!(cells(&place.read("queries.csv")).len(), 2);
    let ran = place.run(&format!("{LINE} --json")).ok();
    assert!(ran.stdout.starts_with('{'));
}

#[test]
fn a_pair_is_taken_by_independence_if_the_server_is_known() {
    let place = Place::with("rows.csv", "id,t\n1,x y\n2,x z\n3,y z\n")
        .and("terms.csv", "term,count\nx,300\ny,200\nz,500\n");
    let line = "cover --rows rows.csv --attribute t --statistics terms.csv";
    // Without the size of the server a pair is as common as its rarer term.
    let ran = place.run(line).ok();
    assert_eq!(cells(&ran.stdout)[0][..4], ["y", "2", "200", "20"]);
    let ran = place.run(&format!("{line} --server-rows 10000")).ok();
    assert_eq!(cells(&ran.stdout)[0], ["x y", "1", "6", "1", "1", "1"]);
    let ran = place.run(&format!("{line} --max-terms 1 --server-rows 10000"));
    assert_eq!(cells(&ran.ok().stdout)[0][0], "y");
}

#[test]
fn a_corpus_is_scaled_and_never_below_what_we_hold() {
    let place = Place::with("rows.csv", "id,t\n1,x\n2,x y\n3,z\n")
        .and("corpus.csv", "t,other\nx,\nx y,\nY x,\nu,\n");
    let line = "cover --rows rows.csv --attribute t --corpus corpus.csv --scale 4.6 \
        --max-terms 1";
    let n_server = |place: &Place, line: &str, query: &str| -> f64 {
        let ran = place.run(line).ok();
        let rows = cells(&ran.stdout);
        let row = rows.iter().find(|row| row[0] == query).unwrap();
        row[2].parse().unwrap()
    };
    assert_eq!(n_server(&place, line, "x"), 4.6 * 3.0);
    assert_eq!(n_server(&place, line, "y"), 9.2);
    assert_eq!(n_server(&place, line, "z"), 1.0);
    // Without a scale: as many as in the corpus, or as the counted terms say.
    let line = line.replace(" --scale 4.6", "");
    assert_eq!(n_server(&place, &line, "x"), 3.0);
    let place = place.and("terms.csv", "term,count\ny,20\n");
    let line = format!("{line} --statistics terms.csv");
    assert_eq!(n_server(&place, &line, "x"), 30.0);
}

#[test]
fn a_first_page_has_its_chance() {
    let place = Place::with("rows.csv", "id,t\n1,x\n2,x y\n3,x y\n")
        .and("terms.csv", "term,count\nx,40\ny,20\n");
    let line = "cover --rows rows.csv --attribute t --statistics terms.csv --method first-page";
    let rows = place.run(line).ok().stdout;
    // y: two at a half each; then x for the first row, at a quarter, as for what is left of the others.
    let expected = "query,n_local,n_server,n_requests,gain,covered\n\
                    y,2,20,1,2,1\nx,3,40,1,1,1.5\n";
    // "x y" is as common as y and would be first by its text, at a tie.
    assert_eq!(rows.replace("x y,2,20", "y,2,20"), expected);
    assert!(rows.contains("x y,2,20"), "{rows}");
    // All pages of a server that gives only ten results at all.
    let ran = place
        .run(&line.replace("--method first-page", "--top 10"))
        .ok();
    assert_eq!(cells(&ran.stdout)[0][3..], ["1", "2", "1"]);
}

#[test]
fn a_row_is_worth_its_weight_times_its_staleness() {
    let place = Place::with(
        "rows.csv",
        "id,t,weight,rate_per_day,elapsed_days\n1,x,2,0.5,4\n2,y,3,,\n3,z,1,1,0\n",
    )
    .and("terms.csv", "term,count\n");
    let line = "cover --rows rows.csv --attribute t --statistics terms.csv";
    let rows = place.run(line).ok().stdout;
    // 2 · 0.5·4²/2, then the weight alone; the third was refreshed just now.
    assert_eq!(cells(&rows).len(), 2);
    assert_eq!(cells(&rows)[0][..5], ["x", "1", "1", "1", "8"]);
    assert_eq!(cells(&rows)[1][..5], ["y", "1", "1", "1", "3"]);
}

#[test]
fn it_stops_at_its_limits() {
    let place = place();
    let n = |flags: &str| {
        let ran = place.run(&format!("{LINE} --json {flags}")).ok();
        let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
        let number = |name: &str| summary[name].as_u64().unwrap();
        (number("n_queries"), number("n_requests"))
    };
    assert_eq!(n("--max-queries 1"), (1, 2));
    // One request is left over, which is not enough for anything.
    assert_eq!(n("--max-requests 3"), (1, 2));
    assert_eq!(n("--coverage 50%"), (1, 2));
    assert_eq!(n("--price 1.2"), (1, 2));
    let ran = place.run(&format!("{LINE} --json --price 100")).ok();
    let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(summary["speedup_ratio"], Value::Null);
    assert_eq!(summary["coverage_ratio"], 0.0);
}

#[test]
fn efficiency_may_be_as_published() {
    let place = Place::with("rows.csv", "id,t\n1,x\n2,x\n3,x\n4,y\n")
        .and("terms.csv", "term,count\nx,10\ny,2\n");
    let line = "cover --rows rows.csv --attribute t --statistics terms.csv";
    let first = |line: &str| cells(&place.run(line).ok().stdout)[0][0].to_owned();
    assert_eq!(first(line), "x");
    assert_eq!(first(&format!("{line} --efficiency published")), "y");
}

#[test]
fn keywords_are_few_at_a_time() {
    let place = place();
    let ran = place.run(&format!("{LINE} --keywords 1")).ok();
    let rows = cells(&ran.stdout);
    // The most frequent term of all is one author, then of what is left another.
    assert_eq!(rows.len(), 2);
    assert!(rows[0][0].contains("Ann Lee") && rows[1][0].contains("Bo Chen"));
}

#[test]
fn stop_words_are_left_out_and_may_be_others() {
    let place = Place::with("rows.csv", "id,t\n1,The Sea\n2,The Boat\n")
        .and("terms.csv", "term,count\n")
        .and("stop.txt", "SEA\nboat\n");
    let line = "cover --rows rows.csv --attribute t --statistics terms.csv";
    let queries = |line: &str| -> Vec<String> {
        let ran = place.run(line).ok();
        let rows = cells(&ran.stdout);
        rows.iter().map(|row| row[0].to_owned()).collect()
    };
    assert_eq!(queries(line), ["boat", "sea"]);
    assert_eq!(queries(&format!("{line} --stop-words stop.txt")), ["the"]);
    place
        .run(&format!("{line} --stop-words none.txt"))
        .failed(2, &["cannot read none.txt", "no such file"]);
}

#[test]
fn rows_without_terms_are_counted_and_never_covered() {
    let place =
        Place::with("rows.csv", "id,t\n1,sea\n2,the\n3,\n").and("terms.csv", "term,count\n");
    let ran = place
        .run("cover --rows rows.csv --attribute t --statistics terms.csv")
        .ok();
    assert!(ran.stderr.contains("2 have no term"), "{}", ran.stderr);
    assert!(ran.stderr.contains("33.3%"), "{}", ran.stderr);
}

#[test]
fn tables_may_be_compressed_or_parquet() {
    let place = place();
    let plain = place.run(LINE).ok().stdout;
    for name in ["queries.csv.gz", "queries.csv.zst", "queries.parquet"] {
        place.run(&format!("{LINE} --out {name}")).ok();
    }
    // A table of ours can be read again as rows: its queries are terms of themselves.
    for name in ["queries.csv.gz", "queries.csv.zst", "queries.parquet"] {
        let packed = std::fs::read(place.path(name)).unwrap();
        assert!(!packed.is_empty());
    }
    let ran = place.run_with(
        &LINE.replace("--rows rows.csv", "--rows -"),
        ROWS.as_bytes(),
    );
    assert_eq!(ran.ok().stdout, plain);
}

#[test]
fn bad_input_is_refused() {
    let refuse = |rows: &str, terms: &str, words: &[&str]| {
        let place = Place::with("rows.csv", rows)
            .and("terms.csv", terms)
            .and("queries.csv", "before");
        let ran = place
            .run("cover --rows rows.csv --attribute t --statistics terms.csv --out queries.csv");
        let ran = ran.failed(2, words);
        assert_eq!(ran.stdout, "");
        assert_eq!(place.read("queries.csv"), "before");
    };
    let (rows, terms) = ("id,t\n1,a b\n", "term,count\na,1\n");
    refuse("id,t\n", terms, &["rows.csv", "there are no rows"]);
    refuse(
        "id,t\n1,a\n1,b\n",
        terms,
        &["line 3: id \"1\" is already in line 2"],
    );
    refuse("id,u\n1,a\n", terms, &["there is no column t"]);
    refuse("t\na\n", terms, &["there is no column id"]);
    refuse("id,t\n,a\n", terms, &["line 2: id is empty"]);
    refuse(
        "id,t,weight\n1,a,-1\n",
        terms,
        &["line 2: weight is \"-1\""],
    );
    refuse(
        "id,t,rate_per_day,elapsed_days\n1,a,x,1\n",
        terms,
        &["line 2: rate_per_day is \"x\"; it is not a number"],
    );
    refuse(
        "id,t,weight,rate_per_day,elapsed_days\n1,a,1e300,1e10,1e10\n",
        terms,
        &["line 2", "too large together"],
    );
    refuse(
        rows,
        "term,count\na,-1\n",
        &["line 2: count is \"-1\"", "zero or more"],
    );
    refuse(rows, "term,count\na,\n", &["line 2: count is empty"]);
    refuse(rows, "term,count\n,1\n", &["line 2: term is empty"]);
    refuse(
        rows,
        "term,count\na,1\nb,2\nA,3\n",
        &["line 4: term \"A\" is given twice"],
    );
    refuse(
        rows,
        "term_a,term_b,count\na,b,1\nb,a,2\n",
        &["line 3: the pair \"b\" and \"a\" is given twice"],
    );
    refuse(rows, "term_a,term_b,count\na,A,1\n", &["the same term"]);
    refuse(rows, "word,count\na,1\n", &["term_a,term_b,count"]);
    refuse(rows, "term,n\na,1\n", &["there is no column count"]);
    refuse(
        rows,
        "term,term_a,term_b,count\na,a,b,1\n",
        &["columns of pairs"],
    );
    refuse(rows, "term,count\na,inf\n", &["it is not finite"]);
    refuse(rows, "", &["terms.csv", "it is empty"]);
}

#[test]
fn a_term_given_in_two_files_is_given_twice() {
    let place = place().and("more.csv", "term,count\nTIDES,4\n");
    place
        .run(&format!("{LINE} --statistics more.csv"))
        .failed(2, &["cannot read more.csv", "\"TIDES\" is given twice"]);
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let place = place();
    place
        .run("cover --rows rows.csv --attribute title")
        .failed(2, &["--statistics"]);
    place
        .run("cover --rows rows.csv --statistics terms.csv")
        .failed(2, &["--attribute"]);
    for flags in [
        "--scale 2",
        "--page-size 0",
        "--top 0",
        "--max-queries 0",
        "--max-terms 0",
        "--server-rows -5",
        "--server-rows 0",
        "--method some-pages",
        "--coverage 101%",
        "--attribute :list",
    ] {
        place.run(&format!("{LINE} {flags}")).failed(2, &[]);
    }
    place
        .run("cover --rows none.csv --attribute title --statistics terms.csv")
        .failed(2, &["cannot read none.csv", "no such file"]);
    place
        .run(&format!("{LINE} --out nowhere/queries.csv"))
        .failed(1, &["cannot write nowhere/queries.csv"]);
}
