//! The picture of load: for each policy a panel with the requests that arrive at the provider in each second, all with the
//! same axes, so that their peaks can be compared.

use super::{
    PlotError,
    axis::TimeAxis,
    drawing::{Area, Drawing},
    human,
    legend::{Key, legend},
    lettering::shortened,
    series::{Buckets, CountAxis, LoadChart, LoadPanel, Panel},
    style::{Anchor, NAME, PLAIN, TICK, TITLE, colour},
};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 28.0;
const HEADER: f64 = 94.0;
const GAP: f64 = 30.0;
const PANEL_HEADING: f64 = 46.0;
const FOOTER: f64 = 64.0;
/// Height of the panels if they lie side by side in one row, and in several.
const TALL: f64 = 250.0;
const FLAT: f64 = 150.0;

/// One request in this many may come after the time axis ends.
const STRAGGLERS: u64 = 500;
/// They only may if they would make the axis this many times as long.
const WORTH_CUTTING: f64 = 2.0;

/// Draws the panels, two in a row.
///
/// # Errors
/// [`PlotError::Number`] for an outage or a capacity that has no place on an axis.
pub(crate) fn load(chart: &LoadChart) -> Result<String, PlotError> {
    check(chart)?;
    let columns = chart.panels.len().clamp(1, 2);
    let rows = chart.panels.len().div_ceil(columns);
    let height = if rows > 1 { FLAT } else { TALL };
    let panel_width = (WIDTH - LEFT - RIGHT - GAP * (columns - 1) as f64) / columns as f64;
    let pitch = PANEL_HEADING + height + GAP;
    let bottom = HEADER + pitch * rows as f64 - if rows > 0 { GAP } else { 0.0 };

    let end_s = end(chart);
    let buckets = Buckets::fitting(end_s, panel_width);
    let counts = CountAxis::up_to(most(chart));

    let mut drawing = Drawing::new(WIDTH, bottom + FOOTER, &title(chart));
    header(&mut drawing, chart, buckets);
    for (at, panel) in chart.panels.iter().enumerate() {
        let (row, column) = (at / columns, at % columns);
        let x = LEFT + (panel_width + GAP) * column as f64;
        let y = HEADER + pitch * row as f64;
        let field = Area { x, y: y + PANEL_HEADING, width: panel_width, height };
        heading(&mut drawing, panel, x, y, panel_width);
        let time = TimeAxis::even(end_s, x, panel_width);
        Panel { field, time: &time, counts, buckets, chart }.draw(&mut drawing, panel);
        if column == 0 {
            count_names(&mut drawing, counts, field);
        }
        // The last panel of its column names the moments for those above it.
        if at + columns >= chart.panels.len() {
            time.draw_names(&mut drawing, field.bottom(), "time since the start");
        }
    }
    let middle = (HEADER + PANEL_HEADING + bottom) / 2.0;
    drawing.upright_text((24.0, middle), "requests per second", PLAIN.anchored(Anchor::Middle));
    Ok(drawing.into_svg())
}

fn check(chart: &LoadChart) -> Result<(), PlotError> {
    if let Some((start, end)) = chart.outage_s
        && !(start.is_finite() && end.is_finite() && 0.0 <= start && start <= end)
    {
        return Err(PlotError::Number { what: format!("an outage from {start} s to {end} s") });
    }
    let capacity = chart.capacity_per_s;
    if !(capacity.is_finite() && capacity >= 0.0) {
        return Err(PlotError::Number { what: format!("a capacity of {capacity} requests per second") });
    }
    Ok(())
}

/// The end of the time axis, in seconds: when the last request has arrived everywhere and the outage is over; or, where a
/// few stragglers would press everything else to the left, when nearly all have.
fn end(chart: &LoadChart) -> f64 {
    let (mut last, mut nearly_all) = (1, 1);
    for panel in &chart.panels {
        let numbers = &panel.per_second;
        let mut left: u64 = numbers.iter().copied().map(u64::from).sum();
        let few = left / STRAGGLERS;
        let end_of = |second: Option<usize>| second.map_or(0, |second| second + 1);
        last = last.max(end_of(numbers.iter().rposition(|&number| number > 0)));
        nearly_all = nearly_all.max(end_of(panel.peak_after_outage.map(|(second, _)| second)));
        nearly_all = nearly_all.max(end_of(numbers.iter().position(|&number| {
            left -= u64::from(number);
            left <= few
        })));
    }
    let outage = chart.outage_s.map_or(0.0, |(_, end)| end);
    let (last, nearly_all) = ((last as f64).max(outage), (nearly_all as f64).max(outage));
    1.02 * if last > WORTH_CUTTING * nearly_all { nearly_all } else { last }
}

fn most(chart: &LoadChart) -> f64 {
    let numbers = chart.panels.iter().flat_map(|panel| panel.per_second.iter().copied());
    let peaks = chart.panels.iter().filter_map(|panel| panel.peak_after_outage).map(|(_, number)| number);
    f64::from(numbers.chain(peaks).max().unwrap_or_default()).max(chart.capacity_per_s)
}

fn title(chart: &LoadChart) -> String {
    let names: Vec<_> = chart.panels.iter().map(|panel| panel.name.as_str()).collect();
    format!("Requests arriving at the provider: {}", names.join(", "))
}

