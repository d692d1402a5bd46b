use std::fmt::Write;

use super::ruler::{Ends, Ruler};
use super::{Figure, Mark, Scale, Series};

const WIDTH: f64 = 680.0;
const PLOT_HEIGHT: f64 = 300.0;
const RIGHT: f64 = 24.0;
const TITLE_SIZE: f64 = 16.0;
const LABEL_SIZE: f64 = 13.0;
const INK: &str = "#222222";
const MUTED: &str = "#555555";

/// Okabe and Ito's colours, which most colour-blind people can tell apart, without
/// the yellow, which nobody can see on white.
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];

/// What is drawn in place of each colour where the reader's pages are dark. Attributes
/// have the light ones, so that whoever knows no style sheet draws those, on a white
/// ground of their own.
const DARK: [(&str, &str); 12] = [
    ("#ffffff", "#16191d"),
    (INK, "#e8e8e8"),
    (MUTED, "#b0b4b8"),
    ("#e4e4e4", "#33383d"),
    ("#f0f0f0", "#262a2e"),
    ("#0072b2", "#4ba3e3"),
    ("#d55e00", "#f0803c"),
    ("#009e73", "#2fc79a"),
    ("#cc79a7", "#dc94bd"),
    ("#e69f00", "#f0b53c"),
    ("#56b4e9", "#8fd0f5"),
    ("#000000", "#f5f5f5"),
];

/// The style sheet for dark pages. It names no figure, so that many may be in one page.
fn dark_style() -> String {
    let rules: String = DARK
        .iter()
        .map(|(light, dark)| {
            format!(
                ".figure[fill='{light}'],.figure [fill='{light}']{{fill:{dark}}}\
                 .figure [stroke='{light}']{{stroke:{dark}}}"
            )
        })
        .collect();
    format!("@media screen and (prefers-color-scheme:dark){{{rules}}}")
}

/// Lines differ in dash as well, for those who print in grey.
const DASHES: [&str; 6] = ["", "11 4", "2 4", "11 4 2 4", "6 3", "11 3 2 3 2 3"];

/// The dash of what was asked to be dashed.
const DASHED: &str = "5 4";

pub(super) fn draw(figure: &Figure) -> String {
    let stands_on_zero = figure
        .series
        .iter()
        .any(|series| matches!(series.mark, Mark::Bars | Mark::Stems));
    let points = || figure.series.iter().flat_map(|series| &series.points);
    let bars = bar_edges(figure);
    let across = points().map(|point| point.0).chain(bars);
    let x = Ruler::new(&figure.x, across, Ends::NearData);
    let ends = if stands_on_zero {
        Ends::AtTicksWithZero
    } else {
        Ends::AtTicks
    };
    let y = Ruler::new(&figure.y, points().map(|point| point.1), ends);
    let legend = legend_rows(figure);

    let widest = y.ticks.iter().map(|tick| text_width(&tick.label));
    let left = (widest.fold(0.0, f64::max) + 18.0).clamp(44.0, 200.0);
    let top = 62.0 + 24.0 * legend.len() as f64;
    let plot = Plot {
        left,
        top,
        width: WIDTH - RIGHT - left,
        x,
        y,
    };
    let name_width = plot.x.ticks.iter().map(|tick| text_width(&tick.label));
    let name_width = name_width.fold(0.0, f64::max);
    let slot = plot.width / plot.x.ticks.len().max(1) as f64;
    let leans = matches!(figure.x.scale, Scale::Names(_)) && name_width + 6.0 > slot;
    let below = if leans { 24.0 + name_width * 0.6 } else { 24.0 };
    let height = top + PLOT_HEIGHT + below + 28.0;

    let mut svg = String::new();
    let label = escaped(&spoken(figure));
    line(
        &mut svg,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {WIDTH} {height:.0}\" class=\"figure\" role=\"img\" \
             aria-label=\"{label}\" \
             font-family=\"system-ui, 'Helvetica Neue', Arial, sans-serif\" \
             font-size=\"{LABEL_SIZE}\" fill=\"{INK}\">"
        ),
    );
    line(&mut svg, format_args!("<style>{}</style>", dark_style()));
    line(
        &mut svg,
        format_args!("<rect width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"#ffffff\"/>"),
    );
    let title = escaped(&figure.title);
    line(
        &mut svg,
        format_args!(
            "<text x=\"12\" y=\"26\" font-size=\"{TITLE_SIZE}\" font-weight=\"600\">{title}</text>"
        ),
    );
    for (row, entries) in legend.iter().enumerate() {
        for &(number, from) in entries {
            draw_key(&mut svg, figure, number, from, 48.0 + 20.0 * row as f64);
        }
    }
    let y_label = escaped(&figure.y.label);
    line(
        &mut svg,
        format_args!(
            "<text x=\"12\" y=\"{:.1}\" fill=\"{MUTED}\">{y_label}</text>",
            top - 12.0
        ),
    );
    plot.draw_grid(&mut svg, leans);
    for number in 0..figure.series.len() {
        plot.draw_series(&mut svg, figure, number);
    }
    let x_label = escaped(&figure.x.label);
    line(
        &mut svg,
        format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{MUTED}\">{x_label}</text>",
            plot.left + plot.width / 2.0,
            height - 12.0
        ),
    );
    svg.push_str("</svg>\n");
    svg
}

