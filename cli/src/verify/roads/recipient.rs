//! Whom the messages of a run reach: the receiver's address, and the keys of the one browser that it stands for.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial_adapters::{config, secrets::Secret, vapid::VapidKeyPair};
use redial_core::endpoint::Endpoint;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};

use crate::doctor::Stack;

/// A push subscription whose private key the receiver has.
pub(super) struct Subscription {
    keys: VapidKeyPair,
    auth: Secret,
}

impl Subscription {
    pub(super) fn generate() -> Self {
        let mut auth = [0; 16];
        SystemRandom::new().fill(&mut auth).expect("invariant: the system has randomness");
        Self { keys: VapidKeyPair::generate(), auth: Secret::new(URL_SAFE_NO_PAD.encode(auth)) }
    }

    pub(super) fn private(&self) -> &Secret {
        self.keys.private()
    }

    pub(super) fn auth(&self) -> &Secret {
        &self.auth
    }

    /// As a message names it.
    pub(super) fn at(&self, endpoint: &str) -> Value {
        let keys = json!({"p256dh": self.keys.public(), "auth": self.auth.expose()});
        json!({"web_push": {"endpoint": endpoint, "keys": keys}})
    }
}

/// Why the stack would not push to this URL; nothing if it would.
pub(super) fn refuses_pushes(stack: &Stack, url: &str) -> Option<String> {
    let config = stack.dispatch.as_ref().ok().map(|dispatch| config::dispatch(|name| dispatch.lookup(name)));
    let Some(Ok(config)) = config else {
        return Some("the configuration of dispatch is unknown".to_owned());
    };
    let endpoint = Endpoint::parse(url).ok()?;
    let is_exempt = config.egress_allow.origins().any(|origin| *origin == endpoint.origin());
    if is_exempt || config.push_hosts.allows(&endpoint) {
        return None;
    }
    let host = endpoint.host().to_string();
    let pattern = host.split_once('.').map_or(host.clone(), |(_, region)| format!("*.{region}"));
    Some(format!(
        "the stack pushes to the hosts of PushHosts alone: deploy it with {pattern} in PushHosts, and without it afterwards"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_has_keys_that_a_message_takes() {
        let subscription = Subscription::generate();
        let to = subscription.at("https://r.example/push");
        let text = |name: &str| to["web_push"]["keys"][name].as_str().map(str::len);
        assert_eq!((text("p256dh"), text("auth")), (Some(87), Some(22)));
        assert_eq!(subscription.private().expose().len(), 43);
    }
}
