use crate::Place;

#[test]
fn an_error_says_what_where_why_and_what_next() {
    let place = Place::with("rates.csv", "id,rate_per_day\na,1\nb,-1\n");
    let ran = place
        .run("plan --rates rates.csv --budget 5/day")
        .failed(2, &[]);
    assert_eq!(ran.stdout, "");
    insta::assert_snapshot!(ran.stderr, @r#"
    error: cannot read rates.csv
      cause: line 3: rate_per_day is "-1"; a rate is zero or more
      hint:  drop the line, or give 0 for an element that never changes
    "#);
}

#[test]
fn duplicate_ids_are_named_with_both_lines() {
    let place = Place::with("rates.csv", "id,rate_per_day\na,1\nb,2\n\"a\",3\n");
    place
        .run("plan --rates rates.csv --budget 5/day")
        .failed(2, &["line 4: id \"a\" is already in line 2"]);
}

#[test]
fn bad_input_leaves_the_output_as_it_was() {
    let place = Place::with("rates.csv", "id,rate_per_day\na,1\nb,x\n").and("plan.csv", "before");
    place
        .run("plan --rates rates.csv --budget 5/day --out plan.csv")
        .failed(2, &["line 3"]);
    place
        .run("plan --rates rates.csv --budget 5/parsec --out plan.csv")
        .failed(2, &["unknown unit"]);
    place
        .run("plan --rates none.csv --budget 5/day --out plan.csv")
        .failed(2, &["no such file"]);
    assert_eq!(place.read("plan.csv"), "before");
    assert_eq!(place.files(), ["plan.csv", "rates.csv"]);
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let place = Place::with("rates.csv", "id,rate_per_day\na,1\n");
    place
        .run("plan --rates rates.csv --budget 5/day --out nowhere/plan.csv")
        .failed(1, &["cannot write nowhere/plan.csv"]);
    std::fs::create_dir(place.path("folder")).unwrap();
    place
        .run("plan --rates rates.csv --budget 5/day --out folder")
        .failed(1, &["cannot write folder"]);
    if cfg!(target_os = "linux") {
        for ending in ["", ".csv.gz", ".csv.zst", ".parquet"] {
            let link = place.path(&format!("full{ending}"));
            #[cfg(unix)]
            std::os::unix::fs::symlink("/dev/full", &link).unwrap();
            let line = format!(
                "plan --rates rates.csv --budget 5/day --out {}",
                link.display()
            );
            place.run(&line).failed(1, &["cannot write"]);
        }
        let output = place
            .command("plan --rates rates.csv --budget 5/day")
            .stdout(
                std::fs::OpenOptions::new()
                    .write(true)
                    .open("/dev/full")
                    .unwrap(),
            )
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn goals_exclude_each_other_and_one_is_needed() {
    let place = Place::with("rates.csv", "id,rate_per_day\na,1\n");
    place.run("plan --rates rates.csv").failed(2, &["--budget"]);
    place
        .run("plan --rates rates.csv --budget 1/day --target-freshness 50%")
        .failed(2, &["cannot be used with"]);
    place
        .run("plan --rates rates.csv --target-freshness 150%")
        .failed(2, &["between 0 and 1"]);
    place
        .run("plan --rates rates.csv --budget 1/day --policy best")
        .failed(2, &["optimal"]);
}

#[test]
fn numbers_beyond_all_measure_are_refused_rather_than_planned_wrongly() {
    let place = Place::with("tiny.csv", "id,rate_per_day\na,1e-305\n")
        .and("far.csv", "id,rate_per_day,weight\na,1e-188,1e146\nb,1,1\n")
        .and(
            "fine.csv",
            "id,rate_per_day,weight\na,1e-40,1e40\nb,1e30,1\n",
        );
    for line in [
        "plan --rates tiny.csv --budget 100/day",
        "plan --rates far.csv --budget 1e-150/day",
    ] {
        place.run(line).failed(2, &["too far apart"]);
    }
    place.run("plan --rates fine.csv --budget 100/day").ok();
}

#[test]
fn a_table_without_rows_is_refused() {
    let place = Place::with("rates.csv", "id,rate_per_day\n");
    place
        .run("plan --rates rates.csv --budget 1/day")
        .failed(2, &["there are no rows"]);
}

#[test]
fn a_flag_that_cannot_be_understood_is_shown_with_what_is_expected() {
    let place = Place::with("rates.csv", "id,rate_per_day\na,1\n");
    for (budget, why) in [
        ("-1/day", "`-1/day`: `-1` is below zero"),
        (
            "10",
            "`10`: a number per time is expected, such as 2000/day",
        ),
        (
            "inf/day",
            "`inf/day`: the number is too large, or none at all",
        ),
    ] {
        let line = format!("plan --rates rates.csv --budget={budget}");
        place.run(&line).failed(2, &["--budget", why]);
    }
    for value in ["0", "x", "-1"] {
        let line = format!("cover --rows rates.csv --attribute id --max-queries={value}");
        let why = format!("`{value}`: a whole number above zero is expected");
        place.run(&line).failed(2, &["--max-queries", &why]);
    }
}
