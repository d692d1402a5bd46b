//! The verbs of a project that ask nobody.

use serde_json::Value;

#[cfg(unix)]
use crate::on_terminal;
use crate::{Place, json, lines};

/// A project with a list of three addresses.
fn listed() -> Place {
    let place = Place::with(
        "urls.csv",
        "url,weight,group\nhttps://a.example/1,2,\nhttps://a.example/x/2,,\nhttps://b.example/3,,news\n",
    );
    place.run("init").ok();
    place.run("import urls.csv").ok();
    place
}

#[test]
fn without_a_project_the_code_is_ten() {
    let place = Place::new();
    for verb in [
        "ls", "status", "log", "run", "poll", "doctor", "rm x", "diff 1", "plan",
    ] {
        place
            .run(verb)
            .failed(10, &["there is no project here", "springtide init"]);
    }
    place.run("--project nowhere ls").failed(10, &["nowhere"]);
    assert!(place.files().is_empty());
}

#[test]
fn init_is_safe_to_repeat() {
    let place = Place::new();
    place.run("init mirror --budget 2000/day").ok();
    let before = place.read("mirror/springtide.toml");
    assert!(before.contains("polls = \"2000/day\""), "{before}");
    place.run("init mirror").ok();
    assert_eq!(place.read("mirror/springtide.toml"), before);
    place.run("--project mirror ls").ok();
}

#[test]
fn a_project_is_found_from_folders_inside_it() {
    let place = listed();
    std::fs::create_dir_all(place.path("deep/er")).unwrap();
    let mut command = place.command("ls --json");
    let output = command.current_dir(place.path("deep/er")).output().unwrap();
    let source: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(source["n_elements"], 3);
}

#[test]
fn import_takes_in_a_list_once() {
    let place = listed();
    let rows = lines(&place.run("ls --elements --json").ok());
    let get = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(
        get("locator"),
        [
            "https://a.example/1",
            "https://a.example/x/2",
            "https://b.example/3"
        ]
    );
    assert_eq!(get("weight"), [2.0, 1.0, 1.0]);
    assert_eq!(get("group"), ["a.example", "a.example/x", "b.example/news"]);
    assert_eq!(get("state"), ["new", "new", "new"]);
    let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    let wanted = [
        "changed_at",
        "due_at",
        "error",
        "frequency_per_day",
        "group",
        "id",
        "locator",
        "n_changes",
        "n_polls",
        "polled_at",
        "rate_per_day",
        "reason",
        "source",
        "state",
        "weight",
    ];
    assert_eq!(keys, wanted);

    let again = json(&place.run("import urls.csv --json").ok());
    assert_eq!(
        (&again["n_taken"], &again["n_known"]),
        (&0.into(), &3.into())
    );
    let place = place.and("more.txt", "https://c.example/\nhttps://c.example/\n");
    let more = json(&place.run("import more.txt --source urls --json").ok());
    assert_eq!((&more["n_lines"], &more["n_taken"]), (&2.into(), &1.into()));
    let sources = lines(&place.run("ls --json").ok());
    assert_eq!(sources.len(), 1);
    assert_eq!(sources[0]["n_elements"], 4);
}

#[test]
fn a_bad_line_leaves_everything_as_it_was() {
    let place = Place::with("urls.txt", "https://a.example/\nnonsense\n");
    place.run("init").ok();
    let before = place.read("springtide.toml");
    place
        .run("import urls.txt --strict")
        .failed(2, &["cannot read urls.txt", "line 2", "nonsense"]);
    place
        .run("add urls.txt --strict")
        .failed(2, &["cannot add urls", "line 2"]);
    place.run("import nowhere.txt").failed(2, &["no such file"]);
    place
        .run("import - --source x")
        .failed(2, &["no addresses"]);
    assert_eq!(place.read("springtide.toml"), before);
    assert_eq!(place.run("ls --elements --json").ok().stdout, "");
    assert_eq!(place.run("ls --json").ok().stdout, "");
}

