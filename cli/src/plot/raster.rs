//! An SVG as PNG: the same picture, its text in the bundled font, whatever fonts the machine has.

use resvg::{
    render,
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree},
};

use super::{PlotError, lettering};

/// Pixels for each unit of the drawing, so that it is sharp on a dense screen.
const DENSITY: u32 = 2;

/// From here on a picture has one pixel for each unit, so that a hundred retries of many policies fit in memory.
const MANY_PIXELS: u64 = 64 * 1024 * 1024;

/// The family that the bundled font calls itself, and that stands for every other.
const FAMILY: &str = "Roboto";

/// Rasterises an SVG, and encodes it.
pub(super) fn png(svg: &str) -> Result<Vec<u8>, PlotError> {
    let mut options = Options { font_family: FAMILY.to_owned(), ..Options::default() };
    let fonts = options.fontdb_mut();
    fonts.load_font_data(lettering::REGULAR.to_vec());
    fonts.load_font_data(lettering::BOLD.to_vec());
    fonts.set_sans_serif_family(FAMILY);
    let tree = Tree::from_str(svg, &options)?;

    let size = tree.size().to_int_size();
    let density = density(size.width(), size.height());
    let (width, height) = (size.width() * density, size.height() * density);
    let mut picture = Pixmap::new(width, height).ok_or(PlotError::TooLarge { width, height })?;
    render(&tree, Transform::from_scale(density as f32, density as f32), &mut picture.as_mut());
    picture.encode_png().map_err(|error| PlotError::Encode(error.into()))
}

/// Pixels for each unit of a drawing of this size.
fn density(width: u32, height: u32) -> u32 {
    let pixels = u64::from(width * DENSITY) * u64::from(height * DENSITY);
    if pixels > MANY_PIXELS { 1 } else { DENSITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(svg: &str) -> Pixmap {
        Pixmap::decode_png(&png(svg).unwrap()).unwrap()
    }

    #[test]
    fn it_has_two_pixels_for_each_unit() {
        let picture = drawn(r#"<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"/>"#);
        assert_eq!((picture.width(), picture.height()), (60, 40));
    }

    #[test]
    fn a_picture_that_would_be_huge_has_one_pixel_for_each_unit() {
        assert_eq!(density(960, 1300), 2);
        assert_eq!(density(960, 17_000), 2);
        assert_eq!(density(960, 18_000), 1);
    }

    #[test]
    fn text_is_drawn_without_a_font_of_the_machine_even_letters_that_the_font_lacks() {
        let ink = |family: &str, text: &str| {
            let svg = format!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" width="90" height="30"><text x="5" y="20" font-family="{family}">{text}</text></svg>"#
            );
            drawn(&svg).pixels().iter().filter(|pixel| pixel.alpha() > 0).count()
        };
        let plain = ink("Roboto", "Retry 1");
        assert!(plain > 100, "{plain}");
        assert_eq!(ink("Arial, sans-serif", "Retry 1"), plain);
        assert_eq!(ink("Roboto", ""), 0);
        assert!(ink("Roboto", "再試行") > 0);
    }
}
