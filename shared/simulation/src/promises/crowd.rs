//! Many recipients of one service: whose probes decide, and what the trouble of one of them does.

use std::collections::BTreeMap;
use std::time::Duration;

use redial_core::endpoint::Origin;
use redial_core::identity::Turn;
use redial_core::message::{Message, To, Travel};
use redial_core::protection::{Circuit, Phase};
use redial_core::time::Timestamp;

use crate::address::receiver_of;
use crate::origins::Past;
use crate::posted::Sign;
use crate::scenario::Scenario;
use crate::scenario::crowd::Lone;
use crate::situations::Situation;
use crate::watch::Memo;

/// A breaker judges the attempts of five minutes. A worker follows that of a recipient from ten failures on, and 20 attempts are enough
/// to open it; single counts may get lost with their workers.
const JUDGED_FOR: Duration = Duration::from_secs(285);
const JUDGED_FROM: usize = 35;

/// A worker that saw this number of attempts fail in this time knows its breaker; a few more than it takes, for those that are under way.
const DOUBTED_FROM: usize = 15;
const DOUBTED_FOR: Duration = Duration::from_secs(240);
const UNDER_WAY: Duration = Duration::from_secs(2);

/// A worker relies on a state for a second and a half, and an attempt that it admits leaves within a few seconds.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10);

/// By then a worker has reported an attempt, and one of them has looked.
const REPORTED_WITHIN: Duration = Duration::from_secs(12);

/// A worker that sees failures itself pauses for two to four seconds, whosever they are.
const OWN_PAUSE: Duration = Duration::from_secs(5);

/// Those besides the two that fail most show whose trouble it is, when this number of their attempts has failed: among what they sent before.
const WORST: usize = 2;
const OTHERS_FAILED: usize = 8;

/// How long a half-open breaker of a healthy recipient takes to close, while there is traffic to probe with.
const CLOSES_WITHIN: Duration = Duration::from_secs(60);

/// The same while all traffic is last attempts: each probe waits until none has gone for 20 seconds.
const LAST_ATTEMPTS_CLOSE_WITHIN: Duration = Duration::from_secs(240);

impl Memo {
    /// What a breaker said of a POST; answers whether it is a probe.
    pub(crate) fn may_be_posted(&mut self, judged: Result<bool, String>) -> bool {
        judged.unwrap_or_else(|wrong| {
            self.violated(wrong);
            false
        })
    }

    /// A POST to an origin, which may be a probe.
    pub(crate) fn probes(&mut self, origin: &Origin) {
        let wrong = self.origins.of.get(origin).and_then(|past| past.wrong_probe());
        if let Some(wrong) = wrong {
            self.violated(format!("{} was {wrong}", origin.as_str()));
        }
    }

    /// A POST to a recipient that alone fails, by a worker whose attempts there failed at these times.
    pub(crate) fn posts_to_one_of_many(&mut self, recipient: &Circuit, failed: &[Timestamp], now: Timestamp) {
        let Some(past) = self.origins.recipients.get(recipient) else { return };
        let has_moved = past.moved.is_some_and(|moved| moved.plus(FOLLOWED_WITHIN) > now);
        if matches!(past.phase(now), Phase::Open { .. }) && !has_moved {
            let doubts = failed.iter().filter(|at| at.plus(DOUBTED_FOR) > now && at.plus(UNDER_WAY) < now);
            let doubts = doubts.count();
            if doubts >= DOUBTED_FROM {
                self.violated(format!(
                    "{recipient} was posted to by a worker that saw {doubts} attempts fail, and its breaker is open"
                ));
            }
            return;
        }
        if !matches!(past.phase(now), Phase::Closed | Phase::Ramping { .. }) {
            return;
        }
        let moved = past.moved.map_or(Timestamp::default(), |at| at.plus(REPORTED_WITHIN));
        let from = now.minus(JUDGED_FOR).max(moved);
        let failed = failed.iter().filter(|at| **at >= from && at.plus(REPORTED_WITHIN) <= now).count();
        if failed >= JUDGED_FROM {
            self.violated(format!(
                "{recipient} has failed {failed} attempts of one worker, and its breaker is closed"
            ));
        }
    }

