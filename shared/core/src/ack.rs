//! Acknowledgements: what happened to a push on its user's screen, as the browser reports it.
//!
//! A push that is `sent` was accepted by its push service. The page's service worker may report that it was displayed, clicked or
//! closed; browsers are offline, and some pages report nothing. So acknowledgements never change a delivery's state; they come in any
//! order, and more than once.

use crate::access::AckToken;
use crate::label::labels;
use crate::metric::Metric;
use crate::time::{Deadline, Timestamp};

labels! {
    pub enum AckEvent {
        Displayed = "displayed",
        Clicked = "clicked",
        /// Closed without a click.
        Closed = "closed",
    }
}

impl AckEvent {
    pub const fn metric(self) -> Metric {
        match self {
            Self::Displayed => Metric::Displayed,
            Self::Clicked => Metric::Clicked,
            Self::Closed => Metric::Closed,
        }
    }
}

/// The end of acknowledgements of a message with this deadline.
pub fn accepted_until(deadline: Deadline) -> Timestamp {
    deadline.at().plus(AckToken::GRACE)
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
