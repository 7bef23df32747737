//! Acknowledgements from end to end: the token that a browser decrypts lets it report what its user saw.

use redial_adapters::acks_dynamo::attribute;
use redial_core::ack::AckEvent;
use redial_tests::prelude::*;

#[tokio::test]
async fn a_browser_acknowledges_a_retried_push_with_its_one_token() {
    let stack = TestStack::up().await;
    let browser = stack.browser();
    stack.push.script(&browser.endpoint, [Answer::status(503)]);
    let fields = json!({
        "payload": {"title": "Your parcel is here"}, "acks": true,
        "retry": {"max_retries": 2, "base_delay_ms": 100},
    });
    stack.send(&stack.message_with("m1", &browser, &fields)).await;
    stack.until_state("m1", "sent").await;

    let pushes = stack.received(&browser, 2).await;
    let texts: Vec<&str> = pushes.iter().map(|push| push.text().expect("it is decrypted")).collect();
    assert_eq!(texts[0], texts[1]);
    let envelope: Value = serde_json::from_str(texts[0]).expect("JSON");
    assert_eq!((&envelope["redial"], &envelope["id"]), (&json!(1), &json!("m1")));
    assert_eq!(envelope["payload"], json!({"title": "Your parcel is here"}));

    // As `navigator.sendBeacon` posts it: without another credential or a content type that needs a preflight.
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    let api = stack.description().api_url.clone().expect("the stack has an API");
    for (event, duplicate) in [("clicked", false), ("displayed", false), ("clicked", true)] {
        let body = json!({"token": envelope["ack"], "event": event}).to_string();
        let posted = client.post(format!("{api}/v1/acks")).header("content-type", "text/plain").body(body);
        let answer = posted.send().await.expect("it answers");
        let (status, text) = (answer.status().as_u16(), answer.text().await.expect("text"));
        let response: Value = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!((status, response), (202, json!({"id": "m1", "event": event, "duplicate": duplicate})));
    }
    let entry = stack.until_state("m1", "sent").await;
    let at = |event| number(&entry, attribute(event));
    assert!(at(AckEvent::Clicked) <= at(AckEvent::Displayed) && at(AckEvent::Clicked).is_some());
    assert_eq!(at(AckEvent::Closed), None);

    // A changed token is refused.
    let forged = envelope["ack"].as_str().expect("a text").replace(".m1.", ".m2.");
    let body = json!({"token": forged, "event": "closed"}).to_string();
    let answer = client.post(format!("{api}/v1/acks")).body(body).send().await.expect("it answers");
    assert_eq!(answer.status().as_u16(), 401);

    // Each first acknowledgement is counted, and no line holds the token.
    let mac = envelope["ack"].as_str().and_then(|token| token.rsplit('.').next()).expect("a MAC");
    let lines = stack
        .until("the metrics are written", async || {
            let lines = stack.log_lines(&stack.description().functions.ingest).await;
            let of = |name: &str| {
                let lines = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
                lines.filter_map(|line| line[name].as_u64()).sum::<u64>()
            };
            let counts = ["Displayed", "Clicked", "Closed", "AcksRepeated", "AcksUnknown"].map(of);
            (counts == [1, 1, 0, 1, 0]).then_some(lines)
        })
        .await;
    assert!(lines.iter().all(|line| !line.contains(mac)));
}
