//! The queues' settings that `doctor` does not judge: no delay of their own, encryption, and the policy that requires TLS.

use aws_sdk_sqs::types::QueueAttributeName::{DelaySeconds, KmsMasterKeyId, Policy, SqsManagedSseEnabled};
use futures_util::future::join_all;
use serde_json::Value;

use super::{
    release::Release,
    settings::{Check, Settings, is_same},
};
use crate::doctor::{Attributes, Report, Stack, attributes};

const SET: &str = "set it as the template has it: aws sqs set-queue-attributes";

pub(super) async fn check(stack: &Stack, release: &Release, report: &mut Report) {
    let sqs = aws_sdk_sqs::Client::new(&stack.target.sdk);
    let policy = release.parts_of("AWS::SQS::QueuePolicy").next();
    let policy = policy.and_then(|part| release.property(&part, "PolicyDocument"));
    let read = release.parts_of("AWS::SQS::Queue").filter_map(|part| Some((part.deployed_as?, part)));
    let read = read.map(async |(url, part)| (attributes(&sqs, url).await, part));
    report.well("no queue has a delay of its own; each is encrypted, and takes no call without TLS");
    for (read, part) in join_all(read).await {
        let policies = read.as_ref().ok().map(|it| it.get(&Policy).cloned());
        Check { release, report }.compare(&part, read.map(|it| settings(&it)), SET);
        if let (Some(found), Some(policy)) = (policies, &policy) {
            judge_policy(part.name, policy, found.as_deref(), report);
        }
    }
}

/// A queue that has a KMS key instead has no managed encryption; `doctor` reports such keys.
fn settings(attributes: &Attributes) -> Settings {
    let text = |name| attributes.get(&name).map_or(Value::Null, |value| value.as_str().into());
    let has_key = attributes.get(&KmsMasterKeyId).is_some_and(|key| !key.is_empty());
    let encryption = (!has_key).then(|| ("SqsManagedSseEnabled", text(SqsManagedSseEnabled)));
    [("DelaySeconds", text(DelaySeconds))].into_iter().chain(encryption).collect()
}

/// Another statement is the operator's; one of the template's that is missing is a fault.
fn judge_policy(name: &str, expected: &Value, found: Option<&str>, report: &mut Report) {
    let found: Value = found.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let of = |policy: &Value| policy["Statement"].as_array().cloned().unwrap_or_default();
    let found = of(&found);
    if !of(expected).iter().all(|statement| found.iter().any(|it| is_same(it, statement))) {
        report.fault(
            format!("the policy of {name} does not require TLS: messages may travel in plain text"),
            "set the policy of the template's QueuesOverTlsOnly: aws sqs set-queue-attributes",
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finds;

    #[test]
    fn further_statements_of_a_policy_are_the_operator_s() {
        let statement = json!({"Effect": "Deny", "Action": "sqs:*"});
        let expected = json!({"Version": "2012-10-17", "Statement": [statement]});
        let more = json!({"Statement": [{"Effect": "Allow"}, statement]}).to_string();
        let other = json!({"Statement": [{"Effect": "Allow"}]}).to_string();
        for (found, finding) in [
            (Some(more.as_str()), ""),
            (Some(other.as_str()), "fault: the policy of IngestQueue does not require TLS"),
            (None, "fault: the policy of IngestQueue does not require TLS"),
        ] {
            finds(finding, |report| judge_policy("IngestQueue", &expected, found, report));
        }
    }

    #[test]
    fn a_queue_with_a_key_of_the_account_has_no_managed_encryption() {
        let key =
            Attributes::from([(KmsMasterKeyId, "k".to_owned()), (SqsManagedSseEnabled, "false".to_owned())]);
        assert_eq!(settings(&key), [("DelaySeconds", Value::Null)]);
    }
}
