//! An id that is used again is another message: it has a run of its own, whatever is still there of the earlier one, while every
//! hand-off of one message has the same run.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use redial_core::audience::{Expansion, RecipientRef, RunKey};
use redial_core::body::Body;
use redial_core::identity::SubscriptionId;
use redial_core::lane::Lane;
use redial_core::ledger::{DEDUPE_WINDOW, State};
use redial_core::route::DelaySeconds;
use redial_core::time::Timestamp;
use redial_memory::{Death, Row};

use crate::audiences::{current_run, delivery, message, tags, with_readers};
use crate::crashes::kill_at_every_effect;
use crate::harness::Harness;

const DAY: Duration = Duration::from_secs(86_400);

fn posts(harness: &Harness, readers: usize) -> Vec<usize> {
    (0..readers).map(|n| harness.posts_to(&format!("s{n}"))).collect()
}

/// What moves a part of a run on.
fn parts(run: &RunKey) -> Vec<String> {
    let body = |part: Expansion| part.outgoing(Lane::Transactional, DelaySeconds::ZERO).body;
    Expansion::all(run.clone()).map(body).collect()
}

/// What goes to a recipient of a run.
fn copy(run: &RunKey, subscription: &str, first_sent: Timestamp) -> String {
    let to = RecipientRef::new(run, SubscriptionId::parse(subscription).expect("valid"));
    let (id, run, sent) = (to.id, &run.id, first_sent.as_ms());
    format!(
        r#"{{"tenant":"acme","id":"{id}","audience":"{run}","recipient":"{subscription}","retry_count":0,"original_timestamp":{sent}}}"#
    )
}

/// Deletes all rows that have expired but those.
fn delete_expired(harness: &Harness, but: impl Fn(&Row) -> bool) {
    let mut state = harness.state();
    for row in state.expired() {
        if !but(&row) {
            state.delete(&row);
        }
    }
}

#[test]
fn an_id_used_again_after_the_dedupe_window_reaches_everybody_with_another_content() {
    // DynamoDB deletes late: all of the rows that have expired are gone, or all but one kind, or none.
    let kinds: [fn(&Row) -> bool; 5] = [
        |_| false,
        |row| matches!(row, Row::Entry(_)),
        |row| matches!(row, Row::Run(_)),
        |row| matches!(row, Row::Part(..)),
        |_| true,
    ];
    for (n, still_there) in kinds.into_iter().enumerate() {
        let mut harness = with_readers(20);
        for (times, payload) in [(1, "hello"), (2, "hello"), (3, "goodbye")] {
            harness.deliver(&message("").replace("hello", payload));
            assert_eq!(posts(&harness, 20), [times; 20], "{n}");
            assert_eq!(harness.state_of("n1"), Some(State::Expanded));
            assert_eq!(delivery(&harness, "s0"), (State::Sent, None), "{n}");
            let state = harness.state();
            assert!(state.sent[20 * (times - 1)..].iter().all(|push| push.payload == payload.as_bytes()));
            assert!(state.dead_letters.is_empty(), "{:?}", state.dead_letters);
            drop(state);
            harness.pass(DEDUPE_WINDOW + DAY);
            delete_expired(&harness, still_there);
        }
    }
}

#[test]
fn after_any_kill_each_use_of_an_id_reaches_every_reader_once() {
    for (readers, times) in [(12, 1), (3, 2)] {
        let run = |death| {
            let mut harness = with_readers(readers);
            for _ in 1..times {
                harness.deliver(&message(""));
                harness.pass(DEDUPE_WINDOW + DAY);
                harness.memory.revive();
            }
            harness.state().death = death;
            harness.deliver(&message(""));
            harness
        };
        let deaths = kill_at_every_effect(run, |harness, may_repeat, case| {
            for (n, posts) in posts(harness, readers).into_iter().enumerate() {
                assert!(posts == times || may_repeat && posts == times + 1, "s{n}: {posts} posts, {case}");
                assert_eq!(delivery(harness, &format!("s{n}")).0, State::Sent, "s{n}, {case}");
            }
            assert_eq!(harness.state().runs.len(), times, "{case}");
        });
        assert!(deaths > 60, "{deaths}");
    }
}

/// A message whose worker died when its claim was written, 5 s ago.
fn claimed_and_not_handed_off() -> (Harness, String, Timestamp) {
    let mut harness = with_readers(3);
    let id = harness.produce(&message(""));
    harness.dies_over(&id, "claim");
    let claimed_at = harness.entry("n1").expect("claimed").updated_at;
    harness.pass(Duration::from_secs(5));
    (harness, id, claimed_at)
}