/// How far the first and the last bar reach, so that the axis has room for them.
fn bar_edges(figure: &Figure) -> Vec<f64> {
    let bars = figure.series.iter().filter(|s| s.mark == Mark::Bars);
    let places = bars.flat_map(|series| &series.points).map(|point| point.0);
    let mut places: Vec<f64> = places.filter(|place| place.is_finite()).collect();
    places.sort_by(f64::total_cmp);
    let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
    let gap = gaps.filter(|gap| *gap > 0.0).fold(f64::INFINITY, f64::min);
    match (places.first(), places.last()) {
        (Some(first), Some(last)) => vec![first - gap / 2.0, last + gap / 2.0],
        _ => Vec::new(),
    }
}

/// The part of a figure where the data are.
struct Plot {
    left: f64,
    top: f64,
    width: f64,
    x: Ruler,
    y: Ruler,
}

impl Plot {
    fn draw_grid(&self, svg: &mut String, leans: bool) {
        let (left, right) = (self.left, self.left + self.width);
        let (top, bottom) = (self.top, self.top + PLOT_HEIGHT);
        for tick in &self.y.ticks {
            let Some(y) = self.vertical(tick.at) else {
                continue;
            };
            line(
                svg,
                format_args!(
                    "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#e4e4e4\"/>\
                     <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    left - 8.0,
                    y + 4.5,
                    escaped(&tick.label)
                ),
            );
        }
        for tick in &self.x.ticks {
            let Some(x) = self.horizontal(tick.at) else {
                continue;
            };
            let label = escaped(&tick.label);
            let (y, low) = (bottom + 20.0, bottom + 5.0);
            let text = if leans {
                format!("text-anchor=\"end\" transform=\"rotate(-35 {x:.1} {y:.1})\"")
            } else {
                "text-anchor=\"middle\"".to_owned()
            };
            line(
                svg,
                format_args!(
                    "<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"#f0f0f0\"/>\
                     <path d=\"M{x:.1} {bottom:.1}V{low:.1}\" stroke=\"{MUTED}\"/>\
                     <text x=\"{x:.1}\" y=\"{y:.1}\" {text}>{label}</text>"
                ),
            );
        }
        let base = self.vertical(self.y.base()).unwrap_or(bottom);
        line(
            svg,
            format_args!(
                "<path d=\"M{left:.1} {bottom:.1}H{right:.1}\" stroke=\"{MUTED}\"/>\
                 <path d=\"M{left:.1} {base:.1}H{right:.1}\" stroke=\"{MUTED}\"/>"
            ),
        );
    }

