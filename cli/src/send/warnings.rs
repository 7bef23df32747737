//! Messages that can be sent and will fail: of what the stack decides, only what is true of this one.

use std::collections::BTreeMap;

use redial_core::{
    endpoint::Origin, identity::SubscriptionKey, recipient::Recipient, subscription::Subscription,
};

use redial_engine::ports::SubscriptionHealth as _;

use crate::stack::{self, Target, egress_allow};

/// Why a message will fail, as far as that is known without the stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Warning {
    /// It is too long for a push, unless the stack takes fields out of it.
    TooLong(String),
    /// Only if the subscription is a browser's.
    IfBrowsers { words: String, key: SubscriptionKey },
    /// Only if EgressAllow does not name the origin.
    UnlessAllowed { field: String, origin: Origin },
}

/// In words, without those that are not true of this stack. What it does not show is said with its condition.
pub(super) async fn of_stack(warnings: Vec<Warning>, target: &Target) -> Vec<String> {
    let is_about = |wanted: fn(&Warning) -> bool| warnings.iter().any(wanted);
    let allowed = match is_about(|it| matches!(it, Warning::UnlessAllowed { .. })) {
        true => allowed(target).await,
        false => None,
    };
    let browsers = match is_about(|it| matches!(it, Warning::IfBrowsers { .. })) {
        true => browsers(&warnings, target).await,
        false => BTreeMap::new(),
    };
    let is_too_long = is_about(|it| matches!(it, Warning::TooLong(_) | Warning::IfBrowsers { .. }));
    let stripped = match is_too_long && strips_payloads(target).await {
        true => ", unless it is short enough without the fields that StripPayloadFields of the stack names",
        false => "",
    };
    let words = |warning| match warning {
        Warning::TooLong(words) => Some(format!("{words}{stripped}")),
        Warning::IfBrowsers { words, key } => match browsers.get(&key) {
            Some(true) => Some(format!("{words}{stripped}")),
            Some(false) => None,
            None => Some(format!("{words} if the subscription is a browser's{stripped}")),
        },
        Warning::UnlessAllowed { field, origin } => {
            let why = "only public addresses are allowed, on port 443";
            let end = "it will become a dead letter (endpoint_not_allowed)";
            match &allowed {
                Some(allowed) if allowed.contains(&origin) => None,
                Some(_) => Some(format!(
                    "{field}: {why}, and EgressAllow of {} does not name {}: {end}",
                    target.name,
                    origin.as_str()
                )),
                None => {
                    Some(format!("{field}: {why}: {end} unless the stack's EgressAllow names its origin"))
                }
            }
        }
    };
    warnings.iter().cloned().filter_map(words).collect()
}

/// `None` if the caller may not read dispatch's configuration, or it is not valid.
async fn allowed(target: &Target) -> Option<Vec<Origin>> {
    let function = target.configuration(&target.dispatch).await.ok()?;
    egress_allow(&function)
}

/// Whether the stack takes fields out of payloads, as far as the caller may read that.
async fn strips_payloads(target: &Target) -> bool {
    target.configuration(&target.dispatch).await.is_ok_and(|function| stack::strips_payloads(&function))
}

/// Whether each subscription is a browser's, of those that are stored and can be read.
async fn browsers(warnings: &[Warning], target: &Target) -> BTreeMap<SubscriptionKey, bool> {
    let mut found = BTreeMap::new();
    let Ok(subscriptions) = target.subscriptions().await else { return found };
    for warning in warnings {
        let Warning::IfBrowsers { key, .. } = warning else { continue };
        if !found.contains_key(key)
            && let Ok(Some(Subscription { recipient, .. })) = subscriptions.get(key).await
        {
            found.insert(key.clone(), matches!(recipient, Recipient::WebPush(_)));
        }
    }
    found
}
