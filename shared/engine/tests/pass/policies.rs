//! The policies that tenants have of their own: which one holds, that the next attempt follows a changed one, and that
//! whatever is wrong with them or their store loses nothing.

use std::time::Duration;

use redial_core::identity::Tenant;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::policy::stored::{Slot, Stored};
use redial_core::reason::Reason;
use redial_testkit::memory::sender::{answered, answered_with};
use redial_testkit::memory::{Death, PortErrorKind};

use crate::crashes::killed_at_every_effect;
use crate::harness::Harness;
use crate::roads::{Road, Whom, roads};

const TOPIC: &str = "order.created";

fn acme() -> Tenant {
    Tenant::parse("acme").expect("valid")
}

fn stored(slot: Slot, policy: &str, last_good: Option<&str>) -> Stored {
    Stored { slot, policy: policy.to_owned(), last_good: last_good.map(str::to_owned) }
}

/// Stores what tenant `acme` has from now on.
fn store(harness: &Harness, all: Vec<Stored>) {
    harness.memory.state().policies.insert(acme(), all);
}

/// Stores one policy for all of tenant `acme`'s messages, as the command does.
fn store_one(harness: &Harness, policy: &str) {
    store(harness, vec![stored(Slot::Tenant, policy, Some(policy))]);
}

/// A harness in which nothing but 500 is answered.
fn refusing() -> Harness {
    let harness = Harness::new();
    harness.memory.state().usual_answer = Some(answered(500));
    harness
}

/// Sends a message of that id with more fields, and sees it end; answers how often it was posted.
fn posts(harness: &mut Harness, id: &str, more: &str) -> usize {
    harness.subscribe(id);
    harness.produce(&Harness::message(id, more));
    harness.run();
    harness.posts_to(id)
}

/// How often the policies were read.
fn readings(harness: &Harness) -> u64 {
    harness.memory.state().trace.iter().filter(|name| **name == "policies").count() as u64
}

fn ignored(harness: &Harness) -> u64 {
    harness.memory.state().counts.get(&Metric::PoliciesIgnored).copied().unwrap_or_default()
}

