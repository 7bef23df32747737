//! What becomes of subscriptions, keys and rows of tables, and what receivers ask for.

use super::mutant::Mutant;

const SUBSCRIPTION: &str = "shared/core/src/subscription/mod.rs";
const REFERENCES: &str = "shared/engine/src/cleanup/references.rs";
const ATTEMPT: &str = "shared/engine/src/deliver/attempt.rs";
const LEDGER: &str = "shared/core/src/ledger/mod.rs";
const VERDICT: &str = "shared/core/src/verdict.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a gone endpoint is sent to",
        rule: "nothing is sent to a subscription that is off",
        file: SUBSCRIPTION,
        find: "State::Gone | State::Quarantined => Err(Reason::SubscriptionOff),",
        replace: "State::Gone | State::Quarantined => Ok(&self.recipient),",
    },
    Mutant {
        name: "a disabled receiver is sent to",
        rule: "nothing is sent to a subscription that is off",
        file: SUBSCRIPTION,
        find: "State::Disabled => Err(Reason::EndpointDisabled),",
        replace: "State::Disabled => Ok(&self.recipient),",
    },
    Mutant {
        name: "a renewal brings a gone endpoint back",
        rule: "a page that submits the same endpoint again does not change its state",
        file: "shared/core/src/subscription/renewal.rs",
        find: "if goes_on { before.clone() } else {",
        replace: "if goes_on && before.state == State::Active { before.clone() } else {",
    },
    Mutant {
        name: "the spike guard lets all pass",
        rule: "endpoints that turn gone together in great number are kept",
        file: SUBSCRIPTION,
        find: "gone >= self.at_least &&",
        replace: "gone >= self.at_least * 100 &&",
    },
    Mutant {
        name: "the spike guard keeps all",
        rule: "a gone endpoint is removed",
        file: SUBSCRIPTION,
        find: "gone >= self.at_least &&",
        replace: "gone >= self.at_least / 10 &&",
    },
    Mutant {
        name: "one 404 is enough",
        rule: "a 404 is confirmed by another one an hour later",
        file: SUBSCRIPTION,
        find: "None => NotFound::Flag,",
        replace: "None => NotFound::Confirmed,",
    },
    Mutant {
        name: "a reference is about whatever stands there",
        rule: "a user who has subscribed again is not removed for the former endpoint",
        file: REFERENCES,
        find: "if self.settings.hash_keys.is_of(&hash, subscription.recipient.endpoint()) != Some(true) {",
        replace: "if self.settings.hash_keys.is_of(&hash, subscription.recipient.endpoint()).is_none() {",
    },
    Mutant {
        name: "a gone endpoint is no candidate",
        rule: "what is switched off as gone is removed",
        file: REFERENCES,
        find: "self.subscriptions.add_candidate(window, candidate).await?;",
        replace: "let _ = (window, candidate);",
    },
    Mutant {
        name: "a dead receiver is never given up",
        rule: "a receiver that fails for five days is switched off",
        file: "shared/core/src/webhook/mod.rs",
        find: "now.since(since) >= after",
        replace: "now.since(since) >= after * 10",
    },
    Mutant {
        name: "a success does not count",
        rule: "a receiver that has recovered is not switched off",
        file: "shared/engine/src/deliver/health.rs",
        find: "let is_failing = job.flagged || job.health.failing_since.is_some();",
        replace: "let is_failing = job.flagged;",
    },
    Mutant {
        name: "a receiver is given up after a day",
        rule: "a receiver that fails for five days is switched off, and no other",
        file: "shared/core/src/webhook/mod.rs",
        find: "Duration::from_secs(5 * 86_400)",
        replace: "Duration::from_secs(86_400)",
    },
    Mutant {
        name: "only the current key recognises a hash",
        rule: "hashes of a former key are recognised",
        file: "shared/core/src/endpoint.rs",
        find: "let key = self.0.get(hash.key_id())?;",
        replace: "let key = Some(self.0.current()).filter(|key| key.id == hash.key_id())?;",
    },
    Mutant {
        name: "contents under two keys are compared",
        rule: "a duplicate from before a rotation is no conflict",
        file: "shared/core/src/ledger/claim.rs",
        find: "        && stored.fingerprint.key_id() == fingerprint.key_id()\n",
        replace: "",
    },
    Mutant {
        name: "a subscription that cannot be read is unknown",
        rule: "what could not be read comes back, and is not taken as absent",
        file: "shared/engine/src/deliver/resolve.rs",
        find: "job.resolve(subscription.map_err(Clone::clone)?.as_ref(), keys, now);",
        replace: "job.resolve(subscription.ok().and_then(Option::as_ref), keys, now);",
    },
    Mutant {
        name: "what is read of a batch is mixed up where one is refused",
        rule: "each message goes to its own subscription",
        file: "shared/engine/src/deliver/resolve.rs",
        find: "let loaded = self.subscriptions.load(wanted.clone()).await;",
        replace: "let loaded = self.subscriptions.load(wanted.clone()).await;\n        let (well, rest): (Vec<_>, Vec<_>) = loaded.into_iter().partition(Result::is_ok);\n        let loaded: Vec<_> = well.into_iter().chain(rest).collect();",
    },
    Mutant {
        name: "what another release wrote is malformed",
        rule: "an unknown field on a retry queue is set back",
        file: "shared/core/src/message/refusal.rs",
        find: "self.errors.iter().any(|error| unknown.contains(&error.expected.as_ref()))",
        replace: "self.errors.iter().all(|error| error.expected.as_ref() == unknown[1])",
    },
    Mutant {
        name: "what another release wrote is dropped",
        rule: "an unknown field on a retry queue is set back",
        file: "shared/engine/src/deliver/batch.rs",
        find: "batch.decided.comes_back(place, Setback::Unreadable);",
        replace: "batch.decided.acknowledged(place);",
    },
    Mutant {
        name: "keys that cannot be loaded do not exist",
        rule: "while the keys cannot be loaded, a message comes back",
        file: ATTEMPT,
        find: "if keys == Keys::Unavailable && matches!(outcome, Outcome::Impossible(_)) {",
        replace: "if keys == Keys::Unavailable && matches!(outcome, Outcome::Response(_)) {",
    },
    Mutant {
        name: "the keys are not loaded again",
        rule: "a key that is not known is loaded",
        file: ATTEMPT,
        find: "let keys = Box::pin(self.reload_keys(last_start)).await;",
        replace: "let keys = Keys::Current;",
    },
    Mutant {
        name: "an entry never expires",
        rule: "an id that is used again after the window is a new delivery",
        file: LEDGER,
        find: "self.expires_at <= now",
        replace: "self.expires_at.as_ms() < now.as_ms() * 0",
    },
    Mutant {
        name: "an entry expires after a minute",
        rule: "a duplicate within the window is dropped",
        file: LEDGER,
        find: "Duration::from_secs(15 * 86_400)",
        replace: "Duration::from_secs(60)",
    },
    Mutant {
        name: "Retry-After is ignored",
        rule: "a receiver that asks to wait is not sent to before",
        file: "shared/core/src/plan.rs",
        find: "let range = retry.retry_after.map_or(range, |wait| {",
        replace: "let range = retry.retry_after.filter(|_| false).map_or(range, |wait| {",
    },
    Mutant {
        name: "a date is read by our clock alone",
        rule: "Retry-After is read against the response's own date",
        file: "shared/core/src/retry_after.rs",
        find: "parse(value, date.unwrap_or(response.at))",
        replace: "parse(value, date.map_or(response.at, |_| response.at))",
    },
    Mutant {
        name: "a redirect counts as sent",
        rule: "only a success counts as sent",
        file: VERDICT,
        find: "        300..=399 => retry(Reason::Redirected),",
        replace: "        300..=399 => Verdict::Sent,",
    },
    Mutant {
        name: "no final status counts as sent",
        rule: "only a success counts as sent",
        file: VERDICT,
        find: "        200..=299 => Verdict::Sent,\n        300..=399 => Verdict::Failed(Reason::Redirected),",
        replace: "        0..=299 => Verdict::Sent,\n        300..=399 => Verdict::Failed(Reason::Redirected),",
    },
    Mutant {
        name: "a message leads to another tenant",
        rule: "a subscription belongs to its tenant",
        file: "shared/memory/src/subscriptions.rs",
        find: "|state: &mut State, key| state.subscriptions.get(&key).cloned();",
        replace: "|state: &mut State, key: SubscriptionKey| state.subscriptions.iter().find(|(of, _)| of.id == key.id).map(|(_, it)| it.clone());",
    },
];
