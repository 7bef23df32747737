//! What is checked before an attempt is claimed, and in which order. A message that a gate holds back has used no attempt.

use std::time::Duration;

use crate::identity::Attempt;
use crate::message::{Message, To};
use crate::plan::{self, Plan};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::setback::SENT_AGAIN_FROM;
use crate::time::{Deadline, Timestamp, Ttl};

/// A shorter wait than this is waited out inside the invocation, because SQS delays in whole seconds.
pub const WAITED_OUT_INSIDE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    Go,
    Later(Timestamp),
    End(Plan),
}

#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub message: &'a Message,
    pub policy: &'a Policy,
    pub attempt: Attempt,
    pub deadline: Deadline,
    pub due: Timestamp,
    /// When its hours let it be sent: not before it is due, and not before now.
    pub opens: Timestamp,
    /// How often it was received, by its former SQS messages too.
    pub receives: u32,
    pub is_too_long: bool,
    pub is_cancelled: bool,
    /// Why it cannot be sent where it is addressed to, if it cannot.
    pub obstacle: Option<Reason>,
}

impl Candidate<'_> {
    /// Asks in this order: is the TTL over, is it too long, is it due within its hours, is it cancelled, is it for an audience, can it be
    /// sent there? What has no hours before its end is over at once: nothing would change by waiting.
    pub fn gate(&self, now: Timestamp) -> Gate {
        let end = |reason| Gate::End(plan::failed(reason, self.policy));
        if self.deadline.is_over(now, self.attempt.0) || self.is_past_its_only_attempt() {
            Gate::End(Plan::Expired)
        } else if self.is_too_long {
            end(Reason::PayloadTooLarge)
        } else if self.waits_for_its_hours(now) && self.opens >= self.deadline.at() {
            Gate::End(Plan::Expired)
        } else if self.opens.since(now) >= WAITED_OUT_INSIDE {
            Gate::Later(self.opens)
        } else if self.is_cancelled {
            Gate::End(Plan::FailedNoRetries(Reason::Cancelled))
        } else if matches!(self.message.to, To::Audience(_)) {
            Gate::End(Plan::Expand)
        } else {
            match self.obstacle {
                None => Gate::Go,
                // Its browser may have the message already: a dead letter would offer to send it twice.
                Some(reason @ Reason::EndpointReplaced) => Gate::End(Plan::FailedNoRetries(reason)),
                Some(reason) => end(reason),
            }
        }
    }

    fn waits_for_its_hours(&self, now: Timestamp) -> bool {
        self.opens > self.due.max(now)
    }

    /// A message with a TTL of 0 has one attempt, now. Where another message would be sent again, it ends.
    fn is_past_its_only_attempt(&self) -> bool {
        self.message.ttl == Some(Ttl::ZERO) && self.receives >= SENT_AGAIN_FROM
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;
    use crate::fixtures::as_message;
    use crate::message::{QueueKind, parse};
    use crate::policy::catalogue;

    fn message(to: &str) -> Message {
        let body = format!(r#"{{"tenant":"acme","id":"m","to":{to},"payload":"x","ttl":60}}"#);
        as_message(parse(&body, QueueKind::Ingest, "m", Timestamp::from_secs(1_000)).expect("valid")).0
    }

    /// Each row breaks one rule more than the row after it, so the first rule that is broken decides.
    #[test]
    fn the_first_gate_that_is_closed_decides() {
        let start = Timestamp::from_secs(1_000);
        let policy = catalogue::presets().get("web-push").expect("a preset");
        let one = message(r#"{"subscription":"s"}"#);
        let all = message(r#"{"audience":{"tag":"t"}}"#);
        let deadline = one.deadline(Channel::WebPush, start);
        let due = start.plus(Duration::from_secs(20));
        let failed = |reason| Gate::End(Plan::DeadLetter(reason));
        let (open, shut) = (start.plus(Duration::from_secs(59)), start.plus(Duration::from_secs(60)));
        for (name, at, message, is_too_long, opens, is_cancelled, obstacle, expected) in [
            ("over", 61, &all, true, shut, true, true, Gate::End(Plan::Expired)),
            ("too long", 0, &all, true, shut, true, true, failed(Reason::PayloadTooLarge)),
            ("shut until its end", 0, &all, false, shut, true, true, Gate::End(Plan::Expired)),
            ("shut", 20, &all, false, open, true, true, Gate::Later(open)),
            ("early", 0, &all, false, due, true, true, Gate::Later(due)),
            (
                "cancelled",
                20,
                &all,
                false,
                due,
                true,
                true,
                Gate::End(Plan::FailedNoRetries(Reason::Cancelled)),
            ),
            ("audience", 20, &all, false, due, false, true, Gate::End(Plan::Expand)),
            ("obstacle", 20, &one, false, due, false, true, failed(Reason::SubscriptionOff)),
            ("due within a second", 19, &one, false, due, false, false, Gate::Later(due)),
            ("due", 20, &one, false, due, false, false, Gate::Go),
        ] {
            let candidate = Candidate {
                message,
                policy,
                attempt: Attempt(0),
                deadline,
                due,
                opens,
                receives: 1,
                is_too_long,
                is_cancelled,
                obstacle: obstacle.then_some(Reason::SubscriptionOff),
            };
            assert_eq!(candidate.gate(start.plus(Duration::from_secs(at))), expected, "{name}");
        }
    }
}
