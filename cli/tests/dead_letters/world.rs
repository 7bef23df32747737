//! A stack with the real functions, a push service beside it, dead letters in its table, and the command that works on all
//! of it.

#[path = "../shared/noted.rs"]
mod noted;

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::{StreamExt as _, stream};
use noted::note;
use redial::local::{Description, Options, Stack};
use redial_adapters::dead_letters_dynamo::DynamoDeadLetters;
use redial_core::{
    dead_letter::{DeadLetterBody, Kind, Reference},
    time::Timestamp,
};
use redial_engine::ports::{DeadLetterBodies as _, DeadLetterStore as _};
use redial_testkit::push_service::{PushService, Subscriber};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(90);

/// For so long a message of these tests is worth sending: a week.
pub(crate) const TTL: u64 = 604_800;

/// All that a test works with.
pub(crate) struct World {
    pub(crate) push: PushService,
    pub(crate) stack: Stack,
    folder: tempfile::TempDir,
    store: DynamoDeadLetters,
}

impl World {
    /// Brings all of it up.
    pub(crate) async fn up() -> Self {
        let push = PushService::start().expect("a free port");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ca = folder.path().join("ca.pem");
        fs::write(&ca, push.ca_pem()).expect("the folder is writable");
        let options = Options {
            egress_allow: vec![push.origin().to_owned()],
            egress_ca: Some(ca),
            ..Options::default()
        };
        let stack = Stack::up(options).await.unwrap_or_else(|error| panic!("the stack comes up: {error}"));
        let dynamo = aws_sdk_dynamodb::Client::new(&stack.sdk_config());
        let store = DynamoDeadLetters::new(dynamo, stack.description().tables.dead_letters.clone());
        let world = Self { push, stack, folder, store };
        world.note_endpoint(&world.stack.description().endpoint);
        world
    }

    /// Has the command find the stack at this endpoint.
    pub(crate) fn note_endpoint(&self, endpoint: &str) {
        let description = Description { endpoint: endpoint.to_owned(), ..self.stack.description().clone() };
        note(self.folder.path(), &description);
    }