    fn draw_series(&self, svg: &mut String, figure: &Figure, number: usize) {
        let series = &figure.series[number];
        let look = Look::of(figure, number);
        let colour = look.colour;
        match series.mark {
            Mark::Line | Mark::Dashed | Mark::Steps => {
                let path = self.path(series);
                if !path.is_empty() {
                    let stroke = look.stroke();
                    line(svg, format_args!("<path d=\"{path}\" {stroke}/>"));
                }
                // A line of one point would not be seen.
                if let [point] = series.points[..] {
                    self.draw_dot(svg, point, Shape::Circle, colour);
                }
            }
            Mark::Dots => {
                for &point in &series.points {
                    self.draw_dot(svg, point, look.shape, colour);
                }
            }
            Mark::Stems => {
                for &(x, y) in &series.points {
                    let (Some(x), Some(from), Some(to)) = self.upright(x, y) else {
                        continue;
                    };
                    let stroke = look.stroke();
                    line(
                        svg,
                        format_args!("<path d=\"M{x:.1} {from:.1}V{to:.1}\" {stroke}/>"),
                    );
                }
            }
            Mark::Bars => {
                let (width, offset) = self.bar(figure, number);
                let fill = look.fill();
                for &(x, y) in &series.points {
                    let (Some(x), Some(from), Some(to)) = self.upright(x, y) else {
                        continue;
                    };
                    line(
                        svg,
                        format_args!(
                            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" {fill}/>",
                            x + offset,
                            from.min(to),
                            (from - to).abs()
                        ),
                    );
                }
            }
        }
    }

    /// Where something that stands on zero is, and from where to where it reaches.
    fn upright(&self, x: f64, y: f64) -> (Option<f64>, Option<f64>, Option<f64>) {
        let (top, bottom) = (self.top, self.top + PLOT_HEIGHT);
        (
            self.horizontal(x).filter(|x| self.is_across(*x)),
            self.vertical(self.y.base()),
            self.vertical(y).map(|y| y.clamp(top, bottom)),
        )
    }

    fn draw_dot(&self, svg: &mut String, (x, y): (f64, f64), shape: Shape, colour: &str) {
        if let (Some(x), Some(y)) = (self.horizontal(x), self.vertical(y))
            && self.is_across(x)
            && (self.top - 0.5..=self.top + PLOT_HEIGHT + 0.5).contains(&y)
        {
            draw_shape(svg, (x, y), shape, colour);
        }
    }

    /// How wide the bars of a series are, and how far left of their place they
    /// begin: bars of several series stand side by side.
    fn bar(&self, figure: &Figure, number: usize) -> (f64, f64) {
        let is_bars = |series: &&Series| series.mark == Mark::Bars;
        let n_series = figure.series.iter().filter(is_bars).count() as f64;
        let before = figure.series[..number].iter().filter(is_bars).count() as f64;
        let places = figure.series.iter().filter(is_bars);
        let mut places: Vec<f64> = places
            .flat_map(|series| &series.points)
            .filter_map(|point| self.horizontal(point.0))
            .collect();
        places.sort_by(f64::total_cmp);
        let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
        let gap = gaps.filter(|gap| *gap > 0.01).fold(90.0, f64::min);
        let width = 0.85 * gap / n_series;
        (width, (before - n_series / 2.0) * width)
    }

    /// The path of a line, parted where a point cannot be shown or where it leaves
    /// the plot.
    fn path(&self, series: &Series) -> String {
        let mut path = String::new();
        let mut last: Option<(f64, f64)> = None;
        let mut pen: Option<(f64, f64)> = None;
        for &(x, y) in &series.points {
            let (Some(x), Some(y)) = (self.horizontal(x), self.vertical(y)) else {
                last = None;
                continue;
            };
            if let Some(from) = last {
                let corner = (x, from.1);
                let pieces = if series.mark == Mark::Steps {
                    vec![(from, corner), (corner, (x, y))]
                } else {
                    vec![(from, (x, y))]
                };
                for piece in pieces {
                    let Some((from, to)) = self.clipped(piece) else {
                        continue;
                    };
                    if pen != Some(from) {
                        let _ = write!(path, "M{:.1} {:.1}", from.0, from.1);
                    }
                    let _ = write!(path, "L{:.1} {:.1}", to.0, to.1);
                    pen = Some(to);
                }
            }
            last = Some((x, y));
        }
        path
    }

