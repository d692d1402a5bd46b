use super::{Axis, Scale};

/// An axis that knows where it begins and ends, and where its ticks are.
pub(super) struct Ruler {
    is_log: bool,
    low: f64,
    high: f64,
    pub(super) ticks: Vec<Tick>,
}

/// Where an axis without a given range ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// Shortly before and after the data.
    NearData,
    /// At the ticks around the data.
    AtTicks,
    /// At the ticks around the data and zero.
    AtTicksWithZero,
}

pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

/// Beyond this, differences and ratios leave the range of a double.
const LARGEST: f64 = 1e300;

impl Ruler {
    /// A ruler for an axis along which these values lie.
    pub(super) fn new(axis: &Axis, values: impl Iterator<Item = f64>, ends: Ends) -> Self {
        let is_log = axis.scale == Scale::Log;
        let values = values.filter(|value| is_shown(*value, is_log));
        let within = values.fold(None, |range: Option<(f64, f64)>, value| {
            let (low, high) = range.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        let given = axis.range.filter(|&(low, high)| {
            is_shown(low, is_log) && is_shown(high, is_log) && !are_alike(low, high) && low < high
        });
        match (&axis.scale, given) {
            (Scale::Names(names), _) => Self::names(names),
            (Scale::Linear, Some((low, high))) => Self::linear(low, high, step(high - low)),
            (Scale::Linear, None) => {
                let with_zero = ends == Ends::AtTicksWithZero;
                let (low, high) = within.map_or((0.0, 1.0), |range| stretch(range, with_zero));
                let step = step(high - low);
                let unit = match ends {
                    Ends::NearData => step / 5.0,
                    Ends::AtTicks | Ends::AtTicksWithZero => step,
                };
                let low = (low / unit + 1e-9).floor() * unit;
                Self::linear(low, (high / unit - 1e-9).ceil() * unit, step)
            }
            (Scale::Log, Some((low, high))) => Self::log(low, high),
            (Scale::Log, None) => {
                let (low, high) = match within {
                    None => (1.0, 10.0),
                    Some((low, high)) if are_alike(low, high) => (low / 2.0, high * 2.0),
                    Some(range) => range,
                };
                Self::log(round_down(low), round_up(high))
            }
        }
    }

    /// Where a value lies, from 0 to 1; `None` if the axis cannot show it.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        is_shown(value, self.is_log).then(|| {
            if self.is_log {
                (value / self.low).ln() / (self.high / self.low).ln()
            } else {
                (value - self.low) / (self.high - self.low)
            }
        })
    }

    /// Where zero is, or the end that is nearest to it.
    pub(super) fn base(&self) -> f64 {
        if self.is_log {
            self.low
        } else {
            0.0_f64.clamp(self.low, self.high)
        }
    }

    fn names(names: &[String]) -> Self {
        let ticks = names.iter().enumerate().map(|(place, name)| Tick {
            at: place as f64,
            label: name.clone(),
        });
        Self {
            is_log: false,
            low: -0.5,
            high: names.len().max(1) as f64 - 0.5,
            ticks: ticks.collect(),
        }
    }

    fn linear(low: f64, high: f64, step: f64) -> Self {
        let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
        let largest = low.abs().max(high.abs());
        let ticks = (0..=(last - first) as u32).map(|n| {
            // Adding zero turns −0 into 0.
            let at = (first + f64::from(n)) * step + 0.0;
            let label = plain_or_scientific(at, step, largest);
            Tick { at, label }
        });
        Self {
            is_log: false,
            low,
            high,
            ticks: ticks.collect(),
        }
    }

    fn log(low: f64, high: f64) -> Self {
        let decades = (high / low).log10();
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let every = (decades / 7.0).ceil().max(1.0) as usize;
        let mantissas: &[f64] = if decades <= 2.7 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let powers = (first..=last).step_by(every);
        let ticks = powers.flat_map(|power| {
            mantissas.iter().map(move |mantissa| {
                let at = mantissa * 10_f64.powi(power);
                let label = plain_or_scientific(at, at, at);
                Tick { at, label }
            })
        });
        let is_within = |tick: &Tick| tick.at >= low * 0.999_999 && tick.at <= high * 1.000_001;
        Self {
            is_log: true,
            low,
            high,
            ticks: ticks.filter(is_within).collect(),
        }
    }
}

