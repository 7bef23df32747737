//! Audiences by the page: one message for many recipients, and each of them as if it had one of its own.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use redial_core::audience::shard_of;
use redial_core::identity::{DeliveryKey, SubscriptionId};
use redial_core::ledger::State;
use redial_core::page::WAVE;
use redial_core::reason::Reason;
use redial_memory::senders::answered;
use redial_memory::{Death, PortErrorKind};

use crate::audiences::{current_run, delivery, message, tags};
use crate::harness::{Harness, origin, until_stalled};
use crate::protection::PUSH_SERVICE;

/// A harness that sends by the page to `many` subscriptions of one part, and their ids.
pub(crate) fn with_page(many: usize) -> (Harness, Vec<String>) {
    let mut harness = Harness::new();
    harness.worker.settings.audience_pages = true;
    harness.state().has_events = true;
    let of_part = |id: &String| SubscriptionId::parse(id).is_some_and(|id| shard_of(&id) == 3);
    let ids: Vec<String> = (0..).map(|n| format!("s{n}")).filter(of_part).take(many).collect();
    for id in &ids {
        harness.subscribe(id);
        harness.amend(id, |it| it.tags = tags(&["news"]));
    }
    (harness, ids)
}

fn pages_in(bodies: &[String]) -> Vec<&String> {
    bodies.iter().filter(|body| body.contains("\"page\"")).collect()
}

/// Runs until the page's message is on its queue; returns its body.
pub(crate) fn until_page(harness: &mut Harness) -> String {
    harness.run_until(|it| !pages_in(&it.travelling()).is_empty());
    pages_in(&harness.travelling())[0].clone()
}

/// The ids of the deliveries that were announced as ended so.
pub(crate) fn announced(harness: &Harness, state: &str) -> BTreeSet<String> {
    let ends = harness.events.iter().filter(|event| event["state"] == state);
    ends.filter_map(|event| Some(event["subscription"].as_str()?.to_owned())).collect()
}

pub(crate) fn all_are_sent(harness: &Harness, ids: &[String], most: usize, case: &str) {
    for id in ids {
        let posts = harness.posts_to(id);
        assert!((1..=most).contains(&posts), "{id} was posted {posts} times, {case}");
        assert_eq!(delivery(harness, id), (State::Sent, None), "{id}, {case}");
        // An event that is announced again is the same one, and its callback the same delivery.
        let of_this = harness.events.iter().filter(|it| it["subscription"] == **id && it["state"] == "sent");
        let times: BTreeSet<String> = of_this.map(|event| event["at"].to_string()).collect();
        assert_eq!(times.len(), 1, "{id}: {times:?}, {case}");
    }
    assert_eq!(announced(harness, "sent"), ids.iter().cloned().collect(), "{case}");
}

#[test]
fn a_hundred_recipients_are_one_message_without_entries_of_their_own() {
    let (mut harness, ids) = with_page(100);
    harness.produce_in_bulk(&message(""));
    until_page(&mut harness);
    let body = harness.travelling();
    assert_eq!((pages_in(&body).len(), body.iter().any(|it| it.contains("\"recipient\":"))), (1, false));
    harness.run();
    all_are_sent(&harness, &ids, 1, "");
    assert_eq!(harness.state().ledger.len(), 1, "the message to the audience");
}

#[test]
fn pages_follow_one_another() {
    let (mut harness, ids) = with_page(260);
    harness.produce_in_bulk(&message(""));
    harness.run();
    all_are_sent(&harness, &ids, 1, "");
    let state = harness.state();
    assert_eq!(state.pages.len(), 3);
    assert_eq!(state.progress.values().map(|part| part.recipients).sum::<u64>(), 260);
}

#[test]
fn what_fails_in_a_page_goes_on_by_itself() {
    let (mut harness, ids) = with_page(60);
    {
        let mut state = harness.state();
        let mut answer = |at: usize, statuses: &[u16]| {
            let answers = statuses.iter().map(|status| answered(*status)).collect();
            state.answers.insert(Harness::endpoint(&ids[at]), answers);
        };
        answer(0, &[503]);
        answer(1, &[410]);
        answer(2, &[400]);
        answer(55, &[429, 503]);
    }
    harness.produce_in_bulk(&message(""));
    harness.run();
    let end = |at: usize| (harness.posts_to(&ids[at]), delivery(&harness, &ids[at]).0);
    assert_eq!([end(0), end(55)], [(2, State::Sent), (3, State::Sent)]);
    assert_eq!([end(1), end(2)], [(1, State::Gone), (1, State::Failed)]);
    assert_eq!(harness.dead_letters(Reason::Rejected), 1);
    for at in (3..60).filter(|at| *at != 55) {
        assert_eq!(end(at), (1, State::Sent), "{at}");
    }
    // Those four, and the message to the audience.
    assert_eq!(harness.state().ledger.len(), 5);
    assert_eq!(announced(&harness, "sent").len(), 58);
}

