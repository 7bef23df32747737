//! Colour, for people and sparingly: a terminal shows it, a pipe and `--json` never do.
//!
//! The colours are of the terminal's own palette, so that they are readable on light and on dark. They add nothing that the words do not
//! say. `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` and `TERM=dumb` are obeyed as clap obeys them for `--help`.

use anstream::{AutoStream, ColorChoice, stream::RawStream};
use anstyle::{AnsiColor, Style};

/// What a part of a line means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// All is well, of the whole and not of a part.
    Well,
    /// Worth a look; Redial deals with it.
    Caution,
    /// Needs the operator.
    Alarm,
    /// The heading of a column.
    Heading,
}

impl Tone {
    pub fn style(self) -> Style {
        let of = |color: AnsiColor| color.on_default();
        match self {
            Self::Well => of(AnsiColor::Green),
            Self::Caution => of(AnsiColor::Yellow),
            Self::Alarm => of(AnsiColor::Red),
            Self::Heading => Style::new().bold(),
        }
    }
}

/// Whether colours reach this stream.
pub fn is_coloured(stream: &impl RawStream) -> bool {
    // `choice` takes what it is asked about by reference only.
    coloured(AutoStream::choice(stream))
}

fn coloured(choice: ColorChoice) -> bool {
    match choice {
        ColorChoice::Always | ColorChoice::AlwaysAnsi => true,
        ColorChoice::Auto | ColorChoice::Never => false,
    }
}

/// No colours from here on, whatever the streams are: a script reads them.
pub fn never() {
    ColorChoice::Never.write_global();
}