/// Whether an axis can show a value at all.
fn is_shown(value: f64, is_log: bool) -> bool {
    value.abs() <= LARGEST && (!is_log || value >= 1.0 / LARGEST)
}

/// Whether two ends are too near to each other to tell the values between them.
fn are_alike(low: f64, high: f64) -> bool {
    (high - low).abs() <= 1e-9 * low.abs().max(high.abs())
}

/// A range that has some length and, if need be, zero in it.
fn stretch((low, high): (f64, f64), with_zero: bool) -> (f64, f64) {
    let (low, high) = if with_zero {
        (low.min(0.0), high.max(0.0))
    } else {
        (low, high)
    };
    if !are_alike(low, high) {
        (low, high)
    } else if low == 0.0 {
        (0.0, 1.0)
    } else {
        (low - low.abs() / 2.0, high + high.abs() / 2.0)
    }
}

/// A round step that makes four to ten of a length.
fn step(length: f64) -> f64 {
    let rough = length / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let mantissa = match rough / power {
        m if m < 1.5 => 1.0,
        m if m < 3.5 => 2.0,
        m if m < 7.5 => 5.0,
        _ => 10.0,
    };
    mantissa * power
}

/// The next number below (or here) with a first digit of 1, 2 or 5 and no other.
fn round_down(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let digits = [5.0, 2.0].into_iter();
    let digit = digits
        .map(|digit| digit * power)
        .find(|at| *at <= value * (1.0 + 1e-9));
    digit.unwrap_or(power)
}

/// The next number above (or here) with a first digit of 1, 2 or 5 and no other.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let digits = [1.0, 2.0, 5.0].into_iter();
    let digit = digits
        .map(|digit| digit * power)
        .find(|at| *at >= value * (1.0 - 1e-9));
    digit.unwrap_or(10.0 * power)
}

/// A tick in as many digits as its step needs, or as a power of ten where that
/// would be a row of zeros.
fn plain_or_scientific(value: f64, step: f64, largest: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if largest >= 1e6 || step < 1e-4 {
        let mut power = value.abs().log10().floor();
        let mut mantissa = value / 10_f64.powf(power);
        if mantissa.abs() > 9.999_999 {
            (power, mantissa) = (power + 1.0, mantissa / 10.0);
        }
        let digits = ((power - step.log10() - 1e-9).ceil().max(0.0) as usize).min(9);
        let power = superscript(power as i32);
        return if digits == 0 && mantissa.round() == 1.0 {
            format!("10{power}")
        } else {
            format!("{mantissa:.digits$}×10{power}").replace('-', "−")
        };
    }
    let digits = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
    parted(&format!("{value:.digits$}"))
}

