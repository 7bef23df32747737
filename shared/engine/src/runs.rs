//! Opening a message to an audience: its run is stored, and each part of the audience gets its first message.
//!
//! The worker that claimed it does so, and cleanup for a worker that died before it was done. A repetition opens the same run: all of it
//! follows from the message and its claim.

use redial_core::audience::{Expansion, Opening, Run, RunKey};
use redial_core::body::Body;
use redial_core::lane::Lane;
use redial_core::ledger;
use redial_core::message::{Message, Travel};
use redial_core::queue::Outgoing;
use redial_core::route::DelaySeconds;
use redial_core::time::{Deadline, Timestamp};

/// Audiences are walked and sent in the bulk lane, whichever lane their message came by: a tenant's thousands of recipients, and what
/// walks them for hours at a rate, must not stand before another tenant's one-time code.
const LANE: Lane = Lane::Bulk;

/// The run of this message's claim, which was written at `at`.
pub(crate) fn of_claim(message: &Message, travel: &Travel, deadline: Deadline, at: Timestamp) -> Run {
    Run {
        key: RunKey::new(&message.key(), Opening { turn: travel.turn, at }),
        message: message.id.clone(),
        lane: LANE,
        body: Body::new(message.expose_stored_body(&travel.for_the_store(), deadline, at)),
        opened_at: at,
        kept_until: ledger::expires_at(at, Some(deadline.at())),
        cancelled_at: None,
        // What opens it decides; the first one holds.
        by_the_page: false,
    }
}

/// The first message of each part of a run.
pub(crate) fn first_messages(run: RunKey) -> impl Iterator<Item = Outgoing> {
    Expansion::all(run).map(|part| part.outgoing(LANE, DelaySeconds::ZERO))
}
