//! The policies that tenants have of their own: which one holds, that the next attempt follows a changed one, and that
//! whatever is wrong with them or their store loses nothing.

use std::time::Duration;

use redial_core::identity::Tenant;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::policy::stored::{Slot, Stored};
use redial_core::reason::Reason;
use redial_memory::PortErrorKind;
use redial_memory::senders::answered;

use crate::crashes::killed_at_every_effect;
use crate::harness::{Harness, tenant};
use crate::scenarios::{Scenario, retry_after, to_a_browser};

const TOPIC: &str = "order.created";

fn stored(slot: Slot, policy: &str, last_good: Option<&str>) -> Stored {
    Stored { slot, policy: policy.to_owned(), last_good: last_good.map(str::to_owned) }
}

/// A policy for all of a tenant's messages.
fn of_tenant(policy: &str, last_good: Option<&str>) -> Stored {
    stored(Slot::Tenant, policy, last_good)
}

/// A policy for the messages of [`TOPIC`].
fn of_topic(policy: &str) -> Stored {
    stored(Slot::Topic(TOPIC.to_owned()), policy, None)
}

/// Stores what tenant `acme` has from now on.
fn store(harness: &Harness, all: Vec<Stored>) {
    harness.state().policies.insert(tenant(), all);
}

/// Stores one policy for all of tenant `acme`'s messages, as the command does.
fn store_one(harness: &Harness, policy: &str) {
    store(harness, vec![of_tenant(policy, Some(policy))]);
}

/// A harness in which nothing but 500 is answered.
fn refusing() -> Harness {
    let harness = Harness::new();
    harness.state().usual_answer = Some(answered(500));
    harness
}

/// Sends a message of that id with more fields, and sees it end; answers how often it was posted.
fn posts(harness: &mut Harness, id: &str, more: &str) -> usize {
    harness.push(id, more);
    harness.run();
    harness.posts_to(id)
}

/// For how long each dead letter is described, in days.
fn retention(harness: &Harness) -> Vec<u16> {
    harness.state().described.values().map(|it| it.retention_days).collect()
}

/// How often policies were read, and how many invalid ones were counted.
fn readings(harness: &Harness) -> (usize, u64) {
    (harness.effects("policies"), harness.count(Metric::PoliciesIgnored))
}

