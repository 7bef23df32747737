//! What the HTTP API does to subscriptions, as dispatch and cleanup see it.

use std::time::Duration;

use futures_util::FutureExt as _;
use redial_core::endpoint::{Endpoint, HashKeys, Origin};
use redial_core::ledger::State;
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::subscription::{Consent, Document, Renewal, State as Standing};
use redial_engine::cleanup::Sweep;
use redial_engine::ports::{Clock as _, Found, Renewed, SubscriptionBook as _, SubscriptionHealth as _};
use redial_testkit::memory::sender::answered;

use crate::harness::Harness;

/// Longer than a window of the spike guard and its neighbour.
const WINDOWS: Duration = Duration::from_secs(900);

impl Harness {
    /// The browser of `id` hands in its subscription again, which leads to where that of `to` does.
    fn hand_in(&self, id: &str, to: &str, with_consent: bool) -> Renewed {
        let Recipient::WebPush(mut target) = self.subscription("model").recipient else {
            panic!("a browser")
        };
        target.endpoint = Endpoint::parse(&Self::endpoint(to)).expect("valid");
        let now = self.memory.now();
        let consent = with_consent.then(|| Consent {
            at: now,
            prompt_version: "v1".to_owned(),
            action: "granted".to_owned(),
            origin: Origin::parse("https://shop.example").expect("valid"),
        });
        let document = Document { target, tags: None, consent };
        let renewal = Renewal { key: Self::subscription_key(id), document, seen_at: Some(now) };
        self.memory.renew(renewal, now).now_or_never().expect("nothing kills it").expect("nothing fails")
    }

    fn erase(&self, id: &str) -> bool {
        let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
        let key = Self::subscription_key(id);
        let erased = self.memory.erase(&key, &keys, self.memory.now());
        erased.now_or_never().expect("nothing kills it").expect("nothing fails")
    }

    fn found(&self, id: &str) -> Found {
        let key = Self::subscription_key(id);
        let found = self.memory.find(&key);
        found.now_or_never().expect("nothing kills it").expect("nothing fails")
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
    assert!(harness.erase("m") && !harness.erase("m"));
    assert!(matches!(harness.found("m"), Found::Deleted { .. }));
    harness.produce(&Harness::message("m", ""));
    harness.run();
    assert_eq!(harness.entry("m").and_then(|entry| entry.reason), Some(Reason::SubscriptionUnknown));
    assert_eq!(harness.posts_to("m"), 0);
    // Stored again, it is sent to.
    assert_eq!(harness.hand_in("m", "m", false), Renewed::NeedsConsent);
    assert!(matches!(harness.hand_in("m", "m", true), Renewed::New(_)));
    harness.produce(&Harness::message_to("m", "m2", ""));
    harness.run();
    assert_eq!(harness.state_of("m2"), Some(State::Sent));
}

#[test]
fn what_was_deleted_is_neither_pruned_nor_counted() {
    let mut harness = harness();
    harness.hand_in("m", "m", true);
    harness.memory.state().answers.insert(Harness::endpoint("m"), vec![answered(410)]);
    harness.produce(&Harness::message("m", ""));
    harness.run();
    assert_eq!(harness.subscription("m").state, Standing::Gone);
    assert!(harness.erase("m"));
    let tenant = Harness::subscription_key("m").tenant;
    let counted = harness.memory.count(&tenant).now_or_never();
    assert_eq!(counted.expect("nothing kills it"), Ok(1), "the other one alone");
    harness.memory.pass(WINDOWS);
    let swept = harness.sweep(Sweep::Prune);
    assert_eq!((swept.pruned, swept.quarantined), (0, 0));
    assert!(matches!(harness.found("m"), Found::Deleted { .. }));
}

#[test]
fn the_endpoint_that_is_gone_stays_gone_and_another_is_sent_to() {
    let mut harness = harness();
    harness.hand_in("m", "m", true);
    harness.amend("m", |it| it.state = Standing::Gone);
    let Renewed::Renewed(same) = harness.hand_in("m", "m", false) else { panic!("it is renewed") };
    assert_eq!(same.state, Standing::Gone);
    let Renewed::Renewed(moved) = harness.hand_in("m", "elsewhere", false) else { panic!("it is renewed") };
    assert_eq!(moved.state, Standing::Active);
    harness.produce(&Harness::message("m", ""));
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("elsewhere")), (Some(State::Sent), 1));
}
