//! Inserted entries, as a claim reads them.

use std::time::Duration;

use redial_core::ack::AckEvent;
use redial_core::identity::{Attempt, SubscriptionId, Turn};
use redial_core::ledger::{Ask, Judgement, State, judge};

use super::*;
use crate::fixtures;
use crate::ledger_dynamo::tests::{at, claim, fingerprint};
use crate::table::attributes::{self, ms, s};

fn delivery() -> NewDelivery {
    NewDelivery {
        key: fixtures::delivery("m1"),
        fingerprint: fingerprint("content"),
        channel: None,
        endpoint_hash: None,
        subscription: SubscriptionId::parse("s1"),
        given: fixtures::given(),
        not_before: None,
    }
}

/// The item that an insertion writes.
fn written(delivery: &NewDelivery) -> Item {
    fields(delivery, at()).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn a_new_entry_can_be_claimed_and_is_not_in_doubt() {
    let stored = entry(&written(&delivery())).expect("an entry");
    for (attempt, content, judgement) in [
        (0, "content", Judgement::Claim { in_doubt: false }),
        (1, "content", Judgement::Claim { in_doubt: false }),
        (0, "another", Judgement::Conflict),
    ] {
        let turn = Turn { attempt: Attempt(attempt), ..Turn::default() };
        let ask = Ask { turn, fingerprint: fingerprint(content), ..claim("m1").ask };
        assert_eq!(judge(&stored, &ask, at()), judgement, "{attempt} {content}");
    }
    assert_eq!((stored.state, stored.turn), (State::Queued, Turn::default()));
    assert_eq!((stored.subscription, stored.given), (SubscriptionId::parse("s1"), fixtures::given()));
}

#[test]
fn an_entry_outlives_the_message_that_waits_for_it() {
    let day = Duration::from_secs(86_400);
    let not_before = at().plus(day * 300);
    let item = written(&NewDelivery { not_before: Some(not_before), ..delivery() });
    assert_eq!(item.number("expires_at"), Some(not_before.plus(day * 15).as_secs()));
    assert_eq!(item.time("not_before"), Some(not_before));
}

#[test]
fn a_delivery_is_found_with_its_attempts_in_order_and_its_acknowledgements() {
    let mut item = written(&delivery());
    assert_eq!(known(&item).expect("known").channel, None);
    let attempt = |n: u32| s(format!(r#"{{"l":0,"n":{n},"at":1,"v":"retry"}}"#));
    item.extend(attributes::item([
        // There are sixteen places: the seventeenth attempt is in the place of the first.
        ("attempt_00", attempt(16)),
        ("attempt_01", attempt(1)),
        ("channel", s("web_push")),
        ("displayed_at", ms(at())),
        ("clicked_at", ms(at())),
        ("closed_at", ms(at())),
    ]));
    let known = known(&item).expect("known");
    let order: Vec<u32> = known.attempts.iter().map(|attempt| attempt.turn().attempt.0).collect();
    assert_eq!((order, known.channel), (vec![1, 16], Some(Channel::WebPush)));
    assert_eq!(known.acknowledged, AckEvent::ALL.map(|event| (event, at())));
}
