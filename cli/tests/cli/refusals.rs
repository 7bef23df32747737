//! What the commands refuse with status 2 before they look for a stack, and what they say when there is none.

use crate::prelude::*;

/// Arguments of commands that work on a stack, and words of the refusal.
const ON_A_STACK: &[(&str, &str)] = &[
    ("api-keys", ""),
    ("api-keys create --tenant acme", ""),
    ("api-keys create --scope send", ""),
    ("api-keys create --tenant acme --scope admin", ""),
    ("api-keys create --tenant acme --scope send,", ""),
    ("api-keys create --tenant acme --scope send --expires-in 0s", ""),
    ("api-keys create --tenant acme --scope send --expires-in 3651d", ""),
    ("api-keys create --tenant acme --scope send --iam-arn Shop", ""),
    ("api-keys create --tenant acme --scope send --label=", ""),
    ("api-keys create --tenant acme --scope send --label=\u{1b}[2J", ""),
    (
        "api-keys create --tenant acme --scope send --label=01234567890123456789012345678901234567890123456789012345678901234",
        "",
    ),
    ("api-keys list --tenant Acme", ""),
    ("api-keys revoke rdk_4Xb0m2Qp9Lk7_s3cret --yes", ""),
    ("api-keys revoke short --yes", "12 letters and digits"),
    ("api-keys revoke rdk_ --yes", "12 letters and digits"),
    ("breakers", ""),
    ("breakers open", ""),
    ("breakers open push.example", ""),
    ("breakers open http://push.example", ""),
    ("breakers open https://push.example --for 0s", ""),
    ("breakers open https://push.example --for 25h", ""),
    ("breakers open https://push.example --for soon", ""),
    ("breakers close https://push.example --for 1m", ""),
    ("dead-letters replay", "--all"),
    ("dead-letters purge", "--all"),
    ("dead-letters purge --yes", "--all"),
    ("dead-letters replay --all --tenant acme", "--all cannot be combined"),
    ("dead-letters purge --tenant acme", "--yes"),
    ("dead-letters purge --all", "--yes"),
    ("dead-letters list --since 1h --until 2h", "nothing is between"),
    ("dead-letters replay --tenant acme --since 1h --until 2h", "nothing is between"),
    ("dead-letters list --since yesterday", "2h, 7d"),
    ("dead-letters list --reason no_such_reason", "retries_exhausted"),
    ("dead-letters list --channel sms", "web_push"),
    ("dead-letters list --endpoint-hash !", "an endpoint's hash"),
    ("dead-letters list --tenant Acme", "lower-case"),
    ("dead-letters list --limit 0", "--limit"),
    ("dead-letters list --after d1", "TIME/TENANT/ID/LETTER"),
    ("dead-letters replay --tenant acme --rate 0", "2000/s"),
    ("dead-letters replay --tenant acme --dry-run --checkpoint a.json", "--checkpoint"),
    ("dead-letters show d1", "--tenant"),
    ("dead-letters show d1 --tenant acme --body --json", "--json"),
    ("hash-key rotate --id a:b", "1 to 32 letters"),
    ("hash-key retire", "<ID>"),
    ("hash-key status --stack a --local b", "--local"),
    ("limits", ""),
    ("limits set origin https://push.example", ""),
    ("limits set origin https://push.example 0/s", ""),
    ("limits set origin https://push.example 50/d", ""),
    ("limits set origin acme 50/s", ""),
    ("limits set origin https://s3cret@push.example 50/s", ""),
    ("limits set tenant https://push.example 50/s", "NAME: expected a tenant: 1 to 63"),
    ("limits set endpoint https://push.example 50/s", ""),
    ("limits unset tenant", ""),
    ("policy set --tenant acme no-such", ""),
    ("policy set --tenant Acme otp", ""),
    ("policy set --tenant acme --topic= otp", ""),
    ("policy set otp", ""),
    ("send", ""),
    ("send /nowhere/messages.json", ""),
    ("send - --stack a --local b", ""),
    ("status", ""),
    ("status d1", ""),
    ("status --tenant acme", ""),
    ("status d1 --tenant Acme", ""),
    ("status d1 --tenant acme --summary", ""),
    ("status --summary --wait 5", ""),
    ("status --summary --watch 0", ""),
    ("status d1 --tenant acme --watch 5", ""),
    ("status d1 --tenant acme --all", ""),
    ("subscriptions list --tenant acme", ""),
    ("subscriptions list --failing", ""),
    ("subscriptions list --failing --tenant Acme", ""),
    ("subscriptions enable --tenant acme", ""),
    ("subscriptions enable hooks", ""),
    ("tail --verdict accepted", "sent, sign_again, retry, gone, failed"),
    ("tail --tenant *", ""),
    ("tail --id order-*", ""),
    ("tail --since=soon", "90s, 30m, 2h, 7d"),
    ("tail --since=10", "90s, 30m, 2h, 7d"),
    ("tail --since=-1m", "90s, 30m, 2h, 7d"),
    ("vapid retire", "<ID>"),
    ("vapid retire k1", "--yes"),
    ("webhooks", ""),
    ("webhooks secret", ""),
    ("webhooks rotate-secret --tenant acme", ""),
    ("webhooks rotate-secret --tenant acme --id hooks --grace 1w", ""),
    ("webhooks rotate-secret --tenant acme --id hooks --grace 32d", ""),
    ("webhooks rotate-secret --tenant acme --id hooks --grace -1h", ""),
];

