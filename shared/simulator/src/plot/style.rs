//! How the pictures look: colours, letters and strokes, the same in all of them.

use super::lettering::Weight;

/// Colours that stay apart for the colour-blind (the blue and the vermilion are of Okabe and Ito's palette), on a background
/// of their own, so that a dark page does not matter.
pub(super) mod colour {
    /// Behind everything.
    pub(crate) const PAPER: &str = "#ffffff";
    /// Behind what is measured.
    pub(crate) const FIELD: &str = "#f5f7f9";
    /// Text that is read first.
    pub(crate) const INK: &str = "#1f2328";
    /// Text beside it.
    pub(crate) const MUTED: &str = "#59636e";
    /// Lines that lead the eye.
    pub(crate) const GRID: &str = "#e4e8ec";
    /// Lines that end something.
    pub(crate) const FRAME: &str = "#a5adb6";
    /// What may happen, or does.
    pub(crate) const SOFT: &str = "#a9d3ec";
    /// Its edge, and what stands for it.
    pub(crate) const STRONG: &str = "#0072b2";
    /// What is too much, or too late.
    pub(crate) const ALARM: &str = "#d55e00";
    /// What does not happen.
    pub(crate) const VOID: &str = "#cdd3da";
    /// Its edge.
    pub(crate) const VOID_EDGE: &str = "#939ca6";
    /// A span in which nothing is answered.
    pub(crate) const OUTAGE: &str = "#f6e5c3";
    /// Its name: dark enough to be read on it.
    pub(crate) const OUTAGE_INK: &str = "#7a5200";
}

/// The bundled font first, then what browsers have, from the most alike.
pub(super) const FAMILIES: &str = "Roboto, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lettering {
    pub(super) size: f64,
    pub(super) weight: Weight,
    pub(super) colour: &'static str,
    pub(super) anchor: Anchor,
}

impl Lettering {
    /// Text of this size that begins at its point.
    pub(super) const fn new(size: f64, weight: Weight, colour: &'static str) -> Self {
        Self { size, weight, colour, anchor: Anchor::Start }
    }

    /// The same, lying elsewhere from its point.
    pub(super) const fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) colour: &'static str,
    pub(super) width: f64,
    /// Length of its dashes, or `None` for a whole line.
    pub(super) dash: Option<f64>,
}

impl Stroke {
    pub(super) const fn solid(colour: &'static str, width: f64) -> Self {
        Self { colour, width, dash: None }
    }

    pub(super) const fn dashed(colour: &'static str, width: f64, dash: f64) -> Self {
        Self { colour, width, dash: Some(dash) }
    }
}

/// What a picture shows.
pub(super) const TITLE: Lettering = Lettering::new(19.0, Weight::Bold, colour::INK);
/// What a panel shows.
pub(super) const NAME: Lettering = Lettering::new(15.0, Weight::Bold, colour::INK);
/// What is said about it.
pub(super) const PLAIN: Lettering = Lettering::new(13.0, Weight::Regular, colour::MUTED);
/// What stands on an axis.
pub(super) const TICK: Lettering = Lettering::new(12.0, Weight::Regular, colour::INK);
/// What stands beside something that is drawn.
pub(super) const LABEL: Lettering = Lettering::new(12.0, Weight::Regular, colour::MUTED);

/// From the middle of small text to the line that it stands on.
pub(super) const MIDDLE_TO_LINE: f64 = 4.3;
