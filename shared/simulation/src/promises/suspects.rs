//! What must hold of subscriptions that dead letters make suspect, and of messages to them where these are held.

use std::time::Duration;

use redial_core::identity::{Attempt, DeliveryKey, SubscriptionKey};
use redial_core::reason::Reason;
use redial_core::subscription::State;
use redial_core::subscription::suspicion::Probe;
use redial_core::time::Timestamp;
use redial_engine::ports::Claim;
use redial_memory::State as Stored;

use super::posts::TOLERANCE;
use super::remains::Remains;
use super::storage::UNDER_WAY;
use crate::facts::{Answers, Standing};
use crate::situations::Situation;
use crate::watch::Memo;

/// The dead letters that make a subscription suspect, and how long each comes after the one before: infra/docs/outcomes.md.
const SUSPECT_FROM: usize = 3;
const DEAD_LETTERS_APART: Duration = Duration::from_secs(3_600);

/// A held subscription gets one message in this time: infra/docs/outcomes.md.
const PROBED_EVERY: Duration = Duration::from_secs(6 * 3_600);

impl Memo {
    /// What dead letters, a success or a message that was let through made of it.
    pub(super) fn changes_its_doubts(
        &mut self,
        key: &SubscriptionKey,
        before: &Standing,
        after: &Standing,
        answers: &Answers,
    ) {
        if before.is_suspect != after.is_suspect {
            self.suspects(key, answers, after.is_suspect);
        }
        let Some(probe) = after.probe.as_ref().filter(|probe| before.probe.as_ref() != Some(*probe)) else {
            return;
        };
        self.situations.saw(Situation::ProbedSuspect);
        let is_another = |it: &&Probe| before.is_suspect && it.delivery != probe.delivery;
        if let Some(last) = before.probe.as_ref().filter(is_another)
            && probe.at.since(last.at).saturating_add(TOLERANCE) < PROBED_EVERY
        {
            self.violated(format!("{key} is suspect, and {} is the next probe too early", probe.delivery));
        }
    }

    /// A first attempt to one that is held is its probe's.
    pub(super) fn posts_to_a_suspect(&mut self, key: &DeliveryKey, token: &str, state: &Stored) {
        if !self.facts.holds_suspects {
            return;
        }
        let Some(entry) = state.known(key).filter(|entry| entry.turn.attempt == Attempt::FIRST) else {
            return;
        };
        let Some(id) = entry.subscription else { return };
        let to = SubscriptionKey { tenant: key.tenant.clone(), id };
        let since = self.facts.suspect_since.get(&to).zip(self.facts.began.get(token));
        let is_suspect = since.is_some_and(|(since, began)| since < began);
        let probe = state.subscriptions.get(&to).and_then(|stored| stored.doubts.probe.as_ref());
        if is_suspect && probe.is_none_or(|probe| probe.delivery != key.id) {
            self.violated(format!("{key} was posted to {to}, which is suspect and held"));
        }
    }

    /// A delivery that ends because its subscription is suspect, and no probe is due.
    pub(crate) fn is_held(&mut self, claim: &Claim, state: &Stored) {
        let is_held = claim.settlement.is_some_and(|end| end.reason == Some(Reason::SubscriptionSuspect));
        let Some(id) = claim.subscription.clone().filter(|_| is_held) else { return };
        self.situations.saw(Situation::HeldSuspect);
        let key = SubscriptionKey { tenant: claim.ask.key.tenant.clone(), id };
        let Some(stored) = state.subscriptions.get(&key) else { return };
        let began = self.facts.began.get(&claim.ask.lease_token).copied().unwrap_or_default();
        let has_changed = self.facts.stored_at.get(&key).is_some_and(|at| *at >= began);
        if stored.doubts.suspect_at.is_none() && !has_changed {
            self.violated(format!("{} is held, and {key} is not suspect", claim.ask.key));
        }
        let probe = stored.doubts.probe.as_ref();
        if probe.is_some_and(|probe| probe.delivery == claim.ask.key.id) {
            self.violated(format!("{} is held, and is {key}'s probe", claim.ask.key));
        }
        let is_due = probe.is_none_or(|probe| state.now.since(probe.at) > PROBED_EVERY + TOLERANCE);
        // Its probe was over already, and was forgotten since this one was read.
        let is_freed = probe.is_none() && has_changed;
        // Where something fails, the probe may not have been written.
        if is_due && !is_freed && self.facts.refused_alone.is_some() {
            self.violated(format!("{} is held, and would be {key}'s probe", claim.ask.key));
        }
    }

    /// A subscription became suspect, or was verified.
    fn suspects(&mut self, key: &SubscriptionKey, answers: &Answers, is_suspect: bool) {
        self.situations.saw(if is_suspect { Situation::Suspected } else { Situation::Verified });
        if !is_suspect {
            if answers.succeeded_at.is_none() {
                self.violated(format!("{key} is suspect no longer, and nothing was accepted there"));
            }
            return;
        }
        let refused = answers.refused_apart(DEAD_LETTERS_APART - UNDER_WAY);
        if refused < SUSPECT_FROM {
            self.violated(format!(
                "{key} is suspect, and was refused {refused} times since its last success"
            ));
        }
        if self.facts.refused_alone.as_ref().is_some_and(|alone| *alone != key.id.as_str()) {
            self.violated(format!("{key} is suspect, and was refused only when all were"));
        }
    }
}

/// Who was accepted since is suspect no longer, and who alone is refused to the end is.
pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    if !remains.storage.is_watched {
        return;
    }
    let mut violations = Vec::new();
    for (key, stored) in remains.state.subscriptions.iter().filter(|(_, it)| it.state == State::Active) {
        let address = stored.recipient.endpoint().expose().as_str();
        let answers = memo.facts.answers.get(address).cloned().unwrap_or_default();
        let suspect_at = stored.doubts.suspect_at;
        let is_verified = |at: Timestamp| answers.verified_at.is_some_and(|ok| ok > at.plus(UNDER_WAY));
        if suspect_at.is_some_and(is_verified) {
            violations.push(format!("{key} is suspect, and was sent to since"));
        }
        let is_alone = memo.facts.refused_alone.as_ref().is_some_and(|alone| *alone == key.id.as_str());
        let is_refused = answers.refused_apart(DEAD_LETTERS_APART + UNDER_WAY) >= 2 * SUSPECT_FROM;
        if is_alone && is_refused && key.tenant.as_str() == "acme" && suspect_at.is_none() {
            violations.push(format!("{key} alone was refused for hours, and is not suspect"));
        }
    }
    violations.into_iter().for_each(|violation| memo.violated(violation));
}
