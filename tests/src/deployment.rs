//! A deployed stack with a push service beside it, and what a test asks of both.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redial::local::{Description, Options, Stack};
use redial_adapters::control_dynamo::DynamoControl;
use redial_adapters::subscriptions_dynamo::DynamoSubscriptions;
use redial_adapters::webhook_keys::WebhookKeys;
use redial_testkit::push_service::{PushService, Subscriber};
use redial_testkit::webhook_receiver::WebhookReceiver;
use serde_json::{Value, json};

/// An item of a table.
pub type Item = HashMap<String, AttributeValue>;

/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A stack, a push service that it may post to, and clients.
pub struct Deployment {
    /// The push service.
    pub push: PushService,
    /// The receiver of webhooks.
    pub webhooks: WebhookReceiver,
    /// SQS of the stack.
    pub sqs: aws_sdk_sqs::Client,
    /// DynamoDB of the stack.
    pub dynamodb: aws_sdk_dynamodb::Client,
    /// Step Functions of the stack.
    pub sfn: aws_sdk_sfn::Client,
    /// Lambda of the stack.
    pub lambda: aws_sdk_lambda::Client,
    stack: Stack,
    _ca: tempfile::NamedTempFile,
}

impl Deployment {
    /// A stack with short waits: two seconds of delay are SQS's, buckets are of one second, sends end after two; and without
    /// breakers.
    pub async fn up() -> Self {
        Self::up_with(|_| {}).await
    }

    /// The same, with options changed.
    pub async fn up_with(change: impl FnOnce(&mut Options)) -> Self {
        let push = PushService::start().expect("a free port");
        let ca = tempfile::NamedTempFile::new().expect("a temporary file");
        let webhooks = WebhookReceiver::start().expect("a free port");
        let roots = format!("{}{}", push.ca_pem(), webhooks.ca_pem());
        std::fs::write(ca.path(), roots).expect("the file is ours");
        let mut options = Options {
            egress_allow: vec![push.origin().to_owned(), webhooks.origin().to_owned()],
            egress_ca: Some(ca.path().to_owned()),
            ..Options::default()
        };
        for (name, value) in [
            ("SQS_MAX_DELAY_SECONDS", "2"),
            ("WAIT_BUCKET_SECONDS", "1"),
            ("WAIT_SHARDS", "1"),
            ("SEND_TIMEOUT_SECONDS", "2"),
            // The roads that a test takes one after the other to the same origin would look like an outage.
            ("BREAKER", "off"),
        ] {
            options.env.insert(name.to_owned(), value.to_owned());
        }
        change(&mut options);
        let stack = Stack::up(options).await.unwrap_or_else(|error| panic!("the stack comes up: {error}"));
        let sdk = stack.sdk_config();
        Self {
            push,
            webhooks,
            sqs: aws_sdk_sqs::Client::new(&sdk),
            dynamodb: aws_sdk_dynamodb::Client::new(&sdk),
            sfn: aws_sdk_sfn::Client::new(&sdk),
            lambda: aws_sdk_lambda::Client::new(&sdk),
            stack,
            _ca: ca,
        }
    }

    /// Addresses and names.
    pub fn description(&self) -> &Description {
        self.stack.description()
    }

    /// The stack itself.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// A browser that subscribed with the stack's VAPID key.
    pub fn subscriber(&self) -> Subscriber {
        let key = &self.description().vapid_public_key;
        self.push.subscribe(&URL_SAFE_NO_PAD.decode(key).expect("base64url"))
    }

    /// What the stack seals webhooks' secrets with, and signs for tenants with.
    pub async fn webhook_keys(&self) -> WebhookKeys {
        let id = self.stack.output("WebhookKeySecretId").expect("the template has this output");
        let client = aws_sdk_secretsmanager::Client::new(&self.stack.sdk_config());
        let secret = client.get_secret_value().secret_id(id).send().await.expect("the secret is there");
        WebhookKeys::parse(&secret.secret_string.expect("it is text")).expect("it is a key")
    }

    /// The stored subscriptions.
    pub async fn subscriptions(&self) -> DynamoSubscriptions {
        self.subscriptions_through(self.dynamodb.clone()).await
    }

    /// The same, as that client sees them.
    pub async fn subscriptions_through(&self, dynamodb: aws_sdk_dynamodb::Client) -> DynamoSubscriptions {
        let tables = &self.description().tables;
        let control = DynamoControl::new(dynamodb.clone(), tables.control.clone());
        let keys = self.webhook_keys().await;
        let (table, audiences) = (tables.subscriptions.clone(), tables.audiences.clone());
        DynamoSubscriptions::new(dynamodb, table, audiences, control, keys)
    }

    /// A message of tenant `acme` to that browser.
    pub fn message(id: &str, to: &Subscriber, payload: impl Into<Value>) -> Value {
        json!({"tenant": "acme", "id": id, "to": {"web_push": to.json()}, "payload": payload.into()})
    }

    /// Puts a body on the ingest queue, with its tenant as the message group.
    pub async fn send_body(&self, body: &str) -> String {
        let sent = self
            .sqs
            .send_message()
            .queue_url(&self.description().queues.ingest)
            .message_group_id("acme")
            .message_body(body)
            .send()
            .await;
        sent.expect("the queue takes it").message_id.expect("every message has an id")
    }

    /// Puts a message on the ingest queue.
    pub async fn send(&self, message: &Value) -> String {
        self.send_body(&message.to_string()).await
    }

