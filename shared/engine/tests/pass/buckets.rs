//! What a wait costs: calls in proportion to what lies in its bucket, and not to the shards that the bucket could have. And that none of
//! its messages lies in a shard that no release visits.

use std::time::Duration;

use redial_core::lane::Lane;
use redial_core::metric::Metric;
use redial_core::route::WaitSettings;
use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;
use redial_engine::ports::{ParkedKey, Partition, RegisteredBucket};
use redial_memory::PortErrorKind;

use crate::harness::Harness;

/// Due 40 seconds into its bucket, so that all is released before any of it is delivered.
const DUE: &str = r#","deliver_at":"2026-11-21T13:00:40Z""#;

/// Calls for the messages of a bucket, from the queue to the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cost {
    /// Writes to the bucket's item.
    registrations: usize,
    /// Queries of shards, by the release and by the sweep that forgets the bucket.
    queries: usize,
    /// Calls of the outbox: of the messages, page by page, and of the names of shards.
    sends: usize,
    /// Invocations for the release.
    invocations: usize,
}

fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.worker.settings.waits = WaitSettings::default();
    harness
}

fn bucket() -> WaitBucket {
    let at = |text| Timestamp::parse_rfc3339(text).expect("valid");
    let (due, now) = (at("2026-11-21T13:00:40Z"), at("2026-11-21T10:00:00Z"));
    WaitBucket::of(Lane::Transactional, due, 60, now).expect("ahead")
}

fn cost(messages: usize) -> Cost {
    let mut harness = harness();
    harness.push_many("m", messages, DUE);
    harness.run_until(|it| it.state().parked.len() == messages);
    let parking = harness.invocations();
    harness.run();
    assert_eq!(harness.state().sent.len(), messages);
    assert!(harness.state().registered.is_empty());
    let delivering = messages.div_ceil(10);
    let invocations = usize::try_from(harness.invocations() - parking).expect("few") - delivering;
    Cost {
        registrations: harness.effects("register") + harness.effects("divide"),
        queries: harness.effects("page"),
        sends: harness.effects("send"),
        invocations,
    }
}

#[test]
fn a_release_costs_in_proportion_to_what_waits() {
    let of = |registrations, queries, sends, invocations| Cost { registrations, queries, sends, invocations };
    // A shard has a query for each page of a hundred, one that finds it empty, and one of the sweep.
    assert_eq!(cost(1), of(1, 3, 1, 1));
    assert_eq!(cost(3), of(1, 3, 1, 1));
    assert_eq!(cost(100), of(2, 3, 1, 1));
    // Four shards, whose names take an invocation of their own.
    assert_eq!(cost(1_000), of(17, 21, 14, 2));
}

#[test]
fn a_bucket_that_has_no_room_is_divided_at_once() {
    let mut harness = harness();
    harness.push_many("m", 10, DUE);
    harness.memory.fail("park", 1, PortErrorKind::Throttled);
    harness.run_until(|it| it.state().parked.len() == 10);
    assert_eq!(harness.state().registered[&bucket()].shards, 128);
    assert_eq!(harness.count(Metric::Parked), 10, "none of them hops through the queue");
    let used = |key: &ParkedKey| number(key) > 0;
    assert!(harness.state().parked.keys().filter(|key| used(key)).count() > 5);
    harness.run();
    assert_eq!(harness.state().sent.len(), 10);
}

#[test]
fn a_bucket_that_cannot_be_divided_goes_on_with_its_shards() {
    for kind in [PortErrorKind::Broken, PortErrorKind::Throttled, PortErrorKind::Lost] {
        let mut harness = harness();
        harness.worker.settings.waits.messages_a_shard = 1;
        harness.push_many("m", 10, DUE);
        harness.memory.fail("divide", 1, kind);
        harness.run_until(|it| it.state().parked.len() == 10);
        assert!(harness.state().parked.keys().all(|key| number(key) == 0), "{kind:?}");
        harness.run();
        assert_eq!(harness.state().sent.len(), 10, "{kind:?}");
    }
}

/// Each release of the program divides by its own rule while a deployment has workers of both.
#[test]
fn two_releases_that_divide_differently_share_a_bucket() {
    let mut harness = harness();
    harness.push_many("first", 10, DUE);
    harness.run_until(|it| it.state().parked.len() == 10);
    // An earlier release registers 128 shards at once, and puts a message in one of them.
    {
        let mut state = harness.state();
        state.registered.get_mut(&bucket()).expect("registered").shards = 128;
        let (_, mut item) = state.parked.pop_first().expect("ten");
        item.key.partition = bucket().shards(128).last().expect("128 shards").into();
        state.parked.insert(item.key.clone(), item);
    }
    // This worker still knows of one shard.
    harness.push_many("second", 10, DUE);
    harness.run_until(|it| it.state().parked.len() == 20);
    harness.run();
    assert_eq!(harness.state().sent.len(), 20);
    assert!(harness.state().parked.is_empty());
}

#[test]
fn a_bucket_of_an_earlier_release_is_spread_over_its_shards() {
    let mut harness = harness();
    let registered = RegisteredBucket { bucket: bucket(), shards: 128, messages: 0 };
    harness.state().registered.insert(bucket(), registered);
    harness.push_many("m", 20, DUE);
    harness.run_until(|it| it.state().parked.len() == 20);
    assert!(harness.state().parked.keys().any(|key| number(key) > 64));
    harness.run();
    assert_eq!(harness.state().sent.len(), 20);
}

#[test]
fn a_put_that_ends_after_its_bucket_s_release_releases_its_own_shards() {
    let mut harness = harness();
    harness.push_many("m", 3, DUE);
    harness.state().slow.insert("park", Duration::from_secs(3 * 3_600 + 600));
    harness.run_until(|it| it.state().parked.len() == 3);
    // The sweep has found the bucket empty before, and forgot it.
    harness.state().registered.clear();
    harness.run_without_executions();
    assert_eq!(harness.state().sent.len(), 3);
    assert_eq!(harness.effects("page"), 2, "the shard is read until it is empty, and no other");
}

/// The parts of a long body are put before its first part. What a worker leaves of one when it dies in between is its receiver's content, and
/// is removed, also where the bucket's release comes too early for that.
#[test]
fn what_a_worker_left_of_a_long_message_is_removed() {
    for takes in [Duration::ZERO, Duration::from_secs(3 * 3_600 - 60)] {
        let mut harness = harness();
        harness.subscribe_hook("m");
        let long = "\\u3042".repeat(80_000);
        let id = harness.produce(&Harness::message_with("m", r#""subscription":"m""#, &long, DUE));
        harness.state().slow.insert("park", takes);
        harness.dies_over(&id, "park");
        harness.state().slow.clear();
        assert_eq!(harness.state().unfinished.len(), 1);
        assert!(harness.state().parked.is_empty());
        harness.run();
        assert_eq!(harness.state().webhooks.len(), 1);
        assert!(harness.state().unfinished.is_empty(), "{takes:?}");
        assert!(harness.state().registered.is_empty());
    }
}

/// The shard of its bucket that a message lies in.
fn number(key: &ParkedKey) -> u16 {
    let Partition::Bucket(shard) = &key.partition else { panic!("it waits for a time: {key:?}") };
    shard.number
}
