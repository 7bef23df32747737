//! Handing off: carrying out a plan whose record is written. Every effect is idempotent by its key, so that a crash in the
//! middle is mended by doing all of it again.

use super::fate::{Fate, Setback};
use super::inbox::Job;
use super::{Settings, announce, expand, health, parking, settle};
use crate::ports::{Clock, Environment, Outbox, ParkedItem, ParkedKey, PortError, Telemetry};
use redial_core::channel::Channel;
use redial_core::dead_letter::{self, DeadLetterBody, DeadLetterKey, Kind, Reference};
use redial_core::endpoint::HashKeys;
use redial_core::ledger::{Entry, State, Unrecorded};
use redial_core::message::Travel;
use redial_core::outcome::NotSent;
use redial_core::plan::Plan;
use redial_core::queue::{Outgoing, Queue};
use redial_core::reason::Reason;
use redial_core::route::{Route, route};
use redial_core::subscription::State as SubscriptionState;
use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;

/// How long descriptions of dead letters are kept that have no policy, in days (article 003).
pub(crate) const DEFAULT_RETENTION_DAYS: u16 = 14;

/// What an attempt saw, as far as ledger and references hold it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    /// Whether anything was sent.
    pub(crate) attempted: bool,
    /// HTTP status.
    pub(crate) status: Option<u16>,
    /// What the outcome meant: a label.
    pub(crate) verdict: Option<&'static str>,
    /// What failed, if nothing was sent.
    pub(crate) not_sent: Option<NotSent>,
    /// The provider's own word.
    pub(crate) provider_word: Option<String>,
    /// What the ledger keeps of the answer's headers.
    pub(crate) headers: Vec<(String, String)>,
    /// Whether this or an earlier attempt may have arrived without our knowing.
    pub(crate) in_doubt: bool,
}

impl Facts {
    pub(crate) const fn without_attempt() -> Self {
        Self {
            attempted: false,
            status: None,
            verdict: None,
            not_sent: None,
            provider_word: None,
            headers: Vec::new(),
            in_doubt: false,
        }
    }
}

impl Facts {
    /// What a dead letter says besides its reason: the provider's own word, or what failed before anything was sent.
    fn detail(&self) -> Option<String> {
        let failed = || self.not_sent.map(|failure| format!("{}: {}", Reason::NotSent, failure.label()));
        self.provider_word.clone().or_else(failed)
    }
}

/// A plan to be carried out.
#[derive(Debug)]
pub(crate) struct HandOff {
    pub(crate) job: Job,
    pub(crate) plan: Plan,
    pub(crate) facts: Facts,
    /// When the ledger was told of it.
    pub(crate) at: Timestamp,
}

impl HandOff {
    /// Whether a webhook's receiver has answered that it wants no more.
    pub(crate) fn wants_no_more(&self) -> bool {
        self.job.channel == Channel::Webhook
            && matches!(self.plan, Plan::DeadLetter(Reason::Gone) | Plan::FailedNoRetries(Reason::Gone))
    }

    /// The hand-off that an entry of the ledger tells of.
    pub(crate) fn again(mut job: Job, entry: &Entry, keys: &HashKeys) -> Self {
        job.went_to(entry.endpoint_hash.as_ref(), keys);
        let plan =
            plan_of(entry.state, entry.reason, entry.not_before.unwrap_or(entry.updated_at), entry.in_doubt);
        let facts = Facts {
            attempted: entry.status.is_some() || entry.not_sent.is_some() || entry.in_doubt,
            status: entry.status,
            verdict: None,
            not_sent: entry.not_sent,
            provider_word: entry.provider_word.clone(),
            headers: Vec::new(),
            in_doubt: entry.in_doubt,
        };
        Self { job, plan, facts, at: entry.updated_at }
    }

    /// The hand-off of an attempt whose outcome travelled with its message, and is recorded by now.
    pub(crate) fn of_unrecorded(mut job: Job, unrecorded: Unrecorded, keys: &HashKeys) -> Self {
        job.went_to(unrecorded.endpoint_hash.as_ref(), keys);
        let record = unrecorded.record;
        let plan =
            plan_of(record.state, record.reason, record.not_before.unwrap_or(record.now), record.in_doubt);
        let facts = Facts {
            attempted: record.verdict.is_some(),
            status: record.status,
            verdict: record.verdict,
            not_sent: record.not_sent,
            provider_word: record.provider_word,
            headers: record.headers,
            in_doubt: record.in_doubt,
        };
        Self { job, plan, facts, at: record.now }
    }
}

