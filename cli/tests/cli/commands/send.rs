//! `redial send`: to the queue of a lane, to a stack by its name, and when SQS fails in part.

use std::{collections::BTreeMap, fs, sync::Arc};

use redial_testkit::proxy::{Fault, FaultProxy};

use crate::prelude::*;

#[tokio::test]
async fn messages_reach_their_lane_s_queue_unchanged_and_are_answered_with_ids() {
    let stack = TestStack::idle().await;
    let queues = stack.queues();

    let pretty =
        "{\n  \"tenant\": \"acme\",\n  \"to\": {\"subscription\": \"s1\"},\n  \"id\": \"order-17\"\n}\n";
    let file = stack.folder().join("message.json");
    fs::write(&file, pretty).expect("writable");
    let send_file = format!("send {}", file.display());
    let sent = stack.shown(&send_file);
    assert!(sent.starts_with("acme order-17 "), "{sent}");
    let found = stack.receive(&queues.ingest, 1).await.swap_remove(0);
    assert_eq!((found.body.as_str(), found.group.as_str()), (pretty.trim(), "acme"));

    let tenants = ["acme", "bolt", "crux"];
    let line = |n: usize| {
        let tenant = tenants[n % 3];
        format!(r#"{{"tenant":"{tenant}","to":{{"subscription":"s1"}},"payload":"s3cret {n}"}}"#)
    };
    let many: String = (0..230).map(|n| line(n) + "\n").collect();
    let sent = stack.redial_reading("send - --lane bulk --json", &many);
    let answers = sent.json_lines();
    assert_eq!(answers.len(), 230);
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!((&answer["line"], &answer["tenant"]), (&json!(n + 1), &json!(tenants[n % 3])));
        assert_eq!(answer["id"], answer["message_id"], "an id that SQS gave is the delivery's");
        assert_eq!(answer["error"], Value::Null);
    }
    let said = format!("{}{}", sent.stderr, sent.stdout);
    assert!(!said.contains("s3cret"), "a payload was printed: {said}");
    let found = stack.receive(&queues.bulk, 230).await.into_iter().map(|it| (it.body, it.group));
    let found: BTreeMap<String, String> = found.collect();
    let expected = (0..230).map(|n| (line(n), tenants[n % 3].to_owned())).collect();
    assert_eq!(found, expected);

    let unread = run_closed(&mut stack.command(&send_file));
    assert_eq!(unread.status, Some(0), "a reader that leaves does not stop it");
    stack.receive(&queues.ingest, 1).await;

    let wrong = format!("{}\n{{\"tenant\":\"acme\"}}\n", line(0));
    stack.redial_reading("send -", &wrong).ends_with(2);
    let left = stack.sqs.receive_message().queue_url(&queues.ingest).send().await.expect("SQS answers");
    assert_eq!(left.messages().len(), 0, "nothing is sent where a line is invalid");
}

#[tokio::test]
async fn a_deployed_stack_is_found_by_its_outputs_and_a_missing_queue_reported() {
    if left_out_on_localstack("a stack without its ingest queue is one that it has forgotten") {
        return;
    }
    let stack = TestStack::idle().await;
    let description = stack.description();
    let deployed = |name: &str| {
        let mut command = redial(format!("send - --region us-east-1 --stack {name}"));
        command.env("AWS_ENDPOINT_URL", &description.endpoint);
        let key = stack.stack().key();
        command.env("AWS_ACCESS_KEY_ID", key.id()).env("AWS_SECRET_ACCESS_KEY", key.expose_secret());
        command
    };
    let message = r#"{"tenant":"acme","to":{"subscription":"s1"},"id":"d1"}"#;
    let variables = stack.variables(&description.functions.dispatch).await;
    let name = variables.get("REDIAL_STACK").expect("it has its stack's name");
    assert!(run(&mut deployed(name), message).succeeds().starts_with("acme d1 "));
    stack.receive(&description.queues.ingest, 1).await;

    let said = run(&mut deployed("no-such-stack"), message).ends_with(1);
    assert!(said.contains("no stack named no-such-stack in us-east-1"), "{said}");

    stack.sqs.delete_queue().queue_url(&description.queues.ingest).send().await.expect("it exists");
    let refused = stack.redial_reading("send - --json", &format!("{message}\n").repeat(400));
    let answers = refused.json_lines();
    assert!((50..300).contains(&answers.len()), "{}", answers.len());
    assert!(answers.iter().all(|it| it["error"].is_string() && it["id"] == "d1"), "{answers:?}");
    let said = refused.ends_with(1);
    assert!(said.contains("0 of 400 sent") && said.contains("not tried"), "{said}");
}

