//! The picture of load: for each policy a panel with the requests that arrive at the provider in each second, all with the
//! same axes, so that their peaks can be compared. Requests above the capacity have another colour, the outage lies behind
//! them, and the peak after it is named.

use std::fmt::Write as _;

use super::{
    axis::{CountAxis, TimeAxis, count, span},
    drawing::{Area, Drawing, LABEL, NAME, PLAIN, shortened, width},
};

/// One scenario under several policies.
#[derive(Clone, Debug)]
pub(crate) struct LoadChart {
    /// The scenario, in a line under the title; may be empty.
    pub(crate) scenario: String,
    /// The begin and the end of the time in which the provider answers nothing, in seconds from the start.
    pub(crate) outage_s: Option<(u32, u32)>,
    pub(crate) capacity_per_s: f64,
    pub(crate) panels: Vec<LoadPanel>,
}

#[derive(Clone, Debug)]
pub(crate) struct LoadPanel {
    pub(crate) name: String,
    /// What else is worth telling, in a line; may be empty.
    pub(crate) note: String,
    /// Requests that arrived in each second, from the start.
    pub(crate) per_second: Vec<u32>,
    /// The second after the outage in which most requests arrived, and how many.
    pub(crate) peak_after_outage: Option<(u32, u32)>,
}

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

/// From the upper edge of a panel to the text at it.
const UPPER_LINE: f64 = 14.0;

/// One request in this many may come after the time axis ends.
const STRAGGLERS: u64 = 500;
/// They only may if they would make the axis this many times as long.
const WORTH_CUTTING: f64 = 2.0;

/// Draws the panels, two in a row.
pub(crate) fn load(chart: &LoadChart) -> String {
    let columns = chart.panels.len().clamp(1, 2);
    let rows = chart.panels.len().div_ceil(columns).max(1);
    let height = if rows > 1 { FLAT } else { TALL };
    let width = (WIDTH - LEFT - RIGHT - GAP * (columns - 1) as f64) / columns as f64;
    let pitch = PANEL_HEADING + height + GAP;
    let bottom = HEADER + pitch * rows as f64 - GAP;
    let end_s = end(chart);
    let bucket = (end_s / width).ceil().max(1.0) as usize;
    let counts = CountAxis::up_to(f64::from(most(chart)).max(chart.capacity_per_s));

    let names: Vec<_> = chart.panels.iter().map(|panel| panel.name.as_str()).collect();
    let title = format!("Requests arriving at the provider: {}", names.join(", "));
    let mut drawing = Drawing::new(WIDTH, bottom + FOOTER, &title);
    header(&mut drawing, chart, bucket);
    for (at, panel) in chart.panels.iter().enumerate() {
        let (row, column) = (at / columns, at % columns);
        let x = LEFT + (width + GAP) * column as f64;
        let y = HEADER + pitch * row as f64;
        drawing.text("name", (x, y + 17.0), &shortened(&panel.name, width, NAME));
        drawing.text("plain", (x, y + 36.0), &shortened(&panel.note, width, PLAIN));
        let field = Area { x, y: y + PANEL_HEADING, width, height };
        let time = TimeAxis::even(end_s, x, width);
        Field { chart, field, time, counts, bucket }.draw(&mut drawing, panel);
        if column == 0 {
            for (number, name) in counts.ticks() {
                drawing.text("tick end", (x - 8.0, counts.at(number, field) + 4.0), &name);
            }
        }
        // The last panel of its column names the moments for those above it.
        if at + columns >= chart.panels.len() {
            time.draw_names(&mut drawing, field.bottom(), "time since the start");
        }
    }
    let middle = (HEADER + PANEL_HEADING + bottom) / 2.0;
    drawing.upright_text("plain middle", (24.0, middle), "requests per second");
    drawing.into_svg()
}

/// The end of the time axis, in seconds: when the last request has arrived everywhere and the outage is over; or, where a
/// few stragglers would press everything else to the left, when nearly all have.
fn end(chart: &LoadChart) -> f64 {
    let outage = chart.outage_s.map_or(1, |(_, end)| end as usize);
    let (mut last, mut nearly_all) = (outage, outage);
    for panel in &chart.panels {
        let numbers = &panel.per_second;
        let mut left: u64 = numbers.iter().copied().map(u64::from).sum();
        let few = left / STRAGGLERS;
        let few_left = numbers.iter().position(|&number| {
            left -= u64::from(number);
            left <= few
        });
        let peak = panel.peak_after_outage.map(|(second, _)| second as usize);
        nearly_all = nearly_all.max(few_left.max(peak).map_or(1, |second| second + 1));
        last = last.max(numbers.iter().rposition(|&number| number > 0).map_or(1, |second| second + 1));
    }
    let (last, nearly_all) = (last as f64, nearly_all as f64);
    1.02 * if last > WORTH_CUTTING * nearly_all { nearly_all } else { last }
}

