//! Sends dead letters again: in batches, at a rate, interruptible at any moment.
//!
//! After each batch the order is: SQS has it, the checkpoint records it, the descriptions are marked. An interruption in between does no
//! harm: the ledger drops a batch that is sent twice, and a mark only saves a later replay work.

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
    checkpoint::Checkpoint,
    resend::{Permissions, Resend, Skip, resend, worth_reading},
};
use crate::{
    checkpoint::Resumable as _,
    dead_letters::{
        filter::Filter,
        matching::{LARGE_PAGE, Matching},
        tally::Tally,
    },
    failure::Failure,
    interrupt::ends,
    rate_limiter::RateLimiter,
    send::{
        documents::MAX_MESSAGE_BYTES,
        outgoing::Outgoing,
        queue::{MOST_ENTRIES, Queue},
    },
    terminal::say,
};

/// Dead letters that a preview looks at together.
const PREVIEW_BATCH: usize = 32;

/// The two retry queues.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    pub(super) transactional: Queue,
    pub(super) bulk: Queue,
}

/// What to send, and how fast.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) filter: Filter,
    pub(super) may: Permissions,
    pub(super) rate: Rate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// Every dead letter was processed.
    Done,
    Interrupted,
    /// SQS refused every message of a batch.
    Refused,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Preview {
    /// All dead letters.
    pub(super) found: Tally,
    /// Those that would be sent.
    pub(super) ready: Tally,
    /// The number that would not, by reason.
    pub(super) skipped: Vec<(Skip, u64)>,
}

/// What a replay would do now. Nothing is sent or written.
pub(super) async fn preview(store: &DynamoDeadLetters, plan: &Plan) -> Result<Preview, PortError> {
    let mut matching = Matching::open(store, &plan.filter, None, LARGE_PAGE).await?;
    let mut preview = Preview::default();
    let mut skipped = [0_u64; Skip::ALL.len()];
    loop {
        let batch = matching.next_batch(PREVIEW_BATCH).await?;
        if batch.is_empty() {
            break;
        }
        for (described, what) in prepared(store, &batch, plan.may).await? {
            preview.found.add(&described.reference);
            match what {
                Ok(_) => preview.ready.add(&described.reference),
                Err(skip) => {
                    for (at, count) in skipped.iter_mut().enumerate() {
                        *count += u64::from(Skip::ALL[at] == skip);
                    }
                }
            }
        }
    }
    preview.skipped = Skip::ALL.into_iter().zip(skipped).filter(|(_, count)| *count > 0).collect();
    Ok(preview)
}

/// Sends the dead letters after the checkpoint, and keeps the checkpoint in `path`.
pub(super) async fn replay(
    store: &DynamoDeadLetters,
    queues: &Queues,
    plan: &Plan,
    (checkpoint, path): (&mut Checkpoint, &Path),
    bar: &ProgressBar,
    interrupted: impl Future<Output = ()>,
) -> Result<Ended, Failure> {
    let mut interrupted = std::pin::pin!(interrupted);
    let mut matching = Matching::open(store, &plan.filter, checkpoint.after(), LARGE_PAGE).await?;
    let mut limiter = RateLimiter::new(plan.rate, MOST_ENTRIES);
    loop {
        let batch = matching.next_batch(limiter.batch).await?;
        let Some(last) = batch.last().map(Position::of) else { return Ok(Ended::Done) };
        let mut ready = Vec::new();
        let mut skipped = Vec::new();
        for (described, what) in prepared(store, &batch, plan.may).await? {
            match what {
                Ok(resend) => ready.push((described.reference.letter_key(), resend)),
                Err(skip) => skipped.push(skip),
            }
        }
        if ends(interrupted.as_mut(), limiter.pause(System.now())).await {
            return Ok(Ended::Interrupted);
        }
        let tried = ready.len();
        limiter.sent(tried, System.now());
        let sent = send(queues, ready, bar).await;
        if tried > 0 && sent.is_empty() {
            return Ok(Ended::Refused);
        }
        checkpoint.sent += sent.len() as u64;
        checkpoint.refused += (tried - sent.len()) as u64;
        for skip in skipped {
            *checkpoint.skipped.entry(skip.label().to_owned()).or_default() += 1;
        }
        checkpoint.advance_to(&last);
        checkpoint.write(path)?;
        // No reason to stop: a dead letter without its mark is sent again, and dropped.
        let _unmarked = store.mark_replayed(&sent, System.now()).await;
        bar.inc(batch.len() as u64);
    }
}

async fn prepared<'a>(
    store: &DynamoDeadLetters,
    batch: &'a [Described],
    may: Permissions,
) -> Result<Vec<(&'a Described, Result<Resend, Skip>)>, PortError> {
    let read = batch.iter().map(|described| async move {
        if let Err(skip) = worth_reading(described, may) {
            return Ok((described, Err(skip)));
        }
        let stored = store.stored_body(&described.reference.letter_key()).await?;
        Ok((described, resend(described, stored, may, System.now())))
    });
    try_join_all(read).await
}

/// Returns the dead letters that SQS accepted.
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
        match answer.result {
            Ok(_) => sent.push(key),
            Err(words) => bar.suspend(|| {
                say(&format!("{}#{} {}: not sent: {words}", key.tenant, key.id, key.letter));
            }),
        }
    }
    sent
}

type Batch = Vec<(DeadLetterKey, Resend)>;

/// By lane, within the limits of SQS.
fn batches(ready: Batch) -> Vec<(Lane, Batch)> {
    let mut batches: Vec<(Lane, Batch)> = Vec::new();
    for (key, resend) in ready {
        let bytes = |batch: &Batch| batch.iter().map(|(_, it)| it.body.len()).sum::<usize>();
        let has_room = |(lane, batch): &&mut (Lane, Batch)| {
            *lane == resend.lane
                && batch.len() < MOST_ENTRIES
                && bytes(batch) + resend.body.len() <= MAX_MESSAGE_BYTES
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
    fn batches_have_one_lane_and_fit_the_limits_of_sqs() {
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
