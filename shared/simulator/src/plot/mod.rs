//! Pictures: what a retry policy will do, and what a simulated outage did, as SVG.
//!
//! `timeline()` draws when the retries of policies may happen; `load()` draws the requests that arrive at a provider while
//! it is out and after. The same input gives the same bytes.
//!
//! `plotters` would not replace this: its axes know no units of time and no logarithm with a zero, it snaps to whole pixels, and
//! the lanes, marks and notes that make these pictures legible would all be drawn by hand on it too.
//!
//! | file | concept |
//! |---|---|
//! | `drawing` | the shapes and the text that pictures are made of |
//! | `style` | colours, letters and strokes |
//! | `legend` | what they mean |
//! | `lettering` | how wide a text is, about |
//! | `human` | spans of time and counts in words |
//! | `axis` | where a moment lies, and which are named |
//! | `timeline`, `heading`, `lane` | the picture of policies, what is said of each, and one retry |
//! | `load`, `series` | the picture of load, and one policy's in it |

mod axis;
mod drawing;
mod heading;
mod human;
mod lane;
mod legend;
mod lettering;
mod load;
mod series;
mod style;
mod timeline;

use std::path::{Path, PathBuf};

pub use heading::TimelineRow;
pub(crate) use human::duration as span;
pub use lane::RetryWindow;
pub(crate) use load::load;
pub(crate) use series::{LoadChart, LoadPanel};
pub use timeline::timeline;

#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    #[error("{}: a picture's name ends in .svg", path.display())]
    Ending { path: PathBuf },
    /// A number that has no place on an axis: not finite, negative, or before what it follows.
    #[error("{what} cannot be drawn")]
    Number { what: String },
}

/// Whether a picture may have this name: it ends in `.svg`, in whatever case.
pub fn check_name(path: &Path) -> Result<(), PlotError> {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("svg")) {
        return Ok(());
    }
    Err(PlotError::Ending { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use roxmltree::Document;

    use super::*;

    /// Every text of an SVG, which must be well-formed.
    pub(super) fn texts(svg: &str) -> Vec<String> {
        let parsed = Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
        parsed
            .descendants()
            .filter(|node| node.is_text())
            .filter_map(|node| node.text())
            .map(|text| text.trim().to_owned())
            .collect()
    }

    #[test]
    fn only_a_name_that_ends_in_svg_is_taken() {
        for name in ["a.svg", "b/c.SVG", "x.png.svg"] {
            assert!(check_name(Path::new(name)).is_ok(), "{name}");
        }
        for name in ["a.png", "a.pdf", "a", ".svg", "svg", "a.svg "] {
            let refused = check_name(Path::new(name)).expect_err(name);
            assert_eq!(refused.to_string(), format!("{name}: a picture's name ends in .svg"));
        }
    }
}
