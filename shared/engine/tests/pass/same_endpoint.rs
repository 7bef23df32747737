//! One endpoint is one browser: no message to an audience reaches it twice. And what time alone ends is sent nothing, announced and removed.

use std::time::Duration;

use redial_core::ledger;
use redial_core::metric::Metric;
use redial_core::reason::Reason;
use redial_core::subscription::{State, Subscription};
use redial_core::time::Timestamp;
use redial_engine::cleanup::{Sweep, Swept};
use redial_engine::ports::Renewed;
use redial_memory::senders::answered;
use redial_memory::{Death, PortErrorKind};
use serde_json::json;

use crate::audiences::{delivery, message, tags};
use crate::harness::Harness;

const DAY: Duration = Duration::from_secs(86_400);

/// Two browsers with the tag, of which the second is `late`: its part is walked later, or its message waits longer.
fn with_two(by_the_page: bool) -> Harness {
    let mut harness = Harness::new();
    harness.worker.settings.audience_pages = by_the_page;
    harness.subscribe("model");
    for id in ["early", "late"] {
        harness.subscribe(id);
        harness.amend(id, |it| it.tags = tags(&["news"]));
    }
    harness
}

#[test]
fn a_browser_that_takes_another_id_while_an_audience_is_reached_gets_the_message_once() {
    for by_the_page in [false, true] {
        let mut harness = with_two(by_the_page);
        // The second id's message waits for a retry, while the browser of the first one gets its own.
        harness.will_answer("late", vec![answered(503)]);
        harness.produce_in_bulk(&message(""));
        harness.run_until(|it| it.posts_to("early") == 1 && it.posts_to("late") == 1);
        let Renewed::Renewed(moved) = harness.hand_in("late", "early", false) else { panic!("it moves") };
        assert_eq!((moved.subscription.took_over_at, moved.replaced), (Some(harness.now()), true));
        assert!(!harness.state().subscriptions.contains_key(&Harness::subscription_key("early")));
        harness.run();
        assert_eq!(harness.posts_to("early"), 1, "by the page: {by_the_page}");
        let ended = (ledger::State::FailedNoRetries, Some(Reason::EndpointReplaced));
        assert_eq!(delivery(&harness, "late"), ended, "by the page: {by_the_page}");
        // The next message reaches it.
        harness.pass(Duration::from_secs(1));
        harness.deliver(&Harness::message_to("late", "m2", ""));
        assert_eq!(harness.posts_to("early"), 2);
    }
}

#[test]
fn a_browser_that_was_erased_and_comes_back_by_another_id_gets_the_message_once() {
    for by_the_page in [false, true] {
        let mut harness = with_two(by_the_page);
        harness.will_answer("late", vec![answered(503)]);
        harness.produce_in_bulk(&message(""));
        harness.run_until(|it| it.posts_to("early") == 1 && it.posts_to("late") == 1);
        assert!(harness.erase("early"));
        harness.hand_in("late", "early", false);
        harness.run();
        assert_eq!(harness.posts_to("early"), 1, "by the page: {by_the_page}");
    }
}

#[test]
fn an_id_that_moved_before_the_audience_was_opened_gets_the_message() {
    let mut harness = with_two(false);
    harness.hand_in("late", "early", false);
    harness.pass(Duration::from_secs(1));
    harness.produce_in_bulk(&message(""));
    harness.run();
    assert_eq!((harness.posts_to("early"), harness.posts_to("late")), (1, 0));
}

#[test]
fn nothing_is_sent_after_the_time_that_a_browser_named() {
    let mut harness = Harness::new();
    harness.subscribe("m");
    let ends_at = harness.now().plus(DAY);
    harness.amend("m", |it| it.ends_at = Some(ends_at));
    harness.deliver(&Harness::message("m", ""));
    harness.pass(DAY);
    harness.deliver(&Harness::message_to("m", "m2", ""));
    assert_eq!(harness.posts_to("m"), 1);
    assert_eq!(harness.ended("m2"), (ledger::State::Failed, Some(Reason::SubscriptionExpired)));
}

