//! The picture of policies: for each a panel, in it for each retry the window in which it may happen, all on one axis of time.
//!
//! Windows overlap (with full jitter each begins at zero), so each retry has a lane of its own: a bar from its earliest to its
//! latest moment, a dot at its mean, its number before it and its latest moment behind it. What a TTL cuts off is grey.

use std::time::Duration;

use super::{
    axis::{TimeAxis, span},
    drawing::{Area, Drawing, MIDDLE_TO_LINE, NAME, PLAIN, shortened, width},
};

/// A policy and its retries.
#[derive(Clone, Debug)]
pub struct TimelineRow {
    pub name: String,
    /// In the order of the retries; empty if it never retries.
    pub windows: Vec<RetryWindow>,
}

/// When a retry may happen, from the first failure, through all the waits before it.
#[derive(Clone, Copy, Debug)]
pub struct RetryWindow {
    /// 1 is the first retry.
    pub retry: u32,
    /// If every random part is at its least.
    pub earliest: Duration,
    /// If every random part is at its most.
    pub latest: Duration,
    pub mean: Duration,
}

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
/// Between text and what it belongs to.
const BESIDE: f64 = 8.0;

/// Height of a retry's lane, and of one of a policy with more retries than [`ROOMY`]; of those, one in [`LABELLED`] is named.
const LANE: f64 = 18.0;
const NARROW_LANE: f64 = 8.0;
const ROOMY: usize = 30;
const LABELLED: usize = 5;
/// Height of a bar, as a share of its lane's.
const BAR: f64 = 0.62;

/// A TTL up to this multiple of the longest window is drawn; a later one would press the windows to the left.
const TTL_IN_SIGHT: f64 = 1.25;

/// Draws the policies below one another. `ttl`, from the first failure, cuts all of them.
pub fn timeline(rows: &[TimelineRow], ttl: Option<Duration>) -> String {
    let ttl_s = ttl.map(|ttl| ttl.as_secs_f64());
    let latest: Vec<f64> =
        rows.iter().flat_map(|row| &row.windows).map(|window| window.latest.as_secs_f64()).collect();
    let longest_s = latest.iter().copied().fold(0.0, f64::max);
    let ttl_in_sight = ttl_s.filter(|ttl| *ttl <= longest_s * TTL_IN_SIGHT);
    let axis = TimeAxis::that_shows(latest.into_iter().chain(ttl_in_sight), LEFT, AXIS);

    let top = HEADER + if ttl_in_sight.is_some() { TTL_NAME } else { 0.0 };
    let mut next = top;
    let mut panels = Vec::with_capacity(rows.len());
    for row in rows {
        let lanes = if row.windows.is_empty() { LANE } else { row.windows.len() as f64 * lane_height(row) };
        let field = Area { x: LEFT, y: next + PANEL_HEADING, width: AXIS, height: 2.0 * PADDING + lanes };
        next = field.bottom() + PANEL_GAP;
        panels.push((row, field));
    }
    let bottom = panels.last().map_or(top, |(_, field)| field.bottom());

    let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    let title = format!("When retries may happen: {}", names.join(", "));
    let mut drawing = Drawing::new(WIDTH, bottom + FOOTER, &title);
    header(&mut drawing, longest_s, ttl_s);
    for (_, field) in &panels {
        drawing.area("field", *field);
        axis.draw_grid(&mut drawing, *field);
    }
    if let Some(ttl) = ttl_in_sight {
        let x = axis.at(ttl);
        drawing.line("ttl", (x, top - 2.0), (x, bottom));
        drawing.text("deadline middle", (x, top - 7.0), &format!("TTL {}", span(ttl)));
    }
    for (row, field) in panels {
        heading(&mut drawing, row, field, ttl_s);
        let height = lane_height(row);
        for (at, window) in row.windows.iter().enumerate() {
            let place = Area { y: field.y + PADDING + at as f64 * height, height, ..field };
            let named = row.windows.len() <= ROOMY || (at + 1).is_multiple_of(LABELLED) || at == 0;
            lane(&mut drawing, &axis, place, window, ttl_s, named);
        }
    }
    axis.draw_names(&mut drawing, bottom, "time since the first failure");
    drawing.into_svg()
}

