//! The commands that work on a stack, on one: what they write is there, and what is there they find.
//!
//! The functions are placeholders and their mappings off, so that what is sent stays where it was put.

#[path = "shared/noted.rs"]
mod noted;
#[path = "shared/placeholders.rs"]
mod placeholders;

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    process::{Command, Output, Stdio},
    sync::Arc,
    time::Duration,
};

use aws_sdk_sqs::types::MessageSystemAttributeName;
use noted::note;
use placeholders::placeholders;
use redial::local::{Description, Options, Stack};
use redial_adapters::{dead_letters_dynamo::DynamoDeadLetters, ledger_dynamo::DynamoLedger, system::System};
use redial_core::{
    channel::Channel,
    dead_letter::{Kind, LetterBody, LetterKey, Reference},
    endpoint::HashKeys,
    identity::IdSource,
    identity::{DeliveryId, DeliveryKey, Lineage, Tenant, Turn},
    ledger::{Ask, Record, State},
    outcome::NotSent,
    reason::Reason,
};
use redial_engine::ports::{Claim, Clock as _, DeadLetterBodies as _, DeadLetterStore as _, Ledger as _};
use redial_testkit::proxy::{Fault, FaultProxy};
use serde_json::Value;

#[path = "stack_commands/acks.rs"]
mod acks;
#[path = "stack_commands/audiences.rs"]
mod audiences;
#[path = "stack_commands/webhooks.rs"]
mod webhooks;

const SUBSCRIPTION: &str = r#"{"endpoint":"https://push.example/s3cret-endpoint","expirationTime":null,"keys":{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}}"#;

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
        let stack = Stack::up(options).await.expect("it comes up");
        let lambda = aws_sdk_lambda::Client::new(&stack.sdk_config());
        let mappings = lambda.list_event_source_mappings().send().await.expect("deployed");
        for mapping in mappings.event_source_mappings() {
            let uuid = mapping.uuid().expect("it has an id");
            lambda.update_event_source_mapping().uuid(uuid).enabled(false).send().await.expect("it is there");
        }
        let world = Self { stack, folder };
        world.note_endpoint(&world.stack.description().endpoint);
        world
    }

    /// Has the command line find the stack at this endpoint.
    fn note_endpoint(&self, endpoint: &str) {
        let description = Description { endpoint: endpoint.to_owned(), ..self.stack.description().clone() };
        note(self.folder.path(), &description);
    }

    fn state(&self) -> String {
        self.folder.path().join("state").to_str().expect("a plain path").to_owned()
    }

    fn redial(&self, arguments: &[&str], stdin: &str) -> Output {
        run(
            Command::new(env!("CARGO_BIN_EXE_redial")).args(arguments).args(["--state", &self.state()]),
            stdin,
        )
    }

    fn dynamo(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.stack.sdk_config())
    }

    /// The bodies on a queue with their MessageGroupIds.
    async fn messages(&self, queue: &str, expected: usize) -> Vec<(String, String)> {
        let sqs = aws_sdk_sqs::Client::new(&self.stack.sdk_config());
        let mut found = Vec::new();
        let receiving = async {
            while found.len() < expected {
                let received = sqs
                    .receive_message()
                    .queue_url(queue)
                    .max_number_of_messages(10)
                    .message_system_attribute_names(MessageSystemAttributeName::MessageGroupId)
                    .wait_time_seconds(1)
                    .send()
                    .await
                    .expect("the queue is there");
                for message in received.messages() {
                    let group = message
                        .attributes()
                        .and_then(|it| it.get(&MessageSystemAttributeName::MessageGroupId));
                    found.push((
                        message.body().unwrap_or_default().to_owned(),
                        group.cloned().unwrap_or_default(),
                    ));
                }
            }
        };
        let done = tokio::time::timeout(Duration::from_secs(30), receiving).await;
        assert!(done.is_ok(), "{} of {expected} messages", found.len());
        found
    }
}

