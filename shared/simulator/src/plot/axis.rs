//! Where a moment lies on the way from left to right, where a count lies above the floor, and which of them are named.

use super::drawing::{Area, Drawing, LABEL, width};

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;
/// A calendar's leap days are no matter of a picture.
const YEAR: f64 = 365.0 * DAY;

/// Units of time, the numbers of them that an even axis counts in.
const UNITS: [(f64, &str, &[f64]); 6] = [
    (0.001, "ms", &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0]),
    (1.0, "s", &[0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0]),
    (MINUTE, "min", &[1.0, 2.0, 5.0, 10.0, 15.0, 30.0]),
    (HOUR, "h", &[1.0, 2.0, 3.0, 6.0, 12.0]),
    (DAY, "d", &[1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 90.0, 180.0]),
    (YEAR, "y", &[1.0, 2.0, 5.0, 10.0]),
];

/// Moments that a logarithmic axis names first; after them come a year and each tenfold of it.
const LANDMARKS: [f64; 10] = [0.001, 0.01, 0.1, 1.0, 10.0, MINUTE, 10.0 * MINUTE, HOUR, DAY, 30.0 * DAY];

/// Moments between them, named where there is room.
const BETWEEN_LANDMARKS: [f64; 10] =
    [0.003, 0.03, 0.3, 3.0, 30.0, 3.0 * MINUTE, 30.0 * MINUTE, 6.0 * HOUR, 7.0 * DAY, 120.0 * DAY];

/// Beyond this ratio of the longest to the shortest, the shortest would be a sliver on an even axis.
const EVEN_RATIO: f64 = 200.0;

/// Space between two names.
const BETWEEN: f64 = 14.0;

/// An axis of time from zero: `left` to `left + width`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeAxis {
    end_s: f64,
    /// About where an axis that is logarithmic begins to be: at zero, it is even.
    logarithmic_from_s: Option<f64>,
    left: f64,
    width: f64,
}

#[derive(Clone, Debug)]
struct Tick {
    x: f64,
    name: String,
}

impl TimeAxis {
    /// An even axis to `end_s`, which is finite; zero is drawn as a second.
    pub(super) fn even(end_s: f64, left: f64, width: f64) -> Self {
        let end_s = if end_s > 0.0 { end_s } else { 1.0 };
        Self { end_s, logarithmic_from_s: None, left, width }
    }

    /// An axis that shows all of these moments apart: even if it can, else logarithmic. They are finite, and in seconds.
    pub(super) fn that_shows(moments: impl IntoIterator<Item = f64>, left: f64, width: f64) -> Self {
        let (mut shortest, mut longest) = (f64::INFINITY, 0_f64);
        for moment in moments.into_iter().filter(|&moment| moment > 0.0) {
            shortest = shortest.min(moment);
            longest = longest.max(moment);
        }
        let logarithmic_from_s = (longest > EVEN_RATIO * shortest).then_some(shortest);
        Self { logarithmic_from_s, ..Self::even(longest, left, width) }
    }

    /// Where a moment lies; what is later than the axis lies at its end.
    pub(super) fn at(&self, moment_s: f64) -> f64 {
        let share = match self.logarithmic_from_s {
            None => moment_s / self.end_s,
            Some(from) => ((from + moment_s).ln() - from.ln()) / ((from + self.end_s).ln() - from.ln()),
        };
        self.left + self.width * share.clamp(0.0, 1.0)
    }

    pub(super) fn end_s(&self) -> f64 {
        self.end_s
    }

    pub(super) fn draw_grid(&self, drawing: &mut Drawing, field: Area) {
        for tick in self.ticks() {
            drawing.line("grid", (tick.x, field.y), (tick.x, field.bottom()));
        }
    }

    /// The axis at this height, its named moments below it, and `what` it measures.
    pub(super) fn draw_names(&self, drawing: &mut Drawing, y: f64, what: &str) {
        drawing.line("frame", (self.left, y), (self.left + self.width, y));
        for tick in self.ticks() {
            drawing.line("frame", (tick.x, y), (tick.x, y + 5.0));
            drawing.text("tick middle", (tick.x, y + 19.0), &tick.name);
        }
        let scale = self.logarithmic_from_s.map_or("", |_| " (logarithmic)");
        drawing.text("plain middle", (self.left + self.width / 2.0, y + 43.0), &format!("{what}{scale}"));
    }

