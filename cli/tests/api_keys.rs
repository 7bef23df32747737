//! API keys on a stack: what is made is listed, found and revoked, and the secret is printed once and kept nowhere.
//!
//! The functions are placeholders: none of them knows keys yet when the first one is made.

#[path = "shared/noted.rs"]
mod noted;
#[path = "shared/placeholders.rs"]
mod placeholders;

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use noted::note;
use placeholders::placeholders;
use redial::local::{Options, Stack};
use redial_adapters::{access_dynamo::DynamoAccess, system::System};
use redial_core::access::{ApiKey, ApiKeyId, IamArn, Principal, Scope};
use redial_engine::ports::{AccessKeys as _, Clock as _};
use serde_json::{Value, json};

const ROLE: &str = "arn:aws:iam::111122223333:role/teams/Shop";

/// A stack, and a folder in which the command line finds it.
struct World {
    stack: Stack,
    folder: tempfile::TempDir,
}

impl World {
    async fn up() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        placeholders(folder.path());
        let options = Options { bootstraps: Some(folder.path().to_owned()), ..Options::default() };
        let stack = Stack::up(options).await.unwrap_or_else(|error| panic!("the stack comes up: {error}"));
        note(folder.path(), stack.description());
        Self { stack, folder }
    }

    fn redial(&self, arguments: &[&str]) -> Output {
        run(arguments, &self.folder.path().join("state"))
    }

    /// What a command prints as JSON.
    fn answer(&self, arguments: &[&str]) -> Value {
        let shown = stdout(&self.redial(&[arguments, &["--json"]].concat()));
        serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {shown}"))
    }

    fn client(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.stack.sdk_config())
    }

    /// A worker that has not read anything yet.
    fn worker(&self) -> DynamoAccess {
        DynamoAccess::new(self.client(), self.stack.description().tables.control.clone())
    }

    /// All that the control table holds, as text.
    async fn table(&self) -> String {
        let scan = self.client().scan().table_name(&self.stack.description().tables.control);
        let items: Result<Vec<_>, _> = scan.into_paginator().items().send().collect().await;
        format!("{:?}", items.expect("it is there"))
    }
}

