//! Receivers that accept and never answer: what they cost the other tenants of a lane, and what an honest slow one gets.

use std::collections::VecDeque;
use std::time::Duration;

use redial_core::body::Body;
use redial_core::lane::Lane;
use redial_core::ledger::State;
use redial_core::message::QueueKind;
use redial_core::metric::Metric;
use redial_core::protection::patience::FIRST_TIMEOUT;
use redial_core::queue::Queue;
use redial_core::reason::Reason;
use redial_core::time::Timestamp;
use redial_core::webhook::TIMEOUT;
use redial_engine::deliver::{Incoming, Invocation};
use redial_engine::ports::{Clock, Receipt};
use redial_engine::protection::{Guard, Settings};
use redial_memory::{DispatchWorker, Memory};

use crate::harness::{Harness, Whom, until_stalled};

const HOUR: Duration = Duration::from_secs(3600);

/// Receivers whose names begin so never answer.
const HANGING: &str = "https://hang";

/// A lane as Lambda runs it: workers that each have one batch at a time.
struct LaneOfWorkers {
    memory: Memory,
    /// Each with when it is free.
    workers: Vec<(Timestamp, DispatchWorker)>,
    /// In the order of their arrival.
    queue: VecDeque<Incoming>,
    invocations: usize,
    /// Whether it was a one-time code, and how long it waited for a worker.
    waited: Vec<(bool, Duration)>,
    /// How long its workers were busy, in all.
    busy: Duration,
}

impl LaneOfWorkers {
    fn new(workers: u32, judges: bool) -> Self {
        let memory = Memory::at(Timestamp::from_secs(1_800_000_000));
        memory.state().slow_receivers.insert(HANGING.to_owned(), HOUR);
        let worker = |number| {
            let settings = Settings { judges, ..Settings::default() };
            let guard = Guard::new(settings, number);
            (memory.now(), memory.another_worker().dispatch(redial_memory::dispatch_settings(), guard))
        };
        let workers = (0..workers).map(worker).collect();
        Self {
            workers,
            memory,
            queue: VecDeque::new(),
            invocations: 0,
            waited: Vec::new(),
            busy: Duration::ZERO,
        }
    }

    fn produce(&mut self, id: &str, tenant: &str, url: &str, fields: &str, at: Timestamp) {
        let body = format!(
            r#"{{"tenant":"{tenant}","id":"{id}","to":{{"webhook":{{"url":"{url}"}}}},"payload":"x"{fields}}}"#
        );
        let receipt =
            Receipt { lane: Lane::Transactional, kind: QueueKind::Ingest, handle: format!("{tenant}-{id}") };
        let message_id = receipt.handle.clone();
        self.queue.push_back(Incoming {
            message_id,
            receipt,
            body: Body::new(body),
            sent: at,
            receive_count: 1,
            traceparent: None,
        });
    }

    /// Runs until its queue is empty; returns how many messages went on to each retry queue.
    fn run(&mut self) -> (usize, usize) {
        let (mut transactional, mut bulk) = (0, 0);
        while let Some(first) = self.queue.front() {
            let next = (0..self.workers.len()).min_by_key(|at| self.workers[*at].0).expect("it has workers");
            let start = self.workers[next].0.max(first.sent);
            let mut batch = Vec::new();
            while batch.len() < 10
                && let Some(message) = self.queue.pop_front_if(|message| message.sent <= start)
            {
                self.waited.push((message.message_id.starts_with("acme"), start.since(message.sent)));
                batch.push(message);
            }
            self.memory.state().now = start;
            self.invocations += 1;
            let invocation = Invocation {
                lease_token: format!("invocation-{}", self.invocations),
                deadline: start.plus(Duration::from_secs(30)),
            };
            until_stalled(self.workers[next].1.deliver(&invocation, batch)).expect("no worker dies");
            let end = self.memory.now();
            self.busy += end.since(start);
            self.workers[next].0 = end;
            for sent in self.memory.state().outbox.drain(..) {
                transactional += usize::from(sent.queue == Queue::Retry(Lane::Transactional));
                bulk += usize::from(sent.queue == Queue::Retry(Lane::Bulk));
            }
        }
        (transactional, bulk)
    }

    /// The longest wait but for that part of the one-time codes, and the longest of all.
    fn codes_waited(&self) -> (Duration, Duration) {
        let mut codes: Vec<Duration> =
            self.waited.iter().filter(|(is_code, _)| *is_code).map(|(_, waited)| *waited).collect();
        codes.sort_unstable();
        (codes[codes.len() * 99 / 100 - 1], *codes.last().expect("there are some"))
    }
}

