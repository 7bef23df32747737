//! Messages that can be sent and will fail: of what the stack decides, only what is true of this one.

use std::collections::BTreeMap;

use redial_core::{
    endpoint::Origin, identity::SubscriptionKey, recipient::Recipient, subscription::Subscription,
};

use redial_engine::ports::SubscriptionHealth as _;

use crate::stack::{Target, egress_allow};

/// Why a message will fail, as far as that is known without the stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Warning {
    Certain(String),
    /// Only if the subscription is a browser's.
    IfBrowsers {
        words: String,
        key: SubscriptionKey,
    },
    /// Only if EgressAllow does not name the origin.
    UnlessAllowed {
        field: String,
        origin: Origin,
    },
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
    let words = |warning| match warning {
        Warning::Certain(words) => Some(words),
        Warning::IfBrowsers { words, key } => match browsers.get(&key) {
            Some(true) => Some(words),
            Some(false) => None,
            None => Some(format!("{words} if the subscription is a browser's")),
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
