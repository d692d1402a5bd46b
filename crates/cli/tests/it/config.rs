//! `springtide.toml`, variables and flags.

use crate::Place;

/// What `status` says of a file.
fn refused(content: &str, words: &[&str]) {
    Place::with("springtide.toml", content)
        .run("status")
        .failed(2, words);
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_what_was_meant() {
    let place = Place::with(
        "springtide.toml",
        "[budget]\npolls = \"5/day\"\nbrust = \"5/hour\"\n",
    );
    let ran = place.run("ls").failed(2, &[]);
    assert_eq!(ran.stdout, "");
    insta::assert_snapshot!(ran.stderr, @r"
    error: cannot read ./springtide.toml
      cause: line 3: unknown key `budget.brust`; did you mean `burst`?
      hint:  [budget] has polls, burst, window, audit, first_pass
    ");
}

#[test]
fn values_are_checked_where_they_are_read() {
    for (content, words) in [
        (
            "[budget]\npolls = \"5/parsec\"\n",
            "line 2: budget.polls: `5/parsec`: unknown unit `parsec`",
        ),
        ("[budget]\npolls = \"0/day\"\n", "above zero"),
        ("[budget]\nburst = \"1.5/hour\"\n", "a whole number"),
        ("[budget]\nwindow = \"22:00\"\n", "two times of the day"),
        ("[budget]\naudit = \"200%\"\n", "between 0 and 1"),
        ("[budget]\nfirst_pass = \"fre\"\n", "did you mean `free`?"),
        ("[policy]\nname = \"lerned\"\n", "did you mean `learned`?"),
        ("[policy]\nmax_interval = \"0s\"\n", "above zero"),
        (
            "[http]\nmax_body = \"10 parsecs\"\n",
            "unknown unit `parsecs`",
        ),
        (
            "[http]\nallow_private = [\"10.0.0.0/99\"]\n",
            "neither an address nor a network",
        ),
        (
            "[source.a]\nkind = \"page\"\nurl = \"http://a.example/\"\nallow_private = \"10.0.0.0/99\"\n",
            "neither an address nor a network",
        ),
        ("[http]\ntimeout = \"40d\"\n", "longer than a day"),
        (
            "[target]\nage = { warn_after = \"2d\", error_after = \"1d\" }\n",
            "warn_after is longer",
        ),
        (
            "[[group]]\nmatch = \"a.example:80\"\n",
            "line 1: group.match",
        ),
        (
            "[[group]]\nmatch = \"*\"\nconcurrency = 0\n",
            "group.concurrency is 0",
        ),
        (
            "[source.a]\nkind = \"page\"\n",
            "line 1: source.a: there is no `url`",
        ),
        (
            "[source.a]\nkind = \"page\"\nurl = \"ftp://a.example\"\n",
            "neither http nor https",
        ),
        ("[source.a]\nkind = \"sitemp\"\n", "did you mean `sitemap`?"),
        (
            "[source.a]\nkind = \"page\"\nurl = \"https://a.example\"\nrows = \"x\"\n",
            "`rows` is for search sources",
        ),
        (
            "[source.a]\nkind = \"page\"\nurl = \"https://a.example\"\nentries = \"pages\"\n",
            "`entries` is for feeds",
        ),
        (
            "[source.a]\nkind = \"feed\"\nurl = \"https://a.example\"\nentries = \"contents\"\n",
            "did you mean `content`?",
        ),
        (
            "[source.a]\nkind = \"page\"\nurl = \"https://a.example\"\nweight = -1\n",
            "a weight is zero or more",
        ),
        (
            "[source.a]\nkind = \"page\"\nurl = \"https://a.example\"\n[source.a.detect]\nkeep = [\"p[[\"]\n",
            "source.a: detect",
        ),
        ("[source.\"a b\"]\nkind = \"list\"\n", "is not a valid name"),
        ("not toml at all\n", "line 1"),
    ] {
        refused(content, &[words]);
    }
}

#[test]
fn everything_that_the_reference_shows_is_understood() {
    let text = std::fs::read_to_string(crate::repository().join("docs/reference/config.md"));
    let text = text.unwrap();
    let blocks: Vec<&str> = text
        .split("```toml\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap())
        .collect();
    assert!(blocks.len() >= 2, "the whole file, and a search source");
    for block in blocks {
        let place = Place::with("springtide.toml", block).and("rows.csv", "id\n");
        let mut command = place.command("ls --json");
        let output = command.env("SHOP_KEY", "secret").output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}\n{block}");
        assert!(!stderr.contains("secret"));
    }
}

#[test]
fn a_secret_that_is_not_there_is_named() {
    let search = "[source.shop]\nkind = \"search\"\nurl = \"https://a.example/{query}\"\n\
                  rows = \"rows.csv\"\nattributes = { title = \"words\" }\n\
                  [source.shop.answer]\nresults = \"/r\"\nid = \"/id\"\n\
                  [source.shop.headers]\nx-api-key = \"env:NO_SUCH_KEY\"\n";
    let place = Place::with("springtide.toml", search);
    place
        .run("run")
        .failed(2, &["headers.x-api-key", "NO_SUCH_KEY"]);
    place.run("status").ok();
}

#[test]
fn a_flag_overrules_a_variable_and_a_variable_the_file() {
    let place = Place::with("springtide.toml", "[budget]\npolls = \"5/day\"\n");
    let per_day = |variable: Option<&str>| {
        let mut command = place.command("status --json");
        if let Some(value) = variable {
            command.env("SPRINGTIDE_BUDGET_POLLS", value);
        }
        let output = command.output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        status["budget"]["per_day"].as_f64().unwrap()
    };
    assert_eq!(per_day(None), 5.0);
    assert_eq!(per_day(Some("48/day")), 48.0);
    assert_eq!(per_day(Some("")), 5.0, "nothing said is nothing set");

    // A flag that makes no sense is looked at first, then a variable.
    place.run("run --budget x").failed(2, &["--budget"]);
    let refused = place
        .command("status")
        .env("SPRINGTIDE_BUDGET_POLLS", "x")
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("SPRINGTIDE_BUDGET_POLLS"), "{said}");
    let warned = place
        .command("status")
        .env("SPRINGTIDE_BUGDET_POLLS", "x")
        .output()
        .unwrap();
    let said = String::from_utf8(warned.stderr).unwrap();
    assert!(
        said.contains("did you mean SPRINGTIDE_BUDGET_POLLS?"),
        "{said}"
    );
}

#[test]
fn where_only_search_sources_are_asked_their_quotas_are_the_budget() {
    let source = |name: &str, quota: &str| {
        format!(
            "[source.{name}]\nkind = \"search\"\nurl = \"https://a.example/{{query}}\"\n\
             rows = \"rows.csv\"\nattributes = {{ title = \"words\" }}\n{quota}\n\
             [source.{name}.answer]\nresults = \"/r\"\nid = \"/id\"\n"
        )
    };
    let per_day = |content: String| {
        let place = Place::with("springtide.toml", content);
        crate::json(&place.run("status --json").ok())["budget"]["per_day"]
            .as_f64()
            .unwrap()
    };
    let both = source("one", "quota = \"10/hour\"") + &source("two", "quota = \"5/day\"");
    assert_eq!(per_day(both.clone()), 245.0);
    assert_eq!(per_day(format!("[budget]\npolls = \"7/day\"\n{both}")), 7.0);
    assert_eq!(per_day(both + &source("three", "")), 1000.0);
}

#[test]
fn retain_is_read_for_all_and_for_each_source() {
    let source = "[source.a]\nkind = \"page\"\nurl = \"https://a.example/\"\n";
    let all = "[retain]\nversions = 10\nwithin = \"90d\"\nbodies = true\npolls = \"400d\"\n";
    let own = "[source.a.retain]\nversions = 1\nbodies = false\n";
    let place = Place::with("springtide.toml", format!("{all}{source}{own}"));
    place.run("doctor").ok();
    for (wrong, word) in [
        ("versions = 0", "retain.versions is 0"),
        ("versions = -1", "versions"),
        ("within = \"soon\"", "within"),
        ("bodys = true", "bodies"),
    ] {
        let place = Place::with("springtide.toml", format!("[retain]\n{wrong}\n{source}"));
        place.run("run --once").failed(2, &[word]);
    }
}
