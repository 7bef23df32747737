//! After the attempts: record each outcome under its fence, and only then hand it off.

use super::Settings;
use super::attempt::Finished;
use super::fate::{Fate, Setback};
use super::hand_off::{self, Facts, HandOff};
use super::inbox::{Job, Refused};
use crate::ports::{Clock, DeadLetterBodies, Environment, Ledger, Outbox, Telemetry};
use redial_core::dead_letter::{DeadLetterBody, DeadLetterKey, Kind, Reference, UNPARSED_BODY_KEPT};
use redial_core::lane::Lane;
use redial_core::ledger::{Fence, Record, State};
use redial_core::metric::Metric;
use redial_core::plan::Plan;
use redial_core::queue::{Outgoing, Queue};
use redial_core::reason::Reason;
use redial_core::route::DelaySeconds;
use redial_core::time::Timestamp;

/// The state in which a plan leaves a delivery.
pub(crate) const fn state_of(plan: &Plan) -> State {
    match plan {
        Plan::Sent => State::Sent,
        Plan::Gone { .. } => State::Gone,
        Plan::Expired => State::Expired,
        Plan::FailedNoRetries(_) => State::FailedNoRetries,
        Plan::DeadLetter(_) => State::Failed,
        Plan::Expand => State::Expanded,
        Plan::Retry { .. } => State::Retrying,
        Plan::Defer { .. } => State::Deferred,
    }
}

/// Records a wave of finished attempts, and hands off those whose record was ours to write.
pub(crate) async fn settle<E: Environment>(
    env: &E,
    settings: &Settings,
    wave: Vec<Finished>,
) -> Vec<(usize, Fate)> {
    let now = env.clock().now();
    let records = wave.iter().map(|finished| record_of(finished, now)).collect();
    let answers = env.ledger().record(records).await;

    let mut fates = Vec::new();
    let mut ready = Vec::new();
    for (finished, answer) in wave.into_iter().zip(answers) {
        if let Err(error) = &answer {
            env.telemetry().infrastructure(error);
        }
        let index = finished.job().index;
        let setback = match (answer, finished) {
            (Ok(Fence::Held), Finished::Planned { job, plan, facts, .. }) => {
                count(env, &plan, job.lane);
                ready.push(HandOff { job, plan, facts, at: now });
                continue;
            }
            (Ok(Fence::Held), Finished::NotAttempted { setback, .. }) => setback,
            (_, Finished::Panicked { .. }) => Setback::Panicked,
            // Someone else owns the attempt. The message is not acknowledged: it may be the very one that the
            // other worker holds, and that worker's hand-off is not yet made.
            (Ok(Fence::Lost), Finished::Planned { .. } | Finished::NotAttempted { .. }) => {
                Setback::Infrastructure
            }
            (Err(_), finished @ (Finished::Planned { .. } | Finished::NotAttempted { .. })) => {
                Setback::unrecorded(record_of(&finished, now), finished.job().endpoint_hash.as_ref())
            }
        };
        fates.push((index, Fate::ComesBack(setback)));
    }
    fates.extend(hand_off::hand_off(env, settings, ready).await);
    fates
}

/// What the ledger is to learn of an attempt that is over.
fn record_of(finished: &Finished, now: Timestamp) -> Record {
    match finished {
        Finished::Planned { job, plan, facts, lease_token, .. } => Record {
            state: state_of(plan),
            status: facts.status,
            verdict: facts.verdict,
            reason: plan.reason(),
            not_sent: facts.not_sent,
            provider_word: facts.provider_word.clone(),
            headers: facts.headers.clone(),
            not_before: plan.not_before(),
            in_doubt: facts.in_doubt,
            ..given_back(job, lease_token, now)
        },
        Finished::NotAttempted { job, lease_token, .. } => given_back(job, lease_token, now),
        // Whether it panicked before or after the POST is not known.
        Finished::Panicked { job, lease_token } => {
            Record { in_doubt: true, ..given_back(job, lease_token, now) }
        }
    }
}

/// A claim that is given back: nothing was attempted, or nothing that can have arrived. Whether an earlier attempt is in doubt stays
/// as it is.
pub(crate) fn given_back(job: &Job, lease_token: &str, now: Timestamp) -> Record {
    Record {
        key: job.message.key(),
        turn: job.travel.turn,
        lease_token: lease_token.to_owned(),
        state: State::Queued,
        status: None,
        verdict: None,
        reason: None,
        not_sent: None,
        provider_word: None,
        headers: Vec::new(),
        not_before: None,
        in_doubt: false,
        kept_until: job.kept_until(),
        now,
    }
}