#[test]
fn every_hand_off_and_every_claim_whose_answer_was_lost_opens_the_same_run() {
    for answer_was_lost in [false, true] {
        let (mut harness, id, claimed_at) = claimed_and_not_handed_off();
        if answer_was_lost {
            harness.repeat_lease_token();
        }
        for _ in 0..3 {
            assert!(harness.acknowledges(&id));
            harness.pass(Duration::from_secs(5));
        }
        harness.run();
        let opened: Vec<_> = harness.state().runs.values().map(|run| run.opened_at).collect();
        assert_eq!(opened, [claimed_at]);
        assert_eq!(posts(&harness, 3), [1; 3]);
    }
}

#[test]
fn a_copy_held_back_beyond_the_dedupe_window_is_dropped() {
    let mut harness = with_readers(2);
    let sent = harness.now();
    harness.deliver(&message(r#","ttl":2419200"#));
    let run = current_run(&harness);
    for _ in 0..28 {
        harness.pass(DAY);
        delete_expired(&harness, |_| false);
        harness.produce_retry(&copy(&run, "s0", sent));
        harness.produce_retry(&parts(&run)[3]);
        harness.run();
    }
    assert_eq!(posts(&harness, 2), [1; 2]);
}

#[test]
fn a_forgotten_message_with_a_ttl_of_zero_is_not_walked_again() {
    let mut harness = with_readers(3);
    harness.deliver(&message(r#","ttl":0"#));
    let run = current_run(&harness);
    harness.pass(DEDUPE_WINDOW + DAY);
    // The run's own row is the last one that is still there.
    delete_expired(&harness, |row| matches!(row, Row::Run(_)));
    for part in parts(&run) {
        harness.produce_retry(&part);
    }
    harness.run();
    assert_eq!(posts(&harness, 3), [1; 3]);
}

/// Over six weeks copies of all that travels come again, rows that have expired are deleted one by one in any order, and other
/// readers come and go; on some day after its dedupe window the id is used again.
#[test]
fn whatever_order_expired_rows_are_deleted_in_each_gets_a_message_once() {
    const READERS: usize = 5;
    for seed in 0..60 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut harness = with_readers(READERS);
        let again_on = rng.random_range(16..35);
        let mut times = 0;
        let mut copies = Vec::new();
        for day in 0..42 {
            if day == 0 || day == again_on {
                times += 1;
                let sent = harness.now();
                harness.produce(&message(r#","ttl":1728000"#));
                let first = rng.random_range(1..40);
                harness.memory.revive();
                harness.will_die(Death::After(first));
                harness.run();
                let run = current_run(&harness);
                copies.extend(parts(&run));
                copies.extend((0..READERS).map(|n| copy(&run, &format!("s{n}"), sent)));
            }
            let mut expired = harness.state().expired();
            while rng.random_bool(0.5)
                && let Some(row) = expired.choose(&mut rng).cloned()
            {
                expired.retain(|other| *other != row);
                harness.state().delete(&row);
            }
            let news = if rng.random_bool(0.5) { tags(&["news"]) } else { tags(&[]) };
            harness.amend("other", |it| it.tags = news);
            for _ in 0..3 {
                harness.produce_retry(copies.choose(&mut rng).expect("there are some"));
            }
            harness.run();
            for (n, posts) in posts(&harness, READERS).into_iter().enumerate() {
                // Its worker may have died between the POST and its record.
                let in_doubt = harness.state().ledger.values().any(|entry| entry.in_doubt);
                assert!(
                    posts == times || in_doubt && posts <= 2 * times,
                    "seed {seed}, day {day}: s{n} {posts}"
                );
            }
            harness.pass(DAY);
        }
        assert_eq!(times, 2);
    }
}

#[test]
fn what_refers_to_a_run_of_another_release_comes_back() {
    let mut harness = with_readers(3);
    let now = harness.now();
    let id = harness.produce(&message(""));
    harness.dies_over(&id, "audiences.open");
    let run = current_run(&harness);
    let readable = harness.state().runs[&run].body.clone();
    let later = Body::new(readable.expose().replace("{\"tenant\"", "{\"of_a_later_release\":1,\"tenant\""));
    harness.state().runs.get_mut(&run).expect("opened").body = later;
    let mut bodies = parts(&run);
    bodies.push(copy(&run, "s0", now));
    for body in bodies {
        let id = harness.produce_retry(&body);
        assert!(!harness.acknowledges(&id), "{body}");
        assert!(harness.try_poison(&body).is_err() || body.contains("expand"), "{body}");
    }
    harness.state().runs.get_mut(&run).expect("opened").body = readable;
    harness.run();
    assert_eq!(posts(&harness, 3), [1; 3]);
}
