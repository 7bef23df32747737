//! Every route with every invalid credential, and with bodies that are malformed, too long or of another type: the right status, nothing
//! changed, nothing leaked.

use redial_core::access::{ApiKey, Scope, SubscriptionToken};
use redial_core::time::Timestamp;
use serde_json::{Value, json};

use crate::api::{Answer, Api, Headers, NOW, bearer, id, json_type, key, tenant, token_keys};
use crate::routes::{self, ID, Route};

/// Is in every input, and must be in no response and no log line.
const MARKER: &str = "m4rk3r-7Hq2";

/// With keys of acme's that are revoked, expired, of one scope each, and of none.
fn furnished() -> Api {
    let api = routes::furnished();
    let now = Timestamp::from_secs(NOW);
    api.store(key(10), "acme", &Scope::ALL, |it| it.revoked_at = Some(now));
    api.store(key(11), "acme", &Scope::ALL, |it| it.expires_at = Some(now));
    for scope in Scope::ALL {
        api.store(key(20 + scope as u8), "acme", &[scope], |_| {});
    }
    api.store(key(30), "acme", &[], |_| {});
    api
}

fn with_scope(scope: Scope) -> Vec<(&'static str, String)> {
    bearer(&key(20 + scope as u8).expose())
}

fn routes(api: &Api) -> [Route; 14] {
    routes::routes(api, "acme", MARKER)
}

/// Checks each route on an API of its own, which it leaves unchanged.
fn unchanged_by(wanted: impl Fn(&Route) -> bool, check: impl Fn(&Api, &Route)) {
    for n in 0..routes(&Api::new()).len() {
        let api = furnished();
        let route = &routes(&api)[n];
        if wanted(route) {
            let before = api.snapshot();
            check(&api, route);
            assert_eq!(api.snapshot(), before, "{route:?}");
        }
    }
}

fn call(api: &Api, route: &Route, headers: &Headers, body: &str) -> Answer {
    let marked = [headers, &[("x-marker", MARKER.to_owned()), ("cookie", MARKER.to_owned())]].concat();
    let path = route.path();
    let path = format!("{path}{}q={MARKER}", if path.contains('?') { '&' } else { '?' });
    let answer = if headers.iter().any(|(name, _)| *name == "content-type") {
        api.answer(Api::request(route.method, &path, &marked, body.to_owned()))
    } else {
        api.send(route.method, &path, &marked, body)
    };
    // The response to an accepted request contains its id.
    let was_taken = matches!(answer.status, 200..207);
    assert!(was_taken || !answer.text.contains(MARKER), "{route:?}: {}", answer.text);
    assert!(!format!("{:?}", answer.headers).contains(MARKER), "{route:?}: {:?}", answer.headers);
    assert!(!api.logged().contains(MARKER), "{route:?}: {}", api.logged());
    answer
}

/// Invalid credentials, and why they are invalid.
fn invalid_credentials(api: &Api) -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let good = key(1).expose();
    let mut forged = [1; ApiKey::RANDOM_BYTES];
    forged[63] = 9;
    let forged = ApiKey::generate(&forged);
    assert_eq!(forged.id(), key(1).id());
    let token = SubscriptionToken {
        tenant: tenant("acme"),
        subscription: id(ID),
        tags: Default::default(),
        expires_at: Timestamp::from_secs(NOW + 60),
        issued_at: Some(Timestamp::from_secs(NOW)),
        renewable_until: Some(Timestamp::from_secs(NOW + 60)),
        issuer: Some(key(1).id().clone()),
    };
    let of = |issuer: u8, tenant: &str| SubscriptionToken {
        tenant: self::tenant(tenant),
        issuer: Some(key(issuer).id().clone()),
        ..token.clone()
    };
    vec![
        ("none", Vec::new()),
        ("garbage", bearer(MARKER)),
        ("an empty scheme", vec![("authorization", "Bearer".to_owned())]),
        ("an empty bearer", bearer("")),
        ("another scheme", vec![("authorization", format!("Basic {MARKER}"))]),
        ("a key without its scheme", vec![("authorization", good.clone())]),
        ("a key that was cut", bearer(&good[..good.len() - 1])),
        ("a key and more", bearer(&format!("{good} {MARKER}"))),
        ("two", [bearer(&good), bearer(MARKER)].concat()),
        ("another secret under a known id", bearer(&forged.expose())),
        ("an unknown key", bearer(&key(99).expose())),
        ("a revoked key", bearer(&key(10).expose())),
        ("an expired key", bearer(&key(11).expose())),
        ("an expired token", bearer(&api.token("acme", ID, &[], 0))),
        ("a token of other keys", bearer(&token_keys(8).subscription(&token))),
        ("a token of a revoked key", bearer(&api.settings.token_keys.subscription(&of(10, "acme")))),
        ("a token of an unknown key", bearer(&api.settings.token_keys.subscription(&of(99, "acme")))),
        ("a token of another tenant's key", bearer(&api.settings.token_keys.subscription(&of(2, "acme")))),
        ("a message's token", bearer(&api.ack_token("acme", ID, 60))),
        ("a garbled token", bearer(&format!("rds_k1.{MARKER}.{MARKER}"))),
        ("bytes that are not ASCII", vec![("authorization", "Bearer \u{e9}".to_owned())]),
    ]
}

