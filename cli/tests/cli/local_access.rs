//! A stack on this machine can be used by its owner alone, although every user of the machine, and every page in a browser on it, can
//! connect to its address.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use redial::local::{LocalError, Options, Stack, StackKey, sdk_config};
use redial_tests::test_stack::placeholders;
use reqwest::{Method, RequestBuilder, StatusCode};

use crate::prelude::*;

fn http(method: Method, url: &str) -> RequestBuilder {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    client.request(method, url)
}

/// A call of DynamoDB's that lists the tables, without a signature.
fn list_tables(url: &str) -> RequestBuilder {
    let call = http(Method::POST, url).header("x-amz-target", "DynamoDB_20120810.ListTables");
    call.header("content-type", "application/x-amz-json-1.0").body("{}")
}

/// Status and text of the answer.
async fn answer(request: RequestBuilder) -> (StatusCode, String) {
    let answer = request.send().await.expect("it answers");
    (answer.status(), answer.text().await.expect("text"))
}

#[tokio::test]
async fn an_unsigned_request_is_refused_at_every_path() {
    if left_out_on_localstack("it accepts any key, and any host") {
        return;
    }
    let stack = TestStack::shared_idle().await;
    let endpoint = &stack.description().endpoint;
    // At the last two, the emulator would take the call for one to its address.
    for path in ["/", "/_aws/lambda-url/", "/_aws/lambda-url//x", "/_aws/lambda-url/%2e%2e/"] {
        let (status, text) = answer(list_tables(&format!("{endpoint}{path}"))).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {text}");
        assert!(text.contains("redial local env"), "{path}: {text}");
    }
    for (method, path) in [
        (Method::POST, "/_ministack/reset"),
        (Method::POST, "/_ministack/config"),
        (Method::GET, "/_ministack/health"),
        (Method::PUT, "/redial-artifacts/template.yaml"),
        (Method::OPTIONS, "/"),
    ] {
        let (status, text) = answer(http(method, &format!("{endpoint}{path}"))).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {text}");
    }
    assert!(stack.dynamodb.list_tables().send().await.is_ok(), "the owner's key is taken");
}

#[tokio::test]
async fn a_request_with_another_key_gets_an_error_that_an_sdk_reads() {
    if left_out_on_localstack("it accepts any key, and any host") {
        return;
    }
    let stack = TestStack::shared_idle().await;
    let endpoint = &stack.description().endpoint;
    let strangers = sdk_config(endpoint, &StackKey::of_localstack());
    let lambda = aws_sdk_lambda::Client::new(&strangers);
    let function = &stack.description().functions.dispatch;
    let refused =
        lambda.update_function_code().function_name(function).s3_bucket("b").s3_key("k").send().await;
    let refused = refused.expect_err("anyone could run code here");
    assert_eq!(refused.code(), Some("UnrecognizedClientException"), "{refused:?}");
    assert!(refused.message().is_some_and(|it| it.contains("redial local env")), "{refused:?}");
    let refused = aws_sdk_sqs::Client::new(&strangers).list_queues().send().await.expect_err("not its key");
    assert_eq!(refused.raw_response().map(|it| it.status().as_u16()), Some(403), "{refused:?}");

    let own = stack.stack().key();
    let forged = json!({"id": own.id(), "secret": "another"});
    let forged: StackKey = serde_json::from_value(forged).expect("a key");
    let forged = aws_sdk_dynamodb::Client::new(&sdk_config(endpoint, &forged));
    let refused = forged.list_tables().send().await.expect_err("the id alone is not enough");
    assert_eq!(refused.code(), Some("InvalidSignatureException"), "{refused:?}");
}

#[tokio::test]
async fn a_request_for_another_host_or_from_a_page_is_refused() {
    if left_out_on_localstack("it accepts any key, and any host") {
        return;
    }
    let stack = TestStack::shared_idle().await;
    let endpoint = &stack.description().endpoint;
    let (port, api) =
        (endpoint.rsplit(':').next().expect("a port"), format!("{endpoint}/_aws/lambda-url/none/"));
    for host in
        ["evil.example".to_owned(), format!("evil.example:{port}"), format!("127.0.0.1.evil.example:{port}")]
    {
        for request in [list_tables(endpoint), http(Method::GET, &api)] {
            let (status, text) = answer(request.header("host", &host)).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{host}: {text}");
            assert!(text.contains("Host: not a name of this machine"), "{host}: {text}");
        }
    }
    for origin in ["https://evil.example", "null", endpoint] {
        let (status, text) = answer(list_tables(endpoint).header("origin", origin)).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{origin}: {text}");
        assert!(text.contains("Origin: found"), "{origin}: {text}");
        // It asks for a key of its own, and pages of the operator's choice may call it.
        let (status, text) = answer(http(Method::GET, &api).header("origin", origin)).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "no function has this URL: {text}");
    }
}

