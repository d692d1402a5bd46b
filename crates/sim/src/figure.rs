//! Figures as SVG, and the points behind them as CSV.

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

/// Points that belong together.
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
    /// Joined by steps.
    Steps,
    /// As dots.
    Dots,
    /// As bars from zero.
    Bars,
}
