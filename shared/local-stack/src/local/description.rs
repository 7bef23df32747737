//! What a stack that is up looks like to whoever uses it: addresses and names.

use std::collections::BTreeMap;

use redial_adapters::config::Tables;
use serde::{Deserialize, Serialize};

use super::{clients::REGION, error::LocalError};

/// A stack that is up. Its JSON is what `redial local up --json` prints.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Description {
    /// Endpoint URL for every service: `http://127.0.0.1:PORT`.
    pub endpoint: String,
    /// Region to name in requests.
    pub region: String,
    /// URLs of the queues.
    pub queues: Queues,
    /// Names of the tables.
    pub tables: Tables,
    /// ARN of the state machine of long waits.
    pub state_machine: String,
    /// Names of the functions.
    pub functions: Functions,
    /// Address of the HTTP API, without a slash at its end; null if the stack has none.
    pub api_url: Option<String>,
    /// Name or ARN of the secret with the key that webhooks' secrets are sealed with.
    pub webhook_key_secret: String,
    /// Process id of the embedded emulator; null for a LocalStack, which is not ours.
    pub pid: Option<u32>,
    /// Uncompressed public key, base64url: what a browser subscribes with.
    pub vapid_public_key: String,
}

/// URLs of the queues.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Queues {
    /// Transactional messages.
    pub ingest: String,
    /// Campaigns.
    pub bulk: String,
    /// Retries of transactional messages.
    pub retry: String,
    /// Retries of campaigns.
    pub retry_bulk: String,
    /// References to dead letters.
    pub dead_letter: String,
    /// Messages that were received twenty times.
    pub quarantine: String,
    /// Events for producers, where there are any.
    #[serde(default)]
    pub events: Option<String>,
}

/// Names of the functions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Functions {
    /// Sends.
    pub dispatch: String,
    /// Tidies up.
    pub cleanup: String,
    /// Takes messages over HTTP.
    pub ingest: String,
}

impl Description {
    /// Reads the outputs of a deployed stack.
    pub(super) fn from_outputs(
        endpoint: &str,
        outputs: &BTreeMap<String, String>,
        api_url: Option<String>,
        events: Option<String>,
        pid: Option<u32>,
        vapid_public_key: String,
    ) -> Result<Self, LocalError> {
        let output = |name: &str| {
            outputs.get(name).cloned().ok_or_else(|| LocalError::Template(format!("no output named {name}")))
        };
        Ok(Self {
            endpoint: endpoint.to_owned(),
            region: REGION.to_owned(),
            queues: Queues {
                ingest: output("IngestQueueUrl")?,
                bulk: output("BulkQueueUrl")?,
                retry: output("RetryQueueUrl")?,
                retry_bulk: output("RetryBulkQueueUrl")?,
                dead_letter: output("DeadLetterQueueUrl")?,
                quarantine: output("QuarantineQueueUrl")?,
                events,
            },
            tables: Tables {
                deliveries: output("DeliveriesTableName")?,
                subscriptions: output("SubscriptionsTableName")?,
                audiences: output("AudiencesTableName")?,
                parked: output("ParkedTableName")?,
                dead_letters: output("DeadLettersTableName")?,
                control: output("ControlTableName")?,
            },
            state_machine: output("WaitStateMachineArn")?,
            functions: Functions {
                dispatch: output("DispatchFunctionName")?,
                cleanup: output("CleanupFunctionName")?,
                ingest: output("IngestFunctionName")?,
            },
            api_url,
            webhook_key_secret: output("WebhookKeySecretId")?,
            pid,
            vapid_public_key,
        })
    }
}
