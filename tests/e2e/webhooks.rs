//! Webhooks: signed so that a foreign library accepts them, retried, switched off, and unable to reach inside.

use std::collections::BTreeMap;
use std::sync::Arc;

use redial_core::endpoint::Endpoint;
use redial_core::identity::Tenant;
use redial_core::recipient::Recipient;
use redial_core::subscription::State;
use redial_core::webhook::{SigningSecrets, WebhookSecret, WebhookTarget};
use redial_engine::ports::SubscriptionHealth as _;
use redial_testkit::standard_webhooks::{self, SignedRequest};
use redial_testkit::webhook_receiver::{Answer, Outage, Request};
use redial_tests::prelude::*;

/// A message of the test's tenant to an address.
fn to_url(stack: &TestStack, id: &str, url: &str, retry: &Value) -> Value {
    json!({"tenant": stack.tenant, "id": id, "to": {"webhook": {"url": url}}, "payload": {"hello": id}, "retry": retry})
}

fn secret(byte: u8) -> WebhookSecret {
    WebhookSecret::new(vec![byte; 32]).expect("32 bytes")
}

/// Stores a webhook's subscription with these secrets.
async fn subscribe(stack: &TestStack, id: &str, url: &str, secrets: SigningSecrets) {
    let target = WebhookTarget { secrets, ..WebhookTarget::at(Endpoint::parse(url).expect("a URL")) };
    stack.subscribe(id, Recipient::Webhook(target)).await;
}

/// What the Python library says of these requests, to a receiver with this secret.
async fn problems(secret: &WebhookSecret, requests: &[Arc<Request>]) -> Vec<Option<String>> {
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

    let header = |request: &Request, name: &str| request.header(name).map(str::to_owned);
    assert_eq!(header(&received[0], "webhook-id"), Some("order-1".to_owned()));
    assert_eq!(header(&received[0], "webhook-id"), header(&received[1], "webhook-id"));
    assert_ne!(header(&received[0], "webhook-timestamp"), header(&received[1], "webhook-timestamp"));
    assert_eq!(header(&received[0], "content-type"), Some("application/json".to_owned()));
    assert_eq!(header(&received[0], "x-shop"), Some("7".to_owned()));
    assert!(header(&received[0], "user-agent").is_some_and(|agent| agent.starts_with("redial/")));
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
    let rotated = SigningSecrets::new(vec![(secret(1), None)]).expect("one").rotated(
        secret(2),
        now.plus(Duration::from_secs(30)),
        now,
    );
    let url = stack.webhooks.url("/rotating");
    subscribe(&stack, "w1", &url, rotated).await;
    let send = async |id: &str| {
        stack
            .send(&json!({"tenant": stack.tenant, "id": id, "to": {"subscription": "w1"}, "payload": "x"}))
            .await;
        stack.until_state(id, "sent").await;
        stack.webhooks.requests("/rotating").pop().expect("it arrived")
    };
    let during = send("during").await;
    assert_eq!(problems(&secret(1), std::slice::from_ref(&during)).await, [None]);
    assert_eq!(problems(&secret(2), &[during]).await, [None]);
    // A second secret that has expired signs nothing.
    tokio::time::sleep(now.plus(Duration::from_secs(31)).since(System.now())).await;
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
    let message =
        |id: &str| json!({"tenant": stack.tenant, "id": id, "to": {"subscription": "w1"}, "payload": "x"});
    stack.send(&message("last")).await;
    let entry = stack.until_state("last", "failed").await;
    assert_eq!((number(&entry, "status"), text(&entry, "reason")), (Some(410), Some("gone")));
    let stored =
        stack.subscriptions().await.get(&stack.subscription_key("w1")).await.expect("the table answers");
    assert_eq!(stored.expect("it is kept").state, State::Disabled);
    stack.send(&message("later")).await;
    let entry = stack.until_state("later", "failed").await;
    assert_eq!(text(&entry, "reason"), Some("endpoint_disabled"));
    assert_eq!(stack.webhooks.requests("/gone").len(), 1);

    let moved = stack.webhooks.url("/moved");
    stack.webhooks.always("/moved", Answer::redirect(302, &stack.webhooks.url("/elsewhere")));
    let retry = json!({"retry_delays": [1], "jitter": "none"});
    stack.send(&to_url(&stack, "moved", &moved, &retry)).await;
    let entry = stack.until_state("moved", "failed").await;
    assert_eq!(text(&entry, "reason"), Some("retries_exhausted"));
    assert_eq!(
        (stack.webhooks.requests("/moved").len(), stack.webhooks.requests("/elsewhere").len()),
        (2, 0)
    );
}

