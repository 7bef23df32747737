//! What a picture is made of: lines, areas and text, in the units that a browser takes for pixels. Classes are those of
//! `style.css`.

/// Colours that stay apart for the colour-blind (the blue and the vermilion are of Okabe and Ito's palette), on a background
/// of their own, so that a dark page does not matter.
const STYLE: &str = include_str!("style.css");

/// Sizes of the letters of the classes, as widths are estimated from them.
pub(super) const NAME: f64 = 15.0;
pub(super) const PLAIN: f64 = 13.0;
pub(super) const LABEL: f64 = 12.0;

/// From the middle of small text to the line that it stands on.
pub(super) const MIDDLE_TO_LINE: f64 = 4.3;

#[derive(Clone, Copy, Debug)]
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
    svg: String,
}

impl Drawing {
    /// Empty paper, which screen readers call `title`.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let mut drawing = Self { svg: String::new() };
        drawing.push(format!(
            "<svg xmlns='http://www.w3.org/2000/svg' role='img' width='{width:.0}' height='{height:.0}' \
             viewBox='0 0 {width:.0} {height:.0}'>\n<title>{}</title>\n<style>\n{STYLE}</style>",
            escaped(title),
        ));
        drawing.area("paper", Area { x: 0.0, y: 0.0, width, height });
        drawing
    }

    pub(super) fn area(&mut self, class: &str, Area { x, y, width, height }: Area) {
        let width = width.max(0.0);
        self.push(format!(
            "<rect class='{class}' x='{x:.1}' y='{y:.1}' width='{width:.1}' height='{height:.1}'/>"
        ));
    }

    /// What `draw` draws, with a text that a browser shows for the pointer upon it.
    pub(super) fn with_tooltip(&mut self, tooltip: &str, draw: impl FnOnce(&mut Self)) {
        self.push(format!("<g><title>{}</title>", escaped(tooltip)));
        draw(self);
        self.push("</g>".to_owned());
    }

    /// A dot, kept clear of what lies under it.
    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        self.push(format!("<circle class='{class}' cx='{x:.1}' cy='{y:.1}' r='{radius:.1}'/>"));
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let path = format!("M{:.1} {:.1}L{:.1} {:.1}", from.0, from.1, to.0, to.1);
        self.path(&format!("line {class}"), &path);
    }

    pub(super) fn path(&mut self, class: &str, path: &str) {
        self.push(format!("<path class='{class}' d='{path}'/>"));
    }

    /// As much of a path as lies within the area.
    pub(super) fn path_within(&mut self, class: &str, path: &str, Area { x, y, width, height }: Area) {
        let size = format!("width='{width:.1}' height='{height:.1}'");
        let view = format!("viewBox='{x:.1} {y:.1} {width:.1} {height:.1}'");
        self.push(format!(
            "<svg x='{x:.1}' y='{y:.1}' {size} {view}><path class='{class}' d='{path}'/></svg>"
        ));
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        self.push(format!("<text class='{class}' x='{x:.1}' y='{y:.1}'>{}</text>", escaped(text)));
    }

    /// Text that is read from below upwards.
    pub(super) fn upright_text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        self.push(format!("<g transform='translate({x:.1} {y:.1}) rotate(-90)'>"));
        self.text(class, (0.0, 0.0), text);
        self.push("</g>".to_owned());
    }

    /// Explains classes of areas, and dots (`dot`), from left to right.
    pub(super) fn legend(&mut self, (mut x, line): (f64, f64), keys: &[(&str, &str)]) {
        let middle = line - MIDDLE_TO_LINE;
        for (class, meaning) in keys {
            let width = match *class {
                "dot" => 6.0,
                "strong" => 2.5,
                _ => 22.0,
            };
            if *class == "dot" {
                self.dot("", (x + 3.0, middle), 3.0);
            } else {
                self.area(class, Area { x, y: middle - 5.0, width, height: 10.0 });
            }
            x += width + 7.0;
            self.text("plain", (x, line), meaning);
            x += self::width(meaning, PLAIN) + 20.0;
        }
    }

    pub(super) fn into_svg(mut self) -> String {
        self.push("</svg>".to_owned());
        self.svg
    }

    fn push(&mut self, element: String) {
        self.svg.push_str(&element);
        self.svg.push('\n');
    }
}

/// How wide a text is, about: a browser chooses the font.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(|letter| if letter < '\u{2e80}' { 0.56 * size } else { size }).sum()
}

/// `text`, cut at its end so that it is at most `room` wide.
pub(super) fn shortened(text: &str, room: f64, size: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut kept = text.to_owned();
    while !kept.is_empty() && width(&kept, size) + width("…", size) > room {
        kept.pop();
    }
    format!("{}…", kept.trim_end())
}

/// `text` as XML, without what XML 1.0 (section 2.2) has no character for; what breaks a line is a space.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            _ if letter.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::texts;

    #[test]
    fn all_text_is_kept_except_characters_that_xml_does_not_have() {
        let hostile = r#"</text><script>alert("1")</script> & ]]> 'x' &amp; — ü 再"#;
        let mut drawing = Drawing::new(100.0, 50.0, hostile);
        drawing.text("plain", (1.0, 2.0), hostile);
        drawing.with_tooltip(hostile, |_| {});
        drawing.text("plain", (1.0, 2.0), "a\0b\u{1b}c\td\ne\u{85}f\u{ffff}");
        let texts = texts(&drawing.into_svg());
        assert_eq!(texts.iter().filter(|text| *text == hostile).count(), 3, "{texts:?}");
        assert!(texts.iter().any(|text| text == "a\u{fffd}b\u{fffd}c d e\u{fffd}f\u{fffd}"), "{texts:?}");
    }

    #[test]
    fn a_negative_width_is_none() {
        let mut drawing = Drawing::new(10.0, 10.0, "t");
        drawing.area("soft", Area { x: 3.0, y: 0.0, width: -2.0, height: 1.0 });
        assert!(drawing.into_svg().contains("width='0.0'"));
    }

    #[test]
    fn what_fits_is_kept_and_what_does_not_is_cut_to_fit() {
        let name = "a policy with a name longer than its place";
        assert_eq!(shortened(name, 1000.0, LABEL), name);
        let cut = shortened(name, 120.0, LABEL);
        assert!(cut.ends_with('…') && cut.len() > 6, "{cut}");
        assert!(width(&cut, LABEL) <= 120.0 && width(&cut, NAME) > width(&cut, LABEL));
        assert_eq!(shortened(name, 1.0, LABEL), "…");
    }
}
