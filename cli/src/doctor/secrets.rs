//! The four secrets: present, readable and valid keys; whether the HTTP API lists the public halves of the VAPID keys; and the
//! account's own KMS keys that encrypt secrets and queues, and whether the functions may use them. No private key is ever printed.
//!
//! Without permission for its KMS key a function can neither read a secret nor send to a queue, and learns that only from the
//! call. The template permits the functions' roles to use the keys that its parameters name; a key's own policy may permit it,
//! too. So a key that no parameter names is a warning, and a call that was refused for its key is a fault.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;
use futures_util::{future::join_all, join};
use redial_adapters::{
    secrets::Secret,
    system::System,
    vapid::VapidKeys,
    webhook_keys::{self, WebhookKeys},
};
use redial_core::{endpoint::HashKeys, time::Timestamp};
use redial_engine::ports::{Clock as _, PublicKey};
use serde_json::Value;

use super::{
    queues::{RELAY, attributes, queues},
    report::Report,
    stack::{Function, Outputs, Stack, output},
};
use crate::aws_error::{AwsError, classified};

/// The most stored subscriptions of a sample.
const SAMPLE: i32 = 1_000;

/// A key of the stack.
struct Key {
    name: &'static str,
    /// The variable that may hold it.
    value: &'static str,
    /// The variable that may hold the name of its secret.
    secret: &'static str,
}

const VAPID: Key = Key { name: "VAPID key", value: "VAPID_PRIVATE_KEY", secret: "VAPID_SECRET_ID" };
const WEBHOOKS: Key = Key { name: "webhook key", value: "WEBHOOK_KEY", secret: "WEBHOOK_KEY_SECRET_ID" };
const TOKENS: Key = Key { name: "browser token key", value: "TOKEN_KEY", secret: "TOKEN_KEY_SECRET_ID" };
const HASHES: Key =
    Key { name: "endpoint hash key", value: "ENDPOINT_HASH_KEY", secret: "ENDPOINT_HASH_SECRET_ID" };

const KEYS: [Key; 4] = [VAPID, WEBHOOKS, TOKENS, HASHES];

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let Ok(dispatch) = &stack.dispatch else {
        return report.unchecked("everything", "dispatch's configuration is unknown");
    };
    let client = aws_sdk_secretsmanager::Client::new(&stack.target.sdk);
    let public = stack.target.public_keys();
    let secrets = join_all(KEYS.iter().map(|key| secret(&client, dispatch, key)));
    let (secrets, published, sample) = join!(secrets, public.published(), sample(stack));
    let [vapid, webhooks, tokens, hashes] =
        secrets.try_into().unwrap_or_else(|_| unreachable!("invariant: one secret for each key"));
    let vapid = parsed(&VAPID, dispatch, vapid, VapidKeys::parse, report);
    parsed(&WEBHOOKS, dispatch, webhooks, WebhookKeys::parse, report);
    parsed(&TOKENS, dispatch, tokens, webhook_keys::token_keys, report);
    parsed(&HASHES, dispatch, hashes, HashKeys::parse, report);
    match (published, &vapid) {
        (Ok(published), Some(keys)) => judge_published(keys, published.as_deref(), report),
        (Ok(_), None) => {}
        (Err(error), _) => report.unchecked("which VAPID keys the HTTP API lists", error.to_string()),
    }
    report.well("the four keys are valid");
    let sample = report.read("which keys subscriptions need", sample);
    if let (Some((subscriptions, named)), Some(keys)) = (sample, vapid) {
        judge_sample(subscriptions, &named, &keys.ids().map(|id| id.as_str().to_owned()).collect(), report);
        report.well(match subscriptions {
            0 => "the four keys are valid; a sample has no stored web push subscription".to_owned(),
            _ => format!(
                "the four keys are valid; every web push subscription of a sample of {subscriptions} needs one of them"
            ),
        });
    }
}

