//! What to do next with a delivery: from a verdict, a policy and what is left of the TTL.
//!
//! The order of the questions is the contract: is the TTL over, are retries disabled, are they used up, would the next
//! attempt come too late; only what passes all of them is retried.

use std::time::Duration;

use rand::Rng;

use crate::identity::Attempt;
use crate::ledger::State;
use crate::policy::{self, Policy};
use crate::reason::Reason;
use crate::time::{Deadline, Timestamp, Ttl};
use crate::verdict::{Retry, Verdict};

/// What becomes of a delivery after an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plan {
    /// Done: accepted.
    Sent,
    /// Done: the endpoint is gone (410), or unknown (404) and to be confirmed.
    Gone { confirmed: bool },
    /// Done: the TTL was over before the attempt, and nothing was sent.
    Expired,
    /// Done, failed, and its policy wants neither retries nor dead letters.
    FailedNoRetries(Reason),
    /// Done, failed.
    DeadLetter(Reason),
    /// In doubt if this attempt may have arrived nevertheless.
    Retry { not_before: Timestamp, reason: Reason, in_doubt: bool },
    /// Done: a caller cancelled it while it waited.
    Cancelled,
    /// Done: a message to an audience, handed on to its recipients.
    Expand,
    /// The same attempt, later: a gate held the message back before it was claimed.
    Defer { not_before: Timestamp },
}

impl Plan {
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Gone { .. } => "gone",
            Self::Expired => "expired",
            Self::FailedNoRetries(_) => "failed_no_retries",
            Self::DeadLetter(_) => "dead_letter",
            Self::Retry { .. } => "retry",
            Self::Defer { .. } => "defer",
            Self::Cancelled => "cancelled",
            Self::Expand => "expand",
        }
    }

    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::Sent | Self::Expand | Self::Defer { .. } => None,
            Self::Gone { confirmed: true } => Some(Reason::Gone),
            Self::Gone { confirmed: false } => Some(Reason::NotFound),
            Self::Expired => Some(Reason::TtlOver),
            Self::Cancelled => Some(Reason::Cancelled),
            Self::FailedNoRetries(reason) | Self::DeadLetter(reason) | Self::Retry { reason, .. } => {
                Some(*reason)
            }
        }
    }

    pub const fn state(&self) -> State {
        match self {
            Self::Sent => State::Sent,
            Self::Gone { .. } => State::Gone,
            Self::Expired => State::Expired,
            Self::FailedNoRetries(_) => State::FailedNoRetries,
            Self::DeadLetter(_) => State::Failed,
            Self::Cancelled => State::Cancelled,
            Self::Expand => State::Expanded,
            Self::Retry { .. } => State::Retrying,
            Self::Defer { .. } => State::Deferred,
        }
    }

    /// The plan that left a delivery in this state, to be carried out again.
    pub fn recorded(state: State, reason: Option<Reason>, not_before: Timestamp, in_doubt: bool) -> Self {
        let reason = reason.unwrap_or(Reason::Rejected);
        match state {
            State::Sent => Self::Sent,
            State::Gone => Self::Gone { confirmed: reason == Reason::Gone },
            State::Expired => Self::Expired,
            State::FailedNoRetries => Self::FailedNoRetries(reason),
            State::Cancelled => Self::Cancelled,
            State::Expanded => Self::Expand,
            State::Failed => Self::DeadLetter(reason),
            State::Retrying | State::Queued | State::Sending | State::Deferred => {
                Self::Retry { not_before, reason, in_doubt }
            }
        }
    }

    pub const fn not_before(&self) -> Option<Timestamp> {
        if let Self::Retry { not_before, .. } | Self::Defer { not_before } = self {
            return Some(*not_before);
        }
        None
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    pub policy: &'a Policy,
    pub attempt: Attempt,
    pub ttl: Ttl,
    pub deadline: Deadline,
    pub now: Timestamp,
}

pub fn after(verdict: &Verdict, situation: &Situation<'_>, rng: &mut dyn Rng) -> Plan {
    match verdict {
        Verdict::Sent => Plan::Sent,
        Verdict::Gone { confirmed } => Plan::Gone { confirmed: *confirmed },
        Verdict::Failed(reason) => failed(*reason, situation.policy),
        // The attempt has already had its second signature, or could not get one.
        Verdict::SignAgain => failed(Reason::Unauthorized, situation.policy),
        Verdict::Retry(retry) => after_retryable(retry, situation, rng),
    }
}

pub fn failed(reason: Reason, policy: &Policy) -> Plan {
    match policy.retries {
        Some(_) => Plan::DeadLetter(reason),
        None => Plan::FailedNoRetries(reason),
    }
}

/// The end of a delivery whose attempt may have arrived, if its policy forbids a repetition.
pub fn in_doubt(may_have_arrived: bool, policy: &Policy) -> Option<Plan> {
    (may_have_arrived && !policy.retry_in_doubt).then(|| failed(Reason::InDoubtNotRetried, policy))
}

fn after_retryable(retry: &Retry, situation: &Situation<'_>, rng: &mut dyn Rng) -> Plan {
    let Situation { policy, attempt, ttl, deadline, now } = *situation;
    if policy.retries.is_none() {
        return Plan::FailedNoRetries(retry.reason);
    }
    if let Some(end) = in_doubt(retry.in_doubt, policy) {
        return end;
    }
    let number = attempt.next().0;
    let Some(range) = policy.delay_range(number, ttl) else {
        return Plan::DeadLetter(Reason::RetriesExhausted);
    };
    let remaining = deadline.remaining(now);
    let range = retry.retry_after.map_or(range, |wait| {
        // A receiver that asks for retries at once does not get more of them than a policy.
        policy.retry_after_range(wait.max(policy::least_delay(number)), remaining)
    });
    let delay = range.draw(rng);
    // By a clock that is behind that of the sender, something may remain of a TTL of zero. It has one attempt.
    if delay >= remaining || ttl == Ttl::ZERO {
        return Plan::DeadLetter(Reason::TtlExceeded);
    }
    Plan::Retry { not_before: now.plus(delay), reason: retry.reason, in_doubt: retry.in_doubt }
}

pub fn delay_ms(at: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(at.since(now).min(Duration::from_secs(u64::from(u32::MAX))).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
