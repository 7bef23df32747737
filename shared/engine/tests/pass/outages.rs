//! Our own dependencies are out for hours. Nothing becomes `poison`, everything ends as it should, and what the outage costs grows
//! linearly with its length.

use std::time::Duration;

use redial_core::ledger::{Entry, State};
use redial_core::metric::Metric;
use redial_core::outcome::{InDoubt, Outcome};
use redial_core::reason::Reason;
use redial_core::time::Timestamp;
use redial_core::wait::Release;
use redial_engine::deliver::Incoming;
use redial_memory::senders::answered;
use redial_memory::{Calls, PortErrorKind};
use serde_json::json;

use crate::harness::{Harness, Whom, origin};
use crate::scenarios::{Scenario, retry_after, to_all};

/// The dependencies, and which calls are theirs.
const DEPENDENCIES: [(&str, Calls); 5] = [
    ("DynamoDB", |call| {
        let others = ["send", "events", "come_back_after", "ensure_running", "reload_keys", "start", "post"];
        !others.contains(&call)
    }),
    ("SQS sends", |call| call == "send"),
    ("Step Functions", |call| call == "ensure_running"),
    ("events queue", |call| call == "events"),
    ("Secrets Manager", |call| matches!(call, "reload_keys" | "start")),
];

const HOUR: Duration = Duration::from_secs(3_600);

/// A run in which, if so, these calls fail for two hours from an effect on.
fn run(scenario: &Scenario, outage: Option<(Calls, usize)>) -> Harness {
    let harness = scenario.prepared();
    harness.state().has_events = true;
    if let Some((calls, from_effect)) = outage {
        harness.will_be_out(calls, from_effect, 2 * HOUR);
    }
    harness.run_to_the_end()
}

#[test]
fn no_outage_of_two_hours_makes_poison_whenever_it_begins() {
    for scenario in to_all() {
        let trace = run(&scenario, None).state().trace.clone();
        for (name, calls) in DEPENDENCIES {
            let begins = (1..=trace.len()).filter(|n| *n == 1 || calls(trace[n - 1]));
            for from_effect in begins {
                let harness = run(&scenario, Some((calls, from_effect)));
                let case = format!("{}, {name} out from effect {from_effect} of {trace:?}", scenario.name);
                assert_eq!(harness.redriven, Vec::<String>::new(), "{case}");
                assert_eq!(harness.count(Metric::Poison), 0, "{case}");
                assert!(harness.state().parked.is_empty(), "{case}");
                let end = harness.ended("m");
                let too_late =
                    [(State::Expired, Some(Reason::TtlOver)), (State::Failed, Some(Reason::TtlExceeded))];
                let is_short_lived = scenario.fields.contains("ttl");
                let posts = harness.posts_to("m");
                // A POST that could not be recorded is made again, and may be answered otherwise.
                let may_repeat = trace[from_effect - 1] == "record";
                // One attempt more, which a 401 makes two posts.
                let most = scenario.posts() + 2 * usize::from(may_repeat);
                assert!(posts <= most, "{case}: {posts} posts");
                assert!(
                    end == scenario.end
                        || (is_short_lived && too_late.contains(&end))
                        || (may_repeat && end.0.is_terminal()),
                    "{case}: {end:?}"
                );
                let announced = harness.events.iter().rfind(|event| event["id"] == json!("m"));
                let announced = announced.map(|event| event["state"].clone());
                assert_eq!(announced, Some(json!(end.0.label())), "{case}");
            }
        }
    }
}

/// How many calls ten webhooks cost while a dependency is out for `lasting`.
fn cost(calls: Calls, lasting: Duration) -> usize {
    let mut harness = Harness::new();
    harness.state().has_events = true;
    for id in (0..10).map(|n| format!("m{n}")) {
        harness.subscribe_hook(&id);
        // A long wait, so that Step Functions is needed.
        harness.will_answer(&id, vec![retry_after(429, 1800)]);
        harness.produce(&Harness::message(&id, ""));
    }
    let until = harness.now().plus(lasting);
    harness.will_be_out(calls, 1, lasting);
    harness.run_until(|it| it.now() >= until || it.queued().is_empty());
    let sweeps = harness.effects("begun_before");
    let cost = harness.state().effects - sweeps;
    harness.run();
    assert!(harness.all_are("m", 10, State::Sent));
    assert_eq!(harness.count(Metric::Poison), 0);
    cost
}

