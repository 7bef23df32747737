//! Webhooks: signed so that a foreign library accepts them, retried, switched off, and unable to reach inside.

use std::sync::Arc;

use redial_core::{
    endpoint::Endpoint,
    identity::Tenant,
    recipient::Recipient,
    subscription::State,
    webhook::{SigningSecrets, WebhookSecret, WebhookTarget},
};
use redial_engine::ports::SubscriptionHealth as _;
use redial_testkit::{
    standard_webhooks::{self, SignedRequest},
    webhook_receiver::{Answer, Outage, Request},
};
use redial_tests::prelude::*;

/// A message of the test's tenant to an address.
fn to_url(stack: &TestStack, id: &str, url: &str, retry: &Value) -> Value {
    json!({"tenant": stack.tenant, "id": id, "to": {"webhook": {"url": url}}, "payload": {"hello": id}, "retry": retry})
}

/// The same to the webhook that is stored as `w1`.
fn to_subscription(stack: &TestStack, id: &str) -> Value {
    json!({"tenant": stack.tenant, "id": id, "to": {"subscription": "w1"}, "payload": "x"})
}

pub(crate) fn secret(byte: u8) -> WebhookSecret {
    WebhookSecret::new(vec![byte; 32]).expect("32 bytes")
}

/// Stores a webhook's subscription with these secrets.
pub(crate) async fn subscribe(stack: &TestStack, id: &str, url: &str, secrets: SigningSecrets) {
    let target = WebhookTarget { secrets, ..WebhookTarget::at(Endpoint::parse(url).expect("a URL")) };
    stack.subscribe(id, Recipient::Webhook(target)).await;
}

/// What the Python library says of these requests, to a receiver with this secret.
pub(crate) async fn problems(secret: &WebhookSecret, requests: &[Arc<Request>]) -> Vec<Option<String>> {
    let python = tokio::task::spawn_blocking(|| redial::local::python(&redial::local::Progress::silent()));
    let python = python.await.expect("no panic").expect("installed");
    let signed: Vec<SignedRequest> =
        requests.iter().map(|request| SignedRequest::of(secret.expose(), request)).collect();
    standard_webhooks::verify(&python, &signed).await.expect("Python answers")
}

