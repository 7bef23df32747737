//! The page and the service worker against a stand-in for the API, which fails when the test says so.

use std::ops::Deref;
use std::sync::Arc;

use hyper::Method;
use redial::browser_demo::{Port, Server};
use redial_testkit::autopush::{Autopush, Event};
use serde_json::{Value, json};

use super::api::{Api, Own, Refusal, envelope, token};
use super::stage::{self, LOOK_AGAIN, PATIENCE};

struct Stage {
    browser: stage::Stage<Own>,
    api: Arc<Api>,
    _server: Server,
}

impl Stage {
    /// `None` if there is no Firefox here.
    async fn up() -> Option<Self> {
        let program = stage::firefox()?;
        let push = Autopush::start().expect("it starts");
        let api = Arc::new(Api::new(push.endpoints()).await);
        let port = Port::take(0).expect("a free port");
        let own = Own { api: Arc::clone(&api), origin: port.origin("127.0.0.1") };
        let server = Server::start(port, Arc::clone(&api));
        let port = Port::take(0).expect("a free port");
        let browser = stage::Stage::up(program, push, port, own).await;
        Some(Self { browser, api, _server: server })
    }

    async fn acked(&self, id: &str, event: &str) {
        let ack = (token(id), event.to_owned());
        let found = self.api.wait(PATIENCE, |api| api.acks().contains(&ack).then_some(())).await;
        found.unwrap_or_else(|| panic!("no {ack:?} among {:?}", self.api.acks()));
    }

    async fn push_to(&self, subscription: &Value, payload: &Value) {
        assert_eq!(self.api.push(subscription, payload, 60).await, 201);
    }
}

impl Deref for Stage {
    type Target = stage::Stage<Own>;

