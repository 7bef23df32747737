//! The producers and consumers of the pages, run as they stand there.

use std::{path::PathBuf, process::Stdio};

use redial_tests::{files::workspace, prelude::*};
use tokio::process::Command;

use crate::http_api;

const PAGES: [&str; 3] = [
    include_str!("../../infra/docs/send.md"),
    include_str!("../../infra/docs/http-api.md"),
    include_str!("../../infra/docs/events.md"),
];

/// The code of the one block that is marked to be run in that language.
pub(crate) fn snippet(language: &str) -> String {
    let mark = format!("<!-- run: {language} -->\n```");
    let marked = PAGES.iter().find_map(|page| page.split(&mark).nth(1)).expect("a page has it");
    let code = marked.split_once('\n').expect("a fence ends its line").1;
    code.split("```").next().expect("a block ends").to_owned()
}

/// A Python with boto3: the embedded emulator's own, which nothing has installed yet if all stacks are on a LocalStack.
pub(crate) fn python() -> PathBuf {
    redial::local::python(&redial::local::Progress::silent()).expect("the emulator can be installed")
}

pub(crate) fn with_access<'a>(command: &'a mut Command, stack: &TestStack) -> &'a mut Command {
    let key = stack.stack().key();
    command
        .env("AWS_ENDPOINT_URL", &stack.description().endpoint)
        .env("AWS_REGION", &stack.description().region)
        .env("AWS_DEFAULT_REGION", &stack.description().region)
        .env("AWS_ACCESS_KEY_ID", key.id())
        .env("AWS_SECRET_ACCESS_KEY", key.expose_secret())
        .stdin(Stdio::null())
}

/// Sends twelve messages, so that it takes two batches, and sees them arrive.
async fn run(mut command: Command, stack: &TestStack, browser: &Subscriber) {
    let messages: Vec<_> =
        (0..12).map(|n| stack.message(&format!("m{n}"), browser, format!("hello {n}"))).collect();
    let done = with_access(&mut command, stack)
        .env("INGEST_QUEUE_URL", &stack.queues().ingest)
        .env("MESSAGES", json!(messages).to_string())
        .output()
        .await
        .expect("the interpreter starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let received = stack.received(browser, 12).await;
    let mut texts: Vec<_> = received.iter().filter_map(|push| push.text()).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 12);
}

#[tokio::test]
async fn the_python_producer_sends() {
    let stack = TestStack::shared().await;
    let browser = stack.browser();
    let mut python = Command::new(python());
    python.args(["-c", &snippet("python")]);
    run(python, &stack, &browser).await;
}

#[tokio::test]
async fn the_curl_commands_subscribe_send_and_read_the_state() {
    let stack = TestStack::up().await;
    let browser = stack.browser();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let document = http_api::subscription(&browser).to_string();
    std::fs::write(folder.path().join("subscription.json"), document).expect("it is ours");
    let done = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &snippet("curl")])
        .current_dir(folder.path())
        .env("API", stack.description().api_url.as_deref().expect("the stack has an API"))
        .env("KEY", stack.api_key("acme").await)
        .env("no_proxy", "*")
        .stdin(Stdio::null())
        .output()
        .await
        .expect("bash starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let answers: Vec<Value> = std::str::from_utf8(&done.stdout).expect("text").lines().map(parsed).collect();
    let [subscribed, taken, known] = answers.as_slice() else { panic!("{answers:?}") };
    assert_fields(subscribed, json!({"subscription": "me", "state": "active"}));
    assert_fields(taken, json!({"id": "order-17", "state": "queued"}));
    // Two seconds are enough, unless the machine is busy.
    let state = known["state"].as_str().expect("a state");
    assert!(["queued", "sending", "sent"].contains(&state), "{known}");
    let received = stack.received(&browser, 1).await;
    assert_eq!(received[0].text(), Some(r#"{"title": "Your parcel is here"}"#));
}

#[tokio::test]
async fn the_node_producer_sends() {
    let has_node = Command::new("npm").arg("--version").output().await.is_ok_and(|it| it.status.success());
    if !has_node {
        assert!(std::env::var_os("CI").is_none(), "npm is missing: CI must run the Node.js producer");
        println!("not run: there is no npm on this machine");
        return;
    }
    let folder = workspace().join("target/redial/node");
    std::fs::create_dir_all(&folder).expect("target is writable");
    let install = "install --silent --no-audit --no-fund --no-package-lock @aws-sdk/client-sqs@3.1169.0";
    let installed = Command::new("npm")
        .args(install.split(' '))
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("npm starts");
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    std::fs::write(folder.join("producer.mjs"), snippet("node")).expect("target is writable");
    let stack = TestStack::shared().await;
    let browser = stack.browser();
    let mut node = Command::new("node");
    node.arg("producer.mjs").current_dir(&folder);
    run(node, &stack, &browser).await;
}