    /// The moments to name, so far apart that their names do not touch.
    fn ticks(&self) -> Vec<Tick> {
        let moments = if self.logarithmic_from_s.is_some() {
            let years = std::iter::successors(Some(YEAR), |year| Some(year * 10.0));
            let landmarks = LANDMARKS.into_iter().chain(years).take_while(|&moment| moment <= self.end_s);
            let between = BETWEEN_LANDMARKS.into_iter().filter(|&moment| moment <= self.end_s);
            landmarks.chain(between).map(|moment| (moment, span(moment))).collect()
        } else {
            even_moments(self.end_s, self.width)
        };
        let mut ticks = vec![Tick { x: self.left, name: "0".to_owned() }];
        for (moment, name) in moments {
            let tick = Tick { x: self.at(moment), name };
            if ticks.iter().all(|other| tick.space_to(other) >= BETWEEN) {
                ticks.push(tick);
            }
        }
        ticks
    }
}

impl Tick {
    /// Between the names of two ticks; negative if they touch.
    fn space_to(&self, other: &Self) -> f64 {
        (self.x - other.x).abs() - (width(&self.name, LABEL) + width(&other.name, LABEL)) / 2.0
    }
}

/// Multiples of the shortest step that leaves room for their names, each named in the unit of the step.
fn even_moments(end_s: f64, width: f64) -> Vec<(f64, String)> {
    let most = (width / 66.0).clamp(2.0, 12.0);
    let steps =
        UNITS.into_iter().flat_map(|(unit, name, steps)| steps.iter().map(move |it| (it * unit, unit, name)));
    let years = (round(end_s / most / YEAR) * YEAR, YEAR, "y");
    let (step, unit, unit_name) = steps.into_iter().find(|(step, ..)| end_s / step <= most).unwrap_or(years);
    (1..)
        .map(|number| f64::from(number) * step)
        .take_while(|&moment| moment <= end_s * 1.000_001)
        .map(|moment| (moment, format!("{} {unit_name}", count(moment / unit))))
        .collect()
}

/// The next round number: 1, 2 or 5 times a power of ten.
fn round(number: f64) -> f64 {
    let magnitude = 10_f64.powf(number.log10().floor());
    let factors = [1.0, 2.0, 5.0].into_iter();
    factors.map(|factor| factor * magnitude).find(|round| *round >= number).unwrap_or(10.0 * magnitude)
}

/// An axis of counts, from the floor of a field to its ceiling.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountAxis {
    end: f64,
}

impl CountAxis {
    /// An axis with so much room above `most` that what is written there is clear of what is written at the ceiling.
    pub(super) fn up_to(most: f64) -> Self {
        Self { end: if most > 0.0 { most * 1.25 } else { 1.0 } }
    }

    /// How high a number lies.
    pub(super) fn at(self, number: f64, field: Area) -> f64 {
        field.bottom() - field.height * (number / self.end).clamp(0.0, 1.0)
    }

    /// The counts to name, five above zero at most, and their names.
    pub(super) fn ticks(self) -> impl Iterator<Item = (f64, String)> {
        let step = round(self.end / 5.0);
        let name = move |number: f64| match self.end {
            ..1e5 => count(number),
            _ => format!("{} k", count(number / 1e3)),
        };
        let numbers = (0..).map(move |at| f64::from(at) * step).take_while(move |number| *number <= self.end);
        numbers.map(move |number| (number, name(number)))
    }
}

/// A span of seconds in its two largest units: `250 ms`, `2.6 s`, `1 min 2 s`, `17 h 21 min`, `106 d 7 h`.
pub(crate) fn span(seconds: f64) -> String {
    if seconds > 0.0 && seconds < 0.9995 {
        return format!("{} ms", tenths(seconds * 1000.0));
    }
    for pair in UNITS.windows(2).skip(1).rev() {
        let [(small, small_name, _), (large, large_name, _)] = [pair[0], pair[1]];
        // In the smaller unit, so that 59.6 min is an hour and not 60 min.
        let (whole, in_large) = ((seconds / small).round(), (large / small).round());
        if whole >= in_large {
            let rest = match whole % in_large {
                0.0 => String::new(),
                rest => format!(" {rest} {small_name}"),
            };
            return format!("{} {large_name}{rest}", (whole / in_large).floor());
        }
    }
    format!("{} s", tenths(seconds))
}

