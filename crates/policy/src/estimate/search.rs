//! Finding where a function of three numbers is high, and laying points there.

pub(super) type Vector = [f64; 3];

/// So many steps of one climb, and until the corners' heights differ by less than this.
const MOST_STEPS: usize = 100;
const LEVEL: f64 = 0.02;
/// So many climbs, and until one gains less than this.
const MOST_CLIMBS: usize = 6;
const GAIN: f64 = 0.1;

/// The top of a hill. A height may be minus infinity, but not at the start.
pub(super) fn climb(start: Vector, strides: Vector, height: impl Fn(Vector) -> f64) -> Vector {
    let mut top = (start, height(start));
    for _ in 0..MOST_CLIMBS {
        let before = top;
        // On a ridge the simplex may shrink before it is at the top: hence once more.
        top = climb_once(before, strides, &height);
        if top.1 - before.1 < GAIN {
            break;
        }
    }
    top.0
}

/// A higher place, by Nelder and Mead's simplex.
fn climb_once(
    start: (Vector, f64),
    strides: Vector,
    height: impl Fn(Vector) -> f64,
) -> (Vector, f64) {
    let measured = |at: Vector| (at, height(at));
    let mut corners = vec![start];
    for (side, stride) in strides.into_iter().enumerate() {
        let mut corner = start.0;
        corner[side] += stride;
        let mut corner = measured(corner);
        if corner.1 == f64::NEG_INFINITY {
            corner.0[side] -= 2.0 * stride;
            corner = measured(corner.0);
        }
        corners.push(corner);
    }
    let from_high_to_low = |corners: &mut Vec<(Vector, f64)>| {
        corners.sort_by(|a, b| b.1.total_cmp(&a.1));
    };
    from_high_to_low(&mut corners);
    for _ in 0..MOST_STEPS {
        let (best, lowest) = (corners[0], corners[3]);
        if best.1 - lowest.1 < LEVEL {
            break;
        }
        let others = &corners[..3];
        let center: Vector = std::array::from_fn(|side| {
            others.iter().map(|corner| corner.0[side]).sum::<f64>() / 3.0
        });
        let across = |times: f64| measured(between(center, lowest.0, -times));
        let mirrored = across(1.0);
        let next = if mirrored.1 > best.1 {
            let farther = across(2.0);
            if farther.1 > mirrored.1 {
                farther
            } else {
                mirrored
            }
        } else if mirrored.1 > corners[2].1 {
            mirrored
        } else {
            across(if mirrored.1 > lowest.1 { 0.5 } else { -0.5 })
        };
        if next.1 > lowest.1 {
            corners[3] = next;
        } else {
            for corner in &mut corners[1..] {
                *corner = measured(between(best.0, corner.0, 0.5));
            }
        }
        from_high_to_low(&mut corners);
    }
    corners[0]
}

/// So many times the way from one to another.
fn between(from: Vector, to: Vector, times: f64) -> Vector {
    std::array::from_fn(|side| from[side] + times * (to[side] - from[side]))
}

/// Points from end to end, in standard deviations, and how many on each axis.
const REACH: f64 = 2.4;
const N_POINTS: usize = 6;

/// Points over where a normal distribution has its weight, and the logarithm of the
/// volume that each stands for. The first number depends on the first axis alone.
pub(super) fn ellipsoid(middle: Vector, covariance: &[Vector; 3]) -> (Vec<Vector>, f64) {
    let root = cholesky(covariance);
    let step = 2.0 * REACH / (N_POINTS - 1) as f64;
    let along = |point: usize| step * point as f64 - REACH;
    let mut points = Vec::with_capacity(N_POINTS.pow(3));
    for x in 0..N_POINTS {
        for y in 0..N_POINTS {
            for z in 0..N_POINTS {
                let off = [x, y, z].map(along);
                points.push(std::array::from_fn(|side| {
                    let terms = root[side].iter().zip(off);
                    middle[side] + terms.map(|(root, off)| root * off).sum::<f64>()
                }));
            }
        }
    }
    let volume: f64 = (0..3).map(|side| step * root[side][side]).product();
    (points, volume.ln())
}

