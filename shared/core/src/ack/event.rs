//! What a user's browser may tell of a push.

use crate::metric::Metric;

/// What a user's browser tells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AckEvent {
    /// The notification was shown.
    Displayed,
    /// It was clicked.
    Clicked,
    /// It was closed without a click.
    Closed,
}

impl AckEvent {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Displayed, Self::Clicked, Self::Closed];

    /// Its name in the API, in events and in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Displayed => "displayed",
            Self::Clicked => "clicked",
            Self::Closed => "closed",
        }
    }

    /// What counts the deliveries of which it was told.
    pub const fn metric(self) -> Metric {
        match self {
            Self::Displayed => Metric::Displayed,
            Self::Clicked => Metric::Clicked,
            Self::Closed => Metric::Closed,
        }
    }

    /// The one of that name.
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.label() == label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_reads_back_and_names_its_metric() {
        for event in AckEvent::ALL {
            assert_eq!(AckEvent::from_label(event.label()), Some(event));
            assert_eq!(event.metric().label().to_lowercase(), event.label());
        }
        assert_eq!(AckEvent::from_label("seen"), None);
    }
}