/// The same of commands that need no stack, or run without `--state`.
const WITHOUT_A_STACK: &[(&str, &str)] = &[
    ("cost --dead-letter-rate -1", ""),
    ("policy show", ""),
    ("policy show web_push", "web-push, or a file such as ./mine.json"),
    ("policy show web-push --f 150", ""),
    ("policy show wait-factor --f 9", ""),
    ("policy show schedule-standard --max-retries 4", ""),
    ("policy plot web-push -o p.png", ""),
    ("policy plot no-such -o p.svg", ""),
    ("status d1 --tenant acme --region eu-central-1", ""),
    ("simulate --rate fast", "2000/s, 120/min"),
    ("simulate --rate 0/s", "2000/s, 120/min"),
    ("simulate --capacity 1.5/s", "2000/s, 120/min"),
    ("simulate --outage 5", "1m..2m30s"),
    ("simulate --outage 35..5", "START before END"),
    ("simulate --policy web_push", "no policy is named web_push: expected one of"),
    ("simulate --policy ./nowhere.json", "./nowhere.json cannot be read"),
    ("simulate --jitter some", "additive=FRACTION"),
    ("simulate --messages 0", "--messages"),
    ("simulate --rate 1/h", "longer than a year"),
    ("simulate --ttl 2419201", "--ttl"),
    ("simulate -o herd.png", "ends in .svg"),
    ("simulate --workers 0", "1..=10000"),
    ("simulate --workers 10001", "1..=10000"),
    ("simulate --breaker on", "--workers <N>"),
    ("simulate --limit 50/s", "--workers <N>"),
    ("simulate --counter-lag 2s", "--workers <N>"),
    ("simulate --workers 2 --breaker half", "possible values: on, off, both"),
    ("simulate --workers 2 --limit 0/s", "2000/s, 120/min"),
    ("simulate --workers 2 --counter-lag 2ms", "1m30s"),
    ("simulate --tenants acme", "acme:1000,other:10"),
    ("simulate --tenants acme:1 --messages 7", "cannot be used with"),
];

/// Commands that are right, but for the stack, which is not there.
const NO_STACK: &[&str] = &[
    "api-keys create --tenant acme --scope send --expires-in 3650d --label 0123456789012345678901234567890123456789012345678901234567890123",
    "api-keys list",
    "breakers list",
    "breakers open https://push.example",
    "breakers close https://push.example",
    "dead-letters list",
    "dead-letters show d1 --tenant acme",
    "dead-letters replay --all",
    "dead-letters purge --all --yes",
    "limits list",
    "limits set tenant acme 50/s",
    "limits unset tenant acme",
    "status --summary",
    "subscriptions list --failing --tenant acme",
    "subscriptions enable hooks --tenant acme",
    "webhooks rotate-secret --tenant acme --id hooks --grace 31d",
    "webhooks secret --tenant acme",
];

const SUBSCRIPTION: &str = "subscriptions put --tenant acme --id hooks";

/// Runs a command in a folder without a stack.
fn run_in_no_folder(arguments: impl Arguments, stdin: &str) -> Done {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run(&mut unregistered(arguments, folder.path()), stdin)
}

/// The lines of a refusal, without any part of a secret.
#[track_caller]
fn refused(arguments: impl Arguments, stdin: &str) -> Vec<String> {
    let said = run_in_no_folder(arguments, stdin).refused_with(2);
    assert!(!said.contains("s3cret"), "{said}");
    said.lines().map(str::to_owned).collect()
}

