//! Whether something is about a person.

use std::fmt;

use serde_json::Value;

use crate::endpoint::{Endpoint, EndpointHash, HashKeys};
use crate::identity::{SubscriptionId, SubscriptionKey, Tenant};
use crate::message::ProducerRef;

/// Whom a search is about: a subscription, or the messages with a `ref`, or both.
#[derive(Clone)]
pub struct Person {
    pub tenant: Tenant,
    pub subscription: Option<SubscriptionId>,
    pub producer_ref: Option<ProducerRef>,
    /// Where the subscription leads, while that is known.
    pub endpoint: Option<Endpoint>,
    /// The hashes of that endpoint: an erasure that goes on after it has removed the subscription knows no more.
    pub hashes: Vec<EndpointHash>,
    /// The keys of the stack's hashes, by which the endpoint of a message is recognised.
    pub hash_keys: Option<HashKeys>,
}

/// Without whom it is about.
impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Person(redacted)")
    }
}

impl Person {
    pub fn key(&self) -> Option<SubscriptionKey> {
        let id = self.subscription.clone()?;
        Some(SubscriptionKey { tenant: self.tenant.clone(), id })
    }

    pub fn is_tenant(&self, text: Option<&str>) -> bool {
        text == Some(self.tenant.as_str())
    }

    pub fn is_subscription(&self, text: Option<&str>) -> bool {
        self.subscription.as_ref().is_some_and(|id| text == Some(id.as_str()))
    }

    /// Whether a hash is that of the endpoint.
    pub fn is_hash(&self, text: Option<&str>) -> bool {
        text.and_then(EndpointHash::parse).is_some_and(|hash| self.hashes.contains(&hash))
    }

    /// Whether a key of `control` names the endpoint, as `…#<tenant>#<hash>…`.
    pub fn is_in_key(&self, text: Option<&str>) -> bool {
        let Some((_, rest)) = text.and_then(|text| text.split_once(&format!("#{}#hmac:", self.tenant)))
        else {
            return false;
        };
        let hash = rest.split('#').next().unwrap_or_default();
        self.is_hash(Some(&format!("hmac:{hash}")))
    }

    pub fn has_ref(&self, body: &Value) -> bool {
        let text = body["ref"].as_str();
        text.is_some() && self.producer_ref.as_ref().map(ProducerRef::expose) == text
    }

    /// Whether a message, as it was stored, is about the person. One that is no message is, where it holds the id, the `ref` or the endpoint.
    pub fn is_in_body(&self, text: &str) -> bool {
        match serde_json::from_str::<Value>(text) {
            Ok(body) if body["tenant"].is_string() => {
                self.is_tenant(body["tenant"].as_str()) && self.is_in_message(&body)
            }
            // Any sender's may be there: only what names the tenant, too, is its.
            Ok(_) | Err(_) => text.contains(&quoted(self.tenant.as_str())) && self.is_named_in(text),
        }
    }

    fn is_in_message(&self, body: &Value) -> bool {
        let to = &body["to"];
        let endpoints = [&to["web_push"]["endpoint"], &to["webhook"]["url"]];
        self.has_ref(body)
            || self.is_subscription(to["subscription"].as_str())
            || self.is_subscription(body["recipient"].as_str())
            || to["callback"].is_string() && self.is_in_callback(to, &body["payload"])
            || endpoints.into_iter().any(|text| self.is_endpoint(text.as_str()))
            // A body that was refused may have them elsewhere.
            || !to.is_object() && self.is_named_in(&body.to_string())
    }

    /// A callback is about the webhook that it goes to, and about whom the event that it posts is.
    fn is_in_callback(&self, to: &Value, event: &Value) -> bool {
        let ids = [&to["callback"], &event["subscription"]];
        self.has_ref(event) || ids.into_iter().any(|id| self.is_subscription(id.as_str()))
    }

    fn is_endpoint(&self, text: Option<&str>) -> bool {
        let Some(endpoint) = text.and_then(|text| Endpoint::parse(text).ok()) else { return false };
        let hash = || self.hash_keys.as_ref().map(|keys| keys.endpoint(&endpoint));
        self.endpoint.as_ref() == Some(&endpoint) || hash().is_some_and(|hash| self.hashes.contains(&hash))
    }

