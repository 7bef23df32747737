//! What the commands about webhooks refuse before they ask any stack.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

fn run(arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_redial"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was built");
    // A command that does not read its input has closed it.
    let _closed = child.stdin.take().expect("piped").write_all(stdin.as_bytes());
    child.wait_with_output().expect("it ends")
}

/// Refused with exit status 2 and nothing on standard output; what was said.
fn refused(arguments: &[&str], stdin: &str) -> Vec<String> {
    let done = run(arguments, stdin);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0), "{arguments:?}: {said}");
    said.lines().map(str::to_owned).collect()
}

const PUT: [&str; 6] = ["subscriptions", "put", "--tenant", "acme", "--id", "hooks"];

#[test]
fn everything_that_is_wrong_with_a_webhook_is_told_at_once_and_no_value_of_it() {
    let wrong = r#"{"url":"http://s3cret.example","secrets":["whsec_s3cret"],"headers":{"Host":"s3cret","x-a":7},
        "permit_headers":"s3cret","policy":{"retry_delays":["s3cret"]},"topic":7,"rate":1}"#;
    let told = refused(&PUT, wrong);
    let fields = [
        "url",
        "secrets[0]",
        "topic",
        "headers.Host",
        "headers.x-a",
        "permit_headers",
        "policy.retry_delays[0]",
        "rate",
    ];
    assert_eq!(told.len(), fields.len(), "{told:?}");
    for (line, field) in told.iter().zip(fields) {
        assert!(line.starts_with(&format!("error: {field}: expected ")), "{field}: {line}");
        assert!(!line.contains("s3cret"), "{line}");
    }
}

#[test]
fn what_is_no_subscription_of_either_kind_is_told() {
    for text in ["", "[]", "{}", "no JSON", r#"{"uri":"https://s3cret.example"}"#] {
        let told = refused(&PUT, text);
        assert!(!told.is_empty() && !told.concat().contains("s3cret"), "{text}: {told:?}");
    }
    let with_key = [&PUT[..], &["--vapid-key-id", "k1"]].concat();
    let told = refused(&with_key, r#"{"url":"https://a.example"}"#);
    assert_eq!(told, ["error: --vapid-key-id: a webhook has no VAPID key"]);
}

#[test]
fn what_a_command_cannot_do_is_refused() {
    for arguments in [
        &["subscriptions", "list", "--tenant", "acme"][..],
        &["subscriptions", "list", "--failing"],
        &["subscriptions", "list", "--failing", "--tenant", "Acme"],
        &["subscriptions", "enable", "--tenant", "acme"],
        &["subscriptions", "enable", "hooks"],
        &["subscriptions", "enable", "a b", "--tenant", "acme"],
        &["webhooks"],
        &["webhooks", "secret"],
        &["webhooks", "rotate-secret", "--tenant", "acme"],
        &["webhooks", "rotate-secret", "--tenant", "acme", "--id", "hooks", "--grace", "1w"],
        &["webhooks", "rotate-secret", "--tenant", "acme", "--id", "hooks", "--grace", "32d"],
        &["webhooks", "rotate-secret", "--tenant", "acme", "--id", "hooks", "--grace", "-1h"],
    ] {
        refused(arguments, "");
    }
}

#[test]
fn a_stack_that_is_not_there_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = folder.path().to_str().expect("a plain path");
    for arguments in [
        &["subscriptions", "list", "--failing", "--tenant", "acme"][..],
        &["subscriptions", "enable", "hooks", "--tenant", "acme"],
        &["webhooks", "rotate-secret", "--tenant", "acme", "--id", "hooks"],
        &["webhooks", "secret", "--tenant", "acme"],
    ] {
        let done = run(&[arguments, &["--state", state]].concat(), "");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!((done.status.code(), done.stdout.len()), (Some(1), 0), "{said}");
        assert!(said.contains("redial local up") && said.contains("--stack"), "{said}");
    }
}

#[test]
fn a_webhook_that_would_not_be_posted_to_is_warned_of_and_an_invalid_one_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = folder.path().to_str().expect("a plain path");
    let message = r#"{"tenant":"acme","to":{"webhook":{"url":"https://10.0.0.1/s3cret"}}}"#;
    let done = run(&["send", "-", "--state", state], message);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.starts_with("warning: line 1: to.webhook.url: ") && !said.contains("s3cret"), "{said}");
    let told = refused(
        &["send", "-"],
        r#"{"tenant":"acme","to":{"webhook":{"url":"https://a.example/s3cret"}},"headers":{"Authorization":"s3cret"}}"#,
    );
    assert!(
        told.len() == 1 && told[0].contains("headers: expected names that any message may set"),
        "{told:?}"
    );
    assert!(!told[0].contains("s3cret"), "{told:?}");
}

#[test]
fn what_holds_for_a_webhook_is_explained_without_a_stack_too() {
    let explain = ["policy", "explain", "-", "--offline", "--json"];
    let told = |message: &str| {
        let done = run(&explain, message);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice::<serde_json::Value>(&done.stdout).expect("JSON")
    };
    let webhook = told(r#"{"tenant":"acme","to":{"webhook":{"url":"https://a.example"}},"class":"otp"}"#);
    assert_eq!((&webhook["source"], &webhook["name"]), (&"channel".into(), &"schedule-standard".into()));
    assert_eq!((&webhook["channel"], webhook["retries"][0].get("within_ttl")), (&"webhook".into(), None));
    let limited = told(r#"{"tenant":"acme","to":{"webhook":{"url":"https://a.example"}},"ttl":3600}"#);
    assert_eq!(limited["retries"][2]["within_ttl"], "never");
}