/// A harness in which time has ended the subscription `m`, and not the other one; and whether it is expired or stale.
fn with_ended(is_expired: bool) -> Harness {
    let mut harness = Harness::new();
    harness.cleanup.settings.stale_after = (!is_expired).then_some(30 * DAY);
    harness.state().has_events = true;
    let now = harness.now();
    let long_ago = now.minus(40 * DAY);
    for (id, seen) in [("m", long_ago), ("n", now)] {
        harness.subscribe(id);
        harness.amend(id, |it| {
            (it.created_at, it.last_seen_at) = (Some(long_ago), Some(seen));
            it.ends_at = is_expired.then(|| if id == "m" { now } else { now.plus(DAY) });
        });
    }
    harness
}

fn is_stored(harness: &Harness, id: &str) -> bool {
    harness.state().subscriptions.contains_key(&Harness::subscription_key(id))
}

fn announced(harness: &mut Harness) -> Vec<(String, String)> {
    harness.run();
    let text = |event: &serde_json::Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let of = harness.events.iter().filter(|event| event["id"].is_null());
    of.map(|event| (text(event, "state"), text(event, "reason"))).collect()
}

#[test]
fn what_time_has_ended_is_removed_counted_and_announced() {
    for (is_expired, reason, metric) in [
        (true, "subscription_expired", Metric::SubscriptionsExpired),
        (false, "subscription_stale", Metric::SubscriptionsStale),
    ] {
        let mut harness = with_ended(is_expired);
        let swept = harness.sweep(Sweep::Prune);
        assert_eq!(swept.expired + swept.stale, 1, "{reason}");
        assert!(!is_stored(&harness, "m") && is_stored(&harness, "n"), "{reason}");
        assert_eq!(harness.count(metric), 1);
        assert_eq!(announced(&mut harness), [("pruned".to_owned(), reason.to_owned())]);
        // The next walk is a day later.
        harness.amend("n", |it| it.ends_at = Some(Timestamp::default()));
        assert_eq!(harness.sweep(Sweep::Prune), Swept::default());
        harness.pass(DAY);
        assert_eq!(harness.sweep(Sweep::Prune).expired, 1);
    }
}

#[test]
fn nothing_is_stale_unless_the_operator_says_when() {
    let mut harness = with_ended(false);
    harness.cleanup.settings.stale_after = None;
    assert_eq!(harness.sweep(Sweep::Prune), Swept::default());
    assert!(is_stored(&harness, "m"));
}

#[test]
fn what_time_has_ended_is_removed_and_announced_though_the_sweep_dies_at_any_moment() {
    for is_expired in [true, false] {
        for effect in 1.. {
            let mut harness = with_ended(is_expired);
            harness.will_die(Death::After(effect));
            harness.sweep(Sweep::Prune);
            let died = harness.state().death.is_none();
            harness.memory.revive();
            // What was done when it died may be found by the next walk.
            harness.pass(DAY - Duration::from_secs(1));
            harness.sweep(Sweep::Prune);
            assert!(!is_stored(&harness, "m"), "{effect}");
            assert!(!announced(&mut harness).is_empty(), "{effect}");
            if !died {
                break;
            }
        }
    }
}

#[test]
fn a_browser_that_comes_back_before_the_walk_keeps_its_subscription() {
    let mut harness = with_ended(false);
    harness.subscribe("model");
    harness.amend("m", |it| it.state = State::Stale);
    let Renewed::Renewed(it) = harness.hand_in("m", "m", false) else { panic!("it is renewed") };
    assert_eq!(it.subscription.state, State::Active);
    assert_eq!(harness.sweep(Sweep::Prune).stale, 0);
}

#[test]
fn a_browser_that_comes_back_during_the_walk_is_not_announced_as_removed() {
    let mut harness = with_ended(false);
    harness.subscribe("model");
    harness.memory.fail("remove", 1, PortErrorKind::Broken);
    assert_eq!(harness.sweep(Sweep::Prune).stale, 0);
    let Renewed::Renewed(it) = harness.hand_in("m", "m", false) else { panic!("it is renewed") };
    assert_eq!(it.subscription.state, State::Active);
    harness.pass(DAY);
    harness.sweep(Sweep::Prune);
    assert!(is_stored(&harness, "m"));
    assert_eq!(announced(&mut harness), []);
}

