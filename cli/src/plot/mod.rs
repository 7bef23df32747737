//! Pictures: what a retry policy will do, and what a simulated outage did, as SVG or PNG.
//!
//! [`timeline()`] draws when the retries of policies may happen; [`load()`] draws the requests that arrive at a provider while
//! it is out and after. Each makes one SVG, and the PNG is that very SVG rasterised, so that both look alike. The same input
//! gives the same bytes.
//!
//! The SVG is composed with `svg` and rasterised with `resvg`. `plotters` brings fewer crates (17 instead of 34) and compiles in
//! 8 s instead of 20 s, but it snaps to whole pixels, spaces the letters of its bitmaps unevenly, and its axes do not know units
//! of time: most of what makes these pictures legible would have been written anyway. Neither needs a library of the system's.
//! The text of a PNG is set in the bundled font, on a machine without any font too; an SVG names that font first, then what
//! browsers have.
//!
//! | file | concept |
//! |---|---|
//! | `drawing` | the shapes and the text that pictures are made of |
//! | `style` | colours, letters and strokes |
//! | `legend` | what they mean |
//! | `lettering` | how wide a text is, in the bundled font |
//! | `raster` | an SVG as PNG |
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
mod raster;
mod series;
mod style;
mod timeline;

use std::{
    error::Error,
    path::{Path, PathBuf},
};

use resvg::usvg;

use drawing::Drawing;

pub(crate) use human::duration as span;
pub(crate) use load::{LoadChart, LoadPanel, load};
pub(crate) use timeline::{RetryWindow, TimelineRow, timeline};

/// What a picture is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Scales without loss; its text can be searched.
    Svg,
    /// Two pixels for each unit of the SVG.
    Png,
}

impl Format {
    /// The format that a file's name asks for by its ending, in whatever case.
    ///
    /// # Errors
    /// [`PlotError::Ending`] if it ends in neither `.svg` nor `.png`.
    pub(crate) fn of(path: &Path) -> Result<Self, PlotError> {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        match ending.as_ref().and_then(|ending| ending.to_str()) {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => Err(PlotError::Ending { path: path.to_owned() }),
        }
    }
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlotError {
    /// The file's name asks for no format that is known.
    #[error("{}: a picture's name ends in .svg or .png", path.display())]
    Ending {
        /// The name.
        path: PathBuf,
    },
    /// A number that has no place on an axis: not finite, negative, or before what it follows.
    #[error("{what} cannot be drawn")]
    Number {
        /// Whose it is, and what it is.
        what: String,
    },
    /// More pixels than can be held: an SVG has no such limit.
    #[error("{width} × {height} pixels are too many for a PNG; write an SVG, or draw fewer policies")]
    TooLarge {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
    /// The SVG could not be rasterised.
    #[error("the picture could not be rasterised")]
    Raster(#[from] usvg::Error),
    /// The pixels could not be encoded.
    #[error("the picture could not be encoded")]
    Encode(#[source] Box<dyn Error + Send + Sync>),
}

/// A finished drawing as the bytes of a file.
fn rendered(drawing: Drawing, format: Format) -> Result<Vec<u8>, PlotError> {
    let svg = drawing.into_svg();
    match format {
        Format::Svg => Ok(svg.into_bytes()),
        Format::Png => raster::png(&svg),
    }
}

#[cfg(test)]
mod tests {
    use resvg::usvg::roxmltree::Document;

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
    fn the_ending_of_a_name_chooses_the_format() {
        for (name, format) in [("a.svg", Format::Svg), ("b/c.PNG", Format::Png), ("x.png.svg", Format::Svg)] {
            assert_eq!(Format::of(Path::new(name)).unwrap(), format, "{name}");
        }
    }

    #[test]
    fn another_ending_is_refused_and_the_message_says_what_would_do() {
        for name in ["a.pdf", "a", ".svg", "svg", "a.svg "] {
            let refused = Format::of(Path::new(name)).unwrap_err();
            assert_eq!(refused.to_string(), format!("{name}: a picture's name ends in .svg or .png"));
        }
    }
}