#[test]
fn every_invalid_credential_gets_the_same_401() {
    let api = furnished();
    let before = api.snapshot();
    let mut first = None;
    for route in routes(&api).iter().filter(|route| !route.scopes.is_empty()) {
        for (what, headers) in invalid_credentials(&api) {
            for body in [route.body().as_str(), "", "{", "[]", &"x".repeat(2_000_000)] {
                let answer = call(&api, route, &headers, body);
                answer.is_problem(401, "unauthorized", format!("{route:?}, {what}"));
                assert_eq!(answer.headers["www-authenticate"], "Bearer");
                assert_eq!(*first.get_or_insert(answer.text.clone()), answer.text, "{route:?}, {what}");
            }
        }
    }
    assert_eq!(api.snapshot(), before);
}

#[test]
fn a_key_without_the_scope_or_a_token_for_another_id_gets_403() {
    let api = furnished();
    let before = api.snapshot();
    for route in routes(&api).iter().filter(|route| !route.scopes.is_empty()) {
        let lacking = Scope::ALL.into_iter().filter(|scope| !route.scopes.contains(scope));
        let mut shown: Vec<_> = lacking.map(with_scope).collect();
        shown.push(bearer(&key(30).expose()));
        shown.push(bearer(&api.token("acme", "s2", &[], 60)));
        if !route.pattern.contains("subscriptions/{id}") {
            shown.push(bearer(&api.token("acme", ID, &[], 60)));
        }
        for headers in shown {
            call(&api, route, &headers, &route.body()).is_problem(403, "forbidden", format!("{route:?}"));
        }
    }
    assert_eq!(api.snapshot(), before);
}

#[test]
fn each_accepted_scope_suffices_alone() {
    for n in 0..routes(&Api::new()).len() {
        for scope in routes(&Api::new())[n].scopes {
            let api = furnished();
            let route = &routes::routes(&api, "acme", "x")[n];
            let answer = call(&api, route, &with_scope(*scope), &route.body());
            assert!(answer.status < 300, "{route:?}, {scope}: {answer:?}");
        }
    }
}

/// Bodies of the right length and type that are invalid for every route.
fn malformed() -> Vec<String> {
    let invalid = r#"{ } null true 7 "x" [1] {"a":} [[]] {"a":1,"a":2} {"to":{"to":{}}} {"id":"\ud800"}"#;
    let with_spaces = ["", " ", "{} {}", "\u{feff}{}"];
    let mut all: Vec<String> = invalid.split(' ').chain(with_spaces).map(str::to_owned).collect();
    all.push(format!("{}{}", "[".repeat(5_000), "]".repeat(5_000)));
    all.push(json!({"name".repeat(3): 1}).to_string());
    let fields = "id to payload tenant endpoint keys tags consent token event subscription expires_in at";
    for field in fields.split(' ') {
        for value in [json!(MARKER), json!([MARKER]), json!({"x": MARKER}), json!(-1), json!(null)] {
            all.push(json!({field: value}).to_string());
        }
    }
    all
}

#[test]
fn a_malformed_body_gets_422_with_fields_and_no_values() {
    unchanged_by(Route::has_body, |api, route| {
        let of_a_person = json!({"subscription": MARKER}).to_string();
        for body in malformed() {
            // To erase, an id is enough.
            if route.pattern == "/v1/erasures" && body == of_a_person {
                continue;
            }
            let answer = call(api, route, &Api::acme(), &body);
            match (answer.status, route.pattern) {
                // Some of them are valid requests for a token.
                (201, "/v1/subscription-tokens") => {}
                (207, "/v1/messages" | "/v1/acks") => {
                    let items = answer.json()["items"].as_array().expect("items").clone();
                    assert!(items.iter().all(|item| item["status"] == 422), "{body}: {}", answer.text);
                }
                _ => {
                    answer.is_problem(422, "invalid", format!("{route:?}: {body}"));
                    assert!(!answer.fields().is_empty(), "{route:?}: {body}: {}", answer.text);
                }
            }
        }
        let headers = [&Api::acme()[..], &json_type()].concat();
        let bytes = Api::request(route.method, &route.path(), &headers, vec![b'{', 0xff, 0xfe]);
        assert_eq!(api.answer(bytes).status, 422, "{route:?}");
    });
}

