//! How many instructions a message costs in the passes, without AWS and without the network: counted by valgrind's callgrind, so that a
//! busy machine changes nothing.
//!
//! ```sh
//! cargo bench -p redial-engine --bench instructions              # the table, beside the committed counts
//! cargo bench -p redial-engine --bench instructions -- --check   # fails where a count has grown by more than 5 %
//! cargo bench -p redial-engine --bench instructions -- --accept  # writes the counts of this build
//! ```
//!
//! A count is the difference between a longer and a shorter run of the same process, so what it prepares is not in it. The ports in
//! memory are in it. Counts depend on the compiler and the processor, so `--check` compares those of the same alone.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redial_core::body::Body;
use redial_core::endpoint::Endpoint;
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::lane::Lane;
use redial_core::message::{QueueKind, parse};
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::recipient::Recipient;
use redial_core::subscription::Subscription;
use redial_core::tag::{Tag, Tags};
use redial_core::time::Timestamp;
use redial_engine::deliver::{Incoming, Invocation};
use redial_engine::ports::Receipt;
use redial_engine::protection::Guard;
use redial_instructions::callgrind::of_own_program;
use redial_instructions::{Mode, Table};
use redial_memory::senders::answered;
use redial_memory::{DispatchWorker, Memory, dispatch_settings};

/// The browser of RFC 8291, Appendix A.
const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

/// Runs of a process, the shorter and the longer.
const RUNS: [usize; 2] = [4, 12];

struct Case {
    name: &'static str,
    /// Messages, or recipients, of one run.
    of: usize,
    run: fn(runs: usize),
}

const CASES: [Case; 5] = [
    Case { name: "read a message", of: 100, run: read },
    Case { name: "a batch of 10, accepted", of: 10, run: |runs| batches(runs, 10, 201) },
    Case { name: "a batch of 100, accepted", of: 100, run: |runs| batches(runs, 100, 201) },
    Case { name: "a batch of 10, to be retried", of: 10, run: |runs| batches(runs, 10, 503) },
    Case { name: "an audience of 100, by recipient", of: 100, run: audiences },
];

fn start() -> Timestamp {
    Timestamp::from_secs(1_800_000_000)
}

fn message(n: usize) -> String {
    let payload = "x".repeat(1000);
    format!(
        r#"{{"tenant":"acme","id":"m{n}","to":{{"web_push":{{"endpoint":"https://push.example/{n}","keys":{{"p256dh":"{P256DH}","auth":"{AUTH}"}}}}}},"payload":"{payload}"}}"#
    )
}

fn incoming(n: usize, kind: QueueKind, body: String) -> Incoming {
    Incoming {
        message_id: format!("sqs-{n}"),
        receipt: Receipt { lane: Lane::Transactional, kind, handle: format!("receipt-{n}") },
        body: Body::new(body),
        sent: start(),
        receive_count: 1,
        traceparent: None,
    }
}

fn invocation() -> Invocation {
    Invocation { lease_token: "a-token".to_owned(), deadline: start().plus(Duration::from_secs(60)) }
}

fn worker(answer: u16) -> DispatchWorker {
    let memory = Memory::at(start());
    memory.state().usual_answer = Some(answered(answer));
    memory.dispatch(dispatch_settings(), Guard::default())
}

fn deliver(worker: &DispatchWorker, messages: Vec<Incoming>) {
    let invocation = invocation();
    let mut pass = pin!(worker.deliver(&invocation, messages));
    // Memory never waits: what is pending goes on when it is polled again.
    let come_back = loop {
        if let Poll::Ready(come_back) = pass.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            break come_back;
        }
    };
    assert!(come_back.is_empty(), "{come_back:?}");
}

/// Prepares as much for a short process as for a long one, and carries out `runs` of it.
fn each<T>(runs: usize, prepare: impl Fn() -> T, run: impl Fn(T)) {
    let mut prepared: Vec<T> = (0..RUNS[1]).map(|_| prepare()).collect();
    let rest = prepared.split_off(runs);
    prepared.into_iter().for_each(run);
    // As a process that ends, so that nothing is freed that was not used.
    std::mem::forget(rest);
}

fn read(runs: usize) {
    let messages: Vec<String> = (0..100).map(message).collect();
    each(
        runs,
        || (),
        |()| {
            for message in &messages {
                black_box(
                    parse(black_box(message), QueueKind::Ingest, "sqs-1", start()).expect("it is valid"),
                );
            }
        },
    );
}

fn batches(runs: usize, size: usize, answer: u16) {
    let prepare = || {
        (
            worker(answer),
            (0..size).map(|n| incoming(n, QueueKind::Ingest, message(n))).collect::<Vec<Incoming>>(),
        )
    };
    each(runs, prepare, |(worker, messages)| deliver(&worker, messages));
}

fn audiences(runs: usize) {
    let prepare = || {
        let worker = worker(201);
        for n in 0..100 {
            let id = SubscriptionId::parse(&format!("s{n}")).expect("valid");
            let key = SubscriptionKey { tenant: Tenant::parse("acme").expect("valid"), id };
            let endpoint = Endpoint::parse(&format!("https://push.example/{n}")).expect("valid");
            let keys = PushKeys::parse(P256DH, AUTH).expect("valid");
            let target = PushTarget { endpoint, keys, vapid_key_id: None };
            let mut subscription = Subscription::new(key.clone(), Recipient::WebPush(target));
            subscription.tags = Tags::new(Tag::parse("news").into_iter().collect()).expect("valid");
            worker.system.state().subscriptions.insert(key, subscription);
        }
        worker
    };
    each(runs, prepare, |worker| {
        let message = r#"{"tenant":"acme","id":"n1","to":{"audience":{"tag":"news"}},"payload":"hello"}"#;
        deliver(&worker, vec![incoming(0, QueueKind::Ingest, message.to_owned())]);
        // Its parts hand on a message for each recipient.
        let parts = std::mem::take(&mut worker.system.state().outbox).into_iter().enumerate();
        let parts = parts.map(|(n, part)| incoming(n, QueueKind::Retry, part.body));
        deliver(&worker, parts.collect());
        assert_eq!(worker.system.state().outbox.len(), 100);
    });
}

fn table(mode: Mode) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt");
    let mut table = Table::begin("INSTRUCTIONS OF A MESSAGE", path);
    for case in &CASES {
        let collected = |runs: usize| of_own_program(&["--case", case.name, &runs.to_string()], &[]);
        let [shorter, longer] = [collected(RUNS[0])?, collected(RUNS[1])?];
        table.row(case.name, (longer - shorter) / (case.of * (RUNS[1] - RUNS[0])) as u64);
    }
    table.end(mode)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name, runs] = arguments.as_slice()
        && flag == "--case"
    {
        let case = CASES.iter().find(|case| case.name == name).expect("one of the cases");
        (case.run)(runs.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    match table(Mode::of_arguments(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