#[test]
fn a_tenant_s_policy_decides_on_its_messages_and_on_no_other_tenant_s() {
    let mut harness = refusing();
    store_one(&harness, r#"{"max_retries": 0, "dlq_retention_days": 3}"#);
    assert_eq!(posts(&mut harness, "m", ""), 1);
    let entry = harness.entry("m").expect("in the ledger");
    assert_eq!((entry.state, entry.reason), (State::Failed, Some(Reason::RetriesExhausted)));
    let kept: Vec<u16> = harness.memory.state().described.values().map(|it| it.retention_days).collect();
    assert_eq!(kept, [3]);

    harness.subscribe("o");
    {
        let mut state = harness.memory.state();
        let mut other_s = state.subscriptions[&Harness::subscription_key("o")].clone();
        other_s.key.tenant = Tenant::parse("other").expect("valid");
        state.subscriptions.insert(other_s.key.clone(), other_s);
    }
    harness.produce(&Harness::message("o", "").replace("acme", "other"));
    harness.run();
    assert_eq!(harness.posts_to("o"), 6, "five retries, as its class has them");
}

#[test]
fn the_event_type_s_policy_comes_before_the_tenant_s_and_both_before_the_class_s() {
    let mut harness = refusing();
    let tenant_s = stored(Slot::Tenant, r#"{"max_retries": 0}"#, None);
    let topic_s = stored(Slot::Topic(TOPIC.to_owned()), r#"{"max_retries": 2}"#, None);
    store(&harness, vec![tenant_s, topic_s.clone()]);
    let of_topic = format!(r#","event_type":"{TOPIC}","class":"otp""#);
    assert_eq!(posts(&mut harness, "topic", &of_topic), 3);
    assert_eq!(posts(&mut harness, "another-topic", r#","event_type":"order.paid""#), 1);
    assert_eq!(posts(&mut harness, "no-topic", r#","class":"campaign""#), 1);

    store(&harness, vec![topic_s]);
    assert_eq!(posts(&mut harness, "topic-alone", &of_topic), 3);
    assert_eq!(posts(&mut harness, "class", r#","event_type":"order.paid""#), 6);
}

#[test]
fn a_message_s_own_retry_comes_first_and_nobody_reads_what_its_tenant_has() {
    let mut harness = refusing();
    let tenant_s = stored(Slot::Tenant, r#"{"max_retries": 0}"#, None);
    let topic_s = stored(Slot::Topic(TOPIC.to_owned()), r#"{"max_retries": 1}"#, None);
    store(&harness, vec![tenant_s, topic_s]);
    let inline = format!(r#","event_type":"{TOPIC}","retry":{{"max_retries":2}}"#);
    assert_eq!(posts(&mut harness, "inline", &inline), 3);
    assert_eq!(posts(&mut harness, "named", r#","retry":"otp""#), 4);
    assert_eq!(readings(&harness), 0);
    posts(&mut harness, "without", "");
    assert_eq!(readings(&harness), 1);
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
        harness.subscribe("m");
        harness.produce(&Harness::message("m", ""));
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
    harness.subscribe("m");
    harness.produce(&Harness::message("m", ""));
    harness.run_until(|it| it.posts_to("m") == 1 && it.state_of("m") == Some(State::Retrying));
    store_one(&harness, r#"{"retry_delays": [7, 7], "jitter": "none"}"#);
    harness.run();
    let at: Vec<u64> =
        harness.memory.state().sent.windows(2).map(|it| it[1].at.since(it[0].at).as_secs()).collect();
    assert_eq!(at, [100, 7]);
}

#[test]
fn while_the_store_fails_what_depends_on_it_comes_back_unsent_and_the_others_go_through() {
    for kind in [PortErrorKind::Broken, PortErrorKind::Throttled] {
        let mut harness = Harness::new();
        store_one(&harness, r#"{"retry_in_doubt": false}"#);
        harness.subscribe("m");
        harness.subscribe("own");
        let dependent = harness.produce(&Harness::message("m", ""));
        let own = harness.produce(&Harness::message("own", r#","retry":"otp""#));
        harness.memory.fail("policies", 1, kind);
        let batch = [&dependent, &own].map(|id| harness.incoming_of(id)).to_vec();
        assert_eq!(harness.invoke_with(batch), [dependent], "{kind:?}");
        assert_eq!((harness.posts_to("m"), harness.posts_to("own")), (0, 1), "{kind:?}");
        assert_eq!(harness.entry("m"), None, "it was not even claimed");
        let back: Vec<u32> = harness.memory.state().come_back.iter().map(|(_, secs)| *secs).collect();
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
    assert_eq!((readings(&harness), ignored(&harness)), (2, 0));

    for (n, text) in ["", "\u{0}", "3", "[]", r#""opt""#, r#"{"max_retries": 101}"#].iter().enumerate() {
        // So many failures at once would make the worker pause.
        harness.memory.pass(Duration::from_secs(10));
        let (read, counted) = (readings(&harness), ignored(&harness));
        store(&harness, vec![stored(Slot::Tenant, text, None)]);
        assert_eq!(posts(&mut harness, &format!("m{n}"), ""), 2, "{text:?}");
        assert_eq!((readings(&harness) - read, ignored(&harness) - counted), (2, 2), "{text:?}");
    }
}

#[test]
fn a_worker_that_never_saw_the_policy_before_follows_the_last_good_one_and_without_any_the_class_s() {
    for (last_good, expected) in [(Some(r#"{"max_retries": 3}"#), 4), (Some("broken"), 6), (None, 6)] {
        let mut harness = refusing();
        store(&harness, vec![stored(Slot::Tenant, "broken", last_good)]);
        assert_eq!(posts(&mut harness, "m", ""), expected, "{last_good:?}");
    }
    // What is stored as the last good one goes before what a worker remembers: all workers follow the same.
    let mut harness = refusing();
    store(&harness, vec![stored(Slot::Tenant, r#"{"max_retries": 1}"#, Some(r#"{"max_retries": 3}"#))]);
    assert_eq!(posts(&mut harness, "m", ""), 2);
    store(&harness, vec![stored(Slot::Tenant, "broken", Some(r#"{"max_retries": 3}"#))]);
    assert_eq!(posts(&mut harness, "same-worker", ""), 4);
    harness.memory.state().followed.clear();
    assert_eq!(posts(&mut harness, "new-worker", ""), 4);
}

#[test]
fn an_invalid_text_leaves_the_tenant_s_other_policies_alone() {
    let mut harness = refusing();
    let tenant_s = stored(Slot::Tenant, r#"{"max_retries": 1}"#, None);
    let topic_s = stored(Slot::Topic(TOPIC.to_owned()), "broken", None);
    store(&harness, vec![tenant_s, topic_s]);
    // The event type has no policy that could be followed: the tenant's holds.
    assert_eq!(posts(&mut harness, "topic", &format!(r#","event_type":"{TOPIC}""#)), 2);
    assert_eq!(posts(&mut harness, "no-topic", ""), 2);
}

#[test]
fn a_batch_of_ten_reads_a_tenant_s_policies_once_and_counts_each_invalid_one_once() {
    let mut harness = Harness::new();
    let topic_s = |name: &str| stored(Slot::Topic(name.to_owned()), "broken", None);
    store(&harness, vec![stored(Slot::Tenant, "broken", None), topic_s(TOPIC), topic_s("order.paid")]);
    for at in 0..10 {
        harness.subscribe(&format!("m{at}"));
        harness.produce(&Harness::message(&format!("m{at}"), ""));
    }
    harness.run();
    assert_eq!((readings(&harness), ignored(&harness)), (1, 3));
    assert_eq!(harness.memory.state().sent.len(), 10);
}

#[test]
fn killed_at_any_effect_under_a_tenant_s_policy_nothing_is_lost() {
    let refused = || vec![answered(500); 6];
    let road = |name, answers, ends, reason, posts, dead_letter| Road {
        name,
        to: Whom::Browser,
        fields: "",
        answers,
        ends,
        reason,
        posts,
        dead_letter,
    };
    let exhausted = Some(Reason::RetriesExhausted);
    let ends_by_policy = |posts| vec![road("exhausted", refused(), State::Failed, exhausted, posts, true)];
    let mut deaths = killed_at_every_effect(ends_by_policy(1), |it| store_one(it, r#"{"max_retries": 0}"#));
    deaths += killed_at_every_effect(ends_by_policy(3), |it| store_one(it, r#"{"max_retries": 2}"#));
    deaths += killed_at_every_effect(ends_by_policy(4), |it| {
        store(it, vec![stored(Slot::Tenant, "broken", Some(r#"{"max_retries": 3}"#))]);
    });
    let waiting = vec![answered_with(429, &[("retry-after", "1800")]), answered(503)];
    let waits = vec![road("waits, then is sent", waiting, State::Sent, None, 3, false)];
    deaths += killed_at_every_effect(waits, |it| {
        store_one(it, r#"{"retry_delays": [60, 1800], "jitter": "none"}"#);
    });
    let no_retries =
        vec![road("no retries", refused(), State::FailedNoRetries, Some(Reason::ServerError), 1, false)];
    deaths += killed_at_every_effect(no_retries, |it| store_one(it, r#""none""#));
    // What is like the class's own makes no difference on any road.
    deaths += killed_at_every_effect(roads(), |it| store_one(it, r#""web-push""#));
    assert!(deaths > 250, "{deaths} deaths are too few to be all of them");
}

#[test]
fn what_was_recorded_is_carried_out_though_the_policy_has_changed_since() {
    let mut harness = refusing();
    store_one(&harness, r#"{"max_retries": 1}"#);
    harness.subscribe("m");
    let id = harness.produce(&Harness::message("m", ""));
    // Its worker dies when the retry is recorded and not yet handed off.
    let record = 1 + {
        let mut rehearsal = refusing();
        posts(&mut rehearsal, "m", "");
        let trace = rehearsal.memory.state().trace.clone();
        trace.iter().position(|name| *name == "record").expect("it is recorded")
    };
    harness.memory.state().death = Some(Death::After(record));
    let incoming = harness.incoming_of(&id);
    assert_eq!(harness.invoke_until_death(vec![incoming]), None);
    harness.memory.revive();
    assert_eq!(harness.state_of("m"), Some(State::Retrying));

    store_one(&harness, r#"{"max_retries": 0}"#);
    harness.run();
    assert_eq!(harness.posts_to("m"), 2, "the retry that was recorded, and none after it");
    assert_eq!(harness.entry("m").and_then(|entry| entry.reason), Some(Reason::RetriesExhausted));
    assert_eq!(harness.memory.state().bodies.len(), 1);
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
        let tenant_s = stored(Slot::Tenant, r#"{"dlq_retention_days": 3}"#, None);
        let topic_s = stored(Slot::Topic(TOPIC.to_owned()), r#"{"dlq_retention_days": 4}"#, None);
        store(&harness, vec![tenant_s, topic_s]);
        harness.poison(&Harness::message("m", more));
        let state = harness.memory.state();
        let kept: Vec<u16> = state.described.values().map(|it| it.retention_days).collect();
        assert_eq!((kept, state.bodies.len()), (vec![days], 1), "{more}");
    }
}

#[test]
fn an_invalid_text_that_cleanup_finds_is_counted_too() {
    let mut harness = Harness::new();
    store(&harness, vec![stored(Slot::Tenant, "broken", Some(r#"{"dlq_retention_days": 3}"#))]);
    harness.poison(&Harness::message("m", ""));
    assert_eq!(ignored(&harness), 1);
    let kept: Vec<u16> = harness.memory.state().described.values().map(|it| it.retention_days).collect();
    assert_eq!(kept, [3]);
}

#[test]
fn poison_whose_tenant_s_policies_cannot_be_read_stays_in_quarantine_until_they_can() {
    let mut harness = Harness::new();
    store_one(&harness, r#"{"dlq_retention_days": 3}"#);
    harness.memory.fail("policies", 1, PortErrorKind::Broken);
    let message = Harness::message("m", "");
    assert!(harness.try_poison(&message).is_err());
    assert!(harness.memory.state().described.is_empty());
    harness.poison(&message);
    assert_eq!(harness.memory.state().described.len(), 1);
}

#[test]
fn a_message_on_its_way_outlives_the_policy_that_it_names_and_a_new_one_cannot_name_it() {
    let named = r#","retry":"of-yesterday""#;
    let mut harness = refusing();
    store_one(&harness, r#"{"max_retries": 2}"#);
    harness.subscribe("travelling");
    harness.subscribe("new");
    let now = harness.now().as_ms();
    let travel = format!(r#"{named},"lineage":0,"retry_count":1,"original_timestamp":{now}"#);
    harness.produce_retry(&Harness::message("travelling", &travel));
    harness.produce(&Harness::message("new", named));
    harness.run();
    // It goes on as one that names none: by its tenant's policy, of whose three attempts one was made.
    assert_eq!(harness.posts_to("travelling"), 2);
    assert_eq!(harness.entry("travelling").and_then(|entry| entry.reason), Some(Reason::RetriesExhausted));
    assert_eq!((harness.posts_to("new"), harness.entry("new")), (0, None));
    assert_eq!(harness.memory.state().dead_letters.get(&Reason::Malformed), Some(&1));

    let mut harness = Harness::new();
    harness.subscribe("travelling");
    harness.produce_retry(&Harness::message("travelling", &travel));
    harness.run();
    assert_eq!(harness.state_of("travelling"), Some(State::Sent));
}
