//! Every route with every invalid credential, and with bodies that are malformed, too long or of another type: the right status, nothing
//! changed, nothing leaked.

use http::{Method, StatusCode};
use ingest::router::Operation;
use redial_core::access::{ApiKey, Scope};
use redial_core::time::Timestamp;
use serde_json::{Value, json};

use crate::api::{Answer, Api, NOW, bearer, document, key};

/// Is in every input, and must be in no response and no log line.
const MARKER: &str = "m4rk3r-7Hq2";

type Headers = Vec<(&'static str, String)>;

fn furnished() -> Api {
    let api = Api::new();
    assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status.as_u16(), 201);
    let message = json!({"id": "m1", "to": {"subscription": "s1"}});
    assert_eq!(api.post("/v1/messages", &message).status.as_u16(), 202);
    let now = Timestamp::from_secs(NOW);
    api.store(key(10), "acme", &Scope::ALL, |it| it.revoked_at = Some(now));
    api.store(key(11), "acme", &Scope::ALL, |it| it.expires_at = Some(now));
    for (byte, scope) in (20..).zip(Scope::ALL) {
        api.store(key(byte), "acme", &[scope], |_| {});
    }
    api.store(key(30), "acme", &[], |_| {});
    api
}

fn with_scope(scope: Scope) -> Headers {
    let at = Scope::ALL.iter().position(|it| *it == scope).expect("it is one of them");
    bearer(&key(20 + u8::try_from(at).expect("few")).expose())
}

/// The scopes that suffice, if the route needs a key.
fn scopes(operation: Operation) -> Option<&'static [Scope]> {
    match operation {
        Operation::SendMessages => Some(&[Scope::Send]),
        Operation::GetMessage => Some(&[Scope::Read]),
        Operation::CreateSubscription
        | Operation::PutSubscription
        | Operation::DeleteSubscription
        | Operation::CreateToken => Some(&[Scope::Subscribe]),
        Operation::GetSubscription => Some(&[Scope::Read, Scope::Subscribe]),
        Operation::ListKeys | Operation::Acknowledge | Operation::Health => None,
    }
}

fn takes_a_body(operation: Operation) -> bool {
    matches!(operation.method(), Method::POST | Method::PUT)
}

fn path(operation: Operation) -> String {
    let id = if operation == Operation::GetMessage { "m1" } else { "s1" };
    operation.path().replace("{id}", id)
}

/// A valid body, with the marker in every text.
fn body(api: &Api, operation: Operation) -> Value {
    match operation {
        Operation::SendMessages => {
            json!({"id": MARKER, "to": {"subscription": MARKER}, "payload": MARKER, "ref": MARKER})
        }
        Operation::CreateSubscription | Operation::PutSubscription => {
            let mut document = document(MARKER);
            document["consent"]["prompt_version"] = MARKER.into();
            document
        }
        Operation::CreateToken => json!({"subscription": MARKER}),
        Operation::Acknowledge => json!({"token": api.ack_token("acme", "m1", 60), "event": "displayed"}),
        Operation::GetMessage
        | Operation::GetSubscription
        | Operation::DeleteSubscription
        | Operation::ListKeys
        | Operation::Health => Value::Null,
    }
}

fn call(api: &Api, operation: Operation, headers: &Headers, body: &str) -> Answer {
    let marked =
        [headers.as_slice(), &[("x-marker", MARKER.to_owned()), ("cookie", MARKER.to_owned())]].concat();
    let path = format!("{}?q={MARKER}", path(operation));
    let answer = if headers.iter().any(|(name, _)| *name == "content-type") {
        api.answer(Api::request(operation.method().as_str(), &path, &marked, body.to_owned()))
    } else {
        api.send(operation.method().as_str(), &path, &marked, body)
    };
    // The response to an accepted request contains its id.
    let was_taken = answer.status.is_success() && answer.status != StatusCode::MULTI_STATUS;
    assert!(was_taken || !answer.text.contains(MARKER), "{operation:?}: {}", answer.text);
    assert!(!format!("{:?}", answer.headers).contains(MARKER), "{operation:?}: {:?}", answer.headers);
    assert!(!api.logged().contains(MARKER), "{operation:?}: {}", api.logged());
    answer
}

/// Invalid credentials, and why they are invalid.
fn invalid_credentials(api: &Api) -> Vec<(&'static str, Headers)> {
    let good = key(1).expose();
    let mut forged = [1; ApiKey::RANDOM_BYTES];
    forged[63] = 9;
    let forged = ApiKey::generate(&forged);
    assert_eq!(forged.id(), key(1).id());
    let other_keys = redial_core::access::TokenKeys::new([("k1".to_owned(), [8; 32])]).expect("a key");
    let token = redial_core::access::SubscriptionToken {
        tenant: crate::api::tenant("acme"),
        subscription: crate::api::id("s1"),
        tags: Default::default(),
        expires_at: Timestamp::from_secs(NOW + 60),
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
        ("an expired token", bearer(&api.token("acme", "s1", &[], 0))),
        ("a token of other keys", bearer(&other_keys.subscription(&token))),
        ("a message's token", bearer(&api.ack_token("acme", "s1", 60))),
        ("a garbled token", bearer(&format!("rds_k1.{MARKER}.{MARKER}"))),
        ("bytes that are not ASCII", vec![("authorization", "Bearer \u{e9}".to_owned())]),
    ]
}

