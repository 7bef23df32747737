//! What is asked before an attempt is claimed. A message that a gate holds back has used no attempt.

use std::time::Duration;

use super::Settings;
use super::fate::SENT_AGAIN_FROM;
use super::inbox::{Job, Target};
use redial_core::access::TokenKeys;
use redial_core::ack::Envelope;
use redial_core::channel::Channel;
use redial_core::endpoint::Endpoint;
use redial_core::ledger::DEDUPE_WINDOW;
use redial_core::message::To;
use redial_core::plaintext::{Plaintext, TooLong};
use redial_core::plan::{self, Plan};
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::time::{Timestamp, Ttl};

/// A wait that is shorter than this is waited out inside the invocation: SQS delays in whole seconds.
pub(crate) const WAITED_OUT_INSIDE: Duration = Duration::from_secs(1);

/// What a gate says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    /// To the attempt.
    Go,
    /// Not before then.
    Later(Timestamp),
    /// There will be no attempt.
    End(Plan),
}

/// Asks, in this order: is the TTL over, is it too long for any push, is it time yet, was it called off, is it for an audience, can it be sent there at all?
pub(crate) fn gate(job: &Job, settings: &Settings, now: Timestamp) -> Gate {
    if job.deadline.is_over(now, job.travel.turn.attempt.0) || is_now_or_never_and_late(job) {
        return Gate::End(Plan::Expired);
    }
    let end = |reason| Gate::End(plan::failed(reason, job.policy()));
    if job.too_long(settings).is_some() {
        return end(Reason::PayloadTooLarge);
    }
    let due = job.due();
    if due.since(now) >= WAITED_OUT_INSIDE {
        return Gate::Later(due);
    }
    if job.is_cancelled {
        return Gate::End(Plan::FailedNoRetries(Reason::Cancelled));
    }
    if matches!(job.message.to, To::Audience(_)) {
        return Gate::End(Plan::Expand);
    }
    match obstacle(job, settings) {
        Some(reason) => end(reason),
        None => Gate::Go,
    }
}

/// A message with a TTL of 0 has one attempt, now: where another one is sent again, it ends.
fn is_now_or_never_and_late(job: &Job) -> bool {
    job.message.ttl == Some(Ttl::ZERO) && job.receives >= SENT_AGAIN_FROM
}

fn obstacle(job: &Job, settings: &Settings) -> Option<Reason> {
    match &job.target {
        Target::Nowhere(reason) => Some(*reason),
        Target::Unresolved => Some(Reason::SubscriptionUnknown),
        Target::Ready(recipient) => match &**recipient {
            Recipient::WebPush(target) if !may_push_to(&target.endpoint, settings) => {
                Some(Reason::EndpointNotAllowed)
            }
            // Where webhooks may lead is egress's to say, which checks the address that it connects to.
            Recipient::WebPush(_) | Recipient::Webhook(_) => None,
        },
    }
}

fn may_push_to(endpoint: &Endpoint, settings: &Settings) -> bool {
    settings.push_hosts.allows(endpoint) || settings.egress_allow.contains(&endpoint.origin())
}

impl Job {
    /// What is sealed for its browser.
    pub(crate) fn plaintext(&self, keys: &TokenKeys) -> Plaintext<'_> {
        Plaintext::of(&self.message, self.deadline, keys)
    }

    /// Whether it is longer than any push can be.
    pub(crate) fn too_long(&self, settings: &Settings) -> Option<TooLong> {
        let message = self.message.as_long_as_a_recipient_s();
        let too_long = || Plaintext::of(&message, self.deadline, &settings.token_keys).too_long();
        (self.channel == Channel::WebPush).then(too_long).flatten()
    }

    /// What its ledger entry has to outlast. A recipient's message may be on its way twice, for a page that is repeated after a crash
    /// is sent again, and the second may be held back for as long as its TTL lasts.
    pub(crate) fn kept_until(&self) -> Option<Timestamp> {
        let may_come_twice = self.message.is_for_a_recipient() && self.deadline.is_limited();
        let outlives_its_copies = may_come_twice.then(|| self.deadline.at().plus(DEDUPE_WINDOW));
        self.acknowledged_until().max(outlives_its_copies)
    }

    /// Until when its browser may acknowledge it, if it was asked to.
    pub(crate) fn acknowledged_until(&self) -> Option<Timestamp> {
        let is_asked = self.message.acks && self.channel == Channel::WebPush;
        is_asked.then(|| Envelope::acknowledged_until(self.deadline))
    }

    /// The earliest moment of its attempt.
    pub(crate) fn due(&self) -> Timestamp {
        let slot = self.slot.map(|slot| slot.at);
        [self.travel.not_before, self.message.deliver_at, slot]
            .into_iter()
            .flatten()
            .max()
            .unwrap_or_default()
    }
}
