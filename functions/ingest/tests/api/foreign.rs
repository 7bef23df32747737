//! Every route with every foreign credential: no tenant reads or writes another's data.

use redial_core::erasure::Subject;
use serde_json::json;

use crate::api::{Api, bearer};
use crate::routes::{ID, furnished, routes};

/// Everything that is stored for acme.
fn of_acme(api: &Api) -> Vec<String> {
    let state = api.memory.state();
    let is_acme = |tenant: &str| tenant == "acme";
    let deliveries = state.ledger.values().filter(|it| is_acme(it.key.tenant.as_str()));
    let subscriptions = state.subscriptions.values().filter(|it| is_acme(it.key.tenant.as_str()));
    let queued = state.outbox.iter().filter(|it| it.tenant.as_ref().is_some_and(|it| is_acme(it.as_str())));
    let deleted = state.tombstones.keys().filter(|key| is_acme(key.tenant.as_str()));
    let acknowledged = state.acknowledged.keys().filter(|(key, _)| is_acme(key.tenant.as_str()));
    let mut all: Vec<String> = deliveries.map(|it| format!("{it:?}")).collect();
    all.extend(subscriptions.map(|it| format!("{it:?}")));
    all.extend(queued.map(|it| it.body.clone()));
    all.extend(deleted.map(ToString::to_string));
    all.extend(state.erasures.keys().filter(|(of, _)| is_acme(of.as_str())).map(|key| format!("{key:?}")));
    let erased = state
        .erased
        .iter()
        .filter(|it| matches!(it, Subject::Subscription(key) if is_acme(key.tenant.as_str())));
    all.extend(erased.map(|subject| match subject {
        Subject::Subscription(key) => format!("erased {key}"),
        Subject::Ref(..) => "an erased ref".to_owned(),
    }));
    all.extend(acknowledged.map(|(key, event)| format!("{key} {event:?}")));
    all.sort();
    all
}

#[test]
fn a_foreign_key_reads_and_changes_nothing_of_acme() {
    for n in 0..routes(&Api::new(), "other", ID).len() {
        let api = furnished();
        let before = of_acme(&api);
        let route = &routes(&api, "other", ID)[n];
        let answer = route.send(&api, &Api::other());
        let expected = match (route.method, route.pattern) {
            ("GET", "/v1/messages/{id}" | "/v1/erasures/{id}") => 404,
            ("GET" | "DELETE", "/v1/subscriptions/{id}") => 404,
            // The same id, of its own tenant's.
            ("POST", "/v1/messages" | "/v1/acks" | "/v1/erasures") => 202,
            ("PUT" | "POST", _) => 201,
            _ => 200,
        };
        assert_eq!(answer.status, expected, "{route:?}: {}", answer.text);
        assert_eq!(of_acme(&api), before, "{route:?}");
        assert!(!answer.text.contains("acme"), "{route:?}: {}", answer.text);
    }
}

#[test]
fn a_request_cannot_name_another_tenant() {
    let api = furnished();
    let before = api.snapshot();
    let message = json!({"tenant": "acme", "id": "m2", "to": {"subscription": ID}}).to_string();
    for (path, body) in
        [("/v1/messages", message.as_str()), ("/v1/subscription-tokens", r#"{"tenant":"acme"}"#)]
    {
        let answer = api.send("POST", path, &Api::other(), body);
        assert_eq!((answer.status, answer.fields()), (422, vec!["tenant".to_owned()]));
    }
    assert_eq!(api.snapshot(), before);
}

#[test]
fn a_foreign_token_applies_to_its_own_tenant() {
    let api = furnished();
    let before = of_acme(&api);
    let shown = bearer(&api.token("other", ID, &[], 60));
    // What is stored comes after what is read and deleted.
    for route in routes(&api, "other", ID).iter().rev().filter(|route| !route.scopes.is_empty()) {
        let expected = match (route.method, route.pattern) {
            ("GET" | "DELETE", "/v1/subscriptions/{id}") => 404,
            ("PUT", "/v1/subscriptions/{id}") => 201,
            _ => 403,
        };
        assert_eq!(route.send(&api, &shown).status, expected, "{route:?}");
    }
    assert_eq!(of_acme(&api), before);
}