    /// The part of a stroke that lies within the plot (Liang and Barsky).
    fn clipped(&self, (from, to): ((f64, f64), (f64, f64))) -> Option<((f64, f64), (f64, f64))> {
        let along = (to.0 - from.0, to.1 - from.1);
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        for (direction, room) in [
            (-along.0, from.0 - self.left),
            (along.0, self.left + self.width - from.0),
            (-along.1, from.1 - self.top),
            (along.1, self.top + PLOT_HEIGHT - from.1),
        ] {
            // Some slack, so that a line along the edge is not lost to rounding.
            let room = room + 0.01;
            if direction == 0.0 && room < 0.0 {
                return None;
            } else if direction < 0.0 {
                enters = enters.max(room / direction);
            } else if direction > 0.0 {
                leaves = leaves.min(room / direction);
            }
        }
        let at = |share: f64| match share {
            0.0 => from,
            1.0 => to,
            _ => (from.0 + share * along.0, from.1 + share * along.1),
        };
        (enters <= leaves).then(|| (at(enters), at(leaves)))
    }

    fn is_across(&self, x: f64) -> bool {
        (self.left - 0.5..=self.left + self.width + 0.5).contains(&x)
    }

    fn horizontal(&self, x: f64) -> Option<f64> {
        Some(self.left + self.width * self.x.place(x)?)
    }

    fn vertical(&self, y: f64) -> Option<f64> {
        Some(self.top + PLOT_HEIGHT * (1.0 - self.y.place(y)?))
    }
}

/// What tells a series from the others.
struct Look {
    colour: &'static str,
    dash: &'static str,
    shape: Shape,
    width: f64,
    /// Bars differ in depth.
    opacity: f64,
}

#[derive(Clone, Copy)]
enum Shape {
    Circle,
    Diamond,
    Square,
    Triangle,
}

impl Look {
    fn of(figure: &Figure, number: usize) -> Self {
        let mark = figure.series[number].mark;
        let before = figure.series[..number].iter();
        let n_alike = before.filter(|series| series.mark == mark).count();
        let shapes = [
            Shape::Circle,
            Shape::Diamond,
            Shape::Square,
            Shape::Triangle,
        ];
        Self {
            colour: COLOURS[number % COLOURS.len()],
            dash: match mark {
                Mark::Dashed => DASHED,
                _ => DASHES[n_alike % DASHES.len()],
            },
            shape: shapes[n_alike % shapes.len()],
            opacity: [0.8, 0.35, 0.6, 0.2][n_alike % 4],
            width: match mark {
                Mark::Dashed | Mark::Stems => 1.6,
                _ => 2.2,
            },
        }
    }

    fn fill(&self) -> String {
        let Self {
            colour, opacity, ..
        } = self;
        format!("fill=\"{colour}\" fill-opacity=\"{opacity}\" stroke=\"{colour}\"")
    }

    fn stroke(&self) -> String {
        let Self {
            colour,
            dash,
            width,
            ..
        } = self;
        let dash = if dash.is_empty() {
            String::new()
        } else {
            format!(" stroke-dasharray=\"{dash}\"")
        };
        format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash}")
    }
}

fn draw_shape(svg: &mut String, (x, y): (f64, f64), shape: Shape, colour: &str) {
    let ink = format!("fill=\"{colour}\" stroke=\"#ffffff\"");
    match shape {
        Shape::Circle => line(
            svg,
            format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" {ink}/>"),
        ),
        Shape::Diamond => line(
            svg,
            format_args!("<path d=\"M{x:.1} {y:.1}m0 -6.5l5.5 6.5l-5.5 6.5l-5.5 -6.5z\" {ink}/>"),
        ),
        Shape::Square => line(
            svg,
            format_args!("<path d=\"M{x:.1} {y:.1}m-4.5 -4.5h9v9h-9z\" {ink}/>"),
        ),
        Shape::Triangle => line(
            svg,
            format_args!("<path d=\"M{x:.1} {y:.1}m0 -6l5.5 10h-11z\" {ink}/>"),
        ),
    }
}

