//! One policy in the picture of load: its requests over time as steps, above the capacity in another colour, the outage behind
//! them and the peak after it named.

use super::{
    axis::TimeAxis,
    drawing::{Area, Drawing, Outline},
    human,
    lettering::{Weight, width},
    style::{Anchor, LABEL, Lettering, Stroke, colour},
};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoadPanel {
    pub(crate) name: String,
    /// What else is worth telling, in a line; may be empty.
    pub(crate) note: String,
    /// Requests that arrived in each second, from the start.
    pub(crate) per_second: Vec<u32>,
    /// The second after the outage in which most requests arrived, and how many.
    pub(crate) peak_after_outage: Option<(usize, u32)>,
}

/// One scenario under several policies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoadChart {
    /// The scenario, in a line under the title; may be empty.
    pub(crate) scenario: String,
    /// From when until when the provider answers nothing, in seconds from the start.
    pub(crate) outage_s: Option<(f64, f64)>,
    pub(crate) capacity_per_s: f64,
    pub(crate) panels: Vec<LoadPanel>,
}

/// Above the highest number, so that what is written there is clear of the outage's name.
const HEADROOM: f64 = 1.25;

/// The most numbers that are named.
const TICKS: f64 = 5.0;

/// A step narrower than this is not seen.
const NARROWEST: f64 = 1.0;

const PEAK: Lettering = Lettering::new(13.0, Weight::Bold, colour::INK);
const CAPACITY: Lettering = Lettering::new(12.0, Weight::Regular, colour::INK).anchored(Anchor::End);
const OUTAGE: Lettering = Lettering::new(12.0, Weight::Bold, colour::OUTAGE_INK);

/// From the upper edge of a panel to the text at it.
const UPPER_LINE: f64 = 14.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct CountAxis {
    end: f64,
    step: f64,
}

impl CountAxis {
    /// An axis on which `most` has some room above it.
    pub(super) fn up_to(most: f64) -> Self {
        let end = if most > 0.0 { most * HEADROOM } else { 1.0 };
        let magnitude = 10_f64.powf((end / TICKS).log10().floor());
        let factor =
            [1.0, 2.0, 5.0].into_iter().find(|factor| end / (factor * magnitude) <= TICKS).unwrap_or(10.0);
        Self { end, step: factor * magnitude }
    }

    pub(super) fn end(self) -> f64 {
        self.end
    }

    /// How high a number lies.
    pub(super) fn at(self, number: f64, field: Area) -> f64 {
        field.bottom() - field.height * (number / self.end).clamp(0.0, 1.0)
    }

    pub(super) fn ticks(self) -> impl Iterator<Item = f64> {
        (0..).map(move |at| f64::from(at) * self.step).take_while(move |number| *number <= self.end)
    }
}

/// Seconds that share a step, where there are more of them than can be seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buckets {
    seconds: usize,
}

impl Buckets {
    /// So large that each has its place in a field of this width.
    pub(super) fn fitting(end_s: f64, width: f64) -> Self {
        Self { seconds: (end_s * NARROWEST / width).ceil().max(1.0) as usize }
    }

    pub(super) fn seconds(self) -> usize {
        self.seconds
    }

    /// The busiest second of each: an average would hide the peak that the picture is about.
    fn of(self, per_second: &[u32]) -> impl Iterator<Item = f64> {
        per_second
            .chunks(self.seconds)
            .map(|chunk| f64::from(chunk.iter().copied().max().unwrap_or_default()))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Panel<'a> {
    pub(super) field: Area,
    pub(super) time: &'a TimeAxis,
    pub(super) counts: CountAxis,
    pub(super) buckets: Buckets,
    pub(super) chart: &'a LoadChart,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    from_s: f64,
    to_s: f64,
    number: f64,
}

impl Panel<'_> {
    pub(super) fn draw(self, drawing: &mut Drawing, panel: &LoadPanel) {
        self.background(drawing);
        let shown = panel.per_second.len().min(self.time.end_s().floor() as usize);
        let (shown, later) = panel.per_second.split_at(shown);
        let steps = self.steps(shown);
        let capacity = self.chart.capacity_per_s;
        let height = |number: f64| self.counts.at(number, self.field);
        let within = self.above(&steps, self.field.bottom(), |number| height(number.min(capacity)));
        drawing.fill_outline(&within, colour::SOFT);
        let over: Vec<_> = steps.iter().copied().filter(|step| step.number > capacity).collect();
        drawing.fill_outline(&self.above(&over, height(capacity), height), colour::ALARM);
        drawing.stroke(&self.skyline(&steps), Stroke::solid(colour::STRONG, 1.2));
        drawing.line(
            (self.field.x, self.field.bottom()),
            (self.field.right(), self.field.bottom()),
            Stroke::solid(colour::FRAME, 1.0),
        );
        self.capacity(drawing);
        self.outage_name(drawing);
        if let Some((second, number)) = panel.peak_after_outage {
            self.peak(drawing, second, number);
        }
        self.later(drawing, later);
        if panel.per_second.iter().all(|&number| number == 0) {
            let middle = (self.field.x + self.field.width / 2.0, self.field.y + self.field.height / 2.0);
            drawing.clear_text(middle, "no requests", LABEL.anchored(Anchor::Middle));
        }
    }

