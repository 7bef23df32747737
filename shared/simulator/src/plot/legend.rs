//! What the shapes and colours of a picture mean, in a row.

use super::{
    drawing::{Area, Drawing},
    lettering::width,
    style::{MIDDLE_TO_LINE, PLAIN, Stroke, colour},
};

#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    /// An area of this colour.
    Area(&'static str),
    /// A dot.
    Dot,
    /// An upright stroke.
    Mark,
}

/// Behind an explanation.
const BETWEEN: f64 = 20.0;

/// Explains the shapes from left to right, in text upon this line.
pub(super) fn legend(drawing: &mut Drawing, left: f64, line: f64, keys: &[(Key, &str)]) {
    let middle = line - MIDDLE_TO_LINE;
    let mut x = left;
    for (key, meaning) in keys {
        let taken = match key {
            Key::Area(colour) => {
                let area = Area { x, y: middle - 5.0, width: 22.0, height: 10.0 };
                drawing.fill(area, colour, 1.0, None);
                area.width
            }
            Key::Dot => {
                drawing.dot((x + 3.0, middle), 3.0, colour::INK);
                6.0
            }
            Key::Mark => {
                let x = x + 1.5;
                drawing.line((x, middle - 6.0), (x, middle + 6.0), Stroke::solid(colour::STRONG, 2.5));
                3.0
            }
        };
        x += taken + 7.0;
        drawing.text((x, line), meaning, PLAIN);
        x += width(meaning, PLAIN.size, PLAIN.weight) + BETWEEN;
    }
}