#[test]
fn of_two_that_an_earlier_release_stored_one_is_left() {
    for effect in 0.. {
        let mut harness = Harness::new();
        harness.state().has_events = true;
        for (id, seen) in [("old", 1), ("new", 2)] {
            harness.subscribe(id);
            let seen = Some(Timestamp::from_secs(seen));
            harness.amend(id, |it| {
                *it = Subscription { tags: tags(&["news"]), last_seen_at: seen, ..it.clone() }
            });
            harness.state().unclaimed.insert(Harness::subscription_key(id));
        }
        harness.redirect("old", &Harness::endpoint("new"));
        if effect > 0 {
            harness.will_die(Death::After(effect));
        }
        harness.sweep(Sweep::Prune);
        let died = effect > 0 && harness.state().death.is_none();
        harness.memory.revive();
        harness.pass(DAY);
        harness.sweep(Sweep::Prune);
        assert!(!is_stored(&harness, "old") && is_stored(&harness, "new"), "{effect}");
        assert_eq!(harness.subscription("new").state, State::Active);
        let events = announced(&mut harness);
        let replaced = ("pruned".to_owned(), "endpoint_replaced".to_owned());
        assert!(!events.is_empty() && events.iter().all(|event| *event == replaced), "{effect}: {events:?}");
        harness.produce_in_bulk(&message(""));
        harness.run();
        assert_eq!(harness.posts_to("new"), 1);
        if effect > 0 && !died {
            break;
        }
    }
}

/// A harness in which `late` has got the endpoint of `early`, five minutes ago.
fn with_replaced() -> Harness {
    let harness = with_two(false);
    harness.state().has_events = true;
    let at = harness.now();
    harness.hand_in("late", "early", false);
    assert_eq!(harness.state().removed.iter().map(|it| it.at).collect::<Vec<_>>(), [at]);
    assert!(harness.queued().is_empty(), "the response waits for no queue");
    harness.memory.pass(Duration::from_secs(300));
    harness
}

#[test]
fn what_was_replaced_is_announced_once_by_the_next_sweep() {
    let mut harness = with_replaced();
    let at = harness.now().minus(Duration::from_secs(300)).to_rfc3339();
    assert_eq!(harness.sweep(Sweep::Prune).announced, 1);
    assert_eq!(harness.sweep(Sweep::Prune).announced, 0);
    assert_eq!(announced(&mut harness), [("pruned".to_owned(), "endpoint_replaced".to_owned())]);
    let event = &harness.events[0];
    // With the time of the replacement: once more would be the same event.
    assert_eq!((&event["subscription"], &event["at"]), (&json!("early"), &json!(at)));
}

#[test]
fn what_was_replaced_is_announced_though_the_sweep_dies_at_any_moment() {
    for effect in 1.. {
        let mut harness = with_replaced();
        harness.will_die(Death::After(effect));
        harness.sweep(Sweep::Prune);
        let died = harness.state().death.is_none();
        harness.memory.revive();
        harness.sweep(Sweep::Prune);
        let events = announced(&mut harness);
        let replaced = ("pruned".to_owned(), "endpoint_replaced".to_owned());
        assert!(!events.is_empty() && events.iter().all(|event| *event == replaced), "{effect}: {events:?}");
        let first = &harness.events[0];
        assert!(harness.events.iter().all(|event| event == first), "{effect}: repetitions are the same");
        assert!(harness.state().removed.is_empty(), "{effect}");
        if !died {
            break;
        }
    }
}

#[test]
fn a_replacement_waits_while_the_queue_of_events_is_out() {
    let mut harness = with_replaced();
    harness.memory.fail("send", 1, PortErrorKind::Broken);
    harness.sweep(Sweep::Prune);
    assert_eq!(harness.state().removed.len(), 1);
    assert_eq!(harness.sweep(Sweep::Prune).announced, 1);
    assert_eq!(announced(&mut harness).len(), 1);
}

#[test]
fn without_a_queue_of_events_nothing_is_kept_of_a_replacement() {
    let mut harness = with_replaced();
    harness.state().has_events = false;
    assert_eq!(harness.sweep(Sweep::Prune), Swept::default());
    assert!(harness.state().removed.is_empty());
}
