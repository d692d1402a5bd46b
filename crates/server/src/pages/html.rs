//! Pieces of pages: numbers with their names, times, charts. What comes from outside is
//! escaped here, or by the templates.

use std::fmt::{self, Write};

use askama::filters::HtmlSafe;
use springtide_engine::view::{self, Freshness, States};
use springtide_store::Moment;

/// A piece of a page, in which everything from outside was escaped.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Html(String);

impl HtmlSafe for Html {}

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Html {
    /// What a figure below it shows.
    pub(crate) fn lead(text: &str) -> Self {
        Self(format!("<h3>{}</h3>", escape(text)))
    }

    /// Pieces, one after the other.
    pub(crate) fn joined(pieces: &[Self]) -> Self {
        Self(pieces.iter().map(|piece| &*piece.0).collect())
    }
}

impl From<&str> for Html {
    fn from(text: &str) -> Self {
        Self(escape(text))
    }
}

/// Text, so that nothing in it means anything.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// How a number is written, here and by the script.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    Count,
    Percent,
    /// Seconds.
    Brief,
    /// So many a day.
    PerDay,
    /// With three digits.
    Plain,
}

impl Format {
    fn write(self, number: f64) -> String {
        match self {
            Self::Count => view::count(number as usize),
            Self::Percent => view::percent(number),
            Self::Brief => view::brief(number),
            Self::PerDay => view::per_day(number),
            Self::Plain => format!("{number:.3e}"),
        }
    }

    /// As it stands at an axis: short.
    fn axis(self, number: f64) -> String {
        match self {
            Self::Percent => format!("{:.0}%", number * 100.0),
            other => other.write(number),
        }
    }
}

/// A number of the API by its name; a word where there is none.
pub(crate) fn number(name: &str, value: Option<f64>, format: Format, none: &str) -> Html {
    let by_script = match format {
        Format::Count => " data-format=\"count\"",
        Format::Percent => " data-format=\"percent\"",
        Format::Brief => " data-format=\"brief\"",
        Format::PerDay => " data-format=\"perDay\"",
        Format::Plain => " data-format=\"plain\"",
    };
    let Some(value) = value.filter(|value| value.is_finite()) else {
        let (name, none) = (escape(name), escape(none));
        return Html(format!(
            "<span data-name=\"{name}\"{by_script}>{none}</span>"
        ));
    };
    Html(format!(
        "<span data-name=\"{}\" data-value=\"{value}\"{by_script}>{}</span>",
        escape(name),
        format.write(value)
    ))
}

/// The same where it is not shown anew while a page is open.
pub(crate) fn still(name: &str, value: Option<f64>, format: Format, none: &str) -> Html {
    let Html(text) = number(name, value, format, none);
    let Some(at) = text.find(" data-format=") else {
        return Html(text);
    };
    let end = text[at..].find('>').map_or(text.len(), |end| at + end);
    Html(format!("{}{}", &text[..at], &text[end..]))
}

/// When, from now, with the exact time to be had.
pub(crate) fn when(at: Option<Moment>, now: Moment, none: &str) -> Html {
    match at {
        Some(at) => {
            let exact = view::rfc3339(at);
            let text = view::relative(at, now);
            Html(format!(
                "<time datetime=\"{exact}\" title=\"{exact}\">{text}</time>"
            ))
        }
        None => Html(escape(none)),
    }
}

/// The interval that a measured freshness lies in.
pub(crate) fn interval(freshness: &Freshness, now: Moment) -> Html {
    match (freshness.low, freshness.high, freshness.since) {
        (Some(low), Some(high), since @ Some(_)) => Html(format!(
            "measured, {} to {} by {} since {}",
            number("freshness.low", Some(low), Format::Percent, ""),
            number("freshness.high", Some(high), Format::Percent, ""),
            view::plural(freshness.n_audits, "audit poll"),
            when(since, now, "")
        )),
        _ => Html("not measured yet: polls drawn at random will tell".to_owned()),
    }
}