    fn deref(&self) -> &Self::Target {
        &self.browser
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_subscribes_shows_and_reports_pushes_and_unsubscribes() {
    let Some(stage) = Stage::up().await else { return };
    what_a_browser_lacks_is_named(&stage).await;
    let subscription = subscribes(&stage).await;
    a_test_push_from_the_page_is_shown_and_clicked(&stage).await;
    a_duplicate_is_shown_once(&stage, &subscription).await;
    pushes_without_an_envelope_are_shown_too(&stage, &subscription).await;
    a_closed_notification_is_reported_and_an_ack_that_was_refused_comes_again(&stage, &subscription).await;
    a_report_that_finds_no_connection_is_sent_again_by_itself(&stage, &subscription).await;
    what_came_while_it_was_away_is_shown(&stage, &subscription).await;
    let renewed = a_subscription_that_the_browser_lost_is_renewed(&stage, &subscription).await;
    unsubscribes(&stage, &renewed).await;
    assert_eq!(stage.page("complaints", json!({})).await, json!([]));
}

/// A notification that stays until it is closed. Others close by themselves after some seconds, and that is reported too.
fn staying(title: &str) -> Value {
    json!({"title": title, "requireInteraction": true})
}

async fn what_a_browser_lacks_is_named(stage: &Stage) {
    let names = ["insecure_context", "no_service_worker", "no_push", "ios_home_screen", "permission_denied"];
    let mut expected = json!({"none": null, "noneAgain": null});
    for name in names {
        expected[name] = name.into();
    }
    assert_eq!(stage.page("obstacles", json!({})).await, expected);
}

async fn subscribes(stage: &Stage) -> Value {
    stage.page_shows("#subscribe:enabled").await;
    stage.click("#subscribe").await;
    stage.page_shows("#browser-state[data-state=on]").await;
    let put = stage.api.asked(&Method::PUT).pop().expect("a subscription");
    assert_eq!(put.header("authorization"), Some("Bearer rds_first"));
    let document = put.json();
    let consent = &document["consent"];
    assert_eq!((&consent["action"], &consent["prompt_version"]), (&json!("granted"), &json!("demo-1")));
    assert!(consent["origin"].as_str().is_some_and(|origin| origin.starts_with("http://localhost:")));
    let of_browser = stage.page("subscription", json!({})).await;
    assert_eq!((&document["endpoint"], &document["keys"]), (&of_browser["endpoint"], &of_browser["keys"]));
    of_browser
}

async fn a_test_push_from_the_page_is_shown_and_clicked(stage: &Stage) {
    stage.page("fill", json!({"selector": "#title", "value": "From the page"})).await;
    stage.click("#send").await;
    stage.decrypted(1).await;
    stage.acked("from-the-page", "displayed").await;
    stage.page_shows("[data-step=displayed][data-done]").await;
    assert_eq!(stage.notification_titles().await, ["From the page"]);
    let mut desktop = stage.firefox.desktop().await.expect("a connection");
    desktop.click_notification("From the page").await.expect("a click");
    stage.acked("from-the-page", "clicked").await;
    stage.page_shows("[data-step=clicked][data-done]").await;
}

async fn a_duplicate_is_shown_once(stage: &Stage, subscription: &Value) {
    let twice = envelope("twice", &staying("Twice"));
    stage.push_to(subscription, &twice).await;
    stage.push_to(subscription, &twice).await;
    stage.push_to(subscription, &envelope("after", &staying("After"))).await;
    stage.acked("after", "displayed").await;
    let shown = stage.api.acks().into_iter().filter(|ack| *ack == (token("twice"), "displayed".to_owned()));
    assert_eq!(shown.count(), 1);
    let titles = stage.notification_titles().await;
    assert_eq!(titles.iter().filter(|title| *title == "Twice").count(), 1, "{titles:?}");
    assert!(!stage.api.acks().contains(&(token("from-the-page"), "closed".to_owned())));
}

async fn pushes_without_an_envelope_are_shown_too(stage: &Stage, subscription: &Value) {
    let before = stage.api.acks();
    let already = stage.notification_titles().await.len();
    stage.push_to(subscription, &json!({"title": "Bare", "dir": "sideways"})).await;
    stage.push_to(subscription, &Value::Null).await;
    let looking = async {
        while stage.notification_titles().await.len() < already + 2 {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "{:?}", stage.notification_titles().await);
    assert!(stage.notification_titles().await.contains(&"Bare".to_owned()));
    assert_eq!(stage.api.acks(), before);
}

async fn a_closed_notification_is_reported_and_an_ack_that_was_refused_comes_again(
    stage: &Stage,
    subscription: &Value,
) {
    stage.api.refuse_acks(Some(Refusal::Unavailable));
    stage.push_to(subscription, &envelope("closed", &staying("To be closed"))).await;
    let mut desktop = stage.firefox.desktop().await.expect("a connection");
    desktop.close_notification("To be closed").await.expect("it is closed");
    stage.api.refuse_acks(None);
    stage.push_to(subscription, &envelope("next", &staying("Next"))).await;
    for (id, event) in [("next", "displayed"), ("closed", "displayed"), ("closed", "closed")] {
        stage.acked(id, event).await;
    }
}

async fn a_report_that_finds_no_connection_is_sent_again_by_itself(stage: &Stage, subscription: &Value) {
    stage.api.refuse_acks(Some(Refusal::Cut));
    let before = stage.api.refused();
    stage.push_to(subscription, &envelope("offline", &staying("Offline"))).await;
    let cut = stage.api.wait(PATIENCE, |api| (api.refused() > before).then_some(())).await;
    cut.expect("a report");
    stage.api.refuse_acks(None);
    stage.acked("offline", "displayed").await;
}

async fn what_came_while_it_was_away_is_shown(stage: &Stage, subscription: &Value) {
    stage.push.lock_out();
    stage.push_to(subscription, &envelope("kept", &json!({"title": "Kept"}))).await;
    assert_eq!(stage.api.push(subscription, &envelope("gone", &json!({"title": "Gone"})), 0).await, 201);
    stage.push.let_in();
    stage.acked("kept", "displayed").await;
    assert!(!stage.api.acks().contains(&(token("gone"), "displayed".to_owned())));
}

async fn a_subscription_that_the_browser_lost_is_renewed(stage: &Stage, subscription: &Value) -> Value {
    stage.push.forget_browsers();
    let with_renewal = |api: &Api| {
        let puts = api.asked(&Method::PUT);
        puts.into_iter().find(|put| put.json()["endpoint"] != subscription["endpoint"])
    };
    let put = stage.api.wait(PATIENCE, with_renewal).await;
    let put = put.unwrap_or_else(|| panic!("{:?}", stage.push.events()));
    assert_eq!(put.header("authorization"), Some("Bearer rds_renewal"));
    let renewed = put.json();
    assert_eq!(stage.api.push(subscription, &json!("old"), 60).await, 410);
    stage.push_to(&renewed, &envelope("renewed", &json!({"title": "Renewed"}))).await;
    stage.acked("renewed", "displayed").await;
    renewed
}

async fn unsubscribes(stage: &Stage, subscription: &Value) {
    stage.click("#unsubscribe").await;
    stage.page_shows("#browser-state[data-state=off]").await;
    stage.push_event("unsubscription", |event| matches!(event, Event::Unregistered { .. })).await;
    assert_eq!(stage.api.push(subscription, &json!("late"), 60).await, 410);
    let deletions = stage.api.asked(&Method::DELETE);
    let [deletion] = deletions.as_slice() else { panic!("{deletions:?}") };
    assert_eq!(deletion.header("authorization"), Some("Bearer rds_renewal"));
    assert_eq!(stage.page("subscription", json!({})).await, Value::Null);
}