/// One of every class of addresses that egress does not reach, and of every way to write one.
const INSIDE: [&str; 30] = [
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://127.0.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://100.64.0.1/",
    "https://198.18.0.1/",
    "https://192.0.2.1/",
    "https://198.51.100.1/",
    "https://203.0.113.1/",
    "https://192.88.99.1/",
    "https://224.0.0.1/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    "https://0.0.0.0/",
    "https://[::]/",
    "https://[::1]/",
    "https://[fe80::1]/",
    "https://[fc00::1]/",
    "https://[fd00:ec2::254]/",
    "https://[64:ff9b::a00:1]/",
    "https://[2002:a00:1::]/",
    "https://[2001::1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[::10.0.0.1]/",
    "https://[ff02::1]/",
    "https://[2001:db8::1]/",
    "https://2130706433/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
];

#[tokio::test]
async fn an_address_inside_the_network_ends_as_a_dead_letter() {
    let stack = TestStack::shared().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("it can");
    let port = listener.local_addr().expect("bound").port();
    let mut urls: Vec<String> = INSIDE.map(str::to_owned).into();
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
        assert_eq!(text(&entry, "reason"), Some("endpoint_not_allowed"), "{url}");
    }
    assert!(listener.accept().is_err(), "a connection was made");
    stack.until_quiet().await;
    let dead_letters = stack.own(&stack.description().tables.dead_letters).await;
    let described = dead_letters.iter().filter(|it| text(it, "reason") == Some("endpoint_not_allowed"));
    assert_eq!(described.count(), urls.len());
}

#[tokio::test]
async fn a_thousand_webhooks_outlast_an_outage_and_return_spread_out() {
    const MESSAGES: usize = 1000;
    let stack = TestStack::up_with(|options| {
        options.env.insert("SQS_MAX_DELAY_SECONDS".to_owned(), "900".to_owned());
    })
    .await;
    let url = stack.webhooks.url("/orders");
    stack.webhooks.take_down(Outage::Answering(503)).expect("it goes down");
    let retry = json!({"retry_delays": [2, 5, 10, 20]});
    let message = |n| to_url(&stack, &format!("m{n}"), &url, &retry).to_string();
    stack.send_all((0..MESSAGES).map(message)).await;
    // Long enough for most to have failed twice.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let before = stack.webhooks.requests("/orders").len();
    stack.webhooks.bring_up().expect("it comes back");
    stack.webhooks.wait_for("/orders", before + 1, PATIENCE).await.expect("they return");
    stack.until_quiet().await;

    let received = stack.webhooks.requests("/orders");
    let accepted: Vec<&Arc<Request>> = received.iter().filter(|it| it.answered == Some(200)).collect();
    let mut ids: Vec<&str> = accepted.iter().filter_map(|it| it.header("webhook-id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), accepted.len()), (MESSAGES, MESSAGES), "all arrive, none twice");
    // Retries spread out: of what failed together, at most half falls into the same second, because the last two delays are drawn
    // from a width of 1 s and of 2 s. Nor did they fail together: to send a thousand requests takes longer than that.
    let mut per_second = BTreeMap::<u64, usize>::new();
    for request in accepted {
        *per_second.entry(request.at_ms / 1000).or_default() += 1;
    }
    let most = per_second.values().copied().max().unwrap_or_default();
    assert!(most <= MESSAGES / 2, "{per_second:?}");
}