/// The series that the legend names, by number and place, in rows. One series alone
/// is what the axis says.
fn legend_rows(figure: &Figure) -> Vec<Vec<(usize, f64)>> {
    let mut rows: Vec<Vec<(usize, f64)>> = Vec::new();
    if figure.series.len() < 2 {
        return rows;
    }
    let mut from = f64::INFINITY;
    for (number, series) in figure.series.iter().enumerate() {
        let width = KEY_WIDTH + text_width(&series.name) + 20.0;
        if from + width > WIDTH {
            rows.push(Vec::new());
            from = 12.0;
        }
        if let Some(row) = rows.last_mut() {
            row.push((number, from));
        }
        from += width;
    }
    rows
}

/// The room for a sample of a series, before its name.
const KEY_WIDTH: f64 = 38.0;

fn draw_key(svg: &mut String, figure: &Figure, number: usize, from: f64, y: f64) {
    let series = &figure.series[number];
    let look = Look::of(figure, number);
    match series.mark {
        Mark::Line | Mark::Dashed | Mark::Steps => line(
            svg,
            format_args!(
                "<path d=\"M{from:.1} {y:.1}h30\" {stroke}/>",
                stroke = look.stroke()
            ),
        ),
        Mark::Dots => draw_shape(svg, (from + 15.0, y), look.shape, look.colour),
        Mark::Stems => line(
            svg,
            format_args!(
                "<path d=\"M{:.1} {:.1}v14\" {stroke}/>",
                from + 15.0,
                y - 7.0,
                stroke = look.stroke()
            ),
        ),
        Mark::Bars => line(
            svg,
            format_args!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"14\" height=\"12\" {}/>",
                from + 10.0,
                y - 6.0,
                look.fill()
            ),
        ),
    }
    let name = escaped(&series.name);
    line(
        svg,
        format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
            from + KEY_WIDTH,
            y + 4.5
        ),
    );
}

/// What a figure says to those who cannot see it.
fn spoken(figure: &Figure) -> String {
    let names: Vec<_> = figure.series.iter().map(|s| s.name.as_str()).collect();
    let series = match names.len() {
        0 => "nothing".to_owned(),
        _ => names.join(", "),
    };
    format!(
        "{}. {} over {}: {series}",
        figure.title, figure.y.label, figure.x.label
    )
}

/// Roughly how wide a text is. There is no font to ask; most are narrower.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LABEL_SIZE * 0.54
}

fn line(svg: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(svg, "{arguments}");
}