#[test]
fn the_calls_of_an_outage_grow_linearly_with_its_length() {
    for (name, calls) in DEPENDENCIES {
        let [two, four, eight] = [2, 4, 8].map(|hours| cost(calls, hours * HOUR));
        println!("{name}: calls for 10 messages while out for 2 h {two}, 4 h {four}, 8 h {eight}");
        let (first, second) = (four.saturating_sub(two), eight.saturating_sub(four));
        // Twice the time, twice the calls, and a quarter more for what falls to either side of an edge.
        assert!(4 * second <= 10 * first + 40, "{name}: {two}, {four}, {eight}");
    }
}

#[test]
fn messages_returned_by_our_errors_are_counted_and_held_back_ones_not() {
    let mut harness = Harness::prepared(Whom::Browser, vec![], "");
    harness.memory.fail("claim", 3, PortErrorKind::Broken);
    harness.run();
    assert_eq!((harness.count(Metric::DispatchFailures), harness.posts_to("m")), (3, 1));

    let mut harness = Harness::prepared(Whom::Browser, vec![], "");
    harness.open_breaker(&origin("https://push.example"), Duration::from_secs(90));
    let twice = harness.incoming_of("sqs-1");
    assert_eq!(
        harness.invoke_with(vec![Incoming { receive_count: 2, ..twice }]),
        ["sqs-1"],
        "it is held back"
    );
    harness.run();
    assert_eq!((harness.count(Metric::DispatchFailures), harness.posts_to("m")), (0, 1));
}

#[test]
fn a_failing_start_of_an_execution_is_counted_and_delays_nothing_else() {
    let mut harness = Harness::prepared(Whom::Browser, vec![retry_after(429, 1800)], "");
    harness.memory.fail("ensure_running", 1, PortErrorKind::Broken);
    harness.run_until(|it| !it.state().parked.is_empty());
    assert_eq!(harness.queued(), Vec::<String>::new(), "what waits in its bucket is acknowledged");
    assert_eq!(harness.count(Metric::WaitsNotStarted), 1);
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 2));
}

/// A message at its fifteenth receive, in which this call fails.
fn at_the_fifteenth_receive(
    answers: Vec<Outcome>,
    fields: &str,
    failing: &'static str,
    kind: PortErrorKind,
) -> Harness {
    let mut harness = Harness::prepared(Whom::Browser, answers, fields);
    let id = harness.queued().remove(0);
    harness.has_been_received(&id, 14);
    harness.memory.fail(failing, 1, kind);
    harness
}

/// The same, until the outcome that was not recorded travels.
fn until_the_outcome_travels(answer: u16, kind: PortErrorKind) -> Harness {
    let mut harness = at_the_fifteenth_receive(vec![answered(answer)], "", "record", kind);
    harness.run_until(|it| it.travelling().iter().any(|body| body.contains("unrecorded")));
    harness
}

fn assert_sent_without_doubt(harness: &Harness, posts: usize) {
    let entry = harness.entry("m").expect("it is in the ledger");
    assert_eq!((entry.state, entry.in_doubt, harness.posts_to("m")), (State::Sent, false, posts));
}

#[test]
fn an_outcome_that_was_not_recorded_travels_and_is_not_sent_again() {
    for (answer, ends, posts) in
        [(201, State::Sent, 1), (503, State::Sent, 2), (400, State::Failed, 1), (410, State::Gone, 1)]
    {
        for kind in [PortErrorKind::Broken, PortErrorKind::Lost] {
            let mut harness = until_the_outcome_travels(answer, kind);
            assert_eq!(harness.queued().len(), 0, "the copy takes the message's place");
            harness.run();
            assert_eq!(harness.state_of("m"), Some(ends), "{answer}, {kind:?}");
            assert_eq!(harness.posts_to("m"), posts, "{answer}, {kind:?}");
            let bodies = usize::from(ends == State::Failed);
            assert_eq!(harness.bodies(), bodies, "{answer}, {kind:?}");
        }
    }
}

