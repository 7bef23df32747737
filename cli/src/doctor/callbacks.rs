//! Callbacks: whether they are set where they are on, and whether the webhooks that they name take events.
//!
//! A webhook that is not there, or is switched off, holds no event up: each one becomes a dead letter, and nothing else of a stack shows it.

use redial_adapters::system::System;
use redial_core::{
    channel::Channel,
    identity::SubscriptionKey,
    subscription::{State, Subscription},
    time::Timestamp,
};
use redial_engine::ports::{Clock as _, Subscriptions as _};

use super::{
    report::{Report, listed},
    stack::Stack,
};
use crate::aws_error::AwsError;

/// Why a callback's webhook takes no events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Amiss {
    Missing,
    Browser,
    Disabled,
    Other(State),
}

impl Amiss {
    fn of(webhook: Option<&Subscription>, now: Timestamp) -> Option<Self> {
        let Some(webhook) = webhook else { return Some(Self::Missing) };
        if webhook.recipient.channel() != Channel::Webhook {
            return Some(Self::Browser);
        }
        match webhook.state_at(now) {
            State::Active | State::Suspect => None,
            State::Disabled => Some(Self::Disabled),
            other @ (State::Gone | State::Quarantined | State::Expired | State::Stale) => {
                Some(Self::Other(other))
            }
        }
    }

    fn found(self, of: &str) -> String {
        let dead_letters = |reason: &str| format!("their events become dead letters ({reason})");
        match self {
            Self::Missing => {
                format!("the callback of {of} is not stored: {}", dead_letters("subscription_unknown"))
            }
            Self::Browser => format!(
                "the callback of {of} is a browser's subscription: {}",
                dead_letters("subscription_unknown")
            ),
            Self::Disabled => format!(
                "the webhook of the callback of {of} is disabled: {}",
                dead_letters("endpoint_disabled")
            ),
            Self::Other(state) => {
                format!("the webhook of the callback of {of} is {state}: it gets no events")
            }
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::Missing | Self::Browser => {
                "store the webhook with `redial subscriptions put`, or name another with `redial callbacks set --tenant T --to \
                 SUBSCRIPTION`; then `redial dead-letters replay` sends the events again"
            }
            Self::Disabled | Self::Other(_) => {
                "repair its receiver, and switch it on with `redial subscriptions enable SUBSCRIPTION --tenant T`; then \
                 `redial dead-letters replay` sends the events again"
            }
        }
    }
}

pub(super) async fn check(stack: &Stack, are_posted: bool, report: &mut Report) {
    let callbacks = stack.target.callbacks().list().await.map_err(|error| AwsError::of_port(&error));
    let Some(callbacks) = report.read_if_present("callbacks", callbacks, "there is no control table") else {
        return;
    };
    judge(are_posted, callbacks.len(), report);
    if !are_posted || callbacks.is_empty() {
        return;
    }
    let keys: Vec<SubscriptionKey> =
        callbacks.into_iter().map(|(tenant, id)| SubscriptionKey { tenant, id }).collect();
    let loaded = stack.target.subscriptions_without_secrets().load(keys.clone()).await;
    let loaded: Result<Vec<_>, _> = loaded.into_iter().collect();
    let loaded = loaded.map_err(|error| AwsError::of_port(&error));
    let why = "there is no table of subscriptions";
    if let Some(webhooks) = report.read_if_present("the webhooks of callbacks", loaded, why) {
        judge_webhooks(keys.into_iter().zip(webhooks), System.now(), report);
    }
}

fn judge(are_posted: bool, callbacks: usize, report: &mut Report) {
    match (are_posted, callbacks) {
        (true, 0) => report.warning(
            "Callbacks is on, and no tenant has a callback: no event is posted",
            "set one with `redial callbacks set --tenant T --to SUBSCRIPTION`, or deploy with Callbacks=off",
        ),
        (false, 1..) => report.warning(
            format!("{callbacks} of the tenants have a callback, and Callbacks is off: no event is posted"),
            "deploy with Callbacks=on, or remove them with `redial callbacks clear --tenant T`",
        ),
        (true, 1..) | (false, 0) => {}
    }
}

fn judge_webhooks(
    webhooks: impl Iterator<Item = (SubscriptionKey, Option<Subscription>)>,
    now: Timestamp,
    report: &mut Report,
) {
    let mut amiss: Vec<(Amiss, SubscriptionKey)> =
        webhooks.filter_map(|(key, webhook)| Some((Amiss::of(webhook.as_ref(), now)?, key))).collect();
    amiss.sort();
    for of_one in amiss.chunk_by(|(one, _), (other, _)| one == other) {
        let (what, _) = of_one[0];
        let of = |(_, SubscriptionKey { tenant, id }): &(_, SubscriptionKey)| format!("{tenant} ({id})");
        let webhooks: Vec<String> = of_one.iter().map(of).collect();
        report.fault(what.found(&listed(&webhooks)), what.remedy());
    }
}

#[cfg(test)]
mod tests {
    use redial_core::{
        endpoint::Endpoint,
        identity::{SubscriptionId, Tenant},
        recipient::Recipient,
        webhook::WebhookTarget,
    };

    use super::{super::report::tests::finds, *};

    fn now() -> Timestamp {
        Timestamp::from_secs(1_800_000_000)
    }

    fn key(tenant: &str) -> SubscriptionKey {
        SubscriptionKey {
            tenant: Tenant::parse(tenant).expect("valid"),
            id: SubscriptionId::parse("hooks").expect("valid"),
        }
    }

    fn webhook(tenant: &str, state: State) -> (SubscriptionKey, Option<Subscription>) {
        let endpoint = Endpoint::parse("https://partner.example/hook").expect("valid");
        let recipient = Recipient::Webhook(WebhookTarget::at(endpoint));
        let stored = Subscription { state, ..Subscription::new(key(tenant), recipient) };
        (key(tenant), Some(stored))
    }

    #[test]
    fn callbacks_without_their_parameter_and_the_parameter_without_callbacks_are_warnings() {
        for (are_posted, callbacks, expected) in [
            (true, 0, "warning: Callbacks is on, and no tenant has a callback"),
            (false, 2, "warning: 2 of the tenants have a callback, and Callbacks is off"),
            (true, 2, ""),
            (false, 0, ""),
        ] {
            finds(expected, |report| judge(are_posted, callbacks, report));
        }
    }

    #[test]
    fn a_webhook_that_takes_no_events_is_a_fault() {
        let missing = "fault: the callback of acme (hooks) is not stored: their events become dead letters \
                       (subscription_unknown)";
        let disabled = "fault: the webhook of the callback of acme (hooks) is disabled";
        let quarantined =
            "fault: the webhook of the callback of acme (hooks) is quarantined: it gets no events";
        for (webhook, expected) in [
            (webhook("acme", State::Active), ""),
            ((key("acme"), None), missing),
            (webhook("acme", State::Disabled), disabled),
            (webhook("acme", State::Quarantined), quarantined),
        ] {
            finds(expected, |report| judge_webhooks([webhook].into_iter(), now(), report));
        }
    }

    #[test]
    fn tenants_whose_webhooks_have_one_fault_are_one_finding() {
        let tenants = ["a", "b", "c", "d", "e", "f", "g"];
        let webhooks = tenants.map(|tenant| webhook(tenant, State::Disabled)).into_iter();
        let expected = "fault: the webhook of the callback of a (hooks), b (hooks), c (hooks), d (hooks), e (hooks) \
                        and 2 more is disabled";
        finds(expected, |report| judge_webhooks(webhooks, now(), report));
    }
}
