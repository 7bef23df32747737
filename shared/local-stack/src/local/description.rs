//! Addresses and names of a stack that is up.

use std::collections::BTreeMap;

use redial_adapters::config::Tables;
use serde::{Deserialize, Serialize};

use super::{Parts, clients::REGION, error::LocalError};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Description {
    /// Endpoint URL for every service: `http://127.0.0.1:PORT`.
    pub endpoint: String,
    pub region: String,
    pub queues: Queues,
    pub tables: Tables,
    pub state_machine: String,
    pub functions: Functions,
    /// Address of the HTTP API, without a slash at its end; null if the stack has none.
    pub api_url: Option<String>,
    /// Name or ARN of the secret with the key that webhooks' secrets are sealed with.
    pub webhook_key_secret: String,
    /// Process id of the embedded emulator; null for a LocalStack, which is not ours.
    pub pid: Option<u32>,
    /// What hosts the functions of a stack on a LocalStack or on parts; null if LocalStack or the embedded emulator does.
    #[serde(default)]
    pub function_host: Option<FunctionHost>,
    /// The servers that keep queues, waits or tables, if the emulator does not keep all of them.
    #[serde(default)]
    pub parts: Option<Parts>,
    /// Uncompressed public key, base64url: what a browser subscribes with.
    pub vapid_public_key: String,
}

/// A process on this machine that runs functions and polls their queues.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FunctionHost {
    pub pid: u32,
    /// Where Lambda's API is answered, as far as it reads configurations and event source mappings.
    pub lambda_endpoint: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Queues {
    pub ingest: String,
    pub bulk: String,
    pub retry: String,
    pub retry_bulk: String,
    pub dead_letter: String,
    /// Messages that were received twenty times.
    pub quarantine: String,
    /// Events for producers, where there are any.
    #[serde(default)]
    pub events: Option<String>,
    /// Events on their way to their targets, where there are several.
    #[serde(default)]
    pub relay: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Functions {
    pub dispatch: String,
    pub cleanup: String,
    pub ingest: String,
}

impl Description {
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
                relay: outputs.get("EventsRelayQueueUrl").cloned(),
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
            function_host: None,
            parts: None,
            vapid_public_key,
        })
    }
}