/// How many elements are in which state, as a bar and in words.
pub(crate) fn states(states: &States) -> Html {
    let parts = [
        ("ok", states.ok),
        ("new", states.new),
        ("failing", states.failing),
        ("blocked", states.blocked),
        ("gone", states.gone),
    ];
    let all = states.all().max(1) as f64;
    let mut bar = String::from(
        "<svg class=\"chart\" viewBox=\"0 0 300 10\" preserveAspectRatio=\"none\" height=\"10\" \
         aria-hidden=\"true\">",
    );
    let (mut at, mut legend) = (0.0, String::new());
    for (name, n) in parts {
        let width = 300.0 * n as f64 / all;
        // To write to a text does not fail.
        let _ = write!(
            bar,
            "<rect class=\"{name}\" x=\"{at:.1}\" width=\"{width:.1}\" height=\"10\"/>"
        );
        at += width;
        if n > 0 || name == "ok" {
            let n = still(&format!("states.{name}"), Some(n as f64), Format::Count, "");
            let _ = write!(legend, "<li>{n} {name}</li>");
        }
    }
    Html(format!("{bar}</svg><ul class=\"legend\">{legend}</ul>"))
}

/// A share as a bar.
pub(crate) fn bar(share: f64) -> Html {
    let width = 160.0 * share.clamp(0.0, 1.0);
    Html(format!(
        "<svg viewBox=\"0 0 160 10\" width=\"160\" height=\"10\" role=\"img\" \
         aria-label=\"{}\"><rect class=\"back\" width=\"160\" height=\"10\" rx=\"3\"/>\
         <rect class=\"bar\" width=\"{width:.1}\" height=\"10\" rx=\"3\"/></svg>",
        view::percent(share)
    ))
}

/// What of the budget was used today, shown anew as it is.
pub(crate) fn live_bar(share: f64) -> Html {
    let Html(text) = bar(share);
    Html(text.replacen("<svg ", "<svg data-used ", 1))
}

/// What of it is left.
pub(crate) fn live_left(left: f64) -> Html {
    Html(format!(
        "<span data-left>{}</span>",
        view::count(left as usize)
    ))
}

/// The polls of an element over time, the changes among them marked.
pub(crate) fn timeline(polls: &[(Moment, &str)]) -> Html {
    let (Some(last), Some(first)) = (polls.first(), polls.last()) else {
        return Html::default();
    };
    let span = (last.0.0 - first.0.0).max(1) as f64;
    let mut text = String::from(
        "<svg class=\"chart\" viewBox=\"0 0 600 34\" role=\"img\" aria-label=\"Polls over time; \
         those that found a change stand out\"><line class=\"axis\" x1=\"0\" x2=\"600\" y1=\"24\" \
         y2=\"24\"/>",
    );
    for (at, outcome) in polls {
        let x = 3.0 + 594.0 * (at.0 - first.0.0) as f64 / span;
        let (class, top) = match *outcome {
            "changed" | "first" | "gone" => ("changed", 4),
            "failed" => ("failed", 10),
            _ => ("", 14),
        };
        let _ = write!(
            text,
            "<line class=\"tick {class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"24\"/>"
        );
    }
    text.push_str("</svg>");
    Html(text)
}

/// A bar of a chart, and what it says.
pub(crate) struct Bar {
    pub(crate) height: f64,
    pub(crate) says: String,
}

/// How many there were, part by part, up to now.
pub(crate) fn bars(bars: &[Bar], label: &str, from: &str) -> Html {
    let most = bars.iter().map(|bar| bar.height).fold(1.0, f64::max);
    let width = 600.0 / bars.len().max(1) as f64;
    let mut text = format!(
        "<p class=\"sub\">{label}</p><svg class=\"chart\" viewBox=\"0 0 600 78\" role=\"img\" \
         aria-label=\"{label}\"><line class=\"axis\" x1=\"0\" x2=\"600\" y1=\"60\" y2=\"60\"/>",
        label = escape(label)
    );
    for (place, bar) in bars.iter().enumerate().filter(|(_, bar)| bar.height > 0.0) {
        let height = 2.0 + 54.0 * bar.height / most;
        let _ = write!(
            text,
            "<rect class=\"failing\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\">\
             <title>{}</title></rect>",
            place as f64 * width,
            60.0 - height,
            (width - 2.0).max(1.0),
            escape(&bar.says)
        );
    }
    let _ = write!(
        text,
        "<text x=\"0\" y=\"75\">{}</text><text x=\"600\" y=\"75\" text-anchor=\"end\">now</text></svg>",
        escape(from)
    );
    Html(text)
}

