//! Requests to the HTTP API with canaries in credentials, bodies and paths.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use redial_tests::{canary::Canary, prelude::*, test_stack::document};
use reqwest::Method;

use super::{PAYLOAD, REF, Run, WRONG};

/// Returns the API key.
pub(super) async fn send_all_kinds(run: &mut Run) -> String {
    let key = run.stack.api_key("acme").await;
    let secret = key.rsplit('_').next().expect("a key has three parts");
    run.canaries.extend([Canary::text("the API key", &key), Canary::text("the API key's secret", secret)]);
    let browser = run.browser("the one over the API");
    let document = document(&browser).to_string();
    let stored = call(run, Method::PUT, "/v1/subscriptions/api", &key, &document, 201).await;
    add_token(run, &stored["renewal"]["token"]);
    let wish = json!({"subscription": "api"}).to_string();
    let made = call(run, Method::POST, "/v1/subscription-tokens", &key, &wish, 201).await;
    let token = add_token(run, &made["token"]);
    let renewed = call(run, Method::PUT, "/v1/subscriptions/api", &token, &document, 200).await;
    add_token(run, &renewed["renewal"]["token"]);

    let message = json!({"id": "over-api", "to": {"subscription": "api"}, "payload": PAYLOAD, "ref": REF, "acks": true});
    call(run, Method::POST, "/v1/messages", &key, &message.to_string(), 202).await;
    run.stack.until_state("over-api", "sent").await;
    let received = run.stack.received(&browser, 1).await;
    let envelope = parsed(received[0].text().expect("it is decrypted"));
    let ack = json!({"token": envelope["ack"], "event": "displayed"}).to_string();
    call(run, Method::POST, "/v1/acks", "none", &ack, 202).await;

    // Refused: for what they say, for who says it, and where nothing is.
    for (method, path) in [
        (Method::POST, "/v1/messages"),
        (Method::PUT, "/v1/subscriptions/api"),
        (Method::POST, "/v1/subscription-tokens"),
        (Method::POST, "/v1/erasures"),
    ] {
        let wrong =
            json!({"id": [WRONG], "ref": [REF], "surprise": PAYLOAD, "endpoint": WRONG, "token": token});
        call(run, method.clone(), path, &key, &wrong.to_string(), 422).await;
        for credential in [WRONG.to_owned(), format!("{key}x"), format!("{token}x")] {
            call(run, method.clone(), path, &credential, &document, 401).await;
        }
    }
    for path in [format!("/v1/messages/{WRONG}"), format!("/v1/{WRONG}?token={token}&key={key}")] {
        call(run, Method::GET, &path, &key, "", 404).await;
    }
    key
}

async fn call(run: &Run, method: Method, path: &str, credential: &str, body: &str, expected: u16) -> Value {
    let (status, answer) = run.stack.call(method.clone(), path, credential, body).await;
    assert_eq!(status, expected, "{method} {path}: {answer}");
    parsed(&answer)
}

/// A browser's token is a canary from now on, and so is what alone proves that it is genuine.
fn add_token(run: &mut Run, token: &Value) -> String {
    let token = token.as_str().expect("a token").to_owned();
    let mac = token.rsplit('.').next().expect("a token has three parts");
    let bytes = URL_SAFE_NO_PAD.decode(mac).expect("base64url");
    run.canaries.extend([
        Canary::text("a subscription's token", &token),
        Canary::text("a subscription's token, its MAC", mac),
        Canary::bytes("a subscription's token, the bytes of its MAC", &bytes),
    ]);
    token
}
