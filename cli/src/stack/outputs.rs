//! Reads a stack's outputs, as the template names them.

use std::collections::BTreeMap;

use aws_config::SdkConfig;
use redial_adapters::{config::Tables, outbox_sqs::QueueUrls};

use super::target::{Target, TargetError};

/// All missing outputs are reported together.
pub(super) fn target(
    name: &str,
    sdk: SdkConfig,
    outputs: &BTreeMap<&str, &str>,
) -> Result<Target, TargetError> {
    let mut missing = Vec::new();
    let mut output = |name: &'static str| {
        outputs.get(name).map(|value| (*value).to_owned()).unwrap_or_else(|| {
            missing.push(name);
            String::new()
        })
    };
    let target = Target {
        name: name.to_owned(),
        sdk,
        queues: QueueUrls {
            ingest: output("IngestQueueUrl"),
            bulk: output("BulkQueueUrl"),
            retry: output("RetryQueueUrl"),
            retry_bulk: output("RetryBulkQueueUrl"),
            dead_letters: output("DeadLetterQueueUrl"),
        },
        quarantine: output("QuarantineQueueUrl"),
        tables: Tables {
            deliveries: output("DeliveriesTableName"),
            subscriptions: output("SubscriptionsTableName"),
            audiences: output("AudiencesTableName"),
            parked: output("ParkedTableName"),
            dead_letters: output("DeadLettersTableName"),
            control: output("ControlTableName"),
        },
        webhook_key_secret: output("WebhookKeySecretId"),
        dispatch: output("DispatchFunctionName"),
        cleanup: output("CleanupFunctionName"),
        ingest: output("IngestFunctionName"),
    };
    if missing.is_empty() {
        return Ok(target);
    }
    Err(TargetError::NotOurs { name: name.to_owned(), missing: missing.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The template itself: an output that is renamed there and not here fails this test.
    const TEMPLATE: &str = include_str!("../../../infra/template.yaml");

    fn names() -> Vec<&'static str> {
        let (_, outputs) = TEMPLATE.split_once("\nOutputs:\n").expect("it has outputs");
        let name =
            |line: &'static str| line.strip_prefix("  ")?.strip_suffix(':').filter(|n| !n.contains(' '));
        outputs.lines().filter_map(name).collect()
    }

    fn sdk() -> SdkConfig {
        SdkConfig::builder().build()
    }

    #[test]
    fn the_template_has_all_outputs_that_are_needed() {
        let outputs = names().into_iter().map(|name| (name, name)).collect();
        let target = target("redial", sdk(), &outputs).expect("complete");
        assert_eq!(target.queues.retry_bulk, "RetryBulkQueueUrl");
        assert_eq!(target.quarantine, "QuarantineQueueUrl");
        assert!(!target.is_emulated());
        assert_eq!(target.tables.control, "ControlTableName");
        assert_eq!(target.webhook_key_secret, "WebhookKeySecretId");
    }

    #[test]
    fn all_missing_outputs_are_reported_together() {
        let mut outputs: BTreeMap<_, _> = names().into_iter().map(|name| (name, name)).collect();
        outputs.remove("BulkQueueUrl");
        outputs.remove("DeadLettersTableName");
        let error = target("other", sdk(), &outputs).expect_err("incomplete").to_string();
        assert!(error.contains("BulkQueueUrl, DeadLettersTableName"), "{error}");
    }
}