    fn is_named_in(&self, text: &str) -> bool {
        let named = |value: &str| text.contains(&quoted(value));
        let endpoint = self.endpoint.as_ref().map(|endpoint| endpoint.expose().as_str());
        self.subscription.as_ref().is_some_and(|id| named(id.as_str()))
            || self.producer_ref.as_ref().is_some_and(|it| !it.expose().is_empty() && named(it.expose()))
            || endpoint.is_some_and(|endpoint| text.contains(endpoint))
    }
}

/// As a text stands in JSON.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{hash_keys, subscription};

    fn person(id: Option<&str>, producer_ref: Option<&str>) -> Person {
        let endpoint = id.map(|_| Endpoint::parse("https://push.example/s3cret").expect("valid"));
        Person {
            tenant: subscription("s1").tenant,
            subscription: id.map(|id| subscription(id).id),
            producer_ref: producer_ref.and_then(ProducerRef::parse),
            hashes: endpoint.iter().flat_map(|endpoint| hash_keys().all_of(endpoint)).collect(),
            endpoint,
            hash_keys: Some(hash_keys()),
        }
    }

    #[test]
    fn a_body_is_about_a_subscription_by_its_id_or_its_endpoint() {
        let it = person(Some("s1"), None);
        for (body, is_about) in [
            (r#"{"tenant":"acme","to":{"subscription":"s1"},"payload":"x"}"#, true),
            (r#"{"tenant":"acme","audience":"r1","recipient":"s1","id":"d"}"#, true),
            (r#"{"tenant":"acme","to":{"web_push":{"endpoint":"https://push.example/s3cret"}}}"#, true),
            (r#"{"tenant":"acme","to":{"subscription":"s2"},"payload":"s1"}"#, false),
            (r#"{"tenant":"other","to":{"subscription":"s1"}}"#, false),
            (r#"{"tenant":"acme","ref":"s1","to":{"subscription":"s2"}}"#, false),
            (r#"{"tenant":"acme","to":{"callback":"s1"},"payload":{"subscription":"s2"}}"#, true),
            (r#"{"tenant":"acme","to":{"callback":"s2"},"payload":{"subscription":"s1"}}"#, true),
            (r#"{"tenant":"acme","to":{"callback":"s2"},"payload":{"subscription":"s2","id":"s1"}}"#, false),
            (r#"{"tenant":"acme","to":{"subscription":"s1"}"#, true),
            (r#"{"to":{"subscription":"s1"}"#, false),
            (r#"{"tenant":"other","to":{"subscription":"s1"}"#, false),
            ("not a message", false),
        ] {
            assert_eq!(it.is_in_body(body), is_about, "{body}");
        }
    }

    #[test]
    fn a_body_is_about_a_ref_that_it_has() {
        let it = person(None, Some("user 7"));
        for (body, is_about) in [
            (r#"{"tenant":"acme","to":{"subscription":"s1"},"ref":"user 7"}"#, true),
            (r#"{"tenant":"acme","to":{"subscription":"s1"},"ref":"user 70"}"#, false),
            (r#"{"tenant":"acme","to":{"subscription":"s1"}}"#, false),
            (r#"{"tenant":"acme","to":{"callback":"s2"},"payload":{"ref":"user 7"}}"#, true),
            (r#"{"tenant":"acme","ref":"user 7","to":7"#, true),
            (r#"{"ref":"user 7","to":7"#, false),
        ] {
            assert_eq!(it.is_in_body(body), is_about, "{body}");
        }
    }

    #[test]
    fn a_key_names_an_endpoint_by_any_of_its_hashes() {
        let it = person(Some("s1"), None);
        let own = hash_keys().endpoint(it.endpoint.as_ref().expect("it has one"));
        let other = hash_keys().endpoint(&Endpoint::parse("https://push.example/b").expect("valid"));
        for (key, is_its) in [
            (format!("origin#https://push.example#acme#{}", own.as_str()), true),
            (format!("origin#https://push.example#acme#{}#7", own.as_str()), true),
            (format!("https://push.example#acme#{}", own.as_str()), true),
            (format!("https://push.example#other#{}", own.as_str()), false),
            (format!("https://push.example#acme#{}", other.as_str()), false),
        ] {
            assert_eq!(it.is_in_key(Some(&key)), is_its, "{key}");
        }
        assert_eq!(format!("{it:?}"), "Person(redacted)");
    }
}
