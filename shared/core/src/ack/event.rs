//! What a user's browser reports of a push.

use crate::label::labels;
use crate::metric::Metric;

labels! {
    pub enum AckEvent {
        Displayed = "displayed",
        Clicked = "clicked",
        /// Closed without a click.
        Closed = "closed",
    }
}

impl AckEvent {
    /// Counts the deliveries that it was reported for.
    pub const fn metric(self) -> Metric {
        match self {
            Self::Displayed => Metric::Displayed,
            Self::Clicked => Metric::Clicked,
            Self::Closed => Metric::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_counts_in_the_metric_of_its_name() {
        for event in AckEvent::ALL {
            assert_eq!(event.metric().label().to_lowercase(), event.label());
        }
    }
}
