//! The targets of events, where a stack has several.

use std::fmt;

/// Targets of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Targets {
    /// The producers' own queue.
    pub queue: bool,
    pub bus: bool,
    /// The webhooks that tenants have set for their events.
    pub callbacks: bool,
}

impl Targets {
    /// The name of the attribute that lists the targets that an event lacks, with commas between.
    pub const NAME: &str = "targets";

    /// Reads what [`fmt::Display`] writes; `None` if this release does not know one of them.
    pub fn parse(text: &str) -> Option<Self> {
        text.split(',').try_fold(Self::default(), |targets, name| {
            Some(match name {
                "queue" => Self { queue: true, ..targets },
                "bus" => Self { bus: true, ..targets },
                "callbacks" => Self { callbacks: true, ..targets },
                _ => return None,
            })
        })
    }

    /// Those that are among others, too.
    #[must_use]
    pub const fn among(self, others: Self) -> Self {
        Self {
            queue: self.queue && others.queue,
            bus: self.bus && others.bus,
            callbacks: self.callbacks && others.callbacks,
        }
    }

    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(self.queue, "queue"), (self.bus, "bus"), (self.callbacks, "callbacks")];
        let names: Vec<&str> =
            names.into_iter().filter(|(is_one, _)| *is_one).map(|(_, name)| name).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written_and_a_newer_releases_are_not() {
        for bits in 1..8 {
            let targets = Targets { queue: bits & 1 > 0, bus: bits & 2 > 0, callbacks: bits & 4 > 0 };
            assert_eq!(Targets::parse(&targets.to_string()), Some(targets));
        }
        for text in ["", "bus,", "bus,stream", "Bus", "bus queue"] {
            assert_eq!(Targets::parse(text), None, "{text:?}");
        }
    }
}
