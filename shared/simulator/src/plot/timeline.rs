//! The picture of policies: for each a panel, in it for each retry the window in which it may happen, all on one axis of time.
//!
//! Windows overlap (with full jitter each begins at zero), so each retry has a lane of its own.

use super::{
    PlotError,
    axis::TimeAxis,
    drawing::{Area, Drawing},
    heading::{TimelineRow, heading},
    human,
    lane::{Lane, RetryWindow},
    legend::{Key, legend},
    lettering::Weight,
    style::{Anchor, Lettering, PLAIN, Stroke, TITLE, colour},
};

const WIDTH: f64 = 960.0;
/// Before the axis: the numbers of retries.
const LEFT: f64 = 64.0;
/// Behind it: the moment behind a bar that reaches its end.
const RIGHT: f64 = 112.0;
const AXIS: f64 = WIDTH - LEFT - RIGHT;
const HEADER: f64 = 94.0;
/// More for the name of a TTL's line.
const TTL_NAME: f64 = 18.0;
const PANEL_HEADING: f64 = 28.0;
const PANEL_GAP: f64 = 16.0;
const PADDING: f64 = 5.0;
const FOOTER: f64 = 64.0;

const LANE: f64 = 18.0;
/// Of a policy with more retries than [`ROOMY`].
const NARROW_LANE: f64 = 8.0;
const ROOMY: usize = 30;
/// One in this many of narrow lanes is labelled.
const LABELLED: usize = 5;

/// A TTL up to this multiple of the longest window is drawn; a later one would press the windows to the left.
const TTL_IN_SIGHT: f64 = 1.25;

/// Draws the policies below one another. `ttl_s`, in seconds from the first failure, cuts all of them.
///
/// # Errors
/// [`PlotError::Number`] for a window that is no span of time.
pub fn timeline(rows: &[TimelineRow], ttl_s: Option<f64>) -> Result<String, PlotError> {
    check(rows, ttl_s)?;
    let longest = latest(rows).fold(0.0, f64::max);
    let ttl_in_sight = ttl_s.filter(|ttl| *ttl <= longest * TTL_IN_SIGHT);
    let axis = TimeAxis::that_shows(latest(rows).chain(ttl_in_sight), LEFT, AXIS);

    let mut bottom = HEADER + if ttl_in_sight.is_some() { TTL_NAME } else { 0.0 };
    let top = bottom;
    let mut panels = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let gap = if at == 0 { 0.0 } else { PANEL_GAP };
        let field = Area { x: LEFT, y: bottom + gap + PANEL_HEADING, width: AXIS, height: field_height(row) };
        bottom = field.bottom();
        panels.push((row, field));
    }

    let mut drawing = Drawing::new(WIDTH, bottom + FOOTER, &title(rows));
    header(&mut drawing, longest, ttl_s);
    for (row, field) in &panels {
        drawing.fill(*field, colour::FIELD, 0.0, None);
        axis.draw_grid(&mut drawing, *field);
        for (lane, window) in lanes(&axis, row, *field) {
            lane.draw(&mut drawing, window, ttl_s);
        }
    }
    if let Some(ttl) = ttl_in_sight {
        let x = axis.at(ttl);
        drawing.line((x, top - 2.0), (x, bottom), Stroke::dashed(colour::ALARM, 1.5, 4.0));
        let name = Lettering::new(13.0, Weight::Bold, colour::ALARM).anchored(Anchor::Middle);
        drawing.text((x, top - 7.0), &format!("TTL {}", human::duration(ttl)), name);
    }
    for (row, field) in &panels {
        heading(&mut drawing, row, *field, ttl_s);
        for (lane, window) in lanes(&axis, row, *field) {
            lane.name(&mut drawing, window);
        }
    }
    axis.draw_names(&mut drawing, bottom, "time since the first failure");
    Ok(drawing.into_svg())
}