/// Tables as people have them.
#[test]
fn import_takes_what_it_can_and_tells_the_rest() {
    let place = Place::with(
        "urls.txt",
        "https://a.example/\nnonsense\nhttps://a.example/2\n",
    )
    .and(
        "bare.csv",
        "7,https://b.example/x,first\n8,https://b.example/y,second\n",
    )
    .and(
        "named.csv",
        "Address,W\nhttps://c.example/,3\nhttps://c.example/2,many\n",
    );
    place.run("init").ok();
    let taken = json(&place.run("import urls.txt --json").ok());
    assert_eq!(
        (&taken["n_taken"], &taken["n_left_out"]),
        (&2.into(), &1.into())
    );
    let left = &taken["left_out"][0];
    assert_eq!(left["what"], "line 2");
    assert!(left["why"].as_str().unwrap().contains("nonsense"), "{left}");
    let taken = json(&place.run("import bare.csv --json").ok());
    assert_eq!(taken["n_taken"], 2);
    let named = place
        .run("import named.csv --map url=Address,weight=W")
        .ok();
    assert!(
        named.stderr.contains("left out: line 3: weight is"),
        "{}",
        named.stderr
    );
    let rows = lines(&place.run("ls --elements --json").ok());
    let locators: Vec<&str> = rows
        .iter()
        .map(|row| row["locator"].as_str().unwrap())
        .collect();
    assert_eq!(
        locators,
        [
            "https://a.example/",
            "https://a.example/2",
            "https://b.example/x",
            "https://b.example/y",
            "https://c.example/"
        ]
    );
    assert_eq!(rows[4]["weight"], 3.0);
    place
        .run("import urls.txt --map colour=red")
        .failed(2, &["no column `colour`"]);
}

#[test]
fn import_reads_standard_input_and_packed_files() {
    let place = Place::new();
    place.run("init").ok();
    place
        .run_with("import - --source piped", b"https://a.example/\n")
        .ok();
    let packed = zstd::encode_all(b"https://b.example/\n".as_slice(), 1).unwrap();
    let place = place.and("list.txt.zst", packed);
    place.run("import list.txt.zst").ok();
    let sources = lines(&place.run("ls --json").ok());
    assert_eq!(
        (&sources[0]["name"], &sources[1]["name"]),
        (&"piped".into(), &"list".into())
    );
}

#[test]
fn add_of_a_list_makes_a_project_and_follows_the_file() {
    let place = Place::with(
        "urls.txt",
        "# ours\nhttps://a.example/1\nhttps://a.example/2\n",
    );
    let dry = json(&place.run("add urls.txt --dry-run --json").ok());
    assert_eq!(dry[0]["n_elements"], 2);
    assert_eq!(place.files(), ["urls.txt"], "a dry run writes nothing");

    place.run("add urls.txt --budget 50/hour --weight 2").ok();
    let config = place.read("springtide.toml");
    assert!(config.contains("polls = \"50/hour\""), "{config}");
    assert!(config.contains("[source.urls]\nkind = \"list\"\nfile = \"urls.txt\"\nweight = 2.0"));
    let again = place.run("add urls.txt").ok();
    assert!(
        again.stderr.contains("is there already, as urls"),
        "{}",
        again.stderr
    );
    assert_eq!(place.read("springtide.toml"), config);

    // The next verb that writes sees what has become of the file.
    let place = place
        .and("urls.txt", "https://a.example/2\nhttps://a.example/33\n")
        .and("b.txt", "https://b.example/\n");
    place.run("add b.txt").ok();
    let rows = lines(&place.run("ls --elements urls --json").ok());
    let state: Vec<_> = rows
        .iter()
        .map(|row| (&row["locator"], &row["state"]))
        .collect();
    assert_eq!(
        state,
        [
            (&"https://a.example/1".into(), &"gone".into()),
            (&"https://a.example/2".into(), &"new".into()),
            (&"https://a.example/33".into(), &Value::from("new"))
        ]
    );
}

