//! Messages wait in the line of an origin that is out, and leave it when the origin is back.

use std::collections::BTreeSet;
use std::time::Duration;

use redial_core::identity::Tenant;
use redial_core::lane::Lane;
use redial_core::ledger::{HeldBy, State};
use redial_core::line::{FORGOTTEN_AFTER, LineShard};
use redial_core::metric::Metric;
use redial_core::protection::{Cooldowns, OriginState, Rank};
use redial_core::reason::Reason;
use redial_core::time::Timestamp;
use redial_engine::cleanup::Sweep;
use redial_engine::ports::{ParkedItem, ParkedKey, Partition, Randomness as _, StoredOrigin};
use redial_engine::protection::{Guard, Settings};
use redial_memory::senders::answered;
use redial_memory::{Death, PortErrorKind};

use crate::harness::{Harness, origin};
use crate::protection::PUSH_SERVICE;

const HOUR: Duration = Duration::from_secs(3600);

/// A breaker that an operator has opened for an hour, with `messages` messages in its line.
fn held(messages: usize) -> Harness {
    let mut harness = Harness::new();
    harness.open_breaker(&origin(PUSH_SERVICE), HOUR);
    harness.push_many("m", messages, r#","ttl":86400"#);
    harness.run_until(|it| it.count(Metric::Deferred) >= messages as u64);
    harness
}

/// The origin is well from now on, and no worker has released its line.
fn is_well(harness: &Harness) {
    let stored = StoredOrigin { state: OriginState::default(), version: 2 };
    harness.state().origins.insert(origin(PUSH_SERVICE), stored);
}

/// How many wait in lines.
fn waiting(harness: &Harness) -> usize {
    in_lines(harness).len()
}

fn in_lines(harness: &Harness) -> Vec<ParkedItem> {
    let state = harness.state();
    let items = state.parked.values().filter(|item| matches!(item.key.partition, Partition::Line(_)));
    items.cloned().collect()
}

fn after(harness: &Harness, secs: u64) -> Timestamp {
    harness.now().plus(Duration::from_secs(secs))
}

#[test]
fn messages_wait_in_a_line_without_looking_and_are_sent_after_the_breaker_closes() {
    let mut harness = held(60);
    let (in_line, posts) = (waiting(&harness), harness.state().sent.len());
    assert!((40..=60).contains(&in_line) && posts == 0, "{in_line} wait, {posts} posts");
    let opened = harness.now();
    harness.run_to(opened.plus(HOUR));
    assert_eq!((waiting(&harness), harness.state().sent.len()), (in_line, 0));
    harness.run();
    assert!(harness.all_are("m", 60, State::Sent) && harness.state().sent.len() == 60);
    let took = harness.now().since(opened.plus(HOUR)).as_secs();
    let deferred = harness.count(Metric::Deferred);
    println!("all were sent {took} s after the cooldown; {deferred} deferrals of 60 messages");
    assert!(took < 15 * 60 && deferred <= 3 * 60, "{took} s, {deferred}");
    assert!(harness.state().lines.is_empty(), "it is forgotten");
}

/// The origin is well, and the worker relies on what it read before: what comes joins the line.
fn relies_on_what_it_read(harness: &mut Harness) {
    let settings = Settings { state_max_age: Duration::from_secs(10), ..Settings::default() };
    harness.worker.guard = Guard::new(settings, 1);
    harness.push("early", r#","ttl":86400"#);
    let before = waiting(harness);
    harness.run_until(|it| waiting(it) > before);
    is_well(harness);
}

#[test]
fn a_message_that_joins_after_the_breaker_closed_releases_its_line() {
    let mut harness = held(20);
    relies_on_what_it_read(&mut harness);
    let soon = after(&harness, 30);
    harness.push("late", r#","ttl":86400"#);
    harness.run_until(|it| it.now() >= soon || it.state().outbox.is_empty() && waiting(it) == 0);
    assert!(harness.now() < soon, "the sweep was not needed");
}

/// While an origin recovers, many a message joins its line, which may have many shards.
#[test]
fn a_message_that_joins_a_line_releases_no_more_than_its_own_shard() {
    let mut harness = held(20);
    harness.state().lines.values_mut().for_each(|it| it.shards = 128);
    relies_on_what_it_read(&mut harness);
    let (before, sends) = (waiting(&harness), harness.effects("send"));
    harness.push("late", r#","ttl":86400"#);
    let soon = after(&harness, 30);
    harness.run_until(|it| waiting(it) > before);
    harness.run_to(soon);
    let sends = harness.effects("send") - sends;
    assert!((1..=10).contains(&sends), "{sends} messages were sent");
}

#[test]
fn the_sweep_releases_a_line_that_no_worker_releases() {
    let mut harness = held(20);
    harness.pass(Duration::from_secs(10));
    is_well(&harness);
    let swept = after(&harness, 75);
    let (in_line, posts) = (waiting(&harness), harness.state().sent.len());
    harness.run_until(|it| it.state().sent.len() >= posts + in_line);
    assert!(in_line >= 10 && harness.now() <= swept, "{in_line}, {:?}", harness.now());
}

#[test]
fn a_line_that_cannot_be_read_keeps_no_other_from_being_looked_after() {
    let mut harness = held(20);
    let mut empty = harness.state().lines.values().next().expect("a line").clone();
    empty.line.lane = Lane::Bulk;
    empty.at = harness.now().minus(FORGOTTEN_AFTER * 2);
    harness.state().lines.insert(empty.line.clone(), empty.clone());
    for calls in [1, 0] {
        harness.state().outbox.clear();
        harness.memory.fail("page", calls, PortErrorKind::Broken);
        harness.sweep(Sweep::Waits);
        let releases = harness.state().outbox.len();
        let is_forgotten = !harness.state().lines.contains_key(&empty.line);
        assert_eq!(releases + usize::from(is_forgotten), 2 - calls, "{releases}, {is_forgotten}");
        harness.state().lines.insert(empty.line.clone(), empty.clone());
    }
}

#[test]
fn what_waits_ends_with_its_ttl() {
    let mut harness = Harness::new();
    harness.open_breaker(&origin(PUSH_SERVICE), Duration::from_secs(60));
    harness.state().usual_answer = Some(answered(503));
    harness.push_many("m", 30, r#","ttl":900"#);
    let over = after(&harness, 900);
    harness.run();
    let is_over = |n: usize| match harness.ended(&format!("m{n}")) {
        (State::Expired, _) | (State::Failed, Some(Reason::TtlExceeded | Reason::RetriesExhausted)) => true,
        (_, _) => false,
    };
    assert!((0..30).all(is_over));
    let last = (0..30).filter_map(|n| harness.entry(&format!("m{n}"))).map(|entry| entry.updated_at).max();
    assert!(last.is_some_and(|last| last <= over.plus(Duration::from_secs(60))), "{last:?}, {over:?}");
}

#[test]
fn what_is_over_leaves_the_end_of_a_line_that_only_probes_leave() {
    let mut harness = Harness::new();
    harness.open_breaker(&origin(PUSH_SERVICE), Duration::from_secs(1200));
    harness.state().usual_answer = Some(answered(503));
    harness.push_many("m", 300, r#","ttl":86400"#);
    harness.push("over", r#","ttl":1800,"urgency":"very-low""#);
    let over = after(&harness, 1800);
    let is_last =
        |key: &ParkedKey| matches!(&key.partition, Partition::Line(shard) if shard.rank == Rank::Last);
    let waits = |harness: &Harness| harness.state().parked.keys().any(is_last);
    harness.run_to(over.minus(Duration::from_secs(70)));
    assert!(waits(&harness) && waiting(&harness) > 200, "{}", waiting(&harness));
    harness.pass(Duration::from_secs(20));
    // It is half open for two minutes, and no other message came to be a probe.
    let mut state = OriginState::default();
    let opened = harness.now().minus(Duration::from_secs(300));
    state.open(Duration::from_secs(180), opened, &Cooldowns::default(), &mut harness.memory.rng());
    harness.state().origins.insert(origin(PUSH_SERVICE), StoredOrigin { state, version: 100 });
    harness.sweep(Sweep::Waits);
    harness.run_to(over);
    assert!(!waits(&harness) && waiting(&harness) > 200);
}

/// Puts messages of a tenant in that shard of a line, which wait until then, each with spaces behind its body.
fn put(harness: &Harness, like: &ParkedItem, number: u16, of: (&str, usize), until: Timestamp, bytes: usize) {
    let Partition::Line(shard) = &like.key.partition else { panic!("it is in a line") };
    let (_, rest) = like.key.sort.split_once('#').expect("a key");
    for at in 0..of.1 {
        let sort = format!("{:013}#{rest}{}{at}", until.as_ms(), of.0);
        let partition = Partition::Line(LineShard { number, ..shard.clone() });
        let key = ParkedKey { partition, sort };
        let tenant = Tenant::parse(of.0).expect("valid");
        let body = like.body.clone() + &" ".repeat(bytes);
        harness.state().parked.insert(key.clone(), ParkedItem { key, tenant, body, ..like.clone() });
    }
}

/// A tenant's messages lie in some of a line's shards.
#[test]
fn probes_from_a_line_are_of_all_tenants_that_wait_in_it() {
    let mut harness = held(20);
    let like = in_lines(&harness).remove(0);
    harness.state().parked.clear();
    harness.state().lines.values_mut().for_each(|it| it.shards = 4);
    for (number, tenant) in (0..).zip(["acme", "bolt", "crux"]) {
        put(&harness, &like, number, (tenant, 6), after(&harness, 86_400), 0);
    }
    let mut state = OriginState::default();
    let opened = harness.now().minus(Duration::from_secs(300));
    state.open(Duration::from_secs(180), opened, &Cooldowns::default(), &mut harness.memory.rng());
    harness.state().origins.insert(origin(PUSH_SERVICE), StoredOrigin { state, version: 100 });
    harness.sweep(Sweep::Waits);
    harness.run_until(|it| waiting(it) < 18);
    let left: BTreeSet<String> = {
        let waiting = in_lines(&harness);
        let of = |tenant: &str| waiting.iter().filter(|item| item.tenant.as_str() == tenant).count();
        ["acme", "bolt", "crux"].into_iter().filter(|tenant| of(tenant) == 6).map(str::to_owned).collect()
    };
    assert_eq!(left, BTreeSet::new(), "none of theirs left");
}

/// A page of DynamoDB's ends after a megabyte.
#[test]
fn what_is_over_leaves_a_line_however_long_it_is() {
    let mut harness = held(20);
    let like = in_lines(&harness).remove(0);
    harness.state().parked.clear();
    put(&harness, &like, 0, ("acme", 30), harness.now(), 200_000);
    harness.sweep(Sweep::Waits);
    let swept = harness.effects("page");
    harness.run_until(|it| waiting(it) == 0 || it.effects("page") > swept + 40);
    assert_eq!(waiting(&harness), 0);
    assert!(harness.now() < after(&harness, 1) && harness.count(Metric::Parked) > 0);
}

/// A receive was doubled, or the answer of a release's send was lost.
#[test]
fn copies_that_wait_in_one_place_leave_their_line_as_one() {
    let mut harness = held(20);
    let in_line = waiting(&harness);
    let copy = |sort: &str, place: &str, own: &str| {
        let (before, _) = sort.rsplit_once('#').expect("a key");
        format!("{before}#{place}/{own}")
    };
    let items = in_lines(&harness);
    for item in &items {
        let place = item.key.place().expect("it waits in a place").rsplit_once('#').expect("a key").1;
        for (place, own) in [(place, "again"), (place, "once more"), ("of another", "of another")] {
            // What has no TTL waits until a whole hour, which copies may differ in.
            let sort = copy(&item.key.sort, place, own);
            let sort = if own == "again" { sort.replacen('1', "2", 1) } else { sort };
            let key = ParkedKey { sort, ..item.key.clone() };
            harness.state().parked.insert(key.clone(), ParkedItem { key, ..item.clone() });
        }
    }
    assert_eq!((items.len(), waiting(&harness)), (in_line, 4 * in_line));
    is_well(&harness);
    harness.sweep(Sweep::Waits);
    let of_others = harness.travelling().len();
    harness.run_until(|it| waiting(it) == 0);
    let left = harness.travelling().iter().filter(|body| body.contains("\"payload\"")).count();
    assert!(left + harness.state().sent.len() <= 2 * in_line + of_others, "{left}");
    harness.run();
    assert!(harness.all_are("m", 20, State::Sent) && harness.state().sent.len() == 20);
}

#[test]
fn what_an_earlier_release_put_in_a_line_leaves_it() {
    let mut harness = held(20);
    for item in in_lines(&harness) {
        harness.state().parked.remove(&item.key);
        let (before, own) = item.key.sort.rsplit_once('/').expect("a key");
        let (before, _) = before.rsplit_once('#').expect("a key");
        let key = ParkedKey { sort: format!("{before}#{own}"), ..item.key.clone() };
        assert_eq!(key.place(), None);
        harness.state().parked.insert(key.clone(), ParkedItem { key, ..item });
    }
    is_well(&harness);
    harness.run();
    assert!(harness.all_are("m", 20, State::Sent) && harness.state().sent.len() == 20);
}

#[test]
fn a_worker_killed_at_any_effect_of_a_release_loses_and_repeats_no_message() {
    let run = |death| {
        let mut harness = held(12);
        let before = harness.state().trace.len();
        harness.state().effects = 0;
        harness.state().death = death;
        is_well(&harness);
        harness.run();
        (harness, before)
    };
    let (unharmed, before) = run(None);
    let effects = unharmed.state().trace.len() - before;
    assert!(effects > 20, "{effects}");
    for n in 1..=effects {
        let (harness, _) = run(Some(Death::After(n)));
        assert!(harness.all_are("m", 12, State::Sent), "after {n}");
        let twice = (0..12).filter(|at| harness.posts_to(&format!("m{at}")) > 1).count();
        let in_doubt = (0..12).filter(|at| harness.entry(&format!("m{at}")).is_some_and(|it| it.in_doubt));
        assert!(twice <= in_doubt.count(), "after {n}: {twice}");
        assert!(harness.state().parked.is_empty() && harness.state().lines.is_empty(), "after {n}");
    }
}

#[test]
fn a_line_that_cannot_be_written_keeps_no_message_from_coming_back() {
    for (name, kind) in [
        ("park", PortErrorKind::Throttled),
        ("register", PortErrorKind::Broken),
        ("look", PortErrorKind::Throttled),
    ] {
        let mut harness = Harness::new();
        harness.memory.fail(name, 7, kind);
        harness.open_breaker(&origin(PUSH_SERVICE), HOUR);
        harness.push_many("m", 30, r#","ttl":86400"#);
        harness.run();
        assert!(harness.all_are("m", 30, State::Sent), "{name}");
    }
}

/// Its acknowledgement was lost: where each copy that no store takes were sent on, an outage of the store would double them again and again.
#[test]
fn a_message_that_no_store_takes_is_sent_on_once() {
    let at = Harness::new().now().plus(HOUR).to_rfc3339();
    for (name, fields, is_held) in
        [("line", String::new(), true), ("bucket", format!(r#","deliver_at":"{at}""#), false)]
    {
        let mut harness = Harness::new();
        harness.memory.fail("park", 100, PortErrorKind::Throttled);
        if is_held {
            harness.open_breaker(&origin(PUSH_SERVICE), HOUR);
        }
        let message_id = harness.push("m", &format!(r#","ttl":86400{fields}"#));
        assert!(harness.acknowledges(&message_id), "{name}");
        assert_eq!(harness.travelling().len(), 1, "{name}");
        for _ in 0..3 {
            assert!(!harness.acknowledges(&message_id), "{name}");
        }
        assert_eq!(harness.travelling().len(), 1, "{name}");
        harness.run();
        assert!(harness.state_of("m") == Some(State::Sent) && harness.posts_to("m") == 1, "{name}");
    }
}

#[test]
fn without_lines_messages_look_again_by_themselves() {
    let mut harness = Harness::new();
    harness.worker.settings.origin_lines = false;
    harness.open_breaker(&origin(PUSH_SERVICE), HOUR);
    harness.push_many("m", 30, r#","ttl":86400"#);
    harness.run_until(|it| it.count(Metric::Deferred) >= 30);
    assert!(!harness.holds_in_lines());
    let held_by: Vec<_> = (0..30).filter_map(|n| harness.entry(&format!("m{n}"))?.held_by).collect();
    assert!(!held_by.is_empty() && held_by.iter().all(|by| *by == HeldBy::Protection), "{held_by:?}");
    harness.run();
    assert!(harness.all_are("m", 30, State::Sent));
}
