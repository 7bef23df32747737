//! The local stack itself: it deploys, stacks do not meet, and no process survives its owner.
//!
//! The functions are placeholders: no message reaches them.

use std::{
    fs,
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
};

use redial::local::{Description, LocalError, Options, Stack, StackKey};
use redial_tests::test_stack::{localstack, placeholders, register, set_env};

use crate::prelude::*;

/// Set in the process that a test starts in order to kill it: the folder of its functions.
const OWNER_BOOTSTRAPS: &str = "REDIAL_TEST_OWNER_BOOTSTRAPS";

fn options(bootstraps: &Path) -> Options {
    Options { bootstraps: Some(bootstraps.to_owned()), ..Options::default() }
}

async fn until_ended(endpoint: &str) {
    let address = endpoint.strip_prefix("http://").expect("an http endpoint");
    let refuses = async || tokio::net::TcpStream::connect(address).await.is_err().then_some(());
    eventually(refuses).await.unwrap_or_else(|| panic!("{endpoint} still answers"));
}

#[tokio::test]
async fn two_stacks_are_up_side_by_side_and_end_when_dropped() {
    let bootstraps = placeholders();
    let up = || Stack::up(options(bootstraps.path()));
    let (first, second) = tokio::join!(up(), up());
    let (first, second) = (first.expect("it comes up"), second.expect("it comes up"));
    let (one, other) = (first.description().clone(), second.description().clone());
    assert_ne!(one.endpoint, other.endpoint);
    assert_ne!(one.queues.ingest, other.queues.ingest);
    assert_eq!(first.poller_failure(), None);

    drop(first);
    until_ended(&one.endpoint).await;
    let queues = aws_sdk_sqs::Client::new(&second.sdk_config()).list_queues().send().await;
    assert_eq!(queues.expect("the second still answers").queue_urls().len(), 7);
    drop(second);
    until_ended(&other.endpoint).await;
}