fn header(drawing: &mut Drawing, chart: &LoadChart, buckets: Buckets) {
    let room = WIDTH - LEFT - RIGHT;
    drawing.text((LEFT, 32.0), "Requests arriving at the provider", TITLE);
    drawing.text((LEFT, 53.0), &shortened(&chart.scenario, room, PLAIN.size, PLAIN.weight), PLAIN);
    let second = match buckets.seconds() {
        1 => "requests in each second".to_owned(),
        many => format!("requests in the busiest second of each {many} s"),
    };
    let mut keys = vec![
        (Key::Area(colour::SOFT), second.as_str()),
        (Key::Area(colour::ALARM), "of them above the capacity"),
    ];
    if chart.outage_s.is_some() {
        keys.push((Key::Area(colour::OUTAGE), "outage"));
    }
    legend(drawing, LEFT, 78.0, &keys);
}

fn heading(drawing: &mut Drawing, panel: &LoadPanel, x: f64, y: f64, room: f64) {
    drawing.text((x, y + 17.0), &shortened(&panel.name, room, NAME.size, NAME.weight), NAME);
    drawing.text((x, y + 36.0), &shortened(&panel.note, room, PLAIN.size, PLAIN.weight), PLAIN);
}

fn count_names(drawing: &mut Drawing, counts: CountAxis, field: Area) {
    for number in counts.ticks() {
        let at = (field.x - 8.0, counts.at(number, field) + 4.0);
        drawing.text(at, &human::on_axis(number, counts.end()), TICK.anchored(Anchor::End));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::texts;

    fn panel(name: &str, per_second: Vec<u32>) -> LoadPanel {
        let peak_after_outage =
            per_second.iter().copied().enumerate().skip(3).max_by_key(|(_, number)| *number);
        let note = "2.4 attempts per message".to_owned();
        LoadPanel { name: name.to_owned(), note, per_second, peak_after_outage }
    }

    fn chart(panels: Vec<LoadPanel>) -> LoadChart {
        let scenario = "20,000 messages at 2,000/s".to_owned();
        LoadChart { scenario, outage_s: Some((1.0, 3.0)), capacity_per_s: 3000.0, panels }
    }

    fn herd() -> Vec<u32> {
        vec![2000, 2000, 4000, 0, 0, 4812, 900, 0]
    }

    fn svg(chart: &LoadChart) -> String {
        load(chart).unwrap()
    }

    #[test]
    fn the_same_load_gives_the_same_bytes() {
        let chart = chart(vec![panel("full", herd()), panel("none", herd())]);
        assert!(svg(&chart) == svg(&chart));
    }

    #[test]
    fn the_peak_the_capacity_and_the_outage_are_named() {
        let texts = texts(&svg(&chart(vec![panel("full", herd())])));
        for expected in [
            "20,000 messages at 2,000/s",
            "full",
            "2.4 attempts per message",
            "peak 4,812/s",
            "capacity 3,000/s",
            "outage",
            "requests per second",
            "time since the start",
            "2,000",
        ] {
            assert!(texts.iter().any(|text| text == expected), "{expected} in {texts:?}");
        }
    }

    #[test]
    fn all_panels_share_their_axes() {
        let low = panel("low", vec![1, 1, 1, 1]);
        let alone = texts(&svg(&chart(vec![low.clone()])));
        assert!(!alone.iter().any(|text| text == "6,000"));
        let together = texts(&svg(&chart(vec![low, panel("high", herd())])));
        assert_eq!(together.iter().filter(|text| *text == "6,000").count(), 1, "{together:?}");
        assert_eq!(together.iter().filter(|text| *text == "6 s").count(), 2, "{together:?}");
    }

    #[test]
    fn stragglers_are_counted_instead_of_squeezing_the_rest() {
        let mut tail = herd();
        tail.resize(40_000, 0);
        tail[39_000] = 12;
        let texts_drawn = texts(&svg(&chart(vec![panel("tail", tail)])));
        assert!(texts_drawn.iter().any(|text| text == "12 more until 10 h 50 min"), "{texts_drawn:?}");
        assert!(texts_drawn.iter().any(|text| text == "6 s"), "{texts_drawn:?}");
        let mut heavy = herd();
        heavy.resize(40_000, 5);
        let texts_drawn = texts(&svg(&chart(vec![panel("heavy", heavy)])));
        assert!(texts_drawn.iter().any(|text| text == "10 h"), "{texts_drawn:?}");
        assert!(texts_drawn.iter().any(|text| text.starts_with("requests in the busiest second of each ")));
    }

    #[test]
    fn any_series_and_any_scenario_can_be_drawn() {
        let series = [vec![], vec![0], vec![1], vec![u32::MAX], vec![u32::MAX; 3], vec![0; 100_000]];
        for outage_s in [None, Some((0.0, 0.0)), Some((5.0, 35.0)), Some((0.0, 1e9))] {
            for capacity_per_s in [0.0, 0.5, 3000.0, 1e15] {
                for number in [0, 1, 3, 8] {
                    let panels =
                        series.iter().cycle().take(number).map(|it| panel("</svg>&", it.clone())).collect();
                    let svg = svg(&LoadChart { outage_s, capacity_per_s, ..chart(panels) });
                    texts(&svg);
                    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                }
            }
        }
    }

    #[test]
    fn what_has_no_place_on_an_axis_is_refused() {
        for outage in [(3.0, 1.0), (-1.0, 2.0), (0.0, f64::NAN), (0.0, f64::INFINITY)] {
            let refused = load(&LoadChart { outage_s: Some(outage), ..chart(vec![]) }).unwrap_err();
            assert!(refused.to_string().starts_with("an outage from "), "{refused}");
        }
        let refused = load(&LoadChart { capacity_per_s: f64::NAN, ..chart(vec![]) }).unwrap_err();
        assert_eq!(refused.to_string(), "a capacity of NaN requests per second cannot be drawn");
    }
}