fn lane_height(row: &TimelineRow) -> f64 {
    if row.windows.len() > ROOMY { NARROW_LANE } else { LANE }
}

fn header(drawing: &mut Drawing, longest_s: f64, ttl_s: Option<f64>) {
    drawing.text("title", (LEFT, 32.0), "When retries may happen");
    let mut about =
        "Each bar is a retry, from its earliest to its latest moment, all waits before it included."
            .to_owned();
    let mut keys = vec![("soft", "may happen"), ("dot", "on average"), ("strong", "at the latest")];
    match ttl_s {
        Some(ttl) if ttl > longest_s => about.push_str(&format!(" A TTL of {} cuts none off.", span(ttl))),
        Some(_) => keys.push(("void", "past the TTL: not sent")),
        None => {}
    }
    drawing.text("plain", (LEFT, 53.0), &about);
    drawing.legend((LEFT, 78.0), &keys);
}

/// A policy's name above its field, and what its retries come to.
fn heading(drawing: &mut Drawing, row: &TimelineRow, field: Area, ttl_s: Option<f64>) {
    let line = field.y - 10.0;
    let about = about(row, ttl_s);
    let room = field.width - 2.0 * BESIDE - width(&about, PLAIN);
    drawing.text("name", (field.x, line), &shortened(&row.name, room, NAME));
    drawing.text("plain end clear", (field.right(), line), &about);
    if row.windows.is_empty() {
        let line = field.y + field.height / 2.0 + MIDDLE_TO_LINE;
        drawing.text("clear", (field.x + BESIDE, line), "one attempt, no retry");
    } else {
        drawing.text("end", (field.x - BESIDE, line), "retry");
    }
}

fn about(row: &TimelineRow, ttl_s: Option<f64>) -> String {
    let Some(last) = row.windows.last() else { return "never retried".to_owned() };
    let number = row.windows.len();
    let (retries, which) =
        if number == 1 { ("1 retry".to_owned(), "") } else { (format!("{number} retries"), ", the last") };
    let in_time = |window: &&RetryWindow| ttl_s.is_none_or(|ttl| window.earliest.as_secs_f64() < ttl);
    let latest = span(last.latest.as_secs_f64());
    match row.windows.iter().filter(in_time).count() {
        0 => format!("{retries}, of which the TTL leaves none"),
        left if left < number => format!("{retries}, of which the TTL leaves at most {left}"),
        _ if last.earliest == last.latest => format!("{retries}{which} after {latest}"),
        _ => {
            let mean = span(last.mean.as_secs_f64());
            format!("{retries}{which} after {mean} on average, {latest} at the latest")
        }
    }
}