#[test]
fn a_claim_that_was_not_used_is_given_back_without_doubt() {
    let fields = r#","retry":{"retry_in_doubt":false}"#;
    let mut harness = at_the_fifteenth_receive(vec![], fields, "claim", PortErrorKind::Lost);
    harness.run();
    assert_sent_without_doubt(&harness, 1);
}

#[test]
fn a_claim_whose_answer_was_lost_is_given_back_at_once() {
    for kind in [PortErrorKind::Lost, PortErrorKind::Broken] {
        let mut harness = Harness::prepared(Whom::Browser, vec![], r#","retry":{"retry_in_doubt":false}"#);
        harness.memory.fail("claim", 1, kind);
        harness.run();
        assert_sent_without_doubt(&harness, 1);
        assert_eq!(harness.effects("claim"), 2, "{kind:?}: no lease is waited for");
    }
}

#[test]
fn a_message_that_cannot_be_sent_again_stays_in_its_queue() {
    let mut harness = at_the_fifteenth_receive(vec![], "", "claim", PortErrorKind::Broken);
    harness.memory.fail("send", 1, PortErrorKind::Broken);
    let ids = harness.queued();
    harness.run_until(|it| it.state().failing["send"].0 == 0);
    assert_eq!(harness.queued(), ids);
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 1));
}

#[test]
fn a_message_without_a_second_chance_ends_where_others_are_sent_again() {
    let mut harness = at_the_fifteenth_receive(vec![], r#","ttl":0"#, "load", PortErrorKind::Broken);
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Expired), 0));
    assert_eq!(harness.effects("send"), 0, "it is never sent again");
}