fn run(command: &mut Command, stdin: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was built");
    let mut pipe = child.stdin.take().expect("piped");
    let stdin = stdin.to_owned();
    // A command that does not read its input has closed it.
    let writing = std::thread::spawn(move || pipe.write_all(stdin.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    let _closed = writing.join();
    output
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn key(id: &str) -> DeliveryKey {
    DeliveryKey { tenant: Tenant::parse("acme").expect("valid"), id: DeliveryId::parse(id).expect("valid") }
}

#[tokio::test]
async fn messages_are_sent_as_they_are_to_their_lane_s_queue_and_answered_with_their_ids() {
    let world = World::up().await;
    let queues = world.stack.description().queues.clone();

    let pretty =
        "{\n  \"tenant\": \"acme\",\n  \"to\": {\"subscription\": \"s1\"},\n  \"id\": \"order-17\"\n}\n";
    let file = world.folder.path().join("message.json");
    fs::write(&file, pretty).expect("writable");
    let sent = stdout(&world.redial(&["send", file.to_str().expect("a plain path")], ""));
    assert!(sent.starts_with("acme order-17 "), "{sent}");
    let found = world.messages(&queues.ingest, 1).await;
    assert_eq!(found, [(pretty.trim().to_owned(), "acme".to_owned())]);

    let tenants = ["acme", "bolt", "crux"];
    let line = |n: usize| {
        let tenant = tenants[n % 3];
        format!(r#"{{"tenant":"{tenant}","to":{{"subscription":"s1"}},"payload":"s3cret {n}"}}"#)
    };
    let many: String = (0..230).map(|n| line(n) + "\n").collect();
    let sent = world.redial(&["send", "-", "--lane", "bulk", "--json"], &many);
    let answers: Vec<Value> = stdout(&sent).lines().map(json).collect();
    assert_eq!(answers.len(), 230);
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!((&answer["line"], &answer["tenant"]), (&(n + 1).into(), &tenants[n % 3].into()));
        assert_eq!(answer["id"], answer["message_id"], "an id that SQS gave is the delivery's");
        assert_eq!(answer["error"], Value::Null);
    }
    let said = String::from_utf8_lossy(&sent.stderr).into_owned() + &String::from_utf8_lossy(&sent.stdout);
    assert!(!said.contains("s3cret"), "a payload was printed: {said}");
    let found: BTreeMap<String, String> = world.messages(&queues.bulk, 230).await.into_iter().collect();
    let expected: BTreeMap<String, String> = (0..230).map(|n| (line(n), tenants[n % 3].to_owned())).collect();
    assert_eq!(found, expected);

    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let unseen = Command::new(env!("CARGO_BIN_EXE_redial"))
        .args(["send", file.to_str().expect("a plain path"), "--state", &world.state()])
        .stdout(writer)
        .status();
    assert!(unseen.expect("it ends").success(), "whoever does not look is no reason to stop");
    world.messages(&queues.ingest, 1).await;

    let wrong = format!("{}\n{{\"tenant\":\"acme\"}}\n", line(0));
    assert_eq!(world.redial(&["send", "-"], &wrong).status.code(), Some(2));
    let sqs = aws_sdk_sqs::Client::new(&world.stack.sdk_config());
    let left = sqs.receive_message().queue_url(&queues.ingest).send().await.expect("the queue is there");
    assert_eq!(left.messages().len(), 0, "nothing is sent where something is wrong");
}

#[tokio::test]
async fn a_deployed_stack_is_found_by_its_outputs_and_one_that_refuses_is_told() {
    let world = World::up().await;
    let endpoint = &world.stack.description().endpoint;
    let deployed = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
        command
            .args(["send", "-", "--region", "us-east-1", "--stack", name])
            .env("AWS_ENDPOINT_URL", endpoint)
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test");
        command
    };
    let message = r#"{"tenant":"acme","to":{"subscription":"s1"},"id":"d1"}"#;
    let lambda = aws_sdk_lambda::Client::new(&world.stack.sdk_config());
    let function = &world.stack.description().functions.dispatch;
    let function =
        lambda.get_function_configuration().function_name(function).send().await.expect("deployed");
    let variables = function.environment().and_then(|it| it.variables()).expect("variables");
    let name = variables.get("REDIAL_STACK").expect("it knows its stack");
    assert!(stdout(&run(&mut deployed(name), message)).starts_with("acme d1 "));
    assert_eq!(world.messages(&world.stack.description().queues.ingest, 1).await.len(), 1);

    let none = run(&mut deployed("no-such-stack"), message);
    assert_eq!(none.status.code(), Some(1));
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(said.contains("no stack named no-such-stack in us-east-1"), "{said}");

    let sqs = aws_sdk_sqs::Client::new(&world.stack.sdk_config());
    let ingest = &world.stack.description().queues.ingest;
    sqs.delete_queue().queue_url(ingest).send().await.expect("it is there");
    let refused = world.redial(&["send", "-", "--json"], &format!("{message}\n").repeat(400));
    assert_eq!(refused.status.code(), Some(1));
    let answers: Vec<Value> = String::from_utf8_lossy(&refused.stdout).lines().map(json).collect();
    assert!((50..300).contains(&answers.len()), "{}", answers.len());
    assert!(answers.iter().all(|it| it["error"].is_string() && it["id"] == "d1"), "{answers:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("0 of 400 sent") && said.contains("not tried"), "{said}");
}

#[tokio::test]
async fn what_fails_in_part_is_sent_again_and_what_may_have_been_sent_only_if_it_has_an_id() {
    let world = World::up().await;
    let queue = &world.stack.description().queues.ingest;
    let proxy = FaultProxy::start(&world.stack.description().endpoint).expect("a free port");
    world.note_endpoint(proxy.url());
    let line = |rest: &str| format!("{{\"tenant\":\"acme\",\"to\":{{\"subscription\":\"s1\"}}{rest}}}\n");

    proxy.on_call(1, Fault::FailEntry { index: 3 });
    let ten: String = (0..10).map(|n| line(&format!(r#","payload":{n}"#))).collect();
    let answers: Vec<Value> =
        stdout(&world.redial(&["send", "-", "--json"], &ten)).lines().map(json).collect();
    assert!(answers.len() == 10 && answers.iter().all(|it| it["message_id"].is_string()), "{answers:?}");
    assert_eq!(proxy.calls().len(), 2, "the failed one goes alone");
    let mut found: Vec<String> =
        world.messages(queue, 10).await.into_iter().map(|(body, _)| body + "\n").collect();
    found.sort();
    assert_eq!(found.concat(), ten, "each is there once");

    proxy.reset();
    proxy.on_call(1, Fault::KillAfter(Arc::new(|| ())));
    let unanswered = world.redial(&["send", "-"], &(line(r#","id":"d1""#) + &line("")));
    assert_eq!((unanswered.status.code(), proxy.calls().len()), (Some(1), 2));
    let (shown, said) =
        (String::from_utf8_lossy(&unanswered.stdout), String::from_utf8_lossy(&unanswered.stderr));
    assert!(shown.starts_with("acme d1 ") && shown.lines().count() == 1, "{shown}");
    assert!(said.contains("line 2: not sent: ") && said.contains("it may have been sent"), "{said}");
    let found = world.messages(queue, 3).await;
    assert_eq!(
        found.iter().filter(|(body, _)| body.contains("d1")).count(),
        2,
        "the ledger makes one of them"
    );

    proxy.reset();
    proxy.when(|_| true, Fault::Status(400, r#"{"__type":"AccessDenied","message":"not yours"}"#.to_owned()));
    let denied = world.redial(&["send", "-", "--json"], &line(r#","id":"d2""#));
    assert_eq!((denied.status.code(), proxy.calls().len()), (Some(1), 1), "that is not tried again");
    assert_eq!(json(&String::from_utf8_lossy(&denied.stdout))["error"], "AccessDenied: not yours");
}

#[tokio::test]
async fn a_subscription_is_put_and_got_and_its_secrets_are_shown_on_request_only() {
    let world = World::up().await;
    let put = ["subscriptions", "put", "--tenant", "acme", "--id", "s1"];
    assert_eq!(stdout(&world.redial(&put, SUBSCRIPTION)), "acme#s1 stored\n");
    let again = [&put[..], &["--vapid-key-id", "k2", "--json"]].concat();
    let again = json(&stdout(&world.redial(&again, SUBSCRIPTION)));
    let expected = serde_json::json!(
        {"tenant": "acme", "id": "s1", "kind": "web_push", "new": false, "secret": null}
    );
    assert_eq!(again, expected);

    let get = ["subscriptions", "get", "--tenant", "acme", "--id", "s1"];
    let shown = stdout(&world.redial(&get, ""));
    assert!(shown.starts_with("acme#s1: active\n") && shown.contains("https://push.example\n"), "{shown}");
    assert!(!shown.contains("s3cret") && !shown.contains("BTBZMqHH6r4Tts7J_aSIgg"), "{shown}");
    let shown = json(&stdout(&world.redial(&[&get[..], &["--json"]].concat(), "")));
    assert_eq!((&shown["state"], &shown["vapid_key_id"]), (&"active".into(), &"k2".into()));
    assert_eq!((shown.get("endpoint"), shown.get("keys")), (None, None));
    let all = [&get[..], &["--json", "--show-endpoint", "--show-keys"]].concat();
    let all = json(&stdout(&world.redial(&all, "")));
    assert_eq!(all["endpoint"], "https://push.example/s3cret-endpoint");
    assert_eq!(all["keys"]["auth"], "BTBZMqHH6r4Tts7J_aSIgg");

    let other = world.redial(&["subscriptions", "get", "--tenant", "bolt", "--id", "s1"], "");
    assert_eq!(other.status.code(), Some(1));
}

#[tokio::test]
async fn status_tells_of_deliveries_of_dead_letters_and_of_nothing() {
    let world = World::up().await;
    let now = System.now();
    let tables = &world.stack.description().tables;
    let ledger = DynamoLedger::new(world.dynamo(), tables.deliveries.clone());
    let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
    let claim = |id: &str| Claim {
        channel: if id == "d5" { Channel::Webhook } else { Channel::WebPush },
        ask: Ask {
            key: key(id),
            turn: Turn::default(),
            lease_token: "token".to_owned(),
            lease_until: now.plus(Duration::from_secs(40)),
            source_message: "m1".to_owned(),
            fingerprint: keys.fingerprint(b"content"),
            id_source: IdSource::Producer,
            state: State::Sending,
        },
        endpoint_hash: Some(keys.fingerprint(b"endpoint")),
        subscription: None,
        settlement: None,
    };
    let record = |id: &str, state: State, reason: Reason, delay: Option<u64>| Record {
        key: key(id),
        turn: Turn::default(),
        lease_token: "token".to_owned(),
        state,
        status: Some(503),
        verdict: Some("retry"),
        reason: Some(reason),
        not_sent: None,
        provider_word: None,
        headers: Vec::new(),
        not_before: delay.map(|secs| now.plus(Duration::from_secs(secs))),
        in_doubt: false,
        kept_until: None,
        now,
    };
    for claimed in ledger.claim(["d1", "d2", "d3", "d4", "d5", "d6"].map(claim).into(), now).await {
        claimed.expect("nothing is in the way");
    }
    for fence in ledger
        .record(vec![
            record("d2", State::Retrying, Reason::ServerError, Some(300)),
            record("d3", State::Retrying, Reason::RateLimited, Some(3600)),
            record("d4", State::Failed, Reason::RetriesExhausted, None),
            Record {
                status: None,
                not_sent: Some(NotSent::Tls),
                ..record("d6", State::Retrying, Reason::NotSent, Some(300))
            },
            Record { reason: None, ..record("d5", State::Sent, Reason::ServerError, None) },
        ])
        .await
    {
        fence.expect("the claims are ours");
    }
    let letter = |id: &str, letter: &str, reason: Reason| Reference {
        v: Reference::VERSION,
        kind: Kind::Failed,
        tenant: "acme".to_owned(),
        id: id.to_owned(),
        letter: letter.to_owned(),
        lineage: 0,
        channel: "web_push".to_owned(),
        subscription: None,
        endpoint_hash: None,
        reason: reason.label().to_owned(),
        detail: None,
        status: None,
        attempts: 1,
        first_sent: now.as_ms(),
        at: now.as_ms(),
        retention_days: 14,
    };
    let store = DynamoDeadLetters::new(world.dynamo(), tables.dead_letters.clone());
    store.describe(&letter("d4", "lineage-0", Reason::RetriesExhausted), now).await.expect("stored");
    store.describe(&letter("m5", "malformed", Reason::Malformed), now).await.expect("stored");
    let body = LetterBody {
        key: LetterKey::of_delivery(&key("d4").tenant, &key("d4").id, Lineage(0)),
        body: "s3cret".to_owned(),
        lane: None,
        absent_from: now.plus(Duration::from_secs(7000)),
    };
    store.put(vec![body]).await.into_iter().for_each(|put| put.expect("stored"));

    let status = |id: &str, more: &[&str]| {
        world.redial(&[&["status", id, "--tenant", "acme", "--json"], more].concat(), "")
    };
    for (id, channel, state, place) in [
        ("d1", "web_push", "sending", "being sent"),
        ("d2", "web_push", "retrying", "waiting on the retry queue for retry 1 until"),
        ("d3", "web_push", "retrying", "parked for retry 1 until"),
        ("d4", "web_push", "failed", "dead letter: retries_exhausted; body kept until"),
        ("d5", "webhook", "sent", "accepted by the webhook's receiver"),
    ] {
        let shown = stdout(&status(id, &[]));
        assert!(!shown.contains("s3cret"), "{shown}");
        let shown = json(&shown);
        assert_eq!((&shown["state"], &shown["channel"]), (&state.into(), &channel.into()));
        assert!(shown["where"].as_str().is_some_and(|words| words.starts_with(place)), "{shown}");
    }
    let failed = json(&stdout(&status("d6", &[])));
    assert_eq!((&failed["not_sent"], &failed["attempts"][0]["not_sent"]), (&"tls".into(), &"tls".into()));
    let words = stdout(&world.redial(&["status", "d6", "--tenant", "acme"], ""));
    assert!(words.contains("  hint          ") && words.contains("--egress-ca"), "{words}");

    let letter_only = json(&stdout(&status("m5", &["--wait", "5"])));
    assert_eq!((&letter_only["state"], &letter_only["final"]), (&Value::Null, &true.into()));
    assert_eq!(letter_only["where"], "dead letter: malformed; no body kept any more");
    assert_eq!(status("d9", &[]).status.code(), Some(1));
    let waiting = status("d2", &["--wait", "1"]);
    assert_eq!(waiting.status.code(), Some(1), "it has not ended");
    assert_eq!(json(&String::from_utf8_lossy(&waiting.stdout))["state"], "retrying");

    let words = stdout(&world.redial(&["status", "d4", "--tenant", "acme"], ""));
    assert!(
        words.starts_with("acme#d4: failed\n  dead letter: retries_exhausted; body kept until "),
        "{words}"
    );
    assert!(words.contains("  dead letter   lineage-0: retries_exhausted, 1 attempt, at "), "{words}");
}