#[tokio::test]
async fn a_function_has_the_stack_s_key_and_events_no_one_else_can_take() {
    if left_out_on_localstack("a function that hosts start is a test of theirs") {
        return;
    }
    let bootstraps = placeholders();
    let seen = bootstraps.path().join("environment");
    let dispatch = format!("#!/bin/sh\nenv > {0}.new && mv {0}.new {0}\nexec sleep 600\n", seen.display());
    fs::write(bootstraps.path().join("dispatch"), dispatch).expect("the file is ours");
    let folder = bootstraps.path().to_owned();
    let stack = TestStack::as_deployed_with(|options| options.bootstraps = Some(folder)).await;
    let function = stack.description().functions.dispatch.clone();
    let invoked = stack.lambda.invoke().function_name(function);
    invoked.invocation_type("Event".into()).send().await.expect("it is taken");
    let environment = eventually(async || fs::read_to_string(&seen).ok()).await.expect("it starts");
    let value = |name: &str| {
        let line = environment.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {name}"))
    };
    let key = stack.stack().key();
    assert!(value("AWS_ACCESS_KEY_ID") == key.id() && value("AWS_SECRET_ACCESS_KEY") == key.expose_secret());

    let api = value("AWS_LAMBDA_RUNTIME_API");
    let (address, secret) = api.rsplit_once('/').expect("a path");
    assert!(secret.len() >= 32, "no path that is known to the function alone");
    for path in ["", "/x/", &secret[1..], &"0".repeat(secret.len())] {
        let next = format!("{address}/{path}/2018-06-01/runtime/invocation/next");
        assert_eq!(answer(http(Method::GET, &next)).await.0, StatusCode::FORBIDDEN, "{path}");
    }
}

/// The files and folders in a folder, at any depth, with their modes.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("it is ours").map(|entry| entry.expect("an entry")) {
        let (path, kind) = (entry.path(), entry.metadata().expect("it exists"));
        if kind.is_dir() {
            found.extend(modes(&path));
        }
        found.push((path, kind.permissions().mode() & 0o777));
    }
    found
}

#[tokio::test]
async fn what_a_stack_keeps_is_readable_to_its_owner_alone() {
    let (bootstraps, state) = (placeholders(), tempfile::tempdir().expect("a temporary folder"));
    let options = Options {
        bootstraps: Some(bootstraps.path().to_owned()),
        state: Some(state.path().join("stacks")),
        ..Options::default()
    };
    let stack = Stack::up(options).await.expect("it comes up");
    let found = modes(state.path());
    assert!(found.iter().any(|(path, _)| path.ends_with("emulator.log")), "{found:?}");
    for (path, mode) in found {
        // The functions' own files, below a folder of the owner's, are executable.
        let is_program = path.ends_with("bootstrap");
        assert!(mode & 0o077 == 0 || is_program, "{} has mode {mode:o}", path.display());
    }
    drop(stack);
}

#[tokio::test]
async fn a_stack_s_folder_that_others_may_enter_is_refused() {
    let (bootstraps, state) = (placeholders(), tempfile::tempdir().expect("a temporary folder"));
    let folder = state.path().join("shop");
    fs::create_dir(&folder).expect("it is ours");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let options = Options {
        name: "shop".to_owned(),
        bootstraps: Some(bootstraps.path().to_owned()),
        state: Some(state.path().to_owned()),
        ..Options::default()
    };
    let refused = Stack::up(options.clone()).await.expect_err("its key would be readable");
    assert!(matches!(&refused, LocalError::Exposed { path, .. } if *path == folder), "{refused}");
    assert!(
        refused.to_string().contains("found owner") && refused.to_string().contains("mode 0755"),
        "{refused}"
    );

    fs::remove_dir(&folder).expect("it is ours");
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let refused = Stack::up(options).await.expect_err("another user could put a folder in its place");
    assert!(matches!(&refused, LocalError::Exposed { path, .. } if path == state.path()), "{refused}");
    for command in ["local status", "local env --name shop", "local down --name shop", "doctor"] {
        let said = run(redial(command).arg("--state-dir").arg(state.path()), "").ends_with(1);
        assert!(said.contains("mode 0777") && said.contains("--state-dir"), "{command}: {said}");
    }
}

#[tokio::test]
async fn the_environment_of_a_stack_is_what_an_sdk_needs() {
    let stack = TestStack::shared_idle().await;
    let printed = run(&mut unregistered("local env --name here", stack.folder()), "").succeeds();
    let (key, description) = (stack.stack().key(), stack.description());
    for line in [
        format!("export AWS_ENDPOINT_URL='{}'", description.endpoint),
        format!("export AWS_ACCESS_KEY_ID='{}'", key.id()),
        format!("export AWS_SECRET_ACCESS_KEY='{}'", key.expose_secret()),
        format!("export INGEST_QUEUE_URL='{}'", description.queues.ingest),
    ] {
        assert!(printed.lines().any(|it| it == line), "{line}: {printed}");
    }
    let status = run(&mut unregistered("local status --json", stack.folder()), "").succeeds();
    assert!(status.contains(&description.endpoint) && !status.contains(key.expose_secret()), "{status}");
    let said = run(&mut unregistered("local env --name shop", stack.folder()), "").refused_with(1);
    assert!(said.contains("no stack named shop is up; up: --name here"), "{said}");
}
