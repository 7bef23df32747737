//! Endpoints that are gone: three of many are pruned, thirty of a hundred are kept.

use redial_core::endpoint::Endpoint;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::recipient::Recipient;
use redial_core::subscription::Subscription;
use redial_core::time::Timestamp;
use redial_testkit::push_service::{Answer, Fixture};
use redial_tests::deployment::{Deployment, text};
use serde_json::json;

/// Subscribes `all` browsers of tenant `acme`, of which the first `gone` have unsubscribed, and pushes to those.
async fn with_gone(all: usize, gone: usize) -> Deployment {
    let it = Deployment::up_with(|options| {
        options.env.insert("SPIKE_WINDOW_SECONDS".to_owned(), "4".to_owned());
    })
    .await;
    let store = it.subscriptions().await;
    let keys = it.subscriber();
    let mut subscriptions = Vec::with_capacity(all);
    for n in 0..all {
        let endpoint = if n < gone {
            let browser = it.subscriber();
            it.push.always(&browser.endpoint, Answer::fixture(Fixture::MozillaGone));
            browser.endpoint
        } else {
            format!("{}-{n}", keys.endpoint)
        };
        let target = PushTarget {
            endpoint: Endpoint::parse(&endpoint).expect("valid"),
            keys: PushKeys::parse(&keys.p256dh, &keys.auth).expect("valid"),
            vapid_key_id: None,
        };
        let key = SubscriptionKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: SubscriptionId::parse(&format!("s{n}")).expect("valid"),
        };
        subscriptions.push(Subscription::new(key, Recipient::WebPush(target)));
    }
    let stored = subscriptions.iter().map(|it| store.put(it, Timestamp::from_secs(1_800_000_000)));
    for stored in futures_util::future::join_all(stored).await {
        assert_eq!(stored, Ok(true));
    }
    let bodies: Vec<String> = (0..gone)
        .map(|n| json!({"tenant": "acme", "id": format!("m{n}"), "to": {"subscription": format!("s{n}")}}))
        .map(|message| message.to_string())
        .collect();
    for ten in bodies.chunks(10) {
        it.send_batch(ten).await;
    }
    it.until_quiet().await;
    it
}

/// Sweeps until every candidate is decided; answers how many were pruned and how many quarantined.
async fn sweep(it: &Deployment) -> (u64, u64) {
    let first = it
        .until("the windows are over and decided", async || {
            let swept = it.invoke(&it.description().functions.cleanup, &json!({"sweep": "prune"})).await;
            Some(decided(&swept)).filter(|(pruned, quarantined)| pruned + quarantined > 0)
        })
        .await;
    // Candidates on the other side of a window's edge are decided a window later.
    tokio::time::sleep(std::time::Duration::from_secs(9)).await;
    let swept = it.invoke(&it.description().functions.cleanup, &json!({"sweep": "prune"})).await;
    let second = decided(&swept);
    (first.0 + second.0, first.1 + second.1)
}

fn decided(swept: &serde_json::Value) -> (u64, u64) {
    let n = |name: &str| swept[name].as_u64().unwrap_or_default();
    (n("pruned"), n("quarantined"))
}

async fn states(it: &Deployment) -> Vec<String> {
    let items = it.scan(&it.description().tables.subscriptions).await;
    items.iter().filter_map(|item| text(item, "state").map(str::to_owned)).collect()
}

#[tokio::test]
async fn thirty_of_a_hundred_are_quarantined_and_none_is_deleted() {
    let it = with_gone(100, 30).await;
    assert_eq!(sweep(&it).await, (0, 30));
    let states = states(&it).await;
    assert_eq!(states.len(), 100);
    assert_eq!(states.iter().filter(|state| *state == "quarantined").count(), 30);
}

#[tokio::test]
async fn three_of_a_thousand_are_pruned() {
    let it = with_gone(1000, 3).await;
    assert_eq!(sweep(&it).await, (3, 0));
    assert_eq!(states(&it).await.len(), 997);
}