#[test]
fn a_message_with_a_ttl_of_zero_is_no_poison_after_four_hours_without_claims() {
    let mut harness = Harness::prepared(Whom::Browser, vec![], r#","ttl":0"#);
    harness.state().has_events = true;
    harness.will_be_out(|call| call == "claim", 1, HOUR * 4);
    harness.run();
    harness.run();
    assert_eq!((harness.redriven.len(), harness.posts_to("m")), (1, 0));
    assert_eq!(harness.ended("m"), (State::Expired, Some(Reason::TtlOver)));
    assert_eq!((harness.count(Metric::Poison), harness.bodies()), (0, 0));
    let states: Vec<_> = harness.events.iter().map(|event| event["state"].clone()).collect();
    assert_eq!(states, ["expired"]);
}

/// The HTTP API inserts what it accepts, and a claim that was given back leaves an entry, too.
#[test]
fn an_accepted_message_with_a_ttl_of_zero_is_no_poison_either() {
    for state in [State::Queued, State::Deferred] {
        let mut harness = Harness::prepared(Whom::Browser, vec![], r#","ttl":0"#);
        harness.will_be_out(|call| call == "record", 1, HOUR * 4);
        harness.will_be_out(|call| call == "claim", 1, HOUR * 4);
        let first = Harness::finished(Whom::Browser, vec![], r#","ttl":0"#).entry("m").expect("sent");
        let accepted = Entry { state, source_message: String::new(), place: None, ..first };
        harness.state().ledger.insert(Harness::key("m"), accepted);
        harness.run();
        harness.run();
        assert_eq!((harness.redriven.len(), harness.posts_to("m")), (1, 0));
        assert_eq!(harness.ended("m"), (State::Expired, Some(Reason::TtlOver)), "{state}");
        assert_eq!((harness.count(Metric::Poison), harness.bodies()), (0, 0));
    }
}

#[test]
fn a_message_with_a_ttl_of_zero_has_one_attempt_by_a_slow_clock() {
    let mut harness = Harness::new();
    harness.will_answer("m", vec![answered(503)]);
    let fields = r#","ttl":0,"retry":{"retry_delays":[0],"jitter":"none"}"#;
    harness.push_from_ahead(Duration::from_secs(2), "m", fields);
    harness.run();
    assert_eq!((harness.posts_to("m"), harness.ended("m")), (1, (State::Failed, Some(Reason::TtlExceeded))));
}

#[test]
fn a_key_that_is_not_known_while_secrets_are_out_is_no_dead_letter() {
    let mut harness = Harness::prepared(Whom::Browser, vec![], r#","retry":{"retry_in_doubt":false}"#);
    harness.state().key_is_unknown = true;
    harness.will_be_out(|call| call == "reload_keys", 1, HOUR);
    harness.run();
    assert_sent_without_doubt(&harness, 1);
}

#[test]
fn a_message_that_panics_every_time_is_redriven_and_not_sent_again() {
    let mut harness = Harness::prepared(Whom::Browser, vec![], r#","ttl":2419200"#);
    harness.state().always_panicking.insert(Harness::endpoint("m"));
    harness.run();
    assert_eq!((harness.redriven.len(), harness.dead_letters(Reason::Poison)), (1, 1));
}

#[test]
fn a_body_of_another_release_is_set_back_and_never_malformed() {
    let at = Harness::new().now().as_ms();
    for more in [r#","levitate":true"#, r#","v":2"#, r#","unrecorded":{"token":"t","surprise":1}"#] {
        let mut harness = Harness::new();
        harness.subscribe("m");
        let travel = format!(r#","retry_count":1,"original_timestamp":{at}{more}"#);
        let id = harness.produce_retry(&Harness::message("m", &travel));
        harness.run_until(|it| it.now() > Timestamp::from_ms(at + 600_000));
        assert_eq!(harness.queued(), [id], "{more}");
        assert_eq!(harness.state().dead_letters.len(), 0, "{more}");
    }
}

#[test]
fn a_shard_whose_release_cannot_be_sent_is_drained_at_once() {
    let mut harness = Harness::prepared(Whom::Browser, vec![retry_after(429, 1800)], "");
    harness.run_until(|it| !it.state().executions.is_empty());
    let bucket = harness.state().executions.pop_first().expect("it waits");
    harness.state().registered.get_mut(&bucket).expect("it is registered").shards = 16;
    harness.pass(Duration::from_secs(1_900));
    let release = harness.produce_retry(&Release::Bucket(bucket).to_body());
    harness.memory.fail("send", 1, PortErrorKind::Broken);
    assert!(harness.acknowledges(&release), "all other shards would be released again");
    assert!(harness.state().parked.is_empty());
    harness.run();
    assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 2));
}

#[test]
fn the_quarantine_announces_the_end_of_what_it_drops() {
    for (answers, fields, ends) in [
        (vec![], "", State::Sent),
        (vec![answered(503)], r#","retry":"none""#, State::FailedNoRetries),
        (vec![answered(400)], "", State::Failed),
        (vec![answered(410)], "", State::Gone),
    ] {
        let mut harness = Harness::prepared(Whom::Browser, answers, fields);
        harness.state().has_events = true;
        // Its worker dies each time before the event is sent.
        harness.will_be_out(|call| call == "send", 1, HOUR);
        harness.run_until(|it| it.state_of("m").is_some_and(State::is_terminal));
        harness.state().outage = None;
        let (_, reason) = harness.ended("m");
        harness.poison(&Harness::message("m", fields));
        harness.drop_travelling();
        let [event] = &harness.events[..] else { panic!("{ends:?}: {:?}", harness.events) };
        assert_eq!(event["state"], json!(ends.label()));
        assert_eq!(event["reason"], json!(reason.map(Reason::label)));
    }
}

#[test]
fn an_attempt_that_would_outlive_its_invocation_is_not_begun() {
    for (slow, took) in [("claim", 20), ("load", 19), ("protection", 19)] {
        let fields = r#","retry":{"retry_in_doubt":false}"#;
        let mut harness = Harness::prepared(Whom::Browser, vec![], fields);
        harness.state().slow.insert(slow, Duration::from_secs(took));
        let ids = harness.queued();
        assert!(!harness.acknowledges(&ids[0]), "{slow}");
        assert_eq!(harness.posts_to("m"), 0, "{slow}");
        let given_back = (slow == "claim").then_some((State::Queued, false));
        let entry = harness.entry("m").map(|entry| (entry.state, entry.in_doubt));
        assert_eq!(entry, given_back, "{slow}: what is too late before it is claimed is not claimed");
        harness.state().slow.clear();
        harness.acknowledge(&ids, &ids);
        harness.run();
        assert_eq!((harness.state_of("m"), harness.posts_to("m")), (Some(State::Sent), 1), "{slow}");
    }
}

#[test]
fn the_copy_that_carries_the_outcome_leads_in_either_order() {
    for (newest_first, gives_back) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut harness = until_the_outcome_travels(201, PortErrorKind::Broken);
        let at = harness.entry("m").expect("it was claimed").created_at.as_ms();
        let claim =
            format!(r#","unrecorded":{{"token":"another","at":{at},"state":"queued","in_doubt":false}}"#);
        let more = if gives_back { claim.as_str() } else { "" };
        let copy = format!(r#","retry_count":0,"original_timestamp":{at}{more}"#);
        harness.run_until(|it| !it.queued().is_empty());
        harness.produce_retry(&Harness::message("m", &copy));
        harness.deliver_together();
        harness.newest_first = newest_first;
        harness.run();
        let ended = (harness.state_of("m"), harness.posts_to("m"));
        assert_eq!(ended, (Some(State::Sent), 1), "newest first: {newest_first}, gives back: {gives_back}");
    }
}

#[test]
fn the_quarantine_records_and_announces_the_outcome_that_a_message_carries() {
    let mut harness = until_the_outcome_travels(201, PortErrorKind::Broken);
    harness.state().has_events = true;
    let body = harness.travelling().remove(0);
    harness.poison(&body);
    harness.drop_travelling();
    assert_eq!(harness.events.len(), 1);
    assert_eq!(harness.events[0]["state"], json!("sent"));
    assert_eq!(harness.bodies(), 0);
    assert_eq!(harness.state_of("m"), Some(State::Sent), "it is recorded, too");
}

#[test]
fn doubts_of_an_earlier_lineage_do_not_end_a_replay() {
    let fields = r#","retry":{"retry_in_doubt":false}"#;
    let timeout = Outcome::InDoubt(InDoubt::Timeout);
    let mut harness = Harness::finished(Whom::Browser, vec![timeout], fields);
    assert_eq!(harness.ended("m").1, Some(Reason::InDoubtNotRetried));
    // The replay is claimed, too late to be sent, and given back.
    let at = harness.now().as_ms();
    let replay = format!(r#"{fields},"lineage":1,"retry_count":0,"original_timestamp":{at}"#);
    harness.state().slow.insert("claim", Duration::from_secs(20));
    let ids = [harness.produce_retry(&Harness::message("m", &replay))];
    assert!(!harness.acknowledges(&ids[0]));
    harness.state().slow.clear();
    harness.acknowledge(&ids, &ids);
    harness.run();
    assert_sent_without_doubt(&harness, 2);
}

#[test]
fn loading_keys_again_leaves_time_for_the_second_send() {
    for took in [17, 25] {
        let mut harness = Harness::prepared(Whom::Browser, vec![answered(401)], "");
        harness.state().slow.insert("reload_keys", Duration::from_secs(took));
        let (start, id) = (harness.now(), harness.queued().remove(0));
        assert_eq!(harness.acknowledges(&id), took == 17, "{took}");
        let last = harness.state().sent.last().expect("it was pushed").at;
        assert!(last <= start.plus(Duration::from_secs(18)), "{took}: it ends with 2 s to spare");
    }
}
