//! What the front door does to subscriptions, as dispatch and cleanup see it.

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

use crate::universe::Universe;

/// Longer than a window of the spike guard and its neighbour.
const WINDOWS: Duration = Duration::from_secs(900);

impl Universe {
    /// The browser of `id` hands in its subscription again, which leads to where that of `to` does.
    fn hand_in(&self, id: &str, to: &str, with_consent: bool) -> Renewed {
        let Recipient::WebPush(mut target) = self.subscription("model").recipient else {
            panic!("a browser")
        };
        target.endpoint = Endpoint::parse(&Self::endpoint(to)).expect("valid");
        let now = self.world.now();
        let consent = with_consent.then(|| Consent {
            at: now,
            prompt_version: "v1".to_owned(),
            action: "granted".to_owned(),
            origin: Origin::parse("https://shop.example").expect("valid"),
        });
        let document = Document { target, tags: None, consent };
        let renewal = Renewal { key: Self::subscription_key(id), document, seen_at: Some(now) };
        self.world.renew(renewal, now).now_or_never().expect("nothing kills it").expect("nothing fails")
    }

    fn erase(&self, id: &str) -> bool {
        let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
        let key = Self::subscription_key(id);
        let erased = self.world.erase(&key, &keys, self.world.now());
        erased.now_or_never().expect("nothing kills it").expect("nothing fails")
    }

    fn found(&self, id: &str) -> Found {
        let key = Self::subscription_key(id);
        let found = self.world.find(&key);
        found.now_or_never().expect("nothing kills it").expect("nothing fails")
    }
}

fn universe() -> Universe {
    let universe = Universe::new();
    universe.subscribe("model");
    universe
}

#[test]
fn a_message_to_what_its_user_deleted_is_one_to_nobody() {
    let mut universe = universe();
    assert_eq!(universe.hand_in("m", "m", false), Renewed::NeedsConsent);
    assert!(matches!(universe.hand_in("m", "m", true), Renewed::New(_)));
    assert!(universe.erase("m") && !universe.erase("m"));
    assert!(matches!(universe.found("m"), Found::Deleted { .. }));
    universe.produce(&Universe::message("m", ""));
    universe.run();
    assert_eq!(universe.entry("m").and_then(|entry| entry.reason), Some(Reason::SubscriptionUnknown));
    assert_eq!(universe.posts_to("m"), 0);
    // Made anew, it is sent to.
    assert_eq!(universe.hand_in("m", "m", false), Renewed::NeedsConsent);
    assert!(matches!(universe.hand_in("m", "m", true), Renewed::New(_)));
    universe.produce(&Universe::message_to("m", "m2", ""));
    universe.run();
    assert_eq!(universe.state_of("m2"), Some(State::Sent));
}

#[test]
fn what_was_deleted_is_neither_pruned_nor_counted() {
    let mut universe = universe();
    universe.hand_in("m", "m", true);
    universe.world.state().answers.insert(Universe::endpoint("m"), vec![answered(410)]);
    universe.produce(&Universe::message("m", ""));
    universe.run();
    assert_eq!(universe.subscription("m").state, Standing::Gone);
    assert!(universe.erase("m"));
    let tenant = Universe::subscription_key("m").tenant;
    let counted = universe.world.count(&tenant).now_or_never();
    assert_eq!(counted.expect("nothing kills it"), Ok(1), "the other one alone");
    universe.world.pass(WINDOWS);
    let swept = universe.sweep(Sweep::Prune);
    assert_eq!((swept.pruned, swept.quarantined), (0, 0));
    assert!(matches!(universe.found("m"), Found::Deleted { .. }));
}

#[test]
fn the_endpoint_that_is_gone_stays_gone_and_another_is_sent_to() {
    let mut universe = universe();
    universe.hand_in("m", "m", true);
    universe.amend("m", |it| it.state = Standing::Gone);
    let Renewed::Renewed(same) = universe.hand_in("m", "m", false) else { panic!("it is renewed") };
    assert_eq!(same.state, Standing::Gone);
    let Renewed::Renewed(moved) = universe.hand_in("m", "elsewhere", false) else { panic!("it is renewed") };
    assert_eq!(moved.state, Standing::Active);
    universe.produce(&Universe::message("m", ""));
    universe.run();
    assert_eq!((universe.state_of("m"), universe.posts_to("elsewhere")), (Some(State::Sent), 1));
}