/// A text as XML has it. Characters that XML does not allow are left out.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' | '\n' | '\r' => safe.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::Axis;
    use super::*;

    const MARKS: [Mark; 6] = [
        Mark::Line,
        Mark::Dashed,
        Mark::Steps,
        Mark::Dots,
        Mark::Bars,
        Mark::Stems,
    ];

    fn figure(points: &[(f64, f64)]) -> Figure {
        let empty = Figure::new("<a> & \"b\"", Axis::linear("x"), Axis::linear("y'"));
        MARKS.into_iter().fold(empty, |figure, mark| {
            figure.with(format!("{mark:?} <&>"), mark, points.iter().copied())
        })
    }

    /// Every element is closed in order, every attribute is quoted, and no number
    /// is anything but a number.
    #[track_caller]
    fn check_sound(svg: &str) {
        let mut open: Vec<&str> = Vec::new();
        for part in svg.split('<').skip(1) {
            let (tag, text) = part.split_once('>').expect("a tag ends");
            assert!(!text.contains('"'), "{text}");
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap());
            }
        }
        assert!(open.is_empty(), "{open:?}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        for word in ["NaN", "inf", "-0.0", "<script", "id="] {
            assert!(!svg.contains(word), "{word} in {svg}");
        }
    }

    #[test]
    fn figures_are_well_formed_whatever_the_data() {
        let degenerate: [&[(f64, f64)]; 7] = [
            &[],
            &[(1.0, 2.0)],
            &[(1.0, 2.0), (1.0, 2.0)],
            &[(0.0, 0.0), (1.0, 0.0)],
            &[(0.0, f64::NAN), (f64::INFINITY, 1.0), (2.0, 3.0)],
            &[(f64::NAN, f64::NAN)],
            &[(-1e300, 1e300), (1.7e308, 1e-320), (0.0, -5.0)],
        ];
        for points in degenerate {
            let mut figure = figure(points);
            check_sound(&figure.svg());
            figure.y = Axis::log("y");
            check_sound(&figure.svg());
            figure.x = Axis::log("x").between(1.0, 2.0);
            check_sound(&figure.svg());
            figure.x = Axis::names("x", ["one", "two & three"]);
            check_sound(&figure.svg());
            figure.x = Axis::names("x", Vec::<String>::new());
            check_sound(&figure.svg());
            figure.series.clear();
            check_sound(&figure.svg());
        }
    }

    #[test]
    fn the_same_figure_gives_the_same_bytes() {
        let figure = figure(&[(0.0, 1.0 / 3.0), (1.0, 0.1)]);
        assert_eq!(figure.svg(), figure.clone().svg());
    }

    #[test]
    fn text_is_escaped_and_spoken() {
        let svg = figure(&[(0.0, 1.0)]).svg();
        assert!(svg.contains("role=\"img\" aria-label=\"&lt;a&gt; &amp; &quot;b&quot;. y&#39;"));
        assert!(svg.contains(">Line &lt;&amp;&gt;</text>"));
        assert_eq!(escaped("a\u{0}b\u{1b}\nc"), "ab c");
    }

    #[test]
    fn a_missing_point_parts_a_line() {
        let parted = Figure::new("", Axis::linear(""), Axis::linear("")).with(
            "a",
            Mark::Line,
            [
                (0.0, 0.0),
                (1.0, 1.0),
                (f64::NAN, 0.0),
                (2.0, 0.0),
                (3.0, 1.0),
            ],
        );
        let drawn = parted.svg();
        let path = drawn.split("<path d=\"").last().unwrap();
        assert_eq!(path.split('"').next().unwrap().matches('M').count(), 2);
    }

    #[test]
    fn lines_end_where_the_plot_ends() {
        let figure = Figure::new(
            "",
            Axis::linear("").between(0.0, 1.0),
            Axis::linear("").between(0.0, 1.0),
        )
        .with("a", Mark::Line, [(-10.0, 0.5), (10.0, 0.5)])
        .with("b", Mark::Line, [(-10.0, 5.0), (10.0, 5.0)])
        .with("c", Mark::Dots, [(0.5, 7.0)]);
        let drawn = figure.svg();
        assert!(
            drawn.contains(&format!("L{:.1} 236.0", WIDTH - RIGHT)),
            "{drawn}"
        );
        assert_eq!(drawn.matches("<circle").count(), 1, "only the legend's");
    }

    #[test]
    fn every_colour_has_one_for_dark_pages() {
        let drawn = figure(&[(0.0, 1.0), (1.0, 2.0)]).svg();
        let (style, rest) = drawn.split_once("</style>").unwrap();
        for part in rest.split("\"#").skip(1) {
            let colour = &part[..6];
            assert!(style.contains(&format!("'#{colour}'")), "{colour}");
        }
        assert!(style.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn long_names_lean() {
        let names = ["a name that is far too long to stand upright"; 6];
        let figure = Figure::new("", Axis::names("", names), Axis::linear("")).with(
            "a",
            Mark::Bars,
            [(0.0, 1.0)],
        );
        assert!(figure.svg().contains("rotate(-35"));
    }
}