#[test]
fn a_worker_may_die_at_any_effect_of_a_page() {
    let scenario = || {
        let (harness, ids) = with_page(6);
        harness.state().answers.insert(Harness::endpoint(&ids[1]), vec![answered(503)]);
        harness.state().answers.insert(Harness::endpoint(&ids[2]), vec![answered(410)]);
        (harness, ids)
    };
    let mut deaths = 0;
    for n in 1.. {
        for death in [Death::Before(n), Death::After(n)] {
            let (mut harness, ids) = scenario();
            harness.produce_in_bulk(&message(""));
            until_page(&mut harness);
            harness.memory.revive();
            harness.will_die(death);
            harness.run();
            if harness.state().death.is_some() {
                assert!(deaths > 20, "{deaths}");
                return;
            }
            deaths += 1;
            let case = format!("{death:?}");
            for (at, id) in ids.iter().enumerate() {
                let (usual, state) = match at {
                    1 => (2, State::Sent),
                    2 => (1, State::Gone),
                    _ => (1, State::Sent),
                };
                let posts = harness.posts_to(id);
                assert!((usual..=usual + 1).contains(&posts), "{at} was posted {posts} times, {case}");
                // What is gone may have been asked twice, and have accepted it the second time.
                let seen = delivery(&harness, id).0;
                assert!(seen == state || (at == 2 && posts == 2), "{at}: {seen:?}, {case}");
                let is_announced = announced(&harness, seen.label()).contains(id);
                assert!(is_announced, "{at}: {seen:?} was not announced, {case}");
            }
        }
    }
}

#[test]
fn a_death_leaves_no_more_in_doubt_than_were_started() {
    let (mut harness, ids) = with_page(100);
    harness.produce_in_bulk(&message(""));
    let page = until_page(&mut harness);
    harness.drop_travelling();
    let id = harness.produce_retry(&page);
    harness.dies_over(&id, "post");
    harness.run();
    let twice = ids.iter().filter(|id| harness.posts_to(id) == 2).count();
    assert!((1..=WAVE).contains(&twice), "{twice}");
    all_are_sent(&harness, &ids, 2, "");
    // What was not started is still sent to by the page.
    assert_eq!(harness.state().ledger.len(), 1 + WAVE);
}

#[test]
fn copies_of_a_page_send_to_no_one_twice() {
    let (mut harness, ids) = with_page(70);
    harness.copies = true;
    harness.produce_in_bulk(&message(""));
    harness.run();
    all_are_sent(&harness, &ids, 1, "");
}

#[test]
fn copies_of_a_page_that_is_over_do_not_wait_for_one_another() {
    let (mut harness, ids) = with_page(3);
    harness.produce_in_bulk(&message(""));
    let page = until_page(&mut harness);
    harness.run();
    let copies = [0; 3].map(|_| harness.produce_retry(&page));
    for id in &copies {
        assert!(harness.acknowledges(id));
    }
    all_are_sent(&harness, &ids, 1, "");
}

#[test]
fn a_copy_waits_for_the_lease_of_the_worker_that_has_the_page() {
    let (mut harness, ids) = with_page(3);
    harness.produce_in_bulk(&message(""));
    let page = until_page(&mut harness);
    harness.drop_travelling();
    let id = harness.produce_retry(&page);
    harness.dies_over(&id, "audiences.claim_page");
    let copy = harness.produce_retry(&page);
    assert!(!harness.acknowledges(&copy), "the other may die");
    assert!(ids.iter().all(|id| harness.posts_to(id) == 0));
    harness.run();
    all_are_sent(&harness, &ids, 1, "");
}

#[test]
fn a_page_is_sent_as_it_was_recorded_though_its_members_have_changed() {
    let (mut harness, ids) = with_page(40);
    for id in &ids[20..] {
        harness.amend(id, |it| it.tags = tags(&[]));
    }
    harness.produce_in_bulk(&message(""));
    harness.run_until(|it| it.travelling().iter().any(|body| body.contains("\"shard\":3")));
    let part = harness.travelling().into_iter().find(|body| body.contains("\"shard\":3")).expect("part 3");
    harness.drop_travelling();
    let part = harness.produce_retry(&part);
    harness.dies_over(&part, "audiences.record_page");
    for id in &ids[20..] {
        harness.amend(id, |it| it.tags = tags(&["news"]));
    }
    harness.run();
    for id in &ids {
        assert!(harness.posts_to(id) <= 1, "{id}");
    }
    let state = harness.state();
    let first = state.page_members.values().next().expect("it was recorded").0.clone();
    assert_eq!(first.len(), 20);
    drop(state);
    assert!(first.iter().all(|id| harness.posts_to(id.as_str()) == 1));
}

