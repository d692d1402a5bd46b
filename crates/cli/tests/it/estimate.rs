use serde_json::Value;

use crate::{Place, cells};

const POLLS: &str = "id,elapsed_days,changed,changed_age_days
b,2,1,0.5
a,1,0,
b,2,0,
a,1,1,0.25
b,2,1,
";

#[test]
fn rows_come_in_order_of_first_appearance() {
    let ran =
        Place::with("polls.csv", POLLS).run("estimate --observations polls.csv --method naive");
    let ran = ran.ok();
    assert_eq!(
        ran.stdout.lines().next(),
        Some("id,n_polls,n_changes,rate_per_day,low_per_day,high_per_day")
    );
    let rows = cells(&ran.stdout);
    assert_eq!(rows[0][..4], ["b", "3", "2", "0.3333333333333333"]);
    assert_eq!(rows[1][..4], ["a", "2", "1", "0.5"]);
}

#[test]
fn methods_are_what_they_say() {
    let place = Place::with("polls.csv", POLLS);
    let rates = |method: &str| -> Vec<f64> {
        let ran = place
            .run(&format!(
                "estimate --observations polls.csv --method {method}"
            ))
            .ok();
        cells(&ran.stdout)
            .iter()
            .map(|row| row[3].parse().unwrap())
            .collect()
    };
    let close = |computed: Vec<f64>, expected: [f64; 2]| {
        for (computed, expected) in computed.iter().zip(expected) {
            assert!(
                (computed / expected - 1.0).abs() < 1e-12,
                "{computed} {expected}"
            );
        }
    };
    close(
        rates("bias-reduced"),
        [-(1.5_f64 / 3.5).ln() / 2.0, -(1.5_f64 / 2.5).ln()],
    );
    close(rates("likelihood"), [3.0_f64.ln() / 2.0, 2.0_f64.ln()]);
    // A change without an age counts half its interval.
    close(
        rates("last-modified"),
        [2.0 / (0.5 + 2.0 + 1.0), 1.0 / (1.0 + 0.25)],
    );
}

