//! Stacks whose queues, waits and tables are kept by another server: an emulator in an account of its own, which takes any key.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::Command,
    thread,
};

use redial::local::{Emulator, Options, Parts};
use redial_tests::{
    other_emulator::{ACCOUNT, OtherEmulator},
    resources::Resources,
    test_stack::placeholders,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::prelude::*;

/// On these parts, with the functions' host that is under test.
fn on(options: &mut Options, sqs: Option<&str>, step_functions: Option<&str>, dynamodb: Option<&str>) {
    let given = |part: Option<&str>| part.map(str::to_owned);
    let parts = Parts::new(given(sqs), given(step_functions), given(dynamodb)).expect("they go together");
    options.emulator = Emulator::Parts(parts);
    options.host_program = Some(env!("CARGO_BIN_EXE_redial").into());
}

/// One push at once, one after a retry by the queue's delay, and one after a wait in Step Functions.
async fn delivers(stack: &TestStack) {
    // As a producer writes it: no part may parse and write it again.
    let [plain, retried, waiting] = [stack.browser(), stack.browser(), stack.browser()];
    stack.push.script(&retried.endpoint, [Answer::status(503)]);
    let payload = "{\"a\":1.50,  \"b\" : \"\\u00e9\"}";
    stack.send(&stack.message("plain", &plain, payload)).await;
    stack.send(&stack.message("retried", &retried, "hello")).await;
    // Far enough ahead for a busy machine to park it before.
    let at = System.now().plus(Duration::from_secs(20));
    let fields = json!({"deliver_at": at.to_rfc3339()});
    stack.send(&stack.message_with("waiting", &waiting, &fields)).await;

    let received = stack.received(&plain, 1).await;
    assert_eq!((received[0].problems.as_slice(), received[0].text()), (&[][..], Some(payload)));
    stack.received(&retried, 2).await;
    let waited = stack.received(&waiting, 1).await;
    assert!(waited[0].at_ms >= u64::try_from(at.as_ms()).expect("after 1970"));
    for id in ["plain", "retried", "waiting"] {
        stack.until_state(id, "sent").await;
    }
    stack.send_body("{not JSON").await;
    stack
        .until("the malformed message is a dead letter", async || {
            (!stack.scan(&stack.tables().dead_letters).await.is_empty()).then_some(())
        })
        .await;
    stack.until_quiet().await;
}

#[tokio::test]
async fn a_stack_on_parts_delivers_and_leaves_nothing_there() {
    let other = OtherEmulator::start().await;
    let endpoint = other.endpoint.as_str();
    let stack = TestStack::up_with(|options| {
        on(options, Some(endpoint), Some(endpoint), Some(endpoint));
        options.events = true;
        // Its root lies in the stack's folder, where functions read it from their first start.
        options.own_receiver = true;
    })
    .await;
    delivers(&stack).await;
    assert!(stack.take_events().await.len() >= 3, "events of three pushes");

    let names = other.names().await;
    let of = |part: &str| names.iter().filter(|name| name.contains(part)).count();
    assert_eq!((of("Queue"), of("-events"), of("Table"), of("StateMachine")), (7, 1, 6, 1), "{names:?}");
    let dead_letters = stack.sqs.get_queue_attributes().queue_url(&stack.queues().ingest);
    let read = dead_letters.attribute_names("RedrivePolicy".into()).send().await.expect("SQS answers");
    let policy = format!("{:?}", read.attributes);
    assert!(policy.contains(":000000000000:") && !policy.contains(ACCOUNT), "{policy}");
    let machine = stack.sfn.list_state_machines().send().await.expect("Step Functions answers");
    assert_eq!(machine.state_machines[0].state_machine_arn, stack.description().state_machine);
    let executions = stack.sfn.list_executions().state_machine_arn(&stack.description().state_machine);
    let executions = executions.send().await.expect("Step Functions answers").executions;
    let described = stack.sfn.describe_execution().execution_arn(&executions[0].execution_arn).send().await;
    let input = described.expect("it is known by its name here").input.expect("an input");
    assert!(input.contains(&stack.queues().retry) || input.contains(&stack.queues().retry_bulk), "{input}");

    let doctor = stack.redial("doctor");
    assert!(doctor.stderr.contains("has no faults"), "{}{}", doctor.stdout, doctor.stderr);

    assert!(!stack.stack().log().contains("EGRESS_CA_FILE"), "{}", stack.stack().log());

    Resources::copy(&stack, "of-a-caller").await;
    assert_eq!(other.names().await.len(), names.len() + 13, "what a caller makes is made there");
    drop(stack);
    assert_eq!(other.names().await, [""; 0]);
}

/// The embedded emulator's waits send to them.
#[tokio::test]
async fn queues_alone_may_be_kept_elsewhere() {
    let other = OtherEmulator::start().await;
    let stack = TestStack::up_with(|options| on(options, Some(&other.endpoint), None, None)).await;
    delivers(&stack).await;
    let names = other.names().await;
    assert!(names.len() == 7 && names.iter().all(|name| name.contains("Queue")), "{names:?}");
    drop(stack);
    assert_eq!(other.names().await, [""; 0]);
}

fn up(other: &OtherEmulator, bootstraps: &Path, state: &Path) -> Command {
    let endpoint = &other.endpoint;
    let mut command = unregistered(
        format!(
            "local up --name shop --json --emulator parts --sqs {endpoint} --step-functions {endpoint} --dynamodb {endpoint}"
        ),
        state,
    );
    command.arg("--bootstraps").arg(bootstraps);
    command
}

fn pid(of: &Value) -> Option<Pid> {
    of["pid"].as_u64().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
}

#[tokio::test]
async fn what_a_killed_emulator_left_at_parts_is_removed() {
    let other = OtherEmulator::start().await;
    let (bootstraps, folder, elsewhere) = (placeholders(), State(private()), State(private()));
    let stack = parsed(&run(&mut up(&other, bootstraps.path(), folder.path()), "").succeeds());
    assert_eq!(other.names().await.len(), 15);
    let taken = run(&mut up(&other, bootstraps.path(), elsewhere.path()), "").refused_with(1);
    assert!(taken.contains("exists at http://") && taken.contains("give this one another name"), "{taken}");
    assert_eq!(other.names().await.len(), 15, "the stack that has the name keeps what it has");

    kill_process(pid(&stack).expect("an emulator"), Signal::KILL).expect("it runs");
    let shown = run(&mut unregistered("local status", folder.path()), "");
    assert!(shown.stderr.contains("the emulator of shop has ended"), "{shown:?}");
    let host = pid(&stack["function_host"]).expect("a host");
    let ended = eventually(async || rustix::process::test_kill_process(host).is_err().then_some(())).await;
    ended.expect("the functions' host ends with the emulator");
    run(&mut unregistered("local down --name shop", folder.path()), "").succeeds();
    assert_eq!(other.names().await, [""; 0]);
}

/// The stack's functions are processes of this machine, and so is the receiver.
fn roads_need_a_receiver_on_this_machine(state: &Path) {
    let verify = |options: &str| unregistered(format!("verify --roads --yes {options}"), state);
    let said = run(&mut verify("--receiver-at https://localhost:1"), "").refused_with(2);
    assert!(said.contains("give --receiver-port"), "{said}");
    let without_node = private();
    let mut command = verify("--receiver-at https://localhost:1 --receiver-port 1");
    let said = run(command.env("PATH", without_node.path()), "").refused_with(2);
    assert!(said.contains("code in Node.js") && said.contains("node was not found"), "{said}");
}

#[tokio::test]
async fn a_part_that_forgot_or_ended_is_reported_and_the_stack_taken_down() {
    let other = OtherEmulator::start().await;
    let (bootstraps, folder) = (placeholders(), State(private()));
    let stack = parsed(&run(&mut up(&other, bootstraps.path(), folder.path()), "").succeeds());
    let status = || run(&mut unregistered("local status", folder.path()), "").succeeds();
    assert!(status().contains("SQS at http://") && !status().contains("and up again"), "{}", status());
    roads_need_a_receiver_on_this_machine(folder.path());
    other.forget_queues().await;
    assert!(status().contains("a part was restarted"), "{}", status());
    kill_process(pid(&stack["function_host"]).expect("a host"), Signal::KILL).expect("it runs");
    let shown = run(&mut unregistered("local status --json", folder.path()), "").json();
    assert!(shown["findings"].to_string().contains("the process that hosts the functions"), "{shown}");
    assert!(status().contains("the process that hosts the functions has ended"), "{}", status());
    drop(other);
    assert!(status().contains("nothing listens there"), "{}", status());
    let down = run(&mut unregistered("local down --name shop", folder.path()), "").refused_with(1);
    assert!(down.contains("shop is down; parts that it used have ended"), "{down}");
    assert!(run(&mut unregistered("local status", folder.path()), "").stderr.contains("no stack is up"));
}

#[tokio::test]
async fn a_server_that_cannot_be_a_part_is_refused_before_anything_starts() {
    if left_out_on_localstack("it can be a part") {
        return;
    }
    let folder = private();
    let refused = |options: &str, status| {
        let done = run(&mut unregistered(format!("local up --emulator {options}"), folder.path()), "");
        assert!(!folder.path().join("state").exists());
        done.refused_with(status)
    };
    let guarded = TestStack::shared_idle().await;
    let endpoint = &guarded.description().endpoint;
    let said = refused(&format!("parts --sqs {endpoint}"), 1);
    assert!(said.contains("no SQS at") && said.contains("it checks signatures (403"), "{said}");
    let other = OtherEmulator::start().await;
    let said = refused(&format!("parts --sqs {0} --dynamodb {0}/_ministack/health", other.endpoint), 2);
    assert!(said.contains("--dynamodb: expected an address such as"), "{said}");
    let said = refused(&format!("parts --step-functions {}", other.endpoint), 2);
    assert!(said.contains("--sqs has to be the same address"), "{said}");
    let ended = other.endpoint.clone();
    drop(other);
    let said = refused(&format!("parts --dynamodb {ended}"), 1);
    assert!(said.contains("nothing listens there") && said.contains("DynamoDBLocal.jar"), "{said}");
    let said = refused(&format!("parts --dynamodb {}", failing_server()), 1);
    assert!(said.contains("it fails at DynamoDB_20120810.BatchExecuteStatement (500"), "{said}");
    let said = refused("embedded --dynamodb http://localhost:8000", 2);
    assert!(said.contains("--dynamodb: it is an option of --emulator parts"), "{said}");
    assert!(refused("parts", 2).contains("at least one part"));
}

/// Answers its one call as an emulator does that has DynamoDB, but not PartiQL.
fn failing_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("loopback");
    thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("loopback");
        let (mut request, mut piece) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"}]}") {
            let length = connection.read(&mut piece).expect("loopback");
            assert!(length > 0, "the call ended before its body did");
            request.extend_from_slice(&piece[..length]);
        }
        connection
            .write_all(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n")
            .expect("loopback");
    });
    format!("http://{address}")
}

/// A folder of stacks, of which the one that `up` makes ends with it, also if the test fails.
struct State(tempfile::TempDir);

impl State {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _mostly_down = run(&mut unregistered("local down --name shop", self.path()), "");
    }
}

fn private() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}