    /// A message that goes on without an attempt: the trouble of one recipient is no other's.
    pub(crate) fn holds_back_beside_one(&mut self, message: &Message, travel: &Travel, now: Timestamp) {
        let Some(lone) = self.lone else { return };
        let until = travel.not_before.unwrap_or(now);
        let key = message.key();
        if travel.turn != Turn::default() || until <= now.plus(OWN_PAUSE) || is_to(message, &lone) {
            return;
        }
        if self.origins.of.values().any(|past| past.opened_by_one) {
            return;
        }
        self.violated(format!(
            "{key} was held back until {until:?}, where one recipient alone is in trouble"
        ));
    }

    /// The breaker of a recipient has moved.
    pub(crate) fn recipient_moves(
        &mut self,
        recipient: &Circuit,
        phase: Phase,
        none_fails_alone: bool,
        now: Timestamp,
    ) {
        match phase {
            Phase::Open { .. } if none_fails_alone && self.has_failed_at_many(recipient.origin(), now) => {
                self.violated(format!("the breaker of {recipient} opened for what failed at everyone"));
            }
            Phase::Open { .. } => self.situations.saw(Situation::RecipientOpened),
            Phase::Closed | Phase::Ramping { .. } => self.situations.saw(Situation::RecipientCloses),
            Phase::HalfOpen { .. } | Phase::Paused { .. } => {}
        }
    }

    /// Whether enough recipients have failed lately that no worker takes it for the trouble of one or two. Those that share a place are one
    /// to workers.
    fn has_failed_at_many(&self, origin: &Origin, now: Timestamp) -> bool {
        let Some(past) = self.origins.of.get(origin) else { return false };
        let mut failed: BTreeMap<usize, usize> = BTreeMap::new();
        for post in past.posted(now.minus(Duration::from_secs(60)), now.minus(Duration::from_secs(3))) {
            match post.sign {
                Sign::Fails => *failed.entry(post.whose.recipient()).or_default() += 1,
                // The latest come first: before this it was well.
                Sign::Well | Sign::Limited => break,
            }
        }
        let mut failed: Vec<usize> = failed.into_values().collect();
        failed.sort_unstable();
        failed.iter().rev().skip(WORST).sum::<usize>() >= OTHERS_FAILED
    }

    /// Whether a recipient that has been well since then, with traffic since then, stays half open for too long.
    pub(crate) fn recipients_recover(&mut self, well_since: Timestamp, scenario: &Scenario, now: Timestamp) {
        let only_last_attempts = scenario.stream.as_ref().is_some_and(|stream| stream.only_last_attempts);
        let within = if only_last_attempts { LAST_ATTEMPTS_CLOSE_WITHIN } else { CLOSES_WITHIN };
        // A breaker that no worker follows any more, because none of them saw failures, holds back nothing.
        let passes = |past: &Past| past.posted(now.minus(within), now).any(|it| !it.is_probe);
        let half_open = self.origins.recipients.iter().filter(|(_, past)| !passes(past));
        let half_open = half_open.filter_map(|(of, past)| Some((of, past.half_open?)));
        let late = half_open.filter(|(_, since)| since.max(&well_since).plus(within) < now);
        let late: Vec<String> = late.map(|(of, _)| of.to_string()).collect();
        for of in late {
            self.violated(format!("{of} is well, and its breaker has been half open for {within:?}"));
        }
    }
}

fn is_to(message: &Message, lone: &Lone) -> bool {
    let by_subscription = message.to.subscription().map(|id| id.as_str() == format!("r{}", lone.receiver));
    let by_address = match &message.to {
        To::WebPush(target) => receiver_of(target.endpoint.expose().as_str()) == Some(lone.receiver),
        To::Subscription(_) | To::Webhook(_) | To::Audience(_) | To::Callback(_) => false,
    };
    message.tenant.as_str() == lone.tenant && by_subscription.unwrap_or(by_address)
}