#[test]
fn every_poll_a_change_is_infinite_for_likelihood_alone() {
    let place = Place::with("polls.csv", "id,elapsed_days,changed\na,1,1\na,1,1\n");
    let row = |method: &str| {
        let ran = place
            .run(&format!(
                "estimate --observations polls.csv --method {method}"
            ))
            .ok();
        cells(&ran.stdout)[0]
            .iter()
            .map(|cell| (*cell).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(row("likelihood")[3], "inf");
    assert_eq!(row("likelihood")[5], "inf");
    for method in ["bayes", "bias-reduced", "naive", "last-modified"] {
        assert_ne!(row(method)[5], "inf", "{method}");
    }
    let ran = place
        .run("estimate --observations polls.csv --method likelihood --json")
        .ok();
    let rows: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(rows[0]["id"], "a");
    assert_eq!(rows[0]["rate_per_day"], Value::Null);
    assert_eq!(rows[0]["n_changes"], 2);
}

#[test]
fn groups_share_what_is_usual_in_them() {
    let mut polls = "id,elapsed_days,changed,group\n".to_owned();
    for element in 0..200 {
        // Busy and quiet groups, and one newcomer in each with a single poll.
        for poll in 0..20 {
            polls += &format!(
                "busy{element},1,{},busy\n",
                u8::from((element + poll) % 4 != 0)
            );
            polls += &format!(
                "quiet{element},1,{},quiet\n",
                u8::from((element * 7 + poll) % 20 == 0)
            );
        }
    }
    polls += "new1,1,0,busy\nnew2,1,0,quiet\n";
    let ran = Place::with("polls.csv", polls)
        .run("estimate --observations polls.csv")
        .ok();
    let rate = |id: &str| -> f64 {
        let rows = cells(&ran.stdout);
        rows.iter().find(|row| row[0] == id).unwrap()[3]
            .parse()
            .unwrap()
    };
    assert!(
        rate("new1") > 5.0 * rate("new2"),
        "{} {}",
        rate("new1"),
        rate("new2")
    );
}

#[test]
fn bad_polls_are_refused() {
    let refuse = |polls: &str, cause: &str| {
        let place = Place::with("polls.csv", polls);
        place
            .run("estimate --observations polls.csv")
            .failed(2, &["cannot read polls.csv", cause]);
    };
    refuse("id,elapsed_days\na,1\n", "there is no column changed");
    refuse(
        "id,elapsed_days,changed\na,0,1\n",
        "line 2: elapsed_days is \"0\"",
    );
    refuse(
        "id,elapsed_days,changed\na,1,2\n",
        "line 2: changed is \"2\"; it is 0 or 1",
    );
    refuse(
        "id,elapsed_days,changed\na,1,yes\n",
        "line 2: changed is \"yes\"",
    );
    refuse("id,elapsed_days,changed\n", "there are no rows");
    refuse(
        "id,elapsed_days,changed,changed_age_days\na,1,1,-1\n",
        "a change is not in the future",
    );
    refuse(
        "id,elapsed_days,changed,group\na,1,1,x\na,1,1,y\n",
        "line 3: id \"a\" was in another group before",
    );
}

#[test]
fn true_and_false_stand_for_1_and_0() {
    let numbers = "id,elapsed_days,changed\na,1,1\na,2,0\nb,1,0\n";
    let words = "id,elapsed_days,changed\na,1,true\na,2,False\nb,1,false\n";
    let [numbers, words] = [numbers, words].map(|polls| {
        let place = Place::with("polls.csv", polls);
        place.run("estimate --observations polls.csv").ok().stdout
    });
    assert_eq!(numbers, words);
}

#[test]
fn timestamps_stand_for_elapsed_days() {
    // The first poll of an element is where its first interval begins.
    let timestamps = "timestamp,id,changed,changed_age_days
2026-05-01T00:00:00Z,b,1,
2026-05-01T12:00:00Z,a,0,
2026-05-03T00:00:00Z,b,1,0.5
2026-05-02T14:00:00+02:00,a,false,
2026-05-05T00:00:00Z,b,0,
2026-05-03T12:00:00.000Z,a,1,0.25
2026-05-06T00:00:00Z,c,1,
2026-05-07T00:00:00Z,b,1,
";
    for method in ["bayes", "likelihood"] {
        let run = |polls: &str| {
            let place = Place::with("polls.csv", polls);
            let command = format!("estimate --observations polls.csv --method {method}");
            place.run(&command).ok().stdout
        };
        let by_time = run(timestamps);
        let rows = cells(&by_time);
        assert_eq!(rows[2][..3], ["c", "0", "0"], "{method}");
        // Without c, of which nothing is known, they are the polls of `POLLS`.
        let without = timestamps.replace("2026-05-06T00:00:00Z,c,1,\n", "");
        assert_eq!(run(&without), run(POLLS), "{method}");
        // As pandas writes them.
        let plain = without.replace("2026-05-01T12:00:00Z", "2026-05-01 12:00:00");
        assert_ne!(plain, without);
        assert_eq!(run(&plain), run(POLLS), "{method}");
    }
}

#[test]
fn bad_timestamps_are_refused() {
    let refuse = |polls: &str, cause: &str| {
        let place = Place::with("polls.csv", polls);
        place
            .run("estimate --observations polls.csv")
            .failed(2, &["cannot read polls.csv", cause]);
    };
    refuse(
        "id,changed\na,1\n",
        "there is no column elapsed_days, and no timestamp instead",
    );
    refuse(
        "id,timestamp,changed\na,yesterday,1\n",
        "line 2: timestamp is \"yesterday\"; it is not a time by RFC 3339",
    );
    refuse(
        "id,timestamp,changed\na,,1\n",
        "line 2: timestamp is \"\"; it is not a time",
    );
    refuse(
        "id,timestamp,changed\na,2026-05-02T00:00:00Z,1\nb,2026-05-01T00:00:00Z,0\na,2026-05-01T00:00:00Z,1\n",
        "line 4: timestamp is \"2026-05-01T00:00:00Z\"; the poll before was not earlier",
    );
}