/// Counts what a plan makes of a delivery: by lane, whether it came through.
pub(crate) fn count<E: Environment>(env: &E, plan: &Plan, lane: Lane) {
    let telemetry = env.telemetry();
    match plan {
        Plan::Sent => telemetry.count_on(Metric::Sent, lane, 1),
        Plan::FailedNoRetries(_) => telemetry.count_on(Metric::FailedNoRetries, lane, 1),
        Plan::Gone { .. } => telemetry.count(Metric::Gone, 1),
        Plan::Expired => telemetry.count(Metric::Expired, 1),
        Plan::Retry { .. } => telemetry.count(Metric::Retried, 1),
        Plan::Defer { .. } => telemetry.count(Metric::Deferred, 1),
        // Counted by reason, or by recipients, where it is handed off.
        Plan::DeadLetter(_) | Plan::Expand => {}
    }
}

/// Sends bodies that are no messages to the dead-letter store; the ledger never hears of them.
pub(crate) async fn refuse<E: Environment>(env: &E, refused: Vec<Refused>) -> Vec<(usize, Fate)> {
    let now = env.clock().now();
    let mut letters = Vec::with_capacity(refused.len());
    for Refused { index, refusal, message_id, lane, body, sent } in refused {
        let key = DeadLetterKey::of_unparsed(refusal.tenant.as_ref(), &message_id);
        let mut detail: Vec<String> = refusal.errors.iter().take(8).map(ToString::to_string).collect();
        if refusal.errors.len() > detail.len() {
            detail.push(format!("and {} more", refusal.errors.len() - detail.len()));
        }
        let reference = Reference {
            v: Reference::VERSION,
            kind: Kind::Failed,
            tenant: key.tenant.clone(),
            id: key.id.clone(),
            letter: key.letter.clone(),
            lineage: 0,
            channel: "unknown".to_owned(),
            subscription: None,
            endpoint_hash: None,
            reason: refusal.reason.label().to_owned(),
            detail: Some(detail.join("; ")),
            status: None,
            attempts: 0,
            first_sent: sent.as_ms(),
            at: now.as_ms(),
            retention_days: hand_off::DEFAULT_RETENTION_DAYS,
        };
        let absent_from = now.plus(UNPARSED_BODY_KEPT);
        let body = DeadLetterBody { key, body: body.expose().to_owned(), lane: Some(lane), absent_from };
        letters.push((index, body, reference, refusal.reason));
    }
    post_letters(env, letters).await
}

/// Makes dead letters of messages whose id was used for another content. The first content's delivery goes on.
pub(crate) async fn conflict<E: Environment>(env: &E, jobs: Vec<Job>) -> Vec<(usize, Fate)> {
    let now = env.clock().now();
    let letters = jobs
        .into_iter()
        .map(|job| {
            let key = DeadLetterKey::of_conflict(&job.message.tenant, &job.message.id, &job.source_message);
            let reason = Reason::IdConflict;
            let reference =
                hand_off::reference(&job, &key, Kind::Failed, reason, &Facts::without_attempt(), now);
            (job.index, hand_off::letter_body(&job, key, now), reference, reason)
        })
        .collect();
    post_letters(env, letters).await
}

/// Stores bodies, then sends the references of those that are stored.
pub(crate) async fn post_letters<E: Environment>(
    env: &E,
    letters: Vec<(usize, DeadLetterBody, Reference, Reason)>,
) -> Vec<(usize, Fate)> {
    if letters.is_empty() {
        return Vec::new();
    }
    let mut fates = Vec::with_capacity(letters.len());
    let bodies = letters.iter().map(|(_, body, _, _)| body.clone()).collect();
    let stored = env.dead_letter_bodies().put(bodies).await;
    let mut references = Vec::new();
    let mut waiting = Vec::new();
    for ((index, body, reference, reason), stored) in letters.into_iter().zip(stored) {
        match stored {
            Ok(()) => {
                references.push(outgoing(&reference));
                waiting.push((index, reason, body.lane));
            }
            Err(error) => {
                fates.push((index, hand_off::fate_of(env, Err(error))));
            }
        }
    }
    if references.is_empty() {
        return fates;
    }
    for ((index, reason, lane), sent) in waiting.into_iter().zip(env.outbox().send(references).await) {
        if sent.is_ok() {
            env.telemetry().dead_letter(reason, lane);
        }
        fates.push((index, hand_off::fate_of(env, sent)));
    }
    fates
}

/// A reference on its way to the dead-letter queue.
pub(crate) fn outgoing(reference: &Reference) -> Outgoing {
    Outgoing {
        queue: Queue::DeadLetters,
        body: reference.to_body(),
        delay: DelaySeconds::ZERO,
        tenant: redial_core::identity::Tenant::parse(&reference.tenant),
    }
}