    fn background(self, drawing: &mut Drawing) {
        drawing.fill(self.field, colour::FIELD, 0.0, None);
        if let Some(outage) = self.outage() {
            drawing.fill(outage, colour::OUTAGE, 0.0, None);
        }
        for number in self.counts.ticks() {
            let y = self.counts.at(number, self.field);
            drawing.line((self.field.x, y), (self.field.right(), y), Stroke::solid(colour::GRID, 1.0));
        }
    }

    fn outage(self) -> Option<Area> {
        let (start, end) = self.chart.outage_s?;
        let x = self.time.at(start);
        Some(Area { x, width: (self.time.at(end) - x).max(1.0), ..self.field })
    }

    fn steps(self, per_second: &[u32]) -> Vec<Step> {
        let seconds = self.buckets.seconds() as f64;
        let mut steps: Vec<Step> = Vec::new();
        for (at, number) in self.buckets.of(per_second).enumerate() {
            let from_s = at as f64 * seconds;
            match steps.last_mut() {
                Some(last) if last.number == number => last.to_s = from_s + seconds,
                _ => steps.push(Step { from_s, to_s: from_s + seconds, number }),
            }
        }
        steps
    }

    /// The areas from `floor` up to what each step's number gives; steps that touch share one.
    fn above(self, steps: &[Step], floor: f64, ceiling: impl Fn(f64) -> f64) -> Outline {
        let mut outline = Outline::default();
        for together in steps.chunk_by(|one, next| one.to_s == next.from_s) {
            outline.start((self.time.at(together[0].from_s), floor));
            for step in together {
                outline.down(ceiling(step.number));
                outline.across(self.time.at(step.to_s));
            }
            outline.down(floor);
            outline.close();
        }
        outline
    }

    fn skyline(self, steps: &[Step]) -> Outline {
        let mut outline = Outline::default();
        if let Some(first) = steps.first() {
            outline.start((self.time.at(first.from_s), self.counts.at(first.number, self.field)));
        }
        for step in steps {
            outline.down(self.counts.at(step.number, self.field));
            outline.across(self.time.at(step.to_s));
        }
        if !steps.is_empty() {
            outline.down(self.field.bottom());
        }
        outline
    }

    fn capacity(self, drawing: &mut Drawing) {
        let y = self.counts.at(self.chart.capacity_per_s, self.field);
        drawing.line((self.field.x, y), (self.field.right(), y), Stroke::dashed(colour::INK, 1.2, 5.0));
        let name = format!("capacity {}/s", human::count(self.chart.capacity_per_s));
        drawing.clear_text((self.field.right() - 5.0, y - 5.0), &name, CAPACITY);
    }

    fn outage_name(self, drawing: &mut Drawing) {
        let Some(outage) = self.outage() else { return };
        let name = "outage";
        let needs = width(name, OUTAGE.size, OUTAGE.weight);
        let line = self.field.y + UPPER_LINE;
        if needs + 4.0 <= outage.width {
            drawing.text((outage.x + outage.width / 2.0, line), name, OUTAGE.anchored(Anchor::Middle));
        } else {
            let x = (outage.right() + 4.0).min(self.field.right() - needs);
            drawing.clear_text((x, line), name, OUTAGE);
        }
    }

    /// Counts the requests that come after the axis ends: too few, too late to be seen.
    fn later(self, drawing: &mut Drawing, later: &[u32]) {
        let number: u64 = later.iter().copied().map(u64::from).sum();
        let Some(last) = later.iter().rposition(|&number| number > 0) else { return };
        let until = human::duration((self.time.end_s().floor() as usize + last + 1) as f64);
        let text = format!("{} more until {until}", human::count(number as f64));
        let at = (self.field.right() - 5.0, self.field.y + UPPER_LINE);
        drawing.clear_text(at, &text, LABEL.anchored(Anchor::End));
    }

    fn peak(self, drawing: &mut Drawing, second: usize, number: u32) {
        // In the middle of the step that the second is in.
        let seconds = self.buckets.seconds() as f64;
        let moment = ((second / self.buckets.seconds()) as f64 + 0.5) * seconds;
        let (x, y) = (self.time.at(moment), self.counts.at(f64::from(number), self.field));
        drawing.dot((x, y), 3.5, colour::INK);
        let name = format!("peak {}/s", human::count(f64::from(number)));
        let needs = width(&name, PEAK.size, PEAK.weight) + 8.0;
        let right = x + needs <= self.field.right();
        let (x, style) = if right { (x + 8.0, PEAK) } else { (x - 8.0, PEAK.anchored(Anchor::End)) };
        drawing.clear_text((x, y - 3.0), &name, style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_counts_has_round_numbers_and_room_above_the_highest() {
        for (most, numbers) in [
            (3.0, vec![0.0, 1.0, 2.0, 3.0]),
            (4812.0, vec![0.0, 2000.0, 4000.0, 6000.0]),
            (0.0, vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ] {
            let axis = CountAxis::up_to(most);
            assert!(axis.end() > most);
            assert_eq!(axis.ticks().map(|tick| (tick * 10.0).round() / 10.0).collect::<Vec<_>>(), numbers);
        }
    }

    #[test]
    fn the_busiest_second_stands_for_its_bucket() {
        let buckets = Buckets::fitting(1000.0, 500.0);
        assert_eq!(buckets.seconds(), 2);
        assert_eq!(buckets.of(&[1, 9, 3, 0, 7]).collect::<Vec<_>>(), [9.0, 3.0, 7.0]);
        assert_eq!(Buckets::fitting(10.0, 500.0).seconds(), 1);
    }
}