#[test]
fn add_refuses_what_it_cannot_poll() {
    let place = Place::new();
    place
        .run("add example.org")
        .failed(2, &["neither an address nor a file", "https://example.org"]);
    place
        .run("add ftp://example.org/x")
        .failed(2, &["neither http nor https"]);
    place
        .run("add postgres://a:secret@db.invalid/b --table c")
        .failed(2, &["url has a password in it", "env:NAME"]);
    place
        .run("add http://127.0.0.1:9/")
        .failed(3, &["private", "allow_private"]);
    place
        .run("add https://a.example/ --offline --name a+b")
        .failed(2, &["bad --name"]);
}

#[test]
fn add_offline_tells_kinds_by_their_names() {
    let place = Place::new();
    place
        .run("add --offline https://a.example/sitemap.xml.gz https://a.example/page")
        .ok();
    place
        .run("add --offline --site https://b.example/ --name b")
        .ok();
    let sources = lines(&place.run("ls --json").ok());
    let kinds: Vec<_> = sources
        .iter()
        .map(|source| {
            (
                source["name"].as_str().unwrap(),
                source["kind"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        kinds,
        [
            ("a-example", "sitemap"),
            ("a-example-2", "page"),
            ("b", "site")
        ]
    );
}

#[test]
fn rm_takes_out_what_was_named_and_nothing_else() {
    let place = listed().and("b.txt", "https://b.example/\n");
    place.run("import b.txt").ok();
    place
        .run("rm ulrs")
        .failed(2, &["there is no source ulrs", "did you mean urls?"]);
    place.run("rm urls").ok();
    assert!(!place.read("springtide.toml").contains("source.urls"));
    let rows = lines(&place.run("ls --elements --json").ok());
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["source"], "b");
}

#[test]
fn tables_for_people_are_short_and_say_how_many_more() {
    let place = listed();
    let table = place.run("ls").ok().stdout;
    insta::assert_snapshot!(table, @r"
    source  kind  elements  new  polls  changes  url
    urls    list         3    3      0        0
    ");
    let some = place.run("ls --elements --limit 2").ok();
    assert_eq!(some.stdout.lines().count(), 3);
    assert!(some.stderr.contains("and 1 more"), "{}", some.stderr);
    place.run("ls --elements --state gone").ok();
    place
        .run("ls --elements nobody")
        .failed(2, &["there is no source nobody"]);
}

#[test]
fn status_of_a_new_project_knows_nothing_and_says_so() {
    let place = listed();
    let status = json(&place.run("status --json").ok());
    for name in [
        "measured",
        "low",
        "high",
        "since",
        "predicted",
        "predicted_low",
        "predicted_high",
    ] {
        assert_eq!(status["freshness"].get(name), Some(&Value::Null), "{name}");
    }
    assert_eq!(
        status["states"],
        serde_json::json!({"new": 3, "ok": 0, "failing": 0, "blocked": 0, "gone": 0})
    );
    assert_eq!(status["errors"], Value::Array(Vec::new()));
    assert_eq!(status["age_seconds"]["measured"], Value::Null);
    assert_eq!(status["n_elements"], 3);
    assert_eq!(status["n_sources"], 1);
    assert_eq!(status["budget"]["used_today"], 0);
    assert_eq!(status["sources"][0]["name"], "urls");
    assert!(place.run("status").ok().stdout.contains("not measured yet"));
}

#[test]
fn status_check_needs_a_target_and_misses_what_is_not_known() {
    let place = listed();
    place.run("status --check").failed(2, &["no target"]);
    let config = place.read("springtide.toml") + "[target]\nfreshness = \"95%\"\n";
    let place = place.and("springtide.toml", config);
    place
        .run("status --check")
        .failed(4, &["the target is missed", "not known yet"]);
    let ran = place.run("status --check --json").failed(4, &[]);
    assert_eq!(json(&ran)["n_elements"], 3);
}

#[test]
fn nothing_found_is_nothing_said() {
    let place = listed();
    assert_eq!(place.run("log --json").ok().stdout, "");
    assert!(place.run("log").ok().stderr.contains("no changes"));
    place.run("log --since soon").failed(2, &["--since"]);
    place
        .run("log --since yesterday --source urls --element 0")
        .ok();
    place.run("diff 0").failed(2, &["no version yet"]);
    place.run("diff 99").failed(2, &["there is no element 99"]);
    place.run("plan").failed(2, &["nothing to plan"]);
}

#[test]
fn export_writes_what_ls_lists() {
    let place = listed();
    place.run("export jsonl elements.jsonl").ok();
    assert_eq!(
        place.read("elements.jsonl"),
        place.run("ls --elements --json").ok().stdout
    );
    let csv = place.run("export csv").ok().stdout;
    assert!(
        csv.starts_with("id,source,locator,group,weight,rate_per_day,"),
        "{csv}"
    );
    assert!(
        csv.contains("\n0,urls,https://a.example/1,a.example,2,"),
        "{csv}"
    );
    place.run("export bodies").failed(2, &["a folder"]);
    place.run("export bodies copy").ok();
    assert_eq!(place.read("copy/manifest.jsonl"), "");
    place
        .run("export jsonl --json")
        .failed(2, &["--json needs"]);
}

#[test]
fn doctor_finds_the_project_sound_or_says_why_not() {
    let place = listed();
    assert_eq!(json(&place.run("doctor --json").ok())["sound"], true);
    place.run("doctor --repair --gc --back-up copy.db").ok();
    assert!(place.files().contains(&"copy.db".to_owned()));

    let config =
        place.read("springtide.toml") + "[source.x]\nkind = \"list\"\nfile = \"gone.txt\"\n";
    let place = place.and("springtide.toml", config);
    let ran = place.run("doctor --json").failed(1, &[]);
    assert_eq!(json(&ran)["sound"], false);
    assert!(
        json(&ran)["problems"][0]
            .as_str()
            .unwrap()
            .contains("gone.txt")
    );
    place
        .run("doctor")
        .failed(1, &["problem: ", "not sound", "left to you"]);
}

#[test]
fn a_store_that_is_none_is_refused_by_everyone() {
    let place = listed().and(
        ".springtide/store.db",
        "this is no database, and never was one",
    );
    for verb in ["ls", "status", "log", "import urls.csv", "run --once"] {
        place.run(verb).failed(1, &["store"]);
    }
    let ran = place.run("doctor --json").failed(1, &[]);
    assert_eq!(json(&ran)["sound"], false);
}

#[test]
fn sources_written_by_hand_are_listed_before_they_are_polled() {
    let place = Place::with(
        "springtide.toml",
        "[source.docs]\nkind = \"page\"\nurl = \"https://a.example/\"\n",
    );
    let sources = lines(&place.run("ls --json").ok());
    assert_eq!(sources[0]["name"], "docs");
    assert_eq!(sources[0]["added_at"], Value::Null);
    assert_eq!(json(&place.run("status --json").ok())["n_sources"], 1);
    assert!(
        !place.path(".springtide").exists(),
        "those who read leave nothing behind"
    );
}

#[test]
fn a_reader_that_has_had_enough_is_no_reason_to_complain() {
    let urls: String = (0..20_000)
        .map(|i| format!("https://a.example/{i}\n"))
        .collect();
    let place = Place::with("urls.txt", urls);
    place.run("init").ok();
    place.run("import urls.txt").ok();
    let mut child = place
        .command("ls --elements --json")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("error"));
}

#[test]
fn completions_and_manual_pages_are_made_from_the_arguments() {
    let place = Place::new();
    assert!(
        place
            .run("completions bash")
            .ok()
            .stdout
            .contains("springtide")
    );
    std::fs::create_dir(place.path("man")).unwrap();
    place.run("man man").ok();
    assert!(place.path("man/springtide-run.1").exists());
}

/// Whoever types `rm` is asked; whoever says `--yes`, or is no person, is not.
#[test]
#[cfg(unix)]
fn rm_asks_on_a_terminal_and_does_not_if_told_so() {
    let place = Place::new();
    let names = || -> Vec<String> {
        let rows = lines(&place.run("ls --json").ok());
        let names = rows.iter().map(|row| row["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    };
    for name in ["one", "two", "three"] {
        let url = format!("https://a.example/{name}");
        place
            .run(&format!("add {url} --offline --name {name}"))
            .ok();
    }
    let question = "remove one with 1 element and their history? [y/N]";
    for answer in ["n\n", "\n"] {
        let Some(seen) = on_terminal(&place, "rm one", answer) else {
            return;
        };
        assert!(seen.contains(question), "{seen}");
        assert!(seen.contains("nothing was removed"), "{seen}");
        assert_eq!(names(), ["one", "two", "three"]);
    }
    let seen = on_terminal(&place, "rm one", "y\n").unwrap_or_default();
    assert!(seen.contains("removed one with 1 element"), "{seen}");
    assert_eq!(names(), ["two", "three"]);
    let seen = on_terminal(&place, "rm two --yes", "").unwrap_or_default();
    assert!(!seen.contains("[y/N]"), "{seen}");
    assert!(seen.contains("removed two"), "{seen}");
    // Nobody is there who could be asked.
    place.run("rm three").ok();
    assert_eq!(names(), [""; 0]);
}

/// The same as in `import`.
#[test]
fn add_takes_what_it_can_of_a_file_and_tells_the_rest() {
    let place = Place::with(
        "urls.txt",
        "https://a.example/\nnonsense\nhttps://a.example/2\n",
    )
    .and(
        "named.csv",
        "Address,W\nhttps://c.example/,3\nhttps://c.example/2,many\n",
    )
    .and("none.txt", "nonsense\n");
    let refused = place.run("add urls.txt --strict");
    refused.failed(2, &["cannot add urls", "line 2", "nonsense", "--strict"]);
    assert!(!place.path("springtide.toml").exists());
    let bad = "line 2: \"nonsense\" is not an http or https address";
    let added = place.run("add urls.txt").ok();
    let told = format!("left out: {bad}");
    assert!(added.stderr.contains(&told), "{}", added.stderr);
    let error = &lines(&place.run("ls --json").ok())[0]["error"]["message"];
    let error = error.as_str().unwrap();
    assert!(
        error.contains(&format!("1 line left out: {bad}")),
        "{error}"
    );
    let run = "add named.csv --map url=Address,weight=W --json";
    let added = json(&place.run(run).ok());
    assert_eq!(added[0]["n_left_out"], 1);
    assert_eq!(added[0]["left_out"][0]["what"], "line 3");
    let file = place.read("springtide.toml");
    let map = "map = { url = \"Address\", weight = \"W\" }";
    assert!(file.contains(map), "{file}");
    let rows = lines(&place.run("ls --elements --json").ok());
    let of = |row: &serde_json::Value| {
        let locator = row["locator"].as_str().unwrap().to_owned();
        (locator, row["weight"].as_f64().unwrap())
    };
    let wanted = ["a.example/", "a.example/2", "c.example/"];
    let wanted = wanted.map(|rest| {
        (
            format!("https://{rest}"),
            if rest.starts_with('c') { 3.0 } else { 1.0 },
        )
    });
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), wanted);

    // Once the line is mended, nothing is wrong.
    std::fs::write(
        place.path("urls.txt"),
        "https://a.example/\nhttps://b.example/\n",
    )
    .unwrap();
    place.run("add https://d.example/ --offline").ok();
    assert!(lines(&place.run("ls --json").ok())[0]["error"].is_null());
    place
        .run("add none.txt")
        .failed(2, &["no line of it can be used; line 1", "--map url=NAME"]);
    place
        .run("add https://e.example/ --offline --strict")
        .failed(2, &["--strict is for files"]);
}