    /// Puts up to ten bodies on the ingest queue at once.
    pub async fn send_batch(&self, bodies: &[String]) {
        let entry = |(at, body): (usize, &String)| {
            SendMessageBatchRequestEntry::builder()
                .id(at.to_string())
                .message_body(body)
                .message_group_id("acme")
                .build()
                .expect("an entry has its id and its body")
        };
        let entries = bodies.iter().enumerate().map(entry).collect();
        let url = &self.description().queues.ingest;
        let sent = self.sqs.send_message_batch().queue_url(url).set_entries(Some(entries)).send().await;
        assert!(sent.expect("the queue takes them").failed().is_empty());
    }

    /// The ledger's entry of a delivery of tenant `acme`.
    pub async fn entry(&self, id: &str) -> Option<Item> {
        let got = self
            .dynamodb
            .get_item()
            .table_name(&self.description().tables.deliveries)
            .key("pk", AttributeValue::S(format!("acme#{id}")))
            .consistent_read(true)
            .send()
            .await;
        got.expect("the table answers").item
    }

    /// Waits until a delivery is in that state, and gives its entry back.
    pub async fn until_state(&self, id: &str, state: &str) -> Item {
        self.until(&format!("{id} is {state}"), async || {
            self.entry(id).await.filter(|entry| text(entry, "state") == Some(state))
        })
        .await
    }

    /// Waits until `condition` gives something.
    pub async fn until<T>(&self, told: &str, condition: impl AsyncFn() -> Option<T>) -> T {
        match until(condition).await {
            Some(value) => value,
            None => {
                panic!("waited in vain until {told}; the emulator's log ends:\n{}", tail(&self.stack.log()))
            }
        }
    }

    /// All items of a table.
    pub async fn scan(&self, table: &str) -> Vec<Item> {
        let items = self.dynamodb.scan().table_name(table).consistent_read(true).into_paginator().items();
        items.send().collect::<Result<_, _>>().await.expect("the table answers")
    }

    /// Calls a function and gives its answer back.
    pub async fn invoke(&self, function: &str, event: &Value) -> Value {
        let payload = aws_sdk_lambda::primitives::Blob::new(event.to_string());
        let answer = self.lambda.invoke().function_name(function).payload(payload).send().await;
        let answer = answer.expect("the function is there");
        let payload = answer.payload.map(aws_sdk_lambda::primitives::Blob::into_inner).unwrap_or_default();
        assert_eq!(answer.function_error, None, "{}", String::from_utf8_lossy(&payload));
        serde_json::from_slice(&payload).unwrap_or(Value::Null)
    }

    /// Everything that an execution's history holds of inputs, outputs and parameters.
    pub async fn history(&self, execution_arn: &str) -> String {
        let history = self.sfn.get_execution_history().execution_arn(execution_arn).send().await;
        let mut told = String::new();
        for event in history.expect("Step Functions answers").events {
            let texts = [
                event.execution_started_event_details.and_then(|it| it.input),
                event.execution_succeeded_event_details.and_then(|it| it.output),
                event.state_entered_event_details.and_then(|it| it.input),
                event.state_exited_event_details.and_then(|it| it.output),
                event.task_scheduled_event_details.map(|it| it.parameters),
                event.task_succeeded_event_details.and_then(|it| it.output),
                event.task_failed_event_details.and_then(|it| it.cause),
            ];
            told.extend(texts.into_iter().flatten().map(|text| text + "\n"));
        }
        told
    }

    /// Messages in a queue, visible or not.
    pub async fn depth(&self, url: &str) -> usize {
        use aws_sdk_sqs::types::QueueAttributeName::{
            ApproximateNumberOfMessages, ApproximateNumberOfMessagesDelayed,
            ApproximateNumberOfMessagesNotVisible,
        };
        let names = [
            ApproximateNumberOfMessages,
            ApproximateNumberOfMessagesDelayed,
            ApproximateNumberOfMessagesNotVisible,
        ];
        let asked = self.sqs.get_queue_attributes().queue_url(url).set_attribute_names(Some(names.to_vec()));
        let answer = asked.send().await.expect("the queue answers");
        let counts = answer.attributes.unwrap_or_default();
        counts.values().filter_map(|count| count.parse::<usize>().ok()).sum()
    }

    /// Takes what lies in the queue of events.
    pub async fn take_events(&self) -> Vec<Value> {
        let url = self.description().queues.events.as_deref().expect("it tells events");
        let mut events = Vec::new();
        loop {
            let answer = self.sqs.receive_message().queue_url(url).max_number_of_messages(10).send().await;
            let messages = answer.expect("SQS answers").messages.unwrap_or_default();
            if messages.is_empty() {
                return events;
            }
            for message in messages {
                events
                    .push(serde_json::from_str(message.body().expect("it has a body")).expect("it is JSON"));
                let handle = message.receipt_handle().expect("it has a handle");
                let deleted = self.sqs.delete_message().queue_url(url).receipt_handle(handle).send().await;
                deleted.expect("it is deleted");
            }
        }
    }

    /// Waits until no source queue holds a message.
    pub async fn until_quiet(&self) {
        let queues = self.description().queues.clone();
        let all = [queues.ingest, queues.bulk, queues.retry, queues.retry_bulk, queues.dead_letter];
        self.until("the queues are empty", async || {
            for url in &all {
                if self.depth(url).await > 0 {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }
}

/// Asks again and again until `condition` gives something, or [`PATIENCE`] is over.
#[expect(clippy::disallowed_methods, reason = "a test's patience is real time")]
pub async fn until<T>(condition: impl AsyncFn() -> Option<T>) -> Option<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition().await {
            return Some(value);
        }
        if Instant::now() >= end {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A string attribute.
pub fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

/// A number attribute.
pub fn number(item: &Item, name: &str) -> Option<i64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
