//! Subscriptions: stored with consent, renewed, read without their secrets, erased; and their tokens.

use std::time::Duration;

use redial_core::endpoint::Endpoint;
use redial_core::identity::SubscriptionKey;
use redial_core::metric::Metric;
use redial_core::recipient::Recipient;
use redial_core::subscription::{SameEndpoint, Subscription};
use redial_core::time::Timestamp;
use redial_core::webhook::WebhookTarget;
use serde_json::{Value, json};

use crate::api::{AUTH, Api, NOW, P256DH, bearer, document, id, tenant};

fn without_consent(endpoint: &str) -> Value {
    let mut document = document(endpoint);
    document.as_object_mut().expect("an object").remove("consent");
    document
}

#[test]
fn a_new_subscription_needs_consent_and_its_secrets_are_never_returned() {
    let api = Api::new();
    let answer = api.put("/v1/subscriptions/s1", &without_consent("a"));
    answer.is_problem(422, "invalid", "");
    assert_eq!(answer.fields(), ["consent"]);
    assert!(api.memory.state().subscriptions.is_empty());

    let mut handed_in = document("a");
    handed_in["tags"] = json!(["sport", "news"]);
    handed_in["time_zone"] = json!("Asia/Kathmandu");
    let answer = api.put("/v1/subscriptions/s1", &handed_in);
    assert_eq!(answer.status, 201);
    let body = answer.json();
    let renewal = body["renewal"].clone();
    assert_eq!(renewal["expires_at"], "2027-07-14T08:00:00.000Z");
    let expected = json!({
        "subscription": "s1", "state": "active", "vapid_key_id": null, "endpoint_hash": body["endpoint_hash"],
        "endpoint_origin_class": "other", "tags": ["news", "sport"], "time_zone": "Asia/Kathmandu", "last_seen_at": "2027-01-15T08:00:00.000Z",
        "created_at": "2027-01-15T08:00:00.000Z", "ends_at": null, "renewal": renewal,
        "consent": {"at": "2027-01-15T07:00:00.000Z", "prompt_version": "v3", "action": "granted", "origin": "https://shop.example"},
    });
    assert_eq!(body, expected);
    let got = api.get("/v1/subscriptions/s1");
    let mut expected = expected;
    expected.as_object_mut().expect("an object").remove("renewal");
    assert_eq!((got.status, got.json()), (200, expected));
    for secret in ["push.example", P256DH, AUTH] {
        for text in [&got.text, &answer.text, &api.logged()] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn a_renewal_keeps_the_consent_and_moves_to_a_new_endpoint() {
    let api = Api::new();
    let first = api.put("/v1/subscriptions/s1", &document("a")).json();
    api.memory.pass(Duration::from_secs(60));
    let mut elsewhere = without_consent("b");
    elsewhere["time_zone"] = json!("Mars/Olympus");
    let refused = api.put("/v1/subscriptions/s1", &elsewhere);
    refused.is_problem(422, "invalid", "");
    assert_eq!(refused.fields(), ["time_zone"]);
    elsewhere["time_zone"] = json!("America/New_York");
    assert_eq!(first["time_zone"], json!(null));
    let renewed = api.put("/v1/subscriptions/s1", &elsewhere);
    assert_eq!(renewed.status, 200);
    let renewed = renewed.json();
    assert_eq!(renewed["time_zone"], "America/New_York");
    assert_eq!(renewed["consent"], first["consent"]);
    assert_ne!(renewed["endpoint_hash"], first["endpoint_hash"]);
    assert_eq!(renewed["last_seen_at"], "2027-01-15T08:01:00.000Z");
}

#[test]
fn a_subscription_without_an_id_gets_one() {
    let api = Api::new();
    let answer = api.put("/v1/subscriptions", &document("a"));
    assert_eq!(answer.status, 201);
    let made = answer.json()["subscription"].as_str().expect("an id").to_owned();
    assert!(made.starts_with("s_") && made.len() == 24, "{made}");
    let key = SubscriptionKey { tenant: tenant("acme"), id: id(&made) };
    assert!(api.memory.state().subscriptions.contains_key(&key));
}

#[test]
fn deleting_leaves_a_tombstone_and_can_be_repeated() {
    let api = Api::new();
    api.put("/v1/subscriptions/s1", &document("a"));

    for _ in 0..2 {
        let answer = api.delete("/v1/subscriptions/s1");
        assert_eq!((answer.status, answer.text.as_str()), (204, ""));
    }
    assert!(api.memory.state().subscriptions.is_empty());
    let gone = api.get("/v1/subscriptions/s1");
    gone.is_problem(410, "subscription_deleted", "");
    assert_eq!(gone.json()["deleted_at"], "2027-01-15T08:00:00.000Z");
    assert_eq!(api.delete("/v1/subscriptions/s2").status, 404);
    assert_eq!(api.put("/v1/subscriptions/s1", &without_consent("a")).status, 422);
    assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
    assert_eq!(api.get("/v1/subscriptions/s1").status, 200);
}

#[test]
fn an_endpoint_under_a_second_id_replaces_the_first_one() {
    let api = Api::new();
    assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
    assert_eq!(api.put("/v1/subscriptions/s2", &document("a")).status, 201);
    api.get("/v1/subscriptions/s1").is_problem(410, "subscription_deleted", "");
    assert_eq!(api.get("/v1/subscriptions/s2").json()["state"], "active");
    assert_eq!(api.memory.state().subscriptions.len(), 1);
}

#[test]
fn an_endpoint_under_a_second_id_is_refused_where_the_stack_says_so() {
    let api = Api::with(|settings| settings.same_endpoint = SameEndpoint::Refuse);
    assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
    let before = api.snapshot();
    let refused = api.put("/v1/subscriptions/s2", &document("a"));
    refused.is_problem(409, "endpoint_taken", "");
    assert!(!refused.text.contains("s1"), "the answer names no other subscription");
    assert_eq!(api.snapshot(), before);
    assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 200, "its own");
}

#[test]
fn the_same_browser_without_an_id_again_is_a_renewal_where_a_second_id_is_refused() {
    let api = Api::with(|settings| settings.same_endpoint = SameEndpoint::Refuse);
    let first = api.put("/v1/subscriptions", &document("a"));
    api.memory.pass(Duration::from_secs(60));
    let mut tagged = document("a");
    tagged["tags"] = json!(["news"]);
    let again = api.put("/v1/subscriptions", &tagged);
    assert_eq!((first.status, again.status), (201, 200));
    let (first, again) = (first.json(), again.json());
    assert_eq!(again["subscription"], first["subscription"]);
    assert_eq!((&again["created_at"], &again["tags"]), (&first["created_at"], &json!(["news"])));
    assert_eq!(again["last_seen_at"], "2027-01-15T08:01:00.000Z");
    assert!(again["renewal"]["token"].is_string());
    // The keys show that it is the same browser: the endpoint alone does not.
    let before = api.snapshot();
    let mut other_keys = document("a");
    other_keys["keys"]["auth"] = json!("AAAAAAAAAAAAAAAAAAAAAA");
    api.put("/v1/subscriptions", &other_keys).is_problem(409, "endpoint_taken", "");
    // An id of the caller's own, or a browser's token, which is for one.
    api.put("/v1/subscriptions/s2", &document("a")).is_problem(409, "endpoint_taken", "");
    let shown = bearer(&api.token("acme", "s3", &[], 600));
    let by_token = api.send("PUT", "/v1/subscriptions/s3", &shown, &document("a").to_string());
    by_token.is_problem(409, "endpoint_taken", "");
    assert_eq!(api.snapshot(), before);
    let other = api.send("PUT", "/v1/subscriptions", &Api::other(), &document("a").to_string());
    assert_eq!(other.status, 201, "another tenant has its own");
    assert_ne!(other.json()["subscription"], again["subscription"]);
}

#[test]
fn an_endpoint_counts_as_replaced_only_where_a_subscription_had_it() {
    let api = Api::new();
    let replaced = || api.memory.state().counts.get(&Metric::EndpointsReplaced).copied().unwrap_or_default();
    assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
    assert_eq!(api.delete("/v1/subscriptions/s1").status, 204);
    assert_eq!(api.put("/v1/subscriptions/s2", &document("a")).status, 201);
    assert_eq!(replaced(), 0, "there was none to replace");
    assert_eq!(api.put("/v1/subscriptions/s3", &document("a")).status, 201);
    assert_eq!(replaced(), 1);
    assert_eq!(api.put("/v1/subscriptions/s3", &document("a")).status, 200);
    assert_eq!(replaced(), 1, "its own");
}

#[test]
fn a_subscription_is_expired_from_the_time_that_its_browser_named() {
    let api = Api::new();
    let until = |ms: u64| {
        let mut document = document("a");
        document["expirationTime"] = json!(ms);
        api.put("/v1/subscriptions/s1", &document)
    };
    let over = until(1_000);
    over.is_problem(422, "invalid", "");
    assert_eq!(over.fields(), ["expirationTime"]);
    let stored = until(1_800_000_060_000).json();
    assert_eq!(
        (&stored["state"], &stored["ends_at"]),
        (&json!("active"), &json!("2027-01-15T08:01:00.000Z"))
    );
    api.memory.pass(Duration::from_secs(60));
    assert_eq!(api.get("/v1/subscriptions/s1").json()["state"], "expired");
}

#[test]
fn a_webhook_is_never_returned_replaced_or_erased() {
    let api = Api::new();
    let key = SubscriptionKey { tenant: tenant("acme"), id: id("w1") };
    let endpoint = Endpoint::parse("https://hooks.example/secret-path").expect("valid");
    let webhook = Subscription::new(key.clone(), Recipient::Webhook(WebhookTarget::at(endpoint)));
    api.memory.state().subscriptions.insert(key, webhook);
    let before = api.snapshot();
    for (method, body) in [("GET", ""), ("DELETE", ""), ("PUT", document("a").to_string().as_str())] {
        let answer = api.send(method, "/v1/subscriptions/w1", &Api::acme(), body);
        answer.is_problem(409, "is_a_webhook", method);
        assert!(!answer.text.contains("hooks.example"));
    }
    for wanted in [json!({"subscription": "w1"}), json!({"subscription": "w1", "ref": "user 7"})] {
        api.post("/v1/erasures", &wanted).is_problem(409, "is_a_webhook", &wanted);
    }
    assert_eq!(api.snapshot(), before);
}

#[test]
fn a_browser_subscribes_renews_and_unsubscribes_with_its_tokens() {
    let api = Api::new();
    let wish = json!({"subscription": "s1", "tags": ["news", "sport"], "expires_in": 60});
    let answer = api.post("/v1/subscription-tokens", &wish);
    let token = answer.json();
    assert_eq!((answer.status, &token["subscription"]), (201, &json!("s1")));
    assert_eq!(token["expires_at"], "2027-01-15T08:01:00.000Z");
    let call = |method, token: &Value, document: Value| {
        let shown = bearer(token["token"].as_str().expect("a token"));
        api.send(method, "/v1/subscriptions/s1", &shown, &document.to_string())
    };
    let tagged = |mut document: Value, tags: &[&str]| {
        document["tags"] = json!(tags);
        document
    };
    let stored = call("PUT", &token, tagged(document("a"), &["news"]));
    assert_eq!(stored.status, 201);
    assert_eq!(call("GET", &token, Value::Null).status, 200);
    call("PUT", &token, tagged(document("a"), &["news", "vip"])).is_problem(403, "forbidden", "");

    // The first token has expired; the renewal token has not, and has the same tags.
    api.memory.pass(Duration::from_secs(61));
    assert_eq!(call("GET", &token, Value::Null).status, 401);
    let renewal = &stored.json()["renewal"];
    api.memory.pass(Duration::from_secs(179 * 86_400));
    let renewed = call("PUT", renewal, tagged(without_consent("b"), &["sport"]));
    assert_eq!((renewed.status, &renewed.json()["tags"]), (200, &json!(["sport"])));
    assert_eq!(call("DELETE", renewal, Value::Null).status, 204);
    assert_eq!(call("GET", renewal, Value::Null).status, 410);
}

#[test]
fn a_token_without_an_id_gets_one() {
    let api = Api::new();
    let token = api.post("/v1/subscription-tokens", &json!({})).json();
    assert_eq!(token["expires_at"], "2027-01-15T08:10:00.000Z");
    let text = token["token"].as_str().expect("a token");
    let read = api.settings.token_keys.read_subscription(text, Timestamp::from_secs(NOW)).expect("a token");
    assert_eq!(read.subscription.as_str(), token["subscription"].as_str().expect("an id"));
    assert_eq!(read.tenant.as_str(), "acme");
    for (wish, field) in [
        (json!({"expires_in": 59}), "expires_in"),
        (json!({"expires_in": 3601}), "expires_in"),
        (json!({"renewable_for": 59}), "renewable_for"),
        (json!({"renewable_for": 15_552_001}), "renewable_for"),
        (json!({"tags": ["A"]}), "tags[0]"),
        (json!({"tags": ["a", "a"]}), "tags"),
        (json!({"subscription": "a b"}), "subscription"),
        (json!({"tenant": "other"}), "tenant"),
    ] {
        let answer = api.post("/v1/subscription-tokens", &wish);
        assert_eq!((answer.status, answer.fields()), (422, vec![field.to_owned()]), "{wish}");
    }
}

#[test]
fn an_unusable_subscription_is_refused_with_its_fields() {
    let api = Api::new();
    let beside = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw8";
    let change = |pointer: &str, value: Value| {
        let mut document = document("a");
        *document.pointer_mut(pointer).expect("a field") = value;
        document
    };
    for (handed_in, field) in [
        (change("/endpoint", json!("https://elsewhere.example/x")), "endpoint"),
        (change("/endpoint", json!("http://push.example/x")), "endpoint"),
        (change("/keys/p256dh", json!(beside)), "keys.p256dh"),
        (change("/keys/auth", json!("x")), "keys.auth"),
        (change("/consent/origin", json!("http://shop.example")), "consent.origin"),
    ] {
        let answer = api.put("/v1/subscriptions/s1", &handed_in);
        assert_eq!((answer.status, answer.fields()), (422, vec![field.to_owned()]), "{handed_in}");
    }
    let answer = api.put("/v1/subscriptions/a%20b", &document("a"));
    assert_eq!((answer.status, answer.fields()), (422, vec!["id".to_owned()]));
    assert!(api.memory.state().subscriptions.is_empty());
}