fn run(arguments: &[&str], state: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.args(arguments).arg("--state").arg(state).stdin(Stdio::null());
    command.output().expect("it was built")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked_and_no_secret_is_stored() {
    let world = World::up().await;
    assert_eq!(world.answer(&["api-keys", "list"]), json!({"keys": []}));

    // The key is alone on standard output, and is good.
    let create = ["api-keys", "create", "--tenant", "acme", "--scope", "send,read"];
    let made = world.redial(&[&create[..], &["--label", "shop", "--expires-in", "90d"]].concat());
    let (shown, said) = (stdout(&made), stderr(&made));
    let text = shown.strip_suffix('\n').expect("a line");
    let key = ApiKey::parse(text).expect("a key and nothing else");
    assert!(!said.contains(text) && said.contains("not shown again"), "{said}");
    let found = world.worker().find(key.id()).await.expect("it answers").expect("it is stored");
    let grant = found.grant_to(&key, System.now()).expect("it is good");
    assert_eq!((grant.tenant.as_str(), grant.scopes), ("acme", [Scope::Send, Scope::Read].into()));

    // A second one, for a script; and a role's right.
    let second = world.answer(&["api-keys", "create", "--tenant", "bolt", "--scope", "subscribe"]);
    let second_key = ApiKey::parse(second["key"].as_str().expect("the key")).expect("a key");
    assert_eq!((&second["id"], &second["expires_at"]), (&json!(second_key.id().as_str()), &Value::Null));
    let of_role = ["api-keys", "create", "--tenant", "acme", "--scope", "send", "--iam-arn", ROLE];
    let right = stdout(&world.redial(&of_role));
    let right = ApiKeyId::parse(right.trim_end()).expect("an id");
    let session = IamArn::parse("arn:aws:sts::111122223333:assumed-role/Shop/i-0abc").expect("a session");
    let found = world.worker().find_iam(&session).await.expect("it answers").expect("it is stored");
    let grant = found.grant_to_iam(&session, System.now()).expect("it is good");
    assert_eq!(grant.principal, Principal::Iam(session.clone()));
    let again = world.redial(&of_role);
    assert_eq!((again.status.code(), again.stdout.as_slice()), (Some(1), &b""[..]));
    assert!(stderr(&again).contains(&format!("redial api-keys revoke {right}")), "{}", stderr(&again));

    // Neither secret is anywhere in the table, nor any part of it that would do.
    let table = world.table().await;
    assert!(table.contains(key.id().as_str()) && table.contains("access-of#acme"), "{table}");
    for secret in [text, second["key"].as_str().expect("the key")] {
        let secret = &secret["rdk_".len() + 13..];
        assert!(!table.contains(secret) && !table.contains(&secret[..20]), "a secret is in the table");
    }

    // Listed without secrets, all or one tenant's.
    let listed = stdout(&world.redial(&["api-keys", "list"]));
    assert_eq!(listed.lines().count(), 4, "{listed}");
    assert!(
        listed.contains("send,read") && listed.contains("arn:aws:iam::111122223333:role/Shop"),
        "{listed}"
    );
    assert!(!listed.contains("rdk_"), "{listed}");
    let listed = world.answer(&["api-keys", "list", "--tenant", "acme"]);
    let ids: Vec<&str> =
        listed["keys"].as_array().expect("a list").iter().filter_map(|it| it["id"].as_str()).collect();
    assert_eq!(ids, [key.id().as_str(), right.as_str()]);
    assert_eq!(
        (&listed["keys"][0]["state"], &listed["keys"][0]["label"]),
        (&json!("active"), &json!("shop"))
    );

    // Revoked: by its id, and once more by itself.
    let asked = world.redial(&["api-keys", "revoke", key.id().as_str()]);
    assert_eq!(asked.status.code(), Some(2), "not a terminal");
    assert!(
        world.worker().find(key.id()).await.expect("it answers").expect("stored").admits(&key, System.now())
    );
    let revoked = world.redial(&["api-keys", "revoke", key.id().as_str(), "--yes"]);
    assert_eq!(stdout(&revoked), format!("{} revoked\n", key.id()));
    let found = world.worker().find(key.id()).await.expect("it answers").expect("it stays");
    assert_eq!(found.grant_to(&key, System.now()), None);
    let again = stdout(&world.redial(&["api-keys", "revoke", text, "--yes"]));
    assert!(again.contains("was already revoked") && !again.contains(text), "{again}");
    let answer = world.answer(&["api-keys", "revoke", right.as_str(), "--yes"]);
    assert_eq!((&answer["state"], &answer["kind"]), (&json!("revoked"), &json!("iam")));
    let found = world.worker().find_iam(&session).await.expect("it answers").expect("it stays");
    assert_eq!(found.grant_to_iam(&session, System.now()), None);
    assert!(world.redial(&of_role).status.success(), "the principal may get another");
    let unknown = world.redial(&["api-keys", "revoke", "000000000000", "--yes"]);
    assert_eq!((unknown.status.code(), stderr(&unknown)), (Some(1), "no key 000000000000\n".to_owned()));
    let still = world.worker().find(second_key.id()).await.expect("it answers").expect("it is there");
    assert!(still.admits(&second_key, System.now()), "the other one");
}

#[test]
fn what_cannot_be_done_is_refused_before_any_stack_is_looked_for_and_no_secret_is_repeated() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let create = ["api-keys", "create", "--tenant", "acme", "--scope"];
    for arguments in [
        &["api-keys"][..],
        &["api-keys", "create", "--tenant", "acme"],
        &["api-keys", "create", "--scope", "send"],
        &[&create[..], &["admin"]].concat(),
        &[&create[..], &["send,"]].concat(),
        &[&create[..], &["send", "--expires-in", "0s"]].concat(),
        &[&create[..], &["send", "--iam-arn", "Shop"]].concat(),
        &[&create[..], &["send", "--label", ""]].concat(),
        &["api-keys", "list", "--tenant", "Acme"],
        &["api-keys", "revoke", "rdk_4Xb0m2Qp9Lk7_s3cret", "--yes"],
    ] {
        let done = run(arguments, folder.path());
        assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0), "{arguments:?}: {}", stderr(&done));
        assert!(!stderr(&done).contains("s3cret"), "{}", stderr(&done));
    }
    for arguments in [&[&create[..], &["send"]].concat()[..], &["api-keys", "list"]] {
        let done = run(arguments, folder.path());
        assert_eq!(done.status.code(), Some(1));
        assert!(stderr(&done).contains("redial local up"), "{}", stderr(&done));
    }
}