/// The lower triangle L with L·Lᵀ = A.
fn cholesky(a: &[Vector; 3]) -> [Vector; 3] {
    const LEAST: f64 = 1e-10;
    let mut root = [[0.0; 3]; 3];
    for row in 0..3 {
        for column in 0..=row {
            let known: f64 = (0..column).map(|k| root[row][k] * root[column][k]).sum();
            root[row][column] = if row == column {
                (a[row][row] - known).max(LEAST).sqrt()
            } else {
                (a[row][column] - known) / root[column][column]
            };
        }
    }
    root
}

/// The mean and the covariance of points with weights.
pub(super) fn covariance(points: &[Vector], weights: &[f64]) -> (Vector, [Vector; 3]) {
    let total: f64 = weights.iter().sum();
    let mean = |of: &dyn Fn(&Vector) -> f64| {
        let terms = points.iter().zip(weights);
        terms.map(|(point, weight)| weight * of(point)).sum::<f64>() / total
    };
    let middle: Vector = std::array::from_fn(|side| mean(&|point| point[side]));
    let covariance = std::array::from_fn(|row| {
        std::array::from_fn(|column| {
            mean(&|point| (point[row] - middle[row]) * (point[column] - middle[column]))
        })
    });
    (middle, covariance)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A normal distribution along a ridge.
    fn ridge([x, y, z]: Vector) -> f64 {
        let along = x + y - 1.0;
        let across = x - y;
        -0.5 * (along.powi(2) / 9.0 + across.powi(2) / 0.01 + (z - 2.0).powi(2))
    }

    #[test]
    fn a_climb_ends_at_the_top() {
        let top = climb([3.0, -2.0, 0.0], [0.3, 0.3, 0.3], ridge);
        assert!(ridge(top) > -0.05, "{top:?}");
        // A wall beside the start.
        let behind = |at: Vector| {
            if at[0] > 3.1 {
                f64::NEG_INFINITY
            } else {
                ridge(at)
            }
        };
        let top = climb([3.0, -2.0, 0.0], [0.3, 0.3, 0.3], behind);
        assert!(ridge(top) > -0.05, "{top:?}");
    }

    #[test]
    fn points_of_an_ellipsoid_have_its_covariance_and_volume() {
        let wanted = [[2.0, 0.9, 0.0], [0.9, 0.5, 0.1], [0.0, 0.1, 3.0]];
        let (points, log_volume) = ellipsoid([1.0, 2.0, 3.0], &wanted);
        // The density of the normal distribution, from the inverse of its covariance.
        let root = cholesky(&wanted);
        let log_density = |point: &Vector| {
            let mut off: Vector = std::array::from_fn(|side| point[side] - [1.0, 2.0, 3.0][side]);
            for row in 0..3 {
                for column in 0..row {
                    off[row] -= root[row][column] * off[column];
                }
                off[row] /= root[row][row];
            }
            -0.5 * off.iter().map(|off| off * off).sum::<f64>()
        };
        let weights: Vec<f64> = points
            .iter()
            .map(|point| log_density(point).exp())
            .collect();
        let (mean, computed) = covariance(&points, &weights);
        assert!((mean[0] - 1.0).abs() < 1e-9 && (mean[2] - 3.0).abs() < 1e-9);
        for (computed, wanted) in computed.iter().flatten().zip(wanted.iter().flatten()) {
            assert!((computed - wanted).abs() < 0.1, "{computed} {wanted}");
        }
        let determinant = (root[0][0] * root[1][1] * root[2][2]).ln();
        let integral = weights.iter().sum::<f64>().ln() + log_volume;
        let exact = 1.5 * std::f64::consts::TAU.ln() + determinant;
        assert!((integral - exact).abs() < 0.06, "{integral} {exact}");
    }
}
