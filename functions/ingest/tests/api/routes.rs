//! Every route with a valid request of it.

use ingest::router;
use redial_core::access::Scope;
use redial_core::erasure::{Erasure, ErasureId};
use redial_core::time::Timestamp;
use redial_memory::Memory;
use serde_json::{Value, json};

use crate::api::{Answer, Api, Headers, NOW, document, id, tenant};

/// The subscription, the message and the erasure that [`furnished`] stores.
pub(crate) const ID: &str = "x1";

/// The API with a subscription, a message and an erasure of acme's.
pub(crate) fn furnished() -> Api {
    let api = Api::new();
    assert_eq!(api.put(&format!("/v1/subscriptions/{ID}"), &document("acme-s-endpoint")).status, 201);
    let message = json!({"id": ID, "to": {"subscription": ID}, "payload": "of acme"});
    assert_eq!(api.post("/v1/messages", &message).status, 202);
    let of = tenant("acme");
    let erasure = Erasure {
        id: ErasureId::parse(ID).expect("an id"),
        ..Erasure::new(of.clone(), Some(id("gone")), None, Timestamp::from_secs(NOW))
    };
    api.memory.state().erasures.insert((of, erasure.id.clone()), erasure);
    api
}

#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) pattern: &'static str,
    /// Any of these suffices; none: no key is needed.
    pub(crate) scopes: &'static [Scope],
    /// `Null`: it has none.
    pub(crate) body: Value,
}

impl Route {
    pub(crate) fn is(&self, method: &str, pattern: &str) -> bool {
        (self.method, self.pattern) == (method, pattern)
    }

    /// Of what [`furnished`] stores.
    pub(crate) fn path(&self) -> String {
        let query = if self.is("GET", "/v1/messages") { "?state=retrying" } else { "" };
        self.pattern.replace("{id}", ID) + query
    }

    pub(crate) fn has_body(&self) -> bool {
        !self.body.is_null()
    }

    /// The body's text, `marker` replaced.
    pub(crate) fn body(&self) -> String {
        if self.has_body() { self.body.to_string() } else { String::new() }
    }

    pub(crate) fn send(&self, api: &Api, headers: &Headers) -> Answer {
        api.send(self.method, &self.path(), headers, &self.body())
    }
}

/// Every route; bodies have `text` in every text. Acknowledges a message of `tenant`.
pub(crate) fn routes(api: &Api, tenant: &str, text: &str) -> [Route; 14] {
    let message = json!({"id": text, "to": {"subscription": text}, "payload": text, "ref": text});
    let mut subscription = document(text);
    subscription["consent"]["prompt_version"] = text.into();
    let ack = json!({"token": api.ack_token(tenant, ID, 60), "event": "displayed"});
    router::routes::<Memory>().map(|(method, pattern, _)| {
        let (scopes, body): (&[Scope], _) = match (method, pattern) {
            ("POST", "/v1/messages") => (&[Scope::Send], message.clone()),
            ("GET", "/v1/messages" | "/v1/messages/{id}") => (&[Scope::Read], Value::Null),
            ("DELETE", "/v1/messages/{id}") => (&[Scope::Send], Value::Null),
            ("PUT", "/v1/subscriptions" | "/v1/subscriptions/{id}") => {
                (&[Scope::Subscribe], subscription.clone())
            }
            ("GET", "/v1/subscriptions/{id}") => (&[Scope::Read, Scope::Subscribe], Value::Null),
            ("DELETE", "/v1/subscriptions/{id}") => (&[Scope::Subscribe], Value::Null),
            ("POST", "/v1/subscription-tokens") => (&[Scope::Subscribe], json!({"subscription": text})),
            ("POST", "/v1/erasures") => (&[Scope::Subscribe], json!({"subscription": text})),
            ("GET", "/v1/erasures/{id}") => (&[Scope::Read], Value::Null),
            ("POST", "/v1/acks") => (&[], ack.clone()),
            ("GET", "/v1/keys" | "/v1/health") => (&[], Value::Null),
            _ => panic!("{method} {pattern} is not in this table"),
        };
        Route { method, pattern, scopes, body }
    })
}
