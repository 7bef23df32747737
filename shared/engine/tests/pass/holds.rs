//! What waits before an attempt can be found, with what holds it back and the end of its wait; and a note about it changes nothing.

use std::time::Duration;

use redial_core::identity::DeliveryId;
use redial_core::ledger::{HeldBy, State};
use redial_core::metric::Metric;
use redial_core::reason::Reason;
use redial_core::time::Timestamp;
use redial_memory::PortErrorKind;
use redial_memory::senders::answered;

use crate::crashes::kill_at_every_effect;
use crate::harness::{Harness, Whom, origin};

const SCHEDULED: &str = r#","deliver_at":"2026-11-21T13:00:00Z""#;
const HOUR: Duration = Duration::from_secs(3600);

/// By what `m` is held back, and for how many seconds from now.
fn held(harness: &Harness) -> Option<(State, Option<HeldBy>, Option<u64>)> {
    let entry = harness.entry("m")?;
    let secs = entry.not_before.map(|at| at.since(harness.now()).as_secs());
    Some((entry.state, entry.held_by, secs))
}

fn until_parked(harness: &mut Harness) {
    harness.run_until(|it| !it.state().parked.is_empty());
}

#[test]
fn a_scheduled_message_and_one_whose_origin_is_out_can_be_found_before_any_attempt() {
    let mut harness = Harness::prepared(Whom::Browser, vec![], SCHEDULED);
    until_parked(&mut harness);
    assert_eq!(held(&harness), Some((State::Deferred, Some(HeldBy::Schedule), Some(3 * 3600))));
    harness.run();
    assert_eq!((held(&harness), harness.posts_to("m")), (Some((State::Sent, None, None)), 1));
    let logged = harness.state().held_back.clone();
    let until = Timestamp::parse_rfc3339("2026-11-21T13:00:00Z").expect("a time");
    let id = DeliveryId::parse("m").expect("an id");
    assert_eq!(logged, [(id, 0, HeldBy::Schedule, until)], "once, however often it comes back early");

    let mut harness = Harness::new();
    harness.open_breaker(&origin("https://push.example"), HOUR);
    harness.push("m", r#","ttl":86400"#);
    until_parked(&mut harness);
    let (state, by, secs) = held(&harness).expect("it has an entry");
    // In its origin's line, or until it asks the breaker again.
    assert!(state == State::Deferred && matches!(by, Some(HeldBy::Origin | HeldBy::Protection)), "{by:?}");
    assert!(secs.is_some_and(|secs| secs > 0));
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 1));
}

#[test]
fn a_retry_that_its_origin_holds_back_says_so_until_it_is_recorded_again() {
    let mut harness = Harness::prepared(Whom::Browser, vec![answered(503)], "");
    harness.run_until(|it| it.state_of("m") == Some(State::Retrying));
    let updated = harness.entry("m").expect("it was attempted").updated_at;
    assert_eq!(held(&harness).expect("it waits").1, None);
    harness.replace_worker(3);
    harness.open_breaker(&origin("https://push.example"), HOUR);
    until_parked(&mut harness);
    let entry = harness.entry("m").expect("it waits");
    assert_eq!(harness.state().held_back.last().map(|(_, attempt, ..)| *attempt), Some(1));
    assert_eq!((entry.state, entry.held_by.is_some(), entry.updated_at), (State::Retrying, true, updated));
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 2));
}

#[test]
fn what_passes_all_gates_is_never_noted() {
    let mut harness = Harness::new();
    harness.push_many("m", 10, "");
    harness.run();
    assert!(harness.all_are("m", 10, State::Sent));
    assert_eq!((harness.effects("hold"), harness.state().held_back.len()), (0, 0));
}

#[test]
fn a_note_that_cannot_be_written_holds_nothing_up() {
    for kind in [PortErrorKind::Broken, PortErrorKind::Throttled, PortErrorKind::Lost] {
        let mut harness = Harness::prepared(Whom::Browser, vec![], SCHEDULED);
        harness.memory.fail("hold", 1, kind);
        until_parked(&mut harness);
        assert_eq!(held(&harness).is_some(), kind == PortErrorKind::Lost);
        harness.run();
        assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 1), "{kind:?}");
    }
}

#[test]
fn a_worker_that_dies_over_a_note_loses_nothing() {
    let run = |death| {
        let harness = Harness::prepared(Whom::Browser, vec![], SCHEDULED);
        harness.state().death = death;
        harness.run_to_the_end()
    };
    kill_at_every_effect(run, |harness, may_repeat, case| {
        assert_eq!(harness.state_of("m"), Some(State::Sent), "{case}");
        assert!((1..=1 + usize::from(may_repeat)).contains(&harness.posts_to("m")), "{case}");
    });
}

#[test]
fn copies_of_a_message_that_waits_are_one_delivery() {
    let mut harness = Harness::new();
    harness.copies = true;
    harness.push("m", SCHEDULED);
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 1));
}

/// Each hop of such a copy could leave one more behind, for as long as the breaker holds.
#[test]
fn a_copy_of_what_went_on_without_it_waits_for_no_breaker() {
    let same = Harness::message("m", "");
    let another = same.replace("hello", "goodbye");
    for (answers, state, copy, dropped, conflicts) in [
        (vec![], State::Sent, &same, 1, 0),
        (vec![answered(503)], State::Retrying, &same, 1, 0),
        (vec![answered(400)], State::Failed, &same, 1, 0),
        (vec![], State::Sent, &another, 0, 1),
    ] {
        let mut harness = Harness::prepared(Whom::Browser, answers, "");
        harness.run_until(|it| it.state_of("m") == Some(state));
        let posts = harness.posts_to("m");
        harness.replace_worker(3);
        harness.open_breaker(&origin("https://push.example"), HOUR);
        let copy = harness.produce(copy);
        assert!(harness.acknowledges(&copy), "{state:?}");
        let found = (harness.count(Metric::DuplicatesDropped), harness.dead_letters(Reason::IdConflict));
        assert_eq!(found, (dropped, conflicts), "{state:?}");
        assert_eq!(harness.posts_to("m"), posts, "{state:?}");
        assert!(harness.state().held_back.is_empty() && harness.state().parked.is_empty(), "{state:?}");
    }
}

/// It may have been sent on before: it stays in its queue, until another message would take its place there.
#[test]
fn a_copy_that_was_received_before_is_judged_before_it_is_sent_again() {
    for (receives, is_judged) in [(1, true), (2, false), (14, false), (15, true), (16, true)] {
        let mut harness = Harness::finished(Whom::Browser, vec![], "");
        harness.replace_worker(3);
        harness.open_breaker(&origin("https://push.example"), Duration::from_secs(60));
        let copy = harness.produce(&Harness::message("m", ""));
        harness.has_been_received(&copy, receives - 1);
        assert_eq!(harness.acknowledges(&copy), is_judged, "{receives}");
        assert_eq!(harness.effects("hold"), usize::from(is_judged), "{receives}");
    }
}

/// Its lease may run out without a record, so the copy has to wait, and must not be attempted before the breaker lets it.
#[test]
fn a_copy_of_what_another_worker_attempts_waits_for_the_breaker() {
    let mut harness = Harness::new();
    let first = harness.push("m", r#","ttl":86400"#);
    harness.dies_over(&first, "post");
    harness.replace_worker(3);
    harness.open_breaker(&origin("https://push.example"), HOUR);
    harness.pass(Duration::from_secs(600));
    let copy = harness.produce(&Harness::message("m", r#","ttl":86400"#));
    assert!(harness.acknowledges(&copy));
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sending), 1));
    assert_eq!(harness.state().held_back.len(), 1);
}