#[tokio::test]
async fn another_library_accepts_every_attempt_and_refuses_a_changed_one() {
    let stack = TestStack::shared().await;
    let url = stack.webhooks.url("/orders");
    stack.webhooks.script("/orders", [Answer::status(500)]);
    subscribe(&stack, "w1", &url, SigningSecrets::new(vec![(secret(1), None)]).expect("one")).await;
    let message = json!({
        "tenant": stack.tenant, "id": "order-1", "to": {"subscription": "w1"},
        "payload": {"amount": 5, "text": "Grüße"}, "headers": {"X-Shop": "7"},
        "retry": {"retry_delays": [2], "jitter": "none"},
    });
    stack.send(&message).await;
    stack.until_state("order-1", "sent").await;
    let received = stack.webhooks.requests("/orders");
    assert_eq!(received.len(), 2);
    assert_eq!(problems(&secret(1), &received).await, [None, None]);

    for (name, value) in [("webhook-id", "order-1"), ("content-type", "application/json"), ("x-shop", "7")] {
        assert!(received.iter().all(|request| request.header(name) == Some(value)), "{name}");
    }
    assert_ne!(received[0].header("webhook-timestamp"), received[1].header("webhook-timestamp"));
    assert!(received[0].header("user-agent").is_some_and(|agent| agent.starts_with("redial/")));
    assert_eq!(received[0].body, r#"{"amount":5,"text":"Grüße"}"#.as_bytes());

    let changed = Request { body: r#"{"amount":6,"text":"Grüße"}"#.into(), ..Request::clone(&received[0]) };
    assert!(problems(&secret(1), &[Arc::new(changed)]).await[0].is_some());
    assert!(problems(&secret(2), &received).await.iter().all(Option::is_some));
}

#[tokio::test]
async fn a_bare_url_is_signed_with_its_tenant_s_secret() {
    let stack = TestStack::shared().await;
    let url = stack.webhooks.url("/bare");
    stack.send(&to_url(&stack, "bare", &url, &json!("none"))).await;
    stack.until_state("bare", "sent").await;
    let secrets = stack.webhook_keys().await.secrets_of(&Tenant::parse(&stack.tenant).expect("valid"));
    assert_eq!(problems(&secrets[0], &stack.webhooks.requests("/bare")).await, [None]);
}

#[tokio::test]
async fn both_secrets_sign_during_a_rotation_and_the_new_one_after() {
    let stack = TestStack::shared().await;
    let now = System.now();
    let until = now.plus(Duration::from_secs(60));
    let rotated = SigningSecrets::new(vec![(secret(1), None)]).expect("one").rotated(secret(2), until, now);
    let url = stack.webhooks.url("/rotating");
    subscribe(&stack, "w1", &url, rotated).await;
    let send = async |id: &str| {
        stack.send(&to_subscription(&stack, id)).await;
        stack.until_state(id, "sent").await;
        stack.webhooks.requests("/rotating").pop().expect("it arrived")
    };
    let during = send("during").await;
    assert_eq!(problems(&secret(1), std::slice::from_ref(&during)).await, [None]);
    assert_eq!(problems(&secret(2), &[during]).await, [None]);
    // A second secret that has expired signs nothing.
    tokio::time::sleep(until.plus(Duration::from_secs(1)).since(System.now())).await;
    let after = send("after").await;
    assert!(problems(&secret(1), std::slice::from_ref(&after)).await[0].is_some());
    assert_eq!(problems(&secret(2), &[after]).await, [None]);
}

#[tokio::test]
async fn a_410_switches_off_at_once_and_a_redirect_is_never_followed() {
    let stack = TestStack::shared().await;
    let gone = stack.webhooks.url("/gone");
    stack.webhooks.script("/gone", [Answer::status(410)]);
    subscribe(&stack, "w1", &gone, SigningSecrets::default()).await;
    stack.send(&to_subscription(&stack, "last")).await;
    let entry = stack.until_state("last", "failed").await;
    assert_eq!((number(&entry, "status"), text(&entry, "reason")), (Some(410), Some("gone")));
    // Its worker records the end of the message before it switches the subscription off.
    let (subscriptions, key) = (stack.subscriptions().await, stack.subscription_key("w1"));
    stack
        .until("the subscription is off", async || {
            let stored = subscriptions.get(&key).await.expect("the table answers");
            (stored.expect("it is kept").state == State::Disabled).then_some(())
        })
        .await;
    stack.send(&to_subscription(&stack, "later")).await;
    let entry = stack.until_state("later", "failed").await;
    assert_eq!(text(&entry, "reason"), Some("endpoint_disabled"));
    assert_eq!(stack.webhooks.requests("/gone").len(), 1);

    let moved = stack.webhooks.url("/moved");
    stack.webhooks.always("/moved", Answer::redirect(302, &stack.webhooks.url("/elsewhere")));
    let retry = json!({"retry_delays": [1], "jitter": "none"});
    stack.send(&to_url(&stack, "moved", &moved, &retry)).await;
    let entry = stack.until_state("moved", "failed").await;
    assert_eq!(text(&entry, "reason"), Some("retries_exhausted"));
    let requests = |path| stack.webhooks.requests(path).len();
    assert_eq!((requests("/moved"), requests("/elsewhere")), (2, 0));
}

#[tokio::test]
async fn a_receiver_that_only_fails_is_switched_off_and_one_that_recovers_is_not() {
    const AFTER: Duration = Duration::from_secs(10);
    let seconds = AFTER.as_secs().to_string();
    let stack = TestStack::up_with_env([("WEBHOOK_SWITCHED_OFF_AFTER_SECONDS", &seconds)]).await;
    stack.webhooks.always("/dead", Answer::status(500));
    stack.webhooks.script("/recovers", [Answer::status(500), Answer::status(200), Answer::status(500)]);
    let subscriptions = stack.subscriptions().await;
    for id in ["dead", "recovers"] {
        subscribe(&stack, id, &stack.webhooks.url(&format!("/{id}")), SigningSecrets::default()).await;
    }
    let stored = async |id: &str| {
        let stored = subscriptions.get(&stack.subscription_key(id)).await.expect("the table answers");
        stored.expect("it is kept")
    };
    let send = async |id: &str, to: &str, state: &str| {
        let message = json!({
            "tenant": stack.tenant, "id": id, "to": {"subscription": to}, "payload": "x", "retry": {"max_retries": 0},
        });
        stack.send(&message).await;
        stack.until_state(id, state).await
    };
    let failing_since = async |id: &str| {
        stack.until(&format!("{id} fails"), async || stored(id).await.health.failing_since).await
    };
    send("dead-1", "dead", "failed").await;
    send("recovers-1", "recovers", "failed").await;
    let (dead_since, first_since) = (failing_since("dead").await, failing_since("recovers").await);
    send("recovers-2", "recovers", "sent").await;
    let forgotten = async || stored("recovers").await.health.failing_since.is_none().then_some(());
    stack.until("its failures are forgotten", forgotten).await;

    System.sleep(dead_since.max(first_since).plus(AFTER).since(System.now())).await;
    send("dead-2", "dead", "failed").await;
    send("recovers-3", "recovers", "failed").await;
    let is_off = async || (stored("dead").await.state == State::Disabled).then_some(());
    stack.until("the one that only fails is off", is_off).await;
    let since = failing_since("recovers").await;
    stack.until_quiet().await;
    // A machine that is too slow has cleanup see a receiver that has failed for as long.
    let (state, is_slow) = (stored("recovers").await.state, System.now().since(since) >= AFTER);
    assert!(state == State::Active || is_slow, "the one that recovered is {state:?}");
    let requests = stack.webhooks.requests("/dead").len();
    let entry = send("dead-3", "dead", "failed").await;
    assert_eq!(text(&entry, "reason"), Some("endpoint_disabled"));
    assert_eq!(stack.webhooks.requests("/dead").len(), requests);
}

/// One of every class of addresses that egress does not reach, and of every way to write one.
const INSIDE: &str = "
    10.0.0.1 172.16.0.1 192.168.1.1 127.0.0.1 169.254.169.254 100.64.0.1 198.18.0.1 192.0.2.1 198.51.100.1
    203.0.113.1 192.88.99.1 224.0.0.1 240.0.0.1 255.255.255.255 0.0.0.0
    [::] [::1] [fe80::1] [fc00::1] [fd00:ec2::254] [64:ff9b::a00:1] [2002:a00:1::] [2001::1]
    [::ffff:10.0.0.1] [::10.0.0.1] [ff02::1] [2001:db8::1]
    2130706433 0x7f.0.0.1 0177.0.0.1
";

#[tokio::test]
async fn an_address_inside_the_network_ends_as_a_dead_letter() {
    let stack = TestStack::shared().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("it can");
    let port = listener.local_addr().expect("bound").port();
    let mut urls: Vec<String> = INSIDE.split_whitespace().map(|host| format!("https://{host}/")).collect();
    // Other ports than 443, on this machine, where the test listens; and a name that leads there.
    urls.extend([
        format!("https://127.0.0.1:{port}/"),
        format!("https://[::ffff:127.0.0.1]:{port}/"),
        "https://localhost/".to_owned(),
        "https://example.com:8443/".to_owned(),
    ]);
    let retry = json!({"retry_delays": [1], "jitter": "none"});
    let message =
        |(n, url): (usize, &String)| to_url(&stack, &format!("inside-{n}"), url, &retry).to_string();
    stack.send_all(urls.iter().enumerate().map(message)).await;
    for (n, url) in urls.iter().enumerate() {
        let entry = stack.until_state(&format!("inside-{n}"), "failed").await;
        // A name that leads inside is retried as one that does not exist.
        let reason = if url == "https://localhost/" { "retries_exhausted" } else { "endpoint_not_allowed" };
        assert_eq!(text(&entry, "reason"), Some(reason), "{url}");
    }
    assert!(listener.accept().is_err(), "a connection was made");
    stack.until_quiet().await;
    let dead_letters = stack.own(&stack.tables().dead_letters).await;
    let described = dead_letters.iter().filter(|it| text(it, "reason") == Some("endpoint_not_allowed"));
    assert_eq!(described.count(), urls.len() - 1);
}

#[tokio::test]
async fn a_thousand_webhooks_arrive_once_after_an_outage() {
    const MESSAGES: usize = 1000;
    let stack = TestStack::up_with_env([("SQS_MAX_DELAY_SECONDS", "900")]).await;
    let url = stack.webhooks.url("/orders");
    stack.webhooks.take_down(Outage::Answering(503)).expect("it goes down");
    let retry = json!({"retry_delays": [2, 5, 10, 20, 60, 60, 60]});
    let message = |n| to_url(&stack, &format!("m{n}"), &url, &retry).to_string();
    stack.send_all((0..MESSAGES).map(message)).await;
    // Enough that each has failed, and some twice.
    stack.webhooks.wait_for("/orders", MESSAGES + 1, PATIENCE).await.expect("they are retried");
    stack.webhooks.bring_up().expect("it comes back");
    for n in 0..MESSAGES {
        stack.until_state(&format!("m{n}"), "sent").await;
    }
    stack.until_quiet().await;
    let received = stack.webhooks.requests("/orders");
    let accepted = received.iter().filter(|it| it.answered == Some(200));
    let mut ids: Vec<&str> = accepted.filter_map(|it| it.header("webhook-id")).collect();
    assert_eq!(ids.len(), MESSAGES, "none twice");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), MESSAGES, "all arrive");
}
