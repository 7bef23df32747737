//! The whole of it: a Firefox subscribes at the stack's API, is sent to through its queue and its dispatch, and reports to the API what its
//! user saw; it unsubscribes, and Redial learns of it from the push service.

use std::io::Write as _;

use redial::browser_demo::{Port, Sender};
use redial_core::identity::Tenant;
use redial_testkit::{
    autopush::{Autopush, Event},
    firefox,
};
use redial_tests::prelude::*;

use super::open_page::OpenPage;

/// A stack that may post to this push server, and whose API the page at this port may call.
async fn stack_for(push: &Autopush, port: &Port) -> TestStack {
    let (endpoints, page) = (push.endpoints(), port.origin("localhost"));
    TestStack::up_with(|options| {
        let roots = options.egress_ca.as_deref().expect("a file of certificates");
        let mut roots = std::fs::OpenOptions::new().append(true).open(roots).expect("the file is there");
        roots.write_all(endpoints.ca_pem().as_bytes()).expect("the file is ours");
        options.egress_allow.push(endpoints.origin().to_owned());
        options.parameters.insert("ApiCorsOrigins".to_owned(), page);
        options.events = true;
        options.env.insert("SPIKE_WINDOW_SECONDS".to_owned(), "4".to_owned());
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_has_what_a_browser_showed_until_it_leaves() {
    let Some(program) = firefox::find_or_skip() else { return };
    let push = Autopush::start().expect("it starts");
    let port = Port::take(0).expect("a free port");
    let stack = stack_for(&push, &port).await;
    let tenant = Tenant::parse("acme").expect("valid");
    let sender = Sender::open(stack.stack(), tenant).await.expect("a key");
    let browser = OpenPage::up(program, push, port, sender).await;

    let subscription = subscribes(&browser).await;
    what_is_sent_over_http_is_displayed_and_clicked(&stack, &browser).await;
    what_is_sent_over_sqs_is_displayed(&stack, &browser, &subscription).await;
    assert_eq!(browser.page("complaints", json!({})).await, json!([]));
    an_unsubscribed_browser_is_pruned_and_reported(&stack, &browser, &subscription).await;
}

/// Subscribes by the page's button; the subscription's id.
async fn subscribes(browser: &OpenPage<Sender>) -> String {
    browser.page_shows("#subscribe:enabled").await;
    browser.click("#subscribe").await;
    browser.page_shows("#browser-state[data-state=on]").await;
    let id = browser.page("text", json!({"selector": "#fact-subscription"})).await;
    let id = id.as_str().expect("an id").to_owned();
    let (status, stored) = browser.back_office().get(&format!("/v1/subscriptions/{id}")).await;
    assert_eq!((status.as_u16(), &stored["state"]), (200, &json!("active")), "{stored}");
    assert_eq!(stored["consent"]["action"], "granted");
    assert!(stored["consent"]["origin"].as_str().is_some_and(|site| site.starts_with("http://localhost:")));
    id
}

/// Asks the API for a delivery until it has this time.
async fn until_known(stack: &TestStack, browser: &OpenPage<Sender>, id: &str, time: &str) -> Value {
    let path = format!("/v1/messages/{id}");
    let known =
        async || Some(browser.back_office().get(&path).await.1).filter(|known| known[time].is_string());
    stack.until(&format!("{id} has {time}"), known).await
}

async fn what_is_sent_over_http_is_displayed_and_clicked(stack: &TestStack, browser: &OpenPage<Sender>) {
    browser.page("fill", json!({"selector": "#title", "value": "From the page"})).await;
    browser.click("#send").await;
    browser.decrypted(1).await;
    browser.page_shows("[data-step=displayed][data-done]").await;
    assert_eq!(browser.notification_titles().await, ["From the page"]);
    let id = browser.page("attribute", json!({"selector": ".delivery", "name": "data-id"})).await;
    let id = id.as_str().expect("an id");
    let known = until_known(stack, browser, id, "displayed_at").await;
    assert_eq!((&known["state"], &known["status"]), (&json!("sent"), &json!(201)), "{known}");
    let mut desktop = browser.firefox.desktop().await.expect("a connection");
    desktop.click_notification("From the page").await.expect("a click");
    until_known(stack, browser, id, "clicked_at").await;
    browser.page_shows("[data-step=clicked][data-done]").await;
}

async fn what_is_sent_over_sqs_is_displayed(
    stack: &TestStack,
    browser: &OpenPage<Sender>,
    subscription: &str,
) {
    let message = json!({"tenant": "acme", "id": "over-sqs", "to": {"subscription": subscription}, "acks": true,
        "payload": {"title": "Over SQS", "requireInteraction": true}});
    stack.send(&message).await;
    until_known(stack, browser, "over-sqs", "displayed_at").await;
    assert!(browser.notification_titles().await.contains(&"Over SQS".to_owned()));
}

/// As in the browser's settings: neither the page nor the API is asked.
async fn an_unsubscribed_browser_is_pruned_and_reported(
    stack: &TestStack,
    browser: &OpenPage<Sender>,
    subscription: &str,
) {
    assert_eq!(browser.page("unsubscribeBrowser", json!({})).await, true);
    browser.push_event("unsubscription", |event| matches!(event, Event::Unregistered { .. })).await;
    let late = json!({"id": "late", "to": {"subscription": subscription}, "payload": "late", "acks": true});
    assert_eq!(browser.back_office().post("/v1/messages", &late).await.0, 202);
    stack.until_state("late", "gone").await;
    let (_, known) = browser.back_office().get("/v1/messages/late").await;
    assert_eq!((&known["status"], &known["displayed_at"]), (&json!(410), &Value::Null), "{known}");

    let event = stack
        .until("the window is over and the sweep has sent an event", async || {
            stack.sweep("prune").await;
            stack.take_events().await.into_iter().find(|event| event["state"] == "pruned")
        })
        .await;
    assert_eq!((&event["tenant"], &event["subscription"]), (&json!("acme"), &json!(subscription)), "{event}");
    let (status, left) = browser.back_office().get(&format!("/v1/subscriptions/{subscription}")).await;
    assert!(matches!(status.as_u16(), 404 | 410), "{status} {left}");
}
