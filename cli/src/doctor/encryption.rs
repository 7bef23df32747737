//! KMS keys of the account's own that queues and secrets are encrypted with, and whether the functions may use them.
//!
//! Without the key's rights a function can neither read its secrets nor send to the queue, and the service says so only when it is
//! called. The template gives the functions' roles rights to the keys that its parameters name; a key's own policy may give them,
//! too. So a key that no parameter names is a warning, and a call that was refused for its key is a fault.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_sqs::types::QueueAttributeName;
use futures_util::future::join_all;
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use serde::Deserialize;

use super::{
    aws_error::{AwsError, classified},
    logs::{self, Lines},
    queues::{QUEUES, unfound},
    report::Report,
    stack::{Function, Stack},
};

/// Keys of AWS's own: every caller of the service may use them.
const OF_AWS: &str = "alias/aws/";

/// How far back refused calls are looked for.
const HOUR: Duration = Duration::from_secs(3_600);

/// How the functions log a call to AWS that failed. CloudWatch looks for it, and [`refusals`] checks it.
const FAILED_CALLS: &str = "{ $.event = \"infrastructure\" }";

/// The variables that name secrets, in words.
const SECRETS: [(&str, &str); 4] = [
    ("VAPID_SECRET_ID", "the secret with the VAPID key"),
    ("WEBHOOK_KEY_SECRET_ID", "the secret with the webhooks' key"),
    ("TOKEN_KEY_SECRET_ID", "the secret with the key of browsers' tokens"),
    ("ENDPOINT_HASH_SECRET_ID", "the secret with the key of endpoints' hashes"),
];

/// What is encrypted, and the key that it is encrypted with, unless that is AWS's own.
type Encrypted = (String, Result<Option<String>, AwsError>);

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("encryption");
    if let Err(trouble) = stack.outputs() {
        unfound(trouble, &mut report);
        return report;
    }
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (what, key) in queues(stack).await.into_iter().chain(secrets(stack).await) {
        match key {
            Ok(Some(key)) => keys.entry(key).or_default().push(what),
            Ok(None) => {}
            // The checks of the queues and of the keys report what is absent or gives no answer.
            Err(trouble) => report.unchecked(format!("the key of {what}"), trouble.in_words()),
        }
    }
    for (key, encrypted) in &keys {
        judge_key(key, &encrypted.join(", "), stack.parameters(), &mut report);
    }
    let now = System.now();
    for (name, _) in stack.functions().into_iter().filter(|(_, function)| function.is_err()) {
        report.unchecked(format!("the log of {name}"), "its configuration is not known");
    }
    let functions = stack.functions().into_iter().filter_map(|(_, function)| function.as_ref().ok());
    let logged =
        join_all(functions.map(async |function| (function, failed_calls(stack, function, now).await)));
    for (function, lines) in logged.await {
        match lines {
            Ok(Lines { lines, all }) => {
                judge_calls(function.name, &lines, &mut report);
                if !all {
                    report.unchecked(
                        format!("the whole log of {} of the last hour", function.name),
                        "it is too long",
                    );
                }
            }
            Err(trouble) => report.trouble(&format!("the log of {}", function.name), &trouble),
        }
    }
    report.well(match keys.len() {
        0 => "no queue and no secret is encrypted with a KMS key of the account's own".to_owned(),
        count => format!(
            "the stack's parameters name the KMS keys ({count}) that queues and secrets are encrypted with, and \
             no function was refused one within the last hour"
        ),
    });
    report
}

/// The stack's queues, and the queue of events.
async fn queues(stack: &Stack) -> Vec<Encrypted> {
    let client = aws_sdk_sqs::Client::new(&stack.target.sdk);
    let of_url = async |url: &str| {
        let name = QueueAttributeName::KmsMasterKeyId;
        let read = client.get_queue_attributes().queue_url(url).attribute_names(name.clone()).send().await;
        let attributes = classified("sqs:GetQueueAttributes", read)?.attributes.unwrap_or_default();
        Ok(attributes.get(&name).cloned().and_then(own))
    };
    let mut encrypted = join_all(QUEUES.map(async |queue| {
        let key = match stack.output(queue.output) {
            Ok(url) => of_url(url).await,
            Err(trouble) => Err(trouble),
        };
        (format!("the {} queue", queue.name), key)
    }))
    .await;
    let events = stack.dispatch.as_ref().ok().and_then(|dispatch| dispatch.variable("EVENTS_QUEUE_ARN"));
    if let Some((account, name)) = events.and_then(|arn| arn.rsplit(':').nth(1).zip(arn.rsplit(':').next())) {
        let found = client.get_queue_url().queue_name(name).queue_owner_aws_account_id(account).send().await;
        let key = match classified("sqs:GetQueueUrl", found) {
            Ok(found) => of_url(found.queue_url().unwrap_or_default()).await,
            Err(trouble) => Err(trouble),
        };
        encrypted.push(("the events queue".to_owned(), key));
    }
    encrypted
}

async fn secrets(stack: &Stack) -> Vec<Encrypted> {
    let client = aws_sdk_secretsmanager::Client::new(&stack.target.sdk);
    let Ok(dispatch) = &stack.dispatch else { return Vec::new() };
    let named = SECRETS.iter().filter_map(|(variable, what)| Some((what, dispatch.variable(variable)?)));
    let keys = named.map(async |(what, id)| {
        let described = client.describe_secret().secret_id(id).send().await;
        let key = classified("secretsmanager:DescribeSecret", described)
            .map(|secret| secret.kms_key_id.and_then(own));
        ((*what).to_owned(), key)
    });
    join_all(keys).await
}