#[test]
fn every_invalid_credential_gets_the_same_401() {
    let api = furnished();
    let before = api.snapshot();
    let mut first = None;
    for operation in Operation::ALL.into_iter().filter(|it| scopes(*it).is_some()) {
        let right = body(&api, operation).to_string();
        for (what, headers) in invalid_credentials(&api) {
            for body in [right.as_str(), "", "{", "[]", &"x".repeat(2_000_000)] {
                let answer = call(&api, operation, &headers, body);
                answer.is_problem(401, "unauthorized", format!("{operation:?}, {what}"));
                assert_eq!(answer.headers["www-authenticate"], "Bearer");
                assert_eq!(*first.get_or_insert(answer.text.clone()), answer.text, "{operation:?}, {what}");
            }
        }
    }
    assert_eq!(api.snapshot(), before);
}

#[test]
fn a_key_without_the_scope_or_a_token_for_another_id_gets_403() {
    let api = furnished();
    let before = api.snapshot();
    for operation in Operation::ALL {
        let Some(suffice) = scopes(operation) else { continue };
        let body = body(&api, operation).to_string();
        let lacking = Scope::ALL.into_iter().filter(|scope| !suffice.contains(scope));
        let mut shown: Vec<Headers> = lacking.map(with_scope).collect();
        shown.push(bearer(&key(30).expose()));
        shown.push(bearer(&api.token("acme", "s2", &[], 60)));
        if !operation.path().contains("subscriptions/{id}") {
            shown.push(bearer(&api.token("acme", "s1", &[], 60)));
        }
        for headers in shown {
            let answer = call(&api, operation, &headers, &body);
            answer.is_problem(403, "forbidden", format!("{operation:?}"));
        }
    }
    assert_eq!(api.snapshot(), before);
}

#[test]
fn each_accepted_scope_suffices_alone() {
    for operation in Operation::ALL {
        for scope in scopes(operation).unwrap_or_default() {
            let api = furnished();
            let body = body(&api, operation).to_string().replace(MARKER, "x");
            let answer = call(&api, operation, &with_scope(*scope), &body);
            assert!(answer.status.is_success(), "{operation:?}, {scope}: {answer:?}");
        }
    }
}

/// Bodies of the right length and type that are invalid for every route.
fn malformed() -> Vec<String> {
    let nested = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let mut all: Vec<String> = [
        "",
        " ",
        "{",
        "}",
        "null",
        "true",
        "7",
        "\"x\"",
        "[1]",
        "{\"a\":}",
        "{} {}",
        "[[]]",
        "{\"a\":1,\"a\":2}",
        "\u{feff}{}",
        "{\"to\":{\"to\":{}}}",
        "{\"id\":\"\\ud800\"}",
    ]
    .map(str::to_owned)
    .into();
    all.push(nested);
    all.push(json!({MARKER.repeat(3): 1}).to_string().replace(MARKER, "name"));
    for field in [
        "id",
        "to",
        "payload",
        "tenant",
        "endpoint",
        "keys",
        "tags",
        "consent",
        "token",
        "event",
        "subscription",
        "expires_in",
        "at",
    ] {
        for value in [json!(MARKER), json!([MARKER]), json!({"x": MARKER}), json!(-1), json!(null)] {
            all.push(json!({field: value}).to_string());
        }
    }
    all
}

#[test]
fn a_malformed_body_gets_422_with_fields_and_no_values() {
    for operation in Operation::ALL.into_iter().filter(|it| takes_a_body(*it)) {
        let api = furnished();
        let before = api.snapshot();
        for body in malformed() {
            // Some of them are valid requests for a token.
            let answer = call(&api, operation, &Api::acme(), &body);
            if operation == Operation::CreateToken && answer.status.as_u16() == 201 {
                continue;
            }
            if let (Operation::SendMessages | Operation::Acknowledge, 207) =
                (operation, answer.status.as_u16())
            {
                let items = answer.json()["items"].as_array().expect("items").clone();
                assert!(items.iter().all(|item| item["status"] == 422), "{body}: {}", answer.text);
                continue;
            }
            answer.is_problem(422, "invalid", format!("{operation:?}: {body}"));
            assert!(!answer.fields().is_empty(), "{operation:?}: {body}: {}", answer.text);
        }
        let bytes = Api::request(
            operation.method().as_str(),
            &path(operation),
            &[Api::acme(), vec![("content-type", "application/json".to_owned())]].concat(),
            vec![b'{', 0xff, 0xfe],
        );
        assert_eq!(api.answer(bytes).status.as_u16(), 422, "{operation:?}");
        assert_eq!(api.snapshot(), before, "{operation:?}");
    }
}