/// A point of a measured line: when, what, and between what.
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Freshness over time: measured, with its interval, and what was predicted beside it.
/// Of either there is a line from two points on.
pub(crate) fn over_time(points: &[Point], predicted: &[(f64, f64)], from: &str) -> Html {
    if points.len() < 2 && predicted.len() < 2 {
        return Html::default();
    }
    let points: &[Point] = if points.len() < 2 { &[] } else { points };
    let lows = points.iter().map(|p| p.low);
    let lowest = lows.chain(predicted.iter().map(|(_, share)| *share));
    let lowest = lowest.fold(1.0, f64::min);
    let floor = (lowest * 10.0).floor() / 10.0;
    let floor = floor.clamp(0.0, 0.9);
    let y = |share: f64| 8.0 + 100.0 * (1.0 - (share - floor) / (1.0 - floor));
    let x = |x: f64| 34.0 + 560.0 * x;
    let mut band = String::new();
    for point in points {
        let _ = write!(band, "{:.1},{:.1} ", x(point.x), y(point.high));
    }
    for point in points.iter().rev() {
        let _ = write!(band, "{:.1},{:.1} ", x(point.x), y(point.low));
    }
    let mut line = String::new();
    for point in points {
        let _ = write!(line, "{:.1},{:.1} ", x(point.x), y(point.y));
    }
    let mut beside = String::new();
    for &(at, share) in predicted {
        let _ = write!(beside, "{:.1},{:.1} ", x(at), y(share));
    }
    Html(format!(
        "<svg class=\"chart\" viewBox=\"0 0 600 128\" role=\"img\" aria-label=\"Freshness over \
         time: measured, with its interval, and predicted\">\
         <line class=\"axis\" x1=\"34\" x2=\"594\" y1=\"8\" y2=\"8\"/>\
         <line class=\"axis\" x1=\"34\" x2=\"594\" y1=\"108\" y2=\"108\"/>\
         <text x=\"0\" y=\"12\">100%</text><text x=\"0\" y=\"112\">{:.0}%</text>\
         <polygon class=\"band\" points=\"{band}\"/><polyline class=\"other\" points=\"{beside}\"/>\
         <polyline class=\"line\" points=\"{line}\"/>\
         <text x=\"34\" y=\"125\">{}</text><text x=\"594\" y=\"125\" text-anchor=\"end\">now</text>\
         </svg><ul class=\"legend\"><li>— measured</li><li>– – predicted</li></ul>",
        floor * 100.0,
        escape(from)
    ))
}

/// What a curve over budgets shows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gain {
    Freshness,
    /// In seconds.
    Age,
}

/// Spans, in seconds, that are written in a word, as their halves are: for an axis.
const ROUND_SPANS: [f64; 29] = [
    0.02,
    0.04,
    0.1,
    0.2,
    0.4,
    1.0,
    2.0,
    4.0,
    10.0,
    20.0,
    40.0,
    60.0,
    120.0,
    240.0,
    600.0,
    1200.0,
    2400.0,
    3600.0,
    7200.0,
    14_400.0,
    36_000.0,
    72_000.0,
    86_400.0,
    172_800.0,
    345_600.0,
    864_000.0,
    1_728_000.0,
    3_456_000.0,
    8_640_000.0,
];

