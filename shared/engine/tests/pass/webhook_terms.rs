//! What was agreed with a webhook's receiver: which headers messages may set, which policy holds.

use std::sync::Arc;

use redial_core::delivery_options::EventType;
use redial_core::identity::Tenant;
use redial_core::ledger::State;
use redial_core::policy::stored::{Slot, Stored};
use redial_core::policy::{Policy, parse};
use redial_core::reason::Reason;
use redial_core::webhook::Permitted;
use redial_testkit::memory::sender::answered;

use crate::harness::Harness;
use crate::roads::Whom;
use crate::webhooks::{ended, posted, sent_to};

fn policy(text: &str) -> Arc<Policy> {
    Arc::new(parse::policy(text, "own", "").expect("valid"))
}

/// How often a message to `m` is posted whose receiver fails, and which has these terms.
fn posts_under(topic: Option<&str>, own: Option<&str>, stored: &[(Slot, &str)], fields: &str) -> usize {
    let mut harness = Harness::new();
    let message = Whom::Hook.prepare(&harness, vec![answered(500); 20], fields);
    harness.amend("m", |it| {
        it.terms.topic = topic.and_then(EventType::parse);
        it.terms.policy = own.map(policy);
    });
    let slot = |(slot, text): &(Slot, &str)| Stored {
        slot: slot.clone(),
        policy: (*text).to_owned(),
        last_good: None,
    };
    let acme = Tenant::parse("acme").expect("valid");
    harness.memory.state().policies.insert(acme, stored.iter().map(slot).collect());
    harness.produce(&message);
    harness.run();
    assert_eq!(ended(&harness), (State::Failed, Some(Reason::RetriesExhausted)));
    harness.posts_to("m")
}

#[test]
fn the_most_particular_policy_holds() {
    let stored = [
        (Slot::Tenant, r#"{"max_retries":0}"#),
        (Slot::Topic("order.created".to_owned()), r#"{"max_retries":1}"#),
        (Slot::Topic("order.paid".to_owned()), r#"{"max_retries":2}"#),
    ];
    let own = Some(r#"{"max_retries":4}"#);
    let topic = Some("order.created");
    assert_eq!(posts_under(topic, own, &stored, r#","retry":{"max_retries":5}"#), 6, "the message's own");
    assert_eq!(posts_under(topic, own, &stored, r#","event_type":"order.paid""#), 5, "its subscription's");
    assert_eq!(posts_under(topic, None, &stored, r#","event_type":"order.paid""#), 3, "its event type's");
    assert_eq!(posts_under(topic, None, &stored, ""), 2, "that of its subscription's topic");
    assert_eq!(posts_under(Some("order.lost"), None, &stored, ""), 1, "the tenant's");
    assert_eq!(posts_under(topic, None, &[], r#","class":"otp""#), 4, "the channel's");
}

#[test]
fn a_header_that_the_subscription_does_not_permit_is_a_dead_letter_unsent() {
    let fields = r#","headers":{"Authorization":"Bearer s3cret"}"#;
    let harness = sent_to(Whom::Hook, vec![], fields);
    assert_eq!(ended(&harness), (State::Failed, Some(Reason::HeaderNotPermitted)));
    assert_eq!((harness.posts_to("m"), harness.memory.state().bodies.len()), (0, 1));
    assert_eq!(harness.subscription("m").health.failures, 0, "that is not its receiver's fault");

    let mut harness = Harness::new();
    let message = Whom::Hook.prepare(&harness, Vec::new(), fields);
    harness.amend("m", |it| {
        it.terms.permitted = Permitted::new(vec!["Authorization".to_owned()]).expect("valid");
    });
    harness.produce(&message);
    harness.run();
    assert_eq!(ended(&harness), (State::Sent, None));
    assert_eq!(posted(&harness)[0].headers, [("authorization".to_owned(), "Bearer s3cret".to_owned())]);
}
