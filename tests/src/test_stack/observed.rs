//! What a stack holds and writes, and waiting for it.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName::{
    ApproximateNumberOfMessages, ApproximateNumberOfMessagesDelayed, ApproximateNumberOfMessagesNotVisible,
};
use redial_adapters::deliveries_dynamo::DynamoDeliveries;
use redial_core::identity::{DeliveryId, DeliveryKey, Tenant};
use redial_testkit::push_service::{Received, Subscriber};
use serde_json::Value;

use super::TestStack;

pub type Item = HashMap<String, AttributeValue>;

/// How long a test waits for a condition. Generous: eight builds may run on the same two cores.
pub const PATIENCE: Duration = Duration::from_secs(180);

impl TestStack {
    pub async fn scan(&self, table: &str) -> Vec<Item> {
        let items = self.dynamodb.scan().table_name(table).consistent_read(true).into_paginator().items();
        items.send().collect::<Result<_, _>>().await.expect("the table answers")
    }

    /// The items of a table that are this test's tenant's.
    pub async fn own(&self, table: &str) -> Vec<Item> {
        let mut items = self.scan(table).await;
        items.retain(|item| text(item, "tenant") == Some(&self.tenant));
        items
    }

    /// An item by its key: `pk`, or `pk` and `sk`.
    pub async fn item(&self, table: &str, key: &[(&str, &str)]) -> Option<Item> {
        let got = self.dynamodb.get_item().table_name(table).set_key(Some(texts(key)));
        got.consistent_read(true).send().await.expect("the table answers").item
    }

    /// Sets an attribute of an item to this text, past the code that writes it.
    pub async fn overwrite(&self, table: &str, key: &[(&str, &str)], attribute: &str, value: &str) {
        let update = self.dynamodb.update_item().table_name(table).set_key(Some(texts(key)));
        let update =
            update.update_expression("SET #name = :text").expression_attribute_names("#name", attribute);
        let update = update.expression_attribute_values(":text", AttributeValue::S(value.to_owned()));
        update.send().await.expect("the table takes it");
    }

    pub async fn delete(&self, table: &str, key: &[(&str, &str)]) {
        let delete = self.dynamodb.delete_item().table_name(table).set_key(Some(texts(key)));
        delete.send().await.expect("the table takes it");
    }

    /// The ledger's entry of a delivery of this test's tenant.
    pub async fn entry(&self, id: &str) -> Option<Item> {
        self.entry_of(&self.tenant, id).await
    }

    pub async fn entry_of(&self, tenant: &str, id: &str) -> Option<Item> {
        self.entry_in(&self.tables().deliveries, tenant, id).await
    }

    /// The entry of a delivery in a table of deliveries.
    pub async fn entry_in(&self, table: &str, tenant: &str, id: &str) -> Option<Item> {
        let key = DeliveryKey {
            tenant: Tenant::parse(tenant).expect("a tenant"),
            id: DeliveryId::parse(id).expect("an id"),
        };
        let deliveries = DynamoDeliveries::new(self.dynamodb.clone(), table.to_owned());
        deliveries.item(&key).await.expect("the table answers")
    }

    /// All entries of a table of deliveries.
    pub async fn entries(&self, table: &str) -> Vec<Item> {
        let key = |item: Item| {
            Some(DeliveryKey {
                tenant: Tenant::parse(text(&item, "tenant")?)?,
                id: DeliveryId::parse(text(&item, "id")?)?,
            })
        };
        let keys: Vec<DeliveryKey> = self.scan(table).await.into_iter().filter_map(key).collect();
        let deliveries = DynamoDeliveries::new(self.dynamodb.clone(), table.to_owned());
        deliveries
            .items(&keys)
            .await
            .into_iter()
            .filter_map(|item| item.expect("the table answers"))
            .collect()
    }

    /// Waits until a delivery of this test's tenant is in that state; its entry.
    pub async fn until_state(&self, id: &str, state: &str) -> Item {
        self.until_state_of(&self.tenant, id, state).await
    }

    pub async fn until_state_of(&self, tenant: &str, id: &str, state: &str) -> Item {
        self.until(&format!("{tenant}#{id} is {state}"), async || {
            self.entry_of(tenant, id).await.filter(|entry| text(entry, "state") == Some(state))
        })
        .await
    }

