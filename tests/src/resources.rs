//! Queues, tables and a state machine beside a stack's, for one test alone.
//!
//! They are copies of what the template made, with the same keys, indexes and definition. No event source mapping of the stack
//! reads them, so a test can be the mapping ([`crate::mapping`]), and many share one emulator without a message, a bucket of
//! waits or a window of the spike guard in common.

use aws_sdk_dynamodb::types::{BillingMode, GlobalSecondaryIndex};
use redial::local::{Queues, Tables};
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;
use redial_testkit::runtime_api::SqsRecord;
use serde_json::json;

use crate::test_stack::{TestStack, localstack, queue_arn};

pub struct Resources {
    pub queues: Queues,
    pub tables: Tables,
    pub state_machine: String,
}

impl Resources {
    /// Copies the stack's resources, under this name. A LocalStack may still have those of an earlier run.
    pub async fn copy(stack: &TestStack, name: &str) -> Self {
        let of_run = format!("{name}-{}", std::process::id());
        let name = if localstack().is_some() { &of_run } else { name };
        let (mut queues, mut tables) = (json!(stack.queues()), json!(stack.tables()));
        queues["events"].take();
        for (kind, queue) in
            queues.as_object_mut().into_iter().flatten().filter(|(_, queue)| queue.is_string())
        {
            let made = stack.sqs.create_queue().queue_name(format!("{name}-{kind}")).send().await;
            *queue = made.expect("a queue").queue_url.into();
        }
        for (kind, table) in tables.as_object_mut().into_iter().flatten() {
            let of = table.as_str().expect("a name");
            *table = copy_table(stack, of, format!("{name}-{kind}")).await.into();
        }
        Self {
            queues: serde_json::from_value(queues).expect("all queues"),
            tables: serde_json::from_value(tables).expect("all tables"),
            state_machine: copy_state_machine(stack, name).await,
        }
    }

    pub fn record(&self, id: &str, body: impl Into<String>) -> SqsRecord {
        SqsRecord::new(format!("sqs-{id}"), body)
            .sent_timestamp_ms(u64::try_from(System.now().as_ms()).expect("after 1970"))
            .queue_arn(queue_arn(&self.queues.ingest))
    }

    pub fn variables(&self) -> [(&'static str, &str); 12] {
        let Self { queues, tables, state_machine } = self;
        [
            ("INGEST_QUEUE_URL", &queues.ingest),
            ("BULK_QUEUE_URL", &queues.bulk),
            ("RETRY_QUEUE_URL", &queues.retry),
            ("RETRY_BULK_QUEUE_URL", &queues.retry_bulk),
            ("DLQ_URL", &queues.dead_letter),
            ("DELIVERIES_TABLE", &tables.deliveries),
            ("SUBSCRIPTIONS_TABLE", &tables.subscriptions),
            ("AUDIENCES_TABLE", &tables.audiences),
            ("PARKED_TABLE", &tables.parked),
            ("DEAD_LETTERS_TABLE", &tables.dead_letters),
            ("CONTROL_TABLE", &tables.control),
            ("WAIT_STATE_MACHINE_ARN", state_machine),
        ]
    }
}

async fn copy_table(stack: &TestStack, of: &str, name: String) -> String {
    let described = stack.dynamodb.describe_table().table_name(of).send().await;
    let table = described.expect("the table is there").table.expect("it is described");
    let indexes = table.global_secondary_indexes.unwrap_or_default().into_iter().map(|index| {
        GlobalSecondaryIndex::builder()
            .set_index_name(index.index_name)
            .set_key_schema(index.key_schema)
            .set_projection(index.projection)
            .build()
            .expect("an index has its name, keys and projection")
    });
    let indexes: Vec<_> = indexes.collect();
    stack
        .dynamodb
        .create_table()
        .table_name(&name)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(table.attribute_definitions)
        .set_key_schema(table.key_schema)
        .set_global_secondary_indexes((!indexes.is_empty()).then_some(indexes))
        .send()
        .await
        .expect("a table");
    name
}

async fn copy_state_machine(stack: &TestStack, name: &str) -> String {
    let described = stack.sfn.describe_state_machine().state_machine_arn(&stack.description().state_machine);
    let described = described.send().await.expect("the state machine is there");
    let made = stack.sfn.create_state_machine().name(format!("{name}-wait"));
    let made = made.definition(described.definition).role_arn(described.role_arn).send().await;
    made.expect("a state machine").state_machine_arn
}