/// The key, unless it is AWS's own.
fn own(key: String) -> Option<String> {
    Some(key).filter(|key| !key.is_empty() && !key.contains(OF_AWS))
}

async fn failed_calls(stack: &Stack, function: &Function, now: Timestamp) -> Result<Lines, AwsError> {
    logs::lines(stack, function, FAILED_CALLS, now.minus(HOUR)).await
}

/// Keys come as an id, an alias or an ARN: all three end in the same word.
fn judge_key(key: &str, encrypted: &str, parameters: &[String], report: &mut Report) {
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let mut named = parameters.iter().filter(|value| value.contains(":kms:")).peekable();
    if key.contains("alias/") && named.peek().is_some_and(|value| !value.contains("alias/")) {
        let why = format!("it is named by an alias, {key}, and the stack's parameters name no alias");
        report.unchecked(format!("whether the functions may use the key of {encrypted}"), why);
    } else if !named.any(|value| last(value) == last(key)) {
        report.warning(
            format!(
                "no parameter of the stack names the KMS key {key} of {encrypted}: the functions may use that only \
                 if the key's own policy allows it"
            ),
            "deploy with the key's ARN as a parameter, or let the key's policy allow the functions' roles kms:Decrypt \
             and, for a queue, kms:GenerateDataKey",
        );
    }
}

/// A call to AWS that failed, as a function logs it.
#[derive(Deserialize)]
struct FailedCall {
    event: String,
    operation: String,
    code: String,
}

/// How often each operation was refused for its key, by operation and code. A throttled one passes.
fn refusals(lines: &[(Timestamp, String)]) -> BTreeMap<(String, String), usize> {
    let is_of_a_key = |code: &str| {
        let begins = |prefix| code.starts_with(prefix);
        (begins("KMS") || begins("Kms") || begins("DecryptionFailure")) && !code.contains("Throttl")
    };
    let calls = lines.iter().filter_map(|(_, line)| serde_json::from_str::<FailedCall>(line).ok());
    let mut counts = BTreeMap::new();
    for call in calls.filter(|call| call.event == "infrastructure" && is_of_a_key(&call.code)) {
        *counts.entry((call.operation, call.code)).or_default() += 1;
    }
    counts
}

fn judge_calls(function: &str, lines: &[(Timestamp, String)], report: &mut Report) {
    for ((operation, code), count) in refusals(lines) {
        report.fault(
            format!("{function} could not use a KMS key: {operation}: {code} ({count} within the last hour)"),
            "see in KMS that the key is enabled, and that its policy and the function's role allow kms:Decrypt and, for \
             a queue, kms:GenerateDataKey",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "arn:aws:kms:eu-central-1:123456789012:key/0a1b";

    fn found(report: &Report) -> Vec<&str> {
        report.findings.iter().map(|finding| finding.found.as_str()).collect()
    }

    fn judged(key: &str, parameters: &[&str]) -> Report {
        let parameters: Vec<String> = parameters.iter().map(|value| (*value).to_owned()).collect();
        let mut report = Report::new("encryption");
        judge_key(key, "the events queue", &parameters, &mut report);
        report
    }

    #[test]
    fn a_key_that_no_parameter_names_is_a_warning() {
        let unnamed = judged(KEY, &["500/s", "arn:aws:kms:eu-central-1:123456789012:key/other"]);
        assert_eq!(
            found(&unnamed),
            [
                "no parameter of the stack names the KMS key arn:aws:kms:eu-central-1:123456789012:key/0a1b of the \
              events queue: the functions may use that only if the key's own policy allows it"
            ]
        );
        assert!(!unnamed.has_faults());
        for key in [KEY, "0a1b"] {
            assert!(judged(key, &["500/s", KEY]).is_ok(), "{key}");
        }
    }

    #[test]
    fn an_alias_cannot_be_compared_with_a_key() {
        let alias = judged("alias/events", &[KEY]);
        assert!(alias.findings.is_empty() && !alias.is_ok());
        assert!(judged("alias/events", &["arn:aws:kms:eu-central-1:123456789012:alias/events"]).is_ok());
        assert_eq!(judged("alias/events", &[]).findings.len(), 1);
    }

    #[test]
    fn keys_of_aws_need_no_rights() {
        assert_eq!(own("alias/aws/sqs".to_owned()), None);
        assert_eq!(own(String::new()), None);
        assert_eq!(own(KEY.to_owned()).as_deref(), Some(KEY));
    }

    #[test]
    fn calls_that_were_refused_for_their_key_are_counted() {
        let line = |operation: &str, code: &str| {
            serde_json::json!({"event": "infrastructure", "operation": operation, "code": code}).to_string()
        };
        let lines = [
            line("SendMessageBatch", "KMS.AccessDeniedException"),
            line("SendMessageBatch", "KMS.AccessDeniedException"),
            line("SendMessageBatch", "KmsThrottled"),
            line("Query", "AccessDeniedException"),
            "START RequestId: KMS.AccessDeniedException".to_owned(),
        ];
        let mut report = Report::new("encryption");
        judge_calls("dispatch", &lines.map(|line| (Timestamp::from_secs(0), line)), &mut report);
        assert_eq!(
            found(&report),
            [
                "dispatch could not use a KMS key: SendMessageBatch: KMS.AccessDeniedException (2 within the last hour)"
            ]
        );
        assert!(report.has_faults());
    }
}
