//! What Redial reports to a user of LocalStack, and what a stack leaves in it. Where none is named by `REDIAL_LOCALSTACK_ENDPOINT`, nothing runs.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use aws_sdk_cloudformation::types::{Stack, StackStatus};
use redial::local::{StackKey, sdk_config};
use redial_tests::test_stack::{localstack, placeholders};

use crate::prelude::*;

const NOT_RUN: &str = "not run: REDIAL_LOCALSTACK_ENDPOINT names no LocalStack";

fn up(name: &str, endpoint: &str, bootstraps: &Path, state: &Path, options: &str) -> Command {
    let arguments =
        format!("local up --name {name} --json --emulator localstack --endpoint {endpoint} {options}");
    let mut command = unregistered(arguments, state);
    command.arg("--bootstraps").arg(bootstraps);
    command
}

/// The names of what is in LocalStack and has this text in its name.
async fn left(endpoint: &str, name: &str) -> Vec<String> {
    let sdk = sdk_config(endpoint, &StackKey::of_localstack());
    let stacks = aws_sdk_cloudformation::Client::new(&sdk).describe_stacks().send().await;
    let stacks = stacks.expect("CloudFormation answers").stacks.unwrap_or_default();
    let queues = aws_sdk_sqs::Client::new(&sdk).list_queues().send().await.expect("SQS answers");
    let tables = aws_sdk_dynamodb::Client::new(&sdk).list_tables().send().await.expect("DynamoDB answers");
    let secrets = aws_sdk_secretsmanager::Client::new(&sdk).list_secrets().send().await;
    let secrets = secrets.expect("Secrets Manager answers").secret_list.unwrap_or_default();
    let groups = aws_sdk_cloudwatchlogs::Client::new(&sdk).describe_log_groups().into_paginator().items();
    let groups = groups.send().collect::<Result<Vec<_>, _>>().await.expect("CloudWatch Logs answers");
    let machines = aws_sdk_sfn::Client::new(&sdk).list_state_machines().send().await;
    let machines = machines.expect("Step Functions answers").state_machines;
    // AWS lists no stack that was deleted.
    let is_there = |it: &Stack| it.stack_status != Some(StackStatus::DeleteComplete);
    let names = stacks.into_iter().filter(is_there).filter_map(|it| it.stack_name);
    let names = names.chain(queues.queue_urls.unwrap_or_default());
    let names = names.chain(tables.table_names.unwrap_or_default());
    let names = names.chain(secrets.into_iter().filter_map(|it| it.name));
    let names = names.chain(groups.into_iter().filter_map(|it| it.log_group_name));
    let names = names.chain(machines.into_iter().map(|it| it.name));
    names.filter(|it| it.contains(name)).collect()
}

#[tokio::test]
async fn a_stack_says_where_its_functions_run_and_leaves_nothing_in_localstack() {
    let Some(endpoint) = localstack() else {
        println!("{NOT_RUN}");
        return;
    };
    let (bootstraps, folder) = (placeholders(), tempfile::tempdir().expect("a temporary folder"));
    let name = format!("left-{}", std::process::id());
    let stack = parsed(&run(&mut up(&name, &endpoint, bootstraps.path(), folder.path(), ""), "").succeeds());
    assert!(stack["queues"]["events"].is_string(), "{stack}");
    let made = left(&endpoint, &name).await;
    let of = |part: &str| made.iter().filter(|it| it.contains(part)).count();
    assert!(of("-events") == 1 && of("Table") == 6 && of("Secret") > 0 && of("Logs") == 3, "{made:?}");
    let status = || run(&mut unregistered("local status", folder.path()), "").succeeds();
    let shown = status();
    assert!(shown.contains("because LocalStack runs functions in Docker only"), "{shown}");
    let doctor = run(&mut unregistered(format!("doctor --local {name}"), folder.path()), "");
    assert!(doctor.stdout.contains("functions "), "{doctor:?}");

    // As after a restart that forgot it.
    let sdk = sdk_config(&endpoint, &StackKey::of_localstack());
    let ingest = stack["queues"]["ingest"].as_str().expect("an address");
    let deleted = aws_sdk_sqs::Client::new(&sdk).delete_queue().queue_url(ingest).send().await;
    deleted.expect("SQS deletes it");
    let shown = status();
    assert!(shown.contains("does not have its queues any more, as after a restart"), "{shown}");
    let said = run(&mut unregistered(format!("status m1 --tenant acme --local {name}"), folder.path()), "");
    let said = said.refused_with(1);
    assert!(said.contains("as after a restart: `redial local up` makes them again"), "{said}");

    run(&mut unregistered(format!("local down --name {name}"), folder.path()), "").succeeds();
    assert_eq!(left(&endpoint, &name).await, [""; 0]);
}

#[tokio::test]
async fn a_stack_whose_deployment_was_interrupted_is_taken_down() {
    let Some(endpoint) = localstack() else {
        println!("{NOT_RUN}");
        return;
    };
    let (bootstraps, folder) = (placeholders(), tempfile::tempdir().expect("a temporary folder"));
    let name = format!("cut-{}", std::process::id());
    let up = || up(&name, &endpoint, bootstraps.path(), folder.path(), "");
    let (mut coming_up, _stderr) = run_until(&mut up(), "deploying the template");
    let sdk = sdk_config(&endpoint, &StackKey::of_localstack());
    let cloudformation = aws_sdk_cloudformation::Client::new(&sdk);
    let is_there = async || cloudformation.describe_stacks().stack_name(&name).send().await.ok();
    eventually(is_there).await.expect("its creation has begun");
    coming_up.kill().expect("it runs");
    coming_up.wait().expect("it was killed");
    let refusal = run(&mut up(), "").refused_with(1);
    assert!(refusal.contains("take it down first"), "{refusal}");
    run(&mut unregistered(format!("local down --name {name}"), folder.path()), "").succeeds();
    assert_eq!(left(&endpoint, &name).await, [""; 0]);
    assert!(!folder.path().join("state").join(&name).exists());
}

/// The programs are for Linux, as far as their first bytes tell, and nothing is there to run them in.
#[tokio::test]
async fn functions_in_lambda_without_docker_are_refused_with_the_reason_and_leave_nothing() {
    let Some(endpoint) = localstack() else {
        println!("{NOT_RUN}");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let name = format!("docker-{}", std::process::id());
    let no_elf = placeholders();
    let in_lambda = "--functions lambda";
    let said = run(&mut up(&name, &endpoint, no_elf.path(), folder.path(), in_lambda), "").refused_with(1);
    assert!(said.contains("no program for Linux on x86_64 or arm64"), "{said}");
    assert_eq!(left(&endpoint, &name).await, [""; 0]);

    let bootstraps = tempfile::tempdir().expect("a temporary folder");
    for function in ["dispatch", "cleanup", "ingest"] {
        let path = bootstraps.path().join(function);
        let mut program = b"\x7fELF".to_vec();
        program.resize(18, 0);
        program.extend([62, 0]);
        fs::write(&path, program).expect("the folder is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let own = "--functions lambda --egress-allow https://localhost:8443";
    let said = run(&mut up(&name, &endpoint, bootstraps.path(), folder.path(), own), "").refused_with(1);
    for words in ["name this machine host.docker.internal", "it needs the Docker socket", "Function: "] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("no reason given"), "{said}");
    assert_eq!(left(&endpoint, &name).await, [""; 0]);
}
