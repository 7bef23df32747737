//! Sends letters again: a batch at a time, at a rate, and so that it can be interrupted at any moment.
//!
//! After each batch the order is: SQS has it, the checkpoint says so, the descriptions are marked. What an interruption
//! leaves undone of that is done again or lost without harm: a batch that is sent twice is dropped once by the ledger, and
//! a mark only spares a later replay the way.

use std::{future::Future, path::Path};

use futures_util::future::{join_all, try_join_all};
use indicatif::ProgressBar;
use redial_adapters::{
    dead_letters_dynamo::{Described, DynamoDeadLetters, Position},
    system::System,
};
use redial_core::{dead_letter::DeadLetterKey, lane::Lane, rate::Rate};
use redial_engine::{ports::Clock as _, ports::PortError};

use super::{
    Checkpoint, Filter, Letters, Tally,
    letters::LARGE_PAGE,
    resend::{Permissions, Resend, Skip, resend, worth_reading},
};
use crate::{
    checkpoint::Resumable as _,
    failure::Failure,
    interrupt::ends,
    pace::Pace,
    send::{Outgoing, Queue},
    terminal::say,
};

/// What a batch of SQS holds, and how many bodies are read at a time.
const MOST: usize = 10;

/// The most bytes of a batch (SendMessageBatch, API reference).
const MOST_BYTES: usize = 1_048_576;

/// How many letters a preview looks at together.
const LOOKED_AT: usize = 32;

/// The two retry queues.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    pub(crate) transactional: Queue,
    pub(crate) bulk: Queue,
}

/// What to send, and how fast.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) filter: Filter,
    pub(crate) may: Permissions,
    pub(crate) rate: Rate,
}

/// How a replay ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// Every letter was dealt with.
    Done,
    /// Somebody interrupted it.
    Interrupted,
    /// SQS took nothing of a batch.
    NothingGetsThrough,
}

/// What a replay, or its preview, has come to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    /// All letters that it looked at.
    pub(crate) letters: Tally,
    /// Of those, the ones that would go out.
    pub(crate) ready: Tally,
    /// How many would not, and why.
    pub(crate) skipped: Vec<(Skip, u64)>,
}

/// What a replay of these letters would do now. Nothing is sent or written.
pub(crate) async fn preview(store: &DynamoDeadLetters, plan: &Plan) -> Result<Outcome, PortError> {
    let mut letters = Letters::open(store, &plan.filter, None, LARGE_PAGE).await?;
    let mut outcome = Outcome::default();
    let mut skipped = [0_u64; Skip::ALL.len()];
    loop {
        let some = letters.some(LOOKED_AT).await?;
        if some.is_empty() {
            break;
        }
        for (described, what) in prepared(store, &some, plan.may).await? {
            outcome.letters.add(&described.reference);
            match what {
                Ok(_) => outcome.ready.add(&described.reference),
                Err(skip) => {
                    for (at, count) in skipped.iter_mut().enumerate() {
                        *count += u64::from(Skip::ALL[at] == skip);
                    }
                }
            }
        }
    }
    outcome.skipped = Skip::ALL.into_iter().zip(skipped).filter(|(_, count)| *count > 0).collect();
    Ok(outcome)
}

/// Sends them. The checkpoint says where to begin, and is kept in `path` until all is done.
pub(crate) async fn replay(
    store: &DynamoDeadLetters,
    queues: &Queues,
    plan: &Plan,
    (checkpoint, path): (&mut Checkpoint, &Path),
    bar: &ProgressBar,
    interrupted: impl Future<Output = ()>,
) -> Result<Ended, Failure> {
    let mut interrupted = std::pin::pin!(interrupted);
    let mut letters = Letters::open(store, &plan.filter, checkpoint.after(), LARGE_PAGE).await?;
    let mut pace = Pace::new(plan.rate, MOST);
    loop {
        let some = letters.some(pace.batch).await?;
        let Some(last) = some.last().map(Position::of) else { return Ok(Ended::Done) };
        let mut ready = Vec::new();
        let mut skipped = Vec::new();
        for (described, what) in prepared(store, &some, plan.may).await? {
            match what {
                Ok(resend) => ready.push((described.reference.letter_key(), resend)),
                Err(skip) => skipped.push(skip),
            }
        }
        if ends(interrupted.as_mut(), pace.pause(System.now())).await {
            return Ok(Ended::Interrupted);
        }
        let tried = ready.len();
        pace.goes(tried, System.now());
        let sent = send(queues, ready, bar).await;
        if tried > 0 && sent.is_empty() {
            return Ok(Ended::NothingGetsThrough);
        }
        checkpoint.sent += sent.len() as u64;
        checkpoint.refused += (tried - sent.len()) as u64;
        for skip in skipped {
            *checkpoint.skipped.entry(skip.label().to_owned()).or_default() += 1;
        }
        checkpoint.is_now_after(&last);
        checkpoint.write(path)?;
        // Not worth ending for: without its mark a letter is sent again, and dropped.
        let _unmarked = store.mark_replayed(&sent, System.now()).await;
        bar.inc(some.len() as u64);
    }
}

