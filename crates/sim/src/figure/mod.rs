//! Figures as SVG, and the points behind them as CSV.
//!
//! A [`Figure`] is data: a pair of axes and [`Series`] of points. How it is drawn
//! is not for the caller to say, so that all figures look alike: round ticks, a
//! light grid, and a legend above the plot, where it never covers a point. Series
//! differ in colour and in dash, shape or depth, so that nobody needs the colour.
//!
//! ```
//! use springtide_sim::figure::{Axis, Figure, Mark};
//!
//! let figure = Figure::new("Squares", Axis::linear("x"), Axis::linear("x²"))
//!     .with("square", Mark::Line, [(0.0, 0.0), (1.0, 1.0), (2.0, 4.0)]);
//! assert!(figure.svg().starts_with("<svg"));
//! assert!(figure.csv().ends_with("square,2.0,4.0\n"));
//! ```

mod ruler;
pub(crate) mod svg;

/// A figure with one pair of axes.
#[derive(Debug, Clone)]
pub struct Figure {
    /// What it shows, in a few words.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, first at the bottom.
    pub series: Vec<Series>,
}

/// One axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What it measures, with its unit.
    pub label: String,
    /// How it is divided.
    pub scale: Scale,
    /// From where to where; from the data if `None`.
    pub range: Option<(f64, f64)>,
}

/// How an axis is divided.
#[derive(Debug, Clone, PartialEq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// Evenly in the logarithm.
    Log,
    /// One place per name, at 0, 1, 2, …
    Names(Vec<String>),
}

/// Points that belong together. One that is not finite, or that a logarithmic axis
/// cannot show, is left out and parts a line.
#[derive(Debug, Clone)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Joined by a line.
    Line,
    /// Joined by a dashed line.
    Dashed,
    /// Joined by steps: a value holds until the next point.
    Steps,
    /// As dots.
    Dots,
    /// As bars from zero.
    Bars,
    /// As thin upright lines from zero.
    Stems,
}

impl Figure {
    /// A figure without anything in it yet.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
        }
    }

    /// The same with a further series on top.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<String>,
        mark: Mark,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        self.series.push(Series {
            name: name.into(),
            mark,
            points: points.into_iter().collect(),
        });
        self
    }

    /// The figure as an SVG document: no script and no identifiers, so that many fit into
    /// one page; light, or dark where the reader's pages are; the same bytes for the same
    /// figure.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }

    /// The points as CSV with the columns `series`, `x` and `y`. A place on an axis
    /// of names is given by its name. Points that are not numbers are left out.
    pub fn csv(&self) -> String {
        let mut text = String::from("series,x,y\n");
        for series in &self.series {
            for &(x, y) in &series.points {
                if !(x.is_nan() || y.is_nan()) {
                    let cells = [quoted(&series.name), self.x.cell(x), self.y.cell(y)];
                    text.push_str(&cells.join(","));
                    text.push('\n');
                }
            }
        }
        text
    }
}

impl Axis {
    /// An axis divided evenly, as long as the data.
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Linear,
            range: None,
        }
    }

    /// An axis divided evenly in the logarithm, as long as the data.
    pub fn log(label: impl Into<String>) -> Self {
        Self {
            scale: Scale::Log,
            ..Self::linear(label)
        }
    }

    /// An axis of names, at 0, 1, 2, …
    pub fn names<T: Into<String>>(
        label: impl Into<String>,
        names: impl IntoIterator<Item = T>,
    ) -> Self {
        Self {
            scale: Scale::Names(names.into_iter().map(Into::into).collect()),
            ..Self::linear(label)
        }
    }

    /// The same from here to there.
    #[must_use]
    pub fn between(self, low: f64, high: f64) -> Self {
        let range = Some((low, high));
        Self { range, ..self }
    }

    fn cell(&self, value: f64) -> String {
        match &self.scale {
            Scale::Names(names) => {
                match names.iter().zip(0..).find(|&(_, n)| value == f64::from(n)) {
                    Some((name, _)) => quoted(name),
                    None => format!("{value:?}"),
                }
            }
            // The shortest digits that read back to the same double.
            Scale::Linear | Scale::Log => format!("{value:?}"),
        }
    }
}

/// A CSV cell, in quotes if it could be taken for more than one.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_every_number_to_its_last_digit() {
        let figure = Figure::new("t", Axis::linear("x"), Axis::linear("y"))
            .with("a, \"b\"", Mark::Line, [(0.1, 1e-300), (f64::NAN, 1.0)])
            .with("c", Mark::Dots, [(3.0, f64::INFINITY)]);
        assert_eq!(
            figure.csv(),
            "series,x,y\n\"a, \"\"b\"\"\",0.1,1e-300\nc,3.0,inf\n"
        );
    }

    #[test]
    fn csv_names_the_places_of_names() {
        let figure = Figure::new("t", Axis::names("x", ["one", "two"]), Axis::linear("y")).with(
            "a",
            Mark::Bars,
            [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)],
        );
        assert_eq!(
            figure.csv(),
            "series,x,y\na,one,1.0\na,two,2.0\na,2.0,3.0\n"
        );
    }
}
