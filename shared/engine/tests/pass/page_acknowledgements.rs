//! Acknowledgements of recipients of a page, which have no entries of their own.

use std::collections::BTreeSet;
use std::time::Duration;

use redial_core::access::AckToken;
use redial_core::ack::AckEvent;
use redial_core::identity::DeliveryKey;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_engine::acks::take;
use redial_engine::known::{Known, find};
use redial_engine::ports::Acknowledged;
use redial_memory::senders::answered;
use redial_memory::{Death, SentPush};
use serde_json::Value;

use crate::audiences::{current_run, message};
use crate::harness::{Harness, until_stalled};
use crate::pages::{all_are_sent, announced, key, until_page, with_page};

/// A message that requests acknowledgements goes to this many subscriptions.
fn with_acks(many: usize) -> (Harness, Vec<String>) {
    let (mut harness, ids) = with_page(many);
    harness.produce_in_bulk(&message(r#","acks":true,"ttl":600"#));
    (harness, ids)
}

/// The tokens that browsers have received, in the order of the pushes.
fn tokens(harness: &Harness) -> Vec<AckToken> {
    let token = |push: &SentPush| {
        let envelope: Value = serde_json::from_slice(&push.payload).expect("JSON");
        let keys = &harness.worker.settings.token_keys;
        let token =
            keys.read_ack(envelope["ack"].as_str().expect("a text"), harness.now()).expect("it is valid");
        assert_eq!(envelope["id"], token.delivery.as_str());
        token
    };
    let pushes = harness.state().sent.clone();
    pushes.iter().map(token).collect()
}

/// `None` if the worker died.
fn acknowledge(harness: &Harness, token: &AckToken) -> Option<Acknowledged> {
    let taken = take(&harness.memory, token, AckEvent::Displayed, harness.now());
    until_stalled(taken).map(|answer| answer.expect("nothing fails"))
}

fn known(harness: &Harness, key: &DeliveryKey) -> Option<Known> {
    let known = until_stalled(find(&harness.memory, key, harness.now()));
    known.expect("nothing kills it").expect("nothing fails")
}

fn is_displayed(known: &Known) -> bool {
    known.acknowledged().iter().any(|(event, _)| *event == AckEvent::Displayed)
}

#[test]
fn a_message_with_acknowledgements_goes_by_the_page() {
    let (mut harness, ids) = with_acks(3);
    harness.run();
    all_are_sent(&harness, &ids, 1, "");
    assert_eq!(harness.state().ledger.len(), 1, "the message to the audience");
    let tokens = tokens(&harness);
    for token in &tokens {
        assert_eq!(acknowledge(&harness, token), Some(Acknowledged::First));
        assert_eq!(acknowledge(&harness, token), Some(Acknowledged::Again));
    }
    harness.run();
    assert_eq!(announced(&harness, "displayed"), ids.iter().cloned().collect());
    let found: BTreeSet<String> = tokens
        .iter()
        .map(|token| {
            let known = known(&harness, &token.key()).expect("its page knows it");
            assert!(is_displayed(&known) && matches!(known, Known::OnPage { .. }), "{known:?}");
            known.subscription().expect("a recipient's").to_string()
        })
        .collect();
    assert_eq!(found, ids.into_iter().collect());
    assert_eq!((harness.count(Metric::Displayed), harness.count(Metric::AcksRepeated)), (3, 3));
}

#[test]
fn an_acknowledgement_counts_once_whenever_its_worker_dies() {
    let scenario = || {
        let (mut harness, ids) = with_acks(4);
        let answer = |at: usize, status| {
            harness.state().answers.insert(Harness::endpoint(&ids[at]), vec![answered(status)]);
        };
        answer(1, 503);
        answer(2, 410);
        until_page(&mut harness);
        (harness, ids)
    };
    for n in 1.. {
        for death in [Death::Before(n), Death::After(n)] {
            let (mut harness, ids) = scenario();
            harness.memory.revive();
            harness.will_die(death);
            harness.run_until(|it| it.state().death.is_none() || it.travelling().is_empty());
            if harness.state().death.is_some() {
                assert!(n > 10, "{n}");
                return;
            }
            // Browsers may be faster than the records of their pushes.
            let mut firsts = BTreeSet::new();
            let mut acknowledge_all = |harness: &Harness| {
                for token in tokens(harness) {
                    if acknowledge(harness, &token) == Some(Acknowledged::First) {
                        assert!(firsts.insert(token.delivery.clone()), "{} twice, {death:?}", token.delivery);
                    }
                }
            };
            acknowledge_all(&harness);
            harness.run();
            acknowledge_all(&harness);
            harness.run();
            let shown = announced(&harness, "displayed");
            for (id, token) in ids.iter().zip(ids.iter().map(|id| key(&harness, id))) {
                let known = known(&harness, &token).expect("its run is kept");
                assert!(is_displayed(&known) && shown.contains(id), "{id}: {known:?}, {death:?}");
            }
        }
    }
}

#[test]
fn what_was_acknowledged_on_a_page_stays_known_after_the_recipient_left_it() {
    let (mut harness, ids) = with_acks(3);
    let page = until_page(&mut harness);
    harness.drop_travelling();
    let id = harness.produce_retry(&page);
    harness.dies_over(&id, "post");
    let token = tokens(&harness).pop().expect("one was posted");
    let before = known(&harness, &token.key()).expect("its page knows it");
    assert!(
        matches!(&before, Known::OnPage { on_page, .. } if on_page.state() == State::Sending),
        "{before:?}"
    );
    assert_eq!(acknowledge(&harness, &token), Some(Acknowledged::First));
    harness.run();
    all_are_sent(&harness, &ids, 2, "");
    let after = known(&harness, &token.key()).expect("it has an entry");
    assert!(matches!(&after, Known::Entry(record) if record.entry.state == State::Sent), "{after:?}");
    assert!(is_displayed(&after), "{after:?}");
    assert_eq!(acknowledge(&harness, &token), Some(Acknowledged::Again));
}

#[test]
fn an_acknowledgement_with_a_later_token_is_a_repetition_and_kept_until_that_ends() {
    let (mut harness, ids) = with_acks(1);
    harness.run();
    let token = tokens(&harness).pop().expect("it was sent");
    let later = AckToken { expires_at: token.expires_at.plus(Duration::from_secs(86_400)), ..token.clone() };
    for (token, expected) in
        [(&token, Acknowledged::First), (&later, Acknowledged::Again), (&token, Acknowledged::Again)]
    {
        assert_eq!(acknowledge(&harness, token), Some(expected));
    }
    assert_eq!(harness.state().acks_apart[&token.key()].0, later.expires_at);
    harness.run();
    assert_eq!(announced(&harness, "displayed"), ids.into_iter().collect());
}

/// The page still has the subscription's id.
#[test]
fn an_acknowledgement_by_someone_who_was_erased_is_not_announced() {
    for has_events in [false, true] {
        let (mut harness, _) = with_acks(1);
        harness.run();
        harness.state().has_events = has_events;
        let token = tokens(&harness).pop().expect("it was sent");
        harness.state().erased_recipients.insert(token.key());
        for _ in 0..2 {
            assert_eq!(acknowledge(&harness, &token), Some(Acknowledged::Unknown), "{has_events}");
        }
        harness.run();
        assert_eq!(announced(&harness, "displayed"), BTreeSet::new());
        assert_eq!((harness.count(Metric::AcksUnknown), harness.count(Metric::AcksRepeated)), (2, 0));
    }
}

#[test]
fn an_acknowledgement_whose_worker_dies_is_repeated_and_recorded_once() {
    for n in 1.. {
        for death in [Death::Before(n), Death::After(n)] {
            let (mut harness, ids) = with_acks(1);
            harness.run();
            let token = tokens(&harness).pop().expect("it was sent");
            harness.memory.revive();
            harness.will_die(death);
            let first = acknowledge(&harness, &token);
            if first.is_some() {
                assert!(n > 4, "{n}");
                return;
            }
            harness.memory.revive();
            harness.state().death = None;
            let second = acknowledge(&harness, &token).expect("it lives");
            assert_ne!(second, Acknowledged::Unknown, "{death:?}");
            assert_eq!(acknowledge(&harness, &token), Some(Acknowledged::Again), "{death:?}");
            harness.run();
            assert_eq!(announced(&harness, "displayed"), ids.into_iter().collect(), "{death:?}");
        }
    }
}

#[test]
fn a_recipient_is_found_by_its_delivery_s_id_until_its_run_is_forgotten() {
    let (mut harness, ids) = with_acks(2);
    let key_of = |harness: &Harness| key(harness, &ids[1]);
    harness.run_until(|it| !it.state().page_members.is_empty());
    let state = |harness: &Harness| match known(harness, &key_of(harness)) {
        Some(Known::OnPage { on_page, .. }) => Some(on_page.state()),
        other => panic!("{other:?}"),
    };
    assert_eq!(state(&harness), Some(State::Queued));
    harness.run();
    assert_eq!(state(&harness), Some(State::Sent));
    let token = tokens(&harness).into_iter().find(|it| it.key() == key_of(&harness)).expect("it was sent");
    assert_eq!(acknowledge(&harness, &token), Some(Acknowledged::First));
    let run = current_run(&harness);
    let kept_until = harness.state().runs[&run].kept_until;
    assert!(token.expires_at < kept_until, "an acknowledgement is never later than its run");
    let late = kept_until.minus(Duration::from_millis(1)).since(harness.now());
    harness.pass(late);
    let known_late = known(&harness, &token.key()).expect("its run is kept");
    assert!(!is_displayed(&known_late), "the token is over, and what it acknowledged with it");
    harness.pass(Duration::from_millis(1));
    assert_eq!(known(&harness, &token.key()), None, "the rows are there, and past their expiry");
}
