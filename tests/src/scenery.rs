//! Resources like a stack's, beside it: what belongs to one test alone.
//!
//! They are copied from what the template made, keys and indexes and state machine as they are there. The stack's own event
//! source mappings know nothing of them, so a test can be the mapping, and many tests share one emulator without a message,
//! a bucket of waits or a window of the spike guard in common.

use aws_sdk_dynamodb::types::{BillingMode, GlobalSecondaryIndex};
use redial::local::{Queues, Tables};

use crate::deployment::Deployment;

/// Queues, tables and state machine of one test.
pub struct Scenery {
    /// URLs of the queues.
    pub queues: Queues,
    /// Names of the tables.
    pub tables: Tables,
    /// ARN of the state machine.
    pub state_machine: String,
}

impl Scenery {
    /// Copies the stack's resources, under this name.
    ///
    /// # Panics
    /// If the stack does not answer.
    pub async fn copy(it: &Deployment, name: &str) -> Self {
        let tables = &it.description().tables;
        let queue = async |kind: &str| {
            let made = it.sqs.create_queue().queue_name(format!("{name}-{kind}")).send().await;
            made.expect("a queue").queue_url.expect("every queue has a URL")
        };
        let table = async |of: &str, kind: &str| copy_table(it, of, format!("{name}-{kind}")).await;
        Self {
            queues: Queues {
                ingest: queue("ingest").await,
                bulk: queue("bulk").await,
                retry: queue("retry").await,
                retry_bulk: queue("retry-bulk").await,
                dead_letter: queue("dead-letter").await,
                quarantine: queue("quarantine").await,
                events: None,
            },
            tables: Tables {
                deliveries: table(&tables.deliveries, "deliveries").await,
                subscriptions: table(&tables.subscriptions, "subscriptions").await,
                audiences: table(&tables.audiences, "audiences").await,
                parked: table(&tables.parked, "parked").await,
                dead_letters: table(&tables.dead_letters, "dead-letters").await,
                control: table(&tables.control, "control").await,
            },
            state_machine: copy_state_machine(it, name).await,
        }
    }

    /// The functions' variables that name them.
    pub fn variables(&self) -> [(&'static str, &str); 13] {
        let Self { queues, tables, state_machine } = self;
        [
            ("INGEST_QUEUE_URL", &queues.ingest),
            ("BULK_QUEUE_URL", &queues.bulk),
            ("RETRY_QUEUE_URL", &queues.retry),
            ("RETRY_BULK_QUEUE_URL", &queues.retry_bulk),
            ("DLQ_URL", &queues.dead_letter),
            ("QUARANTINE_URL", &queues.quarantine),
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

async fn copy_table(it: &Deployment, of: &str, name: String) -> String {
    let described = it.dynamodb.describe_table().table_name(of).send().await;
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
    it.dynamodb
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

async fn copy_state_machine(it: &Deployment, name: &str) -> String {
    let described = it.sfn.describe_state_machine().state_machine_arn(&it.description().state_machine);
    let described = described.send().await.expect("the state machine is there");
    let made = it.sfn.create_state_machine().name(format!("{name}-wait"));
    let made = made.definition(described.definition).role_arn(described.role_arn).send().await;
    made.expect("a state machine").state_machine_arn
}