    /// A command that was not started: `redial dead-letters …`.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
        command.arg("dead-letters").args(arguments.split(' '));
        command.arg("--state").arg(self.folder.path().join("state"));
        command.env("XDG_STATE_HOME", self.folder.path().join("xdg"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) async fn run(&self, arguments: &str) -> Output {
        let mut command = self.command(arguments);
        let run = move || command.output().expect("it was built");
        tokio::task::spawn_blocking(run).await.expect("it does not panic")
    }

    /// What a command prints that succeeds.
    pub(crate) async fn shown(&self, arguments: &str) -> String {
        stdout(&self.run(arguments).await)
    }

    /// The lines of JSON that a command prints.
    pub(crate) async fn answers(&self, arguments: &str) -> Vec<Value> {
        let shown = self.shown(&format!("{arguments} --json")).await;
        shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The one checkpoint that there is.
    pub(crate) fn checkpoint(&self) -> Option<PathBuf> {
        let mut files = fs::read_dir(self.folder.path().join("xdg/redial/replays")).ok()?;
        files.find_map(|file| {
            Some(file.ok()?.path()).filter(|path| path.extension().is_some_and(|it| it == "json"))
        })
    }

    pub(crate) fn browser(&self) -> Subscriber {
        let key = &self.stack.description().vapid_public_key;
        self.push.subscribe(&URL_SAFE_NO_PAD.decode(key).expect("base64url"))
    }

    /// Sends a message to the queue of campaigns.
    pub(crate) async fn send_in_bulk(&self, message: &Value) {
        let sqs = aws_sdk_sqs::Client::new(&self.stack.sdk_config());
        let tenant = message["tenant"].as_str().expect("a tenant");
        let sent = sqs.send_message().queue_url(&self.stack.description().queues.bulk);
        let sent = sent.message_group_id(tenant).message_body(message.to_string());
        sent.send().await.expect("the queue takes it");
    }

    /// Writes letters as cleanup does, and their bodies as dispatch does.
    pub(crate) async fn write(&self, letters: &[Reference], bodies: Vec<DeadLetterBody>, now: Timestamp) {
        for put in self.store.put(bodies).await {
            put.expect("stored");
        }
        stream::iter(letters)
            .for_each_concurrent(8, |letter| async move {
                self.store.describe(letter, now).await.expect("stored");
            })
            .await;
    }

    /// Keys of everything in the table that is a letter's: descriptions and bodies.
    pub(crate) async fn stored(&self) -> Vec<(String, String)> {
        let dynamo = aws_sdk_dynamodb::Client::new(&self.stack.sdk_config());
        let items = dynamo
            .scan()
            .table_name(&self.stack.description().tables.dead_letters)
            .consistent_read(true)
            .into_paginator()
            .items()
            .send()
            .collect::<Result<Vec<HashMap<String, AttributeValue>>, _>>()
            .await
            .expect("the table answers");
        let text =
            |item: &HashMap<_, AttributeValue>, name: &str| item[name].as_s().expect("a string").clone();
        let mut keys: Vec<_> = items.iter().map(|item| (text(item, "pk"), text(item, "sk"))).collect();
        keys.retain(|(pk, _)| !pk.starts_with("_tenants#"));
        keys.sort();
        keys
    }

    /// Waits until nothing is on the retry queues any more, and nothing is being worked on.
    pub(crate) async fn until_quiet(&self) {
        let sqs = aws_sdk_sqs::Client::new(&self.stack.sdk_config());
        let queues = &self.stack.description().queues;
        self.until("the retry queues are empty", async || {
            let mut left = 0;
            for queue in [&queues.retry, &queues.retry_bulk] {
                let asked = sqs.get_queue_attributes().queue_url(queue);
                let asked = asked.attribute_names(QueueAttributeName::All).send().await.expect("it is there");
                for name in [
                    QueueAttributeName::ApproximateNumberOfMessages,
                    QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
                    QueueAttributeName::ApproximateNumberOfMessagesDelayed,
                ] {
                    let number = asked.attributes().and_then(|it| it.get(&name));
                    left += number.and_then(|it| it.parse::<u64>().ok()).expect("a number");
                }
            }
            (left == 0).then_some(())
        })
        .await;
    }

    pub(crate) async fn until<T>(&self, told: &str, condition: impl AsyncFn() -> Option<T>) -> T {
        let search = async {
            loop {
                if let Some(found) = condition().await {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, search).await;
        found.unwrap_or_else(|_| panic!("waited in vain until {told}:\n{}", self.stack.log()))
    }
}

/// A letter of a message that went to a browser.
pub(crate) fn letter(tenant: &str, id: &str, reason: &str, at: Timestamp) -> Reference {
    Reference {
        v: Reference::VERSION,
        kind: Kind::Failed,
        tenant: tenant.to_owned(),
        id: id.to_owned(),
        letter: "lineage-0".to_owned(),
        lineage: 0,
        channel: "web_push".to_owned(),
        subscription: None,
        endpoint_hash: None,
        reason: reason.to_owned(),
        detail: None,
        status: Some(503),
        attempts: 6,
        first_sent: at.as_ms(),
        at: at.as_ms(),
        retention_days: 14,
    }
}

/// Its body: a message whose payload is its id.
pub(crate) fn body(of: &Reference, to: &Subscriber, more: &Value) -> DeadLetterBody {
    let mut body = json!({
        "tenant": of.tenant, "id": of.id, "to": {"web_push": to.json()}, "payload": format!("s3cret {}", of.id),
        "ttl": TTL, "lineage": of.lineage, "retry_count": of.attempts - 1, "original_timestamp": of.first_sent,
    });
    let more = more.as_object().expect("fields").clone();
    body.as_object_mut().expect("an object").extend(more);
    let absent_from = Timestamp::from_ms(of.first_sent).plus(Duration::from_secs(TTL));
    DeadLetterBody { key: of.letter_key(), body: body.to_string(), lane: None, absent_from }
}

pub(crate) fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
