//! What ends a browser's tokens: deletion, revocation, the tags that a sender removed, and the end that they were first given.

use std::time::Duration;

use redial_core::access::Scope;
use redial_core::time::Timestamp;
use serde_json::{Value, json};

use crate::api::{Answer, Api, NOW, bearer, document, key};

const DAY: Duration = Duration::from_secs(86_400);

fn text(token: &Value) -> &str {
    token["token"].as_str().expect("a token")
}

/// Sends a request about `s1` with a token.
fn call(api: &Api, method: &str, token: &Value, body: &Value) -> Answer {
    api.send(method, "/v1/subscriptions/s1", &bearer(text(token)), &body.to_string())
}

/// None of these tokens reads or changes anything any more.
#[track_caller]
fn are_refused(api: &Api, tokens: &[(&str, &Value)]) {
    let before = api.snapshot();
    for (what, token) in tokens {
        for method in ["PUT", "GET", "DELETE"] {
            call(api, method, token, &document("b")).is_problem(
                401,
                "unauthorized",
                format!("{method} {what}"),
            );
        }
    }
    assert_eq!(api.snapshot(), before);
}

/// A token that a sender's server made for `s1`.
fn made(api: &Api, tags: &[&str]) -> Value {
    let answer = api.post("/v1/subscription-tokens", &json!({"subscription": "s1", "tags": tags}));
    assert_eq!(answer.status, 201, "{}", answer.text);
    api.memory.pass(Duration::from_secs(1));
    answer.json()
}

fn tagged(endpoint: &str, tags: &[&str]) -> Value {
    let mut document = document(endpoint);
    document["tags"] = json!(tags);
    document
}

/// Subscribes `s1` with a token for these tags, and returns that token and the renewal token.
fn subscribed(api: &Api, endpoint: &str, tags: &[&str]) -> (Value, Value) {
    let token = made(api, tags);
    let answer = call(api, "PUT", &token, &tagged(endpoint, tags));
    assert_eq!(answer.status, 201, "{}", answer.text);
    (token, answer.json()["renewal"].clone())
}

#[test]
fn a_token_ends_with_the_subscription_that_it_was_for() {
    let api = Api::new();
    let (first, renewal) = subscribed(&api, "a", &["news"]);
    api.memory.pass(Duration::from_secs(1));
    assert_eq!(api.delete("/v1/subscriptions/s1").status, 204);
    api.memory.pass(Duration::from_secs(1));
    for (what, token) in [("first", &first), ("renewal", &renewal)] {
        call(&api, "PUT", token, &document("b")).is_problem(401, "unauthorized", what);
    }
    assert!(api.memory.state().subscriptions.is_empty());

    let (second, _) = subscribed(&api, "c", &["news"]);
    are_refused(&api, &[("first", &first), ("renewal", &renewal)]);
    assert_eq!(call(&api, "GET", &second, &Value::Null).status, 200);
}

#[test]
fn a_renewal_token_begins_no_subscription_in_place_of_a_pruned_one() {
    let api = Api::new();
    let (first, renewal) = subscribed(&api, "a", &[]);
    // As cleanup does once the endpoint is gone: without a tombstone.
    api.memory.state().subscriptions.clear();
    call(&api, "PUT", &renewal, &document("b")).is_problem(401, "unauthorized", "");
    assert!(api.memory.state().subscriptions.is_empty());
    assert_eq!(call(&api, "PUT", &first, &document("b")).status, 201, "its sender made it just now");
}

