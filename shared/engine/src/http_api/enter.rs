//! The pass over accepted messages: entries first, then the queues, then the answers.

use super::accept::Accepted;
use super::duplicates::{Answer, plan};
use crate::ports::{Deliveries, Outbox};
use redial_core::time::Timestamp;

/// Enters messages of one tenant into the ledger at `now`, and puts them on their queues; one answer each, in order. What is
/// [`Answer::Taken`] is durable.
pub async fn enter(
    ledger: &impl Deliveries,
    outbox: &impl Outbox,
    accepted: &[Accepted],
    now: Timestamp,
) -> Vec<Answer> {
    if accepted.is_empty() {
        return Vec::new();
    }
    let plan = plan(accepted);
    let inserted = ledger.insert(plan.deliveries.clone(), now).await;
    let mut answers = plan.judge(accepted, &inserted);
    let sends = |at: &usize| matches!(answers[*at], Answer::Taken { send: true, .. });
    let to_send: Vec<usize> = (0..answers.len()).filter(sends).collect();
    if to_send.is_empty() {
        return answers;
    }
    let outgoing = to_send.iter().map(|at| accepted[*at].outgoing()).collect();
    for (at, sent) in to_send.into_iter().zip(outbox.send(outgoing).await) {
        let Err(error) = sent else { continue };
        for other in plan.share_with(at) {
            // A conflict stays a conflict: it would not have been sent.
            if matches!(answers[other], Answer::Taken { .. }) {
                answers[other] = Answer::Failed(error.clone());
            }
        }
    }
    answers
}
