//! Webhooks with canaries in address, secret, headers and payload.

use redial_core::{
    endpoint::Endpoint,
    recipient::Recipient,
    webhook::{CustomHeaders, SigningSecrets, WebhookSecret, WebhookTarget},
};
use redial_testkit::webhook_receiver::Answer;
use redial_tests::{
    canary::Canary,
    test_stack::{Item, text},
};
use serde_json::json;

use super::{REF, Run, WRONG, message};

const PATH: &str = "canary-webhook-path-h7Wq2";
const SECRET: [u8; 32] = *b"canary webhook secret 0123456789";
const AUTHORIZATION: &str = "Bearer canary-webhook-token-P4x";
const HEADER: &str = "canary-webhook-header-9dKe";

pub(super) async fn send_all_kinds(run: &mut Run) {
    let secret = WebhookSecret::new(SECRET.to_vec()).expect("32 bytes");
    run.canaries.extend([
        Canary::text("a webhook's address", PATH),
        Canary::text("a webhook's secret", &secret.expose()),
        Canary::bytes("a webhook's secret, its bytes", &SECRET),
        Canary::text("a subscription's header", AUTHORIZATION),
        Canary::text("a message's header", HEADER),
    ]);
    let retry = json!({"base_delay_ms": 100, "jitter": "none", "max_retries": 1});
    for (kind, state, script) in [
        ("accepted", "sent", vec![]),
        ("retried", "sent", vec![quoting(500)]),
        ("in-doubt", "sent", vec![Answer::reset()]),
        ("exhausted", "failed", quoting(404).times(2)),
        ("gone", "failed", vec![quoting(410)]),
        ("disabled", "failed", vec![]),
    ] {
        let (id, to) = (format!("webhook-{kind}"), if kind == "disabled" { "gone" } else { kind });
        let path = format!("/{PATH}/{to}");
        let url = run.stack.webhooks.url(&path);
        run.stack.webhooks.script(&path, script);
        if kind == "disabled" {
            // Its worker records the end of the message before it switches the subscription off.
            let table = &run.stack.tables().subscriptions;
            let is_off = |items: Vec<Item>| items.iter().any(|item| text(item, "state") == Some("disabled"));
            run.stack.until("it is off", async || is_off(run.stack.scan(table).await).then_some(())).await;
        } else {
            subscribe(run, to, &url, &secret).await;
        }
        let more = json!({"retry": retry, "headers": {"x-canary": HEADER}});
        run.stack.send(&message(&id, &json!({"subscription": format!("webhook-{to}")}), &more)).await;
        run.stack.until_state(&id, state).await;
    }
    let inside = format!("https://10.0.0.1/{PATH}");
    for (id, url, state) in
        [("bare", run.stack.webhooks.url(&format!("/{PATH}/bare")), "sent"), ("inside", inside, "failed")]
    {
        let id = format!("webhook-{id}");
        run.stack.send(&message(&id, &json!({"webhook": {"url": url}}), &json!({"retry": retry}))).await;
        run.stack.until_state(&id, state).await;
    }
    for headers in
        [json!({"authorization": HEADER}), json!({"host": HEADER}), json!({"x-a": [HEADER]}), json!(HEADER)]
    {
        let url = run.stack.webhooks.url(&format!("/{PATH}/refused"));
        let body =
            message("webhook-refused", &json!({"webhook": {"url": url}}), &json!({"headers": headers}));
        run.stack.send(&body).await;
    }
}

/// What a receiver might say that quotes what it was sent.
fn quoting(status: u16) -> Answer {
    Answer::status(status)
        .with_body(format!("{PATH} {AUTHORIZATION} {HEADER} {REF}"))
        .with_header("retry-after", WRONG)
        .with_header("location", &format!("https://elsewhere.example/{PATH}"))
}

async fn subscribe(run: &Run, id: &str, url: &str, secret: &WebhookSecret) {
    let headers = vec![("authorization".to_owned(), AUTHORIZATION.to_owned())];
    let target = WebhookTarget {
        endpoint: Endpoint::parse(url).expect("valid"),
        secrets: SigningSecrets::new(vec![(secret.clone(), None)]).expect("one"),
        headers: CustomHeaders::new(headers).expect("valid"),
    };
    run.stack.subscribe(&format!("webhook-{id}"), Recipient::Webhook(target)).await;
}
