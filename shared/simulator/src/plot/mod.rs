//! Pictures: what a retry policy will do, and what a simulated outage did, as SVG.
//!
//! `timeline()` draws when the retries of policies may happen; `load()` draws the requests that arrive at a provider while
//! it is out and after. The same input gives the same bytes.
//!
//! | file | concept |
//! |---|---|
//! | `drawing`, `style.css` | the shapes and the text that pictures are made of, and how they look |
//! | `axis` | where a moment or a count lies, which of them are named, and how |
//! | `timeline` | the picture of policies |
//! | `load` | the picture of load |

mod axis;
mod drawing;
mod load;
mod timeline;

use std::path::Path;

use redial_console::failure::Failure;

pub(crate) use axis::span;
pub(crate) use load::{LoadChart, LoadPanel, load};
pub use timeline::{RetryWindow, TimelineRow, timeline};

/// Whether a picture may have this name: it ends in `.svg`, in whatever case.
pub fn check_name(path: &Path) -> Result<(), Failure> {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("svg")) {
        return Ok(());
    }
    Err(Failure::input(format!("{}: a picture's name ends in .svg", path.display())))
}

#[cfg(test)]
mod tests {
    use roxmltree::Document;

    use super::*;

    /// Every text of an SVG, which must be well-formed.
    pub(super) fn texts(svg: &str) -> Vec<String> {
        let parsed = Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
        let texts = parsed.descendants().filter(|node| node.is_text());
        texts.filter_map(|node| node.text()).map(|text| text.trim().to_owned()).collect()
    }

    pub(super) fn assert_texts(svg: &str, expected: &[&str]) {
        let texts = texts(svg);
        for expected in expected {
            assert!(texts.iter().any(|text| text == expected), "{expected} in {texts:?}");
        }
    }

    #[test]
    fn only_a_name_that_ends_in_svg_is_taken() {
        for name in ["a.svg", "b/c.SVG", "x.png.svg"] {
            assert!(check_name(Path::new(name)).is_ok(), "{name}");
        }
        for name in ["a.png", "a.pdf", "a", ".svg", "svg", "a.svg "] {
            let Err(Failure::Input(lines)) = check_name(Path::new(name)) else { panic!("{name} is taken") };
            assert_eq!(lines, [format!("{name}: a picture's name ends in .svg")]);
        }
    }
}
