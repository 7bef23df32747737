//! The page and the service worker against a stand-in for the API, which fails when the test says so.

use hyper::Method;
use redial::browser_demo::Port;
use redial_testkit::{
    autopush::{Autopush, Event},
    firefox,
};
use serde_json::{Value, json};

use super::{
    api::{Api, Own, REJECTED, Refusal, SUBSCRIPTION, UNANSWERED, envelope, token},
    open_page::{LOOK_AGAIN, OpenPage, PATIENCE},
    pages::OLD_WORKER,
};

/// The page with its own API; `None` if there is no Firefox here.
async fn open() -> Option<OpenPage<Own>> {
    let program = firefox::find_or_skip()?;
    let push = Autopush::start().expect("it starts");
    let own = Own::start(Api::new(push.endpoints()).await).await;
    let port = Port::take(0).expect("a free port");
    Some(OpenPage::up(program, push, port, own).await)
}

impl OpenPage<Own> {
    fn api(&self) -> &Api {
        &self.back_office().api
    }

    async fn acked(&self, id: &str, event: &str) {
        let ack = (token(id), event.to_owned());
        let found = self.api().wait(PATIENCE, |api| api.acks().contains(&ack).then_some(())).await;
        found.unwrap_or_else(|| panic!("no {ack:?} among {:?}", self.api().acks()));
    }

    /// Calls a function of `redial.js`.
    async fn calls(&self, call: &str, options: Value) -> Value {
        self.page("redial", json!({"call": call, "options": options})).await
    }

