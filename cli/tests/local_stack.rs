//! The local stack's own promises: it deploys, stacks do not meet, and nothing survives its owner.
//!
//! The functions are placeholders here, which no message reaches; what they do is tested where they are.

#[path = "shared/placeholders.rs"]
mod placeholders;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use placeholders::placeholders;
use redial::local::{LocalError, Options, Stack};

/// Set in a process that a test starts only to kill it: where its stack's functions are.
const OWNER_BOOTSTRAPS: &str = "REDIAL_TEST_OWNER_BOOTSTRAPS";

fn options(functions: &Path) -> Options {
    placeholders(functions);
    Options { bootstraps: Some(functions.to_owned()), ..Options::default() }
}

async fn ends(endpoint: &str) -> bool {
    let address = endpoint.strip_prefix("http://").expect("an http endpoint").to_owned();
    let refused = async {
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), refused).await.is_ok()
}

#[tokio::test]
async fn two_stacks_are_up_side_by_side_and_end_when_dropped() {
    let functions = tempfile::tempdir().expect("a temporary folder");
    let (first, second) =
        tokio::join!(Stack::up(options(functions.path())), Stack::up(options(functions.path())));
    let (first, second) = (first.expect("it comes up"), second.expect("it comes up"));
    let (one, other) = (first.description().clone(), second.description().clone());
    assert_ne!(one.endpoint, other.endpoint);
    assert_ne!(one.queues.ingest, other.queues.ingest);
    assert_eq!(first.poller_failure(), None);

    drop(first);
    assert!(ends(&one.endpoint).await, "the first still answers");
    let queues = aws_sdk_sqs::Client::new(&second.sdk_config()).list_queues().send().await;
    assert_eq!(queues.expect("the second still answers").queue_urls().len(), 6);
    drop(second);
    assert!(ends(&other.endpoint).await, "the second still answers");
}

#[tokio::test]
async fn given_settings_reach_the_functions() {
    let functions = tempfile::tempdir().expect("a temporary folder");
    let options = Options {
        env: [("WAIT_SHARDS".to_owned(), "1".to_owned())].into(),
        parameters: [("WaitBucketSeconds".to_owned(), "5".to_owned())].into(),
        egress_allow: vec!["https://localhost:8443".to_owned(), "https://localhost:8444".to_owned()],
        ..options(functions.path())
    };
    let stack = Stack::up(options).await.expect("it comes up");
    let lambda = aws_sdk_lambda::Client::new(&stack.sdk_config());
    let function = &stack.description().functions.dispatch;
    let function =
        lambda.get_function_configuration().function_name(function).send().await.expect("deployed");
    let variables =
        function.environment().and_then(|environment| environment.variables()).expect("variables");
    let value = |name: &str| variables.get(name).map(String::as_str);
    assert_eq!(value("WAIT_SHARDS"), Some("1"));
    assert_eq!(value("WAIT_BUCKET_SECONDS"), Some("5"));
    assert_eq!(value("EGRESS_ALLOW"), Some("https://localhost:8443,https://localhost:8444"));
    assert_eq!(value("RETRY_BULK_QUEUE_URL"), Some(stack.description().queues.retry_bulk.as_str()));
    assert_eq!(value("VAPID_SECRET_ID"), stack.output("VapidSecretArn"));
}

#[tokio::test]
async fn a_parameter_that_the_template_refuses_is_told_and_leaves_nothing_running() {
    let functions = tempfile::tempdir().expect("a temporary folder");
    let options = Options {
        parameters: [("VapidSubject".to_owned(), "nobody".to_owned())].into(),
        ..options(functions.path())
    };
    let error = Stack::up(options).await.expect_err("a subject is an address");
    assert!(
        matches!(&error, LocalError::Call { call: "CreateStack", .. } | LocalError::Deploy { .. }),
        "{error}"
    );
}

/// Not a test of its own: the process that the next one kills.
#[tokio::test]
async fn owner_of_a_stack_for_the_next_test() {
    let Some(functions) = std::env::var_os(OWNER_BOOTSTRAPS) else { return };
    let stack = Stack::up(options(Path::new(&functions))).await.expect("it comes up");
    fs::write(Path::new(&functions).join("endpoint"), &stack.description().endpoint).expect("writable");
    tokio::time::sleep(Duration::from_secs(600)).await;
}

#[tokio::test]
async fn a_stack_ends_with_an_owner_that_is_killed() {
    let functions = tempfile::tempdir().expect("a temporary folder");
    let mut owner = Command::new(std::env::current_exe().expect("this is a test"))
        .args(["--exact", "owner_of_a_stack_for_the_next_test", "--nocapture"])
        .env(OWNER_BOOTSTRAPS, functions.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this test can run itself");
    let endpoint_file = functions.path().join("endpoint");
    let endpoint = async {
        loop {
            match fs::read_to_string(&endpoint_file) {
                Ok(endpoint) if !endpoint.is_empty() => break endpoint,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let endpoint = tokio::time::timeout(Duration::from_secs(120), endpoint).await;
    owner.kill().expect("it runs");
    let said = BufReader::new(owner.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let endpoint = endpoint.unwrap_or_else(|_| panic!("it did not come up: {}", said.collect::<String>()));
    assert!(ends(&endpoint).await, "it still answers");
    owner.wait().expect("it was killed");
}
