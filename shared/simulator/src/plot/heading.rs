//! What stands above a policy's panel in the picture of policies: its name, and what its retries come to.

use super::{
    drawing::{Area, Drawing},
    human,
    lane::RetryWindow,
    lettering::{shortened, width},
    style::{Anchor, LABEL, MIDDLE_TO_LINE, NAME, PLAIN},
};

/// A policy and its retries.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineRow {
    pub name: String,
    /// In the order of the retries; empty if it never retries.
    pub windows: Vec<RetryWindow>,
}

/// Between a policy's name and what it comes to.
const GAP: f64 = 10.0;

/// Writes it above `field`, and into it that there is no retry; `ttl_s` is counted as the windows are.
pub(super) fn heading(drawing: &mut Drawing, row: &TimelineRow, field: Area, ttl_s: Option<f64>) {
    let line = field.y - 10.0;
    let about = about(row, ttl_s);
    let room = field.width - GAP - width(&about, PLAIN.size, PLAIN.weight);
    let name = shortened(&row.name, room, NAME.size, NAME.weight);
    drawing.clear_texts((field.x, line), (&name, NAME), GAP, (&about, PLAIN));
    if row.windows.is_empty() {
        let line = field.y + field.height / 2.0 + MIDDLE_TO_LINE;
        drawing.clear_text((field.x + 8.0, line), "one attempt, no retry", LABEL);
    } else {
        drawing.text((field.x - 8.0, line), "retry", LABEL.anchored(Anchor::End));
    }
}

fn about(row: &TimelineRow, ttl_s: Option<f64>) -> String {
    let Some(last) = row.windows.last() else { return "never retried".to_owned() };
    let number = row.windows.len();
    let retries = if number == 1 { "1 retry".to_owned() } else { format!("{number} retries") };
    let left = row.windows.iter().filter(|window| ttl_s.is_none_or(|ttl| window.earliest_s < ttl)).count();
    if left == 0 {
        return format!("{retries}, of which the TTL leaves none");
    }
    if left < number {
        return format!("{retries}, of which the TTL leaves at most {left}");
    }
    let which = if number == 1 { "" } else { ", the last" };
    let latest = human::duration(last.latest_s);
    if last.earliest_s == last.latest_s {
        format!("{retries}{which} after {latest}")
    } else {
        format!("{retries}{which} after {} on average, {latest} at the latest", human::duration(last.mean_s))
    }
}
