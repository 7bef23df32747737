//! One retry in the picture of policies: a bar from its earliest to its latest moment, a dot at its mean, its number before it
//! and its latest moment behind it. What a TTL cuts off is grey.

use super::{
    axis::TimeAxis,
    drawing::{Area, Drawing},
    human,
    style::{Anchor, LABEL, MIDDLE_TO_LINE, Stroke, TICK, colour},
};

/// When a retry may happen: in seconds from the first failure, through all the waits before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryWindow {
    /// 1 is the first retry.
    pub retry: u32,
    /// If every random part is at its least.
    pub earliest_s: f64,
    /// If every random part is at its most.
    pub latest_s: f64,
    pub mean_s: f64,
}

/// Height of the bar, as a share of the lane's.
const BAR: f64 = 0.62;

const BESIDE: f64 = 8.0;

/// A mean that lies nearer than this to the latest moment would only smudge its mark.
const APART: f64 = 3.0;

/// A strip of the picture that one retry has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane<'a> {
    pub(super) axis: &'a TimeAxis,
    /// As wide as the axis.
    pub(super) place: Area,
    /// Whether there is room for its number and its latest moment.
    pub(super) labelled: bool,
}

impl Lane<'_> {
    /// Draws the bar of a retry and the marks on it; `ttl_s` is counted as its window is.
    pub(super) fn draw(self, drawing: &mut Drawing, window: &RetryWindow, ttl_s: Option<f64>) {
        let tooltip = format!(
            "retry {}: {} to {} after the first failure, {} on average",
            window.retry,
            human::duration(window.earliest_s),
            human::duration(window.latest_s),
            human::duration(window.mean_s),
        );
        let cut_s = ttl_s.unwrap_or(f64::INFINITY);
        self.bar(drawing, window.earliest_s, window.latest_s.min(cut_s), colour::SOFT, &tooltip);
        self.bar(drawing, window.earliest_s.max(cut_s), window.latest_s, colour::VOID, &tooltip);

        // A retry that would come due at the very end of the TTL is not sent either.
        let colour_at = |moment_s, sent| if moment_s < cut_s { sent } else { colour::VOID_EDGE };
        let middle = self.place.y + self.place.height / 2.0;
        let (mean, latest) = (self.axis.at(window.mean_s), self.axis.at(window.latest_s));
        if (latest - mean).abs() >= APART {
            let radius = (self.place.height * 0.2).min(3.0);
            drawing.dot((mean, middle), radius, colour_at(window.mean_s, colour::INK));
        }
        let reach = self.place.height * BAR / 2.0 + 1.0;
        let mark = Stroke::solid(colour_at(window.latest_s, colour::STRONG), 2.5);
        drawing.line((latest, middle - reach), (latest, middle + reach), mark);
    }

    /// Writes its number and its latest moment, above whatever was drawn since.
    pub(super) fn name(self, drawing: &mut Drawing, window: &RetryWindow) {
        if self.labelled {
            let line = self.place.y + self.place.height / 2.0 + MIDDLE_TO_LINE;
            let number = window.retry.to_string();
            drawing.text((self.place.x - BESIDE, line), &number, TICK.anchored(Anchor::End));
            let moment = human::duration(window.latest_s);
            drawing.clear_text((self.axis.at(window.latest_s) + BESIDE, line), &moment, LABEL);
        }
    }

    fn bar(self, drawing: &mut Drawing, from_s: f64, to_s: f64, colour: &str, tooltip: &str) {
        if from_s > to_s {
            return;
        }
        let x = self.axis.at(from_s);
        let height = self.place.height * BAR;
        let y = self.place.y + (self.place.height - height) / 2.0;
        drawing.fill(Area { x, y, width: self.axis.at(to_s) - x, height }, colour, 1.0, Some(tooltip));
    }
}