/// What budgets buy, ours and polling all alike, over the logarithm of the budget. What is
/// not finite is not drawn.
pub(crate) fn curve(gain: Gain, points: &[(f64, f64, f64)], now: f64, target: Option<f64>) -> Html {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Html::default();
    };
    let finite = |value: &f64| value.is_finite();
    let most = points.iter().flat_map(|&(_, ours, alike)| [ours, alike]);
    let most = most.filter(finite).fold(0.0, f64::max);
    let (what, format, top) = match gain {
        Gain::Freshness => ("Freshness", Format::Percent, 1.0),
        Gain::Age => {
            let round = ROUND_SPANS.into_iter().find(|round| *round >= most);
            ("Age", Format::Brief, round.unwrap_or(most))
        }
    };
    if most <= 0.0 {
        return Html::default();
    }
    let (from, to) = (first.0.log10(), last.0.log10());
    let x = |budget: f64| 40.0 + 540.0 * (budget.log10() - from) / (to - from).max(1e-9);
    let y = |value: f64| 10.0 + 180.0 * (1.0 - value / top);
    let (mut ours, mut alike) = (String::new(), String::new());
    for &(budget, value, uniform) in points {
        for (line, value) in [(&mut ours, value), (&mut alike, uniform)] {
            if value.is_finite() {
                let _ = write!(line, "{:.1},{:.1} ", x(budget), y(value));
            }
        }
    }
    let target = target.filter(|value| *value <= top);
    let target = target.map_or(String::new(), |value| {
        let y = y(value);
        format!(
            "<line class=\"target\" x1=\"40\" x2=\"580\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"580\" y=\"{:.1}\" text-anchor=\"end\">target</text>",
            y - 4.0
        )
    });
    let present = points
        .iter()
        .find(|(budget, ours, _)| (budget / now - 1.0).abs() < 1e-9 && ours.is_finite())
        .map_or(String::new(), |&(budget, ours, _)| {
            let (x, y) = (x(budget), y(ours));
            format!("<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>")
        });
    Html(format!(
        "<svg class=\"chart\" viewBox=\"0 0 600 222\" role=\"img\" aria-label=\"{what} over \
         the budget, ours and with uniform polling; the table below has the numbers\">\
         <line class=\"axis\" x1=\"40\" x2=\"580\" y1=\"10\" y2=\"10\"/>\
         <line class=\"axis\" x1=\"40\" x2=\"580\" y1=\"100\" y2=\"100\"/>\
         <line class=\"axis\" x1=\"40\" x2=\"580\" y1=\"190\" y2=\"190\"/>\
         <text x=\"0\" y=\"14\">{}</text><text x=\"0\" y=\"104\">{}</text>\
         <text x=\"0\" y=\"194\">{}</text>{target}\
         <polyline class=\"other\" points=\"{alike}\"/><polyline class=\"line\" points=\"{ours}\"/>\
         {present}<text x=\"40\" y=\"208\">{}/day</text>\
         <text x=\"580\" y=\"208\" text-anchor=\"end\">{}/day</text>\
         <text x=\"310\" y=\"208\" text-anchor=\"middle\">budget</text></svg>\
         <ul class=\"legend\"><li>— springtide</li><li>– – uniform</li><li>● now</li></ul>",
        format.axis(top),
        format.axis(top / 2.0),
        format.axis(0.0),
        view::per_day(first.0),
        view::per_day(last.0)
    ))
}

/// Lines of a diff that are shown; more is had by the API.
const MOST_LINES: usize = 2000;

/// A unified diff, line by line.
pub(crate) fn diff(text: &str) -> Html {
    if text.is_empty() {
        return Html("<p class=\"sub\">Nothing that matters differs.</p>".to_owned());
    }
    let mut html = String::from("<div class=\"diff\" tabindex=\"0\">");
    for line in text.lines().take(MOST_LINES) {
        let class = match line.as_bytes().first() {
            Some(b'+') => "add",
            Some(b'-') => "del",
            Some(b'@') => "at",
            _ => "same",
        };
        let _ = write!(html, "<span class=\"{class}\">{}</span>", escape(line));
    }
    if text.lines().nth(MOST_LINES).is_some() {
        html.push_str("<span class=\"at\">… and more</span>");
    }
    html.push_str("</div>");
    Html(html)
}

