//! The variables that stand for options, so that a shell says once which stack and which tenant it is about.

use std::process::Command;

use crate::prelude::*;

/// Commands that work for one tenant, without it.
const OF_A_TENANT: [&str; 15] = [
    "status d1",
    "status --state retrying",
    "send --to s1 --payload hello",
    "cancel d1",
    "api-keys create",
    "webhooks secret",
    "audience status a1",
    "audience cancel a1",
    "audience recipient a1 s1",
    "dead-letters show d1",
    "subscriptions get --id s1",
    "subscriptions put --id s1 -",
    "subscriptions import -",
    "subscriptions export --subscription s1",
    "local listen",
];

/// Commands that remove or change something: each names its tenant itself.
const OF_NO_VARIABLE: [&str; 8] = [
    "subscriptions delete s1 --yes",
    "subscriptions enable s1",
    "subscriptions prune --yes",
    "subscriptions erase --subscription s1 --yes",
    "callbacks set --to w1",
    "callbacks clear",
    "policy set otp",
    "policy unset",
];

fn with(mut command: Command, variables: &[(&str, &str)]) -> Done {
    for (name, value) in variables {
        command.env(name, value);
    }
    run(&mut command, "")
}

#[test]
fn every_command_of_one_tenant_reads_it_from_the_environment() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for arguments in OF_A_TENANT {
        // That the value is refused shows that it is read, before any stack is looked for.
        let refused = with(unregistered(arguments, folder.path()), &[("REDIAL_TENANT", "Not A Tenant")]);
        let said = refused.refused_with(2);
        assert!(said.starts_with("error: REDIAL_TENANT: expected "), "{arguments}: {said}");
        assert!(said.ends_with("found `Not A Tenant`\n"), "{arguments}: {said}");
        if arguments != "local listen" {
            for variables in [&[][..], &[("REDIAL_TENANT", "")]] {
                let said = with(unregistered(arguments, folder.path()), variables).refused_with(2);
                assert!(said.starts_with("error: --tenant <TENANT>: required"), "{arguments}: {said}");
            }
        }
        let option = unregistered(format!("{arguments} --tenant A"), folder.path());
        let said = with(option, &[("REDIAL_TENANT", "acme")]).refused_with(2);
        assert!(said.starts_with("error: --tenant: expected "), "{arguments}: {said}");
    }
}

#[test]
fn a_command_that_needs_its_own_option_does_not_read_the_tenant_of_the_shell() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for arguments in OF_NO_VARIABLE {
        let refused = with(unregistered(arguments, folder.path()), &[("REDIAL_TENANT", "acme")]);
        let said = refused.refused_with(2);
        assert!(said.contains("--tenant <TENANT>: required"), "{arguments}: {said}");
    }
}

#[tokio::test]
async fn stack_state_and_tenant_can_come_from_the_environment() {
    let stack = TestStack::idle().await;
    let state = stack.state();
    let state = state.to_str().expect("text");
    let variables = [("REDIAL_STATE_DIR", state), ("REDIAL_TENANT", "acme")];
    let sent = with(redial("send --to s1 --payload hello --id d1"), &variables);
    assert!(sent.stderr.contains("what becomes of it: redial status d1 --tenant acme\n"), "{}", sent.stderr);
    let sent = sent.succeeds();
    assert!(sent.starts_with("acme d1 "), "{sent}");
    // An option wins.
    let sent = with(redial("send --to s1 --payload hello --id d2 --tenant beta"), &variables).succeeds();
    assert!(sent.starts_with("beta d2 "), "{sent}");
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let nowhere = with(unregistered("status d1", elsewhere.path()), &variables);
    assert!(nowhere.ends_with(1).contains("no local stack is up"));
    let known = with(redial("local env --name here"), &variables).succeeds();
    assert!(known.contains(&stack.queues().ingest), "{known}");
    // The summary is of the whole stack, whatever the shell's tenant is.
    let summary = with(redial("status --summary --json"), &variables).json();
    assert_eq!(summary["ok"], true, "{summary}");

    // A stack that CloudFormation has, and that no option names.
    let (key, endpoint) = (stack.stack().key(), &stack.description().endpoint);
    let deployed_as = stack.variables(&stack.description().functions.dispatch).await["REDIAL_STACK"].clone();
    let deployed = |name: &str| {
        let mut command = redial("send --to s1 --payload hello --id d3 --tenant acme");
        command.env("REDIAL_STACK", name).env("AWS_ENDPOINT_URL", endpoint).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", key.id()).env("AWS_SECRET_ACCESS_KEY", key.expose_secret());
        run(&mut command, "")
    };
    assert!(deployed(&deployed_as).succeeds().starts_with("acme d3 "));
    let said = deployed("no-such-stack").ends_with(1);
    assert!(said.contains("no stack named no-such-stack in us-east-1"), "{said}");
}