#[tokio::test]
async fn a_failed_entry_is_sent_again_a_doubtful_one_with_an_id() {
    if left_out_on_localstack("commands ask it first whether it has the stack, and the calls are counted") {
        return;
    }
    let stack = TestStack::idle().await;
    let queue = &stack.queues().ingest;
    let proxy = FaultProxy::start(&stack.description().endpoint).expect("a free port");
    stack.register_at(proxy.url());
    let line = |rest: &str| format!("{{\"tenant\":\"acme\",\"to\":{{\"subscription\":\"s1\"}}{rest}}}\n");

    proxy.on_call(1, Fault::FailEntry { index: 3 });
    let ten: String = (0..10).map(|n| line(&format!(r#","payload":{n}"#))).collect();
    let answers = stack.redial_reading("send - --json", &ten).json_lines();
    assert!(answers.len() == 10 && answers.iter().all(|it| it["message_id"].is_string()), "{answers:?}");
    assert_eq!(proxy.calls().len(), 2, "the failed one goes alone");
    let found = stack.receive(queue, 10).await.into_iter().map(|it| it.body + "\n");
    let mut found: Vec<String> = found.collect();
    found.sort();
    assert_eq!(found.concat(), ten, "each is there once");

    proxy.reset();
    proxy.on_call(1, Fault::KillAfter(Arc::new(|| ())));
    let unanswered = stack.redial_reading("send -", &(line(r#","id":"d1""#) + &line("")));
    assert_eq!(proxy.calls().len(), 2);
    assert!(unanswered.stdout.starts_with("acme d1 "), "{}", unanswered.stdout);
    assert_eq!(unanswered.stdout.lines().count(), 1, "{}", unanswered.stdout);
    let said = unanswered.ends_with(1);
    assert!(said.contains("line 2: not sent: ") && said.contains("it may have been sent"), "{said}");
    let found = stack.receive(queue, 3).await;
    let twice = found.iter().filter(|it| it.body.contains("d1")).count();
    assert_eq!(twice, 2, "the ledger makes one of them");

    proxy.reset();
    proxy.when(|_| true, Fault::Status(400, r#"{"__type":"AccessDenied","message":"not yours"}"#.to_owned()));
    let denied = stack.redial_reading("send - --json", &line(r#","id":"d2""#));
    assert_eq!((denied.status, proxy.calls().len()), (Some(1), 1), "that is not tried again");
    assert_eq!(denied.json()["error"], "AccessDenied: not yours");
}

#[tokio::test]
async fn a_warning_says_what_is_true_of_the_stack_it_is_sent_to() {
    let allowed = "https://localhost:8443";
    let bootstraps = redial_tests::test_stack::placeholders();
    let stack = TestStack::as_deployed_with(|options| {
        options.bootstraps = Some(bootstraps.path().to_owned());
        options.egress_allow = vec![allowed.to_owned()];
    })
    .await;
    stack.set_mappings(None, false).await;
    let said = |to: &str, payload: &str| {
        let message = json!({"tenant": "acme", "to": parsed(to), "payload": payload}).to_string();
        let done = stack.redial_reading("send -", &message);
        assert_eq!(done.status, Some(0), "{done:?}");
        done.stderr
    };
    let webhook = |origin: &str| format!(r#"{{"webhook":{{"url":"{origin}/s3cret"}}}}"#);
    assert!(!said(&webhook(allowed), "x").contains("warning"), "the stack allows it");
    let refused = said(&webhook("https://localhost:9443"), "x");
    let words = "warning: line 1: to.webhook.url: only public addresses are allowed, on port 443, and EgressAllow of here does not \
                 name https://localhost:9443: it will become a dead letter (endpoint_not_allowed)";
    assert!(refused.contains(words) && !refused.contains("s3cret"), "{refused}");

    let long = "x".repeat(5_000);
    let to = r#"{"subscription":"s1"}"#;
    let warned = "it will be a dead letter (payload_too_large)";
    assert!(said(to, &long).contains(&format!("{warned} if the subscription is a browser's")));
    stack
        .redial_reading("subscriptions put --tenant acme --id s1", r#"{"url":"https://a.example"}"#)
        .succeeds();
    assert!(!said(to, &long).contains("warning"), "a receiver takes it");
    stack.redial_reading("subscriptions put --tenant acme --id s1 --replace", super::SUBSCRIPTION).succeeds();
    assert!(said(to, &long).contains(&format!("{warned}\n")), "a browser does not");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_send_says_what_was_sent_and_whether_it_may_be_repeated() {
    let stack = TestStack::idle().await;
    for (fields, words) in [
        (r#","id":"d{}""#, "so the same command delivers none of it twice"),
        ("", "so the same command delivers them twice: send only what follows line "),
    ] {
        let line = |n: usize| {
            let fields = fields.replace("{}", &n.to_string());
            format!("{{\"tenant\":\"acme\",\"to\":{{\"subscription\":\"s1\"}}{fields}}}\n")
        };
        let file = stack.folder().join("many.ndjson");
        fs::write(&file, (0..20_000).map(line).collect::<String>()).expect("writable");
        let mut sending = started(&mut stack.command(format!("send {}", file.display())));
        let mut first = String::new();
        let mut stdout = std::io::BufReader::new(sending.stdout.take().expect("piped"));
        std::io::BufRead::read_line(&mut stdout, &mut first).expect("text");
        assert!(first.starts_with("acme "), "{first}");
        interrupt(&sending);
        let sent = 1 + std::io::BufRead::lines(stdout).count();
        let said = Done::from(sending.wait_with_output().expect("it ends")).ends_with(1);
        assert!(sent < 20_000 && said.contains(&format!("{sent} of 20000 sent to here")), "{sent}: {said}");
        assert!(said.contains("interrupted: ") && said.contains(words), "{said}");
    }
}