fn check(rows: &[TimelineRow], ttl_s: Option<f64>) -> Result<(), PlotError> {
    if let Some(ttl) = ttl_s.filter(|ttl| !(ttl.is_finite() && *ttl >= 0.0)) {
        return Err(PlotError::Number { what: format!("a TTL of {ttl} s") });
    }
    for row in rows {
        for window in &row.windows {
            let RetryWindow { retry, earliest_s, latest_s, mean_s } = *window;
            let finite = [earliest_s, mean_s, latest_s].into_iter().all(f64::is_finite);
            if !(finite && 0.0 <= earliest_s && earliest_s <= latest_s && 0.0 <= mean_s) {
                let what = format!(
                    "retry {retry} of `{}`, from {earliest_s} s to {latest_s} s and {mean_s} s on average,",
                    row.name
                );
                return Err(PlotError::Number { what });
            }
        }
    }
    Ok(())
}

fn latest(rows: &[TimelineRow]) -> impl Iterator<Item = f64> {
    rows.iter().flat_map(|row| row.windows.iter().map(|window| window.latest_s))
}

fn title(rows: &[TimelineRow]) -> String {
    let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    format!("When retries may happen: {}", names.join(", "))
}

fn lane_height(row: &TimelineRow) -> f64 {
    if row.windows.len() > ROOMY { NARROW_LANE } else { LANE }
}

fn field_height(row: &TimelineRow) -> f64 {
    2.0 * PADDING + if row.windows.is_empty() { LANE } else { row.windows.len() as f64 * lane_height(row) }
}

fn header(drawing: &mut Drawing, longest_s: f64, ttl_s: Option<f64>) {
    drawing.text((LEFT, 32.0), "When retries may happen", TITLE);
    let mut about =
        "Each bar is a retry, from its earliest to its latest moment, all waits before it included."
            .to_owned();
    if let Some(ttl) = ttl_s.filter(|ttl| *ttl > longest_s) {
        about.push_str(&format!(" A TTL of {} cuts none off.", human::duration(ttl)));
    }
    drawing.text((LEFT, 53.0), &about, PLAIN);
    let mut keys =
        vec![(Key::Area(colour::SOFT), "may happen"), (Key::Dot, "on average"), (Key::Mark, "at the latest")];
    if ttl_s.is_some_and(|ttl| ttl <= longest_s) {
        keys.push((Key::Area(colour::VOID), "past the TTL: not sent"));
    }
    legend(drawing, LEFT, 78.0, &keys);
}