/// The same side by side: what was removed beside what came in its place.
pub(crate) fn side_by_side(text: &str) -> Html {
    if text.is_empty() {
        return diff(text);
    }
    let mut rows = String::new();
    let (mut old, mut new): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let flush = |rows: &mut String, old: &mut Vec<&str>, new: &mut Vec<&str>| {
        for place in 0..old.len().max(new.len()) {
            let cell = |line: Option<&&str>, class: &str| match line {
                Some(line) => format!("<td class=\"{class}\">{}</td>", escape(line)),
                None => "<td></td>".to_owned(),
            };
            let _ = write!(
                rows,
                "<tr>{}{}</tr>",
                cell(old.get(place), "del"),
                cell(new.get(place), "add")
            );
        }
        old.clear();
        new.clear();
    };
    for line in text.lines().take(MOST_LINES) {
        match line.as_bytes().first() {
            Some(b'-') => old.push(&line[1..]),
            Some(b'+') => new.push(&line[1..]),
            first => {
                flush(&mut rows, &mut old, &mut new);
                if first == Some(&b'@') {
                    let line = escape(line);
                    let _ = write!(rows, "<tr><td class=\"at\" colspan=\"2\">{line}</td></tr>");
                } else {
                    let line = escape(line.get(1..).unwrap_or_default());
                    let _ = write!(rows, "<tr><td>{line}</td><td>{line}</td></tr>");
                }
            }
        }
    }
    flush(&mut rows, &mut old, &mut new);
    Html(format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"side\"><thead><tr>\
         <th scope=\"col\">before</th><th scope=\"col\">after</th></tr></thead>\
         <tbody>{rows}</tbody></table></div>"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_means_anything() {
        let hostile = "<script>alert(1)</script>\"'&";
        assert_eq!(
            escape(hostile),
            "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"
        );
        let html = diff(&format!("@@\n+{hostile}\n-{hostile}\n é"));
        assert!(!html.0.contains("<script") && html.0.contains("class=\"add\""));
        let html = side_by_side(&format!("@@\n-a\n+{hostile}\n+b\né"));
        assert!(!html.0.contains("<script"));
    }

    #[test]
    fn a_line_of_predictions_is_drawn_beside_what_was_measured_and_without_it() {
        let point = |x| Point {
            x,
            y: 0.8,
            low: 0.7,
            high: 0.9,
        };
        let predicted = [(0.0, 0.85), (1.0, 0.9)];
        let both = over_time(&[point(0.0), point(0.9)], &predicted, "2d ago").0;
        let y = |share: f64| 8.0 + 100.0 * (1.0 - (share - 0.7) / 0.3);
        for line in [
            format!(
                "class=\"line\" points=\"34.0,{0:.1} 538.0,{0:.1} \"",
                y(0.8)
            ),
            format!(
                "class=\"other\" points=\"34.0,{:.1} 594.0,{:.1} \"",
                y(0.85),
                y(0.9)
            ),
        ] {
            assert!(both.contains(&line), "{line} in {both}");
        }
        let alone = over_time(&[], &predicted, "2d ago").0;
        assert!(alone.contains("class=\"other\" points=\"34.0,"), "{alone}");
        assert_eq!(over_time(&[point(0.0)], &predicted[..1], "").0, "");
    }

    #[test]
    fn ages_have_a_curve_of_their_own_and_infinite_ones_none() {
        let points = [
            (10.0, f64::INFINITY, 7200.0),
            (100.0, 1800.0, 3600.0),
            (1000.0, 900.0, 1800.0),
        ];
        let drawn = curve(Gain::Age, &points, 100.0, Some(3600.0)).0;
        // Ours begins in the middle, where it is finite, and the top is two hours.
        assert!(
            drawn.contains("class=\"line\" points=\"310.0,145.0 580.0,167.5 \""),
            "{drawn}"
        );
        assert!(
            drawn.contains("class=\"other\" points=\"40.0,10.0 "),
            "{drawn}"
        );
        assert!(drawn.contains(">2h<") && drawn.contains(">1h<") && drawn.contains("target"));
        assert!(drawn.contains("<circle class=\"dot\" cx=\"310.0\""));
        let never = [(10.0, f64::INFINITY, f64::INFINITY)];
        assert_eq!(curve(Gain::Age, &never, 10.0, None), Html::default());
    }

    #[test]
    fn numbers_carry_their_names_and_plain_values() {
        assert_eq!(
            number("n_polls", Some(1234.0), Format::Count, "").0,
            "<span data-name=\"n_polls\" data-value=\"1234\" data-format=\"count\">1,234</span>"
        );
        assert_eq!(
            still("freshness.measured", Some(0.5), Format::Percent, "").0,
            "<span data-name=\"freshness.measured\" data-value=\"0.5\">50.0%</span>"
        );
        let none = number("price", None, Format::Plain, "not known");
        assert_eq!(
            none.0,
            "<span data-name=\"price\" data-format=\"plain\">not known</span>"
        );
    }
}
