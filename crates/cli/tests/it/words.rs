//! What people read: units as they gave them, times where they are, and plain words.

use std::path::{Path, PathBuf};

use crate::{Place, json, repository};

#[test]
fn a_budget_is_told_in_the_unit_that_it_was_given_in() {
    let place = Place::with("rates.csv", "id,rate_per_day\na,1\nb,2\n");
    place.run("init --budget 30/hour").ok();
    assert!(
        place
            .read("springtide.toml")
            .contains("polls = \"30/hour\"")
    );
    let status = place.run("status").ok();
    assert!(
        status.stdout.contains("30 polls an hour, 0 used since "),
        "{}",
        status.stdout
    );
    // Programs have one unit.
    let status = json(&place.run("status --json").ok());
    assert_eq!(status["budget"]["per_day"], 720.0);
    for (budget, told) in [
        ("2/hour", "2 an hour"),
        ("0.5/min", "0.5 a minute"),
        ("48/day", "48 a day"),
        ("14/week", "14 a week"),
    ] {
        let line = format!("plan --rates rates.csv --budget {budget} --out plan.csv");
        let ran = place.run(&line).ok();
        let told = format!("budget              {told}\n");
        assert!(ran.stderr.contains(&told), "{budget}: {}", ran.stderr);
    }
}

#[test]
fn times_are_those_of_the_reader_and_utc_for_programs() {
    let place = Place::new();
    place.run("init").ok();
    // Fourteen hours ahead, the day of the budget begins at two in the afternoon.
    let ahead = place
        .command("status")
        .env("TZ", "XXX-14")
        .output()
        .unwrap();
    let shown = String::from_utf8(ahead.stdout).unwrap();
    assert!(shown.contains("14:00"), "{shown}");
    let utc = place.command("status").env("TZ", "UTC").output().unwrap();
    let shown = String::from_utf8(utc.stdout).unwrap();
    assert!(shown.contains("used since 00:00"), "{shown}");
}

#[test]
fn a_list_that_is_added_may_have_private_addresses_if_that_was_said() {
    let urls = "http://127.0.0.1:9/a\nhttp://127.0.0.3:9/b\nhttp://127.0.0.3:9/c\n";
    let place = Place::with("urls.txt", urls);
    place.run("add urls.txt --allow-private").ok();
    let file = place.read("springtide.toml");
    let allowed = "allow_private = [\"127.0.0.1\", \"127.0.0.3\"]";
    assert!(file.contains(allowed), "{file}");
    // As somebody says it who has first tried without.
    let later = Place::with("urls.txt", urls);
    later.run("add urls.txt").ok();
    assert!(!later.read("springtide.toml").contains("allow_private"));
    let again = later.run("add urls.txt --allow-private").ok();
    assert!(again.stderr.contains("there already"), "{}", again.stderr);
    let file = later.read("springtide.toml");
    assert!(file.contains(allowed), "{file}");
    let given = Place::with("urls.txt", urls);
    given.run("add urls.txt --allow-private=127.0.0.0/8").ok();
    assert!(given.read("springtide.toml").contains("[\"127.0.0.0/8\"]"));
}

#[test]
fn the_name_alone_says_what_to_do_first() {
    let place = Place::new();
    let outside = place.run("").ok().stdout;
    for words in ["springtide demo", "springtide add URL", "springtide --help"] {
        assert!(outside.contains(words), "{outside}");
    }
    place.run("init").ok();
    let empty = place.run("").ok().stdout;
    assert!(empty.contains("has no sources yet") && empty.contains("springtide add URL"));
    place.run("add https://a.example/ --offline").ok();
    let inside = place.run("").ok().stdout;
    assert!(inside.contains("springtide status") && !inside.contains("demo"));
    let help = place.run("run --help").ok().stdout;
    let (settings, common) = help.split_once("Common flags:").unwrap();
    assert!(common.contains("--color") && common.contains("auto, always or never"));
    // What is no setting is not listed as one.
    let (options, settings) = settings.split_once("Settings:").unwrap();
    assert!(options.contains("--json") && !settings.contains("--json"));
    let near = place.run("run --policy lerned").failed(2, &["'learned'"]);
    assert_eq!(near.stdout, "");
}

#[test]
fn a_hint_is_about_what_is_wrong() {
    let place = Place::with("rates.csv", "id,rate_per_day\na,inf\n");
    let ran = place.run("plan --rates rates.csv --budget 1/day");
    let ran = ran.failed(2, &["it is not finite", "hint:  give a finite number"]);
    assert!(!ran.stderr.contains("give 0"), "{}", ran.stderr);
}

