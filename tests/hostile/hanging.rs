//! Receivers that accept connections and never answer.

use std::net::TcpListener;

use redial_tests::prelude::*;

/// Addresses that accept and never answer, each an origin of its own.
const HANGING: usize = 40;

/// The hostile tenant's messages. No address gets enough of them to open its breaker.
const MESSAGES: usize = 240;

#[tokio::test]
async fn a_one_time_code_overtakes_another_tenant_s_messages_to_receivers_that_hang() {
    // The system accepts for them, and no process reads.
    let bind = |_| TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let receivers: Vec<TcpListener> = (0..HANGING).map(bind).collect();
    let port = |receiver: &TcpListener| receiver.local_addr().expect("it is bound").port();
    let origins: Vec<String> = receivers.iter().map(|it| format!("https://localhost:{}", port(it))).collect();
    let stack = TestStack::up_with(|options| {
        options.env.insert("BREAKER".to_owned(), "on".to_owned());
        options.parameters.insert("IngestConcurrency".to_owned(), "2".to_owned());
        // More than the template's parameter takes.
        let allowed = options.egress_allow.iter().chain(&origins).cloned().collect::<Vec<_>>().join(",");
        options.env.insert("EGRESS_ALLOW".to_owned(), allowed);
    })
    .await;
    let hanging = |n: usize| {
        let url = format!("{}/{n}", origins[n % HANGING]);
        json!({"tenant": "mallory", "id": format!("m{n}"), "to": {"webhook": {"url": url}}, "payload": "x"})
    };
    stack.send_all((0..MESSAGES).map(|n| hanging(n).to_string())).await;
    let code = json!({
        "tenant": "acme", "id": "code", "to": {"webhook": {"url": stack.webhooks.url("/codes")}}, "payload": "1",
    });
    stack.send(&code).await;
    stack.until_state("code", "sent").await;
    let log = stack.dispatch_log().await;
    let attempts =
        log.iter().filter(|line| line["event"] == "attempt" && line["tenant"] == "mallory").count();
    println!(
        "tried: {MESSAGES} messages to {HANGING} addresses that hang; {attempts} attempts before the code"
    );
    assert!(
        attempts < MESSAGES / 2,
        "{attempts} of the hostile tenant's messages were attempted before the code"
    );
    drop(receivers);
}
