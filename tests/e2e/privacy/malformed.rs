//! What producers get wrong, with canaries in it.

use serde_json::{Value, json};

use super::{PAYLOAD, WRONG, message};

/// Bodies that are no messages, each with a canary where the error is, or beside it.
pub(super) fn malformed(to: &Value) -> Vec<String> {
    let with = |name: &str, value: Value| message("malformed", to, &json!({name: value})).to_string();
    let mut bodies = vec![
        format!("{WRONG} {PAYLOAD}"),
        format!("{{\"tenant\":\"acme\",\"payload\":\"{PAYLOAD}\",\"id\":\"{WRONG}"),
        json!([WRONG, PAYLOAD]).to_string(),
        json!(WRONG).to_string(),
        with("surprise", json!(WRONG)),
        with("surprise", json!({"deeper": {"still": WRONG}})),
    ];
    let fields = [
        "id",
        "tenant",
        "ttl",
        "class",
        "urgency",
        "topic",
        "retry",
        "deliver_at",
        "v",
        "ref",
        "idempotency_key",
    ];
    for field in fields {
        bodies.push(with(field, json!(format!("{WRONG} no {field} {PAYLOAD}{}", "x".repeat(128)))));
        bodies.push(with(field, json!({ "of": [WRONG, PAYLOAD] })));
    }
    for retry in [json!({"max_retries": WRONG}), json!({"jitter": WRONG}), json!({"retryable": [WRONG]})] {
        bodies.push(with("retry", retry));
    }
    let keys = |p256dh: &str, auth: &str| json!({"p256dh": p256dh, "auth": auth});
    let good = &to["web_push"];
    let (p256dh, auth) =
        (good["keys"]["p256dh"].as_str().expect("text"), good["keys"]["auth"].as_str().expect("text"));
    for bad in [
        json!({"web_push": {"endpoint": format!("ftp://user:{WRONG}@push.example/{PAYLOAD}"), "keys": keys(p256dh, auth)}}),
        json!({"web_push": {"endpoint": WRONG, "keys": keys(p256dh, auth)}}),
        json!({"web_push": {"endpoint": good["endpoint"], "keys": keys(WRONG, auth)}}),
        json!({"web_push": {"endpoint": good["endpoint"], "keys": keys(p256dh, WRONG)}}),
        json!({"web_push": {"endpoint": good["endpoint"], "keys": keys(p256dh, auth), "vapid_key_id": format!("{WRONG} ?")}}),
        json!({"webhook": {"url": format!("https://hooks.example/{WRONG}")}}),
        json!({"subscription": format!("{WRONG} {PAYLOAD}")}),
        json!(WRONG),
    ] {
        bodies.push(with("to", bad));
    }
    bodies.push(with("payload", json!({"base64": WRONG.repeat(2)})));
    bodies
}
