//! Inserted entries, as a claim reads them.

use redial_core::endpoint::{EndpointHash, HashKeys};
use redial_core::identity::IdSource;
use redial_core::identity::{Attempt, DeliveryId, Lineage, SubscriptionId, Tenant};
use redial_core::ledger::{Ask, Judgement, judge};

use super::*;

fn print(content: &str) -> EndpointHash {
    HashKeys::parse("k1:0123456789abcdef").expect("valid").fingerprint(content.as_bytes())
}

fn now() -> Timestamp {
    Timestamp::from_secs(1_800_000_000)
}

fn delivery() -> NewDelivery {
    NewDelivery {
        key: DeliveryKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: DeliveryId::parse("m1").expect("valid"),
        },
        fingerprint: print("content"),
        channel: None,
        endpoint_hash: None,
        subscription: SubscriptionId::parse("s1"),
        not_before: None,
    }
}

/// The item that an insertion writes.
fn written(delivery: &NewDelivery) -> Item {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
        .build();
    let table = DynamoDeliveries::new(aws_sdk_dynamodb::Client::from_conf(config), "deliveries".to_owned());
    let Statement { text, values } = table.statement(delivery, now());
    let names = text.split('\'').skip(1).step_by(2).map(str::to_owned);
    names.zip(values).collect()
}

fn ask(attempt: u32, fingerprint: EndpointHash) -> Ask {
    Ask {
        key: delivery().key,
        turn: Turn { lineage: Lineage(0), attempt: Attempt(attempt) },
        lease_token: "invocation".to_owned(),
        lease_until: now().plus(std::time::Duration::from_secs(40)),
        source_message: "sqs-1".to_owned(),
        fingerprint,
        id_source: IdSource::Producer,
        state: State::Sending,
    }
}

#[test]
fn a_new_entry_can_be_claimed_and_is_not_in_doubt() {
    let stored = entry(&written(&delivery())).expect("an entry");
    assert_eq!(judge(&stored, &ask(0, print("content")), now()), Judgement::Claim { in_doubt: false });
    assert_eq!(judge(&stored, &ask(1, print("content")), now()), Judgement::Claim { in_doubt: false });
    assert_eq!(judge(&stored, &ask(0, print("another")), now()), Judgement::Conflict);
    assert_eq!((stored.state, stored.turn), (State::Queued, Turn::default()));
    assert_eq!(stored.subscription, SubscriptionId::parse("s1"));
}

#[test]
fn an_entry_outlives_the_message_that_waits_for_it() {
    let at = now().plus(std::time::Duration::from_secs(86_400 * 300));
    let item = written(&NewDelivery { not_before: Some(at), ..delivery() });
    let expires: i64 = item.number("expires_at").expect("a number");
    assert_eq!(expires, at.as_secs() + 15 * 86_400);
    assert_eq!(item.time("not_before"), Some(at));
}

#[test]
fn a_delivery_is_found_with_its_attempts_in_order_and_its_acknowledgements() {
    let mut item = written(&delivery());
    assert_eq!(known(&item).expect("known").channel, None);
    let attempt = |n: u32| format!(r#"{{"l":0,"n":{n},"at":1,"v":"retry"}}"#);
    // There are sixteen places: the seventeenth attempt is in the place of the first.
    item.insert(attribute(0), s(attempt(16)));
    item.insert(attribute(1), s(attempt(1)));
    item.insert("channel".to_owned(), s("web_push"));
    item.insert("clicked_at".to_owned(), ms(now()));
    let known = known(&item).expect("known");
    let order: Vec<u32> = known.attempts.iter().map(|attempt| attempt.turn().attempt.0).collect();
    assert_eq!(order, [1, 16]);
    assert_eq!(known.channel, Some(Channel::WebPush));
    assert_eq!(known.acknowledged, [(AckEvent::Clicked, now())]);
}