/// The plan that left a delivery in this state.
fn plan_of(state: State, reason: Option<Reason>, not_before: Timestamp, in_doubt: bool) -> Plan {
    let reason = reason.unwrap_or(Reason::Rejected);
    match state {
        State::Sent => Plan::Sent,
        State::Gone => Plan::Gone { confirmed: reason == Reason::Gone },
        State::Expired => Plan::Expired,
        State::FailedNoRetries => Plan::FailedNoRetries(reason),
        State::Expanded => Plan::Expand,
        State::Failed => Plan::DeadLetter(reason),
        State::Retrying | State::Queued | State::Sending | State::Deferred => {
            Plan::Retry { not_before, reason, in_doubt }
        }
    }
}

/// Carries out all of these plans, and then tells of those that are ends.
pub(crate) async fn hand_off<E: Environment>(
    env: &E,
    settings: &Settings,
    ready: Vec<HandOff>,
) -> Vec<(usize, Fate)> {
    let ends = if env.outbox().has_events() { announce::ends(&ready) } else { Vec::new() };
    let fates = carry_out(env, settings, ready).await;
    announce::announce(env, ends, fates).await
}

/// Carries out all of these plans, like with like in one batch.
async fn carry_out<E: Environment>(env: &E, settings: &Settings, ready: Vec<HandOff>) -> Vec<(usize, Fate)> {
    let now = env.clock().now();
    let mut fates = Vec::with_capacity(ready.len());
    let mut recovered = Vec::new();
    let mut gone = Vec::new();
    let mut opened = Vec::new();
    let mut letters = Vec::new();
    let mut queued = Vec::new();
    let mut parked = Vec::new();
    let ready = health::failed(env, settings, ready, now, &mut fates).await;
    let ready = health::switched_off(env, ready, now, &mut fates).await;
    for HandOff { job, plan, facts, at } in ready {
        match plan {
            Plan::Sent => match health::recovery(&job, now) {
                Some(update) => recovered.push((job.index, update)),
                None => fates.push((job.index, Fate::Acknowledged)),
            },
            Plan::Expired | Plan::FailedNoRetries(_) => fates.push((job.index, Fate::Acknowledged)),
            Plan::Gone { confirmed } => gone.push((job, confirmed, facts)),
            Plan::Expand => opened.push((job, at)),
            Plan::DeadLetter(reason) => {
                let key =
                    DeadLetterKey::of_delivery(&job.message.tenant, &job.message.id, job.travel.turn.lineage);
                let mut reference = reference(&job, &key, Kind::Failed, reason, &facts, now);
                if reason == Reason::PayloadTooLarge && reference.detail.is_none() {
                    reference.detail = job.too_long(settings).map(|too_long| too_long.to_string());
                }
                letters.push((job.index, letter_body(&job, key, now), reference, reason));
            }
            Plan::Retry { not_before, .. } => {
                let next = Travel::to(job.travel.turn.next_attempt(), job.travel.first_sent);
                let travel = Travel { not_before: Some(not_before), ..next };
                onward(job, travel, not_before, now, settings, &mut queued, &mut parked);
            }
            Plan::Defer { not_before } => {
                // The ledger may hold an outcome of this very message that a crash kept from being handed off.
                let deferred_from = Some(job.source_message.clone());
                let same = Travel::to(job.travel.turn, job.travel.first_sent);
                let travel = Travel { not_before: Some(not_before), deferred_from, ..same };
                onward(job, travel, not_before, now, settings, &mut queued, &mut parked);
            }
        }
    }
    let (recovered, gone, opened, letters, queued, parked) = futures_util::join!(
        health::recovered(env, recovered),
        hand_off_gone(env, gone, now),
        expand::open(env, opened),
        settle::post_letters(env, letters),
        send(env, queued),
        parking::park(env, settings, parked),
    );
    for some in [recovered, gone, opened, letters, queued, parked] {
        fates.extend(some);
    }
    fates
}