fn lane(
    drawing: &mut Drawing,
    axis: &TimeAxis,
    place: Area,
    window: &RetryWindow,
    ttl_s: Option<f64>,
    named: bool,
) {
    let [earliest, mean, latest] = [window.earliest, window.mean, window.latest].map(|it| it.as_secs_f64());
    let cut = ttl_s.unwrap_or(f64::INFINITY);
    let height = place.height * BAR;
    let middle = place.y + place.height / 2.0;
    let bar = |from: f64, to: f64| {
        let x = axis.at(from);
        Area { x, y: middle - height / 2.0, width: axis.at(to) - x, height }
    };
    let tooltip = format!(
        "retry {}: {} to {} after the first failure, {} on average",
        window.retry,
        span(earliest),
        span(latest),
        span(mean),
    );
    drawing.with_tooltip(&tooltip, |drawing| {
        if earliest <= cut {
            drawing.area("soft", bar(earliest, latest.min(cut)));
        }
        if cut <= latest {
            drawing.area("void", bar(earliest.max(cut), latest));
        }
    });
    // A retry that would come due at the very end of the TTL is not sent either.
    let class = |moment: f64, sent: &'static str| if moment < cut { sent } else { "void-edge" };
    let end = axis.at(latest);
    // Nearer to the latest moment, the mean would only smudge its mark.
    if end - axis.at(mean) >= 3.0 {
        drawing.dot(class(mean, ""), (axis.at(mean), middle), (place.height * 0.2).min(3.0));
    }
    let mark = Area { x: end - 1.25, y: middle - height / 2.0 - 1.0, width: 2.5, height: height + 2.0 };
    drawing.area(class(latest, "strong"), mark);
    if named {
        let line = middle + MIDDLE_TO_LINE;
        drawing.text("tick end", (place.x - BESIDE, line), &window.retry.to_string());
        drawing.text("clear", (end + BESIDE, line), &span(latest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::{assert_texts, texts};

    fn row(name: &str, windows: impl IntoIterator<Item = (f64, f64)>) -> TimelineRow {
        let window = |(at, (earliest, latest)): (usize, (f64, f64))| RetryWindow {
            retry: at as u32 + 1,
            earliest: Duration::from_secs_f64(earliest),
            latest: Duration::from_secs_f64(latest),
            mean: Duration::from_secs_f64(f64::midpoint(earliest, latest)),
        };
        TimelineRow { name: name.to_owned(), windows: windows.into_iter().enumerate().map(window).collect() }
    }

    fn web_push() -> TimelineRow {
        row("web-push", [2.0, 6.0, 14.0, 30.0, 62.0].map(|latest| (0.0, latest)))
    }

    /// The longest of the presets: f = 150, fifteen retries.
    fn wait_factor() -> TimelineRow {
        let mut earliest = 0.0;
        let window = |retry: i32| {
            earliest += 45.0 + 2_f64.powf(1.5 * f64::from(retry));
            (earliest, earliest + 59.0 * f64::from(retry))
        };
        row("wait-factor", (1..=15).map(window))
    }

    const FOUR_HOURS: Option<Duration> = Some(Duration::from_hours(4));

    #[test]
    fn the_same_policies_give_the_same_bytes() {
        let rows = [web_push(), wait_factor()];
        assert!(timeline(&rows, FOUR_HOURS) == timeline(&rows, FOUR_HOURS));
    }

    #[test]
    fn each_retry_has_its_number_and_its_latest_moment() {
        let about = "5 retries, the last after 31 s on average, 1 min 2 s at the latest";
        assert_texts(
            &timeline(&[web_push()], None),
            &["web-push", "1", "5", "2 s", "14 s", "1 min 2 s", "time since the first failure", about],
        );
    }

    #[test]
    fn milliseconds_and_months_share_a_logarithmic_axis() {
        let rows = [row("quick", [(0.0, 0.002), (0.01, 0.02)]), wait_factor()];
        let axis = "time since the first failure (logarithmic)";
        assert_texts(
            &timeline(&rows, None),
            &["10 ms", "1 s", "1 min", "1 h", "1 d", "30 d", "2 ms", "106 d 5 h", axis],
        );
    }

    #[test]
    fn a_ttl_greys_what_it_cuts_off_and_says_how_much_it_leaves() {
        let cut = timeline(&[wait_factor()], FOUR_HOURS);
        assert!(cut.contains("class='void'"));
        let left = "15 retries, of which the TTL leaves at most 8";
        assert_texts(&cut, &["TTL 4 h", left, "past the TTL: not sent"]);
        let whole = timeline(&[web_push()], FOUR_HOURS);
        assert!(!whole.contains("class='void'"));
        assert!(texts(&whole).iter().any(|text| text.ends_with("A TTL of 4 h cuts none off.")));
        assert_texts(
            &timeline(&[web_push()], Some(Duration::ZERO)),
            &["5 retries, of which the TTL leaves none"],
        );
    }

    #[test]
    fn any_name_and_any_number_of_retries_can_be_drawn() {
        let hostile = "</text>&\"<b> \u{7} 再";
        let name = "a policy in a file whose name is far too long ".repeat(9);
        let hundred = (1..=100).map(|at| (0.0, f64::from(at) * 31_536_000.0));
        let cases = [
            vec![],
            vec![row("none", [])],
            vec![row(hostile, [(0.0, 0.0), (0.0, 0.0)])],
            vec![row(&name, [(3.0, 3.0)])],
            vec![row("hundred", hundred), row("one", [(1e-9, 1e19)])],
        ];
        for rows in cases {
            for ttl in [None, Some(0), Some(60), Some(1_000_000_000_000)] {
                let svg = timeline(&rows, ttl.map(Duration::from_secs));
                texts(&svg);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
        assert_texts(&timeline(&[row(hostile, [(1.0, 2.0)])], None), &["</text>&\"<b> \u{fffd} 再"]);
    }
}
