//! How wide a text is, about, and how to make it fit.
//!
//! A browser chooses the font, so the width is estimated: each letter has the width of its class in a sans-serif font, and a
//! reserve for the wider ones.

/// Arial and Helvetica are 3 to 6 % wider than Roboto, which the classes were measured in; DejaVu Sans, the widest, 15 %.
const RESERVE: f64 = 1.08;

/// Bold letters are wider than regular ones by this factor.
const BOLD: f64 = 1.035;

/// Stands for what was cut.
const ELLIPSIS: char = '…';

/// How heavy a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// For what is read.
    Regular,
    /// For what is looked for.
    Bold,
}

impl Weight {
    pub(super) const fn number(self) -> u16 {
        match self {
            Self::Regular => 400,
            Self::Bold => 700,
        }
    }
}

/// The width of `text` at `size`, both in units of the drawing.
pub(super) fn width(text: &str, size: f64, weight: Weight) -> f64 {
    text.chars().map(advances(size, weight)).sum()
}

/// `text`, cut at its end so that it is at most `room` wide.
pub(super) fn shortened(text: &str, room: f64, size: f64, weight: Weight) -> String {
    if width(text, size, weight) <= room {
        return text.to_owned();
    }
    let advance = advances(size, weight);
    let mut left = room - advance(ELLIPSIS);
    let fits = |letter: &char| {
        left -= advance(*letter);
        left >= 0.0
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    kept.truncate(kept.trim_end().len());
    kept.push(ELLIPSIS);
    kept
}

/// How far each letter moves the next one on.
fn advances(size: f64, weight: Weight) -> impl Fn(char) -> f64 {
    let scale = match weight {
        Weight::Regular => size * RESERVE,
        Weight::Bold => size * RESERVE * BOLD,
    };
    move |letter| em(letter) * scale
}

/// The width of a letter, as a share of the font's size.
fn em(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'I' => 0.25,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '{' | '}' | '/' | '-' | '"' | '`' => 0.34,
        'c' | 'k' | 's' | 'v' | 'x' | 'y' | 'z' | 'J' => 0.51,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '—' | ELLIPSIS => 0.86,
        'A'..='Z' => 0.64,
        '\u{2e80}'.. => 1.0,
        _ => 0.56,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_letter_a_larger_size_and_a_heavier_weight_are_wider() {
        let narrow = width("iiii", 12.0, Weight::Regular);
        let wide = width("mmmm", 12.0, Weight::Regular);
        assert!(narrow > 0.0 && wide > 2.0 * narrow, "{narrow} {wide}");
        assert!(width("mmmm", 24.0, Weight::Regular) > 1.9 * wide);
        assert!(width("retry", 12.0, Weight::Bold) > width("retry", 12.0, Weight::Regular));
        assert_eq!(width("", 12.0, Weight::Regular), 0.0);
    }

    #[test]
    fn what_fits_is_kept_and_what_does_not_is_cut_to_fit() {
        let name = "a policy with a name longer than its place";
        assert_eq!(shortened(name, 1000.0, 12.0, Weight::Bold), name);
        let cut = shortened(name, 120.0, 12.0, Weight::Bold);
        assert!(cut.ends_with('…') && cut.len() > 6, "{cut}");
        assert!(width(&cut, 12.0, Weight::Bold) <= 120.0);
        assert_eq!(shortened(name, 1.0, 12.0, Weight::Bold), "…");
    }
}