#[test]
fn a_token_ends_when_the_key_that_made_it_is_revoked() {
    let api = Api::new();
    api.store(key(3), "acme", &[Scope::Subscribe], |_| {});
    let of_third = bearer(&key(3).expose());
    let wish = json!({"subscription": "s1"}).to_string();
    let token = api.send("POST", "/v1/subscription-tokens", &of_third, &wish).json();
    let renewal = call(&api, "PUT", &token, &document("a")).json()["renewal"].clone();
    let second = call(&api, "PUT", &renewal, &document("a")).json()["renewal"].clone();
    let of_a_put = api.send("PUT", "/v1/subscriptions/s1", &of_third, &document("a").to_string());
    let of_a_put = of_a_put.json()["renewal"].clone();
    let end = |change: fn(&mut redial_core::access::StoredKey)| {
        change(api.memory.state().access_keys.get_mut(key(3).id()).expect("it is stored"));
    };
    end(|stored| stored.expires_at = Some(Timestamp::from_secs(NOW)));
    assert_eq!(
        call(&api, "GET", &renewal, &Value::Null).status,
        200,
        "an expired key made it while it was valid"
    );
    end(|stored| stored.revoked_at = Some(Timestamp::from_secs(NOW)));
    are_refused(
        &api,
        &[("first", &token), ("renewal", &renewal), ("second", &second), ("of a put", &of_a_put)],
    );
    assert_eq!(api.get("/v1/subscriptions/s1").status, 200, "another key's rights are its own");
}

#[test]
fn renewals_end_180_days_after_their_sender_made_the_first_token() {
    let api = Api::new();
    let (_, mut renewal) = subscribed(&api, "a", &[]);
    let end = renewal["expires_at"].clone();
    assert_eq!(end, "2027-07-14T08:00:00.000Z");
    for _ in 0..3 {
        api.memory.pass(DAY * 59);
        let answer = call(&api, "PUT", &renewal, &document("a"));
        assert_eq!(answer.status, 200, "{}", answer.text);
        renewal = answer.json()["renewal"].clone();
        assert_eq!(renewal["expires_at"], end);
    }
    api.memory.pass(DAY * 3);
    call(&api, "PUT", &renewal, &document("a")).is_problem(401, "unauthorized", "");
    assert_eq!(api.get("/v1/subscriptions/s1").status, 200, "the subscription itself stays");
}

#[test]
fn tags_that_a_sender_removed_do_not_come_back_by_a_token() {
    let api = Api::new();
    let (first, renewal) = subscribed(&api, "a", &["news", "vip"]);
    let late = made(&api, &["news", "vip"]);
    api.memory.pass(Duration::from_secs(1));
    assert_eq!(api.put("/v1/subscriptions/s1", &tagged("a", &["news"])).status, 200);
    api.memory.pass(Duration::from_secs(1));
    let with_first = call(&api, "PUT", &first, &tagged("a", &["news"]));
    with_first.is_problem(
        401,
        "unauthorized",
        "it began a subscription on which its sender has decided since",
    );
    for (what, token) in [("renewal", &renewal), ("late", &late)] {
        let answer = call(&api, "PUT", token, &tagged("a", &["news", "vip"]));
        answer.is_problem(403, "forbidden", what);
        let renewed = call(&api, "PUT", token, &tagged("a", &["news"]));
        assert_eq!(renewed.status, 200, "{what}");
        let renewed = renewed.json()["renewal"].clone();
        call(&api, "PUT", &renewed, &tagged("a", &["news", "vip"])).is_problem(403, "forbidden", what);
    }
    // The sender's server permits it again.
    let newer = made(&api, &["vip"]);
    let answer = call(&api, "PUT", &newer, &tagged("a", &["vip"]));
    assert_eq!((answer.status, &answer.json()["tags"]), (200, &json!(["vip"])));
    call(&api, "PUT", &renewal, &tagged("a", &["news"])).is_problem(
        403,
        "forbidden",
        "replaced by the newer",
    );
}

#[test]
fn a_sender_sets_for_how_long_a_browser_renews() {
    let api = Api::new();
    let wish = json!({"subscription": "s1", "expires_in": 60, "renewable_for": 3600});
    let token = api.post("/v1/subscription-tokens", &wish).json();
    let stored = call(&api, "PUT", &token, &document("a")).json();
    assert_eq!(stored["renewal"]["expires_at"], "2027-01-15T09:00:00.000Z");
}
