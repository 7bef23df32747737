//! Opening a message to an audience: its run is stored, and each part of the audience gets its first message.
//!
//! The worker that claimed it does so, and cleanup for a worker that died before it was done. Whoever repeats it opens the same run: all of
//! it follows from the message and its claim.

use crate::ports::{Audiences, PortError};
use redial_core::audience::{Expansion, Opening, Run, RunKey};
use redial_core::body::Body;
use redial_core::identity::DeliveryKey;
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

/// Stores these runs, each unless it is there; answers their keys.
pub(crate) async fn open(
    audiences: &impl Audiences,
    runs: Vec<Run>,
    now: Timestamp,
) -> Vec<Result<RunKey, PortError>> {
    let mut answers: Vec<_> = without_openings(audiences, &runs, now).await;
    let is_new = |answer: &Result<Option<RunKey>, PortError>| matches!(answer, Ok(None));
    let new = runs.iter().zip(&answers).filter(|(_, answer)| is_new(answer)).map(|(run, _)| run.clone());
    let opened = match new.collect::<Vec<_>>() {
        new if new.is_empty() => Vec::new(),
        new => audiences.open(new).await,
    };
    let of_new = answers.iter_mut().zip(&runs).filter(|(answer, _)| is_new(answer));
    for ((answer, run), opened) in of_new.zip(opened) {
        *answer = opened.map(|()| Some(run.key.clone()));
    }
    answers.into_iter().map(|answer| answer.map(|key| key.expect("the new ones are open"))).collect()
}

/// The first message of each part of a run.
pub(crate) fn first_messages(run: RunKey) -> impl Iterator<Item = Outgoing> {
    Expansion::all(run).map(|part| part.outgoing(LANE, DelaySeconds::ZERO))
}

/// The runs of these claims, where the previous release opened them already and a crash kept it from sending all first messages:
/// it named a run by its message alone. One that is older than the claim belongs to an earlier use of the same id.
async fn without_openings(
    audiences: &impl Audiences,
    runs: &[Run],
    now: Timestamp,
) -> Vec<Result<Option<RunKey>, PortError>> {
    let message = |run: &Run| DeliveryKey { tenant: run.key.tenant.clone(), id: run.message.clone() };
    let keys = runs.iter().map(|run| RunKey::without_opening(&message(run))).collect();
    let loaded = audiences.load(keys, now).await;
    let of_claim = |earlier: Option<Run>, run: &Run| {
        earlier.filter(|earlier| earlier.opened_at >= run.opened_at).map(|earlier| earlier.key)
    };
    loaded.into_iter().zip(runs).map(|(earlier, run)| earlier.map(|it| of_claim(it, run))).collect()
}
