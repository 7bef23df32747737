//! Where a moment lies on the way from left to right, and which moments are named.
//!
//! An axis is even, or, where its moments are too far apart for that, logarithmic. A logarithmic axis has no zero, yet most
//! windows begin there: so the first stretch, from zero to the shortest moment, is even, and a mark says where it ends.

use super::{
    drawing::{Area, Drawing},
    human::{self, DAY, HOUR, MINUTE, YEAR},
    lettering,
    style::{Anchor, PLAIN, Stroke, TICK, colour},
};

/// Beyond this ratio of the longest to the shortest, the shortest would be a sliver on an even axis.
const EVEN_RATIO: f64 = 200.0;

/// Width of the even stretch at the start of a logarithmic axis.
const STRETCH: f64 = 34.0;

/// Steps of an even axis up to a year, in seconds.
const STEPS: [f64; 34] = [
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    15.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    3.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
    DAY,
    2.0 * DAY,
    5.0 * DAY,
    10.0 * DAY,
    30.0 * DAY,
    60.0 * DAY,
    90.0 * DAY,
    180.0 * DAY,
];

/// Moments of a logarithmic axis that are named first, in seconds; after them come a year and each tenfold of it.
const LANDMARKS: [f64; 10] = [0.001, 0.01, 0.1, 1.0, 10.0, MINUTE, 10.0 * MINUTE, HOUR, DAY, 30.0 * DAY];

/// Moments between them, named where there is room.
const BETWEEN_LANDMARKS: [f64; 10] =
    [0.003, 0.03, 0.3, 3.0, 30.0, 3.0 * MINUTE, 30.0 * MINUTE, 6.0 * HOUR, 7.0 * DAY, 120.0 * DAY];

/// Space between two names.
const BETWEEN: f64 = 14.0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Even {
        end_s: f64,
    },
    /// Even from zero to `from_s`, then logarithmic to `end_s`.
    Logarithmic {
        from_s: f64,
        end_s: f64,
    },
}

/// An axis of time from zero: `left` to `left + width`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeAxis {
    scale: Scale,
    left: f64,
    width: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) x: f64,
    pub(super) name: String,
}

impl TimeAxis {
    /// An even axis to `end_s`, which is finite; zero is drawn as a second.
    pub(super) fn even(end_s: f64, left: f64, width: f64) -> Self {
        Self { scale: Scale::Even { end_s: if end_s > 0.0 { end_s } else { 1.0 } }, left, width }
    }

    /// An axis that shows all of these moments apart: even if it can, else logarithmic. They are finite, and in seconds.
    pub(super) fn that_shows(moments: impl IntoIterator<Item = f64>, left: f64, width: f64) -> Self {
        let (mut shortest, mut longest) = (f64::INFINITY, 0_f64);
        for moment in moments.into_iter().filter(|&moment| moment > 0.0) {
            shortest = shortest.min(moment);
            longest = longest.max(moment);
        }
        if longest <= EVEN_RATIO * shortest {
            return Self::even(longest, left, width);
        }
        let below = landmarks(longest).chain(BETWEEN_LANDMARKS).filter(|&landmark| landmark <= shortest);
        let from_s = below.reduce(f64::max).unwrap_or(shortest);
        let scale = Scale::Logarithmic { from_s, end_s: longest };
        Self { scale, left, width }
    }

    /// Where a moment lies; what is later than the axis lies at its end.
    pub(super) fn at(&self, moment_s: f64) -> f64 {
        let share = match self.scale {
            Scale::Even { end_s } => moment_s / end_s,
            Scale::Logarithmic { from_s, end_s } => {
                let stretch = STRETCH / self.width;
                if moment_s <= from_s {
                    stretch * moment_s / from_s
                } else {
                    stretch + (1.0 - stretch) * (moment_s / from_s).ln() / (end_s / from_s).ln()
                }
            }
        };
        self.left + self.width * share.clamp(0.0, 1.0)
    }

    pub(super) fn end_s(&self) -> f64 {
        match self.scale {
            Scale::Even { end_s } | Scale::Logarithmic { end_s, .. } => end_s,
        }
    }

    pub(super) fn draw_grid(&self, drawing: &mut Drawing, field: Area) {
        for tick in self.ticks() {
            drawing.line((tick.x, field.y), (tick.x, field.bottom()), Stroke::solid(colour::GRID, 1.0));
        }
    }

    /// The axis at this height, its named moments below it, and `what` it measures.
    pub(super) fn draw_names(&self, drawing: &mut Drawing, y: f64, what: &str) {
        let line = Stroke::solid(colour::FRAME, 1.0);
        drawing.line((self.left, y), (self.left + self.width, y), line);
        for tick in self.ticks() {
            drawing.line((tick.x, y), (tick.x, y + 5.0), line);
            drawing.text((tick.x, y + 19.0), &tick.name, TICK.anchored(Anchor::Middle));
        }
        if let Scale::Logarithmic { from_s, .. } = self.scale {
            // Two strokes through it: here the even stretch ends.
            let x = (self.left + self.at(from_s)) / 2.0;
            drawing.fill(Area { x: x - 2.5, y: y - 1.0, width: 5.0, height: 2.0 }, colour::PAPER, 0.0, None);
            for x in [x - 2.5, x + 2.5] {
                drawing.line((x - 2.0, y + 4.0), (x + 2.0, y - 4.0), line);
            }
        }
        let scale = if self.is_even() { "" } else { " (logarithmic)" };
        let middle = (self.left + self.width / 2.0, y + 43.0);
        drawing.text(middle, &format!("{what}{scale}"), PLAIN.anchored(Anchor::Middle));
    }

    fn is_even(&self) -> bool {
        matches!(self.scale, Scale::Even { .. })
    }

