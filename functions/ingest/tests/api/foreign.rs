//! Every route with every foreign credential: no tenant reads or writes another's data.

use http::Method;
use ingest::router::Operation;
use serde_json::{Value, json};

use crate::api::{Answer, Api, bearer, document};

fn furnished() -> Api {
    let api = Api::new();
    assert_eq!(api.put("/v1/subscriptions/s1", &document("acme-s-endpoint")).status.as_u16(), 201);
    let message = json!({"id": "m1", "to": {"subscription": "s1"}, "payload": "of acme"});
    assert_eq!(api.post("/v1/messages", &message).status.as_u16(), 202);
    api
}

/// Everything that is stored for acme.
fn of_acme(api: &Api) -> Vec<String> {
    let state = api.world.state();
    let acme = "acme";
    let deliveries = state.ledger.values().filter(|it| it.key.tenant.as_str() == acme);
    let subscriptions = state.subscriptions.values().filter(|it| it.key.tenant.as_str() == acme);
    let queued = state.outbox.iter().filter(|it| it.tenant.as_ref().is_some_and(|it| it.as_str() == acme));
    let deliveries = deliveries.map(|it| format!("{it:?}"));
    let subscriptions = subscriptions.map(|it| format!("{it:?}"));
    let queued = queued.map(|it| it.body.clone());
    let mut all: Vec<String> = deliveries.chain(subscriptions).chain(queued).collect();
    all.extend(state.tombstones.keys().filter(|key| key.tenant.as_str() == acme).map(ToString::to_string));
    all.extend(state.acknowledged.keys().map(|(key, event)| format!("{key} {event:?}")));
    all.sort();
    all
}

fn body_of(operation: Operation) -> Value {
    match operation {
        Operation::SendMessages => json!({"id": "m1", "to": {"subscription": "s1"}, "payload": "of other"}),
        Operation::CreateSubscription | Operation::PutSubscription => document("other"),
        Operation::CreateToken => json!({"subscription": "s1"}),
        Operation::Acknowledge => json!({"token": "x", "event": "displayed"}),
        Operation::GetMessage
        | Operation::GetSubscription
        | Operation::DeleteSubscription
        | Operation::ListKeys
        | Operation::Health => Value::Null,
    }
}

fn call(api: &Api, operation: Operation, shown: &[(&str, String)]) -> Answer {
    let id = if operation == Operation::GetMessage { "m1" } else { "s1" };
    let path = operation.path().replace("{id}", id);
    let body = body_of(operation).to_string();
    let body = if operation.method() == Method::GET { "" } else { &body };
    api.send(operation.method().as_str(), &path, shown, body)
}

#[test]
fn a_foreign_key_reads_and_changes_nothing_of_acme() {
    for operation in Operation::ALL {
        let api = furnished();
        let before = of_acme(&api);
        let answer = call(&api, operation, &Api::other());
        let expected = match operation {
            Operation::GetMessage | Operation::GetSubscription | Operation::DeleteSubscription => 404,
            // The same id, of its own tenant's.
            Operation::SendMessages => 202,
            Operation::CreateSubscription | Operation::PutSubscription | Operation::CreateToken => 201,
            Operation::Acknowledge => 401,
            Operation::ListKeys | Operation::Health => 200,
        };
        assert_eq!(answer.status.as_u16(), expected, "{operation:?}: {}", answer.text);
        assert_eq!(of_acme(&api), before, "{operation:?}");
        assert!(!answer.text.contains("acme"), "{operation:?}: {}", answer.text);
    }
}

#[test]
fn a_request_cannot_name_another_tenant() {
    let api = furnished();
    let before = api.snapshot();
    let message = json!({"tenant": "acme", "id": "m2", "to": {"subscription": "s1"}});
    let answer = api.send("POST", "/v1/messages", &Api::other(), &message.to_string());
    assert_eq!((answer.status.as_u16(), answer.fields()), (422, vec!["tenant".to_owned()]));
    let answer = api.send("POST", "/v1/subscription-tokens", &Api::other(), r#"{"tenant":"acme"}"#);
    assert_eq!(answer.status.as_u16(), 422);
    assert_eq!(api.snapshot(), before);
}

#[test]
fn a_foreign_token_applies_to_its_own_tenant() {
    let api = furnished();
    let before = of_acme(&api);
    let shown = bearer(&api.token("other", "s1", &[], 60));
    assert_eq!(call(&api, Operation::GetSubscription, &shown).status.as_u16(), 404);
    assert_eq!(call(&api, Operation::DeleteSubscription, &shown).status.as_u16(), 404);
    assert_eq!(call(&api, Operation::PutSubscription, &shown).status.as_u16(), 201);
    for operation in [
        Operation::SendMessages,
        Operation::GetMessage,
        Operation::CreateSubscription,
        Operation::CreateToken,
    ] {
        assert_eq!(call(&api, operation, &shown).status.as_u16(), 403, "{operation:?}");
    }
    assert_eq!(of_acme(&api), before);
}