#[test]
fn what_a_gate_holds_back_leaves_the_page() {
    let (mut harness, ids) = with_page(5);
    harness.produce_in_bulk(&message(""));
    until_page(&mut harness);
    let (now, run) = (harness.now(), current_run(&harness));
    harness.state().runs.get_mut(&run).expect("opened").cancelled_at = Some(now);
    harness.run();
    for id in &ids {
        let off = (State::FailedNoRetries, Some(Reason::Cancelled));
        assert_eq!((harness.posts_to(id), delivery(&harness, id)), (0, off));
    }

    let (mut harness, ids) = with_page(5);
    harness.produce_in_bulk(&message(r#","ttl":60"#));
    until_page(&mut harness);
    harness.pass(Duration::from_secs(61));
    harness.run();
    for id in &ids {
        assert_eq!((harness.posts_to(id), delivery(&harness, id).0), (0, State::Expired));
    }

    let (mut harness, ids) = with_page(5);
    harness.produce_in_bulk(&message(""));
    until_page(&mut harness);
    harness.open_breaker(&origin(PUSH_SERVICE), Duration::from_secs(30));
    harness.run();
    all_are_sent(&harness, &ids, 1, "behind a breaker");
}

#[test]
fn a_page_in_the_quarantine_goes_on_recipient_by_recipient() {
    let (mut harness, ids) = with_page(8);
    harness.produce_in_bulk(&message(""));
    let page = until_page(&mut harness);
    harness.drop_travelling();
    harness.poison(&page);
    harness.run();
    all_are_sent(&harness, &ids, 1, "");
    assert_eq!(harness.state().ledger.len(), 9, "each has an entry of its own");
}

#[test]
fn a_page_that_runs_out_of_time_goes_on_in_a_message_of_its_own() {
    let (mut harness, ids) = with_page(100);
    // The first wave takes longer than is left for another.
    harness.state().slow.insert("post", Duration::from_millis(200));
    harness.produce_in_bulk(&message(""));
    let page = until_page(&mut harness);
    harness.drop_travelling();
    let id = harness.produce_retry(&page);
    assert!(harness.acknowledges(&id));
    assert_eq!(pages_in(&harness.travelling()).len(), 2, "the acknowledged one, and the one for the rest");
    harness.run();
    all_are_sent(&harness, &ids, 1, "");
}

#[test]
fn what_could_not_be_recorded_is_sent_to_again_and_nothing_is_lost() {
    for name in ["audiences.write_sheet", "audiences.claim_page", "claim", "record", "send", "load"] {
        for kind in [PortErrorKind::Throttled, PortErrorKind::Lost, PortErrorKind::Broken] {
            let (mut harness, ids) = with_page(6);
            harness.state().answers.insert(Harness::endpoint(&ids[1]), vec![answered(503)]);
            harness.produce_in_bulk(&message(""));
            until_page(&mut harness);
            harness.memory.fail(name, 1, kind);
            harness.run();
            assert_eq!(harness.state().failing[name].0, 0, "it was called, and failed");
            all_are_sent(&harness, &ids, 3, &format!("{name} {kind:?}"));
        }
    }
}

/// The delivery to a subscription.
pub(crate) fn key(harness: &Harness, subscription: &str) -> DeliveryKey {
    let id = SubscriptionId::parse(subscription).expect("an id");
    let run = current_run(harness);
    let recipient = harness.state().recipient(&run, &id);
    DeliveryKey { tenant: recipient.run.tenant, id: recipient.id }
}

#[test]
fn what_shared_counters_do_not_answer_delays_no_record() {
    let page_of_three = || {
        let (mut harness, ids) = with_page(3);
        let first = ids.iter().min().expect("three");
        harness.state().answers.insert(Harness::endpoint(first), vec![answered(503)]);
        harness.produce_in_bulk(&message(""));
        let page = until_page(&mut harness);
        harness.drop_travelling();
        let id = harness.produce_retry(&page);
        (harness, ids, id)
    };
    let (mut known, _, id) = page_of_three();
    assert!(known.acknowledges(&id));
    let last_post = 1 + known.state().trace.iter().rposition(|effect| *effect == "post").expect("a post");

    let (mut harness, ids, id) = page_of_three();
    harness.state().held_up_at = Some(last_post);
    harness.state().unanswered = Some("add");
    let (invocation, incoming) = (harness.invocation(), harness.incoming_of(&id));
    let mut delivering = pin!(harness.worker.deliver(&invocation, vec![incoming]));
    assert!(until_stalled(&mut delivering).is_none());
    let sent = || ids.iter().filter(|id| delivery(&harness, id).0 == State::Sent).count();
    assert_eq!(sent(), 1, "the third is under way");
    harness.memory.resume();
    assert!(until_stalled(&mut delivering).is_none(), "the counters are out");
    assert_eq!(sent(), 2);
}

#[test]
fn a_wave_s_successes_have_one_log_line() {
    let (mut harness, ids) = with_page(100);
    harness.state().answers.insert(Harness::endpoint(&ids[3]), vec![answered(503)]);
    harness.produce_in_bulk(&message(""));
    harness.run();
    let logged = harness.state().sent_by_page.clone();
    let lengths: BTreeSet<usize> = logged.iter().map(Vec::len).collect();
    assert_eq!((logged.len(), lengths), (2, [WAVE - 1, WAVE].into()));
    let expected: BTreeSet<_> =
        ids.iter().filter(|id| **id != ids[3]).map(|id| key(&harness, id).id).collect();
    assert_eq!(logged.into_iter().flatten().collect::<BTreeSet<_>>(), expected);
}
