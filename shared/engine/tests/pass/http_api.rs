//! What the HTTP API does to subscriptions, as dispatch and cleanup see it.

use std::time::Duration;

use futures_util::FutureExt as _;
use redial_core::endpoint::HashKeys;
use redial_core::ledger::State;
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::subscription::{self, Consent, Document, Renewal, SameEndpoint};
use redial_engine::cleanup::Sweep;
use redial_engine::ports::{
    Erased, Found, PortError, Renewed, SubscriptionBook as _, SubscriptionHealth as _,
};
use redial_memory::senders::answered;

use crate::harness::{Harness, endpoint, origin, tenant};

/// The result of a call of a port.
pub(crate) fn done<T>(call: impl Future<Output = Result<T, PortError>>) -> T {
    call.now_or_never().expect("nothing kills it").expect("nothing fails")
}

impl Harness {
    /// The browser of `id` hands in its subscription again, which leads to where that of `to` does.
    pub(crate) fn hand_in(&self, id: &str, to: &str, with_consent: bool) -> Renewed {
        let Recipient::WebPush(mut target) = self.subscription("model").recipient else {
            panic!("a browser")
        };
        target.endpoint = endpoint(&Self::endpoint(to));
        let now = self.now();
        let consent = with_consent.then(|| Consent {
            at: now,
            prompt_version: "v1".to_owned(),
            action: "granted".to_owned(),
            origin: origin("https://shop.example"),
        });
        let document = Document { target, tags: None, time_zone: None, consent, ends_at: None };
        let renewal = Renewal { key: Self::subscription_key(id), document, seen_at: Some(now), permit: None };
        done(self.memory.renew(renewal, SameEndpoint::Replace, now))
    }

    pub(crate) fn erase(&self, id: &str) -> bool {
        let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
        done(self.memory.erase(&Self::subscription_key(id), None, &keys, self.now())) == Erased::Yes
    }

    fn is_deleted(&self, id: &str) -> bool {
        matches!(done(self.memory.find(&Self::subscription_key(id))), Found::Deleted { .. })
    }
}

fn harness() -> Harness {
    let harness = Harness::new();
    harness.subscribe("model");
    harness
}

#[test]
fn a_message_to_what_its_user_deleted_ends_without_an_attempt() {
    let mut harness = harness();
    assert_eq!(harness.hand_in("m", "m", false), Renewed::NeedsConsent);
    assert!(matches!(harness.hand_in("m", "m", true), Renewed::New(_)));
    assert!(harness.erase("m") && !harness.erase("m") && harness.is_deleted("m"));
    harness.deliver(&Harness::message("m", ""));
    assert_eq!(harness.ended("m").1, Some(Reason::SubscriptionUnknown));
    assert_eq!(harness.posts_to("m"), 0);
    // Stored again, it is sent to.
    assert_eq!(harness.hand_in("m", "m", false), Renewed::NeedsConsent);
    assert!(matches!(harness.hand_in("m", "m", true), Renewed::New(_)));
    harness.deliver(&Harness::message_to("m", "m2", ""));
    assert_eq!(harness.state_of("m2"), Some(State::Sent));
}

#[test]
fn what_was_deleted_is_neither_pruned_nor_counted() {
    let mut harness = harness();
    harness.state().has_events = true;
    harness.hand_in("m", "m", true);
    harness.will_answer("m", vec![answered(410)]);
    harness.deliver(&Harness::message("m", ""));
    assert_eq!(harness.subscription("m").state, subscription::State::Gone);
    assert!(harness.erase("m"));
    assert_eq!(done(harness.memory.count(&tenant())), 1, "the other one alone");
    // Longer than a window of the spike guard and its neighbour.
    harness.pass(Duration::from_secs(900));
    let swept = harness.sweep(Sweep::Prune);
    assert_eq!((swept.pruned, swept.quarantined), (0, 0));
    assert!(harness.is_deleted("m"));
    harness.run();
    assert!(harness.events.iter().all(|event| event["state"] != "pruned"), "{:?}", harness.events);
}

#[test]
fn the_endpoint_that_is_gone_stays_gone_and_another_is_sent_to() {
    let mut harness = harness();
    harness.hand_in("m", "m", true);
    harness.amend("m", |it| it.state = subscription::State::Gone);
    for (to, state) in [("m", subscription::State::Gone), ("elsewhere", subscription::State::Active)] {
        let Renewed::Renewed(renewed) = harness.hand_in("m", to, false) else { panic!("it is renewed") };
        assert_eq!(renewed.subscription.state, state, "{to}");
    }
    harness.deliver(&Harness::message("m", ""));
    assert_eq!((harness.state_of("m"), harness.posts_to("elsewhere")), (Some(State::Sent), 1));
}