/// A plain number with its thousands parted and a true minus sign.
fn parted(number: &str) -> String {
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => ("−", number),
        None => ("", number),
    };
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut text = sign.to_owned();
    for (position, digit) in whole.char_indices() {
        if position > 0 && (whole.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}

fn superscript(power: i32) -> String {
    let digit = |c: char| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        other => char::from_u32('⁰' as u32 + other as u32 - '0' as u32).unwrap_or(other),
    };
    power.to_string().chars().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(axis: Axis, values: &[f64], expected: &str) {
        let ruler = Ruler::new(&axis, values.iter().copied(), Ends::AtTicks);
        let labels: Vec<_> = ruler.ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels.join(" "), expected);
        for tick in &ruler.ticks {
            let place = ruler.place(tick.at).unwrap();
            assert!((-1e-6..=1.000_001).contains(&place), "{place}");
        }
        for value in values {
            let place = ruler.place(*value);
            let is_within = |place: f64| (-1e-9..=1.0 + 1e-9).contains(&place);
            assert!(axis.range.is_some() || place.is_none_or(is_within));
        }
    }

    fn linear() -> Axis {
        Axis::linear("")
    }

    fn log() -> Axis {
        Axis::log("")
    }

    #[test]
    fn linear_ticks_are_round() {
        check(linear(), &[0.0, 1.0], "0 0.2 0.4 0.6 0.8 1.0");
        check(linear(), &[0.03, 0.97], "0 0.2 0.4 0.6 0.8 1.0");
        check(linear(), &[-3.0, 4.0], "−3 −2 −1 0 1 2 3 4");
        check(linear(), &[0.0, 730.0], "0 100 200 300 400 500 600 700 800");
        check(
            linear(),
            &[0.0, 45_000.0],
            "0 10,000 20,000 30,000 40,000 50,000",
        );
        check(linear().between(0.0, 5.5), &[9.0], "0 1 2 3 4 5");
    }

    #[test]
    fn far_numbers_are_powers_of_ten() {
        check(linear(), &[0.0, 5e6], "0 10⁶ 2×10⁶ 3×10⁶ 4×10⁶ 5×10⁶");
        check(
            linear(),
            &[0.0, 3e-5],
            "0 5×10⁻⁶ 1.0×10⁻⁵ 1.5×10⁻⁵ 2.0×10⁻⁵ 2.5×10⁻⁵ 3.0×10⁻⁵",
        );
        check(log(), &[1e-12, 1.0], "10⁻¹² 10⁻¹⁰ 10⁻⁸ 10⁻⁶ 0.0001 0.01 1");
    }

    #[test]
    fn log_ticks_are_decades_or_finer() {
        check(log(), &[0.01, 1000.0], "0.01 0.1 1 10 100 1,000");
        check(log(), &[0.3, 30.0], "0.2 0.5 1 2 5 10 20 50");
        check(log().between(1.0, 10.0), &[], "1 2 5 10");
        // Powers that were computed are not quite powers.
        check(log(), &[0.1 + 1e-16, 100.0 + 1e-13], "0.1 1 10 100");
    }

    #[test]
    fn degenerate_data_have_an_axis_all_the_same() {
        check(linear(), &[], "0 0.2 0.4 0.6 0.8 1.0");
        check(linear(), &[0.0, 0.0], "0 0.2 0.4 0.6 0.8 1.0");
        check(linear(), &[4.0], "2 3 4 5 6");
        check(linear(), &[-4.0], "−6 −5 −4 −3 −2");
        check(linear(), &[f64::NAN, f64::INFINITY, 4.0], "2 3 4 5 6");
        check(linear().between(1.0, 1.0), &[4.0], "2 3 4 5 6");
        check(log(), &[0.0, -1.0], "1 2 5 10");
        check(log(), &[3.0], "1 2 5 10");
        for far in [1e-320, 1e300, 1.7e308, 5e-324] {
            Ruler::new(&linear(), [far, -far].into_iter(), Ends::NearData);
            Ruler::new(&log(), [far, 1.0].into_iter(), Ends::AtTicks);
        }
    }

    #[test]
    fn an_axis_may_end_near_the_data() {
        let ruler = Ruler::new(&linear(), [0.0, 208.0].into_iter(), Ends::NearData);
        assert_eq!(ruler.place(210.0), Some(1.0));
        assert_eq!(ruler.ticks.last().unwrap().label, "200");
    }

    #[test]
    fn zero_is_shown_where_bars_stand_on_it() {
        let ruler = Ruler::new(&linear(), [5.0, 6.0].into_iter(), Ends::AtTicksWithZero);
        assert_eq!(ruler.place(0.0), Some(0.0));
        assert_eq!(ruler.base(), 0.0);
    }
}
