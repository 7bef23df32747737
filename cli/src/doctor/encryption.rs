//! The account's own KMS keys that encrypt queues and secrets, and whether the functions may use them.
//!
//! Without permission for the key a function can neither read its secrets nor send to the queue, and learns that only from the
//! call. The template permits the functions' roles to use the keys that its parameters name; a key's own policy may permit it,
//! too. So a key that no parameter names is a warning, and a call that was refused for its key is a fault.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_sqs::types::QueueAttributeName;
use futures_util::future::join_all;
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use serde::Deserialize;

use super::{
    logs::{self, Lines},
    queues::QUEUES,
    report::Report,
    stack::{Outputs, Stack, output},
};
use crate::asked::{Trouble, asked};

/// AWS's own keys: every caller of the service may use them.
const OF_AWS: &str = "alias/aws/";

const HOUR: Duration = Duration::from_secs(3_600);

/// CloudWatch's pattern for failed calls to AWS in the functions' logs; [`refusals`] checks its result.
const FAILED_CALLS: &str = "{ $.event = \"infrastructure\" }";

/// The variables that name secrets.
const SECRETS: [(&str, &str); 4] = [
    ("VAPID_SECRET_ID", "the secret with the VAPID key"),
    ("WEBHOOK_KEY_SECRET_ID", "the secret with the webhook key"),
    ("TOKEN_KEY_SECRET_ID", "the secret with the browser token key"),
    ("ENDPOINT_HASH_SECRET_ID", "the secret with the endpoint hash key"),
];

/// What is encrypted, and its key unless that is AWS's own.
type Encrypted = (String, Result<Option<String>, Trouble>);

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let Some(outputs) = stack.outputs_for(report) else { return };
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (what, key) in queues(stack, outputs).await.into_iter().chain(secrets(stack).await) {
        match key {
            Ok(Some(key)) => keys.entry(key).or_default().push(what),
            Ok(None) => {}
            // The checks of the queues and of the keys report what does not exist or cannot be read.
            Err(error) => report.unchecked(format!("the key of {what}"), error.in_words()),
        }
    }
    for (key, encrypted) in &keys {
        judge_key(key, &encrypted.join(", "), &stack.parameters, report);
    }
    for (name, _) in stack.functions().into_iter().filter(|(_, function)| function.is_err()) {
        report.unchecked(format!("the log of {name}"), "its configuration is unknown");
    }
    let since = System.now().minus(HOUR);
    let logged = stack
        .known_functions()
        .map(async |function| (function.name, logs::lines(stack, function, FAILED_CALLS, since).await));
    for (function, lines) in join_all(logged).await {
        if let Some(Lines { lines, all }) = report.read(format!("the log of {function}"), lines) {
            judge_calls(function, &lines, report);
            if !all {
                report.unchecked(format!("the whole log of {function} of the last hour"), "it is too long");
            }
        }
    }
    report.well(match keys.len() {
        0 => "no queue and no secret is encrypted with a KMS key of the account's own".to_owned(),
        count => format!(
            "the stack's parameters name the KMS keys ({count}) of queues and secrets, and no function was refused \
             one within the last hour"
        ),
    });
}

/// The stack's queues, and the events queue.
async fn queues(stack: &Stack, outputs: &Outputs) -> Vec<Encrypted> {
    let client = aws_sdk_sqs::Client::new(&stack.target.sdk);
    let of_url = async |url: &str| {
        let name = QueueAttributeName::KmsMasterKeyId;
        let read = client.get_queue_attributes().queue_url(url).attribute_names(name.clone()).send().await;
        let attributes = asked("sqs:GetQueueAttributes", read)?.attributes.unwrap_or_default();
        Ok(attributes.get(&name).cloned().and_then(own))
    };
    let mut encrypted = join_all(QUEUES.map(async |queue| {
        let key = match output(outputs, queue.output) {
            Ok(url) => of_url(url).await,
            Err(trouble) => Err(trouble),
        };
        (format!("the {} queue", queue.name), key)
    }))
    .await;
    let events = stack.dispatch.as_ref().ok().and_then(|dispatch| dispatch.variable("EVENTS_QUEUE_ARN"));
    if let Some((account, name)) = events.and_then(|arn| arn.rsplit(':').nth(1).zip(arn.rsplit(':').next())) {
        let found = client.get_queue_url().queue_name(name).queue_owner_aws_account_id(account).send().await;
        let key = match asked("sqs:GetQueueUrl", found) {
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
        let key =
            asked("secretsmanager:DescribeSecret", described).map(|secret| secret.kms_key_id.and_then(own));
        ((*what).to_owned(), key)
    });
    join_all(keys).await
}

/// The key, unless it is AWS's own.
fn own(key: String) -> Option<String> {
    Some(key).filter(|key| !key.is_empty() && !key.contains(OF_AWS))
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
                "no parameter of the stack names the KMS key {key} of {encrypted}: the functions may use it only if \
                 its own policy allows that"
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

/// Calls that were refused for their key, counted by operation and code. Throttling is temporary, and not counted.
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
            "check in KMS that the key is enabled, and that its policy and the function's role allow kms:Decrypt and, for \
             a queue, kms:GenerateDataKey",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{super::report::tests::finds, *};

    const KEY: &str = "arn:aws:kms:eu-central-1:123456789012:key/0a1b";

    #[test]
    fn a_key_is_named_by_a_parameter() {
        const ALIAS: &str = "arn:aws:kms:eu-central-1:123456789012:alias/events";
        const UNNAMED: &str = "warning: no parameter of the stack names the KMS key";
        for (key, parameters, expected) in [
            (KEY, &["500/s", "arn:aws:kms:eu-central-1:123456789012:key/other"][..], UNNAMED),
            (KEY, &["500/s", KEY], ""),
            ("0a1b", &[KEY], ""),
            // An alias cannot be compared with a key.
            ("alias/events", &[KEY], "unchecked: whether the functions may use the key of the events queue"),
            ("alias/events", &[ALIAS], ""),
            ("alias/events", &[], UNNAMED),
        ] {
            let parameters: Vec<String> = parameters.iter().map(|value| (*value).to_owned()).collect();
            finds(expected, |report| judge_key(key, "the events queue", &parameters, report));
        }
    }

    #[test]
    fn aws_s_own_keys_need_no_permission() {
        for (key, expected) in [("alias/aws/sqs", None), ("", None), (KEY, Some(KEY))] {
            assert_eq!(own(key.to_owned()).as_deref(), expected);
        }
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
        let lines = lines.map(|line| (Timestamp::from_secs(0), line));
        finds(
            "fault: dispatch could not use a KMS key: SendMessageBatch: KMS.AccessDeniedException (2 within the last hour)",
            |report| judge_calls("dispatch", &lines, report),
        );
    }
}
