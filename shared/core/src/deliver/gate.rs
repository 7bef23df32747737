//! What is asked before an attempt is claimed. A message that a gate holds back has used no attempt.

use std::time::Duration;

use super::Settings;
use super::inbox::{Job, Target};
use crate::channel::Channel;
use crate::endpoint::Endpoint;
use crate::payload::MAX_WEB_PUSH_PLAINTEXT;
use crate::plan::{self, Plan};
use crate::reason::Reason;
use crate::recipient::Recipient;
use crate::time::Timestamp;

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

/// Asks, in this order: is the TTL over, is it too long for any push, is it time yet, can it be sent there at all?
pub(crate) fn gate(job: &Job, settings: &Settings, now: Timestamp) -> Gate {
    if job.deadline.is_over(now, job.travel.turn.attempt.0) {
        return Gate::End(Plan::Expired);
    }
    let end = |reason| Gate::End(plan::failed(reason, job.policy()));
    if job.channel == Channel::WebPush && job.message.payload.len() > MAX_WEB_PUSH_PLAINTEXT {
        return end(Reason::PayloadTooLarge);
    }
    let due = job.due();
    if due.since(now) >= WAITED_OUT_INSIDE {
        return Gate::Later(due);
    }
    match obstacle(job, settings) {
        Some(reason) => end(reason),
        None => Gate::Go,
    }
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