#[test]
fn a_body_over_the_limit_gets_413() {
    unchanged_by(Route::has_body, |api, route| {
        let most = if route.pattern == "/v1/messages" { 1_048_576 } else { 16_384 };
        let padded = |n: usize| format!("{{{}", " ".repeat(n - 1));
        for n in [most + 1, 3 * most] {
            let answer = call(api, route, &Api::acme(), &padded(n));
            answer.is_problem(413, "too_large", format!("{route:?}"));
        }
        // Whatever its Content-Length.
        let lying = [&Api::acme()[..], &json_type(), &[("content-length", "2".to_owned())]].concat();
        assert_eq!(call(api, route, &lying, &padded(most + 1)).status, 413, "{route:?}");
        assert_eq!(call(api, route, &Api::acme(), &padded(most)).status, 422, "{route:?}");
    });
}

#[test]
fn a_body_that_is_not_json_gets_415_except_acknowledgements() {
    let is_refused = |route: &Route| route.has_body() && route.pattern != "/v1/acks";
    let types = format!(
        ";text/plain;application/x-www-form-urlencoded;multipart/form-data;application/json, text/html;{MARKER}"
    );
    let with = |media: &str| [Api::acme(), vec![("content-type", media.to_owned())]].concat();
    unchanged_by(is_refused, |api, route| {
        for media in types.split(';') {
            let answer = call(api, route, &with(media), &route.body());
            answer.is_problem(415, "unsupported_media_type", format!("{route:?}: {media}"));
        }
        let untyped = Api::request(route.method, &route.path(), &Api::acme(), route.body());
        assert_eq!(api.answer(untyped).status, 415);
    });
    let api = furnished();
    let acks = routes(&api).into_iter().find(|route| route.pattern == "/v1/acks").expect("a route");
    for media in types.split(';') {
        assert_eq!(call(&api, &acks, &with(media), &acks.body()).status, 202, "{media}");
    }
}

#[test]
fn a_repeated_request_changes_nothing() {
    for n in 0..routes(&Api::new()).len() {
        let api = furnished();
        let route = &routes::routes(&api, "acme", "x")[n];
        // Each request generates an id.
        if route.pattern == "/v1/subscriptions" {
            continue;
        }
        let first = call(&api, route, &Api::acme(), &route.body());
        let before = api.snapshot();
        let again = call(&api, route, &Api::acme(), &route.body());
        if route.is("POST", "/v1/messages") {
            // Queued again: no worker has claimed it yet.
            api.memory.state().outbox.pop();
        }
        if route.is("POST", "/v1/messages") || route.is("POST", "/v1/acks") {
            assert_eq!(again.json()["duplicate"], true);
        } else {
            assert_eq!(again.status, first.status, "{route:?}");
        }
        assert_eq!(api.snapshot(), before, "{route:?}");
    }
}

#[test]
fn other_methods_get_405_with_allow_and_other_paths_404() {
    let api = furnished();
    let before = api.snapshot();
    let all = routes(&api);
    for route in &all {
        let own = all.iter().filter(|it| it.pattern == route.pattern).map(|it| it.method);
        let own: Vec<&str> = own.collect();
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"]
        {
            if own.contains(&method) || (method == "HEAD" && own.contains(&"GET")) {
                continue;
            }
            let answer = api.send(method, &route.path(), &Api::acme(), "{}");
            assert_eq!(answer.status, 405, "{method} {route:?}");
            assert!(answer.text.is_empty() || answer.problem() == "method_not_allowed", "{method} {route:?}");
            let allowed = answer.headers["allow"].to_str().expect("text");
            assert!(own.iter().all(|it| allowed.split(',').any(|name| name == *it)), "{route:?}: {allowed}");
        }
    }
    let unknown = "/ /v1 /v1/ /v2/messages /v1/messages/ /v1/messages/a/b /v1/keys/x /V1/KEYS //v1/keys /v1/subscriptions/";
    for path in unknown.split(' ') {
        api.get(path).is_problem(404, "no_route", path);
    }
    assert_eq!(api.snapshot(), before);
}

#[test]
fn a_request_has_one_log_line_without_its_values() {
    let api = furnished();
    let before = api.logged().lines().count();
    api.get(&format!("/v1/messages/{MARKER}"));
    let logged = api.logged();
    assert_eq!(logged.lines().count(), before + 1);
    let line: Value = serde_json::from_str(logged.lines().last().expect("a line")).expect("JSON");
    for (field, expected) in [
        ("route", json!("/v1/messages/{id}")),
        ("status", json!(404)),
        ("tenant", json!("acme")),
        ("credential", json!("key")),
        ("key", json!(key(1).id().as_str())),
    ] {
        assert_eq!(line[field], expected, "{field}");
    }
}
