//! What a picture is made of: lines, areas and text, in the units that a browser takes for pixels.
//!
//! Text comes from outside (a policy's name may be a file's), so everything that is no letter in XML is replaced here, and
//! the composer escapes the rest. Numbers are rounded to a hundredth of a unit: shorter, and the same on every machine.

use svg::{
    Document, Node,
    node::{
        Text,
        element::{Circle, Element, Path, Rectangle, TSpan, Title},
    },
};

use super::{
    lettering::Weight,
    style::{Anchor, FAMILIES, Lettering, Stroke, colour},
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn right(&self) -> f64 {
        self.x + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.y + self.height
    }
}

/// A picture while it is drawn: what comes later lies above.
#[derive(Debug)]
pub(super) struct Drawing {
    document: Document,
}

impl Drawing {
    /// Empty paper, which screen readers call `title`.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let (width, height) = (width.ceil(), height.ceil());
        let document = Document::new()
            .set("width", width)
            .set("height", height)
            .set("viewBox", (0, 0, width, height))
            .set("role", "img")
            .set("font-family", FAMILIES)
            .add(Title::new(readable(title)));
        let mut drawing = Self { document };
        drawing.fill(Area { x: 0.0, y: 0.0, width, height }, colour::PAPER, 0.0, None);
        drawing
    }

    /// A filled rectangle, with corners of this radius, and a text that a browser shows for the pointer upon it.
    pub(super) fn fill(&mut self, area: Area, colour: &str, radius: f64, tooltip: Option<&str>) {
        let mut shape = Rectangle::new()
            .set("x", exact(area.x))
            .set("y", exact(area.y))
            .set("width", exact(area.width.max(0.0)))
            .set("height", exact(area.height.max(0.0)))
            .set("fill", colour);
        if radius > 0.0 {
            shape = shape.set("rx", exact(radius));
        }
        if let Some(tooltip) = tooltip {
            shape = shape.add(Title::new(readable(tooltip)));
        }
        self.document.append(shape);
    }

    /// A dot, kept clear of what lies under it.
    pub(super) fn dot(&mut self, (x, y): (f64, f64), radius: f64, colour: &str) {
        let dot = Circle::new()
            .set("cx", exact(x))
            .set("cy", exact(y))
            .set("r", exact(radius))
            .set("fill", colour)
            .set("stroke", colour::PAPER)
            .set("stroke-width", 1);
        self.document.append(dot);
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
        let mut outline = Outline::default();
        outline.start(from);
        outline.to(to);
        self.stroke(&outline, stroke);
    }

    pub(super) fn stroke(&mut self, outline: &Outline, stroke: Stroke) {
        let mut path = Path::new()
            .set("d", outline.commands.as_str())
            .set("fill", "none")
            .set("stroke", stroke.colour)
            .set("stroke-width", exact(stroke.width))
            .set("stroke-linejoin", "round");
        if let Some(dash) = stroke.dash {
            path = path.set("stroke-dasharray", exact(dash));
        }
        self.document.append(path);
    }

    pub(super) fn fill_outline(&mut self, outline: &Outline, colour: &str) {
        self.document.append(Path::new().set("d", outline.commands.as_str()).set("fill", colour));
    }

    pub(super) fn text(&mut self, at: (f64, f64), text: &str, lettering: Lettering) {
        self.document.append(written(at, text, lettering));
    }

    /// The same, kept clear of what lies under it.
    pub(super) fn clear_text(&mut self, at: (f64, f64), text: &str, lettering: Lettering) {
        self.document.append(clear(written(at, text, lettering)));
    }

    /// Two texts, the second `gap` behind the first, however wide a browser's font makes that.
    pub(super) fn clear_texts(
        &mut self,
        at: (f64, f64),
        (first, lettering): (&str, Lettering),
        gap: f64,
        (second, other): (&str, Lettering),
    ) {
        let second = TSpan::new(readable(second))
            .set("dx", exact(gap))
            .set("font-size", exact(other.size))
            .set("font-weight", other.weight.number())
            .set("fill", other.colour);
        let mut both = clear(written(at, first, lettering));
        both.append(second);
        self.document.append(both);
    }

    pub(super) fn upright_text(&mut self, at: (f64, f64), text: &str, lettering: Lettering) {
        let mut upright = written(at, text, lettering);
        upright.assign("transform", format!("rotate(-90 {} {})", exact(at.0), exact(at.1)));
        self.document.append(upright);
    }

    pub(super) fn into_svg(self) -> String {
        let mut svg = self.document.to_string();
        svg.push('\n');
        svg
    }
}