    async fn push_to(&self, subscription: &Value, payload: &Value) {
        assert_eq!(self.api().push(subscription, payload, 60).await, 201);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_subscribes_shows_and_reports_pushes_and_unsubscribes() {
    let Some(it) = open().await else { return };
    what_a_browser_lacks_is_named(&it).await;
    let subscription = subscribes(&it).await;
    a_test_push_from_the_page_is_shown_and_clicked(&it).await;
    what_fails_is_explained_with_what_to_do_next(&it).await;
    the_page_notices_that_its_server_is_gone(&it).await;
    a_duplicate_is_shown_once(&it, &subscription).await;
    pushes_without_an_envelope_are_shown_too(&it, &subscription).await;
    a_declarative_push_is_shown_reported_and_followed(&it, &subscription).await;
    a_declarative_push_in_webkit_is_shown_and_reported(&it).await;
    what_comes_after_its_time_makes_no_sound(&it, &subscription).await;
    a_refused_report_of_a_closed_notification_comes_again(&it, &subscription).await;
    a_report_that_finds_no_connection_is_sent_again_by_itself(&it, &subscription).await;
    what_came_while_it_was_away_is_shown(&it, &subscription).await;
    let renewed = a_subscription_that_the_browser_lost_is_renewed(&it, &subscription).await;
    let replaced = a_browser_whose_endpoint_is_gone_gets_another(&it, &renewed).await;
    let subscribed = subscribing_after_a_refused_renewal_gets_another_endpoint(&it, &replaced).await;
    an_older_worker_is_reported_before_anything_is_stored(&it).await;
    unsubscribes(&it, &subscribed).await;
    assert_eq!(it.page("complaints", json!({})).await, json!([]));
}

/// A notification that stays until it is closed. Others close by themselves after some seconds, and that is reported too.
fn staying(title: &str) -> Value {
    json!({"title": title, "requireInteraction": true})
}

async fn what_a_browser_lacks_is_named(it: &OpenPage<Own>) {
    let names = ["insecure_context", "no_service_worker", "no_push", "ios_home_screen", "permission_denied"];
    let mut expected = json!({"none": null, "noneAgain": null});
    for name in names {
        expected[name] = name.into();
    }
    assert_eq!(it.page("obstacles", json!({})).await, expected);
}

async fn subscribes(it: &OpenPage<Own>) -> Value {
    it.page_shows("#subscribe:enabled").await;
    it.click("#subscribe").await;
    it.page_shows("#browser-state[data-state=on]").await;
    let put = it.api().asked(&Method::PUT).pop().expect("a subscription");
    assert_eq!(put.header("authorization"), Some("Bearer rds_first"));
    let document = put.json();
    let consent = &document["consent"];
    assert_eq!((&consent["action"], &consent["prompt_version"]), (&json!("granted"), &json!("demo-1")));
    assert!(consent["origin"].as_str().is_some_and(|origin| origin.starts_with("http://localhost:")));
    let of_browser = it.page("subscription", json!({})).await;
    assert_eq!((&document["endpoint"], &document["keys"]), (&of_browser["endpoint"], &of_browser["keys"]));
    of_browser
}

async fn a_test_push_from_the_page_is_shown_and_clicked(it: &OpenPage<Own>) {
    it.page("fill", json!({"selector": "#title", "value": "From the page"})).await;
    it.click("#send").await;
    it.decrypted(1).await;
    it.acked("from-the-page", "displayed").await;
    it.page_shows("[data-step=displayed][data-done]").await;
    assert_eq!(it.notification_titles().await, ["From the page"]);
    let mut desktop = it.firefox.desktop().await.expect("a connection");
    desktop.click_notification("From the page").await.expect("a click");
    it.acked("from-the-page", "clicked").await;
    it.page_shows("[data-step=clicked][data-done]").await;
}

async fn sends(it: &OpenPage<Own>, title: &str) {
    it.page("fill", json!({"selector": "#title", "value": title})).await;
    it.click("#send").await;
}

async fn reads(it: &OpenPage<Own>, selector: &str) -> String {
    it.page_shows(selector).await;
    let text = it.page("text", json!({"selector": selector})).await;
    text.as_str().expect("text").to_owned()
}

async fn what_fails_is_explained_with_what_to_do_next(it: &OpenPage<Own>) {
    sends(it, REJECTED).await;
    let text = reads(it, ".reason[data-bad=true]").await;
    let expected = "Failed. The receiver rejected the message, and would reject it again. Look at the status: what is sent has to change.";
    assert_eq!(text, expected);
    sends(it, UNANSWERED).await;
    let text = reads(it, "section .alert:not([hidden])").await;
    assert!(
        text.starts_with("the API does not answer. If the stack has stopped, the terminal with"),
        "{text}"
    );
}

async fn the_page_notices_that_its_server_is_gone(it: &OpenPage<Own>) {
    it.end_server(true);
    let text = reads(it, "#gone").await;
    assert!(
        text.contains("The demo has ended") && text.contains("run redial demo --browser again"),
        "{text}"
    );
    it.end_server(false);
    it.page_shows("[data-gone=false]").await;
}

async fn a_duplicate_is_shown_once(it: &OpenPage<Own>, subscription: &Value) {
    let twice = envelope("twice", &staying("Twice"));
    it.push_to(subscription, &twice).await;
    it.push_to(subscription, &twice).await;
    it.push_to(subscription, &envelope("after", &staying("After"))).await;
    it.acked("after", "displayed").await;
    let shown = it.api().acks().into_iter().filter(|ack| *ack == (token("twice"), "displayed".to_owned()));
    assert_eq!(shown.count(), 1);
    let titles = it.notification_titles().await;
    assert_eq!(titles.iter().filter(|title| *title == "Twice").count(), 1, "{titles:?}");
    assert!(!it.api().acks().contains(&(token("from-the-page"), "closed".to_owned())));
}

async fn pushes_without_an_envelope_are_shown_too(it: &OpenPage<Own>, subscription: &Value) {
    let before = it.api().acks();
    let already = it.notification_titles().await.len();
    it.push_to(subscription, &json!({"title": "Bare", "dir": "sideways"})).await;
    it.push_to(subscription, &Value::Null).await;
    let looking = async {
        while it.notification_titles().await.len() < already + 2 {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "{:?}", it.notification_titles().await);
    assert!(it.notification_titles().await.contains(&"Bare".to_owned()));
    assert_eq!(it.api().acks(), before);
}

/// The document of a declarative push with what Redial adds, which ends then.
fn declarative(id: &str, title: &str, until: u64) -> Value {
    let data = json!({"redial": {"id": id, "until": until, "ack": token(id)}, "own": {"order": 17}});
    let notification = json!({"title": title, "navigate": "https://shop.example/o/17", "body": "Today",
        "require_interaction": true, "data": data});
    json!({"web_push": 8030, "notification": notification, "mutable": true})
}

async fn shown(it: &OpenPage<Own>, title: &str) -> Value {
    let shown = it.page("notifications", json!({})).await;
    let all: Vec<&Value> = shown.as_array().into_iter().flatten().filter(|it| it["title"] == title).collect();
    let [one] = all[..] else { panic!("{title}: {shown}") };
    one.clone()
}

async fn a_declarative_push_is_shown_reported_and_followed(it: &OpenPage<Own>, subscription: &Value) {
    let document = declarative("declared", "Declared", 4_000_000_000);
    it.push_to(subscription, &document).await;
    it.push_to(subscription, &document).await;
    it.acked("declared", "displayed").await;
    let notification = shown(it, "Declared").await;
    assert_eq!((&notification["body"], &notification["silent"]), (&json!("Today"), &json!(false)));
    let data = &notification["data"];
    assert_eq!((&data["url"], &data["own"]), (&json!("https://shop.example/o/17"), &json!({"order": 17})));
    assert_eq!(data["redial"]["late"], false);
}

async fn a_declarative_push_in_webkit_is_shown_and_reported(it: &OpenPage<Own>) {
    let order = |id, title, hangs| {
        let mut document = declarative(id, title, 4_000_000_000);
        json!({"name": "declarativePush", "notification": document["notification"].take(), "hangs": hangs})
    };
    it.page("inWorker", order("webkit", "In WebKit", false)).await;
    it.acked("webkit", "displayed").await;
    assert_eq!(shown(it, "In WebKit").await["data"]["own"], json!({"order": 17}));
    // The event ends also where a promise stays pending.
    it.page("inWorker", order("pending", "Pending", true)).await;
}

async fn what_comes_after_its_time_makes_no_sound(it: &OpenPage<Own>, subscription: &Value) {
    it.push_to(subscription, &declarative("late", "Late", 1_600_000_000)).await;
    it.acked("late", "displayed").await;
    let notification = shown(it, "Late").await;
    assert_eq!(
        (&notification["silent"], &notification["data"]["redial"]["late"]),
        (&json!(true), &json!(true))
    );
}

async fn a_refused_report_of_a_closed_notification_comes_again(it: &OpenPage<Own>, subscription: &Value) {
    it.api().refuse(Method::POST, Refusal::Unavailable);
    it.push_to(subscription, &envelope("closed", &staying("To be closed"))).await;
    let mut desktop = it.firefox.desktop().await.expect("a connection");
    desktop.close_notification("To be closed").await.expect("it is closed");
    it.api().take();
    it.push_to(subscription, &envelope("next", &staying("Next"))).await;
    for (id, event) in [("next", "displayed"), ("closed", "displayed"), ("closed", "closed")] {
        it.acked(id, event).await;
    }
}

async fn a_report_that_finds_no_connection_is_sent_again_by_itself(it: &OpenPage<Own>, subscription: &Value) {
    it.api().refuse(Method::POST, Refusal::Cut);
    let before = it.api().refused();
    it.push_to(subscription, &envelope("offline", &staying("Offline"))).await;
    let cut = it.api().wait(PATIENCE, |api| (api.refused() > before).then_some(())).await;
    cut.expect("a report");
    it.api().take();
    it.acked("offline", "displayed").await;
}

async fn what_came_while_it_was_away_is_shown(it: &OpenPage<Own>, subscription: &Value) {
    it.push.lock_out();
    it.push_to(subscription, &envelope("kept", &json!({"title": "Kept"}))).await;
    assert_eq!(it.api().push(subscription, &envelope("gone", &json!({"title": "Gone"})), 0).await, 201);
    it.push.let_in();
    it.acked("kept", "displayed").await;
    assert!(!it.api().acks().contains(&(token("gone"), "displayed".to_owned())));
}

async fn a_subscription_that_the_browser_lost_is_renewed(it: &OpenPage<Own>, subscription: &Value) -> Value {
    it.api().refuse(Method::PUT, Refusal::Unavailable);
    let before = it.api().refused();
    it.push.forget_browsers();
    let refused = it.api().wait(PATIENCE, |api| (api.refused() > before + 1).then_some(())).await;
    refused.unwrap_or_else(|| panic!("{:?}", it.push.events()));
    it.api().take();
    let with_renewal = |api: &Api| {
        let puts = api.asked(&Method::PUT);
        puts.into_iter().find(|put| put.json()["endpoint"] != subscription["endpoint"])
    };
    let put = it.api().wait(PATIENCE, with_renewal).await;
    let put = put.unwrap_or_else(|| panic!("{:?}", it.push.events()));
    assert_eq!(put.header("authorization"), Some("Bearer rds_renewal"));
    let renewed = put.json();
    assert_eq!(it.api().push(subscription, &json!("old"), 60).await, 410);
    it.push_to(&renewed, &envelope("renewed", &json!({"title": "Renewed"}))).await;
    it.acked("renewed", "displayed").await;
    renewed
}

/// What the API has now, with another endpoint than before: the push service knows that one, and no longer the former one.
async fn replaced(it: &OpenPage<Own>, former: &Value, id: &str) -> Value {
    let subscription = it.back_office().subscription();
    assert_ne!(subscription["endpoint"], former["endpoint"]);
    it.push_to(&subscription, &envelope(id, &staying("Replaced"))).await;
    it.acked(id, "displayed").await;
    unregistered(it, former).await;
    subscription
}

async fn unregistered(it: &OpenPage<Own>, former: &Value) {
    let former = former["endpoint"].as_str();
    let is_it = |event: &Event| matches!(event, Event::Unregistered { endpoint, .. } if endpoint.as_deref() == former);
    it.push_event("unsubscription", is_it).await;
}

async fn a_browser_whose_endpoint_is_gone_gets_another(it: &OpenPage<Own>, former: &Value) -> Value {
    it.api().lose(former);
    let renewed = it.calls("renew", json!({})).await;
    assert_eq!(renewed["state"], "active");
    let renewed = replaced(it, former, "replaced").await;
    it.api().lose(&renewed);
    let subscribed = it.calls("subscribe", json!({})).await;
    assert_eq!(subscribed["state"], "active");
    replaced(it, &renewed, "replaced-again").await
}

async fn subscribing_after_a_refused_renewal_gets_another_endpoint(
    it: &OpenPage<Own>,
    former: &Value,
) -> Value {
    it.api().refuse(Method::PUT, Refusal::Ended);
    let refused = it.calls("renew", json!({})).await;
    assert_eq!(refused, json!({"code": "api_refused", "status": 401}));
    assert_eq!(it.calls("current", json!({})).await, Value::Null);
    it.api().take();
    it.calls("subscribe", json!({})).await;
    assert_eq!(it.calls("current", json!({})).await["subscription"], SUBSCRIPTION);
    replaced(it, former, "subscribed-again").await
}

async fn an_older_worker_is_reported_before_anything_is_stored(it: &OpenPage<Own>) {
    let stored = it.api().asked(&Method::PUT).len();
    let refused = it.calls("subscribe", json!({"worker": OLD_WORKER})).await;
    assert_eq!(refused, json!({"code": "worker_outdated"}));
    assert_eq!(it.api().asked(&Method::PUT).len(), stored);
}

async fn unsubscribes(it: &OpenPage<Own>, subscription: &Value) {
    it.click("#unsubscribe").await;
    it.page_shows("#browser-state[data-state=off]").await;
    unregistered(it, subscription).await;
    assert_eq!(it.api().push(subscription, &json!("late"), 60).await, 410);
    let deletions = it.api().asked(&Method::DELETE);
    let [deletion] = deletions.as_slice() else { panic!("{deletions:?}") };
    assert_eq!(deletion.header("authorization"), Some("Bearer rds_renewal"));
    assert_eq!(it.page("subscription", json!({})).await, Value::Null);
}