/// Whether the HTTP API lists the keys of the secret. A rotation publishes at once, and dispatch within minutes.
fn judge_published(keys: &VapidKeys, published: Option<&[PublicKey]>, report: &mut Report) {
    const REMEDY: &str = "dispatch publishes the public keys every five minutes: if this persists, look for the reason in its log, \
                          and check its schedule in EventBridge";
    let Some(published) = published else {
        let found = "the public VAPID keys were never published: the HTTP API responds 503 to browsers that ask for them";
        return report.fault(found, REMEDY);
    };
    let is_listed = keys.published().zip(published).all(|(key, listed)| {
        *key.id == listed.id
            && key.public_base64url == listed.public_base64url
            && key.is_current == listed.is_current
    });
    if !is_listed || keys.ids().count() != published.len() {
        report.warning("the HTTP API lists other VAPID keys than those in the secret", REMEDY);
    }
}

/// A key's text; `None` if the environment names none, which the check of the configuration reports.
async fn secret(
    client: &aws_sdk_secretsmanager::Client,
    dispatch: &Function,
    key: &Key,
) -> Result<Option<Secret>, AwsError> {
    if let Some(text) = dispatch.variable(key.value) {
        return Ok(Some(Secret::new(text.to_owned())));
    }
    let Some(id) = dispatch.variable(key.secret) else { return Ok(None) };
    let value = client.get_secret_value().secret_id(id).send().await;
    let value = classified("secretsmanager:GetSecretValue", value)?;
    let binary = |bytes: aws_sdk_secretsmanager::primitives::Blob| String::from_utf8(bytes.into_inner()).ok();
    let text = value.secret_string.or_else(|| value.secret_binary.and_then(binary));
    // Bytes that are no text are no key.
    Ok(Some(Secret::new(text.unwrap_or_default())))
}

fn parsed<K, E: std::fmt::Display>(
    key: &Key,
    dispatch: &Function,
    secret: Result<Option<Secret>, AwsError>,
    parse: impl Fn(&str) -> Result<K, E>,
    report: &mut Report,
) -> Option<K> {
    let (name, id) = (key.name, dispatch.variable(key.secret).unwrap_or(key.value));
    if secret.as_ref().is_err_and(|error| *error == AwsError::Absent) {
        report.fault(
            format!("the secret with the {name} does not exist, or is being deleted: {id}"),
            "restore it (aws secretsmanager restore-secret), or name another one in the template's parameters",
        );
        return None;
    }
    let secret = report.read(format!("the secret with the {name}"), secret)??;
    // The parsers' errors hold no key.
    let invalid = |error| {
        let remedy =
            format!("put the key back into {id}; its version AWSPREVIOUS may still hold the previous value");
        report.fault(format!("the {name} is not valid: {error}"), remedy);
    };
    parse(secret.expose()).map_err(invalid).ok()
}

/// The number of stored web push subscriptions, and how many of them name each id of a VAPID key, in one page of the table: a
/// mebibyte at most, about 130 read units.
async fn sample(stack: &Stack) -> Result<(usize, BTreeMap<String, usize>), AwsError> {
    let scanned = stack
        .target
        .dynamodb()
        .scan()
        .table_name(&stack.target.tables.subscriptions)
        .limit(SAMPLE)
        .projection_expression("#kind, #vapid_key_id")
        .expression_attribute_names("#kind", "kind")
        .expression_attribute_names("#vapid_key_id", "vapid_key_id")
        .send()
        .await;
    // The check of the tables reports that the table does not exist.
    let items = match classified("dynamodb:Scan", scanned) {
        Err(AwsError::Absent) => Vec::new(),
        scanned => scanned?.items.unwrap_or_default(),
    };
    let text = |value: &AttributeValue| value.as_s().ok().cloned();
    let (mut subscriptions, mut named) = (0, BTreeMap::new());
    for item in items.iter().filter(|item| item.get("kind").and_then(text).as_deref() == Some("web_push")) {
        subscriptions += 1;
        if let Some(id) = item.get("vapid_key_id").and_then(text) {
            *named.entry(id).or_default() += 1;
        }
    }
    Ok((subscriptions, named))
}

fn judge_sample(
    subscriptions: usize,
    named: &BTreeMap<String, usize>,
    known: &BTreeSet<String>,
    report: &mut Report,
) {
    let unknown: Vec<_> = named.iter().filter(|(id, _)| !known.contains(*id)).collect();
    if unknown.is_empty() {
        return;
    }
    let count: usize = unknown.iter().map(|(_, count)| **count).sum();
    let ids = unknown.iter().map(|(id, count)| format!("{id} ({count})")).collect::<Vec<_>>().join(", ");
    report.fault(
        format!(
            "of a sample of {subscriptions} web push subscriptions, {count} need VAPID keys that are not configured: {ids}"
        ),
        "add those keys to the secret beside the others, as {\"default\": ID, \"keys\": {ID: KEY, …}}; without them those \
         browsers must subscribe again",
    );
}