/// A line of several corners, or an area's edge.
#[derive(Debug, Default)]
pub(super) struct Outline {
    commands: String,
}

impl Outline {
    pub(super) fn start(&mut self, (x, y): (f64, f64)) {
        self.push(format_args!("M{} {}", exact(x), exact(y)));
    }

    pub(super) fn to(&mut self, (x, y): (f64, f64)) {
        self.push(format_args!("L{} {}", exact(x), exact(y)));
    }

    pub(super) fn across(&mut self, x: f64) {
        self.push(format_args!("H{}", exact(x)));
    }

    pub(super) fn down(&mut self, y: f64) {
        self.push(format_args!("V{}", exact(y)));
    }

    pub(super) fn close(&mut self) {
        self.push(format_args!("Z"));
    }

    fn push(&mut self, command: std::fmt::Arguments<'_>) {
        self.commands.push_str(&command.to_string());
    }
}

/// Not the composer's own type for it, which puts line breaks around the text.
fn written((x, y): (f64, f64), text: &str, lettering: Lettering) -> Element {
    let mut element = Element::new("text");
    element.assign("x", exact(x));
    element.assign("y", exact(y));
    element.assign("font-size", exact(lettering.size));
    element.assign("fill", lettering.colour);
    if lettering.weight != Weight::Regular {
        element.assign("font-weight", lettering.weight.number());
    }
    match lettering.anchor {
        Anchor::Start => {}
        Anchor::Middle => element.assign("text-anchor", "middle"),
        Anchor::End => element.assign("text-anchor", "end"),
    }
    element.append(Text::new(readable(text)));
    element
}

fn clear(mut text: Element) -> Element {
    text.assign("paint-order", "stroke");
    text.assign("stroke", colour::PAPER);
    text.assign("stroke-width", 3);
    text.assign("stroke-linejoin", "round");
    text
}

/// A number to a hundredth, and never `-0`.
fn exact(number: f64) -> f64 {
    (number * 100.0).round() / 100.0 + 0.0
}

/// `text` without what XML 1.0 (section 2.2) has no character for; what breaks a line is a space.
fn readable(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            '\t' | '\n' | '\r' => ' ',
            '\u{fffe}' | '\u{ffff}' => char::REPLACEMENT_CHARACTER,
            _ if letter.is_control() => char::REPLACEMENT_CHARACTER,
            _ => letter,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::style::PLAIN;

    #[test]
    fn any_text_comes_out_as_it_went_in() {
        let hostile = r#"</text><script>alert("1")</script> & ]]> 'x' &amp; — ü 再"#;
        let mut drawing = Drawing::new(100.0, 50.0, hostile);
        drawing.text((1.0, 2.0), hostile, PLAIN);
        drawing.fill(Area { x: 0.0, y: 0.0, width: 1.0, height: 1.0 }, colour::SOFT, 0.0, Some(hostile));
        let svg = drawing.into_svg();
        let parsed = roxmltree::Document::parse(&svg).unwrap();
        assert!(parsed.descendants().all(|node| node.tag_name().name() != "script"));
        let texts: Vec<_> =
            parsed.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect();
        assert_eq!(texts.iter().filter(|text| text.contains(hostile)).count(), 3, "{texts:?}");
    }

    #[test]
    fn what_xml_has_no_character_for_is_replaced() {
        assert_eq!(readable("a\0b\u{1b}c\td\ne\u{85}f\u{ffff}"), "a\u{fffd}b\u{fffd}c d e\u{fffd}f\u{fffd}");
    }

    #[test]
    fn numbers_are_short_and_a_negative_width_is_none() {
        assert_eq!(exact(1.0 / 3.0).to_string(), "0.33");
        assert_eq!(exact(-0.001).to_string(), "0");
        let mut drawing = Drawing::new(10.0, 10.0, "t");
        drawing.fill(Area { x: 3.0, y: 0.0, width: -2.0, height: 1.0 }, colour::SOFT, 0.0, None);
        assert!(drawing.into_svg().contains(r#"width="0""#));
    }
}
