//! Nothing is sent long after it is due while nothing fails.

use std::time::Duration;

use redial_core::identity::{DeliveryKey, Turn};
use redial_core::time::Timestamp;

use crate::punctual::Punctual;
use crate::situations::Situation;
use crate::watch::Memo;

/// Two clocks that are two seconds off, each in its own direction, the second that is waited out inside, the calls before a POST, and up to
/// three seconds until an execution has released its bucket.
const LATE_BY: Duration = Duration::from_secs(10);

/// What the net adds where an execution may have been stopped, besides the time between two sweeps: a bucket is late after two minutes, and
/// a worker has to be free.
const SWEPT_WITHIN: Duration = Duration::from_secs(120 + 20);

impl Memo {
    /// A POST of an attempt.
    pub(crate) fn is_punctual(&mut self, key: &DeliveryKey, turn: Turn, now: Timestamp) {
        let Some(due) = self.punctual.due(key, turn) else { return };
        let Punctual { calm_from, starved_at, sweep_every, .. } = self.punctual;
        if due.since < calm_from || starved_at >= due.at || self.has_far_clocks {
            return;
        }
        // An execution that began while there were faults may have been stopped, or come late.
        let has_net = due.bucket_since.is_some_and(|since| since < calm_from);
        let most = if has_net { LATE_BY + SWEPT_WITHIN + sweep_every } else { LATE_BY };
        self.situations.saw(match due.bucket_since {
            Some(_) => Situation::ParkedInTime,
            None => Situation::InTime,
        });
        let late = now.since(due.at);
        if late > most {
            self.violated(format!("{key} was posted {late:?} after it was due, while nothing failed"));
        }
    }
}