#[test]
fn a_tenant_s_policy_decides_on_its_messages_and_on_no_other_tenant_s() {
    let mut harness = refusing();
    store_one(&harness, r#"{"max_retries": 0, "dlq_retention_days": 3}"#);
    assert_eq!(posts(&mut harness, "m", ""), 1);
    assert_eq!(harness.ended("m"), (State::Failed, Some(Reason::RetriesExhausted)));
    assert_eq!(retention(&harness), [3]);

    harness.subscribe("o");
    {
        let mut state = harness.state();
        let mut other_s = state.subscriptions[&Harness::subscription_key("o")].clone();
        other_s.key.tenant = Tenant::parse("other").expect("valid");
        state.subscriptions.insert(other_s.key.clone(), other_s);
    }
    harness.deliver(&Harness::message("o", "").replace("acme", "other"));
    assert_eq!(harness.posts_to("o"), 6, "five retries, as its class has them");
}

#[test]
fn policies_rank_by_event_type_then_tenant_then_class() {
    let of_tenant = of_tenant(r#"{"max_retries": 0}"#, None);
    let of_topic = of_topic(r#"{"max_retries": 2}"#);
    for (stored, fields, expected) in [
        (vec![of_tenant.clone(), of_topic.clone()], r#","event_type":"order.created","class":"otp""#, 3),
        (vec![of_tenant.clone(), of_topic.clone()], r#","event_type":"order.paid""#, 1),
        (vec![of_tenant, of_topic.clone()], r#","class":"campaign""#, 1),
        (vec![of_topic.clone()], r#","event_type":"order.created","class":"otp""#, 3),
        (vec![of_topic], r#","event_type":"order.paid""#, 6),
    ] {
        let mut harness = refusing();
        store(&harness, stored);
        assert_eq!(posts(&mut harness, "m", fields), expected, "{fields}");
    }
}

#[test]
fn a_message_s_own_retry_needs_no_policies_of_its_tenant() {
    let mut harness = refusing();
    store(&harness, vec![of_tenant(r#"{"max_retries": 0}"#, None), of_topic(r#"{"max_retries": 1}"#)]);
    let inline = format!(r#","event_type":"{TOPIC}","retry":{{"max_retries":2}}"#);
    assert_eq!(posts(&mut harness, "inline", &inline), 3);
    assert_eq!(posts(&mut harness, "named", r#","retry":"otp""#), 4);
    assert_eq!(readings(&harness), (0, 0));
    posts(&mut harness, "without", "");
    assert_eq!(readings(&harness), (1, 0));
}

#[test]
fn a_message_that_is_being_retried_follows_the_changed_policy_at_its_next_attempt() {
    // How many posts there are in all if the policy is changed after the second one.
    for (changed, expected) in [
        (Some(r#"{"max_retries": 2}"#), 3),
        (Some(r#"{"max_retries": 0}"#), 3),
        (Some(r#"{"max_retries": 9}"#), 10),
        (Some(r#""none""#), 3),
        (None, 6),
    ] {
        let mut harness = refusing();
        store_one(&harness, r#"{"max_retries": 4}"#);
        harness.push("m", "");
        harness.run_until(|it| it.posts_to("m") == 2 && it.state_of("m") == Some(State::Retrying));
        match changed {
            Some(policy) => store_one(&harness, policy),
            None => store(&harness, Vec::new()),
        }
        harness.run();
        assert_eq!(harness.posts_to("m"), expected, "{changed:?}");
        let ends = if changed == Some(r#""none""#) { State::FailedNoRetries } else { State::Failed };
        assert_eq!(harness.state_of("m"), Some(ends), "{changed:?}");
    }
}

#[test]
fn a_delay_that_was_planned_stands_and_the_next_one_is_the_changed_policy_s() {
    let mut harness = refusing();
    store_one(&harness, r#"{"retry_delays": [100, 100], "jitter": "none"}"#);
    harness.push("m", "");
    harness.run_until(|it| it.posts_to("m") == 1 && it.state_of("m") == Some(State::Retrying));
    store_one(&harness, r#"{"retry_delays": [7, 7], "jitter": "none"}"#);
    harness.run();
    let at: Vec<u64> = harness.state().sent.windows(2).map(|it| it[1].at.since(it[0].at).as_secs()).collect();
    assert_eq!(at, [100, 7]);
}

#[test]
fn a_failing_policy_store_holds_back_only_messages_that_need_it() {
    for kind in [PortErrorKind::Broken, PortErrorKind::Throttled] {
        let mut harness = Harness::new();
        store_one(&harness, r#"{"retry_in_doubt": false}"#);
        let dependent = harness.push("m", "");
        let own = harness.push("own", r#","retry":"otp""#);
        harness.memory.fail("policies", 1, kind);
        let batch = [&dependent, &own].map(|id| harness.incoming_of(id)).to_vec();
        assert_eq!(harness.invoke_with(batch), [dependent], "{kind:?}");
        assert_eq!((harness.posts_to("m"), harness.posts_to("own")), (0, 1), "{kind:?}");
        assert_eq!(harness.entry("m"), None, "it was not even claimed");
        let back: Vec<u32> = harness.state().come_back.iter().map(|(_, secs)| *secs).collect();
        assert!(matches!(back.as_slice(), [5..=10]), "{back:?}");

        harness.run();
        assert_eq!(harness.state_of("m"), Some(State::Sent), "{kind:?}");
        assert_eq!((harness.posts_to("m"), harness.posts_to("own")), (1, 1), "{kind:?}");
    }
}

#[test]
fn an_invalid_text_is_counted_once_a_reading_and_the_policy_that_was_followed_stays() {
    let mut harness = refusing();
    store_one(&harness, r#"{"max_retries": 1}"#);
    assert_eq!(posts(&mut harness, "before", ""), 2);
    assert_eq!(readings(&harness), (2, 0));

    for (n, text) in ["", "\u{0}", "3", "[]", r#""opt""#, r#"{"max_retries": 101}"#].iter().enumerate() {
        // All these failures at once would make the worker pause.
        harness.pass(Duration::from_secs(10));
        store(&harness, vec![of_tenant(text, None)]);
        assert_eq!(posts(&mut harness, &format!("m{n}"), ""), 2, "{text:?}");
        assert_eq!(readings(&harness), (4 + 2 * n, 2 + 2 * n as u64), "{text:?}");
    }
}

#[test]
fn a_new_worker_follows_the_last_valid_policy_or_the_class_s() {
    for (last_good, expected) in [(Some(r#"{"max_retries": 3}"#), 4), (Some("broken"), 6), (None, 6)] {
        let mut harness = refusing();
        store(&harness, vec![of_tenant("broken", last_good)]);
        assert_eq!(posts(&mut harness, "m", ""), expected, "{last_good:?}");
    }
    // What is stored as the last good one goes before what a worker remembers: all workers follow the same.
    let mut harness = refusing();
    store(&harness, vec![of_tenant(r#"{"max_retries": 1}"#, Some(r#"{"max_retries": 3}"#))]);
    assert_eq!(posts(&mut harness, "m", ""), 2);
    store(&harness, vec![of_tenant("broken", Some(r#"{"max_retries": 3}"#))]);
    assert_eq!(posts(&mut harness, "same-worker", ""), 4);
    harness.state().followed.clear();
    assert_eq!(posts(&mut harness, "new-worker", ""), 4);
}

#[test]
fn an_invalid_text_leaves_the_tenant_s_other_policies_alone() {
    let mut harness = refusing();
    store(&harness, vec![of_tenant(r#"{"max_retries": 1}"#, None), of_topic("broken")]);
    // The event type has no policy that could be followed: the tenant's holds.
    assert_eq!(posts(&mut harness, "topic", &format!(r#","event_type":"{TOPIC}""#)), 2);
    assert_eq!(posts(&mut harness, "no-topic", ""), 2);
}

#[test]
fn a_batch_reads_policies_once_and_counts_each_invalid_one_once() {
    let mut harness = Harness::new();
    let paid = stored(Slot::Topic("order.paid".to_owned()), "broken", None);
    store(&harness, vec![of_tenant("broken", None), of_topic("broken"), paid]);
    harness.push_many("m", 10, "");
    harness.run();
    assert_eq!(readings(&harness), (1, 3));
    assert_eq!(harness.state().sent.len(), 10);
}

#[test]
fn killed_at_any_effect_under_a_tenant_s_policy_nothing_is_lost() {
    let exhausted =
        |posts| Scenario::failed("exhausted", "", vec![answered(500); posts], Reason::RetriesExhausted);
    let waits = Scenario::sent("waits, then is sent", "", vec![retry_after(429, 1800), answered(503)]);
    let no_retries = Scenario::sent("no retries", "", vec![answered(500)])
        .ends(State::FailedNoRetries, Reason::ServerError);
    let mut deaths = 0;
    for (scenario, policy, last_good) in [
        (exhausted(1), r#"{"max_retries": 0}"#, None),
        (exhausted(3), r#"{"max_retries": 2}"#, None),
        (exhausted(4), "broken", Some(r#"{"max_retries": 3}"#)),
        (waits, r#"{"retry_delays": [60, 1800], "jitter": "none"}"#, None),
        (no_retries, r#""none""#, None),
    ] {
        let stored = of_tenant(policy, last_good.or(Some(policy)));
        deaths += killed_at_every_effect(&[scenario], |it| store(it, vec![stored.clone()]));
    }
    // What is like the class's own makes no difference.
    deaths += killed_at_every_effect(&to_a_browser(), |it| store_one(it, r#""web-push""#));
    assert!(deaths > 250, "{deaths} deaths are too few to be all of them");
}

#[test]
fn what_was_recorded_is_carried_out_though_the_policy_has_changed_since() {
    let mut harness = refusing();
    store_one(&harness, r#"{"max_retries": 1}"#);
    let id = harness.push("m", "");
    // Its worker dies when the retry is recorded and not yet handed off.
    harness.dies_over(&id, "record");
    assert_eq!(harness.state_of("m"), Some(State::Retrying));

    store_one(&harness, r#"{"max_retries": 0}"#);
    harness.run();
    assert_eq!(harness.posts_to("m"), 2, "the retry that was recorded, and none after it");
    assert_eq!(harness.ended("m").1, Some(Reason::RetriesExhausted));
    assert_eq!(harness.bodies(), 1);
}

#[test]
fn poison_is_described_for_as_long_as_its_policy_says() {
    for (more, days) in [
        ("", 3),
        (r#","event_type":"order.created""#, 4),
        (r#","retry":{"dlq_retention_days":5}"#, 5),
        (r#","retry":"otp""#, 14),
    ] {
        let mut harness = Harness::new();
        let tenant_s = of_tenant(r#"{"dlq_retention_days": 3}"#, None);
        store(&harness, vec![tenant_s, of_topic(r#"{"dlq_retention_days": 4}"#)]);
        harness.poison(&Harness::message("m", more));
        assert_eq!((retention(&harness), harness.bodies()), (vec![days], 1), "{more}");
    }
}

#[test]
fn an_invalid_text_that_cleanup_finds_is_counted_too() {
    let mut harness = Harness::new();
    store(&harness, vec![of_tenant("broken", Some(r#"{"dlq_retention_days": 3}"#))]);
    harness.poison(&Harness::message("m", ""));
    assert_eq!((readings(&harness).1, retention(&harness)), (1, vec![3]));
}

#[test]
fn poison_whose_tenant_s_policies_cannot_be_read_stays_in_quarantine_until_they_can() {
    let mut harness = Harness::new();
    store_one(&harness, r#"{"dlq_retention_days": 3}"#);
    harness.memory.fail("policies", 1, PortErrorKind::Broken);
    let message = Harness::message("m", "");
    assert!(harness.try_poison(&message).is_err());
    assert!(retention(&harness).is_empty());
    harness.poison(&message);
    assert_eq!(retention(&harness), [3]);
}

#[test]
fn only_a_message_on_its_way_may_name_a_removed_policy() {
    let named = r#","retry":"of-yesterday""#;
    let mut harness = refusing();
    store_one(&harness, r#"{"max_retries": 2}"#);
    harness.subscribe("travelling");
    harness.subscribe("new");
    let now = harness.now().as_ms();
    let travel = format!(r#"{named},"lineage":0,"retry_count":1,"original_timestamp":{now}"#);
    harness.produce_retry(&Harness::message("travelling", &travel));
    harness.deliver(&Harness::message("new", named));
    // It goes on as one that names none: by its tenant's policy, of whose three attempts one was made.
    assert_eq!(harness.posts_to("travelling"), 2);
    assert_eq!(harness.ended("travelling").1, Some(Reason::RetriesExhausted));
    assert_eq!((harness.posts_to("new"), harness.entry("new")), (0, None));
    assert_eq!(harness.dead_letters(Reason::Malformed), 1);

    let mut harness = Harness::new();
    harness.subscribe("travelling");
    harness.produce_retry(&Harness::message("travelling", &travel));
    harness.run();
    assert_eq!(harness.state_of("travelling"), Some(State::Sent));
}
