//! What an operator sets is what the functions do: they are the real ones here, with a push service beside them.

use std::{fs, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial::local::Options;
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use redial_testkit::push_service::{Answer, PushService, Subscriber};
use serde_json::{Value, json};

use super::{page, world::World};

const PATIENCE: Duration = Duration::from_secs(90);

/// What a worker knows of a breaker may be so old, and a bit.
const FOLLOWS: Duration = Duration::from_millis(2_000);

struct Steered {
    world: World,
    push: PushService,
    browser: Subscriber,
    /// With the push service's root certificate, which functions read when they start.
    _folder: tempfile::TempDir,
}

impl Steered {
    async fn up() -> Self {
        let push = PushService::start().expect("a free port");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ca = folder.path().join("ca.pem");
        fs::write(&ca, push.ca_pem()).expect("the folder is writable");
        let options = Options {
            egress_allow: vec![push.origin().to_owned()],
            egress_ca: Some(ca),
            // What waits for a breaker comes back within a cooldown.
            parameters: [("BreakerCooldownSeconds".to_owned(), "1".to_owned())].into(),
            ..Options::default()
        };
        let world = World::with(options).await;
        let key = &world.stack.description().vapid_public_key;
        let browser = push.subscribe(&URL_SAFE_NO_PAD.decode(key).expect("base64url"));
        push.always(&browser.endpoint, Answer::created());
        Self { world, push, browser, _folder: folder }
    }

    async fn send(&self, tenant: &str, ids: &[&str]) {
        let sqs = aws_sdk_sqs::Client::new(&self.world.stack.sdk_config());
        for id in ids {
            let to = json!({"web_push": self.browser.json()});
            let message = json!({"tenant": tenant, "id": id, "to": to, "payload": "hello"});
            let send = sqs.send_message().queue_url(&self.world.stack.description().queues.ingest);
            let send = send.message_group_id(tenant).message_body(message.to_string());
            send.send().await.expect("the queue takes it");
        }
    }

    /// When the push service was asked, in order.
    fn asked(&self) -> Vec<Timestamp> {
        let received = self.push.received(&self.browser.endpoint);
        received.iter().map(|it| Timestamp::from_ms(i64::try_from(it.at_ms).expect("this era"))).collect()
    }

    async fn until_asked(&self, times: usize) {
        let asking = async {
            while self.asked().len() < times {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let done = tokio::time::timeout(PATIENCE, asking).await;
        assert!(done.is_ok(), "asked {} of {times} times:\n{}", self.asked().len(), self.world.stack.log());
    }

    /// Whether the ledger knows of an attempt.
    async fn is_in_ledger(&self, id: &str) -> bool {
        let client = aws_sdk_dynamodb::Client::new(&self.world.stack.sdk_config());
        let get = client.get_item().table_name(&self.world.stack.description().tables.deliveries);
        let get = get.key("pk", AttributeValue::S(format!("acme#{id}"))).consistent_read(true);
        get.send().await.expect("the table answers").item.is_some()
    }

    /// Waits for a line with these fields.
    async fn until_logged(&self, fields: Value) -> Value {
        let has_them =
            |line: &Value| fields.as_object().into_iter().flatten().all(|(name, it)| line[name] == *it);
        let logging = async {
            loop {
                if let Some(line) = self.world.log().await.into_iter().find(has_them) {
                    return line;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, logging).await.unwrap_or_else(|_| panic!("it is not logged: {fields}"))
    }

    fn listed(&self) -> Value {
        let all = self.world.answer(&["breakers", "list", "--all"]);
        let origins = all["origins"].as_array().expect("a list");
        origins.iter().find(|it| it["origin"] == self.push.origin()).expect("it is known").clone()
    }
}

#[tokio::test]
async fn workers_do_as_an_operator_says() {
    let it = Steered::up().await;
    a_breaker_that_was_opened_holds_everything_back_and_then_sends_probes(&it).await;
    a_breaker_that_was_closed_lets_everything_pass(&it).await;
    a_tenant_s_limit_is_kept(&it).await;
    assert_eq!(it.world.stack.poller_failure(), None);
}

async fn a_breaker_that_was_opened_holds_everything_back_and_then_sends_probes(it: &Steered) {
    let origin = it.push.origin();
    let opened = it.world.answer(&["breakers", "open", origin, "--for", "12s"]);
    let until = opened["until"].as_str().and_then(Timestamp::parse_rfc3339).expect("a time");
    tokio::time::sleep(FOLLOWS).await;
    let ids: Vec<String> = (0..8).map(|n| format!("held-{n}")).collect();
    it.send("acme", &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(System.now() < until, "this machine is too slow to see it");
    for id in &ids {
        assert!(!it.is_in_ledger(id).await, "{id} has used an attempt");
    }
    it.until_asked(ids.len()).await;
    let asked = it.asked();
    assert!(asked[0] >= until, "{} was before {}", asked[0].to_rfc3339(), until.to_rfc3339());
    assert_eq!(asked.len(), ids.len(), "each of them once");
    let row = it.listed();
    assert_ne!(row["phase"], "open", "{row}");
    let line = it.until_logged(json!({"event": "breaker", "from": "half_open", "to": "ramping"})).await;
    let fields = |line: &Value| -> Vec<String> {
        // Only what opens or pauses ends at some time.
        line.as_object().expect("fields").keys().filter(|name| *name != "until").cloned().collect()
    };
    assert_eq!(fields(&line), fields(&page::log_line()), "the page shows what is logged");
    assert!(!line.to_string().contains(origin), "{line}");
}

async fn a_breaker_that_was_closed_lets_everything_pass(it: &Steered) {
    let origin = it.push.origin();
    it.world.answer(&["breakers", "open", origin, "--for", "1h"]);
    let closed = it.world.answer(&["breakers", "close", origin]);
    assert_eq!((&closed["phase"], &closed["before"]["phase"]), (&json!("closed"), &json!("open")));
    tokio::time::sleep(FOLLOWS).await;
    let before = it.asked().len();
    it.send("acme", &["after-1", "after-2"]).await;
    it.until_asked(before + 2).await;
    assert_eq!(it.listed()["phase"], "closed");
}

async fn a_tenant_s_limit_is_kept(it: &Steered) {
    // Of a tenant that no worker has heard of, none believes that it has no limit.
    it.world.answer(&["limits", "set", "tenant", "bolt", "1/s"]);
    let before = it.asked().len();
    it.send("bolt", &["l1", "l2", "l3", "l4", "l5", "l6"]).await;
    it.until_asked(before + 6).await;
    let asked = it.asked().split_off(before);
    let took = asked[5].since(asked[0]);
    assert!(took >= Duration::from_secs(3), "six within {took:?} at one a second");
}
