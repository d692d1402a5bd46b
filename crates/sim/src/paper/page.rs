//! One page with all exhibits: light or dark as the reader's other pages are, and on a
//! phone every number below its name.

use std::fmt::Write;

use super::{Computed, Entry, Exhibit, Paper, Tally};
use crate::figure::svg::escaped;

/// The exhibits as one HTML page, in the order given: figures, printed and computed
/// values side by side, and notes. It needs no network, no script and no other file.
pub fn page(shown: &[(Exhibit, Computed)]) -> String {
    let mut html = String::from(HEAD);
    let all = shown.iter().flat_map(|(_, computed)| &computed.entries);
    let Tally {
        n_agree,
        n_differ,
        n_unprinted,
    } = Tally::of(all);
    put(
        &mut html,
        format_args!(
            "<header>\n<h1>The papers, computed again</h1>\n\
             <p>Every table, figure, example, theorem and claim with numbers: what was printed, \
             what springtide computes, and where the paper errs.</p>\n\
             <dl class=\"tally\">\n\
             <div><dt>agree</dt><dd>{n_agree}</dd></div>\n\
             <div><dt>differ, with the erratum</dt><dd>{n_differ}</dd></div>\n\
             <div><dt>computed, nothing printed</dt><dd>{n_unprinted}</dd></div>\n\
             </dl>\n</header>"
        ),
    );
    html.push_str("<nav aria-label=\"Exhibits\">\n");
    for paper in [Paper::Freshness, Paper::Sampling, Paper::Content] {
        let of_paper = || shown.iter().filter(|(exhibit, _)| exhibit.paper == paper);
        if of_paper().next().is_none() {
            continue;
        }
        let name = paper.name();
        put(&mut html, format_args!("<h2>The {name} paper</h2>\n<ul>"));
        for (exhibit, computed) in of_paper() {
            let differs = match Tally::of(&computed.entries).n_differ {
                0 => "",
                _ => " <span class=\"mark\">differs</span>",
            };
            let (anchor, label) = (anchor(exhibit), label(exhibit));
            put(
                &mut html,
                format_args!("<li><a href=\"#{anchor}\">{label}</a>{differs}</li>"),
            );
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</nav>\n<main>\n");
    let mut last = None;
    for (exhibit, computed) in shown {
        if last.replace(exhibit.paper) != Some(exhibit.paper) {
            let citation = escaped(exhibit.paper.citation());
            put(&mut html, format_args!("<p class=\"paper\">{citation}</p>"));
        }
        put_exhibit(&mut html, exhibit, computed);
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>springtide: the papers, computed again</title>
<style>
html { font: 100%/1.5 system-ui, 'Helvetica Neue', Arial, sans-serif; color: var(--ink); background: var(--ground);
  color-scheme: light dark; --ink: #222; --muted: #555; --ground: #fff; --link: #005a8c; --rule: #ccc; --faint: #e4e4e4;
  --strong: #888; --differs: #fdf3e7; }
@media screen and (prefers-color-scheme: dark) {
  html { --ink: #e8e8e8; --muted: #b0b4b8; --ground: #16191d; --link: #7cc4f2; --rule: #4a5056; --faint: #33383d;
    --strong: #80868c; --differs: #3a2c1a; }
}
body { max-width: 54rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .25rem; }
nav h2 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
nav ul { columns: 17rem; column-gap: 2rem; margin: 0; padding: 0; list-style: none; font-size: .875rem; }
nav li { break-inside: avoid; padding: .1rem 0; }
a { color: var(--link); }
section { border-top: 1px solid var(--rule); margin-top: 2.5rem; padding-top: 1.25rem; }
.id { color: var(--muted); font-size: .875rem; margin: 0; }
.paper { font-style: italic; margin: 2.5rem 0 0; }
.tally { display: flex; flex-wrap: wrap; gap: .5rem 2.5rem; margin: 1rem 0; }
.tally div { display: flex; flex-direction: column-reverse; }
.tally dd { margin: 0; font-size: 1.75rem; line-height: 1.1; font-variant-numeric: tabular-nums; }
.tally dt { font-size: .875rem; color: var(--muted); }
figure { margin: 1rem 0; break-inside: avoid; overflow-x: auto; }
figure svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-size: .875rem; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--faint);
  overflow-wrap: anywhere; }
th { border-bottom-color: var(--strong); }
tr { break-inside: avoid; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.differs td { background: var(--differs); }
tr.differs .verdict, .mark { font-weight: 600; }
.mark { font-size: .75rem; border: 1px solid var(--strong); border-radius: .2rem; padding: 0 .25rem; }
@media screen and (max-width: 40rem) {
  body { padding: 1rem .75rem 3rem; }
  nav li { padding: .35rem 0; }
  figure svg { max-width: none; width: 34rem; }
  thead { position: absolute; clip-path: inset(50%); }
  tr { display: grid; grid-template-columns: 1fr 1fr 1fr; gap: 0 .75rem; padding: .5rem 0; border-bottom: 1px solid var(--faint); }
  tr.differs { background: var(--differs); }
  td { border: 0; padding: 0; }
  td.quantity, td.note { grid-column: 1 / -1; }
  td.quantity { font-weight: 600; }
  td.number { text-align: left; }
  td[data-head]::before { content: attr(data-head) \" \"; color: var(--muted); }
}
@media print { body { max-width: none; padding: 0; } a { color: inherit; text-decoration: none; } }
</style>
</head>
<body>
";

fn put_exhibit(html: &mut String, exhibit: &Exhibit, computed: &Computed) {
    let (anchor, label) = (anchor(exhibit), label(exhibit));
    let id = escaped(&exhibit.full_id());
    let remark = escaped(computed.remark);
    put(
        html,
        format_args!(
            "<section id=\"{anchor}\" aria-labelledby=\"{anchor}-title\">\n\
             <p class=\"id\">{id}</p>\n\
             <h2 id=\"{anchor}-title\">{label}</h2>\n<p>{remark}</p>"
        ),
    );
    for figure in &computed.figures {
        let svg = figure.svg();
        put(html, format_args!("<figure>\n{svg}</figure>"));
    }
    let has_notes = computed.entries.iter().any(|entry| entry.note.is_some());
    let note = if has_notes {
        "<th scope=\"col\">Note</th>"
    } else {
        ""
    };
    put(
        html,
        format_args!(
            "<table>\n<thead><tr><th scope=\"col\">Quantity</th>\
             <th scope=\"col\" class=\"number\">Printed</th>\
             <th scope=\"col\" class=\"number\">Ours</th>\
             <th scope=\"col\">Verdict</th>{note}</tr></thead>\n<tbody>"
        ),
    );
    for entry in &computed.entries {
        put_entry(html, entry, has_notes);
    }
    html.push_str("</tbody>\n</table>\n</section>\n");
}

fn put_entry(html: &mut String, entry: &Entry, has_notes: bool) {
    let class = match entry.agrees {
        Some(false) => " class=\"differs\"",
        _ => "",
    };
    let quantity = escaped(&entry.title());
    let (printed, ours) = (entry.theirs(), entry.ours());
    let verdict = entry.verdict();
    let note = match &entry.note {
        _ if !has_notes => String::new(),
        Some(note) => format!("<td class=\"note\">{}</td>", escaped(note)),
        None => "<td class=\"note\"></td>".to_owned(),
    };
    put(
        html,
        format_args!(
            "<tr{class}><td class=\"quantity\">{quantity}</td>\
             <td class=\"number\" data-head=\"Printed\">{printed}</td>\
             <td class=\"number\" data-head=\"Ours\">{ours}</td>\
             <td class=\"verdict\">{verdict}</td>{note}</tr>"
        ),
    );
}

/// Where on the page an exhibit is.
fn anchor(exhibit: &Exhibit) -> String {
    escaped(&exhibit.full_id().replace('/', "-"))
}

/// As in "Table 5. The best frequencies". A claim says itself where it is from.
fn label(exhibit: &Exhibit) -> String {
    let number = exhibit
        .id
        .split_once('-')
        .filter(|(kind, _)| *kind != "claim");
    let title = escaped(exhibit.title);
    match number {
        Some((kind, number)) => {
            let (first, rest) = kind.split_at(1);
            format!("{}{rest} {number}. {title}", first.to_uppercase())
        }
        None => title,
    }
}

fn put(html: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(html, "{arguments}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Axis, Figure, Mark};
    use crate::paper::Setting;

    fn shown() -> Vec<(Exhibit, Computed)> {
        fn nothing(_: &Setting<'_>) -> Computed {
            Computed::default()
        }
        let exhibit = |id, title| Exhibit {
            paper: Paper::Freshness,
            id,
            title,
            compute: nothing,
        };
        let figure = Figure::new("f", Axis::linear("x"), Axis::linear("y")).with(
            "a",
            Mark::Line,
            [(0.0, 1.0), (1.0, 2.0)],
        );
        let computed = Computed {
            entries: vec![
                Entry::rounds_to("a < b", 1.0, 0, 1.2),
                Entry::rounds_to("c", 1.0, 0, 7.0).noted("erratum: \"7\" & more"),
                Entry::unprinted("d", f64::INFINITY),
            ],
            figures: vec![figure],
            remark: "What it shows.",
        };
        vec![
            (exhibit("table-5", "Five"), computed),
            (exhibit("claim-x", "A claim"), Computed::default()),
        ]
    }

    #[test]
    fn the_page_counts_links_and_shows() {
        let html = page(&shown());
        for expected in [
            "<dt>agree</dt><dd>1</dd>",
            "<dt>differ, with the erratum</dt><dd>1</dd>",
            "<dt>computed, nothing printed</dt><dd>1</dd>",
            "<a href=\"#freshness-table-5\">Table 5. Five</a> <span class=\"mark\">differs</span>",
            "<section id=\"freshness-table-5\"",
            "<a href=\"#freshness-claim-x\">A claim</a></li>",
            "<td class=\"quantity\">a &lt; b</td>",
            "<td class=\"note\">erratum: &quot;7&quot; &amp; more</td>",
            "<td class=\"number\" data-head=\"Ours\">∞</td>",
            "role=\"img\"",
        ] {
            assert!(html.contains(expected), "no {expected} in {html}");
        }
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let html = page(&shown());
        for word in ["<script", "<link", "src=", "@import", "url(", "https:"] {
            assert!(!html.contains(word), "{word}");
        }
        let opened = html.matches("<section").count();
        assert_eq!(opened, html.matches("</section>").count());
        assert!(page(&[]).contains("</html>"));
    }

    #[test]
    fn the_page_is_for_dark_screens_and_phones_too() {
        let html = page(&shown());
        assert!(html.contains("@media screen and (prefers-color-scheme: dark)"));
        assert!(html.contains("@media screen and (max-width: 40rem)"));
        assert!(html.contains("name=\"viewport\""));
        // What a style names by a colour of its own would not turn dark.
        let rules = html.split_once("body {").unwrap().1;
        let rules = rules.split_once("</style>").unwrap().0;
        assert!(!rules.contains('#'), "{rules}");
    }
}
