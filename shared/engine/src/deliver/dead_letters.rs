//! Dead letters: a body is stored for a replay before the reference to it is sent.

use super::acknowledgements::{Acknowledgement, Acknowledgements};
use super::batch::Refused;
use super::job::Job;
use super::planned::Facts;
use super::worker::{Ports, Worker};
use crate::ports::{Clock, DeadLetterBodies, Outbox, Telemetry};
use redial_core::dead_letter::{self, DeadLetterBody, DeadLetterKey, Kind, Reference, UNPARSED_BODY_KEPT};
use redial_core::identity::Tenant;
use redial_core::queue::{Outgoing, Queue};
use redial_core::quota::Quota;
use redial_core::reason::Reason;
use redial_core::route::DelaySeconds;
use redial_core::time::Timestamp;

pub(super) struct DeadLetter {
    place: usize,
    body: DeadLetterBody,
    reference: Reference,
    reason: Reason,
    /// Whether its tenant's quota has room for the body.
    keeps_body: bool,
}

/// What a description says whose body was not kept.
const NO_BODY: &str = "no body is kept: over the tenant's quota of dead letters";

const ERASED: &str = "no body is kept: its ref was erased";

impl DeadLetter {
    /// That of a body that is no message; the ledger has no entry for it.
    pub(super) fn of_refused(refused: Refused, now: Timestamp) -> Self {
        let Refused { place, refusal, message_id, lane, body, sent } = refused;
        let key = DeadLetterKey::of_unparsed(refusal.tenant.as_ref(), &message_id);
        let reference = Reference {
            detail: Some(refusal.detail()),
            ..Reference::new(&key, Kind::Failed, refusal.reason, sent, now)
        };
        let absent_from = now.plus(UNPARSED_BODY_KEPT);
        let body = DeadLetterBody { key, body: body.expose().to_owned(), lane: Some(lane), absent_from };
        Self { place, body, reference, reason: refusal.reason, keeps_body: true }
    }

    /// That of a message whose id was used for another content. The first content's delivery goes on.
    pub(super) fn of_conflict(job: &Job, now: Timestamp) -> Self {
        let key = DeadLetterKey::of_conflict(&job.message.tenant, &job.message.id, &job.source_message);
        Self::new(job, key, Reason::IdConflict, &Facts::default(), None, now)
    }

    /// That of a delivery that failed at `at`; `detail` is what to say where its attempt says nothing.
    pub(super) fn of_failed(
        job: &Job,
        reason: Reason,
        facts: &Facts,
        detail: Option<String>,
        at: Timestamp,
        now: Timestamp,
    ) -> Self {
        let mut failed = Self::new(job, own_key(job), reason, facts, detail, now);
        // Handed off again hours later it names the same time: it counts once against its subscription.
        failed.reference.at = at.as_ms();
        failed
    }

    /// The body is the message as it travels, with its lane; absent once its TTL is over, and without a TTL once its description is.
    fn new(
        job: &Job,
        key: DeadLetterKey,
        reason: Reason,
        facts: &Facts,
        detail: Option<String>,
        now: Timestamp,
    ) -> Self {
        let mut reference = reference(job, &key, Kind::Failed, reason, facts, now);
        reference.detail = reference.detail.or(detail);
        let travel = job.travel.for_the_store();
        let body = job.message.expose_stored_body(&travel, job.deadline, now);
        let absent_from = dead_letter::body_absent_from(job.deadline, job.policy().dlq_retention_days, now);
        let body = DeadLetterBody { key, body, lane: Some(job.lane), absent_from };
        Self { place: job.place, body, reference, reason, keeps_body: true }
    }
}

impl DeadLetter {
    /// Whether others failed alike; what a subscription's keys are not good for is its own failure.
    pub(super) fn noting(mut self, is_shared: bool) -> Self {
        self.reference.shared_failure = is_shared && self.reason != Reason::BadSubscriptionKey;
        self
    }

    /// `None` for a body that names none.
    pub(super) fn tenant(&self) -> Option<Tenant> {
        Tenant::parse(&self.reference.tenant)
    }

    pub(super) const fn place(&self) -> usize {
        self.place
    }

    pub(super) fn drop_body(&mut self) {
        self.goes_without(NO_BODY);
    }