    /// The moments to name, from left to right, so far apart that their names do not touch.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let moments: Vec<(f64, String)> = match self.scale {
            Scale::Even { end_s } => even_ticks(end_s, self.width),
            Scale::Logarithmic { from_s, end_s } => landmarks(end_s)
                .chain(BETWEEN_LANDMARKS)
                .filter(|&moment| from_s <= moment && moment <= end_s)
                .map(|moment| (moment, human::duration(moment)))
                .collect(),
        };
        let mut ticks = vec![Tick { x: self.left, name: "0".to_owned() }];
        for (moment, name) in moments {
            let tick = Tick { x: self.at(moment), name };
            if ticks.iter().all(|other| tick.space_to(other) >= BETWEEN) {
                ticks.push(tick);
            }
        }
        ticks.sort_by(|one, other| one.x.total_cmp(&other.x));
        ticks
    }
}

impl Tick {
    /// Between the names of two ticks; negative if they touch.
    fn space_to(&self, other: &Self) -> f64 {
        let half = |tick: &Self| lettering::width(&tick.name, TICK.size, TICK.weight) / 2.0;
        (self.x - other.x).abs() - half(self) - half(other)
    }
}

/// Landmarks up to `end_s`, in their order.
fn landmarks(end_s: f64) -> impl Iterator<Item = f64> {
    let years = std::iter::successors(Some(YEAR), |year| Some(year * 10.0));
    LANDMARKS.into_iter().chain(years).take_while(move |&landmark| landmark <= end_s)
}

/// Multiples of the shortest step that leaves room for their names, each named in the unit of the step.
fn even_ticks(end_s: f64, width: f64) -> Vec<(f64, String)> {
    let years =
        std::iter::successors(Some(YEAR), |year| Some(year * 10.0)).flat_map(|y| [y, 2.0 * y, 5.0 * y]);
    let most = (width / 66.0).clamp(2.0, 12.0);
    let Some(step) = STEPS.into_iter().chain(years).find(|step| end_s / step <= most) else {
        return Vec::new();
    };
    let (unit, unit_name) = unit_of(step);
    (1..)
        .map(|number| f64::from(number) * step)
        .take_while(|&moment| moment <= end_s * 1.000_001)
        .map(|moment| {
            let number = (moment / unit * 1000.0).round() / 1000.0;
            (moment, format!("{} {unit_name}", human::count(number)))
        })
        .collect()
}

fn unit_of(step_s: f64) -> (f64, &'static str) {
    match step_s {
        _ if step_s < 0.1 => (0.001, "ms"),
        _ if step_s < MINUTE => (1.0, "s"),
        _ if step_s < HOUR => (MINUTE, "min"),
        _ if step_s < DAY => (HOUR, "h"),
        _ if step_s < YEAR => (DAY, "d"),
        _ => (YEAR, "y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &TimeAxis) -> Vec<String> {
        axis.ticks().into_iter().map(|tick| tick.name).collect()
    }

    #[test]
    fn what_fits_an_even_axis_gets_one_with_round_moments() {
        let axis = TimeAxis::that_shows([0.0, 2.0, 62.0], 0.0, 800.0);
        assert!(axis.is_even());
        assert_eq!(names(&axis), ["0", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s"]);
        assert_eq!(
            names(&TimeAxis::even(0.25, 0.0, 400.0)),
            ["0", "50 ms", "100 ms", "150 ms", "200 ms", "250 ms"]
        );
        assert_eq!(names(&TimeAxis::even(5.0 * HOUR, 0.0, 400.0)), ["0", "1 h", "2 h", "3 h", "4 h", "5 h"]);
        assert_eq!(names(&TimeAxis::even(2.0, 0.0, 400.0)), ["0", "0.5 s", "1 s", "1.5 s", "2 s"]);
    }

    #[test]
    fn what_is_too_far_apart_gets_a_logarithmic_one_in_human_units() {
        let axis = TimeAxis::that_shows([32.0, 106.0 * DAY], 0.0, 800.0);
        assert!(!axis.is_even());
        assert_eq!(names(&axis), ["0", "1 min", "3 min", "10 min", "1 h", "6 h", "1 d", "7 d", "30 d"]);
    }

    #[test]
    fn a_later_moment_never_lies_further_left_and_none_lies_outside() {
        for axis in
            [TimeAxis::that_shows([0.004, 1e9], 50.0, 700.0), TimeAxis::that_shows([3.0, 60.0], 50.0, 700.0)]
        {
            let mut before = 50.0;
            assert_eq!(axis.at(0.0), 50.0);
            for exponent in -40..60 {
                let x = axis.at(2_f64.powf(f64::from(exponent) / 2.0));
                assert!(x >= before && x <= 750.0, "{exponent}: {x} after {before}");
                before = x;
            }
            assert_eq!(axis.at(f64::MAX), 750.0);
        }
    }

    #[test]
    fn names_never_touch() {
        for shortest in [0.0007, 0.5, 40.0, 9000.0] {
            for span in [1.0, 150.0, 300.0, 1e5, 1e9, 1e15, 1e200] {
                for width in [120.0, 400.0, 800.0] {
                    let ticks = TimeAxis::that_shows([shortest, shortest * span], 0.0, width).ticks();
                    for pair in ticks.windows(2) {
                        assert!(pair[0].space_to(&pair[1]) >= BETWEEN, "{shortest} {span} {width}: {pair:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_axis_of_nothing_is_a_second_long() {
        assert_eq!(TimeAxis::that_shows([0.0, 0.0], 0.0, 400.0).at(1.0), 400.0);
        assert_eq!(TimeAxis::that_shows([], 0.0, 400.0).at(0.5), 200.0);
    }
}