fn lanes<'a>(
    axis: &'a TimeAxis,
    row: &'a TimelineRow,
    field: Area,
) -> impl Iterator<Item = (Lane<'a>, &'a RetryWindow)> {
    let height = lane_height(row);
    row.windows.iter().enumerate().map(move |(at, window)| {
        let labelled = row.windows.len() <= ROOMY || (at + 1).is_multiple_of(LABELLED) || at == 0;
        let place = Area { y: field.y + PADDING + at as f64 * height, height, ..field };
        (Lane { axis, place, labelled }, window)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::texts;

    fn row(name: &str, windows: &[(f64, f64)]) -> TimelineRow {
        let window = |(at, &(earliest_s, latest_s)): (usize, &(f64, f64))| {
            let mean_s = f64::midpoint(earliest_s, latest_s);
            RetryWindow { retry: at as u32 + 1, earliest_s, latest_s, mean_s }
        };
        TimelineRow { name: name.to_owned(), windows: windows.iter().enumerate().map(window).collect() }
    }

    fn web_push() -> TimelineRow {
        row("web-push", &[(0.0, 2.0), (0.0, 6.0), (0.0, 14.0), (0.0, 30.0), (0.0, 62.0)])
    }

    /// The longest of the presets: f = 150, fifteen retries.
    fn wait_factor() -> TimelineRow {
        let mut earliest = 0.0;
        let windows: Vec<_> = (1..=15)
            .map(|retry| {
                earliest += 45.0 + 2_f64.powf(1.5 * f64::from(retry));
                (earliest, earliest + 59.0 * f64::from(retry))
            })
            .collect();
        row("wait-factor", &windows)
    }

    fn svg(rows: &[TimelineRow], ttl_s: Option<f64>) -> String {
        timeline(rows, ttl_s).unwrap()
    }

    #[test]
    fn the_same_policies_give_the_same_bytes() {
        let rows = [web_push(), wait_factor()];
        assert!(svg(&rows, Some(14_400.0)) == svg(&rows, Some(14_400.0)));
    }

    #[test]
    fn each_retry_has_its_number_and_its_latest_moment() {
        let texts = texts(&svg(&[web_push()], None));
        for expected in ["web-push", "1", "5", "2 s", "14 s", "1 min 2 s", "time since the first failure"] {
            assert!(texts.iter().any(|text| text == expected), "{expected} in {texts:?}");
        }
        let about = "5 retries, the last after 31 s on average, 1 min 2 s at the latest";
        assert!(texts.iter().any(|text| text == about), "{texts:?}");
    }

    #[test]
    fn milliseconds_and_months_share_a_logarithmic_axis() {
        let texts = texts(&svg(&[row("quick", &[(0.0, 0.002), (0.01, 0.02)]), wait_factor()], None));
        for expected in ["1 ms", "1 s", "1 min", "1 h", "1 d", "30 d", "2 ms", "106 d 5 h"] {
            assert!(texts.iter().any(|text| text == expected), "{expected} in {texts:?}");
        }
        assert!(texts.iter().any(|text| text.ends_with("(logarithmic)")), "{texts:?}");
    }

    #[test]
    fn a_ttl_greys_what_it_cuts_off_and_says_how_much_it_leaves() {
        let cut = svg(&[wait_factor()], Some(14_400.0));
        assert!(cut.contains(colour::VOID));
        let texts_drawn = texts(&cut);
        for expected in ["TTL 4 h", "15 retries, of which the TTL leaves at most 8", "past the TTL: not sent"]
        {
            assert!(texts_drawn.iter().any(|text| text == expected), "{expected} in {texts_drawn:?}");
        }
        let whole = svg(&[web_push()], Some(14_400.0));
        assert!(!whole.contains(colour::VOID));
        assert!(texts(&whole).iter().any(|text| text.ends_with("A TTL of 4 h cuts none off.")));
        assert!(
            texts(&svg(&[web_push()], Some(0.0))).iter().any(|text| text.ends_with("the TTL leaves none"))
        );
    }

    #[test]
    fn any_name_and_any_number_of_retries_can_be_drawn() {
        let hostile = "</text>&\"<b> \u{7} 再";
        let name = "a policy in a file whose name is far too long ".repeat(9);
        let hundred: Vec<_> = (1..=100).map(|at| (0.0, f64::from(at) * 31_536_000.0)).collect();
        let cases = [
            vec![],
            vec![row("none", &[])],
            vec![row(hostile, &[(0.0, 0.0), (0.0, 0.0)])],
            vec![row(&name, &[(3.0, 3.0)])],
            vec![row("hundred", &hundred), row("one", &[(1e-9, 1e300)])],
        ];
        for rows in cases {
            for ttl in [None, Some(0.0), Some(60.0), Some(1e12)] {
                let svg = svg(&rows, ttl);
                texts(&svg);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
        let texts = texts(&svg(&[row(hostile, &[(1.0, 2.0)])], None));
        assert!(texts.iter().any(|text| text == "</text>&\"<b> \u{fffd} 再"), "{texts:?}");
    }

    #[test]
    fn what_is_no_span_of_time_is_refused_by_name() {
        for (earliest, latest) in [(0.0, f64::NAN), (0.0, f64::INFINITY), (-1.0, 2.0), (3.0, 2.0)] {
            let refused = timeline(&[row("mine", &[(earliest, latest)])], None).unwrap_err();
            assert!(refused.to_string().starts_with("retry 1 of `mine`, from "), "{refused}");
        }
        let refused = timeline(&[], Some(f64::NAN)).unwrap_err();
        assert_eq!(refused.to_string(), "a TTL of NaN s cannot be drawn");
    }
}