/// Reads bodies, and makes of them what goes out.
async fn prepared<'a>(
    store: &DynamoDeadLetters,
    some: &'a [Described],
    may: Permissions,
) -> Result<Vec<(&'a Described, Result<Resend, Skip>)>, PortError> {
    let read = some.iter().map(|described| async move {
        if let Err(skip) = worth_reading(described, may) {
            return Ok((described, Err(skip)));
        }
        let stored = store.stored_body(&described.reference.letter_key()).await?;
        Ok((described, resend(described, stored, may, System.now())))
    });
    try_join_all(read).await
}

/// Sends these, and answers with the letters that SQS has.
async fn send(queues: &Queues, ready: Vec<(DeadLetterKey, Resend)>, bar: &ProgressBar) -> Vec<DeadLetterKey> {
    let calls = batches(ready).into_iter().map(|(lane, batch)| async move {
        let queue = match lane {
            Lane::Transactional => &queues.transactional,
            Lane::Bulk => &queues.bulk,
        };
        let (keys, messages): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let messages = (1..).zip(messages).map(|(line, Resend { tenant, id, body, .. })| Outgoing {
            line,
            tenant,
            id: Some(id),
            body,
            warning: None,
        });
        let answers = queue.send(messages.collect()).await;
        keys.into_iter().zip(answers).collect::<Vec<_>>()
    });
    let mut sent = Vec::new();
    for (key, answer) in join_all(calls).await.into_iter().flatten() {
        match answer.sent {
            Ok(_) => sent.push(key),
            Err(words) => bar.suspend(|| {
                say(&format!("{}#{} {}: not sent: {words}", key.tenant, key.id, key.letter));
            }),
        }
    }
    sent
}

type Batch = Vec<(DeadLetterKey, Resend)>;

/// Lane by lane, and never more than SQS takes at once.
fn batches(ready: Batch) -> Vec<(Lane, Batch)> {
    let mut batches: Vec<(Lane, Batch)> = Vec::new();
    for (key, resend) in ready {
        let bytes = |batch: &Batch| batch.iter().map(|(_, it)| it.body.len()).sum::<usize>();
        let has_room = |(lane, batch): &&mut (Lane, Batch)| {
            *lane == resend.lane && batch.len() < MOST && bytes(batch) + resend.body.len() <= MOST_BYTES
        };
        match batches.iter_mut().find(has_room) {
            Some((_, batch)) => batch.push((key, resend)),
            None => batches.push((resend.lane, vec![(key, resend)])),
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use redial_core::identity::{DeliveryId, Tenant};

    use super::*;

    #[test]
    fn batches_are_of_one_lane_and_of_what_sqs_takes() {
        let ready = |lane, bytes: usize| {
            let key = DeadLetterKey {
                tenant: "acme".to_owned(),
                id: "d".to_owned(),
                letter: "lineage-0".to_owned(),
            };
            let tenant = Tenant::parse("acme").expect("valid");
            let id = DeliveryId::parse("d").expect("valid");
            (key, Resend { lane, tenant, id, body: "x".repeat(bytes) })
        };
        let (high, bulk) = (Lane::Transactional, Lane::Bulk);
        let found = batches(vec![
            ready(high, 600_000),
            ready(bulk, 1),
            ready(high, 600_000),
            ready(high, 400_000),
            ready(bulk, 1),
        ]);
        let sizes: Vec<_> = found.iter().map(|(lane, batch)| (*lane, batch.len())).collect();
        assert_eq!(sizes, [(high, 2), (bulk, 2), (high, 1)]);
    }
}