fn onward(
    job: Job,
    travel: Travel,
    not_before: Timestamp,
    now: Timestamp,
    settings: &Settings,
    queued: &mut Vec<(usize, Outgoing)>,
    parked: &mut Vec<(usize, WaitBucket, ParkedItem)>,
) {
    let body = job.message.expose_travel_body(&travel, job.deadline, now);
    let tenant = job.message.tenant.clone();
    match route(job.lane, not_before, now, &settings.waits) {
        Route::Queue(delay) => {
            let queue = Queue::Retry(job.lane);
            queued.push((job.index, Outgoing { queue, body, delay, tenant: Some(tenant) }));
        }
        Route::Park(bucket) => {
            let delivery = job.message.key();
            let shard = bucket.shard_of(&delivery, settings.waits.shards);
            let key = ParkedKey::new(shard, &delivery, travel.turn, travel.deferred_from.as_deref());
            parked.push((job.index, bucket, ParkedItem { key, tenant, not_before, body }));
        }
    }
}

/// A 410 switches the subscription off before its message is acknowledged; both kinds send a reference without a body.
async fn hand_off_gone<E: Environment>(
    env: &E,
    gone: Vec<(Job, bool, Facts)>,
    now: Timestamp,
) -> Vec<(usize, Fate)> {
    if gone.is_empty() {
        return Vec::new();
    }
    let confirmed = gone
        .iter()
        .filter(|(_, confirmed, _)| *confirmed)
        .filter_map(|(job, _, _)| Some((job.index, health::update(job, now)?)))
        .collect();
    let done = health::switch_off(env, confirmed, SubscriptionState::Gone).await;
    let failed = done.into_iter().filter(|(_, _, done)| done.is_err());
    let mut fates: Vec<_> = failed.map(|(index, _, done)| (index, fate_of(env, done))).collect();
    let references = gone
        .into_iter()
        .filter(|(job, _, _)| !fates.iter().any(|(index, _)| *index == job.index))
        .map(|(job, confirmed, facts)| {
            let (kind, reason) =
                if confirmed { (Kind::Gone, Reason::Gone) } else { (Kind::NotFound, Reason::NotFound) };
            let key =
                DeadLetterKey::of_delivery(&job.message.tenant, &job.message.id, job.travel.turn.lineage);
            (job.index, settle::outgoing(&reference(&job, &key, kind, reason, &facts, now)))
        })
        .collect();
    fates.extend(send(env, references).await);
    fates
}

pub(super) async fn send<E: Environment>(env: &E, messages: Vec<(usize, Outgoing)>) -> Vec<(usize, Fate)> {
    if messages.is_empty() {
        return Vec::new();
    }
    let (indices, messages): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
    let done = env.outbox().send(messages).await;
    indices.into_iter().zip(done).map(|(index, done)| (index, fate_of(env, done))).collect()
}

pub(super) fn fate_of<E: Environment>(env: &E, done: Result<(), PortError>) -> Fate {
    match done {
        Ok(()) => Fate::Acknowledged,
        Err(error) => {
            env.telemetry().infrastructure(&error);
            Fate::ComesBack(Setback::Infrastructure)
        }
    }
}

/// The body of a job's dead letter: the message as it travels, with its lane; absent once its TTL is over, and without a
/// TTL once its description is.
pub(super) fn letter_body(job: &Job, key: DeadLetterKey, now: Timestamp) -> DeadLetterBody {
    let travel = job.travel.for_the_store();
    let body = job.message.expose_stored_body(&travel, job.deadline, now);
    let absent_from = dead_letter::body_absent_from(job.deadline, job.policy().dlq_retention_days, now);
    DeadLetterBody { key, body, lane: Some(job.lane), absent_from }
}

/// The reference to what became of a job.
pub(super) fn reference(
    job: &Job,
    key: &DeadLetterKey,
    kind: Kind,
    reason: Reason,
    facts: &Facts,
    now: Timestamp,
) -> Reference {
    Reference {
        v: Reference::VERSION,
        kind,
        tenant: key.tenant.clone(),
        id: key.id.clone(),
        letter: key.letter.clone(),
        lineage: job.travel.turn.lineage.0,
        channel: job.channel.label().to_owned(),
        subscription: job.message.to.subscription().map(ToString::to_string),
        endpoint_hash: job.endpoint_hash.as_ref().map(|hash| hash.as_str().to_owned()),
        reason: reason.label().to_owned(),
        detail: facts.detail(),
        status: facts.status,
        attempts: job.travel.turn.attempt.0 + u32::from(facts.attempted),
        first_sent: job.travel.first_sent.as_ms(),
        at: now.as_ms(),
        retention_days: job.policy().dlq_retention_days,
    }
}
