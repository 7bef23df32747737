//! Acknowledgements from end to end: what a browser decrypts lets it say what became of the message.

use redial_adapters::acks_dynamo::attribute;
use redial_core::ack::AckEvent;
use redial_testkit::push_service::Answer;
use redial_tests::cloud_logs;
use redial_tests::deployment::{Deployment, PATIENCE, number};
use serde_json::{Value, json};

#[tokio::test]
async fn a_retried_push_carries_one_token_by_which_its_browser_acknowledges() {
    let it = Deployment::up().await;
    let browser = it.subscriber();
    it.push.script(&browser.endpoint, [Answer::status(503)]);
    let mut message = Deployment::message("m1", &browser, json!({"title": "Your parcel is here"}));
    message["acks"] = json!(true);
    message["retry"] = json!({"max_retries": 2, "base_delay_ms": 100});
    it.send(&message).await;
    it.until_state("m1", "sent").await;

    let pushes = it.push.wait_for(&browser.endpoint, 2, PATIENCE).await.expect("both attempts arrive");
    let texts: Vec<&str> = pushes.iter().map(|push| push.text().expect("it is decrypted")).collect();
    assert_eq!(texts[0], texts[1]);
    let envelope: Value = serde_json::from_str(texts[0]).expect("JSON");
    assert_eq!((&envelope["redial"], &envelope["id"]), (&json!(1), &json!("m1")));
    assert_eq!(envelope["payload"], json!({"title": "Your parcel is here"}));

    // As `navigator.sendBeacon` posts it: with no other credential, and no content type that would ask first.
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    let api = it.description().api_url.clone().expect("the stack has an API");
    for (event, duplicate) in [("clicked", false), ("displayed", false), ("clicked", true)] {
        let body = json!({"token": envelope["ack"], "event": event}).to_string();
        let posted = client.post(format!("{api}/v1/acks")).header("content-type", "text/plain").body(body);
        let answer = posted.send().await.expect("it answers");
        let (status, text) = (answer.status().as_u16(), answer.text().await.expect("text"));
        let told: Value = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!((status, told), (202, json!({"id": "m1", "event": event, "duplicate": duplicate})));
    }
    let entry = it.until_state("m1", "sent").await;
    let at = |event| number(&entry, attribute(event));
    assert!(at(AckEvent::Clicked) <= at(AckEvent::Displayed) && at(AckEvent::Clicked).is_some());
    assert_eq!(at(AckEvent::Closed), None);

    // Another's token, or one that somebody has changed, is none.
    let forged = envelope["ack"].as_str().expect("a text").replace(".m1.", ".m2.");
    let body = json!({"token": forged, "event": "closed"}).to_string();
    let answer = client.post(format!("{api}/v1/acks")).body(body).send().await.expect("it answers");
    assert_eq!(answer.status().as_u16(), 401);

    // Each first time is counted, and the token is in no line.
    let function = &it.description().functions.ingest;
    let answer = it.lambda.get_function_configuration().function_name(function).send().await;
    let group = answer.expect("the function is there").logging_config.and_then(|it| it.log_group);
    let lines = cloud_logs::lines(&it.description().endpoint, &group.expect("it has a group")).await;
    let of = |name: &str| {
        let values = lines.iter().filter_map(|line| serde_json::from_str::<Value>(&line.text).ok());
        values.filter_map(|line| line[name].as_u64()).sum::<u64>()
    };
    assert_eq!(
        ["Displayed", "Clicked", "Closed", "AcksRepeated", "AcksUnknown"].map(of),
        [1, 1, 0, 1, 0],
        "{lines:?}"
    );
    let mac = envelope["ack"].as_str().and_then(|token| token.rsplit('.').next()).expect("a MAC");
    assert!(lines.iter().all(|line| !line.text.contains(mac)));
}