/// A count with its thousands apart: `4,812`. What is no whole number keeps one digit of it.
pub(super) fn count(number: f64) -> String {
    let mut text = tenths(number).to_string();
    let mut at = text.find('.').unwrap_or(text.len());
    while at > 3 {
        at -= 3;
        text.insert(at, ',');
    }
    text
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_in_its_two_largest_units() {
        for (seconds, words) in [
            (0.0, "0 s"),
            (0.0004, "0.4 ms"),
            (0.25, "250 ms"),
            (0.9996, "1 s"),
            (2.6, "2.6 s"),
            (59.96, "1 min"),
            (62.0, "1 min 2 s"),
            (3599.7, "1 h"),
            (62_460.0, "17 h 21 min"),
            (86_399.0, "1 d"),
            (106.0 * DAY + 6.6 * HOUR, "106 d 7 h"),
            (400.0 * DAY, "1 y 35 d"),
        ] {
            assert_eq!(span(seconds), words, "{seconds}");
        }
    }

    #[test]
    fn a_count_has_its_thousands_apart() {
        for (number, words) in
            [(0.0, "0"), (4812.0, "4,812"), (1_234_567.0, "1,234,567"), (2.5, "2.5"), (0.05, "0.1")]
        {
            assert_eq!(count(number), words);
        }
    }

    #[test]
    fn an_axis_of_counts_has_round_numbers_and_room_above_the_highest() {
        for (most, names) in [
            (3.0, vec!["0", "1", "2", "3"]),
            (4812.0, vec!["0", "2,000", "4,000", "6,000"]),
            (0.0, vec!["0", "0.2", "0.4", "0.6", "0.8", "1"]),
            (160_000.0, vec!["0 k", "50 k", "100 k", "150 k", "200 k"]),
        ] {
            let axis = CountAxis::up_to(most);
            assert!(axis.end > most);
            assert_eq!(axis.ticks().map(|(_, name)| name).collect::<Vec<_>>(), names);
        }
    }

    #[test]
    fn an_axis_names_round_moments_and_is_logarithmic_if_they_are_too_far_apart() {
        let apart = TimeAxis::that_shows([32.0, 106.0 * DAY], 0.0, 800.0);
        assert!(apart.logarithmic_from_s.is_some());
        for (axis, names) in [
            (TimeAxis::that_shows([0.0, 2.0, 62.0], 0.0, 800.0), "0, 10 s, 20 s, 30 s, 40 s, 50 s, 60 s"),
            (TimeAxis::even(0.25, 0.0, 400.0), "0, 50 ms, 100 ms, 150 ms, 200 ms, 250 ms"),
            (TimeAxis::even(5.0 * HOUR, 0.0, 400.0), "0, 1 h, 2 h, 3 h, 4 h, 5 h"),
            (TimeAxis::even(2.0, 0.0, 400.0), "0, 0.5 s, 1 s, 1.5 s, 2 s"),
            (TimeAxis::even(90.0 * YEAR, 0.0, 400.0), "0, 20 y, 40 y, 60 y, 80 y"),
            (apart, "0, 1 min, 10 min, 1 h, 1 d, 30 d, 3 min, 6 h, 7 d"),
        ] {
            let drawn: Vec<_> = axis.ticks().into_iter().map(|tick| tick.name).collect();
            assert_eq!(drawn.join(", "), names);
        }
    }

    #[test]
    fn a_later_moment_never_lies_further_left_and_none_lies_outside() {
        for moments in [[0.004, 1e9], [3.0, 60.0], [1e-9, 1e300]] {
            let axis = TimeAxis::that_shows(moments, 50.0, 700.0);
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
                    let mut ticks = TimeAxis::that_shows([shortest, shortest * span], 0.0, width).ticks();
                    ticks.sort_by(|one, other| one.x.total_cmp(&other.x));
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