    /// The body's `ref` was erased.
    pub(super) fn erase_body(&mut self) {
        self.goes_without(ERASED);
    }

    fn goes_without(&mut self, why: &str) {
        self.keeps_body = false;
        self.body.body.clear();
        let detail = self.reference.detail.take();
        self.reference.detail =
            Some(detail.map_or_else(|| why.to_owned(), |detail| format!("{detail}; {why}")));
    }
}

fn own_key(job: &Job) -> DeadLetterKey {
    DeadLetterKey::of_delivery(&job.message.tenant, &job.message.id, job.travel.turn.lineage)
}

/// The reference to a delivery whose endpoint was found to be gone at that time, or unknown and to be confirmed. It has no body. Sent again
/// hours later it names the same time: a 404 must not confirm itself.
pub(super) fn reference_to_gone(job: &Job, confirmed: bool, facts: &Facts, at: Timestamp) -> Outgoing {
    let (kind, reason) =
        if confirmed { (Kind::Gone, Reason::Gone) } else { (Kind::NotFound, Reason::NotFound) };
    outgoing(&reference(job, &own_key(job), kind, reason, facts, at))
}

fn reference(
    job: &Job,
    key: &DeadLetterKey,
    kind: Kind,
    reason: Reason,
    facts: &Facts,
    now: Timestamp,
) -> Reference {
    Reference {
        lineage: job.travel.turn.lineage.0,
        channel: job.channel.label().to_owned(),
        subscription: job.message.to.subscription().map(ToString::to_string),
        endpoint_hash: job.endpoint_hash.as_ref().map(|hash| hash.as_str().to_owned()),
        tags: job.message.tags.to_text(),
        trace_id: job.message.traceparent.map(|it| it.trace_id()),
        detail: facts.detail(),
        status: facts.status,
        attempts: job.travel.turn.attempt.0 + u32::from(facts.attempted || facts.in_doubt),
        retention_days: job.policy().dlq_retention_days,
        ..Reference::new(key, kind, reason, job.travel.first_sent, now)
    }
}

fn outgoing(reference: &Reference) -> Outgoing {
    Outgoing {
        queue: Queue::DeadLetters,
        body: reference.to_body(),
        delay: DelaySeconds::ZERO,
        tenant: Tenant::parse(&reference.tenant),
        attribute: None,
    }
}

impl<P: Ports> Worker<P> {
    /// Stores bodies, then sends the references of those that are stored, or that are kept without.
    pub(super) async fn post(&self, mut dead_letters: Vec<DeadLetter>) -> Acknowledgements {
        let mut acknowledgements = Acknowledgements::default();
        if dead_letters.is_empty() {
            return acknowledgements;
        }
        self.keep_bodies_to_quotas(&mut dead_letters, self.system.now()).await;
        let (with_body, mut waiting): (Vec<_>, Vec<_>) =
            dead_letters.into_iter().partition(|it| it.keeps_body);
        let mut counted = Vec::new();
        if !with_body.is_empty() {
            let bodies = with_body.iter().map(|it| it.body.clone()).collect();
            for (dead_letter, stored) in with_body.into_iter().zip(self.dead_letter_bodies.put(bodies).await)
            {
                match stored {
                    Ok(()) => {
                        let absent_from = dead_letter.body.absent_from;
                        counted.extend(dead_letter.tenant().map(|tenant| (tenant, absent_from)));
                        waiting.push(dead_letter);
                    }
                    Err(error) => acknowledgements.failed(dead_letter.place, error, &self.telemetry),
                }
            }
        }
        if waiting.is_empty() {
            return acknowledgements;
        }
        let references = waiting.iter().map(|it| outgoing(&it.reference)).collect();
        let counting = self.quota_guard.add(&self.quotas, &self.telemetry, Quota::DeadLetters, counted);
        let (sent, ()) = futures_util::join!(self.outbox.send(references), counting);
        for (DeadLetter { place, body, reason, .. }, sent) in waiting.into_iter().zip(sent) {
            if sent.is_ok() {
                self.telemetry.dead_letter(reason, body.lane);
            }
            acknowledgements.set(place, Acknowledgement::of(sent, &self.telemetry));
        }
        acknowledgements
    }
}