const HOUR: Duration = Duration::from_secs(3_600);

/// CloudWatch's pattern for failed calls to AWS in the functions' logs; [`judge_calls`] checks its result.
const FAILED_CALLS: &str = "{ $.event = \"infrastructure\" }";

/// What is encrypted, and its key unless that is AWS's own.
type Encrypted = (String, Result<Option<String>, AwsError>);

pub(super) async fn check_encryption(stack: &Stack, report: &mut Report) {
    let Some(outputs) = stack.outputs_for(report) else { return };
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (what, key) in encrypted_queues(stack, outputs).await.into_iter().chain(secrets(stack).await) {
        match key {
            Ok(Some(key)) => keys.entry(key).or_default().push(what),
            Ok(None) => {}
            // The checks of the queues and of the keys report what does not exist or cannot be read.
            Err(error) => report.unchecked(format!("the key of {what}"), error.in_words()),
        }
    }
    for (key, encrypted) in &keys {
        judge_key(key, &encrypted.join(", "), stack.parameters.values(), report);
    }
    stack.skip_unknown_functions("log", report);
    let since = System.now().minus(HOUR);
    let logged = stack.known_functions();
    let logged = logged.map(async |it| (it.name, stack.log(it, FAILED_CALLS, since).await));
    for (function, lines) in join_all(logged).await {
        if let Some((lines, all)) = report.read(format!("the log of {function}"), lines) {
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

/// The stack's queues, and the producers' queue of events.
async fn encrypted_queues(stack: &Stack, outputs: &Outputs) -> Vec<Encrypted> {
    let client = aws_sdk_sqs::Client::new(&stack.target.sdk);
    let of_url = async |url: &str| {
        let mut attributes = attributes(&client, url).await?;
        Ok(attributes.remove(&QueueAttributeName::KmsMasterKeyId).and_then(own))
    };
    let of_queue = async |output_name| of_url(output(outputs, output_name)?).await;
    let own = queues(outputs);
    let encrypted = own.map(async |it| (format!("the {} queue", it.name), of_queue(it.output).await));
    let mut encrypted = join_all(encrypted).await;
    // A stack that relays events hands this one to cleanup alone.
    let variable = |function: &'static str, name| {
        let function = stack.known_functions().find(|it| it.name == function);
        function.and_then(|it| it.variable(name))
    };
    let events = if outputs.contains_key(RELAY.output) {
        variable("cleanup", "PRODUCERS_EVENTS_QUEUE_ARN")
    } else {
        variable("dispatch", "EVENTS_QUEUE_ARN")
    };
    if let Some((account, name)) = events.and_then(|arn| arn.rsplit(':').nth(1).zip(arn.rsplit(':').next())) {
        let found = client.get_queue_url().queue_name(name).queue_owner_aws_account_id(account).send().await;
        let key =
            async { of_url(classified("sqs:GetQueueUrl", found)?.queue_url().unwrap_or_default()).await };
        encrypted.push(("the events queue".to_owned(), key.await));
    }
    encrypted
}

async fn secrets(stack: &Stack) -> Vec<Encrypted> {
    let client = aws_sdk_secretsmanager::Client::new(&stack.target.sdk);
    let Ok(dispatch) = &stack.dispatch else { return Vec::new() };
    let named = KEYS.iter().filter_map(|key| Some((key.name, dispatch.variable(key.secret)?)));
    let keys = named.map(async |(name, id)| {
        let described = client.describe_secret().secret_id(id).send().await;
        let described = classified("secretsmanager:DescribeSecret", described);
        (format!("the secret with the {name}"), described.map(|secret| secret.kms_key_id.and_then(own)))
    });
    join_all(keys).await
}

/// The key, unless it is AWS's own, which every caller of the service may use.
fn own(key: String) -> Option<String> {
    Some(key).filter(|key| !key.is_empty() && !key.contains("alias/aws/"))
}

/// Keys come as an id, an alias or an ARN: all three end in the same word.
fn judge_key<'a>(
    key: &str,
    encrypted: &str,
    parameters: impl Iterator<Item = &'a String>,
    report: &mut Report,
) {
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let mut named = parameters.filter(|value| value.contains(":kms:")).peekable();
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

/// Reports calls that were refused for their key. Throttling is temporary, and not counted.
fn judge_calls(function: &str, lines: &[(Timestamp, String)], report: &mut Report) {
    let is_of_a_key = |code: &str| {
        let begins = ["KMS", "Kms", "DecryptionFailure"].iter().any(|prefix| code.starts_with(prefix));
        begins && !code.contains("Throttl")
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for call in lines.iter().filter_map(|(_, line)| serde_json::from_str::<Value>(line).ok()) {
        let (operation, code) = (call["operation"].as_str(), call["code"].as_str());
        if let (Some(operation), Some(code), true) = (operation, code, call["event"] == "infrastructure")
            && is_of_a_key(code)
        {
            *counts.entry(format!("{operation}: {code}")).or_default() += 1;
        }
    }
    for (call, count) in counts {
        report.fault(
            format!("{function} could not use a KMS key: {call} ({count} within the last hour)"),
            "check in KMS that the key is enabled, and that its policy and the function's role allow kms:Decrypt and, for \
             a queue, kms:GenerateDataKey",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            report::tests::{finds, found},
            stack::tests::dispatch,
        },
        *,
    };

    #[test]
    fn an_invalid_or_absent_key_is_a_fault_that_does_not_show_it() {
        let variables = [("VAPID_SECRET_ID", "shop-vapid"), ("WEBHOOK_KEY_SECRET_ID", "shop-webhooks")];
        let dispatch = dispatch(30, &variables);
        let found = found(|report| {
            let invalid = Ok(Some(Secret::new("s3cret rubbish".to_owned())));
            assert!(parsed(&VAPID, &dispatch, invalid, VapidKeys::parse, report).is_none());
            parsed(&WEBHOOKS, &dispatch, Err(AwsError::Absent), WebhookKeys::parse, report);
        });
        let [invalid, absent] = &found[..] else { panic!("{found:?}") };
        assert!(invalid.starts_with("fault: the VAPID key is not valid") && !invalid.contains("s3cret"));
        assert!(
            absent.starts_with("fault: the secret with the webhook key") && absent.ends_with("shop-webhooks")
        );
    }

    #[test]
    fn published_keys_other_than_those_of_the_secret_are_found() {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        let [a, b] = [1, 2].map(|byte| URL_SAFE_NO_PAD.encode([byte; 32]));
        let keys = |text: &str| VapidKeys::parse(text).expect("keys");
        let both = |current| {
            keys(&format!(r#"{{"default":"a","current":"{current}","keys":{{"a":"{a}","b":"{b}"}}}}"#))
        };
        let published = |keys: &VapidKeys| -> Vec<PublicKey> {
            let public = |key: redial_adapters::vapid::PublishedKey<'_>| PublicKey {
                id: key.id.clone(),
                public_base64url: key.public_base64url.to_owned(),
                is_current: key.is_current,
            };
            keys.published().map(public).collect()
        };
        let other = "warning: the HTTP API lists other VAPID keys";
        for (published, expected) in [
            (Some(published(&both("b"))), ""),
            (None, "fault: the public VAPID keys were never published"),
            (Some(published(&both("a"))), other),
            (Some(published(&keys(&format!(r#"{{"default":"b","keys":{{"b":"{b}"}}}}"#)))), other),
        ] {
            finds(expected, |report| judge_published(&both("b"), published.as_deref(), report));
        }
    }

    #[test]
    fn subscriptions_of_unknown_keys_are_counted_by_key() {
        let named = [("2024", 3), ("2025", 2), ("2026", 90)].map(|(id, count)| (id.to_owned(), count)).into();
        let expected = "fault: of a sample of 100 web push subscriptions, 5 need VAPID keys that are not configured: \
                        2024 (3), 2025 (2)";
        finds(expected, |report| judge_sample(100, &named, &BTreeSet::from(["2026".to_owned()]), report));
    }

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
            finds(expected, |report| judge_key(key, "the events queue", parameters.iter(), report));
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