#[test]
fn wrong_arguments_are_refused_and_no_secret_is_repeated() {
    let mut wrong = Vec::new();
    let on_a_stack = ON_A_STACK.iter().map(|case| (case, run_in_no_folder(case.0, "")));
    let without = WITHOUT_A_STACK.iter().map(|case| (case, run(&mut redial(case.0), "")));
    for ((arguments, words), done) in on_a_stack.chain(without) {
        let holds = done.status == Some(2) && done.stdout.is_empty() && done.stderr.contains(words);
        if !holds || done.stderr.contains("s3cret") {
            wrong.push(format!("{arguments}: {done:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    refused(["status", "a b", "--tenant", "acme"], "");
    refused(["subscriptions", "enable", "a b", "--tenant", "acme"], "");
    assert!(refused(["vapid", "rotate", "--id", "a b"], "").concat().contains("1 to 64 letters"));
}

#[test]
fn a_missing_stack_is_reported_with_the_ways_to_name_one() {
    let mut wrong = Vec::new();
    for arguments in NO_STACK {
        let done = run_in_no_folder(*arguments, "");
        let names_ways = ["redial local up", "--stack"].iter().all(|way| done.stderr.contains(way));
        if done.status != Some(1) || !done.stdout.is_empty() || !names_ways {
            wrong.push(format!("{arguments}: {done:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let said = run_in_no_folder("send -", r#"{"tenant":"acme","to":{"subscription":"s1"}}"#).ends_with(1);
    assert!(said.contains("redial local up") && said.contains("--stack"), "{said}");
}

#[test]
fn an_endpoint_given_for_an_origin_is_refused_without_its_path() {
    for command in ["breakers open", "breakers close", "limits unset origin"] {
        let said = refused(format!("{command} https://push.example:8443/wpush/s3cret?token=s3cret"), "");
        let said = said.join("\n") + "\n";
        for words in [
            "expected an origin, https://host or https://host:port, found",
            "its origin is https://push.example:8443\n",
        ] {
            assert!(said.contains(words), "{said}");
        }
    }
}

#[test]
fn tail_takes_no_value_that_could_end_its_filter_pattern() {
    for (name, value) in [
        ("--tenant", r#"acme" || $.tenant = "beta"#),
        ("--id", r#"a" || $.event = "attempt"#),
        ("--verdict", r#"sent" || $.verdict = "failed"#),
    ] {
        refused(["tail", name, value], "");
    }
}

#[test]
fn an_invalid_message_is_refused_with_its_line_and_field() {
    let wrong = concat!(
        r#"{"tenant":"acme","to":{"subscription":"s1"},"payload":"s3cret"}"#,
        "\n",
        r#"{"tenant":"acme","to":{"subscription":"s1"},"ttl":"s3cret"}"#,
    );
    let expected = "error: line 2: ttl: expected whole seconds from 0 to 31536000 (a year), found a string";
    assert_eq!(refused("send -", wrong), [expected]);
    let authorization = r#"{"tenant":"acme","to":{"webhook":{"url":"https://a.example/s3cret"}},"headers":{"Authorization":"s3cret"}}"#;
    let said = refused("send -", authorization);
    assert!(
        said.len() == 1 && said[0].contains("headers: expected names that any message may set"),
        "{said:?}"
    );
}

#[test]
fn an_invalid_webhook_is_refused_with_all_its_errors() {
    let wrong = r#"{"url":"http://s3cret.example","secrets":["whsec_s3cret"],"headers":{"Host":"s3cret","x-a":7},
        "permit_headers":"s3cret","policy":{"retry_delays":["s3cret"]},"topic":7,"rate":1}"#;
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
    let said = refused(SUBSCRIPTION, wrong);
    assert_eq!(said.len(), fields.len(), "{said:?}");
    for (line, field) in said.iter().zip(fields) {
        assert!(line.starts_with(&format!("error: {field}: expected ")), "{field}: {line}");
    }
}

#[test]
fn an_invalid_subscription_is_refused() {
    for text in ["", "[]", "{}", "no JSON", r#"{"uri":"https://s3cret.example"}"#] {
        assert!(!refused(SUBSCRIPTION, text).is_empty(), "{text}");
    }
    let said = refused(SUBSCRIPTION, r#"{"endpoint":"s3cret"}"#).join("\n");
    assert!(said.contains("endpoint: expected an https URL"), "{said}");
    let with_key = refused(format!("{SUBSCRIPTION} --vapid-key-id k1"), r#"{"url":"https://a.example"}"#);
    assert_eq!(with_key, ["error: --vapid-key-id: a webhook has no VAPID key"]);
}

#[test]
fn an_invalid_policy_is_refused_with_all_its_errors() {
    let said = refused("policy set --tenant acme -", r#"{"max_retries":101,"f":1}"#);
    assert_eq!(
        said,
        [
            "error: standard input: max_retries: expected an integer from 0 to 100, found an integer: 101",
            "error: standard input: f: expected no such field, found an integer: 1",
        ]
    );
}

#[test]
fn a_webhook_inside_the_network_is_warned_about() {
    let message = r#"{"tenant":"acme","to":{"webhook":{"url":"https://10.0.0.1/s3cret"}}}"#;
    let said = run_in_no_folder("send -", message).stderr;
    assert!(said.starts_with("warning: line 1: to.webhook.url: ") && !said.contains("s3cret"), "{said}");
}