/// In the place of the functions there are placeholders, and the emulator is the one that is installed already.
#[tokio::test]
async fn the_redial_of_a_release_brings_a_stack_up_from_any_folder() {
    let python = redial::local::python(&redial::local::Progress::silent()).expect("the emulator's Python");
    let emulator = python.parent().and_then(Path::parent).expect("a virtual environment");
    let (archive, cache, elsewhere) = (placeholders(), tempfile::tempdir(), tempfile::tempdir());
    let (cache, elsewhere) = (cache.expect("a folder"), elsewhere.expect("a folder"));
    let functions = archive.path().join("functions");
    fs::create_dir(&functions).expect("it is ours");
    for function in ["dispatch", "cleanup", "ingest"] {
        fs::rename(archive.path().join(function), functions.join(function)).expect("it is ours");
    }
    let program = archive.path().join("redial");
    fs::copy(env!("CARGO_BIN_EXE_redial"), &program).expect("it was built");
    let redial_dir = cache.path().join("redial");
    fs::create_dir(&redial_dir).expect("it is ours");
    std::os::unix::fs::symlink(emulator, redial_dir.join("venv")).expect("it is ours");

    let redial = |arguments: &str| {
        let mut command = Command::new(&program);
        command.args(arguments.split(' ')).current_dir(elsewhere.path()).env("XDG_CACHE_HOME", cache.path());
        command
            .env_remove("REDIAL_STATE_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        run(&mut command, "")
    };
    let up: Value = redial("local up --json").json();
    assert!(up["queues"]["ingest"].as_str().is_some_and(|url| url.contains("IngestQueue")), "{up}");
    assert_eq!(redial("local status --json").json(), up);
    assert!(redial_dir.join("stacks/redial").is_dir());
    redial("local down").succeeds();
    assert!(!redial_dir.join("stacks/redial").exists());
}

#[test]
fn wrong_parameters_and_origins_are_refused_before_anything_is_built() {
    let folder = tempfile::tempdir().expect("a folder");
    for (options, words) in [
        ("--egress-allow push.example", "did you mean https://push.example?"),
        ("--egress-allow ftp://push.example", "--egress-allow: expected an origin, https://host"),
        (
            "--parameter WaitShard=4",
            "--parameter WaitShard: infra/template.yaml has no such parameter: did you mean WaitShards?",
        ),
        ("--parameter WaitShards=none", "--parameter WaitShards: "),
    ] {
        let said = run(&mut unregistered(format!("local up {options}"), folder.path()), "").refused_with(2);
        assert!(said.contains(words) && !said.contains("building"), "{options}: {said}");
    }
}

/// As `cargo install --path cli` leaves it, on a machine whose Rust is gone.
#[test]
fn without_cargo_a_stack_of_a_checkout_is_not_begun() {
    let python = redial::local::python(&redial::local::Progress::silent()).expect("the emulator's Python");
    let folder = tempfile::tempdir().expect("a folder");
    let mut up = unregistered("local up", folder.path());
    up.env_remove("CARGO").env("PATH", folder.path()).env("REDIAL_PYTHON", python);
    let said = run(&mut up, "").refused_with(1);
    assert!(
        said.contains("error: no cargo to build the functions with: install Rust (https://rustup.rs)"),
        "{said}"
    );
    assert!(!said.contains("deploying"), "{said}");
    assert!(!folder.path().join("state/redial").exists());
}

#[tokio::test]
async fn settings_reach_the_functions() {
    let bootstraps = placeholders();
    let stack = TestStack::as_deployed_with(|options| {
        options.bootstraps = Some(bootstraps.path().to_owned());
        set_env(options, [("WAIT_SHARDS", "1")]);
        options.parameters = [("WaitBucketSeconds".to_owned(), "5".to_owned())].into();
        options.egress_allow = vec!["https://localhost:8443".to_owned(), "https://localhost:8444".to_owned()];
    })
    .await;
    let variables = stack.variables(&stack.description().functions.dispatch).await;
    for (name, value) in [
        ("WAIT_SHARDS", "1"),
        ("WAIT_BUCKET_SECONDS", "5"),
        ("EGRESS_ALLOW", "https://localhost:8443,https://localhost:8444"),
        ("VAPID_SECRET_ID", stack.stack().output("VapidSecretArn").expect("an output")),
    ] {
        assert_eq!(variables.get(name).map(String::as_str), Some(value), "{name}");
    }
    // LocalStack has a name of its own for the host.
    let compared = |url: &str| match url.split_once("/000000000000/") {
        Some((_, path)) if localstack().is_some() => path.to_owned(),
        Some(_) | None => url.to_owned(),
    };
    let found = variables.get("RETRY_BULK_QUEUE_URL").map(|url| compared(url));
    assert_eq!(found, Some(compared(&stack.queues().retry_bulk)));
}

#[tokio::test]
async fn a_parameter_that_the_template_refuses_is_reported_before_anything_is_started() {
    let bootstraps = placeholders();
    let parameters = [("VapidSubject".to_owned(), "not-an-address".to_owned())].into();
    let refused = Stack::up(Options { parameters, ..options(bootstraps.path()) }).await;
    let error = refused.expect_err("a subject is an address");
    assert!(matches!(&error, LocalError::Parameters(wrong) if wrong.len() == 1), "{error}");
    assert!(error.to_string().contains("expected a mailto address or an https address"), "{error}");
}

#[tokio::test]
async fn a_localstack_that_ended_is_reported_and_its_stack_forgotten() {
    let stack = TestStack::shared_idle().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
    drop(listener);
    let description = Description { endpoint, ..stack.description().clone() };
    register(folder.path(), description, &StackKey::of_localstack());
    let shown = run(&mut unregistered("local status", folder.path()), "").succeeds();
    assert!(shown.contains("here is not whole") && shown.contains("start LocalStack"), "{shown}");
    let said = run(&mut unregistered("status hello-1 --tenant acme", folder.path()), "").refused_with(1);
    assert!(said.contains("the stack here cannot be used: nothing listens at"), "{said}");
    let status = run(&mut unregistered("local status --json", folder.path()), "").json();
    assert_eq!(status["findings"].as_array().map(Vec::len), Some(1), "{status}");
    let down = run(&mut unregistered("local down --name here", folder.path()), "").refused_with(1);
    assert!(down.contains("nothing listens any more: forgot it"), "{down}");
    let none = run(&mut unregistered("local status", folder.path()), "");
    assert!(none.stderr.contains("no stack is up"), "{}", none.stderr);
}

/// Runs this test a second time in a process of its own, the owner of a stack, and kills that.
#[tokio::test]
async fn a_stack_ends_with_an_owner_that_is_killed() {
    if let Some(bootstraps) = std::env::var_os(OWNER_BOOTSTRAPS) {
        let bootstraps = Path::new(&bootstraps);
        let stack = Stack::up(options(bootstraps)).await.expect("it comes up");
        fs::write(bootstraps.join("endpoint"), &stack.description().endpoint).expect("writable");
        // Until it is killed, or the test that started it is.
        let owner_of_owner = std::io::stdin().read_to_end(&mut Vec::new());
        panic!("it was not killed: {owner_of_owner:?}");
    }
    let bootstraps = placeholders();
    let mut owner = Command::new(std::env::current_exe().expect("this is a test"))
        .args(["--exact", "local_stack::a_stack_ends_with_an_owner_that_is_killed", "--nocapture"])
        .env(OWNER_BOOTSTRAPS, bootstraps.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this test can run itself");
    let endpoint_file = bootstraps.path().join("endpoint");
    let endpoint =
        eventually(async || fs::read_to_string(&endpoint_file).ok().filter(|endpoint| !endpoint.is_empty()))
            .await;
    owner.kill().expect("it runs");
    let mut said = String::new();
    owner.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    owner.wait().expect("it was killed");
    until_ended(&endpoint.unwrap_or_else(|| panic!("the owner's stack did not come up: {said}"))).await;
}