#[test]
fn a_body_over_the_limit_gets_413() {
    for operation in Operation::ALL.into_iter().filter(|it| takes_a_body(*it)) {
        let api = furnished();
        let before = api.snapshot();
        let most = if operation == Operation::SendMessages { 1_048_576 } else { 16_384 };
        let padded = |n: usize| format!("{{{}", " ".repeat(n - 1));
        for n in [most + 1, 3 * most] {
            let answer = call(&api, operation, &Api::acme(), &padded(n));
            answer.is_problem(413, "too_large", format!("{operation:?}"));
        }
        // Whatever its Content-Length.
        let lying = [
            Api::acme(),
            vec![("content-type", "application/json".to_owned()), ("content-length", "2".to_owned())],
        ]
        .concat();
        assert_eq!(call(&api, operation, &lying, &padded(most + 1)).status.as_u16(), 413, "{operation:?}");
        assert_eq!(call(&api, operation, &Api::acme(), &padded(most)).status.as_u16(), 422, "{operation:?}");
        assert_eq!(api.snapshot(), before);
    }
}

#[test]
fn a_body_that_is_not_json_gets_415_except_acknowledgements() {
    for operation in Operation::ALL.into_iter().filter(|it| takes_a_body(*it)) {
        let api = furnished();
        let before = api.snapshot();
        let right = body(&api, operation).to_string();
        for said in [
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/json, text/html",
            MARKER,
        ] {
            let headers = [Api::acme(), vec![("content-type", said.to_owned())]].concat();
            let answer = call(&api, operation, &headers, &right);
            if operation == Operation::Acknowledge {
                assert_eq!(answer.status.as_u16(), 202);
                continue;
            }
            let expected = (415, "unsupported_media_type");
            assert_eq!(
                (answer.status.as_u16(), answer.problem().as_str()),
                expected,
                "{operation:?}: {said}"
            );
        }
        if operation != Operation::Acknowledge {
            let nothing =
                Api::request(operation.method().as_str(), &path(operation), &Api::acme(), right.clone());
            assert_eq!(api.answer(nothing).status.as_u16(), 415);
            assert_eq!(api.snapshot(), before, "{operation:?}");
        }
    }
}

#[test]
fn a_repeated_request_changes_nothing() {
    for operation in Operation::ALL {
        let api = furnished();
        let body = body(&api, operation).to_string().replace(MARKER, "x");
        let first = call(&api, operation, &Api::acme(), &body);
        let before = api.snapshot();
        let again = call(&api, operation, &Api::acme(), &body);
        match operation {
            Operation::SendMessages => {
                assert_eq!(again.json()["duplicate"], true);
                // Queued again: no worker has claimed it yet.
                api.world.state().outbox.pop();
            }
            // Each request generates an id.
            Operation::CreateSubscription => continue,
            Operation::Acknowledge => assert_eq!(again.json()["duplicate"], true),
            Operation::PutSubscription
            | Operation::GetMessage
            | Operation::GetSubscription
            | Operation::DeleteSubscription
            | Operation::CreateToken
            | Operation::ListKeys
            | Operation::Health => assert_eq!(again.status, first.status, "{operation:?}"),
        }
        assert_eq!(api.snapshot(), before, "{operation:?}");
    }
}

#[test]
fn other_methods_get_405_with_allow_and_other_paths_404() {
    let api = furnished();
    let before = api.snapshot();
    for operation in Operation::ALL {
        let own: Vec<Method> = Operation::ALL
            .into_iter()
            .filter(|it| it.path() == operation.path())
            .map(Operation::method)
            .collect();
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"]
        {
            let known = own.iter().any(|it| it == method || (method == "HEAD" && *it == Method::GET));
            if known {
                continue;
            }
            let answer = api.send(method, &path(operation), &Api::acme(), "{}");
            assert_eq!(
                (answer.status.as_u16(), answer.text.is_empty() || answer.problem() == "method_not_allowed"),
                (405, true),
                "{method} {operation:?}"
            );
            let allowed = answer.headers["allow"].to_str().expect("text").to_owned();
            assert!(
                own.iter().all(|it| allowed.split(',').any(|name| name == it.as_str())),
                "{operation:?}: {allowed}"
            );
        }
    }
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v2/messages",
        "/v1/messages/",
        "/v1/messages/a/b",
        "/v1/keys/x",
        "/V1/KEYS",
        "//v1/keys",
        "/v1/subscriptions/",
    ] {
        let answer = api.send("GET", path, &Api::acme(), "");
        answer.is_problem(404, "no_route", path);
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
    let fields = &line["fields"];
    assert_eq!(fields["route"], "/v1/messages/{id}");
    assert_eq!(
        (&fields["status"], &fields["tenant"], &fields["credential"]),
        (&json!(404), &json!("acme"), &json!("key"))
    );
    assert_eq!(fields["key"], key(1).id().as_str());
}
