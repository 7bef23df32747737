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

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::pin::pin;
use std::process::{Command, ExitCode, Stdio};
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
use redial_memory::senders::answered;
use redial_memory::{DispatchWorker, Memory, dispatch_settings};

/// The browser of RFC 8291, Appendix A.
const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

/// A count may grow by so much, in hundredths.
const TOLERANCE: u64 = 5;

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

/// The instructions of a whole process.
fn collected(case: &Case, runs: usize) -> Result<u64, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let done = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(own)
        .args(["--case", case.name, &runs.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            format!("valgrind does not start ({error}): install it, e.g. apt-get install valgrind")
        })?;
    let said = String::from_utf8_lossy(&done.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let collected = collected.and_then(|(_, count)| count.trim().parse().ok());
    collected.filter(|_| done.status.success()).ok_or_else(|| format!("valgrind failed:\n{said}"))
}

fn compiler() -> String {
    let cargo = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(cargo).arg("-vV").output().map(|done| done.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version).into_owned();
    let of = |name: &str| version.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").to_owned();
    format!("rustc {}, {}, {}", of("release: "), of("host: "), processor())
}

/// What ring chooses its code by.
#[cfg(target_arch = "x86_64")]
fn processor() -> String {
    let has = [
        ("avx", std::arch::is_x86_feature_detected!("avx")),
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("bmi2", std::arch::is_x86_feature_detected!("bmi2")),
        ("adx", std::arch::is_x86_feature_detected!("adx")),
        ("sha", std::arch::is_x86_feature_detected!("sha")),
    ];
    let names: Vec<&str> = has.into_iter().filter_map(|(name, is_there)| is_there.then_some(name)).collect();
    names.join(" ")
}

#[cfg(not(target_arch = "x86_64"))]
fn processor() -> String {
    std::env::consts::ARCH.to_owned()
}

fn table(is_check: bool, accepts: bool) -> Result<bool, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let compiler = compiler();
    let is_comparable = committed.lines().next() == Some(&compiler);
    let mut counts = format!("{compiler}\n");
    let mut is_good = true;
    println!("{:<34}{:>14}{:>14}{:>9}", "INSTRUCTIONS OF A MESSAGE", "committed", "this build", "change");
    for case in &CASES {
        let [shorter, longer] = [collected(case, RUNS[0])?, collected(case, RUNS[1])?];
        let count = (longer - shorter) / (case.of * (RUNS[1] - RUNS[0])) as u64;
        let before =
            committed.lines().find_map(|line| line.strip_prefix(case.name)?.trim().parse::<u64>().ok());
        let change = before.map_or("-".to_owned(), |before| {
            format!("{:+.1} %", (count as f64 / before as f64 - 1.0) * 100.0)
        });
        let shown = before.map_or("-".to_owned(), |before| before.to_string());
        println!("{:<34}{shown:>14}{count:>14}{change:>9}", case.name);
        is_good &= before.is_some_and(|before| count * 100 <= before * (100 + TOLERANCE));
        writeln!(counts, "{} {count}", case.name).expect("invariant: a String takes text");
    }
    if accepts {
        std::fs::write(&path, counts).map_err(|error| format!("{}: {error}", path.display()))?;
    } else if is_check && !is_comparable {
        println!(
            "not compared: the committed counts are of another compiler or processor, this is {compiler}"
        );
        return Ok(true);
    }
    Ok(is_good || !is_check)
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
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    match table(has("--check"), has("--accept")) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            println!(
                "a count has grown by more than {TOLERANCE} %: mend it, or accept it with --accept and say why"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("{error}");
            ExitCode::from(2)
        }
    }
}