/// For two minutes a hostile tenant sends `A_SECOND` messages a second, each to a new name, and another tenant sends a one-time code a second.
fn attacked(judges: bool, fields: &str) -> (LaneOfWorkers, (usize, usize)) {
    const A_SECOND: u64 = 15;
    const SECONDS: u64 = 120;
    let mut lane = LaneOfWorkers::new(20, judges);
    let start = lane.memory.now();
    for second in 0..SECONDS {
        let at = |ms| start.plus(Duration::from_millis(second * 1000 + ms));
        for n in 0..A_SECOND {
            let name = second * A_SECOND + n;
            lane.produce(
                &format!("m{name}"),
                "mallory",
                &format!("{HANGING}{name}.example/"),
                fields,
                at(n * 1000 / A_SECOND),
            );
        }
        lane.produce(&format!("code{second}"), "acme", "https://codes.example/", "", at(999));
    }
    let sent_on = lane.run();
    (lane, sent_on)
}

#[test]
fn one_time_codes_do_not_wait_for_another_tenant_s_receivers_that_hang() {
    // The breaker's switch switches this off, too.
    let (before, _) = attacked(false, "");
    assert!(before.codes_waited().0 > Duration::from_secs(10), "the attack is one");
    for (case, fields) in [
        ("usual policy", ""),
        ("no retries", r#","retry":{"max_retries":0}"#),
        ("no TTL", r#","ttl":0"#),
        ("no repetition", r#","retry":{"retry_in_doubt":false}"#),
    ] {
        let (after, (transactional, bulk)) = attacked(true, fields);
        let (p99, longest) = after.codes_waited();
        println!(
            "{case}: tried: 1800 messages to hanging names; codes waited (p99, longest) {:?} before, {:?} after; workers busy {:?} before, \
             {:?} after",
            before.codes_waited(),
            (p99, longest),
            before.busy,
            after.busy
        );
        assert!(p99 <= Duration::from_secs(2) && longest <= FIRST_TIMEOUT * 2, "{case}: {p99:?} {longest:?}");
        assert!(after.busy * 8 < before.busy, "{case}");
        assert_eq!(transactional, 0, "{case}: what hangs is retried in bulk");
        assert!(bulk > 1_600 || fields.contains("ttl"), "{case}: {bulk}");
    }
}

#[test]
fn names_that_answered_once_and_hang_then_do_not_hold_the_lane_for_long() {
    let mut lane = LaneOfWorkers::new(20, true);
    let start = lane.memory.now();
    for n in 0..3_000_u64 {
        let at = start.plus(Duration::from_millis(n * 50));
        let host = format!("turncoat{}", n / 2);
        let name = format!("https://{host}.example/");
        lane.produce(&format!("m{n}"), "mallory", &format!("{name}{}", n % 2), "", at);
        lane.memory.state().slow_receivers.insert(format!("{name}1"), HOUR);
        if n % 20 == 19 {
            lane.produce(&format!("code{n}"), "acme", "https://codes.example/", "", at);
        }
    }
    lane.run();
    let late = lane.waited.iter().filter(|(is_code, waited)| *is_code && *waited > FIRST_TIMEOUT).count();
    println!(
        "tried: 3000 messages to names that turn; {late} of 150 codes waited for more than three seconds"
    );
    assert!(late < 30, "{late}");
}

fn posts(harness: &Harness) -> Vec<Duration> {
    harness.state().webhooks.iter().map(|webhook| webhook.within).collect()
}

/// A harness whose webhooks' receivers need `secs` seconds to answer.
fn answering_after(secs: u64) -> Harness {
    let harness = Harness::new();
    harness.state().slow_receivers.insert("https://hooks.example/".to_owned(), Duration::from_secs(secs));
    harness
}

#[test]
fn a_slow_receiver_is_retried_in_bulk_and_then_has_the_whole_time_at_once() {
    let mut harness = answering_after(10);
    let message = harness.message_for(Whom::Hook, "");
    harness.produce(&message);
    harness.run_until(|it| it.retries_in(Lane::Bulk) == 1);
    assert_eq!((harness.retries_in(Lane::Transactional), posts(&harness)), (0, vec![FIRST_TIMEOUT]));
    harness.run();
    assert_eq!(posts(&harness), [FIRST_TIMEOUT, TIMEOUT]);
    assert_eq!(harness.ended("m"), (State::Sent, None));
    // Also by a worker that has never posted to it.
    for number in [0, 2] {
        harness.replace_worker(number);
        harness.pass(HOUR);
        let before = posts(&harness).len();
        harness.deliver(&Harness::message_to("m", &format!("later{number}"), ""));
        assert_eq!(posts(&harness)[before..], [TIMEOUT]);
    }
}

#[test]
fn an_answer_of_any_status_proves_an_origin_with_one_write_a_day() {
    for status in [200, 500, 429] {
        let mut harness = Harness::new();
        harness.state().usual_answer = Some(redial_memory::senders::answered(status));
        for day in 1..=3 {
            for n in 0..3 {
                harness.replace_worker(n);
                harness.pass(HOUR);
                let id = format!("day{day}-{n}");
                harness.deliver(&Harness::message_to_url("m", &id, r#","retry":{"max_retries":1}"#));
            }
            // What fails is looked after besides.
            assert!(status != 200 || harness.effects("exchange") == day, "day {day}");
            harness.pass(HOUR * 24);
        }
        let later = posts(&harness);
        assert!(later[1..].iter().all(|within| *within == TIMEOUT), "{status}: {later:?}");
    }
}

#[test]
fn an_attempt_that_is_not_repeated_has_the_whole_time_in_the_bulk_lane() {
    for fields in [r#","retry":{"max_retries":0}"#, r#","retry":{"retry_in_doubt":false}"#] {
        let mut harness = answering_after(10);
        let message = harness.message_for(Whom::Hook, fields);
        harness.produce(&message);
        harness.run_until(|it| it.state().outbox.iter().any(|sent| sent.queue == Queue::Retry(Lane::Bulk)));
        assert!(posts(&harness).is_empty());
        harness.run();
        assert_eq!((posts(&harness), harness.ended("m")), (vec![TIMEOUT], (State::Sent, None)));
        assert_eq!(harness.count(Metric::Deferred), 1);
    }
    // It cannot wait: it is attempted at once.
    let mut harness = answering_after(10);
    let message = harness.message_for(Whom::Hook, r#","ttl":0"#);
    harness.deliver(&message);
    assert_eq!(posts(&harness), [FIRST_TIMEOUT]);
    assert_eq!(harness.ended("m").0, State::Failed);
}

/// A harness whose worker holds its tenant's messages to unproven origins in the transactional lane.
fn held() -> Harness {
    let mut harness = Harness::new();
    harness.state().slow_receivers.insert(HANGING.to_owned(), HOUR);
    for n in 0..3 {
        let id = harness.produce(&to_hanging(n, ""));
        harness.hide_all_but(&id);
        assert!(harness.acknowledges(&id));
    }
    harness
}

fn to_hanging(n: u32, fields: &str) -> String {
    let to = format!(r#"{{"webhook":{{"url":"{HANGING}{n}.example/"}}}}"#);
    format!(r#"{{"tenant":"acme","id":"hang{n}","to":{to},"payload":"x"{fields}}}"#)
}

#[test]
fn a_tenant_that_hangs_is_held_at_unproven_origins_alone() {
    let mut harness = held();
    harness.drop_travelling();
    let before = posts(&harness).len();
    let held = harness.produce(&to_hanging(7, ""));
    assert!(harness.acknowledges(&held));
    assert_eq!((posts(&harness).len(), harness.state().outbox.len()), (before, 1));
    assert_eq!(harness.state().outbox[0].queue, Queue::Retry(Lane::Bulk));
    assert_eq!(harness.state_of("hang7"), Some(State::Deferred), "it has used no attempt");
    // It cannot wait, so it ends.
    let urgent = harness.produce(&to_hanging(8, r#","ttl":0"#));
    assert!(harness.acknowledges(&urgent));
    assert_eq!(harness.ended("hang8"), (State::Failed, Some(Reason::TtlExceeded)));
    assert_eq!(posts(&harness).len(), before);
    // Neither another tenant nor a push is.
    let neighbour = to_hanging(9, "").replace("acme", "neighbour");
    let neighbour = harness.produce(&neighbour);
    assert!(harness.acknowledges(&neighbour));
    assert_eq!(posts(&harness).len(), before + 1);
    let push = harness.push("browser", "");
    assert!(harness.acknowledges(&push));
    assert_eq!(harness.state().sent.len(), 1);
}

#[test]
fn messages_to_receivers_that_hang_end_by_their_policy_or_their_ttl() {
    for fields in ["", r#","ttl":20"#, r#","ttl":600"#, r#","retry":{"max_retries":0}"#] {
        let mut harness = Harness::new();
        harness.state().slow_receivers.insert(HANGING.to_owned(), HOUR);
        for n in 0..40 {
            harness.produce(&to_hanging(n, fields));
        }
        harness.run();
        for n in 0..40 {
            let (state, reason) = harness.ended(&format!("hang{n}"));
            assert!(matches!(state, State::Failed | State::Expired), "{fields}: {state:?} {reason:?}");
        }
    }
}