fn most(chart: &LoadChart) -> u32 {
    let peaks = chart.panels.iter().filter_map(|panel| panel.peak_after_outage).map(|(_, number)| number);
    let numbers = chart.panels.iter().flat_map(|panel| panel.per_second.iter().copied());
    numbers.chain(peaks).max().unwrap_or_default()
}

fn header(drawing: &mut Drawing, chart: &LoadChart, bucket: usize) {
    drawing.text("title", (LEFT, 32.0), "Requests arriving at the provider");
    drawing.text("plain", (LEFT, 53.0), &shortened(&chart.scenario, WIDTH - LEFT - RIGHT, PLAIN));
    let requests = match bucket {
        1 => "requests in each second".to_owned(),
        many => format!("requests in the busiest second of each {many} s"),
    };
    let mut keys = vec![("soft", requests.as_str()), ("alarm", "of them above the capacity")];
    keys.extend(chart.outage_s.map(|_| ("outage", "outage")));
    drawing.legend((LEFT, 78.0), &keys);
}

struct Field<'a> {
    chart: &'a LoadChart,
    field: Area,
    time: TimeAxis,
    counts: CountAxis,
    /// Seconds that share a step, where there are more of them than can be seen.
    bucket: usize,
}

impl Field<'_> {
    fn draw(&self, drawing: &mut Drawing, panel: &LoadPanel) {
        let field = self.field;
        let outage = self.chart.outage_s.map(|(start, end)| {
            let x = self.time.at(start.into());
            Area { x, width: (self.time.at(end.into()) - x).max(1.0), ..field }
        });
        drawing.area("field", field);
        if let Some(outage) = outage {
            drawing.area("outage", outage);
        }
        for (number, _) in self.counts.ticks() {
            let y = self.counts.at(number, field);
            drawing.line("grid", (field.x, y), (field.right(), y));
        }

        let capacity = self.counts.at(self.chart.capacity_per_s, field);
        let shown = panel.per_second.len().min(self.time.end_s().floor() as usize);
        let (shown, later) = panel.per_second.split_at(shown);
        let skyline = self.skyline(shown);
        drawing.path("soft", &skyline);
        drawing.path_within("alarm", &skyline, Area { height: capacity - field.y, ..field });
        drawing.path("line skyline", &skyline);
        drawing.line("frame", (field.x, field.bottom()), (field.right(), field.bottom()));
        drawing.line("capacity", (field.x, capacity), (field.right(), capacity));
        let name = format!("capacity {}/s", count(self.chart.capacity_per_s));
        drawing.text("tick end clear", (field.right() - 5.0, capacity - 5.0), &name);
        if let Some(outage) = outage {
            self.name_outage(drawing, outage);
        }
        if let Some((second, number)) = panel.peak_after_outage {
            self.name_peak(drawing, second as usize, number.into());
        }
        self.name_later(drawing, later);
        if panel.per_second.iter().all(|&number| number == 0) {
            let middle = (field.x + field.width / 2.0, field.y + field.height / 2.0);
            drawing.text("middle clear", middle, "no requests");
        }
    }

    /// The edge of the area that the numbers fill. The busiest second stands for its bucket: an average would hide the peak
    /// that the picture is about.
    fn skyline(&self, per_second: &[u32]) -> String {
        let busiest = |chunk: &[u32]| chunk.iter().copied().max().unwrap_or_default();
        let numbers: Vec<u32> = per_second.chunks(self.bucket).map(busiest).collect();
        let mut path = format!("M{:.1} {:.1}", self.field.x, self.field.bottom());
        let mut end = 0;
        for step in numbers.chunk_by(|one, next| one == next) {
            end += step.len() * self.bucket;
            let (x, y) = (self.time.at(end as f64), self.counts.at(step[0].into(), self.field));
            write!(path, "V{y:.1}H{x:.1}").expect("a text can be written to");
        }
        write!(path, "V{:.1}", self.field.bottom()).expect("a text can be written to");
        path
    }

    fn name_outage(&self, drawing: &mut Drawing, outage: Area) {
        let needs = width("outage", LABEL);
        let line = self.field.y + UPPER_LINE;
        if needs + 4.0 <= outage.width {
            drawing.text("during middle", (outage.x + outage.width / 2.0, line), "outage");
        } else {
            let x = (outage.right() + 4.0).min(self.field.right() - needs);
            drawing.text("during clear", (x, line), "outage");
        }
    }

    /// In the middle of the step that the second is in.
    fn name_peak(&self, drawing: &mut Drawing, second: usize, number: f64) {
        let moment = ((second / self.bucket) as f64 + 0.5) * self.bucket as f64;
        let (x, y) = (self.time.at(moment), self.counts.at(number, self.field));
        drawing.dot("", (x, y), 3.5);
        let name = format!("peak {}/s", count(number));
        if x + 8.0 + width(&name, PLAIN) <= self.field.right() {
            drawing.text("peak clear", (x + 8.0, y - 3.0), &name);
        } else {
            drawing.text("peak end clear", (x - 8.0, y - 3.0), &name);
        }
    }

    /// Counts the requests that come after the axis ends: too few, too late to be seen.
    fn name_later(&self, drawing: &mut Drawing, later: &[u32]) {
        let Some(last) = later.iter().rposition(|&number| number > 0) else { return };
        let number: u64 = later.iter().copied().map(u64::from).sum();
        let until = span(self.time.end_s().floor() + last as f64 + 1.0);
        let at = (self.field.right() - 5.0, self.field.y + UPPER_LINE);
        drawing.text("end clear", at, &format!("{} more until {until}", count(number as f64)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::{assert_texts, texts};

    fn panel(name: &str, per_second: Vec<u32>) -> LoadPanel {
        let peak_after_outage =
            (0..).zip(per_second.iter().copied()).skip(3).max_by_key(|(_, number)| *number);
        let note = "2.4 attempts per message".to_owned();
        LoadPanel { name: name.to_owned(), note, per_second, peak_after_outage }
    }

    fn chart(panels: Vec<LoadPanel>) -> LoadChart {
        let scenario = "20,000 messages at 2,000/s".to_owned();
        LoadChart { scenario, outage_s: Some((1, 3)), capacity_per_s: 3000.0, panels }
    }

    const HERD: [u32; 8] = [2000, 2000, 4000, 0, 0, 4812, 900, 0];

    fn svg(panels: Vec<LoadPanel>) -> String {
        load(&chart(panels))
    }

    #[test]
    fn the_same_load_gives_the_same_bytes() {
        let panels = vec![panel("full", HERD.to_vec()), panel("none", HERD.to_vec())];
        assert!(svg(panels.clone()) == svg(panels));
    }

    #[test]
    fn the_peak_the_capacity_and_the_outage_are_named() {
        let svg = svg(vec![panel("full", HERD.to_vec())]);
        assert_texts(&svg, &["20,000 messages at 2,000/s", "full", "2.4 attempts per message"]);
        assert_texts(&svg, &["peak 4,812/s", "capacity 3,000/s", "outage"]);
        assert_texts(&svg, &["requests per second", "time since the start", "2,000"]);
    }

    #[test]
    fn all_panels_share_their_axes() {
        let low = panel("low", vec![1, 1, 1, 1]);
        let alone = texts(&svg(vec![low.clone()]));
        assert!(!alone.iter().any(|text| text == "6,000"));
        let together = texts(&svg(vec![low, panel("high", HERD.to_vec())]));
        assert_eq!(together.iter().filter(|text| *text == "6,000").count(), 1, "{together:?}");
        assert_eq!(together.iter().filter(|text| *text == "6 s").count(), 2, "{together:?}");
    }

    #[test]
    fn stragglers_are_counted_instead_of_squeezing_the_rest() {
        let mut tail = HERD.to_vec();
        tail.resize(40_000, 0);
        tail[39_000] = 12;
        assert_texts(&svg(vec![panel("tail", tail)]), &["12 more until 10 h 50 min", "6 s"]);
        let mut heavy = HERD.to_vec();
        heavy.resize(40_000, 5);
        let busiest = "requests in the busiest second of each 48 s";
        assert_texts(&svg(vec![panel("heavy", heavy)]), &["10 h", busiest]);
    }

    #[test]
    fn the_busiest_second_stands_for_its_step() {
        let chart = chart(Vec::new());
        let field = Area { x: 0.0, y: 0.0, width: 6.0, height: 10.0 };
        let (time, counts) = (TimeAxis::even(6.0, 0.0, 6.0), CountAxis::up_to(8.0));
        let drawn = |bucket| Field { chart: &chart, field, time, counts, bucket }.skyline(&[1, 8, 4, 0, 4]);
        assert_eq!(drawn(1), "M0.0 10.0V9.0H1.0V2.0H2.0V6.0H3.0V10.0H4.0V6.0H5.0V10.0");
        assert_eq!(drawn(2), "M0.0 10.0V2.0H2.0V6.0H6.0V10.0");
    }

    #[test]
    fn any_series_and_any_scenario_can_be_drawn() {
        let series = [vec![], vec![0], vec![1], vec![u32::MAX], vec![u32::MAX; 3], vec![0; 100_000]];
        for outage_s in [None, Some((0, 0)), Some((5, 35)), Some((0, 1_000_000_000))] {
            for capacity_per_s in [0.0, 0.5, 3000.0, 1e15] {
                for number in [0, 1, 3, 8] {
                    let series = series.iter().cycle().take(number);
                    let panels = series.map(|it| panel("</svg>&", it.clone())).collect();
                    let svg = load(&LoadChart { outage_s, capacity_per_s, ..chart(panels) });
                    texts(&svg);
                    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                }
            }
        }
    }
}