/// Phrases that were read twice before they were understood.
const OLD: [&str; 15] = [
    "cannot ask",
    "could not be had",
    "cannot be had",
    "worth its price",
    "copy was ≤",
    "stale to uniform",
    "taken in",
    "takes in",
    "asks nobody",
    "nothing is asked",
    "may be asked",
    "to ask it all the same",
    "nothing names",
    "keep away",
    "whoever watches",
];

#[test]
fn help_guides_and_pages_are_in_plain_words() {
    let place = Place::new();
    let help = place.run("--help").ok().stdout;
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs: Vec<&str> = verbs
        .take_while(|line| !line.is_empty())
        // The rest of a long description is further to the right.
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(verbs.len() > 20, "{help}");
    let mut texts = vec![("--help".to_owned(), help.clone())];
    for verb in verbs.iter().filter(|verb| **verb != "help") {
        texts.push((
            (*verb).to_owned(),
            place.run(&format!("{verb} --help")).ok().stdout,
        ));
    }
    let docs = [
        "README.md",
        "docs/getting-started.md",
        "docs/concepts",
        "docs/guides",
        "docs/reference",
        "crates/server/templates",
        "crates/server/src/pages",
    ];
    for name in docs.map(|name| repository().join(name)) {
        let files = match name.is_dir() {
            true => std::fs::read_dir(&name)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect(),
            false => vec![name],
        };
        let is_text = |file: &std::path::PathBuf| {
            let end = file.extension();
            end.is_some_and(|end| ["md", "html", "rs"].iter().any(|of_text| end == *of_text))
        };
        for file in files.into_iter().filter(is_text) {
            let text = std::fs::read_to_string(&file).unwrap();
            texts.push((file.display().to_string(), text));
        }
    }
    for (name, text) in &texts {
        is_plain(name, text);
    }
}

#[test]
fn messages_are_in_plain_words_and_name_nothing_of_the_repository() {
    let mut n_literals = 0;
    for name in ["crates/cli/src", "crates/engine/src", "crates/server/src"] {
        for file in sources(&repository().join(name)) {
            let text = std::fs::read_to_string(&file).unwrap();
            // What is below it is for those who build the program.
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
            let name = file.display().to_string();
            for literal in literals(code) {
                n_literals += 1;
                is_plain(&name, &literal);
                // Whoever has installed the program has no folder of its documents.
                assert!(!literal.contains("docs/"), "{name}: {literal}");
            }
        }
    }
    assert!(n_literals > 2000, "{n_literals}");
}

#[track_caller]
fn is_plain(name: &str, text: &str) {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for old in OLD {
        let at = text.find(old).unwrap_or_default();
        let near: String = text[..at].chars().rev().take(60).collect();
        let near: String = near.chars().rev().collect();
        assert!(!text.contains(old), "{name}: {near}{old}");
    }
}

/// All files of Rust in a folder and those in it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(sources(&path)),
            false if path.extension().is_some_and(|end| end == "rs") => files.push(path),
            false => {}
        }
    }
    files
}

/// The texts between quotes in code, without its comments.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '/', '\'', 'r']) {
        let (before, here) = rest.split_at(at);
        let is_in_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let hashes = here[1..].bytes().take_while(|b| *b == b'#').count();
        let is_raw = here.starts_with('r') && !is_in_word && here[1 + hashes..].starts_with('"');
        if here.starts_with("//") {
            rest = here.split_once('\n').map_or("", |(_, rest)| rest);
        } else if is_raw {
            let text = &here[hashes + 2..];
            let end = format!("\"{}", "#".repeat(hashes));
            let (text, after) = text.split_once(&end).unwrap();
            found.push(text.to_owned());
            rest = after;
        } else if let Some(quoted) = here.strip_prefix('"') {
            let mut is_escaped = false;
            let end = quoted.find(|c| {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            });
            let (text, after) = quoted.split_at(end.unwrap());
            // A line that goes on in the next one.
            let lines: Vec<&str> = text.split("\\\n").map(str::trim_start).collect();
            found.push(lines.concat());
            rest = &after[1..];
        } else if let Some(char) = here.strip_prefix('\'') {
            // A character, or the name of a lifetime.
            let escape = usize::from(char.starts_with('\\'));
            let end = char.char_indices().nth(1 + escape);
            rest = match end {
                Some((end, '\'')) => &char[end + 1..],
                _ => char,
            };
        } else {
            rest = &here[1..];
        }
    }
    found
}

#[test]
fn texts_between_quotes_are_found() {
    let code = "fn f<'a>() { // \"no\"\n  g('\"', '\\'', \"one \\\"x\\\"\", r#\"two \"\"#, \"th\\\n    ree\"); }";
    assert_eq!(literals(code), ["one \\\"x\\\"", "two \"", "three"]);
}