    /// Waits until `condition` gives something.
    ///
    /// # Panics
    /// With the end of the emulator's log, after [`PATIENCE`].
    pub async fn until<T>(&self, what: &str, condition: impl AsyncFn() -> Option<T>) -> T {
        eventually(condition).await.unwrap_or_else(|| {
            let log = self.stack().log();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(30)..].join("\n");
            panic!("waited in vain until {what}; the emulator's log ends:\n{end}")
        })
    }

    /// Waits until the push service was sent this many pushes for a browser; all of them.
    pub async fn received(&self, browser: &Subscriber, pushes: usize) -> Vec<Received> {
        let received = self.push.wait_for(&browser.endpoint, pushes, PATIENCE).await;
        received.unwrap_or_else(|error| panic!("{error}:\n{}", self.stack().log()))
    }

    /// How many pushes the push service was sent for a browser.
    pub fn pushes(&self, to: &Subscriber) -> usize {
        self.push.received(&to.endpoint).len()
    }

    /// Messages in a queue: visible, hidden and delayed.
    pub async fn depth(&self, url: &str) -> usize {
        let names = [
            ApproximateNumberOfMessages,
            ApproximateNumberOfMessagesDelayed,
            ApproximateNumberOfMessagesNotVisible,
        ];
        let read = self.sqs.get_queue_attributes().queue_url(url).set_attribute_names(Some(names.to_vec()));
        let counts = read.send().await.expect("the queue answers").attributes.unwrap_or_default();
        counts.values().filter_map(|count| count.parse::<usize>().ok()).sum()
    }

    /// Waits until no queue that a function reads holds a message.
    pub async fn until_quiet(&self) {
        let queues = self.queues();
        let all = [&queues.ingest, &queues.bulk, &queues.retry, &queues.retry_bulk, &queues.dead_letter];
        self.until("the queues are empty", async || {
            for url in all {
                if self.depth(url).await > 0 {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }

    pub fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
        let api = self.description().api_url.as_deref().expect("the stack has an API");
        client.request(method, format!("{api}{path}"))
    }

    /// A request with this credential and a body of JSON; the status and the text of its answer.
    pub async fn call(
        &self,
        method: reqwest::Method,
        path: &str,
        credential: &str,
        body: &str,
    ) -> (u16, String) {
        let request = self.request(method, path).bearer_auth(credential);
        let request = request.header("content-type", "application/json").body(body.to_owned());
        let answer = request.send().await.expect("it answers");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    }

    /// Starts the functions that send and that serve the API: what a test measures from then on has no cold start in it.
    pub async fn warm(&self) {
        let dispatch = self.description().functions.dispatch.clone();
        self.invoke(&dispatch, &serde_json::json!({"Records": []})).await;
        let health = self.request(reqwest::Method::GET, "/v1/health").send().await;
        assert_eq!(health.expect("it answers").status(), 200);
    }

    pub async fn invoke(&self, function: &str, event: &Value) -> Value {
        let payload = aws_sdk_lambda::primitives::Blob::new(event.to_string());
        let invoked = self.lambda.invoke().function_name(function).payload(payload).send().await;
        let invoked = invoked.expect("the function is deployed");
        let payload = invoked.payload.map(aws_sdk_lambda::primitives::Blob::into_inner).unwrap_or_default();
        assert_eq!(invoked.function_error, None, "{}", String::from_utf8_lossy(&payload));
        serde_json::from_slice(&payload).unwrap_or(Value::Null)
    }

    /// Has cleanup make a sweep; its answer.
    pub async fn sweep(&self, sweep: &str) -> Value {
        self.invoke(&self.description().functions.cleanup, &serde_json::json!({ "sweep": sweep })).await
    }

    /// Everything that an execution's history holds of inputs, outputs and parameters.
    pub async fn history(&self, execution_arn: &str) -> String {
        let history = self.sfn.get_execution_history().execution_arn(execution_arn).send().await;
        let mut whole = String::new();
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
            whole.extend(texts.into_iter().flatten().map(|text| text + "\n"));
        }
        whole
    }

    pub async fn log_group(&self, function: &str) -> String {
        let configuration = self.configuration(function).await;
        let group = configuration.logging_config.and_then(|logging| logging.log_group);
        group.expect("the template names a log group")
    }

    pub async fn log_lines(&self, function: &str) -> Vec<String> {
        let lines = self.logs.filter_log_events().log_group_name(self.log_group(function).await).send().await;
        let events = lines.expect("CloudWatch Logs answers").events.unwrap_or_default();
        events.into_iter().filter_map(|event| event.message).collect()
    }

    /// The lines that dispatch has logged, as JSON.
    pub async fn dispatch_log(&self) -> Vec<Value> {
        let lines = self.log_lines(&self.description().functions.dispatch).await;
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until dispatch has logged a line with these fields; the line.
    pub async fn until_logged(&self, fields: &Value) -> Value {
        let fields = fields.as_object().expect("fields");
        let has_them = |line: &Value| fields.iter().all(|(name, value)| line[name] == *value);
        self.until(&format!("{fields:?} is logged"), async || {
            self.dispatch_log().await.into_iter().find(has_them)
        })
        .await
    }
}

/// Tries again until `condition` gives something; `None` after [`PATIENCE`].
#[expect(clippy::disallowed_methods, reason = "a test's patience is real time")]
pub async fn eventually<T>(condition: impl AsyncFn() -> Option<T>) -> Option<T> {
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

fn texts(attributes: &[(&str, &str)]) -> Item {
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), AttributeValue::S((*value).to_owned()));
    attributes.iter().map(text).collect()
}

pub fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

pub fn number(item: &Item, name: &str) -> Option<i64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}
